/* Packing: one pass to count, then section after section. The loops over cells are plain, so that the
 * compiler makes vectors of them. A batch whose wire form would be larger than itself goes as it is. */
#include "batch/wire.h"

#include <assert.h>

#include "base/floating.h"
#include "batch/buffer.h"
#include "batch/expand_kernel.h"

static const char operator_name[] = "weir.batch.wire";

enum { ALIGNMENT = 16, HEADER_SIZE = 8 * WIRE_WORDS, NARROW_COLUMNS = 1 << 16 };

static_assert(HEADER_SIZE % ALIGNMENT == 0, "sections are aligned");
static_assert(WIRE_WORDS - WIRE_PARTS == WEIR_BATCH_PARTS, "a word for each part");
static_assert((int)PART_ADJACENCY == WEIR_FK_ADJ && (int)PART_TEXTS == WEIR_TEXT_BATCH_EMBEDDINGS &&
                  (int)PART_NUM_ROWS == WEIR_NUM_ROWS && (int)PART_TEXT_IDS == WEIR_TEXT_EMBED_IDS,
              "the kernel's parts are the batch's");
static_assert((int)STYPE_NUMERICAL == WEIR_NUMERICAL && (int)STYPE_CATEGORICAL == WEIR_CATEGORICAL &&
                  (int)STYPE_TEXT == WEIR_TEXT && (int)WEIR_IGNORED <= FLAG_TYPE,
              "the kernel's types are the store's");
static_assert((int)TIME_FLOATS == WEIR_TIMESTAMP_FLOATS, "the kernel's floats are the store's");

/* What a batch has of each kind. */
typedef struct totals {
    uint64_t cells;
    uint64_t rows;
    uint64_t times;
    uint64_t edges;
    uint32_t column_size;
} totals;

typedef struct packing {
    const weir_batch_buffer *buffer;
    const weir_batch *batch;
    uint8_t *wire;
    uint64_t end; /* of the sections that have a place */
    totals total;
    uint64_t sections[WIRE_PARTS]; /* by word */
} packing;

static const uint8_t *part_at(const packing *p, weir_tensor_id id, uint32_t index) {
    const weir_tensor *tensor = &p->batch->tensors[id];
    return p->batch->data + tensor->offset + tensor->size / p->batch->sequence_count * index;
}

static uint32_t rows_of(const packing *p, uint32_t index) {
    return weir__load32(part_at(p, WEIR_NUM_ROWS, index));
}

/* ---- Counting ---------------------------------------------------------------------------------- */

static uint32_t bits_of_columns(const uint8_t *column_ids, uint32_t cells) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < cells; i++)
        bits |= weir__load32(column_ids + 4 * (size_t)i);
    return bits;
}

static void count(packing *p) {
    uint32_t bits = 0;
    for (uint32_t i = 0; i < p->batch->sequence_count; i++) {
        p->total.cells += p->buffer->cell_counts[i];
        p->total.rows += rows_of(p, i);
        p->total.times += p->buffer->timestamp_counts[i];
        p->total.edges += p->buffer->edge_counts[i];
        bits |= bits_of_columns(part_at(p, WEIR_COLUMN_IDS, i), p->buffer->cell_counts[i]);
    }
    p->total.column_size = bits < NARROW_COLUMNS ? 2 : 4;
}

