/* weir context: what a model sees of an entity at a time, which need not be a seed of any split. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "batch_html.h"
#include "batch_npz.h"
#include "batch_print.h"
#include "key_text.h"
#include "selection.h"

typedef struct asked {
    const char *store, *manifest, *task, *npz, *html;
    cli_bytes token;
    cli_texts keys, rows, times;
    uint64_t seed;
    uint32_t threads;
    bool has_seed, is_destination, as_json, with_tensors;
} asked;

/* The requests, and what their keys borrow. */
typedef struct requests {
    weir_context_request list[CLI_TEXTS_MAX];
    weir_key_value values[CLI_TEXTS_MAX][CLI_KEY_PARTS];
    weir_cbor_writer documents[CLI_TEXTS_MAX];
    uint32_t count;
} requests;

static weir_status read_requests(const asked *a, const weir_store *store, requests *out, weir_error *error) {
    const weir_store_info *info = weir_store_describe(store);
    uint32_t table = WEIR_NONE; /* that keys are of */
    for (uint32_t i = 0; i < info->task_count; i++) {
        const weir_task *task = &info->tasks[i];
        if (strcmp(task->name, a->task) == 0)
            table = a->is_destination && task->link.is_link ? task->link.table : task->anchor_table;
    }
    size_t count = a->keys.count + a->rows.count;
    for (size_t i = 0; i < count; i++) {
        weir_context_request *r = &out->list[i];
        const char *time = a->times.count == 1 ? a->times.list[0] : a->times.count ? a->times.list[i] : NULL;
        int64_t row = 0;
        *r = (weir_context_request){.has_seed = a->has_seed,
                                    .seed = a->seed,
                                    .has_time = time != NULL,
                                    .is_destination = a->is_destination};
        if (time && !cli_integer(time, &r->time) && !weir_timestamp_parse(time, strlen(time), &r->time))
            return cli_error(error, WEIR_CONTRACT_VIOLATION,
                             "--time '%s' is not a time: write it as 2024-05-01, 2024-05-01T12:30:00Z or in "
                             "microseconds since 1970",
                             time);
        weir_cbor_writer_memory(&out->documents[i], NULL);
        out->count++;
        if (a->keys.count > 0) {
            const char *key = a->keys.list[i];
            r->key = out->values[i];
            r->key_count = cli_key_read(key, &out->documents[i], out->values[i]);
            (void)cli_key_find(store, table, out->values[i], r->key_count, key); /* digits may be a text */
        } else if (cli_integer(a->rows.list[i], &row) && row >= 0 && row < WEIR_NONE) {
            r->row = (uint32_t)row;
        } else {
            return cli_error(error, WEIR_CONTRACT_VIOLATION, "--row '%s' is not the number of a row",
                             a->rows.list[i]);
        }
    }
    return WEIR_OK;
}

/* ---- What is shown ----------------------------------------------------------------------------- */

/* The split of a request that is a seed of the store, or NULL. */
static const char *split_of(const weir_store *store, const weir_batch *batch, uint32_t i) {
    int64_t time = (int64_t)cli_batch_field(batch, WEIR_OBSERVATION_TIME, i);
    weir_seed_row seed;
    if (cli_batch_field(batch, WEIR_SAMPLE_INDEX, i) == WEIR_NO_SAMPLE)
        return NULL;
    weir_batch_source source = cli_batch_source(store, batch, i);
    uint64_t index = weir_store_find_seed(store, batch->task, cli_batch_anchor(&source, batch, i), time);
    return index != WEIR_NO_ROW && weir_store_seed(store, batch->task, index, &seed)
               ? weir_split_name(seed.split)
               : NULL;
}

static int print_json(const asked *a, const weir_store *store, const weir_batch *batch) {
    weir_json_writer w;
    cli_json_begin(&w);
    cli_batch_write_head(&w, store, batch);
    weir_json_pair_array(&w, "sequences");
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const char *split = split_of(store, batch, i);
        weir_json_object(&w);
        weir_json_pair_text(&w, "split", split);
        weir_json_key(&w, "sample_index");
        if (split)
            weir_json_uint(&w, cli_batch_field(batch, WEIR_SAMPLE_INDEX, i));
        else
            weir_json_null(&w);
        cli_batch_write_sequence(&w, store, batch, i);
        weir_json_end_object(&w);
    }
    weir_json_end_array(&w);
    if (a->with_tensors)
        cli_batch_write_tensors(&w, batch);
    return cli_print_object(&w);
}

