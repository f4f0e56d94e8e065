/* Timestamps: ISO 8601 text to microseconds and back, and the floats that a batch delivers (calendar.h). */
#include <stdio.h>

#include "base/ascii.h"
#include "base/floating.h"
#include "base/internal.h"
#include "store/format.h"
#include "store/timestamp.h"
#include "weir/store.h"
#include "weir_tool/store_tools.h"

#include "store/calendar.h"

/* ---- The calendar ---------------------------------------------------------------------------- */

int weir_store__days_in_month(int64_t year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && is_leap ? 29 : days[month - 1];
}

/* Years are counted from March, so that the leap day is a year's last: 153 days are five months then. */
int64_t weir_store__days_from_civil(int64_t year, int month, int day) {
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t month_from_march = (month + 9) % 12;
    int64_t day_of_march_year = (153 * month_from_march + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_march_year;
    return era * DAYS_PER_ERA + day_of_era - 719468;
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* Exactly `count` digits. */
static bool read_digits(const char **at, const char *end, int count, int *out) {
    int value = 0;
    if (end - *at < count)
        return false;
    for (int i = 0; i < count; i++) {
        char c = (*at)[i];
        if (c < '0' || c > '9')
            return false;
        value = value * 10 + (c - '0');
    }
    *at += count;
    *out = value;
    return true;
}

static bool skip_char(const char **at, const char *end, char c) {
    if (*at == end || **at != c)
        return false;
    ++*at;
    return true;
}

static bool read_date(const char **at, const char *end, int64_t *days) {
    int year, month, day;
    if (!read_digits(at, end, 4, &year) || !skip_char(at, end, '-') || !read_digits(at, end, 2, &month) ||
        !skip_char(at, end, '-') || !read_digits(at, end, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > weir_store__days_in_month(year, month))
        return false;
    *days = weir_store__days_from_civil(year, month, day);
    return true;
}

/* One to six decimals, as microseconds. */
static bool read_decimals(const char **at, const char *end, int *micros) {
    int value = 0;
    int digits = 0;
    for (; *at < end && weir__is_digit(**at); ++*at) {
        if (++digits > 6)
            return false;
        value = value * 10 + (**at - '0');
    }
    for (int i = digits; i < 6; i++)
        value *= 10;
    *micros = value;
    return digits > 0;
}

/* HH:MM, then optional :SS, then optional decimals. */
static bool read_time(const char **at, const char *end, int64_t *micros) {
    int hour, minute, second = 0, fraction = 0;
    if (!read_digits(at, end, 2, &hour) || !skip_char(at, end, ':') || !read_digits(at, end, 2, &minute))
        return false;
    if (skip_char(at, end, ':')) {
        if (!read_digits(at, end, 2, &second))
            return false;
        if (skip_char(at, end, '.') && !read_decimals(at, end, &fraction))
            return false;
    }
    if (hour > 23 || minute > 59 || second > 59)
        return false;
    *micros = (int64_t)((hour * 60 + minute) * 60 + second) * MICROS_PER_SECOND + fraction;
    return true;
}

/* Nothing, Z, +05, +0530 or +05:30. */
static bool read_offset(const char **at, const char *end, int64_t *micros) {
    int hours, minutes = 0;
    *micros = 0;
    if (*at == end || skip_char(at, end, 'Z'))
        return true;
    bool is_negative = **at == '-';
    if (!is_negative && **at != '+')
        return false;
    ++*at;
    if (!read_digits(at, end, 2, &hours))
        return false;
    if (*at < end) {
        (void)skip_char(at, end, ':');
        if (!read_digits(at, end, 2, &minutes))
            return false;
    }
    if (hours > 23 || minutes > 59)
        return false;
    *micros = (int64_t)(hours * 60 + minutes) * 60 * MICROS_PER_SECOND * (is_negative ? -1 : 1);
    return true;
}

bool weir_timestamp_parse(const char *text, size_t size, int64_t *micros) {
    const char *at = text;
    const char *end = text + size;
    int64_t days, of_day = 0, offset = 0;
    if (!read_date(&at, end, &days))
        return false;
    if (at < end) {
        if (*at != 'T' && *at != ' ')
            return false;
        at++;
        if (!read_time(&at, end, &of_day) || !read_offset(&at, end, &offset))
            return false;
    }
    if (at != end)
        return false;
    *micros = days * SECONDS_PER_DAY * MICROS_PER_SECOND + of_day - offset;
    return true;
}

void weir_timestamp_format(int64_t micros, char out[40]) {
    int of_day, fraction = WEIR__NARROW(int, micros % MICROS_PER_SECOND);
    civil_date date = civil_from_days(split_day(micros, &of_day));
    if (fraction < 0) /* before 1970 */
        fraction += MICROS_PER_SECOND;
    int size = snprintf(out, 40, "%04lld-%02d-%02dT%02d:%02d:%02d", (long long)date.year, date.month,
                        date.day, of_day / 3600, of_day / 60 % 60, of_day % 60);
    if (fraction != 0) {
        size += snprintf(out + size, (size_t)(40 - size), ".%06d", fraction);
        while (out[size - 1] == '0')
            size--;
    }
    out[size] = 'Z';
    out[size + 1] = 0;
}

/* ---- Floats ---------------------------------------------------------------------------------- */

static __attribute__((noinline)) float normalise(double value, const weir_statistics *statistics) {
    return normalised(value, statistics->mean, statistics->std);
}

float weir_normalise(double value, const weir_statistics *statistics) {
    weir__floating kept = weir__enter_floating();
    float result = normalise(value, statistics);
    weir__leave_floating(&kept);
    return result;
}

static __attribute__((noinline)) void write_floats(int64_t micros, const weir_statistics *statistics,
                                                   float out[WEIR_TIMESTAMP_FLOATS]) {
    time_cycles cycles = cycles_of(micros);
    for (uint32_t i = 0; i < CYCLES; i++) {
        out[2 * i] = cycles.of[i][0];
        out[2 * i + 1] = cycles.of[i][1];
    }
    out[2 * CYCLES] = normalise((double)micros, statistics);
}

void weir_timestamp_floats(int64_t micros, const weir_statistics *statistics,
                           float out[WEIR_TIMESTAMP_FLOATS]) {
    weir__floating kept = weir__enter_floating();
    write_floats(micros, statistics, out);
    weir__leave_floating(&kept);
}
