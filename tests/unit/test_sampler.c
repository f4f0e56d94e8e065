/* NextBatch_v2 as its callers see it: golden steps, runs and errors, the order of checks, counters at their
 * end, eval and infer, random access, and that nothing is allocated after open. */
#include <stdlib.h>
#include <string.h>

#include "support/sampling.h"

/* ---- Golden vectors -------------------------------------------------------------------------- */

/* The request of a vector: opens whatever it can and reports the first error. */
typedef struct session {
    weir_manifest *manifest;
    weir_sampler *sampler;
    uint8_t token[256];
} session;

static weir_status open_session(session *s, json_t *vector, weir_error *error) {
    weir_sampler_options options = {
        .size = sizeof options,
        .dataset = member_text(vector, "dataset"),
        .world_size = (uint32_t)member_uint(vector, "world_size"),
        .rank = (uint32_t)member_uint(vector, "rank"),
        .cursor = {member_uint(vector, "epoch"), member_uint(vector, "position")}};
    json_t *token = member(vector, "token");
    memset(s, 0, sizeof *s);
    if (!json_is_null(token)) {
        const uint8_t *bytes = bytes_of_hex(json_string_value(token), &options.token_size);
        assert_true(options.token_size <= sizeof s->token);
        memcpy(s->token, bytes, options.token_size);
        options.token = s->token;
    }
    s->manifest = manifest_of(member(vector, "manifest"));
    weir_status status = weir_stage_parse(member_text(vector, "stage"), &options.stage, error);
    if (status == WEIR_OK)
        status = weir_sampler_open(NULL, s->manifest, &options, &s->sampler, error);
    return status;
}

static void close_session(session *s) {
    weir_sampler_close(s->sampler);
    weir_manifest_close(s->manifest);
}

static weir_cursor cursor_of(json_t *object, const char *epoch, const char *index) {
    return (weir_cursor){member_uint(object, epoch), member_uint(object, index)};
}

static void assert_metadata(const weir_step *step, json_t *expected) {
    assert_true(cursors_equal(step->cursor_before, cursor_of(expected, "epoch", "global_position")));
    assert_int_equal(step->is_shuffled, json_is_true(member(expected, "is_shuffled")));
    assert_true(step->effective_batch_size == member_uint(expected, "effective_batch_size"));
    assert_true(step->blocks_materialized == member_uint(expected, "blocks_materialized"));
    assert_true(step->sampler_block_size == member_uint(expected, "sampler_block_size"));
    assert_string_equal(step->subsampling_mode, member_text(expected, "subsampling_mode"));
    assert_string_equal(step->sampling_mode, member_text(expected, "sampling_mode"));
    assert_true(step->effective_q == json_number_value(member(expected, "effective_q")));
    assert_hex_equal(step->sampler_config_hash, 32, member_text(expected, "sampler_config_hash"));
    assert_hex_equal(step->epoch_seed_hash, 32, member_text(expected, "epoch_seed_hash"));
    assert_hex_equal(step->data_replay_t, 32, member_text(expected, "data_replay_t"));
}

static void assert_step(const weir_step *step, const uint64_t *indices, json_t *expected) {
    json_t *list = member(expected, "indices");
    assert_int_equal(step->count, json_array_size(list));
    for (uint64_t i = 0; i < step->count; i++)
        assert_true(indices[i] == uint_of(json_array_get(list, i)));
    assert_true(step->valid_count == member_uint(expected, "valid_count"));
    assert_true(cursors_equal(step->cursor_next,
                              cursor_of(member(expected, "cursor_next"), "epoch", "global_index")));
    assert_metadata(step, member(expected, "metadata"));
}

/* Takes the steps that are listed and returns the cursor behind them. */
static weir_cursor assert_steps(session *s, json_t *vector, json_t *expected) {
    weir_cursor cursor = cursor_of(vector, "epoch", "position");
    for (size_t i = 0; i < json_array_size(expected); i++) {
        json_t *object = json_array_get(expected, i);
        uint64_t *indices = malloc((json_array_size(member(object, "indices")) + 1) * sizeof *indices);
        weir_error error;
        weir_step step;
        assert_non_null(indices);
        assert_ok(weir_sampler_step(s->sampler, cursor, &step, &error), &error);
        assert_int_equal(step.count, json_array_size(member(object, "indices")));
        weir_sampler_indices(s->sampler, &step, indices);
        assert_step(&step, indices, object);
        free(indices);
        cursor = step.cursor_next;
    }
    return cursor;
}

