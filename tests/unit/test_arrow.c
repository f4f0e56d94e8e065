/* Arrow's C stream interface as a source: values of every layout and where they lie, producers that are wrong
 * or fail, and that what was handed out is released once. (tests/python/test_arrow.py compares stores.) */
#include <math.h>
#include <string.h>

#include "ingest/source.h"
#include "support/arrow_stream.h"
#include "support/testing.h"

/* ---- Reading ----------------------------------------------------------------------------------- */

/* Opens a source of one table and scans its first column, part after part; `see` gets every cell. */
static weir_status scan_table(made_table *table, bool is_stream, bool is_read_once, uint32_t part_count,
                              void (*see)(void *context, const weir_ingest__value *cell), void *context,
                              weir_error *error) {
    struct ArrowArrayStream stream = {0};
    weir_arrow_table given = {.name = "t"};
    if (is_stream) {
        assert_int_equal(made_open(table, &stream), 0);
        given.stream = &stream;
    } else {
        given.open = made_open;
        given.context = table;
    }
    weir_ingest__source_options options = {
        .arrow_tables = &given, .arrow_table_count = 1, .arrow_is_read_once = is_read_once};
    weir_ingest__source *source = NULL;
    weir_ingest__cursor *cursors[4] = {0};
    weir_ingest__catalog catalog;
    weir_ingest__rows rows;
    uint32_t column = 0;
    weir_status status = weir_ingest__source_open(NULL, &options, &source, error);
    if (status == WEIR_OK) {
        assert_ok(weir_ingest__source_describe(source, &catalog, error), error);
        for (uint32_t p = 0; p < part_count && status == WEIR_OK; p++)
            status = weir_ingest__source_scan(source, &catalog.tables[0], &column, 1, p, part_count,
                                              &cursors[p], error);
        for (uint32_t p = 0; p < part_count && status == WEIR_OK; p++)
            while ((status = cursors[p]->next(cursors[p], &rows, error)) == WEIR_OK && rows.row_count > 0)
                for (size_t r = 0; r < rows.row_count && see; r++)
                    see(context, &rows.cells[r]);
        for (uint32_t p = 0; p < part_count; p++)
            if (cursors[p])
                cursors[p]->close(cursors[p]);
        weir_ingest__catalog_release(&catalog);
        weir_ingest__source_close(source);
    }
    if (stream.release)
        stream.release(&stream);
    return status;
}

static void assert_all_released(const made_table *table) {
    assert_int_equal(table->live_schemas, 0);
    assert_int_equal(table->live_batches, 0);
    assert_int_equal(table->live_streams, 0);
    assert_int_equal(table->asked_too_often, 0);
}

typedef struct seen_cells {
    size_t count;
    weir_ingest__value cells[16];
    char texts[16][64];
} seen_cells;

static void note_cell(void *context, const weir_ingest__value *cell) {
    seen_cells *seen = context;
    assert_true(seen->count < 16);
    seen->cells[seen->count] = *cell;
    if (cell->type == WEIR_INGEST__TEXT || cell->type == WEIR_INGEST__BLOB) {
        assert_true(cell->text.size < 64);
        memcpy(seen->texts[seen->count], cell->text.data, cell->text.size);
    }
    seen->count++;
}

/* The cells of a column of one batch. */
static void read_column(const made_column *column, int64_t first, int64_t length, seen_cells *seen) {
    made_table table = {
        .columns = column, .column_count = 1, .offset = first, .length = length, .batch_count = 1};
    weir_error error;
    *seen = (seen_cells){0};
    assert_ok(scan_table(&table, true, true, 1, note_cell, seen, &error), &error);
    assert_int_equal(seen->count, length);
    assert_all_released(&table);
}

/* ---- Values ------------------------------------------------------------------------------------ */

static void integers_where_offsets_lead(void **state) {
    (void)state;
    static const int16_t values[] = {9, 9, -1, 2, 3, 4};
    static const uint8_t validity = 0x37; /* not value 3 */
    const made_column column = {.format = "s",
                                .name = "x",
                                .length = 5,
                                .offset = 1,
                                .null_count = -1,
                                .n_buffers = 2,
                                .buffers = {&validity, values}};
    seen_cells seen;
    read_column(&column, 1, 4, &seen); /* values 2 to 5 */
    assert_int_equal(seen.cells[0].integer, -1);
    assert_int_equal(seen.cells[1].type, WEIR_INGEST__NULL);
    assert_int_equal(seen.cells[2].type, WEIR_INGEST__INT);
    assert_int_equal(seen.cells[2].integer, 3);
    assert_int_equal(seen.cells[3].integer, 4);
}

