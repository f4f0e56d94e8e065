/* Warnings about times (docs/spec, Warnings): what a seed sees too early, or not at all, because a table has
 * no time, a row or a seed has none, a seed is observed before its anchor, or statistics go beyond the train
 * split. */
#include <stdio.h>
#include <string.h>

#include "ingest/like.h"
#include "weir_tool/store_tools.h"

static bool has_time(const weir_ingest__table_plan *table) {
    return table->temporal.column != WEIR_NONE || table->temporal.time != WEIR_NONE;
}

/* ---- The middle of all observation times --------------------------------------------------------- */

/* The lower median, byte by byte from the highest: no memory, whatever the number of seeds. False if no
 * seed has a time. */
static bool median_time(const weir_ingest__tasks *tasks, int64_t *out) {
    uint64_t known = 0, rank = 0;
    for (unsigned bytes = 0; bytes < 8; bytes++) {
        /* How many seeds have each next byte, of those whose time begins with the bytes that are known. */
        uint64_t counts[256] = {0}, total = 0;
        for (uint32_t t = 0; t < tasks->plan->task_count; t++)
            for (uint64_t i = 0; i < tasks->list[t].seed_count; i++) {
                int64_t time = weir_ingest__seed_time(tasks, t, i);
                uint64_t bits = weir_ingest__rank_of(time);
                if (time == INT64_MAX || (bytes > 0 && bits >> (64 - 8 * bytes) != known))
                    continue;
                counts[bits >> (56 - 8 * bytes) & 255]++;
                total++;
            }
        if (total == 0)
            return false;
        if (bytes == 0)
            rank = (total - 1) / 2;
        unsigned byte = 0;
        for (; rank >= counts[byte]; byte++)
            rank -= counts[byte];
        known = known << 8 | byte;
    }
    *out = weir_ingest__of_rank(known);
    return true;
}

/* ---- Tables without a time ------------------------------------------------------------------- */

/* A way along foreign keys, through tables without a time, to the first with one. */
typedef struct way {
    uint32_t edges[WEIR_INGEST__TIME_KEYS_MAX];
    uint32_t edge_count;
    uint32_t table; /* where it ends */
} way;

/* The table with a time that is reached first, WEIR_NONE if there is none; and the edge type + 1 by which
 * each table was reached. Tables are visited in the order in which they are reached. */
static uint32_t reach_time(const weir_ingest__plan *plan, uint32_t from, uint32_t *queue,
                           uint32_t *reached_by) {
    uint32_t begin = 0, end = 0;
    memset(reached_by, 0, plan->table_count * sizeof *reached_by);
    queue[end++] = from;
    while (begin < end) {
        uint32_t table = queue[begin++];
        for (uint32_t e = 0; e < plan->edge_count; e++) {
            uint32_t parent = plan->edges[e].parent_table;
            if (plan->edges[e].table != table || parent == from || reached_by[parent])
                continue;
            reached_by[parent] = e + 1;
            queue[end++] = parent;
            if (has_time(&plan->tables[parent]))
                return parent;
        }
    }
    return WEIR_NONE;
}

/* The shortest way, of several the first in order of edge types; its table is WEIR_NONE if there is none. */
static weir_status find_way(const weir_env *env, const weir_ingest__plan *plan, uint32_t from, way *out,
                            weir_error *error) {
    uint32_t *queue = weir__allocate(env, plan->table_count, sizeof *queue);
    uint32_t *reached_by = weir__allocate(env, plan->table_count, sizeof *reached_by);
    weir_status status = WEIR_OK;
    *out = (way){.table = WEIR_NONE};
    if (queue && reached_by)
        out->table = reach_time(plan, from, queue, reached_by);
    else
        status = weir_ingest__no_memory(error, plan->table_count * sizeof *queue);
    uint32_t table = out->table;
    for (uint32_t t = table; table != WEIR_NONE && t != from; t = plan->edges[reached_by[t] - 1].table)
        if (out->edge_count++ == WEIR_INGEST__TIME_KEYS_MAX) {
            out->table = table = WEIR_NONE;
            break;
        }
    uint32_t place = out->edge_count;
    for (uint32_t t = table; table != WEIR_NONE && t != from; t = plan->edges[reached_by[t] - 1].table)
        out->edges[--place] = reached_by[t] - 1;
    weir__release(env, queue);
    weir__release(env, reached_by);
    return status;
}

