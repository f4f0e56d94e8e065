/* Reads the metadata section into a weir_store_info. It may be anything that is canonical CBOR: every
 * number is checked against what it counts or points to, so that all that follows can rely on it. A fault
 * sticks in the reader; the first one is reported with its path. */
#include <math.h>
#include <string.h>

#include "store/format.h"

typedef struct reader {
    weir__arena *arena;
    weir_error *error;
    weir_status status;
    const char *list; /* where we are: the top-level key and the item's number in it */
    uint64_t item;
} reader;

static void refuse(reader *r, const char *key) {
    if (r->status == WEIR_OK)
        r->status =
            weir__fail(r->error, WEIR_STORE_CORRUPT, WEIR_STORE__OPERATOR,
                       "the metadata is damaged at %s[%llu].%s", r->list, (unsigned long long)r->item, key);
}

static void *take(reader *r, size_t count, size_t size) {
    void *memory = weir__arena_take_zero(r->arena, count, size);
    if (!memory && r->status == WEIR_OK)
        r->status = weir__out_of_memory(r->error, WEIR_STORE__OPERATOR, count * size);
    return memory;
}

/* ---- Single values: each is refused where it is missing, of another type or out of range ----- */

static bool get(reader *r, const weir_cbor_value *map, const char *key, weir_cbor_type type,
                weir_cbor_value *out) {
    if (r->status == WEIR_OK && weir_cbor_get(map, key, out) && out->type == type)
        return true;
    refuse(r, key);
    return false;
}

static uint64_t get_uint(reader *r, const weir_cbor_value *map, const char *key, uint64_t max) {
    weir_cbor_value value;
    if (!get(r, map, key, WEIR_CBOR_UINT, &value))
        return 0;
    if (value.number > max)
        refuse(r, key);
    return value.number > max ? 0 : value.number;
}

static uint32_t get_index(reader *r, const weir_cbor_value *map, const char *key, uint32_t count) {
    uint32_t index = WEIR__NARROW(uint32_t, get_uint(r, map, key, UINT32_MAX - 1));
    if (index >= count)
        refuse(r, key);
    return index < count ? index : 0;
}

static uint32_t get_optional_index(reader *r, const weir_cbor_value *map, const char *key, uint32_t count) {
    weir_cbor_value value;
    if (r->status == WEIR_OK && weir_cbor_get(map, key, &value) && value.type == WEIR_CBOR_NULL)
        return WEIR_NONE;
    return get_index(r, map, key, count);
}

static bool get_bool(reader *r, const weir_cbor_value *map, const char *key) {
    weir_cbor_value value;
    return get(r, map, key, WEIR_CBOR_BOOL, &value) && value.number != 0;
}

static double get_double(reader *r, const weir_cbor_value *map, const char *key) {
    weir_cbor_value value;
    if (!get(r, map, key, WEIR_CBOR_FLOAT, &value))
        return 0;
    if (!isfinite(value.real))
        refuse(r, key);
    return value.real;
}

static weir_statistics get_statistics(reader *r, const weir_cbor_value *map) {
    weir_statistics statistics = {get_double(r, map, "mean"), get_double(r, map, "std"),
                                  get_uint(r, map, "count", UINT64_MAX)};
    if (statistics.std <= 0)
        refuse(r, "std");
    return statistics;
}

static const char *copy_text(reader *r, const weir_cbor_value *value) {
    char *text = weir__arena_text(r->arena, (const char *)value->data, (size_t)value->number);
    if (!text && r->status == WEIR_OK)
        r->status = weir__out_of_memory(r->error, WEIR_STORE__OPERATOR, (size_t)value->number);
    return text ? text : "";
}

static const char *get_text(reader *r, const weir_cbor_value *map, const char *key) {
    weir_cbor_value value;
    return get(r, map, key, WEIR_CBOR_TEXT, &value) ? copy_text(r, &value) : "";
}

static weir_stype get_stype(reader *r, const weir_cbor_value *map) {
    return (weir_stype)get_uint(r, map, "stype", WEIR_TEXT);
}

