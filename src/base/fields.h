/* Documents as tables. A document is a CBOR map (JSON is turned into one first, by weir_json_read); a table
 * says of each key what it is, which values it may have, and where it lives in a struct. One engine reads,
 * writes and compares by these tables:
 *
 *   typedef struct links { uint32_t negatives; negatives_by by; } links;
 *   static const weir__field fields[] = {
 *       {"negatives", WEIR__UINT(links, negatives, 0, 1024), .otherwise = 4},
 *       {"by", WEIR__WORD(links, by, by_names)},
 *   };
 *   static const weir__shape shape = WEIR__SHAPE(links, fields);
 *
 *   WEIR__TRY(weir__read(&reader, &value, &shape, &read));     "$.batch.links.negatives is 2000; it must …"
 *   weir__write(&writer, &shape, &read);                       keys sorted and counted
 *
 * What a table cannot say (a value that may be two things, checks across fields) is a hook of the field, or
 * code after the table. Numbers are checked against their range before they are stored. */
#ifndef WEIR_BASE_FIELDS_H
#define WEIR_BASE_FIELDS_H

#include "base/arena.h"
#include "weir_tool/documents.h"

/* ---- Tables ---------------------------------------------------------------------------------- */

typedef struct weir__reader weir__reader;
typedef struct weir__shape weir__shape;
typedef struct weir__field weir__field;

typedef enum weir__kind {
    WEIR__KIND_UINT,     /* an unsigned integer or enum of 1, 2, 4 or 8 bytes, from least to most */
    WEIR__KIND_INT,      /* int64_t */
    WEIR__KIND_REAL,     /* double, finite */
    WEIR__KIND_BOOL,     /* bool */
    WEIR__KIND_WORD,     /* an enum or bool: the number of the word in `words` */
    WEIR__KIND_TEXT,     /* const char *, without a NUL inside; not empty if least is 1 */
    WEIR__KIND_VIEW,     /* weir_text: the text itself, in the document */
    WEIR__KIND_TEXTS,    /* const char *const *, a list of texts; how many is at `count` */
    WEIR__KIND_NAMES,    /* the same; one text stands for a list of it */
    WEIR__KIND_NUMBERS,  /* uint32_t[], one number or a list of them; how many is at `count` */
    WEIR__KIND_BYTES,    /* so many bytes; in JSON as hex */
    WEIR__KIND_CONSTANT, /* one text, words[0], and nothing in the struct */
    WEIR__KIND_OBJECT,   /* a map of `shape` over the struct at the offset */
    WEIR__KIND_LIST,     /* a list of maps of `shape`: a pointer to structs; how many is at `count` */
    WEIR__KIND_MAP,      /* the same by name: the key is the item's first member, a const char * */
    WEIR__KIND_VALUE,    /* weir_cbor_value: the view itself, of any type */
    WEIR__KIND_OTHER,    /* what its hooks make of it */
} weir__kind;

enum {
    WEIR__REQUIRED = 1,    /* reading: refused if it is missing */
    WEIR__SPARSE = 2,      /* writing: left out if it is the default */
    WEIR__NULLABLE = 4,    /* null is the default, and the default is written as null unless it is left out */
    WEIR__READ_ONLY = 8,   /* never written */
    WEIR__WRITE_ONLY = 16, /* never read: any value is passed over */
    WEIR__FIELDS_MAX = 40,
};

struct weir__field {
    const char *name;
    weir__kind kind;
    size_t offset, size; /* of the member */
    uint64_t least, most;
    const char *const *words; /* NULL ends them; those before `least` are not for documents */
    const weir__shape *shape;
    size_t count; /* where the number of items is: a uint32_t */
    unsigned flags;
    uint64_t otherwise; /* the default: a number, a word or false; of all else zero */
    size_t has;         /* if not 0: where a bool says whether there is a value */
    weir_status family; /* if not 0: the status of what is refused here, but for another type than text */

