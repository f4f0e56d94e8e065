/* The best of four row orders (docs/spec/05-row-order.md): each is laid out in tiles of 64 cells, and the one
 * whose mask touches the fewest tiles wins. A row lies in one or two tiles as a rule, so that counting costs
 * a few operations an edge; the tiles are bits. */
#include <string.h>

#include "base/heap_sort.h"
#include "batch/cuthill_mckee.h"

enum { TILE = 64, HUB_CHILDREN = 5, WORD = 64, SHARED_ORDERS = 3 };

void weir_batch__row_choice_carve(weir_batch__row_orders *orders, weir__block *block, uint64_t rows,
                                  uint64_t cells) {
    uint64_t n = rows + 2;
    uint64_t side = cells / TILE + 1;
    uint64_t words = side / WORD + 1;
    orders->choice = (weir_batch__row_choice){
        .first_tile = weir__carve(block, n, sizeof *orders->choice.first_tile),
        .last_tile = weir__carve(block, n, sizeof *orders->choice.last_tile),
        .key = weir__carve(block, n, sizeof *orders->choice.key),
        .starts = weir__carve(block, n, sizeof *orders->choice.starts),
        .tiles = weir__carve(block, side * words, sizeof *orders->choice.tiles),
        .orders = weir__carve(block, SHARED_ORDERS * n, sizeof *orders->choice.orders),
    };
}

/* ---- Orders ---------------------------------------------------------------------------------- */

/* Rows by (children, most first; row) into the queue. */
static void queue_by_children(const weir_batch__row_orders *o, uint32_t rows) {
    for (uint32_t r = 0; r < rows; r++)
        o->choice.key[r] = rows - o->children[r];
    weir_batch__rank_rows(o, rows, o->choice.key);
    memcpy(o->queue, o->ranked, rows * sizeof *o->queue);
    weir__heap_sort(o->queue, rows);
}

static void order_in_groups(const weir_batch__row_orders *o, uint32_t rows, uint16_t *order) {
    uint32_t hubs = 0;
    memset(o->placed, 0, rows);
    queue_by_children(o, rows);
    for (; hubs < rows && o->children[WEIR__LOW(uint16_t, o->queue[hubs])] >= HUB_CHILDREN; hubs++)
        o->placed[WEIR__LOW(uint16_t, o->queue[hubs])] = 1;
    memset(o->choice.key, 0, rows * sizeof *o->choice.key);
    weir_batch__rank_rows(o, rows, o->choice.key);
    weir_batch__spread_rows(o, rows, hubs);
    for (uint32_t i = 0; i < rows; i++)
        order[i] = WEIR__LOW(uint16_t, o->queue[i]);
}

