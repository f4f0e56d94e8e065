/* Values of Arrow's arrays, by the functions that read them: every format with nulls and without, what is
 * found where a buffer ends or is missing, and which arrays are used as they lie. (test_arrow.c reads whole
 * streams.) */
#include <stdlib.h>
#include <string.h>

#include "ingest/arrow_source.h"
#include "support/testing.h"

enum { ROWS = 3, WIDTH_MAX = 32 };

/* A column of a format, and its array with three values, of which the second may be null. */
typedef struct made_array {
    weir_ingest__arrow_column column;
    struct ArrowArray array, batch;
    const void *buffers[5];
    weir_ingest__value cells[ROWS];
    char forms[ROWS * WEIR_INGEST__ARROW_FORM_SIZE];
} made_array;

static const uint8_t all_but_the_second = 0x5;

static void make_array(made_array *out, const char *format, const void *values, bool has_null) {
    *out =
        (made_array){.column = {.name = (char *)(uintptr_t) "x", .type = weir_ingest__arrow_type_of(format)},
                     .batch = {.length = ROWS}};
    out->array = (struct ArrowArray){.length = ROWS, .null_count = has_null, .n_buffers = 2};
    out->buffers[0] = has_null ? &all_but_the_second : NULL;
    out->buffers[1] = values;
    out->array.buffers = out->buffers;
    assert_int_not_equal(out->column.type.layout, WEIR_INGEST__ARROW_REFUSED);
}

static weir_status read_array(made_array *made, weir_error *error) {
    weir_status status =
        weir_ingest__arrow_check_column("t", &made->column, &made->batch, &made->array, error);
    if (status != WEIR_OK)
        return status;
    return weir_ingest__arrow_read("t", &made->column, &made->batch, &made->array, 0, ROWS, made->cells, 1,
                                   made->forms, error);
}

static void assert_read(made_array *made, bool has_null) {
    weir_error error;
    assert_ok(read_array(made, &error), &error);
    for (int i = 0; i < ROWS; i++)
        assert_true((made->cells[i].type == WEIR_INGEST__NULL) == (has_null && i == 1));
}

static void assert_refused(made_array *made, const char *message) {
    weir_error error;
    assert_fails(read_array(made, &error), WEIR_SOURCE_ERROR, &error);
    assert_non_null(strstr(error.message, message));
}

/* ---- Every format -------------------------------------------------------------------------------------- */

/* The lowest bytes of 7 in the width of a format, three times. */
static void repeat_seven(uint8_t *values, size_t width) {
    memset(values, 0, ROWS * WIDTH_MAX);
    for (size_t i = 0; i < ROWS; i++)
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        values[i * width + width - 1] = 7;
#else
        values[i * width] = 7;
#endif
}

static void numbers_of_every_width(void **state) {
    (void)state;
    static const char *const formats[] = {"c",        "s",        "i",     "l",        "C",   "S",
                                          "I",        "L",        "tDs",   "tDm",      "tDu", "tDn",
                                          "d:9,0,32", "d:9,0,64", "d:9,0", "d:9,0,256"};
    uint8_t values[ROWS * WIDTH_MAX];
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        for (int has_null = 0; has_null < 2; has_null++) {
            made_array made;
            make_array(&made, formats[i], values, has_null);
            repeat_seven(values, made.column.type.width);
            assert_read(&made, has_null);
            assert_int_equal(made.cells[2].type, WEIR_INGEST__INT);
            assert_int_equal(made.cells[2].integer, 7);
        }
}

static void floats_of_every_width(void **state) {
    (void)state;
    static const uint16_t halves[ROWS] = {0x3E00, 0x3E00, 0x3E00};
    static const float singles[ROWS] = {1.5F, 1.5F, 1.5F};
    static const double doubles[ROWS] = {1.5, 1.5, 1.5};
    static const void *const values[] = {halves, singles, doubles};
    for (int i = 0; i < 3; i++)
        for (int has_null = 0; has_null < 2; has_null++) {
            made_array made;
            make_array(&made, (const char *const[]){"e", "f", "g"}[i], values[i], has_null);
            assert_read(&made, has_null);
            assert_true(made.cells[0].real == 1.5 && made.cells[2].real == 1.5);
        }
}

