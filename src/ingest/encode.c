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
    const weir_ingest__encoder *e;
    uint32_t table;
    uint32_t first;
    uint32_t count;
    uint8_t *bytes;
} row_block;

/* One column of a block of records: slot, null bits and value bits. The block is zeroed before. */
static void compose_column(const row_block *block, const weir_ingest__table *table, uint32_t c) {
    const weir_ingest__encoder *e = block->e;
    const weir_table *layout = &e->description->tables[block->table];
    const weir_column *column = &e->description->columns[table->plan->columns[c].column_idx];
    const void *values = table->data[c].values;
    weir_value kind = weir_value_of(column->stype);
    uint32_t stride = layout->stride;
    uint8_t *record = block->bytes;
    assert((column->slot == WEIR_NONE || column->slot < layout->bits_offset) &&
           layout->bits_offset + column->null_bit / 8 < stride && "a cell outside of its record");
    for (uint32_t i = 0; i < block->count; i++, record += stride) {
        uint32_t r = block->first + i;
        bool is_null = false;
        switch (kind) {
        case WEIR_VALUE_PRESENCE:
            is_null = ((const uint8_t *)values)[r] == 0;
            break;
        case WEIR_VALUE_NUMBER: {
            double value = ((const double *)values)[r];
            is_null = isnan(value);
            if (!is_null)
                weir__store32(record + column->slot,
                              bits_of_float(weir_normalise(value, &column->statistics)));
            break;
        }
        case WEIR_VALUE_TIME: {
            int64_t value = ((const int64_t *)values)[r];
            is_null = value == WEIR_TIME_ALWAYS;
            weir__store64(record + column->slot, (uint64_t)value);
            break;
        }
        case WEIR_VALUE_TRUTH:
            is_null = ((const uint8_t *)values)[r] == 2;
            if (((const uint8_t *)values)[r] == 1)
                weir__set_bit(record + layout->bits_offset, column->bool_bit);
            break;
        case WEIR_VALUE_CATEGORY:
        case WEIR_VALUE_TEXT: {
            uint32_t value = ((const uint32_t *)values)[r];
            is_null = value == WEIR_NONE;
            if (!is_null)
                weir__store32(record + column->slot,
                              value + (kind == WEIR_VALUE_CATEGORY ? column->category_start : 0));
            break;
        }
        case WEIR_VALUE_NOTHING: /* it has no cells */
            break;
        }
        if (is_null)
            weir__set_bit(record + layout->bits_offset, column->null_bit);
    }
}

static void compose_block(void *argument, size_t index, uint32_t worker) {
    const row_block *block = &((const row_block *)argument)[index];
    const weir_ingest__encoder *e = block->e;
    const weir_ingest__table *table = &e->ordered->tables[block->table];
    const weir_table *layout = &e->description->tables[block->table];
    (void)worker;
    assert(block->first + block->count <= table->row_count && "rows that the table does not have");
    memset(block->bytes, 0, (size_t)block->count * layout->stride);
    for (uint32_t c = 0; c < table->plan->column_count; c++)
        if (table->plan->columns[c].column_idx != WEIR_NONE)
            compose_column(block, table, c);
    for (uint32_t t = 0; t < table->plan->time_count; t++) {
        const int64_t *times = e->linked->times[block->table][t].values + block->first;
        uint8_t *slot = block->bytes + layout->times[t].slot;
        for (uint32_t i = 0; i < block->count; i++, slot += layout->stride)
            weir__store64(slot, (uint64_t)times[i]);
    }
    for (uint32_t i = 0; i < layout->edge_count; i++) {
        const weir_edge *edge = &e->description->edges[layout->edge_start + i];
        const uint32_t *parents = e->linked->edges[layout->edge_start + i].parents + block->first;
        uint32_t first = e->description->tables[edge->parent_table].first_number;
        uint8_t *slot = block->bytes + edge->parent_slot;
        for (uint32_t r = 0; r < block->count; r++, slot += layout->stride)
            weir__store32(slot, parents[r] == WEIR_NONE ? WEIR_NONE : parents[r] + first);
    }
}