static void unaligned_buffers(void **state) {
    (void)state;
    char bytes[1 + 2 * sizeof(double)];
    const double values[] = {0.5, -2.0};
    memcpy(bytes + 1, values, sizeof values);
    const made_column column = {
        .format = "g", .name = "x", .length = 2, .n_buffers = 2, .buffers = {NULL, bytes + 1}};
    seen_cells seen;
    read_column(&column, 0, 2, &seen);
    assert_true(seen.cells[0].real == 0.5 && seen.cells[1].real == -2.0);
}

static void half_floats(void **state) {
    (void)state;
    static const uint16_t values[] = {0x0000, 0x8000, 0x3C00, 0xC000, 0x7BFF,
                                      0x0001, 0x0400, 0x7C00, 0xFC00, 0x7E00};
    static const double expected[] = {0, -0.0, 1, -2, 65504, 0x1p-24, 0x1p-14, INFINITY, -INFINITY};
    const made_column column = {
        .format = "e", .name = "x", .length = 10, .n_buffers = 2, .buffers = {NULL, values}};
    seen_cells seen;
    read_column(&column, 0, 10, &seen);
    for (int i = 0; i < 9; i++)
        assert_true(seen.cells[i].real == expected[i] &&
                    !signbit(seen.cells[i].real) == !signbit(expected[i]));
    assert_true(isnan(seen.cells[9].real));
}

/* Arrow's numbers have the machine's order of bytes, also over several words. */
static void order_words(uint64_t *words, size_t count) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (size_t i = 0; i < count; i += 4) {
        uint64_t low = words[i], next = words[i + 1];
        words[i] = words[i + 3];
        words[i + 1] = words[i + 2];
        words[i + 2] = next;
        words[i + 3] = low;
    }
#else
    (void)words;
    (void)count;
#endif
}

static void decimals_of_256_bits(void **state) {
    (void)state;
    uint64_t values[] = {
        UINT64_MAX,
        UINT64_MAX,
        UINT64_MAX,
        UINT64_MAX, /* -1 */
        0,
        0,
        1,
        0, /* 2^128 */
        0,
        0,
        0,
        UINT64_C(1) << 63, /* -2^255 */
        700,
        0,
        0,
        0, /* 7.00 */
        (uint64_t)-12345,
        UINT64_MAX,
        UINT64_MAX,
        UINT64_MAX, /* -123.45 */
    };
    order_words(values, sizeof values / sizeof *values);
    const made_column column = {
        .format = "d:76,2,256", .name = "x", .length = 5, .n_buffers = 2, .buffers = {NULL, values}};
    seen_cells seen;
    read_column(&column, 0, 5, &seen);
    assert_true(seen.cells[0].type == WEIR_INGEST__REAL && seen.cells[0].real == -0.01);
    assert_true(seen.cells[1].real == 3402823669209384634633746074317682114.56);
    assert_true(seen.cells[2].real == -0x1p255 / 100);
    assert_true(seen.cells[3].type == WEIR_INGEST__INT && seen.cells[3].integer == 7);
    assert_true(seen.cells[4].real == -123.45);
}

static void negative_scales(void **state) {
    (void)state;
    static const int32_t values[] = {12, -3};
    const made_column column = {
        .format = "d:9,-3,32", .name = "x", .length = 2, .n_buffers = 2, .buffers = {NULL, values}};
    seen_cells seen;
    read_column(&column, 0, 2, &seen);
    assert_true(seen.cells[0].type == WEIR_INGEST__INT && seen.cells[0].integer == 12000);
    assert_int_equal(seen.cells[1].integer, -3000);
}

static void nanoseconds_round_down(void **state) {
    (void)state;
    static const int64_t values[] = {-1, 1999, -1000, INT64_MIN};
    const made_column column = {
        .format = "tsn:UTC", .name = "x", .length = 4, .n_buffers = 2, .buffers = {NULL, values}};
    seen_cells seen;
    read_column(&column, 0, 4, &seen);
    assert_int_equal(seen.cells[0].type, WEIR_INGEST__TIMESTAMP);
    assert_int_equal(seen.cells[0].integer, -1);
    assert_int_equal(seen.cells[1].integer, 1);
    assert_int_equal(seen.cells[2].integer, -1);
    assert_int_equal(seen.cells[3].integer, INT64_MIN / 1000 - 1);
}

