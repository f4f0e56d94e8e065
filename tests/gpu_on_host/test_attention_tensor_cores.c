/* The GPU's kernels of attention for float16 and bfloat16 (tensor_cores.cu), run on the host lane by lane,
 * with the lists that the host makes: against attention in float64, and the same bits in two orders of lanes
 * and copies. bfloat16 has the kernels with a block for each unit of work; float16 those with a loop (MANY).
 *
 * What still needs a GPU: what NVRTC makes of them, how tensor cores round sums, and warp_groups.cu, whose
 * instructions (wgmma) four warps share and whose operands are descriptors of shared memory. Long columns are
 * here as on GPUs that do not have these. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "attention/half_floats.h"
#include "gpu_on_host/lanes.h"
#include "support/attention_batch.h"

enum { HEADS = 3, PATTERNS = 3, LOOPING_BLOCKS = 2 };
enum { Q, K, V, O, G, DQ, DK, DV, TENSORS };

static const int given[] = {Q, K, V, G}, made[] = {O, DQ, DK, DV};
enum { GIVEN = sizeof given / sizeof given[0], MADE = sizeof made / sizeof made[0] };

/* ---- Kernels ----------------------------------------------------------------------------------------- */

/* By pass, head size and type, as CMakeLists.txt names them. */
#define DECLARE(size, type)                                                                                  \
    attention_kernel kernel_0_##size##_##type, kernel_1_##size##_##type, kernel_2_##size##_##type;
