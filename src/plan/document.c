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

weir_status weir_plan__text_list(const weir_env *env, const weir_cbor_value *value, const char *name,
                                 const char *what, weir_text **texts, size_t *count, weir_error *error) {
    weir_cbor_iterator it = weir_cbor_children(value);
    weir_cbor_value item;
    bool is_list = value->type == WEIR_CBOR_ARRAY;
    size_t found = 0;
    for (; is_list && weir_cbor_next(&it, NULL, &item); found++)
        is_list = item.type == WEIR_CBOR_TEXT;
    if (!is_list)
        return weir__fail(error, WEIR_INVALID_IR, WEIR_PLAN__PREPARE_OPERATOR, "%s: %s must be a list of ids",
                          name, what);
    weir_text *list = weir__allocate(env, found, sizeof *list);
    if (!list)
        return weir__out_of_memory(error, WEIR_PLAN__PREPARE_OPERATOR, found * sizeof *list);
    it = weir_cbor_children(value);
    for (size_t i = 0; weir_cbor_next(&it, NULL, &item); i++)
        list[i] = weir_plan__text_of(&item);
    *texts = list;
    *count = found;
    return WEIR_OK;
}
