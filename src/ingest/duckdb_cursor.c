/* Scans and queries of DuckDB: streamed results, chunk by chunk. A chunk is a batch; text and bytes borrow
 * its vectors. Columns of types that have no value of their own here (uuid, enum, list, struct, interval,
 * time, …) are cast to text by DuckDB: the statement is then run again as a subquery.
 *
 * What must hold: a time that int64 microseconds cannot hold is refused; finer units round down. */
#include <stdio.h>
#include <string.h>

#include "ingest/duckdb_api.h"
#include "ingest/spans.h"
#include "ingest/sql.h"

typedef struct duck_column {
    int type;
    int stored_as; /* of a decimal: the type of its integer */
    uint32_t scale;
} duck_column;

typedef struct duck_cursor {
    weir_ingest__cursor base;
    weir_ingest__duck_session *session;
    weir_ingest__duck_statement statement;
    weir_ingest__duck_result result;
    bool has_result;
    uint32_t column_count; /* of the statement */
    duck_column *columns;
    weir_ingest__duck_chunk chunk;
    weir_ingest__value *cells;
    size_t cell_capacity;
} duck_cursor;

/* ---- Types ----------------------------------------------------------------------------------- */

/* What a column of a type is declared as, and how its values lie. Of a time, so many microseconds are one; 0:
 * nanoseconds. All types that are not here are text. */
typedef struct known_type {
    weir_ingest__declared declared;
    uint32_t width;
    weir_ingest__number number;
    int64_t micros;
} known_type;

#define SIGNED   WEIR_INGEST__NUMBER_SIGNED
#define UNSIGNED WEIR_INGEST__NUMBER_UNSIGNED
#define FLOAT    WEIR_INGEST__NUMBER_FLOAT
#define DECIMAL  WEIR_INGEST__NUMBER_DECIMAL

static const known_type known[] = {
    [WEIR_INGEST__DUCK_BOOLEAN] = {WEIR_INGEST__DECLARED_BOOLEAN, 1, UNSIGNED, 0},
    [WEIR_INGEST__DUCK_TINYINT] = {WEIR_INGEST__DECLARED_INTEGER, 1, SIGNED, 0},
    [WEIR_INGEST__DUCK_SMALLINT] = {WEIR_INGEST__DECLARED_INTEGER, 2, SIGNED, 0},
    [WEIR_INGEST__DUCK_INTEGER] = {WEIR_INGEST__DECLARED_INTEGER, 4, SIGNED, 0},
    [WEIR_INGEST__DUCK_BIGINT] = {WEIR_INGEST__DECLARED_INTEGER, 8, SIGNED, 0},
    [WEIR_INGEST__DUCK_UTINYINT] = {WEIR_INGEST__DECLARED_INTEGER, 1, UNSIGNED, 0},
    [WEIR_INGEST__DUCK_USMALLINT] = {WEIR_INGEST__DECLARED_INTEGER, 2, UNSIGNED, 0},
    [WEIR_INGEST__DUCK_UINTEGER] = {WEIR_INGEST__DECLARED_INTEGER, 4, UNSIGNED, 0},
    [WEIR_INGEST__DUCK_UBIGINT] = {WEIR_INGEST__DECLARED_INTEGER, 8, UNSIGNED, 0},
    [WEIR_INGEST__DUCK_FLOAT] = {WEIR_INGEST__DECLARED_REAL, 4, FLOAT, 0},
    [WEIR_INGEST__DUCK_DOUBLE] = {WEIR_INGEST__DECLARED_REAL, 8, FLOAT, 0},
    [WEIR_INGEST__DUCK_TIMESTAMP] = {WEIR_INGEST__DECLARED_TIME, 8, SIGNED, 1},
    [WEIR_INGEST__DUCK_DATE] = {WEIR_INGEST__DECLARED_TIME, 4, SIGNED, 86400000000},
    [WEIR_INGEST__DUCK_HUGEINT] = {WEIR_INGEST__DECLARED_NUMERIC, 16, DECIMAL, 0},
    [WEIR_INGEST__DUCK_BLOB] = {WEIR_INGEST__DECLARED_BLOB, 0, SIGNED, 0},
    [WEIR_INGEST__DUCK_DECIMAL] = {WEIR_INGEST__DECLARED_NUMERIC, 0, DECIMAL, 0}, /* of any width */
    [WEIR_INGEST__DUCK_TIMESTAMP_S] = {WEIR_INGEST__DECLARED_TIME, 8, SIGNED, 1000000},
    [WEIR_INGEST__DUCK_TIMESTAMP_MS] = {WEIR_INGEST__DECLARED_TIME, 8, SIGNED, 1000},
    [WEIR_INGEST__DUCK_TIMESTAMP_NS] = {WEIR_INGEST__DECLARED_TIME, 8, SIGNED, 0},
    [WEIR_INGEST__DUCK_ENUM] = {WEIR_INGEST__DECLARED_ENUM, 0, SIGNED, 0},
    [WEIR_INGEST__DUCK_TIMESTAMP_TZ] = {WEIR_INGEST__DECLARED_TIME, 8, SIGNED, 1},
    [WEIR_INGEST__DUCK_UHUGEINT] = {WEIR_INGEST__DECLARED_NUMERIC, 16, UNSIGNED, 0},
};

