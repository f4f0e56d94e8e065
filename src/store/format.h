/* The store file's frame (docs/format.md) as writer and reader share it: constants, the section kinds, the
 * layout of a record, and the metadata's encoding. */
#ifndef WEIR_STORE_FORMAT_H
#define WEIR_STORE_FORMAT_H

#include "base/arena.h"
#include "base/bits.h"
#include "base/internal.h"
#include "weir/store.h"
#include "weir_tool/documents.h"

#define WEIR_STORE__MAGIC "\x89WEIR\r\n\x1a"
enum {
    WEIR_STORE__VERSION_LEAST = 1, /* a number is a RowIdx, … */
    WEIR_STORE__VERSION_MOST = 2,  /* … or a place in its table */
    WEIR_STORE__PAGE = 4096,
    WEIR_STORE__HEADER_SIZE = 64,
    WEIR_STORE__SECTION_ENTRY_SIZE = 64,
    WEIR_STORE__ROOT_OFFSET = 32,
    WEIR_STORE__TABLE_ALIGNMENT = 64,
    WEIR_STORE__TAIL_VERSION = 1,
    WEIR_STORE__TAIL_HEADER_SIZE = 64,
};
#define WEIR_STORE__TAIL_MAGIC "WEIRBLK\n"
#define WEIR_STORE__ROWS_MAX   (UINT32_MAX - 1) /* a row's number is a uint32, and WEIR_NONE is none */

/* What a store may have at most. Metadata beyond it is refused when it is read, and a source when it is
 * ingested, so that what is computed from these numbers fits its type: a table's number 16 bits, the bits of
 * a record 32, the foreign keys of a sequence (of at most 65,535 rows) 31. */
enum {
    WEIR_STORE__TABLES_MAX = 65535,
    WEIR_STORE__TABLE_COLUMNS_MAX = 1 << 24,
    WEIR_STORE__TABLE_EDGES_MAX = 32767,
    WEIR_STORE__EMBEDDING_DIM_MAX = 65536,
    WEIR_STORE__MARKS_MAX = 1 << 28, /* tasks, times columns and foreign keys: what a task leaves out */
};

typedef enum weir_store__section_kind {
    WEIR_STORE__SECTION_METADATA = 1,
    WEIR_STORE__SECTION_ROWS,
    WEIR_STORE__SECTION_CHILD_STARTS,
    WEIR_STORE__SECTION_CHILD_ROWS,
    WEIR_STORE__SECTION_CHILD_TIMES,
    WEIR_STORE__SECTION_SEED_ROWS,
    WEIR_STORE__SECTION_SEED_TIMES,
    WEIR_STORE__SECTION_SEED_TARGETS,
    WEIR_STORE__SECTION_SEED_BITS,
    WEIR_STORE__SECTION_CATEGORY_OFFSETS,
    WEIR_STORE__SECTION_CATEGORY_BYTES,
    WEIR_STORE__SECTION_TEXT_OFFSETS,
    WEIR_STORE__SECTION_TEXT_BYTES,
    WEIR_STORE__SECTION_COLUMN_EMBEDDINGS,
    WEIR_STORE__SECTION_CATEGORY_EMBEDDINGS,
    WEIR_STORE__SECTION_TEXT_EMBEDDINGS,
    WEIR_STORE__SECTION_KEYS,
    WEIR_STORE__SECTION_LABELS,
    WEIR_STORE__SECTION_LINKS,
    WEIR_STORE__SECTIONS_LEAST = WEIR_STORE__SECTION_TEXT_EMBEDDINGS, /* that every store has */
    WEIR_STORE__SECTIONS_MOST = WEIR_STORE__SECTION_LINKS,
} weir_store__section_kind;

#define WEIR_STORE__FRAME_MOST                                                                               \
    (WEIR_STORE__HEADER_SIZE + (int)WEIR_STORE__SECTIONS_MOST * WEIR_STORE__SECTION_ENTRY_SIZE)
_Static_assert(WEIR_STORE__FRAME_MOST <= WEIR_STORE__PAGE, "header and section table fill one page at most");

/* Header and section table. */
static inline size_t weir_store__frame_size(uint32_t section_count) {
    return WEIR_STORE__HEADER_SIZE + (size_t)section_count * WEIR_STORE__SECTION_ENTRY_SIZE;
}

const char *weir_store__section_name(weir_store__section_kind kind);

bool weir_store__stype_can_be_target(weir_stype stype);
extern const char *const weir_store__targets; /* "numerical, timestamp, …": those that can */

/* Sets stride, offsets and bits of a table, its columns and its edges, from their semantic types. False
 * if the table has more columns or foreign keys than a store may have. */
bool weir_store__layout_record(weir_table *table, weir_column *columns, weir_edge *edges);

/* Sets what the rows of all tables are numbered by, and the number of all, from `format` and their counts. */
void weir_store__number_rows(weir_store_info *info, weir_table *tables);

/* Whether a table has a row of this number. */
static inline bool weir_store__has_number(const weir_table *table, uint32_t number) {
    return number - table->first_number < table->row_count;
}

/* The RowIdx of a row of a table that has this number. */
static inline uint64_t weir_store__row_at(const weir_table *table, uint32_t number) {
    return table->row_start + (number - table->first_number);
}

/* Names by their enums' numbers; NULL ends them. */
extern const char *const weir_store__key_forms[], *const weir_store__before_anchors[];

/* Bytes of a table's part of the section of keys, by its form. UINT64_MAX if they do not fit. */
enum { WEIR_STORE__KEY_ALIGNMENT = 8, WEIR_STORE__KEYS_A_BLOCK = 64 };
uint64_t weir_store__keys_size(const weir_table *table);

/* The split that a seed of a task is in. */
static inline weir_split weir_store__split_of(const weir_task *task, uint64_t seed) {
    if (seed < task->split_start[WEIR_VAL])
        return WEIR_TRAIN;
    return seed < task->split_start[WEIR_TEST] ? WEIR_VAL : WEIR_TEST;
}

/* A task's two lists of labels. */
enum { WEIR_STORE__LABEL_LISTS = 2, WEIR_STORE__LABEL_ALIGNMENT = 8 };

/* A link task's lists. */
enum { WEIR_STORE__LINK_ALIGNMENT = 8 };

/* A column that is a task's own: its target, or its observation time. */
weir_column weir_store__task_column(const char *name, uint32_t task, weir_stype stype);

/* Whether its tasks are few enough for as many columns and foreign keys. */
bool weir_store__marks_fit(const weir_store_info *info);

/* Whether "table.column" of a cell task's target is among its drop_columns: they mean it, unless the
 * metadata says that they mean another column that is written alike. */
bool weir_store__names_target(const weir_store_info *info, const weir_task *task);

/* The metadata of `info` as one CBOR map. Of an edge, child_times != NULL says that it has times; of a
 * task, seed_times. */
void weir_store__metadata_write(const weir_store_info *info, weir_cbor_writer *w);

/* Reads metadata (checked CBOR) into `info`: all but the pointers into sections. Everything is from the
 * arena. STORE_CORRUPT names the path. */
WEIR_CHECKED weir_status weir_store__metadata_read(const weir_cbor_value *metadata, weir__arena *arena,
                                                   weir_store_info *info, weir_error *error);

#define WEIR_STORE__OPERATOR "weir.store.open"

/* What to do about a store whose bytes are not those that were written. */
#define WEIR_STORE__MEND "copy it again, or ingest the source again"

#endif
