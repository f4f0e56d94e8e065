/* The plan: schema and catalog together, with numbers for names. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/like.h"

weir_status weir_ingest__plan_refuse(weir_error *error, weir_status status, const char *what,
                                     const char *format, ...) {
    char path[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(path, sizeof path, format, arguments);
    va_end(arguments);
    weir_status failed =
        weir__fail(error, status, WEIR_INGEST__SCHEMA_OPERATOR, "the schema's %s %s", path, what);
    weir__note_text(error, "path", path, strlen(path));
    return failed;
}

void *weir_ingest__take(weir__arena *arena, size_t count, size_t size, weir_status *status,
                        weir_error *error) {
    void *memory = weir__arena_take_zero(arena, count, size);
    if (!memory && *status == WEIR_OK)
        *status = weir_ingest__no_memory(error, count * size);
    return memory;
}

weir_status weir_ingest__plan_blame_query(const weir_ingest__catalog_table *table, weir_status status,
                                          weir_error *error) {
    char message[WEIR_MESSAGE_CAPACITY + 16];
    if (status != WEIR_SOURCE_ERROR || !table->is_given)
        return status;
    snprintf(message, sizeof message, "failed: %s", error ? error->message : "");
    return weir_ingest__plan_refuse(error, WEIR_SCHEMA_INVALID, message, "$.tables.%s.query", table->name);
}

static uint32_t find_table(const weir_ingest__plan *plan, const char *name) {
    for (uint32_t t = 0; t < plan->table_count; t++)
        if (strcmp(plan->tables[t].name, name) == 0)
            return t;
    return WEIR_NONE;
}

static uint32_t find_column(const weir_ingest__table_plan *table, const char *name) {
    for (uint32_t c = 0; name && c < table->column_count; c++)
        if (strcmp(table->columns[c].name, name) == 0)
            return c;
    return WEIR_NONE;
}

/* ---- Which columns are read ------------------------------------------------------------------ */