    /* Hooks, instead of what the kind does; `object` is the struct of the table. */
    weir_status (*read)(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                        void *object);
    void (*write)(weir_cbor_writer *w, const weir__field *field, const void *object);
    bool (*is_absent)(const void *object); /* whether there is no value: then it is left out, not required */
};

struct weir__shape {
    const weir__field *fields;
    size_t count;
    size_t size;                                         /* of the struct */
    weir_status (*check)(weir__reader *r, void *object); /* across fields, after all are read; or NULL */
};

#define WEIR__SHAPE(type, table, ...)                                                                        \
    { .fields = (table), .count = sizeof(table) / sizeof((table)[0]), .size = sizeof(type), __VA_ARGS__ }

#define WEIR__AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
#define WEIR__UINT(type, member, low, high)                                                                  \
    .kind = WEIR__KIND_UINT, WEIR__AT(type, member), .least = (low), .most = (high)
#define WEIR__INT(type, member)         .kind = WEIR__KIND_INT, WEIR__AT(type, member)
#define WEIR__REAL(type, member)        .kind = WEIR__KIND_REAL, WEIR__AT(type, member)
#define WEIR__BOOL(type, member)        .kind = WEIR__KIND_BOOL, WEIR__AT(type, member)
#define WEIR__WORD(type, member, names) .kind = WEIR__KIND_WORD, WEIR__AT(type, member), .words = (names)
#define WEIR__TEXT(type, member)        .kind = WEIR__KIND_TEXT, WEIR__AT(type, member)
#define WEIR__VIEW(type, member)        .kind = WEIR__KIND_VIEW, WEIR__AT(type, member)
#define WEIR__TEXTS(type, member, number)                                                                    \
    .kind = WEIR__KIND_TEXTS, WEIR__AT(type, member), .count = offsetof(type, number)
#define WEIR__NAMES(type, member, number)                                                                    \
    .kind = WEIR__KIND_NAMES, WEIR__AT(type, member), .count = offsetof(type, number)
#define WEIR__NUMBERS(type, member, low, high)                                                               \
    .kind = WEIR__KIND_NUMBERS, WEIR__AT(type, member.values), .count = offsetof(type, member.count),        \
    .least = (low), .most = (high)
#define WEIR__BYTES(type, member) .kind = WEIR__KIND_BYTES, WEIR__AT(type, member)
#define WEIR__CONSTANT(text)                                                                                 \
    .kind = WEIR__KIND_CONSTANT, .words = (const char *const[]) {                                            \
        (text), NULL                                                                                         \
    }
#define WEIR__OBJECT(type, member, of) .kind = WEIR__KIND_OBJECT, WEIR__AT(type, member), .shape = (of)
/* A map that is spread over the struct which also holds the fields around it. */
#define WEIR__SPREAD(of) .kind = WEIR__KIND_OBJECT, .shape = (of)
#define WEIR__LIST(type, member, number, of)                                                                 \
    .kind = WEIR__KIND_LIST, WEIR__AT(type, member), .shape = (of), .count = offsetof(type, number)
#define WEIR__MAP(type, member, number, of)                                                                  \
    .kind = WEIR__KIND_MAP, WEIR__AT(type, member), .shape = (of), .count = offsetof(type, number)
#define WEIR__VALUE(type, member)  .kind = WEIR__KIND_VALUE, WEIR__AT(type, member)
#define WEIR__OTHER(reads, writes) .kind = WEIR__KIND_OTHER, .read = (reads), .write = (writes)

/* ---- Reading --------------------------------------------------------------------------------- */

enum { WEIR__PATH_MAX = 512 };

/* What a document is read with, and where in it the reading is. */
struct weir__reader {
    weir__arena *arena; /* of texts and lists; may be NULL for tables that have none */
    weir_error *error;
    weir_status family; /* the status of what is refused */
    const char *failure_operator;
    const char *name;           /* what messages begin with, such as the file's name */
    const char *meant;          /* if not NULL, messages begin with "NAME is not MEANT" */
    const char *unknown;        /* what is said of a key that is not in the table; NULL: it is passed over */
    const char *label;          /* the key whose text says which item it is, for messages; or NULL */
    bool is_json;               /* numbers may be decimal texts, hashes hex, reals whole */
    bool skips_nulls;           /* null is as if the key was not there, but for WEIR__KIND_VALUE */
    void *context;              /* for hooks */
    const weir_cbor_value *map; /* the one that is being read: for hooks that ask what else is in it */
    char path[WEIR__PATH_MAX];
};

