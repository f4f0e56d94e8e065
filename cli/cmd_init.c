/* weir init SOURCE: from a database to a store with one task. Says what the source holds, asks what to
 * predict, writes a schema with this one task, ingests by it, and makes a page to look at. Answers come from
 * options, or from the standard input, line by line; an empty line takes what is proposed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "draft.h"
#include "ingest_run.h"
#include "source_options.h"

enum { ANSWER_SIZE = 512, PATH_SIZE = 4096, SHOWN_MAX = 60 };

typedef struct init {
    weir_ingest_options options;
    const char *folder;
    const char *target;
    bool takes_proposals; /* --yes */
    bool is_forced;
    bool as_json;
    char shown_source[PATH_SIZE]; /* without passwords */
    char schema_path[PATH_SIZE];
    char store_path[PATH_SIZE];
    char page_path[PATH_SIZE];
    char notes_path[PATH_SIZE];
} init;

/* ---- What can be predicted ------------------------------------------------------------------- */

typedef struct choice {
    char table[ANSWER_SIZE];
    char column[ANSWER_SIZE];
    char stype[32];
    bool is_proposed;
} choice;

typedef struct choices {
    choice *list;
    size_t count;
} choices;

static void copy_value(const weir_cbor_value *text, char *out, size_t size) {
    snprintf(out, size, "%.*s", text->number < size ? (int)text->number : (int)size - 1,
             (const char *)text->data);
}

static bool can_be_target(const weir_cbor_value *table, const weir_cbor_value *name,
                          const weir_cbor_value *column, weir_cbor_value *stype) {
#define FIT(id, number, name, value, can_be_target) {#name, can_be_target},
    static const struct {
        const char *stype;
        bool can_be_target;
    } known[] = {WEIR_STYPES(FIT)};
    weir_cbor_value other;
    bool is_fit = false;
    if (!weir_cbor_get(column, "stype", stype) || weir_cbor_get(column, "foreign_key", &other))
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_fit = is_fit || (known[i].can_be_target && weir_cbor_is_text(stype, known[i].stype));
    bool is_time = weir_cbor_get(table, "temporal_column", &other) && other.type == WEIR_CBOR_TEXT &&
                   other.number == name->number && memcmp(other.data, name->data, (size_t)name->number) == 0;
    return is_fit && !is_time;
}

static bool is_proposed(const weir_cbor_value *document, const choice *c) {
    weir_cbor_value tasks, key, task, table, column;
    if (!weir_cbor_get(document, "tasks", &tasks))
        return false;
    weir_cbor_iterator it = weir_cbor_children(&tasks);
    while (weir_cbor_next(&it, &key, &task))
        if (weir_cbor_get(&task, "anchor_table", &table) && weir_cbor_get(&task, "target_column", &column) &&
            weir_cbor_is_text(&table, c->table) && weir_cbor_is_text(&column, c->column))
            return true;
    return false;
}

/* All columns that can be a target, the proposed ones first. */
static weir_status find_choices(const weir_cbor_value *document, choices *out, weir_error *error) {
    weir_cbor_value tables, name, table, columns, column_name, column, stype;
    *out = (choices){0};
    if (!weir_cbor_get(document, "tables", &tables))
        return WEIR_OK;
    for (int proposed = 1; proposed >= 0; proposed--) {
        weir_cbor_iterator it = weir_cbor_children(&tables);
        while (weir_cbor_next(&it, &name, &table)) {
            if (!weir_cbor_get(&table, "columns", &columns))
                continue;
            weir_cbor_iterator inner = weir_cbor_children(&columns);
            while (weir_cbor_next(&inner, &column_name, &column)) {
                choice c;
                if (!can_be_target(&table, &column_name, &column, &stype))
                    continue;
                copy_value(&name, c.table, sizeof c.table);
                copy_value(&column_name, c.column, sizeof c.column);
                copy_value(&stype, c.stype, sizeof c.stype);
                c.is_proposed = is_proposed(document, &c);
                if (c.is_proposed != (proposed == 1))
                    continue;
                choice *grown = realloc(out->list, (out->count + 1) * sizeof *grown);
                if (!grown)
                    return cli_error(error, WEIR_OUT_OF_MEMORY, "no memory for the choices");
                out->list = grown;
                out->list[out->count++] = c;
            }
        }
    }
    return WEIR_OK;
}

