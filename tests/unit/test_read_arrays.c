/* Columns that come as arrays are stored as cell by cell: random arrays, at any bit and any address, with and
 * without nulls, and with the values that are no numbers and no times. */
#include "ingest/read_arrays.h"

#include <math.h>

#include "support/database.h"

enum { ROWS_MOST = 300, FIRST_MOST = 70, CASES = 400, TEXT_MOST = 70 };

typedef struct made_array {
    weir_ingest__array array;
    uint32_t count;
    uint8_t validity[(FIRST_MOST + ROWS_MOST) / 8 + 8]; /* 64 bits are looked at, never beyond the rows */
    char values[(FIRST_MOST + ROWS_MOST + 1) * 8 + 8];
    char *bytes; /* of texts: exactly as many as they have, so that a sanitizer sees a look beyond */
} made_array;

static bool makes(random_stream *random, uint32_t one_in) {
    return random_below(random, one_in) == 0;
}

/* Of two letters, so that many are nearly equal: short ones, and some that are longer than what is compared
 * in vectors. */
static void make_texts(random_stream *random, made_array *made) {
    int32_t at = 0;
    char all[ROWS_MOST * TEXT_MOST];
    size_t size_most = 1 + random_below(random, makes(random, 2) ? 12 : TEXT_MOST);
    for (uint32_t row = 0; row < made->count; row++) {
        memcpy(made->values + row * sizeof at, &at, sizeof at);
        for (size_t left = random_below(random, size_most); left > 0; left--)
            all[at++] = makes(random, 8 * (uint32_t)(1 + size_most / 12)) ? 'b' : 'a';
    }
    memcpy(made->values + made->count * sizeof at, &at, sizeof at);
    made->bytes = malloc(at > 0 ? (size_t)at : 1);
    memcpy(made->bytes, all, (size_t)at);
    made->array.bytes = made->bytes;
}

static void make_values(random_stream *random, made_array *made) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, -0.0, 1e308, 5e-324};
    uint32_t shift = made->array.form == WEIR_INGEST__ARRAY_BITS ? 0 : 1; /* an odd address */
    made->array.values = made->values + shift;
    for (uint32_t row = 0; row < made->count; row++) {
        double number =
            makes(random, 20) ? odd[random_below(random, 6)] : (double)random_below(random, 99) / 7;
        int64_t integer = (int64_t)random_below(random, UINT64_MAX);
        if (made->array.form == WEIR_INGEST__ARRAY_DOUBLE)
            memcpy(made->values + shift + row * 8, &number, 8);
        else
            memcpy(made->values + shift + row * 8, &integer, 8);
    }
    if (made->array.form == WEIR_INGEST__ARRAY_BITS)
        for (size_t i = 0; i < sizeof made->values; i++)
            made->values[i] = (char)random_below(random, 256);
}

static void make_array(random_stream *random, weir_ingest__array_form form, bool has_nulls,
                       made_array *made) {
    made->count = (uint32_t)random_below(random, ROWS_MOST + 1);
    made->array = (weir_ingest__array){.form = form,
                                       .first = random_below(random, FIRST_MOST),
                                       .values = made->values,
                                       .validity = makes(random, 3) ? NULL : made->validity};
    made->bytes = NULL;
    memset(made->validity, 0xFF, sizeof made->validity);
    for (uint32_t i = 0; has_nulls && i < sizeof made->validity; i++)
        made->validity[i] = makes(random, 3) ? (uint8_t)random_below(random, 256) : 0xFF;
    if (form == WEIR_INGEST__ARRAY_TEXT32)
        make_texts(random, made);
    else
        make_values(random, made);
}

typedef struct made_part {
    weir_ingest__part part;
    weir_ingest__column_data data;
    weir_ingest__part_column column;
    uint8_t values[ROWS_MOST * 8];
} made_part;

static void store(made_part *p, weir_stype stype, const made_array *made) {
    *p = (made_part){.data = {.values = p->values}};
    p->part.data = &p->data;
    p->part.columns = &p->column;
    weir__arena_init(&p->part.strings, weir_env_default());
    weir_ingest__dictionary_init(&p->column.dictionary, weir_env_default());
    assert_true(weir_ingest__array_store(&p->part, 0, stype, &made->array, 0, made->count));
}