static known_type type_of(int type) {
    static const known_type text = {WEIR_INGEST__DECLARED_TEXT, 0, SIGNED, 0};
    bool is_known = type >= 0 && (size_t)type < sizeof known / sizeof *known &&
                    known[type].declared != WEIR_INGEST__DECLARED_NOTHING;
    return is_known ? known[type] : text;
}

weir_ingest__declared weir_ingest__duck_declared(int type) {
    return type_of(type).declared;
}

static bool needs_cast(int type) {
    weir_ingest__declared declared = weir_ingest__duck_declared(type);
    return (declared == WEIR_INGEST__DECLARED_TEXT && type != WEIR_INGEST__DUCK_VARCHAR) ||
           declared == WEIR_INGEST__DECLARED_ENUM;
}

/* ---- Vectors to cells ------------------------------------------------------------------------ */

static void read_strings(const weir_ingest__span *s, weir_ingest__value_type type) {
    const weir_ingest__duck_string *strings = (const void *)s->values;
    WEIR_INGEST__FOR_EACH_VALUE(
        s, ({
            const weir_ingest__duck_string *string = &strings[row];
            bool is_inlined = string->size <= WEIR_INGEST__DUCK_INLINE_MAX;
            const char *bytes =
                is_inlined ? (const char *)string + offsetof(weir_ingest__duck_string, prefix) : string->data;
            *out = (weir_ingest__value){.type = type, .text = {.data = bytes, .size = string->size}};
        }))
}

/* NULL, or what is wrong with the first time that is. */
static const char *read_times(const weir_ingest__span *s, const known_type *type) {
    int64_t most = type->width == sizeof(int32_t) ? INT32_MAX : INT64_MAX;
    const char *fault = NULL;
    WEIR_INGEST__FOR_EACH_VALUE(
        s, ({
            int64_t value = type->width == sizeof(int32_t) ? WEIR_INGEST__LOAD(int32_t, values, row)
                                                           : WEIR_INGEST__LOAD(int64_t, values, row);
            *out = (weir_ingest__value){.type = WEIR_INGEST__TIMESTAMP};
            if ((value == most || value == -most) && !fault)
                fault = "is an infinite time, which has no microseconds";
            if (type->micros == 0)
                out->integer = value / 1000 - (value % 1000 < 0);
            else if (__builtin_mul_overflow(value, type->micros, &out->integer) && !fault)
                fault = "is a time beyond what int64 microseconds hold";
        }))
    return fault;
}

/* NULL, or what is wrong with a value. */
static const char *read_column(const duck_column *column, const weir_ingest__span *s) {
    known_type type = type_of(column->type);
    switch (type.declared) {
    case WEIR_INGEST__DECLARED_BOOLEAN:
        WEIR_INGEST__FOR_EACH_VALUE(
            s, (*out = (weir_ingest__value){.type = WEIR_INGEST__BOOL, .integer = values[row] != 0}))
        return NULL;
    case WEIR_INGEST__DECLARED_INTEGER:
    case WEIR_INGEST__DECLARED_REAL:
        weir_ingest__span_numbers(s, type.number, type.width, 0);
        return NULL;
    case WEIR_INGEST__DECLARED_NUMERIC:
        weir_ingest__span_numbers(s, type.number,
                                  column->type == WEIR_INGEST__DUCK_DECIMAL ? type_of(column->stored_as).width
                                                                            : type.width,
                                  WEIR__NARROW(int32_t, column->scale));
        return NULL;
    case WEIR_INGEST__DECLARED_TIME:
        return read_times(s, &type);
    case WEIR_INGEST__DECLARED_BLOB:
        read_strings(s, WEIR_INGEST__BLOB);
        return NULL;
    default:
        read_strings(s, WEIR_INGEST__TEXT);
        return NULL;
    }
}