/* What to write as temporal_column: the keys of the way, then what says the last table's time. */
static void describe_way(const weir_ingest__plan *plan, const way *found, char *out, size_t size) {
    const weir_ingest__table_plan *last = &plan->tables[found->table];
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < found->edge_count && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s -> %s.", plan->edges[found->edges[i]].key->name,
                                 plan->tables[plan->edges[found->edges[i]].parent_table].name);
    if (used >= size)
        return;
    if (last->temporal.column != WEIR_NONE) {
        snprintf(out + used, size - used, "%s", last->columns[last->temporal.column].name);
        return;
    }
    const weir_time_path *path = &last->times[last->temporal.time].paths[0];
    uint32_t table = found->table;
    for (uint32_t i = 0; i < path->count && used < size; i++) {
        const weir_ingest__schema_key *key =
            i + 1 < path->count ? weir_ingest__schema_find_key(&plan->schema->tables[table], path->names[i])
                                : NULL;
        used += (size_t)snprintf(out + used, size - used, "%s%s%s%s", path->names[i], key ? " -> " : "",
                                 key ? key->table : "", key ? "." : "");
        for (uint32_t t = 0; key && t < plan->table_count; t++)
            if (strcmp(plan->tables[t].name, key->table) == 0)
                table = t;
    }
}

static weir_status warn_of_table(weir_ingest__context *context, const weir_ingest__tasks *tasks, uint32_t t,
                                 const int64_t *median, weir_error *error) {
    const weir_ingest__plan *plan = tasks->plan;
    way found;
    weir_status status = find_way(context->env, plan, t, &found, error);
    if (status != WEIR_OK || found.table == WEIR_NONE)
        return status;
    char path[400], time[40], seen[300] = "";
    describe_way(plan, &found, path, sizeof path);
    if (median) {
        uint64_t later = 0;
        for (uint32_t r = 0; r < tasks->ordered->tables[t].row_count; r++) {
            uint32_t row = r;
            for (uint32_t i = 0; i < found.edge_count && row != WEIR_NONE; i++)
                row = tasks->linked->edges[found.edges[i]].parents[row];
            later += row != WEIR_NONE && weir_ingest__row_time(tasks->linked, found.table, row) > *median;
        }
        weir_timestamp_format(*median, time);
        snprintf(seen, sizeof seen,
                 "; a seed in the middle (%s) sees %llu of them from the future, by the time of their %s",
                 time, (unsigned long long)later, plan->tables[found.table].name);
    }
    weir_ingest__warn(
        context, "table_without_time", plan->tables[t].name, NULL, NULL,
        "table %s has no time, so every seed sees all of its %u rows%s; say since when they exist, such as "
        "\"temporal_column\": \"%s\"",
        plan->tables[t].name, tasks->ordered->tables[t].row_count, seen, path);
    return WEIR_OK;
}

/* ---- Rows, seeds, statistics ------------------------------------------------------------------- */

static void warn_of_statistics(weir_ingest__context *context, const weir_ingest__tasks *tasks) {
    const weir_ingest__plan *plan = tasks->plan;
    int64_t end = 0;
    uint32_t task = 0;
    uint64_t later = 0;
    char time[40];
    if (!weir_ingest__earliest_end_of_train(tasks, &end, &task))
        return;
    for (uint32_t t = 0; t < plan->table_count; t++)
        for (uint32_t r = 0; r < tasks->ordered->tables[t].row_count && has_time(&plan->tables[t]); r++)
            later += weir_ingest__row_time(tasks->linked, t, r) > end ? 1 : 0;
    if (later == 0)
        return;
    weir_timestamp_format(end, time);
    weir_ingest__warn(
        context, "statistics_after_train", NULL, NULL, plan->tasks[task].schema->name,
        "means and deviations are over all rows, also %llu that are later than the train split of task %s, "
        "which ends at %s; say \"statistics_until\": \"train\" to leave them out",
        (unsigned long long)later, plan->tasks[task].schema->name, time);
}

/* How many seeds of each split see everything; what the sum is. */
static uint64_t count_timeless(const weir_ingest__tasks *tasks, uint32_t number, uint64_t out[WEIR_SPLITS]) {
    const weir_ingest__task *task = &tasks->list[number];
    uint64_t total = 0;
    for (int split = 0; split < WEIR_SPLITS; split++) {
        out[split] = 0;
        for (uint64_t i = task->split_start[split]; i < task->split_start[split + 1]; i++)
            out[split] += weir_ingest__seed_time(tasks, number, i) == INT64_MAX;
        total += out[split];
    }
    return total;
}

/* Such as "67 of the 99 of test". */
static void describe_splits(const weir_ingest__task *task, const uint64_t counts[WEIR_SPLITS], char *out,
                            size_t size) {
    size_t used = 0;
    for (int split = 0; split < WEIR_SPLITS && used < size; split++) {
        unsigned long long count = counts[split];
        unsigned long long seeds = task->split_start[split + 1] - task->split_start[split];
        const char *name = weir_split_name((weir_split)split), *before = used ? ", " : "";
        int length = 0;
        if (count > 0 && count == seeds)
            length = snprintf(out + used, size - used, "%sall %llu of %s", before, count, name);
        else if (count > 0)
            length =
                snprintf(out + used, size - used, "%s%llu of the %llu of %s", before, count, seeds, name);
        used += (size_t)length;
    }
}

