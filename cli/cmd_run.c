/* weir run: iterates over a run's batches as a training loop would, and says how fast that goes; with a trace
 * and checkpoints, so that it can be stopped, killed, resumed, replayed and compared. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan_output.h"
#include "run.h"

typedef struct request {
    cli_selection of;
    cli_texts stores;
    const char *policy, *trace, *checkpoint, *resume, *verify;
    weir_verify verification;
    uint64_t steps, checkpoint_every, checkpoint_seconds, memory_limit;
    uint32_t workers, buffer, queue, max_lead;
    cli_run_device device;
    bool trace_indices, no_digests, plan, any_hash, as_json;
    uint64_t began_ns;
} request;

/* ---- The call -------------------------------------------------------------------------------- */

/* An output that would replace an input, or the other output, is a slip of the pen. */
static const char *find_clash(const request *r, const cli_run_files *files) {
    const char *const outputs[] = {files->trace, files->checkpoint};
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < r->stores.count; k++)
            if (cli_is_same_file(outputs[i], r->stores.list[k]))
                return i ? "--checkpoint names the store" : "--trace names the store";
        if (cli_is_same_file(outputs[i], r->of.manifest))
            return i ? "--checkpoint names the manifest" : "--trace names the manifest";
    }
    if (files->trace[0] &&
        (strcmp(files->trace, files->checkpoint) == 0 || cli_is_same_file(files->trace, files->checkpoint)))
        return "--trace and --checkpoint name one file";
    if (cli_is_same_file(files->trace, files->resume))
        return "--trace names the checkpoint";
    return NULL;
}

/* What an unset variable of a shell script leaves of a name. */
static bool is_empty(const char *name) {
    return name && !name[0];
}

static const char *find_fault(const request *r, bool has_rank, bool has_world_size, bool has_steps,
                              bool has_seconds) {
    if (has_rank != has_world_size)
        return "--rank and --world-size belong together";
    if (has_steps && r->steps == 0)
        return "--steps takes at least 1; leave it away for a run without an end";
    if (is_empty(r->trace) || is_empty(r->checkpoint) || is_empty(r->resume))
        return "--trace, --checkpoint and --resume take the name of a file, and one is empty";
    if ((r->trace_indices || r->no_digests) && !r->trace)
        return r->trace_indices ? "--trace-indices belongs to --trace" : "--no-digests belongs to --trace";
    if (!r->device.name && (r->device.depth || r->device.verifies))
        return "--depth and --read-back belong to --device";
    if (r->device.name && r->queue)
        return "--queue is set by --depth where there is a --device";
    if ((r->checkpoint_every > 0 || has_seconds) && !r->checkpoint)
        return has_seconds ? "--checkpoint-seconds belongs to --checkpoint"
                           : "--checkpoint-every belongs to --checkpoint";
    return NULL;
}

/* The batches that are being copied to a device are the loop's too. */
static uint32_t queue_of(const request *r) {
    if (!r->device.name)
        return r->queue;
    return r->device.depth ? r->device.depth : WEIR_STAGING_DEPTH;
}

static weir_loader_options loader_options(const request *r, const weir_manifest *manifest,
                                          const cli_stores *stores) {
    return (weir_loader_options){.size = sizeof(weir_loader_options),
                                 .stores = stores->list,
                                 .store_count = stores->count,
                                 .manifest = manifest,
                                 .dataset = r->of.dataset,
                                 .world_size = r->of.world_size,
                                 .rank = r->of.rank,
                                 .token = r->of.token,
                                 .token_size = r->of.token_size,
                                 .any_hash = r->any_hash,
                                 .with_digests = (r->trace && !r->no_digests) || r->device.verifies,
                                 .steps = r->steps,
                                 .workers = r->workers,
                                 .buffer_size = r->buffer,
                                 .queue_size = queue_of(r),
                                 .max_lead = r->max_lead,
                                 .memory_limit = r->memory_limit};
}

/* ---- Running --------------------------------------------------------------------------------- */

