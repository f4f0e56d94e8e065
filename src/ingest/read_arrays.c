/* See read_arrays.h. A column is stored in passes that a compiler makes vectors of: all values, then the
 * nulls over them, then a count of what does not fit. */
#include "ingest/read_arrays.h"

#include <math.h>
#include <string.h>

static bool bit_at(const uint8_t *bits, size_t position) {
    return bits[position / 8] >> (position % 8) & 1;
}

static bool is_null(const weir_ingest__array *array, size_t row) {
    return array->validity && !bit_at(array->validity, array->first + row);
}

/* Where no value is null, which is most often, eight bits are looked at in one go. */
static uint32_t count_nulls(const weir_ingest__array *array, uint32_t count) {
    uint32_t nulls = 0;
    for (uint32_t row = 0; array->validity && row < count;) {
        size_t position = array->first + row;
        if (position % 8 == 0 && count - row >= 8 && array->validity[position / 8] == 0xFF) {
            row += 8;
            continue;
        }
        nulls += is_null(array, row) ? 1 : 0;
        row++;
    }
    return nulls;
}

#define LOAD(type_name, array, row)                                                                          \
    ({                                                                                                       \
        type_name loaded_;                                                                                   \
        memcpy(&loaded_, (array)->values + (row) * sizeof loaded_, sizeof loaded_);                          \
        loaded_;                                                                                             \
    })

static weir_ingest__bytes text_at(const weir_ingest__array *array, size_t row) {
    int64_t begin, end;
    if (array->form == WEIR_INGEST__ARRAY_TEXT32) {
        begin = LOAD(int32_t, array, row);
        end = LOAD(int32_t, array, row + 1);
    } else {
        begin = LOAD(int64_t, array, row);
        end = LOAD(int64_t, array, row + 1);
    }
    return (weir_ingest__bytes){array->bytes + begin, (size_t)(end - begin)};
}

void weir_ingest__array_value(const weir_ingest__array *array, size_t row, weir_ingest__value *out) {
    *out = (weir_ingest__value){.type = WEIR_INGEST__NULL};
    if (is_null(array, row))
        return;
    switch (array->form) {
    case WEIR_INGEST__ARRAY_INT32:
        *out = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = LOAD(int32_t, array, row)};
        break;
    case WEIR_INGEST__ARRAY_INT64:
        *out = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = LOAD(int64_t, array, row)};
        break;
    case WEIR_INGEST__ARRAY_DOUBLE:
        *out = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = LOAD(double, array, row)};
        break;
    case WEIR_INGEST__ARRAY_MICROS:
        *out = (weir_ingest__value){.type = WEIR_INGEST__TIMESTAMP, .integer = LOAD(int64_t, array, row)};
        break;
    case WEIR_INGEST__ARRAY_BITS:
        *out = (weir_ingest__value){.type = WEIR_INGEST__BOOL,
                                    .integer = bit_at((const uint8_t *)array->values, array->first + row)};
        break;
    case WEIR_INGEST__ARRAY_TEXT32:
    case WEIR_INGEST__ARRAY_TEXT64:
        *out = (weir_ingest__value){.type = WEIR_INGEST__TEXT, .text = text_at(array, row)};
        break;
    case WEIR_INGEST__ARRAY_NONE:
        break;
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Writes a value over those that are null. */
#define PUT_NULLS(array, count, nulls, out, value)                                                           \
    for (uint32_t row_ = 0; (nulls) > 0 && row_ < (count); row_++)                                           \
        if (is_null(array, row_))                                                                            \
    (out)[row_] = (value)

static bool store_numbers(const weir_ingest__array *array, uint32_t count, uint32_t nulls, double *out,
                          uint64_t *not_finite) {
    switch (array->form) {
    case WEIR_INGEST__ARRAY_INT32:
        for (uint32_t i = 0; i < count; i++)
            out[i] = (double)LOAD(int32_t, array, i);
        break;
    case WEIR_INGEST__ARRAY_INT64:
    case WEIR_INGEST__ARRAY_MICROS:
        for (uint32_t i = 0; i < count; i++)
            out[i] = (double)LOAD(int64_t, array, i);
        break;
    case WEIR_INGEST__ARRAY_DOUBLE:
        memcpy(out, array->values, count * sizeof *out);
        break;
    default:
        return false;
    }
    PUT_NULLS(array, count, nulls, out, NAN);
    uint32_t bad = 0;
    for (uint32_t i = 0; i < count; i++)
        bad += isfinite(out[i]) ? 0 : 1;
    *not_finite = bad - nulls;
    for (uint32_t i = 0; *not_finite > 0 && i < count; i++)
        out[i] = isfinite(out[i]) ? out[i] : NAN;
    return true;
}

/* False if one of them is an extreme, which is no time. */
static bool store_times(const weir_ingest__array *array, uint32_t count, uint32_t nulls, int64_t *out) {
    if (array->form != WEIR_INGEST__ARRAY_MICROS)
        return false;
    memcpy(out, array->values, count * sizeof *out);
    PUT_NULLS(array, count, nulls, out, WEIR_TIME_ALWAYS);
    uint32_t extremes = 0;
    for (uint32_t i = 0; i < count; i++)
        extremes += out[i] == INT64_MIN || out[i] == INT64_MAX ? 1 : 0;
    return extremes == nulls;
}