static const char *const *get_texts(reader *r, const weir_cbor_value *map, const char *key, uint32_t *count) {
    weir_cbor_value list, item;
    *count = 0;
    if (!get(r, map, key, WEIR_CBOR_ARRAY, &list))
        return NULL;
    const char **texts = take(r, (size_t)list.number, sizeof *texts);
    weir_cbor_iterator it = weir_cbor_children(&list);
    while (texts && weir_cbor_next(&it, NULL, &item)) {
        if (item.type != WEIR_CBOR_TEXT) {
            refuse(r, key);
            return texts;
        }
        texts[(*count)++] = copy_text(r, &item);
    }
    return texts;
}

/* A list of numbers below `count`, as a byte each that is 1. */
static uint8_t *get_marks(reader *r, const weir_cbor_value *map, const char *key, uint32_t count) {
    weir_cbor_value list, item;
    uint8_t *marks = take(r, count, 1);
    if (!get(r, map, key, WEIR_CBOR_ARRAY, &list) || !marks)
        return marks;
    weir_cbor_iterator it = weir_cbor_children(&list);
    while (weir_cbor_next(&it, NULL, &item)) {
        if (item.type != WEIR_CBOR_UINT || item.number >= count) {
            refuse(r, key);
            return marks;
        }
        marks[item.number] = 1;
    }
    return marks;
}

/* A key that is there only where it says something. */
static bool has(const reader *r, const weir_cbor_value *map, const char *key) {
    weir_cbor_value value;
    return r->status == WEIR_OK && weir_cbor_get(map, key, &value);
}

static uint32_t get_rare_index(reader *r, const weir_cbor_value *map, const char *key, uint32_t count) {
    return has(r, map, key) ? get_index(r, map, key, count) : WEIR_NONE;
}

/* ---- Items ----------------------------------------------------------------------------------- */

static void read_path(reader *r, const weir_cbor_value *list, weir_time_path *path) {
    weir_cbor_value item;
    if (list->type != WEIR_CBOR_ARRAY || list->number == 0) {
        refuse(r, "times");
        return;
    }
    const char **names = take(r, (size_t)list->number, sizeof *names);
    weir_cbor_iterator it = weir_cbor_children(list);
    path->names = names;
    while (names && r->status == WEIR_OK && weir_cbor_next(&it, NULL, &item)) {
        if (item.type != WEIR_CBOR_TEXT)
            refuse(r, "times");
        else
            names[path->count++] = copy_text(r, &item);
    }
}

static void read_time(reader *r, const weir_cbor_value *map, weir_stored_time *time) {
    weir_cbor_value list, item;
    time->nulls = get_uint(r, map, "nulls", UINT64_MAX);
    if (!get(r, map, "of", WEIR_CBOR_ARRAY, &list))
        return;
    if (list.number == 0)
        refuse(r, "times");
    weir_time_path *paths = take(r, (size_t)list.number, sizeof *paths);
    weir_cbor_iterator it = weir_cbor_children(&list);
    time->paths = paths;
    while (paths && r->status == WEIR_OK && weir_cbor_next(&it, NULL, &item))
        read_path(r, &item, &paths[time->path_count++]);
}

static void read_times(reader *r, const weir_cbor_value *map, weir_table *table) {
    weir_cbor_value list, item;
    if (has(r, map, "times") && get(r, map, "times", WEIR_CBOR_ARRAY, &list)) {
        weir_stored_time *times = take(r, (size_t)list.number, sizeof *times);
        weir_cbor_iterator it = weir_cbor_children(&list);
        table->times = times;
        while (times && r->status == WEIR_OK && weir_cbor_next(&it, NULL, &item))
            read_time(r, &item, &times[table->time_count++]);
    }
    table->temporal_time = get_rare_index(r, map, "time", table->time_count);
    if (table->temporal_time != WEIR_NONE && table->temporal_column != WEIR_NONE)
        refuse(r, "time");
}

