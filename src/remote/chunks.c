/* A store's file in chunks: where it is cut, and the index that lists them (docs/spec/08-chunks.md). The file
 * is read once, through a buffer of two of the largest chunks. */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/fields.h"
#include "base/file.h"
#include "base/hash.h"
#include "remote/remote.h"

#define FORMAT "weir-chunks/1"
enum { FIRST_SIZE = 4096, GEAR_SIZE = 256 };

/* ---- Cutting --------------------------------------------------------------------------------- */

typedef struct cutter {
    uint64_t gear[GEAR_SIZE];
    size_t least, most;
    uint32_t bits;
} cutter;

/* The size of the chunk that begins at `data`, of which `left` bytes follow, or `most` of them at least. */
static size_t chunk_size(const cutter *c, const uint8_t *data, size_t left) {
    size_t end = left < c->most ? left : c->most;
    uint64_t h = 0;
    for (size_t i = c->least; i < end; i++) {
        h = (h << 1) + c->gear[data[i]];
        if (h >> (64 - c->bits) == 0)
            return i + 1;
    }
    return end;
}

/* Names the chunk that follows the last. */
static weir_status add_chunk(weir_remote__chunks *out, const uint8_t *data, size_t size, weir_error *error) {
    if (!weir__grow(out->env, (void **)&out->list, &out->capacity, out->count + 1, sizeof *out->list) ||
        out->count >= UINT32_MAX)
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, out->count * sizeof *out->list);
    const weir_remote__chunk *last = out->count > 0 ? &out->list[out->count - 1] : NULL;
    weir_remote__chunk *chunk = &out->list[out->count++];
    chunk->offset = last ? last->offset + last->size : 0;
    chunk->size = WEIR__NARROW(uint32_t, size);
    weir__blake3_of(data, size, chunk->hash);
    return WEIR_OK;
}

weir_status weir_remote__chunks_cut(weir_remote__chunks *out, int file, const char *path,
                                    weir_remote__watch *watch, weir_error *error) {
    enum { TEXT_SIZE = sizeof FORMAT - 1 };
    cutter c = {
        .bits = out->bits, .least = (size_t)1 << (out->bits - 2), .most = (size_t)1 << (out->bits + 2)};
    for (int v = 0; v < GEAR_SIZE; v++) {
        uint8_t text[TEXT_SIZE + 1], digest[WEIR_HASH_SIZE];
        memcpy(text, FORMAT, TEXT_SIZE);
        text[TEXT_SIZE] = WEIR__LOW(uint8_t, v);
        weir__blake3_of(text, sizeof text, digest);
        c.gear[v] = weir__load64(digest);
    }
    size_t room = 2 * c.most > FIRST_SIZE ? 2 * c.most : FIRST_SIZE, held = 0, used = 0;
    uint64_t read_to = 0;
    weir_status status = WEIR_OK;
    uint8_t *buffer = weir__allocate(out->env, room, 1);
    if (!buffer)
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, room);
    while (status == WEIR_OK && (used < held || read_to < out->size)) {
        /* Reads on until the buffer holds the largest chunk, or the file's end. */
        if (held - used < c.most && read_to < out->size) {
            memmove(buffer, buffer + used, held - used);
            held -= used;
            used = 0;
            size_t more = room - held < out->size - read_to ? room - held : (size_t)(out->size - read_to);
            if (!weir__read_at(out->env, file, buffer + held, more, read_to)) {
                status = weir__io_error(error, WEIR_REMOTE__OPERATOR, "read", path);
                break;
            }
            held += more;
            read_to += more;
        }
        size_t left = held - used;
        size_t size = out->count > 0      ? chunk_size(&c, buffer + used, left)
                      : left < FIRST_SIZE ? left
                                          : FIRST_SIZE;
        status = add_chunk(out, buffer + used, size, error);
        used += size;
        watch->state.done_bytes += size;
        if (status == WEIR_OK)
            status = weir_remote__watch_tell(watch, error);
    }
    weir__release(out->env, buffer);
    return status;
}

/* ---- The index ------------------------------------------------------------------------------- */

void weir_remote__chunks_write(const weir_remote__chunks *chunks, weir_json_writer *w) {
    weir_json_object(w);
    weir_json_pair_text(w, "format", FORMAT);
    weir_json_pair_hex(w, "store_hash", chunks->store_hash, WEIR_HASH_SIZE);
    weir_json_pair_uint(w, "size", chunks->size);
    weir_json_pair_uint(w, "bits", chunks->bits);
    weir_json_pair_array(w, "chunks");
    for (size_t i = 0; i < chunks->count; i++) {
        weir_json_array(w);
        weir_json_hex(w, chunks->list[i].hash, WEIR_HASH_SIZE);
        weir_json_uint(w, chunks->list[i].size);
        weir_json_end_array(w);
    }
    weir_json_end_array(w);
    weir_json_end_object(w);
}

/* As it is written: lower-case hex. */
static bool hash_of(const weir_cbor_value *value, uint8_t out[WEIR_HASH_SIZE]) {
    if (value->type != WEIR_CBOR_TEXT || value->number != WEIR_REMOTE__CHUNK_NAME_SIZE)
        return false;
    for (size_t i = 0; i < WEIR_REMOTE__CHUNK_NAME_SIZE; i++)
        if (value->data[i] >= 'A' && value->data[i] <= 'F')
            return false;
    return weir__hex_decode((const char *)value->data, WEIR_REMOTE__CHUNK_NAME_SIZE, out, WEIR_HASH_SIZE);
}

static weir_status read_hash(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                             void *object) {
    return hash_of(value, ((weir_remote__chunks *)object)->store_hash)
               ? WEIR_OK
               : weir__refuse(r, field->name, "must be 64 hex digits, in lower case");
}

