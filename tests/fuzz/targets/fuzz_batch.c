/* Fuzzes the making of batches: a store is made of a few drawn numbers, in either format, damaged at the
 * places that the input names, its hashes made to fit; whatever opens gives batches or is refused, and every
 * number in a batch points into its tables. A batch's compact form expands to the very same bytes, and is the
 * same if a slot is too small for all of its texts, the rest of which lie beside it. */
#include "batch/buffer.h"
#include "batch/builder.h"
#include "batches.h"
#include "support/made_store.h"

enum { KNOBS = 16 };

/* Rooms from the least that a slot has to all that the largest batch needs. */
static weir_batch_buffer *open_slot(weir_batch_builder *builder, const weir_batch_buffer *whole,
                                    uint8_t share) {
    weir_batch_buffer *slot = NULL;
    const weir_batch_memory memory = {.without_tensors = true};
    uint64_t least = whole->limits.blobs, most = whole->limits.room.compact;
    uint64_t room = least + (most - least) / 255 * share;
    return weir_batch__slot_open(&builder, 1, &memory, room, &slot, NULL) == WEIR_OK ? slot : NULL;
}

static void check_slot(weir_batch_builder *builder, weir_cursor at, weir_batch_buffer *slot,
                       const weir_batch *batch) {
    require(weir_batch_build(builder, at, slot, NULL) == WEIR_OK);
    require(slot->batch.compact_size == batch->compact_size && slot->here <= slot->room.compact);
    uint8_t *joined = malloc((size_t)batch->compact_size);
    require(joined);
    memcpy(joined, slot->compact, (size_t)slot->here);
    if (slot->here < batch->compact_size)
        memcpy(joined + slot->here, slot->beyond, (size_t)(batch->compact_size - slot->here));
    check_expansion_of(batch, joined);
    free(joined);
    require(memcmp(slot->batch.batch_digest, batch->batch_digest, sizeof batch->batch_digest) == 0);
}

static void build(const weir_store *store, const weir_batch_options *options, uint8_t share) {
    weir_batch_builder *builder = NULL;
    weir_batch_buffer *buffer = NULL, *slot = NULL;
    weir_cursor at = {0, 0};
    if (weir_batch_builder_open(NULL, options, &builder, NULL) == WEIR_OK &&
        weir_batch_buffer_open(&builder, 1, NULL, &buffer, NULL) == WEIR_OK) {
        slot = open_slot(builder, buffer, share);
        for (int i = 0; i < 3; i++) {
            weir_status status = weir_batch_build(builder, at, buffer, NULL);
            if (status != WEIR_OK) {
                require(status == WEIR_STORE_CORRUPT || status == WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY);
                break;
            }
            const weir_batch *batch = weir_batch_view(buffer);
            check_batch(weir_store_describe(store), batch);
            check_expansion(batch);
            if (slot)
                check_slot(builder, at, slot, batch);
            at = batch->step.cursor_next;
        }
    }
    weir_batch_buffer_close(slot);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
}

/* Requests to the task: for rows and keys that may be there, at times that may be seeds'. */
static void ask(const weir_store *store, const weir_manifest *manifest, uint32_t task,
                const uint8_t knobs[KNOBS]) {
    const weir_store_info *info = weir_store_describe(store);
    weir_batch_builder *builder = NULL;
    weir_batch_buffer *buffer = NULL;
    weir_context_options options = {.size = sizeof options,
                                    .store = store,
                                    .manifest = manifest,
                                    .task = info->tasks[task].name,
                                    .most_requests = 2,
                                    .with_digests = true};
    weir_key_value keys[2] = {{.type = WEIR_KEY_INTEGER, .integer = knobs[15]}};
    weir_seed_row seed = {0};
    (void)weir_store_seed(store, task, knobs[9], &seed);
    weir_context_request requests[] = {
        {.row = weir_store_number_of(store, seed.row), .has_time = true, .time = seed.observation_time},
        {.row = info->tables[info->tasks[task].anchor_table].first_number + knobs[10] % 32, .has_seed = true},
        {.key = keys, .key_count = 1 + knobs[14] % 2},
    };
    if (weir_context_builder_open(NULL, &options, &builder, NULL) == WEIR_OK &&
        weir_batch_buffer_open(&builder, 1, NULL, &buffer, NULL) == WEIR_OK)
        for (int i = 0; i < 2; i++) {
            weir_status status = weir_context_build(builder, requests + i, 2, buffer, NULL);
            require(status == WEIR_OK || status == WEIR_STORE_CORRUPT || status == WEIR_KEY_NOT_FOUND ||
                    status == WEIR_CONTRACT_VIOLATION);
            if (status == WEIR_OK) {
                check_batch(info, weir_batch_view(buffer));
                check_expansion(weir_batch_view(buffer));
            }
        }
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
}

