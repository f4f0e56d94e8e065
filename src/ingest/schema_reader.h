/* What the files that read a schema share: a reader whose first fault sticks, with the JSON path where it
 * is, and helpers that take single values. */
#ifndef WEIR_INGEST_SCHEMA_READER_H
#define WEIR_INGEST_SCHEMA_READER_H

#include "ingest/schema.h"

typedef struct weir_ingest__schema_reader {
    weir_ingest__schema *schema;
    const char *name; /* of the file, for messages */
    weir_error *error;
    weir_status status;
    char path[400];
} weir_ingest__schema_reader;

/* Refuses what stands at `key` below the path (NULL: the path itself); the first refusal counts. */
void weir_ingest__schema_refuse(weir_ingest__schema_reader *r, weir_status status, const char *key,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Goes down into a key, or an item of a list; leave takes what enter returned. */
size_t weir_ingest__schema_enter(weir_ingest__schema_reader *r, const char *key);
size_t weir_ingest__schema_enter_item(weir_ingest__schema_reader *r, uint64_t item);
void weir_ingest__schema_leave(weir_ingest__schema_reader *r, size_t length);

/* Memory of the schema, zeroed; NULL sticks as OUT_OF_MEMORY. */
void *weir_ingest__schema_take(weir_ingest__schema_reader *r, size_t count, size_t size);
const char *weir_ingest__schema_copy(weir_ingest__schema_reader *r, const char *text, size_t size);

/* The value of a key; null counts as missing. */
bool weir_ingest__schema_find(const weir_cbor_value *map, const char *key, weir_cbor_value *out);
bool weir_ingest__schema_is_map(weir_ingest__schema_reader *r, const weir_cbor_value *value);
/* Refuses any key that is not in the list, which NULL ends. */
void weir_ingest__schema_only_keys(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                                   const char *const *allowed);

const char *weir_ingest__schema_text(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                                     const char *key, bool is_required);
/* A name or a list of names; an empty list if there is none. */
const char *const *weir_ingest__schema_names(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                                             const char *key, uint32_t *count);
/* Names of a list or of one text, as copies. */
const char *const *weir_ingest__schema_list(weir_ingest__schema_reader *r, const weir_cbor_value *value,
                                            const char *key, uint32_t *count);
bool weir_ingest__schema_bool(weir_ingest__schema_reader *r, const weir_cbor_value *map, const char *key,
                              bool otherwise);
weir_stype weir_ingest__schema_stype(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                                     const char *key);
/* "unit" or "format". */
weir_ingest__time_form weir_ingest__schema_form(weir_ingest__schema_reader *r, const weir_cbor_value *map);
/* One of several words, by its number; `otherwise` if there is none. */
uint32_t weir_ingest__schema_word(weir_ingest__schema_reader *r, const weir_cbor_value *map, const char *key,
                                  const char *const *words, weir_status status, uint32_t otherwise);
/* ISO text, or an integer in `unit` where `allows_integer`; false if there is none. */
bool weir_ingest__schema_moment(weir_ingest__schema_reader *r, const weir_cbor_value *map, const char *key,
                                bool allows_integer, weir_ingest__unit unit, int64_t *out);

/* "csv". */
void weir_ingest__schema_csv(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                             weir_ingest__csv_options *out);

/* A table and a column: a list of the two, or a text that is split at the first dot behind the name of a
 * table. */
weir_ingest__schema_name weir_ingest__schema_joined(weir_ingest__schema_reader *r,
                                                    const weir_cbor_value *value, const char *key,
                                                    weir_status status);

/* Foreign keys of all tables, and what needs them: when rows, cells and edges are known. The tables and
 * their columns have been read from `tables`. */
void weir_ingest__schema_read_keys(weir_ingest__schema_reader *r, const weir_cbor_value *tables);
void weir_ingest__schema_read_times(weir_ingest__schema_reader *r, const weir_cbor_value *tables);
void weir_ingest__schema_read_tasks(weir_ingest__schema_reader *r, const weir_cbor_value *document);

#endif
