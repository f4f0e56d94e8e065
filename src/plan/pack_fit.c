/* Best fit in time order: an allocator played forward or backward through the lifetimes.
 *
 * Blocks tile [0, top) and are linked in address order; free blocks also hang in a treap keyed by (size,
 * offset), whose priorities are hashes of block numbers, so its shape is deterministic. A request takes the
 * smallest free block that is large enough (the lowest of equals), else the top grows. Freed blocks join
 * their neighbours; a free block at the top is given back. On nested lifetimes, as training steps have
 * them, this is a stack and meets the bound.
 *
 * "Outward" fits start from a layout of a window of time and play the allocator from there to both ends: at
 * the fullest moment the live set stacked without gaps costs exactly the lower bound, and away from it the
 * load is lower. What lives there is stacked by length (longest lowest), by birth (oldest lowest, good for
 * what comes before), by death (latest lowest, good for what comes after), or by any slant between the last
 * two. The window may also be a wider core around that moment that a search has laid out (pack_core.c). */
#include "plan/pack_internal.h"

enum { STEPS_PER_LOOK = 3 }; /* blocks lie apart in memory */

typedef struct block {
    uint64_t offset;
    uint64_t size;
    uint64_t end;          /* when it is freed, in the direction of play */
    uint32_t below, above; /* neighbours in address order */
    uint32_t left, right;  /* treap links while free */
    bool is_free;
} block;

typedef struct allocator {
    block *blocks;
    uint32_t block_count;
    uint32_t spare;   /* recycled blocks, linked through `left` */
    uint32_t root;    /* of the treap */
    uint32_t highest; /* the block that ends at top */
    uint64_t top;
    uint64_t peak;
    uint64_t steps;
    uint32_t *block_of; /* by row */
    uint64_t *offsets;  /* by row */
    const weir_pack__row *rows;
    bool backward;
    bool by_end; /* a request goes to the side of its block where the neighbour is freed at the nearer time */
} allocator;

