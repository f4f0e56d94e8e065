/* Tables in Arrow's C stream interface, as a source.
 *
 * A scan takes batches from a feed: those of a stream of its own, or of the one stream that the table has,
 * after those that were kept of it. All parts of a scan share one feed, and each batch is one part's: who is
 * free takes the next. Rows are handed over in pieces of a batch, so that cells stay in the cache; if all
 * columns are arrays, in larger ones.
 *
 * What must hold: a stream is asked by one thread at a time (the table's lock), never after its end or a
 * failure, and what it gave is released once: by the cursor that read it or, if it is kept, with the table.
 */
#include <stdio.h>
#include <string.h>

#include "ingest/arrow_source.h"
#include "ingest/sql.h"
#include "ingest/table_query.h"

enum { PIECE_ROWS = 1024, ARRAY_ROWS = 4096 };

typedef struct feed feed;

typedef struct arrow_table {
    const weir_env *env;
    weir__arena *memory; /* of the source, for columns */
    const weir_arrow_table *given;
    weir_ingest__arrow_column *columns;
    uint32_t column_count;
    bool keeps; /* the batches of its one stream */
    pthread_mutex_t lock;
    struct ArrowArray **kept;
    size_t kept_count, kept_capacity;
    bool is_begun;      /* its one stream: somebody reads it */
    bool is_ended;      /* its one stream: it gives no more */
    feed *shared;       /* of a scan whose parts are not all open yet */
    bool is_counted;    /* a stream of those that it opens was read to its end, … */
    uint64_t row_count; /* … and gave so many rows */
} arrow_table;

struct feed {
    arrow_table *table;
    struct ArrowArrayStream own; /* of a table that opens streams */
    bool is_ended;
    uint64_t row_count;     /* that it gave */
    size_t position;        /* among the batches that were kept */
    uint32_t parts_to_open; /* that will read from it too */
    uint32_t reader_count;
};

typedef struct arrow_source {
    weir_ingest__table_source base;
    arrow_table *tables;
    uint32_t table_count;
} arrow_source;