/* A number of the list, or table.column. */
static const choice *find_choice(const choices *all, const char *answer) {
    char *end;
    unsigned long number = strtoul(answer, &end, 10);
    if (*answer && *end == 0 && number >= 1 && number <= all->count)
        return &all->list[number - 1];
    for (size_t i = 0; i < all->count; i++) {
        const choice *c = &all->list[i];
        size_t size = strlen(c->table);
        if (strncmp(answer, c->table, size) == 0 && answer[size] == '.' &&
            strcmp(answer + size + 1, c->column) == 0)
            return c;
    }
    return NULL;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* NULL if nobody answers. */
static const choice *ask_target(const init *self, const choices *all) {
    char answer[ANSWER_SIZE] = "";
    if (self->target)
        return find_choice(all, self->target);
    if (self->takes_proposals)
        return &all->list[0];
    printf("What should be predicted?\n");
    for (size_t i = 0; i < all->count && i < SHOWN_MAX; i++) {
        if (i > 0 && all->list[i - 1].is_proposed && !all->list[i].is_proposed)
            printf("   others:\n");
        printf("  %2zu  %s.%s (%s)\n", i + 1, cli_shown(all->list[i].table), cli_shown(all->list[i].column),
               all->list[i].stype);
    }
    if (all->count > SHOWN_MAX)
        printf("   and %zu more: table.column names one\n", all->count - SHOWN_MAX);
    for (;;) {
        printf("A number, or table.column [%s.%s]: ", cli_shown(all->list[0].table),
               cli_shown(all->list[0].column));
        fflush(stdout);
        if (!fgets(answer, (int)sizeof answer, stdin))
            return NULL;
        answer[strcspn(answer, "\r\n")] = 0;
        const choice *found = *answer ? find_choice(all, answer) : &all->list[0];
        if (found)
            return found;
        printf("%s is not in the list.\n", cli_shown(answer));
    }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static weir_status choose_paths(init *self, const weir_cbor_value *document, weir_error *error) {
    weir_cbor_value name;
    char stem[ANSWER_SIZE] = "database";
    if (weir_cbor_get(document, "name", &name))
        copy_value(&name, stem, sizeof stem);
    const char *folder = self->folder ? self->folder : ".";
    if (strlen(folder) + strlen(stem) + 32 > PATH_SIZE)
        return cli_error(error, WEIR_IO_ERROR, "the folder's path is too long");
    const char *slash = strcmp(folder, ".") == 0 ? "" : "/";
    const char *before = *slash ? folder : "";
    sprintf(self->schema_path, "%s%s%s.schema.json", before, slash, stem);
    sprintf(self->notes_path, "%s%s%s.schema.notes.md", before, slash, stem);
    sprintf(self->store_path, "%s%s%s.weir", before, slash, stem);
    sprintf(self->page_path, "%s%s%s.report.html", before, slash, stem);
    FILE *there = fopen(self->schema_path, "rb");
    if (there)
        fclose(there);
    if (there && !self->is_forced)
        return cli_error(
            error, WEIR_CONTRACT_VIOLATION,
            "%s is there already; edit it and run weir ingest, give --force, or choose another --dir",
            self->schema_path);
    return WEIR_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* Drafts without a target, and asks for one of what it finds. */
static weir_status ask(init *self, choice *out, weir_error *error) {
    cli_draft draft = {0};
    weir_cbor_writer w;
    choices all = {0};
    const choice *chosen = NULL;
    weir_cbor_value document = {0};
    weir_cbor_writer_memory(&w, NULL);
    weir_status status = cli_draft_make(&draft, &self->options, error);
    if (status == WEIR_OK)
        status =
            weir_json_read(draft.schema.data, draft.schema.size, "the draft", WEIR_SCHEMA_INVALID, &w, error);
    if (status == WEIR_OK)
        status = weir_cbor_finish(&w, error);
    if (status == WEIR_OK) {
        document = weir_cbor_view(w.data);
        status = choose_paths(self, &document, error);
    }
    if (status == WEIR_OK)
        status = find_choices(&document, &all, error);
    if (status == WEIR_OK && all.count == 0)
        status = cli_error(error, WEIR_SCHEMA_INVALID, "%s has no column that can be predicted",
                           self->shown_source);
    else if (status == WEIR_OK)
        chosen = ask_target(self, &all);
    if (status == WEIR_OK && !chosen && !self->target)
        status =
            cli_error(error, WEIR_CANCELLED,
                      "nothing was chosen, nothing was written; without questions: --target TABLE.COLUMN, or "
                      "--yes");
    if (status == WEIR_OK && !chosen) {
        char names[ANSWER_SIZE] = "";
        for (size_t i = 0, used = 0; i < all.count; i++) {
            const choice *c = &all.list[i];
            size_t room = sizeof names - used - sizeof " and 18446744073709551615 more";
            if (strlen(c->table) + strlen(c->column) + sizeof ", ." > room) {
                sprintf(names + used, " and %zu more", all.count - i);
                break;
            }
            used += (size_t)sprintf(names + used, "%s%s.%s", i ? ", " : "", c->table, c->column);
        }
        status = cli_error(error, WEIR_TASK_INVALID,
                           "%s is not a column that can be predicted; these can: %s", self->target, names);
    }
    if (status == WEIR_OK)
        *out = *chosen;
    free(all.list);
    weir_cbor_release(&w);
    cli_draft_release(&draft);
    return status;
}

static int ingest(const init *self, const weir_bytes *schema, const choice *chosen) {
    weir_error error;
    cli_ingest_job job = {.options = self->options, .page = self->page_path};
    job.options.schema = schema->data;
    job.options.schema_size = schema->size;
    job.options.schema_name = self->schema_path;
    job.options.output = self->store_path;
    int result = cli_ingest_finish(&job, cli_ingest_run(&job, &error), &error, self->as_json);
    if (result == CLI_OK && !self->as_json) {
        const weir_store_info *info = weir_store_describe(job.store);
        printf(
            "\nThe task predicts %s.%s. Look at %s,\nread %s, edit %s if something is not right, and then\n"
            "  weir ingest %s --schema %s -o %s --html %s\n"
            "  weir batch --store %s --manifest %s --dataset %s/%s/train --html batch.html\n"
            "  weir run --store %s --manifest %s --steps 100\n",
            cli_shown(chosen->table), cli_shown(chosen->column), self->page_path, self->notes_path,
            self->schema_path, cli_shown(self->shown_source), self->schema_path, self->store_path,
            self->page_path, self->store_path, job.result.manifest_path, cli_shown(info->name),
            cli_shown(info->tasks[0].name), self->store_path, job.result.manifest_path);
    }
    cli_ingest_release(&job);
    return result == CLI_OK ? cli_flush() : result;
}

static int init_with(init *self) {
    weir_error error;
    choice chosen;
    cli_draft draft = {0};
    weir_status status = ask(self, &chosen, &error);
    if (status == WEIR_OK) {
        self->options.target_table = chosen.table;
        self->options.target_column = chosen.column;
        status = cli_draft_make(&draft, &self->options, &error);
        self->options.target_table = self->options.target_column = NULL;
    }
    if (status == WEIR_OK)
        status = cli_draft_indent(&draft, &error);
    /* Now there is something to put in: who is refused finds no empty folder. */
    if (status == WEIR_OK && self->folder && mkdir(self->folder, 0777) != 0 && errno != EEXIST)
        status =
            cli_error(&error, WEIR_IO_ERROR, "cannot make the folder %s: %s", self->folder, strerror(errno));
    if (status == WEIR_OK)
        status = cli_draft_save(&draft, self->options.source, self->schema_path, self->notes_path, &error);
    int result = status == WEIR_OK ? ingest(self, &draft.schema, &chosen) : cli_fail(&error, self->as_json);
    cli_draft_release(&draft);
    return result;
}

static int run(const cli_command *self, int argc, char **argv) {
    init i = {.options = WEIR_INGEST_OPTIONS};
    cli_source_options source = {0};
    cli_option options[] = {
        CLI_OPTION("--target", &i.target),         CLI_OPTION("--dir", &i.folder),
        CLI_OPTION("--yes", &i.takes_proposals),   CLI_OPTION("--force", &i.is_forced),
        CLI_OPTION("--strict", &i.options.strict), CLI_OPTION("--threads", &i.options.threads),
        CLI_OPTION("--json", &i.as_json),          CLI_SOURCE_OPTIONS(source, i.options)};
    if (cli_parse(self, options, CLI_COUNT(options), argc, argv, &i.options.source, 1, "say which source") <
        0)
        return CLI_USAGE;
    if (i.as_json && !i.target && !i.takes_proposals)
        return cli_usage(self, "--json asks nothing: say --target table.column, or --yes");
    cli_use_source(&source, &i.options);
    weir_location_text(i.options.source, i.shown_source, sizeof i.shown_source);
    return init_with(&i);
}

const cli_command cli_init = {
    .name = "init",
    .summary = "ask what to predict, then make a schema, a store and a page",
    .usage = "weir init SOURCE [--target TABLE.COLUMN | --yes] [--dir D] [--force] [--strict]\n"
             "                   " CLI_SOURCE_USAGE "\n"
             "                   [--threads N] [--json]",
    .help = CLI_SOURCE_HELP
    "  --target T.C      the table and column to predict (default: weir asks)\n"
    "  --yes             take what weir proposes, without asking\n"
    "  --dir D           where the files go (default: the working directory)\n"
    "  --force           replace a schema that is there already\n"
    "  --strict          warnings are errors: no store is written\n"
    "  --threads N       how many threads to use (default: the number of processors)\n"
    "  --json            print the report as JSON\n\n"
    "Writes NAME.schema.json (with NAME.schema.notes.md, the reasons), NAME.weir, NAME.manifest.json and\n"
    "NAME.report.html.\n",
    .example = "  weir init shop.sqlite\n  weir init f1/ --target results.position --dir f1-store\n",
    .run = run,
};
