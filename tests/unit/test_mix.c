/* Mixing: golden steps, schedules and errors, and that a run which follows `locate` step by step is the
 * same as one that keeps a cursor for every dataset. */
#include <stdlib.h>
#include <string.h>

#include "support/testing.h"

typedef struct token {
    uint8_t bytes[256];
    size_t size;
    bool is_given;
} token;

static token token_of(json_t *vector) {
    token out = {.size = 0};
    json_t *hex = member(vector, "token");
    if (!json_is_null(hex)) {
        const uint8_t *bytes = bytes_of_hex(json_string_value(hex), &out.size);
        assert_true(out.size <= sizeof out.bytes);
        memcpy(out.bytes, bytes, out.size);
        out.is_given = true;
    }
    return out;
}

static weir_mix *open_mix(const weir_manifest *manifest, const token *given) {
    weir_error error;
    weir_mix *mix = NULL;
    assert_ok(weir_mix_open(NULL, manifest, given && given->is_given ? given->bytes : NULL,
                            given ? given->size : 0, &mix, &error),
              &error);
    return mix;
}

static const weir_dataset *locate(weir_mix *mix, uint64_t step, weir_cursor *cursor) {
    weir_error error;
    const weir_dataset *dataset = NULL;
    assert_ok(weir_mix_locate(mix, step, &dataset, cursor, &error), &error);
    return dataset;
}

/* ---- Golden vectors -------------------------------------------------------------------------- */

static void assert_golden_steps(weir_mix *mix, json_t *steps) {
    for (size_t i = 0; i < json_array_size(steps); i++) {
        json_t *step = json_array_get(steps, i);
        json_t *expected = member(step, "cursor");
        weir_cursor cursor;
        const weir_dataset *dataset = locate(mix, member_uint(step, "step"), &cursor);
        assert_string_equal(dataset->key, member_text(step, "dataset"));
        assert_true(cursor.epoch == member_uint(expected, "epoch"));
        assert_true(cursor.global_index == member_uint(expected, "global_index"));
    }
}

static void assert_golden_schedule(weir_mix *mix, uint64_t period, json_t *keys) {
    uint64_t total = json_array_size(keys);
    for (uint64_t i = 0; i < total; i++) {
        weir_cursor cursor;
        const weir_dataset *dataset = locate(mix, period * total + i, &cursor);
        assert_string_equal(dataset->key, json_string_value(json_array_get(keys, i)));
    }
}

static void golden_steps_and_schedules(void **state) {
    (void)state;
    json_t *vectors = load_vectors("mix.json");
    json_t *list = member(vectors, "cases");
    size_t schedules_seen = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_manifest *manifest = manifest_of(member(vector, "manifest"));
        assert_hex_equal(weir_manifest_describe(manifest)->hash, 32, member_text(vector, "manifest_hash"));
        assert_hex_equal(weir_manifest_describe(manifest)->mix_hash, 32, member_text(vector, "mix_hash"));
        token given = token_of(vector);
        weir_mix *mix = open_mix(manifest, &given);
        assert_golden_steps(mix, member(vector, "steps"));
        json_t *schedules = json_object_get(vector, "schedules");
        for (size_t k = 0; k < json_array_size(schedules); k++, schedules_seen++) {
            json_t *schedule = json_array_get(schedules, k);
            assert_golden_schedule(mix, member_uint(schedule, "period"), member(schedule, "keys"));
        }
        weir_mix_close(mix);
        weir_manifest_close(manifest);
    }
    assert_true(schedules_seen > 20);
    json_decref(vectors);
}

/* Opening the manifest, opening the mix or locating fails, whichever finds the fault. */
static weir_status locate_in_document(json_t *document, uint64_t step, weir_error *error) {
    char *text = json_dumps(document, 0);
    weir_manifest *manifest = NULL;
    weir_mix *mix = NULL;
    const weir_dataset *dataset = NULL;
    weir_cursor cursor;
    weir_status status = weir_manifest_read(NULL, text, strlen(text), "golden", &manifest, error);
    if (status == WEIR_OK)
        status = weir_mix_open(NULL, manifest, NULL, 0, &mix, error);
    if (status == WEIR_OK) {
        status = weir_mix_locate(mix, step, &dataset, &cursor, error);
        assert_null(dataset);
        assert_true(error->t == step);
    }
    weir_mix_close(mix);
    weir_manifest_close(manifest);
    free(text);
    return status;
}

