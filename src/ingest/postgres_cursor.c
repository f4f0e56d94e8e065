/* Scans and queries of PostgreSQL. Both become one statement whose columns are known beforehand, and whose
 * rows are streamed in one of two ways:
 *
 *   - COPY (SELECT …) TO STDOUT (FORMAT binary): libpq hands over a message a row, and text cells borrow
 *     it;
 *   - rows one by one as text, for servers without binary COPY and for queries that cannot be wrapped.
 *
 * A batch keeps the messages (or results) of its rows until the next call. Its size is bounded by cells and
 * by bytes, whatever the table.
 *
 * A statement runs inside a savepoint, so that a cursor that is closed early, or a query of the user's that
 * fails, leaves the session's transaction (and so the snapshot) whole. */
#include <string.h>

#include "base/bytes.h"
#include "ingest/postgres.h"

enum { BATCH_BYTES = 4 << 20 };
enum { LEFT_BYTES_MAX = 64 << 20 };
enum { EMPTY_MESSAGES_MAX = 1000 }; /* a header and a trailer have no row; nothing else should */

typedef struct column {
    weir_ingest__pg_type type;
    uint32_t uuid;  /* its number among the columns that are uuids */
    uint32_t table; /* of a query: the table and attribute that it passes on, 0 if it is computed */
    uint32_t attribute;
} column;

typedef struct pg_cursor {
    weir_ingest__cursor base;
    weir_ingest__pg_session *session;
    bool is_copy;
    bool has_savepoint;
    bool is_started; /* the statement runs */
    bool is_ended;   /* the server has said so */
    bool has_header; /* the binary header was read */
    column *columns;
    uint32_t uuid_count;
    size_t batch_rows;
    weir_ingest__value *cells;
    char *uuids; /* batch_rows * uuid_count texts */
    void **kept; /* libpq's memory under the batch: messages and unescaped bytes */
    size_t kept_count;
    size_t kept_capacity;
    PGresult **results; /* the batch's rows, where they come one by one; batch_rows of them */
    size_t result_count;
    uint32_t empty_messages; /* since the last row */
    char *pending;           /* a message that has rows for the next batch */
    size_t pending_size;
    size_t pending_offset;
} pg_cursor;

/* ---- Ends ------------------------------------------------------------------------------------ */

static void release_batch(pg_cursor *cursor) {
    for (size_t i = 0; i < cursor->kept_count; i++)
        PQfreemem(cursor->kept[i]);
    cursor->kept_count = 0;
    for (size_t i = 0; i < cursor->result_count; i++)
        PQclear(cursor->results[i]);
    cursor->result_count = 0;
}

/* A statement is left before its end: what it still sends is read if that is little, else the session hangs
 * up. (The server is not asked to cancel: it need not, and libpq would wait for it without end.) */
static void leave_statement(pg_cursor *cursor) {
    weir_ingest__pg_session *session = cursor->session;
    size_t left = LEFT_BYTES_MAX;
    for (bool is_over = false; session->connection && !is_over;) {
        char *message = NULL;
        PGresult *result = NULL;
        size_t size = 0;
        if (cursor->is_copy) {
            int received = weir_ingest__pg_copy_data(session, &message);
            is_over = received < 0;
            size = is_over ? 0 : (size_t)received;
        } else {
            result = weir_ingest__pg_result(session);
            is_over = PQresultStatus(result) != PGRES_SINGLE_TUPLE;
            size = PQresultMemorySize(result);
        }
        PQfreemem(message);
        PQclear(result);
        if (size > left)
            weir_ingest__pg_hang_up(session, "a statement was left before its end");
        else
            left -= size;
    }
    PQclear(weir_ingest__pg_answer(session, false));
}

static void close_cursor(weir_ingest__cursor *base) {
    pg_cursor *cursor = (pg_cursor *)base;
    weir_ingest__pg_session *session = cursor->session;
    release_batch(cursor);
    PQfreemem(cursor->pending);
    if (cursor->is_started && !cursor->is_ended)
        leave_statement(cursor);
    /* A failure here shows in the next statement. */
    if (cursor->has_savepoint && weir_ingest__pg_run(session, "ROLLBACK TO SAVEPOINT weir_statement") &&
        weir_ingest__pg_run(session, "RELEASE SAVEPOINT weir_statement"))
        cursor->has_savepoint = false;
    session->base.is_reading = false;
    weir__release(base->memory.env, cursor->kept);
    weir_ingest__cursor_free(base);
}

