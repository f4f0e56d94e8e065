/* See run_memory.h. Everything that a run keeps is live from its first step to its last, so the graph has
 * tensors and no nodes; the planner lays them out, aligns them, and says what they take together. */
#include "pipeline/run_memory.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "batch/builder.h"

static const char operator_name[] = "weir.run.plan";

static const char slot_arena[] = "slots";
static const char tensor_arena[] = "tensors";
static const char builder_arena[] = "builders";
static const char device_arena[] = "device";
static const char arena_document[] =
    "{\"slots\": {\"alignment_bytes\": 256}, \"tensors\": {\"alignment_bytes\": 256}, "
    "\"builders\": {\"alignment_bytes\": 64}, \"device\": {\"alignment_bytes\": 256}}";

/* What a buffer keeps beside its batch is measured with one whose batch has no memory: nothing is built. */
weir_status weir_pipeline__memory_measure(weir_pipeline__memory_need *need,
                                          const weir_pipeline__builders *builders,
                                          const weir_pipeline__meter *meter, weir_error *error) {
    weir_batch_buffer *buffer;
    weir_batch_room room = weir_batch_capacity(builders->list, builders->count);
    weir_batch_memory nowhere = {.compact = need, .without_tensors = true};
    need->builder_size = meter->bytes;
    need->slot_size = need->compact_size = room.compact;
    need->tensor_size = room.tensors;
    if (need->places > 0) { /* pinned memory is scarce, and the texts that there could be are many */
        weir_batch_memory own = {.without_tensors = true};
        WEIR__TRY(weir_batch_buffer_open(builders->list, builders->count, &own, &buffer, error));
        need->slot_size = weir__align(weir_batch__usual_room(builders->list, builders->count, buffer),
                                      WEIR_PIPELINE__DEVICE_ALIGNMENT);
        weir_batch_buffer_close(buffer);
    }
    WEIR__TRY(
        weir_batch__slot_open(builders->list, builders->count, &nowhere, need->slot_size, &buffer, error));
    need->list_size = meter->bytes - need->builder_size;
    need->sequences = buffer->limits.sequences;
    weir_batch_buffer_close(buffer);
    need->rules_size = 0;
    for (size_t i = 0; i < builders->count; i++)
        need->rules_size +=
            weir__align(builders->list[i]->recipe.rules.expansion_size, WEIR_PIPELINE__DEVICE_ALIGNMENT);
    return WEIR_OK;
}

enum { NAME_CAPACITY = 40 };

static weir_text name_of(char out[NAME_CAPACITY], const char *kind, uint64_t index) {
    int size = snprintf(out, NAME_CAPACITY, "%s/%llu", kind, (unsigned long long)index);
    return (weir_text){out, (size_t)size};
}

/* The tensors lie on the device, if there is one. */
static weir_status fill_graph(weir_graph *graph, const weir_pipeline__memory_need *need, weir_error *error) {
    bool has_device = need->places > 0;
    const struct {
        const char *kind;
        uint64_t count, size;
        const char *arena;
    } all[] = {
        {"slot", need->slots, need->slot_size, slot_arena},
        {"lists", need->slots, need->list_size, builder_arena},
        {"worker", need->workers, need->builder_size, builder_arena},
        {"tensors", has_device || need->tensor_size == 0 ? 0 : need->slots, need->tensor_size, tensor_arena},
        {"place", need->places, need->tensor_size, device_arena},
        {"place_slot", need->places, need->compact_size, device_arena},
        {"tables", has_device && need->table_size > 0, need->table_size, device_arena},
        {"rules", has_device, need->rules_size, device_arena},
    };
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        for (uint64_t i = 0; i < all[k].count; i++) {
            char name[NAME_CAPACITY];
            weir_tensor_info tensor = {.id = name_of(name, all[k].kind, i),
                                       .type = WEIR_TENSOR_U8,
                                       .role = WEIR_ROLE_STATE,
                                       .arena = {all[k].arena, strlen(all[k].arena)},
                                       .shape = &all[k].size,
                                       .rank = 1};
            WEIR__TRY(weir_graph_add_tensor(graph, &tensor, error));
        }
    return weir_graph_finish(graph, error);
}

