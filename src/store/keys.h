/* Keys of rows, as the store keeps them (docs/format.md): order and soundness. */
#ifndef WEIR_STORE_KEYS_H
#define WEIR_STORE_KEYS_H

#include "store/format.h"

/* An integer against a real that is no int64: it is not whole, or beyond int64, so they are never equal. */
static inline int weir_store__compare_integer_with_real(int64_t integer, double real) {
    if (real >= 0x1p63)
        return -1;
    if (real < -0x1p63)
        return 1;
    int64_t whole = (int64_t)real;
    if (integer != whole)
        return integer < whole ? -1 : 1;
    return real > (double)whole ? -1 : 1;
}

/* Whether every key is one and they ascend; else *row is the first that is wrong. */
bool weir_store__keys_are_sound(const weir_store *store, const weir_table *table, uint32_t *row);

#endif
