/* weir/store.h: a store, open for reading.
 *
 * A store is one immutable file (docs/format.md), mapped into memory and shared by all processes that open
 * it. Opening checks the header, the section table and the metadata and costs the same at any size;
 * weir_store_verify reads every byte.
 *
 *   weir_store *store;
 *   status = weir_store_open(NULL, "shop.weir", &store, &error);
 *   const weir_store_info *info = weir_store_describe(store);
 *   for (uint32_t t = 0; t < info->table_count; t++) …
 *   weir_store_close(store);
 *
 * Everything reached from a weir_store is constant until close; any thread may read it. What opening cannot
 * know (a record's parent rows, its text and category numbers, children, seeds) may be damaged in a file
 * that was not verified: a reader of raw records must compare such numbers with the counts here before it
 * follows them, and the accessors below do. */
#ifndef WEIR_STORE_H
#define WEIR_STORE_H

#include "weir/base.h"
#include "weir/stypes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_NONE        UINT32_MAX /* no column, no table, no edge */
#define WEIR_NO_ROW      UINT64_MAX /* no row, no seed */
#define WEIR_TIME_ALWAYS INT64_MIN  /* the time of what was always there */
#define WEIR_TIME_NEVER                                                                                      \
    INT64_MAX /* an edge's: never known. As an observation time 2^63-1 sees everything else */

typedef enum weir_split { WEIR_TRAIN = 0, WEIR_VAL = 1, WEIR_TEST = 2, WEIR_SPLITS = 3 } weir_split;

/* What a task does with seeds that are observed before their anchor row exists. */
typedef enum weir_before_anchor {
    WEIR_BEFORE_ANCHOR_KEEP,       /* the anchor's cells are null, its foreign keys hidden */
    WEIR_BEFORE_ANCHOR_SHOW_KNOWN, /* its cells and foreign keys are known by their known_at alone */
    WEIR_BEFORE_ANCHOR_MOVE,       /* the observation time became that of the anchor row */
} weir_before_anchor;

WEIR_API const char *weir_stype_name(weir_stype stype); /* "identifier" … */
WEIR_API const char *weir_split_name(weir_split split); /* "train", "val", "test" */

typedef struct weir_statistics {
    double mean;
    double std;
    uint64_t count; /* values in them */
} weir_statistics;

/* A time that a table's rows have beside their timestamp columns: the latest of some paths, each through
 * foreign keys to a timestamp column of another table. It lies in the record as a timestamp column does. */
typedef struct weir_time_path {
    const char *const *names; /* foreign keys, then the column */
    uint32_t count;
} weir_time_path;

typedef struct weir_stored_time {
    const weir_time_path *paths;
    uint32_t path_count;
    uint32_t slot;  /* offset in the record */
    uint64_t nulls; /* rows that have none */
} weir_stored_time;

/* How a table keeps the primary keys of its rows, which are sorted by them (docs/format.md). */
typedef enum weir_key_form {
    WEIR_KEYS_NONE,
    WEIR_KEYS_RANGE,  /* row i has the integer key_first + i */
    WEIR_KEYS_PACKED, /* row i has key_first + the i-th unsigned integer of key_width bytes */
    WEIR_KEYS_CBOR,   /* any keys, as CBOR items */
} weir_key_form;

/* A RowIdx numbers the rows of all tables, one table after the other. What the file holds of a row is a
 * number of 32 bits: in format 1 its RowIdx, in format 2 its place in its table. The i-th row of a table has
 * the RowIdx row_start + i and the number first_number + i.
 *
 * A table's rows lie one after the other, `stride` bytes each, row r at records + (r - row_start) * stride.
 * In a record, all little-endian:
 *   - 8-byte slots: int64 microseconds of every timestamp column, then of every stored time;
 *     WEIR_TIME_ALWAYS if it is null;
 *   - 4-byte slots: float32 (normalised), category or text number of every numerical, categorical and text
 *     column; 0 if it is null;
 *   - 4-byte slots: the parent's number of every edge type of the table; WEIR_NONE if there is none;
 *   - bits: one per column, set if the cell is null; then one per boolean column, its value. Bit i is bit i
 *     % 8 of byte i / 8 from `bits_offset` on. A row's time is the slot at time_offset (which is right for
 *     null too), or always if that is WEIR_NONE. */
