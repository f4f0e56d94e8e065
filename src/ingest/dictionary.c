/* See dictionary.h: open addressing with linear probing, at most two thirds full. */
#define XXH_INLINE_ALL
#include <string.h>
#include <xxhash.h>

#include "ingest/dictionary.h"

static const weir__string *copy_string(weir__arena *arena, const char *bytes, size_t size, uint64_t hash) {
    weir__string *string = size > WEIR__STRING_MAX ? NULL : weir__arena_take(arena, sizeof *string + size);
    if (!string)
        return NULL;
    string->hash = hash;
    string->size = WEIR__LOW(uint32_t, size);
    memcpy(string->bytes, bytes, size);
    return string;
}

const weir__string *weir__string_new(weir__arena *arena, const char *bytes, size_t size) {
    return copy_string(arena, bytes, size, XXH3_64bits(bytes, size));
}

int weir__string_compare(const weir__string *a, const weir__string *b) {
    uint32_t shorter = a->size < b->size ? a->size : b->size;
    int order = memcmp(a->bytes, b->bytes, shorter);
    if (order != 0)
        return order;
    return a->size < b->size ? -1 : a->size > b->size;
}

void weir__dictionary_init(weir__dictionary *dictionary, const weir_env *env) {
    *dictionary = (weir__dictionary){.env = env};
}

void weir__dictionary_release(weir__dictionary *dictionary) {
    if (!dictionary->env)
        return;
    weir__release(dictionary->env, dictionary->strings);
    weir__release(dictionary->env, dictionary->slots);
    weir__dictionary_init(dictionary, dictionary->env);
}

/* Makes room for one more string in the list and in the slots. */
static bool make_room(weir__dictionary *d) {
    void *strings = d->strings;
    if (d->count == UINT32_MAX - 1 ||
        !weir__grow(d->env, &strings, &d->capacity, (size_t)d->count + 1, sizeof *d->strings))
        return false;
    d->strings = strings;
    size_t slot_count = d->slots ? d->slot_mask + 1 : 0;
    if (3 * ((size_t)d->count + 1) <= 2 * slot_count)
        return true;
    size_t wanted = slot_count ? 2 * slot_count : 64;
    weir__dictionary_slot *slots = weir__allocate_zero(d->env, wanted, sizeof *slots);
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
static weir__dictionary_slot *find_slot(const weir__dictionary *d, uint64_t hash, const char *bytes,
                                        size_t size) {
    for (size_t at = WEIR__LOW(uint32_t, hash) & d->slot_mask;; at = (at + 1) & d->slot_mask) {
        weir__dictionary_slot *slot = &d->slots[at];
        if (!slot->number)
            return slot;
        if (slot->hash != WEIR__LOW(uint32_t, hash))
            continue;
        const weir__string *string = d->strings[slot->number - 1];
        if (string->hash == hash && string->size == size && memcmp(string->bytes, bytes, size) == 0)
            return slot;
    }
}

static void append(weir__dictionary *d, const weir__string *string, weir__dictionary_slot *slot,
                   uint32_t *number) {
    d->strings[d->count] = string;
    *number = d->count++;
    *slot = (weir__dictionary_slot){d->count, WEIR__LOW(uint32_t, string->hash)};
}

bool weir__dictionary_intern(weir__dictionary *dictionary, weir__arena *arena, const char *bytes, size_t size,
                             uint32_t *number) {
    if (size > WEIR__STRING_MAX || !make_room(dictionary))
        return false;
    uint64_t hash = XXH3_64bits(bytes, size);
    weir__dictionary_slot *slot = find_slot(dictionary, hash, bytes, size);
    if (slot->number) {
        *number = slot->number - 1;
        return true;
    }
    const weir__string *string = copy_string(arena, bytes, size, hash);
    if (!string)
        return false;
    append(dictionary, string, slot, number);
    return true;
}

bool weir__dictionary_adopt(weir__dictionary *dictionary, const weir__string *string, uint32_t *number) {
    if (!make_room(dictionary))
        return false;
    weir__dictionary_slot *slot = find_slot(dictionary, string->hash, string->bytes, string->size);
    if (slot->number)
        *number = slot->number - 1;
    else
        append(dictionary, string, slot, number);
    return true;
}
