/* See like.h. The schema is trimmed to what the earlier store has, planned as any other, and compared with
 * the earlier store, so that numbers of tables, columns, foreign keys and tasks are the same in both; what
 * follows can then look things up by number. */
#include "ingest/like.h"

#include <math.h>
#include <string.h>

#include "store/reader.h"

static const weir_store_info *earlier(const weir_ingest__like *like) {
    return weir_store_describe(like->store);
}

weir_status weir_ingest__like_open(const weir_ingest__context *context, weir_ingest__like *out,
                                   weir_error *error) {
    *out = (weir_ingest__like){.path = context->options->like};
    return out->path ? weir_store_open(context->env, out->path, &out->store, error) : WEIR_OK;
}

/* ---- Finding by name ------------------------------------------------------------------------- */

static uint32_t find_table(const weir_store_info *info, const char *name) {
    for (uint32_t t = 0; t < info->table_count; t++)
        if (strcmp(info->tables[t].name, name) == 0)
            return t;
    return WEIR_NONE;
}

/* ColumnIdx of a table's column. */
static uint32_t find_column(const weir_store_info *info, uint32_t table, const char *name) {
    const weir_table *t = &info->tables[table];
    for (uint32_t c = t->column_start; c < t->column_start + t->column_count; c++)
        if (strcmp(info->columns[c].name, name) == 0)
            return c;
    return WEIR_NONE;
}

static uint32_t find_edge(const weir_store_info *info, uint32_t table, const char *name) {
    const weir_table *t = &info->tables[table];
    for (uint32_t e = t->edge_start; e < t->edge_start + t->edge_count; e++)
        if (strcmp(info->edges[e].name, name) == 0)
            return e;
    return WEIR_NONE;
}

static uint32_t find_task(const weir_store_info *info, const char *name) {
    for (uint32_t i = 0; i < info->task_count; i++)
        if (strcmp(info->tasks[i].name, name) == 0)
            return i;
    return WEIR_NONE;
}

uint32_t weir_ingest__like_edge(const weir_ingest__like *like, const char *table, const char *key) {
    uint32_t t = like->store ? find_table(earlier(like), table) : WEIR_NONE;
    return t == WEIR_NONE ? WEIR_NONE : find_edge(earlier(like), t, key);
}

/* ---- Leaving out ----------------------------------------------------------------------------- */

typedef struct trimmer {
    weir_ingest__context *context;
    const weir_ingest__like *like;
    weir_ingest__schema *schema;
} trimmer;

static void leave_out(const trimmer *by, const char *table, const char *column, const char *task,
                      const char *what, const char *name) {
    weir_ingest__warn(by->context, "like_left_out", table, column, task,
                      "%s %.150s%s%.150s is not in %.300s: it is left out", what,
                      table && column ? table : "", table && column ? "." : "", name, by->like->path);
}

static void trim_tables(const trimmer *by) {
    weir_ingest__schema *schema = by->schema;
    uint32_t kept = 0;
    for (uint32_t t = 0; t < schema->table_count; t++) {
        weir_ingest__schema_table table = schema->tables[t];
        uint32_t number = find_table(earlier(by->like), table.name);
        if (number == WEIR_NONE) {
            leave_out(by, table.name, NULL, NULL, "table", table.name);
            continue;
        }
        for (uint32_t c = 0; c < table.column_count; c++) {
            weir_ingest__schema_column *column = &table.columns[c];
            if (column->stype == WEIR_IGNORED ||
                find_column(earlier(by->like), number, column->name) != WEIR_NONE)
                continue;
            leave_out(by, table.name, column->name, NULL, "column", column->name);
            column->stype = WEIR_IGNORED;
        }
        uint32_t key_count = 0;
        for (uint32_t i = 0; i < table.foreign_key_count; i++) {
            const weir_ingest__schema_key *key = &table.foreign_keys[i];
            if (find_edge(earlier(by->like), number, key->name) != WEIR_NONE &&
                find_table(earlier(by->like), key->table) != WEIR_NONE)
                table.foreign_keys[key_count++] = *key;
            else
                leave_out(by, table.name, key->name, NULL, "foreign key", key->name);
        }
        table.foreign_key_count = key_count;
        schema->tables[kept++] = table;
    }
    schema->table_count = kept;
}

