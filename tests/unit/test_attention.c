/* Attention: against what its definition says, computed the long way in double; the same bits with any number
 * of threads and on a device; and what is refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"
#include "support/attention_batch.h"
#include "support/fake_driver.h"
#include "support/testing.h"

enum { HEADS = 2, SIZE = 16 };

static fake_driver fake;

/* ---- Tensors ---------------------------------------------------------------------------------------- */

enum { Q, K, V, O, G, DQ, DK, DV, TENSORS };

typedef struct made_call {
    weir_attention_call call;
    size_t size, sums; /* bytes of a tensor, and of lse */
    uint8_t *data;     /* the tensors, then lse and delta */
    void *lists;
    uint64_t lists_size;
} made_call;

static size_t size_of(weir_attention_dtype dtype) {
    return dtype == WEIR_ATTENTION_FLOAT64 ? 8 : dtype == WEIR_ATTENTION_FLOAT32 ? 4 : 2;
}

static void write_number(uint8_t *to, weir_attention_dtype dtype, double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    if (dtype == WEIR_ATTENTION_FLOAT64)
        memcpy(to, &value, 8);
    else if (dtype == WEIR_ATTENTION_FLOAT32)
        memcpy(to, &narrow, 4);
    else
        memcpy(to, &(uint16_t){(uint16_t)(bits >> 16)}, 2);
}

static double read_number(const uint8_t *from, weir_attention_dtype dtype) {
    double value;
    float narrow;
    uint16_t half;
    if (dtype == WEIR_ATTENTION_FLOAT64) {
        memcpy(&value, from, 8);
        return value;
    }
    memcpy(&half, from, 2);
    uint32_t bits = (uint32_t)half << 16;
    memcpy(&narrow, dtype == WEIR_ATTENTION_FLOAT32 ? (const void *)from : (const void *)&bits, 4);
    return (double)narrow;
}

/* Tensors [B, S, H, D], filled with numbers that bfloat16 holds. */
static void point(made_call *c, uint8_t *data, void *lists) {
    weir_attention_tensor *tensors[TENSORS] = {&c->call.q,          &c->call.k,          &c->call.v,
                                               &c->call.o,          &c->call.o_gradient, &c->call.q_gradient,
                                               &c->call.k_gradient, &c->call.v_gradient};
    for (size_t i = 0; i < TENSORS; i++)
        *tensors[i] = (weir_attention_tensor){data + i * c->size,
                                              {(int64_t)c->call.length * HEADS * c->call.head_size,
                                               c->call.head_size, HEADS * c->call.head_size}};
    c->call.lse = data + TENSORS * c->size;
    c->call.delta = data + TENSORS * c->size + c->sums;
    c->call.lists = lists;
}

static made_call make_sized_call(const made_batch *m, weir_attention_dtype dtype, uint32_t threads,
                                 uint32_t head_size) {
    made_call c = {.call = {.size = sizeof c.call,
                            .dtype = dtype,
                            .sequences = m->sequences,
                            .length = m->length,
                            .rows = m->rows,
                            .heads = HEADS,
                            .head_size = head_size,
                            .threads = threads}};
    weir_error error;
    random_stream random = {7};
    size_t numbers = (size_t)m->sequences * m->length * HEADS * head_size;
    c.size = (numbers * size_of(dtype) + 255) & ~(size_t)255;
    c.sums = ((size_t)m->sequences * m->length * HEADS * 8 + 255) & ~(size_t)255;
    c.data = aligned_alloc(256, TENSORS * c.size + 2 * c.sums);
    memset(c.data, 0xff, TENSORS * c.size + 2 * c.sums);
    for (size_t i = 0; i < TENSORS; i++)
        for (size_t k = 0; i != O && i < DQ && k < numbers; k++)
            write_number(c.data + i * c.size + k * size_of(dtype), dtype,
                         (double)random_below(&random, 256) / 64 - 2);
    assert_ok(weir_attention_lists_size(m->sequences, m->length, m->rows, &c.lists_size, &error), &error);
    c.lists = aligned_alloc(256, (size_t)c.lists_size);
    memset(c.lists, 0xee, (size_t)c.lists_size);
    point(&c, c.data, c.lists);
    return c;
}

