/* What a user may have edited in a demo's folder: a demo that is given again keeps it and uses it. */
#ifndef WEIR_CLI_DEMO_KEEP_H
#define WEIR_CLI_DEMO_KEEP_H

#include "cli.h"

/* The schema to ingest by: the file's, in memory that the caller frees with free(), if it is a plain file
 * that differs from the demo's own; else *edited is NULL and the demo's own is written there (a link is
 * replaced, not followed). IO_ERROR, OUT_OF_MEMORY. */
WEIR_CHECKED weir_status demo_keep_schema(const char *path, const char *own, size_t own_size, char **edited,
                                          size_t *edited_size, weir_error *error);

typedef enum demo_kept {
    DEMO_MADE_ANEW,
    DEMO_KEPT,       /* the manifest was edited; it fits the store */
    DEMO_KEPT_ASIDE, /* it was edited and is of another store; the fresh one stays beside it */
} demo_kept;

/* Whether there is a manifest at the path that must not be written over without a look. */
bool demo_has_manifest(const char *path);

/* Puts a fresh manifest in the place of the one at `path`, unless that one differs in more than its
 * datasets, which follow from the store. IO_ERROR, OUT_OF_MEMORY. */
WEIR_CHECKED weir_status demo_keep_manifest(const char *path, const char *fresh, demo_kept *out,
                                            weir_error *error);

#endif
