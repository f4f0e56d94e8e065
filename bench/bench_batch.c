/* The batch builder against its limit: the bytes of a batch written once. On the demo shop, with batches of
 * 32 sequences into a ring of buffers: in the compact form, which is what goes to a device; its expansion to
 * tensors; and both. Beside it, in the same run and in turns, memcpy and memset of the tensors' bytes. Then
 * the same at several lengths and sizes of the database, and with two threads.
 *
 *   bench_batch            shops of 10^5 and 10^6 rows, made once beside the program; with
 *                          WEIR_BENCH_LARGE=1, or where it was made before, one of 10^7 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batches.h"
#include "bench.h"

enum { ROUNDS = 12 };

/* ---- The limit ------------------------------------------------------------------------------- */

typedef struct limit {
    const batches *from;
    uint8_t *to; /* BATCHES_RING places of `size` bytes */
    size_t size;
} limit;

static void copy(void *context) {
    limit *l = context;
    for (int i = 0; i < l->from->count; i++) {
        uint8_t *to = l->to + (size_t)(i % BATCHES_RING) * l->size;
        memcpy(to, weir_batch_view(l->from->ring[i % BATCHES_RING])->data, l->size);
        bench_keep(to[l->size - 1]);
    }
}

static void clear(void *context) {
    limit *l = context;
    for (int i = 0; i < l->from->count; i++) {
        uint8_t *to = l->to + (size_t)(i % BATCHES_RING) * l->size;
        memset(to, i, l->size);
        bench_keep(to[l->size - 1]);
    }
}

/* ---- One core -------------------------------------------------------------------------------- */

typedef struct seconds {
    double compact, expand, both, copy, clear; /* of one round */
} seconds;

static void keep_least(double *least, double value) {
    if (*least == 0 || value < *least)
        *least = value;
}

/* In turns, so that what disturbs one disturbs all. */
static seconds measure(batches *b) {
    seconds least = {0};
    batches_count(b);
    batches_build_compact(b);
    limit l = {.from = b, .size = (size_t)(b->bytes / (uint64_t)b->count)};
    l.to = malloc(BATCHES_RING * l.size);
    if (!l.to)
        exit(1);
    memset(l.to, 1, BATCHES_RING * l.size);
    for (int i = 0; i < ROUNDS; i++) {
        keep_least(&least.compact, bench_best(1, batches_build_compact, b));
        keep_least(&least.both, bench_best(1, batches_build, b));
        keep_least(&least.expand, bench_best(1, batches_expand, b));
        keep_least(&least.copy, bench_best(1, copy, &l));
        keep_least(&least.clear, bench_best(1, clear, &l));
    }
    free(l.to);
    return least;
}

static void bench(const batches_store *store, const char *dataset, uint32_t length, const char *label,
                  const char *bar) {
    batches b;
    char name[128];
    batches_open(&b, store, dataset, length, "rcm", length > 2000 ? 16 : 32);
    seconds s = measure(&b);
    double count = (double)b.count, sequences = (double)b.sequences;
    snprintf(name, sizeof name, "%s, S %u, %s", dataset, length, label);
    bench_report(name, (double)b.bytes / s.both / 1e9, "GB/s", "memcpy", (double)b.bytes / s.copy / 1e9, bar);
    snprintf(name, sizeof name, "  batches of %.2f MB", (double)b.bytes / count / 1e6);
    bench_report(name, count / s.both, "batches/s", "memset", count / s.clear, NULL);
    snprintf(name, sizeof name, "  compact, %.3f MB", (double)b.compact_bytes / count / 1e6);
    bench_report(name, count / s.compact, "batches/s", "with tensors", count / s.both, NULL);
    snprintf(name, sizeof name, "  a sequence of %.0f cells, %.0f rows: compact", (double)b.cells / sequences,
             (double)b.rows / sequences);
    bench_report(name, s.compact / sequences * 1e6, "us", "with tensors", s.both / sequences * 1e6, NULL);
    bench_report("  expanding it", s.expand / sequences * 1e6, "us", "with tensors", s.both / sequences * 1e6,
                 NULL);
    batches_close(&b);
}

