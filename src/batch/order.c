/* Reverse Cuthill-McKee over the rows of one sequence, in linear time and in flat loops, whose ends are
 * foreseen: rows are counting-sorted by (key, number), their edges in that order; adding each row to its
 * neighbours' lists in turn leaves every list sorted; the next start is a pointer into the sorted rows that
 * only moves on. */
#include "batch/order.h"

#include <string.h>

static const char operator_name[] = "weir.batch.order";

weir_status weir__row_orders_open(weir__row_orders *orders, const weir_env *env, uint32_t rows,
                                  uint32_t edges, weir_error *error) {
    size_t n = (size_t)rows + 2;
    *orders = (weir__row_orders){
        .edge_starts = weir__allocate(env, n, sizeof *orders->edge_starts),
        .parent_masks = weir__allocate(env, n, sizeof *orders->parent_masks),
        .starts = weir__allocate(env, n, sizeof *orders->starts),
        .half_edges = weir__allocate(env, 2 * (size_t)edges + 1, sizeof *orders->half_edges),
        .neighbours = weir__allocate(env, 2 * (size_t)edges + 1, sizeof *orders->neighbours),
        .ends = weir__allocate(env, n, sizeof *orders->ends),
        .degree = weir__allocate(env, n, sizeof *orders->degree),
        .children = weir__allocate(env, n, sizeof *orders->children),
        .key_starts = weir__allocate(env, n, sizeof *orders->key_starts),
        .by_key = weir__allocate(env, n, sizeof *orders->by_key),
        .queue = weir__allocate(env, n, sizeof *orders->queue),
        .placed = weir__allocate(env, n, sizeof *orders->placed),
    };
    if (orders->edge_starts && orders->parent_masks && orders->starts && orders->half_edges &&
        orders->neighbours && orders->ends && orders->degree && orders->children && orders->key_starts &&
        orders->by_key && orders->queue && orders->placed)
        return WEIR_OK;
    weir__row_orders_close(orders, env);
    return weir__out_of_memory(error, operator_name, n * 40);
}

void weir__row_orders_close(weir__row_orders *orders, const weir_env *env) {
    weir__release(env, orders->edge_starts);
    weir__release(env, orders->parent_masks);
    weir__release(env, orders->starts);
    weir__release(env, orders->half_edges);
    weir__release(env, orders->neighbours);
    weir__release(env, orders->ends);
    weir__release(env, orders->degree);
    weir__release(env, orders->children);
    weir__release(env, orders->key_starts);
    weir__release(env, orders->by_key);
    weir__release(env, orders->queue);
    weir__release(env, orders->placed);
    *orders = (weir__row_orders){0};
}

/* Each parent keeps the last child that named it, plus one. */
uint32_t weir__unique_edges(weir__row_orders *orders, uint32_t rows, struct weir__local_edge *edges,
                            uint32_t count) {
    uint32_t *last_child = orders->ends;
    uint32_t kept = 0;
    memset(last_child, 0, (size_t)rows * sizeof *last_child);
    for (uint32_t i = 0; i < count; i++) {
        struct weir__local_edge edge = edges[i];
        bool is_new = last_child[edge.parent] != edge.child + 1u;
        last_child[edge.parent] = edge.child + 1u;
        edges[kept] = edge;
        kept += is_new;
    }
    return kept;
}

/* Functions take the scratch by value: copies of its pointers, which no store can touch. */

/* Counts each row's foreign keys, children and neighbours, these with loops and doubles. */
static void count_edges(weir__row_orders o, uint32_t rows, const struct weir__local_edge *edges,
                        uint32_t edge_count) {
    memset(o.edge_starts, 0, ((size_t)rows + 1) * sizeof *o.edge_starts);
    memset(o.children, 0, (size_t)rows * sizeof *o.children);
    memset(o.parent_masks, 0, (size_t)rows * sizeof *o.parent_masks);
    for (uint32_t i = 0; i < edge_count; i++) {
        o.edge_starts[edges[i].child + 1]++;
        o.children[edges[i].parent]++;
        o.parent_masks[edges[i].child] |= (uint64_t)1 << edges[i].parent % 64;
    }
    o.starts[0] = 0;
    for (uint32_t r = 0; r < rows; r++) {
        o.degree[r] = o.edge_starts[r + 1] + o.children[r];
        o.edge_starts[r + 1] += o.edge_starts[r];
        o.starts[r + 1] = o.starts[r] + o.degree[r];
    }
}

