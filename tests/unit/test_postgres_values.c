/* PostgreSQL's binary forms, byte by byte, and what is refused; and that text forms give the same values. */
#include <math.h>
#include <string.h>

#include "support/testing.h"

#ifdef WEIR_WITHOUT_POSTGRES

int main(void) {
    return 0;
}

#else

#include "ingest/postgres.h"
#include "support/source_values.h"

/* Decodes hex bytes; asserts that they are refused or taken. */
static weir_ingest__value decode(weir_ingest__pg_form form, const char *hex) {
    static char uuid[WEIR_INGEST__PG_UUID_SIZE];
    weir_ingest__value value = {0};
    size_t size;
    uint8_t *bytes = bytes_of_hex(hex, &size);
    assert_null(weir_ingest__pg_decode_binary(form, (const char *)bytes, size, uuid, &value));
    return value;
}

static void refuse(weir_ingest__pg_form form, const char *hex, const char *reason) {
    char uuid[WEIR_INGEST__PG_UUID_SIZE];
    weir_ingest__value value;
    size_t size;
    uint8_t *bytes = bytes_of_hex(hex, &size);
    const char *fault = weir_ingest__pg_decode_binary(form, (const char *)bytes, size, uuid, &value);
    assert_non_null(fault);
    assert_non_null(strstr(fault, reason));
}

static weir_ingest__value read_text(weir_ingest__pg_form form, const char *text) {
    weir_ingest__value value = {0};
    assert_null(weir_ingest__pg_decode_text(form, text, strlen(text), &value));
    return value;
}

static void integers_and_floats(void **state) {
    (void)state;
    assert_integer(decode(WEIR_INGEST__PG_INT2, "8000"), WEIR_INGEST__INT, INT16_MIN);
    assert_integer(decode(WEIR_INGEST__PG_INT4, "ffffffff"), WEIR_INGEST__INT, -1);
    assert_integer(decode(WEIR_INGEST__PG_INT8, "7fffffffffffffff"), WEIR_INGEST__INT, INT64_MAX);
    assert_integer(decode(WEIR_INGEST__PG_OID, "ffffffff"), WEIR_INGEST__INT, UINT32_MAX);
    assert_integer(decode(WEIR_INGEST__PG_BOOL, "01"), WEIR_INGEST__BOOL, 1);
    assert_real(decode(WEIR_INGEST__PG_FLOAT4, "3dcccccd"), (double)0.1F);
    assert_real(decode(WEIR_INGEST__PG_FLOAT8, "8000000000000000"), -0.0);
    assert_real(decode(WEIR_INGEST__PG_FLOAT8, "7ff0000000000000"), INFINITY);
    refuse(WEIR_INGEST__PG_INT4, "0000", "form");
    refuse(WEIR_INGEST__PG_BOOL, "", "form");
    refuse(WEIR_INGEST__PG_UUID, "00", "form");
}

/* Digit count, weight, sign, scale, digits to the base 10000. */
static void numerics(void **state) {
    (void)state;
    assert_integer(decode(WEIR_INGEST__PG_NUMERIC, "0000000000000000"), WEIR_INGEST__INT, 0);
    assert_integer(decode(WEIR_INGEST__PG_NUMERIC, "0001000000000002"
                                                   "0013"),
                   WEIR_INGEST__INT, 19);
    assert_integer(decode(WEIR_INGEST__PG_NUMERIC, "0001000240000000"
                                                   "0001"),
                   WEIR_INGEST__INT, -100000000);
    /* 123.45: 123, 4500 */
    assert_real(decode(WEIR_INGEST__PG_NUMERIC, "0002000000000004"
                                                "007b1194"),
                123.45);
    /* 0.0001 */
    assert_real(decode(WEIR_INGEST__PG_NUMERIC, "0001ffff00000004"
                                                "0001"),
                0.0001);
    /* 9223372036854775807 and the next: 922, 3372, 0368, 5477, 5807 */
    assert_integer(decode(WEIR_INGEST__PG_NUMERIC, "0005000400000000"
                                                   "039a0d2c0170156516af"),
                   WEIR_INGEST__INT, INT64_MAX);
    assert_real(decode(WEIR_INGEST__PG_NUMERIC, "0005000400000000"
                                                "039a0d2c0170156516b0"),
                0x1p63);
    assert_integer(decode(WEIR_INGEST__PG_NUMERIC, "0005000440000000"
                                                   "039a0d2c0170156516b0"),
                   WEIR_INGEST__INT, INT64_MIN);
    assert_true(isnan(decode(WEIR_INGEST__PG_NUMERIC, "00000000c0000000").real));
    assert_real(decode(WEIR_INGEST__PG_NUMERIC, "00000000d0000000"), INFINITY);
    assert_real(decode(WEIR_INGEST__PG_NUMERIC, "00000000f0000000"), -INFINITY);
    /* 10^4000 is beyond binary64 */
    assert_real(decode(WEIR_INGEST__PG_NUMERIC, "000103e800000000"
                                                "0001"),
                INFINITY);
    refuse(WEIR_INGEST__PG_NUMERIC, "00000000", "form");
    refuse(WEIR_INGEST__PG_NUMERIC,
           "0002000000000000"
           "0001",
           "form");
    refuse(WEIR_INGEST__PG_NUMERIC,
           "0001000000000000"
           "2710",
           "form");
    refuse(WEIR_INGEST__PG_NUMERIC, "0000000012340000", "form");
}

