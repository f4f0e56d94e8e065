/* Bytes in files and hashes have a defined order: these are the only conversions between integers and
 * bytes. Each compiles to one load or store (and a swap where the machine's order is the other one). */
#ifndef WEIR_BASE_BYTES_H
#define WEIR_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

#include "base/narrow.h"

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WEIR__LE16(x) (x)
#define WEIR__LE32(x) (x)
#define WEIR__LE64(x) (x)
#define WEIR__BE16(x) __builtin_bswap16(x)
#define WEIR__BE32(x) __builtin_bswap32(x)
#define WEIR__BE64(x) __builtin_bswap64(x)
#else
#define WEIR__LE16(x) __builtin_bswap16(x)
#define WEIR__LE32(x) __builtin_bswap32(x)
#define WEIR__LE64(x) __builtin_bswap64(x)
#define WEIR__BE16(x) (x)
#define WEIR__BE32(x) (x)
#define WEIR__BE64(x) (x)
#endif

#define WEIR__DEFINE_ACCESS(suffix, type, convert)                                                           \
    static inline type weir__load##suffix(const void *from) {                                                \
        type value;                                                                                          \
        memcpy(&value, from, sizeof value);                                                                  \
        return convert(value);                                                                               \
    }                                                                                                        \
    static inline void weir__store##suffix(void *to, type value) {                                           \
        value = convert(value);                                                                              \
        memcpy(to, &value, sizeof value);                                                                    \
    }

WEIR__DEFINE_ACCESS(16, uint16_t, WEIR__LE16)
WEIR__DEFINE_ACCESS(32, uint32_t, WEIR__LE32)
WEIR__DEFINE_ACCESS(64, uint64_t, WEIR__LE64)
WEIR__DEFINE_ACCESS(16be, uint16_t, WEIR__BE16)
WEIR__DEFINE_ACCESS(32be, uint32_t, WEIR__BE32)
WEIR__DEFINE_ACCESS(64be, uint64_t, WEIR__BE64)

#undef WEIR__DEFINE_ACCESS

#endif
