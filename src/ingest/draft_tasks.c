/* Tasks of a draft: a few columns that can be learned, of the tables where things happen
 * (docs/spec/04-draft.md, 6). */
#include <stdlib.h>
#include <string.h>

#include "ingest/draft.h"

enum { LEAST_ROWS = 20, TASKS_PER_TABLE = 2, LEAST_TIMES = 10 };

#define DAY INT64_C(86400000000)

static bool can_be_task(const weir_ingest__draft_table *table, const weir_ingest__draft_column *column) {
    bool is_few_nulls = 2 * (table->row_count - column->values) <= table->row_count;
    bool has_two = column->sample.level > 0 || column->sample.count >= 2;
    if (column->is_key || !is_few_nulls || !has_two ||
        weir_ingest__word_is_in(WEIR_INGEST__MEASURELESS_WORDS, weir_ingest__words_last(&column->words)))
        return false;
    if (column->stype != WEIR_NUMERICAL)
        return true;
    bool is_integral = weir_ingest__draft_is_integral(column);
    bool is_row_number = is_integral && column->sample.level == 0 && column->sample.count == column->values;
    /* Beyond the sample, values that are all different are all there are once each. */
    if (is_integral && column->sample.level > 0) {
        is_row_number = true;
        for (size_t i = 0; i < column->sample.slot_count && is_row_number; i++)
            is_row_number = column->sample.slots[i].rows <= 1;
    }
    return !is_row_number;
}

/* ---- Splits ---------------------------------------------------------------------------------- */

