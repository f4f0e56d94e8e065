/* What the page of weir batch --html knows, as JSON.
 *
 * The tensors say which cells a sequence has and which of them are null. What the page adds comes from the
 * store: the value of every cell as a person would write it, also of those that the sequence leaves out or
 * hides, each with the reason, and the foreign keys with theirs. So the page shows what a model sees and
 * what it must not see. */
#include "batch_page_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch_print.h"
#include "page.h"
#include "weir_tool/store_tools.h"

enum { LONGEST_VALUE = 600, NOWHERE = -1 };

/* Why a cell looks as it does; the page has the same list. */
typedef enum cell_state {
    CELL_SHOWN,
    CELL_NULL,    /* in the database too */
    CELL_LATE,    /* null, because it is not known yet at the observation time */
    CELL_DROPPED, /* left out: one of the task's drop_columns */
    CELL_LABEL,   /* left out: another row's label */
    CELL_CUT,     /* left out: beyond sequence_length */
    CELL_TARGET,  /* stands first in the sequence */
    CELL_MASKED,  /* a further target */
} cell_state;

typedef enum edge_state {
    EDGE_SHOWN,
    EDGE_LATE,   /* not known yet */
    EDGE_HIDDEN, /* its column is dropped, or is the target */
    EDGE_TO_LATER_ROW,
} edge_state;

/* One sequence while it is written. */
typedef struct sequence {
    const weir_batch *batch;
    const cli_batch_context *context;
    const weir_store_info *info;
    const weir_task *task;
    uint32_t task_number;
    uint32_t first_column; /* of its store, in the batch's numbering */
    const cli_labels *labels;
    uint32_t index;
    uint32_t row_count;
    uint32_t cell_count;
    int64_t observation_time;
    uint64_t anchor_row;
    const uint64_t *rows;    /* RowIdx */
    const uint32_t *visits;  /* of rows that start a part */
    uint32_t *row_starts;    /* row_count + 1: where a row's entries in `positions` begin */
    int32_t *positions;      /* of each row's columns in the sequence, or NOWHERE */
    const uint64_t **by_row; /* pointers into rows, sorted by RowIdx */
} sequence;

/* ---- Reading a batch ------------------------------------------------------------------------- */

static uint64_t cell_field(const sequence *s, weir_tensor_id id, uint32_t position) {
    return cli_batch_field(s->batch, id, (uint64_t)s->index * s->batch->sequence_length + position);
}

static const weir_table *table_of(const sequence *s, uint32_t local) {
    return &s->info->tables[weir_store_table_of(s->context->store, s->rows[local])];
}

/* Seeds of the task that are rows come after all rows of the store, and have two cells. */
enum { TASK_CELLS = 2 };

static bool is_task_row(const sequence *s, uint32_t local) {
    return s->rows[local] >= s->info->row_count;
}

/* The place of a column's cell in its row. */
static uint32_t place_of(const sequence *s, uint32_t local, uint32_t column) {
    if (is_task_row(s, local))
        return column == s->task->column ? 0 : 1;
    return column - table_of(s, local)->column_start;
}

static int compare_rows(const void *a, const void *b) {
    uint64_t x = **(const uint64_t *const *)a, y = **(const uint64_t *const *)b;
    return x < y ? -1 : x > y;
}

/* The number of a row in the sequence, or NOWHERE. */
static int32_t local_of(const sequence *s, uint64_t row) {
    const uint64_t *key = &row;
    const uint64_t **found = bsearch(&key, s->by_row, s->row_count, sizeof *s->by_row, compare_rows);
    return found ? (int32_t)(*found - s->rows) : NOWHERE;
}

