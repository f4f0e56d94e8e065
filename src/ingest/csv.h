/* CSV files as weir reads them (docs/spec/04-values.md): what a user may say, one file's records, what
 * follows from the content of files (dialect, types), and the files of a source.
 *
 *   csv_reader.c   bytes of a file, compressed or not -> records of fields
 *   csv_sniff.c    delimiter, header, nulls and types, from what files hold
 *   data_files.c   a path or pattern -> tables and their files
 *   source_csv.c   all of it as a source */
#ifndef WEIR_INGEST_CSV_H
#define WEIR_INGEST_CSV_H

#include <stdatomic.h>

#include "ingest/source.h"
#include "ingest/table_query.h"

/* ---- What a user may say ----------------------------------------------------------------------- */

typedef struct weir_ingest__csv_options {
    const char *const *nulls;
    uint32_t null_count;
    bool says_nulls;
    bool says_delimiter;
    bool says_quote;
    bool says_header;
    char delimiter;
    char quote; /* 0: there is none */
    bool has_header;
} weir_ingest__csv_options;

/* All that is said about the files of a source: on the command line, which wins, at the top of the schema,
 * and in its tables. Borrowed. */
typedef struct weir_ingest__csv_table_options {
    const char *table;
    weir_ingest__csv_options options;
} weir_ingest__csv_table_options;

typedef struct weir_ingest__csv_settings {
    weir_ingest__csv_options line;
    weir_ingest__csv_options schema;
    const weir_ingest__csv_table_options *tables;
    uint32_t table_count;
    bool has_schema; /* what stands for null is not looked for then */
} weir_ingest__csv_settings;

/* `over` where it says something, else `under`. */
weir_ingest__csv_options weir_ingest__csv_options_join(const weir_ingest__csv_options *over,
                                                       const weir_ingest__csv_options *under);

/* One character, or "\t" for a tab; quote also "" for none. False for anything else. */
bool weir_ingest__csv_read_delimiter(const char *text, size_t size, char *out);
bool weir_ingest__csv_read_quote(const char *text, size_t size, char *out);

/* ---- Records ----------------------------------------------------------------------------------- */

typedef struct weir_ingest__csv_dialect {
    char delimiter;
    char quote;
    bool has_header;
} weir_ingest__csv_dialect;

typedef struct weir_ingest__csv_record {
    const weir_ingest__bytes *fields; /* valid until the next record */
    uint32_t field_count;
    uint64_t line; /* where it begins, from 1 */
} weir_ingest__csv_record;

typedef struct weir_ingest__csv_reader weir_ingest__csv_reader;

/* Opens a file; a name that ends in .gz is uncompressed. Its first record is the header's if there is
 * one. SOURCE_ERROR naming the file, OUT_OF_MEMORY. */
WEIR_CHECKED weir_status weir_ingest__csv_open(const weir_env *env, const char *path,
                                               const weir_ingest__csv_dialect *dialect,
                                               weir_ingest__csv_reader **out, weir_error *error);
void weir_ingest__csv_close(weir_ingest__csv_reader *reader);

/* The next record; no fields at the end. SOURCE_ERROR with file and line. */
WEIR_CHECKED weir_status weir_ingest__csv_next(weir_ingest__csv_reader *reader,
                                               weir_ingest__csv_record *record, weir_error *error);

/* The first bytes of a file, uncompressed, for a guess at its dialect. Returns how many there were. */
WEIR_CHECKED weir_status weir_ingest__csv_head(const weir_env *env, const char *path, char *out,
                                               size_t capacity, size_t *size, weir_error *error);

/* Splits whole text into records, for the same guess: false at its end, or where the last record may go on
 * beyond it. `at` moves on; `fields` is room for `field_max` fields, more are counted only. */
bool weir_ingest__csv_split(const char *text, size_t size, const weir_ingest__csv_dialect *dialect,
                            size_t *at, weir_ingest__bytes *fields, uint32_t field_max,
                            uint32_t *field_count);

/* ---- What content says ------------------------------------------------------------------------- */

typedef enum weir_ingest__csv_type {
    WEIR_INGEST__CSV_INTEGER,
    WEIR_INGEST__CSV_REAL,
    WEIR_INGEST__CSV_TEXT
} weir_ingest__csv_type;

enum { WEIR_INGEST__CSV_MARKERS = 11, WEIR_INGEST__CSV_KINDS = 5 };
/* Texts that often stand for null. */
extern const char *const weir_ingest__csv_markers[WEIR_INGEST__CSV_MARKERS];