static bool has_name(const char *const *names, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool is_foreign(const weir_ingest__schema_table *table, const char *column) {
    for (uint32_t i = 0; i < table->foreign_key_count; i++)
        if (has_name(table->foreign_keys[i].columns, table->foreign_keys[i].column_count, column))
            return true;
    return false;
}

static bool is_target(const weir_ingest__schema *schema, const char *table, const char *column) {
    for (uint32_t t = 0; t < schema->table_count; t++)
        for (uint32_t i = 0; i < schema->tables[t].foreign_key_count; i++) {
            const weir_ingest__schema_key *key = &schema->tables[t].foreign_keys[i];
            if (strcmp(key->table, table) == 0 && has_name(key->to, key->column_count, column))
                return true;
        }
    return false;
}

static weir_status check_names(const weir_ingest__schema_table *table,
                               const weir_ingest__catalog_table *source, weir_error *error) {
    for (uint32_t c = 0; c < table->column_count; c++)
        if (weir_ingest__catalog_find_column(source, table->columns[c].name) == WEIR_NONE)
            return weir_ingest__plan_refuse(error, WEIR_SCHEMA_INVALID,
                                            "names a column that the source's table does not have",
                                            "$.tables.%s.columns.%s", table->name, table->columns[c].name);
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        if (weir_ingest__catalog_find_column(source, table->primary_key[i]) == WEIR_NONE)
            return weir_ingest__plan_refuse(
                error, WEIR_SCHEMA_INVALID, "names a column that the source's table does not have",
                "$.tables.%s.primary_key: %s", table->name, table->primary_key[i]);
    return WEIR_OK;
}

static void plan_column(const weir_ingest__schema *schema, const weir_ingest__schema_table *described,
                        const char *name, uint32_t position, weir_ingest__column_plan *column) {
    const weir_ingest__schema_column *in_schema = weir_ingest__schema_find_column(described, name);
    *column = (weir_ingest__column_plan){
        .name = name,
        .description = in_schema ? in_schema->description : "",
        .position = position,
        .stype = in_schema ? in_schema->stype : WEIR_IGNORED,
        .form = in_schema ? in_schema->form : (weir_ingest__time_form){0},
        .is_primary = has_name(described->primary_key, described->primary_key_count, name),
        .is_foreign = is_foreign(described, name),
        .is_target = is_target(schema, described->name, name),
        .known = WEIR_INGEST__KNOWN_WITH_ROW,
        .column_idx = WEIR_NONE,
    };
}

/* ---- Where rows come from -------------------------------------------------------------------- */

/* "is not a table …", and the tables that there are, as far as there is room. */
static weir_status refuse_unknown(const weir_ingest__catalog *catalog, const char *name, weir_error *error) {
    char what[400];
    int used = snprintf(what, sizeof what, "is not a table or view of the source, which has%s",
                        catalog->table_count ? "" : " none");
    uint32_t told = 0;
    for (; told < catalog->table_count && used < 280; told++)
        used += snprintf(what + used, sizeof what - (size_t)used, "%s %.100s", told ? "," : "",
                         catalog->tables[told].name);
    if (told < catalog->table_count)
        snprintf(what + used, sizeof what - (size_t)used, " and %u more", catalog->table_count - told);
    return weir_ingest__plan_refuse(error, WEIR_SCHEMA_INVALID, what, "$.tables.%s", name);
}

static weir_status complete_table(const weir_ingest__context *context, weir_ingest__catalog *catalog,
                                  const weir_ingest__schema_table *described, weir_error *error) {
    uint32_t count;
    weir_ingest__catalog_table *table = weir_ingest__catalog_find_table(catalog, described->name, &count);
    if (count > 1)
        return weir_ingest__plan_refuse(
            error, WEIR_SCHEMA_INVALID,
            "is the name of several tables of the source; say which with \"query\"", "$.tables.%s",
            described->name);
    if (!table)
        return refuse_unknown(catalog, described->name, error);
    return weir_ingest__catalog_complete(context->sessions[0], catalog, table, error);
}

weir_status weir_ingest__complete_catalog(const weir_ingest__context *context,
                                          const weir_ingest__schema *schema, weir_ingest__catalog *catalog,
                                          weir_error *error) {
    for (uint32_t t = 0; t < schema->table_count; t++) {
        const weir_ingest__schema_table *described = &schema->tables[t];
        if (!described->query) {
            WEIR__TRY(complete_table(context, catalog, described, error));
            continue;
        }
        weir_status status = weir_ingest__catalog_add_query(context->sessions[0], catalog, described->name,
                                                            described->query, error);
        if (status == WEIR_SOURCE_ERROR)
            return weir_ingest__plan_blame_query(&catalog->tables[catalog->table_count - 1], status, error);
        WEIR__TRY(status);
    }
    return WEIR_OK;
}

static const weir_ingest__catalog_table *find_source(const weir_ingest__catalog *catalog,
                                                     const weir_ingest__schema_table *described) {
    uint32_t count, i = 0;
    if (!described->query)
        return weir_ingest__catalog_find_table(catalog, described->name, &count);
    while (!catalog->tables[i].is_given || strcmp(catalog->tables[i].name, described->name) != 0)
        i++;
    return &catalog->tables[i];
}

static weir_status plan_table(weir_ingest__plan *plan, const weir_ingest__schema_table *described,
                              weir_ingest__table_plan *table, weir_error *error) {
    weir_status status = WEIR_OK;
    table->name = described->name;
    table->temporal = WEIR_INGEST__KNOWN_WITH_ROW;
    table->keeps_primary_keys = described->keeps_keys;
    table->source = find_source(plan->catalog, described);
    WEIR__TRY(check_names(described, table->source, error));
    uint32_t declared = table->source->column_count;
    uint32_t *order = weir_ingest__take(&plan->arena, declared, sizeof *order, &status, error);
    table->columns = weir_ingest__take(&plan->arena, declared, sizeof *table->columns, &status, error);
    table->places = weir_ingest__take(&plan->arena, declared, sizeof *table->places, &status, error);
    table->positions = weir_ingest__take(&plan->arena, declared, sizeof *table->positions, &status, error);
    table->primary_key = weir_ingest__take(&plan->arena, described->primary_key_count,
                                           sizeof *table->primary_key, &status, error);
    WEIR__TRY(status);
    weir_ingest__like_positions(plan->like, described->name, table->source, order);
    for (uint32_t i = 0; i < declared; i++) {
        uint32_t position = order[i];
        weir_ingest__column_plan column;
        table->places[position] = i;
        plan_column(plan->schema, described, table->source->columns[position].name, position, &column);
        if (column.stype == WEIR_IGNORED && !weir_ingest__keeps_keys(&column))
            continue;
        if (column.stype != WEIR_IGNORED)
            column.column_idx = plan->table_column_count++;
        table->positions[table->column_count] = position;
        table->columns[table->column_count++] = column;
    }
    for (uint32_t i = 0; i < described->primary_key_count; i++)
        table->primary_key[table->primary_key_count++] = find_column(table, described->primary_key[i]);
    return WEIR_OK;
}

static weir_status plan_tables(weir_ingest__plan *plan, weir_error *error) {
    const weir_ingest__schema *schema = plan->schema;
    weir_status status = WEIR_OK;
    if (schema->table_count > WEIR_STORE__TABLES_MAX)
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                          "the schema's $.tables has %u tables; a store has at most %d", schema->table_count,
                          WEIR_STORE__TABLES_MAX);
    plan->tables = weir_ingest__take(&plan->arena, schema->table_count, sizeof *plan->tables, &status, error);
    WEIR__TRY(status);
    for (plan->table_count = 0; plan->table_count < schema->table_count; plan->table_count++)
        WEIR__TRY(
            plan_table(plan, &schema->tables[plan->table_count], &plan->tables[plan->table_count], error));
    return WEIR_OK;
}

