/* Streams of Arrow's C interface, made by hand: a table says its columns and what its batches claim, also
 * what is not true; what was handed out and not released is counted. */
#ifndef WEIR_TESTS_ARROW_STREAM_H
#define WEIR_TESTS_ARROW_STREAM_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "weir/arrow.h"

enum { MADE_BUFFERS_MAX = 5, MADE_COLUMNS_MAX = 8 };

typedef struct made_column {
    const char *format, *name;
    int64_t length, offset, null_count, n_buffers;
    const void *buffers[MADE_BUFFERS_MAX];
    const struct made_column *dictionary;
    bool is_missing, has_no_list, has_no_dictionary;
} made_column;

typedef struct made_table {
    const made_column *columns;
    int64_t column_count;
    int64_t length, offset, null_count; /* of each batch */
    int64_t n_children;                 /* 0: as many as there are */
    const void *validity;
    int batch_count;
    const char *format;                    /* NULL: +s */
    int fail_schema, fail_next, fail_open; /* an errno; fail_next at the last batch */
    const char *message;
    bool lacks_functions;
    const struct made_table *later; /* what streams after the first give */
    atomic_int live_schemas, live_batches, live_streams, opened, asked_too_often;
} made_table;

typedef struct made_state {
    made_table *table;
    const made_table *shown;
    int given;
    bool is_ended;
} made_state;

/* ---- Schemas ----------------------------------------------------------------------------------- */

static inline void made_free_schema(struct ArrowSchema *schema) {
    for (int64_t i = 0; schema->children && i < schema->n_children; i++) {
        for (struct ArrowSchema *at = schema->children[i], *next; at; at = next) {
            next = at->dictionary;
            free(at);
        }
    }
    free(schema->children);
}

static inline void made_release_schema(struct ArrowSchema *schema) {
    ((made_table *)schema->private_data)->live_schemas--;
    made_free_schema(schema);
    schema->release = NULL;
}

static inline int made_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out) {
    made_state *state = stream->private_data;
    const made_table *table = state->shown;
    if (table->fail_schema)
        return table->fail_schema;
    *out = (struct ArrowSchema){.format = table->format ? table->format : "+s",
                                .name = "",
                                .n_children = table->column_count,
                                .children = calloc((size_t)table->column_count + 1, sizeof *out->children),
                                .release = made_release_schema,
                                .private_data = state->table};
    for (int64_t i = 0; i < table->column_count; i++) {
        const made_column *column = &table->columns[i];
        for (struct ArrowSchema **to = &out->children[i]; column; to = &(*to)->dictionary) {
            *to = calloc(1, sizeof **to);
            **to = (struct ArrowSchema){.format = column->format, .name = column->name};
            column = column->dictionary;
        }
    }
    state->table->live_schemas++;
    return 0;
}

/* ---- Batches ----------------------------------------------------------------------------------- */

static inline void made_fill_array(const made_column *column, struct ArrowArray *out) {
    *out = (struct ArrowArray){.length = column->length,
                               .null_count = column->null_count,
                               .offset = column->offset,
                               .n_buffers = column->n_buffers,
                               .buffers =
                                   column->has_no_list ? NULL : (const void **)(uintptr_t)column->buffers};
    if (column->dictionary && !column->has_no_dictionary) {
        out->dictionary = calloc(1, sizeof *out);
        made_fill_array(column->dictionary, out->dictionary);
    }
}

static inline void made_release_batch(struct ArrowArray *batch) {
    struct ArrowArray **children = (struct ArrowArray **)(batch + 0)->children;
    const made_table *shown = ((made_table **)(uintptr_t)batch->private_data)[1];
    ((made_table **)(uintptr_t)batch->private_data)[0]->live_batches--;
    for (int64_t i = 0; i < shown->column_count; i++) {
        if (children[i])
            free(children[i]->dictionary);
        free(children[i]);
    }
    free(children);
    free((void *)(uintptr_t)batch->buffers);
    free(batch->private_data);
    batch->release = NULL;
}

static inline int made_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out) {
    made_state *state = stream->private_data;
    const made_table *table = state->shown;
    *out = (struct ArrowArray){0};
    if (state->is_ended)
        state->table->asked_too_often++;
    if (table->fail_next && state->given + 1 >= table->batch_count) {
        state->is_ended = true;
        return table->fail_next;
    }
    if (state->given++ >= table->batch_count) {
        state->is_ended = true;
        return 0;
    }
    const void **kept = calloc(2, sizeof *kept);
    kept[0] = state->table;
    kept[1] = table;
    *out = (struct ArrowArray){.length = table->length,
                               .null_count = table->null_count,
                               .offset = table->offset,
                               .n_buffers = 1,
                               .n_children = table->n_children ? table->n_children : table->column_count,
                               .buffers = calloc(1, sizeof(void *)),
                               .children = calloc((size_t)table->column_count + 1, sizeof *out->children),
                               .release = made_release_batch,
                               .private_data = kept};
    out->buffers[0] = table->validity;
    for (int64_t i = 0; i < table->column_count; i++) {
        if (table->columns[i].is_missing)
            continue;
        out->children[i] = calloc(1, sizeof *out);
        made_fill_array(&table->columns[i], out->children[i]);
    }
    state->table->live_batches++;
    return 0;
}

/* ---- Streams ----------------------------------------------------------------------------------- */

static inline const char *made_last_error(struct ArrowArrayStream *stream) {
    return ((made_state *)stream->private_data)->shown->message;
}

static inline void made_release_stream(struct ArrowArrayStream *stream) {
    made_state *state = stream->private_data;
    state->table->live_streams--;
    free(state);
    stream->release = NULL;
}

/* What weir_arrow_table wants as `open`, with a made_table as its context. */
static inline int made_open(void *context, struct ArrowArrayStream *out) {
    made_table *table = context;
    const made_table *shown = table->opened > 0 && table->later ? table->later : table;
    if (shown->fail_open)
        return shown->fail_open;
    made_state *state = calloc(1, sizeof *state);
    *state = (made_state){.table = table, .shown = shown};
    *out = (struct ArrowArrayStream){.get_schema = made_get_schema,
                                     .get_next = table->lacks_functions ? NULL : made_get_next,
                                     .get_last_error = made_last_error,
                                     .release = made_release_stream,
                                     .private_data = state};
    table->opened++;
    table->live_streams++;
    return 0;
}

#endif
