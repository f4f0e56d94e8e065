/* The calendar, and a timestamp's floats: what the host and a kernel on a device compute alike. Compiles as C
 * and as CUDA C; nothing here calls libm. Days are counted from 1970, in the proleptic Gregorian calendar, in
 * which every int64 of microseconds has a date. */
#ifndef WEIR_STORE_CALENDAR_H
#define WEIR_STORE_CALENDAR_H

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

/* The date of a day of any int64 of microseconds. Years are counted from March, so that the leap day is a
 * year's last, and from 732 eras of 400 years before year 0, so that all numbers are positive and fit 32
 * bits. Divisions by the lengths of a year and of a month are multiplications whose upper half is the
 * quotient and whose lower half is the remainder, scaled: exact for all days of a century and of a year (Neri
 * and Schneider, "Euclidean affine functions and their application to calendar algorithms", 2022). */
static inline civil_date civil_from_days(int64_t days) {
    enum { ERAS = 732, YEARS_PER_ERA = 400, DAYS_FROM_MARCH_OF_0 = 719468, JANUARY = 306 };
    uint32_t quarters = 4 * (uint32_t)(days + DAYS_FROM_MARCH_OF_0 + (int64_t)ERAS * DAYS_PER_ERA) + 3;
    uint32_t century = quarters / DAYS_PER_ERA;
    uint64_t years = (uint64_t)2939745 * (quarters % DAYS_PER_ERA / 4 * 4 + 3); /* 2^32 / 365.25 / 4 */
    uint32_t year_of_century = (uint32_t)(years >> 32);
    uint32_t day_of_march_year = (uint32_t)years / 2939745 / 4;
    uint32_t months = 2141 * day_of_march_year + 197913; /* 2^16 / 30.6, from March's end of 3 on */
    bool is_next_year = day_of_march_year >= JANUARY;
    bool is_leap_year = year_of_century ? year_of_century % 4 == 0 : century % 4 == 0;
    civil_date date;
    date.year = (int64_t)(100 * century + year_of_century) - ERAS * YEARS_PER_ERA + is_next_year;
    date.month = (int)(months >> 16) - (is_next_year ? 12 : 0);
    date.day = (int)((months & 0xFFFF) / 2141) + 1;
    date.year_day = (int)day_of_march_year + (is_next_year ? -JANUARY : 59 + is_leap_year);
    return date;
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

/* The cyclic floats of a time, as pairs of sine and cosine. */
enum { CYCLES = 7 };
typedef struct time_cycles {
    const float *of[CYCLES];
} time_cycles;

static inline time_cycles cycles_of(int64_t micros) {
    time_cycles cycles;
    int second;
    int64_t days = split_day(micros, &second);
    int64_t weekday = (days + 3) % 7; /* 1970-01-01 was a Thursday */
    civil_date date = civil_from_days(days);
    cycles.of[0] = second_table + 2 * (second % 60);
    cycles.of[1] = second_table + 2 * (second / 60 % 60); /* minutes */
    cycles.of[2] = hour_table + 2 * (second / 3600);
    cycles.of[3] = weekday_table + 2 * (weekday < 0 ? weekday + 7 : weekday);
    cycles.of[4] = day_table + 2 * (date.day - 1);
    cycles.of[5] = hour_table + 4 * (date.month - 1); /* a month turns as far as two hours */
    cycles.of[6] = year_day_table + 2 * date.year_day;
    return cycles;
}

static inline float normalised(double value, double mean, double std) {
    float rounded = (float)((value - mean) / std);
    if (rounded > LARGEST_FLOAT)
        return LARGEST_FLOAT;
    return rounded < -LARGEST_FLOAT ? -LARGEST_FLOAT : rounded;
}

#endif
