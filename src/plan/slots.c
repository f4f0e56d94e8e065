/* Logical slots (AssignLogicalSlots_v1), per arena: the greedy sweep over an interval graph, which is
 * optimal, so the number of slots equals the largest number of tensors that are live at once; that is
 * asserted. Tensors are put in order of birth and of death by counting, once for all arenas; only ties need
 * comparisons. O(n log n) whatever the number of arenas. */
#include <assert.h>
#include <string.h>

#include "plan/planning.h"

#define SLOTS_OPERATOR "UML_OS.TMMU.AssignLogicalSlots_v1"

static weir_status no_memory(const weir_plan *plan, weir_error *error) {
    return weir__out_of_memory(error, SLOTS_OPERATOR, plan->count * sizeof(uint32_t));
}

/* ---- The arenas that have tensors -------------------------------------------------------------- */

/* map[i]: how many tensors the name i has; then the plan's index of it, if it has any. */
static weir_status name_arenas(weir_plan *plan, const weir__names *names, const uint32_t *sorted,
                               uint32_t *map, weir_error *error) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < names->count; i++)
        used += map[i] != 0;
    plan->arenas = weir__arena_take_zero(&plan->memory, used, sizeof *plan->arenas);
    for (uint32_t i = 0; i < names->count && !plan->memory.is_short; i++) {
        uint32_t name = sorted[i];
        if (map[name] == 0)
            continue;
        weir_text text = weir__name(names, name);
        plan->arenas[plan->arena_count] = (weir_plan__planned_arena){
            .name = {weir__arena_text(&plan->memory, text.data, text.size), text.size},
            .alignment = WEIR_ALIGNMENT_DEFAULT,
            .reuses = !weir_plan__same_text(text, "parameters"),
            .tensor_count = map[name]};
        map[name] = plan->arena_count++;
    }
    return plan->memory.is_short ? no_memory(plan, error) : WEIR_OK;
}

weir_status weir_plan__collect_arenas(weir_plan *plan, const weir__names *names,
                                      const weir_plan__arena_setting *settings, size_t setting_count,
                                      weir_error *error) {
    uint32_t *sorted = weir__allocate(plan->env, names->count, sizeof *sorted);
    uint32_t *map = weir__allocate_zero(plan->env, names->count, sizeof *map);
    weir_status status = WEIR_OK;
    if (!sorted || !map || !weir__names_sort(plan->env, names->text, names->ends, names->count, sorted))
        status = no_memory(plan, error);
    for (uint32_t i = 0; status == WEIR_OK && i < plan->count; i++)
        map[plan->rows[i].arena] += !weir_plan__is_alias(plan, i);
    if (status == WEIR_OK)
        status = name_arenas(plan, names, sorted, map, error);
    for (uint32_t i = 0; status == WEIR_OK && i < plan->count; i++)
        plan->rows[i].arena = map[plan->rows[i].arena];
    weir__release(plan->env, sorted);
    weir__release(plan->env, map);
    /* Settings stand in the order of CBOR keys, as the arenas do: one walk through both finds all pairs. */
    for (uint32_t a = 0, at = 0; status == WEIR_OK && a < plan->arena_count; a++) {
        weir_plan__planned_arena *arena = &plan->arenas[a];
        int order = 1;
        for (; at < setting_count; at++) {
            order = weir__key_compare(settings[at].name.data, settings[at].name.size, arena->name.data,
                                      arena->name.size);
            if (order >= 0)
                break;
        }
        if (at == setting_count || order != 0)
            continue;
        if (settings[at].has_alignment)
            arena->alignment = settings[at].alignment;
        arena->page_size = settings[at].page_size;
        arena->has_capacity = settings[at].has_capacity;
        arena->capacity = settings[at].capacity;
        arena->budget = settings[at].capacity - settings[at].slack;
    }
    return status;
}

/* ---- Order in time ----------------------------------------------------------------------------- */

static uint32_t time_of(const weir_plan__row *row, bool by_birth) {
    return by_birth ? row->birth : row->death;
}

/* Times are as many as nodes, so counting them is cheap, unless a graph has far more nodes than tensors. */
static bool counting_pays(const weir_plan *plan) {
    return plan->end <= 8 * (uint64_t)plan->count + 4096;
}

static size_t count_size(const weir_plan *plan) {
    return counting_pays(plan) ? (size_t)plan->end + 1 : 0;
}

static uint32_t placed_count(const weir_plan *plan) {
    return plan->count - plan->alias_count;
}

/* All tensors that have a place of their own by time, those of one time in the order of declaration. `counts`
 * has count_size entries. */
