/* Builds a batch: the sampler names the seeds; each is walked and written; then, when the number of rows is
 * known, the adjacency, the permutations and the texts. Nothing here allocates after open. */
#include <string.h>

#include "base/bytes.h"
#include "base/floating.h"
#include "batch/cells.h"
#include "batch/digest.h"
#include "batch/fetch.h"
#include "batch/order.h"
#include "batch/texts.h"
#include "store/reader.h"

static const char operator_name[] = "weir.batch.build";

/* Walks that take turns, so that they wait for memory together. */
enum { ABREAST = 8, FETCH_AHEAD = 24 };

struct weir_batch_builder {
    const weir_env *env;
    const weir_store *store;
    weir_sampler *sampler;
    weir_stage stage;
    weir_batch_config config;
    weir__batch_limits limits;
    weir__task_rules rules;
    weir__walk walks[ABREAST];
    weir__row_orders orders;
    weir__cell_writer writer;
    weir__digester digester;
    uint64_t *indices;
    weir_seed_row *seeds; /* of the sequences under way */
    uint32_t *row_counts; /* and their rows */
    uint64_t cardinality;
    uint32_t rank;
    uint32_t task;
    uint32_t first_seed; /* of the split */
    bool pads;
    weir_sha256 seed_prefix; /* of the walk seed's tuple, up to the epoch */
    bool has_walk_seed;
    uint64_t walk_epoch;
    weir_seed walk_seed;
};

/* ---- Opening --------------------------------------------------------------------------------- */

static weir_status find_dataset(weir_batch_builder *b, const weir_batch_options *options,
                                weir_stored_dataset *stored, weir_error *error) {
    weir_status status = weir_store_dataset(options->store, options->dataset, stored, error);
    const weir_dataset *dataset = weir_manifest_find(options->manifest, options->dataset);
    if (status != WEIR_OK)
        return status;
    b->task = stored->task;
    b->first_seed = weir_store_describe(options->store)->tasks[stored->task].split_start[stored->split];
    if (options->any_hash || !dataset || memcmp(dataset->hash, stored->hash, WEIR_HASH_SIZE) == 0)
        return WEIR_OK;
    return weir__fail(
        error, WEIR_CARDINALITY_MISMATCH, operator_name,
        "dataset '%s' has another hash in the manifest than in the store; write the manifest anew from the "
        "store that you train on",
        options->dataset);
}

/* In the contract's order: an unknown stage or key is the sampler's to refuse; then the dataset must be the
 * store's; then the sampler's other checks. */
static weir_status open_sampler(weir_batch_builder *b, const weir_batch_options *options, weir_error *error) {
    weir_stored_dataset stored = {0};
    weir_sampler_options sampling = {.size = sizeof sampling,
                                     .dataset = options->dataset,
                                     .stage = options->stage,
                                     .world_size = options->world_size,
                                     .rank = options->rank,
                                     .token = options->token,
                                     .token_size = options->token_size};
    weir_status status = WEIR_OK;
    bool is_stage = options->stage == WEIR_STAGE_TRAIN || options->stage == WEIR_STAGE_EVAL ||
                    options->stage == WEIR_STAGE_INFER;
    if (is_stage && weir_manifest_find(options->manifest, options->dataset)) {
        status = find_dataset(b, options, &stored, error);
        sampling.store_cardinality = &stored.cardinality;
    }
    if (status == WEIR_OK)
        status = weir_sampler_open(b->env, options->manifest, &sampling, &b->sampler, error);
    b->cardinality = stored.cardinality;
    return status;
}

static void prepare_walk_seed(weir_batch_builder *b, const weir_batch_options *options) {
    enum { ARRAY_OF_5 = 0x85 };
    static const uint8_t head = ARRAY_OF_5;
    weir_cbor_writer w;
    weir_sha256_init(&b->seed_prefix);
    weir_sha256_update(&b->seed_prefix, &head, 1);
    weir_cbor_writer_hash(&w, &b->seed_prefix);
    weir_cbor_text(&w, "walk_seed_v1");
    weir_cbor_restart(&w);
    weir_cbor_bytes(&w, options->token ? options->token : weir_manifest_token(options->manifest),
                    options->token ? options->token_size : WEIR_TOKEN_SIZE);
    weir_cbor_restart(&w);
    weir_cbor_bytes(&w, weir_manifest_hash(options->manifest), WEIR_HASH_SIZE);
    weir_cbor_restart(&w);
    weir_cbor_text(&w, options->dataset);
}

