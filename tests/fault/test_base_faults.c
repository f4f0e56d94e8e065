/* Every call of base to the system fails in turn: the record says so, nothing stays behind, and a file is
 * the old one or the new one. First the net itself: attempts that are wrong on purpose must be caught. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/testing.h"

/* ---- The net holds --------------------------------------------------------------------------- */

typedef weir_status (*attempt_function)(const weir_env *env, void *context, weir_error *error);

static weir_status clean_attempt(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    void *memory = weir__allocate(env, 1, 100);
    if (!memory)
        return weir__out_of_memory(error, "test", 100);
    int file = env->open(env->context, "/dev/null", O_RDONLY, 0);
    weir_status status = file < 0 ? weir__io_error(error, "test", "open", "/dev/null") : WEIR_OK;
    if (file >= 0)
        env->close(env->context, file);
    weir__release(env, memory);
    return status;
}

static weir_status leaks_memory_on_failure(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    void *memory = weir__allocate(env, 1, 100);
    if (!memory)
        return weir__out_of_memory(error, "test", 100);
    int file = env->open(env->context, "/dev/null", O_RDONLY, 0);
    if (file < 0)
        return weir__io_error(error, "test", "open", "/dev/null");
    env->close(env->context, file);
    weir__release(env, memory);
    return WEIR_OK;
}

static weir_status leaks_a_file_on_failure(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    int file = env->open(env->context, "/dev/null", O_RDONLY, 0);
    if (file < 0)
        return weir__io_error(error, "test", "open", "/dev/null");
    char byte;
    if (env->read(env->context, file, &byte, 1) < 0)
        return weir__io_error(error, "test", "read", "/dev/null");
    env->close(env->context, file);
    return WEIR_OK;
}

static weir_status leaks_a_map_on_failure(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    void *map = env->map(env->context, -1, 4096);
    if (!map)
        return weir__out_of_memory(error, "test", 4096);
    void *memory = weir__allocate(env, 1, 1);
    if (!memory)
        return weir__out_of_memory(error, "test", 1);
    weir__release(env, memory);
    env->unmap(env->context, map, 4096);
    return WEIR_OK;
}

static weir_status reports_the_wrong_status(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    void *memory = weir__allocate(env, 1, 100);
    if (!memory)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, "test", "not what happened");
    weir__release(env, memory);
    return WEIR_OK;
}

static weir_status leaves_the_record_empty(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    (void)error;
    void *memory = weir__allocate(env, 1, 100);
    if (!memory)
        return WEIR_OUT_OF_MEMORY;
    weir__release(env, memory);
    return WEIR_OK;
}

static weir_status fails_without_a_fault(const weir_env *env, void *context, weir_error *error) {
    (void)env;
    (void)context;
    return weir__fail(error, WEIR_IO_ERROR, "test", "out of nothing");
}

static weir_status uses_memory_that_it_did_not_get(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    (void)error;
    volatile char *memory = weir__allocate(env, 1, 100);
    *memory = 1;
    weir__release(env, (void *)memory);
    return WEIR_OK;
}

static attempt_function attempt_under_trial;
static void (*check_under_trial)(void *context);

static void sweep_the_attempt_under_trial(void **state) {
    (void)state;
    sweep_faults(attempt_under_trial, check_under_trial, NULL);
}

/* Sweeps in a process of its own, where a failed assertion or a crash is the verdict. */
static bool is_caught(attempt_function attempt, void (*check)(void *context)) {
    attempt_under_trial = attempt;
    check_under_trial = check;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const struct CMUnitTest trial[] = {cmocka_unit_test(sweep_the_attempt_under_trial)};
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(0);
        _exit(cmocka_run_group_tests(trial, NULL, NULL) == 0 ? 0 : 1);
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return status != 0;
}

static void fail_the_check(void *context) {
    (void)context;
    fail();
}

