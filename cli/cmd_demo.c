/* weir demo: a shop of any size, from nothing to a run that is stopped, resumed and replayed, so that one
 * command shows what weir does. It makes the database (demo_shop.c), ingests it with its schema, says what
 * happened, and takes batches. A demo that is given again keeps and uses the schema and the manifest that
 * somebody has edited. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "demo_shop.h"
#include "progress.h"
#include "run.h"

enum { STEPS_SHOWN = 6, RUN_STEPS = 200 };

typedef enum manifest_kept {
    MADE_ANEW,
    KEPT,       /* the manifest was edited; it fits the store */
    KEPT_ASIDE, /* it was edited and is of another store; the fresh one stays beside it */
} manifest_kept;

typedef struct demo {
    const char *folder;
    uint64_t scale;
    bool no_run, as_json;
    char database[CLI_PATH_MAX], schema[CLI_PATH_MAX], store[CLI_PATH_MAX], manifest[CLI_PATH_MAX];
    char fresh_manifest[CLI_PATH_MAX]; /* until it is clear what becomes of the one that is there */
    char trace[CLI_PATH_MAX], checkpoint[CLI_PATH_MAX];
    cli_progress progress;
    uint64_t began_ns;
    demo_counts counts;
    double make_seconds;
    uint64_t database_bytes;
    weir_ingest_report report;
    bool kept_schema;
    manifest_kept kept_manifest;
} demo;

/* ---- The database ------------------------------------------------------------------------------------- */

static void show_making(void *context, uint64_t done, uint64_t total) {
    demo *d = context;
    weir_progress state = {.phase = "make", .done = done, .total = total};
    state.elapsed_ns = cli_run_now_ns() - d->began_ns;
    cli_progress_show(&d->progress, &state);
}

/* Names the files and makes their folder. They are a demo's own if a demo's database is beside them: it is
 * made first. Without it they are somebody else's. */
static weir_status make_folder(demo *d, weir_error *error) {
    const struct {
        char *path;
        const char *name;
    } files[] = {{d->database, "shop.sqlite"},
                 {d->schema, "shop.schema.json"},
                 {d->store, "shop.weir"},
                 {d->manifest, "shop.manifest.json"},
                 {d->trace, "shop.trace"},
                 {d->checkpoint, "shop.checkpoint"},
                 {d->fresh_manifest, "shop.manifest.new.json"}};
    enum { FIRST = 1, END = 6 }; /* the files that a demo makes after its database */
    struct stat node;
    bool is_there;
    for (size_t i = 0; i < CLI_COUNT(files); i++)
        if (snprintf(files[i].path, CLI_PATH_MAX, "%s/%s", d->folder, files[i].name) >= CLI_PATH_MAX)
            return cli_error(error, WEIR_IO_ERROR, "the path of --dir is too long");
    if (mkdir(d->folder, 0777) != 0 && errno != EEXIST)
        return cli_error(error, WEIR_IO_ERROR, "cannot make the folder %s: %s", d->folder, strerror(errno));
    weir_status status = demo_shop_check(d->database, &is_there, error);
    if (status != WEIR_OK || is_there)
        return status;
    for (size_t i = FIRST; i < END; i++)
        if (lstat(files[i].path, &node) == 0)
            return cli_error(error, WEIR_IO_ERROR,
                             "%s is there already, without a demo's shop.sqlite; choose another --dir",
                             files[i].path);
    return WEIR_OK;
}

static weir_status make_database(demo *d, weir_error *error) {
    struct stat file;
    d->began_ns = cli_run_now_ns();
    demo_progress progress = d->progress.is_shown ? show_making : NULL;
    weir_status status = demo_shop_write(d->database, d->scale, progress, d, &d->counts, error);
    cli_progress_end(&d->progress);
    if (status != WEIR_OK)
        return status;
    d->make_seconds = (double)(cli_run_now_ns() - d->began_ns) * 1e-9;
    if (stat(d->database, &file) != 0)
        return cli_error(error, WEIR_IO_ERROR, "cannot look at %s: %s", d->database, strerror(errno));
    d->database_bytes = (uint64_t)file.st_size;
    return WEIR_OK;
}

