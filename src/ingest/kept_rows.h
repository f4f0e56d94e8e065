/* Rows that ingest keeps beside the store, as runs, for an ingest of later rows
 * (docs/spec/09b-growing-data.md). Every part of a table that is read writes a file of its own; the list of
 * the files takes its name after the store has.
 *
 * What must hold: until then, the folder is what it was but for files that no list names; these are removed
 * when ingest ends, and those of an ingest that was killed when the next one begins. All calls do nothing if
 * rows are not kept: then the keeper is NULL. */
#ifndef WEIR_INGEST_KEPT_ROWS_H
#define WEIR_INGEST_KEPT_ROWS_H

#include "ingest/row_run.h"
#include "ingest/stages.h"

/* What comes after a store's path. */
#define WEIR_INGEST__KEPT_ENDING ".rows"

typedef struct weir_ingest__keeper weir_ingest__keeper;

/* Makes the folder of a store's rows ready, so that no other process writes it; NULL in *out if rows are not
 * kept. CONTRACT_VIOLATION if it has runs that ingest did not keep; IO_ERROR, SOURCE_ERROR (it has a list
 * that cannot be read). Close it, also after a failure. */
WEIR_CHECKED weir_status weir_ingest__keep_open(const weir_ingest__context *context, const char *store_path,
                                                weir_ingest__keeper **out, weir_error *error);
/* The column that is a table's time and whose order is that of its values, or WEIR_NONE. */
uint32_t weir_ingest__keep_time(const weir_ingest__table_plan *plan);

/* Makes room for the files of all parts, whose number is known. */
WEIR_CHECKED weir_status weir_ingest__keep_tables(weir_ingest__keeper *keeper,
                                                  const struct weir_ingest__base *base,
                                                  const weir_ingest__parts *parts, weir_error *error);

/* Keeps a row of a part, and ends the part's file. Parts are worked on in parallel. */
WEIR_CHECKED weir_status weir_ingest__keep_row(weir_ingest__keeper *keeper, uint32_t table, uint32_t part,
                                               const weir_ingest__value *row, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__keep_end(weir_ingest__keeper *keeper, uint32_t table, uint32_t part,
                                               weir_error *error);

/* Writes the list under a temporary name, once the store's hash is known; gives it its name. `name`: of the
 * source. */
WEIR_CHECKED weir_status weir_ingest__keep_prepare(weir_ingest__keeper *keeper,
                                                   const struct weir_ingest__base *base, const char *name,
                                                   const weir_store_info *info, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__keep_commit(weir_ingest__keeper *keeper, weir_error *error);
/* How many bytes the files have that the list names, once it is prepared. */
uint64_t weir_ingest__keep_bytes(const weir_ingest__keeper *keeper);
/* Removes what no list names. At the end, whatever happened. */
void weir_ingest__keep_close(weir_ingest__keeper *keeper);

#endif
