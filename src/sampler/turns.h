/* The sizes that the training batches of a dataset have in turn (docs/spec/02c-lengths.md): one, or one per
 * length of batch.sequence_length, so that every batch has the same number of cells. Pure arithmetic: where a
 * batch begins follows from its number, and its turn from where it begins. */
#ifndef WEIR_SAMPLER_TURNS_H
#define WEIR_SAMPLER_TURNS_H

#include "base/internal.h"
#include "weir/manifest.h"

typedef struct weir_sampler__turns {
    uint32_t count; /* at least 1 */
    uint32_t lengths[WEIR_CHOICES_MAX];
    uint64_t starts[WEIR_CHOICES_MAX + 1]; /* of each turn in a round; the last one is the round's size */
} weir_sampler__turns;

/* The turns of a batch size and lengths, the longest of which has that size. False if a size is not whole, or
 * a round takes more than 2^64-1 positions. */
bool weir_sampler__turns_make(weir_sampler__turns *turns, uint64_t batch_size, const weir_choices *lengths);

static inline uint64_t weir_sampler__turn_size(const weir_sampler__turns *turns, uint32_t turn) {
    return turns->starts[turn + 1] - turns->starts[turn];
}
static inline uint64_t weir_sampler__round_size(const weir_sampler__turns *turns) {
    return turns->starts[turns->count];
}

uint64_t weir_sampler__largest_turn(const weir_sampler__turns *turns);

/* The turn that begins `place` positions into a round; `count` if none does. */
uint32_t weir_sampler__turn_at(const weir_sampler__turns *turns, uint64_t place);

/* Where batch `number` begins, counted from batch 0. */
unsigned __int128 weir_sampler__turns_start(const weir_sampler__turns *turns, uint64_t number);

/* Of an epoch of n samples that does not run into the next: its batches, and the positions that they use. */
uint64_t weir_sampler__turns_in_epoch(const weir_sampler__turns *turns, uint64_t n, bool drops_last);
uint64_t weir_sampler__turns_limit(const weir_sampler__turns *turns, uint64_t n, bool drops_last);

#endif
