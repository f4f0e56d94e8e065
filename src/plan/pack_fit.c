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
    weir__record *live; /* rows and where they lie, and as much scratch */
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

/* The allocator as it stands at a time, with what lives then laid out already; returns how many rows are born
 * before it. */
static uint32_t load_layout(allocator *a, const weir_pack__sweep *sweep, uint64_t time) {
    uint32_t born = weir_pack__born_before(sweep, time);
    uint32_t count = 0;
    for (uint32_t i = 0; i < born; i++)
        if (a->rows[i].upper > time)
            a->live[count++] = (weir__record){a->offsets[i], i};
    weir__sort_records(a->live, a->live + count, count, NULL, NULL);
    reset(a);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = a->live[i].index;
        uint64_t gap = a->offsets[row] - a->top;
        uint32_t hole = gap ? grow_top(a, gap) : WEIR_PACK__NO_INDEX;
        a->block_of[row] = grow_top(a, a->rows[row].size);
        a->blocks[a->block_of[row]].end = end_of(a, row);
        if (gap)
            treap_insert(a, hole);
    }
    return born;
}

static void play_outward(allocator *a, const weir_pack__sweep *sweep, uint64_t from, uint64_t to) {
    uint32_t born = load_layout(a, sweep, to);
    play_forward(a, sweep, born, dead_by(sweep, to));
    a->backward = true;
    born = load_layout(a, sweep, from);
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
static void stack_peak(allocator *a, const weir_pack__sweep *sweep, uint32_t slant) {
    uint64_t moment = sweep->rows[sweep->peak_row].lower;
    uint32_t count = 0;
    for (uint32_t i = 0; i <= sweep->peak_row; i++)
        if (sweep->rows[i].upper > moment)
            a->live[count++] = (weir__record){weir_pack__slanted(sweep, &sweep->rows[i], slant), i};
    weir__sort_records(a->live, a->live + count, count, NULL, NULL);
    for (uint32_t i = 0; i < count; i++) {
        a->offsets[a->live[i].index] = a->peak;
        a->peak += sweep->rows[a->live[i].index].size;
    }
}

weir_status weir_pack__fit(const weir_env *env, const weir_pack__sweep *sweep, weir_pack__fit_order order,
                           uint64_t *offsets, uint64_t *peak, uint64_t *steps, weir_error *error) {
    allocator a = {.rows = sweep->rows, .offsets = offsets, .by_end = order.by_end};
    size_t most = 2 * (size_t)sweep->live_max + 2;
    a.blocks = weir__allocate(env, most, sizeof *a.blocks);
    a.block_of = weir__allocate(env, sweep->count, sizeof *a.block_of);
    a.live = weir__allocate(env, sweep->live_max, 2 * sizeof *a.live);
    bool has_memory = a.blocks && a.block_of && a.live;
    reset(&a);
    if (has_memory && sweep->count > 0) {
        uint64_t moment = sweep->rows[sweep->peak_row].lower;
        switch (order.from) {
        case WEIR_PACK__FIT_FORWARD:
            play_forward(&a, sweep, 0, 0);
            break;
        case WEIR_PACK__FIT_BACKWARD:
            a.backward = true;
            play_backward(&a, sweep, sweep->count, sweep->count);
            break;
        case WEIR_PACK__FIT_OUTWARD:
            stack_peak(&a, sweep, order.slant);
            play_outward(&a, sweep, moment, moment + 1);
            break;
        case WEIR_PACK__FIT_AROUND:
            a.peak = *peak;
            play_outward(&a, sweep, order.window_from, order.window_to);
            break;
        }
    }
    *peak = a.peak;
    *steps += STEPS_PER_LOOK * a.steps;
    weir__release(env, a.blocks);
    weir__release(env, a.block_of);
    weir__release(env, a.live);
    return has_memory ? WEIR_OK : weir__out_of_memory(error, WEIR_PACK__OPERATOR, most * sizeof *a.blocks);
}
