/* What the content of CSV files says about them: delimiter and header from the beginning of a file, types
 * and null texts from all of it (docs/spec/04-values.md, "What is found"). */
#include <string.h>
#include <strings.h>

#include "base/ascii.h"
#include "ingest/convert.h"
#include "ingest/csv.h"
#include "weir/store.h"
#include "weir_tool/store_tools.h"

enum { HEAD_SIZE = 1 << 20, DELIMITER_RECORDS = 100, HEADER_RECORDS = 1000, FIELDS_MAX = 4096 };

/* ---- Options --------------------------------------------------------------------------------- */

weir_ingest__csv_options weir_ingest__csv_options_join(const weir_ingest__csv_options *over,
                                                       const weir_ingest__csv_options *under) {
    weir_ingest__csv_options joined = *over;
    if (!joined.says_nulls) {
        joined.says_nulls = under->says_nulls;
        joined.nulls = under->nulls;
        joined.null_count = under->null_count;
    }
    if (!joined.says_delimiter) {
        joined.says_delimiter = under->says_delimiter;
        joined.delimiter = under->delimiter;
    }
    if (!joined.says_quote) {
        joined.says_quote = under->says_quote;
        joined.quote = under->quote;
    }
    if (!joined.says_header) {
        joined.says_header = under->says_header;
        joined.has_header = under->has_header;
    }
    return joined;
}

bool weir_ingest__csv_read_delimiter(const char *text, size_t size, char *out) {
    if (size == 2 && memcmp(text, "\\t", 2) == 0) {
        *out = '\t';
        return true;
    }
    if (size != 1 || (unsigned char)text[0] >= 0x80 || text[0] == '\n' || text[0] == '\r' || text[0] == 0)
        return false;
    *out = text[0];
    return true;
}

bool weir_ingest__csv_read_quote(const char *text, size_t size, char *out) {
    *out = 0;
    return size == 0 || weir_ingest__csv_read_delimiter(text, size, out);
}

/* ---- Fields ---------------------------------------------------------------------------------- */

const char *const weir_ingest__csv_markers[WEIR_INGEST__CSV_MARKERS] = {
    "\\N", "NA", "N/A", "#N/A", "NULL", "null", "None", "nan", "NaN", "-", "?"};

typedef enum field_kind {
    FIELD_INTEGER,
    FIELD_REAL,    /* finite */
    FIELD_SPECIAL, /* nan and infinities that are not markers */
    FIELD_TIME,    /* ISO 8601 */
    FIELD_TEXT,    /* all else */
    FIELD_KINDS
} field_kind;

static_assert((int)FIELD_KINDS == (int)WEIR_INGEST__CSV_KINDS, "a profile counts every kind");

/* Digits that are a number for sure: no sign but a minus, no zeros in front, within 64 bits. `may_be_real`
 * says whether it may be a real if it is not one: a code such as 007, or more digits than a number
 * holds, may not. */
static bool is_integer(weir_ingest__bytes field, bool *may_be_real) {
    size_t sign = field.size > 0 && field.data[0] == '-' ? 1 : 0;
    size_t digits = 0;
    uint64_t value = 0;
    bool fits = true;
    for (; sign + digits < field.size && weir__is_digit(field.data[sign + digits]); digits++)
        fits = !__builtin_mul_overflow(value, 10, &value) &&
               !__builtin_add_overflow(value, (uint64_t)(field.data[sign + digits] - '0'), &value) && fits;
    bool has_zero_in_front = digits > 1 && field.data[sign] == '0';
    bool is_whole = digits > 0 && sign + digits == field.size;
    fits = fits && value <= (uint64_t)INT64_MAX + sign;
    *may_be_real = !has_zero_in_front && !(is_whole && !fits) && !(field.size > 0 && field.data[0] == '+');
    return is_whole && fits && !has_zero_in_front && !(sign && value == 0);
}