static weir_status beyond_memory(const weir_batch_builder *b, uint64_t sequences, weir_error *error) {
    return weir__fail(
        error, WEIR_OUT_OF_MEMORY, operator_name,
        "a batch of %llu sequences of %u cells is beyond any memory; use more ranks or a smaller batch",
        (unsigned long long)sequences, b->config.sequence_length);
}

static weir_status find_limits(weir_batch_builder *b, const weir_batch_options *options, weir_error *error) {
    const weir_store_info *info = weir_store_describe(b->store);
    uint64_t sequences = weir_manifest_global_batch_size(options->manifest) / options->world_size;
    uint64_t rows = b->config.max_rows < info->row_count ? b->config.max_rows : info->row_count;
    if (sequences > UINT32_MAX / b->config.sequence_length)
        return beyond_memory(b, sequences, error);
    uint64_t cells = sequences * b->config.sequence_length;
    b->limits = (weir__batch_limits){
        .sequences = WEIR__NARROW(uint32_t, sequences),
        .length = b->config.sequence_length,
        .rows = b->config.pad_rows ? b->config.max_rows : WEIR__NARROW(uint32_t, rows),
        .texts = cells < info->text_count ? WEIR__NARROW(uint32_t, cells) : info->text_count,
        .dim = info->embedding_dim,
        .edges = WEIR__NARROW(uint32_t, rows * weir__most_parents(info)), /* see WEIR__TABLE_EDGES_MAX */
    };
    return weir__batch_capacity(&b->limits) > PTRDIFF_MAX ? beyond_memory(b, sequences, error) : WEIR_OK;
}

static weir_status open_parts(weir_batch_builder *b, const weir_batch_options *options, weir_error *error) {
    const weir_store_info *info = weir_store_describe(b->store);
    weir_status status = find_limits(b, options, error);
    if (status == WEIR_OK)
        status =
            weir__task_rules_open(&b->rules, b->env, b->store, b->task, b->config.label_visibility, error);
    for (uint32_t i = 0; i < ABREAST && status == WEIR_OK; i++)
        status = weir__walk_open(&b->walks[i], b->env, &b->rules, b->store, &b->config, error);
    if (status == WEIR_OK)
        status = weir__row_orders_open(&b->orders, b->env, b->limits.rows, b->limits.edges, error);
    if (status == WEIR_OK)
        status = weir__cell_writer_open(&b->writer, b->env, &b->limits, info->table_count, error);
    if (status == WEIR_OK && options->with_digests)
        status = weir__digester_open(&b->digester, error);
    if (status != WEIR_OK)
        return status;
    b->indices = weir__allocate(b->env, b->limits.sequences, sizeof *b->indices);
    b->seeds = weir__allocate(b->env, b->limits.sequences, sizeof *b->seeds);
    b->row_counts = weir__allocate(b->env, b->limits.sequences, sizeof *b->row_counts);
    if (!b->indices || !b->seeds || !b->row_counts)
        return weir__out_of_memory(error, operator_name, b->limits.sequences * sizeof *b->indices);
    return WEIR_OK;
}

weir_status weir_batch_builder_open(const weir_env *env, const weir_batch_options *options,
                                    weir_batch_builder **out, weir_error *error) {
    env = weir__env(env);
    if (options->size < sizeof *options)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "options.size is %zu; set it to sizeof(weir_batch_options)", options->size);
    weir_batch_builder *b = weir__allocate_zero(env, 1, sizeof *b);
    if (!b)
        return weir__out_of_memory(error, operator_name, sizeof *b);
    b->env = env;
    b->store = options->store;
    b->stage = options->stage;
    b->rank = options->rank;
    b->pads = options->pad;
    b->config = *weir_manifest_batch(options->manifest);
    weir_status status = open_sampler(b, options, error);
    if (status == WEIR_OK) {
        prepare_walk_seed(b, options);
        status = open_parts(b, options, error);
    }
    if (status != WEIR_OK) {
        weir_batch_builder_close(b);
        return status;
    }
    *out = b;
    return WEIR_OK;
}

