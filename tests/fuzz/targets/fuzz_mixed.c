/* Fuzzes mixed batches: two stores are made of a few drawn numbers, each in either format, damaged at the
 * places that the input names, their hashes made to fit. Whatever opens gives batches or is refused; every
 * number in a batch points into the tables of all stores; its compact form expands to the same bytes; a
 * sequence shows what it shows in a batch of its own dataset; and two ranks have what one has. */
#include "batches.h"
#include "support/made_store.h"

enum { KNOBS = 20, DATASETS = 3, STORES = 2, SEQUENCES_MAX = 16, STEPS = 3 };

typedef struct mix {
    weir_store *stores[STORES];
    size_t store_count;
    char keys[DATASETS][32];
    weir_manifest *manifest;
    bool is_even; /* sequences of all batches have one length */
} mix;

/* ---- Stores and manifest ------------------------------------------------------------------------------- */

static uint8_t *make_bytes(const uint8_t *knobs, uint32_t format, size_t *size) {
    const made_sizes sizes = {.tables = 4,
                              .columns = 5,
                              .edges = 3,
                              .rows = 20,
                              .tasks = 2,
                              .seeds = 9,
                              .dim = 1,
                              .has_labels = true,
                              .format = format};
    uint8_t *bytes = make_store_bytes(weir__load64(knobs), &sizes, size);
    require(bytes);
    return bytes;
}

/* The datasets of the mix that there are, as JSON members; how many. */
static int list_datasets(mix *m, const uint8_t *knobs, char *datasets, char *weights, size_t capacity) {
    size_t used = 0, weight_size = 0;
    int count = 0;
    for (int i = 0; i < DATASETS; i++) {
        const weir_store *store = m->stores[(knobs[i] >> 4) % m->store_count];
        weir_stored_dataset stored;
        char hex[2 * WEIR_HASH_SIZE + 1];
        snprintf(m->keys[count], sizeof m->keys[count], "made/k%d/%s", knobs[i] % 2,
                 weir_split_name((weir_split)(knobs[i] / 2 % WEIR_SPLITS)));
        bool is_new = true;
        for (int k = 0; k < count; k++)
            is_new = is_new && strcmp(m->keys[k], m->keys[count]) != 0;
        if (!is_new || weir_store_dataset(store, m->keys[count], &stored, NULL) != WEIR_OK ||
            stored.cardinality == 0)
            continue;
        weir__hex_encode(stored.hash, sizeof stored.hash, hex);
        used += (size_t)snprintf(
            datasets + used, capacity - used,
            "%s\"%s\": {\"id\": \"m\", \"version\": \"1\", \"cardinality\": %llu, \"hash\": \"%s\"}",
            count ? ", " : "", m->keys[count], (unsigned long long)stored.cardinality, hex);
        weight_size += (size_t)snprintf(weights + weight_size, capacity - weight_size, "%s\"%s\": %d",
                                        count ? ", " : "", m->keys[count], 1 + knobs[i] % 5);
        count++;
    }
    return count;
}

static bool make_manifest(mix *m, const uint8_t *knobs) {
    char datasets[640], weights[640], text[2400], length[32];
    m->is_even = knobs[3] < 128;
    snprintf(length, sizeof length, m->is_even ? "%d" : "[%d, %d]", 1 + knobs[4] % 50, 3 + knobs[4] % 50 * 3);
    if (list_datasets(m, knobs, datasets, weights, sizeof datasets) == 0)
        return false;
    snprintf(text, sizeof text,
             "{\"seed\": %d, \"global_batch_size\": %d, \"data\": {\"epoch_boundary\": \"stream\"}, \"mix\": "
             "{%s}, \"batch\": {\"mixed\": true, \"sequence_length\": %s, \"max_rows\": %d, \"child_width\": "
             "%d, \"max_hops\": %d, \"labels\": %s}, \"datasets\": {%s}}",
             knobs[5], 2 + knobs[6] % 3 * 2, weights, length, 1 + knobs[7] % 40, knobs[8] % 9, knobs[9] % 5,
             knobs[9] & 0x80 ? "true" : "false", datasets);
    require(weir_manifest_read(NULL, text, strlen(text), "fuzz", &m->manifest, NULL) == WEIR_OK);
    return true;
}

