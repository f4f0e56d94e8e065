/* A schema: what to read, what it means, and which tasks to make (docs/store.md, docs/spec). Read from JSON
 * by schema_read.c, schema_keys.c and schema_tasks.c, drafted from a source by draft.c. Names only: nothing
 * here knows the source. */
#ifndef WEIR_INGEST_SCHEMA_H
#define WEIR_INGEST_SCHEMA_H

#include "ingest/convert.h"
#include "ingest/csv.h"
#include "store/format.h"
#include "weir_tool/documents.h"

#define WEIR_INGEST__SCHEMA_OPERATOR "weir.ingest.schema"

enum { WEIR_INGEST__KEY_COLUMNS_MAX = 32, WEIR_INGEST__TIME_KEYS_MAX = 16 };

#define WEIR_INGEST__LINK_COLUMN "link" /* what the target of a link task is called */

/* A time that is written in a schema is a weir_time_path: names of foreign keys, each of the table that the
 * one before leads to, then that of a timestamp column. One name is a column of the table itself; none: no
 * time. */
typedef struct weir_ingest__schema_column {
    const char *name;
    weir_stype stype;
    const char *description;          /* "" if there is none */
    bool has_known_at;                /* the schema says something */
    weir_time_path known_at;          /* none: null */
    weir_ingest__time_form form;      /* of a timestamp */
    weir_cbor_value written_known_at; /* as the document says it: resolved after all tables are read */
    weir_cbor_value written_key;
} weir_ingest__schema_column;

/* A foreign key, of one column (also one that is written at its column) or several. */
typedef struct weir_ingest__schema_key {
    const char *name; /* of one that is written at its column, the column's; no two of a table are equal */
    const char *const *columns;
    uint32_t column_count;
    const char *table;
    const char *const *to; /* as many columns of that table */
    uint32_t to_count;
    bool has_known_at;
    weir_time_path known_at;
    weir_cbor_value written_known_at;
} weir_ingest__schema_key;

typedef struct weir_ingest__schema_table {
    const char *name;
    const char *query; /* NULL: a table or view of the source */
    const char *const *primary_key;
    uint32_t primary_key_count;
    weir_time_path temporal;
    weir_ingest__schema_column *columns;
    uint32_t column_count;
    weir_ingest__schema_key *foreign_keys; /* those of columns, then those that are listed */
    uint32_t foreign_key_count;
    weir_ingest__schema_key *listed_keys;
    uint32_t listed_key_count;
    weir_cbor_value written_temporal;
    bool says_keys;
    bool keeps_keys; /* in the store */
    bool has_csv;
    weir_ingest__csv_options csv;
} weir_ingest__schema_table;

typedef enum weir_ingest__task_kind {
    WEIR_INGEST__KIND_AUTO,
    WEIR_INGEST__KIND_CELL,
    WEIR_INGEST__KIND_DERIVED,
    WEIR_INGEST__KIND_LINK,
} weir_ingest__task_kind;
typedef enum weir_ingest__split_method {
    WEIR_INGEST__SPLIT_HASH,
    WEIR_INGEST__SPLIT_TEMPORAL,
    WEIR_INGEST__SPLIT_COLUMN
} weir_ingest__split_method;

typedef struct weir_ingest__schema_split {
    weir_ingest__split_method method;
    uint32_t permille[WEIR_SPLITS];
    uint64_t seed;
    int64_t val;
    int64_t test;
    const char *column;
} weir_ingest__schema_split;

/* A column of a table of the schema; whether the source has it is for the source to say. */
typedef struct weir_ingest__schema_name {
    const char *table;
    const char *column;
} weir_ingest__schema_name;

