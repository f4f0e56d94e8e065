/* Arrow's C stream interface as a source (docs/spec/04d-arrow.md).
 *
 *   arrow_types.c    a column's format: how its values lie and what they become
 *   arrow_values.c   what a producer says of a batch is checked; values become cells
 *   source_arrow.c   streams, batches and scans of them, as a source
 *
 * What must hold: nothing that a producer says is used before it is checked, except the sizes of buffers,
 * which the interface does not have. Every failure names the table, and the column if there is one. */
#ifndef WEIR_INGEST_ARROW_SOURCE_H
#define WEIR_INGEST_ARROW_SOURCE_H

#include "ingest/spans.h"
#include "weir/arrow.h"

/* How the values of an array lie in its buffers. */
typedef enum weir_ingest__arrow_layout {
    WEIR_INGEST__ARROW_REFUSED,   /* a type that is not read */
    WEIR_INGEST__ARROW_NOTHING,   /* no buffers: all null */
    WEIR_INGEST__ARROW_BITS,      /* validity, bits */
    WEIR_INGEST__ARROW_FIXED,     /* validity, values of `width` bytes */
    WEIR_INGEST__ARROW_OFFSETS32, /* validity, offsets, bytes */
    WEIR_INGEST__ARROW_OFFSETS64,
    WEIR_INGEST__ARROW_VIEWS, /* validity, views, buffers of bytes, the lengths of these */
} weir_ingest__arrow_layout;

/* What a value of fixed width means. */
typedef enum weir_ingest__arrow_meaning {
    WEIR_INGEST__ARROW_NUMBER,
    WEIR_INGEST__ARROW_TIME,  /* since 1970: `unit` of them are a second, or a day */
    WEIR_INGEST__ARROW_CLOCK, /* since midnight: `unit` of them are a second */
    WEIR_INGEST__ARROW_BYTES, /* text or a blob, of any layout */
} weir_ingest__arrow_meaning;

typedef struct weir_ingest__arrow_type {
    weir_ingest__arrow_layout layout;
    weir_ingest__arrow_meaning meaning;
    weir_ingest__number number; /* of WEIR_INGEST__ARROW_NUMBER */
    bool is_date;               /* of WEIR_INGEST__ARROW_TIME: `unit` of them are a day */
    bool is_text;               /* of WEIR_INGEST__ARROW_BYTES */
    uint32_t width;
    int32_t scale; /* of a decimal */
    int64_t unit;
} weir_ingest__arrow_type;

/* The type of a format; REFUSED if it is not read. */
weir_ingest__arrow_type weir_ingest__arrow_type_of(const char *format);
/* "a list", "a struct", …: what a refused format is, for a message; static. */
const char *weir_ingest__arrow_type_name(const char *format);
weir_ingest__declared weir_ingest__arrow_declared(const weir_ingest__arrow_type *type);

typedef struct weir_ingest__arrow_column {
    char *name;
    char *format;
    char *dictionary_format;       /* NULL: there is no dictionary */
    weir_ingest__arrow_type type;  /* of the values: the dictionary's, if there is one */
    weir_ingest__arrow_type index; /* if there is a dictionary */
    const char *refused;           /* what it is, if it is not read; NULL: it is read */
} weir_ingest__arrow_column;

/* SOURCE_ERROR for a column of a table: "table T, column C …". */
weir_status weir_ingest__arrow_fail(weir_error *error, const char *table, const char *column,
                                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Whether a batch can be read: its own numbers, and those of some columns. */
WEIR_CHECKED weir_status weir_ingest__arrow_check_batch(const char *table, uint32_t column_count,
                                                        const struct ArrowArray *batch, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__arrow_check_column(const char *table,
                                                         const weir_ingest__arrow_column *column,
                                                         const struct ArrowArray *batch,
                                                         const struct ArrowArray *array, weir_error *error);

/* Bytes of text forms that cells point to (times of day). */
enum { WEIR_INGEST__ARROW_FORM_SIZE = 24 };

/* Rows [first, first + count) of a column of a checked batch, into cells that lie `stride` apart. `forms` is
 * room for count * WEIR_INGEST__ARROW_FORM_SIZE bytes, or NULL if the column is not of
 * WEIR_INGEST__ARROW_CLOCK. */
WEIR_CHECKED weir_status weir_ingest__arrow_read(const char *table, const weir_ingest__arrow_column *column,
                                                 const struct ArrowArray *batch,
                                                 const struct ArrowArray *array, size_t first, size_t count,
                                                 weir_ingest__value *cells, size_t stride, char *forms,
                                                 weir_error *error);

/* The same rows as an array, if the column lies as one and nothing is wrong with it; else false. */
bool weir_ingest__arrow_array(const weir_ingest__arrow_column *column, const struct ArrowArray *batch,
                              const struct ArrowArray *array, size_t first, size_t count,
                              weir_ingest__array *out);

#endif
