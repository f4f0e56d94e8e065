/* The canonical CBOR writer. It keeps, for every open array or map, how many items are still to come and
 * the last key, so that it can refuse at once what would not be canonical; what it has written is therefore
 * always a prefix of a valid value. */
#include <string.h>

#include "base/cbor_head.h"
#include "base/internal.h"
#include "weir_tool/documents.h"

enum {
    SIMPLE_FALSE = 0xF4,
    SIMPLE_TRUE = 0xF5,
    SIMPLE_NULL = 0xF6,
    FLOAT64 = 0xFB,
};

static const char operator_name[] = "weir.cbor.encode";

static void start(weir_cbor_writer *w) {
    w->fault = NULL;
    w->status = WEIR_OK;
    w->depth = 0;
    weir_cbor_restart(w);
}

void weir_cbor_writer_memory(weir_cbor_writer *w, const weir_env *env) {
    w->data = NULL;
    w->size = w->capacity = 0;
    w->env = weir__env_or_default(env);
    w->sha = NULL;
    start(w);
}

void weir_cbor_writer_fixed(weir_cbor_writer *w, void *buffer, size_t capacity) {
    w->data = buffer;
    w->size = 0;
    w->capacity = capacity;
    w->env = NULL;
    w->sha = NULL;
    start(w);
}

void weir__cbor_writer_hash(weir_cbor_writer *w, weir__sha256 *sha) {
    weir_cbor_writer_fixed(w, NULL, 0);
    w->sha = sha;
}

/* Level 0 is the value itself: one item. */
void weir_cbor_restart(weir_cbor_writer *w) {
    if (w->status == WEIR_OK && w->depth == 0)
        w->levels[0] = (weir_cbor_level){.remaining = 1};
}

static void refuse(weir_cbor_writer *w, weir_status status, const char *fault) {
    if (w->status == WEIR_OK) {
        w->status = status;
        w->fault = fault;
    }
}

/* What does not fit the memory at hand, if there is any. */
static void put_anew(weir_cbor_writer *w, const void *data, size_t size) {
    if (w->status != WEIR_OK)
        return;
    if (w->sha) {
        weir__sha256_update(w->sha, data, size);
        w->size += size;
        return;
    }
    size_t needed;
    if (__builtin_add_overflow(w->size, size, &needed)) {
        refuse(w, WEIR_OUT_OF_MEMORY, "the encoding is larger than memory");
        return;
    }
    if (needed > w->capacity) {
        void *memory = w->data;
        if (!w->env || !weir__grow(w->env, &memory, &w->capacity, needed, 1)) {
            refuse(w, WEIR_OUT_OF_MEMORY, "no memory for the encoding");
            return;
        }
        w->data = memory;
    }
    memcpy(w->data + w->size, data, size);
    w->size = needed;
}

static inline void put(weir_cbor_writer *w, const void *data, size_t size) {
    if (size == 0)
        return;
    if (w->status != WEIR_OK || size > w->capacity || w->size > w->capacity - size) {
        put_anew(w, data, size);
        return;
    }
    memcpy(w->data + w->size, data, size);
    w->size += size;
}

uint8_t *weir__cbor_head(uint8_t *at, unsigned major, uint64_t argument) {
    if (argument < 24) {
        *at = WEIR__LOW(uint8_t, major | argument);
        return at + 1;
    }
    if (argument <= UINT8_MAX) {
        at[0] = WEIR__LOW(uint8_t, major | 24);
        at[1] = WEIR__LOW(uint8_t, argument);
        return at + 2;
    }
    if (argument <= UINT16_MAX) {
        at[0] = WEIR__LOW(uint8_t, major | 25);
        weir__store16be(at + 1, WEIR__LOW(uint16_t, argument));
        return at + 3;
    }
    if (argument <= UINT32_MAX) {
        at[0] = WEIR__LOW(uint8_t, major | 26);
        weir__store32be(at + 1, WEIR__LOW(uint32_t, argument));
        return at + 5;
    }
    at[0] = WEIR__LOW(uint8_t, major | 27);
    weir__store64be(at + 1, argument);
    return at + 9;
}

static void put_head(weir_cbor_writer *w, unsigned major, uint64_t argument) {
    uint8_t head[WEIR__CBOR_HEAD_MAX];
    put(w, head, (size_t)(weir__cbor_head(head, major, argument) - head));
}

/* Whether the next item stands where a map wants a key. */
static bool expects_key(const weir_cbor_level *level) {
    return level->is_map && level->remaining % 2 == 0;
}

/* Takes one item's place in the innermost container. Only text passes where a key belongs (is_key). */
static void take_place(weir_cbor_writer *w, bool is_key) {
    weir_cbor_level *level = &w->levels[w->depth];
    if (level->remaining == 0)
        refuse(w, WEIR_CBOR_INVALID, "more items than announced");
    else if (expects_key(level) && !is_key)
        refuse(w, WEIR_CBOR_INVALID, "a map key that is not text");
    else if (w->status == WEIR_OK)
        level->remaining--;
}