void weir_batch_builder_close(weir_batch_builder *b) {
    if (!b)
        return;
    weir_sampler_close(b->sampler);
    weir__task_rules_close(&b->rules, b->env);
    for (uint32_t i = 0; i < ABREAST; i++)
        weir__walk_close(&b->walks[i], b->env);
    weir__row_orders_close(&b->orders, b->env);
    weir__cell_writer_close(&b->writer, b->env);
    weir__digester_close(&b->digester);
    weir__release(b->env, b->indices);
    weir__release(b->env, b->seeds);
    weir__release(b->env, b->row_counts);
    weir__release(b->env, b);
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

static weir__batch_limits common_limits(weir_batch_builder *const *builders, size_t count) {
    weir__batch_limits all = builders[0]->limits;
    for (size_t i = 1; i < count; i++) {
        const weir__batch_limits *one = &builders[i]->limits;
        all.rows = larger(all.rows, one->rows);
        all.texts = larger(all.texts, one->texts);
        all.dim = larger(all.dim, one->dim);
        all.edges = larger(all.edges, one->edges);
    }
    return all;
}

uint64_t weir_batch_capacity(weir_batch_builder *const *builders, size_t count) {
    weir__batch_limits limits = common_limits(builders, count);
    return weir__batch_capacity(&limits);
}

weir_status weir_batch_buffer_open(weir_batch_builder *const *builders, size_t count, void *memory,
                                   weir_batch_buffer **out, weir_error *error) {
    weir__batch_limits limits = common_limits(builders, count);
    return weir__batch_buffer_open(builders[0]->env, &limits, memory, out, error);
}

/* ---- Sequences ------------------------------------------------------------------------------- */

/* The walk's seed of an epoch; evaluation always walks as in epoch 0. */
static weir_seed walk_seed_of(weir_batch_builder *b, uint64_t epoch) {
    if (b->has_walk_seed && b->walk_epoch == epoch)
        return b->walk_seed;
    uint8_t digest[WEIR_HASH_SIZE];
    weir_sha256 sha = b->seed_prefix;
    weir_cbor_writer w;
    weir_cbor_writer_hash(&w, &sha);
    weir_cbor_uint(&w, epoch);
    weir_sha256_final(&sha, digest);
    b->walk_seed = weir_seed_load(digest);
    b->walk_epoch = epoch;
    b->has_walk_seed = true;
    return b->walk_seed;
}

/* Which sample of its own epoch stands at place i of this rank's batch. */
static weir_cursor place_of(const weir_batch_builder *b, const weir_step *step, uint64_t i) {
    weir_cursor at = step->cursor_before;
    uint64_t position = at.global_index + b->rank * step->micro_batch_size + i;
    return (weir_cursor){at.epoch + position / b->cardinality, position % b->cardinality};
}

static void write_fields(weir_batch_buffer *buffer, uint32_t i, uint64_t sample, weir_cursor place,
                         const weir_seed_row *seed, uint32_t rows) {
    weir__store64(weir__part_of(buffer, WEIR_SAMPLE_INDEX, i), sample);
    weir__store64(weir__part_of(buffer, WEIR_POSITION, i), place.global_index);
    weir__store32(weir__part_of(buffer, WEIR_ANCHOR_ROW, i), seed->row);
    weir__store64(weir__part_of(buffer, WEIR_OBSERVATION_TIME, i), (uint64_t)seed->observation_time);
    weir__store32(weir__part_of(buffer, WEIR_NUM_CELLS, i), rows ? buffer->cell_counts[i] : 0);
    weir__store32(weir__part_of(buffer, WEIR_NUM_ROWS, i), rows);
}

/* Writes the cells of a finished walk; keeps its edges and row orders for when R is known. */
static void write_sequence(weir_batch_builder *b, weir_batch_buffer *buffer, uint32_t i, weir__walk *walk) {
    weir__write_cells(&b->writer, buffer, i, walk, &b->seeds[i].target);
    uint32_t edges = b->rules.may_repeat_parents
                         ? weir__unique_edges(&b->orders, walk->row_count, walk->edges, walk->edge_count)
                         : walk->edge_count;
    memcpy(buffer->edges + (size_t)i * buffer->limits.edges, walk->edges, edges * sizeof *buffer->edges);
    buffer->edge_counts[i] = edges;
    b->row_counts[i] = walk->row_count;
    uint32_t *rows = buffer->rows + (size_t)i * buffer->limits.rows;
    uint32_t *starts = weir__row_starts_of(buffer, i);
    for (uint32_t r = 0; r < walk->row_count; r++) {
        rows[r] = walk->rows[r].row;
        starts[r] = walk->rows[r].first_cell;
    }
    starts[0] = 0; /* the target is the anchor's too */
    starts[walk->row_count] = buffer->cell_counts[i];
    uint16_t *orders = weir__row_orders_of(buffer, i);
    weir__row_order(&b->orders, walk->row_count, walk->edges, edges, orders, orders + buffer->limits.rows);
}

/* ---- Adjacency and permutations -------------------------------------------------------------- */

/* Entries lie far apart: each is asked for some edges before it is set. */
static void set_edges(weir_batch_buffer *buffer, uint32_t sequences, uint64_t offset, uint32_t rows,
                      uint8_t value) {
    for (uint32_t i = 0; i < sequences; i++) {
        const struct weir__local_edge *edges = buffer->edges + (size_t)i * buffer->limits.edges;
        uint8_t *matrix = buffer->data + offset + (uint64_t)i * rows * rows;
        uint32_t count = buffer->edge_counts[i];
        for (uint32_t k = 0; k < count; k++) {
            const struct weir__local_edge *ahead = &edges[k + FETCH_AHEAD < count ? k + FETCH_AHEAD : k];
            weir__fetch_to_write(matrix + (size_t)ahead->child * rows + ahead->parent);
            matrix[(size_t)edges[k].child * rows + edges[k].parent] = value;
        }
    }
}

/* Makes the new fk_adj region zero: the old one is undone before its edges are overwritten (see begin), so
 * only what lay behind it may be left, of the last batch or of a larger one before it. */
static void clear_behind(weir_batch_buffer *buffer, uint64_t old_end) {
    const weir_tensor *adjacency = &buffer->batch.tensors[WEIR_FK_ADJ];
    uint64_t end = adjacency->offset + adjacency->size;
    uint64_t dirty_end = end < buffer->written ? end : buffer->written;
    if (old_end < dirty_end)
        memset(buffer->data + old_end, 0, (size_t)(dirty_end - old_end));
}

/* Positions are below S, at most 2^16. */
static inline void write_positions(uint8_t *out, uint32_t first, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        weir__store16(out + 2 * (size_t)i, WEIR__LOW(uint16_t, first + i));
}

/* The positions of each row, together, rows in the given order. Short rows are written with a fixed size
 * where there is room: what lies beyond is overwritten by what follows. */
static void write_row_order(const uint16_t *order, uint32_t rows, const uint32_t *starts, uint32_t length,
                            uint8_t *out) {
    uint32_t place = 0;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t start = starts[order[i]];
        uint32_t count = starts[order[i] + 1] - start;
        if (count <= WEIR__RUN && place + WEIR__RUN <= length)
            write_positions(out + 2 * (size_t)place, start, WEIR__RUN);
        else
            write_positions(out + 2 * (size_t)place, start, count);
        place += count;
    }
}