static void wrong_attempts_are_caught_and_a_right_one_is_not(void **state) {
    (void)state;
    assert_false(is_caught(clean_attempt, NULL));
    assert_true(is_caught(leaks_memory_on_failure, NULL));
    assert_true(is_caught(leaks_a_file_on_failure, NULL));
    assert_true(is_caught(leaks_a_map_on_failure, NULL));
    assert_true(is_caught(reports_the_wrong_status, NULL));
    assert_true(is_caught(leaves_the_record_empty, NULL));
    assert_true(is_caught(fails_without_a_fault, NULL));
    assert_true(is_caught(uses_memory_that_it_did_not_get, NULL));
    assert_true(is_caught(clean_attempt, fail_the_check));
}

/* ---- CBOR and JSON --------------------------------------------------------------------------- */

static weir_status write_cbor(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, env);
    weir_cbor_array(&w, 200);
    for (int i = 0; i < 200; i++)
        weir_cbor_text(&w, "some text");
    weir_status status = weir_cbor_finish(&w, error);
    weir_cbor_release(&w);
    return status;
}

static weir_status write_json(const weir_env *env, void *context, weir_error *error) {
    (void)context;
    weir_json_writer w;
    weir_json_writer_memory(&w, env);
    weir_json_array(&w);
    for (int i = 0; i < 100; i++) {
        weir_json_object(&w);
        weir_json_key(&w, "key");
        weir_json_double(&w, 0.5);
        weir_json_end_object(&w);
        weir_json_hex(&w, "0123456789", 10);
    }
    weir_json_end_array(&w);
    weir_status status = weir_json_finish(&w, error);
    weir_json_release(&w);
    return status;
}

/* Long strings, escapes, nesting and every kind of number, so that the reader allocates in all its ways. */
static weir_status read_json(const weir_env *env, void *context, weir_error *error) {
    static const char text[] =
        "{\"a\": [1, 2.5, -3e10, "
        "0.1234567890123456789012345678901234567890123456789012345678901234567890, true, false, null, [], "
        "{}], \"a longer key, with \\u00e9\": \"text "
        "\\ud835\\udefc "
        "that is longer than the sixteen bytes of a first buffer\", \"b\": {\"c\": {\"d\": [[[1]], \"x\"]}}, "
        "\"k1\": 1, \"k2\": 2, \"k3\": 3, \"k4\": 4, \"k5\": 5, \"k6\": 6, \"k7\": 7, \"k8\": 8, \"k9\": 9, "
        "\"list\": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]}";
    (void)context;
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, env);
    weir_status status = weir_json_read(text, strlen(text), "text", WEIR_MANIFEST_INVALID, &w, error);
    weir_cbor_release(&w);
    return status;
}

static void writers_report_that_memory_is_gone(void **state) {
    (void)state;
    assert_true(sweep_faults(write_cbor, NULL, NULL) >= 24);
    assert_true(sweep_faults(write_json, NULL, NULL) >= 26);
}

static void the_json_reader_reports_that_memory_is_gone(void **state) {
    (void)state;
    assert_true(sweep_faults(read_json, NULL, NULL) >= 38);
}

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct file_case {
    char folder[SCRATCH_PATH];
    char path[SCRATCH_PATH + 8];
} file_case;

static const char old_text[] = "the old file", new_text[] = "the new file, which is longer";

static file_case file_case_make(void) {
    file_case c;
    scratch_make(c.folder);
    snprintf(c.path, sizeof c.path, "%s/file", c.folder);
    write_whole_file(c.path, old_text, strlen(old_text));
    return c;
}

static weir_status replace_file(const weir_env *env, void *context, weir_error *error) {
    file_case *c = context;
    weir__atomic_file file;
    weir_status status = weir__atomic_open(&file, env, c->path, "test", error);
    if (status != WEIR_OK)
        return status;
    size_t half = strlen(new_text) / 2;
    status = weir__atomic_write(&file, new_text, half, error);
    if (status == WEIR_OK)
        status = weir__atomic_write(&file, new_text + half, strlen(new_text) - half, error);
    if (status == WEIR_OK)
        status = weir__atomic_commit(&file, error);
    weir__atomic_abandon(&file);
    return status;
}

