/* See builder.h. */
#include "batch/build.h"

#include <string.h>

#include "base/bits.h"
#include "base/floating.h"
#include "base/options.h"
#include "batch/mixed.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.batch.build";

weir_status weir_batch__member_open(const weir_env *env, const weir_batch_options *options,
                                    const weir_batch__origin *origin, uint32_t member,
                                    weir_batch_builder **out, weir_error *error) {
    weir_batch_builder *b = weir__allocate_zero(env, 1, sizeof *b);
    if (!b)
        return weir__out_of_memory(error, operator_name, sizeof *b);
    weir_batch__recipe *r = &b->recipe;
    r->env = env;
    weir_status status = origin ? weir_batch__recipe_open(r, env, options, origin, &b->sampler, error)
                                : weir_batch__mixture_open(b, options, error);
    r->member = member;
    if (status == WEIR_OK)
        status = weir_batch__worker_open(b, error);
    if (status != WEIR_OK) {
        weir_sampler_options call = weir_batch__sampling_of(options);
        weir_sampler_name_call(options->manifest, &call, error);
        weir_batch_builder_close(b);
        return status;
    }
    *out = b;
    return WEIR_OK;
}

weir_status weir_batch_builder_open(const weir_env *env, const weir_batch_options *given,
                                    weir_batch_builder **out, weir_error *error) {
    weir_batch_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_batch_options, operator_name, error));
    weir_batch__origin origin = {.store = options.store};
    bool is_mixed = weir_manifest_describe(options.manifest)->batch->mixed && options.dataset &&
                    strcmp(options.dataset, WEIR_MIX_KEY) == 0;
    return weir_batch__member_open(weir__env_or_default(env), &options, is_mixed ? NULL : &origin, 0, out,
                                   error);
}

void weir_batch_builder_close(weir_batch_builder *b) {
    if (!b)
        return;
    const weir_env *env = b->recipe.env;
    weir_batch__team_close(&b->team);
    weir__block_close(&b->worker.scratch, env);
    weir_batch__digester_close(&b->worker.digester, env);
    weir_sampler_close(b->sampler);
    weir_batch__mixture_close(b);
    weir_batch__recipe_close(&b->recipe);
    weir__release(env, b);
}

static weir_batch__limits limits_of_all(weir_batch_builder *const *builders, size_t count) {
    weir_batch__limits all = builders[0]->recipe.limits;
    for (size_t i = 1; i < count; i++)
        all = weir_batch__limits_of_both(&all, &builders[i]->recipe.limits);
    return all;
}

weir_batch_room weir_batch_capacity(weir_batch_builder *const *builders, size_t count) {
    return limits_of_all(builders, count).room;
}

weir_status weir_batch_buffer_open(weir_batch_builder *const *builders, size_t count,
                                   const weir_batch_memory *memory, weir_batch_buffer **out,
                                   weir_error *error) {
    return weir_batch__slot_open(builders, count, memory, weir_batch_capacity(builders, count).compact, out,
                                 error);
}

weir_status weir_batch__slot_open(weir_batch_builder *const *builders, size_t count,
                                  const weir_batch_memory *memory, uint64_t room, weir_batch_buffer **out,
                                  weir_error *error) {
    weir_batch__limits limits = limits_of_all(builders, count);
    return weir_batch__open_buffer(builders[0]->recipe.env, &limits, memory, room, out, error);
}

static __attribute__((noinline)) weir_status build(weir_batch_builder *b, weir_cursor cursor,
                                                   weir_batch_buffer *buffer, weir_error *error) {
    WEIR__TRY(weir_batch__begin(b, cursor, buffer, error));
    return weir_batch__complete(b, cursor, buffer, error);
}

weir_status weir_batch_build(weir_batch_builder *b, weir_cursor cursor, weir_batch_buffer *buffer,
                             weir_error *error) {
    weir__floating kept = weir__enter_floating();
    weir_status status = build(b, cursor, buffer, error);
    weir__leave_floating(&kept);
    if (status != WEIR_OK)
        buffer->batch = (weir_batch){0};
    return status;
}

/* ---- What a batch usually takes -------------------------------------------------------------- */

/* What the first sequences of the dataset take, and as much per cell for all cells of a batch; 0 if the store
 * is damaged, which is told when a step needs it. Texts that all sequences of a batch share are counted more
 * than once: the result is high rather than low. */
static uint64_t usual_size(weir_batch_builder *b, weir_batch_buffer *buffer) {
    if (weir_batch__begin(b, (weir_cursor){0}, buffer, NULL) != WEIR_OK)
        return 0;
    const weir_batch__recipe *r = &b->recipe;
    const weir_batch *batch = &buffer->batch;
    uint64_t sequences = batch->step.valid_count * batch->group_size, before = buffer->used, most_cells = 0;
    uint32_t count = sequences < WEIR_BATCH__UNIT ? WEIR__LOW(uint32_t, sequences) : WEIR_BATCH__UNIT;
    weir_batch__walk_unit(b, buffer, 0, count);
    if (buffer->is_corrupt || count == 0)
        return 0;
    uint64_t texts = weir_batch__number_texts(b, buffer);
    uint64_t bytes = buffer->used - before + texts * 2 * r->limits.dim;
    for (uint32_t i = 0; i < r->length_count; i++)
        most_cells = weir__larger(most_cells, r->by_length[i].sequences * r->by_length[i].length);
    unsigned __int128 all = (unsigned __int128)bytes * most_cells;
    return before + (uint64_t)(all / ((uint64_t)count * batch->sequence_length));
}

uint64_t weir_batch__usual_room(weir_batch_builder *const *builders, size_t count,
                                weir_batch_buffer *buffer) {
    weir_batch__limits limits = limits_of_all(builders, count);
    weir__floating kept = weir__enter_floating();
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++)
        most = weir__larger(most, usual_size(builders[i], buffer));
    weir__leave_floating(&kept);
    return weir__lesser(weir__larger(most + most / 2, limits.blobs), limits.room.compact);
}
