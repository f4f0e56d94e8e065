/* A timestamp's floats in two parts, for who keeps the one that changes once a day. */
#ifndef WEIR_SRC_STORE_TIMESTAMP_H
#define WEIR_SRC_STORE_TIMESTAMP_H

#include "weir/store.h"

/* weir_normalise in the usual floating-point state, which the caller has entered. */
float weir__normalise(double value, const weir_statistics *statistics);

enum { WEIR__CLOCK_FLOATS = 6, WEIR__DATE_FLOATS = 8 };

/* second, minute, hour; and weekday, day of month, month, day of year: a pair each. */
void weir__clock_floats(int second_of_day, float out[WEIR__CLOCK_FLOATS]);
void weir__date_floats(int64_t days, float out[WEIR__DATE_FLOATS]);

#endif
