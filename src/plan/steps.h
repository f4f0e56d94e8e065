/* A graph in one mode as a list of base steps over numbered tensors, and schedules of them: what
 * rematerialisation (remat*.c) and reordering (reorder*.c) search in. docs/spec/03d-remat.md has the rules.
 * How long every instance of a tensor lives follows from a schedule alone, in one place
 * (weir_plan__schedule_lives): the searches, the plan and the checks all ask there. */
#ifndef WEIR_PLAN_STEPS_H
#define WEIR_PLAN_STEPS_H

#include "plan/planning.h"

#define WEIR_PLAN__COST_NEVER ((uint64_t)1 << 60) /* a price that cannot be paid; also "no such step" */
#define WEIR_PLAN__COST_MAX   (((uint64_t)1 << 56) - 1)

/* Lists of numbers one after the other: list i is items[first[i], first[i + 1]). */
typedef struct weir_plan__lists {
    uint32_t *first;
    uint32_t *items;
} weir_plan__lists;

typedef struct weir_plan__list {
    const uint32_t *items;
    uint32_t count;
} weir_plan__list;

static inline bool weir_plan__list_has(weir_plan__list list, uint32_t item) {
    for (uint32_t i = 0; i < list.count; i++)
        if (list.items[i] == item)
            return true;
    return false;
}

static inline weir_plan__list weir_plan__list_at(const weir_plan__lists *lists, uint32_t index) {
    uint32_t first = lists->first[index];
    return (weir_plan__list){lists->items + first, lists->first[index + 1] - first};
}

/* A gradient that backward mode makes: it lives from one base step to another. */
typedef struct weir_plan__gradient_life {
    uint64_t size; /* rounded */
    uint32_t tensor;
    uint32_t first;
    uint32_t last;
} weir_plan__gradient_life;

enum { WEIR_PLAN__BUDGETS_MAX = 16 };

/* Bytes that an arena may take, in bytewise order of the arenas' names. */
typedef struct weir_plan__budget {
    uint32_t arena;
    uint64_t bytes;
} weir_plan__budget;

typedef struct weir_plan__budgets {
    weir_plan__budget items[WEIR_PLAN__BUDGETS_MAX];
    unsigned count;
} weir_plan__budgets;

typedef struct weir_plan__steps {
    const weir_env *env;
    weir_plan__graph_mode mode;
    uint32_t tensor_count;
    uint32_t node_count;
    uint32_t step_count; /* twice the nodes in backward mode */
    uint32_t arena_count;

    uint64_t *sizes;    /* of tensors, rounded to the arena's alignment; all together stay below 2^62 */
    uint32_t *arena;    /* of tensors, in the graph's arenas */
    uint32_t *producer; /* node, or WEIR__NO_NAME */
    bool *permanent;    /* lives to the end */
    bool *is_output;
    bool *is_shared;         /* an alias has its bytes */
    uint64_t *costs;         /* of nodes */
    bool *is_inplace;        /* of nodes */
    uint32_t *kills;         /* of nodes: the input that is overwritten, or WEIR__NO_NAME */
    uint32_t *order;         /* place -> node */
    uint32_t *place;         /* node -> place, from 0 */
    weir_plan__lists inputs; /* of nodes, each tensor once */
    weir_plan__lists outputs;
    weir_plan__lists saved; /* of nodes: what their backward step needs */
    weir_plan__lists needs; /* of tensors: base steps, ascending */
    weir_plan__gradient_life *gradients;
    uint32_t gradient_count;

    /* With a link, tensor t has a copy on the host, which is the tensor tensor_count + t, and transfers are
     * nodes: node_count + t copies t out, node_count + tensor_count + t brings it in, node_count +
     * 2 * tensor_count + t waits until that is complete. They are in sizes, arena, producer, permanent,
     * costs, kills, inputs and outputs; no base step has them. Without one the counts are equal. */
    weir_plan__link link;
    uint32_t all_tensors;
    uint32_t all_nodes;
    uint32_t host; /* the copies' arena: beyond the graph's */

    weir_plan__budgets budgets; /* that schedules must keep; the caller's */

    weir__arena memory; /* of all arrays */
} weir_plan__steps;

