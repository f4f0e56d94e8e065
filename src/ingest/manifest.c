/* The manifest that ingest writes beside a store: all datasets that are not empty, and a mix of all train
 * splits with weight 1. */
#include <string.h>

#include "ingest/state.h"
#include "store/reader.h"

/* "<name>/<task>/<split>" as the next key. */
static bool put_key(const weir__ingest *ingest, const char *task, const char *split, weir_json_writer *w) {
    const char *name = ingest->info.name;
    size_t size = strlen(name) + strlen(task) + strlen(split) + 3;
    char *key = weir__allocate(ingest->env, size, 1);
    if (!key)
        return false;
    char *at = stpcpy(key, name);
    at = stpcpy(stpcpy(at, "/"), task);
    stpcpy(stpcpy(at, "/"), split);
    weir_json_key(w, key);
    weir__release(ingest->env, key);
    return true;
}

static weir_status put_dataset(const weir__ingest *ingest, const weir_task *task, int split,
                               weir_json_writer *w, weir_error *error) {
    uint8_t hash[WEIR_HASH_SIZE];
    const char *split_name = weir_split_name((weir_split)split);
    weir_status status =
        weir__dataset_hash(ingest->info.store_hash, task->name, (weir_split)split, hash, error);
    if (status != WEIR_OK)
        return status;
    if (!put_key(ingest, task->name, split_name, w))
        return weir__out_of_memory(error, WEIR__INGEST_OPERATOR, 1);
    weir_json_object(w);
    weir_json_key(w, "id");
    weir_json_text(w, ingest->info.name);
    weir_json_key(w, "version");
    weir_json_text(w, "1");
    weir_json_key(w, "hash");
    weir_json_hex(w, hash, sizeof hash);
    weir_json_key(w, "cardinality");
    weir_json_uint(w, task->split_start[split + 1] - task->split_start[split]);
    weir_json_end_object(w);
    return WEIR_OK;
}

static weir_status put_datasets(const weir__ingest *ingest, weir_json_writer *w, weir_error *error) {
    weir_status status = WEIR_OK;
    weir_json_key(w, "datasets");
    weir_json_object(w);
    for (uint32_t i = 0; i < ingest->task_count && status == WEIR_OK; i++) {
        const weir_task *task = &ingest->info_tasks[i];
        for (int split = 0; split < WEIR_SPLITS && status == WEIR_OK; split++)
            if (task->split_start[split + 1] > task->split_start[split])
                status = put_dataset(ingest, task, split, w, error);
    }
    weir_json_end_object(w);
    return status;
}

static bool put_mix(const weir__ingest *ingest, weir_json_writer *w) {
    bool has_memory = true;
    uint32_t trains = 0;
    for (uint32_t i = 0; i < ingest->task_count; i++)
        trains += ingest->info_tasks[i].split_start[1] > 0 ? 1 : 0;
    if (trains == 0)
        return true;
    weir_json_key(w, "mix");
    weir_json_object(w);
    for (uint32_t i = 0; i < ingest->task_count && has_memory; i++)
        if (ingest->info_tasks[i].split_start[1] > 0) {
            has_memory = put_key(ingest, ingest->info_tasks[i].name, "train", w);
            weir_json_uint(w, 1);
        }
    weir_json_end_object(w);
    return has_memory;
}

/* JSON readers keep whole numbers up to 2^63-1; the contract writes larger ones as decimal text. */
static void put_count(weir_json_writer *w, uint64_t count) {
    if (count > INT64_MAX)
        weir_json_uint_text(w, count);
    else
        weir_json_uint(w, count);
}

weir_status weir__check_preset(const char *preset, weir_error *error) {
    static const char *const known[] = {"train_shuffle", "eval_sequential", "streaming_infinite"};
    bool is_known = !preset;
    for (size_t i = 0; !is_known && i < sizeof known / sizeof known[0]; i++)
        is_known = strcmp(preset, known[i]) == 0;
    if (is_known)
        return WEIR_OK;
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR__INGEST_OPERATOR,
                      "there is no preset '%.100s'; use train_shuffle, eval_sequential or streaming_infinite",
                      preset);
}

/* A preset stands for the order of NextBatch_v2; without one the samples are mixed better. */
static void put_data(const weir__ingest *ingest, weir_json_writer *w) {
    weir_json_key(w, "data");
    weir_json_object(w);
    if (ingest->options->preset) {
        weir_json_key(w, "preset");
        weir_json_text(w, ingest->options->preset);
    } else {
        weir_json_key(w, "intra_block");
        weir_json_text(w, "feistel_v1");
        weir_json_key(w, "rotate");
        weir_json_bool(w, true);
    }
    weir_json_end_object(w);
}

static weir_status compose(const weir__ingest *ingest, weir_json_writer *w, weir_error *error) {
    uint64_t batch_size = ingest->options->batch_size;
    weir_json_object(w);
    weir_json_key(w, "seed");
    weir_json_uint(w, 0);
    weir_json_key(w, "global_batch_size");
    put_count(w, batch_size ? batch_size : 32);
    weir_status status = put_datasets(ingest, w, error);
    if (status != WEIR_OK)
        return status;
    put_data(ingest, w);
    if (!put_mix(ingest, w))
        return weir__out_of_memory(error, WEIR__INGEST_OPERATOR, 1);
    weir_json_end_object(w);
    return weir_json_finish(w, error);
}

weir_status weir__write_manifest(weir__ingest *ingest, weir__atomic_file *file, weir_error *error) {
    weir_json_writer w;
    weir_json_writer_memory(&w, ingest->env);
    weir_status status = compose(ingest, &w, error);
    if (status == WEIR_OK)
        status = weir__atomic_write(file, w.data, w.size, error);
    if (status == WEIR_OK)
        status = weir__atomic_write(file, "\n", 1, error);
    if (status == WEIR_OK)
        status = weir__atomic_commit(file, error);
    weir_json_release(&w);
    return status;
}
