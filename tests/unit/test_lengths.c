/* Steps of several lengths: a run that follows its cursors is the one that is located step by step, every
 * step has as many cells, an epoch visits each sample once, and what cannot be is refused. */
#include <stdio.h>
#include <string.h>

#include "support/testing.h"

enum { SAMPLES_MAX = 300, BLOCKS_MAX = SAMPLES_MAX + 1 };

typedef struct setup {
    uint64_t n, batch, block_size, seed;
    bool is_stream, drops_last, rotates;
    uint32_t world;
    char lengths[160];
} setup;

static weir_status read_manifest(const setup *s, weir_manifest **out, weir_error *error) {
    char text[800];
    snprintf(
        text, sizeof text,
        "{\"seed\": %llu, \"global_batch_size\": %llu, \"datasets\": {\"a\": {\"id\": \"a\", \"version\": "
        "\"1\", \"hash\": \"%064d\", \"cardinality\": %llu}}, \"data\": {\"sampler_block_size\": %llu, "
        "\"drop_last\": %s, \"rotate\": %s, \"epoch_boundary\": \"%s\"}, \"batch\": {\"sequence_length\": "
        "%s}}",
        (unsigned long long)s->seed, (unsigned long long)s->batch, 0, (unsigned long long)s->n,
        (unsigned long long)s->block_size, s->drops_last ? "true" : "false", s->rotates ? "true" : "false",
        s->is_stream ? "stream" : "strict", s->lengths);
    return weir_manifest_read(NULL, text, strlen(text), "test", out, error);
}

static weir_sampler *sampler_of(const weir_manifest *manifest, weir_stage stage, uint32_t world,
                                uint32_t rank) {
    weir_sampler_options options = {
        .size = sizeof options, .dataset = "a", .stage = stage, .world_size = world, .rank = rank};
    weir_sampler *sampler = NULL;
    weir_error error;
    assert_ok(weir_sampler_open(NULL, manifest, &options, &sampler, &error), &error);
    return sampler;
}

/* Lengths that divide 24, so that every size is a multiple of the batch size. */
static setup any_setup(random_stream *random) {
    static const unsigned divisors[] = {1, 2, 3, 4, 6, 8, 12, 24};
    setup s = {.n = 1 + random_below(random, SAMPLES_MAX),
               .block_size = 1 + random_below(random, 40),
               .seed = random_below(random, 1000),
               .is_stream = random_below(random, 2),
               .drops_last = random_below(random, 2),
               .rotates = random_below(random, 2),
               .world = (uint32_t)(1 + random_below(random, 3))};
    s.batch = s.world * (1 + random_below(random, 2));
    size_t used = 0, count = 2 + random_below(random, 6), longest = random_below(random, count);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(s.lengths + used, sizeof s.lengths - used, "%s%u", i ? ", " : "[",
                                 i == longest ? 24 : divisors[4 + random_below(random, 4)]);
    snprintf(s.lengths + used, sizeof s.lengths - used, "]");
    return s;
}

/* What a rank has met of the epoch that it is in. */
typedef struct met {
    uint64_t epoch, blocks;
    bool seen[BLOCKS_MAX];
} met;

static void meet(met *m, const setup *s, weir_sampler *sampler, const weir_step *step, uint32_t rank) {
    weir_error error;
    uint64_t index, from = step->cursor_before.global_index + rank * step->micro_batch_size;
    for (uint64_t i = 0; i < step->count; i++) {
        uint64_t epoch = step->cursor_before.epoch + (from + i) / s->n;
        assert_ok(weir_sampler_index_at(sampler, epoch, (from + i) % s->n, &index, &error), &error);
        if (epoch > m->epoch) /* the step's own count is of the epoch that it begins in */
            *m = (met){.epoch = epoch};
        if (epoch == m->epoch) {
            m->blocks += !m->seen[index / s->block_size];
            m->seen[index / s->block_size] = true;
        }
    }
}

/* The blocks of the cursor's epoch up to a step, which may run on into the next. */
static uint64_t blocks_up_to(const met *before, const setup *s, weir_sampler *sampler, const weir_step *step,
                             uint32_t rank) {
    met m = before->epoch == step->cursor_before.epoch ? *before : (met){.epoch = step->cursor_before.epoch};
    weir_step part = *step;
    uint64_t from = step->cursor_before.global_index + rank * step->micro_batch_size;
    part.count = from >= s->n ? 0 : from + step->count > s->n ? s->n - from : step->count;
    meet(&m, s, sampler, &part, rank);
    return m.blocks;
}

