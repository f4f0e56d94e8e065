/* Columns that come as arrays: many values at once into a part's memory, where that can be done without
 * looking at each. The result is that of cell by cell. */
#ifndef WEIR_INGEST_READ_ARRAYS_H
#define WEIR_INGEST_READ_ARRAYS_H

#include "ingest/stages.h"

/* Value `row` of an array, as a cell. */
void weir_ingest__array_value(const weir_ingest__array *array, size_t row, weir_ingest__value *out);

/* Stores the values of `count` rows, from `first` on, as the column's semantic type wants them, and counts
 * nulls. False if that must be done cell by cell: there is no such way, a value does not fit, or memory is
 * short; what was stored is to be written over. */
bool weir_ingest__array_store(weir_ingest__part *part, uint32_t column, weir_stype stype,
                              const weir_ingest__array *array, uint32_t first, uint32_t count);

/* The same for the keys of a column; a null does not fit into a primary key. */
bool weir_ingest__array_store_keys(weir_ingest__column_data *column, bool is_primary,
                                   const weir_ingest__array *array, uint32_t first, uint32_t count);

#endif
