/* weir_pull: the index is fetched, chunks that are here already are found, the others are asked for, each is
 * checked by its name and written at its place in OUT.part; then the whole is verified as a store and takes
 * its name.
 *
 * What must hold: OUT is the old store or the new one, at any time. OUT.part is locked while it is written,
 * and nothing in it counts before it was hashed. If OUT is a link, it stays, and OUT is what it leads to. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "remote/remote.h"
#include "store/format.h"

typedef struct pull {
    const weir_env *env;
    const weir_remote_options *options;
    const char *path;
    char target[PATH_MAX]; /* where links of the path lead */
    char *part;            /* beside it */
    int file;              /* of the part */
    int old_file;
    weir_remote__place place;
    weir_remote__http http;
    weir_remote__watch watch;
    weir_remote__chunks chunks, old;
    bool *is_here; /* a chunk */
    uint8_t *buffer;
    size_t buffer_size;
    size_t next;
    weir_remote_report *report;
} pull;

/* ---- What is here -------------------------------------------------------------------------------- */

enum { OPEN_TRIES = 16 };

static weir_status open_part(pull *p, weir_error *error) {
    const weir_env *env = p->env;
    size_t size = strlen(p->target) + sizeof ".part";
    p->part = weir__allocate(env, size, 1);
    if (!p->part)
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, size);
    snprintf(p->part, size, "%s.part", p->target);
    /* Between opening and locking, another pull may end: then the file that was opened is OUT. */
    for (int i = 0; i < OPEN_TRIES; i++) {
        weir_file_info found;
        p->file = env->open(env->context, p->part, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
        if (p->file < 0)
            return weir__io_error(error, WEIR_REMOTE__OPERATOR, "open", p->part);
        bool has_lock = env->lock(env->context, p->file) == 0 || errno != EWOULDBLOCK;
        if (has_lock && weir__is_still(env, p->file, p->part))
            return WEIR_OK;
        if (has_lock && env->inspect(env->context, p->file, p->part, &found) != 0)
            return weir__io_error(error, WEIR_REMOTE__OPERATOR, "look at", p->part);
        env->close(env->context, p->file);
        p->file = -1;
        if (!has_lock)
            break;
    }
    return weir__fail(error, WEIR_IO_ERROR, WEIR_REMOTE__OPERATOR,
                      "another process is pulling %s; wait until it has ended, or give another name",
                      p->path);
}

/* Whether the bytes of a file at `offset` are a chunk's; they are in the buffer then. */
static bool holds(const pull *p, int file, uint64_t offset, const weir_remote__chunk *chunk) {
    uint8_t digest[WEIR_HASH_SIZE];
    if (!weir__read_at(p->env, file, p->buffer, chunk->size, offset))
        return false;
    weir__blake3_of(p->buffer, chunk->size, digest);
    return memcmp(digest, chunk->hash, WEIR_HASH_SIZE) == 0;
}

/* The chunks of the store that is to be replaced. What cannot be read is not used. */
static weir_status cut_old(pull *p, weir_error *error) {
    const weir_env *env = p->env;
    p->old = (weir_remote__chunks){.env = env, .bits = p->chunks.bits};
    p->old_file = env->open(env->context, p->path, O_RDONLY, 0);
    if (p->old_file < 0 || env->size(env->context, p->old_file, &p->old.size) != 0)
        return WEIR_OK;
    weir_remote__watch_phase(&p->watch, "compare", 0, p->old.size + p->chunks.size);
    weir_status status = weir_remote__chunks_cut(&p->old, p->old_file, p->path, &p->watch, error);
    if (status == WEIR_IO_ERROR) {
        p->old.count = 0;
        return WEIR_OK;
    }
    return status == WEIR_OK ? weir_remote__chunks_sort(&p->old, error) : status;
}

static weir_status write_chunk(pull *p, size_t number, const uint8_t *data, weir_error *error) {
    const weir_remote__chunk *chunk = &p->chunks.list[number];
    if (!weir__write_at(p->env, p->file, data, chunk->size, chunk->offset))
        return weir__io_error(error, WEIR_REMOTE__OPERATOR, "write", p->part);
    p->is_here[number] = true;
    return WEIR_OK;
}