static void golden_steps(void **state) {
    (void)state;
    json_t *vectors = load_vectors("nextbatch.json");
    json_t *list = member(vectors, "cases");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        session s;
        weir_error error;
        assert_ok(open_session(&s, vector, &error), &error);
        assert_hex_equal(weir_manifest_describe(s.manifest)->hash, 32, member_text(vector, "manifest_hash"));
        assert_int_equal(json_array_size(member(vector, "expected")), member_uint(vector, "count"));
        assert_steps(&s, vector, member(vector, "expected"));
        close_session(&s);
    }
    json_decref(vectors);
}

static void golden_errors(void **state) {
    (void)state;
    json_t *vectors = load_vectors("nextbatch_errors.json");
    json_t *list = member(vectors, "cases");
    bool rules[10] = {false};
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        session s;
        weir_error error;
        weir_status status = open_session(&s, vector, &error);
        if (status == WEIR_OK) {
            weir_step step;
            weir_cursor cursor = assert_steps(&s, vector, json_object_get(vector, "expected"));
            status = weir_sampler_step(s.sampler, cursor, &step, &error);
        }
        if (status != (weir_status)member_uint(vector, "numeric_code"))
            fail_msg("%s: %s where %s belongs", member_text(vector, "name"), weir_status_name(status),
                     member_text(vector, "code_id"));
        assert_int_equal(error.status, status);
        bool is_train = strcmp(member_text(vector, "stage"), "train") == 0;
        assert_string_equal(
            error.failure_operator,
            weir_manifest_operator(s.manifest, is_train ? WEIR_STAGE_TRAIN : WEIR_STAGE_EVAL));
        rules[member_uint(vector, "rule")] = true;
        close_session(&s);
    }
    for (int rule = 1; rule <= 9; rule++)
        assert_true(rules[rule]);
    json_decref(vectors);
}

typedef struct run_state {
    weir_sampler **samplers;
    weir__sha256 *rank_hashes;
    weir__sha256 hash;
    uint64_t *indices;
    uint64_t samples;
} run_state;

static weir_cursor take_golden_step(run_state *run, uint32_t world_size, weir_cursor cursor) {
    weir_cursor next = {0, 0};
    for (uint32_t rank = 0; rank < world_size; rank++) {
        weir_step step = take_step(run->samplers[rank], cursor, run->indices);
        hash_indices(&run->hash, run->indices, step.valid_count);
        hash_indices(&run->rank_hashes[rank], run->indices, step.valid_count);
        run->samples += step.valid_count;
        assert_true(rank == 0 || cursors_equal(next, step.cursor_next));
        next = step.cursor_next;
    }
    return next;
}

static void assert_golden_run(json_t *vector) {
    uint32_t world_size = (uint32_t)member_uint(vector, "world_size");
    weir_manifest *manifest = manifest_of(member(vector, "manifest"));
    weir_stage stage;
    weir_error error;
    uint8_t digest[32];
    assert_ok(weir_stage_parse(member_text(vector, "stage"), &stage, &error), &error);
    run_state run = {.samplers = calloc(world_size, sizeof *run.samplers),
                     .rank_hashes = calloc(world_size, sizeof *run.rank_hashes),
                     .indices = malloc(weir_manifest_describe(manifest)->global_batch_size * 8)};
    assert_true(run.samplers && run.rank_hashes && run.indices);
    weir__sha256_init(&run.hash);
    for (uint32_t rank = 0; rank < world_size; rank++) {
        run.samplers[rank] = sampler_of(manifest, member_text(vector, "dataset"), stage, world_size, rank);
        weir__sha256_init(&run.rank_hashes[rank]);
    }
    weir_cursor cursor = cursor_of(vector, "epoch", "position");
    for (uint64_t step = 0; step < member_uint(vector, "steps"); step++)
        cursor = take_golden_step(&run, world_size, cursor);
    weir__sha256_final(&run.hash, digest);
    assert_hex_equal(digest, 32, member_text(vector, "sha256_all"));
    for (uint32_t rank = 0; rank < world_size; rank++) {
        weir__sha256_final(&run.rank_hashes[rank], digest);
        assert_hex_equal(digest, 32, json_string_value(json_array_get(member(vector, "sha256_ranks"), rank)));
        weir_sampler_close(run.samplers[rank]);
    }
    assert_true(run.samples == member_uint(vector, "samples"));
    assert_true(cursors_equal(cursor, cursor_of(member(vector, "cursor_end"), "epoch", "global_index")));
    free(run.samplers);
    free(run.rank_hashes);
    free(run.indices);
    weir_manifest_close(manifest);
}

