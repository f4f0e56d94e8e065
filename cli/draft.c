/* See draft.h. */
#include "draft.h"

#include <string.h>

#include "progress.h"
#include "signals.h"

enum { BROKEN_DEPTH = 4 };

weir_status cli_draft_make(cli_draft *draft, const weir_ingest_options *given, weir_error *error) {
    weir_ingest_options options = *given;
    cli_progress progress;
    cli_progress_begin(&progress);
    options.progress = cli_progress_show;
    options.progress_context = &progress;
    options.reasons = &draft->reasons;
    cli_signals_catch(NULL, NULL);
    weir_status status = weir_schema_draft(NULL, &options, &draft->schema, error);
    cli_signals_release();
    cli_progress_end(&progress);
    return status;
}

void cli_draft_release(cli_draft *draft) {
    weir_bytes_release(&draft->schema);
    weir_bytes_release(&draft->reasons);
}

weir_status cli_draft_indent(cli_draft *draft, weir_error *error) {
    return weir_json_indent(&draft->schema, BROKEN_DEPTH, error);
}

weir_status cli_draft_save(const cli_draft *draft, const char *source, const char *schema_path,
                           const char *notes_path, weir_error *error) {
    cli_output notes;
    weir_status status = cli_write_file(schema_path, draft->schema.data, draft->schema.size, error);
    if (status == WEIR_OK)
        status = cli_output_open(&notes, notes_path, error);
    if (status != WEIR_OK)
        return status;
    weir_status written = cli_draft_explain(draft, notes.stream, source, error);
    status = cli_output_finish(&notes, error);
    return written != WEIR_OK ? written : status;
}

/* ---- Reasons --------------------------------------------------------------------------------- */

typedef struct reason {
    weir_cbor_value table, column, topic, choice, why;
    bool has_table, has_column, is_doubtful;
} reason;

static void read_reason(const weir_cbor_value *map, reason *out) {
    weir_cbor_value check;
    *out = (reason){0};
    out->has_table = weir_cbor_get(map, "table", &out->table);
    out->has_column = weir_cbor_get(map, "column", &out->column);
    (void)weir_cbor_get(map, "topic", &out->topic);
    (void)weir_cbor_get(map, "choice", &out->choice);
    (void)weir_cbor_get(map, "why", &out->why);
    out->is_doubtful = weir_cbor_get(map, "check", &check) && check.number != 0;
}

/* Names and values of the database, which may be meant for the terminal that shows them. */
static void put_text(FILE *out, const weir_cbor_value *text) {
    char piece[256], shown[256];
    for (uint64_t at = 0, size; at < text->number; at += size) {
        size = text->number - at < sizeof piece - 1 ? text->number - at : sizeof piece - 1;
        while (at + size < text->number && size > 1 && (text->data[at + size] & 0xC0) == 0x80)
            size--; /* a character stays whole */
        memcpy(piece, text->data + at, (size_t)size);
        piece[size] = 0;
        fputs(cli_printable(piece, shown, sizeof shown), out);
    }
}

/* As texts are sorted: by their bytes, the shorter of two first. */
static int compare(const weir_cbor_value *a, const weir_cbor_value *b) {
    int order = memcmp(a->data, b->data, (size_t)(a->number < b->number ? a->number : b->number));
    return order ? order : a->number < b->number ? -1 : a->number > b->number;
}

static void put_line(FILE *out, const reason *r, bool with_table) {
    static const char *const words[][2] = {{"null", "null is"},
                                           {"primary_key", "primary key"},
                                           {"foreign_key", "leads to"},
                                           {"stype", "is"},
                                           {"time", "time of a row"},
                                           {"known_at", "known_at"},
                                           {"task", "task"},
                                           {"source", "source"}};
    fputs("- ", out);
    if (with_table && r->has_table) {
        put_text(out, &r->table);
        fputs(r->has_column ? "." : ": ", out);
    }
    if (r->has_column) {
        put_text(out, &r->column);
        fputs(": ", out);
    }
    for (size_t i = 0; i < CLI_COUNT(words); i++)
        if (weir_cbor_is_text(&r->topic, words[i][0]))
            fputs(words[i][1], out);
    fputs(" **", out);
    put_text(out, &r->choice);
    fputs("** (", out);
    put_text(out, &r->why);
    fputs(")\n", out);
}

/* The reasons of one table (NULL: of none), those about the whole table first. */
static void put_table(FILE *out, const weir_cbor_value *list, const weir_cbor_value *table) {
    weir_cbor_value item;
    reason r;
    for (int with_column = 0; with_column < 2; with_column++) {
        weir_cbor_iterator it = weir_cbor_children(list);
        while (weir_cbor_next(&it, NULL, &item)) {
            read_reason(&item, &r);
            bool belongs = table ? r.has_table && compare(&r.table, table) == 0 : !r.has_table;
            if (belongs && r.has_column == (with_column == 1))
                put_line(out, &r, false);
        }
    }
}

static void put_all(FILE *out, const char *source, const weir_cbor_value *list) {
    weir_cbor_value item, last = {0};
    reason r;
    char shown[CLI_PATH_MAX];
    weir_location_text(source, shown, sizeof shown);
    fprintf(out, "# Why the draft of %s is as it is\n\n## Check these\n\n", cli_shown(shown));
    weir_cbor_iterator it = weir_cbor_children(list);
    while (weir_cbor_next(&it, NULL, &item)) {
        read_reason(&item, &r);
        if (r.is_doubtful)
            put_line(out, &r, true);
    }
    /* Tables in order of name: the least that is greater than the last. */
    for (;;) {
        weir_cbor_value next = {0};
        it = weir_cbor_children(list);
        while (weir_cbor_next(&it, NULL, &item)) {
            read_reason(&item, &r);
            bool is_after = r.has_table && (!last.data || compare(&r.table, &last) > 0);
            if (is_after && (!next.data || compare(&r.table, &next) < 0))
                next = r.table;
        }
        if (!next.data)
            break;
        fputs("\n## ", out);
        put_text(out, &next);
        fputs("\n\n", out);
        put_table(out, list, &next);
        last = next;
    }
}

weir_status cli_draft_explain(const cli_draft *draft, FILE *out, const char *source, weir_error *error) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, NULL);
    weir_status status = weir_json_read(draft->reasons.data, draft->reasons.size, "the reasons",
                                        WEIR_SCHEMA_INVALID, &w, error);
    if (status == WEIR_OK)
        status = weir_cbor_finish(&w, error);
    if (status == WEIR_OK) {
        weir_cbor_value list = weir_cbor_view(w.data);
        put_all(out, source, &list);
    }
    weir_cbor_release(&w);
    return status;
}
