/* The inside of a report: what its parts fill. Warnings copy what they name, so that a report outlives its
 * store. */
#ifndef WEIR_REPORT_REPORT_H
#define WEIR_REPORT_REPORT_H

#include "base/internal.h"
#include "store/format.h"
#include "store/reader.h"
#include "weir/batch.h"
#include "weir/report.h"

#define WEIR_REPORT__OPERATOR "weir.report"

struct weir_report {
    const weir_env *env;
    weir__arena arena;
    weir_report_view view;
    weir_report_table *tables;
    weir_report_task *tasks;
    weir_warning *warnings;
    uint32_t warning_count;
};

typedef struct weir_report__work {
    weir_report *report;
    const weir_store *store;
    const weir_store_info *info;
    bool has_times; /* some row has one */
    weir_error *error;
} weir_report__work;

/* A report goes through all of a store: what is behind it is let go, so that a store of any size takes little
 * memory. `number` counts what is looked at: rows that follow each other, or some that lie anywhere, each of
 * which brings 64 KiB or more with it. */
enum { WEIR_REPORT__ROWS_KEPT = 1 << 16, WEIR_REPORT__SAMPLES_KEPT = 1 << 9 };
static inline void weir_report__pass(const weir_report__work *work, uint64_t number, uint32_t kept) {
    if (number % kept == kept - 1)
        weir_store__let_go(work->store);
}

weir_status weir_report__no_memory(const weir_report__work *work, size_t size);

/* A target as a number: 0 or 1, a category's number in its block, the value itself, microseconds. False for
 * null. */
bool weir_report__label(const weir_report__work *work, const weir_task *task, const weir_cell *target,
                        double *out);

static inline bool weir_report__has_classes(weir_stype stype) {
    return weir_value_of(stype) == WEIR_VALUE_TRUTH || weir_value_of(stype) == WEIR_VALUE_CATEGORY;
}

/* Whether more and less mean something. */
static inline bool weir_report__has_order(weir_stype stype) {
    return weir_value_of(stype) == WEIR_VALUE_NUMBER || weir_value_of(stype) == WEIR_VALUE_TIME;
}

/* Whether some of a table's times are far from nearly all of them: stand-ins for unknown ones, perhaps. */
static inline bool weir_report__has_far_times(const weir_report_table *table) {
    double width = 10 * ((double)table->late - (double)table->early + 1);
    return table->timed > 100 && ((double)table->last - (double)table->late > width ||
                                  (double)table->early - (double)table->first > width);
}

/* The name of a column or foreign key that tells the target alone; the store's. */
const char *weir_report__suspect_name(const weir_store_info *info, const weir_report_suspect *suspect);

WEIR_CHECKED weir_status weir_report__tables(weir_report__work *work);
WEIR_CHECKED weir_status weir_report__add_labels(weir_report__work *work, uint32_t task);
WEIR_CHECKED weir_status weir_report__leaks(weir_report__work *work, uint32_t task);
WEIR_CHECKED weir_status weir_report__sequences(weir_report__work *work);
void weir_report__warnings(weir_report__work *work);

#endif
