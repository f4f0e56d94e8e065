/* The store's description: tables, columns, edges and tasks as weir/store.h has them, with the layout of
 * records, from the plan; and what only the rows can say, counts and statistics, from the later stages. */
#include <stdlib.h>
#include <string.h>

#include "ingest/stages.h"

typedef struct describer {
    const weir_ingest__plan *plan;
    weir_ingest__description *out;
} describer;

static uint32_t column_idx_of(const weir_ingest__table_plan *table, uint32_t column) {
    return column == WEIR_NONE ? WEIR_NONE : table->columns[column].column_idx;
}

/* The paths of a table's stored times are the schema's. */
static weir_status describe_times(describer *d, uint32_t t, weir_error *error) {
    const weir_ingest__table_plan *table = &d->plan->tables[t];
    weir_status status = WEIR_OK;
    weir_stored_time *times =
        weir_ingest__take(&d->out->arena, table->time_count, sizeof *times, &status, error);
    for (uint32_t i = 0; i < table->time_count && status == WEIR_OK; i++) {
        weir_time_path *paths =
            weir_ingest__take(&d->out->arena, table->times[i].path_count, sizeof *paths, &status, error);
        times[i] = (weir_stored_time){.paths = paths, .path_count = table->times[i].path_count};
        for (uint32_t p = 0; p < times[i].path_count && paths; p++)
            paths[p] = (weir_time_path){table->times[i].paths[p].names, table->times[i].paths[p].count};
    }
    d->out->times[t] = times;
    d->out->tables[t].times = times;
    d->out->tables[t].time_count = table->time_count;
    return status;
}

static weir_status describe_table(describer *d, uint32_t t, uint32_t *column_start, uint32_t *edge_start,
                                  weir_error *error) {
    const weir_ingest__table_plan *table = &d->plan->tables[t];
    weir_table *info = &d->out->tables[t];
    weir_status status = WEIR_OK;
    const char **names =
        weir_ingest__take(&d->out->arena, table->primary_key_count, sizeof *names, &status, error);
    if (status != WEIR_OK)
        return status;
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        names[i] = table->columns[table->primary_key[i]].name;
    *info = (weir_table){.name = table->name,
                         .column_start = *column_start,
                         .edge_start = *edge_start,
                         .temporal_column = column_idx_of(table, table->temporal.column),
                         .temporal_time = table->temporal.time,
                         .primary_key = names,
                         .primary_key_count = table->primary_key_count};
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir_ingest__column_plan *column = &table->columns[c];
        if (column->column_idx == WEIR_NONE)
            continue;
        info->column_count++;
        d->out->columns[column->column_idx] =
            (weir_column){.name = column->name,
                          .description = column->description,
                          .table = t,
                          .task = WEIR_NONE,
                          .stype = column->stype,
                          .known_at = column_idx_of(table, column->known.column),
                          .known_time = column->known.time,
                          .statistics = {.std = 1}};
    }
    for (uint32_t e = 0; e < d->plan->edge_count; e++) {
        const weir_ingest__edge_plan *edge = &d->plan->edges[e];
        if (edge->table != t)
            continue;
        bool is_one = edge->key->column_count == 1;
        info->edge_count++;
        d->out->edges[e] =
            (weir_edge){.name = edge->key->name,
                        .table = t,
                        .column = is_one ? table->columns[edge->columns[0]].column_idx : WEIR_NONE,
                        .columns = edge->key->columns,
                        .column_count = edge->key->column_count,
                        .parent_table = edge->parent_table,
                        .known_at = column_idx_of(table, edge->known.column),
                        .known_time = edge->known.time};
    }
    *column_start += info->column_count;
    *edge_start += info->edge_count;
    WEIR__TRY(describe_times(d, t, error));
    if (!weir_store__layout_record(info, d->out->columns + info->column_start,
                                   d->out->edges + info->edge_start))
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__SCHEMA_OPERATOR,
                          "table %s has too many columns", table->name);
    return WEIR_OK;
}

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
static void hide_edges(const describer *d, uint32_t table, uint32_t column, uint8_t *edges) {
    for (uint32_t e = 0; e < d->plan->edge_count; e++)
        for (uint32_t i = 0; i < d->plan->edges[e].key->column_count && d->plan->edges[e].table == table; i++)
            if (d->plan->edges[e].columns[i] == column)
                edges[e] = 1;
}

static void mark_dropped(describer *d, const dropped_column *dropped, uint8_t *columns, uint8_t *edges) {
    const weir_ingest__table_plan *table = &d->plan->tables[dropped->table];
    for (uint32_t c = 0; c < table->column_count; c++) {
        if (table->columns[c].position != dropped->position)
            continue;
        if (table->columns[c].column_idx != WEIR_NONE)
            columns[table->columns[c].column_idx] = 1;
        hide_edges(d, dropped->table, c, edges);
    }
}

/* A dropped column may be any column of the source's table, also one that is not read. */
static weir_status find_dropped(describer *d, const weir_ingest__schema_task *task,
                                const weir_ingest__schema_name *name, dropped_column *out,
                                weir_error *error) {
    weir_status status = WEIR_OK;
    size_t size = strlen(name->table) + strlen(name->column) + 2;
    char *text = weir_ingest__take(&d->out->arena, size, 1, &status, error);
    if (!text)
        return status;
    stpcpy(stpcpy(stpcpy(text, name->table), "."), name->column);
    *out = (dropped_column){.name = text, .table = 0};
    while (strcmp(d->plan->tables[out->table].name, name->table) != 0)
        out->table++;
    out->position = weir_ingest__catalog_find_column(d->plan->tables[out->table].source, name->column);
    if (out->position == WEIR_NONE)
        return weir_ingest__plan_refuse(error, WEIR_TASK_INVALID, "is not a column of the source",
                                        "$.tasks.%s.drop_columns: %s", task->name, text);
    out->place = d->plan->tables[out->table].places[out->position];
    return WEIR_OK;
}