static void views_inside_and_outside(void **state) {
    (void)state;
    static const char bytes[] = "a text of more than twelve bytes";
    static const int64_t lengths[] = {sizeof bytes - 1};
    struct {
        int32_t size;
        char start[4];
        int32_t buffer, at;
    } views[2] = {{3, {'a', 'b', 'c'}, 0, 0}, {(int32_t)sizeof bytes - 3, {'t'}, 0, 2}};
    made_column column = {
        .format = "vu", .name = "x", .length = 2, .n_buffers = 4, .buffers = {NULL, views, bytes, lengths}};
    made_table table = {.columns = &column, .column_count = 1, .length = 2, .batch_count = 1};
    seen_cells seen;
    weir_error error;
    read_column(&column, 0, 2, &seen);
    assert_string_equal(seen.texts[0], "abc");
    assert_string_equal(seen.texts[1], bytes + 2);
    for (int wrong = 0; wrong < 5; wrong++) {
        views[1].size = wrong == 0 ? -1 : wrong == 1 ? (int32_t)sizeof bytes - 2 : (int32_t)sizeof bytes - 3;
        views[1].buffer = wrong == 2 ? 1 : wrong == 3 ? -1 : 0;
        views[1].at = wrong == 4 ? INT32_MAX : 2;
        assert_fails(scan_table(&table, true, true, 1, NULL, NULL, &error), WEIR_SOURCE_ERROR, &error);
        assert_non_null(strstr(error.message, "table t, column x has views that lie outside"));
        assert_all_released(&table);
    }
}

static void dictionaries(void **state) {
    (void)state;
    static const int32_t ends[] = {0, 1, 1, 3};
    static const uint8_t validity = 5, indices[] = {2, 0, 1, 2};
    const made_column words = {.format = "u",
                               .name = "",
                               .length = 3,
                               .null_count = 1,
                               .n_buffers = 3,
                               .buffers = {&validity, ends, "abc"}};
    const made_column column = {.format = "C",
                                .name = "x",
                                .length = 4,
                                .n_buffers = 2,
                                .buffers = {NULL, indices},
                                .dictionary = &words};
    seen_cells seen;
    read_column(&column, 0, 4, &seen);
    assert_string_equal(seen.texts[0], "bc");
    assert_string_equal(seen.texts[1], "a");
    assert_int_equal(seen.cells[2].type, WEIR_INGEST__NULL); /* of the dictionary's own */
    assert_string_equal(seen.texts[3], "bc");
}

/* ---- Producers that are wrong ------------------------------------------------------------------ */

static const int64_t numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
static const made_column good = {
    .format = "l", .name = "x", .length = 4, .n_buffers = 2, .buffers = {NULL, numbers}};

static void refuse(made_table table, const char *message) {
    weir_error error;
    for (int is_stream = 0; is_stream < 2; is_stream++) {
        if (is_stream && (table.fail_open || table.later))
            continue;
        table.opened = 0;
        assert_fails(scan_table(&table, is_stream, true, 1, NULL, NULL, &error), WEIR_SOURCE_ERROR, &error);
        if (!strstr(error.message, message))
            fail_msg("%s, not: %s", error.message, message);
        assert_all_released(&table);
    }
}

static void refuse_column(made_column column, const char *message) {
    char whole[200];
    snprintf(whole, sizeof whole, "table t, column x %s", message);
    refuse((made_table){.columns = &column, .column_count = 1, .length = 4, .batch_count = 1}, whole);
}

#define WITH(...)                                                                                            \
    ({                                                                                                       \
        made_column changed = good;                                                                          \
        __VA_ARGS__;                                                                                         \
        changed;                                                                                             \
    })