/* The point between two floats, told apart only by the 250th digit to the base 10000. */
static void a_numeric_of_many_digits_rounds_once(void **state) {
    (void)state;
    enum { DIGITS = 250 };
    uint8_t bytes[8 + 2 * DIGITS] = {0, DIGITS, 0, 4, 0, 0, 0, 0};
    static const uint16_t halfway[] = {0, 9007, 1992, 5474, 993}; /* 2^53 + 1 */
    for (size_t i = 0; i < 5; i++) {
        bytes[8 + 2 * i] = (uint8_t)(halfway[i] >> 8);
        bytes[9 + 2 * i] = (uint8_t)halfway[i];
    }
    weir_ingest__value value;
    assert_null(
        weir_ingest__pg_decode_binary(WEIR_INGEST__PG_NUMERIC, (char *)bytes, sizeof bytes, NULL, &value));
    assert_integer(value, WEIR_INGEST__INT, 9007199254740993);
    bytes[sizeof bytes - 1] = 1;
    assert_null(
        weir_ingest__pg_decode_binary(WEIR_INGEST__PG_NUMERIC, (char *)bytes, sizeof bytes, NULL, &value));
    assert_real(value, 9007199254740994.0);
}

static void times(void **state) {
    (void)state;
    assert_integer(decode(WEIR_INGEST__PG_DATE, "00000000"), WEIR_INGEST__TIMESTAMP, 946684800000000);
    assert_integer(decode(WEIR_INGEST__PG_DATE, "ffffd533"), WEIR_INGEST__TIMESTAMP, 0);
    assert_integer(decode(WEIR_INGEST__PG_TIMESTAMP, "fffca2fec4c81fff"), WEIR_INGEST__TIMESTAMP, -1);
    refuse(WEIR_INGEST__PG_DATE, "7fffffff", "infinite");
    refuse(WEIR_INGEST__PG_DATE, "80000000", "infinite");
    refuse(WEIR_INGEST__PG_DATE, "7ffffffe", "beyond");
    refuse(WEIR_INGEST__PG_TIMESTAMP, "7fffffffffffffff", "infinite");
    refuse(WEIR_INGEST__PG_TIMESTAMP, "8000000000000000", "infinite");
    refuse(WEIR_INGEST__PG_TIMESTAMP, "7ffffffffffffffe", "beyond");
}

static void texts(void **state) {
    (void)state;
    weir_ingest__value value = decode(WEIR_INGEST__PG_PADDED_TEXT, "20612020");
    assert_int_equal(value.text.size, 2);
    value = decode(WEIR_INGEST__PG_TEXT, "20612020");
    assert_int_equal(value.text.size, 4);
    value = decode(WEIR_INGEST__PG_BYTEA, "00ff");
    assert_int_equal(value.type, WEIR_INGEST__BLOB);
    value = decode(WEIR_INGEST__PG_UUID, "a0eebc999c0b4ef8bb6d6bb9bd380a11");
    assert_memory_equal(value.text.data, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", WEIR_INGEST__PG_UUID_SIZE);
}

static void text_forms(void **state) {
    (void)state;
    assert_integer(read_text(WEIR_INGEST__PG_BOOL, "t"), WEIR_INGEST__BOOL, 1);
    assert_integer(read_text(WEIR_INGEST__PG_INT8, "-9223372036854775808"), WEIR_INGEST__INT, INT64_MIN);
    assert_real(read_text(WEIR_INGEST__PG_FLOAT8, "0.1"), 0.1);
    assert_real(read_text(WEIR_INGEST__PG_FLOAT4, "0.1"), (double)0.1F);
    assert_real(read_text(WEIR_INGEST__PG_FLOAT8, "-Infinity"), -INFINITY);
    assert_integer(read_text(WEIR_INGEST__PG_NUMERIC, "19.00"), WEIR_INGEST__INT, 19);
    assert_integer(read_text(WEIR_INGEST__PG_DATE, "2000-01-01"), WEIR_INGEST__TIMESTAMP, 946684800000000);
    assert_integer(read_text(WEIR_INGEST__PG_TIMESTAMP, "1970-01-01 05:30:00.000001+05:30"),
                   WEIR_INGEST__TIMESTAMP, 1);
    weir_ingest__value value;
    assert_non_null(weir_ingest__pg_decode_text(WEIR_INGEST__PG_INT4, "1.5", 3, &value));
    assert_non_null(weir_ingest__pg_decode_text(WEIR_INGEST__PG_BOOL, "yes", 3, &value));
    assert_non_null(weir_ingest__pg_decode_text(WEIR_INGEST__PG_FLOAT8, "x", 1, &value));
    assert_non_null(
        strstr(weir_ingest__pg_decode_text(WEIR_INGEST__PG_TIMESTAMP, "infinity", 8, &value), "infinite"));
    assert_non_null(
        strstr(weir_ingest__pg_decode_text(WEIR_INGEST__PG_DATE, "0044-03-15 BC", 13, &value), "years"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(integers_and_floats),
                                       cmocka_unit_test(numerics),
                                       cmocka_unit_test(a_numeric_of_many_digits_rounds_once),
                                       cmocka_unit_test(times),
                                       cmocka_unit_test(texts),
                                       cmocka_unit_test(text_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
