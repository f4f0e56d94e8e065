/* From the compact form of a batch to its tensors: the one expansion, compiled as C for the host and as CUDA
 * C (NVRTC, at run time) for a GPU. It writes every byte of every part, whatever was there before.
 *
 * A mixed batch has the rules of all its datasets, one after the other, and each sequence says which are its
 * own.
 *
 * A batch is a function of two things. The *rules* say what rows of each kind (a table, and whether the row
 * shows its label) give: they depend on the store, the task and the visibility of labels alone, and are made
 * once. The *compact form* says which rows there are: a header, a directory (a record per sequence), a blob
 * per sequence in any order (its row headers, its foreign keys, its rows' records as the store has them, but
 * that texts have the batch's numbers), and the texts' embeddings. Everything is little-endian; what is read
 * as a whole lies at a multiple of its size.
 *
 * On a GPU every thread of a sequence takes every threads-th cell and every threads-th byte of the matrix. No
 * byte is written by two threads: their number changes nothing. */
#ifndef WEIR_BATCH_EXPAND_KERNEL_H
#define WEIR_BATCH_EXPAND_KERNEL_H

#include "base/bytes.h"
#include "store/calendar.h"
#include "weir/stypes.h"
#include "weir/tensors.h"

#define NO_INDEX 0xFFFFFFFFu

/* Functions are made part of their callers, so that constants there decide what is left of them. */
#ifdef __CUDACC__
#define SHARED static __forceinline__
#else
#define SHARED static inline __attribute__((always_inline))
#endif

/* ---- The rules --------------------------------------------------------------------------------- */

/* The header: 64-bit words. Sections are offsets from the rules' begin. */
enum rules_word {
    RULES_SIZE, /* bytes */
    RULES_MEAN, /* of the store's timestamps, as bits of a double … */
    RULES_STD,
    RULES_CATEGORIES, /* how many the store has: a number beyond is 0 */
    RULES_TARGET_COLUMN,
    RULES_TARGET_STYPE,
    RULES_KINDS,          /* section */
    RULES_CELLS,          /* section */
    RULES_TIMES,          /* section: numbers of cells, 32 bits each */
    RULES_FIRST_CATEGORY, /* of the store's, among those of all stores of a mixed batch … */
    RULES_DATASET,        /* … and the dataset's number there */
    RULES_WORDS,
};

/* A kind of row: byte offsets of 32-bit numbers. */
enum kind_field {
    KIND_CELLS = 0,       /* how many a row has … */
    KIND_FIRST_CELL = 4,  /* … and the first one's place among all cells' rules */
    KIND_TIMES = 8,       /* timestamps among them … */
    KIND_FIRST_TIME = 12, /* … and the first one's place in the section of their numbers */
    KIND_TABLE = 16,
    KIND_LABEL = 20, /* the cell of the target column; NO_INDEX: it has none */
    KIND_TURN = 24,  /* cells without the label whose column is before the target's; NO_INDEX: all of them */
    KIND_TIME = 28,  /* where the row's time is in its record; NO_INDEX: it was always there */
    KIND_SIZE = 32,
};

/* A cell of a kind: byte offsets of 32-bit numbers, then bytes. Offsets in the record are 0 if there is
 * nothing to read, so that it can be read all the same. */
enum cell_field {
    CELL_COLUMN = 0,
    CELL_SLOT = 4,           /* of the value, 4 bytes or 8 */
    CELL_KNOWN_SLOT = 8,     /* of the time from which on it is known … */
    CELL_NULL_BYTE = 12,     /* where the bit is that says that it is null */
    CELL_BOOL_BYTE = 16,     /* where the bit is that is a boolean's value */
    CELL_NUMBER_MASK = 20,   /* all bits, if the type's tensor takes the value */
    CELL_CATEGORY_MASK = 24, /* … */
    CELL_TEXT_MASK = 28,     /* … */
    CELL_STYPE = 32,
    CELL_NULL_SHIFT = 33,
    CELL_BOOL_SHIFT = 34,
    CELL_BOOL_MASK = 35,  /* 1: a boolean */
    CELL_KNOWN_MASK = 36, /* 1: it is known from some time on; else with the row */
    CELL_SIZE = 40,
};

/* ---- The compact form -------------------------------------------------------------------------- */

