/* The tasks of a schema: their queries, anchors, targets and splits. */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "ingest/schema_reader.h"

static void read_permille(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                          weir_ingest__schema_split *split) {
    weir_cbor_value list, item;
    uint64_t sum = 0;
    if (!weir_ingest__schema_find(map, "permille", &list))
        return;
    if (list.type != WEIR_CBOR_ARRAY || list.number != WEIR_SPLITS) {
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "permille",
                                   "must be three whole numbers that add up to 1000");
        return;
    }
    weir_cbor_iterator it = weir_cbor_children(&list);
    for (int i = 0; weir_cbor_next(&it, NULL, &item); i++) {
        uint64_t part = 0;
        if (!weir_cbor_get_uint(&item, &part) || part > 1000)
            part = 10000;
        split->permille[i] = WEIR__NARROW(uint32_t, part);
        sum += part;
    }
    if (sum != 1000)
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "permille",
                                   "must be three whole numbers that add up to 1000");
}

static void read_hash_split(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                            weir_ingest__schema_split *split) {
    static const char *const keys[] = {"method", "permille", "seed", NULL};
    weir_cbor_value seed;
    weir_ingest__schema_only_keys(r, map, keys);
    read_permille(r, map, split);
    if (weir_ingest__schema_find(map, "seed", &seed) && !weir_cbor_get_uint(&seed, &split->seed))
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "seed", "must be a whole number from 0 to 2^64-1");
}

static void read_temporal_split(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                                weir_ingest__unit unit, weir_ingest__schema_split *split) {
    static const char *const keys[] = {"method", "val", "test", NULL};
    weir_ingest__schema_only_keys(r, map, keys);
    split->method = WEIR_INGEST__SPLIT_TEMPORAL;
    if (!weir_ingest__schema_moment(r, map, "val", true, unit, &split->val))
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "val", "is missing");
    if (!weir_ingest__schema_moment(r, map, "test", true, unit, &split->test))
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "test", "is missing");
}

static void read_split(weir_ingest__schema_reader *r, const weir_cbor_value *task, weir_ingest__unit unit,
                       weir_ingest__schema_split *split) {
    static const char *const column_keys[] = {"method", "column", NULL};
    weir_cbor_value map;
    *split = (weir_ingest__schema_split){.method = WEIR_INGEST__SPLIT_HASH, .permille = {800, 100, 100}};
    if (!weir_ingest__schema_find(task, "split", &map))
        return;
    size_t length = weir_ingest__schema_enter(r, "split");
    if (weir_ingest__schema_is_map(r, &map)) {
        const char *method = weir_ingest__schema_text(r, &map, "method", false);
        if (!method || strcmp(method, "hash") == 0) {
            read_hash_split(r, &map, split);
        } else if (strcmp(method, "temporal") == 0) {
            read_temporal_split(r, &map, unit, split);
        } else if (strcmp(method, "column") == 0) {
            weir_ingest__schema_only_keys(r, &map, column_keys);
            split->method = WEIR_INGEST__SPLIT_COLUMN;
            split->column = weir_ingest__schema_text(r, &map, "column", false);
            if (!split->column)
                weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "column", "is missing");
        } else {
            weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "method", "must be hash, temporal or column");
        }
    }
    weir_ingest__schema_leave(r, length);
}

static weir_ingest__task_kind get_kind(weir_ingest__schema_reader *r, const weir_cbor_value *map) {
    static const char *const kinds[] = {"cell", "derived", "link", NULL};
    static const weir_ingest__task_kind values[] = {WEIR_INGEST__KIND_CELL, WEIR_INGEST__KIND_DERIVED,
                                                    WEIR_INGEST__KIND_LINK, WEIR_INGEST__KIND_AUTO};
    return values[weir_ingest__schema_word(r, map, "kind", kinds, WEIR_TASK_INVALID, 3)];
}

static void read_dropped(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                         weir_ingest__schema_task *task) {
    weir_cbor_value list, item;
    if (!weir_ingest__schema_find(map, "drop_columns", &list))
        return;
    if (list.type != WEIR_CBOR_ARRAY) {
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "drop_columns", "must be a list of columns");
        return;
    }
    task->drop_columns = weir_ingest__schema_take(r, (size_t)list.number, sizeof *task->drop_columns);
    weir_cbor_iterator it = weir_cbor_children(&list);
    while (r->status == WEIR_OK && weir_cbor_next(&it, NULL, &item))
        task->drop_columns[task->drop_column_count++] =
            weir_ingest__schema_joined(r, &item, "drop_columns", WEIR_TASK_INVALID);
}

