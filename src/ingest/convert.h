/* From a source's values to what a semantic type holds. Each conversion says whether the value fits; none
 * of them depends on the process's locale. */
#ifndef WEIR_INGEST_CONVERT_H
#define WEIR_INGEST_CONVERT_H

#include "ingest/source.h"
#include "ingest/time_format.h"

typedef enum weir__fit { WEIR__FITS, WEIR__IS_NULL, WEIR__NOT_FINITE, WEIR__UNFIT } weir__fit;

typedef enum weir__unit {
    WEIR__SECONDS,
    WEIR__MILLISECONDS,
    WEIR__MICROSECONDS,
    WEIR__NANOSECONDS
} weir__unit;

/* A number: as such, or as text (correctly rounded). NaN and infinities are WEIR__NOT_FINITE. */
weir__fit weir__to_number(const weir__value *value, double *out);

/* Microseconds: ISO text, an integer in `unit`, or a timestamp. What int64 cannot hold, and its two
 * extremes, do not fit. */
weir__fit weir__to_timestamp(const weir__value *value, weir__unit unit, int64_t *out);

/* Integers that count seconds because nobody said otherwise: what was seen of them. */
typedef struct weir__unsaid {
    uint64_t count;
    int64_t least, most;
} weir__unsaid;

void weir__unsaid_join(weir__unsaid *unsaid, const weir__unsaid *other);
/* "2013-01-01T00:00:00Z to …", as seconds. */
void weir__unsaid_span(const weir__unsaid *unsaid, char *out, size_t size);
/* NULL, or why these cannot be seconds and what to write instead; static. */
const char *weir__unsaid_doubt(const weir__unsaid *unsaid);

/* How times are written, as a schema says it. */
typedef struct weir__time_form {
    weir__unit unit;
    bool says_unit;
    const weir__time_format *format; /* or NULL */
} weir__time_form;

/* Microseconds: as above, or text and digits by a format. Where the schema says anything, a real that is an
 * integer is one. Integers that count seconds by default are noted in `unsaid`, which may be NULL. */
weir__fit weir__to_time(const weir__value *value, const weir__time_form *form, weir__unsaid *unsaid,
                        int64_t *out);

weir__fit weir__to_boolean(const weir__value *value, bool *out);

enum { WEIR__TEXT_FORM_SIZE = 48 };

/* The text of a value: text itself, else its text form in `buffer`. Null and blobs have none
 * (WEIR__IS_NULL, WEIR__UNFIT). */
weir__fit weir__to_text(const weir__value *value, char buffer[WEIR__TEXT_FORM_SIZE], weir__bytes *out);

/* Decimal text as binary64: [+-] digits [. digits] [e [+-] digits], nan, inf, infinity in any case. False
 * if it is not a number. */
bool weir__parse_real(const char *text, size_t size, double *out);

/* The first of %.1g, %.2g, … that reads back exactly. Returns the length. */
size_t weir__format_real(double value, char out[WEIR__TEXT_FORM_SIZE]);

/* A value for a message, at most 60 characters of it. */
void weir__describe_value(const weir__value *value, char out[96]);

#endif
