/* Many short searches over one part.
 *
 * Corner searches have heavy tails: one setting falls into a layout without a single step back where
 * another is lost for ever. So settings (rule, order of choices, noise) take turns with small budgets. Soft
 * searches, which give way where nothing fits, make layouts; hard searches try one capacity, first the
 * target itself, then by bisection between what failed and what was found; budgets grow from cycle to cycle
 * until the effort is spent or the bounds meet. */
#include "plan/pack_batch.h"

#include <string.h>

enum { HARD_EFFORT = 4 };

static weir__search_task make_task(unsigned number, uint64_t capacity, uint64_t budget) {
    return (weir__search_task){.order = (weir__corner_order)(number % WEIR__ORDERS),
                               .rule = (weir__corner_rule)(number / WEIR__ORDERS % WEIR__RULES),
                               .seed = number,
                               .fit = number % 2 ? 3 : 0,
                               .capacity = capacity,
                               .budget = budget};
}

static void keep_if_better(weir__part_search *search, const weir__batch_outcome *best,
                           const uint64_t *offsets) {
    search->steps += best->steps;
    if (best->peak < search->peak) {
        search->peak = best->peak;
        memcpy(search->offsets, offsets, search->part->count * sizeof *offsets);
    }
}

static bool is_done(const weir__part_search *search) {
    return search->peak <= search->target || search->peak <= search->proven ||
           search->steps >= search->budget;
}

/* How many of `count` searches of `budget` steps the effort allows, at least one. */
static unsigned affordable(const weir__part_search *search, unsigned count, uint64_t budget) {
    uint64_t left = search->budget > search->steps ? (search->budget - search->steps) / (budget + 1) : 0;
    return left < 1 ? 1 : left < count ? (unsigned)left : count;
}

static weir_status run_soft(weir__part_search *search, weir__batch *batch, uint64_t capacity, unsigned count,
                            uint32_t patience, uint64_t budget, weir_error *error) {
    weir__search_task tasks[WEIR__BATCH_TASKS_MAX];
    for (unsigned i = 0; i < count; i++) {
        tasks[i] = make_task(search->number++, capacity, budget);
        tasks[i].soft = true;
        tasks[i].patience = patience;
    }
    weir__batch_outcome best;
    const uint64_t *offsets;
    weir_status status = weir__batch_run(batch, tasks, count, search->target, &best, &offsets, error);
    if (!status)
        keep_if_better(search, &best, offsets);
    return status;
}

static weir_status run_hard(weir__part_search *search, weir__batch *batch, uint64_t capacity, uint64_t budget,
                            weir__search_end *end, weir_error *error) {
    enum { COUNT = 20 };
    weir__search_task tasks[COUNT];
    unsigned count = affordable(search, COUNT, budget);
    for (unsigned i = 0; i < count; i++)
        tasks[i] = make_task(search->number++, capacity, budget);
    weir__batch_outcome best;
    const uint64_t *offsets;
    weir_status status = weir__batch_run(batch, tasks, count, capacity, &best, &offsets, error);
    if (status)
        return status;
    keep_if_better(search, &best, offsets);
    *end = best.end;
    if (best.end == WEIR__SEARCH_REFUTED && search->proven <= capacity)
        search->proven = capacity + 1;
    return WEIR_OK;
}

static uint64_t floor_of(const weir__part_search *search) {
    return search->target > search->proven ? search->target : search->proven;
}

static weir_status search_soft(weir__part_search *search, weir__batch *batch, uint64_t dive, uint64_t limit,
                               weir_error *error) {
    enum { COUNT = 10, PATIENCE = 20 };
    weir_status status = WEIR_OK;
    for (unsigned round = 0; !status && !is_done(search) && search->steps < limit; round++) {
        uint64_t low = floor_of(search);
        uint64_t capacity = low + (search->peak - low) / 8 * (1 + round % 7);
        status =
            run_soft(search, batch, capacity, affordable(search, COUNT, dive), PATIENCE, 4 * dive, error);
    }
    return status;
}

/* One pass of bisection. Capacities that a search did not settle count as failed for this pass only. */
static weir_status bisect(weir__part_search *search, weir__batch *batch, uint64_t budget, weir_error *error) {
    weir_status status = WEIR_OK;
    uint64_t low = floor_of(search);
    for (bool first = true; !status && !is_done(search) && low < search->peak; first = false) {
        if (!first && search->peak - low <= search->peak / 1024 && low > search->proven)
            break;
        uint64_t capacity = first ? low : low + (search->peak - low) / 2;
        weir__search_end end;
        status = run_hard(search, batch, capacity, budget, &end, error);
        if (!status && end != WEIR__SEARCH_SOLVED)
            low = capacity + 1;
    }
    return status;
}

static weir_status search_cycles(weir__part_search *search, weir__batch *batch, uint64_t dive,
                                 weir_error *error) {
    if (search->effort < HARD_EFFORT)
        return search_soft(search, batch, dive, search->budget, error);
    weir_status status = WEIR_OK;
    for (uint64_t budget = dive; !status && !is_done(search); budget += budget / 2) {
        uint64_t start = search->steps;
        status = bisect(search, batch, budget, error);
        uint64_t spent = search->steps - start;
        if (!status)
            status = search_soft(search, batch, dive, search->steps + spent, error);
    }
    return status;
}

/* Dives to start with. Alone they may take half of what is left; a full search makes one even beyond the
 * budget, because nothing else is as good on a large part. */
static unsigned count_dives(const weir__part_search *search, bool dives_only) {
    enum { DIVES = 5, STEPS_PER_MEMBERSHIP = 100, OVERDRAFT = 16 };
    uint64_t estimate =
        STEPS_PER_MEMBERSHIP * (uint64_t)search->part->members_at[search->part->section_count];
    uint64_t left = search->budget > search->steps ? search->budget - search->steps : 0;
    uint64_t dives = left / (dives_only ? 2 : 1) / estimate;
    if (dives == 0 && !dives_only && estimate / OVERDRAFT <= left)
        return 1;
    return dives < DIVES ? (unsigned)dives : DIVES;
}

weir_status weir__search_part(weir__part_search *search, bool dives_only, weir_error *error) {
    unsigned dives = count_dives(search, dives_only);
    if (dives == 0 || is_done(search))
        return WEIR_OK;
    weir__batch *batch = weir__allocate(search->env, 1, sizeof *batch);
    if (!batch)
        return weir__out_of_memory(error, WEIR__PACK_OPERATOR, sizeof *batch);
    weir_status status = weir__batch_open(search->env, search->part, search->threads, batch, error);
    if (!status) {
        uint64_t start = search->steps;
        status = run_soft(search, batch, floor_of(search), dives, 0, UINT64_MAX, error);
        uint64_t dive = (search->steps - start) / dives + 1;
        if (!status && !dives_only)
            status = search_cycles(search, batch, dive, error);
        weir__batch_close(batch);
    }
    weir__release(search->env, batch);
    return status;
}
