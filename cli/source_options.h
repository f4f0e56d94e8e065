/* Options of a source, which several commands take alike. */
#ifndef WEIR_CLI_SOURCE_OPTIONS_H
#define WEIR_CLI_SOURCE_OPTIONS_H

#include "cli.h"

/* Those that are not members of a weir_ingest_options. */
typedef struct cli_source_options {
    cli_texts nulls;
    bool header;
    bool no_header;
} cli_source_options;

/* Entries of a cli_option list. */
#define CLI_SOURCE_OPTIONS(s, ingest)                                                                        \
    CLI_OPTION("--null", &(s).nulls), CLI_OPTION("--delimiter", &(ingest).csv.delimiter),                    \
        CLI_OPTION("--quote", &(ingest).csv.quote), CLI_OPTION("--header", &(s).header),                     \
        CLI_OPTION("--no-header", &(s).no_header), CLI_OPTION("--pg-schema", &(ingest).search_path),         \
        CLI_OPTION("--source-timeout", &(ingest).silence_s)

/* Puts what was given into the options of an ingest, which borrow from `source`. */
static inline void cli_use_source(const cli_source_options *source, weir_ingest_options *out) {
    out->csv.nulls = source->nulls.list;
    out->csv.null_count = (uint32_t)source->nulls.count;
    out->csv.header = source->header ? 1 : -(int)source->no_header;
}

#define CLI_SOURCE_USAGE                                                                                     \
    "[--null T]... [--delimiter C] [--quote C] [--header | --no-header]\n"                                   \
    "                   [--pg-schema S] [--source-timeout S]"
#define CLI_SOURCE_HELP                                                                                      \
    "  SOURCE            a SQLite or DuckDB file, postgresql://..., mysql://..., a .csv or .parquet file,\n" \
    "                    or a folder or pattern of such files\n"                                             \
    "  --null T          CSV: a text that stands for null, such as NA; may be given several times\n"         \
    "  --delimiter C     CSV: the character between fields, \\t for a tab (default: detected)\n"             \
    "  --quote C         CSV: the character around fields, '' for none (default: \")\n"                      \
    "  --header          CSV: the first line has the names of the columns (default: detected)\n"             \
    "  --no-header       CSV: the first line is a row\n"                                                     \
    "  --pg-schema S     PostgreSQL, DuckDB: the schemas to look for tables in, such as sales,public\n"      \
    "  --source-timeout S  give up if a server sends nothing for so many seconds (default: 3600)\n"

#endif
