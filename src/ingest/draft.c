/* Drafting a schema: the steps of draft.h in order, and the reasons that they leave. */
#include "ingest/draft.h"

#include <string.h>

const char *weir_ingest__draft_text(weir_ingest__draft *draft, const char *format, ...) {
    char text[1024];
    WEIR__FORMAT(text, format);
    const char *copy = weir__arena_text(&draft->arena, text, strlen(text));
    return copy ? copy : "";
}

const char *weir_ingest__draft_names(weir_ingest__draft *draft, const weir_ingest__draft_table *table,
                                     const uint32_t *columns, uint32_t count, const char *separator) {
    const char *names = table->columns[columns[0]].name;
    for (uint32_t i = 1; i < count; i++)
        names = weir_ingest__draft_text(draft, "%s%s%s", names, separator, table->columns[columns[i]].name);
    return names;
}

void weir_ingest__draft_reason(weir_ingest__draft *draft, uint32_t table, uint32_t column, const char *topic,
                               bool is_doubtful, const char *choice, const char *format, ...) {
    weir_json_writer *w = &draft->reasons;
    const weir_ingest__draft_table *of = table == WEIR_NONE ? NULL : &draft->tables[table];
    char why[1024];
    WEIR__FORMAT(why, format);
    weir_json_object(w);
    if (of)
        weir_json_pair_text(w, "table", of->name);
    if (of && column != WEIR_NONE)
        weir_json_pair_text(w, "column", of->columns[column].name);
    weir_json_pair_text(w, "topic", topic);
    weir_json_pair_text(w, "choice", choice);
    weir_json_pair_text(w, "why", why);
    if (is_doubtful)
        weir_json_pair_bool(w, "check", true);
    weir_json_end_object(w);
}

static void release_draft(weir_ingest__draft *draft) {
    for (uint32_t t = 0; t < draft->table_count; t++) {
        weir_ingest__draft_table *table = &draft->tables[t];
        for (uint32_t c = 0; c < table->column_count; c++) {
            weir_ingest__sample_release(&table->columns[c].sample);
            weir_ingest__hash_set_release(&table->columns[c].unique);
        }
        weir_ingest__sample_release(&table->times);
    }
    weir__arena_release(&draft->arena);
    weir__release(draft->env, draft);
}

weir_status weir_ingest__draft_schema(weir_ingest__context *context, const weir_ingest__catalog *catalog,
                                      const weir_ingest__source_options *source, weir_bytes *schema,
                                      weir_error *error) {
    weir_bytes *reasons = context->options->reasons;
    weir_ingest__draft *draft = weir__allocate_zero(context->env, 1, sizeof *draft);
    weir_json_writer w;
    if (!draft)
        return weir_ingest__no_memory(error, sizeof *draft);
    draft->context = context;
    draft->catalog = catalog;
    draft->source = source;
    draft->env = context->env;
    weir__arena_init(&draft->arena, context->env);
    weir_json_writer_memory(&draft->reasons, context->given_env);
    weir_json_array(&draft->reasons);
    weir_status status = weir_ingest__draft_profile(draft, error);
    if (status == WEIR_OK)
        weir_ingest__draft_nulls(draft);
    if (status == WEIR_OK)
        status = weir_ingest__draft_keys(draft, error);
    if (status == WEIR_OK) {
        weir_ingest__draft_types(draft);
        status = weir_ingest__draft_times(draft, error);
    }
    if (status == WEIR_OK)
        status = weir_ingest__draft_tasks(draft, error);
    weir_json_end_array(&draft->reasons);
    weir_json_writer_memory(&w, context->env);
    if (status == WEIR_OK)
        weir_ingest__draft_write(draft, &w);
    if (status == WEIR_OK && draft->arena.is_short)
        status = weir_ingest__no_memory(error, 1);
    if (status == WEIR_OK && reasons)
        status = weir_json_give(&draft->reasons, reasons, error);
    else
        weir_json_release(&draft->reasons);
    if (status == WEIR_OK)
        status = weir_json_give(&w, schema, error);
    else
        weir_json_release(&w);
    release_draft(draft);
    return status;
}
