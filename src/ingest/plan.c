/* The plan: schema and catalog together, with numbers for names. Tables stand in bytewise order of name and
 * columns in declared order from here on, so that every later phase can simply count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/state.h"

static weir_status refuse(weir_error *error, weir_status status, const char *what, const char *format,
                          const char *a, const char *b, const char *c) {
    char path[400];
    snprintf(path, sizeof path, format, a, b, c);
    weir_status failed = weir__fail(error, status, WEIR__SCHEMA_OPERATOR, "the schema's %s %s", path, what);
    weir__note_text(error, "path", path, strlen(path));
    return failed;
}

static void *take(weir__ingest *ingest, size_t count, size_t size, weir_status *status, weir_error *error) {
    void *memory = weir__arena_take_zero(&ingest->arena, count, size);
    if (!memory && *status == WEIR_OK)
        *status = weir__out_of_memory(error, WEIR__INGEST_OPERATOR, count * size);
    return memory;
}

static const weir__catalog_table *find_source(const weir__ingest *ingest, const char *name) {
    for (uint32_t i = 0; i < ingest->catalog.table_count; i++)
        if (strcmp(ingest->catalog.tables[i].name, name) == 0)
            return &ingest->catalog.tables[i];
    return NULL;
}

static uint32_t find_position(const weir__catalog_table *table, const char *name) {
    for (uint32_t c = 0; c < table->column_count; c++)
        if (strcmp(table->columns[c].name, name) == 0)
            return c;
    return WEIR_NONE;
}

static uint32_t find_table(const weir__ingest *ingest, const char *name) {
    for (uint32_t t = 0; t < ingest->table_count; t++)
        if (strcmp(ingest->tables[t].name, name) == 0)
            return t;
    return WEIR_NONE;
}

static uint32_t find_column(const weir__table_plan *table, const char *name) {
    for (uint32_t c = 0; name && c < table->column_count; c++)
        if (strcmp(table->columns[c].name, name) == 0)
            return c;
    return WEIR_NONE;
}

/* ---- Which columns are read ------------------------------------------------------------------ */

static bool is_primary(const weir__schema_table *table, const char *name) {
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        if (strcmp(table->primary_key[i], name) == 0)
            return true;
    return false;
}

static bool is_target(const weir__schema *schema, const char *table, const char *column) {
    for (uint32_t t = 0; t < schema->table_count; t++)
        for (uint32_t c = 0; c < schema->tables[t].column_count; c++) {
            const weir__schema_column *key = &schema->tables[t].columns[c];
            if (key->foreign_table && strcmp(key->foreign_table, table) == 0 &&
                strcmp(key->foreign_column, column) == 0)
                return true;
        }
    return false;
}

static weir_status check_names(const weir__schema_table *table, const weir__catalog_table *source,
                               weir_error *error) {
    for (uint32_t c = 0; c < table->column_count; c++)
        if (find_position(source, table->columns[c].name) == WEIR_NONE)
            return refuse(error, WEIR_SCHEMA_INVALID, "names a column that the source's table does not have",
                          "$.tables.%s.columns.%s%s", table->name, table->columns[c].name, "");
    for (uint32_t i = 0; i < table->primary_key_count; i++) {
        bool is_repeated = false;
        for (uint32_t k = 0; k < i; k++)
            is_repeated = is_repeated || strcmp(table->primary_key[i], table->primary_key[k]) == 0;
        if (is_repeated || find_position(source, table->primary_key[i]) == WEIR_NONE)
            return refuse(error, WEIR_SCHEMA_INVALID,
                          is_repeated ? "names a column twice"
                                      : "names a column that the source's table does not have",
                          "$.tables.%s.primary_key: %s%s", table->name, table->primary_key[i], "");
    }
    return WEIR_OK;
}

static void plan_column(const weir__schema *schema, const weir__schema_table *described, const char *name,
                        uint32_t position, weir__column_plan *column) {
    const weir__schema_column *in_schema = weir__schema_find_column(described, name);
    *column = (weir__column_plan){
        .name = name,
        .description = in_schema ? in_schema->description : "",
        .position = position,
        .stype = in_schema ? in_schema->stype : WEIR_IGNORED,
        .unit = in_schema ? in_schema->unit : WEIR__SECONDS,
        .is_primary = is_primary(described, name),
        .is_foreign = in_schema && in_schema->foreign_table,
        .is_target = is_target(schema, described->name, name),
        .parent_table = WEIR_NONE,
        .parent_column = WEIR_NONE,
        .known_at = WEIR_NONE,
        .column_idx = WEIR_NONE,
        .edge = WEIR_NONE,
    };
}

