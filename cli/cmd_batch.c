/* weir batch: one batch of a dataset, to look at, to check or to load into numpy; several as a page. */
#include <inttypes.h>
#include <string.h>

#include "batch_html.h"
#include "batch_npz.h"
#include "selection.h"

enum { MOST_STEPS = 100 };

typedef struct request {
    cli_selection of;
    weir_cursor at;
    const char *store, *npz, *html, *verify;
    uint64_t steps;
    bool any_hash, pad, as_json, with_tensors;
} request;

static uint64_t load(const weir_batch *batch, weir_tensor_id id, uint32_t index) {
    const weir_tensor *part = &batch->tensors[id];
    size_t size = (size_t)(part->size / part->shape[0]);
    const uint8_t *at = batch->data + part->offset + size * index;
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)at[i] << 8 * i;
    return value;
}

static void write_sequences(weir_json_writer *w, const weir_store *store, const weir_batch *batch) {
    const weir_store_info *info = weir_store_describe(store);
    bool has_keys = info->tables[info->tasks[batch->task].anchor_table].key_form != WEIR_KEYS_NONE;
    weir_json_key(w, "sequences");
    weir_json_array(w);
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        char digest[24];
        weir_json_object(w);
        cli_json_uint(w, "sample_index", load(batch, WEIR_SAMPLE_INDEX, i));
        cli_json_uint(w, "epoch", batch->epochs[i]);
        cli_json_uint(w, "position", load(batch, WEIR_POSITION, i));
        cli_json_uint(w, "anchor_row", load(batch, WEIR_ANCHOR_ROW, i));
        if (has_keys) {
            weir_json_key(w, "anchor_key");
            if (load(batch, WEIR_NUM_ROWS, i) > 0)
                weir_store_key_json(store, (uint32_t)load(batch, WEIR_ANCHOR_ROW, i), w);
            else
                weir_json_null(w);
        }
        weir_json_key(w, "observation_time");
        weir_json_int(w, (int64_t)load(batch, WEIR_OBSERVATION_TIME, i));
        cli_json_uint(w, "num_cells", load(batch, WEIR_NUM_CELLS, i));
        cli_json_uint(w, "num_rows", load(batch, WEIR_NUM_ROWS, i));
        snprintf(digest, sizeof digest, "%016" PRIx64, batch->sample_digests[i]);
        cli_json_text(w, "sample_digest", digest);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
}

static void write_shape(weir_json_writer *w, const weir_tensor *tensor) {
    weir_json_array(w);
    for (uint32_t k = 0; k < tensor->rank; k++)
        weir_json_uint(w, tensor->shape[k]);
    weir_json_end_array(w);
}

static void write_dims(weir_json_writer *w, const weir_batch *batch) {
    const struct {
        const char *name;
        uint32_t value;
    } dims[] = {{"B", batch->sequence_count},
                {"S", batch->sequence_length},
                {"R", batch->row_count},
                {"U", batch->text_count},
                {"D_t", batch->embedding_dim}};
    weir_json_key(w, "dims");
    weir_json_object(w);
    for (size_t i = 0; i < sizeof dims / sizeof dims[0]; i++) {
        weir_json_key(w, dims[i].name);
        weir_json_uint(w, dims[i].value);
    }
    weir_json_end_object(w);
    weir_json_key(w, "shapes");
    weir_json_object(w);
    for (int id = 0; id < WEIR_TENSORS; id++) {
        weir_json_key(w, batch->tensors[id].name);
        write_shape(w, &batch->tensors[id]);
    }
    weir_json_end_object(w);
}

static void write_tensors(weir_json_writer *w, const weir_batch *batch) {
    weir_json_key(w, "tensors");
    weir_json_object(w);
    for (int id = 0; id < WEIR_TENSORS; id++) {
        const weir_tensor *tensor = &batch->tensors[id];
        weir_json_key(w, tensor->name);
        weir_json_object(w);
        cli_json_text(w, "dtype", tensor->dtype);
        weir_json_key(w, "shape");
        write_shape(w, tensor);
        weir_json_key(w, "data");
        weir_json_hex(w, batch->data + tensor->offset, (size_t)tensor->size);
        weir_json_end_object(w);
    }
    weir_json_end_object(w);
}

