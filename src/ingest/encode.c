/* Encoding: what the phases made, section by section, into the file. Rows are composed in blocks on several
 * threads and written in order; everything else is written as it lies. */
#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "ingest/encode.h"
#include "ingest/like.h"
#include "weir_tool/store_tools.h"

enum { BLOCK_BYTES = 1 << 20 };

/* ---- Rows ------------------------------------------------------------------------------------ */

static uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

typedef struct row_block {
    weir_ingest__ingest *ingest;
    uint32_t table;
    uint32_t first;
    uint32_t count;
    uint8_t *bytes;
} row_block;

/* One column of a block of records: slot, null bits and value bits. The block is zeroed before. */
static void compose_column(const row_block *block, const weir_ingest__table_plan *table, uint32_t c) {
    const weir_table *layout = &block->ingest->info_tables[block->table];
    const weir_column *column = &block->ingest->info_columns[table->columns[c].column_idx];
    const void *values = table->data[c].values;
    uint32_t stride = layout->stride;
    uint8_t *record = block->bytes;
    assert((column->slot == WEIR_NONE || column->slot < layout->bits_offset) &&
           layout->bits_offset + column->null_bit / 8 < stride && "a cell outside of its record");
    for (uint32_t i = 0; i < block->count; i++, record += stride) {
        uint32_t r = block->first + i;
        bool is_null = false;
        switch (column->stype) {
        case WEIR_IDENTIFIER:
            is_null = ((const uint8_t *)values)[r] == 0;
            break;
        case WEIR_NUMERICAL: {
            double value = ((const double *)values)[r];
            is_null = isnan(value);
            if (!is_null)
                weir__store32(record + column->slot,
                              bits_of_float(weir_normalise(value, &column->statistics)));
            break;
        }
        case WEIR_TIMESTAMP: {
            int64_t value = ((const int64_t *)values)[r];
            is_null = value == WEIR_TIME_ALWAYS;
            weir__store64(record + column->slot, (uint64_t)value);
            break;
        }
        case WEIR_BOOLEAN:
            is_null = ((const uint8_t *)values)[r] == 2;
            if (((const uint8_t *)values)[r] == 1)
                weir__set_bit(record + layout->bits_offset, column->bool_bit);
            break;
        case WEIR_CATEGORICAL:
        case WEIR_TEXT: {
            uint32_t value = ((const uint32_t *)values)[r];
            is_null = value == WEIR_NONE;
            if (!is_null)
                weir__store32(record + column->slot,
                              value + (column->stype == WEIR_CATEGORICAL ? column->category_start : 0));
            break;
        }
        case WEIR_IGNORED: /* it has no cells */
            break;
        }
        if (is_null)
            weir__set_bit(record + layout->bits_offset, column->null_bit);
    }
}

static void compose_block(const row_block *block) {
    const weir_ingest__ingest *ingest = block->ingest;
    const weir_ingest__table_plan *table = &ingest->tables[block->table];
    const weir_table *layout = &ingest->info_tables[block->table];
    assert(block->first + block->count <= table->row_count && "rows that the table does not have");
    memset(block->bytes, 0, (size_t)block->count * layout->stride);
    for (uint32_t c = 0; c < table->column_count; c++)
        if (table->columns[c].column_idx != WEIR_NONE)
            compose_column(block, table, c);
    for (uint32_t t = 0; t < table->time_count; t++) {
        const int64_t *times = table->times[t].values + block->first;
        uint8_t *slot = block->bytes + layout->times[t].slot;
        for (uint32_t i = 0; i < block->count; i++, slot += layout->stride)
            weir__store64(slot, (uint64_t)times[i]);
    }
    for (uint32_t e = layout->edge_start; e < layout->edge_start + layout->edge_count; e++) {
        const uint32_t *parents = ingest->edges[e].parents + block->first;
        uint32_t first = ingest->info_tables[ingest->info_edges[e].parent_table].first_number;
        uint8_t *slot = block->bytes + ingest->info_edges[e].parent_slot;
        for (uint32_t i = 0; i < block->count; i++, slot += layout->stride)
            weir__store32(slot, parents[i] == WEIR_NONE ? WEIR_NONE : parents[i] + first);
    }
}

static void run_block(void *context, size_t index, uint32_t worker) {
    (void)worker;
    compose_block(&((row_block *)context)[index]);
}