static void columns_that_are_wrong(void **state) {
    (void)state;
    static const int32_t falling[] = {0, 3, 2, 4, 5}, negative[] = {-1, 0, 1, 2, 3},
                         rising[] = {0, 1, 2, 3, 4};
    refuse_column(WITH(changed.is_missing = true), "is not there");
    refuse_column(WITH(changed.length = -1), "has a negative length");
    refuse_column(WITH(changed.offset = -1), "has a negative length");
    refuse_column(WITH(changed.offset = INT64_MAX), "has a length and offset that no memory holds");
    refuse_column(WITH(changed.null_count = 5), "says that it has more nulls");
    refuse_column(WITH(changed.null_count = -2), "says that it has more nulls");
    refuse_column(WITH(changed.n_buffers = 1), "has another number of buffers");
    refuse_column(WITH(changed.n_buffers = INT64_MAX), "has another number of buffers");
    refuse_column(WITH(changed.has_no_list = true), "has no list of buffers");
    refuse_column(WITH(changed.null_count = 1), "has nulls but no validity bitmap");
    refuse_column(WITH(changed.buffers[1] = NULL), "has no buffer of values");
    refuse_column(WITH(changed.length = 3), "is shorter than its batch");
    refuse_column(WITH(changed.format = "u"; changed.n_buffers = 3; changed.buffers[1] = falling;
                       changed.buffers[2] = "abcde"),
                  "has offsets of text that are negative, fall");
    refuse_column(WITH(changed.format = "z"; changed.n_buffers = 3; changed.buffers[1] = negative;
                       changed.buffers[2] = "abcde"),
                  "has offsets of text that are negative");
    refuse_column(WITH(changed.format = "u"; changed.n_buffers = 3; changed.buffers[1] = rising),
                  "has offsets of text that are negative, fall, or lead into no buffer");
    refuse_column(WITH(changed.format = "vu"; changed.n_buffers = 4; changed.buffers[2] = "a"),
                  "has no lengths of its buffers");
    refuse_column(WITH(changed.dictionary = &good; changed.has_no_dictionary = true), "has no dictionary");
    refuse_column(WITH(changed.dictionary = &good), "has an index that is not in its dictionary");
    refuse_column(WITH(changed.dictionary = &good; changed.format = "g"), "is a dictionary whose indices");
    const made_column coded = WITH(changed.dictionary = &good);
    refuse_column(WITH(changed.dictionary = &coded), "is a dictionary in a dictionary");
}

static void batches_that_are_wrong(void **state) {
    (void)state;
    static const uint8_t none = 0;
    const made_table table = {.columns = &good, .column_count = 1, .length = 4, .batch_count = 1};
    made_table changed;
#define REFUSE(change, message)                                                                              \
    changed = table, changed.change, refuse(changed, "table t comes with a batch that " message)
    REFUSE(length = -1, "has a negative length");
    REFUSE(offset = INT64_MAX, "has a length and offset that no memory holds");
    REFUSE(n_children = 2, "has another number of columns");
    REFUSE(null_count = 1, "has rows that are null");
    changed = table, changed.null_count = -1, changed.validity = &none;
    refuse(changed, "has rows that are null");
}

static void streams_that_are_wrong_or_fail(void **state) {
    (void)state;
    const made_table table = {.columns = &good, .column_count = 1, .length = 4, .batch_count = 2};
    made_table changed;
    changed = table, changed.format = "l";
    refuse(changed, "table t is a stream of single values, not of rows");
    changed = table, changed.fail_schema = EIO, changed.message = "no\nluck";
    refuse(changed, "table t cannot be read: its producer fails to give its schema: no luck");
    changed = table, changed.fail_next = ENOMEM;
    refuse(changed, "its producer fails to give its next rows: Cannot allocate memory");
    changed = table, changed.fail_open = EACCES;
    refuse(changed, "table t cannot be opened: Permission denied");
    changed = table, changed.lacks_functions = true;
    refuse(changed, "table t has a stream without its functions");
    changed = table, changed.column_count = 0;
    refuse(changed, "table t has no columns");
    changed = table, changed.column_count = -1;
    refuse(changed, "table t has a schema that lacks parts");
    changed = table, changed.columns = &(made_column){.format = NULL, .name = "x"};
    refuse(changed, "without the type of column 1");
    changed = table, changed.columns = &(made_column){.format = "l", .name = NULL};
    refuse(changed, "table t has no name in UTF-8 for column 1");
}

static void streams_that_change(void **state) {
    (void)state;
    const made_column renamed = WITH(changed.name = "y"), wider = WITH(changed.format = "g");
    const made_column two[] = {good, renamed};
    made_table other = {.columns = &renamed, .column_count = 1, .length = 4, .batch_count = 1};
    const made_table table = {
        .columns = &good, .column_count = 1, .length = 4, .batch_count = 1, .later = &other};
    refuse(table, "table t, column x has another name or type");
    other.columns = &wider;
    refuse(table, "table t, column x has another name or type");
    other.columns = two, other.column_count = 2;
    refuse(table, "table t has other columns than when it was read first");
    const made_column coded = WITH(changed.dictionary = &good),
                      coded_wider = WITH(changed.dictionary = &wider);
    const made_table of_coded = {
        .columns = &coded, .column_count = 1, .length = 4, .batch_count = 1, .later = &other};
    other.column_count = 1;
    const made_column *const others[] = {&coded_wider, &good};
    for (int i = 0; i < 2; i++) {
        other.columns = others[i];
        refuse(of_coded, "table t, column x has another name or type");
    }
}

/* ---- Scans ------------------------------------------------------------------------------------- */

static void count_cell(void *context, const weir_ingest__value *cell) {
    *(int64_t *)context += cell->integer;
}

