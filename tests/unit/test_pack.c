/* The packer against exhaustive search, its validator, its promises: one result for any thread count and
 * row order, flags that tell the truth, capacities, edges, and a failing allocator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/internal.h"
#include "plan/pack.h"
#include "support/testing.h"

enum { SMALL = 8, TIGHT = 10, LARGE = 400 };

static uint64_t next_random(uint64_t *state) {
    *state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = *state;
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void make_buffers(uint64_t *state, weir_buffer *buffers, size_t count, uint64_t times,
                         uint64_t sizes) {
    for (size_t i = 0; i < count; i++) {
        uint64_t lower = next_random(state) % times;
        buffers[i] = (weir_buffer){lower, lower + 1 + next_random(state) % (times - lower),
                                   next_random(state) % sizes};
    }
}

/* Every moment is full: what dies is cut anew. The bound is often out of reach. Returns the number of
 * buffers. */
static size_t make_tight(uint64_t *state, weir_buffer *buffers, size_t most) {
    size_t count = 0;
    for (uint64_t left = 6 + next_random(state) % 8; left > 0 && count < 4;) {
        uint64_t size = count == 3 ? left : 1 + next_random(state) % left;
        buffers[count++] = (weir_buffer){0, UINT64_MAX, size};
        left -= size;
    }
    uint64_t time = 1;
    for (; count + 2 <= most; time++) {
        uint64_t freed = 0;
        for (size_t i = 0; i < count; i++)
            if (buffers[i].upper == UINT64_MAX && next_random(state) % 2) {
                buffers[i].upper = time;
                freed += buffers[i].size;
            }
        if (freed == 0)
            continue;
        uint64_t cut = next_random(state) % freed;
        buffers[count++] = (weir_buffer){time, UINT64_MAX, freed - cut};
        if (cut > 0)
            buffers[count++] = (weir_buffer){time, UINT64_MAX, cut};
    }
    for (size_t i = 0; i < count; i++)
        if (buffers[i].upper == UINT64_MAX)
            buffers[i].upper = time;
    return count;
}

/* ---- Exhaustive search ----------------------------------------------------------------------- */

/* Every order of ascending offsets, each buffer on the highest of those below it that it lives with: all
 * layouts that are pushed down as far as they go. Ends early at the bound. */

typedef struct exhaustive {
    const weir_buffer *buffers;
    size_t count;
    uint64_t offsets[TIGHT];
    bool placed[TIGHT];
    uint64_t best;
    uint64_t bound;
} exhaustive;

static bool live_together(const weir_buffer *a, const weir_buffer *b) {
    return a->lower < b->upper && b->lower < a->upper;
}

static void try_orders(exhaustive *e, size_t depth, uint64_t last, uint64_t peak) {
    if (peak >= e->best || e->best == e->bound)
        return;
    if (depth == e->count) {
        e->best = peak;
        return;
    }
    for (size_t i = 0; i < e->count; i++) {
        if (e->placed[i])
            continue;
        uint64_t offset = 0;
        for (size_t j = 0; j < e->count; j++)
            if (e->placed[j] && live_together(&e->buffers[i], &e->buffers[j]) &&
                e->offsets[j] + e->buffers[j].size > offset)
                offset = e->offsets[j] + e->buffers[j].size;
        if (offset < last)
            continue;
        uint64_t top = offset + e->buffers[i].size;
        e->placed[i] = true;
        e->offsets[i] = offset;
        try_orders(e, depth + 1, offset, e->buffers[i].size && top > peak ? top : peak);
        e->placed[i] = false;
    }
}

static uint64_t largest_live_sum(const weir_buffer *buffers, size_t count) {
    uint64_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = 0;
        for (size_t j = 0; j < count; j++)
            if (buffers[j].lower <= buffers[i].lower && buffers[i].lower < buffers[j].upper)
                sum += buffers[j].size;
        largest = sum > largest ? sum : largest;
    }
    return largest;
}

static uint64_t least_peak(const weir_buffer *buffers, size_t count) {
    exhaustive e = {
        .buffers = buffers, .count = count, .best = UINT64_MAX, .bound = largest_live_sum(buffers, count)};
    try_orders(&e, 0, 0, 0);
    return e.best;
}

