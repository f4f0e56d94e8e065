/* Ingest from beginning to end: opens the source, gets the schema, runs the phases (state.h), and frees
 * what they made. Nothing is on disk but temporary files until the store takes its name. */
#include <stdio.h>
#include <string.h>

#include "base/floating.h"
#include "base/options.h"
#include "ingest/base_rows.h"
#include "ingest/kept_rows.h"
#include "ingest/like.h"
#include "store/writer.h"
#include "weir_tool/ingest_tools.h"

/* ---- Warnings -------------------------------------------------------------------------------- */

/* What can be said before anything is read. */
static void warn_early(weir_ingest__ingest *ingest) {
    const weir_ingest__catalog *catalog = &ingest->catalog;
    char names[600] = "";
    for (uint32_t i = 0; i < catalog->skipped_count && strlen(names) < 400; i++) {
        const char *slash = strrchr(catalog->skipped[i], '/');
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%.100s", i ? ", " : "",
                 slash ? slash + 1 : catalog->skipped[i]);
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

/* If warnings are errors: SCHEMA_INVALID with the first of them. */
static weir_status refuse_warnings(const weir_ingest__ingest *ingest, weir_error *error) {
    if (!ingest->context.options->strict || ingest->context.warning_count == 0)
        return WEIR_OK;
    return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                      "%u warning%s, which strict makes errors; the first is %s",
                      ingest->context.warning_count, ingest->context.warning_count == 1 ? "" : "s",
                      ingest->context.first_warning);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static weir_status open_sessions(weir_ingest__ingest *ingest, weir_error *error) {
    weir_ingest__source *first;
    weir_status status = weir_ingest__source_open(ingest->context.env, &ingest->source, &first, error);
    if (status != WEIR_OK)
        return status;
    if (ingest->context.options->silence_s > 0)
        first->silence_ns = ingest->context.options->silence_s * UINT64_C(1000000000);
    weir_ingest__context_add_session(&ingest->context, first);
    const weir_ingest__source_kind *kind = ingest->context.sessions[0]->kind;
    while (kind->fork && ingest->context.session_count < ingest->context.threads) {
        weir_ingest__source *session = NULL;
        status = kind->fork(ingest->context.sessions[0], &session, error);
        if (status != WEIR_OK || !session)
            return status;
        weir_ingest__context_add_session(&ingest->context, session);
    }
    return WEIR_OK;
}

/* The names between the commas of "sales,public". */
static weir_status split_search_path(weir_ingest__ingest *ingest, const char *text, weir_error *error) {
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
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, count * sizeof *names);
    ingest->source.search_path = names;
    ingest->source.search_path_count = WEIR__NARROW(uint32_t, count);
    return WEIR_OK;
}

/* What is said of CSV files, on the command line and in the schema. */
static weir_status prepare_csv(weir_ingest__ingest *ingest, weir_error *error) {
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
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, schema->table_count * sizeof *tables);
    for (uint32_t t = 0; t < schema->table_count; t++)
        tables[t] = (weir_ingest__csv_table_options){schema->tables[t].name, schema->tables[t].csv};
    ingest->csv.schema = schema->csv;
    ingest->csv.tables = tables;
    ingest->csv.table_count = schema->table_count;
    ingest->csv.has_schema = schema->table_count > 0;
    return WEIR_OK;
}

