/* How the labels of a dataset are distributed, for the page of a batch. */
#ifndef WEIR_CLI_BATCH_LABELS_H
#define WEIR_CLI_BATCH_LABELS_H

#include "weir/weir.h"

enum { CLI_LABEL_ITEMS = 12 };

/* A value, or a stretch [low, high) of them; the last stretch includes its end. */
typedef struct cli_label_item {
    double low, high;
    uint64_t count;
} cli_label_item;

typedef struct cli_labels {
    uint64_t count; /* all samples of the dataset */
    uint64_t nulls;
    uint64_t others; /* of categories that are not among the items */
    bool are_stretches;
    uint32_t item_count;
    cli_label_item items[CLI_LABEL_ITEMS];
} cli_labels;

/* Counts the labels of one split of a task. Values that are few stand for themselves, the most frequent
 * first if they are categories; others fall into stretches of equal length. OUT_OF_MEMORY. */
WEIR_CHECKED weir_status cli_labels_count(const weir_store *store, uint32_t task, weir_split split,
                                          uint64_t cardinality, cli_labels *out, weir_error *error);

/* The item that a label belongs to, or -1. */
int cli_labels_find(const cli_labels *labels, const weir_cell *label);

#endif
