/* What stands for null in CSV files, where that was found and not said (docs/spec/04-values.md): a text that
 * is null because of one column is null in all of them, also where it was a value. */
#include "ingest/draft.h"

/* The columns of texts that have a marker, which is null there too. */
typedef struct lost_texts {
    uint64_t fields;
    uint32_t columns;
    const char *table, *column; /* the first of them */
} lost_texts;

static const weir_ingest__csv_table *finds_nulls(const weir_ingest__draft_table *table) {
    const weir_ingest__csv_table *csv = table->source->csv;
    return csv && !csv->options.says_nulls ? csv : NULL;
}

static lost_texts count_lost(const weir_ingest__draft *draft, int marker) {
    lost_texts lost = {0};
    for (uint32_t t = 0; t < draft->table_count; t++) {
        const weir_ingest__csv_table *csv = finds_nulls(&draft->tables[t]);
        for (uint32_t c = 0; csv && c < csv->column_count; c++) {
            uint64_t fields = weir_ingest__csv_lost_texts(&csv->columns[c].profile, marker);
            if (fields > 0 && lost.columns++ == 0) {
                lost.table = draft->tables[t].name;
                lost.column = csv->columns[c].name;
            }
            lost.fields += fields;
        }
    }
    return lost;
}

static void give_reason(weir_ingest__draft *draft, uint32_t table, uint32_t column, int marker) {
    const char *text = weir_ingest__csv_markers[marker], *more = "";
    lost_texts lost = count_lost(draft, marker);
    if (lost.columns > 1)
        more = weir_ingest__draft_text(draft, " and %u more", lost.columns - 1);
    if (lost.columns > 0)
        weir_ingest__draft_reason(
            draft, table, column, "null", true, text,
            "it stands among the numbers or times of this column, so it is null in all files; %llu %s of "
            "texts became null by it, in %s.%s%s; if it is a value there, give that table \"csv\": "
            "{\"null\": []}",
            (unsigned long long)lost.fields, lost.fields == 1 ? "field" : "fields", lost.table, lost.column,
            more);
    else
        weir_ingest__draft_reason(
            draft, table, column, "null", false, text,
            "it stands among the numbers or times of this column, so it is null in all files");
}

/* One reason a marker, of the first column that proves it. */
void weir_ingest__draft_nulls(weir_ingest__draft *draft) {
    uint32_t told = 0;
    for (uint32_t t = 0; t < draft->table_count; t++) {
        const weir_ingest__csv_table *csv = finds_nulls(&draft->tables[t]);
        for (uint32_t c = 0; csv && c < csv->column_count && c < draft->tables[t].column_count; c++) {
            uint32_t fresh = weir_ingest__csv_proven_markers(&csv->columns[c].profile) & ~told;
            for (int marker = 0; marker < WEIR_INGEST__CSV_MARKERS; marker++)
                if (fresh >> marker & 1)
                    give_reason(draft, t, c, marker);
            told |= fresh;
        }
    }
}
