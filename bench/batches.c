/* See batches.h. */
#include "batches.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"

static void stop(const char *message) {
    fprintf(stderr, "%s\n", message);
    exit(1);
}

int batches_want_large(void) {
    const char *wanted = getenv("WEIR_BENCH_LARGE");
    return wanted && strcmp(wanted, "1") == 0;
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static int folder_size(const char *program) {
    const char *slash = strrchr(program, '/');
    return slash ? (int)(slash - program) : 0;
}

batches_store batches_locate(const char *program, const char *name) {
    batches_store at;
    int size = folder_size(program);
    snprintf(at.store, sizeof at.store, "%.*s/stores/%s.weir", size, program, name);
    snprintf(at.manifest, sizeof at.manifest, "%.*s/stores/%s.manifest.json", size, program, name);
    return at;
}

void batches_make_folder(const char *program) {
    char path[512];
    snprintf(path, sizeof path, "%.*s/stores", folder_size(program), program);
    (void)mkdir(path, 0777); /* or it is there */
}

int batches_exists(const batches_store *store) {
    return access(store->store, R_OK) == 0 && access(store->manifest, R_OK) == 0;
}

void batches_run_weir(const char *program, const char *arguments, ...) {
    char command[4096];
    va_list list;
    int size = snprintf(command, sizeof command, "'%.*s/../weir' ", folder_size(program), program);
    va_start(list, arguments);
    vsnprintf(command + size, sizeof command - (size_t)size, arguments, list);
    va_end(list);
    if (system(command) != 0)
        stop(command);
}

batches_store batches_make_shop(const char *program, uint64_t rows) {
    char name[64];
    snprintf(name, sizeof name, "shop_%" PRIu64 "/shop", rows);
    batches_store at = batches_locate(program, name);
    if (batches_exists(&at))
        return at;
    batches_make_folder(program);
    batches_run_weir(
        program, "demo --scale %" PRIu64 " --dir '%.*s/stores/shop_%" PRIu64 "' --no-run --json > /dev/null",
        rows, folder_size(program), program, rows);
    return at;
}

static char *read_text(const char *path) {
    static char text[1 << 16];
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (size == 0) {
        stop(path);
    }
    fclose(file);
    text[size] = 0;
    return text;
}

/* The demo's schema with more behind a mark. */
static void write_schema(const char *from, const char *to, const char *mark, const char *more) {
    const char *text = read_text(from), *at = strstr(text, mark);
    FILE *file = fopen(to, "wb");
    if (!at || !file)
        exit(1);
    at += strlen(mark);
    fprintf(file, "%.*s%s, %s", (int)(at - text), text, more, at);
    fclose(file);
}

/* The shop with another schema, under another name. */
static batches_store make_variant(const char *program, uint64_t rows, const char *variant, const char *mark,
                                  const char *more) {
    char name[64], folder[512], from[600], schema[600];
    batches_store shop = batches_make_shop(program, rows);
    snprintf(name, sizeof name, "shop_%llu/%s", (unsigned long long)rows, variant);
    batches_store at = batches_locate(program, name);
    if (batches_exists(&at))
        return at;
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(shop.store, '/') - shop.store), shop.store);
    snprintf(from, sizeof from, "%s/shop.schema.json", folder);
    snprintf(schema, sizeof schema, "%s/%s.schema.json", folder, variant);
    write_schema(from, schema, mark, more);
    batches_run_weir(program, "ingest '%s/shop.sqlite' --schema '%s' -o '%s' > /dev/null", folder, schema,
                     at.store);
    return at;
}

batches_store batches_make_labels(const char *program, uint64_t rows) {
    return make_variant(program, rows, "labels", "\"churn\": {", "\"horizon\": \"90d\"");
}

batches_store batches_make_links(const char *program, uint64_t rows) {
    return make_variant(
        program, rows, "links", "\"tasks\": {",
        "\"buys\": {\"kind\": \"link\", \"query\": \"SELECT customer_id, product_id, seen FROM order_items "
        "JOIN "
        "orders USING (order_id) JOIN (SELECT '2024-01-01' AS seen UNION ALL SELECT '2024-03-01' UNION ALL "
        "SELECT "
        "'2024-05-01' UNION ALL SELECT '2024-07-01' UNION ALL SELECT '2024-10-01') ON ordered_at > seen AND "
        "ordered_at <= date(seen, '+30 days')\", \"anchor_table\": \"customers\", \"anchor_key\": "
        "\"customer_id\", \"destination_table\": \"products\", \"destination_key\": \"product_id\", "
        "\"observation_time_column\": \"seen\", \"popularity\": \"order_items.product_id\", \"split\": "
        "{\"method\": \"temporal\", \"val\": \"2024-07-01\", \"test\": \"2024-10-01\"}}");
}

