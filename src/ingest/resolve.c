/* The plan: schema and catalog together, with numbers for names. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "ingest/like.h"

weir_status weir_ingest__plan_refuse(weir_error *error, weir_status status, const char *what,
                                     const char *format, ...) {
    char path[400];
    WEIR__FORMAT(path, format);
    weir_status failed =
        weir__fail(error, status, WEIR_INGEST__SCHEMA_OPERATOR, "the schema's %s %s", path, what);
    weir__note_text(error, "path", path, strlen(path));
    return failed;
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

static bool is_foreign(const weir_ingest__schema_table *table, const char *column) {
    for (uint32_t i = 0; i < table->foreign_key_count; i++)
        if (weir_ingest__names_have(table->foreign_keys[i].columns, table->foreign_keys[i].column_count,
                                    column))
            return true;
    return false;
}

static bool is_target(const weir_ingest__schema *schema, const char *table, const char *column) {
    for (uint32_t t = 0; t < schema->table_count; t++)
        for (uint32_t i = 0; i < schema->tables[t].foreign_key_count; i++) {
            const weir_ingest__schema_key *key = &schema->tables[t].foreign_keys[i];
            if (strcmp(key->table, table) == 0 && weir_ingest__names_have(key->to, key->column_count, column))
                return true;
        }
    return false;
}

/* A column that `source` does not have; `place` says where in the table's schema it stands. */
static weir_status refuse_column(const weir_ingest__catalog_table *source, const char *table,
                                 const char *place, const char *name, weir_error *error) {
    const weir_ingest__catalog_column *columns = source->columns;
    char names[240], what[sizeof names + 80];
    weir__list_names(names, sizeof names, columns ? &columns->name : NULL, sizeof *columns,
                     source->column_count);
    snprintf(what, sizeof what, "names a column that the source's table does not have; it has %s", names);
    return weir_ingest__plan_refuse(error, WEIR_SCHEMA_INVALID, what, "$.tables.%s%s%s", table, place, name);
}

static void plan_column(const weir_ingest__schema *schema, const weir_ingest__schema_table *described,
                        const char *name, weir_ingest__column_plan *column) {
    const weir_ingest__schema_column *in_schema = weir_ingest__schema_find_column(described, name);
    *column = (weir_ingest__column_plan){
        .name = name,
        .description = in_schema ? in_schema->description : "",
        .stype = in_schema ? in_schema->stype : WEIR_IGNORED,
        .form = in_schema ? in_schema->form : (weir_ingest__time_form){0},
        .is_primary = weir_ingest__names_have(described->primary_key, described->primary_key_count, name),
        .is_foreign = is_foreign(described, name),
        .is_target = is_target(schema, described->name, name),
        .known = WEIR_INGEST__KNOWN_WITH_ROW,
        .column_idx = WEIR_NONE,
    };
}

/* ---- Where rows come from -------------------------------------------------------------------- */

static weir_status refuse_unknown(const weir_ingest__catalog *catalog, const char *name, weir_error *error) {
    const weir_ingest__catalog_table *tables = catalog->tables;
    char names[240], what[sizeof names + 80];
    weir__list_names(names, sizeof names, tables ? &tables->name : NULL, sizeof *tables,
                     catalog->table_count);
    snprintf(what, sizeof what, "is not a table or view of the source, which has %s", names);
    return weir_ingest__plan_refuse(error, WEIR_SCHEMA_INVALID, what, "$.tables.%s", name);
}

weir_status weir_ingest__complete_catalog(const weir_ingest__context *context,
                                          const weir_ingest__schema *schema, weir_ingest__catalog *catalog,
                                          weir_error *error) {
    for (uint32_t t = 0; t < schema->table_count; t++) {
        const weir_ingest__schema_table *described = &schema->tables[t];
        uint32_t count;
        if (described->query) {
            weir_status status = weir_ingest__catalog_add_query(context->sessions[0], catalog,
                                                                described->name, described->query, error);
            if (status == WEIR_SOURCE_ERROR)
                return weir_ingest__plan_blame_query(&catalog->tables[catalog->table_count - 1], status,
                                                     error);
            WEIR__TRY(status);
            continue;
        }
        weir_ingest__catalog_table *table = weir_ingest__catalog_find_table(catalog, described->name, &count);
        if (count > 1)
            return weir_ingest__plan_refuse(
                error, WEIR_SCHEMA_INVALID,
                "is the name of several tables of the source; say which with \"query\"", "$.tables.%s",
                described->name);
        if (!table)
            return refuse_unknown(catalog, described->name, error);
        WEIR__TRY(weir_ingest__catalog_complete(context->sessions[0], catalog, table, error));
    }
    return WEIR_OK;
}

