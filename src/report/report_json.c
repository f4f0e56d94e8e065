/* A report as JSON: what the program prints with --json, and what its page shows. */
#include <math.h>

#include "report/report.h"
#include "weir_tool/report_tools.h"
#include "weir_tool/store_tools.h"

static void put_time(weir_json_writer *w, const char *key, int64_t micros) {
    char text[40];
    weir_timestamp_format(micros, text);
    weir_json_pair_text(w, key, text);
}

static void put_table(const weir_store *store, const weir_report_table *table, weir_json_writer *w) {
    const weir_store_info *info = weir_store_describe(store);
    const weir_table *of = &info->tables[table->table];
    weir_json_object(w);
    weir_json_pair_text(w, "name", of->name);
    weir_json_pair_uint(w, "rows", of->row_count);
    char path[512];
    if (of->temporal_column != WEIR_NONE) {
        weir_json_pair_text(w, "time", info->columns[of->temporal_column].name);
    } else if (of->temporal_time != WEIR_NONE) {
        weir_store_time_text(store, table->table, of->temporal_time, path, sizeof path);
        weir_json_pair_text(w, "time", path);
    }
    weir_json_pair_uint(w, "timed", table->timed);
    if (table->timed > 0) {
        put_time(w, "first", table->first);
        put_time(w, "last", table->last);
        put_time(w, "early", table->early);
        put_time(w, "late", table->late);
    }
    weir_json_pair_uint(w, "unlinked", table->unlinked);
    weir_json_pair_uint(w, "dangling", table->dangling);
    weir_json_pair_bool(w, "reached", table->is_reached);
    weir_json_pair_array(w, "foreign_keys");
    for (uint32_t e = of->edge_start; e < of->edge_start + of->edge_count; e++) {
        weir_json_object(w);
        weir_json_pair_text(w, "name", info->edges[e].name);
        weir_json_pair_text(w, "to", info->tables[info->edges[e].parent_table].name);
        weir_json_pair_uint(w, "edges", info->edges[e].edges);
        weir_json_pair_uint(w, "dangling", info->edges[e].dangling);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
    weir_json_pair_array(w, "columns");
    for (uint32_t c = 0; c < of->column_count; c++) {
        const weir_column *column = &info->columns[of->column_start + c];
        weir_json_object(w);
        weir_json_pair_text(w, "name", column->name);
        weir_json_pair_text(w, "stype", weir_stype_name(column->stype));
        weir_json_pair_uint(w, "nulls", column->nulls);
        if (weir_value_of(column->stype) == WEIR_VALUE_NUMBER) {
            weir_json_pair_double(w, "mean", column->statistics.mean);
            weir_json_pair_double(w, "std", column->statistics.std);
        }
        if (weir_value_of(column->stype) == WEIR_VALUE_CATEGORY)
            weir_json_pair_uint(w, "categories", column->category_count);
        if (column->known_time != WEIR_NONE) {
            weir_store_time_text(store, column->table, column->known_time, path, sizeof path);
            weir_json_pair_text(w, "shown_from", path);
        } else if (column->known_slot != WEIR_NONE) {
            weir_json_pair_text(w, "shown_from", info->columns[column->known_at].name);
        }
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
    weir_json_end_object(w);
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static void put_splits(const weir_report_task *task, weir_stype stype, weir_json_writer *w) {
    weir_json_pair_object(w, "splits");
    for (int split = 0; split < WEIR_SPLITS; split++) {
        const weir_report_labels *labels = &task->splits[split];
        weir_json_key(w, weir_split_name((weir_split)split));
        weir_json_object(w);
        weir_json_pair_uint(w, "seeds", labels->seeds);
        weir_json_pair_uint(w, "nulls", labels->nulls);
        if (labels->seeds > labels->nulls && weir_value_of(stype) == WEIR_VALUE_TIME) {
            put_time(w, "least", (int64_t)labels->least);
            put_time(w, "most", (int64_t)labels->most);
        } else if (labels->seeds > labels->nulls) {
            weir_json_pair_double(w, "mean", labels->mean);
            if (weir_value_of(stype) == WEIR_VALUE_NUMBER) {
                weir_json_pair_double(w, "std", labels->std);
                weir_json_pair_double(w, "least", labels->least);
                weir_json_pair_double(w, "most", labels->most);
            }
        }
        if (weir_report__has_classes(stype))
            weir_json_pair_uint(w, "classes", labels->classes);
        weir_json_end_object(w);
    }
    weir_json_end_object(w);
}

static void put_seeds(const char *key, const uint64_t *seeds, weir_json_writer *w) {
    weir_json_pair_array(w, key);
    for (int split = 0; split < WEIR_SPLITS; split++)
        weir_json_uint(w, seeds[split]);
    weir_json_end_array(w);
}

static void put_classes(const weir_store *store, const weir_report_task *task, weir_stype stype,
                        weir_json_writer *w) {
    if (task->class_count == 0)
        return;
    weir_json_pair_array(w, "classes");
    for (uint32_t i = 0; i < task->class_count; i++) {
        const weir_report_class *class = &task->classes[i];
        weir_json_object(w);
        weir_json_key(w, "name");
        if (weir_value_of(stype) == WEIR_VALUE_TRUTH) {
            weir_json_text(w, class->category ? "true" : "false");
        } else {
            weir_text text = weir_store_category(store, class->category);
            weir_json_text_n(w, text.data, text.size);
        }
        put_seeds("seeds", class->seeds, w);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
}

static void put_task(const weir_store *store, const weir_report_task *task, weir_json_writer *w) {
    const weir_store_info *info = weir_store_describe(store);
    const weir_task *of = &info->tasks[task->task];
    weir_json_object(w);
    weir_json_pair_text(w, "name", of->name);
    weir_json_pair_text(w, "kind", weir_task_kind(of));
    weir_json_pair_text(w, "anchor_table", info->tables[of->anchor_table].name);
    weir_json_pair_text(w, "target", of->target_column);
    weir_json_pair_text(w, "stype", weir_stype_name(of->stype));
    weir_json_pair_uint(w, "seeds", of->seed_count);
    weir_json_pair_uint(w, "dropped", of->dropped);
    put_splits(task, of->stype, w);
    put_classes(store, task, of->stype, w);
    if (of->seed_count > task->see_everything) {
        put_time(w, "first", task->first);
        put_time(w, "last", task->last);
    }
    weir_json_pair_uint(w, "see_everything", task->see_everything);
    weir_json_pair_uint(w, "before_data", task->before_data);
    weir_json_pair_uint(w, "conflicts", task->conflicts);
    if (task->bin_count > 0) {
        weir_json_pair_array(w, "over_time");
        for (uint32_t b = 0; b < task->bin_count; b++) {
            weir_json_object(w);
            put_time(w, "from", task->bins[b].from);
            put_seeds("seeds", task->bins[b].seeds, w);
            if (!isnan(task->bins[b].mean))
                weir_json_pair_double(w, "mean", task->bins[b].mean);
            weir_json_end_object(w);
        }
        weir_json_end_array(w);
    }
    weir_json_pair_object(w, "sequence");
    weir_json_pair_uint(w, "looked_at", task->sequences);
    weir_json_pair_uint(w, "cells", task->cells);
    weir_json_pair_uint(w, "rows", task->rows);
    weir_json_pair_double(w, "hidden", task->hidden);
    weir_json_end_object(w);
    weir_json_pair_array(w, "suspects");
    for (uint32_t i = 0; i < task->suspect_count; i++) {
        weir_json_object(w);
        weir_json_pair_text(w, "column", weir_report__suspect_name(info, &task->suspects[i]));
        weir_json_pair_double(w, "auc", task->suspects[i].auc);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
    weir_json_end_object(w);
}

void weir_report_json(const weir_report *report, const weir_store *store, weir_json_writer *w) {
    const weir_report_view *view = &report->view;
    weir_json_object(w);
    weir_json_pair_array(w, "warnings");
    for (uint32_t i = 0; i < view->warning_count; i++) {
        const weir_warning *warning = &view->warnings[i];
        weir_json_object(w);
        weir_json_pair_text(w, "code", warning->code);
        if (warning->table)
            weir_json_pair_text(w, "table", warning->table);
        if (warning->column)
            weir_json_pair_text(w, "column", warning->column);
        if (warning->task)
            weir_json_pair_text(w, "task", warning->task);
        weir_json_pair_text(w, "message", warning->message);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
    if (view->first != 0 || view->last != 0) {
        put_time(w, "first", view->first);
        put_time(w, "last", view->last);
    }
    weir_json_pair_array(w, "tables");
    for (uint32_t t = 0; t < view->table_count; t++)
        put_table(store, &view->tables[t], w);
    weir_json_end_array(w);
    weir_json_pair_array(w, "tasks");
    for (uint32_t i = 0; i < view->task_count; i++)
        put_task(store, &view->tasks[i], w);
    weir_json_end_array(w);
    weir_json_end_object(w);
}
