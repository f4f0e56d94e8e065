/* The sampler against its limits: fills against memset of the same buffer, single indices, draws by
 * class and weight, the start of an epoch, locate near and far. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "sampler/population.h"
#include "weir/weir.h"

static void *must(void *pointer) {
    if (!pointer)
        exit(1);
    return pointer;
}

static weir_manifest *manifest_of(uint64_t cardinality, const char *intra, const char *more) {
    char text[1024];
    weir_error error;
    weir_manifest *manifest;
    char hash[65];
    memset(hash, 'a', 64);
    hash[64] = 0;
    snprintf(text, sizeof text,
             "{\"global_batch_size\": 32, \"datasets\": {\"a\": {\"id\": \"a\", \"version\": \"1\", "
             "\"hash\": \"%s\", "
             "\"cardinality\": %" PRIu64
             "}, \"b\": {\"id\": \"b\", \"version\": \"1\", \"hash\": \"%s\", \"cardinality\": 1000}}, "
             "\"mix\": {\"a\": 3, \"b\": 1}, \"data\": {\"intra_block\": \"%s\"%s}}",
             hash, cardinality, hash, intra, more);
    bench_check(weir_manifest_read(NULL, text, strlen(text), "bench", &manifest, &error), &error);
    return manifest;
}

static weir_sampler *sampler_of(const weir_env *env, const weir_manifest *manifest) {
    weir_error error;
    weir_sampler *sampler;
    weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 1};
    bench_check(weir_sampler_open(env, manifest, &options, &sampler, &error), &error);
    return sampler;
}

/* ---- Filling --------------------------------------------------------------------------------- */

typedef struct fill_job {
    weir_sampler *sampler;
    uint64_t *out;
    size_t count;
    size_t rounds;
} fill_job;

static void fill(void *context) {
    fill_job *job = context;
    weir_error error;
    for (size_t i = 0; i < job->rounds; i++)
        bench_check(weir_sampler_range(job->sampler, 0, 12345 + i * job->count, job->count, job->out, &error),
                    &error);
    bench_keep(job->out[job->count / 2]);
}

static void clear(void *context) {
    fill_job *job = context;
    for (size_t i = 0; i < job->rounds; i++) {
        memset(job->out, (int)i, job->count * sizeof *job->out);
        __asm__ volatile("" ::"r"(job->out) : "memory");
    }
    bench_keep(job->out[job->count / 2]);
}

static void bench_fill(const char *intra, size_t bytes, const char *size_name, const char *bar) {
    weir_manifest *manifest = manifest_of(1000000000000, intra, "");
    fill_job job = {
        .sampler = sampler_of(NULL, manifest), .count = bytes / 8, .rounds = ((size_t)256 << 20) / bytes};
    job.out = must(aligned_alloc(4096, bytes));
    memset(job.out, 1, bytes);
    fill(&job);
    double fill_seconds = bench_best(7, fill, &job);
    double memset_seconds = bench_best(7, clear, &job);
    double total = (double)bytes * (double)job.rounds;
    char name[96];
    snprintf(name, sizeof name, "range, %s, %s buffer", intra, size_name);
    if (strcmp(intra, "affine_v1") == 0)
        bench_report(name, total / fill_seconds / 1e9, "GB/s", "memset", total / memset_seconds / 1e9, bar);
    else
        bench_report(name, fill_seconds / (total / 8) * 1e9, "ns/index", NULL, 0, bar);
    free(job.out);
    weir_sampler_close(job.sampler);
    weir_manifest_close(manifest);
}

/* ---- Random access --------------------------------------------------------------------------- */

enum { LOOKUPS = 1 << 20 };

typedef struct lookup_job {
    weir_sampler *sampler;
    uint64_t cardinality;
} lookup_job;

