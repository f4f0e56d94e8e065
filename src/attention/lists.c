/* Lists on the host: where their parts are, and the phases of lists_kernel.h one after the other, each shared
 * out over threads. Here tensors are looked at first: what is not of a batch is refused by name. */
#include <string.h>

#include "attention/attention.h"
#include "base/parallel.h"

enum { LENGTH_MAX = 65536, ROWS_MAX = 65535, PIECE = 4096 };

/* ---- Where things are ---------------------------------------------------------------------------- */

/* Adds a part of `count` words; false: too many. Parts begin at multiples of 64 words. */
static bool add_part(uint64_t *size, uint64_t *part, uint64_t count) {
    *part = *size;
    return !__builtin_add_overflow(*size, (count + 63) & ~(uint64_t)63, size) && *size <= UINT32_MAX;
}

static bool lay_out(attention_layout *at) {
    uint64_t b = at->sequences, length = at->length, rows = at->rows, groups = rows < length ? rows : length;
    uint64_t size = 0;
    at->tiles = (at->rows + TILE - 1) / TILE;
    at->row_chunks = (at->rows + 1 + CHUNK - 1) / CHUNK;
    at->column_chunks = (at->length + CHUNK - 1) / CHUNK;
    at->run_room = rows * (rows < EDGES_PER_ROW ? rows : EDGES_PER_ROW);
    at->chunk_stride = (uint64_t)at->column_chunks * KINDS + (uint64_t)at->row_chunks * (COUNTS - KINDS);
    bool fits =
        add_part(&size, &at->counts, (uint64_t)LISTS * KINDS) && add_part(&size, &at->cells, b) &&
        add_part(&size, &at->starts, b * (rows + 2)) && add_part(&size, &at->order, b * ((length + 1) / 2)) &&
        add_part(&size, &at->segments, b * length) && add_part(&size, &at->chunks, b * at->chunk_stride) &&
        add_part(&size, &at->totals, b * COUNTS);
    for (uint32_t d = 0; d < DIRECTIONS && fits; d++)
        fits = add_part(&size, &at->tile[d], b * at->tiles * rows) &&
               add_part(&size, &at->degree[d], b * rows) && add_part(&size, &at->keys[d], b * rows) &&
               add_part(&size, &at->base[d], b * rows) && add_part(&size, &at->runs[d], b * at->run_room);
    for (uint32_t list = 0; list < LISTS && fits; list++) {
        /* A column has at least one cell; rows, and then the padding, are groups. A record has up to 16 cells
         * of one group, which has at most one record that is not full. */
        uint64_t room = groups + 1 + (length + ROWS_SMALL - 1) / ROWS_SMALL;
        at->record_room[list] = b * (list == LIST_COLUMN ? length : room);
        fits = add_part(&size, &at->places[list], b * (list == LIST_COLUMN ? length : rows + 1)) &&
               add_part(&size, &at->records[list], at->record_room[list] * RECORD_WORDS);
    }
    at->size = size;
    return fits;
}

weir_status weir_attention__layout(uint32_t sequences, uint32_t length, uint32_t rows, attention_layout *out,
                                   weir_error *error) {
    memset(out, 0, sizeof *out);
    *out = (attention_layout){.sequences = sequences, .length = length, .rows = rows};
    if (length == 0 || length > LENGTH_MAX || rows > ROWS_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR,
                          "sequences of %u cells and %u rows are not of a batch: they have 1 to %d cells and "
                          "up to %d rows",
                          length, rows, LENGTH_MAX, ROWS_MAX);
    if (!lay_out(out))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR,
                          "the lists of %u sequences of %u cells and %u rows would have 16 GiB or more; use "
                          "smaller batches",
                          sequences, length, rows);
    return WEIR_OK;
}

weir_status weir_attention_lists_size(uint32_t sequences, uint32_t length, uint32_t rows, uint64_t *out,
                                      weir_error *error) {
    attention_layout at;
    weir_status status = weir_attention__layout(sequences, length, rows, &at, error);
    if (status == WEIR_OK)
        *out = at.size * sizeof(uint32_t);
    return status;
}

weir_status weir_attention__check_pattern(weir_attention_pattern pattern, weir_error *error) {
    if (WEIR__LOW(uint32_t, pattern) <= WEIR_ATTENTION_INBOUND)
        return WEIR_OK;
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR,
                      "the pattern is not column, outbound or inbound");
}

uint32_t weir_attention__list(weir_attention_pattern pattern, bool is_transposed) {
    switch (pattern) {
    case WEIR_ATTENTION_OUTBOUND:
        return is_transposed ? LIST_OUTBOUND_T : LIST_OUTBOUND;
    case WEIR_ATTENTION_INBOUND:
        return is_transposed ? LIST_INBOUND_T : LIST_INBOUND;
    default:
        return LIST_COLUMN;
    }
}

/* ---- What tensors must hold ---------------------------------------------------------------------- */

static weir_status refuse(const char *tensor, uint32_t b, const char *what, weir_error *error) {
    weir_status status =
        weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR,
                   "%s is not a batch's: in sequence %u %s; give the tensors of one batch, as they came",
                   tensor, b, what);
    weir__note_text(error, "tensor", tensor, strlen(tensor));
    weir__note_uint(error, "sequence", b);
    return status;
}