static int print_json(const request *r, const weir_store *store, const weir_batch *batch) {
    weir_json_writer w;
    weir_json_writer_memory(&w, NULL);
    weir_json_object(&w);
    cli_json_text(&w, "dataset", r->of.dataset);
    cli_json_text(&w, "task", weir_store_describe(store)->tasks[batch->task].name);
    cli_json_uint(&w, "task_idx", batch->task);
    cli_json_uint(&w, "target_stype", batch->target_stype);
    cli_json_uint(&w, "cat_emb_start", batch->category_start);
    cli_json_uint(&w, "cat_emb_count", batch->category_count);
    write_dims(&w, batch);
    cli_json_hex(&w, "batch_digest", batch->batch_digest, sizeof batch->batch_digest);
    write_sequences(&w, store, batch);
    cli_json_cursor(&w, "cursor_next", batch->step.cursor_next);
    if (r->with_tensors)
        write_tensors(&w, batch);
    weir_json_end_object(&w);
    return cli_print_json(&w);
}

/* "customers 5 (row 653 of the store)" if the store keeps keys, else "customers row 4 (…)". */
static void print_anchor(const weir_store *store, const weir_task *task, uint32_t row) {
    const weir_table *table = &weir_store_describe(store)->tables[task->anchor_table];
    char key[200], printable[200];
    if (weir_store_key_text(store, row, key, sizeof key) == 0)
        snprintf(key, sizeof key, "row %" PRIu32, row - table->row_start);
    printf("%s %s (row %" PRIu32 " of the store)", cli_shown(table->name),
           cli_printable(key, printable, sizeof printable), row);
}

static int print_text(const request *r, const weir_store *store, const weir_batch *batch) {
    const weir_task *task = &weir_store_describe(store)->tasks[batch->task];
    printf("%s: task %s predicts %s (%s)\n", cli_shown(r->of.dataset), cli_shown(task->name),
           cli_shown(task->target_column), weir_stype_name(task->stype));
    printf("%" PRIu32 " sequences of %" PRIu32 " cells, up to %" PRIu32 " rows, %" PRIu32 " texts: %.2f MB\n",
           batch->sequence_count, batch->sequence_length, batch->row_count, batch->text_count,
           (double)batch->size / 1e6);
    for (uint32_t i = 0; i < batch->sequence_count; i++) {
        int64_t seen = (int64_t)load(batch, WEIR_OBSERVATION_TIME, i);
        char time[40] = "everything";
        if (seen != INT64_MAX)
            weir_timestamp_format(seen, time);
        printf("  sample %" PRIu64 " (epoch %" PRIu64 ", position %" PRIu64 "): ",
               load(batch, WEIR_SAMPLE_INDEX, i), batch->epochs[i], load(batch, WEIR_POSITION, i));
        print_anchor(store, task, (uint32_t)load(batch, WEIR_ANCHOR_ROW, i));
        printf(" as of %s, %" PRIu64 " cells of %" PRIu64 " rows, digest %016" PRIx64 "\n", time,
               load(batch, WEIR_NUM_CELLS, i), load(batch, WEIR_NUM_ROWS, i), batch->sample_digests[i]);
    }
    printf("next: epoch %" PRIu64 ", position %" PRIu64 "\n", batch->step.cursor_next.epoch,
           batch->step.cursor_next.global_index);
    return cli_flush();
}

static int show(const request *r, const weir_store *store, const weir_batch *batch) {
    weir_error error;
    if (r->npz && cli_write_npz(batch, r->npz, &error) != WEIR_OK)
        return cli_fail(&error, r->as_json);
    if (r->as_json)
        return print_json(r, store, batch);
    return print_text(r, store, batch);
}

/* Whether there is a batch after this one: training goes round and round, everything else ends. */
static bool has_next(const weir_batch *batch, weir_stage stage) {
    weir_cursor before = batch->step.cursor_before, next = batch->step.cursor_next;
    return stage == WEIR_STAGE_TRAIN ||
           (next.epoch == before.epoch && next.global_index > before.global_index);
}

/* The batch at the cursor and those after it, as one page. */
static weir_status write_page(const request *r, const cli_batch_context *context, weir_stage stage,
                              weir_batch_builder *builder, weir_batch_buffer *buffer, weir_error *error) {
    cli_batch_html *page = NULL;
    weir_cursor at = r->at;
    bool is_more = true;
    weir_status status = cli_batch_html_open(context, &page, error);
    for (uint64_t i = 0; status == WEIR_OK && is_more && i < r->steps; i++) {
        status = weir_batch_build(builder, at, buffer, error);
        if (status != WEIR_OK)
            break;
        const weir_batch *batch = weir_batch_view(buffer);
        cli_batch_html_add(page, batch);
        is_more = has_next(batch, stage);
        at = batch->step.cursor_next;
    }
    if (status == WEIR_OK)
        status = cli_batch_html_write(page, r->html, error);
    cli_batch_html_close(page);
    return status;
}

