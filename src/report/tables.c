/* Tables of a report: the range of their rows' times, rows without parents, and which of them a task can
 * reach. */
#include <stdlib.h>

#include "report/report.h"

enum { TIMES_MAX = 65536 };

static int compare_times(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* All times for the ends, every n-th for the hundredths. */
static void look_at_times(const weir_report__work *work, const weir_table *table, int64_t *sample,
                          weir_report_table *out) {
    uint32_t step = table->row_count / TIMES_MAX + 1, count = 0;
    for (uint32_t r = 0; r < table->row_count && table->time_offset != WEIR_NONE; r++) {
        int64_t time = weir_store_row_time(work->store, table->row_start + r);
        weir_report__pass(work, r, WEIR_REPORT__ROWS_KEPT);
        if (time == WEIR_TIME_ALWAYS)
            continue;
        if (out->timed == 0 || time < out->first)
            out->first = time;
        if (out->timed == 0 || time > out->last)
            out->last = time;
        if (out->timed++ % step == 0 && count < TIMES_MAX)
            sample[count++] = time;
    }
    if (count == 0)
        return;
    qsort(sample, count, sizeof *sample, compare_times);
    out->early = sample[count / 100];
    out->late = sample[count - 1 - count / 100];
}

static void look_at_parents(const weir_report__work *work, const weir_table *table, weir_report_table *out) {
    for (uint32_t e = 0; e < table->edge_count; e++)
        out->dangling += work->info->edges[table->edge_start + e].dangling;
    for (uint32_t r = 0; r < table->row_count && table->edge_count > 0; r++) {
        bool has_parent = false;
        weir_report__pass(work, r, WEIR_REPORT__ROWS_KEPT);
        for (uint32_t e = 0; e < table->edge_count && !has_parent; e++)
            has_parent =
                weir_store_parent(work->store, table->row_start + r, table->edge_start + e) != WEIR_NO_ROW;
        out->unlinked += has_parent ? 0 : 1;
    }
}

/* Marks the tables that foreign keys lead to from a task's anchor, in either direction. */
static void mark_reached(const weir_report__work *work, const weir_task *task) {
    weir_report_table *tables = work->report->tables;
    bool changes = true;
    bool *is_near = weir__arena_take_zero(&work->report->arena, work->info->table_count, sizeof *is_near);
    if (!is_near)
        return;
    is_near[task->anchor_table] = true;
    while (changes) {
        changes = false;
        for (uint32_t e = 0; e < work->info->edge_count; e++) {
            const weir_edge *edge = &work->info->edges[e];
            if (task->edge_hidden[e] || edge->edges == 0 ||
                is_near[edge->table] == is_near[edge->parent_table])
                continue;
            is_near[edge->table] = is_near[edge->parent_table] = changes = true;
        }
    }
    for (uint32_t t = 0; t < work->info->table_count; t++)
        tables[t].is_reached = tables[t].is_reached || is_near[t];
}

static double share(uint64_t part, uint64_t whole) {
    return whole ? (double)part / (double)whole : 0;
}

/* How far a table is from what one expects: rows without parents, without times, times far from the others.
 */
static double oddness(const weir_report__work *work, const weir_report_table *table) {
    const weir_table *of = &work->info->tables[table->table];
    double odd = share(table->unlinked, of->row_count) + share(table->dangling, of->row_count);
    if (of->time_offset != WEIR_NONE)
        odd += share(of->row_count - table->timed, of->row_count);
    odd += weir_report__has_far_times(table) ? 1 : 0;
    return odd + (table->is_reached || work->info->task_count == 0 ? 0 : 0.5);
}

weir_status weir_report__tables(weir_report__work *work) {
    weir_report *report = work->report;
    const weir_store_info *info = work->info;
    int64_t *sample = weir__allocate(report->env, TIMES_MAX, sizeof *sample);
    if (!sample)
        return weir_report__no_memory(work, TIMES_MAX * sizeof *sample);
    for (uint32_t t = 0; t < info->table_count; t++) {
        weir_report_table *out = &report->tables[t];
        out->table = t;
        look_at_times(work, &info->tables[t], sample, out);
        look_at_parents(work, &info->tables[t], out);
        if (out->timed > 0 && (!work->has_times || out->first < report->view.first))
            report->view.first = out->first;
        if (out->timed > 0 && (!work->has_times || out->last > report->view.last))
            report->view.last = out->last;
        work->has_times = work->has_times || out->timed > 0;
    }
    for (uint32_t i = 0; i < info->task_count; i++)
        mark_reached(work, &info->tasks[i]);
    for (uint32_t t = 1; t < info->table_count; t++) { /* what is odd first, else in order */
        weir_report_table table = report->tables[t];
        double odd = oddness(work, &table);
        uint32_t place = t;
        for (; place > 0 && oddness(work, &report->tables[place - 1]) < odd; place--)
            report->tables[place] = report->tables[place - 1];
        report->tables[place] = table;
    }
    weir__release(report->env, sample);
    return WEIR_OK;
}
