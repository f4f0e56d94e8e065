/* weir schema SOURCE: the draft of a schema, for a person to edit, and the reasons for what is in it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "draft.h"
#include "source_options.h"

typedef struct wishes {
    bool as_json, explains, is_forced;
    const char *output;
} wishes;

/* What is there is replaced only if it is this draft, or if that is asked for: it may have been edited. */
static weir_status check_target(const wishes *wish, const cli_draft *draft, weir_error *error) {
    char *there;
    size_t size;
    struct stat found;
    weir_status status = cli_output_check(wish->output, error);
    if (status != WEIR_OK || wish->is_forced || stat(wish->output, &found) != 0 || !S_ISREG(found.st_mode))
        return status;
    bool is_same = found.st_size == (off_t)draft->schema.size;
    if (is_same) {
        status = cli_read_file(wish->output, &there, &size, error);
        if (status != WEIR_OK)
            return status;
        is_same = size == draft->schema.size && memcmp(there, draft->schema.data, size) == 0;
        free(there);
    }
    return is_same ? WEIR_OK
                   : cli_error(error, WEIR_CONTRACT_VIOLATION,
                               "%s is there already and is not this draft; give --force to replace it, or "
                               "choose another output",
                               wish->output);
}

/* The draft goes to a file, and the reasons beside it: "shop.schema.json" has them in "shop.schema.notes.md";
 * or one of the two is printed. */
static int make_draft(const wishes *wish, const weir_ingest_options *options) {
    weir_error error;
    cli_draft draft = {0};
    weir_status status = cli_draft_make(&draft, options, &error);
    if (status == WEIR_OK && !wish->as_json)
        status = cli_draft_indent(&draft, &error);
    if (status == WEIR_OK && wish->output) {
        size_t size = strlen(wish->output);
        bool has_ending = size > 5 && strcmp(wish->output + size - 5, ".json") == 0;
        char *notes = malloc(size + sizeof ".notes.md");
        if (notes)
            sprintf(notes, "%.*s.notes.md", (int)(has_ending ? size - 5 : size), wish->output);
        status = notes ? check_target(wish, &draft, &error)
                       : cli_error(&error, WEIR_OUT_OF_MEMORY, "no memory for a path");
        if (status == WEIR_OK)
            status = cli_draft_save(&draft, options->source, wish->output, notes, &error);
        if (status == WEIR_OK)
            printf("%s is the draft, %s says why it is so.\n", wish->output, notes);
        free(notes);
    } else if (status == WEIR_OK && wish->explains && !wish->as_json) {
        status = cli_draft_explain(&draft, stdout, options->source, &error);
    } else if (status == WEIR_OK) {
        const weir_bytes *shown = wish->explains ? &draft.reasons : &draft.schema;
        printf("%.*s%s", (int)shown->size, (const char *)shown->data, wish->as_json ? "\n" : "");
    }
    cli_draft_release(&draft);
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
    cli_option options[] = {
        CLI_OPTION("--json", &wish.as_json),     CLI_OPTION("--json-schema", &json_schema),
        CLI_OPTION("--explain", &wish.explains), CLI_OPTION("--output", &wish.output),
        CLI_OPTION("--check", &check),           CLI_OPTION("--threads", &ingest.threads),
        CLI_OPTION("--force", &wish.is_forced),  CLI_SOURCE_OPTIONS(source, ingest)};
    int count = cli_parse(self, options, CLI_COUNT(options), argc, argv, &ingest.source, 1, NULL);
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
    return make_draft(&wish, &ingest);
}

const cli_command cli_schema = {
    .name = "schema",
    .summary = "draft a schema from a database",
    .usage = "weir schema SOURCE [-o FILE [--force]] [--explain] [--threads N] [--json]\n"
             "                   " CLI_SOURCE_USAGE "\n"
             "       weir schema --check FILE\n"
             "       weir schema --json-schema",
    .help = CLI_SOURCE_HELP
    "  -o, --output F    write the draft there, and the reasons beside it (NAME.notes.md)\n"
    "  --force           replace a schema that is there already and is not this draft\n"
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
