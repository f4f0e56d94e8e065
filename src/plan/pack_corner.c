/* Placing, leaving empty, undoing.
 *
 * Placing a buffer raises every unplaced buffer that lives with it to its top. Those are the members of its
 * first section and, because buffers are sorted by first section, one index range. A section's level has a
 * *witness*, an unplaced buffer at that level; it is recomputed only when the witness moved. Placed buffers
 * keep UINT64_MAX as floor, so that a scan for the least needs no test. The first violated section ends the
 * propagation. */
#include "plan/pack_corner.h"

#include <string.h>

static inline void push_trail(weir_pack__corner *x, weir_pack__trail_kind kind, uint32_t index,
                              uint64_t value, uint32_t witness) {
    if (x->trail_count == x->trail_capacity &&
        !weir__grow(x->env, (void **)&x->trail, &x->trail_capacity, x->trail_count + 1, sizeof *x->trail)) {
        x->out_of_memory = true;
        x->trail_count--;
    }
    x->trail[x->trail_count++] = (weir_pack__trail_entry){
        .value = value, .index = index, .witness = witness & 0x3fffffff, .kind = kind & 3};
}

static void set_lowest(weir_pack__corner *x, uint32_t section, uint64_t value) {
    if (!x->lowest)
        return;
    uint32_t at = x->leaves + section;
    x->lowest[at] = value;
    while (at > 1) {
        at /= 2;
        uint64_t left = x->lowest[2 * at];
        uint64_t right = x->lowest[2 * at + 1];
        uint64_t least = left < right ? left : right;
        if (x->lowest[at] == least)
            return;
        x->lowest[at] = least;
    }
}

uint32_t weir_pack__corner_lowest(const weir_pack__corner *x, uint32_t from, uint32_t to) {
    uint64_t least = UINT64_MAX;
    for (uint32_t a = from + x->leaves, b = to + x->leaves; a < b; a /= 2, b /= 2) {
        if (a & 1) {
            least = x->lowest[a] < least ? x->lowest[a] : least;
            a++;
        }
        if (b & 1) {
            b--;
            least = x->lowest[b] < least ? x->lowest[b] : least;
        }
    }
    uint32_t at = from + x->leaves;
    while (x->lowest[at] > least) {
        while (at & 1)
            at /= 2;
        at++;
    }
    while (at < x->leaves) {
        at *= 2;
        if (x->lowest[at] > least)
            at++;
    }
    return at - x->leaves;
}

static void note_moved(weir_pack__corner *x, uint32_t buffer) {
    uint32_t left = x->witnessed[buffer];
    for (uint32_t s = x->part->first[buffer]; left > 0; s++)
        if (x->witness[s] == buffer) {
            left--;
            if (x->moved_in[s] != x->change) {
                x->moved_in[s] = x->change;
                x->moved[x->moved_count++] = s;
            }
        }
}

/* New witnesses for the sections noted. Levels never fall, and in the sections [from, to) of a placement
 * none is below its top: a member that reaches that bound ends the scan. */
static bool find_levels(weir_pack__corner *x, uint32_t from, uint32_t to, uint64_t top) {
    const weir_pack__part *part = x->part;
    for (uint32_t i = 0; i < x->moved_count; i++) {
        uint32_t s = x->moved[i];
        if (!x->unplaced[s])
            continue;
        uint64_t bound = s >= from && s < to && top > x->level[s] ? top : x->level[s];
        uint64_t least = UINT64_MAX;
        uint32_t witness = 0;
        const uint32_t *members = x->members + part->members_at[s];
        uint32_t k = 0;
        for (; k < x->unplaced[s] && least > bound; k++) {
            uint32_t buffer = members[k];
            if (x->floor_of[buffer] < least) {
                least = x->floor_of[buffer];
                witness = buffer;
            }
        }
        x->steps += k + 2;
        push_trail(x, WEIR_PACK__TRAIL_LEVEL, s, x->level[s], x->witness[s]);
        x->witnessed[x->witness[s]]--;
        x->witnessed[witness]++;
        x->level[s] = least;
        x->witness[s] = witness;
        set_lowest(x, s, least);
        if (least > x->capacity - x->rest[s])
            return false;
    }
    return true;
}

static void start_change(weir_pack__corner *x) {
    x->change++;
    x->moved_count = 0;
}

static inline bool raise_to(weir_pack__corner *x, uint32_t buffer, uint64_t floor) {
    push_trail(x, WEIR_PACK__TRAIL_FLOOR, buffer, x->floor_of[buffer], 0);
    x->floor_of[buffer] = floor;
    if (x->witnessed[buffer])
        note_moved(x, buffer);
    return floor <= x->limit[buffer];
}

/* Swaps a buffer with the last unplaced one of its section. put_back needs no swap: it undoes the latest
 * removal. */