/* What one sync of the directory more or less cannot tell: the old file or the new one, whole, and nothing
 * beside it. Then the old one again, for the next fault. */
static void assert_old_or_new(void *context) {
    file_case *c = context;
    char text[64] = "";
    FILE *file = fopen(c->path, "rb");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_true(strcmp(text, old_text) == 0 || strcmp(text, new_text) == 0);
    assert_int_equal(count_entries(c->folder), 1);
    write_whole_file(c->path, old_text, strlen(old_text));
}

static void a_file_is_replaced_whole_or_not_at_all(void **state) {
    (void)state;
    file_case c = file_case_make();
    assert_true(sweep_faults(replace_file, assert_old_or_new, &c) >= 28);
    weir_error error;
    write_whole_file(c.path, old_text, strlen(old_text));
    assert_ok(replace_file(weir_env_default(), &c, &error), &error);
    assert_file_equal(c.path, new_text, strlen(new_text));
    scratch_remove(c.folder);
}

/* The same through a link. */
static weir_status replace_through_link(const weir_env *env, void *context, weir_error *error) {
    const file_case *c = context;
    file_case linked = *c;
    snprintf(linked.path, sizeof linked.path, "%s/link", c->folder);
    assert_int_equal(symlink("file", linked.path), 0);
    weir_status status = replace_file(env, &linked, error);
    char target[8] = "";
    assert_int_equal(readlink(linked.path, target, sizeof target), 4);
    assert_string_equal(target, "file");
    assert_int_equal(remove(linked.path), 0);
    return status;
}

static void a_file_behind_a_link_is_replaced_whole_or_not_at_all(void **state) {
    (void)state;
    file_case c = file_case_make();
    assert_true(sweep_faults(replace_through_link, assert_old_or_new, &c) >= 40);
    scratch_remove(c.folder);
}

/* Before the rename, any failure leaves the old file, bit for bit. */
static weir_status replace_file_but_not_yet(const weir_env *env, void *context, weir_error *error) {
    file_case *c = context;
    weir_status status = replace_file(env, context, error);
    if (((fault_env *)env->context)->calls[FAULT_RENAME] == 0)
        assert_file_equal(c->path, old_text, strlen(old_text));
    write_whole_file(c->path, old_text, strlen(old_text));
    return status;
}

static void the_old_file_stands_until_the_rename(void **state) {
    (void)state;
    file_case c = file_case_make();
    assert_true(sweep_faults(replace_file_but_not_yet, NULL, &c) >= 28);
    scratch_remove(c.folder);
}

static weir_status read_file(const weir_env *env, void *context, weir_error *error) {
    file_case *c = context;
    uint8_t *data = NULL;
    size_t size = 0;
    weir_status status = weir__file_read(env, c->path, 1 << 20, &data, &size, "test", error);
    if (status == WEIR_OK) {
        assert_int_equal(size, 200000);
        weir__release(env, data);
    } else {
        assert_null(data);
    }
    return status;
}

static void a_file_is_read_whole_or_not_at_all(void **state) {
    (void)state;
    file_case c = file_case_make();
    char *large = calloc(200000, 1);
    assert_non_null(large);
    write_whole_file(c.path, large, 200000);
    assert_true(sweep_faults(read_file, NULL, &c) >= 18);
    free(large);
    scratch_remove(c.folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_attempts_are_caught_and_a_right_one_is_not),
        cmocka_unit_test(writers_report_that_memory_is_gone),
        cmocka_unit_test(the_json_reader_reports_that_memory_is_gone),
        cmocka_unit_test(a_file_is_replaced_whole_or_not_at_all),
        cmocka_unit_test(a_file_behind_a_link_is_replaced_whole_or_not_at_all),
        cmocka_unit_test(the_old_file_stands_until_the_rename),
        cmocka_unit_test(a_file_is_read_whole_or_not_at_all),
    };
    return cmocka_run_group_tests_name("base faults", tests, NULL, NULL);
}