static weir_status no_memory(weir_error *error) {
    return weir_ingest__source_no_memory(error, 1);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static weir_status fail_of_stream(const arrow_table *table, struct ArrowArrayStream *stream, int code,
                                  const char *what, weir_error *error) {
    char line[300];
    const char *message = stream->get_last_error ? stream->get_last_error(stream) : NULL;
    weir__one_line(message && *message ? message : strerror(code), line, sizeof line);
    return weir_ingest__arrow_fail(error, table->given->name, NULL,
                                   "cannot be read: its producer fails %s: %s", what, line);
}

static weir_status check_stream(const arrow_table *table, const struct ArrowArrayStream *stream,
                                weir_error *error) {
    if (stream->release && stream->get_schema && stream->get_next)
        return WEIR_OK;
    return weir_ingest__arrow_fail(error, table->given->name, NULL, "%s",
                                   stream->release
                                       ? "has a stream without its functions: the producer is at fault"
                                       : "has a stream that was released already; a stream is read once");
}

static weir_status open_stream(const arrow_table *table, struct ArrowArrayStream *out, weir_error *error) {
    *out = (struct ArrowArrayStream){0};
    int code = table->given->open(table->given->context, out);
    if (code != 0)
        return weir_ingest__arrow_fail(error, table->given->name, NULL, "cannot be opened: %s",
                                       strerror(code));
    weir_status status = check_stream(table, out, error);
    if (status != WEIR_OK && out->release)
        out->release(out);
    return status;
}

static weir_status get_schema(const arrow_table *table, struct ArrowArrayStream *stream,
                              struct ArrowSchema *out, weir_error *error) {
    *out = (struct ArrowSchema){0};
    int code = stream->get_schema(stream, out);
    if (code != 0)
        return fail_of_stream(table, stream, code, "to give its schema", error);
    const char *name = table->given->name;
    weir_status status = WEIR_OK;
    if (!out->release || !out->format || out->n_children < 0 || (out->n_children > 0 && !out->children))
        status = weir_ingest__arrow_fail(error, name, NULL,
                                         "has a schema that lacks parts: the producer is at fault");
    else if (strcmp(out->format, "+s") != 0)
        status = weir_ingest__arrow_fail(
            error, name, NULL, "is a stream of single values, not of rows; give a table or a data frame");
    for (int64_t i = 0; status == WEIR_OK && i < out->n_children; i++) {
        const struct ArrowSchema *child = out->children[i];
        if (!child || !child->format || (child->dictionary && !child->dictionary->format))
            status = weir_ingest__arrow_fail(
                error, name, NULL, "has a schema without the type of column %lld: the producer is at fault",
                (long long)i + 1);
    }
    if (status != WEIR_OK && out->release)
        out->release(out);
    return status;
}

/* ---- Columns --------------------------------------------------------------------------------- */

static weir_status add_column(arrow_table *table, const struct ArrowSchema *from, weir_error *error) {
    weir_ingest__arrow_column *column = &table->columns[table->column_count];
    const char *name = from->name ? from->name : "";
    if (!*name || !weir__utf8_is_valid(name, strlen(name)))
        return weir_ingest__arrow_fail(error, table->given->name, NULL, "has no name in UTF-8 for column %u",
                                       table->column_count + 1);
    for (uint32_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return weir_ingest__arrow_fail(error, table->given->name, name,
                                           "is there twice; rename one of the two");
    table->column_count++;
    column->name = weir__arena_text(table->memory, name, strlen(name));
    column->format = weir__arena_text(table->memory, from->format, strlen(from->format));
    if (from->dictionary)
        column->dictionary_format =
            weir__arena_text(table->memory, from->dictionary->format, strlen(from->dictionary->format));
    if (table->memory->is_short)
        return no_memory(error);
    const char *format = from->dictionary ? column->dictionary_format : column->format;
    column->type = weir_ingest__arrow_type_of(format);
    if (column->type.layout == WEIR_INGEST__ARROW_REFUSED)
        column->refused = weir_ingest__arrow_type_name(format);
    if (!from->dictionary)
        return WEIR_OK;
    column->index = weir_ingest__arrow_type_of(column->format);
    bool is_integer = column->index.layout == WEIR_INGEST__ARROW_FIXED && strlen(column->format) == 1 &&
                      column->index.meaning == WEIR_INGEST__ARROW_NUMBER &&
                      column->index.number != WEIR_INGEST__NUMBER_FLOAT;
    if (!is_integer)
        column->refused = "a dictionary whose indices are no integers";
    if (from->dictionary->dictionary)
        column->refused = "a dictionary in a dictionary";
    return WEIR_OK;
}

static weir_status take_columns(arrow_table *table, const struct ArrowSchema *schema, weir_error *error) {
    weir_status status = WEIR_OK;
    if (schema->n_children == 0)
        return weir_ingest__arrow_fail(error, table->given->name, NULL, "has no columns");
    if (schema->n_children > INT32_MAX)
        return weir_ingest__arrow_fail(error, table->given->name, NULL, "has more columns than anything can");
    table->columns = weir__arena_take_zero(table->memory, (size_t)schema->n_children, sizeof *table->columns);
    if (!table->columns)
        return no_memory(error);
    for (int64_t i = 0; i < schema->n_children && status == WEIR_OK; i++)
        status = add_column(table, schema->children[i], error);
    return status;
}

/* A stream that was opened later must have the columns of the first. */
static weir_status compare_columns(const arrow_table *table, struct ArrowArrayStream *stream,
                                   weir_error *error) {
    struct ArrowSchema schema;
    weir_status status = get_schema(table, stream, &schema, error);
    if (status != WEIR_OK)
        return status;
    if (schema.n_children != table->column_count)
        status = weir_ingest__arrow_fail(error, table->given->name, NULL,
                                         "has other columns than when it was read first");
    for (uint32_t i = 0; i < table->column_count && status == WEIR_OK; i++) {
        const weir_ingest__arrow_column *was = &table->columns[i];
        const struct ArrowSchema *is = schema.children[i];
        const char *dictionary = is->dictionary ? is->dictionary->format : NULL;
        bool is_same = is->name && strcmp(was->name, is->name) == 0 && strcmp(was->format, is->format) == 0 &&
                       !dictionary == !was->dictionary_format &&
                       (!dictionary || strcmp(was->dictionary_format, dictionary) == 0);
        if (!is_same)
            status = weir_ingest__arrow_fail(error, table->given->name, was->name,
                                             "has another name or type than when it was read first");
    }
    schema.release(&schema);
    return status;
}

/* ---- Feeds ----------------------------------------------------------------------------------- */

static void release_feed(feed *f) {
    if (f->own.release)
        f->own.release(&f->own);
    weir__release(f->table->env, f);
}

static weir_status open_feed(arrow_table *table, feed **out, weir_error *error) {
    feed *f = weir__allocate_zero(table->env, 1, sizeof *f);
    if (!f)
        return no_memory(error);
    f->table = table;
    weir_status status = WEIR_OK;
    if (table->given->open) {
        status = open_stream(table, &f->own, error);
        if (status == WEIR_OK)
            status = compare_columns(table, &f->own, error);
    } else if (table->is_begun && !table->keeps) {
        status = weir_ingest__arrow_fail(error, table->given->name, NULL,
                                         "is wanted twice, but its stream can be read once only");
    }
    table->is_begun = true;
    if (status == WEIR_OK)
        *out = f;
    else
        release_feed(f);
    return status;
}

/* The feed of a part: one of its own if it is the only one, else that of the others. Locked. */
static weir_status join_feed(arrow_table *table, uint32_t part_count, feed **out, weir_error *error) {
    feed *f = table->shared;
    WEIR__TRY(f ? WEIR_OK : open_feed(table, &f, error));
    if (!table->shared)
        f->parts_to_open = part_count;
    f->parts_to_open--;
    f->reader_count++;
    table->shared = f->parts_to_open > 0 ? f : NULL;
    *out = f;
    return WEIR_OK;
}

static void leave_feed(feed *f) {
    arrow_table *table = f->table;
    pthread_mutex_lock(&table->lock);
    f->reader_count--;
    bool is_last = f->reader_count == 0 && f->parts_to_open == 0;
    pthread_mutex_unlock(&table->lock);
    if (is_last)
        release_feed(f);
}

/* The next batch of a stream; *out is NULL at its end. */
static weir_status pull(const arrow_table *table, struct ArrowArrayStream *stream, bool *is_ended,
                        struct ArrowArray **out, weir_error *error) {
    *out = NULL;
    struct ArrowArray *batch = weir__allocate_zero(table->env, 1, sizeof *batch);
    if (!batch)
        return no_memory(error);
    int code = stream->get_next(stream, batch);
    *is_ended = code != 0 || !batch->release;
    if (!*is_ended) {
        *out = batch;
        return WEIR_OK;
    }
    weir__release(table->env, batch);
    return code == 0 ? WEIR_OK : fail_of_stream(table, stream, code, "to give its next rows", error);
}

static void release_batch(const weir_env *env, struct ArrowArray *batch) {
    if (batch && batch->release)
        batch->release(batch);
    weir__release(env, batch);
}

/* The next batch of a stream that the table has opened. All of them give as many rows: one that was read
 * before elsewhere, such as a reader that a function returns again, gives none. */
static weir_status next_of_own(feed *f, struct ArrowArray **out, weir_error *error) {
    arrow_table *table = f->table;
    if (f->is_ended)
        return WEIR_OK;
    WEIR__TRY(pull(table, &f->own, &f->is_ended, out, error));
    f->row_count += *out ? (uint64_t)(*out)->length : 0;
    if (*out)
        return WEIR_OK;
    if (table->is_counted && f->row_count != table->row_count)
        return weir_ingest__arrow_fail(
            error, table->given->name, NULL,
            "gave %llu rows when it was read first, and %llu now; a function must give all of them, in a "
            "stream that nobody has read, each time that it is called",
            (unsigned long long)table->row_count, (unsigned long long)f->row_count);
    table->is_counted = true;
    table->row_count = f->row_count;
    return WEIR_OK;
}

/* The feed's next batch, NULL at the end. Who gets one that is not kept owns it. Locked. */
static weir_status next_batch(feed *f, struct ArrowArray **out, weir_error *error) {
    arrow_table *table = f->table;
    *out = NULL;
    if (table->given->open)
        return next_of_own(f, out, error);
    if (f->position < table->kept_count) {
        *out = table->kept[f->position++];
        return WEIR_OK;
    }
    if (table->is_ended)
        return WEIR_OK;
    weir_status status = pull(table, table->given->stream, &table->is_ended, out, error);
    if (!*out || !table->keeps)
        return status;
    if (!weir__grow(table->env, (void **)&table->kept, &table->kept_capacity, table->kept_count + 1,
                    sizeof(struct ArrowArray *))) {
        release_batch(table->env, *out);
        *out = NULL;
        return no_memory(error);
    }
    table->kept[table->kept_count++] = *out;
    f->position++;
    return WEIR_OK;
}

/* ---- Cursors --------------------------------------------------------------------------------- */

typedef struct arrow_cursor {
    weir_ingest__cursor base;
    arrow_source *source;
    arrow_table *table;
    feed *feed;
    struct ArrowArray *batch; /* that is read, or NULL */
    size_t row;               /* of it, that comes next */
    weir_ingest__value *cells;
    weir_ingest__array *arrays;
    char *forms; /* of all columns that need some */
} arrow_cursor;

static void drop_batch(arrow_cursor *cursor) {
    const arrow_table *table = cursor->table;
    if (table->given->open || !table->keeps) /* else the table has it still */
        release_batch(table->env, cursor->batch);
    cursor->batch = NULL;
    cursor->row = 0;
}

static void close_cursor(weir_ingest__cursor *base) {
    arrow_cursor *cursor = (arrow_cursor *)base;
    drop_batch(cursor);
    if (cursor->feed)
        leave_feed(cursor->feed);
    weir_ingest__cursor_free(base);
}

static weir_status take_batch(arrow_cursor *cursor, weir_error *error) {
    arrow_table *table = cursor->table;
    drop_batch(cursor);
    pthread_mutex_lock(&table->lock);
    weir_status status = next_batch(cursor->feed, &cursor->batch, error);
    pthread_mutex_unlock(&table->lock);
    if (status != WEIR_OK || !cursor->batch)
        return status;
    const struct ArrowArray *batch = cursor->batch;
    status = weir_ingest__arrow_check_batch(table->given->name, table->column_count, batch, error);
    for (uint32_t i = 0; i < cursor->base.column_count && status == WEIR_OK; i++) {
        uint32_t c = cursor->base.columns[i];
        status = weir_ingest__arrow_check_column(table->given->name, &table->columns[c], batch,
                                                 batch->children[c], error);
    }
    return status;
}

static weir_status next_rows(weir_ingest__cursor *base, weir_ingest__rows *rows, weir_error *error) {
    arrow_cursor *cursor = (arrow_cursor *)base;
    arrow_table *table = cursor->table;
    weir_status status = WEIR_OK;
    *rows = (weir_ingest__rows){.cells = cursor->cells, .arrays = base->takes_arrays ? cursor->arrays : NULL};
    if (weir_ingest__table_is_interrupted(&cursor->source->base))
        return weir_ingest__arrow_fail(error, table->given->name, NULL,
                                       "is no longer read: it was interrupted");
    while (!cursor->batch || cursor->row == (size_t)cursor->batch->length) {
        status = take_batch(cursor, error);
        if (status != WEIR_OK || !cursor->batch)
            return status;
    }
    size_t left = (size_t)cursor->batch->length - cursor->row;
    size_t count = left < ARRAY_ROWS ? left : ARRAY_ROWS;
    for (uint32_t i = 0; i < base->column_count && status == WEIR_OK; i++) {
        uint32_t c = base->columns[i];
        if (base->takes_arrays &&
            weir_ingest__arrow_array(&table->columns[c], cursor->batch, cursor->batch->children[c],
                                     cursor->row, count, &cursor->arrays[i]))
            continue;
        count = count < PIECE_ROWS ? count : PIECE_ROWS; /* there is no room for more cells */
        char *forms =
            cursor->forms ? cursor->forms + (size_t)i * PIECE_ROWS * WEIR_INGEST__ARROW_FORM_SIZE : NULL;
        status = weir_ingest__arrow_read(table->given->name, &table->columns[c], cursor->batch,
                                         cursor->batch->children[c], cursor->row, count, cursor->cells + i,
                                         base->column_count, forms, error);
    }
    cursor->row += count;
    rows->row_count = status == WEIR_OK ? count : 0;
    return status;
}

static weir_status scan(weir_ingest__source *source, const weir_ingest__catalog_table *from,
                        const uint32_t *columns, uint32_t column_count, uint32_t part, uint32_t part_count,
                        weir_ingest__cursor **out, weir_error *error) {
    arrow_source *shared = weir_ingest__table_shared(source);
    arrow_table *table = &shared->tables[*(const uint32_t *)from->detail];
    bool needs_forms = false;
    (void)part; /* whoever is free takes the next batch */
    for (uint32_t i = 0; i < column_count; i++) {
        const weir_ingest__arrow_column *column = &table->columns[columns[i]];
        if (column->refused)
            return weir_ingest__arrow_fail(
                error, table->given->name, column->name,
                "is %s (Arrow format %.40s), which is not read; leave it out of the table, or turn it into "
                "text or columns of their own",
                column->refused, column->dictionary_format ? column->dictionary_format : column->format);
        needs_forms = needs_forms || column->type.meaning == WEIR_INGEST__ARROW_CLOCK;
    }
    arrow_cursor *cursor =
        weir_ingest__cursor_make(table->env, sizeof *cursor, columns, column_count, next_rows, close_cursor);
    if (!cursor)
        return no_memory(error);
    weir__arena *memory = &cursor->base.memory;
    size_t most = (size_t)column_count * PIECE_ROWS;
    cursor->source = shared;
    cursor->table = table;
    cursor->cells = weir__arena_take_zero(memory, most, sizeof *cursor->cells);
    cursor->arrays = weir__arena_take_zero(memory, column_count, sizeof *cursor->arrays);
    cursor->forms = needs_forms ? weir__arena_take_zero(memory, most, WEIR_INGEST__ARROW_FORM_SIZE) : NULL;
    weir_status status = memory->is_short ? no_memory(error) : WEIR_OK;
    if (status == WEIR_OK) {
        pthread_mutex_lock(&table->lock);
        status = join_feed(table, part_count, &cursor->feed, error);
        pthread_mutex_unlock(&table->lock);
    }
    return weir_ingest__cursor_give(&cursor->base, status, out, error);
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void release(weir_ingest__table_source *source) {
    const arrow_source *self = (arrow_source *)source;
    for (uint32_t t = 0; t < self->table_count; t++) {
        arrow_table *table = &self->tables[t];
        if (table->shared) /* a scan that ended before all of its parts were open */
            release_feed(table->shared);
        for (size_t i = 0; i < table->kept_count; i++)
            release_batch(table->env, table->kept[i]);
        weir__release(table->env, table->kept);
        pthread_mutex_destroy(&table->lock);
    }
}

static weir_status check_given(const arrow_source *source, const weir_arrow_table *given, weir_error *error) {
    if (!given->name || !*given->name || !weir__utf8_is_valid(given->name, strlen(given->name)))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__SOURCE_OPERATOR,
                          "a table in Arrow's interface has no name in UTF-8");
    if (!given->stream == !given->open)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__SOURCE_OPERATOR,
                          "table %s must have either a stream or a function that opens one", given->name);
    for (uint32_t t = 0; t < source->table_count; t++)
        if (strcmp(source->tables[t].given->name, given->name) == 0)
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__SOURCE_OPERATOR,
                              "table %s is given twice", given->name);
    return WEIR_OK;
}