static void sort_all(const weir_plan *plan, bool by_birth, uint32_t *counts, weir__record *records,
                     uint32_t *sorted) {
    if (!counting_pays(plan)) {
        uint32_t used = 0;
        for (uint32_t i = 0; i < plan->count; i++)
            if (!weir_plan__is_alias(plan, i))
                records[used++] = (weir__record){time_of(&plan->rows[i], by_birth), i};
        weir__sort_records(records, records + plan->count, used, NULL, NULL);
        for (uint32_t i = 0; i < used; i++)
            sorted[i] = records[i].index;
        return;
    }
    memset(counts, 0, count_size(plan) * sizeof *counts);
    for (uint32_t i = 0; i < plan->count; i++)
        counts[time_of(&plan->rows[i], by_birth)] += !weir_plan__is_alias(plan, i);
    uint32_t start = 0;
    for (size_t p = 0; p < count_size(plan); p++) {
        uint32_t here = counts[p];
        counts[p] = start;
        start += here;
    }
    for (uint32_t i = 0; i < plan->count; i++)
        if (!weir_plan__is_alias(plan, i))
            sorted[counts[time_of(&plan->rows[i], by_birth)]++] = i;
}

/* Arena after arena, each in the order that `sorted` has. */
static void split_by_arena(const weir_plan *plan, const uint32_t *sorted, uint32_t *out) {
    for (uint32_t a = 0; a < plan->arena_count; a++)
        plan->arenas[a].cursor = plan->arenas[a].first_tensor;
    for (uint32_t i = 0; i < placed_count(plan); i++)
        out[plan->arenas[plan->rows[sorted[i]].arena].cursor++] = sorted[i];
}

static int compare_ids(const void *context, uint32_t a, uint32_t b) {
    return weir_plan__compare_texts(weir_plan__id(context, a), weir_plan__id(context, b));
}

/* Tensors of one birth: the larger first, then by id. Where slots are not reused the order of declaration
 * stands. */
static void sort_ties(const weir_plan *plan, weir__record *records) {
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        uint32_t *tensors = plan->by_birth + plan->arenas[a].first_tensor;
        uint32_t count = plan->arenas[a].reuses ? plan->arenas[a].tensor_count : 0;
        for (uint32_t at = 0, end; at < count; at = end) {
            for (end = at + 1;
                 end < count && plan->rows[tensors[end]].birth == plan->rows[tensors[at]].birth;)
                end++;
            uint32_t ties = end - at;
            for (uint32_t i = 0; i < ties; i++)
                records[i] = (weir__record){UINT64_MAX - plan->rows[tensors[at + i]].size, tensors[at + i]};
            weir__sort_records(records, records + ties, ties, compare_ids, plan);
            for (uint32_t i = 0; i < ties; i++)
                tensors[at + i] = records[i].index;
        }
    }
}

static void sort_everything(weir_plan *plan, uint32_t *counts, uint32_t *scratch, weir__record *records) {
    uint32_t *births = scratch;
    uint32_t *deaths = scratch + plan->count;
    uint32_t first = 0;
    for (uint32_t a = 0; a < plan->arena_count; first += plan->arenas[a++].tensor_count)
        plan->arenas[a].first_tensor = first;
    assert(first == placed_count(plan) && "every tensor that is no alias is in one arena");
    sort_all(plan, true, counts, records, births);
    sort_all(plan, false, counts, records, deaths);
    uint32_t most = 0;
    for (uint32_t i = 0, dead = 0; i < placed_count(plan); i++) {
        while (plan->rows[deaths[dead]].death <= plan->rows[births[i]].birth)
            dead++;
        most = i + 1 - dead > most ? i + 1 - dead : most;
    }
    plan->metrics.max_live = most;
    split_by_arena(plan, births, plan->by_birth);
    split_by_arena(plan, deaths, plan->by_death);
    sort_ties(plan, records);
}

weir_status weir_plan__sort_by_time(weir_plan *plan, weir_error *error) {
    const weir_env *env = plan->env;
    uint32_t *counts = weir__allocate(env, count_size(plan), sizeof *counts);
    uint32_t *scratch = weir__allocate(env, plan->count, 2 * sizeof *scratch);
    weir__record *records = weir__allocate(env, plan->count, 2 * sizeof *records);
    plan->by_birth = weir__allocate(env, plan->count, sizeof *plan->by_birth);
    plan->by_death = weir__allocate(env, plan->count, sizeof *plan->by_death);
    bool has_memory = counts && scratch && records && plan->by_birth && plan->by_death;
    if (has_memory)
        sort_everything(plan, counts, scratch, records);
    weir__release(env, counts);
    weir__release(env, scratch);
    weir__release(env, records);
    return has_memory ? WEIR_OK : no_memory(plan, error);
}

/* ---- How much is live -------------------------------------------------------------------------- */

static weir_status report_overflow(const weir_plan__planned_arena *arena, const char *what,
                                   weir_error *error) {
    return weir__fail(error, WEIR_ALLOCATION_OVERFLOW, SLOTS_OPERATOR,
                      "arena '%.*s': %s passes 2^64-1 bytes; the tensors are too large",
                      WEIR_PLAN__SHOW(arena->name), what);
}

