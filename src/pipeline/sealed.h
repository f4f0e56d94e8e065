/* Sealed maps (docs/spec/06-checkpoints.md): a canonical map that holds a hash of itself, so that any change
 * to its bytes is found. */
#ifndef WEIR_PIPELINE_SEALED_H
#define WEIR_PIPELINE_SEALED_H

#include "base/internal.h"
#include "weir/cbor.h"

/* Writes the map of `pairs` pairs that `write_pairs` gives, sealed. It is called twice, and must write the
 * same: so nothing is allocated. */
void weir_pipeline__sealed_write(weir_cbor_writer *w, const char *version, uint64_t pairs,
                                 void (*write_pairs)(const void *context, weir_cbor_writer *w),
                                 const void *context);

/* Whether a map that was checked as CBOR is sealed with this version. */
bool weir_pipeline__sealed_is_whole(const weir_cbor_value *map, const char *version);

#endif
