/* Reading the schema's "embedding" object: each call takes a key's value or its default, and what does not
 * fit is SCHEMA_INVALID with the path ("$.embedding.url"). The first fault sticks, so a sequence of calls
 * needs one check. */
#ifndef WEIR_INGEST_SETTINGS_H
#define WEIR_INGEST_SETTINGS_H

#include "ingest/embed.h"

typedef struct weir_ingest__settings {
    const weir_env *env;
    const weir_cbor_value *map;
    weir_error *error;
    weir_status status;
} weir_ingest__settings;

/* Refuses keys that are not in the list, which ends with NULL. */
void weir_ingest__settings_only(weir_ingest__settings *settings, const char *const *keys);

/* A terminated copy (release it); `otherwise` may be NULL if the key must be given. With `nullable`, a
 * null gives NULL. Text with a NUL is refused. */
char *weir_ingest__settings_text(weir_ingest__settings *settings, const char *key, const char *otherwise,
                                 bool nullable);

uint64_t weir_ingest__settings_uint(weir_ingest__settings *settings, const char *key, uint64_t otherwise,
                                    uint64_t least, uint64_t most);

/* ---- Vectors --------------------------------------------------------------------------------- */

/* An array of finite numbers as f16: the first `dim` of at least as many, divided by their Euclidean norm
 * (a zero vector stays zero); or, where `is_exact`, exactly `dim`, as they are. `numbers` is room for dim
 * doubles. Returns NULL, or what is wrong, static. */
const char *weir_ingest__vector_read(const weir_cbor_value *array, uint32_t dim, bool is_exact,
                                     double *numbers, uint16_t *out);

/* A text for a message: its first characters, terminated. */
enum { WEIR_INGEST__EXCERPT_SIZE = 80 };
void weir_ingest__excerpt(const char *text, size_t size, char out[WEIR_INGEST__EXCERPT_SIZE]);

#endif