#define make_call(m, dtype, threads) make_sized_call(m, dtype, threads, SIZE)

static void free_call(made_call *c) {
    free(c->data);
    free(c->lists);
}

static void run_both(weir_attention *attention, const made_call *c, weir_attention_pattern pattern) {
    weir_error error;
    weir_attention_call call = c->call;
    call.pattern = pattern;
    assert_ok(weir_attention_forward(attention, &call, 0, &error), &error);
    assert_ok(weir_attention_backward(attention, &call, 0, &error), &error);
}

/* ---- The long way ------------------------------------------------------------------------------------ */

static double number_at(const made_call *c, int tensor, uint32_t b, uint32_t h, uint32_t s, uint32_t d) {
    size_t at = (((size_t)b * c->call.length + s) * HEADS + h) * SIZE + d;
    return read_number(c->data + (size_t)tensor * c->size + at * size_of(c->call.dtype), c->call.dtype);
}

static double product(const made_call *c, int x, uint32_t i, int y, uint32_t j, uint32_t b, uint32_t h) {
    double sum = 0;
    for (uint32_t d = 0; d < SIZE; d++)
        sum += number_at(c, x, b, h, i, d) * number_at(c, y, b, h, j, d);
    return sum;
}

/* Weights of one cell, by softmax. */
static void weigh(const made_call *c, const made_batch *m, weir_attention_pattern pattern, uint32_t b,
                  uint32_t h, uint32_t i, double *weights) {
    double sum = 0;
    for (uint32_t j = 0; j < m->length; j++) {
        weights[j] = sees(m, pattern, b, i, j) ? exp(product(c, Q, i, K, j, b, h) / 4) : 0;
        sum += weights[j];
    }
    for (uint32_t j = 0; j < m->length && sum > 0; j++)
        weights[j] /= sum;
}

typedef struct expected {
    double *of[TENSORS]; /* [S][D] of one sequence and head */
} expected;

static void expect_cell(const made_call *c, const made_batch *m, uint32_t b, uint32_t h, uint32_t i,
                        const double *weights, expected *e) {
    double delta = 0;
    for (uint32_t j = 0; j < m->length; j++)
        delta += weights[j] != 0 ? weights[j] * product(c, G, i, V, j, b, h) : 0;
    for (uint32_t j = 0; j < m->length; j++) {
        double change = weights[j] != 0 ? weights[j] * (product(c, G, i, V, j, b, h) - delta) / 4 : 0;
        for (uint32_t d = 0; d < SIZE && weights[j] != 0; d++) {
            e->of[O][i * SIZE + d] += weights[j] * number_at(c, V, b, h, j, d);
            e->of[DQ][i * SIZE + d] += change * number_at(c, K, b, h, j, d);
            e->of[DK][j * SIZE + d] += change * number_at(c, Q, b, h, i, d);
            e->of[DV][j * SIZE + d] += weights[j] * number_at(c, G, b, h, i, d);
        }
    }
}

static void assert_as_defined(const made_call *c, const made_batch *m, weir_attention_pattern pattern,
                              double tolerance) {
    static const int made[] = {O, DQ, DK, DV};
    expected e;
    double *weights = calloc(m->length, sizeof *weights);
    for (uint32_t at = 0; at < m->sequences * HEADS; at++) {
        uint32_t b = at / HEADS, h = at % HEADS;
        for (size_t k = 0; k < 4; k++)
            e.of[made[k]] = calloc((size_t)m->length * SIZE, sizeof(double));
        for (uint32_t i = 0; i < m->length; i++) {
            weigh(c, m, pattern, b, h, i, weights);
            expect_cell(c, m, b, h, i, weights, &e);
        }
        for (size_t k = 0; k < 4; k++)
            for (uint32_t i = 0; i < m->length * SIZE; i++) {
                double found = number_at(c, made[k], b, h, i / SIZE, i % SIZE), right = e.of[made[k]][i];
                if (!(fabs(found - right) <= tolerance * (1 + fabs(right))))
                    fail_msg("pattern %d, tensor %d, cell %u: %.17g, not %.17g", pattern, made[k], i / SIZE,
                             found, right);
            }
        for (size_t k = 0; k < 4; k++)
            free(e.of[made[k]]);
    }
    free(weights);
}

