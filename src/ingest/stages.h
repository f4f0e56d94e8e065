/* The stages of an ingest. Each is a value that one function makes of the stage before, which it does not
 * change, and that one function releases:
 *
 *   plan         resolve.c       schema + catalog -> what is read, keys, edges, times, tasks, by numbers
 *   description  describe.c      the plan -> the store's description, as far as no row is needed
 *   parts        read.c          the source's rows -> columns of converted values, in parts; parallel
 *                base_rows.c     rows that an earlier ingest kept, and of the source only the new ones
 *                kept_rows.c     the source's rows -> files beside the store, if that is asked for
 *   ordered      row_order.c     parts -> one set of columns per table, in row order; parallel by table
 *                text_sets.c     the texts of all parts -> one dictionary
 *                text_numbers.c  text numbers by first appearance
 *   linked       match.c         foreign keys -> parents, times, child lists; parallel by edge type
 *   tasks        tasks.c         queries -> seeds and splits; parallel by task
 *   statistics   statistics.c    of the columns, over the rows that count
 *   the file     encode.c        everything -> the store
 *
 * A stage points to the one before, which must outlive it. All of them may be all zero, and are released as
 * well. What a stage no longer needs of an earlier one is freed before the next begins: order_rows uses up
 * the parts, and ingest.c drops the foreign keys once they are linked.
 *
 * The result depends on the rows and the schema alone: parts and threads only decide who works on what. */
#ifndef WEIR_INGEST_STAGES_H
#define WEIR_INGEST_STAGES_H

#include "base/file.h"
#include "ingest/key.h"
#include "ingest/phase_context.h"
#include "ingest/schema.h"
#include "store/writer.h"

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
    weir_stype stype;
    weir_ingest__time_form form;
    bool is_primary;
    bool is_foreign; /* part of a foreign key */
    bool is_target;  /* a foreign key leads to it */
    weir_ingest__known known;
    uint32_t column_idx; /* ColumnIdx, or WEIR_NONE */
} weir_ingest__column_plan;

static inline bool weir_ingest__keeps_keys(const weir_ingest__column_plan *column) {
    return column->is_primary || column->is_foreign || column->is_target;
}

typedef struct weir_ingest__table_plan {
    const char *name;
    const weir_ingest__catalog_table *source;
    weir_ingest__column_plan *columns; /* those that are read, in declared order */
    uint32_t column_count;
    uint32_t *positions; /* of the columns, in the source's table */
    uint32_t *places;    /* of all of the source's columns, by position: where each is declared here */
    uint32_t *primary_key;
    uint32_t primary_key_count;
    bool keeps_primary_keys; /* in the store */
    weir_ingest__known temporal;
    weir_stored_time *times; /* their paths: the latest of some, null if one of them is */
    uint32_t time_count;
} weir_ingest__table_plan;

typedef struct weir_ingest__edge_plan {
    const weir_ingest__schema_key *key;
    uint32_t table;
    uint32_t like;     /* its number in an earlier store, or WEIR_NONE */
    uint32_t *columns; /* numbers in the table's plan, key->column_count of them */
    uint32_t parent_table;
    uint32_t *parent_columns; /* numbers in the parent's plan */
    weir_ingest__known known;
} weir_ingest__edge_plan;

typedef struct weir_ingest__task_plan {
    const weir_ingest__schema_task *schema;
    bool is_cell;
    uint32_t anchor_table;
    uint32_t target;     /* number in the anchor table's plan; of a cell task */
    uint32_t column_idx; /* of the target */
    uint32_t link_table; /* of a link task: that of the destinations, */
    uint32_t link_edge;  /* and the edge type that counts popularity, or WEIR_NONE */
} weir_ingest__task_plan;

static inline bool weir_ingest__is_link(const weir_ingest__schema_task *task) {
    return task->kind == WEIR_INGEST__KIND_LINK;
}

static inline bool weir_ingest__has_label_times(const weir_ingest__schema_task *task) {
    return task->has_horizon || task->label_known_column;
}

typedef struct weir_ingest__like weir_ingest__like; /* like.h */

/* Tables stand in bytewise order of name and columns in declared order, so that every later phase can simply
 * count. */
