/* Sealed maps (docs/spec/06-checkpoints.md): a canonical map that holds a hash of itself, so that any change
 * to its bytes is found. */
#ifndef WEIR_PIPELINE_SEALED_H
#define WEIR_PIPELINE_SEALED_H

#include "base/fields.h"

/* Writes a struct by its table, sealed. */
void weir_pipeline__sealed_write(weir_cbor_writer *w, const char *version, const weir__shape *shape,
                                 const void *object);

/* Whether a map that was checked as CBOR is sealed with this version. */
bool weir_pipeline__sealed_is_whole(const weir_cbor_value *map, const char *version);

#endif
