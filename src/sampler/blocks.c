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

/* A rank's positions of an epoch: its share of each batch is a tooth. Teeth are counted from the first batch
 * of the round that begins at `origin`, which lies before the epoch if a streamed batch began in the one
 * before. */
typedef struct comb {
    const weir_sampler__turns *turns;
    __int128 origin;
    uint32_t world_size;
    uint32_t rank;
} comb;

typedef struct tooth {
    uint64_t round;
    uint32_t turn;
} tooth;

static uint64_t width_of(const comb *c, tooth t) {
    return weir_sampler__turn_size(c->turns, t.turn) / c->world_size;
}

static __int128 start_of(const comb *c, tooth t) {
    return c->origin + (__int128)t.round * weir_sampler__round_size(c->turns) + c->turns->starts[t.turn] +
           (__int128)c->rank * width_of(c, t);
}

static __int128 end_of(const comb *c, tooth t) {
    return start_of(c, t) + width_of(c, t);
}

static tooth next_of(const comb *c, tooth t) {
    return t.turn + 1 < c->turns->count ? (tooth){t.round, t.turn + 1} : (tooth){t.round + 1, 0};
}

/* The first tooth of the round that a position lies in; of the first round, if it lies before all. */
static tooth round_of(const comb *c, uint64_t position) {
    __int128 rounds = (position - c->origin) / weir_sampler__round_size(c->turns);
    return (tooth){position < c->origin ? 0 : (uint64_t)rounds, 0};
}

/* The blocks that lie wholly between a tooth and the next, summed over `count` teeth a round apart. There are
 * none if a gap is shorter than a block. */
static uint64_t count_skipped(const comb *c, tooth t, uint64_t count, __int128 shift, uint64_t block_size) {
    __int128 end = end_of(c, t), next = start_of(c, next_of(c, t));
    if (next - end < block_size)
        return 0;
    uint64_t round = weir_sampler__round_size(c->turns);
    return (uint64_t)(floor_sum(count, block_size, round, (uint64_t)(next + shift)) -
                      floor_sum(count, block_size, round, (uint64_t)(end - 1 + shift)) - count);
}

/* The blocks that the comb touches in [from, to), where position p lies at place p + shift of the order. Sets
 * the first and the last one. */
static uint64_t count_touched(const comb *c, uint64_t from, uint64_t to, __int128 shift, uint64_t block_size,
                              uint64_t *first_block, uint64_t *last_block) {
    if (from >= to)
        return 0;
    tooth first = round_of(c, from), beyond = round_of(c, to);
    while (end_of(c, first) <= from)
        first = next_of(c, first);
    while (start_of(c, beyond) < to)
        beyond = next_of(c, beyond);
    __int128 teeth = ((__int128)beyond.round - first.round) * c->turns->count + beyond.turn - first.turn;
    if (teeth <= 0)
        return 0;
    tooth last = beyond.turn > 0 ? (tooth){beyond.round, beyond.turn - 1}
                                 : (tooth){beyond.round - 1, c->turns->count - 1};
    __int128 start = start_of(c, first), end = end_of(c, last);
    start = start < from ? from : start;
    end = end > to ? to : end;
    *first_block = (uint64_t)(start + shift) / block_size;
    *last_block = (uint64_t)(end - 1 + shift) / block_size;
    uint64_t skipped = 0, turns = c->turns->count, gaps = (uint64_t)(teeth - 1);
    tooth t = first;
    for (uint32_t i = 0; i < turns && i < gaps; i++, t = next_of(c, t))
        skipped += count_skipped(c, t, (gaps - i - 1) / turns + 1, shift, block_size);
    return *last_block - *first_block + 1 - skipped;
}

uint64_t weir_sampler__epoch_blocks(const weir_sampler *s, weir_cursor cursor, uint32_t turn) {
    bool is_stream = weir_sampler__is_stream(s);
    uint64_t batch = weir_sampler__turn_size(&s->turns, turn), round = weir_sampler__round_size(&s->turns);
    uint64_t limit = is_stream ? s->cardinality : s->epoch_limit;
    bool is_last = cursor.global_index >= limit || batch >= limit - cursor.global_index;
    uint64_t end = is_last ? limit : cursor.global_index + batch;
    uint64_t rotation = weir_sampler__rotation(s, cursor.epoch);
    uint64_t cut = s->cardinality - rotation; /* positions from here on lie at the order's beginning */
    __int128 round_start = (__int128)cursor.global_index - s->turns.starts[turn];
    __int128 origin = (round_start % round + round) % round;
    comb c = {.turns = &s->turns,
              .origin = is_stream ? origin - round : origin,
              .world_size = s->world_size,
              .rank = s->rank};
    uint64_t early_first = 0, early_last = 0, late_first = 0, late_last = 0;
    uint64_t early = count_touched(&c, 0, end < cut ? end : cut, rotation, s->data.sampler_block_size,
                                   &early_first, &early_last);
    uint64_t late = count_touched(&c, cut, end, (__int128)rotation - s->cardinality,
                                  s->data.sampler_block_size, &late_first, &late_last);
    bool is_met_again = early > 0 && late > 0 && late_last == early_first;
    return early + late - is_met_again;
}
