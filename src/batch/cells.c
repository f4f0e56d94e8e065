/* Cells to tensors. A row's column numbers and types are copied as ready runs; the rest is a loop over its
 * cells. The 4-byte value tensors of a sequence are cleared before they are filled: they are 12 bytes a
 * cell that must be written anyway. timestamp_values is 60 bytes a cell and mostly zero: there, the cells
 * that the last batch wrote are cleared one by one, and nothing else. */
#include "batch/cells.h"

#include <string.h>

#include "base/bytes.h"

/* A sequence's stretch of each tensor. */
typedef struct sequence {
    uint8_t *stypes, *column_ids, *row_ids, *is_null, *numbers, *timestamps, *bools, *categories, *texts,
        *is_target, *is_padding;
    uint16_t *timestamp_cells;
    int64_t *micros;
    uint32_t timestamp_count;
    uint32_t length;
    uint32_t first_cell; /* of the batch */
    weir__text_gatherer *gatherer;
    weir__date_cache *dates;
} sequence;

static sequence sequence_of(weir_batch_buffer *b, uint32_t index) {
    return (sequence){
        .stypes = weir__part_of(b, WEIR_SEMANTIC_TYPES, index),
        .column_ids = weir__part_of(b, WEIR_COLUMN_IDS, index),
        .row_ids = weir__part_of(b, WEIR_SEQ_ROW_IDS, index),
        .is_null = weir__part_of(b, WEIR_IS_NULL, index),
        .numbers = weir__part_of(b, WEIR_NUMERIC_VALUES, index),
        .timestamps = weir__part_of(b, WEIR_TIMESTAMP_VALUES, index),
        .bools = weir__part_of(b, WEIR_BOOL_VALUES, index),
        .categories = weir__part_of(b, WEIR_CATEGORICAL_EMBED_IDS, index),
        .texts = weir__part_of(b, WEIR_TEXT_EMBED_IDS, index),
        .is_target = weir__part_of(b, WEIR_IS_TARGET, index),
        .is_padding = weir__part_of(b, WEIR_IS_PADDING, index),
        .timestamp_cells = b->timestamp_cells + (size_t)index * b->limits.length,
        .micros = b->timestamps + (size_t)index * b->limits.length,
        .length = b->batch.sequence_length,
        .first_cell = index * b->batch.sequence_length,
    };
}

/* Clears what the last batch wrote and this one will not overwrite: the sparse tensors, and the dense ones
 * behind the new end. */
static void clear_sequence(weir_batch_buffer *b, uint32_t index, sequence *s, uint32_t cells) {
    uint32_t old = b->has_batch ? b->cell_counts[index] : 0;
    uint32_t most = old > cells ? old : cells;
    uint32_t beyond = most - cells;
    for (uint32_t i = 0; i < b->timestamp_counts[index]; i++)
        memset(s->timestamps + (size_t)s->timestamp_cells[i] * 4 * WEIR_TIMESTAMP_FLOATS, 0,
               4 * WEIR_TIMESTAMP_FLOATS);
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

static bool bit_at(const uint8_t *bits, uint32_t bit) {
    return bits[bit / 8] >> bit % 8 & 1;
}

static void store_floats(uint8_t *out, const float *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        weir__store32(out + 4 * (size_t)i, bits);
    }
}

static const float *date_floats(weir__date_cache *cache, int64_t days) {
    size_t place = (size_t)days % WEIR__DATES;
    if (cache->days[place] != days) {
        weir__date_floats(days, cache->floats[place]);
        cache->days[place] = days;
    }
    return cache->floats[place];
}

static void write_timestamp(sequence *s, uint32_t at, int64_t micros, const weir_statistics *statistics) {
    int second_of_day;
    int64_t days = weir__split_day(micros, &second_of_day);
    float clock[WEIR__CLOCK_FLOATS];
    float score = weir_normalise((double)micros, statistics);
    uint8_t *out = s->timestamps + (size_t)at * 4 * WEIR_TIMESTAMP_FLOATS;
    weir__clock_floats(second_of_day, clock);
    store_floats(out, clock, WEIR__CLOCK_FLOATS);
    store_floats(out + 4 * WEIR__CLOCK_FLOATS, date_floats(s->dates, days), WEIR__DATE_FLOATS);
    store_floats(out + 4 * (WEIR__CLOCK_FLOATS + WEIR__DATE_FLOATS), &score, 1);
    s->micros[s->timestamp_count] = micros;
    s->timestamp_cells[s->timestamp_count++] = (uint16_t)at;
}