static void golden_runs(void **state) {
    (void)state;
    json_t *vectors = load_vectors("nextbatch_runs.json");
    json_t *list = member(vectors, "cases");
    for (size_t i = 0; i < json_array_size(list); i++)
        assert_golden_run(json_array_get(list, i));
    json_decref(vectors);
}

/* ---- The order of checks --------------------------------------------------------------------- */

enum { RULES = 9 };

static const weir_status rule_status[RULES + 1] = {
    WEIR_OK,
    WEIR_INVALID_STAGE_TYPE,
    WEIR_INVALID_DATASET_KEY,
    WEIR_CARDINALITY_MISMATCH,
    WEIR_BATCH_SIZE_INCONSISTENT,
    WEIR_CONTRACT_VIOLATION,
    WEIR_BATCH_SIZE_INCONSISTENT,
    WEIR_BATCH_SIZE_INCONSISTENT,
    WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY,
    WEIR_COUNTER_OVERFLOW,
};

/* A request that breaks the rules whose bits are set (bit r for rule r) and no other. */
static weir_status break_rules(unsigned broken, weir_error *error) {
    bool is_broken[RULES + 1];
    for (int rule = 1; rule <= RULES; rule++)
        is_broken[rule] = broken >> rule & 1;
    weir_data_config data = {.sampler_block_size = is_broken[6] ? 0 : 5, .drop_last = is_broken[7]};
    weir_manifest *manifest = manifest_of_numbers(is_broken[3] ? 0 : 40, is_broken[7] ? 80 : 8, &data, 1);
    weir_sampler_options options = {.size = sizeof options,
                                    .dataset = is_broken[2] ? "b" : "a",
                                    .world_size = is_broken[4] ? 3 : 2,
                                    .rank = is_broken[5] ? 3 : 1};
    weir_cursor cursor = {is_broken[9] ? UINT64_MAX : 3, is_broken[8] ? 40 : 32};
    weir_sampler *sampler = NULL;
    weir_step step;
    weir_status status = weir_stage_parse(is_broken[1] ? "Train" : "train", &options.stage, error);
    if (status == WEIR_OK)
        status = weir_sampler_open(NULL, manifest, &options, &sampler, error);
    if (status == WEIR_OK)
        status = weir_sampler_step(sampler, cursor, &step, error);
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
    return status;
}

/* What each rule's message must speak of, so that rules with one status are told apart. */
static const char *const rule_words[RULES + 1] = {
    "",       "no stage 'Train'",   "no dataset 'b'", "cardinality 0",      "multiple of world_size 3",
    "rank 3", "sampler_block_size", "drop_last",      "beyond the dataset", "2^64-1",
};

static void of_any_set_of_faults_the_first_is_reported(void **state) {
    (void)state;
    for (unsigned broken = 0; broken < 1u << (RULES + 1); broken += 2) {
        weir_error error;
        int first = broken ? __builtin_ctz(broken) : 0;
        assert_fails(break_rules(broken, &error), rule_status[first], &error);
        if (first)
            assert_non_null(strstr(error.message, rule_words[first]));
    }
}

static void a_store_of_another_size_is_refused_third(void **state) {
    (void)state;
    weir_manifest *manifest = manifest_of_numbers(40, 8, &(weir_data_config){.sampler_block_size = 5}, 1);
    uint64_t in_store = 41;
    weir_sampler_options options = {.size = sizeof options,
                                    .dataset = "a",
                                    .world_size = 0, /* rule 4, which comes after */
                                    .store_cardinality = &in_store};
    weir_sampler *sampler = NULL;
    weir_error error;
    assert_fails(weir_sampler_open(NULL, manifest, &options, &sampler, &error), WEIR_CARDINALITY_MISMATCH,
                 &error);
    assert_non_null(strstr(error.message, "40"));
    assert_non_null(strstr(error.message, "41"));
    in_store = 40;
    options.world_size = 1;
    assert_ok(weir_sampler_open(NULL, manifest, &options, &sampler, &error), &error);
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
}