typedef struct weir_table {
    const char *name;
    uint64_t row_start;
    uint32_t row_count;
    uint32_t first_number;
    uint32_t stride;
    uint32_t bits_offset;
    uint32_t time_offset;  /* or WEIR_NONE */
    uint32_t column_start; /* ColumnIdx of its first column; they are consecutive */
    uint32_t column_count;
    uint32_t temporal_column; /* ColumnIdx or WEIR_NONE */
    uint32_t temporal_time;   /* instead: a number in `times`, or WEIR_NONE */
    const weir_stored_time *times;
    uint32_t time_count;
    uint32_t edge_start; /* its foreign keys are edges[edge_start …), in column order */
    uint32_t edge_count;
    const uint32_t *inbound; /* edge types into this table, in order (child table, column) */
    uint32_t inbound_count;
    const char *const *primary_key; /* column names */
    uint32_t primary_key_count;
    weir_key_form key_form;
    int64_t key_first;
    uint32_t key_width;
    uint64_t key_size; /* of the CBOR items */
    const uint8_t *keys;
    const uint8_t *records;
} weir_table;

/* By ColumnIdx: the tables' columns, then one per derived task. */
typedef struct weir_column {
    const char *name;
    const char *description; /* "" if there is none */
    uint32_t table;          /* WEIR_NONE for a derived task's */
    uint32_t task;           /* WEIR_NONE for a table's */
    weir_stype stype;
    uint32_t slot;       /* offset of the value's slot in the record; WEIR_NONE for identifier and boolean */
    uint32_t null_bit;   /* number of the bit that is set if the cell is null */
    uint32_t bool_bit;   /* number of the value's bit of a boolean; else WEIR_NONE */
    uint32_t known_at;   /* ColumnIdx of the timestamp column that says when the cell is known, defaults
                            applied (a timestamp column may name itself), or WEIR_NONE */
    uint32_t known_time; /* instead: a number in the table's `times`, or WEIR_NONE */
    uint32_t known_slot; /* offset of that time in the record; WEIR_NONE: known with the row */
    uint64_t nulls;
    uint64_t not_finite;        /* of a numerical column: values that count as null for that */
    weir_statistics statistics; /* of a numerical column or derived numerical task */
    uint32_t category_start;    /* of a categorical column or derived categorical task */
    uint32_t category_count;
} weir_column;

/* An edge type: a foreign key. The children of the parent table's i-th row are child_rows[starts[i]
 * … starts[i + 1]), sorted by (edge time, RowIdx), with their times beside them. */
typedef struct weir_edge {
    const char *name; /* of the column, or what the schema calls the key */
    uint32_t table;   /* the child's */
    uint32_t column;  /* ColumnIdx; WEIR_NONE for a column that is ignored otherwise, and for several */
    const char *const *columns; /* their names */
    uint32_t column_count;
    uint32_t parent_table;
    uint32_t parent_slot; /* offset in the child's record */
    uint32_t known_at;    /* as of a column */
    uint32_t known_time;
    uint32_t known_slot;
    uint64_t edges;
    uint64_t dangling;
    const uint8_t *starts;      /* uint32, parent rows + 1 */
    const uint8_t *child_rows;  /* uint32, edges: numbers of rows */
    const uint8_t *child_times; /* int64, edges; NULL if all are WEIR_TIME_ALWAYS */
} weir_edge;

/* Task rows whose label is known at some time (docs/spec/05c-task-rows-and-retrieval.md): those of the anchor
 * table's i-th row are rows[starts[i] … starts[i + 1]), sorted by (time, row), with the time from which on
 * the label is known beside each. A task row's RowIdx is the store's row_count + the number of its seed, and
 * its number in the file first_task_number + that. */
typedef struct weir_label_list {
    uint32_t count;
    const uint8_t *times;  /* int64, count */
    const uint8_t *starts; /* uint32, rows of the anchor table + 1 */
    const uint8_t *rows;   /* uint32, count */
} weir_label_list;

