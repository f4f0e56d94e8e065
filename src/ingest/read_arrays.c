/* See read_arrays.h. A column is stored in passes that a compiler makes vectors of: values are copied and,
 * if some may not fit, counted in one pass; nulls are written over them, and then they are counted again. */
#include "ingest/read_arrays.h"

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "ingest/spans.h"

#define LOAD WEIR_INGEST__LOAD

static bool is_null(const weir_ingest__array *array, size_t row) {
    return array->validity && !weir_ingest__bit_at(array->validity, array->first + row);
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
        *out = (weir_ingest__value){
            .type = WEIR_INGEST__BOOL,
            .integer = weir_ingest__bit_at((const uint8_t *)array->values, array->first + row)};
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

/* Copies numbers, and counts those that are not finite: whose exponent has all bits, to which one more
 * overflows. */
static uint64_t copy_numbers(const char *from, uint32_t count, double *out) {
    static const uint64_t exponent = UINT64_C(0x7FF) << 52, one = UINT64_C(1) << 52;
    uint64_t found = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bits = LOAD(uint64_t, from, i);
        memcpy(&out[i], &bits, sizeof bits);
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
        *not_finite = copy_numbers(values, count, out);
        break;
    default:
        return false;
    }
    PUT_NULLS(array, count, nulls, out, NAN);
    if (nulls > 0 && array->form == WEIR_INGEST__ARRAY_DOUBLE) /* those under a null do not count */
        *not_finite = copy_numbers((const char *)out, count, out) - nulls;
    for (uint32_t i = 0; *not_finite > 0 && i < count; i++)
        out[i] = isfinite(out[i]) ? out[i] : NAN;
    return true;
}

/* Copies times, and counts INT64_MIN and INT64_MAX: they are 0 and 1 after a shift of all integers, and no
 * other is below 2. */
static uint64_t copy_times(const char *from, uint32_t count, int64_t *out) {
    uint64_t others = 0;
    for (uint32_t i = 0; i < count; i++) {
        int64_t time = LOAD(int64_t, from, i);
        uint64_t shifted = (uint64_t)time + (UINT64_C(1) << 63) + 1;
        out[i] = time;
        others += ((shifted >> 1) + INT64_MAX) >> 63;
    }
    return count - others;
}

/* False if one of them is an extreme, which is no time. */
static bool store_times(const weir_ingest__array *array, uint32_t count, uint32_t nulls, int64_t *out) {
    if (array->form != WEIR_INGEST__ARRAY_MICROS)
        return false;
    uint64_t extremes = copy_times(array->values, count, out);
    if (nulls == 0)
        return extremes == 0;
    PUT_NULLS(array, count, nulls, out, WEIR_TIME_ALWAYS);
    return copy_times((const char *)out, count, out) == nulls;
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
            out[i++] = weir_ingest__bit_at(bits, position);
        }
    }
    PUT_NULLS(array, count, nulls, out, 2);
    return true;
}

static bool is_text(const weir_ingest__array *array) {
    return array->form == WEIR_INGEST__ARRAY_TEXT32 || array->form == WEIR_INGEST__ARRAY_TEXT64;
}

/* Texts that came lately, by their first bytes and size: of a column with few of them most are found here,
 * without a hash of the whole. The bytes are compared in vectors, with zeros after the end of the text, and
 * so without a branch that depends on its size: no processor guesses which text comes next. */
enum { LATE_BITS = 8, LATE_TEXTS = 1 << LATE_BITS, FIRST_BYTES = 48 };

typedef uint64_t two_words __attribute__((vector_size(16)));
enum { VECTORS = FIRST_BYTES / sizeof(two_words) };

typedef struct late_text {
    two_words first[VECTORS];
    const weir_ingest__string *string;
    uint32_t size;   /* UINT32_MAX: there is none, nor has it a number */
    uint32_t number; /* in the dictionary */
} late_text;

typedef struct text_store {
    weir_ingest__array texts;
    uint32_t count;
    const char *end; /* of the texts' bytes */
    weir_ingest__dictionary *dictionary;
    weir__arena *strings;
    uint32_t *out;
    late_text late[LATE_TEXTS];
} text_store;

static two_words load_words(const void *from) {
    two_words words;
    memcpy(&words, from, sizeof words);
    return words;
}