/* ---- Tests ------------------------------------------------------------------------------------------- */

/* Small ones; one cell; hubs; columns of more than 64 cells; rows of more than 64 and of more than 96; a row
 * for every cell; more rows than a tile of fk_adj has. */
static const batch_rules shapes[] = {
    {3, 40, 12, 6, 5, 3, 0, false},   {1, 1, 1, 1, 1, 1, 0, false},     {2, 150, 40, 8, 2, 2, 0, false},
    {1, 260, 3, 200, 1, 3, 0, false}, {2, 120, 120, 1, 9, 1, 0, false}, {1, 330, 300, 2, 40, 4, 0, false},
    {0, 16, 4, 3, 2, 1, 0, false},    {2, 16, 4, 3, 16, 0, 0, false},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void test_as_defined(void **state) {
    (void)state;
    static const double tolerances[] = {1e-12, 2e-5, 0, 4e-2};
    weir_error error;
    weir_attention *attention;
    assert_ok(weir_attention_open(NULL, NULL, &attention, &error), &error);
    for (size_t s = 0; s < SHAPES; s += test_stride())
        for (int dtype = WEIR_ATTENTION_FLOAT64; dtype <= WEIR_ATTENTION_BFLOAT16; dtype++) {
            if (dtype == WEIR_ATTENTION_FLOAT16)
                continue; /* torch's tests have it */
            made_batch m = make_batch(&shapes[s], 11 + s);
            weir_attention_batch batch = given_batch(&m, 2);
            made_call c = make_call(&m, (weir_attention_dtype)dtype, 2);
            assert_ok(weir_attention_lists(attention, &batch, c.lists, 0, &error), &error);
            for (int pattern = 0; pattern < 3; pattern++) {
                run_both(attention, &c, (weir_attention_pattern)pattern);
                assert_as_defined(&c, &m, (weir_attention_pattern)pattern, tolerances[dtype]);
            }
            free_call(&c);
            free_batch(&m);
        }
    weir_attention_close(attention);
}

static void test_masks(void **state) {
    (void)state;
    weir_error error;
    weir_attention *attention;
    assert_ok(weir_attention_open(NULL, NULL, &attention, &error), &error);
    for (size_t s = 0; s < SHAPES; s++) {
        made_batch m = make_batch(&shapes[s], 5 + s);
        weir_attention_batch batch = given_batch(&m, 1);
        made_call c = make_call(&m, WEIR_ATTENTION_FLOAT32, 1);
        uint8_t *mask = malloc((size_t)m.sequences * m.length * m.length + 1);
        assert_ok(weir_attention_lists(attention, &batch, c.lists, 0, &error), &error);
        for (int p = 0; p < 3; p++) {
            weir_attention_pattern pattern = (weir_attention_pattern)p;
            assert_ok(weir_attention_mask(c.lists, m.sequences, m.length, m.rows, pattern, mask, &error),
                      &error);
            for (size_t at = 0; at < (size_t)m.sequences * m.length * m.length; at++)
                assert_int_equal(mask[at],
                                 sees(&m, pattern, (uint32_t)(at / m.length / m.length),
                                      (uint32_t)(at / m.length % m.length), (uint32_t)(at % m.length)));
        }
        free(mask);
        free_call(&c);
        free_batch(&m);
    }
    weir_attention_close(attention);
}

static void test_threads_change_nothing(void **state) {
    (void)state;
    weir_error error;
    weir_attention *attention;
    made_batch m = make_batch(&shapes[2], 3);
    made_call one = make_call(&m, WEIR_ATTENTION_FLOAT32, 1);
    assert_ok(weir_attention_open(NULL, NULL, &attention, &error), &error);
    for (uint32_t threads = 1; threads <= 5; threads += 2) {
        made_call c = make_call(&m, WEIR_ATTENTION_FLOAT32, threads);
        weir_attention_batch batch = given_batch(&m, threads);
        for (int pattern = 0; pattern < 3; pattern++) {
            made_call *run = threads == 1 ? &one : &c;
            assert_ok(weir_attention_lists(attention, &batch, run->lists, 0, &error), &error);
            run_both(attention, run, (weir_attention_pattern)pattern);
            if (threads > 1) {
                batch.threads = 1;
                assert_ok(weir_attention_lists(attention, &batch, one.lists, 0, &error), &error);
                batch.threads = threads;
                run_both(attention, &one, (weir_attention_pattern)pattern);
                assert_memory_equal(one.lists, c.lists, c.lists_size);
                assert_memory_equal(one.data, c.data, TENSORS * c.size + 2 * c.sums);
            }
        }
        free_call(&c);
    }
    free_call(&one);
    free_batch(&m);
    weir_attention_close(attention);
}

/* ---- A device ---------------------------------------------------------------------------------------- */

typedef struct far_side {
    weir_device *device;
    weir_memory memory;
    uint8_t *batch[5], *data, *lists;
    size_t sizes[5], data_size, lists_size;
} far_side;

static uint8_t *put(far_side *t, const void *from, size_t size) {
    weir_error error;
    uint8_t *to = t->memory.allocate(t->memory.context, size, &error);
    assert_non_null(to);
    assert_ok(weir_copy_to_device(t->device, to, from, size, 0, &error), &error);
    return to;
}

static far_side put_all(weir_device *device, const made_batch *m, const made_call *c) {
    size_t cells = (size_t)m->sequences * m->length;
    far_side t = {.device = device,
                  .memory = weir_device_memory(device),
                  .sizes = {cells * 2, cells * 4, cells, (size_t)m->sequences * m->rows * m->rows, cells * 2},
                  .data_size = TENSORS * c->size + 2 * c->sums,
                  .lists_size = (size_t)c->lists_size};
    const uint8_t *from[5] = {m->seq_row_ids, m->column_ids, m->is_padding, m->fk_adj, m->col_perm};
    for (size_t i = 0; i < 5; i++)
        t.batch[i] = put(&t, from[i], t.sizes[i]);
    t.data = put(&t, c->data, t.data_size);
    t.lists = put(&t, c->lists, t.lists_size);
    return t;
}

static void drop_all(far_side *t) {
    for (size_t i = 0; i < 5; i++)
        t->memory.release(t->memory.context, t->batch[i], t->sizes[i]);
    t->memory.release(t->memory.context, t->data, t->data_size);
    t->memory.release(t->memory.context, t->lists, t->lists_size);
}

/* All patterns on a device, copied back into the call's own memory after each and compared with the host's.
 */
static void compare_device(weir_attention *attention, far_side *t, weir_attention *host, const made_batch *m,
                           made_call *c) {
    weir_error error;
    weir_attention_batch batch = given_batch(m, 1), far = batch;
    uint8_t *back = malloc(t->data_size);
    far.seq_row_ids = t->batch[0];
    far.column_ids = t->batch[1];
    far.is_padding = t->batch[2];
    far.fk_adj = t->batch[3];
    far.col_perm = t->batch[4];
    assert_ok(weir_attention_lists(attention, &far, t->lists, 0, &error), &error);
    assert_ok(weir_attention_lists(host, &batch, c->lists, 0, &error), &error);
    for (int pattern = 0; pattern < 3; pattern++) {
        made_call there = *c;
        point(&there, t->data, t->lists);
        run_both(attention, &there, (weir_attention_pattern)pattern);
        run_both(host, c, (weir_attention_pattern)pattern);
        assert_ok(weir_copy_to_host(t->device, back, t->data, t->data_size, 0, &error), &error);
        assert_ok(weir_stream_sync(t->device, 0, &error), &error);
        assert_memory_equal(back, c->data, t->data_size);
    }
    free(back);
}

/* A batch on a device of its own, with heads of one size and then of another (0: none); the compiler fails
 * the nth time that it is called (0: never). */
static void compare_batch(const batch_rules *rules, weir_attention_dtype dtype, uint32_t size, uint32_t then,
                          uint64_t nth) {
    weir_error error;
    weir_attention *host, *attention;
    weir_device *device;
    made_batch m = make_batch(rules, 21);
    fake.reset();
    fake.fail_call("nvrtcCompileProgram", nth, 6);
    assert_ok(weir_attention_open(NULL, NULL, &host, &error), &error);
    assert_ok(open_fake_device(NULL, &device, &error), &error);
    assert_ok(weir_attention_open(NULL, device, &attention, &error), &error);
    for (; size > 0; size = then, then = 0) {
        made_call c = make_sized_call(&m, dtype, 1, size);
        far_side t = put_all(device, &m, &c);
        compare_device(attention, &t, host, &m, &c);
        assert_true(m.length < LENGTH_LONG || ((const uint32_t *)c.lists)[LONG] > 10);
        drop_all(&t);
        free_call(&c);
    }
    weir_attention_close(attention);
    weir_device_close(device);
    weir_attention_close(host);
    assert_int_equal(fake.live(), 0);
    free_batch(&m);
}

static void test_a_device(void **state) {
    (void)state;
    for (size_t s = 0; s < 6; s++) {
        compare_batch(&shapes[s], WEIR_ATTENTION_FLOAT32, SIZE, 0, 0);
        compare_batch(&shapes[s], WEIR_ATTENTION_BFLOAT16, SIZE, 0, 0);
    }
}

/* They have kernels of their own, for heads of 64 in 16 bits; others do without, and so do all if the
 * compiler does not know the instructions. */
static void test_long_columns_on_a_device(void **state) {
    (void)state;
    static const batch_rules rules = {1, 2100, 400, 6, 14, 1, 0, false};
    compare_batch(&rules, WEIR_ATTENTION_BFLOAT16, 64, test_stride() == 1 ? 16 : 0, 0);
    compare_batch(&rules, WEIR_ATTENTION_BFLOAT16, 64, 0, 2); /* the first makes lists */
}

/* ---- What is refused ---------------------------------------------------------------------------------- */

static void assert_names(const weir_error *error, const char *name) {
    if (!strstr(error->message, name))
        fail_msg("'%s' does not name '%s'", error->message, name);
}

static void test_tensors_that_are_not_a_batchs(void **state) {
    (void)state;
    weir_error error;
    weir_attention *attention;
    assert_ok(weir_attention_open(NULL, NULL, &attention, &error), &error);
    made_batch m = make_batch(&shapes[0], 1);
    made_call c = make_call(&m, WEIR_ATTENTION_FLOAT32, 1);
    weir_attention_batch batch = given_batch(&m, 1);
    struct {
        uint8_t *at, value;
        const char *name;
    } damages[] = {{m.is_padding + 5, 1, "is_padding"},
                   {m.seq_row_ids + 2 * 7, 200, "seq_row_ids"},
                   {m.seq_row_ids + 2 * 39, 0, "seq_row_ids"},
                   {m.col_perm + 2 * 3, 39, "col_perm"},
                   {m.col_perm + 2 * 3 + 1, 255, "col_perm"}};
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        uint8_t kept = *damages[i].at;
        *damages[i].at = damages[i].value;
        assert_fails(weir_attention_lists(attention, &batch, c.lists, 0, &error), WEIR_CONTRACT_VIOLATION,
                     &error);
        assert_names(&error, damages[i].name);
        *damages[i].at = kept;
        assert_ok(weir_attention_lists(attention, &batch, c.lists, 0, &error), &error);
    }
    free_call(&c);
    free_batch(&m);
    weir_attention_close(attention);
}