/* ---- Messages -------------------------------------------------------------------------------- */

static weir_status server_failure(const pg_cursor *cursor, const PGresult *result, weir_error *error) {
    return weir_ingest__pg_fail(error, cursor->session, result, cursor->base.failure);
}

static weir_status bad_stream(const pg_cursor *cursor, weir_error *error) {
    return WEIR_INGEST__SOURCE_ERROR(error, "%s: the server's binary COPY stream is malformed",
                                     cursor->base.failure);
}

/* ---- Binary COPY ----------------------------------------------------------------------------- */

/* One row of a message: a count of fields, then each with its size, -1 for null. */
static weir_status read_row(pg_cursor *cursor, size_t row, weir_error *error) {
    const char *at = cursor->pending + cursor->pending_offset + 2;
    const char *end = cursor->pending + cursor->pending_size;
    uint32_t count = cursor->base.column_count;
    weir_ingest__value *cells = cursor->cells + row * count;
    char *uuids = cursor->uuids + row * cursor->uuid_count * WEIR_INGEST__PG_UUID_SIZE;
    for (uint32_t i = 0; i < count; i++) {
        if (end - at < 4)
            return bad_stream(cursor, error);
        int32_t size = WEIR__LOW(int32_t, weir__load32be(at));
        at += 4;
        if (size == -1) {
            cells[i] = (weir_ingest__value){.type = WEIR_INGEST__NULL};
            continue;
        }
        if (size < 0 || end - at < size)
            return bad_stream(cursor, error);
        const column *from = &cursor->columns[i];
        const char *fault = weir_ingest__pg_decode_binary(
            from->type.form, at, (size_t)size, uuids + from->uuid * WEIR_INGEST__PG_UUID_SIZE, &cells[i]);
        if (fault)
            return weir_ingest__cursor_refuse(&cursor->base, i, fault, error);
        at += size;
    }
    cursor->pending_offset = (size_t)(at - cursor->pending);
    return WEIR_OK;
}

/* Takes the next message as the pending one; leaves none at the end of the stream, where the statement's own
 * result says whether all went well. The first message begins with a signature, flags (none is known) and an
 * extension, which is skipped. */
static weir_status receive(pg_cursor *cursor, weir_error *error) {
    static const char signature[11] = "PGCOPY\n\377\r\n";
    enum { HEADER_SIZE = sizeof signature + 8 };
    if (!weir__grow(cursor->base.memory.env, (void **)&cursor->kept, &cursor->kept_capacity,
                    cursor->kept_count + 1, sizeof *cursor->kept))
        return weir_ingest__source_no_memory(error, sizeof *cursor->kept);
    int size = weir_ingest__pg_copy_data(cursor->session, &cursor->pending);
    if (size == -2)
        return server_failure(cursor, NULL, error);
    if (size < 0) {
        PGresult *answer = weir_ingest__pg_answer(cursor->session, false);
        bool is_fine = PQresultStatus(answer) == PGRES_COMMAND_OK;
        weir_status status = is_fine ? WEIR_OK : server_failure(cursor, answer, error);
        cursor->is_ended = cursor->session->connection != NULL;
        PQclear(answer);
        return status;
    }
    if (++cursor->empty_messages > EMPTY_MESSAGES_MAX)
        return bad_stream(cursor, error);
    cursor->pending_size = (size_t)size;
    cursor->pending_offset = 0;
    if (cursor->has_header)
        return WEIR_OK;
    if (cursor->pending_size < HEADER_SIZE || memcmp(cursor->pending, signature, sizeof signature) != 0)
        return bad_stream(cursor, error);
    uint32_t flags = weir__load32be(cursor->pending + sizeof signature);
    uint32_t extension = weir__load32be(cursor->pending + sizeof signature + 4);
    if (flags != 0 || extension > cursor->pending_size - HEADER_SIZE)
        return bad_stream(cursor, error);
    cursor->pending_offset = HEADER_SIZE + extension;
    cursor->has_header = true;
    return WEIR_OK;
}

