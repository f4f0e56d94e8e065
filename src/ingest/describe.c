/* The store's description, from the plan: tables, columns, edges and tasks as weir/store.h has them, with
 * the layout of records. What only the rows can say (counts, statistics) the later phases fill in. */
#include <stdlib.h>
#include <string.h>

#include "ingest/state.h"

static uint32_t column_idx_of(const weir_ingest__table_plan *table, uint32_t column) {
    return column == WEIR_NONE ? WEIR_NONE : table->columns[column].column_idx;
}

static void number_columns(weir_ingest__ingest *ingest) {
    uint32_t next = 0;
    for (uint32_t t = 0; t < ingest->table_count; t++)
        for (uint32_t c = 0; c < ingest->tables[t].column_count; c++)
            if (ingest->tables[t].columns[c].stype != WEIR_IGNORED)
                ingest->tables[t].columns[c].column_idx = next++;
    ingest->info.table_column_count = next;
    for (uint32_t i = 0; i < ingest->task_count; i++)
        next += ingest->tasks[i].is_cell ? 0 : 1;
    for (uint32_t i = 0; i < ingest->task_count; i++)
        next += weir_ingest__has_label_times(ingest->tasks[i].schema);
    ingest->info.column_count = next;
}

static void describe_columns(weir_ingest__ingest *ingest, uint32_t t) {
    weir_ingest__table_plan *table = &ingest->tables[t];
    weir_table *info = &ingest->info_tables[t];
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir_ingest__column_plan *column = &table->columns[c];
        if (column->column_idx == WEIR_NONE)
            continue;
        info->column_count++;
        ingest->info_columns[column->column_idx] =
            (weir_column){.name = column->name,
                          .description = column->description,
                          .table = t,
                          .task = WEIR_NONE,
                          .stype = column->stype,
                          .known_at = column_idx_of(table, column->known.column),
                          .known_time = column->known.time,
                          .statistics = {.std = 1}};
    }
}

static void describe_edges(weir_ingest__ingest *ingest, uint32_t t) {
    weir_ingest__table_plan *table = &ingest->tables[t];
    for (uint32_t e = 0; e < ingest->edge_count; e++) {
        const weir_ingest__edge_plan *edge = &ingest->edges[e];
        if (edge->table != t)
            continue;
        bool is_one = edge->key->column_count == 1;
        ingest->info_tables[t].edge_count++;
        ingest->info_edges[e] =
            (weir_edge){.name = edge->key->name,
                        .table = t,
                        .column = is_one ? table->columns[edge->columns[0]].column_idx : WEIR_NONE,
                        .columns = edge->key->columns,
                        .column_count = edge->key->column_count,
                        .parent_table = edge->parent_table,
                        .known_at = column_idx_of(table, edge->known.column),
                        .known_time = edge->known.time};
    }
}

/* The paths of a table's stored times are the schema's. */
static weir_status describe_times(weir_ingest__ingest *ingest, uint32_t t, weir_error *error) {
    const weir_ingest__table_plan *table = &ingest->tables[t];
    weir_status status = WEIR_OK;
    weir_stored_time *times =
        weir_ingest__plan_take(ingest, table->time_count, sizeof *times, &status, error);
    for (uint32_t i = 0; i < table->time_count && status == WEIR_OK; i++) {
        weir_time_path *paths =
            weir_ingest__plan_take(ingest, table->times[i].path_count, sizeof *paths, &status, error);
        times[i] = (weir_stored_time){.paths = paths, .path_count = table->times[i].path_count};
        for (uint32_t p = 0; p < times[i].path_count && paths; p++)
            paths[p] = (weir_time_path){table->times[i].paths[p].names, table->times[i].paths[p].count};
    }
    ingest->info_tables[t].times = times;
    ingest->info_tables[t].time_count = table->time_count;
    return status;
}

