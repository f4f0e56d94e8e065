/* A folder of runs as a source (docs/spec/09-runs-of-rows.md). A scan merges files by key: it opens a file
 * when it comes to the file's first key, so that as many are open as overlap. Parts of a scan have stretches
 * of the files, in the order of their first keys. Queries whose results are there are read like tables; all
 * others are run by SQLite over the tables.
 *
 * What must hold: the texts of rows that were handed over stay until the next call, so a call ends before a
 * file needs its next frame. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/row_run.h"
#include "ingest/table_query.h"

enum { PIECE_ROWS = 1024 };

typedef struct runs_source {
    weir_ingest__table_source base;
    weir_ingest__run_list list;
} runs_source;

static weir_status no_memory(weir_error *error) {
    return weir_ingest__source_no_memory(error, 1);
}

/* ---- Merging --------------------------------------------------------------------------------- */

typedef struct open_run {
    weir_ingest__run_reader *reader;
    const weir_ingest__value *row; /* its next; NULL: it has to be read from the next frame */
} open_run;

typedef struct runs_cursor {
    weir_ingest__cursor base;
    runs_source *source;
    const weir_ingest__run_table *table;
    uint32_t next_file, end_file;
    open_run *heap; /* the smallest row first; one without a row is smaller than all */
    size_t heap_capacity;
    uint32_t open_count;
    weir_ingest__value *cells;
} runs_cursor;

static int compare(const runs_cursor *cursor, const open_run *a, const open_run *b) {
    if (!a->row || !b->row)
        return (a->row != NULL) - (b->row != NULL);
    return weir_ingest__run_compare_rows(cursor->table, a->row, b->row);
}

static void sink(runs_cursor *cursor) {
    open_run *heap = cursor->heap, moved = heap[0];
    uint32_t at = 0, count = cursor->open_count;
    for (uint32_t below = 1; below < count; at = below, below = 2 * at + 1) {
        below += below + 1 < count && compare(cursor, &heap[below + 1], &heap[below]) < 0;
        if (compare(cursor, &moved, &heap[below]) <= 0)
            break;
        heap[at] = heap[below];
    }
    heap[at] = moved;
}

/* Opens the next file; it is the first of the heap, because its row is not known yet. */
static weir_status open_next(runs_cursor *cursor, weir_error *error) {
    const weir_ingest__run_file *file = &cursor->table->files[cursor->next_file];
    open_run run = {0};
    if (!weir__grow(cursor->base.memory.env, (void **)&cursor->heap, &cursor->heap_capacity,
                    cursor->open_count + 1, sizeof *cursor->heap))
        return no_memory(error);
    WEIR__TRY(weir_ingest__run_reader_open(&cursor->source->list, cursor->table, file, &run.reader, error));
    for (uint32_t at = cursor->open_count; at > 0; at = (at - 1) / 2)
        cursor->heap[at] = cursor->heap[(at - 1) / 2];
    cursor->heap[0] = run;
    cursor->open_count++;
    cursor->next_file++;
    return WEIR_OK;
}

/* Whether the merge has come to the first key of the next file. */
static bool is_due(const runs_cursor *cursor) {
    if (cursor->next_file == cursor->end_file)
        return false;
    if (cursor->open_count == 0)
        return true;
    const weir_ingest__value *first = cursor->table->files[cursor->next_file].first;
    const weir_ingest__value *row = cursor->heap[0].row;
    return first && row && weir_ingest__run_compare_rows(cursor->table, first, row) <= 0;
}

/* Reads the next row of the first run of the heap, or takes it out if there is none. */
static weir_status advance(runs_cursor *cursor, weir_error *error) {
    open_run *run = &cursor->heap[0];
    WEIR__TRY(weir_ingest__run_reader_next(run->reader, &run->row, error));
    if (!run->row) {
        weir_ingest__run_reader_close(run->reader);
        *run = cursor->heap[--cursor->open_count];
    }
    if (cursor->open_count > 0)
        sink(cursor);
    return WEIR_OK;
}