/* What a link task has beside a derived one (docs/spec/05f-links.md): its seeds are pairs of an anchor row
 * (the source) and a destination row. A place numbers the destination table's rows by (row time, RowIdx), so
 * that those that existed by some time are the first so many. */
typedef struct weir_link {
    bool is_link;
    uint32_t table;       /* of the destinations */
    uint32_t edge;        /* an edge type into it, whose references count popularity; or WEIR_NONE */
    uint64_t lists;       /* different pairs of source and time */
    uint64_t late;        /* pairs that were left out: the destination came after the observation time */
    uint64_t repeated;    /* … or the pair was there already */
    const uint8_t *times; /* int64 by place: the row's time */
    const uint8_t *rows;  /* uint32 by place: the row's number */
    const uint8_t *reference_times;  /* int64, as many as the edge type has edges, ascending */
    const uint8_t *reference_places; /* uint32 beside them: the destination's place */
} weir_link;

/* A task. Its seeds lie split after split (train, val, test), each in the contract's order, so that sample
 * i of dataset <name>/<task>/<split> is seed split_start[split] + i. */
typedef struct weir_task {
    const char *name;
    const char *target_column;
    bool is_cell;
    weir_stype stype;
    uint32_t column; /* ColumnIdx of the target: the cell's column, or the derived task's own */
    uint32_t anchor_table;
    uint64_t seed_count; /* below 2^32 - 1 of a link task, and of one that has label times */
    uint64_t dropped;    /* seeds whose anchor key matched no row */
    weir_before_anchor before_anchor;
    uint64_t early_seeds;           /* that were observed before their anchor; 0 if before_anchor is KEEP */
    bool has_train_statistics;      /* of a derived numerical target: over the train split alone */
    bool has_label_times;           /* of a derived task: it is known when its labels are known, by … */
    bool has_horizon;               /* … the observation time and the horizon, or … */
    int64_t horizon;                /* (microseconds) */
    const char *label_known_column; /* … this column of the query; else NULL */
    uint32_t observed_column;       /* ColumnIdx of the observation time; WEIR_NONE without label times */
    weir_label_list labels;         /* known at some time: of all splits, … */
    weir_label_list train_labels;   /* … and of train */
    uint64_t split_start[WEIR_SPLITS + 1];
    const uint8_t
        *column_dropped; /* a byte per ColumnIdx: 1 if the task leaves the column out (not the target) */
    const uint8_t *edge_hidden;      /* a byte per edge type: 1 if the task does not show it */
    const char *const *drop_columns; /* "table.column", in order of table and column */
    uint32_t drop_column_count;
    bool drops_target;         /* a cell task whose target column is among them: no other row shows it */
    const uint8_t *seed_rows;  /* uint32: the anchor row's number */
    const uint8_t *seed_times; /* int64; NULL: the anchor row's time, 2^63-1 if that is always */
    const uint8_t
        *seed_targets; /* 8 bytes per seed, in a link task its destination's place; NULL in a cell task */
    const uint8_t *seed_nulls;   /* bits: a derived task's null targets; NULL in a cell task */
    const char *weight_column;   /* the query's column that the weights come from; NULL: there are none */
    const uint8_t *seed_weights; /* float64, finite and at least 0; or NULL */
    const uint8_t
        *held_out; /* bits over the anchor table's rows: seed of val or test; NULL in a derived task */
    weir_link link;
} weir_task;

typedef struct weir_section {
    const char *name;
    uint64_t offset;
    uint64_t size;
    uint8_t hash[WEIR_HASH_SIZE];
} weir_section;

