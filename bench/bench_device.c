/* Batches on a GPU against its limits, all in one run: pinned copies without anything around them; a compute
 * kernel alone. Says so and stops if there is no GPU (or give --device host). Takes a store and a manifest
 * (--store, --manifest), or makes the demo shop of a million rows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "batch/expand.h"
#include "bench.h"
#include "device/kernel.h"
#include "weir/weir.h"
#include "weir_tool/device_work.h"

enum { COPIES = 3000, RING = 64, DEPTH = 8, AHEAD = 32, DIGEST_STEPS = 1000, SPINS = 400 };

typedef struct setting {
    const char *library, *store_path, *manifest_path, *part;
    uint32_t workers; /* the most */
    uint32_t steps;
    double seconds; /* of an end-to-end row */
    weir_device *device;
    weir_store *store;
    weir_manifest *manifest;
    weir_stream stream; /* the consumer's */
} setting;

static bool wants(const setting *s, const char *part) {
    return !s->part || strcmp(s->part, part) == 0;
}

/* ---- A run ----------------------------------------------------------------------------------------- */

static weir_run *open_run(setting *s, uint32_t workers, uint32_t ahead, bool with_digests) {
    weir_error error;
    weir_run *run;
    weir_run_options options = {.size = sizeof options,
                                .stores = &s->store,
                                .store_count = 1,
                                .manifest = s->manifest,
                                .dataset = "shop/churn/train",
                                .world_size = 1,
                                .workers = workers,
                                .buffer_size = ahead,
                                .with_digests = with_digests,
                                .device = s->library ? s->library : "cuda",
                                .depth = DEPTH};
    bench_check(weir_run_open(NULL, &options, &run, &error), &error);
    bench_check(weir_run_start(run, &error), &error);
    return run;
}

static void take_one(setting *s, weir_run *run, uint64_t *bytes) {
    weir_error error;
    weir_taken taken;
    bench_check(weir_run_next(run, &taken, &error), &error);
    bench_check(weir_run_wait(run, &taken, s->stream, &error), &error);
    bench_check(weir_run_release(run, &taken, s->stream, &error), &error);
    *bytes += taken.batch->size;
}

/* Waits until the workers have nothing more to do. */
static void fill(weir_run *run) {
    weir_run_metrics metrics;
    uint64_t produced;
    do {
        weir_run_measure(run, &metrics, NULL);
        produced = metrics.prefetch.produced;
        usleep(300000);
        weir_run_measure(run, &metrics, NULL);
    } while (metrics.prefetch.produced != produced || produced == 0);
}

/* ---- Copies ---------------------------------------------------------------------------------------- */

/* GB/s of pinned copies of `size` bytes from `count` buffers in turn. */
static double bare_copies(setting *s, size_t size, size_t count) {
    weir_error error;
    weir_memory pinned = weir_device_pinned(s->device), memory = weir_device_memory(s->device);
    size_t stride = (size + 4095) / 4096 * 4096;
    uint8_t *from = pinned.allocate(pinned.context, stride * count, &error);
    uint8_t *to = memory.allocate(memory.context, stride * DEPTH, &error);
    double best = 1e300;
    if (!from || !to)
        bench_check(WEIR_DEVICE_ERROR, &error);
    memset(from, 7, stride * count);
    for (int repeat = 0; repeat < 3; repeat++) {
        double begin = bench_wall();
        for (size_t i = 0; i < COPIES; i++)
            bench_check(weir_copy_to_device(s->device, to + i % DEPTH * stride, from + i % count * stride,
                                            size, s->stream, &error),
                        &error);
        bench_check(weir_stream_sync(s->device, s->stream, &error), &error);
        double seconds = bench_wall() - begin;
        best = seconds < best ? seconds : best;
    }
    pinned.release(pinned.context, from, stride * count);
    memory.release(memory.context, to, stride * DEPTH);
    return (double)size * COPIES / best / 1e9;
}

