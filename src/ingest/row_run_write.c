/* Rows become runs. They go into a frame, frames go out as they are full; where a row has a smaller key than
 * the one before, the file ends and another begins. What a stream in Arrow's interface gives is read by the
 * source that ingest has for it, so that a row becomes the same values here and there. */
#include <string.h>

#include "base/bytes.h"
#include "base/floating.h"
#include "base/options.h"
#include "ingest/row_run.h"

#define OPERATOR "weir.row_run.write"

enum { FRAME_SIZE = 1 << 18 };

/* ---- Files ------------------------------------------------------------------------------------- */

static weir_status put(weir_ingest__run_writer *w, const void *data, size_t size, weir_error *error) {
    int code = w->write(w->context, data, size);
    w->file_size += size;
    if (code == 0)
        return WEIR_OK;
    return weir__fail(error, WEIR_IO_ERROR, w->failure_operator, "the rows of table %s cannot be written: %s",
                      w->table->name, strerror(code));
}

static weir_status put_frame(weir_ingest__run_writer *w, const weir_cbor_writer *payload, weir_error *error) {
    uint8_t head[WEIR_INGEST__RUN_HEAD_SIZE];
    if (payload->size > WEIR_INGEST__RUN_FRAME_MAX)
        return weir__fail(error, WEIR_SOURCE_ERROR, w->failure_operator,
                          "table %s has a row of more than 1 GiB", w->table->name);
    weir__store32(head, WEIR__NARROW(uint32_t, payload->size));
    weir__blake3_of(payload->data, payload->size, head + 4);
    weir__blake3_update(&w->heads, head, sizeof head);
    WEIR__TRY(put(w, head, sizeof head, error));
    return put(w, payload->data, payload->size, error);
}

static weir_status begin_file(weir_ingest__run_writer *w, weir_error *error) {
    w->file_size = w->rows = 0;
    weir__blake3_init(&w->heads);
    w->other.size = 0;
    weir_cbor_restart(&w->other);
    weir_ingest__run_write_header(&w->other, w->table);
    WEIR__TRY(weir_cbor_finish(&w->other, error));
    WEIR__TRY(put(w, WEIR_INGEST__RUN_MAGIC, WEIR_INGEST__RUN_MAGIC_SIZE, error));
    return put_frame(w, &w->other, error);
}

static weir_status flush(weir_ingest__run_writer *w, weir_error *error) {
    weir_status status = w->frame.size > 0 ? put_frame(w, &w->frame, error) : WEIR_OK;
    w->frame.size = 0;
    return status;
}

weir_status weir_ingest__run_writer_end(weir_ingest__run_writer *w, weir_error *error) {
    weir_row_run_file file;
    uint8_t size[4];
    if (!w->before)
        return WEIR_OK;
    WEIR__TRY(flush(w, error));
    w->other.size = 0;
    weir_cbor_restart(&w->other);
    weir_ingest__run_write_end(&w->other, w->table, w->first.row, w->before, w->rows);
    WEIR__TRY(weir_cbor_finish(&w->other, error));
    WEIR__TRY(put_frame(w, &w->other, error));
    weir__store32(size, WEIR__NARROW(uint32_t, w->other.size));
    WEIR__TRY(put(w, size, sizeof size, error));
    file.rows = w->rows;
    file.size = w->file_size;
    weir__blake3_final(&w->heads, file.hash, sizeof file.hash);
    w->before = NULL;
    int code = w->end ? w->end(w->context, &file) : 0;
    if (code == 0)
        return WEIR_OK;
    return weir__fail(error, WEIR_IO_ERROR, w->failure_operator, "a file of table %s cannot be ended: %s",
                      w->table->name, strerror(code));
}

/* Why a row was not taken: text that is not UTF-8, or memory. */
static weir_status refuse_row(const weir_ingest__run_writer *w, const weir_ingest__value *row,
                              weir_error *error) {
    for (uint32_t c = 0; c < w->table->column_count; c++)
        if (row[c].type == WEIR_INGEST__TEXT && !weir__utf8_is_valid(row[c].text.data, row[c].text.size))
            return weir__fail(
                error, WEIR_SOURCE_ERROR, w->failure_operator,
                "table %s, column %s has text that is not UTF-8; give it as bytes, or leave the "
                "column out",
                w->table->name, w->table->columns[c].name);
    return weir__out_of_memory(error, w->failure_operator, w->frame.size);
}

void weir_ingest__run_writer_init(weir_ingest__run_writer *w) {
    w->frame_size = w->frame_size > 0 ? w->frame_size : FRAME_SIZE;
    w->first.env = w->last.env = w->env;
    weir_cbor_writer_memory(&w->frame, w->env);
    weir_cbor_writer_memory(&w->other, w->env);
}

void weir_ingest__run_writer_release(weir_ingest__run_writer *w) {
    weir_ingest__run_release_key(&w->first);
    weir_ingest__run_release_key(&w->last);
    weir_cbor_release(&w->frame);
    weir_cbor_release(&w->other);
}

weir_status weir_ingest__run_writer_put(weir_ingest__run_writer *w, const weir_ingest__value *row,
                                        weir_error *error) {
    if (w->before && weir_ingest__run_compare_rows(w->table, w->before, row) > 0)
        WEIR__TRY(weir_ingest__run_writer_end(w, error));
    if (!w->before) {
        WEIR__TRY(begin_file(w, error));
        if (!weir_ingest__run_keep_key(&w->first, w->table, row))
            return weir__out_of_memory(error, w->failure_operator, 1);
    }
    weir_cbor_restart(&w->frame);
    weir_ingest__run_write_row(&w->frame, row, w->table->column_count);
    if (w->frame.fault)
        return refuse_row(w, row, error);
    w->rows++;
    w->before = row;
    return w->frame.size >= w->frame_size ? flush(w, error) : WEIR_OK;
}