/* The processor time of a sequence; what it is held against, if that is not 0, is another's. */
static double bench_sequence(const batches_store *store, const char *label, double other, const char *bar) {
    batches b;
    char name[128];
    batches_open(&b, store, "shop/churn/train", 1024, "rcm", 32);
    batches_count(&b);
    batches_build_compact(&b);
    double micros = bench_best(ROUNDS, batches_build_compact, &b) / (double)b.sequences * 1e6;
    snprintf(name, sizeof name, "a sequence, compact, S 1024, %s", label);
    bench_report(name, micros, "us", "10^5 rows", other, bar);
    batches_close(&b);
    return micros;
}

/* ---- Two cores ------------------------------------------------------------------------------- */

static void *build_rounds(void *context) {
    for (int i = 0; i < ROUNDS / 2; i++)
        batches_build(context);
    return NULL;
}

/* Sequences a second on the wall, each thread with a builder of its own. */
static double rate_of_threads(const batches_store *store, int threads) {
    enum { MOST = 2 };
    batches b[MOST];
    pthread_t ids[MOST];
    uint64_t sequences = 0;
    for (int i = 0; i < threads; i++) {
        batches_open(&b[i], store, "shop/churn/train", 1024, "rcm", 32);
        batches_count(&b[i]);
    }
    double begin = bench_wall();
    for (int i = 0; i < threads; i++)
        if (pthread_create(&ids[i], NULL, build_rounds, &b[i]) != 0)
            exit(1);
    for (int i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    double wall = bench_wall() - begin;
    for (int i = 0; i < threads; i++) {
        sequences += b[i].sequences * (ROUNDS / 2);
        batches_close(&b[i]);
    }
    return (double)sequences / wall;
}

static void bench_threads(const batches_store *store) {
    double one = rate_of_threads(store, 1);
    bench_report("1 thread, on the wall", one, "sequences/s", NULL, 0, NULL);
    bench_report("2 threads, on the wall", rate_of_threads(store, 2), "sequences/s", "1 thread", one, NULL);
}

/* ---- What verifying costs -------------------------------------------------------------------- */

static void verify_all(void *context) {
    weir_error error;
    bench_check(weir_store_verify(context, 1, &error), &error);
}

/* After warm-up every block has been verified: what is left is a look at its bit. In turns. */
static void bench_verify(const batches_store *store) {
    batches trusting, touching;
    double trusted = 0, touched = 0;
    batches_open_as(&trusting, store, WEIR_VERIFY_NONE, "shop/churn/train", 1024, "rcm", 32);
    batches_open_as(&touching, store, WEIR_VERIFY_TOUCHED, "shop/churn/train", 1024, "rcm", 32);
    batches_build(&trusting);
    double first = bench_best(1, batches_build, &touching);
    for (int i = 0; i < 3 * ROUNDS; i++) {
        keep_least(&trusted, bench_best(1, batches_build, &trusting));
        keep_least(&touched, bench_best(1, batches_build, &touching));
    }
    double sequences = (double)touching.sequences;
    bench_report("verify touched, after warm-up", sequences / touched, "sequences/s", "verify none",
                 sequences / trusted, "98 %");
    bench_report("verify touched, the first 32 batches", first * 1e3, "ms", "after warm-up", touched * 1e3,
                 NULL);
    double bytes = (double)weir_store_describe(touching.store)->file_size;
    bench_report("verify all, 1 thread", bytes / bench_best(2, verify_all, touching.store) / 1e9, "GB/s",
                 NULL, 0, NULL);
    batches_close(&touching);
    batches_close(&trusting);
}

int main(int argc, char **argv) {
    (void)argc;
    batches_store small = batches_make_shop(argv[0], 100000);
    batches_store middle = batches_make_shop(argv[0], 1000000);
    bench(&middle, "shop/churn/train", 1024, "10^6 rows", "25 %");
    bench(&middle, "shop/churn/train", 256, "10^6 rows", NULL);
    bench(&middle, "shop/churn/train", 8192, "10^6 rows", NULL);
    bench(&middle, "shop/category/train", 1024, "10^6 rows", NULL);
    bench_verify(&middle);
    bench_threads(&middle);
    double least = bench_sequence(&small, "10^5 rows", 0, NULL);
    bench_sequence(&middle, "10^6 rows", least, "1.3 x beyond cache misses");
    batches_store large = batches_locate(argv[0], "shop_10000000/shop");
    if (batches_want_large() || batches_exists(&large)) {
        large = batches_make_shop(argv[0], 10000000);
        bench_sequence(&large, "10^7 rows", least, "1.3 x beyond cache misses");
    }
    return 0;
}
