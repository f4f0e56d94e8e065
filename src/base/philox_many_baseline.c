/* Philox side by side for any machine of the architecture, and the choice of the kernel. */
#define PHILOX_LANES  2
#define PHILOX_KERNEL weir__philox_many_baseline
#include "base/philox_many_kernel.h"
#include "base/vectors.h"

weir__philox_kernel *weir__philox_many_best(void) {
#if defined(__x86_64__)
    weir__vectors vectors = weir__vectors_of_this_machine();
    if (vectors != WEIR__BASELINE)
        return vectors == WEIR__AVX512 ? weir__philox_many_avx512 : weir__philox_many_avx2;
#endif
    return weir__philox_many_baseline;
}
