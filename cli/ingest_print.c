/* The report of an ingest for a terminal: warnings first, then tables, then tasks, what a person should look
 * at in front. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "ingest_run.h"
#include "progress.h"

enum { NAME_MAX_WIDTH = 28, DATE_SIZE = 10 };

static void print_summary(const weir_ingest_report *result) {
    char source[32], store[32], kept[32];
    cli_format_bytes(result->source_bytes, source);
    cli_format_bytes(result->store_bytes, store);
    printf("%s: %s of %s, %s, %s, %s", cli_shown(result->store_path), cli_number(result->rows, "row", "rows"),
           cli_number(result->tables, "table", "tables"), cli_number(result->edges, "edge", "edges"),
           cli_number(result->texts, "text", "texts"), store);
    if (result->source_bytes > 0)
        printf(" from %s", source);
    printf(" in %.1f s\n", (double)result->total_ns * 1e-9);
    cli_format_bytes(result->kept_bytes, kept);
    if (result->kept_bytes > 0)
        printf("The rows are kept in %s.rows (%s), for an ingest of later ones.\n",
               cli_shown(result->store_path), kept);
    if (result->drafted)
        printf("The schema was drafted: 'weir schema' prints it for you to edit, 'weir schema --explain' "
               "says why it is "
               "so.\n");
}

/* What the base saved, table by table. */
static void print_base(const cli_ingest_job *ingest) {
    weir_cbor_writer told;
    if (cli_ingest_read_base(ingest, &told)) {
        weir_cbor_value tables = weir_cbor_view(told.data), table;
        weir_cbor_iterator it = weir_cbor_children(&tables);
        weir_cbor_value name, reused, read;
        while (weir_cbor_next(&it, NULL, &table))
            if (weir_cbor_get(&table, "table", &name) && weir_cbor_get(&table, "reused", &reused) &&
                weir_cbor_get(&table, "read", &read)) {
                char text[200];
                snprintf(text, sizeof text, "%.*s", (int)(name.number < 200 ? name.number : 199),
                         (const char *)name.data);
                printf("  %s: %s of the base, %" PRIu64 " read from the source\n", cli_shown(text),
                       cli_number(reused.number, "row", "rows"), read.number);
            }
    }
    weir_cbor_release(&told);
}

/* ---- Warnings and notes ---------------------------------------------------------------------- */

void cli_ingest_print_warnings(const cli_ingest_job *ingest) {
    for (size_t i = 0; i < ingest->warning_count; i++)
        if (!ingest->warnings[i].is_note)
            printf("WARNING: %s (%s)\n", cli_shown(ingest->warnings[i].message), ingest->warnings[i].code);
    for (size_t i = 0; i < ingest->warning_count; i++)
        if (ingest->warnings[i].is_note)
            printf("  note: %s\n", cli_shown(ingest->warnings[i].message));
}

/* What a person should look at: columns that are all null, values that are not finite, keys without a match.
 */
static void print_notes(const weir_store_info *info) {
    for (uint32_t c = 0; c < info->table_column_count; c++) {
        const weir_column *column = &info->columns[c];
        const weir_table *table = &info->tables[column->table];
        if (column->nulls == table->row_count && table->row_count > 0)
            printf("  note: %s.%s is always null\n", cli_shown(table->name), cli_shown(column->name));
        if (column->not_finite > 0)
            printf("  note: %s.%s has %s not finite, counted as null\n", cli_shown(table->name),
                   cli_shown(column->name),
                   cli_number(column->not_finite, "value that is", "values that are"));
    }
    for (uint32_t e = 0; e < info->edge_count; e++) {
        uint64_t dangling = info->edges[e].dangling;
        if (dangling > 0)
            printf("  note: %s of %s.%s match%s no row of %s\n", cli_number(dangling, "value", "values"),
                   cli_shown(info->tables[info->edges[e].table].name), cli_shown(info->edges[e].name),
                   dangling == 1 ? "es" : "", cli_shown(info->tables[info->edges[e].parent_table].name));
    }
}

/* Prints a heading before the first line below it only. */
static void begin_list(bool *is_begun, const char *heading) {
    if (!*is_begun)
        printf("\n%s\n", heading);
    *is_begun = true;
}

static void print_time_rules(const weir_store *store) {
    const weir_store_info *info = weir_store_describe(store);
    char time[512];
    const char *heading = "What is known when:";
    bool is_begun = false;
    for (uint32_t t = 0; t < info->table_count; t++) {
        if (info->tables[t].temporal_time == WEIR_NONE)
            continue;
        begin_list(&is_begun, heading);
        weir_store_time_text(store, t, info->tables[t].temporal_time, time, sizeof time);
        printf("  rows of %s are shown from %s on\n", cli_shown(info->tables[t].name), cli_shown(time));
    }
    for (uint32_t c = 0; c < info->table_column_count; c++) {
        const weir_column *column = &info->columns[c];
        if (column->known_slot == WEIR_NONE)
            continue;
        begin_list(&is_begun, heading);
        snprintf(time, sizeof time, "its own time");
        if (column->known_time != WEIR_NONE)
            weir_store_time_text(store, column->table, column->known_time, time, sizeof time);
        else if (column->known_at != c)
            snprintf(time, sizeof time, "%s", info->columns[column->known_at].name);
        printf("  %s.%s is shown from %s on\n", cli_shown(info->tables[column->table].name),
               cli_shown(column->name), cli_shown(time));
    }
}