static void trim_tasks(const trimmer *by) {
    weir_ingest__schema *schema = by->schema;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < schema->task_count; i++) {
        weir_ingest__schema_task task = schema->tasks[i];
        uint32_t drops = 0;
        if (find_task(earlier(by->like), task.name) == WEIR_NONE ||
            !weir_ingest__schema_find_table(schema, task.anchor_table) ||
            (task.destination_table && !weir_ingest__schema_find_table(schema, task.destination_table))) {
            leave_out(by, NULL, NULL, task.name, "task", task.name);
            continue;
        }
        for (uint32_t d = 0; d < task.drop_column_count; d++)
            if (weir_ingest__schema_find_table(schema, task.drop_columns[d].table))
                task.drop_columns[drops++] = task.drop_columns[d];
        task.drop_column_count = drops;
        schema->tasks[kept++] = task;
    }
    schema->task_count = kept;
}

/* Whether a path still leads to a timestamp column. */
static bool resolves(const weir_ingest__schema *schema, const weir_ingest__schema_table *table,
                     const weir_time_path *path) {
    for (uint32_t i = 0; i + 1 < path->count; i++) {
        const weir_ingest__schema_key *key = weir_ingest__schema_find_key(table, path->names[i]);
        table = key ? weir_ingest__schema_find_table(schema, key->table) : NULL;
        if (!table)
            return false;
    }
    const weir_ingest__schema_column *column =
        path->count ? weir_ingest__schema_find_column(table, path->names[path->count - 1]) : NULL;
    return path->count == 0 || (column && weir_value_of(column->stype) == WEIR_VALUE_TIME);
}

static weir_status refuse_time(weir_error *error, const char *table, const char *of) {
    return weir_ingest__plan_refuse(
        error, WEIR_SCHEMA_INVALID,
        "is a time through something that the store of --like does not have; use the "
        "schema that it was made with",
        "$.tables.%s%s%s", table, of ? ": known_at of " : ".temporal_column", of ? of : "");
}

weir_status weir_ingest__like_trim(weir_ingest__context *context, const weir_ingest__like *like,
                                   weir_ingest__schema *schema, weir_error *error) {
    trimmer by = {context, like, schema};
    if (!like->store)
        return WEIR_OK;
    trim_tables(&by);
    trim_tasks(&by);
    for (uint32_t t = 0; t < schema->table_count; t++) {
        const weir_ingest__schema_table *table = &schema->tables[t];
        if (!resolves(schema, table, &table->temporal))
            return refuse_time(error, table->name, NULL);
        for (uint32_t c = 0; c < table->column_count; c++)
            if (table->columns[c].stype != WEIR_IGNORED &&
                !resolves(schema, table, &table->columns[c].known_at))
                return refuse_time(error, table->name, table->columns[c].name);
        for (uint32_t i = 0; i < table->foreign_key_count; i++)
            if (!resolves(schema, table, &table->foreign_keys[i].known_at))
                return refuse_time(error, table->name, table->foreign_keys[i].name);
    }
    return WEIR_OK;
}

/* ---- The order of columns -------------------------------------------------------------------- */