static void times_of_every_unit(void **state) {
    (void)state;
    static const struct {
        const char *format;
        int64_t value, micros;
    } times[] = {
        {"tss:", -1, -1000000}, {"tsm:UTC", 7, 7000},           {"tsu:", -7, -7},
        {"tsn:", -1, -1},       {"tdm", 86400000, 86400000000}, {"tsn:Asia/Tokyo", 2001, 2},
    };
    static const int32_t days[ROWS] = {-1, -1, -1};
    made_array made;
    for (int has_null = 0; has_null < 2; has_null++) {
        for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
            const int64_t values[ROWS] = {times[i].value, times[i].value, times[i].value};
            make_array(&made, times[i].format, values, has_null);
            assert_read(&made, has_null);
            assert_int_equal(made.cells[2].type, WEIR_INGEST__TIMESTAMP);
            assert_true(made.cells[2].integer == times[i].micros);
        }
        make_array(&made, "tdD", days, has_null);
        assert_read(&made, has_null);
        assert_true(made.cells[0].integer == -86400000000);
    }
    static const int64_t late[ROWS] = {0, INT64_MAX, 0};
    make_array(&made, "tss:", late, false);
    assert_refused(&made, "a time beyond what int64 microseconds hold");
    make_array(&made, "tss:", late, true);
    assert_read(&made, true); /* what a null hides is not looked at */
}

static void clocks_of_every_unit(void **state) {
    (void)state;
    static const struct {
        const char *format, *text;
        int64_t value;
    } clocks[] = {{"tts", "01:02:03", 3723},
                  {"ttm", "01:02:03.5", 3723500},
                  {"ttu", "01:02:03.000001", 3723000001},
                  {"ttn", "24:00:00", 86400000000000}};
    made_array made;
    for (size_t i = 0; i < sizeof clocks / sizeof *clocks; i++)
        for (int has_null = 0; has_null < 2; has_null++) {
            const int64_t wide[ROWS] = {clocks[i].value, clocks[i].value, clocks[i].value};
            const int32_t narrow[ROWS] = {(int32_t)wide[0], (int32_t)wide[1], (int32_t)wide[2]};
            make_array(&made, clocks[i].format, i < 2 ? (const void *)narrow : wide, has_null);
            assert_read(&made, has_null);
            assert_int_equal(made.cells[2].text.size, strlen(clocks[i].text));
            assert_memory_equal(made.cells[2].text.data, clocks[i].text, made.cells[2].text.size);
        }
    static const int32_t early[ROWS] = {0, -1, 0}, late[ROWS] = {0, 0, 86401};
    make_array(&made, "tts", early, false);
    assert_refused(&made, "a time of day that is negative or beyond 24 hours");
    make_array(&made, "tts", late, true);
    assert_refused(&made, "a time of day that is negative or beyond 24 hours");
}

/* 2^130 and its negative, with points within and far before their digits. */
static void decimals_of_more_than_128_bits(void **state) {
    (void)state;
    static const int scales[] = {0, 1, 10, 39, 40, 41, 60, 300, -5};
    uint64_t values[ROWS][4] = {{0, 0, 4, 0}, {0, 0, UINT64_MAX - 3, UINT64_MAX}, {0, 0, 0, 4}};
    static const char *const digits[ROWS] = {"1361129467683753853853498429727072845824",
                                             "-1361129467683753853853498429727072845824",
                                             "25108406941546723055343157692830665664409421777856138051584"};
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 2; k++) {
            uint64_t kept = values[i][k];
            values[i][k] = values[i][3 - k];
            values[i][3 - k] = kept;
        }
#endif
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        char format[32], expected[100];
        made_array made;
        snprintf(format, sizeof format, "d:76,%d,256", scales[s]);
        make_array(&made, format, values, false);
        assert_read(&made, false);
        for (int i = 0; i < ROWS; i++) {
            snprintf(expected, sizeof expected, "%se%d", digits[i], -scales[s]);
            assert_int_equal(made.cells[i].type, WEIR_INGEST__REAL);
            assert_true(made.cells[i].real == strtod(expected, NULL));
        }
    }
}

static void bits_and_nothing(void **state) {
    (void)state;
    static const uint8_t bits = 0x6;
    made_array made;
    for (int has_null = 0; has_null < 2; has_null++) {
        make_array(&made, "b", &bits, has_null);
        assert_read(&made, has_null);
        assert_true(made.cells[0].integer == 0 && made.cells[2].integer == 1);
    }
    weir_error error;
    make_array(&made, "n", NULL, false);
    made.array.n_buffers = 0;
    assert_ok(read_array(&made, &error), &error);
    for (int i = 0; i < ROWS; i++)
        assert_int_equal(made.cells[i].type, WEIR_INGEST__NULL);
}

/* ---- Bytes --------------------------------------------------------------------------------------------- */