/* ---- The schema and the manifest, which may have been edited ------------------------------------------ */

static bool is_plain_file(const char *path) {
    struct stat node;
    return lstat(path, &node) == 0 && S_ISREG(node.st_mode);
}

/* The schema to ingest by: the file's, in memory to be freed, if it is a plain file that differs from the
 * demo's own; else *edited is NULL, and the demo's own is written there (a link is replaced, not followed).
 */
static weir_status keep_schema(const char *path, char **edited, size_t *size, weir_error *error) {
    *edited = NULL;
    if (is_plain_file(path)) {
        weir_status status = cli_read_file(path, edited, size, error);
        if (status != WEIR_OK || *size != cli_demo_schema_size ||
            memcmp(*edited, cli_demo_schema, cli_demo_schema_size) != 0)
            return status;
        free(*edited);
        *edited = NULL;
    }
    if (unlink(path) != 0 && errno != ENOENT)
        return cli_error(error, WEIR_IO_ERROR, "cannot replace %s: %s", path, strerror(errno));
    return cli_write_file(path, cli_demo_schema, cli_demo_schema_size, error);
}

static weir_status read_document(const char *path, weir_cbor_writer *out, weir_error *error) {
    char *text = NULL;
    size_t size = 0;
    weir_cbor_writer_memory(out, NULL);
    weir_status status = cli_read_file(path, &text, &size, error);
    if (status == WEIR_OK)
        status = weir_json_read(text, size, path, WEIR_MANIFEST_INVALID, out, error);
    free(text);
    return status;
}

/* Whether two documents have the same members, the datasets aside; in *same_datasets, whether those too. */
static bool has_same_settings(const weir_cbor_value *left, const weir_cbor_value *right,
                              bool *same_datasets) {
    weir_cbor_value key, value, other_key, other;
    if (left->type != WEIR_CBOR_MAP || right->type != WEIR_CBOR_MAP || left->number != right->number)
        return false;
    bool is_same = true;
    weir_cbor_iterator it = weir_cbor_children(left), other_it = weir_cbor_children(right);
    while (weir_cbor_next(&it, &key, &value) && weir_cbor_next(&other_it, &other_key, &other)) {
        bool is_equal = weir_cbor_is_same(&key, &other_key) && weir_cbor_is_same(&value, &other);
        if (weir_cbor_is_text(&key, "datasets") && weir_cbor_is_text(&other_key, "datasets"))
            *same_datasets = is_equal;
        else if (!is_equal)
            is_same = false;
    }
    return is_same;
}

/* Puts the fresh manifest in the place of the one that is there, unless that one was edited: it differs in
 * more than its datasets, which follow from the store, or cannot be read. OUT_OF_MEMORY if nobody can know.
 */
static weir_status keep_manifest(demo *d, weir_error *error) {
    weir_cbor_writer fresh, old;
    weir_error failure;
    bool same_settings = false, same_datasets = false;
    weir_status status = read_document(d->fresh_manifest, &fresh, error);
    weir_status found = read_document(d->manifest, &old, &failure);
    if (status == WEIR_OK && found == WEIR_OK) {
        weir_cbor_value there = weir_cbor_view(old.data), made = weir_cbor_view(fresh.data);
        same_settings = has_same_settings(&there, &made, &same_datasets);
    }
    weir_cbor_release(&fresh);
    weir_cbor_release(&old);
    if (status != WEIR_OK)
        return status;
    if (found == WEIR_OUT_OF_MEMORY) {
        *error = failure;
        return found;
    }
    d->kept_manifest = same_settings ? MADE_ANEW : same_datasets ? KEPT : KEPT_ASIDE;
    if (d->kept_manifest == MADE_ANEW && rename(d->fresh_manifest, d->manifest) != 0)
        return cli_error(error, WEIR_IO_ERROR, "cannot replace %s: %s", d->manifest, strerror(errno));
    if (d->kept_manifest == KEPT && unlink(d->fresh_manifest) != 0)
        return cli_error(error, WEIR_IO_ERROR, "cannot remove %s: %s", d->fresh_manifest, strerror(errno));
    return WEIR_OK;
}

