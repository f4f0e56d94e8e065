/* Statistics, exactly as the contract sums: f64, blocks of 4,096 rows, block sums in order. Columns are
 * independent, so that they may be summed on any thread; sums of several columns are added in order. */
#include <math.h>

#include "ingest/like.h"

enum { BLOCK_ROWS = 4096 };

/* Values that count, one at a time by row: doubles (NaN: none) or timestamps. */
typedef struct value_column {
    const double *numbers;
    const int64_t *times; /* where numbers is NULL */
    uint64_t count;
    const int64_t *row_times; /* NULL: no row is left out */
    int64_t until;
} value_column;

static bool value_at(const value_column *column, uint64_t row, double *out) {
    if (column->row_times && column->row_times[row] > column->until)
        return false;
    if (column->numbers) {
        *out = column->numbers[row];
        return !isnan(*out);
    }
    *out = (double)column->times[row];
    return column->times[row] != WEIR_TIME_ALWAYS;
}

typedef struct column_sums {
    double sum;
    double squares; /* of distances from the mean */
    uint64_t count;
    double first;
    bool are_equal; /* all values, to the first */
} column_sums;

static void sum_values(const value_column *column, column_sums *sums) {
    sums->sum = 0.0;
    sums->count = 0;
    sums->are_equal = true;
    for (uint64_t start = 0; start < column->count; start += BLOCK_ROWS) {
        uint64_t end = start + BLOCK_ROWS < column->count ? start + BLOCK_ROWS : column->count;
        double block = 0.0, value;
        for (uint64_t r = start; r < end; r++)
            if (value_at(column, r, &value)) {
                if (sums->count++ == 0)
                    sums->first = value;
                sums->are_equal = sums->are_equal && value == sums->first;
                block += value;
            }
        sums->sum += block;
    }
}

static void sum_squares(const value_column *column, double mean, column_sums *sums) {
    sums->squares = 0.0;
    for (uint64_t start = 0; start < column->count; start += BLOCK_ROWS) {
        uint64_t end = start + BLOCK_ROWS < column->count ? start + BLOCK_ROWS : column->count;
        double block = 0.0, value;
        for (uint64_t r = start; r < end; r++)
            if (value_at(column, r, &value))
                block += (value - mean) * (value - mean);
        sums->squares += block;
    }
}

static weir_statistics finish(double mean, double squares, uint64_t count, bool are_equal) {
    weir_statistics statistics = {.mean = mean, .std = 1, .count = count};
    if (count > 0 && !are_equal) {
        double std = sqrt(squares / (double)count);
        if (std != 0)
            statistics.std = std;
    }
    if (!isfinite(statistics.mean) || !isfinite(statistics.std)) {
        statistics.mean = 0;
        statistics.std = 1;
    }
    return statistics;
}

static double mean_of(double sum, uint64_t count) {
    return count ? sum / (double)count : 0.0;
}

static weir_statistics statistics_of(const value_column *column) {
    column_sums sums = {0};
    sum_values(column, &sums);
    double mean = mean_of(sums.sum, sums.count);
    if (sums.count > 0 && !sums.are_equal && isfinite(mean))
        sum_squares(column, mean, &sums);
    return finish(mean, sums.squares, sums.count, sums.are_equal);
}

weir_statistics weir_ingest__statistics_of(const double *values, uint64_t count) {
    value_column column = {.numbers = values, .count = count};
    return statistics_of(&column);
}

/* ---- Columns of tables ----------------------------------------------------------------------- */

typedef struct statistics_item {
    value_column column;
    weir_statistics *out;
    column_sums sums;
} statistics_item;

typedef struct statistics_work {
    statistics_item *items; /* numerical columns and timestamp columns, in ColumnIdx order */
    size_t count;
    double timestamp_mean;
} statistics_work;

static void sum_item(void *context, size_t index, uint32_t worker) {
    statistics_item *item = &((statistics_work *)context)->items[index];
    (void)worker;
    if (item->column.numbers)
        *item->out = statistics_of(&item->column);
    else
        sum_values(&item->column, &item->sums);
}

static void square_item(void *context, size_t index, uint32_t worker) {
    statistics_work *work = context;
    statistics_item *item = &work->items[index];
    (void)worker;
    if (!item->column.numbers)
        sum_squares(&item->column, work->timestamp_mean, &item->sums);
}

static size_t collect_items(const weir_ingest__tasks *tasks, const weir_ingest__statistics *out,
                            statistics_item *items) {
    size_t count = 0;
    for (uint32_t t = 0; t < tasks->plan->table_count; t++) {
        const weir_ingest__table *table = &tasks->ordered->tables[t];
        for (uint32_t c = 0; c < table->plan->column_count; c++) {
            weir_value value = weir_value_of(table->plan->columns[c].stype);
            if (value != WEIR_VALUE_NUMBER && value != WEIR_VALUE_TIME)
                continue;
            statistics_item *item = &items[count++];
            *item = (statistics_item){.out = &out->columns[table->plan->columns[c].column_idx]};
            item->column.count = table->row_count;
            if (value == WEIR_VALUE_NUMBER)
                item->column.numbers = table->data[c].values;
            else
                item->column.times = table->data[c].values;
            if (out->has_until) {
                item->column.row_times = weir_ingest__known_times(tasks->linked, t, table->plan->temporal);
                item->column.until = out->until;
            }
        }
    }
    return count;
}

