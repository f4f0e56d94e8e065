/* See build.h. Nothing here allocates, takes a lock or calls the system; only the store does, when a block is
 * verified (store/touch.h). */
#include "batch/build.h"

#include <string.h>

#include "base/bytes.h"
#include "base/narrow.h"
#include "batch/expand.h"
#include "batch/expand_kernel.h"
#include "batch/link_groups.h"
#include "batch/mixed.h"
#include "batch/neighbours.h"
#include "sampler/sampler.h"
#include "store/reader.h"

static const char operator_name[] = "weir.batch.build";

/* ---- A thread's memory ----------------------------------------------------------------------- */

static void carve(weir_batch__worker *w, const weir_batch__recipe *recipe) {
    const weir_batch__limits *l = &recipe->limits;
    weir_batch__text_sorter_carve(&w->sorter, &w->scratch, l->all_texts);
    if (recipe->source_count > 0) /* each of its datasets has a worker of its own */
        return;
    for (uint32_t i = 0; i < WEIR_BATCH__ABREAST; i++)
        weir_batch__walk_carve(&w->walks[i], &w->scratch, recipe->store, &recipe->rules, &recipe->config,
                               weir_batch__retrieves(&recipe->rules, &recipe->config) ? &w->retriever : NULL);
    weir_batch__retriever_carve(&w->retriever, &w->scratch, recipe->store, &recipe->rules, &recipe->config);
    weir_batch__compact_writer_carve(&w->writer, &w->scratch, &recipe->rules, l);
    w->writer.mask_permille = recipe->stage == WEIR_STAGE_TRAIN ? recipe->config.mask_permille : 0;
}

weir_status weir_batch__worker_open(weir_batch_builder *builder, weir_error *error) {
    weir_batch__worker *w = &builder->worker;
    const weir_batch__recipe *recipe = &builder->recipe;
    *w = (weir_batch__worker){0};
    carve(w, recipe);
    if (!weir__block_open(&w->scratch, recipe->env))
        return weir__out_of_memory(error, operator_name, (size_t)w->scratch.size);
    carve(w, recipe);
    if (w->retriever.rules)
        WEIR__TRY(weir_batch__share_links(&w->retriever, &recipe->config, error));
    return recipe->with_digests ? weir_batch__digester_open(&w->digester, recipe->env, &recipe->limits, error)
                                : WEIR_OK;
}

/* ---- Which samples --------------------------------------------------------------------------- */

/* The samples at this rank's places, each of its own epoch, and their sequences. */
static void list_samples(const weir_batch__recipe *r, weir_batch_buffer *b, const weir_step *step) {
    weir_cursor at = step->cursor_before;
    uint64_t first = at.global_index + r->rank * step->micro_batch_size, epoch = 0;
    weir_seed walk_seed = {0};
    memset(b->epochs, 0, b->batch.sequence_count * sizeof *b->epochs);
    for (uint64_t i = 0; i < step->valid_count; i++) {
        weir_batch__sample *sequences = &b->samples[i * r->group_size];
        weir_batch__sample sample = {.index = b->indices[i], .position = (first + i) % r->cardinality};
        uint64_t before = epoch;
        epoch = at.epoch + (first + i) / r->cardinality;
        if (i == 0 || epoch != before)
            walk_seed = weir_batch__walk_seed(r, epoch);
        sample.walk_seed = walk_seed;
        /* A sample's sequence is the same in eval_seeded as in eval, where its position is its index. */
        sample.walk_position = r->stage == WEIR_STAGE_EVAL_SEEDED ? sample.index : sample.position;
        sample.table = r->rules.task->anchor_table;
        for (uint32_t k = 0; k < r->group_size; k++)
            b->epochs[i * r->group_size + k] = epoch;
        if (!r->rules.task->link.is_link)
            sequences[0] = sample;
        else if (!weir_batch__list_group(r, &sample, sequences))
            b->is_corrupt = true;
    }
}

weir_status weir_batch__check_buffer(const weir_batch_builder *builder, const weir_batch_buffer *b,
                                     weir_error *error) {
    const weir_batch__limits *needed = &builder->recipe.limits;
    weir_batch__limits both = weir_batch__limits_of_both(needed, &b->limits);
    if (memcmp(&both, &b->limits, sizeof both) == 0 && needed->length == b->limits.length)
        return WEIR_OK;
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                      "the buffer was made for other datasets, another batch size or config; open one "
                      "with this builder");
}

