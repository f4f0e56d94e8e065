/* See read_arrays.h. A column is stored in passes that a compiler makes vectors of: all values, then the
 * nulls over them, then a count of what does not fit. */
#include "ingest/read_arrays.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"

static bool bit_at(const uint8_t *bits, size_t position) {
    return bits[position / 8] >> (position % 8) & 1;
}

static bool is_null(const weir_ingest__array *array, size_t row) {
    return array->validity && !bit_at(array->validity, array->first + row);
}

/* Where no value is null, which is most often, 64 bits are looked at in one go. */
static uint32_t count_nulls(const weir_ingest__array *array, uint32_t count) {
    uint32_t nulls = 0;
    for (uint32_t row = 0; array->validity && row < count;) {
        size_t position = array->first + row;
        if (position % 8 == 0 && count - row >= 64 &&
            weir__load64(array->validity + position / 8) == UINT64_MAX) {
            row += 64;
            continue;
        }
        nulls += is_null(array, row) ? 1 : 0;
        row++;
    }
    return nulls;
}

#define LOAD(type_name, from, row)                                                                           \
    ({                                                                                                       \
        type_name loaded_;                                                                                   \
        memcpy(&loaded_, (from) + (row) * sizeof loaded_, sizeof loaded_);                                   \
        loaded_;                                                                                             \
    })

/* Where text `row` begins, and the one before it ends. */
static int64_t offset_at(const weir_ingest__array *array, size_t row) {
    return array->form == WEIR_INGEST__ARRAY_TEXT32 ? LOAD(int32_t, array->values, row)
                                                    : LOAD(int64_t, array->values, row);
}

static weir_ingest__bytes text_at(const weir_ingest__array *array, size_t row) {
    int64_t begin = offset_at(array, row), end = offset_at(array, row + 1);
    return (weir_ingest__bytes){array->bytes + begin, (size_t)(end - begin)};
}

void weir_ingest__array_value(const weir_ingest__array *array, size_t row, weir_ingest__value *out) {
    *out = (weir_ingest__value){.type = WEIR_INGEST__NULL};
    if (is_null(array, row))
        return;
    switch (array->form) {
    case WEIR_INGEST__ARRAY_INT32:
        *out = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = LOAD(int32_t, array->values, row)};
        break;
    case WEIR_INGEST__ARRAY_INT64:
        *out = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = LOAD(int64_t, array->values, row)};
        break;
    case WEIR_INGEST__ARRAY_DOUBLE:
        *out = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = LOAD(double, array->values, row)};
        break;
    case WEIR_INGEST__ARRAY_MICROS:
        *out = (weir_ingest__value){.type = WEIR_INGEST__TIMESTAMP,
                                    .integer = LOAD(int64_t, array->values, row)};
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

/* Those whose exponent has all bits, to which one more overflows. */
static uint64_t count_not_finite(const double *numbers, uint32_t count) {
    static const uint64_t exponent = UINT64_C(0x7FF) << 52, one = UINT64_C(1) << 52;
    uint64_t found = 0, bits;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(&bits, &numbers[i], sizeof bits);
        found += ((bits & exponent) + one) >> 63;
    }
    return found;
}

static bool store_numbers(const weir_ingest__array *array, uint32_t count, uint32_t nulls, double *out,
                          uint64_t *not_finite) {
    const char *values = array->values;
    switch (array->form) {
    case WEIR_INGEST__ARRAY_INT32:
        for (uint32_t i = 0; i < count; i++)
            out[i] = (double)LOAD(int32_t, values, i);
        break;
    case WEIR_INGEST__ARRAY_INT64:
    case WEIR_INGEST__ARRAY_MICROS:
        for (uint32_t i = 0; i < count; i++)
            out[i] = (double)LOAD(int64_t, values, i);
        break;
    case WEIR_INGEST__ARRAY_DOUBLE:
        memcpy(out, values, count * sizeof *out);
        break;
    default:
        return false;
    }
    PUT_NULLS(array, count, nulls, out, NAN);
    *not_finite = count_not_finite(out, count) - nulls;
    for (uint32_t i = 0; *not_finite > 0 && i < count; i++)
        out[i] = isfinite(out[i]) ? out[i] : NAN;
    return true;
}

/* INT64_MIN and INT64_MAX: they are 0 and 1 after a shift of all integers, and no other is below 2. */
static uint64_t count_extremes(const int64_t *times, uint32_t count) {
    uint64_t others = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t shifted = (uint64_t)times[i] + (UINT64_C(1) << 63) + 1;
        others += ((shifted >> 1) + INT64_MAX) >> 63;
    }
    return count - others;
}

/* False if one of them is an extreme, which is no time. */
static bool store_times(const weir_ingest__array *array, uint32_t count, uint32_t nulls, int64_t *out) {
    if (array->form != WEIR_INGEST__ARRAY_MICROS)
        return false;
    memcpy(out, array->values, count * sizeof *out);
    PUT_NULLS(array, count, nulls, out, WEIR_TIME_ALWAYS);
    return count_extremes(out, count) == nulls;
}

/* Eight bits as eight bytes, the lowest first. */
static void spread_bits(uint8_t bits, uint8_t *out) {
    static const uint64_t ones = UINT64_C(0x0101010101010101), one_each = UINT64_C(0x8040201008040201);
    uint64_t apart = bits * ones & one_each;
    weir__store64(out, (apart + ones * 0x7F) >> 7 & ones);
}