static weir_statistics sum_timestamps(const weir_ingest__context *context, statistics_work *work) {
    double sum = 0.0, squares = 0.0;
    uint64_t count = 0;
    bool are_equal = true;
    const column_sums *first = NULL;
    for (size_t i = 0; i < work->count; i++) {
        const statistics_item *item = &work->items[i];
        if (item->column.numbers)
            continue;
        sum += item->sums.sum;
        count += item->sums.count;
        if (item->sums.count == 0)
            continue;
        first = first ? first : &item->sums;
        are_equal = are_equal && item->sums.are_equal && item->sums.first == first->first;
    }
    work->timestamp_mean = mean_of(sum, count);
    weir__parallel(context->env, context->threads, work->count, square_item, work);
    for (size_t i = 0; i < work->count; i++)
        if (!work->items[i].column.numbers)
            squares += work->items[i].sums.squares;
    return finish(work->timestamp_mean, squares, count, are_equal);
}

/* ---- Until when ------------------------------------------------------------------------------ */

int64_t weir_ingest__seed_time(const weir_ingest__tasks *tasks, uint32_t number, uint64_t seed) {
    const weir_ingest__task *task = &tasks->list[number];
    if (task->times)
        return task->times[seed];
    int64_t time = weir_ingest__row_time(tasks->linked, task->plan->anchor_table, task->rows[seed]);
    return time == WEIR_TIME_ALWAYS ? INT64_MAX : time;
}

/* The last time of a task's train split; false if it has no end. */
static bool end_of_train(const weir_ingest__tasks *tasks, uint32_t number, int64_t *out) {
    const weir_ingest__task *task = &tasks->list[number];
    const weir_ingest__schema_split *split = &task->plan->schema->split;
    uint64_t train_count = task->split_start[1];
    if (split->method == WEIR_INGEST__SPLIT_TEMPORAL)
        *out = split->val - 1;
    if (split->method != WEIR_INGEST__SPLIT_COLUMN)
        return split->method == WEIR_INGEST__SPLIT_TEMPORAL;
    *out = INT64_MIN;
    for (uint64_t i = 0; i < train_count; i++) {
        int64_t time = weir_ingest__seed_time(tasks, number, i);
        *out = time > *out ? time : *out;
    }
    return train_count > 0 && *out != INT64_MAX;
}

bool weir_ingest__earliest_end_of_train(const weir_ingest__tasks *tasks, int64_t *out, uint32_t *task) {
    bool has_end = false;
    int64_t end;
    for (uint32_t i = 0; i < tasks->plan->task_count; i++)
        if (end_of_train(tasks, i, &end) && (!has_end || end < *out)) {
            *out = end;
            *task = i;
            has_end = true;
        }
    return has_end;
}

weir_status weir_ingest__make_statistics(weir_ingest__context *context, const weir_ingest__tasks *tasks,
                                         weir_ingest__statistics *out, weir_error *error) {
    const weir_ingest__schema *schema = tasks->plan->schema;
    size_t count = tasks->plan->table_column_count;
    uint32_t task;
    *out = (weir_ingest__statistics){.env = context->env};
    /* The end of an earlier store is taken later; here all rows count, to see whether they have shifted. */
    if (!weir_ingest__like_is_open(tasks->plan->like)) {
        out->has_until = schema->has_statistics_until || schema->has_statistics_until_train;
        out->until = schema->statistics_until;
        if (schema->has_statistics_until_train &&
            !weir_ingest__earliest_end_of_train(tasks, &out->until, &task))
            return weir_ingest__plan_refuse(
                error, WEIR_SCHEMA_INVALID,
                "is \"train\", but no task has train seeds with observation times; give a time",
                "$.statistics_until");
    }
    statistics_work work = {.items = weir__allocate_zero(context->env, count, sizeof *work.items)};
    out->columns = weir__allocate_zero(context->env, count, sizeof *out->columns);
    bool has_memory = work.items && out->columns;
    for (size_t c = 0; c < count && has_memory; c++)
        out->columns[c].std = 1;
    if (has_memory) {
        work.count = collect_items(tasks, out, work.items);
        weir__parallel(context->env, context->threads, work.count, sum_item, &work);
        out->timestamps = sum_timestamps(context, &work);
        weir_ingest__like_statistics(context, tasks->plan, out);
    }
    weir__release(context->env, work.items);
    return has_memory ? WEIR_OK : weir_ingest__no_memory(error, count * sizeof *work.items);
}

void weir_ingest__statistics_release(weir_ingest__statistics *statistics) {
    if (statistics->env)
        weir__release(statistics->env, statistics->columns);
    *statistics = (weir_ingest__statistics){0};
}
