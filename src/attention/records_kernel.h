/* Records, as they lie in the lists of who sees whom (lists_kernel.h makes them), and how they are read: C
 * for the host, CUDA C for the kernels of attention.
 *
 * A record has up to 128 cells and what they see: in itself if that is little, else as a place in the order
 * of columns, or as runs of positions. Records of the same kind lie together. */
#ifndef WEIR_ATTENTION_RECORDS_KERNEL_H
#define WEIR_ATTENTION_RECORDS_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __CUDACC__
#define SHARED static __forceinline__
#else
#define SHARED static inline __attribute__((always_inline, unused))
#endif

enum {
    RECORD_WORDS = 64,
    KEYS_INLINE = 80, /* a record of kind SMALL has all that it sees in itself */
    ROWS_SMALL = 16,
    ROWS_LARGE = 64,
    COLUMN_LARGE = 17, /* columns of so many cells are of kind LARGE */
    ROWS_LONG = 128,
    LENGTH_LONG = 2048, /* shorter sequences have no records of kind LONG */
};

/* Lists of records. */
enum { LIST_COLUMN, LIST_OUTBOUND, LIST_OUTBOUND_T, LIST_INBOUND, LIST_INBOUND_T, LISTS };

/* Kinds of records, in the order in which they lie: up to 16 cells that see many (a hub's), up to 128 of a
 * long column, up to 64 that see many, up to 16 of one or more groups that see at most 80 together, up to 16
 * that see nothing. */
enum { WIDE, LONG, LARGE, SMALL, BLIND, KINDS };

/* Directions of foreign keys. */
enum { PARENTS, CHILDREN, DIRECTIONS };

enum {
    RECORD_SEQUENCE = 0,
    RECORD_FIRST = 1, /* cell: its position, or its place in the order of columns; ALL_INLINE: SMALL, BLIND */
    RECORD_ROWS = 2,  /* cells of the record */
    RECORD_KEYS = 3,  /* what they see: how many, … */
    RECORD_AT = 4, /* … where their runs are, or their first place in the order; if there is nothing to be
                      seen: the bits of the float to multiply zeros with */
    RECORD_SHARED = 5,    /* if it is SMALL: whether it has cells of several groups */
    RECORD_RUNS = 5,      /* how many runs … */
    RECORD_OWN = 6,       /* … after the cells of the row itself: the first … */
    RECORD_OWN_COUNT = 7, /* … and how many */
    RECORD_CELLS = 8,     /* 16 positions of 16 bits, if it is WIDE, SMALL or BLIND */
    RECORD_SIGHTS = 16, /* what each cell sees of the positions that follow: first | end << 8 in 16 bits … */
    RECORD_INLINE = 24, /* … and these, 80 of 16 bits, if it is SMALL */
};

#define ALL_INLINE 0xffffffffu

/* Where things are in the lists: offsets of 32-bit words. */
typedef struct attention_layout {
    uint32_t sequences, length, rows; /* B, S, R */
    uint32_t tiles, row_chunks, column_chunks;
    uint64_t counts;             /* [LISTS][KINDS]: what the attention kernels read */
    uint64_t cells;              /* [B] */
    uint64_t starts;             /* [B][R + 2]: of rows, of the padding, and S */
    uint64_t tile[DIRECTIONS];   /* [B][tiles][R]: runs and keys, first of the tile, then before it */
    uint64_t degree[DIRECTIONS]; /* [B][R]: runs without a row's own; the high bit: it refers to itself */
    uint64_t keys[DIRECTIONS];   /* [B][R]: their cells */
    uint64_t base[DIRECTIONS];   /* [B][R]: the first run */
    uint64_t runs[DIRECTIONS];   /* [B][run_room]: position << 16 | keys before it */
    uint64_t run_room;           /* of a sequence */
    uint64_t order;              /* [B][S] of 16 bits: col_perm */
    uint64_t segments;           /* [B][S]: the length of the column that begins there in the order, or 0 */
    uint64_t chunks;             /* [B][COUNTS][row_chunks or column_chunks] */
    uint64_t chunk_stride;       /* of a sequence's */
    uint64_t totals;             /* [B][COUNTS], then those of earlier sequences */
    uint64_t places[LISTS];      /* [B][groups]: see PLACE_BITS */
    uint64_t records[LISTS];     /* [room][RECORD_WORDS] */
    uint64_t record_room[LISTS]; /* of all sequences */
    uint64_t size;
} attention_layout;

/* ---- Reading ------------------------------------------------------------------------------------- */

SHARED const uint16_t *order_of(const attention_layout *at, const uint32_t *words, uint32_t b) {
    return (const uint16_t *)(words + at->order) + (uint64_t)b * at->length;
}

/* The i-th position that a group of the rows' lists sees. The runs are sorted by the keys before them. */
SHARED uint32_t key_of_runs(const uint32_t *words, const uint32_t *record, uint32_t j) {
    uint32_t own = record[RECORD_OWN_COUNT];
    if (j < own)
        return record[RECORD_OWN] + j;
    const uint32_t *runs = words + record[RECORD_AT];
    uint32_t low = 0, high = record[RECORD_RUNS];
    j -= own;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        bool is_before = (runs[middle] & 0xffff) <= j;
        low = is_before ? middle : low;
        high = is_before ? high : middle;
    }
    return (runs[low] >> 16) + j - (runs[low] & 0xffff);
}

SHARED uint32_t key_of_record(const attention_layout *at, const uint32_t *words, bool is_column,
                              const uint32_t *record, uint32_t j) {
    if (record[RECORD_FIRST] == ALL_INLINE)
        return ((const uint16_t *)(record + RECORD_INLINE))[j];
    if (is_column)
        return order_of(at, words, record[RECORD_SEQUENCE])[record[RECORD_AT] + j];
    return key_of_runs(words, record, j);
}

/* The i-th cell of a record. */
SHARED uint32_t cell_of_record(const attention_layout *at, const uint32_t *words, bool is_column,
                               const uint32_t *record, uint32_t i) {
    uint32_t place = record[RECORD_FIRST] + i;
    if (record[RECORD_FIRST] == ALL_INLINE)
        return ((const uint16_t *)(record + RECORD_CELLS))[i];
    return is_column ? order_of(at, words, record[RECORD_SEQUENCE])[place] : place;
}

/* What the i-th cell of a record sees: the record's keys from the first to before the end. */
typedef struct attention_sight {
    uint32_t first, end;
} attention_sight;

SHARED attention_sight sight_of_record(const uint32_t *record, uint32_t i) {
    attention_sight sight = {0, record[RECORD_KEYS]};
    if (record[RECORD_FIRST] == ALL_INLINE) {
        uint32_t both = ((const uint16_t *)(record + RECORD_SIGHTS))[i];
        sight.first = both & 0xff;
        sight.end = both >> 8;
    }
    return sight;
}

#endif
