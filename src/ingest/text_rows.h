/* Rows of text that a database server has answered, kept until they are read: what the sources that ask a
 * server for its catalog share. */
#ifndef WEIR_INGEST_TEXT_ROWS_H
#define WEIR_INGEST_TEXT_ROWS_H

#include "ingest/source.h"

/* All rows have one number of columns; null is "". Zeroed but for the memory's env and `column_count` at the
 * start. */
typedef struct weir_ingest__text_rows {
    weir__arena memory;
    uint32_t column_count;
    size_t row_count; /* counted by who adds the cells */
    char **cells;
    uint32_t cell_count;
    size_t text_size; /* of all cells */
} weir_ingest__text_rows;

WEIR_CHECKED weir_status weir_ingest__text_rows_add(weir_ingest__text_rows *rows, const char *text,
                                                    size_t size, weir_error *error);
const char *weir_ingest__text_rows_cell(const weir_ingest__text_rows *rows, size_t row, uint32_t column);
/* The first cells of all rows, "sales, hr", cut to size; "none" if there are no rows. */
void weir_ingest__text_rows_join(const weir_ingest__text_rows *rows, char *out, size_t size);
/* Whether they are more than the catalog of any database that weir reads has. */
bool weir_ingest__text_rows_are_full(const weir_ingest__text_rows *rows);
#define WEIR_INGEST__TEXT_ROWS_FULL "the catalog is larger than that of any database that weir reads"
/* Rows that are all zero are released as well. */
void weir_ingest__text_rows_release(weir_ingest__text_rows *rows);

/* A number that only helps to share out work or to show progress: 0 if the cell is none. */
uint64_t weir_ingest__text_rows_estimate(const weir_ingest__text_rows *rows, size_t row, uint32_t column);

#endif
