/* Floyd's method for up to 16 numbers, all at once: a translation unit defines PHILOX_LANES, CHOOSE_LANES
 * (32-bit lanes of its vectors) and CHOOSE_KERNEL and includes this.
 *
 * Each number's place in the order is how many are below it. If all differ, these places are 0, 1, 2, …,
 * whose sum says so; only then is that the choice. Else those that are taken already are replaced first. */
#include <string.h>

#include "base/narrow.h"
#include "base/philox_kernel.h"
#include "batch/choose.h"

enum { CHOOSE_VECTORS = WEIR__DRAWS / CHOOSE_LANES };
typedef int32_t choose_lanes __attribute__((vector_size(4 * CHOOSE_LANES)));

/* draw(range): (x * range) >> 128, word by word; ranges are below 2^32. */
static inline void draw_below(const weir_batch__walk_draws *draws, const uint32_t ranges[WEIR__DRAWS],
                              uint32_t out[WEIR__DRAWS]) {
    philox_words w = draw_words(draws->seed, WEIR_DOMAIN_WALK, draws->position, draws->next);
    for (int v = 0; v < PHILOX_VECTORS; v++) {
        philox_lanes range, carry = {0};
        for (int lane = 0; lane < PHILOX_LANES; lane++)
            range[lane] = ranges[v * PHILOX_LANES + lane];
#pragma GCC unroll 4
        for (int word = 0; word < 4; word++)
            carry = (multiply_low_halves(w.of[word][v], range) + carry) >> 32;
        for (int lane = 0; lane < PHILOX_LANES; lane++)
            out[v * PHILOX_LANES + lane] = WEIR__LOW(uint32_t, carry[lane]);
    }
}

/* How many numbers are below each; returns the sum of that. Vectors compare signed numbers: turning the
 * highest bit keeps their order. */
static inline uint32_t rank(const uint32_t numbers[WEIR__DRAWS], uint32_t ranks[WEIR__DRAWS]) {
    choose_lanes all[CHOOSE_VECTORS], below[CHOOSE_VECTORS] = {0};
    memcpy(all, numbers, sizeof all);
    for (int v = 0; v < CHOOSE_VECTORS; v++)
        all[v] ^= INT32_MIN;
#pragma GCC unroll 16
    for (int k = 0; k < WEIR__DRAWS; k++)
#pragma GCC unroll 4
        for (int v = 0; v < CHOOSE_VECTORS; v++)
            below[v] -= all[v] > all[k / CHOOSE_LANES][k % CHOOSE_LANES];
    memcpy(ranks, below, sizeof below);
    uint32_t sum = 0;
    for (int i = 0; i < WEIR__DRAWS; i++)
        sum += ranks[i];
    return sum;
}

/* Gives every number that is taken already the last one of its step instead. It is taken if an equal one,
 * which has the same rank, stands before it, or if it is the last one of an earlier step whose own was taken.
 */
static inline void replace_doubles(uint32_t numbers[WEIR__DRAWS], const uint32_t ranks[WEIR__DRAWS],
                                   uint32_t last) {
    uint32_t seen = 0;    /* a bit a rank */
    uint64_t doubles = 0; /* a bit a step */
#pragma GCC unroll 16
    for (uint32_t i = 0; i < WEIR__DRAWS; i++) {
        uint32_t step = numbers[i] - last < i ? numbers[i] - last : 63; /* which is none's */
        uint32_t is_double = WEIR__LOW(uint32_t, (seen >> ranks[i] | doubles >> step) & 1);
        seen |= (uint32_t)1 << ranks[i];
        doubles |= (uint64_t)is_double << i;
        numbers[i] += (last + i - numbers[i]) & (0 - is_double);
    }
}

static inline void leave_out_beyond(uint32_t numbers[WEIR__DRAWS], uint32_t width) {
    for (uint32_t i = 0; i < WEIR__DRAWS; i++)
        numbers[i] |= i < width ? 0 : UINT32_MAX; /* above all, and changes nothing */
}

void CHOOSE_KERNEL(const weir_batch__walk_draws *draws, uint32_t width, uint32_t n,
                   uint32_t taken[WEIR__DRAWS]) {
    uint32_t ranges[WEIR__DRAWS], numbers[WEIR__DRAWS], ranks[WEIR__DRAWS];
    for (uint32_t i = 0; i < WEIR__DRAWS; i++)
        ranges[i] = n - width + 1 + i;
    draw_below(draws, ranges, numbers);
    leave_out_beyond(numbers, width);
    uint32_t sum_if_distinct = width * (width - 1) / 2 + (WEIR__DRAWS - width) * width;
    if (rank(numbers, ranks) != sum_if_distinct) {
        replace_doubles(numbers, ranks, n - width);
        leave_out_beyond(numbers, width);
        (void)rank(numbers, ranks);
    }
    for (uint32_t i = 0; i < WEIR__DRAWS; i++)
        taken[ranks[i]] = numbers[i];
}