/* A timestamp column that is not the temporal one is its own known_at where the schema says nothing. */
static void plan_times(const weir__schema_table *described, weir__table_plan *table) {
    table->temporal = find_column(table, described->temporal_column);
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir__schema_column *in_schema = weir__schema_find_column(described, table->columns[c].name);
        if (in_schema && in_schema->has_known_at)
            table->columns[c].known_at = find_column(table, in_schema->known_at);
        else if (table->columns[c].stype == WEIR_TIMESTAMP && c != table->temporal)
            table->columns[c].known_at = c;
    }
}

static weir_status plan_table(weir__ingest *ingest, const weir__schema_table *described,
                              weir__table_plan *table, weir_error *error) {
    weir_status status = WEIR_OK;
    table->name = described->name;
    table->source = find_source(ingest, described->name);
    if (!table->source)
        return refuse(error, WEIR_SCHEMA_INVALID, "is not a table of the source", "$.tables.%s%s%s",
                      described->name, "", "");
    status = check_names(described, table->source, error);
    if (status != WEIR_OK)
        return status;
    uint32_t declared = table->source->column_count;
    table->columns = take(ingest, declared, sizeof *table->columns, &status, error);
    table->positions = take(ingest, declared, sizeof *table->positions, &status, error);
    table->primary_key =
        take(ingest, described->primary_key_count, sizeof *table->primary_key, &status, error);
    if (status != WEIR_OK)
        return status;
    for (uint32_t position = 0; position < declared; position++) {
        weir__column_plan column;
        plan_column(&ingest->schema, described, table->source->columns[position].name, position, &column);
        if (column.stype == WEIR_IGNORED && !weir__keeps_keys(&column))
            continue;
        table->positions[table->column_count] = position;
        table->columns[table->column_count++] = column;
    }
    for (uint32_t i = 0; i < described->primary_key_count; i++)
        table->primary_key[table->primary_key_count++] = find_column(table, described->primary_key[i]);
    plan_times(described, table);
    return WEIR_OK;
}

static weir_status plan_tables(weir__ingest *ingest, weir_error *error) {
    const weir__schema *schema = &ingest->schema;
    weir_status status = WEIR_OK;
    if (schema->table_count > WEIR__TABLES_MAX)
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR__INGEST_OPERATOR,
                          "the schema's $.tables has %u tables; a store has at most %d", schema->table_count,
                          WEIR__TABLES_MAX);
    ingest->tables = take(ingest, schema->table_count, sizeof *ingest->tables, &status, error);
    for (uint32_t t = 0; t < schema->table_count && status == WEIR_OK; t++) {
        ingest->table_count = t + 1;
        status = plan_table(ingest, &schema->tables[t], &ingest->tables[t], error);
    }
    return status;
}

/* ---- Edges ----------------------------------------------------------------------------------- */

static weir_status plan_edge(weir__ingest *ingest, uint32_t t, uint32_t c, weir_error *error) {
    weir__table_plan *table = &ingest->tables[t];
    weir__column_plan *column = &table->columns[c];
    const weir__schema_column *in_schema = weir__schema_find_column(&ingest->schema.tables[t], column->name);
    column->parent_table = find_table(ingest, in_schema->foreign_table);
    column->parent_column = find_column(&ingest->tables[column->parent_table], in_schema->foreign_column);
    if (column->parent_column == WEIR_NONE)
        return refuse(error, WEIR_SCHEMA_INVALID, "names a column that the source's table does not have",
                      "$.tables.%s.columns.%s.foreign_key%s", table->name, column->name, "");
    column->edge = ingest->edge_count++;
    ingest->edges[column->edge] = (weir__edge_plan){.table = t, .column = c};
    return WEIR_OK;
}

