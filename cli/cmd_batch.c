/* weir batch: one batch of a dataset, to look at, to check or to load into numpy; several as a page. */
#include <inttypes.h>
#include <string.h>

#include "batch_html.h"
#include "batch_npz.h"
#include "batch_print.h"
#include "selection.h"

enum { MOST_STEPS = 100 };

typedef struct request {
    cli_selection of;
    weir_cursor at;
    cli_texts stores;
    const char *npz, *html;
    uint64_t steps;
    bool any_hash, pad, as_json, with_tensors;
    weir_store_options opening;
} request;

static int print_json(const request *r, const weir_store *store, const weir_batch *batch) {
    weir_json_writer w;
    cli_json_begin(&w);
    weir_json_pair_text(&w, "dataset", r->of.dataset);
    cli_batch_write_head(&w, store, batch);
    weir_json_pair_array(&w, "sequences");
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        weir_json_object(&w);
        if (batch->source_count > 0)
            weir_json_pair_text(&w, "dataset", cli_batch_source(store, batch, i).dataset);
        weir_json_pair_uint(&w, "sample_index", cli_batch_field(batch, WEIR_SAMPLE_INDEX, i));
        weir_json_pair_uint(&w, "epoch", batch->epochs[i]);
        cli_batch_write_sequence(&w, store, batch, i);
        weir_json_end_object(&w);
    }
    weir_json_end_array(&w);
    cli_json_cursor(&w, "cursor_next", batch->step.cursor_next);
    if (r->with_tensors)
        cli_batch_write_tensors(&w, batch);
    return cli_print_object(&w);
}

static void print_task(const char *dataset, const weir_store *store, uint32_t number) {
    const weir_task *task = &weir_store_describe(store)->tasks[number];
    printf("%s: task %s predicts %s (%s)\n", cli_shown(dataset), cli_shown(task->name),
           cli_shown(task->target_column), weir_stype_name(task->stype));
}

static int print_text(const request *r, const weir_store *store, const weir_batch *batch) {
    if (batch->source_count == 0)
        print_task(r->of.dataset, store, batch->task);
    for (uint32_t i = 0; i < batch->source_count; i++)
        print_task(batch->sources[i].dataset, batch->sources[i].store, batch->sources[i].task);
    printf("%s of %s, up to %s, %s: %.2f MB\n", cli_number(batch->sequence_count, "sequence", "sequences"),
           cli_number(batch->sequence_length, "cell", "cells"), cli_number(batch->row_count, "row", "rows"),
           cli_number(batch->text_count, "text", "texts"), (double)batch->size / 1e6);
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        if (batch->source_count > 0)
            printf("  %s", cli_shown(cli_batch_source(store, batch, i).dataset));
        printf("  sample %" PRIu64 " (epoch %" PRIu64 ", position %" PRIu64 "): ",
               cli_batch_field(batch, WEIR_SAMPLE_INDEX, i), batch->epochs[i],
               cli_batch_field(batch, WEIR_POSITION, i));
        cli_batch_print_sequence(store, batch, i);
    }
    printf("next: epoch %" PRIu64 ", position %" PRIu64 "\n", batch->step.cursor_next.epoch,
           batch->step.cursor_next.global_index);
    return cli_flush();
}

/* The batch at the cursor and those after it, as one page. */
static weir_status write_page(const request *r, const cli_batch_context *context, weir_stage stage,
                              weir_batch_builder *builder, weir_batch_buffer *buffer, weir_error *error) {
    cli_batch_html *page = NULL;
    weir_cursor at = r->at;
    bool is_more = true;
    weir_status status = WEIR_OK;
    for (uint64_t i = 0; status == WEIR_OK && is_more && i < r->steps; i++) {
        const weir_batch *batch = weir_batch_view(buffer);
        status = weir_batch_build(builder, at, buffer, error);
        if (status == WEIR_OK && i == 0)
            status = cli_batch_html_open(context, batch, &page, error);
        if (status != WEIR_OK)
            break;
        cli_batch_html_add(page, batch);
        weir_cursor next = batch->step.cursor_next; /* training goes round and round, everything else ends */
        is_more =
            stage == WEIR_STAGE_TRAIN || (next.epoch == at.epoch && next.global_index > at.global_index);
        at = next;
    }
    if (status == WEIR_OK)
        status = cli_batch_html_write(page, r->html, error);
    cli_batch_html_close(page);
    return status;
}

static int build(const request *r, const cli_stores *stores, const weir_manifest *manifest) {
    weir_error error;
    const weir_store *store = stores->list[0]; /* that has the dataset, if one has it */
    weir_stored_dataset stored;
    for (size_t i = stores->count; i-- > 0;)
        if (weir_store_dataset(stores->list[i], r->of.dataset, &stored, NULL) == WEIR_OK)
            store = stores->list[i];
    weir_batch_builder *builder = NULL;
    weir_batch_buffer *buffer = NULL;
    cli_batch_context context = {store, manifest, r->of.dataset, r->of.stage, r->of.world_size, r->of.rank};
    weir_batch_options options = {.size = sizeof options,
                                  .store = store,
                                  .stores = stores->list,
                                  .store_count = stores->count,
                                  .manifest = manifest,
                                  .dataset = r->of.dataset,
                                  .world_size = r->of.world_size,
                                  .rank = r->of.rank,
                                  .token = r->of.token.data,
                                  .token_size = r->of.token.size,
                                  .any_hash = r->any_hash,
                                  .pad = r->pad,
                                  .with_digests = true};
    weir_status status = weir_stage_parse(r->of.stage, &options.stage, &error);
    if (status == WEIR_OK)
        status = weir_batch_builder_open(NULL, &options, &builder, &error);
    if (status == WEIR_OK)
        status = weir_batch_buffer_open(&builder, 1, NULL, &buffer, &error);
    if (status == WEIR_OK && r->html)
        status = write_page(r, &context, options.stage, builder, buffer, &error);
    if (status == WEIR_OK)
        status = weir_batch_build(builder, r->at, buffer, &error);
    const weir_batch *batch = buffer ? weir_batch_view(buffer) : NULL;
    if (status == WEIR_OK && r->npz)
        status = cli_write_npz(batch, r->npz, &error);
    int result = status != WEIR_OK ? cli_fail(&error, r->as_json)
                 : r->as_json      ? print_json(r, store, batch)
                                   : print_text(r, store, batch);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    return result;
}

