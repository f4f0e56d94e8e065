/* Runs of rows (docs/spec/09-runs-of-rows.md): rows of a table in files that are sorted by a key.
 *
 *   row_run.c         what writer and reader share: headers, ends, keys and their order
 *   row_run_write.c   rows become files, those of an Arrow stream too
 *   row_run_list.c    the list of a folder, read and checked
 *   row_run_read.c    one file, row after row
 *   source_runs.c     a folder of runs as a source: files are merged by key
 *
 * What must hold: no row is used before the hash of its frame was compared; every failure names the file. */
#ifndef WEIR_INGEST_ROW_RUN_H
#define WEIR_INGEST_ROW_RUN_H

#include "base/arena.h"
#include "ingest/source.h"
#include "weir/row_run.h"
#include "weir_tool/documents.h"

#define WEIR_INGEST__RUN_MAGIC  "weir-run"
#define WEIR_INGEST__RUN_FORMAT "weir-run/1"
enum {
    WEIR_INGEST__RUN_MAGIC_SIZE = 8,
    WEIR_INGEST__RUN_HEAD_SIZE = 4 + WEIR_HASH_SIZE, /* of a frame */
    WEIR_INGEST__RUN_FRAME_MAX = 1 << 30,
};

/* A file as the list names it, and what its end says, once weir_ingest__run_inspect was called. */
typedef struct weir_ingest__run_file {
    const char *path;
    weir_row_run_file said;
    uint8_t *end; /* the payload of its end, */
    uint32_t end_size;
    weir_ingest__value *first; /* and the key in it; NULL if it has none */
} weir_ingest__run_file;

/* A table, or the result of a query. */
typedef struct weir_ingest__run_table {
    const char *name;
    const char *sql; /* NULL: a table */
    weir_ingest__catalog_column *columns;
    uint32_t column_count;
    uint32_t *key; /* columns */
    uint32_t key_count;
    weir_ingest__run_file *files; /* in the order of first keys, once they were inspected */
    uint32_t file_count;
    bool has_latest; /* of rows that ingest kept: */
    uint32_t latest_column;
    weir_ingest__value latest; /* the column's greatest value */
} weir_ingest__run_table;

typedef struct weir_ingest__run_list {
    weir__arena arena; /* of everything here */
    const char *folder;
    const char *name;
    weir_ingest__run_table *tables; /* and queries after them */
    uint32_t table_count;
    bool has_store; /* ingest kept the rows: */
    uint8_t store[WEIR_HASH_SIZE];
} weir_ingest__run_list;

/* ---- row_run.c --------------------------------------------------------------------------------- */

/* "integer", …: what the list and headers call what a column is declared as; static. */
const char *weir_ingest__run_type_name(const weir_ingest__catalog_column *column);
/* False if there is no such type. */
bool weir_ingest__run_type_read(const weir_cbor_value *name, weir_ingest__catalog_column *out);

void weir_ingest__run_write_header(weir_cbor_writer *w, const weir_ingest__run_table *table);
/* The end of a file; first and last are rows of the table, NULL if there are none. */
void weir_ingest__run_write_end(weir_cbor_writer *w, const weir_ingest__run_table *table,
                                const weir_ingest__value *first, const weir_ingest__value *last,
                                uint64_t rows);
void weir_ingest__run_write_value(weir_cbor_writer *w, const weir_ingest__value *value);
void weir_ingest__run_write_row(weir_cbor_writer *w, const weir_ingest__value *row, uint32_t column_count);
/* False if it is not one of the values that rows hold. Text borrows. */
bool weir_ingest__run_read_value(const weir_cbor_value *from, weir_ingest__value *out);

/* The order of keys: negative, 0 or positive. */
int weir_ingest__run_compare_values(const weir_ingest__value *a, const weir_ingest__value *b);
/* Whether a list can have it as the latest of a table: what JSON holds as it is, and SQL too. */
bool weir_ingest__run_can_be_latest(const weir_ingest__value *value);
/* That of two rows of a table, of all of its columns. */
int weir_ingest__run_compare_rows(const weir_ingest__run_table *table, const weir_ingest__value *a,
                                  const weir_ingest__value *b);