/* ---- Building -------------------------------------------------------------------------------- */

/* The manifest that ingest wrote, whose batch config has these first. */
static weir_manifest *read_manifest(const char *path, uint32_t length, const char *row_order) {
    static const char mark[] = "\"batch\": {";
    static char text[65536], changed[65536 + 256];
    weir_error error;
    weir_manifest *manifest;
    FILE *file = fopen(path, "rb");
    if (!file)
        stop(path);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    char *config = strstr(text, mark);
    if (!config)
        stop("the manifest of the shop has no batch config; remove the folder stores and try again");
    snprintf(changed, sizeof changed, "%.*s%s\"sequence_length\": %u, \"row_order\": \"%s\", %s",
             (int)(config - text), text, mark, length, row_order, config + strlen(mark));
    bench_check(weir_manifest_read(NULL, changed, strlen(changed), path, &manifest, &error), &error);
    return manifest;
}

void batches_open(batches *b, const batches_store *store, const char *dataset, uint32_t length,
                  const char *row_order, int count) {
    batches_open_as(b, store, WEIR_VERIFY_TOUCHED, dataset, length, row_order, count);
}

void batches_open_as(batches *b, const batches_store *store, weir_verify verify, const char *dataset,
                     uint32_t length, const char *row_order, int count) {
    weir_error error;
    weir_store_options opening = {.size = sizeof opening, .verify = verify};
    *b = (batches){.count = count};
    bench_check(weir_store_open_with(NULL, store->store, &opening, &b->store, &error), &error);
    b->manifest = read_manifest(store->manifest, length, row_order);
    weir_batch_options options = {.size = sizeof options,
                                  .store = b->store,
                                  .manifest = b->manifest,
                                  .dataset = dataset,
                                  .world_size = 1};
    bench_check(weir_batch_builder_open(NULL, &options, &b->builder, &error), &error);
    for (int i = 0; i < BATCHES_RING; i++) {
        weir_batch_memory compact = {.without_tensors = true};
        bench_check(weir_batch_buffer_open(&b->builder, 1, NULL, &b->ring[i], &error), &error);
        bench_check(weir_batch_buffer_open(&b->builder, 1, &compact, &b->compact_ring[i], &error), &error);
    }
}

void batches_close(batches *b) {
    for (int i = 0; i < BATCHES_RING; i++) {
        weir_batch_buffer_close(b->ring[i]);
        weir_batch_buffer_close(b->compact_ring[i]);
    }
    weir_batch_builder_close(b->builder);
    weir_manifest_close(b->manifest);
    weir_store_close(b->store);
}

static uint64_t sum_of(const weir_batch *batch, weir_tensor_id field) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        uint32_t value;
        memcpy(&value, batch->data + batch->tensors[field].offset + 4 * i, 4);
        sum += value;
    }
    return sum;
}

static void build_into(batches *b, weir_batch_buffer **ring) {
    weir_error error;
    weir_cursor cursor = {0, 0};
    for (int i = 0; i < b->count; i++) {
        weir_batch_buffer *buffer = ring[i % BATCHES_RING];
        bench_check(weir_batch_build(b->builder, cursor, buffer, &error), &error);
        cursor = weir_batch_view(buffer)->step.cursor_next;
    }
}

void batches_build(void *context) {
    batches *b = context;
    build_into(b, b->ring);
}

void batches_build_compact(void *context) {
    batches *b = context;
    build_into(b, b->compact_ring);
}

void batches_expand(void *context) {
    batches *b = context;
    for (int i = 0; i < b->count; i++) {
        const weir_batch *batch = weir_batch_view(b->ring[i % BATCHES_RING]);
        weir_batch_expand(batch->rules, batch->compact, (void *)(uintptr_t)batch->data);
    }
}

void batches_count(batches *b) {
    weir_error error;
    weir_cursor cursor = {0, 0};
    b->bytes = b->compact_bytes = b->sequences = b->cells = b->rows = 0;
    for (int i = 0; i < b->count; i++) {
        weir_batch_buffer *buffer = b->ring[i % BATCHES_RING];
        bench_check(weir_batch_build(b->builder, cursor, buffer, &error), &error);
        const weir_batch *batch = weir_batch_view(buffer);
        cursor = batch->step.cursor_next;
        b->bytes += batch->size;
        b->compact_bytes += batch->compact_size;
        b->sequences += batch->sequence_count;
        b->cells += sum_of(batch, WEIR_NUM_CELLS);
        b->rows += sum_of(batch, WEIR_NUM_ROWS);
    }
}