/* The header: 64-bit words. Then come the directory and the blobs. */
enum compact_word {
    COMPACT_SIZE,       /* of all of it, bytes */
    COMPACT_BATCH_SIZE, /* of the expansion, bytes */
    COMPACT_SEQUENCES,
    COMPACT_LENGTH,
    COMPACT_ROWS,      /* R */
    COMPACT_TEXTS,     /* where the embeddings are, … */
    COMPACT_TEXT_SIZE, /* … bytes */
    COMPACT_TENSORS,   /* the optional ones that there are: bit i for weir_tensor_id i */
    COMPACT_PARTS,     /* where each part begins in the expansion, by weir_tensor_id, … */
    COMPACT_STRIDES = COMPACT_PARTS + WEIR_BATCH_PARTS, /* … and how far its sequences lie apart */
    COMPACT_WORDS = COMPACT_STRIDES + WEIR_BATCH_PARTS,
};

/* The record of a sequence: byte offsets. A sequence of padding is all zeros. */
enum sequence_field {
    SEQUENCE_SAMPLE_INDEX = 0, /* 64 bits … */
    SEQUENCE_POSITION = 8,
    SEQUENCE_OBSERVATION_TIME = 16,
    SEQUENCE_BLOB = 24,       /* where it begins */
    SEQUENCE_TARGET = 32,     /* the value: bits of a float, microseconds, 0 or 1, or a category */
    SEQUENCE_ANCHOR_ROW = 40, /* 32 bits … */
    SEQUENCE_CELLS = 44,
    SEQUENCE_ROWS = 48,
    SEQUENCE_EDGES = 52,
    SEQUENCE_TARGET_PLACE = 56, /* in col_perm */
    SEQUENCE_SHIFT = 60,        /* cells of the target column: those behind it in its table come later */
    SEQUENCE_CUT_TABLE = 64,    /* the last row's: its cells may be cut, … */
    SEQUENCE_CUT_CELLS = 68,    /* … and this many, without the label, are there */
    SEQUENCE_TARGET_IS_NULL = 72,
    SEQUENCE_RULES = 76,  /* where its own are among the batch's, in units of 8 bytes */
    SEQUENCE_CUTOFF = 80, /* 64 bits: the latest time that is shown */
    SEQUENCE_SIZE = 88,
};

/* A row's header, at the begin of the blob: byte offsets. The first is of 32 bits, the others of 16. Places
 * in permutations are those of the row's first cell. */
enum row_field {
    ROW_RECORD = 0, /* where its record is in the blob, in units of 8 bytes */
    ROW_KIND = 4,
    ROW_FIRST_CELL = 6,
    ROW_OUT_PLACE = 8,
    ROW_IN_PLACE = 10,
    ROW_COL_PLACE = 12, /* each further cell's is ROW_COL_STEP further on, but for labels and the cut */
    ROW_COL_STEP = 14,
    ROW_LABEL_PLACE = 16,
    ROW_SIZE = 20,
};

/* What optional tensors have of a row: byte offsets of 16 bits each. */
enum mark_field { MARK_PART = 0, MARK_HOP = 2, MARK_SIZE = 4 };

enum { EDGE_SIZE = 4, TIME_FLOATS = 2 * CYCLES + 1 };

/* ---- Reading ----------------------------------------------------------------------------------- */

/* A sequence, and where its parts go. */
typedef struct expansion {
    const uint8_t *rules;
    const uint8_t *compact;
    const uint8_t *sequence; /* its record */
    const uint8_t *blob;
    uint32_t length;
    uint32_t cells;
    uint32_t rows;
    uint32_t categories;
    uint32_t first_category;
    uint64_t seen;    /* the cut-off; see is_hidden */
    uint64_t tensors; /* the optional ones */
    uint8_t *parts[WEIR_BATCH_PARTS];
} expansion;

/* A row of it. */
typedef struct expanded_row {
    const uint8_t *record;
    const uint8_t *kind;
    const uint8_t *rules; /* of its cells */
    uint32_t number;
    uint32_t first; /* cell … */
    uint32_t cells; /* … and how many are not cut */
    uint32_t out_place, in_place, col_place, col_step, label_place;
    uint32_t label, turn, shift, cut; /* see col_place_of */
} expanded_row;

SHARED uint64_t compact_word(const uint8_t *compact, uint32_t word) {
    return weir__load64(compact + 8 * (uint64_t)word);
}

SHARED uint64_t rules_word(const uint8_t *rules, enum rules_word word) {
    return weir__load64(rules + 8 * (uint64_t)word);
}