typedef struct weir_store_info {
    const char *name;
    uint8_t store_hash[WEIR_HASH_SIZE];
    uint64_t file_size;
    uint64_t row_count;
    uint32_t format;            /* 1, or 2 if there are more rows than a number of 32 bits can tell apart */
    uint32_t first_task_number; /* what the file's numbers of task rows begin at */
    uint32_t table_count;
    uint32_t column_count; /* derived tasks' included */
    uint32_t table_column_count;
    uint32_t edge_count;
    uint32_t task_count;
    uint32_t category_count;
    uint32_t text_count;
    uint32_t embedding_dim; /* 0: the store has no embeddings */
    const char *embedding_provider;
    bool has_statistics_until;
    int64_t statistics_until;
    weir_statistics timestamps; /* of all timestamp cells */
    const weir_table *tables;   /* in bytewise order of name */
    const weir_column *columns; /* by ColumnIdx */
    const weir_edge *edges;     /* by child table, then column */
    const weir_task *tasks;     /* in bytewise order of name */
    const weir_section *sections;
    uint32_t section_count;
    const uint8_t *column_embeddings;   /* float16 [column_count][embedding_dim]; NULL if dim is 0 */
    const uint8_t *category_embeddings; /* float16 [category_count][embedding_dim] */
    const uint8_t *text_embeddings;     /* float16 [text_count][embedding_dim] */
} weir_store_info;

typedef struct weir_store weir_store;

/* Which of a store's bytes are compared with their hashes, and when (docs/spec/04b-block-hashes.md). */
typedef enum weir_verify {
    WEIR_VERIFY_TOUCHED = 0, /* each block of 64 KiB before it is used first in this process */
    WEIR_VERIFY_NONE,        /* header and metadata alone */
    WEIR_VERIFY_ALL,         /* everything, at open: weir_store_verify */
} weir_verify;

typedef struct weir_store_options {
    size_t size; /* sizeof(weir_store_options) */
    weir_verify verify;
    uint32_t threads; /* of WEIR_VERIFY_ALL; 0: as many as there are processors */
    const void
        *data; /* the store's bytes, if they lie in memory already (borrowed, 8-byte aligned); the path */
    size_t data_size; /* is what messages call it, then */
    bool reads_ahead; /* builders ask for pages some time before they read them; always for a store that is
                         larger than memory. It costs time and gains nothing if all of the store is in memory
                       */
    uint64_t memory; /* bytes of memory that the store may take; 0: what the process may have. A store of more
                        than half of it is read page by page, and only what is asked for */
} weir_store_options;

/* Opens a store; weir_store_open_with(env, path, NULL, …) is weir_store_open. IO_ERROR; STORE_CORRUPT (not a
 * store, cut, header or metadata damaged), STORE_VERSION, OUT_OF_MEMORY, CONTRACT_VIOLATION (options).
 *
 * While stores of the default environment are open, the process has a handler for SIGBUS, which the system
 * sends if a page of a mapped file cannot be read: a store that this happens to gives zeros from then on, and
 * IO_ERROR at the next weir_store_status. What is not a store's goes to the handler that was there before. */
WEIR_API WEIR_CHECKED weir_status weir_store_open(const weir_env *env, const char *path, weir_store **out,
                                                  weir_error *error);
WEIR_API WEIR_CHECKED weir_status weir_store_open_with(const weir_env *env, const char *path,
                                                       const weir_store_options *options, weir_store **out,
                                                       weir_error *error);
WEIR_API void weir_store_close(weir_store *store);

/* Whether all that was read so far is what was written: STORE_CORRUPT names the section and the place of a
 * block that is damaged, IO_ERROR the store if it could not be read. Builders call it for every batch; a
 * caller of the accessors below calls it when done. Any thread. */
WEIR_API WEIR_CHECKED weir_status weir_store_status(const weir_store *store, weir_error *error);

WEIR_API const weir_store_info *weir_store_describe(const weir_store *store);

/* Checks every byte: each section's hash, the padding, and that every number in it points to what exists.
 * STORE_CORRUPT names the section. With several threads, sections are read in parallel. */
WEIR_API WEIR_CHECKED weir_status weir_store_verify(const weir_store *store, uint32_t threads,
                                                    weir_error *error);

/* ---- Accessors: safe on any bytes, not for inner loops ---------------------------------------
 * What they read is verified first, as the store's `verify` says; what is damaged reads as missing (or 0),
 * and weir_store_status reports it. */

