/* The fill kernels for x86-64 with AVX512. */
#if defined(__x86_64__)
#define FILL_LANES   8
#define FILL_NAME    "avx512"
#define FILL_KERNELS weir_sampler__fill_avx512
#include "sampler/fill_kernel.h"
#else
typedef int weir_sampler__no_avx512;
#endif