/* Steps of a graph whose base lives are in the plan's rows. If places are shared, an alias has no bytes, and
 * who reads it reads its owner too. ALLOCATION_OVERFLOW, OUT_OF_MEMORY; release in any case. */
WEIR_CHECKED weir_status weir_plan__steps_make(const weir_graph *graph, const weir_plan *plan,
                                               const weir_plan__liveness *liveness,
                                               const weir_plan__limits *limits, weir_plan__steps *steps,
                                               weir_error *error);
void weir_plan__steps_release(weir_plan__steps *steps);

/* The arena that a setting is for: the graph's, the host's after them, or WEIR__NO_NAME. */
uint32_t weir_plan__arena_of_setting(const weir_graph *graph, const weir_plan__arena_setting *setting);

static inline uint32_t weir_plan__out_of(const weir_plan__steps *steps, uint32_t tensor) {
    return steps->node_count + tensor;
}

static inline uint32_t weir_plan__in_of(const weir_plan__steps *steps, uint32_t tensor) {
    return steps->node_count + steps->tensor_count + tensor;
}

static inline uint32_t weir_plan__wait_of(const weir_plan__steps *steps, uint32_t tensor) {
    return steps->node_count + 2 * steps->tensor_count + tensor;
}

static inline bool weir_plan__can_be_paged(const weir_plan__steps *steps, uint32_t tensor) {
    return steps->link.bytes > 0 && !steps->permanent[tensor] && steps->sizes[tensor] > 0;
}

/* What moving the tensor costs, in either direction. */
static inline uint64_t weir_plan__move_of(const weir_plan__steps *steps, uint32_t tensor) {
    return steps->costs[weir_plan__out_of(steps, tensor)];
}

/* ---- Schedules --------------------------------------------------------------------------------- */

typedef struct weir_plan__execution {
    uint32_t node;
    bool is_back;
    bool is_base; /* a base step; else the node runs again */
} weir_plan__execution;

static inline weir_plan__execution weir_plan__base_step(const weir_plan__steps *steps, uint32_t index) {
    bool is_back = index >= steps->node_count;
    return (weir_plan__execution){steps->order[is_back ? 2 * steps->node_count - 1 - index : index], is_back,
                                  true};
}

static inline weir_plan__list weir_plan__reads_of(const weir_plan__steps *steps,
                                                  weir_plan__execution execution) {
    return weir_plan__list_at(execution.is_back ? &steps->saved : &steps->inputs, execution.node);
}

static inline weir_plan__list weir_plan__makes_of(const weir_plan__steps *steps,
                                                  weir_plan__execution execution) {
    return execution.is_back ? (weir_plan__list){0} : weir_plan__list_at(&steps->outputs, execution.node);
}

/* What it overwrites, or WEIR__NO_NAME. */
static inline uint32_t weir_plan__kills_of(const weir_plan__steps *steps, weir_plan__execution execution) {
    return execution.is_back ? WEIR__NO_NAME : steps->kills[execution.node];
}

typedef struct weir_plan__schedule {
    weir_plan__execution *items;
    size_t count;
    size_t capacity;
    bool is_short; /* some item had no room: one question for all of them */
} weir_plan__schedule;

void weir_plan__schedule_release(const weir_env *env, weir_plan__schedule *schedule);
void weir_plan__schedule_add(const weir_env *env, weir_plan__schedule *schedule, weir_plan__execution item);
void weir_plan__schedule_base(const weir_plan__steps *steps, weir_plan__schedule *schedule);

/* The costs of the runs beyond the base steps, and of transfers; 2^64-1 beyond that. */
uint64_t weir_plan__schedule_cost(const weir_plan__steps *steps, const weir_plan__schedule *schedule,
                                  bool with_transfers);