SHARED uint32_t field(const expansion *e, enum sequence_field offset) {
    return weir__load32(e->sequence + offset);
}

SHARED uint64_t up_to_8(uint64_t size) {
    return (size + 7) & ~(uint64_t)7;
}

/* Where the blob's foreign keys are, … */
SHARED uint64_t edges_offset(uint32_t rows) {
    return up_to_8((uint64_t)rows * ROW_SIZE);
}

/* … the marks of its rows, if a tensor is made of them, … */
SHARED bool has_marks(uint64_t tensors) {
    return ((tensors >> WEIR_EXAMPLE_IDS | tensors >> WEIR_HOPS) & 1) != 0;
}

SHARED uint64_t marks_offset(uint32_t rows, uint32_t edges) {
    return edges_offset(rows) + up_to_8((uint64_t)edges * EDGE_SIZE);
}

/* … and the bits of its cells that are masked; the records follow. */
SHARED uint64_t masks_offset(uint32_t rows, uint32_t edges, uint64_t tensors) {
    return marks_offset(rows, edges) + (has_marks(tensors) ? up_to_8((uint64_t)rows * MARK_SIZE) : 0);
}

SHARED uint64_t masks_size(uint32_t length, uint64_t tensors) {
    return tensors >> WEIR_IS_MASKED & 1 ? up_to_8(((uint64_t)length + 7) / 8) : 0;
}

/* A time as a number that grows with it, but for the store's null, which is the largest: never. */
SHARED uint64_t moment_of(uint64_t micros) {
    return micros - ((uint64_t)1 << 63) - 1;
}

/* Where a sequence's record is in the compact form. */
SHARED uint64_t sequence_offset(uint32_t index) {
    return 8 * (uint64_t)COMPACT_WORDS + (uint64_t)index * SEQUENCE_SIZE;
}

/* Without the parts. */
SHARED expansion expansion_of(const uint8_t *rules, const uint8_t *compact, uint32_t index) {
    expansion e;
    e.compact = compact;
    e.sequence = compact + sequence_offset(index);
    e.rules = rules + 8 * (uint64_t)field(&e, SEQUENCE_RULES);
    e.blob = compact + weir__load64(e.sequence + SEQUENCE_BLOB);
    e.length = (uint32_t)compact_word(compact, COMPACT_LENGTH);
    e.cells = field(&e, SEQUENCE_CELLS);
    e.rows = field(&e, SEQUENCE_ROWS);
    e.categories = (uint32_t)rules_word(e.rules, RULES_CATEGORIES);
    e.first_category = (uint32_t)rules_word(e.rules, RULES_FIRST_CATEGORY);
    e.seen = moment_of(weir__load64(e.sequence + SEQUENCE_CUTOFF));
    e.tensors = compact_word(compact, COMPACT_TENSORS);
    return e;
}

/* Where a part of sequence `index` goes in the whole expansion. */
SHARED uint8_t *place_of(const expansion *e, uint8_t *out, uint32_t index, uint32_t id) {
    return out + compact_word(e->compact, (uint32_t)COMPACT_PARTS + id) +
           index * compact_word(e->compact, (uint32_t)COMPACT_STRIDES + id);
}

SHARED void place_parts(expansion *e, uint8_t *out, uint32_t index) {
#define PLACE(id, ...) e->parts[WEIR_##id] = place_of(e, out, index, WEIR_##id);
    WEIR_BATCH_TENSORS(PLACE)
    WEIR_BATCH_FIELDS(PLACE)
    WEIR_OPTIONAL_FIELDS(PLACE)
#undef PLACE
}

