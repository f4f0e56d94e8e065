/* A property that must hold for every input: its failure ends the process, which is what a fuzzer looks for.
 * And an environment's start_thread that starts none, so that the caller does all the work. */
#ifndef WEIR_TESTS_FUZZ_REQUIRE_H
#define WEIR_TESTS_FUZZ_REQUIRE_H

#include <errno.h>
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

static inline int refuse_thread(void *context, void *(*run)(void *), void *argument, uintptr_t *thread) {
    (void)context, (void)run, (void)argument, (void)thread;
    return EAGAIN;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