#define PASSES(size, type)                                                                                   \
    { kernel_0_##size##_##type, kernel_1_##size##_##type, kernel_2_##size##_##type }

DECLARE(32, 0)
DECLARE(32, 1)
DECLARE(64, 0)
DECLARE(64, 1)
#ifndef NO_HEADS_OF_128
DECLARE(128, 0)
DECLARE(128, 1)
#endif
static const struct {
    uint32_t size;
    attention_kernel *kernels[2][WEIR_ATTENTION__PASSES]; /* by type */
} heads[] = {
    {32, {PASSES(32, 0), PASSES(32, 1)}},
    {64, {PASSES(64, 0), PASSES(64, 1)}},
#ifndef NO_HEADS_OF_128
    {128, {PASSES(128, 0), PASSES(128, 1)}},
#endif
};
enum { HEAD_SIZES = sizeof heads / sizeof heads[0] };

/* ---- A case ------------------------------------------------------------------------------------------ */

typedef struct tensors {
    void *of[TENSORS]; /* [B, S, H, D] */
    void *lse, *delta; /* [B, H, S] */
} tensors;

/* A batch, its lists, and the tensors of two runs and of the host, which has them in float64. */
typedef struct attention_case {
    made_batch batch;
    uint32_t head_size;
    bool is_bfloat16;
    size_t numbers, sums;
    uint32_t *lists;
    tensors first, second, right;
} attention_case;

static void make_tensors(const attention_case *c, tensors *t, size_t size, size_t sum_size) {
    for (int i = 0; i < TENSORS; i++)
        t->of[i] = aligned_alloc(16, c->numbers * size);
    t->lse = malloc(c->sums * sum_size);
    t->delta = malloc(c->sums * sum_size);
}

/* What a run makes is not a number before. */
static void forget_made(const attention_case *c, const tensors *t) {
    for (size_t i = 0; i < MADE; i++)
        memset(t->of[made[i]], 0xff, c->numbers * sizeof(uint16_t));
    memset(t->lse, 0xff, c->sums * sizeof(float));
    memset(t->delta, 0xff, c->sums * sizeof(float));
}

static void free_tensors(tensors *t) {
    for (int i = 0; i < TENSORS; i++)
        free(t->of[i]);
    free(t->lse);
    free(t->delta);
}

static double read16(uint16_t stored, bool is_bfloat16) {
    return (double)(is_bfloat16 ? read_bfloat16(stored) : read_float16(stored));
}

static attention_case make_case(const batch_rules *rules, uint32_t head_size, bool is_bfloat16) {
    random_stream random = {head_size};
    attention_case c = {.batch = make_batch(rules, 3), .head_size = head_size, .is_bfloat16 = is_bfloat16};
    c.sums = (size_t)rules->sequences * HEADS * rules->length;
    c.numbers = c.sums * head_size;
    make_tensors(&c, &c.first, 2, sizeof(float));
    make_tensors(&c, &c.second, 2, sizeof(float));
    make_tensors(&c, &c.right, sizeof(double), sizeof(double));
    for (size_t t = 0; t < GIVEN; t++)
        for (size_t i = 0; i < c.numbers; i++) {
            float value = (float)random_below(&random, 1 << 16) / (1 << 14) - 2;
            uint16_t stored = is_bfloat16 ? write_bfloat16(value) : write_float16(value);
            ((uint16_t *)c.first.of[given[t]])[i] = ((uint16_t *)c.second.of[given[t]])[i] = stored;
            ((double *)c.right.of[given[t]])[i] = read16(stored, is_bfloat16);
        }
    return c;
}

static void free_case(attention_case *c) {
    free_batch(&c->batch);
    free_tensors(&c->first);
    free_tensors(&c->second);
    free_tensors(&c->right);
    free(c->lists);
}

/* ---- On the host, in float64 ------------------------------------------------------------------------- */

static weir_attention_tensor tensor_of(const attention_case *c, const tensors *t, int which) {
    int64_t cell = (int64_t)HEADS * c->head_size;
    return (weir_attention_tensor){t->of[which], {c->batch.length * cell, c->head_size, cell}};
}

static void make_lists(attention_case *c, weir_attention *host) {
    weir_error error;
    uint64_t size;
    weir_attention_batch batch = given_batch(&c->batch, 1);
    assert_ok(weir_attention_lists_size(batch.sequences, batch.length, batch.rows, &size, &error), &error);
    c->lists = malloc((size_t)size);
    assert_ok(weir_attention_lists(host, &batch, c->lists, 0, &error), &error);
}

static void run_host(const attention_case *c, weir_attention *host, weir_attention_pattern pattern) {
    weir_error error;
    const tensors *t = &c->right;
    weir_attention_call call = {.size = sizeof call,
                                .pattern = pattern,
                                .dtype = WEIR_ATTENTION_FLOAT64,
                                .sequences = c->batch.sequences,
                                .length = c->batch.length,
                                .rows = c->batch.rows,
                                .heads = HEADS,
                                .head_size = c->head_size,
                                .threads = 1,
                                .lists = c->lists,
                                .q = tensor_of(c, t, Q),
                                .k = tensor_of(c, t, K),
                                .v = tensor_of(c, t, V),
                                .o = tensor_of(c, t, O),
                                .o_gradient = tensor_of(c, t, G),
                                .q_gradient = tensor_of(c, t, DQ),
                                .k_gradient = tensor_of(c, t, DK),
                                .v_gradient = tensor_of(c, t, DV),
                                .lse = t->lse,
                                .delta = t->delta};
    assert_ok(weir_attention_forward(host, &call, 0, &error), &error);
    assert_ok(weir_attention_backward(host, &call, 0, &error), &error);
}

/* ---- Lane by lane ------------------------------------------------------------------------------------ */

static weir_attention__arguments arguments_of(const attention_case *c, const tensors *t,
                                              weir_attention_pattern pattern, weir_attention__pass pass) {
    weir_error error;
    weir_attention__arguments a = {.lse = t->lse,
                                   .delta = t->delta,
                                   .words = c->lists,
                                   .heads = HEADS,
                                   .is_column = pattern == WEIR_ATTENTION_COLUMN,
                                   .pass = pass,
                                   .head_size = c->head_size,
                                   .scale = 1 / sqrt(c->head_size)};
    weir_attention__strided *strided[TENSORS] = {&a.q, &a.k, &a.v, &a.o, &a.g, &a.dq, &a.dk, &a.dv};
    uint32_t list = weir_attention__list(pattern, pass == WEIR_ATTENTION__KEYS);
    assert_ok(weir_attention__layout(c->batch.sequences, c->batch.length, c->batch.rows, &a.at, &error),
              &error);
    for (int i = 0; i < TENSORS; i++) {
        weir_attention_tensor tensor = tensor_of(c, t, i);
        *strided[i] =
            (weir_attention__strided){tensor.data, tensor.strides[0], tensor.strides[1], tensor.strides[2]};
    }
    a.counts = a.at.counts + (uint64_t)list * KINDS;
    a.records = a.at.records[list];
    return a;
}

/* Blocks for all units of work, and some more that find nothing to do. Notes which kinds of records there
 * are. */
static uint32_t blocks_of(const weir_attention__arguments *a, bool kinds[KINDS]) {
    uint32_t records = 0;
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        uint32_t count = a->words[a->counts + kind];
        kinds[kind] |= count > 0;
        records += kind == SMALL || kind == BLIND ? (count + 1) / 2 : count * 2 * HEADS;
    }
    return records;
}