static weir_pack__result pack_and_check(const weir_buffer *buffers, size_t count,
                                        const weir_pack__options *options, uint64_t *offsets) {
    weir_pack__result result;
    weir_error error;
    assert_int_equal(weir_pack__pack(NULL, buffers, count, options, offsets, &result, &error), WEIR_OK);
    bool valid;
    uint64_t peak;
    weir_pack__fault fault;
    assert_int_equal(
        weir_pack__validate(NULL, buffers, count, options->alignment, offsets, &valid, &peak, &fault, &error),
        WEIR_OK);
    assert_true(valid);
    assert_int_equal(peak, result.peak);
    assert_int_equal(result.lower_bound, largest_live_sum(buffers, count));
    return result;
}

static weir_pack__options options_of(uint32_t effort) {
    return (weir_pack__options){.effort = effort, .threads = 1, .alignment = 1, .capacity = UINT64_MAX};
}

static void small_problems_are_solved_exactly(void **state) {
    (void)state;
    uint64_t seed = 1;
    size_t gaps = 0;
    for (unsigned round = 0; round < 16000; round += test_stride()) {
        weir_buffer buffers[TIGHT];
        uint64_t offsets[TIGHT];
        size_t count = 1 + next_random(&seed) % SMALL;
        if (round % 4)
            count = make_tight(&seed, buffers, TIGHT);
        else
            make_buffers(&seed, buffers, count, 2 + next_random(&seed) % 9, 2 + next_random(&seed) % 12);
        weir_pack__options options = options_of(5);
        weir_pack__result result = pack_and_check(buffers, count, &options, offsets);
        uint64_t least = least_peak(buffers, count);
        assert_int_equal(result.peak, least);
        assert_true(result.optimal);
        gaps += least > result.lower_bound;
    }
    assert_true(gaps > 5 ||
                test_stride() > 1); /* the bound is not always met: exhausted searches were right too */
}

static void low_effort_never_claims_too_much(void **state) {
    (void)state;
    uint64_t seed = 2;
    size_t missed = 0;
    for (unsigned round = 0; round < 2000; round += test_stride()) {
        weir_buffer buffers[SMALL];
        uint64_t offsets[SMALL];
        make_buffers(&seed, buffers, SMALL, 8, 9);
        uint64_t least = least_peak(buffers, SMALL);
        for (uint32_t effort = 0; effort <= 4; effort++) {
            weir_pack__options options = options_of(effort);
            weir_pack__result result = pack_and_check(buffers, SMALL, &options, offsets);
            assert_true(result.peak >= least);
            if (result.optimal)
                assert_int_equal(result.peak, least);
            missed += result.peak > least;
        }
    }
    assert_true(missed > 0); /* one greedy pass is not always the best */
}

static void capacities_are_met_or_refuted(void **state) {
    (void)state;
    uint64_t seed = 3;
    size_t refuted_above_bound = 0;
    for (unsigned round = 0; round < 8000; round += test_stride()) {
        weir_buffer buffers[TIGHT];
        uint64_t offsets[TIGHT];
        size_t count = make_tight(&seed, buffers, TIGHT);
        uint64_t least = least_peak(buffers, count);
        weir_pack__options options = options_of(5);
        options.capacity = least + next_random(&seed) % 3;
        weir_pack__result fits = pack_and_check(buffers, count, &options, offsets);
        assert_true(fits.peak <= options.capacity);
        assert_false(fits.infeasible_proven);
        options.capacity = least - 1;
        weir_pack__result fails = pack_and_check(buffers, count, &options, offsets);
        assert_true(fails.infeasible_proven);
        refuted_above_bound += fails.lower_bound < least;
    }
    assert_true(refuted_above_bound > 0 || test_stride() > 1);
}