/* ---- The cursor ------------------------------------------------------------------------------ */

static void release_chunk(duck_cursor *cursor) {
    if (cursor->chunk)
        cursor->session->api.destroy_data_chunk(&cursor->chunk);
    cursor->chunk = NULL;
}

static void end_statement(duck_cursor *cursor) {
    const weir_ingest__duck_api *api = &cursor->session->api;
    release_chunk(cursor);
    if (cursor->has_result)
        api->destroy_result(&cursor->result);
    if (cursor->statement)
        api->destroy_prepare(&cursor->statement);
    cursor->has_result = false;
    cursor->statement = NULL;
}

static void close_cursor(weir_ingest__cursor *base) {
    duck_cursor *cursor = (duck_cursor *)base;
    end_statement(cursor);
    weir__release(base->memory.env, cursor->cells);
    weir_ingest__cursor_free(base);
}

static weir_status fail(const duck_cursor *cursor, const char *message, weir_error *error) {
    return weir_ingest__duck_fail(error, cursor->base.failure, message);
}

static bool is_interrupted(const weir_ingest__duck_session *session) {
    return atomic_load_explicit(&session->base.is_interrupted, memory_order_relaxed);
}

/* The thread that fails interrupts the others, and under load one of theirs may be the error that is given.
 */
static bool hides_the_reason(const duck_cursor *cursor, const char *message) {
    static const char interrupt[] = "INTERRUPT Error";
    return message && strncmp(message, interrupt, strlen(interrupt)) == 0 && !is_interrupted(cursor->session);
}

/* Why the statement failed: the first error, which is not always the one that DuckDB gives: the statement
 * is run again for it. An error that was found early comes wrapped in one that says so. */
static weir_status fail_execution(duck_cursor *cursor, weir_error *error) {
    static const char wrapped[] = "\nError: ";
    enum { ATTEMPTS = 3 };
    const weir_ingest__duck_api *api = &cursor->session->api;
    const char *message = api->result_error(&cursor->result);
    for (int i = 0; i < ATTEMPTS && hides_the_reason(cursor, message); i++) {
        weir_ingest__duck_result again = {0};
        bool is_done = api->execute_prepared(cursor->statement, &again) == 0;
        if (is_done) { /* it does not fail any more: what there is to say is what was said */
            api->destroy_result(&again);
            break;
        }
        api->destroy_result(&cursor->result);
        cursor->result = again;
        message = api->result_error(&cursor->result);
    }
    const char *inner = message ? strstr(message, wrapped) : NULL;
    return fail(cursor, inner ? inner + strlen(wrapped) : message, error);
}

static weir_status next_chunk(weir_ingest__cursor *base, weir_ingest__rows *rows, weir_error *error) {
    duck_cursor *cursor = (duck_cursor *)base;
    const weir_ingest__duck_api *api = &cursor->session->api;
    uint32_t columns = cursor->column_count;
    size_t row_count = 0;
    *rows = (weir_ingest__rows){.cells = cursor->cells};
    do {
        release_chunk(cursor);
        cursor->chunk = api->fetch_chunk(cursor->result);
        if (!cursor->chunk)
            return api->result_error(&cursor->result) ? fail_execution(cursor, error) : WEIR_OK;
        row_count = api->data_chunk_get_size(cursor->chunk);
    } while (row_count == 0);
    if (!weir__grow(base->memory.env, (void **)&cursor->cells, &cursor->cell_capacity, row_count * columns,
                    sizeof *cursor->cells))
        return weir_ingest__source_no_memory(error, row_count * sizeof *cursor->cells);
    *rows = (weir_ingest__rows){.row_count = row_count, .cells = cursor->cells};
    for (uint32_t i = 0; i < columns; i++) {
        weir_ingest__duck_vector vector = api->data_chunk_get_vector(cursor->chunk, i);
        weir_ingest__span span = {.values = api->vector_get_data(vector),
                                  .validity = (const void *)api->vector_get_validity(vector),
                                  .is_in_words = true,
                                  .count = row_count,
                                  .cells = cursor->cells + i,
                                  .stride = columns};
        const char *fault = read_column(&cursor->columns[i], &span);
        if (fault)
            return weir_ingest__cursor_refuse(base, i, fault, error);
    }
    return WEIR_OK;
}

