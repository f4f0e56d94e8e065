/* The rows that a walk knows: visited, queued as a parent, or listed as a child; each by a key of 32 bits,
 * which tells all rows of the store apart, or, if these are too many, those of its table. A small open table
 * in buckets of four: a row is compared with a whole bucket at once, so that looking it up and adding it are
 * one thing, without a branch on whether it was there, which nothing could foresee. The table begins with few
 * places, so that it stays near and is emptied in no time; who runs out of them grows it and adds its rows
 * anew. */
#ifndef WEIR_BATCH_KNOWN_H
#define WEIR_BATCH_KNOWN_H

#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/block.h"
#include "base/narrow.h"
#include "weir/store.h"

enum { WEIR_BATCH__UNVISITED = UINT16_MAX }; /* the local number of a row that is not in the sequence */

/* What is known of a row, as one word, so that it is chosen without a branch: from the lowest bit, its local
 * number (16 bits); `listable` (16): a row may list it as a child if its own local number is below that,
 * which is the child's local number, as rows that were visited before did not see it visited, or 0 once it is
 * listed; and whether it is queued. */
#define WEIR_BATCH__FRESH      ((uint64_t)WEIR_BATCH__UNVISITED << 16 | WEIR_BATCH__UNVISITED)
#define WEIR_BATCH__QUEUED     ((uint64_t)1 << 32)
#define WEIR_BATCH__UNLISTABLE (~((uint64_t)UINT16_MAX << 16))

static inline uint16_t weir_batch__local_of(uint64_t state) {
    return WEIR__LOW(uint16_t, state);
}

static inline uint16_t weir_batch__listable_below(uint64_t state) {
    return WEIR__LOW(uint16_t, state >> 16);
}

/* With its local number. */
static inline uint64_t weir_batch__numbered(uint64_t state, uint32_t local) {
    uint64_t listable = weir_batch__listable_below(state) < local ? weir_batch__listable_below(state) : local;
    return (state & WEIR_BATCH__QUEUED) | listable << 16 | local;
}

typedef struct weir_batch__known_rows {
    uint32_t *rows;   /* keys, by place; WEIR_NONE: it is vacant */
    uint16_t *tables; /* of the rows; NULL: their keys say enough */
    uint64_t *states;
    uint32_t count;
    uint32_t room;    /* for that many, before the table must grow */
    uint32_t shift;   /* of a row's hash, and … */
    uint32_t buckets; /* … the bits of it that say where its bucket begins */
    uint32_t bits;    /* there are 2^bits places, at most 2^bits_max */
    uint32_t bits_max;
} weir_batch__known_rows;

enum {
    WEIR_BATCH__KNOWN_BITS = 11,
    WEIR_BATCH__KNOWN_BITS_LEAST = 6,
    WEIR_BATCH__KNOWN_BITS_MOST = 31,
    WEIR_BATCH__BUCKET = 4
};

/* What a walk may know at most: half of the largest table's places. */
#define WEIR_BATCH__KNOWN_ROWS_MAX ((uint64_t)1 << (WEIR_BATCH__KNOWN_BITS_MOST - 1))

/* For at most `rows` rows; whether keys tell only rows of one table apart. */
static inline void weir_batch__known_carve(weir_batch__known_rows *known, weir__block *block, uint64_t rows,
                                           bool needs_tables) {
    *known = (weir_batch__known_rows){.bits_max = WEIR_BATCH__KNOWN_BITS_LEAST};
    while (known->bits_max < WEIR_BATCH__KNOWN_BITS_MOST && (uint64_t)1 << known->bits_max < 2 * rows)
        known->bits_max++;
    known->rows = weir__carve(block, (uint64_t)1 << known->bits_max, sizeof *known->rows);
    known->states = weir__carve(block, (uint64_t)1 << known->bits_max, sizeof *known->states);
    if (needs_tables)
        known->tables = weir__carve(block, (uint64_t)1 << known->bits_max, sizeof *known->tables);
}

