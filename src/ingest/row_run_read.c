/* A run, read from its header to its end. The frame that is read and the one before it are in memory, because
 * the row before the first of a frame is compared with it. */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "ingest/row_run.h"

enum { PATH_CAPACITY = 4096, TRAILER_SIZE = 4, MAJOR_ARRAY = 4 };

/* A file while it is looked at or read. */
typedef struct run_input {
    const weir_env *env;
    const weir_ingest__run_table *table;
    const weir_ingest__run_file *file;
    int descriptor; /* -1: none is open */
    uint64_t at;    /* the next frame */
    char path[PATH_CAPACITY];
} run_input;

typedef struct frame {
    uint8_t head[WEIR_INGEST__RUN_HEAD_SIZE];
    uint8_t *data;
    size_t capacity;
    uint32_t size;
    uint64_t offset;
} frame;

/* SOURCE_ERROR: "FILE, in the frame at byte N, …"; `at` is NULL if it is the file as a whole. */
static weir_status refuse(const run_input *in, const frame *at, weir_error *error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static weir_status refuse(const run_input *in, const frame *at, weir_error *error, const char *format, ...) {
    char what[300], place[60] = "";
    WEIR__FORMAT(what, format);
    if (at)
        snprintf(place, sizeof place, ", in the frame at byte %llu,", (unsigned long long)at->offset);
    weir_status status =
        weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__SOURCE_OPERATOR, "%s%s %s", in->path, place, what);
    weir__note_text(error, "path", in->path, strlen(in->path));
    if (at)
        weir__note_uint(error, "offset", at->offset);
    return status;
}

/* What the system says; IO_ERROR. */
static weir_status io_error(const run_input *in, weir_error *error) {
    return weir__io_error(error, WEIR_INGEST__SOURCE_OPERATOR, "read", in->path);
}

static weir_status no_memory(weir_error *error, size_t size) {
    return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, size);
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static weir_status read_bytes(const run_input *in, void *out, size_t size, uint64_t offset,
                              weir_error *error) {
    return weir__read_at(in->env, in->descriptor, out, size, offset) ? WEIR_OK : io_error(in, error);
}

/* The frame at in->at, with the hash that it says. */
static weir_status read_frame(run_input *in, frame *out, weir_error *error) {
    uint64_t left = in->file->said.size - TRAILER_SIZE - in->at;
    uint8_t hash[WEIR_HASH_SIZE];
    out->offset = in->at;
    if (in->at > in->file->said.size - TRAILER_SIZE || left < WEIR_INGEST__RUN_HEAD_SIZE)
        return refuse(in, out, error, "is cut");
    WEIR__TRY(read_bytes(in, out->head, sizeof out->head, in->at, error));
    out->size = weir__load32(out->head);
    left -= WEIR_INGEST__RUN_HEAD_SIZE;
    if (out->size == 0 || out->size > WEIR_INGEST__RUN_FRAME_MAX || out->size > left)
        return refuse(in, out, error, "is damaged: a frame cannot have %u bytes there", out->size);
    if (!weir__grow(in->env, (void **)&out->data, &out->capacity, out->size, 1))
        return no_memory(error, out->size);
    WEIR__TRY(read_bytes(in, out->data, out->size, in->at + WEIR_INGEST__RUN_HEAD_SIZE, error));
    weir__blake3_of(out->data, out->size, hash);
    if (memcmp(hash, out->head + 4, sizeof hash) != 0)
        return refuse(in, out, error, "is damaged: its bytes have another hash");
    in->at += WEIR_INGEST__RUN_HEAD_SIZE + out->size;
    return WEIR_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static weir_status open_file(run_input *in, const weir_ingest__run_list *list, weir_error *error) {
    weir_error inner;
    uint64_t size = 0;
    int written = snprintf(in->path, sizeof in->path, "%s/%s", list->folder, in->file->path);
    if (written < 0 || written >= PATH_CAPACITY)
        return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__SOURCE_OPERATOR,
                          "the path of %s is too long", in->file->path);
    weir_status status =
        weir__file_open(in->env, in->path, &in->descriptor, WEIR_INGEST__SOURCE_OPERATOR, &inner);
    if (status != WEIR_OK)
        return weir__fail(error, status, WEIR_INGEST__SOURCE_OPERATOR, "%.600s; %s names this file",
                          inner.message, WEIR_ROW_RUN_LIST);
    if (in->env->size(in->env->context, in->descriptor, &size) != 0)
        return io_error(in, error);
    if (size != in->file->said.size)
        return refuse(in, NULL, error, "has %llu bytes, but %s says %llu", (unsigned long long)size,
                      WEIR_ROW_RUN_LIST, (unsigned long long)in->file->said.size);
    return WEIR_OK;
}

