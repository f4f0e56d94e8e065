/* The expansion on the host: what expand_kernel.h does with a cell, row by row, and what is the same for many
 * cells at once. Timestamps are 60 of the 89 bytes of a cell and mostly zero: a row's are cleared and those
 * that it has are written right after, while they are near. */
#include "batch/expand.h"

#include <string.h>

#include "base/floating.h"
#include "base/narrow.h"
#include "batch/expand_kernel.h"
#include "batch/rules.h"
#include "weir_tool/batch_tools.h"

/* Parts that have the same value for all cells of a sequence, or are written in another way than the rest. */
#define BIT(id) ((uint32_t)1 << WEIR_##id)
enum {
    ROW_BY_ROW = BIT(SEQ_ROW_IDS) | BIT(OUT_PERM) | BIT(IN_PERM) | BIT(TIMESTAMP_VALUES),
    CELL_BY_CELL = CELL_PARTS & ~(BIT(IS_TARGET) | BIT(IS_PADDING) | ROW_BY_ROW),
};

/* ---- Cells ------------------------------------------------------------------------------------- */

/* `count` numbers of 16 bits: one again and again, or those that follow it. */
SHARED void write_numbers(uint8_t *out, uint32_t first, uint32_t step, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        weir__store16(out + 2 * (size_t)i, WEIR__LOW(uint16_t, first + i * step));
}

static void expand_times(const expansion *e, const expanded_row *row) {
    const uint8_t *cell = e->rules + rules_word(e->rules, RULES_TIMES) +
                          4 * (uint64_t)weir__load32(row->kind + KIND_FIRST_TIME);
    uint32_t count = weir__load32(row->kind + KIND_TIMES);
    memset(e->parts[WEIR_TIMESTAMP_VALUES] + 4 * (size_t)TIME_FLOATS * row->first, 0,
           4 * (size_t)TIME_FLOATS * row->cells);
    for (uint32_t k = 0; k < count; k++, cell += 4) {
        uint32_t i = weir__load32(cell);
        const uint8_t *rule = row->rules + (size_t)i * CELL_SIZE;
        if (i < row->cells && !is_null_cell(rule, row->record, e->seen))
            write_time(e, row->first + i,
                       (int64_t)weir__load64(row->record + weir__load32(rule + CELL_SLOT)));
    }
}

/* The optional tensors, without their padding: few ask for them. */
static __attribute__((noinline)) void expand_asked(const expansion *e, uint32_t wanted) {
    for (uint32_t r = 0; r < e->rows; r++) {
        expanded_row row = row_of(e, r);
        for (uint32_t at = r == 0 ? 0 : row.first; at < row.first + row.cells; at++)
            expand_optional(e, &row, at, wanted);
    }
}

