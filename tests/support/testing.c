/* See testing.h. */
#include "support/testing.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/boundary.h"

/* The memory sanitizer does not see what jansson writes: its memory counts as written, and so does what is
 * left on the stack before it is called. */
#ifdef WEIR__MEMORY_SANITIZER
static void *zeroed_memory(size_t size) {
    return calloc(1, size);
}

__attribute__((constructor)) static void trust_jansson(void) {
    json_set_alloc_funcs(zeroed_memory, free);
}

__attribute__((noinline)) void forget_stack(void) {
    char below[1 << 16];
    WEIR__WRITTEN(below, sizeof below);
}
#else
void forget_stack(void) {
}
#endif

json_t *load_golden(const char *name) {
    char path[1024];
    json_error_t fault;
    snprintf(path, sizeof path, "%s/%s", WEIR_GOLDEN_DIR, name);
    forget_stack();
    json_t *golden = json_load_file(path, 0, &fault);
    if (!golden)
        fail_msg("%s:%d: %s", path, fault.line, fault.text);
    return golden;
}

json_t *load_vectors(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "vectors/%s", name);
    return load_golden(path);
}

json_t *member(json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    if (!value)
        fail_msg("a golden file has no '%s' where one belongs", key);
    return value;
}

const char *member_text(json_t *object, const char *key) {
    json_t *value = member(object, key);
    assert_true(json_is_string(value));
    return json_string_value(value);
}

uint64_t uint_of(json_t *value) {
    if (json_is_string(value)) {
        char *end;
        errno = 0;
        uint64_t number = strtoull(json_string_value(value), &end, 10);
        assert_true(errno == 0 && *end == 0);
        return number;
    }
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

uint64_t member_uint(json_t *object, const char *key) {
    return uint_of(member(object, key));
}

uint8_t *bytes_of_hex(const char *hex, size_t *size) {
    static uint8_t buffers[2][65536];
    static unsigned turn;
    uint8_t *out = buffers[turn++ % 2];
    size_t count = strlen(hex) / 2;
    assert_true(count <= sizeof buffers[0] && strlen(hex) % 2 == 0);
    for (size_t i = 0; i < count; i++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    *size = count;
    return out;
}

void assert_hex_equal(const void *data, size_t size, const char *hex) {
    size_t expected_size;
    const uint8_t *expected = bytes_of_hex(hex, &expected_size);
    assert_int_equal(size, expected_size);
    assert_memory_equal(data, expected, size);
}

void assert_status(weir_status status, weir_status expected, const weir_error *error, const char *file,
                   int line) {
    if (status == expected)
        return;
    char text[WEIR_MESSAGE_CAPACITY + 64] = "";
    if (status != WEIR_OK && error)
        weir_error_line(error, text, sizeof text);
    print_error("%s:%d: %s where %s was expected; %s\n", file, line, weir_status_name(status),
                weir_status_name(expected), text);
    fail();
}

/* ---- Manifests ------------------------------------------------------------------------------- */

weir_manifest *manifest_of_text(const char *json) {
    weir_error error;
    weir_manifest *manifest = NULL;
    assert_ok(weir_manifest_read(NULL, json, strlen(json), "test", &manifest, &error), &error);
    return manifest;
}

weir_manifest *manifest_of(json_t *document) {
    char *text = json_dumps(document, 0);
    assert_non_null(text);
    weir_manifest *manifest = manifest_of_text(text);
    free(text);
    return manifest;
}

weir_manifest *manifest_of_numbers(uint64_t cardinality, uint64_t global_batch_size,
                                   const weir_data_config *data, uint64_t seed) {
    char text[1024];
    snprintf(
        text, sizeof text,
        "{\"seed\": \"%" PRIu64 "\", \"global_batch_size\": \"%" PRIu64 "\", \"datasets\": {\"a\": {\"id\": "
        "\"a\", \"version\": \"1\", \"cardinality\": \"%" PRIu64 "\", \"hash\": \"%064d\"}}, \"data\": "
        "{\"sampler_block_size\": \"%" PRIu64 "\", \"drop_last\": %s, \"rotate\": %s, \"epoch_boundary\": "
        "\"%s\", \"intra_block\": \"%s\", \"block_order\": \"%s\"}}",
        seed, global_batch_size, cardinality, 0, data->sampler_block_size, data->drop_last ? "true" : "false",
        data->rotate ? "true" : "false", data->epoch_boundary == WEIR_BOUNDARY_STREAM ? "stream" : "strict",
        data->intra_block == WEIR_INTRA_FEISTEL_V1 ? "feistel_v1" : "affine_v1",
        data->block_order == WEIR_BLOCKS_STATELESS_V1 ? "stateless_v1" : "fisher_yates_v1");
    return manifest_of_text(text);
}

/* ---- Files ----------------------------------------------------------------------------------- */

const char *scratch_root(void) {
    enum { MOST = 40 };
    const uint64_t enough = (uint64_t)1 << 30;
    const char *given = getenv("TMPDIR");
    struct statvfs about;
    if (given)
        return strlen(given) < MOST ? given : "/tmp";
    bool has_room = access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &about) == 0 &&
                    about.f_bavail * about.f_frsize >= enough;
    return has_room ? "/dev/shm" : "/tmp";
}

void scratch_make(char path[SCRATCH_PATH]) {
    snprintf(path, SCRATCH_PATH, "%s/weir-test-XXXXXX", scratch_root());
    assert_non_null(mkdtemp(path));
}

/* Calls `visit` for every entry but "." and ".."; returns how many there are. */
static size_t visit_entries(const char *folder, void (*visit)(const char *path)) {
    size_t found = 0;
    DIR *directory = opendir(folder);
    assert_non_null(directory);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[2 * SCRATCH_PATH + 256];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        found++;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (visit)
            visit(path);
    }
    closedir(directory);
    return found;
}

