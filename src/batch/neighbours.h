/* What a row leads to, for random walks (retrieve.c), is remembered in two ways.
 *
 * A row of few neighbours, all of which are shown, has the same ones for every later cut-off: its links. They
 * lie by row, in memory that all threads share, for as long as the store is open. Three in five steps leave a
 * row by its links.
 *
 * Any other row has a memo, a line or two of a thread's own memory, which holds for the sequence's cut-off,
 * and for others of its span.
 */
#ifndef WEIR_BATCH_NEIGHBOURS_H
#define WEIR_BATCH_NEIGHBOURS_H

#include <stddef.h>

#include "batch/retrieve.h"
#include "store/reader.h"

enum {
    WEIR_BATCH__WALKS_ABREAST = 512,
    WEIR_BATCH__LINE = 64,
    WEIR_BATCH__WAYS_OF_A_LINE = 5, /* that a memo of one line has room for */
};

/* Where a foreign key or an edge type leads: to a parent, or to one of a list of children. */
typedef struct weir_batch__way {
    const uint8_t *child_rows; /* NULL: to a parent */
    uint64_t row_start;        /* of the table that it leads to, … */
    uint32_t row_count;        /* … which has so many rows, … */
    uint32_t first_number;     /* … numbered from this on */
    bool to_task_rows;
    weir_batch__lies_in rows_in;
} weir_batch__way;

/* A row's links. The head tells since when they are all shown, and how many there are: written after the rows
 * and read before them, so that who sees a head sees its rows. They are written more than once if threads
 * meet at a row, and always the same. */
enum { WEIR_BATCH__LINKS = 6 };
typedef struct weir_batch__links {
    uint64_t head; /* 0: nothing is known */
    uint32_t rows[WEIR_BATCH__LINKS];
} weir_batch__links;
static_assert(sizeof(weir_batch__links) == 32, "a line has two");

/* Heads of later times are smaller: that of `count` links up to a time, which must be a multiple of 8. */
static inline uint64_t weir_batch__head_of(int64_t time, uint64_t count) {
    return ~(((uint64_t)time | count) ^ (uint64_t)1 << 63);
}

/* The least head of links that are all shown at the cut-off: never 0. */
static inline uint64_t weir_batch__least_head(int64_t cutoff) {
    return weir_batch__head_of(cutoff < INT64_MAX - 8 ? cutoff : INT64_MAX - 8, 7);
}

/* How many links a head tells of; of nothing, 7. */
static inline uint64_t weir_batch__link_count(uint64_t head) {
    return ~head & 7;
}

static inline uint64_t weir_batch__head_at(const weir_batch__links *links) {
    return __atomic_load_n(&links->head, __ATOMIC_ACQUIRE);
}

/* One link; that after the last may be read too, and says nothing. */
static inline uint32_t weir_batch__link_at(const weir_batch__links *links, uint64_t index) {
    const uint8_t *rows = (const uint8_t *)links + offsetof(weir_batch__links, rows);
    return __atomic_load_n((const uint32_t *)(const void *)rows + index, __ATOMIC_RELAXED);
}

/* The cut-offs for which a memo holds: from the latest time of what it shows until the earliest of what it
 * hides. */
typedef struct weir_batch__span {
    int64_t from;
    int64_t until;
} weir_batch__span;

/* If a row's neighbours are few enough, they stand in its memo, in order: rows (RowIdx), and for a task row
 * the number of rows of the store and its place in the list of labels; in a store whose rows are too many for
 * 32 bits nothing is few. If there are more, the ways stand there that lead to some of them: the first way of
 * the row's table; for each but the last where its neighbours end in the numbering of all, UINT32_MAX if
 * there is no such way; for each what is added to a number to find the place in its list (of a parent: its
 * number in the store), and, in 16 bits, the number of the way among those of the table. */
typedef struct weir_batch__memo {
    uint64_t key; /* of what row, in which sequence */
    uint32_t count;
    uint32_t words[];
} weir_batch__memo;

static inline uint32_t *weir_batch__memo_ends(weir_batch__memo *memo) {
    return memo->words + 1;
}

static inline uint32_t *weir_batch__memo_bases(weir_batch__memo *memo, uint32_t ways) {
    return memo->words + ways;
}

static inline uint16_t *weir_batch__memo_ways(weir_batch__memo *memo, uint32_t ways) {
    return (uint16_t *)(memo->words + 2 * (size_t)ways);
}

/* Tables have 16 bits and rows of one 32: a RowIdx has at most 48. */
enum { WEIR_BATCH__ROW_BITS = 48 };

static inline uint64_t weir_batch__key_of(const weir_batch__retriever *r, uint64_t row) {
    return (uint64_t)r->serial << WEIR_BATCH__ROW_BITS | row;
}

static inline uint64_t weir_batch__row_of_key(uint64_t key) {
    return key & (((uint64_t)1 << WEIR_BATCH__ROW_BITS) - 1);
}

/* What is known to be whole is not asked again. */
static inline void weir_batch__touch(weir_batch__retriever *r, weir_batch__lies_in kind, const uint8_t *at,
                                     size_t size) {
    if (__builtin_expect(!r->is_whole, 0))
        r->is_corrupt |= !weir_batch__verify(r->store, kind, at, size);
}

static inline bool weir_batch__is_anchor(const weir_batch__retriever *r, const weir_batch__table_rules *table,
                                         uint32_t row) {
    return row == r->outlook->anchor_row && table->number == r->outlook->anchor_table;
}

/* Here a row is a place in its table. */
static inline bool weir_batch__is_visible(weir_batch__retriever *r, const weir_batch__table_rules *table,
                                          uint32_t row) {
    if (table->time_offset == WEIR_NONE || weir_batch__is_anchor(r, table, row))
        return true;
    const uint8_t *time = weir_batch__record_of(table, row) + table->time_offset;
    weir_batch__touch(r, WEIR_STORE__SECTION_ROWS, time, 8);
    return (int64_t)weir__load64(time) <= r->outlook->cutoff;
}

/* The place of a row's memo, … */
static inline uint32_t weir_batch__place_of_memo(const weir_batch__retriever *r, uint64_t row) {
    return (WEIR__LOW(uint32_t, row) * 0x9E3779B1u) >> (32 - r->memo_bits);
}

/* … and the memo that is there, which may be another row's. */
static inline weir_batch__memo *weir_batch__memo_of(const weir_batch__retriever *r, uint64_t row) {
    return (void *)(r->memos + weir_batch__place_of_memo(r, row) * r->memo_size);
}

void weir_batch__neighbours_carve(weir_batch__retriever *r, weir__block *block,
                                  const weir_batch_config *config);

/* Takes the memory of the links, if there is to be any. OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_batch__share_links(weir_batch__retriever *r, const weir_batch_config *config,
                                                 weir_error *error);

/* Writes the memos of the rows of `count` walkers, which are put into another order, and the links of those
 * that have some. */
void weir_batch__remember(weir_batch__retriever *r, uint16_t *walkers, uint32_t count);

#endif