/* Zeros behind the cells, where every permutation leaves a position as it is. */
static void expand_padding(const expansion *e, uint32_t wanted) {
    size_t cells = e->cells, rest = e->length - cells;
    for (uint32_t id = 0; id < WEIR_TENSORS; id++) {
        uint8_t *part = e->parts[id];
        if ((wanted & (CELL_PARTS | OPTIONAL_PARTS)) >> id & 1) {
            size_t size = (size_t)(compact_word(e->compact, COMPACT_STRIDES + id) / e->length);
            memset(part + cells * size, id == WEIR_IS_PADDING, rest * size);
        }
    }
#define STAY(id, ...)                                                                                        \
    if (WANTS(id))                                                                                           \
        write_numbers(e->parts[WEIR_##id] + 2 * cells, e->cells, 1, e->length - e->cells);
    WEIR_PERMUTATIONS(STAY)
#undef STAY
}

SHARED void expand_cells(const expansion *e, uint32_t wanted) {
    if (WANTS(IS_TARGET))
        memset(e->parts[WEIR_IS_TARGET], 0, e->cells);
    if (WANTS(IS_PADDING))
        memset(e->parts[WEIR_IS_PADDING], 0, e->cells);
    uint32_t rows = wanted & (CELL_BY_CELL | ROW_BY_ROW) ? e->rows : 0;
    for (uint32_t r = 0; r < rows; r++) {
        expanded_row row = row_of(e, r);
        if (wanted & CELL_BY_CELL)
            for (uint32_t i = 0; i < row.cells; i++)
                expand_cell(e, &row, i, wanted & CELL_BY_CELL);
        if (WANTS(SEQ_ROW_IDS))
            write_numbers(e->parts[WEIR_SEQ_ROW_IDS] + 2 * (size_t)row.first, row.number, 0, row.cells);
        if (WANTS(OUT_PERM))
            write_numbers(e->parts[WEIR_OUT_PERM] + 2 * (size_t)row.out_place, row.first, 1, row.cells);
        if (WANTS(IN_PERM))
            write_numbers(e->parts[WEIR_IN_PERM] + 2 * (size_t)row.in_place, row.first, 1, row.cells);
        if (WANTS(TIMESTAMP_VALUES))
            expand_times(e, &row);
    }
    if (e->cells > 0)
        expand_target(e, wanted);
    if (wanted & OPTIONAL_PARTS)
        expand_asked(e, wanted & OPTIONAL_PARTS);
    expand_padding(e, wanted);
}

/* ---- Parts of a sequence ----------------------------------------------------------------------- */

void weir_batch__expand_part(const uint8_t *rules, const uint8_t *compact, uint32_t index,
                             weir_tensor_id part, uint8_t *out) {
    expansion e = expansion_of(rules, compact, index);
    e.parts[part] = out;
    switch (WEIR__LOW(uint32_t, part)) {
#define ONE(id, ...)                                                                                         \
    case WEIR_##id:                                                                                          \
        expand_cells(&e, BIT(id));                                                                           \
        return;
        WEIR_CELL_TENSORS(ONE)
        WEIR_PERMUTATIONS(ONE)
        WEIR_OPTIONAL_TENSORS(ONE)
#undef ONE
    }
}

void weir_batch__expand_edges(const uint8_t *compact, uint32_t index, uint32_t width, uint32_t begin,
                              uint32_t end, uint8_t *out) {
    const uint8_t *sequence = compact + sequence_offset(index);
    const uint8_t *edge = compact + weir__load64(sequence + SEQUENCE_BLOB) +
                          edges_offset(weir__load32(sequence + SEQUENCE_ROWS));
    uint32_t count = weir__load32(sequence + SEQUENCE_EDGES);
    memset(out, 0, (size_t)(end - begin) * width);
    for (uint32_t i = 0; i < count; i++, edge += EDGE_SIZE) {
        uint32_t child = weir__load16(edge);
        if (child >= begin && child < end)
            out[(size_t)(child - begin) * width + weir__load16(edge + 2)] = 1;
    }
}

void weir_batch__expand_texts(const uint8_t *all_rules, const weir_batch__rules *rules,
                              const uint8_t *compact, uint32_t index, const uint32_t *texts, uint8_t *out) {
    expansion e = expansion_of(all_rules, compact, index);
    memset(out, 0, 4 * (size_t)e.length);
    for (uint32_t r = 0; r < e.rows; r++) {
        expanded_row row = row_of(&e, r);
        const weir_batch__kind *kind = &rules->kinds[weir__load16(e.blob + (size_t)r * ROW_SIZE + ROW_KIND)];
        for (uint32_t k = 0; k < kind->text_count; k++) {
            const weir_batch__text_rule *text = &kind->texts[k];
            if (text->cell < row.cells && !is_null_cell(text->rule, row.record, e.seen))
                weir__store32(out + 4 * (size_t)(row.first + text->cell),
                              texts[weir__load32(row.record + text->slot)]);
        }
    }
}

/* ---- Batches ----------------------------------------------------------------------------------- */

void weir_batch__expand_unit(const uint8_t *rules, const uint8_t *compact, uint8_t *out, uint32_t first,
                             uint32_t count) {
    uint64_t sequences = compact_word(compact, COMPACT_SEQUENCES);
    if (count == 0)
        return;
    for (uint32_t i = first; i < first + count; i++) {
        expansion e = expansion_of(rules, compact, i);
        uint32_t rows = WEIR__LOW(uint32_t, compact_word(compact, COMPACT_ROWS));
        uint32_t asked = WEIR__LOW(uint32_t, e.tensors) & OPTIONAL_PARTS;
        place_parts(&e, out, i);
        expand_cells(&e, CELL_PARTS);
        if (asked) {
            expand_asked(&e, asked);
            expand_padding(&e, asked);
        }
        weir_batch__expand_edges(compact, i, rows, 0, rows, e.parts[WEIR_FK_ADJ]);
        expand_fields(&e);
    }
    uint64_t size = compact_word(compact, COMPACT_TEXT_SIZE);
    uint64_t begin = size / sequences * first;
    uint64_t end = first + count == sequences ? size : size / sequences * (first + count);
    memcpy(out + compact_word(compact, COMPACT_PARTS + WEIR_TEXT_BATCH_EMBEDDINGS) + begin,
           compact + compact_word(compact, COMPACT_TEXTS) + begin, (size_t)(end - begin));
}

static __attribute__((noinline)) void expand_all(const void *rules, const void *compact, void *out) {
    weir_batch__expand_unit(rules, compact, out, 0,
                            WEIR__LOW(uint32_t, compact_word(compact, COMPACT_SEQUENCES)));
}

void weir_batch_expand(const void *rules, const void *compact, void *out) {
    weir__floating kept = weir__enter_floating();
    expand_all(rules, compact, out);
    weir__leave_floating(&kept);
}

void weir_batch__expand_run(void *const *arguments) {
    const void *rules, *compact;
    void *out;
    memcpy(&rules, arguments[0], sizeof rules);
    memcpy(&compact, arguments[1], sizeof compact);
    memcpy(&out, arguments[2], sizeof out);
    weir_batch_expand(rules, compact, out);
}
