/* SQL text, secrets in messages, and exact numbers. */
#include <math.h>
#include <string.h>

#include "ingest/decimal.h"
#include "ingest/sql.h"
#include "support/testing.h"

static void quotes_are_doubled(void **state) {
    (void)state;
    weir_ingest__sql sql = {.env = weir_env_default()};
    weir_ingest__sql_add(&sql, "SELECT %d, ", 7);
    weir_ingest__sql_add_identifier(&sql, "a\"b'c");
    weir_ingest__sql_add_literal(&sql, "a\"b'c");
    weir_ingest__sql_add_text(&sql, ";x", 1);
    assert_false(sql.failed);
    assert_string_equal(sql.data, "SELECT 7, \"a\"\"b'c\"'a\"b''c';");
    assert_int_equal(sql.size, strlen(sql.data));
    weir_ingest__sql_release(&sql);
}

static void a_failed_allocation_sticks(void **state) {
    (void)state;
    fault_env faults;
    fault_env_init(&faults);
    faults.kind = FAULT_MEMORY;
    faults.fail_at = 1;
    weir_ingest__sql sql = {.env = &faults.env};
    weir_ingest__sql_add(&sql, "lost");
    weir_ingest__sql_add(&sql, "lost too");
    assert_true(sql.failed);
    assert_int_equal(sql.size, 0);
    weir_ingest__sql_release(&sql);
    assert_int_equal(faults.live_allocations, 0);
}

static void statements_are_trimmed(void **state) {
    (void)state;
    assert_int_equal(weir_ingest__sql_trimmed_size("SELECT 1 ; ;\n\t"), 8);
    assert_int_equal(weir_ingest__sql_trimmed_size(" ;; "), 0);
    assert_int_equal(weir_ingest__sql_trimmed_size("SELECT 1; -- it's; done\n/* a\n; */ "), 8);
    assert_int_equal(weir_ingest__sql_trimmed_size("SELECT '; --';"), 13);
    assert_int_equal(weir_ingest__sql_trimmed_size("SELECT \"a\"\"-- \" ;"), 15);
    assert_int_equal(weir_ingest__sql_trimmed_size("SELECT 1 - 2 / 3"), 16);
    assert_int_equal(weir_ingest__sql_trimmed_size("SELECT 'x; "), 11);
    assert_int_equal(weir_ingest__sql_trimmed_size(""), 0);
}

static void messages_become_one_line(void **state) {
    (void)state;
    char out[12];
    weir__one_line("a\nb\r\n  \n", out, sizeof out);
    assert_string_equal(out, "a b ");
    weir__one_line("0123456789abcdef", out, sizeof out);
    assert_string_equal(out, "0123456789a");
}

static void secrets_are_replaced(void **state) {
    (void)state;
    char text[24] = "key sk-12 and sk-12.";
    weir__redact(text, sizeof text, "sk-12", 5);
    assert_string_equal(text, "key *** and ***.");
    weir__redact(text, sizeof text, "", 0);
    assert_string_equal(text, "key *** and ***.");
    /* A mask longer than the secret pushes the end out of the buffer, never past it. */
    char full[8] = "abababa";
    weir__redact(full, sizeof full, "b", 1);
    assert_string_equal(full, "a***a**");
    char tight[3] = "xx";
    weir__redact(tight, sizeof tight, "x", 1);
    assert_string_equal(tight, "**");
}

static void assert_integer(const weir_ingest__value *value, int64_t expected) {
    assert_int_equal(value->type, WEIR_INGEST__INT);
    assert_true(value->integer == expected);
}

static void assert_real(const weir_ingest__value *value, double expected) {
    assert_int_equal(value->type, WEIR_INGEST__REAL);
    assert_true(value->real == expected);
}

static void decimals_that_are_integers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {{"0", 0},
                 {"-0.000", 0},
                 {"19.00", 19},
                 {"-7", -7},
                 {"9223372036854775807", INT64_MAX},
                 {"-9223372036854775808.0", INT64_MIN},
                 {"000012", 12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_ingest__value value;
        assert_true(weir_ingest__decimal_value(cases[i].text, strlen(cases[i].text), &value));
        assert_integer(&value, cases[i].value);
    }
}

static void decimals_that_are_not(void **state) {
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"19.5", 19.5},
                 {"-0.01", -0.01},
                 {"9223372036854775808", 9223372036854775808.0},
                 {"-9223372036854775809", -9223372036854775808.0},
                 {"0.1000000000000000055511151231257827021181583404541015625", 0.1},
                 {"9007199254740992.9999999999999999999", 9007199254740992.0},
                 {"Infinity", INFINITY},
                 {"-Infinity", -INFINITY}};
    weir_ingest__value value;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(weir_ingest__decimal_value(cases[i].text, strlen(cases[i].text), &value));
        assert_real(&value, cases[i].value);
    }
    assert_true(weir_ingest__decimal_value("NaN", 3, &value) && isnan(value.real));
    assert_false(weir_ingest__decimal_value("", 0, &value));
    assert_false(weir_ingest__decimal_value("1.2.3", 5, &value));
    assert_false(weir_ingest__decimal_value("12a", 3, &value));
}

static void scaled_numbers(void **state) {
    (void)state;
    weir_ingest__value value;
    weir_ingest__scaled_value(1950, 2, &value);
    assert_real(&value, 19.5);
    weir_ingest__scaled_value(-1900, 2, &value);
    assert_integer(&value, -19);
    weir_ingest__scaled_value(0, 38, &value);
    assert_integer(&value, 0);
    weir_ingest__scaled_value(INT64_MIN, 0, &value);
    assert_integer(&value, INT64_MIN);
    weir_ingest__scaled_value((__int128)INT64_MIN - 1, 0, &value);
    assert_real(&value, -9223372036854775808.0);
    weir_ingest__scaled_value((__int128)1 << 126, 38, &value);
    assert_real(&value, 0.85070591730234615865843651857942052864);
    __int128 smallest = (__int128)((unsigned __int128)1 << 127);
    weir_ingest__scaled_value(smallest, 0, &value);
    assert_real(&value, -0x1p127);
    weir_ingest__unsigned_value(UINT64_MAX, &value);
    assert_real(&value, 0x1p64);
    weir_ingest__unsigned_value(~(unsigned __int128)0, &value);
    assert_real(&value, 0x1p128);
    weir_ingest__unsigned_value(INT64_MAX, &value);
    assert_integer(&value, INT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotes_are_doubled),     cmocka_unit_test(a_failed_allocation_sticks),
        cmocka_unit_test(statements_are_trimmed), cmocka_unit_test(messages_become_one_line),
        cmocka_unit_test(secrets_are_replaced),   cmocka_unit_test(decimals_that_are_integers),
        cmocka_unit_test(decimals_that_are_not),  cmocka_unit_test(scaled_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
