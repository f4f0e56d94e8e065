/* Finding the row of a key. An integer key that runs without gaps is found by position; other integers that
 * the rows are sorted by, by a search: first among samples, which stay in the processor's cache, then among
 * the rows of one sample, which lie together. Any other key is found by a hash table of row numbers. Keys of
 * several columns are hashed and compared column by column. */
#include "ingest/key.h"
#include "ingest/phase_context.h"

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

/* Whether the rows are sorted by integers. */
static bool is_sorted(const weir_ingest__key_columns *of) {
    bool is_sorted = of->are_sorted;
    for (uint32_t i = 0; i < of->column_count; i++)
        is_sorted = is_sorted && !of->data[of->columns[i]].tags;
    return is_sorted;
}

static uint32_t sample_count(uint32_t row_count) {
    return row_count / SAMPLE_ROWS + (row_count % SAMPLE_ROWS > 0);
}

/* How many samples are not greater than the key. */
static uint32_t count_samples(const weir_ingest__key_index *index, const weir_ingest__key *keys) {
    uint32_t low = 0, high = sample_count(index->of.row_count);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const int64_t *sample = index->samples + (size_t)middle * index->of.column_count;
        uint32_t c = 0;
        while (c + 1 < index->of.column_count && sample[c] == (int64_t)keys[c].payload)
            c++;
        if (sample[c] <= (int64_t)keys[c].payload)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static uint32_t search(const weir_ingest__key_index *index, const weir_ingest__key *keys) {
    uint32_t sample = count_samples(index, keys);
    if (sample == 0)
        return WEIR_NONE;
    uint32_t low = (sample - 1) * SAMPLE_ROWS, rest = index->of.row_count - low;
    uint32_t high = low + (rest < SAMPLE_ROWS ? rest : SAMPLE_ROWS);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int64_t own = 0, wanted = 0; /* in the first column in which they differ */
        for (uint32_t c = 0; own == wanted && c < index->of.column_count; c++) {
            own = (int64_t)index->of.data[index->of.columns[c]].keys[middle];
            wanted = (int64_t)keys[c].payload;
        }
        if (own == wanted)
            return middle;
        if (own < wanted)
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

static bool has_values(const weir_ingest__key_index *index, uint32_t row, const weir_ingest__key *keys) {
    for (uint32_t i = 0; i < index->of.column_count; i++)
        if (!weir_ingest__key_equal(weir_ingest__key_at(&index->of.data[index->of.columns[i]], row), keys[i]))
            return false;
    return true;
}

/* The slot of a key, or the free one where it belongs. */
static uint32_t *find_slot(const weir_ingest__key_index *index, const weir_ingest__key *keys) {
    uint64_t hash = weir_ingest__key_hash(keys[0]);
    for (uint32_t i = 1; i < index->of.column_count; i++)
        hash = (hash ^ weir_ingest__key_hash(keys[i])) * 0x9E3779B97F4A7C15u + (hash >> 31);
    for (uint64_t at = hash & index->slot_mask;; at = (at + 1) & index->slot_mask) {
        uint32_t *slot = &index->slots[at];
        if (*slot == 0 || has_values(index, *slot - 1, keys))
            return slot;
    }
}

weir_status weir_ingest__key_index_make(const weir_env *env, const weir_ingest__key_columns *of,
                                        weir_ingest__key_index *out, uint32_t *duplicate, weir_error *error) {
    const weir_ingest__column_data *first = of->column_count == 1 ? &of->data[of->columns[0]] : NULL;
    *out = (weir_ingest__key_index){.env = env, .of = *of};
    *duplicate = WEIR_NONE;
    out->is_dense = first && is_dense(first, of->row_count);
    if (out->is_dense) {
        out->first_key = (int64_t)first->keys[0];
        return WEIR_OK;
    }
    if (is_sorted(of)) {
        uint32_t count = sample_count(out->of.row_count);
        out->samples = weir__allocate(out->env, (size_t)count * out->of.column_count, sizeof *out->samples);
        for (uint32_t i = 0; out->samples && i < count; i++)
            for (uint32_t c = 0; c < out->of.column_count; c++)
                out->samples[(size_t)i * out->of.column_count + c] =
                    (int64_t)out->of.data[out->of.columns[c]].keys[(size_t)i * SAMPLE_ROWS];
        return out->samples != NULL ? WEIR_OK : weir_ingest__no_memory(error, 1);
    }
    uint64_t slots = 16;
    while (slots < (uint64_t)of->row_count * 2)
        slots *= 2;
    out->slot_mask = slots - 1;
    weir_ingest__key *keys = weir__allocate(env, of->column_count, sizeof *keys);
    out->slots = weir__allocate_zero(env, slots, sizeof *out->slots);
    bool has_memory = keys && out->slots;
    if (has_memory) {
        for (uint32_t r = 0; r < out->of.row_count; r++) {
            for (uint32_t i = 0; i < out->of.column_count; i++)
                keys[i] = weir_ingest__key_at(&out->of.data[out->of.columns[i]], r);
            if (weir_ingest__keys_have_null(keys, out->of.column_count))
                continue;
            uint32_t *slot = find_slot(out, keys);
            if (*slot != 0 && *duplicate == WEIR_NONE)
                *duplicate = r;
            *slot = *slot ? *slot : r + 1;
        }
    }
    weir__release(env, keys);
    return has_memory ? WEIR_OK : weir_ingest__no_memory(error, slots * sizeof *out->slots);
}

void weir_ingest__key_index_release(weir_ingest__key_index *index) {
    if (index->env) {
        weir__release(index->env, index->slots);
        weir__release(index->env, index->samples);
    }
    *index = (weir_ingest__key_index){0};
}

uint32_t weir_ingest__key_index_find(const weir_ingest__key_index *index, const weir_ingest__key *keys) {
    if (weir_ingest__keys_have_null(keys, index->of.column_count))
        return WEIR_NONE;
    if ((index->is_dense || index->samples) && !are_whole(keys, index->of.column_count))
        return WEIR_NONE;
    if (index->is_dense) {
        uint64_t row = keys->payload - (uint64_t)index->first_key;
        return (int64_t)keys->payload >= index->first_key && row < index->of.row_count
                   ? WEIR__NARROW(uint32_t, row)
                   : WEIR_NONE;
    }
    if (index->samples)
        return search(index, keys);
    uint32_t slot = *find_slot(index, keys);
    return slot ? slot - 1 : WEIR_NONE;
}

uint32_t weir_ingest__key_index_ranges(const weir_ingest__key_index *index, uint64_t most) {
    uint64_t bytes = (uint64_t)index->of.row_count * index->of.column_count * sizeof(uint64_t);
    uint64_t ranges = index->samples ? bytes / most + 1 : 1;
    uint64_t samples = sample_count(index->of.row_count);
    return WEIR__NARROW(uint32_t, ranges < samples ? ranges : samples ? samples : 1);
}

uint32_t weir_ingest__key_index_range(const weir_ingest__key_index *index, const weir_ingest__key *keys,
                                      uint32_t range_count) {
    if (range_count == 1 || weir_ingest__keys_have_null(keys, index->of.column_count) ||
        !are_whole(keys, index->of.column_count))
        return 0;
    uint64_t sample = count_samples(index, keys);
    return WEIR__NARROW(uint32_t,
                        (sample ? sample - 1 : 0) * range_count / sample_count(index->of.row_count));
}
