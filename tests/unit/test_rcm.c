/* Row orders of a sequence against the golden vectors, whose edges come by child. */
#include <stdlib.h>

#include "support/testing.h"

#include "batch/order.h"

enum { MOST_EDGES = 4096 };

static uint32_t edges_of(json_t *list, struct weir__local_edge *edges) {
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
    static struct weir__local_edge edges[MOST_EDGES];
    static uint16_t out[UINT16_MAX], in[UINT16_MAX];
    json_t *vectors = load_vectors("rcm.json");
    json_t *cases = member(vectors, "cases");
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        json_t *given = json_array_get(cases, i);
        uint32_t rows = (uint32_t)member_uint(given, "rows");
        uint32_t count = edges_of(member(given, "fk"), edges);
        weir__row_orders orders;
        weir_error error;
        assert_int_equal(json_array_size(member(given, "out")), rows);
        assert_int_equal(json_array_size(member(given, "in")), rows);
        assert_ok(weir__row_orders_open(&orders, weir__env(NULL), rows, count, &error), &error);
        weir__row_order(&orders, rows, edges, count, out, in);
        assert_order_equal(out, member(given, "out"), i);
        assert_order_equal(in, member(given, "in"), i);
        weir__row_orders_close(&orders, weir__env(NULL));
    }
    json_decref(vectors);
}

/* One sequence's scratch serves the next one, whatever the sizes. */
static void scratch_can_be_used_again(void **state) {
    (void)state;
    static struct weir__local_edge edges[MOST_EDGES];
    static uint16_t out[UINT16_MAX], in[UINT16_MAX];
    weir__row_orders orders;
    weir_error error;
    json_t *vectors = load_vectors("rcm.json");
    json_t *cases = member(vectors, "cases");
    uint32_t most_rows = 1;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        uint32_t rows = (uint32_t)member_uint(json_array_get(cases, i), "rows");
        most_rows = rows > most_rows ? rows : most_rows;
    }
    assert_ok(weir__row_orders_open(&orders, weir__env(NULL), most_rows, MOST_EDGES, &error), &error);
    for (size_t n = 2 * json_array_size(cases); n-- > 0;) {
        json_t *given = json_array_get(cases, n % json_array_size(cases));
        uint32_t count = edges_of(member(given, "fk"), edges);
        weir__row_order(&orders, (uint32_t)member_uint(given, "rows"), edges, count, out, in);
        assert_order_equal(out, member(given, "out"), n);
        assert_order_equal(in, member(given, "in"), n);
    }
    weir__row_orders_close(&orders, weir__env(NULL));
    json_decref(vectors);
}

static void doubled_edges_count_once(void **state) {
    (void)state;
    struct weir__local_edge edges[] = {{0, 1}, {1, 2}, {1, 0}, {1, 2}, {1, 2}, {3, 3}, {3, 3}, {4, 0}};
    const struct weir__local_edge once[] = {{0, 1}, {1, 2}, {1, 0}, {3, 3}, {4, 0}};
    weir__row_orders orders;
    weir_error error;
    assert_ok(weir__row_orders_open(&orders, weir__env(NULL), 5, 8, &error), &error);
    assert_int_equal(weir__unique_edges(&orders, 5, edges, 8), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(edges[i].child, once[i].child);
        assert_int_equal(edges[i].parent, once[i].parent);
    }
    assert_int_equal(weir__unique_edges(&orders, 5, edges, 0), 0);
    weir__row_orders_close(&orders, weir__env(NULL));
}

/* As many foreign keys as a table may have, all different: comparing them with each other would take minutes.
 */
static void many_edges_of_a_row_are_no_burden(void **state) {
    enum { ROWS = UINT16_MAX, CHILDREN = 400, KEYS = 32767 };
    struct weir__local_edge *edges = malloc((size_t)CHILDREN * KEYS * sizeof *edges);
    weir__row_orders orders;
    weir_error error;
    (void)state;
    assert_non_null(edges);
    assert_ok(weir__row_orders_open(&orders, weir__env(NULL), ROWS, 1, &error), &error);
    for (uint32_t i = 0; i < CHILDREN * KEYS; i++)
        edges[i] = (struct weir__local_edge){(uint16_t)(i / KEYS), (uint16_t)(i % KEYS)};
    assert_int_equal(weir__unique_edges(&orders, ROWS, edges, CHILDREN * KEYS), CHILDREN * KEYS);
    weir__row_orders_close(&orders, weir__env(NULL));
    free(edges);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(row_orders_are_those_of_the_vectors),
        cmocka_unit_test(scratch_can_be_used_again),
        cmocka_unit_test(doubled_edges_count_once),
        cmocka_unit_test(many_edges_of_a_row_are_no_burden),
    };
    return cmocka_run_group_tests_name("rcm", tests, NULL, NULL);
}
