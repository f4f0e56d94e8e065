/* See sql.h. Names and texts are quoted by doubling the quote, which is the whole rule in standard SQL
 * (with standard_conforming_strings, which every supported server has on). */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ingest/sql.h"

static bool make_room(weir_ingest__sql *sql, size_t more) {
    size_t needed;
    if (sql->failed || __builtin_add_overflow(sql->size, more, &needed) ||
        __builtin_add_overflow(needed, 1, &needed) ||
        !weir__grow(sql->env, (void **)&sql->data, &sql->capacity, needed, 1)) {
        sql->failed = true;
        return false;
    }
    return true;
}

void weir_ingest__sql_add_text(weir_ingest__sql *sql, const char *text, size_t size) {
    if (!make_room(sql, size))
        return;
    memcpy(sql->data + sql->size, text, size);
    sql->size += size;
    sql->data[sql->size] = '\0';
}

void weir_ingest__sql_add(weir_ingest__sql *sql, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    va_list again;
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (size < 0)
        sql->failed = true;
    else if (make_room(sql, (size_t)size)) {
        vsnprintf(sql->data + sql->size, (size_t)size + 1, format, again);
        sql->size += (size_t)size;
    }
    va_end(again);
}

static void add_quoted(weir_ingest__sql *sql, const char *text, char quote) {
    weir_ingest__sql_add_text(sql, &quote, 1);
    for (const char *at = text; *at; at++) {
        if (*at == quote)
            weir_ingest__sql_add_text(sql, at, 1);
        weir_ingest__sql_add_text(sql, at, 1);
    }
    weir_ingest__sql_add_text(sql, &quote, 1);
}

void weir_ingest__sql_add_identifier(weir_ingest__sql *sql, const char *name) {
    add_quoted(sql, name, '"');
}

void weir_ingest__sql_add_literal(weir_ingest__sql *sql, const char *text) {
    add_quoted(sql, text, '\'');
}

void weir_ingest__sql_release(weir_ingest__sql *sql) {
    weir__release(sql->env, sql->data);
    *sql = (weir_ingest__sql){.env = sql->env};
}

char *weir_ingest__sql_keep(weir_ingest__sql *sql, weir__arena *memory) {
    char *text = sql->failed ? NULL : weir__arena_text(memory, sql->data, sql->size);
    memory->is_short = memory->is_short || !text;
    weir_ingest__sql_release(sql);
    return text;
}

/* The end of the quoted text, quoted name or comment that begins at `at`; `at` itself where none does; NULL
 * if it does not end. */
static const char *skip_quoted(const char *at) {
    if (*at == '\'' || *at == '"') {
        const char *end = strchr(at + 1, *at);
        return end ? end + 1 : NULL;
    }
    if (at[0] == '-' && at[1] == '-')
        return at + strcspn(at, "\n");
    if (at[0] == '/' && at[1] == '*') {
        const char *end = strstr(at + 2, "*/");
        return end ? end + 2 : NULL;
    }
    return at;
}

size_t weir_ingest__sql_trimmed_size(const char *statement) {
    size_t size = 0;
    for (const char *at = statement; *at;) {
        const char *end = skip_quoted(at);
        if (!end)
            return strlen(statement);
        bool is_comment = end > at && (*at == '-' || *at == '/');
        if (end == at)
            end = at + 1;
        if (!is_comment && !strchr(" \t\r\n;", *at))
            size = (size_t)(end - statement);
        at = end;
    }
    return size;
}
