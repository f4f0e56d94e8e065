/* Cutting a file and reading an index: every call of the environment fails in turn. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "remote/remote.h"
#include "support/testing.h"

enum { SIZE = 60000 };

static weir_status cut_and_read(const weir_env *env, void *context, weir_error *error) {
    const char *path = context;
    weir_remote_options options = WEIR_REMOTE_OPTIONS;
    weir_remote__watch watch;
    weir_json_writer w;
    weir_remote__chunks chunks = {.env = env, .size = SIZE, .bits = 12}, again = {.env = env};
    int file = open(path, O_RDONLY);
    assert_true(file >= 0);
    weir_remote__watch_begin(&watch, env, &options);
    weir_json_writer_memory(&w, env);
    weir_status status = weir_remote__chunks_cut(&chunks, file, path, &watch, error);
    if (status == WEIR_OK)
        status = weir_remote__chunks_sort(&chunks, error);
    if (status == WEIR_OK) {
        weir_remote__chunks_write(&chunks, &w);
        status = weir_json_finish(&w, error);
    }
    if (status == WEIR_OK)
        status = weir_remote__chunks_read(&again, w.data, w.size, "the index", error);
    close(file);
    weir_json_release(&w);
    weir_remote__chunks_release(&chunks);
    weir_remote__chunks_release(&again);
    return status;
}

static void nothing(void *context) {
    (void)context;
}

static void faults_of_chunks(void **state) {
    static uint8_t data[SIZE];
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    (void)state;
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (uint8_t)(i * i / 7);
    write_whole_file(path, data, SIZE);
    assert_true(sweep_faults(cut_and_read, nothing, path) > 5);
    scratch_remove(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(faults_of_chunks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
