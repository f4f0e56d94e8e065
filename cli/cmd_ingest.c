/* weir ingest SOURCE: a database becomes a store, with a report of what a person should look at. An
 * interrupt ends it cleanly, without a temporary file left behind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ingest_run.h"
#include "source_options.h"

static int ingest(cli_ingest_job *run, const char *schema_path, bool as_json) {
    weir_error error;
    char *schema = NULL;
    weir_status status = WEIR_OK;
    if (schema_path) {
        status = cli_read_file(schema_path, &schema, &run->options.schema_size, &error);
        run->options.schema = schema;
        run->options.schema_name = schema_path;
    }
    if (status == WEIR_OK)
        status = cli_ingest_run(run, &error);
    int result = cli_ingest_finish(run, status, &error, as_json);
    cli_ingest_release(run);
    free(schema);
    return result;
}

/* A file in a folder, for which `path` has room; NULL if it is not there. */
static const char *find_in(const char *folder, const char *name, char *path, size_t capacity) {
    int size = snprintf(path, capacity, "%s/%s", folder, name);
    return size > 0 && (size_t)size < capacity && access(path, F_OK) == 0 ? path : NULL;
}

/* Whether the page would replace what is read or made: also a file in a folder that is the source, unless it
 * is an older page. */
static bool is_page_taken(const cli_ingest_job *run, const char *schema) {
    const weir_ingest_options *o = &run->options;
    const char *const others[] = {o->source, schema, o->like, o->base, o->output, o->manifest};
    const char *page = run->page, *slash = strrchr(page, '/'), *ending = strrchr(page, '.');
    char folder[CLI_PATH_MAX];
    for (size_t i = 0; i < CLI_COUNT(others); i++)
        if (others[i] && (strcmp(page, others[i]) == 0 || cli_is_same_file(page, others[i])))
            return true;
    int size =
        snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - page) + 1 : 1, slash ? page : ".");
    bool is_page = ending && (strcmp(ending, ".html") == 0 || strcmp(ending, ".htm") == 0);
    return !is_page && (size_t)size < sizeof folder && access(page, F_OK) == 0 &&
           cli_is_same_file(folder, o->source);
}

int cli_ingest_command(const cli_command *self, bool is_assembly, int argc, char **argv) {
    bool as_json = false, updates = false, replaces = false;
    const char *schema = NULL, *check = NULL;
    char path[CLI_PATH_MAX];
    cli_ingest_job run = {.options = WEIR_INGEST_OPTIONS};
    cli_source_options source = {0};
    cli_option options[] = {CLI_OPTION("--json", &as_json),
                            CLI_OPTION("--html", &run.page),
                            CLI_OPTION("--schema", &schema),
                            CLI_OPTION("--output", &run.options.output),
                            CLI_OPTION("--manifest", &run.options.manifest),
                            CLI_OPTION("--update-manifest", &updates),
                            CLI_OPTION("--replace-manifest", &replaces),
                            CLI_OPTION("--batch-size", &run.options.batch_size),
                            CLI_OPTION("--preset", &run.options.preset),
                            CLI_OPTION("--threads", &run.options.threads),
                            {"--memory", CLI_SIZE, &run.options.memory, false, false},
                            CLI_OPTION("--like", &run.options.like),
                            CLI_OPTION("--strict", &run.options.strict),
                            CLI_OPTION("--base", &run.options.base),
                            CLI_OPTION("--base-check", &check),
                            CLI_OPTION("--base-cut", &run.options.base_cut),
                            CLI_OPTION("--keep-rows", &run.options.keep_rows),
                            CLI_OPTION("--no-embeddings", &run.options.no_embeddings),
                            CLI_OPTION("--format", &run.options.format),
                            CLI_SOURCE_OPTIONS(source, run.options)};
    const cli_option of_source[] = {CLI_SOURCE_OPTIONS(source, run.options)};
    size_t option_count = CLI_COUNT(options);
    if (is_assembly) /* they stand last */
        option_count -= CLI_COUNT(of_source);
    if (cli_parse(self, options, option_count, argc, argv, &run.options.source, 1,
                  is_assembly ? "say which folder of runs" : "say which source") < 0)
        return CLI_USAGE;
    if (run.options.memory > 0 && run.options.memory < WEIR_INGEST_MEMORY_LEAST)
        return cli_usage(self, "--memory must be at least 64MiB");
    if (check && (!run.options.base || (strcmp(check, "count") != 0 && strcmp(check, "full") != 0)))
        return cli_usage(self, "--base-check must be count or full, and needs --base");
    if (run.options.base_cut && !run.options.base)
        return cli_usage(self, "--base-cut needs --base");
    run.options.base_check = check && strcmp(check, "full") == 0 ? WEIR_BASE_FULL : WEIR_BASE_COUNT;
    if (updates && replaces)
        return cli_usage(self, "--update-manifest or --replace-manifest, not both");
    run.options.manifest_mode = updates    ? WEIR_MANIFEST_UPDATE
                                : replaces ? WEIR_MANIFEST_REPLACE
                                           : WEIR_MANIFEST_KEEP;
    cli_use_source(&source, &run.options);
    if (is_assembly && !find_in(run.options.source, WEIR_ROW_RUN_LIST, path, sizeof path)) {
        weir_error error;
        (void)cli_error(&error, WEIR_SOURCE_ERROR,
                        "%s is not a folder of runs, or not a complete one: it has no %s, which is written "
                        "last; 'weir ingest' reads databases",
                        run.options.source, WEIR_ROW_RUN_LIST);
        return cli_fail(&error, as_json);
    }
    if (is_assembly && !schema)
        schema = find_in(run.options.source, WEIR_ROW_RUN_SCHEMA, path, sizeof path);
    if (run.page && is_page_taken(&run, schema))
        return cli_usage(self, "--html names another file of the command; give it a name of its own");
    return ingest(&run, schema, as_json);
}