void weir_batch__empty(const weir_batch_builder *builder, weir_batch_buffer *b, const weir_step *step,
                       uint64_t sequence_count) {
    const weir_batch__recipe *r = &builder->recipe;
    b->batch = (weir_batch){.step = *step,
                            .sequence_count = WEIR__NARROW(uint32_t, sequence_count),
                            .group_size = r->group_size,
                            .sequence_length = step->sequence_length};
    b->tensors_asked = r->config.tensors;
    b->row_stride = weir_batch__row_stride(r, step->sequence_length);
    b->used = sequence_offset(b->batch.sequence_count);
    b->use_count = 0;
    b->is_corrupt = false;
}

weir_status weir_batch__begin(weir_batch_builder *builder, weir_cursor cursor, weir_batch_buffer *b,
                              weir_error *error) {
    const weir_batch__recipe *r = &builder->recipe;
    weir_step step;
    if (!builder->sampler)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "the builder is one for requests, which has no cursor; use weir_context_build");
    WEIR__TRY(weir_batch__check_buffer(builder, b, error));
    WEIR__TRY(weir_sampler_step(builder->sampler, cursor, &step, error));
    weir_sampler_indices(builder->sampler, &step, b->indices);
    weir_batch__empty(builder, b, &step,
                      r->group_size * (r->pads ? step.micro_batch_size : step.valid_count));
    if (builder->mixture)
        return weir_batch__mixture_list(builder, b, cursor, error);
    list_samples(r, b, &step);
    return WEIR_OK;
}

/* ---- Walks ----------------------------------------------------------------------------------- */

/* Begins the walk of a sequence; false if the store is damaged. */
static bool begin_walk(const weir_batch__recipe *r, const weir_batch_buffer *b, uint32_t index,
                       weir_batch__walk *walk, weir_seed_row *seed) {
    const weir_batch__sample *sample = &b->samples[index];
    uint64_t number = sample->is_given ? sample->stored : r->first_seed + sample->index;
    if (sample->is_given)
        *seed = sample->seed;
    else if (!weir_store_seed(r->store, r->task, number, seed))
        return false;
    uint64_t row = seed->row - r->rules.tables[sample->table].row_start;
    weir_batch__outlook from = {.seed = sample->walk_seed,
                                .position = sample->walk_position,
                                .anchor_table = sample->table,
                                .anchor_row = WEIR__NARROW(uint32_t, row),
                                .own_row = WEIR_NONE};
    if (r->rules.has_task_rows) /* one that is none of the store's has a row of its own behind theirs */
        from.own_row = WEIR__NARROW(uint32_t, number == WEIR_NO_ROW ? r->rules.task->seed_count : number);
    weir_batch__walk_begin(walk, &from, seed->observation_time, b->batch.sequence_length);
    return true;
}

/* Whether a sequence is of the recipe's dataset. */
static bool is_own(const weir_batch__recipe *r, const weir_batch_buffer *b, uint32_t index) {
    return b->samples[index].member == r->member;
}

/* The next sequence from `first` on that is walked; those that have nothing to show are padding. */
static uint32_t next_walked(const weir_batch__recipe *r, weir_batch_buffer *b, uint32_t first, uint32_t end) {
    for (; first < end && (b->samples[first].is_absent || !is_own(r, b, first)); first++)
        if (b->samples[first].is_absent)
            weir_batch__write_padding(b, first);
    return first;
}

/* Asks for the pages of all seeds, and then of the rows that they begin at. */
static void expect_seeds(const weir_batch__recipe *r, const weir_batch_buffer *b, uint32_t first,
                         uint32_t end) {
    const uint8_t *rows = r->rules.task->seed_rows;
    weir_seed_row seed;
    for (uint32_t i = first; i < end; i++)
        if (!b->samples[i].is_given && is_own(r, b, i))
            weir_store__expect(r->store, rows + 4 * (r->first_seed + b->samples[i].index));
    for (uint32_t i = first; i < end; i++) {
        if (!is_own(r, b, i))
            continue;
        const weir_batch__table_rules *table = &r->rules.tables[b->samples[i].table];
        uint64_t number = r->first_seed + b->samples[i].index;
        if (!b->samples[i].is_given && table->records && weir_store_seed(r->store, r->task, number, &seed) &&
            seed.row - table->row_start < table->row_count)
            weir_store__expect(
                r->store, weir_batch__record_of(table, WEIR__LOW(uint32_t, seed.row - table->row_start)));
    }
}