void weir_ingest__like_positions(const weir_ingest__like *like, const char *name,
                                 const weir_ingest__catalog_table *source, uint32_t *positions) {
    uint32_t table = like->store ? find_table(earlier(like), name) : WEIR_NONE;
    uint32_t count = 0, last = 0;
    bool is_in_order = true; /* the source declares the earlier store's columns in their order */
    for (uint32_t i = 0; i < source->column_count; i++) {
        uint32_t column =
            table == WEIR_NONE ? WEIR_NONE : find_column(earlier(like), table, source->columns[i].name);
        positions[i] = i;
        is_in_order = is_in_order && (column == WEIR_NONE || column >= last);
        last = column == WEIR_NONE ? last : column;
    }
    if (is_in_order)
        return;
    const weir_table *t = &earlier(like)->tables[table];
    for (uint32_t c = t->column_start; c < t->column_start + t->column_count; c++) {
        const char *column = earlier(like)->columns[c].name;
        uint32_t at = weir_ingest__catalog_find_column(source, column);
        if (at != WEIR_NONE && find_column(earlier(like), table, column) == c) /* damaged, it has it twice */
            positions[count++] = at;
    }
    for (uint32_t i = 0; i < source->column_count; i++)
        if (find_column(earlier(like), table, source->columns[i].name) == WEIR_NONE)
            positions[count++] = i;
}

/* ---- Fitting --------------------------------------------------------------------------------- */

static weir_status misfit(const weir_ingest__like *like, weir_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static weir_status misfit(const weir_ingest__like *like, weir_error *error, const char *format, ...) {
    char what[500];
    WEIR__FORMAT(what, format);
    return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                      "the data and the schema do not fit %.300s: %s; use the schema that it was made with",
                      like->path, what);
}

static bool is_same_text(const char *a, const char *b) {
    return strcmp(a, b) == 0;
}

/* Two times of a table's rows, each a ColumnIdx or a stored time. */
static bool is_same_time(const weir_table *a, uint32_t column_a, uint32_t time_a, const weir_table *b,
                         uint32_t column_b, uint32_t time_b) {
    if (column_a != column_b || (time_a == WEIR_NONE) != (time_b == WEIR_NONE))
        return false;
    return time_a == WEIR_NONE || weir_ingest__stored_times_equal(&a->times[time_a], &b->times[time_b]);
}

static weir_status check_columns(const weir_ingest__like *like, const weir_ingest__description *is,
                                 uint32_t t, weir_error *error) {
    const weir_store_info *was = earlier(like);
    const weir_table *table = &is->tables[t], *old = &was->tables[t];
    for (uint32_t i = 0; i < old->column_count; i++) {
        const weir_column *from = &was->columns[old->column_start + i];
        if (i >= table->column_count || !is_same_text(is->columns[table->column_start + i].name, from->name))
            return misfit(like, error, "column %.100s.%.100s is missing", table->name, from->name);
        weir_column *column = &is->columns[table->column_start + i];
        if (column->stype != from->stype)
            return misfit(like, error, "column %.100s.%.100s is %s, but was %s", table->name, from->name,
                          weir_stype_name(column->stype), weir_stype_name(from->stype));
        if (!is_same_time(table, column->known_at, column->known_time, old, from->known_at, from->known_time))
            return misfit(like, error, "the cells of column %.100s.%.100s are known from another time on",
                          table->name, from->name);
        column->description = from->description;
    }
    return WEIR_OK;
}

static weir_status check_edges(const weir_ingest__like *like, const weir_ingest__description *is, uint32_t t,
                               weir_error *error) {
    const weir_store_info *was = earlier(like);
    const weir_table *table = &is->tables[t], *old = &was->tables[t];
    for (uint32_t i = 0; i < old->edge_count; i++) {
        const weir_edge *from = &was->edges[old->edge_start + i];
        if (i >= table->edge_count || !is_same_text(is->edges[table->edge_start + i].name, from->name))
            return misfit(like, error, "foreign key %.100s.%.100s is missing", table->name, from->name);
        const weir_edge *edge = &is->edges[table->edge_start + i];
        if (edge->parent_table != from->parent_table)
            return misfit(like, error, "foreign key %.100s.%.100s leads to another table", table->name,
                          from->name);
        if (!is_same_time(table, edge->known_at, edge->known_time, old, from->known_at, from->known_time))
            return misfit(like, error, "foreign key %.100s.%.100s is known from another time on", table->name,
                          from->name);
    }
    return WEIR_OK;
}