static void assert_text(const weir_ingest__value *cell, bool is_text, const char *text) {
    assert_int_equal(cell->type, is_text ? WEIR_INGEST__TEXT : WEIR_INGEST__BLOB);
    assert_int_equal(cell->text.size, strlen(text));
    assert_memory_equal(cell->text.data, text, strlen(text));
}

static void texts_by_offsets(void **state) {
    (void)state;
    static const int32_t short_ends[ROWS + 1] = {0, 1, 1, 3}, no_bytes[ROWS + 1] = {0};
    static const int64_t long_ends[ROWS + 1] = {0, 1, 1, 3};
    static const char *const formats[] = {"u", "z", "U", "Z"};
    made_array made;
    for (int i = 0; i < 4; i++)
        for (int has_null = 0; has_null < 2; has_null++) {
            make_array(&made, formats[i], i < 2 ? (const void *)short_ends : long_ends, has_null);
            made.array.n_buffers = 3;
            made.buffers[2] = "abc";
            assert_read(&made, has_null);
            assert_text(&made.cells[0], i % 2 == 0, "a");
            assert_text(&made.cells[2], i % 2 == 0, "bc");
        }
    make_array(&made, "u", no_bytes, true); /* texts without a byte need no buffer */
    made.array.n_buffers = 3;
    assert_read(&made, true);
    assert_text(&made.cells[2], true, "");
    static const int64_t wrong[][ROWS + 1] = {{-1, 1, 1, 3}, {0, 2, 1, 3}};
    for (int i = 0; i < 2; i++) {
        make_array(&made, "U", wrong[i], false);
        made.array.n_buffers = 3;
        made.buffers[2] = "abc";
        assert_refused(&made, "has offsets of text that are negative, fall, or lead into no buffer");
    }
}

static void bytes_of_fixed_width(void **state) {
    (void)state;
    made_array made;
    for (int has_null = 0; has_null < 2; has_null++) {
        make_array(&made, "w:2", "aabbcc", has_null);
        assert_read(&made, has_null);
        assert_text(&made.cells[2], false, "cc");
        make_array(&made, "w:0", NULL, has_null); /* and no buffer */
        assert_read(&made, has_null);
        assert_text(&made.cells[2], false, "");
    }
}

/* A view: a size, and what lies in it or where the rest is. */
typedef struct view {
    int32_t size;
    char start[4];
    int32_t buffer, at;
} view;

static void views_of_texts(void **state) {
    (void)state;
    static const int64_t lengths[] = {13};
    static const view good = {13, "long", 0, 0};
    static const view wrong[] = {{-1, "", 0, 0},         {13, "", -1, 0}, {13, "", 1, 0},
                                 {13, "", 0, INT32_MIN}, {13, "", 0, 1},  {INT32_MAX, "", 0, 0}};
    made_array made;
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++)
        for (int has_null = 0; has_null < 2; has_null++) {
            const view views[ROWS] = {good, i > 0 ? wrong[i - 1] : good, {2, "ab", 0, 0}};
            make_array(&made, i % 2 ? "vu" : "vz", views, has_null);
            made.array.n_buffers = 4;
            made.buffers[2] = "long enough 13";
            made.buffers[3] = lengths;
            if (i > 0 && !has_null) {
                assert_refused(&made, "has views that lie outside their buffers");
                continue;
            }
            assert_read(&made, has_null);
            assert_text(&made.cells[0], i % 2, "long enough 1");
            assert_text(&made.cells[2], i % 2, "ab");
        }
    const view views[ROWS] = {good, good, good};
    make_array(&made, "vu", views, false); /* a buffer that the producer left out */
    made.array.n_buffers = 4;
    made.buffers[3] = lengths;
    assert_refused(&made, "has views that lie outside their buffers");
    made.buffers[3] = NULL;
    assert_refused(&made, "has no lengths of its buffers");
    made.array.n_buffers = 2;
    assert_refused(&made, "has another number of buffers than its type");
}

/* ---- Arrays as they lie -------------------------------------------------------------------------------- */

