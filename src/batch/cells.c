/* Cells to tensors. What a row has whatever its values (its number, its columns and their types) is copied
 * row by row, as ready runs. Its values are written column by column: the rows of a table are brought
 * together, and then each column is one loop over them that knows its type and slot, where a loop over a
 * row's cells would guess anew at every cell. As columns come in order and their rows too, that order is
 * col_perm.
 *
 * The 4-byte value tensors of a sequence are cleared before they are filled: they are 12 bytes a cell that
 * must be written anyway. timestamp_values is 60 bytes a cell and mostly zero: there, the cells that the
 * last batch wrote are cleared one by one, and nothing else. */
#include "batch/cells.h"

#include <string.h>

#include "base/bytes.h"

static const char operator_name[] = "weir.batch.cells";

/* ---- Opening --------------------------------------------------------------------------------- */

weir_status weir__cell_writer_open(weir__cell_writer *writer, const weir_env *env,
                                   const weir__batch_limits *limits, uint32_t tables, weir_error *error) {
    weir_status status =
        weir__text_gatherer_open(&writer->texts, env, limits->sequences * limits->length, error);
    if (status != WEIR_OK)
        return status;
    writer->timestamp_parts = weir__timestamp_parts_open(env);
    writer->rows = weir__allocate(env, limits->rows, sizeof *writer->rows);
    writer->table_ends = weir__allocate(env, (size_t)tables + 1, sizeof *writer->table_ends);
    if (writer->timestamp_parts && writer->rows && writer->table_ends)
        return WEIR_OK;
    weir__cell_writer_close(writer, env);
    return weir__out_of_memory(error, operator_name, sizeof *writer->timestamp_parts);
}

void weir__cell_writer_close(weir__cell_writer *writer, const weir_env *env) {
    weir__text_gatherer_close(&writer->texts, env);
    weir__release(env, writer->timestamp_parts);
    weir__release(env, writer->rows);
    weir__release(env, writer->table_ends);
    *writer = (weir__cell_writer){0};
}

/* ---- A sequence's stretch of each tensor ----------------------------------------------------- */

typedef struct sequence {
    uint8_t *stypes, *column_ids, *row_ids, *is_null, *numbers, *bools, *categories, *texts, *is_target,
        *is_padding;
    uint8_t *column_order; /* where the next position goes */
    weir__timestamps timestamps;
    uint32_t length;
    uint32_t cells;      /* that are not cut */
    bool has_target;     /* in the column order */
    uint32_t first_cell; /* of the batch */
    int64_t observation_time;
    const weir_store_info *info;
    weir__cell_writer *writer;
} sequence;

static sequence sequence_of(weir_batch_buffer *b, uint32_t index) {
    return (sequence){
        .stypes = weir__part_of(b, WEIR_SEMANTIC_TYPES, index),
        .column_ids = weir__part_of(b, WEIR_COLUMN_IDS, index),
        .row_ids = weir__part_of(b, WEIR_SEQ_ROW_IDS, index),
        .is_null = weir__part_of(b, WEIR_IS_NULL, index),
        .numbers = weir__part_of(b, WEIR_NUMERIC_VALUES, index),
        .timestamps = {.out = weir__part_of(b, WEIR_TIMESTAMP_VALUES, index),
                       .cells = b->timestamp_cells + (size_t)index * b->limits.length},
        .bools = weir__part_of(b, WEIR_BOOL_VALUES, index),
        .categories = weir__part_of(b, WEIR_CATEGORICAL_EMBED_IDS, index),
        .texts = weir__part_of(b, WEIR_TEXT_EMBED_IDS, index),
        .is_target = weir__part_of(b, WEIR_IS_TARGET, index),
        .is_padding = weir__part_of(b, WEIR_IS_PADDING, index),
        .column_order = b->column_orders + 2 * (size_t)index * b->limits.length,
        .length = b->batch.sequence_length,
        .first_cell = index * b->batch.sequence_length,
    };
}

void weir__fetch_cells(weir_batch_buffer *b, uint32_t index) {
    sequence s = sequence_of(b, index);
    for (uint32_t i = 0; i < b->timestamp_counts[index]; i++)
        weir__fetch_timestamp(s.timestamps.out, s.timestamps.cells[i]);
}