static int build(const request *r, const weir_store *store, const weir_manifest *manifest) {
    weir_error error;
    weir_batch_builder *builder = NULL;
    weir_batch_buffer *buffer = NULL;
    cli_batch_context context = {store, manifest, r->of.dataset, r->of.stage, r->of.world_size, r->of.rank};
    weir_batch_options options = {.size = sizeof options,
                                  .store = store,
                                  .manifest = manifest,
                                  .dataset = r->of.dataset,
                                  .world_size = r->of.world_size,
                                  .rank = r->of.rank,
                                  .token = r->of.token,
                                  .token_size = r->of.token_size,
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
    int result = status == WEIR_OK ? show(r, store, weir_batch_view(buffer)) : cli_fail(&error, r->as_json);
    weir_batch_buffer_close(buffer);
    weir_batch_builder_close(builder);
    return result;
}

/* An output that would replace an input, or the other output, is a slip of the pen. */
static const char *find_clash(const request *r) {
    const char *const outputs[] = {r->npz, r->html};
    for (size_t i = 0; i < 2; i++) {
        if (cli_is_same_file(outputs[i], r->store))
            return i ? "--html names the store" : "--npz names the store";
        if (cli_is_same_file(outputs[i], r->of.manifest))
            return i ? "--html names the manifest" : "--npz names the manifest";
    }
    if (r->npz && r->html && (strcmp(r->npz, r->html) == 0 || cli_is_same_file(r->npz, r->html)))
        return "--npz and --html name one file";
    return NULL;
}

static int run(const cli_command *self, int argc, char **argv) {
    request r = {.of = CLI_SELECTION_DEFAULT, .steps = 1};
    cli_option options[] = {
        {"--store", CLI_TEXT, &r.store, true, false},
        CLI_SELECTION_OPTIONS(r.of, true),
        CLI_CURSOR_OPTIONS(r.at),
        {"--any-hash", CLI_FLAG, &r.any_hash, false, false},
        {"--pad", CLI_FLAG, &r.pad, false, false},
        {"--verify", CLI_TEXT, &r.verify, false, false},
        {"--npz", CLI_TEXT, &r.npz, false, false},
        {"--html", CLI_TEXT, &r.html, false, false},
        {"--steps", CLI_UINT, &r.steps, false, false},
        {"--tensors", CLI_FLAG, &r.with_tensors, false, false},
        {"--json", CLI_FLAG, &r.as_json, false, false},
    };
    if (cli_parse(self, options, sizeof options / sizeof options[0], argc, argv, NULL, 0) < 0)
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
    weir_store_options opening = {.size = sizeof opening};
    if (cli_read_verify(self, r.verify, &opening.verify) != CLI_OK ||
        cli_selection_read_token(self, &r.of) != CLI_OK)
        return CLI_USAGE;
    weir_error error;
    weir_manifest *manifest = NULL;
    weir_store *store = NULL;
    weir_status status = weir_manifest_open(NULL, r.of.manifest, &manifest, &error);
    if (status == WEIR_OK)
        status = weir_store_open_with(NULL, r.store, &opening, &store, &error);
    if (status == WEIR_OK)
        cli_selection_settle(&r.of, manifest);
    int result = status == WEIR_OK ? build(&r, store, manifest) : cli_fail(&error, r.as_json);
    weir_store_close(store);
    weir_manifest_close(manifest);
    cli_selection_close(&r.of);
    return result;
}

const cli_command cli_batch = {
    .name = "batch",
    .summary = "build one batch and show it",
    .usage = "weir batch --store S --manifest M --dataset K [--stage S] [--epoch E] "
             "[--position P]\n"
             "                  [--world-size W] [--rank R] [--token HEX] [--pad] [--any-hash]\n"
             "                  [--verify touched|all|none]\n"
             "                  [--json [--tensors]] [--npz OUT] [--html OUT [--steps N]]",
    .help = "  --store S        the store\n"
            "  --manifest M     the manifest; ingest writes one beside the store\n" CLI_ONE_DATASET_HELP
                CLI_CURSOR_HELP CLI_WORLD_HELP CLI_TOKEN_HELP
            "  --pad            fill a partial batch up with sequences of padding\n" CLI_ANY_HASH_HELP
                CLI_VERIFY_HELP "  --npz OUT        write all tensors to a file that numpy.load opens\n"
            "  --html OUT       write one page that shows each sequence: rows, foreign keys, times,\n"
            "                   masks, and how the labels are distributed\n"
            "  --steps N        with --html: the page shows N batches, this one and those after it\n"
            "  --json           dims, shapes, digests, sequences and cursor_next\n"
            "  --tensors        with --json: the values too, as hex of their little-endian bytes\n",
    .example = "  weir batch --store shop.weir --manifest shop.manifest.json --dataset shop/churn/train "
               "--npz batch.npz\n"
               "  weir batch --store shop.weir --manifest shop.manifest.json --dataset shop/churn/train "
               "--html batch.html --steps 3\n",
    .run = run,
};
