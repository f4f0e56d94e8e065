/* See known.h. */
#include "batch/known.h"

#include <string.h>

enum { FIRST_BITS = 12, LEAST_BITS = 6, MOST_BITS = 31 };

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

/* Entries of another generation do not count. */
static void begin_generation(weir__known_rows *known) {
    known->generation++;
    known->count = 0;
}

void weir__known_begin(weir__known_rows *known) {
    /* So that growing, at most once a bit, never comes to the last generation. */
    if (known->generation >= WEIR__GENERATION_MAX - MOST_BITS) {
        memset(known->entries, 0, most_bytes(known));
        memset(known->spare, 0, most_bytes(known));
        known->generation = 0;
    }
    known->bits = known->bits_max < FIRST_BITS ? known->bits_max : FIRST_BITS;
    begin_generation(known);
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
    for (uint32_t i = 0; i < old_places; i++) {
        if ((old[i] >> WEIR__GENERATION_SHIFT & WEIR__GENERATION_MAX) != old_generation)
            continue;
        uint64_t *entry = weir__know(known, WEIR__LOW(uint32_t, old[i] >> WEIR__ROW_SHIFT));
        *entry = (*entry & ~(uint64_t)KEPT_BITS) | (old[i] & KEPT_BITS);
    }
}