static void remove_member(weir_pack__corner *x, uint32_t section, uint32_t buffer) {
    const weir_pack__part *part = x->part;
    uint32_t *members = x->members + part->members_at[section];
    uint32_t *place = &x->place_of[part->slots_at[buffer] + (section - part->first[buffer])];
    uint32_t last = --x->unplaced[section];
    uint32_t other = members[last];
    members[*place] = other;
    members[last] = buffer;
    x->place_of[part->slots_at[other] + (section - part->first[other])] = *place;
    *place = last;
}

static void take_out(weir_pack__corner *x, uint32_t buffer) {
    const weir_pack__part *part = x->part;
    uint64_t size = part->size[buffer];
    uint32_t end = part->last[buffer];
    push_trail(x, WEIR_PACK__TRAIL_PLACED, buffer, 0, 0);
    x->offset[buffer] = x->floor_of[buffer];
    x->floor_of[buffer] = UINT64_MAX;
    for (uint32_t s = part->first[buffer]; s < end; s++) {
        x->rest[s] -= size;
        remove_member(x, s, buffer);
        if (x->unplaced[s] == 0)
            set_lowest(x, s, UINT64_MAX);
    }
    for (uint32_t s = part->first[buffer]; s + 1 < end; s++)
        x->crossing[s]--;
    x->last_section = part->first[buffer] + (end - part->first[buffer]) / 2;
    note_moved(x, buffer);
}

bool weir_pack__corner_place(weir_pack__corner *x, uint32_t buffer) {
    const weir_pack__part *part = x->part;
    uint64_t size = part->size[buffer];
    uint64_t top = x->floor_of[buffer] + size;
    uint32_t first = part->first[buffer];
    x->steps += part->last[buffer] - first + 4;
    for (uint32_t s = first; s < part->last[buffer]; s++)
        if (top > x->capacity - (x->rest[s] - size))
            return false;
    start_change(x);
    take_out(x, buffer);
    const uint32_t *members = x->members + part->members_at[first];
    for (uint32_t k = 0; k < x->unplaced[first]; k++)
        if (x->floor_of[members[k]] < top && !raise_to(x, members[k], top))
            return false;
    uint32_t end = part->born_at[part->last[buffer]];
    for (uint32_t other = part->born_at[first + 1]; other < end; other++)
        if (x->floor_of[other] < top && !raise_to(x, other, top))
            return false;
    x->steps += x->unplaced[first] + (end - part->born_at[first + 1]);
    return find_levels(x, first, part->last[buffer], top);
}

/* The least top that an unplaced neighbour of `buffer` can have: if the buffer does not lie at its floor,
 * then it rests on one of them. */
static uint64_t least_support(weir_pack__corner *x, uint32_t buffer) {
    const weir_pack__part *part = x->part;
    uint32_t first = part->first[buffer];
    uint64_t least = UINT64_MAX;
    const uint32_t *members = x->members + part->members_at[first];
    for (uint32_t k = 0; k < x->unplaced[first]; k++) {
        uint32_t other = members[k];
        if (other != buffer && x->floor_of[other] + part->size[other] < least)
            least = x->floor_of[other] + part->size[other];
    }
    uint32_t end = part->born_at[part->last[buffer]];
    for (uint32_t other = part->born_at[first + 1]; other < end; other++)
        if (x->floor_of[other] != UINT64_MAX && x->floor_of[other] + part->size[other] < least)
            least = x->floor_of[other] + part->size[other];
    x->steps += x->unplaced[first] + (end - part->born_at[first + 1]);
    return least;
}

/* Nothing covers `section` at `height`: every buffer that could rests on something that is yet to be
 * placed. */
bool weir_pack__corner_leave(weir_pack__corner *x, uint32_t section, uint64_t height) {
    const weir_pack__part *part = x->part;
    const uint32_t *members = x->members + part->members_at[section];
    size_t mark = x->trail_count;
    start_change(x);
    x->steps += x->unplaced[section];
    for (uint32_t k = 0; k < x->unplaced[section]; k++)
        if (x->floor_of[members[k]] == height && !raise_to(x, members[k], height + 1))
            return false;
    size_t end = x->trail_count;
    for (size_t i = mark; i < end; i++) {
        uint32_t buffer = x->trail[i].index;
        uint64_t support = least_support(x, buffer);
        if (support > x->limit[buffer])
            return false;
        if (support > x->floor_of[buffer])
            x->floor_of[buffer] = support;
    }
    return find_levels(x, 0, 0, 0);
}

static void put_back(weir_pack__corner *x, uint32_t buffer) {
    const weir_pack__part *part = x->part;
    uint64_t size = part->size[buffer];
    x->floor_of[buffer] = x->offset[buffer];
    for (uint32_t s = part->first[buffer]; s < part->last[buffer]; s++) {
        x->rest[s] += size;
        if (x->unplaced[s]++ == 0)
            set_lowest(x, s, x->level[s]);
    }
    for (uint32_t s = part->first[buffer]; s + 1 < part->last[buffer]; s++)
        x->crossing[s]++;
}

