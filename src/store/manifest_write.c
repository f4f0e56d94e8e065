/* See manifest_write.h. */
#include "store/manifest_write.h"

#include <string.h>

#include "base/internal.h"
#include "store/reader.h"

static const char operator_name[] = "weir.store.manifest";

enum { BROKEN_DEPTH = 2, DEFAULT_BATCH_SIZE = 32 };

typedef struct composer {
    const weir_store_info *info;
    const weir_store__manifest_settings *settings;
    weir_json_writer *w;
    const weir_env *env;
    weir_error *error;
} composer;

/* "<name>/<task>/<split>"; release it. NULL if memory is short. */
static char *dataset_key(const composer *c, const weir_task *task, int split) {
    const char *split_name = weir_split_name((weir_split)split);
    char *key =
        weir__allocate(c->env, strlen(c->info->name) + strlen(task->name) + strlen(split_name) + 3, 1);
    if (key)
        stpcpy(stpcpy(stpcpy(stpcpy(stpcpy(key, c->info->name), "/"), task->name), "/"), split_name);
    return key;
}

static weir_status no_memory(const composer *c) {
    return weir__out_of_memory(c->error, operator_name, 1);
}

static weir_status put_dataset(const composer *c, const weir_task *task, int split) {
    uint8_t hash[WEIR_HASH_SIZE];
    weir_json_writer *w = c->w;
    weir_status status =
        weir_store__dataset_hash(c->info->store_hash, task->name, (weir_split)split, hash, c->error);
    char *key = status == WEIR_OK ? dataset_key(c, task, split) : NULL;
    if (!key)
        return status == WEIR_OK ? no_memory(c) : status;
    weir_json_key(w, key);
    weir__release(c->env, key);
    weir_json_object(w);
    weir_json_pair_text(w, "id", c->info->name);
    weir_json_pair_text(w, "version", "1");
    weir_json_pair_hex(w, "hash", hash, sizeof hash);
    weir_json_pair_uint(w, "cardinality", task->split_start[split + 1] - task->split_start[split]);
    weir_json_end_object(w);
    return WEIR_OK;
}

static bool has_seeds(const weir_task *task, int split) {
    return task->split_start[split + 1] > task->split_start[split];
}

/* A weight that was given, if there is a mix; else 1 for what trains. */
static weir_status put_weight(const composer *c, const weir_task *task, int split,
                              const weir_cbor_value *given, bool *has_begun) {
    weir_cbor_value weight = {0};
    char *key = dataset_key(c, task, split);
    if (!key)
        return no_memory(c);
    bool is_there = given ? weir_cbor_get(given, key, &weight) : split == WEIR_TRAIN;
    if (is_there && !*has_begun) {
        weir_json_key(c->w, "mix");
        weir_json_object(c->w);
        *has_begun = true;
    }
    if (is_there) {
        weir_json_key(c->w, key);
        if (given)
            weir_json_value(c->w, &weight);
        else
            weir_json_uint(c->w, 1);
    }
    weir__release(c->env, key);
    return WEIR_OK;
}

static weir_status put_mix(const composer *c) {
    weir_status status = WEIR_OK;
    weir_cbor_value mix;
    bool has_begun = false, is_given = c->settings->given != NULL;
    bool has_mix = is_given && weir_cbor_get(c->settings->given, "mix", &mix) && mix.type == WEIR_CBOR_MAP;
    if (is_given && !has_mix)
        return WEIR_OK;
    for (uint32_t i = 0; i < c->info->task_count; i++)
        for (int split = 0; split < WEIR_SPLITS && status == WEIR_OK; split++)
            if (has_seeds(&c->info->tasks[i], split))
                status = put_weight(c, &c->info->tasks[i], split, has_mix ? &mix : NULL, &has_begun);
    if (has_begun)
        weir_json_end_object(c->w);
    return status;
}

