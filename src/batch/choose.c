/* See choose.h. Up to 16, as is usual, numbers are compared all with all, which is a few vector
 * instructions and no branch. Wider choices look them up in a small open table. */
#include "batch/choose.h"

#include <string.h>

#include "base/philox.h"

enum { NARROW = WEIR__DRAWS };

bool weir__chooser_open(weir__chooser *chooser, const weir_env *env, uint32_t width) {
    uint32_t places = 64;
    while (places < 2 * width)
        places *= 2;
    *chooser = (weir__chooser){
        .width = width,
        .taken = weir__allocate(env, width > NARROW ? width : NARROW, sizeof *chooser->taken),
        .table = weir__allocate_zero(env, places, sizeof *chooser->table),
        .table_mask = places - 1,
    };
    return chooser->taken && chooser->table;
}

void weir__chooser_close(weir__chooser *chooser, const weir_env *env) {
    weir__release(env, chooser->taken);
    weir__release(env, chooser->table);
    *chooser = (weir__chooser){0};
}

static uint32_t scaled(const weir__draws *draws, uint32_t i, uint32_t range_less_one) {
    weir_random x = {draws->k0[i], draws->k1[i]};
    return WEIR__LOW(uint32_t, weir__scale(x, (uint64_t)range_less_one + 1));
}

/* ---- Narrow ---------------------------------------------------------------------------------- */

/* 16 numbers at once, as vectors that every processor has; those beyond the width are the largest and
 * change nothing. Signed, because that is what vector units compare: turning the highest bit keeps order. */
enum { LANES = 4, VECTORS = NARROW / LANES };
typedef int32_t lanes __attribute__((vector_size(4 * LANES)));

static int32_t in_order(uint32_t number) {
    return WEIR__LOW(int32_t, number ^ (uint32_t)1 << 31);
}

static void load_lanes(lanes out[VECTORS], const uint32_t numbers[NARROW]) {
    for (int v = 0; v < VECTORS; v++)
        for (int lane = 0; lane < LANES; lane++)
            out[v][lane] = in_order(numbers[v * LANES + lane]);
}

/* How often each number stands before itself. Vectors in which all places are before the k-th are left out;
 * as the loops are unrolled, nothing is left of that question. */
static void count_earlier(const uint32_t numbers[NARROW], uint32_t earlier[NARROW]) {
    lanes all[VECTORS], found[VECTORS] = {0};
    const lanes lane_numbers = {0, 1, 2, 3};
    load_lanes(all, numbers);
#pragma GCC unroll 16
    for (int k = 0; k < NARROW; k++)
#pragma GCC unroll 4
        for (int v = k / LANES; v < VECTORS; v++)
            found[v] -= (all[v] == in_order(numbers[k])) & (lane_numbers + v * LANES > k);
    memcpy(earlier, found, sizeof found);
}

/* Distinct numbers: each one's place is how many are below it. */
static void sort_narrow(uint32_t taken[NARROW], uint32_t width) {
    lanes all[VECTORS], below[VECTORS] = {0};
    uint32_t sorted[NARROW];
    load_lanes(all, taken);
#pragma GCC unroll 16
    for (int k = 0; k < NARROW; k++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
            below[v] -= all[v] > in_order(taken[k]);
    for (uint32_t i = 0; i < width; i++)
        sorted[below[i / LANES][i % LANES]] = taken[i];
    memcpy(taken, sorted, width * sizeof *taken);
}

/* Gives every number that is taken already the last one of its step instead. It is taken if it stands
 * before itself, or if it is the last one of an earlier step whose own number was taken. */
static void replace_doubles(uint32_t numbers[NARROW], uint32_t width, uint32_t n) {
    uint32_t earlier[NARROW];
    uint32_t is_double[NARROW] = {0};
    uint32_t last = n - width; /* of step 0 */
    count_earlier(numbers, earlier);
    for (uint32_t i = 0; i < width; i++) {
        uint32_t step = numbers[i] - last < i ? numbers[i] - last : i;
        is_double[i] = is_double[step] | (earlier[i] != 0);
        numbers[i] = is_double[i] ? last + i : numbers[i];
    }
}

static void choose_narrow(weir__chooser *c, const weir__draws *draws, uint32_t n) {
    uint32_t taken[NARROW];
    memset(taken, 0xFF, sizeof taken);
    for (uint32_t i = 0; i < c->width; i++)
        taken[i] = scaled(draws, i, n - c->width + i);
    replace_doubles(taken, c->width, n);
    sort_narrow(taken, c->width);
    memcpy(c->taken, taken, sizeof taken);
}

/* ---- Wide ------------------------------------------------------------------------------------ */

/* Adds a number to the table unless it is there; says whether it was not. */
static bool add_to_table(weir__chooser *c, uint32_t number) {
    uint32_t place = (number * 0x9E3779B1u) >> 7 & c->table_mask;
    while (c->table[place] != 0) {
        if (c->table[place] == number + 1)
            return false;
        place = (place + 1) & c->table_mask;
    }
    c->table[place] = number + 1;
    return true;
}

static void sift(uint32_t *values, uint32_t at, uint32_t count) {
    uint32_t value = values[at];
    for (;;) {
        uint32_t below = 2 * at + 1;
        if (below >= count)
            break;
        if (below + 1 < count && values[below + 1] > values[below])
            below++;
        if (values[below] <= value)
            break;
        values[at] = values[below];
        at = below;
    }
    values[at] = value;
}

static void sort_wide(uint32_t *values, uint32_t count) {
    for (uint32_t i = count / 2; i-- > 0;)
        sift(values, i, count);
    for (uint32_t end = count - 1; end > 0; end--) {
        uint32_t greatest = values[0];
        values[0] = values[end];
        values[end] = greatest;
        sift(values, 0, end);
    }
}

static void choose_wide(weir__chooser *c, weir__walk_draws *draws, uint32_t n) {
    const weir__draws *block = NULL;
    for (uint32_t i = 0; i < c->width; i++) {
        if (i % WEIR__DRAWS == 0)
            block = weir__draws_from(draws, draws->next + i);
        uint32_t j = n - c->width + i;
        uint32_t t = scaled(block, i % WEIR__DRAWS, j);
        if (!add_to_table(c, t))
            (void)add_to_table(c, t = j);
        c->taken[i] = t;
    }
    memset(c->table, 0, ((size_t)c->table_mask + 1) * sizeof *c->table);
    sort_wide(c->taken, c->width);
}

void weir__choose(weir__chooser *c, weir__walk_draws *draws, uint32_t n) {
    if (c->width <= NARROW)
        choose_narrow(c, weir__draws_from(draws, draws->next), n);
    else
        choose_wide(c, draws, n);
    draws->next += c->width;
}
