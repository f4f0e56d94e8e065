/* Scans and queries of DuckDB: streamed results, chunk by chunk. A chunk is a batch; text and bytes borrow
 * its vectors. Columns of types that have no value of their own here (uuid, enum, list, struct, interval,
 * time, …) are cast to text by DuckDB: the statement is then run again as a subquery.
 *
 * What must hold: a time that int64 microseconds cannot hold is refused; finer units round down. */
#include <stdio.h>
#include <string.h>

#include "ingest/decimal.h"
#include "ingest/duckdb_api.h"
#include "ingest/sql.h"

typedef struct duck_column {
    char *name;
    int type;
    int internal_type; /* of a decimal */
    uint32_t scale;
} duck_column;

typedef struct duck_cursor {
    weir_ingest__cursor base;
    weir_ingest__duck_session *session;
    char *what;
    weir_ingest__duck_statement statement;
    weir_ingest__duck_result result;
    bool has_result;
    uint32_t column_count; /* of the statement */
    duck_column *columns;
    const char **names;
    weir_ingest__duck_chunk chunk;
    weir_ingest__value *cells;
    size_t cell_capacity;
} duck_cursor;

/* ---- Types ----------------------------------------------------------------------------------- */

weir_ingest__declared weir_ingest__duck_declared(int type) {
    switch (type) {
    case WEIR_INGEST__DUCK_BOOLEAN:
        return WEIR_INGEST__DECLARED_BOOLEAN;
    case WEIR_INGEST__DUCK_TINYINT:
    case WEIR_INGEST__DUCK_SMALLINT:
    case WEIR_INGEST__DUCK_INTEGER:
    case WEIR_INGEST__DUCK_BIGINT:
    case WEIR_INGEST__DUCK_UTINYINT:
    case WEIR_INGEST__DUCK_USMALLINT:
    case WEIR_INGEST__DUCK_UINTEGER:
    case WEIR_INGEST__DUCK_UBIGINT:
        return WEIR_INGEST__DECLARED_INTEGER;
    case WEIR_INGEST__DUCK_FLOAT:
    case WEIR_INGEST__DUCK_DOUBLE:
        return WEIR_INGEST__DECLARED_REAL;
    case WEIR_INGEST__DUCK_DECIMAL:
    case WEIR_INGEST__DUCK_HUGEINT:
    case WEIR_INGEST__DUCK_UHUGEINT:
        return WEIR_INGEST__DECLARED_NUMERIC;
    case WEIR_INGEST__DUCK_DATE:
    case WEIR_INGEST__DUCK_TIMESTAMP:
    case WEIR_INGEST__DUCK_TIMESTAMP_S:
    case WEIR_INGEST__DUCK_TIMESTAMP_MS:
    case WEIR_INGEST__DUCK_TIMESTAMP_NS:
    case WEIR_INGEST__DUCK_TIMESTAMP_TZ:
        return WEIR_INGEST__DECLARED_TIME;
    case WEIR_INGEST__DUCK_BLOB:
        return WEIR_INGEST__DECLARED_BLOB;
    case WEIR_INGEST__DUCK_ENUM:
        return WEIR_INGEST__DECLARED_ENUM;
    default:
        return WEIR_INGEST__DECLARED_TEXT;
    }
}

static bool needs_cast(int type) {
    weir_ingest__declared declared = weir_ingest__duck_declared(type);
    return (declared == WEIR_INGEST__DECLARED_TEXT && type != WEIR_INGEST__DUCK_VARCHAR) ||
           declared == WEIR_INGEST__DECLARED_ENUM;
}

/* ---- Vectors to cells ------------------------------------------------------------------------ */

/* One column of a chunk on its way into the cells, which lie row by row. */
typedef struct column_target {
    const uint64_t *validity; /* a bit a row; NULL: all are valid */
    size_t row_count;
    weir_ingest__value *cells; /* of row 0 */
    size_t stride;
} column_target;

static bool is_null(const column_target *to, size_t row) {
    return to->validity && !(to->validity[row / 64] >> (row % 64) & 1);
}

/* Runs `statement` for each row that is not null, with `out` its cell; the others become null. */
#define FOR_EACH_VALUE(to, statement)                                                                        \
    for (size_t row = 0; row < (to)->row_count; row++) {                                                     \
        weir_ingest__value *out = &(to)->cells[row * (to)->stride];                                          \
        if (is_null(to, row))                                                                                \
            *out = (weir_ingest__value){.type = WEIR_INGEST__NULL};                                          \
        else                                                                                                 \
            statement;                                                                                       \
    }

