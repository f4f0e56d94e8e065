/* Fuzzes the reader of schemas. */
#include "weir/weir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weir_error error;
    weir_status status = weir_schema_check(NULL, (const char *)data, size, "fuzz", &error);
    if (status != WEIR_OK && status != WEIR_SCHEMA_INVALID && status != WEIR_TASK_INVALID &&
        status != WEIR_OUT_OF_MEMORY)
        __builtin_trap();
    return 0;
}