static void run_lanes(const attention_case *c, const tensors *t, weir_attention_pattern pattern,
                      attention_kernel *const *passes, bool is_late, bool kinds[KINDS]) {
    forget_made(c, t);
    for (int pass = 0; pass < WEIR_ATTENTION__PASSES; pass++) {
        weir_attention__arguments a = arguments_of(c, t, pattern, (weir_attention__pass)pass);
        uint32_t blocks = blocks_of(&a, kinds);
        lanes_launch(passes[pass], &a, c->is_bfloat16 ? blocks : LOOPING_BLOCKS, is_late);
    }
}

/* ---- Comparing --------------------------------------------------------------------------------------- */

static void assert_near(const attention_case *c, int tensor, weir_attention_pattern pattern) {
    double tolerance = c->is_bfloat16 ? 8e-3 : 1e-3, off = 0, all = 0, worst = 0;
    for (size_t i = 0; i < c->numbers; i++) {
        double found = read16(((const uint16_t *)c->first.of[tensor])[i], c->is_bfloat16);
        double right = ((const double *)c->right.of[tensor])[i], difference = fabs(found - right);
        if (!isfinite(found))
            fail_msg("pattern %d, heads of %u, tensor %d, number %zu is not finite, but %.6g", pattern,
                     c->head_size, tensor, i, right);
        off += difference * difference;
        all += right * right;
        worst = difference / (1 + fabs(right)) > worst ? difference / (1 + fabs(right)) : worst;
    }
    if (off > tolerance * tolerance * all || worst > 4 * tolerance)
        fail_msg("pattern %d, heads of %u, tensor %d: off by %.2g of %.2g, and at most by %.2g", pattern,
                 c->head_size, tensor, sqrt(off), sqrt(all), worst);
}

static void compare(const attention_case *c, weir_attention_pattern pattern) {
    for (size_t i = 0; i < MADE; i++) {
        assert_near(c, made[i], pattern);
        assert_memory_equal(c->first.of[made[i]], c->second.of[made[i]], c->numbers * 2);
    }
}

/* ---- Tests ------------------------------------------------------------------------------------------- */

static void run_case(const batch_rules *rules, uint32_t size, bool is_bfloat16, bool kinds[2][KINDS]) {
    weir_error error;
    weir_attention *host;
    attention_case c = make_case(rules, heads[size].size, is_bfloat16);
    assert_ok(weir_attention_open(NULL, NULL, &host, &error), &error);
    make_lists(&c, host);
    for (int p = 0; p < PATTERNS; p++) {
        weir_attention_pattern pattern = (weir_attention_pattern)p;
        run_host(&c, host, pattern);
        run_lanes(&c, &c.first, pattern, heads[size].kernels[is_bfloat16], false, kinds[p > 0]);
        run_lanes(&c, &c.second, pattern, heads[size].kernels[is_bfloat16], true, kinds[p > 0]);
        compare(&c, pattern);
    }
    weir_attention_close(host);
    free_case(&c);
}

/* Short columns, and rows that share records; columns that fit a block, and a hub; columns that do not, and
 * rows of 64 and more cells; a long column, a hub and much padding. */
static const batch_rules shapes[] = {
    {2, 40, 12, 6, 7, 2, 0, false},
    {1, 100, 40, 4, 3, 1, 93, true},
    {1, 100, 3, 90, 1, 2, 0, false},
    {1, 2048, 40, 4, 1, 1, 130, true},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Heads of 64 take all shapes, others every other one. Together they have records of all kinds. */
static void run_all(bool is_bfloat16) {
    bool kinds[2][KINDS] = {{false}}; /* columns', rows' */
    for (size_t i = 0; i < (size_t)HEAD_SIZES * SHAPES; i += test_stride())
        if (i / SHAPES == 1 || (i + i / SHAPES / 2) % 2 == is_bfloat16)
            run_case(&shapes[i % SHAPES], (uint32_t)(i / SHAPES), is_bfloat16, kinds);
    for (int kind = 0; kind < KINDS && test_stride() == 1; kind++) {
        assert_true(kinds[0][kind] || kind == WIDE);
        assert_true(kinds[1][kind] || kind == LONG);
    }
}

static void test_bfloat16(void **state) {
    (void)state;
    run_all(true);
}

static void test_float16(void **state) {
    (void)state;
    run_all(false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bfloat16), cmocka_unit_test(test_float16)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