/* The bytes before the first frame, and the header, which has to be what the list says. */
static weir_status read_header(run_input *in, frame *out, weir_error *error) {
    char magic[WEIR_INGEST__RUN_MAGIC_SIZE];
    weir_cbor_writer expected;
    if (in->file->said.size < WEIR_INGEST__RUN_MAGIC_SIZE + TRAILER_SIZE)
        return refuse(in, NULL, error, "is not a run of rows: it is too short");
    WEIR__TRY(read_bytes(in, magic, sizeof magic, 0, error));
    if (memcmp(magic, WEIR_INGEST__RUN_MAGIC, sizeof magic) != 0)
        return refuse(in, NULL, error, "is not a run of rows, or is damaged: it begins as something else");
    in->at = WEIR_INGEST__RUN_MAGIC_SIZE;
    WEIR__TRY(read_frame(in, out, error));
    weir_cbor_writer_memory(&expected, in->env);
    weir_ingest__run_write_header(&expected, in->table);
    weir_status status = weir_cbor_finish(&expected, error);
    if (status == WEIR_OK && (expected.size != out->size || memcmp(expected.data, out->data, out->size) != 0))
        status = refuse(in, out, error, "is not a run of table %s as %s describes it", in->table->name,
                        WEIR_ROW_RUN_LIST);
    weir_cbor_release(&expected);
    return status;
}

/* ---- The end of a file, before it is read -------------------------------------------------------- */

/* A key of the end, as a row of the table in which nothing else is set. */
static bool read_key(const weir_ingest__run_table *table, const weir_cbor_value *key,
                     weir_ingest__value *row) {
    weir_cbor_value value;
    if (key->type != WEIR_CBOR_ARRAY || key->number != table->key_count)
        return false;
    weir_cbor_iterator it = weir_cbor_children(key);
    for (uint32_t i = 0; weir_cbor_next(&it, NULL, &value); i++)
        if (!weir_ingest__run_read_value(&value, &row[table->key[i]]))
            return false;
    return true;
}

static weir_status read_end(const run_input *in, weir_ingest__run_list *list, const frame *from,
                            weir_ingest__run_file *out, weir_error *error) {
    const weir_ingest__run_table *table = in->table;
    weir_cbor_value end, first, rows;
    bool is_end = weir_cbor_check(from->data, from->size, NULL, NULL) == WEIR_OK;
    if (!is_end)
        return refuse(in, from, error, "is damaged: that is not an end");
    out->end = weir__arena_take(&list->arena, from->size);
    if (!out->end)
        return no_memory(error, from->size);
    memcpy(out->end, from->data, from->size);
    out->end_size = from->size;
    end = weir_cbor_view(out->end);
    is_end = weir_cbor_get(&end, "rows", &rows) && rows.type == WEIR_CBOR_UINT &&
             weir_cbor_get(&end, "first", &first);
    if (!is_end || rows.number != out->said.rows)
        return refuse(in, from, error, "has another number of rows than %s says", WEIR_ROW_RUN_LIST);
    if (rows.number == 0 || table->key_count == 0)
        return WEIR_OK;
    out->first = weir__arena_take_zero(&list->arena, table->column_count, sizeof *out->first);
    if (!out->first)
        return no_memory(error, table->column_count * sizeof *out->first);
    return read_key(table, &first, out->first) ? WEIR_OK
                                               : refuse(in, from, error, "has an end without its first key");
}

