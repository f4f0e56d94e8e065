/* A source: a database that rows are read from. SQLite, PostgreSQL, MySQL, DuckDB, CSV files,
 * runs of rows and Arrow tables each implement this; ingest knows nothing else of them.
 *
 * How a source is added: write source_NAME.c with a `const weir_ingest__source_kind
 * weir_ingest__source_NAME`, and list it in source.c. The methods are called from one thread at a time a
 * session; sessions made by `fork` run in parallel.
 *
 * What must hold:
 *   - One snapshot. All sessions of one source see the same data from open to close, whatever others write.
 *   - Values as stored. A source does not parse, round, trim or cast: text stays text, also in a column
 *     that is declared otherwise. Only types that the source itself has become BOOL and TIMESTAMP. CSV
 *     files have no types: a column all of whose fields are integers, or numbers, has those.
 *   - Order is free. Rows of a scan may come in any order and in any batches; every row comes exactly once
 *     over all parts. (Rows that come in key order make ingest faster.)
 *   - Text is handed over as bytes; ingest checks that it is UTF-8 and says which row is not.
 *   - Every failure is SOURCE_ERROR with the source's own message (OUT_OF_MEMORY if memory is short,
 *     SCHEMA_INVALID for a search path that the source cannot have).
 *   - An interrupted session ends whatever it is doing, soon and with an error, and does nothing more.
 *     What is still being opened cannot be interrupted: what takes long there looks at
 *     options->is_cancelled. */
#ifndef WEIR_INGEST_SOURCE_H
#define WEIR_INGEST_SOURCE_H

#include <stdatomic.h>

#include "base/arena.h"

#define WEIR_INGEST__SOURCE_OPERATOR "weir.ingest.source"

/* The two failures that every source has. */
#define WEIR_INGEST__SOURCE_ERROR(error, ...)                                                                \
    weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__SOURCE_OPERATOR, __VA_ARGS__)
static inline weir_status weir_ingest__source_no_memory(weir_error *error, size_t size) {
    return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, size);
}

/* ---- Values ---------------------------------------------------------------------------------- */

typedef enum weir_ingest__value_type {
    WEIR_INGEST__NULL,
    WEIR_INGEST__INT,  /* integer; every integer type. Unsigned or wider values beyond int64: see
                          WEIR_INGEST__REAL */
    WEIR_INGEST__REAL, /* real; floats of any width (a float32 is widened), decimals and integers beyond int64
                   rounded correctly to binary64. NaN and infinities are allowed */
    WEIR_INGEST__TEXT, /* text; also what has no other type here (uuid, enum, json, time of day, interval …)
                   in the source's own text form */
    WEIR_INGEST__BLOB, /* text: bytes */
    WEIR_INGEST__BOOL, /* integer: 0 or 1; only from a real boolean type */
    WEIR_INGEST__TIMESTAMP, /* integer: microseconds since 1970-01-01 UTC; dates are midnight; finer units
                        round down; what lies beyond int64 (infinity) is SOURCE_ERROR, naming the column. Only
                        from a real date or timestamp type */
} weir_ingest__value_type;

typedef struct weir_ingest__bytes {
    const char *data; /* not terminated; never NULL, also where size is 0 */
    size_t size;
} weir_ingest__bytes;

typedef struct weir_ingest__value {
    weir_ingest__value_type type;
    union {
        int64_t integer;
        double real;
        weir_ingest__bytes text;
    };
} weir_ingest__value;

/* What lies side by side in an array. */
typedef enum weir_ingest__array_form {
    WEIR_INGEST__ARRAY_NONE,   /* nothing: the column's cells have the values */
    WEIR_INGEST__ARRAY_INT32,  /* WEIR_INGEST__INT */
    WEIR_INGEST__ARRAY_INT64,  /* WEIR_INGEST__INT */
    WEIR_INGEST__ARRAY_DOUBLE, /* WEIR_INGEST__REAL */
    WEIR_INGEST__ARRAY_MICROS, /* int64: WEIR_INGEST__TIMESTAMP */
    WEIR_INGEST__ARRAY_BITS,   /* WEIR_INGEST__BOOL */
    WEIR_INGEST__ARRAY_TEXT32, /* int32, where each text begins, and where the last ends: WEIR_INGEST__TEXT */
    WEIR_INGEST__ARRAY_TEXT64, /* the same in int64 */
} weir_ingest__array_form;

