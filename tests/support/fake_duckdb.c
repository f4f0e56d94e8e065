/* A DuckDB library that opens anything and fails every statement, as FAKE_DUCKDB says: "interrupt" gives the
 * error of an interrupted thread first and the real one when the statement is run again; "interrupts" gives
 * no other; "wrapped" gives the real one inside another; "succeeds" gives the interrupt once and then no
 * error; "waits" says so and waits until it is interrupted; "no config" and "no connection" fail before any
 * statement. FAKE_DUCKDB_VERSION is its version. For the tests of what weir makes of errors that the real
 * library gives only under load, and of how it finds a library. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct result {
    uint64_t unused[3];
    void *unused_pointers[2];
    void *internal; /* 1 + the number of executions before */
} result;

static uintptr_t executions; /* a test scans one source in one thread until the first failure */

static atomic_bool is_interrupted;

static int is_mode(const char *mode) {
    const char *wanted = getenv("FAKE_DUCKDB");
    return wanted && strcmp(wanted, mode) == 0;
}

const char *duckdb_library_version(void);
const char *duckdb_library_version(void) {
    const char *version = getenv("FAKE_DUCKDB_VERSION");
    return version ? version : "v2.0.0";
}

int duckdb_execute_prepared(void *statement, result *out);
int duckdb_execute_prepared(void *statement, result *out) {
    static const char waiting[] = "execution\n";
    (void)statement;
    if (is_mode("waits") && write(STDERR_FILENO, waiting, sizeof waiting - 1) > 0)
        while (!atomic_load(&is_interrupted))
            usleep(1000);
    *out = (result){.internal = (void *)++executions};
    return is_mode("succeeds") && executions > 1 ? 0 : 1;
}

int duckdb_execute_prepared_streaming(void *statement, result *out);
int duckdb_execute_prepared_streaming(void *statement, result *out) {
    return duckdb_execute_prepared(statement, out);
}

const char *duckdb_result_error(result *of);
const char *duckdb_result_error(result *of) {
    if (is_mode("wrapped"))
        return "Invalid Input Error: Attempting to execute an unsuccessful or closed pending query result\n"
               "Error: IO Error: the disk is gone";
    if (is_mode("interrupts") || is_mode("waits") || (uintptr_t)of->internal == 1)
        return "INTERRUPT Error: Interrupted!";
    return "IO Error: the disk is gone";
}

void duckdb_interrupt(void *connection);
void duckdb_interrupt(void *connection) {
    (void)connection;
    atomic_store(&is_interrupted, true);
}

int duckdb_set_config(void *config, const char *name, const char *value);
int duckdb_set_config(void *config, const char *name, const char *value) {
    (void)config, (void)name, (void)value;
    return is_mode("no config");
}

int duckdb_connect(void *database, void **out);
int duckdb_connect(void *database, void **out) {
    (void)database;
    *out = &executions;
    return is_mode("no connection");
}

/* Handles are never looked into: what makes one gives an address, what asks for a number gets 0. */
#define MAKES(name, place)                                                                                   \
    int duckdb_##name(void *a, void *b, void *c, void *d);                                                   \
    int duckdb_##name(void *a, void *b, void *c, void *d) {                                                  \
        (void)a, (void)b, (void)c, (void)d;                                                                  \
        *(void **)(place) = &executions;                                                                     \
        return 0;                                                                                            \
    }
#define IGNORES(name)                                                                                        \
    void *duckdb_##name(void);                                                                               \
    void *duckdb_##name(void) {                                                                              \
        return NULL;                                                                                         \
    }
MAKES(create_config, a)
MAKES(open_ext, b)
MAKES(prepare, c)
IGNORES(destroy_config)
IGNORES(close)
IGNORES(disconnect)
IGNORES(free)
IGNORES(query)
IGNORES(prepare_error)
IGNORES(prepared_statement_type)
IGNORES(destroy_prepare)
IGNORES(destroy_result)
IGNORES(column_count)
IGNORES(column_name)
IGNORES(column_type)
IGNORES(column_logical_type)
IGNORES(decimal_scale)
IGNORES(decimal_internal_type)
IGNORES(destroy_logical_type)
IGNORES(fetch_chunk)
IGNORES(destroy_data_chunk)
IGNORES(data_chunk_get_size)
IGNORES(data_chunk_get_vector)
IGNORES(vector_get_data)
IGNORES(vector_get_validity)