static weir_status describe_table(weir_ingest__ingest *ingest, uint32_t t, uint32_t *column_start,
                                  uint32_t *edge_start, weir_error *error) {
    weir_ingest__table_plan *table = &ingest->tables[t];
    weir_table *info = &ingest->info_tables[t];
    weir_status status = WEIR_OK;
    const char **names =
        weir_ingest__plan_take(ingest, table->primary_key_count, sizeof *names, &status, error);
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
    describe_columns(ingest, t);
    describe_edges(ingest, t);
    *column_start += info->column_count;
    *edge_start += info->edge_count;
    WEIR__TRY(describe_times(ingest, t, error));
    if (!weir_store__layout_record(info, ingest->info_columns + info->column_start,
                                   ingest->info_edges + info->edge_start))
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
static void hide_edges(const weir_ingest__ingest *ingest, uint32_t table, uint32_t column, uint8_t *edges) {
    for (uint32_t e = 0; e < ingest->edge_count; e++)
        for (uint32_t i = 0; i < ingest->edges[e].key->column_count && ingest->edges[e].table == table; i++)
            if (ingest->edges[e].columns[i] == column)
                edges[e] = 1;
}

static void mark_dropped(weir_ingest__ingest *ingest, const dropped_column *dropped, uint8_t *columns,
                         uint8_t *edges) {
    const weir_ingest__table_plan *table = &ingest->tables[dropped->table];
    for (uint32_t c = 0; c < table->column_count; c++) {
        if (table->columns[c].position != dropped->position)
            continue;
        if (table->columns[c].column_idx != WEIR_NONE)
            columns[table->columns[c].column_idx] = 1;
        hide_edges(ingest, dropped->table, c, edges);
    }
}

/* A dropped column may be any column of the source's table, also one that is not read. */
static weir_status find_dropped(weir_ingest__ingest *ingest, const weir_ingest__schema_task *task,
                                const weir_ingest__schema_name *name, dropped_column *out,
                                weir_error *error) {
    weir_status status = WEIR_OK;
    size_t size = strlen(name->table) + strlen(name->column) + 2;
    char *text = weir_ingest__plan_take(ingest, size, 1, &status, error);
    if (!text)
        return status;
    stpcpy(stpcpy(stpcpy(text, name->table), "."), name->column);
    *out = (dropped_column){.name = text, .table = 0};
    while (strcmp(ingest->tables[out->table].name, name->table) != 0)
        out->table++;
    out->position = weir_ingest__catalog_find_column(ingest->tables[out->table].source, name->column);
    if (out->position == WEIR_NONE)
        return weir_ingest__plan_refuse(error, WEIR_TASK_INVALID, "is not a column of the source",
                                        "$.tasks.%s.drop_columns: %s", task->name, text);
    out->place = ingest->tables[out->table].places[out->position];
    return WEIR_OK;
}

static weir_status describe_drops(weir_ingest__ingest *ingest, uint32_t number, weir_error *error) {
    const weir_ingest__schema_task *described = ingest->tasks[number].schema;
    weir_task *info = &ingest->info_tasks[number];
    weir_status status = WEIR_OK;
    uint32_t count = described->drop_column_count;
    dropped_column *dropped = weir_ingest__plan_take(ingest, count, sizeof *dropped, &status, error);
    const char **names = weir_ingest__plan_take(ingest, count, sizeof *names, &status, error);
    uint8_t *columns = weir_ingest__plan_take(ingest, ingest->info.column_count, 1, &status, error);
    uint8_t *edges = weir_ingest__plan_take(ingest, ingest->edge_count, 1, &status, error);
    for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
        status = find_dropped(ingest, described, &described->drop_columns[i], &dropped[i], error);
    if (status != WEIR_OK)
        return status;
    if (count > 0)
        qsort(dropped, count, sizeof *dropped, compare_dropped);
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0 && compare_dropped(&dropped[i], &dropped[i - 1]) == 0)
            continue;
        names[info->drop_column_count++] = dropped[i].name;
        mark_dropped(ingest, &dropped[i], columns, edges);
    }
    info->drop_columns = names;
    info->column_dropped = columns;
    info->edge_hidden = edges;
    return WEIR_OK;
}