/* An output that would replace an input, or the other output, is a slip of the pen. */
static const char *find_clash(const request *r) {
    const char *const outputs[] = {r->npz, r->html};
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < r->stores.count; k++)
            if (cli_is_same_file(outputs[i], r->stores.list[k]))
                return i ? "--html names the store" : "--npz names the store";
        if (cli_is_same_file(outputs[i], r->of.manifest))
            return i ? "--html names the manifest" : "--npz names the manifest";
    }
    if (r->npz && r->html && (strcmp(r->npz, r->html) == 0 || cli_is_same_file(r->npz, r->html)))
        return "--npz and --html name one file";
    return NULL;
}

static int run(const cli_command *self, int argc, char **argv) {
    request r = {.of = CLI_SELECTION_DEFAULT, .steps = 1, .opening = {.size = sizeof r.opening}};
    cli_option options[] = {
        CLI_REQUIRED("--store", &r.stores), CLI_SELECTION_OPTIONS(r.of, true),
        CLI_CURSOR_OPTIONS(r.at),           CLI_OPTION("--any-hash", &r.any_hash),
        CLI_OPTION("--pad", &r.pad),        {"--verify", CLI_VERIFY, &r.opening.verify, false, false},
        CLI_OPTION("--npz", &r.npz),        CLI_OPTION("--html", &r.html),
        CLI_OPTION("--steps", &r.steps),    CLI_OPTION("--tensors", &r.with_tensors),
        CLI_OPTION("--json", &r.as_json),
    };
    if (cli_parse(self, options, CLI_COUNT(options), argc, argv, NULL, 0, NULL) < 0)
        return CLI_USAGE;
    if (r.with_tensors && !r.as_json)
        return cli_usage(self, "--tensors belongs to --json");
    if (r.steps != 1 && !r.html)
        return cli_usage(self, "--steps belongs to --html: it says how many batches the page shows");
    if (r.steps < 1 || r.steps > MOST_STEPS)
        return cli_usage(self, "--steps is from 1 to %d: a page holds about a megabyte per batch",
                         MOST_STEPS);
    const char *clash = find_clash(&r);
    if (clash)
        return cli_usage(self, "%s; give it a name of its own", clash);
    weir_error error;
    weir_manifest *manifest = NULL;
    cli_stores stores = {.count = 0};
    weir_status status = weir_manifest_open(NULL, r.of.manifest, &manifest, &error);
    if (status == WEIR_OK)
        status = cli_stores_open(&stores, &r.stores, &r.opening, &error);
    if (status == WEIR_OK)
        cli_selection_settle(&r.of, manifest);
    int result = status == WEIR_OK ? build(&r, &stores, manifest) : cli_fail(&error, r.as_json);
    cli_stores_close(&stores);
    weir_manifest_close(manifest);
    return result;
}

const cli_command cli_batch = {
    .name = "batch",
    .summary = "build one batch and show it",
    .usage = "weir batch --store S… --manifest M --dataset K [--stage S] [--epoch E] "
             "[--position P]\n"
             "                  [--world-size W] [--rank R] [--token HEX] [--pad] [--any-hash]\n"
             "                  [--verify touched|all|none]\n"
             "                  [--json [--tensors]] [--npz OUT] [--html OUT [--steps N]]",
    .help = "  --store S        a store; for a mixed batch, once for each store of the mix\n"
            "  --manifest M     the manifest; ingest writes one beside the store\n" CLI_ONE_DATASET_HELP
                CLI_CURSOR_HELP CLI_WORLD_HELP CLI_TOKEN_HELP
            "  --pad            fill up a partial batch with sequences of padding\n" CLI_ANY_HASH_HELP
                CLI_VERIFY_HELP "  --npz OUT        write all tensors to a file that numpy.load opens\n"
            "  --html OUT       write one page that shows each sequence: rows, foreign keys, times,\n"
            "                   masks, and how the labels are distributed\n"
            "  --steps N        with --html: the page shows N batches, this one and those after it\n"
            "  --json           dims, shapes, digests, sequences and cursor_next\n"
            "  --tensors        with --json: the values too, as hex of their little-endian bytes\n",
    .example = "  weir batch --store shop.weir --manifest shop.manifest.json --dataset shop/churn/train "
               "--npz batch.npz\n"
               "  weir batch --store shop.weir --manifest shop.manifest.json --dataset shop/churn/train "
               "--html batch.html --steps 3\n"
               "  weir batch --store shop.weir --store music.weir --manifest both.json --dataset '*'\n",
    .run = run,
};
