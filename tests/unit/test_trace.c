/* The trace: what is written is read back; nothing can be cut or changed unnoticed; a run resumed anywhere
 * gives the same steps; replay, diff and merge find what differs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory_env.h"
#include "support/testing.h"
#include "trace/record.h"

enum { STEPS = 24, BATCH = 12 };

static memory_env memory;

static weir_manifest *manifest_with(const char *data, uint64_t seed) {
    char text[1024];
    weir_error error;
    weir_manifest *manifest;
    char hash[65] = {0};
    memset(hash, '0', 64);
    snprintf(text, sizeof text,
             "{\"seed\": %llu, \"global_batch_size\": %d, \"datasets\": {\"a\": {\"id\": \"a\", \"version\": "
             "\"1\", \"hash\": "
             "\"%s\", \"cardinality\": 101}, \"bb\": {\"id\": \"b\", \"version\": \"1\", \"hash\": \"%s\", "
             "\"cardinality\": "
             "57}}, \"mix\": {\"a\": 2, \"bb\": 1}, \"data\": {%s}}",
             (unsigned long long)seed, BATCH, hash, hash, data);
    assert_ok(weir_manifest_read(NULL, text, strlen(text), "test", &manifest, &error), &error);
    return manifest;
}

/* A run of the mix: samplers for both datasets and the steps' places. */
typedef struct run {
    weir_manifest *manifest;
    weir_mix *mix;
    weir_sampler *samplers[2];
    weir_trace_run description;
} run;

static void run_open(run *r, const char *data, uint64_t seed, uint32_t world_size, uint32_t rank) {
    weir_error error;
    r->manifest = manifest_with(data, seed);
    assert_ok(weir_mix_open(NULL, r->manifest, NULL, 0, &r->mix, &error), &error);
    for (size_t i = 0; i < 2; i++) {
        weir_sampler_options options = {.size = sizeof options,
                                        .dataset = weir_manifest_describe(r->manifest)->datasets[i].key,
                                        .world_size = world_size,
                                        .rank = rank};
        assert_ok(weir_sampler_open(NULL, r->manifest, &options, &r->samplers[i], &error), &error);
    }
    r->description = (weir_trace_run){.size = sizeof r->description,
                                      .manifest = r->manifest,
                                      .world_size = world_size,
                                      .rank = rank,
                                      .schedule = WEIR_SCHEDULE_MIX};
}

static void run_close(run *r) {
    weir_sampler_close(r->samplers[0]);
    weir_sampler_close(r->samplers[1]);
    weir_mix_close(r->mix);
    weir_manifest_close(r->manifest);
}

static weir_status append_steps(run *r, weir_trace_writer *writer, uint64_t first, uint64_t end,
                                weir_error *error) {
    for (uint64_t t = first; t < end; t++) {
        const weir_dataset *dataset;
        weir_cursor cursor;
        weir_step step;
        uint64_t indices[BATCH], digests[BATCH];
        uint8_t batch_digest[16] = {(uint8_t)t};
        weir_status status = weir_mix_locate(r->mix, t, &dataset, &cursor, error);
        weir_sampler *sampler = r->samplers[strcmp(dataset->key, "a") != 0];
        if (status == WEIR_OK)
            status = weir_sampler_step(sampler, cursor, &step, error);
        if (status != WEIR_OK)
            return status;
        weir_sampler_indices(sampler, &step, indices);
        for (size_t i = 0; i < step.count; i++)
            digests[i] = indices[i] * 0x9E3779B97F4A7C15u; /* a digest is a function of the sample */
        weir_trace_iter iter = {.t = t,
                                .dataset = dataset->key,
                                .step = &step,
                                .indices = indices,
                                .batch_digest = batch_digest,
                                .sample_digests = digests};
        status = weir_trace_append(writer, &iter, error);
        if (status != WEIR_OK)
            return status;
    }
    return WEIR_OK;
}

