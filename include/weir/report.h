/* weir/report.h: what a person should know about a store before training on it: tables and their times,
 * labels by split and over time, what a typical sequence holds, columns that may give the answer away; and
 * warnings, by name, for what looks like a mistake (docs/warnings.md).
 *
 *   weir_report_open(NULL, store, &report, &error);
 *   const weir_report_view *view = weir_report_look(report);
 *   for (uint32_t i = 0; i < view->warning_count; i++) puts(view->warnings[i].message);
 *
 * The same store gives the same report. A report does not change once it is open: any number of threads may
 * look at it. */
#ifndef WEIR_REPORT_H
#define WEIR_REPORT_H

#include "weir/store.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEIR_REPORT_BINS = 24, WEIR_REPORT_CLASSES = 8, WEIR_REPORT_SUSPECTS = 8 };

/* A table, by its number in the store. Shares are of its rows. */
typedef struct weir_report_table {
    uint32_t table;
    uint64_t timed; /* rows that have a time */
    int64_t first;  /* of the times; 0 if there is none */
    int64_t last;
    int64_t early;     /* after the first hundredth of them, and */
    int64_t late;      /* before the last */
    uint64_t dangling; /* foreign keys of its rows that match nothing; a row may have several */
    uint64_t unlinked; /* rows of a table with foreign keys that have no parent at all */
    bool is_reached;   /* by some task */
} weir_report_table;

/* Labels of one split: of a boolean the mean is the share of true, of a categorical one that of its largest
 * class. */
typedef struct weir_report_labels {
    uint64_t seeds;
    uint64_t nulls;
    double mean;
    double std;
    double least;
    double most;
    uint32_t classes; /* different ones; at most 2^32-1 */
} weir_report_labels;

typedef struct weir_report_class {
    uint32_t category; /* of a categorical target: CategoricalEmbeddingIdx; of a boolean 0 or 1 */
    uint64_t seeds[WEIR_SPLITS];
} weir_report_class;

/* Seeds by their observation time. */
typedef struct weir_report_bin {
    int64_t from;
    uint64_t seeds[WEIR_SPLITS];
    double mean; /* of the labels, as in weir_report_labels over all splits; NaN if there is none */
} weir_report_bin;

/* A column or a foreign key of the anchor table that tells the target alone. */
typedef struct weir_report_suspect {
    uint32_t column; /* ColumnIdx, or WEIR_NONE: it is a foreign key */
    uint32_t edge;   /* number of the edge type, or WEIR_NONE: it is a column */
    double auc;      /* of a tree over it, on seeds that it was not made from */
} weir_report_suspect;

typedef struct weir_report_task {
    uint32_t task;
    weir_report_labels splits[WEIR_SPLITS];
    weir_report_class classes[WEIR_REPORT_CLASSES]; /* the largest */
    uint32_t class_count;
    weir_report_bin bins[WEIR_REPORT_BINS];
    uint32_t bin_count;
    int64_t first; /* observation times that are not "sees everything" */
    int64_t last;
    uint64_t see_everything;
    uint64_t conflicts;   /* seeds that another one of the same row and time contradicts */
    uint64_t before_data; /* seeds observed before any row with a time */
    uint32_t sequences;   /* that were looked at */
    uint32_t cells;       /* of the one in the middle */
    uint32_t rows;
    double hidden; /* the share of children of their rows that are later than the observation time */
    weir_report_suspect suspects[WEIR_REPORT_SUSPECTS]; /* highest first */
    uint32_t suspect_count;
} weir_report_task;

typedef struct weir_report_view {
    const weir_report_table *tables; /* what is odd first */
    uint32_t table_count;
    const weir_report_task *tasks; /* by their number */
    uint32_t task_count;
    int64_t first; /* of all row times; 0 if there are none */
    int64_t last;
    const weir_warning *warnings;
    uint32_t warning_count;
} weir_report_view;

typedef struct weir_report weir_report;

/* Reads all rows' times and all seeds, and builds some batches; the store may be closed after. The caller
 * closes the report. OUT_OF_MEMORY; STORE_CORRUPT, IO_ERROR (what was read of the store). Any thread. */
WEIR_API WEIR_CHECKED weir_status weir_report_open(const weir_env *env, const weir_store *store,
                                                   weir_report **out, weir_error *error);
WEIR_API void weir_report_close(weir_report *report);
/* Valid until the report is closed. */
WEIR_API const weir_report_view *weir_report_look(const weir_report *report);

#ifdef __cplusplus
}
#endif
#endif
