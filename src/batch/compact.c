/* See compact.h. The size of a sequence is known when its walk ends: it gets its place then, behind those
 * that have one. Which order that gives depends on who ends first, and nothing else does: the directory says
 * where each is. */
#include "batch/compact.h"

#include <assert.h>
#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "batch/expand_kernel.h"

#define DOMAIN_MASK 0x6D61736Bu

/* The rows of a table in a sequence. */
typedef struct weir_batch__table_share {
    uint32_t rows;
    uint32_t place; /* of the next row's first cell in col_perm; before that is known, the number of cells */
} table_share;

/* A sequence that is being written. */
typedef struct sequence {
    const weir_batch__rules *rules;
    const weir_batch__walk *walk;
    uint8_t *blob;
    uint64_t offset; /* of the blob in the compact form */
    uint32_t edges;
    uint32_t tensors; /* the optional ones */
    uint32_t target_place;
    uint32_t label_count;
    uint32_t last_cells; /* of the last row, without its label */
    uint64_t seen;       /* see is_hidden */
} sequence;

void weir_batch__compact_writer_carve(weir_batch__compact_writer *writer, weir__block *block,
                                      const weir_batch__rules *rules, const weir_batch__limits *limits) {
    uint64_t edges = limits->walked_rows * rules->most_parents;
    weir_batch__row_orders_carve(&writer->orders, block, limits->walked_rows, edges);
    if (rules->picks_best_order)
        weir_batch__row_choice_carve(&writer->orders, block, limits->walked_rows, limits->length);
    writer->out_order = weir__carve(block, limits->walked_rows, sizeof *writer->out_order);
    writer->in_order = weir__carve(block, limits->walked_rows, sizeof *writer->in_order);
    writer->tables = weir__carve(block, rules->table_count, sizeof *writer->tables);
    writer->uses = weir__carve(block, limits->walked_texts + 1, sizeof *writer->uses);
    writer->philox = weir__philox_many_best();
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* A row is visited while there are fewer than `length` cells: so all rows but the last have no more than
 * that, and together no more of anything than if all these cells were of the kind that has the most of it per
 * cell. Rows without cells are bounded by the number of rows alone. */
void weir_batch__limit_sequences(weir_batch__limits *l, const weir_batch__rules *rules, uint64_t length,
                                 uint64_t rows) {
    uint64_t most_bytes = 0, most_texts = 0, bytes_of_none = 0, bytes_of_all = 0, texts_of_all = 0;
    uint64_t least_cells = UINT64_MAX;
    for (uint32_t k = 0; k < rules->kind_count; k++) {
        const weir_batch__kind *kind = &rules->kinds[k];
        const weir_batch__table_rules *table = weir_batch__table_of_kind(rules, k);
        uint64_t bytes =
            ROW_SIZE + (uint64_t)table->parent_count * EDGE_SIZE + MARK_SIZE + table->record_size;
        most_bytes = weir__larger(most_bytes, bytes);
        most_texts = weir__larger(most_texts, kind->text_count);
        least_cells = weir__lesser(least_cells, kind->cells);
        if (kind->cells == 0)
            bytes_of_none = weir__larger(bytes_of_none, bytes);
        else {
            bytes_of_all = weir__larger(bytes_of_all, length * bytes / kind->cells);
            texts_of_all = weir__larger(texts_of_all, length * kind->text_count / kind->cells);
        }
    }
    l->walked_rows = least_cells ? weir__lesser(rows, 1 + (length + least_cells - 1) / least_cells) : rows;
    l->walked_texts = weir__lesser(l->walked_rows * most_texts, texts_of_all + most_texts);
    l->blob = up_to_8(4 * 8 + length / 8 +
                      weir__lesser(l->walked_rows * most_bytes,
                                   bytes_of_all + most_bytes + l->walked_rows * bytes_of_none));
}

/* ---- Places in col_perm ---------------------------------------------------------------------- */

static uint32_t cells_of(const weir_batch__walked_row *row) {
    return row[1].first_cell - row->first_cell;
}

/* Counts each table's rows and cells, and finds where its cells begin in col_perm, and the target stands. */
static void share_out(sequence *s, table_share *tables) {
    const weir_batch__walked_row *row = s->walk->rows, *last = row + s->walk->row_count - 1;
    uint32_t place = 0, table_count = s->rules->table_count, label_table = s->rules->label_table;
    memset(tables, 0, table_count * sizeof *tables);
    for (; row <= last; row++) {
        tables[row->table].rows++;
        tables[row->table].place += cells_of(row);
    }
    for (uint32_t t = 0; t < table_count; t++) {
        uint32_t cells = tables[t].place;
        tables[t].place = place;
        place += cells + (t == label_table);
    }
    s->target_place = place;
    s->last_cells = cells_of(last) - (cells_of(last) > s->rules->kinds[last->kind].label);
    if (label_table != WEIR_NONE) {
        const table_share *labelled = &tables[label_table];
        uint32_t before = s->rules->kinds[s->rules->unlabelled].before;
        bool is_cut = last->table == label_table && s->last_cells < before;
        s->target_place = labelled->place + labelled->rows * before - (is_cut ? before - s->last_cells : 0);
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Notes the texts that a row uses, cells that are null, hidden or cut left out. A number beyond the store's
 * is 0: a damaged store must not make a batch that points outside its tables. What was just copied to
 * `record` is read where it came from, which does not wait for the copy. */
static weir_batch__text_use *note_texts(const sequence *s, const weir_batch__kind *kind, const uint8_t *from,
                                        uint8_t *record, uint32_t cells, weir_batch__text_use *next) {
    uint32_t text_count = s->rules->info->text_count;
    for (uint32_t k = 0; k < kind->text_count; k++) {
        const weir_batch__text_rule *rule = &kind->texts[k];
        uint32_t text = weir__load32(from + rule->slot);
        bool is_used = (rule->cell < cells) & !is_null_cell(rule->rule, from, s->seen);
        if (text >= text_count) {
            text = 0;
            weir__store32(record + rule->slot, 0);
            is_used &= text_count > 0;
        }
        text += s->rules->origin.first_text;
        *next = (uint64_t)text << 32 | (s->offset + (uint64_t)(record - s->blob) + rule->slot) / 4;
        next += is_used;
    }
    return next;
}

/* Where the rows' records are in the blob. */
static uint64_t records_offset(const sequence *s) {
    return masks_offset(s->walk->row_count, s->edges, s->tensors) +
           masks_size(s->walk->sequence_length, s->tensors);
}

/* Writes the rows' headers, but for their places in the row orders, and their records; then the foreign keys,
 * and, if a tensor is made of them, which part of the sequence each row belongs to, and its hop. */
static weir_batch__text_use *write_rows(sequence *s, table_share *tables, weir_batch__text_use *next) {
    const weir_batch__walk *walk = s->walk;
    const weir_batch__walked_row *row = walk->rows;
    uint8_t *header = s->blob, *record = s->blob + records_offset(s);
    for (uint32_t r = 0; r < walk->row_count; r++, row++, header += ROW_SIZE) {
        const weir_batch__kind *kind = &s->rules->kinds[row->kind];
        const weir_batch__table_rules *table = &s->rules->tables[row->table];
        table_share *share = &tables[row->table];
        weir__store32(header + ROW_RECORD, WEIR__LOW(uint32_t, (record - s->blob) / 8));
        weir__store16(header + ROW_KIND, row->kind);
        weir__store16(header + ROW_FIRST_CELL, WEIR__LOW(uint16_t, row->first_cell));
        weir__store16(header + ROW_COL_PLACE, WEIR__LOW(uint16_t, share->place++));
        weir__store16(header + ROW_COL_STEP, WEIR__LOW(uint16_t, share->rows));
        weir__store32(header + ROW_LABEL_PLACE, WEIR__LOW(uint16_t, s->target_place + 1 + s->label_count));
        s->label_count += kind->label < cells_of(row);
        memcpy(record, row->record, table->stride);
        next = note_texts(s, kind, row->record, record, cells_of(row), next);
        record += table->record_size;
    }
    uint8_t *edge = s->blob + edges_offset(walk->row_count);
    for (uint32_t i = 0; i < s->edges; i++, edge += EDGE_SIZE)
        weir__store32(edge, walk->edges[i].child | WEIR__LOW(uint32_t, walk->edges[i].parent) << 16);
    uint8_t *mark = s->blob + marks_offset(walk->row_count, s->edges);
    for (uint32_t r = 0; r < walk->row_count && has_marks(s->tensors); r++, mark += MARK_SIZE) {
        weir__store16(mark + MARK_PART, walk->rows[r].part);
        weir__store16(mark + MARK_HOP, walk->rows[r].hop);
    }
    return next;
}

/* A row's place in a permutation: behind the cells of the rows before it in the order. The anchor's first
 * cell stands behind the target, which is the anchor's too. */
static void write_places(const sequence *s, const uint16_t *order, enum row_field field_of_place) {
    uint32_t place = 0, row_count = s->walk->row_count;
    for (uint32_t i = 0; i < row_count; i++) {
        uint32_t r = order[i];
        place += r == 0;
        weir__store16(s->blob + (size_t)r * ROW_SIZE + field_of_place, WEIR__LOW(uint16_t, place));
        place += cells_of(&s->walk->rows[r]);
    }
}

/* Which cells are masked, if they can be: a bit each. */
static void write_masks(const sequence *s, const weir_batch__compact_writer *writer) {
    const weir_batch__outlook *o = &s->walk->outlook;
    uint8_t *out = s->blob + masks_offset(s->walk->row_count, s->edges, s->tensors);
    uint32_t cells = writer->mask_permille ? s->walk->cell_count : 0;
    memset(out, 0, (size_t)masks_size(s->walk->sequence_length, s->tensors));
    for (uint32_t first = 0; first < cells; first += WEIR__DRAWS) {
        weir__draws draws;
        writer->philox(o->seed, DOMAIN_MASK, o->position, first, &draws);
        for (uint32_t i = 0; i < WEIR__DRAWS && first + i < cells; i++) {
            bool is_masked = (unsigned __int128)draws.k0[i] * 1000 >> 64 < writer->mask_permille;
            if (is_masked && first + i > 0)
                out[(first + i) / 8] |= WEIR__LOW(uint8_t, 1u << (first + i) % 8);
        }
    }
}

/* ---- Sequences ------------------------------------------------------------------------------- */

static void write_record(const sequence *s, weir_batch_buffer *buffer, uint32_t index,
                         const weir_seed_row *seed) {
    uint8_t *out = buffer->compact + sequence_offset(index);
    const weir_batch__sample *sample = &buffer->samples[index];
    const weir_batch__outlook *outlook = &s->walk->outlook;
    uint32_t anchor = s->rules->tables[outlook->anchor_table].first_number + outlook->anchor_row;
    buffer->anchors[index] = anchor;
    weir__store64(out + SEQUENCE_SAMPLE_INDEX, sample->index);
    weir__store64(out + SEQUENCE_POSITION, sample->position);
    weir__store64(out + SEQUENCE_OBSERVATION_TIME, (uint64_t)seed->observation_time);
    weir__store64(out + SEQUENCE_BLOB, s->offset);
    weir__store64(out + SEQUENCE_TARGET, weir_batch__bits_of_target(&seed->target));
    weir__store32(out + SEQUENCE_ANCHOR_ROW, buffer->hides_anchors ? 0 : anchor);
    weir__store32(out + SEQUENCE_CELLS, s->walk->cell_count);
    weir__store32(out + SEQUENCE_ROWS, s->walk->row_count);
    weir__store32(out + SEQUENCE_EDGES, s->edges);
    weir__store32(out + SEQUENCE_TARGET_PLACE, s->target_place);
    weir__store32(out + SEQUENCE_SHIFT, 1 + s->label_count);
    weir__store32(out + SEQUENCE_CUT_TABLE, s->walk->rows[s->walk->row_count - 1].table);
    weir__store32(out + SEQUENCE_CUT_CELLS, s->last_cells);
    weir__store32(out + SEQUENCE_TARGET_IS_NULL, seed->target.is_null);
    weir__store32(out + SEQUENCE_RULES, s->rules->place);
    weir__store64(out + SEQUENCE_CUTOFF, (uint64_t)s->walk->outlook.cutoff);
}

static void order_rows(const sequence *s, const weir_batch__compact_writer *writer) {
    const weir_batch__walk *walk = s->walk;
    if (!s->rules->picks_best_order) {
        weir_batch__row_order(&writer->orders, walk->row_count, walk->edges, s->edges, writer->out_order,
                              writer->in_order);
        return;
    }
    uint32_t *starts = writer->orders.choice.starts;
    for (uint32_t r = 0; r < walk->row_count; r++)
        starts[r] = walk->rows[r].first_cell;
    starts[0] = 0; /* the target is the anchor's too */
    starts[walk->row_count] = walk->cell_count;
    weir_batch__best_row_order(&writer->orders, walk->row_count, walk->edges, s->edges, writer->out_order,
                               writer->in_order);
}

void weir_batch__write_sequence(const weir_batch__compact_writer *writer, weir_batch_buffer *buffer,
                                uint32_t index, weir_batch__walk *walk, const weir_seed_row *seed) {
    sequence s = {
        .rules = walk->rules,
        .walk = walk,
        .edges = walk->rules->may_repeat_parents ? weir_batch__unique_edges(&writer->orders, walk->row_count,
                                                                            walk->edges, walk->edge_count)
                                                 : walk->edge_count,
        .tensors = buffer->tensors_asked,
        .seen = moment_of((uint64_t)walk->outlook.cutoff),
    };
    uint64_t size = records_offset(&s) + walk->record_bytes;
    assert(size <= buffer->limits.blob);
    s.offset = atomic_fetch_add_explicit(&buffer->used, size, memory_order_relaxed);
    assert(s.offset + size <= buffer->room.compact && "a batch is larger than its buffer");
    s.blob = buffer->compact + s.offset;
    share_out(&s, writer->tables);
    weir_batch__text_use *end = write_rows(&s, writer->tables, writer->uses);
    if (s.tensors >> WEIR_IS_MASKED & 1)
        write_masks(&s, writer);
    order_rows(&s, writer);
    write_places(&s, writer->out_order, ROW_OUT_PLACE);
    write_places(&s, writer->in_order, ROW_IN_PLACE);
    write_record(&s, buffer, index, seed);
    uint32_t count = WEIR__LOW(uint32_t, end - writer->uses);
    uint32_t first = atomic_fetch_add_explicit(&buffer->use_count, count, memory_order_relaxed);
    assert((uint64_t)first + count <= buffer->limits.all_texts && "more texts than the buffer has room for");
    memcpy(buffer->uses + first, writer->uses, count * sizeof *writer->uses);
    assert(walk->row_count <= buffer->row_stride &&
           (index + (uint64_t)1) * buffer->row_stride <= buffer->limits.all_rows &&
           "more rows than the buffer has room for");
    uint64_t *rows = buffer->rows + (size_t)index * buffer->row_stride;
    uint32_t *visits = buffer->visits + (size_t)index * buffer->row_stride;
    for (uint32_t r = 0; r < walk->row_count; r++) {
        bool starts_part = r == 0 || walk->rows[r].part != walk->rows[r - 1].part;
        rows[r] = walk->rules->tables[walk->rows[r].table].row_start + walk->rows[r].row;
        visits[r] = starts_part ? walk->part_visits[walk->rows[r].part] : WEIR_NONE;
    }
}

void weir_batch__write_padding(weir_batch_buffer *buffer, uint32_t index) {
    memset(buffer->compact + sequence_offset(index), 0, SEQUENCE_SIZE);
    buffer->anchors[index] = 0;
    buffer->samples[index].member = 0;
}
