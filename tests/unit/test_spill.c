/* Memory that lies in a file: blocks keep what they hold, whatever is let go and however they grow; a disk
 * without room is an error that says so; nothing is left. */
#include "base/spill.h"

#include <dirent.h>
#include <errno.h>

#include "support/database.h"

enum { BLOCKS = 40, STEPS = 3000, SIZE_MOST = 40000, BUDGET = 64 * 1024 };

typedef struct kept_block {
    uint8_t *memory;
    size_t size;
    uint8_t mark;
} kept_block;

static void mark(kept_block *block, size_t from) {
    for (size_t i = from; i < block->size; i++)
        block->memory[i] = (uint8_t)(block->mark + i * 7);
}

static bool is_marked(const kept_block *block, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (block->memory[i] != (uint8_t)(block->mark + i * 7))
            return false;
    return true;
}

static weir__spill *open_spill(const weir_env *env, uint64_t budget, const char *beside) {
    weir__spill *spill;
    weir_error error;
    assert_ok(weir__spill_open(&spill, env, budget, "test", &error), &error);
    if (beside)
        assert_ok(weir__spill_place(spill, beside, &error), &error);
    return spill;
}

/* Blocks come, grow, shrink and go at random; each holds what was written to it. */
static void blocks_keep_what_they_hold(void **state) {
    (void)state;
    char folder[64], beside[160];
    fault_env faults;
    kept_block blocks[BLOCKS] = {0};
    random_stream random = {7};
    make_folder(folder);
    path_in(folder, "out", beside);
    fault_env_init(&faults);
    weir__spill *spill = open_spill(&faults.env, BUDGET, beside);
    const weir_env *env = weir__spill_env(spill);
    for (unsigned step = 0; step < STEPS; step++) {
        kept_block *block = &blocks[random_below(&random, BLOCKS)];
        size_t size = random_below(&random, 1 + random_below(&random, SIZE_MOST));
        assert_true(is_marked(block, block->size));
        if (block->memory && random_below(&random, 4) == 0) {
            env->release(env->context, block->memory);
            *block = (kept_block){0};
            continue;
        }
        size_t before = block->size < size ? block->size : size;
        block->mark = block->memory ? block->mark : (uint8_t)step;
        block->memory = env->resize(env->context, block->memory, size);
        assert_non_null(block->memory);
        assert_int_equal((uintptr_t)block->memory % 16, 0);
        block->size = size;
        assert_true(is_marked(block, before));
        mark(block, before);
        if (step % 64 == 0)
            weir__spill_look(spill);
    }
    for (int i = 0; i < BLOCKS; i++) {
        assert_true(is_marked(&blocks[i], blocks[i].size));
        env->release(env->context, blocks[i].memory);
    }
    assert_true(weir__spill_peak(spill) > BUDGET);
    weir__spill_close(spill);
    assert_int_equal(faults.live_allocations, 0);
    assert_int_equal(faults.live_files, 0);
    assert_int_equal(faults.live_maps, 0);
    remove_folder(folder);
}

static unsigned count_names(const char *folder) {
    unsigned count = 0;
    DIR *listed = opendir(folder);
    assert_non_null(listed);
    while (readdir(listed))
        count++;
    closedir(listed);
    return count - 2; /* . and .. */
}

/* Nothing goes to the file before there is need, and a place; the file has no name. */
static void file_is_made_when_it_is_needed(void **state) {
    (void)state;
    char folder[64], beside[160];
    make_folder(folder);
    path_in(folder, "out", beside);
    weir__spill *spill = open_spill(weir_env_default(), BUDGET, NULL);
    const weir_env *env = weir__spill_env(spill);
    weir_error error;
    void *first = env->allocate(env->context, 10 * BUDGET);
    assert_int_equal(weir__spill_peak(spill), 0);
    assert_ok(weir__spill_place(spill, beside, &error), &error);
    void *small = env->allocate(env->context, 16);
    assert_int_equal(weir__spill_peak(spill), 0);
    uint8_t *large = env->allocate(env->context, 10 * BUDGET);
    assert_true(first && small && large);
    memset(large, 1, 10 * BUDGET);
    assert_true(weir__spill_peak(spill) >= 10 * BUDGET);
    assert_int_equal(count_names(folder), 0);
    env->release(env->context, first);
    env->release(env->context, small);
    env->release(env->context, large);
    weir__spill_close(spill);
    remove_folder(folder);
}