static void read_keys(reader *r, const weir_cbor_value *map, weir_table *table) {
    weir_cbor_value keys, form, first;
    if (!has(r, map, "keys") || !get(r, map, "keys", WEIR_CBOR_MAP, &keys) ||
        !get(r, &keys, "form", WEIR_CBOR_TEXT, &form))
        return;
    for (int i = WEIR_KEYS_RANGE; i <= WEIR_KEYS_CBOR; i++)
        if (weir_cbor_is_text(&form, weir_store__key_form_name((weir_key_form)i)))
            table->key_form = (weir_key_form)i;
    bool is_integer = table->key_form == WEIR_KEYS_RANGE || table->key_form == WEIR_KEYS_PACKED;
    if (table->key_form == WEIR_KEYS_CBOR)
        table->key_size = get_uint(r, &keys, "size", UINT64_MAX);
    if (table->key_form == WEIR_KEYS_PACKED)
        table->key_width = WEIR__NARROW(uint32_t, get_uint(r, &keys, "width", 8));
    bool has_width =
        table->key_width == 1 || table->key_width == 2 || table->key_width == 4 || table->key_width == 8;
    bool has_first = is_integer && weir_cbor_get(&keys, "first", &first) &&
                     (first.type == WEIR_CBOR_UINT || first.type == WEIR_CBOR_NEGATIVE) &&
                     first.number <= INT64_MAX;
    if (has_first)
        table->key_first = first.type == WEIR_CBOR_UINT ? (int64_t)first.number : -1 - (int64_t)first.number;
    if (table->key_form == WEIR_KEYS_NONE || table->primary_key_count == 0 || (is_integer && !has_first) ||
        (is_integer && table->primary_key_count != 1) || (table->key_form == WEIR_KEYS_PACKED && !has_width))
        refuse(r, "keys");
}

static void read_table(reader *r, const weir_cbor_value *map, weir_store_info *info, weir_table *table) {
    table->name = get_text(r, map, "name");
    table->row_start = info->row_count;
    table->row_count =
        WEIR__NARROW(uint32_t, get_uint(r, map, "rows", WEIR_STORE__ROWS_MAX - info->row_count));
    info->row_count += table->row_count;
    table->column_start = info->table_column_count;
    table->column_count =
        WEIR__NARROW(uint32_t, get_uint(r, map, "columns", INT32_MAX - info->table_column_count));
    info->table_column_count += table->column_count;
    table->primary_key = get_texts(r, map, "primary_key", &table->primary_key_count);
    table->temporal_column = get_optional_index(r, map, "temporal_column", info->table_column_count);
    if (table->temporal_column != WEIR_NONE && table->temporal_column < table->column_start)
        refuse(r, "temporal_column");
    read_times(r, map, table);
    read_keys(r, map, table);
}

static void read_category_block(reader *r, const weir_cbor_value *map, const weir_store_info *info,
                                weir_column *column) {
    column->category_count = WEIR__NARROW(uint32_t, get_uint(r, map, "category_count", info->category_count));
    column->category_start = WEIR__NARROW(
        uint32_t, get_uint(r, map, "category_start", info->category_count - column->category_count));
}

static void read_column(reader *r, const weir_cbor_value *map, const weir_store_info *info,
                        weir_column *column) {
    column->name = get_text(r, map, "name");
    column->description = get_text(r, map, "description");
    column->stype = get_stype(r, map);
    column->task = WEIR_NONE;
    column->known_at = get_optional_index(r, map, "known_at", info->table_column_count);
    column->known_time = get_rare_index(r, map, "known_time", info->tables[column->table].time_count);
    column->nulls = get_uint(r, map, "nulls", UINT64_MAX);
    column->not_finite = get_uint(r, map, "not_finite", UINT64_MAX);
    column->statistics = get_statistics(r, map);
    read_category_block(r, map, info, column);
}

static void read_edge(reader *r, const weir_cbor_value *map, const weir_store_info *info, weir_edge *edge) {
    edge->name = get_text(r, map, "name");
    edge->table = get_index(r, map, "table", info->table_count);
    edge->column = get_optional_index(r, map, "column", info->table_column_count);
    edge->parent_table = get_index(r, map, "parent_table", info->table_count);
    edge->known_at = get_optional_index(r, map, "known_at", info->table_column_count);
    if (info->table_count > 0)
        edge->known_time = get_rare_index(r, map, "known_time", info->tables[edge->table].time_count);
    if (has(r, map, "columns")) {
        edge->columns = get_texts(r, map, "columns", &edge->column_count);
        if (edge->column_count == 0 || (edge->column_count > 1 && edge->column != WEIR_NONE))
            refuse(r, "columns");
    } else {
        const char **names = take(r, 1, sizeof *names);
        if (names)
            names[0] = edge->name;
        edge->columns = names;
        edge->column_count = 1;
    }
    edge->dangling = get_uint(r, map, "dangling", UINT64_MAX);
    edge->edges = get_uint(r, map, "edges", info->table_count ? info->tables[edge->table].row_count : 0);
    static const uint8_t has_times = 0;
    edge->child_times = get_bool(r, map, "has_times") ? &has_times : NULL;
}

