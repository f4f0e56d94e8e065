/* Who sees whom, as lists: made of the tensors of a batch by the same functions on the host (C) and on a GPU
 * (CUDA C, NVRTC). Nothing of the size [S, S] is made, and nothing that is made here is read by the host.
 *
 * The cells of a row are contiguous; those of a column are contiguous in col_perm. So what the cells of a
 * *group* (a row, a column, the padding) see is a few runs of positions. A group is cut into *records* of up
 * to 128 cells: what one warp, or several, of the attention kernels take at once. Groups of few cells that
 * see little share a record, in which each cell has a range of what is seen. There are five lists of records:
 * columns (their own transpose), outbound (own cells and those of parents) and inbound (those of children),
 * and the transposes of the last two, which the gradients of k and v need.
 *
 * Lists are made in phases. The threads of a phase do not share anything: each writes words of its own, so
 * their number and order change nothing. All sizes are bounds that follow from the shapes alone. What the
 * tensors hold is not trusted: whatever they hold, no thread reads or writes beyond its memory. */
#ifndef WEIR_ATTENTION_LISTS_KERNEL_H
#define WEIR_ATTENTION_LISTS_KERNEL_H

#include "attention/records_kernel.h"
#include "base/bytes.h"

enum {
    TILE = 256,         /* of fk_adj: what a thread looks through */
    CHUNK = 16,         /* groups whose records are counted by one thread */
    EDGES_PER_ROW = 64, /* that there is room for, on average over the rows of a sequence */
};

/* What is counted by sequence, so that everybody knows where his words are: the records of each kind and
 * list, and the runs of each direction. */
enum { COUNT_RUNS = LISTS * KINDS, COUNTS = COUNT_RUNS + DIRECTIONS };

/* What PHASE_COUNT_RECORDS says of a group: its first record among those of the same kind of its chunk. Of
 * one that shares a record also how many cells and keys lie before its own, and whether it is the last. */
#define PLACE_BITS 20
#define PLACE_KEYS (PLACE_BITS + 4)
#define PLACE_ENDS 0x80000000u

typedef struct attention_lists {
    attention_layout at;
    const uint8_t *seq_row_ids; /* tensors of the batch: little-endian bytes */
    const uint8_t *column_ids;
    const uint8_t *is_padding;
    const uint8_t *fk_adj;
    const uint8_t *col_perm;
    uint32_t *words;
} attention_lists;

/* In this order. */
enum {
    PHASE_PLACES,
    PHASE_COUNT_EDGES,
    PHASE_ADD_TILES,
    PHASE_COUNT_RUNS,
    PHASE_ADD_RUNS,
    PHASE_RUNS,
    PHASE_COUNT_RECORDS,
    PHASE_ADD_RECORDS,
    PHASE_ADD_SEQUENCES,
    PHASE_RECORDS,
    PHASES
};

/* ---- Words ------------------------------------------------------------------------------------- */

SHARED uint32_t *starts_of(const attention_lists *l, uint32_t b) {
    return l->words + l->at.starts + (uint64_t)b * (l->at.rows + 2);
}

SHARED uint32_t *row_words(const attention_lists *l, uint64_t section, uint32_t b) {
    return l->words + section + (uint64_t)b * l->at.rows;
}

SHARED uint32_t *tile_word(const attention_lists *l, uint32_t direction, uint32_t b, uint32_t tile,
                           uint32_t row) {
    return l->words + l->at.tile[direction] + ((uint64_t)b * l->at.tiles + tile) * l->at.rows + row;
}

SHARED uint32_t *chunk_words(const attention_lists *l, uint32_t b, uint32_t count) {
    uint32_t columns = count < KINDS ? count : KINDS; /* the column's kinds come first */
    return l->words + l->at.chunks + b * l->at.chunk_stride + (uint64_t)columns * l->at.column_chunks +
           (uint64_t)(count - columns) * l->at.row_chunks;
}

SHARED uint32_t cells_of(const attention_lists *l, uint32_t b) {
    return l->words[l->at.cells + b];
}

