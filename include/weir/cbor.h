/* weir/cbor.h: canonical CBOR, the form in which everything is hashed, traced and checkpointed, and JSON,
 * the form in which people write it.
 *
 * The profile (docs/encoding.md): shortest integers and lengths, definite lengths, text keys sorted by
 * their encoded bytes and unique, binary64 floats with one NaN, valid UTF-8, -2^64 … 2^64-1,
 * false/true/null, no tags, 64 levels at most. The writer can write nothing else and the reader accepts
 * nothing else, so a value has exactly one encoding. */
#ifndef WEIR_CBOR_H
#define WEIR_CBOR_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { WEIR_CBOR_DEPTH_MAX = 64 };

/* ---- Writing --------------------------------------------------------------------------------- */

/* A streaming writer, which functions such as weir_plan_write write to. The first fault (no memory, text that
 * is not UTF-8) sticks; later calls do nothing; weir_cbor_finish reports it. So a sequence of calls needs one
 * check:
 *
 *   weir_cbor_writer w;
 *   weir_cbor_writer_memory(&w, env);
 *   weir_plan_write(plan, &w);
 *   status = weir_cbor_finish(&w, error);       then w.data, w.size
 *   weir_cbor_release(&w); */
typedef struct weir_cbor_level {
    uint64_t remaining; /* items still to come, keys and values counted each */
    const char *key;    /* the last key of a map */
    size_t key_size;
    bool is_map;
} weir_cbor_level;

typedef struct weir_cbor_writer {
    uint8_t *data;
    size_t size;
    size_t capacity;
    const weir_env *env;      /* where memory grows, NULL in a fixed buffer */
    struct weir__sha256 *sha; /* internal: bytes go there instead */
    const char *fault;        /* static text, NULL while all is well */
    weir_status status;
    uint32_t depth;
    weir_cbor_level levels[WEIR_CBOR_DEPTH_MAX + 1];
} weir_cbor_writer;

/* Into memory that grows; release it. */
WEIR_API void weir_cbor_writer_memory(weir_cbor_writer *w, const weir_env *env);

/* CBOR_INVALID if the items do not make exactly one value (or, after weir_cbor_restart, a sequence of
 * whole values), OUT_OF_MEMORY. */
WEIR_API WEIR_CHECKED weir_status weir_cbor_finish(weir_cbor_writer *w, weir_error *error);

/* Frees a memory writer's bytes; harmless for the others. */
WEIR_API void weir_cbor_release(weir_cbor_writer *w);

/* ---- Reading --------------------------------------------------------------------------------- */

typedef enum weir_cbor_type {
    WEIR_CBOR_UINT,
    WEIR_CBOR_NEGATIVE, /* the integer -1 - number */
    WEIR_CBOR_BYTES,
    WEIR_CBOR_TEXT,
    WEIR_CBOR_ARRAY,
    WEIR_CBOR_MAP,
    WEIR_CBOR_BOOL,
    WEIR_CBOR_NULL,
    WEIR_CBOR_FLOAT,
} weir_cbor_type;

/* A view of one item inside checked bytes, which it borrows. */
typedef struct weir_cbor_value {
    weir_cbor_type type;
    uint64_t number;     /* the integer; 0 or 1; the size of bytes or text; the count of items or pairs */
    double real;         /* of a float */
    const uint8_t *data; /* bytes or text (not terminated); the first child of an array or map */
    const uint8_t *item; /* where the item itself begins */
} weir_cbor_value;

/* Checks that data[0, size) is exactly one item of the profile; with `item_size` given, that it begins with
 * one, whose size is returned. CBOR_INVALID, with diagnostics offset (the first byte of the offending item)
 * and what is wrong. */
WEIR_API WEIR_CHECKED weir_status weir_cbor_check(const void *data, size_t size, size_t *item_size,
                                                  weir_error *error);

/* Views into bytes that weir_cbor_check accepted: none of these can fail. */
WEIR_API weir_cbor_value weir_cbor_view(const void *item);

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A streaming JSON writer: the caller nests begin and end, the writer sets commas. Like the CBOR writer, a
 * fault (memory, depth) sticks. Text is escaped; bytes that are not UTF-8 become U+FFFD. Any number that is
 * not finite becomes null. */
typedef struct weir_json_writer {
    char *data;
    size_t size;
    size_t capacity;
    const weir_env *env;
    weir_status status;
    uint32_t depth;
    bool after_key;
    bool has_items[WEIR_CBOR_DEPTH_MAX + 8];
} weir_json_writer;

WEIR_API void weir_json_writer_memory(weir_json_writer *w, const weir_env *env);

/* OUT_OF_MEMORY or CONTRACT_VIOLATION (unbalanced). Then w->data, w->size (a NUL follows). */
WEIR_API WEIR_CHECKED weir_status weir_json_finish(weir_json_writer *w, weir_error *error);
WEIR_API void weir_json_release(weir_json_writer *w);

/* An error record, as JSON object. */
WEIR_API void weir_error_json(const weir_error *error, weir_json_writer *w);

#ifdef __cplusplus
}
#endif
#endif
