/* The kernels of attention on the fake driver's device: the host's functions, on the device's addresses. */
#ifndef WEIR_TESTS_FAKE_ATTENTION_H
#define WEIR_TESTS_FAKE_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_ATTENTION_SIZE = 2048 };

/* The host's address of bytes of the device, or NULL, as an access that faults. */
typedef uint8_t *fake_bytes(uintptr_t address, size_t size);

/* The arguments of a launch, as they are when it is given. */
void fake_attention_copy(void *out, void *const *arguments, bool is_lists);
void fake_attention_lists(const void *given, fake_bytes *device_bytes);
void fake_attention_pass(const void *given, fake_bytes *device_bytes);
void fake_attention_long(const void *given, fake_bytes *device_bytes); /* the records of kind LONG alone */

#endif
