/* The calendar, and a timestamp's floats: what the host and a kernel on a device compute alike. Compiles as C
 * and as CUDA C; nothing here calls libm. Days are counted from 1970 in 64 bits, in the proleptic Gregorian
 * calendar, so that every int64 of microseconds has a date. */
#ifndef WEIR_SRC_STORE_CALENDAR_H
#define WEIR_SRC_STORE_CALENDAR_H

#include <stdbool.h>
#include <stdint.h>

#include "store/cyclic_tables.h"

enum { DAYS_PER_ERA = 146097, SECONDS_PER_DAY = 86400 };
#define MICROS_PER_SECOND 1000000
#define LARGEST_FLOAT     0x1.fffffep+127f

typedef struct civil_date {
    int64_t year;
    int month;    /* 1 to 12 */
    int day;      /* 1 to 31 */
    int year_day; /* 0 to 365 */
} civil_date;

static inline bool is_leap(int64_t year) {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static const int days_before_month[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};

static inline int day_of_year(int64_t year, int month, int day) {
    return days_before_month[month - 1] + (month > 2 && is_leap(year) ? 1 : 0) + day - 1;
}

/* Years are counted from March, so that the leap day is a year's last: 153 days are five months then. */
static inline civil_date civil_from_days(int64_t days) {
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

static inline int64_t floor_divide(int64_t value, int64_t by) {
    return value / by - (value % by < 0 ? 1 : 0);
}

static inline void put_pair(float *out, const float pair[2]) {
    out[0] = pair[0];
    out[1] = pair[1];
}

/* Days since 1970, and the second of that day. */
static inline int64_t split_day(int64_t micros, int *second_of_day) {
    const int64_t micros_per_day = (int64_t)SECONDS_PER_DAY * MICROS_PER_SECOND;
    int64_t days = micros / micros_per_day;
    int64_t rest = micros - days * micros_per_day;
    if (rest < 0) { /* before 1970 */
        days--;
        rest += micros_per_day;
    }
    *second_of_day = (int)((uint64_t)rest / MICROS_PER_SECOND);
    return days;
}

static inline void write_clock_floats(int second_of_day, float *out) {
    put_pair(out + 0, second_table[second_of_day % 60]);
    put_pair(out + 2, second_table[second_of_day / 60 % 60]);
    put_pair(out + 4, hour_table[second_of_day / 3600]);
}

static inline void write_date_floats(int64_t days, float *out) {
    int64_t weekday = (days + 3) % 7; /* 1970-01-01 was a Thursday */
    civil_date date = civil_from_days(days);
    put_pair(out + 0, weekday_table[weekday < 0 ? weekday + 7 : weekday]);
    put_pair(out + 2, day_table[date.day - 1]);
    put_pair(out + 4, month_table[date.month - 1]);
    put_pair(out + 6, year_day_table[date.year_day]);
}

static inline float normalised(double value, double mean, double std) {
    float rounded = (float)((value - mean) / std);
    if (rounded > LARGEST_FLOAT)
        return LARGEST_FLOAT;
    return rounded < -LARGEST_FLOAT ? -LARGEST_FLOAT : rounded;
}

#endif
