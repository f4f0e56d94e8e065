/* Reads a trace record by record, each checked as CBOR, as a kind that is known, in its place in the chain,
 * and with the fields that the tools rely on. The buffer holds one record at least; a record that is not
 * whole at the end of the file is a fault there. */
#include <string.h>

#include "base/file.h"
#include "trace/record.h"
#include "weir_tool/sampler_tools.h"

static const char operator_name[] = "weir.trace.read";

enum { BUFFER_FIRST = 1 << 16, RECORD_MAX = 1 << 30 };

struct weir_trace_reader {
    const weir_env *env;
    char *path;
    int file;
    uint8_t *buffer;
    size_t capacity;
    size_t begin; /* of what is not consumed */
    size_t end;
    uint64_t begin_offset; /* of `begin` in the file */
    bool at_end;
    bool has_ended;  /* a run_end was read */
    bool has_failed; /* a failure was read */
    uint8_t link[WEIR_HASH_SIZE];
    uint8_t *header_bytes;
    weir_cbor_value header;
};

static weir_status corrupt(weir_trace_reader *r, uint64_t offset, const char *what, weir_error *error) {
    weir_status status = weir__fail(error, WEIR_TRACE_CORRUPT, operator_name, "%s: %s at byte %llu", r->path,
                                    what, (unsigned long long)offset);
    weir__note_uint(error, "offset", offset);
    weir__note_text(error, "path", r->path, strlen(r->path));
    return status;
}

/* Reads more bytes behind what is there, making room first. */
static weir_status read_more(weir_trace_reader *r, weir_error *error) {
    const weir_env *env = r->env;
    memmove(r->buffer, r->buffer + r->begin, r->end - r->begin);
    r->end -= r->begin;
    r->begin = 0;
    if (r->end == r->capacity) {
        void *memory = r->buffer;
        if (r->capacity >= RECORD_MAX)
            return corrupt(r, r->begin_offset, "a record of more than 1 GiB", error);
        if (!weir__grow(env, &memory, &r->capacity, 2 * r->capacity, 1))
            return weir__out_of_memory(error, operator_name, 2 * r->capacity);
        r->buffer = memory;
    }
    ssize_t got = env->read(env->context, r->file, r->buffer + r->end, r->capacity - r->end);
    if (got < 0)
        return weir__io_error(error, operator_name, "read", r->path);
    r->end += (size_t)got;
    r->at_end = got == 0;
    return WEIR_OK;
}

/* Makes one whole, canonical item stand at buffer[begin]; *size 0 at the end of the file. */
static weir_status read_item(weir_trace_reader *r, size_t *size, weir_error *error) {
    for (;;) {
        weir_error fault;
        size_t available = r->end - r->begin;
        if (available > 0 && weir_cbor_check(r->buffer + r->begin, available, size, &fault) == WEIR_OK)
            return WEIR_OK;
        if (r->at_end && available == 0) {
            *size = 0;
            return WEIR_OK;
        }
        if (r->at_end)
            return corrupt(r, r->begin_offset, "a record that is cut or is not canonical CBOR begins", error);
        WEIR__TRY(read_more(r, error));
    }
}

/* ---- Shape ----------------------------------------------------------------------------------- */

typedef struct field {
    const char *name;
    weir_cbor_type type;
} field;

static bool has_fields(const weir_cbor_value *map, const field *fields) {
    for (; fields->name; fields++) {
        weir_cbor_value value;
        if (!weir_cbor_get(map, fields->name, &value) || value.type != fields->type)
            return false;
    }
    return true;
}

static bool has_cursor(const weir_cbor_value *map, const char *key) {
    static const field fields[] = {{"epoch", WEIR_CBOR_UINT}, {"global_index", WEIR_CBOR_UINT}, {NULL, 0}};
    weir_cbor_value cursor;
    return weir_cbor_get(map, key, &cursor) && has_fields(&cursor, fields);
}

static bool is_hash(const weir_cbor_value *map, const char *key) {
    weir_cbor_value value;
    return weir_cbor_get(map, key, &value) && value.type == WEIR_CBOR_BYTES && value.number == WEIR_HASH_SIZE;
}

