/* Keys: how values of any type are compared, matched and shown. A real that is a whole number of int64's
 * range has an integer's payload, so that equal numbers are equal bits; only its tag remembers what it was.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ingest/convert.h"
#include "ingest/key.h"
#include "store/keys.h"

static const weir_ingest__string *string_of(weir_ingest__key key) {
    return (const weir_ingest__string *)(uintptr_t)key.payload;
}

static double real_of(weir_ingest__key key) {
    double value;
    memcpy(&value, &key.payload, sizeof value);
    return value;
}

static weir_ingest__key key_from_real(double real) {
    weir_ingest__key key = {WEIR_INGEST__KEY_REAL, 0};
    if (isnan(real))
        return (weir_ingest__key){WEIR_INGEST__KEY_NULL, 0};
    if (real == 0 && signbit(real))
        return (weir_ingest__key){WEIR_INGEST__KEY_NEGATIVE_ZERO, 0};
    if (weir_ingest__is_whole(real))
        return (weir_ingest__key){WEIR_INGEST__KEY_INTEGRAL_REAL, (uint64_t)(int64_t)real};
    memcpy(&key.payload, &real, sizeof real);
    return key;
}

bool weir_ingest__key_from_value(const weir_ingest__value *value, weir__arena *arena,
                                 weir_ingest__dictionary *dictionary, weir_ingest__key *out) {
    switch (value->type) {
    case WEIR_INGEST__INT:
    case WEIR_INGEST__BOOL:
    case WEIR_INGEST__TIMESTAMP:
        *out = (weir_ingest__key){WEIR_INGEST__KEY_INT, (uint64_t)value->integer};
        return true;
    case WEIR_INGEST__REAL:
        *out = key_from_real(value->real);
        return true;
    case WEIR_INGEST__TEXT:
    case WEIR_INGEST__BLOB:
        out->tag = value->type == WEIR_INGEST__TEXT ? WEIR_INGEST__KEY_TEXT : WEIR_INGEST__KEY_BLOB;
        const weir_ingest__string *string;
        uint32_t number;
        if (!dictionary)
            string = weir_ingest__string_new(arena, value->text.data, value->text.size);
        else
            string =
                weir_ingest__dictionary_intern(dictionary, arena, value->text.data, value->text.size, &number)
                    ? dictionary->strings[number]
                    : NULL;
        out->payload = (uintptr_t)string;
        return string != NULL;
    default:
        *out = (weir_ingest__key){WEIR_INGEST__KEY_NULL, 0};
        return true;
    }
}

static bool is_whole(weir_ingest__key key) {
    return key.tag == WEIR_INGEST__KEY_INT || key.tag == WEIR_INGEST__KEY_INTEGRAL_REAL ||
           key.tag == WEIR_INGEST__KEY_NEGATIVE_ZERO;
}

static int class_of(weir_ingest__key key) {
    static const int classes[] = {0, 1, 1, 1, 2, 3, 1};
    return classes[key.tag];
}

int weir_ingest__key_compare_values(weir_ingest__key a, weir_ingest__key b) {
    int class_a = class_of(a);
    int class_b = class_of(b);
    if (class_a != class_b)
        return class_a < class_b ? -1 : 1;
    if (class_a == 0)
        return 0;
    if (class_a > 1)
        return weir_ingest__string_compare(string_of(a), string_of(b));
    if (is_whole(a) && is_whole(b))
        return (int64_t)a.payload < (int64_t)b.payload ? -1 : (int64_t)a.payload > (int64_t)b.payload;
    if (is_whole(a))
        return weir_store__compare_integer_with_real((int64_t)a.payload, real_of(b));
    if (is_whole(b))
        return -weir_store__compare_integer_with_real((int64_t)b.payload, real_of(a));
    return real_of(a) < real_of(b) ? -1 : real_of(a) > real_of(b);
}

int weir_ingest__key_compare_rows(const weir_ingest__column_data *a, uint32_t row_a,
                                  const weir_ingest__column_data *b, uint32_t row_b, const uint32_t *columns,
                                  uint32_t count) {
    int order = 0;
    for (uint32_t i = 0; i < count && order == 0; i++)
        order = weir_ingest__key_compare_values(weir_ingest__key_at(&a[columns[i]], row_a),
                                                weir_ingest__key_at(&b[columns[i]], row_b));
    return order;
}

bool weir_ingest__key_equal(weir_ingest__key a, weir_ingest__key b) {
    if (class_of(a) != class_of(b) || class_of(a) == 0)
        return false;
    if (class_of(a) == 1)
        return is_whole(a) == is_whole(b) && a.payload == b.payload;
    return weir_ingest__string_compare(string_of(a), string_of(b)) == 0;
}

uint64_t weir_ingest__key_hash(weir_ingest__key key) {
    uint64_t x = class_of(key) > 1 ? string_of(key)->hash : key.payload;
    x = (x ^ x >> 32) * 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
}

void weir_ingest__key_cbor(weir_ingest__key key, weir_cbor_writer *w) {
    switch (key.tag) {
    case WEIR_INGEST__KEY_INT:
        weir_cbor_int(w, (int64_t)key.payload);
        break;
    case WEIR_INGEST__KEY_INTEGRAL_REAL:
        weir_cbor_double(w, (double)(int64_t)key.payload);
        break;
    case WEIR_INGEST__KEY_NEGATIVE_ZERO:
        weir_cbor_double(w, -0.0);
        break;
    case WEIR_INGEST__KEY_REAL:
        weir_cbor_double(w, real_of(key));
        break;
    case WEIR_INGEST__KEY_TEXT:
        weir_cbor_text_n(w, string_of(key)->bytes, string_of(key)->size);
        break;
    case WEIR_INGEST__KEY_BLOB:
        weir_cbor_bytes(w, string_of(key)->bytes, string_of(key)->size);
        break;
    default:
        weir_cbor_null(w);
    }
}

void weir_ingest__values_describe(const weir_ingest__column_data *data, const uint32_t *columns,
                                  uint32_t count, uint32_t row, char *out, size_t size) {
    char one[96];
    size_t used = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < count && used < size; i++) {
        weir_ingest__key key = weir_ingest__key_at(&data[columns[i]], row);
        weir_ingest__value value = {.type = WEIR_INGEST__NULL};
        if (is_whole(key))
            value = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = (int64_t)key.payload};
        else if (key.tag == WEIR_INGEST__KEY_REAL)
            value = (weir_ingest__value){.type = WEIR_INGEST__REAL, .real = real_of(key)};
        else if (key.tag != WEIR_INGEST__KEY_NULL)
            value = (weir_ingest__value){.type = key.tag == WEIR_INGEST__KEY_TEXT ? WEIR_INGEST__TEXT
                                                                                  : WEIR_INGEST__BLOB,
                                         .text = {string_of(key)->bytes, string_of(key)->size}};
        weir_ingest__describe_value(&value, one);
        const char *before = i > 0 ? ", " : count > 1 ? "(" : "";
        const char *after = i > 0 && i + 1 == count ? ")" : "";
        int added = snprintf(out + used, size - used, "%s%s%s", before, one, after);
        used += added > 0 ? (size_t)added : 0;
    }
}

void weir_ingest__row_key_describe(const weir_ingest__column_data *data, const uint32_t *columns,
                                   uint32_t count, uint32_t row, char *out, size_t size) {
    static const char before[] = ", key ";
    out[0] = 0;
    if (count == 0 || size <= sizeof before)
        return;
    memcpy(out, before, sizeof before);
    weir_ingest__values_describe(data, columns, count, row, out + sizeof before - 1,
                                 size - sizeof before + 1);
}
