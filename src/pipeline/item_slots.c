/* See item_slots.h. What a thread did with a slot before its release happens before what a producer does with
 * it: the push releases, the consumer's exchange acquires, and the ring hands on from there. */
#include <assert.h>

#include "pipeline/item_slots.h"

#define LINK_FREE (UINT32_MAX - 1)
#define LINK_HELD (UINT32_MAX - 2)
#define LINK_MOVE (UINT32_MAX - 3) /* on its way into the list */
#define LIST_END  UINT32_MAX

void weir_pipeline__slots_init(weir_pipeline__slots *slots, _Atomic uint32_t *links, uint32_t slot_count,
                               uint32_t *spares, uint32_t spares_max) {
    slots->links = links;
    slots->spares = spares;
    slots->spare_count = slots->spares_max = spares_max;
    slots->slot_count = slot_count;
    atomic_init(&slots->returned, LIST_END);
    for (uint32_t i = 0; i < slot_count; i++)
        atomic_init(&links[i], LINK_FREE);
    for (uint32_t i = 0; i < spares_max; i++)
        spares[i] = slot_count - 1 - i;
}

bool weir_pipeline__slots_have_spare(weir_pipeline__slots *slots) {
    uint32_t slot = LIST_END;
    if (slots->spare_count == 0) /* all that was released becomes a spare */
        slot = atomic_exchange_explicit(&slots->returned, LIST_END, memory_order_acquire);
    while (slot != LIST_END) {
        uint32_t next = atomic_load_explicit(&slots->links[slot], memory_order_relaxed);
        atomic_store_explicit(&slots->links[slot], LINK_FREE, memory_order_relaxed);
        assert(slots->spare_count < slots->spares_max && "a slot came back twice");
        slots->spares[slots->spare_count++] = slot;
        slot = next;
    }
    return slots->spare_count > 0;
}

uint32_t weir_pipeline__slots_next_spare(const weir_pipeline__slots *slots) {
    assert(slots->spare_count > 0 && "no spare slot");
    return slots->spares[slots->spare_count - 1];
}

void weir_pipeline__slots_hold(weir_pipeline__slots *slots, uint32_t held) {
    assert(slots->spare_count > 0 && "no spare slot");
    slots->spare_count--;
    atomic_store_explicit(&slots->links[held], LINK_HELD, memory_order_relaxed);
}

uint32_t weir_pipeline__slots_held(const weir_pipeline__slots *slots) {
    uint32_t free_count = slots->spare_count;
    uint32_t slot = atomic_load_explicit(&slots->returned, memory_order_acquire);
    for (; slot != LIST_END; slot = atomic_load_explicit(&slots->links[slot], memory_order_relaxed))
        free_count++;
    return slots->spares_max - free_count;
}

void weir_pipeline__slots_release(weir_pipeline__slots *slots, uint32_t slot) {
    uint32_t link = LINK_HELD;
    if (slot >= slots->slot_count ||
        !atomic_compare_exchange_strong_explicit(&slots->links[slot], &link, LINK_MOVE, memory_order_relaxed,
                                                 memory_order_relaxed))
        return;
    uint32_t first = atomic_load_explicit(&slots->returned, memory_order_relaxed);
    do
        atomic_store_explicit(&slots->links[slot], first, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&slots->returned, &first, slot, memory_order_release,
                                                  memory_order_relaxed));
}
