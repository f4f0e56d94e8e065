/* weir/arrow.h: tables in Arrow's C stream interface, as a source of ingest.
 *
 *   weir_arrow_table tables[] = {{.name = "orders", .stream = &orders},
 *                                {.name = "customers", .stream = &customers}};
 *   options.arrow_tables = tables;
 *   options.arrow_table_count = 2;
 *   status = weir_ingest(NULL, &options, &report, &error);
 *
 * Which types are taken, what is checked and what is trusted: docs/spec/04d-arrow.md. */
#ifndef WEIR_ARROW_H
#define WEIR_ARROW_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The structs of Arrow's C data interface, which are an ABI: others may have declared them already. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE           2
#define ARROW_FLAG_MAP_KEYS_SORTED    4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};

#endif

/* Opens a new stream over all rows of a table, which ingest releases. Returns 0, or an errno, and then `out`
 * is not touched. Called from any of ingest's threads, for one table one call at a time. */
typedef int (*weir_arrow_open)(void *context, struct ArrowArrayStream *out);

/* A table. Exactly one of `stream` and `open` is given; all is borrowed until ingest returns. */
typedef struct weir_arrow_table {
    const char *name;
    /* Read once, to its end at most, and not released: the caller does that when ingest has returned. Its
     * batches are kept until then if their rows are needed again (a draft, a query). Its functions are called
     * from ingest's threads, one call at a time. */
    struct ArrowArrayStream *stream;
    weir_arrow_open open;
    void *context;         /* of `open` */
    uint64_t row_estimate; /* for progress and for sharing work out; 0: unknown */
} weir_arrow_table;

#ifdef __cplusplus
}
#endif
#endif
