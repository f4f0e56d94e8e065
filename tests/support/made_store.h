/* Stores that are made in memory from random numbers, without a database: every kind of table, column, edge
 * and task that the format has, and sizes that no database would be made for. */
#ifndef WEIR_TESTS_MADE_STORE_H
#define WEIR_TESTS_MADE_STORE_H

#include "support/memory_env.h"
#include "weir/weir.h"
#include "weir_tool/tools.h"

/* What is made: at most these numbers of each, the real ones drawn. With `is_exact`, exactly
 * these (and two tables at least): each table's foreign keys lead to the next one, tasks are anchored at the
 * last but one. */
typedef struct made_sizes {
    uint32_t tables;
    uint32_t columns;  /* of a table */
    uint32_t edges;    /* foreign keys of a table */
    uint32_t rows;     /* of a table, … */
    uint32_t children; /* … but of the first one so many, 0: as of the others */
    uint32_t tasks;
    uint32_t seeds; /* of a task's split */
    uint32_t dim;
    uint32_t hubs;   /* foreign keys lead to so many of the first rows, 0: to any */
    bool has_labels; /* derived tasks whose seeds have times say when their labels are known */
    bool is_exact;
    uint32_t format; /* 0: 1 */
} made_sizes;

/* The store's bytes, which the caller frees; NULL if memory is short. The same seed gives the same store. Its
 * name is "made", its tasks are "k0", "k1" … */
uint8_t *make_store_bytes(uint64_t seed, const made_sizes *sizes, size_t *size);

/* A manifest of one dataset of a store, "made/k0/train" …, whose hash does not matter; `batch` is the batch
 * config's members, as JSON, and may be "". NULL if it is refused. */
weir_manifest *make_store_manifest(const weir_store *store, uint32_t task, weir_split split,
                                   uint64_t batch_size, const char *batch);

#endif
