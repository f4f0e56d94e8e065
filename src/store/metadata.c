/* The metadata section (docs/format.md) as tables of fields, from and to a weir_store_info. It may be
 * anything that is canonical CBOR: what the tables cannot check of a number (that it counts or points to
 * something that is there) is checked after them, so that all that follows can rely on it. */
#include "base/fields.h"
#include "store/format.h"

#include <string.h>

/* A task as it is written: beside the task what lies elsewhere in a weir_store_info, or follows. */
typedef struct stored_task {
    weir_task task;
    const weir_store_info *info;  /* for writing */
    uint64_t splits[WEIR_SPLITS]; /* seeds */
    struct {
        uint32_t values[WEIR_STORE__LABEL_LISTS], count;
    } labels;
    weir_cbor_value dropped_columns, hidden_edges; /* numbers */
    bool says_drops_target;
    const char *observed;       /* the name of the observation time's column */
    weir_statistics statistics; /* the rest is of a derived task's own column */
    uint32_t category_start, category_count;
} stored_task;

typedef struct metadata_document {
    weir_store_info info;
    stored_task *tasks;
} metadata_document;

/* What a task may have at most, so that places in its parts of sections fit 64 bits. */
#define SEEDS_MAX ((uint64_t)1 << 56)

#define NUMBER(type, member) WEIR__UINT(type, member, 0, UINT64_MAX), .flags = WEIR__REQUIRED
#define INDEX(type, member)  WEIR__UINT(type, member, 0, UINT32_MAX - 1), .flags = WEIR__REQUIRED
/* An index that is null, or left out, if there is none. */
#define INDEX_OR_NULL(type, member)                                                                          \
    WEIR__UINT(type, member, 0, UINT32_MAX - 1), .otherwise = WEIR_NONE,                                     \
                                                 .flags = WEIR__REQUIRED | WEIR__NULLABLE
#define RARE_INDEX(type, member)                                                                             \
    WEIR__UINT(type, member, 0, UINT32_MAX - 1), .otherwise = WEIR_NONE, .flags = WEIR__SPARSE
#define NAME(type, member) WEIR__TEXT(type, member), .flags = WEIR__REQUIRED
#define STYPE(type, member)                                                                                  \
    WEIR__UINT(type, member, 0, UINT8_MAX), .flags = WEIR__REQUIRED, .read = read_stype
#define STATISTICS(type, member)                                                                             \
    {"std", WEIR__REAL(type, member.std), .flags = WEIR__REQUIRED, .read = read_std},                        \
        {"mean", WEIR__REAL(type, member.mean), .flags = WEIR__REQUIRED}, {                                  \
        "count", NUMBER(type, member.count)                                                                  \
    }

/* One that columns of a store have. */
static weir_status read_stype(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                              void *object) {
    WEIR__TRY(weir__read_plain(r, field, value, object));
    return weir_value_of((weir_stype)value->number) != WEIR_VALUE_NOTHING
               ? WEIR_OK
               : weir__refuse(r, field->name, "is not a semantic type");
}

static weir_status read_std(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                            void *object) {
    WEIR__TRY(weir__read_plain(r, field, value, object));
    return value->real > 0 ? WEIR_OK : weir__refuse(r, field->name, "must be above 0");
}

/* Whether there are times: the pointer to them is set by whoever places the sections. */
static weir_status read_has_times(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                  void *object) {
    static const uint8_t some = 0;
    if (value->type != WEIR_CBOR_BOOL)
        return weir__refuse(r, field->name, "must be true or false");
    *(const uint8_t **)(void *)((char *)object + field->offset) = value->number ? &some : NULL;
    return WEIR_OK;
}

static void write_has_times(weir_cbor_writer *w, const weir__field *field, const void *object) {
    weir_cbor_bool(w, *(const uint8_t *const *)(const void *)((const char *)object + field->offset) != NULL);
}

#define HAS_TIMES(type, member)                                                                              \
    WEIR__OTHER(read_has_times, write_has_times), WEIR__AT(type, member), .flags = WEIR__REQUIRED

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Paths are lists of names, without a map around them. */
static const weir__field path_field = {"of", WEIR__TEXTS(weir_time_path, names, count)};