/* Batches that are ready, taken as fast as they can be: batches a second, and the bytes of one's tensors. */
static double burst(setting *s, size_t *size, size_t *compact_size) {
    weir_error error;
    weir_run_metrics metrics;
    weir_run *run = open_run(s, s->workers, AHEAD, false);
    uint64_t bytes = 0, warm = 0;
    uint32_t count = s->workers * AHEAD;
    double best = 0;
    for (int repeat = 0; repeat < 3; repeat++) {
        fill(run);
        bytes = 0;
        take_one(s, run, &warm);
        bench_check(weir_stream_sync(s->device, s->stream, &error), &error);
        double begin = bench_wall();
        for (uint32_t i = 0; i < count; i++)
            take_one(s, run, &bytes);
        bench_check(weir_stream_sync(s->device, s->stream, &error), &error);
        double rate = count / (bench_wall() - begin);
        best = rate > best ? rate : best;
        *size = (size_t)(bytes / count);
    }
    weir_run_measure(run, &metrics, NULL);
    *compact_size = (size_t)(metrics.compact_bytes / metrics.stages[WEIR_RUN_TRANSFER].batches);
    weir_run_close(run);
    return best;
}

static void bench_copies(setting *s) {
    char name[128];
    size_t size, compact_size;
    double ready = burst(s, &size, &compact_size);
    double one = bare_copies(s, size, 1), many = bare_copies(s, size, RING);
    double compact = bare_copies(s, compact_size, RING);
    snprintf(name, sizeof name, "bare pinned copies of one buffer of %.2f MB", (double)size / 1e6);
    bench_report(name, one, "GB/s", NULL, 0, NULL);
    snprintf(name, sizeof name, "bare pinned copies of %d buffers", RING);
    bench_report(name, many, "GB/s", "one buffer", one, NULL);
    snprintf(name, sizeof name, "bare pinned copies of %d buffers of %.2f MB", RING,
             (double)compact_size / 1e6);
    bench_report(name, compact, "GB/s", "one buffer", one, NULL);
    bench_report("batches that are ready", ready, "batches/s", "bare copies of their tensors",
                 many * 1e9 / (double)size, "beyond 1");
    bench_report("batches that are ready", ready, "batches/s", "bare copies of their compact form",
                 compact * 1e9 / (double)compact_size, NULL);
}

/* ---- End to end ------------------------------------------------------------------------------------ */

static double end_to_end(setting *s, uint32_t workers, double *gigabytes) {
    weir_error error;
    weir_run *run = open_run(s, workers, 4, false);
    weir_run_metrics before, after;
    uint64_t bytes = 0, batches = 0;
    for (int i = 0; i < 50; i++)
        take_one(s, run, &bytes);
    weir_run_measure(run, &before, NULL);
    double begin = bench_wall(), seconds;
    do {
        for (int i = 0; i < 20; i++)
            take_one(s, run, &bytes);
        batches += 20;
        seconds = bench_wall() - begin;
    } while (seconds < s->seconds);
    bench_check(weir_stream_sync(s->device, s->stream, &error), &error);
    seconds = bench_wall() - begin;
    weir_run_measure(run, &after, NULL);
    *gigabytes = (double)(after.compact_bytes - before.compact_bytes) / seconds / 1e9;
    weir_run_close(run);
    return (double)batches / seconds;
}

static void bench_workers(setting *s) {
    static const uint32_t counts[] = {1, 2, 4, 8, 12, 14};
    static const char *const bars[] = {NULL, "1.9 x", NULL, NULL, NULL, "10 x, and 10,000 batches/s"};
    double one = 0;
    for (size_t i = 0; i < sizeof counts / sizeof counts[0] && counts[i] <= s->workers; i++) {
        char name[128];
        double gigabytes, rate = end_to_end(s, counts[i], &gigabytes);
        one = i == 0 ? rate : one;
        snprintf(name, sizeof name, "end to end, %u workers, %.1f GB/s on the bus", counts[i], gigabytes);
        bench_report(name, rate, "batches/s", "one worker", one, bars[i]);
    }
}

/* ---- The kernel -------------------------------------------------------------------------------------- */