static int show_plan(const request *r, const weir_loader_options *options) {
    weir_error error;
    weir_plan *plan;
    weir_staging_options staging = {.size = sizeof staging, .loader = options, .depth = r->device.depth};
    weir_status status = r->device.name ? weir_staging_plan(NULL, &staging, &plan, &error)
                                        : weir_loader_plan(NULL, options, &plan, &error);
    if (status != WEIR_OK)
        return cli_fail(&error, r->as_json);
    int result = r->as_json ? cli_plan_print_json(plan) : cli_plan_print_table(plan, "weir run");
    weir_plan_close(plan);
    return result;
}

/* Says how to go on, and gives the status that a shell expects of a signal. */
static int stopped(const cli_running *run) {
    const char *name = run->signal == SIGINT ? "SIGINT" : "SIGTERM";
    uint64_t step = cli_run_step(run);
    if (run->files.checkpoint[0])
        fprintf(stderr, "weir: stopped by %s at step %llu; go on with the same command and --resume %s\n",
                name, (unsigned long long)step, run->files.checkpoint);
    else
        fprintf(stderr,
                "weir: stopped by %s at step %llu; without --checkpoint there is nothing to go on from\n",
                name, (unsigned long long)step);
    return 128 + run->signal;
}

static int run_with(const request *r, const weir_loader_options *options, const cli_run_files *files,
                    const weir_checkpoint *from) {
    weir_error error;
    cli_running run = {.from = from,
                       .files = *files,
                       .checkpoint_every = r->checkpoint_every,
                       .checkpoint_seconds = r->checkpoint_seconds,
                       .with_indices = r->trace_indices,
                       .shows_progress = options->rank == 0 && isatty(STDERR_FILENO) == 1,
                       .rank = options->rank,
                       .world_size = options->world_size,
                       .stage = options->stage,
                       .policy = options->policy,
                       .workers = options->workers ? options->workers : 1,
                       .datasets =
                           calloc(weir_manifest_dataset_count(options->manifest), sizeof(cli_run_dataset)),
                       .began_ns = r->began_ns};
    weir_status status = r->device.name ? cli_run_open_device(&run, options, &r->device, &error)
                                        : weir_loader_open(NULL, options, &run.loader, &error);
    if (status == WEIR_OK)
        status = cli_run_loop(&run, &error);
    int result = status == WEIR_OK ? cli_run_print(&run, r->as_json) : cli_fail(&error, r->as_json);
    if (status == WEIR_OK && run.signal && result == CLI_OK)
        result = stopped(&run);
    if (r->device.name)
        cli_run_close_device(&run);
    else
        weir_loader_close(run.loader);
    free(run.datasets);
    return result;
}

/* Reads the checkpoint to go on from, where there is one. */
static weir_status read_checkpoint(const char *path, char **data, size_t *size, weir_checkpoint *out,
                                   weir_error *error) {
    weir_status status = cli_read_file(path, data, size, error);
    if (status != WEIR_OK)
        return status;
    weir_error reason;
    status = weir_checkpoint_read(*data, *size, out, &reason);
    return status == WEIR_OK
               ? WEIR_OK
               : cli_error(error, status, "%s cannot be gone on from: %s", path, reason.message);
}

static int run_named(const cli_command *self, const request *r, const weir_manifest *manifest,
                     const cli_stores *stores) {
    weir_error error;
    cli_run_files files;
    weir_checkpoint from;
    char *data = NULL;
    size_t size = 0;
    weir_loader_options options = loader_options(r, manifest, stores);
    weir_status status = weir_stage_parse(r->of.stage, &options.stage, &error);
    if (status == WEIR_OK && r->policy)
        status = weir_policy_parse(r->policy, &options.policy, &error);
    if (status == WEIR_OK && r->plan)
        return show_plan(r, &options);
    if (status == WEIR_OK)
        status = cli_run_name_files(&files, r->trace, r->checkpoint, r->resume, options.rank,
                                    options.world_size, &error);
    const char *clash = status == WEIR_OK ? find_clash(r, &files) : NULL;
    if (clash)
        return cli_usage(self, "%s; give it a name of its own", clash);
    if (status == WEIR_OK)
        status = cli_run_check_replaced(&files, &error);
    if (status == WEIR_OK && files.resume[0])
        status = read_checkpoint(files.resume, &data, &size, &from, &error);
    options.checkpoint = data;
    options.checkpoint_size = size;
    int result =
        status == WEIR_OK ? run_with(r, &options, &files, data ? &from : NULL) : cli_fail(&error, r->as_json);
    free(data);
    return result;
}

