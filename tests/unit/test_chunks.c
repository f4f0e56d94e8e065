/* Stores in chunks: where a file is cut, against the reference's golden values, whatever a read gives at
 * once; the index, written and read; options; what is refused. (tests/cli/test_remote.py has the servers.) */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "remote/remote.h"
#include "support/testing.h"

enum { SIZE = 300000 };

static uint8_t data[SIZE];

/* The stream that the golden values are of. */
static void make_data(void) {
    uint64_t x = UINT64_C(88172645463325252);
    for (size_t i = 0; i < SIZE; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        weir__store64(data + i, x);
    }
}

/* Reads that give less than was asked for. */
static ssize_t read_little(void *context, int file, void *out, size_t size, uint64_t offset) {
    return pread(file, out, size < 1000 ? size : 1000, (off_t)offset);
    (void)context;
}

static void cut_file(const void *content, size_t size, uint32_t bits, const weir_env *env,
                     weir_remote__chunks *out) {
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    weir_remote_options options = WEIR_REMOTE_OPTIONS;
    weir_remote__watch watch;
    weir_error error;
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    write_whole_file(path, content, size);
    int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    *out = (weir_remote__chunks){.env = env, .size = size, .bits = bits};
    weir_remote__watch_begin(&watch, env, &options);
    assert_ok(weir_remote__chunks_cut(out, file, path, &watch, &error), &error);
    close(file);
    scratch_remove(folder);
}

static void files_are_cut_as_the_reference_does(void **state) {
    static const struct {
        uint32_t bits;
        size_t count;
        const char *hash;
    } golden[] = {{12, 65, "41b5754ade1c95c4e14e177fce1704a2537f0d4c730d5c1cd754534f26712b24"},
                  {14, 16, "a13b58196fded7c84f4650556bd798e1b67633d90339c953f9e63feeca0d37c0"},
                  {17, 5, "dc787e46dae9ccdc3d554fd361dbada349aeb454dcc5b99358aa408fdc730a13"}};
    weir_env slow = *weir_env_default();
    (void)state;
    slow.pread = read_little;
    for (int i = 0; i < 6; i++) {
        weir_remote__chunks chunks;
        weir__blake3 hasher;
        uint8_t digest[WEIR_HASH_SIZE], size[4];
        uint64_t end = 0;
        cut_file(data, SIZE, golden[i / 2].bits, i % 2 ? &slow : weir_env_default(), &chunks);
        assert_int_equal(chunks.count, golden[i / 2].count);
        weir__blake3_init(&hasher);
        for (size_t c = 0; c < chunks.count; c++) {
            assert_int_equal(chunks.list[c].offset, end);
            end += chunks.list[c].size;
            weir__store32(size, chunks.list[c].size);
            weir__blake3_update(&hasher, chunks.list[c].hash, WEIR_HASH_SIZE);
            weir__blake3_update(&hasher, size, sizeof size);
        }
        weir__blake3_final(&hasher, digest, sizeof digest);
        assert_int_equal(end, SIZE);
        assert_hex_equal(digest, sizeof digest, golden[i / 2].hash);
        weir_remote__chunks_release(&chunks);
    }
}

/* Bytes that were put in move the cuts along: only chunks around them are new. */
static void an_insertion_changes_few_chunks(void **state) {
    static uint8_t changed[SIZE + 100];
    weir_remote__chunks before, after;
    weir_error error;
    size_t found = 0;
    (void)state;
    memcpy(changed, data, SIZE / 2);
    memset(changed + SIZE / 2, 7, 100);
    memcpy(changed + SIZE / 2 + 100, data + SIZE / 2, SIZE / 2);
    cut_file(data, SIZE, 12, weir_env_default(), &before);
    cut_file(changed, sizeof changed, 12, weir_env_default(), &after);
    assert_ok(weir_remote__chunks_sort(&before, &error), &error);
    for (size_t i = 0; i < after.count; i++)
        found += weir_remote__chunks_find(&before, after.list[i].hash, after.list[i].size) != NULL;
    assert_true(after.count - found <= 3);
    weir_remote__chunks_release(&before);
    weir_remote__chunks_release(&after);
}

static void small_files(void **state) {
    static const size_t sizes[] = {1, 4095, 4096, 4097, 5120, 5121};
    (void)state;
    for (int i = 0; i < 6; i++) {
        weir_remote__chunks chunks;
        cut_file(data, sizes[i], 12, weir_env_default(), &chunks);
        assert_int_equal(chunks.count, sizes[i] > 4096 ? 2 : 1);
        assert_int_equal(chunks.list[0].size, sizes[i] < 4096 ? sizes[i] : 4096);
        weir_remote__chunks_release(&chunks);
    }
}

static void an_index_is_read_as_it_was_written(void **state) {
    weir_remote__chunks chunks, again = {.env = weir_env_default()};
    weir_json_writer w;
    weir_error error;
    (void)state;
    cut_file(data, SIZE, 13, weir_env_default(), &chunks);
    weir_json_writer_memory(&w, NULL);
    weir_remote__chunks_write(&chunks, &w);
    assert_ok(weir_json_finish(&w, &error), &error);
    assert_ok(weir_remote__chunks_read(&again, w.data, w.size, "it", &error), &error);
    assert_int_equal(again.count, chunks.count);
    assert_int_equal(again.bits, 13);
    for (size_t i = 0; i < chunks.count; i++) {
        assert_memory_equal(again.list[i].hash, chunks.list[i].hash, WEIR_HASH_SIZE);
        assert_int_equal(again.list[i].offset, chunks.list[i].offset);
        assert_int_equal(again.list[i].size, chunks.list[i].size);
    }
    for (size_t cut = 0; cut < w.size; cut += 1 + 97 * test_stride()) { /* an index that was cut */
        weir_remote__chunks part = {.env = weir_env_default()};
        assert_fails(weir_remote__chunks_read(&part, w.data, cut, "it", &error), WEIR_STORE_CORRUPT, &error);
        weir_remote__chunks_release(&part);
    }
    weir_json_release(&w);
    weir_remote__chunks_release(&chunks);
    weir_remote__chunks_release(&again);
}

static void options_have_defaults_and_limits(void **state) {
    weir_remote_options options, given = WEIR_REMOTE_OPTIONS;
    weir_error error;
    (void)state;
    assert_ok(weir_remote__take_options(&options, NULL, &error), &error);
    assert_int_equal(options.retries, UINT32_MAX); /* not given: not that there are none */
    given.size = 0;
    assert_fails(weir_remote__take_options(&options, &given, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_non_null(strstr(error.message, "set it to sizeof(weir_remote_options)"));
    given.size = sizeof given;
    given.concurrency = 65;
    assert_fails(weir_remote__take_options(&options, &given, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_non_null(strstr(error.message, "concurrency 1 to 64"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_cut_as_the_reference_does),
        cmocka_unit_test(an_insertion_changes_few_chunks),
        cmocka_unit_test(small_files),
        cmocka_unit_test(an_index_is_read_as_it_was_written),
        cmocka_unit_test(options_have_defaults_and_limits),
    };
    make_data();
    return cmocka_run_group_tests_name("chunks", tests, NULL, NULL);
}
