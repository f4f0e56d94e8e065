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

/* What is known of a row, as one word in which every bit is set at first, so that a vacant place has the
 * state of a new row: its local number (the low 16 bits); whether no row has listed it as a child; whether it
 * was not queued. */
#define WEIR_BATCH__FRESH    UINT32_MAX
#define WEIR_BATCH__UNLISTED ((uint32_t)1 << 16)
#define WEIR_BATCH__UNQUEUED ((uint32_t)1 << 17)

static inline uint16_t weir_batch__local_of(uint32_t state) {
    return WEIR__LOW(uint16_t, state);
}

/* Whether the row of that local number may list it: if it was visited before, it did not see it visited. */
static inline bool weir_batch__is_listable(uint32_t state, uint32_t local) {
    return (state & (WEIR_BATCH__UNLISTED | UINT16_MAX)) > (WEIR_BATCH__UNLISTED | local);
}

/* With its local number. */
static inline uint32_t weir_batch__numbered(uint32_t state, uint32_t local) {
    return state - weir_batch__local_of(state) + local;
}

/* A bucket is WEIR_BATCH__BUCKET keys (WEIR_NONE: the place is vacant) and as many states, which lie
 * together, so that a row costs one cache line. A place is the index of a key in `words`. */
typedef struct weir_batch__known_rows {
    uint32_t *words;
    uint16_t *tables; /* of the rows, by place; NULL: their keys say enough */
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
    WEIR_BATCH__BUCKET = 4,
    WEIR_BATCH__BUCKET_WORDS = 2 * WEIR_BATCH__BUCKET
};

/* What a walk may know at most: half of the largest table's places. */
#define WEIR_BATCH__KNOWN_ROWS_MAX ((uint64_t)1 << (WEIR_BATCH__KNOWN_BITS_MOST - 1))

/* For at most `rows` rows; whether keys tell only rows of one table apart. */
static inline void weir_batch__known_carve(weir_batch__known_rows *known, weir__block *block, uint64_t rows,
                                           bool needs_tables) {
    *known = (weir_batch__known_rows){.bits_max = WEIR_BATCH__KNOWN_BITS_LEAST};
    while (known->bits_max < WEIR_BATCH__KNOWN_BITS_MOST && (uint64_t)1 << known->bits_max < 2 * rows)
        known->bits_max++;
    known->words = weir__carve(block, (uint64_t)2 << known->bits_max, sizeof *known->words);
    if (needs_tables)
        known->tables = weir__carve(block, (uint64_t)2 << known->bits_max, sizeof *known->tables);
}

/* Forgets all rows, in a table of that many places. */
static inline void weir_batch__known_empty(weir_batch__known_rows *known, uint32_t bits) {
    uint32_t places = (uint32_t)1 << (bits < known->bits_max ? bits : known->bits_max);
    known->bits = bits < known->bits_max ? bits : known->bits_max;
    known->count = 0;
    known->room = bits < known->bits_max ? places / 4 * 3 : places;
    known->shift = 32 - known->bits - 1;
    known->buckets = 2 * places - WEIR_BATCH__BUCKET_WORDS;
    memset(known->words, 0xFF, 2 * (size_t)places * sizeof *known->words);
}

/* Which places of a bucket hold the row (bits 0 to 3), and which are vacant (4 to 7). */
static inline uint32_t weir_batch__look_into(const weir_batch__known_rows *known, uint32_t bucket,
                                             uint32_t table, uint32_t key) {
#if defined(__SSE2__)
    __m128i rows = _mm_load_si128((const __m128i *)(known->words + bucket));
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
            known->words[bucket + i] == key && (!known->tables || known->tables[bucket + i] == table);
        bool is_vacant = known->words[bucket + i] == WEIR_NONE;
        found |= WEIR__LOW(uint32_t, is_held) << i | WEIR__LOW(uint32_t, is_vacant)
                                                         << (WEIR_BATCH__BUCKET + i);
    }
    return found;
#endif
}

/* The place of a row, made if there is none, within the room that there is. */
static inline uint32_t weir_batch__place_of(weir_batch__known_rows *known, uint32_t table, uint32_t key) {
    uint32_t hash = key * 0x9E3779B1u;
    if (__builtin_expect(known->tables != NULL, 0))
        hash += table * 0x85EBCA77u;
    uint32_t bucket = hash >> known->shift & known->buckets;
    uint32_t found = weir_batch__look_into(known, bucket, table, key);
    while (__builtin_expect(found == 0, 0)) {
        bucket = (bucket + WEIR_BATCH__BUCKET_WORDS) & known->buckets;
        found = weir_batch__look_into(known, bucket, table, key);
    }
    uint32_t first = WEIR__LOW(uint32_t, __builtin_ctz(found)); /* the row's, else the first vacant one */
    uint32_t place = bucket + first % WEIR_BATCH__BUCKET;
    known->words[place] = key;
    if (__builtin_expect(known->tables != NULL, 0))
        known->tables[place] = WEIR__LOW(uint16_t, table);
    known->count += first / WEIR_BATCH__BUCKET;
    return place;
}

/* The state of the row at a place. */
static inline uint32_t *weir_batch__state_at(const weir_batch__known_rows *known, uint32_t place) {
    return &known->words[place + WEIR_BATCH__BUCKET];
}

/* The state of a row, made if there is none. */
static inline uint32_t *weir_batch__know(weir_batch__known_rows *known, uint32_t table, uint32_t key) {
    return weir_batch__state_at(known, weir_batch__place_of(known, table, key));
}

#endif