/* ---- Edges ----------------------------------------------------------------------------------- */

/* The numbers of columns in a table's plan. */
static weir_status find_columns(weir_ingest__plan *plan, const weir_ingest__table_plan *table,
                                const char *const *names, uint32_t count, uint32_t **out, weir_error *error) {
    weir_status status = WEIR_OK;
    *out = weir_ingest__take(&plan->arena, count, sizeof **out, &status, error);
    for (uint32_t i = 0; i < count && status == WEIR_OK; i++) {
        (*out)[i] = find_column(table, names[i]);
        if ((*out)[i] == WEIR_NONE)
            return WEIR_SCHEMA_INVALID;
    }
    return status;
}

static weir_status plan_edge(weir_ingest__plan *plan, uint32_t t, const weir_ingest__schema_key *key,
                             weir_ingest__edge_plan *edge, weir_error *error) {
    *edge =
        (weir_ingest__edge_plan){.key = key,
                                 .table = t,
                                 .like = weir_ingest__like_edge(plan->like, plan->tables[t].name, key->name),
                                 .parent_table = find_table(plan, key->table)};
    weir_status status =
        find_columns(plan, &plan->tables[t], key->columns, key->column_count, &edge->columns, error);
    if (status == WEIR_OK)
        status = find_columns(plan, &plan->tables[edge->parent_table], key->to, key->column_count,
                              &edge->parent_columns, error);
    if (status == WEIR_SCHEMA_INVALID)
        return weir_ingest__plan_refuse(error, WEIR_SCHEMA_INVALID,
                                        "names a column that the source's table does not have",
                                        "$.tables.%s: foreign key %s", plan->tables[t].name, key->name);
    return status;
}

/* By table, the number in an earlier store, the first column's place, the number of columns, and name. */
static int compare_edges(const void *a, const void *b) {
    const weir_ingest__edge_plan *x = a, *y = b;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    if (x->like != y->like)
        return x->like < y->like ? -1 : 1;
    if (x->columns[0] != y->columns[0])
        return x->columns[0] < y->columns[0] ? -1 : 1;
    if (x->key->column_count != y->key->column_count)
        return x->key->column_count < y->key->column_count ? -1 : 1;
    return strcmp(x->key->name, y->key->name);
}

