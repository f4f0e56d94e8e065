/* Fuzzes what a PostgreSQL server answers. This file stands in for the half of libpq that talks to a server
 * (the linker takes its functions before the library's); results are libpq's own. The server has one table
 * with a column of every type that weir reads. The input changes its answers, in kind and in bytes, and
 * ingest must end in a store that verifies or in one of the documented errors. There is no network, and no
 * thread.
 *
 * The input: a byte of flags, then changed answers: a byte that says of which statement, a byte that says
 * what kind, two bytes for the size, and the answer's bytes (see `kind`). */
#include <errno.h>
#include <libpq-fe.h>
#include <string.h>

#include "base/bytes.h"
#include "ingested.h"

#define STORE    "s.weir"
#define PASSWORD "s3cret"

enum { NO_COPY = 1, WITH_QUERIES = 2, OLD_SERVER = 4 }; /* flags */
enum { CHANGE_HEAD = 4, COLUMNS_MAX = 64, NULL_CELL = 255 };

/* ---- Answers ------------------------------------------------------------------------------------------- */

typedef enum kind {
    COMMAND,   /* done, without rows */
    FAILURE,   /* an error */
    ROWS,      /* the number of columns, then cells: a size (255: null) and bytes */
    COPY,      /* the number of columns, then messages: a size of two bytes, and bytes */
    TEXT_COPY, /* the same, but not binary */
    CUT_COPY,  /* the same, but at its end the connection is lost */
    COPY_IN,
    COPY_BOTH,
    NOTHING, /* no result at all */
    MANY,    /* one result after another, without end */
    EMPTY,   /* that of an empty statement */
    COLUMNS, /* a description: the number of columns, then each one's type in two bytes */
    KINDS
} kind;

typedef struct answer {
    kind kind;
    const uint8_t *data;
    size_t size;
} answer;

/* What a server is asked, by a part of the statement's text: the first that fits counts. */
typedef enum question {
    Q_PROBE,
    Q_COPY,
    Q_SNAPSHOT,
    Q_VERSION,
    Q_TABLES,
    Q_DOMAINS,
    Q_SIZES,
    Q_COLUMNS,
    Q_KEYS,
    Q_ROWS,
    Q_PREPARE,
    Q_DESCRIBE,
    Q_ELSE,
    QUESTIONS
} question;

static const char *const parts[QUESTIONS] = {[Q_PROBE] = "COPY (SELECT 1)",
                                             [Q_COPY] = "COPY (",
                                             [Q_SNAPSHOT] = "pg_export_snapshot",
                                             [Q_VERSION] = "version()",
                                             [Q_TABLES] = "reltuples",
                                             [Q_DOMAINS] = "typbasetype",
                                             [Q_SIZES] = "relation_size",
                                             [Q_COLUMNS] = "pg_attribute",
                                             [Q_KEYS] = "pg_constraint",
                                             [Q_ROWS] = "SELECT ",
                                             [Q_PREPARE] = "\1prepare",
                                             [Q_DESCRIBE] = "\1describe",
                                             [Q_ELSE] = ""};

static uint8_t own_bytes[4096];
static size_t own_size;
static size_t own_head; /* what stays; after it is the answer to the last statement about rows */
static answer own[QUESTIONS];

static void put(const void *data, size_t size) {
    if (size == 0)
        return;
    require(own_size + size <= sizeof own_bytes);
    memcpy(own_bytes + own_size, data, size);
    own_size += size;
}

static void put16(unsigned number) {
    put((uint8_t[]){(uint8_t)(number >> 8), (uint8_t)number}, 2);
}

/* Says that what was put since `start` is the answer to a question. */
static void set_own(question asked, kind how, size_t start) {
    own[asked] = (answer){how, own_bytes + start, own_size - start};
}

static void set_own_rows(question asked, unsigned width, const char *const *cells, size_t count) {
    size_t start = own_size;
    put((uint8_t[]){(uint8_t)width}, 1);
    for (size_t i = 0; i < count; i++) {
        uint8_t size = cells[i] ? (uint8_t)strlen(cells[i]) : NULL_CELL;
        put(&size, 1);
        put(cells[i], cells[i] ? size : 0);
    }
    set_own(asked, ROWS, start);
}

/* ---- The server's table -------------------------------------------------------------------------------- */

typedef struct field {
    const char *name;
    unsigned type; /* its number in pg_type */
    const char *text;
    unsigned size; /* of the binary form */
    const char *bytes;
} field;

