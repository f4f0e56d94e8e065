/* Blocks that are verified when they are used first: damage anywhere in a store is found before it is in a
 * batch, a store without block hashes is verified by sections, and a file that is cut under a reader is an
 * error, not the end of the process. */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/damage.h"
#include "support/made_store.h"
#include "support/testing.h"

/* ---- Everything that a store gives ------------------------------------------------------------ */

enum { BATCH = 16 };
#define CONFIG "\"sequence_length\": 200, \"max_hops\": 3, \"child_width\": 1, \"max_rows\": 7"
static const char *config = CONFIG;

static weir_batch_options options_of(const weir_store *store, const weir_manifest *manifest,
                                     const char *dataset) {
    return (weir_batch_options){.size = sizeof(weir_batch_options),
                                .store = store,
                                .manifest = manifest,
                                .dataset = dataset,
                                .stage = WEIR_STAGE_INFER,
                                .world_size = 1,
                                .any_hash = true,
                                .with_digests = true};
}

/* A number that depends on every batch of the first epoch of every task, or what the store's readers say. */
static weir_status read_batches(const weir_store *store, uint64_t *sum, weir_error *error) {
    const weir_store_info *info = weir_store_describe(store);
    weir_status status = WEIR_OK;
    for (uint32_t task = 0; task < info->task_count && status == WEIR_OK; task++) {
        uint64_t samples = info->tasks[task].split_start[1];
        weir_batch_builder *builder = NULL;
        weir_batch_buffer *buffer = NULL;
        char dataset[32];
        if (samples == 0)
            continue;
        weir_manifest *manifest = make_store_manifest(store, task, WEIR_TRAIN, BATCH, config);
        snprintf(dataset, sizeof dataset, "made/k%u/train", task);
        weir_batch_options options = options_of(store, manifest, dataset);
        status = weir_batch_builder_open(NULL, &options, &builder, error);
        if (status == WEIR_OK)
            status = weir_batch_buffer_open(&builder, 1, NULL, &buffer, error);
        for (uint64_t at = 0; at < samples && status == WEIR_OK; at += BATCH) {
            status = weir_batch_build(builder, (weir_cursor){0, at}, buffer, error);
            if (status == WEIR_OK)
                *sum = *sum * 31 + weir__load64(weir_batch_view(buffer)->batch_digest);
        }
        weir_batch_buffer_close(buffer);
        weir_batch_builder_close(builder);
        weir_manifest_close(manifest);
    }
    return status;
}

/* What a store gives: in batches, and through the accessors. */
typedef struct given {
    weir_status batches; /* whether they could be had, */
    uint64_t batch_sum;
    weir_status status; /* and of the store, when everything was read */
    uint64_t sum;
} given;

static given read_store(const uint8_t *data, size_t size, weir_verify verify, weir_error *error) {
    weir_store *store;
    given g = {0};
    weir_store_options options = {
        .size = sizeof options, .verify = verify, .threads = 1, .data = data, .data_size = size};
    g.status = g.batches = weir_store_open_with(NULL, "a.weir", &options, &store, error);
    if (g.status != WEIR_OK)
        return g;
    g.batches = read_batches(store, &g.batch_sum, error);
    g.sum = read_everything(store, 400);
    g.status = g.batches == WEIR_OK ? weir_store_status(store, error) : g.batches;
    weir_store_close(store);
    return g;
}

static given read_sound(const uint8_t *data, size_t size, weir_verify verify) {
    weir_error error;
    given g = read_store(data, size, verify, &error);
    assert_ok(g.status, &error);
    return g;
}

/* The first store of these sizes whose file is `least` bytes or longer. */
static uint8_t *make_at_least(const made_sizes *sizes, size_t least, size_t *size) {
    for (uint64_t seed = 1;; seed++) {
        uint8_t *bytes = make_store_bytes(seed, sizes, size);
        assert_non_null(bytes);
        if (*size >= least)
            return bytes;
        free(bytes);
    }
}

/* A store that has block hashes for some of its sections. */
static uint8_t *make_long(size_t *size) {
    static const made_sizes sizes = {
        .tables = 4, .columns = 6, .edges = 3, .rows = 3000, .tasks = 3, .seeds = 40, .dim = 6};
    return make_at_least(&sizes, 400000, size);
}