static weir_status plan_edges(weir_ingest__plan *plan, weir_error *error) {
    const weir_ingest__schema *schema = plan->schema;
    weir_status status = WEIR_OK;
    size_t count = 0;
    for (uint32_t t = 0; t < schema->table_count; t++)
        count += schema->tables[t].foreign_key_count;
    weir_ingest__edge_plan *edges = weir_ingest__take(&plan->arena, count, sizeof *edges, &status, error);
    WEIR__TRY(status);
    uint32_t next = 0;
    for (uint32_t t = 0; t < schema->table_count; t++)
        for (uint32_t i = 0; i < schema->tables[t].foreign_key_count; i++)
            WEIR__TRY(plan_edge(plan, t, &schema->tables[t].foreign_keys[i], &edges[next++], error));
    if (count > 0)
        qsort(edges, count, sizeof *edges, compare_edges);
    plan->edges = edges;
    plan->edge_count = WEIR__NARROW(uint32_t, count);
    return WEIR_OK;
}

/* ---- Times ----------------------------------------------------------------------------------- */

static bool has_paths(const weir_ingest__time_plan *time, const weir_ingest__schema_time *paths,
                      uint32_t count) {
    bool is_same = time->path_count == count;
    for (uint32_t i = 0; i < count && is_same; i++)
        is_same = weir_ingest__schema_times_equal(&time->paths[i], &paths[i]);
    return is_same;
}

/* The latest of some paths: nothing, a column of the table, or one of its stored times, which is made where
 * it is needed first. */
static weir_ingest__known plan_known(weir_ingest__table_plan *table, const weir_ingest__schema_time *paths,
                                     uint32_t count) {
    if (count == 0)
        return WEIR_INGEST__KNOWN_WITH_ROW;
    if (count == 1 && paths->count == 1)
        return (weir_ingest__known){find_column(table, paths->names[0]), WEIR_NONE};
    uint32_t time = 0;
    while (time < table->time_count && !has_paths(&table->times[time], paths, count))
        time++;
    if (time == table->time_count)
        table->times[table->time_count++] = (weir_ingest__time_plan){.paths = paths, .path_count = count};
    return (weir_ingest__known){WEIR_NONE, time};
}

/* When a cell is known: a timestamp column that is not the temporal one is known as it says itself, where
 * the schema says nothing else. */
static weir_ingest__schema_time known_at_of(const weir_ingest__schema_table *table,
                                            const weir_ingest__schema_column *column) {
    bool is_temporal = table->temporal.count == 1 && strcmp(table->temporal.names[0], column->name) == 0;
    if (column->has_known_at || weir_value_of(column->stype) != WEIR_VALUE_TIME || is_temporal)
        return column->known_at;
    return (weir_ingest__schema_time){.names = &column->name, .count = 1};
}

/* An edge is known when all of its columns are: the different times that they have, in their order. */
static weir_status plan_edge_time(weir_ingest__plan *plan, weir_ingest__table_plan *table,
                                  const weir_ingest__schema_table *described, weir_ingest__edge_plan *edge,
                                  weir_error *error) {
    weir_status status = WEIR_OK;
    const weir_ingest__schema_key *key = edge->key;
    if (key->has_known_at) {
        edge->known = plan_known(table, &key->known_at, key->known_at.count > 0 ? 1 : 0);
        return WEIR_OK;
    }
    weir_ingest__schema_time *times =
        weir_ingest__take(&plan->arena, key->column_count, sizeof *times, &status, error);
    uint32_t count = 0;
    for (uint32_t i = 0; i < key->column_count && status == WEIR_OK; i++) {
        const weir_ingest__schema_column *column =
            weir_ingest__schema_find_column(described, key->columns[i]);
        weir_ingest__schema_time time =
            column ? known_at_of(described, column) : (weir_ingest__schema_time){0};
        bool is_new = time.count > 0;
        for (uint32_t k = 0; k < count; k++)
            is_new = is_new && !weir_ingest__schema_times_equal(&times[k], &time);
        if (is_new)
            times[count++] = time;
    }
    if (status == WEIR_OK)
        edge->known = plan_known(table, times, count);
    return status;
}

