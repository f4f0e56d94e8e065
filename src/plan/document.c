/* See document.h. A canonical CBOR map or array begins with a byte of 0x80 or above, which no JSON text
 * does. */
#include "plan/document.h"

#include "plan/graph.h"

weir_status weir_plan__document_load(const weir_env *env, const void *data, size_t size, const char *name,
                                     weir_plan__document *document, weir_error *error) {
    const uint8_t *bytes = data;
    weir_cbor_writer_memory(&document->converted, env);
    if (size > 0 && bytes[0] >= 0x80) {
        weir_status status = weir_cbor_check(data, size, NULL, error);
        if (status == WEIR_OK)
            document->root = weir_cbor_view(data);
        return status;
    }
    weir_status status = weir_json_read(data, size, name, WEIR_INVALID_IR, &document->converted, error);
    if (status == WEIR_OK)
        status = weir_cbor_finish(&document->converted, error);
    if (status != WEIR_OK) {
        weir_cbor_release(&document->converted);
        return status;
    }
    document->root = weir_cbor_view(document->converted.data);
    return WEIR_OK;
}

void weir_plan__document_release(weir_plan__document *document) {
    weir_cbor_release(&document->converted);
}