weir_status weir_ingest__run_writer_rest(weir_ingest__run_writer *w, weir_error *error) {
    if (!w->before || w->before == w->last.row)
        return WEIR_OK;
    if (!weir_ingest__run_keep_key(&w->last, w->table, w->before))
        return weir__out_of_memory(error, w->failure_operator, 1);
    w->before = w->last.row;
    return WEIR_OK;
}

/* ---- A table of Arrow's ------------------------------------------------------------------------ */

typedef struct table_writer {
    const weir_env *env;
    const weir_row_run_options *options;
    weir_ingest__source *source;
    weir_ingest__catalog catalog;
    weir_ingest__run_table table; /* columns are the catalog's */
    weir_ingest__cursor *cursor;
    weir_ingest__run_writer out;
} table_writer;

static weir_status write_rows(table_writer *w, weir_error *error) {
    weir_ingest__rows rows;
    for (;;) {
        WEIR__TRY(w->cursor->next(w->cursor, &rows, error));
        if (rows.row_count == 0)
            return weir_ingest__run_writer_end(&w->out, error);
        for (size_t r = 0; r < rows.row_count; r++)
            WEIR__TRY(weir_ingest__run_writer_put(&w->out, rows.cells + r * w->table.column_count, error));
        WEIR__TRY(weir_ingest__run_writer_rest(&w->out, error));
    }
}

static weir_status find_key(table_writer *w, weir_error *error) {
    const weir_row_run_options *options = w->options;
    const weir_ingest__catalog_table *from = &w->catalog.tables[0];
    w->table = (weir_ingest__run_table){
        .name = from->name, .columns = from->columns, .column_count = from->column_count};
    w->table.key = weir__allocate(w->env, options->key_count, sizeof *w->table.key);
    if (!w->table.key)
        return weir__out_of_memory(error, OPERATOR, options->key_count * sizeof *w->table.key);
    for (uint32_t i = 0; i < options->key_count; i++) {
        uint32_t column = weir_ingest__catalog_find_column(from, options->key[i]);
        bool is_repeated = false;
        for (uint32_t k = 0; k < i; k++)
            is_repeated = is_repeated || w->table.key[k] == column;
        if (column == UINT32_MAX || is_repeated)
            return weir__fail(error, WEIR_SCHEMA_INVALID, OPERATOR, "table %s: the key %s column %s",
                              from->name, is_repeated ? "names twice the" : "is not there: there is no",
                              options->key[i]);
        w->table.key[w->table.key_count++] = column;
    }
    return WEIR_OK;
}

static weir_status tell_columns(const table_writer *w, weir_error *error) {
    weir_json_writer out;
    if (!w->options->columns)
        return WEIR_OK;
    weir_json_writer_memory(&out, w->env);
    weir_json_array(&out);
    for (uint32_t c = 0; c < w->table.column_count; c++) {
        weir_json_array(&out);
        weir_json_text(&out, w->table.columns[c].name);
        weir_json_text(&out, weir_ingest__run_type_name(&w->table.columns[c]));
        weir_json_end_array(&out);
    }
    weir_json_end_array(&out);
    return weir_json_give(&out, w->options->columns, error);
}

static weir_status open_table(table_writer *w, weir_error *error) {
    weir_ingest__source_options from = {
        .arrow_tables = w->options->table, .arrow_table_count = 1, .arrow_is_read_once = true};
    WEIR__TRY(weir_ingest__source_open(w->env, &from, &w->source, error));
    WEIR__TRY(weir_ingest__source_describe(w->source, &w->catalog, error));
    WEIR__TRY(find_key(w, error));
    WEIR__TRY(tell_columns(w, error));
    uint32_t count = w->table.column_count;
    uint32_t *columns = weir__allocate(w->env, count, sizeof *columns);
    if (!columns)
        return weir__out_of_memory(error, OPERATOR, count * sizeof *columns);
    for (uint32_t c = 0; c < count; c++)
        columns[c] = c;
    weir_status status =
        weir_ingest__source_scan(w->source, &w->catalog.tables[0], columns, count, 0, 1, &w->cursor, error);
    weir__release(w->env, columns);
    return status;
}

weir_status weir_row_run_write(const weir_env *env, const weir_row_run_options *given, weir_error *error) {
    weir_row_run_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_row_run_options, OPERATOR, error));
    if (options.columns)
        *options.columns = (weir_bytes){0};
    if (!options.table || !options.write || (options.key_count > 0 && !options.key))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, OPERATOR,
                          "there is no table, no key, or nothing to write to");
    table_writer w = {.env = weir__env_or_default(env), .options = &options};
    w.out = (weir_ingest__run_writer){.env = w.env,
                                      .table = &w.table,
                                      .failure_operator = OPERATOR,
                                      .frame_size = options.frame_size,
                                      .write = options.write,
                                      .end = options.end,
                                      .context = options.context};
    weir_ingest__run_writer_init(&w.out);
    weir__floating kept = weir__enter_floating();
    weir_status status = open_table(&w, error);
    if (status == WEIR_OK)
        status = write_rows(&w, error);
    weir__leave_floating(&kept);
    if (w.cursor)
        w.cursor->close(w.cursor);
    weir_ingest__run_writer_release(&w.out);
    weir__release(w.env, w.table.key);
    weir_ingest__catalog_release(&w.catalog);
    weir_ingest__source_close(w.source);
    if (options.columns && status != WEIR_OK)
        weir_bytes_release(options.columns);
    return status;
}
