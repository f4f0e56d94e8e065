/* Ingest from beginning to end: opens the source, gets the schema, makes one stage of the other (stages.h),
 * and frees them. Nothing is on disk but temporary files until the store takes its name. */
#include <stdio.h>
#include <string.h>

#include "base/floating.h"
#include "base/options.h"
#include "ingest/base_rows.h"
#include "ingest/draft.h"
#include "ingest/kept_rows.h"
#include "ingest/like.h"
#include "store/writer.h"
#include "weir_tool/ingest_tools.h"

/* What lasts from beginning to end. */
typedef struct ingest_run {
    weir_ingest__context context;
    weir__arena arena; /* of what is said of the source */
    weir_ingest__csv_settings csv;
    weir_ingest__source_options source;
    weir_ingest__catalog catalog;
    weir_ingest__schema schema;
    weir_ingest__like like;
    weir_ingest__base *base;
    weir_ingest__plan plan;
    weir_ingest__description description;
} ingest_run;

/* ---- Warnings -------------------------------------------------------------------------------- */

/* What can be said before anything is read. */
static void warn_early(ingest_run *ingest) {
    const weir_ingest__catalog *catalog = &ingest->catalog;
    char names[600] = "";
    for (uint32_t i = 0; i < catalog->skipped_count && strlen(names) < 400; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%.100s", i ? ", " : "",
                 weir_ingest__last_name(catalog->skipped[i]));
    }
    if (catalog->skipped_count > 0)
        weir_ingest__warn(
            &ingest->context, "skipped_files", NULL, NULL, NULL,
            "%u file%s of the source %s not read (%s%s): what weir reads ends in .csv, .tsv, .tab, "
            "each also with "
            ".gz, or in .parquet",
            catalog->skipped_count, catalog->skipped_count == 1 ? "" : "s",
            catalog->skipped_count == 1 ? "is" : "are", names, strlen(names) < 400 ? "" : ", …");
    for (uint32_t i = 0; i < ingest->schema.task_count; i++) {
        const weir_ingest__schema_task *task = &ingest->schema.tasks[i];
        if (task->split.method == WEIR_INGEST__SPLIT_TEMPORAL && task->split.val > task->split.test)
            weir_ingest__warn(
                &ingest->context, "val_after_test", NULL, NULL, task->name,
                "the split of task %s has val after test: val is where validation begins, test where "
                "the test "
                "begins, so nothing can be in between",
                task->name);
    }
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static weir_status open_sessions(ingest_run *ingest, weir_error *error) {
    weir_ingest__source *first;
    WEIR__TRY(weir_ingest__source_open(ingest->context.env, &ingest->source, &first, error));
    if (ingest->context.options->silence_s > 0)
        first->silence_ns = ingest->context.options->silence_s * UINT64_C(1000000000);
    weir_ingest__context_add_session(&ingest->context, first);
    const weir_ingest__source_kind *kind = ingest->context.sessions[0]->kind;
    while (kind->fork && ingest->context.session_count < ingest->context.threads) {
        weir_ingest__source *session = NULL;
        WEIR__TRY(kind->fork(ingest->context.sessions[0], &session, error));
        if (!session)
            break;
        weir_ingest__context_add_session(&ingest->context, session);
    }
    return WEIR_OK;
}

/* The names between the commas of "sales,public". */
static weir_status split_search_path(ingest_run *ingest, const char *text, weir_error *error) {
    size_t count = 1;
    for (const char *at = text; (at = strchr(at, ',')) != NULL; at++)
        count++;
    const char **names = weir__arena_take_zero(&ingest->arena, count, sizeof *names);
    for (size_t i = 0; i < count && names; i++) {
        size_t size = strcspn(text, ",");
        names[i] = weir__arena_text(&ingest->arena, text, size);
        if (!names[i])
            names = NULL;
        text += size + 1;
    }
    if (!names)
        return weir_ingest__no_memory(error, count * sizeof *names);
    ingest->source.search_path = names;
    ingest->source.search_path_count = WEIR__NARROW(uint32_t, count);
    return WEIR_OK;
}