static int run_request(const cli_command *self, request *r, bool has_place) {
    weir_error error;
    weir_manifest *manifest = NULL;
    cli_stores stores = {.count = 0};
    weir_status status = WEIR_OK;
    if (!has_place)
        status = cli_run_find_place(&r->of.rank, &r->of.world_size, &error);
    if (status == WEIR_OK)
        status = weir_manifest_open(NULL, r->of.manifest, &manifest, &error);
    if (status == WEIR_OK)
        status = cli_stores_open(&stores, &r->stores, r->verification, &error);
    if (status == WEIR_OK)
        cli_selection_settle(&r->of, manifest);
    int result = status == WEIR_OK ? run_named(self, r, manifest, &stores) : cli_fail(&error, r->as_json);
    cli_stores_close(&stores);
    weir_manifest_close(manifest);
    return result;
}

static bool is_given(const cli_option *options, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(options[i].name, name) == 0)
            return options[i].given;
    return false;
}

static int run(const cli_command *self, int argc, char **argv) {
    request r = {.of = CLI_SELECTION_DEFAULT, .checkpoint_seconds = 60, .began_ns = cli_run_now_ns()};
    cli_option options[] = {
        {"--store", CLI_TEXTS, &r.stores, true, false},
        CLI_SELECTION_OPTIONS(r.of, false),
        {"--steps", CLI_UINT, &r.steps, false, false},
        {"--workers", CLI_UINT32, &r.workers, false, false},
        {"--buffer", CLI_UINT32, &r.buffer, false, false},
        {"--queue", CLI_UINT32, &r.queue, false, false},
        {"--policy", CLI_TEXT, &r.policy, false, false},
        {"--max-lead", CLI_UINT32, &r.max_lead, false, false},
        {"--trace", CLI_TEXT, &r.trace, false, false},
        {"--trace-indices", CLI_FLAG, &r.trace_indices, false, false},
        {"--no-digests", CLI_FLAG, &r.no_digests, false, false},
        {"--checkpoint", CLI_TEXT, &r.checkpoint, false, false},
        {"--checkpoint-every", CLI_UINT, &r.checkpoint_every, false, false},
        {"--checkpoint-seconds", CLI_UINT, &r.checkpoint_seconds, false, false},
        {"--resume", CLI_TEXT, &r.resume, false, false},
        {"--device", CLI_TEXT, &r.device.name, false, false},
        {"--depth", CLI_UINT32, &r.device.depth, false, false},
        {"--read-back", CLI_FLAG, &r.device.verifies, false, false},
        {"--verify", CLI_TEXT, &r.verify, false, false},
        {"--memory-limit", CLI_SIZE, &r.memory_limit, false, false},
        {"--plan", CLI_FLAG, &r.plan, false, false},
        {"--any-hash", CLI_FLAG, &r.any_hash, false, false},
        {"--json", CLI_FLAG, &r.as_json, false, false},
    };
    size_t count = sizeof options / sizeof options[0];
    if (cli_parse(self, options, count, argc, argv, NULL, 0) < 0)
        return CLI_USAGE;
    bool has_place = is_given(options, count, "--rank");
    const char *fault =
        find_fault(&r, has_place, is_given(options, count, "--world-size"),
                   is_given(options, count, "--steps"), is_given(options, count, "--checkpoint-seconds"));
    if (fault)
        return cli_usage(self, "%s", fault);
    if (cli_read_verify(self, r.verify, &r.verification) != CLI_OK ||
        cli_selection_read_token(self, &r.of) != CLI_OK)
        return CLI_USAGE;
    int result = run_request(self, &r, has_place);
    cli_selection_close(&r.of);
    return result;
}