static void look_up(void *context) {
    lookup_job *job = context;
    uint64_t state = 1, sum = 0, index;
    for (int i = 0; i < LOOKUPS; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t position = (uint64_t)(((unsigned __int128)state * job->cardinality) >> 64);
        if (weir_sampler_index_at(job->sampler, 0, position, &index, NULL) == WEIR_OK)
            sum += index;
    }
    bench_keep(sum);
}

static void bench_lookup(const char *intra, const char *bar) {
    weir_manifest *manifest = manifest_of(100000000000, intra, "");
    lookup_job job = {sampler_of(NULL, manifest), 100000000000};
    char name[96];
    look_up(&job);
    snprintf(name, sizeof name, "index_at, random, %s", intra);
    bench_report(name, bench_best(5, look_up, &job) / LOOKUPS * 1e9, "ns", NULL, 0, bar);
    weir_sampler_close(job.sampler);
    weir_manifest_close(manifest);
}

/* ---- Drawing by class and by weight ------------------------------------------------------------ */

static void bench_draws(void) {
    enum { SAMPLES = 10000000 };
    uint32_t *classes = must(malloc(SAMPLES * sizeof *classes));
    double *weights = must(malloc(SAMPLES * sizeof *weights));
    for (uint32_t i = 0; i < SAMPLES; i++) {
        classes[i] = i % 100 == 0 ? 1 + i / 100 % 9 : 0; /* one class of nearly all, nine rare ones */
        weights[i] = 1 + i % 1000;
    }
    static const char *const modes[] = {"\"class_balanced\"", "\"weighted\", \"column\": \"w\""};
    for (int mode = 0; mode < 2; mode++) {
        char sampling[128], name[96];
        weir_error error;
        snprintf(sampling, sizeof sampling, ", \"sampling\": {\"mode\": %s}", modes[mode]);
        weir_manifest *manifest = manifest_of(SAMPLES, "feistel_v1", sampling);
        weir_seed seed = weir_sampler__sampling_seed(manifest, "a", NULL, 0);
        weir_population *population;
        double began = bench_now();
        bench_check(mode ? weir_sampler__population_of_weights(weir_env_default(), seed, "t", weights,
                                                               SAMPLES, &population, &error)
                         : weir_sampler__population_of_classes(weir_env_default(), seed, "t", classes,
                                                               SAMPLES, 10, &population, &error),
                    &error);
        snprintf(name, sizeof name, "population of 10^7, by %s", mode ? "weight" : "class");
        bench_report(name, (bench_now() - began) / SAMPLES * 1e9, "ns/sample", NULL, 0, NULL);
        weir_sampler_options options = {
            .size = sizeof options, .dataset = "a", .world_size = 1, .population = population};
        lookup_job job = {NULL, SAMPLES};
        bench_check(weir_sampler_open(NULL, manifest, &options, &job.sampler, &error), &error);
        look_up(&job);
        snprintf(name, sizeof name, "index_at, random, 10^7 by %s", mode ? "weight" : "class");
        bench_report(name, bench_best(3, look_up, &job) / LOOKUPS * 1e9, "ns", NULL, 0, "1 us");
        weir_sampler_close(job.sampler);
        weir_population_close(population);
        weir_manifest_close(manifest);
    }
    free(classes);
    free(weights);
}

/* ---- The start of an epoch ------------------------------------------------------------------- */

static size_t allocated;

static void *counting_allocate(void *context, size_t size) {
    allocated += size;
    return weir_env_default()->allocate(context, size);
}

typedef struct start_job {
    const weir_manifest *manifest;
    uint64_t position;
} start_job;

static void start(void *context) {
    start_job *job = context;
    weir_env env = *weir_env_default();
    env.allocate = counting_allocate;
    weir_error error;
    weir_step step;
    uint64_t indices[32];
    allocated = 0;
    weir_sampler *sampler = sampler_of(&env, job->manifest);
    bench_check(weir_sampler_step(sampler, (weir_cursor){3, job->position}, &step, &error), &error);
    weir_sampler_indices(sampler, &step, indices);
    bench_keep(indices[0]);
    weir_sampler_close(sampler);
}