static void read_splits(reader *r, const weir_cbor_value *map, weir_task *task) {
    weir_cbor_value list, item;
    if (!get(r, map, "splits", WEIR_CBOR_ARRAY, &list))
        return;
    weir_cbor_iterator it = weir_cbor_children(&list);
    uint32_t end = 0;
    int split = 0;
    for (; split < WEIR_SPLITS && weir_cbor_next(&it, NULL, &item); split++) {
        if (item.type != WEIR_CBOR_UINT || item.number > UINT32_MAX - 1 - end) {
            refuse(r, "splits");
            return;
        }
        end += WEIR__NARROW(uint32_t, item.number);
        task->split_start[split + 1] = end;
    }
    if (list.number != WEIR_SPLITS)
        refuse(r, "splits");
    task->seed_count = end;
}

/* The next derived task has the next ColumnIdx; a cell task's is a column of its anchor table. */
static void read_target(reader *r, const weir_cbor_value *map, weir_store_info *info, weir_column *columns,
                        uint32_t task_number, uint32_t *next_derived, weir_task *task) {
    task->column = get_index(r, map, "column", info->column_count);
    if (r->status != WEIR_OK)
        return;
    weir_column *column = &columns[task->column];
    if (task->is_cell) {
        if (column->table != task->anchor_table || column->stype != task->stype)
            refuse(r, "column");
        return;
    }
    if (task->column != (*next_derived)++) {
        refuse(r, "column");
        return;
    }
    *column = weir_store__task_column(task->target_column, task_number, task->stype);
    column->statistics = get_statistics(r, map);
    read_category_block(r, map, info, column);
}

/* What the additions to the contract say of a task, each only if it is not as it always was. */
static void read_rules(reader *r, const weir_cbor_value *map, weir_task *task) {
    weir_cbor_value value;
    if (has(r, map, "before_anchor") && get(r, map, "before_anchor", WEIR_CBOR_TEXT, &value)) {
        task->before_anchor = weir_cbor_is_text(&value, "move")         ? WEIR_BEFORE_ANCHOR_MOVE
                              : weir_cbor_is_text(&value, "show_known") ? WEIR_BEFORE_ANCHOR_SHOW_KNOWN
                                                                        : WEIR_BEFORE_ANCHOR_KEEP;
        if (task->before_anchor == WEIR_BEFORE_ANCHOR_KEEP)
            refuse(r, "before_anchor");
        task->early_seeds = get_uint(r, map, "early", UINT64_MAX);
    }
    if (has(r, map, "target_statistics") && get(r, map, "target_statistics", WEIR_CBOR_TEXT, &value)) {
        task->has_train_statistics = weir_cbor_is_text(&value, "train");
        if (!task->has_train_statistics)
            refuse(r, "target_statistics");
    }
}

static bool has_label_times(reader *r, const weir_cbor_value *map) {
    return has(r, map, "horizon") || has(r, map, "label_known_column");
}

