/* blake3_avx2.c: the BLAKE3 kernel of eight lanes, for x86-64 with AVX2. */
#if defined(__x86_64__)
#define HAS_BYTE_SHUFFLE
#define KERNEL_LANES 8
#define KERNEL_NAME  "avx2"
#define KERNEL       weir__blake3_avx2
#include "base/blake3_lanes.h"
#endif
