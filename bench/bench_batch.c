/* The batch builder against its limit: the bytes of a batch written once. Makes the demo shop at several
 * sizes (or takes a store and a manifest as arguments) and builds batches of 32 sequences; beside it, in
 * the same run, memcpy and memset of the same bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "weir/weir.h"

static void check(weir_status status, const weir_error *error) {
    if (status == WEIR_OK)
        return;
    fprintf(stderr, "%s: %s\n", weir_status_name(status), error->message);
    exit(1);
}

enum { RING = 16 };

typedef struct job {
    weir_batch_builder *builder;
    weir_batch_buffer *ring[RING];
    weir_cursor cursor;
    uint64_t bytes;
    uint64_t sequences;
    uint64_t cells;
    uint64_t rows;
    int batches;
} job;

static void build(void *context) {
    job *j = context;
    weir_error error;
    weir_cursor cursor = j->cursor;
    j->bytes = j->sequences = j->cells = j->rows = 0;
    for (int i = 0; i < j->batches; i++) {
        check(weir_batch_build(j->builder, cursor, j->ring[i % RING], &error), &error);
        const weir_batch *batch = weir_batch_view(j->ring[i % RING]);
        cursor = batch->step.cursor_next;
        j->bytes += batch->size;
        j->sequences += batch->sequence_count;
        for (uint32_t s = 0; s < batch->sequence_count; s++) {
            uint32_t values[2];
            memcpy(&values[0], batch->data + batch->tensors[WEIR_NUM_CELLS].offset + 4 * s, 4);
            memcpy(&values[1], batch->data + batch->tensors[WEIR_NUM_ROWS].offset + 4 * s, 4);
            j->cells += values[0];
            j->rows += values[1];
        }
    }
}

typedef struct copy_job {
    uint8_t *to; /* RING places of `size` bytes */
    const job *from;
    size_t size;
} copy_job;

static void copy(void *context) {
    copy_job *c = context;
    for (int i = 0; i < c->from->batches; i++) {
        uint8_t *to = c->to + (size_t)(i % RING) * c->size;
        memcpy(to, weir_batch_view(c->from->ring[i % RING])->data, c->size);
        __asm__ volatile("" ::"r"(to) : "memory");
    }
}

static void clear(void *context) {
    copy_job *c = context;
    for (int i = 0; i < c->from->batches; i++) {
        uint8_t *to = c->to + (size_t)(i % RING) * c->size;
        memset(to, i, c->size);
        __asm__ volatile("" ::"r"(to) : "memory");
    }
}

static char *manifest_with(const char *path, uint32_t length) {
    FILE *file = fopen(path, "rb");
    static char text[65536];
    if (!file)
        exit(1);
    size_t size = fread(text, 1, sizeof text - 128, file);
    fclose(file);
    while (size > 0 && text[size - 1] != '}')
        size--;
    snprintf(text + size - 1, 128, ", \"batch\": {\"sequence_length\": %u}}", length);
    return text;
}

static void bench(const char *store_path, const char *manifest_path, const char *dataset, const char *label,
                  uint32_t length, const char *bar) {
    weir_error error;
    weir_store *store;
    weir_manifest *manifest;
    job j = {.batches = length > 2000 ? 16 : 64};
    char name[128];
    const char *text = manifest_with(manifest_path, length);
    check(weir_store_open(NULL, store_path, &store, &error), &error);
    check(weir_manifest_read(NULL, text, strlen(text), manifest_path, &manifest, &error), &error);
    weir_batch_options options = {
        .size = sizeof options, .store = store, .manifest = manifest, .dataset = dataset, .world_size = 1};
    check(weir_batch_builder_open(NULL, &options, &j.builder, &error), &error);
    for (int i = 0; i < RING; i++)
        check(weir_batch_buffer_open(&j.builder, 1, NULL, &j.ring[i], &error), &error);
    build(&j);
    double seconds = bench_best(5, build, &j);
    size_t size = (size_t)(j.bytes / (uint64_t)j.batches);
    copy_job c = {.to = malloc(RING * size), .from = &j, .size = size};
    if (!c.to)
        exit(1);
    memset(c.to, 1, RING * size);
    double copy_seconds = bench_best(5, copy, &c);
    double clear_seconds = bench_best(5, clear, &c);
    double rate = (double)j.bytes / seconds / 1e9;
    snprintf(name, sizeof name, "%s, S %u, %s", dataset, length, label);
    bench_report(name, rate, "GB/s", "memcpy", (double)j.bytes / copy_seconds / 1e9, bar);
    snprintf(name, sizeof name, "  batches of %.2f MB; memset would be", (double)size / 1e6);
    bench_report(name, (double)j.batches / seconds, "batches/s", "memset", (double)j.batches / clear_seconds,
                 NULL);
    snprintf(name, sizeof name, "  a sequence (%.0f cells, %.0f rows)", (double)j.cells / (double)j.sequences,
             (double)j.rows / (double)j.sequences);
    bench_report(name, seconds / (double)j.sequences * 1e6, "us", NULL, 0, NULL);
    free(c.to);
    for (int i = 0; i < RING; i++)
        weir_batch_buffer_close(j.ring[i]);
    weir_batch_builder_close(j.builder);
    weir_manifest_close(manifest);
    weir_store_close(store);
}

static void bench_shop(const char *program, uint64_t scale, const char *label, bool all_lengths) {
    char folder[] = "/tmp/weir-bench-XXXXXX";
    char command[512], store[128], manifest[128];
    if (!mkdtemp(folder))
        exit(1);
    snprintf(command, sizeof command, "'%s' demo --scale %" PRIu64 " --dir '%s' --no-run --json > /dev/null",
             program, scale, folder);
    if (system(command) != 0)
        exit(1);
    snprintf(store, sizeof store, "%s/shop.weir", folder);
    snprintf(manifest, sizeof manifest, "%s/shop.manifest.json", folder);
    bench(store, manifest, "shop/churn/train", label, 1024, all_lengths ? "25 %" : NULL);
    if (all_lengths) {
        bench(store, manifest, "shop/churn/train", label, 256, NULL);
        bench(store, manifest, "shop/churn/train", label, 8192, NULL);
        bench(store, manifest, "shop/category/train", label, 1024, NULL);
    }
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0)
        exit(1);
}

int main(int argc, char **argv) {
    if (argc == 3) {
        bench(argv[1], argv[2], "shop/churn/train", "given", 1024, "25 %");
        bench(argv[1], argv[2], "shop/category/train", "given", 1024, NULL);
        bench(argv[1], argv[2], "shop/churn/train", "given", 8192, NULL);
        return 0;
    }
    char program[512];
    snprintf(program, sizeof program, "%s", argv[0]);
    char *slash = strstr(program, "bench/bench_batch");
    snprintf(slash ? slash : program, 16, "weir");
    bench_shop(program, 100000, "10^5 rows", false);
    bench_shop(program, 1000000, "10^6 rows", true);
    bench_shop(program, 10000000, "10^7 rows", false);
    return 0;
}
