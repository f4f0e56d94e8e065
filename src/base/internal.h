/* What every part of the library uses of base, beyond the public headers: making error records, memory
 * through the environment, and text helpers. */
#ifndef WEIR_BASE_INTERNAL_H
#define WEIR_BASE_INTERNAL_H

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/narrow.h"
#include "weir/base.h"
#include "weir_tool/documents.h"

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Fills the record (if there is one) and returns `status`, so that a check reads `return weir__fail(…)`.
 * Bytes of the formatted text that are not printable UTF-8 become '?'. `failure_operator` must be static. */
weir_status weir__fail(weir_error *error, weir_status status, const char *failure_operator,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

/* `size`: the bytes that could not be had; 0 if they are not known. */
weir_status weir__out_of_memory(weir_error *error, const char *failure_operator, size_t size);

/* IO_ERROR from errno: "cannot open PATH: No such file or directory". */
weir_status weir__io_error(weir_error *error, const char *failure_operator, const char *verb,
                           const char *path);

/* Adds a diagnostic to a record made by weir__fail; beyond WEIR_DIAGNOSTICS_MAX it is dropped. `name` must
 * be static. */
void weir__note_uint(weir_error *error, const char *name, uint64_t value);
void weir__note_int(weir_error *error, const char *name, int64_t value);
void weir__note_text(weir_error *error, const char *name, const char *text, size_t size);

/* Passes a failure on at once: for functions that have nothing to release. One that has, keeps a status, asks
 * `if (status == WEIR_OK)` before each further step, and releases at its end. */
#define WEIR__TRY(expression)                                                                                \
    do {                                                                                                     \
        weir_status weir__tried = (expression);                                                              \
        if (weir__tried != WEIR_OK)                                                                          \
            return weir__tried;                                                                              \
    } while (0)

/* ---- Memory ---------------------------------------------------------------------------------- */

const weir_env *weir__env_or_default(const weir_env *env);

/* `count * size` bytes, checked; NULL if that overflows or memory is short. Never NULL for 0 bytes
 * otherwise. */
void *weir__allocate(const weir_env *env, size_t count, size_t size);
void *weir__allocate_zero(const weir_env *env, size_t count, size_t size);
void weir__release(const weir_env *env, void *memory);

/* Makes room for `needed` items, at least doubling; false if memory is short, with all as it was. */
bool weir__grow(const weir_env *env, void **memory, size_t *capacity, size_t needed, size_t item_size);

/* A terminated copy of `size` bytes of text, or NULL. */
char *weir__copy_text(const weir_env *env, const char *text, size_t size);

/* The host's memory, mapped through the environment: what a weir_memory is if none is given. */
weir_memory weir__host_memory(const weir_env *env);

/* Zeros, bytes, and "all that was asked for is done", whether the processor reaches the memory or not. */
WEIR_CHECKED weir_status weir__memory_clear(const weir_memory *memory, void *data, size_t size,
                                            weir_error *error);
WEIR_CHECKED weir_status weir__memory_write(const weir_memory *memory, void *to, const void *from,
                                            size_t size, weir_error *error);
WEIR_CHECKED weir_status weir__memory_read(const weir_memory *memory, void *out, const void *from,
                                           size_t size, weir_error *error);
WEIR_CHECKED weir_status weir__memory_copy(const weir_memory *memory, void *to, const void *from, size_t size,
                                           weir_error *error);
WEIR_CHECKED weir_status weir__memory_settle(const weir_memory *memory, weir_error *error);

/* ---- Text ------------------------------------------------------------------------------------ */

/* The length of the valid UTF-8 sequence at text[0, size), 0 if there is none (overlong, surrogate,
 * beyond U+10FFFF, cut). */
size_t weir__utf8_sequence(const uint8_t *text, size_t size);
bool weir__utf8_is_valid(const void *text, size_t size);

/* Lower-case hex with a terminator: out has 2 * size + 1 bytes. */
void weir__hex_encode(const void *data, size_t size, char *out);
/* Exactly 2 * size hex digits of either case; false otherwise. */
bool weir__hex_decode(const char *text, size_t text_size, uint8_t *out, size_t size);

/* The order of CBOR map keys: by their encoded bytes, so shorter text first, then bytewise. Negative, 0 or
 * positive. */
int weir__key_compare(const void *a, size_t a_size, const void *b, size_t b_size);

/* A decimal without sign, leading zeros or anything else, up to 2^64-1. */
bool weir__decimal_parse(const char *text, size_t size, uint64_t *out);

/* Floats are read and written in the C locale, whatever the process has set: between these two calls, this
 * thread is in it. */
locale_t weir__enter_c_locale(void);
void weir__leave_c_locale(locale_t kept);

/* A float with 17 digits, which is the same whatever the process and the thread have set. */
enum { WEIR__REAL_TEXT = 32 };
void weir__print_real(double value, char out[WEIR__REAL_TEXT]);

/* In a function whose last parameter before `...` is `format`: what it is given, as text in an array; what
 * does not fit is cut. */
#define WEIR__FORMAT(array, format)                                                                          \
    do {                                                                                                     \
        va_list weir__arguments;                                                                             \
        va_start(weir__arguments, format);                                                                   \
        if (vsnprintf(array, sizeof(array), format, weir__arguments) < 0)                                    \
            (array)[0] = 0;                                                                                  \
        va_end(weir__arguments);                                                                             \
    } while (0)

/* "a, b and 3 more": names for a message, as many as fit in `size` bytes, or "none". Each is a `const char
 * *`, the first at `names` and the others `stride` bytes apart. */
void weir__list_names(char *out, size_t size, const void *names, size_t stride, size_t count);

/* A server's message as one line: line breaks become spaces, those at the end go; cut to `size` and
 * terminated. */
void weir__one_line(const char *message, char *out, size_t size);

/* Replaces every occurrence of a secret in `text` (terminated, in a buffer of `capacity` bytes) by "***",
 * cutting what no longer fits. An empty secret is none. */
void weir__redact(char *text, size_t capacity, const char *secret, size_t secret_size);

#endif