static bool read_chunk(const weir_cbor_value *pair, weir_remote__chunk *out) {
    weir_cbor_value hash, size;
    weir_cbor_iterator it = weir_cbor_children(pair);
    bool fits = pair->type == WEIR_CBOR_ARRAY && pair->number == 2 && weir_cbor_next(&it, NULL, &hash) &&
                weir_cbor_next(&it, NULL, &size) && hash_of(&hash, out->hash) &&
                size.type == WEIR_CBOR_UINT && size.number >= 1 &&
                size.number <= WEIR_REMOTE__CHUNK_SIZE_MOST;
    out->size = fits ? WEIR__NARROW(uint32_t, size.number) : 0;
    return fits;
}

static weir_status read_chunks(weir__reader *r, const weir__field *field, const weir_cbor_value *list,
                               void *object) {
    weir_remote__chunks *out = object;
    weir_cbor_value pair;
    uint64_t offset = 0;
    if (list->type != WEIR_CBOR_ARRAY || list->number >= UINT32_MAX)
        return weir__refuse(r, field->name, "must be a list");
    out->list = weir__allocate(out->env, (size_t)list->number, sizeof *out->list);
    if (!out->list)
        return weir__out_of_memory(r->error, WEIR_REMOTE__OPERATOR, (size_t)list->number * sizeof *out->list);
    size_t outer = weir__enter(r, field->name, strlen(field->name));
    weir_cbor_iterator it = weir_cbor_children(list);
    while (weir_cbor_next(&it, NULL, &pair)) {
        weir_remote__chunk *chunk = &out->list[out->count++];
        chunk->offset = offset;
        if (!read_chunk(&pair, chunk)) {
            (void)weir__enter_item(r, out->count - 1);
            return weir__refuse(r, NULL, "must be [hash, size], with a size from 1 to %d",
                                WEIR_REMOTE__CHUNK_SIZE_MOST);
        }
        offset += chunk->size; /* fewer than 2^32 of at most 2^28 bytes */
    }
    weir__leave(r, outer);
    return offset == out->size ? WEIR_OK : weir__refuse(r, "size", "is not that of all chunks together");
}

static const weir__field fields[] = {
    {"format", WEIR__CONSTANT(FORMAT), .flags = WEIR__REQUIRED},
    {"store_hash", WEIR__OTHER(read_hash, NULL), .flags = WEIR__REQUIRED},
    {"bits",
     WEIR__UINT(weir_remote__chunks, bits, WEIR_REMOTE__CHUNK_BITS_LEAST, WEIR_REMOTE__CHUNK_BITS_MOST),
     .flags = WEIR__REQUIRED},
    {"size", WEIR__UINT(weir_remote__chunks, size, 1, INT64_MAX), .flags = WEIR__REQUIRED},
    {"chunks", WEIR__OTHER(read_chunks, NULL), .flags = WEIR__REQUIRED},
};
static const weir__shape shape = WEIR__SHAPE(weir_remote__chunks, fields);

weir_status weir_remote__chunks_read(weir_remote__chunks *out, const char *text, size_t size,
                                     const char *name, weir_error *error) {
    weir_cbor_writer w;
    weir__reader r = {.error = error,
                      .family = WEIR_STORE_CORRUPT,
                      .failure_operator = WEIR_REMOTE__OPERATOR,
                      .name = name,
                      .meant = "an index that weir push wrote",
                      .unknown = "is not a key of " FORMAT,
                      .path = "$"};
    weir_cbor_writer_memory(&w, out->env);
    weir_status status = weir_json_read(text, size, name, WEIR_STORE_CORRUPT, &w, error);
    if (status == WEIR_OK) {
        weir_cbor_value document = weir_cbor_view(w.data);
        status = weir__read(&r, &document, &shape, out);
    }
    weir_cbor_release(&w);
    return status;
}

/* ---- By hash --------------------------------------------------------------------------------- */

static int compare_chunks(const void *a, const void *b, void *context) {
    const weir_remote__chunk *list = context;
    return memcmp(list[*(const uint32_t *)a].hash, list[*(const uint32_t *)b].hash, WEIR_HASH_SIZE);
}

weir_status weir_remote__chunks_sort(weir_remote__chunks *chunks, weir_error *error) {
    chunks->by_hash = weir__allocate(chunks->env, chunks->count, sizeof *chunks->by_hash);
    if (!chunks->by_hash)
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, chunks->count * sizeof *chunks->by_hash);
    for (size_t i = 0; i < chunks->count; i++)
        chunks->by_hash[i] = WEIR__NARROW(uint32_t, i);
    if (chunks->count > 0)
        qsort_r(chunks->by_hash, chunks->count, sizeof *chunks->by_hash, compare_chunks, chunks->list);
    return WEIR_OK;
}

const weir_remote__chunk *weir_remote__chunks_find(const weir_remote__chunks *chunks,
                                                   const uint8_t hash[WEIR_HASH_SIZE], uint32_t size) {
    size_t low = 0, high = chunks->by_hash ? chunks->count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const weir_remote__chunk *chunk = &chunks->list[chunks->by_hash[middle]];
        int order = memcmp(chunk->hash, hash, WEIR_HASH_SIZE);
        if (order == 0)
            return chunk->size == size ? chunk : NULL;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

void weir_remote__chunks_release(weir_remote__chunks *chunks) {
    if (!chunks->env)
        return;
    weir__release(chunks->env, chunks->list);
    weir__release(chunks->env, chunks->by_hash);
    *chunks = (weir_remote__chunks){0};
}