static uint64_t end_of_sections(const uint8_t *bytes) {
    return weir__load64(bytes + 16);
}

static bool is_same(given a, given b) {
    return a.batch_sum == b.batch_sum && a.sum == b.sum;
}

static void all_ways_to_verify_give_the_same(void **state) {
    (void)state;
    size_t size;
    uint8_t *bytes = make_long(&size);
    assert_true(size > end_of_sections(bytes));
    given expected = read_sound(bytes, size, WEIR_VERIFY_NONE);
    for (int verify = 0; verify <= WEIR_VERIFY_ALL; verify++) {
        assert_true(is_same(read_sound(bytes, size, (weir_verify)verify), expected));
        assert_true(is_same(read_sound(bytes, (size_t)end_of_sections(bytes), (weir_verify)verify),
                            expected)); /* without the tail */
    }
    free(bytes);
}

/* With another byte at `at` a store gives the batches that it gave, or an error, and so its accessors: never
 * anything else. */
static bool is_silently_other(uint8_t *bytes, size_t size, size_t at, uint8_t change, given expected) {
    weir_error error;
    bytes[at] ^= change;
    given found = read_store(bytes, size, WEIR_VERIFY_TOUCHED, &error);
    bytes[at] ^= change;
    if (found.status != WEIR_OK && found.status != WEIR_STORE_CORRUPT && found.status != WEIR_STORE_VERSION)
        fail_msg("byte %zu: %s", at, weir_status_name(found.status));
    return (found.batches == WEIR_OK && found.batch_sum != expected.batch_sum) ||
           (found.status == WEIR_OK && found.sum != expected.sum);
}

/* Every bit of a store of about 64 KiB (WEIR_TEST_EVERY_BIT), or a part of them. */
static void no_flipped_bit_changes_a_batch_unseen(void **state) {
    static const made_sizes sizes = {
        .tables = 5, .columns = 6, .edges = 3, .rows = 90, .tasks = 3, .seeds = 12, .dim = 6};
    const char *every = getenv("WEIR_TEST_EVERY_BIT");
    size_t size, silent = 0, step = every ? 1 : 211 * test_stride();
    (void)state;
    uint8_t *bytes = make_at_least(&sizes, 64 << 10, &size);
    given expected = read_sound(bytes, size, WEIR_VERIFY_TOUCHED);
    for (size_t bit = 0; bit < 8 * size; bit += step)
        silent += is_silently_other(bytes, size, bit / 8, (uint8_t)(1u << bit % 8), expected);
    if (every)
        printf("%zu bits of %zu bytes flipped, %zu silent differences\n", 8 * size, size, silent);
    assert_int_equal(silent, 0);
    free(bytes);
}

/* The same for a store with a tail: places are drawn in every section, and in the tail. */
static void no_damage_to_a_long_store_changes_a_batch_unseen(void **state) {
    random_stream random = {4};
    weir_section sections[WEIR_STORE__SECTIONS_LEAST + 1];
    weir_store *store;
    weir_error error;
    size_t size;
    (void)state;
    uint8_t *bytes = make_long(&size);
    uint64_t tail = end_of_sections(bytes);
    given expected = read_sound(bytes, size, WEIR_VERIFY_TOUCHED);
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
    memcpy(sections, weir_store_describe(store)->sections, WEIR_STORE__SECTIONS_LEAST * sizeof *sections);
    sections[WEIR_STORE__SECTIONS_LEAST] = (weir_section){.offset = tail, .size = size - tail};
    weir_store_close(store);
    for (unsigned round = 0; round < 800; round += test_stride()) {
        const weir_section *section = &sections[round % (WEIR_STORE__SECTIONS_LEAST + 1)];
        size_t at = (size_t)(section->offset + random_below(&random, section->size));
        if (section->size > 0 &&
            is_silently_other(bytes, size, at, (uint8_t)(1u << random_below(&random, 8)), expected))
            fail_msg("byte %zu of section %s", at - (size_t)section->offset, section->name);
    }
    free(bytes);
}

