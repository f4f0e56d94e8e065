/* Columns that tell the target alone. For each column and foreign key of the anchor table that the task
 * shows, a tree over it alone (values in up to 64 runs, each with the mean label of one half of the seeds) is
 * judged on the other half, by the area under its ROC curve. The value of a foreign key is the row that it
 * leads to: what tells more than that row's columns do. Labels are true or false, above the median or not, or
 * one class against the rest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "weir_tool/store_tools.h"

enum { SEEDS_MAX = 20000, RUNS = 64, LEAST_OF_A_KIND = 10, CLASSES_TRIED = 4 };

#define SUSPICIOUS 0.98

typedef struct observation {
    double value; /* of the column; NaN: null or hidden */
    uint32_t seed;
} observation;

typedef struct judged {
    double score;
    uint8_t is_true;
} judged;

typedef struct leak_work {
    const weir_report__work *work;
    const weir_task *task;
    weir_seed_row *seeds;
    double *labels;
    uint8_t *is_true;
    observation *values;
    double *scores;
    judged *list;
    uint32_t count;
} leak_work;

/* ---- What a column shows --------------------------------------------------------------------- */

static bool is_known(const leak_work *w, const weir_seed_row *seed, uint32_t known_slot) {
    int64_t row_time = weir_store_row_time(w->work->store, seed->row);
    bool shows_early = w->task->before_anchor == WEIR_BEFORE_ANCHOR_SHOW_KNOWN;
    if (row_time > seed->observation_time && !shows_early)
        return false;
    if (known_slot == WEIR_NONE)
        return true;
    int64_t known = weir_store_time_at(w->work->store, seed->row, known_slot);
    return known != WEIR_TIME_ALWAYS && known <= seed->observation_time;
}

/* The value of a column of the seed's row, or else the row that a foreign key leads to; NaN if it is null or
 * hidden. */
static double value_of(const leak_work *w, const weir_seed_row *seed, uint32_t column, uint32_t edge) {
    const weir_store *store = w->work->store;
    const weir_store_info *info = w->work->info;
    weir_cell cell;
    if (column == WEIR_NONE) {
        uint64_t parent = weir_store_parent(store, seed->row, edge);
        bool is_shown = parent != WEIR_NO_ROW && is_known(w, seed, info->edges[edge].known_slot) &&
                        weir_store_row_time(store, parent) <= seed->observation_time;
        return is_shown ? (double)parent : NAN;
    }
    if (!is_known(w, seed, info->columns[column].known_slot) ||
        !weir_store_cell(store, seed->row, column, &cell) || cell.is_null)
        return NAN;
    return weir_value_of(info->columns[column].stype) == WEIR_VALUE_NUMBER ? (double)cell.number
                                                                           : (double)cell.integer;
}

static int compare_values(const void *a, const void *b) {
    const observation *x = a, *y = b;
    if (isnan(x->value) || isnan(y->value)) {
        if (isnan(x->value) != isnan(y->value))
            return isnan(x->value) ? -1 : 1;
    } else if (x->value != y->value) {
        return x->value < y->value ? -1 : 1;
    }
    return x->seed < y->seed ? -1 : x->seed > y->seed;
}

/* Cuts the sorted values into runs and gives the seeds of each the mean label of those of them that are of
 * the first half. Equal values are in one run, and nulls have one of their own. */
static void score_seeds(leak_work *w, bool has_order) {
    uint32_t truths = 0, start = 0, least = has_order ? w->count / RUNS : 1;
    for (uint32_t i = 0; i < w->count; i++)
        truths += w->is_true[i];
    double overall = (double)truths / w->count;
    for (uint32_t end = 1; end <= w->count; end++) {
        if (end < w->count) {
            double last = w->values[end - 1].value, next = w->values[end].value;
            bool is_equal = last == next || (isnan(last) && isnan(next));
            bool ends_nulls = isnan(last) && !isnan(next);
            if (is_equal || (!ends_nulls && has_order && end - start < least))
                continue;
        }
        uint32_t seen = 0, seen_true = 0;
        for (uint32_t i = start; i < end; i++)
            if (w->values[i].seed % 2 == 0) {
                seen++;
                seen_true += w->is_true[w->values[i].seed];
            }
        for (uint32_t i = start; i < end; i++)
            w->scores[w->values[i].seed] = (seen_true + overall) / (seen + 1.0);
        start = end;
    }
}

/* ---- The area -------------------------------------------------------------------------------- */

static int compare_judged(const void *a, const void *b) {
    const judged *x = a, *y = b;
    return x->score < y->score ? -1 : x->score > y->score;
}

/* Over the second half; NaN if a kind is too rare there. */
static double area(const leak_work *w) {
    judged *list = w->list;
    uint32_t count = 0, trues = 0;
    for (uint32_t i = 1; i < w->count; i += 2) {
        list[count++] = (judged){w->scores[i], w->is_true[i]};
        trues += w->is_true[i];
    }
    if (trues < LEAST_OF_A_KIND || count - trues < LEAST_OF_A_KIND)
        return NAN;
    qsort(list, count, sizeof *list, compare_judged);
    double ranks = 0;
    for (uint32_t i = 0; i < count;) {
        uint32_t end = i, tied = 0;
        while (end < count && list[end].score == list[i].score)
            tied += list[end++].is_true;
        ranks += tied * ((double)i + (double)end + 1) / 2;
        i = end;
    }
    double pairs = (double)trues * (count - trues);
    return (ranks - (double)trues * (trues + 1.0) / 2) / pairs;
}

/* ---- Questions ------------------------------------------------------------------------------- */