uint64_t weir_plan__base_cost(const weir_plan__steps *steps);

/* An instance of a tensor: number 0 is the first. */
typedef struct weir_plan__life {
    uint32_t tensor;
    uint32_t number;
    uint32_t birth;
    uint32_t death;
    uint32_t overwrites;        /* the tensor whose instance it overwrites, or WEIR__NO_NAME */
    uint32_t overwrites_number; /* and which instance */
} weir_plan__life;

/* Room for looking at schedules, of one thread. */
typedef struct weir_plan__lives_scratch {
    struct weir_plan__instance *instances; /* of every tensor, the current one */
    uint32_t *step_places;                 /* place of every base step, and the end */
} weir_plan__lives_scratch;

WEIR_CHECKED bool weir_plan__lives_open(const weir_plan__steps *steps, weir_plan__lives_scratch *scratch);
void weir_plan__lives_close(const weir_env *env, weir_plan__lives_scratch *scratch);

/* Calls `emit` for every instance, in no given order, and fills the scratch's step_places. False if a
 * step reads what is nowhere. */
bool weir_plan__schedule_lives(const weir_plan__steps *steps, const weir_plan__execution *items, size_t count,
                               weir_plan__lives_scratch *scratch,
                               void (*emit)(void *context, const weir_plan__life *life), void *context);

/* ---- Loads ------------------------------------------------------------------------------------- */

/* The budget of an arena, or WEIR_PLAN__BUDGETS_MAX. */
static inline unsigned weir_plan__budget_of(const weir_plan__steps *steps, uint32_t arena) {
    for (unsigned b = 0; b < steps->budgets.count; b++)
        if (steps->budgets.items[b].arena == arena)
            return b;
    return WEIR_PLAN__BUDGETS_MAX;
}

static inline bool weir_plan__within(const weir_plan__steps *steps, const uint64_t *peaks) {
    for (unsigned b = 0; b < steps->budgets.count; b++)
        if (peaks[b] > steps->budgets.items[b].bytes)
            return false;
    return true;
}

static inline size_t weir_plan__positions(size_t count) {
    return count + 3;
}

/* The largest live bytes of each budget's arena; 2^64-1 if a step reads what is nowhere. `loads` may be NULL;
 * else the live bytes of budget b at position p go to loads[b * weir_plan__positions(count) + p]. False: no
 * memory. */
WEIR_CHECKED bool weir_plan__schedule_peaks(const weir_plan__steps *steps,
                                            const weir_plan__schedule *schedule, uint64_t *peaks,
                                            uint64_t *loads);

/* Leaves out runs that nobody reads, and with `is_thorough` those without which the rest fits. */
WEIR_CHECKED bool weir_plan__schedule_prune(const weir_plan__steps *steps, bool is_thorough,
                                            weir_plan__schedule *schedule);

/* An execution and where it stood in the first schedule, so that it can be found again. */
typedef struct weir_plan__marked {
    weir_plan__execution execution;
    uint32_t from;
} weir_plan__marked;

/* Copies what is left of `from` without the item at `without` to `to`; returns how many. `wanted` is scratch,
 * one for every tensor. */
size_t weir_plan__keep_useful(const weir_plan__steps *steps, bool *wanted, const weir_plan__marked *from,
                              size_t count, size_t without, weir_plan__marked *to);

/* ---- Transfers beside the computation (remat_overlap.c, remat_swap.c) ---------------------------- */

enum { WEIR_PLAN__OUT, WEIR_PLAN__IN, WEIR_PLAN__WAIT }; /* in the order of their nodes */

static inline bool weir_plan__is_transfer(const weir_plan__steps *steps, weir_plan__execution execution) {
    return execution.node >= steps->node_count;
}

/* Of a transfer's node or a wait's: which it is, and of what. */
static inline unsigned weir_plan__transfer_of(const weir_plan__steps *steps, uint32_t node) {
    return (node - steps->node_count) / steps->tensor_count;
}
static inline uint32_t weir_plan__moved_by(const weir_plan__steps *steps, uint32_t node) {
    return (node - steps->node_count) % steps->tensor_count;
}

