/* Row orders of a sequence against the golden vectors, whose edges come by child. */
#include <stdlib.h>
#include <string.h>

#include "support/testing.h"

#include "batch/cuthill_mckee.h"

enum { MOST_EDGES = 4096 };

static void open_orders(weir_batch__row_orders *orders, weir__block *scratch, uint32_t rows, uint32_t edges) {
    weir_batch__row_orders_carve(orders, scratch, rows, edges);
    assert_true(weir__block_open(scratch, weir__env_or_default(NULL)));
    weir_batch__row_orders_carve(orders, scratch, rows, edges);
}

static uint32_t edges_of(json_t *list, struct weir_batch__local_edge *edges) {
    size_t count = json_array_size(list);
    assert_true(count <= MOST_EDGES);
    for (size_t i = 0; i < count; i++) {
        json_t *pair = json_array_get(list, i);
        edges[i].child = (uint16_t)uint_of(json_array_get(pair, 0));
        edges[i].parent = (uint16_t)uint_of(json_array_get(pair, 1));
    }
    return (uint32_t)count;
}

static void assert_order_equal(const uint16_t *order, json_t *expected, size_t number) {
    for (size_t i = 0; i < json_array_size(expected); i++) {
        uint64_t row = uint_of(json_array_get(expected, i));
        if (order[i] != row)
            fail_msg("case %zu: row %u stands at %zu, where row %llu belongs", number, order[i], i,
                     (unsigned long long)row);
    }
}

static void row_orders_are_those_of_the_vectors(void **state) {
    (void)state;
    static struct weir_batch__local_edge edges[MOST_EDGES];
    static uint16_t out[UINT16_MAX], in[UINT16_MAX];
    json_t *vectors = load_vectors("rcm.json");
    json_t *cases = member(vectors, "cases");
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *given = json_array_get(cases, i);
        uint32_t rows = (uint32_t)member_uint(given, "rows");
        uint32_t count = edges_of(member(given, "fk"), edges);
        weir_batch__row_orders orders;
        weir__block scratch = {0};
        assert_int_equal(json_array_size(member(given, "out")), rows);
        assert_int_equal(json_array_size(member(given, "in")), rows);
        open_orders(&orders, &scratch, rows, count);
        weir_batch__row_order(&orders, rows, edges, count, out, in);
        assert_order_equal(out, member(given, "out"), i);
        assert_order_equal(in, member(given, "in"), i);
        weir__block_close(&scratch, weir__env_or_default(NULL));
    }
    json_decref(vectors);
}

/* One sequence's scratch serves the next one, whatever the sizes. */
static void scratch_can_be_used_again(void **state) {
    (void)state;
    static struct weir_batch__local_edge edges[MOST_EDGES];
    static uint16_t out[UINT16_MAX], in[UINT16_MAX];
    weir_batch__row_orders orders;
    weir__block scratch = {0};
    json_t *vectors = load_vectors("rcm.json");
    json_t *cases = member(vectors, "cases");
    uint32_t most_rows = 1;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        uint32_t rows = (uint32_t)member_uint(json_array_get(cases, i), "rows");
        most_rows = rows > most_rows ? rows : most_rows;
    }
    open_orders(&orders, &scratch, most_rows, MOST_EDGES);
    for (size_t n = 2 * json_array_size(cases); n-- > 0;) {
        json_t *given = json_array_get(cases, n % json_array_size(cases));
        uint32_t count = edges_of(member(given, "fk"), edges);
        weir_batch__row_order(&orders, (uint32_t)member_uint(given, "rows"), edges, count, out, in);
        assert_order_equal(out, member(given, "out"), n);
        assert_order_equal(in, member(given, "in"), n);
    }
    weir__block_close(&scratch, weir__env_or_default(NULL));
    json_decref(vectors);
}

