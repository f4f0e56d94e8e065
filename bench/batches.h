/* What the benchmarks of batches share: stores that are made once, beside the program, and a builder with a
 * ring of buffers. */
#ifndef WEIR_BENCH_BATCHES_H
#define WEIR_BENCH_BATCHES_H

#include "weir/weir.h"
#include "weir_tool/tools.h"

typedef struct batches_store {
    char store[512];
    char manifest[512];
} batches_store;

/* Where a store of that name is, or would be: in a folder beside the benchmark `program`. */
batches_store batches_locate(const char *program, const char *name);
int batches_exists(const batches_store *store);
void batches_make_folder(const char *program); /* that it is in */

/* Makes the demo shop of that many rows unless it is there. */
batches_store batches_make_shop(const char *program, uint64_t rows);

/* The same shop with a task whose labels are shown once they are known: churn, after 90 days. */
batches_store batches_make_labels(const char *program, uint64_t rows);

/* The same with a link task: buys, what customers will buy within 30 days. */
batches_store batches_make_links(const char *program, uint64_t rows);

/* Runs the weir program that was built with the benchmark; its arguments are made as by printf. */
void batches_run_weir(const char *program, const char *arguments, ...) __attribute__((format(printf, 2, 3)));

/* Whether what takes minutes and gigabytes is wanted: WEIR_BENCH_LARGE=1. */
int batches_want_large(void);

enum { BATCHES_RING = 16 };

typedef struct batches {
    weir_store *store;
    weir_manifest *manifest;
    weir_batch_builder *builder;
    weir_batch_buffer *ring[BATCHES_RING];
    weir_batch_buffer *compact_ring[BATCHES_RING]; /* without tensors */
    int count;                                     /* batches of one round */

    /* Of a round, once batches_count was called. */
    uint64_t bytes;
    uint64_t compact_bytes;
    uint64_t sequences;
    uint64_t cells;
    uint64_t rows;
} batches;

/* Batches of a dataset of the store, with sequences of `length` cells. */
void batches_open(batches *b, const batches_store *store, const char *dataset, uint32_t length,
                  const char *row_order, int count);
void batches_open_as(batches *b, const batches_store *store, weir_verify verify, const char *dataset,
                     uint32_t length, const char *row_order, int count);
void batches_close(batches *b);

/* Builds one round and counts what it has. */
void batches_count(batches *b);

/* Builds `count` batches from the first on, into the ring: their compact form and their tensors. A round for
 * bench_best. */
void batches_build(void *b);

/* The same without tensors. */
void batches_build_compact(void *b);

/* Expands batches that are built already, the last ones of a round again and again, into the ring. */
void batches_expand(void *b);

#endif