static weir_status read_paths(weir__reader *r, const weir__field *field, const weir_cbor_value *list,
                              void *object) {
    weir_stored_time *time = object;
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    weir_time_path *paths;
    if (list->type != WEIR_CBOR_ARRAY || list->number == 0)
        return weir__refuse(r, field->name, "must be a list of paths, with at least one");
    WEIR__TRY(weir__reader_take(r, (size_t)list->number, sizeof *paths, &paths));
    time->paths = paths;
    while (weir_cbor_next(&it, NULL, &item)) {
        weir_time_path *path = &paths[time->path_count++];
        WEIR__TRY(weir__read_plain(r, &path_field, &item, path));
        if (path->count == 0)
            return weir__refuse(r, field->name, "has an empty path");
    }
    return WEIR_OK;
}

static void write_paths(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_stored_time *time = object;
    (void)field;
    weir_cbor_array(w, time->path_count);
    for (uint32_t i = 0; i < time->path_count; i++)
        weir__write_plain(w, &path_field, &time->paths[i]);
}

static const weir__field time_fields[] = {
    {"of", WEIR__OTHER(read_paths, write_paths), .flags = WEIR__REQUIRED},
    {"nulls", NUMBER(weir_stored_time, nulls)},
};
static const weir__shape time_shape = WEIR__SHAPE(weir_stored_time, time_fields);

static bool has_no_keys(const void *object) {
    return ((const weir_table *)object)->key_form == WEIR_KEYS_NONE;
}

static bool is_not_packed(const void *object) {
    return ((const weir_table *)object)->key_form != WEIR_KEYS_PACKED;
}

static bool is_not_cbor(const void *object) {
    return ((const weir_table *)object)->key_form != WEIR_KEYS_CBOR;
}

static bool is_cbor(const void *object) {
    return !is_not_cbor(object);
}

static weir_status check_keys(weir__reader *r, void *object) {
    const weir_table *table = object;
    if (!is_not_packed(table) && (table->key_width > 8 || __builtin_popcount(table->key_width) != 1))
        return weir__refuse(r, "width", "must be 1, 2, 4 or 8");
    if (table->primary_key_count == 0 || (!is_cbor(table) && table->primary_key_count != 1))
        return weir__refuse(r, NULL, "does not fit the primary key");
    return WEIR_OK;
}

static const weir__field keys_fields[] = {
    {"form", WEIR__WORD(weir_table, key_form, weir_store__key_forms), .least = WEIR_KEYS_RANGE,
     .flags = WEIR__REQUIRED},
    {"size", NUMBER(weir_table, key_size), .is_absent = is_not_cbor},
    {"first", WEIR__INT(weir_table, key_first), .flags = WEIR__REQUIRED, .is_absent = is_cbor},
    {"width", INDEX(weir_table, key_width), .is_absent = is_not_packed},
};
static const weir__shape keys_shape = WEIR__SHAPE(weir_table, keys_fields, .check = check_keys);

static const weir__field table_fields[] = {
    {"name", NAME(weir_table, name)},
    {"rows", INDEX(weir_table, row_count)},
    {"time", RARE_INDEX(weir_table, temporal_time)},
    {"times", WEIR__LIST(weir_table, times, time_count, &time_shape), .flags = WEIR__SPARSE},
    {"columns", INDEX(weir_table, column_count)},
    {"primary_key", WEIR__TEXTS(weir_table, primary_key, primary_key_count), .flags = WEIR__REQUIRED},
    {"keys", WEIR__SPREAD(&keys_shape), .is_absent = has_no_keys},
    {"temporal_column", INDEX_OR_NULL(weir_table, temporal_column)},
};
static const weir__shape table_shape = WEIR__SHAPE(weir_table, table_fields);

/* ---- Columns --------------------------------------------------------------------------------- */