static void format_date(int64_t micros, char out[40]) {
    weir_timestamp_format(micros, out);
    char *end = strchr(out, 'T');
    if (end)
        *end = 0;
}

static void print_tables(const weir_store_info *info, const weir_report_view *view) {
    int width = 5;
    for (uint32_t t = 0; t < info->table_count; t++) {
        int length = (int)strlen(info->tables[t].name);
        width = length > width ? length : width;
    }
    width = width < NAME_MAX_WIDTH ? width : NAME_MAX_WIDTH;
    printf("\n  %-*s %10s  %-*s %-*s %14s\n", width, "table", "rows", DATE_SIZE, "from", DATE_SIZE, "to",
           "without parent");
    for (uint32_t t = 0; t < view->table_count; t++) {
        const weir_report_table *table = &view->tables[t];
        const weir_table *of = &info->tables[table->table];
        char first[40] = "no time:", last[40] = "always", parents[32] = "";
        if (table->timed > 0) {
            format_date(table->first, first);
            format_date(table->last, last);
        }
        if (of->edge_count > 0 && of->row_count > 0)
            snprintf(parents, sizeof parents, "%.1f %%", 100.0 * (double)table->unlinked / of->row_count);
        printf("  %-*.*s %10u  %-*s %-*s %14s", width, NAME_MAX_WIDTH, cli_shown(of->name), of->row_count,
               DATE_SIZE, first, DATE_SIZE, last, parents);
        if (table->timed > 0 && table->timed < of->row_count)
            printf("  %u without a time", of->row_count - (uint32_t)table->timed);
        if (!table->is_reached && info->task_count > 0)
            printf("  not reached");
        printf("\n");
    }
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static void print_labels(const weir_store *store, const weir_task *of, const weir_report_task *task,
                         int split) {
    const weir_report_labels *labels = &task->splits[split];
    printf("%s%" PRIu64 " %s", split ? ", " : "", labels->seeds, weir_split_name((weir_split)split));
    if (labels->seeds == labels->nulls || of->link.is_link)
        return;
    weir_value kind = weir_value_of(of->stype);
    if (kind == WEIR_VALUE_TRUTH) {
        printf(" (%.1f %% true)", 100 * labels->mean);
    } else if (kind == WEIR_VALUE_NUMBER) {
        printf(" (mean %.4g)", labels->mean);
    } else if (kind == WEIR_VALUE_CATEGORY && task->class_count > 0) {
        weir_text text = weir_store_category(store, task->classes[0].category);
        char name[24];
        snprintf(name, sizeof name, "%.*s", (int)cli_cut(text.data, text.size, 20), text.data);
        printf(" (%s: %.1f %%)", text.size > 0 ? cli_shown(name) : "(empty)", 100 * labels->mean);
    }
}

static void print_task(const weir_store *store, const weir_report_task *task) {
    const weir_store_info *info = weir_store_describe(store);
    const weir_task *of = &info->tasks[task->task];
    printf("  %s: ", cli_shown(of->name));
    for (int split = 0; split < WEIR_SPLITS; split++)
        print_labels(store, of, task, split);
    if (of->link.is_link)
        printf(" pairs, in %s", cli_number(of->link.lists, "list", "lists"));
    if (of->dropped > 0)
        printf(" (%" PRIu64 " dropped, without a row to %s)", of->dropped,
               of->link.is_link ? "link from or to" : "anchor at");
    if (task->sequences > 0)
        printf("\n    a typical sequence has %s of %s; time hides %.0f %% of their children",
               cli_number(task->cells, "cell", "cells"), cli_number(task->rows, "row", "rows"),
               100 * task->hidden);
    printf("\n");
}

int cli_ingest_print(const cli_ingest_job *ingest) {
    const weir_ingest_report *result = &ingest->result;
    const weir_report_view *view = weir_report_look(ingest->report);
    const weir_store *store = ingest->store;
    const weir_store_info *info = weir_store_describe(store);
    print_summary(result);
    print_base(ingest);
    cli_ingest_print_warnings(ingest);
    if (result->ignored_columns > 0)
        printf("  note: %s of the source %s ignored\n",
               cli_number(result->ignored_columns, "column", "columns"),
               result->ignored_columns == 1 ? "is" : "are");
    print_notes(info);
    print_tables(info, view);
    print_time_rules(store);
    if (view->task_count > 0)
        printf("\nSeeds of the tasks:\n");
    for (uint32_t i = 0; i < view->task_count; i++)
        print_task(store, &view->tasks[i]);
    printf("\n%s names the datasets\n", cli_shown(result->manifest_path));
    if (ingest->page)
        printf("%s shows all of this\n", cli_shown(ingest->page));
    return cli_flush();
}
