/* The object "csv" of a schema or of one of its tables: how CSV files are read (docs/spec/04-values.md). */
#include <string.h>

#include "ingest/schema_reader.h"

void weir_ingest__schema_csv(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                             weir_ingest__csv_options *out) {
    static const char *const keys[] = {"null", "delimiter", "quote", "header", NULL};
    weir_cbor_value csv, value;
    *out = (weir_ingest__csv_options){0};
    if (!weir_ingest__schema_find(map, "csv", &csv))
        return;
    size_t length = weir_ingest__schema_enter(r, "csv");
    if (weir_ingest__schema_is_map(r, &csv)) {
        weir_ingest__schema_only_keys(r, &csv, keys);
        out->says_nulls = weir_ingest__schema_find(&csv, "null", &value);
        out->nulls = out->says_nulls ? weir_ingest__schema_list(r, &value, "null", &out->null_count) : NULL;
        const char *delimiter = weir_ingest__schema_text(r, &csv, "delimiter", false);
        out->says_delimiter = delimiter != NULL;
        if (delimiter && !weir_ingest__csv_read_delimiter(delimiter, strlen(delimiter), &out->delimiter))
            weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "delimiter",
                                       "must be one ASCII character, or \\t for a tab");
        const char *quote = weir_ingest__schema_text(r, &csv, "quote", false);
        out->says_quote = quote != NULL;
        if (quote && !weir_ingest__csv_read_quote(quote, strlen(quote), &out->quote))
            weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "quote",
                                       "must be one ASCII character, or empty for none");
        if (out->says_delimiter && out->says_quote && out->delimiter == out->quote)
            weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "quote", "is the delimiter too");
        out->says_header = weir_ingest__schema_find(&csv, "header", &value);
        out->has_header = weir_ingest__schema_bool(r, &csv, "header", false);
    }
    weir_ingest__schema_leave(r, length);
}
