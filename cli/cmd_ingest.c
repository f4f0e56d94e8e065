/* weir ingest SOURCE: a database becomes a store, with a report of what a person should look at. An
 * interrupt ends it cleanly, without a temporary file left behind. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "signals.h"

static void put_seconds(weir_json_writer *w, const char *key, uint64_t ns) {
    weir_json_key(w, key);
    weir_json_double(w, (double)ns * 1e-9);
}

/* Warnings come before the report and are part of it, so that copies are kept. */
typedef struct kept_warning {
    char *code, *table, *column, *task, *message;
} kept_warning;

typedef struct kept_warnings {
    kept_warning *list;
    size_t count;
} kept_warnings;

static char *copy_of(const char *text) {
    return text ? strdup(text) : NULL;
}

static void keep_warning(void *context, const weir_warning *warning) {
    kept_warnings *kept = context;
    kept_warning *grown = realloc(kept->list, (kept->count + 1) * sizeof *grown);
    if (!grown)
        return;
    kept->list = grown;
    kept->list[kept->count++] =
        (kept_warning){copy_of(warning->code), copy_of(warning->table), copy_of(warning->column),
                       copy_of(warning->task), copy_of(warning->message)};
}

static void release_warnings(kept_warnings *kept) {
    for (size_t i = 0; i < kept->count; i++) {
        free(kept->list[i].code);
        free(kept->list[i].table);
        free(kept->list[i].column);
        free(kept->list[i].task);
        free(kept->list[i].message);
    }
    free(kept->list);
}

