/* weir next: the steps of a rank from a cursor on. Also the way to record a trace of the sampler alone. */
#include <inttypes.h>
#include <stdlib.h>

#include "selection.h"

typedef struct request {
    cli_selection of;
    cli_texts stores;
    weir_cursor from;
    const char *trace;
    uint64_t count;
    bool as_json, trace_indices;
} request;

static int print_step_json(const weir_step *step, const uint64_t *indices, const weir_manifest *manifest) {
    weir_json_writer w;
    cli_json_begin(&w);
    weir_json_pair_array(&w, "indices");
    for (uint64_t i = 0; i < step->count; i++)
        weir_json_uint(&w, indices[i]);
    weir_json_end_array(&w);
    weir_json_pair_uint(&w, "valid_count", step->valid_count);
    cli_json_cursor(&w, "cursor_next", step->cursor_next);
    weir_json_pair_object(&w, "metadata");
    weir_json_pair_uint(&w, "epoch", step->cursor_before.epoch);
    weir_json_pair_uint(&w, "global_position", step->cursor_before.global_index);
    weir_json_pair_bool(&w, "is_shuffled", step->is_shuffled);
    weir_json_pair_uint(&w, "effective_batch_size", step->effective_batch_size);
    weir_json_pair_uint(&w, "blocks_materialized", step->blocks_materialized);
    weir_json_pair_text(&w, "subsampling_mode", step->subsampling_mode);
    weir_json_pair_text(&w, "sampling_mode", step->sampling_mode);
    weir_json_pair_double(&w, "effective_q", step->effective_q);
    weir_json_pair_uint(&w, "sampler_block_size", step->sampler_block_size);
    if (weir_manifest_describe(manifest)->batch->lengths.count > 1)
        weir_json_pair_uint(&w, "sequence_length", step->sequence_length);
    weir_json_pair_hex(&w, "sampler_config_hash", step->sampler_config_hash, WEIR_HASH_SIZE);
    weir_json_pair_hex(&w, "epoch_seed_hash", step->epoch_seed_hash, WEIR_HASH_SIZE);
    weir_json_pair_hex(&w, "data_replay_t", step->data_replay_t, WEIR_HASH_SIZE);
    weir_json_end_object(&w);
    return cli_print_object(&w);
}

static int print_step(const weir_step *step, const uint64_t *indices) {
    printf("epoch %" PRIu64 " position %" PRIu64 ": %" PRIu64 " of %s", step->cursor_before.epoch,
           step->cursor_before.global_index, step->count,
           cli_number(step->effective_batch_size, "sample", "samples"));
    if (step->valid_count != step->count)
        printf(" (%" PRIu64 " valid)", step->valid_count);
    for (uint64_t i = 0; i < step->count; i++)
        printf("%s%" PRIu64, i ? " " : ": ", indices[i]);
    putchar('\n');
    return cli_flush();
}

/* Prints and records the steps. A failure ends the trace too; if that fails as well, the failure itself is
 * the one to report. */
static int run_steps(const request *r, weir_sampler *sampler, weir_trace_writer *trace,
                     const weir_sampler_options *call, const weir_manifest *manifest) {
    weir_error error;
    weir_sampler_options at = *call;
    uint64_t *indices = NULL;
    uint64_t capacity = 0;
    int result = CLI_OK;
    for (uint64_t t = 0; t < r->count && result == CLI_OK; t++) {
        weir_step step;
        weir_status status = weir_sampler_step(sampler, at.cursor, &step, &error);
        if (status == WEIR_OK && step.count > capacity) { /* a batch may be larger than any memory */
            uint64_t *grown =
                step.count > SIZE_MAX / 8 ? NULL : realloc(indices, (size_t)step.count * sizeof *grown);
            if (!grown)
                status = cli_error(&error, WEIR_OUT_OF_MEMORY,
                                   "no memory for %" PRIu64 " indices; use more ranks or a smaller batch",
                                   step.count);
            indices = grown ? grown : indices;
            capacity = grown ? step.count : capacity;
        }
        if (status == WEIR_OK) {
            weir_sampler_indices(sampler, &step, indices);
            weir_trace_iter iter = {.t = t,
                                    .dataset = r->of.dataset,
                                    .step = &step,
                                    .indices = r->trace_indices ? indices : NULL};
            status = trace ? weir_trace_append(trace, &iter, &error) : WEIR_OK;
        }
        if (status != WEIR_OK) {
            weir_error named = {0};
            weir_sampler_name_call(manifest, &at, &named);
            weir_trace_failure failure = {.t = t,
                                          .error = &error,
                                          .dataset = r->of.dataset,
                                          .cursor = &at.cursor,
                                          .data_replay_t = named.replay_token};
            error.t = t;
            if (trace)
                (void)!weir_trace_fail(trace, &failure, NULL);
            result = cli_fail(&error, r->as_json);
            break;
        }
        result = r->as_json ? print_step_json(&step, indices, manifest) : print_step(&step, indices);
        at.cursor = step.cursor_next;
    }
    free(indices);
    return result;
}