static bool store_booleans(const weir_ingest__array *array, uint32_t count, uint32_t nulls, uint8_t *out) {
    if (array->form != WEIR_INGEST__ARRAY_BITS)
        return false;
    const uint8_t *bits = (const uint8_t *)array->values;
    for (uint32_t i = 0; i < count;) {
        size_t position = array->first + i;
        if (position % 8 == 0 && count - i >= 8) {
            spread_bits(bits[position / 8], out + i);
            i += 8;
        } else {
            out[i++] = bit_at(bits, position);
        }
    }
    PUT_NULLS(array, count, nulls, out, 2);
    return true;
}

static bool is_text(const weir_ingest__array *array) {
    return array->form == WEIR_INGEST__ARRAY_TEXT32 || array->form == WEIR_INGEST__ARRAY_TEXT64;
}

/* Texts that came lately, by their first bytes and size: of a column with few of them most are found here,
 * without a hash of the whole. */
enum { LATE_BITS = 8, LATE_TEXTS = 1 << LATE_BITS, FIRST_BYTES = 8 };

typedef struct late_text {
    uint64_t first; /* bytes, and zeros after a shorter text */
    uint32_t size;
    uint32_t number; /* in the dictionary */
} late_text;

/* The first bytes of a text; `room` bytes can be read from where it begins, of which it may be fewer. */
static uint64_t first_bytes(weir_ingest__bytes text, size_t room) {
    static const uint64_t masks[FIRST_BYTES + 1] = {
        0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFF, 0xFFFFFFFFFFFF, 0xFFFFFFFFFFFFFF, UINT64_MAX};
    if (room >= FIRST_BYTES)
        return weir__load64(text.data) & masks[text.size < FIRST_BYTES ? text.size : FIRST_BYTES];
    uint8_t bytes[FIRST_BYTES] = {0};
    memcpy(bytes, text.data, text.size);
    return weir__load64(bytes);
}

static size_t place_of(uint64_t first, size_t size) {
    return (first + size) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - LATE_BITS);
}

/* The first bytes are equal. */
static bool has_equal_rest(const weir_ingest__string *string, weir_ingest__bytes text) {
    return text.size <= FIRST_BYTES ||
           memcmp(string->bytes + FIRST_BYTES, text.data + FIRST_BYTES, text.size - FIRST_BYTES) == 0;
}

/* A text that is in the dictionary already was seen to be UTF-8 when it came first. */
static bool store_texts(const weir_ingest__array *array, uint32_t count, uint32_t nulls,
                        weir_ingest__dictionary *dictionary, weir__arena *strings, uint32_t *out) {
    late_text late[LATE_TEXTS];
    if (!is_text(array))
        return false;
    memset(late, 0xFF, sizeof late);
    const weir_ingest__array texts = *array; /* which what is written below cannot change */
    const char *end = texts.bytes + offset_at(&texts, count);
    for (uint32_t i = 0; i < count; i++) {
        out[i] = WEIR_NONE;
        if (nulls > 0 && is_null(&texts, i))
            continue;
        weir_ingest__bytes text = text_at(&texts, i);
        uint64_t first = first_bytes(text, (size_t)(end - text.data));
        late_text *lately = &late[place_of(first, text.size)];
        if (lately->first == first && lately->size == text.size && lately->number != WEIR_NONE &&
            has_equal_rest(dictionary->strings[lately->number], text)) {
            out[i] = lately->number;
            continue;
        }
        uint32_t known = dictionary->count;
        if (!weir_ingest__dictionary_intern(dictionary, strings, text.data, text.size, &out[i]) ||
            (out[i] == known && !weir__utf8_is_valid(text.data, text.size)))
            return false;
        *lately = (late_text){first, WEIR__LOW(uint32_t, text.size), out[i]};
    }
    return true;
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
    switch (weir_value_of(stype)) {
    case WEIR_VALUE_PRESENCE:
        is_stored = store_presence(array, count, nulls, (uint8_t *)values + first);
        break;
    case WEIR_VALUE_NUMBER:
        is_stored = store_numbers(array, count, nulls, (double *)values + first, &not_finite);
        break;
    case WEIR_VALUE_TIME:
        is_stored = store_times(array, count, nulls, (int64_t *)values + first);
        break;
    case WEIR_VALUE_TRUTH:
        is_stored = store_booleans(array, count, nulls, (uint8_t *)values + first);
        break;
    case WEIR_VALUE_CATEGORY:
        is_stored = store_texts(array, count, nulls, &part->dictionaries[column], &part->strings,
                                (uint32_t *)values + first);
        break;
    case WEIR_VALUE_TEXT:
        is_stored =
            store_texts(array, count, nulls, &part->texts, &part->strings, (uint32_t *)values + first);
        break;
    case WEIR_VALUE_NOTHING:
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
    const char *values = array->values;
    uint32_t nulls = count_nulls(array, count);
    if (nulls > 0 && (is_primary || !column->tags))
        return false;
    switch (array->form) {
    case WEIR_INGEST__ARRAY_INT32:
        for (uint32_t i = 0; i < count; i++)
            out[i] = (uint64_t)(int64_t)LOAD(int32_t, values, i);
        break;
    case WEIR_INGEST__ARRAY_INT64:
    case WEIR_INGEST__ARRAY_MICROS:
        memcpy(out, values, count * sizeof *out);
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
