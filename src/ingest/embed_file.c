/* Vectors that the user made: {"provider": "file", "path": "vectors.jsonl", "dim": 256}. The file has one
 * JSON object a line, {"text": "…", "embedding": [numbers]}, each with exactly dim numbers, which are taken
 * as they are and rounded once to f16. Lines that are empty are skipped.
 *
 * The file is read once, in pieces; a text is kept as its SHA-256, in an open-addressing table. */
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "ingest/settings.h"

enum { PIECE_SIZE = 1 << 20, LINE_MAX_SIZE = 64 << 20, KEY_SIZE = WEIR_HASH_SIZE, BATCH = 1024 };

typedef struct file_embedder {
    weir_ingest__embedder base;
    const char *path;
    uint8_t *keys; /* by entry */
    size_t key_capacity;
    uint16_t *vectors; /* by entry */
    size_t vector_capacity;
    uint64_t *lines; /* by entry, for messages */
    size_t line_capacity;
    size_t count;
    size_t *slots; /* entry + 1, 0 if free; a power of two of them, at most half of them taken */
    size_t slot_count;
} file_embedder;

/* ---- The table ------------------------------------------------------------------------------- */

/* The slot of a key: its own, or the free one where it belongs. */
static size_t find_slot(const file_embedder *self, const uint8_t key[KEY_SIZE]) {
    size_t slot = (size_t)weir__load64(key) & (self->slot_count - 1);
    while (self->slots[slot] != 0 &&
           memcmp(self->keys + (self->slots[slot] - 1) * KEY_SIZE, key, KEY_SIZE) != 0)
        slot = (slot + 1) & (self->slot_count - 1);
    return slot;
}

static bool grow_slots(file_embedder *self) {
    enum { SLOTS_MIN = 1024 };
    const weir_env *env = self->base.env;
    size_t count = self->slot_count ? 2 * self->slot_count : SLOTS_MIN;
    size_t *slots = weir__allocate_zero(env, count, sizeof *slots);
    if (!slots)
        return false;
    weir__release(env, self->slots);
    self->slots = slots;
    self->slot_count = count;
    for (size_t i = 0; i < self->count; i++)
        self->slots[find_slot(self, self->keys + i * KEY_SIZE)] = i + 1;
    return true;
}

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct line_reader {
    file_embedder *self;
    int file;
    char *buffer;
    size_t size;
    size_t capacity;
    uint64_t line;
    double *numbers;
    weir_error *error;
} line_reader;

static weir_status refuse_line(const line_reader *reader, const char *what) {
    return weir__fail(reader->error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR, "%s:%llu: %s",
                      reader->self->path, (unsigned long long)reader->line, what);
}

static weir_status take_document(line_reader *reader, const weir_cbor_value *document) {
    weir_cbor_value text, vector;
    if (document->type != WEIR_CBOR_MAP || document->number != 2 || !weir_cbor_get(document, "text", &text) ||
        text.type != WEIR_CBOR_TEXT || !weir_cbor_get(document, "embedding", &vector))
        return refuse_line(reader, "must be {\"text\": \"…\", \"embedding\": [numbers]}");
    file_embedder *self = reader->self;
    const weir_env *env = self->base.env;
    size_t needed = self->count + 1;
    bool has_room =
        weir__grow(env, (void **)&self->keys, &self->key_capacity, needed, KEY_SIZE) &&
        weir__grow(env, (void **)&self->vectors, &self->vector_capacity, needed,
                   self->base.dim * sizeof *self->vectors) &&
        weir__grow(env, (void **)&self->lines, &self->line_capacity, needed, sizeof *self->lines) &&
        (2 * needed <= self->slot_count || grow_slots(self));
    if (!has_room)
        return weir__out_of_memory(reader->error, WEIR_INGEST__EMBED_OPERATOR, self->count);
    uint8_t *key = self->keys + self->count * KEY_SIZE;
    weir__sha256_of(text.data, (size_t)text.number, key);
    size_t slot = find_slot(self, key);
    if (self->slots[slot] != 0)
        return weir__fail(reader->error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                          "%s:%llu: this text has a vector already, in line %llu", self->path,
                          (unsigned long long)reader->line,
                          (unsigned long long)self->lines[self->slots[slot] - 1]);
    const char *fault = weir_ingest__vector_read(&vector, self->base.dim, true, reader->numbers,
                                                 self->vectors + self->count * self->base.dim);
    if (fault) {
        char what[160] = "its embedding ";
        strncat(what, fault, sizeof what - strlen(what) - 1);
        return refuse_line(reader, what);
    }
    self->lines[self->count] = reader->line;
    self->slots[slot] = ++self->count;
    return WEIR_OK;
}