/* A column of some rows, as the source has it. Where texts begin does not fall, also where one is null. */
typedef struct weir_ingest__array {
    weir_ingest__array_form form;
    const uint8_t *validity; /* bits; NULL: no value is null */
    size_t first;            /* the bit of the first row, in `validity` and in bits that are values */
    const char *values;      /* the first row's, at any address; of bits, where they begin */
    const char *bytes;       /* of texts */
} weir_ingest__array;

/* Rows, row after row: cell (r, c) is cells[r * column_count + c]. If there are arrays, one a column, the
 * cells of a column that has one are not there. Valid until the cursor's next call. */
typedef struct weir_ingest__rows {
    size_t row_count; /* 0: the end */
    const weir_ingest__value *cells;
    const weir_ingest__array *arrays; /* or NULL */
} weir_ingest__rows;

/* ---- The catalog ----------------------------------------------------------------------------- */

/* What a column is declared as, for drafting a schema (04, draft rules). */
typedef enum weir_ingest__declared {
    WEIR_INGEST__DECLARED_NOTHING, /* the values decide */
    WEIR_INGEST__DECLARED_BOOLEAN,
    WEIR_INGEST__DECLARED_TIME, /* date, timestamp */
    WEIR_INGEST__DECLARED_INTEGER,
    WEIR_INGEST__DECLARED_REAL,
    WEIR_INGEST__DECLARED_NUMERIC, /* integer where all values are, else real */
    WEIR_INGEST__DECLARED_TEXT,
    WEIR_INGEST__DECLARED_BLOB,
    WEIR_INGEST__DECLARED_ENUM, /* text of a fixed set */
} weir_ingest__declared;

typedef struct weir_ingest__catalog_column {
    char *name;
    weir_ingest__declared declared;
    bool is_date; /* of WEIR_INGEST__DECLARED_TIME: without a time of day, as far as the source knows */
    uint32_t source_type;   /* the source's own numbers: of the type, */
    uint32_t source_number; /* and of the column */
} weir_ingest__catalog_column;

/* A declared foreign key, of one column or several. */
typedef struct weir_ingest__catalog_key {
    char *parent_table;
    uint32_t *columns;
    uint32_t column_count;
    char **
        parent_columns; /* as many; none before weir_ingest__catalog_resolve_keys: the parent's primary key */
    uint32_t parent_column_count;
} weir_ingest__catalog_key;

/* A table, a view, or a query that the schema makes a table of. The columns of a view are known once
 * weir_ingest__catalog_complete was called. */
typedef struct weir_ingest__catalog_table {
    char *name;     /* what a schema calls it: the bare name, or schema.name where that finds nothing */
    char *schema;   /* that it is in, and */
    char *bare;     /* its name there; NULL in sources without schemas, and for queries */
    char *sql_name; /* quoted and complete, for a SELECT; NULL for queries */
    char *query;    /* that gives its rows; NULL: scan reads it by itself */
    bool is_view;
    bool is_given;                        /* a query of the schema's */
    bool is_hidden;                       /* from drafts: a view, or beyond the search path */
    weir_ingest__catalog_column *columns; /* in declared order */
    uint32_t column_count;
    uint32_t *primary_key; /* column numbers, in the key's own order */
    uint32_t primary_key_count;
    weir_ingest__catalog_key *foreign_keys;
    uint32_t foreign_key_count;
    uint64_t row_estimate; /* for progress and for sharing work out; 0: unknown */
    bool is_one_part;      /* scan would give all rows to part 0 */
    const struct weir_ingest__csv_table
        *csv;     /* of CSV files: what was found of them, while the source is open */
    void *detail; /* the source's own, in the catalog's memory */
} weir_ingest__catalog_table;