/* The table of a row; WEIR_NONE if there is no such row. */
WEIR_API uint32_t weir_store_table_of(const weir_store *store, uint64_t row);

/* The RowIdx of a row of a table, by its number, as it stands in the file and in the tensor anchor_row; and
 * back. WEIR_NO_ROW, and WEIR_NONE, if there is none. */
WEIR_API uint64_t weir_store_row_of(const weir_store *store, uint32_t table, uint32_t number);
WEIR_API uint32_t weir_store_number_of(const weir_store *store, uint64_t row);

/* A row's time, and its parent by an edge type of its table. */
WEIR_API int64_t weir_store_row_time(const weir_store *store, uint64_t row);
WEIR_API uint64_t weir_store_parent(const weir_store *store, uint64_t row, uint32_t edge);

/* A cell. `number` is the normalised value of a numerical one, `integer` the microseconds of a timestamp, 0
 * or 1 of a boolean, the category or text number; all 0 if it is null. False if there is no such
 * cell. */
typedef struct weir_cell {
    weir_stype stype;
    bool is_null;
    float number;
    int64_t integer;
} weir_cell;
WEIR_API bool weir_store_cell(const weir_store *store, uint64_t row, uint32_t column, weir_cell *out);

/* ---- Keys: what joins predictions back to the database ----------------------------------------
 * A key has one value for each column of the primary key, as the source stored it. Stores keep them if
 * the schema says "keys": true. */
typedef enum weir_key_type {
    WEIR_KEY_NONE, /* no such key */
    WEIR_KEY_INTEGER,
    WEIR_KEY_REAL,
    WEIR_KEY_TEXT,
    WEIR_KEY_BYTES,
} weir_key_type;

typedef struct weir_key_value {
    weir_key_type type;
    int64_t integer;
    double real;
    weir_text bytes; /* of text and bytes; points into the store */
} weir_key_value;

/* The value of a row's key in column `part` of the primary key; false if the table keeps no keys, or
 * there is no such row or column. */
WEIR_API bool weir_store_key(const weir_store *store, uint64_t row, uint32_t part, weir_key_value *out);

/* The row of a table that has this key (one value per column of the primary key; an integer and a real that
 * are equal are the same key), by binary search; WEIR_NO_ROW if there is none or the table keeps no keys. */
WEIR_API uint64_t weir_store_find_row(const weir_store *store, uint32_t table, const weir_key_value *values,
                                      uint32_t count);

/* The children of a parent row by an edge type into its table that are known at `observation_time`: the
 * first *count of all of them. Returns the place of the first in child_rows and child_times. */
WEIR_API uint32_t weir_store_children(const weir_store *store, uint32_t edge, uint64_t parent_row,
                                      int64_t observation_time, uint32_t *count);

/* Seed `index` of a task: false if there is no such seed or row. The target is that of the seed: in
 * a cell task the row's own cell, in a link task true. */
typedef struct weir_seed_row {
    uint64_t row;
    uint64_t destination; /* row, of a link task; else WEIR_NO_ROW */
    int64_t observation_time;
    weir_split split;
    weir_cell target;
} weir_seed_row;
WEIR_API bool weir_store_seed(const weir_store *store, uint32_t task, uint64_t index, weir_seed_row *out);

/* The text of a category (its value) or of a text; empty if there is none with this number. */
WEIR_API weir_text weir_store_category(const weir_store *store, uint32_t index);
WEIR_API weir_text weir_store_text(const weir_store *store, uint32_t index);

/* The task, split and cardinality of dataset "<name>/<task>/<split>"; INVALID_DATASET_KEY if there is
 * none. The hash is that of the manifest: SHA-256(CBOR(["dataset_v1", store_hash, task, split])). */
typedef struct weir_stored_dataset {
    uint32_t task;
    weir_split split;
    uint64_t cardinality;
    uint8_t hash[WEIR_HASH_SIZE];
} weir_stored_dataset;
WEIR_API WEIR_CHECKED weir_status weir_store_dataset(const weir_store *store, const char *key,
                                                     weir_stored_dataset *out, weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