weir_status weir_ingest__like_check(const weir_ingest__like *like, weir_ingest__description *description,
                                    weir_error *error) {
    if (!like->store)
        return WEIR_OK;
    const weir_store_info *was = earlier(like), *is = &description->info;
    for (uint32_t t = 0; t < was->table_count; t++) {
        const weir_table *table = &description->tables[t], *old = &was->tables[t];
        if (t >= is->table_count || !is_same_text(table->name, old->name))
            return misfit(like, error, "table %.100s is missing", old->name);
        WEIR__TRY(check_columns(like, description, t, error));
        if (!is_same_time(table, table->temporal_column, table->temporal_time, old, old->temporal_column,
                          old->temporal_time))
            return misfit(like, error, "the rows of table %.100s have another time", table->name);
    }
    for (uint32_t t = 0; t < was->table_count; t++)
        WEIR__TRY(check_edges(like, description, t, error));
    if (is->table_count != was->table_count || is->table_column_count != was->table_column_count ||
        is->edge_count != was->edge_count)
        return misfit(like, error, "it has other tables, columns or foreign keys");
    for (uint32_t i = 0; i < was->task_count; i++)
        if (i >= is->task_count || !is_same_text(is->tasks[i].name, was->tasks[i].name))
            return misfit(like, error, "task %.100s is missing", was->tasks[i].name);
    if (is->task_count != was->task_count || is->column_count != was->column_count)
        return misfit(like, error, "it has other tasks");
    for (uint32_t i = 0; i < was->task_count; i++) {
        const weir_task *task = &description->tasks[i], *old = &was->tasks[i];
        bool is_same = task->is_cell == old->is_cell && task->stype == old->stype &&
                       task->column == old->column && task->anchor_table == old->anchor_table &&
                       is_same_text(task->target_column, old->target_column);
        if (!is_same)
            return misfit(like, error, "task %.100s is about another target", old->name);
        if (task->link.is_link != old->link.is_link || task->link.table != old->link.table ||
            task->link.edge != old->link.edge)
            return misfit(like, error, "task %.100s is about other links", old->name);
        if (task->has_label_times != old->has_label_times || task->has_horizon != old->has_horizon ||
            (task->has_horizon && task->horizon != old->horizon) ||
            (task->label_known_column && !is_same_text(task->label_known_column, old->label_known_column)))
            return misfit(like, error, "the labels of task %.100s are known at another time", old->name);
        if (task->has_label_times && !is_same_text(description->columns[task->observed_column].name,
                                                   was->columns[old->observed_column].name))
            return misfit(like, error, "task %.100s has another observation_time_column", old->name);
        if (task->before_anchor != old->before_anchor)
            return misfit(like, error, "task %.100s has another before_anchor", old->name);
        if (memcmp(task->column_dropped, old->column_dropped, was->column_count) != 0 ||
            memcmp(task->edge_hidden, old->edge_hidden, was->edge_count) != 0 ||
            task->drops_target != old->drops_target)
            return misfit(like, error, "task %.100s drops other columns", old->name);
    }
    return WEIR_OK;
}

weir_status weir_ingest__like_check_embeddings(const weir_ingest__like *like, const weir_store_info *is,
                                               weir_error *error) {
    if (!like->store)
        return WEIR_OK;
    const weir_store_info *was = earlier(like);
    if (is->embedding_dim == was->embedding_dim &&
        is_same_text(is->embedding_provider, was->embedding_provider))
        return WEIR_OK;
    return misfit(like, error, "embeddings are %.50s of %u dimensions, but were %.50s of %u",
                  is->embedding_provider, is->embedding_dim, was->embedding_provider, was->embedding_dim);
}

/* ---- Categories ------------------------------------------------------------------------------ */