SHARED expanded_row row_of(const expansion *e, uint32_t number) {
    expanded_row row;
    const uint8_t *header = e->blob + (uint64_t)number * ROW_SIZE;
    const uint8_t *kind =
        e->rules + rules_word(e->rules, RULES_KINDS) + (uint64_t)weir__load16(header + ROW_KIND) * KIND_SIZE;
    uint32_t cells = weir__load32(kind + KIND_CELLS);
    bool is_cut = weir__load32(kind + KIND_TABLE) == field(e, SEQUENCE_CUT_TABLE);
    row.record = e->blob + 8 * (uint64_t)weir__load32(header + ROW_RECORD);
    row.kind = kind;
    row.rules = e->rules + rules_word(e->rules, RULES_CELLS) +
                (uint64_t)weir__load32(kind + KIND_FIRST_CELL) * CELL_SIZE;
    row.number = number;
    row.first = weir__load16(header + ROW_FIRST_CELL);
    row.cells = cells < e->cells - row.first ? cells : e->cells - row.first;
    row.out_place = weir__load16(header + ROW_OUT_PLACE);
    row.in_place = weir__load16(header + ROW_IN_PLACE);
    row.col_place = weir__load16(header + ROW_COL_PLACE);
    row.col_step = weir__load16(header + ROW_COL_STEP);
    row.label_place = weir__load16(header + ROW_LABEL_PLACE);
    row.label = weir__load32(kind + KIND_LABEL);
    row.turn = weir__load32(kind + KIND_TURN);
    row.shift = field(e, SEQUENCE_SHIFT);
    row.cut = is_cut ? field(e, SEQUENCE_CUT_CELLS) : NO_INDEX;
    return row;
}

/* ---- Cells ------------------------------------------------------------------------------------- */

/* The parts that are wanted, as a set: what is not costs nothing if the set is a constant. */
#define PART_BIT(id, ...) | (uint32_t)1 << WEIR_##id
enum { CELL_PARTS = 0 WEIR_CELL_TENSORS(PART_BIT) WEIR_PERMUTATIONS(PART_BIT) };
#define WANTS(id) ((wanted >> WEIR_##id & 1) != 0)