/* A wave of blocks is composed in parallel, then written in order. */
static weir_status write_rows(const weir_ingest__encoder *e, weir_error *error) {
    row_block blocks[WEIR__THREADS_MAX];
    uint32_t threads = e->context->threads;
    size_t widest = BLOCK_BYTES;
    weir_status status = WEIR_OK;
    for (uint32_t t = 0; t < e->plan->table_count; t++)
        if (e->description->tables[t].stride > widest)
            widest = e->description->tables[t].stride;
    uint8_t *memory = weir__allocate(e->context->env, threads, widest);
    if (!memory)
        return weir_ingest__no_memory(error, threads * widest);
    weir_store__writer_begin(e->writer, WEIR_STORE__SECTION_ROWS);
    for (uint32_t t = 0; t < e->plan->table_count && status == WEIR_OK; t++) {
        uint32_t stride = e->description->tables[t].stride, rows = e->ordered->tables[t].row_count;
        uint32_t block_rows = stride > 0 && stride < BLOCK_BYTES ? BLOCK_BYTES / stride : 1;
        weir_store__writer_align(e->writer, WEIR_STORE__TABLE_ALIGNMENT);
        for (uint32_t first = 0; first < rows && stride > 0 && status == WEIR_OK;) {
            uint32_t count = 0, start = first;
            for (; count < threads && first < rows; count++) {
                uint32_t part = rows - first < block_rows ? rows - first : block_rows;
                blocks[count] = (row_block){e, t, first, part, memory + count * widest};
                first += part;
            }
            weir__parallel(e->context->env, threads, count, compose_block, blocks);
            for (uint32_t i = 0; i < count; i++)
                weir_store__writer_put(e->writer, blocks[i].bytes, (size_t)blocks[i].count * stride);
            if (!weir_ingest__advance(e->context, first - start))
                status = weir_ingest__cancelled(error);
        }
    }
    weir__release(e->context->env, memory);
    return status;
}

/* ---- Edges and seeds ------------------------------------------------------------------------- */

static void write_edges(const weir_ingest__encoder *e) {
    const weir_ingest__plan *plan = e->plan;
    const weir_ingest__edge *edges = e->linked->edges;
    weir_store__writer *w = e->writer;
    weir_store__writer_begin(w, WEIR_STORE__SECTION_CHILD_STARTS);
    for (uint32_t i = 0; i < plan->edge_count; i++)
        weir_store__writer_put_words(w, edges[i].starts,
                                     (size_t)e->ordered->tables[plan->edges[i].parent_table].row_count + 1);
    weir_store__writer_begin(w, WEIR_STORE__SECTION_CHILD_ROWS);
    for (uint32_t i = 0; i < plan->edge_count; i++)
        weir_store__writer_put_rows(w, edges[i].child_rows, edges[i].count,
                                    e->description->tables[plan->edges[i].table].first_number);
    weir_store__writer_begin(w, WEIR_STORE__SECTION_CHILD_TIMES);
    for (uint32_t i = 0; i < plan->edge_count; i++)
        if (edges[i].child_times)
            weir_store__writer_put_longs(w, edges[i].child_times, edges[i].count);
}

static void write_targets(weir_store__writer *w, const weir_ingest__task *task, const weir_column *column) {
    for (uint64_t i = 0; i < task->seed_count; i++) {
        uint64_t bits = 0;
        if (task->nulls[i])
            bits = 0;
        else if (task->numbers)
            bits = bits_of_float(weir_normalise(task->numbers[i], &column->statistics));
        else if (task->categories.ranks)
            bits = column->category_start + task->categories.ranks[task->integers[i]];
        else
            bits = (uint64_t)task->integers[i];
        weir_store__writer_put_long(w, bits);
    }
}