/* CSV options need CSV files. */
static weir_status check_csv(const weir_ingest__ingest *ingest, weir_error *error) {
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
static bool reads_once(const weir_ingest__ingest *ingest) {
    const weir_ingest__schema *schema = &ingest->schema;
    bool has_query = false;
    for (uint32_t t = 0; t < schema->table_count; t++)
        has_query = has_query || schema->tables[t].query;
    for (uint32_t i = 0; i < schema->task_count; i++)
        has_query = has_query || schema->tasks[i].query;
    return schema->table_count > 0 && !has_query;
}

/* A quarter of what is given; with less than this, DuckDB reads no Parquet. */
static uint64_t memory_of_source(const weir_ingest_options *options) {
    enum { LEAST = 128 << 20 };
    return options->memory == 0 ? 0 : options->memory / 4 < LEAST ? LEAST : options->memory / 4;
}

/* A schema that is given is read before the source is opened: it may say where names are found. */
static weir_status prepare_source(weir_ingest__ingest *ingest, bool reads_schema, weir_error *error) {
    const weir_ingest_options *options = ingest->context.options;
    weir_status status = WEIR_OK;
    if (reads_schema && options->schema)
        status = weir_ingest__schema_read(&ingest->schema, ingest->context.env, options->schema,
                                          options->schema_size,
                                          options->schema_name ? options->schema_name : "the schema", error);
    if (status != WEIR_OK)
        return status;
    ingest->source = (weir_ingest__source_options){.location = options->source,
                                                   .search_path = ingest->schema.search_path,
                                                   .search_path_count = ingest->schema.search_path_count,
                                                   .csv = &ingest->csv,
                                                   .arrow_tables = options->arrow_tables,
                                                   .arrow_table_count = options->arrow_table_count,
                                                   .arrow_is_read_once = reads_once(ingest),
                                                   .memory = memory_of_source(options),
                                                   .is_cancelled = &ingest->context.is_cancelled};
    WEIR__TRY(prepare_csv(ingest, error));
    return options->search_path ? split_search_path(ingest, options->search_path, error) : WEIR_OK;
}

static void prepare(weir_ingest__ingest *ingest, const weir_env *env, const weir_env *given_env,
                    weir__spill *spill, const weir_ingest_options *options) {
    memset(ingest, 0, sizeof *ingest);
    weir_ingest__context_init(&ingest->context, env, given_env, spill, options);
    weir__arena_init(&ingest->arena, env);
    weir__arena_init(&ingest->schema.arena, env);
    weir_ingest__dictionary_init(&ingest->texts, env);
}

static weir_status begin(weir_ingest__ingest *ingest, bool reads_schema, weir_error *error) {
    bool has_tables = ingest->context.options->arrow_table_count > 0;
    if (!ingest->context.options->source == !has_tables)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR, "%s",
                          has_tables ? "both a source and Arrow tables are given" : "no source is given");
    WEIR__TRY(weir_ingest__check_preset(ingest->context.options->preset, error));
    WEIR__TRY(weir_ingest__like_open(ingest, error));
    WEIR__TRY(weir_ingest__base_open(ingest, error));
    WEIR__TRY(prepare_source(ingest, reads_schema, error));
    WEIR__TRY(open_sessions(ingest, error));
    WEIR__TRY(
        ingest->context.sessions[0]->kind->describe(ingest->context.sessions[0], &ingest->catalog, error));
    return check_csv(ingest, error);
}

static void release_table(weir_ingest__ingest *ingest, weir_ingest__table_plan *table) {
    const weir_env *env = ingest->context.env;
    for (uint32_t p = 0; table->parts && p < table->part_count; p++) {
        weir_ingest__part_release(env, table, &table->parts[p]);
        table->parts[p].strings.env = env;
        weir__arena_release(&table->parts[p].strings);
    }
    for (uint32_t i = 0; i < table->time_count; i++)
        weir__release(env, table->times[i].values);
    for (uint32_t c = 0; c < table->column_count; c++) {
        if (table->data)
            weir_ingest__column_data_release(env, &table->data[c]);
        if (table->categories)
            weir_ingest__dictionary_release(&table->categories[c]);
        if (table->category_ranks)
            weir__release(env, table->category_ranks[c]);
    }
    weir__release(env, table->row_key_hashes);
}

static void release_edge(const weir_env *env, weir_ingest__edge_plan *edge) {
    weir__release(env, edge->parents);
    weir__release(env, edge->starts);
    weir__release(env, edge->child_rows);
    weir__release(env, edge->child_times);
}

static void release_task(const weir_env *env, weir_ingest__task_plan *task) {
    weir__release(env, task->rows);
    weir__release(env, task->times);
    weir__release(env, task->weights);
    weir__release(env, task->numbers);
    weir__release(env, task->integers);
    weir__release(env, task->nulls);
    weir__release(env, task->category_ranks);
    weir__release(env, task->held_out);
    weir__release(env, task->known);
    for (int i = 0; i < WEIR_STORE__LABEL_LISTS; i++) {
        weir__release(env, task->labels[i].times);
        weir__release(env, task->labels[i].starts);
        weir__release(env, task->labels[i].rows);
    }
    weir__release(env, task->link.rows);
    weir__release(env, task->link.places);
    weir__release(env, task->link.times);
    weir__release(env, task->link.reference_times);
    weir__release(env, task->link.reference_places);
    weir_ingest__dictionary_release(&task->categories);
    weir__arena_release(&task->strings);
}