/* By the schema that is there, if it was edited, and beside a manifest that was. */
static weir_status ingest(demo *d, weir_error *error) {
    char *edited;
    size_t edited_size;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_status status = keep_schema(d->schema, &edited, &edited_size, error);
    if (status != WEIR_OK)
        return status;
    d->kept_schema = edited != NULL;
    bool has_manifest = is_plain_file(d->manifest);
    options.source = d->database;
    options.schema = edited ? edited : (const char *)cli_demo_schema;
    options.schema_size = edited ? edited_size : cli_demo_schema_size;
    options.schema_name = d->schema;
    options.output = d->store;
    options.manifest = has_manifest ? d->fresh_manifest : d->manifest;
    options.progress = cli_progress_show;
    options.progress_context = &d->progress;
    status = weir_ingest(NULL, &options, &d->report, error);
    cli_progress_end(&d->progress);
    free(edited);
    return status == WEIR_OK && has_manifest ? keep_manifest(d, error) : status;
}

/* ---- What happened ------------------------------------------------------------------------------------ */

/* The manifest that fits the store. */
static const char *manifest_of(const demo *d) {
    return d->kept_manifest == KEPT_ASIDE ? d->fresh_manifest : d->manifest;
}

static void print_report(const demo *d, const weir_store_info *info) {
    const weir_ingest_report *report = &d->report;
    double ingest_seconds = (double)report->total_ns / 1e9;
    char source_size[32], store_size[32], embedding_size[32];
    cli_format_bytes(d->database_bytes, source_size);
    cli_format_bytes(report->store_bytes, store_size);
    cli_format_bytes(report->embedding_bytes, embedding_size);
    printf("Made %s: %" PRIu64 " rows in %d tables, %s, in %.1f s.\n", d->database, d->counts.total,
           DEMO_TABLES, source_size, d->make_seconds);
    printf("Ingested it by %s into %s:\n", d->schema, d->store);
    printf("  %s (%s of them embeddings), in %.1f s, %.0f rows per second.\n", store_size, embedding_size,
           ingest_seconds, (double)report->rows / ingest_seconds);
    printf("  %" PRIu64 " edges; %" PRIu64
           " foreign keys lead nowhere (reviews of products that are gone).\n",
           report->edges, report->dangling);
    printf("\n  %-12s %10s  %s\n", "table", "rows", "columns");
    for (uint32_t t = 0; t < info->table_count; t++) {
        const weir_table *table = &info->tables[t];
        printf("  %-12s %10" PRIu32 " ", table->name, table->row_count);
        for (uint32_t c = 0; c < table->column_count; c++)
            printf(" %s", info->columns[table->column_start + c].name);
        printf("\n");
    }
    printf("\n  %-12s %-8s %-12s %-10s %9s %9s %9s\n", "task", "kind", "target", "anchor", "train", "val",
           "test");
    for (uint32_t t = 0; t < info->task_count; t++) {
        const weir_task *task = &info->tasks[t];
        printf("  %-12s %-8s %-12s %-10s", task->name, weir_task_kind(task), weir_stype_name(task->stype),
               info->tables[task->anchor_table].name);
        for (int split = 0; split < WEIR_SPLITS; split++)
            printf(" %9" PRIu64, task->split_start[split + 1] - task->split_start[split]);
        printf("\n");
    }
    printf("\nWhat is known only later (a delivery, a return) is hidden until then: see known_at in the "
           "schema.\n");
    cli_print_hex("Store hash ", report->store_hash, WEIR_HASH_SIZE);
    if (d->kept_schema)
        printf(
            "\n%s was edited: it is kept, and the shop was ingested by it. Remove it to get the demo's own "
            "back.\n",
            d->schema);
    if (d->kept_manifest == KEPT)
        printf("\n%s was edited: it is kept. Remove it to get the demo's own back.\n", d->manifest);
    if (d->kept_manifest == KEPT_ASIDE)
        printf("\n%s was edited: it is kept, but it is of another store than this one, whose manifest is\n"
               "%s.\n",
               d->manifest, d->fresh_manifest);
}