/* Writes a whole trace. */
static void write_trace(run *r, const char *path) {
    weir_error error;
    weir_trace_writer *writer;
    memory.env.remove(&memory, path);
    assert_ok(weir_trace_create(&memory.env, path, &r->description, NULL, &writer, &error), &error);
    assert_ok(append_steps(r, writer, 0, STEPS, &error), &error);
    assert_ok(weir_trace_finish(writer, &error), &error);
    weir_trace_writer_close(writer);
}

/* Reads all records; how many there were, or the failure. */
static weir_status read_all(const char *path, uint64_t *records, bool *has_end, weir_error *error) {
    weir_trace_reader *reader;
    weir_trace_record record = {0};
    *records = 0;
    *has_end = false;
    weir_status status = weir_trace_open(&memory.env, path, &reader, error);
    if (status != WEIR_OK)
        return status;
    while ((status = weir_trace_next(reader, &record, error)) == WEIR_OK && record.kind != WEIR_TRACE_EOF) {
        (*records)++;
        *has_end = record.kind == WEIR_TRACE_END;
    }
    weir_trace_close(reader);
    return status;
}

static void test_written_is_read_back(void **state) {
    (void)state;
    run r;
    weir_error error;
    uint64_t records;
    bool has_end;
    weir_replay_report report;
    const char *path = "plain.trace";
    run_open(&r, "\"rotate\": true", 5, 1, 0);
    write_trace(&r, path);
    assert_ok(read_all(path, &records, &has_end, &error), &error);
    assert_int_equal(records, STEPS + 1);
    assert_true(has_end);
    assert_ok(weir_trace_replay(&memory.env, path, NULL, &report, &error), &error);
    assert_int_equal(report.steps, STEPS);
    assert_int_equal(report.unchecked_digests, STEPS);
    assert_true(report.is_complete);
    weir_replay_options options = {.size = sizeof options, .manifest = r.manifest};
    assert_ok(weir_trace_replay(&memory.env, path, &options, &report, &error), &error);
    weir_manifest *other = manifest_with("\"rotate\": true", 6);
    options.manifest = other;
    assert_fails(weir_trace_replay(&memory.env, path, &options, &report, &error), WEIR_CHECKPOINT_MISMATCH,
                 &error);
    weir_manifest_close(other);
    run_close(&r);
}

/* The next record, which must be of this kind. */
static weir_trace_record next_record(weir_trace_reader *reader, weir_trace_kind kind) {
    weir_error error;
    weir_trace_record record;
    assert_ok(weir_trace_next(reader, &record, &error), &error);
    assert_int_equal(record.kind, kind);
    return record;
}

static void assert_text(weir_text text, const char *expected) {
    assert_int_equal(text.size, strlen(expected));
    assert_memory_equal(text.data, expected, text.size);
}

/* Asserts that an iter is step t of the run; the positions that it consumes. */
static uint64_t assert_iter(run *r, const weir_trace_record *iter, uint64_t t) {
    weir_error error;
    const weir_dataset *dataset;
    weir_cursor cursor;
    weir_step step;
    uint64_t indices[BATCH], expected[BATCH], digests[BATCH];
    assert_ok(weir_mix_locate(r->mix, t, &dataset, &cursor, &error), &error);
    weir_sampler *sampler = r->samplers[strcmp(dataset->key, "a") != 0];
    assert_ok(weir_sampler_step(sampler, cursor, &step, &error), &error);
    assert_int_equal(iter->t, t);
    assert_text(iter->dataset, dataset->key);
    assert_true(iter->has_cursor);
    assert_memory_equal(&iter->cursor_before, &cursor, sizeof cursor);
    assert_memory_equal(&iter->cursor_after, &step.cursor_next, sizeof cursor);
    assert_int_equal(iter->stage, WEIR_STAGE_TRAIN);
    assert_int_equal(iter->valid_count, step.valid_count);
    assert_int_equal(iter->effective_batch_size, step.effective_batch_size);
    assert_memory_equal(iter->data_replay_t, step.data_replay_t, WEIR_HASH_SIZE);
    assert_int_equal(iter->batch_digest[0], t);
    assert_int_equal(iter->index_count, step.count);
    assert_int_equal(iter->sample_digest_count, step.valid_count);
    weir_trace_samples(iter, indices, digests);
    weir_sampler_indices(sampler, &step, expected);
    assert_memory_equal(indices, expected, step.count * sizeof *indices);
    for (uint64_t i = 0; i < step.valid_count; i++)
        assert_true(digests[i] == indices[i] * 0x9E3779B97F4A7C15u);
    return step.effective_batch_size;
}

