/* See query_indexes.h. */
#include "ingest/query_indexes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ingest/sql.h"

enum {
    PAIRED_COLUMNS_MAX = 12, /* of one table: with more, indexes of one column only */
    NODES_MAX = 256,         /* of a plan inside correlated subqueries; more are not looked at */
};

typedef struct planner {
    const weir_env *env;
    const weir_ingest__catalog *catalog;
    sqlite3 *connection; /* what the indexes are for */
    sqlite3 *empty;      /* the same tables without rows, with every index that could serve */
    bool *is_read;       /* by the query: a flag per column, table by table */
    bool is_correlated;  /* the query has a correlated subquery */
    weir_error *error;
} planner;

/* An index of one column (`second` is `first`) or of two. */
typedef struct candidate {
    uint32_t table, first, second;
} candidate;

/* The connection's own error code is of whoever used it last: another session may be reading rows. */
static weir_status run(planner *p, sqlite3 *connection, weir_ingest__sql *sql) {
    weir_status status = WEIR_OK;
    int result = sql->failed ? SQLITE_NOMEM : sqlite3_exec(connection, sql->data, NULL, NULL, NULL);
    if (result == SQLITE_NOMEM)
        status = weir_ingest__source_no_memory(p->error, sql->size);
    else if (connection == p->connection && result != SQLITE_OK)
        status = WEIR_INGEST__SOURCE_ERROR(p->error, "%s: SQLite cannot make an index: %s", p->catalog->name,
                                           sqlite3_errstr(result));
    weir_ingest__sql_release(sql);
    return status;
}

static weir_status make_index(planner *p, sqlite3 *connection, candidate of) {
    const weir_ingest__catalog_table *table = &p->catalog->tables[of.table];
    weir_ingest__sql sql = {.env = p->env};
    weir_ingest__sql_add(&sql, "CREATE INDEX IF NOT EXISTS weir_%" PRIu32 "_%" PRIu32 "_%" PRIu32 " ON ",
                         of.table, of.first, of.second);
    weir_ingest__sql_add_identifier(&sql, table->name);
    weir_ingest__sql_add(&sql, " (");
    weir_ingest__sql_add_identifier(&sql, table->columns[of.first].name);
    if (of.second != of.first) {
        weir_ingest__sql_add(&sql, ", ");
        weir_ingest__sql_add_identifier(&sql, table->columns[of.second].name);
    }
    weir_ingest__sql_add(&sql, ")");
    return run(p, connection, &sql);
}

/* ---- Which columns the query reads ----------------------------------------------------------- */

static size_t columns_before(const planner *p, uint32_t table) {
    size_t count = 0;
    for (uint32_t t = 0; t < table; t++)
        count += p->catalog->tables[t].column_count;
    return count;
}

static int note_read(void *context, int action, const char *table, const char *column, const char *place,
                     const char *trigger) {
    planner *p = context;
    (void)place;
    (void)trigger;
    for (uint32_t t = 0; action == SQLITE_READ && table && column && t < p->catalog->table_count; t++) {
        const weir_ingest__catalog_table *of = &p->catalog->tables[t];
        uint32_t c = strcmp(of->name, table) == 0 ? weir_ingest__catalog_find_column(of, column) : UINT32_MAX;
        if (c != UINT32_MAX)
            p->is_read[columns_before(p, t) + c] = true;
    }
    return SQLITE_OK;
}