static void follow(const setup *s, const weir_manifest *manifest, uint32_t rank) {
    weir_sampler *sampler = sampler_of(manifest, WEIR_STAGE_TRAIN, s->world, rank);
    weir_mix *mix = NULL;
    weir_error error;
    weir_cursor cursor = {0, 0}, located;
    met m = {0};
    uint64_t cells = 0, used = 0;
    assert_ok(weir_mix_open(NULL, manifest, NULL, 0, &mix, &error), &error);
    for (uint64_t t = 0; t < 60; t++) {
        const weir_dataset *dataset = NULL;
        weir_step step;
        assert_ok(weir_mix_locate(mix, t, &dataset, &located, &error), &error);
        assert_true(located.epoch == cursor.epoch && located.global_index == cursor.global_index);
        assert_ok(weir_sampler_step(sampler, cursor, &step, &error), &error);
        cells = cells ? cells : step.global_batch_size * step.sequence_length;
        assert_int_equal(step.global_batch_size * step.sequence_length, cells);
        assert_int_equal(step.blocks_materialized_this_epoch, blocks_up_to(&m, s, sampler, &step, rank));
        meet(&m, s, sampler, &step, rank);
        used += step.effective_batch_size;
        if (!s->is_stream && step.cursor_next.epoch > cursor.epoch) {
            assert_true(s->drops_last ? used <= s->n : used == s->n);
            used = 0;
        }
        cursor = step.cursor_next;
    }
    weir_mix_close(mix);
    weir_sampler_close(sampler);
}

static void cursors_are_those_that_are_located(void **state) {
    (void)state;
    random_stream random = {77};
    unsigned followed = 0;
    for (unsigned round = 0; round < 2000; round += test_stride()) {
        setup s = any_setup(&random);
        weir_manifest *manifest = NULL;
        weir_error error;
        assert_ok(read_manifest(&s, &manifest, &error), &error);
        weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = s.world};
        weir_sampler *sampler = NULL;
        if (weir_sampler_open(NULL, manifest, &options, &sampler, &error) == WEIR_OK) {
            weir_sampler_close(sampler);
            follow(&s, manifest, (uint32_t)random_below(&random, s.world));
            followed++;
        } else /* the first batch is larger than the dataset */
            assert_true(error.status == WEIR_BATCH_SIZE_INCONSISTENT && s.drops_last && !s.is_stream);
        weir_manifest_close(manifest);
    }
    assert_true(followed > 1000 / test_stride());
}

static void a_cursor_inside_a_batch_is_refused(void **state) {
    (void)state;
    setup s = {.n = 100, .batch = 2, .block_size = 8, .world = 1, .lengths = "[8, 4]"};
    weir_manifest *manifest = NULL;
    weir_error error;
    weir_step step;
    assert_ok(read_manifest(&s, &manifest, &error), &error);
    weir_sampler *sampler = sampler_of(manifest, WEIR_STAGE_TRAIN, 1, 0);
    for (uint64_t position = 0; position < 12; position++) {
        bool is_start = position % 6 == 0 || position % 6 == 2;
        weir_status status = weir_sampler_step(sampler, (weir_cursor){0, position}, &step, &error);
        assert_int_equal(status, is_start ? WEIR_OK : WEIR_CONTRACT_VIOLATION);
        if (is_start)
            assert_int_equal(step.sequence_length, position % 6 == 0 ? 8 : 4);
    }
    weir_sampler_close(sampler);
    sampler = sampler_of(manifest, WEIR_STAGE_EVAL, 2, 0); /* evaluation has the longest alone */
    assert_ok(weir_sampler_step(sampler, (weir_cursor){0, 3}, &step, &error), &error);
    assert_true(step.sequence_length == 8 && step.global_batch_size == 2);
    weir_sampler_close(sampler);
    weir_manifest_close(manifest);
}

static void what_cannot_be_is_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t batch;
        const char *lengths;
    } lists[] = {{1, "[]"},
                 {1, "[0]"},
                 {1, "[65537]"},
                 {1, "[3, 2]"},
                 {1, "\"8\""},
                 {INT64_MAX, "[1, 1, 1]"},
                 {(uint64_t)1 << 62, "[65536, 1]"}};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        setup s = {.n = 10, .batch = lists[i].batch, .block_size = 8};
        weir_manifest *manifest = NULL;
        weir_error error;
        snprintf(s.lengths, sizeof s.lengths, "%s", lists[i].lengths);
        weir_status status = read_manifest(&s, &manifest, &error);
        bool is_fine = strcmp(s.lengths, "\"8\"") == 0; /* manifests take decimal texts for numbers */
        assert_int_equal(status, is_fine ? WEIR_OK : WEIR_MANIFEST_INVALID);
        if (is_fine)
            weir_manifest_close(manifest);
    }
    setup s = {.n = 10, .batch = 2, .block_size = 8, .lengths = "[3, 2]"}; /* batches of 2 and of 3 */
    weir_manifest *manifest = NULL;
    weir_error error;
    weir_sampler *sampler = NULL;
    assert_ok(read_manifest(&s, &manifest, &error), &error);
    weir_sampler_options options = {.size = sizeof options, .dataset = "a", .world_size = 2};
    assert_int_equal(weir_sampler_open(NULL, manifest, &options, &sampler, &error),
                     WEIR_BATCH_SIZE_INCONSISTENT);
    weir_manifest_close(manifest);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cursors_are_those_that_are_located),
        cmocka_unit_test(a_cursor_inside_a_batch_is_refused),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
