/* Contexts on demand: requests become samples, which are built as those of any batch. Each is looked up
 * among the task's seeds; one that is there has that seed's label and draws as it does in evaluation, so
 * that what a model is served is what it was tested on, byte for byte. */
#include "weir/context.h"
#include "weir_tool/store_tools.h"

#include <stdio.h>
#include <string.h>

#include "base/floating.h"
#include "base/options.h"
#include "base/parallel.h"
#include "batch/build.h"
#include "batch/link_groups.h"

static const char operator_name[] = "weir.context";

/* ---- Opening --------------------------------------------------------------------------------- */

static weir_status find_task(const weir_store_info *info, const char *name, uint32_t *out,
                             weir_error *error) {
    char names[400] = "";
    size_t used = 0;
    for (*out = 0; *out < info->task_count; ++*out)
        if (strcmp(info->tasks[*out].name, name) == 0)
            return WEIR_OK;
    for (uint32_t i = 0; i < info->task_count && used < sizeof names - 80; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%.60s", i ? ", " : "",
                                 info->tasks[i].name);
    return weir__fail(error, WEIR_INVALID_DATASET_KEY, operator_name,
                      "the store %.100s has no task '%.200s'; %s%s", info->name, name,
                      info->task_count ? "it has: " : "it has none", names);
}

/* The walk seeds of the task's splits, and of requests that are in none of them. */
static weir_status prepare_seeds(weir_batch_builder *b, const weir_context_options *options,
                                 weir_error *error) {
    const weir_store_info *info = weir_store_describe(options->store);
    size_t size = strlen(info->name) + strlen(options->task) + sizeof "//context";
    char *dataset = weir__allocate(b->recipe.env, size, 1);
    if (!dataset)
        return weir__out_of_memory(error, operator_name, size);
    for (int i = 0; i <= WEIR_SPLITS; i++) {
        bool is_split = i < WEIR_SPLITS;
        snprintf(dataset, size, "%s/%s/%s", info->name, options->task,
                 is_split ? weir_split_name((weir_split)i) : "context");
        weir_batch__recipe_seed_by(&b->recipe, options->manifest, options->token, options->token_size,
                                   dataset);
        *(is_split ? &b->split_seeds[i] : &b->request_seed) = weir_batch__walk_seed(&b->recipe, 0);
    }
    weir__release(b->recipe.env, dataset);
    return WEIR_OK;
}

weir_status weir_context_builder_open(const weir_env *env, const weir_context_options *given,
                                      weir_batch_builder **out, weir_error *error) {
    env = weir__env_or_default(env);
    weir_context_options options;
    WEIR__TRY(WEIR__TAKE_OPTIONS(options, given, weir_context_options, operator_name, error));
    if (options.threads > WEIR__THREADS_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "threads is %u; the walks of a context are shared by at most %u", options.threads,
                          (unsigned)WEIR__THREADS_MAX);
    uint32_t task;
    WEIR__TRY(find_task(weir_store_describe(options.store), options.task, &task, error));
    weir_batch_builder *b = weir__allocate_zero(env, 1, sizeof *b);
    if (!b)
        return weir__out_of_memory(error, operator_name, sizeof *b);
    weir_status status = weir_batch__recipe_open_for_requests(&b->recipe, env, &options, task, error);
    if (status == WEIR_OK)
        status = weir_batch__worker_open(b, error);
    if (status == WEIR_OK)
        status = weir_batch__team_open(&b->team, &b->recipe, &b->worker.retriever, options.threads, error);
    if (status == WEIR_OK)
        status = prepare_seeds(b, &options, error);
    if (status != WEIR_OK) {
        weir_batch_builder_close(b);
        return status;
    }
    *out = b;
    return WEIR_OK;
}

/* ---- One request ----------------------------------------------------------------------------- */

static weir_status key_not_found(const weir_table *table, const weir_context_request *request,
                                 weir_error *error) {
    char key[300] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < request->key_count && used < sizeof key - 4; i++) {
        if (i > 0)
            used += (size_t)snprintf(key + used, sizeof key - used, ", ");
        size_t length = weir_store_key_part_text(&request->key[i], key + used, sizeof key - used);
        used = length < sizeof key - used ? used + length : sizeof key;
    }
    return weir__fail(error, WEIR_KEY_NOT_FOUND, operator_name,
                      "table %.100s has no row with the key %s; check the key and its type, or ingest the "
                      "database again if the row is new",
                      table->name, key);
}

static weir_status find_row(const weir_batch__recipe *r, const weir_context_request *request, uint64_t *row,
                            weir_error *error) {
    const weir_task *task = r->rules.task;
    uint32_t number = request->is_destination ? task->link.table : task->anchor_table;
    const weir_table *table = &r->rules.info->tables[number];
    *row = weir_store_row_of(r->store, number, request->row);
    if (request->is_destination && !task->link.is_link)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "a destination is asked for, but task %.200s is not a link task", task->name);
    if (request->key_count == 0) {
        if (*row != WEIR_NO_ROW)
            return WEIR_OK;
        return weir__fail(error, WEIR_KEY_NOT_FOUND, operator_name,
                          "row %u is not one of table %.100s, whose %u rows begin at %u", request->row,
                          table->name, table->row_count, table->first_number);
    }
    if (table->key_form == WEIR_KEYS_NONE)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "the store keeps no keys of table %.100s; ingest with \"keys\": true in the schema "
                          "and a primary_key, or ask by row",
                          table->name);
    if (request->key_count != table->primary_key_count)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "a key of %u value%s is given, but the primary key of table %.100s has %u column%s",
                          request->key_count, request->key_count == 1 ? "" : "s", table->name,
                          table->primary_key_count, table->primary_key_count == 1 ? "" : "s");
    *row = weir_store_find_row(r->store, number, request->key, request->key_count);
    if (*row != WEIR_NO_ROW)
        return WEIR_OK;
    weir_status status = weir_store_status(r->store, error);
    return status != WEIR_OK ? status : key_not_found(table, request, error);
}

