/* Distinct values in bounded memory. A sample keeps the values with small hashes: which those are depends on
 * the values alone, never on their order, and for each of them all rows are counted, because the bound only
 * ever sinks. Two samples at the same bound can be compared value by value. */
#define XXH_INLINE_ALL
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "ingest/draft.h"

/* ---- Hashes ---------------------------------------------------------------------------------- */

bool weir_ingest__value_is_null(const weir_ingest__value *value) {
    return value->type == WEIR_INGEST__NULL || (value->type == WEIR_INGEST__REAL && isnan(value->real));
}

static uint64_t hash_number(char tag, uint64_t bits) {
    uint8_t bytes[8];
    weir__store64(bytes, bits);
    return XXH64(bytes, sizeof bytes, WEIR__LOW(uint8_t, tag));
}

uint64_t weir_ingest__value_hash(const weir_ingest__value *value) {
    uint64_t bits;
    switch (value->type) {
    case WEIR_INGEST__REAL:
        if (weir_ingest__is_whole(value->real))
            return hash_number('i', (uint64_t)(int64_t)value->real);
        memcpy(&bits, &value->real, sizeof bits);
        return hash_number('r', bits);
    case WEIR_INGEST__TEXT:
        return XXH64(value->text.data, value->text.size, 't');
    case WEIR_INGEST__BLOB:
        return XXH64(value->text.data, value->text.size, 'x');
    default:
        return hash_number('i', (uint64_t)value->integer);
    }
}

uint64_t weir_ingest__hash_together(const uint64_t *hashes, uint32_t count) {
    uint8_t bytes[8 * WEIR_INGEST__KEY_COLUMNS_MAX];
    for (uint32_t i = 0; i < count; i++)
        weir__store64(bytes + 8 * (size_t)i, hashes[i]);
    return XXH64(bytes, 8 * (size_t)count, 0);
}

bool weir_ingest__hash_key(const weir_ingest__value *cells, uint32_t count, uint64_t *out) {
    uint64_t hashes[WEIR_INGEST__KEY_COLUMNS_MAX];
    for (uint32_t i = 0; i < count; i++) {
        if (weir_ingest__value_is_null(&cells[i]))
            return false;
        hashes[i] = weir_ingest__value_hash(&cells[i]);
    }
    *out = count == 1 ? hashes[0] : weir_ingest__hash_together(hashes, count);
    return true;
}

/* ---- Samples --------------------------------------------------------------------------------- */

void weir_ingest__sample_init(weir_ingest__sample *sample, const weir_env *env) {
    *sample = (weir_ingest__sample){.env = env, .limit = WEIR_INGEST__SAMPLE_MAX};
}

void weir_ingest__sample_release(weir_ingest__sample *sample) {
    if (sample->env)
        weir__release(sample->env, sample->slots);
    sample->slots = NULL;
    sample->slot_count = 0;
    sample->count = 0;
}

static weir_ingest__sampled *slot_of(const weir_ingest__sample *sample, uint64_t hash) {
    size_t at = (size_t)hash & (sample->slot_count - 1);
    while (sample->slots[at].rows > 0 && sample->slots[at].hash != hash)
        at = (at + 1) & (sample->slot_count - 1);
    return &sample->slots[at];
}

const weir_ingest__sampled *weir_ingest__sample_find(const weir_ingest__sample *sample, uint64_t hash) {
    if (sample->slot_count == 0)
        return NULL;
    const weir_ingest__sampled *slot = slot_of(sample, hash);
    return slot->rows > 0 ? slot : NULL;
}

/* Into a table of so many slots, without what no longer belongs. */
static bool rebuild(weir_ingest__sample *sample, size_t slot_count) {
    weir_ingest__sample fresh = *sample;
    fresh.slots = weir__allocate_zero(sample->env, slot_count, sizeof *fresh.slots);
    fresh.slot_count = slot_count;
    fresh.count = 0;
    if (!fresh.slots)
        return false;
    for (size_t i = 0; i < sample->slot_count; i++)
        if (sample->slots[i].rows > 0 &&
            weir_ingest__sample_has_room_for(sample->level, sample->slots[i].hash)) {
            *slot_of(&fresh, sample->slots[i].hash) = sample->slots[i];
            fresh.count++;
        }
    weir__release(sample->env, sample->slots);
    *sample = fresh;
    return true;
}