static void which_arrays_are_used_as_they_lie(void **state) {
    (void)state;
    static const struct {
        const char *format;
        weir_ingest__array_form form;
    } forms[] = {{"b", WEIR_INGEST__ARRAY_BITS},      {"u", WEIR_INGEST__ARRAY_TEXT32},
                 {"U", WEIR_INGEST__ARRAY_TEXT64},    {"i", WEIR_INGEST__ARRAY_INT32},
                 {"l", WEIR_INGEST__ARRAY_INT64},     {"g", WEIR_INGEST__ARRAY_DOUBLE},
                 {"tsu:", WEIR_INGEST__ARRAY_MICROS}, {"c", WEIR_INGEST__ARRAY_NONE},
                 {"f", WEIR_INGEST__ARRAY_NONE},      {"L", WEIR_INGEST__ARRAY_NONE},
                 {"tsn:", WEIR_INGEST__ARRAY_NONE},   {"tdD", WEIR_INGEST__ARRAY_NONE},
                 {"z", WEIR_INGEST__ARRAY_NONE},      {"Z", WEIR_INGEST__ARRAY_NONE},
                 {"vu", WEIR_INGEST__ARRAY_NONE},     {"n", WEIR_INGEST__ARRAY_NONE}};
    static const int64_t zeros[2 * (ROWS + 1)];
    made_array made;
    weir_ingest__array found;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        make_array(&made, forms[i].format, zeros, false);
        made.buffers[2] = "abc";
        bool is_used = weir_ingest__arrow_array(&made.column, &made.batch, &made.array, 0, ROWS, &found);
        assert_int_equal(is_used, forms[i].form != WEIR_INGEST__ARRAY_NONE);
        assert_int_equal(found.form, forms[i].form);
    }
    make_array(&made, "l", zeros, false);
    made.column.dictionary_format = (char *)(uintptr_t) "u";
    assert_false(weir_ingest__arrow_array(&made.column, &made.batch, &made.array, 0, ROWS, &found));
    static const int32_t falling[ROWS + 1] = {0, 2, 1, 3}, negative[ROWS + 1] = {-1, 0, 0, 0};
    for (int i = 0; i < 3; i++) { /* the reader of cells says what is wrong with these */
        make_array(&made, "u", (const void *const[]){falling, negative, zeros}[i], false);
        made.buffers[2] = i < 2 ? "abc" : NULL;
        assert_false(weir_ingest__arrow_array(&made.column, &made.batch, &made.array, 0, ROWS, &found));
        assert_int_equal(found.form, WEIR_INGEST__ARRAY_NONE);
    }
}

/* ---- Formats and numbers ------------------------------------------------------------------------------- */

static void formats_that_are_not_read(void **state) {
    (void)state;
    static const struct {
        const char *format, *name;
    } refused[] = {{"+l", "a list"},
                   {"+vL", "a list"},
                   {"+w:3", "a list of fixed size"},
                   {"+s", "a struct"},
                   {"+m", "a map"},
                   {"+ud:1", "a union"},
                   {"+r", "run-end encoded"},
                   {"tiM", "an interval"},
                   {"", "of a type that is not known"},
                   {"w:", "of a type that is not known"},
                   {"w:2147483648", "of a type that is not known"},
                   {"w:x", "of a type that is not known"},
                   {"ts", "of a type that is not known"}};
    static const char *const decimals[] = {"d:",       "d:9",      "d:9,",       "d:9,x",    "d:9;2",
                                           "d:9,401",  "d:9,-401", "d:9,2,",     "d:9,2,16", "d:9,2,128x",
                                           "d:x,2,64", "d:9,2;64", "d:9,1234567"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        weir_ingest__arrow_type type = weir_ingest__arrow_type_of(refused[i].format);
        assert_int_equal(type.layout, WEIR_INGEST__ARROW_REFUSED);
        assert_string_equal(weir_ingest__arrow_type_name(refused[i].format), refused[i].name);
    }
    for (size_t i = 0; i < sizeof decimals / sizeof *decimals; i++) {
        assert_int_equal(weir_ingest__arrow_type_of(decimals[i]).layout, WEIR_INGEST__ARROW_REFUSED);
        assert_string_equal(weir_ingest__arrow_type_name(decimals[i]),
                            "a decimal of a width or scale that is not known");
    }
}