/* Marks the chunks that the part has, and takes those that the old store has. */
static weir_status find_here(pull *p, weir_error *error) {
    uint64_t part_size = 0;
    if (p->env->size(p->env->context, p->file, &part_size) != 0)
        return weir__io_error(error, WEIR_REMOTE__OPERATOR, "read", p->part);
    for (size_t i = 0; i < p->chunks.count; i++) {
        const weir_remote__chunk *chunk = &p->chunks.list[i];
        const weir_remote__chunk *old = weir_remote__chunks_find(&p->old, chunk->hash, chunk->size);
        if (chunk->offset + chunk->size <= part_size && holds(p, p->file, chunk->offset, chunk))
            p->is_here[i] = true;
        else if (old && holds(p, p->old_file, old->offset, chunk))
            WEIR__TRY(write_chunk(p, i, p->buffer, error));
        p->watch.state.done_bytes += chunk->size;
        WEIR__TRY(weir_remote__watch_tell(&p->watch, error));
    }
    if (p->env->truncate(p->env->context, p->file, p->chunks.size) != 0)
        return weir__io_error(error, WEIR_REMOTE__OPERATOR, "write", p->part);
    return WEIR_OK;
}

/* ---- Receiving ----------------------------------------------------------------------------------- */

static weir_status ask_next(void *context, weir__http_request *request, bool *is_there, weir_error *error) {
    pull *p = context;
    while (p->next < p->chunks.count && p->is_here[p->next])
        p->next++;
    *is_there = p->next < p->chunks.count;
    if (!*is_there)
        return WEIR_OK;
    request->number = p->next++;
    request->method = WEIR__HTTP_GET;
    request->answer_max = p->chunks.list[request->number].size;
    request->has_ranges = true;
    request->url = weir_remote__place_chunk_url(&p->place, p->chunks.list[request->number].hash);
    return request->url ? WEIR_OK : weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, 1);
}

static weir_status take_chunk(void *context, weir__http_request *request, const char **wrong,
                              weir_error *error) {
    pull *p = context;
    const weir_remote__chunk *chunk = &p->chunks.list[request->number];
    uint8_t digest[WEIR_HASH_SIZE];
    if (request->code != 200 && request->code != 206)
        return weir_remote__http_refuse(&p->http, request, error);
    weir__blake3_of(request->answer ? (const void *)request->answer : "", request->answer_size, digest);
    if (request->answer_size != chunk->size || memcmp(digest, chunk->hash, WEIR_HASH_SIZE) != 0) {
        *wrong = "has other bytes than its name says";
        return WEIR_OK;
    }
    p->report->moved_chunks++;
    p->report->moved_bytes += chunk->size;
    p->watch.state.done++;
    p->watch.state.done_bytes += chunk->size;
    return write_chunk(p, request->number, request->answer, error);
}

/* ---- All of it ----------------------------------------------------------------------------------- */

/* A file that is to be replaced must be a store. */
static weir_status check_target(const pull *p, weir_error *error) {
    const weir_env *env = p->env;
    char head[sizeof WEIR_STORE__MAGIC - 1];
    weir_file_info info;
    if (env->inspect(env->context, -1, p->path, &info) != 0)
        return WEIR_OK;
    int file = env->open(env->context, p->path, O_RDONLY | O_NONBLOCK, 0);
    bool is_store = file >= 0 && weir__read_at(env, file, head, sizeof head, 0) &&
                    memcmp(head, WEIR_STORE__MAGIC, sizeof head) == 0;
    if (file >= 0)
        env->close(env->context, file);
    if (is_store)
        return WEIR_OK;
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_REMOTE__OPERATOR,
                      "%s is there already and is not a store; delete it or choose another output", p->path);
}

/* Every byte, as a store; what is not what the index promised is removed. */
static weir_status verify(pull *p, weir_error *error) {
    weir_store *store = NULL;
    weir_remote__watch_phase(&p->watch, "verify", 0, 0);
    WEIR__TRY(weir_remote__watch_tell(&p->watch, error));
    if (p->env->sync(p->env->context, p->file) != 0)
        return weir__io_error(error, WEIR_REMOTE__OPERATOR, "sync", p->part);
    weir_status status = weir_store_open(p->env, p->part, &store, error);
    if (status == WEIR_OK)
        status = weir_store_verify(store, p->options->threads, error);
    if (status == WEIR_OK &&
        memcmp(weir_store_describe(store)->store_hash, p->chunks.store_hash, WEIR_HASH_SIZE) != 0)
        status = weir__fail(error, WEIR_STORE_CORRUPT, WEIR_REMOTE__OPERATOR,
                            "%.300s does not have the store that its index says", p->place.index_url);
    weir_store_close(store);
    if (status == WEIR_STORE_CORRUPT || status == WEIR_STORE_VERSION)
        (void)!p->env->remove(p->env->context, p->part);
    return status;
}

