/* See options.h. */
#include "base/options.h"

#include <string.h>

weir_status weir__take_options(void *own, size_t own_size, const void *given, const char *type,
                               const char *failure_operator, weir_error *error) {
    size_t size = own_size;
    memset(own, 0, own_size);
    if (given) {
        memcpy(&size, given, sizeof size);
        if (size <= sizeof size)
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, failure_operator,
                              "%s.size is %zu; set it to sizeof(%s)", type, size, type);
        memcpy(own, given, size < own_size ? size : own_size);
    }
    for (size_t i = own_size; i < size; i++)
        if (((const uint8_t *)given)[i] != 0)
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, failure_operator,
                              "%s has options that weir %s does not know: its size is %zu, not %zu", type,
                              weir_version(), size, own_size);
    memcpy(own, &own_size, sizeof own_size);
    return WEIR_OK;
}