static void test_tensors_that_are_missing(void **state) {
    (void)state;
    static const char *const names[] = {"seq_row_ids", "column_ids", "is_padding", "fk_adj", "col_perm"};
    weir_error error;
    weir_attention *attention;
    made_batch m = make_batch(&shapes[0], 1);
    made_call c = make_call(&m, WEIR_ATTENTION_FLOAT32, 1);
    assert_ok(weir_attention_open(NULL, NULL, &attention, &error), &error);
    for (size_t i = 0; i < 5; i++) {
        weir_attention_batch batch = given_batch(&m, 1);
        const void **tensors[] = {&batch.seq_row_ids, &batch.column_ids, &batch.is_padding, &batch.fk_adj,
                                  &batch.col_perm};
        *tensors[i] = NULL;
        assert_fails(weir_attention_lists(attention, &batch, c.lists, 0, &error), WEIR_CONTRACT_VIOLATION,
                     &error);
        assert_names(&error, names[i]);
    }
    weir_attention_batch batch = given_batch(&m, 1), none = {.length = m.length, .rows = m.rows};
    assert_fails(weir_attention_lists(attention, &batch, NULL, 0, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_names(&error, "memory for the lists is missing");
    assert_ok(weir_attention_lists(attention, &none, c.lists, 0, &error), &error);
    weir_attention_close(attention);
    free_call(&c);
    free_batch(&m);
}

static void test_masks_that_are_wrong(void **state) {
    (void)state;
    weir_error error;
    uint32_t lists[1] = {0};
    uint8_t mask[1];
    assert_fails(weir_attention_mask(lists, 1, 1, 1, (weir_attention_pattern)3, mask, &error),
                 WEIR_CONTRACT_VIOLATION, &error);
    assert_names(&error, "pattern");
    assert_fails(weir_attention_mask(NULL, 1, 1, 1, WEIR_ATTENTION_COLUMN, mask, &error),
                 WEIR_CONTRACT_VIOLATION, &error);
    assert_names(&error, "missing");
    assert_fails(weir_attention_mask(lists, 1, 1, 1, WEIR_ATTENTION_COLUMN, NULL, &error),
                 WEIR_CONTRACT_VIOLATION, &error);
    assert_names(&error, "missing");
}

static void test_too_many_foreign_keys(void **state) {
    (void)state;
    static const batch_rules rules = {1, 100, 100, 1, 3, 0, 0, false};
    weir_error error;
    weir_attention *attention;
    made_batch m = make_batch(&rules, 1);
    made_call c = make_call(&m, WEIR_ATTENTION_FLOAT32, 1);
    weir_attention_batch batch = given_batch(&m, 1);
    memset(m.fk_adj, 1, 100 * 100);
    assert_ok(weir_attention_open(NULL, NULL, &attention, &error), &error);
    assert_fails(weir_attention_lists(attention, &batch, c.lists, 0, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    assert_names(&error, "fk_adj");
    weir_attention_close(attention);
    free_call(&c);
    free_batch(&m);
}

/* A device does not look at what tensors hold: whatever that is, nothing is read or written beyond memory. */
static void test_noise_on_a_device(void **state) {
    (void)state;
    weir_error error;
    weir_device *device;
    weir_attention *attention;
    random_stream random = {99};
    fake.reset();
    assert_ok(open_fake_device(NULL, &device, &error), &error);
    assert_ok(weir_attention_open(NULL, device, &attention, &error), &error);
    for (size_t s = 0; s < 6; s++) {
        made_batch m = make_batch(&shapes[s], s);
        made_call c = make_call(&m, WEIR_ATTENTION_FLOAT32, 1), far = c;
        size_t cells = (size_t)m.sequences * m.length;
        for (size_t i = 0; i < cells * 2; i++)
            m.seq_row_ids[i] = (uint8_t)random_next(&random), m.col_perm[i] = (uint8_t)random_next(&random);
        for (size_t i = 0; i < cells * 4; i++)
            m.column_ids[i] = (uint8_t)random_next(&random);
        for (size_t i = 0; i < cells; i++)
            m.is_padding[i] = (uint8_t)random_next(&random) & 1;
        memset(m.fk_adj, s % 2 ? 1 : 0x80, (size_t)m.sequences * m.rows * m.rows);
        far_side t = put_all(device, &m, &c);
        weir_attention_batch batch = {m.sequences, m.length,   m.rows,     0,         t.batch[0],
                                      t.batch[1],  t.batch[2], t.batch[3], t.batch[4]};
        assert_ok(weir_attention_lists(attention, &batch, t.lists, 0, &error), &error);
        point(&far, t.data, t.lists);
        for (int pattern = 0; pattern < 3; pattern++)
            run_both(attention, &far, (weir_attention_pattern)pattern);
        assert_ok(weir_stream_sync(device, 0, &error), &error);
        drop_all(&t);
        free_call(&c);
        free_batch(&m);
    }
    weir_attention_close(attention);
    weir_device_close(device);
}

static void refuse_call(weir_attention *attention, const weir_attention_call *call, const char *name) {
    weir_error error;
    assert_fails(weir_attention_backward(attention, call, 0, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_names(&error, name);
}

static void test_calls_that_are_wrong(void **state) {
    (void)state;
    weir_error error;
    weir_attention *attention, *there;
    weir_device *device;
    uint64_t size;
    made_batch m = make_batch(&shapes[0], 1);
    made_call c = make_call(&m, WEIR_ATTENTION_FLOAT32, 1);
    fake.reset();
    assert_ok(weir_attention_open(NULL, NULL, &attention, &error), &error);
    assert_ok(open_fake_device(NULL, &device, &error), &error);
    assert_ok(weir_attention_open(NULL, device, &there, &error), &error);
#define WITH(name, field, ...)                                                                               \
    do {                                                                                                     \
        weir_attention_call call_ = c.call;                                                                  \
        call_.field = __VA_ARGS__;                                                                           \
        refuse_call(attention, &call_, name);                                                                \
    } while (0)
    WITH("size", size, 8);
    WITH("pattern", pattern, (weir_attention_pattern)3);
    WITH("dtype", dtype, (weir_attention_dtype)4);
    WITH("heads of 24", head_size, 24);
    WITH("heads of 144", head_size, 144);
    WITH("scale", scale, NAN);
    WITH("lists", lists, NULL);
    WITH("lse", lse, NULL);
    WITH("delta", delta, NULL);
    WITH("k is missing", k.data, NULL);
    WITH("v's gradient is missing", v_gradient.data, NULL);
    WITH("65537 cells", length, 65537);
    WITH("65536 rows", rows, 65536);
    weir_attention_call call = c.call;
    call.q.strides[2] = 1;
    refuse_call(there, &call, "q does not lie");
    call = c.call;
    call.dtype = WEIR_ATTENTION_FLOAT64;
    refuse_call(there, &call, "float64");
    call = c.call;
    call.dtype = WEIR_ATTENTION_BFLOAT16;
    call.heads = UINT32_MAX;
    refuse_call(there, &call, "too many for one call");
    call = c.call;
    call.q.data = (uint8_t *)call.q.data + 1;
    refuse_call(attention, &call, "q does not lie at multiples of 4 bytes");
    refuse_call(there, &call, "q does not lie at multiples of 16 bytes");
    assert_fails(weir_attention_lists_size(0, 0, 0, &size, &error), WEIR_CONTRACT_VIOLATION, &error);
    assert_fails(weir_attention_lists_size(UINT32_MAX, 65536, 65535, &size, &error), WEIR_CONTRACT_VIOLATION,
                 &error);
    weir_attention_close(there);
    weir_device_close(device);
    weir_attention_close(attention);
    free_call(&c);
    free_batch(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_defined),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_threads_change_nothing),
        cmocka_unit_test(test_a_device),
        cmocka_unit_test(test_long_columns_on_a_device),
        cmocka_unit_test(test_tensors_that_are_not_a_batchs),
        cmocka_unit_test(test_tensors_that_are_missing),
        cmocka_unit_test(test_masks_that_are_wrong),
        cmocka_unit_test(test_too_many_foreign_keys),
        cmocka_unit_test(test_noise_on_a_device),
        cmocka_unit_test(test_calls_that_are_wrong),
    };
    fake_driver_open(&fake);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
