/* weir/remote.h: stores on S3-like and plain HTTP servers, in chunks that are named by their hashes
 * (docs/spec/08-chunks.md).
 *
 *   weir_remote_options options = WEIR_REMOTE_OPTIONS;
 *   status = weir_push(NULL, "shop.weir", "s3://bucket/data/shop.weir", &options, &report, &error);
 *   status = weir_pull(NULL, "s3://bucket/data/shop.weir", "shop.weir", &options, &report, &error);
 *
 * Only chunks that the other side lacks travel; what was interrupted resumes; what arrives is verified before
 * it takes its name. */
#ifndef WEIR_REMOTE_H
#define WEIR_REMOTE_H

#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_remote_options {
    size_t size;                   /* sizeof(weir_remote_options) */
    uint32_t chunk_bits;           /* of a push: chunks have about 2^chunk_bits bytes, 12 to 26; 0: 22 */
    uint32_t concurrency;          /* requests at once, 1 to 64; 0: 8 */
    uint32_t retries;              /* of one request; UINT32_MAX: 6 */
    uint32_t retry_ms;             /* before the first retry, doubled each time; 0: 250 */
    uint32_t timeout_s;            /* how long a server may send nothing; 0: 60 */
    uint32_t threads;              /* that verify the store; 0: as many as there are processors */
    const uint8_t *expected_hash;  /* of a pull: the store must have this hash, of WEIR_HASH_SIZE; or NULL */
    weir_progress_report progress; /* or NULL; phases "verify", "cut", "compare", "ask", "send", "receive" */
    void *progress_context;
} weir_remote_options;

#define WEIR_REMOTE_OPTIONS                                                                                  \
    ((weir_remote_options){.size = sizeof(weir_remote_options), .retries = UINT32_MAX})

/* What was done. A plain value. */
typedef struct weir_remote_report {
    uint8_t store_hash[WEIR_HASH_SIZE];
    uint64_t bytes; /* of the file */
    uint64_t chunks;
    uint64_t moved_chunks; /* that travelled */
    uint64_t moved_bytes;
    uint64_t total_ns;
} weir_remote_report;

/* Verifies the store and sends what the server lacks; the index last, so that readers find the old store
 * until the new one is whole. A URL that ends in '/' gets the file's name. Credentials for s3:// come from
 * the usual variables (AWS_ACCESS_KEY_ID, …) and are in no message. `options` (WEIR_REMOTE_OPTIONS then) and
 * `report` may be NULL. STORE_CORRUPT, STORE_VERSION, IO_ERROR (the server's refusals too), OUT_OF_MEMORY,
 * CANCELLED, CONTRACT_VIOLATION (an option or URL that is not valid, a build without HTTP). Any thread. */
WEIR_API WEIR_CHECKED weir_status weir_push(const weir_env *env, const char *store, const char *url,
                                            const weir_remote_options *options, weir_remote_report *report,
                                            weir_error *error);

/* Brings a store to `path`, whole and verified or not at all. What has arrived of one that is interrupted
 * lies in `path`.part, from which the next pull resumes. Errors as above; CONTRACT_VIOLATION also if `path`
 * is a file that is not a store, or the store is another than expected_hash says. Any thread. */
WEIR_API WEIR_CHECKED weir_status weir_pull(const weir_env *env, const char *url, const char *path,
                                            const weir_remote_options *options, weir_remote_report *report,
                                            weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