static bool store_booleans(const weir_ingest__array *array, uint32_t count, uint32_t nulls, uint8_t *out) {
    if (array->form != WEIR_INGEST__ARRAY_BITS)
        return false;
    for (uint32_t i = 0; i < count; i++)
        out[i] = bit_at((const uint8_t *)array->values, array->first + i);
    PUT_NULLS(array, count, nulls, out, 2);
    return true;
}

static bool is_text(const weir_ingest__array *array) {
    return array->form == WEIR_INGEST__ARRAY_TEXT32 || array->form == WEIR_INGEST__ARRAY_TEXT64;
}

/* Texts that came lately, by their first bytes and size: of a column with few of them most are found here,
 * without a hash of the whole. */
enum { LATE_BITS = 6, LATE_TEXTS = 1 << LATE_BITS };

static uint32_t place_of(weir_ingest__bytes text) {
    uint64_t first = 0;
    memcpy(&first, text.data, text.size < sizeof first ? text.size : sizeof first);
    return WEIR__LOW(uint32_t, (first + text.size) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - LATE_BITS));
}

static bool is_equal(const weir_ingest__string *string, weir_ingest__bytes text) {
    return string->size == text.size && memcmp(string->bytes, text.data, text.size) == 0;
}

/* A text that is in the dictionary already was seen to be UTF-8 when it came first. */
static bool store_texts(const weir_ingest__array *array, uint32_t count, weir_ingest__dictionary *dictionary,
                        weir__arena *strings, uint32_t *out) {
    uint32_t late[LATE_TEXTS]; /* numbers */
    if (!is_text(array))
        return false;
    memset(late, 0xFF, sizeof late);
    bool fits = true;
    for (uint32_t i = 0; i < count && fits; i++) {
        out[i] = WEIR_NONE;
        if (is_null(array, i))
            continue;
        weir_ingest__bytes text = text_at(array, i);
        uint32_t *lately = &late[place_of(text)], known = dictionary->count;
        if (*lately != WEIR_NONE && is_equal(dictionary->strings[*lately], text)) {
            out[i] = *lately;
            continue;
        }
        fits = weir_ingest__dictionary_intern(dictionary, strings, text.data, text.size, &out[i]) &&
               (out[i] < known || weir__utf8_is_valid(text.data, text.size));
        *lately = out[i];
    }
    return fits;
}

static bool store_presence(const weir_ingest__array *array, uint32_t count, uint32_t nulls, uint8_t *out) {
    if (is_text(array))
        return false; /* that it is UTF-8 is to be seen */
    memset(out, 1, count);
    PUT_NULLS(array, count, nulls, out, 0);
    return true;
}

bool weir_ingest__array_store(weir_ingest__part *part, uint32_t column, weir_stype stype,
                              const weir_ingest__array *array, uint32_t first, uint32_t count) {
    void *values = part->columns[column].values;
    uint32_t nulls = count_nulls(array, count);
    uint64_t not_finite = 0;
    bool is_stored = false;
    switch (stype) {
    case WEIR_IDENTIFIER:
        is_stored = store_presence(array, count, nulls, (uint8_t *)values + first);
        break;
    case WEIR_NUMERICAL:
        is_stored = store_numbers(array, count, nulls, (double *)values + first, &not_finite);
        break;
    case WEIR_TIMESTAMP:
        is_stored = store_times(array, count, nulls, (int64_t *)values + first);
        break;
    case WEIR_BOOLEAN:
        is_stored = store_booleans(array, count, nulls, (uint8_t *)values + first);
        break;
    case WEIR_CATEGORICAL:
        is_stored = store_texts(array, count, &part->dictionaries[column], &part->strings,
                                (uint32_t *)values + first);
        break;
    case WEIR_TEXT:
        is_stored = store_texts(array, count, &part->texts, &part->strings, (uint32_t *)values + first);
        break;
    case WEIR_IGNORED:
        is_stored = !is_text(array);
        break;
    }
    if (is_stored) {
        part->nulls[column] += nulls + not_finite;
        part->not_finite[column] += not_finite;
    }
    return is_stored;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

bool weir_ingest__array_store_keys(weir_ingest__column_data *column, bool is_primary,
                                   const weir_ingest__array *array, uint32_t first, uint32_t count) {
    uint64_t *out = column->keys + first;
    uint32_t nulls = count_nulls(array, count);
    if (nulls > 0 && (is_primary || !column->tags))
        return false;
    switch (array->form) {
    case WEIR_INGEST__ARRAY_INT32:
        for (uint32_t i = 0; i < count; i++)
            out[i] = (uint64_t)(int64_t)LOAD(int32_t, array, i);
        break;
    case WEIR_INGEST__ARRAY_INT64:
    case WEIR_INGEST__ARRAY_MICROS:
        memcpy(out, array->values, count * sizeof *out);
        break;
    default:
        return false;
    }
    if (!column->tags)
        return true;
    memset(column->tags + first, WEIR_INGEST__KEY_INT, count);
    PUT_NULLS(array, count, nulls, column->tags + first, WEIR_INGEST__KEY_NULL);
    PUT_NULLS(array, count, nulls, out, 0);
    return true;
}
