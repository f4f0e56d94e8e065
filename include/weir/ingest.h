/* weir/ingest.h: a database becomes a store.
 *
 *   weir_ingest_options options = WEIR_INGEST_OPTIONS;
 *   options.source = "shop.sqlite";
 *   status = weir_ingest(NULL, &options, &report, &error);       writes shop.weir and shop.manifest.json
 *
 * The same rows give the same store, byte for byte, from every source and with any number of threads. */
#ifndef WEIR_INGEST_H
#define WEIR_INGEST_H

#include "weir/arrow.h"
#include "weir/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called before store and manifest take their names, one call at a time: from the thread that called ingest
 * or, if progress is reported, from another, while that one may be in its own report. Texts are valid during
 * the call. */
typedef void (*weir_warning_report)(void *context, const weir_warning *warning);

/* How CSV files are read; what is left 0 is found, or what the schema says. */
typedef struct weir_csv_options {
    const char *const *nulls; /* texts that stand for null; an empty field always does */
    uint32_t null_count;
    const char *delimiter; /* one character, or "\\t" */
    const char *quote;     /* one character, or "" for none */
    int header;            /* 1: the first record has the names, -1: it has not */
} weir_csv_options;

/* Whether a manifest that somebody has edited since ingest wrote it is left alone, with what would change
 * told as notes; takes the new datasets, and keeps its seed, batch size, data, batch, accountant and mix; or
 * is written again. */
typedef enum weir_manifest_mode {
    WEIR_MANIFEST_KEEP,
    WEIR_MANIFEST_UPDATE,
    WEIR_MANIFEST_REPLACE
} weir_manifest_mode;

/* How it is found out whether a base's rows changed: rows before the base's latest are counted by the source,
 * or all rows are read and compared. */
typedef enum weir_base_check { WEIR_BASE_COUNT, WEIR_BASE_FULL } weir_base_check;

/* Looks at the finished store, which lies at `path` under a temporary name, before it takes its own. What it
 * passes to `tell` counts as a warning of ingest's own does. If it fails, ingest does, and nothing is
 * written. Called from the same thread as warnings. */
typedef weir_status (*weir_store_inspect)(void *context, const char *path, weir_warning_report tell,
                                          void *tell_context, weir_error *error);

typedef struct weir_ingest_options {
    size_t size;             /* sizeof(weir_ingest_options) */
    const char *source;      /* path or URL; NULL if arrow_tables are given */
    const char *search_path; /* schemas of PostgreSQL or DuckDB in which bare names are found, "sales,public";
                                NULL: what the schema says, else the source's own */
    weir_csv_options csv;
    const char *schema; /* JSON text, or NULL: drafted from the source */
    size_t schema_size;
    const char *schema_name; /* what messages call the schema, such as its path */
    const char *output;      /* the store's path; NULL: NAME.weir in the working directory */
    const char *manifest; /* the manifest's path; NULL: the store's, ".weir" replaced by ".manifest.json" */
    weir_manifest_mode manifest_mode;
    uint64_t batch_size;           /* global_batch_size in the manifest; 0: that of the old one, else 32 */
    const char *preset;            /* data.preset in the manifest; NULL: as in the old one, else the Feistel
                                      map and rotation */
    uint32_t threads;              /* 0: as many as there are processors */
    bool strict;                   /* a foreign key without a match, or any warning, is SCHEMA_INVALID */
    bool no_embeddings;            /* leaves the embedding sections empty (dim 0) */
    weir_progress_report progress; /* or NULL */
    void *progress_context;
    weir_warning_report warning; /* or NULL */
    void *warning_context;
    weir_store_inspect inspect; /* or NULL */
    void *inspect_context;
    uint32_t silence_s; /* how long a server may give no row and no answer; 0: 3600 */
    /* Of a draft: what its one task predicts; NULL: it has a few tasks of its own choice. */
    const char *target_table;
    const char *target_column;
    /* Takes the reasons of a draft, or NULL: JSON, an array of objects {table, column, topic, choice, why,
     * check}, of which table, column and check may be missing. The caller releases them; after a failure
     * there is nothing. */
    weir_bytes *reasons;
    const char *like; /* the path of an earlier store, whose numbers this one is to have: columns, categories,
                         statistics, splits (docs/spec/04c-like.md); or NULL */
    const weir_arrow_table *arrow_tables; /* the source, instead of a path or URL (weir/arrow.h) */
    uint32_t arrow_table_count;
    /* Bytes that the process may have in memory while it ingests; 0: half of what the machine has, or its
     * control group. What is more lies in a file without a name in the output's folder. The store is the same
     * for any number. Less than WEIR_INGEST_MEMORY_LEAST is CONTRACT_VIOLATION: the program itself has no
     * room then. */
    uint64_t memory;
    bool keep_rows; /* writes the rows that were read into the folder STORE.rows, for an ingest of later rows
                       (docs/spec/09b-growing-data.md) */
    const char *base; /* the path of a store whose rows were kept: of the source, only rows that are new are
                         read, if it can tell which. The store is that of all rows. Or NULL */
    weir_base_check base_check;
    /* Takes how each table was read with a base, or NULL: JSON, an array of objects {table, how, reused,
     * read, new}, how being "whole", "from the cut" or "compared". Empty without a base; released by the
     * caller. */
    weir_bytes *base_report;
    /* The store's format: 0: the least that can number its rows and seeds; 2: that one in any case, to try
     * what reads stores (docs/spec/04e-format-2.md). CONTRACT_VIOLATION for any other number but 1, which is
     * as 0. */
    uint32_t format;
    const char *base_cut; /* a time, 2013-01-31 or 2013-01-31T10:00:00Z: rows of the base from then on are not
                             used, and all such rows of the source are read. Or NULL */
} weir_ingest_options;

