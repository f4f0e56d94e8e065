/* Many short searches over one part.
 *
 * Corner searches have heavy tails: one setting falls into a layout without a single step back where
 * another is lost for ever. So settings (rule, order of choices, noise) take turns with small budgets. Soft
 * searches, which give way if nothing fits, make layouts; hard searches try one capacity, first the target
 * itself, then by bisection between what failed and what was found; budgets grow from cycle to cycle until
 * the effort is spent or the bounds meet. */
#include "plan/pack_batch.h"

#include <string.h>

static weir_pack__search_task make_task(unsigned number, uint64_t capacity, uint64_t budget) {
    return (weir_pack__search_task){
        .order = (weir_pack__corner_order)(number % WEIR_PACK__ORDERS),
        .rule = (weir_pack__corner_rule)(number / WEIR_PACK__ORDERS % WEIR_PACK__RULES),
        .seed = number,
        .fit = number % 2 ? 3 : 0,
        .capacity = capacity,
        .budget = budget};
}

static void keep_if_better(weir_pack__part_search *search, const weir_pack__batch_outcome *best,
                           const uint64_t *offsets) {
    search->steps += best->steps;
    if (best->peak < search->peak) {
        search->peak = best->peak;
        memcpy(search->offsets, offsets, search->part->count * sizeof *offsets);
    }
}

static bool is_done(const weir_pack__part_search *search, uint64_t limit) {
    return search->peak <= search->target || search->peak <= search->proven || search->steps >= limit;
}

/* How many of `count` searches of `budget` steps the effort allows. */
static unsigned affordable(const weir_pack__part_search *search, uint64_t limit, unsigned count,
                           uint64_t budget) {
    uint64_t left = limit > search->steps ? (limit - search->steps) / (budget + 1) : 0;
    return left < count ? (unsigned)left : count;
}

static weir_status run_soft(weir_pack__part_search *search, uint64_t capacity, unsigned count,
                            uint32_t patience, uint64_t budget, weir_error *error) {
    weir_pack__search_task tasks[WEIR_PACK__BATCH_TASKS_MAX];
    for (unsigned i = 0; i < count; i++) {
        tasks[i] = make_task(search->number++, capacity, budget);
        tasks[i].soft = true;
        tasks[i].patience = patience;
    }
    weir_pack__batch_outcome best;
    const uint64_t *offsets;
    weir_status status =
        weir_pack__batch_run(search->batch, tasks, count, search->target, &best, &offsets, error);
    if (!status)
        keep_if_better(search, &best, offsets);
    return status;
}

static weir_status run_hard(weir_pack__part_search *search, uint64_t capacity, unsigned count,
                            uint64_t budget, weir_pack__search_end *end, weir_error *error) {
    weir_pack__search_task tasks[WEIR_PACK__BATCH_TASKS_MAX];
    for (unsigned i = 0; i < count; i++)
        tasks[i] = make_task(search->number++, capacity, budget);
    weir_pack__batch_outcome best;
    const uint64_t *offsets;
    weir_status status = weir_pack__batch_run(search->batch, tasks, count, capacity, &best, &offsets, error);
    if (status)
        return status;
    keep_if_better(search, &best, offsets);
    *end = best.end;
    if (best.end == WEIR_PACK__SEARCH_REFUTED && search->proven <= capacity)
        search->proven = capacity + 1;
    return WEIR_OK;
}

static uint64_t floor_of(const weir_pack__part_search *search) {
    return search->target > search->proven ? search->target : search->proven;
}

/* Eighths of the way from the floor to the peak at which soft searches start, round by round: upwards. A
 * part of a large problem affords a round or two at a time, which would all be the lowest ones, where nothing
 * fits: there the rounds go on from where they were, in an order that soon has tried low and high. */
static unsigned eighths_of(weir_pack__part_search *search, unsigned round) {
    enum { EIGHTHS = 7, STRIDE = 4 };
    return 1 + (search->is_of_large ? search->round++ * STRIDE : round) % EIGHTHS;
}