/* Clears what the last batch wrote and this one will not overwrite: the sparse tensors, and the dense ones
 * behind the new end. */
static void clear_sequence(weir_batch_buffer *b, uint32_t index, sequence *s) {
    uint32_t old = b->has_batch ? b->cell_counts[index] : 0;
    uint32_t cells = s->cells;
    uint32_t most = old > cells ? old : cells;
    uint32_t beyond = most - cells;
    weir__clear_timestamps(s->timestamps.out, s->timestamps.cells, b->timestamp_counts[index]);
    memset(s->numbers, 0, (size_t)most * 4);
    memset(s->categories, 0, (size_t)most * 4);
    memset(s->texts, 0, (size_t)most * 4);
    memset(s->bools, 0, most);
    memset(s->stypes + cells, 0, beyond);
    memset(s->column_ids + (size_t)cells * 4, 0, (size_t)beyond * 4);
    memset(s->row_ids + (size_t)cells * 2, 0, (size_t)beyond * 2);
    memset(s->is_null + cells, 0, beyond);
    s->is_target[0] = cells > 0;
    memset(s->is_padding, 0, cells);
    memset(s->is_padding + cells, 1, s->length - cells);
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* The cells of one column in rows of its table. */
typedef struct column {
    weir__cell_rule rule;
    const weir__placed_row *rows;
    uint32_t count; /* rows */
    uint32_t cell;  /* its number in those rows */
} column;

static inline bool bit_at(const uint8_t *bits, uint32_t bit) {
    return bits[bit / 8] >> bit % 8 & 1;
}

static inline void order_cell(sequence *s, uint32_t at) {
    weir__store16(s->column_order, WEIR__LOW(uint16_t, at));
    s->column_order += 2;
}

/* The target stands at position 0, the first of its column. */
static void order_target(sequence *s) {
    if (!s->has_target)
        order_cell(s, 0);
    s->has_target = true;
}

/* What every cell of a column has: its place in the column order, and whether it is null, in the store or
 * because it was not known at the time. Returns its position. */
static inline uint32_t begin_cell(sequence *s, const column *c, uint32_t k, bool *is_null) {
    const weir__placed_row *row = &c->rows[k];
    uint32_t at = row->first_cell + c->cell;
    *is_null = bit_at(row->record, c->rule.null_bit);
    if (c->rule.known_slot != WEIR_NONE) {
        int64_t known = (int64_t)weir__load64(row->record + c->rule.known_slot);
        *is_null |= (known == WEIR_TIME_ALWAYS) | (known > s->observation_time);
    }
    s->is_null[at] = *is_null;
    order_cell(s, at);
    return at;
}

/* A 4-byte slot, 0 where the cell is null. */
static inline uint32_t word_of(const column *c, uint32_t k, bool is_null) {
    return weir__load32(c->rows[k].record + c->rule.slot) & (WEIR__LOW(uint32_t, is_null) - 1);
}

static inline void write_identifiers(sequence *s, const column *c) {
    bool is_null;
    for (uint32_t k = 0; k < c->count; k++)
        (void)begin_cell(s, c, k, &is_null);
}

static inline void write_numbers(sequence *s, const column *c) {
    bool is_null;
    for (uint32_t k = 0; k < c->count; k++) {
        uint32_t at = begin_cell(s, c, k, &is_null);
        weir__store32(s->numbers + 4 * (size_t)at, word_of(c, k, is_null));
    }
}

static inline void write_timestamps(sequence *s, const column *c) {
    bool is_null;
    for (uint32_t k = 0; k < c->count; k++) {
        uint32_t at = begin_cell(s, c, k, &is_null);
        int64_t micros = (int64_t)weir__load64(c->rows[k].record + c->rule.slot);
        weir__note_timestamp(&s->timestamps, at, micros, is_null);
    }
}

static inline void write_bools(sequence *s, const column *c) {
    bool is_null;
    for (uint32_t k = 0; k < c->count; k++) {
        uint32_t at = begin_cell(s, c, k, &is_null);
        s->bools[at] = bit_at(c->rows[k].record, c->rule.bool_bit) & !is_null;
    }
}

/* Numbers that point nowhere are cut to 0, here and below: a damaged store must not make a batch that
 * points outside its tables. */
static inline void write_categories(sequence *s, const column *c) {
    uint32_t category_count = s->info->category_count;
    bool is_null;
    for (uint32_t k = 0; k < c->count; k++) {
        uint32_t at = begin_cell(s, c, k, &is_null);
        uint32_t category = word_of(c, k, is_null);
        weir__store32(s->categories + 4 * (size_t)at, category < category_count ? category : 0);
    }
}

static inline void write_texts(sequence *s, const column *c) {
    uint32_t text_count = s->info->text_count;
    bool is_null;
    for (uint32_t k = 0; k < c->count; k++) {
        uint32_t at = begin_cell(s, c, k, &is_null);
        uint32_t text = word_of(c, k, is_null);
        text = text < text_count ? text : 0;
        weir__store32(s->texts + 4 * (size_t)at, text);
        weir__use_text(&s->writer->texts, text, s->first_cell + at, !is_null);
    }
}

/* Works on copies, which no store can touch, so that they stay in registers. */
static void write_column(sequence *out, const column *given) {
    sequence copy = *out, *s = &copy;
    const column in = *given, *c = &in;
    switch (c->rule.stype) {
    case WEIR_NUMERICAL:
        write_numbers(s, c);
        break;
    case WEIR_TIMESTAMP:
        write_timestamps(s, c);
        break;
    case WEIR_BOOLEAN:
        write_bools(s, c);
        break;
    case WEIR_CATEGORICAL:
        write_categories(s, c);
        break;
    case WEIR_TEXT:
        write_texts(s, c);
        break;
    default:
        write_identifiers(s, c);
    }
    *out = copy;
}

/* ---- Rows of a table ------------------------------------------------------------------------- */

/* The target column, in the rows that show it; behind it, the others' cells stand one further left. */
static void write_labels(sequence *s, column c, weir__placed_row *rows, uint32_t count) {
    c.count = 1;
    for (uint32_t k = 0; k < count; k++) {
        c.rows = &rows[k];
        if (!rows[k].hides_label && rows[k].first_cell + c.cell < s->cells)
            write_column(s, &c);
        rows[k].first_cell -= rows[k].hides_label;
    }
}

static void write_table(sequence *s, const weir__task_rules *rules, uint32_t table, weir__placed_row *rows,
                        uint32_t count) {
    const weir__row_rules *plain = &rules->tables[table].plain;
    for (uint32_t i = 0; i < plain->count; i++) {
        column c = {.rule = plain->cells[i], .rows = rows, .cell = i};
        if (c.rule.column >= rules->task->column)
            order_target(s);
        if (c.rule.column == rules->task->column) {
            write_labels(s, c, rows, count);
            continue;
        }
        bool is_cut = rows[count - 1].first_cell + i >= s->cells; /* the last row's cell */
        c.count = count - is_cut;
        write_column(s, &c);
    }
}

/* Brings the rows of each table together, in visit order. */
static void gather_rows(weir__cell_writer *w, const weir__walk *walk) {
    const weir__task_rules *rules = walk->rules;
    memset(w->table_ends, 0, ((size_t)rules->info->table_count + 1) * sizeof *w->table_ends);
    for (uint32_t r = 0; r < walk->row_count; r++)
        w->table_ends[walk->rows[r].table + 1]++;
    for (uint32_t t = 0; t < rules->info->table_count; t++)
        w->table_ends[t + 1] += w->table_ends[t];
    for (uint32_t r = 0; r < walk->row_count; r++) {
        const weir__walked_row *row = &walk->rows[r];
        w->rows[w->table_ends[row->table]++] =
            (weir__placed_row){.record = row->record,
                               .first_cell = row->first_cell,
                               .hides_label = row->rules == &rules->tables[row->table].unlabelled};
    }
}

static void write_tables(sequence *s, const weir__walk *walk) {
    weir__cell_writer *w = s->writer;
    uint32_t begin = 0;
    gather_rows(w, walk);
    for (uint32_t t = 0; t < s->info->table_count; t++) {
        if (w->table_ends[t] > begin)
            write_table(s, walk->rules, t, w->rows + begin, w->table_ends[t] - begin);
        begin = w->table_ends[t];
    }
    order_target(s);
}

/* ---- Sequences ------------------------------------------------------------------------------- */

/* A short row's runs are copied with a fixed size, which is faster than an exact one: what lies beyond is
 * the next row's to overwrite, and write_runs clears it behind the last. */
static void write_run(sequence *s, const weir__row_rules *rules, uint32_t local, uint32_t first) {
    uint32_t count = rules->count;
    if (count <= WEIR__RUN && first + WEIR__RUN <= s->length) {
        memcpy(s->stypes + first, rules->stypes, WEIR__RUN);
        memcpy(s->column_ids + (size_t)first * 4, rules->column_ids, WEIR__RUN * 4);
        for (uint32_t i = 0; i < WEIR__RUN; i++)
            weir__store16(s->row_ids + 2 * (size_t)(first + i), WEIR__LOW(uint16_t, local));
        return;
    }
    count = count < s->cells - first ? count : s->cells - first;
    memcpy(s->stypes + first, rules->stypes, count);
    memcpy(s->column_ids + (size_t)first * 4, rules->column_ids, (size_t)count * 4);
    for (uint32_t i = 0; i < count; i++)
        weir__store16(s->row_ids + 2 * (size_t)(first + i), WEIR__LOW(uint16_t, local));
}

static void write_runs(sequence *s, const weir__walk *walk) {
    for (uint32_t r = 0; r < walk->row_count; r++)
        write_run(s, walk->rows[r].rules, r, walk->rows[r].first_cell);
    uint32_t rest = s->length - s->cells < WEIR__RUN ? s->length - s->cells : WEIR__RUN;
    memset(s->stypes + s->cells, 0, rest);
    memset(s->column_ids + (size_t)s->cells * 4, 0, (size_t)rest * 4);
    memset(s->row_ids + (size_t)s->cells * 2, 0, (size_t)rest * 2);
}

static void write_target(sequence *s, uint32_t column_id, const weir_cell *target) {
    uint32_t bits;
    s->stypes[0] = WEIR__LOW(uint8_t, target->stype);
    weir__store32(s->column_ids, column_id);
    weir__store16(s->row_ids, 0);
    s->is_null[0] = target->is_null;
    if (target->is_null)
        return;
    switch (target->stype) {
    case WEIR_NUMERICAL:
        memcpy(&bits, &target->number, sizeof bits);
        weir__store32(s->numbers, bits);
        break;
    case WEIR_TIMESTAMP:
        weir__note_timestamp(&s->timestamps, 0, target->integer, false);
        break;
    case WEIR_BOOLEAN:
        s->bools[0] = target->integer != 0;
        break;
    default:
        weir__store32(s->categories, WEIR__LOW(uint32_t, target->integer));
    }
}

void weir__write_cells(weir__cell_writer *writer, weir_batch_buffer *buffer, uint32_t index,
                       const weir__walk *walk, const weir_cell *target) {
    sequence s = sequence_of(buffer, index);
    s.cells = walk->cell_count < s.length ? walk->cell_count : s.length;
    s.observation_time = walk->observation_time;
    s.info = walk->rules->info;
    s.writer = writer;
    s.timestamps.micros = buffer->timestamps + (size_t)index * buffer->limits.length;
    clear_sequence(buffer, index, &s);
    write_runs(&s, walk);
    write_target(&s, walk->rules->task->column, target);
    write_tables(&s, walk);
    weir__write_timestamps(&s.timestamps, writer->timestamp_parts, &s.info->timestamps);
    buffer->cell_counts[index] = s.cells;
    buffer->timestamp_counts[index] = s.timestamps.count;
    buffer->timestamps_of = s.info->timestamps;
}

void weir__write_padding(weir_batch_buffer *buffer, uint32_t index) {
    sequence s = sequence_of(buffer, index);
    clear_sequence(buffer, index, &s);
    buffer->cell_counts[index] = 0;
    buffer->timestamp_counts[index] = 0;
}
