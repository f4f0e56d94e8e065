/* The order of a prefetcher as a list: every pass is dealt out item by item to the workers, then the workers
 * give theirs in turn. No threads, no arithmetic but counting: what the rings must agree with. */
#ifndef WEIR_TESTS_ROUND_ROBIN_H
#define WEIR_TESTS_ROUND_ROBIN_H

#include "weir/prefetch.h"
#include "weir_tool/documents.h"

enum { BASELINE_MAX = 4096, BASELINE_WORKERS = 16 };

#define ANY_WORKER UINT32_MAX /* of items that the workers share */

typedef struct baseline_item {
    uint64_t epoch;
    uint64_t position;
    uint32_t worker;
} baseline_item;

typedef struct baseline {
    baseline_item items[BASELINE_MAX];
    size_t count;
} baseline;

/* What the options give under strict order; epochs must be counted. */
void baseline_make(const weir_prefetch_options *options, baseline *out);

/* ---- A source for tests ---------------------------------------------------------------------- */

/* What a slot holds. */
typedef struct test_item {
    uint64_t epoch;
    uint64_t position;
    uint64_t key;
} test_item;

/* Writes a test_item. */
weir_status produce_test_item(void *context, const weir_item *item, weir_error *error);

/* Options for one pass of test items, and a prefetcher of these, with the system's threads. */
weir_prefetch_options options_of(uint64_t length, uint32_t workers);
weir_prefetch *open_prefetch(const weir_prefetch_options *options);

/* Asserts that an item is this one, and that its slot holds it. */
void assert_item_is(const weir_item *item, const baseline_item *expected);

/* Takes up to `count` items of a prefetcher, which must be those from `from` on; each is released. */
void assert_gives(weir_prefetch *prefetch, const baseline *expected, size_t from, size_t count);

/* Asserts that there are no more items. */
void assert_ended(weir_prefetch *prefetch);

/* Asserts that it was cancelled, or has failed. */
void assert_cancelled(weir_prefetch *prefetch);

/* ---- Best effort, followed from outside ------------------------------------------------------- */

typedef struct follower {
    baseline whole;
    uint32_t workers;
    uint32_t max_lead;
    size_t given[BASELINE_WORKERS];  /* items of each worker so far */
    size_t totals[BASELINE_WORKERS]; /* in all */
    size_t count;
} follower;

void follow_from_the_start(follower *f, const weir_prefetch_options *options);

/* Asserts that the item is its worker's next, and that the worker was not too far ahead. */
void follow(follower *f, const weir_item *item);

/* Asserts that nothing was lost. */
void assert_all_followed(const follower *f);

/* ---- States ---------------------------------------------------------------------------------- */

/* A saved state, kept. */
typedef struct kept_state {
    uint8_t bytes[4096];
    size_t size;
    weir_cbor_value value;
} kept_state;
void keep_state(const weir_prefetch *prefetch, kept_state *out);

#endif
