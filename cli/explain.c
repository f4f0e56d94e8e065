/* See explain.h. */
#include "explain.h"

#include <string.h>

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

static void put_text(FILE *out, const weir_cbor_value *text) {
    for (uint64_t i = 0; i < text->number; i++)
        fputc(text->data[i] == '\n' || text->data[i] == '\r' ? ' ' : text->data[i], out);
}

static bool is_same(const weir_cbor_value *a, const weir_cbor_value *b) {
    return a->number == b->number && memcmp(a->data, b->data, (size_t)a->number) == 0;
}

static const char *topic_words(const weir_cbor_value *topic) {
    static const char *const words[][2] = {{"primary_key", "primary key"},
                                           {"foreign_key", "leads to"},
                                           {"stype", "is"},
                                           {"time", "time of a row"},
                                           {"known_at", "known_at"},
                                           {"task", "task"},
                                           {"source", "source"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (weir_cbor_is_text(topic, words[i][0]))
            return words[i][1];
    return "";
}

static void put_line(FILE *out, const reason *r, bool with_table) {
    fputs("- ", out);
    if (with_table && r->has_table) {
        put_text(out, &r->table);
        fputs(r->has_column ? "." : ": ", out);
    }
    if (r->has_column) {
        put_text(out, &r->column);
        fputs(": ", out);
    }
    fprintf(out, "%s **", topic_words(&r->topic));
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
            bool belongs = table ? r.has_table && is_same(&r.table, table) : !r.has_table;
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
            if (!r.has_table)
                continue;
            size_t shorter = (size_t)(r.table.number < last.number ? r.table.number : last.number);
            int order = last.data ? memcmp(r.table.data, last.data, shorter) : 1;
            bool is_after = order > 0 || (order == 0 && r.table.number > last.number);
            size_t both = (size_t)(r.table.number < next.number ? r.table.number : next.number);
            int before = next.data ? memcmp(r.table.data, next.data, both) : -1;
            if (is_after && (before < 0 || (before == 0 && r.table.number < next.number)))
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

weir_status cli_write_reasons(FILE *out, const char *source, const weir_bytes *reasons, weir_error *error) {
    weir_cbor_writer w;
    weir_cbor_writer_memory(&w, NULL);
    weir_status status =
        weir_json_read(reasons->data, reasons->size, "the reasons", WEIR_SCHEMA_INVALID, &w, error);
    if (status == WEIR_OK)
        status = weir_cbor_finish(&w, error);
    if (status == WEIR_OK) {
        weir_cbor_value list = weir_cbor_view(w.data);
        put_all(out, source, &list);
    }
    weir_cbor_release(&w);
    return status;
}
