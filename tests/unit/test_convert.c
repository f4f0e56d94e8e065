/* Values: timestamps and embeddings against the vectors, numbers against the C library. */
#include <locale.h>
#include <math.h>

#include "support/testing.h"

#include "base/bytes.h"
#include "ingest/convert.h"
#include "ingest/embed.h"

static weir_ingest__value text_value(const char *text) {
    return (weir_ingest__value){.type = WEIR_INGEST__TEXT, .text = {text, strlen(text)}};
}

static weir_ingest__unit unit_of(const char *name) {
    return strcmp(name, "s") == 0    ? WEIR_INGEST__SECONDS
           : strcmp(name, "ms") == 0 ? WEIR_INGEST__MILLISECONDS
                                     : WEIR_INGEST__MICROSECONDS;
}

static void timestamps_are_those_of_the_vectors(void **state) {
    (void)state;
    json_t *vectors = load_vectors("timestamps.json");
    size_t index;
    json_t *one;
    json_array_foreach(member(vectors, "cases"), index, one) {
        int64_t micros = 0;
        weir_ingest__value value = {.type = WEIR_INGEST__INT};
        weir_ingest__unit unit = WEIR_INGEST__SECONDS;
        json_t *text = json_object_get(one, "text");
        if (text) {
            value = text_value(json_string_value(text));
        } else {
            value.integer = json_integer_value(member(one, "integer"));
            unit = unit_of(member_text(one, "unit"));
        }
        assert_int_equal(weir_ingest__to_timestamp(&value, unit, &micros), WEIR_INGEST__FITS);
        assert_int_equal(micros, json_integer_value(member(one, "micros")));
        weir_statistics statistics = {.mean = 0, .std = 1};
        float floats[WEIR_TIMESTAMP_FLOATS];
        uint8_t bytes[14 * 4];
        weir_timestamp_floats(micros, &statistics, floats);
        for (int i = 0; i < 14; i++) {
            uint32_t bits;
            memcpy(&bits, &floats[i], 4);
            weir__store32(bytes + 4 * i, bits);
        }
        assert_hex_equal(bytes, sizeof bytes, member_text(one, "cyclic"));
        assert_true(floats[14] == (float)micros);
    }
    json_array_foreach(member(vectors, "invalid"), index, one) {
        int64_t micros;
        assert_false(weir_timestamp_parse(json_string_value(one), json_string_length(one), &micros));
    }
    json_decref(vectors);
}

static void timestamps_read_back_what_is_written(void **state) {
    (void)state;
    random_stream stream = {7};
    for (int i = 0; i < 100000; i++) {
        int64_t micros = (int64_t)random_below(&stream, 315569520000000000u) - 62167219200000000;
        int64_t again;
        char text[40];
        weir_timestamp_format(micros, text);
        assert_true(weir_timestamp_parse(text, strlen(text), &again));
        assert_int_equal(again, micros);
    }
}

static void extremes_do_not_fit_a_timestamp(void **state) {
    (void)state;
    int64_t out;
    const int64_t unfit[] = {INT64_MAX, INT64_MIN};
    for (int i = 0; i < 2; i++) {
        weir_ingest__value value = {.type = WEIR_INGEST__INT, .integer = unfit[i]};
        assert_int_equal(weir_ingest__to_timestamp(&value, WEIR_INGEST__MICROSECONDS, &out),
                         WEIR_INGEST__UNFIT);
        value.integer = unfit[i] / 1000;
        assert_int_equal(weir_ingest__to_timestamp(&value, WEIR_INGEST__SECONDS, &out), WEIR_INGEST__UNFIT);
    }
    weir_ingest__value largest = {.type = WEIR_INGEST__INT, .integer = INT64_MAX - 1};
    assert_int_equal(weir_ingest__to_timestamp(&largest, WEIR_INGEST__MICROSECONDS, &out), WEIR_INGEST__FITS);
    float floats[WEIR_TIMESTAMP_FLOATS];
    weir_statistics statistics = {.mean = 0, .std = 1};
    weir_timestamp_floats(INT64_MAX - 1, &statistics, floats);
    weir_timestamp_floats(INT64_MIN + 1, &statistics, floats);
    weir_ingest__value real = {.type = WEIR_INGEST__REAL, .real = 1.0};
    assert_int_equal(weir_ingest__to_timestamp(&real, WEIR_INGEST__SECONDS, &out), WEIR_INGEST__UNFIT);
}

