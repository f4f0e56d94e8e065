/* Building SQL text: what the sources that speak SQL share. */
#ifndef WEIR_INGEST_SQL_H
#define WEIR_INGEST_SQL_H

#include "base/arena.h"

/* Text that grows. A failed allocation sticks and later calls do nothing, so a sequence of calls needs one
 * check of `failed`. `data` is terminated while it has not failed and something was added. Zeroed but for
 * `env` at the start; weir_ingest__sql_release at the end. */
typedef struct weir_ingest__sql {
    const weir_env *env;
    char *data;
    size_t size;
    size_t capacity;
    bool failed;
} weir_ingest__sql;

void weir_ingest__sql_add(weir_ingest__sql *sql, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void weir_ingest__sql_add_text(weir_ingest__sql *sql, const char *text, size_t size);
void weir_ingest__sql_add_identifier(weir_ingest__sql *sql, const char *name); /* in double quotes */
void weir_ingest__sql_add_literal(weir_ingest__sql *sql, const char *text);    /* in single quotes */
void weir_ingest__sql_release(weir_ingest__sql *sql);
/* Releases it and gives its text, terminated, in an arena; NULL if memory was short, as the arena then says
 * too. */
char *weir_ingest__sql_keep(weir_ingest__sql *sql, weir__arena *memory);

/* The length of a statement without the white space, semicolons and comments that end it. (All of it where
 * a quote or comment does not end, as the server will say.) */
size_t weir_ingest__sql_trimmed_size(const char *statement);

#endif
