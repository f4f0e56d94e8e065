/* A part and its sections.
 *
 * Events in time order, deaths before births at equal times, cut time into *maximal* sets of live buffers:
 * a new section starts at the first death after a birth, because only a birth can make a set that is not
 * contained in the one before. Non-maximal moments add no constraint. Lifetimes become section ranges;
 * buffers that differed only in moments of no consequence become equal, and buffers that span a whole part
 * become visible. */
#include "plan/pack_internal.h"

#include <string.h>

typedef struct ending {
    uint64_t upper;
    uint32_t index;
} ending;

static void sift_ending(ending *heap, size_t count, size_t at) {
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && heap[child + 1].upper < heap[child].upper)
            child++;
        if (heap[at].upper <= heap[child].upper)
            return;
        ending swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

static void push_ending(ending *heap, size_t at, ending item) {
    while (at > 0 && heap[(at - 1) / 2].upper > item.upper) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = item;
}

/* A lifetime and where its sections go. */
typedef struct sectioning {
    ending *heap;
    size_t live;
    uint32_t live_max;
    uint32_t section;
    bool grown; /* something was born since the section began */
    uint32_t *last;
} sectioning;

/* What has died by `time` leaves. */
static void end_until(sectioning *s, uint64_t time) {
    while (s->live > 0 && s->heap[0].upper <= time) {
        if (s->grown) {
            s->section++;
            s->grown = false;
        }
        s->last[s->heap[0].index] = s->section;
        s->heap[0] = s->heap[--s->live];
        sift_ending(s->heap, s->live, 0);
    }
}

/* The section in which a buffer is born; buffers come sorted by lower. */
static uint32_t begin(sectioning *s, uint32_t index, uint64_t lower, uint64_t upper) {
    end_until(s, lower);
    push_ending(s->heap, s->live++, (ending){upper, index});
    s->live_max = s->live > s->live_max ? (uint32_t)s->live : s->live_max;
    s->grown = true;
    return s->section;
}

/* Sets first and last of every buffer; returns the number of sections. */
static uint32_t number_sections(const weir_pack__item *items, uint32_t count, ending *heap,
                                weir_pack__part *part) {
    sectioning s = {.heap = heap, .last = part->last};
    for (uint32_t i = 0; i < count; i++)
        part->first[i] = begin(&s, i, items[i].lower, items[i].upper);
    end_until(&s, UINT64_MAX);
    part->live_max = s.live_max;
    return s.section;
}

weir_status weir_pack__sweep_sections(const weir_env *env, const weir_pack__sweep *sweep, uint32_t *first,
                                      uint32_t *last, weir_error *error) {
    sectioning s = {.last = last};
    s.heap = weir__allocate(env, sweep->live_max, sizeof *s.heap);
    if (!s.heap)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, sweep->live_max * sizeof *s.heap);
    for (uint32_t i = 0; i < sweep->count; i++)
        first[i] = begin(&s, i, sweep->rows[i].lower, sweep->rows[i].upper);
    end_until(&s, UINT64_MAX);
    weir__release(env, s.heap);
    return WEIR_OK;
}

static void fill_loads(weir_pack__part *part) {
    for (uint32_t i = 0, s = 0; s <= part->section_count; s++) {
        while (i < part->count && part->first[i] < s)
            i++;
        part->born_at[s] = i;
    }
    memset(part->load, 0, part->section_count * sizeof *part->load);
    memset(part->members_at, 0, (part->section_count + (size_t)2) * sizeof *part->members_at);
    for (uint32_t i = 0; i < part->count; i++)
        for (uint32_t s = part->first[i]; s < part->last[i]; s++) {
            part->load[s] += part->size[i];
            part->members_at[s + 2]++;
        }
    for (uint32_t s = 0; s < part->section_count; s++) {
        part->members_at[s + 2] += part->members_at[s + 1];
        if (part->load[s] > part->lower_bound)
            part->lower_bound = part->load[s];
    }
}

static void fill_members(weir_pack__part *part) {
    uint32_t slots = 0;
    for (uint32_t i = 0; i < part->count; i++) {
        part->slots_at[i] = slots;
        slots += part->last[i] - part->first[i];
        for (uint32_t s = part->first[i]; s < part->last[i]; s++)
            part->members[part->members_at[s + 1]++] = i;
    }
}

static bool allocate_buffers(const weir_env *env, weir_pack__part *part, uint32_t count) {
    part->first = weir__allocate(env, count, sizeof *part->first);
    part->last = weir__allocate(env, count, sizeof *part->last);
    part->size = weir__allocate(env, count, sizeof *part->size);
    part->origin = weir__allocate(env, count, sizeof *part->origin);
    part->slots_at = weir__allocate(env, count, sizeof *part->slots_at);
    return part->first && part->last && part->size && part->origin && part->slots_at;
}

static bool is_oversized(const weir_pack__part *part) {
    uint64_t memberships = 0;
    for (uint32_t i = 0; i < part->count; i++)
        memberships += part->last[i] - part->first[i];
    return memberships > WEIR_PACK__MEMBERSHIPS_MAX;
}

static bool allocate_sections(const weir_env *env, weir_pack__part *part) {
    size_t sections = part->section_count;
    part->born_at = weir__allocate(env, sections + 1, sizeof *part->born_at);
    part->load = weir__allocate(env, sections, sizeof *part->load);
    part->members_at = weir__allocate(env, sections + 2, sizeof *part->members_at);
    if (!part->born_at || !part->load || !part->members_at)
        return false;
    fill_loads(part);
    part->members = weir__allocate(env, part->members_at[sections + 1], sizeof *part->members);
    return part->members != NULL;
}

weir_status weir_pack__part_open(const weir_env *env, const weir_pack__item *items, uint32_t count,
                                 weir_pack__part *part, weir_error *error) {
    *part = (weir_pack__part){.count = count};
    ending *heap = weir__allocate(env, count, sizeof *heap);
    if (!heap || !allocate_buffers(env, part, count)) {
        weir__release(env, heap);
        weir_pack__part_close(env, part);
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *heap);
    }
    for (uint32_t i = 0; i < count; i++) {
        part->size[i] = items[i].size;
        part->origin[i] = items[i].origin;
    }
    part->section_count = number_sections(items, count, heap, part);
    weir__release(env, heap);
    part->oversized = is_oversized(part);
    if (part->oversized)
        return WEIR_OK;
    if (!allocate_sections(env, part)) {
        weir_pack__part_close(env, part);
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *items);
    }
    fill_members(part);
    return WEIR_OK;
}

void weir_pack__part_close(const weir_env *env, weir_pack__part *part) {
    weir__release(env, part->first);
    weir__release(env, part->last);
    weir__release(env, part->size);
    weir__release(env, part->origin);
    weir__release(env, part->born_at);
    weir__release(env, part->load);
    weir__release(env, part->members_at);
    weir__release(env, part->members);
    weir__release(env, part->slots_at);
    *part = (weir_pack__part){0};
}