/* The pending message's rows, as far as the batch has room. -1 as a field count is the stream's trailer. */
static weir_status read_pending_rows(pg_cursor *cursor, size_t *row, weir_error *error) {
    while (*row < cursor->batch_rows && cursor->pending_offset < cursor->pending_size) {
        if (cursor->pending_size - cursor->pending_offset < 2)
            return bad_stream(cursor, error);
        int16_t fields = WEIR__LOW(int16_t, weir__load16be(cursor->pending + cursor->pending_offset));
        if (fields == -1) {
            cursor->pending_offset = cursor->pending_size;
            break;
        }
        if (fields < 0 || WEIR__NARROW(uint32_t, fields) != cursor->base.column_count)
            return bad_stream(cursor, error);
        WEIR__TRY(read_row(cursor, (*row)++, error));
        cursor->empty_messages = 0;
    }
    return WEIR_OK;
}

static weir_status next_copied(weir_ingest__cursor *base, weir_ingest__rows *rows, weir_error *error) {
    pg_cursor *cursor = (pg_cursor *)base;
    size_t row = 0, bytes = 0;
    release_batch(cursor);
    while (row < cursor->batch_rows && (bytes < BATCH_BYTES || row == 0) && !cursor->is_ended) {
        if (!cursor->pending)
            WEIR__TRY(receive(cursor, error));
        if (cursor->pending)
            WEIR__TRY(read_pending_rows(cursor, &row, error));
        if (cursor->pending && cursor->pending_offset == cursor->pending_size) {
            /* A message whose rows are all read stays with the batch; receive has made room for it. */
            bytes += cursor->pending_size;
            cursor->kept[cursor->kept_count++] = cursor->pending;
            cursor->pending = NULL;
        }
    }
    *rows = (weir_ingest__rows){.row_count = row, .cells = cursor->cells};
    return WEIR_OK;
}

/* ---- Rows one by one ------------------------------------------------------------------------- */

static weir_status read_text_row(pg_cursor *cursor, const PGresult *result, size_t row, size_t *bytes,
                                 weir_error *error) {
    uint32_t count = cursor->base.column_count;
    weir_ingest__value *cells = cursor->cells + row * count;
    for (uint32_t i = 0; i < count; i++) {
        if (PQgetisnull(result, 0, WEIR__NARROW(int, i))) {
            cells[i] = (weir_ingest__value){.type = WEIR_INGEST__NULL};
            continue;
        }
        const char *text = PQgetvalue(result, 0, WEIR__NARROW(int, i));
        size_t size = (size_t)PQgetlength(result, 0, WEIR__NARROW(int, i));
        *bytes += size;
        if (cursor->columns[i].type.form == WEIR_INGEST__PG_BYTEA) {
            if (!weir__grow(cursor->base.memory.env, (void **)&cursor->kept, &cursor->kept_capacity,
                            cursor->kept_count + 1, sizeof *cursor->kept))
                return weir_ingest__source_no_memory(error, sizeof *cursor->kept);
            unsigned char *raw = PQunescapeBytea((const unsigned char *)text, &size);
            if (!raw)
                return weir_ingest__source_no_memory(error, strlen(text));
            cursor->kept[cursor->kept_count++] = raw;
            cells[i] = (weir_ingest__value){.type = WEIR_INGEST__BLOB,
                                            .text = {.data = (const char *)raw, .size = size}};
            continue;
        }
        const char *fault = weir_ingest__pg_decode_text(cursor->columns[i].type.form, text, size, &cells[i]);
        if (fault)
            return weir_ingest__cursor_refuse(&cursor->base, i, fault, error);
    }
    return WEIR_OK;
}

/* The next row's result in *out, NULL at the end. */
static weir_status receive_row(pg_cursor *cursor, PGresult **out, weir_error *error) {
    PGresult *result = weir_ingest__pg_result(cursor->session);
    ExecStatusType kind = PQresultStatus(result);
    *out = NULL;
    if (kind == PGRES_SINGLE_TUPLE && PQntuples(result) == 1 &&
        PQnfields(result) == WEIR__NARROW(int, cursor->base.column_count)) {
        *out = result;
        return WEIR_OK;
    }
    weir_status status = WEIR_OK;
    if (kind != PGRES_TUPLES_OK)
        status = server_failure(cursor, result, error);
    PQclear(result);
    PQclear(weir_ingest__pg_answer(cursor->session, false));
    cursor->is_ended = cursor->session->connection != NULL;
    return status;
}

