/* What the tests of runs share: two stores (the golden shop, and the same shop under another name with
 * smaller embeddings), manifests over both, and batches built one by one to compare with. */
#ifndef WEIR_TESTS_LOADING_H
#define WEIR_TESTS_LOADING_H

#include "support/testing.h"

typedef struct loading {
    char folder[64];
    weir_store *stores[2]; /* "shop", "oth" */
} loading;

void loading_open(loading *l);
void loading_close(loading *l);

/* What every test of a group uses: both stores, and a manifest of small batches over them. */
extern loading fixture;
extern weir_manifest *manifest;
int loading_set_up(void **state);
int loading_tear_down(void **state);

/* A copy of the shop's store in which every seed row of the task "spend" leads nowhere. The caller closes it
 * and frees its memory. */
weir_store *loading_damage(const loading *l, uint8_t **memory);

/* A manifest over five datasets of both stores, batch size 8, weights 3, 2, 1 for the three that train.
 * `more` (may be "") is put behind the members with a comma of its own, such as ", \"seed\": 3". */
#define SMALL_BATCHES ", \"seed\": 3, \"batch\": {\"sequence_length\": 24, \"max_rows\": 8}"
weir_manifest *loading_manifest(const loading *l, const char *more);

/* The same with another batch size. */
weir_manifest *loading_manifest_of(const loading *l, unsigned batch_size, const char *more);

/* Options of a run over both stores, with digests: all of it, at world size 1, one worker. */
weir_run_options loading_options(const loading *l, const weir_manifest *over);

/* What identifies a batch. */
typedef struct loading_batch {
    uint64_t step;
    char dataset[64];
    uint8_t digest[16];
} loading_batch;

/* Steps [first, end) of the run that the options describe, each located and built alone. */
void loading_build(const weir_run_options *options, uint64_t first, uint64_t end, loading_batch *out);

/* Takes batches until there are none, at most `max`; returns how many. */
size_t loading_take(weir_run *run, size_t max, loading_batch *out);

/* A run from beginning to end. */
size_t loading_run(const weir_run_options *options, size_t max, loading_batch *out);

/* By step, as best effort does not deliver them. */
void loading_sort(loading_batch *batches, size_t count);

void assert_batches_equal(const loading_batch *left, const loading_batch *right, size_t count);

/* The state of a run, in memory that the caller frees. */
uint8_t *loading_checkpoint(weir_run *run, size_t *size);

/* The text of a record's diagnostic `field`, "" where it has none. */
const char *diagnostic_of_field(const weir_error *error);

#endif