static weir_status plan_edges(weir__ingest *ingest, weir_error *error) {
    weir_status status = WEIR_OK;
    size_t count = 0;
    for (uint32_t t = 0; t < ingest->table_count; t++)
        for (uint32_t c = 0; c < ingest->tables[t].column_count; c++)
            count += ingest->tables[t].columns[c].is_foreign ? 1 : 0;
    ingest->edges = take(ingest, count, sizeof *ingest->edges, &status, error);
    for (uint32_t t = 0; t < ingest->table_count && status == WEIR_OK; t++)
        for (uint32_t c = 0; c < ingest->tables[t].column_count && status == WEIR_OK; c++)
            if (ingest->tables[t].columns[c].is_foreign)
                status = plan_edge(ingest, t, c, error);
    return status;
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static bool can_be_own_task(const weir__table_plan *table, uint32_t c) {
    const weir__column_plan *column = &table->columns[c];
    bool has_type = column->stype == WEIR_NUMERICAL || column->stype == WEIR_TIMESTAMP ||
                    column->stype == WEIR_BOOLEAN || column->stype == WEIR_CATEGORICAL;
    return has_type && !column->is_primary && !column->is_foreign && c != table->temporal;
}

static int compare_task_names(const void *a, const void *b) {
    return strcmp(((const weir__schema_task *)a)->name, ((const weir__schema_task *)b)->name);
}

/* Without tasks every column that can be one is a cell task over all rows of its table. */
static weir_status make_own_tasks(weir__ingest *ingest, weir_error *error) {
    weir__schema *schema = &ingest->schema;
    weir_status status = WEIR_OK;
    size_t count = 0;
    for (uint32_t t = 0; t < ingest->table_count; t++)
        count += ingest->tables[t].column_count;
    schema->tasks = take(ingest, count, sizeof *schema->tasks, &status, error);
    for (uint32_t t = 0; t < ingest->table_count; t++)
        for (uint32_t c = 0; c < ingest->tables[t].column_count && status == WEIR_OK; c++) {
            const weir__table_plan *table = &ingest->tables[t];
            if (!can_be_own_task(table, c))
                continue;
            size_t size = strlen(table->name) + strlen(table->columns[c].name) + 2;
            char *name = take(ingest, size, 1, &status, error);
            if (!name)
                break;
            snprintf(name, size, "%s.%s", table->name, table->columns[c].name);
            schema->tasks[schema->task_count++] = (weir__schema_task){.name = name,
                                                                      .anchor_table = table->name,
                                                                      .target_column = table->columns[c].name,
                                                                      .target_stype = table->columns[c].stype,
                                                                      .kind = WEIR__KIND_CELL,
                                                                      .split = {.permille = {800, 100, 100}}};
        }
    if (status == WEIR_OK && schema->task_count > 0)
        qsort(schema->tasks, schema->task_count, sizeof *schema->tasks, compare_task_names);
    return status;
}

static weir_status plan_task(weir__ingest *ingest, const weir__schema_task *described, weir__task_plan *task,
                             weir_error *error) {
    task->schema = described;
    task->anchor_table = find_table(ingest, described->anchor_table);
    const weir__table_plan *anchor = &ingest->tables[task->anchor_table];
    task->target = find_column(anchor, described->target_column);
    bool is_cell_possible =
        task->target != WEIR_NONE && anchor->columns[task->target].stype == described->target_stype;
    task->is_cell =
        described->kind == WEIR__KIND_CELL ||
        (described->kind == WEIR__KIND_AUTO && is_cell_possible && !described->observation_time_column);
    if (task->is_cell && !is_cell_possible)
        return refuse(error, WEIR_TASK_INVALID, "is no column of the anchor table with the task's type",
                      "$.tasks.%s.target_column: %s%s", described->name, described->target_column, "");
    if (described->query && anchor->primary_key_count != 1)
        return refuse(error, WEIR_TASK_INVALID, "names a table without a primary key of one column",
                      "$.tasks.%s.anchor_table: %s%s", described->name, described->anchor_table, "");
    return WEIR_OK;
}

static weir_status plan_tasks(weir__ingest *ingest, weir_error *error) {
    weir__schema *schema = &ingest->schema;
    weir_status status = schema->has_tasks ? WEIR_OK : make_own_tasks(ingest, error);
    ingest->tasks = take(ingest, schema->task_count, sizeof *ingest->tasks, &status, error);
    for (uint32_t i = 0; i < schema->task_count && status == WEIR_OK; i++) {
        weir__dictionary_init(&ingest->tasks[i].categories, ingest->env);
        weir__arena_init(&ingest->tasks[i].strings, ingest->env);
        ingest->task_count = i + 1;
        status = plan_task(ingest, &schema->tasks[i], &ingest->tasks[i], error);
    }
    return status;
}

/* ---- The store's description ----------------------------------------------------------------- */

static uint32_t column_idx_of(const weir__table_plan *table, uint32_t column) {
    return column == WEIR_NONE ? WEIR_NONE : table->columns[column].column_idx;
}

static void number_columns(weir__ingest *ingest) {
    uint32_t next = 0;
    for (uint32_t t = 0; t < ingest->table_count; t++)
        for (uint32_t c = 0; c < ingest->tables[t].column_count; c++)
            if (ingest->tables[t].columns[c].stype != WEIR_IGNORED)
                ingest->tables[t].columns[c].column_idx = next++;
    ingest->info.table_column_count = next;
    for (uint32_t i = 0; i < ingest->task_count; i++)
        next += ingest->tasks[i].is_cell ? 0 : 1;
    ingest->info.column_count = next;
}

static void describe_columns(weir__ingest *ingest, uint32_t t) {
    weir__table_plan *table = &ingest->tables[t];
    weir_table *info = &ingest->info_tables[t];
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir__column_plan *column = &table->columns[c];
        if (column->column_idx == WEIR_NONE)
            continue;
        info->column_count++;
        ingest->info_columns[column->column_idx] =
            (weir_column){.name = column->name,
                          .description = column->description,
                          .table = t,
                          .task = WEIR_NONE,
                          .stype = column->stype,
                          .known_at = column_idx_of(table, column->known_at),
                          .statistics = {.std = 1}};
    }
}