/* Soft searches until `limit`, started at capacities between the floor and the peak. */
static weir_status search_soft(weir_pack__part_search *search, uint64_t limit, weir_error *error) {
    enum { COUNT = 10, PATIENCE = 20 };
    weir_status status = WEIR_OK;
    for (unsigned round = 0; !status && !is_done(search, limit); round++) {
        uint64_t low = floor_of(search);
        uint64_t capacity = low + (search->peak - low) / 8 * eighths_of(search, round);
        unsigned count = affordable(search, limit, COUNT, search->dive);
        if (count == 0)
            break;
        uint64_t share = (limit - search->steps) / count;
        status = run_soft(search, capacity, count, PATIENCE,
                          share < 4 * search->dive ? share : 4 * search->dive, error);
    }
    return status;
}

/* One pass of bisection. Capacities that a search did not settle count as failed for this pass only. False
 * in *going: the limit allows no further search. */
static weir_status bisect(weir_pack__part_search *search, uint64_t limit, bool *going, weir_error *error) {
    enum { COUNT = 20 };
    weir_status status = WEIR_OK;
    uint64_t low = floor_of(search);
    for (bool first = true; !status && !is_done(search, limit) && low < search->peak; first = false) {
        if (!first && search->peak - low <= search->peak / 1024 && low > search->proven)
            break;
        uint64_t capacity = first ? low : low + (search->peak - low) / 2;
        weir_pack__search_end end;
        unsigned count = affordable(search, limit, COUNT, search->cycle);
        *going = count > 0;
        if (!*going)
            break;
        status = run_hard(search, capacity, count, search->cycle, &end, error);
        if (!status && end != WEIR_PACK__SEARCH_SOLVED)
            low = capacity + 1;
    }
    return status;
}

static weir_status search_cycles(weir_pack__part_search *search, uint64_t limit, weir_error *error) {
    weir_status status = WEIR_OK;
    bool going = true;
    for (; !status && going && !is_done(search, limit); search->cycle += search->cycle / 2) {
        uint64_t start = search->steps;
        status = bisect(search, limit, &going, error);
        uint64_t soft_limit = search->steps + (search->steps - start);
        if (!status)
            status = search_soft(search, soft_limit < limit ? soft_limit : limit, error);
    }
    return status ? status : search_soft(search, limit, error);
}

/* Dives to begin with: as many as half of the effort allows. */
static weir_status search_dives(weir_pack__part_search *search, uint64_t limit, weir_error *error) {
    enum { DIVES = 5, STEPS_PER_MEMBERSHIP = 100 };
    uint64_t memberships = search->part->members_at[search->part->section_count];
    uint64_t left = limit > search->steps ? limit - search->steps : 0;
    unsigned count = affordable(search, search->steps + left, DIVES, STEPS_PER_MEMBERSHIP * memberships);
    if (count == 0)
        return WEIR_OK;
    search->batch = weir__allocate(search->env, 1, sizeof *search->batch);
    if (!search->batch)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, sizeof *search->batch);
    weir_status status =
        weir_pack__batch_open(search->env, search->part, search->threads, search->batch, error);
    if (status) {
        weir__release(search->env, search->batch);
        search->batch = NULL;
        return status;
    }
    uint64_t start = search->steps;
    status = run_soft(search, floor_of(search), count, 0, left / count, error);
    search->dive = search->cycle = (search->steps - start) / count + 1;
    return status;
}

weir_status weir_pack__search_part(weir_pack__part_search *search, uint64_t limit, bool with_hard,
                                   weir_error *error) {
    if (is_done(search, limit))
        return WEIR_OK;
    weir_status status = search->batch ? WEIR_OK : search_dives(search, limit, error);
    if (status || !search->batch)
        return status;
    return with_hard ? search_cycles(search, limit, error) : search_soft(search, limit, error);
}

void weir_pack__search_close(weir_pack__part_search *search) {
    if (!search->batch)
        return;
    weir_pack__batch_close(search->batch);
    weir__release(search->env, search->batch);
    search->batch = NULL;
}
