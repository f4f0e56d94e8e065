/* What to say of a location that is not a source: what it seems to be, and what to give instead. Also what no
 * message says of any location: its secrets. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "ingest/source.h"
#include "ingest/sql.h"
#include "weir/ingest.h"
#include "weir_tool/ingest_tools.h"

#define WHAT_WEIR_READS                                                                                      \
    "weir reads SQLite files, DuckDB files, CSV and Parquet files and folders of them, and postgresql:// "   \
    "and mysql:// URLs"
#define SQL_SCRIPT                                                                                           \
    "is an SQL script; load it into a database first, such as sqlite3 shop.sqlite < FILE, and give that"

/* A beginning of the location, or of the file's bytes, or an ending of its name; and the answer. */
typedef struct answer {
    const char *mark;
    const char *text;
} answer;

static const answer schemes[] = {
    {"sqlite:", "is a URL; give the path of the SQLite file alone, such as shop.sqlite"},
    {"sqlite3:", "is a URL; give the path of the SQLite file alone, such as shop.sqlite"},
    {"duckdb:", "is a URL; give the path of the DuckDB file alone, such as shop.duckdb"},
    {"file:", "is a URL; give the path alone"},
    {"jdbc:",
     "is a URL of Java's; give a path, postgresql://user@host/database or mysql://user@host/database"},
    {"s3:", "is remote; copy the files here first, or make them tables of a database"},
    {"http:", "is remote; download it first"},
    {"https:", "is remote; download it first"},
};

static const answer beginnings[] = {
    {"\x89WEIR", "is a weir store already; 'weir info' says what is in it"},
    {"PGDMP",
     "is a dump of PostgreSQL; restore it into a database (createdb shop; pg_restore -d shop FILE) and "
     "give postgresql://localhost/shop"},
    {"PAR1", "is a Parquet file; give it a name that ends in .parquet"},
    {"PK\x03\x04", "is an archive or a spreadsheet; unpack it, or save its sheets as CSV files in a folder"},
    {"--", SQL_SCRIPT},
    {"/*", SQL_SCRIPT},
    {"CREATE ", SQL_SCRIPT},
    {"BEGIN", SQL_SCRIPT},
    {"PRAGMA ", SQL_SCRIPT},
};

static const answer endings[] = {
    {".sql", SQL_SCRIPT},
    {".gz", "is compressed; unpack it first"},
    {".json", "is JSON; a schema is given with --schema, and the source is a database"},
};

static bool begins_with(const char *text, size_t size, const char *mark) {
    return size >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0;
}

/* ---- Secrets --------------------------------------------------------------------------------- */

/* Redacts a secret as it is written, and as %XX in it reads. */
static void redact(const char *secret, size_t size, char *message, size_t capacity) {
    char decoded[512];
    size_t count = 0;
    weir__redact(message, capacity, secret, size);
    for (size_t i = 0; i < size && count < sizeof decoded; i++) {
        uint8_t byte = WEIR__LOW(uint8_t, secret[i]);
        if (secret[i] == '%' && i + 2 < size && weir__hex_decode(secret + i + 1, 2, &byte, 1))
            i += 2;
        decoded[count++] = WEIR__LOW(char, byte);
    }
    weir__redact(message, capacity, decoded, count);
}

/* Who cannot read a URL may quote any part of what is meant as its password. */
static void redact_parts(const char *secret, size_t size, char *message, size_t capacity) {
    enum { PART_MIN = 2 };
    redact(secret, size, message, capacity);
    for (size_t at = 0; at < size;) {
        size_t part = strcspn(secret + at, "/?#:@&=[] ");
        part = part < size - at ? part : size - at;
        if (part >= PART_MIN)
            redact(secret + at, part, message, capacity);
        at += part + 1;
    }
}

/* Takes the secrets of a location (what stands between a user and an @, and every password=) out of a message
 * that may quote it. */
static void redact_location(const char *location, char *message, size_t capacity) {
    static const char *const names[] = {"password=", "passwd=", "pwd="};
    const char *authority = strstr(location, "//");
    const char *last = strrchr(location, '@');
    const char *colon = strchr(authority ? authority : location, ':');
    if (last && colon && colon < last)
        redact_parts(colon + 1, (size_t)(last - colon - 1), message, capacity);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (const char *at = location; (at = strcasestr(at, names[i])) != NULL;) {
            at += strlen(names[i]);
            bool is_quoted = *at == '\'';
            at += is_quoted;
            redact_parts(at, strcspn(at, is_quoted ? "'" : "& "), message, capacity);
        }
}

weir_status weir_ingest__source_fail(weir_error *error, const char *location, const char *what,
                                     const char *text) {
    char message[512];
    weir__one_line(text, message, sizeof message);
    redact_location(location, message, sizeof message);
    return WEIR_INGEST__SOURCE_ERROR(error, "%s: %s", what, *message ? message : "the server said nothing");
}

void weir_location_text(const char *location, char *out, size_t capacity) {
    snprintf(out, capacity, "%s", location);
    redact_location(location, out, capacity);
}

/* ---- Answers --------------------------------------------------------------------------------- */

/* Of a URL the scheme alone is shown, of all else what is not a secret. */
static weir_status say(weir_error *error, const char *location, const char *what) {
    char shown[512];
    const char *slashes = strstr(location, "://");
    if (slashes)
        snprintf(shown, sizeof shown, "%.*s://\xe2\x80\xa6", WEIR__NARROW(int, slashes - location), location);
    else
        snprintf(shown, sizeof shown, "%s", location);
    redact_location(location, shown, sizeof shown);
    return WEIR_INGEST__SOURCE_ERROR(error, "%s %s", shown, what);
}

weir_status weir_ingest__refuse_search_path(const weir_ingest__source_options *options, const char *why,
                                            weir_error *error) {
    if (options->search_path_count == 0)
        return WEIR_OK;
    return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__SOURCE_OPERATOR,
                      "$.search_path is for PostgreSQL and DuckDB; %s", why);
}

weir_status weir_ingest__refuse_location(const weir_env *env, const char *location, weir_error *error) {
    char head[32];
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (begins_with(location, strlen(location), schemes[i].mark))
            return say(error, location, schemes[i].text);
    if (strstr(location, "://"))
        return say(error, location, "is a URL that weir does not know; " WHAT_WEIR_READS);
    int file = env->open(env->context, location, O_RDONLY, 0);
    if (file < 0) {
        char reason[256];
        snprintf(reason, sizeof reason, "cannot be opened: %s; check the path: " WHAT_WEIR_READS,
                 strerror(errno));
        return say(error, location, reason);
    }
    ssize_t size = env->read(env->context, file, head, sizeof head);
    env->close(env->context, file);
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (begins_with(head, size > 0 ? (size_t)size : 0, beginnings[i].mark))
            return say(error, location, beginnings[i].text);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (weir_ingest__name_ends_in(location, endings[i].mark))
            return say(error, location, endings[i].text);
    return say(error, location, "is not a source that weir reads; " WHAT_WEIR_READS);
}
