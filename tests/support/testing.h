/* What the tests share: golden files, manifests, scratch folders, an environment that counts and fails on
 * demand, and a fixed random stream. */
#ifndef WEIR_TESTS_TESTING_H
#define WEIR_TESTS_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "weir/weir.h"
#include "weir_tool/tools.h"

/* tests/golden/vectors/NAME or tests/golden/NAME, parsed; fails the test where it cannot be. The caller
 * json_decrefs it. */
json_t *load_vectors(const char *name);
json_t *load_golden(const char *name);

/* Before a call of jansson: see testing.c. */
void forget_stack(void);

/* A member that must be there; and as uint64, given as an integer or as decimal text. */
json_t *member(json_t *object, const char *key);
const char *member_text(json_t *object, const char *key);
uint64_t member_uint(json_t *object, const char *key);
uint64_t uint_of(json_t *value);

/* Hex text as bytes in a static buffer (64 KiB at most, overwritten by the second call after). */
uint8_t *bytes_of_hex(const char *hex, size_t *size);
void assert_hex_equal(const void *data, size_t size, const char *hex);

/* Asserts success, and prints the record where there is none. */
#define assert_ok(status, error)              assert_status(status, WEIR_OK, error, __FILE__, __LINE__)
#define assert_fails(status, expected, error) assert_status(status, expected, error, __FILE__, __LINE__)

/* Ends a test as skipped; tools/check lists it with the reason. */
#define skip_because(reason) (print_message("skipped: %s\n", reason), skip())
void assert_status(weir_status status, weir_status expected, const weir_error *error, const char *file,
                   int line);

/* ---- Manifests ------------------------------------------------------------------------------- */

/* A manifest from a document in a golden file, or from text; fails the test where it is refused. The caller
 * closes it. */
weir_manifest *manifest_of(json_t *document);
weir_manifest *manifest_of_text(const char *json);

/* A manifest of one dataset "a" with these numbers. */
weir_manifest *manifest_of_numbers(uint64_t cardinality, uint64_t global_batch_size,
                                   const weir_data_config *data, uint64_t seed);

/* ---- Files ----------------------------------------------------------------------------------- */

enum { SCRATCH_PATH = 256 };

/* Where scratch folders are made: TMPDIR, or in memory if there is room, so that nothing waits for a disk. */
const char *scratch_root(void);

/* A new empty folder, and its removal with all that is in it (plain files only). */
void scratch_make(char path[SCRATCH_PATH]);
void scratch_remove(const char *path);

/* How many entries a folder has. */
size_t count_entries(const char *folder);

void write_whole_file(const char *path, const void *data, size_t size);

/* Asserts that a file holds exactly these bytes. */
void assert_file_equal(const char *path, const void *data, size_t size);

/* ---- Faults ---------------------------------------------------------------------------------- */

typedef enum fault_kind {
    FAULT_MEMORY,
    FAULT_OPEN,
    FAULT_READ,
    FAULT_WRITE,
    FAULT_SYNC,
    FAULT_RENAME,
    FAULT_MAP,
    FAULT_THREAD,
    FAULT_CLOSE, /* the file is closed all the same, as Linux does */
    FAULT_TRUNCATE,
    FAULT_INSPECT,
    FAULT_LIST,
    FAULT_LOCK, /* there are no locks */
    FAULT_RANDOM,
    FAULT_KINDS
} fault_kind;

/* An environment over the system's that counts what is live and fails the Nth call of one kind, once or
 * from then on. It also makes writes short (half of what was asked) from time to time, which is no fault. */
typedef struct fault_env {
    weir_env env;
    fault_kind kind;
    uint64_t fail_at; /* 1 is the first call; 0 never */
    bool from_then_on;
    uint64_t calls[FAULT_KINDS]; /* seen so far */
    int64_t live_allocations;
    int64_t live_files;
    int64_t live_maps;
    uint64_t allocations; /* ever made */
} fault_env;

void fault_env_init(fault_env *faults);

/* Runs `attempt` again and again, failing the 1st, 2nd, … call of every kind, once and from then on, until
 * it succeeds untouched. After each failure: the status is OUT_OF_MEMORY or IO_ERROR, nothing is live, and
 * `check` (may be NULL) holds. Returns the number of faults that were injected. */
uint64_t sweep_faults(weir_status (*attempt)(const weir_env *env, void *context, weir_error *error),
                      void (*check)(void *context), void *context);

/* ---- Randomness ------------------------------------------------------------------------------ */

/* A small fixed stream: the same numbers in every run, on every machine. */
/* The step of loops over many like cases: 1, or WEIR_TEST_STRIDE where a slow build (a sanitizer, -O0) is
 * content with a part of them. */
unsigned test_stride(void);

typedef struct random_stream {
    uint64_t state;
} random_stream;
uint64_t random_next(random_stream *stream);
uint64_t random_below(random_stream *stream, uint64_t range);

#endif