static void golden_errors(void **state) {
    (void)state;
    json_t *vectors = load_vectors("mix.json");
    json_t *list = member(vectors, "errors");
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *vector = json_array_get(list, i);
        weir_error error;
        weir_status status =
            locate_in_document(member(vector, "manifest"), member_uint(vector, "step"), &error);
        assert_string_equal(weir_status_name(status), member_text(vector, "code_id"));
        assert_int_equal(status, member_uint(vector, "numeric_code"));
    }
    json_decref(vectors);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Datasets of 100, 7, 64 and 33 samples; "idle" is in no mix. */
static weir_manifest *four_datasets(const char *data) {
    char text[2048];
    const char *dataset = "{\"id\": \"x\", \"version\": \"1\", \"hash\": "
                          "\"1111111111111111111111111111111111111111111111111111111111111111\", "
                          "\"cardinality\": ";
    snprintf(
        text, sizeof text,
        "{\"global_batch_size\": 6, \"seed\": 9, \"data\": %s, \"datasets\": {\"a\": %s100}, \"bb\": %s7}, "
        "\"c\": %s64}, \"d\": %s33}, \"idle\": %s5}}, \"mix\": {\"a\": 3, \"bb\": 1, \"c\": 2, \"d\": 1}}",
        data, dataset, dataset, dataset, dataset, dataset);
    return manifest_of_text(text);
}

static const char *const all_data[] = {
    "{}",
    "{\"drop_last\": true}",
    "{\"epoch_boundary\": \"stream\"}",
    "{\"epoch_boundary\": \"stream\", \"rotate\": true, \"intra_block\": \"feistel_v1\"}",
};

/* Each dataset's own cursor, moved on by the sampler, is where `locate` says that its next batch is. */
static void following_steps_is_following_cursors(void **state) {
    (void)state;
    for (size_t d = 0; d < sizeof all_data / sizeof all_data[0]; d++) {
        weir_manifest *manifest = four_datasets(all_data[d]);
        weir_mix *mix = open_mix(manifest, NULL);
        weir_sampler *samplers[5] = {NULL};
        weir_cursor cursors[5] = {{0, 0}};
        weir_error error;
        for (size_t i = 0; i < 5; i++) {
            weir_sampler_options options = {.size = sizeof options,
                                            .dataset = weir_manifest_describe(manifest)->datasets[i].key,
                                            .world_size = 1};
            weir_status status = weir_sampler_open(NULL, manifest, &options, &samplers[i], &error);
            /* 5 samples make no batch of 6; "idle" is not asked for. */
            bool is_empty = strcmp(options.dataset, "idle") == 0 && d == 1;
            assert_fails(status, is_empty ? WEIR_BATCH_SIZE_INCONSISTENT : WEIR_OK, &error);
        }
        for (uint64_t step = 0; step < 2000; step++) {
            weir_cursor cursor;
            weir_step made;
            const weir_dataset *dataset = locate(mix, step, &cursor);
            size_t i = (size_t)(dataset - &weir_manifest_describe(manifest)->datasets[0]);
            assert_true(cursor.epoch == cursors[i].epoch && cursor.global_index == cursors[i].global_index);
            assert_ok(weir_sampler_step(samplers[i], cursor, &made, &error), &error);
            cursors[i] = made.cursor_next;
        }
        for (size_t i = 0; i < 5; i++)
            weir_sampler_close(samplers[i]);
        weir_mix_close(mix);
        weir_manifest_close(manifest);
    }
}

