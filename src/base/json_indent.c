/* JSON on many lines, for people: what the writer made in one. Members of objects stand on lines of their own
 * down to a depth; deeper ones, and arrays without objects in them, stay on one line. */
#include <string.h>

#include "base/internal.h"
#include "weir_tool/documents.h"

static const char operator_name[] = "weir.json.write";

/* The length of the text's string at `at`, quotes included. */
static size_t string_size(const char *at) {
    size_t size = 1;
    while (at[size] != '"')
        size += at[size] == '\\' ? 2 : 1;
    return size + 1;
}

/* The length of the object or array at `at`; whether an object stands inside it. */
static size_t container_size(const char *at, bool *has_object) {
    size_t size = 0;
    int depth = 0;
    *has_object = false;
    do {
        if (at[size] == '"') {
            size += string_size(at + size);
            continue;
        }
        depth += at[size] == '{' || at[size] == '[' ? 1 : at[size] == '}' || at[size] == ']' ? -1 : 0;
        *has_object = *has_object || (at[size] == '{' && size > 0);
        size++;
    } while (depth > 0);
    return size;
}

typedef struct lines {
    const weir_env *env;
    char *data;
    size_t size;
    size_t capacity;
    bool is_short_of_memory;
} lines;

static void put(lines *out, const char *text, size_t size) {
    void *memory = out->data;
    if (out->is_short_of_memory || !weir__grow(out->env, &memory, &out->capacity, out->size + size + 1, 1)) {
        out->is_short_of_memory = true;
        return;
    }
    out->data = memory;
    memcpy(out->data + out->size, text, size);
    out->size += size;
    out->data[out->size] = 0;
}

static void break_line(lines *out, unsigned level) {
    put(out, "\n", 1);
    for (unsigned i = 0; i < level; i++)
        put(out, "  ", 2);
}

weir_status weir_json_indent(weir_bytes *text, unsigned depth, weir_error *error) {
    lines out = {.env = text->env};
    unsigned level = 0;
    for (const char *at = text->data; *at && !out.is_short_of_memory;) {
        bool opens = *at == '{' || *at == '[', has_object = false;
        size_t whole = opens ? container_size(at, &has_object) : 0;
        bool stays = opens && (whole == 2 || level >= depth || (*at == '[' && !has_object));
        if (*at == '"' || stays) {
            size_t size = stays ? whole : string_size(at);
            put(&out, at, size);
            at += size;
        } else if (opens) {
            put(&out, at++, 1);
            break_line(&out, ++level);
        } else if (*at == '}' || *at == ']') {
            break_line(&out, --level);
            put(&out, at++, 1);
        } else if (*at == ',') {
            put(&out, at++, 1);
            break_line(&out, level);
            at += *at == ' ' ? 1 : 0;
        } else {
            put(&out, at++, 1);
        }
    }
    put(&out, "\n", 1);
    if (out.is_short_of_memory) {
        weir__release(out.env, out.data);
        return weir__out_of_memory(error, operator_name, out.size);
    }
    weir_bytes_release(text);
    *text = (weir_bytes){out.data, out.size, out.env};
    return WEIR_OK;
}
