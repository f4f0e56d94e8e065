/* CSV: bytes to records. The buffer holds at least one whole record: what has been read of the next one
 * moves to the front when more is needed, and the buffer grows while a record does not fit. Fields are found
 * first, as they lie; only those with doubled quotes are then brought together, in place, so that a record
 * that goes on beyond the buffer can be looked at again. */
#include <fcntl.h>
#include <string.h>
#include <zlib.h>

#include "base/boundary.h"
#include "ingest/csv.h"

enum { BUFFER_SIZE = 1 << 18, RECORD_MAX = 256 << 20, INPUT_SIZE = 1 << 16 };

/* ---- Bytes of a file, compressed or not ------------------------------------------------------ */

typedef struct byte_source {
    const weir_env *env;
    int file;
    bool is_compressed;
    bool has_ended; /* the compressed data have; more members may follow */
    z_stream stream;
    unsigned char *input;
} byte_source;

static void *zlib_allocate(void *context, unsigned count, unsigned size) {
    return weir__allocate(context, count, size);
}

static void zlib_release(void *context, void *memory) {
    weir__release(context, memory);
}

static weir_status bytes_open(byte_source *source, const weir_env *env, const char *path, weir_error *error) {
    *source = (byte_source){.env = env, .file = env->open(env->context, path, O_RDONLY, 0)};
    if (source->file < 0)
        return WEIR_INGEST__SOURCE_ERROR(error, "%s cannot be opened: %m", path);
    if (!weir_ingest__name_ends_in(path, ".gz"))
        return WEIR_OK;
    source->input = weir__allocate(env, INPUT_SIZE, 1);
    source->stream = (z_stream){.zalloc = zlib_allocate, .zfree = zlib_release, .opaque = (void *)env};
    if (!source->input || inflateInit2(&source->stream, 15 + 16) != Z_OK)
        return weir_ingest__source_no_memory(error, INPUT_SIZE);
    source->is_compressed = true;
    return WEIR_OK;
}

static void bytes_close(byte_source *source) {
    if (source->is_compressed)
        inflateEnd(&source->stream);
    weir__release(source->env, source->input);
    if (source->file >= 0)
        source->env->close(source->env->context, source->file);
}

/* Bytes read, 0 at the end; -1: the system's failure, -2: damaged data. */
static ssize_t bytes_inflate(byte_source *source, char *out, size_t size) {
    z_stream *stream = &source->stream;
    stream->next_out = (unsigned char *)out;
    stream->avail_out = (unsigned)size;
    while (stream->avail_out == size) {
        if (stream->avail_in == 0) {
            ssize_t got = source->env->read(source->env->context, source->file, source->input, INPUT_SIZE);
            if (got < 0)
                return -1;
            if (got == 0)
                return source->has_ended ? 0 : -2;
            stream->next_in = source->input;
            stream->avail_in = (unsigned)got;
        }
        if (source->has_ended && inflateReset(stream) != Z_OK)
            return -2;
        source->has_ended = false;
        int result = inflate(stream, Z_NO_FLUSH);
        source->has_ended = result == Z_STREAM_END;
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            return -2;
    }
    WEIR__WRITTEN(out, size - stream->avail_out);
    return (ssize_t)(size - stream->avail_out);
}

