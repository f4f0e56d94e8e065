/* The choice among children for x86-64 with AVX2. */
#if defined(__x86_64__)
#define PHILOX_LANES  4
#define CHOOSE_LANES  8
#define CHOOSE_KERNEL weir_batch__choose_narrow_avx2
#include "batch/choose_kernel.h"
#else
typedef int weir_batch__no_choose_avx2;
#endif
