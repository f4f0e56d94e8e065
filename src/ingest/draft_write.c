/* A draft as a schema, and its reasons, as JSON. */
#include <string.h>

#include "ingest/draft.h"
#include "ingest/schema_reader.h"
#include "weir_tool/store_tools.h"

static bool is_table(const void *context, const char *name, size_t size) {
    const weir_ingest__draft *draft = context;
    for (uint32_t t = 0; t < draft->table_count; t++) {
        const char *own = draft->tables[t].name;
        if (strlen(own) == size && memcmp(own, name, size) == 0)
            return true;
    }
    return false;
}

static void put_names(weir_json_writer *w, const weir_ingest__draft_table *table, const uint32_t *columns,
                      uint32_t count) {
    if (count > 1)
        weir_json_array(w);
    for (uint32_t i = 0; i < count; i++)
        weir_json_text(w, table->columns[columns[i]].name);
    if (count > 1)
        weir_json_end_array(w);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void put_time(weir_ingest__draft *draft, weir_json_writer *w, const weir_ingest__draft_table *table) {
    const char *keys[WEIR_INGEST__TIME_KEYS_MAX], *tables[WEIR_INGEST__TIME_KEYS_MAX];
    uint32_t count = 0;
    if (!weir_ingest__draft_has_time(table))
        return;
    weir_json_key(w, "temporal_column");
    for (; table->time == WEIR_NONE; count++) {
        const weir_ingest__draft_key *key = &table->keys[table->time_key];
        assert(count < WEIR_INGEST__TIME_KEYS_MAX && "a time that comes through too many keys");
        keys[count] = weir_ingest__draft_names(draft, table, key->columns, key->column_count, "+");
        table = &draft->tables[key->parent];
        tables[count] = table->name;
    }
    const char *column = table->columns[table->time].name;
    if (count > 0)
        weir_ingest__json_time(w, &draft->arena, keys, tables, count, column);
    else
        weir_json_text(w, column);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void put_column(weir_ingest__draft *draft, weir_json_writer *w, const weir_ingest__draft_table *table,
                       uint32_t c) {
    const weir_ingest__draft_column *column = &table->columns[c];
    weir_json_pair_object(w, column->name);
    weir_json_pair_text(w, "stype", weir_stype_name(column->stype));
    for (uint32_t i = 0; i < table->key_count; i++) {
        const weir_ingest__draft_key *key = &table->keys[i];
        if (key->column_count != 1 || key->columns[0] != c)
            continue;
        const weir_ingest__draft_table *parent = &draft->tables[key->parent];
        weir_json_key(w, "foreign_key");
        weir_ingest__json_joined_name(w, &draft->arena, parent->name,
                                      parent->columns[key->parent_columns[0]].name, is_table, draft);
    }
    if (column->stype == WEIR_TIMESTAMP && column->form.format)
        weir_json_pair_text(w, "format", column->format.pattern);
    else if (column->stype == WEIR_TIMESTAMP && column->form.says_unit)
        weir_json_pair_text(w, "unit", weir_ingest__units[column->form.unit]);
    if (column->is_known_with_row) {
        weir_json_key(w, "known_at");
        weir_json_null(w);
    }
    weir_json_end_object(w);
}

/* Keys of several columns. */
static void put_joint_keys(const weir_ingest__draft *draft, weir_json_writer *w,
                           const weir_ingest__draft_table *table) {
    bool has_begun = false;
    for (uint32_t i = 0; i < table->key_count; i++) {
        const weir_ingest__draft_key *key = &table->keys[i];
        if (key->column_count == 1)
            continue;
        if (!has_begun) {
            weir_json_pair_array(w, "foreign_keys");
        }
        has_begun = true;
        weir_json_object(w);
        weir_json_key(w, "columns");
        put_names(w, table, key->columns, key->column_count);
        weir_json_pair_text(w, "table", draft->tables[key->parent].name);
        weir_json_key(w, "to");
        put_names(w, &draft->tables[key->parent], key->parent_columns, key->column_count);
        weir_json_end_object(w);
    }
    if (has_begun)
        weir_json_end_array(w);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

static void put_character(weir_json_writer *w, const char *key, char character) {
    char text[2] = {character, 0};
    weir_json_pair_text(w, key, character == '\t' ? "\\t" : text);
}

/* How a table's files were read; beside `first` (or NULL) only what differs from it. */
static void put_csv(weir_json_writer *w, const weir_ingest__csv_table *table,
                    const weir_ingest__csv_table *first) {
    const weir_ingest__csv_dialect *dialect = &table->dialect;
    bool says_delimiter = !first || dialect->delimiter != first->dialect.delimiter;
    bool says_quote = !first || dialect->quote != first->dialect.quote;
    bool says_header = !first || dialect->has_header != first->dialect.has_header;
    bool says_nulls = !first || !weir_ingest__names_equal(table->options.nulls, table->options.null_count,
                                                          first->options.nulls, first->options.null_count);
    if (!says_delimiter && !says_quote && !says_header && !says_nulls)
        return;
    weir_json_pair_object(w, "csv");
    if (says_delimiter)
        put_character(w, "delimiter", dialect->delimiter);
    if (says_quote)
        put_character(w, "quote", dialect->quote);
    if (says_header)
        weir_json_pair_bool(w, "header", dialect->has_header);
    if (says_nulls)
        weir_json_pair_texts(w, "null", table->options.nulls, table->options.null_count);
    weir_json_end_object(w);
}

/* The first table that is made of CSV files, or NULL. */
static const weir_ingest__csv_table *first_csv(const weir_ingest__draft *draft) {
    for (uint32_t t = 0; t < draft->table_count; t++)
        if (draft->tables[t].source->csv)
            return draft->tables[t].source->csv;
    return NULL;
}

/* ---- Tables, whole ---------------------------------------------------------------------------- */

static void put_table(weir_ingest__draft *draft, weir_json_writer *w, const weir_ingest__draft_table *table) {
    weir_json_pair_object(w, table->name);
    if (table->primary_key_count > 0) {
        weir_json_key(w, "primary_key");
        put_names(w, table, table->primary_key, table->primary_key_count);
    }
    put_time(draft, w, table);
    put_joint_keys(draft, w, table);
    if (table->source->csv && table->source->csv != first_csv(draft))
        put_csv(w, table->source->csv, first_csv(draft));
    weir_json_pair_object(w, "columns");
    for (uint32_t c = 0; c < table->column_count; c++)
        put_column(draft, w, table, c);
    weir_json_end_object(w);
    weir_json_end_object(w);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static void put_moment(weir_json_writer *w, const char *key, int64_t micros) {
    char text[40];
    weir_timestamp_format(micros, text);
    weir_json_pair_text(w, key, text);
}

static void put_task(weir_ingest__draft *draft, weir_json_writer *w, const weir_ingest__draft_task *task,
                     const char *name) {
    const weir_ingest__draft_table *table = &draft->tables[task->table];
    weir_json_pair_object(w, name);
    weir_json_pair_text(w, "anchor_table", table->name);
    weir_json_pair_text(w, "target_column", table->columns[task->column].name);
    weir_json_pair_text(w, "target_stype", weir_stype_name(table->columns[task->column].stype));
    if (task->has_split) {
        weir_json_pair_object(w, "split");
        weir_json_pair_text(w, "method", "temporal");
        put_moment(w, "val", task->val);
        put_moment(w, "test", task->test);
        weir_json_end_object(w);
    }
    if (task->dropped_count > 0) {
        weir_json_pair_array(w, "drop_columns");
        for (uint32_t i = 0; i < task->dropped_count; i++)
            weir_ingest__json_joined_name(w, &draft->arena, table->name,
                                          table->columns[task->dropped[i]].name, is_table, draft);
        weir_json_end_array(w);
    }
    weir_json_end_object(w);
}

void weir_ingest__draft_write(weir_ingest__draft *draft, weir_json_writer *w) {
    const char *names[WEIR_INGEST__DRAFT_TASKS_MAX];
    bool has_split = false;
    weir_json_object(w);
    weir_json_pair_text(w, "name", draft->catalog->name);
    if (draft->source->search_path_count > 0)
        weir_json_pair_texts(w, "search_path", draft->source->search_path, draft->source->search_path_count);
    if (first_csv(draft))
        put_csv(w, first_csv(draft), NULL);
    weir_json_pair_bool(w, "keys", true);
    weir_json_pair_object(w, "tables");
    for (uint32_t t = 0; t < draft->table_count; t++)
        put_table(draft, w, &draft->tables[t]);
    weir_json_end_object(w);
    weir_json_pair_object(w, "tasks");
    for (uint32_t i = 0; i < draft->task_count; i++) {
        const weir_ingest__draft_task *task = &draft->tasks[i];
        const weir_ingest__draft_table *table = &draft->tables[task->table];
        const char *name =
            weir_ingest__task_name(&draft->arena, table->name, table->columns[task->column].name, names, i);
        names[i] = name ? name : "";
        put_task(draft, w, task, names[i]);
        has_split = has_split || draft->tasks[i].has_split;
    }
    weir_json_end_object(w);
    if (has_split)
        weir_json_pair_text(w, "statistics_until", "train");
    weir_json_pair_object(w, "embedding");
    weir_json_pair_text(w, "provider", "hash_v1");
    weir_json_pair_uint(w, "dim", 256);
    weir_json_end_object(w);
    weir_json_end_object(w);
}