/* The first steps of a run over all tasks, as any worker at any world size would find them. */
static weir_status print_steps(const demo *d, const weir_manifest *manifest, weir_error *error) {
    weir_mix *mix = NULL;
    weir_status status = weir_mix_open(NULL, manifest, NULL, 0, &mix, error);
    if (status == WEIR_OK)
        printf("\nA run over all tasks (%s) begins with\n", manifest_of(d));
    for (uint64_t step = 0; step < STEPS_SHOWN && status == WEIR_OK; step++) {
        const weir_dataset *dataset;
        weir_cursor cursor;
        status = weir_mix_locate(mix, step, &dataset, &cursor, error);
        if (status == WEIR_OK)
            printf("  step %" PRIu64 ": %s, epoch %" PRIu64 ", position %" PRIu64 "\n", step, dataset->key,
                   cursor.epoch, cursor.global_index);
    }
    weir_mix_close(mix);
    return status;
}

/* One sitting of the run, up to `steps`; from the checkpoint if there is one. */
static weir_status sit(const demo *d, weir_store *store, const weir_manifest *manifest, uint64_t steps,
                       uint32_t workers, weir_error *error) {
    cli_running run = {.began_ns = cli_run_now_ns()};
    weir_run_options options = {.size = sizeof options,
                                .stores = &store,
                                .store_count = 1,
                                .manifest = manifest,
                                .world_size = 1,
                                .with_digests = true,
                                .steps = steps,
                                .workers = workers,
                                .trace = d->trace,
                                .checkpoint = d->checkpoint,
                                .resume = d->checkpoint};
    weir_status status = weir_run_open(NULL, &options, &run.run, error);
    if (status == WEIR_OK)
        status = cli_run_loop(&run, error);
    if (status == WEIR_OK) /* the files are named once, below */
        status = cli_run_tell(&run, false, error);
    weir_run_close(run.run);
    return status;
}

/* A short run that is stopped half way, resumed, and replayed. */
static weir_status run_and_replay(const demo *d, weir_store *store, const weir_manifest *manifest,
                                  weir_error *error) {
    weir_replay_report report;
    weir_replay_options replaying = {.size = sizeof replaying, .stores = &store, .store_count = 1};
    unlink(d->trace);
    unlink(d->checkpoint);
    printf("\nA run of %d steps, stopped at step %d, and resumed from %s with two workers:\n", RUN_STEPS,
           RUN_STEPS / 2, d->checkpoint);
    weir_status status = sit(d, store, manifest, RUN_STEPS / 2, 1, error);
    if (status == WEIR_OK)
        status = sit(d, store, manifest, RUN_STEPS, 2, error);
    if (status == WEIR_OK)
        status = weir_trace_replay(NULL, d->trace, &replaying, &report, error);
    if (status == WEIR_OK)
        printf("Replayed from %s: %" PRIu64 " steps, %" PRIu64
               " batches built again; every field and every digest is equal.\n",
               d->trace, report.steps, report.checked_digests);
    return status;
}

static void print_what_next(const demo *d) {
    const char *manifest = manifest_of(d);
    printf("\nNext, with the shop:\n"
           "  weir info %s\n"
           "  weir batch --store %s --manifest %s --dataset shop/churn/train --html %s/batch.html\n"
           "  weir run --store %s --manifest %s --steps 300 --workers 2\n"
           "  weir ingest %s --schema %s -o %s    (after an edit of the schema; weir demo keeps it)\n",
           d->store, d->store, manifest, d->folder, d->store, manifest, d->database, d->schema, d->store);
    printf(
        "\nThen, with your own database (a SQLite or DuckDB file, a folder of Parquet or CSV files, or\n"
        "postgresql://USER@HOST/NAME or mysql://USER@HOST/NAME):\n"
        "  weir init mine.sqlite                    asks what to predict; makes schema, store and report\n"
        "  weir ingest mine.sqlite --schema mine.schema.json -o mine.weir     after an edit of the schema\n"
        "  weir info mine.weir                      its tables, tasks and datasets\n"
        "  weir batch --store mine.weir --manifest mine.manifest.json --dataset DATASET --html batch.html\n");
}

