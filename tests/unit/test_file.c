/* The default environment, and files through it: read whole with a limit, or written so that they appear
 * whole or not at all. What happens when a call fails is for tests/fault. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/testing.h"

/* ---- The default environment ----------------------------------------------------------------- */

static void files_go_through_the_environment(void **state) {
    (void)state;
    const weir_env *env = weir_env_default();
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8], data[16] = "";
    uint64_t size;
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    int file = env->open(NULL, path, O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0);
    assert_int_equal(env->write(NULL, file, "abcdef", 6), 6);
    assert_int_equal(env->pwrite(NULL, file, "XY", 2, 1), 2);
    assert_int_equal(env->sync(NULL, file), 0);
    assert_int_equal(env->pread(NULL, file, data, 16, 0), 6);
    assert_memory_equal(data, "aXYdef", 6);
    assert_int_equal(env->truncate(NULL, file, 4), 0);
    assert_int_equal(env->size(NULL, file, &size), 0);
    assert_int_equal(size, 4);
    char *map = env->map(NULL, file, 4);
    assert_non_null(map);
    assert_memory_equal(map, "aXYd", 4);
    assert_int_equal(env->unmap(NULL, map, 4), 0);
    assert_int_equal(env->close(NULL, file), 0);
    assert_int_equal(env->size(NULL, file, &size), -1);
    assert_int_equal(env->remove(NULL, path), 0);
    assert_int_equal(env->open(NULL, path, O_RDONLY, 0), -1);
    assert_int_equal(errno, ENOENT);
    scratch_remove(folder);
}

static void *add_one(void *number) {
    ++*(int *)number;
    return NULL;
}