/* Walks take turns; one that is done is written, and the next sequence's takes its place. */
static bool walk_all(const weir_batch__recipe *r, weir_batch__worker *w, weir_batch_buffer *b, uint32_t first,
                     uint32_t end) {
    uint32_t places[WEIR_BATCH__ABREAST], indices[WEIR_BATCH__ABREAST], active = 0;
    if (__builtin_expect(r->store->reads_ahead, 0))
        expect_seeds(r, b, first, end);
    for (; active < WEIR_BATCH__ABREAST && (first = next_walked(r, b, first, end)) < end; active++, first++) {
        places[active] = active;
        indices[active] = first;
        if (!begin_walk(r, b, first, &w->walks[active], &w->seeds[active]))
            return false;
    }
    for (uint32_t k = 0; active > 0; k = k + 1 < active ? k + 1 : 0) {
        uint32_t place = places[k];
        weir_batch__walk *walk = &w->walks[place];
        if (weir_batch__walk_step(walk))
            continue;
        if (walk->is_corrupt)
            return false;
        weir_batch__write_sequence(&w->writer, b, indices[k], walk, &w->seeds[place]);
        first = next_walked(r, b, first, end);
        if (first < end) {
            indices[k] = first++;
            if (!begin_walk(r, b, indices[k], walk, &w->seeds[place]))
                return false;
        } else {
            active--;
            places[k] = places[active];
            indices[k] = indices[active];
        }
    }
    return true;
}

void weir_batch__walk_own(weir_batch_builder *builder, weir_batch_buffer *b, uint32_t first, uint32_t end) {
    if (!b->is_corrupt && !walk_all(&builder->recipe, &builder->worker, b, first, end))
        b->is_corrupt = true;
}

void weir_batch__walk_unit(weir_batch_builder *builder, weir_batch_buffer *b, uint32_t first,
                           uint32_t count) {
    uint32_t end = first + count;
    uint32_t valid = WEIR__LOW(uint32_t, b->batch.step.valid_count * builder->recipe.group_size);
    if (builder->mixture) {
        weir_batch__mixture_walk(builder, b, first, end);
        return;
    }
    weir_batch__walk_own(builder, b, first, end < valid ? end : valid);
    for (uint32_t i = first > valid ? first : valid; i < end; i++)
        weir_batch__write_padding(b, i);
}

/* ---- The whole ------------------------------------------------------------------------------- */

weir_batch_source weir_batch__source_of(const weir_batch__recipe *r) {
    const weir_task *task = r->rules.task;
    const weir_column *column =
        weir_value_of(task->stype) == WEIR_VALUE_CATEGORY ? &r->rules.info->columns[task->column] : NULL;
    return (weir_batch_source){.store = r->store,
                               .first_column = r->origin.first_column,
                               .first_category = r->origin.first_category,
                               .task = r->task,
                               .target_stype = task->stype,
                               .category_start =
                                   column ? r->origin.first_category + column->category_start : 0,
                               .category_count = column ? column->category_count : 0};
}

/* The sequences are of one dataset, or of several. */
static void describe(const weir_batch__recipe *r, weir_batch_buffer *b) {
    weir_batch *batch = &b->batch;
    if (r->source_count > 0) {
        batch->sources = r->sources;
        batch->source_count = r->source_count;
        batch->dataset_ids = b->dataset_ids;
    } else {
        weir_batch_source source = weir_batch__source_of(r);
        batch->task = source.task;
        batch->target_stype = source.target_stype;
        batch->category_start = source.category_start;
        batch->category_count = source.category_count;
    }
    batch->data = b->tensors;
    batch->compact = b->compact;
    batch->rules = r->rules.expansion;
    batch->rules_size = r->rules.expansion_size;
    batch->epochs = b->epochs;
    batch->indices = b->indices;
    batch->anchor_rows = b->anchors;
    if (b->hides_anchors)
        batch->tensors[WEIR_ANCHOR_ROW].shape[0] = batch->tensors[WEIR_ANCHOR_ROW].size = 0;
    batch->rows = b->rows;
    batch->visits = b->visits;
    batch->row_stride = b->row_stride;
    batch->sample_digests = b->digests;
    batch->group_digests = r->group_size > 1 ? b->group_digests : b->digests;
    batch->has_digests = r->with_digests;
}

/* Writes the embeddings of texts [begin, count), which are in the order of the stores. False if one is
 * damaged, or what was verified before cannot be read since. */
static bool copy_texts(const weir_batch__recipe *r, const weir_batch_buffer *b, uint32_t begin,
                       uint32_t count, uint8_t *out) {
    bool is_whole = true;
    for (uint32_t i = 0; i < r->origin_count; i++) {
        const weir_batch__origin *origin = &r->origins[i];
        const weir_store_info *info = weir_store_describe(origin->store);
        uint32_t end = begin;
        while (end < count && b->texts[end] - origin->first_text < info->text_count)
            end++;
        if (info->embedding_dim > 0)
            is_whole &=
                weir_batch__copy_texts(origin->store, b->texts + begin, end - begin, origin->first_text, out);
        is_whole &= !weir_store__is_unreadable(origin->store);
        out += 2 * (size_t)(end - begin) * info->embedding_dim;
        begin = end;
    }
    return is_whole;
}

