/* The fill kernels for x86-64 with AVX2. */
#if defined(__x86_64__)
#define FILL_LANES   4
#define FILL_NAME    "avx2"
#define FILL_KERNELS weir_sampler__fill_avx2
#include "sampler/fill_kernel.h"
#else
typedef int weir_sampler__no_avx2;
#endif
