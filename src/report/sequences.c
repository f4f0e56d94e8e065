/* What a typical sequence of each task holds: some batches are built, and their cells, rows and what time
 * hides of their rows' children are counted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/report.h"
#include "store/manifest_write.h"

enum { BATCH_SIZE = 8, SEQUENCES = 64 };

typedef struct sequence_counts {
    uint32_t cells[SEQUENCES];
    uint32_t rows[SEQUENCES];
    uint32_t count;
    uint64_t children, hidden;
} sequence_counts;

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* ---- A manifest ------------------------------------------------------------------------------ */

/* The store's own manifest, with small batches. */
static weir_status make_manifest(weir_report__work *work, weir_manifest **out) {
    weir_store__manifest_settings settings = {.batch_size = BATCH_SIZE};
    const weir_env *env = work->report->env;
    weir_bytes text;
    WEIR__TRY(weir_store__manifest_write(env, work->info, &settings, &text, work->error));
    weir_status status = weir_manifest_read(env, text.data, text.size, "the report", out, work->error);
    weir_bytes_release(&text);
    return status;
}

/* ---- Batches --------------------------------------------------------------------------------- */

static uint64_t load(const weir_batch *batch, weir_tensor_id id, uint32_t index, size_t size) {
    const uint8_t *at = batch->data + batch->tensors[id].offset + (size_t)index * size;
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* Children of a sequence's rows, by the edge types that the task shows. */
static void count_children(const weir_report__work *work, const weir_task *task, const uint64_t *rows,
                           uint32_t count, int64_t time, sequence_counts *out) {
    for (uint32_t r = 0; r < count; r++) {
        uint32_t number = weir_store_table_of(work->store, rows[r]);
        if (number == WEIR_NONE)
            continue;
        const weir_table *table = &work->info->tables[number];
        for (uint32_t i = 0; i < table->inbound_count; i++) {
            uint32_t all, known, edge = table->inbound[i];
            if (task->edge_hidden[edge])
                continue;
            (void)weir_store_children(work->store, edge, rows[r], INT64_MAX, &all);
            (void)weir_store_children(work->store, edge, rows[r], time, &known);
            out->children += all;
            out->hidden += all - known;
        }
    }
}

static void count_batch(const weir_report__work *work, const weir_task *task, const weir_batch *batch,
                        sequence_counts *out) {
    for (uint32_t i = 0; i < batch->sequence_count && out->count < SEQUENCES; i++) {
        uint32_t rows = (uint32_t)load(batch, WEIR_NUM_ROWS, i, 4);
        int64_t time = (int64_t)load(batch, WEIR_OBSERVATION_TIME, i, 8);
        out->cells[out->count] = (uint32_t)load(batch, WEIR_NUM_CELLS, i, 4);
        out->rows[out->count++] = rows;
        count_children(work, task, batch->rows + (size_t)i * batch->row_stride, rows, time, out);
    }
}

/* Batches are built as eight ranks would, one sequence after the other: each jumps about in the store, and is
 * let go before the next. */
static weir_status build_some(weir_report__work *work, const weir_task *task, const weir_manifest *manifest,
                              const char *dataset, sequence_counts *out) {
    weir_batch_options options = {.size = sizeof options,
                                  .store = work->store,
                                  .manifest = manifest,
                                  .dataset = dataset,
                                  .world_size = BATCH_SIZE};
    weir_batch_builder *builders[BATCH_SIZE] = {0};
    weir_batch_buffer *buffer = NULL;
    weir_cursor cursor = {0, 0}, next = {0, 0};
    weir_status status = WEIR_OK;
    for (; options.rank < BATCH_SIZE && status == WEIR_OK; options.rank++)
        status = weir_batch_builder_open(work->report->env, &options, &builders[options.rank], work->error);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(builders, 1, NULL, &buffer, work->error);
    for (uint32_t i = 0; status == WEIR_OK && out->count < SEQUENCES; i++) {
        cursor = i % BATCH_SIZE == 0 ? next : cursor;
        if (cursor.epoch > 0)
            break;
        status = weir_batch_build(builders[i % BATCH_SIZE], cursor, buffer, work->error);
        if (status != WEIR_OK)
            break;
        count_batch(work, task, weir_batch_view(buffer), out);
        next = weir_batch_view(buffer)->step.cursor_next;
        weir_store__let_go(work->store);
    }
    weir_batch_buffer_close(buffer);
    for (int rank = 0; rank < BATCH_SIZE; rank++)
        weir_batch_builder_close(builders[rank]);
    return status;
}

/* The split with most seeds speaks for the task. */
static weir_status look_at_task(weir_report__work *work, const weir_manifest *manifest, uint32_t number,
                                sequence_counts *counts) {
    const weir_task *task = &work->info->tasks[number];
    weir_report_task *out = &work->report->tasks[number];
    int best = 0;
    for (int split = 1; split < WEIR_SPLITS; split++)
        best = out->splits[split].seeds > out->splits[best].seeds ? split : best;
    if (out->splits[best].seeds == 0)
        return WEIR_OK;
    const char *split_name = weir_split_name((weir_split)best);
    size_t size = strlen(work->info->name) + strlen(task->name) + strlen(split_name) + 3;
    char *dataset = weir__allocate(work->report->env, size, 1);
    if (!dataset)
        return weir_report__no_memory(work, size);
    snprintf(dataset, size, "%s/%s/%s", work->info->name, task->name, split_name);
    memset(counts, 0, sizeof *counts);
    weir_status status = build_some(work, task, manifest, dataset, counts);
    weir__release(work->report->env, dataset);
    if (status != WEIR_OK || counts->count == 0)
        return status;
    qsort(counts->cells, counts->count, sizeof *counts->cells, compare);
    qsort(counts->rows, counts->count, sizeof *counts->rows, compare);
    out->sequences = counts->count;
    out->cells = counts->cells[counts->count / 2];
    out->rows = counts->rows[counts->count / 2];
    out->hidden = counts->children ? (double)counts->hidden / (double)counts->children : 0;
    return WEIR_OK;
}

weir_status weir_report__sequences(weir_report__work *work) {
    weir_manifest *manifest = NULL;
    bool has_seeds = false;
    for (uint32_t i = 0; i < work->info->task_count; i++)
        has_seeds = has_seeds || work->info->tasks[i].seed_count > 0;
    if (!has_seeds)
        return WEIR_OK;
    sequence_counts *counts = weir__allocate(work->report->env, 1, sizeof *counts);
    weir_status status =
        counts ? make_manifest(work, &manifest) : weir_report__no_memory(work, sizeof *counts);
    for (uint32_t i = 0; i < work->info->task_count && status == WEIR_OK; i++)
        status = look_at_task(work, manifest, i, counts);
    weir_manifest_close(manifest);
    weir__release(work->report->env, counts);
    return status;
}
