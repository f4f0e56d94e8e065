/* What is known of a task before a row is seen: for every table, where its rows lie and where they lead, for
 * the walk; and which cells a row gives and where their values lie in its record, for the expansion. Dropped
 * columns, hidden edges and the target's place are settled here, so that inner loops ask nothing. */
#ifndef WEIR_BATCH_RULES_H
#define WEIR_BATCH_RULES_H

#include <string.h>

#include "base/block.h"
#include "base/bytes.h"
#include "store/reader.h"
#include "weir/manifest.h"

typedef struct weir_batch__table_rules weir_batch__table_rules;

/* A store of a batch, and where its numbers begin among those of all stores of the batch: 0 if it is the only
 * one. */
typedef struct weir_batch__origin {
    const weir_store *store;
    uint32_t first_column;
    uint32_t first_category;
    uint32_t first_text;
} weir_batch__origin;

/* A foreign key that the task shows. */
typedef struct weir_batch__parent_rule {
    const weir_batch__table_rules *parents;
    uint32_t slot;       /* of the parent's row */
    uint32_t known_slot; /* WEIR_NONE: with the row */
} weir_batch__parent_rule;

/* Where bytes lie: a section of the store, which must be verified before they are used, or 0, memory of our
 * own. */
typedef uint8_t weir_batch__lies_in;

/* Rows with times, by parent: those of parent p are rows[starts[p] … starts[p + 1]), sorted by time. */
typedef struct weir_batch__list {
    const uint8_t *starts; /* uint32, parents + 1 */
    const uint8_t *rows;   /* uint32, count: numbers of rows */
    const uint8_t *times;  /* int64, count; NULL: all are WEIR_TIME_ALWAYS */
    uint64_t count;
    weir_batch__lies_in starts_in, rows_in, times_in;
} weir_batch__list;

/* An edge type into a table that the task shows. */
typedef struct weir_batch__child_rule {
    weir_batch__list list;
    const weir_batch__table_rules *children;
    const weir_choices *widths; /* by the parent's hop; NULL: that of the sequence */
} weir_batch__child_rule;

/* What a walk needs of a table. Its rows are of the kind with the table's number. */
struct weir_batch__table_rules {
    const uint8_t *records; /* NULL: task rows, whose records are made when they are visited */
    uint64_t row_start;     /* RowIdx of the first */
    uint32_t row_count;
    uint32_t first_number; /* what the store's numbers of them begin at, … */
    uint32_t first_key;    /* … and the keys by which a walk knows them */
    uint32_t stride;
    uint32_t time_offset; /* or WEIR_NONE */
    uint32_t record_size; /* the stride, up to a multiple of 8 */
    uint32_t number;
    uint32_t cells; /* of a row */
    uint32_t parent_count;
    uint32_t inbound_count;
    weir_batch__parent_rule *parents;
    weir_batch__child_rule *inbound;
};

/* A cell of a kind that has a text. */
typedef struct weir_batch__text_rule {
    const uint8_t *rule; /* among those of the expansion */
    uint32_t slot;
    uint32_t cell; /* its number in the row */
} weir_batch__text_rule;

/* What rows of a kind give. */
typedef struct weir_batch__kind {
    uint32_t cells;
    uint32_t label;  /* the cell of the target column; WEIR_NONE: it has none */
    uint32_t before; /* cells without the label whose column is before the target's, in the anchor's table */
    uint32_t text_count;
    weir_batch__text_rule *texts;
} weir_batch__kind;

/* The record of a task row: what a table of its two cells would have. */
enum weir_batch__task_row_field {
    WEIR_BATCH__TASK_ROW_ANCHOR = 0, /* its number */
    WEIR_BATCH__TASK_ROW_BITS = 4,   /* a byte: the label is null, the time is, and a boolean label's value */
    WEIR_BATCH__TASK_ROW_TIME = 8,   /* of observation */
    WEIR_BATCH__TASK_ROW_LABEL = 16, /* as the store has it */
    WEIR_BATCH__TASK_ROW_SIZE = 24,
};
enum {
    WEIR_BATCH__TASK_ROW_LABEL_NULL,
    WEIR_BATCH__TASK_ROW_TIME_NULL,
    WEIR_BATCH__TASK_ROW_TRUTH
}; /* bits */