static void launch_expansions(setting *s, const weir_device__kernel *kernel, void *arguments[3],
                              const weir_batch *batch, int count) {
    weir_error error;
    weir_device__launch launch = {.blocks_x = batch->sequence_count,
                                  .blocks_y = 4,
                                  .threads = 256,
                                  .arguments = arguments,
                                  .stream = s->stream};
    for (int i = 0; i < count; i++)
        bench_check(weir_device__kernel_launch(s->device, kernel, &launch, &error), &error);
    bench_check(weir_stream_sync(s->device, s->stream, &error), &error);
}

static weir_batch_buffer *build_one(setting *s, weir_batch_builder **builder) {
    weir_error error;
    weir_batch_buffer *buffer;
    weir_batch_options options = {.size = sizeof options,
                                  .store = s->store,
                                  .manifest = s->manifest,
                                  .dataset = "shop/churn/train",
                                  .world_size = 1};
    bench_check(weir_batch_builder_open(NULL, &options, builder, &error), &error);
    bench_check(weir_batch_buffer_open(builder, 1, NULL, &buffer, &error), &error);
    bench_check(weir_batch_build(*builder, (weir_cursor){0, 0}, buffer, &error), &error);
    return buffer;
}

static void report_form(const weir_batch *batch) {
    char name[128];
    uint64_t cells = 0, text_size = batch->tensors[WEIR_TEXT_BATCH_EMBEDDINGS].size;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        uint32_t count;
        memcpy(&count, batch->data + batch->tensors[WEIR_NUM_CELLS].offset + 4 * i, 4);
        cells += count;
    }
    snprintf(name, sizeof name, "compact form, %.0f kB (%.0f kB of it texts)",
             (double)batch->compact_size / 1e3, (double)text_size / 1e3);
    bench_report(name, (double)(batch->compact_size - text_size) / (double)cells, "bytes/cell", "tensors",
                 (double)(batch->size - text_size) / (double)cells, "10 bytes a cell");
}

static void bench_kernel(setting *s) {
    weir_error error;
    weir_device__kernel kernel;
    weir_device__kernel_source source = {.name = WEIR_BATCH__EXPAND_NAME,
                                         .text = weir_batch__expand_text,
                                         .text_size = weir_batch__expand_text_size,
                                         .run = weir_batch__expand_run};
    weir_batch_builder *builder;
    weir_batch_buffer *buffer = build_one(s, &builder);
    const weir_batch *batch = weir_batch_view(buffer);
    weir_memory memory = weir_device_memory(s->device);
    report_form(batch);
    void *rules = memory.allocate(memory.context, (size_t)batch->rules_size, &error);
    void *compact = memory.allocate(memory.context, (size_t)batch->compact_size, &error);
    void *out = memory.allocate(memory.context, (size_t)batch->size, &error);
    void *arguments[] = {&rules, &compact, &out};
    bench_check(weir_device__kernel_open(s->device, &source, &kernel, &error), &error);
    bench_check(
        weir_copy_to_device(s->device, rules, batch->rules, (size_t)batch->rules_size, s->stream, &error),
        &error);
    bench_check(weir_copy_to_device(s->device, compact, batch->compact, (size_t)batch->compact_size,
                                    s->stream, &error),
                &error);
    int count = weir_device_describe(s->device)->is_host ? 20 : 3000;
    launch_expansions(s, &kernel, arguments, batch, 10);
    double begin = bench_wall();
    launch_expansions(s, &kernel, arguments, batch, count);
    bench_report("expanding a batch on the device", (bench_wall() - begin) / count * 1e6, "us", NULL, 0,
                 "20 us");
    weir_device__kernel_close(s->device, &kernel);
    memory.release(memory.context, rules, (size_t)batch->rules_size);
    memory.release(memory.context, compact, (size_t)batch->compact_size);
    memory.release(memory.context, out, (size_t)batch->size);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
}

/* ---- Overlap ----------------------------------------------------------------------------------------- */

static const char spin_text[] = "extern \"C\" __global__ void spin(long long cycles) {"
                                " long long begin = clock64(); while (clock64() - begin < cycles) { } }";

static void no_spin_on_the_host(void *const *arguments) {
    (void)arguments;
}

