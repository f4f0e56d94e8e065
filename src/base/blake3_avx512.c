/* blake3_avx512.c: the BLAKE3 kernel of sixteen lanes, for x86-64 with AVX-512, whose rotation of words makes
 * it worth having narrower vectors of its own too. */
#if defined(__x86_64__)
#define HAS_ROTATION
#define KERNEL_LANES 16
#define KERNEL_NAME  "avx512"
#define KERNEL       weir__blake3_avx512
#include "base/blake3_lanes.h"
#endif