static void describe_edges(weir__ingest *ingest, uint32_t t) {
    weir__table_plan *table = &ingest->tables[t];
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir__column_plan *column = &table->columns[c];
        if (column->edge == WEIR_NONE)
            continue;
        ingest->info_tables[t].edge_count++;
        ingest->info_edges[column->edge] = (weir_edge){.name = column->name,
                                                       .table = t,
                                                       .column = column->column_idx,
                                                       .parent_table = column->parent_table,
                                                       .known_at = column_idx_of(table, column->known_at)};
    }
}

static weir_status describe_table(weir__ingest *ingest, uint32_t t, uint32_t *column_start,
                                  uint32_t *edge_start, weir_error *error) {
    weir__table_plan *table = &ingest->tables[t];
    weir_table *info = &ingest->info_tables[t];
    weir_status status = WEIR_OK;
    const char **names = take(ingest, table->primary_key_count, sizeof *names, &status, error);
    if (status != WEIR_OK)
        return status;
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        names[i] = table->columns[table->primary_key[i]].name;
    *info = (weir_table){.name = table->name,
                         .column_start = *column_start,
                         .edge_start = *edge_start,
                         .temporal_column = column_idx_of(table, table->temporal),
                         .primary_key = names,
                         .primary_key_count = table->primary_key_count};
    describe_columns(ingest, t);
    describe_edges(ingest, t);
    *column_start += info->column_count;
    *edge_start += info->edge_count;
    if (!weir__layout_record(info, ingest->info_columns + info->column_start,
                             ingest->info_edges + info->edge_start))
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR__SCHEMA_OPERATOR, "table %s has too many columns",
                          table->name);
    return WEIR_OK;
}

/* A place to sort dropped columns by: table, then declared column. */
typedef struct dropped_column {
    const char *name;
    uint32_t table;
    uint32_t position;
} dropped_column;

static int compare_dropped(const void *a, const void *b) {
    const dropped_column *x = a, *y = b;
    if (x->table != y->table)
        return x->table < y->table ? -1 : 1;
    return x->position < y->position ? -1 : x->position > y->position;
}

static void mark_dropped(weir__ingest *ingest, const dropped_column *dropped, uint8_t *columns,
                         uint8_t *edges) {
    const weir__table_plan *table = &ingest->tables[dropped->table];
    for (uint32_t c = 0; c < table->column_count; c++) {
        if (table->columns[c].position != dropped->position)
            continue;
        if (table->columns[c].column_idx != WEIR_NONE)
            columns[table->columns[c].column_idx] = 1;
        if (table->columns[c].edge != WEIR_NONE)
            edges[table->columns[c].edge] = 1;
    }
}

static weir_status find_dropped(weir__ingest *ingest, const weir__schema_task *task, const char *name,
                                dropped_column *out, weir_error *error) {
    const char *dot = strchr(name, '.');
    size_t table_size = dot ? (size_t)(dot - name) : 0;
    *out = (dropped_column){.name = name, .table = WEIR_NONE, .position = WEIR_NONE};
    for (uint32_t t = 0; dot && t < ingest->table_count; t++)
        if (strlen(ingest->tables[t].name) == table_size &&
            memcmp(ingest->tables[t].name, name, table_size) == 0) {
            out->table = t;
            out->position = find_position(ingest->tables[t].source, dot + 1);
        }
    if (out->position == WEIR_NONE)
        return refuse(error, WEIR_TASK_INVALID, "is no column of the source", "$.tasks.%s.drop_columns: %s%s",
                      task->name, name, "");
    return WEIR_OK;
}

