/* The options of a prefetcher: names, defaults, and what is refused. */
#include <string.h>

#include "base/options.h"
#include "pipeline/prefetch.h"
#include "weir_tool/pipeline_tools.h"

/* ---- Names ----------------------------------------------------------------------------------- */

const char *const weir_pipeline__policies[] = {"strict", "best_effort", NULL};
const char *const weir_pipeline__shard_modes[] = {"interleaved", "contiguous", NULL};

const char *weir_policy_name(weir_policy policy) {
    return (unsigned)policy < 2 ? weir_pipeline__policies[policy] : "unknown";
}

const char *weir_shard_mode_name(weir_shard_mode mode) {
    return (unsigned)mode < 2 ? weir_pipeline__shard_modes[mode] : "unknown";
}

weir_status weir_policy_parse(const char *name, weir_policy *out, weir_error *error) {
    for (unsigned i = 0; i < 2; i++)
        if (strcmp(name, weir_pipeline__policies[i]) == 0) {
            *out = (weir_policy)i;
            return WEIR_OK;
        }
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                      "there is no policy '%s'; use strict or best_effort", name);
}

weir_status weir_shard_mode_parse(const char *name, weir_shard_mode *out, weir_error *error) {
    for (unsigned i = 0; i < 2; i++)
        if (strcmp(name, weir_pipeline__shard_modes[i]) == 0) {
            *out = (weir_shard_mode)i;
            return WEIR_OK;
        }
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                      "there is no shard mode '%s'; use interleaved or contiguous", name);
}

/* ---- Defaults -------------------------------------------------------------------------------- */

static uint32_t or_default(uint32_t value, uint32_t standard) {
    return value ? value : standard;
}

static void fill_defaults(weir_prefetch_options *options) {
    options->max_lead = or_default(options->max_lead, WEIR_PREFETCH_LEAD);
    options->max_skips_per_round = or_default(options->max_skips_per_round, WEIR_PREFETCH_SKIPS);
    options->workers = or_default(options->workers, WEIR_PREFETCH_WORKERS);
    options->buffer_size = or_default(options->buffer_size, WEIR_PREFETCH_BUFFER);
    options->queue_size = or_default(options->queue_size, WEIR_PREFETCH_QUEUE);
}

uint64_t weir_prefetch_slot_count(const weir_prefetch_options *options) {
    weir_prefetch_options filled = *options;
    fill_defaults(&filled);
    return (uint64_t)filled.workers * filled.buffer_size + filled.queue_size;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static weir_status refuse(weir_error *error, const char *name, uint64_t value, const char *advice) {
    weir_status status = weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                                    "%s is %llu; %s", name, (unsigned long long)value, advice);
    weir__note_uint(error, name, value);
    return status;
}

static weir_status check_iterator(const weir_prefetch_options *options, weir_error *error) {
    if (!options->source.produce)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                          "the source has no produce function");
    if (options->start_position > options->source.length)
        return refuse(error, "start_position", options->start_position,
                      "it must not lie beyond the source's end");
    if (options->epochs > 0 && options->start_epoch > UINT64_MAX - (options->epochs - 1))
        return refuse(error, "start_epoch", options->start_epoch, "with that many epochs it passes 2^64-1");
    if ((unsigned)options->shard_mode > WEIR_SHARD_CONTIGUOUS)
        return refuse(error, "shard_mode", (unsigned)options->shard_mode, "there is no such mode");
    if (options->source.length == WEIR_ENDLESS && options->shard_mode == WEIR_SHARD_CONTIGUOUS)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                          "an endless source has no contiguous blocks; use interleaved shards");
    if (options->shares_items &&
        (options->policy != WEIR_POLICY_STRICT || options->shard_mode != WEIR_SHARD_INTERLEAVED ||
         options->drop_remainder || options->epochs != 1))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PIPELINE__PREFETCH_OPERATOR,
                          "items are shared in strict order, in one pass of interleaved shards without a "
                          "dropped remainder; leave shares_items out, or change these");
    return WEIR_OK;
}

static weir_status check_slots(const weir_prefetch_options *options, weir_error *error) {
    uint64_t slot_count = weir_prefetch_slot_count(options);
    if (options->workers > WEIR_PIPELINE__WORKERS_MAX)
        return refuse(error, "workers", options->workers, "4096 is the most");
    if (slot_count > WEIR_PIPELINE__SLOTS_MAX)
        return refuse(error, "slot_count", slot_count, "ask for fewer slots");
    if (!options->slots)
        return options->slot_size > 0
                   ? WEIR_OK
                   : refuse(error, "slot_size", 0, "say how large a slot is, or give slots");
    for (uint64_t i = 0; i < slot_count; i++)
        if (!options->slots[i])
            return refuse(error, "slot", i, "its address is NULL");
    return WEIR_OK;
}

weir_status weir_pipeline__prefetch_options_check(const weir_prefetch_options *given,
                                                  weir_prefetch_options *out, weir_error *error) {
    WEIR__TRY(
        WEIR__TAKE_OPTIONS(*out, given, weir_prefetch_options, WEIR_PIPELINE__PREFETCH_OPERATOR, error));
    if ((unsigned)out->policy > WEIR_POLICY_BEST_EFFORT)
        return refuse(error, "policy", (unsigned)out->policy, "there is no such policy");
    fill_defaults(out);
    WEIR__TRY(check_iterator(out, error));
    return check_slots(out, error);
}
