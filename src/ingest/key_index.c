/* Finding the row of a key. An integer key that runs without gaps is found by position, any other by a
 * hash table of row numbers. Keys of several columns are hashed and compared column by column. */

#include "ingest/state.h"

/* first_key, first_key + 1, …: the row is the difference. */
static bool is_dense(const weir_ingest__column_data *column, uint32_t row_count) {
    if (column->tags || row_count == 0)
        return false;
    for (uint32_t r = 0; r < row_count; r++)
        if (column->keys[r] != column->keys[0] + r)
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
    index->slots = NULL;
}

uint32_t weir_ingest__key_index_find(const weir_ingest__key_index *index, const weir_ingest__key *keys) {
    if (has_null(keys, index->column_count))
        return WEIR_NONE;
    if (index->is_dense) {
        bool is_whole = keys->tag == WEIR_INGEST__KEY_INT || keys->tag == WEIR_INGEST__KEY_INTEGRAL_REAL ||
                        keys->tag == WEIR_INGEST__KEY_NEGATIVE_ZERO;
        uint64_t row = keys->payload - (uint64_t)index->first_key;
        return is_whole && (int64_t)keys->payload >= index->first_key && row < index->row_count
                   ? WEIR__NARROW(uint32_t, row)
                   : WEIR_NONE;
    }
    uint32_t slot = *find_slot(index, keys);
    return slot ? slot - 1 : WEIR_NONE;
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
        WEIR__TRY(weir_ingest__key_index_make(ingest->env, table, table->primary_key,
                                              table->primary_key_count, index, &duplicate, error));
    }
    return WEIR_OK;
}
