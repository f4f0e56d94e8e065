/* See floating.h. */
#include "base/floating.h"

static __attribute__((noinline)) void divide(uint64_t a, uint64_t b, double *out) {
    *out = (double)a / (double)b;
}

double weir__quotient(uint64_t a, uint64_t b) {
    double quotient;
    weir__floating kept = weir__enter_floating();
    divide(a, b, &quotient);
    weir__leave_floating(&kept);
    return quotient;
}
