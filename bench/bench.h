/* What the benchmarks share: a clock, "best of several" and one way to report. Machines are noisy, so a
 * figure is the best of its repeats, and what counts is the ratio to a limit that was measured in the same
 * run. */
#ifndef WEIR_BENCH_H
#define WEIR_BENCH_H

#include <stddef.h>
#include <stdint.h>

#include "weir/base.h"

double bench_now(void);  /* seconds of processor time, all threads: other processes do not count */
double bench_wall(void); /* seconds on the wall, for what several threads do */

/* Ends the program with the error's message unless the status is OK. */
void bench_check(weir_status status, const weir_error *error);

/* The least seconds of `repeats` calls. */
double bench_best(int repeats, void (*work)(void *), void *context);

/* Prints one row as a JSON line. `limit` is what the value is held against (0: nothing), as "value is ratio
 * of limit"; `bar` is what the ratio or the value must reach, as text for people. */
void bench_report(const char *name, double value, const char *unit, const char *limit_name, double limit,
                  const char *bar);

/* Keeps the compiler from dropping a result. */
void bench_keep(uint64_t value);

#endif