static const weir__field column_fields[] = {
    STATISTICS(weir_column, statistics),
    {"name", NAME(weir_column, name)},
    {"nulls", NUMBER(weir_column, nulls)},
    {"stype", STYPE(weir_column, stype)},
    {"known_at", INDEX_OR_NULL(weir_column, known_at)},
    {"known_time", RARE_INDEX(weir_column, known_time)},
    {"not_finite", NUMBER(weir_column, not_finite)},
    {"description", NAME(weir_column, description)},
    {"category_count", INDEX(weir_column, category_count)},
    {"category_start", INDEX(weir_column, category_start)},
};
static const weir__shape column_shape = WEIR__SHAPE(weir_column, column_fields);

/* ---- Edges ----------------------------------------------------------------------------------- */

static bool has_own_column(const void *object) {
    const weir_edge *edge = object;
    return edge->column_count == 1 && strcmp(edge->columns[0], edge->name) == 0;
}

static const weir__field edge_fields[] = {
    {"name", NAME(weir_edge, name)},
    {"edges", NUMBER(weir_edge, edges)},
    {"table", INDEX(weir_edge, table)},
    {"column", INDEX_OR_NULL(weir_edge, column)},
    {"columns", WEIR__TEXTS(weir_edge, columns, column_count), .is_absent = has_own_column},
    {"dangling", NUMBER(weir_edge, dangling)},
    {"known_at", INDEX_OR_NULL(weir_edge, known_at)},
    {"has_times", HAS_TIMES(weir_edge, child_times)},
    {"known_time", RARE_INDEX(weir_edge, known_time)},
    {"parent_table", INDEX(weir_edge, parent_table)},
};
static const weir__shape edge_shape = WEIR__SHAPE(weir_edge, edge_fields);

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* The numbers of the bytes that are 1. */
static void write_marks(weir_cbor_writer *w, const uint8_t *marks, uint32_t count) {
    uint32_t marked = 0;
    for (uint32_t i = 0; i < count; i++)
        marked += marks[i];
    weir_cbor_array(w, marked);
    for (uint32_t i = 0; i < count; i++)
        if (marks[i])
            weir_cbor_uint(w, i);
}

static void write_dropped_columns(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const stored_task *stored = object;
    (void)field;
    write_marks(w, stored->task.column_dropped, stored->info->column_count);
}

static void write_hidden_edges(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const stored_task *stored = object;
    (void)field;
    write_marks(w, stored->task.edge_hidden, stored->info->edge_count);
}

/* How many seeds each split has. */
static weir_status read_splits(weir__reader *r, const weir__field *field, const weir_cbor_value *list,
                               void *object) {
    stored_task *stored = object;
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    if (list->type != WEIR_CBOR_ARRAY || list->number != WEIR_SPLITS)
        return weir__refuse(r, field->name, "must be three numbers of seeds");
    for (uint32_t split = 0; weir_cbor_next(&it, NULL, &item); split++) {
        if (item.type != WEIR_CBOR_UINT)
            return weir__refuse(r, field->name, "must be three numbers of seeds");
        stored->splits[split] = item.number;
    }
    return WEIR_OK;
}

static void write_splits(weir_cbor_writer *w, const weir__field *field, const void *object) {
    (void)field;
    weir_cbor_array(w, WEIR_SPLITS);
    for (uint32_t split = 0; split < WEIR_SPLITS; split++)
        weir_cbor_uint(w, ((const stored_task *)object)->splits[split]);
}

static bool keeps_early_seeds(const void *object) {
    return ((const stored_task *)object)->task.before_anchor == WEIR_BEFORE_ANCHOR_KEEP;
}

static bool has_no_label_times(const void *object) {
    const weir_task *task = &((const stored_task *)object)->task;
    return !task->has_horizon && !task->label_known_column;
}

static const weir__field link_fields[] = {
    {"edge", RARE_INDEX(weir_link, edge)},     {"late", NUMBER(weir_link, late)},
    {"lists", NUMBER(weir_link, lists)},       {"table", INDEX(weir_link, table)},
    {"repeated", NUMBER(weir_link, repeated)},
};
static const weir__shape link_shape = WEIR__SHAPE(weir_link, link_fields);

