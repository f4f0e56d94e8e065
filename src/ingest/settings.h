/* What embedders share: the schema's "embedding" object as a table of fields, vectors, and texts in messages.
 */
#ifndef WEIR_INGEST_SETTINGS_H
#define WEIR_INGEST_SETTINGS_H

#include "base/fields.h"
#include "ingest/embed.h"

/* The rows that every provider's table begins with. */
#define WEIR_INGEST__EMBED_FIELDS                                                                            \
    {"provider", .kind = WEIR__KIND_VALUE, .flags = WEIR__WRITE_ONLY}, {                                     \
        "dim", WEIR__UINT(weir_ingest__embedder, dim, 1, WEIR_INGEST__EMBED_DIM_MAX),                        \
            .otherwise = WEIR_INGEST__EMBED_DIM_DEFAULT                                                      \
    }

/* Reads the object (NULL: all defaults) into the embedder, whose struct the shape is of; texts lie in its
 * arena. SCHEMA_INVALID with the path ("$.embedding.url"). */
WEIR_CHECKED weir_status weir_ingest__settings_read(weir_ingest__embedder *embedder,
                                                    const weir_cbor_value *map, const weir__shape *shape,
                                                    weir_error *error);

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