static int compare_sampled(const void *a, const void *b) {
    const weir_ingest__sampled *x = a, *y = b;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* The times after which the last two tenths and the last tenth of the rows lie. */
static void find_split(weir_ingest__draft_table *table, weir_ingest__draft_task *task) {
    const weir_ingest__sampled *list = table->times.slots;
    uint64_t rows = 0, seen = 0;
    uint32_t count = table->times.count;
    if (count < LEAST_TIMES)
        return;
    weir_ingest__sample_sort(&table->times, compare_sampled);
    for (uint32_t i = 0; i < count; i++)
        rows += list[i].rows;
    int64_t cuts[2] = {0};
    int found = 0;
    for (uint32_t i = 0; i < count && found < 2; i++) {
        seen += list[i].rows;
        while (found < 2 && seen * 10 >= rows * (uint64_t)(8 + found))
            cuts[found++] = list[i].value + 1;
    }
    bool is_long = list[count - 1].value - list[0].value >= 30 * DAY;
    for (int i = 0; i < 2 && is_long; i++) {
        int64_t rest = cuts[i] % DAY;
        cuts[i] += rest > 0 ? DAY - rest : -rest;
    }
    task->val = cuts[0];
    task->test = cuts[1];
    task->has_split = task->val < task->test;
}

/* ---- Columns that give the target away ------------------------------------------------------- */

enum { PAIRS_MAX = 65536 };

/* The pairs of one column's values and the target's: each pair's hash, its rows, and the hash of the column's
 * value. */
typedef struct pair_view {
    const weir_ingest__draft_table *table;
    const uint32_t *columns; /* the target, then the others */
    uint32_t count;
    weir_ingest__sample *pairs; /* one an other */
} pair_view;

static bool see_pairs(void *context, const weir_ingest__value *cells) {
    pair_view *view = context;
    if (weir_ingest__value_is_null(&cells[0]))
        return true;
    uint64_t target = weir_ingest__value_hash(&cells[0]);
    for (uint32_t i = 1; i < view->count; i++) {
        weir_ingest__sample *pairs = &view->pairs[i];
        if (weir_ingest__value_is_null(&cells[i]) || pairs->count > PAIRS_MAX)
            continue;
        uint64_t hashes[2] = {weir_ingest__value_hash(&cells[i]), target};
        if (weir_ingest__sample_has_room_for(view->table->columns[view->columns[i]].sample.level,
                                             hashes[0]) &&
            !weir_ingest__sample_add(pairs, weir_ingest__hash_together(hashes, 2), 1, (int64_t)hashes[0]))
            return false;
    }
    return true;
}

static int by_value_then_rows(const void *a, const void *b) {
    const weir_ingest__sampled *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return x->rows > y->rows ? -1 : x->rows < y->rows;
}

static bool gives_away(weir_ingest__sample *pairs) {
    const weir_ingest__sampled *list = pairs->slots;
    uint64_t rows = 0, right = 0, values = 0;
    if (pairs->count == 0 || pairs->count > PAIRS_MAX)
        return false;
    weir_ingest__sample_sort(pairs, by_value_then_rows);
    for (uint32_t i = 0; i < pairs->count; i++) {
        bool is_first = i == 0 || list[i].value != list[i - 1].value;
        rows += list[i].rows;
        right += is_first ? list[i].rows : 0;
        values += is_first ? 1 : 0;
    }
    return rows >= 5 * values && right * 100 >= rows * 99;
}

static weir_status find_dropped(weir_ingest__draft *draft, weir_ingest__draft_task *task, weir_error *error) {
    const weir_ingest__draft_table *table = &draft->tables[task->table];
    weir_status status = WEIR_OK;
    uint32_t *columns = weir__arena_take_zero(&draft->arena, table->column_count + 1, sizeof *columns);
    pair_view view = {.table = table,
                      .columns = columns,
                      .pairs = weir__allocate_zero(draft->env, table->column_count + 1, sizeof *view.pairs)};
    task->dropped = weir__arena_take_zero(&draft->arena, table->column_count, sizeof *task->dropped);
    if (!columns || !view.pairs || !task->dropped) {
        weir__release(draft->env, view.pairs);
        return weir_ingest__no_memory(error, table->column_count * sizeof *view.pairs);
    }
    columns[view.count++] = task->column;
    const weir_ingest__sample *target = &table->columns[task->column].sample;
    uint64_t rows = 0, most = 0;
    for (size_t i = 0; i < target->slot_count; i++) {
        rows += target->slots[i].rows;
        most = target->slots[i].rows > most ? target->slots[i].rows : most;
    }
    bool is_nearly_constant = most * 100 > rows * 95;
    for (uint32_t c = 0; c < table->column_count && !is_nearly_constant; c++)
        if (c != task->column && !table->columns[c].is_key && table->columns[c].stype != WEIR_IGNORED) {
            weir_ingest__sample_init(&view.pairs[view.count], draft->env);
            view.pairs[view.count].limit = UINT32_MAX;
            columns[view.count++] = c;
        }
    if (view.count > 1)
        status = weir_ingest__draft_scan(draft, table, columns, view.count, see_pairs, &view, error);
    for (uint32_t i = 1; i < view.count; i++) {
        if (status == WEIR_OK && gives_away(&view.pairs[i])) {
            task->dropped[task->dropped_count++] = columns[i];
            weir_ingest__draft_reason(draft, task->table, columns[i], "task", true, "dropped",
                                      "it gives %s away: each of its values stands beside one value of it",
                                      table->columns[task->column].name);
        }
        weir_ingest__sample_release(&view.pairs[i]);
    }
    weir__release(draft->env, view.pairs);
    return status;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static bool comes_before(const weir_ingest__draft *draft, uint32_t a, uint32_t b) {
    const weir_ingest__draft_table *x = &draft->tables[a], *y = &draft->tables[b];
    if (weir_ingest__draft_has_time(x) != weir_ingest__draft_has_time(y))
        return weir_ingest__draft_has_time(x);
    if (x->row_count != y->row_count)
        return x->row_count > y->row_count;
    return a < b;
}

/* Whether one of the first `count` tasks drops this one's target. */
static bool is_dropped(const weir_ingest__draft *draft, uint32_t count, const weir_ingest__draft_task *task) {
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t d = 0; d < draft->tasks[i].dropped_count; d++)
            if (draft->tasks[i].table == task->table && draft->tasks[i].dropped[d] == task->column)
                return true;
    return false;
}

static void add_tasks(weir_ingest__draft *draft, uint32_t t) {
    static const weir_stype order[] = {WEIR_BOOLEAN, WEIR_CATEGORICAL, WEIR_NUMERICAL};
    weir_ingest__draft_table *table = &draft->tables[t];
    int added = 0;
    for (int i = 0; i < 3; i++)
        for (uint32_t c = 0; c < table->column_count; c++) {
            bool is_full = added == TASKS_PER_TABLE || draft->task_count == WEIR_INGEST__DRAFT_TASKS_MAX;
            if (is_full || table->columns[c].stype != order[i] || !can_be_task(table, &table->columns[c]))
                continue;
            weir_ingest__draft_task *task = &draft->tasks[draft->task_count++];
            *task = (weir_ingest__draft_task){.table = t, .column = c};
            find_split(table, task);
            added++;
        }
}

/* The one task that the caller asks for. */
static weir_status add_wanted(weir_ingest__draft *draft, weir_error *error) {
    const weir_ingest_options *options = draft->context->options;
    const char *table_name = options->target_table ? options->target_table : "";
    for (uint32_t t = 0; t < draft->table_count; t++)
        for (uint32_t c = 0; c < draft->tables[t].column_count; c++) {
            const weir_ingest__draft_column *column = &draft->tables[t].columns[c];
            if (strcmp(draft->tables[t].name, table_name) != 0 ||
                strcmp(column->name, options->target_column) != 0)
                continue;
            bool can_be = weir_store__stype_can_be_target(column->stype);
            if (!can_be || column->is_key || c == draft->tables[t].time)
                return weir__fail(error, WEIR_TASK_INVALID, WEIR_INGEST__SCHEMA_OPERATOR,
                                  "%s.%s cannot be predicted: it is %s%s%s", table_name, column->name,
                                  c == draft->tables[t].time ? "the time of the row"
                                  : column->is_key           ? "a key"
                                                             : weir_stype_name(column->stype),
                                  can_be ? "" : "; a target is one of ", can_be ? "" : weir_store__targets);
            draft->tasks[0] = (weir_ingest__draft_task){.table = t, .column = c};
            draft->task_count = 1;
            find_split(&draft->tables[t], &draft->tasks[0]);
            return find_dropped(draft, &draft->tasks[0], error);
        }
    return weir__fail(error, WEIR_TASK_INVALID, WEIR_INGEST__SCHEMA_OPERATOR,
                      "the source has no column %s.%s to predict", table_name, options->target_column);
}

weir_status weir_ingest__draft_tasks(weir_ingest__draft *draft, weir_error *error) {
    uint32_t *order = weir__arena_take(&draft->arena, draft->table_count * sizeof *order);
    if (draft->context->options->target_column)
        return add_wanted(draft, error);
    if (!order)
        return weir_ingest__no_memory(error, draft->table_count * sizeof *order);
    for (uint32_t t = 0; t < draft->table_count; t++) {
        uint32_t place = t;
        for (; place > 0 && comes_before(draft, t, order[place - 1]); place--)
            order[place] = order[place - 1];
        order[place] = t;
    }
    /* Those with a time and parents; all with a time; the others. */
    for (int group = 0; group < 3 && draft->task_count == 0; group++)
        for (uint32_t i = 0; i < draft->table_count; i++) {
            const weir_ingest__draft_table *table = &draft->tables[order[i]];
            bool belongs =
                weir_ingest__draft_has_time(table) == (group < 2) && (group > 0 || table->key_count > 0);
            if (table->row_count >= LEAST_ROWS && belongs)
                add_tasks(draft, order[i]);
        }
    /* Finds what gives each target away. Of two targets of a table that stand for each other, the first is
     * enough. */
    uint32_t kept = 0;
    weir_status status = WEIR_OK;
    for (uint32_t i = 0; i < draft->task_count && status == WEIR_OK; i++) {
        weir_ingest__draft_task task = draft->tasks[i];
        if (is_dropped(draft, kept, &task))
            continue;
        weir_ingest__draft_reason(
            draft, task.table, task.column, "task", true, "cell task",
            "an example of what may be predicted: each row is a seed at its own time; check that "
            "no other column of the row gives the answer away");
        status = find_dropped(draft, &task, error);
        draft->tasks[kept++] = task;
    }
    draft->task_count = kept;
    if (draft->task_count == 0)
        weir_ingest__draft_reason(
            draft, WEIR_NONE, WEIR_NONE, "task", true, "none",
            "no column of a table with 20 rows or more looks like something to predict; write a task "
            "yourself, or run weir init");
    return status;
}