/* The rows of the batches of task 0, and how often; the caller frees. */
static uint8_t *rows_in_batches(const weir_store *store) {
    const weir_store_info *info = weir_store_describe(store);
    uint8_t *uses = calloc(info->row_count + 1, 1);
    weir_manifest *manifest = make_store_manifest(store, 0, WEIR_TRAIN, BATCH, config);
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    weir_error error;
    assert_true(uses && manifest);
    weir_batch_options options = options_of(store, manifest, "made/k0/train");
    assert_ok(weir_batch_builder_open(NULL, &options, &builder, &error), &error);
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error), &error);
    assert_ok(weir_batch_build(builder, (weir_cursor){0, 0}, buffer, &error), &error);
    const weir_batch *batch = weir_batch_view(buffer);
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        uint32_t rows = weir__load32(batch->data + batch->tensors[WEIR_NUM_ROWS].offset + 4 * (size_t)i);
        for (uint32_t r = 0; r < rows; r++)
            uses[batch->rows[(size_t)i * batch->row_stride + r]] = 1;
    }
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    weir_manifest_close(manifest);
    return uses;
}

/* Every record of a row that is in a batch, damaged: found. */
static unsigned damage_records(const weir_store *store, uint8_t *bytes, size_t size, const uint8_t *uses) {
    const weir_store_info *info = weir_store_describe(store);
    unsigned tried = 0;
    for (uint32_t row = 0; row < info->row_count; row++) {
        const weir_table *table = &info->tables[weir_store_table_of(store, row)];
        weir_error error;
        if (!uses[row] || table->stride == 0 || tried++ % test_stride() != 0)
            continue;
        size_t record = (size_t)(table->records - bytes) + (size_t)(row - table->row_start) * table->stride;
        size_t at = record + (table->time_offset == WEIR_NONE ? row % table->stride : table->time_offset + 6);
        bytes[at] ^= 0x40; /* a time becomes later than any observation */
        assert_int_equal(read_store(bytes, size, WEIR_VERIFY_TOUCHED, &error).batches, WEIR_STORE_CORRUPT);
        bytes[at] ^= 0x40;
    }
    return tried;
}

/* Every entry of a child list that names a row of a batch, and its time, damaged: found, or not used. */
static unsigned damage_lists(const weir_store *store, uint8_t *bytes, size_t size, const uint8_t *uses,
                             given expected) {
    const weir_store_info *info = weir_store_describe(store);
    unsigned tried = 0;
    for (uint32_t e = 0; e < info->edge_count; e++)
        for (uint64_t i = 0; i < info->edges[e].edges; i++) {
            size_t at = (size_t)(info->edges[e].child_rows - bytes) + 4 * (size_t)i;
            if (!uses[weir__load32(bytes + at)] || tried++ % test_stride() != 0)
                continue;
            assert_false(is_silently_other(bytes, size, at, 1, expected));
            const uint8_t *times = info->edges[e].child_times;
            if (times) /* one becomes later than any observation */
                assert_false(is_silently_other(bytes, size, (size_t)(times - bytes) + 8 * (size_t)i + 6, 0x40,
                                               expected));
        }
    return tried;
}

/* The stores have many blocks and few seeds, so that hardly a block is verified by chance. */
static void all_that_a_walk_uses_is_verified(const made_sizes *sizes, uint64_t stores,
                                             const char *used_config) {
    unsigned records = 0, entries = 0;
    config = used_config;
    for (uint64_t seed = 1; seed < stores; seed++) {
        weir_store *store;
        weir_error error;
        size_t size;
        uint8_t *bytes = make_store_bytes(seed, sizes, &size);
        assert_non_null(bytes);
        assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
        if (weir_store_describe(store)->tasks[0].split_start[1] > 0) {
            given expected = read_sound(bytes, size, WEIR_VERIFY_TOUCHED);
            uint8_t *uses = rows_in_batches(store);
            records += damage_records(store, bytes, size, uses);
            entries += damage_lists(store, bytes, size, uses, expected);
            free(uses);
        }
        weir_store_close(store);
        free(bytes);
    }
    if (records < 60 || entries < 60)
        fail_msg("only %u records and %u entries", records, entries);
    config = CONFIG;
}

static const made_sizes many_blocks = {
    .tables = 2, .columns = 5, .edges = 2, .rows = 40000, .tasks = 1, .seeds = 2, .dim = 2};