/* A key of the query has as many columns as the table's primary key. */
static void check_key(weir_ingest__schema_reader *r, const char *name, uint32_t count,
                      const char *key_of_table, const char *key_of_key) {
    if (r->status != WEIR_OK)
        return;
    const weir_ingest__schema_table *table = weir_ingest__schema_find_table(r->schema, name);
    if (!table)
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, key_of_table,
                                   "names a table that the schema does not have");
    else if (table->primary_key_count == 0)
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, key_of_table,
                                   "names %s, which has no primary_key to find rows by", table->name);
    else if (table->primary_key_count != count)
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, key_of_key,
                                   "has %u columns, but the primary key of %s has %u", count, table->name,
                                   table->primary_key_count);
}

/* A foreign key of the schema that leads to the destinations. */
static void read_popularity(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                            weir_ingest__schema_task *task) {
    weir_cbor_value value;
    if (r->status != WEIR_OK || !weir_ingest__schema_find(map, "popularity", &value))
        return;
    task->popularity = weir_ingest__schema_joined(r, &value, "popularity", WEIR_TASK_INVALID);
    if (r->status != WEIR_OK)
        return;
    const weir_ingest__schema_table *table =
        weir_ingest__schema_find_table(r->schema, task->popularity.table);
    for (uint32_t i = 0; i < table->foreign_key_count; i++)
        if (strcmp(table->foreign_keys[i].name, task->popularity.column) == 0 &&
            strcmp(table->foreign_keys[i].table, task->destination_table) == 0)
            return;
    weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "popularity", "must be a foreign key that leads to %s",
                               task->destination_table);
}

static void read_link(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                      weir_ingest__schema_task *task) {
    static const char *const of_others[] = {"target_column",
                                            "target_stype",
                                            "target_statistics",
                                            "weight_column",
                                            "horizon",
                                            "label_known_column",
                                            NULL};
    static const char *const required[] = {"query", "observation_time_column", "destination_key", NULL};
    weir_cbor_value value;
    for (int i = 0; of_others[i]; i++)
        if (weir_ingest__schema_find(map, of_others[i], &value))
            weir_ingest__schema_refuse(
                r, WEIR_TASK_INVALID, of_others[i],
                "is not for a link task, whose target is true for every pair of the query");
    for (int i = 0; required[i]; i++)
        if (!weir_ingest__schema_find(map, required[i], &value))
            weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, required[i], "is missing; a link task needs it");
    task->target_column = WEIR_INGEST__LINK_COLUMN;
    task->target_stype = WEIR_BOOLEAN;
    task->destination_table = weir_ingest__schema_text(r, map, "destination_table", true);
    task->destination_key =
        weir_ingest__schema_names(r, map, "destination_key", &task->destination_key_count);
    check_key(r, task->destination_table, task->destination_key_count, "destination_table",
              "destination_key");
    read_popularity(r, map, task);
}

/* What a task is about: a cell, what its query says, or a link. */
static void read_target(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                        weir_ingest__schema_task *task) {
    static const char *const of_links[] = {"destination_table", "destination_key", "popularity", NULL};
    weir_cbor_value value;
    task->kind = get_kind(r, map);
    if (task->kind == WEIR_INGEST__KIND_LINK) {
        read_link(r, map, task);
        return;
    }
    for (int i = 0; of_links[i]; i++)
        if (weir_ingest__schema_find(map, of_links[i], &value))
            weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, of_links[i], "needs \"kind\": \"link\"");
    task->target_column = weir_ingest__schema_text(r, map, "target_column", true);
    task->target_stype = weir_ingest__schema_stype(r, map, "target_stype");
}

/* "30d", "12h", or microseconds; false if it is neither. */
static bool read_duration(const weir_cbor_value *value, int64_t *micros) {
    if (value->type == WEIR_CBOR_TEXT)
        return weir__duration_parse((const char *)value->data, (size_t)value->number, micros);
    if (value->type != WEIR_CBOR_UINT || value->number >= INT64_MAX)
        return false;
    *micros = (int64_t)value->number;
    return true;
}

/* When the labels are known, if the task says it. */
static void read_label_time(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                            weir_ingest__schema_task *task) {
    weir_cbor_value value;
    task->label_known_column = weir_ingest__schema_text(r, map, "label_known_column", false);
    task->has_horizon = weir_ingest__schema_find(map, "horizon", &value);
    if (task->has_horizon && !read_duration(&value, &task->horizon))
        weir_ingest__schema_refuse(
            r, WEIR_TASK_INVALID, "horizon",
            "must be a duration such as \"30d\" or \"12h\" (us, ms, s, m, h, d or w), or "
            "microseconds");
    if (task->has_horizon && task->label_known_column)
        weir_ingest__schema_refuse(
            r, WEIR_TASK_INVALID, "horizon",
            "stands beside label_known_column; one of the two says when a label is known");
}