static void memory_and_threads_go_through_the_environment(void **state) {
    (void)state;
    const weir_env *env = weir__env_or_default(NULL);
    uint8_t zeros[100] = {0};
    uint8_t *map = env->map(NULL, -1, 4096);
    assert_non_null(map);
    assert_memory_equal(map, zeros, sizeof zeros);
    map[4095] = 1;
    assert_int_equal(env->unmap(NULL, map, 4096), 0);
    assert_null(env->map(NULL, 1 << 20, 4096)); /* no such file */
    int number = 0;
    uintptr_t thread;
    assert_int_equal(env->start_thread(NULL, add_one, &number, &thread), 0);
    assert_int_equal(env->join_thread(NULL, thread), 0);
    assert_int_equal(number, 1);
    uint64_t before = env->now_ns(NULL);
    assert_true(env->now_ns(NULL) >= before);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void whole_files_are_read_up_to_a_limit(void **state) {
    (void)state;
    const weir_env *env = weir_env_default();
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    uint8_t *data, *large = malloc(300000);
    size_t size;
    weir_error error;
    assert_non_null(large);
    for (size_t i = 0; i < 300000; i++)
        large[i] = (uint8_t)(i * 31 >> 3);
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    for (size_t length = 0; length <= 300000; length = length * 3 + 1) {
        write_whole_file(path, large, length);
        assert_ok(weir__file_read(env, path, length, &data, &size, "test", &error), &error);
        assert_int_equal(size, length);
        assert_memory_equal(data, large, length);
        assert_int_equal(data[size], 0);
        weir__release(env, data);
        if (length > 0)
            assert_fails(weir__file_read(env, path, length - 1, &data, &size, "test", &error), WEIR_IO_ERROR,
                         &error);
    }
    assert_fails(weir__file_read(env, folder, 10, &data, &size, "test", &error), WEIR_IO_ERROR, &error);
    assert_non_null(strstr(error.message, "directory"));
    scratch_remove(folder);
    assert_fails(weir__file_read(env, path, 10, &data, &size, "test", &error), WEIR_IO_ERROR, &error);
    assert_non_null(strstr(error.message, path));
    free(large);
}

static void write_atomically(const char *path, const char *text, bool commit) {
    weir__atomic_file file;
    weir_error error;
    assert_ok(weir__atomic_open(&file, weir_env_default(), path, "test", &error), &error);
    for (size_t i = 0; i < strlen(text); i++)
        assert_ok(weir__atomic_write(&file, text + i, 1, &error), &error);
    assert_ok(weir__atomic_write(&file, NULL, 0, &error), &error);
    if (commit)
        assert_ok(weir__atomic_commit(&file, &error), &error);
    weir__atomic_abandon(&file);
}

static void an_atomic_file_appears_whole_or_not_at_all(void **state) {
    (void)state;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    write_atomically(path, "abandoned", false);
    assert_int_equal(count_entries(folder), 0);
    write_atomically(path, "first", true);
    assert_file_equal(path, "first", 5);
    write_atomically(path, "abandoned", false);
    assert_file_equal(path, "first", 5);
    write_atomically(path, "second, longer", true);
    assert_file_equal(path, "second, longer", 14);
    write_atomically(path, "", true);
    assert_file_equal(path, "", 0);
    assert_int_equal(count_entries(folder), 1);
    scratch_remove(folder);
}

/* What a crash may lose depends on the order of these calls alone. */
typedef struct call_log {
    char letters[64];
    size_t count;
} call_log;

static void note_call(void *context, char letter) {
    call_log *log = context;
    if (log->count + 1 < sizeof log->letters)
        log->letters[log->count++] = letter;
}

static int log_open(void *context, const char *path, int flags, unsigned mode) {
    note_call(context, flags & O_DIRECTORY ? 'D' : 'o');
    return weir_env_default()->open(NULL, path, flags, mode);
}

static int log_close(void *context, int file) {
    note_call(context, 'c');
    return weir_env_default()->close(NULL, file);
}

static ssize_t log_write(void *context, int file, const void *data, size_t size) {
    note_call(context, 'w');
    return weir_env_default()->write(NULL, file, data, size);
}

static int log_sync(void *context, int file) {
    note_call(context, 's');
    return weir_env_default()->sync(NULL, file);
}

static int log_rename(void *context, const char *from, const char *to) {
    note_call(context, 'r');
    return weir_env_default()->rename(NULL, from, to);
}

static void an_atomic_file_is_synced_before_and_after_it_takes_its_name(void **state) {
    (void)state;
    call_log log = {.count = 0};
    weir_env env = *weir_env_default();
    env.context = &log;
    env.open = log_open;
    env.close = log_close;
    env.write = log_write;
    env.sync = log_sync;
    env.rename = log_rename;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    weir__atomic_file file;
    weir_error error;
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    assert_ok(weir__atomic_open(&file, &env, path, "test", &error), &error);
    assert_ok(weir__atomic_write(&file, "ab", 2, &error), &error);
    assert_ok(weir__atomic_commit(&file, &error), &error);
    assert_string_equal(log.letters, "owsrcDsc");
    scratch_remove(folder);
}

/* Opens an atomic file and leaves it as a killed process would: open in no process, not removed. */
static void leave_behind(const char *path) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        weir__atomic_file file;
        bool is_open = weir__atomic_open(&file, weir_env_default(), path, "test", NULL) == WEIR_OK;
        _exit(is_open ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void what_a_killed_writer_left_is_removed(void **state) {
    (void)state;
    static const char *const others[] = {"file.0123.tmp", "file.0123456789abcdeg.tmp",
                                         "other.0123456789abcdef.tmp", "file.0123456789abcdef.tmp.x", "file"};
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8], other[SCRATCH_PATH + 64];
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    leave_behind(path);
    leave_behind(path); /* which removes the first */
    assert_int_equal(count_entries(folder), 1);
    for (size_t i = 0; i < 5; i++) {
        snprintf(other, sizeof other, "%s/%s", folder, others[i]);
        write_whole_file(other, "x", 1);
    }
    write_atomically(path, "whole", true);
    assert_file_equal(path, "whole", 5);
    assert_int_equal(count_entries(folder), 5);
    scratch_remove(folder);
}

static void two_writers_of_one_file_do_not_meet(void **state) {
    (void)state;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    weir__atomic_file first, second;
    weir_error error;
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    assert_ok(weir__atomic_open(&first, weir_env_default(), path, "test", &error), &error);
    assert_fails(weir__atomic_open(&second, weir_env_default(), path, "test", &error), WEIR_IO_ERROR, &error);
    assert_non_null(strstr(error.message, "another process is writing"));
    assert_ok(weir__atomic_write(&first, "mine", 4, &error), &error);
    assert_ok(weir__atomic_commit(&first, &error), &error);
    assert_file_equal(path, "mine", 4);
    assert_int_equal(count_entries(folder), 1);
    write_atomically(path, "next", true);
    assert_file_equal(path, "next", 4);
    scratch_remove(folder);
}

static int no_locks(void *context, int file) {
    (void)context;
    (void)file;
    errno = ENOLCK;
    return -1;
}

static void without_locks_the_last_of_two_writers_wins(void **state) {
    (void)state;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8];
    weir_env env = *weir_env_default();
    weir__atomic_file first, second;
    weir_error error;
    env.lock = no_locks;
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    assert_ok(weir__atomic_open(&first, &env, path, "test", &error), &error);
    assert_ok(weir__atomic_open(&second, &env, path, "test", &error), &error);
    assert_ok(weir__atomic_write(&first, "first", 5, &error), &error);
    assert_ok(weir__atomic_write(&second, "second", 6, &error), &error);
    assert_ok(weir__atomic_commit(&second, &error), &error);
    assert_file_equal(path, "second", 6);
    assert_ok(weir__atomic_commit(&first, &error), &error);
    assert_file_equal(path, "first", 5);
    assert_int_equal(count_entries(folder), 1);
    scratch_remove(folder);
}

