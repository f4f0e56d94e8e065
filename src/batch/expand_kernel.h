/* From the wire to the tensors: the one expansion, compiled as C for the host and as CUDA C (NVRTC, at run
 * time) for a GPU. The wire form is described in wire.h.
 *
 * Every thread of a sequence takes every threads-th item of each kind of work, and no item is read by another
 * thread after it is written: the number of threads changes nothing. What is 0 is not written: the buffer was
 * cleared before. */
#ifndef WEIR_SRC_BATCH_EXPAND_KERNEL_H
#define WEIR_SRC_BATCH_EXPAND_KERNEL_H

#include "base/bytes.h"
#include "store/calendar.h"

/* The header of the wire: 64-bit words. Sections are offsets from the wire's begin. */
enum wire_word {
    WIRE_SIZE,       /* of all of it, bytes */
    WIRE_BATCH_SIZE, /* of the expansion, bytes */
    WIRE_IS_PLAIN,   /* 1: the batch as it is, behind the header */
    WIRE_SEQUENCES,
    WIRE_LENGTH,
    WIRE_ROWS,
    WIRE_COLUMN_SIZE, /* bytes of a column's number: 2, or 4 where that is too little */
    WIRE_TEXT_SIZE,   /* bytes of the embeddings */
    WIRE_MEAN,        /* of the store's timestamps, as bits of a double … */
    WIRE_STD,
    WIRE_RECORDS,    /* one a sequence */
    WIRE_FLAGS,      /* one a cell: type, null, bool */
    WIRE_COLUMNS,    /* one a cell */
    WIRE_VALUES,     /* one a cell: 32 bits of the tensor of its type */
    WIRE_COL_PERMS,  /* one a cell */
    WIRE_PLACES,     /* one a row: first cell (32 bits), its place in out_perm and in in_perm (16 each) */
    WIRE_TIMES,      /* one a timestamp that is not null: microseconds */
    WIRE_TIME_CELLS, /* and its position */
    WIRE_EDGES,      /* child and parent, 16 bits each */
    WIRE_TEXTS,
    WIRE_PARTS, /* where each part of the batch lies, in the order of weir_tensor_id */
    WIRE_WORDS = WIRE_PARTS + 22,
};

/* The record of a sequence: byte offsets. */
enum wire_record {
    RECORD_SAMPLE_INDEX = 0,
    RECORD_POSITION = 8,
    RECORD_OBSERVATION_TIME = 16,
    RECORD_ANCHOR_ROW = 24,
    RECORD_CELLS = 28,
    RECORD_ROWS = 32,
    RECORD_FIRST_CELL = 36, /* in the sections of cells, and so on */
    RECORD_FIRST_ROW = 40,
    RECORD_FIRST_TIME = 44,
    RECORD_TIMES = 48,
    RECORD_FIRST_EDGE = 52,
    RECORD_EDGES = 56,
    RECORD_SIZE = 64,
};

enum { FLAG_TYPE = 7, FLAG_NULL_SHIFT = 3, FLAG_BOOL_SHIFT = 4 };
enum { PLACE_SIZE = 8, EDGE_SIZE = 4, TIME_FLOATS = 15, CLOCK_FLOATS = 6, DATE_FLOATS = 8 };

/* The order of weir_tensor_id and the numbers of weir_stype, which wire.c holds these to. */
enum wire_part {
    PART_STYPES,
    PART_COLUMN_IDS,
    PART_ROW_IDS,
    PART_NULLS,
    PART_NUMBERS,
    PART_TIMESTAMPS,
    PART_BOOLS,
    PART_CATEGORIES,
    PART_TEXT_IDS,
    PART_TARGETS,
    PART_PADDING,
    PART_ADJACENCY,
    PART_COL_PERM,
    PART_OUT_PERM,
    PART_IN_PERM,
    PART_TEXTS,
    PART_SAMPLE_INDEX,
    PART_POSITION,
    PART_ANCHOR_ROW,
    PART_OBSERVATION_TIME,
    PART_NUM_CELLS,
    PART_NUM_ROWS,
};
enum { STYPE_NUMERICAL = 1, STYPE_CATEGORICAL = 4, STYPE_TEXT = 5 };

/* One thread's share of a sequence. */
typedef struct expansion {
    const uint8_t *wire;
    uint8_t *out;
    const uint8_t *record;
    uint32_t sequence;
    uint32_t thread;
    uint32_t threads;
    uint32_t length;
    uint32_t cells;
    uint64_t first; /* cell of the tensors */
} expansion;

static inline uint64_t word_of(const expansion *e, uint32_t word) {
    return weir__load64(e->wire + 8 * (uint64_t)word);
}

static inline const uint8_t *section(const expansion *e, enum wire_word word, uint32_t first, uint32_t size) {
    return e->wire + word_of(e, (uint32_t)word) + (uint64_t)first * size;
}

static inline uint8_t *part(const expansion *e, enum wire_part id) {
    return e->out + word_of(e, (uint32_t)WIRE_PARTS + (uint32_t)id);
}

