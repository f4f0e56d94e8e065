/* Fuzzes what a MySQL server answers, as its client library hands it over. This file stands in for the
 * library: it has the one function that finds it (the linker takes that before the archive's). The server has
 * one table with a column of every type that weir reads. The input changes its answers, in kind, types and
 * bytes, and ingest must end in a store that verifies or in one of the documented errors. There is no
 * network, and no thread.
 *
 * The input: a byte of flags, then changed answers: a byte that says of which statement, a byte that says
 * what kind, two bytes for the size, and the answer's bytes (see `kind`). */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "ingest/mysql.h"
#include "ingested.h"

#define STORE    "s.weir"
#define PASSWORD "s3cret"

enum { WITH_QUERIES = 1 }; /* flags */
enum { CHANGE_HEAD = 4, COLUMNS_MAX = 64, NULL_CELL = 255, OWN_MAX = 8192 };

/* ---- Answers ------------------------------------------------------------------------------------------- */

typedef enum kind {
    DONE,    /* without rows */
    FAILURE, /* an error */
    ROWS, /* the number of columns, for each its type, length, charset and whether it is an enum; then cells:
             a size (255: null) and bytes */
    CUT,  /* the same, but at its end the connection is lost */
    MORE, /* the same, but another answer follows */
    KINDS
} kind;

typedef struct answer {
    kind kind;
    const uint8_t *data;
    size_t size;
} answer;

/* What a server is asked, by a part of the statement's text: the first that fits counts. */
typedef enum question {
    Q_DATABASE,
    Q_TABLES,
    Q_COLUMNS,
    Q_KEYS,
    Q_LIST,
    Q_SNAPSHOT,
    Q_SETTING,
    Q_SCAN,
    Q_QUERY,
    Q_PREPARE,
    QUESTIONS
} question;

static const char *const parts[QUESTIONS] = {
    [Q_DATABASE] = "SELECT DATABASE()",
    [Q_TABLES] = ".TABLES",
    [Q_COLUMNS] = ".COLUMNS",
    [Q_KEYS] = ".KEY_COLUMN_USAGE",
    [Q_LIST] = ".SCHEMATA",
    [Q_SNAPSHOT] = "START TRANSACTION",
    [Q_SETTING] = "SET ",
    [Q_SCAN] = "\"d\".\"t\"",
    [Q_QUERY] = "",
    [Q_PREPARE] = "",
};

static uint8_t own_bytes[OWN_MAX];
static size_t own_size, own_head;
static answer own[QUESTIONS];

static void put(const void *bytes, size_t size) {
    require(own_size + size <= sizeof own_bytes);
    if (size > 0)
        memcpy(own_bytes + own_size, bytes, size);
    own_size += size;
}

static void put_byte(unsigned byte) {
    put(&(uint8_t){(uint8_t)byte}, 1);
}

static void put_cell(const char *text) {
    put_byte(text ? (unsigned)strlen(text) : NULL_CELL);
    put(text, text ? strlen(text) : 0);
}

static void set_own(question asked, kind is, size_t start) {
    own[asked] = (answer){is, own_bytes + start, own_size - start};
}

/* ---- The server's table -------------------------------------------------------------------------------- */

typedef struct field {
    const char *name;
    const char *type;
    const char *whole;
    uint8_t number, length, charset, is_enum;
    const char *text;
} field;