static void shuffle(uint64_t *seed, uint32_t *order, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t i = count; i-- > 1;) {
        uint32_t j = (uint32_t)(next_random(seed) % (i + 1));
        uint32_t swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

static void threads_and_row_order_do_not_matter(void **state) {
    (void)state;
    uint64_t seed = 4;
    for (unsigned round = 0; round < 12; round++) {
        weir_buffer buffers[LARGE], shuffled[LARGE];
        uint64_t expected[LARGE], offsets[LARGE];
        uint32_t order[LARGE];
        make_buffers(&seed, buffers, LARGE, 5 + next_random(&seed) % 200, 40);
        weir_pack__options options = options_of(round % 2 ? 4 : 3);
        weir_pack__result first = pack_and_check(buffers, LARGE, &options, expected);
        for (uint32_t threads = 2; threads <= 3; threads++) {
            options.threads = threads;
            weir_pack__result again = pack_and_check(buffers, LARGE, &options, offsets);
            assert_memory_equal(expected, offsets, sizeof offsets);
            assert_int_equal(again.steps, first.steps);
            assert_int_equal(again.optimal, first.optimal);
        }
        shuffle(&seed, order, LARGE);
        for (uint32_t i = 0; i < LARGE; i++)
            shuffled[i] = buffers[order[i]];
        options.rank = order;
        pack_and_check(shuffled, LARGE, &options, offsets);
        for (uint32_t i = 0; i < LARGE; i++)
            assert_int_equal(offsets[i], expected[order[i]]);
    }
}

static void every_effort_is_valid_and_alignment_holds(void **state) {
    (void)state;
    uint64_t seed = 5;
    for (uint32_t effort = 0; effort <= 5; effort++) {
        weir_buffer buffers[LARGE];
        uint64_t offsets[LARGE];
        make_buffers(&seed, buffers, LARGE, 300, 30);
        for (size_t i = 0; i < LARGE; i++)
            buffers[i].size *= 128;
        weir_pack__options options = options_of(effort);
        options.alignment = 128;
        weir_pack__result result = pack_and_check(buffers, LARGE, &options, offsets);
        assert_true(result.peak >= result.lower_bound);
        if (result.peak == result.lower_bound)
            assert_true(result.optimal);
    }
}

/* n buffers that all live at once, then the same shape many times over: parts are solved apart. */
static void parts_are_solved_apart(void **state) {
    (void)state;
    weir_buffer buffers[LARGE];
    uint64_t offsets[LARGE];
    for (size_t i = 0; i < LARGE; i++) {
        uint64_t part = i / SMALL;
        buffers[i] = (weir_buffer){part * 10 + i % 3, part * 10 + 5 + i % 4, 1 + (i * 7 + part) % 11};
    }
    uint64_t least = 0;
    for (size_t from = 0; from < LARGE; from += SMALL) {
        uint64_t here = least_peak(buffers + from, SMALL);
        least = here > least ? here : least;
    }
    weir_pack__options options = options_of(5);
    weir_pack__result result = pack_and_check(buffers, LARGE, &options, offsets);
    assert_int_equal(result.peak, least);
    assert_true(result.optimal);
}

/* Cuts a rectangle of time and address in two, again and again: a layout without any gap exists. */
static size_t make_planted(uint64_t *state, weir_buffer *buffers, size_t wanted) {
    size_t count = 1;
    buffers[0] = (weir_buffer){0, 4000, 100000};
    while (count < wanted) {
        size_t i = next_random(state) % count;
        uint64_t length = buffers[i].upper - buffers[i].lower;
        buffers[count] = buffers[i];
        if (next_random(state) % 2 && length > 1) {
            uint64_t cut = buffers[i].lower + 1 + next_random(state) % (length - 1);
            buffers[i].upper = buffers[count].lower = cut;
        } else if (buffers[i].size > 1) {
            uint64_t cut = 1 + next_random(state) % (buffers[i].size - 1);
            buffers[i].size -= cut;
            buffers[count].size = cut;
        } else {
            continue;
        }
        count++;
    }
    return count;
}

static void planted_layouts_are_found(void **state) {
    (void)state;
    uint64_t seed = 10;
    for (unsigned round = 0; round < 10; round++) {
        weir_buffer buffers[LARGE];
        uint64_t offsets[LARGE];
        size_t count = make_planted(&seed, buffers, LARGE);
        weir_pack__options options = options_of(5);
        weir_pack__result result = pack_and_check(buffers, count, &options, offsets);
        assert_int_equal(result.lower_bound, 100000);
        assert_int_equal(result.peak, result.lower_bound);
    }
}

/* A training step: activations nest, gradients are born in reverse and stay, temporaries come and go. */
static void training_steps_meet_the_bound(void **state) {
    (void)state;
    uint64_t seed = 11;
    for (unsigned round = 0; round < 20; round++) {
        weir_buffer buffers[LARGE];
        uint64_t offsets[LARGE];
        size_t count = 0;
        uint64_t layers = LARGE / 4;
        for (uint64_t i = 0; i < layers; i++) {
            uint64_t backward = 4 * layers - 2 * i;
            buffers[count++] = (weir_buffer){2 * i, backward + 1, 64 * (1 + i % 3)};
            buffers[count++] = (weir_buffer){2 * i, 2 * i + 2, 32 * (1 + next_random(&seed) % 4)};
            buffers[count++] = (weir_buffer){backward, 4 * layers + 2, 128 * (1 + i % 2)};
            buffers[count++] = (weir_buffer){backward, backward + 2, 32 * (1 + next_random(&seed) % 4)};
        }
        weir_pack__options options = options_of(5);
        weir_pack__result result = pack_and_check(buffers, count, &options, offsets);
        assert_int_equal(result.peak, result.lower_bound);
        assert_true(result.optimal);
    }
}

static void edges_are_handled(void **state) {
    (void)state;
    uint64_t offsets[4] = {7, 7, 7, 7};
    weir_pack__options options = options_of(5);
    weir_pack__result result;
    weir_error error;
    assert_int_equal(weir_pack__pack(NULL, NULL, 0, &options, NULL, &result, &error), WEIR_OK);
    assert_int_equal(result.peak, 0);
    assert_true(result.optimal);

    weir_buffer empty[2] = {{0, 5, 0}, {1, 2, 0}};
    result = pack_and_check(empty, 2, &options, offsets);
    assert_int_equal(result.peak, 0);
    assert_int_equal(offsets[0], 0);

    weir_buffer no_time[1] = {{3, 3, 8}};
    assert_int_equal(weir_pack__pack(NULL, no_time, 1, &options, offsets, &result, &error),
                     WEIR_CONTRACT_VIOLATION);
    assert_non_null(strstr(error.message, "buffer 0"));

    weir_buffer touching[2] = {{0, 3, 8}, {3, 4, 8}};
    assert_int_equal(pack_and_check(touching, 2, &options, offsets).peak, 8);

    options.effort = 10;
    assert_int_equal(weir_pack__pack(NULL, touching, 2, &options, offsets, &result, &error),
                     WEIR_CONTRACT_VIOLATION);
    options.effort = 5;
    options.alignment = 16;
    assert_int_equal(weir_pack__pack(NULL, touching, 2, &options, offsets, &result, &error),
                     WEIR_CONTRACT_VIOLATION);
}

static void the_public_call_rounds_and_refuses(void **state) {
    (void)state;
    weir_buffer buffers[3] = {{0, 2, 100}, {1, 3, 50}, {2, 4, 1}};
    uint64_t offsets[3];
    weir_packing_options options = {.size = sizeof options, .alignment = 48};
    weir_packing_result result;
    weir_error error;
    assert_int_equal(weir_pack(NULL, buffers, 3, &options, offsets, &result, &error), WEIR_OK);
    assert_int_equal(result.peak_bytes, 144 + 96);
    assert_int_equal(result.lower_bound, 144 + 96);
    assert_true(result.optimal && result.buffers == 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(offsets[i] % 48, 0);

    options = (weir_packing_options){.size = sizeof options, .has_capacity = true, .capacity = 149};
    assert_int_equal(weir_pack(NULL, buffers, 3, &options, offsets, &result, &error), WEIR_ARENA_TOO_SMALL);
    options.capacity = 150;
    assert_int_equal(weir_pack(NULL, buffers, 3, &options, offsets, &result, &error), WEIR_OK);
    assert_int_equal(offsets[0], offsets[1] == 0 ? 50 : 0);

    buffers[0].size = UINT64_MAX - 3;
    options = (weir_packing_options){.size = sizeof options, .alignment = 8};
    assert_int_equal(weir_pack(NULL, buffers, 1, &options, offsets, &result, &error),
                     WEIR_ALLOCATION_OVERFLOW);
    options = (weir_packing_options){.size = sizeof options, .effort_plus_one = 11};
    assert_int_equal(weir_pack(NULL, buffers, 1, &options, offsets, &result, &error),
                     WEIR_CONTRACT_VIOLATION);
}

static void huge_sizes_do_not_overflow(void **state) {
    (void)state;
    uint64_t half = UINT64_C(1) << 63;
    weir_buffer two[3] = {{0, UINT64_MAX, half}, {5, UINT64_MAX - 1, half - 1}, {0, 1, 0}};
    uint64_t offsets[5];
    weir_pack__options options = options_of(9);
    assert_int_equal(pack_and_check(two, 3, &options, offsets).peak, UINT64_MAX);

    weir_buffer over[2] = {{0, 1, half}, {0, 1, half}};
    weir_pack__result result;
    weir_error error;
    assert_int_equal(weir_pack__pack(NULL, over, 2, &options, offsets, &result, &error),
                     WEIR_ALLOCATION_OVERFLOW);

    /* no layout meets the bound here, so searches run and give way near the top of the address space */
    uint64_t unit = UINT64_C(0x1999999999999999);
    weir_buffer knot[5] = {
        {0, 2, unit}, {1, 4, unit * 2 - 1}, {3, 6, unit * 2 - 3}, {5, 7, unit + 4}, {0, 7, unit}};
    result = pack_and_check(knot, 5, &options, offsets);
    assert_true(result.optimal);
    assert_int_equal(result.peak, least_peak(knot, 5));
}

static void initial_layout_is_never_exceeded(void **state) {
    (void)state;
    uint64_t seed = 6;
    for (unsigned round = 0; round < 300; round++) {
        weir_buffer buffers[40];
        uint64_t best[40], offsets[40];
        make_buffers(&seed, buffers, 40, 30, 50);
        weir_pack__options options = options_of(5);
        weir_pack__result good = pack_and_check(buffers, 40, &options, best);
        options.effort = 0;
        options.initial = best;
        weir_pack__result result = pack_and_check(buffers, 40, &options, offsets);
        assert_true(result.peak <= good.peak);
        if (result.peak == result.lower_bound)
            assert_true(result.optimal);
    }
}

static void validator_finds_overlaps(void **state) {
    (void)state;
    uint64_t seed = 7;
    size_t broken = 0;
    for (unsigned round = 0; round < 4000; round++) {
        weir_buffer buffers[12];
        uint64_t offsets[12];
        make_buffers(&seed, buffers, 12, 10, 8);
        for (size_t i = 0; i < 12; i++)
            offsets[i] = next_random(&seed) % 60;
        bool overlaps = false;
        for (size_t i = 0; i < 12; i++)
            for (size_t j = 0; j < i; j++)
                overlaps |= live_together(&buffers[i], &buffers[j]) &&
                            offsets[i] < offsets[j] + buffers[j].size &&
                            offsets[j] < offsets[i] + buffers[i].size && buffers[i].size && buffers[j].size;
        bool valid;
        uint64_t peak;
        weir_pack__fault fault = {99, 99};
        weir_error error;
        assert_int_equal(weir_pack__validate(NULL, buffers, 12, 1, offsets, &valid, &peak, &fault, &error),
                         WEIR_OK);
        assert_int_equal(valid, !overlaps);
        if (!valid) {
            broken++;
            const weir_buffer *a = &buffers[fault.first], *b = &buffers[fault.second];
            assert_true(live_together(a, b) && offsets[fault.first] < offsets[fault.second] + b->size &&
                        offsets[fault.second] < offsets[fault.first] + a->size);
        }
    }
    assert_in_range(broken, 500, 3999);
}

static void validator_finds_single_faults(void **state) {
    (void)state;
    weir_buffer buffers[2] = {{0, 4, 16}, {0, 4, 16}};
    uint64_t offsets[2] = {0, 24};
    bool valid;
    uint64_t peak;
    weir_pack__fault fault;
    weir_error error;
    assert_int_equal(weir_pack__validate(NULL, buffers, 2, 16, offsets, &valid, &peak, &fault, &error),
                     WEIR_OK);
    assert_false(valid);
    assert_int_equal(fault.first, 1);
    offsets[1] = UINT64_MAX - 7;
    assert_int_equal(weir_pack__validate(NULL, buffers, 2, 1, offsets, &valid, &peak, &fault, &error),
                     WEIR_OK);
    assert_false(valid);
    offsets[1] = 16;
    assert_int_equal(weir_pack__validate(NULL, buffers, 2, 16, offsets, &valid, &peak, &fault, &error),
                     WEIR_OK);
    assert_true(valid);
    assert_int_equal(peak, 32);
}

/* ---- Failing allocations --------------------------------------------------------------------- */

typedef struct failing {
    atomic_long calls;
    atomic_long live;
    long fail_at; /* this call and all later ones; 0: never */
} failing;

static void *failing_resize(void *context, void *memory, size_t size) {
    failing *f = context;
    long call = atomic_fetch_add(&f->calls, 1) + 1;
    if (f->fail_at && call >= f->fail_at)
        return NULL;
    void *grown = realloc(memory, size ? size : 1);
    if (grown && !memory)
        atomic_fetch_add(&f->live, 1);
    return grown;
}

static void *failing_allocate(void *context, size_t size) {
    return failing_resize(context, NULL, size);
}

static void failing_release(void *context, void *memory) {
    failing *f = context;
    if (memory)
        atomic_fetch_sub(&f->live, 1);
    free(memory);
}

static void sweep_failures(uint32_t threads, bool once_small) {
    uint64_t seed = 8;
    weir_buffer buffers[60];
    uint64_t offsets[60];
    make_buffers(&seed, buffers, 60, 40, 50);
    failing f = {0};
    weir_env env = *weir_env_default();
    env.context = &f;
    env.allocate = failing_allocate;
    env.resize = failing_resize;
    env.release = failing_release;
    weir_pack__options options = options_of(once_small ? 1 : 4);
    options.threads = threads;
    weir_pack__result result;
    weir_error error;
    bool failed_once = false;
    for (long n = 1;; n++) {
        f = (failing){.fail_at = n};
        weir_status status = weir_pack__pack(&env, buffers, 60, &options, offsets, &result, &error);
        assert_int_equal(atomic_load(&f.live), 0);
        if (status == WEIR_OK)
            break;
        assert_int_equal(status, WEIR_OUT_OF_MEMORY);
        failed_once = true;
    }
    assert_true(failed_once);
}

static void allocation_failures_leave_nothing_behind(void **state) {
    (void)state;
    sweep_failures(1, true);
    sweep_failures(1, false);
    sweep_failures(2, false);
}

static void validator_reports_failed_allocations(void **state) {
    (void)state;
    weir_buffer buffers[2] = {{0, 4, 16}, {0, 4, 16}};
    uint64_t offsets[2] = {0, 16}, peak;
    bool valid;
    weir_pack__fault fault;
    weir_error error;
    failing f;
    weir_env env = *weir_env_default();
    env.context = &f;
    env.allocate = failing_allocate;
    env.resize = failing_resize;
    env.release = failing_release;
    for (long n = 1; n <= 3; n++) {
        f = (failing){.fail_at = n};
        assert_int_equal(weir_pack__validate(&env, buffers, 2, 1, offsets, &valid, &peak, &fault, &error),
                         WEIR_OUT_OF_MEMORY);
        assert_int_equal(atomic_load(&f.live), 0);
    }
}

static int refuse_thread(void *context, void *(*run)(void *), void *argument, uintptr_t *thread) {
    (void)context, (void)run, (void)argument, (void)thread;
    return 11;
}

static void refused_threads_change_nothing(void **state) {
    (void)state;
    uint64_t seed = 9;
    weir_buffer buffers[LARGE];
    uint64_t expected[LARGE], offsets[LARGE];
    make_buffers(&seed, buffers, LARGE, 100, 40);
    weir_pack__options options = options_of(3);
    pack_and_check(buffers, LARGE, &options, expected);
    weir_env env = *weir_env_default();
    env.start_thread = refuse_thread;
    options.threads = 4;
    weir_pack__result result;
    weir_error error;
    assert_int_equal(weir_pack__pack(&env, buffers, LARGE, &options, offsets, &result, &error), WEIR_OK);
    assert_memory_equal(expected, offsets, sizeof offsets);
}

/* Every level begins with what the level below it left, and knows its budget. */
static void more_effort_is_never_worse_and_keeps_its_budget(void **state) {
    (void)state;
    enum { COUNT = 600 };
    uint64_t seed = 17;
    size_t better = 0;
    for (unsigned round = 0; round < 12; round += test_stride()) {
        weir_buffer buffers[COUNT];
        uint64_t offsets[COUNT];
        make_buffers(&seed, buffers, COUNT, 60 + 40 * round, 900);
        uint64_t last = UINT64_MAX;
        for (uint32_t effort = 0; effort <= 4; effort++) {
            weir_pack__options options = options_of(effort);
            weir_pack__result result = pack_and_check(buffers, COUNT, &options, offsets);
            uint64_t budget = weir_pack__budget(effort, COUNT);
            assert_true(result.peak <= last);
            assert_true(result.steps <= budget + budget / 8);
            better += effort > 0 && result.peak < last;
            last = result.peak;
        }
    }
    assert_true(better > 0);
}

static void each_strategy_gives_a_layout_alone(void **state) {
    (void)state;
    enum { COUNT = 300 };
    static const char *const names[] = {"fits",    "cores", "ends",   "fusion",
                                        "corners", "sizes", "slants", "windows"};
    uint64_t seed = 18;
    weir_buffer buffers[COUNT];
    uint64_t offsets[COUNT];
    make_buffers(&seed, buffers, COUNT, 90, 900);
    weir_pack__options options = options_of(0);
    uint64_t greedy = pack_and_check(buffers, COUNT, &options, offsets).peak;
    size_t better = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        weir_error error;
        options = options_of(3);
        assert_int_equal(weir_pack__choose(names[i], &options.without, &error), WEIR_OK);
        uint64_t peak = pack_and_check(buffers, COUNT, &options, offsets).peak;
        assert_true(peak <= greedy);
        better += peak < greedy;
    }
    assert_true(better >= 3); /* that the switch reaches them */
}

static void unknown_strategies_are_refused(void **state) {
    (void)state;
    weir_error error;
    uint32_t without;
    assert_int_equal(weir_pack__choose(NULL, &without, &error), WEIR_OK);
    assert_int_equal(without, 0);
    static const char *const wrong[] = {"",         "corner",           "corners,",
                                        ",corners", "corners,windowss", "corners windows"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(weir_pack__choose(wrong[i], &without, &error), WEIR_CONTRACT_VIOLATION);
        assert_non_null(strstr(error.message, "fits, cores, ends, fusion, corners"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_problems_are_solved_exactly),
        cmocka_unit_test(low_effort_never_claims_too_much),
        cmocka_unit_test(capacities_are_met_or_refuted),
        cmocka_unit_test(threads_and_row_order_do_not_matter),
        cmocka_unit_test(every_effort_is_valid_and_alignment_holds),
        cmocka_unit_test(more_effort_is_never_worse_and_keeps_its_budget),
        cmocka_unit_test(each_strategy_gives_a_layout_alone),
        cmocka_unit_test(unknown_strategies_are_refused),
        cmocka_unit_test(parts_are_solved_apart),
        cmocka_unit_test(planted_layouts_are_found),
        cmocka_unit_test(training_steps_meet_the_bound),
        cmocka_unit_test(edges_are_handled),
        cmocka_unit_test(the_public_call_rounds_and_refuses),
        cmocka_unit_test(huge_sizes_do_not_overflow),
        cmocka_unit_test(initial_layout_is_never_exceeded),
        cmocka_unit_test(validator_finds_overlaps),
        cmocka_unit_test(validator_finds_single_faults),
        cmocka_unit_test(allocation_failures_leave_nothing_behind),
        cmocka_unit_test(validator_reports_failed_allocations),
        cmocka_unit_test(refused_threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
