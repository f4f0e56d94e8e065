/* Vectors that the user made: {"provider": "file", "path": "vectors.jsonl", "dim": 256}. The file has one
 * JSON object a line, {"text": "…", "embedding": [numbers]}, each with exactly dim numbers, which are taken
 * as they are and rounded once to f16. Lines that are empty are skipped.
 *
 * The file is read once, in pieces; a text is kept as its SHA-256. */
#include <string.h>

#include "base/file.h"
#include "base/names.h"
#include "ingest/settings.h"

enum { PIECE_SIZE = 1 << 20, LINE_MAX_SIZE = 64 << 20 };

typedef struct file_embedder {
    weir_ingest__embedder base;
    const char *path;
    weir__names texts; /* their hashes; by the number that each has here: */
    uint16_t *vectors;
    size_t vector_capacity;
    uint64_t *lines; /* for messages */
    size_t line_capacity;
} file_embedder;

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

static weir_status refuse_line(const line_reader *reader, const char *what, const char *fault) {
    return weir__fail(reader->error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR, "%s:%llu: %s%s",
                      reader->self->path, (unsigned long long)reader->line, what, fault);
}

static weir_status take_document(line_reader *reader, const weir_cbor_value *document) {
    weir_cbor_value text, vector;
    if (document->type != WEIR_CBOR_MAP || document->number != 2 || !weir_cbor_get(document, "text", &text) ||
        text.type != WEIR_CBOR_TEXT || !weir_cbor_get(document, "embedding", &vector))
        return refuse_line(reader, "must be {\"text\": \"…\", \"embedding\": [numbers]}", "");
    file_embedder *self = reader->self;
    const weir_env *env = self->base.env;
    uint32_t number;
    uint8_t hash[WEIR_HASH_SIZE];
    weir__sha256_of(text.data, (size_t)text.number, hash);
    weir__name_result result = weir__names_add(env, &self->texts, (const char *)hash, sizeof hash, &number);
    if (result == WEIR__NAME_PRESENT)
        return weir__fail(reader->error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                          "%s:%llu: this text has a vector already, in line %llu", self->path,
                          (unsigned long long)reader->line, (unsigned long long)self->lines[number]);
    if (result == WEIR__NAME_NO_MEMORY ||
        !weir__grow(env, (void **)&self->vectors, &self->vector_capacity, (size_t)number + 1,
                    self->base.dim * sizeof *self->vectors) ||
        !weir__grow(env, (void **)&self->lines, &self->line_capacity, (size_t)number + 1,
                    sizeof *self->lines))
        return weir__out_of_memory(reader->error, WEIR_INGEST__EMBED_OPERATOR, self->texts.count);
    self->lines[number] = reader->line;
    const char *fault = weir_ingest__vector_read(&vector, self->base.dim, true, reader->numbers,
                                                 self->vectors + (size_t)number * self->base.dim);
    return fault ? refuse_line(reader, "its embedding ", fault) : WEIR_OK;
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
        status = refuse_line(reader, why.message, "");
    } else {
        weir_cbor_value document = weir_cbor_view(w.data);
        status = take_document(reader, &document);
    }
    weir_cbor_release(&w);
    return status;
}

/* Takes the whole lines of each piece, and keeps what follows them for the next one. */
static weir_status read_pieces(line_reader *reader) {
    const file_embedder *self = reader->self;
    const weir_env *env = self->base.env;
    for (;;) {
        if (!weir__grow(env, (void **)&reader->buffer, &reader->capacity, reader->size + PIECE_SIZE, 1))
            return weir__out_of_memory(reader->error, WEIR_INGEST__EMBED_OPERATOR, reader->size + PIECE_SIZE);
        ssize_t got = env->read(env->context, reader->file, reader->buffer + reader->size, PIECE_SIZE);
        if (got < 0)
            return weir__io_error(reader->error, WEIR_INGEST__EMBED_OPERATOR, "read", self->path);
        reader->size += (size_t)got;
        size_t done = 0;
        while (done < reader->size) {
            const char *start = reader->buffer + done;
            const char *end = memchr(start, '\n', reader->size - done);
            if (!end && got > 0)
                break;
            size_t size = end ? (size_t)(end - start) : reader->size - done;
            WEIR__TRY(take_line(reader, start, size));
            done += size + (end ? 1 : 0);
        }
        memmove(reader->buffer, reader->buffer + done, reader->size - done);
        reader->size -= done;
        if (reader->size > LINE_MAX_SIZE)
            return refuse_line(reader, "the next line is longer than 64 MiB", "");
        if (got == 0)
            return WEIR_OK;
    }
}

/* ---- The embedder ---------------------------------------------------------------------------- */

static void close_file(weir_ingest__embedder *base) {
    file_embedder *self = (file_embedder *)base;
    weir__names_release(base->env, &self->texts);
    weir__release(base->env, self->vectors);
    weir__release(base->env, self->lines);
}

static weir_status open_file(weir_ingest__embedder *base, weir_error *error) {
    file_embedder *self = (file_embedder *)base;
    const weir_env *env = base->env;
    line_reader reader = {.self = self, .error = error};
    WEIR__TRY(weir__file_open(env, self->path, &reader.file, WEIR_INGEST__EMBED_OPERATOR, error));
    reader.numbers = weir__allocate(env, base->dim, sizeof *reader.numbers);
    weir_status status = reader.numbers ? read_pieces(&reader)
                                        : weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, base->dim);
    weir__release(env, reader.numbers);
    weir__release(env, reader.buffer);
    env->close(env->context, reader.file);
    return status;
}

static weir_status embed_from_file(weir_ingest__embedder *base, const weir_ingest__bytes *texts, size_t count,
                                   uint16_t *out, weir_error *error) {
    const file_embedder *self = (const file_embedder *)base;
    for (size_t i = 0; i < count; i++) {
        uint8_t hash[WEIR_HASH_SIZE];
        weir__sha256_of(texts[i].data, texts[i].size, hash);
        uint32_t number = weir__names_find(&self->texts, (const char *)hash, sizeof hash);
        if (number == WEIR__NO_NAME) {
            char text[WEIR_INGEST__EXCERPT_SIZE];
            weir_ingest__excerpt(texts[i].data, texts[i].size, text);
            return weir__fail(
                error, WEIR_SOURCE_ERROR, WEIR_INGEST__EMBED_OPERATOR,
                "%s has no vector for the text %s; add it, or leave its column out of the schema", self->path,
                text);
        }
        memcpy(out + i * base->dim, self->vectors + (size_t)number * base->dim, base->dim * sizeof *out);
    }
    return WEIR_OK;
}

static const weir__field fields[] = {
    WEIR_INGEST__EMBED_FIELDS,
    {"path", WEIR__TEXT(file_embedder, path), .least = 1, .flags = WEIR__REQUIRED},
};
static const weir__shape shape = WEIR__SHAPE(file_embedder, fields);

const weir_ingest__embedder_kind weir_ingest__embedder_file = {.provider = "file",
                                                               .shape = &shape,
                                                               .batch_max = 1024,
                                                               .open = open_file,
                                                               .close = close_file,
                                                               .embed = embed_from_file};