/* The target's own cell is never left out; the edges of foreign keys that it is part of are. */
static void describe_target(weir_ingest__ingest *ingest, uint32_t number, uint32_t *next_derived) {
    const weir_ingest__task_plan *task = &ingest->tasks[number];
    weir_task *info = &ingest->info_tasks[number];
    if (task->is_cell) {
        const weir_ingest__column_plan *column = &ingest->tables[task->anchor_table].columns[task->target];
        info->column = column->column_idx;
        info->drops_target = info->column_dropped[info->column] == 1;
        ((uint8_t *)info->column_dropped)[info->column] = 0;
        hide_edges(ingest, task->anchor_table, task->target, (uint8_t *)info->edge_hidden);
        return;
    }
    info->column = (*next_derived)++;
    ingest->info_columns[info->column] =
        weir_store__task_column(task->schema->target_column, number, task->schema->target_stype);
}

/* The columns of observation times, of tasks whose labels have a time. */
static void describe_label_times(weir_ingest__ingest *ingest, uint32_t next) {
    for (uint32_t i = 0; i < ingest->task_count; i++) {
        const weir_ingest__schema_task *schema = ingest->tasks[i].schema;
        weir_task *info = &ingest->info_tasks[i];
        info->observed_column = WEIR_NONE;
        if (!weir_ingest__has_label_times(schema))
            continue;
        const char *name = schema->observation_time_column;
        info->has_label_times = true;
        info->has_horizon = schema->has_horizon;
        info->horizon = schema->horizon;
        info->label_known_column = schema->label_known_column;
        info->observed_column = next;
        ingest->info_columns[next++] =
            weir_store__task_column(name ? name : "observation_time", i, WEIR_TIMESTAMP);
    }
}

static weir_status describe_tasks(weir_ingest__ingest *ingest, weir_error *error) {
    uint32_t next_derived = ingest->info.table_column_count;
    for (uint32_t i = 0; i < ingest->task_count; i++) {
        const weir_ingest__task_plan *task = &ingest->tasks[i];
        ingest->info_tasks[i] = (weir_task){.name = task->schema->name,
                                            .target_column = task->schema->target_column,
                                            .weight_column = task->schema->weight_column,
                                            .is_cell = task->is_cell,
                                            .stype = task->schema->target_stype,
                                            .anchor_table = task->anchor_table,
                                            .before_anchor = task->schema->before_anchor,
                                            .has_train_statistics = task->schema->has_train_statistics};
        if (weir_ingest__is_link(task->schema))
            ingest->info_tasks[i].link =
                (weir_link){.is_link = true, .table = task->link.table, .edge = task->link.edge};
        WEIR__TRY(describe_drops(ingest, i, error));
        describe_target(ingest, i, &next_derived);
    }
    describe_label_times(ingest, next_derived);
    return WEIR_OK;
}

weir_status weir_ingest__describe_store(weir_ingest__ingest *ingest, weir_error *error) {
    weir_store_info *info = &ingest->info;
    weir_status status = WEIR_OK;
    number_columns(ingest);
    info->name = ingest->schema.name ? ingest->schema.name : ingest->catalog.name;
    info->table_count = ingest->table_count;
    info->edge_count = ingest->edge_count;
    info->task_count = ingest->task_count;
    info->tables = ingest->info_tables =
        weir_ingest__plan_take(ingest, info->table_count, sizeof(weir_table), &status, error);
    info->columns = ingest->info_columns =
        weir_ingest__plan_take(ingest, info->column_count, sizeof(weir_column), &status, error);
    info->edges = ingest->info_edges =
        weir_ingest__plan_take(ingest, info->edge_count, sizeof(weir_edge), &status, error);
    info->tasks = ingest->info_tasks =
        weir_ingest__plan_take(ingest, info->task_count, sizeof(weir_task), &status, error);
    uint32_t column_start = 0, edge_start = 0;
    for (uint32_t t = 0; t < ingest->table_count && status == WEIR_OK; t++)
        status = describe_table(ingest, t, &column_start, &edge_start, error);
    return status == WEIR_OK ? describe_tasks(ingest, error) : status;
}