/* A wave of blocks is composed in parallel, then written in order. */
static weir_status write_table(weir_ingest__ingest *ingest, weir_store__writer *w, uint32_t t,
                               row_block *blocks, weir_error *error) {
    uint32_t stride = ingest->info_tables[t].stride;
    uint32_t rows = ingest->tables[t].row_count;
    uint32_t block_rows = stride ? BLOCK_BYTES / stride : rows;
    block_rows = block_rows ? block_rows : 1;
    for (uint32_t first = 0; first < rows && stride > 0;) {
        uint32_t count = 0;
        uint32_t start = first;
        for (; count < ingest->context.threads && first < rows; count++) {
            uint32_t part = rows - first < block_rows ? rows - first : block_rows;
            blocks[count] = (row_block){ingest, t, first, part, blocks[count].bytes};
            first += part;
        }
        weir__parallel(ingest->context.env, ingest->context.threads, count, run_block, blocks);
        for (uint32_t i = 0; i < count; i++)
            weir_store__writer_put(w, blocks[i].bytes, (size_t)blocks[i].count * stride);
        if (!weir_ingest__advance(&ingest->context, first - start))
            return weir_ingest__cancelled(error);
    }
    return WEIR_OK;
}

static weir_status write_rows(weir_ingest__ingest *ingest, weir_store__writer *w, weir_error *error) {
    row_block blocks[WEIR__THREADS_MAX];
    size_t widest = BLOCK_BYTES;
    weir_status status = WEIR_OK;
    for (uint32_t t = 0; t < ingest->table_count; t++)
        if (ingest->info_tables[t].stride > widest)
            widest = ingest->info_tables[t].stride;
    uint8_t *memory = weir__allocate(ingest->context.env, ingest->context.threads, widest);
    if (!memory)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, ingest->context.threads * widest);
    for (uint32_t i = 0; i < ingest->context.threads; i++)
        blocks[i].bytes = memory + i * widest;
    weir_store__writer_begin(w, WEIR_STORE__SECTION_ROWS);
    for (uint32_t t = 0; t < ingest->table_count && status == WEIR_OK; t++) {
        weir_store__writer_align(w, WEIR_STORE__TABLE_ALIGNMENT);
        status = write_table(ingest, w, t, blocks, error);
    }
    weir__release(ingest->context.env, memory);
    return status;
}

/* ---- Edges and seeds ------------------------------------------------------------------------- */

static void write_edges(weir_ingest__ingest *ingest, weir_store__writer *w) {
    weir_store__writer_begin(w, WEIR_STORE__SECTION_CHILD_STARTS);
    for (uint32_t e = 0; e < ingest->edge_count; e++)
        weir_store__writer_put_words(w, ingest->edges[e].starts,
                                     (size_t)ingest->tables[ingest->info_edges[e].parent_table].row_count +
                                         1);
    weir_store__writer_begin(w, WEIR_STORE__SECTION_CHILD_ROWS);
    for (uint32_t e = 0; e < ingest->edge_count; e++)
        weir_store__writer_put_rows(w, ingest->edges[e].child_rows, ingest->info_edges[e].edges,
                                    ingest->info_tables[ingest->info_edges[e].table].first_number);
    weir_store__writer_begin(w, WEIR_STORE__SECTION_CHILD_TIMES);
    for (uint32_t e = 0; e < ingest->edge_count; e++)
        if (ingest->edges[e].child_times)
            weir_store__writer_put_longs(w, ingest->edges[e].child_times, ingest->info_edges[e].edges);
}

static void write_targets(weir_ingest__ingest *ingest, weir_store__writer *w, uint32_t number) {
    const weir_ingest__task_plan *task = &ingest->tasks[number];
    const weir_column *column = &ingest->info_columns[ingest->info_tasks[number].column];
    for (uint64_t i = 0; i < task->seed_count; i++) {
        uint64_t bits = 0;
        if (task->nulls[i])
            bits = 0;
        else if (task->numbers)
            bits = bits_of_float(weir_normalise(task->numbers[i], &column->statistics));
        else if (task->category_ranks)
            bits = column->category_start + task->category_ranks[task->integers[i]];
        else
            bits = (uint64_t)task->integers[i];
        weir_store__writer_put_long(w, bits);
    }
}

static void write_weights(weir_store__writer *w, const weir_ingest__task_plan *task) {
    for (uint64_t i = 0; i < task->seed_count; i++) {
        uint64_t bits;
        memcpy(&bits, &task->weights[i], sizeof bits);
        weir_store__writer_put_long(w, bits);
    }
}

static void write_null_bits(weir_store__writer *w, const weir_ingest__task_plan *task) {
    for (uint64_t i = 0; i < task->seed_count; i += 64) {
        uint64_t bits = 0;
        for (uint32_t k = 0; k < 64 && i + k < task->seed_count; k++)
            bits |= (uint64_t)task->nulls[i + k] << k;
        weir_store__writer_put_long(w, bits);
    }
}

