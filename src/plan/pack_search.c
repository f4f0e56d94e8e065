/* Many short searches over one part.
 *
 * Corner searches have heavy tails: one setting falls into a layout without a single step back where
 * another is lost for ever. So settings (rule, order of choices, noise) take turns with small budgets. Soft
 * searches, which give way if nothing fits, make layouts; hard searches try one capacity, first the target
 * itself, then by bisection between what failed and what was found; budgets grow from cycle to cycle until
 * the effort is spent or the bounds meet.
 *
 * A batch is a fixed list of searches on any number of threads with one result. A task is *decisive* when it
 * refutes its capacity or finds a layout that is good enough. The result is a function of the tasks up to the
 * first decisive one in list order: the least peak, the lowest number of equals. Threads take tasks in order
 * and stop past the first decisive task known so far; what was run beyond it is forgotten, steps included, so
 * one thread and many give the same answer. */
#include <string.h>

#include "base/parallel.h"
#include "plan/pack_internal.h"

/* ---- A batch ----------------------------------------------------------------------------------- */

static void run_task(void *context, size_t index, uint32_t worker) {
    weir_pack__part_search *search = context;
    const weir_pack__part *part = &search->part;
    if (index > atomic_load(&search->decisive) || atomic_load(&search->is_short_of_memory))
        return;
    weir_pack__outcome *outcome = &search->outcomes[index];
    uint64_t *offsets = search->layouts + index * part->count;
    *outcome = (weir_pack__outcome){.peak = UINT64_MAX};
    if (weir_pack__corner_run(search->corners[worker], &search->tasks[index], offsets, &outcome->end,
                              &outcome->steps, NULL)) {
        atomic_store(&search->is_short_of_memory, true);
        return;
    }
    if (outcome->end == WEIR_PACK__SEARCH_SOLVED) {
        outcome->peak = 0;
        for (uint32_t i = 0; i < part->count; i++)
            if (offsets[i] + part->size[i] > outcome->peak)
                outcome->peak = offsets[i] + part->size[i];
    }
    if (outcome->end == WEIR_PACK__SEARCH_REFUTED || outcome->peak <= search->enough) {
        unsigned seen = atomic_load(&search->decisive);
        while (index < seen &&
               !atomic_compare_exchange_weak(&search->decisive, &seen, WEIR__NARROW(unsigned, index)))
            continue;
    }
}

/* Runs searches like `like`, each with a setting of its own, until one has a layout of at most `enough`, and
 * keeps what is better. *end is that of the one that is chosen. */
static weir_status run_batch(weir_pack__part_search *search, weir_pack__search_task like, unsigned count,
                             uint64_t enough, weir_pack__search_end *end, weir_error *error) {
    weir_pack__search_task tasks[WEIR_PACK__TASKS_MAX];
    assert(count > 0 && count <= WEIR_PACK__TASKS_MAX && "a batch has room for its tasks");
    for (unsigned i = 0; i < count; i++) {
        unsigned number = search->number++;
        tasks[i] = like;
        tasks[i].order = (weir_pack__corner_order)(number % WEIR_PACK__ORDERS);
        tasks[i].rule = (weir_pack__corner_rule)(number / WEIR_PACK__ORDERS % WEIR_PACK__RULES);
        tasks[i].seed = number;
        tasks[i].fit = number % 2 ? 3 : 0;
    }
    search->tasks = tasks;
    search->enough = enough;
    atomic_store(&search->decisive, count - 1);
    atomic_store(&search->is_short_of_memory, false);
    weir__parallel(search->env, search->worker_count, count, run_task, search);
    if (atomic_load(&search->is_short_of_memory))
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, 0);
    unsigned last = atomic_load(&search->decisive);
    const weir_pack__outcome *outcomes = search->outcomes;
    unsigned chosen = last;
    for (unsigned i = 0; i <= last; i++) {
        search->steps += outcomes[i].steps;
        if (outcomes[i].peak < outcomes[chosen].peak ||
            (outcomes[i].peak == outcomes[chosen].peak && i < chosen && outcomes[i].peak != UINT64_MAX))
            chosen = i;
    }
    *end = outcomes[chosen].end;
    if (outcomes[chosen].peak < search->peak) {
        search->peak = outcomes[chosen].peak;
        memcpy(search->offsets, search->layouts + (size_t)chosen * search->part.count,
               search->part.count * sizeof *search->offsets);
    }
    return WEIR_OK;
}

/* ---- Settings and capacities ------------------------------------------------------------------- */

static bool is_done(const weir_pack__part_search *search, uint64_t limit) {
    return search->peak <= search->target || search->peak <= search->proven || search->steps >= limit;
}

/* How many of `count` searches of `budget` steps the effort allows. */
static unsigned affordable(const weir_pack__part_search *search, uint64_t limit, unsigned count,
                           uint64_t budget) {
    uint64_t left = limit > search->steps ? (limit - search->steps) / (budget + 1) : 0;
    return left < count ? (unsigned)left : count;
}

static uint64_t floor_of(const weir_pack__part_search *search) {
    return search->target > search->proven ? search->target : search->proven;
}

/* Soft searches until `limit`, started at capacities between the floor and the peak: eighths of the way,
 * round by round upwards. A part of a large problem affords a round or two at a time, which would all be the
 * lowest ones, where nothing fits: there the rounds go on from where they were, in an order that soon has
 * tried low and high. */