static int compare_numbers(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The mean area over the questions that a target asks, one, or one for each class, of a column or else an
 * edge. */
static double judge(leak_work *w, uint32_t column, uint32_t edge, const double *questions,
                    uint32_t question_count) {
    weir_stype stype = column == WEIR_NONE ? WEIR_IDENTIFIER : w->work->info->columns[column].stype;
    bool has_order = weir_report__has_order(stype);
    double sum = 0;
    uint32_t asked = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        weir_report__pass(w->work, i, WEIR_REPORT__SAMPLES_KEPT);
        w->values[i] = (observation){value_of(w, &w->seeds[i], column, edge), i};
    }
    qsort(w->values, w->count, sizeof *w->values, compare_values);
    for (uint32_t q = 0; q < question_count; q++) {
        for (uint32_t i = 0; i < w->count; i++)
            w->is_true[i] = weir_report__has_order(w->task->stype) ? w->labels[i] > questions[q]
                                                                   : w->labels[i] == questions[q];
        score_seeds(w, has_order);
        double found = area(w);
        if (isnan(found))
            continue;
        sum += found;
        asked++;
    }
    return asked ? sum / asked : 0;
}

static void keep_suspect(weir_report_task *out, uint32_t column, uint32_t edge, double auc) {
    uint32_t place = out->suspect_count;
    if (auc <= SUSPICIOUS)
        return;
    if (place == WEIR_REPORT_SUSPECTS) {
        if (auc <= out->suspects[place - 1].auc)
            return;
        place--;
    } else {
        out->suspect_count++;
    }
    for (; place > 0 && out->suspects[place - 1].auc < auc; place--)
        out->suspects[place] = out->suspects[place - 1];
    out->suspects[place] = (weir_report_suspect){column, edge, auc};
}

const char *weir_report__suspect_name(const weir_store_info *info, const weir_report_suspect *suspect) {
    return suspect->column != WEIR_NONE ? info->columns[suspect->column].name
                                        : info->edges[suspect->edge].name;
}

static void find_suspects(leak_work *w, weir_report_task *out) {
    const weir_table *anchor = &w->work->info->tables[w->task->anchor_table];
    double questions[CLASSES_TRIED] = {1};
    uint32_t count = 1;
    if (weir_report__has_order(w->task->stype)) {
        /* The middle of the labels, moved so that there are some above it. */
        double *sorted = w->scores;
        uint32_t i = w->count / 2;
        memcpy(sorted, w->labels, w->count * sizeof *sorted);
        qsort(sorted, w->count, sizeof *sorted, compare_numbers);
        while (i > 0 && sorted[i] == sorted[w->count - 1])
            i--;
        questions[0] = sorted[i];
    } else if (weir_value_of(w->task->stype) == WEIR_VALUE_CATEGORY) {
        uint32_t start = w->work->info->columns[w->task->column].category_start;
        count = out->class_count < CLASSES_TRIED ? out->class_count : CLASSES_TRIED;
        for (uint32_t i = 0; i < count; i++)
            questions[i] = (double)(out->classes[i].category - start);
    }
    for (uint32_t c = anchor->column_start; c < anchor->column_start + anchor->column_count; c++) {
        weir_stype stype = w->work->info->columns[c].stype;
        if (stype != WEIR_IDENTIFIER && weir_value_of(stype) != WEIR_VALUE_TEXT && c != w->task->column &&
            !w->task->column_dropped[c])
            keep_suspect(out, c, WEIR_NONE, judge(w, c, WEIR_NONE, questions, count));
    }
    for (uint32_t e = 0; e < w->work->info->edge_count; e++)
        if (w->work->info->edges[e].table == w->task->anchor_table && !w->task->edge_hidden[e])
            keep_suspect(out, WEIR_NONE, e, judge(w, WEIR_NONE, e, questions, count));
}

weir_status weir_report__leaks(weir_report__work *work, uint32_t number) {
    const weir_task *task = &work->info->tasks[number];
    size_t most = task->seed_count < SEEDS_MAX ? task->seed_count : SEEDS_MAX;
    weir__arena memory;
    weir__arena_init(&memory, work->report->env);
    leak_work w = {.work = work,
                   .task = task,
                   .seeds = weir__arena_take(&memory, (most + 1) * sizeof *w.seeds),
                   .labels = weir__arena_take(&memory, (most + 1) * sizeof *w.labels),
                   .is_true = weir__arena_take(&memory, (most + 1) * sizeof *w.is_true),
                   .values = weir__arena_take(&memory, (most + 1) * sizeof *w.values),
                   .scores = weir__arena_take(&memory, (most + 1) * sizeof *w.scores),
                   .list = weir__arena_take(&memory, (most + 1) * sizeof *w.list)};
    weir_status status = memory.is_short ? weir_report__no_memory(work, most * 64) : WEIR_OK;
    uint64_t step = task->seed_count / SEEDS_MAX + 1; /* every so many-th seed that has a label */
    for (uint64_t i = 0; i < task->seed_count && w.count < SEEDS_MAX && status == WEIR_OK; i += step) {
        weir_report__pass(work, i / step, WEIR_REPORT__SAMPLES_KEPT);
        if (weir_store_seed(work->store, number, i, &w.seeds[w.count]) &&
            weir_report__label(work, task, &w.seeds[w.count].target, &w.labels[w.count]))
            w.count++;
    }
    if (w.count > 2 * LEAST_OF_A_KIND)
        find_suspects(&w, &work->report->tasks[number]);
    weir__arena_release(&memory);
    return status;
}