weir_status weir_plan__measure_live(weir_plan *plan, weir_error *error) {
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        weir_plan__planned_arena *arena = &plan->arenas[a];
        const uint32_t *births = plan->by_birth + arena->first_tensor;
        const uint32_t *deaths = plan->by_death + arena->first_tensor;
        uint32_t dead = 0;
        uint64_t live_bytes = 0;
        for (uint32_t i = 0; i < arena->tensor_count; i++) {
            const weir_plan__row *row = &plan->rows[births[i]];
            uint64_t rounded;
            if (!weir_plan__round_up(row->size, arena->alignment, &rounded))
                return report_overflow(arena, "a size, rounded up to the alignment,", error);
            for (; plan->rows[deaths[dead]].death <= row->birth; dead++)
                live_bytes -= weir_plan__rounded(plan->rows[deaths[dead]].size, arena->alignment);
            if (__builtin_add_overflow(live_bytes, rounded, &live_bytes))
                return report_overflow(arena, "the sum of what is live at once", error);
            if (live_bytes > arena->lower_bound) {
                arena->lower_bound = live_bytes;
                arena->fullest = row->birth;
            }
            if (i + 1 - dead > arena->max_live)
                arena->max_live = i + 1 - dead;
        }
    }
    return WEIR_OK;
}

/* ---- Slots ------------------------------------------------------------------------------------- */

/* The least slot that is free, for each tensor when it is born. */
static void reuse_slots(weir_plan *plan, weir_plan__planned_arena *arena, uint32_t *heap) {
    const uint32_t *births = plan->by_birth + arena->first_tensor;
    const uint32_t *deaths = plan->by_death + arena->first_tensor;
    weir_plan__heap free_ones = {heap, 0};
    uint32_t dead = 0;
    for (uint32_t i = 0; i < arena->tensor_count; i++) {
        weir_plan__row *row = &plan->rows[births[i]];
        for (; plan->rows[deaths[dead]].death <= row->birth; dead++)
            weir_plan__heap_push(&free_ones, plan->rows[deaths[dead]].slot);
        row->slot = free_ones.count > 0 ? weir_plan__heap_pop(&free_ones) : arena->slot_count++;
    }
    assert(arena->slot_count == arena->max_live);
}

static weir_status measure_slots(weir_plan *plan, weir_error *error) {
    for (uint32_t i = 0; i < plan->count; i++) {
        const weir_plan__row *row = &plan->rows[i];
        const weir_plan__planned_arena *arena = &plan->arenas[row->arena];
        weir_plan_slot *slot = &plan->slots[arena->first_slot + row->slot];
        uint64_t rounded = weir_plan__rounded(row->size, arena->alignment);
        slot->size = rounded > slot->size ? rounded : slot->size;
    }
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        weir_plan__planned_arena *arena = &plan->arenas[a];
        uint64_t top = 0;
        for (uint32_t s = 0; s < arena->slot_count; s++) {
            weir_plan_slot *slot = &plan->slots[arena->first_slot + s];
            slot->offset = top;
            if (__builtin_add_overflow(top, slot->size, &top))
                return report_overflow(arena, "the sum of the slots", error);
        }
        arena->slot_bytes = top;
    }
    return WEIR_OK;
}

weir_status weir_plan__assign_slots(weir_plan *plan, weir_error *error) {
    uint32_t largest = 0;
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        plan->arenas[a].slot_count = 0;
        largest = plan->arenas[a].max_live > largest ? plan->arenas[a].max_live : largest;
    }
    uint32_t *heap = weir__allocate(plan->env, largest, sizeof *heap);
    if (!heap)
        return no_memory(plan, error);
    for (uint32_t i = 0; i < plan->count; i++) { /* what is not reused, in the order of declaration */
        weir_plan__planned_arena *arena = &plan->arenas[plan->rows[i].arena];
        if (!arena->reuses && !weir_plan__is_alias(plan, i))
            plan->rows[i].slot = arena->slot_count++;
    }
    for (uint32_t a = 0; a < plan->arena_count; a++) {
        if (plan->arenas[a].reuses)
            reuse_slots(plan, &plan->arenas[a], heap);
        plan->arenas[a].first_slot = plan->slot_count;
        plan->slot_count += plan->arenas[a].slot_count;
    }
    for (uint32_t i = 0; i < plan->count; i++)
        plan->rows[i].slot = plan->rows[plan->rows[i].owner].slot;
    weir__release(plan->env, heap);
    plan->slots = weir__arena_take_zero(&plan->memory, plan->slot_count, sizeof *plan->slots);
    return plan->slots ? measure_slots(plan, error) : no_memory(plan, error);
}