/* Forgets all rows, in a table of that many places. */
static inline void weir_batch__known_empty(weir_batch__known_rows *known, uint32_t bits) {
    uint32_t places = (uint32_t)1 << (bits < known->bits_max ? bits : known->bits_max);
    known->bits = bits < known->bits_max ? bits : known->bits_max;
    known->count = 0;
    known->room = bits < known->bits_max ? places / 4 * 3 : places;
    known->shift = 32 - known->bits;
    known->buckets = places - WEIR_BATCH__BUCKET;
    memset(known->rows, 0xFF, places * sizeof *known->rows);
}

/* Which places of a bucket hold the row (bits 0 to 3), and which are vacant (4 to 7). */
static inline uint32_t weir_batch__look_into(const weir_batch__known_rows *known, uint32_t bucket,
                                             uint32_t table, uint32_t key) {
#if defined(__SSE2__)
    __m128i rows = _mm_load_si128((const __m128i *)(known->rows + bucket));
    __m128i held = _mm_cmpeq_epi32(rows, _mm_set1_epi32(WEIR__LOW(int32_t, key)));
    __m128i vacant = _mm_cmpeq_epi32(rows, _mm_set1_epi32(-1));
    if (__builtin_expect(known->tables != NULL, 0)) {
        __m128i tables = _mm_loadl_epi64((const __m128i *)(known->tables + bucket));
        __m128i is_table = _mm_cmpeq_epi16(tables, _mm_set1_epi16(WEIR__LOW(int16_t, table)));
        held = _mm_and_si128(held, _mm_unpacklo_epi16(is_table, is_table));
    }
    int vacancies = _mm_movemask_ps(_mm_castsi128_ps(vacant)) << WEIR_BATCH__BUCKET;
    return WEIR__LOW(uint32_t, _mm_movemask_ps(_mm_castsi128_ps(held)) | vacancies);
#else
    uint32_t found = 0;
    for (uint32_t i = 0; i < WEIR_BATCH__BUCKET; i++) {
        bool is_held =
            known->rows[bucket + i] == key && (!known->tables || known->tables[bucket + i] == table);
        bool is_vacant = known->rows[bucket + i] == WEIR_NONE;
        found |= WEIR__LOW(uint32_t, is_held) << i | WEIR__LOW(uint32_t, is_vacant)
                                                         << (WEIR_BATCH__BUCKET + i);
    }
    return found;
#endif
}

/* The place of a row, made if there is none, within the room that there is; and its state, which is the
 * caller's to store. */
static inline uint32_t weir_batch__place_of(weir_batch__known_rows *known, uint32_t table, uint32_t key,
                                            uint64_t *state) {
    uint32_t hash = key * 0x9E3779B1u;
    if (__builtin_expect(known->tables != NULL, 0))
        hash += table * 0x85EBCA77u;
    uint32_t bucket = hash >> known->shift & known->buckets;
    uint32_t found = weir_batch__look_into(known, bucket, table, key);
    while (__builtin_expect(found == 0, 0)) {
        bucket = (bucket + WEIR_BATCH__BUCKET) & known->buckets;
        found = weir_batch__look_into(known, bucket, table, key);
    }
    uint32_t first = WEIR__LOW(uint32_t, __builtin_ctz(found)); /* the row's, else the first vacant one */
    uint32_t place = bucket + first % WEIR_BATCH__BUCKET;
    uint32_t is_new = first / WEIR_BATCH__BUCKET;
    uint64_t old = (uint64_t)is_new - 1; /* all bits, or none */
    known->rows[place] = key;
    if (__builtin_expect(known->tables != NULL, 0))
        known->tables[place] = WEIR__LOW(uint16_t, table);
    known->count += is_new;
    *state = (known->states[place] & old) | (WEIR_BATCH__FRESH & ~old);
    return place;
}

/* The state of a row, made if there is none. */
static inline uint64_t *weir_batch__know(weir_batch__known_rows *known, uint32_t table, uint32_t key) {
    uint64_t state;
    uint32_t place = weir_batch__place_of(known, table, key, &state);
    known->states[place] = state;
    return &known->states[place];
}

#endif