/* When the task's labels are known, and its column of observation times, which has the next ColumnIdx. */
static void read_label_times(reader *r, const weir_cbor_value *map, const weir_store_info *info,
                             weir_column *columns, uint32_t number, uint32_t *next, weir_task *task) {
    weir_cbor_value list, count;
    uint32_t *counts[WEIR_STORE__LABEL_LISTS] = {&task->labels.count, &task->train_labels.count};
    uint32_t most[WEIR_STORE__LABEL_LISTS] = {task->seed_count, task->split_start[WEIR_TRAIN + 1]};
    task->observed_column = WEIR_NONE;
    if (r->status != WEIR_OK || !has_label_times(r, map))
        return;
    task->has_label_times = true;
    task->has_horizon = has(r, map, "horizon");
    if (task->has_horizon)
        task->horizon = (int64_t)get_uint(r, map, "horizon", INT64_MAX - 1);
    if (has(r, map, "label_known_column"))
        task->label_known_column = get_text(r, map, "label_known_column");
    if (task->is_cell || (task->has_horizon && task->label_known_column) ||
        task->seed_count > WEIR_STORE__ROWS_MAX - info->row_count)
        refuse(r, "horizon");
    if (!get(r, map, "labels", WEIR_CBOR_ARRAY, &list) || list.number != WEIR_STORE__LABEL_LISTS) {
        refuse(r, "labels");
        return;
    }
    weir_cbor_iterator it = weir_cbor_children(&list);
    for (int i = 0; weir_cbor_next(&it, NULL, &count); i++) {
        uint64_t number_of = 0;
        if (!weir_cbor_get_uint(&count, &number_of) || number_of > most[i])
            refuse(r, "labels");
        else
            *counts[i] = WEIR__NARROW(uint32_t, number_of);
    }
    const char *name = get_text(r, map, "observed");
    if (r->status != WEIR_OK)
        return;
    task->observed_column = *next;
    columns[(*next)++] = weir_store__task_column(name, number, WEIR_TIMESTAMP);
}

/* A link task is a derived one that is about pairs. */
static void read_link(reader *r, const weir_cbor_value *map, const weir_store_info *info, weir_task *task) {
    weir_cbor_value link;
    weir_link *out = &task->link;
    if (!has(r, map, "link") || !get(r, map, "link", WEIR_CBOR_MAP, &link))
        return;
    out->is_link = true;
    out->table = get_index(r, &link, "table", info->table_count);
    out->edge = get_rare_index(r, &link, "edge", info->edge_count);
    out->late = get_uint(r, &link, "late", UINT64_MAX);
    out->lists = get_uint(r, &link, "lists", UINT64_MAX);
    out->repeated = get_uint(r, &link, "repeated", UINT64_MAX);
    if (r->status != WEIR_OK)
        return;
    bool is_sound = !task->is_cell && task->stype == WEIR_BOOLEAN && task->seed_times &&
                    !has_label_times(r, map) && !task->weight_column;
    if (!is_sound || (out->edge != WEIR_NONE && info->edges[out->edge].parent_table != out->table))
        refuse(r, "link");
}