static weir_status check_cells(const attention_lists *l, uint32_t b, uint32_t cells, weir_error *error) {
    const uint8_t *rows = l->seq_row_ids + 2 * (size_t)b * l->at.length;
    const uint8_t *is_padding = l->is_padding + (size_t)b * l->at.length;
    for (uint32_t i = 0; i < l->at.length; i++)
        if ((is_padding[i] != 0) != (i >= cells))
            return refuse("is_padding", b, "a cell follows padding", error);
    for (uint32_t i = 0; i < cells; i++) {
        if (weir__load16(rows + 2 * (size_t)i) >= l->at.rows)
            return refuse("seq_row_ids", b, "a row's number is not below fk_adj's size", error);
        if (i > 0 && weir__load16(rows + 2 * (size_t)i) < weir__load16(rows + 2 * (size_t)(i - 1)))
            return refuse("seq_row_ids", b, "the cells do not lie row by row", error);
    }
    return WEIR_OK;
}

/* Strictly ascending by (column, position) among the cells, so that no position comes twice. */
static weir_status check_order(const attention_lists *l, uint32_t b, uint32_t cells, weir_error *error) {
    for (uint32_t i = 0; i < cells; i++) {
        if (weir__load16(l->col_perm + 2 * ((size_t)b * l->at.length + i)) >= cells)
            return refuse("col_perm", b, "a position among the first is not a cell's", error);
        if (i == 0)
            continue;
        int32_t before = column_in_order(l, b, i - 1), here = column_in_order(l, b, i);
        if (before > here || (before == here && place_in_order(l, b, i - 1) >= place_in_order(l, b, i)))
            return refuse("col_perm", b, "the cells do not come by column and position", error);
    }
    return WEIR_OK;
}

/* ---- Phase by phase ------------------------------------------------------------------------------ */

typedef struct phase_work {
    const attention_lists *lists;
    uint32_t phase;
    uint64_t threads; /* as a device would have */
} phase_work;

static void run_piece(void *context, size_t index, uint32_t worker) {
    (void)worker;
    const phase_work *work = context;
    uint64_t begin = index * PIECE, end = begin + PIECE;
    for (uint64_t thread = begin; thread < end && thread < work->threads; thread++)
        run_phase(work->lists, work->phase, thread);
}

weir_status weir_attention__make_lists(const weir_env *env, const attention_lists *lists, uint32_t threads,
                                       weir_error *error) {
    for (uint32_t b = 0; b < lists->at.sequences; b++) {
        uint32_t cells = count_cells(lists, b);
        WEIR__TRY(check_cells(lists, b, cells, error));
        WEIR__TRY(check_order(lists, b, cells, error));
    }
    threads = weir__threads_or_processors(threads);
    for (uint32_t phase = 0; phase < PHASES; phase++) {
        phase_work work = {.lists = lists, .phase = phase, .threads = threads_of(&lists->at, phase)};
        weir__parallel(env, threads, (size_t)((work.threads + PIECE - 1) / PIECE), run_piece, &work);
    }
    for (uint32_t b = 0; b < lists->at.sequences; b++)
        for (uint32_t d = 0; d < DIRECTIONS; d++)
            if (lists->words[lists->at.totals + (uint64_t)b * COUNTS + COUNT_RUNS + d] > lists->at.run_room)
                return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR,
                                  "sequence %u has more foreign keys in fk_adj than lists have room for, %d "
                                  "per row",
                                  b, EDGES_PER_ROW);
    return WEIR_OK;
}

/* ---- Masks --------------------------------------------------------------------------------------- */

weir_status weir_attention_mask(const void *lists, uint32_t sequences, uint32_t length, uint32_t rows,
                                weir_attention_pattern pattern, uint8_t *out, weir_error *error) {
    attention_layout at;
    const uint32_t *words = lists;
    WEIR__TRY(weir_attention__check_pattern(pattern, error));
    WEIR__TRY(weir_attention__layout(sequences, length, rows, &at, error));
    if (sequences == 0)
        return WEIR_OK;
    if (!lists || !out)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR,
                          "the lists, or the mask to be written, are missing");
    uint32_t list = weir_attention__list(pattern, false), count = 0;
    memset(out, 0, (size_t)sequences * length * length);
    for (uint32_t kind = 0; kind < KINDS; kind++)
        count += words[at.counts + (uint64_t)list * KINDS + kind];
    for (uint32_t r = 0; r < count; r++) {
        const uint32_t *record = words + at.records[list] + (uint64_t)r * RECORD_WORDS;
        uint8_t *mask = out + (size_t)record[RECORD_SEQUENCE] * length * length;
        for (uint32_t i = 0; i < record[RECORD_ROWS]; i++) {
            size_t cell = cell_of_record(&at, words, list == LIST_COLUMN, record, i);
            attention_sight sight = sight_of_record(record, i);
            for (uint32_t j = sight.first; j < sight.end; j++)
                mask[cell * length + key_of_record(&at, words, list == LIST_COLUMN, record, j)] = 1;
        }
    }
    return WEIR_OK;
}
