/* Runs against their limits: the run's batches beside those of as many bare builders in as many threads,
 * which know of no order and hand nothing over; the first of the large batches that workers build together;
 * and how long a run takes from the start of the program to its first batch, at step 0 and resumed at step
 * 10^12. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "weir/weir.h"

enum { WORKERS_MAX = 2, RING = 3, BATCHES = 400, REPEATS = 5, STARTS = 15 };

static const uint64_t late_step = 1000000000000;

typedef struct shop {
    char folder[32], store_path[64], manifest_path[64];
    weir_store *store;
    weir_manifest *manifest;
} shop;

/* ---- Bare builders --------------------------------------------------------------------------- */

typedef struct builder_thread {
    weir_mix *mix;
    weir_batch_builder **builders; /* by the datasets' place in the manifest; NULL if it has no steps */
    weir_batch_buffer *ring[RING];
    const weir_manifest *manifest;
    uint32_t number, threads;
} builder_thread;

static void open_builders(builder_thread *t, const shop *s, uint32_t number, uint32_t threads) {
    weir_error error;
    size_t count = weir_manifest_describe(s->manifest)->dataset_count;
    weir_batch_builder *all[16];
    size_t opened = 0;
    *t = (builder_thread){.manifest = s->manifest, .number = number, .threads = threads};
    t->builders = calloc(count, sizeof(weir_batch_builder *));
    bench_check(weir_mix_open(NULL, s->manifest, NULL, 0, &t->mix, &error), &error);
    for (size_t i = 0; i < count; i++) {
        const weir_dataset *dataset = &weir_manifest_describe(s->manifest)->datasets[i];
        weir_batch_options options = {.size = sizeof options,
                                      .store = s->store,
                                      .manifest = s->manifest,
                                      .dataset = dataset->key,
                                      .world_size = 1};
        if (dataset->weight == 0 || opened == 16)
            continue;
        bench_check(weir_batch_builder_open(NULL, &options, &t->builders[i], &error), &error);
        all[opened++] = t->builders[i];
    }
    for (int i = 0; i < RING; i++)
        bench_check(weir_batch_buffer_open(all, opened, NULL, &t->ring[i], &error), &error);
}

static void close_builders(builder_thread *t) {
    for (int i = 0; i < RING; i++)
        weir_batch_buffer_close(t->ring[i]);
    for (size_t i = 0; i < weir_manifest_describe(t->manifest)->dataset_count; i++)
        weir_batch_builder_close(t->builders[i]);
    weir_mix_close(t->mix);
    free(t->builders);
}

/* The steps that a worker of an interleaved run would have. */
static void *build_share(void *context) {
    builder_thread *t = context;
    weir_error error;
    for (uint64_t step = t->number; step < BATCHES; step += t->threads) {
        const weir_dataset *dataset;
        weir_cursor cursor;
        bench_check(weir_mix_locate(t->mix, step, &dataset, &cursor, &error), &error);
        size_t at = 0;
        while (&weir_manifest_describe(t->manifest)->datasets[at] != dataset)
            at++;
        bench_check(weir_batch_build(t->builders[at], cursor, t->ring[step / t->threads % RING], &error),
                    &error);
    }
    return NULL;
}

static double build_alone(builder_thread *threads, uint32_t count) {
    pthread_t started[WORKERS_MAX];
    double began = bench_wall();
    for (uint32_t i = 0; i < count; i++)
        if (pthread_create(&started[i], NULL, build_share, &threads[i]) != 0)
            exit(1);
    for (uint32_t i = 0; i < count; i++)
        pthread_join(started[i], NULL);
    return bench_wall() - began;
}

/* ---- The run ------------------------------------------------------------------------------ */

static weir_run_options options_of(const shop *s, uint32_t workers) {
    return (weir_run_options){.size = sizeof(weir_run_options),
                              .stores = &s->store,
                              .store_count = 1,
                              .manifest = s->manifest,
                              .world_size = 1,
                              .workers = workers};
}

/* As many batches as the bare builders, of a run that is warm. */
static double take_all(weir_run *run) {
    weir_error error;
    weir_taken taken;
    double began = bench_wall();
    for (int i = 0; i < BATCHES; i++) {
        bench_check(weir_run_next(run, &taken, &error), &error);
        bench_check(weir_run_release(run, &taken, 0, &error), &error);
    }
    return bench_wall() - began;
}

static double lesser(double a, double b) {
    return a < b ? a : b;
}

static void bench_rate(const shop *s, uint32_t workers) {
    builder_thread threads[WORKERS_MAX];
    weir_run *run;
    weir_error error;
    char name[96];
    double alone = 1e9, taken = 1e9;
    weir_run_options options = options_of(s, workers);
    for (uint32_t i = 0; i < workers; i++)
        open_builders(&threads[i], s, i, workers);
    for (int i = 0; i <= REPEATS; i++) { /* in turns, so that both meet the same noise; the first warms up */
        double builders_seconds = build_alone(threads, workers);
        bench_check(weir_run_open(NULL, &options, &run, &error), &error);
        double loader_seconds = take_all(run);
        weir_run_close(run);
        alone = i ? lesser(alone, builders_seconds) : alone;
        taken = i ? lesser(taken, loader_seconds) : taken;
    }
    snprintf(name, sizeof name, "a run with %u worker%s, strict", workers, workers > 1 ? "s" : "");
    bench_report(name, BATCHES / taken, "batches/s", "bare builders", BATCHES / alone, "0.90");
    for (uint32_t i = 0; i < workers; i++)
        close_builders(&threads[i]);
}