static void spin(setting *s, const weir_device__kernel *kernel, long long cycles) {
    weir_error error;
    void *arguments[] = {&cycles};
    weir_device__launch launch = {
        .blocks_x = 1, .blocks_y = 1, .threads = 32, .arguments = arguments, .stream = s->stream};
    bench_check(weir_device__kernel_launch(s->device, kernel, &launch, &error), &error);
}

static double spin_alone(setting *s, const weir_device__kernel *kernel, long long cycles) {
    weir_error error;
    double begin = bench_wall();
    for (int i = 0; i < SPINS; i++)
        spin(s, kernel, cycles);
    bench_check(weir_stream_sync(s->device, s->stream, &error), &error);
    return bench_wall() - begin;
}

static double spin_over_batches(setting *s, const weir_device__kernel *kernel, weir_run *run,
                                long long cycles) {
    weir_error error;
    weir_taken taken;
    fill(run);
    double begin = bench_wall();
    for (int i = 0; i < SPINS; i++) {
        bench_check(weir_run_next(run, &taken, &error), &error);
        bench_check(weir_run_wait(run, &taken, s->stream, &error), &error);
        spin(s, kernel, cycles);
        bench_check(weir_run_release(run, &taken, s->stream, &error), &error);
    }
    bench_check(weir_stream_sync(s->device, s->stream, &error), &error);
    return bench_wall() - begin;
}

/* A consumer that computes on each batch for as long as its copy takes, against one without batches. */
static void bench_overlap(setting *s) {
    weir_error error;
    weir_device__kernel kernel;
    weir_device__kernel_source source = {.name = "spin",
                                         .text = (const unsigned char *)spin_text,
                                         .text_size = sizeof spin_text - 1,
                                         .run = no_spin_on_the_host};
    if (weir_device_describe(s->device)->is_host)
        return;
    bench_check(weir_device__kernel_open(s->device, &source, &kernel, &error), &error);
    weir_run *run = open_run(s, s->workers, AHEAD, false);
    double copy_seconds = 4e6 / (bare_copies(s, 4000000, RING) * 1e9);
    spin_alone(s, &kernel, 100000);
    long long cycles = (long long)(100000 * copy_seconds / (spin_alone(s, &kernel, 100000) / SPINS));
    for (int factor = 1; factor <= 2; factor++) {
        char name[128];
        double alone = 1e300, with = 1e300;
        for (int repeat = 0; repeat < 6; repeat++) {
            double seconds = spin_alone(s, &kernel, factor * cycles);
            alone = seconds < alone ? seconds : alone;
            seconds = spin_over_batches(s, &kernel, run, factor * cycles);
            with = seconds < with ? seconds : with;
        }
        snprintf(name, sizeof name, "a consumer that computes %.0f us a batch, %dx its copy",
                 alone / SPINS * 1e6, factor);
        bench_report(name, SPINS / with, "batches/s", "computing alone", SPINS / alone,
                     factor == 1 ? "98 %" : NULL);
    }
    weir_run_close(run);
    weir_device__kernel_close(s->device, &kernel);
}

/* ---- Digests ----------------------------------------------------------------------------------------- */

static void digest_of(const weir_batch *batch, const uint8_t *data, uint8_t out[16]) {
    static XXH3_state_t *state;
    XXH128_canonical_t canonical;
    state = state ? state : XXH3_createState();
    XXH3_128bits_reset(state);
    for (int id = 0; id < WEIR_TENSORS; id++)
        XXH3_128bits_update(state, data + batch->tensors[id].offset, (size_t)batch->tensors[id].size);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
    memcpy(out, canonical.digest, 16);
}