static void stages_and_options_are_checked(void **state) {
    (void)state;
    static const char *const unknown[] = {"", "Train", "train ", "trai", "evaluation", "\xff"};
    weir_manifest *manifest = manifest_of_numbers(40, 8, &(weir_data_config){.sampler_block_size = 5}, 1);
    weir_sampler *sampler = NULL;
    weir_error error;
    weir_stage stage;
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        assert_fails(weir_stage_parse(unknown[i], &stage, &error), WEIR_INVALID_STAGE_TYPE, &error);
    assert_ok(weir_stage_parse("infer", &stage, &error), &error);
    assert_int_equal(stage, WEIR_STAGE_INFER);
    weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 1};
    for (unsigned i = 0; i < WEIR_STAGES; i++) {
        assert_ok(weir_stage_parse(weir_stage_name((weir_stage)i), &stage, &error), &error);
        assert_int_equal(stage, i);
    }
    assert_null(weir_stage_name(WEIR_STAGES));
    options.stage = WEIR_STAGES;
    assert_fails(weir_sampler_open(NULL, manifest, &options, &sampler, &error), WEIR_INVALID_STAGE_TYPE,
                 &error);
    options.stage = WEIR_STAGE_TRAIN;
    options.size = 8;
    assert_fails(weir_sampler_open(NULL, manifest, &options, &sampler, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    assert_null(sampler);
    weir_sampler_close(NULL);
    weir_manifest_close(manifest);
}

static const char *diagnostic_text(const weir_error *error, const char *name) {
    for (uint32_t i = 0; i < error->diagnostic_count; i++)
        if (strcmp(error->diagnostics[i].name, name) == 0)
            return error->diagnostics[i].text;
    return NULL;
}

/* The seed's failure record needs the key and the token of the call: every error has them, and those of
 * opening are of the cursor that the caller names. */
static void every_error_names_its_call(void **state) {
    (void)state;
    json_t *vectors = load_vectors("nextbatch_errors.json");
    json_t *list = member(vectors, "cases");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_stage stage;
        session s;
        weir_error error;
        weir_step step;
        uint8_t digest[32];
        weir_cbor_writer w;
        if (weir_stage_parse(member_text(vector, "stage"), &stage, NULL) != WEIR_OK)
            continue; /* there is no call yet */
        weir_cursor cursor = cursor_of(vector, "epoch", "position");
        weir_status status = open_session(&s, vector, &error);
        if (status == WEIR_OK) {
            cursor = assert_steps(&s, vector, json_object_get(vector, "expected"));
            status = weir_sampler_step(s.sampler, cursor, &step, &error);
        }
        assert_int_not_equal(status, WEIR_OK);
        assert_string_equal(diagnostic_text(&error, "dataset_key"), member_text(vector, "dataset"));
        assert_int_equal(error.rank, member_uint(vector, "rank"));
        assert_int_equal(error.replay_token_size, 32);
        weir_cbor_writer_memory(&w, NULL);
        weir_cbor_array(&w, 7);
        weir_cbor_text(&w, "nextbatch_v2");
        json_t *token = member(vector, "token");
        if (json_is_null(token)) {
            weir_cbor_bytes(&w, weir_manifest_describe(s.manifest)->token, WEIR_TOKEN_SIZE);
        } else {
            size_t size;
            const uint8_t *bytes = bytes_of_hex(json_string_value(token), &size);
            weir_cbor_bytes(&w, bytes, size);
        }
        weir_cbor_text(&w, member_text(vector, "dataset"));
        weir_cbor_uint(&w, cursor.epoch);
        weir_cbor_uint(&w, cursor.global_index);
        weir_cbor_uint(&w, member_uint(vector, "world_size"));
        weir_cbor_uint(&w, member_uint(vector, "rank"));
        assert_ok(weir_cbor_finish(&w, &error), &error);
        weir__sha256_of(w.data, w.size, digest);
        assert_memory_equal(error.replay_token, digest, 32);
        weir_cbor_release(&w);
        close_session(&s);
    }
    json_decref(vectors);
}