/* The first run of a row: those of the chunks before, and of the rows before in its own. */
SHARED uint32_t first_run(const attention_lists *l, uint32_t direction, uint32_t b, uint32_t row) {
    const uint32_t *degrees = row_words(l, l->at.degree[direction], b);
    uint32_t first = chunk_words(l, b, COUNT_RUNS + direction)[row / CHUNK];
    for (uint32_t i = row / CHUNK * CHUNK; i < row; i++)
        first += degrees[i] & 0x7fffffff;
    return first;
}

/* ---- Groups ------------------------------------------------------------------------------------ */

SHARED uint32_t kind_of(const attention_lists *l, uint32_t list, const uint32_t *group) {
    uint32_t cells = group[RECORD_ROWS], keys = group[RECORD_KEYS];
    if (keys == 0)
        return BLIND;
    if (list == LIST_COLUMN && l->at.length >= LENGTH_LONG && cells >= ROWS_LONG)
        return LONG;
    if (list == LIST_COLUMN ? cells >= COLUMN_LARGE : cells >= ROWS_LARGE && keys >= ROWS_LARGE)
        return LARGE;
    return keys >= KEYS_INLINE ? WIDE : SMALL;
}

/* The cells of a record. */
SHARED uint32_t cells_of_kind(uint32_t kind) {
    return kind == LONG ? ROWS_LONG : kind == LARGE ? ROWS_LARGE : ROWS_SMALL;
}

SHARED uint32_t records_of(uint32_t cells, uint32_t kind) {
    return (cells + cells_of_kind(kind) - 1) / cells_of_kind(kind);
}

/* Whether a group may share its record with others. */
SHARED bool is_shared_kind(uint32_t kind, uint32_t cells) {
    return kind >= SMALL && cells <= ROWS_SMALL;
}

/* A group of a list: its record, but that it has all cells. Group R of the rows' lists is the padding. */
SHARED void group_of_rows(const attention_lists *l, uint32_t list, uint32_t b, uint32_t row,
                          uint32_t *record) {
    const uint32_t *starts = starts_of(l, b);
    uint32_t direction = list == LIST_OUTBOUND || list == LIST_INBOUND_T ? PARENTS : CHILDREN;
    uint32_t cells = starts[row + 1] - starts[row], degree = 0, keys = 0, base = 0, own = 0;
    bool has_room = true;
    if (row < l->at.rows && cells > 0) {
        uint32_t word = row_words(l, l->at.degree[direction], b)[row];
        bool sees_itself = list == LIST_OUTBOUND || list == LIST_OUTBOUND_T || word >> 31;
        degree = word & 0x7fffffff;
        keys = row_words(l, l->at.keys[direction], b)[row];
        base = row_words(l, l->at.base[direction], b)[row];
        own = sees_itself ? cells : 0;
        has_room = l->words[l->at.totals + (uint64_t)b * COUNTS + COUNT_RUNS + direction] <= l->at.run_room;
    }
    record[RECORD_SEQUENCE] = b;
    record[RECORD_FIRST] = starts[row];
    record[RECORD_ROWS] = cells;
    record[RECORD_KEYS] = has_room ? own + keys : 0;
    record[RECORD_AT] = (uint32_t)(l->at.runs[direction] + b * l->at.run_room + base);
    if (record[RECORD_KEYS] ==
        0) /* too many foreign keys: not a number, as an answer that nobody overlooks */
        record[RECORD_AT] = has_room ? 0 : 0x7fc00000;
    record[RECORD_RUNS] = degree;
    record[RECORD_OWN] = starts[row];
    record[RECORD_OWN_COUNT] = own;
}

SHARED void group_of_column(const attention_lists *l, uint32_t b, uint32_t place, uint32_t *record) {
    uint32_t cells = l->words[l->at.segments + (uint64_t)b * l->at.length + place];
    bool is_padding = place >= cells_of(l, b);
    record[RECORD_SEQUENCE] = b;
    record[RECORD_FIRST] = place;
    record[RECORD_ROWS] = cells;
    record[RECORD_KEYS] = is_padding ? 0 : cells;
    record[RECORD_AT] = is_padding ? 0 : place;
    record[RECORD_RUNS] = record[RECORD_OWN] = record[RECORD_OWN_COUNT] = 0;
}

/* ---- How many cells, where rows and columns begin ------------------------------------------------ */

