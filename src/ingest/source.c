/* The list of sources, and how their tables, views and queries are read. The catalog is in catalog.c. */
#include <fcntl.h>
#include <string.h>

#include "ingest/source.h"

static const weir_ingest__source_kind *const kinds[] = {
    &weir_ingest__source_postgres, &weir_ingest__source_mysql,  &weir_ingest__source_runs,
    &weir_ingest__source_csv,      &weir_ingest__source_duckdb, &weir_ingest__source_sqlite,
};

/* Reading the beginning of a pipe or a device would wait for ever, or take what cannot be given back. */
static bool is_stream(const weir_env *env, const char *location) {
    weir_file_info info;
    int file = env->open(env->context, location, O_RDONLY | O_NONBLOCK, 0);
    if (file < 0)
        return false;
    bool is_other = env->inspect(env->context, file, location, &info) == 0 && info.kind == WEIR_FILE_OTHER;
    env->close(env->context, file);
    return is_other;
}

weir_status weir_ingest__source_open(const weir_env *env, const weir_ingest__source_options *options,
                                     weir_ingest__source **out, weir_error *error) {
    *out = NULL;
    env = weir__env_or_default(env);
    if (options->arrow_table_count > 0)
        return weir_ingest__source_arrow.open(env, options, out, error);
    if (is_stream(env, options->location))
        return WEIR_INGEST__SOURCE_ERROR(
            error, "%s is a device or a pipe, not a database; give the path of a file", options->location);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i]->accepts(env, options->location))
            continue;
        weir_status status = kinds[i]->open(env, options, out, error);
        if (status == WEIR_OK)
            (*out)->silence_ns = WEIR_INGEST__SOURCE_SILENCE_NS;
        return status;
    }
    return weir_ingest__refuse_location(env, options->location, error);
}

void weir_ingest__source_close(weir_ingest__source *source) {
    if (source)
        source->kind->close(source);
}

weir_status weir_ingest__source_describe(weir_ingest__source *source, weir_ingest__catalog *out,
                                         weir_error *error) {
    *out = (weir_ingest__catalog){.memory = {.env = source->env}};
    weir_status status = source->kind->describe(source, out, error);
    if (status == WEIR_OK && out->memory.is_short)
        status = weir_ingest__source_no_memory(error, 0);
    if (status != WEIR_OK)
        weir_ingest__catalog_release(out);
    return status;
}

/* ---- What sources share ------------------------------------------------------------------------ */

weir_status weir_ingest__source_give(weir_ingest__source *session, weir_status status,
                                     weir_ingest__source **out) {
    if (status != WEIR_OK)
        session->kind->close(session);
    else
        *out = session;
    return status;
}

void *weir_ingest__cursor_make(const weir_env *env, size_t size, const uint32_t *columns,
                               uint32_t column_count, weir_ingest__next_method *next,
                               weir_ingest__close_method *close) {
    weir__arena memory;
    weir__arena_init(&memory, env);
    weir_ingest__cursor *cursor = weir__arena_take_zero(&memory, 1, size);
    uint32_t *copy = weir__arena_take_zero(&memory, column_count, sizeof *copy);
    if (memory.is_short) {
        weir__arena_release(&memory);
        return NULL;
    }
    for (uint32_t i = 0; i < column_count; i++)
        copy[i] = columns ? columns[i] : i;
    *cursor = (weir_ingest__cursor){
        .memory = memory, .column_count = column_count, .columns = copy, .next = next, .close = close};
    return cursor;
}

void *weir_ingest__server_cursor_make(const weir_env *env, size_t size, const char *kind, const char *name,
                                      weir_ingest__next_method *next, weir_ingest__close_method *close) {
    static const char verb[] = "cannot read ";
    weir_ingest__cursor *cursor = weir_ingest__cursor_make(env, size, NULL, 0, next, close);
    if (!cursor)
        return NULL;
    cursor->failure = weir__arena_format(&cursor->memory, "%s%s%s%s", verb, kind, *name ? " " : "", name);
    if (!cursor->failure) {
        weir_ingest__cursor_free(cursor);
        return NULL;
    }
    cursor->what = cursor->failure + strlen(verb);
    return cursor;
}

weir_status weir_ingest__cursor_refuse(const weir_ingest__cursor *cursor, uint32_t column, const char *fault,
                                       weir_error *error) {
    return WEIR_INGEST__SOURCE_ERROR(
        error, "a value of column %s of %s %s; leave it out of the schema or change it in the database",
        cursor->column_names[column], cursor->what, fault);
}

void weir_ingest__cursor_free(weir_ingest__cursor *cursor) {
    weir__arena memory = cursor->memory;
    weir__arena_release(&memory);
}

weir_status weir_ingest__cursor_give(weir_ingest__cursor *cursor, weir_status status,
                                     weir_ingest__cursor **out, weir_error *error) {
    if (status == WEIR_OK && cursor->memory.is_short)
        status = weir_ingest__source_no_memory(error, 0);
    if (status != WEIR_OK)
        cursor->close(cursor);
    else
        *out = cursor;
    assert((status != WEIR_OK || cursor->next) && "a cursor that has no rows to give");
    return status;
}

void weir_ingest__server_interrupt(weir_ingest__source *source) {
    atomic_store_explicit(&source->is_interrupted, true, memory_order_relaxed);
}