static void a_link_in_the_way_is_not_followed(void **state) {
    (void)state;
    char folder[SCRATCH_PATH], path[SCRATCH_PATH + 8], link[SCRATCH_PATH + 40], victim[SCRATCH_PATH + 8];
    scratch_make(folder);
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(victim, sizeof victim, "%s/victim", folder);
    write_whole_file(victim, "precious", 8);
    snprintf(link, sizeof link, "%s.tmp%ld", path, (long)getpid());
    assert_int_equal(symlink(victim, link), 0);
    snprintf(link, sizeof link, "%s.0123456789abcdef.tmp", path);
    assert_int_equal(symlink(victim, link), 0);
    write_atomically(path, "new", true);
    assert_file_equal(victim, "precious", 8);
    assert_file_equal(path, "new", 3);
    scratch_remove(folder);
}

static void *no_memory(void *context, size_t size) {
    (void)context;
    (void)size;
    return NULL;
}

/* A folder with the file real/file; what `make_link` puts beside it leads somewhere. */
typedef struct link_case {
    char folder[SCRATCH_PATH];
    char real[SCRATCH_PATH + 16];
    char link[SCRATCH_PATH + 16];
} link_case;

static link_case link_case_make(void) {
    link_case c;
    scratch_make(c.folder);
    snprintf(c.real, sizeof c.real, "%s/real", c.folder);
    assert_int_equal(mkdir(c.real, 0700), 0);
    snprintf(c.real, sizeof c.real, "%s/real/file", c.folder);
    write_whole_file(c.real, "old", 3);
    snprintf(c.link, sizeof c.link, "%s/link", c.folder);
    return c;
}

static void link_case_remove(link_case *c) {
    *strrchr(c->real, '/') = 0;
    scratch_remove(c->real);
    scratch_remove(c->folder);
}

static void make_link(const link_case *c, const char *name, const char *target) {
    char path[SCRATCH_PATH + 16];
    snprintf(path, sizeof path, "%s/%s", c->folder, name);
    assert_int_equal(symlink(target, path), 0);
}

static void assert_link(const char *path) {
    struct stat found;
    assert_int_equal(lstat(path, &found), 0);
    assert_true(S_ISLNK(found.st_mode));
}

static void a_file_behind_links_is_replaced_and_the_links_stay(void **state) {
    (void)state;
    link_case c = link_case_make();
    char chain[SCRATCH_PATH + 16];
    weir_env env = *weir_env_default();
    weir__atomic_file file;
    weir_error error;
    env.allocate = no_memory;
    snprintf(chain, sizeof chain, "%s/chain", c.folder);
    make_link(&c, "link", "real/other");      /* beside the link, … */
    make_link(&c, "real/other", "../second"); /* … beside that link, … */
    make_link(&c, "second", c.real);          /* … and from the root */
    make_link(&c, "chain", "link");
    assert_ok(weir__atomic_open(&file, &env, chain, "test", &error), &error);
    assert_string_equal(file.path, c.real);
    assert_ok(weir__atomic_write(&file, "new", 3, &error), &error);
    assert_ok(weir__atomic_commit(&file, &error), &error);
    assert_file_equal(c.real, "new", 3);
    assert_link(chain);
    assert_link(c.link);
    assert_int_equal(count_entries(c.folder), 4);
    link_case_remove(&c);
}

static void a_link_that_leads_nowhere_is_replaced(void **state) {
    (void)state;
    link_case c = link_case_make();
    struct stat found;
    make_link(&c, "link", "nothing");
    write_atomically(c.link, "new", true);
    assert_int_equal(lstat(c.link, &found), 0);
    assert_true(S_ISREG(found.st_mode));
    assert_int_equal(count_entries(c.folder), 2);
    link_case_remove(&c);
}

static void assert_not_replaced(const char *path, const char *words) {
    struct stat before, after;
    weir__atomic_file file;
    weir_error error;
    assert_int_equal(lstat(path, &before), 0);
    assert_fails(weir__atomic_open(&file, weir_env_default(), path, "test", &error), WEIR_IO_ERROR, &error);
    weir__atomic_abandon(&file);
    assert_non_null(strstr(error.message, path));
    assert_non_null(strstr(error.message, words));
    assert_int_equal(lstat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
}

static void what_is_not_a_file_is_not_replaced(void **state) {
    (void)state;
    static const char *const names[] = {"pipe", "socket", "device"};
    const mode_t modes[] = {S_IFIFO, S_IFSOCK, S_IFCHR};
    link_case c = link_case_make();
    char path[SCRATCH_PATH + 16];
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", c.folder, names[i]);
        if (mknod(path, modes[i] | 0600, S_ISCHR(modes[i]) ? makedev(1, 3) : 0) != 0) {
            assert_true(S_ISCHR(modes[i])); /* which not everybody may make */
            continue;
        }
        make_link(&c, "link", names[i]);
        assert_not_replaced(path, "is a device or a pipe, not a file");
        assert_not_replaced(c.link, "is a device or a pipe, not a file");
        assert_int_equal(remove(c.link), 0);
        assert_int_equal(remove(path), 0);
    }
    make_link(&c, "link", "real");
    assert_not_replaced(c.link, "Is a directory");
    assert_not_replaced(c.folder, "Is a directory");
    assert_int_equal(remove(c.link), 0);
    make_link(&c, "link", "second");
    make_link(&c, "second", "link");
    assert_not_replaced(c.link, "Too many levels of symbolic links");
    assert_int_equal(count_entries(c.folder), 3);
    link_case_remove(&c);
}