weir_status weir_ingest__like_categories(const weir_ingest__like *like, uint32_t column_idx,
                                         const weir_env *env, weir_ingest__categories *out,
                                         weir__arena *arena, weir_error *error) {
    weir_text before = {"", 0};
    *out = (weir_ingest__categories){.like_count = WEIR_NONE};
    weir_ingest__dictionary_init(&out->dictionary, env);
    if (!like->store || column_idx == WEIR_NONE ||
        weir_value_of(earlier(like)->columns[column_idx].stype) != WEIR_VALUE_CATEGORY)
        return WEIR_OK;
    const weir_column *column = &earlier(like)->columns[column_idx];
    for (uint32_t i = 0; i < column->category_count; i++) {
        weir_text text = weir_store_category(like->store, column->category_start + i);
        size_t least = text.size < before.size ? text.size : before.size;
        int order = memcmp(before.data, text.data, least);
        uint32_t number;
        if (i > 0 && (order > 0 || (order == 0 && before.size >= text.size)))
            return weir__fail(error, WEIR_STORE_CORRUPT, WEIR_INGEST__OPERATOR,
                              "the categories of column %.100s of %.300s are not in order; run 'weir verify' "
                              "on it",
                              column->name, like->path);
        if (!weir_ingest__dictionary_intern(&out->dictionary, arena, text.data, text.size, &number))
            return weir_ingest__no_memory(error, text.size);
        before = text;
    }
    out->like_count = column->category_count;
    return WEIR_OK;
}

/* ---- Statistics ------------------------------------------------------------------------------ */

enum { LEAST_VALUES = 30 };

void weir_ingest__like_statistics(weir_ingest__context *context, const weir_ingest__plan *plan,
                                  weir_ingest__statistics *statistics) {
    if (!plan->like->store)
        return;
    const weir_store_info *earlier_store = earlier(plan->like);
    for (uint32_t t = 0; t < plan->table_count; t++)
        for (uint32_t c = 0; c < plan->tables[t].column_count; c++) {
            const weir_ingest__column_plan *column = &plan->tables[t].columns[c];
            if (weir_value_of(column->stype) != WEIR_VALUE_NUMBER)
                continue;
            const weir_statistics *was = &earlier_store->columns[column->column_idx].statistics;
            weir_statistics *is = &statistics->columns[column->column_idx];
            if (is->count >= LEAST_VALUES && was->count > 0 && fabs(is->mean - was->mean) > 2 * was->std)
                weir_ingest__warn(
                    context, "like_shifted", plan->tables[t].name, column->name, NULL,
                    "the values of %.150s.%.150s have shifted: their mean is %.6g, but was %.6g with a "
                    "standard deviation of %.6g when the model was trained",
                    plan->tables[t].name, column->name, is->mean, was->mean, was->std);
            *is = *was;
        }
    statistics->timestamps = earlier_store->timestamps;
    statistics->has_until = earlier_store->has_statistics_until;
    statistics->until = earlier_store->statistics_until;
}

bool weir_ingest__like_target_statistics(const weir_ingest__like *like, uint32_t column_idx,
                                         weir_statistics *out) {
    if (like->store)
        *out = earlier(like)->columns[column_idx].statistics;
    return like->store != NULL;
}

/* ---- Splits ---------------------------------------------------------------------------------- */

