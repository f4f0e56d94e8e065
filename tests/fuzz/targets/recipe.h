/* An input that is taken byte by byte, as the recipe of what a target makes. */
#ifndef WEIR_TESTS_FUZZ_RECIPE_H
#define WEIR_TESTS_FUZZ_RECIPE_H

#include <stddef.h>
#include <stdint.h>

typedef struct recipe {
    const uint8_t *data;
    size_t size;
} recipe;

/* The next byte; zeros after the end. */
static inline uint8_t take(recipe *r) {
    if (r->size == 0)
        return 0;
    r->size--;
    return *r->data++;
}

#endif
