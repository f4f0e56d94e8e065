/* The store's description: tables, columns, edges and tasks as weir/store.h has them, with the layout of
 * records, from the plan; and what only the rows can say, counts and statistics, from the later stages. */
#include <stdlib.h>
#include <string.h>

#include "ingest/stages.h"

static uint32_t column_idx_of(const weir_ingest__table_plan *table, uint32_t column) {
    return column == WEIR_NONE ? WEIR_NONE : table->columns[column].column_idx;
}

static weir_status describe_table(const weir_ingest__plan *plan, uint32_t t, weir_ingest__description *out,
                                  weir_error *error) {
    const weir_ingest__table_plan *table = &plan->tables[t];
    const weir_table *before = t > 0 ? &out->tables[t - 1] : NULL;
    weir_table *info = &out->tables[t];
    const char **names = weir__arena_take_zero(&out->arena, table->primary_key_count, sizeof *names);
    weir_stored_time *times = weir__arena_take_zero(&out->arena, table->time_count, sizeof *times);
    if (!names || !times)
        return weir_ingest__no_memory(error, table->primary_key_count * sizeof *names);
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        names[i] = table->columns[table->primary_key[i]].name;
    memcpy(times, table->times, table->time_count * sizeof *times);
    *info = (weir_table){.name = table->name,
                         .column_start = before ? before->column_start + before->column_count : 0,
                         .edge_start = before ? before->edge_start + before->edge_count : 0,
                         .temporal_column = column_idx_of(table, table->temporal.column),
                         .temporal_time = table->temporal.time,
                         .times = times,
                         .time_count = table->time_count,
                         .primary_key = names,
                         .primary_key_count = table->primary_key_count};
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir_ingest__column_plan *column = &table->columns[c];
        if (column->column_idx == WEIR_NONE)
            continue;
        info->column_count++;
        out->columns[column->column_idx] =
            (weir_column){.name = column->name,
                          .description = column->description,
                          .table = t,
                          .task = WEIR_NONE,
                          .stype = column->stype,
                          .known_at = column_idx_of(table, column->known.column),
                          .known_time = column->known.time,
                          .statistics = {.std = 1}};
    }
    for (uint32_t e = 0; e < plan->edge_count; e++) {
        const weir_ingest__edge_plan *edge = &plan->edges[e];
        if (edge->table != t)
            continue;
        bool is_one = edge->key->column_count == 1;
        info->edge_count++;
        out->edges[e] =
            (weir_edge){.name = edge->key->name,
                        .table = t,
                        .column = is_one ? table->columns[edge->columns[0]].column_idx : WEIR_NONE,
                        .columns = edge->key->columns,
                        .column_count = edge->key->column_count,
                        .parent_table = edge->parent_table,
                        .known_at = column_idx_of(table, edge->known.column),
                        .known_time = edge->known.time};
    }
    if (!weir_store__layout_record(info, out->columns + info->column_start, out->edges + info->edge_start))
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__SCHEMA_OPERATOR,
                          "table %s has too many columns", table->name);
    return WEIR_OK;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* A place to sort dropped columns by: table, then declared column. */
typedef struct dropped_column {
    const char *name;
    uint32_t table;
    uint32_t position; /* in the source */
    uint32_t place;    /* where it is declared */
} dropped_column;