static weir_status next_single(weir_ingest__cursor *base, weir_ingest__rows *rows, weir_error *error) {
    pg_cursor *cursor = (pg_cursor *)base;
    size_t row = 0, bytes = 0;
    release_batch(cursor);
    while (row < cursor->batch_rows && (bytes < BATCH_BYTES || row == 0) && !cursor->is_ended) {
        PGresult *result;
        WEIR__TRY(receive_row(cursor, &result, error));
        if (!result)
            break;
        cursor->results[cursor->result_count++] = result;
        WEIR__TRY(read_text_row(cursor, result, row++, &bytes, error));
    }
    *rows = (weir_ingest__rows){.row_count = row, .cells = cursor->cells};
    return WEIR_OK;
}

/* ---- Starting -------------------------------------------------------------------------------- */

static weir_status make_cursor(weir_ingest__source *session, const char *kind, const char *name,
                               pg_cursor **out, weir_error *error) {
    assert(!session->is_reading && "a session has one cursor at a time");
    pg_cursor *cursor =
        weir_ingest__server_cursor_make(session->env, sizeof *cursor, kind, name, NULL, close_cursor);
    if (!cursor)
        return weir_ingest__source_no_memory(error, sizeof *cursor);
    session->is_reading = true;
    cursor->session = (weir_ingest__pg_session *)session;
    *out = cursor;
    return WEIR_OK;
}

static weir_status make_columns(pg_cursor *cursor, uint32_t count, weir_error *error) {
    weir__arena *memory = &cursor->base.memory;
    cursor->columns = weir__arena_take_zero(memory, count, sizeof *cursor->columns);
    cursor->base.column_names = weir__arena_take_zero(memory, count, sizeof *cursor->base.column_names);
    cursor->base.column_count = memory->is_short ? 0 : count;
    return memory->is_short ? weir_ingest__source_no_memory(error, count) : WEIR_OK;
}

static void set_column(pg_cursor *cursor, uint32_t number, const char *name, uint32_t type) {
    column *to = &cursor->columns[number];
    cursor->base.column_names[number] = weir__arena_text(&cursor->base.memory, name, strlen(name));
    to->type = weir_ingest__pg_type_of(type);
    if (to->type.form == WEIR_INGEST__PG_UUID)
        to->uuid = cursor->uuid_count++;
}

/* Runs the statement; after this only next and close are called. */
static weir_status start(pg_cursor *cursor, const char *statement, weir_error *error) {
    weir_ingest__pg_session *session = cursor->session;
    weir__arena *memory = &cursor->base.memory;
    size_t columns = cursor->base.column_count, rows = weir_ingest__batch_rows(columns);
    cursor->batch_rows = rows;
    cursor->cells = weir__arena_take_zero(memory, rows * columns, sizeof *cursor->cells);
    cursor->uuids = weir__arena_take_zero(memory, rows * cursor->uuid_count, WEIR_INGEST__PG_UUID_SIZE);
    cursor->results = weir__arena_take_zero(memory, rows, sizeof *cursor->results);
    if (memory->is_short)
        return weir_ingest__source_no_memory(error, rows * columns * sizeof *cursor->cells);
    cursor->base.next = cursor->is_copy ? next_copied : next_single;
    if (!cursor->is_copy) {
        cursor->is_started =
            session->connection &&
            PQsendQueryParams(session->connection, statement, 0, NULL, NULL, NULL, NULL, 0) == 1 &&
            PQsetSingleRowMode(session->connection) == 1;
        return cursor->is_started ? WEIR_OK : server_failure(cursor, NULL, error);
    }
    PGresult *result = weir_ingest__pg_exec(session, statement, true);
    cursor->is_started = PQresultStatus(result) == PGRES_COPY_OUT;
    bool is_fine =
        cursor->is_started && PQbinaryTuples(result) == 1 && PQnfields(result) == WEIR__NARROW(int, columns);
    if (cursor->is_started && !is_fine)
        weir_ingest__pg_hang_up(session, "the server copies another number of columns than it was asked for");
    weir_status status = is_fine ? WEIR_OK : server_failure(cursor, result, error);
    PQclear(result);
    return status;
}

static weir_status set_savepoint(pg_cursor *cursor, weir_error *error) {
    if (!cursor->session->has_savepoints)
        return WEIR_OK;
    if (!weir_ingest__pg_run(cursor->session, "SAVEPOINT weir_statement"))
        return server_failure(cursor, NULL, error);
    cursor->has_savepoint = true;
    return WEIR_OK;
}

