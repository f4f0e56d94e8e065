/* Reads a trace record by record, each checked as CBOR, as a kind that is known, in its place in the chain,
 * and with the fields that the tools rely on. The buffer holds one record at least; a record that is not
 * whole at the end of the file is a fault there. */
#include <string.h>

#include "base/bytes.h"
#include "base/file.h"
#include "sampler/sampler.h"
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
    weir_trace_info info; /* refers to the header's bytes */
    uint8_t (*store_hashes)[WEIR_HASH_SIZE];
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

/* ---- Fields ---------------------------------------------------------------------------------- */

static bool read_uint(const weir_cbor_value *map, const char *key, uint64_t *out) {
    weir_cbor_value value;
    bool is_there = weir_cbor_get(map, key, &value) && value.type == WEIR_CBOR_UINT;
    if (is_there)
        *out = value.number;
    return is_there;
}

static bool read_text(const weir_cbor_value *map, const char *key, weir_text *out) {
    weir_cbor_value value;
    bool is_there = weir_cbor_get(map, key, &value) && value.type == WEIR_CBOR_TEXT;
    if (is_there)
        *out = (weir_text){(const char *)value.data, (size_t)value.number};
    return is_there;
}

static bool read_bytes(const weir_cbor_value *map, const char *key, size_t size, const uint8_t **out) {
    weir_cbor_value value;
    bool is_there = weir_cbor_get(map, key, &value) && value.type == WEIR_CBOR_BYTES && value.number == size;
    if (is_there)
        *out = value.data;
    return is_there;
}

static bool read_cursor(const weir_cbor_value *map, const char *key, weir_cursor *out) {
    weir_cbor_value cursor;
    return weir_cbor_get(map, key, &cursor) && read_uint(&cursor, "epoch", &out->epoch) &&
           read_uint(&cursor, "global_index", &out->global_index);
}

/* ---- Records: each is what it says it is if all that the tools rely on is there --------------- */

static bool read_header(const weir_cbor_value *map, weir_trace_info *info) {
    weir_cbor_value policy;
    weir_text version;
    uint64_t rank, world_size;
    if (!read_uint(map, "rank", &rank) || rank > UINT32_MAX || !read_uint(map, "world_size", &world_size) ||
        world_size > UINT32_MAX || !read_text(map, "trace_version", &version) ||
        !weir_trace__has(map, "mix", WEIR_CBOR_MAP) || !weir_trace__has(map, "batch", WEIR_CBOR_MAP) ||
        !weir_trace__has(map, "manifest", WEIR_CBOR_MAP) ||
        !weir_trace__has(map, "store_hashes", WEIR_CBOR_ARRAY) ||
        !weir_trace__has(map, "schedule", WEIR_CBOR_TEXT) ||
        !weir_trace__has(map, "replay_token", WEIR_CBOR_BYTES) ||
        !read_bytes(map, "manifest_hash", WEIR_HASH_SIZE, &info->manifest_hash) ||
        !read_bytes(map, "mix_hash", WEIR_HASH_SIZE, &info->mix_hash) ||
        !read_bytes(map, "batch_config_hash", WEIR_HASH_SIZE, &info->batch_config_hash))
        return false;
    weir_cbor_value token = weir_trace__get(map, "replay_token");
    weir_cbor_value schedule = weir_trace__get(map, "schedule");
    info->rank = (uint32_t)rank;
    info->world_size = (uint32_t)world_size;
    info->token = token.data;
    info->token_size = (size_t)token.number;
    info->schedule = weir_cbor_is_text(&schedule, "mix") ? WEIR_SCHEDULE_MIX : WEIR_SCHEDULE_CURSOR;
    info->is_best_effort = weir_cbor_get(map, "policy", &policy) && weir_cbor_is_text(&policy, "best_effort");
    (void)read_text(map, "weir_version", &info->weir_version);
    return true;
}

static uint64_t count_items(const weir_cbor_value *map, const char *key) {
    weir_cbor_value list;
    return weir_cbor_get(map, key, &list) && list.type == WEIR_CBOR_ARRAY ? list.number : 0;
}