static void advice_in_the_message_works(void **state) {
    (void)state;
    static const struct {
        uint64_t batch;
        uint32_t world_size;
        const char *advice;
    } cases[] = {
        {30, 8, "choose 24 or 32"},
        {3, 4, "choose 4"},
        {UINT64_MAX - 1, 4, "choose 18446744073709551612"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weir_manifest *manifest =
            manifest_of_numbers(100, cases[i].batch, &(weir_data_config){.sampler_block_size = 5}, 1);
        weir_sampler_options options = {
            .size = sizeof options, .dataset = "a", .world_size = cases[i].world_size};
        weir_sampler *sampler = NULL;
        weir_error error;
        assert_fails(weir_sampler_open(NULL, manifest, &options, &sampler, &error),
                     WEIR_BATCH_SIZE_INCONSISTENT, &error);
        const char *found = strstr(error.message, cases[i].advice);
        assert_non_null(found);
        assert_string_equal(found, cases[i].advice);
        weir_manifest_close(manifest);
    }
}

/* ---- Counters at their end ------------------------------------------------------------------- */

static void assert_step_fails(weir_sampler *sampler, weir_cursor cursor, weir_status expected) {
    weir_error error;
    weir_step step, untouched;
    memset(&untouched, 0x5A, sizeof untouched);
    step = untouched;
    assert_fails(weir_sampler_step(sampler, cursor, &step, &error), expected, &error);
    assert_memory_equal(&step, &untouched, sizeof step); /* no output */
    assert_int_equal(error.replay_token_size, WEIR_HASH_SIZE);
}

static void the_last_epoch_does_not_end(void **state) {
    (void)state;
    static const weir_data_config configs[] = {
        {.sampler_block_size = 7},
        {.sampler_block_size = 7, .drop_last = true},
        {.sampler_block_size = 7, .rotate = true, .intra_block = WEIR_INTRA_FEISTEL_V1},
        {.sampler_block_size = 7, .epoch_boundary = WEIR_BOUNDARY_STREAM},
    };
    uint64_t indices[8];
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++)
        for (int stage = 0; stage < 3; stage++) {
            weir_manifest *manifest = manifest_of_numbers(20, 8, &configs[i], 1);
            weir_sampler *sampler = sampler_of(manifest, "a", (weir_stage)stage, 1, 0);
            weir_step step = take_step(sampler, (weir_cursor){UINT64_MAX, 0}, indices);
            assert_true(cursors_equal(step.cursor_next, (weir_cursor){UINT64_MAX, 8}));
            bool is_short = stage == WEIR_STAGE_TRAIN && configs[i].drop_last; /* its epoch ends at 16 */
            if (!is_short) {
                step = take_step(sampler, step.cursor_next, indices);
                assert_true(cursors_equal(step.cursor_next, (weir_cursor){UINT64_MAX, 16}));
            }
            assert_step_fails(sampler, step.cursor_next, WEIR_COUNTER_OVERFLOW);
            assert_step_fails(sampler, (weir_cursor){UINT64_MAX, 20},
                              WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY);
            step = take_step(sampler, (weir_cursor){UINT64_MAX - 1, 16}, indices);
            uint64_t behind = configs[i].epoch_boundary == WEIR_BOUNDARY_STREAM && stage == 0 ? 4 : 0;
            assert_true(cursors_equal(step.cursor_next, (weir_cursor){UINT64_MAX, behind}));
            weir_sampler_close(sampler);
            weir_manifest_close(manifest);
        }
}

