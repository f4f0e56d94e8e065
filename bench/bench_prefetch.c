/* The prefetcher: trivial items a second, beside a bare ring between two threads that spin, and what a few
 * slow items cost under both policies.
 *
 * A trivial item writes its position into its slot: what is measured is the hand-over alone. Where items are
 * slow, each takes 4 ms and one of a hundred 40 ms. They sleep, as for a disk or a network, so that all
 * workers are at work at once whatever the number of processors. The consumer takes its time too: 80 % of
 * the workers' rate without slow items, as a training loop that is fed well; in one row it only takes. The
 * rings have two slots, the default: with ten, strict order would have enough to give while it waits for a
 * slow item. The more workers, the more of them wait with a full ring for the slow one under strict order:
 * so the rows go up to 32. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "bench.h"
#include "weir/weir.h"
#include "weir_tool/tools.h"

enum { TRIVIAL_ITEMS = 4000000, BARE_RING = 1024, TRIVIAL_RING = 1024, REPEATS = 5 };
enum { ITEM_NS = 4000000, SLOW_ITEM_NS = 10 * ITEM_NS, ONE_IN = 100, SLOW_ITEMS_A_WORKER = 200 };

static void stop(const char *what, const weir_error *error) {
    fprintf(stderr, "bench_prefetch: %s: %s\n", what, error->message);
    exit(1);
}

/* ---- A bare ring ----------------------------------------------------------------------------- */

typedef struct bare_ring {
    _Alignas(64) _Atomic uint64_t made;
    _Alignas(64) _Atomic uint64_t taken;
    _Alignas(64) uint64_t items[BARE_RING];
} bare_ring;

/* The other side may be waiting for this processor. */
static void give_way(unsigned looks) {
    if (looks % 256 == 0)
        sched_yield();
}

static void *fill_bare_ring(void *argument) {
    bare_ring *ring = argument;
    uint64_t taken = 0;
    for (uint64_t i = 0; i < TRIVIAL_ITEMS; i++) {
        for (unsigned looks = 1; i - taken == BARE_RING; looks++) {
            taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
            give_way(looks);
        }
        ring->items[i % BARE_RING] = i;
        atomic_store_explicit(&ring->made, i + 1, memory_order_release);
    }
    return NULL;
}

static double measure_bare_ring(void) {
    static bare_ring ring;
    pthread_t thread;
    uint64_t made = 0, sum = 0;
    atomic_store(&ring.made, 0);
    atomic_store(&ring.taken, 0);
    double begin = bench_wall();
    if (pthread_create(&thread, NULL, fill_bare_ring, &ring) != 0)
        exit(1);
    for (uint64_t i = 0; i < TRIVIAL_ITEMS; i++) {
        for (unsigned looks = 1; i == made; looks++) {
            made = atomic_load_explicit(&ring.made, memory_order_acquire);
            give_way(looks);
        }
        sum += ring.items[i % BARE_RING];
        atomic_store_explicit(&ring.taken, i + 1, memory_order_release);
    }
    double seconds = bench_wall() - begin;
    pthread_join(thread, NULL);
    bench_keep(sum);
    return TRIVIAL_ITEMS / seconds;
}

/* ---- The prefetcher -------------------------------------------------------------------------- */

static void sleep_for(uint64_t ns) {
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = (long)ns}, NULL);
}

static weir_status produce_trivial(void *context, const weir_item *item, weir_error *error) {
    (void)context;
    (void)error;
    *(uint64_t *)item->slot = item->position;
    return WEIR_OK;
}

static weir_status produce_slowly(void *context, const weir_item *item, weir_error *error) {
    /* Which items are slow is scattered, and the same in every run. */
    uint64_t mixed = (item->position + 1) * 0x9E3779B97F4A7C15u;
    bool is_slow = (mixed ^ mixed >> 29) * 0xBF58476D1CE4E5B9u >> 32 < (UINT64_C(1) << 32) / ONE_IN;
    clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = is_slow ? SLOW_ITEM_NS : ITEM_NS},
                    NULL);
    return produce_trivial(context, item, error);
}

typedef struct measured {
    double rate;
    double wait_share;
} measured;

/* Takes everything and works for a while with each item; items a second, and the consumer's share of
 * sleep. */
