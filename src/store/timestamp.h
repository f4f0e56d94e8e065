/* A timestamp's floats in two parts, for who keeps the one that changes once a day. */
#ifndef WEIR_SRC_STORE_TIMESTAMP_H
#define WEIR_SRC_STORE_TIMESTAMP_H

#include "weir/store.h"

enum { WEIR__CLOCK_FLOATS = 6, WEIR__DATE_FLOATS = 8 };

/* Days since 1970, and the second of that day. */
static inline int64_t weir__split_day(int64_t micros, int *second_of_day) {
    const int64_t micros_per_day = 86400000000;
    int64_t days = micros / micros_per_day;
    int64_t rest = micros - days * micros_per_day;
    if (rest < 0) { /* before 1970 */
        days--;
        rest += micros_per_day;
    }
    *second_of_day = (int)((uint64_t)rest / 1000000);
    return days;
}

/* second, minute, hour; and weekday, day of month, month, day of year: a pair each. */
void weir__clock_floats(int second_of_day, float out[WEIR__CLOCK_FLOATS]);
void weir__date_floats(int64_t days, float out[WEIR__DATE_FLOATS]);

#endif