static weir_key_value key_value(weir_ingest__key key) {
    weir_key_value value = {.type = WEIR_KEY_NONE};
    switch (key.tag) {
    case WEIR_INGEST__KEY_NULL:
        break;
    case WEIR_INGEST__KEY_INT:
    case WEIR_INGEST__KEY_INTEGRAL_REAL:
        value.type = WEIR_KEY_INTEGER;
        value.integer = (int64_t)key.payload;
        break;
    case WEIR_INGEST__KEY_NEGATIVE_ZERO:
        value.type = WEIR_KEY_INTEGER;
        break;
    case WEIR_INGEST__KEY_REAL:
        value.type = WEIR_KEY_REAL;
        memcpy(&value.real, &key.payload, sizeof value.real);
        break;
    case WEIR_INGEST__KEY_TEXT:
    case WEIR_INGEST__KEY_BLOB: {
        const weir_ingest__string *string = (const weir_ingest__string *)(uintptr_t)key.payload;
        value.type = key.tag == WEIR_INGEST__KEY_TEXT ? WEIR_KEY_TEXT : WEIR_KEY_BYTES;
        value.bytes = (weir_text){string->bytes, string->size};
        break;
    }
    }
    return value;
}

bool weir_ingest__like_split(const weir_ingest__like *like, const weir_ingest__table *anchor,
                             uint32_t anchor_number, uint32_t task, uint32_t row, int64_t time,
                             weir_ingest__like_row *found, uint8_t *split) {
    enum { PARTS_MAX = 64 };
    uint32_t splits = 0;
    uint8_t one = 0;
    if (!like->store)
        return false;
    if (found->row != row) {
        weir_ingest__key_columns of = weir_ingest__primary_key_of(anchor);
        weir_key_value values[PARTS_MAX];
        *found = (weir_ingest__like_row){row, WEIR_NO_ROW};
        for (uint32_t i = 0; i < of.column_count && of.column_count <= PARTS_MAX; i++)
            values[i] = key_value(weir_ingest__key_at(&of.data[of.columns[i]], row));
        if (of.column_count <= PARTS_MAX)
            found->found = weir_store_find_row(like->store, anchor_number, values, of.column_count);
    }
    for (uint8_t s = 0; s < WEIR_SPLITS && found->found != WEIR_NO_ROW; s++)
        if (weir_store__find_seed_in(like->store, task, (weir_split)s, found->found, time) != WEIR_NO_ROW) {
            one = s;
            splits++;
        }
    if (splits == 1)
        *split = one;
    return splits == 1;
}

/* ---- What is told ---------------------------------------------------------------------------- */

weir_status weir_ingest__like_report(weir_ingest__context *context, const weir_ingest__tasks *tasks,
                                     weir_error *error) {
    const weir_ingest__like *like = tasks->plan->like;
    if (!like->store)
        return WEIR_OK;
    for (uint32_t t = 0; t < tasks->plan->table_count; t++) {
        const weir_ingest__table *table = &tasks->ordered->tables[t];
        for (uint32_t c = 0; c < table->plan->column_count; c++) {
            const char *name = table->plan->name, *column = table->plan->columns[c].name;
            uint64_t new_count = table->columns[c].categories.new_count;
            if (new_count > 0)
                weir_ingest__warn(
                    context, "like_new_categories", name, column, NULL,
                    "%llu of %u cells of %.150s.%.150s have categories that %.300s does not have: they are "
                    "null, as the model knows no others",
                    (unsigned long long)new_count, table->row_count, name, column, like->path);
        }
    }
    for (uint32_t i = 0; i < tasks->plan->task_count; i++) {
        const weir_ingest__task *task = &tasks->list[i];
        const weir_ingest__schema_task *schema = task->plan->schema;
        bool has_keys = earlier(like)->tables[task->plan->anchor_table].key_form != WEIR_KEYS_NONE;
        if (task->categories.new_count > 0)
            weir_ingest__warn(
                context, "like_new_categories", NULL, NULL, schema->name,
                "%llu targets of task %.150s are categories that %.300s does not have: they are null",
                (unsigned long long)task->categories.new_count, schema->name, like->path);
        if (!has_keys && schema->split.method != WEIR_INGEST__SPLIT_HASH)
            weir_ingest__note(
                context, "like_splits",
                "the seeds of task %.150s are split as the schema says: %.300s keeps no keys of their "
                "table to look them up by",
                schema->name, like->path);
    }
    return weir_store_status(like->store, error);
}
