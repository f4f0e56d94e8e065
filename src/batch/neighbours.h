/* What a row leads to, for random walks (retrieve.c). Walks from one row meet the same rows again and again:
 * of 200,000 steps six in seven leave a row that was left before. So what a row leads to is remembered for
 * the sequence, whose cut-off it holds for, in a line or two of memory: a memo. */
#ifndef WEIR_BATCH_NEIGHBOURS_H
#define WEIR_BATCH_NEIGHBOURS_H

#include "batch/retrieve.h"
#include "store/reader.h"

enum {
    WEIR_BATCH__WALKS_ABREAST = 512,
    WEIR_BATCH__LINE = 64,
    WEIR_BATCH__WAYS_OF_A_LINE = 5, /* that a memo of one line has room for */
};

/* A random walk. */
typedef struct weir_batch__walker {
    uint8_t *memo; /* of its row */
    uint32_t row;
} weir_batch__walker;

/* Where a foreign key or an edge type leads: to a parent, or to one of a list of children. */
typedef struct weir_batch__way {
    const uint8_t *child_rows; /* NULL: to a parent */
    uint32_t row_start;        /* of the table that it leads to, … */
    uint32_t row_count;        /* … which has so many rows */
    bool to_task_rows;
    weir_batch__lies_in rows_in;
} weir_batch__way;

/* A memo begins with a key, which says what row it is of in which sequence, and the number of neighbours. If
 * these are few enough, the neighbours follow, in order: rows, and for a task row the number of rows of the
 * store and its place in the list of labels. If there are more, the ways follow that lead to some of them:
 * the first way of the row's table; for each but the last where its neighbours end in the numbering of all,
 * UINT32_MAX if there is no such way; for each what is added to a number to find the place in its list (of a
 * parent: the row), and the number of the way among those of the table. */
enum {
    WEIR_BATCH__MEMO_KEY = 0,    /* 64 bits */
    WEIR_BATCH__MEMO_COUNT = 8,  /* 32 bits, as all that follow but the ways */
    WEIR_BATCH__MEMO_ROWS = 12,  /* of few neighbours; … */
    WEIR_BATCH__MEMO_FIRST = 12, /* … of many */
    WEIR_BATCH__MEMO_ENDS = 16,
};

static inline uint32_t *weir_batch__memo_words(uint8_t *memo, size_t at) {
    return (uint32_t *)(void *)(memo + at);
}

static inline uint64_t *weir_batch__memo_key(uint8_t *memo) {
    return (uint64_t *)(void *)memo;
}

static inline uint32_t *weir_batch__memo_bases(uint8_t *memo, uint32_t ways) {
    return weir_batch__memo_words(memo, WEIR_BATCH__MEMO_ENDS) + (ways - 1);
}

static inline uint16_t *weir_batch__memo_ways(uint8_t *memo, uint32_t ways) {
    return (uint16_t *)(weir_batch__memo_bases(memo, ways) + ways);
}

static inline uint64_t weir_batch__key_of(const weir_batch__retriever *r, uint32_t row) {
    return (uint64_t)r->serial << 32 | row;
}

/* What is known to be whole is not asked again. */
static inline void weir_batch__touch(weir_batch__retriever *r, weir_batch__lies_in kind, const uint8_t *at,
                                     size_t size) {
    if (__builtin_expect(!r->is_whole, 0) && kind)
        r->is_corrupt |= !weir_store__touch_in(r->store, (weir_store__section_kind)kind, at, size);
}

static inline bool weir_batch__is_visible(weir_batch__retriever *r, const weir_batch__table_rules *table,
                                          uint32_t row) {
    if (table->time_offset == WEIR_NONE || row == r->outlook->anchor_row)
        return true;
    const uint8_t *time = weir_batch__record_of(table, row) + table->time_offset;
    weir_batch__touch(r, WEIR_STORE__SECTION_ROWS, time, 8);
    return (int64_t)weir__load64(time) <= r->outlook->cutoff;
}

void weir_batch__neighbours_carve(weir_batch__retriever *r, weir__block *block,
                                  const weir_batch_config *config);

/* Writes the memos of the rows of `count` walkers, which are put into another order. */
void weir_batch__remember(weir_batch__retriever *r, uint16_t *walkers, uint32_t count);

#endif
