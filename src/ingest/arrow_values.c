/* The batches of an Arrow stream: first what the producer says of one is checked, then its columns are read
 * into cells, some rows at a time. Text and blobs borrow the batch's buffers.
 *
 * What must hold: every number of the producer's that leads to an address was checked against every other
 * that the interface has. */
#include <stdio.h>
#include <string.h>

#include "ingest/arrow_source.h"

#define FOR_EACH_VALUE  WEIR_INGEST__FOR_EACH_VALUE
#define LOAD(type_name) WEIR_INGEST__LOAD(type_name, values, row)

enum { VIEW_SIZE = 16, VIEW_INLINE_MAX = 12, BUFFERS_BEFORE = 2 };

weir_status weir_ingest__arrow_fail(weir_error *error, const char *table, const char *column,
                                    const char *format, ...) {
    char what[400];
    WEIR__FORMAT(what, format);
    weir_status status = weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__SOURCE_OPERATOR, "table %s%s%s %s",
                                    table, column ? ", column " : "", column ? column : "", what);
    weir__note_text(error, "table", table, strlen(table));
    if (column)
        weir__note_text(error, "column", column, strlen(column));
    return status;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* NULL, or what is wrong with the numbers that every array has. */
static const char *check_numbers(const struct ArrowArray *array) {
    int64_t end;
    if (array->length < 0 || array->offset < 0 || array->n_buffers < 0 || array->n_children < 0)
        return "has a negative length, offset or number of buffers";
    if (__builtin_add_overflow(array->length, array->offset, &end))
        return "has a length and offset that no memory holds";
    if (array->null_count < -1 || array->null_count > array->length)
        return "says that it has more nulls than values";
    if (array->n_buffers > 0 && !array->buffers)
        return "has no list of buffers";
    return NULL;
}

static bool has_null_row(const struct ArrowArray *batch) {
    const uint8_t *validity = batch->n_buffers > 0 && batch->null_count != 0 ? batch->buffers[0] : NULL;
    if (batch->null_count > 0)
        return true;
    for (int64_t row = 0; validity && row < batch->length; row++)
        if (!weir_ingest__bit_at(validity, (size_t)(batch->offset + row)))
            return true;
    return false;
}

weir_status weir_ingest__arrow_check_batch(const char *table, uint32_t column_count,
                                           const struct ArrowArray *batch, weir_error *error) {
    const char *fault = check_numbers(batch);
    if (!fault && batch->n_children != column_count)
        fault = "has another number of columns than its schema";
    if (!fault && column_count > 0 && !batch->children)
        fault = "has no list of columns";
    if (!fault && has_null_row(batch))
        fault = "has rows that are null as a whole";
    if (!fault)
        return WEIR_OK;
    return weir_ingest__arrow_fail(error, table, NULL, "comes with a batch that %s: the producer is at fault",
                                   fault);
}

/* NULL, or what is wrong with an array of `length` values that are used. */
static const char *check_array(const weir_ingest__arrow_type *type, const struct ArrowArray *array) {
    static const int64_t buffers[] = {
        [WEIR_INGEST__ARROW_REFUSED] = 0,   [WEIR_INGEST__ARROW_NOTHING] = 0,
        [WEIR_INGEST__ARROW_BITS] = 2,      [WEIR_INGEST__ARROW_FIXED] = 2,
        [WEIR_INGEST__ARROW_OFFSETS32] = 3, [WEIR_INGEST__ARROW_OFFSETS64] = 3,
        [WEIR_INGEST__ARROW_VIEWS] = 3, /* or more */
    };
    if (!array)
        return "is not there";
    const char *fault = check_numbers(array);
    int64_t wanted = buffers[type->layout];
    if (fault || type->layout == WEIR_INGEST__ARROW_NOTHING)
        return fault;
    bool fits =
        type->layout == WEIR_INGEST__ARROW_VIEWS ? array->n_buffers >= wanted : array->n_buffers == wanted;
    if (!fits)
        return "has another number of buffers than its type";
    if (array->null_count > 0 && !array->buffers[0])
        return "has nulls but no validity bitmap";
    bool needs_values = type->layout != WEIR_INGEST__ARROW_FIXED || type->width > 0;
    if (array->length > 0 && needs_values && !array->buffers[1])
        return "has no buffer of values";
    if (type->layout == WEIR_INGEST__ARROW_VIEWS && array->n_buffers > wanted &&
        !array->buffers[array->n_buffers - 1])
        return "has no lengths of its buffers";
    return NULL;
}

