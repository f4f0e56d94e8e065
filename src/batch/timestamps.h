/* The timestamps of a sequence: 60 bytes of timestamp_values for each cell that has one, zeros for the
 * rest. */
#ifndef WEIR_SRC_BATCH_TIMESTAMPS_H
#define WEIR_SRC_BATCH_TIMESTAMPS_H

#include "base/internal.h"
#include "batch/fetch.h"
#include "store/timestamp.h"

enum { WEIR__TIMESTAMP_BYTES = 4 * WEIR_TIMESTAMP_FLOATS };

/* Parts of timestamps, expanded before, as delivered: of every second (or minute) and hour, and of the days
 * that were seen, which are few in a database. */
enum { WEIR__DAYS = 2048, WEIR__PAIR_BYTES = 8, WEIR__DATE_BYTES = 4 * WEIR__DATE_FLOATS };
typedef struct weir__timestamp_parts {
    uint8_t sixtieths[60][WEIR__PAIR_BYTES];
    uint8_t hours[24][WEIR__PAIR_BYTES];
    int64_t days[WEIR__DAYS];
    uint8_t dates[WEIR__DAYS][WEIR__DATE_BYTES];
} weir__timestamp_parts;

/* NULL where there is no memory. */
weir__timestamp_parts *weir__timestamp_parts_open(const weir_env *env);

/* The cells of one sequence that have a timestamp, and their values. */
typedef struct weir__timestamps {
    uint8_t *out; /* the sequence's stretch of timestamp_values */
    uint16_t *cells;
    int64_t *micros;
    uint32_t count;
} weir__timestamps;

/* Asks for the memory of a cell, to write it later. */
static inline void weir__fetch_timestamp(uint8_t *out, uint32_t cell) {
    weir__fetch_to_write(out + (size_t)cell * WEIR__TIMESTAMP_BYTES);
    weir__fetch_to_write(out + (size_t)cell * WEIR__TIMESTAMP_BYTES + WEIR__TIMESTAMP_BYTES - 1);
}

/* Notes the timestamp of a cell, or, without a branch, that it has none. */
static inline void weir__note_timestamp(weir__timestamps *t, uint32_t cell, int64_t micros, bool is_null) {
    weir__fetch_timestamp(t->out, cell);
    t->cells[t->count] = WEIR__LOW(uint16_t, cell);
    t->micros[t->count] = micros;
    t->count += !is_null;
}

/* Clears the given cells. */
void weir__clear_timestamps(uint8_t *out, const uint16_t *cells, uint32_t count);

/* Writes those that were noted. */
void weir__write_timestamps(const weir__timestamps *timestamps, weir__timestamp_parts *parts,
                            const weir_statistics *statistics);

#endif