typedef struct weir_batch__rules {
    const weir_store_info *info;
    weir_batch__origin origin;
    uint32_t place; /* of the expansion among those of all datasets of the batch, in units of 8 bytes */
    const weir_task *task;
    uint32_t task_number;
    weir_label_visibility label_visibility;
    uint8_t label_splits;    /* that it shows: bit s for split s */
    const uint8_t *held_out; /* rows of the anchor's table whose labels are never shown, a bit each */
    weir_batch__lies_in held_out_in;
    bool has_task_rows; /* seeds are rows, of one table more than the store has */
    weir_batch__table_rules *tables;
    uint32_t table_count;
    uint64_t row_count; /* of all of them; one task row more than there are seeds, for a seed that is none */
    uint32_t most_parents; /* that a row has */
    uint32_t most_inbound;
    uint32_t most_width;          /* of those below, or child_width */
    uint32_t width_count;         /* of edge types, by hop; 0: all have child_width */
    weir_choices *widths;         /* by the manifest's list, … */
    const weir_edge_width *named; /* … which is the manifest's, while the rules are made */
    uint32_t label_table;    /* whose rows have labels: the anchor's in a cell task, or that of task rows, or
                                WEIR_NONE */
    weir_batch__kind *kinds; /* one per table, by its number, and, if there is a label_table, one more: */
    uint32_t unlabelled;     /* rows of it without the label */
    weir_batch__list labels; /* task rows by their anchors: those of the splits that are shown */
    bool omits_blank_rows;   /* rows of the anchor's table whose labels are hidden are nobody's children */
    bool is_damaged;         /* a seed, an edge or a label leads nowhere */
    uint32_t kind_count;
    bool shows_early_anchors; /* what is known of an anchor before its own time */
    bool may_repeat_parents;  /* a table has two foreign keys to the same one */
    bool picks_best_order;    /* row_order is best */
    bool omits_identifiers;
    uint8_t *blank_record;      /* of the anchor table: every cell null, no parents */
    uint8_t *blank_destination; /* the same of a link task's destination table */
    uint8_t *expansion;         /* the rules of expand_kernel.h … */
    uint64_t expansion_size;    /* … bytes */
    weir__block memory;
} weir_batch__rules;

WEIR_CHECKED weir_status weir_batch__rules_open(weir_batch__rules *rules, const weir_env *env,
                                                const weir_batch__origin *origin, uint32_t task,
                                                const weir_batch_config *config, weir_error *error);
void weir_batch__rules_close(weir_batch__rules *rules, const weir_env *env);

/* Whether bytes are what was written: what lies in the store is verified. */
static inline bool weir_batch__verify(const weir_store *store, weir_batch__lies_in in, const uint8_t *at,
                                      size_t size) {
    return !in || weir_store__touch_in(store, (weir_store__section_kind)in, at, size);
}

/* A target's value as batches and task rows have it: bits of a float, or the integer. */
static inline uint64_t weir_batch__bits_of_target(const weir_cell *target) {
    uint32_t bits;
    if (weir_value_of(target->stype) != WEIR_VALUE_NUMBER)
        return (uint64_t)target->integer;
    memcpy(&bits, &target->number, sizeof bits);
    return bits;
}

/* Whether 32 bits do not tell all rows apart. */
static inline bool weir_batch__has_many_rows(const weir_batch__rules *rules) {
    return rules->row_count >= UINT32_MAX;
}

/* The table of a kind. */
static inline const weir_batch__table_rules *weir_batch__table_of_kind(const weir_batch__rules *rules,
                                                                       uint32_t kind) {
    return &rules->tables[kind == rules->unlabelled ? rules->label_table : kind];
}

/* The largest of the numbers that a sequence may have. */
static inline uint32_t weir_batch__most_of(const weir_choices *choices) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < choices->count; i++)
        most = choices->values[i] > most ? choices->values[i] : most;
    return most;
}

/* What walks and retrieval see of a table: the record of one of its rows, by its place in the table; … */
static inline const uint8_t *weir_batch__record_of(const weir_batch__table_rules *table, uint32_t row) {
    return table->records + (size_t)row * table->stride;
}

/* … whether what a timestamp slot of it says is known (null is never); … */
static inline bool weir_batch__is_known(const uint8_t *record, uint32_t known_slot, int64_t cutoff) {
    if (known_slot == WEIR_NONE)
        return true;
    int64_t known = (int64_t)weir__load64(record + known_slot);
    return known != WEIR_TIME_ALWAYS && known <= cutoff;
}

/* … and the rank of a time, the newest first. */
static inline uint64_t weir_batch__newest_first(int64_t time) {
    return UINT64_MAX - ((uint64_t)time + ((uint64_t)1 << 63));
}

#endif