uint32_t weir_batch__number_texts(weir_batch_builder *builder, weir_batch_buffer *b) {
    const weir_batch__recipe *r = &builder->recipe;
    const weir_batch__origin *last = &r->origins[r->origin_count - 1];
    return weir_batch__localise_texts(&builder->worker.sorter, b->uses, b->use_count,
                                      last->first_text + weir_store_describe(last->store)->text_count,
                                      b->texts, b->compact);
}

/* Writes the texts behind the blobs, and the header; false if the store is damaged. */
static bool write_texts(weir_batch_builder *builder, weir_batch_buffer *b) {
    const weir_batch__recipe *r = &builder->recipe;
    weir_batch *batch = &b->batch;
    batch->text_count = weir_batch__number_texts(builder, b);
    batch->embedding_dim = weir_store_describe(r->origins[r->origin_count - 1].store)->embedding_dim;
    batch->row_count = r->config.pad_rows && batch->sequence_count > 0 ? r->config.max_rows : 0;
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        uint32_t rows = weir__load32(b->compact + sequence_offset(i) + SEQUENCE_ROWS);
        batch->row_count = rows > batch->row_count ? rows : batch->row_count;
    }
    weir_batch__place(batch, b->tensors_asked);
    uint32_t texts = batch->text_count;
    uint64_t size = 2 * (uint64_t)batch->embedding_dim;
    uint64_t texts_at = (b->used + 15) & ~(uint64_t)15, room = b->room.compact - texts_at;
    uint32_t here = texts * size <= room ? texts : WEIR__LOW(uint32_t, room / size);
    batch->compact_size = texts_at + texts * size;
    b->here = texts_at + here * size;
    uint64_t words[COMPACT_WORDS] = {
        [COMPACT_SIZE] = batch->compact_size,        [COMPACT_BATCH_SIZE] = batch->size,
        [COMPACT_SEQUENCES] = batch->sequence_count, [COMPACT_LENGTH] = batch->sequence_length,
        [COMPACT_ROWS] = batch->row_count,           [COMPACT_TEXTS] = texts_at,
        [COMPACT_TEXT_SIZE] = texts * size,          [COMPACT_TENSORS] = b->tensors_asked,
    };
    for (uint32_t i = 0; i < WEIR_BATCH_PARTS; i++) {
        bool is_shared = i == WEIR_TEXT_BATCH_EMBEDDINGS || batch->sequence_count == 0;
        words[COMPACT_PARTS + i] = batch->tensors[i].offset;
        words[COMPACT_STRIDES + i] = is_shared ? 0 : batch->tensors[i].size / batch->sequence_count;
    }
    for (uint32_t i = 0; i < COMPACT_WORDS; i++)
        weir__store64(b->compact + 8 * (size_t)i, words[i]);
    return copy_texts(r, b, 0, here, b->compact + texts_at) &&
           (here == texts || copy_texts(r, b, here, texts, b->beyond));
}

weir_status weir_batch__finish(weir_batch_builder *builder, weir_cursor cursor, weir_batch_buffer *b,
                               weir_error *error) {
    const weir_batch__recipe *r = &builder->recipe;
    weir_status status = WEIR_OK;
    if (!b->is_corrupt && write_texts(builder, b)) {
        describe(r, b);
        return WEIR_OK;
    }
    /* What is damaged, if a block or a page of a store is. */
    for (uint32_t i = 0; i < r->origin_count && status == WEIR_OK; i++)
        status = weir_store_status(r->origins[i].store, error);
    if (status == WEIR_OK)
        status = weir__fail(
            error, WEIR_STORE_CORRUPT, operator_name,
            "the store's rows point to rows that do not exist; run 'weir verify' on it and ingest anew");
    if (builder->sampler)
        weir_sampler__name_step(builder->sampler, cursor, error);
    return status;
}

void weir_batch__expand_sequences(weir_batch_buffer *b, uint32_t first, uint32_t count) {
    if (b->tensors)
        weir_batch__expand_unit(b->batch.rules, b->compact, b->tensors, first, count);
}

void weir_batch__digest(weir_batch_builder *builder, weir_batch_buffer *b) {
    const weir_batch__recipe *r = &builder->recipe;
    const weir_batch__rules *const only = &r->rules;
    if (r->with_digests)
        weir_batch__digest_batch(&builder->worker.digester, r->source_count > 0 ? r->all_rules : &only, b);
}

weir_status weir_batch__complete(weir_batch_builder *builder, weir_cursor cursor, weir_batch_buffer *b,
                                 weir_error *error) {
    uint32_t count = b->batch.sequence_count;
    weir_batch__walk_unit(builder, b, 0, count);
    WEIR__TRY(weir_batch__finish(builder, cursor, b, error));
    weir_batch__expand_sequences(b, 0, count);
    weir_batch__digest(builder, b);
    return WEIR_OK;
}
