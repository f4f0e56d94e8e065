/* See known.h. */
#include "batch/known.h"

#include <string.h>

enum { FIRST_BITS = 12, LEAST_BITS = 6, MOST_BITS = 31, GENERATION_BITS = 14 };

_Static_assert(WEIR__GENERATION_MAX == (1 << GENERATION_BITS) - 1,
               "generations from 1 to the last of these bits");

static size_t most_bytes(const weir__known_rows *known) {
    return sizeof *known->entries << known->bits_max;
}

bool weir__known_open(weir__known_rows *known, const weir_env *env, uint64_t rows) {
    *known = (weir__known_rows){.bits_max = LEAST_BITS};
    if (rows > WEIR__KNOWN_ROWS_MAX)
        return false;
    while (known->bits_max < MOST_BITS && (uint64_t)1 << known->bits_max < 2 * rows)
        known->bits_max++;
    /* Mapped, so that what no sequence ever needs is never touched, and opening a builder is quick. */
    known->memory = env->map(env->context, -1, 2 * most_bytes(known));
    if (!known->memory)
        return false;
    known->entries = known->memory;
    known->spare = known->memory + ((size_t)1 << known->bits_max);
    return true;
}

void weir__known_close(weir__known_rows *known, const weir_env *env) {
    if (known->memory)
        env->unmap(env->context, known->memory, 2 * most_bytes(known));
    *known = (weir__known_rows){0};
}

/* Entries of another generation do not count. There are 2^14 of them, and then the first comes again: by then
 * every entry of its last turn must be gone. So each generation clears its own share of the memory before it
 * begins: what a place holds was written since its share was cleared, in generations that come later in the
 * turn than the one under way, or earlier in this turn; never in the one under way. Memory that was never
 * used stays untouched. */
static uint64_t share_of(const weir__known_rows *known) {
    uint64_t share = ((uint64_t)2 << known->bits_max) >> GENERATION_BITS;
    return share ? share : 1;
}

/* Clears places [begin, end) of both tables as one, as far as they were ever used and lie in `table`. */
static void clear_places(const weir__known_rows *known, const uint64_t *table, uint64_t begin, uint64_t end) {
    uint64_t first = (uint64_t)(table - known->memory);
    uint64_t used_end = first + ((uint64_t)1 << known->bits_used);
    begin = begin > first ? begin : first;
    end = end < used_end ? end : used_end;
    if (begin < end)
        memset(known->memory + begin, 0, (end - begin) * sizeof *known->memory);
}

static void clear_share(const weir__known_rows *known, const uint64_t *table) {
    uint64_t share = share_of(known);
    bool is_last = known->generation == WEIR__GENERATION_MAX;
    uint64_t begin = (known->generation - 1) * share;
    clear_places(known, table, begin, is_last ? UINT64_MAX : begin + share);
}

static void begin_generation(weir__known_rows *known) {
    known->generation = known->generation % WEIR__GENERATION_MAX + 1;
    known->count = 0;
    known->bits_used = known->bits > known->bits_used ? known->bits : known->bits_used;
}

void weir__known_begin(weir__known_rows *known) {
    known->bits = known->bits_max < FIRST_BITS ? known->bits_max : FIRST_BITS;
    begin_generation(known);
    clear_share(known, known->entries);
    clear_share(known, known->spare);
}

void weir__known_grow(weir__known_rows *known) {
    enum { KEPT_BITS = (1 << WEIR__GENERATION_SHIFT) - 1 };
    uint64_t *old = known->entries;
    uint32_t old_places = (uint32_t)1 << known->bits;
    uint64_t old_generation = known->generation;
    known->entries = known->spare;
    known->spare = old;
    known->bits++;
    begin_generation(known);
    clear_share(known, known->entries);
    for (uint32_t i = 0; i < old_places; i++) {
        if ((old[i] >> WEIR__GENERATION_SHIFT & WEIR__GENERATION_MAX) != old_generation)
            continue;
        uint64_t *entry = weir__know(known, WEIR__LOW(uint32_t, old[i] >> WEIR__ROW_SHIFT));
        *entry = (*entry & ~(uint64_t)KEPT_BITS) | (old[i] & KEPT_BITS);
    }
    clear_share(known, old); /* which was in use until now */
}