static int print_text(const weir_store *store, const weir_batch *batch) {
    const weir_task *task = &weir_store_describe(store)->tasks[batch->task];
    printf("task %s predicts %s (%s)\n", cli_shown(task->name), cli_shown(task->target_column),
           weir_stype_name(task->stype));
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        const char *split = split_of(store, batch, i);
        printf("  ");
        cli_batch_print_sequence(store, batch, i);
        if (split)
            printf("    sample %" PRIu64 " of %s: its %s\n", cli_batch_field(batch, WEIR_SAMPLE_INDEX, i),
                   split, task->link.is_link ? "source" : "label is the target");
        else if (task->link.is_link)
            printf("    no sequence of the store's pairs: it draws by its own seed\n");
        else if (!task->is_cell)
            printf("    not a seed of the store: the target is null\n");
    }
    return cli_flush();
}

static weir_status write_page(const asked *a, const weir_store *store, const weir_manifest *manifest,
                              const weir_batch *batch, weir_error *error) {
    char dataset[2 * CLI_SHOWN_MAX];
    snprintf(dataset, sizeof dataset, "%s/%s/train", weir_store_describe(store)->name, a->task);
    cli_batch_context context = {.store = store, .manifest = manifest, .dataset = dataset, .world_size = 1};
    cli_batch_html *page = NULL;
    weir_status status = cli_batch_html_open(&context, batch, &page, error);
    if (status == WEIR_OK) {
        cli_batch_html_add(page, batch);
        status = cli_batch_html_write(page, a->html, error);
    }
    cli_batch_html_close(page);
    return status;
}

static int answer(const asked *a, const weir_store *store, const weir_manifest *manifest) {
    weir_error error;
    weir_batch_builder *builder = NULL;
    weir_batch_buffer *buffer = NULL;
    requests *r = calloc(1, sizeof *r);
    if (!r) {
        (void)cli_error(&error, WEIR_OUT_OF_MEMORY, "no memory for the requests");
        return cli_fail(&error, a->as_json);
    }
    weir_context_options options = {.size = sizeof options,
                                    .store = store,
                                    .manifest = manifest,
                                    .task = a->task,
                                    .most_requests = (uint32_t)(a->keys.count + a->rows.count),
                                    .token = a->token.data,
                                    .token_size = a->token.size,
                                    .with_digests = true,
                                    .threads = a->threads};
    weir_status status = weir_context_builder_open(NULL, &options, &builder, &error);
    if (status == WEIR_OK)
        status = read_requests(a, store, r, &error);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error);
    if (status == WEIR_OK)
        status = weir_context_build(builder, r->list, r->count, buffer, &error);
    const weir_batch *batch = buffer ? weir_batch_view(buffer) : NULL;
    if (status == WEIR_OK && a->npz)
        status = cli_write_npz(batch, a->npz, &error);
    if (status == WEIR_OK && a->html)
        status = write_page(a, store, manifest, batch, &error);
    int result = status != WEIR_OK ? cli_fail(&error, a->as_json)
                 : a->as_json      ? print_json(a, store, batch)
                                   : print_text(store, batch);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    for (uint32_t i = 0; i < r->count; i++)
        weir_cbor_release(&r->documents[i]);
    free(r);
    return result;
}

/* ---- The command ------------------------------------------------------------------------------- */

static int check(const cli_command *self, const asked *a) {
    size_t count = a->keys.count + a->rows.count;
    const char *const outputs[] = {a->npz, a->html};
    if (count == 0)
        return cli_usage(self, "say whose context: --key KEY, or --row N");
    if (a->keys.count > 0 && a->rows.count > 0)
        return cli_usage(self, "--key and --row name rows in two ways; use one of them");
    if (a->times.count > 1 && a->times.count != count)
        return cli_usage(self, "there are %zu times for %zu rows; give one for all, or one for each",
                         a->times.count, count);
    if (a->with_tensors && !a->as_json)
        return cli_usage(self, "--tensors belongs to --json");
    for (size_t i = 0; i < 2; i++)
        if (cli_is_same_file(outputs[i], a->store) || cli_is_same_file(outputs[i], a->manifest))
            return cli_usage(self, "%s would replace an input; give it a name of its own",
                             i ? "--html" : "--npz");
    if (a->npz && a->html && (strcmp(a->npz, a->html) == 0 || cli_is_same_file(a->npz, a->html)))
        return cli_usage(self, "--npz and --html name one file; give each a name of its own");
    return CLI_OK;
}

