/* The metadata section: what docs/format.md says of it, from a weir_store_info. Keys stand in canonical
 * order (shorter first); the writer refuses any other. */
#include <string.h>

#include "store/format.h"

static void put_uint(weir_cbor_writer *w, const char *key, uint64_t value) {
    weir_cbor_text(w, key);
    weir_cbor_uint(w, value);
}

static void put_text(weir_cbor_writer *w, const char *key, const char *text) {
    weir_cbor_text(w, key);
    weir_cbor_text(w, text);
}

static void put_double(weir_cbor_writer *w, const char *key, double value) {
    weir_cbor_text(w, key);
    weir_cbor_double(w, value);
}

static void put_bool(weir_cbor_writer *w, const char *key, bool value) {
    weir_cbor_text(w, key);
    weir_cbor_bool(w, value);
}

/* A number, or null where it is WEIR_NONE. */
static void put_optional(weir_cbor_writer *w, const char *key, uint32_t value) {
    weir_cbor_text(w, key);
    if (value == WEIR_NONE)
        weir_cbor_null(w);
    else
        weir_cbor_uint(w, value);
}

static void put_texts(weir_cbor_writer *w, const char *key, const char *const *texts, uint32_t count) {
    weir_cbor_text(w, key);
    weir_cbor_array(w, count);
    for (uint32_t i = 0; i < count; i++)
        weir_cbor_text(w, texts[i]);
}

/* The numbers of the bytes that are 1. */
static void put_marked(weir_cbor_writer *w, const char *key, const uint8_t *marks, uint32_t count) {
    uint32_t marked = 0;
    for (uint32_t i = 0; i < count; i++)
        marked += marks[i];
    weir_cbor_text(w, key);
    weir_cbor_array(w, marked);
    for (uint32_t i = 0; i < count; i++)
        if (marks[i])
            weir_cbor_uint(w, i);
}

static void put_times(weir_cbor_writer *w, const weir_table *table) {
    weir_cbor_text(w, "times");
    weir_cbor_array(w, table->time_count);
    for (uint32_t i = 0; i < table->time_count; i++) {
        const weir_stored_time *time = &table->times[i];
        weir_cbor_map(w, 2);
        weir_cbor_text(w, "of");
        weir_cbor_array(w, time->path_count);
        for (uint32_t p = 0; p < time->path_count; p++) {
            weir_cbor_array(w, time->paths[p].count);
            for (uint32_t k = 0; k < time->paths[p].count; k++)
                weir_cbor_text(w, time->paths[p].names[k]);
        }
        put_uint(w, "nulls", time->nulls);
    }
}

static void put_int(weir_cbor_writer *w, const char *key, int64_t value) {
    weir_cbor_text(w, key);
    weir_cbor_int(w, value);
}

static void put_keys(weir_cbor_writer *w, const weir_table *table) {
    bool is_cbor = table->key_form == WEIR_KEYS_CBOR, is_packed = table->key_form == WEIR_KEYS_PACKED;
    weir_cbor_text(w, "keys");
    weir_cbor_map(w, is_packed ? 3 : 2);
    put_text(w, "form", weir_store__key_form_name(table->key_form));
    if (is_cbor)
        put_uint(w, "size", table->key_size);
    else
        put_int(w, "first", table->key_first);
    if (is_packed)
        put_uint(w, "width", table->key_width);
}

static void put_table(weir_cbor_writer *w, const weir_table *table) {
    bool has_time = table->temporal_time != WEIR_NONE, has_times = table->time_count > 0;
    bool has_keys = table->key_form != WEIR_KEYS_NONE;
    weir_cbor_map(w, 5u + has_keys + has_time + has_times);
    if (has_keys)
        put_keys(w, table);
    put_text(w, "name", table->name);
    put_uint(w, "rows", table->row_count);
    if (has_time)
        put_uint(w, "time", table->temporal_time);
    if (has_times)
        put_times(w, table);
    put_uint(w, "columns", table->column_count);
    put_texts(w, "primary_key", table->primary_key, table->primary_key_count);
    put_optional(w, "temporal_column", table->temporal_column);
}

static void put_column(weir_cbor_writer *w, const weir_column *column) {
    bool has_known_time = column->known_time != WEIR_NONE;
    weir_cbor_map(w, 11u + has_known_time);
    put_double(w, "std", column->statistics.std);
    put_double(w, "mean", column->statistics.mean);
    put_text(w, "name", column->name);
    put_uint(w, "count", column->statistics.count);
    put_uint(w, "nulls", column->nulls);
    put_uint(w, "stype", (uint64_t)column->stype);
    put_optional(w, "known_at", column->known_at);
    if (has_known_time)
        put_uint(w, "known_time", column->known_time);
    put_uint(w, "not_finite", column->not_finite);
    put_text(w, "description", column->description);
    put_uint(w, "category_count", column->category_count);
    put_uint(w, "category_start", column->category_start);
}

static void put_edge(weir_cbor_writer *w, const weir_edge *edge) {
    bool has_known_time = edge->known_time != WEIR_NONE;
    bool has_columns = edge->column_count != 1 || strcmp(edge->columns[0], edge->name) != 0;
    weir_cbor_map(w, 8u + has_known_time + has_columns);
    put_text(w, "name", edge->name);
    put_uint(w, "edges", edge->edges);
    put_uint(w, "table", edge->table);
    put_optional(w, "column", edge->column);
    if (has_columns)
        put_texts(w, "columns", edge->columns, edge->column_count);
    put_uint(w, "dangling", edge->dangling);
    put_optional(w, "known_at", edge->known_at);
    put_bool(w, "has_times", edge->child_times != NULL);
    if (has_known_time)
        put_uint(w, "known_time", edge->known_time);
    put_uint(w, "parent_table", edge->parent_table);
}

