/* Scans and queries of MySQL. Both become one statement whose rows are streamed as text, one at a time: the
 * server makes them while they are read, and the library keeps one. A batch copies the texts of its rows;
 * its size is bounded by cells and by bytes, whatever the table. A row that the batch has no room for stays
 * with the library and begins the next.
 *
 * What has no exact text is converted by the server: a FLOAT (of which MySQL writes six digits) as the DOUBLE
 * that it is, a GEOMETRY as its well-known text. In a query the former needs a query around it, which needs
 * columns of different names; the latter is refused, with what to write instead. */
#include <string.h>

#include "ingest/mysql.h"

enum { BATCH_BYTES = 1 << 20 };

typedef struct column {
    const char *from_table; /* of a query: that it passes on a column of, or NULL, */
    const char *from_name;  /* and which */
    weir_ingest__my_form form;
} column;

typedef struct my_cursor {
    weir_ingest__cursor base;
    weir_ingest__my_session *session;
    weir_ingest__my_result result;
    bool is_ended;
    column *columns;
    size_t batch_rows;
    weir_ingest__value *cells;
    void *text; /* of the batch's cells */
    size_t text_size, text_capacity;
    weir_ingest__my_row pending; /* a row that is not in a batch yet */
} my_cursor;

static void close_cursor(weir_ingest__cursor *base) {
    my_cursor *cursor = (my_cursor *)base;
    if (cursor->result)
        weir_ingest__my_leave(cursor->session, cursor->result, cursor->is_ended);
    cursor->session->base.is_reading = false;
    weir__release(base->memory.env, cursor->text);
    weir_ingest__cursor_free(base);
}

