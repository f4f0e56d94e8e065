/* Philox side by side for x86-64 with AVX512. */
#if defined(__x86_64__)
#define PHILOX_LANES  8
#define PHILOX_KERNEL weir__philox_many_avx512
#include "base/philox_many_kernel.h"
#else
typedef int weir__no_philox_avx512;
#endif
