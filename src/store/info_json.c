/* A store's description as JSON. */
#include <stdio.h>
#include <string.h>

#include "store/reader.h"
#include "weir_tool/store_tools.h"

static void put_statistics(weir_json_writer *w, const weir_statistics *statistics) {
    weir_json_pair_double(w, "mean", statistics->mean);
    weir_json_pair_double(w, "std", statistics->std);
    weir_json_pair_uint(w, "count", statistics->count);
}

/* What is known of the values of a column, or of a task's own target. */
static void put_values(weir_json_writer *w, const weir_column *column, weir_stype stype) {
    if (weir_value_of(stype) == WEIR_VALUE_NUMBER)
        put_statistics(w, &column->statistics);
    if (weir_value_of(stype) == WEIR_VALUE_CATEGORY) {
        weir_json_pair_uint(w, "cat_emb_start", column->category_start);
        weir_json_pair_uint(w, "cat_emb_count", column->category_count);
    }
}

/* A stored time of a table in words, where it has one. */
static void put_time(weir_json_writer *w, const weir_store *store, const char *key, uint32_t table,
                     uint32_t time) {
    char text[1024];
    if (time == WEIR_NONE)
        return;
    weir_store_time_text(store, table, time, text, sizeof text);
    weir_json_pair_text(w, key, text);
}

static const char *column_name(const weir_store_info *info, uint32_t column) {
    return column == WEIR_NONE ? NULL : info->columns[column].name;
}

static void put_table(weir_json_writer *w, const weir_store *store, uint32_t number) {
    const weir_store_info *info = &store->info;
    const weir_table *table = &info->tables[number];
    weir_json_object(w);
    weir_json_pair_text(w, "name", table->name);
    weir_json_pair_uint(w, "row_start", table->row_start);
    weir_json_pair_uint(w, "rows", table->row_count);
    weir_json_pair_texts(w, "primary_key", table->primary_key, table->primary_key_count);
    weir_json_pair_text(w, "temporal_column", column_name(info, table->temporal_column));
    put_time(w, store, "time", number, table->temporal_time);
    weir_json_pair_uint(w, "row_bytes", table->stride);
    if (table->key_form != WEIR_KEYS_NONE)
        weir_json_pair_text(w, "keys", weir_store__key_forms[table->key_form]);
    weir_json_end_object(w);
}

static void put_column(weir_json_writer *w, const weir_store *store, uint32_t number) {
    const weir_store_info *info = &store->info;
    const weir_column *column = &info->columns[number];
    weir_json_object(w);
    weir_json_pair_uint(w, "column_idx", number);
    weir_json_pair_text(w, "table", info->tables[column->table].name);
    weir_json_pair_text(w, "name", column->name);
    weir_json_pair_text(w, "stype", weir_stype_name(column->stype));
    weir_json_pair_text(w, "known_at", column_name(info, column->known_at));
    put_time(w, store, "known_time", column->table, column->known_time);
    weir_json_pair_uint(w, "nulls", column->nulls);
    if (weir_value_of(column->stype) == WEIR_VALUE_NUMBER)
        weir_json_pair_uint(w, "not_finite", column->not_finite);
    put_values(w, column, column->stype);
    if (*column->description)
        weir_json_pair_text(w, "description", column->description);
    weir_json_end_object(w);
}

static void put_edge(weir_json_writer *w, const weir_store *store, const weir_edge *edge) {
    const weir_store_info *info = &store->info;
    weir_json_object(w);
    weir_json_pair_text(w, "table", info->tables[edge->table].name);
    weir_json_pair_text(w, "column", edge->name);
    if (edge->column_count > 1 || strcmp(edge->columns[0], edge->name) != 0)
        weir_json_pair_texts(w, "columns", edge->columns, edge->column_count);
    weir_json_pair_text(w, "parent_table", info->tables[edge->parent_table].name);
    weir_json_pair_text(w, "known_at", column_name(info, edge->known_at));
    put_time(w, store, "known_time", edge->table, edge->known_time);
    weir_json_pair_uint(w, "edges", edge->edges);
    weir_json_pair_uint(w, "dangling", edge->dangling);
    weir_json_end_object(w);
}

