/* What looks like a mistake, by name. Each warning says what was seen and what to do about it. */
#include <inttypes.h>
#include <string.h>

#include "report/report.h"
#include "weir_tool/store_tools.h"

typedef struct subject {
    const char *table;
    const char *column;
    const char *task;
} subject;

static const char *keep(weir_report *report, const char *text) {
    return text ? weir__arena_text(&report->arena, text, strlen(text)) : NULL;
}

static void warn(weir_report__work *work, const char *code, subject about, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void warn(weir_report__work *work, const char *code, subject about, const char *format, ...) {
    weir_report *report = work->report;
    char message[1024];
    WEIR__FORMAT(message, format);
    weir_warning *warning =
        weir__arena_append(&report->arena, &report->warnings, &report->warning_count, sizeof *warning);
    if (warning)
        *warning = (weir_warning){.code = code,
                                  .table = keep(report, about.table),
                                  .column = keep(report, about.column),
                                  .task = keep(report, about.task),
                                  .message = keep(report, message)};
}

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void warn_of_table(weir_report__work *work, const weir_report_table *table) {
    const weir_table *of = &work->info->tables[table->table];
    subject about = {.table = of->name};
    char first[40], last[40], early[40], late[40];
    if (of->row_count == 0)
        return;
    for (uint32_t e = of->edge_start; e < of->edge_start + of->edge_count; e++) {
        const weir_edge *edge = &work->info->edges[e];
        double dangling = percent(edge->dangling, of->row_count);
        if (dangling > 20)
            warn(work, "orphans", (subject){.table = of->name, .column = edge->name},
                 "%s.%s matches no row of %s in %.0f %% of the rows (%" PRIu64
                 "): is it the right key, and of the same type?",
                 of->name, edge->name, work->info->tables[edge->parent_table].name, dangling, edge->dangling);
    }
    if (weir_report__has_far_times(table)) {
        weir_timestamp_format(table->first, first);
        weir_timestamp_format(table->last, last);
        weir_timestamp_format(table->early, early);
        weir_timestamp_format(table->late, late);
        warn(work, "far_times", about,
             "rows of %s are of %s to %s, but nearly all lie between %s and %s: are the others stand-ins for "
             "unknown times?",
             of->name, first, last, early, late);
    }
    if (!table->is_reached && work->info->task_count > 0)
        warn(work, "unreachable_table", about,
             "no task can reach %s (%u rows): no foreign key that a task shows leads to or from it; remove "
             "it from the schema, or add a foreign key",
             of->name, of->row_count);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static uint64_t labels_of(const weir_report_labels *labels) {
    return labels->seeds - labels->nulls;
}

static bool is_constant(const weir_report_task *task, uint64_t *count) {
    bool is_first = true, is_same = true;
    double value = 0;
    *count = 0;
    for (int split = 0; split < WEIR_SPLITS; split++) {
        const weir_report_labels *labels = &task->splits[split];
        if (labels_of(labels) == 0)
            continue;
        *count += labels_of(labels);
        is_same = is_same && labels->least == labels->most && (is_first || labels->least == value);
        value = labels->least;
        is_first = false;
    }
    return !is_first && is_same;
}

/* is_told: that the labels of all splits are the same, or null. */
static void warn_of_splits(weir_report__work *work, const weir_task *of, const weir_report_task *task,
                           bool is_told, subject about) {
    for (int split = 0; split < WEIR_SPLITS; split++) {
        const weir_report_labels *labels = &task->splits[split];
        const char *name = weir_split_name((weir_split)split);
        if (labels->seeds == 0)
            warn(work, "empty_split", about,
                 "the %s split of task %s is empty; move the boundaries of the split, or choose another "
                 "method",
                 name, of->name);
        else if (!is_told && weir_report__has_classes(of->stype) && labels->classes < 2 && !of->link.is_link)
            warn(work, "one_class_split", about,
                 "all %" PRIu64
                 " labels of the %s split of task %s are the same: nothing can be learned or measured "
                 "there",
                 labels_of(labels), name, of->name);
    }
}

static void warn_of_labels(weir_report__work *work, const weir_task *of, const weir_report_task *task,
                           subject about) {
    uint64_t nulls = 0, labels = 0;
    for (int split = 0; split < WEIR_SPLITS; split++)
        nulls += task->splits[split].nulls;
    bool has_none = nulls == of->seed_count;
    bool is_same = !has_none && !of->link.is_link && is_constant(task, &labels);
    if (has_none)
        warn(work, "no_labels", about, "all labels of task %s are null", of->name);
    if (is_same)
        warn(work, "constant_label", about, "all %" PRIu64 " labels of task %s are the same: check the query",
             labels, of->name);
    warn_of_splits(work, of, task, has_none || is_same, about);
}

/* Whether foreign keys that the task shows lead to or from its anchor table. */
static bool has_edges(const weir_report__work *work, const weir_task *task) {
    for (uint32_t e = 0; e < work->info->edge_count; e++) {
        const weir_edge *edge = &work->info->edges[e];
        bool is_near = edge->table == task->anchor_table || edge->parent_table == task->anchor_table;
        if (is_near && edge->edges > 0 && !task->edge_hidden[e])
            return true;
    }
    return false;
}

static void warn_of_task(weir_report__work *work, const weir_report_task *task) {
    const weir_task *of = &work->info->tasks[task->task];
    subject about = {.task = of->name};
    if (of->seed_count == 0) {
        warn(work, "no_seeds", about,
             of->dropped > 0 ? "none of the rows that the query of task %s gives has an anchor row"
                             : "the query of task %s gives no rows",
             of->name);
        return;
    }
    if (percent(of->dropped, of->dropped + of->seed_count) > 10)
        warn(work, "dropped_seeds", about,
             "%.0f %% of the rows of the query of task %s have no anchor row, and are left out",
             percent(of->dropped, of->dropped + of->seed_count), of->name);
    warn_of_labels(work, of, task, about);
    if (percent(of->link.late, of->link.late + of->seed_count) > 10)
        warn(work, "late_destinations", about,
             "%.0f %% of the pairs of task %s are left out, because their destination came after the "
             "observation time: is the time of %s right?",
             percent(of->link.late, of->link.late + of->seed_count), of->name,
             work->info->tables[of->link.table].name);
    if (task->conflicts > 0)
        warn(
            work, "conflicting_seeds", about,
            "%" PRIu64
            " seeds of task %s stand for the same row and time as another one and have another label: should "
            "the query aggregate, or name an observation time?",
            task->conflicts, of->name);
    uint64_t timed = of->seed_count - task->see_everything;
    if (timed > 0 && task->before_data * 2 > timed) {
        char last[40], first[40];
        weir_timestamp_format(task->last, last);
        weir_timestamp_format(work->report->view.first, first);
        warn(
            work, "observation_before_data", about,
            "%.0f %% of the seeds of task %s are observed before any row with a time (the data begin %s, the "
            "last seed is of %s): their sequences are empty; is the year right, and the unit?",
            percent(task->before_data, timed), of->name, first, last);
    }
    if (task->sequences > 0 && task->rows < 2 && has_edges(work, of))
        warn(work, "lonely_seeds", about,
             "a typical sequence of task %s is one row, though foreign keys lead to and from %s: time hides "
             "%.0f %% of the children; is the time of its parents later than its own, or the observation too "
             "early?",
             of->name, work->info->tables[of->anchor_table].name, 100 * task->hidden);
    const char *anchor = work->info->tables[of->anchor_table].name;
    for (uint32_t i = 0; i < task->suspect_count; i++) {
        const char *name = weir_report__suspect_name(work->info, &task->suspects[i]);
        warn(work, "leak_suspect", (subject){.table = anchor, .column = name, .task = of->name},
             "%s.%s alone tells the target of task %s (AUC %.3f): if it is known only with or after the "
             "answer, give it known_at or list it in drop_columns",
             anchor, name, of->name, task->suspects[i].auc);
    }
}

void weir_report__warnings(weir_report__work *work) {
    const weir_store_info *info = work->info;
    uint64_t edges = 0;
    for (uint32_t e = 0; e < info->edge_count; e++)
        edges += info->edges[e].edges;
    if (edges == 0 && info->table_count > 1)
        warn(work, "no_edges", (subject){0},
             "no row leads to another one: %s; a sequence is one row, and a model sees nothing of the other "
             "tables",
             info->edge_count == 0 ? "the schema has no foreign keys" : "no foreign key matches anything");
    for (uint32_t i = 0; i < info->task_count; i++)
        warn_of_task(work, &work->report->tasks[i]);
    if (info->task_count == 0)
        warn(work, "no_tasks", (subject){0},
             "the store has no tasks, so there is nothing to train on; write one, or run "
             "weir init");
    for (uint32_t t = 0; t < info->table_count; t++)
        warn_of_table(work, &work->report->tables[t]);
}