#define DEFINE_INTEGERS(name, type_name)                                                                     \
    static void name(const column_target *to, const type_name *data) {                                       \
        FOR_EACH_VALUE(to, (*out = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = data[row]}))    \
    }
DEFINE_INTEGERS(read_int8, int8_t)
DEFINE_INTEGERS(read_int16, int16_t)
DEFINE_INTEGERS(read_int32, int32_t)
DEFINE_INTEGERS(read_int64, int64_t)
DEFINE_INTEGERS(read_uint8, uint8_t)
DEFINE_INTEGERS(read_uint16, uint16_t)
DEFINE_INTEGERS(read_uint32, uint32_t)

static void read_integers(const column_target *to, int type, const void *data) {
    switch (type) {
    case WEIR_INGEST__DUCK_TINYINT:
        read_int8(to, data);
        break;
    case WEIR_INGEST__DUCK_SMALLINT:
        read_int16(to, data);
        break;
    case WEIR_INGEST__DUCK_INTEGER:
        read_int32(to, data);
        break;
    case WEIR_INGEST__DUCK_BIGINT:
        read_int64(to, data);
        break;
    case WEIR_INGEST__DUCK_UTINYINT:
        read_uint8(to, data);
        break;
    case WEIR_INGEST__DUCK_USMALLINT:
        read_uint16(to, data);
        break;
    case WEIR_INGEST__DUCK_UINTEGER:
        read_uint32(to, data);
        break;
    default:
        FOR_EACH_VALUE(to, weir_ingest__unsigned_value(((const uint64_t *)data)[row], out))
    }
}

static __int128 load_huge(const void *data, size_t row) {
    uint64_t words[2]; /* the lower half first, on every machine */
    memcpy(words, (const char *)data + row * sizeof words, sizeof words);
    return (__int128)((unsigned __int128)words[1] << 64 | words[0]);
}

static void read_decimals(const column_target *to, const duck_column *column, const void *data) {
    uint32_t scale = column->scale;
    switch (column->internal_type) {
    case WEIR_INGEST__DUCK_SMALLINT:
        FOR_EACH_VALUE(to, weir_ingest__scaled_value(((const int16_t *)data)[row], scale, out))
        break;
    case WEIR_INGEST__DUCK_INTEGER:
        FOR_EACH_VALUE(to, weir_ingest__scaled_value(((const int32_t *)data)[row], scale, out))
        break;
    case WEIR_INGEST__DUCK_BIGINT:
        FOR_EACH_VALUE(to, weir_ingest__scaled_value(((const int64_t *)data)[row], scale, out))
        break;
    default:
        FOR_EACH_VALUE(to, weir_ingest__scaled_value(load_huge(data, row), scale, out))
    }
}

static void read_reals(const column_target *to, int type, const void *data) {
    if (type == WEIR_INGEST__DUCK_FLOAT)
        FOR_EACH_VALUE(to, (*out = (weir_ingest__value){.type = WEIR_INGEST__REAL,
                                                        .real = (double)((const float *)data)[row]}))
    else
        FOR_EACH_VALUE(
            to, (*out = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = ((const double *)data)[row]}))
}

static void read_booleans(const column_target *to, const uint8_t *data) {
    FOR_EACH_VALUE(to, (*out = (weir_ingest__value){.type = WEIR_INGEST__BOOL, .integer = data[row] != 0}))
}

static void read_strings(const column_target *to, weir_ingest__value_type type,
                         const weir_ingest__duck_string *data) {
    FOR_EACH_VALUE(to, ({
                       const weir_ingest__duck_string *s = &data[row];
                       bool is_inlined = s->size <= WEIR_INGEST__DUCK_INLINE_MAX;
                       const char *bytes = is_inlined
                                               ? (const char *)s + offsetof(weir_ingest__duck_string, prefix)
                                               : s->data;
                       *out = (weir_ingest__value){.type = type, .text = {.data = bytes, .size = s->size}};
                   }))
}

