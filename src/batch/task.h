/* What a builder knows of a task before it sees a row: for every table, which cells a row gives and where
 * their values lie in the record. Dropped columns, hidden edges and the target's place are settled here, so
 * that the inner loop asks nothing. */
#ifndef WEIR_SRC_BATCH_TASK_H
#define WEIR_SRC_BATCH_TASK_H

#include "base/internal.h"
#include "weir/manifest.h"
#include "weir/store.h"

/* One cell that rows of a table give. */
typedef struct weir__cell_rule {
    uint32_t column;
    uint32_t slot;       /* of the value */
    uint32_t null_bit;   /* counted from the record's first, as the next one */
    uint32_t bool_bit;   /* of a boolean */
    uint32_t known_slot; /* of the timestamp that says when it is known; WEIR_NONE: with the row */
    uint8_t stype;
} weir__cell_rule;

/* The cells of a row, in column order, also as ready runs of the two tensors that depend on nothing else,
 * with room to copy WEIR__RUN of them whatever their number. */
enum { WEIR__RUN = 16 };
typedef struct weir__row_rules {
    uint32_t count;
    weir__cell_rule *cells;
    uint32_t *column_ids; /* little-endian, as delivered */
    int8_t *stypes;
} weir__row_rules;

typedef struct weir__table_rules weir__table_rules;

/* A foreign key that the task shows. */
typedef struct weir__parent_rule {
    const weir__table_rules *parents;
    uint32_t slot;       /* of the parent's row */
    uint32_t known_slot; /* WEIR_NONE: with the row */
} weir__parent_rule;

/* An edge type into a table that the task shows. */
typedef struct weir__child_rule {
    const weir_edge *edge;
    const weir__table_rules *children;
} weir__child_rule;

/* What a walk needs of a table, its place in the store first. */
struct weir__table_rules {
    const uint8_t *records;
    uint32_t row_start;
    uint32_t row_count;
    uint32_t stride;
    uint32_t time_offset; /* or WEIR_NONE */
    uint32_t number;
    uint32_t parent_count;
    uint32_t inbound_count;
    weir__parent_rule *parents;
    weir__child_rule *inbound;
    weir__row_rules plain; /* all cells but the dropped ones */
    weir__row_rules
        unlabelled; /* without the target column: the anchor row behind its target, and held-out rows */
};

typedef struct weir__task_rules {
    const weir_store_info *info;
    const weir_task *task;
    weir_label_visibility label_visibility;
    weir__table_rules *tables;
    bool may_repeat_parents; /* a table has two foreign keys to the same one */
    uint8_t *blank_record;   /* of the anchor table: every cell null, no parents */
    void *memory;            /* one block for all of the above */
} weir__task_rules;

WEIR_CHECKED weir_status weir__task_rules_open(weir__task_rules *rules, const weir_env *env,
                                               const weir_store *store, uint32_t task,
                                               weir_label_visibility visibility, weir_error *error);
void weir__task_rules_close(weir__task_rules *rules, const weir_env *env);

#endif