/* Digests are compared with others, or not at all: what is none in their place must not look like none. */
static bool are_digests(const weir_cbor_value *map) {
    weir_cbor_value list, item;
    const uint8_t *digest;
    bool is_sound = !weir_cbor_get(map, "batch_digest", &item) ||
                    read_bytes(map, "batch_digest", WEIR_TRACE__CONTENTS_SIZE, &digest);
    if (!weir_cbor_get(map, "sample_digests", &list))
        return is_sound;
    is_sound = is_sound && list.type == WEIR_CBOR_ARRAY;
    weir_cbor_iterator it = weir_cbor_children(&list);
    while (is_sound && weir_cbor_next(&it, NULL, &item))
        is_sound = item.type == WEIR_CBOR_BYTES && item.number == 8;
    return is_sound;
}

static bool read_iter(const weir_cbor_value *map, weir_trace_record *r) {
    weir_cbor_value mode;
    r->has_cursor = read_cursor(map, "cursor_before", &r->cursor_before);
    if (!r->has_cursor || !read_cursor(map, "cursor_after", &r->cursor_after) ||
        !read_uint(map, "t", &r->t) || !read_uint(map, "valid_count", &r->valid_count) ||
        !read_uint(map, "effective_batch_size", &r->effective_batch_size) ||
        !weir_trace__has(map, "is_shuffled", WEIR_CBOR_BOOL) || !read_text(map, "dataset_key", &r->dataset) ||
        memchr(r->dataset.data, 0, r->dataset.size) || !are_digests(map))
        return false;
    bool is_shuffled = weir_trace__get(map, "is_shuffled").number;
    bool is_seeded = weir_cbor_get(map, "sampling_mode", &mode) &&
                     weir_cbor_is_text(&mode, WEIR_SAMPLER__EVAL_SEEDED_MODE);
    r->stage = !is_shuffled ? WEIR_STAGE_EVAL : is_seeded ? WEIR_STAGE_EVAL_SEEDED : WEIR_STAGE_TRAIN;
    r->index_count = count_items(map, "indices");
    r->sample_digest_count = count_items(map, "sample_digests");
    (void)read_bytes(map, "data_replay_t", WEIR_HASH_SIZE, &r->data_replay_t);
    (void)read_bytes(map, "batch_digest", WEIR_TRACE__CONTENTS_SIZE, &r->batch_digest);
    return true;
}

static bool read_failure(const weir_cbor_value *map, weir_trace_record *r) {
    r->has_cursor = read_cursor(map, "cursor_before", &r->cursor_before);
    (void)read_bytes(map, "data_replay_t", WEIR_HASH_SIZE, &r->data_replay_t);
    (void)read_text(map, "message", &r->message);
    return read_uint(map, "t", &r->t) && read_text(map, "failure_code", &r->failure_code) &&
           read_text(map, "failure_operator", &r->failure_operator) &&
           weir_trace__has(map, "replay_token", WEIR_CBOR_BYTES) &&
           (read_text(map, "dataset_key", &r->dataset) ||
            weir_trace__has(map, "dataset_key", WEIR_CBOR_NULL)) &&
           (weir_trace__has(map, "data_replay_t", WEIR_CBOR_BYTES) ||
            weir_trace__has(map, "data_replay_t", WEIR_CBOR_NULL)) &&
           (r->has_cursor || weir_trace__has(map, "cursor_before", WEIR_CBOR_NULL));
}

/* A run_end of this version or of one that had no status, which runs that succeeded alone wrote. */
static bool read_end(const weir_cbor_value *map, weir_trace_record *r) {
    uint64_t final_epoch;
    weir_cbor_value status;
    const uint8_t *hash;
    bool has_status = weir_cbor_get(map, "status", &status);
    bool has_failed = has_status && weir_cbor_is_text(&status, "failed");
    r->status = has_failed ? WEIR_RUN_FAILED : WEIR_RUN_SUCCEEDED;
    return read_uint(map, "final_epoch", &final_epoch) &&
           weir_trace__has(map, "final_cursors", WEIR_CBOR_MAP) &&
           read_uint(map, "total_samples_seen", &r->total_samples) &&
           read_bytes(map, "trace_hash", WEIR_HASH_SIZE, &hash) &&
           (!has_status || has_failed || weir_cbor_is_text(&status, "success"));
}

static bool read_memory(const weir_cbor_value *map, weir_trace_record *r) {
    weir_cbor_value contents;
    return read_uint(map, "t", &r->t) && weir_trace__has(map, "state", WEIR_CBOR_MAP) &&
           read_bytes(map, "state_hash", WEIR_HASH_SIZE, &r->state_hash) &&
           read_bytes(map, "visibility_hash", WEIR_HASH_SIZE, &r->visibility_hash) &&
           (!weir_cbor_get(map, "contents", &contents) ||
            read_bytes(map, "contents", WEIR_TRACE__CONTENTS_SIZE, &r->contents));
}