/* The first bytes of a text, of which FIRST_BYTES can be read. */
static inline void take_first(const char *text, size_t size, two_words *out) {
#define ONES_16 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255
    static const uint8_t masks[2 * FIRST_BYTES] = {ONES_16, ONES_16, ONES_16}; /* and zeros */
#undef ONES_16
    const uint8_t *mask = masks + FIRST_BYTES - (size < FIRST_BYTES ? size : FIRST_BYTES);
    for (size_t i = 0; i < VECTORS; i++)
        out[i] = load_words(text + i * sizeof *out) & load_words(mask + i * sizeof *out);
}

/* The same of a text near the end of all. */
static __attribute__((noinline)) void take_last(const char *text, size_t size, two_words *out) {
    char copy[FIRST_BYTES] = {0};
    memcpy(copy, text, size);
    memcpy(out, copy, sizeof copy);
}

static inline size_t place_of(const two_words *first, size_t size) {
    return (first[0][0] + 3 * first[0][1] + size) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - LATE_BITS);
}

static inline bool is_equal(const late_text *lately, const two_words *first, const char *text, size_t size) {
    two_words difference = lately->first[0] ^ first[0];
    for (size_t i = 1; i < VECTORS; i++)
        difference |= lately->first[i] ^ first[i];
    return (difference[0] | difference[1] | (lately->size ^ size)) == 0 &&
           (size <= FIRST_BYTES ||
            (lately->number != WEIR_NONE && memcmp(lately->string->bytes, text, size) == 0));
}

/* Texts that are not among the late ones become one of them. One that is in the dictionary already was seen
 * to be UTF-8 when it came first. */
static __attribute__((noinline)) bool find_text(text_store *s, const char *text, size_t size,
                                                const two_words *first, uint32_t *out) {
    uint32_t known = s->dictionary->count;
    if (!weir_ingest__dictionary_intern(s->dictionary, s->strings, text, size, out) ||
        (*out == known && !weir__utf8_is_valid(text, size)))
        return false;
    late_text *lately = &s->late[place_of(first, size)];
    memcpy(lately->first, first, sizeof lately->first);
    lately->string = s->dictionary->strings[*out];
    lately->size = WEIR__LOW(uint32_t, size);
    lately->number = *out;
    return true;
}

/* `form` and `has_nulls` are constants, of which a compiler makes a loop each. */
static inline bool store_each(text_store *s, weir_ingest__array_form form, bool has_nulls) {
    weir_ingest__array texts = s->texts;
    texts.form = form;
    const char *end = s->end;
    for (uint32_t i = 0; i < s->count; i++) {
        if (has_nulls && is_null(&texts, i)) {
            s->out[i] = WEIR_NONE;
            continue;
        }
        weir_ingest__bytes text = text_at(&texts, i);
        two_words first[VECTORS];
        if (end - text.data >= FIRST_BYTES)
            take_first(text.data, text.size, first);
        else
            take_last(text.data, text.size, first);
        const late_text *lately = &s->late[place_of(first, text.size)];
        if (is_equal(lately, first, text.data, text.size))
            s->out[i] = lately->number;
        else if (!find_text(s, text.data, text.size, first, &s->out[i]))
            return false;
    }
    return true;
}

static bool store_texts(const weir_ingest__array *array, uint32_t count, uint32_t nulls,
                        weir_ingest__dictionary *dictionary, weir__arena *strings, uint32_t *out) {
    text_store s;
    if (!is_text(array))
        return false;
    s.texts = *array;
    s.count = count;
    s.end = array->bytes + offset_at(array, count);
    s.dictionary = dictionary;
    s.strings = strings;
    s.out = out;
    memset(s.late, 0xFF, sizeof s.late); /* none is there */
    if (array->form == WEIR_INGEST__ARRAY_TEXT64)
        return store_each(&s, WEIR_INGEST__ARRAY_TEXT64, true);
    return nulls > 0 ? store_each(&s, WEIR_INGEST__ARRAY_TEXT32, true)
                     : store_each(&s, WEIR_INGEST__ARRAY_TEXT32, false);
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
    void *values = part->data[column].values;
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
        is_stored = store_texts(array, count, nulls, &part->columns[column].dictionary, &part->strings,
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
        part->columns[column].nulls += nulls + not_finite;
        part->columns[column].not_finite += not_finite;
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
