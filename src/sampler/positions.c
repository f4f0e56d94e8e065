/* Positions to indices: the two epochs that are kept, rotation, and runs through blocks. While one epoch is
 * used, the next one's block order is made in instalments, so that an epoch begins at no cost. */
#include "sampler/sampler.h"

#include "base/philox.h"
#include "weir_tool/sampler_tools.h"

static uint64_t rotation_under(const weir_sampler *s, weir_seed seed) {
    return s->data.rotate ? weir__scale(weir__philox_block(seed, WEIR_DOMAIN_ROTATION, 0), s->cardinality)
                          : 0;
}

static void set_epoch(weir_sampler *s, weir_sampler__epoch *state, uint64_t epoch) {
    uint8_t seed[16];
    weir_sampler__epoch_seed(s, epoch, seed);
    state->is_set = true;
    state->epoch = epoch;
    state->seed = weir_seed_load(seed);
    state->rotation = rotation_under(s, state->seed);
    weir_sampler__block_order_restart(&state->order, state->seed);
}

/* The epoch's state with its whole order. Moving on to the epoch ahead, and back to the one just left,
 * costs nothing. */
__attribute__((noinline)) static const weir_sampler__epoch *change_epoch(weir_sampler *s, uint64_t epoch) {
    if (s->ahead.is_set && s->ahead.epoch == epoch) {
        weir_sampler__epoch left = s->current;
        s->current = s->ahead;
        s->ahead = left;
    } else {
        set_epoch(s, &s->current, epoch);
    }
    weir_sampler__block_order_advance(&s->current.order, s->current.seed, UINT64_MAX);
    assert((!s->current.order.entries || s->current.order.shuffled == s->current.order.count) &&
           "an epoch is used before its order is whole");
    return &s->current;
}

static inline const weir_sampler__epoch *use_epoch(weir_sampler *s, uint64_t epoch) {
    return s->current.is_set && s->current.epoch == epoch ? &s->current : change_epoch(s, epoch);
}

uint64_t weir_sampler__rotation(const weir_sampler *s, uint64_t epoch) {
    uint8_t seed[16];
    if (!s->data.rotate)
        return 0;
    if (s->current.is_set && s->current.epoch == epoch)
        return s->current.rotation;
    if (s->ahead.is_set && s->ahead.epoch == epoch)
        return s->ahead.rotation;
    weir_sampler__epoch_seed(s, epoch, seed);
    return rotation_under(s, weir_seed_load(seed));
}

void weir_sampler__prepare_ahead(weir_sampler *s) {
    uint64_t next = s->current.epoch + 1;
    if (!s->current.is_set || next == 0 || s->data.block_order == WEIR_BLOCKS_STATELESS_V1)
        return;
    if (!s->ahead.is_set || s->ahead.epoch != next)
        set_epoch(s, &s->ahead, next);
    weir_sampler__block_order_advance(&s->ahead.order, s->ahead.seed, s->instalment);
}

typedef struct place {
    const weir_sampler__block_shape *shape;
    uint64_t block_id;
    uint64_t start; /* of the block */
    uint64_t local;
} place;

/* Where a virtual position (after rotation) lies. The short tail block stays last. */
static place locate(const weir_sampler *s, const weir_sampler__epoch *epoch, uint64_t position) {
    uint64_t block_size = s->data.sampler_block_size;
    uint64_t slot = weir_sampler__divide(position, &s->by_block_size);
    bool is_tail = slot == s->full_blocks;
    uint64_t block_id = is_tail ? slot : weir_sampler__block_order_at(&epoch->order, slot);
    return (place){
        .shape = is_tail ? &s->tail_shape : &s->full_shape,
        .block_id = block_id,
        .start = block_id * block_size,
        .local = position - slot * block_size,
    };
}

/* Consecutive virtual positions that do not pass the end of the epoch. */
static void fill_unrotated(const weir_sampler *s, const weir_sampler__epoch *epoch, uint64_t position,
                           uint64_t count, uint64_t *out) {
    while (count > 0) {
        place p = locate(s, epoch, position);
        assert(p.local < p.shape->m && "a position after the last block");
        uint64_t rest = p.shape->m - p.local;
        uint64_t run = rest < count ? rest : count;
        weir_sampler__block_fill(p.shape, s->data.intra_block, epoch->seed, p.block_id, p.start, p.local,
                                 (size_t)run, out);
        position += run;
        count -= run;
        out += run;
    }
}