/* The target's own cell is never left out; the edges of foreign keys that it is part of are. */
static void describe_target(const describer *d, uint32_t number, uint8_t *dropped, uint8_t *hidden) {
    const weir_ingest__task_plan *task = &d->plan->tasks[number];
    weir_task *info = &d->out->tasks[number];
    info->column = task->column_idx;
    if (!task->is_cell) {
        d->out->columns[info->column] =
            weir_store__task_column(task->schema->target_column, number, task->schema->target_stype);
        return;
    }
    info->drops_target = dropped[info->column] == 1;
    dropped[info->column] = 0;
    hide_edges(d, task->anchor_table, task->target, hidden);
}

static weir_status describe_drops(describer *d, uint32_t number, weir_error *error) {
    const weir_ingest__schema_task *described = d->plan->tasks[number].schema;
    weir_task *info = &d->out->tasks[number];
    weir_status status = WEIR_OK;
    uint32_t count = described->drop_column_count;
    dropped_column *dropped = weir_ingest__take(&d->out->arena, count, sizeof *dropped, &status, error);
    const char **names = weir_ingest__take(&d->out->arena, count, sizeof *names, &status, error);
    uint8_t *columns = weir_ingest__take(&d->out->arena, d->out->info.column_count, 1, &status, error);
    uint8_t *edges = weir_ingest__take(&d->out->arena, d->plan->edge_count, 1, &status, error);
    for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
        status = find_dropped(d, described, &described->drop_columns[i], &dropped[i], error);
    if (status != WEIR_OK)
        return status;
    if (count > 0)
        qsort(dropped, count, sizeof *dropped, compare_dropped);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && compare_dropped(&dropped[i], &dropped[i - 1]) == 0)
            continue;
        names[info->drop_column_count++] = dropped[i].name;
        mark_dropped(d, &dropped[i], columns, edges);
    }
    describe_target(d, number, columns, edges);
    info->drop_columns = names;
    info->column_dropped = columns;
    info->edge_hidden = edges;
    return WEIR_OK;
}

static weir_status describe_tasks(describer *d, weir_error *error) {
    uint32_t next_derived = d->plan->table_column_count;
    for (uint32_t i = 0; i < d->plan->task_count; i++) {
        const weir_ingest__task_plan *task = &d->plan->tasks[i];
        d->out->tasks[i] = (weir_task){.name = task->schema->name,
                                       .target_column = task->schema->target_column,
                                       .weight_column = task->schema->weight_column,
                                       .is_cell = task->is_cell,
                                       .stype = task->schema->target_stype,
                                       .anchor_table = task->anchor_table,
                                       .before_anchor = task->schema->before_anchor,
                                       .has_train_statistics = task->schema->has_train_statistics};
        if (weir_ingest__is_link(task->schema))
            d->out->tasks[i].link =
                (weir_link){.is_link = true, .table = task->link_table, .edge = task->link_edge};
        next_derived += task->is_cell ? 0 : 1;
        WEIR__TRY(describe_drops(d, i, error));
    }
    /* The columns of observation times, of tasks whose labels have a time. */
    for (uint32_t i = 0; i < d->plan->task_count; i++) {
        const weir_ingest__schema_task *schema = d->plan->tasks[i].schema;
        weir_task *info = &d->out->tasks[i];
        info->observed_column = WEIR_NONE;
        if (!weir_ingest__has_label_times(schema))
            continue;
        const char *name = schema->observation_time_column;
        info->has_label_times = true;
        info->has_horizon = schema->has_horizon;
        info->horizon = schema->horizon;
        info->label_known_column = schema->label_known_column;
        info->observed_column = next_derived;
        d->out->columns[next_derived++] =
            weir_store__task_column(name ? name : "observation_time", i, WEIR_TIMESTAMP);
    }
    return WEIR_OK;
}

weir_status weir_ingest__describe_store(const weir_env *env, const weir_ingest__plan *plan,
                                        weir_ingest__description *out, weir_error *error) {
    *out = (weir_ingest__description){0};
    weir_store_info *info = &out->info;
    weir__arena *arena = &out->arena;
    describer d = {plan, out};
    weir_status status = WEIR_OK;
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
    info->tables = out->tables =
        weir_ingest__take(arena, info->table_count, sizeof *out->tables, &status, error);
    info->columns = out->columns = weir_ingest__take(arena, columns, sizeof *out->columns, &status, error);
    info->edges = out->edges = weir_ingest__take(arena, info->edge_count, sizeof *out->edges, &status, error);
    info->tasks = out->tasks = weir_ingest__take(arena, info->task_count, sizeof *out->tasks, &status, error);
    out->times = weir_ingest__take(arena, info->table_count, sizeof *out->times, &status, error);
    uint32_t column_start = 0, edge_start = 0;
    for (uint32_t t = 0; t < plan->table_count && status == WEIR_OK; t++)
        status = describe_table(&d, t, &column_start, &edge_start, error);
    return status == WEIR_OK ? describe_tasks(&d, error) : status;
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
        for (uint32_t i = 0; i < table->plan->time_count; i++)
            description->times[t][i].nulls = tasks->linked->times[t][i].nulls;
        for (uint32_t c = 0; c < table->plan->column_count; c++) {
            uint32_t column_idx = table->plan->columns[c].column_idx;
            if (column_idx == WEIR_NONE)
                continue;
            weir_column *column = &description->columns[column_idx];
            column->nulls = table->nulls[c] + table->new_categories[c];
            column->not_finite = table->not_finite[c];
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
