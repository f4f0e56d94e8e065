/* See settings.h. Sums of squares are f64 in order and the square root is IEEE's, so vectors do not depend
 * on the machine. */
#include <math.h>
#include <stdio.h>

#include "ingest/settings.h"

weir_status weir_ingest__settings_read(weir_ingest__embedder *embedder, const weir_cbor_value *map,
                                       const weir__shape *shape, weir_error *error) {
    weir__reader r = {.arena = &embedder->arena,
                      .error = error,
                      .family = WEIR_SCHEMA_INVALID,
                      .failure_operator = WEIR_INGEST__EMBED_OPERATOR,
                      .name = "the schema",
                      .unknown = "is not a key of this provider",
                      .is_json = true,
                      .path = "$.embedding"};
    weir__arena_init(&embedder->arena, embedder->env);
    if (map)
        return weir__read(&r, map, shape, embedder);
    weir__fill_defaults(shape, embedder);
    return WEIR_OK;
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