static uint32_t priority_of(uint32_t index) {
    uint64_t x = (index + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(x >> 32);
}

static bool key_before(const block *a, const block *b) {
    return a->size != b->size ? a->size < b->size : a->offset < b->offset;
}

static void treap_insert(allocator *a, uint32_t index) {
    block *blocks = a->blocks;
    uint32_t *link = &a->root;
    while (*link != WEIR_PACK__NO_INDEX && priority_of(*link) >= priority_of(index)) {
        a->steps++;
        link = key_before(&blocks[index], &blocks[*link]) ? &blocks[*link].left : &blocks[*link].right;
    }
    uint32_t rest = *link;
    *link = index;
    uint32_t *left = &blocks[index].left;
    uint32_t *right = &blocks[index].right;
    while (rest != WEIR_PACK__NO_INDEX) {
        if (key_before(&blocks[rest], &blocks[index])) {
            *left = rest;
            left = &blocks[rest].right;
            rest = *left;
        } else {
            *right = rest;
            right = &blocks[rest].left;
            rest = *right;
        }
    }
    *left = *right = WEIR_PACK__NO_INDEX;
    blocks[index].is_free = true;
}

static void treap_remove(allocator *a, uint32_t index) {
    block *blocks = a->blocks;
    uint32_t *link = &a->root;
    while (*link != index) {
        a->steps++;
        link = key_before(&blocks[index], &blocks[*link]) ? &blocks[*link].left : &blocks[*link].right;
    }
    uint32_t left = blocks[index].left;
    uint32_t right = blocks[index].right;
    while (left != WEIR_PACK__NO_INDEX && right != WEIR_PACK__NO_INDEX) {
        if (priority_of(left) >= priority_of(right)) {
            *link = left;
            link = &blocks[left].right;
            left = *link;
        } else {
            *link = right;
            link = &blocks[right].left;
            right = *link;
        }
    }
    *link = left != WEIR_PACK__NO_INDEX ? left : right;
    blocks[index].is_free = false;
}

static uint32_t smallest_at_least(allocator *a, uint64_t size) {
    uint32_t best = WEIR_PACK__NO_INDEX;
    for (uint32_t at = a->root; at != WEIR_PACK__NO_INDEX;) {
        a->steps++;
        if (a->blocks[at].size >= size) {
            best = at;
            at = a->blocks[at].left;
        } else {
            at = a->blocks[at].right;
        }
    }
    return best;
}

static uint32_t take_block(allocator *a, uint64_t offset, uint64_t size) {
    uint32_t index = a->spare;
    if (index != WEIR_PACK__NO_INDEX)
        a->spare = a->blocks[index].left;
    else
        index = a->block_count++;
    a->blocks[index] =
        (block){.offset = offset, .size = size, .below = WEIR_PACK__NO_INDEX, .above = WEIR_PACK__NO_INDEX};
    return index;
}

/* Unlinks a block from the address order and recycles it. */
static void drop_block(allocator *a, uint32_t index) {
    block *b = &a->blocks[index];
    if (b->below != WEIR_PACK__NO_INDEX)
        a->blocks[b->below].above = b->above;
    if (b->above != WEIR_PACK__NO_INDEX)
        a->blocks[b->above].below = b->below;
    else
        a->highest = b->below;
    b->left = a->spare;
    a->spare = index;
}

static uint32_t grow_top(allocator *a, uint64_t size) {
    uint32_t index = take_block(a, a->top, size);
    a->blocks[index].below = a->highest;
    if (a->highest != WEIR_PACK__NO_INDEX)
        a->blocks[a->highest].above = index;
    a->highest = index;
    a->top += size;
    if (a->top > a->peak)
        a->peak = a->top;
    return index;
}

static uint64_t end_of(const allocator *a, uint32_t row) {
    return a->backward ? ~a->rows[row].lower : a->rows[row].upper;
}

static uint64_t distance(uint64_t x, uint64_t y) {
    return x > y ? x - y : y - x;
}

static bool goes_high(const allocator *a, const block *hole, uint64_t end) {
    if (!a->by_end)
        return false;
    if (hole->below == WEIR_PACK__NO_INDEX)
        return distance(a->blocks[hole->above].end, end) == 0;
    return distance(a->blocks[hole->above].end, end) < distance(a->blocks[hole->below].end, end);
}

/* Cuts a free block in two and returns the part of the given size; the rest stays free. A free block never
 * ends at top, so it has a neighbour above. */
static uint32_t cut_block(allocator *a, uint32_t hole, uint64_t size, bool high) {
    uint64_t rest_size = a->blocks[hole].size - size;
    uint32_t upper =
        take_block(a, a->blocks[hole].offset + (high ? rest_size : size), high ? size : rest_size);
    uint32_t above = a->blocks[hole].above;
    a->blocks[upper].below = hole;
    a->blocks[upper].above = above;
    a->blocks[above].below = upper;
    a->blocks[hole].above = upper;
    a->blocks[hole].size = high ? rest_size : size;
    treap_insert(a, high ? hole : upper);
    return high ? upper : hole;
}

static void allocate_row(allocator *a, uint32_t row) {
    uint64_t size = a->rows[row].size;
    uint64_t end = end_of(a, row);
    uint32_t index = smallest_at_least(a, size);
    if (index == WEIR_PACK__NO_INDEX) {
        index = grow_top(a, size);
    } else {
        treap_remove(a, index);
        if (a->blocks[index].size > size)
            index = cut_block(a, index, size, goes_high(a, &a->blocks[index], end));
    }
    a->blocks[index].end = end;
    a->block_of[row] = index;
    a->offsets[row] = a->blocks[index].offset;
    a->steps++;
}

static void free_row(allocator *a, uint32_t row) {
    uint32_t index = a->block_of[row];
    uint32_t below = a->blocks[index].below;
    uint32_t above = a->blocks[index].above;
    if (below != WEIR_PACK__NO_INDEX && a->blocks[below].is_free) {
        treap_remove(a, below);
        a->blocks[index].offset = a->blocks[below].offset;
        a->blocks[index].size += a->blocks[below].size;
        drop_block(a, below);
    }
    if (above != WEIR_PACK__NO_INDEX && a->blocks[above].is_free) {
        treap_remove(a, above);
        a->blocks[index].size += a->blocks[above].size;
        drop_block(a, above);
    }
    if (a->blocks[index].above == WEIR_PACK__NO_INDEX) {
        a->top = a->blocks[index].offset;
        drop_block(a, index);
    } else {
        treap_insert(a, index);
    }
}

static void reset(allocator *a) {
    a->block_count = 0;
    a->spare = a->root = a->highest = WEIR_PACK__NO_INDEX;
    a->top = 0;
}

/* Births from row `birth` on; `dead` rows of the deaths list are gone already. */
static void play_forward(allocator *a, const weir_pack__sweep *sweep, uint32_t birth, uint32_t dead) {
    for (; birth < sweep->count; birth++) {
        while (sweep->rows[sweep->deaths[dead]].upper <= sweep->rows[birth].lower)
            free_row(a, sweep->deaths[dead++]);
        allocate_row(a, birth);
    }
}

/* Reversed time: takes deaths[death - 1], deaths[death - 2], ...; rows from `born` up are gone already. */
static void play_backward(allocator *a, const weir_pack__sweep *sweep, uint32_t death, uint32_t born) {
    while (death-- > 0) {
        uint32_t row = sweep->deaths[death];
        while (born > 0 && sweep->rows[born - 1].lower >= sweep->rows[row].upper)
            free_row(a, --born);
        allocate_row(a, row);
    }
}

static bool stacked_before(weir_pack__stacked x, weir_pack__stacked y) {
    return x.key != y.key ? x.key < y.key : x.row < y.row;
}

static void sift_down(weir_pack__stacked *heap, size_t count, size_t at) {
    for (size_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && stacked_before(heap[child], heap[child + 1]))
            child++;
        if (!stacked_before(heap[at], heap[child]))
            return;
        weir_pack__stacked swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
    }
}