static weir_status server_failure(const my_cursor *cursor, weir_error *error) {
    return weir_ingest__my_fail(error, cursor->session, NULL, cursor->base.failure);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static bool is_kept(weir_ingest__my_form form) {
    return form == WEIR_INGEST__MY_AS_TEXT || form == WEIR_INGEST__MY_AS_BYTES;
}

static weir_status read_row(my_cursor *cursor, const unsigned long *sizes, weir_ingest__value *cells,
                            weir_error *error) {
    for (uint32_t i = 0; i < cursor->base.column_count; i++) {
        const char *data = cursor->pending[i];
        weir_ingest__my_form form = cursor->columns[i].form;
        if (!data) {
            cells[i] = (weir_ingest__value){.type = WEIR_INGEST__NULL};
            continue;
        }
        if (is_kept(form)) {
            char *kept = (char *)cursor->text + cursor->text_size;
            memcpy(kept, data, sizes[i]);
            cursor->text_size += sizes[i];
            data = kept;
        }
        const char *fault = weir_ingest__my_decode(form, data, sizes[i], &cells[i]);
        if (fault)
            return WEIR_INGEST__SOURCE_ERROR(
                error,
                "a value of column %s of %s %s; change it in the database, leave the column out of the "
                "schema, or read it by a query that has NULL in its place",
                cursor->base.column_names[i], cursor->base.what, fault);
    }
    return WEIR_OK;
}

static weir_status next_rows(weir_ingest__cursor *base, weir_ingest__rows *rows, weir_error *error) {
    my_cursor *cursor = (my_cursor *)base;
    size_t row = 0;
    cursor->text_size = 0;
    while (row < cursor->batch_rows && !cursor->is_ended) {
        if (!cursor->pending && !weir_ingest__my_fetch(cursor->session, cursor->result, &cursor->pending))
            return server_failure(cursor, error);
        cursor->is_ended = !cursor->pending;
        if (cursor->is_ended)
            break;
        const unsigned long *sizes = cursor->session->api.mysql_fetch_lengths(cursor->result);
        /* The first row's texts get the room that they need, later ones begin another batch. */
        size_t needed = cursor->text_size;
        for (uint32_t i = 0; i < cursor->base.column_count; i++)
            if (cursor->pending[i] && is_kept(cursor->columns[i].form))
                needed += sizes[i];
        if (row == 0 && !weir__grow(base->memory.env, &cursor->text, &cursor->text_capacity, needed, 1))
            return weir_ingest__source_no_memory(error, needed);
        if (needed > cursor->text_capacity)
            break;
        WEIR__TRY(read_row(cursor, sizes, cursor->cells + row++ * base->column_count, error));
        cursor->pending = NULL;
    }
    *rows = (weir_ingest__rows){.row_count = row, .cells = cursor->cells};
    return WEIR_OK;
}

/* ---- Starting -------------------------------------------------------------------------------- */

static weir_status make_cursor(weir_ingest__source *session, const char *kind, const char *name,
                               my_cursor **out, weir_error *error) {
    assert(!session->is_reading && "a session has one cursor at a time");
    my_cursor *cursor =
        weir_ingest__server_cursor_make(session->env, sizeof *cursor, kind, name, next_rows, close_cursor);
    if (!cursor)
        return weir_ingest__source_no_memory(error, sizeof *cursor);
    session->is_reading = true;
    cursor->session = (weir_ingest__my_session *)session;
    *out = cursor;
    return WEIR_OK;
}

static bool make_columns(my_cursor *cursor, uint32_t count) {
    weir__arena *memory = &cursor->base.memory;
    cursor->batch_rows = weir_ingest__batch_rows(count);
    cursor->columns = weir__arena_take_zero(memory, count, sizeof *cursor->columns);
    cursor->base.column_names = weir__arena_take_zero(memory, count, sizeof *cursor->base.column_names);
    cursor->cells = weir__arena_take_zero(memory, cursor->batch_rows * count, sizeof *cursor->cells);
    cursor->base.column_count = memory->is_short ? 0 : count;
    return !memory->is_short &&
           weir__grow(memory->env, &cursor->text, &cursor->text_capacity, BATCH_BYTES, 1);
}

static const char *copy(my_cursor *cursor, const char *text) {
    return weir__arena_text(&cursor->base.memory, text, strlen(text));
}

/* Runs the statement; after this only next and close are called. */
static weir_status start(my_cursor *cursor, const char *statement, weir_error *error) {
    weir_ingest__my_session *session = cursor->session;
    if (!weir_ingest__my_run(session, statement, &cursor->result))
        return server_failure(cursor, error);
    uint32_t expected = cursor->base.column_count > 0 ? cursor->base.column_count : 1;
    if (!cursor->result || session->api.mysql_num_fields(cursor->result) != expected) {
        weir_ingest__my_hang_up(session, "the server gives another number of columns than it was asked for");
        return server_failure(cursor, error);
    }
    const weir_ingest__my_field *fields = session->api.mysql_fetch_fields(cursor->result);
    for (uint32_t i = 0; i < cursor->base.column_count; i++)
        cursor->columns[i].form = weir_ingest__my_type_of(&fields[i]).form;
    return WEIR_OK;
}

/* A column, as it is read. */
static void add_column(weir_ingest__sql *sql, const char *name, weir_ingest__my_form form, bool is_first) {
    weir_ingest__sql_add(sql, is_first ? "SELECT " : ", ");
    if (form == WEIR_INGEST__MY_AS_GEOMETRY)
        weir_ingest__sql_add(sql, "ST_AsText(");
    weir_ingest__sql_add_identifier(sql, name);
    if (form == WEIR_INGEST__MY_AS_GEOMETRY)
        weir_ingest__sql_add(sql, ")");
    if (form == WEIR_INGEST__MY_AS_FLOAT)
        weir_ingest__sql_add(sql, " * 1e0");
}

/* ---- Scans ----------------------------------------------------------------------------------- */

weir_status weir_ingest__my_scan(weir_ingest__source *source, const weir_ingest__catalog_table *table,
                                 const uint32_t *columns, uint32_t column_count, uint32_t part,
                                 uint32_t part_count, weir_ingest__cursor **out, weir_error *error) {
    const weir_ingest__my_table *detail = table->detail;
    my_cursor *cursor = NULL;
    (void)part_count;
    if (!detail->has_snapshots)
        return WEIR_INGEST__SOURCE_ERROR(
            error,
            "table %s is kept by %s, which has no snapshots, so its rows could change while they "
            "are read; ALTER TABLE %s ENGINE = InnoDB, or leave it out of the schema",
            table->name, *detail->engine ? detail->engine : "an engine", table->name);
    WEIR__TRY(make_cursor(source, "table", table->name, &cursor, error));
    /* A table is not shared out: part 0 has all rows, and there is one session. */
    weir_ingest__sql sql = {.env = source->env};
    bool has_memory = make_columns(cursor, column_count);
    for (uint32_t i = 0; i < column_count && has_memory; i++) {
        const weir_ingest__catalog_column *from = &table->columns[columns[i]];
        cursor->base.column_names[i] = copy(cursor, from->name);
        add_column(&sql, from->name, (weir_ingest__my_form)from->source_type, i == 0);
    }
    if (column_count == 0)
        weir_ingest__sql_add(&sql, "SELECT 1"); /* rows without cells are counted */
    weir_ingest__sql_add(&sql, " FROM %s%s", table->sql_name, part > 0 ? " WHERE 1 = 0" : "");
    bool is_short = !has_memory || cursor->base.memory.is_short || sql.failed;
    weir_status status =
        is_short ? weir_ingest__source_no_memory(error, sql.size) : start(cursor, sql.data, error);
    weir_ingest__sql_release(&sql);
    return weir_ingest__cursor_give(&cursor->base, status, out, error);
}

/* ---- Queries --------------------------------------------------------------------------------- */

static bool origin_of(const weir_ingest__cursor *base, uint32_t number, const weir_ingest__catalog *catalog,
                      weir_ingest__origin *out) {
    const column *asked = &((const my_cursor *)base)->columns[number];
    return weir_ingest__catalog_find_origin(catalog, asked->from_table, asked->from_name, strcmp, out);
}

static weir_status set_query_columns(my_cursor *cursor, const weir_ingest__my_columns *described,
                                     weir_error *error) {
    if (described->count == 0)
        return WEIR_INGEST__SOURCE_ERROR(error, "the query returns no columns");
    bool has_memory = make_columns(cursor, described->count);
    for (uint32_t i = 0; i < described->count && has_memory; i++) {
        const weir_ingest__my_field *field = &described->fields[i];
        column *to = &cursor->columns[i];
        cursor->base.column_names[i] = copy(cursor, field->name);
        to->form = weir_ingest__my_type_of(field).form;
        /* Where it comes from, if that is a table of this database. */
        if (*field->org_table && *field->org_name && strcmp(field->db, cursor->session->database) == 0) {
            to->from_table = copy(cursor, field->org_table);
            to->from_name = copy(cursor, field->org_name);
        }
    }
    cursor->base.origin = origin_of;
    return has_memory && !cursor->base.memory.is_short
               ? WEIR_OK
               : weir_ingest__source_no_memory(error, described->count);
}

/* Names of columns are equal in MySQL whatever their case. */
static bool has_repeated_name(const my_cursor *cursor) {
    for (uint32_t i = 1; i < cursor->base.column_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcasecmp(cursor->base.column_names[i], cursor->base.column_names[k]) == 0)
                return true;
    return false;
}

/* What to write instead of a column: its name between two texts. */
static weir_status refuse_column(const my_cursor *cursor, uint32_t number, const char *type,
                                 const char *before, const char *after, weir_error *error) {
    const char *name = cursor->base.column_names[number];
    return WEIR_INGEST__SOURCE_ERROR(
        error, "column %s of %s is a %s, which weir does not read; write %s%s%s instead", name,
        cursor->base.what, type, before, name, after);
}

static weir_status start_query(my_cursor *cursor, const char *query, weir_error *error) {
    weir_ingest__sql sql = {.env = cursor->base.memory.env};
    weir_ingest__my_columns described;
    bool needs_more = false; /* a query around it */
    WEIR__TRY(weir_ingest__my_columns_read(cursor->session, query, &described, error));
    weir_status status = set_query_columns(cursor, &described, error);
    weir_ingest__my_columns_release(cursor->session, &described);
    WEIR__TRY(status);
    for (uint32_t i = 0; i < cursor->base.column_count; i++) {
        bool is_float = cursor->columns[i].form == WEIR_INGEST__MY_AS_FLOAT;
        if (cursor->columns[i].form == WEIR_INGEST__MY_AS_GEOMETRY)
            return refuse_column(cursor, i, "GEOMETRY", "ST_AsText(", ")", error);
        if (is_float && has_repeated_name(cursor))
            return refuse_column(cursor, i, "FLOAT beside columns that share a name", "", " * 1e0", error);
        needs_more = needs_more || is_float;
    }
    /* The line breaks end a comment that the query may end with. */
    size_t size = weir_ingest__sql_trimmed_size(query);
    for (uint32_t i = 0; i < cursor->base.column_count && needs_more; i++)
        add_column(&sql, cursor->base.column_names[i], cursor->columns[i].form, i == 0);
    if (needs_more)
        weir_ingest__sql_add(&sql, " FROM (\n");
    weir_ingest__sql_add_text(&sql, query, size);
    if (needs_more)
        weir_ingest__sql_add(&sql, "\n) AS weir_query");
    status =
        sql.failed ? weir_ingest__source_no_memory(error, strlen(query)) : start(cursor, sql.data, error);
    weir_ingest__sql_release(&sql);
    return status;
}

weir_status weir_ingest__my_query(weir_ingest__source *source, const char *sql, weir_ingest__cursor **out,
                                  weir_error *error) {
    my_cursor *cursor = NULL;
    WEIR__TRY(make_cursor(source, "the query", "", &cursor, error));
    return weir_ingest__cursor_give(&cursor->base, start_query(cursor, sql, error), out, error);
}

weir_status weir_ingest__my_describe_query(weir_ingest__source *source, const char *sql,
                                           weir_ingest__catalog *catalog, weir_ingest__catalog_table *table,
                                           weir_error *error) {
    weir_ingest__my_session *session = (weir_ingest__my_session *)source;
    weir_ingest__my_columns described;
    WEIR__TRY(weir_ingest__my_columns_read(session, sql, &described, error));
    for (uint32_t i = 0; i < described.count; i++)
        weir_ingest__catalog_add_column(catalog, table, described.fields[i].name,
                                        weir_ingest__my_type_of(&described.fields[i]).declared);
    weir_ingest__my_columns_release(session, &described);
    return WEIR_OK;
}
