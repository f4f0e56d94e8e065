/* See batch_head.h. */
#include "batch_head.h"

#include "cli.h"

/* A number, or null for WEIR_NONE. */
static void write_link(weir_json_writer *w, const char *key, uint32_t value) {
    weir_json_key(w, key);
    if (value == WEIR_NONE)
        weir_json_null(w);
    else
        weir_json_uint(w, value);
}

/* When a column's cells are known, in words; null: with their rows. */
static void write_known_at(weir_json_writer *w, const weir_store *store, const weir_column *column) {
    const weir_store_info *info = weir_store_describe(store);
    char text[1024];
    weir_json_key(w, "known_at");
    if (column->known_time != WEIR_NONE) {
        weir_store_time_text(store, column->table, column->known_time, text, sizeof text);
        weir_json_text(w, text);
    } else if (column->known_at != WEIR_NONE) {
        weir_json_text(w, info->columns[column->known_at].name);
    } else {
        weir_json_null(w);
    }
}

/* The table of a task's seeds, whose cells are columns of the task's own. */
static void write_task_table(weir_json_writer *w, const weir_store_info *info, const weir_task *task) {
    weir_json_object(w);
    cli_json_text(w, "name", task->name);
    cli_json_uint(w, "row_start", info->row_count);
    cli_json_bool(w, "has_keys", false);
    cli_json_bool(w, "is_task", true);
    weir_json_key(w, "columns");
    weir_json_array(w);
    weir_json_uint(w, task->column);
    weir_json_uint(w, task->observed_column);
    weir_json_end_array(w);
    weir_json_end_object(w);
}

static void write_tables(weir_json_writer *w, const weir_store *store, const weir_task *task) {
    const weir_store_info *info = weir_store_describe(store);
    weir_json_key(w, "tables");
    weir_json_array(w);
    for (uint32_t t = 0; t < info->table_count; t++) {
        weir_json_object(w);
        cli_json_text(w, "name", info->tables[t].name);
        cli_json_uint(w, "row_start", info->tables[t].row_start);
        cli_json_uint(w, "column_start", info->tables[t].column_start);
        cli_json_bool(w, "has_keys", info->tables[t].key_form != WEIR_KEYS_NONE);
        weir_json_end_object(w);
    }
    if (task->has_label_times)
        write_task_table(w, info, task);
    weir_json_end_array(w);
    weir_json_key(w, "columns");
    weir_json_array(w);
    for (uint32_t c = 0; c < info->column_count; c++) {
        weir_json_object(w);
        cli_json_text(w, "name", info->columns[c].name);
        cli_json_text(w, "about", info->columns[c].description);
        cli_json_text(w, "stype", weir_stype_name(info->columns[c].stype));
        write_known_at(w, store, &info->columns[c]);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
}

static void write_edges(weir_json_writer *w, const weir_store_info *info, const weir_task *task) {
    weir_json_key(w, "edges");
    weir_json_array(w);
    for (uint32_t e = 0; e < info->edge_count; e++) {
        weir_json_object(w);
        cli_json_text(w, "name", info->edges[e].name);
        write_link(w, "column", info->edges[e].column);
        cli_json_uint(w, "parent_table", info->edges[e].parent_table);
        weir_json_end_object(w);
    }
    if (task->has_label_times) {
        weir_json_object(w);
        cli_json_text(w, "name", "anchor");
        write_link(w, "column", WEIR_NONE);
        cli_json_uint(w, "parent_table", task->anchor_table);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
}

static void write_task(weir_json_writer *w, const weir_store_info *info, const weir_task *task) {
    weir_json_key(w, "task");
    weir_json_object(w);
    cli_json_text(w, "name", task->name);
    cli_json_text(w, "target", task->target_column);
    cli_json_text(w, "stype", weir_stype_name(task->stype));
    cli_json_text(w, "anchor_table", info->tables[task->anchor_table].name);
    cli_json_uint(w, "column", task->column);
    cli_json_bool(w, "is_cell", task->is_cell);
    cli_json_bool(w, "has_label_times", task->has_label_times);
    if (task->link.is_link)
        cli_json_text(w, "destination_table", info->tables[task->link.table].name);
    weir_json_key(w, "drop_columns");
    weir_json_array(w);
    for (uint32_t i = 0; i < task->drop_column_count; i++)
        weir_json_text(w, task->drop_columns[i]);
    weir_json_end_array(w);
    weir_json_end_object(w);
}

void cli_batch_head(weir_json_writer *w, const weir_store *store, const weir_task *task) {
    const weir_store_info *info = weir_store_describe(store);
    write_task(w, info, task);
    write_tables(w, store, task);
    write_edges(w, info, task);
}