static const char *const target_statistics[] = {"", "train", NULL};

static const weir__field task_fields[] = {
    STATISTICS(stored_task, statistics),
    {"name", NAME(stored_task, task.name)},
    {"stype", STYPE(stored_task, task.stype)},
    {"column", INDEX(stored_task, task.column)},
    {"splits", WEIR__OTHER(read_splits, write_splits), .flags = WEIR__REQUIRED},
    {"dropped", NUMBER(stored_task, task.dropped)},
    {"horizon", WEIR__UINT(stored_task, task.horizon, 0, INT64_MAX - 1),
     .has = offsetof(stored_task, task.has_horizon), .flags = WEIR__SPARSE},
    {"is_cell", WEIR__BOOL(stored_task, task.is_cell), .flags = WEIR__REQUIRED},
    {"has_times", HAS_TIMES(stored_task, task.seed_times)},
    {"drop_names", WEIR__TEXTS(stored_task, task.drop_columns, task.drop_column_count),
     .flags = WEIR__REQUIRED},
    {"anchor_table", INDEX(stored_task, task.anchor_table)},
    {"drop_columns", WEIR__VALUE(stored_task, dropped_columns), .write = write_dropped_columns,
     .flags = WEIR__REQUIRED},
    {"drops_target", WEIR__BOOL(stored_task, task.drops_target),
     .has = offsetof(stored_task, says_drops_target), .flags = WEIR__SPARSE},
    {"hidden_edges", WEIR__VALUE(stored_task, hidden_edges), .write = write_hidden_edges,
     .flags = WEIR__REQUIRED},
    {"before_anchor", WEIR__WORD(stored_task, task.before_anchor, weir_store__before_anchors),
     .least = WEIR_BEFORE_ANCHOR_SHOW_KNOWN, .flags = WEIR__SPARSE},
    {"early", NUMBER(stored_task, task.early_seeds), .is_absent = keeps_early_seeds},
    {"target_column", NAME(stored_task, task.target_column)},
    {"weight_column", WEIR__TEXT(stored_task, task.weight_column), .flags = WEIR__SPARSE},
    {"category_count", INDEX(stored_task, category_count)},
    {"category_start", INDEX(stored_task, category_start)},
    {"target_statistics", WEIR__WORD(stored_task, task.has_train_statistics, target_statistics), .least = 1,
     .flags = WEIR__SPARSE},
    {"label_known_column", WEIR__TEXT(stored_task, task.label_known_column), .flags = WEIR__SPARSE},
    {"labels", WEIR__NUMBERS(stored_task, labels, 0, UINT32_MAX), .is_absent = has_no_label_times,
     .flags = WEIR__REQUIRED},
    {"observed", NAME(stored_task, observed), .is_absent = has_no_label_times},
    {"link", WEIR__OBJECT(stored_task, task.link, &link_shape),
     .has = offsetof(stored_task, task.link.is_link), .flags = WEIR__SPARSE},
};
static const weir__shape task_shape = WEIR__SHAPE(stored_task, task_fields);

static void write_tasks(weir_cbor_writer *w, const weir__field *field, const void *object) {
    const weir_store_info *info = &((const metadata_document *)object)->info;
    weir_cbor_array(w, info->task_count);
    for (uint32_t i = 0; i < info->task_count; i++) {
        const weir_task *task = &info->tasks[i];
        stored_task stored = {
            .task = *task,
            .info = info,
            .labels = {{task->labels.count, task->train_labels.count}, WEIR_STORE__LABEL_LISTS},
            .says_drops_target = task->drops_target != weir_store__names_target(info, task),
            .statistics.std = 1};
        for (int split = 0; split < WEIR_SPLITS; split++)
            stored.splits[split] = task->split_start[split + 1] - task->split_start[split];
        if (task->has_label_times)
            stored.observed = info->columns[task->observed_column].name;
        if (!task->is_cell) {
            const weir_column *column = &info->columns[task->column];
            stored.statistics = column->statistics;
            stored.category_start = column->category_start;
            stored.category_count = column->category_count;
        }
        weir__write(w, field->shape, &stored);
    }
}

