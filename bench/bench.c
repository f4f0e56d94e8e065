/* See bench.h. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double bench_now(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

double bench_wall(void) {
    return read_clock(CLOCK_MONOTONIC);
}

void bench_check(weir_status status, const weir_error *error) {
    if (status == WEIR_OK)
        return;
    fprintf(stderr, "%s: %s\n", weir_status_name(status), error->message);
    exit(1);
}

double bench_best(int repeats, void (*work)(void *), void *context) {
    double best = 1e300;
    for (int i = 0; i < repeats; i++) {
        double begin = bench_now();
        work(context);
        double seconds = bench_now() - begin;
        best = seconds < best ? seconds : best;
    }
    return best;
}

void bench_report(const char *name, double value, const char *unit, const char *limit_name, double limit,
                  const char *bar) {
    printf("{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"", name, value, unit);
    if (limit > 0)
        printf(", \"limit\": \"%s\", \"limit_value\": %.6g, \"ratio\": %.4g", limit_name, limit,
               value / limit);
    if (bar && *bar)
        printf(", \"bar\": \"%s\"", bar);
    printf("}\n");
    fflush(stdout);
}

void bench_keep(uint64_t value) {
    __asm__ volatile("" ::"r"(value));
}
