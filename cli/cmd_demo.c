/* weir demo: a shop of any size, from nothing to a run that is stopped, resumed and replayed, so that one
 * command shows what weir does. It makes the database (demo_shop.c), ingests it with its schema, says what
 * happened, and takes batches (demo_run.c). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "demo_keep.h"
#include "demo_run.h"
#include "demo_shop.h"
#include "progress.h"
#include "run.h"

enum { PATH_MAX_BYTES = 4096, STEPS_SHOWN = 6 };

typedef struct demo {
    const char *folder;
    uint64_t scale;
    bool no_run, as_json;
    char database[PATH_MAX_BYTES], schema[PATH_MAX_BYTES], store[PATH_MAX_BYTES], manifest[PATH_MAX_BYTES];
    char fresh_manifest[PATH_MAX_BYTES]; /* until it is clear what becomes of the one that is there */
    char trace[PATH_MAX_BYTES], checkpoint[PATH_MAX_BYTES];
    cli_progress progress;
    uint64_t began_ns;
    demo_counts counts;
    double make_seconds;
    uint64_t database_bytes;
    weir_ingest_report report;
    bool kept_schema;
    demo_kept kept_manifest;
} demo;

/* ---- Progress ----------------------------------------------------------------------------------------- */

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
        if (snprintf(files[i].path, PATH_MAX_BYTES, "%s/%s", d->folder, files[i].name) >= PATH_MAX_BYTES)
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

/* By the schema that is there, if it was edited, and beside a manifest that was. */
static weir_status ingest(demo *d, weir_error *error) {
    const char *own = (const char *)cli_demo_schema;
    char *edited;
    size_t edited_size;
    weir_ingest_options options = WEIR_INGEST_OPTIONS;
    weir_status status = demo_keep_schema(d->schema, own, cli_demo_schema_size, &edited, &edited_size, error);
    if (status != WEIR_OK)
        return status;
    d->kept_schema = edited != NULL;
    bool has_manifest = demo_has_manifest(d->manifest);
    options.source = d->database;
    options.schema = edited ? edited : own;
    options.schema_size = edited ? edited_size : cli_demo_schema_size;
    options.schema_name = d->schema;
    options.output = d->store;
    options.manifest = has_manifest ? d->fresh_manifest : d->manifest;
    options.progress = cli_progress_show;
    options.progress_context = &d->progress;
    status = weir_ingest(NULL, &options, &d->report, error);
    cli_progress_end(&d->progress);
    free(edited);
    if (status == WEIR_OK && has_manifest)
        status = demo_keep_manifest(d->manifest, d->fresh_manifest, &d->kept_manifest, error);
    return status;
}

/* The manifest that fits the store. */
static const char *manifest_of(const demo *d) {
    return d->kept_manifest == DEMO_KEPT_ASIDE ? d->fresh_manifest : d->manifest;
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
    if (d->kept_manifest == DEMO_KEPT)
        printf("\n%s was edited: it is kept. Remove it to get the demo's own back.\n", d->manifest);
    if (d->kept_manifest == DEMO_KEPT_ASIDE)
        printf("\n%s was edited: it is kept, but it is of another store than this one, whose manifest is\n"
               "%s.\n",
               d->manifest, d->fresh_manifest);
}

/* The first steps of a run over all tasks, as any worker at any world size would find them. */
static weir_status print_steps(const demo *d, weir_error *error) {
    weir_manifest *manifest = NULL;
    weir_mix *mix = NULL;
    weir_status status = weir_manifest_open(NULL, manifest_of(d), &manifest, error);
    if (status == WEIR_OK)
        status = weir_mix_open(NULL, manifest, NULL, 0, &mix, error);
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
    weir_manifest_close(manifest);
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
    cli_json_text(&w, "database", d->database);
    cli_json_text(&w, "schema", d->schema);
    cli_json_text(&w, "store", d->report.store_path);
    cli_json_text(&w, "manifest", manifest_of(d));
    cli_json_object(&w, "rows");
    for (int table = 0; table < DEMO_TABLES; table++) {
        cli_json_uint(&w, demo_table_names[table], d->counts.rows[table]);
    }
    weir_json_end_object(&w);
    cli_json_uint(&w, "database_bytes", d->database_bytes);
    cli_json_uint(&w, "store_bytes", d->report.store_bytes);
    cli_json_double(&w, "make_seconds", d->make_seconds);
    cli_json_double(&w, "ingest_seconds", (double)d->report.total_ns / 1e9);
    cli_json_hex(&w, "store_hash", d->report.store_hash, WEIR_HASH_SIZE);
    return cli_print_object(&w);
}

static weir_status tell(const demo *d, weir_error *error) {
    weir_store *store = NULL;
    weir_status status = weir_store_open(NULL, d->report.store_path, &store, error);
    if (status != WEIR_OK)
        return status;
    print_report(d, weir_store_describe(store));
    weir_store_close(store);
    demo_run_files files = {d->store, manifest_of(d), d->trace, d->checkpoint};
    if (!d->no_run)
        status = print_steps(d, error);
    if (status == WEIR_OK && !d->no_run)
        status = demo_run(&files, error);
    if (status == WEIR_OK)
        print_what_next(d);
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
    if (cli_parse(self, options, CLI_COUNT(options), argc, argv, NULL, 0) < 0)
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
