/* Finding the row of a key. An integer key that runs without gaps is found by position; other integers that
 * the rows are sorted by, by a search: first among samples, which stay in the processor's cache, then among
 * the rows of one sample, which lie together. Any other key is found by a hash table of row numbers. Keys of
 * several columns are hashed and compared column by column. */

#include "ingest/state.h"

enum { SAMPLE_ROWS = 64 };

/* first_key, first_key + 1, …: the row is the difference. */
static bool is_dense(const weir_ingest__column_data *column, uint32_t row_count) {
    if (column->tags || row_count == 0)
        return false;
    for (uint32_t r = 0; r < row_count; r++)
        if (column->keys[r] != column->keys[0] + r)
            return false;
    return true;
}

/* Whether the rows are sorted by these columns, which are integers. */
static bool is_sorted(const weir_ingest__table_plan *table, const uint32_t *columns, uint32_t column_count) {
    if (column_count != table->primary_key_count)
        return false;
    for (uint32_t i = 0; i < column_count; i++)
        if (columns[i] != table->primary_key[i] || table->data[columns[i]].tags)
            return false;
    return true;
}

static uint32_t sample_count(uint32_t row_count) {
    return row_count / SAMPLE_ROWS + (row_count % SAMPLE_ROWS > 0);
}

static bool take_samples(weir_ingest__key_index *index) {
    uint32_t count = sample_count(index->row_count);
    index->samples = weir__allocate(index->env, (size_t)count * index->column_count, sizeof *index->samples);
    for (uint32_t i = 0; index->samples && i < count; i++)
        for (uint32_t c = 0; c < index->column_count; c++)
            index->samples[(size_t)i * index->column_count + c] =
                (int64_t)index->data[index->columns[c]].keys[(size_t)i * SAMPLE_ROWS];
    return index->samples != NULL;
}