static void bench_digests(setting *s) {
    weir_error error;
    weir_taken taken;
    uint8_t digest[16];
    size_t capacity = 64 << 20;
    weir_memory pinned = weir_device_pinned(s->device);
    uint8_t *back = pinned.allocate(pinned.context, capacity, &error);
    weir_run *run = open_run(s, s->workers, 4, true);
    uint32_t same = 0;
    for (uint32_t i = 0; i < s->steps; i++) {
        bench_check(weir_run_next(run, &taken, &error), &error);
        bench_check(weir_run_wait(run, &taken, s->stream, &error), &error);
        if (!back || taken.batch->size > capacity)
            exit(1);
        bench_check(weir_copy_to_host(s->device, back, taken.batch->data, (size_t)taken.batch->size,
                                      s->stream, &error),
                    &error);
        bench_check(weir_stream_sync(s->device, s->stream, &error), &error);
        digest_of(taken.batch, back, digest);
        same += memcmp(digest, taken.batch->batch_digest, 16) == 0;
        bench_check(weir_run_release(run, &taken, s->stream, &error), &error);
    }
    weir_run_close(run);
    pinned.release(pinned.context, back, capacity);
    bench_report("batches read back with the host's digest", same, "batches", "steps", s->steps, "all");
}

/* ---- Arenas ----------------------------------------------------------------------------------------- */