/* ---- The document ---------------------------------------------------------------------------- */

static const weir__field embedding_fields[] = {
    {"dim", WEIR__UINT(metadata_document, info.embedding_dim, 0, WEIR_STORE__EMBEDDING_DIM_MAX),
     .flags = WEIR__REQUIRED},
    {"provider", NAME(metadata_document, info.embedding_provider)},
};
static const weir__shape embedding_shape = WEIR__SHAPE(metadata_document, embedding_fields);

static const weir__field statistics_fields[] = {STATISTICS(metadata_document, info.timestamps)};
static const weir__shape statistics_shape = WEIR__SHAPE(metadata_document, statistics_fields);

static const weir__field fields[] = {
    {"name", NAME(metadata_document, info.name)},
    {"rows", NUMBER(metadata_document, info.row_count)},
    {"texts", INDEX(metadata_document, info.text_count)},
    {"categories", INDEX(metadata_document, info.category_count)},
    {"embedding", WEIR__SPREAD(&embedding_shape), .flags = WEIR__REQUIRED},
    {"timestamps", WEIR__SPREAD(&statistics_shape), .flags = WEIR__REQUIRED},
    {"statistics_until", WEIR__INT(metadata_document, info.statistics_until),
     .has = offsetof(metadata_document, info.has_statistics_until), .flags = WEIR__NULLABLE},
    {"tables", WEIR__LIST(metadata_document, info.tables, info.table_count, &table_shape),
     .flags = WEIR__REQUIRED},
    {"columns", WEIR__LIST(metadata_document, info.columns, info.table_column_count, &column_shape),
     .flags = WEIR__REQUIRED},
    {"edges", WEIR__LIST(metadata_document, info.edges, info.edge_count, &edge_shape),
     .flags = WEIR__REQUIRED},
    {"tasks", WEIR__LIST(metadata_document, tasks, info.task_count, &task_shape), .write = write_tasks,
     .flags = WEIR__REQUIRED},
};
static const weir__shape shape = WEIR__SHAPE(metadata_document, fields);

void weir_store__metadata_write(const weir_store_info *info, weir_cbor_writer *w) {
    metadata_document document = {.info = *info};
    weir__write(w, &shape, &document);
}

/* ---- What the tables cannot check ------------------------------------------------------------ */

static weir_status refuse_item(weir__reader *r, const char *list, uint32_t number, const char *key,
                               const char *what) {
    (void)weir__enter(r, list, strlen(list));
    (void)weir__enter_item(r, number);
    return weir__refuse(r, key, "%s", what);
}

/* Whether a time of a table's rows is one: a timestamp column of the table, a stored time, or none. */
static bool is_time(const weir_store_info *info, uint32_t table, uint32_t column, uint32_t time) {
    if (time != WEIR_NONE)
        return column == WEIR_NONE && time < info->tables[table].time_count;
    return column == WEIR_NONE ||
           (column < info->table_column_count && info->columns[column].table == table &&
            weir_value_of(info->columns[column].stype) == WEIR_VALUE_TIME);
}

static bool are_categories(const weir_store_info *info, uint32_t start, uint32_t count) {
    return count <= info->category_count && start <= info->category_count - count;
}

/* Rows and columns lie table after table; the tables are in bytewise order, so that none stands twice. */
static weir_status place_tables(weir__reader *r, weir_store_info *info) {
    weir_table *tables = (weir_table *)info->tables;
    uint64_t rows = 0;
    uint32_t columns = 0;
    if (info->format == 1 && info->row_count > WEIR_STORE__ROWS_MAX)
        return weir__refuse(r, "rows", "must be at most 2^32 - 2");
    if (info->table_count > WEIR_STORE__TABLES_MAX)
        return weir__refuse(r, "tables", "has too many items");
    for (uint32_t t = 0; t < info->table_count; t++) {
        weir_table *table = &tables[t];
        if (t > 0 && strcmp(table[-1].name, table->name) >= 0)
            return refuse_item(r, "tables", t, "name", "is out of order");
        if (table->row_count > info->row_count - rows)
            return refuse_item(r, "tables", t, "rows", "is more than there are");
        if (table->column_count > info->table_column_count - columns)
            return refuse_item(r, "tables", t, "columns", "is more than there are");
        table->column_start = columns;
        rows += table->row_count;
        columns += table->column_count;
    }
    if (rows != info->row_count)
        return weir__refuse(r, "rows", "is not the sum of the tables' rows");
    if (columns != info->table_column_count)
        return weir__refuse(r, "columns", "has not as many items as the tables have columns");
    weir_store__number_rows(info, tables);
    return WEIR_OK;
}