static void write_permutations(weir_batch_buffer *buffer, uint32_t i, uint32_t rows) {
    uint32_t cells = buffer->cell_counts[i];
    uint32_t length = buffer->batch.sequence_length;
    uint8_t *columns = weir__part_of(buffer, WEIR_COL_PERM, i);
    uint8_t *outs = weir__part_of(buffer, WEIR_OUT_PERM, i);
    uint8_t *ins = weir__part_of(buffer, WEIR_IN_PERM, i);
    const uint32_t *starts = weir__row_starts_of(buffer, i);
    const uint16_t *orders = weir__row_orders_of(buffer, i);
    memcpy(columns, buffer->column_orders + 2 * (size_t)i * buffer->limits.length, 2 * (size_t)cells);
    write_row_order(orders, rows, starts, length, outs);
    write_row_order(orders + buffer->limits.rows, rows, starts, length, ins);
    write_positions(columns + 2 * (size_t)cells, cells, length - cells);
    write_positions(outs + 2 * (size_t)cells, cells, length - cells);
    write_positions(ins + 2 * (size_t)cells, cells, length - cells);
}

/* ---- A batch --------------------------------------------------------------------------------- */

/* Undoes what the next batch would not overwrite, where the sizes stay; begins anew where they do not. */
static void begin(weir_batch_buffer *buffer, uint32_t sequences, uint32_t length) {
    weir_batch *batch = &buffer->batch;
    if (buffer->has_batch && batch->sequence_count == sequences && batch->sequence_length == length) {
        set_edges(buffer, sequences, batch->tensors[WEIR_FK_ADJ].offset, batch->row_count, 0);
        return;
    }
    memset(buffer->data, 0, (size_t)buffer->written);
    buffer->written = 0;
    memset(buffer->timestamp_counts, 0, buffer->limits.sequences * sizeof *buffer->timestamp_counts);
    *batch = (weir_batch){0};
    buffer->has_batch = false;
    weir__batch_place_cells(batch, sequences, length);
}

