/* BLAKE3 with each kernel that this processor can run, against reading the same bytes with memcpy: hashing
 * short and long inputs, and extended output. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/blake3_kernel.h"
#include "bench.h"

enum { BYTES = 32 << 20 };

typedef struct job {
    const weir__blake3_kernel *kernel; /* NULL: copy */
    uint8_t *from, *to;
    size_t size;
    bool expands;
} job;

static void run_once(const job *j) {
    weir__blake3 hasher;
    if (!j->kernel) {
        memcpy(j->to, j->from, j->size);
        __asm__ volatile("" ::"r"(j->to) : "memory");
        return;
    }
    weir__blake3_init(&hasher);
    if (!j->expands)
        weir__blake3_update_with(j->kernel, &hasher, j->from, j->size);
    weir__blake3_final_seek_with(j->kernel, &hasher, 0, j->to, j->expands ? j->size : 32);
}

static void run(void *context) {
    const job *j = context;
    for (size_t i = 0; i < BYTES / j->size; i++)
        run_once(j);
}

static double rate(const job *j) {
    job copy = *j;
    return BYTES / bench_best(5, run, &copy) / 1e9;
}

int main(void) {
    static const size_t sizes[] = {1024, 65536, 16 << 20};
    uint8_t *from = malloc(16 << 20), *to = malloc(16 << 20);
    if (!from || !to)
        return 1;
    memset(from, 7, 16 << 20);
    memset(to, 7, 16 << 20);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        double copied = rate(&(job){.from = from, .to = to, .size = sizes[s]});
        for (size_t k = 0; weir__blake3_kernel_at(k); k++) {
            const weir__blake3_kernel *kernel = weir__blake3_kernel_at(k);
            char name[64];
            snprintf(name, sizeof name, "hash, %s, %zu KiB", kernel->name, sizes[s] / 1024);
            bench_report(name, rate(&(job){kernel, from, to, sizes[s], false}), "GB/s", "memcpy", copied,
                         NULL);
        }
    }
    bench_report("extended output, best kernel, 16 MiB",
                 rate(&(job){weir__blake3_kernel_best(), from, to, 16 << 20, true}), "GB/s", NULL, 0, NULL);
    free(from);
    free(to);
    return 0;
}