/* Owned by whoever called weir_ingest__source_describe. Tables in any order. */
typedef struct weir_ingest__catalog {
    weir__arena memory; /* of everything here */
    weir_ingest__catalog_table *tables;
    uint32_t table_count;
    char *name;          /* what a draft calls the database: a file's name without folder and ending */
    uint64_t size_bytes; /* of the whole source, for progress; 0: unknown */
    char **skipped;      /* files that lie there and are not read */
    uint32_t skipped_count;
} weir_ingest__catalog;

/* For sources that fill a catalog: each appends a zeroed entry and copies the name; NULL if memory is short.
 * Those that give nothing leave it to the catalog's memory to say that it was short: then names may be
 * missing, and nothing is to be looked for. */
weir_ingest__catalog_table *weir_ingest__catalog_add_table(weir_ingest__catalog *catalog, const char *name);
/* As weir_ingest__catalog_add_table; the source's number of the table is its detail, a uint32_t. */
weir_ingest__catalog_table *weir_ingest__catalog_add_numbered(weir_ingest__catalog *catalog, const char *name,
                                                              uint32_t number);
const char *weir_ingest__last_name(const char *path);                 /* what stands after its last slash */
bool weir_ingest__name_ends_in(const char *name, const char *ending); /* in any case */
/* The first bytes of a file; how many there are, -1 if it cannot be read. */
ssize_t weir_ingest__file_head(const weir_env *env, const char *path, void *out, size_t size);
uint64_t weir_ingest__file_size(const weir_env *env, const char *path); /* 0 if it cannot be had */
void weir_ingest__catalog_set_name(weir_ingest__catalog *catalog, const char *name);
/* Name and size of a database in a file: "folder/shop.sqlite" is called shop. */
void weir_ingest__catalog_set_file(weir_ingest__catalog *catalog, const char *path);
/* As weir_ingest__catalog_add_table; the table's name has the schema in it where `is_visible` is false. */
weir_ingest__catalog_table *weir_ingest__catalog_add_table_of(weir_ingest__catalog *catalog,
                                                              const char *schema, const char *bare,
                                                              bool is_visible);
weir_ingest__catalog_column *weir_ingest__catalog_add_column(weir_ingest__catalog *catalog,
                                                             weir_ingest__catalog_table *table,
                                                             const char *name,
                                                             weir_ingest__declared declared);
void weir_ingest__catalog_add_primary_key(weir_ingest__catalog *catalog, weir_ingest__catalog_table *table,
                                          uint32_t column);
/* A key without columns; weir_ingest__catalog_add_key_columns adds one (UINT32_MAX: one that is not there, so
 * that the key leads nowhere), and the parent's if it is given. */
weir_ingest__catalog_key *weir_ingest__catalog_add_foreign_key(weir_ingest__catalog *catalog,
                                                               weir_ingest__catalog_table *table,
                                                               const char *parent_table);
void weir_ingest__catalog_add_key_columns(weir_ingest__catalog *catalog, weir_ingest__catalog_key *key,
                                          uint32_t column, const char *parent_column);
void weir_ingest__catalog_add_skipped(weir_ingest__catalog *catalog, const char *path);
void weir_ingest__catalog_release(weir_ingest__catalog *catalog);

/* Brings the foreign keys of all tables into their final form, sorted by their columns: the parent's
 * primary key if no parent columns are named; without keys that lead nowhere; of several keys of the same
 * columns the first. Names match as `compare` says (strcmp, or without case). */
void weir_ingest__catalog_resolve_keys(weir_ingest__catalog *catalog,
                                       int (*compare)(const char *a, const char *b));

/* The table or view that a name of the schema means: one that is called so, else the one for which schema,
 * dot and bare name make up the name. *count is how many there are of the latter: NULL if it is not 1. */
weir_ingest__catalog_table *weir_ingest__catalog_find_table(const weir_ingest__catalog *catalog,
                                                            const char *name, uint32_t *count);