static void release(made_part *p, made_array *made) {
    weir_ingest__dictionary_release(&p->column.dictionary);
    weir__arena_release(&p->part.strings);
    free(made->bytes);
}

/* One value as it must be stored; what it adds to the two counts. */
static void assert_stored(const made_part *p, weir_stype stype, const weir_ingest__value *value, uint32_t row,
                          uint64_t *nulls, uint64_t *not_finite) {
    bool is_null = value->type == WEIR_INGEST__NULL;
    double number = is_null ? NAN : value->type == WEIR_INGEST__REAL ? value->real : (double)value->integer;
    const double *stored = (const double *)(const void *)p->values + row;
    const uint32_t *text = (const uint32_t *)(const void *)p->values + row;
    *nulls += is_null;
    switch (stype) {
    case WEIR_NUMERICAL:
        *nulls += !is_null && !isfinite(number);
        *not_finite += !is_null && !isfinite(number);
        assert_true(isfinite(number) ? memcmp(stored, &number, sizeof number) == 0 : isnan(*stored));
        break;
    case WEIR_TIMESTAMP:
        assert_int_equal(((const int64_t *)(const void *)p->values)[row],
                         is_null ? WEIR_TIME_ALWAYS : value->integer);
        break;
    case WEIR_BOOLEAN:
        assert_int_equal(p->values[row], is_null ? 2 : value->integer);
        break;
    case WEIR_CATEGORICAL:
        assert_int_equal(is_null, *text == WEIR_NONE);
        if (is_null)
            break;
        assert_int_equal(p->column.dictionary.strings[*text]->size, value->text.size);
        assert_memory_equal(p->column.dictionary.strings[*text]->bytes, value->text.data, value->text.size);
        break;
    default:
        assert_int_equal(p->values[row], !is_null);
    }
}

static void values_are_those_of_cells(void **state) {
    static const struct {
        weir_ingest__array_form form;
        weir_stype stype;
    } kinds[] = {{WEIR_INGEST__ARRAY_DOUBLE, WEIR_NUMERICAL}, {WEIR_INGEST__ARRAY_INT32, WEIR_NUMERICAL},
                 {WEIR_INGEST__ARRAY_INT64, WEIR_NUMERICAL},  {WEIR_INGEST__ARRAY_MICROS, WEIR_TIMESTAMP},
                 {WEIR_INGEST__ARRAY_BITS, WEIR_BOOLEAN},     {WEIR_INGEST__ARRAY_TEXT32, WEIR_CATEGORICAL},
                 {WEIR_INGEST__ARRAY_INT64, WEIR_IDENTIFIER}};
    random_stream random = {21};
    (void)state;
    for (uint32_t i = 0; i < CASES * sizeof kinds / sizeof *kinds; i++) {
        static made_array made;
        static made_part part;
        weir_stype stype = kinds[i % (sizeof kinds / sizeof *kinds)].stype;
        uint64_t nulls = 0, not_finite = 0;
        make_array(&random, kinds[i % (sizeof kinds / sizeof *kinds)].form, makes(&random, 2), &made);
        store(&part, stype, &made);
        for (uint32_t row = 0; row < made.count; row++) {
            weir_ingest__value value;
            weir_ingest__array_value(&made.array, row, &value);
            assert_stored(&part, stype, &value, row, &nulls, &not_finite);
        }
        assert_int_equal(part.column.nulls, nulls);
        assert_int_equal(part.column.not_finite, not_finite);
        release(&part, &made);
    }
}

/* Only the two ends of int64 are no times. */
static void times_at_the_ends(void **state) {
    static const int64_t fine[] = {INT64_MIN + 1, INT64_MAX - 1, -1, 0, 1}, wrong[] = {INT64_MIN, INT64_MAX};
    (void)state;
    for (uint32_t i = 0; i < 5 * 2; i++) {
        int64_t times[] = {0, fine[i % 5], fine[i % 5], 7, 8};
        static made_part p;
        made_array made = {.count = 5};
        made.array = (weir_ingest__array){.form = WEIR_INGEST__ARRAY_MICROS, .values = (const char *)times};
        store(&p, WEIR_TIMESTAMP, &made);
        release(&p, &made);
        times[i / 2] = wrong[i % 2];
        assert_false(weir_ingest__array_store(&p.part, 0, WEIR_TIMESTAMP, &made.array, 0, made.count));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_those_of_cells),
        cmocka_unit_test(times_at_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
