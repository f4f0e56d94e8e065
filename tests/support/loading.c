/* See loading.h. */
#include "support/loading.h"

#include <stdlib.h>
#include <string.h>

#include "support/database.h"

static void ingest_as(const loading *l, const char *source, const char *name, const char *dim,
                      weir_store **store) {
    weir_error error;
    weir_ingest_report report;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    char path[160], file[80];
    char *schema = golden_text("shop_small.schema.json", NULL);
    char *name_at = strstr(schema, "\"shop\"");
    char *dim_at = strstr(schema, "\"dim\": 64");
    assert_true(name_at && dim_at);
    memmove(name_at + strlen(name) + 2, name_at + 6, strlen(name_at + 6) + 1); /* only a shorter name fits */
    memcpy(name_at + 1, name, strlen(name));
    name_at[strlen(name) + 1] = '"';
    dim_at = strstr(schema, "\"dim\": 64");
    memcpy(dim_at + 7, dim, 2);
    snprintf(file, sizeof file, "%s.weir", name);
    options.source = source;
    options.output = path_in(l->folder, file, path);
    options.schema = schema;
    options.schema_size = strlen(schema);
    options.threads = 1;
    assert_ok(weir_ingest(NULL, &options, &report, &error), &error);
    assert_ok(weir_store_open(NULL, path, store, &error), &error);
    free(schema);
}

void loading_open(loading *l) {
    char source[160];
    make_folder(l->folder);
    make_shop(l->folder, source);
    ingest_as(l, source, "shop", "64", &l->stores[0]);
    ingest_as(l, source, "oth", "32", &l->stores[1]);
}

void loading_close(loading *l) {
    weir_store_close(l->stores[0]);
    weir_store_close(l->stores[1]);
    remove_folder(l->folder);
}

weir_store *loading_damage(const loading *l, uint8_t **memory) {
    weir_error error;
    weir_store *damaged;
    const weir_store_info *info = weir_store_describe(l->stores[0]);
    size_t size = (size_t)info->file_size;
    char path[160];
    snprintf(path, sizeof path, "%s/shop.weir", l->folder);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *memory = aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    assert_int_equal(fread(*memory, 1, size, file), size);
    fclose(file);
    weir_store_options options = {
        .size = sizeof options, .verify = WEIR_VERIFY_NONE, .data = *memory, .data_size = size};
    assert_ok(weir_store_open_with(NULL, "the store", &options, &damaged, &error), &error);
    const weir_store_info *copy = weir_store_describe(damaged);
    for (uint32_t t = 0; t < copy->task_count; t++)
        if (strcmp(copy->tasks[t].name, "spend") == 0)
            memset((uint8_t *)(uintptr_t)copy->tasks[t].seed_rows, 0xee,
                   4 * (size_t)copy->tasks[t].seed_count);
    return damaged;
}

weir_manifest *loading_manifest(const loading *l, const char *more) {
    return loading_manifest_of(l, 8, more);
}

weir_manifest *loading_manifest_of(const loading *l, unsigned batch_size, const char *more) {
    static const char *const keys[] = {"shop/churn/train", "oth/rating/train", "shop/spend/train",
                                       "shop/churn/val", "oth/status/val"};
    char text[4096], hex[2 * WEIR_HASH_SIZE + 1];
    int size =
        snprintf(text, sizeof text,
                 "{\"global_batch_size\": %u, \"mix\": {\"shop/churn/train\": 3, \"oth/rating/train\": 2, "
                 "\"shop/spend/train\": 1}, \"datasets\": {",
                 batch_size);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        weir_error error;
        weir_stored_dataset stored;
        assert_ok(weir_store_dataset(l->stores[keys[i][0] == 'o'], keys[i], &stored, &error), &error);
        for (size_t k = 0; k < WEIR_HASH_SIZE; k++)
            snprintf(hex + 2 * k, 3, "%02x", stored.hash[k]);
        size += snprintf(text + size, sizeof text - (size_t)size,
                         "%s\"%s\": {\"id\": \"shop\", \"version\": \"1\", \"cardinality\": %llu, \"hash\": "
                         "\"%s\"}",
                         i ? ", " : "", keys[i], (unsigned long long)stored.cardinality, hex);
    }
    snprintf(text + size, sizeof text - (size_t)size, "}%s}", more);
    return manifest_of_text(text);
}

weir_run_options loading_options(const loading *l, const weir_manifest *over) {
    return (weir_run_options){.size = sizeof(weir_run_options),
                              .stores = l->stores,
                              .store_count = 2,
                              .manifest = over,
                              .world_size = 1,
                              .with_digests = true};
}

/* ---- Batches one by one ---------------------------------------------------------------------- */

