/* What a typical sequence of each task holds: some batches are built, and their cells, rows and what time
 * hides of their rows' children are counted. */
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

/* ---- Batches --------------------------------------------------------------------------------- */

static uint64_t load(const weir_batch *batch, weir_tensor_id id, uint32_t index, size_t size) {
    const uint8_t *at = batch->data + batch->tensors[id].offset + (size_t)index * size;
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

/* Cells, rows and the children of rows, by the edge types that the task shows. */
static void count_batch(const weir_report__work *work, const weir_task *task, const weir_batch *batch,
                        sequence_counts *out) {
    for (uint32_t i = 0; i < batch->sequence_count && out->count < SEQUENCES; i++) {
        const uint64_t *rows = batch->rows + (size_t)i * batch->row_stride;
        uint32_t row_count = (uint32_t)load(batch, WEIR_NUM_ROWS, i, 4);
        int64_t time = (int64_t)load(batch, WEIR_OBSERVATION_TIME, i, 8);
        out->cells[out->count] = (uint32_t)load(batch, WEIR_NUM_CELLS, i, 4);
        out->rows[out->count++] = row_count;
        for (uint32_t r = 0; r < row_count; r++) {
            uint32_t number = weir_store_table_of(work->store, rows[r]);
            const weir_table *table = number != WEIR_NONE ? &work->info->tables[number] : NULL;
            for (uint32_t k = 0; table && k < table->inbound_count; k++) {
                uint32_t all, known, edge = table->inbound[k];
                if (task->edge_hidden[edge])
                    continue;
                (void)weir_store_children(work->store, edge, rows[r], INT64_MAX, &all);
                (void)weir_store_children(work->store, edge, rows[r], time, &known);
                out->children += all;
                out->hidden += all - known;
            }
        }
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
static weir_status look_at_task(weir_report__work *work, const weir_manifest *manifest, uint32_t number) {
    const weir_task *task = &work->info->tasks[number];
    weir_report_task *out = &work->report->tasks[number];
    int best = 0;
    for (int split = 1; split < WEIR_SPLITS; split++)
        best = out->splits[split].seeds > out->splits[best].seeds ? split : best;
    if (out->splits[best].seeds == 0)
        return WEIR_OK;
    sequence_counts counts = {.count = 0};
    const char *dataset = weir__arena_format(&work->report->arena, "%s/%s/%s", work->info->name, task->name,
                                             weir_split_name((weir_split)best));
    if (!dataset)
        return weir_report__no_memory(work, strlen(task->name));
    WEIR__TRY(build_some(work, task, manifest, dataset, &counts));
    if (counts.count == 0)
        return WEIR_OK;
    qsort(counts.cells, counts.count, sizeof *counts.cells, compare);
    qsort(counts.rows, counts.count, sizeof *counts.rows, compare);
    out->sequences = counts.count;
    out->cells = counts.cells[counts.count / 2];
    out->rows = counts.rows[counts.count / 2];
    out->hidden = counts.children ? (double)counts.hidden / (double)counts.children : 0;
    return WEIR_OK;
}

/* By the store's own manifest, with small batches. */
weir_status weir_report__sequences(weir_report__work *work) {
    const weir_env *env = work->report->env;
    weir_store__manifest_settings settings = {.batch_size = BATCH_SIZE};
    weir_manifest *manifest = NULL;
    weir_bytes text = {0};
    bool has_seeds = false;
    for (uint32_t i = 0; i < work->info->task_count; i++)
        has_seeds = has_seeds || work->info->tasks[i].seed_count > 0;
    if (!has_seeds)
        return WEIR_OK;
    weir_status status = weir_store__manifest_write(env, work->info, &settings, &text, work->error);
    if (status == WEIR_OK)
        status = weir_manifest_read(env, text.data, text.size, "the report", &manifest, work->error);
    weir_bytes_release(&text);
    for (uint32_t i = 0; i < work->info->task_count && status == WEIR_OK; i++)
        status = look_at_task(work, manifest, i);
    weir_manifest_close(manifest);
    return status;
}
