/* What ingest works on. The phases, each in its own file, fill it from left to right:
 *
 *   resolve.c       schema + catalog -> which columns are read, keys, edges, times, tasks (names to numbers)
 *   describe.c      the plan -> the store's description
 *   read.c          the source's rows -> columns of converted values, in parts       (parallel)
 *   base_rows.c     rows that an earlier ingest kept, and of the source only the new ones
 *   kept_rows.c     the source's rows -> files beside the store, if that is asked for
 *   text_sets.c     the texts of all parts -> one dictionary
 *   row_order.c     parts -> one set of columns a table, in row order; categories    (parallel by table)
 *   text_numbers.c  text numbers by first appearance
 *   match.c         foreign keys -> parent rows, times through them, child lists     (parallel by edge type)
 *   tasks.c         queries -> seeds and splits                                      (parallel by task)
 *   statistics.c
 *   encode.c        everything -> the file
 *
 * The result depends on the rows and the schema alone: parts and threads only decide who works on what. */
#ifndef WEIR_INGEST_STATE_H
#define WEIR_INGEST_STATE_H

#include "base/file.h"
#include "ingest/dictionary.h"
#include "ingest/phase_context.h"
#include "ingest/schema.h"
#include "store/writer.h"

/* ---- Keys ------------------------------------------------------------------------------------ */

/* A key cell: a tag and 8 bytes. Numbers that are equal have one form, whatever their type was. */
typedef enum weir_ingest__key_tag {
    WEIR_INGEST__KEY_NULL,
    WEIR_INGEST__KEY_INT,           /* int64 */
    WEIR_INGEST__KEY_INTEGRAL_REAL, /* int64; it was stored as a real */
    WEIR_INGEST__KEY_REAL,          /* the bits of a binary64 that is no int64 */
    WEIR_INGEST__KEY_TEXT,          /* const weir_ingest__string * */
    WEIR_INGEST__KEY_BLOB,          /* const weir_ingest__string * */
    WEIR_INGEST__KEY_NEGATIVE_ZERO, /* 0; it was stored as -0.0 */
} weir_ingest__key_tag;

typedef struct weir_ingest__key {
    weir_ingest__key_tag tag;
    uint64_t payload;
} weir_ingest__key;

/* A key from a value; text and blobs are copied into the arena, once where a dictionary is given. False
 * if memory is short. NaN is null. */
bool weir_ingest__key_from_value(const weir_ingest__value *value, weir__arena *arena,
                                 weir_ingest__dictionary *dictionary, weir_ingest__key *out);
/* Numbers before text before blobs; null first. */
int weir_ingest__key_compare_values(weir_ingest__key a, weir_ingest__key b);
bool weir_ingest__key_equal(weir_ingest__key a, weir_ingest__key b);
uint64_t weir_ingest__key_hash(weir_ingest__key key);
/* As stored: integer, float, text or bytes. */
void weir_ingest__key_cbor(weir_ingest__key key, weir_cbor_writer *w);

/* ---- Columns of values ----------------------------------------------------------------------- */

/* One column of a part or of a table. `values` is, by semantic type: double (NaN: null), int64
 * (WEIR_TIME_ALWAYS: null), uint8 0, 1 (2: null) of booleans, uint32 numbers in a dictionary (WEIR_NONE:
 * null) of categories and texts, uint8 1 (0: null) of identifiers; NULL if the column is ignored. Keys
 * are there where the column is one. */
typedef struct weir_ingest__column_data {
    void *values;
    uint64_t *keys;
    uint8_t *tags; /* NULL: all are WEIR_INGEST__KEY_INT */
} weir_ingest__column_data;

static inline weir_ingest__key weir_ingest__key_at(const weir_ingest__column_data *column, uint32_t row) {
    return (weir_ingest__key){column->tags ? (weir_ingest__key_tag)column->tags[row] : WEIR_INGEST__KEY_INT,
                              column->keys[row]};
}

/* ---- The plan -------------------------------------------------------------------------------- */

/* When a row, a cell or an edge is known: what a timestamp column of the table says (its number in the
 * plan), or one of the table's stored times; neither: always, or with the row. */