static inline uint32_t field(const expansion *e, enum wire_record offset) {
    return weir__load32(e->record + offset);
}

/* ---- Cells ------------------------------------------------------------------------------------- */

static inline void expand_value(const expansion *e, uint64_t at, uint32_t type, uint32_t value) {
    if (value == 0)
        return;
    if (type == STYPE_NUMERICAL)
        weir__store32(part(e, PART_NUMBERS) + 4 * at, value);
    else if (type == STYPE_CATEGORICAL)
        weir__store32(part(e, PART_CATEGORIES) + 4 * at, value);
    else if (type == STYPE_TEXT)
        weir__store32(part(e, PART_TEXT_IDS) + 4 * at, value);
}

static inline void expand_cells(const expansion *e) {
    uint32_t first = field(e, RECORD_FIRST_CELL);
    uint32_t column_size = (uint32_t)word_of(e, WIRE_COLUMN_SIZE);
    const uint8_t *flags = section(e, WIRE_FLAGS, first, 1);
    const uint8_t *columns = section(e, WIRE_COLUMNS, first, column_size);
    const uint8_t *values = section(e, WIRE_VALUES, first, 4);
    const uint8_t *col_perm = section(e, WIRE_COL_PERMS, first, 2);
    for (uint32_t i = e->thread; i < e->cells; i += e->threads) {
        uint64_t at = e->first + i;
        uint32_t flag = flags[i];
        uint32_t column = column_size == 2 ? weir__load16(columns + 2 * (uint64_t)i)
                                           : weir__load32(columns + 4 * (uint64_t)i);
        part(e, PART_STYPES)[at] = (uint8_t)(flag & FLAG_TYPE);
        part(e, PART_NULLS)[at] = (uint8_t)(flag >> FLAG_NULL_SHIFT & 1);
        part(e, PART_BOOLS)[at] = (uint8_t)(flag >> FLAG_BOOL_SHIFT & 1);
        weir__store32(part(e, PART_COLUMN_IDS) + 4 * at, column);
        weir__store16(part(e, PART_COL_PERM) + 2 * at, weir__load16(col_perm + 2 * (uint64_t)i));
        expand_value(e, at, flag & FLAG_TYPE, weir__load32(values + 4 * (uint64_t)i));
        if (i == 0)
            part(e, PART_TARGETS)[at] = 1;
    }
}

/* Behind the cells: padding, which every permutation leaves where it is. */
static inline void expand_padding(const expansion *e) {
    for (uint32_t i = e->cells + e->thread; i < e->length; i += e->threads) {
        uint64_t at = e->first + i;
        part(e, PART_PADDING)[at] = 1;
        weir__store16(part(e, PART_COL_PERM) + 2 * at, (uint16_t)i);
        weir__store16(part(e, PART_OUT_PERM) + 2 * at, (uint16_t)i);
        weir__store16(part(e, PART_IN_PERM) + 2 * at, (uint16_t)i);
    }
}

/* ---- Rows -------------------------------------------------------------------------------------- */

/* A row's cells are consecutive, in the sequence and in both of its permutations. */
static inline void expand_rows(const expansion *e) {
    uint32_t rows = field(e, RECORD_ROWS);
    const uint8_t *places = section(e, WIRE_PLACES, field(e, RECORD_FIRST_ROW), PLACE_SIZE);
    uint8_t *row_ids = part(e, PART_ROW_IDS) + 2 * e->first;
    uint8_t *outs = part(e, PART_OUT_PERM) + 2 * e->first;
    uint8_t *ins = part(e, PART_IN_PERM) + 2 * e->first;
    for (uint32_t r = e->thread; r < rows; r += e->threads) {
        const uint8_t *place = places + (uint64_t)r * PLACE_SIZE;
        uint32_t begin = weir__load32(place);
        uint32_t end = r + 1 < rows ? weir__load32(place + PLACE_SIZE) : e->cells;
        uint32_t out_at = weir__load16(place + 4);
        uint32_t in_at = weir__load16(place + 6);
        for (uint32_t i = begin; i < end; i++) {
            weir__store16(row_ids + 2 * (uint64_t)i, (uint16_t)r);
            weir__store16(outs + 2 * (uint64_t)(out_at + i - begin), (uint16_t)i);
            weir__store16(ins + 2 * (uint64_t)(in_at + i - begin), (uint16_t)i);
        }
    }
}

static inline void expand_edges(const expansion *e) {
    uint32_t count = field(e, RECORD_EDGES);
    const uint8_t *edges = section(e, WIRE_EDGES, field(e, RECORD_FIRST_EDGE), EDGE_SIZE);
    uint64_t rows = word_of(e, WIRE_ROWS);
    uint8_t *matrix = part(e, PART_ADJACENCY) + e->sequence * rows * rows;
    for (uint32_t i = e->thread; i < count; i += e->threads) {
        const uint8_t *edge = edges + (uint64_t)i * EDGE_SIZE;
        matrix[weir__load16(edge) * rows + weir__load16(edge + 2)] = 1;
    }
}

