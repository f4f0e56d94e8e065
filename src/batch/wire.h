/* The wire form: a batch without what can be said in fewer bytes. Cells lie without padding between
 * sequences; each has its type, null and bool in one byte, one value (only the tensor of its type has one)
 * and its column's number; timestamps are microseconds, which the expansion makes floats of; rows have
 * their place in the permutations; edges are pairs; texts are as they are. */
#ifndef WEIR_SRC_BATCH_WIRE_H
#define WEIR_SRC_BATCH_WIRE_H

#include "weir/wire.h"

/* The expansion as CUDA C (not terminated): extern "C" __global__ weir_expand(wire, out), a column of the
 * grid (x) a sequence. And the same on the host: the arguments' addresses. */
#define WEIR__EXPAND_NAME "weir_expand"
extern const unsigned char weir__expand_text[];
extern const size_t weir__expand_text_size;
void weir__expand_run(void *const *arguments);

#endif
