/* weir schema SOURCE: the draft of a schema, for a person to edit. */
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "signals.h"

/* JSON on many lines: the outer objects a member a line, what lies deeper (a column's description) in one. */
static void print_indented(const char *json) {
    enum { BROKEN_DEPTH = 4 };
    int depth = 0;
    bool in_text = false;
    for (const char *at = json; *at; at++) {
        if (*at == '"' && (at == json || at[-1] != '\\'))
            in_text = !in_text;
        bool opens = !in_text && (*at == '{' || *at == '[');
        bool closes = !in_text && (*at == '}' || *at == ']');
        bool is_empty = opens && (at[1] == '}' || at[1] == ']');
        if (closes && depth-- <= BROKEN_DEPTH && at[-1] != '{' && at[-1] != '[')
            printf("\n%*s", depth, "");
        putchar(*at);
        if (opens && ++depth <= BROKEN_DEPTH && !is_empty)
            printf("\n%*s", depth, "");
        if (!in_text && *at == ',' && depth <= BROKEN_DEPTH) {
            printf("\n%*s", depth, "");
            at += at[1] == ' ' ? 1 : 0;
        }
    }
    putchar('\n');
}

static int print_draft(const weir_ingest_options *options, bool as_json) {
    weir_error error;
    weir_json_writer w;
    cli_progress progress;
    weir_ingest_options used = *options;
    cli_progress_begin(&progress);
    used.progress = cli_progress_show;
    used.progress_context = &progress;
    weir_json_writer_memory(&w, NULL);
    cli_signals_catch(NULL, NULL);
    weir_status status = weir_schema_draft(NULL, &used, &w, &error);
    cli_signals_release();
    if (status == WEIR_OK)
        status = weir_json_finish(&w, &error);
    cli_progress_end(&progress);
    if (status == WEIR_OK && as_json)
        return cli_print_json(&w);
    if (status == WEIR_OK)
        print_indented(w.data);
    weir_json_release(&w);
    return status == WEIR_OK ? cli_flush() : cli_fail(&error, as_json);
}

static int check_schema(const char *path, bool as_json) {
    weir_error error;
    char *text = NULL;
    size_t size = 0;
    weir_status status = cli_read_file(path, &text, &size, &error);
    if (status == WEIR_OK)
        status = weir_schema_check(NULL, text, size, path, &error);
    free(text);
    if (status != WEIR_OK)
        return cli_fail(&error, as_json);
    printf(as_json ? "{\"valid\": true}\n" : "the schema is well-formed\n");
    return cli_flush();
}

static int run(const cli_command *self, int argc, char **argv) {
    bool as_json = false, json_schema = false;
    weir_ingest_options ingest = WEIR_INGEST_OPTIONS;
    const char *check = NULL;
    cli_option options[] = {{"--json", CLI_FLAG, &as_json, false, false},
                            {"--json-schema", CLI_FLAG, &json_schema, false, false},
                            {"--check", CLI_TEXT, &check, false, false},
                            {"--pg-schema", CLI_TEXT, &ingest.search_path, false, false},
                            {"--threads", CLI_UINT32, &ingest.threads, false, false}};
    int count = cli_parse(self, options, 5, argc, argv, &ingest.source, 1);
    if (count < 0)
        return CLI_USAGE;
    if (json_schema) {
        fputs(weir_schema_json_schema(), stdout);
        return cli_flush();
    }
    if (check)
        return check_schema(check, as_json);
    return count == 1 ? print_draft(&ingest, as_json) : cli_usage(self, "say which source");
}

const cli_command cli_schema = {
    .name = "schema",
    .summary = "draft a schema from a database",
    .usage = "weir schema SOURCE [--pg-schema A,B] [--threads N] [--json] | weir schema --check FILE | weir "
             "schema --json-schema",
    .help =
        "  SOURCE          a SQLite file, or another source that weir reads\n"
        "  --pg-schema A,B schemas of PostgreSQL or DuckDB in which tables are found by their bare names\n"
        "  --threads N     connections that read at once (default: the number of processors)\n"
        "  --json          print the draft in one line\n"
        "  --check FILE    say whether a schema is well-formed, without a source\n"
        "  --json-schema   print a JSON Schema of schemas, for editors\n\n"
        "The draft follows the source's declarations (keys, types) and what its values look like; edit "
        "it, then give\n"
        "it to weir ingest --schema.\n",
    .example = "  weir schema shop.sqlite > shop.schema.json\n",
    .run = run,
};