/* Gives the tables' columns room for those of the tasks after them. */
static weir_status place_columns(weir__reader *r, const metadata_document *document, weir_store_info *info,
                                 weir_column **out) {
    uint32_t of_tasks = 0;
    if (info->task_count > (INT32_MAX - info->table_column_count) / 2)
        return weir__refuse(r, "tasks", "has too many items");
    for (uint32_t i = 0; i < info->task_count; i++)
        of_tasks +=
            (document->tasks[i].task.is_cell ? 0u : 1u) + (has_no_label_times(&document->tasks[i]) ? 0u : 1u);
    info->column_count = info->table_column_count + of_tasks;
    if (!weir_store__marks_fit(info))
        return weir__refuse(r, "tasks", "has too many items for as many columns and foreign keys");
    WEIR__TRY(weir__reader_take(r, info->column_count, sizeof **out, out));
    if (info->table_column_count > 0)
        memcpy(*out, info->columns, info->table_column_count * sizeof **out);
    info->columns = *out;
    for (uint32_t t = 0; t < info->table_count; t++)
        for (uint32_t c = 0; c < info->tables[t].column_count; c++) {
            weir_column *column = &(*out)[info->tables[t].column_start + c];
            column->table = t;
            column->task = WEIR_NONE;
        }
    return WEIR_OK;
}

static weir_status check_columns(weir__reader *r, const weir_store_info *info) {
    for (uint32_t c = 0; c < info->table_column_count; c++) {
        const weir_column *column = &info->columns[c];
        if (!is_time(info, column->table, column->known_at, column->known_time))
            return refuse_item(r, "columns", c, "known_at", "is not a time of the table");
        if (!are_categories(info, column->category_start, column->category_count))
            return refuse_item(r, "columns", c, "category_start", "is beyond the categories");
    }
    for (uint32_t t = 0; t < info->table_count; t++)
        if (!is_time(info, t, info->tables[t].temporal_column, info->tables[t].temporal_time))
            return refuse_item(r, "tables", t, "temporal_column", "is not a time of the table");
    return WEIR_OK;
}

static weir_status check_edge(weir__reader *r, const weir_store_info *info, weir_edge *edge, uint32_t e) {
    if (edge->table >= info->table_count || (e > 0 && edge->table < edge[-1].table))
        return refuse_item(r, "edges", e, "table", "is not a table, or out of order");
    if (edge->parent_table >= info->table_count)
        return refuse_item(r, "edges", e, "parent_table", "is not a table");
    if (edge->column != WEIR_NONE &&
        (edge->column >= info->table_column_count || info->columns[edge->column].table != edge->table))
        return refuse_item(r, "edges", e, "column", "is not a column of the table");
    if (!is_time(info, edge->table, edge->known_at, edge->known_time))
        return refuse_item(r, "edges", e, "known_at", "is not a time of the table");
    if (edge->columns && (edge->column_count == 0 || (edge->column_count > 1 && edge->column != WEIR_NONE)))
        return refuse_item(r, "edges", e, "columns", "must be names, of one column if there is a column");
    if (edge->edges > info->tables[edge->table].row_count)
        return refuse_item(r, "edges", e, "edges", "is more than the table's rows");
    if (!edge->columns) {
        edge->columns = &edge->name;
        edge->column_count = 1;
    }
    return WEIR_OK;
}

/* Gives every table its run of edge types (they are ordered by table), the list of those into it, and the
 * layout of its records. */
