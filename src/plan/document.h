/* Documents (graphs, arena configurations, orders): JSON or canonical CBOR, told apart by the first byte,
 * and read as views of canonical CBOR in both cases. */
#ifndef WEIR_PLAN_DOCUMENT_H
#define WEIR_PLAN_DOCUMENT_H

#include "base/internal.h"
#include "weir/plan.h"

typedef struct weir_plan__document {
    weir_cbor_writer converted; /* holds what was JSON */
    weir_cbor_value root;
} weir_plan__document;

/* Text that is refused is INVALID_IR with line and column, bytes that are not canonical are CBOR_INVALID.
 * Release it after success; CBOR bytes are borrowed. */
WEIR_CHECKED weir_status weir_plan__document_load(const weir_env *env, const void *data, size_t size,
                                                  const char *name, weir_plan__document *document,
                                                  weir_error *error);
void weir_plan__document_release(weir_plan__document *document);

static inline weir_text weir_plan__text_of(const weir_cbor_value *value) {
    return (weir_text){(const char *)value->data, (size_t)value->number};
}

#endif