static void every_period_has_each_dataset_weight_times(void **state) {
    (void)state;
    weir_manifest *manifest = four_datasets("{}");
    weir_mix *mix = open_mix(manifest, NULL);
    static const uint64_t periods[] = {0, 1, 2, 3, 1000, 123456789, UINT64_MAX / 7 - 1};
    assert_int_equal(weir_manifest_mix_total(manifest), 7);
    bool differs = false;
    char first[8] = "", order[8] = "";
    for (size_t p = 0; p < sizeof periods / sizeof periods[0]; p++) {
        uint32_t counts[5] = {0};
        for (uint64_t i = 0; i < 7; i++) {
            weir_cursor cursor;
            const weir_dataset *dataset = locate(mix, periods[p] * 7 + i, &cursor);
            counts[dataset - &weir_manifest_describe(manifest)->datasets[0]]++;
            order[i] = dataset->key[0];
        }
        for (size_t i = 0; i < 5; i++)
            assert_int_equal(counts[i], weir_manifest_describe(manifest)->datasets[i].weight);
        if (p == 0)
            memcpy(first, order, sizeof first);
        differs |= memcmp(first, order, sizeof first) != 0;
    }
    assert_true(differs); /* a schedule is shuffled anew in every period */
    weir_mix_close(mix);
    weir_manifest_close(manifest);
}

/* Only the last period is cached: the order of questions must not matter. */
static void steps_may_be_asked_in_any_order(void **state) {
    (void)state;
    enum { STEPS = 500 };
    weir_manifest *manifest = four_datasets("{}");
    weir_mix *mix = open_mix(manifest, NULL);
    const weir_dataset *datasets[STEPS];
    weir_cursor cursors[STEPS];
    random_stream random = {13};
    for (uint64_t step = 0; step < STEPS; step++)
        datasets[step] = locate(mix, step, &cursors[step]);
    for (int i = 0; i < 5000; i++) {
        uint64_t step = random_below(&random, STEPS);
        weir_cursor cursor;
        assert_ptr_equal(locate(mix, step, &cursor), datasets[step]);
        assert_memory_equal(&cursor, &cursors[step], sizeof cursor);
    }
    weir_mix_close(mix);
    weir_manifest_close(manifest);
}

static void one_dataset_needs_no_mix(void **state) {
    (void)state;
    weir_manifest *manifest = manifest_of_numbers(100, 8, &(weir_data_config){.sampler_block_size = 16}, 3);
    weir_mix *mix = open_mix(manifest, NULL);
    weir_cursor cursor;
    for (uint64_t step = 0; step < 60; step++) {
        assert_string_equal(locate(mix, step, &cursor)->key, "a");
        assert_true(cursor.epoch == step / 13 && cursor.global_index == step % 13 * 8);
    }
    locate(mix, UINT64_MAX, &cursor);
    assert_true(cursor.epoch == UINT64_MAX / 13 && cursor.global_index == UINT64_MAX % 13 * 8);
    weir_mix_close(mix);
    weir_manifest_close(manifest);
}

static void locating_allocates_nothing(void **state) {
    (void)state;
    fault_env faults;
    fault_env_init(&faults);
    weir_manifest *manifest = four_datasets("{}");
    weir_error error;
    weir_mix *mix = NULL;
    assert_ok(weir_mix_open(&faults.env, manifest, NULL, 0, &mix, &error), &error);
    uint64_t calls = faults.calls[FAULT_MEMORY];
    weir_cursor cursor;
    for (uint64_t step = 0; step < 1000; step++)
        locate(mix, step * 997, &cursor);
    assert_int_equal(faults.calls[FAULT_MEMORY], calls);
    weir_mix_close(mix);
    assert_int_equal(faults.live_allocations, 0);
    weir_manifest_close(manifest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_steps_and_schedules),
        cmocka_unit_test(golden_errors),
        cmocka_unit_test(following_steps_is_following_cursors),
        cmocka_unit_test(every_period_has_each_dataset_weight_times),
        cmocka_unit_test(steps_may_be_asked_in_any_order),
        cmocka_unit_test(one_dataset_needs_no_mix),
        cmocka_unit_test(locating_allocates_nothing),
    };
    return cmocka_run_group_tests_name("mix", tests, NULL, NULL);
}