static weir_status plan_times(weir_ingest__plan *plan, uint32_t t, weir_error *error) {
    weir_ingest__table_plan *table = &plan->tables[t];
    const weir_ingest__schema_table *described = &plan->schema->tables[t];
    weir_status status = WEIR_OK;
    size_t most = 1 + (size_t)table->column_count + described->foreign_key_count;
    table->times = weir_ingest__take(&plan->arena, most, sizeof *table->times, &status, error);
    weir_ingest__schema_time *known =
        weir_ingest__take(&plan->arena, table->column_count, sizeof *known, &status, error);
    WEIR__TRY(status);
    table->temporal = plan_known(table, &described->temporal, described->temporal.count > 0 ? 1 : 0);
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir_ingest__schema_column *column =
            weir_ingest__schema_find_column(described, table->columns[c].name);
        if (column)
            known[c] = known_at_of(described, column);
        if (table->columns[c].stype != WEIR_IGNORED)
            table->columns[c].known = plan_known(table, &known[c], known[c].count > 0 ? 1 : 0);
    }
    for (uint32_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].table == t)
            WEIR__TRY(plan_edge_time(plan, table, described, &plan->edges[e], error));
    return WEIR_OK;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* table.column; with #2, #3, … behind it where the names of others read the same. */
static char *own_task_name(weir_ingest__plan *plan, const weir_ingest__schema_task *tasks,
                           uint32_t task_count, const weir_ingest__table_plan *table, const char *column,
                           weir_status *status, weir_error *error) {
    size_t size = strlen(table->name) + strlen(column) + 16;
    char *name = weir_ingest__take(&plan->arena, size, 1, status, error);
    bool is_taken = name != NULL;
    for (uint32_t number = 1; is_taken; number++) {
        if (number == 1)
            snprintf(name, size, "%s.%s", table->name, column);
        else
            snprintf(name, size, "%s.%s#%u", table->name, column, number);
        is_taken = false;
        for (uint32_t i = 0; i < task_count && !is_taken; i++)
            is_taken = strcmp(tasks[i].name, name) == 0;
    }
    return name;
}

static int compare_task_names(const void *a, const void *b) {
    return strcmp(((const weir_ingest__schema_task *)a)->name, ((const weir_ingest__schema_task *)b)->name);
}

/* Without tasks every column that can be one is a cell task over all rows of its table. */
static weir_status make_own_tasks(weir_ingest__plan *plan, const weir_ingest__schema_task **out,
                                  uint32_t *task_count, weir_error *error) {
    weir_status status = WEIR_OK;
    size_t most = 0;
    for (uint32_t t = 0; t < plan->table_count; t++)
        most += plan->tables[t].column_count;
    weir_ingest__schema_task *tasks = weir_ingest__take(&plan->arena, most, sizeof *tasks, &status, error);
    *out = tasks;
    for (uint32_t t = 0; t < plan->table_count; t++)
        for (uint32_t c = 0; c < plan->tables[t].column_count && status == WEIR_OK; c++) {
            const weir_ingest__table_plan *table = &plan->tables[t];
            const weir_ingest__column_plan *column = &table->columns[c];
            if (!(weir_store__stype_can_be_target(column->stype) && !column->is_primary &&
                  !column->is_foreign && c != table->temporal.column))
                continue;
            const char *name =
                own_task_name(plan, tasks, *task_count, table, table->columns[c].name, &status, error);
            if (!name)
                break;
            tasks[(*task_count)++] = (weir_ingest__schema_task){.name = name,
                                                                .anchor_table = table->name,
                                                                .target_column = table->columns[c].name,
                                                                .target_stype = table->columns[c].stype,
                                                                .kind = WEIR_INGEST__KIND_CELL,
                                                                .split = {.permille = {800, 100, 100}}};
        }
    if (status == WEIR_OK && *task_count > 0)
        qsort(tasks, *task_count, sizeof *tasks, compare_task_names);
    return status;
}

