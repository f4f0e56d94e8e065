/* See batch_labels.h. All labels are looked at as doubles: a normalised number, microseconds, 0 or 1, or the
 * number of a category. */
#include "batch_labels.h"

#include <stdlib.h>

#include "cli.h"

static double value_of(const weir_cell *label) {
    return weir_value_of(label->stype) == WEIR_VALUE_NUMBER ? (double)label->number : (double)label->integer;
}

static int compare_values(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int compare_counts(const void *a, const void *b) {
    const cli_label_item *x = a, *y = b;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return x->low < y->low ? -1 : x->low > y->low;
}

static int find_value(const cli_labels *labels, double value) {
    for (uint32_t i = 0; i < labels->item_count; i++) {
        const cli_label_item *item = &labels->items[i];
        bool is_last = i + 1 == labels->item_count;
        if (labels->are_stretches ? value < item->high || is_last : value == item->low)
            return (int)i;
    }
    return -1;
}

/* Each different value, the most frequent first if `by_count`. */
static weir_status list_values(const double *sorted, size_t count, size_t distinct, bool by_count,
                               cli_labels *out, weir_error *error) {
    size_t used = 0;
    cli_label_item *runs = malloc((distinct + 1) * sizeof *runs);
    if (!runs)
        return cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for %zu different labels", distinct);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || sorted[i] != sorted[i - 1])
            runs[used++] = (cli_label_item){.low = sorted[i], .high = sorted[i]};
        runs[used - 1].count++;
    }
    if (by_count)
        qsort(runs, used, sizeof *runs, compare_counts);
    for (size_t i = 0; i < used; i++) {
        if (i < CLI_LABEL_ITEMS)
            out->items[out->item_count++] = runs[i];
        else
            out->others += runs[i].count;
    }
    free(runs);
    return WEIR_OK;
}

weir_status cli_labels_count(const weir_store *store, uint32_t task, weir_split split, uint64_t cardinality,
                             cli_labels *out, weir_error *error) {
    const weir_task *described = &weir_store_describe(store)->tasks[task];
    bool are_categories = weir_value_of(described->stype) == WEIR_VALUE_CATEGORY ||
                          weir_value_of(described->stype) == WEIR_VALUE_TRUTH;
    *out = (cli_labels){.count = cardinality};
    double *values = malloc(((size_t)cardinality + 1) * sizeof *values);
    if (!values)
        return cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for %llu labels",
                         (unsigned long long)cardinality);
    size_t count = 0, distinct = 0;
    for (uint64_t i = 0; i < cardinality; i++) {
        weir_seed_row seed = {.target.is_null = true};
        if (weir_store_seed(store, task, described->split_start[split] + i, &seed) && !seed.target.is_null)
            values[count++] = value_of(&seed.target);
    }
    out->nulls = cardinality - count;
    if (count > 0)
        qsort(values, count, sizeof *values, compare_values);
    for (size_t i = 0; i < count; i++)
        distinct += i == 0 || values[i] != values[i - 1];
    weir_status status = WEIR_OK;
    if (are_categories || distinct <= CLI_LABEL_ITEMS) {
        status = list_values(values, count, distinct, are_categories, out, error);
    } else {
        double first = values[0], last = values[count - 1], length = (last - first) / CLI_LABEL_ITEMS;
        out->are_stretches = true;
        out->item_count = CLI_LABEL_ITEMS;
        for (uint32_t i = 0; i < CLI_LABEL_ITEMS; i++)
            out->items[i] = (cli_label_item){.low = first + i * length, .high = first + (i + 1) * length};
        out->items[CLI_LABEL_ITEMS - 1].high = last;
        for (size_t i = 0; i < count; i++)
            out->items[find_value(out, values[i])].count++;
    }
    free(values);
    return status;
}

int cli_labels_find(const cli_labels *labels, const weir_cell *label) {
    return label->is_null ? -1 : find_value(labels, value_of(label));
}