SHARED uint32_t count_cells(const attention_lists *l, uint32_t b) {
    const uint8_t *is_padding = l->is_padding + (uint64_t)b * l->at.length;
    uint32_t low = 0, high = l->at.length;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (is_padding[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

SHARED uint32_t find_row(const attention_lists *l, uint32_t b, uint32_t row, uint32_t cells) {
    const uint8_t *rows = l->seq_row_ids + 2 * (uint64_t)b * l->at.length;
    uint32_t low = 0, high = cells;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (weir__load16(rows + 2 * (uint64_t)middle) < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

SHARED uint32_t place_in_order(const attention_lists *l, uint32_t b, uint32_t place) {
    uint32_t position = weir__load16(l->col_perm + 2 * ((uint64_t)b * l->at.length + place));
    return position < l->at.length ? position : l->at.length - 1;
}

SHARED int32_t column_in_order(const attention_lists *l, uint32_t b, uint32_t place) {
    uint64_t position = (uint64_t)b * l->at.length + place_in_order(l, b, place);
    return (int32_t)weir__load32(l->column_ids + 4 * position);
}

SHARED uint32_t find_segment(const attention_lists *l, uint32_t b, uint32_t place, uint32_t cells) {
    if (place >= cells)
        return place == cells ? l->at.length - cells : 0;
    int32_t column = column_in_order(l, b, place);
    if (place > 0 && column_in_order(l, b, place - 1) == column)
        return 0;
    uint32_t low = place + 1, high = cells;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (column_in_order(l, b, middle) <= column)
            low = middle + 1;
        else
            high = middle;
    }
    return low - place;
}

SHARED void find_places(const attention_lists *l, uint64_t thread) {
    uint32_t length = l->at.length, rows = l->at.rows, width = length > rows + 2 ? length : rows + 2;
    uint32_t b = (uint32_t)(thread / width), i = (uint32_t)(thread % width);
    uint32_t cells = count_cells(l, b);
    if (i == 0)
        l->words[l->at.cells + b] = cells;
    if (i < rows + 2)
        starts_of(l, b)[i] = i < rows                ? find_row(l, b, i, cells)
                             : i == rows && rows > 0 ? cells
                             : i == rows             ? 0
                                                     : length;
    if (i < length) {
        uint16_t *order = (uint16_t *)(l->words + l->at.order) + (uint64_t)b * length;
        order[i] = (uint16_t)(i < cells ? place_in_order(l, b, i) : i);
        l->words[l->at.segments + (uint64_t)b * length + i] = find_segment(l, b, i, cells);
    }
}

/* ---- Foreign keys ------------------------------------------------------------ */

/* Which of eight rows a row refers to, or is referred to by, as bits. fk_adj is mostly zeros: eight at once
 * are passed over where they lie together. */
SHARED uint32_t eight_edges(const uint8_t *adj, uint64_t step, uint64_t at, uint64_t end) {
    uint32_t bits = 0;
    if (step == 1 && ((uint64_t)(adj + at) & 7) == 0 && at + 8 <= end && *(const uint64_t *)(adj + at) == 0)
        return 0;
    for (uint32_t k = 0; k < 8; k++) {
        uint64_t row = at + k < end ? at + k : end - 1;
        bits |= (uint32_t)(adj[row * step] != 0 && at + k < end) << k;
    }
    return bits;
}

/* Visits the rows of a tile that a row refers to, or that refer to it, in order; a macro, so that it serves
 * counting and writing. */
#define FOR_EDGES(l, direction, b, row, tile, other, ...)                                                    \
    do {                                                                                                     \
        uint64_t rows_ = (l)->at.rows, end_ = ((uint64_t)(tile) + 1) * TILE;                                 \
        uint64_t step_ = (direction) == PARENTS ? 1 : rows_;                                                 \
        const uint8_t *adj_ = (l)->fk_adj + ((b)*rows_ + ((direction) == PARENTS ? (row) : 0)) * rows_ +     \
                              ((direction) == PARENTS ? 0 : (row));                                          \
        end_ = end_ < rows_ ? end_ : rows_;                                                                  \
        for (uint64_t at_ = (uint64_t)(tile)*TILE; at_ < end_; at_ += 8)                                     \
            for (uint32_t bits_ = eight_edges(adj_, step_, at_, end_), k_ = 0; bits_; bits_ >>= 1, k_++)     \
                if (bits_ & 1) {                                                                             \
                    uint32_t other = (uint32_t)at_ + k_;                                                     \
                    __VA_ARGS__                                                                              \
                }                                                                                            \
    } while (0)

typedef struct attention_edge_thread {
    uint32_t b, tile, direction, row;
} attention_edge_thread;

SHARED attention_edge_thread edge_thread(const attention_lists *l, uint64_t thread) {
    attention_edge_thread t;
    t.row = (uint32_t)(thread % l->at.rows);
    thread /= l->at.rows;
    t.direction = (uint32_t)(thread % DIRECTIONS);
    thread /= DIRECTIONS;
    t.tile = (uint32_t)(thread % l->at.tiles);
    t.b = (uint32_t)(thread / l->at.tiles);
    return t;
}

/* A row without cells is not in the sequence. */
SHARED void count_edges(const attention_lists *l, uint64_t thread) {
    attention_edge_thread t = edge_thread(l, thread);
    const uint32_t *starts = starts_of(l, t.b);
    uint32_t runs = 0, keys = 0;
    if (starts[t.row + 1] > starts[t.row])
        FOR_EDGES(l, t.direction, t.b, t.row, t.tile, other, {
            uint32_t cells = starts[other + 1] - starts[other];
            runs += cells > 0 && other != t.row;
            keys += other != t.row ? cells : 0;
        });
    *tile_word(l, t.direction, t.b, t.tile, t.row) = runs << 20 | keys;
}

SHARED void add_tiles(const attention_lists *l, uint64_t thread) {
    uint32_t rows = l->at.rows, row = (uint32_t)(thread % rows);
    uint32_t direction = (uint32_t)(thread / rows % DIRECTIONS), b = (uint32_t)(thread / rows / DIRECTIONS);
    uint32_t runs = 0, keys = 0;
    for (uint32_t tile = 0; tile < l->at.tiles; tile++) {
        uint32_t *word = tile_word(l, direction, b, tile, row), count = *word;
        *word = runs << 16 | (keys & 0xffff);
        runs += count >> 20;
        keys += count & 0xfffff;
    }
    uint32_t refers_to_itself = l->fk_adj[((uint64_t)b * rows + row) * rows + row] ? 0x80000000u : 0;
    row_words(l, l->at.degree[direction], b)[row] = runs | refers_to_itself;
    row_words(l, l->at.keys[direction], b)[row] = keys;
}

SHARED void write_runs(const attention_lists *l, uint64_t thread) {
    attention_edge_thread t = edge_thread(l, thread);
    const uint32_t *starts = starts_of(l, t.b);
    uint32_t before = *tile_word(l, t.direction, t.b, t.tile, t.row);
    uint32_t first = first_run(l, t.direction, t.b, t.row);
    uint64_t at = (uint64_t)first + (before >> 16);
    uint32_t *runs = l->words + l->at.runs[t.direction] + t.b * l->at.run_room;
    uint32_t keys = before & 0xffff;
    if (t.tile == 0)
        row_words(l, l->at.base[t.direction], t.b)[t.row] = first;
    if (starts[t.row + 1] > starts[t.row])
        FOR_EDGES(l, t.direction, t.b, t.row, t.tile, other, {
            uint32_t cells = starts[other + 1] - starts[other];
            if (cells > 0 && other != t.row && at < l->at.run_room)
                runs[at++] = starts[other] << 16 | keys;
            keys += other != t.row ? cells : 0;
        });
}

/* ---- How many records, and where each group's are ------------------------------------------------- */

SHARED uint32_t chunks_of(const attention_lists *l, uint32_t count) {
    return count < KINDS ? l->at.column_chunks : l->at.row_chunks;
}

SHARED void group_of(const attention_lists *l, uint32_t list, uint32_t b, uint32_t group, uint32_t *record) {
    if (list == LIST_COLUMN)
        group_of_column(l, b, group, record);
    else
        group_of_rows(l, list, b, group, record);
}

SHARED uint32_t groups_of(const attention_lists *l, uint32_t list) {
    return list == LIST_COLUMN ? l->at.length : l->at.rows + 1;
}

SHARED void count_runs(const attention_lists *l, uint64_t thread) {
    uint32_t chunk = (uint32_t)(thread % l->at.row_chunks);
    uint32_t direction = (uint32_t)(thread / l->at.row_chunks % DIRECTIONS);
    uint32_t b = (uint32_t)(thread / l->at.row_chunks / DIRECTIONS), runs = 0;
    for (uint32_t row = chunk * CHUNK; row < (chunk + 1) * CHUNK && row < l->at.rows; row++)
        runs += row_words(l, l->at.degree[direction], b)[row] & 0x7fffffff;
    chunk_words(l, b, COUNT_RUNS + direction)[chunk] = runs;
}

/* A record that takes groups as they come, for as long as there is room. */
typedef struct attention_tile {
    uint32_t place, cells, keys, at, last;
} attention_tile;

SHARED void place_group(const uint32_t *group, uint32_t number, uint32_t kind, attention_tile *tile,
                        uint32_t *count, uint32_t *places) {
    uint32_t cells = group[RECORD_ROWS], keys = group[RECORD_KEYS];
    if (!is_shared_kind(kind, cells)) {
        places[number] = *count;
        *count += records_of(cells, kind);
        return;
    }
    bool fits = tile->cells > 0 && tile->cells + cells <= ROWS_SMALL && tile->keys + keys <= KEYS_INLINE &&
                (kind == SMALL || tile->at == group[RECORD_AT]);
    if (fits) {
        places[tile->last] &= ~PLACE_ENDS;
    } else {
        tile->place = (*count)++;
        tile->cells = tile->keys = 0;
    }
    places[number] = tile->place | tile->cells << PLACE_BITS | tile->keys << PLACE_KEYS | PLACE_ENDS;
    tile->cells += cells;
    tile->keys += keys;
    tile->at = group[RECORD_AT];
    tile->last = number;
}

/* A thread has a chunk of one list: the chunks of columns come first, then those of rows, list by list. */
SHARED void count_records(const attention_lists *l, uint64_t thread) {
    uint32_t columns = l->at.column_chunks, rows = l->at.row_chunks;
    uint64_t width = columns + (uint64_t)rows * (LISTS - 1), i = thread % width;
    uint32_t b = (uint32_t)(thread / width), record[8], counts[KINDS] = {0, 0, 0, 0, 0};
    attention_tile tiles[2] = {{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}};
    uint32_t list = i < columns ? LIST_COLUMN : (uint32_t)(1 + (i - columns) / rows);
    uint32_t chunk = (uint32_t)(i < columns ? i : (i - columns) % rows);
    uint32_t end = (chunk + 1) * CHUNK, groups = groups_of(l, list);
    uint32_t *places = l->words + l->at.places[list] + (uint64_t)b * groups;
    for (uint32_t group = chunk * CHUNK; group < end && group < groups; group++) {
        group_of(l, list, b, group, record);
        uint32_t kind = kind_of(l, list, record);
        if (record[RECORD_ROWS] > 0)
            place_group(record, group, kind, &tiles[kind == BLIND], &counts[kind], places);
    }
    for (uint32_t kind = 0; kind < KINDS; kind++)
        chunk_words(l, b, list * KINDS + kind)[chunk] = counts[kind];
}

/* What the chunks before have, in the place of what each has; and the sequence's total. */
SHARED void add_chunks(const attention_lists *l, uint32_t b, uint32_t count) {
    uint32_t chunks = chunks_of(l, count), sum = 0;
    uint32_t *words = chunk_words(l, b, count);
    for (uint32_t i = 0; i < chunks; i++) {
        uint32_t here = words[i];
        words[i] = sum;
        sum += here;
    }
    l->words[l->at.totals + (uint64_t)b * COUNTS + count] = sum;
}

/* The same over sequences. Kinds lie one after the other; nothing lies beyond the room. */
SHARED void add_sequences(const attention_lists *l, uint64_t thread) {
    uint32_t list = (uint32_t)thread;
    uint64_t sum = 0, room = l->at.record_room[list];
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        uint64_t first = sum;
        for (uint32_t b = 0; b < l->at.sequences; b++) {
            uint32_t *total = l->words + l->at.totals + (uint64_t)b * COUNTS + list * KINDS + kind;
            uint32_t here = *total;
            *total = (uint32_t)sum;
            sum = sum + here < room ? sum + here : room;
        }
        l->words[l->at.counts + (uint64_t)list * KINDS + kind] = (uint32_t)(sum - first);
    }
}

/* ---- Records ------------------------------------------------------------------------------------- */

/* Positions of 16 bits, two in a word; `count` of them were put before. */
SHARED void put_positions(uint32_t *words, uint32_t count, uint32_t first, uint32_t more) {
    uint16_t *to = (uint16_t *)words + count;
    for (uint32_t i = 0; i < more; i++)
        to[i] = (uint16_t)(first + i);
}

SHARED void put_order(const attention_lists *l, uint32_t b, uint32_t place, uint32_t *words, uint32_t count,
                      uint32_t more) {
    const uint16_t *order = order_of(&l->at, l->words, b) + place;
    uint16_t *to = (uint16_t *)words + count;
    for (uint32_t i = 0; i < more; i++)
        to[i] = order[i];
}

/* All that a small group sees, after `before` others: its own cells, then run by run. */
SHARED void put_keys(const attention_lists *l, const uint32_t *group, uint32_t *words, uint32_t before) {
    const uint32_t *runs = l->words + group[RECORD_AT];
    uint32_t own = group[RECORD_OWN_COUNT], keys = group[RECORD_KEYS] - own, count = group[RECORD_RUNS];
    put_positions(words, before, group[RECORD_OWN], own);
    before += own;
    for (uint32_t i = 0, run = keys ? runs[0] : 0; keys > 0 && i < count; i++) {
        uint32_t next = i + 1 < count ? runs[i + 1] : 0, first = run & 0xffff;
        uint32_t end = i + 1 < count ? next & 0xffff : keys;
        put_positions(words, before + first, run >> 16, end - first);
        run = next;
    }
}

SHARED void put_cells(const attention_lists *l, uint32_t list, uint32_t b, uint32_t first, uint32_t *record,
                      uint32_t before, uint32_t cells) {
    if (list == LIST_COLUMN)
        put_order(l, b, first, record + RECORD_CELLS, before, cells);
    else
        put_positions(record + RECORD_CELLS, before, first, cells);
}

/* The part of a group in a record that has all in itself: its cells without the first `skipped`, after
 * `cells` and `keys` of other groups. The last group's thread writes what is common to all. */
SHARED void write_part(const attention_lists *l, uint32_t list, const uint32_t *group, uint32_t skipped,
                       uint32_t cells, uint32_t keys, bool ends, uint32_t *record) {
    uint32_t b = group[RECORD_SEQUENCE], more = group[RECORD_KEYS], rows = group[RECORD_ROWS] - skipped;
    uint16_t *sights = (uint16_t *)(record + RECORD_SIGHTS);
    rows = rows < ROWS_SMALL ? rows : ROWS_SMALL;
    put_cells(l, list, b, group[RECORD_FIRST] + skipped, record, cells, rows);
    for (uint32_t i = 0; i < rows; i++)
        sights[cells + i] = (uint16_t)(keys | (keys + more) << 8);
    if (more > 0 && list == LIST_COLUMN)
        put_order(l, b, group[RECORD_AT], record + RECORD_INLINE, keys, more);
    else if (more > 0)
        put_keys(l, group, record + RECORD_INLINE, keys);
    if (!ends)
        return;
    record[RECORD_SEQUENCE] = b;
    record[RECORD_FIRST] = ALL_INLINE;
    record[RECORD_ROWS] = cells + rows;
    record[RECORD_KEYS] = keys + more;
    record[RECORD_AT] = group[RECORD_AT];
    record[RECORD_SHARED] = cells > 0;
}

SHARED void write_record(const attention_lists *l, uint32_t list, const uint32_t *group, uint32_t kind,
                         uint32_t skipped, uint32_t *record) {
    uint32_t each = cells_of_kind(kind), cells = group[RECORD_ROWS] - skipped;
    uint32_t first = group[RECORD_FIRST] + skipped;
    cells = cells < each ? cells : each;
    for (uint32_t i = 0; i < RECORD_CELLS; i++)
        record[i] = group[i];
    record[RECORD_FIRST] = first;
    record[RECORD_ROWS] = cells;
    if (kind == WIDE)
        put_cells(l, list, group[RECORD_SEQUENCE], first, record, 0, cells);
}

/* A thread has one group of one list, in the order of count_records. */
SHARED void write_records(const attention_lists *l, uint64_t thread) {
    uint32_t columns = l->at.length, rows = l->at.rows + 1;
    uint64_t width = columns + (uint64_t)rows * (LISTS - 1), i = thread % width;
    uint32_t b = (uint32_t)(thread / width), group[8];
    uint32_t list = i < columns ? LIST_COLUMN : (uint32_t)(1 + (i - columns) / rows);
    uint32_t number = (uint32_t)(i < columns ? i : (i - columns) % rows);
    group_of(l, list, b, number, group);
    if (group[RECORD_ROWS] == 0)
        return;
    uint32_t kind = kind_of(l, list, group);
    uint32_t count = list * KINDS + kind, records = records_of(group[RECORD_ROWS], kind);
    uint32_t word = l->words[l->at.places[list] + (uint64_t)b * groups_of(l, list) + number];
    bool shares = is_shared_kind(kind, group[RECORD_ROWS]);
    uint64_t at = (uint64_t)l->words[l->at.totals + (uint64_t)b * COUNTS + count] +
                  chunk_words(l, b, count)[number / CHUNK] +
                  (shares ? word & ((1u << PLACE_BITS) - 1) : word);
    uint32_t each = cells_of_kind(kind);
    for (uint32_t k = 0; k < records && at < l->at.record_room[list]; k++, at++) {
        uint32_t *record = l->words + l->at.records[list] + at * RECORD_WORDS;
        if (shares)
            write_part(l, list, group, 0, word >> PLACE_BITS & 15, word >> PLACE_KEYS & 127,
                       word & PLACE_ENDS, record);
        else if (kind >= SMALL)
            write_part(l, list, group, k * each, 0, 0, true, record);
        else
            write_record(l, list, group, kind, k * each, record);
    }
}

/* ---- Phases -------------------------------------------------------------------------------------- */

SHARED uint64_t threads_of(const attention_layout *at, uint32_t phase) {
    uint64_t b = at->sequences, rows = at->rows, length = at->length;
    switch (phase) {
    case PHASE_PLACES:
        return b * (length > rows + 2 ? length : rows + 2);
    case PHASE_COUNT_EDGES:
    case PHASE_RUNS:
        return b * at->tiles * DIRECTIONS * rows;
    case PHASE_ADD_TILES:
        return b * DIRECTIONS * rows;
    case PHASE_COUNT_RUNS:
        return b * DIRECTIONS * at->row_chunks;
    case PHASE_ADD_RUNS:
        return b * DIRECTIONS;
    case PHASE_COUNT_RECORDS:
        return b * (at->column_chunks + (uint64_t)at->row_chunks * (LISTS - 1));
    case PHASE_ADD_RECORDS:
        return b * COUNT_RUNS;
    case PHASE_ADD_SEQUENCES:
        return LISTS;
    default:
        return b * (length + (rows + 1) * (LISTS - 1));
    }
}

SHARED void run_phase(const attention_lists *l, uint32_t phase, uint64_t thread) {
    switch (phase) {
    case PHASE_PLACES:
        find_places(l, thread);
        return;
    case PHASE_COUNT_EDGES:
        count_edges(l, thread);
        return;
    case PHASE_ADD_TILES:
        add_tiles(l, thread);
        return;
    case PHASE_COUNT_RUNS:
        count_runs(l, thread);
        return;
    case PHASE_ADD_RUNS:
        add_chunks(l, (uint32_t)(thread / DIRECTIONS), COUNT_RUNS + (uint32_t)(thread % DIRECTIONS));
        return;
    case PHASE_RUNS:
        write_runs(l, thread);
        return;
    case PHASE_COUNT_RECORDS:
        count_records(l, thread);
        return;
    case PHASE_ADD_RECORDS:
        add_chunks(l, (uint32_t)(thread / COUNT_RUNS), (uint32_t)(thread % COUNT_RUNS));
        return;
    case PHASE_ADD_SEQUENCES:
        add_sequences(l, thread);
        return;
    default:
        write_records(l, thread);
        return;
    }
}

#ifdef WEIR_LISTS_KERNEL
extern "C" __global__ void weir_attention_lists(const attention_lists lists, uint32_t phase) {
    uint64_t threads = threads_of(&lists.at, phase), step = (uint64_t)gridDim.x * blockDim.x;
    for (uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; thread < threads; thread += step)
        run_phase(&lists, phase, thread);
}
#endif

#endif
