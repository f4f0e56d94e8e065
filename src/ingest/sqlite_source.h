/* A SQLite connection that another source has made, as a source: for what is loaded into a temporary
 * database so that SQL can be run over it. */
#ifndef WEIR_INGEST_SQLITE_SOURCE_H
#define WEIR_INGEST_SQLITE_SOURCE_H

#include <sqlite3.h>

#include "ingest/source.h"

/* Takes the connection over, also on failure; `name`, which is borrowed, is what messages call it. */
WEIR_CHECKED weir_status weir_ingest__sqlite_adopt(const weir_env *env, sqlite3 *connection, const char *name,
                                                   weir_ingest__source **out, weir_error *error);

#endif