static weir_status take_line(line_reader *reader, const char *line, size_t size) {
    reader->line++;
    size_t blank = 0;
    while (blank < size && strchr(" \t\r", line[blank]))
        blank++;
    if (blank == size)
        return WEIR_OK;
    weir_cbor_writer w;
    weir_error why;
    weir_cbor_writer_memory(&w, reader->self->base.env);
    weir_status status = weir_json_read(line, size, "the line", WEIR_CBOR_INVALID, &w, &why);
    if (!status)
        status = weir_cbor_finish(&w, &why);
    if (status == WEIR_OUT_OF_MEMORY) {
        status = weir__out_of_memory(reader->error, WEIR_INGEST__EMBED_OPERATOR, size);
    } else if (status) {
        status = refuse_line(reader, why.message);
    } else {
        weir_cbor_value document = weir_cbor_view(w.data);
        status = take_document(reader, &document);
    }
    weir_cbor_release(&w);
    return status;
}

/* Hands over the whole lines in the buffer and keeps what follows them. */
static weir_status take_lines(line_reader *reader, bool is_end) {
    size_t done = 0;
    while (done < reader->size) {
        const char *start = reader->buffer + done;
        const char *end = memchr(start, '\n', reader->size - done);
        if (!end && !is_end)
            break;
        size_t size = end ? (size_t)(end - start) : reader->size - done;
        WEIR__TRY(take_line(reader, start, size));
        done += size + (end ? 1 : 0);
    }
    memmove(reader->buffer, reader->buffer + done, reader->size - done);
    reader->size -= done;
    if (reader->size > LINE_MAX_SIZE)
        return refuse_line(reader, "the next line is longer than 64 MiB");
    return WEIR_OK;
}

static weir_status read_pieces(line_reader *reader) {
    const file_embedder *self = reader->self;
    const weir_env *env = self->base.env;
    for (;;) {
        if (!weir__grow(env, (void **)&reader->buffer, &reader->capacity, reader->size + PIECE_SIZE, 1))
            return weir__out_of_memory(reader->error, WEIR_INGEST__EMBED_OPERATOR, reader->size + PIECE_SIZE);
        ssize_t size = env->read(env->context, reader->file, reader->buffer + reader->size, PIECE_SIZE);
        if (size < 0)
            return weir__io_error(reader->error, WEIR_INGEST__EMBED_OPERATOR, "read", self->path);
        reader->size += (size_t)size;
        weir_status status = take_lines(reader, size == 0);
        if (status || size == 0)
            return status;
    }
}

static weir_status read_file(file_embedder *self, weir_error *error) {
    const weir_env *env = self->base.env;
    line_reader reader = {.self = self, .error = error};
    WEIR__TRY(weir__file_open(env, self->path, &reader.file, WEIR_INGEST__EMBED_OPERATOR, error));
    reader.numbers = weir__allocate(env, self->base.dim, sizeof *reader.numbers);
    weir_status status = reader.numbers
                             ? read_pieces(&reader)
                             : weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, self->base.dim);
    weir__release(env, reader.numbers);
    weir__release(env, reader.buffer);
    env->close(env->context, reader.file);
    return status;
}

/* ---- The embedder ---------------------------------------------------------------------------- */

static void close_file(weir_ingest__embedder *base) {
    file_embedder *self = (file_embedder *)base;
    const weir_env *env = base->env;
    weir__arena_release(&base->arena);
    weir__release(env, self->keys);
    weir__release(env, self->vectors);
    weir__release(env, self->lines);
    weir__release(env, self->slots);
    weir__release(env, self);
}

static const weir__field fields[] = {
    WEIR_INGEST__EMBED_FIELDS,
    {"path", WEIR__TEXT(file_embedder, path), .least = 1, .flags = WEIR__REQUIRED},
};
static const weir__shape shape = WEIR__SHAPE(file_embedder, fields);

static weir_status open_file(const weir_env *env, const weir_cbor_value *map, weir_ingest__embedder **out,
                             weir_error *error) {
    env = weir__env_or_default(env);
    *out = NULL;
    file_embedder *self = weir__allocate_zero(env, 1, sizeof *self);
    if (!self)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, sizeof *self);
    self->base = (weir_ingest__embedder){
        .kind = &weir_ingest__embedder_file, .env = env, .batch_max = BATCH, .callers = 0};
    weir_status status = weir_ingest__settings_read(&self->base, map, &shape, error);
    if (!status)
        status = read_file(self, error);
    if (status)
        close_file(&self->base);
    else
        *out = &self->base;
    return status;
}

static weir_status embed_from_file(weir_ingest__embedder *base, const weir_ingest__bytes *texts, size_t count,
                                   uint16_t *out, weir_error *error) {
    const file_embedder *self = (const file_embedder *)base;
    for (size_t i = 0; i < count; i++) {
        uint8_t key[KEY_SIZE];
        weir__sha256_of(texts[i].data, texts[i].size, key);
        size_t entry = self->slot_count ? self->slots[find_slot(self, key)] : 0;
        if (entry == 0) {
            char text[WEIR_INGEST__EXCERPT_SIZE];
            weir_ingest__excerpt(texts[i].data, texts[i].size, text);
            return weir__fail(
                error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                "%s has no vector for the text %s; add it, or leave its column out of the schema", self->path,
                text);
        }
        memcpy(out + i * base->dim, self->vectors + (entry - 1) * base->dim, base->dim * sizeof *out);
    }
    return WEIR_OK;
}

const weir_ingest__embedder_kind weir_ingest__embedder_file = {
    .provider = "file", .open = open_file, .close = close_file, .embed = embed_from_file};