static weir_status link_tables(weir__reader *r, weir_store_info *info) {
    weir_table *tables = (weir_table *)info->tables;
    weir_edge *edges = (weir_edge *)info->edges;
    for (uint32_t e = 0; e < info->edge_count; e++) {
        WEIR__TRY(check_edge(r, info, &edges[e], e));
        weir_table *child = &tables[edges[e].table];
        if (child->edge_count++ == 0)
            child->edge_start = e;
        tables[edges[e].parent_table].inbound_count++;
    }
    for (uint32_t t = 0; t < info->table_count; t++) {
        WEIR__TRY(
            weir__reader_take(r, tables[t].inbound_count, sizeof *tables[t].inbound, &tables[t].inbound));
        tables[t].inbound_count = 0;
        if (!weir_store__layout_record(&tables[t], (weir_column *)info->columns + tables[t].column_start,
                                       edges + tables[t].edge_start))
            return refuse_item(r, "tables", t, "columns", "is more than a table may have");
    }
    for (uint32_t e = 0; e < info->edge_count; e++) {
        weir_table *parent = &tables[edges[e].parent_table];
        ((uint32_t *)parent->inbound)[parent->inbound_count++] = e;
    }
    return WEIR_OK;
}

/* ---- Tasks, of which all else is known ------------------------------------------------------- */

/* A list of numbers below `count`, as a byte each that is 1. */
static weir_status read_marks(weir__reader *r, const char *key, const weir_cbor_value *list, uint32_t count,
                              const uint8_t **out) {
    weir_cbor_value item;
    uint8_t *marks;
    WEIR__TRY(weir__reader_take(r, count, 1, &marks));
    *out = marks;
    if (list->type != WEIR_CBOR_ARRAY)
        return weir__refuse(r, key, "must be a list");
    weir_cbor_iterator it = weir_cbor_children(list);
    while (weir_cbor_next(&it, NULL, &item)) {
        if (item.type != WEIR_CBOR_UINT || item.number >= count)
            return weir__refuse(r, key, "must hold numbers below %u", count);
        marks[item.number] = 1;
    }
    return WEIR_OK;
}

/* The next derived task has the next ColumnIdx; a cell task's is a column of its anchor table. */
static weir_status place_target(weir__reader *r, const stored_task *stored, const weir_store_info *info,
                                weir_column *columns, uint32_t number, uint32_t *next) {
    const weir_task *task = &stored->task;
    if (task->is_cell)
        return task->column < info->table_column_count && columns[task->column].table == task->anchor_table &&
                       columns[task->column].stype == task->stype
                   ? WEIR_OK
                   : weir__refuse(r, "column", "is not a column of the anchor table and of the task's type");
    if (task->column != *next)
        return weir__refuse(r, "column", "is %u; the next one is %u", task->column, *next);
    if (!are_categories(info, stored->category_start, stored->category_count))
        return weir__refuse(r, "category_start", "is beyond the categories");
    weir_column *column = &columns[(*next)++];
    *column = weir_store__task_column(task->target_column, number, task->stype);
    column->statistics = stored->statistics;
    column->category_start = stored->category_start;
    column->category_count = stored->category_count;
    return WEIR_OK;
}

/* A link task is a derived one that is about pairs. */
static weir_status check_link(weir__reader *r, const stored_task *stored, const weir_store_info *info) {
    const weir_task *task = &stored->task;
    const weir_link *link = &task->link;
    if (!link->is_link)
        return WEIR_OK;
    bool is_sound = !task->is_cell && task->stype == WEIR_BOOLEAN && task->seed_times &&
                    has_no_label_times(stored) && !task->weight_column && link->table < info->table_count;
    if (!is_sound || (link->edge != WEIR_NONE && (link->edge >= info->edge_count ||
                                                  info->edges[link->edge].parent_table != link->table)))
        return weir__refuse(r, "link", "does not fit the task");
    return WEIR_OK;
}