/* What a run wrote, as a reader without CBOR sees it. */
static void test_records_say_what_was_written(void **state) {
    (void)state;
    run r;
    weir_error error, cause = {.status = WEIR_IO_ERROR, .failure_operator = "some.operator"};
    weir_trace_writer *writer;
    weir_trace_reader *reader;
    uint64_t samples = 0;
    const uint8_t checkpoint[WEIR_HASH_SIZE] = {7}, token[WEIR_HASH_SIZE] = {9};
    const char *path = "typed.trace";
    run_open(&r, "\"rotate\": true", 5, 2, 1);
    memory.env.remove(&memory, path);
    weir_trace_start start = {2, checkpoint};
    weir_trace_failure failure = {
        .t = 4, .error = &cause, .dataset = "b", .cursor = &(weir_cursor){3, 5}, .data_replay_t = token};
    snprintf(cause.message, sizeof cause.message, "the disk is full");
    assert_ok(weir_trace_create(&memory.env, path, &r.description, &start, &writer, &error), &error);
    assert_ok(append_steps(&r, writer, 2, 4, &error), &error);
    assert_ok(weir_trace_fail(writer, &failure, &error), &error);
    weir_trace_writer_close(writer);

    assert_ok(weir_trace_open(&memory.env, path, &reader, &error), &error);
    const weir_trace_info *info = weir_trace_describe(reader);
    assert_text(info->weir_version, weir_version());
    assert_int_equal(info->world_size, 2);
    assert_int_equal(info->rank, 1);
    assert_int_equal(info->schedule, WEIR_SCHEDULE_MIX);
    assert_false(info->is_best_effort);
    assert_int_equal(info->store_count, r.description.store_count);
    assert_memory_equal(info->manifest_hash, weir_manifest_describe(r.manifest)->hash, WEIR_HASH_SIZE);
    assert_int_equal(info->token_size, WEIR_TOKEN_SIZE);
    assert_memory_equal(info->token, weir_manifest_describe(r.manifest)->token, WEIR_TOKEN_SIZE);

    weir_trace_record resume = next_record(reader, WEIR_TRACE_RESUME);
    assert_int_equal(resume.t, 2);
    assert_memory_equal(resume.checkpoint_hash, checkpoint, sizeof checkpoint);
    weir_trace_record two = next_record(reader, WEIR_TRACE_ITER);
    assert_int_equal(two.offset, resume.end);
    samples += assert_iter(&r, &two, 2);
    weir_trace_record three = next_record(reader, WEIR_TRACE_ITER);
    samples += assert_iter(&r, &three, 3);
    weir_trace_record failed = next_record(reader, WEIR_TRACE_FAILURE);
    assert_int_equal(failed.t, 4);
    assert_text(failed.dataset, "b");
    assert_text(failed.failure_code, "IO_ERROR");
    assert_text(failed.failure_operator, "some.operator");
    assert_text(failed.message, "the disk is full");
    assert_true(failed.has_cursor && failed.cursor_before.epoch == 3 &&
                failed.cursor_before.global_index == 5);
    assert_memory_equal(failed.data_replay_t, token, sizeof token);
    weir_trace_record last = next_record(reader, WEIR_TRACE_END);
    assert_int_equal(last.status, WEIR_RUN_FAILED);
    assert_int_equal(last.total_samples, samples);
    assert_null(next_record(reader, WEIR_TRACE_EOF).data);
    weir_trace_close(reader);
    run_close(&r);
}

