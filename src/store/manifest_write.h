/* The manifest that belongs to a store: all datasets that are not empty, and a mix of all train splits with
 * weight 1. */
#ifndef WEIR_STORE_MANIFEST_WRITE_H
#define WEIR_STORE_MANIFEST_WRITE_H

#include "weir/store.h"
#include "weir_tool/documents.h"

/* What somebody has set beyond what follows from the store; values of a checked CBOR document, or NULL. */
typedef struct weir_store__manifest_settings {
    uint64_t batch_size;          /* 0: 32 */
    const char *preset;           /* of data; NULL: the Feistel map and rotation */
    const weir_cbor_value *given; /* a manifest, whose seed, data, batch, accountant and mix are kept */
} weir_store__manifest_settings;

/* Makes the manifest, on lines for people; the caller releases it. */
WEIR_CHECKED weir_status weir_store__manifest_write(const weir_env *env, const weir_store_info *info,
                                                    const weir_store__manifest_settings *settings,
                                                    weir_bytes *out, weir_error *error);

#endif