static weir_status look(run_input *in, weir_ingest__run_list *list, weir_ingest__run_file *file, frame *f,
                        weir_error *error) {
    uint8_t trailer[TRAILER_SIZE];
    WEIR__TRY(open_file(in, list, error));
    WEIR__TRY(read_header(in, f, error));
    uint64_t until = file->said.size - TRAILER_SIZE;
    WEIR__TRY(read_bytes(in, trailer, sizeof trailer, until, error));
    uint64_t end_size = (uint64_t)weir__load32(trailer) + WEIR_INGEST__RUN_HEAD_SIZE;
    f->offset = until;
    if (end_size > until - in->at)
        return refuse(in, f, error, "is damaged: the last bytes do not lead to its end");
    in->at = until - end_size;
    WEIR__TRY(read_frame(in, f, error));
    if (in->at != until)
        return refuse(in, f, error, "is damaged: the last bytes do not lead to its end");
    return read_end(in, list, f, file, error);
}

weir_status weir_ingest__run_inspect(weir_ingest__run_list *list, const weir_ingest__run_table *table,
                                     weir_ingest__run_file *file, weir_error *error) {
    const weir_env *env = list->arena.env;
    run_input in = {.env = env, .table = table, .file = file, .descriptor = -1};
    frame f = {0};
    weir_status status = look(&in, list, file, &f, error);
    if (in.descriptor >= 0)
        env->close(env->context, in.descriptor);
    weir__release(env, f.data);
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct weir_ingest__run_reader {
    run_input in;
    frame frames[2]; /* the one that is read, and the one before */
    int current;
    const uint8_t *next, *end; /* of the current frame */
    weir__blake3 heads;
    uint64_t count;
    weir_ingest__value *rows[2];
    const weir_ingest__value *row; /* that was given last, or NULL */
    weir_ingest__kept_key first;
};

void weir_ingest__run_reader_close(weir_ingest__run_reader *reader) {
    if (!reader)
        return;
    const weir_env *env = reader->in.env;
    if (reader->in.descriptor >= 0)
        env->close(env->context, reader->in.descriptor);
    for (int i = 0; i < 2; i++) {
        weir__release(env, reader->frames[i].data);
        weir__release(env, reader->rows[i]);
    }
    weir_ingest__run_release_key(&reader->first);
    weir__release(env, reader);
}

static weir_status begin(weir_ingest__run_reader *reader, const weir_ingest__run_list *list,
                         weir_error *error) {
    uint32_t columns = reader->in.table->column_count;
    for (int i = 0; i < 2; i++) {
        reader->rows[i] = weir__allocate_zero(reader->in.env, columns, sizeof *reader->rows[i]);
        if (!reader->rows[i])
            return no_memory(error, columns * sizeof *reader->rows[i]);
    }
    WEIR__TRY(open_file(&reader->in, list, error));
    WEIR__TRY(read_header(&reader->in, &reader->frames[0], error));
    weir__blake3_init(&reader->heads);
    weir__blake3_update(&reader->heads, reader->frames[0].head, WEIR_INGEST__RUN_HEAD_SIZE);
    return WEIR_OK;
}

weir_status weir_ingest__run_reader_open(const weir_ingest__run_list *list,
                                         const weir_ingest__run_table *table,
                                         const weir_ingest__run_file *file, weir_ingest__run_reader **out,
                                         weir_error *error) {
    const weir_env *env = list->arena.env;
    weir_ingest__run_reader *reader = weir__allocate_zero(env, 1, sizeof *reader);
    if (!reader)
        return no_memory(error, sizeof *reader);
    reader->in = (run_input){.env = env, .table = table, .file = file, .descriptor = -1};
    reader->first.env = env;
    weir_status status = begin(reader, list, error);
    if (status == WEIR_OK)
        *out = reader;
    else
        weir_ingest__run_reader_close(reader);
    return status;
}

bool weir_ingest__run_reader_has_more(const weir_ingest__run_reader *reader) {
    return reader->next < reader->end;
}

/* At the end frame: whether the file was what its end and the list say. */
static weir_status finish(weir_ingest__run_reader *reader, const frame *f, weir_error *error) {
    const run_input *in = &reader->in;
    uint8_t hash[WEIR_HASH_SIZE];
    weir_cbor_writer w;
    if (in->at != in->file->said.size - TRAILER_SIZE)
        return refuse(in, f, error, "has something after its end");
    weir_cbor_writer_memory(&w, in->env);
    weir_ingest__run_write_end(&w, in->table, reader->first.row, reader->row, reader->count);
    weir_status status = weir_cbor_finish(&w, error);
    if (status == WEIR_OK && (w.size != f->size || memcmp(w.data, f->data, f->size) != 0))
        status =
            refuse(in, f, error, "has an end that is not of its %llu rows: another number, first or last key",
                   (unsigned long long)reader->count);
    weir_cbor_release(&w);
    if (status != WEIR_OK)
        return status;
    weir__blake3_final(&reader->heads, hash, sizeof hash);
    if (memcmp(hash, in->file->said.hash, sizeof hash) != 0)
        return refuse(in, NULL, error, "is not the file that %s names: it has another hash",
                      WEIR_ROW_RUN_LIST);
    return WEIR_OK;
}

static weir_status next_frame(weir_ingest__run_reader *reader, bool *is_ended, weir_error *error) {
    reader->current = 1 - reader->current;
    frame *f = &reader->frames[reader->current];
    WEIR__TRY(read_frame(&reader->in, f, error));
    weir__blake3_update(&reader->heads, f->head, sizeof f->head);
    *is_ended = f->data[0] >> 5 != MAJOR_ARRAY;
    if (*is_ended)
        return finish(reader, f, error);
    reader->next = f->data;
    reader->end = f->data + f->size;
    return WEIR_OK;
}

static weir_status read_row(weir_ingest__run_reader *reader, weir_ingest__value *row, weir_error *error) {
    const run_input *in = &reader->in;
    const frame *f = &reader->frames[reader->current];
    size_t size = 0;
    weir_cbor_value value;
    if (weir_cbor_check(reader->next, (size_t)(reader->end - reader->next), &size, NULL) != WEIR_OK)
        return refuse(in, f, error, "has a row that is not canonical CBOR");
    value = weir_cbor_view(reader->next);
    if (value.type != WEIR_CBOR_ARRAY || value.number != in->table->column_count)
        return refuse(in, f, error, "has a row without %u values", in->table->column_count);
    weir_cbor_iterator it = weir_cbor_children(&value);
    for (uint32_t c = 0; weir_cbor_next(&it, NULL, &value); c++)
        if (!weir_ingest__run_read_value(&value, &row[c]))
            return refuse(in, f, error, "has a value in column %s that rows cannot hold",
                          in->table->columns[c].name);
    reader->next += size;
    return WEIR_OK;
}

weir_status weir_ingest__run_reader_next(weir_ingest__run_reader *reader, const weir_ingest__value **row,
                                         weir_error *error) {
    const weir_ingest__run_table *table = reader->in.table;
    bool is_ended = false;
    *row = NULL;
    if (!weir_ingest__run_reader_has_more(reader))
        WEIR__TRY(next_frame(reader, &is_ended, error));
    if (is_ended)
        return WEIR_OK;
    weir_ingest__value *out = reader->rows[reader->count % 2];
    WEIR__TRY(read_row(reader, out, error));
    if (reader->row && weir_ingest__run_compare_rows(table, reader->row, out) > 0)
        return refuse(&reader->in, &reader->frames[reader->current], error,
                      "has rows that are not sorted by their key");
    if (reader->count == 0 && !weir_ingest__run_keep_key(&reader->first, table, out))
        return no_memory(error, 1);
    reader->count++;
    *row = reader->row = out;
    return WEIR_OK;
}