static weir_status plan_table(weir_ingest__plan *plan, const weir_ingest__schema_table *described,
                              weir_ingest__table_plan *table, weir_error *error) {
    const weir_ingest__catalog *catalog = plan->catalog;
    weir__arena *arena = &plan->arena;
    uint32_t count, i = 0;
    table->name = described->name;
    table->temporal = WEIR_INGEST__KNOWN_WITH_ROW;
    table->keeps_primary_keys = described->keeps_keys;
    while (described->query &&
           (!catalog->tables[i].is_given || strcmp(catalog->tables[i].name, described->name) != 0))
        i++;
    table->source = described->query ? &catalog->tables[i]
                                     : weir_ingest__catalog_find_table(catalog, described->name, &count);
    for (uint32_t c = 0; c < described->column_count; c++)
        if (weir_ingest__catalog_find_column(table->source, described->columns[c].name) == WEIR_NONE)
            return refuse_column(table->source, table->name, ".columns.", described->columns[c].name, error);
    for (uint32_t k = 0; k < described->primary_key_count; k++)
        if (weir_ingest__catalog_find_column(table->source, described->primary_key[k]) == WEIR_NONE)
            return refuse_column(table->source, table->name, ".primary_key: ", described->primary_key[k],
                                 error);
    uint32_t declared = table->source->column_count;
    uint32_t *order = weir__arena_take_zero(arena, declared, sizeof *order);
    table->columns = weir__arena_take_zero(arena, declared, sizeof *table->columns);
    table->places = weir__arena_take_zero(arena, declared, sizeof *table->places);
    table->positions = weir__arena_take_zero(arena, declared, sizeof *table->positions);
    table->primary_key =
        weir__arena_take_zero(arena, described->primary_key_count, sizeof *table->primary_key);
    if (arena->is_short)
        return weir_ingest__no_memory(error, declared * sizeof *table->columns);
    weir_ingest__like_positions(plan->like, described->name, table->source, order);
    for (i = 0; i < declared; i++) {
        uint32_t position = order[i];
        weir_ingest__column_plan column;
        table->places[position] = i;
        plan_column(plan->schema, described, table->source->columns[position].name, &column);
        if (column.stype == WEIR_IGNORED && !weir_ingest__keeps_keys(&column))
            continue;
        if (column.stype != WEIR_IGNORED)
            column.column_idx = plan->table_column_count++;
        table->positions[table->column_count] = position;
        table->columns[table->column_count++] = column;
    }
    for (uint32_t k = 0; k < described->primary_key_count; k++)
        table->primary_key[table->primary_key_count++] = find_column(table, described->primary_key[k]);
    return WEIR_OK;
}

/* ---- Edges ----------------------------------------------------------------------------------- */

