/* The choice among children for any machine of the architecture. */
#define PHILOX_LANES  2
#define CHOOSE_LANES  4
#define CHOOSE_KERNEL weir_batch__choose_narrow_baseline
#include "batch/choose_kernel.h"