bool weir_ingest__sample_add(weir_ingest__sample *sample, uint64_t hash, uint64_t rows, int64_t value) {
    enum { FIRST_SLOTS = 16 };
    if (rows == 0 || !weir_ingest__sample_has_room_for(sample->level, hash))
        return true;
    if (2 * (size_t)(sample->count + 1) > sample->slot_count &&
        !rebuild(sample, sample->slot_count ? 2 * sample->slot_count : FIRST_SLOTS))
        return false;
    weir_ingest__sampled *slot = slot_of(sample, hash);
    if (slot->rows > 0) {
        slot->rows += rows;
        return true;
    }
    *slot = (weir_ingest__sampled){hash, rows, value};
    sample->count++;
    while (sample->count > sample->limit) {
        sample->level++;
        if (!rebuild(sample, sample->slot_count))
            return false;
    }
    return true;
}

double weir_ingest__sample_coverage(const weir_ingest__sample *child, const weir_ingest__sample *parent) {
    uint32_t level = child->level > parent->level ? child->level : parent->level;
    uint64_t matched = 0, rows = 0;
    for (size_t i = 0; i < child->slot_count; i++) {
        const weir_ingest__sampled *slot = &child->slots[i];
        if (slot->rows == 0 || !weir_ingest__sample_has_room_for(level, slot->hash))
            continue;
        rows += slot->rows;
        matched += weir_ingest__sample_find(parent, slot->hash) ? slot->rows : 0;
    }
    return rows ? (double)matched / (double)rows : 0;
}

void weir_ingest__sample_sort(weir_ingest__sample *sample, int (*compare)(const void *a, const void *b)) {
    uint32_t count = 0;
    for (size_t i = 0; i < sample->slot_count; i++)
        if (sample->slots[i].rows > 0)
            sample->slots[count++] = sample->slots[i];
    sample->slot_count = count;
    if (count > 0)
        qsort(sample->slots, count, sizeof *sample->slots, compare);
}

/* ---- Sets ------------------------------------------------------------------------------------ */

void weir_ingest__hash_set_init(weir_ingest__hash_set *set, const weir_env *env) {
    *set = (weir_ingest__hash_set){.env = env};
}

void weir_ingest__hash_set_release(weir_ingest__hash_set *set) {
    if (set->env)
        weir__release(set->env, set->slots);
    set->slots = NULL;
    set->slot_count = set->count = 0;
}

static uint64_t *place_of(uint64_t *slots, size_t slot_count, uint64_t hash) {
    size_t at = (size_t)hash & (slot_count - 1);
    while (slots[at] != 0 && slots[at] != hash)
        at = (at + 1) & (slot_count - 1);
    return &slots[at];
}

static bool grow_set(weir_ingest__hash_set *set) {
    size_t slot_count = set->slot_count ? 2 * set->slot_count : 16;
    uint64_t *slots = weir__allocate_zero(set->env, slot_count, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < set->slot_count; i++)
        if (set->slots[i])
            *place_of(slots, slot_count, set->slots[i]) = set->slots[i];
    weir__release(set->env, set->slots);
    set->slots = slots;
    set->slot_count = slot_count;
    return true;
}

bool weir_ingest__hash_set_add(weir_ingest__hash_set *set, uint64_t hash) {
    if (set->has_doubles)
        return true;
    hash = hash ? hash : 1;
    if (3 * (set->count + 1) > 2 * set->slot_count && !grow_set(set))
        return false;
    uint64_t *place = place_of(set->slots, set->slot_count, hash);
    if (*place) {
        weir_ingest__hash_set_release(set);
        set->has_doubles = true;
        return true;
    }
    *place = hash;
    set->count++;
    return true;
}