static void put_link(weir_cbor_writer *w, const weir_link *link) {
    bool has_edge = link->edge != WEIR_NONE;
    weir_cbor_text(w, "link");
    weir_cbor_map(w, 4u + has_edge);
    if (has_edge)
        put_uint(w, "edge", link->edge);
    put_uint(w, "late", link->late);
    put_uint(w, "lists", link->lists);
    put_uint(w, "table", link->table);
    put_uint(w, "repeated", link->repeated);
}

static void put_task(weir_cbor_writer *w, const weir_store_info *info, const weir_task *task) {
    const weir_column *column = &info->columns[task->column];
    bool is_derived = !task->is_cell, has_rule = task->before_anchor != WEIR_BEFORE_ANCHOR_KEEP;
    bool says_drops = task->drops_target != weir_store__names_target(info, task);
    weir_cbor_map(w, 17u + 2u * has_rule + task->has_train_statistics + says_drops +
                         (task->weight_column != NULL) + 3u * task->has_label_times + task->link.is_link);
    put_double(w, "std", is_derived ? column->statistics.std : 1.0);
    if (task->link.is_link)
        put_link(w, &task->link);
    put_double(w, "mean", is_derived ? column->statistics.mean : 0.0);
    put_text(w, "name", task->name);
    put_uint(w, "count", is_derived ? column->statistics.count : 0);
    if (has_rule)
        put_uint(w, "early", task->early_seeds);
    put_uint(w, "stype", (uint64_t)task->stype);
    put_uint(w, "column", task->column);
    if (task->has_label_times) {
        weir_cbor_text(w, "labels");
        weir_cbor_array(w, WEIR_STORE__LABEL_LISTS);
        weir_cbor_uint(w, task->labels.count);
        weir_cbor_uint(w, task->train_labels.count);
    }
    weir_cbor_text(w, "splits");
    weir_cbor_array(w, WEIR_SPLITS);
    for (int i = 0; i < WEIR_SPLITS; i++)
        weir_cbor_uint(w, task->split_start[i + 1] - task->split_start[i]);
    put_uint(w, "dropped", task->dropped);
    if (task->has_horizon)
        put_uint(w, "horizon", (uint64_t)task->horizon);
    put_bool(w, "is_cell", task->is_cell);
    if (task->has_label_times)
        put_text(w, "observed", info->columns[task->observed_column].name);
    put_bool(w, "has_times", task->seed_times != NULL);
    put_texts(w, "drop_names", task->drop_columns, task->drop_column_count);
    put_uint(w, "anchor_table", task->anchor_table);
    put_marked(w, "drop_columns", task->column_dropped, info->column_count);
    if (says_drops)
        put_bool(w, "drops_target", task->drops_target);
    put_marked(w, "hidden_edges", task->edge_hidden, info->edge_count);
    if (has_rule)
        put_text(w, "before_anchor", weir_store__before_anchor_name(task->before_anchor));
    put_text(w, "target_column", task->target_column);
    if (task->weight_column)
        put_text(w, "weight_column", task->weight_column);
    put_uint(w, "category_count", is_derived ? column->category_count : 0);
    put_uint(w, "category_start", is_derived ? column->category_start : 0);
    if (task->has_train_statistics)
        put_text(w, "target_statistics", "train");
    if (task->label_known_column)
        put_text(w, "label_known_column", task->label_known_column);
}

static void put_frame_end(weir_cbor_writer *w, const weir_store_info *info) {
    weir_cbor_text(w, "embedding");
    weir_cbor_map(w, 2);
    put_uint(w, "dim", info->embedding_dim);
    put_text(w, "provider", info->embedding_provider);
    put_uint(w, "categories", info->category_count);
    weir_cbor_text(w, "timestamps");
    weir_cbor_map(w, 3);
    put_double(w, "std", info->timestamps.std);
    put_double(w, "mean", info->timestamps.mean);
    put_uint(w, "count", info->timestamps.count);
    weir_cbor_text(w, "statistics_until");
    if (info->has_statistics_until)
        weir_cbor_int(w, info->statistics_until);
    else
        weir_cbor_null(w);
}

void weir_store__metadata_write(const weir_store_info *info, weir_cbor_writer *w) {
    weir_cbor_map(w, 11);
    put_text(w, "name", info->name);
    put_uint(w, "rows", info->row_count);
    weir_cbor_text(w, "edges");
    weir_cbor_array(w, info->edge_count);
    for (uint32_t i = 0; i < info->edge_count; i++)
        put_edge(w, &info->edges[i]);
    weir_cbor_text(w, "tasks");
    weir_cbor_array(w, info->task_count);
    for (uint32_t i = 0; i < info->task_count; i++)
        put_task(w, info, &info->tasks[i]);
    put_uint(w, "texts", info->text_count);
    weir_cbor_text(w, "tables");
    weir_cbor_array(w, info->table_count);
    for (uint32_t i = 0; i < info->table_count; i++)
        put_table(w, &info->tables[i]);
    weir_cbor_text(w, "columns");
    weir_cbor_array(w, info->table_column_count);
    for (uint32_t i = 0; i < info->table_column_count; i++)
        put_column(w, &info->columns[i]);
    put_frame_end(w, info);
}