/* UINT32_MAX if there is none. */
uint32_t weir_ingest__catalog_find_column(const weir_ingest__catalog_table *table, const char *name);
uint32_t weir_ingest__catalog_find_named(const weir_ingest__catalog_table *table, const char *name,
                                         int (*compare)(const char *a, const char *b));

/* A column of a table of the catalog. */
typedef struct weir_ingest__origin {
    const weir_ingest__catalog_table *table;
    uint32_t column; /* number in it */
} weir_ingest__origin;

/* That of bare names, which are NULL where the source knows none; false if there is no such table. */
bool weir_ingest__catalog_find_origin(const weir_ingest__catalog *catalog, const char *table,
                                      const char *column, int (*compare)(const char *a, const char *b),
                                      weir_ingest__origin *out);

/* For drafts: takes out what is hidden from them, and keys that lead there. SOURCE_ERROR if nothing is
 * left; the message names the schemas that have tables. */
WEIR_CHECKED weir_status weir_ingest__catalog_keep_drafted(weir_ingest__catalog *catalog, weir_error *error);

/* ---- Sessions and cursors -------------------------------------------------------------------- */

typedef struct weir_ingest__source weir_ingest__source;
typedef struct weir_ingest__cursor weir_ingest__cursor;

/* What a source is opened by. All is borrowed until the last session is closed. */
typedef struct weir_ingest__source_options {
    const char *location;           /* path or URL */
    const char *const *search_path; /* schemas; if there are none the source's own */
    uint32_t search_path_count;
    const struct weir_ingest__csv_settings *csv; /* how CSV files are read (csv.h), or NULL */
    const struct weir_arrow_table *arrow_tables;
    uint32_t arrow_table_count;      /* not 0: these are the source, and there is no location */
    bool arrow_is_read_once;         /* no table will be scanned a second time */
    uint64_t memory;                 /* bytes that a database in this process may take; 0: as it likes */
    const atomic_bool *is_cancelled; /* set if it is to end, also while it is opened; or NULL */
} weir_ingest__source_options;

static inline bool weir_ingest__source_is_cancelled(const weir_ingest__source_options *options) {
    return options->is_cancelled && atomic_load_explicit(options->is_cancelled, memory_order_relaxed);
}

/* By which values a source selects rows with SQL, `"column" >= value`, in the order of keys of runs. */
typedef enum weir_ingest__selects {
    WEIR_INGEST__SELECTS_NOTHING,
    WEIR_INGEST__SELECTS_TYPES, /* integers, and times of a type for them; texts have collations */
    WEIR_INGEST__SELECTS_BYTES, /* integers, and texts bytewise */
} weir_ingest__selects;

/* The methods of a source, so that its files can declare them. */

/* Fills an empty catalog. Called by weir_ingest__source_describe, which sees whether memory was short. */
typedef weir_status weir_ingest__describe_method(weir_ingest__source *source, weir_ingest__catalog *out,
                                                 weir_error *error);

/* Reads columns (numbers in the table's declared order) of a table. `part` of `part_count` is a share of the
 * rows that no other part has; a source that cannot share gives all rows to part 0. */
typedef weir_status weir_ingest__scan_method(weir_ingest__source *source,
                                             const weir_ingest__catalog_table *table, const uint32_t *columns,
                                             uint32_t column_count, uint32_t part, uint32_t part_count,
                                             weir_ingest__cursor **out, weir_error *error);

/* Runs a query of the user's, read-only; the cursor's columns are known at once. */
typedef weir_status weir_ingest__query_method(weir_ingest__source *source, const char *sql,
                                              weir_ingest__cursor **out, weir_error *error);

/* The next rows of a cursor; row_count 0 at the end. */
typedef weir_status weir_ingest__next_method(weir_ingest__cursor *cursor, weir_ingest__rows *rows,
                                             weir_error *error);
typedef void weir_ingest__close_method(weir_ingest__cursor *cursor);

/* Adds the columns of a query to a table of the catalog, as they are named and typed, without running it.
 * Who calls it sees whether memory was short. */