/* A dataset of 2^64-1 samples: every sum is at the edge. */
static void positions_reach_the_end_of_64_bits(void **state) {
    (void)state;
    const uint64_t block = (uint64_t)1 << 60;
    for (int variant = 0; variant < 4; variant++) {
        weir_data_config data = {.sampler_block_size = block,
                                 .intra_block = variant & 1 ? WEIR_INTRA_FEISTEL_V1 : WEIR_INTRA_AFFINE_V1,
                                 .rotate = variant & 2};
        weir_manifest *manifest = manifest_of_numbers(UINT64_MAX, 64, &data, 1);
        uint64_t whole[64], share[64], at;
        weir_error error;
        weir_sampler *one = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 1, 0);
        weir_cursor last = {5, UINT64_MAX - 40};
        weir_step step = take_step(one, last, whole);
        assert_int_equal(step.count, 40);
        assert_int_equal(step.effective_batch_size, 40);
        assert_true(cursors_equal(step.cursor_next, (weir_cursor){6, 0}));
        uint64_t done = 0;
        for (uint32_t rank = 0; rank < 4; rank++) {
            weir_sampler *sampler = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 4, rank);
            weir_step mine = take_step(sampler, last, share);
            assert_memory_equal(share, whole + done, mine.count * 8);
            done += mine.count;
            weir_sampler_close(sampler);
        }
        assert_int_equal(done, 40);
        for (uint64_t i = 0; i < 40; i++) {
            assert_ok(weir_sampler_index_at(one, 5, last.global_index + i, &at, &error), &error);
            assert_true(at == whole[i] && at < UINT64_MAX);
        }
        assert_step_fails(one, (weir_cursor){5, UINT64_MAX}, WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY);
        weir_sampler_close(one);
        weir_manifest_close(manifest);
    }
}

static void batches_reach_the_end_of_64_bits(void **state) {
    (void)state;
    weir_data_config data = {.sampler_block_size = 1000, .epoch_boundary = WEIR_BOUNDARY_STREAM};
    uint64_t batch = UINT64_MAX - UINT64_MAX % 8;
    weir_manifest *manifest = manifest_of_numbers(1000, batch, &data, 1);
    weir_sampler *sampler = sampler_of(manifest, "a", WEIR_STAGE_TRAIN, 8, 7);
    weir_error error;
    weir_step step;
    assert_ok(weir_sampler_step(sampler, (weir_cursor){0, 0}, &step, &error), &error);
    assert_true(step.count == batch / 8);
    assert_true(cursors_equal(step.cursor_next, (weir_cursor){batch / 1000, batch % 1000}));
    uint64_t room = UINT64_MAX - batch;
    assert_ok(weir_sampler_step(sampler, (weir_cursor){0, room}, &step, &error), &error);
    assert_step_fails(sampler, (weir_cursor){0, room + 1}, WEIR_COUNTER_OVERFLOW);
    weir_sampler_close(sampler);
    sampler = sampler_of(manifest, "a", WEIR_STAGE_EVAL, 8, 7);
    assert_ok(weir_sampler_step(sampler, (weir_cursor){0, room}, &step, &error), &error);
    assert_int_equal(step.valid_count, 0);
    assert_step_fails(sampler, (weir_cursor){0, room + 1}, WEIR_COUNTER_OVERFLOW);
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
}

/* ---- Eval and infer -------------------------------------------------------------------------- */