/* What is said of CSV files, on the command line and in the schema. */
static weir_status prepare_csv(ingest_run *ingest, weir_error *error) {
    const weir_csv_options *given = &ingest->context.options->csv;
    weir_ingest__csv_options *line = &ingest->csv.line;
    const weir_ingest__schema *schema = &ingest->schema;
    *line = (weir_ingest__csv_options){.nulls = given->nulls,
                                       .null_count = given->null_count,
                                       .says_nulls = given->null_count > 0,
                                       .says_delimiter = given->delimiter != NULL,
                                       .says_quote = given->quote != NULL,
                                       .says_header = given->header != 0,
                                       .has_header = given->header > 0};
    if (given->delimiter &&
        !weir_ingest__csv_read_delimiter(given->delimiter, strlen(given->delimiter), &line->delimiter))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR,
                          "the delimiter must be one ASCII character, or \\t for a tab");
    if (given->quote && !weir_ingest__csv_read_quote(given->quote, strlen(given->quote), &line->quote))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR,
                          "the quote must be one ASCII character, or empty for none");
    weir_ingest__csv_table_options *tables =
        weir__arena_take_zero(&ingest->arena, schema->table_count, sizeof *tables);
    if (!tables)
        return weir_ingest__no_memory(error, schema->table_count * sizeof *tables);
    for (uint32_t t = 0; t < schema->table_count; t++)
        tables[t] = (weir_ingest__csv_table_options){schema->tables[t].name, schema->tables[t].csv};
    ingest->csv.schema = schema->csv;
    ingest->csv.tables = tables;
    ingest->csv.table_count = schema->table_count;
    ingest->csv.has_schema = schema->table_count > 0;
    return WEIR_OK;
}

/* CSV options need CSV files. */
static weir_status check_csv(const ingest_run *ingest, weir_error *error) {
    const weir_ingest__csv_options *line = &ingest->csv.line;
    char shown[400];
    bool has_csv = false;
    weir_location_text(ingest->context.options->source ? ingest->context.options->source : "the source",
                       shown, sizeof shown);
    for (uint32_t t = 0; t < ingest->catalog.table_count; t++)
        has_csv = has_csv || ingest->catalog.tables[t].csv;
    if ((line->says_nulls || line->says_delimiter || line->says_quote || line->says_header) && !has_csv)
        return weir__fail(
            error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR,
            "%s is not made of CSV files, but options for them are given (null, delimiter, quote, header)",
            shown);
    for (uint32_t t = 0; t < ingest->schema.table_count; t++) {
        const weir_ingest__schema_table *table = &ingest->schema.tables[t];
        const weir_ingest__catalog_table *found = NULL;
        for (uint32_t i = 0; i < ingest->catalog.table_count && !found; i++)
            if (strcmp(ingest->catalog.tables[i].name, table->name) == 0)
                found = &ingest->catalog.tables[i];
        if (table->has_csv && (!found || !found->csv))
            return weir_ingest__plan_refuse(error, WEIR_SCHEMA_INVALID,
                                            "stands in a table that is not made of CSV files",
                                            "$.tables.%s.csv", table->name);
    }
    return WEIR_OK;
}

/* Whether every table is scanned once: a draft looks at the rows before they are read, and queries load the
 * tables that they name. */
static bool reads_once(const ingest_run *ingest) {
    const weir_ingest__schema *schema = &ingest->schema;
    bool has_query = false;
    for (uint32_t t = 0; t < schema->table_count; t++)
        has_query = has_query || schema->tables[t].query;
    for (uint32_t i = 0; i < schema->task_count; i++)
        has_query = has_query || schema->tasks[i].query;
    return schema->table_count > 0 && !has_query;
}

