/* weir_tool/store_tools.h: times, keys and texts of a store for people, and its raw records. */
#ifndef WEIR_TOOL_STORE_TOOLS_H
#define WEIR_TOOL_STORE_TOOLS_H

#include "weir/store.h"
#include "weir_tool/documents.h"

/* "touched", "none" or "all"; CONTRACT_VIOLATION for anything else. */
WEIR_CHECKED weir_status weir_verify_parse(const char *text, weir_verify *out, weir_error *error);

/* weir_store_open of bytes that lie in memory (borrowed, 8-byte aligned). */
WEIR_CHECKED weir_status weir_store_open_memory(const weir_env *env, const void *data, size_t size,
                                                weir_store **out, weir_error *error);

/* "cell", "derived" or "link". Static; any thread. */
const char *weir_task_kind(const weir_task *task);

/* All that weir_store_describe tells, as one JSON object (what `weir info --json` prints). */
void weir_store_info_json(const weir_store *store, weir_json_writer *w);

/* For readers of raw records, lists and embeddings: verifies the blocks of `size` bytes of the store, all of
 * one section, as the store's `verify` says; false if they are damaged. Any thread. */
WEIR_CHECKED bool weir_store_touch(const weir_store *store, const void *data, size_t size);

/* A row's record; NULL if there is no such row. */
const uint8_t *weir_store_record(const weir_store *store, uint64_t row);

/* The time at an 8-byte slot of a row's record, such as a column's known_slot; WEIR_TIME_ALWAYS if it is
 * null or there is none. */
int64_t weir_store_time_at(const weir_store *store, uint64_t row, uint32_t slot);

/* A table's stored time for people: "order_id -> orders.ordered_at". Written to `out`, cut to size and
 * terminated; returns the full length. */
size_t weir_store_time_text(const weir_store *store, uint32_t table, uint32_t time, char *out, size_t size);

/* A CBOR integer, float, text or byte string as a key's value (it borrows the bytes); WEIR_KEY_NONE for all
 * else. */
weir_key_value weir_key_value_of(const weir_cbor_value *item);

/* A row's key for people: 27005, 'AA', (1, 'x'). Written to `out`, cut to size and terminated; returns the
 * full length, 0 if there is no key. And as JSON: the value, or an array of several; bytes as
 * {"bytes": hex}, a missing key as null. */
size_t weir_store_key_text(const weir_store *store, uint64_t row, char *out, size_t size);
size_t weir_store_key_part_text(const weir_key_value *value, char *out, size_t size);
void weir_store_key_json(const weir_store *store, uint64_t row, weir_json_writer *w);

/* The seed of a task that has this anchor row and this observation time, by binary search; of several the
 * first by split, then by sample. WEIR_NO_ROW if there is none, or if what would say so is damaged. */
uint64_t weir_store_find_seed(const weir_store *store, uint32_t task, uint64_t row, int64_t observation_time);

/* Whether a row is a seed of the val or test split of a cell task. */
bool weir_store_is_held_out(const weir_store *store, uint32_t task, uint64_t row);

/* When the label of a seed is known, of a task that has label times; WEIR_TIME_NEVER if it never is, and if
 * there is no such seed. */
int64_t weir_store_label_time(const weir_store *store, uint32_t task, uint64_t index);

/* What is embedded for a column ("price of books: in euro") or a category ("genre is crime"): written to
 * `out`, cut to size and terminated; returns the full length. */
size_t weir_store_column_text(const weir_store *store, uint32_t column, char *out, size_t size);
size_t weir_store_category_text(const weir_store *store, uint32_t index, char *out, size_t size);

/* (value - mean) / std in f64, rounded once to f32, beyond its range the largest finite of its sign. */
float weir_normalise(double value, const weir_statistics *statistics);

/* ---- Timestamps as floats ---------------------------------------------------------------------------------
 * Microseconds since 1970 UTC as the 14 cyclic floats and the z-score; exact tables, no libm, any thread. */
enum { WEIR_TIMESTAMP_FLOATS = 15 };
void weir_timestamp_floats(int64_t micros, const weir_statistics *statistics,
                           float out[WEIR_TIMESTAMP_FLOATS]);

/* ISO 8601 text (the contract's forms) as microseconds; false if it is not one. And back,
 * "2024-02-29T12:34:56.789Z", for people. */
bool weir_timestamp_parse(const char *text, size_t size, int64_t *micros);
void weir_timestamp_format(int64_t micros, char out[40]);

#endif
