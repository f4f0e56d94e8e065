/* Times by patterns, units, and the doubts about integers whose unit nobody said. */
#include <string.h>

#include "ingest/convert.h"
#include "support/testing.h"

#define SECOND INT64_C(1000000)

typedef struct time_case {
    const char *pattern;
    const char *text;
    int64_t micros; /* INT64_MIN: does not fit */
} time_case;

static void patterns_read_what_they_say(void **state) {
    (void)state;
    const int64_t day = 15706 * 86400 * SECOND; /* 2013-01-01 */
    const time_case cases[] = {
        {"%d/%m/%Y", "01/02/2013", day + 31 * 86400 * SECOND},
        {"%m/%d/%Y", "01/02/2013", day + 86400 * SECOND},
        {"%d/%m/%Y", "1/2/2013", day + 31 * 86400 * SECOND},
        {"%d/%m/%Y", "31/02/2013", INT64_MIN},
        {"%d/%m/%Y", "01/13/2013", INT64_MIN},
        {"%d/%m/%Y", "01/02/2013 ", INT64_MIN},
        {"%d/%m/%Y", "01/02/13", INT64_MIN},
        {"%Y%m%d", "20130102", day + 86400 * SECOND},
        {"%Y%m%d", "2013012", INT64_MIN},
        {"%Y%j", "2013002", day + 86400 * SECOND},
        {"%Y%j", "2013366", INT64_MIN},
        {"%Y%j", "2013000", INT64_MIN},
        {"%Y%j", "2012366", day - 86400 * SECOND},
        {"%d.%m.%y", "1.1.13", day},
        {"%d.%m.%y", "1.1.69", -365 * 86400 * SECOND},
        {"%d.%m.%y", "1.1.68", 35794 * (86400 * SECOND)},
        {"%d-%b-%Y", "01-JAN-2013", day},
        {"%d %B %Y", "1 January 2013", day},
        {"%b %d, %Y", "January 1, 2013", day},
        {"%a %b %d %H:%M:%S %z %Y", "Tue Jan 01 02:00:00 +0200 2013", day},
        {"%Y-%m-%dT%H:%M:%S.%f%z", "2013-01-01T00:00:00.123456789Z", day + 123456},
        {"%Y-%m-%d %H:%M:%S.%f", "2013-01-01 00:00:00.5", day + 500000},
        {"%Y-%m-%d %H:%M:%S %z", "2013-01-01 05:30:00 +05:30", day},
        {"%Y-%m-%d %H:%M:%S %z", "2013-01-01 00:00:00 UTC", day},
        {"%m/%d/%Y %I:%M %p", "01/01/2013 12:30 AM", day + 1800 * SECOND},
        {"%m/%d/%Y %I:%M %p", "01/01/2013 12:30 pm", day + 45000 * SECOND},
        {"%m/%d/%Y %I:%M %p", "01/01/2013 13:30 PM", INT64_MIN},
        {"%m/%d/%Y %I:%M %p", "01/01/2013 0:30 AM", INT64_MIN},
        {"%Y", "2013", day},
        {"%Y-%m", "2013-1", day},
        {"100%% %Y", "100% 2013", day},
        {"%Y", "", INT64_MIN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_ingest__time_format format;
        int64_t micros = INT64_MIN;
        const char *wrong =
            weir_ingest__time_format_compile(cases[i].pattern, strlen(cases[i].pattern), &format);
        if (wrong)
            fail_msg("%s: %s", cases[i].pattern, wrong);
        bool fits = weir_ingest__time_format_read(&format, cases[i].text, strlen(cases[i].text), &micros);
        if (fits != (cases[i].micros != INT64_MIN) || (fits && micros != cases[i].micros))
            fail_msg("%s as %s is %lld", cases[i].text, cases[i].pattern, (long long)micros);
    }
}

static void patterns_are_checked(void **state) {
    (void)state;
    const char *const wrong[] = {"",
                                 "%d/%m",
                                 "%d %Y",
                                 "%Y %y",
                                 "%Y %j %m",
                                 "%Y %I",
                                 "%Y %p",
                                 "%Y %q",
                                 "%Y %",
                                 "%Y-%m-%d %H:%M:%S.%f%z %a %Y",
                                 "%Y 123456789 123456789 123456789 123456789 123456789 123456789 123"};
    weir_ingest__time_format format;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (!weir_ingest__time_format_compile(wrong[i], strlen(wrong[i]), &format))
            fail_msg("'%s' is a pattern", wrong[i]);
}

static weir_ingest__fit fit_of(weir_ingest__value value, weir_ingest__time_form form, int64_t *micros) {
    return weir_ingest__to_time(&value, &form, NULL, micros);
}

static void assert_time(weir_ingest__value value, weir_ingest__unit unit, int64_t expected) {
    int64_t micros;
    weir_ingest__time_form form = {.unit = unit, .says_unit = true};
    assert_int_equal(fit_of(value, form, &micros), WEIR_INGEST__FITS);
    assert_true(micros == expected);
}

static void units_count(void **state) {
    (void)state;
    weir_ingest__value integer = {.type = WEIR_INGEST__INT, .integer = 1357000000};
    assert_time(integer, WEIR_INGEST__SECONDS, 1357000000 * SECOND);
    assert_time(integer, WEIR_INGEST__MILLISECONDS, 1357000000 * INT64_C(1000));
    assert_time(integer, WEIR_INGEST__MICROSECONDS, 1357000000);
    assert_time(integer, WEIR_INGEST__NANOSECONDS, 1357000);
    assert_time((weir_ingest__value){.type = WEIR_INGEST__INT, .integer = -1}, WEIR_INGEST__NANOSECONDS, -1);
    assert_time((weir_ingest__value){.type = WEIR_INGEST__INT, .integer = -1000}, WEIR_INGEST__NANOSECONDS,
                -1);
    assert_time((weir_ingest__value){.type = WEIR_INGEST__REAL, .real = 1357000000.0}, WEIR_INGEST__SECONDS,
                1357000000 * SECOND);
    int64_t micros;
    weir_ingest__time_form seconds = {.says_unit = true}, nothing = {0};
    weir_ingest__value fraction = {.type = WEIR_INGEST__REAL, .real = 1.5},
                       huge = {.type = WEIR_INGEST__REAL, .real = 0x1p63};
    weir_ingest__value whole = {.type = WEIR_INGEST__REAL, .real = 1.0};
    assert_int_equal(fit_of(fraction, seconds, &micros), WEIR_INGEST__UNFIT);
    assert_int_equal(fit_of(huge, seconds, &micros), WEIR_INGEST__UNFIT);
    assert_int_equal(fit_of(whole, nothing, &micros), WEIR_INGEST__UNFIT);
}

static void digits_are_text_for_a_pattern(void **state) {
    (void)state;
    weir_ingest__time_format format;
    weir_ingest__time_form form = {.format = &format};
    int64_t micros;
    assert_null(weir_ingest__time_format_compile("%Y%m%d", 6, &format));
    assert_int_equal(
        fit_of((weir_ingest__value){.type = WEIR_INGEST__INT, .integer = 20130101}, form, &micros),
        WEIR_INGEST__FITS);
    assert_true(micros == 15706 * 86400 * SECOND);
    assert_int_equal(
        fit_of((weir_ingest__value){.type = WEIR_INGEST__REAL, .real = 20130101.0}, form, &micros),
        WEIR_INGEST__FITS);
    assert_int_equal(fit_of((weir_ingest__value){.type = WEIR_INGEST__NULL}, form, &micros),
                     WEIR_INGEST__IS_NULL);
    assert_int_equal(
        fit_of((weir_ingest__value){.type = WEIR_INGEST__TEXT, .text = {"2013-01-01", 10}}, form, &micros),
        WEIR_INGEST__UNFIT);
    assert_int_equal(
        fit_of((weir_ingest__value){.type = WEIR_INGEST__TIMESTAMP, .integer = 5}, form, &micros),
        WEIR_INGEST__FITS);
    assert_true(micros == 5);
    assert_int_equal(
        fit_of((weir_ingest__value){.type = WEIR_INGEST__BLOB, .text = {"20130101", 8}}, form, &micros),
        WEIR_INGEST__UNFIT);
}

static const char *doubt(int64_t least, int64_t most) {
    weir_ingest__unsaid unsaid = {0};
    weir_ingest__time_form form = {.unit = WEIR_INGEST__SECONDS};
    const int64_t values[] = {most, least};
    for (int i = 0; i < 2; i++) {
        int64_t micros;
        weir_ingest__value value = {.type = WEIR_INGEST__INT, .integer = values[i]};
        (void)weir_ingest__to_time(&value, &form, &unsaid, &micros);
    }
    return weir_ingest__unsaid_doubt(&unsaid);
}

static void integers_without_a_unit_are_doubted(void **state) {
    (void)state;
    assert_null(weir_ingest__unsaid_doubt(&(weir_ingest__unsaid){0}));
    assert_null(doubt(1357000000, 1400000000));
    assert_null(doubt(0, 253402300799)); /* a last day of 9999 stands for "never" in many databases */
    assert_non_null(strstr(doubt(20130101, 20131231), "%Y%m%d"));
    assert_non_null(strstr(doubt(1357000000000, 1400000000000), "\"ms\""));
    assert_non_null(strstr(doubt(1357000000000000, 1400000000000000), "\"us\""));
    assert_non_null(strstr(doubt(1357000000000000000, 1400000000000000000), "\"ns\""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_read_what_they_say),
        cmocka_unit_test(patterns_are_checked),
        cmocka_unit_test(units_count),
        cmocka_unit_test(digits_are_text_for_a_pattern),
        cmocka_unit_test(integers_without_a_unit_are_doubted),
    };
    return cmocka_run_group_tests_name("time_format", tests, NULL, NULL);
}