void weir_sampler__fill(weir_sampler *s, uint64_t epoch_number, uint64_t position, uint64_t count,
                        uint64_t *out) {
    if (count == 0)
        return;
    if (s->population) {
        weir_sampler__draw(s, epoch_number, position, count, out);
        return;
    }
    const weir_sampler__epoch *epoch = use_epoch(s, epoch_number);
    uint64_t from = weir_sampler__rotate(s, epoch->rotation, position);
    uint64_t before_end = s->cardinality - from;
    uint64_t run = before_end < count ? before_end : count;
    fill_unrotated(s, epoch, from, run, out);
    fill_unrotated(s, epoch, 0, count - run, out + run);
}

void weir_sampler__fill_pass(const weir_sampler *s, uint64_t position, uint64_t count, uint64_t *out) {
    position %= s->cardinality;
    while (count > 0) {
        uint64_t rest = s->cardinality - position;
        uint64_t run = rest < count ? rest : count;
        if (s->stage == WEIR_STAGE_EVAL_SEEDED)
            weir_sampler__block_fill(&s->full_shape, WEIR_INTRA_FEISTEL_V1, s->current.seed, 0, 0, position,
                                     (size_t)run, out);
        else
            for (uint64_t i = 0; i < run; i++)
                out[i] = position + i;
        out += run;
        count -= run;
        position = 0;
    }
}

/* Stream mode: positions beyond the epoch go on in the next ones. */
void weir_sampler__fill_stream(weir_sampler *s, weir_cursor from, uint64_t count, uint64_t *out) {
    uint64_t epoch = from.epoch + from.global_index / s->cardinality;
    uint64_t position = from.global_index % s->cardinality;
    while (count > 0) {
        uint64_t rest = s->cardinality - position;
        uint64_t run = rest < count ? rest : count;
        weir_sampler__fill(s, epoch, position, run, out);
        out += run;
        count -= run;
        position = 0;
        epoch++;
    }
}

weir_status weir_sampler_range(weir_sampler *s, uint64_t epoch, uint64_t position, uint64_t count,
                               uint64_t *out, weir_error *error) {
    if (position >= s->cardinality || count > s->cardinality - position)
        return weir_sampler__fail_at(s, WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY,
                                     (weir_cursor){epoch, position},
                                     "and the positions behind it do not lie inside the epoch", error);
    if (count > 0 && !weir_sampler__can_draw(s, epoch, (unsigned __int128)position + count - 1))
        return weir_sampler__fail_at(s, WEIR_COUNTER_OVERFLOW, (weir_cursor){epoch, position},
                                     "lies beyond period 2^64-1 of the classes; start from an earlier epoch",
                                     error);
    if (s->stage != WEIR_STAGE_TRAIN)
        weir_sampler__fill_pass(s, position, count, out);
    else
        weir_sampler__fill(s, epoch, position, count, out);
    return WEIR_OK;
}

weir_status weir_sampler_index_at(weir_sampler *s, uint64_t epoch, uint64_t position, uint64_t *index,
                                  weir_error *error) {
    if (position >= s->cardinality)
        return weir_sampler__fail_at(s, WEIR_GLOBAL_POSITION_EXCEEDS_CARDINALITY,
                                     (weir_cursor){epoch, position}, "lies beyond the dataset", error);
    if (__builtin_expect(!s->is_shuffled, false))
        return weir_sampler_range(s, epoch, position, 1, index, error);
    const weir_sampler__epoch *state = use_epoch(s, epoch);
    place p = locate(s, state, weir_sampler__rotate(s, state->rotation, position));
    *index =
        weir_sampler__block_index(p.shape, s->data.intra_block, state->seed, p.block_id, p.start, p.local);
    return WEIR_OK;
}

weir_status weir_intra_block_map(weir_intra_block kind, weir_seed seed, uint64_t block_id,
                                 uint64_t block_size, uint64_t cardinality, uint64_t local_position,
                                 uint64_t *index, weir_error *error) {
    static const char map_operator[] = "UML_OS.Data.SeededIntraBlockMap_v1";
    uint64_t start;
    bool is_inside =
        block_size > 0 && !__builtin_mul_overflow(block_id, block_size, &start) && start < cardinality;
    uint64_t rest = is_inside ? cardinality - start : 0;
    uint64_t m = rest < block_size ? rest : block_size;
    if (!is_inside || local_position >= m)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, map_operator,
                          "position %llu of block %llu (block size %llu) does not exist in a dataset of %llu",
                          (unsigned long long)local_position, (unsigned long long)block_id,
                          (unsigned long long)block_size, (unsigned long long)cardinality);
    weir_sampler__block_shape shape;
    weir_sampler__block_shape_init(&shape, m);
    *index = weir_sampler__block_index(&shape, kind, seed, block_id, start, local_position);
    return WEIR_OK;
}
