/* weir/plan.h: a model graph becomes a memory plan
 * (UML_OS.TMMU.PrepareMemory_v2).
 *
 *   weir_graph *graph;  weir_plan *plan;
 *   weir_graph_read_file(NULL, "model.json", &graph, &error);
 *   weir_plan_options options = {.size = sizeof options, .mode = "backward"};
 *   weir_plan_make(NULL, graph, &options, &plan, &error);
 *
 * weir/arenas.h makes memory of a plan. A graph, a plan and an arena set each own their memory and do not
 * refer to each other: any of them may be closed first. After they are made they do not change, so any number
 * of threads may call the functions that take them as const. Faults are reported in the order that
 * docs/planner.md gives, however many there are. Every call that can fail can also give OUT_OF_MEMORY; those
 * that take a path, IO_ERROR. */
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_graph weir_graph;
typedef struct weir_plan weir_plan;
typedef struct weir_packing weir_packing;

/* ---- Graphs (weir-graph/1) --------------------------------------------------------------------- */

/* X(constant, name in files, bits, whether it is floating) */
#define WEIR_TENSOR_TYPES(X)                                                                                 \
    X(F64, "f64", 64, true)                                                                                  \
    X(F32, "f32", 32, true)                                                                                  \
    X(F16, "f16", 16, true)                                                                                  \
    X(BF16, "bf16", 16, true)                                                                                \
    X(F8E4M3, "f8e4m3", 8, true)                                                                             \
    X(F8E5M2, "f8e5m2", 8, true)                                                                             \
    X(I64, "i64", 64, false)                                                                                 \
    X(I32, "i32", 32, false)                                                                                 \
    X(I16, "i16", 16, false)                                                                                 \
    X(I8, "i8", 8, false)                                                                                    \
    X(U64, "u64", 64, false)                                                                                 \
    X(U32, "u32", 32, false)                                                                                 \
    X(U16, "u16", 16, false)                                                                                 \
    X(U8, "u8", 8, false)                                                                                    \
    X(BOOL, "bool", 8, false)                                                                                \
    X(I4, "i4", 4, false)                                                                                    \
    X(U4, "u4", 4, false)

typedef enum weir_tensor_type {
#define WEIR_ENUMERATE(id, name, bits, is_floating) WEIR_TENSOR_##id,
    WEIR_TENSOR_TYPES(WEIR_ENUMERATE)
#undef WEIR_ENUMERATE
        WEIR_TENSOR_UNKNOWN /* of a restored plan, whose file does not say */
} weir_tensor_type;

typedef enum weir_tensor_role {
    WEIR_ROLE_ACTIVATION,
    WEIR_ROLE_INPUT,
    WEIR_ROLE_PARAMETER,
    WEIR_ROLE_GRADIENT,
    WEIR_ROLE_STATE,
    WEIR_ROLE_UNKNOWN /* of a restored plan */
} weir_tensor_role;

typedef enum weir_choice { WEIR_CHOICE_DEFAULT, WEIR_CHOICE_FALSE, WEIR_CHOICE_TRUE } weir_choice;

typedef enum weir_saves {
    WEIR_SAVES_DEFAULT, /* as the operator table says */
    WEIR_SAVES_NONE,
    WEIR_SAVES_INPUTS,
    WEIR_SAVES_OUTPUT,
    WEIR_SAVES_BOTH
} weir_saves;

/* "f32", "activation" … ("unknown" for the last and anything else). Static; any thread. */
WEIR_API const char *weir_tensor_type_name(weir_tensor_type type);
WEIR_API const char *weir_tensor_role_name(weir_tensor_role role);

typedef struct weir_tensor_info {
    weir_text id;
    weir_tensor_type type;
    weir_tensor_role role;
    weir_choice saved_for_backward;
    weir_text arena; /* size 0: the role's own, or that of the place it shares */
    const uint64_t *shape;
    size_t rank;
    bool is_alias; /* it has no bytes of its own, but lies in those of another tensor (03h-aliases.md) */
    weir_text alias_of;
    uint64_t alias_offset; /* from this byte of it on */
} weir_tensor_info;

typedef struct weir_node_info {
    weir_text id;
    weir_text op;
    const weir_text *inputs;
    size_t input_count;
    const weir_text *outputs;
    size_t output_count;
    weir_choice inplace;
    weir_saves saves;
    bool has_cost;
    uint64_t cost; /* below 2^56, in any unit; if not given, floating point operations from the shapes */
} weir_node_info;

/* Reads a graph, JSON or canonical CBOR (by its first byte), and checks all but its order. `name` is what
 * messages call it. INVALID_IR, INVALID_IR_SHAPES, ALLOCATION_OVERFLOW; CBOR_INVALID for bytes that are not
 * canonical. */