/* Microseconds of a time in its type's own unit; NULL or what is wrong. */
static const char *to_micros(int type, int64_t value, int64_t *out) {
    static const char far_time[] = "is a time beyond what int64 microseconds hold";
    bool is_infinite = type == WEIR_INGEST__DUCK_DATE ? value == INT32_MAX || value == -INT32_MAX
                                                      : value == INT64_MAX || value == -INT64_MAX;
    if (is_infinite)
        return "is an infinite time, which has no microseconds";
    if (type == WEIR_INGEST__DUCK_TIMESTAMP_NS) {
        *out = value / 1000 - (value % 1000 < 0);
        return NULL;
    }
    int64_t unit = type == WEIR_INGEST__DUCK_DATE           ? 86400000000
                   : type == WEIR_INGEST__DUCK_TIMESTAMP_S  ? 1000000
                   : type == WEIR_INGEST__DUCK_TIMESTAMP_MS ? 1000
                                                            : 1;
    return __builtin_mul_overflow(value, unit, out) ? far_time : NULL;
}

static const char *read_times(const column_target *to, int type, const void *data) {
    const char *fault = NULL;
    FOR_EACH_VALUE(to, ({
                       int64_t value = type == WEIR_INGEST__DUCK_DATE ? ((const int32_t *)data)[row]
                                                                      : ((const int64_t *)data)[row];
                       *out = (weir_ingest__value){.type = WEIR_INGEST__TIMESTAMP};
                       const char *found = to_micros(type, value, &out->integer);
                       fault = fault ? fault : found;
                   }))
    return fault;
}

/* NULL, or what is wrong with a value. */
static const char *read_column(const duck_column *column, const column_target *to, const void *data) {
    switch (weir_ingest__duck_declared(column->type)) {
    case WEIR_INGEST__DECLARED_BOOLEAN:
        read_booleans(to, data);
        return NULL;
    case WEIR_INGEST__DECLARED_INTEGER:
        read_integers(to, column->type, data);
        return NULL;
    case WEIR_INGEST__DECLARED_REAL:
        read_reals(to, column->type, data);
        return NULL;
    case WEIR_INGEST__DECLARED_TIME:
        return read_times(to, column->type, data);
    case WEIR_INGEST__DECLARED_BLOB:
        read_strings(to, WEIR_INGEST__BLOB, data);
        return NULL;
    case WEIR_INGEST__DECLARED_NUMERIC:
        if (column->type == WEIR_INGEST__DUCK_DECIMAL)
            read_decimals(to, column, data);
        else if (column->type == WEIR_INGEST__DUCK_HUGEINT)
            FOR_EACH_VALUE(to, weir_ingest__scaled_value(load_huge(data, row), 0, out))
        else
            FOR_EACH_VALUE(to, weir_ingest__unsigned_value((unsigned __int128)load_huge(data, row), out))
        return NULL;
    default:
        read_strings(to, WEIR_INGEST__TEXT, data);
        return NULL;
    }
}

/* ---- The cursor ------------------------------------------------------------------------------ */

static void release_chunk(duck_cursor *cursor) {
    if (cursor->chunk)
        cursor->session->api.destroy_data_chunk(&cursor->chunk);
    cursor->chunk = NULL;
}

static void release_columns(duck_cursor *cursor) {
    const weir_env *env = cursor->session->base.env;
    for (uint32_t i = 0; cursor->columns && i < cursor->column_count; i++)
        weir__release(env, cursor->columns[i].name);
    weir__release(env, cursor->columns);
    weir__release(env, cursor->names);
    cursor->columns = NULL;
    cursor->names = NULL;
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
    if (!cursor)
        return;
    const weir_env *env = cursor->session->base.env;
    end_statement(cursor);
    release_columns(cursor);
    weir__release(env, cursor->cells);
    weir__release(env, cursor->what);
    weir__release(env, cursor);
}

static weir_status fail(const duck_cursor *cursor, const char *message, weir_error *error) {
    char what[256];
    snprintf(what, sizeof what, "cannot read %s", cursor->what);
    return weir_ingest__duck_fail(error, what, message);
}

static bool is_interrupted(const weir_ingest__duck_session *session) {
    return atomic_load_explicit(&session->is_interrupted, memory_order_relaxed);
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

static weir_status read_chunk(duck_cursor *cursor, size_t row_count, weir_error *error) {
    const weir_ingest__duck_api *api = &cursor->session->api;
    uint32_t columns = cursor->column_count;
    for (uint32_t i = 0; i < columns; i++) {
        weir_ingest__duck_vector vector = api->data_chunk_get_vector(cursor->chunk, i);
        column_target to = {.validity = api->vector_get_validity(vector),
                            .row_count = row_count,
                            .cells = cursor->cells + i,
                            .stride = columns};
        const char *fault = read_column(&cursor->columns[i], &to, api->vector_get_data(vector));
        if (fault)
            return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__SOURCE_OPERATOR,
                              "a value of column %s of %s %s; leave it out of the schema or change it in the "
                              "database",
                              cursor->columns[i].name, cursor->what, fault);
    }
    return WEIR_OK;
}