static void add_cast(weir_ingest__sql *sql, const pg_cursor *cursor, uint32_t number) {
    if (cursor->is_copy && cursor->columns[number].type.needs_cast)
        weir_ingest__sql_add(sql, "::text");
}

static const char end_of_copy[] = ") TO STDOUT (FORMAT binary)";

/* ---- Scans ----------------------------------------------------------------------------------- */

static void add_scan(weir_ingest__sql *sql, const pg_cursor *cursor, const weir_ingest__catalog_table *table,
                     uint32_t part, uint32_t part_count) {
    const weir_ingest__pg_table *detail = table->detail;
    weir_ingest__sql_add(sql, cursor->is_copy ? "COPY (SELECT " : "SELECT ");
    for (uint32_t i = 0; i < cursor->base.column_count; i++) {
        if (i > 0)
            weir_ingest__sql_add(sql, ", ");
        weir_ingest__sql_add_identifier(sql, cursor->base.column_names[i]);
        add_cast(sql, cursor, i);
    }
    weir_ingest__sql_add(sql, " FROM %s", table->sql_name);
    if (detail->block_count > 0) {
        /* Parts are ranges of blocks; together they are all of tid's range, so every row is in exactly one,
         * also where the table has grown since it was described. */
        uint64_t first = (uint64_t)detail->block_count * part / part_count;
        uint64_t end = (uint64_t)detail->block_count * (part + 1) / part_count;
        if (part > 0)
            weir_ingest__sql_add(sql, " WHERE ctid >= '(%llu,0)'::tid", (unsigned long long)first);
        if (part + 1 < part_count)
            weir_ingest__sql_add(sql, "%s ctid < '(%llu,0)'::tid", part > 0 ? " AND" : " WHERE",
                                 (unsigned long long)end);
    } else if (part > 0)
        weir_ingest__sql_add(sql, " WHERE false");
    weir_ingest__sql_add(sql, "%s", cursor->is_copy ? end_of_copy : "");
}

weir_status weir_ingest__pg_scan(weir_ingest__source *source, const weir_ingest__catalog_table *table,
                                 const uint32_t *columns, uint32_t column_count, uint32_t part,
                                 uint32_t part_count, weir_ingest__cursor **out, weir_error *error) {
    pg_cursor *cursor = NULL;
    WEIR__TRY(make_cursor(source, "table", table->name, &cursor, error));
    weir_status status = make_columns(cursor, column_count, error);
    cursor->is_copy = cursor->session->can_copy;
    for (uint32_t i = 0; i < cursor->base.column_count; i++)
        set_column(cursor, i, table->columns[columns[i]].name, table->columns[columns[i]].source_type);
    weir_ingest__sql sql = {.env = source->env};
    if (!cursor->base.memory.is_short)
        add_scan(&sql, cursor, table, part, part_count);
    if (!status && sql.failed)
        status = weir_ingest__source_no_memory(error, sql.size);
    if (!status)
        status = set_savepoint(cursor, error);
    if (!status)
        status = start(cursor, sql.data, error);
    weir_ingest__sql_release(&sql);
    return weir_ingest__cursor_give(&cursor->base, status, out, error);
}

/* ---- Queries --------------------------------------------------------------------------------- */

/* Asks the server for the columns of a query, without running it. */
static weir_status describe_query(pg_cursor *cursor, const char *sql, PGresult **out, weir_error *error) {
    weir_ingest__pg_session *session = cursor->session;
    PGresult *result = NULL;
    WEIR__TRY(set_savepoint(cursor, error));
    if (session->connection && PQsendPrepare(session->connection, "", sql, 0, NULL) == 1)
        result = weir_ingest__pg_answer(session, false);
    if (PQresultStatus(result) == PGRES_COMMAND_OK) {
        PQclear(result);
        result = NULL;
        if (session->connection && PQsendDescribePrepared(session->connection, "") == 1)
            result = weir_ingest__pg_answer(session, false);
    }
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        weir_status status = server_failure(cursor, result, error);
        PQclear(result);
        return status;
    }
    *out = result;
    return WEIR_OK;
}