/* What the phases made; the plan and the store's description stay. */
static void release_rows(weir_ingest__ingest *ingest) {
    const weir_env *env = ingest->context.env;
    if (ingest->has_released_rows)
        return;
    ingest->has_released_rows = true;
    for (uint32_t t = 0; t < ingest->table_count; t++) {
        release_table(ingest, &ingest->tables[t]);
        if (ingest->key_indexes && ingest->key_indexes[t])
            weir_ingest__key_index_release(ingest->key_indexes[t]);
    }
    for (uint32_t e = 0; e < ingest->edge_count; e++)
        release_edge(env, &ingest->edges[e]);
    for (uint32_t i = 0; i < ingest->task_count; i++)
        release_task(env, &ingest->tasks[i]);
    weir_ingest__dictionary_release(&ingest->texts);
    weir__release(env, ingest->text_order);
    weir__release(env, ingest->category_texts);
    weir__release(env, ingest->category_columns);
}

static void end(weir_ingest__ingest *ingest) {
    release_rows(ingest);
    if (ingest->schema.document.env)
        weir_ingest__schema_release(&ingest->schema);
    weir_ingest__catalog_release(&ingest->catalog);
    weir_ingest__context_close_sessions(&ingest->context);
    weir_ingest__base_close(ingest);
    weir_store_close(ingest->like);
    weir__arena_release(&ingest->arena);
}

/* What a source says when it is interrupted is not what happened. */
static weir_status say_if_cancelled(const weir_ingest__ingest *ingest, weir_status status,
                                    weir_error *error) {
    return status != WEIR_OK && atomic_load(&ingest->context.is_cancelled) ? weir_ingest__cancelled(error)
                                                                           : status;
}

/* ---- The schema ------------------------------------------------------------------------------ */

static weir_status draft(weir_ingest__ingest *ingest, weir_bytes *schema, weir_error *error) {
    WEIR__TRY(weir_ingest__catalog_keep_drafted(&ingest->catalog, error));
    return weir_ingest__draft_schema(ingest, schema, error);
}

/* Where no schema is given, the draft is read as one. */
static weir_status draft_and_read(weir_ingest__ingest *ingest, weir_error *error) {
    weir_bytes text;
    WEIR__TRY(draft(ingest, &text, error));
    weir_status status = weir_ingest__schema_read(&ingest->schema, ingest->context.env, text.data, text.size,
                                                  "the drafted schema", error);
    weir_bytes_release(&text);
    return status;
}

typedef struct draft_work {
    weir_ingest__ingest *ingest;
    weir_bytes *schema;
    weir_status status;
    weir_error *error;
} draft_work;

static void draft_now(void *context) {
    draft_work *work = context;
    work->status = begin(work->ingest, false, work->error);
    if (work->status == WEIR_OK)
        work->status = draft(work->ingest, work->schema, work->error);
    end(work->ingest);
}

static __attribute__((noinline)) weir_status
draft_all(const weir_env *env, const weir_ingest_options *options, weir_bytes *schema, weir_error *error) {
    env = weir__env_or_default(env);
    weir_ingest__ingest *ingest = weir__allocate(env, 1, sizeof *ingest);
    if (!ingest)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, sizeof *ingest);
    draft_work work = {.ingest = ingest, .schema = schema, .error = error};
    prepare(ingest, env, env, NULL, options);
    weir_ingest__watch(&ingest->context, draft_now, &work);
    weir_status status = say_if_cancelled(ingest, work.status, error);
    weir_ingest__context_release(&ingest->context);
    weir__release(env, ingest);
    return status;
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

weir_status weir_schema_draft(const weir_env *env, const weir_ingest_options *given, weir_bytes *schema,
                              weir_error *error) {
    weir_ingest_options options;
    *schema = (weir_bytes){0};
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_ingest_options, WEIR_INGEST__OPERATOR, error));
    begin_telling(&options);
    weir__floating kept = weir__enter_floating();
    weir_status status = draft_all(env, &options, schema, error);
    weir__leave_floating(&kept);
    if (status != WEIR_OK)
        weir_bytes_release(schema);
    end_telling(&options, status);
    return status;
}

/* ---- Everything ------------------------------------------------------------------------------ */

typedef struct timed_phase {
    weir_status (*run)(weir_ingest__ingest *ingest, weir_error *error);
    uint64_t *spent_ns;
} timed_phase;

