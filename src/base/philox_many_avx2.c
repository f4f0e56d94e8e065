/* Philox side by side for x86-64 with AVX2. */
#if defined(__x86_64__)
#define PHILOX_LANES  4
#define PHILOX_KERNEL weir__philox_many_avx2
#include "base/philox_many_kernel.h"
#else
typedef int weir__no_philox_avx2;
#endif