static void doubled_edges_count_once(void **state) {
    (void)state;
    struct weir_batch__local_edge edges[] = {{0, 1}, {1, 2}, {1, 0}, {1, 2}, {1, 2}, {3, 3}, {3, 3}, {4, 0}};
    const struct weir_batch__local_edge once[] = {{0, 1}, {1, 2}, {1, 0}, {3, 3}, {4, 0}};
    weir_batch__row_orders orders;
    weir__block scratch = {0};
    open_orders(&orders, &scratch, 5, 8);
    assert_int_equal(weir_batch__unique_edges(&orders, 5, edges, 8), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(edges[i].child, once[i].child);
        assert_int_equal(edges[i].parent, once[i].parent);
    }
    assert_int_equal(weir_batch__unique_edges(&orders, 5, edges, 0), 0);
    weir__block_close(&scratch, weir__env_or_default(NULL));
}

/* As many foreign keys as a table may have, all different: comparing them with each other would take minutes.
 */
static void many_edges_of_a_row_are_no_burden(void **state) {
    enum { ROWS = UINT16_MAX, CHILDREN = 400, KEYS = 32767 };
    struct weir_batch__local_edge *edges = malloc((size_t)CHILDREN * KEYS * sizeof *edges);
    weir_batch__row_orders orders;
    weir__block scratch = {0};
    (void)state;
    assert_non_null(edges);
    open_orders(&orders, &scratch, ROWS, 1);
    for (uint32_t i = 0; i < CHILDREN * KEYS; i++)
        edges[i] = (struct weir_batch__local_edge){(uint16_t)(i / KEYS), (uint16_t)(i % KEYS)};
    assert_int_equal(weir_batch__unique_edges(&orders, ROWS, edges, CHILDREN * KEYS), CHILDREN * KEYS);
    weir__block_close(&scratch, weir__env_or_default(NULL));
    free(edges);
}

/* A hub's neighbours come by (key, number), however many they are: here each has 0 to 2 children of its own,
 * so that keys are mixed. Row 1 has none and is the first; it leads to the hub, row 0. */
static void hubs_of_all_sizes_are_sorted(void **state) {
    (void)state;
    enum { MOST = 700 };
    static struct weir_batch__local_edge edges[4 * MOST];
    static uint16_t out[4 * MOST], in[4 * MOST];
    random_stream random = {11};
    for (uint32_t hub = 1; hub < MOST; hub += 1 + hub / 9) {
        uint32_t rows = 1 + hub, count = 0, key[4 * MOST];
        for (uint32_t child = 1; child <= hub; child++)
            edges[count++] = (struct weir_batch__local_edge){(uint16_t)child, 0};
        for (uint32_t parent = 1; parent <= hub; parent++) {
            uint32_t children = parent == 1 ? 0 : (uint32_t)random_below(&random, 3);
            key[parent] = children;
            for (; children > 0; children--)
                edges[count++] = (struct weir_batch__local_edge){(uint16_t)rows++, (uint16_t)parent};
        }
        weir_batch__row_orders orders;
        weir__block scratch = {0};
        open_orders(&orders, &scratch, rows, count);
        weir_batch__row_order(&orders, rows, edges, count, out, in);
        assert_int_equal(in[rows - 1], 1);
        assert_int_equal(in[rows - 2], 0);
        for (uint32_t i = rows - 3, last = 0; i + hub > rows - 2; i--) {
            assert_in_range(in[i], 2, hub);
            assert_true((key[in[i]] << 16 | in[i]) > last);
            last = key[in[i]] << 16 | in[i];
        }
        weir__block_close(&scratch, weir__env_or_default(NULL));
    }
}

/* ---- The best of several orders --------------------------------------------------------------- */

enum { BEST_ROWS = 400, TILE = 64 };

