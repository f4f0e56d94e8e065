/* Labels of a task, by split and over time, and seeds that contradict each other. */
#include <math.h>

#include "report/report.h"

typedef struct label_counts {
    uint64_t *classes; /* by split, then class */
    uint32_t class_count;
    double sum[WEIR_SPLITS], squares[WEIR_SPLITS];
    double bin_sums[WEIR_REPORT_BINS];
    uint64_t bin_labels[WEIR_REPORT_BINS];
} label_counts;

static bool is_moment(int64_t time) {
    return time != INT64_MAX && time != WEIR_TIME_ALWAYS;
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* The next seed that can be read, from number *i on; false at the end. */
static bool next_seed(const weir_report__work *work, uint32_t number, uint64_t *i, weir_seed_row *out) {
    while (*i < work->info->tasks[number].seed_count) {
        weir_report__pass(work, *i, WEIR_REPORT__ROWS_KEPT);
        if (weir_store_seed(work->store, number, (*i)++, out))
            return true;
    }
    return false;
}

/* The range of times, and seeds that contradict the one before: within a split, they lie by row and time. */
static void look_at_seeds(const weir_report__work *work, uint32_t number, weir_report_task *out) {
    bool is_first = true, is_cell = work->info->tasks[number].is_cell;
    weir_seed_row seed, before = {.row = WEIR_NO_ROW};
    for (uint64_t i = 0; next_seed(work, number, &i, &seed); before = seed) {
        bool is_twin = seed.row == before.row && seed.observation_time == before.observation_time &&
                       seed.split == before.split;
        const weir_cell *a = &seed.target, *b = &before.target;
        bool is_same = a->is_null == b->is_null && a->integer == b->integer && a->number == b->number;
        out->conflicts += !is_cell && is_twin && !is_same;
        if (!is_moment(seed.observation_time)) {
            out->see_everything++;
            continue;
        }
        out->before_data += work->has_times && seed.observation_time < work->report->view.first ? 1 : 0;
        if (is_first || seed.observation_time < out->first)
            out->first = seed.observation_time;
        if (is_first || seed.observation_time > out->last)
            out->last = seed.observation_time;
        is_first = false;
    }
    if (is_first || out->last == out->first)
        return;
    out->bin_count = WEIR_REPORT_BINS;
    double width = ((double)out->last - (double)out->first) / WEIR_REPORT_BINS;
    for (int b = 0; b < WEIR_REPORT_BINS; b++)
        out->bins[b].from = out->first + (int64_t)(width * b);
}

static uint32_t bin_of(const weir_report_task *task, int64_t time) {
    double place = ((double)time - (double)task->first) / ((double)task->last - (double)task->first);
    uint32_t bin = (uint32_t)(place * WEIR_REPORT_BINS);
    return bin < WEIR_REPORT_BINS ? bin : WEIR_REPORT_BINS - 1;
}

/* ---- Counts ---------------------------------------------------------------------------------- */

static void count_seed(const weir_report__work *work, const weir_task *task, const weir_seed_row *seed,
                       label_counts *counts, weir_report_task *out) {
    weir_report_labels *labels = &out->splits[seed->split];
    double label;
    bool has_bin = out->bin_count > 0 && is_moment(seed->observation_time);
    uint32_t bin = has_bin ? bin_of(out, seed->observation_time) : 0;
    labels->seeds++;
    if (has_bin)
        out->bins[bin].seeds[seed->split]++;
    if (!weir_report__label(work, task, &seed->target, &label)) {
        labels->nulls++;
        return;
    }
    bool is_first = labels->seeds - labels->nulls == 1;
    if (is_first || label < labels->least)
        labels->least = label;
    if (is_first || label > labels->most)
        labels->most = label;
    counts->sum[seed->split] += label;
    counts->squares[seed->split] += label * label;
    if (counts->classes && label >= 0 && label < counts->class_count)
        counts->classes[(size_t)seed->split * counts->class_count + (size_t)label]++;
    if (has_bin && weir_value_of(task->stype) != WEIR_VALUE_CATEGORY) {
        counts->bin_sums[bin] += label;
        counts->bin_labels[bin]++;
    }
}

/* The largest classes over all splits, largest first. */
static void find_classes(const weir_report__work *work, const weir_task *task, const label_counts *counts,
                         weir_report_task *out) {
    uint32_t start = weir_value_of(task->stype) == WEIR_VALUE_CATEGORY
                         ? work->info->columns[task->column].category_start
                         : 0;
    uint64_t totals[WEIR_REPORT_CLASSES] = {0};
    for (uint32_t k = 0; k < counts->class_count; k++) {
        weir_report_class class = {.category = start + k};
        uint64_t total = 0;
        for (int split = 0; split < WEIR_SPLITS; split++) {
            class.seeds[split] = counts->classes[(size_t)split * counts->class_count + k];
            total += class.seeds[split];
            out->splits[split].classes += class.seeds[split] > 0 ? 1 : 0;
        }
        uint32_t place = out->class_count;
        if (total == 0 || (place == WEIR_REPORT_CLASSES && total <= totals[place - 1]))
            continue;
        place -= place == WEIR_REPORT_CLASSES ? 1 : 0;
        for (; place > 0 && totals[place - 1] < total; place--) {
            totals[place] = totals[place - 1];
            out->classes[place] = out->classes[place - 1];
        }
        totals[place] = total;
        out->classes[place] = class;
        out->class_count += out->class_count < WEIR_REPORT_CLASSES ? 1 : 0;
    }
}

/* A categorical target's largest class, over time. */
static void count_largest_class(const weir_report__work *work, uint32_t number, weir_report_task *out) {
    const weir_task *task = &work->info->tasks[number];
    uint64_t labels[WEIR_REPORT_BINS] = {0}, largest[WEIR_REPORT_BINS] = {0};
    weir_seed_row seed;
    if (weir_value_of(task->stype) != WEIR_VALUE_CATEGORY || out->class_count == 0 || out->bin_count == 0)
        return;
    for (uint64_t i = 0; next_seed(work, number, &i, &seed);) {
        if (!is_moment(seed.observation_time) || seed.target.is_null)
            continue;
        uint32_t bin = bin_of(out, seed.observation_time);
        labels[bin]++;
        largest[bin] += seed.target.integer == out->classes[0].category ? 1 : 0;
    }
    for (uint32_t b = 0; b < out->bin_count; b++)
        out->bins[b].mean = labels[b] ? (double)largest[b] / (double)labels[b] : NAN;
}

weir_status weir_report__add_labels(weir_report__work *work, uint32_t number) {
    const weir_task *task = &work->info->tasks[number];
    weir_report_task *out = &work->report->tasks[number];
    label_counts counts = {0};
    weir_seed_row seed;
    look_at_seeds(work, number, out);
    if (weir_report__has_classes(task->stype)) {
        counts.class_count = weir_value_of(task->stype) == WEIR_VALUE_TRUTH
                                 ? 2
                                 : work->info->columns[task->column].category_count;
        counts.classes = weir__allocate_zero(work->report->env, (size_t)counts.class_count * WEIR_SPLITS,
                                             sizeof *counts.classes);
        if (!counts.classes)
            return weir_report__no_memory(work, counts.class_count * sizeof *counts.classes);
    }
    for (uint64_t i = 0; next_seed(work, number, &i, &seed);)
        count_seed(work, task, &seed, &counts, out);
    if (counts.classes)
        find_classes(work, task, &counts, out);
    for (int split = 0; split < WEIR_SPLITS; split++) {
        weir_report_labels *labels = &out->splits[split];
        double n = (double)(labels->seeds - labels->nulls);
        labels->mean = n > 0 ? counts.sum[split] / n : 0;
        double variance = n > 0 ? counts.squares[split] / n - labels->mean * labels->mean : 0;
        labels->std = variance > 0 ? sqrt(variance) : 0;
        if (weir_value_of(task->stype) == WEIR_VALUE_CATEGORY)
            labels->mean = out->class_count > 0 && n > 0 ? (double)out->classes[0].seeds[split] / n : 0;
    }
    for (uint32_t b = 0; b < out->bin_count; b++)
        out->bins[b].mean = counts.bin_labels[b] ? counts.bin_sums[b] / (double)counts.bin_labels[b] : NAN;
    count_largest_class(work, number, out);
    weir__release(work->report->env, counts.classes);
    return WEIR_OK;
}
