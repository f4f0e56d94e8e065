/* The golden shop as a store, and manifests over it. */
#ifndef WEIR_TESTS_SHOP_STORE_H
#define WEIR_TESTS_SHOP_STORE_H

#include "support/database.h"

typedef struct shop_store {
    char folder[64];
    weir_store *store;
} shop_store;

static inline void shop_store_open(shop_store *shop) {
    char source[160], path[160];
    weir_error error;
    weir_ingest_report report;
    make_folder(shop->folder);
    make_shop(shop->folder, source);
    path_in(shop->folder, "shop.weir", path);
    assert_ok(ingest_shop(NULL, source, path, 1, &report, &error), &error);
    assert_ok(weir_store_open(NULL, path, &shop->store, &error), &error);
}

static inline void shop_store_close(shop_store *shop) {
    weir_store_close(shop->store);
    remove_folder(shop->folder);
}

/* The store's bytes, in memory that the caller frees. */
static inline uint8_t *shop_store_bytes(const shop_store *shop, size_t *size) {
    enum { MOST = 16 << 20 };
    char path[160];
    path_in(shop->folder, "shop.weir", path);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t *bytes = aligned_alloc(4096, MOST);
    assert_non_null(bytes);
    *size = fread(bytes, 1, MOST, file);
    assert_true(*size > 4096 && *size < MOST);
    fclose(file);
    return bytes;
}

/* A copy of a store's bytes with random damage after the metadata, which opening does not look at. NULL if
 * it is refused all the same. */
static inline weir_store *open_damaged(const uint8_t *bytes, size_t size, weir_verify verify,
                                       random_stream *random, uint8_t *copy) {
    weir_store *damaged;
    weir_store_options opening = {.size = sizeof opening, .verify = verify, .data = copy, .data_size = size};
    memcpy(copy, bytes, size);
    for (int i = 0; i < 40; i++)
        copy[4096 + random_below(random, size - 4096)] = (uint8_t)random_next(random);
    return weir_store_open_with(NULL, "the store", &opening, &damaged, NULL) == WEIR_OK ? damaged : NULL;
}

/* A manifest of four of its datasets. `data` and `batch` are members of those objects, and may be "". */
static inline weir_manifest *shop_manifest(const shop_store *shop, uint64_t batch_size, const char *data,
                                           const char *batch) {
    static const char *const keys[] = {"shop/churn/train", "shop/rating/train", "shop/status/val",
                                       "shop/spend/train"};
    char text[4096], hash[2 * WEIR_HASH_SIZE + 1];
    weir_error error;
    weir_manifest *manifest;
    int size = snprintf(
        text, sizeof text,
        "{\"seed\": 3, \"global_batch_size\": %llu, \"data\": {%s}, \"batch\": {%s}, \"datasets\": {",
        (unsigned long long)batch_size, data, batch);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        weir_stored_dataset stored;
        assert_ok(weir_store_dataset(shop->store, keys[i], &stored, &error), &error);
        for (size_t k = 0; k < WEIR_HASH_SIZE; k++)
            snprintf(hash + 2 * k, 3, "%02x", stored.hash[k]);
        size += snprintf(
            text + size, sizeof text - (size_t)size,
            "%s\"%s\": {\"id\": \"shop\", \"version\": \"1\", \"cardinality\": %llu, \"hash\": \"%s\"}",
            i ? ", " : "", keys[i], (unsigned long long)stored.cardinality, hash);
    }
    size += snprintf(text + size, sizeof text - (size_t)size, "}}");
    assert_ok(weir_manifest_read(NULL, text, (size_t)size, "test", &manifest, &error), &error);
    return manifest;
}

/* What a buffer is after an error. */
static inline void assert_holds_no_batch(const weir_batch_buffer *buffer) {
    const weir_batch *batch = weir_batch_view(buffer);
    assert_int_equal(batch->sequence_count, 0);
    assert_int_equal(batch->step.valid_count, 0);
    assert_null(batch->data);
    assert_int_equal(weir_batch_role(batch, 0), WEIR_ROLE_SAMPLE);
}

#endif
