/* Durations as people write them: "30d", "12h". */
#ifndef WEIR_BASE_DURATION_H
#define WEIR_BASE_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Digits and a unit: us, ms, s, m (minutes), h, d (24 hours) or w (7 days). False if it is not such a text,
 * or longer than 2^63 - 2 microseconds. */
bool weir__duration_parse(const char *text, size_t size, int64_t *micros);

#endif