WEIR_API WEIR_CHECKED weir_status weir_graph_read(const weir_env *env, const void *data, size_t size,
                                                  const char *name, weir_graph **graph, weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_graph_read_file(const weir_env *env, const char *path,
                                                       weir_graph **graph, weir_error *error);

/* Makes a graph of an ONNX model: its nodes in their order, operators in the table's terms if it has
 * them, initializers as parameters, constants as state. Weights are stepped over, not read. Every tensor
 * must have a full shape in the model: INVALID_IR_SHAPES names the first that has none, a symbolic
 * dimension, or an element type without a dtype. INVALID_IR for bytes that are not a model (diagnostic
 * offset), subgraphs and sparse initializers; else as weir_graph_read. The _file form maps the file ("-" is
 * standard input). The caller owns *graph. */
WEIR_API WEIR_CHECKED weir_status weir_graph_import_onnx(const weir_env *env, const void *data, size_t size,
                                                         const char *name, weir_graph **graph,
                                                         weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_graph_import_onnx_file(const weir_env *env, const char *path,
                                                              weir_graph **graph, weir_error *error);

/* Builds one: tensors first (an alias after its original), then the nodes that name them, the outputs,
 * perhaps an order, then finish, which runs the checks that need the whole graph. Each call checks what it is
 * given and leaves the graph as it was if it fails. The caller owns *graph. Same errors as weir_graph_read,
 * and CONTRACT_VIOLATION after finish. */
WEIR_API WEIR_CHECKED weir_status weir_graph_create(const weir_env *env, weir_text name, weir_graph **graph,
                                                    weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_graph_add_tensor(weir_graph *graph, const weir_tensor_info *tensor,
                                                        weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_graph_add_node(weir_graph *graph, const weir_node_info *node,
                                                      weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_graph_set_outputs(weir_graph *graph, const weir_text *ids,
                                                         size_t count, weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_graph_set_order(weir_graph *graph, const weir_text *node_ids,
                                                       size_t count, weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_graph_finish(weir_graph *graph, weir_error *error);
WEIR_API void weir_graph_close(weir_graph *graph);

/* Of a finished graph. */
WEIR_API void weir_graph_hash(const weir_graph *graph, uint8_t hash[WEIR_HASH_SIZE]);

/* ---- Plans ------------------------------------------------------------------------------------- */

/* A document beside the graph, JSON or canonical CBOR; data NULL: none. */
typedef struct weir_document {
    const void *data;
    size_t size;
    const char *name; /* what messages call it; NULL: its field's name */
} weir_document;

enum { WEIR_EFFORT_DEFAULT = 5, WEIR_EFFORT_MAX = 9, WEIR_ALIGNMENT_DEFAULT = 128 };

/* Zero what is not wanted; `effort` is then 5. */
typedef struct weir_plan_options {
    size_t size;          /* of this struct */
    const char *mode;     /* "inference", "forward", "backward"; NULL: the preset's */
    const char *preset;   /* "train_full" (backward), "inference", "remat_enabled" (any mode, backward without
                             one: operators may run again, so that capacities are kept); NULL: none; mode or
                             preset must be given */
    const uint8_t *token; /* the replay token, 64 bytes or more; NULL: the graph's own */
    size_t token_size;
    weir_document
        arenas; /* {"activations": {"capacity_bytes": n, "alignment_bytes": 128, "page_size": 4096}} */
    weir_document order;      /* ["node id", …]; overrides the graph's own order */
    uint32_t effort_plus_one; /* 1 to 10 for effort 0 (one greedy pass) to 9; 0: the default */
    uint32_t threads;         /* 0 is 1; never changes the plan */
    /* Packing strategies to use, "corners,windows", so that what one is worth can be measured; NULL: all.
     * The best fit in time order is always made. docs/planner.md lists them. */
    const char *strategies;
    bool reorder; /* looks for an order of the operators that needs less; it never needs more */
    /* What a training step holds beside gradients, in backward mode (docs/spec/03i-optimizer.md): "sgd",
     * "momentum", "adam", with a dtype as in "adam:f32" that of the state and of a copy of the parameters;
     * NULL: none. And when the parameters are updated: "end", "backward"; NULL: as the graph says. */
    const char *optimizer;
    const char *step;
    /* With preset remat_enabled, tensors may also go to the arena `host` and come back
     * (docs/spec/03j-paging.md): what the link moves, in bytes per second, and what operators do, in units of
     * cost per second. Both from 1 to 2^56-1; 0: no paging. Copies run beside the computation
     * (docs/spec/03k-overlap.md), unless `no_overlap` says that nothing runs while a tensor is moved. */
    uint64_t link;
    uint64_t speed;
    bool no_overlap;
} weir_plan_options;

/* Plans: liveness, slots, addresses, packing. The caller owns *plan. INVALID_IR, LIVENESS_CYCLE,
 * CONTRACT_VIOLATION (token, effort), ALIGNMENT_VIOLATION, ALLOCATION_OVERFLOW, ADDRESS_COLLISION, and
 * ARENA_TOO_SMALL with diagnostics arena, required, capacity, lower_bound, proven (1: no layout can fit, and
 * with preset remat_enabled no schedule either). */
WEIR_API WEIR_CHECKED weir_status weir_plan_make(const weir_env *env, const weir_graph *graph,
                                                 const weir_plan_options *options, weir_plan **plan,
                                                 weir_error *error);
WEIR_API void weir_plan_close(weir_plan *plan);

/* Writes a plan file: the plan's canonical CBOR (weir-plan/1), and after it what the plan's tensors are and
 * its metrics, as items that are in no hash (docs/spec/03b-plan-tensors.md, 03e-plan-metrics.md). The file
 * appears whole or not at all. */
WEIR_API WEIR_CHECKED weir_status weir_plan_save(const weir_env *env, const weir_plan *plan, const char *path,
                                                 weir_error *error);

/* Restores one, and checks it as hostile input: a plan that is accepted has no two live tensors on one
 * byte, and its numbers agree with each other. It has no token, no shapes, dtypes, roles and retention ratio
 * if the file does not say them, and its time is 0. CBOR_INVALID; INVALID_IR if the value is not a
 * consistent plan. */
WEIR_API WEIR_CHECKED weir_status weir_plan_restore(const weir_env *env, const void *data, size_t size,
                                                    const char *name, weir_plan **plan, weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_plan_restore_file(const weir_env *env, const char *path,
                                                         weir_plan **plan, weir_error *error);

typedef struct weir_plan_hashes {
    uint8_t graph[WEIR_HASH_SIZE];
    uint8_t assignment[WEIR_HASH_SIZE];
    uint8_t plan[WEIR_HASH_SIZE];
} weir_plan_hashes;

typedef struct weir_plan_metrics {
    uint64_t tensors;
    uint64_t peak_logical_slots; /* slots of all arenas together */
    uint64_t max_live;           /* most tensors live at one position, all arenas together */
    double memory_reuse_ratio;
    double memory_reuse_bound; /* no assignment of slots reuses more: as many are live at once */
    double internal_fragmentation_ratio;
    double activation_retention_ratio;
    uint64_t allocation_time_ns; /* of weir_plan_make; in no hash */
} weir_plan_metrics;

typedef struct weir_plan_arena {
    weir_text name;
    uint64_t tensors;
    uint64_t alignment;
    uint64_t page_size; /* 0: not given, or restored */
    bool has_capacity;
    uint64_t capacity;
    uint64_t budget;      /* of live bytes if operators run again: at most the capacity */
    uint64_t lower_bound; /* the largest sum of live sizes, each rounded up to the alignment */
    uint64_t peak_bytes;  /* what memory the arena needs */
    uint64_t slot_bytes;  /* what it would need with the slots side by side */
    uint64_t slots;
    uint64_t max_live;
    bool optimal; /* no layout has a smaller peak */
} weir_plan_arena;

typedef struct weir_plan_tensor {
    weir_text id;
    uint32_t arena; /* index for weir_plan_arena_at */
    weir_tensor_type type;
    weir_tensor_role role; /* a gradient that backward mode made has WEIR_ROLE_GRADIENT */
    const uint64_t *shape;
    size_t rank;
    uint64_t slot;
    uint64_t address; /* a handle: unique within the arena, the same for every tensor of the slot */
    uint64_t offset;  /* in the packed layout */
    uint64_t size;    /* bytes, not rounded */
    uint64_t birth;   /* live in [birth, death) */
    uint64_t death;
    bool is_alias;      /* it shares the place of `alias_of`, which lives at least as long */
    weir_text alias_of; /* its owner, which is not an alias */
} weir_plan_tensor;

typedef struct weir_plan_slot {
    uint64_t address;
    uint64_t offset; /* in the slot layout, slots side by side */
    uint64_t size;   /* the largest of its tensors, rounded up to the alignment */
} weir_plan_slot;

/* None of these can fail; indexes must be in range. Arenas and tensors stand in the order of CBOR keys:
 * shorter names first, then bytewise. */
WEIR_API weir_plan_arena weir_plan_arena_at(const weir_plan *plan, size_t index);
WEIR_API weir_plan_tensor weir_plan_tensor_at(const weir_plan *plan, size_t index);
WEIR_API bool weir_plan_find(const weir_plan *plan, const char *id, size_t id_size, size_t *index);
WEIR_API weir_plan_slot weir_plan_slot_at(const weir_plan *plan, size_t arena, uint64_t slot);

/* ---- What runs when: docs/spec/03d-remat.md ----------------------------------------------------- */

/* A transfer copies a tensor to its copy in the arena `host` ("id.host"), or that copy to the tensor's next
 * instance ("id.again1" and so on), which is born at the step. It is complete after its step; in a plan with
 * waits, after the next wait for its tensor, and may be made at any time until then. */
typedef enum weir_plan_step_kind {
    WEIR_STEP_RUN,
    WEIR_STEP_BACK, /* a node's backward step */
    WEIR_STEP_OUT,
    WEIR_STEP_IN,
    WEIR_STEP_WAIT,
} weir_plan_step_kind;
/* "run", "back", "out", "in", "wait". */
WEIR_API const char *weir_plan_step_kind_name(weir_plan_step_kind kind);

typedef struct weir_plan_step {
    weir_plan_step_kind kind;
    weir_text node; /* of a transfer or a wait, the tensor */
    bool is_again;  /* it ran before: its outputs are made again, as "id.again1" and so on */
} weir_plan_step;

/* The step at a place below weir_plan_describe's step_count; it is at position place + 1. */
WEIR_API weir_plan_step weir_plan_step_at(const weir_plan *plan, size_t place);

typedef struct weir_plan_remat {
    uint64_t runs_again;  /* executions beyond the first of their node; 0: nothing is recomputed */
    uint64_t added_cost;  /* what they and transfers cost, in the unit of the graph's costs */
    uint64_t base_cost;   /* what all nodes cost once */
    uint64_t lower_bound; /* no schedule within the capacities adds less */
    bool optimal;         /* added_cost is proven to be the least */
} weir_plan_remat;

typedef struct weir_plan_paging {
    uint64_t transfers; /* out and in; 0: nothing is paged */
    uint64_t tensors;   /* that have a copy on the host */
    uint64_t moved;     /* bytes, both directions */
    uint64_t cost;      /* of the transfers: a part of added_cost */
    uint64_t link;      /* as given */
    uint64_t speed;
    bool overlaps;   /* transfers run beside the computation; `cost` is what it waits for them */
    uint64_t hidden; /* what the transfers take beyond that, while it runs */
} weir_plan_paging;

/* What `reorder` found: peaks are the largest live bytes of all arenas, added up. */
typedef struct weir_plan_reorder {
    bool is_tried; /* reorder was wanted; false for a restored plan */
    bool is_changed;
    uint64_t given_peak;  /* of the given order */
    uint64_t peak;        /* of the plan's order */
    uint64_t lower_bound; /* no order is below this */
} weir_plan_reorder;

/* ---- The plan as a whole ------------------------------------------------------------------------ */

/* It and all that it points to live as long as the plan. */
typedef struct weir_plan_info {
    const char *mode;
    const uint8_t *token; /* NULL for a restored plan */
    size_t token_size;
    size_t arena_count;
    size_t tensor_count;
    size_t step_count; /* 0, unless operators run again or in another order than the given one */
    const weir_plan_hashes *hashes;
    const weir_plan_metrics *metrics;
    const weir_plan_remat *remat;   /* all zero if nothing is recomputed or paged */
    const weir_plan_paging *paging; /* all zero if nothing is paged */
    const weir_plan_reorder *reorder;
} weir_plan_info;
WEIR_API const weir_plan_info *weir_plan_describe(const weir_plan *plan);

/* ---- Bare packing: lifetimes and sizes alone --------------------------------------------------- */

/* Live in [lower, upper), lower < upper; a size of 0 is allowed. */
typedef struct weir_buffer {
    uint64_t lower;
    uint64_t upper;
    uint64_t size;
} weir_buffer;

typedef struct weir_packing_options {
    size_t size;              /* of this struct */
    uint32_t effort_plus_one; /* as in weir_plan_options */
    uint32_t threads;
    bool has_capacity;
    uint64_t capacity;      /* the search tries to fit it */
    uint64_t alignment;     /* of every offset; sizes are rounded up to it. 0 is read as 1 */
    const char *strategies; /* as in weir_plan_options */
} weir_packing_options;

typedef struct weir_packing_result {
    uint64_t buffers;
    uint64_t lower_bound;
    uint64_t peak_bytes;
    bool optimal;
    uint64_t steps; /* the search's own count of work */
    uint64_t time_ns;
} weir_packing_result;

/* Writes an offset for each buffer so that no two that are live together share a byte and the largest end is
 * as small as the effort finds. The same arguments give the same offsets, on any number of threads. Any
 * thread may call it. CONTRACT_VIOLATION (an empty lifetime, an option out of range), ARENA_TOO_SMALL as in
 * weir_plan_make, ALLOCATION_OVERFLOW (the sizes add up to more than 64 bits hold). */
WEIR_API WEIR_CHECKED weir_status weir_pack(const weir_env *env, const weir_buffer *buffers, size_t count,
                                            const weir_packing_options *options, uint64_t *offsets,
                                            weir_packing_result *result, weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
