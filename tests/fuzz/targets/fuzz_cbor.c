/* Any bytes, as CBOR and as JSON. What the checker accepts encodes again to the same bytes and can be
 * shown; what it refuses, it refuses at a place inside the input. What the JSON reader accepts is
 * canonical. */
#include "require.h"

#include <string.h>

#include "support/cbor_copy.h"

static void require_same_encoding(const uint8_t *data, size_t size) {
    weir_cbor_writer w;
    weir_cbor_value value = weir_cbor_view(data);
    require(weir_cbor_skip(data) == data + size);
    weir_cbor_writer_memory(&w, NULL);
    copy_view(&w, &value);
    require(weir_cbor_finish(&w, NULL) == WEIR_OK);
    require(w.size == size && memcmp(w.data, data, size) == 0);
    weir_cbor_release(&w);
}

static void require_showable(const uint8_t *data) {
    weir_json_writer w;
    weir_cbor_value value = weir_cbor_view(data);
    weir_json_writer_memory(&w, NULL);
    weir_json_value(&w, &value);
    require(weir_json_finish(&w, NULL) == WEIR_OK);
    require(w.data[w.size] == 0 && strlen(w.data) == w.size);
    weir_json_release(&w);
}

static void try_cbor(const uint8_t *data, size_t size) {
    weir_error error;
    size_t item_size;
    weir_status prefix = weir_cbor_check(data, size, &item_size, NULL);
    if (prefix == WEIR_OK) {
        require(item_size > 0 && item_size <= size);
        require_same_encoding(data, item_size);
        require_showable(data);
    }
    weir_status status = weir_cbor_check(data, size, NULL, &error);
    require((status == WEIR_OK) == (prefix == WEIR_OK && item_size == size));
    if (status != WEIR_OK) {
        require(status == WEIR_CBOR_INVALID && error.diagnostics[0].number <= size);
        require(prefix != WEIR_OK || error.diagnostics[0].number == item_size);
    }
}

static void try_json(const uint8_t *data, size_t size) {
    weir_error error;
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, NULL);
    weir_status status = weir_json_read((const char *)data, size, "input", WEIR_CBOR_INVALID, &w, &error);
    require(status == WEIR_OK || status == WEIR_CBOR_INVALID);
    if (status == WEIR_OK) {
        require(weir_cbor_finish(&w, NULL) == WEIR_OK);
        require(weir_cbor_check(w.data, w.size, NULL, NULL) == WEIR_OK);
        require_same_encoding(w.data, w.size);
        require_showable(w.data);
    }
    weir_cbor_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    try_cbor(data, size);
    try_json(data, size);
    return 0;
}