static void what_a_walk_uses_is_verified(void **state) {
    (void)state;
    all_that_a_walk_uses_is_verified(&many_blocks, 40, CONFIG);
}

static void what_a_walk_to_the_latest_uses_is_verified(void **state) {
    (void)state;
    all_that_a_walk_uses_is_verified(&many_blocks, 40, CONFIG ", \"child_policy\": \"latest\"");
}

/* All rows are children of one: what is chosen lies more than a block apart. */
static void children_that_lie_far_apart_are_verified(void **state) {
    made_sizes sizes = many_blocks;
    (void)state;
    sizes.hubs = 1;
    all_that_a_walk_uses_is_verified(
        &sizes, 12, "\"sequence_length\": 200, \"max_hops\": 2, \"child_width\": 8, \"max_rows\": 20");
}

/* Damages times of the one list of the first edge that has times; how often that was found. */
static unsigned damage_times(const made_sizes *sizes, uint64_t seed, uint32_t first, uint32_t step,
                             uint32_t times) {
    unsigned found = 0;
    weir_store *store;
    weir_error error;
    size_t size;
    uint8_t *bytes = make_store_bytes(seed, sizes, &size);
    assert_non_null(bytes);
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
    const weir_store_info *info = weir_store_describe(store);
    given expected = read_sound(bytes, size, WEIR_VERIFY_TOUCHED);
    for (uint32_t e = 0; e < info->edge_count; e++)
        for (uint32_t i = 0; info->edges[e].child_times && i < times; i++) {
            size_t at = (size_t)(info->edges[e].child_times - bytes) + 8 * (size_t)(first + i * step) + 6;
            if (is_silently_other(bytes, size, at, 0x40, expected)) /* later than any observation */
                fail_msg("store %llu, time %u", (unsigned long long)seed, first + i * step);
            bytes[at] ^= 0x40;
            found += read_store(bytes, size, WEIR_VERIFY_TOUCHED, &error).batches == WEIR_STORE_CORRUPT;
            bytes[at] ^= 0x40;
        }
    weir_store_close(store);
    free(bytes);
    return found;
}

/* A search in a long list reads times far from where it ends. */
static void times_that_a_search_reads_are_verified(void **state) {
    static const made_sizes sizes = {.tables = 2,
                                     .columns = 5,
                                     .edges = 1,
                                     .rows = 40000,
                                     .tasks = 1,
                                     .seeds = 2,
                                     .dim = 2,
                                     .hubs = 1,
                                     .is_exact = true};
    unsigned found = 0;
    (void)state;
    for (uint64_t seed = 4; seed < 16; seed++)
        found += damage_times(&sizes, seed, 9999, 10000, 3);
    if (found < 6)
        fail_msg("found %u", found);
}

/* The first quarter of the list ends just after its first block: a search that ends there has not read the
 * block, but the newest up to there are in it. The stores are some whose only seed's search ends there. */
static void times_of_the_latest_are_verified(void **state) {
    static const made_sizes sizes = {.tables = 2,
                                     .columns = 5,
                                     .edges = 1,
                                     .rows = 4 * 8195,
                                     .tasks = 1,
                                     .seeds = 1,
                                     .dim = 2,
                                     .hubs = 1,
                                     .is_exact = true};
    static const uint64_t stores[] = {135, 494, 1283};
    (void)state;
    config = "\"sequence_length\": 4000, \"max_hops\": 2, \"child_width\": 300, \"max_rows\": 400, "
             "\"child_policy\": \"latest\"";
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++)
        assert_int_equal(damage_times(&sizes, stores[i], 8100, 40, 3), 3);
    config = CONFIG;
}

/* Of rows that are left out if they show nothing, the others are listed before the first walk. */
static void times_of_what_is_shown_are_verified(void **state) {
    static const made_sizes sizes = {.tables = 2,
                                     .columns = 2,
                                     .edges = 1,
                                     .rows = 100,
                                     .tasks = 1,
                                     .seeds = 40,
                                     .dim = 2,
                                     .hubs = 4,
                                     .is_exact = true};
    static const char *const visible[] = {"\"train\"", "[\"train\", \"val\"]"};
    static char text[200];
    (void)state;
    for (size_t i = 0; i < sizeof visible / sizeof visible[0]; i++) {
        unsigned found = 0;
        snprintf(text, sizeof text,
                 "\"sequence_length\": 200, \"max_hops\": 2, \"identifiers\": \"omit\", \"blank_rows\": "
                 "\"omit\", \"label_visibility\": %s",
                 visible[i]);
        config = text;
        for (uint64_t seed = 1; seed < 100; seed++)
            found += damage_times(&sizes, seed, 0, 9, 5);
        if (found < 60)
            fail_msg("found %u", found);
    }
    config = CONFIG;
}

