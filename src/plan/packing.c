/* weir_pack: buffers in, offsets out. Options are checked, sizes rounded up to the alignment, and the
 * packer's answer told in the caller's terms. */
#include "base/options.h"
#include "plan/pack.h"
#include "plan/planning.h"

/* With sizes rounded up to the alignment. */
static weir_status pack_rounded(const weir_env *env, const weir_buffer *buffers, size_t count,
                                const weir_pack__options *options, uint64_t *offsets,
                                weir_pack__result *found, weir_error *error) {
    if (options->alignment <= 1)
        return weir_pack__pack(env, buffers, count, options, offsets, found, error);
    weir_buffer *rounded = weir__allocate(env, count, sizeof *rounded);
    if (!rounded)
        return weir__out_of_memory(error, WEIR_PACK__OPERATOR, count * sizeof *rounded);
    weir_status status = WEIR_OK;
    for (size_t i = 0; status == WEIR_OK && i < count; i++) {
        uint64_t past = buffers[i].size % options->alignment;
        rounded[i] = buffers[i];
        if (past && __builtin_add_overflow(buffers[i].size, options->alignment - past, &rounded[i].size))
            status = weir__fail(error, WEIR_ALLOCATION_OVERFLOW, WEIR_PACK__OPERATOR,
                                "a size rounded up to the alignment passes 64 bits");
    }
    if (status == WEIR_OK)
        status = weir_pack__pack(env, rounded, count, options, offsets, found, error);
    weir__release(env, rounded);
    return status;
}

weir_status weir_pack__ranked(const weir_env *env, const weir_buffer *buffers, size_t count,
                              const uint32_t *rank, const weir_packing_options *given, uint64_t *offsets,
                              weir_packing_result *result, weir_error *error) {
    weir_packing_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_packing_options, WEIR_PACK__OPERATOR, error));
    if (options.effort_plus_one > WEIR_EFFORT_MAX + 1)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_PACK__OPERATOR,
                          "the effort is a number from 0 to %d", WEIR_EFFORT_MAX);
    uint64_t start_ns = env->now_ns(env->context);
    weir_pack__options pack = {.effort = options.effort_plus_one ? options.effort_plus_one - 1
                                                                 : WEIR_EFFORT_DEFAULT,
                               .threads = options.threads,
                               .alignment = options.alignment,
                               .capacity = options.has_capacity ? options.capacity : UINT64_MAX,
                               .rank = rank};
    weir_pack__result found;
    WEIR__TRY(weir_pack__choose(options.strategies, &pack.without, error));
    WEIR__TRY(pack_rounded(env, buffers, count, &pack, offsets, &found, error));
    if (options.has_capacity && found.peak > options.capacity)
        return weir_plan__report_too_small(
            (weir_text){"buffers", 7}, found.peak, options.capacity, found.lower_bound,
            found.infeasible_proven || found.lower_bound > options.capacity, error);
    *result = (weir_packing_result){.buffers = count,
                                    .lower_bound = found.lower_bound,
                                    .peak_bytes = found.peak,
                                    .optimal = found.optimal,
                                    .steps = found.steps,
                                    .time_ns = env->now_ns(env->context) - start_ns};
    return WEIR_OK;
}

weir_status weir_pack(const weir_env *env, const weir_buffer *buffers, size_t count,
                      const weir_packing_options *options, uint64_t *offsets, weir_packing_result *result,
                      weir_error *error) {
    return weir_pack__ranked(weir__env_or_default(env), buffers, count, NULL, options, offsets, result,
                             error);
}