static field_kind kind_of(weir_ingest__bytes field) {
    bool may_be_real;
    double number;
    int64_t micros;
    if (is_integer(field, &may_be_real))
        return FIELD_INTEGER;
    if (may_be_real && weir_ingest__parse_real(field.data, field.size, &number))
        return number - number == 0 ? FIELD_REAL : FIELD_SPECIAL;
    return weir_timestamp_parse(field.data, field.size, &micros) ? FIELD_TIME : FIELD_TEXT;
}

static bool is_text(weir_ingest__bytes field, const char *text) {
    return strlen(text) == field.size && memcmp(text, field.data, field.size) == 0;
}

static int marker_of(weir_ingest__bytes field) {
    for (int i = 0; i < WEIR_INGEST__CSV_MARKERS && field.size <= 4; i++)
        if (is_text(field, weir_ingest__csv_markers[i]))
            return i;
    return -1;
}

bool weir_ingest__csv_is_null(const weir_ingest__csv_options *options, weir_ingest__bytes field) {
    if (field.size == 0)
        return true;
    for (uint32_t i = 0; i < options->null_count; i++)
        if (is_text(field, options->nulls[i]))
            return true;
    return false;
}

void weir_ingest__csv_profile_see(weir_ingest__csv_profile *profile, weir_ingest__bytes field,
                                  const weir_ingest__csv_options *options) {
    if (weir_ingest__csv_is_null(options, field))
        return;
    int marker = marker_of(field);
    if (marker >= 0)
        profile->markers[marker]++;
    else
        profile->kinds[kind_of(field)]++;
}

uint32_t weir_ingest__csv_proven_markers(const weir_ingest__csv_profile *profile) {
    const uint64_t *of = profile->kinds;
    uint32_t proven = 0;
    bool is_proof = of[FIELD_TEXT] == 0 && of[FIELD_INTEGER] + of[FIELD_REAL] + of[FIELD_TIME] > 0;
    for (int i = 0; i < WEIR_INGEST__CSV_MARKERS && is_proof; i++)
        proven |= profile->markers[i] > 0 ? 1u << i : 0;
    return proven;
}

uint64_t weir_ingest__csv_lost_texts(const weir_ingest__csv_profile *profile, int marker) {
    return profile->kinds[FIELD_TEXT] > 0 ? profile->markers[marker] : 0;
}

weir_ingest__csv_type weir_ingest__csv_type_of(const weir_ingest__csv_profile *profile,
                                               uint32_t null_markers) {
    const uint64_t *of = profile->kinds;
    uint64_t texts = of[FIELD_TEXT] + of[FIELD_TIME];
    uint64_t specials = of[FIELD_SPECIAL];
    for (int i = 0; i < WEIR_INGEST__CSV_MARKERS; i++) {
        if (null_markers >> i & 1)
            continue;
        if (strcasecmp(weir_ingest__csv_markers[i], "nan") == 0)
            specials += profile->markers[i];
        else
            texts += profile->markers[i];
    }
    if (texts > 0 || of[FIELD_INTEGER] + of[FIELD_REAL] == 0)
        return WEIR_INGEST__CSV_TEXT;
    return of[FIELD_REAL] + specials > 0 ? WEIR_INGEST__CSV_REAL : WEIR_INGEST__CSV_INTEGER;
}

/* ---- The dialect ----------------------------------------------------------------------------- */

typedef struct file_head {
    char *text;
    size_t size;
    weir_ingest__bytes *fields;
    uint8_t *typed; /* a column: 1 while all of its fields are numbers or times, 2 if there was one */
} file_head;

/* The number of fields of each of the first records, where they agree; else 0. */
static uint32_t agreed_fields(const file_head *head, const weir_ingest__csv_dialect *dialect) {
    size_t at = 0;
    uint32_t agreed = 0, count;
    for (int i = 0; i < DELIMITER_RECORDS && weir_ingest__csv_split(head->text, head->size, dialect, &at,
                                                                    head->fields, FIELDS_MAX, &count);
         i++) {
        if (agreed > 0 && count != agreed)
            return 0;
        agreed = count;
    }
    return agreed;
}