/* Seeds without a time, of a task that has times: of its own, or those of its anchor's rows. That a task has
 * none at all is what somebody chose. */
static void warn_of_seeds(weir_ingest__context *context, const weir_ingest__tasks *tasks, uint32_t number) {
    const weir_ingest__task *task = &tasks->list[number];
    const weir_ingest__schema_task *schema = task->plan->schema;
    const char *column = schema->observation_time_column, *anchor = schema->anchor_table;
    bool is_timed = has_time(&tasks->plan->tables[task->plan->anchor_table]);
    uint64_t counts[WEIR_SPLITS];
    char splits[200];
    static const char advice[] =
        "they see every row, also those that came after; give them one, or leave them "
        "out in the query (WHERE … IS NOT NULL)";
    if (task->row_timed > 0)
        weir_ingest__note(
            context, "observation_from_row",
            "%llu of %llu seeds of task %s have no time in column %s of the query (it is null): "
            "they are observed at the time of their row of %s",
            (unsigned long long)task->row_timed, (unsigned long long)task->seed_count, schema->name, column,
            anchor);
    uint64_t count = column || is_timed ? count_timeless(tasks, number, counts) : 0;
    if (count == 0)
        return;
    describe_splits(task, counts, splits, sizeof splits);
    if (column)
        weir_ingest__warn(context, "seeds_without_time", NULL, NULL, schema->name,
                          "%llu of %llu seeds of task %s (%s) have no observation time: column %s of the "
                          "query is null%s; %s",
                          (unsigned long long)count, (unsigned long long)task->seed_count, schema->name,
                          splits, column, is_timed ? ", and their row has no time" : "", advice);
    else
        weir_ingest__warn(
            context, "seeds_without_time", NULL, NULL, schema->name,
            "%llu of %llu seeds of task %s (%s) have no observation time: their row of %s has none; %s",
            (unsigned long long)count, (unsigned long long)task->seed_count, schema->name, splits, anchor,
            advice);
}

weir_status weir_ingest__warn_of_times(weir_ingest__context *context, const weir_ingest__tasks *tasks,
                                       const weir_ingest__statistics *statistics, weir_error *error) {
    const weir_ingest__plan *plan = tasks->plan;
    int64_t median = 0;
    bool has_median = median_time(tasks, &median);
    for (uint32_t t = 0; t < plan->table_count; t++)
        if (tasks->ordered->tables[t].row_count > 0 && !has_time(&plan->tables[t]))
            WEIR__TRY(warn_of_table(context, tasks, t, has_median ? &median : NULL, error));
    for (uint32_t t = 0; t < plan->table_count; t++) {
        const weir_ingest__table *table = &tasks->ordered->tables[t];
        uint64_t without = 0;
        if (!has_time(table->plan))
            continue;
        for (uint32_t r = 0; r < table->row_count; r++)
            without += weir_ingest__row_time(tasks->linked, t, r) == WEIR_TIME_ALWAYS ? 1 : 0;
        if (without > 0)
            weir_ingest__warn(context, "rows_without_time", table->plan->name, NULL, NULL,
                              "%llu of %u rows of %s have no time (%s), so every seed sees them",
                              (unsigned long long)without, table->row_count, table->plan->name,
                              table->plan->temporal.time == WEIR_NONE ? "it is null"
                                                                      : "no row on the way, or null there");
    }
    for (uint32_t i = 0; i < plan->task_count; i++) {
        const weir_ingest__task *task = &tasks->list[i];
        const weir_ingest__schema_task *schema = task->plan->schema;
        if (task->early > 0 && schema->before_anchor == WEIR_BEFORE_ANCHOR_KEEP)
            weir_ingest__warn(
                context, "seeds_before_anchor", NULL, NULL, schema->name,
                "%llu of %llu seeds of task %s are observed before their row of %s exists, and see nothing "
                "of it; say \"before_anchor\": \"show_known\" (its columns are known from their known_at on) "
                "or \"move\" (observe it when it exists)",
                (unsigned long long)task->early, (unsigned long long)task->seed_count, schema->name,
                schema->anchor_table);
        warn_of_seeds(context, tasks, i);
    }
    if (!weir_ingest__like_is_open(plan->like) && !statistics->has_until)
        warn_of_statistics(context, tasks);
    return WEIR_OK;
}
