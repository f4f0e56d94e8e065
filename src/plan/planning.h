/* A plan in memory and the steps that make it. The steps run in the order of this header; each fills the
 * part of the plan that it owns. Tensors keep the order of their declaration (gradients that backward mode
 * makes come behind them) until the end, when `sorted` gives the order of CBOR keys. */
#ifndef WEIR_PLAN_PLANNING_H
#define WEIR_PLAN_PLANNING_H

#include "base/arena.h"
#include "base/fields.h"
#include "plan/graph.h"

typedef enum weir_plan__graph_mode {
    WEIR_PLAN__INFERENCE,
    WEIR_PLAN__FORWARD,
    WEIR_PLAN__BACKWARD,
    WEIR_PLAN__MODES
} weir_plan__graph_mode;

enum { WEIR_PLAN__TOKEN_PREFIX = 8 };

/* What copies to the host cost (docs/spec/03j-paging.md): bytes and units of cost per second; 0: no paging.
 */
typedef struct weir_plan__link {
    uint64_t bytes;
    uint64_t speed;
    bool overlaps; /* transfers run beside the computation (03k-overlap.md) */
} weir_plan__link;

#define WEIR_PLAN__HOST "host" /* the arena of copies */

/* A step of a plan's schedule. */
typedef struct weir_plan__kept_step {
    uint32_t index; /* of a node, or of the row that is paged */
    uint8_t kind;   /* weir_plan_step_kind */
    bool is_again;
} weir_plan__kept_step;

typedef struct weir_plan__row {
    uint64_t size;   /* bytes, not rounded */
    uint64_t offset; /* in the packed layout; of an alias, in its owner, until that has a place */
    uint32_t birth;
    uint32_t death;
    uint32_t slot;
    uint32_t arena; /* in plan->arenas */
    uint32_t owner; /* the row whose place it has: its own if it is no alias */
} weir_plan__row;

typedef struct weir_plan__look {
    uint64_t first_dimension; /* in plan->dimensions */
    uint32_t rank;
    uint8_t type;
    uint8_t role;
} weir_plan__look;

typedef struct weir_plan__planned_arena {
    weir_text name; /* the plan's */
    uint64_t alignment;
    uint64_t page_size;
    uint64_t capacity;
    uint64_t budget; /* of the live bytes, where operators run again */
    bool has_capacity;
    bool reuses; /* false for `parameters` */
    bool optimal;
    uint64_t lower_bound;
    uint64_t peak_bytes;
    uint64_t slot_bytes;
    uint32_t max_live;
    uint32_t fullest;      /* the first position at which lower_bound bytes are live */
    uint32_t first_tensor; /* in plan->by_birth and plan->by_death */
    uint32_t tensor_count; /* that are no aliases */
    uint32_t cursor;       /* scratch while they are sorted */
    uint32_t slot_count;
    size_t first_slot; /* in plan->slots */
} weir_plan__planned_arena;

struct weir_plan {
    const weir_env *env;
    weir__arena memory; /* of all arrays but those that are only there while planning */
    weir_plan__graph_mode mode;
    uint32_t end; /* the largest death */
    uint8_t *token;
    size_t token_size;
    uint8_t token_prefix[WEIR_PLAN__TOKEN_PREFIX]; /* of a restored plan too, if its file has metrics */
    bool has_metrics;                              /* made, or restored with them */

    uint32_t count;
    uint32_t alias_count;
    char *id_text;
    uint64_t *id_ends;
    uint32_t *sorted;
    weir_plan__row *rows;
    weir_plan__look *looks; /* NULL if restored */
    uint64_t *dimensions;

    weir_plan__planned_arena *arenas; /* in the order of CBOR keys */
    uint32_t arena_count;
    weir_plan_slot *slots; /* of all arenas */
    size_t slot_count;

    /* Arena after arena: its tensors by birth, then size descending, then id; and by death. Only while
     * planning. */
    uint32_t *by_birth;
    uint32_t *by_death;

    weir_plan_hashes hashes;
    weir_plan_metrics metrics;

    /* Where it is not that of the graph's order: what runs when. */
    weir_plan__kept_step *schedule;
    size_t schedule_count;
    weir__names nodes; /* ids, with memory of their own */
    weir_plan_remat remat;
    weir_plan_paging paging;
    weir_plan_reorder reorder;
    weir_plan_info info; /* filled when the plan is whole */
};