static void order_parents_first(const weir_batch__row_orders *o, uint32_t rows,
                                const struct weir_batch__local_edge *edges, uint32_t edge_count,
                                uint16_t *order) {
    uint32_t parents = 0;
    queue_by_children(o, rows);
    for (; parents < rows && o->children[WEIR__LOW(uint16_t, o->queue[parents])] > 0; parents++) {
        order[parents] = WEIR__LOW(uint16_t, o->queue[parents]);
        o->ends[order[parents]] = parents; /* its place */
    }
    memset(o->choice.key, 0, rows * sizeof *o->choice.key);
    for (uint32_t i = 0; i < edge_count; i++) {
        uint32_t place = o->ends[edges[i].parent] + 1;
        uint32_t *last = &o->choice.key[edges[i].child];
        *last = place > *last ? place : *last;
    }
    for (uint32_t r = 0; r < rows; r++)
        o->choice.key[r] = o->choice.key[r] ? o->choice.key[r] - 1 : rows;
    weir_batch__rank_rows(o, rows, o->choice.key);
    memcpy(o->queue, o->ranked, rows * sizeof *o->queue);
    weir__heap_sort(o->queue, rows);
    for (uint32_t i = 0, next = parents; i < rows; i++) {
        uint16_t row = WEIR__LOW(uint16_t, o->queue[i]);
        if (o->children[row] == 0)
            order[next++] = row;
    }
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* The tiles that rows a and b meet in. A row without cells has a first tile after its last. */
static inline void use_tiles(const weir_batch__row_choice *c, uint32_t words, uint32_t a, uint32_t b) {
    for (uint32_t s = c->first_tile[a]; s <= c->last_tile[a]; s++)
        for (uint32_t t = c->first_tile[b]; t <= c->last_tile[b]; t++)
            c->tiles[(size_t)s * words + t / WORD] |= (uint64_t)1 << t % WORD;
}

/* Tiles in use under the mask of out_perm and under that of in_perm. */
typedef struct tile_counts {
    uint32_t of[2];
} tile_counts;

static uint32_t count_bits(const uint64_t *words, size_t count) {
    uint32_t bits = 0;
    for (size_t i = 0; i < count; i++)
        bits += WEIR__LOW(uint32_t, __builtin_popcountll(words[i]));
    return bits;
}

/* One mask is the other transposed and a row against itself, so the edges are laid out once for both. */
static tile_counts count_tiles(const weir_batch__row_choice *c, uint32_t rows, const uint32_t *starts,
                               const struct weir_batch__local_edge *edges, uint32_t edge_count,
                               const uint16_t *order) {
    uint32_t side = (starts[rows] + TILE - 1) / TILE;
    uint32_t words = (side + WORD - 1) / WORD;
    size_t used = (size_t)side * words;
    tile_counts counts;
    memset(c->tiles, 0, used * sizeof *c->tiles);
    for (uint32_t i = 0, place = 0; i < rows; i++) {
        uint32_t row = order[i], size = starts[row + 1] - starts[row];
        c->first_tile[row] = WEIR__LOW(uint16_t, size ? place / TILE : 1);
        c->last_tile[row] = WEIR__LOW(uint16_t, size ? (place + size - 1) / TILE : 0);
        place += size;
    }
    for (uint32_t i = 0; i < edge_count; i++)
        use_tiles(c, words, edges[i].child, edges[i].parent);
    counts.of[1] = count_bits(c->tiles, used);
    for (uint32_t t = 0; t < side; t++) /* every tile has a cell, whose row attends to itself */
        c->tiles[(size_t)t * words + t / WORD] |= (uint64_t)1 << t % WORD;
    for (uint32_t r = 0; r < rows; r++)
        if (c->first_tile[r] < c->last_tile[r])
            use_tiles(c, words, r, r);
    counts.of[0] = count_bits(c->tiles, used);
    return counts;
}

void weir_batch__best_row_order(const weir_batch__row_orders *orders, uint32_t rows,
                                const struct weir_batch__local_edge *edges, uint32_t edge_count,
                                uint16_t *out, uint16_t *in) {
    const weir_batch__row_choice *c = &orders->choice;
    uint16_t *visited = c->orders, *groups = visited + rows, *parents_first = groups + rows;
    uint16_t *results[] = {out, in};
    const uint16_t *candidates[] = {visited, NULL, groups, parents_first};
    tile_counts counts[4];
    weir_batch__row_order(orders, rows, edges, edge_count, out, in);
    for (uint32_t r = 0; r < rows; r++)
        visited[r] = WEIR__LOW(uint16_t, r);
    order_in_groups(orders, rows, groups);
    order_parents_first(orders, rows, edges, edge_count, parents_first);
    for (int i = 0; i < 4; i++)
        if (candidates[i])
            counts[i] = count_tiles(c, rows, c->starts, edges, edge_count, candidates[i]);
    for (int which = 0; which < 2; which++) {
        int best = 0;
        candidates[1] = results[which];
        counts[1] = count_tiles(c, rows, c->starts, edges, edge_count, results[which]);
        for (int i = 1; i < 4; i++)
            best = counts[i].of[which] < counts[best].of[which] ? i : best;
        if (best != 1)
            memcpy(results[which], candidates[best], rows * sizeof *out);
    }
}