static void put_task(weir_json_writer *w, const weir_store_info *info, uint32_t number) {
    const weir_task *task = &info->tasks[number];
    weir_json_object(w);
    weir_json_pair_uint(w, "task_idx", number);
    weir_json_pair_text(w, "name", task->name);
    weir_json_pair_text(w, "kind", weir_task_kind(task));
    weir_json_pair_text(w, "stype", weir_stype_name(task->stype));
    weir_json_pair_uint(w, "column_idx", task->column);
    weir_json_pair_text(w, "anchor_table", info->tables[task->anchor_table].name);
    weir_json_pair_uint(w, "seeds", task->seed_count);
    weir_json_pair_uint(w, "dropped", task->dropped);
    if (task->before_anchor != WEIR_BEFORE_ANCHOR_KEEP) {
        weir_json_pair_text(w, "before_anchor", weir_store__before_anchors[task->before_anchor]);
        weir_json_pair_uint(w, "early", task->early_seeds);
    }
    if (task->has_train_statistics)
        weir_json_pair_text(w, "target_statistics", "train");
    weir_json_pair_object(w, "splits");
    for (int split = 0; split < WEIR_SPLITS; split++)
        weir_json_pair_uint(w, weir_split_name((weir_split)split),
                            task->split_start[split + 1] - task->split_start[split]);
    weir_json_end_object(w);
    weir_json_pair_texts(w, "drop_columns", task->drop_columns, task->drop_column_count);
    if (task->weight_column)
        weir_json_pair_text(w, "weight_column", task->weight_column);
    if (task->has_horizon)
        weir_json_pair_uint(w, "horizon", (uint64_t)task->horizon);
    if (task->label_known_column)
        weir_json_pair_text(w, "label_known_column", task->label_known_column);
    if (task->has_label_times) {
        weir_json_pair_uint(w, "observed_column_idx", task->observed_column);
        weir_json_pair_uint(w, "labels", task->labels.count);
    }
    const weir_link *link = &task->link;
    if (link->is_link) {
        weir_json_pair_text(w, "destination_table", info->tables[link->table].name);
        weir_json_pair_uint(w, "lists", link->lists);
        weir_json_pair_uint(w, "late", link->late);
        weir_json_pair_uint(w, "repeated", link->repeated);
    }
    if (link->is_link && link->edge != WEIR_NONE) {
        const weir_edge *edge = &info->edges[link->edge];
        const char *const names[] = {info->tables[edge->table].name, edge->name};
        weir_json_pair_texts(w, "popularity", names, 2);
    }
    if (!task->is_cell)
        put_values(w, &info->columns[task->column], task->stype);
    weir_json_end_object(w);
}

/* "<name>/<task>/<split>" of every split, in the order of tasks. */
static void put_datasets(weir_json_writer *w, const weir_store_info *info) {
    weir_json_pair_object(w, "datasets");
    for (uint32_t t = 0; t < info->task_count; t++)
        for (int split = 0; split < WEIR_SPLITS; split++) {
            const weir_task *task = &info->tasks[t];
            char key[1024];
            snprintf(key, sizeof key, "%s/%s/%s", info->name, task->name, weir_split_name((weir_split)split));
            weir_json_pair_uint(w, key, task->split_start[split + 1] - task->split_start[split]);
        }
    weir_json_end_object(w);
}

static void put_sections(weir_json_writer *w, const weir_store_info *info) {
    weir_json_pair_array(w, "sections");
    for (uint32_t i = 0; i < info->section_count; i++) {
        weir_json_object(w);
        weir_json_pair_text(w, "name", info->sections[i].name);
        weir_json_pair_uint(w, "offset", info->sections[i].offset);
        weir_json_pair_uint(w, "size", info->sections[i].size);
        weir_json_pair_hex(w, "blake3", info->sections[i].hash, WEIR_HASH_SIZE);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
}

void weir_store_info_json(const weir_store *store, weir_json_writer *w) {
    const weir_store_info *info = &store->info;
    weir_json_object(w);
    weir_json_pair_text(w, "name", info->name);
    weir_json_pair_hex(w, "store_hash", info->store_hash, WEIR_HASH_SIZE);
    weir_json_pair_uint(w, "format_version", info->format);
    weir_json_pair_uint(w, "file_size", info->file_size);
    weir_json_pair_uint(w, "rows", info->row_count);
    weir_json_pair_uint(w, "num_columns", info->column_count);
    weir_json_key(w, "statistics_until");
    if (info->has_statistics_until)
        weir_json_int(w, info->statistics_until);
    else
        weir_json_null(w);
    weir_json_pair_object(w, "timestamps");
    put_statistics(w, &info->timestamps);
    weir_json_end_object(w);
    weir_json_pair_array(w, "tables");
    for (uint32_t i = 0; i < info->table_count; i++)
        put_table(w, store, i);
    weir_json_end_array(w);
    weir_json_pair_array(w, "columns");
    for (uint32_t i = 0; i < info->table_column_count; i++)
        put_column(w, store, i);
    weir_json_end_array(w);
    weir_json_pair_array(w, "edges");
    for (uint32_t i = 0; i < info->edge_count; i++)
        put_edge(w, store, &info->edges[i]);
    weir_json_end_array(w);
    weir_json_pair_array(w, "tasks");
    for (uint32_t i = 0; i < info->task_count; i++)
        put_task(w, info, i);
    weir_json_end_array(w);
    put_datasets(w, info);
    weir_json_pair_uint(w, "num_categories", info->category_count);
    weir_json_pair_uint(w, "num_texts", info->text_count);
    weir_json_pair_object(w, "embedding");
    weir_json_pair_text(w, "provider", info->embedding_provider);
    weir_json_pair_uint(w, "dim", info->embedding_dim);
    weir_json_end_object(w);
    put_sections(w, info);
    weir_json_end_object(w);
}