/* Whether a field stands for null: it is empty, or the options say so. */
bool weir_ingest__csv_is_null(const weir_ingest__csv_options *options, weir_ingest__bytes field);

/* What the fields of a column are, counted. */
typedef struct weir_ingest__csv_profile {
    uint64_t kinds[WEIR_INGEST__CSV_KINDS]; /* that csv_sniff.c tells apart */
    uint64_t markers[WEIR_INGEST__CSV_MARKERS];
} weir_ingest__csv_profile;

void weir_ingest__csv_profile_see(weir_ingest__csv_profile *profile, weir_ingest__bytes field,
                                  const weir_ingest__csv_options *options);
/* Which markers a column proves to be nulls: a bit each. */
uint32_t weir_ingest__csv_proven_markers(const weir_ingest__csv_profile *profile);
/* How many fields of a column of texts are this marker, and so null where another column proves it. */
uint64_t weir_ingest__csv_lost_texts(const weir_ingest__csv_profile *profile, int marker);
/* The column's type, where the markers of these bits are null. */
weir_ingest__csv_type weir_ingest__csv_type_of(const weir_ingest__csv_profile *profile,
                                               uint32_t null_markers);

/* Fills in what the options leave open. */
WEIR_CHECKED weir_status weir_ingest__csv_find_dialect(const weir_env *env, const char *path,
                                                       const weir_ingest__csv_options *options,
                                                       weir_ingest__csv_dialect *out, weir_error *error);

/* ---- Files ------------------------------------------------------------------------------------- */

/* A column from a folder's name, such as year=2013. */
typedef struct weir_ingest__folder_value {
    char *key;
    char *value; /* NULL: null */
} weir_ingest__folder_value;

typedef struct weir_ingest__data_file {
    char *path;
    weir_ingest__folder_value *values;
    uint32_t value_count;
} weir_ingest__data_file;

typedef struct weir_ingest__data_table {
    char *name;
    bool is_csv;                   /* else Parquet */
    weir_ingest__data_file *files; /* bytewise by path */
    uint32_t file_count;
} weir_ingest__data_table;

typedef struct weir_ingest__data_files {
    weir__arena memory;              /* of everything here */
    char *name;                      /* what a draft calls the source */
    weir_ingest__data_table *tables; /* bytewise by name */
    uint32_t count;
    char **skipped; /* paths of files that are not read, bytewise */
    uint32_t skipped_count;
    bool has_csv;
    bool has_parquet;
} weir_ingest__data_files;

/* Whether a location is a file, folder or pattern of such files. */
bool weir_ingest__is_data_files(const weir_env *env, const char *location);

/* SOURCE_ERROR if there is none, or where two would be one table. Release it, also after a failure. */
WEIR_CHECKED weir_status weir_ingest__find_data_files(const weir_env *env, const char *location,
                                                      weir_ingest__data_files *out, weir_error *error);
void weir_ingest__data_files_release(weir_ingest__data_files *files);
/* Name, size and skipped files of a catalog. */
void weir_ingest__data_files_describe(const weir_ingest__data_files *files, weir_ingest__catalog *out);

/* ---- The source -------------------------------------------------------------------------------- */

/* Opens the files without looking whose they are. Tables of Parquet files are listed without columns: DuckDB
 * reads them, and asks what the sessions share what else there is. */
WEIR_CHECKED weir_status weir_ingest__csv_source_open(const weir_env *env,
                                                      const weir_ingest__source_options *options,
                                                      weir_ingest__source **out, weir_error *error);

typedef struct weir_ingest__csv_column {
    char *name;
    weir_ingest__csv_profile profile;
    weir_ingest__csv_type type;
} weir_ingest__csv_column;

/* A table, as its files turned out to be. */
typedef struct weir_ingest__csv_table {
    const weir_ingest__data_table *files;
    weir_ingest__csv_options options;
    weir_ingest__csv_dialect dialect;
    weir_ingest__csv_column *columns; /* of the files, then of their folders */
    uint32_t column_count;
    uint32_t file_column_count;
    uint32_t **places; /* a file: where its columns are among its fields; NULL: in order */
    uint64_t row_count;
} weir_ingest__csv_table;

/* What all sessions of a source share. */
typedef struct weir_ingest__csv_source {
    weir_ingest__table_source base;
    weir_ingest__data_files files;
    weir_ingest__csv_table *tables; /* as files.tables */
    const char *found_nulls[WEIR_INGEST__CSV_MARKERS];
    uint32_t found_null_count;
} weir_ingest__csv_source;

#endif
