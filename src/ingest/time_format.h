/* Times in other forms than ISO 8601, by a pattern such as "%d/%m/%Y %H:%M" (docs/spec/04-values.md). A
 * pattern is compiled once; matching allocates nothing and depends on no locale. */
#ifndef WEIR_INGEST_TIME_FORMAT_H
#define WEIR_INGEST_TIME_FORMAT_H

#include "base/internal.h"

enum { WEIR_INGEST__FORMAT_SIZE_MAX = 64, WEIR_INGEST__FORMAT_DIRECTIVES_MAX = 16 };

/* One item of a pattern: a directive's letter, or 0 and the character that stands for itself. */
typedef struct weir_ingest__format_item {
    char directive;
    char character;
    bool is_fixed; /* beside another directive of digits: exactly as many as it has */
} weir_ingest__format_item;

typedef struct weir_ingest__time_format {
    uint32_t count;
    weir_ingest__format_item items[WEIR_INGEST__FORMAT_SIZE_MAX];
    char pattern[WEIR_INGEST__FORMAT_SIZE_MAX + 1];
} weir_ingest__time_format;

/* NULL, or what is wrong with the pattern: static, to stand after its path. */
const char *weir_ingest__time_format_compile(const char *pattern, size_t size, weir_ingest__time_format *out);

/* Microseconds since 1970; false if the text is not of this form or the time does not exist. */
bool weir_ingest__time_format_read(const weir_ingest__time_format *format, const char *text, size_t size,
                                   int64_t *micros);

#endif
