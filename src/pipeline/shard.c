/* See shard.h. No sum here overflows: a position is below the length, and totals saturate. */
#include "pipeline/shard.h"

uint64_t weir_pipeline__passes_of(uint64_t epochs, uint64_t start_epoch) {
    if (epochs > 0)
        return epochs;
    return start_epoch == 0 ? UINT64_MAX : UINT64_MAX - start_epoch + 1;
}

uint64_t weir_pipeline__pass_length(const weir_pipeline__shards *shards, bool is_first) {
    return is_first ? shards->length - shards->start_position : shards->length;
}

uint64_t weir_pipeline__shard_count(const weir_pipeline__shards *shards, uint32_t worker, bool is_first) {
    uint64_t length = weir_pipeline__pass_length(shards, is_first);
    uint64_t count = length / shards->workers;
    return count + (!shards->drop_remainder && worker < length % shards->workers);
}

uint64_t weir_pipeline__shard_total(const weir_pipeline__shards *shards, uint32_t worker) {
    uint64_t first = weir_pipeline__shard_count(shards, worker, true);
    uint64_t later = weir_pipeline__shard_count(shards, worker, false);
    uint64_t total;
    if (__builtin_mul_overflow(shards->passes - 1, later, &total) ||
        __builtin_add_overflow(total, first, &total))
        return UINT64_MAX;
    return total;
}

/* The position of the first item of a worker's shard. */
static uint64_t shard_start(const weir_pipeline__shards *shards, uint32_t worker, bool is_first) {
    uint64_t start = is_first ? shards->start_position : 0;
    uint64_t length = weir_pipeline__pass_length(shards, is_first);
    uint64_t remainder = shards->drop_remainder ? 0 : length % shards->workers;
    if (shards->mode == WEIR_SHARD_INTERLEAVED)
        return start + worker;
    return start + length / shards->workers * worker + (worker < remainder ? worker : remainder);
}

weir_pipeline__cursor weir_pipeline__cursor_at(const weir_pipeline__shards *shards, uint32_t worker,
                                               uint64_t index) {
    uint64_t first_count = weir_pipeline__shard_count(shards, worker, true);
    weir_pipeline__cursor cursor = {
        .epoch = shards->start_epoch,
        .position = shard_start(shards, worker, true),
        .place = index,
        .count = first_count,
        .stride = shards->mode == WEIR_SHARD_INTERLEAVED ? shards->workers : 1,
        .next_count = weir_pipeline__shard_count(shards, worker, false),
        .next_position = shard_start(shards, worker, false),
    };
    if (index >= first_count) {
        cursor.epoch += 1 + (index - first_count) / cursor.next_count;
        cursor.place = (index - first_count) % cursor.next_count;
        cursor.count = cursor.next_count;
        cursor.position = cursor.next_position;
    }
    cursor.position += cursor.place * cursor.stride;
    return cursor;
}

bool weir_pipeline__order_is_sequential(const weir_pipeline__shards *shards) {
    uint64_t first = weir_pipeline__pass_length(shards, true);
    if (shards->mode != WEIR_SHARD_INTERLEAVED)
        return false;
    if (shards->length == WEIR_ENDLESS || (shards->passes == 1 && !shards->drop_remainder))
        return true;
    return first % shards->workers == 0 && (shards->passes == 1 || shards->length % shards->workers == 0);
}