/* How many samples are not greater than the key. */
static uint32_t count_samples(const weir_ingest__key_index *index, const weir_ingest__key *keys) {
    uint32_t low = 0, high = sample_count(index->row_count);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const int64_t *sample = index->samples + (size_t)middle * index->column_count;
        uint32_t c = 0;
        while (c + 1 < index->column_count && sample[c] == (int64_t)keys[c].payload)
            c++;
        if (sample[c] <= (int64_t)keys[c].payload)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The order of a row and a key. */
static int compare_row(const weir_ingest__key_index *index, uint32_t row, const weir_ingest__key *keys) {
    for (uint32_t c = 0; c < index->column_count; c++) {
        int64_t a = (int64_t)index->data[index->columns[c]].keys[row], b = (int64_t)keys[c].payload;
        if (a != b)
            return a < b ? -1 : 1;
    }
    return 0;
}

static uint32_t search(const weir_ingest__key_index *index, const weir_ingest__key *keys) {
    uint32_t sample = count_samples(index, keys);
    if (sample == 0)
        return WEIR_NONE;
    uint32_t low = (sample - 1) * SAMPLE_ROWS, rest = index->row_count - low;
    uint32_t high = low + (rest < SAMPLE_ROWS ? rest : SAMPLE_ROWS);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_row(index, middle, keys);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return WEIR_NONE;
}

static bool are_whole(const weir_ingest__key *keys, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (keys[i].tag != WEIR_INGEST__KEY_INT && keys[i].tag != WEIR_INGEST__KEY_INTEGRAL_REAL &&
            keys[i].tag != WEIR_INGEST__KEY_NEGATIVE_ZERO)
            return false;
    return true;
}

static uint64_t hash_of(const weir_ingest__key *keys, uint32_t count) {
    uint64_t hash = weir_ingest__key_hash(keys[0]);
    for (uint32_t i = 1; i < count; i++)
        hash = (hash ^ weir_ingest__key_hash(keys[i])) * 0x9E3779B97F4A7C15u + (hash >> 31);
    return hash;
}

static bool has_values(const weir_ingest__key_index *index, uint32_t row, const weir_ingest__key *keys) {
    for (uint32_t i = 0; i < index->column_count; i++)
        if (!weir_ingest__key_equal(weir_ingest__key_at(&index->data[index->columns[i]], row), keys[i]))
            return false;
    return true;
}

/* The slot of a key, or the free one where it belongs. */
static uint32_t *find_slot(const weir_ingest__key_index *index, const weir_ingest__key *keys) {
    for (uint64_t at = hash_of(keys, index->column_count) & index->slot_mask;;
         at = (at + 1) & index->slot_mask) {
        uint32_t *slot = &index->slots[at];
        if (*slot == 0 || has_values(index, *slot - 1, keys))
            return slot;
    }
}

static bool has_null(const weir_ingest__key *keys, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (keys[i].tag == WEIR_INGEST__KEY_NULL)
            return true;
    return false;
}

static void fill(weir_ingest__key_index *index, weir_ingest__key *keys, uint32_t *duplicate) {
    for (uint32_t r = 0; r < index->row_count; r++) {
        for (uint32_t i = 0; i < index->column_count; i++)
            keys[i] = weir_ingest__key_at(&index->data[index->columns[i]], r);
        if (has_null(keys, index->column_count))
            continue;
        uint32_t *slot = find_slot(index, keys);
        if (*slot != 0 && *duplicate == WEIR_NONE)
            *duplicate = r;
        *slot = *slot ? *slot : r + 1;
    }
}

weir_status weir_ingest__key_index_make(const weir_env *env, const weir_ingest__table_plan *table,
                                        const uint32_t *columns, uint32_t column_count,
                                        weir_ingest__key_index *out, uint32_t *duplicate, weir_error *error) {
    *out = (weir_ingest__key_index){.env = env,
                                    .data = table->data,
                                    .columns = columns,
                                    .column_count = column_count,
                                    .row_count = table->row_count};
    *duplicate = WEIR_NONE;
    out->is_dense = column_count == 1 && is_dense(&table->data[columns[0]], table->row_count);
    if (out->is_dense) {
        out->first_key = (int64_t)table->data[columns[0]].keys[0];
        return WEIR_OK;
    }
    if (is_sorted(table, columns, column_count))
        return take_samples(out) ? WEIR_OK : weir__out_of_memory(error, WEIR_INGEST__OPERATOR, 1);
    uint64_t slots = 16;
    while (slots < (uint64_t)table->row_count * 2)
        slots *= 2;
    out->slot_mask = slots - 1;
    weir_ingest__key *keys = weir__allocate(env, column_count, sizeof *keys);
    out->slots = weir__allocate_zero(env, slots, sizeof *out->slots);
    bool has_memory = keys && out->slots;
    if (has_memory)
        fill(out, keys, duplicate);
    weir__release(env, keys);
    return has_memory ? WEIR_OK
                      : weir__out_of_memory(error, WEIR_INGEST__OPERATOR, slots * sizeof *out->slots);
}

void weir_ingest__key_index_release(weir_ingest__key_index *index) {
    if (index->env)
        weir__release(index->env, index->slots);
    if (index->env)
        weir__release(index->env, index->samples);
    index->slots = NULL;
    index->samples = NULL;
}

uint32_t weir_ingest__key_index_find(const weir_ingest__key_index *index, const weir_ingest__key *keys) {
    if (has_null(keys, index->column_count))
        return WEIR_NONE;
    if ((index->is_dense || index->samples) && !are_whole(keys, index->column_count))
        return WEIR_NONE;
    if (index->is_dense) {
        uint64_t row = keys->payload - (uint64_t)index->first_key;
        return (int64_t)keys->payload >= index->first_key && row < index->row_count
                   ? WEIR__NARROW(uint32_t, row)
                   : WEIR_NONE;
    }
    if (index->samples)
        return search(index, keys);
    uint32_t slot = *find_slot(index, keys);
    return slot ? slot - 1 : WEIR_NONE;
}

uint32_t weir_ingest__key_index_ranges(const weir_ingest__key_index *index, uint64_t most) {
    uint64_t bytes = (uint64_t)index->row_count * index->column_count * sizeof(uint64_t);
    uint64_t ranges = index->samples ? bytes / most + 1 : 1;
    uint64_t samples = sample_count(index->row_count);
    return WEIR__NARROW(uint32_t, ranges < samples ? ranges : samples ? samples : 1);
}

uint32_t weir_ingest__key_index_range(const weir_ingest__key_index *index, const weir_ingest__key *keys,
                                      uint32_t range_count) {
    if (range_count == 1 || has_null(keys, index->column_count) || !are_whole(keys, index->column_count))
        return 0;
    uint64_t sample = count_samples(index, keys);
    return WEIR__NARROW(uint32_t, (sample ? sample - 1 : 0) * range_count / sample_count(index->row_count));
}

weir_status weir_ingest__index_keys(weir_ingest__ingest *ingest, weir_error *error) {
    ingest->key_indexes =
        weir__arena_take_zero(&ingest->arena, ingest->table_count, sizeof *ingest->key_indexes);
    if (!ingest->key_indexes)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, 1);
    for (uint32_t i = 0; i < 2 * ingest->task_count; i++) {
        const weir_ingest__task_plan *task = &ingest->tasks[i / 2];
        bool is_of_destination = i % 2 == 1;
        uint32_t t = is_of_destination ? task->link.table : task->anchor_table;
        if (is_of_destination ? !weir_ingest__is_link(task->schema) : !task->schema->query)
            continue;
        if (ingest->key_indexes[t])
            continue;
        uint32_t duplicate;
        const weir_ingest__table_plan *table = &ingest->tables[t];
        weir_ingest__key_index *index = weir__arena_take_zero(&ingest->arena, 1, sizeof *index);
        if (!index)
            return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, sizeof *index);
        ingest->key_indexes[t] = index;
        WEIR__TRY(weir_ingest__key_index_make(ingest->context.env, table, table->primary_key,
                                              table->primary_key_count, index, &duplicate, error));
    }
    return WEIR_OK;
}