static weir_status begin(ingest_run *ingest, bool reads_schema, weir_error *error) {
    enum { LEAST_MEMORY = 128 << 20 }; /* with less, DuckDB reads no Parquet */
    const weir_ingest_options *options = ingest->context.options;
    bool has_tables = options->arrow_table_count > 0;
    uint64_t share = options->memory / 4 < LEAST_MEMORY ? LEAST_MEMORY : options->memory / 4;
    if (!options->source == !has_tables)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR, "%s",
                          has_tables ? "both a source and Arrow tables are given" : "no source is given");
    WEIR__TRY(weir_ingest__check_preset(options->preset, error));
    WEIR__TRY(weir_ingest__like_open(&ingest->context, &ingest->like, error));
    WEIR__TRY(weir_ingest__base_open(&ingest->context, &ingest->base, error));
    /* A schema that is given is read before the source is opened: it may say where names are found. */
    if (reads_schema && options->schema)
        WEIR__TRY(weir_ingest__schema_read(
            &ingest->schema, ingest->context.env, options->schema, options->schema_size,
            options->schema_name ? options->schema_name : "the schema", error));
    ingest->source = (weir_ingest__source_options){.location = options->source,
                                                   .search_path = ingest->schema.search_path,
                                                   .search_path_count = ingest->schema.search_path_count,
                                                   .csv = &ingest->csv,
                                                   .arrow_tables = options->arrow_tables,
                                                   .arrow_table_count = options->arrow_table_count,
                                                   .arrow_is_read_once = reads_once(ingest),
                                                   .memory = options->memory > 0 ? share : 0,
                                                   .is_cancelled = &ingest->context.is_cancelled};
    WEIR__TRY(prepare_csv(ingest, error));
    if (options->search_path)
        WEIR__TRY(split_search_path(ingest, options->search_path, error));
    WEIR__TRY(open_sessions(ingest, error));
    WEIR__TRY(weir_ingest__source_describe(ingest->context.sessions[0], &ingest->catalog, error));
    return check_csv(ingest, error);
}

/* ---- The schema ------------------------------------------------------------------------------ */

static weir_status draft(ingest_run *ingest, weir_bytes *schema, weir_error *error) {
    WEIR__TRY(weir_ingest__catalog_keep_drafted(&ingest->catalog, error));
    return weir_ingest__draft_schema(&ingest->context, &ingest->catalog, &ingest->source, schema, error);
}

/* What is told beside the store is the caller's if all went well. */
static void begin_telling(const weir_ingest_options *options) {
    if (options->reasons)
        *options->reasons = (weir_bytes){0};
    if (options->base_report)
        *options->base_report = (weir_bytes){0};
}

static void end_telling(const weir_ingest_options *options, weir_status status) {
    if (options->reasons && status != WEIR_OK)
        weir_bytes_release(options->reasons);
    if (options->base_report && status != WEIR_OK)
        weir_bytes_release(options->base_report);
}

/* ---- Everything ------------------------------------------------------------------------------ */

/* The stages that have rows. */
typedef struct row_stages {
    weir_ingest__parts parts;
    weir_ingest__ordered ordered;
    weir_ingest__linked linked;
    weir_ingest__tasks tasks;
    weir_ingest__statistics statistics;
} row_stages;

/* Counts the time of a phase that has ended, and begins the next; an ingest that was cancelled ends here. */
static weir_status end_phase(const weir_ingest__context *context, weir_status status, uint64_t *began,
                             uint64_t *spent, weir_error *error) {
    uint64_t now = context->env->now_ns(context->env->context);
    *spent += now - *began;
    *began = now;
    bool is_cancelled = atomic_load_explicit(&context->is_cancelled, memory_order_relaxed);
    return status == WEIR_OK && is_cancelled ? weir_ingest__cancelled(error) : status;
}

static weir_status run_phases(ingest_run *ingest, weir_ingest__keeper *keeper, row_stages *stages,
                              weir_ingest_report *report, weir_error *error) {
    weir_ingest__context *context = &ingest->context;
    uint64_t began = context->env->now_ns(context->env->context);
    weir_status status =
        weir_ingest__read_rows(context, &ingest->plan, ingest->base, keeper, &stages->parts, error);
    WEIR__TRY(end_phase(context, status, &began, &report->read_ns, error));
    status = weir_ingest__order_rows(context, &stages->parts, &stages->ordered, error);
    WEIR__TRY(end_phase(context, status, &began, &report->order_ns, error));
    status = weir_ingest__link_rows(context, &stages->ordered, &stages->linked, error);
    if (status == WEIR_OK)
        weir_ingest__ordered_drop_foreign_keys(&stages->ordered);
    WEIR__TRY(end_phase(context, status, &began, &report->match_ns, error));
    status = weir_ingest__make_tasks(context, &stages->linked, &stages->tasks, error);
    WEIR__TRY(end_phase(context, status, &began, &report->tasks_ns, error));
    status = weir_ingest__make_statistics(context, &stages->tasks, &stages->statistics, error);
    return end_phase(context, status, &began, &report->order_ns, error);
}