static void write_seeds(const weir_ingest__encoder *e) {
    const weir_ingest__task *tasks = e->tasks->list;
    uint32_t count = e->plan->task_count;
    weir_store__writer *w = e->writer;
    weir_store__writer_begin(w, WEIR_STORE__SECTION_SEED_ROWS);
    for (uint32_t i = 0; i < count; i++)
        weir_store__writer_put_rows(w, tasks[i].rows, tasks[i].seed_count,
                                    e->description->tables[tasks[i].plan->anchor_table].first_number);
    weir_store__writer_begin(w, WEIR_STORE__SECTION_SEED_TIMES);
    for (uint32_t i = 0; i < count; i++)
        if (tasks[i].times)
            weir_store__writer_put_longs(w, tasks[i].times, tasks[i].seed_count);
    weir_store__writer_begin(w, WEIR_STORE__SECTION_SEED_TARGETS);
    for (uint32_t i = 0; i < count; i++) {
        if (!tasks[i].plan->is_cell)
            write_targets(w, &tasks[i], &e->description->columns[tasks[i].plan->column_idx]);
        for (uint64_t k = 0; tasks[i].weights && k < tasks[i].seed_count; k++) {
            uint64_t bits;
            memcpy(&bits, &tasks[i].weights[k], sizeof bits);
            weir_store__writer_put_long(w, bits);
        }
    }
    weir_store__writer_begin(w, WEIR_STORE__SECTION_SEED_BITS);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t anchors = e->ordered->tables[tasks[i].plan->anchor_table].row_count;
        if (tasks[i].plan->is_cell)
            weir_store__writer_put(w, tasks[i].held_out, weir__bits_size(anchors));
        for (uint64_t k = 0; tasks[i].nulls && k < tasks[i].seed_count; k += 64) {
            uint64_t bits = 0;
            for (uint32_t b = 0; b < 64 && k + b < tasks[i].seed_count; b++)
                bits |= (uint64_t)tasks[i].nulls[k + b] << b;
            weir_store__writer_put_long(w, bits);
        }
    }
}

/* ---- Texts ----------------------------------------------------------------------------------- */

typedef const weir_ingest__string *(*text_getter)(const weir_ingest__encoder *e, uint32_t index);

static void write_texts(const weir_ingest__encoder *e, weir_store__section_kind offsets,
                        weir_store__section_kind bytes, text_getter text_at, uint32_t count) {
    weir_store__writer *w = e->writer;
    uint64_t offset = 0;
    weir_store__writer_begin(w, offsets);
    weir_store__writer_put_long(w, 0);
    for (uint32_t i = 0; i < count; i++) {
        offset += text_at(e, i)->size;
        weir_store__writer_put_long(w, offset);
    }
    weir_store__writer_begin(w, bytes);
    for (uint32_t i = 0; i < count; i++)
        weir_store__writer_put(w, text_at(e, i)->bytes, text_at(e, i)->size);
}

static const weir_ingest__string *category_at(const weir_ingest__encoder *e, uint32_t index) {
    return e->category_texts[index];
}

/* Categories in their bytewise order, from `start` on. */
static void list_categories(weir_ingest__encoder *e, uint32_t column_idx,
                            const weir_ingest__categories *categories, uint32_t *start) {
    const weir_ingest__dictionary *dictionary = &categories->dictionary;
    const uint32_t *ranks = categories->ranks;
    e->description->columns[column_idx].category_start = *start;
    e->description->columns[column_idx].category_count = dictionary->count;
    for (uint32_t i = 0; i < dictionary->count; i++) {
        e->category_texts[*start + ranks[i]] = dictionary->strings[i];
        e->category_columns[*start + ranks[i]] = column_idx;
    }
    *start += dictionary->count;
}

/* Columns in ColumnIdx order, then derived tasks in name order. A column without categories has the block
 * (0, 0). */
static weir_status number_categories(weir_ingest__encoder *e, weir_error *error) {
    const weir_env *env = e->context->env;
    uint64_t count = 0;
    uint32_t start = 0;
    for (uint32_t t = 0; t < e->plan->table_count; t++)
        for (uint32_t c = 0; c < e->plan->tables[t].column_count; c++)
            count += e->ordered->tables[t].columns[c].categories.dictionary.count;
    for (uint32_t i = 0; i < e->plan->task_count; i++)
        count += e->tasks->list[i].categories.dictionary.count;
    if (count >= UINT32_MAX)
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                          "the categorical columns have more than 2^32-2 values; make some of them text");
    e->category_texts = weir__allocate(env, count, sizeof *e->category_texts);
    e->category_columns = weir__allocate(env, count, sizeof *e->category_columns);
    if (!e->category_texts || !e->category_columns)
        return weir_ingest__no_memory(error, count * 12);
    for (uint32_t t = 0; t < e->plan->table_count; t++)
        for (uint32_t c = 0; c < e->plan->tables[t].column_count; c++) {
            const weir_ingest__column_plan *column = &e->plan->tables[t].columns[c];
            const weir_ingest__table *table = &e->ordered->tables[t];
            if (weir_value_of(column->stype) == WEIR_VALUE_CATEGORY)
                list_categories(e, column->column_idx, &table->columns[c].categories, &start);
        }
    for (uint32_t i = 0; i < e->plan->task_count; i++) {
        const weir_ingest__task *task = &e->tasks->list[i];
        if (task->categories.ranks)
            list_categories(e, task->plan->column_idx, &task->categories, &start);
    }
    e->description->info.category_count = WEIR__NARROW(uint32_t, count);
    return WEIR_OK;
}