static inline bool weir_plan__is_alias(const weir_plan *plan, uint32_t index) {
    return plan->rows[index].owner != index;
}

static inline weir_text weir_plan__id(const weir_plan *plan, uint32_t index) {
    uint64_t begin = index ? plan->id_ends[index - 1] : 0;
    return (weir_text){plan->id_text + begin, (size_t)(plan->id_ends[index] - begin)};
}

/* Rounded up to a power of two; false beyond 2^64-1. */
static inline bool weir_plan__round_up(uint64_t size, uint64_t alignment, uint64_t *rounded) {
    if (__builtin_add_overflow(size, alignment - 1, rounded))
        return false;
    *rounded &= ~(alignment - 1);
    return true;
}

/* A power of two from 1 to 2^30. */
static inline bool weir_plan__is_alignment(uint64_t value) {
    return value != 0 && (value & (value - 1)) == 0 && value <= (uint64_t)1 << 30;
}

/* For sizes that are known to round within 64 bits. */
static inline uint64_t weir_plan__rounded(uint64_t size, uint64_t alignment) {
    return (size + alignment - 1) & ~(alignment - 1);
}

static inline uint64_t weir_plan__add_capped(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* ---- Modes and arena configuration (arena_config.c) -------------------------------------------- */

extern const char *const weir_plan__modes[]; /* NULL ends them */
WEIR_CHECKED weir_status weir_plan__mode_find(const weir_plan_options *options, weir_plan__graph_mode *mode,
                                              bool *is_remat, weir_error *error);

typedef struct weir_plan__arena_setting {
    weir_text name; /* in the document */
    bool has_alignment;
    bool has_capacity;
    bool has_page_size;
    bool alignment_is_negative;
    uint64_t alignment;
    uint64_t capacity;
    uint64_t page_size;
    uint64_t slack; /* the budget of live bytes is that much below the capacity */
} weir_plan__arena_setting;

/* What arenas are limited to, what may be done to keep that, and how much work all of planning is worth. */
typedef struct weir_plan__limits {
    weir_plan__arena_setting *settings;
    size_t setting_count;
    weir_plan__link link;
    uint32_t effort;
    uint32_t threads;
    uint32_t without; /* as in weir_pack__options */
} weir_plan__limits;

static inline bool weir_plan__has_slack(const weir_plan__limits *limits) {
    for (size_t i = 0; i < limits->setting_count; i++)
        if (limits->settings[i].slack > 0)
            return true;
    return false;
}

/* Fields and types of the document {name: {capacity_bytes, alignment_bytes, page_size}}; settings come from
 * `env`. */
WEIR_CHECKED weir_status weir_plan__settings_read(const weir_env *env, const weir_cbor_value *root,
                                                  const char *name, weir_plan__arena_setting **settings,
                                                  size_t *count, weir_error *error);
/* ALIGNMENT_VIOLATION for the first setting that is not a power of two from 1 to 2^30. */
WEIR_CHECKED weir_status weir_plan__settings_check(const weir_plan__arena_setting *settings, size_t count,
                                                   weir_error *error);

/* Numbers, the least on top. The caller has room for all of them. */
typedef struct weir_plan__heap {
    uint32_t *items;
    uint32_t count;
} weir_plan__heap;

void weir_plan__heap_push(weir_plan__heap *heap, uint32_t item);
uint32_t weir_plan__heap_pop(weir_plan__heap *heap);

/* ---- Order (execution_order.c) ----------------------------------------------------------------- */

/* Fills order[place] = node and position[node] = 1 + place, from the given ids (NULL: the graph's own
 * order, else Kahn's). INVALID_IR for a list that is not a permutation, LIVENESS_CYCLE. */
WEIR_CHECKED weir_status weir_plan__find_order(const weir_graph *graph, const weir_text *given,
                                               size_t given_count, uint32_t *order, uint32_t *position,
                                               weir_error *error);

/* ---- Liveness (liveness.c) --------------------------------------------------------------------- */

typedef struct weir_plan__liveness {
    weir__arena memory; /* of all arrays */
    const uint32_t *order;
    const uint32_t *position;
    const weir_plan__versions *versions; /* of the graph, or NULL */
    bool shares_places;                  /* else an alias is a tensor of its own */
    uint32_t *last_use;                  /* a tensor: the largest position of its users, 0 for none */
    uint32_t *first_use;   /* an owner: the smallest position that uses a parameter in its place, 0 for none;
                              NULL unless the graph steps in its backward pass */
    uint32_t *first_saver; /* a tensor: the smallest position of a node that saves it, 0 for none */
    uint32_t *overwritten; /* a tensor: the input that its producer overwrites, WEIR__NO_NAME for none */
    uint32_t *place_last;  /* an owner: the largest position that uses its place; UINT32_MAX: it stays */
    uint8_t *marks;    /* a tensor: whether it needs a gradient in backward mode; scratch in inference mode */
    uint64_t retained; /* activations whose death backward mode moved */
    uint64_t activations;
} weir_plan__liveness;

/* The tensor whose bytes it has: itself, where aliases are tensors of their own. */
static inline uint32_t weir_plan__owner_of(const weir_graph *graph, const weir_plan__liveness *liveness,
                                           uint32_t tensor) {
    return liveness->shares_places ? graph->tensors[tensor].owner : tensor;
}

/* Rows (size, birth, death, owner; arena as in the graph), looks, ids and dimensions of the plan. INVALID_IR
 * if a gradient's id is taken, or a place is overwritten too early. Release the liveness's memory in any
 * case. */
WEIR_CHECKED weir_status weir_plan__analyze_liveness(const weir_graph *graph, weir_plan *plan,
                                                     weir_plan__liveness *liveness, weir_error *error);

/* ---- Running operators again, and in another order (remat_make.c, remat_plan.c, reorder.c) ------ */

/* Finds what to run again, and with a link what to page, so that arenas keep their capacities, less the
 * settings' slack, and fills the plan accordingly; nothing changes where they are kept anyway.
 * ARENA_TOO_SMALL; INVALID_IR if the graph has an arena `host` of its own. */
WEIR_CHECKED weir_status weir_plan__recompute(const weir_graph *graph, weir_plan *plan,
                                              weir_plan__liveness *liveness, const weir_plan__limits *limits,
                                              weir_error *error);

/* An order with a lower peak than that of the liveness. *order is NULL if none was found; the caller
 * releases it. */
WEIR_CHECKED weir_status weir_plan__find_better_order(const weir_env *env, const weir_graph *graph,
                                                      weir_plan__graph_mode mode, const uint32_t *given,
                                                      const weir_plan__limits *limits, uint32_t **order,
                                                      weir_plan_reorder *found, weir_error *error);

/* The nodes in that order, as the plan's schedule. */
WEIR_CHECKED weir_status weir_plan__keep_order(weir_plan *plan, const weir_graph *graph,
                                               const uint32_t *order, weir_error *error);

/* Where a row stands in `sorted`, whose id is made of two texts; NULL: a plan from a file, in which rows
 * stand in the order of CBOR keys themselves. */
bool weir_plan__find_id(const weir_plan *plan, const uint32_t *sorted, weir_text id, weir_text suffix,
                        uint32_t *index);

/* What a plan file says of it; INVALID_IR if it is not a list of ["run" or "back", node] and ["out", "in" or
 * "wait", tensor], OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_plan__read_schedule(weir_plan *plan, const weir_cbor_value *list);
/* Takes over what the file says of paging (NULL: nothing), after the schedule and every row. INVALID_IR if
 * they contradict it, OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_plan__take_paging(weir_plan *plan, const weir_plan_paging *said);

/* Whether something runs again or is paged. */
static inline bool weir_plan__has_remat(const weir_plan *plan) {
    return plan->remat.runs_again > 0 || plan->paging.transfers > 0;
}

/* What moving a tensor of a rounded size costs. */
uint64_t weir_plan__move_cost(weir_plan__link link, uint64_t size);

/* ---- Arenas and slots (slots.c) ---------------------------------------------------------------- */

/* Names the arenas that have tensors and turns the rows' arenas into indexes of them. */
WEIR_CHECKED weir_status weir_plan__collect_arenas(weir_plan *plan, const weir__names *names,
                                                   const weir_plan__arena_setting *settings,
                                                   size_t setting_count, weir_error *error);
/* by_birth and by_death, and the most tensors live at once over all arenas. */
WEIR_CHECKED weir_status weir_plan__sort_by_time(weir_plan *plan, weir_error *error);
/* max_live and lower_bound of every arena. ALLOCATION_OVERFLOW. */
WEIR_CHECKED weir_status weir_plan__measure_live(weir_plan *plan, weir_error *error);
/* A slot for every row, the slots' sizes and offsets side by side, slot_bytes. ALLOCATION_OVERFLOW. */
WEIR_CHECKED weir_status weir_plan__assign_slots(weir_plan *plan, weir_error *error);

/* ---- Addresses (addresses.c) ------------------------------------------------------------------- */

WEIR_CHECKED weir_status weir_plan__map_addresses(weir_plan *plan, weir_error *error);
/* ADDRESS_COLLISION where two slots of an arena have one address. */
WEIR_CHECKED weir_status weir_plan__check_addresses(const weir_plan *plan, weir_error *error);

/* ---- Layout (arena_layout.c) ------------------------------------------------------------------- */

/* Offsets, peaks, optimality. ARENA_TOO_SMALL. */
WEIR_CHECKED weir_status weir_plan__lay_out(weir_plan *plan, const weir_plan__liveness *liveness,
                                            const weir_plan__limits *limits, weir_error *error);
WEIR_CHECKED weir_status weir_plan__report_too_small(weir_text arena, uint64_t required, uint64_t capacity,
                                                     uint64_t lower_bound, bool is_proven, weir_error *error);

/* ---- Identity (plan_file.c) -------------------------------------------------------------------- */

/* `sorted` and the two hashes. */
WEIR_CHECKED weir_status weir_plan__seal(weir_plan *plan, weir_error *error);

/* A weir-plan/1 as it is read: its values are views, and plan_restore.c goes on with them. The same table
 * writes a plan, then from `plan`. */
typedef struct weir_plan__file {
    weir_plan__graph_mode mode;
    uint8_t graph_hash[WEIR_HASH_SIZE];
    weir_cbor_value arenas, tensors, aliases, schedule, remat;
    weir_plan_paging paging;
    bool has_aliases, has_schedule, has_remat, has_paging;
    const weir_plan *plan;
    struct weir__cbor_stream *stream; /* or NULL */
} weir_plan__file;

extern const weir__shape weir_plan__file_shape;  /* weir_plan__file */
extern const weir__shape weir_plan__arena_shape; /* weir_plan__planned_arena */
extern const weir__shape weir_plan__remat_shape; /* weir_plan, after its arenas are known */

/* A map of all arenas by name; the shape is of a weir_plan__planned_arena. */
void weir_plan__write_arenas(const weir_plan *plan, const weir__shape *shape, weir_cbor_writer *w);

/* ---- Metrics (plan.c) -------------------------------------------------------------------------- */

/* For weir_plan_describe, when all of the plan is known. */
void weir_plan__fill_info(weir_plan *plan);
void weir_plan__fill_metrics(weir_plan *plan, uint64_t retained, uint64_t activations);

/* ---- What tensors are (plan_looks.c) ------------------------------------------------------------ */

struct weir__cbor_stream;

/* The second item of a plan file, of a plan that has looks. `stream` may be NULL. */
void weir_plan__write_looks(const weir_plan *plan, struct weir__cbor_stream *stream, weir_cbor_writer *w);

/* ---- Metrics in files (plan_metrics.c) ----------------------------------------------------------- */

/* A hook of a weir_plan's field: {arena: peak}. */
void weir_plan__write_peaks(weir_cbor_writer *w, const weir__field *field, const void *object);

/* The third item, of a plan that has metrics. */
void weir_plan__put_metrics(const weir_plan *plan, weir_cbor_writer *w);
/* Whether the value is one, by its format. */
bool weir_plan__is_plan_metrics(const weir_cbor_value *root);
/* Reads it into a restored plan and compares what can be known. INVALID_IR. */
WEIR_CHECKED weir_status weir_plan__read_metrics(weir_plan *plan, const weir_cbor_value *root, size_t size,
                                                 const char *name, weir_error *error);

/* Reads it into a plan that was restored without. INVALID_IR, OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_plan__read_looks(weir_plan *plan, const weir_cbor_value *root, const char *name,
                                               weir_error *error);

#endif