static int print_json(const demo *d) {
    weir_json_writer w;
    cli_json_begin(&w);
    weir_json_pair_text(&w, "database", d->database);
    weir_json_pair_text(&w, "schema", d->schema);
    weir_json_pair_text(&w, "store", d->report.store_path);
    weir_json_pair_text(&w, "manifest", manifest_of(d));
    weir_json_pair_object(&w, "rows");
    for (int table = 0; table < DEMO_TABLES; table++) {
        weir_json_pair_uint(&w, demo_table_names[table], d->counts.rows[table]);
    }
    weir_json_end_object(&w);
    weir_json_pair_uint(&w, "database_bytes", d->database_bytes);
    weir_json_pair_uint(&w, "store_bytes", d->report.store_bytes);
    weir_json_pair_double(&w, "make_seconds", d->make_seconds);
    weir_json_pair_double(&w, "ingest_seconds", (double)d->report.total_ns / 1e9);
    weir_json_pair_hex(&w, "store_hash", d->report.store_hash, WEIR_HASH_SIZE);
    return cli_print_object(&w);
}

static weir_status tell(const demo *d, weir_error *error) {
    weir_store *store = NULL;
    weir_manifest *manifest = NULL;
    weir_status status = weir_store_open(NULL, d->report.store_path, &store, error);
    if (status != WEIR_OK)
        return status;
    print_report(d, weir_store_describe(store));
    status = cli_check_output(error);
    if (status == WEIR_OK && !d->no_run)
        status = weir_manifest_open(NULL, manifest_of(d), &manifest, error);
    if (status == WEIR_OK && !d->no_run)
        status = print_steps(d, manifest, error);
    if (status == WEIR_OK && !d->no_run)
        status = run_and_replay(d, store, manifest, error);
    if (status == WEIR_OK)
        print_what_next(d);
    weir_manifest_close(manifest);
    weir_store_close(store);
    return status;
}

static int run(const cli_command *self, int argc, char **argv) {
    demo d = {.folder = "weir-demo", .scale = 100000};
    weir_error error;
    cli_option options[] = {
        CLI_OPTION("--scale", &d.scale),
        CLI_OPTION("--dir", &d.folder),
        CLI_OPTION("--no-run", &d.no_run),
        CLI_OPTION("--json", &d.as_json),
    };
    if (cli_parse(self, options, CLI_COUNT(options), argc, argv, NULL, 0, NULL) < 0)
        return CLI_USAGE;
    if (d.scale < DEMO_SCALE_MIN || d.scale > DEMO_SCALE_MAX)
        return cli_usage(self, "--scale is the number of rows, from %" PRIu64 " to %" PRIu64, DEMO_SCALE_MIN,
                         DEMO_SCALE_MAX);
    cli_progress_begin(&d.progress);
    weir_status status = make_folder(&d, &error);
    if (status == WEIR_OK)
        status = make_database(&d, &error);
    if (status == WEIR_OK)
        status = ingest(&d, &error);
    if (status == WEIR_OK && !d.as_json)
        status = tell(&d, &error);
    if (status != WEIR_OK)
        return cli_fail(&error, d.as_json);
    return d.as_json ? print_json(&d) : cli_flush();
}

const cli_command cli_demo = {
    .name = "demo",
    .summary = "make a shop database, ingest it, run over it, and say what happened",
    .usage = "weir demo [--scale N] [--dir D] [--no-run] [--json]",
    .help =
        "  --scale N   about how many rows, from 1000 to 1000000000 (default: 100000)\n"
        "  --dir D     the folder for shop.sqlite, shop.schema.json, shop.weir, shop.manifest.json, "
        "shop.trace\n"
        "              and shop.checkpoint (default: weir-demo). Files of an earlier demo are made again; a\n"
        "              schema or a manifest that you have edited is kept and used\n"
        "  --no-run    stop after ingest\n"
        "  --json      print one object: paths, rows, bytes, seconds, store_hash\n\n"
        "The shop has eight tables, with nulls, texts, rows that very many others lead to, columns that are\n"
        "known only later, and five tasks. The same scale\n"
        "gives the same store, byte for byte, on every machine.\n",
    .example = "  weir demo\n  weir demo --scale 1000000 --dir big-shop\n",
    .run = run,
};
