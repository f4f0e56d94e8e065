/* See run_options.h. A new option is a member of weir_run_options, a row of the table below, and a line in
 * python/weir/_loader.py; the program, its help and the Python module follow from the row. */
#include "pipeline/run_options.h"

#include <assert.h>
#include <stddef.h>

#include "base/internal.h"
#include "device/device.h"
#include "pipeline/prefetch.h"
#include "pipeline/staging.h"
#include "weir_tool/pipeline_tools.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.run";

/* ---- The table ------------------------------------------------------------------------------- */

#define SETTING(name, kind, member, ...)                                                                     \
    { name, WEIR_RUN_VALUE_##kind, offsetof(weir_run_options, member), __VA_ARGS__ }

/* `weir run` and weir.Loader take their options from here. */
static const weir_run_setting settings[] = {
    SETTING("dataset", TEXT, dataset, NULL, NULL, NULL),
    SETTING("stage", STAGE, stage, NULL, NULL, NULL),
    SETTING("rank", UINT32, rank, NULL, NULL, NULL),
    SETTING("world_size", UINT32, world_size, NULL, NULL, NULL),
    SETTING("pad", BOOL, pad, NULL, NULL, NULL),
    SETTING("with_digests", BOOL, with_digests, NULL, NULL, NULL),
    SETTING("first_step", UINT64, first_step, NULL, NULL, NULL),
    SETTING("anchor_rows", BOOL, anchor_rows, NULL, NULL, NULL),
    SETTING("steps", UINT64, steps, "--steps", "N",
            "end after N steps, counted from the beginning of the run, also if it is resumed; without it a "
            "train run continues until it is stopped"),
    SETTING("drop_remainder", BOOL, drop_remainder, "--drop-remainder", NULL,
            "leave out the last batch if it is not full; not for train, where the manifest's "
            "data.drop_last decides"),
    SETTING("workers", UINT32, workers, "--workers", "N",
            "threads that build batches (default 1; 0 is 1 too)"),
    SETTING("buffer_size", UINT32, buffer_size, "--buffer", "N",
            "batches that each worker may build ahead (default 2)"),
    SETTING("queue_size", UINT32, queue_size, "--queue", "N",
            "batches that the training loop may hold at a time (default 4)"),
    SETTING("policy", POLICY, policy, "--policy", "P",
            "strict (default): batches come in the order of steps; best_effort: whichever is ready first"),
    SETTING("max_lead", UINT32, max_lead, "--max-lead", "N",
            "best_effort: how many steps a worker may be ahead of the slowest (default 16)"),
    SETTING("max_skips", UINT32, max_skips_per_round, "--max-skips", "N",
            "best_effort: how many workers that have no batch ready may be skipped before weir waits for "
            "one (default 4)"),
    SETTING("shards", SHARDS, shard_mode, "--shards", "S",
            "best_effort: each of n workers builds every n-th step (interleaved, default), or a range of "
            "steps (contiguous, only if the run has an end)"),
    SETTING("trace", FILE, trace, "--trace", "F",
            "record every step with its digests, for 'weir replay', 'diff' and 'merge'"),
    SETTING("trace_indices", BOOL, trace_indices, "--trace-indices", NULL,
            "with --trace: also record the indices of the samples"),
    SETTING("trace_memory", BOOL, trace_memory, "--trace-memory", NULL,
            "with --trace: also record the state of the run's memory before each step (what is live at "
            "which address, bytes written); slower, because it waits for the device"),
    SETTING("trace_contents", BOOL, trace_contents, "--trace-contents", NULL,
            "with --trace-memory: also record a digest of the batch's bytes as they are in that memory"),
    SETTING("checkpoint", FILE, checkpoint, "--checkpoint", "F",
            "save the run's state in F at the start, at the end, every 60 seconds, when SIGINT or SIGTERM "
            "stops the run, and when it fails"),
    SETTING("checkpoint_seconds", UINT64, checkpoint_seconds, "--checkpoint-seconds", "N",
            "save every N seconds instead of 60 (0: do not save by time)"),
    SETTING("checkpoint_steps", UINT64, checkpoint_steps, "--checkpoint-every", "STEPS",
            "also save after every STEPS steps"),
    SETTING("resume", FILE, resume, "--resume", "F",
            "resume from the checkpoint F; if --checkpoint names F too and it does not exist yet, start at "
            "the beginning"),
    SETTING("device", TEXT, device, "--device", "D",
            "copy the batches to a GPU: cuda, cuda:1, …; host does the same without a GPU, to try it"),
    SETTING("depth", UINT32, depth, "--depth", "N", "batches on the device at a time (default 4)"),
    SETTING("read_back", BOOL, read_back, "--read-back", NULL,
            "read every batch back from the device and compare its digest"),
    SETTING("memory_limit", SIZE, memory_limit, "--memory-limit", "SIZE",
            "refuse to start a run that needs more memory than SIZE: bytes, or 512M, 2GiB, …"),
    SETTING("any_hash", BOOL, any_hash, "--any-hash", NULL,
            "accept a manifest whose dataset hash is not the store's"),
};

const weir_run_setting *weir_run_settings(size_t *count) {
    *count = sizeof settings / sizeof settings[0];
    return settings;
}

weir_status weir_run_set_word(weir_run_options *options, const weir_run_setting *setting, const char *word,
                              weir_error *error) {
    if (setting->value == WEIR_RUN_VALUE_STAGE)
        return weir_stage_parse(word, &options->stage, error);
    if (setting->value == WEIR_RUN_VALUE_POLICY)
        return weir_policy_parse(word, &options->policy, error);
    assert(setting->value == WEIR_RUN_VALUE_SHARDS);
    return weir_shard_mode_parse(word, &options->shard_mode, error);
}

/* ---- Defaults and checks --------------------------------------------------------------------- */

weir_status weir_pipeline__run_settle(weir_run_options *o, weir_error *error) {
    weir_device_options device;
    if (o->world_size == 0)
        WEIR__TRY(weir_launcher_read(&o->rank, &o->world_size, error));
    if (o->device)
        WEIR__TRY(weir_device__name(o->device, &device, error));
    if ((unsigned)o->policy > WEIR_POLICY_BEST_EFFORT || (unsigned)o->shard_mode > WEIR_SHARD_CONTIGUOUS)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "the policy is not strict or best_effort, or the shard mode is not interleaved or "
                          "contiguous");
    if (o->depth > WEIR_PIPELINE__DEPTH_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "a depth of %u batches on the device is too much; %d are the most", o->depth,
                          WEIR_PIPELINE__DEPTH_MAX);
    if (o->read_back && (!o->device || o->transform.apply))
        return weir__fail(
            error, WEIR_CONTRACT_VIOLATION, operator_name,
            "read_back compares what was built with what is on a device; it needs a device, and "
            "no transform");
    if ((o->trace_memory && !o->trace) ||
        (o->trace_contents && (!o->trace_memory || !o->with_digests || o->transform.apply)))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          o->trace_contents
                              ? "trace_contents belongs to trace_memory and to digests, and a transform "
                                "would change what they are of"
                              : "trace_memory belongs to a trace");
    if (o->drop_remainder && o->stage == WEIR_STAGE_TRAIN)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "drop_remainder is for eval and infer; in train the manifest says whether the last "
                          "batch of an epoch is left out: data.drop_last");
    if (o->shard_mode != WEIR_SHARD_INTERLEAVED && o->policy == WEIR_POLICY_STRICT)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "under the strict policy steps are given in order, so each worker has every n-th; "
                          "shards of another kind are for best_effort");
    weir_pipeline__set_default(&o->workers, WEIR_RUN_WORKERS);
    weir_pipeline__set_default(&o->buffer_size, WEIR_RUN_BUFFER);
    weir_pipeline__set_default(&o->queue_size, WEIR_RUN_QUEUE);
    weir_pipeline__set_default(&o->depth, WEIR_RUN_DEPTH);
    if (o->device) /* a slot is the consumer's until its copy is done */
        o->queue_size = o->depth;
    if (o->checkpoint_seconds == 0)
        o->checkpoint_seconds = WEIR_RUN_CHECKPOINT_SECONDS;
    o->with_digests = o->with_digests || o->read_back;
    return WEIR_OK;
}
