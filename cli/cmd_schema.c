/* weir schema SOURCE: the draft of a schema, for a person to edit, and the reasons for what is in it. */
#include <stdlib.h>
#include <string.h>

#include "explain.h"
#include "progress.h"
#include "signals.h"
#include "source_options.h"

enum { BROKEN_DEPTH = 4 };

/* "shop.schema.json" has its notes in "shop.schema.notes.md". */
static char *notes_path(const char *output) {
    size_t size = strlen(output);
    size_t stem = size > 5 && strcmp(output + size - 5, ".json") == 0 ? size - 5 : size;
    char *path = malloc(stem + sizeof ".notes.md");
    if (path)
        sprintf(path, "%.*s.notes.md", (int)stem, output);
    return path;
}

static weir_status write_notes(const char *output, const char *source, const weir_bytes *reasons,
                               weir_error *error) {
    cli_output file;
    char *path = notes_path(output);
    weir_status status = path ? cli_output_open(&file, path, error)
                              : cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for a path");
    if (status == WEIR_OK) {
        weir_status written = cli_write_reasons(file.stream, source, reasons, error);
        status = cli_output_finish(&file, error);
        status = written != WEIR_OK ? written : status;
    }
    if (status == WEIR_OK)
        printf("%s is the draft, %s says why it is so.\n", output, path);
    free(path);
    return status;
}

typedef struct wishes {
    bool as_json, explains;
    const char *output;
} wishes;

static weir_status deliver(const wishes *wish, const char *source, weir_bytes *draft,
                           const weir_bytes *reasons, weir_error *error) {
    weir_status status = wish->as_json ? WEIR_OK : weir_json_indent(draft, BROKEN_DEPTH, error);
    if (status != WEIR_OK)
        return status;
    if (wish->output) {
        status = cli_write_file(wish->output, draft->data, draft->size, error);
        return status == WEIR_OK ? write_notes(wish->output, source, reasons, error) : status;
    }
    if (wish->explains && wish->as_json)
        fwrite(reasons->data, 1, reasons->size, stdout);
    else if (wish->explains)
        return cli_write_reasons(stdout, source, reasons, error);
    else
        fwrite(draft->data, 1, draft->size, stdout);
    if (wish->as_json)
        putchar('\n');
    return WEIR_OK;
}

static int draft(const wishes *wish, weir_ingest_options *options) {
    weir_error error;
    weir_bytes schema = {0}, reasons = {0};
    cli_progress progress;
    cli_progress_begin(&progress);
    options->progress = cli_progress_show;
    options->progress_context = &progress;
    options->reasons = &reasons;
    cli_signals_catch(NULL, NULL);
    weir_status status = weir_schema_draft(NULL, options, &schema, &error);
    cli_signals_release();
    cli_progress_end(&progress);
    if (status == WEIR_OK)
        status = deliver(wish, options->source, &schema, &reasons, &error);
    weir_bytes_release(&schema);
    weir_bytes_release(&reasons);
    return status == WEIR_OK ? cli_flush() : cli_fail(&error, wish->as_json);
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
    bool json_schema = false;
    wishes wish = {0};
    weir_ingest_options ingest = WEIR_INGEST_OPTIONS;
    cli_source_options source = {0};
    const char *check = NULL;
    cli_option options[] = {{"--json", CLI_FLAG, &wish.as_json, false, false},
                            {"--json-schema", CLI_FLAG, &json_schema, false, false},
                            {"--explain", CLI_FLAG, &wish.explains, false, false},
                            {"--output", CLI_TEXT, &wish.output, false, false},
                            {"--check", CLI_TEXT, &check, false, false},
                            {"--threads", CLI_UINT32, &ingest.threads, false, false},
                            CLI_SOURCE_OPTIONS(source)};
    char **arguments = cli_long_arguments(argc, argv);
    int count = arguments ? cli_parse(self, options, sizeof options / sizeof *options, argc, arguments,
                                      &ingest.source, 1)
                          : -1;
    free(arguments);
    if (count < 0)
        return CLI_USAGE;
    if (json_schema) {
        fputs(weir_schema_json_schema(), stdout);
        return cli_flush();
    }
    if (check)
        return check_schema(check, wish.as_json);
    if (count != 1)
        return cli_usage(self, "say which source");
    cli_use_source(&source, &ingest);
    return draft(&wish, &ingest);
}

const cli_command cli_schema = {
    .name = "schema",
    .summary = "draft a schema from a database",
    .usage = "weir schema SOURCE [-o FILE] [--explain] [--threads N] [--json]\n"
             "                   " CLI_SOURCE_USAGE "\n"
             "       weir schema --check FILE\n"
             "       weir schema --json-schema",
    .help = CLI_SOURCE_HELP
    "  -o, --output F    write the draft there, and the reasons beside it (NAME.notes.md)\n"
    "  --explain         print the reasons for each choice instead of the draft\n"
    "  --threads N       connections that read at once (default: the number of processors)\n"
    "  --json            print in one line\n"
    "  --check FILE      say whether a schema is well-formed, without a source\n"
    "  --json-schema     print a JSON Schema of schemas, for editors\n\n"
    "The draft follows what the source declares (keys, types), its names and all of its rows. It has keys "
    "that\n"
    "are not declared, says which columns are times and when each row came to be, and has a few tasks. Read\n"
    "the reasons, edit the draft, and give it to weir ingest --schema.\n",
    .example = "  weir schema shop.sqlite -o shop.schema.json\n"
               "  weir schema flights/ --null NA --explain\n",
    .run = run,
};