static void write_seeds(weir_ingest__ingest *ingest, weir_store__writer *w) {
    weir_store__writer_begin(w, WEIR_STORE__SECTION_SEED_ROWS);
    for (uint32_t i = 0; i < ingest->task_count; i++)
        weir_store__writer_put_rows(w, ingest->tasks[i].rows, ingest->tasks[i].seed_count,
                                    ingest->info_tables[ingest->tasks[i].anchor_table].first_number);
    weir_store__writer_begin(w, WEIR_STORE__SECTION_SEED_TIMES);
    for (uint32_t i = 0; i < ingest->task_count; i++)
        if (ingest->tasks[i].times)
            weir_store__writer_put_longs(w, ingest->tasks[i].times, ingest->tasks[i].seed_count);
    weir_store__writer_begin(w, WEIR_STORE__SECTION_SEED_TARGETS);
    for (uint32_t i = 0; i < ingest->task_count; i++) {
        if (!ingest->tasks[i].is_cell)
            write_targets(ingest, w, i);
        if (ingest->tasks[i].weights)
            write_weights(w, &ingest->tasks[i]);
    }
    weir_store__writer_begin(w, WEIR_STORE__SECTION_SEED_BITS);
    for (uint32_t i = 0; i < ingest->task_count; i++) {
        const weir_ingest__task_plan *task = &ingest->tasks[i];
        if (task->is_cell)
            weir_store__writer_put(w, task->held_out,
                                   weir__bits_size(ingest->tables[task->anchor_table].row_count));
        else
            write_null_bits(w, task);
    }
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static void
write_texts(weir_store__writer *w, weir_store__section_kind offsets, weir_store__section_kind bytes,
            const weir_ingest__string *(*text_at)(const weir_ingest__ingest *ingest, uint32_t index),
            const weir_ingest__ingest *ingest, uint32_t count) {
    uint64_t offset = 0;
    weir_store__writer_begin(w, offsets);
    weir_store__writer_put_long(w, 0);
    for (uint32_t i = 0; i < count; i++) {
        offset += text_at(ingest, i)->size;
        weir_store__writer_put_long(w, offset);
    }
    weir_store__writer_begin(w, bytes);
    for (uint32_t i = 0; i < count; i++)
        weir_store__writer_put(w, text_at(ingest, i)->bytes, text_at(ingest, i)->size);
}

static const weir_ingest__string *category_at(const weir_ingest__ingest *ingest, uint32_t index) {
    return ingest->category_texts[index];
}

static const weir_ingest__string *text_at(const weir_ingest__ingest *ingest, uint32_t index) {
    return ingest->texts.strings[ingest->text_order[index]];
}

/* A dictionary's strings in their bytewise order, from `start` on. */
static void list_categories(weir_ingest__ingest *ingest, weir_column *column,
                            const weir_ingest__dictionary *dictionary, const uint32_t *ranks,
                            uint32_t *start) {
    column->category_start = *start;
    column->category_count = dictionary->count;
    for (uint32_t i = 0; i < dictionary->count; i++) {
        ingest->category_texts[*start + ranks[i]] = dictionary->strings[i];
        ingest->category_columns[*start + ranks[i]] = WEIR__NARROW(uint32_t, column - ingest->info_columns);
    }
    *start += dictionary->count;
}

/* Columns in ColumnIdx order, then derived tasks in name order. A column without categories has the block
 * (0, 0). */
static weir_status number_categories(weir_ingest__ingest *ingest, weir_error *error) {
    uint64_t count = 0;
    uint32_t start = 0;
    for (uint32_t t = 0; t < ingest->table_count; t++)
        for (uint32_t c = 0; c < ingest->tables[t].column_count; c++)
            count += ingest->tables[t].categories[c].count;
    for (uint32_t i = 0; i < ingest->task_count; i++)
        count += ingest->tasks[i].categories.count;
    if (count >= UINT32_MAX)
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                          "the categorical columns have more than 2^32-2 values; make some of them text");
    ingest->category_texts = weir__allocate(ingest->context.env, count, sizeof *ingest->category_texts);
    ingest->category_columns = weir__allocate(ingest->context.env, count, sizeof *ingest->category_columns);
    if (!ingest->category_texts || !ingest->category_columns)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, count * 12);
    for (uint32_t t = 0; t < ingest->table_count; t++)
        for (uint32_t c = 0; c < ingest->tables[t].column_count; c++) {
            const weir_ingest__table_plan *table = &ingest->tables[t];
            if (table->columns[c].stype == WEIR_CATEGORICAL)
                list_categories(ingest, &ingest->info_columns[table->columns[c].column_idx],
                                &table->categories[c], table->category_ranks[c], &start);
        }
    for (uint32_t i = 0; i < ingest->task_count; i++)
        if (ingest->tasks[i].category_ranks)
            list_categories(ingest, &ingest->info_columns[ingest->info_tasks[i].column],
                            &ingest->tasks[i].categories, ingest->tasks[i].category_ranks, &start);
    ingest->info.category_count = WEIR__NARROW(uint32_t, count);
    return WEIR_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

