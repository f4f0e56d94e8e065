/* Contexts that hold labels: what it costs to find examples by walks, at 8,192 cells. On the demo shop, whose
 * churn is known 90 days after its seed: sequences without labels, with task rows, and with 10,000 walks of
 * 20 steps; and the walks alone, against the time that as many draws take.
 *
 *   bench_labels           shops of 10^6 rows, made once beside the program; with WEIR_BENCH_LARGE=1, or
 *                          if it was made before, one of 10^7 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox_many.h"
#include "batches.h"
#include "bench.h"

enum { TEXT_MAX = 1 << 16, SEQUENCES = 8, BATCHES = 4, ROUNDS = 5, WALKS = 10000, LENGTH = 20 };

/* ---- Sequences --------------------------------------------------------------------------------- */

typedef struct context {
    weir_store *store;
    weir_manifest *manifest;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    uint64_t cells, rows;
} context;

static void open_context(context *c, const batches_store *at, const char *batch) {
    static char text[TEXT_MAX];
    weir_error error;
    bench_check(weir_store_open(NULL, at->store, &c->store, &error), &error);
    weir_stored_dataset stored;
    bench_check(weir_store_dataset(c->store, "shop/churn/val", &stored, &error), &error);
    char hash[2 * WEIR_HASH_SIZE + 1];
    for (int i = 0; i < WEIR_HASH_SIZE; i++)
        snprintf(hash + 2 * i, 3, "%02x", stored.hash[i]);
    snprintf(text, sizeof text,
             "{\"global_batch_size\": %d, \"datasets\": {\"shop/churn/val\": {\"id\": \"a\", \"version\": "
             "\"1\", \"hash\": \"%s\", \"cardinality\": %llu}}, \"batch\": {%s}}",
             SEQUENCES, hash, (unsigned long long)stored.cardinality, batch);
    bench_check(weir_manifest_read(NULL, text, strlen(text), "the bench", &c->manifest, &error), &error);
    weir_batch_options options = {.size = sizeof options,
                                  .store = c->store,
                                  .manifest = c->manifest,
                                  .dataset = "shop/churn/val",
                                  .stage = WEIR_STAGE_TRAIN,
                                  .world_size = 1};
    bench_check(weir_batch_builder_open(NULL, &options, &c->builder, &error), &error);
    bench_check(weir_batch_buffer_open(&c->builder, 1, NULL, &c->buffer, &error), &error);
}

static void close_context(context *c) {
    weir_batch_buffer_close(c->buffer);
    weir_batch_builder_close(c->builder);
    weir_manifest_close(c->manifest);
    weir_store_close(c->store);
}

static void build(void *argument) {
    context *c = argument;
    weir_error error;
    weir_cursor at = {0, 0};
    c->cells = c->rows = 0;
    for (int i = 0; i < BATCHES; i++) {
        bench_check(weir_batch_build(c->builder, at, c->buffer, &error), &error);
        const weir_batch *batch = weir_batch_view(c->buffer);
        const uint8_t *cells = batch->data + batch->tensors[WEIR_NUM_CELLS].offset;
        const uint8_t *rows = batch->data + batch->tensors[WEIR_NUM_ROWS].offset;
        for (uint32_t k = 0; k < batch->sequence_count; k++) {
            uint32_t value;
            memcpy(&value, cells + 4 * (size_t)k, 4);
            c->cells += value;
            memcpy(&value, rows + 4 * (size_t)k, 4);
            c->rows += value;
        }
        at = batch->step.cursor_next;
    }
}

/* Milliseconds of a sequence, after a round in which blocks are verified and pages become warm. */
static double measure(const batches_store *at, const char *batch, const char *name, double other,
                      const char *bar) {
    context c = {0};
    char full[160];
    open_context(&c, at, batch);
    build(&c);
    double ms = bench_best(ROUNDS, build, &c) / (BATCHES * SEQUENCES) * 1e3;
    snprintf(full, sizeof full, "%s: %.0f cells, %.0f rows", name, (double)c.cells / (BATCHES * SEQUENCES),
             (double)c.rows / (BATCHES * SEQUENCES));
    bench_report(full, ms, "ms", other > 0 ? "without" : NULL, other, bar);
    close_context(&c);
    return ms / ((double)c.cells / (BATCHES * SEQUENCES));
}

static void draw_all(void *unused) {
    weir__philox_kernel *philox = weir__philox_many_best();
    weir__draws draws;
    uint64_t sum = 0;
    (void)unused;
    for (uint32_t i = 0; i < WALKS * LENGTH / 2; i += WEIR__DRAWS) {
        philox((weir_seed){{1, 2, 3, 4}}, 5, 6, i, &draws);
        sum += draws.k0[0];
    }
    bench_keep(sum);
}

#define PLAIN                                                                                                \
    "\"sequence_length\": 8192, \"max_rows\": 2048, \"max_hops\": 6, \"child_policy\": \"latest\", "         \
    "\"identifiers\": \"omit\""

static void bench(const char *program, uint64_t rows, const char *label, const char *bar) {
    char name[96];
    batches_store at = batches_make_labels(program, rows);
    snprintf(name, sizeof name, "no labels, %s", label);
    double plain = measure(&at, PLAIN, name, 0, NULL);
    snprintf(name, sizeof name, "task rows, %s", label);
    double labels = measure(&at, PLAIN ", \"labels\": true", name, 0, NULL);
    bench_report("  a cell, against one without labels", labels * 1e6, "ns", "without", plain * 1e6,
                 "at most 1.3");
    snprintf(name, sizeof name, "10,000 walks of 20 steps, %s", label);
    measure(&at, PLAIN ", \"labels\": true, \"retrieval\": {\"walks\": 10000, \"length\": 20}", name, 0, bar);
}

int main(int argc, char **argv) {
    (void)argc;
    double draws = bench_best(ROUNDS, draw_all, NULL);
    bench_report("200,000 draws", draws * 1e3, "ms", NULL, 0, NULL);
    bench(argv[0], 1000000, "10^6 rows", "at most 4 ms");
    batches_store large = batches_locate(argv[0], "shop_10000000/labels");
    if (batches_want_large() || batches_exists(&large))
        bench(argv[0], 10000000, "10^7 rows", "at most 8 ms");
    return 0;
}
