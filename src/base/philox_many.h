/* Philox draws side by side: 16 at a time, one in each lane, for whoever draws in a row. Written once,
 * compiled for each instruction set; the numbers are those of weir__philox_block. */
#ifndef WEIR_BASE_PHILOX_MANY_H
#define WEIR_BASE_PHILOX_MANY_H

#include "weir_tool/philox.h"

enum { WEIR__DRAWS = 16 };

typedef struct weir__draws {
    uint64_t k0[WEIR__DRAWS];
    uint64_t k1[WEIR__DRAWS];
} weir__draws;

/* Draw i is P(seed with word 2 xor (first + i), domain, n). */
typedef void weir__philox_kernel(weir_seed seed, uint32_t domain, uint64_t n, uint32_t first,
                                 weir__draws *out);

void weir__philox_many_baseline(weir_seed seed, uint32_t domain, uint64_t n, uint32_t first,
                                weir__draws *out);
#if defined(__x86_64__)
void weir__philox_many_avx2(weir_seed seed, uint32_t domain, uint64_t n, uint32_t first, weir__draws *out);
void weir__philox_many_avx512(weir_seed seed, uint32_t domain, uint64_t n, uint32_t first, weir__draws *out);
#endif

/* The fastest that this machine can run. */
weir__philox_kernel *weir__philox_many_best(void);

#endif