typedef struct weir_ingest__schema_task {
    const char *name;
    const char *query; /* NULL: every row of the anchor table */
    const char *anchor_table;
    const char *const *anchor_key; /* columns of the query, one for each column of the primary key */
    uint32_t anchor_key_count;
    bool is_key_for_sure;          /* the schema says so */
    const char *destination_table; /* of a link task, as the anchor's two; else NULL */
    const char *const *destination_key;
    uint32_t destination_key_count;
    weir_ingest__schema_name
        popularity; /* of a link task: a foreign key to the destination table; table NULL: none */
    const char *target_column;
    weir_stype target_stype;
    const char *observation_time_column; /* or NULL */
    const char *weight_column;           /* or NULL */
    const char *label_known_column;      /* when a label is known, or NULL; or the horizon says it: */
    bool has_horizon;
    int64_t horizon; /* microseconds */
    weir_ingest__task_kind kind;
    weir_ingest__time_form form; /* of the observation time and of a timestamp target */
    weir_before_anchor before_anchor;
    bool has_train_statistics; /* of a derived numerical target: over the train split alone */
    weir_ingest__schema_name *drop_columns;
    uint32_t drop_column_count;
    weir_ingest__schema_split split;
} weir_ingest__schema_task;

typedef struct weir_ingest__schema {
    weir__arena arena;         /* of everything here */
    weir_cbor_writer document; /* the schema as CBOR: `embedding` points into it */
    const char *name;          /* NULL: the source's */
    const char *const *search_path;
    uint32_t search_path_count;
    weir_ingest__csv_options csv;
    bool keeps_keys;                   /* of tables that do not say */
    weir_ingest__schema_table *tables; /* in bytewise order of name */
    uint32_t table_count;
    weir_ingest__schema_task *tasks; /* in bytewise order of name */
    uint32_t task_count;
    bool has_tasks; /* the schema says which; else weir makes them */
    bool has_statistics_until;
    bool has_statistics_until_train; /* instead: the end of the train split */
    int64_t statistics_until;
    bool has_embedding;
    weir_cbor_value embedding;
} weir_ingest__schema;

/* Reads and checks a schema by itself. SCHEMA_INVALID or TASK_INVALID with the JSON path. Release it, also
 * after a failure. */
WEIR_CHECKED weir_status weir_ingest__schema_read(weir_ingest__schema *schema, const weir_env *env,
                                                  const char *text, size_t size, const char *name,
                                                  weir_error *error);
void weir_ingest__schema_release(weir_ingest__schema *schema);

/* NULL if there is none. */
const weir_ingest__schema_table *weir_ingest__schema_find_table(const weir_ingest__schema *schema,
                                                                const char *name);
const weir_ingest__schema_column *weir_ingest__schema_find_column(const weir_ingest__schema_table *table,
                                                                  const char *name);
const weir_ingest__schema_key *weir_ingest__schema_find_key(const weir_ingest__schema_table *table,
                                                            const char *name);
bool weir_ingest__paths_equal(const weir_time_path *a, const weir_time_path *b);
bool weir_ingest__stored_times_equal(const weir_stored_time *a, const weir_stored_time *b); /* their paths */

/* ---- Lists of names ---------------------------------------------------------------------------- */

bool weir_ingest__names_have(const char *const *names, uint32_t count, const char *name);
bool weir_ingest__names_differ(const char *const *names, uint32_t count); /* each from all others */
bool weir_ingest__names_equal(const char *const *a, uint32_t a_count, const char *const *b, uint32_t b_count);

/* What a task is called that nobody has named: "table.column", with #2, #3, … behind it where one of `others`
 * is called so. NULL if memory is short. */
const char *weir_ingest__task_name(weir__arena *arena, const char *table, const char *column,
                                   const char *const *others, uint32_t count);

/* ---- Names that a schema joins, for those who write one ---------------------------------------- */

/* Whether the `size` bytes at `name` are the name of a table of the schema that is written. */
typedef bool (*weir_ingest__is_table)(const void *context, const char *name, size_t size);

/* Writes "table.column" as the value of foreign_key or an item of drop_columns; as ["table", "column"] if
 * the text would be read as another table's. The arena remembers if it is short of memory. */
void weir_ingest__json_joined_name(weir_json_writer *w, weir__arena *arena, const char *table,
                                   const char *column, weir_ingest__is_table is_table, const void *context);

/* Writes a time through foreign keys as the value of temporal_column or known_at: keys[0] is a foreign key
 * of the table itself and leads to tables[0], keys[1] one of tables[0], …; `column` is one of the last
 * table. As text, "order_id -> orders.ordered_at", or as a list if the names would be misread. */
void weir_ingest__json_time(weir_json_writer *w, weir__arena *arena, const char *const *keys,
                            const char *const *tables, uint32_t key_count, const char *column);

#endif