const cli_command cli_run = {
    .name = "run",
    .summary = "iterate over a run's batches as a training loop would",
    .usage =
        "weir run --store S… --manifest M [--dataset K] [--stage S] [--steps N]\n"
        "                [--workers N] [--buffer N] [--queue N] [--policy P] [--max-lead N]\n"
        "                [--trace F [--trace-indices] [--no-digests]]\n"
        "                [--checkpoint F [--checkpoint-seconds N] [--checkpoint-every STEPS]] [--resume F]\n"
        "                [--device cuda[:N]|host [--depth N] [--read-back]]\n"
        "                [--rank R --world-size W] [--memory-limit SIZE] [--plan]\n"
        "                [--verify touched|all|none]\n"
        "                [--token HEX] [--any-hash] [--json]",
    .help =
        "  --store S        a store; once for each that the run's datasets come from\n"
        "  --manifest M     the manifest; ingest writes one beside the store\n"
        "  --dataset K      one dataset alone; without it the manifest's mix (train only)\n"
        "  --stage S        train, eval, infer or eval_seeded (default: what the manifest's preset says,\n"
        "                   else train); all but train end after one pass over the dataset, eval_seeded in\n"
        "                   a shuffled order that is always the same\n"
        "  --steps N        where the run ends, counted from step 0, also of a run that goes on; without\n"
        "                   it a run in train goes on until it is stopped\n"
        "  --workers N      threads that build batches (default 1)\n"
        "  --buffer N       batches that each of them may be ahead (default 2)\n"
        "  --queue N        batches that the loop may hold at a time (default 2)\n"
        "  --policy P       strict (default): steps in order; best_effort: whichever batch is ready\n"
        "  --max-lead N     best effort: how far a worker may be ahead of the slowest (default 16)\n"
        "  --trace F        record every step with its digests, for 'weir replay', 'diff' and 'merge'\n"
        "  --trace-indices  with the indices themselves\n"
        "  --no-digests     without digests, which cost some time\n"
        "  --checkpoint F   save the state at the start, at the end, every 60 seconds, when SIGINT or "
        "SIGTERM\n"
        "                   stops the run, and when it fails\n"
        "  --checkpoint-seconds N     every N seconds instead (0: not by time)\n"
        "  --checkpoint-every STEPS   and after every so many steps\n"
        "  --resume F       go on from a checkpoint; where F is also --checkpoint and not there yet, begin\n"
        "  --device D       bring the batches to a GPU: cuda, cuda:1 …; host: the same without one\n"
        "  --depth N        batches on the device at a time (default 3)\n"
        "  --read-back      read every batch back from the device and compare its digest\n"
        "  --rank R         which rank this is …\n"
        "  --world-size W   … of how many. Without them: what torchrun (RANK, WORLD_SIZE), Open MPI\n"
        "                   (OMPI_COMM_WORLD_RANK, …_SIZE), MPICH and other PMI launchers (PMI_RANK,\n"
        "                   PMI_SIZE) or Slurm (SLURM_PROCID, SLURM_NTASKS) say, the first of these\n"
        "  --memory-limit SIZE   refuse a run that needs more: bytes, or 512M, 2GiB, …\n"
        "  --plan           show the memory that the run would need, and start nothing\n" CLI_VERIFY_HELP
            CLI_TOKEN_HELP CLI_ANY_HASH_HELP
        "  --json           the summary as one object; with --plan, the plan\n\n"
        "In a world of more than one rank each rank's trace and checkpoint are F.rankN; --resume F takes F\n"
        "if it is there, else F.rankN. Without --trace and --checkpoint nothing is written. SIGINT and "
        "SIGTERM\n"
        "end a run with its checkpoint and trace whole, and exit status 130 or 143.\n",
    .example =
        "  weir run --store shop.weir --manifest shop.manifest.json --steps 1000 --workers 4\n"
        "  weir run --store shop.weir --manifest shop.manifest.json --steps 1000 --trace run.trace \\\n"
        "           --checkpoint run.checkpoint --checkpoint-every 100 --resume run.checkpoint\n"
        "  weir run --store shop.weir --manifest shop.manifest.json --steps 100 --device host --read-back\n"
        "  mpirun -n 8 weir run --store shop.weir --manifest shop.manifest.json --steps 1000\n",
    .run = run,
};
