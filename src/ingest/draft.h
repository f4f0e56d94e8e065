/* Drafting a schema, by the rules of docs/spec/04-draft.md. The steps, each in its own file, fill a
 * weir_ingest__draft from top to bottom; each choice leaves a reason.
 *
 *   draft_profile.c   every row of every table once: what each column holds        (parallel by table)
 *   draft_nulls.c     which texts of CSV files stand for null
 *   draft_keys.c      primary and foreign keys
 *   draft_types.c     semantic types
 *   draft_times.c     when a row came to be, and that it is not later than what refers to it
 *   draft_tasks.c     what may be predicted
 *   draft_write.c     the schema and the reasons as JSON
 *
 * draft_names.c knows what names mean, draft_sample.c keeps distinct values in bounded memory. The result
 * depends on declarations and rows alone, not on their order. */
#ifndef WEIR_INGEST_DRAFT_H
#define WEIR_INGEST_DRAFT_H

#include "ingest/phase_context.h"
#include "ingest/schema.h"

/* ---- Names ----------------------------------------------------------------------------------- */

enum { WEIR_INGEST__WORDS_MAX = 16, WEIR_INGEST__NAME_SIZE = 200 };

/* A name in words: "CustomerID" is customer, id. Longer names are cut. */
typedef struct weir_ingest__words {
    char text[WEIR_INGEST__NAME_SIZE]; /* the words, each terminated, one after the other */
    const char *list[WEIR_INGEST__WORDS_MAX];
    uint32_t count;
    char joined[WEIR_INGEST__NAME_SIZE]; /* all words in one */
    char lower[WEIR_INGEST__NAME_SIZE];  /* the whole name, lowercased */
} weir_ingest__words;

typedef enum weir_ingest__word_list {
    WEIR_INGEST__KEY_WORDS,
    WEIR_INGEST__ID_WORDS,
    WEIR_INGEST__GENERIC_NAMES,
    WEIR_INGEST__SELF_NAMES,
    WEIR_INGEST__SECRET_WORDS,
    WEIR_INGEST__BIRTH_WORDS,
    WEIR_INGEST__CHANGE_WORDS,
    WEIR_INGEST__FUTURE_WORDS,
    WEIR_INGEST__LATE_WORDS,
    WEIR_INGEST__MEASURELESS_WORDS, /* numbers that are no quantity to predict */
} weir_ingest__word_list;

/* `out` holds pointers into itself: it must not be copied. */
void weir_ingest__words_read(const char *name, weir_ingest__words *out);
/* A table's stem: without a first dim, fact …, the last word in the singular. */
void weir_ingest__words_stem(const char *table, weir_ingest__words *out);
bool weir_ingest__word_is_in(weir_ingest__word_list list, const char *word);
bool weir_ingest__words_have(const weir_ingest__words *words,
                             weir_ingest__word_list list);            /* any word, or all of them joined */
const char *weir_ingest__words_last(const weir_ingest__words *words); /* "" if there is none */
bool weir_ingest__words_end_in(const weir_ingest__words *words, const weir_ingest__words *end,
                               const char *and_word);
/* The joined name is the stem's and a key word. */
bool weir_ingest__words_are_key_of(const weir_ingest__words *words, const weir_ingest__words *stem);
bool weir_ingest__words_are_secret(const weir_ingest__words *words);
bool weir_ingest__words_are_self(const weir_ingest__words *words);
bool weir_ingest__name_sounds_like_row_time(const weir_ingest__words *words);
bool weir_ingest__name_says_time(const weir_ingest__words *words);
bool weir_ingest__name_may_be_identifier(const weir_ingest__words *words);

/* ---- Distinct values ------------------------------------------------------------------------- */

typedef struct weir_ingest__sampled {
    uint64_t hash;
    uint64_t rows; /* 0: a free slot */
    int64_t value; /* of an integer or a time; of whoever wants it */
} weir_ingest__sampled;

enum { WEIR_INGEST__SAMPLE_MAX = 16384 };

/* The distinct values whose hash is below 2^(64 - level), at most WEIR_INGEST__SAMPLE_MAX. */
typedef struct weir_ingest__sample {
    const weir_env *env;
    uint32_t limit; /* WEIR_INGEST__SAMPLE_MAX, or what somebody sets */
    uint32_t level;
    uint32_t count;
    size_t slot_count; /* 0 or a power of two */
    weir_ingest__sampled *slots;
} weir_ingest__sample;

void weir_ingest__sample_init(weir_ingest__sample *sample, const weir_env *env);
void weir_ingest__sample_release(weir_ingest__sample *sample);
/* Counts rows of a value; false if memory is short. */
WEIR_CHECKED bool weir_ingest__sample_add(weir_ingest__sample *sample, uint64_t hash, uint64_t rows,
                                          int64_t value);
