/* Plans that recompute, page and reorder: valid by the pair, the same for any number of threads, and files of
 * them that are damaged at every byte. */
#include <stdio.h>
#include <stdlib.h>

#include "support/random_graph.h"

enum { GRAPHS = 24 };

static weir_graph *graph_of(uint64_t seed, unsigned nodes) {
    weir_error error;
    weir_graph *graph = NULL;
    assert_ok(random_graph(NULL, seed, nodes, &graph, &error), &error);
    return graph;
}

static uint64_t activations_peak(const weir_plan *plan) {
    for (size_t i = 0; i < weir_plan_describe(plan)->arena_count; i++) {
        weir_plan_arena arena = weir_plan_arena_at(plan, i);
        if (arena.name.size == strlen("activations"))
            return arena.peak_bytes;
    }
    return 0;
}

/* With activations limited to `part` in 16 of what they need, and a link of so many bytes a unit of cost (0:
 * none; an odd number: nothing runs beside it); NULL if that does not fit. */
static weir_plan *limited_plan(const weir_graph *graph, const char *mode, uint64_t part, bool reorder,
                               uint32_t threads, uint64_t link) {
    weir_error error;
    weir_plan *plan = NULL;
    char arenas[80];
    weir_plan_options options = options_of(mode);
    options.effort_plus_one = 6;
    options.threads = threads;
    assert_ok(weir_plan_make(NULL, graph, &options, &plan, &error), &error);
    uint64_t capacity = activations_peak(plan) * part / 16;
    weir_plan_close(plan);
    plan = NULL;
    snprintf(arenas, sizeof arenas, "{\"activations\": {\"capacity_bytes\": %llu}}",
             (unsigned long long)capacity);
    options.arenas = (weir_document){arenas, strlen(arenas), NULL};
    options.preset = "remat_enabled";
    options.reorder = reorder;
    options.link = link;
    options.speed = link > 0;
    options.no_overlap = link % 2 == 1;
    weir_status status = weir_plan_make(NULL, graph, &options, &plan, &error);
    assert_true(status == WEIR_OK || status == WEIR_ARENA_TOO_SMALL);
    if (status == WEIR_OK)
        assert_true(activations_peak(plan) <= capacity);
    return plan;
}

static void check_pairs(const weir_plan *plan) {
    size_t count = weir_plan_describe(plan)->tensor_count;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++) {
            weir_plan_tensor a = weir_plan_tensor_at(plan, i);
            weir_plan_tensor b = weir_plan_tensor_at(plan, k);
            if (a.arena != b.arena || a.birth >= b.death || b.birth >= a.death || !a.size || !b.size)
                continue;
            assert_true(a.offset + a.size <= b.offset || b.offset + b.size <= a.offset);
        }
}

static void check_schedule(const weir_plan *plan) {
    uint64_t again = 0;
    uint64_t kinds[WEIR_STEP_WAIT + 1] = {0};
    const weir_plan_remat *remat = weir_plan_describe(plan)->remat;
    const weir_plan_paging *paging = weir_plan_describe(plan)->paging;
    size_t count = weir_plan_describe(plan)->step_count;
    for (size_t i = 0; i < count; i++) {
        weir_plan_step step = weir_plan_step_at(plan, i);
        again += step.is_again;
        kinds[step.kind]++;
    }
    assert_int_equal(again, remat->runs_again);
    assert_int_equal(kinds[WEIR_STEP_OUT], paging->tensors);
    assert_int_equal(kinds[WEIR_STEP_OUT] + kinds[WEIR_STEP_IN], paging->transfers);
    assert_int_equal(kinds[WEIR_STEP_WAIT], paging->overlaps ? paging->transfers : 0);
    assert_true(paging->cost <= remat->added_cost);
    assert_true(remat->lower_bound <= remat->added_cost);
    assert_true(count == 0 || weir_plan_end(plan) == count + 1);
}