static weir_status corrupt(const weir_batch_builder *b, weir_batch_buffer *buffer, weir_error *error) {
    buffer->has_batch = false;
    buffer->written = buffer->capacity; /* anything may be there: the next batch clears all of it */
    weir_status status = weir_store_status(b->store, error);
    if (status != WEIR_OK)
        return status;
    return weir__fail(
        error, WEIR_STORE_CORRUPT, operator_name,
        "the store's rows point to rows that do not exist; run 'weir verify' on it and ingest anew");
}

static void describe(const weir_batch_builder *b, weir_batch_buffer *buffer, const weir_step *step) {
    weir_batch *batch = &buffer->batch;
    const weir_task *task = &weir_store_describe(b->store)->tasks[b->task];
    const weir_column *target = &weir_store_describe(b->store)->columns[task->column];
    bool is_categorical = task->stype == WEIR_CATEGORICAL;
    batch->step = *step;
    batch->task = b->task;
    batch->target_stype = task->stype;
    batch->category_start = is_categorical ? target->category_start : 0;
    batch->category_count = is_categorical ? target->category_count : 0;
    batch->data = buffer->data;
    batch->epochs = buffer->epochs;
    batch->rows = buffer->rows;
    batch->row_stride = buffer->limits.rows;
    batch->sample_digests = buffer->digests;
    batch->has_digests = b->digester.is_open;
}

static bool begin_walk(weir_batch_builder *b, weir_batch_buffer *buffer, const weir_step *step, uint32_t i,
                       weir__walk *walk) {
    weir_cursor place = place_of(b, step, i);
    weir_seed_row *seed = &b->seeds[i];
    uint64_t epoch = b->stage == WEIR_STAGE_TRAIN ? place.epoch : 0;
    buffer->epochs[i] = place.epoch;
    if (!weir_store_seed(b->store, b->task, b->first_seed + WEIR__NARROW(uint32_t, b->indices[i]), seed))
        return false;
    weir__walk_begin(walk, walk_seed_of(b, epoch), place.global_index, seed->row, seed->observation_time);
    return true;
}

/* Takes the walks row by row, all looking before any visits, until each is done. */
static void finish_walks(weir__walk *walks, uint32_t count) {
    weir__walk *active[ABREAST];
    for (uint32_t k = 0; k < count; k++)
        active[k] = &walks[k];
    while (count > 0) {
        uint32_t left = 0;
        for (uint32_t k = 0; k < count; k++)
            weir__walk_look(active[k]);
        for (uint32_t k = 0; k < count; k++) {
            active[left] = active[k];
            left += weir__walk_visit(active[k]);
        }
        count = left;
    }
}

/* Walks up to ABREAST seeds from the first-th on and writes them; false where the store is damaged. */
static bool write_group(weir_batch_builder *b, weir_batch_buffer *buffer, const weir_step *step,
                        uint32_t first, uint32_t count) {
    for (uint32_t k = 0; k < count; k++)
        if (!begin_walk(b, buffer, step, first + k, &b->walks[k]))
            return false;
    finish_walks(b->walks, count);
    weir__fetch_cells(buffer, first);
    for (uint32_t k = 0; k < count; k++) {
        if (b->walks[k].is_corrupt)
            return false;
        if (k + 1 < count)
            weir__fetch_cells(buffer, first + k + 1);
        write_sequence(b, buffer, first + k, &b->walks[k]);
    }
    return true;
}

static void write_padding(weir_batch_builder *b, weir_batch_buffer *buffer, uint32_t i) {
    b->seeds[i] = (weir_seed_row){0};
    b->row_counts[i] = 0;
    buffer->epochs[i] = 0;
    buffer->edge_counts[i] = 0;
    weir__write_padding(buffer, i);
}