/* Tiles in use, counted cell by cell. */
static uint32_t plain_tiles(const uint16_t *order, uint32_t rows, const uint32_t *starts,
                            const struct weir_batch__local_edge *edges, uint32_t count, bool is_out) {
    static uint8_t used[256][256];
    static uint32_t place[BEST_ROWS + 1];
    uint32_t next = 0, tiles = 0;
    memset(used, 0, sizeof used);
    for (uint32_t i = 0; i < rows; i++) {
        place[order[i]] = next;
        next += starts[order[i] + 1] - starts[order[i]];
    }
    for (uint32_t e = 0; e < count + (is_out ? rows : 0); e++) {
        uint32_t from = e < count ? (is_out ? edges[e].child : edges[e].parent) : e - count;
        uint32_t to = e < count ? (is_out ? edges[e].parent : edges[e].child) : e - count;
        for (uint32_t i = 0; i < starts[from + 1] - starts[from]; i++)
            for (uint32_t k = 0; k < starts[to + 1] - starts[to]; k++)
                used[(place[from] + i) / TILE][(place[to] + k) / TILE] = 1;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (uint32_t k = 0; k < 256; k++)
            tiles += used[i][k];
    return tiles;
}

/* A few rows that most refer to, and some chains; rows of any size, also without cells. */
static uint32_t draw_edges(const weir_batch__row_orders *orders, random_stream *chances, uint32_t rows,
                           struct weir_batch__local_edge *edges) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < rows; r++)
        for (int k = 0; k < 3; k++) {
            uint64_t chance = random_next(chances);
            uint32_t parent = (uint32_t)(chance >> 8) % (chance & 1 ? rows : rows < 7 ? rows : 7);
            if (chance & 6)
                edges[count++] =
                    (struct weir_batch__local_edge){.child = (uint16_t)r, .parent = (uint16_t)parent};
        }
    return weir_batch__unique_edges(orders, rows, edges, count);
}

static void best_is_never_worse(void **state) {
    (void)state;
    static struct weir_batch__local_edge edges[3 * BEST_ROWS];
    static uint16_t best[2][BEST_ROWS], rcm[2][BEST_ROWS], visited[BEST_ROWS];
    weir_batch__row_orders orders;
    weir__block scratch = {0};
    random_stream chance = {7};
    uint32_t better = 0;
    for (int pass = 0; pass < 2; pass++) {
        weir_batch__row_orders_carve(&orders, &scratch, BEST_ROWS, 3 * BEST_ROWS);
        weir_batch__row_choice_carve(&orders, &scratch, BEST_ROWS, 16384);
        assert_true(pass == 1 || weir__block_open(&scratch, weir__env_or_default(NULL)));
    }
    uint32_t *starts = orders.choice.starts;
    starts[0] = 0;
    for (uint32_t n = 0; n < 120; n += test_stride()) {
        uint32_t rows = 1 + (uint32_t)random_next(&chance) % BEST_ROWS;
        uint32_t largest = n % 3 == 0 ? 100 : 12;
        for (uint32_t r = 0; r < rows; r++) {
            uint32_t size = (uint32_t)random_next(&chance) % largest;
            starts[r + 1] = starts[r] + (starts[r] + size <= 16384 ? size : 0);
            visited[r] = (uint16_t)r;
        }
        uint32_t count = draw_edges(&orders, &chance, rows, edges);
        weir_batch__row_order(&orders, rows, edges, count, rcm[0], rcm[1]);
        weir_batch__best_row_order(&orders, rows, edges, count, best[0], best[1]);
        for (int k = 0; k < 2; k++) {
            bool seen[BEST_ROWS] = {false};
            for (uint32_t i = 0; i < rows; i++)
                seen[best[k][i]] = true;
            for (uint32_t i = 0; i < rows; i++)
                assert_true(seen[i]);
            uint32_t tiles = plain_tiles(best[k], rows, starts, edges, count, k == 0);
            uint32_t as_visited = plain_tiles(visited, rows, starts, edges, count, k == 0);
            assert_true(tiles <= as_visited);
            assert_true(tiles <= plain_tiles(rcm[k], rows, starts, edges, count, k == 0));
            better += tiles < as_visited;
        }
    }
    assert_true(better > 0);
    weir__block_close(&scratch, weir__env_or_default(NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_orders_are_those_of_the_vectors),
        cmocka_unit_test(scratch_can_be_used_again),
        cmocka_unit_test(doubled_edges_count_once),
        cmocka_unit_test(many_edges_of_a_row_are_no_burden),
        cmocka_unit_test(hubs_of_all_sizes_are_sorted),
        cmocka_unit_test(best_is_never_worse),
    };
    return cmocka_run_group_tests_name("rcm", tests, NULL, NULL);
}