static void test_an_existing_trace_is_not_overwritten(void **state) {
    (void)state;
    run r;
    weir_error error;
    weir_trace_writer *writer;
    const char *path = "kept.trace";
    run_open(&r, "", 5, 1, 0);
    write_trace(&r, path);
    assert_fails(weir_trace_create(&memory.env, path, &r.description, NULL, &writer, &error), WEIR_IO_ERROR,
                 &error);
    uint64_t records;
    bool has_end;
    assert_ok(read_all(path, &records, &has_end, &error), &error);
    run_close(&r);
}

static int synced_folders;

/* A folder's handle is the one beyond all files. */
static int count_folder(void *context, int handle) {
    (void)context;
    synced_folders += handle == MEMORY_HANDLES;
    return 0;
}

static void test_a_new_trace_keeps_its_name_in_a_crash(void **state) {
    (void)state;
    run r;
    weir_error error;
    weir_trace_writer *writer;
    run_open(&r, "", 5, 1, 0);
    weir_env env = memory.env;
    env.sync = count_folder;
    synced_folders = 0;
    assert_ok(weir_trace_create(&env, "new.trace", &r.description, NULL, &writer, &error), &error);
    assert_int_equal(synced_folders, 1);
    weir_trace_writer_close(writer);
    run_close(&r);
}