/* A row's key, kept when its texts go: the values stand at the key's columns of a row, all else is null. */
typedef struct weir_ingest__kept_key {
    const weir_env *env;
    weir_ingest__value *row; /* NULL: none is kept */
    char *texts;
    size_t text_capacity;
} weir_ingest__kept_key;

/* False if memory is short. */
WEIR_CHECKED bool weir_ingest__run_keep_key(weir_ingest__kept_key *kept, const weir_ingest__run_table *table,
                                            const weir_ingest__value *row);
void weir_ingest__run_release_key(weir_ingest__kept_key *kept);

/* ---- row_run_write.c --------------------------------------------------------------------------- */

/* Rows that become files. Who uses it sets what is above the line, then calls init; and releases it, also
 * after a failure. */
typedef struct weir_ingest__run_writer {
    const weir_env *env;
    const weir_ingest__run_table *table;
    const char *failure_operator;
    size_t frame_size; /* bytes that end a frame; 0: 256 KiB */
    /* Each returns 0 or an errno. */
    int (*write)(void *context, const void *data, size_t size);
    int (*end)(void *context, const weir_row_run_file *file); /* or NULL */
    void *context;
    /* ---- */
    weir_cbor_writer frame; /* rows that did not go out yet */
    weir_cbor_writer other; /* the header, then the end */
    weir__blake3 heads;     /* of the file's frames */
    uint64_t file_size, rows;
    weir_ingest__kept_key first, last;
    const weir_ingest__value *before; /* the row before, or its key; NULL: no file is begun */
} weir_ingest__run_writer;

void weir_ingest__run_writer_init(weir_ingest__run_writer *w);
void weir_ingest__run_writer_release(weir_ingest__run_writer *w);
/* Adds a row, which must stay until the next one is added or `rest` is called. SOURCE_ERROR, IO_ERROR,
 * OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_ingest__run_writer_put(weir_ingest__run_writer *w,
                                                     const weir_ingest__value *row, weir_error *error);
/* Keeps of the last row what is still needed, before it goes. */
WEIR_CHECKED weir_status weir_ingest__run_writer_rest(weir_ingest__run_writer *w, weir_error *error);
/* Ends the file, if one is begun. */
WEIR_CHECKED weir_status weir_ingest__run_writer_end(weir_ingest__run_writer *w, weir_error *error);

/* ---- row_run_list.c ---------------------------------------------------------------------------- */

/* Reads FOLDER/row-runs.json; `folder` is borrowed. Release it, also after a failure. */
WEIR_CHECKED weir_status weir_ingest__run_list_open(weir_ingest__run_list *list, const weir_env *env,
                                                    const char *folder, weir_error *error);
void weir_ingest__run_list_release(weir_ingest__run_list *list);

/* ---- source_runs.c ----------------------------------------------------------------------------- */

/* The list that a source of runs has read; the source's. */
const weir_ingest__run_list *weir_ingest__runs_list(const weir_ingest__source *session);

/* ---- row_run_read.c ---------------------------------------------------------------------------- */

/* Looks at the header and the end of a file, and notes in it what the end says (memory of the list). */
WEIR_CHECKED weir_status weir_ingest__run_inspect(weir_ingest__run_list *list,
                                                  const weir_ingest__run_table *table,
                                                  weir_ingest__run_file *file, weir_error *error);

/* A file that is read. */
typedef struct weir_ingest__run_reader weir_ingest__run_reader;

/* Opens a file that was inspected; it stands before its first row. */
WEIR_CHECKED weir_status weir_ingest__run_reader_open(const weir_ingest__run_list *list,
                                                      const weir_ingest__run_table *table,
                                                      const weir_ingest__run_file *file,
                                                      weir_ingest__run_reader **out, weir_error *error);
void weir_ingest__run_reader_close(weir_ingest__run_reader *reader);

/* Whether the next row is in the frame that is in memory already. If not, weir_ingest__run_reader_next reads
 * another, and the texts of all rows but the last one that was given go. */
bool weir_ingest__run_reader_has_more(const weir_ingest__run_reader *reader);

/* The next row, of all columns of the table, valid until two rows later; NULL at the end, when all that list
 * and end say of the file was compared. */
WEIR_CHECKED weir_status weir_ingest__run_reader_next(weir_ingest__run_reader *reader,
                                                      const weir_ingest__value **row, weir_error *error);

#endif
