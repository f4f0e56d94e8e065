/* The calendar, and a timestamp's floats in two parts, for who keeps the one that changes once a day. */
#ifndef WEIR_SRC_STORE_TIMESTAMP_H
#define WEIR_SRC_STORE_TIMESTAMP_H

#include "weir/store.h"

enum { WEIR__CLOCK_FLOATS = 6, WEIR__DATE_FLOATS = 8 };

/* second, minute, hour; and weekday, day of month, month, day of year: a pair each. */
void weir__clock_floats(int second_of_day, float out[WEIR__CLOCK_FLOATS]);
void weir__date_floats(int64_t days, float out[WEIR__DATE_FLOATS]);

/* Days since 1970-01-01 of a date of the Gregorian calendar; month 1 to 12. */
int64_t weir__days_from_civil(int64_t year, int month, int day);
int weir__days_in_month(int64_t year, int month);

#endif
