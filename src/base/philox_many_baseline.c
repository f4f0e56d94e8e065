/* Philox side by side for any machine of the architecture, and the choice of the kernel. */
#define PHILOX_LANES  2
#define PHILOX_KERNEL weir__philox_many_baseline
#include "base/philox_kernel.h"

weir__philox_kernel *weir__philox_many_best(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return weir__philox_many_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
        return weir__philox_many_avx2;
#endif
    return weir__philox_many_baseline;
}