const weir_ingest__sampled *weir_ingest__sample_find(const weir_ingest__sample *sample,
                                                     uint64_t hash); /* or NULL */
static inline bool weir_ingest__sample_has_room_for(uint32_t level, uint64_t hash) {
    return level == 0 || hash >> (64 - level) == 0;
}
/* The share of `child`'s rows whose value is in `parent`, at the larger level of the two; 0 without rows. */
double weir_ingest__sample_coverage(const weir_ingest__sample *child, const weir_ingest__sample *parent);
/* Makes a list of it: slots[0, count) are its values in an order. Nothing can be found or added any more. */
void weir_ingest__sample_sort(weir_ingest__sample *sample, int (*compare)(const void *a, const void *b));

/* Hashes that have all been different so far; let go of at the first that is not. */
typedef struct weir_ingest__hash_set {
    const weir_env *env;
    uint64_t *slots; /* 0: free; the hash 0 is kept as 1 */
    size_t slot_count;
    size_t count;
    bool has_doubles;
} weir_ingest__hash_set;

void weir_ingest__hash_set_init(weir_ingest__hash_set *set, const weir_env *env);
void weir_ingest__hash_set_release(weir_ingest__hash_set *set);
WEIR_CHECKED bool weir_ingest__hash_set_add(weir_ingest__hash_set *set, uint64_t hash);

uint64_t weir_ingest__value_hash(const weir_ingest__value *value); /* not of null */
uint64_t weir_ingest__hash_together(const uint64_t *hashes, uint32_t count);
/* The hash of a key: its value's, or of all its values together. False if one of them is null. */
bool weir_ingest__hash_key(const weir_ingest__value *cells, uint32_t count, uint64_t *out);
/* NaN counts as null. */
bool weir_ingest__value_is_null(const weir_ingest__value *value);

/* ---- What is known of columns and tables ------------------------------------------------------ */

enum { WEIR_INGEST__FORMATS = 32, WEIR_INGEST__DRAFT_KEY_MAX = 3, WEIR_INGEST__KEY_TEXT_MAX = 64 };

typedef enum weir_ingest__draft_kind {
    WEIR_INGEST__DRAFT_NOTHING,
    WEIR_INGEST__DRAFT_BOOLEAN,
    WEIR_INGEST__DRAFT_TIME,
    WEIR_INGEST__DRAFT_INTEGER,
    WEIR_INGEST__DRAFT_NUMBER,
    WEIR_INGEST__DRAFT_TEXT,
    WEIR_INGEST__DRAFT_BLOB,
    WEIR_INGEST__DRAFT_MIXED,
} weir_ingest__draft_kind;

typedef struct weir_ingest__draft_column {
    const char *name;
    weir_ingest__declared declared;
    weir_ingest__words words;

    /* From the rows. */
    uint64_t values; /* that are not null */
    uint64_t integers, reals, whole_reals, texts, blobs, booleans, times;
    uint64_t iso_texts;  /* texts that are times in ISO 8601 */
    int64_t least, most; /* of integers, whole reals and times */
    bool all_dates;      /* integers such as 20130102 */
    bool all_boolean;    /* every value reads as one */
    bool any_space;
    bool any_long;    /* text beyond WEIR_INGEST__KEY_TEXT_MAX bytes */
    uint64_t formats; /* that all texts have: a bit each */
    uint32_t truths;  /* which words of truth occur, and whether anything else does */
    weir_ingest__sample sample;
    weir_ingest__hash_set unique; /* where its name makes uniqueness matter */
    bool wants_unique;

    /* Decided. */
    weir_ingest__draft_kind kind;
    bool is_whole;
    bool is_key; /* of a primary or foreign key, or a foreign key leads to it */
    bool is_foreign;
    weir_stype stype;
    weir_ingest__time_form form;
    weir_ingest__time_format format;
    bool is_known_with_row; /* known_at null */
} weir_ingest__draft_column;

typedef struct weir_ingest__draft_table weir_ingest__draft_table;

/* A foreign key, declared or found. */
typedef struct weir_ingest__draft_key {
    uint32_t columns[WEIR_INGEST__KEY_COLUMNS_MAX];
    uint32_t parent_columns[WEIR_INGEST__KEY_COLUMNS_MAX];
    uint32_t column_count;
    uint32_t parent; /* table */
    double coverage;
} weir_ingest__draft_key;

