/* See batch_print.h. */
#include "batch_print.h"

#include <inttypes.h>

uint64_t cli_batch_field(const weir_batch *batch, weir_tensor_id id, uint64_t index) {
    const weir_tensor *part = &batch->tensors[id];
    uint64_t count = 1, value = 0;
    for (uint32_t k = 0; k < part->rank; k++)
        count *= part->shape[k];
    size_t size = (size_t)(part->size / count);
    const uint8_t *at = batch->data + part->offset + size * index;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

weir_batch_source cli_batch_source(const weir_store *store, const weir_batch *batch, uint32_t index) {
    if (batch->source_count > 0)
        return batch->sources[batch->dataset_ids[index]];
    return (weir_batch_source){.store = store,
                               .task = batch->task,
                               .target_stype = batch->target_stype,
                               .category_start = batch->category_start,
                               .category_count = batch->category_count};
}

uint64_t cli_batch_anchor(const weir_batch_source *source, const weir_batch *batch, uint32_t index) {
    return weir_batch_anchor(source->store, source->task, batch, index,
                             (uint32_t)cli_batch_field(batch, WEIR_ANCHOR_ROW, index));
}

static void write_shape(weir_json_writer *w, const weir_tensor *tensor) {
    weir_json_array(w);
    for (uint32_t k = 0; k < tensor->rank; k++)
        weir_json_uint(w, tensor->shape[k]);
    weir_json_end_array(w);
}

void cli_batch_write_tensors(weir_json_writer *w, const weir_batch *batch) {
    weir_json_pair_object(w, "tensors");
    for (int id = 0; id < WEIR_TENSORS; id++) {
        const weir_tensor *tensor = &batch->tensors[id];
        if (!tensor->name)
            continue;
        weir_json_pair_object(w, tensor->name);
        weir_json_pair_text(w, "dtype", tensor->dtype);
        weir_json_key(w, "shape");
        write_shape(w, tensor);
        weir_json_pair_hex(w, "data", batch->data + tensor->offset, (size_t)tensor->size);
        weir_json_end_object(w);
    }
    weir_json_end_object(w);
}

static void write_source(weir_json_writer *w, const weir_batch_source *source) {
    weir_json_pair_text(w, "task", weir_store_describe(source->store)->tasks[source->task].name);
    weir_json_pair_uint(w, "task_idx", source->task);
    weir_json_pair_uint(w, "target_stype", source->target_stype);
    weir_json_pair_uint(w, "cat_emb_start", source->category_start);
    weir_json_pair_uint(w, "cat_emb_count", source->category_count);
}

void cli_batch_write_head(weir_json_writer *w, const weir_store *store, const weir_batch *batch) {
    if (batch->source_count == 0) {
        weir_batch_source only = cli_batch_source(store, batch, 0);
        write_source(w, &only);
    } else {
        weir_json_pair_array(w, "datasets");
        for (uint32_t i = 0; i < batch->source_count; i++) {
            weir_json_object(w);
            weir_json_pair_text(w, "dataset", batch->sources[i].dataset);
            write_source(w, &batch->sources[i]);
            weir_json_pair_uint(w, "first_column", batch->sources[i].first_column);
            weir_json_pair_uint(w, "first_category", batch->sources[i].first_category);
            weir_json_end_object(w);
        }
        weir_json_end_array(w);
    }
    if (batch->group_size > 1)
        weir_json_pair_uint(w, "group_size", batch->group_size);
    weir_json_pair_object(w, "dims");
    weir_json_pair_uint(w, "B", batch->sequence_count);
    weir_json_pair_uint(w, "S", batch->sequence_length);
    weir_json_pair_uint(w, "R", batch->row_count);
    weir_json_pair_uint(w, "U", batch->text_count);
    weir_json_pair_uint(w, "D_t", batch->embedding_dim);
    weir_json_end_object(w);
    weir_json_pair_object(w, "shapes");
    for (int id = 0; id < WEIR_TENSORS; id++) {
        if (!batch->tensors[id].name)
            continue;
        weir_json_key(w, batch->tensors[id].name);
        write_shape(w, &batch->tensors[id]);
    }
    weir_json_end_object(w);
    weir_json_pair_hex(w, "batch_digest", batch->batch_digest, sizeof batch->batch_digest);
}

void cli_batch_write_sequence(weir_json_writer *w, const weir_store *store, const weir_batch *batch,
                              uint32_t i) {
    weir_batch_source source = cli_batch_source(store, batch, i);
    const weir_store_info *info = weir_store_describe(source.store);
    char digest[24];
    weir_json_pair_uint(w, "position", cli_batch_field(batch, WEIR_POSITION, i));
    bool is_padding = cli_batch_field(batch, WEIR_NUM_ROWS, i) == 0;
    if (batch->group_size > 1)
        weir_json_pair_text(w, "role", is_padding ? NULL : weir_role_name(weir_batch_role(batch, i)));
    weir_json_pair_uint(w, "anchor_row", cli_batch_field(batch, WEIR_ANCHOR_ROW, i));
    const weir_task *task = &info->tasks[source.task];
    if (info->tables[task->anchor_table].key_form != WEIR_KEYS_NONE ||
        (task->link.is_link && info->tables[task->link.table].key_form != WEIR_KEYS_NONE)) {
        weir_json_key(w, "anchor_key");
        if (is_padding)
            weir_json_null(w);
        else
            weir_store_key_json(source.store, cli_batch_anchor(&source, batch, i), w);
    }
    cli_json_int(w, "observation_time", (int64_t)cli_batch_field(batch, WEIR_OBSERVATION_TIME, i));
    weir_json_pair_uint(w, "num_cells", cli_batch_field(batch, WEIR_NUM_CELLS, i));
    weir_json_pair_uint(w, "num_rows", cli_batch_field(batch, WEIR_NUM_ROWS, i));
    snprintf(digest, sizeof digest, "%016" PRIx64, batch->sample_digests[i]);
    weir_json_pair_text(w, "sample_digest", digest);
}

void cli_batch_print_sequence(const weir_store *given, const weir_batch *batch, uint32_t i) {
    weir_batch_source source = cli_batch_source(given, batch, i);
    const weir_store *store = source.store;
    const weir_store_info *info = weir_store_describe(store);
    const char *role = weir_role_name(weir_batch_role(batch, i));
    int64_t seen = (int64_t)cli_batch_field(batch, WEIR_OBSERVATION_TIME, i);
    char key[200], printable[200], time[40] = "everything";
    uint64_t cells = cli_batch_field(batch, WEIR_NUM_CELLS, i),
             rows = cli_batch_field(batch, WEIR_NUM_ROWS, i);
    if (rows == 0) {
        printf("padding\n");
        return;
    }
    uint64_t row = cli_batch_anchor(&source, batch, i);
    const weir_table *table = &info->tables[weir_store_table_of(store, row)];
    if (role)
        printf("%s ", role);
    if (weir_store_key_text(store, row, key, sizeof key) == 0) /* it keeps none */
        snprintf(key, sizeof key, "row %" PRIu64, row - table->row_start);
    if (seen != INT64_MAX)
        weir_timestamp_format(seen, time);
    printf("%s %s (row %" PRIu64 " of the store) as of %s, %s of %s, digest %016" PRIx64 "\n",
           cli_shown(table->name), cli_printable(key, printable, sizeof printable), row, time,
           cli_number(cells, "cell", "cells"), cli_number(rows, "row", "rows"), batch->sample_digests[i]);
}