static void assert_damaged(const uint8_t *bytes, size_t size, weir_verify verify, const char *message) {
    weir_error error;
    assert_fails(read_store(bytes, size, verify, &error).status, WEIR_STORE_CORRUPT, &error);
    if (!strstr(error.message, message))
        fail_msg("'%s' is not in: %s", message, error.message);
}

static void damage_is_named(void **state) {
    size_t size;
    weir_error error;
    weir_store *store;
    (void)state;
    uint8_t *bytes = make_long(&size);
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
    const weir_section *rows = &weir_store_describe(store)->sections[WEIR_STORE__SECTION_ROWS - 1];
    assert_true(rows->size > 2 * WEIR__SUBTREE_SIZE);
    size_t at = (size_t)rows->offset + WEIR__SUBTREE_SIZE + 7;
    weir_store_close(store);
    bytes[at] ^= 1;
    assert_damaged(bytes, size, WEIR_VERIFY_TOUCHED,
                   "the section rows of a.weir is damaged, in the 64 KiB from byte 65536");
    assert_damaged(bytes, size, WEIR_VERIFY_ALL, "the section rows of a.weir is damaged; copy it again");
    bytes[at] ^= 1;
    bytes[end_of_sections(bytes) + 70] ^= 1; /* a value of the tail */
    assert_damaged(bytes, size, WEIR_VERIFY_TOUCHED, "is damaged");
    assert_damaged(bytes, size, WEIR_VERIFY_ALL, "the block hashes of the section rows of a.weir are");
    free(bytes);
}

static void raw_readers_can_ask(void **state) {
    size_t size;
    weir_error error;
    weir_store *store;
    (void)state;
    uint8_t *bytes = make_long(&size);
    assert_ok(weir_store_open_memory(NULL, bytes, size, &store, &error), &error);
    const weir_store_info *info = weir_store_describe(store);
    const weir_section *rows = &info->sections[WEIR_STORE__SECTION_ROWS - 1];
    assert_true(weir_store_touch(store, bytes + rows->offset, (size_t)rows->size - 70));
    assert_true(weir_store_touch(store, bytes, 0));
    assert_false(weir_store_touch(store, bytes, 8)); /* no section's */
    bytes[rows->offset + rows->size - 1] ^= 1;       /* its block was verified: not looked at again */
    assert_true(weir_store_touch(store, bytes + rows->offset, (size_t)rows->size));
    assert_ok(weir_store_status(store, &error), &error);
    weir_store_close(store);
    free(bytes);
}

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct reading {
    const weir_store *store;
    uint64_t sum;
    weir_status status;
} reading;

static void *read_in_thread(void *argument) {
    reading *r = argument;
    weir_error error;
    r->status = read_batches(r->store, &r->sum, &error);
    return NULL;
}