static weir_status next_chunk(weir_ingest__cursor *base, weir_ingest__rows *rows, weir_error *error) {
    duck_cursor *cursor = (duck_cursor *)base;
    const weir_ingest__duck_api *api = &cursor->session->api;
    size_t row_count = 0;
    *rows = (weir_ingest__rows){.cells = cursor->cells};
    do {
        release_chunk(cursor);
        cursor->chunk = api->fetch_chunk(cursor->result);
        if (!cursor->chunk)
            return api->result_error(&cursor->result) ? fail_execution(cursor, error) : WEIR_OK;
        row_count = api->data_chunk_get_size(cursor->chunk);
    } while (row_count == 0);
    if (!weir__grow(cursor->session->base.env, (void **)&cursor->cells, &cursor->cell_capacity,
                    row_count * cursor->column_count, sizeof *cursor->cells))
        return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, row_count * sizeof *cursor->cells);
    *rows = (weir_ingest__rows){.row_count = row_count, .cells = cursor->cells};
    return read_chunk(cursor, row_count, error);
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

static bool describe_column(duck_cursor *cursor, uint32_t number) {
    const weir_ingest__duck_api *api = &cursor->session->api;
    duck_column *column = &cursor->columns[number];
    const char *name = api->column_name(&cursor->result, number);
    column->type = api->column_type(&cursor->result, number);
    column->name = name ? weir__copy_text(cursor->session->base.env, name, strlen(name)) : NULL;
    if (column->type == WEIR_INGEST__DUCK_DECIMAL) {
        weir_ingest__duck_logical_type type = api->column_logical_type(&cursor->result, number);
        column->scale = api->decimal_scale(type);
        column->internal_type = api->decimal_internal_type(type);
        api->destroy_logical_type(&type);
    }
    return column->name != NULL;
}

static weir_status describe_columns(duck_cursor *cursor, weir_error *error) {
    const weir_env *env = cursor->session->base.env;
    uint32_t count = WEIR__NARROW(uint32_t, cursor->session->api.column_count(&cursor->result));
    cursor->columns = weir__allocate_zero(env, count, sizeof *cursor->columns);
    cursor->names = weir__allocate_zero(env, count, sizeof *cursor->names);
    cursor->column_count = cursor->columns ? count : 0;
    if (!cursor->columns || !cursor->names)
        return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, count);
    for (uint32_t i = 0; i < count; i++) {
        if (!describe_column(cursor, i))
            return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, count);
        cursor->names[i] = cursor->columns[i].name;
    }
    cursor->base.column_names = cursor->names;
    cursor->base.column_count = count;
    return WEIR_OK;
}

static bool some_column_needs_cast(const duck_cursor *cursor) {
    for (uint32_t i = 0; i < cursor->column_count; i++)
        if (needs_cast(cursor->columns[i].type))
            return true;
    return false;
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
    weir_status status = sql.failed ? weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, sql.size)
                                    : run(cursor, sql.data, false, error);
    weir_ingest__sql_release(&sql);
    return status;
}

weir_status weir_ingest__duck_start(weir_ingest__duck_session *session, const char *statement, bool is_query,
                                    const char *what, weir_ingest__cursor **out, weir_error *error) {
    duck_cursor *cursor = weir__allocate_zero(session->base.env, 1, sizeof *cursor);
    if (!cursor)
        return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, sizeof *cursor);
    cursor->session = session;
    cursor->base = (weir_ingest__cursor){.next = next_chunk, .close = close_cursor};
    cursor->what = weir__copy_text(session->base.env, what, strlen(what));
    weir_status status = cursor->what
                             ? run(cursor, statement, is_query, error)
                             : weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, strlen(what));
    if (!status)
        status = describe_columns(cursor, error);
    if (!status && some_column_needs_cast(cursor))
        status = run_with_casts(cursor, statement, error);
    if (status) {
        close_cursor(&cursor->base);
        return status;
    }
    *out = &cursor->base;
    return WEIR_OK;
}