/* A chain of operators on tensors of 4 MB, planned. */
static weir_plan *plan_chain(unsigned nodes) {
    weir_error error;
    weir_graph *graph;
    weir_plan *plan;
    uint64_t shape = 1 << 20;
    char names[2][16] = {"t0", ""};
    weir_plan_options options = {.size = sizeof options, .mode = "forward"};
    bench_check(weir_graph_create(NULL, (weir_text){"chain", 5}, &graph, &error), &error);
    for (unsigned i = 0; i <= nodes; i++) {
        snprintf(names[i % 2], sizeof names[0], "t%u", i);
        weir_text input = {names[(i + 1) % 2], strlen(names[(i + 1) % 2])};
        weir_text id = {names[i % 2], strlen(names[i % 2])};
        weir_tensor_info tensor = {.id = id,
                                   .type = WEIR_TENSOR_F32,
                                   .role = i ? WEIR_ROLE_ACTIVATION : WEIR_ROLE_INPUT,
                                   .shape = &shape,
                                   .rank = 1};
        weir_node_info node = {.id = id,
                               .op = {"relu", 4},
                               .inputs = &input,
                               .input_count = 1,
                               .outputs = &id,
                               .output_count = 1};
        bench_check(weir_graph_add_tensor(graph, &tensor, &error), &error);
        if (i > 0)
            bench_check(weir_graph_add_node(graph, &node, &error), &error);
    }
    bench_check(weir_graph_finish(graph, &error), &error);
    bench_check(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    weir_graph_close(graph);
    return plan;
}

/* A plan's arenas, filled and committed there, and read back: bytes that are the same as the host's. */
static void bench_arenas(setting *s) {
    weir_error error;
    uint8_t token[WEIR_TOKEN_SIZE] = {1}, hashes[2][WEIR_HASH_SIZE];
    weir_plan *plan = plan_chain(20);
    weir_arenas *arenas[2];
    weir_memory memories[2] = {{0}, weir_device_memory(s->device)};
    size_t size = 0;
    uint8_t *bases[2];
    for (int i = 0; i < 2; i++) {
        weir_arenas_options options = {.size = sizeof options,
                                       .fill_token = token,
                                       .fill_token_size = sizeof token,
                                       .memory = memories[i]};
        bench_check(weir_arenas_open(NULL, plan, &options, &arenas[i], &error), &error);
        bench_check(weir_arenas_zero(arenas[i], "t3", 2, &error), &error);
        bench_check(weir_arenas_commit(arenas[i], 1, hashes[i], &error), &error);
        bases[i] = weir_arenas_base(arenas[i], "activations", 11, &size);
    }
    uint8_t *back = malloc(size);
    bench_check(weir_copy_to_host(s->device, back, bases[1], size, s->stream, &error), &error);
    bench_check(weir_stream_sync(s->device, s->stream, &error), &error);
    size_t same = 0;
    for (size_t i = 0; i < size; i++)
        same += back[i] == bases[0][i];
    bool is_sealed = memcmp(hashes[0], hashes[1], WEIR_HASH_SIZE) == 0;
    bench_report("bytes of a plan's arena there that are the host's", is_sealed ? (double)same : 0, "bytes",
                 "the arena", (double)size, "all");
    free(back);
    weir_arenas_close(arenas[0]);
    weir_arenas_close(arenas[1]);
    weir_plan_close(plan);
}

/* ---- The whole ---------------------------------------------------------------------------------------- */

static const char *next_argument(char **argv, int *at) {
    if (!argv[*at + 1]) {
        fprintf(stderr, "%s needs a value\n", argv[*at]);
        exit(2);
    }
    return argv[++*at];
}

static void read_arguments(setting *s, char **argv) {
    for (int i = 1; argv[i]; i++) {
        if (strcmp(argv[i], "--device") == 0)
            s->library = next_argument(argv, &i);
        else if (strcmp(argv[i], "--store") == 0)
            s->store_path = next_argument(argv, &i);
        else if (strcmp(argv[i], "--manifest") == 0)
            s->manifest_path = next_argument(argv, &i);
        else if (strcmp(argv[i], "--part") == 0)
            s->part = next_argument(argv, &i);
        else if (strcmp(argv[i], "--workers") == 0)
            s->workers = (uint32_t)atoi(next_argument(argv, &i));
        else if (strcmp(argv[i], "--steps") == 0)
            s->steps = (uint32_t)atoi(next_argument(argv, &i));
        else if (strcmp(argv[i], "--seconds") == 0)
            s->seconds = atof(next_argument(argv, &i));
        else
            exit(2);
    }
}

static void make_shop(const char *program, char folder[64]) {
    char path[512], command[700];
    snprintf(path, sizeof path, "%s", program);
    char *slash = strstr(path, "bench/bench_device");
    snprintf(slash ? slash : path, 16, "weir");
    snprintf(folder, 64, "/tmp/weir-bench-XXXXXX");
    if (!mkdtemp(folder))
        exit(1);
    snprintf(command, sizeof command, "'%s' demo --scale 1000000 --dir '%s' --no-run --json > /dev/null",
             path, folder);
    if (system(command) != 0)
        exit(1);
}

static void open_inputs(setting *s, const char *folder) {
    static char text[65536];
    char store[128], manifest[128];
    weir_error error;
    snprintf(store, sizeof store, "%s/shop.weir", folder);
    snprintf(manifest, sizeof manifest, "%s/shop.manifest.json", folder);
    s->store_path = s->store_path ? s->store_path : store;
    s->manifest_path = s->manifest_path ? s->manifest_path : manifest;
    bench_check(weir_store_open(NULL, s->store_path, &s->store, &error), &error);
    FILE *file = fopen(s->manifest_path, "rb");
    if (!file)
        exit(1);
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    bench_check(weir_manifest_read(NULL, text, size, s->manifest_path, &s->manifest, &error), &error);
    bench_check(weir_stream_open(s->device, &s->stream, &error), &error);
}

static void bench_all(setting *s) {
    if (wants(s, "digests"))
        bench_digests(s);
    if (wants(s, "arenas"))
        bench_arenas(s);
    if (wants(s, "kernel"))
        bench_kernel(s);
    if (wants(s, "copies"))
        bench_copies(s);
    if (wants(s, "overlap"))
        bench_overlap(s);
    if (wants(s, "workers"))
        bench_workers(s);
}

int main(int argc, char **argv) {
    (void)argc;
    weir_error error;
    char folder[64] = "", command[128];
    setting s = {.workers = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN), .steps = DIGEST_STEPS, .seconds = 1.5};
    s.workers = s.workers > 14 ? 14 : s.workers;
    read_arguments(&s, argv);
    weir_device_options options = {.size = sizeof options, .library = s.library};
    if (weir_device_open(NULL, &options, &s.device, &error) != WEIR_OK) {
        fprintf(stderr, "no device to measure: %s\n", error.message);
        return s.library != NULL;
    }
    const weir_device_info *info = weir_device_describe(s.device);
    fprintf(stderr, "device: %s, driver %u\n", info->name, info->driver_version);
    if (!s.store_path)
        make_shop(argv[0], folder);
    open_inputs(&s, folder);
    bench_all(&s);
    weir_stream_close(s.device, s.stream);
    weir_manifest_close(s.manifest);
    weir_store_close(s.store);
    weir_device_close(s.device);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return *folder ? system(command) : 0;
}