/* Writes a number at a place of a part, if that is wanted. */
#define ITEM_SIZE(id, name, dtype, size, ...) SIZE_OF_##id = size,
enum { WEIR_CELL_TENSORS(ITEM_SIZE) WEIR_PERMUTATIONS(ITEM_SIZE) WEIR_OPTIONAL_TENSORS(ITEM_SIZE) };
#define PUT(id, at, value)                                                                                   \
    do {                                                                                                     \
        if (WANTS(id) && SIZE_OF_##id == 1)                                                                  \
            e->parts[WEIR_##id][at] = (uint8_t)(value);                                                      \
        if (WANTS(id) && SIZE_OF_##id == 2)                                                                  \
            weir__store16(e->parts[WEIR_##id] + 2 * (uint64_t)(at), (uint16_t)(value));                      \
        if (WANTS(id) && SIZE_OF_##id == 4)                                                                  \
            weir__store32(e->parts[WEIR_##id] + 4 * (uint64_t)(at), (value));                                \
    } while (0)

/* Whether a time of a record is later than the observation time, or null. */
SHARED uint32_t is_hidden(const uint8_t *record, uint32_t slot, uint64_t seen) {
    return moment_of(weir__load64(record + slot)) > seen;
}

/* Whether a cell is null: in the store, or because it was not known at the time. */
SHARED uint32_t is_null_cell(const uint8_t *rule, const uint8_t *record, uint64_t seen) {
    uint32_t stored = (uint32_t)record[weir__load32(rule + CELL_NULL_BYTE)] >> rule[CELL_NULL_SHIFT];
    uint32_t hidden = is_hidden(record, weir__load32(rule + CELL_KNOWN_SLOT), seen) & rule[CELL_KNOWN_MASK];
    return (stored & 1) | hidden;
}

/* The place of a row's i-th cell in col_perm, where cells come by column and position: cells of the next
 * column are further on by the number of rows that have it. In the anchor's table, cells behind the target
 * column come behind all of its cells; in the last row's, those that are cut there are missing. */
SHARED uint32_t col_place_of(const expanded_row *row, uint32_t i) {
    uint32_t plain = i - (i > row->label); /* its number without the label */
    uint32_t place = row->col_place + plain * row->col_step;
    place += plain >= row->turn ? row->shift : 0;
    place -= plain > row->cut ? plain - row->cut : 0;
    return i == row->label ? row->label_place : place;
}

/* A row's i-th cell in all parts that are wanted but timestamp_values. */
SHARED void expand_cell(const expansion *e, const expanded_row *row, uint32_t i, uint32_t wanted) {
    const uint8_t *rule = row->rules + (uint64_t)i * CELL_SIZE;
    uint64_t at = row->first + i;
    uint32_t is_null = is_null_cell(rule, row->record, e->seen);
    uint32_t value = weir__load32(row->record + weir__load32(rule + CELL_SLOT)) & (is_null - 1);
    uint32_t category = value & weir__load32(rule + CELL_CATEGORY_MASK);
    uint32_t truth = (uint32_t)row->record[weir__load32(rule + CELL_BOOL_BYTE)] >> rule[CELL_BOOL_SHIFT];
    PUT(SEMANTIC_TYPES, at, rule[CELL_STYPE]);
    PUT(COLUMN_IDS, at, weir__load32(rule + CELL_COLUMN));
    PUT(SEQ_ROW_IDS, at, row->number);
    PUT(IS_NULL, at, is_null);
    PUT(NUMERIC_VALUES, at, value & weir__load32(rule + CELL_NUMBER_MASK));
    PUT(BOOL_VALUES, at, truth & ~is_null & rule[CELL_BOOL_MASK]);
    uint32_t first = e->first_category & weir__load32(rule + CELL_CATEGORY_MASK) & (is_null - 1);
    PUT(CATEGORICAL_EMBED_IDS, at, (category < e->categories ? category : 0) + first);
    PUT(TEXT_EMBED_IDS, at, value & weir__load32(rule + CELL_TEXT_MASK));
    PUT(IS_TARGET, at, 0);
    PUT(IS_PADDING, at, 0);
    PUT(COL_PERM, col_place_of(row, i), (uint32_t)at);
    PUT(OUT_PERM, row->out_place + i, (uint32_t)at);
    PUT(IN_PERM, row->in_place + i, (uint32_t)at);
}

/* ---- Timestamps -------------------------------------------------------------------------------- */

SHARED double double_of(uint64_t bits) {
    union {
        uint64_t bits;
        double value;
    } both;
    both.bits = bits;
    return both.value;
}

SHARED uint32_t bits_of(float value) {
    union {
        float value;
        uint32_t bits;
    } both;
    both.value = value;
    return both.bits;
}

/* The floats of a time, with tables alone. */
SHARED void write_time(const expansion *e, uint32_t at, int64_t micros) {
    uint8_t *out = e->parts[WEIR_TIMESTAMP_VALUES] + 4 * (uint64_t)TIME_FLOATS * at;
    double mean = double_of(rules_word(e->rules, RULES_MEAN));
    double std = double_of(rules_word(e->rules, RULES_STD));
    time_cycles cycles = cycles_of(micros);
    for (uint32_t i = 0; i < CYCLES; i++) {
        weir__store32(out + 8 * (uint64_t)i, bits_of(cycles.of[i][0]));
        weir__store32(out + 8 * (uint64_t)i + 4, bits_of(cycles.of[i][1]));
    }
    weir__store32(out + 8 * (uint64_t)CYCLES, bits_of(normalised((double)micros, mean, std)));
}

SHARED void clear_time(const expansion *e, uint32_t at) {
    for (uint32_t i = 0; i < TIME_FLOATS; i++)
        weir__store32(e->parts[WEIR_TIMESTAMP_VALUES] + 4 * ((uint64_t)TIME_FLOATS * at + i), 0);
}

/* ---- Optional tensors -------------------------------------------------------------------------- */

#define OPTIONAL_PARTS (0u WEIR_OPTIONAL_TENSORS(PART_BIT))
#define TIME_ALWAYS    ((int64_t)((uint64_t)1 << 63))
#define TIME_NEVER     ((int64_t)(~(uint64_t)0 >> 1))

/* How old a row is at the observation time, in days: bits of a float. */
SHARED uint32_t age_of(const expansion *e, const expanded_row *row) {
    uint32_t slot = weir__load32(row->kind + KIND_TIME);
    int64_t seen = (int64_t)weir__load64(e->sequence + SEQUENCE_OBSERVATION_TIME);
    int64_t time = slot == NO_INDEX ? TIME_ALWAYS : (int64_t)weir__load64(row->record + slot);
    if (time == TIME_ALWAYS || time == TIME_NEVER || seen == TIME_NEVER)
        return bits_of(-1.0f);
    return time > seen ? 0 : bits_of((float)((double)((uint64_t)seen - (uint64_t)time) / 86400000000.0));
}

/* Whether the cell at a position of a row is masked. */
SHARED uint8_t is_masked(const expansion *e, const expanded_row *row, uint32_t at) {
    const uint8_t *masks = e->blob + masks_offset(e->rows, field(e, SEQUENCE_EDGES), e->tensors);
    if (at < row->first || (masks[at / 8] >> at % 8 & 1) == 0)
        return 0;
    const uint8_t *rule = row->rules + (uint64_t)(at - row->first) * CELL_SIZE;
    return rule[CELL_STYPE] != WEIR_IDENTIFIER && !is_null_cell(rule, row->record, e->seen);
}

/* A position of a row, which may be the target's, in the optional tensors that are wanted. */
SHARED void expand_optional(const expansion *e, const expanded_row *row, uint32_t at, uint32_t wanted) {
    const uint8_t *mark =
        e->blob + marks_offset(e->rows, field(e, SEQUENCE_EDGES)) + (uint64_t)row->number * MARK_SIZE;
    PUT(EXAMPLE_IDS, at, weir__load16(mark + MARK_PART));
    PUT(HOPS, at, weir__load16(mark + MARK_HOP));
    PUT(AGES, at, age_of(e, row));
    PUT(IS_MASKED, at, is_masked(e, row, at));
}

/* ---- The target -------------------------------------------------------------------------------- */

/* Position 0: the target, which belongs to row 0 and stands before its cells. */
SHARED void expand_target(const expansion *e, uint32_t wanted) {
    expanded_row anchor = row_of(e, 0);
    uint32_t stype = (uint32_t)rules_word(e->rules, RULES_TARGET_STYPE);
    weir_value kind = weir_value_of((weir_stype)stype);
    uint32_t is_null = field(e, SEQUENCE_TARGET_IS_NULL);
    uint64_t value = is_null ? 0 : weir__load64(e->sequence + SEQUENCE_TARGET);
    bool has_category = kind == WEIR_VALUE_CATEGORY && !is_null;
    PUT(SEMANTIC_TYPES, 0, stype);
    PUT(COLUMN_IDS, 0, (uint32_t)rules_word(e->rules, RULES_TARGET_COLUMN));
    PUT(SEQ_ROW_IDS, 0, 0);
    PUT(IS_NULL, 0, is_null);
    PUT(NUMERIC_VALUES, 0, kind == WEIR_VALUE_NUMBER ? (uint32_t)value : 0);
    if (WANTS(TIMESTAMP_VALUES))
        clear_time(e, 0);
    if (WANTS(TIMESTAMP_VALUES) && kind == WEIR_VALUE_TIME && !is_null)
        write_time(e, 0, (int64_t)value);
    PUT(BOOL_VALUES, 0, kind == WEIR_VALUE_TRUTH && value != 0);
    PUT(CATEGORICAL_EMBED_IDS, 0, has_category ? (uint32_t)value + e->first_category : 0);
    PUT(TEXT_EMBED_IDS, 0, 0); /* no task predicts a text */
    PUT(IS_TARGET, 0, 1);
    PUT(IS_PADDING, 0, 0);
    PUT(COL_PERM, field(e, SEQUENCE_TARGET_PLACE), 0);
    PUT(OUT_PERM, (uint16_t)(anchor.out_place - 1), 0);
    PUT(IN_PERM, (uint16_t)(anchor.in_place - 1), 0);
}

/* ---- The rest ---------------------------------------------------------------------------------- */

/* The fields of a sequence. */
SHARED void expand_fields(const expansion *e) {
    weir__store64(e->parts[WEIR_SAMPLE_INDEX], weir__load64(e->sequence + SEQUENCE_SAMPLE_INDEX));
    weir__store64(e->parts[WEIR_POSITION], weir__load64(e->sequence + SEQUENCE_POSITION));
    weir__store64(e->parts[WEIR_OBSERVATION_TIME], weir__load64(e->sequence + SEQUENCE_OBSERVATION_TIME));
    weir__store32(e->parts[WEIR_ANCHOR_ROW], field(e, SEQUENCE_ANCHOR_ROW));
    weir__store32(e->parts[WEIR_NUM_CELLS], e->cells);
    weir__store32(e->parts[WEIR_NUM_ROWS], e->rows);
    if (e->tensors >> WEIR_DATASET_IDS & 1)
        weir__store32(e->parts[WEIR_DATASET_IDS], (uint32_t)rules_word(e->rules, RULES_DATASET));
}

/* ---- Thread by thread -------------------------------------------------------------------------- */

/* The row of a cell: the last one that begins at or before it. */
SHARED uint32_t row_with_cell(const expansion *e, uint32_t at) {
    uint32_t low = 0, high = e->rows;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        bool is_before = weir__load16(e->blob + (uint64_t)middle * ROW_SIZE + ROW_FIRST_CELL) <= at;
        low = is_before ? middle : low;
        high = is_before ? high : middle;
    }
    return low;
}

/* Behind the cells: zeros, and every permutation leaves it where it is. */
SHARED void pad_position(const expansion *e, uint32_t at) {
    uint32_t wanted = (uint32_t)e->tensors | (CELL_PARTS & ~((uint32_t)1 << WEIR_TIMESTAMP_VALUES));
    clear_time(e, at);
#define ZERO(id, ...) PUT(id, at, WEIR_##id == WEIR_IS_PADDING);
#define STAY(id, ...) PUT(id, at, at);
    WEIR_CELL_TENSORS(ZERO)
    WEIR_PERMUTATIONS(STAY)
    WEIR_OPTIONAL_TENSORS(ZERO)
#undef ZERO
#undef STAY
}

SHARED void expand_position(const expansion *e, uint32_t at) {
    if (at >= e->cells) {
        pad_position(e, at);
    } else if (at == 0) {
        expanded_row first = row_of(e, 0);
        expand_target(e, CELL_PARTS);
        expand_optional(e, &first, 0, (uint32_t)e->tensors);
    } else {
        expanded_row row = row_of(e, row_with_cell(e, at));
        const uint8_t *rule = row.rules + (uint64_t)(at - row.first) * CELL_SIZE;
        expand_cell(e, &row, at - row.first, CELL_PARTS);
        if (weir_value_of((weir_stype)rule[CELL_STYPE]) == WEIR_VALUE_TIME &&
            !is_null_cell(rule, row.record, e->seen))
            write_time(e, at, (int64_t)weir__load64(row.record + weir__load32(rule + CELL_SLOT)));
        else
            clear_time(e, at);
        expand_optional(e, &row, at, (uint32_t)e->tensors);
    }
}

/* Whether a row of the sequence has a foreign key to another one. Edges come by child. */
SHARED uint8_t is_edge(const expansion *e, uint32_t child, uint32_t parent) {
    const uint8_t *edges = e->blob + edges_offset(e->rows);
    uint32_t low = 0, high = field(e, SEQUENCE_EDGES), end = high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        bool is_before = weir__load16(edges + (uint64_t)middle * EDGE_SIZE) < child;
        low = is_before ? middle + 1 : low;
        high = is_before ? high : middle;
    }
    for (; low < end && weir__load16(edges + (uint64_t)low * EDGE_SIZE) == child; low++)
        if (weir__load16(edges + (uint64_t)low * EDGE_SIZE + 2) == parent)
            return 1;
    return 0;
}

/* The embeddings, shared out over the threads of all sequences; both places are multiples of 16. */
SHARED void expand_texts(const expansion *e, uint64_t thread, uint64_t threads) {
    const uint8_t *from = e->compact + compact_word(e->compact, COMPACT_TEXTS);
    uint8_t *to = e->parts[WEIR_TEXT_BATCH_EMBEDDINGS];
    uint64_t size = compact_word(e->compact, COMPACT_TEXT_SIZE), words = size / 8;
    for (uint64_t i = thread; i < words; i += threads)
        weir__store64(to + 8 * i, weir__load64(from + 8 * i));
    for (uint64_t i = words * 8 + thread; i < size; i += threads)
        to[i] = from[i];
}

/* One thread's share of a sequence. */
SHARED void expand_share(const uint8_t *rules, const uint8_t *compact, uint8_t *out, uint32_t index,
                         uint32_t thread, uint32_t threads) {
    expansion e = expansion_of(rules, compact, index);
    uint64_t rows = compact_word(compact, COMPACT_ROWS);
    place_parts(&e, out, index);
    for (uint32_t at = thread; at < e.length; at += threads)
        expand_position(&e, at);
    for (uint64_t at = thread; at < rows * rows; at += threads)
        e.parts[WEIR_FK_ADJ][at] = is_edge(&e, (uint32_t)(at / rows), (uint32_t)(at % rows));
    if (thread == 0)
        expand_fields(&e);
    expand_texts(&e, (uint64_t)index * threads + thread, compact_word(compact, COMPACT_SEQUENCES) * threads);
}

#ifdef __CUDACC__
extern "C" __global__ void weir_expand(const uint8_t *rules, const uint8_t *compact, uint8_t *out) {
    expand_share(rules, compact, out, blockIdx.x, blockIdx.y * blockDim.x + threadIdx.x,
                 gridDim.y * blockDim.x);
}
#endif

#endif
