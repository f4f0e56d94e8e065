/* A DuckDB library that opens anything and fails every statement, as FAKE_DUCKDB says: "interrupt" gives the
 * error of an interrupted thread first and the real one when the statement is run again; "interrupts" gives
 * no other; "wrapped" gives the real one inside another; "succeeds" gives the interrupt once and then no
 * error; "waits" says so and waits until it is interrupted; "no config" and "no connection" fail before any
 * statement. "wide" fails nothing: it has a table without rows whose columns have long names, of which the
 * last is its key. FAKE_DUCKDB_VERSION is its version. For the tests of what weir makes of errors that the
 * real library gives only under load, of little memory, and of how it finds a library. */
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

/* ---- A wide table ---------------------------------------------------------------------------- */

enum { WIDE_COLUMNS = 60, LONG_NAME = 2000, BIGINT = 5, VARCHAR = 17 };

/* A text of at most 12 bytes, or a number. */
typedef union cell {
    struct {
        uint32_t size;
        char text[12];
    } string;
    int64_t number;
} cell;

#define TEXT(text_)                                                                                          \
    {                                                                                                        \
        .string = {.size = sizeof text_ - 1, .text = text_ }                                                 \
    }

/* What is answered to statements with a mark in them: one row. */
typedef struct answer {
    const char *mark;
    int types[5]; /* 0: there is no such column */
    cell row[5];
} answer;

static const answer answers[] = {
    {"duckdb_tables()",
     {VARCHAR, BIGINT, VARCHAR, BIGINT, BIGINT},
     {TEXT("wide"), {.number = 0}, TEXT("main"), {.number = 1}, {.number = 0}}},
    {"'PRIMARY KEY'", {VARCHAR, VARCHAR, VARCHAR}, {TEXT("main"), TEXT("wide"), TEXT("id")}},
    {"SELECT 1", {BIGINT}, {{.number = 1}}},
    {"DESCRIBE", {VARCHAR}, {TEXT("id")}}, /* also of the one before */
};

static const answer *asked; /* NULL: the wide table's columns, without a row */
static int has_row;         /* it was not fetched yet */

static void answer_wide(const char *statement) {
    asked = NULL;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (strstr(statement, answers[i].mark))
            asked = &answers[i];
    has_row = asked != NULL;
}

int duckdb_prepare(void *connection, const char *statement, void **out);
int duckdb_prepare(void *connection, const char *statement, void **out) {
    (void)connection;
    answer_wide(statement);
    *out = &executions;
    return 0;
}

int duckdb_query(void *connection, const char *statement, result *out);
int duckdb_query(void *connection, const char *statement, result *out) {
    (void)connection;
    answer_wide(statement);
    *out = (result){.internal = NULL};
    return 0;
}

int duckdb_prepared_statement_type(void *statement);
int duckdb_prepared_statement_type(void *statement) {
    (void)statement;
    return is_mode("wide"); /* a SELECT */
}

uint64_t duckdb_column_count(result *of);
uint64_t duckdb_column_count(result *of) {
    uint64_t count = 0;
    (void)of;
    while (asked && count < 5 && asked->types[count])
        count++;
    return asked ? count : is_mode("wide") ? WIDE_COLUMNS : 0;
}

const char *duckdb_column_name(result *of, uint64_t column);
const char *duckdb_column_name(result *of, uint64_t column) {
    static char name[LONG_NAME + 1];
    (void)of;
    if (asked || column == WIDE_COLUMNS - 1)
        return "id";
    memset(name, 'c', LONG_NAME);
    name[0] = (char)('0' + column);
    return name;
}

int duckdb_column_type(result *of, uint64_t column);
int duckdb_column_type(result *of, uint64_t column) {
    (void)of;
    return asked ? asked->types[column] : BIGINT;
}

void *duckdb_fetch_chunk(result of);
void *duckdb_fetch_chunk(result of) {
    (void)of;
    if (!has_row)
        return NULL;
    has_row = 0;
    return &has_row;
}

uint64_t duckdb_data_chunk_get_size(void *chunk);
uint64_t duckdb_data_chunk_get_size(void *chunk) {
    (void)chunk;
    return 1;
}

void *duckdb_data_chunk_get_vector(void *chunk, uint64_t column);
void *duckdb_data_chunk_get_vector(void *chunk, uint64_t column) {
    (void)chunk;
    return (void *)(uintptr_t)&asked->row[column];
}

void *duckdb_vector_get_data(void *vector);
void *duckdb_vector_get_data(void *vector) {
    return vector;
}

/* ---- Failures -------------------------------------------------------------------------------- */

int duckdb_execute_prepared(void *statement, result *out);
int duckdb_execute_prepared(void *statement, result *out) {
    static const char waiting[] = "execution\n";
    (void)statement;
    if (is_mode("wide")) {
        *out = (result){.internal = NULL};
        return 0;
    }
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
    if (is_mode("wide"))
        return NULL;
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

/* Handles are never looked into: what makes one gives an address. */
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
IGNORES(destroy_config)
IGNORES(close)
IGNORES(disconnect)
IGNORES(free)
IGNORES(prepare_error)
IGNORES(destroy_prepare)
IGNORES(destroy_result)
IGNORES(column_logical_type)
IGNORES(decimal_scale)
IGNORES(decimal_internal_type)
IGNORES(destroy_logical_type)
IGNORES(destroy_data_chunk)
IGNORES(vector_get_validity)