static int run(const cli_command *self, int argc, char **argv) {
    asked a = {0};
    char path[CLI_PATH_MAX];
    weir_store_options opening = {.size = sizeof opening};
    cli_option options[] = {
        CLI_REQUIRED("--store", &a.store),
        CLI_OPTION("--manifest", &a.manifest),
        CLI_REQUIRED("--task", &a.task),
        CLI_OPTION("--key", &a.keys),
        CLI_OPTION("--row", &a.rows),
        CLI_OPTION("--time", &a.times),
        CLI_OPTION("--token", &a.token),
        {"--verify", CLI_VERIFY, &opening.verify, false, false},
        CLI_OPTION("--npz", &a.npz),
        CLI_OPTION("--html", &a.html),
        CLI_OPTION("--tensors", &a.with_tensors),
        CLI_OPTION("--json", &a.as_json),
        CLI_OPTION("--destination", &a.is_destination),
        CLI_OPTION("--threads", &a.threads),
        CLI_OPTION("--seed", &a.seed),
    };
    size_t option_count = CLI_COUNT(options);
    if (cli_parse(self, options, option_count, argc, argv, NULL, 0, NULL) < 0)
        return CLI_USAGE;
    a.has_seed = options[option_count - 1].given;
    if (!a.manifest) { /* that ingest writes: the store's path with another ending */
        size_t length = strlen(a.store);
        bool has_ending = length > 5 && strcmp(a.store + length - 5, ".weir") == 0;
        snprintf(path, sizeof path, "%.*s.manifest.json", (int)(has_ending ? length - 5 : length), a.store);
        a.manifest = path;
    }
    if (check(self, &a) != CLI_OK)
        return CLI_USAGE;
    weir_error error;
    weir_manifest *manifest = NULL;
    weir_store *store = NULL;
    weir_status status = weir_store_open_with(NULL, a.store, &opening, &store, &error);
    if (status == WEIR_OK)
        status = weir_manifest_open(NULL, a.manifest, &manifest, &error);
    int result = status == WEIR_OK ? answer(&a, store, manifest) : cli_fail(&error, a.as_json);
    weir_store_close(store);
    weir_manifest_close(manifest);
    return result;
}

const cli_command cli_context = {
    .name = "context",
    .summary = "show what a model sees of an entity at a given time",
    .usage = "weir context --store S --task T (--key K | --row N)... [--time TIME]... [--seed N]\n"
             "                    [--destination] [--manifest M] [--token HEX] [--verify touched|all|none]\n"
             "                    [--threads N] [--json [--tensors]] [--npz OUT] [--html OUT]",
    .help =
        "  --store S        the store\n"
        "  --task T         one of its tasks; its anchor table has the key\n"
        "  --key K          whose context: 27005, AA, or a list for a key of several columns: '[1, \"x\"]'.\n"
        "                   May be given several times\n"
        "  --row N          instead of a key: the number of the row in the whole store\n"
        "  --time TIME      as of when: 2024-05-01, 2024-05-01T12:30:00Z, or microseconds since 1970; one\n"
        "                   for all keys, or one for each (default: the time of the row itself)\n"
        "  --destination    of a link task: the keys or rows are of its destination table, not of the\n"
        "                   source's\n"
        "  --seed N         another context, if the manifest's child_policy draws at random\n"
        "  --manifest M     whose batch settings count (default: beside the store)\n" CLI_TOKEN_HELP
            CLI_VERIFY_HELP "  --npz OUT        write all tensors to a file that numpy.load opens\n"
        "  --html OUT       write one page that shows rows, foreign keys and times\n"
        "  --threads N      how many threads share the walks of a context (default: 2 if they are many); "
        "the\n"
        "                   context is the same for any number\n"
        "  --json           dims, shapes, digests and sequences\n"
        "  --tensors        with --json: the values too, as hex of their little-endian bytes\n\n"
        "The key and the time need not be a seed of any split: this is what a model in use is asked. If "
        "they\n"
        "are one, the context is the one that the seed has in evaluation; else a derived task's target is\n"
        "null.\n",
    .example =
        "  weir context --store shop.weir --task churn --key 5 --time 2024-05-01 --html context.html\n",
    .run = run,
};