#define WEIR_INGEST_MEMORY_LEAST (UINT64_C(64) << 20)
#define WEIR_INGEST_OPTIONS      ((weir_ingest_options){.size = sizeof(weir_ingest_options)})

/* What a caller wants to know at once; all else is in the store (weir/store.h). A plain value. */
typedef struct weir_ingest_report {
    char store_path[4096];
    char manifest_path[4096];
    uint8_t store_hash[WEIR_HASH_SIZE];
    bool drafted; /* the schema was drafted */
    uint32_t tables;
    uint64_t rows;
    uint64_t edges;
    uint64_t dangling;   /* foreign keys without a match */
    uint64_t not_finite; /* values of columns, and targets of derived tasks, that count as null for that */
    uint64_t seeds;
    uint64_t dropped_seeds; /* anchor keys without a row */
    uint64_t texts;
    uint64_t source_bytes; /* 0: unknown */
    uint64_t store_bytes;
    uint64_t embedding_bytes; /* of store_bytes */
    uint64_t read_ns, order_ns, match_ns, tasks_ns, write_ns, embed_ns, total_ns;
    bool manifest_kept;       /* somebody has edited it */
    uint32_t warnings;        /* that were reported, notes not counted */
    uint64_t ignored_columns; /* of the tables that were read: neither values nor keys */
    uint64_t spilled_bytes;   /* the most that lay in a file at one time, because memory was not enough */
    uint64_t kept_bytes;      /* of the rows that were kept: all files that the list names */
} weir_ingest_report;

/* Reads the source and writes store and manifest, each whole or not at all (the store first). `report` may
 * be NULL. Starts threads of its own and ends them. SCHEMA_INVALID, SOURCE_ERROR, TASK_INVALID, IO_ERROR,
 * OUT_OF_MEMORY, CANCELLED, and what `inspect` returns; STORE_CORRUPT, STORE_VERSION (of `like` and `base`);
 * SOURCE_ERROR too if the base's rows changed. CONTRACT_VIOLATION if there is no source, or both a path and
 * Arrow tables, the preset is not known, base_cut is not a time or there is no base, or memory is too little,
 * before the source is opened; and if store or manifest would replace the source, the schema (if schema_name
 * is its path), the store of `like`, each other, or a file that is not of their kind, or kept rows the source
 * or runs of others, once the schema is known and before the rows are read for the store. Any thread; ingests
 * of different targets may run at the same time. */
WEIR_API WEIR_CHECKED weir_status weir_ingest(const weir_env *env, const weir_ingest_options *options,
                                              weir_ingest_report *report, weir_error *error);

/* Drafts a schema: JSON, one object, which the caller releases. Of the options
 * source, arrow_tables, search_path, csv, threads, progress, silence_s, target_table, target_column and
 * reasons count. SOURCE_ERROR, SCHEMA_INVALID (a search path that the source cannot have), TASK_INVALID
 * (there is no such target), OUT_OF_MEMORY, CANCELLED, CONTRACT_VIOLATION (no source, or two). Any thread. */
WEIR_API WEIR_CHECKED weir_status weir_schema_draft(const weir_env *env, const weir_ingest_options *options,
                                                    weir_bytes *schema, weir_error *error);

/* Checks a schema by itself, as far as that goes without a source. SCHEMA_INVALID or TASK_INVALID with the
 * path, OUT_OF_MEMORY. Any thread. */
WEIR_API WEIR_CHECKED weir_status weir_schema_check(const weir_env *env, const char *text, size_t size,
                                                    const char *name, weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