static const field fields[] = {
    {"id", "int", "int(11)", 3, 11, 63, 0, "1"},
    {"w", "text", "text", 252, 200, 45, 0, "some words"},
    {"b", "tinyint", "tinyint(1)", 1, 1, 63, 0, "1"},
    {"f", "double", "double", 5, 22, 63, 0, "0.5"},
    {"r", "float", "float", 5, 22, 63, 0, "0.5"},
    {"n", "decimal", "decimal(5,2)", 246, 7, 63, 0, "1.50"},
    {"u", "bigint", "bigint(20) unsigned", 8, 20, 63, 0, "18446744073709551615"},
    {"d", "date", "date", 10, 10, 63, 0, "2024-01-01"},
    {"at", "datetime", "datetime", 12, 19, 63, 0, "2024-01-01 00:00:00"},
    {"y", "varbinary", "varbinary(9)", 253, 9, 63, 0, "\1\2"},
    {"m", "enum", "enum('a','b')", 254, 4, 45, 1, "a"},
    {"k", "bit", "bit(9)", 16, 9, 63, 0, "\1\1"},
    {"g", "point", "point", 252, 200, 45, 0, "POINT(1 2)"},
    {"j", "json", "json", 245, 200, 63, 0, "{}"},
    {"t", "time", "time", 11, 10, 63, 0, "01:02:03"},
    {"z", "int", "int(11)", 3, 11, 63, 0, NULL},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static void put_column(const field *from) {
    put_byte(from->number);
    put_byte(from->length);
    put_byte(from->charset);
    put_byte(from->is_enum);
}

/* Rows of texts. */
static void set_own_rows(question asked, unsigned width, const char *const *cells, size_t count) {
    size_t start = own_size;
    put_byte(width);
    for (unsigned i = 0; i < width; i++)
        put_column(&fields[1]);
    for (size_t i = 0; i < count; i++)
        put_cell(cells[i]);
    set_own(asked, ROWS, start);
}

/* The one row of the table, as far as it is asked for: the quoted names before FROM; of a query, two
 * columns. */
static void set_own_row(const char *statement) {
    const char *end = strstr(statement, " FROM ");
    const field *asked[FIELDS] = {&fields[0], &fields[3]};
    unsigned count = 0;
    size_t start = own_size = own_head;
    for (const char *at = strchr(statement, '"'); at && at < end && count < FIELDS; at = strchr(at, '"')) {
        size_t size = strcspn(at + 1, "\"");
        for (unsigned i = 0; i < FIELDS; i++)
            if (strlen(fields[i].name) == size && memcmp(fields[i].name, at + 1, size) == 0)
                asked[count++] = &fields[i];
        at += size + 2;
    }
    count = count > 0 ? count : 2;
    put_byte(count);
    for (unsigned i = 0; i < count; i++)
        put_column(asked[i]);
    for (unsigned i = 0; i < count; i++)
        put_cell(asked[i]->text);
    set_own(Q_SCAN, ROWS, start);
    set_own(Q_QUERY, ROWS, start);
    set_own(Q_PREPARE, ROWS, start);
}

static void set_all_own(void) {
    const char *columns[FIELDS][4];
    own_size = 0;
    for (int i = 0; i < QUESTIONS; i++)
        own[i] = (answer){.kind = DONE};
    for (int i = 0; i < FIELDS; i++) {
        const char *const column[] = {"t", fields[i].name, fields[i].type, fields[i].whole};
        memcpy(columns[i], column, sizeof column);
    }
    set_own_rows(Q_DATABASE, 1, (const char *const[]){"d"}, 1);
    set_own_rows(Q_LIST, 1, (const char *const[]){"d"}, 1);
    set_own_rows(Q_TABLES, 6, (const char *const[]){"t", "BASE TABLE", "InnoDB", "YES", "1", "9"}, 6);
    set_own_rows(Q_COLUMNS, 4, columns[0], FIELDS * 4);
    set_own_rows(Q_KEYS, 6,
                 (const char *const[]){"t", "PRIMARY", "id", "1", NULL, NULL, "t", "up", "z", "1", "t", "id"},
                 12);
    own_head = own_size;
}

/* ---- The connection ------------------------------------------------------------------------------------ */

struct weir_ingest__my_result_handle {
    answer left;
    unsigned columns;
    weir_ingest__my_field fields[COLUMNS_MAX];
    char *row[COLUMNS_MAX];
    unsigned long sizes[COLUMNS_MAX];
    char text[COLUMNS_MAX * (NULL_CELL + 1)];
};

struct weir_ingest__my_connection_handle {
    const uint8_t *changes;
    size_t changes_size;
    answer now;
    int socket;
    unsigned fault;
    bool has_more;
};

struct weir_ingest__my_statement_handle {
    answer now;
};

static struct weir_ingest__my_connection_handle server;
static struct weir_ingest__my_statement_handle statement;

static answer answer_to(question asked) {
    const uint8_t *at = server.changes;
    size_t left = server.changes_size;
    while (left >= CHANGE_HEAD) {
        size_t size = weir__load16be(at + 2);
        size = size < left - CHANGE_HEAD ? size : left - CHANGE_HEAD;
        if (at[0] % QUESTIONS == asked)
            return (answer){(kind)(at[1] % KINDS), at + CHANGE_HEAD, size};
        at += CHANGE_HEAD + size;
        left -= CHANGE_HEAD + size;
    }
    return own[asked];
}

static unsigned take(answer *from) {
    unsigned byte = from->size > 0 ? *from->data : 0;
    from->data += from->size > 0;
    from->size -= from->size > 0;
    return byte;
}

static weir_ingest__my_result make_result(answer from) {
    static const char *const other = "a column";
    if (from.kind < ROWS)
        return NULL;
    weir_ingest__my_result result = calloc(1, sizeof *result);
    require(result);
    result->columns = take(&from) % COLUMNS_MAX;
    for (unsigned i = 0; i < result->columns; i++) {
        const char *name = i < FIELDS ? fields[i].name : other;
        result->fields[i] = (weir_ingest__my_field){
            .name = name, .org_name = name, .table = "t", .org_table = "t", .db = "d"};
        result->fields[i].type = (int)take(&from);
        result->fields[i].length = take(&from);
        result->fields[i].charsetnr = take(&from);
        result->fields[i].flags = take(&from) ? WEIR_INGEST__MY_ENUM_FLAG : 0;
    }
    result->left = from;
    return result;
}

/* ---- In place of the library --------------------------------------------------------------------------- */

static int fake_mysql_server_init(int count, char **arguments, char **groups) {
    (void)count, (void)arguments, (void)groups;
    return 0;
}

static weir_ingest__my_connection fake_mysql_init(weir_ingest__my_connection connection) {
    (void)connection;
    return &server;
}

static int fake_mysql_options(weir_ingest__my_connection connection, int option, const void *value) {
    (void)connection, (void)option, (void)value;
    return 0;
}

static void fake_mysql_set_local_infile_handler(weir_ingest__my_connection connection,
                                                int (*init)(void **, const char *, void *),
                                                int (*read_some)(void *, char *, unsigned int),
                                                void (*end)(void *),
                                                int (*fail)(void *, char *, unsigned int), void *context) {
    (void)connection, (void)init, (void)read_some, (void)end, (void)fail, (void)context;
}

static int fake_mysql_real_connect_start(weir_ingest__my_connection *out,
                                         weir_ingest__my_connection connection, const char *host,
                                         const char *user, const char *password, const char *database,
                                         unsigned int port, const char *path, unsigned long flags) {
    (void)user, (void)database, (void)port, (void)path, (void)flags;
    require(strcmp(host, "h") == 0 && strcmp(password, PASSWORD) == 0);
    connection->socket = open("/dev/null", O_RDWR | O_CLOEXEC);
    *out = connection;
    return 0;
}

static int fake_mysql_real_connect_cont(weir_ingest__my_connection *out,
                                        weir_ingest__my_connection connection, int events) {
    (void)out, (void)connection, (void)events;
    return 0;
}

static void fake_mysql_close(weir_ingest__my_connection connection) {
    close(connection->socket);
}

static int fake_mysql_get_socket(weir_ingest__my_connection connection) {
    return connection->socket;
}

static char fake_mariadb_get_infov(weir_ingest__my_connection connection, int what, void *out, ...) {
    (void)connection, (void)what, (void)out;
    return 1;
}

static const char *fake_mysql_get_ssl_cipher(weir_ingest__my_connection connection) {
    (void)connection;
    return NULL;
}

static unsigned fake_mysql_errno(weir_ingest__my_connection connection) {
    return connection->fault;
}

static const char *fake_mysql_error(weir_ingest__my_connection connection) {
    return connection->fault ? "the server is gone" : "";
}

static int fake_mysql_real_query_start(int *failed, weir_ingest__my_connection connection, const char *text,
                                       unsigned long size) {
    int asked = 0;
    require(strlen(text) == size);
    while (!strstr(text, parts[asked]))
        asked++;
    if (asked == Q_SCAN || asked == Q_QUERY)
        set_own_row(text);
    connection->now = answer_to((question)asked);
    connection->fault = connection->now.kind == FAILURE;
    connection->has_more = false;
    *failed = connection->now.kind == FAILURE;
    return 0;
}

static int fake_mysql_real_query_cont(int *failed, weir_ingest__my_connection connection, int events) {
    (void)failed, (void)connection, (void)events;
    return 0;
}

static weir_ingest__my_result fake_mysql_use_result(weir_ingest__my_connection connection) {
    return make_result(connection->now);
}

static char fake_mysql_more_results(weir_ingest__my_connection connection) {
    return connection->has_more;
}

static int fake_mysql_fetch_row_start(weir_ingest__my_row *out, weir_ingest__my_result result) {
    char *to = result->text;
    bool is_over = result->left.size == 0 || result->columns == 0;
    server.fault = is_over && result->left.kind == CUT;
    server.has_more = is_over && result->left.kind == MORE;
    *out = is_over ? NULL : result->row;
    for (unsigned i = 0; i < result->columns && !is_over; i++) {
        unsigned size = take(&result->left);
        bool is_null = size == NULL_CELL;
        size = is_null ? 0 : size < result->left.size ? size : (unsigned)result->left.size;
        if (size > 0)
            memcpy(to, result->left.data, size);
        result->left.data += size;
        result->left.size -= size;
        result->row[i] = is_null ? NULL : to;
        result->sizes[i] = size;
        to += size;
        *to++ = 0;
    }
    return 0;
}

static int fake_mysql_fetch_row_cont(weir_ingest__my_row *out, weir_ingest__my_result result, int events) {
    (void)out, (void)result, (void)events;
    return 0;
}

static unsigned long *fake_mysql_fetch_lengths(weir_ingest__my_result result) {
    return result->sizes;
}

static unsigned fake_mysql_num_fields(weir_ingest__my_result result) {
    return result->columns;
}

static weir_ingest__my_field *fake_mysql_fetch_fields(weir_ingest__my_result result) {
    return result->fields;
}

static void fake_mysql_free_result(weir_ingest__my_result result) {
    free(result);
}

static weir_ingest__my_statement fake_mysql_stmt_init(weir_ingest__my_connection connection) {
    (void)connection;
    return &statement;
}

static int fake_mysql_stmt_prepare_start(int *failed, weir_ingest__my_statement prepared, const char *text,
                                         unsigned long size) {
    require(strlen(text) == size);
    set_own_row(text);
    prepared->now = answer_to(Q_PREPARE);
    *failed = prepared->now.kind == FAILURE;
    return 0;
}

static int fake_mysql_stmt_prepare_cont(int *failed, weir_ingest__my_statement prepared, int events) {
    (void)failed, (void)prepared, (void)events;
    return 0;
}

static weir_ingest__my_result fake_mysql_stmt_result_metadata(weir_ingest__my_statement prepared) {
    return make_result(prepared->now);
}

static const char *fake_mysql_stmt_error(weir_ingest__my_statement prepared) {
    (void)prepared;
    return "it cannot be prepared";
}

static int fake_mysql_stmt_close_start(char *failed, weir_ingest__my_statement prepared) {
    (void)prepared;
    *failed = 0;
    return 0;
}

static int fake_mysql_stmt_close_cont(char *failed, weir_ingest__my_statement prepared, int events) {
    (void)failed, (void)prepared, (void)events;
    return 0;
}

weir_status weir_ingest__my_load(weir_ingest__my_api *out, weir_error *error) {
    (void)error;
    *out = (weir_ingest__my_api){
#define FUNCTION(result, name, parameters) .name = fake_##name,
        WEIR_INGEST__MY_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };
    return WEIR_OK;
}

/* ---- Ingest -------------------------------------------------------------------------------------------- */

static const char schema[] =
    "{\"tables\": {\"t\": {\"primary_key\": \"id\", \"columns\": {\"w\": {\"stype\": \"text\"}}}, \"q\": {"
    "\"query\": \"SELECT id, f FROM t\", \"primary_key\": \"id\", \"columns\": {\"w\": {\"stype\": "
    "\"categorical\"}}}}, \"tasks\": {\"k\": {\"query\": \"SELECT id, w FROM t\", \"anchor_table\": \"t\", "
    "\"anchor_key\": \"id\", \"target_column\": \"w\", \"target_stype\": \"numerical\"}}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static memory_env memory;
    uint8_t flags = size > 0 ? data[0] : 0;
    server = (struct weir_ingest__my_connection_handle){.changes = size > 0 ? data + 1 : data,
                                                        .changes_size = size > 0 ? size - 1 : 0};
    set_all_own();
    memory_env_init(&memory);
    memory.env.start_thread = refuse_thread;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_error error;
    options.source = "mysql://u:" PASSWORD "@h/d";
    options.output = STORE;
    options.threads = 1;
    if (flags & WITH_QUERIES) {
        options.schema = schema;
        options.schema_size = sizeof schema - 1;
    }
    weir_status status = weir_ingest(&memory.env, &options, NULL, &error);
    if (!is_ingested(&memory, STORE, status, &error)) {
        bool is_told =
            size > 0 && memmem(data, size, PASSWORD, sizeof PASSWORD - 1); /* the server's own words */
        require(is_told || !strstr(error.message, PASSWORD));
    }
    memory_env_close(&memory);
    return 0;
}
