/* See timestamps.h. The cells of a sequence that have a timestamp lie far apart in memory that was last
 * touched many batches ago: they are asked for when they are noted and written when all others are done. */
#include "batch/timestamps.h"

#include <string.h>

#include "base/bytes.h"
#include "store/calendar.h"

enum { SECONDS_PER_HOUR = 3600 };

static void store_floats(uint8_t *out, const float *values, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        weir__store32(out + 4 * (size_t)i, bits);
    }
}

weir__timestamp_parts *weir__timestamp_parts_open(const weir_env *env) {
    weir__timestamp_parts *parts = weir__allocate(env, 1, sizeof *parts);
    float clock[WEIR__CLOCK_FLOATS]; /* a pair each of second, minute, hour */
    if (!parts)
        return NULL;
    for (int i = 0; i < 60; i++) {
        weir__clock_floats(i, clock);
        store_floats(parts->sixtieths[i], clock, 2);
    }
    for (int i = 0; i < 24; i++) {
        weir__clock_floats(i * SECONDS_PER_HOUR, clock);
        store_floats(parts->hours[i], clock + 4, 2);
    }
    for (size_t i = 0; i < WEIR__DAYS; i++)
        parts->days[i] = INT64_MIN; /* no day of any timestamp */
    return parts;
}

static const uint8_t *date_of(weir__timestamp_parts *parts, int64_t days) {
    size_t place = (size_t)days % WEIR__DAYS;
    if (parts->days[place] != days) {
        float date[WEIR__DATE_FLOATS];
        weir__date_floats(days, date);
        store_floats(parts->dates[place], date, WEIR__DATE_FLOATS);
        parts->days[place] = days;
    }
    return parts->dates[place];
}

void weir__clear_timestamps(uint8_t *out, const uint16_t *cells, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        memset(out + (size_t)cells[i] * WEIR__TIMESTAMP_BYTES, 0, WEIR__TIMESTAMP_BYTES);
}

static void write_timestamp(uint8_t *out, int64_t micros, weir__timestamp_parts *parts,
                            const weir_statistics *statistics) {
    int second_of_day;
    int64_t days = split_day(micros, &second_of_day);
    uint32_t second = WEIR__NARROW(uint32_t, second_of_day);
    float score = weir__normalise((double)micros, statistics);
    memcpy(out, parts->sixtieths[second % 60], WEIR__PAIR_BYTES);
    memcpy(out + WEIR__PAIR_BYTES, parts->sixtieths[second / 60 % 60], WEIR__PAIR_BYTES);
    memcpy(out + 2 * WEIR__PAIR_BYTES, parts->hours[second / SECONDS_PER_HOUR], WEIR__PAIR_BYTES);
    memcpy(out + 3 * WEIR__PAIR_BYTES, date_of(parts, days), WEIR__DATE_BYTES);
    store_floats(out + 3 * WEIR__PAIR_BYTES + WEIR__DATE_BYTES, &score, 1);
}

void weir__write_timestamps(const weir__timestamps *t, weir__timestamp_parts *parts,
                            const weir_statistics *statistics) {
    for (uint32_t i = 0; i < t->count; i++)
        write_timestamp(t->out + (size_t)t->cells[i] * WEIR__TIMESTAMP_BYTES, t->micros[i], parts,
                        statistics);
}
