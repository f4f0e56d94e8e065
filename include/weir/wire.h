/* weir/wire.h: a batch in few bytes, for the way to a device, and its expansion to the very same tensors
 * (docs/devices.md).
 *
 *   weir_batch_build(builder, cursor, buffer, &error);
 *   weir_wire_pack(buffer, wire, capacity, &size, &error);      // 13 bytes a cell instead of 95 and more
 *   weir_wire_expand(wire, out);                                // byte for byte
 * weir_batch_view(buffer)->data
 *
 * The form is for one run of one version: it is no file format. */
#ifndef WEIR_WIRE_H
#define WEIR_WIRE_H

#include "weir/batch.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The most bytes that a batch of a buffer of that capacity (weir_batch_capacity) takes on the wire. */
WEIR_API uint64_t weir_wire_capacity(uint64_t batch_capacity);

/* Packs the batch that was built last. `wire` is 8-byte aligned. Any thread that may read the buffer.
 * CONTRACT_VIOLATION where the room is too little. */
WEIR_API WEIR_CHECKED weir_status weir_wire_pack(const weir_batch_buffer *buffer, void *wire,
                                                 uint64_t capacity, uint64_t *size, weir_error *error);

/* The bytes that the expansion of a packed batch has: weir_batch.size; and the expansion, on the host. */
WEIR_API uint64_t weir_wire_batch_size(const void *wire);
WEIR_API void weir_wire_expand(const void *wire, void *out);

#ifdef __cplusplus
}
#endif
#endif