static bool origin_of(const weir_ingest__cursor *base, uint32_t number, const weir_ingest__catalog *catalog,
                      weir_ingest__origin *out) {
    const column *asked = &((const pg_cursor *)base)->columns[number];
    for (uint32_t t = 0; asked->table != 0 && t < catalog->table_count; t++) {
        const weir_ingest__pg_table *detail = catalog->tables[t].detail;
        if (!detail || detail->oid != asked->table)
            continue;
        const weir_ingest__catalog_table *table = &catalog->tables[t];
        for (uint32_t c = 0; c < table->column_count && !table->query; c++)
            if (table->columns[c].source_number == asked->attribute) {
                *out = (weir_ingest__origin){table, c};
                return true;
            }
    }
    return false;
}

static weir_status set_query_columns(pg_cursor *cursor, const PGresult *described, weir_error *error) {
    uint32_t count = WEIR__NARROW(uint32_t, PQnfields(described));
    if (count == 0)
        return WEIR_INGEST__SOURCE_ERROR(error, "the query returns no columns");
    WEIR__TRY(make_columns(cursor, count, error));
    for (uint32_t i = 0; i < count; i++) {
        int number = WEIR__NARROW(int, i);
        set_column(cursor, i, PQfname(described, number), PQftype(described, number));
        cursor->columns[i].table = PQftable(described, number);
        cursor->columns[i].attribute = WEIR__LOW(uint32_t, PQftablecol(described, number));
    }
    cursor->base.origin = origin_of;
    return WEIR_OK;
}

static weir_status start_query(pg_cursor *cursor, const char *query, weir_error *error) {
    weir_ingest__sql sql = {.env = cursor->session->base.env};
    PGresult *described;
    WEIR__TRY(describe_query(cursor, query, &described, error));
    weir_status status = set_query_columns(cursor, described, error);
    PQclear(described);
    WEIR__TRY(status);
    /* A semicolon inside may end a statement, which a subquery cannot hold. */
    size_t size = weir_ingest__sql_trimmed_size(query);
    cursor->is_copy = cursor->session->can_copy && !memchr(query, ';', size);
    if (cursor->is_copy) {
        /* The query as a subquery whose columns have names of ours, so that theirs may repeat. The line
         * breaks end a comment that the query may end with. */
        weir_ingest__sql_add(&sql, "COPY (SELECT ");
        for (uint32_t i = 0; i < cursor->base.column_count; i++) {
            weir_ingest__sql_add(&sql, "%sc%u", i > 0 ? ", " : "", i);
            add_cast(&sql, cursor, i);
        }
        weir_ingest__sql_add(&sql, " FROM (\n");
        weir_ingest__sql_add_text(&sql, query, size);
        weir_ingest__sql_add(&sql, "\n) AS weir_query (");
        for (uint32_t i = 0; i < cursor->base.column_count; i++)
            weir_ingest__sql_add(&sql, "%sc%u", i > 0 ? ", " : "", i);
        weir_ingest__sql_add(&sql, ")%s", end_of_copy);
    } else
        weir_ingest__sql_add_text(&sql, query, strlen(query));
    status = sql.failed ? weir_ingest__source_no_memory(error, size) : start(cursor, sql.data, error);
    weir_ingest__sql_release(&sql);
    return status;
}

weir_status weir_ingest__pg_describe_query(weir_ingest__source *source, const char *sql,
                                           weir_ingest__catalog *catalog, weir_ingest__catalog_table *table,
                                           weir_error *error) {
    pg_cursor *cursor = NULL;
    PGresult *described = NULL;
    WEIR__TRY(make_cursor(source, "the query", "", &cursor, error));
    weir_status status = describe_query(cursor, sql, &described, error);
    for (int i = 0; i < PQnfields(described); i++)
        weir_ingest__catalog_add_column(catalog, table, PQfname(described, i),
                                        weir_ingest__pg_type_of(PQftype(described, i)).declared);
    PQclear(described);
    close_cursor(&cursor->base);
    return status;
}

weir_status weir_ingest__pg_query(weir_ingest__source *source, const char *sql, weir_ingest__cursor **out,
                                  weir_error *error) {
    pg_cursor *cursor = NULL;
    WEIR__TRY(make_cursor(source, "the query", "", &cursor, error));
    return weir_ingest__cursor_give(&cursor->base, start_query(cursor, sql, error), out, error);
}