static weir_status find_time(const weir_batch__recipe *r, const weir_context_request *request, uint64_t row,
                             int64_t *time, weir_error *error) {
    const weir_task *task = r->rules.task;
    int64_t since = weir_store_row_time(r->store, row);
    *time = since == WEIR_TIME_ALWAYS ? INT64_MAX : since;
    if (!request->has_time)
        return WEIR_OK;
    if (request->time == WEIR_TIME_ALWAYS)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "a request's time is -2^63, which is not a time; give microseconds since 1970");
    bool is_moved =
        task->before_anchor == WEIR_BEFORE_ANCHOR_MOVE && !request->is_destination && request->time < since;
    *time = is_moved ? since : request->time;
    return WEIR_OK;
}

/* The sample that a request is. */
static weir_status make_sample(const weir_batch_builder *b, const weir_context_request *request,
                               weir_batch__sample *out, weir_error *error) {
    const weir_batch__recipe *r = &b->recipe;
    const weir_task *task = r->rules.task;
    const weir_cell unknown = {.stype = task->stype, .is_null = true};
    weir_seed_row seed = {.target = unknown};
    WEIR__TRY(find_row(r, request, &seed.row, error));
    WEIR__TRY(find_time(r, request, seed.row, &seed.observation_time, error));
    *out = (weir_batch__sample){.index = WEIR_NO_SAMPLE, .is_given = true, .walk_seed = b->request_seed};
    out->table = request->is_destination ? task->link.table : task->anchor_table;
    uint64_t stored = request->is_destination
                          ? WEIR_NO_ROW
                          : weir_store_find_seed(r->store, r->task, seed.row, seed.observation_time);
    bool is_whole = true;
    if (stored != WEIR_NO_ROW) {
        is_whole = weir_store_seed(r->store, r->task, stored, &seed);
        out->index = stored - task->split_start[seed.split];
        seed.target = task->link.is_link ? unknown : seed.target; /* it is the source's sequence */
    } else if (task->is_cell) {
        is_whole = weir_store_cell(r->store, seed.row, task->column, &seed.target);
    }
    WEIR__TRY(weir_store_status(r->store, error)); /* what is damaged was not found */
    if (!is_whole)
        return weir__fail(error, WEIR_STORE_CORRUPT, operator_name,
                          "the seeds of the store cannot be read; run 'weir verify' on it");
    if (stored != WEIR_NO_ROW && !request->has_seed) {
        out->position = out->index;
        out->walk_position = out->index * weir_batch__group_size(task, &r->config, r->stage);
        out->walk_seed = b->split_seeds[seed.split];
    } else {
        out->position = out->walk_position = request->has_seed ? request->seed : 0;
    }
    out->stored = stored;
    out->seed = seed;
    return WEIR_OK;
}

/* ---- Answering ------------------------------------------------------------------------------- */

static __attribute__((noinline)) weir_status build(weir_batch_builder *b,
                                                   const weir_context_request *requests, uint32_t count,
                                                   weir_batch_buffer *buffer, weir_error *error) {
    weir_step step = {.count = count,
                      .valid_count = count,
                      .micro_batch_size = count,
                      .sequence_length = b->recipe.config.sequence_length};
    if (b->sampler)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "the builder is one of a dataset; open one with weir_context_builder_open");
    if (count == 0 || count > b->recipe.limits.sequences)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, operator_name,
                          "%u requests are given, but the builder takes 1 to %llu; open it with a larger "
                          "most_requests",
                          count, (unsigned long long)b->recipe.limits.sequences);
    WEIR__TRY(weir_batch__check_buffer(b, buffer, error));
    weir_batch__empty(b, buffer, &step, count);
    for (uint32_t i = 0; i < count; i++) {
        weir_status status = make_sample(b, &requests[i], &buffer->samples[i], error);
        if (status != WEIR_OK) {
            weir__note_uint(error, "request", i);
            return status;
        }
        buffer->indices[i] = buffer->samples[i].index;
        buffer->epochs[i] = 0;
    }
    return weir_batch__complete(b, (weir_cursor){0}, buffer, error);
}

weir_status weir_context_build(weir_batch_builder *b, const weir_context_request *requests, uint32_t count,
                               weir_batch_buffer *buffer, weir_error *error) {
    weir__floating kept = weir__enter_floating();
    weir_status status = build(b, requests, count, buffer, error);
    weir__leave_floating(&kept);
    if (status != WEIR_OK)
        buffer->batch = (weir_batch){0};
    return status;
}