/* Every bit of a trace flipped, one at a time: found, and never a crash. */
static void test_every_flipped_bit_is_found(void **state) {
    (void)state;
    run r;
    weir_error error;
    uint64_t records;
    bool has_end;
    const char *path = "flip.trace";
    run_open(&r, "", 5, 4, 3);
    memory.env.remove(&memory, path);
    weir_trace_writer *writer;
    assert_ok(weir_trace_create(&memory.env, path, &r.description, NULL, &writer, &error), &error);
    assert_ok(append_steps(&r, writer, 0, 2, &error), &error);
    assert_ok(weir_trace_finish(writer, &error), &error);
    weir_trace_writer_close(writer);
    memory_file *file = memory_env_file(&memory, path);
    for (size_t bit = 0; bit < 8 * file->size; bit++) {
        file->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (read_all(path, &records, &has_end, &error) != WEIR_TRACE_CORRUPT)
            fail_msg("flipping bit %zu of byte %zu went unnoticed", bit % 8, bit / 8);
        file->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    run_close(&r);
}

/* A trace that is cut ends in a fault, or at a record's end without its run_end. */
static void test_every_truncation_is_found(void **state) {
    (void)state;
    run r;
    weir_error error;
    uint64_t records, whole_records = 0;
    bool has_end;
    const char *path = "cut.trace";
    run_open(&r, "", 5, 2, 1);
    write_trace(&r, path);
    memory_file *file = memory_env_file(&memory, path);
    size_t size = file->size;
    for (size_t cut = 0; cut < size; cut += test_stride()) {
        file->size = cut;
        weir_status status = read_all(path, &records, &has_end, &error);
        assert_true(status == WEIR_TRACE_CORRUPT || (status == WEIR_OK && !has_end));
        whole_records += status == WEIR_OK;
    }
    if (test_stride() == 1) /* after the header and after each step */
        assert_int_equal(whole_records, STEPS + 1);
    run_close(&r);
}

/* Stopped after any number of steps, with any number of steps behind the checkpoint and a torn record, and
 * resumed: the same steps. */
static void test_a_resumed_trace_has_the_same_steps(void **state) {
    (void)state;
    run r;
    weir_error error;
    weir_trace_difference difference;
    weir_replay_report report;
    uint8_t checkpoint[WEIR_HASH_SIZE] = {7};
    const char *whole = "whole.trace";
    const char *path = "resumed.trace";
    run_open(&r, "\"epoch_boundary\": \"stream\"", 9, 1, 0);
    write_trace(&r, whole);
    for (uint64_t checkpoint_step = 0; checkpoint_step <= STEPS; checkpoint_step++)
        for (uint64_t lost = 0; lost < 3 && checkpoint_step + lost <= STEPS; lost++) {
            weir_trace_writer *writer;
            memory.env.remove(&memory, path);
            assert_ok(weir_trace_create(&memory.env, path, &r.description, NULL, &writer, &error), &error);
            assert_ok(append_steps(&r, writer, 0, checkpoint_step + lost, &error), &error);
            assert_ok(weir_trace_sync(writer, &error), &error);
            weir_trace_writer_close(writer);
            if (lost == 2) {
                int file = memory.env.open(&memory, path, O_WRONLY | O_APPEND, 0);
                memory.env.write(&memory, file, "\xB3torn", 5);
                memory.env.close(&memory, file);
            }
            assert_ok(weir_trace_resume(&memory.env, path, &r.description, checkpoint_step, checkpoint,
                                        &writer, &error),
                      &error);
            assert_ok(append_steps(&r, writer, checkpoint_step, STEPS, &error), &error);
            assert_ok(weir_trace_finish(writer, &error), &error);
            weir_trace_writer_close(writer);
            assert_ok(weir_trace_diff(&memory.env, whole, path, &difference, &error), &error);
            assert_false(difference.differs);
            assert_int_equal(difference.steps, STEPS);
            assert_ok(weir_trace_replay(&memory.env, path, NULL, &report, &error), &error);
        }
    run_close(&r);
}

/* A run that was killed while it made its trace leaves any part of the beginning: the next try begins anew,
 * at the step of its checkpoint. Other bytes are left alone. */
static void test_a_torn_beginning_is_begun_again(void **state) {
    (void)state;
    run r;
    weir_error error;
    weir_trace_writer *writer;
    weir_replay_report report;
    uint8_t checkpoint[WEIR_HASH_SIZE] = {7};
    const char *path = "torn.trace";
    run_open(&r, "", 5, 1, 0);
    for (uint64_t step = 0; step < 2; step++) {
        weir_trace_start start = {step, checkpoint};
        memory.env.remove(&memory, path);
        assert_ok(weir_trace_create(&memory.env, path, &r.description, &start, &writer, &error), &error);
        weir_trace_writer_close(writer);
        memory_file *file = memory_env_file(&memory, path);
        size_t size = file->size;
        uint8_t *beginning = malloc(size);
        memcpy(beginning, file->data, size);
        for (size_t cut = 0; cut < size; cut++) {
            memory_env_put(&memory, path, beginning, cut);
            assert_ok(weir_trace_resume(&memory.env, path, &r.description, step, checkpoint, &writer, &error),
                      &error);
            weir_trace_writer_close(writer);
            file = memory_env_file(&memory, path);
            assert_int_equal(file->size, size);
            assert_memory_equal(file->data, beginning, size);
        }
        assert_ok(weir_trace_replay(&memory.env, path, NULL, &report, &error), &error);
        beginning[2]++;
        memory_env_put(&memory, path, beginning, 40);
        assert_fails(weir_trace_resume(&memory.env, path, &r.description, step, checkpoint, &writer, &error),
                     WEIR_TRACE_CORRUPT, &error);
        assert_int_equal(memory_env_file(&memory, path)->size, 40);
        free(beginning);
    }
    run_close(&r);
}

static void test_a_resume_that_does_not_fit_changes_nothing(void **state) {
    (void)state;
    run r, other;
    weir_error error;
    weir_trace_writer *writer;
    uint8_t checkpoint[WEIR_HASH_SIZE] = {0};
    const char *path = "unfit.trace";
    run_open(&r, "", 5, 2, 0);
    run_open(&other, "\"drop_last\": true", 5, 2, 0);
    memory.env.remove(&memory, path);
    assert_ok(weir_trace_create(&memory.env, path, &r.description, NULL, &writer, &error), &error);
    assert_ok(append_steps(&r, writer, 0, 10, &error), &error);
    weir_trace_writer_close(writer);
    memory_file *file = memory_env_file(&memory, path);
    size_t size = file->size;
    uint8_t *before = malloc(size);
    memcpy(before, file->data, size);
    assert_fails(weir_trace_resume(&memory.env, path, &other.description, 5, checkpoint, &writer, &error),
                 WEIR_CHECKPOINT_MISMATCH, &error);
    assert_non_null(strstr(error.message, "manifest"));
    assert_fails(weir_trace_resume(&memory.env, path, &r.description, 11, checkpoint, &writer, &error),
                 WEIR_TRACE_CORRUPT, &error);
    assert_int_equal(file->size, size);
    assert_memory_equal(before, file->data, size);
    free(before);
    run_close(&r);
    run_close(&other);
}

/* Writes a trace whose step 5 was changed by `edit`, with a chain that holds: only a replay can tell. */
static void write_edited(run *r, const char *path, void (*edit)(weir_trace_iter *iter, weir_step *step)) {
    weir_error error;
    weir_trace_writer *writer;
    memory.env.remove(&memory, path);
    assert_ok(weir_trace_create(&memory.env, path, &r->description, NULL, &writer, &error), &error);
    assert_ok(append_steps(r, writer, 0, 5, &error), &error);
    const weir_dataset *dataset;
    weir_cursor cursor;
    weir_step step;
    uint64_t indices[BATCH];
    assert_ok(weir_mix_locate(r->mix, 5, &dataset, &cursor, &error), &error);
    weir_sampler *sampler = r->samplers[strcmp(dataset->key, "a") != 0];
    assert_ok(weir_sampler_step(sampler, cursor, &step, &error), &error);
    weir_sampler_indices(sampler, &step, indices);
    weir_trace_iter iter = {.t = 5, .dataset = dataset->key, .step = &step, .indices = indices};
    edit(&iter, &step);
    assert_ok(weir_trace_append(writer, &iter, &error), &error);
    assert_ok(weir_trace_finish(writer, &error), &error);
    weir_trace_writer_close(writer);
}

static void edit_index(weir_trace_iter *iter, weir_step *step) {
    (void)step;
    ((uint64_t *)(uintptr_t)iter->indices)[3] ^= 1;
}

static void edit_token(weir_trace_iter *iter, weir_step *step) {
    (void)iter;
    step->data_replay_t[0] ^= 1;
}

static void edit_cursor_after(weir_trace_iter *iter, weir_step *step) {
    (void)iter;
    step->cursor_next.global_index++;
}

static void edit_mode(weir_trace_iter *iter, weir_step *step) {
    (void)iter;
    step->sampling_mode = "SEQUENTIAL_V1";
}

static void edit_cursor_before(weir_trace_iter *iter, weir_step *step) {
    (void)iter;
    step->cursor_before.global_index = 1;
}

static void edit_step_number(weir_trace_iter *iter, weir_step *step) {
    (void)step;
    iter->t = 4;
}

static void test_replay_names_the_field_that_diverges(void **state) {
    (void)state;
    static const struct {
        void (*edit)(weir_trace_iter *iter, weir_step *step);
        const char *field;
    } edits[] = {{edit_index, "indices"},
                 {edit_token, "data_replay_t"},
                 {edit_cursor_after, "cursor_after"},
                 {edit_mode, "sampling_mode"},
                 {edit_cursor_before, "cursor_before"}};
    run r;
    weir_error error;
    weir_replay_report report;
    const char *path = "edited.trace";
    run_open(&r, "", 5, 1, 0);
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        write_edited(&r, path, edits[i].edit);
        assert_fails(weir_trace_replay(&memory.env, path, NULL, &report, &error), WEIR_REPLAY_DIVERGENCE,
                     &error);
        assert_int_equal(error.t, 5);
        assert_string_equal(error.diagnostics[0].text, edits[i].field);
    }
    write_edited(&r, path, edit_step_number);
    assert_fails(weir_trace_replay(&memory.env, path, NULL, &report, &error), WEIR_REPLAY_DIVERGENCE, &error);
    run_close(&r);
}

