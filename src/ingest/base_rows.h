/* Ingest from a base: the rows that an earlier ingest kept, and of the source only what is new
 * (docs/spec/09b-growing-data.md).
 *
 * A table that has a base is read in parts as any other: first those of kept rows, which note what the source
 * has to give again, then one of the source's rows, which leaves out what is kept already.
 *
 * What must hold: whatever a source says, the store is that of all of its rows, or ingest is refused; but for
 * what the specification says is not found. All calls do nothing if there is no base: then it is
 * NULL. */
#ifndef WEIR_INGEST_BASE_ROWS_H
#define WEIR_INGEST_BASE_ROWS_H

#include "ingest/row_run.h"
#include "ingest/stages.h"

typedef struct weir_ingest__base weir_ingest__base;

/* Opens the store and its kept rows; NULL in *out if there is no base. SOURCE_ERROR if there are none, or
 * they are another store's; IO_ERROR, STORE_CORRUPT, STORE_VERSION. Close it, also after a failure. */
WEIR_CHECKED weir_status weir_ingest__base_open(const weir_ingest__context *context, weir_ingest__base **out,
                                                weir_error *error);
void weir_ingest__base_close(weir_ingest__base *base);

/* Decides how each table of the plan, which is borrowed, is read. SOURCE_ERROR if columns that are read were
 * not kept, or changed. */
WEIR_CHECKED weir_status weir_ingest__base_plan(weir_ingest__base *base, const weir_ingest__context *context,
                                                const weir_ingest__plan *plan, weir_error *error);

/* In how many parts a table's kept rows are read, which are its first parts; 0: they are not. */
uint32_t weir_ingest__base_parts(const weir_ingest__base *base, uint32_t table);
/* How many rows of a table are kept, for progress. */
uint64_t weir_ingest__base_rows(const weir_ingest__base *base, uint32_t table);
/* The kept rows of a table if their files can be taken over as they are: the same columns; else NULL. */
const weir_ingest__run_table *weir_ingest__base_files(const weir_ingest__base *base, uint32_t table);
const char *weir_ingest__base_folder(const weir_ingest__base *base);

/* Kept rows of a part; by one worker at a time. */
WEIR_CHECKED weir_status weir_ingest__base_scan_kept(weir_ingest__base *base, uint32_t table, uint32_t part,
                                                     weir_ingest__cursor **out, weir_error *error);
/* After all parts of kept rows were read, and before any of the source's. */
WEIR_CHECKED weir_status weir_ingest__base_join(weir_ingest__base *base, weir_error *error);
/* The source's rows that are not kept. */
WEIR_CHECKED weir_status weir_ingest__base_scan_new(weir_ingest__base *base, weir_ingest__source *session,
                                                    uint32_t table, weir_ingest__cursor **out,
                                                    weir_error *error);
/* After everything was read: SOURCE_ERROR if the base's rows changed. */
WEIR_CHECKED weir_status weir_ingest__base_check(const weir_ingest__base *base, weir_error *error);

/* Tells who asked how each table was read: an array of objects {table, how, kept, read, new}. */
WEIR_CHECKED weir_status weir_ingest__base_tell(const weir_ingest__base *base,
                                                const weir_ingest__context *context,
                                                const weir_store_info *info, weir_error *error);

#endif