static bool read_resume(const weir_cbor_value *map, weir_trace_record *r) {
    (void)read_bytes(map, "checkpoint_hash", WEIR_HASH_SIZE, &r->checkpoint_hash);
    return read_uint(map, "step", &r->t);
}

/* Of a header what it says is kept in `info`; elsewhere (NULL) there is none. */
static bool read_kind(const weir_cbor_value *map, weir_trace_info *info, weir_trace_record *r) {
    static const struct {
        const char *type;
        weir_trace_kind kind;
        bool (*read)(const weir_cbor_value *map, weir_trace_record *r);
    } kinds[] = {{"iter", WEIR_TRACE_ITER, read_iter},
                 {"resume", WEIR_TRACE_RESUME, read_resume},
                 {"memory", WEIR_TRACE_MEMORY, read_memory},
                 {"failure", WEIR_TRACE_FAILURE, read_failure},
                 {"run_end", WEIR_TRACE_END, read_end}};
    const uint8_t *link;
    weir_cbor_value type;
    if (map->type != WEIR_CBOR_MAP || !read_bytes(map, "h", WEIR_HASH_SIZE, &link) ||
        !weir_cbor_get(map, "type", &type))
        return false;
    r->kind = WEIR_TRACE_HEADER;
    if (weir_cbor_is_text(&type, "run_header"))
        return info && read_header(map, info);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (weir_cbor_is_text(&type, kinds[i].type)) {
            r->kind = kinds[i].kind;
            return kinds[i].read(map, r);
        }
    return false;
}

void weir_trace_samples(const weir_trace_record *record, uint64_t *indices, uint64_t *digests) {
    weir_cbor_value map = weir_cbor_view(record->data), list, item;
    if (indices && record->index_count > 0 && weir_cbor_get(&map, "indices", &list)) {
        weir_cbor_iterator it = weir_cbor_children(&list);
        while (weir_cbor_next(&it, NULL, &item))
            *indices++ = item.type == WEIR_CBOR_UINT ? item.number : 0;
    }
    if (digests && record->sample_digest_count > 0 && weir_cbor_get(&map, "sample_digests", &list)) {
        weir_cbor_iterator it = weir_cbor_children(&list);
        while (weir_cbor_next(&it, NULL, &item))
            *digests++ = item.type == WEIR_CBOR_BYTES && item.number == 8 ? weir__load64be(item.data) : 0;
    }
}

/* ---- Chain ----------------------------------------------------------------------------------- */

/* A record's link, and that a run_end names the link before it. */
static weir_status check_chain(weir_trace_reader *r, const weir_cbor_value *map, size_t size,
                               weir_trace_kind kind, weir_error *error) {
    uint8_t *body;
    size_t body_size;
    uint8_t link[WEIR_HASH_SIZE];
    if (!weir_trace__unseal(r->env, map, size, &body, &body_size))
        return weir__out_of_memory(error, operator_name, size);
    weir_trace__link(kind == WEIR_TRACE_HEADER ? NULL : r->link, body, body_size, link);
    weir__release(r->env, body);
    if (memcmp(weir_trace__get(map, "h").data, link, WEIR_HASH_SIZE) != 0)
        return corrupt(r, r->begin_offset,
                       "a record was edited, or one before it is missing: the chain breaks", error);
    if (kind == WEIR_TRACE_END &&
        memcmp(weir_trace__get(map, "trace_hash").data, r->link, WEIR_HASH_SIZE) != 0)
        return corrupt(r, r->begin_offset, "run_end has another trace_hash than the records before it",
                       error);
    memcpy(r->link, link, WEIR_HASH_SIZE);
    return WEIR_OK;
}