static weir_status plan_task(weir_ingest__plan *plan, const weir_ingest__schema_task *described,
                             weir_ingest__task_plan *task, weir_error *error) {
    task->schema = described;
    task->anchor_table = find_table(plan, described->anchor_table);
    const weir_ingest__table_plan *anchor = &plan->tables[task->anchor_table];
    task->target = find_column(anchor, described->target_column);
    bool is_cell_possible =
        task->target != WEIR_NONE && anchor->columns[task->target].stype == described->target_stype;
    task->is_cell = described->kind == WEIR_INGEST__KIND_CELL ||
                    (described->kind == WEIR_INGEST__KIND_AUTO && is_cell_possible &&
                     !described->observation_time_column);
    if (weir_ingest__is_link(described)) {
        const weir_ingest__schema_name *by = &described->popularity;
        task->link_table = find_table(plan, described->destination_table);
        task->link_edge = WEIR_NONE;
        for (uint32_t e = 0; by->table && e < plan->edge_count; e++)
            if (strcmp(plan->tables[plan->edges[e].table].name, by->table) == 0 &&
                strcmp(plan->edges[e].key->name, by->column) == 0)
                task->link_edge = e;
    }
    if (task->is_cell && (described->has_horizon || described->label_known_column))
        return weir_ingest__plan_refuse(
            error, WEIR_TASK_INVALID,
            "is for a derived task; this one is about a cell, whose label is known when "
            "the cell is: say known_at in its column, or \"kind\": \"derived\" here",
            "$.tasks.%s.%s", described->name, described->has_horizon ? "horizon" : "label_known_column");
    if (task->is_cell && !is_cell_possible)
        return weir_ingest__plan_refuse(
            error, WEIR_TASK_INVALID, "is not a column of the anchor table that has the task's type",
            "$.tasks.%s.target_column: %s", described->name, described->target_column);
    return WEIR_OK;
}

static weir_status plan_tasks(weir_ingest__plan *plan, weir_error *error) {
    const weir_ingest__schema_task *described = plan->schema->tasks;
    uint32_t count = plan->schema->task_count, next_derived = plan->table_column_count;
    weir_status status = plan->schema->has_tasks ? WEIR_OK : make_own_tasks(plan, &described, &count, error);
    plan->tasks = weir_ingest__take(&plan->arena, count, sizeof *plan->tasks, &status, error);
    WEIR__TRY(status);
    for (uint32_t i = 0; i < count; i++) {
        weir_ingest__task_plan *task = &plan->tasks[plan->task_count++];
        WEIR__TRY(plan_task(plan, &described[i], task, error));
        task->column_idx = task->is_cell ? plan->tables[task->anchor_table].columns[task->target].column_idx
                                         : next_derived++;
    }
    return WEIR_OK;
}

weir_status weir_ingest__plan_make(const weir_env *env, const weir_ingest__schema *schema,
                                   const weir_ingest__catalog *catalog, const weir_ingest__like *like,
                                   weir_ingest__plan *out, weir_error *error) {
    *out = (weir_ingest__plan){.schema = schema, .catalog = catalog, .like = like};
    weir__arena_init(&out->arena, env);
    WEIR__TRY(plan_tables(out, error));
    WEIR__TRY(plan_edges(out, error));
    for (uint32_t t = 0; t < out->table_count; t++)
        WEIR__TRY(plan_times(out, t, error));
    return plan_tasks(out, error);
}

void weir_ingest__plan_release(weir_ingest__plan *plan) {
    weir__arena_release(&plan->arena);
    *plan = (weir_ingest__plan){0};
}