/* ---- Batches ------------------------------------------------------------------------------------------- */

static weir_status open(const mix *m, const char *dataset, uint32_t world_size, uint32_t rank,
                        weir_batch_builder **builder, weir_batch_buffer **buffer) {
    weir_batch_options options = {.size = sizeof options,
                                  .manifest = m->manifest,
                                  .dataset = dataset,
                                  .stores = m->stores,
                                  .store_count = m->store_count,
                                  .world_size = world_size,
                                  .rank = rank,
                                  .any_hash = true,
                                  .with_digests = true};
    weir_status status = weir_batch_builder_open(NULL, &options, builder, NULL);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(builder, 1, NULL, buffer, NULL);
    require(status == WEIR_OK || status == WEIR_CONTRACT_VIOLATION || status == WEIR_STORE_CORRUPT ||
            status == WEIR_CARDINALITY_MISMATCH || status == WEIR_OUT_OF_MEMORY);
    return status;
}

/* A tensor of one sequence. */
static const uint8_t *part_of(const weir_batch *batch, weir_tensor_id id, uint32_t sequence, size_t *size) {
    *size = batch->sequence_count ? (size_t)(batch->tensors[id].size / batch->sequence_count) : 0;
    return batch->data + batch->tensors[id].offset + sequence * *size;
}

/* The same sequence in a batch of its dataset, which is its first. */
static void compare_sequence(const weir_batch *mixed, uint32_t sequence, const weir_batch *own) {
    static const weir_tensor_id same[] = {WEIR_SEMANTIC_TYPES,   WEIR_SEQ_ROW_IDS, WEIR_IS_NULL,
                                          WEIR_NUMERIC_VALUES,   WEIR_BOOL_VALUES, WEIR_IS_TARGET,
                                          WEIR_TIMESTAMP_VALUES, WEIR_IS_PADDING,  WEIR_COL_PERM,
                                          WEIR_OUT_PERM,         WEIR_IN_PERM,     WEIR_SAMPLE_INDEX,
                                          WEIR_POSITION,         WEIR_ANCHOR_ROW,  WEIR_OBSERVATION_TIME,
                                          WEIR_NUM_CELLS,        WEIR_NUM_ROWS};
    const weir_batch_source *source = &mixed->sources[mixed->dataset_ids[sequence]];
    size_t size, own_size, cells;
    require(own->sequence_count > 0);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const uint8_t *a = part_of(mixed, same[i], sequence, &size), *b = part_of(own, same[i], 0, &own_size);
        require(size == own_size && memcmp(a, b, size) == 0);
    }
    const uint8_t *a = part_of(mixed, WEIR_COLUMN_IDS, sequence, &size);
    const uint8_t *b = part_of(own, WEIR_COLUMN_IDS, 0, &own_size);
    cells = weir__load32(part_of(own, WEIR_NUM_CELLS, 0, &own_size));
    for (size_t i = 0; i < cells; i++)
        require(weir__load32(a + 4 * i) == weir__load32(b + 4 * i) + source->first_column);
}

static void check_sequences(const mix *m, const weir_batch *batch) {
    for (uint32_t i = 0; i < batch->sequence_count && i < SEQUENCES_MAX; i++) {
        weir_batch_builder *builder = NULL;
        weir_batch_buffer *buffer = NULL;
        size_t size;
        const weir_batch_source *source = &batch->sources[batch->dataset_ids[i]];
        weir_cursor at = {batch->epochs[i], weir__load64(part_of(batch, WEIR_POSITION, i, &size))};
        weir_batch_options options = {.size = sizeof options,
                                      .store = source->store,
                                      .manifest = m->manifest,
                                      .dataset = source->dataset,
                                      .world_size = 1,
                                      .any_hash = true};
        if (weir_batch_builder_open(NULL, &options, &builder, NULL) == WEIR_OK &&
            weir_batch_buffer_open(&builder, 1, NULL, &buffer, NULL) == WEIR_OK &&
            weir_batch_build(builder, at, buffer, NULL) == WEIR_OK)
            compare_sequence(batch, i, weir_batch_view(buffer));
        weir_batch_buffer_close(buffer);
        weir_batch_builder_close(builder);
    }
}

