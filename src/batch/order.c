/* Reverse Cuthill-McKee over the rows of one sequence, in linear time: rows are counting-sorted by (key,
 * row); walking them in that order and adding each to its neighbours' lists leaves every list sorted; the
 * next start is a pointer into the sorted rows that only moves on. */
#include "batch/order.h"

#include <string.h>

static const char operator_name[] = "weir.batch.order";

weir_status weir__row_orders_open(weir__row_orders *orders, const weir_env *env, uint32_t rows,
                                  uint32_t edges, weir_error *error) {
    size_t n = (size_t)rows + 2;
    *orders = (weir__row_orders){
        .edge_starts = weir__allocate(env, n, sizeof *orders->edge_starts),
        .starts = weir__allocate(env, n, sizeof *orders->starts),
        .neighbours = weir__allocate(env, 2 * (size_t)edges + 1, sizeof *orders->neighbours),
        .sorted = weir__allocate(env, 2 * (size_t)edges + 1, sizeof *orders->sorted),
        .ends = weir__allocate(env, n, sizeof *orders->ends),
        .degree = weir__allocate(env, n, sizeof *orders->degree),
        .children = weir__allocate(env, n, sizeof *orders->children),
        .key_starts = weir__allocate(env, n, sizeof *orders->key_starts),
        .by_key = weir__allocate(env, n, sizeof *orders->by_key),
        .placed = weir__allocate(env, n, sizeof *orders->placed),
    };
    if (orders->edge_starts && orders->starts && orders->neighbours && orders->sorted && orders->ends &&
        orders->degree && orders->children && orders->key_starts && orders->by_key && orders->placed)
        return WEIR_OK;
    weir__row_orders_close(orders, env);
    return weir__out_of_memory(error, operator_name, n * 32);
}

void weir__row_orders_close(weir__row_orders *orders, const weir_env *env) {
    weir__release(env, orders->edge_starts);
    weir__release(env, orders->starts);
    weir__release(env, orders->neighbours);
    weir__release(env, orders->sorted);
    weir__release(env, orders->ends);
    weir__release(env, orders->degree);
    weir__release(env, orders->children);
    weir__release(env, orders->key_starts);
    weir__release(env, orders->by_key);
    weir__release(env, orders->placed);
    *orders = (weir__row_orders){0};
}

/* Those of one child are few: as many as its table has foreign keys. */
uint32_t weir__unique_edges(struct weir__local_edge *edges, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_double = false;
        for (uint32_t k = kept; k-- > 0 && edges[k].child == edges[i].child;)
            is_double = is_double || edges[k].parent == edges[i].parent;
        if (!is_double)
            edges[kept++] = edges[i];
    }
    return kept;
}

/* Two rows that refer to each other are neighbours once: by the edge of the lower one. Loops are none. */
static bool makes_neighbours(const weir__row_orders *o, const struct weir__local_edge *edges,
                             const struct weir__local_edge *edge) {
    if (edge->child <= edge->parent)
        return edge->child != edge->parent;
    for (uint32_t i = o->edge_starts[edge->parent]; i < o->edge_starts[edge->parent + 1]; i++)
        if (edges[i].parent == edge->child)
            return false;
    return true;
}

static void start_lists(const weir__row_orders *o, uint32_t rows) {
    memcpy(o->ends, o->starts, (size_t)rows * sizeof *o->ends);
}

static void count_edges(weir__row_orders *o, uint32_t rows, const struct weir__local_edge *edges,
                        uint32_t edge_count) {
    memset(o->edge_starts, 0, ((size_t)rows + 1) * sizeof *o->edge_starts);
    memset(o->children, 0, (size_t)rows * sizeof *o->children);
    memset(o->degree, 0, (size_t)rows * sizeof *o->degree);
    for (uint32_t i = 0; i < edge_count; i++) {
        o->edge_starts[edges[i].child + 1]++;
        o->children[edges[i].parent]++;
    }
    for (uint32_t r = 0; r < rows; r++)
        o->edge_starts[r + 1] += o->edge_starts[r];
    for (uint32_t i = 0; i < edge_count; i++)
        if (makes_neighbours(o, edges, &edges[i])) {
            o->degree[edges[i].child]++;
            o->degree[edges[i].parent]++;
        }
}

/* Fills degree, children, starts and neighbours. */
static void join(weir__row_orders *o, uint32_t rows, const struct weir__local_edge *edges,
                 uint32_t edge_count) {
    count_edges(o, rows, edges, edge_count);
    o->starts[0] = 0;
    for (uint32_t r = 0; r < rows; r++)
        o->starts[r + 1] = o->starts[r] + o->degree[r];
    start_lists(o, rows);
    for (uint32_t i = 0; i < edge_count; i++) {
        if (!makes_neighbours(o, edges, &edges[i]))
            continue;
        o->neighbours[o->ends[edges[i].child]++] = edges[i].parent;
        o->neighbours[o->ends[edges[i].parent]++] = edges[i].child;
    }
}

/* Rows by (key, row), and every row's neighbours in that order. Keys are at most the number of rows. */
static void sort_by_key(weir__row_orders *o, uint32_t rows, const uint32_t *key) {
    memset(o->key_starts, 0, ((size_t)rows + 2) * sizeof *o->key_starts);
    for (uint32_t r = 0; r < rows; r++)
        o->key_starts[key[r] + 1]++;
    for (uint32_t k = 0; k <= rows; k++)
        o->key_starts[k + 1] += o->key_starts[k];
    for (uint32_t r = 0; r < rows; r++)
        o->by_key[o->key_starts[key[r]]++] = (uint16_t)r;
    start_lists(o, rows);
    for (uint32_t i = 0; i < rows; i++) {
        uint16_t row = o->by_key[i];
        for (uint32_t k = o->starts[row]; k < o->starts[row + 1]; k++)
            o->sorted[o->ends[o->neighbours[k]]++] = row;
    }
}

static void reverse(uint16_t *order, uint32_t rows) {
    for (uint32_t i = 0; i < rows / 2; i++) {
        uint16_t kept = order[i];
        order[i] = order[rows - 1 - i];
        order[rows - 1 - i] = kept;
    }
}

static void order_rows(weir__row_orders *o, uint32_t rows, const uint32_t *key, uint16_t *order) {
    uint32_t next_start = 0;
    uint32_t end = 0;
    sort_by_key(o, rows, key);
    memset(o->placed, 0, rows);
    for (uint32_t begin = 0; begin < rows; begin++) {
        if (begin == end) {
            while (o->placed[o->by_key[next_start]])
                next_start++;
            o->placed[o->by_key[next_start]] = 1;
            order[end++] = o->by_key[next_start];
        }
        uint16_t row = order[begin];
        for (uint32_t k = o->starts[row]; k < o->starts[row + 1]; k++) {
            uint16_t other = o->sorted[k];
            if (o->placed[other])
                continue;
            o->placed[other] = 1;
            order[end++] = other;
        }
    }
    reverse(order, rows);
}

void weir__row_order(weir__row_orders *orders, uint32_t rows, const struct weir__local_edge *edges,
                     uint32_t edge_count, uint16_t *out, uint16_t *in) {
    join(orders, rows, edges, edge_count);
    order_rows(orders, rows, orders->degree, out);
    order_rows(orders, rows, orders->children, in);
}