static void embeddings_are_those_of_the_vectors(void **state) {
    (void)state;
    json_t *vectors = load_vectors("hash_embed.json");
    size_t index;
    json_t *one;
    json_array_foreach(member(vectors, "cases"), index, one) {
        static int32_t sums[4096];
        static uint16_t vector[4096];
        static uint8_t bytes[8192];
        uint32_t dim = (uint32_t)member_uint(one, "dim");
        json_t *text = member(one, "text");
        assert_true(dim <= 4096);
        weir_ingest__hash_v1(json_string_value(text), json_string_length(text), dim, sums, vector);
        for (uint32_t i = 0; i < dim; i++)
            weir__store16(bytes + 2 * i, vector[i]);
        assert_hex_equal(bytes, 2 * (size_t)dim, member_text(one, "f16"));
    }
    json_decref(vectors);
}

static void halves_round_once_to_even(void **state) {
    (void)state;
    const struct {
        double value;
        uint16_t half;
    } cases[] = {{0, 0},
                 {-0.0, 0x8000},
                 {1, 0x3C00},
                 {-2, 0xC000},
                 {65504, 0x7BFF},
                 {65519.999, 0x7BFF},
                 {1e300, 0x7BFF},
                 {1 + 0x1p-11, 0x3C00},
                 {1 + 0x1p-11 + 0x1p-40, 0x3C01},
                 {1 + 3 * 0x1p-11, 0x3C02},
                 {0x1p-14, 0x0400},
                 {0x1p-24, 0x0001},
                 {0x1p-25, 0x0000},
                 {0x1p-25 + 0x1p-60, 0x0001},
                 {3 * 0x1p-25, 0x0002},
                 {0x1p-14 - 0x1p-26, 0x0400}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(weir_ingest__half_from_double(cases[i].value), cases[i].half);
}

static void assert_reads(const char *text) {
    double expected = strtod(text, NULL), given;
    assert_true(weir_ingest__parse_real(text, strlen(text), &given));
    assert_memory_equal(&given, &expected, sizeof given);
}

static void numbers_are_read_correctly_rounded(void **state) {
    (void)state;
    const char *const hard[] = {
        "0",
        "-0",
        "+1",
        "1.",
        ".5",
        "-.5e-3",
        "1e22",
        "1e23",
        "123456789012345678",
        "9007199254740993",
        "2.2250738585072011e-308",
        "4.9e-324",
        "2.4703282292062327208e-324",
        "1.7976931348623157e308",
        "1e309",
        "0.000000000000000000000000000000000000000000001",
        "100000000000000000000000000000000000000",
        "00000000000000000000000000000000000001.5",
        "8.5e+01",
        "1e-400",
        "179769313486231580793e289",
        "0.1000000000000000055511151231257827021181583404541015625",
        "0.10000000000000000555111512312578270211815834045410156250000000000000000000000000000001"};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        assert_reads(hard[i]);
    random_stream stream = {1};
    for (int i = 0; i < 200000; i++) {
        char text[80];
        uint64_t bits = random_next(&stream);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        snprintf(text, sizeof text, "%.*e", (int)random_below(&stream, 20), value);
        assert_reads(text);
        snprintf(text, sizeof text, "%.*f", (int)random_below(&stream, 12),
                 (double)(int64_t)random_below(&stream, 1000000000000u) / 1000.0);
        assert_reads(text);
    }
}

/* 900 digits whose last one decides the rounding. */
static void a_very_long_number_is_read_to_its_last_digit(void **state) {
    (void)state;
    char text[1100];
    double above, exact;
    int size = snprintf(text, sizeof text, "9007199254740993.");
    memset(text + size, '0', 1000);
    text[size + 1000] = 0;
    assert_true(weir_ingest__parse_real(text, strlen(text), &exact));
    assert_true(exact == 9007199254740992.0);
    text[size + 999] = '1';
    assert_true(weir_ingest__parse_real(text, strlen(text), &above));
    assert_true(above == 9007199254740994.0);
}

static void what_is_no_number_is_refused(void **state) {
    (void)state;
    const char *const bad[] = {"",     " 1",  "1 ",  "0x10", "1e",   "1e+", "e5",   ".",    "+",   "--1",
                               "1..2", "1,5", "1_0", "nanx", "infi", "١",   "1e5e", "1e5.", "+-1", "1f"};
    double out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(weir_ingest__parse_real(bad[i], strlen(bad[i]), &out));
    const char *const special[] = {"nan", "NaN", "-nan", "inf", "-Infinity", "+INF", "1e999"};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        weir_ingest__value value = text_value(special[i]);
        assert_int_equal(weir_ingest__to_number(&value, &out), WEIR_INGEST__NOT_FINITE);
    }
}