/* ---- Timestamps -------------------------------------------------------------------------------- */

static inline double double_of(uint64_t bits) {
    union {
        uint64_t bits;
        double value;
    } both;
    both.bits = bits;
    return both.value;
}

static inline uint32_t bits_of(float value) {
    union {
        float value;
        uint32_t bits;
    } both;
    both.value = value;
    return both.bits;
}

static inline void expand_times(const expansion *e) {
    uint32_t count = field(e, RECORD_TIMES);
    uint32_t first = field(e, RECORD_FIRST_TIME);
    const uint8_t *times = section(e, WIRE_TIMES, first, 8);
    const uint8_t *cells = section(e, WIRE_TIME_CELLS, first, 2);
    double mean = double_of(word_of(e, WIRE_MEAN));
    double std = double_of(word_of(e, WIRE_STD));
    for (uint32_t i = e->thread; i < count; i += e->threads) {
        float floats[TIME_FLOATS];
        int64_t micros = (int64_t)weir__load64(times + 8 * (uint64_t)i);
        uint64_t at = e->first + weir__load16(cells + 2 * (uint64_t)i);
        int second_of_day;
        int64_t days = split_day(micros, &second_of_day);
        write_clock_floats(second_of_day, floats);
        write_date_floats(days, floats + CLOCK_FLOATS);
        floats[CLOCK_FLOATS + DATE_FLOATS] = normalised((double)micros, mean, std);
        for (uint32_t k = 0; k < TIME_FLOATS; k++)
            weir__store32(part(e, PART_TIMESTAMPS) + 4 * (at * TIME_FLOATS + k), bits_of(floats[k]));
    }
}

/* ---- The rest ---------------------------------------------------------------------------------- */

static inline void expand_fields(const expansion *e) {
    uint64_t i = e->sequence;
    if (e->thread != 0)
        return;
    weir__store64(part(e, PART_SAMPLE_INDEX) + 8 * i, weir__load64(e->record + RECORD_SAMPLE_INDEX));
    weir__store64(part(e, PART_POSITION) + 8 * i, weir__load64(e->record + RECORD_POSITION));
    weir__store64(part(e, PART_OBSERVATION_TIME) + 8 * i, weir__load64(e->record + RECORD_OBSERVATION_TIME));
    weir__store32(part(e, PART_ANCHOR_ROW) + 4 * i, field(e, RECORD_ANCHOR_ROW));
    weir__store32(part(e, PART_NUM_CELLS) + 4 * i, e->cells);
    weir__store32(part(e, PART_NUM_ROWS) + 4 * i, field(e, RECORD_ROWS));
}

/* Bytes that are the same in both forms, shared out over the threads of all sequences; both begin at a
 * multiple of 16. */
static inline void expand_bytes(const expansion *e, uint8_t *to, const uint8_t *from, uint64_t size) {
    uint64_t thread = (uint64_t)e->sequence * e->threads + e->thread;
    uint64_t threads = word_of(e, WIRE_SEQUENCES) * e->threads;
    uint64_t words = size / 8;
    for (uint64_t i = thread; i < words; i += threads)
        weir__store64(to + 8 * i, weir__load64(from + 8 * i));
    for (uint64_t i = words * 8 + thread; i < size; i += threads)
        to[i] = from[i];
}

/* Writes one thread's share of a sequence. The buffer is all zeros before the first of them begins. */
static inline void expand(const uint8_t *wire, uint8_t *out, uint32_t sequence, uint32_t thread,
                          uint32_t threads) {
    expansion e;
    e.wire = wire;
    e.out = out;
    e.sequence = sequence;
    e.thread = thread;
    e.threads = threads;
    if (word_of(&e, WIRE_IS_PLAIN)) {
        expand_bytes(&e, out, section(&e, WIRE_TEXTS, 0, 0), word_of(&e, WIRE_BATCH_SIZE));
        return;
    }
    e.length = (uint32_t)word_of(&e, WIRE_LENGTH);
    e.first = (uint64_t)sequence * e.length;
    e.record = section(&e, WIRE_RECORDS, sequence, RECORD_SIZE);
    e.cells = field(&e, RECORD_CELLS);
    expand_cells(&e);
    expand_padding(&e);
    expand_rows(&e);
    expand_edges(&e);
    expand_times(&e);
    expand_fields(&e);
    expand_bytes(&e, part(&e, PART_TEXTS), section(&e, WIRE_TEXTS, 0, 0), word_of(&e, WIRE_TEXT_SIZE));
}

#ifdef __CUDACC__
extern "C" __global__ void weir_expand(const uint8_t *wire, uint8_t *out) {
    expand(wire, out, blockIdx.x, blockIdx.y * blockDim.x + threadIdx.x, gridDim.y * blockDim.x);
}
#endif

#endif