static bool is_header(const weir_cbor_value *map) {
    static const field fields[] = {{"mix", WEIR_CBOR_MAP},
                                   {"rank", WEIR_CBOR_UINT},
                                   {"batch", WEIR_CBOR_MAP},
                                   {"manifest", WEIR_CBOR_MAP},
                                   {"schedule", WEIR_CBOR_TEXT},
                                   {"world_size", WEIR_CBOR_UINT},
                                   {"replay_token", WEIR_CBOR_BYTES},
                                   {"store_hashes", WEIR_CBOR_ARRAY},
                                   {"trace_version", WEIR_CBOR_TEXT},
                                   {NULL, 0}};
    return has_fields(map, fields) && is_hash(map, "manifest_hash") && is_hash(map, "mix_hash") &&
           is_hash(map, "batch_config_hash") && weir_trace__uint(map, "rank") <= UINT32_MAX &&
           weir_trace__uint(map, "world_size") <= UINT32_MAX;
}

static bool is_iter(const weir_cbor_value *map) {
    static const field fields[] = {{"t", WEIR_CBOR_UINT},
                                   {"dataset_key", WEIR_CBOR_TEXT},
                                   {"is_shuffled", WEIR_CBOR_BOOL},
                                   {"valid_count", WEIR_CBOR_UINT},
                                   {"effective_batch_size", WEIR_CBOR_UINT},
                                   {NULL, 0}};
    weir_cbor_value key;
    return has_fields(map, fields) && has_cursor(map, "cursor_before") && has_cursor(map, "cursor_after") &&
           weir_cbor_get(map, "dataset_key", &key) && !memchr(key.data, 0, (size_t)key.number);
}

/* A member that is of this type, or null. */
static bool is_or_null(const weir_cbor_value *map, const char *key, weir_cbor_type type) {
    weir_cbor_value value;
    return weir_cbor_get(map, key, &value) && (value.type == type || value.type == WEIR_CBOR_NULL);
}

static bool is_failure(const weir_cbor_value *map) {
    static const field fields[] = {{"t", WEIR_CBOR_UINT},
                                   {"failure_code", WEIR_CBOR_TEXT},
                                   {"failure_operator", WEIR_CBOR_TEXT},
                                   {"replay_token", WEIR_CBOR_BYTES},
                                   {NULL, 0}};
    weir_cbor_value cursor;
    return has_fields(map, fields) && is_or_null(map, "dataset_key", WEIR_CBOR_TEXT) &&
           is_or_null(map, "data_replay_t", WEIR_CBOR_BYTES) &&
           is_or_null(map, "cursor_before", WEIR_CBOR_MAP) && weir_cbor_get(map, "cursor_before", &cursor) &&
           (cursor.type == WEIR_CBOR_NULL || has_cursor(map, "cursor_before"));
}

/* A run_end of this version or of one that had no status. */
static bool is_end(const weir_cbor_value *map) {
    static const field fields[] = {{"final_epoch", WEIR_CBOR_UINT},
                                   {"final_cursors", WEIR_CBOR_MAP},
                                   {"total_samples_seen", WEIR_CBOR_UINT},
                                   {NULL, 0}};
    weir_cbor_value status;
    return has_fields(map, fields) && is_hash(map, "trace_hash") &&
           (!weir_cbor_get(map, "status", &status) || weir_cbor_is_text(&status, "success") ||
            weir_cbor_is_text(&status, "failed"));
}

static bool is_memory(const weir_cbor_value *map) {
    static const field fields[] = {{"t", WEIR_CBOR_UINT}, {"state", WEIR_CBOR_MAP}, {NULL, 0}};
    weir_cbor_value contents;
    return has_fields(map, fields) && is_hash(map, "state_hash") && is_hash(map, "visibility_hash") &&
           (!weir_cbor_get(map, "contents", &contents) ||
            (contents.type == WEIR_CBOR_BYTES && contents.number == WEIR_TRACE__CONTENTS_SIZE));
}