static void build_all(const weir_store *store, const uint8_t knobs[KNOBS]) {
    static const char *const policies[] = {"uniform", "recent", "latest"};
    static const char *const labels[] = {"\"train\"", "\"all\"", "\"none\"", "[\"train\", \"val\"]"};
    const weir_store_info *info = weir_store_describe(store);
    for (uint32_t task = 0; task < info->task_count && task < 3; task++) {
        char config[640], retrieval[160], dataset[32], length[32];
        int mode = knobs[11] / 40 % 3; /* without labels, with them, and with examples */
        weir_split split = (weir_split)(knobs[8] % WEIR_SPLITS);
        snprintf(retrieval, sizeof retrieval,
                 ", \"retrieval\": {\"walks\": [%d, 33], \"length\": %d, \"local_cells\": %d, \"width\": %d, "
                 "\"order\": \"%s\", \"fill\": %s}",
                 knobs[12] % 70, 1 + knobs[10] / 8, 1 + knobs[9] % 60, knobs[11] % 40,
                 knobs[12] & 0x80 ? "latest" : "visits", knobs[13] & 0x80 ? "true" : "false");
        snprintf(length, sizeof length, knobs[8] & 0x80 ? "[%d, %d]" : "%d", 1 + knobs[9], 3 + 3 * knobs[9]);
        snprintf(config, sizeof config,
                 "\"sequence_length\": %s, \"max_hops\": %d, \"child_width\": %d, \"max_rows\": %d, "
                 "\"pad_rows\": %s, "
                 "\"child_policy\": \"%s\", \"label_visibility\": %s, "
                 "\"identifiers\": \"%s\", \"blank_rows\": \"%s\", \"labels\": %s%s",
                 length, knobs[10] % 8, knobs[11] % 40, 1 + knobs[12] % 70, knobs[13] & 1 ? "true" : "false",
                 policies[(knobs[13] >> 1) % 3], labels[knobs[14] % 4], knobs[8] & 0x40 ? "omit" : "keep",
                 knobs[8] & 0x20 ? "omit" : "keep", mode > 0 ? "true" : "false", mode > 1 ? retrieval : "");
        snprintf(dataset, sizeof dataset, "made/k%u/%s", task, weir_split_name(split));
        weir_manifest *manifest = make_store_manifest(store, task, split, 1 + knobs[15] % 6, config);
        weir_batch_options options = {.size = sizeof options,
                                      .store = store,
                                      .manifest = manifest,
                                      .dataset = dataset,
                                      .stage = (weir_stage)(knobs[14] / 3 % 3),
                                      .world_size = 1,
                                      .any_hash = true,
                                      .pad = knobs[15] & 0x80,
                                      .with_digests = true};
        if (manifest) {
            build(store, &options, knobs[7]);
            ask(store, manifest, task, knobs);
        }
        weir_manifest_close(manifest);
    }
}

static void make_and_build(const uint8_t *data, size_t size, uint32_t format) {
    uint8_t knobs[KNOBS] = {0};
    memcpy(knobs, data, size < KNOBS ? size : KNOBS);
    bool wide_texts = knobs[6] & 1; /* which a slot has no room for */
    const made_sizes sizes = {.tables = 5,
                              .columns = 6,
                              .edges = 4,
                              .rows = 30,
                              .tasks = 3,
                              .seeds = 9,
                              .dim = wide_texts ? 1500 : 6,
                              .has_labels = true,
                              .format = format};
    size_t store_size = 0;
    uint8_t *bytes = make_store_bytes(weir__load64(knobs), &sizes, &store_size);
    weir_store *store = NULL;
    require(bytes != NULL);
    if (size > KNOBS)
        damage(bytes, store_size, data + KNOBS, size - KNOBS);
    rehash_store(bytes, store_size);
    if (weir_store_open_memory(NULL, bytes, store_size, &store, NULL) == WEIR_OK) {
        bool is_sound = weir_store_verify(store, 1, NULL) == WEIR_OK;
        require(is_sound || size >= KNOBS + EDIT);
        build_all(store, knobs);
    }
    weir_store_close(store);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    make_and_build(data, size, 1);
    make_and_build(data, size, 2);
    return 0;
}