static int compare_dropped(const void *a, const void *b) {
    const dropped_column *x = a, *y = b;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* The foreign keys that a column is part of. */
static void hide_edges(const weir_ingest__plan *plan, uint32_t table, uint32_t column, uint8_t *edges) {
    for (uint32_t e = 0; e < plan->edge_count; e++)
        for (uint32_t i = 0; i < plan->edges[e].key->column_count && plan->edges[e].table == table; i++)
            if (plan->edges[e].columns[i] == column)
                edges[e] = 1;
}

/* What a task leaves out: the columns that it drops, and the foreign keys that these and the target are part
 * of. The target's own cell is never left out. */
static weir_status describe_drops(const weir_ingest__plan *plan, const weir_ingest__task_plan *task,
                                  weir_ingest__description *out, weir_task *info, weir_error *error) {
    const weir_ingest__schema_task *described = task->schema;
    uint32_t count = described->drop_column_count;
    dropped_column *dropped = weir__arena_take_zero(&out->arena, count, sizeof *dropped);
    const char **names = weir__arena_take_zero(&out->arena, count, sizeof *names);
    uint8_t *columns = weir__arena_take_zero(&out->arena, out->info.column_count, 1);
    uint8_t *edges = weir__arena_take_zero(&out->arena, plan->edge_count, 1);
    if (out->arena.is_short)
        return weir_ingest__no_memory(error, out->info.column_count);
    for (uint32_t i = 0; i < count; i++) { /* any of the source's table, also one that is not read */
        const weir_ingest__schema_name *name = &described->drop_columns[i];
        dropped_column *found = &dropped[i];
        found->name = weir__arena_format(&out->arena, "%s.%s", name->table, name->column);
        if (!found->name)
            return weir_ingest__no_memory(error, strlen(name->column));
        while (strcmp(plan->tables[found->table].name, name->table) != 0)
            found->table++;
        found->position = weir_ingest__catalog_find_column(plan->tables[found->table].source, name->column);
        if (found->position == WEIR_NONE)
            return weir_ingest__plan_refuse(error, WEIR_TASK_INVALID, "is not a column of the source",
                                            "$.tasks.%s.drop_columns: %s", described->name, found->name);
        found->place = plan->tables[found->table].places[found->position];
    }
    if (count > 0)
        qsort(dropped, count, sizeof *dropped, compare_dropped);
    for (uint32_t i = 0; i < count; i++) {
        const weir_ingest__table_plan *table = &plan->tables[dropped[i].table];
        if (i > 0 && compare_dropped(&dropped[i], &dropped[i - 1]) == 0)
            continue;
        names[info->drop_column_count++] = dropped[i].name;
        for (uint32_t c = 0; c < table->column_count; c++) {
            if (table->positions[c] != dropped[i].position)
                continue;
            if (table->columns[c].column_idx != WEIR_NONE)
                columns[table->columns[c].column_idx] = 1;
            hide_edges(plan, dropped[i].table, c, edges);
        }
    }
    if (task->is_cell) {
        info->drops_target = columns[task->column_idx] == 1;
        columns[task->column_idx] = 0;
        hide_edges(plan, task->anchor_table, task->target, edges);
    }
    info->drop_columns = names;
    info->column_dropped = columns;
    info->edge_hidden = edges;
    return WEIR_OK;
}

static weir_status describe_tasks(const weir_ingest__plan *plan, weir_ingest__description *out,
                                  weir_error *error) {
    uint32_t next_derived = plan->table_column_count;
    for (uint32_t i = 0; i < plan->task_count; i++) {
        const weir_ingest__task_plan *task = &plan->tasks[i];
        weir_task *info = &out->tasks[i];
        *info = (weir_task){.name = task->schema->name,
                            .target_column = task->schema->target_column,
                            .weight_column = task->schema->weight_column,
                            .is_cell = task->is_cell,
                            .stype = task->schema->target_stype,
                            .column = task->column_idx,
                            .anchor_table = task->anchor_table,
                            .before_anchor = task->schema->before_anchor,
                            .has_train_statistics = task->schema->has_train_statistics};
        if (weir_ingest__is_link(task->schema))
            info->link = (weir_link){.is_link = true, .table = task->link_table, .edge = task->link_edge};
        WEIR__TRY(describe_drops(plan, task, out, info, error));
        if (task->is_cell)
            continue;
        out->columns[info->column] = weir_store__task_column(info->target_column, i, info->stype);
        next_derived++;
    }
    /* The columns of observation times, of tasks whose labels have a time. */
    for (uint32_t i = 0; i < plan->task_count; i++) {
        const weir_ingest__schema_task *schema = plan->tasks[i].schema;
        weir_task *info = &out->tasks[i];
        info->observed_column = WEIR_NONE;
        if (!weir_ingest__has_label_times(schema))
            continue;
        const char *name = schema->observation_time_column;
        info->has_label_times = true;
        info->has_horizon = schema->has_horizon;
        info->horizon = schema->horizon;
        info->label_known_column = schema->label_known_column;
        info->observed_column = next_derived;
        out->columns[next_derived++] =
            weir_store__task_column(name ? name : "observation_time", i, WEIR_TIMESTAMP);
    }
    return WEIR_OK;
}

weir_status weir_ingest__describe_store(const weir_env *env, const weir_ingest__plan *plan,
                                        weir_ingest__description *out, weir_error *error) {
    *out = (weir_ingest__description){0};
    weir_store_info *info = &out->info;
    weir__arena *arena = &out->arena;
    uint32_t columns = plan->table_column_count;
    weir__arena_init(arena, env);
    for (uint32_t i = 0; i < plan->task_count; i++) {
        columns += plan->tasks[i].is_cell ? 0 : 1;
        columns += weir_ingest__has_label_times(plan->tasks[i].schema) ? 1 : 0;
    }
    info->name = plan->schema->name ? plan->schema->name : plan->catalog->name;
    info->table_count = plan->table_count;
    info->table_column_count = plan->table_column_count;
    info->column_count = columns;
    info->edge_count = plan->edge_count;
    info->task_count = plan->task_count;
    if (!weir_store__marks_fit(info))
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                          "the schema has %u tasks, %u columns (with one of each derived task) and %u "
                          "foreign keys; a store has at most %d tasks times columns and foreign keys",
                          info->task_count, info->column_count, info->edge_count, WEIR_STORE__MARKS_MAX);
    info->tables = out->tables = weir__arena_take_zero(arena, info->table_count, sizeof *out->tables);
    info->columns = out->columns = weir__arena_take_zero(arena, columns, sizeof *out->columns);
    info->edges = out->edges = weir__arena_take_zero(arena, info->edge_count, sizeof *out->edges);
    info->tasks = out->tasks = weir__arena_take_zero(arena, info->task_count, sizeof *out->tasks);
    if (arena->is_short)
        return weir_ingest__no_memory(error, columns * sizeof *out->columns);
    for (uint32_t t = 0; t < plan->table_count; t++)
        WEIR__TRY(describe_table(plan, t, out, error));
    return describe_tasks(plan, out, error);
}