void weir_pack__sort_stacked(weir_pack__stacked *items, size_t count) {
    for (size_t at = count / 2; at-- > 0;)
        sift_down(items, count, at);
    for (size_t end = count; end-- > 1;) {
        weir_pack__stacked swap = items[0];
        items[0] = items[end];
        items[end] = swap;
        sift_down(items, end, 0);
    }
}

/* The allocator as it stands with `count` rows laid out already. */
static void load_layout(allocator *a, weir_pack__stacked *live, uint32_t count) {
    reset(a);
    for (uint32_t i = 0; i < count; i++)
        live[i].key = a->offsets[live[i].row];
    weir_pack__sort_stacked(live, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = live[i].row;
        uint64_t gap = a->offsets[row] - a->top;
        uint32_t hole = gap ? grow_top(a, gap) : WEIR_PACK__NO_INDEX;
        a->block_of[row] = grow_top(a, a->rows[row].size);
        a->blocks[a->block_of[row]].end = end_of(a, row);
        if (gap)
            treap_insert(a, hole);
    }
}

/* How many rows are dead by `time`. */
static uint32_t dead_by(const weir_pack__sweep *sweep, uint64_t time) {
    uint32_t low = 0;
    uint32_t high = sweep->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sweep->rows[sweep->deaths[middle]].upper <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void play_outward(allocator *a, const weir_pack__sweep *sweep, uint64_t from, uint64_t to,
                         weir_pack__stacked *live) {
    uint32_t count = 0;
    uint32_t born = weir_pack__born_before(sweep, to);
    for (uint32_t i = 0; i < born; i++)
        if (sweep->rows[i].upper > to)
            live[count++].row = i;
    load_layout(a, live, count);
    play_forward(a, sweep, born, dead_by(sweep, to));
    count = 0;
    born = weir_pack__born_before(sweep, from);
    for (uint32_t i = 0; i < born; i++)
        if (sweep->rows[i].upper > from)
            live[count++].row = i;
    a->backward = true;
    load_layout(a, live, count);
    play_backward(a, sweep, dead_by(sweep, from), born);
}

/* Births and deaths count by their rank, so that stretching time changes nothing. */
uint64_t weir_pack__slanted(const weir_pack__sweep *sweep, const weir_pack__row *row, uint32_t slant) {
    if (slant == WEIR_PACK__SLANT_LONG)
        return ~(row->upper - row->lower);
    uint64_t birth = weir_pack__born_before(sweep, row->lower);
    uint64_t death = sweep->count - dead_by(sweep, row->upper);
    return birth * slant + death * (WEIR_PACK__SLANT_ONE - slant);
}

/* Stacks what lives at the fullest moment. */
static void stack_peak(allocator *a, const weir_pack__sweep *sweep, uint32_t slant,
                       weir_pack__stacked *live) {
    uint64_t moment = sweep->rows[sweep->peak_row].lower;
    uint32_t count = 0;
    for (uint32_t i = 0; i <= sweep->peak_row; i++) {
        const weir_pack__row *row = &sweep->rows[i];
        if (row->upper <= moment)
            continue;
        live[count++] = (weir_pack__stacked){weir_pack__slanted(sweep, row, slant), i};
    }
    weir_pack__sort_stacked(live, count);
    for (uint32_t i = 0; i < count; i++) {
        a->offsets[live[i].row] = a->peak;
        a->peak += sweep->rows[live[i].row].size;
    }
}

static bool open_allocator(const weir_env *env, const weir_pack__sweep *sweep, uint64_t *offsets,
                           allocator *a, weir_pack__stacked **live) {
    size_t block_max = 2 * (size_t)sweep->live_max + 2;
    *a = (allocator){.rows = sweep->rows, .offsets = offsets};
    a->blocks = weir__allocate(env, block_max, sizeof *a->blocks);
    a->block_of = weir__allocate(env, sweep->count, sizeof *a->block_of);
    *live = weir__allocate(env, sweep->live_max, sizeof **live);
    reset(a);
    return a->blocks && a->block_of && *live;
}

static weir_status close_allocator(const weir_env *env, const weir_pack__sweep *sweep, bool opened,
                                   allocator *a, weir_pack__stacked *live, weir_error *error) {
    weir__release(env, a->blocks);
    weir__release(env, a->block_of);
    weir__release(env, live);
    if (!opened)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR,
                                   2 * (size_t)sweep->live_max * sizeof *a->blocks);
    return WEIR_OK;
}