static int run(const cli_command *self, int argc, char **argv) {
    return cli_ingest_command(self, false, argc, argv);
}

const cli_command cli_ingest = {
    .name = "ingest",
    .summary = "make a store from a database",
    .usage = "weir ingest SOURCE [--schema F] [-o OUT.weir] [--manifest F]\n"
             "                   [--update-manifest | --replace-manifest] [--batch-size N] [--preset P]\n"
             "                   [--like STORE] [--keep-rows]\n"
             "                   [--base STORE [--base-check count|full] [--base-cut TIME]]\n"
             "                   [--html F] [--strict] [--threads N] [--memory SIZE]\n"
             "                   [--no-embeddings] [--format N]\n"
             "                   " CLI_SOURCE_USAGE " [--json]",
    .help = CLI_SOURCE_HELP
    "  --schema F        what to read and what it means (default: drafted, see weir schema)\n"
    "  -o, --output F    the store (default: NAME.weir, by the schema's name)\n"
    "  --manifest F      the manifest (default: beside the store, NAME.manifest.json). If you have edited\n"
    "                    it, it is kept, and weir says what would change\n"
    "  --update-manifest bring the datasets of an edited manifest up to date, and keep the rest of it\n"
    "  --replace-manifest\n"
    "                    write the manifest again, even if you have edited it\n"
    "  --batch-size N    global_batch_size in the manifest (default: as it was, else 32)\n"
    "  --preset P        how the manifest samples: train_shuffle, eval_sequential or streaming_infinite, in\n"
    "                    the orders of NextBatch_v2 (default: as it was, else better mixed, NextBatch_v3)\n"
    "  --like STORE      take columns, categories, statistics and splits from an earlier store, so that a\n"
    "                    model that was trained on it can be used with new data; weir says what does not "
    "fit\n"
    "  --keep-rows       also keep the rows that were read, in the folder OUT.weir.rows: runs of rows, of "
    "which\n"
    "                    'weir assemble' makes a store again without the source\n"
    "  --base STORE      a store made with --keep-rows: read only the rows that are new, if the source can\n"
    "                    tell which (docs/store.md). The store is the same as without --base; if rows of "
    "the\n"
    "                    base have changed, weir says in which table and writes nothing. CSV files are read\n"
    "                    whole\n"
    "  --base-check C    count: let the source count the rows that are not read (the default); full: read "
    "all\n"
    "                    rows and compare them\n"
    "  --base-cut TIME   such as 2026-11-01 (UTC): of tables with a time, take rows of the base before then "
    "only,\n"
    "                    and read all later ones again, whatever became of them\n"
    "  --html F          write the report as a page\n"
    "  --strict          a foreign key without a match, or any warning, is an error: nothing is written\n"
    "  --threads N       how many threads to use (default: the number of processors); the store is the same\n"
    "                    for any number\n"
    "  --memory SIZE     how much memory it may use, such as 512MiB or 2GiB, at least 64MiB (default: half\n"
    "                    of what the machine has); what does not fit goes to an unnamed file beside the\n"
    "                    store. The store is the same for any size\n"
    "  --no-embeddings   leave the embeddings out\n"
    "  --format N        2: the format of stores of more than 2^32 - 2 rows, although these are fewer, to "
    "try\n"
    "                    what reads it (default: the least that the rows need)\n"
    "  --json            print the report as JSON\n\n"
    "Reads the source, writes the store and a manifest with all its datasets, each whole or not at all, and "
    "says\n"
    "what may be a mistake: labels that are constant, splits that are empty, columns that give the answer "
    "away, ...\n",
    .example =
        "  weir ingest shop.sqlite --schema shop.schema.json --html shop.html\n"
        "  weir ingest shop.sqlite --schema shop.schema.json -o shop.weir --base shop.weir --keep-rows\n"
        "  weir ingest shop.sqlite --schema shop.schema.json -o shop.weir --base shop.weir --base-cut "
        "2026-11-01\n"
        "  weir ingest warehouse/ --memory 2GiB -o warehouse.weir\n"
        "  weir ingest f1/ --null '\\N'\n"
        "  weir ingest shop_today.sqlite --schema shop.schema.json --like shop.weir -o today.weir\n",
    .run = run,
};
