/* How many blocks the samples of a step came from, and how many all of the epoch's steps up to it touched.
 *
 * Both are functions of positions alone. After rotation, consecutive positions run through consecutive places
 * of the block order, from the rotation to the end of the dataset and on from its beginning: so a block is
 * met again only if the rotation cuts it in two. */
#include "sampler/sampler.h"

/* ---- One step -------------------------------------------------------------------------------- */

/* Distinct blocks of `count` consecutive positions of one epoch. After rotation they may run past the end and
 * come back to the block that they began in, which then counts once. */
static uint64_t count_run(const weir_sampler *s, uint64_t epoch, uint64_t position, uint64_t count) {
    uint64_t block_size = s->data.sampler_block_size;
    if (count == 0)
        return 0;
    uint64_t first = weir_sampler__rotate(s, weir_sampler__rotation(s, epoch), position);
    uint64_t before_end = s->cardinality - first;
    if (count <= before_end)
        return (first + (count - 1)) / block_size - first / block_size + 1;
    uint64_t last_block = (s->cardinality - 1) / block_size;
    uint64_t wrapped_block = (count - before_end - 1) / block_size;
    uint64_t blocks = (last_block - first / block_size + 1) + (wrapped_block + 1);
    return wrapped_block >= first / block_size ? blocks - 1 : blocks;
}

uint64_t weir_sampler__step_blocks(const weir_sampler *s, weir_cursor from, uint64_t count) {
    uint64_t epoch = from.epoch + from.global_index / s->cardinality;
    uint64_t position = from.global_index % s->cardinality;
    uint64_t rest = s->cardinality - position;
    if (count <= rest)
        return count_run(s, epoch, position, count);
    uint64_t blocks_of_epoch = s->full_blocks + (s->tail_shape.m != 0);
    uint64_t whole_epochs = (count - rest) / s->cardinality;
    uint64_t last = (count - rest) % s->cardinality;
    return count_run(s, epoch, position, rest) + whole_epochs * blocks_of_epoch +
           count_run(s, epoch + 1 + whole_epochs, 0, last);
}

/* ---- The epoch so far ------------------------------------------------------------------------ */

/* Sum of floor((a * i + b) / m) over i in [0, n), modulo 2^128, in O(log m). */
static unsigned __int128 floor_sum(uint64_t n, uint64_t m, uint64_t a, uint64_t b) {
    unsigned __int128 sum = 0;
    while (n > 0) {
        sum += (unsigned __int128)n * (n - 1) / 2 * (a / m) + (unsigned __int128)n * (b / m);
        unsigned __int128 top = (unsigned __int128)(a % m) * n + b % m;
        uint64_t step = a % m;
        n = (uint64_t)(top / m);
        b = (uint64_t)(top % m);
        a = m;
        m = step ? step : 1;
    }
    return sum;
}

/* A rank's positions of an epoch: `width` of every `stride`, the first of them at `first`, which lies before
 * the epoch if a streamed batch began in the one before. */
typedef struct comb {
    __int128 first;
    uint64_t stride;
    uint64_t width;
} comb;

/* The blocks that the comb touches in [from, to), where position p lies at place p + shift of the order. Sets
 * the first and the last one. Blocks between two teeth are left out only if a gap is as long as a block. */
static uint64_t count_touched(const comb *c, uint64_t from, uint64_t to, __int128 shift, uint64_t block_size,
                              uint64_t *first_block, uint64_t *last_block) {
    __int128 stride = c->stride, width = c->width;
    __int128 first_tooth = from < c->first + width ? 0 : (from - c->first - width) / stride + 1;
    __int128 last_tooth = to <= c->first ? -1 : (to - 1 - c->first) / stride;
    if (from >= to || first_tooth > last_tooth)
        return 0;
    __int128 start = c->first + first_tooth * stride, end = c->first + last_tooth * stride + width;
    start = start < from ? from : start;
    end = end > to ? to : end;
    *first_block = (uint64_t)(start + shift) / block_size;
    *last_block = (uint64_t)(end - 1 + shift) / block_size;
    uint64_t skipped = 0, gap = c->stride - c->width;
    if (gap >= block_size) {
        uint64_t teeth = (uint64_t)(last_tooth - first_tooth);
        uint64_t second = (uint64_t)(c->first + (first_tooth + 1) * stride + shift);
        uint64_t before = teeth ? second - gap - 1 : 0; /* the last position of the first tooth */
        skipped = (uint64_t)(floor_sum(teeth, block_size, c->stride, second) -
                             floor_sum(teeth, block_size, c->stride, before) - teeth);
    }
    return *last_block - *first_block + 1 - skipped;
}

uint64_t weir_sampler__epoch_blocks(const weir_sampler *s, weir_cursor cursor) {
    bool is_stream = weir_sampler__is_stream(s);
    uint64_t batch = s->global_batch_size, limit = is_stream ? s->cardinality : s->epoch_limit;
    bool is_last = cursor.global_index >= limit || batch >= limit - cursor.global_index;
    uint64_t end = is_last ? limit : cursor.global_index + batch;
    uint64_t rotation = weir_sampler__rotation(s, cursor.epoch);
    uint64_t cut = s->cardinality - rotation; /* positions from here on lie at the order's beginning */
    comb c = {.first = (__int128)(cursor.global_index % batch) - (is_stream ? (__int128)batch : 0) +
                       (__int128)s->rank * s->micro_batch_size,
              .stride = batch,
              .width = s->micro_batch_size};
    uint64_t early_first = 0, early_last = 0, late_first = 0, late_last = 0;
    uint64_t early = count_touched(&c, 0, end < cut ? end : cut, rotation, s->data.sampler_block_size,
                                   &early_first, &early_last);
    uint64_t late = count_touched(&c, cut, end, (__int128)rotation - s->cardinality,
                                  s->data.sampler_block_size, &late_first, &late_last);
    bool is_met_again = early > 0 && late > 0 && late_last == early_first;
    return early + late - is_met_again;
}
