/* weir batch --html OUT: the page itself is cli/batch_page/; what it knows (batch_page_data.h) is written
 * into it as one document, or of mixed batches as {"parts": [...]}, one for each dataset. */
#include "batch_html.h"

#include <stdlib.h>
#include <string.h>

#include "batch_page_data.h"
#include "cli.h"
#include "page.h"

/* ---- What all sequences share ---------------------------------------------------------------- */

/* An end of a stretch of labels, rounded: it is nobody's value. */
static void write_stretch_end(weir_json_writer *w, const weir_task *task, const weir_column *column,
                              double value) {
    char text[40];
    if (weir_value_of(task->stype) == WEIR_VALUE_TIME)
        weir_timestamp_format((int64_t)value, text);
    else
        snprintf(text, sizeof text, "%.4g", value * column->statistics.std + column->statistics.mean);
    weir_json_text(w, text);
}

/* "items": [value, count], or [from, count, to] of stretches. */
static void write_labels(weir_json_writer *w, const weir_store *store, const weir_task *task,
                         const cli_labels *labels) {
    const weir_column *column = &weir_store_describe(store)->columns[task->column];
    weir_json_pair_object(w, "labels");
    weir_json_pair_uint(w, "count", labels->count);
    weir_json_pair_uint(w, "nulls", labels->nulls);
    weir_json_pair_uint(w, "others", labels->others);
    weir_json_pair_array(w, "items");
    for (uint32_t i = 0; i < labels->item_count; i++) {
        const cli_label_item *item = &labels->items[i];
        weir_cell value = {.stype = task->stype, .number = (float)item->low};
        if (weir_value_of(task->stype) != WEIR_VALUE_NUMBER)
            value.integer = (int64_t)item->low;
        weir_json_array(w);
        if (labels->are_stretches)
            write_stretch_end(w, task, column, item->low);
        else
            cli_batch_write_value(w, store, task->column, &value);
        weir_json_uint(w, item->count);
        if (labels->are_stretches)
            write_stretch_end(w, task, column, item->high);
        weir_json_end_array(w);
    }
    weir_json_end_array(w);
    weir_json_end_object(w);
}

