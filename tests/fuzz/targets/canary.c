/* A target with a bug in it, found by one input of its corpus: its replay must fail, and a fuzzer must find
 * it in no time. If it passes, nothing that the other targets say is worth anything. */
#include "require.h"

#include "weir_tool/documents.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (weir_cbor_check(data, size, NULL, NULL) != WEIR_OK)
        return 0;
    weir_cbor_value value = weir_cbor_view(data);
    require(value.type != WEIR_CBOR_MAP || value.number != 1);
    return 0;
}