static int run_with_manifest(const request *r, const weir_manifest *manifest, const cli_stores *stores) {
    weir_error error;
    weir_sampler *sampler = NULL;
    weir_population *population = NULL;
    weir_sampler_options options = {.size = sizeof options,
                                    .dataset = r->of.dataset,
                                    .world_size = r->of.world_size,
                                    .rank = r->of.rank,
                                    .token = r->of.token.data,
                                    .token_size = r->of.token.size,
                                    .cursor = r->from};
    weir_status status = weir_stage_parse(r->of.stage, &options.stage, &error);
    if (status == WEIR_OK)
        status = cli_stores_population(stores, manifest, &r->of, options.stage, &population, &error);
    if (status != WEIR_OK)
        weir_sampler_name_call(manifest, &options, &error);
    options.population = population;
    if (status == WEIR_OK)
        status = weir_sampler_open(NULL, manifest, &options, &sampler, &error);
    weir_trace_writer *trace = NULL;
    weir_trace_run description = {.size = sizeof description,
                                  .manifest = manifest,
                                  .token = r->of.token.data,
                                  .token_size = r->of.token.size,
                                  .world_size = r->of.world_size,
                                  .rank = r->of.rank,
                                  .stage = options.stage,
                                  .store_hashes = (const uint8_t(*)[WEIR_HASH_SIZE])stores->hashes,
                                  .store_count = stores->count};
    description.build = weir_build_info(&description.build_count);
    if (status == WEIR_OK && r->trace)
        status = weir_trace_create(NULL, r->trace, &description, NULL, &trace, &error);
    int result =
        status == WEIR_OK ? run_steps(r, sampler, trace, &options, manifest) : cli_fail(&error, r->as_json);
    if (trace && result == CLI_OK && weir_trace_finish(trace, &error) != WEIR_OK)
        result = cli_fail(&error, r->as_json);
    weir_trace_writer_close(trace);
    weir_sampler_close(sampler);
    weir_population_close(population);
    return result;
}

static int run(const cli_command *self, int argc, char **argv) {
    request r = {.of = CLI_SELECTION_DEFAULT, .count = 1};
    cli_option options[] = {
        CLI_OPTION("--store", &r.stores),
        CLI_SELECTION_OPTIONS(r.of, true),
        CLI_CURSOR_OPTIONS(r.from),
        CLI_OPTION("--count", &r.count),
        CLI_OPTION("--json", &r.as_json),
        CLI_OPTION("--trace", &r.trace),
        CLI_OPTION("--trace-indices", &r.trace_indices),
    };
    if (cli_parse(self, options, CLI_COUNT(options), argc, argv, NULL, 0, NULL) < 0)
        return CLI_USAGE;
    if (r.trace_indices && !r.trace)
        return cli_usage(self, "--trace-indices belongs to --trace");
    weir_error error;
    weir_manifest *manifest = NULL;
    cli_stores stores = {.count = 0};
    weir_status status = weir_manifest_open(NULL, r.of.manifest, &manifest, &error);
    if (status == WEIR_OK) {
        cli_selection_settle(&r.of, manifest);
        status = cli_stores_open(&stores, &r.stores, NULL, &error);
    }
    int result = status == WEIR_OK ? run_with_manifest(&r, manifest, &stores) : cli_fail(&error, r.as_json);
    cli_stores_close(&stores);
    weir_manifest_close(manifest);
    return result;
}

const cli_command cli_next = {
    .name = "next",
    .summary = "print the samples of the next steps, from any cursor, for any rank",
    .usage = "weir next --manifest M --dataset K [--stage S] [--epoch E] [--position P]\n"
             "                 [--world-size W] [--rank R] [--token HEX] [--count STEPS] [--store S]…\n"
             "                 [--trace FILE [--trace-indices]] [--json]",
    .help = "  --manifest M     the manifest file\n" CLI_ONE_DATASET_HELP CLI_CURSOR_HELP CLI_WORLD_HELP
        CLI_TOKEN_HELP "  --store S        the dataset's store, if data.sampling draws by class or weight\n"
            "  --count STEPS    how many steps (default 1); steps before an error are printed first\n"
            "  --trace FILE     record the steps, and a failure, for 'weir replay', 'diff' and 'merge'\n"
            "  --trace-indices  record the indices themselves too\n"
            "  --json           one JSON object per step: indices, valid_count, cursor_next, metadata\n",
    .example = "  weir next --manifest shop.manifest.json --dataset shop/churn/train --world-size 8 --rank 3 "
               "--count 2\n",
    .run = run,
};