static void note(loading_batch *out, uint64_t step, const char *dataset, const weir_batch *batch) {
    *out = (loading_batch){.step = step};
    snprintf(out->dataset, sizeof out->dataset, "%s", dataset);
    memcpy(out->digest, batch->batch_digest, sizeof out->digest);
}

/* Where a step is, by the contract's words: the mix, the dataset's own batches, or a sequential pass. */
static weir_cursor locate(const weir_run_options *o, weir_mix *mix, uint64_t step, const char **dataset) {
    weir_error error;
    const weir_dataset *found = o->dataset ? weir_manifest_find(o->manifest, o->dataset) : NULL;
    uint64_t batch = weir_manifest_describe(o->manifest)->global_batch_size;
    weir_cursor cursor = {0, step * batch};
    if (!found) {
        assert_ok(weir_mix_locate(mix, step, &found, &cursor, &error), &error);
    } else if (o->stage == WEIR_STAGE_TRAIN) { /* strict, without drop_last */
        uint64_t per_epoch = (found->cardinality + batch - 1) / batch;
        cursor = (weir_cursor){step / per_epoch, step % per_epoch * batch};
    }
    *dataset = found->key;
    return cursor;
}

void loading_build(const weir_run_options *o, uint64_t first, uint64_t end, loading_batch *out) {
    weir_error error;
    weir_mix *mix;
    assert_ok(weir_mix_open(NULL, o->manifest, o->token, o->token_size, &mix, &error), &error);
    for (uint64_t step = first; step < end; step++) {
        weir_batch_builder *builder;
        weir_batch_buffer *buffer;
        weir_batch_options options = {.size = sizeof options,
                                      .manifest = o->manifest,
                                      .stage = o->stage,
                                      .world_size = o->world_size,
                                      .rank = o->rank,
                                      .token = o->token,
                                      .token_size = o->token_size,
                                      .pad = o->pad,
                                      .with_digests = true};
        weir_cursor cursor = locate(o, mix, step, &options.dataset);
        options.store = o->stores[options.dataset[0] == 'o'];
        assert_ok(weir_batch_builder_open(NULL, &options, &builder, &error), &error);
        assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
        assert_ok(weir_batch_build(builder, cursor, buffer, &error), &error);
        note(out++, step, options.dataset, weir_batch_view(buffer));
        weir_batch_buffer_close(buffer);
        weir_batch_builder_close(builder);
    }
    weir_mix_close(mix);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

size_t loading_take(weir_run *run, size_t max, loading_batch *out) {
    size_t count = 0;
    while (count < max) {
        weir_error error;
        weir_taken taken;
        assert_ok(weir_run_next(run, &taken, &error), &error);
        if (!taken.batch)
            break;
        note(&out[count++], taken.step, taken.dataset->key, taken.batch);
        assert_ok(weir_run_release(run, &taken, 0, &error), &error);
    }
    return count;
}

size_t loading_run(const weir_run_options *options, size_t max, loading_batch *out) {
    weir_error error;
    weir_run *run;
    assert_ok(weir_run_open(NULL, options, &run, &error), &error);
    size_t count = loading_take(run, max, out);
    weir_run_close(run);
    return count;
}

static int by_step(const void *a, const void *b) {
    const loading_batch *left = a, *right = b;
    return (left->step > right->step) - (left->step < right->step);
}

void loading_sort(loading_batch *batches, size_t count) {
    qsort(batches, count, sizeof *batches, by_step);
}

void assert_batches_equal(const loading_batch *left, const loading_batch *right, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(left[i].step, right[i].step);
        assert_string_equal(left[i].dataset, right[i].dataset);
        assert_memory_equal(left[i].digest, right[i].digest, sizeof left[i].digest);
    }
}

uint8_t *loading_checkpoint(weir_run *run, size_t *size) {
    weir_error error;
    const void *data;
    assert_ok(weir_run_state(run, &data, size, &error), &error);
    uint8_t *copy = malloc(*size);
    assert_non_null(copy);
    memcpy(copy, data, *size);
    return copy;
}

const char *diagnostic_of_field(const weir_error *error) {
    for (uint32_t i = 0; i < error->diagnostic_count; i++)
        if (strcmp(error->diagnostics[i].name, "field") == 0)
            return error->diagnostics[i].text;
    return "";
}

/* ---- The fixture of a group ------------------------------------------------------------------ */

loading fixture;
weir_manifest *manifest;

int loading_set_up(void **state) {
    (void)state;
    loading_open(&fixture);
    manifest = loading_manifest(&fixture, SMALL_BATCHES);
    return 0;
}

int loading_tear_down(void **state) {
    (void)state;
    weir_manifest_close(manifest);
    loading_close(&fixture);
    return 0;
}
