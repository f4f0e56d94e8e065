/* The tables of a manifest, over struct weir_manifest. */
#ifndef WEIR_SAMPLER_MANIFEST_FIELDS_H
#define WEIR_SAMPLER_MANIFEST_FIELDS_H

#include "base/fields.h"
#include "sampler/manifest.h"

extern const weir__shape weir_sampler__manifest_shape;   /* the file */
extern const weir__shape weir_sampler__normalised_shape; /* the part of it that the manifest's hash is of */
extern const weir__shape weir_sampler__batch_shape;      /* `batch` */

/* What must hold across the parts of a manifest whose parts are read; sets what follows from them. */
WEIR_CHECKED weir_status weir_sampler__check_manifest(weir__reader *r, void *manifest);

/* `mix`, a map of datasets to weights; it may be empty. */
WEIR_CHECKED weir_status weir_sampler__read_mix(weir__reader *r, const weir_cbor_value *value,
                                                weir_manifest *manifest);

#endif