static void bench_start(uint64_t cardinality, const char *size_name, const char *bar,
                        const char *memory_bar) {
    weir_manifest *manifest = manifest_of(cardinality, "feistel_v1", ", \"rotate\": true");
    start_job first = {manifest, 0};
    start_job far = {manifest, cardinality / 2};
    char name[96];
    snprintf(name, sizeof name, "open to first batch, %s samples", size_name);
    double seconds = bench_best(9, start, &first);
    bench_report(name, seconds * 1e3, "ms", NULL, 0, bar);
    snprintf(name, sizeof name, "open to a batch in mid-epoch, %s samples", size_name);
    bench_report(name, bench_best(9, start, &far) * 1e3, "ms", "first batch", seconds * 1e3, NULL);
    snprintf(name, sizeof name, "memory, %s samples", size_name);
    bench_report(name, (double)allocated / 1048576, "MiB", NULL, 0, memory_bar);
    weir_manifest_close(manifest);
}

/* ---- A step, and locate ---------------------------------------------------------------------- */

enum { STEPS = 1 << 16 };

static void run_steps(void *context) {
    weir_sampler *sampler = context;
    weir_cursor cursor = {0, 0};
    weir_step step;
    uint64_t indices[32];
    for (int i = 0; i < STEPS; i++) {
        if (weir_sampler_step(sampler, cursor, &step, NULL) != WEIR_OK)
            return;
        weir_sampler_indices(sampler, &step, indices);
        cursor = step.cursor_next;
    }
    bench_keep(indices[0]);
}

typedef struct locate_job {
    weir_mix *mix;
    uint64_t first;
} locate_job;

static void locate(void *context) {
    locate_job *job = context;
    const weir_dataset *dataset;
    weir_cursor cursor = {0, 0};
    for (uint64_t i = 0; i < STEPS; i++)
        if (weir_mix_locate(job->mix, job->first + i * 4, &dataset, &cursor, NULL) != WEIR_OK)
            return;
    bench_keep(cursor.epoch);
}

static void bench_steps(void) {
    weir_error error;
    weir_manifest *manifest = manifest_of(100000000000, "feistel_v1", ", \"rotate\": true");
    weir_sampler *sampler = sampler_of(NULL, manifest);
    run_steps(sampler);
    bench_report("a step of 32 with all its hashes", bench_best(5, run_steps, sampler) / STEPS * 1e9, "ns",
                 NULL, 0, NULL);
    weir_sampler_close(sampler);
    locate_job near = {NULL, 10};
    bench_check(weir_mix_open(NULL, manifest, NULL, 0, &near.mix, &error), &error);
    locate_job far = {near.mix, 1000000000000000};
    locate(&near);
    double near_seconds = bench_best(5, locate, &near) / STEPS * 1e9;
    double far_seconds = bench_best(5, locate, &far) / STEPS * 1e9;
    bench_report("locate, a new period, step 10", near_seconds, "ns", NULL, 0, NULL);
    bench_report("locate, a new period, step 10^15", far_seconds, "ns", "step 10", near_seconds, "about 1");
    weir_mix_close(near.mix);
    weir_manifest_close(manifest);
}

int main(void) {
    bench_fill("affine_v1", 16 << 10, "16 KiB", "60 %");
    bench_fill("affine_v1", 1 << 20, "1 MiB", "60 %");
    bench_fill("affine_v1", 64 << 20, "64 MiB", "60 %");
    bench_fill("feistel_v1", 1 << 20, "1 MiB", "5 ns");
    bench_lookup("affine_v1", "20 ns");
    bench_lookup("feistel_v1", NULL);
    bench_draws();
    bench_start(100000000, "10^8", NULL, NULL);
    bench_start(100000000000, "10^11", "2 ms", "1 MiB");
    bench_start(1000000000000, "10^12", NULL, NULL);
    bench_steps();
    return 0;
}