static void numbers_that_no_array_has(void **state) {
    (void)state;
    static const int64_t values[ROWS];
    static const struct {
        int64_t length, offset, null_count, n_buffers;
        const char *message;
    } wrong[] = {{-1, 0, 0, 2, "a negative length"},
                 {ROWS, -1, 0, 2, "a negative length, offset"},
                 {ROWS, 0, 0, -1, "number of buffers"},
                 {INT64_MAX, 1, 0, 2, "a length and offset that no memory holds"},
                 {ROWS, 0, ROWS + 1, 2, "more nulls than values"},
                 {ROWS, 0, -2, 2, "more nulls than values"},
                 {ROWS, 0, 1, 2, "has nulls but no validity bitmap"},
                 {ROWS - 1, 0, 0, 2, "is shorter than its batch"},
                 {ROWS, 0, 0, 3, "has another number of buffers than its type"}};
    made_array made;
    weir_error error;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        make_array(&made, "l", values, false);
        made.array.length = wrong[i].length;
        made.array.offset = wrong[i].offset;
        made.array.null_count = wrong[i].null_count;
        made.array.n_buffers = wrong[i].n_buffers;
        assert_refused(&made, wrong[i].message);
    }
    make_array(&made, "l", NULL, false);
    assert_refused(&made, "has no buffer of values");
    made.array.buffers = NULL;
    assert_refused(&made, "has no list of buffers");
    assert_fails(weir_ingest__arrow_check_column("t", &made.column, &made.batch, NULL, &error),
                 WEIR_SOURCE_ERROR, &error);
    assert_non_null(strstr(error.message, "is not there"));
}

static void indices_and_their_dictionaries(void **state) {
    (void)state;
    static const int8_t indices[ROWS] = {1, 9, 0}, outside[] = {2, -1};
    static const int32_t ends[] = {0, 2, 3};
    const void *buffers[3] = {NULL, ends, "abc"};
    struct ArrowArray dictionary = {.length = 2, .n_buffers = 3, .buffers = buffers};
    made_array made;
    make_array(&made, "c", indices, true);
    made.column.index = made.column.type;
    made.column.type = weir_ingest__arrow_type_of("u");
    made.column.dictionary_format = (char *)(uintptr_t) "u";
    assert_refused(&made, "has no dictionary");
    made.array.dictionary = &dictionary;
    assert_read(&made, true); /* the index that is null leads nowhere */
    assert_text(&made.cells[0], true, "c");
    assert_text(&made.cells[2], true, "ab");
    for (int i = 0; i < 2; i++) {
        const int8_t wrong[ROWS] = {0, 0, outside[i]};
        made.buffers[1] = wrong;
        assert_refused(&made, "has an index that is not in its dictionary");
    }
    made.buffers[1] = indices;
    dictionary.n_buffers = 2;
    assert_refused(&made, "has another number of buffers than its type");
}

static void batches_and_their_rows(void **state) {
    (void)state;
    static const uint8_t one_is_null = 0xFD;
    const void *buffers[] = {&one_is_null};
    struct ArrowArray *children[1] = {NULL}, batch = {.length = 2, .n_children = 1, .children = children};
    weir_error error;
    assert_ok(weir_ingest__arrow_check_batch("t", 1, &batch, &error), &error);
    batch.n_buffers = 1, batch.buffers = buffers;
    assert_ok(weir_ingest__arrow_check_batch("t", 1, &batch, &error), &error); /* it says that none is null */
    batch.null_count = -1;
    assert_fails(weir_ingest__arrow_check_batch("t", 1, &batch, &error), WEIR_SOURCE_ERROR, &error);
    assert_non_null(strstr(error.message, "rows that are null as a whole"));
    batch.offset = 2;
    assert_ok(weir_ingest__arrow_check_batch("t", 1, &batch, &error), &error); /* the null lies before */
    batch.null_count = 1;
    assert_fails(weir_ingest__arrow_check_batch("t", 1, &batch, &error), WEIR_SOURCE_ERROR, &error);
    batch.null_count = 0, batch.children = NULL;
    assert_fails(weir_ingest__arrow_check_batch("t", 1, &batch, &error), WEIR_SOURCE_ERROR, &error);
    assert_non_null(strstr(error.message, "has no list of columns"));
    assert_fails(weir_ingest__arrow_check_batch("t", 2, &batch, &error), WEIR_SOURCE_ERROR, &error);
    assert_non_null(strstr(error.message, "another number of columns"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_of_every_width),
        cmocka_unit_test(floats_of_every_width),
        cmocka_unit_test(times_of_every_unit),
        cmocka_unit_test(clocks_of_every_unit),
        cmocka_unit_test(decimals_of_more_than_128_bits),
        cmocka_unit_test(bits_and_nothing),
        cmocka_unit_test(texts_by_offsets),
        cmocka_unit_test(bytes_of_fixed_width),
        cmocka_unit_test(views_of_texts),
        cmocka_unit_test(which_arrays_are_used_as_they_lie),
        cmocka_unit_test(formats_that_are_not_read),
        cmocka_unit_test(numbers_that_no_array_has),
        cmocka_unit_test(indices_and_their_dictionaries),
        cmocka_unit_test(batches_and_their_rows),
    };
    return cmocka_run_group_tests_name("values of Arrow's arrays", tests, NULL, NULL);
}
