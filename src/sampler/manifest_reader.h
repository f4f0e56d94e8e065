/* What the readers of a manifest's parts share: members of CBOR maps, each by its JSON path. A member that is
 * absent leaves *out as it is; one that is wrong is MANIFEST_INVALID with its path. */
#ifndef WEIR_SAMPLER_MANIFEST_READER_H
#define WEIR_SAMPLER_MANIFEST_READER_H

#include "sampler/manifest.h"

enum { WEIR_SAMPLER__MANIFEST_PATH = 512 }; /* bytes of a path */

typedef struct weir_sampler__manifest_reader {
    weir_manifest *manifest;
    const char *name; /* what messages call the document */
    char *next_text;  /* where the next copied text goes */
    weir_error *error;
} weir_sampler__manifest_reader;

/* MANIFEST_INVALID at a path. */
WEIR_CHECKED weir_status weir_sampler__manifest_invalid(const weir_sampler__manifest_reader *r,
                                                        const char *path, const char *what);

/* The path of a member. */
void weir_sampler__manifest_join(char out[WEIR_SAMPLER__MANIFEST_PATH], const char *path,
                                 const weir_cbor_value *key);

WEIR_CHECKED weir_status weir_sampler__manifest_expect_map(const weir_sampler__manifest_reader *r,
                                                           const char *path, const weir_cbor_value *value);

/* Refuses every key of a map that is not in the list, which NULL ends. */
WEIR_CHECKED weir_status weir_sampler__manifest_refuse_unknown(const weir_sampler__manifest_reader *r,
                                                               const char *path, const weir_cbor_value *map,
                                                               const char *const *known);

WEIR_CHECKED weir_status weir_sampler__manifest_uint(const weir_sampler__manifest_reader *r, const char *path,
                                                     const weir_cbor_value *map, const char *key,
                                                     uint64_t least, uint64_t most, uint64_t *out);
WEIR_CHECKED weir_status weir_sampler__manifest_uint32(const weir_sampler__manifest_reader *r,
                                                       const char *path, const weir_cbor_value *map,
                                                       const char *key, uint64_t least, uint64_t most,
                                                       uint32_t *out);
WEIR_CHECKED weir_status weir_sampler__manifest_bool(const weir_sampler__manifest_reader *r, const char *path,
                                                     const weir_cbor_value *map, const char *key, bool *out);

/* One of `count` names; its number goes to *out. */
WEIR_CHECKED weir_status weir_sampler__manifest_choice(const weir_sampler__manifest_reader *r,
                                                       const char *path, const weir_cbor_value *map,
                                                       const char *key, const char *const *names,
                                                       unsigned count, unsigned *out);

/* The manifest's `batch`. */
WEIR_CHECKED weir_status weir_sampler__manifest_read_batch(const weir_sampler__manifest_reader *r,
                                                           const weir_cbor_value *value);

#endif
