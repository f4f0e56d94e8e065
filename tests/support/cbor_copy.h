/* Writes a value that is viewed through the writer, item by item: what the reader accepts, the writer must
 * write again to the same bytes. */
#ifndef WEIR_TESTS_CBOR_COPY_H
#define WEIR_TESTS_CBOR_COPY_H

#include "weir_tool/documents.h"

static inline void copy_view(weir_cbor_writer *w, const weir_cbor_value *value) {
    weir_cbor_iterator it = weir_cbor_children(value);
    weir_cbor_value key, child;
    switch (value->type) {
    case WEIR_CBOR_UINT:
        weir_cbor_uint(w, value->number);
        break;
    case WEIR_CBOR_NEGATIVE:
        weir_cbor_negative(w, value->number);
        break;
    case WEIR_CBOR_BYTES:
        weir_cbor_bytes(w, value->data, (size_t)value->number);
        break;
    case WEIR_CBOR_TEXT:
        weir_cbor_text_n(w, (const char *)value->data, (size_t)value->number);
        break;
    case WEIR_CBOR_BOOL:
        weir_cbor_bool(w, value->number != 0);
        break;
    case WEIR_CBOR_NULL:
        weir_cbor_null(w);
        break;
    case WEIR_CBOR_FLOAT:
        weir_cbor_double(w, value->real);
        break;
    case WEIR_CBOR_ARRAY:
        weir_cbor_array(w, value->number);
        while (weir_cbor_next(&it, NULL, &child))
            copy_view(w, &child);
        break;
    case WEIR_CBOR_MAP:
        weir_cbor_map(w, value->number);
        while (weir_cbor_next(&it, &key, &child)) {
            copy_view(w, &key);
            copy_view(w, &child);
        }
        break;
    }
}

#endif
