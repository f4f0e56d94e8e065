/* The calendar, for who reads dates. */
#ifndef WEIR_STORE_TIMESTAMP_H
#define WEIR_STORE_TIMESTAMP_H

#include <stdint.h>

/* Days since 1970-01-01 of a date of the Gregorian calendar; month 1 to 12. */
int64_t weir_store__days_from_civil(int64_t year, int month, int day);
int weir_store__days_in_month(int64_t year, int month);

#endif