const char *weir_ingest__server_why_to_end(const weir_ingest__source *source, uint64_t began_ns) {
    if (atomic_load_explicit(&source->is_interrupted, memory_order_relaxed) ||
        weir_ingest__source_is_cancelled(source->options))
        return "it was interrupted";
    if (weir_ingest__source_now(source) - began_ns >= source->silence_ns)
        return "the server has given no row and no answer for too long (--source-timeout)";
    return NULL;
}

size_t weir_ingest__batch_rows(size_t column_count) {
    enum { CELLS = 32768, ROWS_MAX = 2048, ROWS_MIN = 16 };
    size_t rows = CELLS / (column_count ? column_count : 1);
    return rows > ROWS_MAX ? ROWS_MAX : rows < ROWS_MIN ? ROWS_MIN : rows;
}

/* ---- Some columns of a query ------------------------------------------------------------------- */

typedef struct chosen_cursor {
    weir_ingest__cursor base;
    weir_ingest__cursor *query; /* NULL: no rows */
    weir_ingest__value *cells;
    size_t cell_capacity;
} chosen_cursor;

static weir_status next_chosen(weir_ingest__cursor *base, weir_ingest__rows *rows, weir_error *error) {
    chosen_cursor *cursor = (chosen_cursor *)base;
    weir_ingest__rows all;
    *rows = (weir_ingest__rows){0};
    if (!cursor->query)
        return WEIR_OK;
    WEIR__TRY(cursor->query->next(cursor->query, &all, error));
    uint32_t count = base->column_count;
    if (!weir__grow(base->memory.env, (void **)&cursor->cells, &cursor->cell_capacity,
                    all.row_count * count + 1, sizeof *cursor->cells))
        return weir_ingest__source_no_memory(error, all.row_count * sizeof *cursor->cells);
    for (size_t r = 0; r < all.row_count; r++)
        for (uint32_t c = 0; c < count; c++)
            cursor->cells[r * count + c] = all.cells[r * cursor->query->column_count + base->columns[c]];
    *rows = (weir_ingest__rows){.row_count = all.row_count, .cells = cursor->cells};
    return WEIR_OK;
}

static void close_chosen(weir_ingest__cursor *base) {
    chosen_cursor *cursor = (chosen_cursor *)base;
    if (cursor->query)
        cursor->query->close(cursor->query);
    weir__release(base->memory.env, cursor->cells);
    weir_ingest__cursor_free(base);
}

weir_status weir_ingest__source_scan(weir_ingest__source *source, const weir_ingest__catalog_table *table,
                                     const uint32_t *columns, uint32_t column_count, uint32_t part,
                                     uint32_t part_count, weir_ingest__cursor **out, weir_error *error) {
    assert(part < part_count && "a part beyond the last");
    if (!table->query)
        return source->kind->scan(source, table, columns, column_count, part, part_count, out, error);
    chosen_cursor *cursor = weir_ingest__cursor_make(source->env, sizeof *cursor, columns, column_count,
                                                     next_chosen, close_chosen);
    if (!cursor)
        return weir_ingest__source_no_memory(error, sizeof *cursor);
    weir_status status = WEIR_OK;
    if (part == 0)
        status = source->kind->query(source, table->query, &cursor->query, error);
    if (status == WEIR_OK && cursor->query && cursor->query->column_count != table->column_count)
        status = WEIR_INGEST__SOURCE_ERROR(
            error, "the query of table %s gives other columns than it did before", table->name);
    return weir_ingest__cursor_give(&cursor->base, status, out, error);
}

/* ---- Views and queries as tables --------------------------------------------------------------- */

static weir_status describe(weir_ingest__source *source, weir_ingest__catalog *catalog,
                            weir_ingest__catalog_table *table, weir_error *error) {
    WEIR__TRY(source->kind->describe_query(source, table->query, catalog, table, error));
    if (catalog->memory.is_short)
        return weir_ingest__source_no_memory(error, 0);
    if (table->column_count == 0)
        return WEIR_INGEST__SOURCE_ERROR(error, "it gives no columns");
    for (uint32_t i = 1; i < table->column_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(table->columns[i].name, table->columns[k].name) == 0)
                return WEIR_INGEST__SOURCE_ERROR(error, "it gives two columns that are called %s",
                                                 table->columns[i].name);
    return WEIR_OK;
}

weir_status weir_ingest__catalog_add_query(weir_ingest__source *source, weir_ingest__catalog *catalog,
                                           const char *name, const char *sql, weir_error *error) {
    weir_ingest__catalog_table *table = weir_ingest__catalog_add_table(catalog, name);
    if (!table)
        return weir_ingest__source_no_memory(error, sizeof *table);
    table->is_given = table->is_hidden = true;
    table->query = weir__arena_text(&catalog->memory, sql, strlen(sql));
    return table->query ? describe(source, catalog, table, error)
                        : weir_ingest__source_no_memory(error, strlen(sql));
}

weir_status weir_ingest__catalog_complete(weir_ingest__source *source, weir_ingest__catalog *catalog,
                                          weir_ingest__catalog_table *table, weir_error *error) {
    if (!table->is_view || table->query)
        return WEIR_OK;
    table->query = weir__arena_format(&catalog->memory, "SELECT * FROM %s", table->sql_name);
    return table->query ? describe(source, catalog, table, error)
                        : weir_ingest__source_no_memory(error, strlen(table->sql_name));
}