/* ---- The file -------------------------------------------------------------------------------- */

static weir_status write_sections(const weir_ingest__encoder *e, weir_ingest__embedder *embedder,
                                  weir_ingest_report *report, weir_error *error) {
    const weir_env *env = e->context->env;
    const weir_store_info *info = &e->description->info;
    uint64_t began = env->now_ns(env->context);
    weir_ingest__begin_phase(e->context, "write", info->row_count, 0);
    weir_cbor_writer metadata;
    weir_cbor_writer_memory(&metadata, e->context->env);
    weir_store__metadata_write(&e->description->info, &metadata);
    weir_status status = weir_cbor_finish(&metadata, error);
    if (status == WEIR_OK) {
        weir_store__writer_begin(e->writer, WEIR_STORE__SECTION_METADATA);
        weir_store__writer_put(e->writer, metadata.data, metadata.size);
    }
    weir_cbor_release(&metadata);
    WEIR__TRY(status);
    WEIR__TRY(write_rows(e, error));
    write_edges(e);
    write_seeds(e);
    write_texts(e, WEIR_STORE__SECTION_CATEGORY_OFFSETS, WEIR_STORE__SECTION_CATEGORY_BYTES, category_at,
                info->category_count);
    write_texts(e, WEIR_STORE__SECTION_TEXT_OFFSETS, WEIR_STORE__SECTION_TEXT_BYTES, weir_ingest__text_of,
                info->text_count);
    uint64_t before = e->writer->position;
    uint64_t wrote = env->now_ns(env->context);
    report->write_ns = wrote - began;
    status = embedder ? weir_ingest__write_embeddings(e, embedder, error) : WEIR_OK;
    report->embed_ns = env->now_ns(env->context) - wrote;
    report->embedding_bytes = e->writer->position - before;
    if (status == WEIR_OK)
        status = weir_ingest__write_keys(e, error);
    weir_ingest__write_labels(e);
    weir_ingest__write_links(e);
    return status;
}

static weir_status write_with(weir_ingest__encoder *e, weir_ingest__embedder *embedder,
                              weir_ingest_report *report, weir_error *error) {
    weir_store_info *info = &e->description->info;
    info->embedding_provider = embedder ? embedder->kind->provider : "none";
    info->embedding_dim = embedder ? embedder->dim : 0;
    WEIR__TRY(weir_ingest__like_check_embeddings(e->plan->like, info, error));
    /* Format 1, if its numbers suffice. */
    uint64_t rows = info->row_count;
    bool fits = e->context->options->format < 2 && rows <= WEIR_STORE__ROWS_MAX;
    for (uint32_t i = 0; i < e->plan->task_count; i++) {
        const weir_ingest__task *task = &e->tasks->list[i];
        fits = fits && task->seed_count <= WEIR_STORE__ROWS_MAX - (task->known ? rows : 0);
    }
    info->format = e->writer->format = fits ? 1 : 2;
    weir_store__number_rows(info, e->description->tables);
    WEIR__TRY(number_categories(e, error));
    WEIR__TRY(weir_ingest__choose_key_forms(e, error));
    WEIR__TRY(write_sections(e, embedder, report, error));
    return weir_store__writer_finish(e->writer, info->store_hash, &report->store_bytes, error);
}

weir_status weir_ingest__write_store(weir_ingest__context *context, const weir_ingest__tasks *tasks,
                                     weir_ingest__description *description, weir_store__writer *writer,
                                     weir_ingest_report *report, weir_error *error) {
    const weir_ingest__schema *schema = tasks->plan->schema;
    weir_ingest__embedder *embedder = NULL;
    weir_ingest__encoder e = {.context = context,
                              .plan = tasks->plan,
                              .ordered = tasks->ordered,
                              .linked = tasks->linked,
                              .tasks = tasks,
                              .description = description,
                              .writer = writer};
    if (!context->options->no_embeddings)
        WEIR__TRY(weir_ingest__embedder_open(context->env, schema->has_embedding ? &schema->embedding : NULL,
                                             &context->is_cancelled, &embedder, error));
    weir_status status = write_with(&e, embedder, report, error);
    weir__release(context->env, e.category_texts);
    weir__release(context->env, e.category_columns);
    weir_ingest__embedder_close(embedder);
    return status;
}
