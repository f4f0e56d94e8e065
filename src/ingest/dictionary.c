/* See dictionary.h: open addressing with linear probing, at most two thirds full. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "ingest/dictionary.h"

static weir_ingest__string *copy_string(weir__arena *arena, const char *bytes, size_t size, uint64_t hash) {
    weir_ingest__string *string = size > WEIR_INGEST__STRING_MAX
                                      ? NULL
                                      : weir__arena_take(arena, offsetof(weir_ingest__string, bytes) + size);
    if (!string)
        return NULL;
    string->hash = hash;
    string->size = WEIR__LOW(uint32_t, size);
    memcpy(string->bytes, bytes, size);
    return string;
}

weir_ingest__string *weir_ingest__string_new(weir__arena *arena, const char *bytes, size_t size) {
    return copy_string(arena, bytes, size, XXH3_64bits(bytes, size));
}

int weir_ingest__string_compare(const weir_ingest__string *a, const weir_ingest__string *b) {
    uint32_t shorter = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->bytes, b->bytes, shorter);
    if (order != 0)
        return order;
    return a->size < b->size ? -1 : a->size > b->size;
}

void weir_ingest__dictionary_init(weir_ingest__dictionary *dictionary, const weir_env *env) {
    *dictionary = (weir_ingest__dictionary){.env = env};
}

void weir_ingest__dictionary_release(weir_ingest__dictionary *dictionary) {
    if (!dictionary->env)
        return;
    weir__release(dictionary->env, dictionary->strings);
    weir__release(dictionary->env, dictionary->slots);
    weir_ingest__dictionary_init(dictionary, dictionary->env);
}

void weir_ingest__dictionary_empty(weir_ingest__dictionary *dictionary) {
    dictionary->count = 0;
    if (dictionary->slots)
        memset(dictionary->slots, 0, (dictionary->slot_mask + 1) * sizeof *dictionary->slots);
}

/* Makes room for one more string in the list and in the slots. */
static bool make_room(weir_ingest__dictionary *d) {
    void *strings = d->strings;
    if (d->count == UINT32_MAX - 1 ||
        !weir__grow(d->env, &strings, &d->capacity, (size_t)d->count + 1, sizeof *d->strings))
        return false;
    d->strings = strings;
    size_t slot_count = d->slots ? d->slot_mask + 1 : 0;
    if (3 * ((size_t)d->count + 1) <= 2 * slot_count)
        return true;
    size_t wanted = slot_count ? 2 * slot_count : 64;
    weir_ingest__dictionary_slot *slots = weir__allocate_zero(d->env, wanted, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < slot_count; i++) {
        if (!d->slots[i].number)
            continue;
        size_t at = d->slots[i].hash & (wanted - 1);
        while (slots[at].number)
            at = (at + 1) & (wanted - 1);
        slots[at] = d->slots[i];
    }
    weir__release(d->env, d->slots);
    d->slots = slots;
    d->slot_mask = wanted - 1;
    return true;
}

/* The slot of a string with these bytes, or the free one where it belongs. */
static weir_ingest__dictionary_slot *find_slot(const weir_ingest__dictionary *d, uint64_t hash,
                                               const char *bytes, size_t size) {
    for (size_t at = WEIR__LOW(uint32_t, hash) & d->slot_mask;; at = (at + 1) & d->slot_mask) {
        weir_ingest__dictionary_slot *slot = &d->slots[at];
        if (!slot->number)
            return slot;
        if (slot->hash != WEIR__LOW(uint32_t, hash))
            continue;
        const weir_ingest__string *string = d->strings[slot->number - 1];
        if (string->hash == hash && string->size == size && memcmp(string->bytes, bytes, size) == 0)
            return slot;
    }
}

static void append(weir_ingest__dictionary *d, const weir_ingest__string *string,
                   weir_ingest__dictionary_slot *slot, uint32_t *number) {
    d->strings[d->count] = string;
    *number = d->count++;
    *slot = (weir_ingest__dictionary_slot){d->count, WEIR__LOW(uint32_t, string->hash)};
}

static bool intern(weir_ingest__dictionary *dictionary, weir__arena *arena, uint64_t hash, const char *bytes,
                   size_t size, uint32_t *number) {
    if (size > WEIR_INGEST__STRING_MAX || !make_room(dictionary))
        return false;
    weir_ingest__dictionary_slot *slot = find_slot(dictionary, hash, bytes, size);
    if (slot->number) {
        *number = slot->number - 1;
        return true;
    }
    const weir_ingest__string *string = copy_string(arena, bytes, size, hash);
    if (!string)
        return false;
    append(dictionary, string, slot, number);
    return true;
}

bool weir_ingest__dictionary_intern(weir_ingest__dictionary *dictionary, weir__arena *arena,
                                    const char *bytes, size_t size, uint32_t *number) {
    return intern(dictionary, arena, XXH3_64bits(bytes, size), bytes, size, number);
}

bool weir_ingest__dictionary_copy(weir_ingest__dictionary *dictionary, weir__arena *arena,
                                  const weir_ingest__string *string, uint32_t *number) {
    return intern(dictionary, arena, string->hash, string->bytes, string->size, number);
}

bool weir_ingest__dictionary_adopt(weir_ingest__dictionary *dictionary, const weir_ingest__string *string,
                                   uint32_t *number) {
    if (!make_room(dictionary))
        return false;
    weir_ingest__dictionary_slot *slot = find_slot(dictionary, string->hash, string->bytes, string->size);
    if (slot->number)
        *number = slot->number - 1;
    else
        append(dictionary, string, slot, number);
    return true;
}