static weir_status next_rows(weir_ingest__cursor *base, weir_ingest__rows *rows, weir_error *error) {
    runs_cursor *cursor = (runs_cursor *)base;
    size_t count = 0;
    *rows = (weir_ingest__rows){.cells = cursor->cells};
    if (weir_ingest__table_is_interrupted(&cursor->source->base))
        return WEIR_INGEST__SOURCE_ERROR(error, "table %s is no longer read: it was interrupted",
                                         cursor->table->name);
    while (count < PIECE_ROWS) {
        if (is_due(cursor)) {
            WEIR__TRY(open_next(cursor, error));
            continue;
        }
        if (cursor->open_count == 0)
            break;
        open_run *run = &cursor->heap[0];
        if (!run->row) {
            if (count > 0)
                break;
            WEIR__TRY(advance(cursor, error));
            continue;
        }
        for (uint32_t c = 0; c < base->column_count; c++)
            cursor->cells[count * base->column_count + c] = run->row[base->columns[c]];
        count++;
        if (weir_ingest__run_reader_has_more(run->reader))
            WEIR__TRY(advance(cursor, error));
        else
            run->row = NULL;
    }
    rows->row_count = count;
    return WEIR_OK;
}

static void close_cursor(weir_ingest__cursor *base) {
    runs_cursor *cursor = (runs_cursor *)base;
    for (uint32_t i = 0; i < cursor->open_count; i++)
        weir_ingest__run_reader_close(cursor->heap[i].reader);
    weir__release(base->memory.env, cursor->heap);
    weir_ingest__cursor_free(base);
}

/* A cursor over part of a table's files, in the order of their first keys; `columns` NULL: all. */
static weir_status open_cursor(runs_source *source, const weir_ingest__run_table *table,
                               const uint32_t *columns, uint32_t column_count, uint32_t part,
                               uint32_t part_count, weir_ingest__cursor **out, weir_error *error) {
    runs_cursor *cursor = weir_ingest__cursor_make(source->base.memory.env, sizeof *cursor, columns,
                                                   column_count, next_rows, close_cursor);
    if (!cursor)
        return no_memory(error);
    weir__arena *memory = &cursor->base.memory;
    uint64_t files = table->file_count;
    cursor->source = source;
    cursor->table = table;
    cursor->next_file = WEIR__NARROW(uint32_t, files * part / part_count);
    cursor->end_file = WEIR__NARROW(uint32_t, files * ((uint64_t)part + 1) / part_count);
    cursor->cells = weir__arena_take_zero(memory, (size_t)column_count * PIECE_ROWS, sizeof *cursor->cells);
    cursor->base.column_names =
        weir__arena_take_zero(memory, column_count, sizeof *cursor->base.column_names);
    for (uint32_t c = 0; cursor->base.column_names && c < column_count; c++)
        cursor->base.column_names[c] = table->columns[cursor->base.columns[c]].name;
    return weir_ingest__cursor_give(&cursor->base, WEIR_OK, out, error);
}

static weir_status scan(weir_ingest__source *session, const weir_ingest__catalog_table *from,
                        const uint32_t *columns, uint32_t column_count, uint32_t part, uint32_t part_count,
                        weir_ingest__cursor **out, weir_error *error) {
    runs_source *source = weir_ingest__table_shared(session);
    const weir_ingest__run_table *table = &source->list.tables[*(const uint32_t *)from->detail];
    return open_cursor(source, table, columns, column_count, part, part_count, out, error);
}

/* ---- Queries --------------------------------------------------------------------------------- */

static const weir_ingest__run_table *find_query(const runs_source *source, const char *sql) {
    for (uint32_t t = 0; t < source->list.table_count; t++)
        if (source->list.tables[t].sql && strcmp(source->list.tables[t].sql, sql) == 0)
            return &source->list.tables[t];
    return NULL;
}

static weir_status query(weir_ingest__source *session, const char *sql, weir_ingest__cursor **out,
                         weir_error *error) {
    runs_source *source = weir_ingest__table_shared(session);
    const weir_ingest__run_table *table = find_query(source, sql);
    if (!table)
        return weir_ingest__table_query_run(session, sql, out, error);
    return open_cursor(source, table, NULL, table->column_count, 0, 1, out, error);
}

static void add_columns(weir_ingest__catalog *catalog, weir_ingest__catalog_table *to,
                        const weir_ingest__run_table *from) {
    for (uint32_t c = 0; c < from->column_count; c++) {
        weir_ingest__catalog_column *column =
            weir_ingest__catalog_add_column(catalog, to, from->columns[c].name, from->columns[c].declared);
        if (column)
            column->is_date = from->columns[c].is_date;
    }
}