static measured measure(const weir_prefetch_options *options, uint64_t work_ns) {
    weir_prefetch *prefetch;
    weir_error error;
    weir_item item;
    weir_prefetch_metrics metrics;
    uint64_t sum = 0;
    double begin = bench_wall();
    if (weir_prefetch_open(NULL, options, &prefetch, &error) != WEIR_OK)
        stop("open", &error);
    for (;;) {
        if (weir_prefetch_next(prefetch, &item, &error) != WEIR_OK)
            stop("next", &error);
        if (!item.slot)
            break;
        sum += *(uint64_t *)item.slot;
        if (work_ns > 0)
            sleep_for(work_ns);
        weir_prefetch_release(prefetch, &item);
    }
    double seconds = bench_wall() - begin;
    weir_prefetch_measure(prefetch, &metrics, NULL);
    weir_prefetch_close(prefetch);
    bench_keep(sum);
    return (measured){(double)options->source.length / seconds,
                      (double)metrics.consumer_wait_ns * 1e-9 / seconds};
}

static measured best_of(const weir_prefetch_options *options, int repeats, uint64_t work_ns) {
    measured best = {0};
    for (int i = 0; i < repeats; i++) {
        measured one = measure(options, work_ns);
        if (one.rate > best.rate)
            best = one;
    }
    return best;
}

static void report_trivial(weir_policy policy, uint32_t workers, double bare) {
    char name[96];
    weir_prefetch_options options = {.size = sizeof options,
                                     .source = {.length = TRIVIAL_ITEMS, .produce = produce_trivial},
                                     .epochs = 1,
                                     .policy = policy,
                                     .workers = workers,
                                     .buffer_size = TRIVIAL_RING,
                                     .slot_size = sizeof(uint64_t)};
    bool has_bar = policy == WEIR_POLICY_STRICT && workers == 2;
    snprintf(name, sizeof name, "trivial items, %s, workers %u", weir_policy_name(policy), workers);
    bench_report(name, best_of(&options, REPEATS, 0).rate, "items/s", "a bare ring", bare,
                 has_bar ? "at least 1,000,000 items/s" : "");
}

/* work_share: of the workers' rate; 0: the consumer only takes. */
static measured measure_slow(weir_policy policy, uint32_t workers, double work_share) {
    weir_prefetch_options options = {
        .size = sizeof options,
        .source = {.length = (uint64_t)workers * SLOW_ITEMS_A_WORKER, .produce = produce_slowly},
        .epochs = 1,
        .policy = policy,
        .workers = workers,
        .slot_size = sizeof(uint64_t)};
    return measure(&options, work_share > 0 ? (uint64_t)(ITEM_NS / workers / work_share) : 0);
}

static void report_slow(uint32_t workers, double work_share, const char *bar) {
    char name[128];
    const char *consumer = work_share > 0 ? "" : ", only taking";
    measured strict = measure_slow(WEIR_POLICY_STRICT, workers, work_share);
    measured best_effort = measure_slow(WEIR_POLICY_BEST_EFFORT, workers, work_share);
    snprintf(name, sizeof name, "1 %% slow, %u workers%s, strict", workers, consumer);
    bench_report(name, strict.rate, "items/s", "", 0, "");
    snprintf(name, sizeof name, "1 %% slow, %u workers%s, best_effort", workers, consumer);
    bench_report(name, best_effort.rate, "items/s", "strict", strict.rate, bar);
    bench_report("  the consumer's share of waiting, strict", strict.wait_share, "of time", "", 0, "");
    bench_report("  the consumer's share of waiting, best_effort", best_effort.wait_share, "of time",
                 "strict", strict.wait_share, "");
}

/* With the argument "trivial": that alone. */
int main(int argument_count, char **arguments) {
    (void)prctl(PR_SET_TIMERSLACK, 1); /* sleeps as long as they say; threads inherit it */
    double bare = 0;
    for (int i = 0; i < REPEATS; i++) {
        double rate = measure_bare_ring();
        bare = rate > bare ? rate : bare;
    }
    bench_report("a bare ring of 1024 between two threads that spin", bare, "items/s", "", 0, "");
    for (int policy = 0; policy < 2; policy++)
        for (uint32_t workers = 1; workers <= 4; workers *= 2)
            report_trivial((weir_policy)policy, workers, bare);
    if (argument_count > 1 && strcmp(arguments[1], "trivial") == 0)
        return 0;
    report_slow(8, 0.8, "");
    report_slow(16, 0.8, "");
    report_slow(32, 0.8, "at least 1.5 x strict");
    report_slow(32, 0, "");
    return 0;
}
