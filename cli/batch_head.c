/* See batch_head.h. */
#include "batch_head.h"

#include "cli.h"

/* Tables and columns. The table of a task's seeds has cells that are columns of the task's own. */
static void write_tables(weir_json_writer *w, const weir_store *store, const weir_task *task) {
    const weir_store_info *info = weir_store_describe(store);
    char text[1024];
    cli_json_array(w, "tables");
    for (uint32_t t = 0; t < info->table_count; t++) {
        weir_json_object(w);
        cli_json_text(w, "name", info->tables[t].name);
        cli_json_uint(w, "row_start", info->tables[t].row_start);
        cli_json_uint(w, "column_start", info->tables[t].column_start);
        cli_json_bool(w, "has_keys", info->tables[t].key_form != WEIR_KEYS_NONE);
        weir_json_end_object(w);
    }
    if (task->has_label_times) {
        weir_json_object(w);
        cli_json_text(w, "name", task->name);
        cli_json_uint(w, "row_start", info->row_count);
        cli_json_bool(w, "has_keys", false);
        cli_json_bool(w, "is_task", true);
        cli_json_array(w, "columns");
        weir_json_uint(w, task->column);
        weir_json_uint(w, task->observed_column);
        weir_json_end_array(w);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
    cli_json_array(w, "columns");
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
        cli_json_text(w, "name", column->name);
        cli_json_text(w, "about", column->description);
        cli_json_text(w, "stype", weir_stype_name(column->stype));
        cli_json_text(w, "known_at", known_at);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
}

/* A foreign key; `column` is WEIR_NONE if it has none. */
static void write_edge(weir_json_writer *w, const char *name, uint32_t column, uint32_t parent_table) {
    weir_json_object(w);
    cli_json_text(w, "name", name);
    if (column == WEIR_NONE)
        cli_json_text(w, "column", NULL);
    else
        cli_json_uint(w, "column", column);
    cli_json_uint(w, "parent_table", parent_table);
    weir_json_end_object(w);
}

void cli_batch_head(weir_json_writer *w, const weir_store *store, const weir_task *task) {
    const weir_store_info *info = weir_store_describe(store);
    cli_json_object(w, "task");
    cli_json_text(w, "name", task->name);
    cli_json_text(w, "target", task->target_column);
    cli_json_text(w, "stype", weir_stype_name(task->stype));
    cli_json_text(w, "anchor_table", info->tables[task->anchor_table].name);
    cli_json_uint(w, "column", task->column);
    cli_json_bool(w, "is_cell", task->is_cell);
    cli_json_bool(w, "has_label_times", task->has_label_times);
    if (task->link.is_link)
        cli_json_text(w, "destination_table", info->tables[task->link.table].name);
    cli_json_array(w, "drop_columns");
    for (uint32_t i = 0; i < task->drop_column_count; i++)
        weir_json_text(w, task->drop_columns[i]);
    weir_json_end_array(w);
    weir_json_end_object(w);
    write_tables(w, store, task);
    cli_json_array(w, "edges");
    for (uint32_t e = 0; e < info->edge_count; e++)
        write_edge(w, info->edges[e].name, info->edges[e].column, info->edges[e].parent_table);
    if (task->has_label_times)
        write_edge(w, "anchor", WEIR_NONE, task->anchor_table);
    weir_json_end_array(w);
}