static weir_status read_record(weir_trace_reader *r, bool is_first, weir_trace_record *record,
                               weir_error *error) {
    size_t size;
    WEIR__TRY(read_item(r, &size, error));
    *record = (weir_trace_record){.kind = WEIR_TRACE_EOF, .offset = r->begin_offset, .end = r->begin_offset};
    if (size == 0)
        return WEIR_OK;
    record->data = r->buffer + r->begin;
    record->end += size;
    weir_cbor_value map = weir_cbor_view(record->data);
    if (!read_kind(&map, is_first ? &r->info : NULL, record) ||
        (record->kind == WEIR_TRACE_HEADER) != is_first)
        return corrupt(r, r->begin_offset,
                       is_first ? "not a weir trace: no run_header"
                                : "a record of an unknown kind, or without the fields of its kind",
                       error);
    if (r->has_ended)
        return corrupt(r, r->begin_offset, "a record stands behind run_end", error);
    if (r->has_failed && record->kind != WEIR_TRACE_END)
        return corrupt(r, r->begin_offset, "a record other than run_end comes after the failure", error);
    WEIR__TRY(check_chain(r, &map, size, record->kind, error));
    r->has_ended = record->kind == WEIR_TRACE_END;
    r->has_failed = record->kind == WEIR_TRACE_FAILURE;
    r->begin += size;
    r->begin_offset += size;
    return WEIR_OK;
}

static weir_status keep_header(weir_trace_reader *r, weir_error *error) {
    weir_trace_record record;
    WEIR__TRY(read_record(r, true, &record, error));
    if (record.kind != WEIR_TRACE_HEADER)
        return corrupt(r, 0, "the file is empty: no run_header", error);
    size_t size = (size_t)(record.end - record.offset);
    r->header_bytes = weir__allocate(r->env, size, 1);
    if (!r->header_bytes)
        return weir__out_of_memory(error, operator_name, size);
    memcpy(r->header_bytes, record.data, size);
    r->header = weir_cbor_view(r->header_bytes);
    weir_cbor_value version = weir_trace__get(&r->header, "trace_version");
    if (!weir_cbor_is_text(&version, WEIR_TRACE_VERSION))
        return corrupt(r, 0, "another trace version than " WEIR_TRACE_VERSION, error);
    (void)read_header(&r->header, &r->info);
    weir_cbor_value list = weir_trace__get(&r->header, "store_hashes"), hash;
    weir_cbor_iterator it = weir_cbor_children(&list);
    r->store_hashes = weir__allocate(r->env, size / (WEIR_HASH_SIZE + 2) + 1, sizeof *r->store_hashes);
    if (!r->store_hashes)
        return weir__out_of_memory(error, operator_name, size);
    r->info.store_hashes = (const uint8_t(*)[WEIR_HASH_SIZE])r->store_hashes;
    while (weir_cbor_next(&it, NULL, &hash)) /* what is no hash in it names no store */
        if (hash.type == WEIR_CBOR_BYTES && hash.number == WEIR_HASH_SIZE)
            memcpy(r->store_hashes[r->info.store_count++], hash.data, WEIR_HASH_SIZE);
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
    if (status == WEIR_OK) {
        status = keep_header(r, error);
        status = weir__explain_format(status, r->buffer, r->end, path, "a weir trace", error);
    }
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
    weir__release(env, reader->store_hashes);
    weir__release(env, reader);
}

const weir_cbor_value *weir_trace__header(const weir_trace_reader *reader) {
    return &reader->header;
}

const weir_trace_info *weir_trace_describe(const weir_trace_reader *reader) {
    return &reader->info;
}

weir_status weir_trace_next(weir_trace_reader *reader, weir_trace_record *record, weir_error *error) {
    return read_record(reader, false, record, error);
}

/* The header's hashes must be those of the documents beside them: the chain alone would let a consistent
 * forgery pass. */
weir_status weir_trace_manifest(const weir_trace_reader *reader, weir_manifest **out, weir_error *error) {
    const weir_trace_info *info = &reader->info;
    weir_manifest *manifest;
    weir_cbor_value normalised = weir_trace__get(&reader->header, "manifest");
    weir_cbor_value mix = weir_trace__get(&reader->header, "mix");
    weir_cbor_value batch = weir_trace__get(&reader->header, "batch");
    WEIR__TRY(weir_manifest_restore(reader->env, &normalised, &mix, &batch, &manifest, error));
    if (memcmp(info->manifest_hash, weir_manifest_describe(manifest)->hash, WEIR_HASH_SIZE) != 0 ||
        memcmp(info->mix_hash, weir_manifest_describe(manifest)->mix_hash, WEIR_HASH_SIZE) != 0 ||
        memcmp(info->batch_config_hash, weir_manifest_describe(manifest)->batch_config_hash,
               WEIR_HASH_SIZE) != 0) {
        weir_manifest_close(manifest);
        return weir__fail(error, WEIR_TRACE_CORRUPT, operator_name,
                          "%s: the header's manifest is not the one that its hashes name", reader->path);
    }
    *out = manifest;
    return WEIR_OK;
}