weir_status weir_ingest__arrow_check_column(const char *table, const weir_ingest__arrow_column *column,
                                            const struct ArrowArray *batch, const struct ArrowArray *array,
                                            weir_error *error) {
    bool has_dictionary = column->dictionary_format != NULL;
    const char *fault = check_array(has_dictionary ? &column->index : &column->type, array);
    if (!fault && array->length < batch->offset + batch->length)
        fault = "is shorter than its batch";
    if (!fault && has_dictionary && !array->dictionary)
        fault = "has no dictionary";
    if (!fault && has_dictionary)
        fault = check_array(&column->type, array->dictionary);
    if (!fault)
        return WEIR_OK;
    return weir_ingest__arrow_fail(error, table, column->name, "%s in a batch: the producer is at fault",
                                   fault);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static const char *read_times(const weir_ingest__arrow_type *type, const weir_ingest__span *s) {
    static const int64_t micros_a_second = 1000000, micros_a_day = 86400000000;
    int64_t whole = type->is_date ? micros_a_day : micros_a_second;
    int64_t times = type->unit > whole ? 1 : whole / type->unit;
    int64_t parts = type->unit > whole ? type->unit / whole : 1; /* nanoseconds round down */
    bool is_beyond = false;
    FOR_EACH_VALUE(s, ({
                       int64_t value = type->width == 4 ? (int64_t)LOAD(int32_t) : LOAD(int64_t);
                       value = value / parts - (value % parts < 0);
                       *out = (weir_ingest__value){.type = WEIR_INGEST__TIMESTAMP};
                       is_beyond = __builtin_mul_overflow(value, times, &out->integer) || is_beyond;
                   }))
    return is_beyond ? "has a time beyond what int64 microseconds hold" : NULL;
}

/* "HH:MM:SS", and the decimals that are not zeros at the end. */
static size_t format_clock(int64_t value, int64_t unit, char out[WEIR_INGEST__ARROW_FORM_SIZE]) {
    int64_t second = value / unit, fraction = value % unit;
    int size = snprintf(out, WEIR_INGEST__ARROW_FORM_SIZE, "%02d:%02d:%02d", WEIR__NARROW(int, second / 3600),
                        WEIR__NARROW(int, second / 60 % 60), WEIR__NARROW(int, second % 60));
    if (fraction == 0)
        return (size_t)size;
    out[size++] = '.';
    while (fraction > 0) {
        unit /= 10;
        out[size++] = (char)('0' + WEIR__NARROW(int, fraction / unit));
        fraction %= unit;
    }
    return (size_t)size;
}

static const char *read_clocks(const weir_ingest__arrow_type *type, const weir_ingest__span *s, char *forms) {
    bool is_beyond = false;
    FOR_EACH_VALUE(s, ({
                       int64_t value = type->width == 4 ? (int64_t)LOAD(int32_t) : LOAD(int64_t);
                       bool fits = value >= 0 && value <= 86400 * type->unit;
                       char *form = forms + row * WEIR_INGEST__ARROW_FORM_SIZE;
                       is_beyond = is_beyond || !fits;
                       size_t size = fits ? format_clock(value, type->unit, form) : 0;
                       *out = (weir_ingest__value){.type = WEIR_INGEST__TEXT, .text = {form, size}};
                   }))
    return is_beyond ? "has a time of day that is negative or beyond 24 hours" : NULL;
}

/* ---- Text and blobs -------------------------------------------------------------------------- */

#define DEFINE_OFFSETS(name, type_name)                                                                      \
    static const char *name(const weir_ingest__span *s, weir_ingest__value_type type, const char *bytes) {   \
        bool is_wrong = false;                                                                               \
        FOR_EACH_VALUE(s, ({                                                                                 \
                           type_name ends[2];                                                                \
                           memcpy(ends, values + row * sizeof(type_name), sizeof ends);                      \
                           bool fits = ends[0] >= 0 && ends[1] >= ends[0] && (bytes || ends[1] == ends[0]);  \
                           is_wrong = is_wrong || !fits;                                                     \
                           weir_ingest__bytes text = {"", 0};                                                \
                           if (fits && bytes)                                                                \
                               text = (weir_ingest__bytes){bytes + ends[0], (size_t)(ends[1] - ends[0])};    \
                           *out = (weir_ingest__value){.type = type, .text = text};                          \
                       }))                                                                                   \
        return is_wrong ? "has offsets of text that are negative, fall, or lead into no buffer" : NULL;      \
    }
DEFINE_OFFSETS(read_offsets32, int32_t)
DEFINE_OFFSETS(read_offsets64, int64_t)

/* False if a view does not lie inside a buffer. */
static bool read_view(const struct ArrowArray *array, const char *view, weir_ingest__bytes *out) {
    int32_t parts[4], size; /* size, the first bytes, which buffer, where */
    memcpy(parts, view, sizeof parts);
    size = parts[0];
    *out = (weir_ingest__bytes){view + sizeof size, (size_t)size};
    if (size < 0 || size <= VIEW_INLINE_MAX)
        return size >= 0;
    int64_t buffer_count = array->n_buffers - BUFFERS_BEFORE - 1, length;
    if (parts[2] < 0 || parts[2] >= buffer_count || parts[3] < 0)
        return false;
    const char *lengths = array->buffers[array->n_buffers - 1];
    memcpy(&length, lengths + (size_t)parts[2] * sizeof length, sizeof length);
    const char *bytes = array->buffers[BUFFERS_BEFORE + parts[2]];
    if (!bytes || (int64_t)parts[3] + size > length)
        return false;
    out->data = bytes + parts[3];
    return true;
}

static const char *read_views(const weir_ingest__span *s, weir_ingest__value_type type,
                              const struct ArrowArray *array) {
    bool is_wrong = false;
    FOR_EACH_VALUE(s, ({
                       *out = (weir_ingest__value){.type = type};
                       if (!read_view(array, values + row * VIEW_SIZE, &out->text)) {
                           out->text = (weir_ingest__bytes){"", 0};
                           is_wrong = true;
                       }
                   }))
    return is_wrong ? "has views that lie outside their buffers" : NULL;
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* Value `first` of an array of fixed width; of bits, where they begin. */
static const char *values_of(const weir_ingest__arrow_type *type, const struct ArrowArray *array,
                             size_t first) {
    static const size_t widths[] = {[WEIR_INGEST__ARROW_BITS] = 0,
                                    [WEIR_INGEST__ARROW_OFFSETS32] = sizeof(int32_t),
                                    [WEIR_INGEST__ARROW_OFFSETS64] = sizeof(int64_t),
                                    [WEIR_INGEST__ARROW_VIEWS] = VIEW_SIZE};
    const char *values = array->buffers[1];
    size_t width = type->layout == WEIR_INGEST__ARROW_FIXED ? type->width : widths[type->layout];
    return values ? values + first * width : "";
}

static const char *read_fixed(const weir_ingest__arrow_type *type, const weir_ingest__span *s, char *forms) {
    switch (type->meaning) {
    case WEIR_INGEST__ARROW_NUMBER:
        weir_ingest__span_numbers(s, type->number, type->width, type->scale);
        return NULL;
    case WEIR_INGEST__ARROW_TIME:
        return read_times(type, s);
    case WEIR_INGEST__ARROW_CLOCK:
        return read_clocks(type, s, forms);
    case WEIR_INGEST__ARROW_BYTES:
        break;
    }
    FOR_EACH_VALUE(s, (*out = (weir_ingest__value){.type = WEIR_INGEST__BLOB,
                                                   .text = {values + row * type->width, type->width}}))
    return NULL;
}

/* Fills the span's cells with values of an array from s->first on. NULL, or what is wrong with a value. */
static const char *read_span(const weir_ingest__arrow_type *type, const struct ArrowArray *array,
                             weir_ingest__span *s, char *forms) {
    weir_ingest__value_type bytes = type->is_text ? WEIR_INGEST__TEXT : WEIR_INGEST__BLOB;
    if (type->layout != WEIR_INGEST__ARROW_NOTHING) {
        s->validity = array->buffers[0];
        s->values = values_of(type, array, s->first);
    }
    switch (type->layout) {
    case WEIR_INGEST__ARROW_BITS:
        FOR_EACH_VALUE(s, (*out = (weir_ingest__value){
                               .type = WEIR_INGEST__BOOL,
                               .integer = weir_ingest__bit_at((const uint8_t *)values, s->first + row)}))
        return NULL;
    case WEIR_INGEST__ARROW_FIXED:
        return read_fixed(type, s, forms);
    case WEIR_INGEST__ARROW_OFFSETS32:
        return read_offsets32(s, bytes, array->buffers[2]);
    case WEIR_INGEST__ARROW_OFFSETS64:
        return read_offsets64(s, bytes, array->buffers[2]);
    case WEIR_INGEST__ARROW_VIEWS:
        return read_views(s, bytes, array);
    case WEIR_INGEST__ARROW_REFUSED:
    case WEIR_INGEST__ARROW_NOTHING:
        break;
    }
    for (size_t row = 0; row < s->count; row++)
        s->cells[row * s->stride] = (weir_ingest__value){.type = WEIR_INGEST__NULL};
    return NULL;
}

/* The cells hold indices; each becomes what the dictionary has there. */
static const char *read_dictionary(const weir_ingest__arrow_type *type, const struct ArrowArray *dictionary,
                                   const weir_ingest__span *indices, char *forms) {
    const char *fault = NULL;
    for (size_t row = 0; row < indices->count && !fault; row++) {
        weir_ingest__value *cell = &indices->cells[row * indices->stride];
        if (cell->type == WEIR_INGEST__NULL)
            continue;
        if (cell->type != WEIR_INGEST__INT || cell->integer < 0 || cell->integer >= dictionary->length)
            return "has an index that is not in its dictionary";
        weir_ingest__span one = {
            .first = (size_t)(dictionary->offset + cell->integer), .count = 1, .cells = cell, .stride = 1};
        fault = read_span(type, dictionary, &one, forms ? forms + row * WEIR_INGEST__ARROW_FORM_SIZE : NULL);
    }
    return fault;
}

weir_status weir_ingest__arrow_read(const char *table, const weir_ingest__arrow_column *column,
                                    const struct ArrowArray *batch, const struct ArrowArray *array,
                                    size_t first, size_t count, weir_ingest__value *cells, size_t stride,
                                    char *forms, weir_error *error) {
    bool has_dictionary = column->dictionary_format != NULL;
    weir_ingest__span s = {.first = (size_t)array->offset + (size_t)batch->offset + first,
                           .count = count,
                           .cells = cells,
                           .stride = stride};
    const char *fault = read_span(has_dictionary ? &column->index : &column->type, array, &s, forms);
    if (!fault && has_dictionary)
        fault = read_dictionary(&column->type, array->dictionary, &s, forms);
    return fault ? weir_ingest__arrow_fail(error, table, column->name, "%s", fault) : WEIR_OK;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* All are compared, without a branch: a compiler makes vectors of that. */
#define DEFINE_RISES(name, type_name)                                                                        \
    static bool name(const char *offsets, size_t count) {                                                    \
        type_name first, before, next, falls = 0;                                                            \
        memcpy(&first, offsets, sizeof first);                                                               \
        for (size_t i = 0; i < count; i++) {                                                                 \
            memcpy(&before, offsets + i * sizeof before, sizeof before);                                     \
            memcpy(&next, offsets + (i + 1) * sizeof next, sizeof next);                                     \
            falls |= next < before;                                                                          \
        }                                                                                                    \
        return first >= 0 && falls == 0;                                                                     \
    }
DEFINE_RISES(rises32, int32_t)
DEFINE_RISES(rises64, int64_t)

static weir_ingest__array_form form_of(const weir_ingest__arrow_type *type) {
    if (type->layout == WEIR_INGEST__ARROW_BITS)
        return WEIR_INGEST__ARRAY_BITS;
    if (type->layout == WEIR_INGEST__ARROW_OFFSETS32 && type->is_text)
        return WEIR_INGEST__ARRAY_TEXT32;
    if (type->layout == WEIR_INGEST__ARROW_OFFSETS64 && type->is_text)
        return WEIR_INGEST__ARRAY_TEXT64;
    if (type->layout != WEIR_INGEST__ARROW_FIXED)
        return WEIR_INGEST__ARRAY_NONE;
    bool is_number = type->meaning == WEIR_INGEST__ARROW_NUMBER;
    if (is_number && type->number == WEIR_INGEST__NUMBER_SIGNED && type->width == 4)
        return WEIR_INGEST__ARRAY_INT32;
    if (is_number && type->number == WEIR_INGEST__NUMBER_SIGNED && type->width == 8)
        return WEIR_INGEST__ARRAY_INT64;
    if (is_number && type->number == WEIR_INGEST__NUMBER_FLOAT && type->width == 8)
        return WEIR_INGEST__ARRAY_DOUBLE;
    if (type->meaning == WEIR_INGEST__ARROW_TIME && !type->is_date && type->unit == 1000000)
        return WEIR_INGEST__ARRAY_MICROS;
    return WEIR_INGEST__ARRAY_NONE;
}

bool weir_ingest__arrow_array(const weir_ingest__arrow_column *column, const struct ArrowArray *batch,
                              const struct ArrowArray *array, size_t first, size_t count,
                              weir_ingest__array *out) {
    weir_ingest__array_form form =
        column->dictionary_format ? WEIR_INGEST__ARRAY_NONE : form_of(&column->type);
    *out = (weir_ingest__array){.form = WEIR_INGEST__ARRAY_NONE};
    if (form == WEIR_INGEST__ARRAY_NONE)
        return false;
    bool is_text = form == WEIR_INGEST__ARRAY_TEXT32 || form == WEIR_INGEST__ARRAY_TEXT64;
    size_t at = (size_t)array->offset + (size_t)batch->offset + first;
    weir_ingest__array found = {.form = form,
                                .validity = array->buffers[0],
                                .first = at,
                                .values = values_of(&column->type, array, at),
                                .bytes = is_text ? array->buffers[2] : NULL};
    bool rises = !is_text || (found.bytes &&
                              (form == WEIR_INGEST__ARRAY_TEXT32 ? rises32 : rises64)(found.values, count));
    if (rises)
        *out = found;
    return rises;
}