static void read_task(reader *r, const weir_cbor_value *map, weir_store_info *info, weir_column *columns,
                      uint32_t number, uint32_t *next_derived, weir_task *task) {
    task->name = get_text(r, map, "name");
    task->target_column = get_text(r, map, "target_column");
    task->is_cell = get_bool(r, map, "is_cell");
    task->stype = get_stype(r, map);
    if (!weir_store__stype_can_be_target(task->stype))
        refuse(r, "stype");
    task->anchor_table = get_index(r, map, "anchor_table", info->table_count);
    task->dropped = get_uint(r, map, "dropped", UINT64_MAX);
    read_splits(r, map, task);
    task->column_dropped = get_marks(r, map, "drop_columns", info->column_count);
    task->edge_hidden = get_marks(r, map, "hidden_edges", info->edge_count);
    task->drop_columns = get_texts(r, map, "drop_names", &task->drop_column_count);
    static const uint8_t has_times = 0;
    task->seed_times = get_bool(r, map, "has_times") ? &has_times : NULL;
    weir_cbor_value weights;
    if (weir_cbor_get(map, "weight_column", &weights))
        task->weight_column = get_text(r, map, "weight_column");
    read_rules(r, map, task);
    read_link(r, map, info, task);
    read_target(r, map, info, columns, number, next_derived, task);
    if (r->status == WEIR_OK)
        task->drops_target = has(r, map, "drops_target") ? get_bool(r, map, "drops_target")
                                                         : weir_store__names_target(info, task);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Begins a list: its length (at most `max`), an iterator, and the place for messages. */
static uint32_t begin_list(reader *r, const weir_cbor_value *metadata, const char *key, uint64_t max,
                           weir_cbor_iterator *it) {
    weir_cbor_value list;
    r->list = key;
    r->item = 0;
    *it = (weir_cbor_iterator){0};
    if (!get(r, metadata, key, WEIR_CBOR_ARRAY, &list))
        return 0;
    if (list.number > max) {
        refuse(r, "length");
        return 0;
    }
    *it = weir_cbor_children(&list);
    return WEIR__NARROW(uint32_t, list.number);
}

static bool next_item(reader *r, weir_cbor_iterator *it, weir_cbor_value *item) {
    return r->status == WEIR_OK && weir_cbor_next(it, NULL, item);
}

static void read_tables(reader *r, const weir_cbor_value *metadata, weir_store_info *info) {
    weir_cbor_iterator it;
    weir_cbor_value item;
    uint32_t count = begin_list(r, metadata, "tables", WEIR_STORE__TABLES_MAX, &it);
    weir_table *tables = take(r, count, sizeof *tables);
    for (; next_item(r, &it, &item); r->item++) {
        weir_table *table = &tables[info->table_count++];
        read_table(r, &item, info, table);
        if (r->status == WEIR_OK && r->item > 0 && strcmp(table[-1].name, table->name) >= 0)
            refuse(r, "name"); /* they are in bytewise order, so that none stands twice */
    }
    info->tables = tables;
}

static bool is_time_column_of(const weir_column *columns, uint32_t column, uint32_t table) {
    return column == WEIR_NONE || (columns[column].table == table && columns[column].stype == WEIR_TIMESTAMP);
}

static weir_column *read_columns(reader *r, const weir_cbor_value *metadata, weir_store_info *info) {
    weir_cbor_iterator it;
    weir_cbor_value item;
    uint32_t count = begin_list(r, metadata, "columns", INT32_MAX, &it);
    if (count != info->table_column_count)
        refuse(r, "length");
    weir_column *columns = take(r, (size_t)info->column_count, sizeof *columns);
    if (r->status != WEIR_OK)
        return NULL;
    for (uint32_t t = 0; t < info->table_count; t++)
        for (uint32_t c = 0; c < info->tables[t].column_count; c++)
            columns[info->tables[t].column_start + c].table = t;
    for (; next_item(r, &it, &item); r->item++)
        read_column(r, &item, info, &columns[r->item]);
    for (uint32_t c = 0; c < count && r->status == WEIR_OK; c++) {
        r->item = c;
        if (!is_time_column_of(columns, columns[c].known_at, columns[c].table) ||
            (columns[c].known_at != WEIR_NONE && columns[c].known_time != WEIR_NONE))
            refuse(r, "known_at");
    }
    info->columns = columns;
    return columns;
}

static void read_edges(reader *r, const weir_cbor_value *metadata, weir_store_info *info) {
    weir_cbor_iterator it;
    weir_cbor_value item;
    uint32_t count = begin_list(r, metadata, "edges", INT32_MAX, &it);
    weir_edge *edges = take(r, count, sizeof *edges);
    for (; next_item(r, &it, &item); r->item++) {
        weir_edge *edge = &edges[info->edge_count++];
        read_edge(r, &item, info, edge);
        if (r->status != WEIR_OK)
            return;
        if (r->item > 0 && edge->table < edges[r->item - 1].table)
            refuse(r, "table");
        if (edge->column != WEIR_NONE && info->columns[edge->column].table != edge->table)
            refuse(r, "column");
        if (!is_time_column_of(info->columns, edge->known_at, edge->table) ||
            (edge->known_at != WEIR_NONE && edge->known_time != WEIR_NONE))
            refuse(r, "known_at");
    }
    info->edges = edges;
}

static void read_tasks(reader *r, const weir_cbor_value *metadata, weir_store_info *info,
                       weir_column *columns) {
    weir_cbor_iterator it;
    weir_cbor_value item;
    uint32_t count = begin_list(r, metadata, "tasks", INT32_MAX, &it);
    weir_task *tasks = take(r, count, sizeof *tasks);
    uint32_t next_derived = info->table_column_count;
    for (; next_item(r, &it, &item); r->item++)
        read_task(r, &item, info, columns, WEIR__NARROW(uint32_t, r->item), &next_derived, &tasks[r->item]);
    (void)begin_list(r, metadata, "tasks", INT32_MAX, &it);
    for (; next_item(r, &it, &item); r->item++)
        read_label_times(r, &item, info, columns, WEIR__NARROW(uint32_t, r->item), &next_derived,
                         &tasks[r->item]);
    if (next_derived != info->column_count)
        refuse(r, "column");
    info->tasks = tasks;
}

/* The tasks' number, and how many columns they have, must be known before the columns are read. */
static void count_tasks(reader *r, const weir_cbor_value *metadata, weir_store_info *info) {
    weir_cbor_iterator it;
    weir_cbor_value item;
    uint32_t of_tasks = 0;
    info->task_count = begin_list(r, metadata, "tasks", (INT32_MAX - info->table_column_count) / 2, &it);
    for (; next_item(r, &it, &item); r->item++)
        of_tasks += (get_bool(r, &item, "is_cell") ? 0u : 1u) + has_label_times(r, &item);
    info->column_count = info->table_column_count + of_tasks;
}

/* Gives every table its run of edge types (they are ordered by table) and the list of those into it. */
static void link_edges(reader *r, weir_store_info *info, weir_table *tables) {
    for (uint32_t e = 0; e < info->edge_count; e++) {
        weir_table *child = &tables[info->edges[e].table];
        if (child->edge_count++ == 0)
            child->edge_start = e;
        tables[info->edges[e].parent_table].inbound_count++;
    }
    for (uint32_t t = 0; t < info->table_count; t++) {
        tables[t].inbound = take(r, tables[t].inbound_count, sizeof *tables[t].inbound);
        tables[t].inbound_count = 0;
    }
    for (uint32_t e = 0; e < info->edge_count && r->status == WEIR_OK; e++) {
        weir_table *parent = &tables[info->edges[e].parent_table];
        ((uint32_t *)parent->inbound)[parent->inbound_count++] = e;
    }
}

static void link_tables(reader *r, weir_store_info *info) {
    weir_table *tables = (weir_table *)info->tables;
    link_edges(r, info, tables);
    r->list = "tables";
    for (uint32_t t = 0; t < info->table_count && r->status == WEIR_OK; t++) {
        r->item = t;
        if (!is_time_column_of(info->columns, tables[t].temporal_column, t) ||
            !weir_store__layout_record(&tables[t], (weir_column *)info->columns + tables[t].column_start,
                                       (weir_edge *)info->edges + tables[t].edge_start))
            refuse(r, "columns");
    }
}

static void read_scalars(reader *r, const weir_cbor_value *metadata, weir_store_info *info) {
    weir_cbor_value value = {0};
    r->list = "scalars";
    info->name = get_text(r, metadata, "name");
    info->category_count = WEIR__NARROW(uint32_t, get_uint(r, metadata, "categories", UINT32_MAX - 1));
    info->text_count = WEIR__NARROW(uint32_t, get_uint(r, metadata, "texts", UINT32_MAX - 1));
    if (get(r, metadata, "embedding", WEIR_CBOR_MAP, &value)) {
        info->embedding_dim =
            WEIR__NARROW(uint32_t, get_uint(r, &value, "dim", WEIR_STORE__EMBEDDING_DIM_MAX));
        info->embedding_provider = get_text(r, &value, "provider");
    }
    if (get(r, metadata, "timestamps", WEIR_CBOR_MAP, &value))
        info->timestamps = get_statistics(r, &value);
    if (r->status == WEIR_OK && weir_cbor_get(metadata, "statistics_until", &value) &&
        value.type != WEIR_CBOR_NULL) {
        if ((value.type != WEIR_CBOR_UINT && value.type != WEIR_CBOR_NEGATIVE) || value.number > INT64_MAX)
            refuse(r, "statistics_until");
        info->has_statistics_until = true;
        info->statistics_until =
            value.type == WEIR_CBOR_UINT ? (int64_t)value.number : -1 - (int64_t)value.number;
    }
}

weir_status weir_store__metadata_read(const weir_cbor_value *metadata, weir__arena *arena,
                                      weir_store_info *info, weir_error *error) {
    reader r = {.arena = arena, .error = error, .status = WEIR_OK, .list = "scalars"};
    read_scalars(&r, metadata, info);
    read_tables(&r, metadata, info);
    if (r.status == WEIR_OK && get_uint(&r, metadata, "rows", UINT32_MAX) != info->row_count)
        refuse(&r, "rows");
    count_tasks(&r, metadata, info);
    weir_column *columns = read_columns(&r, metadata, info);
    read_edges(&r, metadata, info);
    read_tasks(&r, metadata, info, columns);
    if (r.status == WEIR_OK)
        link_tables(&r, info);
    return r.status;
}