static char find_delimiter(const file_head *head, char quote) {
    static const char candidates[] = {',', ';', '\t', '|'};
    char best = ',';
    uint32_t most = 1;
    for (size_t i = 0; i < sizeof candidates; i++) {
        uint32_t count =
            agreed_fields(head, &(weir_ingest__csv_dialect){.delimiter = candidates[i], .quote = quote});
        if (count > most) {
            most = count;
            best = candidates[i];
        }
    }
    return best;
}

static bool is_number_or_time(weir_ingest__bytes field) {
    field_kind kind = kind_of(field);
    return kind == FIELD_INTEGER || kind == FIELD_REAL || kind == FIELD_TIME;
}

/* Whether the first record has names: not where every column of numbers or times begins with one. */
static bool find_header(const file_head *head, const weir_ingest__csv_dialect *dialect) {
    size_t at = 0, after_first;
    uint32_t columns, count;
    if (!weir_ingest__csv_split(head->text, head->size, dialect, &at, head->fields, FIELDS_MAX, &columns))
        return true;
    after_first = at;
    columns = columns < FIELDS_MAX ? columns : FIELDS_MAX;
    memset(head->typed, 1, columns);
    for (int i = 0; i < HEADER_RECORDS && weir_ingest__csv_split(head->text, head->size, dialect, &at,
                                                                 head->fields, FIELDS_MAX, &count);
         i++)
        for (uint32_t c = 0; c < columns && c < count; c++) {
            bool is_null = head->fields[c].size == 0 || marker_of(head->fields[c]) >= 0;
            if (!is_null && head->typed[c] > 0)
                head->typed[c] = is_number_or_time(head->fields[c]) ? 2 : 0;
        }
    at = 0;
    bool any = false;
    if (!weir_ingest__csv_split(head->text, after_first, dialect, &at, head->fields, FIELDS_MAX, &count))
        return true;
    for (uint32_t c = 0; c < columns; c++) {
        if (head->typed[c] != 2)
            continue;
        any = true;
        if (!is_number_or_time(head->fields[c]))
            return true;
    }
    return !any;
}

weir_status weir_ingest__csv_find_dialect(const weir_env *env, const char *path,
                                          const weir_ingest__csv_options *options,
                                          weir_ingest__csv_dialect *out, weir_error *error) {
    weir_status status = WEIR_OK;
    *out = (weir_ingest__csv_dialect){.delimiter = options->delimiter,
                                      .quote = options->says_quote ? options->quote : '"',
                                      .has_header = options->has_header};
    static const char *const of_tabs[] = {".tsv", ".tab", ".tsv.gz", ".tab.gz"};
    for (int i = 0; i < 4; i++)
        if (!options->says_delimiter && weir_ingest__name_ends_in(path, of_tabs[i]))
            out->delimiter = '\t';
    bool wants_delimiter = !options->says_delimiter && out->delimiter != '\t';
    if (!wants_delimiter && options->says_header)
        return WEIR_OK;
    file_head head = {.text = weir__allocate(env, HEAD_SIZE + 1, 1),
                      .fields = weir__allocate(env, FIELDS_MAX, sizeof *head.fields),
                      .typed = weir__allocate(env, FIELDS_MAX, 1)};
    if (!head.text || !head.fields || !head.typed)
        status = weir_ingest__source_no_memory(error, HEAD_SIZE);
    if (status == WEIR_OK)
        status = weir_ingest__csv_head(env, path, head.text, HEAD_SIZE, &head.size, error);
    if (status == WEIR_OK) {
        if (head.size < HEAD_SIZE - 3)
            head.text[head.size++] = '\n'; /* the whole file: its last record may lack its end */
        if (wants_delimiter)
            out->delimiter = find_delimiter(&head, out->quote);
        if (!options->says_header)
            out->has_header = find_header(&head, out);
    }
    weir__release(env, head.text);
    weir__release(env, head.fields);
    weir__release(env, head.typed);
    return status;
}