/* The steps of a rank; the digests of their sequences, or 0 if the stores are damaged. */
static uint32_t build(const mix *m, uint32_t world_size, uint32_t rank,
                      uint64_t digests[STEPS][SEQUENCES_MAX], uint32_t counts[STEPS]) {
    weir_batch_builder *builder = NULL;
    weir_batch_buffer *buffer = NULL;
    weir_cursor at = {0, 0};
    weir_store_info all = {0};
    uint32_t steps = 0;
    for (size_t i = 0; i < m->store_count; i++) {
        all.column_count += weir_store_describe(m->stores[i])->column_count;
        all.category_count += weir_store_describe(m->stores[i])->category_count;
    }
    if (open(m, WEIR_MIX_KEY, world_size, rank, &builder, &buffer) == WEIR_OK)
        for (; steps < STEPS; steps++) {
            weir_status status = weir_batch_build(builder, at, buffer, NULL);
            require(status == WEIR_OK || status == WEIR_STORE_CORRUPT);
            if (status != WEIR_OK)
                break;
            const weir_batch *batch = weir_batch_view(buffer);
            check_batch(&all, batch);
            check_expansion(batch);
            if (world_size == 1 && m->is_even)
                check_sequences(m, batch);
            for (uint32_t i = 0; i < batch->sequence_count && counts[steps] < SEQUENCES_MAX; i++)
                digests[steps][counts[steps]++] = batch->sample_digests[i];
            at = batch->step.cursor_next;
        }
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    return steps;
}

static void build_all(const mix *m) {
    uint64_t alone[STEPS][SEQUENCES_MAX], together[STEPS][SEQUENCES_MAX];
    uint32_t alone_counts[STEPS] = {0}, counts[STEPS] = {0};
    uint32_t steps = build(m, 1, 0, alone, alone_counts);
    for (uint32_t rank = 0; rank < 2; rank++) {
        uint32_t other = build(m, 2, rank, together, counts);
        steps = other < steps ? other : steps;
    }
    for (uint32_t i = 0; i < steps; i++)
        require(counts[i] == alone_counts[i] &&
                memcmp(alone[i], together[i], counts[i] * sizeof **alone) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t knobs[2 * 8 + KNOBS] = {0}, *bytes[STORES];
    size_t sizes[STORES];
    mix m = {.store_count = 0};
    memcpy(knobs, data, size < sizeof knobs ? size : sizeof knobs);
    for (int i = 0; i < STORES; i++) {
        weir_store *store = NULL;
        bytes[i] = make_bytes(knobs + 8 * i, 1 + (knobs[16 + KNOBS - 1] >> i & 1u), &sizes[i]);
        if (size > sizeof knobs && data[sizeof knobs - 2] % STORES == (unsigned)i)
            damage(bytes[i], sizes[i], data + sizeof knobs, size - sizeof knobs);
        rehash_store(bytes[i], sizes[i]);
        if (weir_store_open_memory(NULL, bytes[i], sizes[i], &store, NULL) == WEIR_OK)
            m.stores[m.store_count++] = store;
    }
    if (m.store_count > 0 && make_manifest(&m, knobs + 16)) {
        build_all(&m);
        weir_manifest_close(m.manifest);
    }
    for (int i = 0; i < STORES; i++) {
        if (m.stores[i])
            weir_store_close(m.stores[i]);
        free(bytes[i]);
    }
    return 0;
}