static void place(packing *p, enum wire_word word, uint64_t size) {
    p->sections[word] = p->end;
    p->end = (p->end + size + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
}

static void place_sections(packing *p) {
    const totals *total = &p->total;
    p->end = HEADER_SIZE;
    place(p, WIRE_RECORDS, (uint64_t)p->batch->sequence_count * RECORD_SIZE);
    place(p, WIRE_FLAGS, total->cells);
    place(p, WIRE_COLUMNS, total->cells * total->column_size);
    place(p, WIRE_VALUES, total->cells * 4);
    place(p, WIRE_COL_PERMS, total->cells * 2);
    place(p, WIRE_PLACES, total->rows * PLACE_SIZE);
    place(p, WIRE_TIMES, total->times * 8);
    place(p, WIRE_TIME_CELLS, total->times * 2);
    place(p, WIRE_EDGES, total->edges * EDGE_SIZE);
    place(p, WIRE_TEXTS, p->batch->tensors[WEIR_TEXT_BATCH_EMBEDDINGS].size);
}

/* ---- Writing ----------------------------------------------------------------------------------- */

static void put_word(const packing *p, uint32_t word, uint64_t value) {
    weir__store64(p->wire + 8 * (size_t)word, value);
}

static uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void write_header(const packing *p) {
    const weir_batch *batch = p->batch;
    put_word(p, WIRE_SIZE, p->end);
    put_word(p, WIRE_BATCH_SIZE, batch->size);
    put_word(p, WIRE_IS_PLAIN, 0);
    put_word(p, WIRE_SEQUENCES, batch->sequence_count);
    put_word(p, WIRE_LENGTH, batch->sequence_length);
    put_word(p, WIRE_ROWS, batch->row_count);
    put_word(p, WIRE_COLUMN_SIZE, p->total.column_size);
    put_word(p, WIRE_TEXT_SIZE, batch->tensors[WEIR_TEXT_BATCH_EMBEDDINGS].size);
    put_word(p, WIRE_MEAN, bits_of_double(p->buffer->timestamps_of.mean));
    put_word(p, WIRE_STD, bits_of_double(p->buffer->timestamps_of.std));
    for (uint32_t word = WIRE_RECORDS; word < WIRE_PARTS; word++)
        put_word(p, word, p->sections[word]);
    for (uint32_t i = 0; i < WEIR_BATCH_PARTS; i++)
        put_word(p, WIRE_PARTS + i, batch->tensors[i].offset);
}

static void write_record(const packing *p, uint32_t i, const totals *before) {
    uint8_t *record = p->wire + p->sections[WIRE_RECORDS] + (size_t)i * RECORD_SIZE;
    memset(record, 0, RECORD_SIZE);
    memcpy(record + RECORD_SAMPLE_INDEX, part_at(p, WEIR_SAMPLE_INDEX, i), 8);
    memcpy(record + RECORD_POSITION, part_at(p, WEIR_POSITION, i), 8);
    memcpy(record + RECORD_OBSERVATION_TIME, part_at(p, WEIR_OBSERVATION_TIME, i), 8);
    memcpy(record + RECORD_ANCHOR_ROW, part_at(p, WEIR_ANCHOR_ROW, i), 4);
    weir__store32(record + RECORD_CELLS, p->buffer->cell_counts[i]);
    weir__store32(record + RECORD_ROWS, rows_of(p, i));
    weir__store32(record + RECORD_FIRST_CELL, WEIR__NARROW(uint32_t, before->cells));
    weir__store32(record + RECORD_FIRST_ROW, WEIR__NARROW(uint32_t, before->rows));
    weir__store32(record + RECORD_FIRST_TIME, WEIR__NARROW(uint32_t, before->times));
    weir__store32(record + RECORD_TIMES, p->buffer->timestamp_counts[i]);
    weir__store32(record + RECORD_FIRST_EDGE, WEIR__NARROW(uint32_t, before->edges));
    weir__store32(record + RECORD_EDGES, p->buffer->edge_counts[i]);
}

static void join_flags(uint8_t *restrict out, const uint8_t *stypes, const uint8_t *nulls,
                       const uint8_t *bools, uint32_t cells) {
    for (uint32_t i = 0; i < cells; i++)
        out[i] = WEIR__LOW(uint8_t, stypes[i] | nulls[i] << FLAG_NULL_SHIFT | bools[i] << FLAG_BOOL_SHIFT);
}

/* Of the three tensors at most one is not 0 at a cell: the one of its type. */
static void join_values(uint8_t *restrict out, const uint8_t *numbers, const uint8_t *categories,
                        const uint8_t *texts, uint32_t cells) {
    for (size_t i = 0; i < 4 * (size_t)cells; i++)
        out[i] = numbers[i] | categories[i] | texts[i];
}

static void narrow_columns(uint8_t *restrict out, const uint8_t *columns, uint32_t cells) {
    for (uint32_t i = 0; i < cells; i++)
        weir__store16(out + 2 * (size_t)i, WEIR__LOW(uint16_t, weir__load32(columns + 4 * (size_t)i)));
}

static void write_cells(const packing *p, uint32_t i, uint64_t first) {
    uint32_t cells = p->buffer->cell_counts[i];
    uint32_t column_size = p->total.column_size;
    uint8_t *columns = p->wire + p->sections[WIRE_COLUMNS] + first * column_size;
    join_flags(p->wire + p->sections[WIRE_FLAGS] + first, part_at(p, WEIR_SEMANTIC_TYPES, i),
               part_at(p, WEIR_IS_NULL, i), part_at(p, WEIR_BOOL_VALUES, i), cells);
    join_values(p->wire + p->sections[WIRE_VALUES] + 4 * first, part_at(p, WEIR_NUMERIC_VALUES, i),
                part_at(p, WEIR_CATEGORICAL_EMBED_IDS, i), part_at(p, WEIR_TEXT_EMBED_IDS, i), cells);
    if (column_size == 2)
        narrow_columns(columns, part_at(p, WEIR_COLUMN_IDS, i), cells);
    else
        memcpy(columns, part_at(p, WEIR_COLUMN_IDS, i), 4 * (size_t)cells);
    memcpy(p->wire + p->sections[WIRE_COL_PERMS] + 2 * first, part_at(p, WEIR_COL_PERM, i),
           2 * (size_t)cells);
}

/* Where each row's cells begin: in the sequence, then in both permutations, by walking their row orders. */
static void write_places(const packing *p, uint32_t i, uint64_t first) {
    uint8_t *places = p->wire + p->sections[WIRE_PLACES] + first * PLACE_SIZE;
    const uint32_t *starts = weir__row_starts_of(p->buffer, i);
    uint32_t rows = rows_of(p, i);
    for (uint32_t r = 0; r < rows; r++)
        weir__store32(places + (size_t)r * PLACE_SIZE, starts[r]);
    for (uint32_t which = 0; which < 2; which++) {
        const uint16_t *order = weir__row_orders_of(p->buffer, i) + which * (size_t)p->buffer->limits.rows;
        uint32_t next = 0;
        for (uint32_t k = 0; k < rows; k++) {
            weir__store16(places + (size_t)order[k] * PLACE_SIZE + 4 + 2 * which,
                          WEIR__NARROW(uint16_t, next));
            next += starts[order[k] + 1] - starts[order[k]];
        }
    }
}

static void write_times(const packing *p, uint32_t i, uint64_t first) {
    const int64_t *micros = p->buffer->timestamps + (size_t)i * p->buffer->limits.length;
    const uint16_t *cells = p->buffer->timestamp_cells + (size_t)i * p->buffer->limits.length;
    uint8_t *times = p->wire + p->sections[WIRE_TIMES] + 8 * first;
    uint8_t *positions = p->wire + p->sections[WIRE_TIME_CELLS] + 2 * first;
    for (uint32_t k = 0; k < p->buffer->timestamp_counts[i]; k++) {
        weir__store64(times + 8 * (size_t)k, (uint64_t)micros[k]);
        weir__store16(positions + 2 * (size_t)k, cells[k]);
    }
}

static void write_edges(const packing *p, uint32_t i, uint64_t first) {
    const struct weir__local_edge *edges = p->buffer->edges + (size_t)i * p->buffer->limits.edges;
    uint8_t *out = p->wire + p->sections[WIRE_EDGES] + first * EDGE_SIZE;
    for (uint32_t k = 0; k < p->buffer->edge_counts[i]; k++) {
        weir__store16(out + (size_t)k * EDGE_SIZE, edges[k].child);
        weir__store16(out + (size_t)k * EDGE_SIZE + 2, edges[k].parent);
    }
}

static void write_compact(const packing *p) {
    const weir_tensor *texts = &p->batch->tensors[WEIR_TEXT_BATCH_EMBEDDINGS];
    totals before = {0};
    write_header(p);
    for (uint32_t i = 0; i < p->batch->sequence_count; i++) {
        write_record(p, i, &before);
        write_cells(p, i, before.cells);
        write_places(p, i, before.rows);
        write_times(p, i, before.times);
        write_edges(p, i, before.edges);
        before.cells += p->buffer->cell_counts[i];
        before.rows += rows_of(p, i);
        before.times += p->buffer->timestamp_counts[i];
        before.edges += p->buffer->edge_counts[i];
    }
    if (texts->size > 0)
        memcpy(p->wire + p->sections[WIRE_TEXTS], p->batch->data + texts->offset, (size_t)texts->size);
}

static void write_plain(packing *p) {
    p->sections[WIRE_TEXTS] = HEADER_SIZE;
    p->end = HEADER_SIZE + p->batch->size;
    write_header(p);
    put_word(p, WIRE_IS_PLAIN, 1);
    memcpy(p->wire + HEADER_SIZE, p->batch->data, (size_t)p->batch->size);
}

uint64_t weir_wire_capacity(uint64_t batch_capacity) {
    return HEADER_SIZE + batch_capacity;
}

weir_status weir_wire_pack(const weir_batch_buffer *buffer, void *wire, uint64_t capacity, uint64_t *size,
                           weir_error *error) {
    packing p = {.buffer = buffer, .batch = &buffer->batch, .wire = wire};
    if (!buffer->has_batch || capacity < weir_wire_capacity(buffer->batch.size))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name, "%s",
                          buffer->has_batch ? "the room for the wire form is too little; it is that of "
                                              "weir_wire_capacity"
                                            : "the buffer holds no batch; build one before packing");
    count(&p);
    place_sections(&p);
    bool is_countable = p.total.rows <= UINT32_MAX && p.total.edges <= UINT32_MAX;
    if (is_countable && p.end <= HEADER_SIZE + buffer->batch.size)
        write_compact(&p);
    else
        write_plain(&p);
    *size = p.end;
    return WEIR_OK;
}

/* ---- Expanding --------------------------------------------------------------------------------- */

uint64_t weir_wire_batch_size(const void *wire) {
    return weir__load64((const uint8_t *)wire + 8 * (size_t)WIRE_BATCH_SIZE);
}

static __attribute__((noinline)) void expand_sequences(const uint8_t *wire, uint8_t *out) {
    uint64_t sequences = weir__load64(wire + 8 * (size_t)WIRE_SEQUENCES);
    for (uint64_t i = 0; i < sequences; i++)
        expand(wire, out, WEIR__NARROW(uint32_t, i), 0, 1);
}

static void expand_all(const uint8_t *wire, uint8_t *out) {
    weir__floating kept = weir__enter_floating();
    expand_sequences(wire, out);
    weir__leave_floating(&kept);
}

void weir_wire_expand(const void *wire, void *out) {
    memset(out, 0, (size_t)weir_wire_batch_size(wire));
    expand_all(wire, out);
}

void weir__expand_run(void *const *arguments) {
    const uint8_t *wire;
    uint8_t *out;
    memcpy(&wire, arguments[0], sizeof wire);
    memcpy(&out, arguments[1], sizeof out);
    expand_all(wire, out);
}