static weir_status check_limit(const weir_plan *plan, const weir_pipeline__memory_need *need, uint64_t limit,
                               weir_error *error) {
    uint64_t required = 0;
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        bool is_there = arena.name.size == strlen(device_arena) &&
                        memcmp(arena.name.data, device_arena, arena.name.size) == 0;
        if (!is_there && __builtin_add_overflow(required, arena.peak_bytes, &required))
            required = UINT64_MAX;
    }
    if (limit == 0 || required <= limit)
        return WEIR_OK;
    uint64_t slot_bytes = need->slot_size + need->list_size + (need->places > 0 ? 0 : need->tensor_size);
    weir_status status = weir__fail(
        error, WEIR_ARENA_TOO_SMALL, operator_name,
        "the run needs %llu bytes (%llu slots of %llu each, and %llu for each of %llu workers), the limit is "
        "%llu; lower the number of workers, their buffers, the queue, the batch size or the sequence length",
        (unsigned long long)required, (unsigned long long)need->slots, (unsigned long long)slot_bytes,
        (unsigned long long)need->builder_size, (unsigned long long)need->workers, (unsigned long long)limit);
    weir__note_uint(error, "required", required);
    weir__note_uint(error, "limit", limit);
    weir__note_uint(error, "slots", need->slots);
    weir__note_uint(error, "slot_bytes", slot_bytes);
    weir__note_uint(error, "workers", need->workers);
    weir__note_uint(error, "worker_bytes", need->builder_size);
    return status;
}

weir_status weir_pipeline__memory_plan(const weir_env *env, const weir_pipeline__memory_need *need,
                                       uint64_t limit, const uint8_t token[WEIR_TOKEN_SIZE], weir_plan **out,
                                       weir_error *error) {
    weir_plan_options options = {.size = sizeof options,
                                 .mode = "inference",
                                 .token = token,
                                 .token_size = WEIR_TOKEN_SIZE,
                                 .arenas = {arena_document, sizeof arena_document - 1, "arenas"},
                                 .effort_plus_one = 1};
    static const char name[] = "weir.run";
    weir_graph *graph;
    weir_plan *plan;
    WEIR__TRY(weir_graph_create(env, (weir_text){name, sizeof name - 1}, &graph, error));
    weir_status status = fill_graph(graph, need, error);
    if (status == WEIR_OK)
        status = weir_plan_make(env, graph, &options, &plan, error);
    weir_graph_close(graph);
    if (status != WEIR_OK)
        return status;
    status = check_limit(plan, need, limit, error);
    if (status != WEIR_OK) {
        weir_plan_close(plan);
        return status;
    }
    *out = plan;
    return WEIR_OK;
}

weir_status weir_pipeline__memory_open(const weir_env *env, const weir_plan *plan, const char *arena,
                                       const weir_memory *memory, weir_arenas **out, weir_error *error) {
    weir_arenas_options options = {.size = sizeof options, .memory = *memory, .only = arena};
    return weir_arenas_open(env, plan, &options, out, error);
}

void *weir_pipeline__memory_at(const weir_arenas *arenas, const char *kind, uint64_t index) {
    char name[NAME_CAPACITY];
    weir_text id = name_of(name, kind, index);
    void *memory = NULL;
    size_t size;
    weir_status status = weir_arenas_tensor(arenas, id.data, id.size, &memory, &size, NULL);
    assert(status == WEIR_OK && "the plan has what the run asks for");
    (void)status;
    return memory;
}

/* ---- Committing -------------------------------------------------------------------------------- */

/* Counts the first of a kind: which of them a batch lies in depends on timing, and all are of one size. */
static weir_status count_written(weir_arenas *ledger, const char *kind, weir_error *error) {
    char name[NAME_CAPACITY];
    weir_text id = name_of(name, kind, 0);
    return weir_arenas_written(ledger, id.data, id.size, error);
}

weir_status weir_pipeline__memory_commit(const weir_pipeline__sets *sets, uint64_t step, bool is_first,
                                         weir_commit *commit, weir_error *error) {
    weir_arenas *in_order[] = {sets->compact, sets->there, sets->tensors}; /* as their names in the plan */
    weir_commit_options options = {.size = sizeof options, .batch = step};
    uint8_t hash[WEIR_HASH_SIZE];
    for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++)
        if (in_order[i])
            WEIR__TRY(weir_arenas_commit(in_order[i], step, hash, error));
    weir_arenas *ledger = sets->compact;
    WEIR__TRY(count_written(ledger, "slot", error));
    WEIR__TRY(count_written(ledger, "lists", error));
    if (sets->tensors && !sets->there)
        WEIR__TRY(count_written(ledger, "tensors", error));
    if (sets->there) {
        WEIR__TRY(count_written(ledger, "place", error));
        WEIR__TRY(count_written(ledger, "place_slot", error));
    }
    if (sets->there && is_first) {
        void *tables;
        size_t size;
        if (weir_arenas_tensor(ledger, "tables/0", 8, &tables, &size, NULL) == WEIR_OK)
            WEIR__TRY(count_written(ledger, "tables", error));
        WEIR__TRY(count_written(ledger, "rules", error));
    }
    return weir_arenas_seal(sets->compact, &options, commit, error);
}