/* ---- Large batches ---------------------------------------------------------------------------- */

/* Seconds from the start of a run to its first batch. */
static double first_batch(const shop *s, const weir_manifest *manifest, uint32_t workers) {
    weir_error error;
    weir_run *run;
    weir_taken taken;
    weir_run_options options = options_of(s, workers);
    options.manifest = manifest;
    bench_check(weir_run_open(NULL, &options, &run, &error), &error);
    double began = bench_wall();
    bench_check(weir_run_next(run, &taken, &error), &error);
    double seconds = bench_wall() - began;
    weir_run_close(run);
    return seconds;
}

/* The manifest with batches of 1,024 sequences. */
static weir_manifest *large_manifest(const shop *s) {
    static char text[65536];
    weir_error error;
    weir_manifest *manifest;
    FILE *file = fopen(s->manifest_path, "rb");
    if (!file)
        exit(1);
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    char *at = strstr(text, "\"global_batch_size\": 32");
    if (!at)
        exit(1);
    char *end = at + strlen("\"global_batch_size\": 32");
    memmove(end + 2, end, strlen(end) + 1);
    memcpy(at, "\"global_batch_size\": 1024", strlen("\"global_batch_size\": 1024"));
    bench_check(weir_manifest_read(NULL, text, size + 2, s->manifest_path, &manifest, &error), &error);
    return manifest;
}

static void bench_large(const shop *s) {
    weir_manifest *manifest = large_manifest(s);
    double one = 1e9, two = 1e9;
    for (int i = 0; i < REPEATS; i++) {
        one = lesser(one, first_batch(s, manifest, 1));
        two = lesser(two, first_batch(s, manifest, 2));
    }
    weir_manifest_close(manifest);
    bench_report("the first batch of 1,024 sequences, 2 workers", 1e3 * two, "ms", "1 worker", 1e3 * one,
                 "0.60");
}

/* ---- From the start to the first batch ------------------------------------------------------- */

static double run_program(const char *program, const shop *s, const char *more) {
    char command[1024];
    snprintf(command, sizeof command, "'%s' run --store '%s' --manifest '%s' %s --json > /dev/null", program,
             s->store_path, s->manifest_path, more);
    double began = bench_wall();
    if (system(command) != 0)
        exit(1);
    return bench_wall() - began;
}

static void bench_start(const char *program, const shop *s) {
    char path[64], resumed[160];
    weir_error error;
    weir_run *run;
    weir_run_options options = options_of(s, 1);
    double first = 1e9, late = 1e9;
    options.first_step = late_step;
    snprintf(path, sizeof path, "%s/late.checkpoint", s->folder);
    options.checkpoint = path;
    bench_check(weir_run_open(NULL, &options, &run, &error), &error);
    bench_check(weir_run_start(run, &error), &error);
    weir_run_close(run);
    snprintf(resumed, sizeof resumed, "--steps %" PRIu64 " --resume '%s'", late_step + 1, path);
    for (int i = 0; i < STARTS; i++) {
        first = lesser(first, run_program(program, s, "--steps 1"));
        late = lesser(late, run_program(program, s, resumed));
    }
    bench_report("a program of one batch, from step 0", 1e3 * first, "ms", NULL, 0, "50 ms");
    bench_report("a program of one batch, resumed at step 10^12", 1e3 * late, "ms", "from step 0",
                 1e3 * first, "50 ms");
}

int main(int argc, char **argv) {
    shop s = {.folder = "/tmp/weir-bench-XXXXXX"};
    char program[512], command[640];
    weir_error error;
    (void)argc;
    snprintf(program, sizeof program, "%s", argv[0]);
    char *slash = strstr(program, "bench/bench_run");
    snprintf(slash ? slash : program, 16, "weir");
    if (!mkdtemp(s.folder))
        return 1;
    snprintf(s.store_path, sizeof s.store_path, "%s/shop.weir", s.folder);
    snprintf(s.manifest_path, sizeof s.manifest_path, "%s/shop.manifest.json", s.folder);
    snprintf(command, sizeof command, "'%s' demo --scale 100000 --dir '%s' --no-run --json > /dev/null",
             program, s.folder);
    if (system(command) != 0)
        return 1;
    bench_check(weir_store_open(NULL, s.store_path, &s.store, &error), &error);
    bench_check(weir_manifest_open(NULL, s.manifest_path, &s.manifest, &error), &error);
    bench_rate(&s, 1);
    bench_rate(&s, 2);
    bench_large(&s);
    bench_start(program, &s);
    weir_manifest_close(s.manifest);
    weir_store_close(s.store);
    snprintf(command, sizeof command, "rm -rf '%s'", s.folder);
    return system(command) == 0 ? 0 : 1;
}