typedef struct weir_ingest__known {
    uint32_t column; /* or WEIR_NONE */
    uint32_t time;   /* or WEIR_NONE */
} weir_ingest__known;
#define WEIR_INGEST__KNOWN_WITH_ROW ((weir_ingest__known){WEIR_NONE, WEIR_NONE})

typedef struct weir_ingest__column_plan {
    const char *name;
    const char *description;
    uint32_t position; /* in the source's table */
    weir_stype stype;
    weir_ingest__time_form form;
    bool is_primary;
    bool is_foreign; /* part of a foreign key */
    bool is_target;  /* a foreign key leads to it */
    weir_ingest__known known;
    uint32_t column_idx; /* ColumnIdx, or WEIR_NONE */
} weir_ingest__column_plan;

/* A time of a table's rows that is not a column: the latest of some paths, null if one of them is. */
typedef struct weir_ingest__time_plan {
    const weir_ingest__schema_time *paths;
    uint32_t path_count;
    int64_t *values; /* a row; WEIR_TIME_ALWAYS: null. From match.c on */
    uint64_t nulls;
} weir_ingest__time_plan;

static inline bool weir_ingest__keeps_keys(const weir_ingest__column_plan *column) {
    return column->is_primary || column->is_foreign || column->is_target;
}

/* What goes wrong in a row: of several the one of the first row, then column, is reported. */
typedef struct weir_ingest__row_fault {
    bool is_set;
    uint32_t row; /* in the part */
    uint32_t column;
    weir_status status;
    char what[320];
} weir_ingest__row_fault;

typedef struct weir_ingest__text_set weir_ingest__text_set; /* text_sets.c */

typedef struct weir_ingest__part {
    uint32_t row_count;
    uint32_t capacity;
    weir_ingest__column_data *columns;
    weir_ingest__dictionary *dictionaries; /* a column: categories, or texts of a foreign key */
    weir_ingest__dictionary texts;         /* of all text columns; in memory, of the rows after the sets' */
    weir_ingest__text_set *text_sets;      /* those of earlier rows, where memory is short */
    size_t text_set_count, text_set_capacity;
    bool owns_text_numbers; /* its numbers are those of ingest's texts already */
    weir__arena strings;
    const weir_ingest__string **row_keys; /* without a primary key: the rows' CBOR; hash is XXH64 */
    uint64_t *nulls;                      /* a column */
    uint64_t *not_finite;
    weir_ingest__unsaid *unsaid; /* a column: integers of times whose unit nobody said */
    weir_ingest__row_fault fault;
    weir_cbor_writer row_writer;
    weir_status status;
    weir_error error;
} weir_ingest__part;

typedef struct weir_ingest__table_plan {
    const char *name;
    const weir_ingest__catalog_table *source;
    weir_ingest__column_plan *columns; /* those that are read, in declared order */
    uint32_t column_count;
    uint32_t *positions; /* of the columns, for the source */
    uint32_t *places;    /* of all of the source's columns, by position: where each is declared here */
    uint32_t *primary_key;
    uint32_t primary_key_count;
    weir_ingest__known temporal;
    weir_ingest__time_plan *times;
    uint32_t time_count;

    weir_ingest__part *parts;
    uint32_t part_count;

    /* From row_order.c on. Everywhere a row is its place in its table; what the file calls it is decided when
     * that is written. */
    uint32_t row_count;
    weir_ingest__column_data *data;
    uint64_t *row_key_hashes;            /* without a primary key: XXH64 of the rows' CBOR */
    weir_ingest__dictionary *categories; /* a column */
    uint32_t *like_categories; /* a column: how many of them an earlier store has; WEIR_NONE: there is none */
    uint64_t *new_categories;  /* a column: cells that have others */
    uint32_t **category_ranks; /* a column: dictionary number -> place in bytewise order */
    weir_status status;
    weir_error error;
} weir_ingest__table_plan;

/* A row's primary key as CBOR, in the writer's buffer over what was there; false if memory is short. In
 * store_keys.c. */
bool weir_ingest__primary_key_cbor(const weir_ingest__table_plan *table, uint32_t row, weir_cbor_writer *w);

