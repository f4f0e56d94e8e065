/* The slots that are in no ring: spares, which the consumer puts into a ring for each item that it takes,
 * and items that are held.
 *
 * There are as many spares at the start as items may be held at a time, so taking an item moves a spare into
 * the ring, and releasing it makes its slot a spare. Releases come from any thread: they push onto a list
 * (one compare-and-swap) from which the consumer takes everything at once, so no thread ever waits and a
 * number cannot come back while someone looks at it. links[slot] says where a slot is: held, in the list
 * (then it is the next slot there), or neither; releasing what is not held does nothing. */
#ifndef WEIR_PIPELINE_ITEM_SLOTS_H
#define WEIR_PIPELINE_ITEM_SLOTS_H

#include <stdatomic.h>

#include "weir/base.h"

#define WEIR_PIPELINE__SLOTS_MAX (UINT32_MAX - 16)

typedef struct weir_pipeline__slots {
    _Atomic uint32_t *links; /* one per slot */
    uint32_t *spares;        /* a stack of the consumer's, room for `spares_max` */
    uint32_t spare_count;
    uint32_t spares_max;
    uint32_t slot_count;
    _Atomic uint32_t returned; /* the list's first slot */
} weir_pipeline__slots;

/* The last spares_max slots are the spares. */
void weir_pipeline__slots_init(weir_pipeline__slots *slots, _Atomic uint32_t *links, uint32_t slot_count,
                               uint32_t *spares, uint32_t spares_max);

/* The consumer: whether there is a spare, and the one to use, in whose stead `held` is held from now on. */
bool weir_pipeline__slots_have_spare(weir_pipeline__slots *slots);
uint32_t weir_pipeline__slots_next_spare(const weir_pipeline__slots *slots);
void weir_pipeline__slots_hold(weir_pipeline__slots *slots, uint32_t held);

/* How many are held now. The consumer. */
uint32_t weir_pipeline__slots_held(const weir_pipeline__slots *slots);

/* Any thread. */
void weir_pipeline__slots_release(weir_pipeline__slots *slots, uint32_t slot);

#endif