static const field fields[] = {
    {"id", 23, "1", 4, "\0\0\0\1"},
    {"w", 25, "some words", 10, "some words"},
    {"b", 16, "t", 1, "\1"},
    {"f", 701, "0.5", 8, "\77\340\0\0\0\0\0\0"},
    {"n", 1700, "1.5", 12, "\0\2\0\0\0\0\0\1\0\1\23\210"},
    {"u", 2950, "30313233-3435-3637-3839-616263646566", 16, "0123456789abcdef"},
    {"d", 1082, "2024-01-01", 4, "\0\0\42\77"},
    {"at", 1114, "2024-01-01 00:00:00", 8, "\0\2\260\0\0\0\0\0"},
    {"y", 17, "\\x000102", 3, "\0\1\2"},
    {"l", 20, "5", 8, "\0\0\0\0\0\0\0\5"},
    {"s", 21, "7", 2, "\0\7"},
    {"r", 700, "1", 4, "\77\200\0\0"},
    {"o", 26, "9", 4, "\0\0\0\11"},
    {"c", 1042, "c  ", 3, "c  "},
    {"j", 3802, NULL, 0, NULL},
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* The numbers of the fields that a statement asks for: the quoted names before its FROM; all for a query,
 * which has none. */
static int find_asked(const char *statement, int asked[FIELDS]) {
    const char *end = strstr(statement, " FROM ");
    int count = 0;
    for (const char *at = strchr(statement, '"'); at && at < end && count < FIELDS; at = strchr(at, '"')) {
        size_t size = strcspn(at + 1, "\"");
        for (int i = 0; i < FIELDS; i++)
            if (strlen(fields[i].name) == size && memcmp(fields[i].name, at + 1, size) == 0)
                asked[count++] = i;
        at += size + 2;
    }
    for (int i = 0; count == 0 && i < FIELDS; i++)
        asked[i] = i;
    return count > 0 ? count : FIELDS;
}

static void set_own_copy(const int *asked, int count) {
    size_t start = own_size, size = 2;
    put((uint8_t[]){(uint8_t)count}, 1);
    put16(19);
    put("PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0", 19);
    for (int i = 0; i < count; i++)
        size += 4 + fields[asked[i]].size;
    put16((unsigned)size);
    put16((unsigned)count);
    for (int i = 0; i < count; i++) {
        const field *from = &fields[asked[i]];
        put16(from->bytes ? 0 : 0xFFFF);
        put16(from->bytes ? from->size : 0xFFFF);
        put(from->bytes, from->size);
    }
    put16(2);
    put16(0xFFFF);
    set_own(Q_COPY, COPY, start);
}

/* The one row of the table, as far as it is asked for. */
static void set_own_row(const char *statement) {
    int asked[FIELDS], count = find_asked(statement, asked);
    const char *row[FIELDS];
    own_size = own_head;
    for (int i = 0; i < count; i++)
        row[i] = fields[asked[i]].text;
    set_own_rows(Q_ROWS, (unsigned)count, row, (size_t)count);
    set_own_copy(asked, count);
}

static void set_own_columns(void) {
    const char *columns[FIELDS][4];
    static char numbers[FIELDS][2][8];
    for (int i = 0; i < FIELDS; i++) {
        snprintf(numbers[i][0], sizeof numbers[i][0], "%d", i + 1);
        snprintf(numbers[i][1], sizeof numbers[i][1], "%u", fields[i].type);
        const char *const column[] = {"100", numbers[i][0], fields[i].name, numbers[i][1]};
        memcpy(columns[i], column, sizeof column);
    }
    set_own_rows(Q_COLUMNS, 4, columns[0], FIELDS * 4);
    size_t start = own_size;
    put((uint8_t[]){FIELDS}, 1);
    for (int i = 0; i < FIELDS; i++)
        put16(fields[i].type);
    set_own(Q_DESCRIBE, COLUMNS, start);
}

static void set_all_own(uint8_t flags) {
    own_size = 0;
    for (int i = 0; i < QUESTIONS; i++)
        own[i] = (answer){.kind = COMMAND};
    own[Q_PROBE].kind = flags & NO_COPY ? FAILURE : COPY;
    set_own_rows(Q_SNAPSHOT, 1, (const char *const[]){"00000003-0000001B-1"}, 1);
    set_own_rows(Q_VERSION, 1, (const char *const[]){"PostgreSQL 15.4"}, 1);
    set_own_rows(Q_TABLES, 6, (const char *const[]){"100", "t", "public", "2", "t", "r"}, 6);
    set_own_rows(Q_DOMAINS, 2, (const char *const[]){"200", "23"}, 2);
    set_own_rows(Q_SIZES, 4, (const char *const[]){"100", "1", "8192", "t"}, 4);
    set_own_rows(Q_KEYS, 5,
                 (const char *const[]){"100", "p", "{1}", "0", "", "100", "f", "{10}", "100", "{1}"}, 10);
    set_own_columns();
    own_head = own_size;
}

/* ---- The connection ------------------------------------------------------------------------------------ */

struct pg_conn {
    uint8_t flags;
    const uint8_t *changes;
    size_t changes_size;
    answer now;     /* what is being answered */
    unsigned given; /* results of it so far */
    bool is_single; /* rows one by one */
    unsigned left;  /* columns of its next row, cells that are still to come; messages */
};

static PGconn server;

static answer answer_to(const PGconn *connection, question asked) {
    const uint8_t *at = connection->changes;
    size_t left = connection->changes_size;
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

static int ask(PGconn *connection, const char *statement) {
    int asked = 0;
    while (!strstr(statement, parts[asked]))
        asked++;
    if (asked == Q_COPY || asked == Q_ROWS)
        set_own_row(statement);
    connection->now = answer_to(connection, (question)asked);
    connection->given = 0;
    connection->is_single = false;
    return 1;
}

static unsigned take(answer *from, unsigned count) {
    unsigned number = 0;
    for (; count > 0 && from->size > 0; count--, from->data++, from->size--)
        number = number << 8 | *from->data;
    return number;
}

/* A result with as many columns, of these types, or of text. */
static PGresult *make_result(ExecStatusType status, unsigned columns, answer *types, int format) {
    static char name[] = "a column";
    PGresAttDesc described[COLUMNS_MAX] = {0};
    PGresult *result = PQmakeEmptyPGresult(NULL, status);
    columns = columns < COLUMNS_MAX ? columns : COLUMNS_MAX;
    for (unsigned i = 0; i < columns; i++) {
        described[i].name = i < FIELDS ? (char *)(uintptr_t)fields[i].name : name;
        described[i].typid = types ? take(types, 2) : 25;
        described[i].tableid = 100;
        described[i].columnid = (int)i + 1;
        described[i].format = format;
    }
    if (columns > 0)
        require(PQsetResultAttrs(result, (int)columns, described));
    return result;
}

static void add_row(PGresult *result, int row, answer *from) {
    for (int i = 0; i < PQnfields(result); i++) {
        unsigned size = take(from, 1);
        bool is_null = size == NULL_CELL;
        size = size < from->size ? size : (unsigned)from->size;
        char *bytes = (char *)(uintptr_t)from->data;
        require(PQsetvalue(result, row, i, is_null ? NULL : bytes, is_null ? -1 : (int)size));
        from->data += is_null ? 0 : size;
        from->size -= is_null ? 0 : size;
    }
}

static PGresult *next_rows(PGconn *connection) {
    answer *now = &connection->now;
    if (connection->given++ == 0)
        connection->left = take(now, 1);
    bool is_row = now->size > 0 && connection->left > 0;
    if (!connection->is_single) {
        PGresult *all =
            connection->given == 1 ? make_result(PGRES_TUPLES_OK, connection->left, NULL, 0) : NULL;
        for (int row = 0; all && now->size > 0 && PQnfields(all) > 0; row++)
            add_row(all, row, now);
        return all;
    }
    if (!is_row && connection->left == COLUMNS_MAX + 1)
        return NULL;
    PGresult *result = make_result(is_row ? PGRES_SINGLE_TUPLE : PGRES_TUPLES_OK, connection->left, NULL, 0);
    if (is_row)
        add_row(result, 0, now);
    else
        connection->left = COLUMNS_MAX + 1; /* the end was given */
    return result;
}

/* First the start of the copy, then (once its messages are read) its end. */
static PGresult *next_copy(PGconn *connection) {
    kind is = connection->now.kind;
    unsigned given = connection->given++;
    if (given == 0)
        return make_result(is == COPY_IN     ? PGRES_COPY_IN
                           : is == COPY_BOTH ? PGRES_COPY_BOTH
                                             : PGRES_COPY_OUT,
                           take(&connection->now, 1), NULL, is != TEXT_COPY);
    return given == 1 ? make_result(is == CUT_COPY ? PGRES_FATAL_ERROR : PGRES_COMMAND_OK, 0, NULL, 0) : NULL;
}

static PGresult *next_result(PGconn *connection) {
    static const ExecStatusType single[KINDS] = {
        [COMMAND] = PGRES_COMMAND_OK, [FAILURE] = PGRES_FATAL_ERROR, [EMPTY] = PGRES_EMPTY_QUERY};
    switch (connection->now.kind) {
    case ROWS:
        return next_rows(connection);
    case COPY:
    case TEXT_COPY:
    case CUT_COPY:
    case COPY_IN:
    case COPY_BOTH:
        return next_copy(connection);
    case NOTHING:
        return NULL;
    case MANY:
        return make_result(PGRES_TUPLES_OK, take(&connection->now, 1), NULL, 0);
    case COLUMNS:
        return connection->given++ > 0
                   ? NULL
                   : make_result(PGRES_COMMAND_OK, take(&connection->now, 1), &connection->now, 0);
    default:
        return connection->given++ > 0 ? NULL : make_result(single[connection->now.kind], 0, NULL, 0);
    }
}

/* ---- In place of libpq --------------------------------------------------------------------------------- */

PGconn *PQconnectdbParams(const char *const *names, const char *const *values, int expands) {
    (void)names, (void)values, (void)expands;
    return &server;
}

void PQfinish(PGconn *connection) {
    (void)connection;
}

ConnStatusType PQstatus(const PGconn *connection) {
    return connection ? CONNECTION_OK : CONNECTION_BAD;
}

int PQserverVersion(const PGconn *connection) {
    return !connection ? 0 : connection->flags & OLD_SERVER ? 90600 : 150004;
}

char *PQdb(const PGconn *connection) {
    static char name[] = "d";
    return connection ? name : NULL;
}

char *PQerrorMessage(const PGconn *connection) {
    static char lost[] = "the connection is lost\n", none[] = "connection pointer is NULL\n";
    return connection ? lost : none;
}

PQnoticeReceiver PQsetNoticeReceiver(PGconn *connection, PQnoticeReceiver receiver, void *context) {
    (void)connection, (void)receiver, (void)context;
    return NULL;
}

PGVerbosity PQsetErrorVerbosity(PGconn *connection, PGVerbosity verbosity) {
    (void)connection;
    return verbosity;
}

int PQsendQuery(PGconn *connection, const char *statement) {
    return ask(connection, statement);
}

int PQsendQueryParams(PGconn *connection, const char *statement, int count, const Oid *types,
                      const char *const *values, const int *sizes, const int *formats, int format) {
    (void)count, (void)types, (void)values, (void)sizes, (void)formats, (void)format;
    return ask(connection, statement);
}

int PQsendPrepare(PGconn *connection, const char *name, const char *statement, int count, const Oid *types) {
    (void)name, (void)statement, (void)count, (void)types;
    return ask(connection, parts[Q_PREPARE]);
}

int PQsendDescribePrepared(PGconn *connection, const char *name) {
    (void)name;
    return ask(connection, parts[Q_DESCRIBE]);
}

int PQsetSingleRowMode(PGconn *connection) {
    connection->is_single = true;
    return 1;
}

int PQisBusy(PGconn *connection) {
    (void)connection;
    return 0;
}

int PQsocket(const PGconn *connection) {
    (void)connection;
    return -1;
}

int PQconsumeInput(PGconn *connection) {
    (void)connection;
    return 0;
}

PGnotify *PQnotifies(PGconn *connection) {
    (void)connection;
    return NULL;
}

PGresult *PQgetResult(PGconn *connection) {
    return next_result(connection);
}

int PQgetCopyData(PGconn *connection, char **out, int is_async) {
    answer *now = &connection->now;
    (void)is_async;
    *out = NULL;
    if (now->size == 0)
        return now->kind == CUT_COPY ? -2 : -1;
    unsigned size = take(now, 2);
    size = size < now->size ? size : (unsigned)now->size;
    if (size == 0)
        return -1; /* libpq gives no empty message */
    *out = malloc(size);
    require(*out);
    memcpy(*out, now->data, size);
    now->data += size;
    now->size -= size;
    return (int)size;
}

/* ---- Ingest -------------------------------------------------------------------------------------------- */

static const char schema[] =
    "{\"tables\": {\"t\": {\"primary_key\": \"id\", \"columns\": {\"w\": {\"stype\": \"text\"}}}, \"q\": {"
    "\"query\": \"SELECT id, w FROM t\", \"primary_key\": \"id\", \"columns\": {\"w\": {\"stype\": "
    "\"categorical\"}}}}, \"tasks\": {\"k\": {\"query\": \"SELECT id, f FROM t\", \"anchor_table\": \"t\", "
    "\"anchor_key\": \"id\", \"target_column\": \"f\", \"target_stype\": \"numerical\"}}}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static memory_env memory;
    uint8_t flags = size > 0 ? data[0] : 0;
    server = (PGconn){
        .flags = flags, .changes = size > 0 ? data + 1 : data, .changes_size = size > 0 ? size - 1 : 0};
    set_all_own(flags);
    memory_env_init(&memory);
    memory.env.start_thread = refuse_thread;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_error error;
    options.source = "postgresql://u:" PASSWORD "@h/d";
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
