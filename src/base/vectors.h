/* Which of the instruction sets that kernels are compiled for this machine can run: the last one is the
 * fastest. (Sources say theirs in their file name; CMakeLists.txt compiles them for it.) */
#ifndef WEIR_BASE_VECTORS_H
#define WEIR_BASE_VECTORS_H

typedef enum weir__vectors { WEIR__BASELINE, WEIR__AVX2, WEIR__AVX512 } weir__vectors;

static inline weir__vectors weir__vectors_of_this_machine(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return WEIR__AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2"))
        return WEIR__AVX2;
#endif
    return WEIR__BASELINE;
}

#endif