/* Walks and writes all sequences; false where the store is damaged. */
static bool write_sequences(weir_batch_builder *b, weir_batch_buffer *buffer, const weir_step *step) {
    uint32_t valid = WEIR__NARROW(uint32_t, step->valid_count);
    b->writer.texts.use_count = 0;
    for (uint32_t first = 0; first < valid; first += ABREAST)
        if (!write_group(b, buffer, step, first, valid - first < ABREAST ? valid - first : ABREAST))
            return false;
    for (uint32_t i = valid; i < buffer->batch.sequence_count; i++)
        write_padding(b, buffer, i);
    return true;
}

/* Everything behind the cells: places, adjacency, permutations, digests of the samples, texts, fields. False
 * if the store is damaged. */
static bool complete(weir_batch_builder *b, weir_batch_buffer *buffer, const weir_step *step,
                     uint64_t old_adjacency_end) {
    weir_batch *batch = &buffer->batch;
    const weir_store_info *info = weir_store_describe(b->store);
    uint32_t rows = b->config.pad_rows && batch->sequence_count > 0 ? b->config.max_rows : 0;
    for (uint32_t i = 0; i < batch->sequence_count; i++)
        rows = b->row_counts[i] > rows ? b->row_counts[i] : rows;
    weir__batch_place_rest(batch, rows, weir__gather_texts(&b->writer.texts, info->text_count),
                           info->embedding_dim);
    clear_behind(buffer, old_adjacency_end);
    buffer->written = batch->size > buffer->written ? batch->size : buffer->written;
    set_edges(buffer, batch->sequence_count, batch->tensors[WEIR_FK_ADJ].offset, rows, 1);
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        bool is_valid = i < step->valid_count;
        weir_cursor place = is_valid ? place_of(b, step, i) : (weir_cursor){0, 0};
        write_permutations(buffer, i, b->row_counts[i]);
        write_fields(buffer, i, is_valid ? b->indices[i] : 0, place, &b->seeds[i], b->row_counts[i]);
        if (b->digester.is_open)
            buffer->digests[i] = weir__sample_digest(&b->digester, buffer, i, b->row_counts[i]);
    }
    weir__localise_texts(&b->writer.texts, buffer->data + batch->tensors[WEIR_TEXT_EMBED_IDS].offset);
    if (batch->embedding_dim > 0 &&
        !weir__copy_texts(&b->writer.texts, b->store,
                          buffer->data + batch->tensors[WEIR_TEXT_BATCH_EMBEDDINGS].offset))
        return false;
    if (b->digester.is_open)
        weir__batch_digest(&b->digester, batch, buffer->data, batch->batch_digest);
    return true;
}

static bool fits(const weir__batch_limits *needed, const weir__batch_limits *there) {
    return needed->sequences <= there->sequences && needed->length == there->length &&
           needed->rows <= there->rows && needed->texts <= there->texts && needed->dim <= there->dim &&
           needed->edges <= there->edges;
}

static __attribute__((noinline)) weir_status build(weir_batch_builder *b, weir_cursor cursor,
                                                   weir_batch_buffer *buffer, weir_error *error) {
    weir_step step;
    if (!fits(&b->limits, &buffer->limits))
        return weir__fail(
            error, WEIR_CONTRACT_VIOLATION, operator_name,
            "the buffer was made for another batch size, config or store; open one with this builder");
    weir_status status = weir_sampler_step(b->sampler, cursor, &step, error);
    if (status != WEIR_OK)
        return status;
    weir_sampler_indices(b->sampler, &step, b->indices);
    uint32_t sequences =
        b->pads ? WEIR__NARROW(uint32_t, step.micro_batch_size) : WEIR__NARROW(uint32_t, step.valid_count);
    begin(buffer, sequences, b->config.sequence_length);
    const weir_tensor old_adjacency = buffer->batch.tensors[WEIR_FK_ADJ];
    bool is_whole = write_sequences(b, buffer, &step) &&
                    complete(b, buffer, &step, old_adjacency.offset + old_adjacency.size);
    if (!is_whole || weir__store_is_unreadable(b->store))
        return corrupt(b, buffer, error);
    describe(b, buffer, &step);
    buffer->has_batch = true;
    return WEIR_OK;
}

weir_status weir_batch_build(weir_batch_builder *b, weir_cursor cursor, weir_batch_buffer *buffer,
                             weir_error *error) {
    weir__floating kept = weir__enter_floating();
    weir_status status = build(b, cursor, buffer, error);
    weir__leave_floating(&kept);
    return status;
}
