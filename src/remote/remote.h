/* What the files of remote stores share (docs/spec/08-chunks.md).
 *
 *   chunks.c            a file cut by its content; the index as text
 *   remote_url.c        URLs, the addresses of objects, and credentials
 *   remote_progress.c   options and progress
 *   place_requests.c    what requests to a place are signed with, and say when they are refused
 *   index.c             the index of a place
 *   push.c              a store to a server
 *   pull.c              a store from a server
 *   no_remote.c         what a build without HTTP says */
#ifndef WEIR_REMOTE_REMOTE_H
#define WEIR_REMOTE_REMOTE_H

#include "base/http.h"
#include "base/internal.h"
#include "weir/remote.h"
#include "weir_tool/documents.h"

#define WEIR_REMOTE__OPERATOR "weir.remote"

/* ---- Progress ---------------------------------------------------------------------------------- */

/* How far the work is, for the caller's report, which is called a few times per second at most. */
typedef struct weir_remote__watch {
    const weir_env *env;
    const weir_remote_options *options;
    weir_progress state;
    uint64_t began_ns, told_ns;
} weir_remote__watch;

void weir_remote__watch_begin(weir_remote__watch *watch, const weir_env *env,
                              const weir_remote_options *options);
void weir_remote__watch_phase(weir_remote__watch *watch, const char *phase, uint64_t total,
                              uint64_t total_bytes);
/* CANCELLED if the caller wants no more. */
WEIR_CHECKED weir_status weir_remote__watch_tell(weir_remote__watch *watch, weir_error *error);

/* ---- Chunks ------------------------------------------------------------------------------------ */

enum {
    WEIR_REMOTE__CHUNK_BITS_LEAST = 12,
    WEIR_REMOTE__CHUNK_BITS_MOST = 26,
    WEIR_REMOTE__CHUNK_BITS = 22,
    WEIR_REMOTE__CHUNK_SIZE_MOST = 1 << 28,
    WEIR_REMOTE__CHUNK_NAME_SIZE = 2 * WEIR_HASH_SIZE,
    WEIR_REMOTE__INDEX_SIZE_MOST = 256 << 20,
};

typedef struct weir_remote__chunk {
    uint8_t hash[WEIR_HASH_SIZE];
    uint64_t offset;
    uint32_t size;
} weir_remote__chunk;

typedef struct weir_remote__chunks {
    const weir_env *env;
    uint8_t store_hash[WEIR_HASH_SIZE];
    uint64_t size;
    uint32_t bits;
    weir_remote__chunk *list; /* in the order of the file */
    size_t count, capacity;
    uint32_t *by_hash; /* after weir_remote__chunks_sort */
} weir_remote__chunks;

/* Cuts an open file of `out->size` bytes by out->bits; `path` is for messages. */
WEIR_CHECKED weir_status weir_remote__chunks_cut(weir_remote__chunks *out, int file, const char *path,
                                                 weir_remote__watch *watch, weir_error *error);
WEIR_CHECKED weir_status weir_remote__chunks_read(weir_remote__chunks *out, const char *text, size_t size,
                                                  const char *name, weir_error *error);
void weir_remote__chunks_write(const weir_remote__chunks *chunks, weir_json_writer *w);
WEIR_CHECKED weir_status weir_remote__chunks_sort(weir_remote__chunks *chunks, weir_error *error);
/* Any chunk of that hash and size; NULL if there is none. Sorted. */
const weir_remote__chunk *weir_remote__chunks_find(const weir_remote__chunks *chunks,
                                                   const uint8_t hash[WEIR_HASH_SIZE], uint32_t size);
void weir_remote__chunks_release(weir_remote__chunks *chunks);

/* ---- Locations --------------------------------------------------------------------------------- */

/* Where objects are, and how requests are signed. */
typedef struct weir_remote__place {
    const weir_env *env;
    char *index_url; /* of the index, percent-encoded */
    size_t folder;   /* how much of it is the folder, with its slash */
    bool is_s3;
    char *region;
    char *access_key; /* NULL: requests are not signed */
    char *secret_key;
    char *session_token; /* or NULL */
} weir_remote__place;

/* `name` completes a URL that ends in '/', or NULL: that is refused. */
WEIR_CHECKED weir_status weir_remote__place_read(weir_remote__place *place, const weir_env *env,
                                                 const char *url, const char *name, weir_error *error);
void weir_remote__place_release(weir_remote__place *place);
/* The address of a chunk, terminated; NULL if memory is short. */
char *weir_remote__place_chunk_url(const weir_remote__place *place, const uint8_t hash[WEIR_HASH_SIZE]);

/* ---- Requests ---------------------------------------------------------------------------------- */

/* Requests to a place: they are signed, and tell how far the work is. */
typedef struct weir_remote__http {
    weir__http *engine;
    const weir_remote__place *place;
    weir_remote__watch *watch; /* its options are those of the requests */
} weir_remote__http;

/* `out` stays where it is. After a success: weir__http_close(out->engine), before the place is released. */
WEIR_CHECKED weir_status weir_remote__http_open(const weir_remote__place *place, weir_remote__watch *watch,
                                                weir_remote__http *out, weir_error *error);
/* IO_ERROR for an answer that is not what was hoped for. */
WEIR_CHECKED weir_status weir_remote__http_refuse(const weir_remote__http *http,
                                                  const weir__http_request *request, weir_error *error);

/* The index at a place; *is_there false if the server has none. */
WEIR_CHECKED weir_status weir_remote__index_fetch(const weir_remote__http *http, weir_remote__chunks *out,
                                                  bool *is_there, weir_error *error);

/* ---- Options and the report -------------------------------------------------------------------- */

/* What a caller gave, or the defaults; CONTRACT_VIOLATION if an option is beyond its limits. */
WEIR_CHECKED weir_status weir_remote__take_options(weir_remote_options *options,
                                                   const weir_remote_options *given, weir_error *error);
/* Fills all but what was moved, which is counted as it is. */
void weir_remote__complete_report(weir_remote_report *report, const weir_remote__chunks *chunks,
                                  const weir_remote__watch *watch);

#endif
