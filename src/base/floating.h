/* The host's floating-point state: how results are rounded, and whether numbers near zero are flushed to it
 * (torch.set_flush_denormal, libraries that are compiled with -ffast-math). It belongs to the thread, and
 * what weir computes must not depend on it: every public call that computes with floats does so between these
 * two, and gives the host its own state back.
 *
 *   weir__floating kept = weir__enter_floating();
 *   … a call of a function that computes (not inlined: compilers do not know about the state)
 *   weir__leave_floating(&kept);
 *
 * Threads that are started in between begin with the state of their starter. */
#ifndef WEIR_BASE_FLOATING_H
#define WEIR_BASE_FLOATING_H

#include <fenv.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct weir__floating {
    bool is_changed;
    fenv_t kept; /* if it was */
} weir__floating;

/* Whether the state is the one that every program begins with: to nearest, nothing flushed, no traps. A quick
 * look, because it nearly always is. */
static inline bool weir__floating_is_usual(void) {
#if defined(__x86_64__)
    uint16_t control = 0;
    __asm__ volatile("fnstcw %0" : "=m"(control));
    return (__builtin_ia32_stmxcsr() & 0xFFC0u) == 0x1F80u && (control & 0x0F3Fu) == 0x033Fu;
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control == 0;
#else
    return false;
#endif
}

static inline weir__floating weir__enter_floating(void) {
    weir__floating floating = {.is_changed = !weir__floating_is_usual()};
    if (floating.is_changed) {
        fegetenv(&floating.kept);
        fesetenv(FE_DFL_ENV);
    }
    __asm__ volatile("" ::: "memory");
    return floating;
}

static inline void weir__leave_floating(const weir__floating *floating) {
    __asm__ volatile("" ::: "memory");
    if (floating->is_changed)
        fesetenv(&floating->kept);
}

/* a / b, rounded to nearest, whatever the state. */
double weir__quotient(uint64_t a, uint64_t b);

#endif