static weir_status describe_query(weir_ingest__source *session, const char *sql,
                                  weir_ingest__catalog *catalog, weir_ingest__catalog_table *table,
                                  weir_error *error) {
    const weir_ingest__run_table *found = find_query(weir_ingest__table_shared(session), sql);
    if (!found)
        return weir_ingest__table_query_describe(session, sql, catalog, table, error);
    add_columns(catalog, table, found);
    return WEIR_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int compare_files(const void *a, const void *b, void *context) {
    const weir_ingest__run_file *x = a, *y = b;
    if (!x->first || !y->first)
        return (x->first != NULL) - (y->first != NULL);
    int order = weir_ingest__run_compare_rows(context, x->first, y->first);
    return order != 0 ? order : strcmp(x->path, y->path);
}

/* Looks at every file, so that the merge knows where each begins. */
static weir_status inspect_files(runs_source *source, weir_error *error) {
    for (uint32_t t = 0; t < source->list.table_count; t++) {
        weir_ingest__run_table *table = &source->list.tables[t];
        for (uint32_t f = 0; f < table->file_count; f++) {
            if (weir_ingest__source_is_cancelled(source->base.options))
                return WEIR_INGEST__SOURCE_ERROR(error, "%s is no longer read: it was interrupted",
                                                 source->list.folder);
            WEIR__TRY(weir_ingest__run_inspect(&source->list, table, &table->files[f], error));
        }
        if (table->key_count > 0 && table->file_count > 1)
            qsort_r(table->files, table->file_count, sizeof *table->files, compare_files, table);
    }
    return WEIR_OK;
}

static void release(weir_ingest__table_source *source) {
    weir_ingest__run_list_release(&((runs_source *)source)->list);
}

static weir_status open_source(const weir_env *env, const weir_ingest__source_options *options,
                               weir_ingest__source **out, weir_error *error) {
    weir_ingest__source *session;
    WEIR__TRY(weir_ingest__table_source_make(env, options, &weir_ingest__source_runs, sizeof(runs_source),
                                             release, "runs of rows have no schemas", &session, error));
    runs_source *self = weir_ingest__table_shared(session);
    weir_status status = weir_ingest__run_list_open(&self->list, env, options->location, error);
    if (status == WEIR_OK)
        status = inspect_files(self, error);
    return weir_ingest__source_give(session, status, out);
}

const weir_ingest__run_list *weir_ingest__runs_list(const weir_ingest__source *session) {
    const runs_source *source = weir_ingest__table_shared(session);
    return &source->list;
}

static bool see_run(void *context, const char *name, bool is_folder, bool is_file) {
    static const char ending[] = ".rows";
    size_t size = strlen(name), ending_size = strlen(ending);
    (void)is_folder;
    *(bool *)context = is_file && size > ending_size && strcmp(name + size - ending_size, ending) == 0;
    return !*(bool *)context;
}

/* A folder with a list, or with runs that nobody has listed yet. */
static bool accepts(const weir_env *env, const char *location) {
    char path[4096];
    bool is_found = false;
    int size = snprintf(path, sizeof path, "%s/%s", location, WEIR_ROW_RUN_LIST);
    if (size < 0 || (size_t)size >= sizeof path)
        return false;
    int file = env->open(env->context, path, O_RDONLY | O_NONBLOCK, 0);
    if (file >= 0) {
        env->close(env->context, file);
        return true;
    }
    return env->list(env->context, location, see_run, &is_found) == 0 && is_found;
}

/* ---- The catalog ----------------------------------------------------------------------------- */

static weir_status describe(weir_ingest__source *session, weir_ingest__catalog *out, weir_error *error) {
    const weir_ingest__run_list *list = weir_ingest__runs_list(session);
    weir_ingest__catalog_set_name(out, list->name);
    for (uint32_t t = 0; t < list->table_count; t++) {
        const weir_ingest__run_table *from = &list->tables[t];
        if (from->sql)
            continue;
        weir_ingest__catalog_table *table = weir_ingest__catalog_add_numbered(out, from->name, t);
        if (!table)
            return no_memory(error);
        for (uint32_t f = 0; f < from->file_count; f++) {
            table->row_estimate += from->files[f].said.rows;
            out->size_bytes += from->files[f].said.size;
        }
        add_columns(out, table, from);
    }
    return WEIR_OK;
}

const weir_ingest__source_kind weir_ingest__source_runs = {
    .name = "runs",
    .accepts = accepts,
    .open = open_source,
    .close = weir_ingest__table_session_close,
    .fork = weir_ingest__table_session_fork,
    .describe = describe,
    .scan = scan,
    .query = query,
    .describe_query = describe_query,
    .interrupt = weir_ingest__table_query_interrupt,
};
