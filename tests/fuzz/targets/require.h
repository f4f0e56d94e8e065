/* A property that must hold for every input: its failure ends the process, which is what a fuzzer looks
 * for. */
#ifndef WEIR_TESTS_FUZZ_REQUIRE_H
#define WEIR_TESTS_FUZZ_REQUIRE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define require(property)                                                                                    \
    do {                                                                                                     \
        if (!(property)) {                                                                                   \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #property);                    \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