static weir_status read_task(weir__reader *r, const stored_task *stored, const weir_store_info *info,
                             weir_column *columns, uint32_t number, uint32_t *next, weir_task *task) {
    *task = stored->task;
    task->observed_column = WEIR_NONE;
    if (!weir_store__stype_can_be_target(task->stype))
        return weir__refuse(r, "stype", "cannot be a target");
    if (task->anchor_table >= info->table_count)
        return weir__refuse(r, "anchor_table", "is not a table");
    uint64_t most = info->format == 1 || task->link.is_link ? WEIR_STORE__ROWS_MAX : SEEDS_MAX;
    for (uint32_t split = 0; split < WEIR_SPLITS; split++) {
        if (stored->splits[split] > most - task->seed_count)
            return weir__refuse(r, "splits", "has more seeds than a task may have");
        task->split_start[split + 1] = task->seed_count += stored->splits[split];
    }
    WEIR__TRY(
        read_marks(r, "drop_columns", &stored->dropped_columns, info->column_count, &task->column_dropped));
    WEIR__TRY(read_marks(r, "hidden_edges", &stored->hidden_edges, info->edge_count, &task->edge_hidden));
    WEIR__TRY(check_link(r, stored, info));
    WEIR__TRY(place_target(r, stored, info, columns, number, next));
    if (!stored->says_drops_target)
        task->drops_target = weir_store__names_target(info, task);
    return WEIR_OK;
}

/* When the task's labels are known, and its column of observation times, which has the next ColumnIdx. */
static weir_status read_label_times(weir__reader *r, const stored_task *stored, const weir_store_info *info,
                                    weir_column *columns, uint32_t number, uint32_t *next, weir_task *task) {
    const uint32_t *labels = stored->labels.values;
    if (has_no_label_times(stored))
        return WEIR_OK;
    if (task->is_cell || (task->has_horizon && task->label_known_column) ||
        task->seed_count > WEIR_STORE__ROWS_MAX - info->first_task_number)
        return weir__refuse(r, "horizon", "does not fit the task");
    if (stored->labels.count != WEIR_STORE__LABEL_LISTS || labels[0] > task->seed_count ||
        labels[1] > task->split_start[WEIR_TRAIN + 1])
        return weir__refuse(r, "labels", "must be two numbers, not above those of the seeds");
    task->has_label_times = true;
    task->labels.count = labels[0];
    task->train_labels.count = labels[1];
    task->observed_column = (*next)++;
    columns[task->observed_column] = weir_store__task_column(stored->observed, number, WEIR_TIMESTAMP);
    return WEIR_OK;
}

static weir_status read_tasks(weir__reader *r, const metadata_document *document, weir_store_info *info,
                              weir_column *columns) {
    uint32_t next = info->table_column_count;
    weir_task *tasks;
    WEIR__TRY(weir__reader_take(r, info->task_count, sizeof *tasks, &tasks));
    info->tasks = tasks;
    (void)weir__enter(r, "tasks", strlen("tasks"));
    for (uint32_t i = 0; i < 2 * info->task_count; i++) {
        uint32_t number = i % info->task_count;
        size_t outer = weir__enter_item(r, number);
        WEIR__TRY((i < info->task_count ? read_task : read_label_times)(
            r, &document->tasks[number], info, columns, number, &next, &tasks[number]));
        weir__leave(r, outer);
    }
    return WEIR_OK;
}

weir_status weir_store__metadata_read(const weir_cbor_value *metadata, weir__arena *arena,
                                      weir_store_info *info, weir_error *error) {
    weir__reader r = {.arena = arena,
                      .error = error,
                      .family = WEIR_STORE_CORRUPT,
                      .failure_operator = WEIR_STORE__OPERATOR,
                      .name = "the metadata is damaged",
                      .path = "$"};
    metadata_document document = {.info = *info};
    weir_column *columns;
    WEIR__TRY(weir__read(&r, metadata, &shape, &document));
    *info = document.info;
    WEIR__TRY(place_tables(&r, info));
    WEIR__TRY(place_columns(&r, &document, info, &columns));
    WEIR__TRY(check_columns(&r, info));
    WEIR__TRY(link_tables(&r, info));
    return read_tasks(&r, &document, info, columns);
}
