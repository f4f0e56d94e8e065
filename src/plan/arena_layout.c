/* The physical layout: which bytes of its arena each tensor has. The packer gets the arena's buffers, which
 * are its tensors, except that an overwritten input and its output are one buffer (and so on along a chain
 * of them). The slot layout, slots side by side, is the plan's own where it is as good: always for
 * parameters, which all live to the end. Buffers are given in the order (birth, size descending, id), so
 * that the order of declaration changes nothing. */
#include <string.h>

#include "plan/pack.h"
#include "plan/planning.h"

typedef struct layout {
    weir_plan *plan;
    const uint32_t *overwritten;
    bool keeps_places; /* what overwrites has the place of what it overwrites, in any case */
    const weir_plan__limits *limits;
    weir_buffer *buffers;
    uint64_t *offsets;
    uint64_t *slot_offsets; /* the slot layout of the same buffers */
    uint32_t *buffer_of;    /* a tensor's buffer */
    uint32_t buffer_count;
} layout;

weir_status weir_plan__report_too_small(weir_text arena, uint64_t required, uint64_t capacity,
                                        uint64_t lower_bound, bool is_proven, weir_error *error) {
    weir_status status = weir__fail(error, WEIR_ARENA_TOO_SMALL, WEIR_PLAN__PREPARE_OPERATOR,
                                    "arena '%.*s' needs %llu bytes and has %llu (lower bound %llu); %s",
                                    WEIR_PLAN__SHOW(arena), (unsigned long long)required,
                                    (unsigned long long)capacity, (unsigned long long)lower_bound,
                                    is_proven ? "no layout can fit: raise the capacity or shrink the tensors"
                                              : "raise the capacity, or try a higher effort");
    weir__note_text(error, "arena", arena.data, arena.size);
    weir__note_uint(error, "required", required);
    weir__note_uint(error, "capacity", capacity);
    weir__note_uint(error, "lower_bound", lower_bound);
    weir__note_uint(error, "proven", is_proven);
    return status;
}

/* Fills the buffers; false if their sizes together pass 2^64-1, which the packer does not take. */
static bool collect_buffers(layout *l, const weir_plan__planned_arena *arena) {
    weir_plan *plan = l->plan;
    const uint32_t *tensors = plan->by_birth + arena->first_tensor;
    uint64_t sum = 0;
    l->buffer_count = 0;
    for (uint32_t i = 0; i < arena->tensor_count; i++) {
        const weir_plan__row *row = &plan->rows[tensors[i]];
        uint32_t before = l->overwritten ? l->overwritten[tensors[i]] : WEIR__NO_NAME;
        if (before != WEIR__NO_NAME) {
            before = plan->rows[before].owner;
            l->buffer_of[tensors[i]] = l->buffer_of[before];
            l->buffers[l->buffer_of[before]].upper = row->death;
            continue;
        }
        uint64_t size = weir_plan__rounded(row->size, arena->alignment);
        l->slot_offsets[l->buffer_count] = plan->slots[arena->first_slot + row->slot].offset;
        l->buffers[l->buffer_count] = (weir_buffer){row->birth, row->death, size};
        l->buffer_of[tensors[i]] = l->buffer_count++;
        if (__builtin_add_overflow(sum, size, &sum))
            return false;
    }
    return true;
}

static weir_status pack(layout *l, const weir_plan__planned_arena *arena, uint64_t capacity,
                        const uint64_t *initial, weir_pack__result *result, weir_error *error) {
    weir_pack__options options = {.effort = l->limits->effort,
                                  .threads = l->limits->threads,
                                  .without = l->limits->without,
                                  .alignment = arena->alignment,
                                  .capacity = capacity,
                                  .initial = initial};
    return weir_pack__pack(l->plan->env, l->buffers, l->buffer_count, &options, l->offsets, result, error);
}

/* Packs as well as the effort allows; where that does not fit the capacity, once more with the capacity as
 * the aim. */
