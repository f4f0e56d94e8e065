/* Exact numbers of a source's own types (decimals, integers wider than 64 bits) as values.
 *
 * What must hold: the same number gives the same value from every source. As SQLite does with NUMERIC
 * columns, an exact number that is an integer within int64 is WEIR_INGEST__INT (so 19.00 is 19, and the key 7
 * of a decimal column is the key 7 of an integer column); any other is WEIR_INGEST__REAL, the nearest
 * binary64. */
#ifndef WEIR_INGEST_DECIMAL_H
#define WEIR_INGEST_DECIMAL_H

#include "ingest/source.h"

/* Decimal text without exponent, such as "-123.4500", or NaN, Infinity, -Infinity; false if it is none. */
bool weir_ingest__decimal_value(const char *text, size_t size, weir_ingest__value *out);

/* The number unscaled / 10^scale; scale is at most 400. */
void weir_ingest__scaled_value(__int128 unscaled, uint32_t scale, weir_ingest__value *out);
void weir_ingest__unsigned_value(unsigned __int128 integer, weir_ingest__value *out);

#endif