/* Reads a map into a struct, which is filled with the defaults first. The first thing that is wrong, in the
 * order of the table, is refused: unknown keys come before everything else. */
WEIR_CHECKED weir_status weir__read(weir__reader *r, const weir_cbor_value *value, const weir__shape *shape,
                                    void *object);
void weir__fill_defaults(const weir__shape *shape, void *object);

/* What the field's kind does with a value: for hooks that want that in some cases. */
WEIR_CHECKED weir_status weir__read_plain(weir__reader *r, const weir__field *field,
                                          const weir_cbor_value *value, void *object);

/* One number from `least` to `most`, or a list of 1 to `capacity` such numbers. */
WEIR_CHECKED weir_status weir__read_numbers(weir__reader *r, const char *key, const weir_cbor_value *value,
                                            uint64_t least, uint64_t most, uint32_t *numbers,
                                            uint32_t capacity, uint32_t *count);

/* "NAME: PATH.KEY WHAT" with r->family, and the path as a diagnostic. `key` may be NULL: the path itself.
 * With a label: "NAME: PATH.KEY of 'LABEL' WHAT". */
WEIR_CHECKED weir_status weir__refuse(const weir__reader *r, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One step down in the path; leave with what enter returned. */
size_t weir__enter(weir__reader *r, const void *key, size_t size);
size_t weir__enter_item(weir__reader *r, uint64_t number);
void weir__leave(weir__reader *r, size_t length);

/* How many items of a list or map can be read: as many as it has bytes for if each has what the shape
 * requires, and one that has not, which is refused. So a document takes no more memory than its bytes
 * justify. */
uint64_t weir__room_of_items(const weir_cbor_value *list, const weir__shape *shape);

/* Memory of the reader's arena: zeroed, or a terminated copy of a text. */
WEIR_CHECKED weir_status weir__reader_take(weir__reader *r, size_t count, size_t size, void *out);
WEIR_CHECKED weir_status weir__reader_copy(weir__reader *r, const weir_cbor_value *text, const char **out);

/* ---- Writing --------------------------------------------------------------------------------- */

void weir__write(weir_cbor_writer *w, const weir__shape *shape, const void *object);
/* The same with one more pair in front, "h": what is sealed holds a hash of its other pairs. */
void weir__write_sealed(weir_cbor_writer *w, const weir__shape *shape, const void *object,
                        const uint8_t hash[WEIR_HASH_SIZE]);
void weir__write_plain(weir_cbor_writer *w, const weir__field *field, const void *object);

/* As weir__read_numbers reads it. */
void weir__write_numbers(weir_cbor_writer *w, const uint32_t *numbers, uint32_t count);

/* Whether all fields have their defaults. */
bool weir__is_default(const weir__shape *shape, const void *object);

/* ---- Comparing ------------------------------------------------------------------------------- */

enum { WEIR__SHOWN_MAX = 256 };

typedef struct weir__difference {
    char field[64];
    char left[WEIR__SHOWN_MAX]; /* both values as JSON, cut to fit */
    char right[WEIR__SHOWN_MAX];
} weir__difference;

/* The first key, in canonical order, under which two maps differ, those of `ignored` (NULL ends them) left
 * out. False if there is none. */
bool weir__compare(const weir_env *env, const weir_cbor_value *left, const weir_cbor_value *right,
                   const char *const *ignored, weir__difference *difference);

/* Whether both maps have the same value, or none, under a key. */
bool weir__same(const weir_cbor_value *left, const weir_cbor_value *right, const char *key);

/* A value as JSON for a person, cut to fit; NULL is "(absent)". */
void weir__show(const weir_env *env, const weir_cbor_value *value, char out[WEIR__SHOWN_MAX]);

#endif