/* A whole store under its temporary name, looked at by whoever wants to. */
static weir_status make_store(ingest_run *ingest, weir_ingest__keeper *keeper, weir_store__writer *store,
                              weir_ingest_report *report, weir_error *error) {
    weir_ingest__context *context = &ingest->context;
    const weir_ingest_options *options = context->options;
    row_stages stages = {0};
    weir_status status = run_phases(ingest, keeper, &stages, report, error);
    /* Beside those of columns, which are the store's. */
    for (uint32_t i = 0; i < ingest->plan.task_count && status == WEIR_OK; i++)
        report->not_finite += stages.tasks.list[i].not_finite;
    if (status == WEIR_OK)
        status = weir_ingest__like_report(context, &stages.tasks, error);
    if (status == WEIR_OK)
        status = weir_ingest__warn_of_times(context, &stages.tasks, &stages.statistics, error);
    if (status == WEIR_OK) {
        weir_ingest__describe_rows(&ingest->description, &stages.tasks, &stages.statistics);
        store->in_pieces = weir__spill_is_used(context->spill);
        status = weir_ingest__write_store(context, &stages.tasks, &ingest->description, store, report, error);
    }
    /* All is in the file: who inspects it has the memory. */
    weir_ingest__statistics_release(&stages.statistics);
    weir_ingest__tasks_release(&stages.tasks);
    weir_ingest__linked_release(&stages.linked);
    weir_ingest__ordered_release(&stages.ordered);
    weir_ingest__parts_release(&stages.parts);
    if (status == WEIR_OK && options->inspect)
        status = options->inspect(options->inspect_context, store->file.temporary, weir_ingest__tell, context,
                                  error);
    WEIR__TRY(status);
    if (!context->options->strict || context->warning_count == 0)
        return WEIR_OK;
    return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                      "%u warning%s, which strict makes errors; the first is %s", context->warning_count,
                      context->warning_count == 1 ? "" : "s", context->first_warning);
}

/* Both files are open, and so locked, before a row is read: another ingest into them is refused at once, a
 * folder that cannot be written is found out before the work, and if no manifest can be written there is no
 * new store either. The store takes its name, then the list of kept rows, then the manifest; their texts, and
 * what is told, are ready by then. */
static weir_status read_and_write(ingest_run *ingest, weir_ingest_report *report, weir_error *error) {
    const weir_ingest__context *context = &ingest->context;
    const weir_store_info *info = &ingest->description.info;
    weir__atomic_file manifest;
    weir_store__writer store;
    weir_ingest__keeper *keeper = NULL;
    weir_bytes text = {0};
    WEIR__TRY(
        weir__atomic_open(&manifest, context->env, report->manifest_path, WEIR_INGEST__OPERATOR, error));
    weir_status status = weir_store__writer_open(&store, context->env, report->store_path, error);
    if (status != WEIR_OK) {
        weir__atomic_abandon(&manifest);
        return status;
    }
    status = weir_ingest__keep_open(context, report->store_path, &keeper, error);
    if (status == WEIR_OK)
        status = make_store(ingest, keeper, &store, report, error);
    if (status == WEIR_OK)
        status = weir_ingest__prepare_manifest(&ingest->context, info, report->store_path,
                                               report->manifest_path, &text, &report->manifest_kept, error);
    if (status == WEIR_OK && !report->manifest_kept)
        status = weir__atomic_write(&manifest, text.data, text.size, error);
    if (status == WEIR_OK)
        status = weir_ingest__base_tell(ingest->base, context, info, error);
    if (status == WEIR_OK)
        status = weir_ingest__keep_prepare(keeper, ingest->base, ingest->catalog.name, info, error);
    if (status == WEIR_OK)
        status = weir_store__writer_commit(&store, error);
    else
        weir_store__writer_abandon(&store);
    if (status == WEIR_OK)
        status = weir_ingest__keep_commit(keeper, error);
    if (status == WEIR_OK && !report->manifest_kept)
        status = weir__atomic_commit(&manifest, error);
    if (status != WEIR_OK || report->manifest_kept)
        weir__atomic_abandon(&manifest);
    weir_bytes_release(&text);
    report->kept_bytes = weir_ingest__keep_bytes(keeper);
    weir_ingest__keep_close(keeper);
    return status;
}

