/* Any bytes as the state of a prefetcher, opened with the configuration that they name themselves, so that
 * only what they say of the workers can be wrong. A state that is accepted is saved again as the same bytes;
 * with another number of workers it is refused or accepted, never anything else. No thread is started. */
#include "require.h"

#include <string.h>

#include "weir/prefetch.h"
#include "weir_tool/documents.h"

enum { WORKERS_TRIED = 64 };

static int start_nothing(void *context, void *(*run)(void *), void *argument, uintptr_t *thread) {
    (void)context;
    (void)run;
    (void)argument;
    *thread = 0;
    return 0;
}

static int join_nothing(void *context, uintptr_t thread) {
    (void)context;
    (void)thread;
    return 0;
}

static weir_status produce_nothing(void *context, const weir_item *item, weir_error *error) {
    (void)context;
    (void)item;
    (void)error;
    return WEIR_OK;
}

static uint64_t number_of(const weir_cbor_value *state, const char *key) {
    weir_cbor_value value;
    return weir_cbor_get(state, key, &value) && value.type == WEIR_CBOR_UINT ? value.number : 0;
}

static bool is_text(const weir_cbor_value *state, const char *key, const char *text) {
    weir_cbor_value value;
    return weir_cbor_get(state, key, &value) && weir_cbor_is_text(&value, text);
}

static weir_prefetch_options options_of_state(const weir_cbor_value *state) {
    weir_cbor_value drops;
    uint64_t workers = number_of(state, "workers");
    return (weir_prefetch_options){
        .size = sizeof(weir_prefetch_options),
        .source = {.length = number_of(state, "length"), .produce = produce_nothing},
        .key = number_of(state, "key"),
        .epochs = number_of(state, "epochs"),
        .start_position = number_of(state, "start_position"),
        .start_epoch = number_of(state, "start_epoch"),
        .shard_mode =
            is_text(state, "shard_mode", "contiguous") ? WEIR_SHARD_CONTIGUOUS : WEIR_SHARD_INTERLEAVED,
        .drop_remainder = weir_cbor_get(state, "drop_remainder", &drops) && drops.number == 1,
        .policy = is_text(state, "policy", "best_effort") ? WEIR_POLICY_BEST_EFFORT : WEIR_POLICY_STRICT,
        .workers = workers <= WORKERS_TRIED ? (uint32_t)workers : 1,
        .slot_size = 1,
        .state = state->item,
        .state_size = (size_t)(weir_cbor_skip(state->item) - state->item)};
}

static void require_saved_the_same(const weir_prefetch *prefetch, const uint8_t *data, size_t size) {
    weir_bytes saved;
    require(weir_prefetch_save(prefetch, &saved, NULL) == WEIR_OK);
    require(saved.size == size && memcmp(saved.data, data, size) == 0);
    weir_bytes_release(&saved);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weir_env env = *weir_env_default();
    env.start_thread = start_nothing;
    env.join_thread = join_nothing;
    if (weir_cbor_check(data, size, NULL, NULL) != WEIR_OK)
        return 0;
    weir_cbor_value state = weir_cbor_view(data);
    weir_prefetch_options options = options_of_state(&state);
    for (int change = 0; change < 2; change++, options.workers++) {
        weir_prefetch *prefetch = NULL;
        weir_error error;
        weir_status status = weir_prefetch_open(&env, &options, &prefetch, &error);
        require(status == WEIR_OK || status == WEIR_CBOR_INVALID || status == WEIR_CHECKPOINT_MISMATCH ||
                status == WEIR_CONTRACT_VIOLATION);
        if (status == WEIR_OK && options.workers == number_of(&state, "workers"))
            require_saved_the_same(prefetch, data, size);
        weir_prefetch_close(prefetch);
    }
    return 0;
}