weir__date_cache *weir__date_cache_open(const weir_env *env) {
    weir__date_cache *cache = weir__allocate(env, 1, sizeof *cache);
    for (size_t i = 0; cache && i < WEIR__DATES; i++)
        cache->days[i] = INT64_MIN; /* no day of any timestamp */
    return cache;
}

/* A short row's runs are copied with a fixed size, which is faster than an exact one: what lies beyond is
 * the next row's to overwrite, and weir__write_cells clears it behind the last. */
static void copy_runs(sequence *s, const weir__row_rules *rules, uint32_t first, uint32_t count) {
    if (count <= WEIR__RUN && first + WEIR__RUN <= s->length) {
        memcpy(s->stypes + first, rules->stypes, WEIR__RUN);
        memcpy(s->column_ids + (size_t)first * 4, rules->column_ids, WEIR__RUN * 4);
        return;
    }
    memcpy(s->stypes + first, rules->stypes, count);
    memcpy(s->column_ids + (size_t)first * 4, rules->column_ids, (size_t)count * 4);
}

/* A row under way: its record, and where its cells stand. */
typedef struct row_cells {
    const weir__row_rules *rules;
    const uint8_t *record;
    const uint8_t *bits;
    uint32_t first; /* position of its first cell */
    uint32_t count; /* cells that are not cut */
} row_cells;

/* Which cells are null: in the store, or because they were not known at the time. */
static void write_nulls(sequence *s, const row_cells *row, uint32_t local, int64_t observation_time,
                        bool is_future) {
    for (uint32_t i = 0; i < row->count; i++) {
        const weir__cell_rule *rule = &row->rules->cells[i];
        bool is_null = bit_at(row->bits, rule->null_bit) | is_future;
        if (rule->known_slot != WEIR_NONE) {
            int64_t known = (int64_t)weir__load64(row->record + rule->known_slot);
            is_null |= (known == WEIR_TIME_ALWAYS) | (known > observation_time);
        }
        s->is_null[row->first + i] = is_null;
        weir__store16(s->row_ids + 2 * (size_t)(row->first + i), (uint16_t)local);
    }
}

/* The 4-byte slot of a cell, 0 where it is null. */
static uint32_t word_of(const sequence *s, const row_cells *row, const weir__cell_rule *rule, uint32_t at) {
    return weir__load32(row->record + rule->slot) & ((uint32_t)s->is_null[at] - 1);
}

/* The numbers, in the row, of the cells of one type that are not cut. */
static uint32_t cells_of_type(const row_cells *row, weir_stype stype, const uint32_t **numbers) {
    uint32_t begin = row->rules->stype_end[stype - 1];
    uint32_t end = row->rules->stype_end[stype];
    while (end > begin && row->rules->by_stype[end - 1] >= row->count)
        end--;
    *numbers = row->rules->by_stype + begin;
    return end - begin;
}

static void write_numbers(sequence *s, const row_cells *row) {
    const uint32_t *cells;
    uint32_t count = cells_of_type(row, WEIR_NUMERICAL, &cells);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = row->first + cells[k];
        weir__store32(s->numbers + 4 * (size_t)at, word_of(s, row, &row->rules->cells[cells[k]], at));
    }
}

static void write_timestamps(sequence *s, const row_cells *row, const weir_statistics *statistics) {
    const uint32_t *cells;
    uint32_t count = cells_of_type(row, WEIR_TIMESTAMP, &cells);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = row->first + cells[k];
        if (!s->is_null[at])
            write_timestamp(s, at, (int64_t)weir__load64(row->record + row->rules->cells[cells[k]].slot),
                            statistics);
    }
}

static void write_bools(sequence *s, const row_cells *row) {
    const uint32_t *cells;
    uint32_t count = cells_of_type(row, WEIR_BOOLEAN, &cells);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = row->first + cells[k];
        s->bools[at] = bit_at(row->bits, row->rules->cells[cells[k]].bool_bit) & !s->is_null[at];
    }
}

/* Numbers that point nowhere are cut to 0, here and below: a damaged store must not make a batch that
 * points outside its tables. */