static void check_threads(const weir_graph *graph, const char *mode, uint64_t part, bool reorder,
                          uint64_t link, const weir_plan *alone) {
    weir_plan *plan = limited_plan(graph, mode, part, reorder, 3, link);
    assert_int_equal(plan != NULL, alone != NULL);
    if (!plan)
        return;
    assert_memory_equal(weir_plan_describe(alone)->hashes, weir_plan_describe(plan)->hashes,
                        sizeof(weir_plan_hashes));
    weir_plan_close(plan);
}

static void test_plans_are_valid(void **state) {
    unsigned recomputing = 0;
    unsigned reordered = 0;
    unsigned paging = 0;
    (void)state;
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        uint64_t link = seed / 2 % 2 ? 1000 + seed / 4 % 2 : 0;
        weir_graph *graph = graph_of(seed, 6 + (unsigned)seed * 2);
        const char *mode = plan_modes[seed % 3];
        weir_plan *plan = limited_plan(graph, mode, 15 - seed % 4, seed % 2, 1, link);
        if (seed % 5 == 0)
            check_threads(graph, mode, 15 - seed % 4, seed % 2, link, plan);
        weir_graph_close(graph);
        if (!plan)
            continue;
        const weir_plan_remat *remat = weir_plan_describe(plan)->remat;
        const weir_plan_paging *paged = weir_plan_describe(plan)->paging;
        const weir_plan_reorder *reorder = weir_plan_describe(plan)->reorder;
        recomputing += remat->runs_again > 0;
        paging += paged->transfers > 0;
        reordered += reorder->is_changed;
        check_pairs(plan);
        check_schedule(plan);
        weir_plan_close(plan);
    }
    assert_true(recomputing >= 4);
    assert_true(reordered >= 2);
    assert_true(paging >= 2);
}

/* One that recomputes, or with a link one that pages. */
static weir_plan *some_remat_plan(uint64_t link) {
    for (uint64_t seed = 0; seed < GRAPHS; seed++) {
        weir_graph *graph = graph_of(seed, 8);
        weir_plan *plan = limited_plan(graph, "backward", 14, false, 1, link);
        weir_graph_close(graph);
        if (!plan)
            continue;
        const weir_plan_remat *remat = weir_plan_describe(plan)->remat;
        const weir_plan_paging *paging = weir_plan_describe(plan)->paging;
        if (link ? paging->transfers > 0 : remat->runs_again > 0)
            return plan;
        weir_plan_close(plan);
    }
    fail_msg("no graph of these recomputes");
    return NULL;
}

/* Restores as the same bytes, and every changed byte is refused or gives a plan that is whole. */
static void damage(weir_plan *plan) {
    weir_error error;
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, NULL);
    weir_plan_write(plan, &w);
    assert_ok(weir_cbor_finish(&w, &error), &error);
    weir_plan_close(plan);
    for (size_t i = 0; i <= w.size; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            weir_plan *restored = NULL;
            if (i < w.size)
                w.data[i] ^= (uint8_t)(1 << bit);
            weir_status status = weir_plan_restore(NULL, w.data, w.size, "damaged", &restored, &error);
            if (i < w.size)
                w.data[i] ^= (uint8_t)(1 << bit);
            else
                assert_int_equal(status, WEIR_OK);
            if (status == WEIR_OK)
                check_pairs(restored);
            weir_plan_close(restored);
        }
    weir_cbor_release(&w);
}

static void test_damaged_plans(void **state) {
    (void)state;
    damage(some_remat_plan(0));
    damage(some_remat_plan(1000000));
    damage(some_remat_plan(1000001));
}

static void test_a_capacity_is_needed(void **state) {
    weir_error error;
    weir_plan *plan = NULL;
    weir_graph *graph = graph_of(1, 6);
    weir_plan_options options = {.size = sizeof options, .preset = "remat_enabled"};
    (void)state;
    assert_int_equal(weir_plan_make(NULL, graph, &options, &plan, &error), WEIR_INVALID_IR);
    assert_non_null(strstr(error.message, "--capacity activations=8GiB"));
    weir_graph_close(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plans_are_valid),
        cmocka_unit_test(test_damaged_plans),
        cmocka_unit_test(test_a_capacity_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
