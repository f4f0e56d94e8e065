/* Timestamps: ISO 8601 text to microseconds and back, and the floats that a batch delivers.
 *
 * The calendar is the proleptic Gregorian one, by days since 1970 in 64 bits, so that every int64 of
 * microseconds has a date. The cyclic floats come from tables of exact values; nothing here calls libm. */
#include <float.h>
#include <stdio.h>

#include "base/internal.h"
#include "store/format.h"
#include "store/timestamp.h"
#include "weir/store.h"

#include "store/cyclic_tables.h"

enum { DAYS_PER_ERA = 146097, SECONDS_PER_DAY = 86400 };
#define MICROS_PER_SECOND 1000000

/* ---- The calendar ---------------------------------------------------------------------------- */

typedef struct civil_date {
    int64_t year;
    int month;    /* 1 to 12 */
    int day;      /* 1 to 31 */
    int year_day; /* 0 to 365 */
} civil_date;

static bool is_leap(int64_t year) {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_in_month(int64_t year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return month == 2 && is_leap(year) ? 29 : days[month - 1];
}

static const int days_before_month[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};

static int day_of_year(int64_t year, int month, int day) {
    return days_before_month[month - 1] + (month > 2 && is_leap(year) ? 1 : 0) + day - 1;
}

/* Years are counted from March, so that the leap day is a year's last: 153 days are five months then. */
static int64_t days_from_civil(int64_t year, int month, int day) {
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t month_from_march = (month + 9) % 12;
    int64_t day_of_march_year = (153 * month_from_march + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_march_year;
    return era * DAYS_PER_ERA + day_of_era - 719468;
}

static civil_date civil_from_days(int64_t days) {
    days += 719468;
    int64_t era = (days >= 0 ? days : days - (DAYS_PER_ERA - 1)) / DAYS_PER_ERA;
    int64_t day_of_era = days - era * DAYS_PER_ERA;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / (DAYS_PER_ERA - 1)) / 365;
    int64_t day_of_march_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month_from_march = (5 * day_of_march_year + 2) / 153;
    civil_date date;
    date.day = (int)(day_of_march_year - (153 * month_from_march + 2) / 5 + 1);
    date.month = (int)(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
    date.year = year_of_era + era * 400 + (date.month <= 2 ? 1 : 0);
    date.year_day = day_of_year(date.year, date.month, date.day);
    return date;
}

static int64_t floor_divide(int64_t value, int64_t by) {
    return value / by - (value % by < 0 ? 1 : 0);
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
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
        return false;
    *days = days_from_civil(year, month, day);
    return true;
}

/* One to six decimals, as microseconds. */
static bool read_decimals(const char **at, const char *end, int *micros) {
    int value = 0;
    int digits = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
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
    int64_t seconds = floor_divide(micros, MICROS_PER_SECOND);
    int fraction = (int)(micros - seconds * MICROS_PER_SECOND);
    int64_t days = floor_divide(seconds, SECONDS_PER_DAY);
    int of_day = (int)(seconds - days * SECONDS_PER_DAY);
    civil_date date = civil_from_days(days);
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

static inline void put_pair(float *out, const float pair[2]) {
    out[0] = pair[0];
    out[1] = pair[1];
}

void weir__clock_floats(int second_of_day, float out[WEIR__CLOCK_FLOATS]) {
    put_pair(out + 0, second_table[second_of_day % 60]);
    put_pair(out + 2, second_table[second_of_day / 60 % 60]);
    put_pair(out + 4, hour_table[second_of_day / 3600]);
}

void weir__date_floats(int64_t days, float out[WEIR__DATE_FLOATS]) {
    int64_t weekday = (days + 3) % 7; /* 1970-01-01 was a Thursday */
    civil_date date = civil_from_days(days);
    put_pair(out + 0, weekday_table[weekday < 0 ? weekday + 7 : weekday]);
    put_pair(out + 2, day_table[date.day - 1]);
    put_pair(out + 4, month_table[date.month - 1]);
    put_pair(out + 6, year_day_table[date.year_day]);
}

void weir_timestamp_floats(int64_t micros, const weir_statistics *statistics,
                           float out[WEIR_TIMESTAMP_FLOATS]) {
    int second_of_day;
    int64_t days = weir__split_day(micros, &second_of_day);
    weir__clock_floats(second_of_day, out);
    weir__date_floats(days, out + WEIR__CLOCK_FLOATS);
    out[14] = weir_normalise((double)micros, statistics);
}

float weir_normalise(double value, const weir_statistics *statistics) {
    double normalised = (value - statistics->mean) / statistics->std;
    float rounded = (float)normalised;
    if (rounded > FLT_MAX)
        return FLT_MAX;
    return rounded < -FLT_MAX ? -FLT_MAX : rounded;
}