static weir_status run_phases(weir_ingest__ingest *ingest, weir_ingest_report *report, weir_error *error) {
    const weir_env *env = ingest->context.env;
    const timed_phase phases[] = {
        {weir_ingest__read_rows, &report->read_ns},     {weir_ingest__order_rows, &report->order_ns},
        {weir_ingest__number_texts, &report->order_ns}, {weir_ingest__match_keys, &report->match_ns},
        {weir_ingest__make_tasks, &report->tasks_ns},   {weir_ingest__make_statistics, &report->order_ns},
    };
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        uint64_t began = env->now_ns(env->context);
        weir_status status = phases[i].run(ingest, error);
        *phases[i].spent_ns += env->now_ns(env->context) - began;
        if (status != WEIR_OK)
            return status;
        if (atomic_load_explicit(&ingest->context.is_cancelled, memory_order_relaxed))
            return weir_ingest__cancelled(error);
    }
    return WEIR_OK;
}

static void fill_report(const weir_ingest__ingest *ingest, weir_ingest_report *report) {
    memcpy(report->store_hash, ingest->info.store_hash, WEIR_HASH_SIZE);
    report->drafted = ingest->context.options->schema == NULL;
    report->tables = ingest->table_count;
    report->rows = ingest->info.row_count;
    report->texts = ingest->text_count;
    report->source_bytes = ingest->catalog.size_bytes;
    for (uint32_t t = 0; t < ingest->table_count; t++)
        report->ignored_columns += ingest->tables[t].source->column_count - ingest->tables[t].column_count;
    for (uint32_t e = 0; e < ingest->edge_count; e++) {
        report->edges += ingest->info_edges[e].edges;
        report->dangling += ingest->info_edges[e].dangling;
    }
    for (uint32_t c = 0; c < ingest->info.table_column_count; c++)
        report->not_finite += ingest->info_columns[c].not_finite;
    for (uint32_t i = 0; i < ingest->task_count; i++) {
        report->seeds += ingest->info_tasks[i].seed_count;
        report->dropped_seeds += ingest->info_tasks[i].dropped;
    }
    report->warnings = ingest->context.warning_count;
    report->total_ns = ingest->context.env->now_ns(ingest->context.env->context) - ingest->context.started_ns;
}

/* A whole store under its temporary name, looked at by whoever wants to. */
static weir_status make_store(weir_ingest__ingest *ingest, weir_store__writer *store,
                              weir_ingest_report *report, weir_error *error) {
    const weir_ingest_options *options = ingest->context.options;
    weir_status status = run_phases(ingest, report, error);
    if (status == WEIR_OK)
        status = weir_ingest__like_report(ingest, error);
    if (status == WEIR_OK)
        status = weir_ingest__warn_of_times(ingest, error);
    if (status == WEIR_OK)
        status = weir_ingest__write_store(ingest, store, report, error);
    release_rows(ingest); /* all is in the file: who inspects it has the memory */
    if (status == WEIR_OK && options->inspect)
        status = options->inspect(options->inspect_context, store->file.temporary, weir_ingest__tell,
                                  &ingest->context, error);
    return status == WEIR_OK ? refuse_warnings(ingest, error) : status;
}

/* The store takes its name, then the list of kept rows, then the manifest; their texts, and what is told, are
 * ready by then.
 * Abandons or commits store and manifest. */
static weir_status commit_files(weir_ingest__ingest *ingest, weir_store__writer *store,
                                weir__atomic_file *manifest, weir_ingest_report *report, weir_error *error) {
    weir_bytes text = {0};
    weir_status status = weir_ingest__prepare_manifest(ingest, report->store_path, report->manifest_path,
                                                       &text, &report->manifest_kept, error);
    if (status == WEIR_OK && !report->manifest_kept)
        status = weir__atomic_write(manifest, text.data, text.size, error);
    if (status == WEIR_OK)
        status = weir_ingest__base_tell(ingest, error);
    if (status == WEIR_OK)
        status = weir_ingest__keep_prepare(ingest, error);
    if (status == WEIR_OK)
        status = weir_store__writer_commit(store, error);
    else
        weir_store__writer_abandon(store);
    if (status == WEIR_OK)
        status = weir_ingest__keep_commit(ingest, error);
    if (status == WEIR_OK && !report->manifest_kept)
        status = weir__atomic_commit(manifest, error);
    if (status != WEIR_OK || report->manifest_kept)
        weir__atomic_abandon(manifest);
    weir_bytes_release(&text);
    return status;
}

/* Both files are open, and so locked, before a row is read: another ingest into them is refused at once, a
 * folder that cannot be written is found out before the work, and if no manifest can be written there is no
 * new store either. */
