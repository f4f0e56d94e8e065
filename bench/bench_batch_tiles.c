/* What the permutations are for: attention kernels skip empty tiles, so what counts is how many tiles of
 * 64 x 64 cells have any entry, before and after. Over sequences of the demo shop; no time is measured. */
#include <stdio.h>
#include <string.h>

#include "batches.h"
#include "bench.h"

enum { TILE = 64, LENGTH = 1024, SIDE = LENGTH / TILE };

typedef enum mask { COLUMN_MASK, OUT_MASK, IN_MASK, MASKS } mask;

static const char *const names[MASKS] = {"same column", "own row and its parents", "a row's children"};
static const weir_tensor_id permutations[MASKS] = {WEIR_COL_PERM, WEIR_OUT_PERM, WEIR_IN_PERM};

typedef struct sequence {
    uint32_t cells;
    uint32_t rows; /* R of the batch */
    const uint8_t *adjacency;
    int32_t columns[LENGTH];
    uint16_t row_ids[LENGTH];
} sequence;

static const uint8_t *part(const weir_batch *batch, weir_tensor_id id, uint32_t i) {
    return batch->data + batch->tensors[id].offset + batch->tensors[id].size / batch->sequence_count * i;
}

static int attends(const sequence *s, mask m, uint32_t a, uint32_t b) {
    size_t row = s->row_ids[a], other = s->row_ids[b];
    if (m == COLUMN_MASK)
        return s->columns[a] == s->columns[b];
    if (m == OUT_MASK)
        return row == other || s->adjacency[row * s->rows + other];
    return s->adjacency[other * s->rows + row];
}

/* Tiles that are not empty when the cells stand in the given order. */
static uint64_t full_tiles(const sequence *s, mask m, const uint16_t *order) {
    uint8_t is_full[SIDE][SIDE] = {0};
    uint64_t count = 0;
    for (uint32_t i = 0; i < s->cells; i++)
        for (uint32_t k = 0; k < s->cells; k++)
            is_full[i / TILE][k / TILE] |= (uint8_t)attends(s, m, order[i], order[k]);
    for (int i = 0; i < SIDE; i++)
        for (int k = 0; k < SIDE; k++)
            count += is_full[i][k];
    return count;
}

typedef struct shares {
    uint64_t tiles, before[MASKS], after[MASKS];
} shares;

static void add_sequence(shares *sum, const weir_batch *batch, uint32_t i) {
    static sequence s;
    uint16_t identity[LENGTH], order[LENGTH];
    memcpy(&s.cells, part(batch, WEIR_NUM_CELLS, i), sizeof s.cells);
    memcpy(s.columns, part(batch, WEIR_COLUMN_IDS, i), sizeof s.columns);
    memcpy(s.row_ids, part(batch, WEIR_SEQ_ROW_IDS, i), sizeof s.row_ids);
    s.rows = batch->row_count;
    s.adjacency = part(batch, WEIR_FK_ADJ, i);
    for (uint32_t k = 0; k < LENGTH; k++)
        identity[k] = (uint16_t)k;
    uint64_t side = (s.cells + TILE - 1) / TILE;
    sum->tiles += side * side;
    for (mask m = 0; m < MASKS; m++) {
        memcpy(order, part(batch, permutations[m], i), sizeof order);
        sum->before[m] += full_tiles(&s, m, identity);
        sum->after[m] += full_tiles(&s, m, order);
    }
}

static void measure(const batches_store *store, const char *row_order) {
    batches b;
    shares sum = {0};
    batches_open(&b, store, "shop/churn/train", LENGTH, row_order, 2);
    batches_build(&b);
    for (int n = 0; n < b.count; n++)
        for (uint32_t i = 0; i < weir_batch_view(b.ring[n])->sequence_count; i++)
            add_sequence(&sum, weir_batch_view(b.ring[n]), i);
    for (mask m = strcmp(row_order, "rcm") == 0 ? COLUMN_MASK : OUT_MASK; m < MASKS; m++) {
        char name[96];
        snprintf(name, sizeof name, "tiles in use, %s, permuted (%s)", names[m], row_order);
        bench_report(name, (double)sum.after[m] / (double)sum.tiles, "of all", "as visited",
                     (double)sum.before[m] / (double)sum.tiles, NULL);
    }
    batches_close(&b);
}

int main(int argc, char **argv) {
    (void)argc;
    batches_store store = batches_make_shop(argv[0], 100000);
    measure(&store, "rcm");
    measure(&store, "best");
    return 0;
}
