/* The choice among children for x86-64 with AVX512. */
#if defined(__x86_64__)
#define PHILOX_LANES  8
#define CHOOSE_LANES  16
#define CHOOSE_KERNEL weir_batch__choose_narrow_avx512
#include "batch/choose_kernel.h"
#else
typedef int weir_batch__no_choose_avx512;
#endif
