/* A store is the same file for any size of memory and any number of threads, also if nearly nothing fits. */
#include "support/database.h"

static uint8_t *read_all(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*size);
    assert_non_null(data);
    assert_int_equal(fread(data, 1, *size, file), *size);
    fclose(file);
    return data;
}

static uint8_t *ingest(const char *folder, uint64_t memory, uint32_t threads, size_t *size,
                       weir_ingest_report *report) {
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_error error;
    char source[160], store[160];
    char *schema = golden_text("shop_small.schema.json", &options.schema_size);
    options.source = path_in(folder, "shop_small.sqlite", source);
    options.output = path_in(folder, "shop.weir", store);
    options.schema = schema;
    options.threads = threads;
    options.memory = memory;
    assert_ok(weir_ingest(NULL, &options, report, &error), &error);
    free(schema);
    return read_all(store, size);
}

static void any_memory_gives_one_store(void **state) {
    static const uint64_t sizes[] = {64 << 10, 512 << 10, 64 << 20};
    char folder[64], source[160];
    weir_ingest_report report;
    size_t size, found_size;
    (void)state;
    make_folder(folder);
    make_shop(folder, source);
    uint8_t *expected = ingest(folder, 0, 2, &size, &report);
    assert_int_equal(report.spilled_bytes, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (uint32_t threads = 1; threads <= 3; threads += 2) {
            uint8_t *found = ingest(folder, sizes[i], threads, &found_size, &report);
            assert_int_equal(found_size, size);
            assert_memory_equal(found, expected, size);
            assert_true((report.spilled_bytes > 0) == (sizes[i] < 64 << 20));
            free(found);
        }
    free(expected);
    remove_folder(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_memory_gives_one_store)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