static weir_status write_metadata(weir_ingest__ingest *ingest, weir_store__writer *w, weir_error *error) {
    weir_cbor_writer metadata;
    weir_cbor_writer_memory(&metadata, ingest->context.env);
    weir_store__metadata_write(&ingest->info, &metadata);
    weir_status status = weir_cbor_finish(&metadata, error);
    if (status == WEIR_OK) {
        weir_store__writer_begin(w, WEIR_STORE__SECTION_METADATA);
        weir_store__writer_put(w, metadata.data, metadata.size);
    }
    weir_cbor_release(&metadata);
    return status;
}

static weir_status write_sections(weir_ingest__ingest *ingest, weir_ingest__embedder *embedder,
                                  weir_store__writer *w, weir_ingest_report *report, weir_error *error) {
    const weir_env *env = ingest->context.env;
    uint64_t began = env->now_ns(env->context);
    weir_ingest__begin_phase(&ingest->context, "write", ingest->info.row_count, 0);
    weir_status status = write_metadata(ingest, w, error);
    if (status == WEIR_OK)
        status = write_rows(ingest, w, error);
    if (status != WEIR_OK)
        return status;
    write_edges(ingest, w);
    write_seeds(ingest, w);
    write_texts(w, WEIR_STORE__SECTION_CATEGORY_OFFSETS, WEIR_STORE__SECTION_CATEGORY_BYTES, category_at,
                ingest, ingest->info.category_count);
    write_texts(w, WEIR_STORE__SECTION_TEXT_OFFSETS, WEIR_STORE__SECTION_TEXT_BYTES, text_at, ingest,
                ingest->text_count);
    uint64_t before = w->position;
    uint64_t wrote = env->now_ns(env->context);
    report->write_ns = wrote - began;
    status = embedder ? weir_ingest__write_embeddings(ingest, embedder, w, error) : WEIR_OK;
    report->embed_ns = env->now_ns(env->context) - wrote;
    report->embedding_bytes = w->position - before;
    if (status == WEIR_OK)
        status = weir_ingest__write_keys(ingest, w, error);
    weir_ingest__write_labels(ingest, w);
    weir_ingest__write_links(ingest, w);
    return status;
}

/* Format 1, if its numbers suffice. */
static void choose_format(weir_ingest__ingest *ingest) {
    uint64_t rows = ingest->info.row_count;
    bool fits = ingest->context.options->format < 2 && rows <= WEIR_STORE__ROWS_MAX;
    for (uint32_t t = 0; t < ingest->task_count; t++)
        fits =
            fits && ingest->tasks[t].seed_count <= WEIR_STORE__ROWS_MAX - (ingest->tasks[t].known ? rows : 0);
    ingest->info.format = fits ? 1 : 2;
    weir_store__number_rows(&ingest->info, ingest->info_tables);
}

weir_status weir_ingest__write_store(weir_ingest__ingest *ingest, weir_store__writer *writer,
                                     weir_ingest_report *report, weir_error *error) {
    weir_ingest__embedder *embedder = NULL;
    weir_status status = WEIR_OK;
    ingest->info.embedding_provider = "none";
    if (!ingest->context.options->no_embeddings)
        status = weir_ingest__embedder_open(ingest->context.env,
                                            ingest->schema.has_embedding ? &ingest->schema.embedding : NULL,
                                            &embedder, error);
    if (embedder) {
        ingest->info.embedding_dim = embedder->dim;
        ingest->info.embedding_provider = embedder->kind->provider;
    }
    if (status == WEIR_OK)
        status = weir_ingest__like_check_embeddings(ingest, error);
    choose_format(ingest);
    writer->format = ingest->info.format;
    if (status == WEIR_OK)
        status = number_categories(ingest, error);
    if (status == WEIR_OK)
        status = weir_ingest__choose_key_forms(ingest, error);
    if (status == WEIR_OK)
        status = write_sections(ingest, embedder, writer, report, error);
    if (status == WEIR_OK)
        status = weir_store__writer_finish(writer, ingest->info.store_hash, &report->store_bytes, error);
    weir_ingest__embedder_close(embedder);
    return status;
}
