/* Drafting a schema: the steps of draft.h in order, and the reasons that they leave. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/draft.h"

/* ---- Reasons --------------------------------------------------------------------------------- */

static const char *format_text(weir_ingest__draft *draft, const char *format, va_list arguments) {
    char text[1024];
    if (vsnprintf(text, sizeof text, format, arguments) < 0)
        text[0] = 0;
    const char *copy = weir__arena_text(&draft->arena, text, strlen(text));
    draft->is_short_of_memory = draft->is_short_of_memory || !copy;
    return copy;
}

const char *weir_ingest__draft_text(weir_ingest__draft *draft, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = format_text(draft, format, arguments);
    va_end(arguments);
    return text ? text : "";
}

void weir_ingest__draft_reason(weir_ingest__draft *draft, uint32_t table, uint32_t column, const char *topic,
                               bool is_doubtful, const char *choice, const char *format, ...) {
    va_list arguments;
    void *reasons = draft->reasons;
    va_start(arguments, format);
    const char *why = format_text(draft, format, arguments);
    va_end(arguments);
    if (!why || !weir__grow(draft->env, &reasons, &draft->reason_capacity, draft->reason_count + 1,
                            sizeof *draft->reasons)) {
        draft->is_short_of_memory = true;
        return;
    }
    draft->reasons = reasons;
    const weir_ingest__draft_table *of = table == WEIR_NONE ? NULL : &draft->tables[table];
    draft->reasons[draft->reason_count++] =
        (weir_ingest__reason){.table = of ? of->source->name : NULL,
                              .column = of && column != WEIR_NONE ? of->columns[column].name : NULL,
                              .topic = topic,
                              .choice = choice,
                              .why = why,
                              .is_doubtful = is_doubtful};
}

weir_status weir_ingest__draft_status(const weir_ingest__draft *draft, weir_error *error) {
    return draft->is_short_of_memory ? weir_ingest__no_memory(error, 1) : WEIR_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
    return strcmp(((const weir_ingest__draft_table *)a)->source->name,
                  ((const weir_ingest__draft_table *)b)->source->name);
}

static weir_status run(weir_ingest__draft *draft, weir_bytes *schema, weir_error *error) {
    WEIR__TRY(weir_ingest__draft_profile(draft, error));
    WEIR__TRY(weir_ingest__draft_keys(draft, error));
    weir_ingest__draft_types(draft);
    WEIR__TRY(weir_ingest__draft_times(draft, error));
    WEIR__TRY(weir_ingest__draft_tasks(draft, error));
    /* Gives the schema, and then the reasons if they are wanted. */
    weir_bytes *reasons = draft->context->options->reasons;
    weir_json_writer w;
    weir_json_writer_memory(&w, draft->env);
    if (!weir_ingest__draft_write(draft, &w))
        draft->is_short_of_memory = true;
    weir_status status = weir_ingest__draft_status(draft, error);
    if (status != WEIR_OK) {
        weir_json_release(&w);
        return status;
    }
    WEIR__TRY(weir_json_give(&w, schema, error));
    if (!reasons)
        return WEIR_OK;
    weir_json_writer_memory(&w, draft->context->given_env);
    weir_ingest__draft_write_reasons(draft, &w);
    status = weir_json_give(&w, reasons, error);
    if (status != WEIR_OK)
        weir_bytes_release(schema);
    return status;
}

weir_status weir_ingest__draft_schema(weir_ingest__context *context, const weir_ingest__catalog *catalog,
                                      const weir_ingest__source_options *source, weir_bytes *schema,
                                      weir_error *error) {
    const weir_env *env = context->env;
    weir_ingest__draft *draft = weir__allocate_zero(env, 1, sizeof *draft);
    if (!draft)
        return weir_ingest__no_memory(error, sizeof *draft);
    draft->context = context;
    draft->catalog = catalog;
    draft->source = source;
    draft->env = env;
    weir__arena_init(&draft->arena, env);
    uint32_t count = catalog->table_count;
    draft->tables = weir__allocate_zero(env, count, sizeof *draft->tables);
    weir_status status = WEIR_OK;
    if (!draft->tables) {
        status = weir_ingest__no_memory(error, count * sizeof *draft->tables);
    } else {
        draft->table_count = count;
        for (uint32_t t = 0; t < count; t++)
            draft->tables[t].source = &catalog->tables[t];
        if (count > 0)
            qsort(draft->tables, count, sizeof *draft->tables, compare_names);
        status = run(draft, schema, error);
    }
    for (uint32_t t = 0; t < draft->table_count; t++) {
        weir_ingest__draft_table *table = &draft->tables[t];
        for (uint32_t c = 0; c < table->column_count; c++) {
            weir_ingest__sample_release(&table->columns[c].sample);
            weir_ingest__hash_set_release(&table->columns[c].unique);
        }
        weir_ingest__sample_release(&table->times);
        weir__release(env, table->columns);
        weir__release(env, table->keys);
    }
    weir__release(env, draft->tables);
    weir__release(env, draft->reasons);
    weir__arena_release(&draft->arena);
    weir__release(env, draft);
    return status;
}