static bool refers_to(weir__row_orders o, const struct weir__local_edge *edges, uint32_t child,
                      uint32_t parent) {
    for (uint32_t i = o.edge_starts[child]; i < o.edge_starts[child + 1]; i++)
        if (edges[i].parent == parent)
            return true;
    return false;
}

/* A degree counts no loops, and two rows that refer to each other once. Their lists may hold both: a row is
 * placed once, however often it is named. */
static void correct_degrees(weir__row_orders o, const struct weir__local_edge *edges, uint32_t edge_count) {
    for (uint32_t i = 0; i < edge_count; i++) {
        uint32_t child = edges[i].child, parent = edges[i].parent;
        if ((o.parent_masks[parent] >> child % 64 & 1) == 0)
            continue; /* the parent does not refer back */
        if (child == parent)
            o.degree[child] -= 2;
        else if (child > parent && refers_to(o, edges, parent, child)) {
            o.degree[child]--;
            o.degree[parent]--;
        }
    }
}

/* Rows by (key, number). Keys are at most the number of rows. */
static void sort_rows(weir__row_orders o, uint32_t rows, const uint32_t *key) {
    memset(o.key_starts, 0, ((size_t)rows + 2) * sizeof *o.key_starts);
    for (uint32_t r = 0; r < rows; r++)
        o.key_starts[key[r] + 1]++;
    for (uint32_t k = 0; k <= rows; k++)
        o.key_starts[k + 1] += o.key_starts[k];
    for (uint32_t r = 0; r < rows; r++)
        o.by_key[o.key_starts[key[r]]++] = WEIR__LOW(uint16_t, r);
}

/* Every row's neighbours by (key, number): half edges are brought into that order by the row they start
 * from; given to their neighbours in turn, they leave every list sorted. */
static void sort_neighbours(weir__row_orders o, uint32_t rows, const struct weir__local_edge *edges,
                            uint32_t edge_count) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t row = o.by_key[i];
        o.ends[row] = end;
        end += o.starts[row + 1] - o.starts[row];
    }
    for (uint32_t i = 0; i < edge_count; i++) {
        uint16_t child = edges[i].child, parent = edges[i].parent;
        o.half_edges[o.ends[child]++] = (weir__half_edge){child, parent};
        o.half_edges[o.ends[parent]++] = (weir__half_edge){parent, child};
    }
    memcpy(o.ends, o.starts, (size_t)rows * sizeof *o.ends);
    for (uint32_t i = 0; i < 2 * edge_count; i++)
        o.neighbours[o.ends[o.half_edges[i].neighbour]++] = o.half_edges[i].row;
}

static void place_rows(weir__row_orders o, uint32_t rows, uint16_t *order) {
    uint32_t next_start = 0;
    uint32_t end = 0;
    memset(o.placed, 0, rows);
    for (uint32_t begin = 0; begin < rows; begin++) {
        if (begin == end) {
            while (o.placed[o.by_key[next_start]])
                next_start++;
            o.placed[o.by_key[next_start]] = 1;
            o.queue[end++] = o.by_key[next_start];
        }
        uint32_t row = o.queue[begin];
        uint32_t list_end = o.starts[row + 1];
        for (uint32_t k = o.starts[row]; k < list_end; k++) {
            uint16_t neighbour = o.neighbours[k];
            o.queue[end] = neighbour;
            end += o.placed[neighbour] ^ 1u;
            o.placed[neighbour] = 1;
        }
    }
    for (uint32_t i = 0; i < rows; i++)
        order[i] = o.queue[rows - 1 - i];
}

void weir__row_order(weir__row_orders *orders, uint32_t rows, const struct weir__local_edge *edges,
                     uint32_t edge_count, uint16_t *out, uint16_t *in) {
    const uint32_t *keys[] = {orders->degree, orders->children};
    uint16_t *results[] = {out, in};
    count_edges(*orders, rows, edges, edge_count);
    correct_degrees(*orders, edges, edge_count);
    for (int i = 0; i < 2; i++) {
        sort_rows(*orders, rows, keys[i]);
        sort_neighbours(*orders, rows, edges, edge_count);
        place_rows(*orders, rows, results[i]);
    }
}
