/* The fill kernels for any machine of the architecture. */
#define FILL_LANES   2
#define FILL_NAME    "baseline"
#define FILL_KERNELS weir_sampler__fill_baseline
#include "sampler/fill_kernel.h"