static weir_status run(ingest_run *ingest, weir_ingest_report *report, weir_error *error) {
    weir_ingest__context *context = &ingest->context;
    const weir_env *env = context->env;
    if (!context->options->schema) {
        weir_bytes text; /* a draft, which is read as a schema */
        WEIR__TRY(draft(ingest, &text, error));
        weir_status status = weir_ingest__schema_read(&ingest->schema, ingest->context.env, text.data,
                                                      text.size, "the drafted schema", error);
        weir_bytes_release(&text);
        WEIR__TRY(status);
    }
    WEIR__TRY(weir_ingest__like_trim(context, &ingest->like, &ingest->schema, error));
    WEIR__TRY(weir_ingest__complete_catalog(context, &ingest->schema, &ingest->catalog, error));
    WEIR__TRY(
        weir_ingest__plan_make(env, &ingest->schema, &ingest->catalog, &ingest->like, &ingest->plan, error));
    WEIR__TRY(weir_ingest__describe_store(env, &ingest->plan, &ingest->description, error));
    WEIR__TRY(weir_ingest__like_check(&ingest->like, &ingest->description, error));
    WEIR__TRY(weir_ingest__base_plan(ingest->base, context, &ingest->plan, error));
    WEIR__TRY(
        weir_ingest__choose_targets(env, context->options, ingest->description.info.name, report, error));
    WEIR__TRY(weir__spill_place(context->spill, report->store_path, error));
    warn_early(ingest);
    WEIR__TRY(read_and_write(ingest, report, error));
    const weir_store_info *info = &ingest->description.info;
    memcpy(report->store_hash, info->store_hash, WEIR_HASH_SIZE);
    report->drafted = ingest->context.options->schema == NULL;
    report->tables = info->table_count;
    report->rows = info->row_count;
    report->texts = info->text_count;
    report->source_bytes = ingest->catalog.size_bytes;
    for (uint32_t t = 0; t < info->table_count; t++)
        report->ignored_columns +=
            ingest->plan.tables[t].source->column_count - ingest->plan.tables[t].column_count;
    for (uint32_t e = 0; e < info->edge_count; e++) {
        report->edges += info->edges[e].edges;
        report->dangling += info->edges[e].dangling;
    }
    for (uint32_t c = 0; c < info->table_column_count; c++)
        report->not_finite += info->columns[c].not_finite;
    for (uint32_t i = 0; i < info->task_count; i++) {
        report->seeds += info->tasks[i].seed_count;
        report->dropped_seeds += info->tasks[i].dropped;
    }
    report->warnings = ingest->context.warning_count;
    report->total_ns = ingest->context.env->now_ns(ingest->context.env->context) - ingest->context.started_ns;
    return WEIR_OK;
}

typedef struct ingest_work {
    ingest_run *ingest;
    weir_ingest_report *report; /* NULL: a schema is drafted, and nothing is written */
    weir_bytes *schema;
    weir_status status;
    weir_error *error;
} ingest_work;

