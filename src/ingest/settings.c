/* See settings.h. Sums of squares are f64 in order and the square root is IEEE's, so vectors do not depend
 * on the machine. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ingest/settings.h"

static void refuse(weir_ingest__settings *settings, const char *key, size_t key_size, const char *what) {
    if (settings->status == WEIR_OK)
        settings->status = weir__fail(settings->error, WEIR_SCHEMA_INVALID, WEIR_INGEST__EMBED_OPERATOR,
                                      "the schema's $.embedding.%.*s %s",
                                      WEIR__NARROW(int, key_size < 60 ? key_size : 60), key, what);
}

static bool is_listed(const char *const *keys, const weir_cbor_value *key) {
    for (; *keys; keys++)
        if (weir_cbor_is_text(key, *keys))
            return true;
    return false;
}

void weir_ingest__settings_only(weir_ingest__settings *settings, const char *const *keys) {
    weir_cbor_iterator it = weir_cbor_children(settings->map);
    weir_cbor_value key, value;
    while (weir_cbor_next(&it, &key, &value))
        if (!is_listed(keys, &key))
            refuse(settings, (const char *)key.data, key.number, "is not a key of this provider");
}

char *weir_ingest__settings_text(weir_ingest__settings *settings, const char *key, const char *otherwise,
                                 bool nullable) {
    weir_cbor_value value;
    const char *text = otherwise;
    size_t size = otherwise ? strlen(otherwise) : 0;
    if (weir_cbor_get(settings->map, key, &value)) {
        if (nullable && value.type == WEIR_CBOR_NULL)
            return NULL;
        bool is_fit = value.type == WEIR_CBOR_TEXT && value.number > 0 &&
                      !memchr(value.data, '\0', (size_t)value.number);
        if (!is_fit)
            refuse(settings, key, strlen(key), "must be text that is not empty");
        text = (const char *)value.data;
        size = (size_t)value.number;
    } else if (!otherwise) {
        refuse(settings, key, strlen(key), "must be given");
    }
    if (settings->status != WEIR_OK)
        return NULL;
    char *copy = weir__copy_text(settings->env, text, size);
    if (!copy)
        settings->status = weir__out_of_memory(settings->error, WEIR_INGEST__EMBED_OPERATOR, size);
    return copy;
}

uint64_t weir_ingest__settings_uint(weir_ingest__settings *settings, const char *key, uint64_t otherwise,
                                    uint64_t least, uint64_t most) {
    weir_cbor_value value;
    uint64_t number = otherwise;
    if (weir_cbor_get(settings->map, key, &value) &&
        (!weir_cbor_get_uint(&value, &number) || number < least || number > most)) {
        char what[96];
        snprintf(what, sizeof what, "must be a whole number from %llu to %llu", (unsigned long long)least,
                 (unsigned long long)most);
        refuse(settings, key, strlen(key), what);
        return otherwise;
    }
    return number;
}

/* ---- Vectors --------------------------------------------------------------------------------- */

static bool number_of(const weir_cbor_value *value, double *out) {
    switch (value->type) {
    case WEIR_CBOR_FLOAT:
        *out = value->real;
        return isfinite(*out);
    case WEIR_CBOR_UINT:
        *out = (double)value->number;
        return true;
    case WEIR_CBOR_NEGATIVE:
        *out = -1.0 - (double)value->number;
        return true;
    default:
        return false;
    }
}

const char *weir_ingest__vector_read(const weir_cbor_value *array, uint32_t dim, bool is_exact,
                                     double *numbers, uint16_t *out) {
    if (array->type != WEIR_CBOR_ARRAY)
        return "is not an array of numbers";
    if (is_exact && array->number != dim)
        return "does not have as many numbers as the schema's $.embedding.dim says";
    if (array->number < dim)
        return "has fewer numbers than the schema's $.embedding.dim asks for";
    weir_cbor_iterator it = weir_cbor_children(array);
    weir_cbor_value value;
    double sum = 0;
    for (uint32_t i = 0; i < dim && weir_cbor_next(&it, NULL, &value); i++) {
        if (!number_of(&value, &numbers[i]))
            return "has something that is no finite number";
        sum += numbers[i] * numbers[i];
    }
    if (!is_exact && !isfinite(sum))
        return "has numbers that are too large";
    double norm = is_exact || sum == 0 ? 1 : sqrt(sum);
    for (uint32_t i = 0; i < dim; i++)
        out[i] = weir_ingest__half_from_double(numbers[i] / norm);
    return NULL;
}

void weir_ingest__excerpt(const char *text, size_t size, char out[WEIR_INGEST__EXCERPT_SIZE]) {
    enum { SHOWN_MAX = 60 };
    size_t shown = 0;
    while (shown < size) {
        size_t step = weir__utf8_sequence((const uint8_t *)text + shown, size - shown);
        if (step == 0 || shown + step > SHOWN_MAX)
            break;
        shown += step;
    }
    snprintf(out, WEIR_INGEST__EXCERPT_SIZE, "\"%.*s\"%s", WEIR__NARROW(int, shown), text,
             shown < size ? " …" : "");
}