static weir_status read_columns(arrow_table *table, weir_error *error) {
    struct ArrowArrayStream opened = {0}, *stream = table->given->stream;
    struct ArrowSchema schema;
    WEIR__TRY(stream ? check_stream(table, stream, error) : open_stream(table, &opened, error));
    stream = stream ? stream : &opened;
    weir_status status = get_schema(table, stream, &schema, error);
    if (status == WEIR_OK) {
        status = take_columns(table, &schema, error);
        schema.release(&schema);
    }
    if (opened.release)
        opened.release(&opened);
    return status;
}

static weir_status open_source(const weir_env *env, const weir_ingest__source_options *options,
                               weir_ingest__source **out, weir_error *error) {
    weir_ingest__source *session;
    WEIR__TRY(weir_ingest__table_source_make(env, options, &weir_ingest__source_arrow, sizeof(arrow_source),
                                             release, "Arrow tables have no schemas", &session, error));
    arrow_source *self = weir_ingest__table_shared(session);
    weir__arena *memory = &self->base.memory;
    weir_status status = WEIR_OK;
    self->tables = weir__arena_take_zero(memory, options->arrow_table_count, sizeof *self->tables);
    if (!self->tables)
        status = no_memory(error);
    for (uint32_t t = 0; t < options->arrow_table_count && status == WEIR_OK; t++) {
        const weir_arrow_table *given = &options->arrow_tables[t];
        status = check_given(self, given, error);
        if (status != WEIR_OK)
            break;
        arrow_table *table = &self->tables[self->table_count++];
        *table = (arrow_table){
            .env = env, .memory = memory, .given = given, .keeps = !options->arrow_is_read_once};
        pthread_mutex_init(&table->lock, NULL);
        status = read_columns(table, error);
    }
    return weir_ingest__source_give(session, status, out);
}

