/* See timestamps.h. The cells of a sequence that have a timestamp lie far apart in memory that was last
 * touched many batches ago: they are asked for when they are noted and written when all others are done. */
#include "batch/timestamps.h"

#include <string.h>

#include "base/bytes.h"

weir__date_cache *weir__date_cache_open(const weir_env *env) {
    weir__date_cache *cache = weir__allocate(env, 1, sizeof *cache);
    for (size_t i = 0; cache && i < WEIR__DATES; i++)
        cache->days[i] = INT64_MIN; /* no day of any timestamp */
    return cache;
}

static const float *date_floats(weir__date_cache *cache, int64_t days) {
    size_t place = (size_t)days % WEIR__DATES;
    if (cache->days[place] != days) {
        weir__date_floats(days, cache->floats[place]);
        cache->days[place] = days;
    }
    return cache->floats[place];
}

static void store_floats(uint8_t *out, const float *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        weir__store32(out + 4 * (size_t)i, bits);
    }
}

void weir__clear_timestamps(uint8_t *out, const uint16_t *cells, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        memset(out + (size_t)cells[i] * WEIR__TIMESTAMP_BYTES, 0, WEIR__TIMESTAMP_BYTES);
}

void weir__write_timestamps(const weir__timestamps *t, weir__date_cache *dates,
                            const weir_statistics *statistics) {
    for (uint32_t i = 0; i < t->count; i++) {
        uint8_t *out = t->out + (size_t)t->cells[i] * WEIR__TIMESTAMP_BYTES;
        int second_of_day;
        int64_t days = weir__split_day(t->micros[i], &second_of_day);
        float clock[WEIR__CLOCK_FLOATS];
        float score = weir_normalise((double)t->micros[i], statistics);
        weir__clock_floats(second_of_day, clock);
        store_floats(out, clock, WEIR__CLOCK_FLOATS);
        store_floats(out + 4 * WEIR__CLOCK_FLOATS, date_floats(dates, days), WEIR__DATE_FLOATS);
        store_floats(out + 4 * (WEIR__CLOCK_FLOATS + WEIR__DATE_FLOATS), &score, 1);
    }
}