static weir_status bytes_read(byte_source *source, const char *path, char *out, size_t size, size_t *got,
                              weir_error *error) {
    size_t most = size < INT32_MAX ? size : INT32_MAX;
    ssize_t result = source->is_compressed ? bytes_inflate(source, out, most)
                                           : source->env->read(source->env->context, source->file, out, most);
    *got = result > 0 ? (size_t)result : 0;
    if (result == -1)
        return WEIR_INGEST__SOURCE_ERROR(error, "%s cannot be read: %m", path);
    if (result == -2)
        return WEIR_INGEST__SOURCE_ERROR(error, "%s is cut off or is not gzip; test it with gzip -t", path);
    return WEIR_OK;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

typedef enum record_end { RECORD_WHOLE, RECORD_GOES_ON, RECORD_OPEN_QUOTE } record_end;

/* The field at `at`: where it ends (at a delimiter, a line's end or the end of the text). */
typedef struct field_scan {
    size_t end;
    bool is_quoted;
    bool is_open; /* no closing quote */
    uint64_t lines;
} field_scan;

static field_scan scan_field(const char *text, size_t size, const weir_ingest__csv_dialect *dialect,
                             size_t at) {
    field_scan scan = {.is_quoted = dialect->quote && at < size && text[at] == dialect->quote};
    if (scan.is_quoted) {
        for (at++;; at++) {
            if (at >= size) {
                scan.is_open = true;
                scan.end = size;
                return scan;
            }
            if (text[at] == '\n')
                scan.lines++;
            if (text[at] != dialect->quote)
                continue;
            if (at + 1 < size && text[at + 1] == dialect->quote)
                at++;
            else
                break;
        }
        at++;
    }
    while (at < size && text[at] != dialect->delimiter && text[at] != '\n' && text[at] != '\r')
        at++;
    scan.end = at;
    return scan;
}

/* A quoted field's content: without its quotes, doubled ones single. Written over the text itself. */
static size_t unquote(char *field, size_t size, char quote) {
    size_t from = 1, to = 0;
    while (from < size) {
        if (field[from] == quote) {
            if (from + 1 < size && field[from + 1] == quote)
                from++;
            else
                break;
        }
        field[to++] = field[from++];
    }
    for (from++; from < size; from++)
        field[to++] = field[from];
    return to;
}

bool weir_ingest__csv_split(const char *text, size_t size, const weir_ingest__csv_dialect *dialect,
                            size_t *at, weir_ingest__bytes *fields, uint32_t field_max,
                            uint32_t *field_count) {
    while (*at < size && (text[*at] == '\n' || text[*at] == '\r'))
        ++*at;
    uint32_t count = 0;
    for (size_t place = *at; place < size;) {
        field_scan scan = scan_field(text, size, dialect, place);
        if (scan.is_open || scan.end >= size)
            break;
        if (count < field_max) {
            size_t skipped = scan.is_quoted ? 1 : 0;
            size_t length = scan.end - place;
            bool is_closed_last = scan.is_quoted && text[scan.end - 1] == dialect->quote;
            fields[count] =
                (weir_ingest__bytes){text + place + skipped, length - skipped - (is_closed_last ? 1 : 0)};
        }
        count++;
        place = scan.end + 1;
        if (text[scan.end] != dialect->delimiter) {
            *at = place;
            *field_count = count;
            return true;
        }
    }
    return false;
}

/* ---- The reader ------------------------------------------------------------------------------ */

struct weir_ingest__csv_reader {
    const weir_env *env;
    char *path;
    weir_ingest__csv_dialect dialect;
    byte_source bytes;
    char *buffer;
    size_t capacity;
    size_t start; /* of the next record */
    size_t end;
    bool is_at_end; /* of the file: nothing more will come */
    uint64_t line;
    weir_ingest__bytes *fields;
    bool *is_quoted;
    size_t field_capacity;
    size_t quoted_capacity;
};

static weir_status fill(weir_ingest__csv_reader *r, weir_error *error) {
    size_t kept = r->end - r->start;
    memmove(r->buffer, r->buffer + r->start, kept);
    r->start = 0;
    r->end = kept;
    if (r->end == r->capacity) {
        if (r->capacity >= RECORD_MAX)
            return WEIR_INGEST__SOURCE_ERROR(
                error, "%s, line %llu: a record of more than 256 MiB; is a quote missing?", r->path,
                (unsigned long long)r->line);
        char *grown = r->env->resize(r->env->context, r->buffer, 2 * r->capacity);
        if (!grown)
            return weir_ingest__source_no_memory(error, 2 * r->capacity);
        r->buffer = grown;
        r->capacity *= 2;
    }
    size_t got;
    weir_status status =
        bytes_read(&r->bytes, r->path, r->buffer + r->end, r->capacity - r->end, &got, error);
    r->end += got;
    r->is_at_end = status == WEIR_OK && got == 0;
    return status;
}

/* A byte order mark: UTF-8's is skipped, UTF-16's refused. */
static weir_status check_mark(weir_ingest__csv_reader *r, weir_error *error) {
    while (r->end < 3 && !r->is_at_end)
        WEIR__TRY(fill(r, error));
    if (r->end >= 2 && (memcmp(r->buffer, "\xff\xfe", 2) == 0 || memcmp(r->buffer, "\xfe\xff", 2) == 0))
        return WEIR_INGEST__SOURCE_ERROR(error, "%s is UTF-16; convert it first: iconv -f UTF-16 -t UTF-8",
                                         r->path);
    if (r->end >= 3 && memcmp(r->buffer, "\xef\xbb\xbf", 3) == 0)
        r->start = 3;
    return WEIR_OK;
}

weir_status weir_ingest__csv_open(const weir_env *env, const char *path,
                                  const weir_ingest__csv_dialect *dialect, weir_ingest__csv_reader **out,
                                  weir_error *error) {
    weir_ingest__csv_reader *r = weir__allocate_zero(env, 1, sizeof *r);
    if (!r)
        return weir_ingest__source_no_memory(error, sizeof *r);
    r->env = env;
    r->dialect = *dialect;
    r->line = 1;
    r->bytes = (byte_source){.env = env, .file = -1};
    r->path = weir__copy_text(env, path, strlen(path));
    r->buffer = weir__allocate(env, BUFFER_SIZE, 1);
    r->capacity = BUFFER_SIZE;
    weir_status status = r->path && r->buffer ? bytes_open(&r->bytes, env, path, error)
                                              : weir_ingest__source_no_memory(error, BUFFER_SIZE);
    if (status == WEIR_OK)
        status = check_mark(r, error);
    if (status != WEIR_OK) {
        weir_ingest__csv_close(r);
        return status;
    }
    *out = r;
    return WEIR_OK;
}

void weir_ingest__csv_close(weir_ingest__csv_reader *r) {
    if (!r)
        return;
    bytes_close(&r->bytes);
    weir__release(r->env, r->path);
    weir__release(r->env, r->buffer);
    weir__release(r->env, r->fields);
    weir__release(r->env, r->is_quoted);
    weir__release(r->env, r);
}

/* Finds the fields of the record at `start`, and where the next begins. */
static record_end find_fields(weir_ingest__csv_reader *r, uint32_t *count, size_t *next, uint64_t *lines,
                              bool *is_short_of_memory) {
    size_t at = r->start;
    *count = 0;
    *lines = 0;
    for (;;) {
        field_scan scan = scan_field(r->buffer, r->end, &r->dialect, at);
        /* A carriage return that is the last byte here may be followed by the line feed that belongs to it.
         */
        bool is_cut = scan.end == r->end || (scan.end + 1 == r->end && r->buffer[scan.end] == '\r');
        if (scan.is_open && r->is_at_end)
            return RECORD_OPEN_QUOTE;
        if (is_cut && !r->is_at_end)
            return RECORD_GOES_ON;
        *lines += scan.lines;
        size_t needed = (size_t)*count + 1;
        *is_short_of_memory =
            !weir__grow(r->env, (void **)&r->fields, &r->field_capacity, needed, sizeof *r->fields) ||
            !weir__grow(r->env, (void **)&r->is_quoted, &r->quoted_capacity, needed, sizeof *r->is_quoted);
        if (*is_short_of_memory)
            return RECORD_WHOLE;
        r->fields[*count] = (weir_ingest__bytes){r->buffer + at, scan.end - at};
        r->is_quoted[(*count)++] = scan.is_quoted;
        at = scan.end;
        if (at == r->end || r->buffer[at] != r->dialect.delimiter)
            break;
        at++;
    }
    if (at < r->end) {
        bool is_return = r->buffer[at] == '\r';
        at++;
        ++*lines;
        if (is_return && at < r->end && r->buffer[at] == '\n')
            at++;
    }
    *next = at;
    return RECORD_WHOLE;
}

/* Line ends between records are passed over; false at the end of the file. */
static weir_status skip_empty(weir_ingest__csv_reader *r, bool *has_more, weir_error *error) {
    for (;;) {
        while (r->start < r->end && (r->buffer[r->start] == '\n' || r->buffer[r->start] == '\r')) {
            bool is_pair =
                r->buffer[r->start] == '\r' && r->start + 1 < r->end && r->buffer[r->start + 1] == '\n';
            r->start += is_pair ? 2 : 1;
            r->line++;
        }
        *has_more = r->start < r->end;
        if (*has_more || r->is_at_end)
            return WEIR_OK;
        WEIR__TRY(fill(r, error));
    }
}

weir_status weir_ingest__csv_next(weir_ingest__csv_reader *r, weir_ingest__csv_record *record,
                                  weir_error *error) {
    bool has_more, is_short_of_memory = false;
    uint32_t count = 0;
    size_t next = 0;
    uint64_t lines = 0;
    *record = (weir_ingest__csv_record){.line = r->line};
    weir_status status = skip_empty(r, &has_more, error);
    if (status != WEIR_OK || !has_more)
        return status;
    record_end found;
    while ((found = find_fields(r, &count, &next, &lines, &is_short_of_memory)) == RECORD_GOES_ON) {
        WEIR__TRY(fill(r, error));
    }
    if (is_short_of_memory)
        return weir_ingest__source_no_memory(error, count * sizeof *r->fields);
    if (found == RECORD_OPEN_QUOTE)
        return WEIR_INGEST__SOURCE_ERROR(
            error, "%s, line %llu: a quoted field does not end; is another quote character meant?", r->path,
            (unsigned long long)r->line);
    for (uint32_t i = 0; i < count; i++)
        if (r->is_quoted[i])
            r->fields[i].size = unquote((char *)r->fields[i].data, r->fields[i].size, r->dialect.quote);
    *record = (weir_ingest__csv_record){r->fields, count, r->line};
    r->line += lines;
    r->start = next;
    return WEIR_OK;
}

weir_status weir_ingest__csv_head(const weir_env *env, const char *path, char *out, size_t capacity,
                                  size_t *size, weir_error *error) {
    byte_source bytes = {.env = env, .file = -1};
    size_t got = 1;
    *size = 0;
    weir_status status = bytes_open(&bytes, env, path, error);
    while (status == WEIR_OK && got > 0 && *size < capacity) {
        status = bytes_read(&bytes, path, out + *size, capacity - *size, &got, error);
        *size += got;
    }
    bytes_close(&bytes);
    if (status == WEIR_OK && *size >= 3 && memcmp(out, "\xef\xbb\xbf", 3) == 0) {
        memmove(out, out + 3, *size - 3);
        *size -= 3;
    }
    return status;
}
