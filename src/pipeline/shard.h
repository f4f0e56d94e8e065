/* Shards: which item is a worker's i-th, and of which epoch. Pure arithmetic, nothing else.
 *
 * A pass is one time through the source; the first begins at start_position, every other at 0. The items of
 * a pass are dealt to the workers by the shard mode, and a worker's items are those of its shards, pass
 * after pass: so an epoch ends for a worker with its shard. With n items and N workers a shard has n / N
 * items, and without drop_remainder the first n % N workers have one more. */
#ifndef WEIR_PIPELINE_SHARD_H
#define WEIR_PIPELINE_SHARD_H

#include "weir/prefetch.h"

typedef struct weir_pipeline__shards {
    uint64_t length;
    uint64_t start_position; /* at most length */
    uint64_t start_epoch;
    uint64_t passes; /* so many that no epoch passes 2^64-1 */
    uint32_t workers;
    weir_shard_mode mode;
    bool drop_remainder;
} weir_pipeline__shards;

/* The number of passes: `epochs`, or if that is 0 as many as epochs can be counted. */
uint64_t weir_pipeline__passes_of(uint64_t epochs, uint64_t start_epoch);

/* How many items there are in a pass, and how many of them are a worker's. */
uint64_t weir_pipeline__pass_length(const weir_pipeline__shards *shards, bool is_first);
uint64_t weir_pipeline__shard_count(const weir_pipeline__shards *shards, uint32_t worker, bool is_first);

/* How many items a worker has in all passes; 2^64-1 if there are as many or more. */
uint64_t weir_pipeline__shard_total(const weir_pipeline__shards *shards, uint32_t worker);

/* A walk through a worker's items. */
typedef struct weir_pipeline__cursor {
    uint64_t epoch;
    uint64_t position;
    uint64_t place; /* of the item in its shard */
    uint64_t count; /* of the items in this pass's shard */
    uint64_t stride;
    uint64_t next_count; /* the same of every later pass */
    uint64_t next_position;
} weir_pipeline__cursor;

/* The cursor of the worker's item `index`, which is below its total. */
weir_pipeline__cursor weir_pipeline__cursor_at(const weir_pipeline__shards *shards, uint32_t worker,
                                               uint64_t index);

/* On to the worker's next item, if there is one; beyond the last the cursor is not to be read. */
static inline void weir_pipeline__cursor_advance(weir_pipeline__cursor *cursor) {
    cursor->place++;
    cursor->position += cursor->stride;
    if (cursor->place == cursor->count) {
        cursor->epoch++;
        cursor->place = 0;
        cursor->count = cursor->next_count;
        cursor->position = cursor->next_position;
    }
}

/* Whether round-robin over the shards is the source's own order, pass after pass, whatever the number of
 * workers: then `consumed` items say it all. */
bool weir_pipeline__order_is_sequential(const weir_pipeline__shards *shards);

#endif