/* The numbers of columns in a table's plan; false if one is not there, or memory is short. */
static bool find_columns(weir_ingest__plan *plan, const weir_ingest__table_plan *table,
                         const char *const *names, uint32_t count, uint32_t **out) {
    *out = weir__arena_take_zero(&plan->arena, count, sizeof **out);
    bool are_there = *out != NULL;
    for (uint32_t i = 0; i < count && are_there; i++) {
        (*out)[i] = find_column(table, names[i]);
        are_there = (*out)[i] != WEIR_NONE;
    }
    return are_there;
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

/* The first of a foreign key's columns that is not there. */
static weir_status refuse_key(const weir_ingest__table_plan *table, const weir_ingest__table_plan *parent,
                              const weir_ingest__schema_key *key, weir_error *error) {
    char place[160];
    uint32_t i = 0;
    while (i + 1 < key->column_count && find_column(table, key->columns[i]) != WEIR_NONE &&
           find_column(parent, key->to[i]) != WEIR_NONE)
        i++;
    if (find_column(table, key->columns[i]) == WEIR_NONE)
        return refuse_column(table->source, table->name, ": foreign key ", key->columns[i], error);
    snprintf(place, sizeof place, ": foreign key %.60s to %.60s.", key->columns[i], parent->name);
    return refuse_column(parent->source, table->name, place, key->to[i], error);
}

static weir_status plan_edges(weir_ingest__plan *plan, weir_error *error) {
    const weir_ingest__schema *schema = plan->schema;
    size_t count = 0;
    for (uint32_t t = 0; t < schema->table_count; t++)
        count += schema->tables[t].foreign_key_count;
    plan->edges = weir__arena_take_zero(&plan->arena, count, sizeof *plan->edges);
    if (!plan->edges)
        return weir_ingest__no_memory(error, count * sizeof *plan->edges);
    for (uint32_t t = 0; t < schema->table_count; t++)
        for (uint32_t i = 0; i < schema->tables[t].foreign_key_count; i++) {
            const weir_ingest__table_plan *table = &plan->tables[t];
            const weir_ingest__schema_key *key = &schema->tables[t].foreign_keys[i];
            weir_ingest__edge_plan *edge = &plan->edges[plan->edge_count++];
            edge->key = key;
            edge->table = t;
            edge->like = weir_ingest__like_edge(plan->like, table->name, key->name);
            edge->parent_table = find_table(plan, key->table);
            if (!find_columns(plan, table, key->columns, key->column_count, &edge->columns) ||
                !find_columns(plan, &plan->tables[edge->parent_table], key->to, key->column_count,
                              &edge->parent_columns))
                return plan->arena.is_short
                           ? weir_ingest__no_memory(error, key->column_count * sizeof *edge->columns)
                           : refuse_key(table, &plan->tables[edge->parent_table], key, error);
        }
    if (count > 0)
        qsort(plan->edges, count, sizeof *plan->edges, compare_edges);
    return WEIR_OK;
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* The latest of some paths: nothing, a column of the table, or one of its stored times, which is made where
 * it is needed first. */
static weir_ingest__known plan_known(weir_ingest__table_plan *table, const weir_time_path *paths,
                                     uint32_t count) {
    if (count == 0 || paths->count == 0)
        return WEIR_INGEST__KNOWN_WITH_ROW;
    if (count == 1 && paths->count == 1)
        return (weir_ingest__known){find_column(table, paths->names[0]), WEIR_NONE};
    weir_stored_time wanted = {.paths = paths, .path_count = count};
    uint32_t time = 0;
    while (time < table->time_count && !weir_ingest__stored_times_equal(&table->times[time], &wanted))
        time++;
    if (time == table->time_count)
        table->times[table->time_count++] = wanted;
    return (weir_ingest__known){WEIR_NONE, time};
}

/* When a cell is known: a timestamp column that is not the temporal one is known as it says itself, where
 * the schema says nothing else. */
static weir_time_path known_at_of(const weir_ingest__schema_table *table,
                                  const weir_ingest__schema_column *column) {
    bool is_temporal = table->temporal.count == 1 && strcmp(table->temporal.names[0], column->name) == 0;
    if (column->has_known_at || weir_value_of(column->stype) != WEIR_VALUE_TIME || is_temporal)
        return column->known_at;
    return (weir_time_path){.names = &column->name, .count = 1};
}

/* An edge is known when all of its columns are: the different times that they have, in their order. */
static weir_status plan_edge_time(weir_ingest__plan *plan, weir_ingest__table_plan *table,
                                  const weir_ingest__schema_table *described, weir_ingest__edge_plan *edge,
                                  weir_error *error) {
    const weir_ingest__schema_key *key = edge->key;
    if (key->has_known_at) {
        edge->known = plan_known(table, &key->known_at, 1);
        return WEIR_OK;
    }
    weir_time_path *times = weir__arena_take_zero(&plan->arena, key->column_count, sizeof *times);
    if (!times)
        return weir_ingest__no_memory(error, key->column_count * sizeof *times);
    uint32_t count = 0;
    for (uint32_t i = 0; i < key->column_count; i++) {
        const weir_ingest__schema_column *column =
            weir_ingest__schema_find_column(described, key->columns[i]);
        weir_time_path time = column ? known_at_of(described, column) : (weir_time_path){0};
        bool is_new = time.count > 0;
        for (uint32_t k = 0; k < count; k++)
            is_new = is_new && !weir_ingest__paths_equal(&times[k], &time);
        if (is_new)
            times[count++] = time;
    }
    edge->known = plan_known(table, times, count);
    return WEIR_OK;
}

static weir_status plan_times(weir_ingest__plan *plan, uint32_t t, weir_error *error) {
    weir_ingest__table_plan *table = &plan->tables[t];
    const weir_ingest__schema_table *described = &plan->schema->tables[t];
    size_t most = 1 + (size_t)table->column_count + described->foreign_key_count;
    table->times = weir__arena_take_zero(&plan->arena, most, sizeof *table->times);
    weir_time_path *known = weir__arena_take_zero(&plan->arena, table->column_count, sizeof *known);
    if (!table->times || !known)
        return weir_ingest__no_memory(error, most * sizeof *table->times);
    table->temporal = plan_known(table, &described->temporal, 1);
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir_ingest__schema_column *column =
            weir_ingest__schema_find_column(described, table->columns[c].name);
        if (column)
            known[c] = known_at_of(described, column);
        if (table->columns[c].stype != WEIR_IGNORED)
            table->columns[c].known = plan_known(table, &known[c], 1);
    }
    for (uint32_t e = 0; e < plan->edge_count; e++)
        if (plan->edges[e].table == t)
            WEIR__TRY(plan_edge_time(plan, table, described, &plan->edges[e], error));
    return WEIR_OK;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Without tasks every column that can be one is a cell task over all rows of its table. */
static weir_status make_own_tasks(weir_ingest__plan *plan, const weir_ingest__schema_task **out,
                                  uint32_t *task_count, weir_error *error) {
    size_t most = 0;
    for (uint32_t t = 0; t < plan->table_count; t++)
        most += plan->tables[t].column_count;
    weir_ingest__schema_task *tasks = weir__arena_take_zero(&plan->arena, most, sizeof *tasks);
    const char **names = weir__arena_take_zero(&plan->arena, most, sizeof *names);
    for (uint32_t t = 0; t < plan->table_count; t++)
        for (uint32_t c = 0; c < plan->tables[t].column_count && !plan->arena.is_short; c++) {
            const weir_ingest__table_plan *table = &plan->tables[t];
            const weir_ingest__column_plan *column = &table->columns[c];
            if (!weir_store__stype_can_be_target(column->stype) || column->is_primary || column->is_foreign ||
                c == table->temporal.column)
                continue;
            names[*task_count] =
                weir_ingest__task_name(&plan->arena, table->name, column->name, names, *task_count);
            tasks[*task_count] = (weir_ingest__schema_task){.name = names[*task_count],
                                                            .anchor_table = table->name,
                                                            .target_column = column->name,
                                                            .target_stype = column->stype,
                                                            .kind = WEIR_INGEST__KIND_CELL,
                                                            .split = {.permille = {800, 100, 100}}};
            ++*task_count;
        }
    if (plan->arena.is_short)
        return weir_ingest__no_memory(error, most * sizeof *tasks);
    weir__sort_by_name(tasks, *task_count, sizeof *tasks);
    *out = tasks;
    return WEIR_OK;
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

weir_status weir_ingest__plan_make(const weir_env *env, const weir_ingest__schema *schema,
                                   const weir_ingest__catalog *catalog, const weir_ingest__like *like,
                                   weir_ingest__plan *out, weir_error *error) {
    *out = (weir_ingest__plan){.schema = schema, .catalog = catalog, .like = like};
    weir__arena_init(&out->arena, env);
    if (schema->table_count > WEIR_STORE__TABLES_MAX)
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                          "the schema's $.tables has %u tables; a store has at most %d", schema->table_count,
                          WEIR_STORE__TABLES_MAX);
    out->tables = weir__arena_take_zero(&out->arena, schema->table_count, sizeof *out->tables);
    if (!out->tables)
        return weir_ingest__no_memory(error, schema->table_count * sizeof *out->tables);
    for (; out->table_count < schema->table_count; out->table_count++)
        WEIR__TRY(plan_table(out, &schema->tables[out->table_count], &out->tables[out->table_count], error));
    WEIR__TRY(plan_edges(out, error));
    for (uint32_t t = 0; t < out->table_count; t++)
        WEIR__TRY(plan_times(out, t, error));
    const weir_ingest__schema_task *tasks = schema->tasks;
    uint32_t count = schema->task_count, next_derived = out->table_column_count;
    if (!schema->has_tasks)
        WEIR__TRY(make_own_tasks(out, &tasks, &count, error));
    out->tasks = weir__arena_take_zero(&out->arena, count, sizeof *out->tasks);
    if (!out->tasks)
        return weir_ingest__no_memory(error, count * sizeof *out->tasks);
    for (; out->task_count < count; out->task_count++) {
        weir_ingest__task_plan *task = &out->tasks[out->task_count];
        WEIR__TRY(plan_task(out, &tasks[out->task_count], task, error));
        task->column_idx =
            task->is_cell ? out->tables[task->anchor_table].columns[task->target].column_idx : next_derived++;
    }
    return WEIR_OK;
}

void weir_ingest__plan_release(weir_ingest__plan *plan) {
    weir__arena_release(&plan->arena);
    *plan = (weir_ingest__plan){0};
}