static void test_diff_finds_the_first_difference(void **state) {
    (void)state;
    run r, other;
    weir_error error;
    weir_trace_difference difference;
    const char *left = "left.trace";
    const char *right = "right.trace";
    run_open(&r, "", 5, 1, 0);
    run_open(&other, "", 6, 1, 0);
    write_trace(&r, left);
    write_edited(&r, right, edit_index);
    assert_ok(weir_trace_diff(&memory.env, left, right, &difference, &error), &error);
    assert_true(difference.is_comparable);
    assert_true(difference.differs);
    assert_int_equal(difference.t, 5);
    assert_int_equal(difference.steps, 5);
    assert_string_equal(difference.field, "indices");
    write_trace(&other, right);
    assert_ok(weir_trace_diff(&memory.env, left, right, &difference, &error), &error);
    assert_false(difference.is_comparable);
    assert_non_null(strstr(difference.incomparable, "manifest_hash"));
    assert_true(difference.differs);
    run_close(&r);
    run_close(&other);
}

static void test_ranks_merge_into_world_size_1(void **state) {
    (void)state;
    static const char *const modes[] = {
        "", "\"drop_last\": true", "\"epoch_boundary\": \"stream\", \"rotate\": true",
        "\"intra_block\": \"feistel_v1\", \"sampler_block_size\": 16, \"rotate\": true"};
    static const uint32_t worlds[] = {1, 2, 3, 4, 6, 12};
    weir_error error;
    for (size_t mode = 0; mode < sizeof modes / sizeof modes[0]; mode++) {
        run single;
        const char *whole = "merge-whole.trace";
        run_open(&single, modes[mode], 5, 1, 0);
        write_trace(&single, whole);
        run_close(&single);
        for (size_t w = 0; w < sizeof worlds / sizeof worlds[0]; w++) {
            char names[12][128];
            const char *paths[12];
            weir_merge_report report;
            weir_merge_options with_whole = {.size = sizeof with_whole, .single = whole};
            for (uint32_t rank = 0; rank < worlds[w]; rank++) {
                run r;
                snprintf(names[rank], sizeof names[0], "merge-%u.trace", rank);
                paths[worlds[w] - 1 - rank] = names[rank]; /* in any order */
                run_open(&r, modes[mode], 5, worlds[w], rank);
                write_trace(&r, names[rank]);
                run_close(&r);
            }
            assert_ok(weir_trace_merge(&memory.env, paths, worlds[w], &with_whole, &report, &error), &error);
            assert_int_equal(report.steps, STEPS);
            assert_int_equal(report.digests, report.samples);
            assert_int_equal(report.unchecked_digests, 0);
            assert_ok(weir_trace_merge(&memory.env, paths, worlds[w], NULL, &report, &error), &error);
            assert_int_equal(report.unchecked_digests, report.samples);
            if (worlds[w] > 1) {
                assert_fails(weir_trace_merge(&memory.env, paths, worlds[w] - 1, NULL, &report, &error),
                             WEIR_CONTRACT_VIOLATION, &error);
                paths[0] = paths[1];
                assert_fails(weir_trace_merge(&memory.env, paths, worlds[w], NULL, &report, &error),
                             WEIR_CONTRACT_VIOLATION, &error);
            }
        }
    }
}