/* Tables and columns. The table of a task's seeds has cells that are columns of the task's own. */
static void write_tables(weir_json_writer *w, const weir_store *store, const weir_task *task) {
    const weir_store_info *info = weir_store_describe(store);
    char text[1024];
    weir_json_pair_array(w, "tables");
    for (uint32_t t = 0; t < info->table_count; t++) {
        weir_json_object(w);
        weir_json_pair_text(w, "name", info->tables[t].name);
        weir_json_pair_uint(w, "row_start", info->tables[t].row_start);
        weir_json_pair_uint(w, "column_start", info->tables[t].column_start);
        weir_json_pair_bool(w, "has_keys", info->tables[t].key_form != WEIR_KEYS_NONE);
        weir_json_end_object(w);
    }
    if (task->has_label_times) {
        weir_json_object(w);
        weir_json_pair_text(w, "name", task->name);
        weir_json_pair_uint(w, "row_start", info->row_count);
        weir_json_pair_bool(w, "has_keys", false);
        weir_json_pair_bool(w, "is_task", true);
        weir_json_pair_array(w, "columns");
        weir_json_uint(w, task->column);
        weir_json_uint(w, task->observed_column);
        weir_json_end_array(w);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
    weir_json_pair_array(w, "columns");
    for (uint32_t c = 0; c < info->column_count; c++) {
        const weir_column *column = &info->columns[c];
        const char *known_at = NULL; /* with its row */
        if (column->known_time != WEIR_NONE) {
            weir_store_time_text(store, column->table, column->known_time, text, sizeof text);
            known_at = text;
        } else if (column->known_at != WEIR_NONE) {
            known_at = info->columns[column->known_at].name;
        }
        weir_json_object(w);
        weir_json_pair_text(w, "name", column->name);
        weir_json_pair_text(w, "about", column->description);
        weir_json_pair_text(w, "stype", weir_stype_name(column->stype));
        weir_json_pair_text(w, "known_at", known_at);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
}

/* A foreign key; `column` is WEIR_NONE if it has none. */
static void write_edge(weir_json_writer *w, const char *name, uint32_t column, uint32_t parent_table) {
    weir_json_object(w);
    weir_json_pair_text(w, "name", name);
    if (column == WEIR_NONE)
        weir_json_pair_text(w, "column", NULL);
    else
        weir_json_pair_uint(w, "column", column);
    weir_json_pair_uint(w, "parent_table", parent_table);
    weir_json_end_object(w);
}

static void write_head(weir_json_writer *w, const cli_batch_context *context, const weir_task *task,
                       const cli_labels *labels) {
    static const char *const visibilities[] = {"train", "all", "none", "a list of splits"};
    const weir_store_info *info = weir_store_describe(context->store);
    const weir_batch_config *batch = weir_manifest_describe(context->manifest)->batch;
    weir_json_pair_text(w, "version", weir_version());
    weir_json_pair_text(w, "dataset", context->dataset);
    if (context->stage)
        weir_json_pair_text(w, "stage", context->stage);
    weir_json_pair_text(w, "label_visibility", visibilities[batch->label_visibility]);
    weir_json_pair_bool(w, "shows_labels", batch->labels);
    weir_json_pair_uint(w, "world_size", context->world_size);
    weir_json_pair_uint(w, "rank", context->rank);
    weir_json_pair_object(w, "task");
    weir_json_pair_text(w, "name", task->name);
    weir_json_pair_text(w, "target", task->target_column);
    weir_json_pair_text(w, "stype", weir_stype_name(task->stype));
    weir_json_pair_text(w, "anchor_table", info->tables[task->anchor_table].name);
    weir_json_pair_uint(w, "column", task->column);
    weir_json_pair_bool(w, "is_cell", task->is_cell);
    weir_json_pair_bool(w, "has_label_times", task->has_label_times);
    if (task->link.is_link)
        weir_json_pair_text(w, "destination_table", info->tables[task->link.table].name);
    weir_json_pair_texts(w, "drop_columns", task->drop_columns, task->drop_column_count);
    weir_json_end_object(w);
    write_tables(w, context->store, task);
    weir_json_pair_array(w, "edges");
    for (uint32_t e = 0; e < info->edge_count; e++)
        write_edge(w, info->edges[e].name, info->edges[e].column, info->edges[e].parent_table);
    if (task->has_label_times)
        write_edge(w, "anchor", WEIR_NONE, task->anchor_table);
    weir_json_end_array(w);
    write_labels(w, context->store, task, labels);
}

/* ---- The page -------------------------------------------------------------------------------- */

/* What the page says of one dataset. */
typedef struct page_part {
    weir_json_writer writer;
    cli_batch_context context;
    cli_labels labels;
} page_part;

struct cli_batch_html {
    page_part *parts;
    uint32_t count; /* of them: 1, or the datasets of a mixed batch */
    bool is_mixed;
};

weir_status cli_batch_html_open(const cli_batch_context *context, const weir_batch *first,
                                cli_batch_html **out, weir_error *error) {
    uint32_t count = first->source_count;
    cli_batch_html *page = calloc(1, sizeof *page);
    page_part *parts = calloc(count ? count : 1, sizeof *parts);
    *out = NULL;
    if (!page || !parts) {
        free(page);
        free(parts);
        return cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for a page");
    }
    *page = (cli_batch_html){.parts = parts, .count = count ? count : 1, .is_mixed = count > 0};
    weir_status status = WEIR_OK;
    for (uint32_t i = 0; i < page->count && status == WEIR_OK; i++) {
        page_part *part = &parts[i];
        weir_json_writer *w = &part->writer;
        weir_stored_dataset dataset;
        part->context = *context;
        if (page->is_mixed) {
            part->context.store = first->sources[i].store;
            part->context.dataset = first->sources[i].dataset;
        }
        const weir_store *store = part->context.store;
        cli_json_begin(w);
        status = weir_store_dataset(store, part->context.dataset, &dataset, error);
        if (status == WEIR_OK)
            status = cli_labels_count(store, dataset.task, dataset.split, dataset.cardinality, &part->labels,
                                      error);
        if (status != WEIR_OK)
            break;
        write_head(w, &part->context, &weir_store_describe(store)->tasks[dataset.task], &part->labels);
        weir_json_pair_array(w, "steps");
    }
    if (status == WEIR_OK)
        *out = page;
    else
        cli_batch_html_close(page);
    return status;
}

void cli_batch_html_add(cli_batch_html *page, const weir_batch *batch) {
    for (uint32_t i = 0; i < page->count; i++)
        cli_batch_write_page_step(&page->parts[i].writer, batch, &page->parts[i].context, i,
                                  &page->parts[i].labels);
}

weir_status cli_batch_html_write(cli_batch_html *page, const char *path, weir_error *error) {
    weir_text *pieces = malloc((2 * (size_t)page->count + 1) * sizeof *pieces);
    if (!pieces)
        return cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for a page");
    weir_status status = WEIR_OK;
    size_t used = 0;
    for (uint32_t i = 0; i < page->count && status == WEIR_OK; i++) {
        weir_json_writer *w = &page->parts[i].writer;
        weir_json_end_array(w);
        weir_json_end_object(w);
        status = weir_json_finish(w, error);
        const char *before = i ? "," : "{\"parts\":[";
        pieces[used++] = (weir_text){before, strlen(before)};
        pieces[used++] = (weir_text){w->data, w->size};
    }
    pieces[used++] = (weir_text){"]}", 2};
    if (status == WEIR_OK && page->is_mixed)
        status = cli_write_page(CLI_PAGE(batch), pieces, used, path, error);
    else if (status == WEIR_OK)
        status = cli_write_page(CLI_PAGE(batch), &pieces[1], 1, path, error);
    free(pieces);
    return status;
}

void cli_batch_html_close(cli_batch_html *page) {
    if (!page)
        return;
    for (uint32_t i = 0; i < page->count; i++)
        weir_json_release(&page->parts[i].writer);
    free(page->parts);
    free(page);
}