typedef struct weir_ingest__edge_plan {
    const weir_ingest__schema_key *key;
    uint32_t table;
    uint32_t like;     /* its number in an earlier store, or WEIR_NONE */
    uint32_t *columns; /* numbers in the table's plan, key->column_count of them */
    uint32_t parent_table;
    uint32_t *parent_columns; /* numbers in the parent's plan */
    weir_ingest__known known;
    uint32_t *parents; /* a child row; WEIR_NONE */
    uint32_t *starts;
    uint32_t *child_rows;
    int64_t *child_times; /* NULL: all always */
    weir_status status;
    weir_error error;
} weir_ingest__edge_plan;

/* Task rows by (anchor, when their label is known, number): docs/spec/05c. */
typedef struct weir_ingest__label_list {
    int64_t *times;
    uint32_t *starts;
    uint32_t *rows; /* numbers of seeds */
    uint32_t count;
} weir_ingest__label_list;

/* What a link task has beside its pairs (docs/spec/05f-links.md): the destination table's rows by (time,
 * row), and the references to them, by time. */
typedef struct weir_ingest__link_plan {
    uint32_t table; /* of the destinations */
    uint32_t edge;  /* that counts popularity, or WEIR_NONE */
    uint32_t *rows; /* by place */
    uint32_t *places;
    int64_t *times; /* by place */
    int64_t *reference_times;
    uint32_t *reference_places;
} weir_ingest__link_plan;

static inline bool weir_ingest__is_link(const weir_ingest__schema_task *task) {
    return task->kind == WEIR_INGEST__KIND_LINK;
}

static inline bool weir_ingest__has_label_times(const weir_ingest__schema_task *task) {
    return task->has_horizon || task->label_known_column;
}

typedef struct weir_ingest__task_plan {
    const weir_ingest__schema_task *schema;
    bool is_cell;
    uint32_t anchor_table;
    uint32_t target; /* number in the anchor table's plan; of a cell task */
    uint64_t seed_count;
    uint64_t early;                                 /* seeds that were observed before their anchor */
    weir_ingest__unsaid unsaid_time, unsaid_target; /* integers whose unit nobody said */
    uint32_t *rows;                                 /* split after split */
    int64_t *times;                                 /* or NULL */
    double *weights;                                /* or NULL */
    double *numbers;                                /* a derived task's targets: one of these; */
    int64_t *integers;                              /* times, 0/1, or numbers in `categories` */
    uint8_t *nulls;                                 /* a byte each */
    weir_ingest__dictionary categories;
    uint32_t like_categories; /* of them, that an earlier store has; WEIR_NONE: there is none */
    uint64_t new_categories;  /* targets that are others */
    weir__arena strings;
    uint32_t *category_ranks;
    uint8_t *held_out; /* bits */
    int64_t *known;    /* when each seed's label is; WEIR_TIME_NEVER. NULL: the labels have no time */
    weir_ingest__label_list labels[WEIR_STORE__LABEL_LISTS]; /* of all splits, and of train */
    weir_ingest__link_plan link;                             /* of a link task: its integers are places */
    weir_status status;
    weir_error error;
} weir_ingest__task_plan;

/* Finds the row of a key, of one column or several; see key_index.c. */
typedef struct weir_ingest__key_index {
    const weir_env *env;
    const weir_ingest__column_data *data; /* of the table's columns */
    const uint32_t *columns;              /* numbers in it */
    uint32_t column_count;
    uint32_t row_count;
    bool is_dense; /* rows are first_key, first_key + 1, … */
    int64_t first_key;
    int64_t *samples; /* the key of every 64th row, if the rows are sorted by it */
    uint32_t *slots;  /* row + 1 */
    uint64_t slot_mask;
} weir_ingest__key_index;

