/* Options of a source, which several commands take alike. */
#ifndef WEIR_CLI_SOURCE_OPTIONS_H
#define WEIR_CLI_SOURCE_OPTIONS_H

#include "cli.h"

typedef struct cli_source_options {
    cli_texts nulls;
    const char *delimiter;
    const char *quote;
    bool header;
    bool no_header;
    const char *pg_schema;
    uint32_t timeout; /* seconds; 0: the default */
} cli_source_options;

/* Entries of a cli_option list. */
#define CLI_SOURCE_OPTIONS(s)                                                                                \
    CLI_OPTION("--null", &(s).nulls), CLI_OPTION("--delimiter", &(s).delimiter),                             \
        CLI_OPTION("--quote", &(s).quote), CLI_OPTION("--header", &(s).header),                              \
        CLI_OPTION("--no-header", &(s).no_header), CLI_OPTION("--pg-schema", &(s).pg_schema),                \
        CLI_OPTION("--source-timeout", &(s).timeout)

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

/* Puts them into the options of an ingest, which borrow from `source`. */
void cli_use_source(const cli_source_options *source, weir_ingest_options *out);

#endif
