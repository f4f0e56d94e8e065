/* Labels by the time at which they are known: for every task that says it, two lists of its seeds (of all
 * splits, and of train) by (anchor row, that time, number), so that what is known of a row by now is the
 * first part of its list. Docs: docs/spec/05c-task-rows-and-retrieval.md. */
#include "ingest/encode.h"

/* ---- Making the lists -------------------------------------------------------------------------- */

static int compare_known(const void *context, uint64_t a, uint64_t b) {
    const int64_t *known = context;
    return (known[a] > known[b]) - (known[a] < known[b]);
}

/* Those of the `count` seeds of `sorted` that are below `end`, as a list. */
static bool make_list(uint32_t anchor_rows, weir_ingest__task *task, const weir_ingest__sort_item *sorted,
                      uint32_t count, uint64_t end, weir_ingest__label_list *list) {
    list->times = weir__arena_take(&task->memory, count * sizeof *list->times);
    list->rows = weir__arena_take(&task->memory, count * sizeof *list->rows);
    list->starts = weir__arena_take_zero(&task->memory, (size_t)anchor_rows + 1, sizeof *list->starts);
    if (!list->times || !list->rows || !list->starts)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t seed = sorted[i].index;
        if (seed >= end)
            continue;
        list->times[list->count] = task->known[seed];
        list->rows[list->count++] = WEIR__NARROW(uint32_t, seed);
        list->starts[(size_t)task->rows[seed] + 1]++;
    }
    for (uint32_t r = 0; r < anchor_rows; r++)
        list->starts[r + 1] += list->starts[r];
    return true;
}

weir_status weir_ingest__make_label_lists(uint32_t anchor_rows, weir_ingest__task *task, weir_error *error) {
    const weir_env *env = task->memory.env;
    uint32_t count = 0;
    if (task->seed_count > WEIR_STORE__ROWS_MAX)
        return weir__fail(
            error, WEIR_TASK_INVALID, WEIR_INGEST__OPERATOR,
            "task %s: it has more than 2^32 - 2 seeds, which cannot be rows of their own; leave "
            "out horizon and label_known_column",
            task->plan->schema->name);
    weir_ingest__sort_item *items = weir__allocate(env, (size_t)task->seed_count + 1, sizeof *items);
    for (uint64_t i = 0; i < task->seed_count && items; i++)
        if (task->known[i] != WEIR_TIME_NEVER)
            items[count++] = (weir_ingest__sort_item){task->rows[i], i};
    bool is_fine =
        items && weir_ingest__sort(env, items, count, compare_known, task->known) &&
        make_list(anchor_rows, task, items, count, task->seed_count, &task->labels[0]) &&
        make_list(anchor_rows, task, items, count, task->split_start[WEIR_TRAIN + 1], &task->labels[1]);
    weir__release(env, items);
    return is_fine ? WEIR_OK : weir_ingest__no_memory(error, task->seed_count * sizeof *items);
}

/* ---- Writing them ------------------------------------------------------------------------------ */

void weir_ingest__write_labels(const weir_ingest__encoder *e) {
    weir_store__writer *w = e->writer;
    for (uint32_t t = 0; t < e->plan->task_count; t++) {
        const weir_ingest__task *task = &e->tasks->list[t];
        uint32_t anchors = e->ordered->tables[task->plan->anchor_table].row_count;
        for (int i = 0; i < WEIR_STORE__LABEL_LISTS && task->known; i++) {
            const weir_ingest__label_list *list = &task->labels[i];
            weir_store__writer_begin(w, WEIR_STORE__SECTION_LABELS);
            weir_store__writer_align(w, WEIR_STORE__LABEL_ALIGNMENT);
            weir_store__writer_put_longs(w, list->times, list->count);
            weir_store__writer_put_words(w, list->starts, (size_t)anchors + 1);
            weir_store__writer_put_rows(w, list->rows, list->count, e->description->info.first_task_number);
        }
    }
}