typedef weir_status weir_ingest__describe_query_method(weir_ingest__source *source, const char *sql,
                                                       weir_ingest__catalog *catalog,
                                                       weir_ingest__catalog_table *table, weir_error *error);

typedef struct weir_ingest__source_kind {
    const char *name; /* "sqlite", "postgresql", "mysql", "duckdb", "csv", "runs", "arrow" */
    weir_ingest__selects selects;

    /* Whether a location (path or URL) is this kind's. Kinds are asked in the order of source.c; it may
     * look at the file's first bytes. */
    bool (*accepts)(const weir_env *env, const char *location);

    /* Connects and takes the snapshot; fails soon after it is cancelled. */
    weir_status (*open)(const weir_env *env, const weir_ingest__source_options *options,
                        weir_ingest__source **out, weir_error *error);
    void (*close)(weir_ingest__source *source);

    /* Another session on the same snapshot, closed by `close` before its origin; *out is NULL, without an
     * error, where the source cannot have one now. NULL method: never. */
    weir_status (*fork)(weir_ingest__source *source, weir_ingest__source **out, weir_error *error);

    weir_ingest__describe_method *describe;
    weir_ingest__scan_method *scan;
    weir_ingest__query_method *query;
    weir_ingest__describe_query_method *describe_query;

    /* Ends what the session is doing: from another thread, any number of times. */
    void (*interrupt)(weir_ingest__source *source);
} weir_ingest__source_kind;

/* The base of every session and cursor: the first member of the source's own struct. */
struct weir_ingest__source {
    const weir_ingest__source_kind *kind;
    const weir_env *env;
    uint64_t silence_ns; /* how long a server may give no row and no answer */

    /* Of servers. */
    const weir_ingest__source_options *options;
    atomic_bool is_interrupted;
    bool is_reading; /* a cursor is open: one at a time a session, as their protocols have it */
};

struct weir_ingest__cursor {
    weir__arena memory; /* of the cursor, and of what it keeps until it is closed */
    uint32_t column_count;
    const uint32_t *columns;   /* their numbers in the table or query; of servers none */
    const char **column_names; /* of a query; of a scan where the source has a use for them */
    bool takes_arrays;         /* set by whoever reads: columns may come as arrays */
    const char *failure;       /* of servers, for messages: "cannot read table orders", */
    const char *what;          /* and the end of that: "table orders" or "the query" */

    weir_ingest__next_method *next;
    weir_ingest__close_method *close;

    /* Which column of which table of the catalog a query's column is, where it passes one on as it is and
     * the source can tell; false if it cannot. NULL method: never. */
    bool (*origin)(const weir_ingest__cursor *cursor, uint32_t number, const weir_ingest__catalog *catalog,
                   weir_ingest__origin *out);
};

/* Finds the kind and opens; SOURCE_ERROR where no kind accepts the location. */
WEIR_CHECKED weir_status weir_ingest__source_open(const weir_env *env,
                                                  const weir_ingest__source_options *options,
                                                  weir_ingest__source **out, weir_error *error);

/* What silence_ns is unless somebody says otherwise: a query may think for an hour before its first row. */
#define WEIR_INGEST__SOURCE_SILENCE_S  3600
#define WEIR_INGEST__SOURCE_SILENCE_NS (WEIR_INGEST__SOURCE_SILENCE_S * UINT64_C(1000000000))
/* What it is while a session is opened: what is asked then is answered at once. */
#define WEIR_INGEST__SOURCE_OPENING_NS (60 * UINT64_C(1000000000))
void weir_ingest__source_close(weir_ingest__source *source);

/* For sources: a session that was made goes to the caller, unless `status` says that it failed: then it is
 * closed. */
weir_status weir_ingest__source_give(weir_ingest__source *session, weir_status status,
                                     weir_ingest__source **out);

/* For sources: a cursor of `size` bytes (the source's own struct), zeroed but for what is given here.
 * `columns` are copied; NULL are all. NULL if memory is short. */
void *weir_ingest__cursor_make(const weir_env *env, size_t size, const uint32_t *columns,
                               uint32_t column_count, weir_ingest__next_method *next,
                               weir_ingest__close_method *close);