static void threads_that_meet_at_a_block_agree(void **state) {
    enum { THREADS = 4 };
    size_t size;
    weir_error error;
    (void)state;
    uint8_t *bytes = make_long(&size);
    for (int with_tail = 0; with_tail < 2; with_tail++) {
        weir_store *store;
        reading readings[THREADS];
        pthread_t threads[THREADS];
        size_t length = with_tail ? size : (size_t)end_of_sections(bytes);
        assert_ok(weir_store_open_memory(NULL, bytes, length, &store, &error), &error);
        for (int i = 0; i < THREADS; i++) {
            readings[i] = (reading){.store = store};
            assert_int_equal(pthread_create(&threads[i], NULL, read_in_thread, &readings[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
            assert_int_equal(readings[i].status, WEIR_OK);
            assert_true(readings[i].sum == readings[0].sum);
        }
        weir_store_close(store);
    }
    free(bytes);
}

/* ---- Files that are cut under a reader -------------------------------------------------------- */

static void a_file_that_is_cut_is_an_error(void **state) {
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    struct sigaction before, after;
    weir_error error;
    size_t size;
    (void)state;
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/made.weir", folder);
    uint8_t *bytes = make_long(&size);
    assert_int_equal(sigaction(SIGBUS, NULL, &before), 0);
    for (size_t pages = 0; pages < size / 4096; pages += 1 + size / 4096 / 5) {
        weir_store *store;
        uint64_t sum = 0;
        write_whole_file(path, bytes, size);
        assert_ok(weir_store_open(NULL, path, &store, &error), &error);
        assert_int_equal(truncate(path, (off_t)(pages * 4096)), 0);
        weir_status status = read_batches(store, &sum, &error);
        if (status == WEIR_OK) { /* the end of it is not in these batches */
            sum += read_everything(store, UINT32_MAX);
            status = weir_store_verify(store, 1, &error);
        }
        assert_fails(status, WEIR_IO_ERROR, &error);
        assert_non_null(strstr(error.message, path));
        assert_fails(weir_store_status(store, &error), WEIR_IO_ERROR, &error);
        weir_store_close(store);
    }
    assert_int_equal(sigaction(SIGBUS, NULL, &after), 0);
    assert_true(before.sa_handler == after.sa_handler);
    free(bytes);
    scratch_remove(folder);
}

/* Builds a batch, cuts the file, and builds the batch again. The blocks were verified the first time, and are
 * not verified again: all that is heard is what the system says of a page that is gone. */
static weir_status build_cut_and_build(const char *path, size_t cut_to, bool *is_same_batch,
                                       weir_error *error) {
    weir_store *store;
    weir_batch_builder *builder;
    weir_batch_buffer *buffer;
    uint8_t digest[16];
    assert_ok(weir_store_open(NULL, path, &store, error), error);
    weir_manifest *manifest = make_store_manifest(store, 0, WEIR_TRAIN, BATCH, config);
    assert_non_null(manifest);
    weir_batch_options options = options_of(store, manifest, "made/k0/train");
    assert_ok(weir_batch_builder_open(NULL, &options, &builder, error), error);
    assert_ok(weir_batch_buffer_open(&builder, 1, NULL, &buffer, error), error);
    assert_ok(weir_batch_build(builder, (weir_cursor){0, 0}, buffer, error), error);
    memcpy(digest, weir_batch_view(buffer)->batch_digest, sizeof digest);
    assert_int_equal(truncate(path, (off_t)cut_to), 0);
    weir_status status = weir_batch_build(builder, (weir_cursor){0, 0}, buffer, error);
    *is_same_batch = memcmp(digest, weir_batch_view(buffer)->batch_digest, sizeof digest) == 0;
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    weir_manifest_close(manifest);
    weir_store_close(store);
    return status;
}

static void a_file_that_is_cut_after_its_use_is_an_error(void **state) {
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    weir_error error;
    unsigned errors = 0;
    size_t size;
    (void)state;
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/made.weir", folder);
    uint8_t *bytes = make_long(&size);
    for (size_t pages = 0; pages < size / 4096; pages++) {
        bool is_same_batch;
        write_whole_file(path, bytes, size);
        weir_status status = build_cut_and_build(path, pages * 4096, &is_same_batch, &error);
        if (status == WEIR_OK) {
            assert_true(is_same_batch);
            continue;
        }
        assert_fails(status, WEIR_IO_ERROR, &error);
        assert_non_null(strstr(error.message, path));
        errors++;
    }
    assert_true(errors > 10);
    free(bytes);
    scratch_remove(folder);
}

/* Reads the only page of a file that is cut. */
static void read_cut_page(const char *path) {
    write_whole_file(path, "x", 1);
    FILE *file = fopen(path, "r+");
    volatile uint8_t *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    if (truncate(path, 0) != 0 || page == MAP_FAILED)
        _exit(9);
    (void)page[0];
}

static void leave_with_7(int number) {
    (void)number;
    _exit(7);
}

static void bus_errors_that_are_not_ours_are_passed_on(void **state) {
    char folder[SCRATCH_PATH], store_path[SCRATCH_PATH + 16], path[SCRATCH_PATH + 16];
    size_t size;
    (void)state;
    scratch_make(folder);
    snprintf(store_path, sizeof store_path, "%s/made.weir", folder);
    snprintf(path, sizeof path, "%s/other", folder);
    uint8_t *bytes = make_long(&size);
    write_whole_file(store_path, bytes, size);
    for (int has_handler = 0; has_handler < 2; has_handler++) {
        fflush(NULL);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            weir_store *store;
            signal(SIGBUS, has_handler ? leave_with_7 : SIG_DFL);
            if (weir_store_open(NULL, store_path, &store, NULL) == WEIR_OK)
                read_cut_page(path);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (has_handler)
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        else
            assert_true((WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) ||
                        (WIFEXITED(status) && WEXITSTATUS(status) != 0));
    }
    free(bytes);
    scratch_remove(folder);
}

/* ---- Stores that are larger than memory -------------------------------------------------------- */

static uint64_t memory_bytes, scattered_bytes, expected_bytes;

static uint64_t say_memory(void *context) {
    (void)context;
    return memory_bytes;
}

static void keep_scattered(void *context, const void *memory, size_t size) {
    (void)context;
    assert_non_null(memory);
    scattered_bytes = size;
}

static bool keep_expected(void *context, const void *memory, size_t size) {
    (void)context;
    assert_non_null(memory);
    expected_bytes += size;
    return false;
}

/* A store that does not fit, into the machine or into what its opener gives it, is read page by page: the
 * system is told so when it is opened. Blocks are asked for as a whole, before they are verified. */
static void a_store_larger_than_memory_is_scattered(void **state) {
    (void)state;
    weir_error error;
    weir_store *store;
    weir_env env = *weir_env_default();
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    size_t size;
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/made.weir", folder);
    uint8_t *bytes = make_long(&size);
    write_whole_file(path, bytes, size);
    env.memory_size = say_memory;
    env.scatter = keep_scattered;
    env.expect = keep_expected;
    for (int i = 0; i < 4; i++) {
        bool is_small = i % 2, is_given = i / 2;
        weir_store_options options = {.size = sizeof options};
        scattered_bytes = expected_bytes = 0;
        memory_bytes = is_small != is_given ? 4096 : UINT64_MAX;
        options.memory = !is_given ? 0 : is_small ? 2 * size - 2 : 2 * size;
        assert_ok(weir_store_open_with(&env, path, &options, &store, &error), &error);
        assert_int_equal(scattered_bytes, is_small ? size : 0);
        assert_int_equal(expected_bytes, 0);
        const weir_store_info *info = weir_store_describe(store);
        assert_true(info->sections[WEIR_STORE__SECTION_ROWS - 1].size > WEIR__SUBTREE_SIZE);
        assert_true(weir_store_touch(store, info->tables[0].records, 1));
        assert_int_equal(expected_bytes, is_small ? WEIR__SUBTREE_SIZE : 0);
        weir_store_close(store);
    }
    free(bytes);
    scratch_remove(folder);
    uint64_t found = weir_env_default()->memory_size(NULL);
    assert_in_range(found, 1 << 20, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ways_to_verify_give_the_same),
        cmocka_unit_test(no_flipped_bit_changes_a_batch_unseen),
        cmocka_unit_test(no_damage_to_a_long_store_changes_a_batch_unseen),
        cmocka_unit_test(what_a_walk_uses_is_verified),
        cmocka_unit_test(what_a_walk_to_the_latest_uses_is_verified),
        cmocka_unit_test(children_that_lie_far_apart_are_verified),
        cmocka_unit_test(times_that_a_search_reads_are_verified),
        cmocka_unit_test(times_of_the_latest_are_verified),
        cmocka_unit_test(times_of_what_is_shown_are_verified),
        cmocka_unit_test(damage_is_named),
        cmocka_unit_test(raw_readers_can_ask),
        cmocka_unit_test(threads_that_meet_at_a_block_agree),
        cmocka_unit_test(a_file_that_is_cut_is_an_error),
        cmocka_unit_test(a_file_that_is_cut_after_its_use_is_an_error),
        cmocka_unit_test(bus_errors_that_are_not_ours_are_passed_on),
        cmocka_unit_test(a_store_larger_than_memory_is_scattered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