/* A member of the manifest that was given, as it was; false if there is none. */
static bool put_given(const composer *c, const char *key) {
    weir_cbor_value value;
    if (!c->settings->given || !weir_cbor_get(c->settings->given, key, &value))
        return false;
    weir_json_key(c->w, key);
    weir_json_value(c->w, &value);
    return true;
}

/* Whether rows of a cell task's table show nothing but their label, keys left out. */
static bool shows_label_alone(const weir_store_info *info, const weir_task *task) {
    const weir_table *table = &info->tables[task->anchor_table];
    uint32_t shown = 0;
    for (uint32_t c = table->column_start; c < table->column_start + table->column_count; c++)
        shown += c != task->column && !task->column_dropped[c] && info->columns[c].stype != WEIR_IDENTIFIER;
    return task->is_cell && !task->drops_target && shown == 0;
}

/* What contexts gain most from: cells that have a value, and rows that have cells; the newest children first
 * if seeds are moments in time; and earlier labels, if it is known when they are. */
static void put_batch(const composer *c) {
    weir_json_writer *w = c->w;
    bool has_times = false, has_label_times = false, has_blanks = false;
    for (uint32_t i = 0; i < c->info->task_count; i++) {
        has_times |= c->info->tasks[i].seed_times != NULL;
        has_label_times |= c->info->tasks[i].has_label_times;
        has_blanks |= shows_label_alone(c->info, &c->info->tasks[i]);
    }
    weir_json_pair_object(w, "batch");
    if (has_times)
        weir_json_pair_text(w, "child_policy", "latest");
    weir_json_pair_text(w, "identifiers", "omit");
    if (has_blanks)
        weir_json_pair_text(w, "blank_rows", "omit");
    if (has_label_times)
        weir_json_pair_bool(w, "labels", true);
    weir_json_end_object(w);
}

static weir_status compose(const composer *c) {
    weir_json_writer *w = c->w;
    uint64_t size = c->settings->batch_size;
    weir_json_object(w);
    if (!put_given(c, "seed"))
        weir_json_pair_uint(w, "seed", 0);
    if (size > 0 || !put_given(c, "global_batch_size")) {
        weir_json_key(w, "global_batch_size");
        if (size > INT64_MAX) /* JSON readers keep whole numbers up to 2^63-1; larger ones are texts */
            weir_json_uint_text(w, size);
        else
            weir_json_uint(w, size ? size : DEFAULT_BATCH_SIZE);
    }
    weir_json_pair_object(w, "datasets");
    for (uint32_t i = 0; i < c->info->task_count; i++)
        for (int split = 0; split < WEIR_SPLITS; split++)
            if (has_seeds(&c->info->tasks[i], split))
                WEIR__TRY(put_dataset(c, &c->info->tasks[i], split));
    weir_json_end_object(w);
    if (!put_given(c, "data") && !c->settings->given) {
        weir_json_pair_object(w, "data");
        if (c->settings->preset) { /* it stands for the order of NextBatch_v2 */
            weir_json_pair_text(w, "preset", c->settings->preset);
        } else { /* the samples are mixed better */
            weir_json_pair_text(w, "intra_block", "feistel_v1");
            weir_json_pair_bool(w, "rotate", true);
        }
        weir_json_end_object(w);
    }
    if (!put_given(c, "batch") && !c->settings->given)
        put_batch(c);
    (void)put_given(c, "accountant");
    weir_status status = put_mix(c);
    weir_json_end_object(w);
    return status;
}

weir_status weir_store__manifest_write(const weir_env *env, const weir_store_info *info,
                                       const weir_store__manifest_settings *settings, weir_bytes *out,
                                       weir_error *error) {
    weir_json_writer w;
    weir_json_writer_memory(&w, env);
    composer c = {info, settings, &w, w.env, error};
    weir_status status = compose(&c);
    if (status != WEIR_OK) {
        weir_json_release(&w);
        return status;
    }
    WEIR__TRY(weir_json_give(&w, out, error));
    status = weir_json_indent(out, BROKEN_DEPTH, error);
    if (status != WEIR_OK)
        weir_bytes_release(out);
    return status;
}
