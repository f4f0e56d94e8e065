/* The rows that a walk knows: visited, queued as a parent, or listed as a child. A small open table of
 * 8-byte entries that stays near; it starts at 32 KiB and grows where a sequence needs it. A generation in
 * each entry makes emptying it nearly free. Looking a row up and adding it are one thing, done without a
 * branch on whether it was there, which nothing could foresee. */
#ifndef WEIR_SRC_BATCH_KNOWN_H
#define WEIR_SRC_BATCH_KNOWN_H

#include "base/internal.h"

/* An entry, from its lowest bit: the row's local number (16 bits), two flags, the generation (14), and the
 * row (32). */
enum {
    WEIR__UNVISITED = UINT16_MAX, /* the local number of a row that is not in the sequence */
    WEIR__QUEUED = 1 << 16,
    WEIR__LISTED = 1 << 17,
    WEIR__GENERATION_SHIFT = 18,
    WEIR__GENERATION_MAX = (1 << 14) - 1,
    WEIR__ROW_SHIFT = 32,
};

typedef struct weir__known_rows {
    uint64_t *memory; /* two tables of 2^bits_max places */
    uint64_t *entries;
    uint64_t *spare; /* where they move when the table grows */
    uint32_t count;
    uint32_t bits; /* the table has 2^bits places, at most 2^bits_max */
    uint32_t bits_max;
    uint32_t bits_used;  /* the most that it ever had */
    uint32_t generation; /* 1 to WEIR__GENERATION_MAX, and again */
} weir__known_rows;

/* What a walk may know at most: half of the largest table's places. */
#define WEIR__KNOWN_ROWS_MAX ((uint64_t)1 << 30)

/* For at most `rows` rows; false if they are more than WEIR__KNOWN_ROWS_MAX, or memory is short. */
bool weir__known_open(weir__known_rows *known, const weir_env *env, uint64_t rows);
void weir__known_close(weir__known_rows *known, const weir_env *env);

/* Forgets all rows. */
void weir__known_begin(weir__known_rows *known);

/* Twice the places; entries move. */
void weir__known_grow(weir__known_rows *known);

/* Makes room for `more` rows; entries may move. */
static inline void weir__known_reserve(weir__known_rows *known, uint32_t more) {
    while (2 * ((uint64_t)known->count + more) > (uint64_t)1 << known->bits && known->bits < known->bits_max)
        weir__known_grow(known);
}

static inline uint64_t weir__known_key(const weir__known_rows *known, uint32_t row) {
    return (uint64_t)row << WEIR__ROW_SHIFT | known->generation << WEIR__GENERATION_SHIFT;
}

static inline uint32_t weir__known_place(const weir__known_rows *known, uint32_t row) {
    return (row * 0x9E3779B1u) >> (32 - known->bits);
}

/* The entry of a row, made where there is none, within what was reserved. */
static inline uint64_t *weir__know(weir__known_rows *known, uint32_t row) {
    uint64_t key = weir__known_key(known, row);
    uint32_t mask = ((uint32_t)1 << known->bits) - 1;
    for (uint32_t place = weir__known_place(known, row);; place = (place + 1) & mask) {
        uint64_t entry = known->entries[place];
        uint64_t difference = (entry ^ key) >> WEIR__GENERATION_SHIFT;
        bool is_vacant = (difference & WEIR__GENERATION_MAX) != 0;
        if (is_vacant | (difference == 0)) {
            known->entries[place] = is_vacant ? key | WEIR__UNVISITED : entry;
            known->count += is_vacant;
            return &known->entries[place];
        }
    }
}

/* The local number of a row, WEIR__UNVISITED where it has none. */
static inline uint16_t weir__local_of(const weir__known_rows *known, uint32_t row) {
    uint64_t key = weir__known_key(known, row);
    uint32_t mask = ((uint32_t)1 << known->bits) - 1;
    for (uint32_t place = weir__known_place(known, row);; place = (place + 1) & mask) {
        uint64_t entry = known->entries[place];
        uint64_t difference = (entry ^ key) >> WEIR__GENERATION_SHIFT;
        bool is_vacant = (difference & WEIR__GENERATION_MAX) != 0;
        if (is_vacant | (difference == 0))
            return is_vacant ? WEIR__UNVISITED : WEIR__LOW(uint16_t, entry);
    }
}

#endif
