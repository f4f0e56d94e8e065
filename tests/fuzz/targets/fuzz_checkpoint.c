/* Fuzzes checkpoints, and the cursors of callers that choose datasets themselves: the bytes are one, to be
 * read alone and to be restored into three runs (a mix, one dataset in eval, a mix in best effort). What a
 * run accepts must lead where the checkpoint says, and the run itself must write the same cursors there. */
#include <string.h>

#include "pipeline/checkpoint.h"
#include "require.h"
#include "weir/cursors.h"
#include "weir_tool/pipeline_tools.h"

static const char manifest_text[] =
    "{\"global_batch_size\": 4, \"mix\": {\"a\": 2, \"b\": 1}, \"datasets\": {"
    "\"a\": {\"id\": \"a\", \"version\": \"1\", \"cardinality\": 100, \"hash\": "
    "\"0000000000000000000000000000000000000000000000000000000000000000\"}, "
    "\"b\": {\"id\": \"b\", \"version\": \"1\", \"cardinality\": \"18446744073709551615\", \"hash\": "
    "\"0000000000000000000000000000000000000000000000000000000000000000\"}}}";

typedef struct fuzzed_run {
    weir_manifest *manifest;
    weir_mix *mix;
    weir_pipeline__schedule_member members[2];
    uint8_t store_hashes[1][WEIR_HASH_SIZE];
    weir_run_options options;
    weir_pipeline__schedule run;
} fuzzed_run;

/* A run without stores: nothing of them but their hashes is in a checkpoint. */
static void open_run(fuzzed_run *r, weir_stage stage) {
    require(weir_manifest_read(NULL, manifest_text, sizeof manifest_text - 1, "fuzz", &r->manifest, NULL) ==
            WEIR_OK);
    require(weir_mix_open(NULL, r->manifest, NULL, 0, &r->mix, NULL) == WEIR_OK);
    for (size_t i = 0; i < 2; i++)
        r->members[i] = (weir_pipeline__schedule_member){
            .dataset = &weir_manifest_describe(r->manifest)->datasets[i], .index = i};
    memset(r->store_hashes, 7, sizeof r->store_hashes);
    r->options = (weir_run_options){.manifest = r->manifest,
                                    .stage = stage,
                                    .world_size = 1,
                                    .token = weir_manifest_describe(r->manifest)->token,
                                    .token_size = WEIR_TOKEN_SIZE};
    r->run = (weir_pipeline__schedule){.env = weir_env_default(),
                                       .options = &r->options,
                                       .is_mixed = stage == WEIR_STAGE_TRAIN,
                                       .members = r->members,
                                       .member_count = stage == WEIR_STAGE_TRAIN ? 2 : 1,
                                       .store_hashes = r->store_hashes,
                                       .store_count = 1,
                                       .end = WEIR_ENDLESS};
}

static void close_run(fuzzed_run *r) {
    weir_mix_close(r->mix);
    weir_manifest_close(r->manifest);
}

static void restore(weir_stage stage, weir_policy policy, const uint8_t *data, size_t size) {
    fuzzed_run r;
    weir_pipeline__restored restored;
    weir_checkpoint read;
    weir_error error;
    open_run(&r, stage);
    r.options.policy = policy;
    r.options.workers = 2;
    if (weir_pipeline__checkpoint_restore(&r.run, r.mix, data, size, &restored, &error) == WEIR_OK) {
        require(weir_checkpoint_read(data, size, &read, NULL) == WEIR_OK);
        require(restored.step == read.step && restored.start_position <= restored.step);
        require(read.policy == policy && read.stage == stage);
    } else {
        require(error.message[0] != 0);
    }
    close_run(&r);
}

/* Cursors that are restored are written as the same bytes, but for the version of the program. */
static void restore_cursors(const uint8_t *data, size_t size) {
    weir_manifest *manifest;
    weir_cursors *cursors;
    weir_cursor cursor;
    require(weir_manifest_read(NULL, manifest_text, sizeof manifest_text - 1, "fuzz", &manifest, NULL) ==
            WEIR_OK);
    require(weir_cursors_open(NULL, manifest, NULL, 0, &cursors, NULL) == WEIR_OK);
    if (weir_cursors_restore(cursors, data, size, NULL) != WEIR_OK) {
        require(weir_cursors_get(cursors, "a", &cursor, NULL) == WEIR_OK);
        require(cursor.epoch == 0 && cursor.global_index == 0);
    }
    weir_cursors_close(cursors);
    weir_manifest_close(manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weir_checkpoint read;
    restore_cursors(data, size);
    (void)!weir_checkpoint_read(data, size, &read, NULL);
    restore(WEIR_STAGE_TRAIN, WEIR_POLICY_STRICT, data, size);
    restore(WEIR_STAGE_EVAL, WEIR_POLICY_STRICT, data, size);
    restore(WEIR_STAGE_TRAIN, WEIR_POLICY_BEST_EFFORT, data, size);
    return 0;
}
