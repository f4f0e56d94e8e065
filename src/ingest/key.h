/* Keys: values of any type that are compared, matched and looked up; columns that hold them; and an index
 * that finds a row by its key. */
#ifndef WEIR_INGEST_KEY_H
#define WEIR_INGEST_KEY_H

#include "ingest/dictionary.h"

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
/* Whether a key of several columns has a null. */
static inline bool weir_ingest__keys_have_null(const weir_ingest__key *keys, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (keys[i].tag == WEIR_INGEST__KEY_NULL)
            return true;
    return false;
}
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

/* The order of two rows, each of some columns, by the same numbers among them. */
int weir_ingest__key_compare_rows(const weir_ingest__column_data *a, uint32_t row_a,
                                  const weir_ingest__column_data *b, uint32_t row_b, const uint32_t *columns,
                                  uint32_t count);
/* Values of some columns for a message: 5003, or (5003, '978-1'). */
void weir_ingest__values_describe(const weir_ingest__column_data *data, const uint32_t *columns,
                                  uint32_t count, uint32_t row, char *out, size_t size);
/* The row's key for a message: ", key 5003", ", key (5003, '978-1')", or "" without columns. */
void weir_ingest__row_key_describe(const weir_ingest__column_data *data, const uint32_t *columns,
                                   uint32_t count, uint32_t row, char *out, size_t size);

/* ---- Finding a row by its key ---------------------------------------------------------------- */

/* Columns of a table, of one row or another: those that a key is of. */
typedef struct weir_ingest__key_columns {
    const weir_ingest__column_data *data; /* of the table's columns */
    const uint32_t *columns;              /* numbers in it */
    uint32_t column_count;
    uint32_t row_count;
    bool are_sorted; /* the rows, by these columns */
} weir_ingest__key_columns;

/* See key_index.c. */
typedef struct weir_ingest__key_index {
    const weir_env *env; /* NULL: there is no index */
    weir_ingest__key_columns of;
    bool is_dense; /* rows are first_key, first_key + 1, … */
    int64_t first_key;
    int64_t *samples; /* the key of every 64th row, if the rows are sorted by it */
    uint32_t *slots;  /* row + 1 */
    uint64_t slot_mask;
} weir_ingest__key_index;

/* An index over some columns of a table, which are borrowed. Rows with a null among them are not in it.
 * *duplicate is a row whose values an earlier row has, or WEIR_NONE. */
WEIR_CHECKED weir_status weir_ingest__key_index_make(const weir_env *env, const weir_ingest__key_columns *of,
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

/* ---- Sorting --------------------------------------------------------------------------------- */

/* Integers, times among them, in the order of unsigned numbers. */
static inline uint64_t weir_ingest__rank_of(int64_t value) {
    return (uint64_t)value ^ (uint64_t)1 << 63;
}
static inline int64_t weir_ingest__of_rank(uint64_t rank) {
    return (int64_t)(rank ^ (uint64_t)1 << 63);
}

/* Sorts numbers 0 … count-1 by (primary[i], then `tie` where it is given), stably, into `order`. */
typedef struct weir_ingest__sort_item {
    uint64_t primary;
    uint64_t index;
} weir_ingest__sort_item;
WEIR_CHECKED bool weir_ingest__sort(const weir_env *env, weir_ingest__sort_item *items, uint64_t count,
                                    int (*tie)(const void *context, uint64_t a, uint64_t b),
                                    const void *context);

#endif