static weir_status describe_drops(weir__ingest *ingest, uint32_t number, weir_error *error) {
    const weir__schema_task *described = ingest->tasks[number].schema;
    weir_task *info = &ingest->info_tasks[number];
    weir_status status = WEIR_OK;
    uint32_t count = described->drop_column_count;
    dropped_column *dropped = take(ingest, count, sizeof *dropped, &status, error);
    const char **names = take(ingest, count, sizeof *names, &status, error);
    uint8_t *columns = take(ingest, ingest->info.column_count, 1, &status, error);
    uint8_t *edges = take(ingest, ingest->edge_count, 1, &status, error);
    for (uint32_t i = 0; i < count && status == WEIR_OK; i++)
        status = find_dropped(ingest, described, described->drop_columns[i], &dropped[i], error);
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

/* The target's own cell is never left out; the edges of a target that is a foreign key are. */
static void describe_target(weir__ingest *ingest, uint32_t number, uint32_t *next_derived) {
    const weir__task_plan *task = &ingest->tasks[number];
    weir_task *info = &ingest->info_tasks[number];
    if (task->is_cell) {
        const weir__column_plan *column = &ingest->tables[task->anchor_table].columns[task->target];
        info->column = column->column_idx;
        ((uint8_t *)info->column_dropped)[info->column] = 0;
        if (column->edge != WEIR_NONE)
            ((uint8_t *)info->edge_hidden)[column->edge] = 1;
        return;
    }
    info->column = (*next_derived)++;
    ingest->info_columns[info->column] = (weir_column){.name = task->schema->target_column,
                                                       .description = "",
                                                       .table = WEIR_NONE,
                                                       .task = number,
                                                       .stype = task->schema->target_stype,
                                                       .slot = WEIR_NONE,
                                                       .null_bit = WEIR_NONE,
                                                       .bool_bit = WEIR_NONE,
                                                       .known_at = WEIR_NONE,
                                                       .statistics = {.std = 1}};
}

static weir_status describe_tasks(weir__ingest *ingest, weir_error *error) {
    uint32_t next_derived = ingest->info.table_column_count;
    for (uint32_t i = 0; i < ingest->task_count; i++) {
        const weir__task_plan *task = &ingest->tasks[i];
        ingest->info_tasks[i] = (weir_task){.name = task->schema->name,
                                            .target_column = task->schema->target_column,
                                            .is_cell = task->is_cell,
                                            .stype = task->schema->target_stype,
                                            .anchor_table = task->anchor_table};
        weir_status status = describe_drops(ingest, i, error);
        if (status != WEIR_OK)
            return status;
        describe_target(ingest, i, &next_derived);
    }
    return WEIR_OK;
}

static weir_status describe_store(weir__ingest *ingest, weir_error *error) {
    weir_store_info *info = &ingest->info;
    weir_status status = WEIR_OK;
    number_columns(ingest);
    info->name = ingest->schema.name ? ingest->schema.name : ingest->catalog.name;
    info->table_count = ingest->table_count;
    info->edge_count = ingest->edge_count;
    info->task_count = ingest->task_count;
    info->has_statistics_until = ingest->schema.has_statistics_until;
    info->statistics_until = ingest->schema.statistics_until;
    info->tables = ingest->info_tables = take(ingest, info->table_count, sizeof(weir_table), &status, error);
    info->columns = ingest->info_columns =
        take(ingest, info->column_count, sizeof(weir_column), &status, error);
    info->edges = ingest->info_edges = take(ingest, info->edge_count, sizeof(weir_edge), &status, error);
    info->tasks = ingest->info_tasks = take(ingest, info->task_count, sizeof(weir_task), &status, error);
    uint32_t column_start = 0, edge_start = 0;
    for (uint32_t t = 0; t < ingest->table_count && status == WEIR_OK; t++)
        status = describe_table(ingest, t, &column_start, &edge_start, error);
    return status == WEIR_OK ? describe_tasks(ingest, error) : status;
}

weir_status weir__plan_make(weir__ingest *ingest, weir_error *error) {
    weir_status status = plan_tables(ingest, error);
    if (status == WEIR_OK)
        status = plan_edges(ingest, error);
    if (status == WEIR_OK)
        status = plan_tasks(ingest, error);
    return status == WEIR_OK ? describe_store(ingest, error) : status;
}
