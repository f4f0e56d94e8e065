/* A schema: what to read, what it means, and which tasks to make (docs/schema.md). Read from JSON by
 * schema_read.c, drafted from a source by draft.c. Names only: nothing here knows the source. */
#ifndef WEIR_SRC_INGEST_SCHEMA_H
#define WEIR_SRC_INGEST_SCHEMA_H

#include "ingest/convert.h"
#include "store/format.h"
#include "weir/cbor.h"

#define WEIR__SCHEMA_OPERATOR "weir.ingest.schema"

typedef struct weir__schema_column {
    const char *name;
    weir_stype stype;
    const char *description;   /* "" where there is none */
    const char *foreign_table; /* NULL: no foreign key */
    const char *foreign_column;
    bool has_known_at;    /* the schema says something */
    const char *known_at; /* NULL: null */
    weir__unit unit;
} weir__schema_column;

typedef struct weir__schema_table {
    const char *name;
    const char *const *primary_key;
    uint32_t primary_key_count;
    const char *temporal_column; /* or NULL */
    weir__schema_column *columns;
    uint32_t column_count;
} weir__schema_table;

typedef enum weir__task_kind { WEIR__KIND_AUTO, WEIR__KIND_CELL, WEIR__KIND_DERIVED } weir__task_kind;
typedef enum weir__split_method {
    WEIR__SPLIT_HASH,
    WEIR__SPLIT_TEMPORAL,
    WEIR__SPLIT_COLUMN
} weir__split_method;

typedef struct weir__schema_split {
    weir__split_method method;
    uint32_t permille[WEIR_SPLITS];
    uint64_t seed;
    int64_t val;
    int64_t test;
    const char *column;
} weir__schema_split;

typedef struct weir__schema_task {
    const char *name;
    const char *query; /* NULL: every row of the anchor table (a task that weir makes itself) */
    const char *anchor_table;
    const char *anchor_key;
    const char *target_column;
    weir_stype target_stype;
    const char *observation_time_column; /* or NULL */
    const char *weight_column;           /* or NULL */
    weir__task_kind kind;
    weir__unit unit;
    const char *const *drop_columns; /* "table.column" */
    uint32_t drop_column_count;
    weir__schema_split split;
} weir__schema_task;

typedef struct weir__schema {
    weir__arena arena;          /* of everything here */
    weir_cbor_writer document;  /* the schema as CBOR: `embedding` points into it */
    const char *name;           /* NULL: the source's */
    weir__schema_table *tables; /* in bytewise order of name */
    uint32_t table_count;
    weir__schema_task *tasks; /* in bytewise order of name */
    uint32_t task_count;
    bool has_tasks; /* the schema says which; else weir makes them */
    bool has_statistics_until;
    int64_t statistics_until;
    bool has_embedding;
    weir_cbor_value embedding;
} weir__schema;

/* Reads and checks a schema by itself. SCHEMA_INVALID or TASK_INVALID with the JSON path. Release it, also
 * after a failure. */
WEIR_CHECKED weir_status weir__schema_read(weir__schema *schema, const weir_env *env, const char *text,
                                           size_t size, const char *name, weir_error *error);
void weir__schema_release(weir__schema *schema);

const weir__schema_table *weir__schema_find_table(const weir__schema *schema, const char *name);
const weir__schema_column *weir__schema_find_column(const weir__schema_table *table, const char *name);

#endif