/* ---- Starting -------------------------------------------------------------------------------- */

static weir_status run(duck_cursor *cursor, const char *statement, bool is_query, weir_error *error) {
    const weir_ingest__duck_api *api = &cursor->session->api;
    if (api->prepare(cursor->session->connection, statement, &cursor->statement) != 0)
        return fail(cursor, api->prepare_error(cursor->statement), error);
    if (is_query && api->prepared_statement_type(cursor->statement) != WEIR_INGEST__DUCK_SELECT_STATEMENT)
        return fail(cursor, "only a SELECT is run", error);
    if (is_interrupted(cursor->session))
        return fail(cursor, "it was interrupted", error);
    bool is_running = api->execute_prepared_streaming(cursor->statement, &cursor->result) == 0;
    cursor->has_result = true;
    return is_running ? WEIR_OK : fail_execution(cursor, error);
}

static void describe_columns(duck_cursor *cursor, bool *some_need_casts) {
    const weir_ingest__duck_api *api = &cursor->session->api;
    weir__arena *memory = &cursor->base.memory;
    uint32_t count = WEIR__NARROW(uint32_t, api->column_count(&cursor->result));
    cursor->columns = weir__arena_take_zero(memory, count, sizeof *cursor->columns);
    cursor->base.column_names = weir__arena_take_zero(memory, count, sizeof *cursor->base.column_names);
    cursor->base.column_count = cursor->column_count = memory->is_short ? 0 : count;
    for (uint32_t i = 0; i < cursor->column_count; i++) {
        duck_column *column = &cursor->columns[i];
        const char *name = api->column_name(&cursor->result, i);
        cursor->base.column_names[i] = weir__arena_text(memory, name ? name : "", name ? strlen(name) : 0);
        column->type = api->column_type(&cursor->result, i);
        *some_need_casts = *some_need_casts || needs_cast(column->type);
        if (column->type == WEIR_INGEST__DUCK_DECIMAL) {
            weir_ingest__duck_logical_type type = api->column_logical_type(&cursor->result, i);
            column->scale = api->decimal_scale(type);
            column->stored_as = api->decimal_internal_type(type);
            api->destroy_logical_type(&type);
        }
    }
}

/* Runs the statement again as a subquery, with casts to text where types need them. */
static weir_status run_with_casts(duck_cursor *cursor, const char *statement, weir_error *error) {
    weir_ingest__sql sql = {.env = cursor->session->base.env};
    weir_ingest__sql_add(&sql, "SELECT ");
    for (uint32_t i = 0; i < cursor->column_count; i++) {
        bool is_cast = needs_cast(cursor->columns[i].type);
        weir_ingest__sql_add(&sql, is_cast ? "%sCAST(c%u AS VARCHAR)" : "%sc%u", i > 0 ? ", " : "", i);
        if (is_cast)
            cursor->columns[i].type = WEIR_INGEST__DUCK_VARCHAR;
    }
    weir_ingest__sql_add(&sql, " FROM (\n");
    weir_ingest__sql_add_text(&sql, statement, weir_ingest__sql_trimmed_size(statement));
    weir_ingest__sql_add(&sql, "\n) AS weir_query (");
    for (uint32_t i = 0; i < cursor->column_count; i++)
        weir_ingest__sql_add(&sql, "%sc%u", i > 0 ? ", " : "", i);
    weir_ingest__sql_add(&sql, ")");
    end_statement(cursor);
    weir_status status =
        sql.failed ? weir_ingest__source_no_memory(error, sql.size) : run(cursor, sql.data, false, error);
    weir_ingest__sql_release(&sql);
    return status;
}

weir_status weir_ingest__duck_start(weir_ingest__duck_session *session, const char *statement, bool is_query,
                                    const char *kind, const char *name, weir_ingest__cursor **out,
                                    weir_error *error) {
    duck_cursor *cursor = weir_ingest__server_cursor_make(session->base.env, sizeof *cursor, kind, name,
                                                          next_chunk, close_cursor);
    if (!cursor)
        return weir_ingest__source_no_memory(error, sizeof *cursor);
    cursor->session = session;
    bool some_need_casts = false;
    weir_status status = run(cursor, statement, is_query, error);
    if (!status)
        describe_columns(cursor, &some_need_casts);
    if (!status && some_need_casts)
        status = run_with_casts(cursor, statement, error);
    return weir_ingest__cursor_give(&cursor->base, status, out, error);
}