static void eval_and_infer_go_in_order_and_count_what_is_valid(void **state) {
    (void)state;
    static const uint64_t sizes[] = {1, 2, 5, 23, 24, 25, 48, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (uint32_t world_size = 1; world_size <= 24; world_size *= 2) {
            if (24 % world_size)
                break;
            weir_data_config data = {.sampler_block_size = 7, .drop_last = i % 2, .rotate = true};
            weir_manifest *manifest = manifest_of_numbers(sizes[i], 24, &data, 1);
            uint64_t n = sizes[i], indices[24], steps = (n + 23) / 24;
            for (uint32_t rank = 0; rank < world_size; rank++) {
                weir_sampler *sampler =
                    sampler_of(manifest, "a", i % 2 ? WEIR_STAGE_EVAL : WEIR_STAGE_INFER, world_size, rank);
                weir_cursor cursor = {3, 0};
                for (uint64_t t = 0; t < steps; t++) {
                    weir_step step = take_step(sampler, cursor, indices);
                    uint64_t first = t * 24 + rank * (24 / world_size);
                    uint64_t valid = first >= n ? 0 : n - first;
                    assert_int_equal(step.count, 24 / world_size);
                    assert_int_equal(step.valid_count, valid < step.count ? valid : step.count);
                    assert_int_equal(step.effective_batch_size, n - t * 24 < 24 ? n - t * 24 : 24);
                    assert_int_equal(step.blocks_materialized, 0);
                    for (uint64_t k = 0; k < step.count; k++)
                        assert_int_equal(indices[k], (first + k) % n);
                    cursor = step.cursor_next;
                }
                assert_true(cursors_equal(cursor, (weir_cursor){4, 0}));
                weir_sampler_close(sampler);
            }
            weir_manifest_close(manifest);
        }
}

/* ---- Random access --------------------------------------------------------------------------- */

static const weir_data_config access_configs[] = {
    {.sampler_block_size = 100},
    {.sampler_block_size = 97, .intra_block = WEIR_INTRA_FEISTEL_V1, .rotate = true},
    {.sampler_block_size = 5000, .rotate = true},
    {.sampler_block_size = 1, .epoch_boundary = WEIR_BOUNDARY_STREAM},
    {.sampler_block_size = 20000, .intra_block = WEIR_INTRA_FEISTEL_V1},
};

static void random_access_agrees_with_steps(void **state) {
    (void)state;
    enum { N = 9973 };
    static uint64_t range[N], indices[512];
    random_stream random = {20};
    for (size_t c = 0; c < sizeof access_configs / sizeof access_configs[0]; c++)
        for (int stage = 0; stage < 2; stage++) {
            weir_manifest *manifest = manifest_of_numbers(N, 512, &access_configs[c], c);
            weir_sampler *a = sampler_of(manifest, "a", (weir_stage)stage, 1, 0);
            weir_sampler *b = sampler_of(manifest, "a", (weir_stage)stage, 1, 0);
            weir_error error;
            for (int round = 0; round < 100; round++) {
                uint64_t epoch = random_below(&random, 4), position = random_below(&random, N);
                uint64_t count = random_below(&random, N - position + 1), at;
                assert_ok(weir_sampler_range(a, epoch, position, count, range, &error), &error);
                weir_step step = take_step(b, (weir_cursor){epoch, position}, indices);
                uint64_t shared = count < 512 ? count : 512;
                shared = shared < step.valid_count ? shared : step.valid_count;
                assert_memory_equal(range, indices, shared * 8);
                for (uint64_t i = 0; i < count; i += 1 + random_below(&random, 300)) {
                    assert_ok(weir_sampler_index_at(b, epoch, position + i, &at, &error), &error);
                    assert_true(at == range[i]);
                }
            }
            weir_sampler_close(a);
            weir_sampler_close(b);
            weir_manifest_close(manifest);
        }
}

static void random_access_ends_with_the_epoch(void **state) {
    (void)state;
    uint64_t out[2] = {7, 7};
    weir_error error;
    weir_manifest *manifest = manifest_of_numbers(40, 8, &(weir_data_config){.sampler_block_size = 6}, 1);
    for (int stage = 0; stage < 3; stage++) {
        weir_sampler *s = sampler_of(manifest, "a", (weir_stage)stage, 1, 0);
        const weir_status beyond = WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY;
        assert_ok(weir_sampler_range(s, 0, 39, 0, out, &error), &error);
        assert_fails(weir_sampler_range(s, 0, 40, 0, out, &error), beyond, &error);
        assert_fails(weir_sampler_range(s, 0, 39, 2, out, &error), beyond, &error);
        assert_fails(weir_sampler_range(s, 0, 1, UINT64_MAX, out, &error), beyond, &error);
        assert_fails(weir_sampler_range(s, 0, UINT64_MAX, 1, out, &error), beyond, &error);
        assert_fails(weir_sampler_index_at(s, 0, 40, out, &error), beyond, &error);
        assert_true(out[0] == 7 && out[1] == 7);
        assert_ok(weir_sampler_index_at(s, UINT64_MAX, 39, out, &error), &error);
        assert_true(out[0] < 40);
        weir_sampler_close(s);
        out[0] = 7;
    }
    weir_manifest_close(manifest);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void nothing_is_allocated_after_open(void **state) {
    (void)state;
    uint64_t indices[64], at;
    for (size_t c = 0; c < sizeof access_configs / sizeof access_configs[0]; c++)
        for (int stage = 0; stage < 2; stage++) {
            fault_env faults;
            fault_env_init(&faults);
            weir_manifest *manifest = manifest_of_numbers(1009, 64, &access_configs[c], c);
            weir_sampler_options options = {
                .size = sizeof options, .dataset = "a", .stage = (weir_stage)stage, .world_size = 1};
            weir_sampler *sampler = NULL;
            weir_error error;
            assert_ok(weir_sampler_open(&faults.env, manifest, &options, &sampler, &error), &error);
            weir_manifest_close(manifest); /* it is not needed any more */
            faults.kind = FAULT_MEMORY;
            faults.fail_at = 1;
            faults.from_then_on = true;
            uint64_t calls[FAULT_KINDS];
            memcpy(calls, faults.calls, sizeof calls);
            weir_cursor cursor = {0, 0};
            for (int t = 0; t < 100; t++)
                cursor = take_step(sampler, cursor, indices).cursor_next;
            assert_ok(weir_sampler_range(sampler, 50, 900, 64, indices, &error), &error);
            assert_ok(weir_sampler_index_at(sampler, 9, 17, &at, &error), &error);
            assert_memory_equal(calls, faults.calls, sizeof calls);
            weir_sampler_close(sampler);
            assert_int_equal(faults.live_allocations, 0);
        }
}

/* 4 bytes a block for each of two epochs, and little else. */
static size_t allocated;

static void *allocate_and_count(void *context, size_t size) {
    (void)context;
    allocated += size;
    return weir_env_default()->allocate(NULL, size);
}

static void an_open_sampler_of_ten_to_the_eleven_fits_a_mebibyte(void **state) {
    (void)state;
    weir_env env = *weir_env_default();
    env.allocate = allocate_and_count;
    weir_manifest *manifest =
        manifest_of_numbers(100000000000u, 1024, &(weir_data_config){.sampler_block_size = 1 << 20}, 1);
    weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 1};
    weir_sampler *sampler = NULL;
    weir_error error;
    allocated = 0;
    assert_ok(weir_sampler_open(&env, manifest, &options, &sampler, &error), &error);
    size_t blocks = 100000000000u >> 20;
    assert_in_range(allocated, 2 * 4 * blocks, 1 << 20);
    weir_sampler_close(sampler);
    options.stage = WEIR_STAGE_EVAL;
    allocated = 0;
    assert_ok(weir_sampler_open(&env, manifest, &options, &sampler, &error), &error);
    assert_in_range(allocated, 1, 8192); /* eval needs no order */
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
}

static void more_blocks_than_memory_is_an_error(void **state) {
    (void)state;
    weir_manifest *manifest =
        manifest_of_numbers(UINT64_MAX, 8, &(weir_data_config){.sampler_block_size = 1}, 1);
    weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 1};
    weir_sampler *sampler = NULL;
    weir_error error;
    assert_fails(weir_sampler_open(NULL, manifest, &options, &sampler, &error), WEIR_OUT_OF_MEMORY, &error);
    assert_non_null(strstr(error.message, "sampler_block_size"));
    assert_null(sampler);
    weir_manifest_close(manifest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_steps),
        cmocka_unit_test(golden_errors),
        cmocka_unit_test(golden_runs),
        cmocka_unit_test(of_any_set_of_faults_the_first_is_reported),
        cmocka_unit_test(a_store_of_another_size_is_refused_third),
        cmocka_unit_test(stages_and_options_are_checked),
        cmocka_unit_test(every_error_names_its_call),
        cmocka_unit_test(advice_in_the_message_works),
        cmocka_unit_test(the_last_epoch_does_not_end),
        cmocka_unit_test(positions_reach_the_end_of_64_bits),
        cmocka_unit_test(batches_reach_the_end_of_64_bits),
        cmocka_unit_test(eval_and_infer_go_in_order_and_count_what_is_valid),
        cmocka_unit_test(random_access_agrees_with_steps),
        cmocka_unit_test(random_access_ends_with_the_epoch),
        cmocka_unit_test(nothing_is_allocated_after_open),
        cmocka_unit_test(an_open_sampler_of_ten_to_the_eleven_fits_a_mebibyte),
        cmocka_unit_test(more_blocks_than_memory_is_an_error),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