static weir_status read_and_write(weir_ingest__ingest *ingest, weir_ingest_report *report,
                                  weir_error *error) {
    weir__atomic_file manifest;
    weir_store__writer store;
    WEIR__TRY(weir__atomic_open(&manifest, ingest->context.env, report->manifest_path, WEIR_INGEST__OPERATOR,
                                error));
    weir_status status = weir_store__writer_open(&store, ingest->context.env, report->store_path, error);
    if (status != WEIR_OK) {
        weir__atomic_abandon(&manifest);
        return status;
    }
    status = weir_ingest__keep_open(ingest, report->store_path, error);
    if (status == WEIR_OK)
        status = make_store(ingest, &store, report, error);
    if (status == WEIR_OK) {
        status = commit_files(ingest, &store, &manifest, report, error);
        report->kept_bytes = weir_ingest__keep_bytes(ingest);
    } else {
        weir_store__writer_abandon(&store);
        weir__atomic_abandon(&manifest);
    }
    weir_ingest__keep_close(ingest);
    return status;
}

static weir_status run(weir_ingest__ingest *ingest, weir_ingest_report *report, weir_error *error) {
    weir_status status = ingest->context.options->schema ? WEIR_OK : draft_and_read(ingest, error);
    if (status == WEIR_OK)
        status = weir_ingest__like_trim(ingest, error);
    if (status == WEIR_OK)
        status = weir_ingest__plan_make(ingest, error);
    if (status == WEIR_OK)
        status = weir_ingest__like_check(ingest, error);
    if (status == WEIR_OK)
        status = weir_ingest__base_plan(ingest, error);
    if (status == WEIR_OK)
        status = weir_ingest__choose_targets(ingest, report, error);
    if (status == WEIR_OK)
        status = weir__spill_place(ingest->context.spill, report->store_path, error);
    if (status == WEIR_OK)
        warn_early(ingest);
    if (status == WEIR_OK)
        status = read_and_write(ingest, report, error);
    if (status == WEIR_OK)
        fill_report(ingest, report);
    return status;
}

typedef struct ingest_work {
    weir_ingest__ingest *ingest;
    weir_ingest_report *report;
    weir_status status;
    weir_error *error;
} ingest_work;

static void ingest_now(void *context) {
    ingest_work *work = context;
    work->status = begin(work->ingest, true, work->error);
    if (work->status == WEIR_OK)
        work->status = run(work->ingest, work->report, work->error);
    end(work->ingest);
}

static weir_status ingest_with(const weir_env *env, weir_ingest__ingest *ingest, weir__spill *spill,
                               const weir_ingest_options *options, weir_ingest_report *report,
                               weir_error *error) {
    ingest_work work = {.ingest = ingest, .report = report, .error = error};
    prepare(ingest, weir__spill_env(spill), env, spill, options);
    weir_ingest__watch(&ingest->context, ingest_now, &work);
    weir_status status = weir__spill_explain(spill, say_if_cancelled(ingest, work.status, error), error);
    weir_ingest__context_release(&ingest->context);
    return status;
}

static __attribute__((noinline)) weir_status ingest_all(const weir_env *env,
                                                        const weir_ingest_options *options,
                                                        weir_ingest_report *report, weir_error *error) {
    uint64_t memory = options->memory ? options->memory : env->memory_size(env->context) / 2;
    weir_ingest__ingest *ingest = weir__allocate(env, 1, sizeof *ingest);
    weir_ingest_report *own = weir__allocate_zero(env, 1, sizeof *own);
    weir__spill *spill = NULL;
    weir_status status =
        ingest && own ? WEIR_OK : weir__out_of_memory(error, WEIR_INGEST__OPERATOR, sizeof *ingest);
    if (status == WEIR_OK)
        status = weir__spill_open(&spill, env, memory, WEIR_INGEST__OPERATOR, error);
    if (status == WEIR_OK)
        status = ingest_with(env, ingest, spill, options, own, error);
    if (status == WEIR_OK)
        own->spilled_bytes = weir__spill_peak(spill);
    if (status == WEIR_OK && report)
        *report = *own;
    weir__spill_close(spill);
    weir__release(env, own);
    weir__release(env, ingest);
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
    weir__floating kept = weir__enter_floating();
    weir_status status = ingest_all(weir__env_or_default(env), &options, report, error);
    weir__leave_floating(&kept);
    end_telling(&options, status);
    return status;
}