/* Without a query every row of the anchor table is a seed, at its own time: a cell task. */
static void check_all_rows(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                           weir_ingest__schema_task *task) {
    static const char *const for_queries[] = {"anchor_key",
                                              "anchor_key_is",
                                              "observation_time_column",
                                              "before_anchor",
                                              "unit",
                                              "format",
                                              "horizon",
                                              "label_known_column",
                                              NULL};
    weir_cbor_value value;
    if (r->status != WEIR_OK)
        return;
    for (int i = 0; for_queries[i]; i++)
        if (weir_ingest__schema_find(map, for_queries[i], &value))
            weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, for_queries[i], "needs a query");
    if (task->kind == WEIR_INGEST__KIND_DERIVED)
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "kind", "is derived, which needs a query");
    if (task->split.method == WEIR_INGEST__SPLIT_COLUMN)
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "split",
                                   "has the method column, which needs a query");
    if (!weir_ingest__schema_find_table(r->schema, task->anchor_table))
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "anchor_table",
                                   "names a table that the schema does not have");
    task->kind = WEIR_INGEST__KIND_CELL;
}

static void read_task(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                      weir_ingest__schema_task *task) {
    static const char *const keys[] = {"query",
                                       "anchor_table",
                                       "anchor_key",
                                       "anchor_key_is",
                                       "target_column",
                                       "target_stype",
                                       "kind",
                                       "unit",
                                       "before_anchor",
                                       "target_statistics",
                                       "drop_columns",
                                       "observation_time_column",
                                       "weight_column",
                                       "split",
                                       "format",
                                       "horizon",
                                       "label_known_column",
                                       "destination_table",
                                       "destination_key",
                                       "popularity",
                                       NULL};
    static const char *const key_meanings[] = {"primary_key", NULL};
    static const char *const early_rules[] = {"keep", "show_known", "move", NULL};
    static const char *const statistics[] = {"all", "train", NULL};
    weir_cbor_value key;
    if (!weir_ingest__schema_is_map(r, map))
        return;
    weir_ingest__schema_only_keys(r, map, keys);
    task->query = weir_ingest__schema_text(r, map, "query", false);
    task->anchor_table = weir_ingest__schema_text(r, map, "anchor_table", true);
    if (task->query && !weir_ingest__schema_find(map, "anchor_key", &key))
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "anchor_key", "is missing");
    task->anchor_key = weir_ingest__schema_names(r, map, "anchor_key", &task->anchor_key_count);
    task->is_key_for_sure =
        weir_ingest__schema_word(r, map, "anchor_key_is", key_meanings, WEIR_TASK_INVALID, 1) == 0;
    read_target(r, map, task);
    task->observation_time_column = weir_ingest__schema_text(r, map, "observation_time_column", false);
    task->weight_column = weir_ingest__schema_text(r, map, "weight_column", false);
    read_label_time(r, map, task);
    task->form = weir_ingest__schema_form(r, map);
    task->before_anchor = (weir_before_anchor)weir_ingest__schema_word(
        r, map, "before_anchor", early_rules, WEIR_TASK_INVALID, WEIR_BEFORE_ANCHOR_KEEP);
    task->has_train_statistics =
        weir_ingest__schema_word(r, map, "target_statistics", statistics, WEIR_TASK_INVALID, 0) == 1;
    read_dropped(r, map, task);
    read_split(r, map, task->form.unit, &task->split);
    if (!weir_store__stype_can_be_target(task->target_stype))
        weir_ingest__schema_refuse(r, WEIR_TASK_INVALID, "target_stype",
                                   "must be numerical, timestamp, boolean or categorical");
    if (task->query)
        check_key(r, task->anchor_table, task->anchor_key_count, "anchor_table", "anchor_key");
    else
        check_all_rows(r, map, task);
}

static int compare_tasks(const void *a, const void *b) {
    return strcmp(((const weir_ingest__schema_task *)a)->name, ((const weir_ingest__schema_task *)b)->name);
}

void weir_ingest__schema_read_tasks(weir_ingest__schema_reader *r, const weir_cbor_value *document) {
    weir_cbor_value tasks, key, child;
    weir_ingest__schema *schema = r->schema;
    if (!weir_ingest__schema_find(document, "tasks", &tasks))
        return;
    schema->has_tasks = true;
    size_t length = weir_ingest__schema_enter(r, "tasks");
    if (weir_ingest__schema_is_map(r, &tasks)) {
        schema->tasks = weir_ingest__schema_take(r, (size_t)tasks.number, sizeof *schema->tasks);
        weir_cbor_iterator it = weir_cbor_children(&tasks);
        while (r->status == WEIR_OK && weir_cbor_next(&it, &key, &child)) {
            weir_ingest__schema_task *task = &schema->tasks[schema->task_count++];
            task->name = weir_ingest__schema_copy(r, (const char *)key.data, (size_t)key.number);
            size_t inner = weir_ingest__schema_enter(r, task->name);
            read_task(r, &child, task);
            weir_ingest__schema_leave(r, inner);
        }
        if (r->status == WEIR_OK && schema->task_count > 0)
            qsort(schema->tasks, schema->task_count, sizeof *schema->tasks, compare_tasks);
    }
    weir_ingest__schema_leave(r, length);
}
