/* Cells to tensors. A row's column numbers and types are copied as ready runs; the rest is a loop over its
 * cells. The 4-byte value tensors of a sequence are cleared before they are filled: they are 12 bytes a cell
 * that must be written anyway. timestamp_values is 60 bytes a cell and mostly zero: there, the cells that the
 * last batch wrote are cleared one by one, and nothing else. */
#include "batch/cells.h"

#include <string.h>

#include "base/bytes.h"

/* A sequence's stretch of each tensor. */
typedef struct sequence {
    uint8_t *stypes, *column_ids, *row_ids, *is_null, *numbers, *timestamps, *bools, *categories, *texts,
        *is_target, *is_padding;
    uint16_t *timestamp_cells;
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
    s->timestamp_cells[s->timestamp_count++] = (uint16_t)at;
}

weir__date_cache *weir__date_cache_open(const weir_env *env) {
    weir__date_cache *cache = weir__allocate(env, 1, sizeof *cache);
    for (size_t i = 0; cache && i < WEIR__DATES; i++)
        cache->days[i] = INT64_MIN; /* no day of any timestamp */
    return cache;
}

/* A cell that is not null, from its record. Numbers that point nowhere are cut to 0: a damaged store must not
 * make a batch that points outside its tables. */
static void write_value(sequence *s, uint32_t at, const weir__cell_rule *rule, const uint8_t *record,
                        const uint8_t *bits, const weir_store_info *info) {
    uint32_t word;
    switch (rule->stype) {
    case WEIR_NUMERICAL:
        memcpy(s->numbers + (size_t)at * 4, record + rule->slot, 4);
        break;
    case WEIR_TIMESTAMP:
        write_timestamp(s, at, (int64_t)weir__load64(record + rule->slot), &info->timestamps);
        break;
    case WEIR_BOOLEAN:
        s->bools[at] = bit_at(bits, rule->bool_bit);
        break;
    case WEIR_CATEGORICAL:
        word = weir__load32(record + rule->slot);
        weir__store32(s->categories + (size_t)at * 4, word < info->category_count ? word : 0);
        break;
    case WEIR_TEXT:
        word = weir__load32(record + rule->slot);
        word = word < info->text_count ? word : 0;
        weir__store32(s->texts + (size_t)at * 4, word);
        weir__use_text(s->gatherer, word, s->first_cell + at);
        break;
    default:
        break;
    }
}

/* A short row's runs are copied with a fixed size, which is faster than an exact one: what lies beyond is the
 * next row's to overwrite, and weir__write_cells clears it behind the last. */
static void copy_runs(sequence *s, const weir__row_rules *rules, uint32_t first, uint32_t count) {
    if (count <= WEIR__RUN && first + WEIR__RUN <= s->length) {
        memcpy(s->stypes + first, rules->stypes, WEIR__RUN);
        memcpy(s->column_ids + (size_t)first * 4, rules->column_ids, WEIR__RUN * 4);
        return;
    }
    memcpy(s->stypes + first, rules->stypes, count);
    memcpy(s->column_ids + (size_t)first * 4, rules->column_ids, (size_t)count * 4);
}

static void write_row(sequence *s, const weir__walk *walk, const weir__row_rules *rules,
                      const weir__walked_row *row, uint32_t local, uint32_t first, bool is_future) {
    const weir_store_info *info = walk->rules->info;
    const uint8_t *record = row->record;
    const uint8_t *bits = record + info->tables[row->table].bits_offset;
    uint32_t room = s->length - first;
    uint32_t count = rules->count < room ? rules->count : room;
    copy_runs(s, rules, first, count);
    for (uint32_t i = 0; i < count; i++) {
        const weir__cell_rule *rule = &rules->cells[i];
        uint32_t at = first + i;
        weir__store16(s->row_ids + (size_t)at * 2, (uint16_t)local);
        bool is_null = is_future || bit_at(bits, rule->null_bit);
        if (!is_null && rule->known_slot != WEIR_NONE) {
            int64_t known = (int64_t)weir__load64(record + rule->known_slot);
            is_null = known == WEIR_TIME_ALWAYS || known > walk->observation_time;
        }
        s->is_null[at] = is_null;
        if (!is_null)
            write_value(s, at, rule, record, bits, info);
    }
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
}

void weir__write_padding(weir_batch_buffer *buffer, uint32_t index) {
    sequence s = sequence_of(buffer, index);
    clear_sequence(buffer, index, &s, 0);
    buffer->cell_counts[index] = 0;
    buffer->timestamp_counts[index] = 0;
}