struct weir_ingest__draft_table {
    const char *name;
    const weir_ingest__catalog_table *source;
    weir_ingest__words stem;
    uint64_t row_count;
    weir_ingest__draft_column *columns;
    uint32_t column_count;
    uint32_t primary_key[WEIR_INGEST__KEY_COLUMNS_MAX];
    uint32_t primary_key_count;
    weir_ingest__draft_key *keys;
    uint32_t key_count;
    uint32_t time;             /* column, or WEIR_NONE */
    bool has_late_time;        /* its own candidates are later than what refers to the row */
    uint32_t time_key;         /* or through this foreign key: number in `keys`, or WEIR_NONE */
    uint32_t time_key_count;   /* through how many foreign keys it comes in all */
    weir_ingest__sample times; /* of the row's time: values in microseconds, with their rows; for quantiles */
    bool is_done;              /* marks of draft_times.c */
    bool is_reached;
};

static inline bool weir_ingest__draft_has_time(const weir_ingest__draft_table *table) {
    return table->time != WEIR_NONE || table->time_key != WEIR_NONE;
}

static inline bool weir_ingest__draft_is_integral(const weir_ingest__draft_column *column) {
    return column->kind == WEIR_INGEST__DRAFT_INTEGER ||
           (column->kind == WEIR_INGEST__DRAFT_NUMBER && column->is_whole);
}

/* Whether a foreign key leads from one table to another. */
bool weir_ingest__draft_has_key_to(const weir_ingest__draft_table *table, uint32_t parent);

typedef struct weir_ingest__draft_task {
    uint32_t table;
    uint32_t column;
    bool has_split;
    int64_t val, test;
    uint32_t *dropped; /* columns of the table that give the target away */
    uint32_t dropped_count;
} weir_ingest__draft_task;

enum { WEIR_INGEST__DRAFT_TASKS_MAX = 6 };

typedef struct weir_ingest__draft {
    weir_ingest__context *context;
    const weir_ingest__catalog *catalog;
    const weir_ingest__source_options *source;
    const weir_env *env;
    weir__arena arena;                /* that it was short of memory is the draft's failure in the end */
    weir_ingest__draft_table *tables; /* bytewise by name */
    uint32_t table_count;
    uint32_t *all_columns;                                  /* 0, 1, 2, … */
    bool has_declared_keys;                                 /* any foreign key */
    weir_ingest__time_format formats[WEIR_INGEST__FORMATS]; /* that text is tried for, in order */
    weir_ingest__draft_task tasks[WEIR_INGEST__DRAFT_TASKS_MAX];
    uint32_t task_count;
    weir_json_writer reasons; /* an array, which is open */
} weir_ingest__draft;

/* That of integers such as 20130102. */
static inline const weir_ingest__time_format *
weir_ingest__draft_date_format(const weir_ingest__draft *draft) {
    return &draft->formats[WEIR_INGEST__FORMATS - 1];
}

/* Adds a reason; `column` WEIR_NONE: of the table, `table` WEIR_NONE: of the source. `topic` is one of
 * null, primary_key, foreign_key, stype, time, known_at, task; somebody should look at what is doubtful. */
void weir_ingest__draft_reason(weir_ingest__draft *draft, uint32_t table, uint32_t column, const char *topic,
                               bool is_doubtful, const char *choice, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
/* Text of the draft's own; "", and the draft fails in the end, if memory is short. */
const char *weir_ingest__draft_text(weir_ingest__draft *draft, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Names of columns of a table, with a separator between them. */
const char *weir_ingest__draft_names(weir_ingest__draft *draft, const weir_ingest__draft_table *table,
                                     const uint32_t *columns, uint32_t count, const char *separator);

/* Calls `see` with every row of some columns of a table; false from it: memory is short. */
WEIR_CHECKED weir_status weir_ingest__draft_scan(weir_ingest__draft *draft,
                                                 const weir_ingest__draft_table *table,
                                                 const uint32_t *columns, uint32_t column_count,
                                                 bool (*see)(void *context, const weir_ingest__value *cells),
                                                 void *context, weir_error *error);

/* Drafts a schema of what the catalog has, as JSON; `source` says how it was opened. */
WEIR_CHECKED weir_status weir_ingest__draft_schema(weir_ingest__context *context,
                                                   const weir_ingest__catalog *catalog,
                                                   const weir_ingest__source_options *source,
                                                   weir_bytes *schema, weir_error *error);

/* ---- Steps ----------------------------------------------------------------------------------- */

WEIR_CHECKED weir_status weir_ingest__draft_profile(weir_ingest__draft *draft, weir_error *error);
void weir_ingest__draft_nulls(weir_ingest__draft *draft);
WEIR_CHECKED weir_status weir_ingest__draft_keys(weir_ingest__draft *draft, weir_error *error);
void weir_ingest__draft_types(weir_ingest__draft *draft);
WEIR_CHECKED weir_status weir_ingest__draft_times(weir_ingest__draft *draft, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__draft_tasks(weir_ingest__draft *draft, weir_error *error);
void weir_ingest__draft_write(weir_ingest__draft *draft, weir_json_writer *w);

#endif
