/* See weir/report.h. */
#include "report/report.h"

#include "base/floating.h"

weir_status weir_report__no_memory(const weir_report__work *work, size_t size) {
    return weir__out_of_memory(work->error, WEIR_REPORT__OPERATOR, size);
}

bool weir_report__label(const weir_report__work *work, const weir_task *task, const weir_cell *target,
                        double *out) {
    const weir_column *column = &work->info->columns[task->column];
    if (target->is_null)
        return false;
    if (weir_value_of(task->stype) == WEIR_VALUE_NUMBER)
        *out = (double)target->number * column->statistics.std + column->statistics.mean;
    else if (weir_value_of(task->stype) == WEIR_VALUE_CATEGORY)
        *out = (double)(target->integer - column->category_start);
    else
        *out = (double)target->integer;
    return true;
}

static __attribute__((noinline)) weir_status fill(weir_report__work *work) {
    weir_report *report = work->report;
    const weir_store_info *info = work->info;
    report->tables = weir__arena_take_zero(&report->arena, info->table_count, sizeof *report->tables);
    report->tasks = weir__arena_take_zero(&report->arena, info->task_count, sizeof *report->tasks);
    if (!report->tables || !report->tasks)
        return weir_report__no_memory(work, info->task_count * sizeof *report->tasks);
    report->view = (weir_report_view){.tables = report->tables,
                                      .table_count = info->table_count,
                                      .tasks = report->tasks,
                                      .task_count = info->task_count};
    weir_status status = weir_report__tables(work);
    for (uint32_t i = 0; i < info->task_count && status == WEIR_OK; i++) {
        report->tasks[i].task = i;
        status = weir_report__add_labels(work, i);
        if (status == WEIR_OK)
            status = weir_report__leaks(work, i);
    }
    if (status == WEIR_OK)
        status = weir_report__sequences(work);
    if (status == WEIR_OK)
        status = weir_store_status(work->store, work->error);
    if (status != WEIR_OK)
        return status;
    weir_report__warnings(work);
    report->view.warnings = report->warnings;
    report->view.warning_count = report->warning_count;
    return report->arena.is_short ? weir_report__no_memory(work, 1) : WEIR_OK;
}

weir_status weir_report_open(const weir_env *env, const weir_store *store, weir_report **out,
                             weir_error *error) {
    env = weir__env_or_default(env);
    weir_report *report = weir__allocate_zero(env, 1, sizeof *report);
    if (!report)
        return weir__out_of_memory(error, WEIR_REPORT__OPERATOR, sizeof *report);
    report->env = env;
    weir__arena_init(&report->arena, env);
    weir_report__work work = {
        .report = report, .store = store, .info = weir_store_describe(store), .error = error};
    weir__floating kept = weir__enter_floating();
    weir_status status = fill(&work);
    weir__leave_floating(&kept);
    if (status != WEIR_OK) {
        weir_report_close(report);
        return status;
    }
    *out = report;
    return WEIR_OK;
}

void weir_report_close(weir_report *report) {
    if (!report)
        return;
    const weir_env *env = report->env;
    weir__arena_release(&report->arena);
    weir__release(env, report);
}

const weir_report_view *weir_report_look(const weir_report *report) {
    return &report->view;
}