static weir_status make_candidates(planner *p, uint32_t t) {
    const weir_ingest__catalog_table *table = &p->catalog->tables[t];
    const bool *is_read = p->is_read + columns_before(p, t);
    uint32_t count = 0;
    for (uint32_t c = 0; c < table->column_count; c++)
        count += is_read[c];
    for (uint32_t a = 0; a < table->column_count; a++)
        for (uint32_t b = a; is_read[a] && b < table->column_count; b++)
            if (is_read[b] && (a == b || count <= PAIRED_COLUMNS_MAX))
                WEIR__TRY(make_index(p, p->empty, (candidate){t, a, b}));
    return WEIR_OK;
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* The index of a line such as "SEARCH o USING INDEX weir_2_1_3 (customer_id=? AND at<?)", as far as its
 * columns are searched for equal values: a range would give rows in another order than a scan. */
static bool read_index(const planner *p, const char *line, candidate *out) {
    const char *name = strstr(line, " INDEX weir_");
    const char *terms = name ? strchr(name, '(') : NULL;
    if (!terms ||
        sscanf(name, " INDEX weir_%" SCNu32 "_%" SCNu32 "_%" SCNu32, &out->table, &out->first,
               &out->second) != 3 ||
        out->table >= p->catalog->table_count || out->first >= p->catalog->tables[out->table].column_count ||
        out->second >= p->catalog->tables[out->table].column_count)
        return false;
    const char *first = strstr(terms, "=?");
    if (first && !strstr(first + 1, "=?"))
        out->second = out->first;
    return first != NULL;
}

/* Steps through the plan of a query; calls for each node inside a correlated subquery. */
static weir_status for_correlated(planner *p, sqlite3 *connection, const char *sql,
                                  weir_status (*call)(planner *, const char *line)) {
    int inside[NODES_MAX];
    size_t count = 0;
    sqlite3_stmt *plan = NULL;
    weir_status status = WEIR_OK;
    weir_ingest__sql explain = {.env = p->env};
    weir_ingest__sql_add(&explain, "EXPLAIN QUERY PLAN ");
    weir_ingest__sql_add_text(&explain, sql, strlen(sql));
    if (explain.failed)
        status = weir_ingest__source_no_memory(p->error, explain.size);
    else
        sqlite3_prepare_v2(connection, explain.data, -1, &plan, NULL);
    while (status == WEIR_OK && plan && sqlite3_step(plan) == SQLITE_ROW) {
        const char *line = (const char *)sqlite3_column_text(plan, 3);
        bool is_inside = line && strncmp(line, "CORRELATED", 10) == 0;
        for (size_t i = 0; i < count; i++)
            is_inside |= inside[i] == sqlite3_column_int(plan, 1);
        if (!line || !is_inside || count == NODES_MAX)
            continue;
        inside[count++] = sqlite3_column_int(plan, 0);
        status = call(p, line);
    }
    sqlite3_finalize(plan);
    weir_ingest__sql_release(&explain);
    return status;
}

static weir_status make_if_searched(planner *p, const char *line) {
    candidate found;
    return read_index(p, line, &found) ? make_index(p, p->connection, found) : WEIR_OK;
}

static weir_status note_it(planner *p, const char *line) {
    (void)line;
    p->is_correlated = true;
    return WEIR_OK;
}

/* ---- The database without rows --------------------------------------------------------------- */

static weir_status choose(planner *p, const char *sql) {
    sqlite3_stmt *statement = NULL;
    weir_status status = WEIR_OK;
    sqlite3_prepare_v2(p->connection, "SELECT sql FROM sqlite_master WHERE type = 'table'", -1, &statement,
                       NULL);
    while (status == WEIR_OK && statement && sqlite3_step(statement) == SQLITE_ROW) {
        weir_ingest__sql table = {.env = p->env};
        weir_ingest__sql_add(&table, "%s", (const char *)sqlite3_column_text(statement, 0));
        status = run(p, p->empty, &table);
    }
    sqlite3_finalize(statement);
    WEIR__TRY(status);
    statement = NULL;
    sqlite3_set_authorizer(p->empty, note_read, p);
    sqlite3_prepare_v2(p->empty, sql, -1, &statement, NULL);
    sqlite3_set_authorizer(p->empty, NULL, NULL);
    sqlite3_finalize(statement);
    for (uint32_t t = 0; t < p->catalog->table_count; t++)
        WEIR__TRY(make_candidates(p, t));
    return for_correlated(p, p->empty, sql, make_if_searched);
}

weir_status weir_ingest__query_indexes_make(const weir_env *env, sqlite3 *connection,
                                            const weir_ingest__catalog *catalog, const char *sql,
                                            weir_error *error) {
    planner p = {.env = env, .catalog = catalog, .connection = connection, .error = error};
    WEIR__TRY(for_correlated(&p, connection, sql, note_it));
    if (!p.is_correlated)
        return WEIR_OK;
    size_t columns = columns_before(&p, catalog->table_count);
    p.is_read = weir__allocate_zero(env, columns, sizeof *p.is_read);
    weir_status status = WEIR_OK;
    if (!p.is_read ||
        sqlite3_open_v2(":memory:", &p.empty, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK)
        status = weir_ingest__source_no_memory(error, columns);
    else
        status = choose(&p, sql);
    sqlite3_close_v2(p.empty);
    weir__release(env, p.is_read);
    return status;
}