static bool find_kind(const weir_cbor_value *map, weir_trace_kind *kind) {
    static const field resume_fields[] = {{"step", WEIR_CBOR_UINT}, {NULL, 0}};
    weir_cbor_value type;
    if (map->type != WEIR_CBOR_MAP || !is_hash(map, "h") || !weir_cbor_get(map, "type", &type))
        return false;
    if (weir_cbor_is_text(&type, "run_header"))
        return *kind = WEIR_TRACE_HEADER, is_header(map);
    if (weir_cbor_is_text(&type, "iter"))
        return *kind = WEIR_TRACE_ITER, is_iter(map);
    if (weir_cbor_is_text(&type, "resume"))
        return *kind = WEIR_TRACE_RESUME, has_fields(map, resume_fields);
    if (weir_cbor_is_text(&type, "memory"))
        return *kind = WEIR_TRACE_MEMORY, is_memory(map);
    if (weir_cbor_is_text(&type, "failure"))
        return *kind = WEIR_TRACE_FAILURE, is_failure(map);
    if (weir_cbor_is_text(&type, "run_end"))
        return *kind = WEIR_TRACE_END, is_end(map);
    return false;
}

/* ---- Chain ----------------------------------------------------------------------------------- */

static weir_status check_link(weir_trace_reader *r, const weir_cbor_value *map, size_t size, bool is_first,
                              weir_error *error) {
    uint8_t *body;
    size_t body_size;
    uint8_t link[WEIR_HASH_SIZE];
    weir_cbor_value recorded;
    if (!weir_trace__unseal(r->env, map, size, &body, &body_size))
        return weir__out_of_memory(error, operator_name, size);
    if (is_first)
        weir_trace__link_header(body, body_size, link);
    else
        weir_trace__link(r->link, body, body_size, link);
    weir__release(r->env, body);
    weir_cbor_get(map, "h", &recorded);
    if (memcmp(recorded.data, link, WEIR_HASH_SIZE) != 0)
        return corrupt(r, r->begin_offset,
                       "a record was edited, or one before it is missing: the chain breaks", error);
    memcpy(r->link, link, WEIR_HASH_SIZE);
    return WEIR_OK;
}

static weir_status check_end(weir_trace_reader *r, const weir_cbor_value *map,
                             const uint8_t before[WEIR_HASH_SIZE], weir_error *error) {
    weir_cbor_value hash;
    weir_cbor_get(map, "trace_hash", &hash);
    if (memcmp(hash.data, before, WEIR_HASH_SIZE) != 0)
        return corrupt(r, r->begin_offset, "run_end has another trace_hash than the records before it",
                       error);
    r->has_ended = true;
    return WEIR_OK;
}

static weir_status read_record(weir_trace_reader *r, bool is_first, weir_trace_record *record,
                               weir_error *error) {
    size_t size;
    uint8_t before[WEIR_HASH_SIZE];
    WEIR__TRY(read_item(r, &size, error));
    *record = (weir_trace_record){.kind = WEIR_TRACE_EOF, .offset = r->begin_offset, .end = r->begin_offset};
    if (size == 0)
        return WEIR_OK;
    record->map = weir_cbor_view(r->buffer + r->begin);
    record->end += size;
    if (!find_kind(&record->map, &record->kind) || (record->kind == WEIR_TRACE_HEADER) != is_first)
        return corrupt(r, r->begin_offset,
                       is_first ? "not a weir trace: no run_header" : "an unknown kind of record", error);
    if (r->has_ended)
        return corrupt(r, r->begin_offset, "a record stands behind run_end", error);
    if (r->has_failed && record->kind != WEIR_TRACE_END)
        return corrupt(r, r->begin_offset, "a record other than run_end comes after the failure", error);
    memcpy(before, r->link, sizeof before);
    weir_status status = check_link(r, &record->map, size, is_first, error);
    if (status == WEIR_OK && record->kind == WEIR_TRACE_END)
        status = check_end(r, &record->map, before, error);
    if (status != WEIR_OK)
        return status;
    r->has_failed = record->kind == WEIR_TRACE_FAILURE;
    r->begin += size;
    r->begin_offset += size;
    return WEIR_OK;
}