static void parts_share_the_batches(void **state) {
    (void)state;
    weir_error error;
    for (uint32_t parts = 1; parts <= 4; parts++)
        for (int way = 0; way < 3; way++) {
            made_table table = {.columns = &good, .column_count = 1, .length = 4, .batch_count = 7};
            int64_t sum = 0;
            assert_ok(scan_table(&table, way > 0, way == 1, parts, count_cell, &sum, &error), &error);
            assert_int_equal(sum, 7 * 10);
            assert_all_released(&table);
        }
}

static void a_stream_is_read_once_or_kept(void **state) {
    (void)state;
    for (int is_kept = 0; is_kept < 2; is_kept++) {
        made_table table = {.columns = &good, .column_count = 1, .length = 4, .batch_count = 3};
        struct ArrowArrayStream stream;
        weir_arrow_table given = {.name = "t", .stream = &stream};
        weir_ingest__source_options options = {
            .arrow_tables = &given, .arrow_table_count = 1, .arrow_is_read_once = !is_kept};
        weir_ingest__source *source;
        weir_ingest__catalog catalog;
        weir_ingest__cursor *cursor;
        weir_ingest__rows rows;
        weir_error error;
        uint32_t column = 0;
        assert_int_equal(made_open(&table, &stream), 0);
        assert_ok(weir_ingest__source_open(NULL, &options, &source, &error), &error);
        assert_ok(weir_ingest__source_describe(source, &catalog, &error), &error);
        for (int turn = 0; turn < 3; turn++) {
            size_t found = 0;
            weir_status status =
                weir_ingest__source_scan(source, &catalog.tables[0], &column, 1, 0, 1, &cursor, &error);
            if (turn > 0 && !is_kept) {
                assert_fails(status, WEIR_SOURCE_ERROR, &error);
                assert_non_null(strstr(error.message, "its stream can be read once only"));
                break;
            }
            assert_ok(status, &error);
            do { /* the first scan ends in the middle */
                assert_ok(cursor->next(cursor, &rows, &error), &error);
                found += rows.row_count;
            } while (rows.row_count > 0 && (turn > 0 || !is_kept || found < 8));
            cursor->close(cursor);
            assert_int_equal(found, turn > 0 || !is_kept ? 12 : 8);
        }
        weir_ingest__catalog_release(&catalog);
        weir_ingest__source_close(source);
        assert_non_null(stream.release); /* it is the caller's */
        stream.release(&stream);
        assert_all_released(&table);
    }
}

static void tables_that_are_given_wrongly(void **state) {
    (void)state;
    made_table table = {.columns = &good, .column_count = 1, .length = 4, .batch_count = 1};
    struct ArrowArrayStream released = {0};
    weir_arrow_table given[2] = {{.name = "t", .open = made_open, .context = &table},
                                 {.name = "t", .open = made_open, .context = &table}};
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_error error;
    options.arrow_tables = given;
    options.arrow_table_count = 2;
    options.output = "/nowhere/t.weir";
    assert_fails(weir_ingest(NULL, &options, NULL, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_non_null(strstr(error.message, "table t is given twice"));
    given[1].name = NULL;
    assert_fails(weir_ingest(NULL, &options, NULL, &error), WEIR_CONTRACT_VIOLATION, &error);
    given[1] = (weir_arrow_table){.name = "u"};
    assert_fails(weir_ingest(NULL, &options, NULL, &error), WEIR_CONTRACT_VIOLATION, &error);
    given[1].stream = &released;
    assert_fails(weir_ingest(NULL, &options, NULL, &error), WEIR_SOURCE_ERROR, &error);
    assert_non_null(strstr(error.message, "table u has a stream that was released already"));
    options.source = "shop.sqlite";
    assert_fails(weir_ingest(NULL, &options, NULL, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_all_released(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_where_offsets_lead),
        cmocka_unit_test(unaligned_buffers),
        cmocka_unit_test(half_floats),
        cmocka_unit_test(decimals_of_256_bits),
        cmocka_unit_test(negative_scales),
        cmocka_unit_test(nanoseconds_round_down),
        cmocka_unit_test(views_inside_and_outside),
        cmocka_unit_test(dictionaries),
        cmocka_unit_test(columns_that_are_wrong),
        cmocka_unit_test(batches_that_are_wrong),
        cmocka_unit_test(streams_that_are_wrong_or_fail),
        cmocka_unit_test(streams_that_change),
        cmocka_unit_test(parts_share_the_batches),
        cmocka_unit_test(a_stream_is_read_once_or_kept),
        cmocka_unit_test(tables_that_are_given_wrongly),
    };
    return cmocka_run_group_tests_name("arrow", tests, NULL, NULL);
}
