/* From a source's values to what a semantic type holds. Each conversion says whether the value fits; none
 * of them depends on the process's locale. */
#ifndef WEIR_INGEST_CONVERT_H
#define WEIR_INGEST_CONVERT_H

#include "ingest/source.h"
#include "ingest/time_format.h"
#include "weir/stypes.h"

typedef enum weir_ingest__fit {
    WEIR_INGEST__FITS,
    WEIR_INGEST__IS_NULL,
    WEIR_INGEST__NOT_FINITE,
    WEIR_INGEST__UNFIT
} weir_ingest__fit;

typedef enum weir_ingest__unit {
    WEIR_INGEST__SECONDS,
    WEIR_INGEST__MILLISECONDS,
    WEIR_INGEST__MICROSECONDS,
    WEIR_INGEST__NANOSECONDS
} weir_ingest__unit;

/* Whether a real is an integer that int64 holds. */
static inline bool weir_ingest__is_whole(double real) {
    return real >= -0x1p63 && real < 0x1p63 && (double)(int64_t)real == real;
}

/* A number: as such, or as text (correctly rounded). NaN and infinities are WEIR_INGEST__NOT_FINITE. */
weir_ingest__fit weir_ingest__to_number(const weir_ingest__value *value, double *out);

/* Microseconds: ISO text, an integer in `unit`, or a timestamp. What int64 cannot hold, and its two
 * extremes, do not fit. */
weir_ingest__fit weir_ingest__to_timestamp(const weir_ingest__value *value, weir_ingest__unit unit,
                                           int64_t *out);

/* Integers that count seconds because nobody said otherwise: what was seen of them. */
typedef struct weir_ingest__unsaid {
    uint64_t count;
    int64_t least, most;
} weir_ingest__unsaid;

void weir_ingest__unsaid_join(weir_ingest__unsaid *unsaid, const weir_ingest__unsaid *other);
/* "2013-01-01T00:00:00Z to …", as seconds. */
void weir_ingest__unsaid_span(const weir_ingest__unsaid *unsaid, char *out, size_t size);
/* NULL, or why these cannot be seconds and what to write instead; static. */
const char *weir_ingest__unsaid_doubt(const weir_ingest__unsaid *unsaid);

/* How times are written, as a schema says it. */
typedef struct weir_ingest__time_form {
    weir_ingest__unit unit;
    bool says_unit;
    const weir_ingest__time_format *format; /* or NULL */
} weir_ingest__time_form;

/* Microseconds: as above, or text and digits by a format. Where the schema says anything, a real that is an
 * integer is one. Integers that count seconds by default are noted in `unsaid`, which may be NULL. */
weir_ingest__fit weir_ingest__to_time(const weir_ingest__value *value, const weir_ingest__time_form *form,
                                      weir_ingest__unsaid *unsaid, int64_t *out);

weir_ingest__fit weir_ingest__to_boolean(const weir_ingest__value *value, bool *out);

enum { WEIR_INGEST__TEXT_FORM_SIZE = 48 };

/* The text of a value: text itself, else its text form in `buffer`. Null and blobs have none
 * (WEIR_INGEST__IS_NULL, WEIR_INGEST__UNFIT). */
weir_ingest__fit weir_ingest__to_text(const weir_ingest__value *value,
                                      char buffer[WEIR_INGEST__TEXT_FORM_SIZE], weir_ingest__bytes *out);

/* A value as a column or a target of a type holds it: the type's weir_value says which member is set. */
typedef struct weir_ingest__converted {
    double number;
    int64_t integer;         /* a time, or 0 and 1 */
    weir_ingest__bytes text; /* of a category or a text; it may lie in `form` */
    char form[WEIR_INGEST__TEXT_FORM_SIZE];
} weir_ingest__converted;

/* Converts as the type wants it. `form` and `unsaid` are for times, as above. */
weir_ingest__fit weir_ingest__convert(const weir_ingest__value *value, weir_stype stype,
                                      const weir_ingest__time_form *form, weir_ingest__unsaid *unsaid,
                                      weir_ingest__converted *out);
enum { WEIR_INGEST__REASON_SIZE = 256 };

/* Why a value does not fit a type, and what to do: static, or in `buffer`. */
const char *weir_ingest__unfit_reason(weir_stype stype, const weir_ingest__time_form *form,
                                      char buffer[WEIR_INGEST__REASON_SIZE]);

/* Decimal text as binary64: [+-] digits [. digits] [e [+-] digits], nan, inf, infinity in any case. False
 * if it is not a number. */
bool weir_ingest__parse_real(const char *text, size_t size, double *out);

/* The first of %.1g, %.2g, … that reads back exactly. Returns the length. */
size_t weir_ingest__format_real(double value, char out[WEIR_INGEST__TEXT_FORM_SIZE]);

/* A value for a message, at most 60 characters of it. */
void weir_ingest__describe_value(const weir_ingest__value *value, char out[96]);

#endif