/* What a run takes, or a backward step. */
static inline uint64_t weir_plan__duration(const weir_plan__steps *steps, weir_plan__execution execution) {
    return steps->costs[execution.node] * (execution.is_back ? 2 : 1);
}

/* How long the computation waits for transfers in a schedule that has waits; 2^64-1 beyond that. False: no
 * memory. */
WEIR_CHECKED bool weir_plan__schedule_waits(const weir_plan__steps *steps,
                                            const weir_plan__schedule *schedule, uint64_t *waited);

/* What a schedule without waits adds, and in `hidden` the schedule with its transfers beside the computation,
 * if they may be and that costs less; else `hidden` is empty. False: no memory. */
WEIR_CHECKED bool weir_plan__schedule_hide(const weir_plan__steps *steps, const weir_plan__schedule *schedule,
                                           weir_plan__schedule *hidden, uint64_t *cost);

/* Pages instead of running again where that lowers the cost, which is that of weir_plan__schedule_hide. */
WEIR_CHECKED bool weir_plan__schedule_swap(const weir_plan__steps *steps, weir_plan__schedule *schedule,
                                           uint64_t *cost);

/* ---- Searching (remat.c, remat_walk.c, remat_exact.c) ------------------------------------------ */

typedef struct weir_plan__strategy {
    bool by_distance;
    uint32_t segments;
    uint32_t seed;
    bool pages; /* tensors may go to the host */
} weir_plan__strategy;

typedef struct weir_plan__remat_result {
    bool is_found;
    bool is_impossible; /* proven */
    bool is_optimal;
    uint64_t added_cost;
    uint64_t lower_bound;                   /* of the added cost */
    uint64_t base[WEIR_PLAN__BUDGETS_MAX];  /* the largest live bytes without running anything again */
    uint64_t least[WEIR_PLAN__BUDGETS_MAX]; /* what every schedule has live at some step; 0 if `base` fits */
} weir_plan__remat_result;

/* One walk with evictions. *is_found: it came to its end; else the schedule is unusable. */
WEIR_CHECKED bool weir_plan__remat_walk(const weir_plan__steps *steps, const weir_plan__strategy *strategy,
                                        uint64_t *work, weir_plan__schedule *schedule, bool *is_found);

/* The exact search for a schedule that costs less than `below`. *is_ended: no state was left unseen. */
WEIR_CHECKED bool weir_plan__remat_exact(const weir_plan__steps *steps, uint64_t state_limit, uint64_t below,
                                         weir_plan__schedule *schedule, bool *is_found, bool *is_ended);
bool weir_plan__remat_exact_applies(const weir_plan__steps *steps);

/* The cheapest schedule within the budgets that the effort finds. False: no memory. */
WEIR_CHECKED bool weir_plan__remat_solve(const weir_plan__steps *steps, uint32_t effort,
                                         weir_plan__schedule *schedule, weir_plan__remat_result *result);

/* The bound alone. */
WEIR_CHECKED bool weir_plan__remat_bound(const weir_plan__steps *steps, uint64_t *bound);

/* ---- From a schedule to a plan (remat_plan.c, remat_make.c) ------------------------------------ */

/* Rows, ids and looks of all instances, and the schedule. INVALID_IR if an id is taken. */
WEIR_CHECKED weir_status weir_plan__remat_apply(const weir_graph *graph, weir_plan *plan,
                                                weir_plan__liveness *liveness, const weir_plan__steps *steps,
                                                const weir_plan__schedule *schedule, weir_error *error);

/* ---- Another order (reorder.c, reorder_bound.c) ------------------------------------------------ */

/* What no order's peak can be below: the sum over arenas of the largest live bytes. False: no memory. */
WEIR_CHECKED bool weir_plan__order_bound(const weir_plan__steps *steps, uint64_t *bound);

#endif