static void write_categories(sequence *s, const row_cells *row, uint32_t category_count) {
    const uint32_t *cells;
    uint32_t count = cells_of_type(row, WEIR_CATEGORICAL, &cells);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = row->first + cells[k];
        uint32_t category = word_of(s, row, &row->rules->cells[cells[k]], at);
        weir__store32(s->categories + 4 * (size_t)at, category < category_count ? category : 0);
    }
}

static void write_texts(sequence *s, const row_cells *row, uint32_t text_count) {
    const uint32_t *cells;
    uint32_t count = cells_of_type(row, WEIR_TEXT, &cells);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = row->first + cells[k];
        uint32_t text = word_of(s, row, &row->rules->cells[cells[k]], at);
        text = text < text_count ? text : 0;
        weir__store32(s->texts + 4 * (size_t)at, text);
        if (!s->is_null[at])
            weir__use_text(s->gatherer, text, s->first_cell + at);
    }
}

/* Cells type by type, so that the processor can foresee what comes. */
static void write_row(sequence *s, const weir__walk *walk, const weir__row_rules *rules,
                      const weir__walked_row *walked, uint32_t local, uint32_t first, bool is_future) {
    const weir_store_info *info = walk->rules->info;
    uint32_t room = s->length - first;
    row_cells row = {.rules = rules,
                     .record = walked->record,
                     .bits = walked->record + info->tables[walked->table].bits_offset,
                     .first = first,
                     .count = rules->count < room ? rules->count : room};
    copy_runs(s, rules, first, row.count);
    write_nulls(s, &row, local, walk->observation_time, is_future);
    write_numbers(s, &row);
    write_timestamps(s, &row, &info->timestamps);
    write_bools(s, &row);
    write_categories(s, &row, info->category_count);
    write_texts(s, &row, info->text_count);
}

static void write_target(sequence *s, const weir__walk *walk, const weir_cell *target) {
    const weir_store_info *info = walk->rules->info;
    uint32_t bits;
    s->stypes[0] = (uint8_t)target->stype;
    weir__store32(s->column_ids, walk->rules->task->column);
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
        write_timestamp(s, 0, target->integer, &info->timestamps);
        break;
    case WEIR_BOOLEAN:
        s->bools[0] = target->integer != 0;
        break;
    default:
        weir__store32(s->categories, (uint32_t)target->integer);
    }
}

static bool is_from_the_future(const weir__walk *walk, const weir__walked_row *row) {
    const weir_table *table = &walk->rules->info->tables[row->table];
    return table->time_offset != WEIR_NONE &&
           (int64_t)weir__load64(row->record + table->time_offset) > walk->observation_time;
}

void weir__write_cells(weir_batch_buffer *buffer, uint32_t index, const weir__walk *walk,
                       const weir_cell *target, weir__text_gatherer *texts, weir__date_cache *dates) {
    sequence s = sequence_of(buffer, index);
    s.gatherer = texts;
    s.dates = dates;
    uint32_t cells = walk->cell_count < s.length ? walk->cell_count : s.length;
    clear_sequence(buffer, index, &s, cells);
    write_target(&s, walk, target);
    const weir__walked_row *anchor = &walk->rows[0];
    write_row(&s, walk, &walk->rules->tables[anchor->table].unlabelled, anchor, 0, 1,
              is_from_the_future(walk, anchor));
    for (uint32_t r = 1; r < walk->row_count; r++) {
        const weir__walked_row *row = &walk->rows[r];
        const weir__table_rules *rules = &walk->rules->tables[row->table];
        bool is_hidden = weir__label_is_hidden(walk->rules, row->table, row->row);
        write_row(&s, walk, is_hidden ? &rules->unlabelled : &rules->plain, row, r, row->first_cell, false);
    }
    uint32_t rest = s.length - cells < WEIR__RUN ? s.length - cells : WEIR__RUN;
    memset(s.stypes + cells, 0, rest);
    memset(s.column_ids + (size_t)cells * 4, 0, (size_t)rest * 4);
    buffer->cell_counts[index] = cells;
    buffer->timestamp_counts[index] = s.timestamp_count;
    buffer->timestamps_of = walk->rules->info->timestamps;
}

void weir__write_padding(weir_batch_buffer *buffer, uint32_t index) {
    sequence s = sequence_of(buffer, index);
    clear_sequence(buffer, index, &s, 0);
    buffer->cell_counts[index] = 0;
    buffer->timestamp_counts[index] = 0;
}