static weir_status search(layout *l, const weir_plan__planned_arena *arena, bool *is_proven,
                          weir_pack__result *result, weir_error *error) {
    bool buffers_are_tensors = l->buffer_count == arena->tensor_count;
    weir_status status =
        pack(l, arena, UINT64_MAX, buffers_are_tensors ? l->slot_offsets : NULL, result, error);
    if (status != WEIR_OK || !arena->has_capacity || result->optimal || *is_proven)
        return status;
    if (result->peak <= arena->capacity || (!l->keeps_places && arena->slot_bytes <= arena->capacity))
        return WEIR_OK;
    memcpy(l->slot_offsets, l->offsets, l->buffer_count * sizeof *l->offsets);
    status = pack(l, arena, arena->capacity, l->slot_offsets, result, error);
    *is_proven = status == WEIR_OK && result->infeasible_proven;
    return status;
}

static weir_status pack_arena(layout *l, weir_plan__planned_arena *arena, bool *is_proven,
                              weir_error *error) {
    weir_plan *plan = l->plan;
    weir_pack__result result;
    if (!collect_buffers(l, arena))
        return WEIR_OK;
    weir_status status = search(l, arena, is_proven, &result, error);
    if (status != WEIR_OK || (!l->keeps_places && result.peak > arena->slot_bytes))
        return status;
    const uint32_t *tensors = plan->by_birth + arena->first_tensor;
    for (uint32_t i = 0; i < arena->tensor_count; i++)
        plan->rows[tensors[i]].offset = l->offsets[l->buffer_of[tensors[i]]];
    arena->peak_bytes = result.peak;
    arena->optimal = result.optimal;
    *is_proven |= result.optimal;
    return WEIR_OK;
}

/* Slots side by side; where that is not at the bound, packed. */
static weir_status lay_out_arena(layout *l, weir_plan__planned_arena *arena, weir_error *error) {
    weir_plan *plan = l->plan;
    const uint32_t *tensors = plan->by_birth + arena->first_tensor;
    bool is_proven = arena->lower_bound > arena->capacity;
    for (uint32_t i = 0; i < arena->tensor_count; i++) {
        weir_plan__row *row = &plan->rows[tensors[i]];
        row->offset = plan->slots[arena->first_slot + row->slot].offset;
    }
    arena->peak_bytes = arena->slot_bytes;
    arena->optimal = arena->peak_bytes == arena->lower_bound;
    if (!arena->optimal || l->keeps_places)
        WEIR__TRY(pack_arena(l, arena, &is_proven, error));
    assert(arena->peak_bytes >= arena->lower_bound && "no layout is below the bound");
    if (arena->has_capacity && arena->peak_bytes > arena->capacity)
        return weir_plan__report_too_small(arena->name, arena->peak_bytes, arena->capacity,
                                           arena->lower_bound, is_proven, error);
    return WEIR_OK;
}

weir_status weir_plan__lay_out(weir_plan *plan, const weir_plan__liveness *liveness,
                               const weir_plan__limits *limits, weir_error *error) {
    layout l = {.plan = plan,
                .overwritten = liveness->overwritten,
                .keeps_places = liveness->versions,
                .limits = limits};
    weir__arena memory;
    weir_status status = WEIR_OK;
    size_t most = 0;
    for (uint32_t a = 0; a < plan->arena_count; a++)
        most = plan->arenas[a].tensor_count > most ? plan->arenas[a].tensor_count : most;
    weir__arena_init(&memory, plan->env);
    l.buffers = weir__arena_take(&memory, most * sizeof *l.buffers);
    l.offsets = weir__arena_take(&memory, most * sizeof *l.offsets);
    l.slot_offsets = weir__arena_take(&memory, most * sizeof *l.slot_offsets);
    l.buffer_of = weir__arena_take(&memory, plan->count * sizeof *l.buffer_of);
    if (memory.is_short)
        status = weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, plan->count * sizeof *l.buffers);
    for (uint32_t a = 0; status == WEIR_OK && a < plan->arena_count; a++)
        status = lay_out_arena(&l, &plan->arenas[a], error);
    for (uint32_t i = 0; i < plan->count; i++)
        if (weir_plan__is_alias(plan, i))
            plan->rows[i].offset += plan->rows[plan->rows[i].owner].offset;
    weir__arena_release(&memory);
    return status;
}