/* The same for servers, which know the columns later; what is read is called "KIND NAME". */
void *weir_ingest__server_cursor_make(const weir_env *env, size_t size, const char *kind, const char *name,
                                      weir_ingest__next_method *next, weir_ingest__close_method *close);
/* SOURCE_ERROR for a value of a column; `fault` says what is wrong with it. */
weir_status weir_ingest__cursor_refuse(const weir_ingest__cursor *cursor, uint32_t column, const char *fault,
                                       weir_error *error);
/* The end of a cursor's `close`: it and its memory go. */
void weir_ingest__cursor_free(weir_ingest__cursor *cursor);
/* A cursor goes to the caller, unless `status` says that it failed or its memory was short: then it is
 * closed. */
weir_status weir_ingest__cursor_give(weir_ingest__cursor *cursor, weir_status status,
                                     weir_ingest__cursor **out, weir_error *error);

/* For servers: `interrupt` as they have it, and why a wait that began then is to end, NULL if it is not. */
void weir_ingest__server_interrupt(weir_ingest__source *source);
const char *weir_ingest__server_why_to_end(const weir_ingest__source *source, uint64_t began_ns);
static inline uint64_t weir_ingest__source_now(const weir_ingest__source *source) {
    return source->env->now_ns(source->env->context);
}
/* The rows of a batch: few enough for its cells to stay in the cache, and not too few. */
size_t weir_ingest__batch_rows(size_t column_count);

/* SCHEMA_INVALID if a search path is given to a source that has none; `why` says so. */
WEIR_CHECKED weir_status weir_ingest__refuse_search_path(const weir_ingest__source_options *options,
                                                         const char *why, weir_error *error);

/* SOURCE_ERROR for a location that no kind accepts: what it seems to be, and what to give instead. */
WEIR_CHECKED weir_status weir_ingest__refuse_location(const weir_env *env, const char *location,
                                                      weir_error *error);

/* SOURCE_ERROR: "<what>: <a server's or its library's own words in one line>", without the location's secrets
 * (a library quotes what it cannot read). */
weir_status weir_ingest__source_fail(weir_error *error, const char *location, const char *what,
                                     const char *text);

/* The catalog of a source; release it after success. */
WEIR_CHECKED weir_status weir_ingest__source_describe(weir_ingest__source *source, weir_ingest__catalog *out,
                                                      weir_error *error);

/* Reads columns of a table, view or query: as the kind's scan does, or by running the query. A query is not
 * shared out: part 0 has all rows. */
WEIR_CHECKED weir_status weir_ingest__source_scan(weir_ingest__source *source,
                                                  const weir_ingest__catalog_table *table,
                                                  const uint32_t *columns, uint32_t column_count,
                                                  uint32_t part, uint32_t part_count,
                                                  weir_ingest__cursor **out, weir_error *error);

/* Adds a table with the rows of a query. SOURCE_ERROR where the source refuses it, or where it gives no
 * columns or two with one name. */
WEIR_CHECKED weir_status weir_ingest__catalog_add_query(weir_ingest__source *source,
                                                        weir_ingest__catalog *catalog, const char *name,
                                                        const char *sql, weir_error *error);
/* Makes a view ready to be read: its columns, and the query that gives its rows. Nothing to do for all
 * else. */
WEIR_CHECKED weir_status weir_ingest__catalog_complete(weir_ingest__source *source,
                                                       weir_ingest__catalog *catalog,
                                                       weir_ingest__catalog_table *table, weir_error *error);

extern const weir_ingest__source_kind weir_ingest__source_postgres;
extern const weir_ingest__source_kind weir_ingest__source_mysql;
extern const weir_ingest__source_kind weir_ingest__source_duckdb;
extern const weir_ingest__source_kind weir_ingest__source_sqlite;
extern const weir_ingest__source_kind weir_ingest__source_csv;
extern const weir_ingest__source_kind weir_ingest__source_arrow;
extern const weir_ingest__source_kind weir_ingest__source_runs;

#endif