weir_status weir_pack__fit(const weir_env *env, const weir_pack__sweep *sweep, weir_pack__fit_order order,
                           uint64_t *offsets, uint64_t *peak, uint64_t *steps, weir_error *error) {
    allocator a;
    weir_pack__stacked *live;
    bool opened = open_allocator(env, sweep, offsets, &a, &live);
    a.by_end = order.by_end;
    if (opened && sweep->count > 0) {
        uint64_t moment = sweep->rows[sweep->peak_row].lower;
        a.backward = order.from == WEIR_PACK__FIT_BACKWARD;
        if (order.from == WEIR_PACK__FIT_FORWARD) {
            play_forward(&a, sweep, 0, 0);
        } else if (order.from == WEIR_PACK__FIT_BACKWARD) {
            play_backward(&a, sweep, sweep->count, sweep->count);
        } else {
            stack_peak(&a, sweep, order.slant, live);
            play_outward(&a, sweep, moment, moment + 1, live);
        }
    }
    *peak = a.peak;
    *steps += STEPS_PER_LOOK * a.steps;
    return close_allocator(env, sweep, opened, &a, live, error);
}

weir_status weir_pack__fit_around(const weir_env *env, const weir_pack__sweep *sweep, uint64_t from,
                                  uint64_t to, bool by_end, uint64_t *offsets, uint64_t *peak,
                                  uint64_t *steps, weir_error *error) {
    allocator a;
    weir_pack__stacked *live;
    bool opened = open_allocator(env, sweep, offsets, &a, &live);
    a.by_end = by_end;
    a.peak = *peak;
    if (opened)
        play_outward(&a, sweep, from, to, live);
    *peak = a.peak;
    *steps += STEPS_PER_LOOK * a.steps;
    return close_allocator(env, sweep, opened, &a, live, error);
}