size_t count_entries(const char *folder) {
    return visit_entries(folder, NULL);
}

static void remove_file(const char *path) {
    assert_int_equal(unlink(path), 0);
}

void scratch_remove(const char *path) {
    visit_entries(path, remove_file);
    assert_int_equal(rmdir(path), 0);
}

void write_whole_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

void assert_file_equal(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t *found = malloc(size + 2);
    assert_non_null(found);
    size_t found_size = fread(found, 1, size + 1, file);
    fclose(file);
    bool is_equal = found_size == size && memcmp(found, data, size) == 0;
    free(found);
    if (!is_equal)
        fail_msg("%s does not hold the %zu bytes that it should", path, size);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static bool strikes(void *context, fault_kind kind) {
    fault_env *faults = context;
    uint64_t call = __atomic_add_fetch(&faults->calls[kind], 1, __ATOMIC_RELAXED);
    if (kind != faults->kind || faults->fail_at == 0)
        return false;
    return faults->from_then_on ? call >= faults->fail_at : call == faults->fail_at;
}

static void count(int64_t *live, int64_t change) {
    __atomic_add_fetch(live, change, __ATOMIC_RELAXED);
}

static const weir_env *base(void) {
    return weir_env_default();
}

static void *fault_allocate(void *context, size_t size) {
    fault_env *faults = context;
    void *memory = strikes(faults, FAULT_MEMORY) ? NULL : base()->allocate(NULL, size);
    if (memory) {
        count(&faults->live_allocations, 1);
        __atomic_add_fetch(&faults->allocations, 1, __ATOMIC_RELAXED);
    }
    return memory;
}

static void *fault_resize(void *context, void *memory, size_t size) {
    fault_env *faults = context;
    if (strikes(faults, FAULT_MEMORY))
        return NULL;
    void *grown = base()->resize(NULL, memory, size);
    if (grown && !memory)
        count(&faults->live_allocations, 1);
    __atomic_add_fetch(&faults->allocations, 1, __ATOMIC_RELAXED);
    return grown;
}

static void fault_release(void *context, void *memory) {
    fault_env *faults = context;
    if (memory)
        count(&faults->live_allocations, -1);
    base()->release(NULL, memory);
}

static int fault_open(void *context, const char *path, int flags, unsigned mode) {
    fault_env *faults = context;
    if (strikes(faults, FAULT_OPEN)) {
        errno = EACCES;
        return -1;
    }
    int file = base()->open(NULL, path, flags, mode);
    if (file >= 0)
        count(&faults->live_files, 1);
    return file;
}

static int fault_close(void *context, int file) {
    fault_env *faults = context;
    bool fails = strikes(faults, FAULT_CLOSE);
    count(&faults->live_files, -1);
    int result = base()->close(NULL, file);
    if (fails)
        errno = EIO;
    return fails ? -1 : result;
}

static ssize_t fault_read(void *context, int file, void *out, size_t size) {
    if (strikes(context, FAULT_READ)) {
        errno = EIO;
        return -1;
    }
    return base()->read(NULL, file, out, size);
}

static ssize_t fault_pread(void *context, int file, void *out, size_t size, uint64_t offset) {
    if (strikes(context, FAULT_READ)) {
        errno = EIO;
        return -1;
    }
    return base()->pread(NULL, file, out, size, offset);
}

static ssize_t fault_write(void *context, int file, const void *data, size_t size) {
    fault_env *faults = context;
    if (strikes(faults, FAULT_WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    bool make_short = faults->calls[FAULT_WRITE] % 3 == 0 && size > 1;
    return base()->write(NULL, file, data, make_short ? size / 2 : size);
}

static ssize_t fault_pwrite(void *context, int file, const void *data, size_t size, uint64_t offset) {
    if (strikes(context, FAULT_WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return base()->pwrite(NULL, file, data, size, offset);
}

static int fault_sync(void *context, int file) {
    if (strikes(context, FAULT_SYNC)) {
        errno = EIO;
        return -1;
    }
    return base()->sync(NULL, file);
}

static int fault_truncate(void *context, int file, uint64_t size) {
    if (strikes(context, FAULT_TRUNCATE)) {
        errno = EIO;
        return -1;
    }
    return base()->truncate(NULL, file, size);
}

static int fault_rename(void *context, const char *from, const char *to) {
    if (strikes(context, FAULT_RENAME)) {
        errno = EACCES;
        return -1;
    }
    return base()->rename(NULL, from, to);
}

static int fault_make_folder(void *context, const char *path) {
    if (strikes(context, FAULT_OPEN)) {
        errno = EACCES;
        return -1;
    }
    return base()->make_folder(NULL, path);
}

static int fault_link(void *context, const char *from, const char *to) {
    if (strikes(context, FAULT_RENAME)) {
        errno = EACCES;
        return -1;
    }
    return base()->link(NULL, from, to);
}

static void *fault_map(void *context, int file, size_t size) {
    fault_env *faults = context;
    if (strikes(faults, FAULT_MAP)) {
        errno = ENOMEM;
        return NULL;
    }
    void *memory = base()->map(NULL, file, size);
    if (memory)
        count(&faults->live_maps, 1);
    return memory;
}

static int fault_unmap(void *context, void *memory, size_t size) {
    fault_env *faults = context;
    count(&faults->live_maps, -1);
    return base()->unmap(NULL, memory, size);
}

static void *fault_reserve(void *context, size_t size) {
    fault_env *faults = context;
    if (strikes(faults, FAULT_MAP)) {
        errno = ENOMEM;
        return NULL;
    }
    void *range = base()->reserve(NULL, size);
    if (range)
        count(&faults->live_maps, 1);
    return range;
}

static int fault_map_at(void *context, void *at, size_t size, int file, uint64_t offset) {
    if (strikes(context, FAULT_MAP)) {
        errno = ENOMEM;
        return -1;
    }
    return base()->map_at(NULL, at, size, file, offset);
}

static int fault_memory_file(void *context, uint64_t size) {
    fault_env *faults = context;
    if (strikes(faults, FAULT_OPEN)) {
        errno = EMFILE;
        return -1;
    }
    int file = base()->memory_file(NULL, size);
    if (file >= 0)
        count(&faults->live_files, 1);
    return file;
}

static int fault_claim(void *context, int file, uint64_t offset, uint64_t size) {
    if (strikes(context, FAULT_WRITE)) {
        errno = ENOSPC;
        return -1;
    }
    return base()->claim(NULL, file, offset, size);
}

static int fault_inspect(void *context, int file, const char *path, weir_file_info *out) {
    if (strikes(context, FAULT_INSPECT)) {
        errno = EIO;
        return -1;
    }
    return base()->inspect(NULL, file, path, out);
}

static ssize_t fault_read_link(void *context, const char *path, char *out, size_t size) {
    if (strikes(context, FAULT_INSPECT)) {
        errno = EIO;
        return -1;
    }
    return base()->read_link(NULL, path, out, size);
}

static int fault_list(void *context, const char *folder,
                      bool (*each)(void *argument, const char *name, bool is_folder, bool is_file),
                      void *argument) {
    if (strikes(context, FAULT_LIST)) {
        errno = EIO;
        return -1;
    }
    return base()->list(NULL, folder, each, argument);
}

static int fault_lock(void *context, int file) {
    if (strikes(context, FAULT_LOCK)) {
        errno = ENOLCK;
        return -1;
    }
    return base()->lock(NULL, file);
}

static int fault_random(void *context, void *out, size_t size) {
    if (strikes(context, FAULT_RANDOM)) {
        errno = ENOSYS;
        return -1;
    }
    return base()->random(NULL, out, size);
}

static int fault_start_thread(void *context, void *(*run)(void *), void *argument, uintptr_t *thread) {
    if (strikes(context, FAULT_THREAD))
        return EAGAIN;
    return base()->start_thread(NULL, run, argument, thread);
}

void fault_env_init(fault_env *faults) {
    memset(faults, 0, sizeof *faults);
    faults->env = *base();
    faults->env.context = faults;
    faults->env.allocate = fault_allocate;
    faults->env.resize = fault_resize;
    faults->env.release = fault_release;
    faults->env.open = fault_open;
    faults->env.close = fault_close;
    faults->env.read = fault_read;
    faults->env.pread = fault_pread;
    faults->env.write = fault_write;
    faults->env.pwrite = fault_pwrite;
    faults->env.sync = fault_sync;
    faults->env.truncate = fault_truncate;
    faults->env.rename = fault_rename;
    faults->env.make_folder = fault_make_folder;
    faults->env.link = fault_link;
    faults->env.map = fault_map;
    faults->env.unmap = fault_unmap;
    faults->env.reserve = fault_reserve;
    faults->env.map_at = fault_map_at;
    faults->env.memory_file = fault_memory_file;
    faults->env.claim = fault_claim;
    faults->env.start_thread = fault_start_thread;
    faults->env.inspect = fault_inspect;
    faults->env.read_link = fault_read_link;
    faults->env.list = fault_list;
    faults->env.lock = fault_lock;
    faults->env.random = fault_random;
}

static bool is_allowed(weir_status status) {
    return status == WEIR_OUT_OF_MEMORY || status == WEIR_IO_ERROR;
}

static void assert_nothing_is_live(const fault_env *faults) {
    assert_int_equal(faults->live_allocations, 0);
    assert_int_equal(faults->live_files, 0);
    assert_int_equal(faults->live_maps, 0);
}

/* Fails the calls of one kind in turn; returns how many faults struck. */
static uint64_t sweep_kind(fault_kind kind, bool from_then_on,
                           weir_status (*attempt)(const weir_env *env, void *context, weir_error *error),
                           void (*check)(void *context), void *context) {
    for (uint64_t fail_at = 1;; fail_at++) {
        fault_env faults;
        weir_error error = {0};
        fault_env_init(&faults);
        faults.kind = kind;
        faults.fail_at = fail_at;
        faults.from_then_on = from_then_on;
        weir_status status = attempt(&faults.env, context, &error);
        assert_nothing_is_live(&faults);
        bool struck = faults.calls[kind] >= fail_at;
        if (status == WEIR_OK && !struck)
            return fail_at - 1;
        if (status != WEIR_OK && (!struck || !is_allowed(status) || error.status != status))
            fail_msg("fault kind %d, call %llu: %s: %s", (int)kind, (unsigned long long)fail_at,
                     weir_status_name(status), error.message);
        if (check)
            check(context);
    }
}

uint64_t sweep_faults(weir_status (*attempt)(const weir_env *env, void *context, weir_error *error),
                      void (*check)(void *context), void *context) {
    uint64_t injected = 0;
    for (int kind = 0; kind < FAULT_KINDS; kind++)
        for (int from_then_on = 0; from_then_on < 2; from_then_on++)
            injected += sweep_kind((fault_kind)kind, from_then_on != 0, attempt, check, context);
    return injected;
}

/* ---- Randomness ------------------------------------------------------------------------------ */

unsigned test_stride(void) {
    const char *text = getenv("WEIR_TEST_STRIDE");
    return text ? (unsigned)strtoul(text, NULL, 10) : 1;
}

uint64_t random_next(random_stream *stream) {
    uint64_t z = stream->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint64_t random_below(random_stream *stream, uint64_t range) {
    return range ? random_next(stream) % range : 0;
}
