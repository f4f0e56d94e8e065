/* See attention_batch.h. */
#include "support/attention_batch.h"

#include <stdlib.h>

#include "base/bytes.h"

static uint32_t row_at(const made_batch *m, uint32_t b, uint32_t i) {
    return weir__load16(m->seq_row_ids + 2 * ((size_t)b * m->length + i));
}

static uint32_t column_at(const made_batch *m, uint32_t b, uint32_t i) {
    return weir__load32(m->column_ids + 4 * ((size_t)b * m->length + i));
}

static void make_order(made_batch *m, uint32_t b, uint32_t cells, uint32_t columns) {
    uint32_t place = 0;
    for (uint32_t column = 0; column < columns; column++)
        for (uint32_t i = 0; i < cells; i++)
            if (column_at(m, b, i) == column)
                weir__store16(m->col_perm + 2 * ((size_t)b * m->length + place++), (uint16_t)i);
    for (; place < m->length; place++)
        weir__store16(m->col_perm + 2 * ((size_t)b * m->length + place), (uint16_t)place);
}

static void make_sequence(made_batch *m, const batch_rules *rules, uint32_t b, random_stream *random) {
    uint32_t most = rules->cells > 0 ? rules->cells : m->length, row = 0, left = 0;
    uint32_t cells = b == 0 ? most : (uint32_t)random_below(random, most + 1);
    for (uint32_t i = 0; i < m->length; i++) {
        size_t at = (size_t)b * m->length + i;
        if (i > 0 && left == 0 && row + 1 < m->rows)
            row++;
        left = left ? left - 1 : (uint32_t)random_below(random, rules->widest);
        m->is_padding[at] = i >= cells;
        weir__store16(m->seq_row_ids + 2 * at, (uint16_t)(i < cells ? row : 0));
        weir__store32(m->column_ids + 4 * at, i < cells ? (uint32_t)random_below(random, rules->columns) : 0);
    }
    for (uint32_t child = 0; child < m->rows; child++)
        for (uint64_t n = random_below(random, rules->parents + 1); n > 0; n--)
            m->fk_adj[((size_t)b * m->rows + child) * m->rows + random_below(random, m->rows)] = 1;
    for (uint32_t child = 1; child < m->rows && rules->has_hub; child++)
        m->fk_adj[((size_t)b * m->rows + child) * m->rows] = 1;
    make_order(m, b, cells, rules->columns);
}

made_batch make_batch(const batch_rules *rules, uint64_t seed) {
    random_stream random = {seed};
    made_batch m = {.sequences = rules->sequences, .length = rules->length, .rows = rules->rows};
    size_t cells = (size_t)m.sequences * m.length;
    m.seq_row_ids = calloc(cells, 2);
    m.column_ids = calloc(cells, 4);
    m.is_padding = calloc(cells, 1);
    m.col_perm = calloc(cells, 2);
    m.fk_adj = calloc((size_t)m.sequences * m.rows * m.rows, 1);
    for (uint32_t b = 0; b < m.sequences; b++)
        make_sequence(&m, rules, b, &random);
    return m;
}

void free_batch(made_batch *m) {
    free(m->seq_row_ids);
    free(m->column_ids);
    free(m->is_padding);
    free(m->col_perm);
    free(m->fk_adj);
}

weir_attention_batch given_batch(const made_batch *m, uint32_t threads) {
    return (weir_attention_batch){.sequences = m->sequences,
                                  .length = m->length,
                                  .rows = m->rows,
                                  .threads = threads,
                                  .seq_row_ids = m->seq_row_ids,
                                  .column_ids = m->column_ids,
                                  .is_padding = m->is_padding,
                                  .fk_adj = m->fk_adj,
                                  .col_perm = m->col_perm};
}

bool sees(const made_batch *m, weir_attention_pattern pattern, uint32_t b, uint32_t i, uint32_t j) {
    if (m->is_padding[(size_t)b * m->length + i] || m->is_padding[(size_t)b * m->length + j])
        return false;
    uint32_t from = row_at(m, b, i), to = row_at(m, b, j);
    const uint8_t *edges = m->fk_adj + (size_t)b * m->rows * m->rows;
    switch (pattern) {
    case WEIR_ATTENTION_COLUMN:
        return column_at(m, b, i) == column_at(m, b, j);
    case WEIR_ATTENTION_OUTBOUND:
        return from == to || edges[(size_t)from * m->rows + to];
    default:
        return edges[(size_t)to * m->rows + from];
    }
}