void weir_pack__corner_undo(weir_pack__corner *x, size_t mark) {
    while (x->trail_count > mark) {
        weir_pack__trail_entry entry = x->trail[--x->trail_count];
        if (entry.kind == WEIR_PACK__TRAIL_FLOOR) {
            x->floor_of[entry.index] = entry.value;
        } else if (entry.kind == WEIR_PACK__TRAIL_LEVEL) {
            x->witnessed[x->witness[entry.index]]--;
            x->witnessed[entry.witness]++;
            x->witness[entry.index] = entry.witness;
            x->level[entry.index] = entry.value;
            set_lowest(x, entry.index, entry.value);
        } else {
            put_back(x, entry.index);
        }
    }
}

void weir_pack__corner_set_capacity(weir_pack__corner *x, uint64_t capacity) {
    const weir_pack__part *part = x->part;
    x->capacity = capacity;
    for (x->shift = 0; capacity >> x->shift >= 1u << 20;)
        x->shift++;
    for (uint32_t i = 0; i < part->count; i++)
        x->limit[i] = part->size[i] <= capacity ? capacity - part->size[i] : 0;
}

/* Durations and sizes scaled to 1 .. 2^18 keep every product below 2^54. */
static uint64_t order_key(weir_pack__corner_order order, uint64_t duration, uint64_t size) {
    switch (order) {
    case WEIR_PACK__ORDER_LONGEST:
        return duration << 19 | size;
    case WEIR_PACK__ORDER_LARGEST:
        return size << 19 | duration;
    case WEIR_PACK__ORDER_AREA:
        return duration * size << 18;
    case WEIR_PACK__ORDER_LONG_AREA:
        return duration * duration * size;
    default:
        return duration * size * size;
    }
}

static void set_keys(weir_pack__corner *x) {
    const weir_pack__part *part = x->part;
    uint64_t size_max = 1;
    for (uint32_t i = 0; i < part->count; i++)
        size_max = part->size[i] > size_max ? part->size[i] : size_max;
    for (uint32_t i = 0; i < part->count; i++) {
        uint64_t size = 1 + (uint64_t)((unsigned __int128)part->size[i] * ((1u << 18) - 1) / size_max);
        uint64_t duration =
            1 + (uint64_t)(part->last[i] - part->first[i]) * ((1u << 18) - 1) / part->section_count;
        uint64_t key = order_key(x->task->order, duration, size);
        uint64_t noise = x->task->seed ? weir_pack__mix(i + UINT64_C(1000003) * x->task->seed) >> 56 : 0;
        x->key[i] = key + (key >> 10) * noise;
    }
}

/* Nothing is placed: every section has all its buffers, at level 0. */
static void start_sections(weir_pack__corner *x) {
    const weir_pack__part *part = x->part;
    for (uint32_t s = 0; s < part->section_count; s++) {
        uint32_t from = part->members_at[s];
        x->rest[s] = part->load[s];
        x->unplaced[s] = part->members_at[s + 1] - from;
        x->crossing[s] = 0;
        for (uint32_t k = from; k < part->members_at[s + 1]; k++) {
            uint32_t buffer = part->members[k];
            x->place_of[part->slots_at[buffer] + (s - part->first[buffer])] = k - from;
            x->crossing[s] += part->last[buffer] > s + 1;
        }
        x->witness[s] = part->members[from];
        x->witnessed[part->members[from]]++;
        x->level[s] = 0;
    }
    if (!x->lowest)
        return;
    for (uint32_t s = 0; s < x->leaves; s++)
        x->lowest[x->leaves + s] = s < part->section_count ? x->level[s] : UINT64_MAX;
    for (uint32_t at = x->leaves - 1; at > 0; at--)
        x->lowest[at] = x->lowest[2 * at] < x->lowest[2 * at + 1] ? x->lowest[2 * at] : x->lowest[2 * at + 1];
}

void weir_pack__corner_reset(weir_pack__corner *x, const weir_pack__search_task *task) {
    const weir_pack__part *part = x->part;
    x->task = task;
    x->steps = 0;
    x->budget = task->budget;
    x->trail_count = x->frame_count = x->choice_count = x->word_count = 0;
    x->generation++;
    x->change = 0;
    x->last_section = 0;
    memset(x->floor_of, 0, part->count * sizeof *x->floor_of);
    memset(x->witnessed, 0, part->count * sizeof *x->witnessed);
    memcpy(x->members, part->members, part->members_at[part->section_count] * sizeof *x->members);
    memset(x->moved_in, 0, part->section_count * sizeof *x->moved_in);
    start_sections(x);
    set_keys(x);
    weir_pack__corner_set_capacity(x, task->capacity);
}
