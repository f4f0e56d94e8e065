/* weir/row_run.h: rows as sorted, hashed files, for those who read a database on many machines
 * (docs/spec/09-runs-of-rows.md). A folder of such files, with a list of them, is a source of ingest like any
 * other: weir_ingest, or `weir assemble`.
 *
 *   weir_row_run_options options = WEIR_ROW_RUN_OPTIONS;
 *   options.table = &table;                        one stream of Arrow batches
 *   options.key = (const char *[]){"order_id"};
 *   options.key_count = 1;
 *   options.write = append;                        bytes of a file
 *   options.end = note;                            the file is complete; more bytes begin another
 *   status = weir_row_run_write(NULL, &options, &error); */
#ifndef WEIR_ROW_RUN_H
#define WEIR_ROW_RUN_H

#include "weir/arrow.h"
#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_ROW_RUN_LIST   "row-runs.json" /* the list of a folder, */
#define WEIR_ROW_RUN_SCHEMA "schema.json"   /* and its schema, if it has one */

/* A file that is complete: what the list says of it. */
typedef struct weir_row_run_file {
    uint64_t rows;
    uint64_t size;
    uint8_t hash[WEIR_HASH_SIZE];
} weir_row_run_file;

typedef struct weir_row_run_options {
    size_t size;                   /* sizeof(weir_row_run_options) */
    const weir_arrow_table *table; /* its name, and its stream or a function that opens one */
    const char *const *key;        /* columns that the rows are sorted by */
    uint32_t key_count;            /* 0: rows in any order, in one file */
    uint32_t frame_size;           /* bytes that end a frame; 0: 256 KiB */
    /* Each returns 0 or an errno, which ends the work. Called from the caller's thread. */
    int (*write)(void *context, const void *data, size_t size);
    int (*end)(void *context, const weir_row_run_file *file);
    void *context;
    weir_bytes *columns; /* takes the list's `columns`, JSON [[name, type], …], which the caller releases; or
                            NULL. After a failure there is nothing */
} weir_row_run_options;

#define WEIR_ROW_RUN_OPTIONS ((weir_row_run_options){.size = sizeof(weir_row_run_options)})

/* Writes the rows of a table as runs: one, or a new one each time a row has a smaller key than the one
 * before it; none if there are no rows. Memory does not grow with the rows. SOURCE_ERROR (the table cannot be
 * read, a type is not read, text is not UTF-8), SCHEMA_INVALID (the key is not a list of its columns),
 * IO_ERROR (what `write` or `end` returned), OUT_OF_MEMORY, CONTRACT_VIOLATION. Any thread. */
WEIR_API WEIR_CHECKED weir_status weir_row_run_write(const weir_env *env, const weir_row_run_options *options,
                                                     weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