typedef struct weir_ingest__ingest {
    weir_ingest__context context;

    weir_ingest__csv_settings csv;
    weir_ingest__source_options source;
    weir_ingest__catalog catalog;
    weir_ingest__schema schema;
    weir_store *like;                   /* an earlier store, or NULL (like.h) */
    struct weir_ingest__base *base;     /* rows that were kept earlier, or NULL (base_rows.h) */
    struct weir_ingest__keeper *keeper; /* of rows that are kept, or NULL (kept_rows.h) */
    weir__arena arena;                  /* of the plan and of info */

    weir_ingest__table_plan *tables;
    uint32_t table_count;
    weir_ingest__edge_plan *edges;
    uint32_t edge_count;
    weir_ingest__task_plan *tasks;
    uint32_t task_count;
    weir_ingest__key_index **key_indexes; /* a table: of its primary key, or NULL */

    weir_ingest__dictionary texts; /* all texts, numbered as they came */
    uint32_t *text_order;          /* TextEmbeddingIdx -> number in texts */
    uint32_t text_count;

    const weir_ingest__string **category_texts; /* by CategoricalEmbeddingIdx: the value, */
    uint32_t *category_columns;                 /* and the ColumnIdx that it belongs to */

    weir_store_info info;
    weir_table *info_tables;
    weir_column *info_columns;
    weir_edge *info_edges;
    weir_task *info_tasks;

    bool has_released_rows; /* what the phases made is in the file */
    atomic_bool has_failed; /* a worker failed: the others stop early */
} weir_ingest__ingest;

/* ---- Phases ---------------------------------------------------------------------------------- */