void weir_ingest__description_release(weir_ingest__description *description) {
    weir__arena_release(&description->arena);
    *description = (weir_ingest__description){0};
}

/* ---- What the rows say ----------------------------------------------------------------------- */

void weir_ingest__describe_rows(weir_ingest__description *description, const weir_ingest__tasks *tasks,
                                const weir_ingest__statistics *statistics) {
    const weir_ingest__plan *plan = tasks->plan;
    weir_store_info *info = &description->info;
    info->row_count = tasks->ordered->row_count;
    info->text_count = tasks->ordered->text_count;
    info->timestamps = statistics->timestamps;
    info->has_statistics_until = statistics->has_until;
    info->statistics_until = statistics->until;
    for (uint32_t t = 0; t < plan->table_count; t++) {
        const weir_ingest__table *table = &tasks->ordered->tables[t];
        description->tables[t].row_count = table->row_count;
        weir_stored_time *times = (weir_stored_time *)description->tables[t].times; /* of the arena */
        for (uint32_t i = 0; i < table->plan->time_count; i++)
            times[i].nulls = tasks->linked->times[t][i].nulls;
        for (uint32_t c = 0; c < table->plan->column_count; c++) {
            uint32_t column_idx = table->plan->columns[c].column_idx;
            if (column_idx == WEIR_NONE)
                continue;
            weir_column *column = &description->columns[column_idx];
            column->nulls = table->columns[c].nulls + table->columns[c].categories.new_count;
            column->not_finite = table->columns[c].not_finite;
            column->statistics = statistics->columns[column_idx];
        }
    }
    for (uint32_t e = 0; e < plan->edge_count; e++) {
        const weir_ingest__edge *edge = &tasks->linked->edges[e];
        description->edges[e].edges = edge->count;
        description->edges[e].dangling = edge->dangling;
        description->edges[e].child_times = (const uint8_t *)edge->child_times;
    }
    for (uint32_t i = 0; i < plan->task_count; i++) {
        weir_task *described = &description->tasks[i];
        const weir_ingest__task *task = &tasks->list[i];
        described->seed_count = task->seed_count;
        memcpy(described->split_start, task->split_start, sizeof described->split_start);
        described->dropped = task->dropped;
        described->early_seeds = described->before_anchor == WEIR_BEFORE_ANCHOR_KEEP ? 0 : task->early;
        described->labels.count = task->labels[0].count;
        described->train_labels.count = task->labels[1].count;
        described->seed_times = (const uint8_t *)task->times;
        described->link.lists = task->links.lists;
        described->link.late = task->links.late;
        described->link.repeated = task->links.repeated;
        if (task->numbers)
            description->columns[plan->tasks[i].column_idx].statistics = task->statistics;
    }
}