static weir_status search_soft(weir_pack__part_search *search, uint64_t limit, weir_error *error) {
    enum { COUNT = 10, PATIENCE = 20, EIGHTHS = 7, STRIDE = 4 };
    weir_pack__search_end end;
    for (unsigned round = 0; !is_done(search, limit); round++) {
        uint64_t low = floor_of(search);
        unsigned eighths = 1 + (search->is_of_large ? search->round++ * STRIDE : round) % EIGHTHS;
        unsigned count = affordable(search, limit, COUNT, search->dive);
        if (count == 0)
            break;
        uint64_t share = (limit - search->steps) / count;
        weir_pack__search_task soft = {.capacity = low + (search->peak - low) / 8 * eighths,
                                       .budget = share < 4 * search->dive ? share : 4 * search->dive,
                                       .soft = true,
                                       .patience = PATIENCE};
        WEIR__TRY(run_batch(search, soft, count, search->target, &end, error));
    }
    return WEIR_OK;
}

/* One pass of bisection. Capacities that a search did not settle count as failed for this pass only. False
 * in *going: the limit allows no further search. */
static weir_status bisect(weir_pack__part_search *search, uint64_t limit, bool *going, weir_error *error) {
    enum { COUNT = 20 };
    uint64_t low = floor_of(search);
    for (bool first = true; !is_done(search, limit) && low < search->peak; first = false) {
        if (!first && search->peak - low <= search->peak / 1024 && low > search->proven)
            break;
        uint64_t capacity = first ? low : low + (search->peak - low) / 2;
        weir_pack__search_task hard = {.capacity = capacity, .budget = search->cycle};
        weir_pack__search_end end;
        unsigned count = affordable(search, limit, COUNT, search->cycle);
        *going = count > 0;
        if (!*going)
            break;
        WEIR__TRY(run_batch(search, hard, count, capacity, &end, error));
        if (end == WEIR_PACK__SEARCH_REFUTED && search->proven <= capacity)
            search->proven = capacity + 1;
        if (end != WEIR_PACK__SEARCH_SOLVED)
            low = capacity + 1;
    }
    return WEIR_OK;
}

/* Dives to begin with: as many as half of the effort allows. */
static weir_status search_dives(weir_pack__part_search *search, uint64_t limit, weir_error *error) {
    enum { DIVES = 5, STEPS_PER_MEMBERSHIP = 100 };
    uint64_t memberships = search->part.members_at[search->part.section_count];
    unsigned count = affordable(search, limit, DIVES, STEPS_PER_MEMBERSHIP * memberships);
    if (count == 0)
        return WEIR_OK;
    search->layouts = weir__allocate(search->env, (size_t)WEIR_PACK__TASKS_MAX * search->part.count,
                                     sizeof *search->layouts);
    if (!search->layouts)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, search->part.count * sizeof *search->layouts);
    for (unsigned i = 0; i < search->worker_count; i++)
        WEIR__TRY(weir_pack__corner_open(search->env, &search->part, &search->corners[i], error));
    uint64_t start = search->steps;
    weir_pack__search_task dive = {
        .capacity = floor_of(search), .budget = (limit - start) / count, .soft = true};
    weir_pack__search_end end;
    WEIR__TRY(run_batch(search, dive, count, search->target, &end, error));
    search->dive = search->cycle = (search->steps - start) / count + 1;
    return WEIR_OK;
}

weir_status weir_pack__search_part(weir_pack__part_search *search, uint64_t limit, bool with_hard,
                                   weir_error *error) {
    if (is_done(search, limit))
        return WEIR_OK;
    if (!search->layouts)
        WEIR__TRY(search_dives(search, limit, error));
    if (!search->layouts)
        return WEIR_OK;
    for (bool going = with_hard; going && !is_done(search, limit); search->cycle += search->cycle / 2) {
        uint64_t start = search->steps;
        WEIR__TRY(bisect(search, limit, &going, error));
        uint64_t soft_limit = search->steps + (search->steps - start);
        WEIR__TRY(search_soft(search, soft_limit < limit ? soft_limit : limit, error));
    }
    return search_soft(search, limit, error);
}

weir_status weir_pack__search_open(const weir_env *env, const weir_pack__row *rows, uint32_t count,
                                   uint32_t threads, weir_pack__part_search *search, weir_error *error) {
    *search = (weir_pack__part_search){.env = env, .worker_count = threads < 1 ? 1 : threads};
    if (search->worker_count > WEIR_PACK__THREADS_MAX)
        search->worker_count = WEIR_PACK__THREADS_MAX;
    WEIR__TRY(weir_pack__part_open(env, rows, count, &search->part, error));
    search->proven = search->part.lower_bound;
    search->offsets = weir__allocate(env, count, sizeof *search->offsets);
    return search->offsets ? WEIR_OK
                           : weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *search->offsets);
}

void weir_pack__search_close(weir_pack__part_search *search) {
    if (!search->env)
        return;
    for (unsigned i = 0; i < search->worker_count; i++)
        weir_pack__corner_close(search->corners[i]);
    weir__release(search->env, search->layouts);
    weir__release(search->env, search->offsets);
    weir_pack__part_close(&search->part);
    *search = (weir_pack__part_search){0};
}