typedef struct weir_ingest__plan {
    weir__arena arena;
    const weir_ingest__schema *schema;
    const weir_ingest__catalog *catalog;
    const weir_ingest__like *like;
    weir_ingest__table_plan *tables;
    uint32_t table_count;
    uint32_t table_column_count; /* ColumnIdx of all tables' columns are below this */
    weir_ingest__edge_plan *edges;
    uint32_t edge_count;
    weir_ingest__task_plan *tasks;
    uint32_t task_count;
} weir_ingest__plan;

/* Adds the schema's queries to the catalog and completes the views that it names, so that every table of the
 * schema is in the catalog with its columns. */
WEIR_CHECKED weir_status weir_ingest__complete_catalog(const weir_ingest__context *context,
                                                       const weir_ingest__schema *schema,
                                                       weir_ingest__catalog *catalog, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__plan_make(const weir_env *env, const weir_ingest__schema *schema,
                                                const weir_ingest__catalog *catalog,
                                                const weir_ingest__like *like, weir_ingest__plan *out,
                                                weir_error *error);
void weir_ingest__plan_release(weir_ingest__plan *plan);

/* A refusal that names a path of the schema. */
weir_status weir_ingest__plan_refuse(weir_error *error, weir_status status, const char *what,
                                     const char *format, ...) __attribute__((format(printf, 4, 5)));
/* A query of the schema that fails is the schema's fault, whatever the source calls it. */
weir_status weir_ingest__plan_blame_query(const weir_ingest__catalog_table *table, weir_status status,
                                          weir_error *error);

/* ---- The description ------------------------------------------------------------------------- */

/* The store's description, by what writes it. */
typedef struct weir_ingest__description {
    weir__arena arena;
    weir_store_info info;
    weir_table *tables; /* info's, as all of these */
    weir_column *columns;
    weir_edge *edges;
    weir_task *tasks;
} weir_ingest__description;

/* As far as the plan says it. */
WEIR_CHECKED weir_status weir_ingest__describe_store(const weir_env *env, const weir_ingest__plan *plan,
                                                     weir_ingest__description *out, weir_error *error);
void weir_ingest__description_release(weir_ingest__description *description);

/* ---- Parts ----------------------------------------------------------------------------------- */

/* What goes wrong in a row: of several the one of the first row, then column, is reported. */
typedef struct weir_ingest__row_fault {
    bool is_set;
    uint32_t row; /* in the part */
    uint32_t column;
    weir_status status;
    char what[320];
} weir_ingest__row_fault;

typedef struct weir_ingest__text_set weir_ingest__text_set; /* text_sets.c */

/* What a part has of a column beside its values. */
typedef struct weir_ingest__part_column {
    weir_ingest__dictionary dictionary; /* categories, or texts of a foreign key */
    weir_ingest__unsaid unsaid;         /* integers of times whose unit nobody said */
    uint64_t nulls, not_finite;
} weir_ingest__part_column;

typedef struct weir_ingest__part {
    uint32_t row_count;
    uint32_t capacity;
    weir_ingest__column_data *data; /* both in the arena of the parts */
    weir_ingest__part_column *columns;
    weir_ingest__dictionary texts;    /* of all text columns; in memory, of the rows after the sets' */
    weir_ingest__text_set *text_sets; /* those of earlier rows, where memory is short */
    size_t text_set_count, text_set_capacity;
    bool owns_text_numbers; /* its numbers are those of all texts already */
    weir__arena strings;
    const weir_ingest__string **row_keys; /* without a primary key: the rows' CBOR; hash is XXH64 */
    weir_ingest__row_fault fault;
    weir_cbor_writer row_writer;
    weir_status status;
    weir_error error;
} weir_ingest__part;

typedef struct weir_ingest__table_parts {
    weir_ingest__part *list;
    uint32_t count;
} weir_ingest__table_parts;

typedef struct weir_ingest__parts {
    const weir_ingest__plan *plan;
    const weir_env *env;
    weir__arena arena;
    weir_ingest__table_parts *tables;
} weir_ingest__parts;

struct weir_ingest__base;   /* base_rows.h */
struct weir_ingest__keeper; /* kept_rows.h */

/* Without a base, and without a keeper, these are NULL. */
WEIR_CHECKED weir_status weir_ingest__read_rows(weir_ingest__context *context, const weir_ingest__plan *plan,
                                                struct weir_ingest__base *base,
                                                struct weir_ingest__keeper *keeper, weir_ingest__parts *out,
                                                weir_error *error);
void weir_ingest__parts_release(weir_ingest__parts *parts);

weir_status weir_ingest__too_many_rows(const char *table, weir_error *error);
size_t weir_ingest__value_size(weir_stype stype);
void weir_ingest__column_data_release(const weir_env *env, weir_ingest__column_data *column);

/* Puts a part's texts aside as a set, if they are many, or, at its end, if memory is short; and makes all
 * texts one dictionary, of which every text cell has a number then. */
WEIR_CHECKED weir_status weir_ingest__put_texts_aside(const weir_ingest__context *context,
                                                      weir_ingest__part *part, bool is_end,
                                                      weir_error *error);
WEIR_CHECKED weir_status weir_ingest__join_texts(const weir_ingest__context *context,
                                                 weir_ingest__parts *parts, weir_ingest__dictionary *texts,
                                                 weir_error *error);
void weir_ingest__text_sets_release(const weir_env *env, weir_ingest__part *part);

/* ---- Ordered rows ---------------------------------------------------------------------------- */

/* The categories of a column or of targets. */
typedef struct weir_ingest__categories {
    weir_ingest__dictionary dictionary;
    uint32_t *ranks;     /* dictionary number -> place in bytewise order */
    uint32_t like_count; /* how many of them an earlier store has; WEIR_NONE: there is none */
    uint64_t new_count;  /* cells that have others, and are null */
} weir_ingest__categories;

/* Ranks them, once all are there; without those that an earlier store does not have, whose rank is WEIR_NONE.
 * False if memory is short. */
WEIR_CHECKED bool weir_ingest__rank_categories(const weir_env *env, weir_ingest__categories *categories);
void weir_ingest__categories_release(const weir_env *env, weir_ingest__categories *categories);

/* What a table has of a column beside its values. */
typedef struct weir_ingest__table_column {
    weir_ingest__categories categories;
    uint64_t nulls, not_finite;
} weir_ingest__table_column;

/* A table's rows, column by column. Everywhere a row is its place in its table; what the file calls it is
 * decided when that is written. */
typedef struct weir_ingest__table {
    const weir_ingest__table_plan *plan;
    uint32_t row_count;
    weir_ingest__column_data *data;
    weir_ingest__table_column *columns;
    uint64_t *row_key_hashes; /* without a primary key: XXH64 of the rows' CBOR */
    weir__arena *strings;     /* of the parts that the rows came in */
    uint32_t string_count;
} weir_ingest__table;

typedef struct weir_ingest__ordered {
    const weir_ingest__plan *plan;
    const weir_env *env;
    weir__arena arena;
    weir_ingest__table *tables;
    uint64_t row_count;            /* of all tables */
    weir_ingest__dictionary texts; /* all texts, numbered as they came */
    uint32_t *text_order;          /* TextEmbeddingIdx -> number in texts */
    uint32_t text_count;
} weir_ingest__ordered;

/* Uses up the parts, and releases them, also after a failure. */
WEIR_CHECKED weir_status weir_ingest__order_rows(weir_ingest__context *context, weir_ingest__parts *parts,
                                                 weir_ingest__ordered *out, weir_error *error);
void weir_ingest__ordered_release(weir_ingest__ordered *ordered);
/* Frees the keys of columns that are only foreign keys: for when they are linked. Other keys are still looked
 * up by tasks. */
void weir_ingest__ordered_drop_foreign_keys(weir_ingest__ordered *ordered);
/* Part of order_rows: gives all text cells their last numbers. */
WEIR_CHECKED weir_status weir_ingest__number_texts(weir_ingest__ordered *ordered, weir_error *error);

/* The columns of a table's primary key. */
static inline weir_ingest__key_columns weir_ingest__primary_key_of(const weir_ingest__table *table) {
    return (weir_ingest__key_columns){.data = table->data,
                                      .columns = table->plan->primary_key,
                                      .column_count = table->plan->primary_key_count,
                                      .row_count = table->row_count,
                                      .are_sorted = true};
}
/* A row's primary key as CBOR, in the writer's buffer over what was there; false if memory is short. In
 * store_keys.c. */
bool weir_ingest__primary_key_cbor(const weir_ingest__table *table, uint32_t row, weir_cbor_writer *w);

/* ---- Linked rows ----------------------------------------------------------------------------- */

typedef struct weir_ingest__edge {
    uint32_t *parents; /* a child row; WEIR_NONE */
    uint32_t *starts;
    uint32_t *child_rows;
    int64_t *child_times; /* NULL: all always */
    uint64_t count;       /* child rows that have a parent, */
    uint64_t dangling;    /* and those whose key no row has */
} weir_ingest__edge;

/* What a stored time is, a row; WEIR_TIME_ALWAYS: null. */
typedef struct weir_ingest__row_times {
    int64_t *values;
    uint64_t nulls;
} weir_ingest__row_times;

typedef struct weir_ingest__linked {
    const weir_ingest__plan *plan;
    const weir_ingest__ordered *ordered;
    const weir_env *env;
    weir__arena arena;
    weir_ingest__edge *edges;
    weir_ingest__row_times **times; /* a table, a stored time */
} weir_ingest__linked;

WEIR_CHECKED weir_status weir_ingest__link_rows(weir_ingest__context *context,
                                                const weir_ingest__ordered *ordered, weir_ingest__linked *out,
                                                weir_error *error);
void weir_ingest__linked_release(weir_ingest__linked *linked);

/* What a known says, a row: WEIR_TIME_ALWAYS is null. NULL if it says nothing. */
const int64_t *weir_ingest__known_times(const weir_ingest__linked *linked, uint32_t table,
                                        weir_ingest__known known);
/* The time of a table's row. */
int64_t weir_ingest__row_time(const weir_ingest__linked *linked, uint32_t table, uint32_t row);

/* ---- Tasks ----------------------------------------------------------------------------------- */

/* Task rows by (anchor, when their label is known, number): docs/spec/05c. */
typedef struct weir_ingest__label_list {
    int64_t *times;
    uint32_t *starts;
    uint32_t *rows; /* numbers of seeds */
    uint32_t count;
} weir_ingest__label_list;

/* What a link task has beside its pairs (docs/spec/05f-links.md): the destination table's rows by (time,
 * row), and the references to them, by time. */
typedef struct weir_ingest__links {
    uint32_t *rows; /* by place */
    uint32_t *places;
    int64_t *times; /* by place */
    int64_t *reference_times;
    uint32_t *reference_places;
    uint64_t lists;
    uint64_t late;     /* pairs whose destination was not there yet, */
    uint64_t repeated; /* and that were there already */
} weir_ingest__links;

typedef struct weir_ingest__task {
    const weir_ingest__task_plan *plan;
    uint64_t seed_count;
    uint64_t split_start[WEIR_SPLITS + 1];
    uint64_t dropped;
    uint64_t early;      /* seeds that were observed before their anchor */
    uint64_t row_timed;  /* … whose own time is null, and which are observed at that of their row */
    uint64_t not_finite; /* targets, which count as null */
    weir_ingest__unsaid unsaid_time, unsaid_target; /* integers whose unit nobody said */
    uint32_t *rows;                                 /* split after split */
    int64_t *times;                                 /* or NULL */
    double *weights;                                /* or NULL */
    double *numbers;                                /* a derived task's targets: one of these; */
    int64_t *integers;                              /* times, 0/1, or numbers in `categories` */
    uint8_t *nulls;                                 /* a byte each */
    weir_statistics statistics;                     /* of numbers */
    weir_ingest__categories categories;
    weir__arena memory; /* of its lists, and of texts */
    uint8_t *held_out;  /* bits */
    int64_t *known;     /* when each seed's label is; WEIR_TIME_NEVER. NULL: the labels have no time */
    weir_ingest__label_list labels[WEIR_STORE__LABEL_LISTS]; /* of all splits, and of train */
    weir_ingest__links links;                                /* of a link task: its integers are places */
} weir_ingest__task;

typedef struct weir_ingest__tasks {
    const weir_ingest__plan *plan;
    const weir_ingest__ordered *ordered;
    const weir_ingest__linked *linked;
    const weir_env *env;
    weir__arena arena;
    weir_ingest__task *list;
} weir_ingest__tasks;

WEIR_CHECKED weir_status weir_ingest__make_tasks(weir_ingest__context *context,
                                                 const weir_ingest__linked *linked, weir_ingest__tasks *out,
                                                 weir_error *error);
void weir_ingest__tasks_release(weir_ingest__tasks *tasks);
/* Part of make_tasks: whether the columns of a query that a task calls the key of its anchor, or of its
 * destination, are that key. TASK_INVALID, naming what a column is instead. */
WEIR_CHECKED weir_status weir_ingest__check_asked_key(const weir_ingest__plan *plan,
                                                      const weir_ingest__task_plan *task, bool is_destination,
                                                      const weir_ingest__cursor *cursor,
                                                      const uint32_t *columns, weir_error *error);
/* Part of make_tasks: the lists of a task's labels by when they are known, from its seeds, split after split.
 */
WEIR_CHECKED weir_status weir_ingest__make_label_lists(uint32_t anchor_rows, weir_ingest__task *task,
                                                       weir_error *error);
/* The places of a link task's destinations, and the references to them. */
WEIR_CHECKED weir_status weir_ingest__make_links(const weir_ingest__linked *linked, weir_ingest__task *task,
                                                 weir_error *error);

/* When a seed is observed; 2^63-1 if its anchor has no time: it sees everything. */
int64_t weir_ingest__seed_time(const weir_ingest__tasks *tasks, uint32_t task, uint64_t seed);
/* The earliest end of a task's train split (docs/spec, Statistics), and whose it is; false if none has
 * one. */
bool weir_ingest__earliest_end_of_train(const weir_ingest__tasks *tasks, int64_t *out, uint32_t *task);

/* ---- Statistics ------------------------------------------------------------------------------ */

typedef struct weir_ingest__statistics {
    const weir_env *env;
    weir_statistics *columns; /* by ColumnIdx, of tables */
    weir_statistics timestamps;
    bool has_until;
    int64_t until;
} weir_ingest__statistics;

WEIR_CHECKED weir_status weir_ingest__make_statistics(weir_ingest__context *context,
                                                      const weir_ingest__tasks *tasks,
                                                      weir_ingest__statistics *out, weir_error *error);
void weir_ingest__statistics_release(weir_ingest__statistics *statistics);
/* Statistics of `count` values (NaN: none) in blocks of 4,096. */
weir_statistics weir_ingest__statistics_of(const double *values, uint64_t count);

/* ---- The files ------------------------------------------------------------------------------- */

/* What is wrong with times, as far as the data show it. */
WEIR_CHECKED weir_status weir_ingest__warn_of_times(weir_ingest__context *context,
                                                    const weir_ingest__tasks *tasks,
                                                    const weir_ingest__statistics *statistics,
                                                    weir_error *error);

/* What only the rows can say. */
void weir_ingest__describe_rows(weir_ingest__description *description, const weir_ingest__tasks *tasks,
                                const weir_ingest__statistics *statistics);

/* A whole store under its temporary name; the caller commits or abandons it. The description is then all that
 * the store says of itself. */
WEIR_CHECKED weir_status weir_ingest__write_store(weir_ingest__context *context,
                                                  const weir_ingest__tasks *tasks,
                                                  weir_ingest__description *description,
                                                  weir_store__writer *writer, weir_ingest_report *report,
                                                  weir_error *error);
/* The manifest as it is to be written (the caller releases it), or that the one that stands there is kept.
 * Before the store takes its name: the old one tells what ingest wrote last. */
WEIR_CHECKED weir_status weir_ingest__prepare_manifest(weir_ingest__context *context,
                                                       const weir_store_info *info, const char *store_path,
                                                       const char *path, weir_bytes *text, bool *is_kept,
                                                       weir_error *error);
/* CONTRACT_VIOLATION for a preset that is not known; NULL is. */
WEIR_CHECKED weir_status weir_ingest__check_preset(const char *preset, weir_error *error);

/* Fills in the report's two paths. CONTRACT_VIOLATION if writing them would lose a file (targets.c). */
WEIR_CHECKED weir_status weir_ingest__choose_targets(const weir_env *env, const weir_ingest_options *options,
                                                     const char *name, weir_ingest_report *report,
                                                     weir_error *error);

#endif