static weir_status run(pull *p, const char *url, weir_error *error) {
    const uint8_t *hash = p->chunks.store_hash, *expected = p->options->expected_hash;
    char found[WEIR_REMOTE__CHUNK_NAME_SIZE + 1];
    bool is_there = false;
    WEIR__TRY(weir_remote__place_read(&p->place, p->env, url, NULL, error));
    WEIR__TRY(check_target(p, error));
    WEIR__TRY(weir__find_target(p->env, p->path, p->target, WEIR_REMOTE__OPERATOR, error));
    WEIR__TRY(weir_remote__http_open(&p->place, &p->watch, &p->http, error));
    WEIR__TRY(weir_remote__index_fetch(&p->http, &p->chunks, &is_there, error));
    if (!is_there)
        return weir__fail(error, WEIR_IO_ERROR, WEIR_REMOTE__OPERATOR, "%.300s is not there (404)",
                          p->place.index_url);
    if (expected && memcmp(expected, hash, WEIR_HASH_SIZE) != 0) {
        weir__hex_encode(hash, WEIR_HASH_SIZE, found);
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_REMOTE__OPERATOR,
                          "%.300s has the store %s, which is not the one that is expected",
                          p->place.index_url, found);
    }
    uint32_t most = 1;
    for (size_t i = 0; i < p->chunks.count; i++)
        most = p->chunks.list[i].size > most ? p->chunks.list[i].size : most;
    p->buffer = weir__allocate(p->env, most, 1);
    p->is_here = weir__allocate_zero(p->env, p->chunks.count, sizeof *p->is_here);
    if (!p->buffer || !p->is_here)
        return weir__out_of_memory(error, WEIR_REMOTE__OPERATOR, most);
    weir_remote__watch_phase(&p->watch, "compare", 0, p->chunks.size);
    WEIR__TRY(open_part(p, error));
    WEIR__TRY(cut_old(p, error));
    WEIR__TRY(find_here(p, error));
    uint64_t missing = 0, bytes = 0;
    for (size_t i = 0; i < p->chunks.count; i++) {
        missing += !p->is_here[i];
        bytes += p->is_here[i] ? 0 : p->chunks.list[i].size;
    }
    weir_remote__watch_phase(&p->watch, "receive", missing, bytes);
    WEIR__TRY(weir__http_run(p->http.engine, &(weir__http_work){p, ask_next, take_chunk}, error));
    WEIR__TRY(verify(p, error));
    if (p->env->rename(p->env->context, p->part, p->target) != 0)
        return weir__io_error(error, WEIR_REMOTE__OPERATOR, "rename", p->part);
    if (!weir__sync_directory(p->env, p->target))
        return weir__io_error(error, WEIR_REMOTE__OPERATOR, "sync the folder of", p->path);
    return WEIR_OK;
}

weir_status weir_pull(const weir_env *env, const char *url, const char *path,
                      const weir_remote_options *given, weir_remote_report *report, weir_error *error) {
    weir_remote_options options;
    weir_remote_report own = {0};
    WEIR__TRY(weir_remote__take_options(&options, given, error));
    env = weir__env_or_default(env);
    pull p = {.env = env,
              .options = &options,
              .path = path,
              .file = -1,
              .old_file = -1,
              .chunks = {.env = env},
              .report = &own};
    weir_remote__watch_begin(&p.watch, env, &options);
    weir_status status = run(&p, url, error);
    if (status == WEIR_OK && report) {
        weir_remote__complete_report(&own, &p.chunks, &p.watch);
        *report = own;
    }
    weir__http_close(p.http.engine);
    weir_remote__chunks_release(&p.chunks);
    weir_remote__chunks_release(&p.old);
    weir_remote__place_release(&p.place);
    weir__release(env, p.buffer);
    weir__release(env, p.is_here);
    weir__release(env, p.part);
    if (p.old_file >= 0)
        env->close(env->context, p.old_file);
    if (p.file >= 0)
        env->close(env->context, p.file);
    return status;
}
