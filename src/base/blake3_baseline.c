/* blake3_baseline.c: the BLAKE3 kernel of four lanes, which every processor of the architecture runs. */
#define KERNEL_LANES 4
#define KERNEL_NAME  "baseline"
#define KERNEL       weir__blake3_baseline
#include "base/blake3_lanes.h"
