/* Building SQL text: what the sources that speak SQL share. */
#ifndef WEIR_INGEST_SQL_H
#define WEIR_INGEST_SQL_H

#include "base/internal.h"

/* Text that grows. A failed allocation sticks and later calls do nothing, so a sequence of calls needs one
 * check of `failed`. `data` is terminated while it has not failed and something was added. Zeroed but for
 * `env` at the start; weir__sql_release at the end. */
typedef struct weir__sql {
    const weir_env *env;
    char *data;
    size_t size;
    size_t capacity;
    bool failed;
} weir__sql;

void weir__sql_add(weir__sql *sql, const char *format, ...) __attribute__((format(printf, 2, 3)));
void weir__sql_add_text(weir__sql *sql, const char *text, size_t size);
void weir__sql_add_identifier(weir__sql *sql, const char *name); /* in double quotes */
void weir__sql_add_literal(weir__sql *sql, const char *text);    /* in single quotes */
void weir__sql_release(weir__sql *sql);

/* The length of a statement without the white space, semicolons and comments that end it. (All of it where
 * a quote or comment does not end, as the server will say.) */
size_t weir__sql_trimmed_size(const char *statement);

#endif
