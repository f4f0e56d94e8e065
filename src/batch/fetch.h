/* Asking for memory some time before it is read. A compiler may take a function that does
 * nothing else for one without effect and drop its calls (GCC 12 does): the empty statement keeps them. */
#ifndef WEIR_BATCH_FETCH_H
#define WEIR_BATCH_FETCH_H

static inline void weir_batch__fetch(const void *address) {
    __builtin_prefetch(address);
    __asm__ volatile("");
}

#endif