static bool find_places(sequence *s) {
    s->row_starts = malloc(((size_t)s->row_count + 1) * sizeof *s->row_starts);
    s->by_row = malloc(((size_t)s->row_count + 1) * sizeof *s->by_row);
    if (!s->row_starts || !s->by_row)
        return false;
    s->row_starts[0] = 0;
    for (uint32_t r = 0; r < s->row_count; r++) {
        s->by_row[r] = &s->rows[r];
        s->row_starts[r + 1] =
            s->row_starts[r] + (is_task_row(s, r) ? TASK_CELLS : table_of(s, r)->column_count);
    }
    if (s->row_count > 0)
        qsort(s->by_row, s->row_count, sizeof *s->by_row, compare_rows);
    size_t count = s->row_starts[s->row_count];
    s->positions = malloc((count + 1) * sizeof *s->positions);
    if (!s->positions)
        return false;
    for (size_t i = 0; i < count; i++)
        s->positions[i] = NOWHERE;
    for (uint32_t p = 0; p < s->cell_count; p++) {
        uint32_t row = (uint32_t)cell_field(s, WEIR_SEQ_ROW_IDS, p);
        uint32_t column = (uint32_t)cell_field(s, WEIR_COLUMN_IDS, p) - s->first_column;
        if (column < s->info->table_column_count || is_task_row(s, row))
            s->positions[s->row_starts[row] + place_of(s, row, column)] = (int32_t)p;
    }
    return true;
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* When a cell or an edge is known, by its known_slot: with its row, or as late as another time says. The
 * anchor of a task that shows what was known of it counts as always there. */
static int64_t known_time(const sequence *s, uint64_t row, uint32_t known_slot) {
    bool was_always_there = row == s->anchor_row && s->task->before_anchor == WEIR_BEFORE_ANCHOR_SHOW_KNOWN;
    int64_t time = was_always_there ? WEIR_TIME_ALWAYS : weir_store_row_time(s->context->store, row);
    int64_t known = weir_store_time_at(s->context->store, row, known_slot);
    if (known_slot == WEIR_NONE)
        return time;
    if (known == WEIR_TIME_ALWAYS)
        return WEIR_TIME_NEVER;
    return known > time ? known : time;
}

/* [text, seconds]; null for what always was, "never" without seconds for what never will be. */
static void write_time(weir_json_writer *w, int64_t time) {
    char text[40];
    if (time == WEIR_TIME_ALWAYS) {
        weir_json_null(w);
        return;
    }
    weir_json_array(w);
    if (time == WEIR_TIME_NEVER) {
        weir_json_text(w, "never");
        weir_json_null(w);
    } else {
        weir_timestamp_format(time, text);
        weir_json_text(w, text);
        weir_json_double(w, (double)time / 1e6);
    }
    weir_json_end_array(w);
}

/* ---- Numbers ---------------------------------------------------------------------------------- */

/* A store keeps (x - mean) / std as float32. Computing x back from that gives 1.26747e-07 where the database
 * has 0: the many doubles that normalise to the same float32 are equally good answers, and the one with the
 * fewest digits is what a person wrote. */
enum { MOST_DIGITS = 17, NUMBER_SIZE = 48 };
static const double LARGEST_PLAIN = 1e15; /* beyond it, digits before the point are not all known */

static bool gives(double value, float normalised, const weir_statistics *statistics) {
    return isfinite(value) && weir_normalise(value, statistics) == normalised;
}

/* The decimal with the fewest digits that is as good as `value`. */
static double shortest(double value, float normalised, const weir_statistics *statistics,
                       char out[NUMBER_SIZE]) {
    for (int digits = 1; digits <= MOST_DIGITS; digits++) {
        snprintf(out, NUMBER_SIZE, "%.*g", digits, value);
        if (gives(strtod(out, NULL), normalised, statistics))
            break;
    }
    return strtod(out, NULL);
}

/* The number that a normalised value stands for: the integer, else the shortest decimal, that normalises to
 * exactly these bits. "≈ 38214003" if float32 cannot tell it from the integers beside it. */
static void write_number(float normalised, const weir_statistics *statistics, char out[NUMBER_SIZE]) {
    double value = (double)normalised * statistics->std + statistics->mean;
    double whole = round(value);
    char digits[NUMBER_SIZE];
    if (fabs(whole) < LARGEST_PLAIN && gives(whole, normalised, statistics)) {
        if (gives(whole - 1, normalised, statistics) || gives(whole + 1, normalised, statistics))
            snprintf(out, NUMBER_SIZE, "\xe2\x89\x88 %.0f", shortest(value, normalised, statistics, digits));
        else
            snprintf(out, NUMBER_SIZE, "%.0f", whole + 0.0); /* not -0 */
        return;
    }
    shortest(value, normalised, statistics, out);
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void write_cut_text(weir_json_writer *w, weir_text text) {
    size_t size = text.size < LONGEST_VALUE ? text.size : LONGEST_VALUE;
    while (size < text.size && size > 0 && ((uint8_t)text.data[size] & 0xC0) == 0x80)
        size--; /* not in the middle of a character */
    weir_json_text_n(w, text.data, size);
}

void cli_batch_write_value(weir_json_writer *w, const weir_store *store, uint32_t column,
                           const weir_cell *cell) {
    const weir_store_info *info = weir_store_describe(store);
    char text[NUMBER_SIZE];
    if (cell->is_null) {
        weir_json_null(w);
        return;
    }
    switch (weir_value_of(cell->stype)) {
    case WEIR_VALUE_NUMBER:
        write_number(cell->number, &info->columns[column].statistics, text);
        weir_json_text(w, text);
        return;
    case WEIR_VALUE_TIME:
        weir_timestamp_format(cell->integer, text);
        weir_json_text(w, text);
        return;
    case WEIR_VALUE_TRUTH:
        weir_json_text(w, cell->integer ? "true" : "false");
        return;
    case WEIR_VALUE_CATEGORY:
        write_cut_text(w, weir_store_category(store, (uint32_t)cell->integer));
        return;
    case WEIR_VALUE_TEXT:
        write_cut_text(w, weir_store_text(store, (uint32_t)cell->integer));
        return;
    case WEIR_VALUE_PRESENCE:
    case WEIR_VALUE_NOTHING:
        weir_json_text(w, "");
        return;
    }
}

/* What an identifier says: the row that it leads to, by its key or else by its number in its table, or its
 * part of the row's own key. False if the store does not know: an own key that it does not keep. */
static bool write_identifier(weir_json_writer *w, const sequence *s, uint64_t row, uint32_t column) {
    const weir_table *table = &s->info->tables[s->info->columns[column].table];
    char key[LONGEST_VALUE], text[LONGEST_VALUE + 100];
    for (uint32_t e = table->edge_start; e < table->edge_start + table->edge_count; e++) {
        uint64_t parent = weir_store_parent(s->context->store, row, e);
        if (s->info->edges[e].column != column || parent == WEIR_NO_ROW)
            continue;
        const weir_table *to = &s->info->tables[s->info->edges[e].parent_table];
        if (weir_store_key_text(s->context->store, parent, key, sizeof key) == 0)
            snprintf(key, sizeof key, "row %llu", (unsigned long long)(parent - to->row_start));
        snprintf(text, sizeof text, "\xe2\x86\x92 %.90s %s", to->name, key);
        weir_json_text(w, text);
        return true;
    }
    for (uint32_t i = 0; i < table->primary_key_count; i++) {
        weir_key_value value;
        if (strcmp(table->primary_key[i], s->info->columns[column].name) != 0 ||
            !weir_store_key(s->context->store, row, i, &value))
            continue;
        weir_store_key_part_text(&value, text, sizeof text);
        weir_json_text(w, text);
        return true;
    }
    return false;
}

/* The state of a cell that is in the sequence and has a value. */
static cell_state state_of_value(const sequence *s, int32_t position) {
    bool is_masked =
        s->batch->tensors[WEIR_IS_MASKED].name && cell_field(s, WEIR_IS_MASKED, (uint32_t)position);
    return is_masked ? CELL_MASKED : CELL_SHOWN;
}

static cell_state state_of(const sequence *s, uint32_t local, uint32_t column, int32_t position,
                           const weir_cell *cell) {
    if (position == 0)
        return CELL_TARGET;
    if (position > 0) {
        if (!cell_field(s, WEIR_IS_NULL, (uint32_t)position))
            return state_of_value(s, position);
        return cell->is_null ? CELL_NULL : CELL_LATE;
    }
    bool is_target = column == s->task->column; /* which may be among the task's own dropped columns */
    if (s->task->column_dropped[column] || (s->task->drops_target && is_target))
        return CELL_DROPPED;
    weir_label_visibility visibility = weir_manifest_describe(s->context->manifest)->batch->label_visibility;
    bool is_hidden = visibility == WEIR_LABELS_NONE ||
                     (visibility != WEIR_LABELS_ALL &&
                      weir_store_is_held_out(s->context->store, s->task_number, s->rows[local]));
    return s->task->is_cell && is_target && is_hidden ? CELL_LABEL : CELL_CUT;
}

/* [state, position, value] and, where it is hidden for its time, when it is known. */
static void write_cell(weir_json_writer *w, const sequence *s, uint32_t local, uint32_t column) {
    const weir_column *described = &s->info->columns[column];
    int32_t position = s->positions[s->row_starts[local] + column - table_of(s, local)->column_start];
    weir_cell cell = {.is_null = true};
    if (!weir_store_cell(s->context->store, s->rows[local], column, &cell))
        cell.is_null = true;
    cell_state state = state_of(s, local, column, position, &cell);
    weir_json_array(w);
    weir_json_uint(w, state);
    weir_json_int(w, position);
    if (cell.is_null || cell.stype != WEIR_IDENTIFIER || !write_identifier(w, s, s->rows[local], column))
        cli_batch_write_value(w, s->context->store, column, &cell);
    if (state == CELL_LATE)
        write_time(w, known_time(s, s->rows[local], described->known_slot));
    weir_json_end_array(w);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* [edge type, number of the parent in the sequence or -1, state, the time that the state is about]. */
static void write_parents(weir_json_writer *w, const sequence *s, uint32_t local) {
    const weir_table *table = table_of(s, local);
    weir_json_pair_array(w, "parents");
    for (uint32_t e = table->edge_start; e < table->edge_start + table->edge_count; e++) {
        uint64_t parent = weir_store_parent(s->context->store, s->rows[local], e);
        if (parent == WEIR_NO_ROW)
            continue;
        int64_t time = known_time(s, s->rows[local], s->info->edges[e].known_slot);
        edge_state state = s->task->edge_hidden[e]                                 ? EDGE_HIDDEN
                           : time == WEIR_TIME_NEVER || time > s->observation_time ? EDGE_LATE
                                                                                   : EDGE_SHOWN;
        if (state == EDGE_SHOWN) {
            time = weir_store_row_time(s->context->store, parent);
            if (local_of(s, parent) == NOWHERE && time > s->observation_time)
                state = EDGE_TO_LATER_ROW;
        }
        weir_json_array(w);
        weir_json_uint(w, e);
        weir_json_int(w, local_of(s, parent));
        weir_json_uint(w, state);
        write_time(w, time);
        weir_json_end_array(w);
    }
    weir_json_end_array(w);
}

/* A cell of a task row: [state, position, value]. */
static void write_task_cell(weir_json_writer *w, const sequence *s, uint32_t local, uint32_t column,
                            const weir_cell *cell) {
    int32_t position = s->positions[s->row_starts[local] + place_of(s, local, column)];
    cell_state state = position == 0   ? CELL_TARGET
                       : position < 0  ? CELL_CUT
                       : cell->is_null ? CELL_NULL
                                       : state_of_value(s, position);
    weir_json_array(w);
    weir_json_uint(w, state);
    weir_json_int(w, position);
    cli_batch_write_value(w, s->context->store, column, cell);
    weir_json_end_array(w);
}

/* A seed that is a row: its label and its time, when the label is known, and how walks found it. The row of a
 * request that is none of the store's seeds has no label and no split. */
static void write_task_row(weir_json_writer *w, const sequence *s, uint32_t local) {
    const weir_store *store = s->context->store;
    uint64_t seed = s->rows[local] - s->info->row_count;
    weir_seed_row row;
    bool is_stored = weir_store_seed(store, s->task_number, seed, &row);
    if (!is_stored)
        row = (weir_seed_row){
            .row = s->anchor_row, .observation_time = s->observation_time, .target.is_null = true};
    weir_cell time = {.stype = WEIR_TIMESTAMP,
                      .is_null = row.observation_time == INT64_MAX,
                      .integer = row.observation_time};
    weir_json_object(w);
    weir_json_pair_uint(w, "row", s->rows[local]);
    weir_json_pair_uint(w, "table", s->info->table_count);
    weir_json_key(w, "time");
    write_time(w, row.observation_time);
    if (is_stored) {
        weir_json_key(w, "known");
        write_time(w, weir_store_label_time(store, s->task_number, seed));
        weir_json_pair_text(w, "split", weir_split_name(row.split));
    }
    weir_json_pair_array(w, "cells");
    write_task_cell(w, s, local, s->task->column, &row.target);
    write_task_cell(w, s, local, s->task->observed_column, &time);
    weir_json_end_array(w);
    weir_json_pair_array(w, "parents");
    weir_json_array(w);
    weir_json_uint(w, s->info->edge_count);
    weir_json_int(w, local_of(s, row.row));
    weir_json_uint(w, EDGE_SHOWN);
    weir_json_null(w);
    weir_json_end_array(w);
    weir_json_end_array(w);
    weir_json_end_object(w);
}

static void write_row(weir_json_writer *w, const sequence *s, uint32_t local) {
    if (is_task_row(s, local)) {
        write_task_row(w, s, local);
        return;
    }
    const weir_table *table = table_of(s, local);
    weir_json_object(w);
    char key[LONGEST_VALUE];
    weir_json_pair_uint(w, "row", s->rows[local]);
    if (weir_store_key_text(s->context->store, s->rows[local], key, sizeof key) > 0)
        weir_json_pair_text(w, "key", key);
    weir_json_pair_uint(w, "table", (uint64_t)(table - s->info->tables));
    weir_json_key(w, "time");
    write_time(w, weir_store_row_time(s->context->store, s->rows[local]));
    weir_json_pair_array(w, "cells");
    for (uint32_t i = 0; i < table->column_count; i++)
        write_cell(w, s, local, table->column_start + i);
    weir_json_end_array(w);
    write_parents(w, s, local);
    weir_json_end_object(w);
}

/* The target of a sequence: that of its seed, or in a group of a link task whether it is the destination. A
 * request that is not a seed has its row's cell, or none. */
static weir_cell target_of(const sequence *s, uint64_t sample) {
    weir_role role = weir_batch_role(s->batch, s->index);
    if (s->task->link.is_link)
        return (weir_cell){.stype = WEIR_BOOLEAN,
                           .is_null = role != WEIR_ROLE_DESTINATION && role != WEIR_ROLE_NEGATIVE,
                           .integer = role == WEIR_ROLE_DESTINATION};
    const weir_store *store = s->context->store;
    weir_stored_dataset dataset;
    weir_error error;
    weir_seed_row seed = {.target.is_null = true};
    uint64_t index = WEIR_NO_ROW;
    if (!s->context->stage)
        index = weir_store_find_seed(store, s->task_number, s->anchor_row, s->observation_time);
    else if (weir_store_dataset(store, s->context->dataset, &dataset, &error) == WEIR_OK)
        index = s->task->split_start[dataset.split] + sample;
    if (index == WEIR_NO_ROW && s->task->is_cell)
        (void)weir_store_cell(store, s->anchor_row, s->task->column, &seed.target);
    else if (!weir_store_seed(store, s->task_number, index, &seed))
        seed.target.is_null = true;
    return seed.target;
}

static void write_permutation(weir_json_writer *w, const sequence *s, const char *key, weir_tensor_id id) {
    const uint8_t *first = s->batch->data + s->batch->tensors[id].offset;
    weir_json_key(w, key);
    cli_json_base64(w, first + (size_t)2 * s->index * s->batch->sequence_length, 2 * (size_t)s->cell_count);
}

static void write_sequence(weir_json_writer *w, sequence *s) {
    const weir_batch *batch = s->batch;
    uint64_t sample = cli_batch_field(batch, WEIR_SAMPLE_INDEX, s->index);
    char digest[24];
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)batch->sample_digests[s->index]);
    weir_json_object(w);
    cli_json_uint_text(w, "sample", sample);
    cli_json_uint_text(w, "epoch", batch->epochs[s->index]);
    cli_json_uint_text(w, "position", cli_batch_field(batch, WEIR_POSITION, s->index));
    weir_json_key(w, "seen");
    write_time(w, s->observation_time);
    weir_json_pair_text(w, "digest", digest);
    weir_json_pair_uint(w, "cells", s->cell_count);
    if (s->row_count > 0) {
        weir_cell target = target_of(s, sample);
        weir_json_key(w, "target");
        cli_batch_write_value(w, s->context->store, s->task->column, &target);
        cli_json_int(w, "label",
                     cli_labels_find(s->labels, &target)); /* which item of the label distribution it is */
    }
    if (s->batch->group_size > 1)
        weir_json_pair_text(w, "role", weir_role_name(weir_batch_role(batch, s->index)));
    write_permutation(w, s, "col_perm", WEIR_COL_PERM);
    write_permutation(w, s, "out_perm", WEIR_OUT_PERM);
    write_permutation(w, s, "in_perm", WEIR_IN_PERM);
    weir_json_pair_array(w, "parts"); /* [row that starts it, visits] */
    for (uint32_t r = 0; r < s->row_count; r++)
        if (s->visits[r] != WEIR_NONE) {
            weir_json_array(w);
            weir_json_uint(w, r);
            weir_json_uint(w, s->visits[r]);
            weir_json_end_array(w);
        }
    weir_json_end_array(w);
    weir_json_pair_array(w, "rows");
    if (find_places(s)) {
        for (uint32_t r = 0; r < s->row_count; r++)
            write_row(w, s, r);
    } else {
        w->status = WEIR_OUT_OF_MEMORY;
    }
    free(s->row_starts);
    free(s->by_row);
    free(s->positions);
    weir_json_end_array(w);
    weir_json_end_object(w);
}

/* ---- A batch ---------------------------------------------------------------------------------- */

void cli_batch_write_page_step(weir_json_writer *w, const weir_batch *batch, const cli_batch_context *context,
                               uint32_t member, const cli_labels *labels) {
    const weir_store_info *info = weir_store_describe(context->store);
    bool is_mixed = batch->source_count > 0;
    uint32_t task = is_mixed ? batch->sources[member].task : batch->task;
    weir_json_object(w);
    cli_json_uint_text(w, "epoch", batch->step.cursor_before.epoch);
    cli_json_uint_text(w, "position", batch->step.cursor_before.global_index);
    cli_json_uint_text(w, "next_epoch", batch->step.cursor_next.epoch);
    cli_json_uint_text(w, "next_position", batch->step.cursor_next.global_index);
    cli_json_uint_text(w, "bytes", batch->size);
    weir_json_pair_uint(w, "sequence_length", batch->sequence_length);
    weir_json_pair_hex(w, "digest", batch->batch_digest, sizeof batch->batch_digest);
    weir_json_pair_array(w, "sequences");
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        if (is_mixed && batch->dataset_ids[i] != member)
            continue;
        sequence s = {.batch = batch,
                      .context = context,
                      .info = info,
                      .task = &info->tasks[task],
                      .task_number = task,
                      .first_column = is_mixed ? batch->sources[member].first_column : 0,
                      .labels = labels,
                      .index = i,
                      .row_count = (uint32_t)cli_batch_field(batch, WEIR_NUM_ROWS, i),
                      .cell_count = (uint32_t)cli_batch_field(batch, WEIR_NUM_CELLS, i),
                      .observation_time = (int64_t)cli_batch_field(batch, WEIR_OBSERVATION_TIME, i),
                      .anchor_row = WEIR_NO_ROW,
                      .rows = batch->rows + (size_t)i * batch->row_stride,
                      .visits = batch->visits + (size_t)i * batch->row_stride};
        if (s.row_count > 0) /* not padding */
            s.anchor_row = weir_batch_anchor(context->store, task, batch, i,
                                             (uint32_t)cli_batch_field(batch, WEIR_ANCHOR_ROW, i));
        write_sequence(w, &s);
    }
    weir_json_end_array(w);
    weir_json_end_object(w);
}