static weir_status keep_header(weir_trace_reader *r, weir_error *error) {
    weir_trace_record record;
    weir_cbor_value version;
    WEIR__TRY(read_record(r, true, &record, error));
    if (record.kind != WEIR_TRACE_HEADER)
        return corrupt(r, 0, "the file is empty: no run_header", error);
    weir_cbor_get(&record.map, "trace_version", &version);
    if (!weir_cbor_is_text(&version, WEIR_TRACE_VERSION))
        return corrupt(r, 0, "another trace version than " WEIR_TRACE_VERSION, error);
    size_t size = (size_t)(record.end - record.offset);
    r->header_bytes = weir__allocate(r->env, size, 1);
    if (!r->header_bytes)
        return weir__out_of_memory(error, operator_name, size);
    memcpy(r->header_bytes, record.map.item, size);
    r->header = weir_cbor_view(r->header_bytes);
    return WEIR_OK;
}

weir_status weir_trace_open(const weir_env *env, const char *path, weir_trace_reader **out,
                            weir_error *error) {
    env = weir__env_or_default(env);
    weir_trace_reader *r = weir__allocate_zero(env, 1, sizeof *r);
    if (!r)
        return weir__out_of_memory(error, operator_name, sizeof *r);
    r->env = env;
    r->file = -1;
    r->capacity = BUFFER_FIRST;
    r->path = weir__copy_text(env, path, strlen(path));
    r->buffer = weir__allocate(env, r->capacity, 1);
    weir_status status = WEIR_OK;
    if (!r->path || !r->buffer)
        status = weir__out_of_memory(error, operator_name, r->capacity);
    else
        status = weir__file_open(env, path, &r->file, operator_name, error);
    if (status == WEIR_OK)
        status = keep_header(r, error);
    if (status != WEIR_OK) {
        weir_trace_close(r);
        return status;
    }
    *out = r;
    return WEIR_OK;
}

void weir_trace_close(weir_trace_reader *reader) {
    if (!reader)
        return;
    const weir_env *env = reader->env;
    if (reader->file >= 0)
        env->close(env->context, reader->file);
    weir__release(env, reader->path);
    weir__release(env, reader->buffer);
    weir__release(env, reader->header_bytes);
    weir__release(env, reader);
}

const weir_cbor_value *weir_trace_header(const weir_trace_reader *reader) {
    return &reader->header;
}

weir_status weir_trace_next(weir_trace_reader *reader, weir_trace_record *record, weir_error *error) {
    return read_record(reader, false, record, error);
}

/* The header's hashes must be those of the documents beside them: the chain alone would let a consistent
 * forgery pass. */
weir_status weir_trace_manifest(const weir_trace_reader *reader, weir_manifest **out, weir_error *error) {
    weir_cbor_value normalised, mix, batch, hash, mix_hash, batch_hash;
    const weir_cbor_value *header = &reader->header;
    weir_manifest *manifest;
    weir_cbor_get(header, "manifest", &normalised);
    weir_cbor_get(header, "mix", &mix);
    weir_cbor_get(header, "batch", &batch);
    WEIR__TRY(weir_manifest_restore(reader->env, &normalised, &mix, &batch, &manifest, error));
    weir_cbor_get(header, "manifest_hash", &hash);
    weir_cbor_get(header, "mix_hash", &mix_hash);
    weir_cbor_get(header, "batch_config_hash", &batch_hash);
    if (memcmp(hash.data, weir_manifest_hash(manifest), WEIR_HASH_SIZE) != 0 ||
        memcmp(mix_hash.data, weir_manifest_mix_hash(manifest), WEIR_HASH_SIZE) != 0 ||
        memcmp(batch_hash.data, weir_manifest_batch_config_hash(manifest), WEIR_HASH_SIZE) != 0) {
        weir_manifest_close(manifest);
        return weir__fail(error, WEIR_TRACE_CORRUPT, operator_name,
                          "%s: the header's manifest is not the one that its hashes name", reader->path);
    }
    *out = manifest;
    return WEIR_OK;
}
