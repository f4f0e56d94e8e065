/* Runs independent pieces of work on several threads. */
#ifndef WEIR_BASE_PARALLEL_H
#define WEIR_BASE_PARALLEL_H

#include "base/internal.h"

enum { WEIR__THREADS_MAX = 256 };

/* Calls run(context, i, worker) for every i below count, on up to `threads` threads, the caller's among
 * them; `worker` is below `threads` and no two calls with one worker overlap. Pieces are taken in order. A
 * thread that cannot be started is done without. */
void weir__parallel(const weir_env *env, uint32_t threads, size_t count,
                    void (*run)(void *context, size_t index, uint32_t worker), void *context);

/* The number of threads to use if the caller says 0. */
uint32_t weir__threads_or_processors(uint32_t threads);

#endif