static void do_work(void *argument) {
    ingest_work *work = argument;
    work->status = begin(work->ingest, work->report != NULL, work->error);
    if (work->status == WEIR_OK)
        work->status = work->report ? run(work->ingest, work->report, work->error)
                                    : draft(work->ingest, work->schema, work->error);
    ingest_run *ingest = work->ingest;
    weir_ingest__description_release(&ingest->description);
    weir_ingest__plan_release(&ingest->plan);
    if (ingest->schema.document.env)
        weir_ingest__schema_release(&ingest->schema);
    weir_ingest__catalog_release(&ingest->catalog);
    weir_ingest__context_close_sessions(&ingest->context);
    weir_ingest__base_close(ingest->base);
    weir_store_close(ingest->like.store);
    weir__arena_release(&ingest->arena);
}

/* Ingests, or drafts a schema, while the caller is told how it goes. `spill` is NULL for a draft. */
static __attribute__((noinline)) weir_status run_watched(const weir_env *env, weir__spill *spill,
                                                         const weir_ingest_options *options,
                                                         weir_ingest_report *report, weir_bytes *schema,
                                                         weir_error *error) {
    const weir_env *own = spill ? weir__spill_env(spill) : env;
    ingest_run *ingest = weir__allocate_zero(env, 1, sizeof *ingest);
    if (!ingest)
        return weir_ingest__no_memory(error, sizeof *ingest);
    ingest_work work = {.ingest = ingest, .report = report, .schema = schema, .error = error};
    weir_ingest__context_init(&ingest->context, own, env, spill, options);
    weir__arena_init(&ingest->arena, own);
    weir__arena_init(&ingest->schema.arena, own);
    weir_ingest__watch(&ingest->context, do_work, &work);
    weir_status status = work.status;
    if (status != WEIR_OK && atomic_load(&ingest->context.is_cancelled))
        status = weir_ingest__cancelled(error); /* what an interrupted source says is not what happened */
    if (spill)
        status = weir__spill_explain(spill, status, error);
    weir_ingest__context_release(&ingest->context);
    weir__release(env, ingest);
    return status;
}

weir_status weir_schema_draft(const weir_env *env, const weir_ingest_options *given, weir_bytes *schema,
                              weir_error *error) {
    weir_ingest_options options;
    *schema = (weir_bytes){0};
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_ingest_options, WEIR_INGEST__OPERATOR, error));
    begin_telling(&options);
    weir__floating kept = weir__enter_floating();
    weir_status status = run_watched(weir__env_or_default(env), NULL, &options, NULL, schema, error);
    weir__leave_floating(&kept);
    if (status != WEIR_OK)
        weir_bytes_release(schema);
    end_telling(&options, status);
    return status;
}

/* Threads, DuckDB's too, begin with the floating-point state of their starter. */
weir_status weir_ingest(const weir_env *env, const weir_ingest_options *given, weir_ingest_report *report,
                        weir_error *error) {
    weir_ingest_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_ingest_options, WEIR_INGEST__OPERATOR, error));
    begin_telling(&options);
    if (options.memory > 0 && options.memory < WEIR_INGEST_MEMORY_LEAST)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR,
                          "memory is %llu bytes, but must be at least 64 MiB, or 0 for half of what there is",
                          (unsigned long long)options.memory);
    if (options.format > WEIR_STORE__VERSION_MOST)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR,
                          "there is no format %u of stores; 0 is the least that the rows need, 2 the latest",
                          options.format);
    env = weir__env_or_default(env);
    weir_ingest_report *own = weir__allocate_zero(env, 1, sizeof *own);
    weir__spill *spill = NULL;
    if (!own)
        return weir_ingest__no_memory(error, sizeof *own);
    uint64_t memory = options.memory ? options.memory : env->memory_size(env->context) / 2;
    weir_status status = weir__spill_open(&spill, env, memory, WEIR_INGEST__OPERATOR, error);
    weir__floating kept = weir__enter_floating();
    if (status == WEIR_OK)
        status = run_watched(env, spill, &options, own, NULL, error);
    weir__leave_floating(&kept);
    if (status == WEIR_OK)
        own->spilled_bytes = weir__spill_peak(spill);
    if (status == WEIR_OK && report)
        *report = *own;
    weir__spill_close(spill);
    weir__release(env, own);
    end_telling(&options, status);
    return status;
}