static void put_warnings(weir_json_writer *w, const kept_warnings *kept) {
    weir_json_key(w, "warnings");
    weir_json_array(w);
    for (size_t i = 0; i < kept->count; i++) {
        const kept_warning *warning = &kept->list[i];
        const char *const names[] = {"code", "table", "column", "task", "message"};
        const char *const texts[] = {warning->code, warning->table, warning->column, warning->task,
                                     warning->message};
        weir_json_object(w);
        for (size_t k = 0; k < 5; k++)
            if (texts[k])
                cli_json_text(w, names[k], texts[k]);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
}

static int print_json(const weir_ingest_report *report, const kept_warnings *warnings) {
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_object(&w);
    cli_json_text(&w, "store", report->store_path);
    cli_json_text(&w, "manifest", report->manifest_path);
    cli_json_hex(&w, "store_hash", report->store_hash, WEIR_HASH_SIZE);
    cli_json_bool(&w, "drafted", report->drafted);
    cli_json_uint(&w, "tables", report->tables);
    cli_json_uint(&w, "ignored_columns", report->ignored_columns);
    cli_json_uint(&w, "rows", report->rows);
    cli_json_uint(&w, "edges", report->edges);
    cli_json_uint(&w, "dangling", report->dangling);
    cli_json_uint(&w, "not_finite", report->not_finite);
    cli_json_uint(&w, "seeds", report->seeds);
    cli_json_uint(&w, "dropped_seeds", report->dropped_seeds);
    cli_json_uint(&w, "texts", report->texts);
    cli_json_uint(&w, "source_bytes", report->source_bytes);
    cli_json_uint(&w, "store_bytes", report->store_bytes);
    cli_json_uint(&w, "embedding_bytes", report->embedding_bytes);
    put_warnings(&w, warnings);
    weir_json_key(&w, "seconds");
    weir_json_object(&w);
    put_seconds(&w, "total", report->total_ns);
    put_seconds(&w, "read", report->read_ns);
    put_seconds(&w, "order", report->order_ns);
    put_seconds(&w, "match", report->match_ns);
    put_seconds(&w, "tasks", report->tasks_ns);
    put_seconds(&w, "write", report->write_ns);
    put_seconds(&w, "embed", report->embed_ns);
    weir_json_end_object(&w);
    weir_json_end_object(&w);
    return cli_print_json(&w);
}

/* ---- The report for a person ----------------------------------------------------------------- */

static const char *plural(uint64_t count) {
    return count == 1 ? "" : "s";
}

/* Columns that a person should look at: all null, or values that are not finite. */
static void print_column_notes(const weir_store_info *info) {
    for (uint32_t c = 0; c < info->table_column_count; c++) {
        const weir_column *column = &info->columns[c];
        const weir_table *table = &info->tables[column->table];
        if (column->nulls == table->row_count && table->row_count > 0)
            printf("  note: %s.%s is always null\n", cli_shown(table->name), cli_shown(column->name));
        if (column->not_finite > 0)
            printf("  note: %s.%s has %" PRIu64 " value%s that %s not finite, counted as null\n",
                   cli_shown(table->name), cli_shown(column->name), column->not_finite,
                   plural(column->not_finite), column->not_finite == 1 ? "is" : "are");
    }
}

static void print_drafted_columns(const weir_store_info *info) {
    printf("The schema was drafted; 'weir schema' prints it for you to edit. Its columns:\n");
    for (uint32_t t = 0; t < info->table_count; t++) {
        const weir_table *table = &info->tables[t];
        printf("  %s:%s", cli_shown(table->name), table->column_count == 0 ? " none" : "");
        for (uint32_t c = 0; c < table->column_count; c++) {
            const weir_column *column = &info->columns[table->column_start + c];
            printf("%s %s %s", c ? "," : "", cli_shown(column->name), weir_stype_name(column->stype));
        }
        printf("\n");
    }
}

/* Prints a heading before the first line below it only. */
static void begin_list(bool *is_begun, const char *heading) {
    if (!*is_begun)
        printf("%s\n", heading);
    *is_begun = true;
}

static void print_time_rules(const weir_store *store) {
    const weir_store_info *info = weir_store_describe(store);
    char time[512];
    const char *heading = "What is known when:";
    bool is_begun = false;
    for (uint32_t t = 0; t < info->table_count; t++)
        if (info->tables[t].time_offset == WEIR_NONE && info->tables[t].row_count > 0) {
            begin_list(&is_begun, heading);
            printf("  rows of %s have no time: every seed sees them\n", cli_shown(info->tables[t].name));
        } else if (info->tables[t].temporal_time != WEIR_NONE) {
            begin_list(&is_begun, heading);
            weir_store_time_text(store, t, info->tables[t].temporal_time, time, sizeof time);
            printf("  rows of %s are shown from %s on\n", cli_shown(info->tables[t].name), cli_shown(time));
        }
    for (uint32_t c = 0; c < info->table_column_count; c++) {
        const weir_column *column = &info->columns[c];
        if (column->known_slot == WEIR_NONE || column->known_at == c)
            continue;
        begin_list(&is_begun, heading);
        if (column->known_time != WEIR_NONE)
            weir_store_time_text(store, column->table, column->known_time, time, sizeof time);
        printf("  %s.%s is shown from %s on\n", cli_shown(info->tables[column->table].name),
               cli_shown(column->name),
               cli_shown(column->known_time != WEIR_NONE ? time : info->columns[column->known_at].name));
    }
}

static void print_edge_notes(const weir_store_info *info) {
    for (uint32_t e = 0; e < info->edge_count; e++) {
        uint64_t dangling = info->edges[e].dangling;
        if (dangling > 0)
            printf("  note: %" PRIu64 " value%s of %s.%s match%s no row of %s\n", dangling, plural(dangling),
                   cli_shown(info->tables[info->edges[e].table].name), cli_shown(info->edges[e].name),
                   dangling == 1 ? "es" : "", cli_shown(info->tables[info->edges[e].parent_table].name));
    }
}

static void print_tasks(const weir_store_info *info) {
    bool is_begun = false;
    for (uint32_t i = 0; i < info->task_count; i++) {
        const weir_task *task = &info->tasks[i];
        begin_list(&is_begun, "Seeds of the tasks:");
        printf("  %s: %u train, %u val, %u test", cli_shown(task->name), task->split_start[1],
               task->split_start[2] - task->split_start[1], task->split_start[3] - task->split_start[2]);
        if (task->dropped > 0)
            printf(" (%" PRIu64 " dropped, without a row to anchor at)", task->dropped);
        printf("\n");
    }
}

static void print_summary(const weir_ingest_report *report) {
    char source[32], store[32];
    cli_format_bytes(report->source_bytes, source);
    cli_format_bytes(report->store_bytes, store);
    printf("%s: %" PRIu64 " row%s of %" PRIu32 " table%s, %" PRIu64 " edge%s, %" PRIu64 " text%s, %s",
           cli_shown(report->store_path), report->rows, plural(report->rows), report->tables,
           plural(report->tables), report->edges, plural(report->edges), report->texts, plural(report->texts),
           store);
    if (report->source_bytes > 0)
        printf(" from %s", source);
    printf(" in %.1f s\n", (double)report->total_ns * 1e-9);
}

static int print_report(const weir_ingest_report *report, const kept_warnings *warnings) {
    weir_store *opened;
    weir_error error;
    print_summary(report);
    for (size_t i = 0; i < warnings->count; i++)
        printf("WARNING: %s\n", cli_shown(warnings->list[i].message ? warnings->list[i].message : ""));
    if (weir_store_open(NULL, report->store_path, &opened, &error) != WEIR_OK)
        return cli_fail(&error, false);
    const weir_store_info *info = weir_store_describe(opened);
    if (report->drafted)
        print_drafted_columns(info);
    if (report->ignored_columns > 0)
        printf("  note: %" PRIu64 " column%s of the source %s ignored\n", report->ignored_columns,
               plural(report->ignored_columns), report->ignored_columns == 1 ? "is" : "are");
    print_column_notes(info);
    print_edge_notes(info);
    print_time_rules(opened);
    print_tasks(info);
    printf("%s names the datasets\n", cli_shown(report->manifest_path));
    weir_store_close(opened);
    return cli_flush();
}

static int ingest(weir_ingest_options *options, const char *schema_path, bool as_json) {
    weir_error error;
    weir_ingest_report report;
    cli_progress progress;
    kept_warnings warnings = {0};
    char *schema = NULL;
    weir_status status = WEIR_OK;
    cli_progress_begin(&progress);
    if (schema_path) {
        status = cli_read_file(schema_path, &schema, &options->schema_size, &error);
        options->schema = schema;
        options->schema_name = schema_path;
    }
    options->progress = cli_progress_show;
    options->progress_context = &progress;
    options->warning = keep_warning;
    options->warning_context = &warnings;
    cli_signals_catch(NULL, NULL);
    if (status == WEIR_OK)
        status = weir_ingest(NULL, options, &report, &error);
    cli_signals_release();
    cli_progress_end(&progress);
    free(schema);
    int result = status != WEIR_OK ? cli_fail(&error, as_json)
                 : as_json         ? print_json(&report, &warnings)
                                   : print_report(&report, &warnings);
    release_warnings(&warnings);
    return result;
}

static int run(const cli_command *self, int argc, char **argv) {
    bool as_json = false;
    const char *schema = NULL;
    weir_ingest_options used = WEIR_INGEST_OPTIONS;
    char *arguments[64];
    cli_option options[] = {{"--json", CLI_FLAG, &as_json, false, false},
                            {"--schema", CLI_TEXT, &schema, false, false},
                            {"--pg-schema", CLI_TEXT, &used.search_path, false, false},
                            {"--output", CLI_TEXT, &used.output, false, false},
                            {"--manifest", CLI_TEXT, &used.manifest, false, false},
                            {"--batch-size", CLI_UINT, &used.batch_size, false, false},
                            {"--threads", CLI_UINT32, &used.threads, false, false},
                            {"--source-timeout", CLI_UINT32, &used.silence_s, false, false},
                            {"--strict", CLI_FLAG, &used.strict, false, false},
                            {"--no-embeddings", CLI_FLAG, &used.no_embeddings, false, false}};
    for (int i = 0; i < argc && i < 64; i++)
        arguments[i] = strcmp(argv[i], "-o") == 0 ? "--output" : argv[i];
    int count = cli_parse(self, options, sizeof options / sizeof *options, argc < 64 ? argc : 64, arguments,
                          &used.source, 1);
    if (count < 0)
        return CLI_USAGE;
    if (count != 1)
        return cli_usage(self, "say which source");
    return ingest(&used, schema, as_json);
}

const cli_command cli_ingest = {
    .name = "ingest",
    .summary = "make a store from a database",
    .usage = "weir ingest SOURCE [--schema F] [--pg-schema A,B] [-o OUT.weir] [--manifest F] [--batch-size "
             "N] [--strict] "
             "[--threads N] "
             "[--source-timeout S] [--no-embeddings] [--json]",
    .help =
        "  SOURCE            a SQLite file, or another source that weir reads\n"
        "  --schema F        what to read and what it means (default: drafted, see weir schema)\n"
        "  --pg-schema A,B   schemas of PostgreSQL or DuckDB in which tables are found by their bare names\n"
        "  -o, --output F    the store (default: NAME.weir, by the schema's name)\n"
        "  --manifest F      the manifest (default: beside the store, NAME.manifest.json)\n"
        "  --batch-size N    global_batch_size in the manifest (default 32)\n"
        "  --threads N       (default: the number of processors); the store is the same for any number\n"
        "  --source-timeout S  seconds without a row or an answer before a server is given up (3600)\n"
        "  --strict          a foreign key without a match is an error\n"
        "  --no-embeddings   leave the embeddings out\n"
        "  --json            print the report as JSON\n\n"
        "There is either no store or a whole one, also where ingest is killed. A file that is no store, or "
        "no manifest,\n"
        "is never replaced by one.\n",
    .example = "  weir ingest shop.sqlite --schema shop.schema.json -o shop.weir\n",
    .run = run,
};
