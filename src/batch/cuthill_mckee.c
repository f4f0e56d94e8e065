/* Reverse Cuthill-McKee over the rows of one sequence. A row goes by (key, number) as one number, so that two
 * are compared at once; each row's neighbours are sorted as they are queued: a few by insertion, many by a
 * heap. */
#include "batch/cuthill_mckee.h"

#include <string.h>

#include "base/heap_sort.h"

enum { FEW = 64 }; /* neighbours that are sorted by insertion */

void weir_batch__row_orders_carve(weir_batch__row_orders *orders, weir__block *block, uint64_t rows,
                                  uint64_t edges) {
    uint64_t n = rows + 2;
    *orders = (weir_batch__row_orders){
        .degree = weir__carve(block, n, sizeof *orders->degree),
        .children = weir__carve(block, n, sizeof *orders->children),
        .parent_masks = weir__carve(block, n, sizeof *orders->parent_masks),
        .starts = weir__carve(block, n, sizeof *orders->starts),
        .ends = weir__carve(block, n, sizeof *orders->ends),
        .neighbours = weir__carve(block, 2 * edges + 1, sizeof *orders->neighbours),
        .ranked = weir__carve(block, n, sizeof *orders->ranked),
        .queue = weir__carve(block, n, sizeof *orders->queue),
        .placed = weir__carve(block, n, sizeof *orders->placed),
    };
}

/* Each parent keeps the last child that named it, plus one. */
uint32_t weir_batch__unique_edges(const weir_batch__row_orders *orders, uint32_t rows,
                                  struct weir_batch__local_edge *edges, uint32_t count) {
    uint32_t *last_child = orders->ends;
    uint32_t kept = 0;
    memset(last_child, 0, rows * sizeof *last_child);
    for (uint32_t i = 0; i < count; i++) {
        struct weir_batch__local_edge edge = edges[i];
        bool is_new = last_child[edge.parent] != edge.child + 1u;
        last_child[edge.parent] = edge.child + 1u;
        edges[kept] = edge;
        kept += is_new;
    }
    return kept;
}

/* Counts each row's neighbours and children, and lists the neighbours: with loops and doubles, which do no
 * harm there, as a row is placed once. */
static void list_neighbours(const weir_batch__row_orders *o, uint32_t rows,
                            const struct weir_batch__local_edge *edges, uint32_t edge_count) {
    uint32_t *degree = o->degree, *children = o->children, *ends = o->ends, start = 0;
    uint64_t *masks = o->parent_masks;
    uint16_t *neighbours = o->neighbours;
    memset(degree, 0, rows * sizeof *degree);
    memset(children, 0, rows * sizeof *children);
    memset(masks, 0, rows * sizeof *masks);
    for (uint32_t i = 0; i < edge_count; i++) {
        degree[edges[i].child]++;
        children[edges[i].parent]++;
        masks[edges[i].child] |= (uint64_t)1 << edges[i].parent % 64;
    }
    for (uint32_t r = 0; r < rows; r++) {
        o->starts[r] = ends[r] = start;
        degree[r] += children[r];
        start += degree[r];
    }
    o->starts[rows] = start;
    for (uint32_t i = 0; i < edge_count; i++) {
        struct weir_batch__local_edge edge = edges[i];
        neighbours[ends[edge.child]++] = edge.parent;
        neighbours[ends[edge.parent]++] = edge.child;
    }
}

/* A degree counts no loops, and two rows that refer to each other once. Rows that do are told by their masks,
 * nearly always; then they are looked for. */
static void correct_degrees(const weir_batch__row_orders *o, const struct weir_batch__local_edge *edges,
                            uint32_t edge_count) {
    for (uint32_t i = 0; i < edge_count; i++) {
        uint32_t child = edges[i].child, parent = edges[i].parent;
        if ((o->parent_masks[parent] >> child % 64 & 1) == 0)
            continue; /* the parent does not refer back */
        if (child == parent)
            o->degree[child] -= 2;
        uint32_t times = 0; /* that the parent is a neighbour */
        for (uint32_t k = o->starts[child]; k < o->starts[child + 1]; k++)
            times += o->neighbours[k] == parent;
        if (child > parent && times == 2) {
            o->degree[child]--;
            o->degree[parent]--;
        }
    }
}

/* The first row that is not placed, by (key, number). There is hardly ever more than one to look for: rows of
 * a sequence are joined by what led to them. */
static uint32_t least_unplaced(const weir_batch__row_orders *o, uint32_t rows) {
    uint32_t least = UINT32_MAX;
    for (uint32_t r = 0; r < rows; r++) {
        uint32_t ranked = o->ranked[r] | (0u - o->placed[r]);
        least = ranked < least ? ranked : least;
    }
    return least;
}

/* Puts a row behind [first, end), where it belongs by its order. */
static void insert(const uint32_t *first, uint32_t *end, uint32_t ranked) {
    for (; end > first && end[-1] > ranked; end--)
        *end = end[-1];
    *end = ranked;
}

void weir_batch__rank_rows(const weir_batch__row_orders *o, uint32_t rows, const uint32_t *key) {
    for (uint32_t r = 0; r < rows; r++)
        o->ranked[r] = key[r] << 16 | r;
}

void weir_batch__spread_rows(const weir_batch__row_orders *o, uint32_t rows, uint32_t count) {
    const uint32_t *ranked = o->ranked, *starts = o->starts;
    uint32_t *queue = o->queue, *end = queue + count;
    uint8_t *placed = o->placed;
    for (; queue < o->queue + rows; queue++) {
        if (queue == end) {
            *end = least_unplaced(o, rows);
            placed[WEIR__LOW(uint16_t, *end++)] = 1;
        }
        uint32_t row = WEIR__LOW(uint16_t, *queue), *first = end;
        const uint16_t *next = o->neighbours + starts[row], *last = o->neighbours + starts[row + 1];
        for (; next < last; next++)
            if (!placed[*next]) {
                placed[*next] = 1;
                insert(end - first < FEW ? first : end, end, ranked[*next]);
                end++;
            }
        if (end - first > FEW)
            weir__heap_sort(first, WEIR__LOW(uint32_t, end - first));
    }
}

static void place_rows(const weir_batch__row_orders *o, uint32_t rows, const uint32_t *key, uint16_t *order) {
    weir_batch__rank_rows(o, rows, key);
    memset(o->placed, 0, rows);
    weir_batch__spread_rows(o, rows, 0);
    for (uint32_t i = 0; i < rows; i++)
        order[i] = WEIR__LOW(uint16_t, o->queue[rows - 1 - i]);
}

void weir_batch__row_order(const weir_batch__row_orders *orders, uint32_t rows,
                           const struct weir_batch__local_edge *edges, uint32_t edge_count, uint16_t *out,
                           uint16_t *in) {
    list_neighbours(orders, rows, edges, edge_count);
    correct_degrees(orders, edges, edge_count);
    place_rows(orders, rows, orders->degree, out);
    place_rows(orders, rows, orders->children, in);
}