static void devices_and_pipes_are_not_read(void **state) {
    (void)state;
    char folder[SCRATCH_PATH], pipe[SCRATCH_PATH + 8];
    scratch_make(folder);
    snprintf(pipe, sizeof pipe, "%s/pipe", folder);
    assert_int_equal(mkfifo(pipe, 0600), 0);
    const char *const paths[] = {pipe, "/dev/zero", "/dev/null"};
    for (size_t i = 0; i < 3; i++) {
        uint8_t *data;
        size_t size;
        weir_store *store;
        weir_error error;
        assert_fails(weir__file_read(weir_env_default(), paths[i], 1 << 20, &data, &size, "test", &error),
                     WEIR_IO_ERROR, &error);
        assert_non_null(strstr(error.message, "a device or a pipe"));
        assert_fails(weir_store_open(NULL, paths[i], &store, &error), WEIR_IO_ERROR, &error);
        weir_ingest_options options = WEIR_INGEST_OPTIONS;
        options.source = paths[i];
        assert_fails(weir_ingest(NULL, &options, NULL, &error), WEIR_SOURCE_ERROR, &error);
        assert_non_null(strstr(error.message, "a device or a pipe"));
    }
    scratch_remove(folder);
}

static void an_atomic_file_may_have_a_plain_name(void **state) {
    (void)state;
    char folder[SCRATCH_PATH], before[4096];
    assert_non_null(getcwd(before, sizeof before));
    scratch_make(folder);
    assert_int_equal(chdir(folder), 0);
    write_atomically("file", "here", true);
    assert_file_equal("file", "here", 4);
    assert_int_equal(chdir(before), 0);
    scratch_remove(folder);
}

static void an_atomic_file_needs_its_folder(void **state) {
    (void)state;
    weir__atomic_file file;
    weir_error error;
    assert_fails(weir__atomic_open(&file, weir_env_default(), "/no/such/folder/file", "test", &error),
                 WEIR_IO_ERROR, &error);
    assert_string_equal(error.message, "cannot create /no/such/folder/file: No such file or directory");
    weir__atomic_abandon(&file);
}

static ssize_t write_nothing(void *context, int file, const void *data, size_t size, uint64_t offset) {
    (void)context, (void)file, (void)data, (void)size, (void)offset;
    errno = 0;
    return 0;
}

/* A disk that takes no byte and names no error is one that fails, not one that is asked for ever. */
static void a_write_of_nothing_is_an_error(void **state) {
    weir_env env = *weir_env_default();
    (void)state;
    env.pwrite = write_nothing;
    assert_false(weir__write_at(&env, 1, "x", 1, 0));
    assert_int_equal(errno, EIO);
    assert_true(weir__write_at(&env, 1, "x", 0, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_of_nothing_is_an_error),
        cmocka_unit_test(files_go_through_the_environment),
        cmocka_unit_test(memory_and_threads_go_through_the_environment),
        cmocka_unit_test(whole_files_are_read_up_to_a_limit),
        cmocka_unit_test(an_atomic_file_appears_whole_or_not_at_all),
        cmocka_unit_test(an_atomic_file_is_synced_before_and_after_it_takes_its_name),
        cmocka_unit_test(an_atomic_file_may_have_a_plain_name),
        cmocka_unit_test(an_atomic_file_needs_its_folder),
        cmocka_unit_test(what_a_killed_writer_left_is_removed),
        cmocka_unit_test(two_writers_of_one_file_do_not_meet),
        cmocka_unit_test(without_locks_the_last_of_two_writers_wins),
        cmocka_unit_test(a_link_in_the_way_is_not_followed),
        cmocka_unit_test(a_file_behind_links_is_replaced_and_the_links_stay),
        cmocka_unit_test(a_link_that_leads_nowhere_is_replaced),
        cmocka_unit_test(what_is_not_a_file_is_not_replaced),
        cmocka_unit_test(devices_and_pipes_are_not_read),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