static int full_disk(void *context, int file, uint64_t offset, uint64_t size) {
    (void)context;
    (void)file;
    (void)offset;
    (void)size;
    errno = ENOSPC;
    return -1;
}

static void full_disk_says_so(void **state) {
    (void)state;
    char folder[64], beside[160];
    weir_env env = *weir_env_default();
    weir_error error;
    env.claim = full_disk;
    make_folder(folder);
    path_in(folder, "out", beside);
    weir__spill *spill = open_spill(&env, BUDGET, beside);
    const weir_env *used = weir__spill_env(spill);
    assert_int_equal(weir__spill_explain(spill, WEIR_OUT_OF_MEMORY, &error), WEIR_OUT_OF_MEMORY);
    assert_null(used->allocate(used->context, 10 * BUDGET));
    assert_int_equal(weir__spill_explain(spill, WEIR_SOURCE_ERROR, &error), WEIR_SOURCE_ERROR);
    assert_fails(weir__spill_explain(spill, WEIR_OUT_OF_MEMORY, &error), WEIR_IO_ERROR, &error);
    assert_non_null(strstr(error.message, "No space left on device"));
    assert_non_null(strstr(error.message, beside));
    weir__spill_close(spill);
    remove_folder(folder);
}

/* Some blocks, of which one must move when it grows. */
static weir_status use_blocks(const weir_env *env, void *context, weir_error *error) {
    weir__spill *spill;
    weir_status status = weir__spill_open(&spill, env, BUDGET, "test", error);
    if (status == WEIR_OK)
        status = weir__spill_place(spill, context, error);
    if (status == WEIR_OK) {
        const weir_env *used = weir__spill_env(spill);
        void *one = used->allocate(used->context, BUDGET), *two = used->allocate(used->context, 2 * BUDGET);
        void *grown = one ? used->resize(used->context, one, 9 * BUDGET) : NULL;
        bool is_fine = one && two && grown;
        used->release(used->context, grown ? grown : one);
        used->release(used->context, two);
        if (!is_fine)
            status = weir__out_of_memory(error, "test", BUDGET);
        status = weir__spill_explain(spill, status, error);
    }
    weir__spill_close(spill);
    return status;
}

static void faults_of_blocks(void **state) {
    (void)state;
    char folder[64], beside[160];
    make_folder(folder);
    path_in(folder, "out", beside);
    assert_true(sweep_faults(use_blocks, NULL, beside) > 20);
    assert_int_equal(count_names(folder), 0);
    remove_folder(folder);
}

enum { GROWN_BITS_LEAST = 18, GROWN_BITS_MOST = 25, MAPS_BITS_MOST = 23 };

/* Gives few addresses at a time. */
static void *map_little(void *context, int file, size_t size) {
    const weir_env *env = weir_env_default();
    (void)context;
    return size <= (size_t)1 << MAPS_BITS_MOST ? env->map(env->context, file, size) : NULL;
}

/* A block that grows keeps what it holds, with much room to grow in and with none, and at last fails whole.
 */
static void block_grows_in_memory(void **state) {
    (void)state;
    for (int is_little = 0; is_little < 2; is_little++) {
        weir_env inner = *weir_env_default();
        inner.map = is_little ? map_little : inner.map;
        weir__spill *spill = open_spill(&inner, (uint64_t)1 << 40, NULL);
        const weir_env *env = weir__spill_env(spill);
        kept_block block = {.mark = 3};
        for (unsigned bits = GROWN_BITS_LEAST; bits <= GROWN_BITS_MOST; bits++) {
            size_t before = block.size, size = (size_t)1 << bits;
            uint8_t *grown = env->resize(env->context, block.memory, size);
            assert_int_equal(grown != NULL,
                             !is_little || bits < MAPS_BITS_MOST); /* its head needs room too */
            if (!grown)
                break;
            block = (kept_block){grown, size, block.mark};
            assert_true(is_marked(&block, before));
            mark(&block, before);
        }
        assert_true(is_marked(&block, block.size));
        env->release(env->context, block.memory);
        weir__spill_close(spill);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_keep_what_they_hold), cmocka_unit_test(file_is_made_when_it_is_needed),
        cmocka_unit_test(full_disk_says_so),          cmocka_unit_test(faults_of_blocks),
        cmocka_unit_test(block_grows_in_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