/* What is wrong with times, as far as the data show it; after all phases. */
WEIR_CHECKED weir_status weir_ingest__warn_of_times(weir_ingest__ingest *ingest, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__draft_schema(weir_ingest__ingest *ingest, weir_bytes *schema,
                                                   weir_error *error);
/* Of the plan's files: zeroed memory from ingest's arena, and a refusal that names a path of the schema. */
void *weir_ingest__plan_take(weir_ingest__ingest *ingest, size_t count, size_t size, weir_status *status,
                             weir_error *error);
weir_status weir_ingest__plan_refuse(weir_error *error, weir_status status, const char *what,
                                     const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A query of the schema that fails is the schema's fault, whatever the source calls it. */
weir_status weir_ingest__plan_blame_query(const weir_ingest__catalog_table *table, weir_status status,
                                          weir_error *error);
WEIR_CHECKED weir_status weir_ingest__plan_make(weir_ingest__ingest *ingest, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__describe_store(weir_ingest__ingest *ingest, weir_error *error);
weir_status weir_ingest__too_many_rows(const char *table, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__read_rows(weir_ingest__ingest *ingest, weir_error *error);
/* Puts a part's texts aside as a set, if they are many, or, at its end, if memory is short; and makes all
 * texts one dictionary, of which every text cell has a number then. */
WEIR_CHECKED weir_status weir_ingest__put_texts_aside(weir_ingest__ingest *ingest, weir_ingest__part *part,
                                                      bool is_end, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__join_texts(weir_ingest__ingest *ingest, weir_error *error);
void weir_ingest__text_sets_release(const weir_env *env, weir_ingest__part *part);
WEIR_CHECKED weir_status weir_ingest__order_rows(weir_ingest__ingest *ingest, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__number_texts(weir_ingest__ingest *ingest, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__make_statistics(weir_ingest__ingest *ingest, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__match_keys(weir_ingest__ingest *ingest, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__make_tasks(weir_ingest__ingest *ingest, weir_error *error);
/* The lists of a task's labels by when they are known, from its seeds, split after split. */
WEIR_CHECKED weir_status weir_ingest__make_label_lists(weir_ingest__ingest *ingest,
                                                       weir_ingest__task_plan *task, weir_task *info,
                                                       weir_error *error);
/* The places of a link task's destinations, and the references to them; released with the task. */
WEIR_CHECKED weir_status weir_ingest__make_link(const weir_ingest__ingest *ingest,
                                                weir_ingest__link_plan *link, weir_error *error);
/* A whole store under its temporary name; the caller commits or abandons it. */
WEIR_CHECKED weir_status weir_ingest__write_store(weir_ingest__ingest *ingest, weir_store__writer *writer,
                                                  weir_ingest_report *report, weir_error *error);
/* The manifest as it is to be written (the caller releases it), or that the one that stands there is kept.
 * Before the store takes its name: the old one tells what ingest wrote last. */
WEIR_CHECKED weir_status weir_ingest__prepare_manifest(weir_ingest__ingest *ingest, const char *store_path,
                                                       const char *path, weir_bytes *text, bool *is_kept,
                                                       weir_error *error);
/* CONTRACT_VIOLATION for a preset that is not known; NULL is. */
WEIR_CHECKED weir_status weir_ingest__check_preset(const char *preset, weir_error *error);

/* Fills in the report's two paths. CONTRACT_VIOLATION if writing them would lose a file (targets.c). */
WEIR_CHECKED weir_status weir_ingest__choose_targets(const weir_ingest__ingest *ingest,
                                                     weir_ingest_report *report, weir_error *error);

/* A part's memory, and what a table holds after row_order.c. */
void weir_ingest__part_release(const weir_env *env, const weir_ingest__table_plan *table,
                               weir_ingest__part *part);
size_t weir_ingest__value_size(weir_stype stype);
void weir_ingest__column_data_release(const weir_env *env, weir_ingest__column_data *column);

/* The row's key for a message: "key 5003", "key (5003, '978-1')", or "" without one. */
void weir_ingest__row_key_describe(const weir_ingest__table_plan *table,
                                   const weir_ingest__column_data *columns, uint32_t row, char *out,
                                   size_t size);
/* Values of some columns for a message: 5003, or (5003, '978-1'). */
void weir_ingest__values_describe(const weir_ingest__column_data *data, const uint32_t *columns,
                                  uint32_t count, uint32_t row, char *out, size_t size);

/* An index over some columns of a table (their numbers are borrowed). Rows with a null among them are not
 * in it. *duplicate is a row whose values an earlier row has, or WEIR_NONE. */
WEIR_CHECKED weir_status weir_ingest__key_index_make(const weir_env *env,
                                                     const weir_ingest__table_plan *table,
                                                     const uint32_t *columns, uint32_t column_count,
                                                     weir_ingest__key_index *out, uint32_t *duplicate,
                                                     weir_error *error);
void weir_ingest__key_index_release(weir_ingest__key_index *index);
/* The row (in the table) that has these values, one per column; WEIR_NONE if none does or one is null. */
uint32_t weir_ingest__key_index_find(const weir_ingest__key_index *index, const weir_ingest__key *keys);

/* Where memory is short, keys are looked up range by range: in how many, so that the rows of one take at most
 * so many bytes, and in which a key falls. */
uint32_t weir_ingest__key_index_ranges(const weir_ingest__key_index *index, uint64_t most);
uint32_t weir_ingest__key_index_range(const weir_ingest__key_index *index, const weir_ingest__key *keys,
                                      uint32_t range_count);

/* An index over the key of every table that a query's anchors and destinations are looked up in. */
WEIR_CHECKED weir_status weir_ingest__index_keys(weir_ingest__ingest *ingest, weir_error *error);

/* What a known says, a row: WEIR_TIME_ALWAYS is null. NULL if it says nothing. */
const int64_t *weir_ingest__known_times(const weir_ingest__table_plan *table, weir_ingest__known known);
/* The time of a table's row. */
int64_t weir_ingest__row_time(const weir_ingest__table_plan *table, uint32_t row);

/* The earliest end of a task's train split (docs/spec, Statistics), and whose it is; false if none has
 * one. After the tasks. */
bool weir_ingest__earliest_end_of_train(const weir_ingest__ingest *ingest, int64_t *out, uint32_t *task);

/* Statistics of `count` values (NaN: none) in blocks of 4,096. */
weir_statistics weir_ingest__statistics_of(const double *values, uint64_t count);

/* Dictionary number -> place in bytewise order; NULL if memory is short. */
uint32_t *weir_ingest__rank_strings(const weir_env *env, const weir_ingest__dictionary *dictionary);

/* Sorts numbers 0 … count-1 by (primary[i], then `tie` where it is given), stably, into `order`. */
typedef struct weir_ingest__sort_item {
    uint64_t primary;
    uint64_t index;
} weir_ingest__sort_item;
WEIR_CHECKED bool weir_ingest__sort(const weir_env *env, weir_ingest__sort_item *items, uint64_t count,
                                    int (*tie)(const void *context, uint64_t a, uint64_t b),
                                    const void *context);

#endif