static void reals_have_the_shortest_exact_text(void **state) {
    (void)state;
    const struct {
        double value;
        const char *text;
    } cases[] = {{10, "1e+01"},
                 {0.1, "0.1"},
                 {-0.5, "-0.5"},
                 {1e21, "1e+21"},
                 {12345678.9, "12345678.9"},
                 {1e-7, "1e-07"},
                 {2.5, "2.5"},
                 {0, "0"},
                 {-0.0, "-0"},
                 {5e-324, "5e-324"},
                 {1.0 / 3, "0.3333333333333333"},
                 {100, "1e+02"},
                 {123, "123"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[WEIR_INGEST__TEXT_FORM_SIZE];
        size_t size = weir_ingest__format_real(cases[i].value, text);
        assert_int_equal(size, strlen(cases[i].text));
        assert_string_equal(text, cases[i].text);
    }
}

static void booleans_in_any_case(void **state) {
    (void)state;
    bool out;
    const char *const yes[] = {"true", "TRUE", "t", "Yes", "1"};
    const char *const no[] = {"false", "F", "no", "0", "fAlSe"};
    const char *const neither[] = {"", "y", "n", "on", "off", "2", "01", "tru", " true"};
    for (size_t i = 0; i < 5; i++) {
        weir_ingest__value a = text_value(yes[i]), b = text_value(no[i]);
        assert_true(weir_ingest__to_boolean(&a, &out) == WEIR_INGEST__FITS && out);
        assert_true(weir_ingest__to_boolean(&b, &out) == WEIR_INGEST__FITS && !out);
    }
    for (size_t i = 0; i < sizeof neither / sizeof *neither; i++) {
        weir_ingest__value value = text_value(neither[i]);
        assert_int_equal(weir_ingest__to_boolean(&value, &out), WEIR_INGEST__UNFIT);
    }
    weir_ingest__value two = {.type = WEIR_INGEST__INT, .integer = 2};
    assert_int_equal(weir_ingest__to_boolean(&two, &out), WEIR_INGEST__UNFIT);
}

static void normalising_stays_finite(void **state) {
    (void)state;
    weir_statistics tiny = {.mean = 0, .std = 1e-300};
    assert_true(weir_normalise(1e300, &tiny) == 0x1.fffffep127f);
    assert_true(weir_normalise(-1e300, &tiny) == -0x1.fffffep127f);
    weir_statistics plain = {.mean = 0, .std = 1};
    assert_true(weir_normalise(0x1.ffffffp127, &plain) == 0x1.fffffep127f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timestamps_are_those_of_the_vectors),
        cmocka_unit_test(timestamps_read_back_what_is_written),
        cmocka_unit_test(extremes_do_not_fit_a_timestamp),
        cmocka_unit_test(embeddings_are_those_of_the_vectors),
        cmocka_unit_test(halves_round_once_to_even),
        cmocka_unit_test(numbers_are_read_correctly_rounded),
        cmocka_unit_test(a_very_long_number_is_read_to_its_last_digit),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(reals_have_the_shortest_exact_text),
        cmocka_unit_test(booleans_in_any_case),
        cmocka_unit_test(normalising_stays_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