static void close_full_levels(weir_cbor_writer *w) {
    while (w->depth > 0 && w->levels[w->depth].remaining == 0)
        w->depth--;
}

static void open_level(weir_cbor_writer *w, unsigned major, uint64_t count, uint64_t items, bool is_map) {
    if (w->depth == WEIR_CBOR_DEPTH_MAX) {
        refuse(w, WEIR_CBOR_INVALID, "nested more than 64 deep");
        return;
    }
    take_place(w, false);
    put_head(w, major, count);
    if (w->status != WEIR_OK)
        return;
    w->levels[++w->depth] = (weir_cbor_level){.remaining = items, .is_map = is_map};
    close_full_levels(w);
}

static void put_scalar(weir_cbor_writer *w, unsigned major, uint64_t argument) {
    take_place(w, false);
    put_head(w, major, argument);
    close_full_levels(w);
}

static void put_simple(weir_cbor_writer *w, uint8_t byte) {
    take_place(w, false);
    put(w, &byte, 1);
    close_full_levels(w);
}

void weir_cbor_uint(weir_cbor_writer *w, uint64_t value) {
    put_scalar(w, WEIR__HEAD_UINT, value);
}

void weir_cbor_negative(weir_cbor_writer *w, uint64_t n) {
    put_scalar(w, WEIR__HEAD_NEGATIVE, n);
}

void weir_cbor_int(weir_cbor_writer *w, int64_t value) {
    if (value < 0)
        weir_cbor_negative(w, ~(uint64_t)value);
    else
        weir_cbor_uint(w, (uint64_t)value);
}

void weir_cbor_bytes(weir_cbor_writer *w, const void *data, size_t size) {
    put_scalar(w, WEIR__HEAD_BYTES, size);
    put(w, data, size);
}

static bool key_ascends(const weir_cbor_level *level, const char *key, size_t size) {
    return !level->key || weir__key_compare(level->key, level->key_size, key, size) < 0;
}

void weir_cbor_text_n(weir_cbor_writer *w, const char *text, size_t size) {
    weir_cbor_level *level = &w->levels[w->depth];
    bool is_key = level->remaining > 0 && expects_key(level);
    if (!weir__utf8_is_valid(text, size))
        refuse(w, WEIR_CBOR_INVALID, "text that is not UTF-8");
    if (is_key && !key_ascends(level, text, size))
        refuse(w, WEIR_CBOR_INVALID, "map keys out of order or twice");
    take_place(w, is_key);
    put_head(w, WEIR__HEAD_TEXT, size);
    put(w, text, size);
    if (is_key) {
        level->key = text ? text : "";
        level->key_size = size;
    }
    close_full_levels(w);
}

void weir_cbor_text(weir_cbor_writer *w, const char *text) {
    weir_cbor_text_n(w, text, strlen(text));
}

void weir_cbor_double(weir_cbor_writer *w, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value)
        bits = 0x7FF8000000000000u;
    uint8_t encoded[9] = {FLOAT64};
    weir__store64be(encoded + 1, bits);
    take_place(w, false);
    put(w, encoded, sizeof encoded);
    close_full_levels(w);
}

void weir_cbor_bool(weir_cbor_writer *w, bool value) {
    put_simple(w, value ? SIMPLE_TRUE : SIMPLE_FALSE);
}

void weir_cbor_null(weir_cbor_writer *w) {
    put_simple(w, SIMPLE_NULL);
}

void weir_cbor_array(weir_cbor_writer *w, uint64_t count) {
    open_level(w, WEIR__HEAD_ARRAY, count, count, false);
}

void weir_cbor_map(weir_cbor_writer *w, uint64_t pairs) {
    if (pairs > UINT64_MAX / 2)
        refuse(w, WEIR_CBOR_INVALID, "a map of more than 2^63-1 pairs");
    open_level(w, WEIR__HEAD_MAP, pairs, pairs * 2, true);
}

void weir_cbor_raw(weir_cbor_writer *w, const void *data, size_t size) {
    take_place(w, false);
    put(w, data, size);
    close_full_levels(w);
}

weir_status weir_cbor_finish(weir_cbor_writer *w, weir_error *error) {
    if (w->status == WEIR_OK && (w->depth != 0 || w->levels[0].remaining != 0))
        refuse(w, WEIR_CBOR_INVALID, "fewer items than announced");
    if (w->status == WEIR_OK)
        return WEIR_OK;
    weir_status status =
        weir__fail(error, w->status, operator_name, "cannot encode: %s at byte %zu", w->fault, w->size);
    weir__note_uint(error, "offset", w->size);
    return status;
}

weir_status weir_cbor_give(weir_cbor_writer *w, weir_bytes *out, weir_error *error) {
    weir_status status = weir_cbor_finish(w, error);
    if (status != WEIR_OK)
        weir_cbor_release(w);
    *out = status == WEIR_OK ? (weir_bytes){w->data, w->size, w->env} : (weir_bytes){0};
    return status;
}

void weir_cbor_release(weir_cbor_writer *w) {
    if (w->env)
        weir__release(w->env, w->data);
    w->data = NULL;
    w->size = w->capacity = 0;
}