/* Arrow tables have no location. */
static bool accepts(const weir_env *env, const char *location) {
    (void)env;
    (void)location;
    return false;
}

/* ---- The catalog ----------------------------------------------------------------------------- */

static weir_status describe(weir_ingest__source *session, weir_ingest__catalog *out, weir_error *error) {
    const arrow_source *source = weir_ingest__table_shared(session);
    weir_ingest__catalog_set_name(out, "tables");
    for (uint32_t t = 0; t < source->table_count; t++) {
        const arrow_table *from = &source->tables[t];
        weir_ingest__catalog_table *table = weir_ingest__catalog_add_numbered(out, from->given->name, t);
        if (!table)
            return no_memory(error);
        table->row_estimate = from->given->row_estimate;
        for (uint32_t c = 0; c < from->column_count; c++) {
            const weir_ingest__arrow_type *type = &from->columns[c].type;
            weir_ingest__catalog_column *column = weir_ingest__catalog_add_column(
                out, table, from->columns[c].name, weir_ingest__arrow_declared(type));
            if (column)
                column->is_date = type->layout == WEIR_INGEST__ARROW_FIXED && type->is_date;
        }
    }
    return WEIR_OK;
}

/* An interrupt cannot wake a producer that does not answer. */
const weir_ingest__source_kind weir_ingest__source_arrow = {
    .name = "arrow",
    .accepts = accepts,
    .open = open_source,
    .close = weir_ingest__table_session_close,
    .fork = weir_ingest__table_session_fork,
    .describe = describe,
    .scan = scan,
    .query = weir_ingest__table_query_run,
    .describe_query = weir_ingest__table_query_describe,
    .interrupt = weir_ingest__table_query_interrupt,
};