/* A world-size-1 trace that agrees in manifest and token alone says nothing about these ranks. */
static void test_merge_refuses_a_single_run_of_other_stores(void **state) {
    (void)state;
    static const uint8_t hashes[1][WEIR_HASH_SIZE] = {{1}};
    weir_error error;
    weir_merge_report report;
    run rank, single;
    const char *paths[1] = {"rank.trace"};
    weir_merge_options options = {.size = sizeof options, .single = "other.trace"};
    run_open(&rank, "", 5, 1, 0);
    write_trace(&rank, paths[0]);
    run_open(&single, "", 5, 1, 0);
    single.description.store_hashes = hashes;
    single.description.store_count = 1;
    write_trace(&single, "other.trace");
    assert_fails(weir_trace_merge(&memory.env, paths, 1, &options, &report, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    assert_non_null(strstr(error.message, "other.trace: its store_hashes is not that of the others"));
    run_close(&rank);
    run_close(&single);
}

static void edit_sample_digest(weir_trace_iter *iter, weir_step *step) {
    static uint64_t digests[BATCH];
    (void)step;
    iter->sample_digests = digests;
}

static void test_merge_finds_a_wrong_index_and_digest(void **state) {
    (void)state;
    static void (*const edits[])(weir_trace_iter * iter, weir_step * step) = {edit_index, edit_sample_digest,
                                                                              edit_cursor_after};
    weir_error error;
    weir_merge_report report;
    run ranks[2], single;
    const char *whole = "w.trace";
    char names[2][128];
    const char *paths[2] = {names[0], names[1]};
    weir_merge_options options = {.size = sizeof options, .single = whole};
    run_open(&single, "", 5, 1, 0);
    write_trace(&single, whole);
    for (uint32_t rank = 0; rank < 2; rank++) {
        snprintf(names[rank], sizeof names[0], "wrong-%u.trace", rank);
        run_open(&ranks[rank], "", 5, 2, rank);
    }
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; i++) {
        write_trace(&ranks[0], names[0]);
        write_edited(&ranks[1], names[1], edits[i]);
        assert_fails(weir_trace_merge(&memory.env, paths, 2, &options, &report, &error),
                     WEIR_REPLAY_DIVERGENCE, &error);
        assert_int_equal(error.t, 5);
    }
    run_close(&ranks[0]);
    run_close(&ranks[1]);
    run_close(&single);
}

static void test_what_is_no_trace_is_refused(void **state) {
    (void)state;
    static const uint8_t inputs[][8] = {{0}, {0xA0}, {0x80}, {0xFF, 0xFF}, {0xA1, 0x61, 'h', 0x00}};
    weir_error error;
    weir_trace_reader *reader;
    const char *path = "junk";
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        for (size_t size = 0; size <= 4; size++) {
            memory_env_put(&memory, path, inputs[i], size);
            assert_fails(weir_trace_open(&memory.env, path, &reader, &error), WEIR_TRACE_CORRUPT, &error);
        }
    assert_fails(weir_trace_open(&memory.env, "absent", &reader, &error), WEIR_IO_ERROR, &error);
}

static int set_up(void **state) {
    (void)state;
    memory_env_init(&memory);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    memory_env_close(&memory);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_is_read_back),
        cmocka_unit_test(test_records_say_what_was_written),
        cmocka_unit_test(test_an_existing_trace_is_not_overwritten),
        cmocka_unit_test(test_a_new_trace_keeps_its_name_in_a_crash),
        cmocka_unit_test(test_every_flipped_bit_is_found),
        cmocka_unit_test(test_every_truncation_is_found),
        cmocka_unit_test(test_a_resumed_trace_has_the_same_steps),
        cmocka_unit_test(test_a_torn_beginning_is_begun_again),
        cmocka_unit_test(test_a_resume_that_does_not_fit_changes_nothing),
        cmocka_unit_test(test_replay_names_the_field_that_diverges),
        cmocka_unit_test(test_diff_finds_the_first_difference),
        cmocka_unit_test(test_ranks_merge_into_world_size_1),
        cmocka_unit_test(test_merge_refuses_a_single_run_of_other_stores),
        cmocka_unit_test(test_merge_finds_a_wrong_index_and_digest),
        cmocka_unit_test(test_what_is_no_trace_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
