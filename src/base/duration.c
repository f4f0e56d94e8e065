/* See duration.h. */
#include "base/duration.h"
#include "base/ascii.h"

#include <string.h>

bool weir__duration_parse(const char *text, size_t size, int64_t *micros) {
    static const struct {
        const char *name;
        uint64_t micros;
    } units[] = {{"us", 1},          {"ms", 1000},        {"s", 1000000},      {"m", 60000000},
                 {"h", 3600000000u}, {"d", 86400000000u}, {"w", 604800000000u}};
    uint64_t number = 0, each = 0;
    size_t digits = 0;
    for (; digits < size && weir__is_digit(text[digits]); digits++)
        if (__builtin_mul_overflow(number, 10u, &number) ||
            __builtin_add_overflow(number, (uint64_t)(text[digits] - '0'), &number))
            return false;
    for (size_t i = 0; i < sizeof units / sizeof *units && digits > 0; i++)
        if (strlen(units[i].name) == size - digits &&
            memcmp(units[i].name, text + digits, size - digits) == 0)
            each = units[i].micros;
    if (each == 0 || __builtin_mul_overflow(number, each, &number) || number >= INT64_MAX)
        return false;
    *micros = (int64_t)number;
    return true;
}
