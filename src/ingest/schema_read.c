/* Reads a schema from JSON. It is turned into canonical CBOR first and walked with one set of helpers
 * (schema_reader.h); the first fault sticks and is reported with its JSON path. What needs the source
 * (whether a table or column exists) is checked later, by resolve.c.
 *
 * Tables and their columns are read first; then what joins tables, which may stand before them in the text:
 * foreign keys and times (schema_keys.c), then tasks (schema_tasks.c). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/embed.h"
#include "ingest/schema_reader.h"
#include "weir/ingest.h"

void weir_ingest__schema_refuse(weir_ingest__schema_reader *r, weir_status status, const char *key,
                                const char *format, ...) {
    char what[300];
    va_list arguments;
    if (r->status != WEIR_OK)
        return;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    const char *dot = key && *key ? "." : "";
    r->status = weir__fail(r->error, status, WEIR_INGEST__SCHEMA_OPERATOR, "%s: %s%s%s %s", r->name, r->path,
                           dot, key ? key : "", what);
    char path[WEIR_DIAGNOSTIC_CAPACITY];
    int size = snprintf(path, sizeof path, "%s%s%s", r->path, dot, key ? key : "");
    weir__note_text(r->error, "path", path,
                    size < WEIR__NARROW(int, sizeof path) ? (size_t)size : sizeof path - 1);
}

static void refuse(weir_ingest__schema_reader *r, const char *key, const char *what) {
    weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, key, "%s", what);
}

static void out_of_memory(weir_ingest__schema_reader *r, size_t size) {
    if (r->status == WEIR_OK)
        r->status = weir__out_of_memory(r->error, WEIR_INGEST__SCHEMA_OPERATOR, size);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

size_t weir_ingest__schema_enter(weir_ingest__schema_reader *r, const char *key) {
    size_t length = strlen(r->path);
    snprintf(r->path + length, sizeof r->path - length, ".%.200s", key);
    return length;
}

size_t weir_ingest__schema_enter_item(weir_ingest__schema_reader *r, uint64_t item) {
    size_t length = strlen(r->path);
    snprintf(r->path + length, sizeof r->path - length, "[%llu]", (unsigned long long)item);
    return length;
}

void weir_ingest__schema_leave(weir_ingest__schema_reader *r, size_t length) {
    r->path[length] = 0;
}

/* ---- Values ---------------------------------------------------------------------------------- */

void *weir_ingest__schema_take(weir_ingest__schema_reader *r, size_t count, size_t size) {
    void *memory = weir__arena_take_zero(&r->schema->arena, count, size);
    if (!memory)
        out_of_memory(r, count * size);
    return memory;
}

const char *weir_ingest__schema_copy(weir_ingest__schema_reader *r, const char *text, size_t size) {
    const char *copied = weir__arena_text(&r->schema->arena, text, size);
    if (!copied)
        out_of_memory(r, size);
    return copied ? copied : "";
}

static const char *copy(weir_ingest__schema_reader *r, const weir_cbor_value *text) {
    return weir_ingest__schema_copy(r, (const char *)text->data, (size_t)text->number);
}

bool weir_ingest__schema_find(const weir_cbor_value *map, const char *key, weir_cbor_value *out) {
    return weir_cbor_get(map, key, out) && out->type != WEIR_CBOR_NULL;
}

const char *weir_ingest__schema_text(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                                     const char *key, bool is_required) {
    weir_cbor_value value;
    if (!weir_ingest__schema_find(map, key, &value)) {
        if (is_required)
            refuse(r, key, "is missing");
        return NULL;
    }
    if (value.type != WEIR_CBOR_TEXT) {
        refuse(r, key, "must be text");
        return NULL;
    }
    return copy(r, &value);
}

bool weir_ingest__schema_bool(weir_ingest__schema_reader *r, const weir_cbor_value *map, const char *key,
                              bool otherwise) {
    weir_cbor_value value;
    if (!weir_ingest__schema_find(map, key, &value))
        return otherwise;
    if (value.type != WEIR_CBOR_BOOL)
        refuse(r, key, "must be true or false");
    return value.number != 0;
}

void weir_ingest__schema_only_keys(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                                   const char *const *allowed) {
    weir_cbor_iterator it = weir_cbor_children(map);
    weir_cbor_value key, child;
    while (r->status == WEIR_OK && weir_cbor_next(&it, &key, &child)) {
        size_t i = 0;
        while (allowed[i] && !weir_cbor_is_text(&key, allowed[i]))
            i++;
        if (!allowed[i]) {
            char name[100];
            snprintf(name, sizeof name, "%.*s", key.number < 80 ? WEIR__NARROW(int, key.number) : 80,
                     (const char *)key.data);
            refuse(r, name, "is not a key that a schema has");
        }
    }
}

bool weir_ingest__schema_is_map(weir_ingest__schema_reader *r, const weir_cbor_value *value) {
    if (value->type != WEIR_CBOR_MAP)
        refuse(r, NULL, "must be an object");
    return r->status == WEIR_OK && value->type == WEIR_CBOR_MAP;
}

const char *const *weir_ingest__schema_list(weir_ingest__schema_reader *r, const weir_cbor_value *value,
                                            const char *key, uint32_t *count) {
    weir_cbor_value item;
    bool is_one = value->type == WEIR_CBOR_TEXT;
    *count = 0;
    if (!is_one && value->type != WEIR_CBOR_ARRAY) {
        refuse(r, key, "must be a name or a list of names");
        return NULL;
    }
    const char **texts = weir_ingest__schema_take(r, is_one ? 1 : (size_t)value->number, sizeof *texts);
    if (is_one && texts) {
        texts[(*count)++] = copy(r, value);
        return texts;
    }
    weir_cbor_iterator it = weir_cbor_children(value);
    while (texts && r->status == WEIR_OK && weir_cbor_next(&it, NULL, &item)) {
        if (item.type != WEIR_CBOR_TEXT)
            refuse(r, key, "must be a name or a list of names");
        else
            texts[(*count)++] = copy(r, &item);
    }
    return texts;
}

const char *const *weir_ingest__schema_names(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                                             const char *key, uint32_t *count) {
    weir_cbor_value value;
    *count = 0;
    return weir_ingest__schema_find(map, key, &value) ? weir_ingest__schema_list(r, &value, key, count)
                                                      : NULL;
}

uint32_t weir_ingest__schema_word(weir_ingest__schema_reader *r, const weir_cbor_value *map, const char *key,
                                  const char *const *words, weir_status status, uint32_t otherwise) {
    const char *word = weir_ingest__schema_text(r, map, key, false);
    char all[200] = "";
    if (!word)
        return otherwise;
    for (uint32_t i = 0; words[i]; i++) {
        if (strcmp(word, words[i]) == 0)
            return i;
        size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    }
    weir_ingest__schema_refuse(r, status, key, "must be %s", all);
    return otherwise;
}

weir_stype weir_ingest__schema_stype(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                                     const char *key) {
    static const char *const names[] = {"identifier",  "numerical", "timestamp", "boolean",
                                        "categorical", "text",      "ignored",   NULL};
    weir_cbor_value value;
    if (!weir_ingest__schema_find(map, key, &value))
        refuse(r, key, "is missing");
    return (weir_stype)weir_ingest__schema_word(r, map, key, names, WEIR_SCHEMA_INVALID, WEIR_IGNORED);
}

weir_ingest__time_form weir_ingest__schema_form(weir_ingest__schema_reader *r, const weir_cbor_value *map) {
    static const char *const names[] = {"s", "ms", "us", "ns", NULL};
    weir_cbor_value unit;
    weir_ingest__time_form form = {.says_unit = weir_ingest__schema_find(map, "unit", &unit)};
    form.unit = (weir_ingest__unit)weir_ingest__schema_word(r, map, "unit", names, WEIR_SCHEMA_INVALID,
                                                            WEIR_INGEST__SECONDS);
    const char *pattern = weir_ingest__schema_text(r, map, "format", false);
    if (!pattern)
        return form;
    weir_ingest__time_format *format = weir_ingest__schema_take(r, 1, sizeof *format);
    const char *wrong = format ? weir_ingest__time_format_compile(pattern, strlen(pattern), format) : NULL;
    if (wrong)
        refuse(r, "format", wrong);
    else if (form.says_unit)
        refuse(r, "format", "stands beside unit; say one of them");
    form.format = format;
    return form;
}

bool weir_ingest__schema_moment(weir_ingest__schema_reader *r, const weir_cbor_value *map, const char *key,
                                bool allows_integer, weir_ingest__unit unit, int64_t *out) {
    weir_cbor_value found;
    weir_ingest__value value = {.type = WEIR_INGEST__NULL};
    if (!weir_ingest__schema_find(map, key, &found))
        return false;
    if (found.type == WEIR_CBOR_TEXT)
        value = (weir_ingest__value){.type = WEIR_INGEST__TEXT,
                                     .text = {(const char *)found.data, (size_t)found.number}};
    else if (allows_integer && found.type == WEIR_CBOR_UINT && found.number <= INT64_MAX)
        value = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = (int64_t)found.number};
    else if (allows_integer && found.type == WEIR_CBOR_NEGATIVE && found.number <= INT64_MAX)
        value = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = -1 - (int64_t)found.number};
    if (weir_ingest__to_timestamp(&value, unit, out) == WEIR_INGEST__FITS)
        return true;
    refuse(r, key, "is not a time such as 2025-01-01T00:00:00Z");
    return false;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void read_column(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                        weir_ingest__schema_column *column) {
    static const char *const keys[] = {"stype", "foreign_key", "known_at", "description",
                                       "unit",  "format",      NULL};
    weir_cbor_value value;
    if (!weir_ingest__schema_is_map(r, map))
        return;
    weir_ingest__schema_only_keys(r, map, keys);
    column->stype = weir_ingest__schema_stype(r, map, "stype");
    column->form = weir_ingest__schema_form(r, map);
    column->description = weir_ingest__schema_text(r, map, "description", false);
    if (!column->description)
        column->description = "";
    column->has_known_at = weir_cbor_get(map, "known_at", &value);
}

static void read_columns(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                         weir_ingest__schema_table *table) {
    weir_cbor_value columns, key, child;
    if (!weir_cbor_get(map, "columns", &columns)) {
        refuse(r, "columns", "is missing");
        return;
    }
    size_t length = weir_ingest__schema_enter(r, "columns");
    if (weir_ingest__schema_is_map(r, &columns)) {
        table->columns = weir_ingest__schema_take(r, (size_t)columns.number, sizeof *table->columns);
        weir_cbor_iterator it = weir_cbor_children(&columns);
        while (r->status == WEIR_OK && weir_cbor_next(&it, &key, &child)) {
            weir_ingest__schema_column *column = &table->columns[table->column_count++];
            column->name = copy(r, &key);
            size_t inner = weir_ingest__schema_enter(r, column->name);
            read_column(r, &child, column);
            weir_ingest__schema_leave(r, inner);
        }
    }
    weir_ingest__schema_leave(r, length);
}

static void read_table(weir_ingest__schema_reader *r, const weir_cbor_value *map, bool keeps_keys,
                       weir_ingest__schema_table *table) {
    static const char *const keys[] = {
        "query", "primary_key", "temporal_column", "columns", "foreign_keys", "csv", "keys", NULL};
    if (!weir_ingest__schema_is_map(r, map))
        return;
    weir_ingest__schema_only_keys(r, map, keys);
    table->query = weir_ingest__schema_text(r, map, "query", false);
    table->primary_key = weir_ingest__schema_names(r, map, "primary_key", &table->primary_key_count);
    for (uint32_t i = 1; i < table->primary_key_count && r->status == WEIR_OK; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(table->primary_key[i], table->primary_key[k]) == 0)
                refuse(r, "primary_key", "names a column twice");
    weir_cbor_value csv;
    table->has_csv = weir_ingest__schema_find(map, "csv", &csv);
    weir_ingest__schema_csv(r, map, &table->csv);
    table->keeps_keys = weir_ingest__schema_bool(r, map, "keys", keeps_keys) && table->primary_key_count > 0;
    read_columns(r, map, table);
}

static int compare_tables(const void *a, const void *b) {
    return strcmp(((const weir_ingest__schema_table *)a)->name, ((const weir_ingest__schema_table *)b)->name);
}

static void read_tables(weir_ingest__schema_reader *r, const weir_cbor_value *document) {
    weir_cbor_value tables, key, child;
    weir_ingest__schema *schema = r->schema;
    bool keeps_keys = weir_ingest__schema_bool(r, document, "keys", false);
    if (!weir_cbor_get(document, "tables", &tables)) {
        refuse(r, "tables", "is missing");
        return;
    }
    size_t length = weir_ingest__schema_enter(r, "tables");
    if (weir_ingest__schema_is_map(r, &tables)) {
        if (tables.number == 0)
            refuse(r, NULL, "has no table");
        schema->tables = weir_ingest__schema_take(r, (size_t)tables.number, sizeof *schema->tables);
        weir_cbor_iterator it = weir_cbor_children(&tables);
        while (r->status == WEIR_OK && weir_cbor_next(&it, &key, &child)) {
            weir_ingest__schema_table *table = &schema->tables[schema->table_count++];
            table->name = copy(r, &key);
            size_t inner = weir_ingest__schema_enter(r, table->name);
            read_table(r, &child, keeps_keys, table);
            weir_ingest__schema_leave(r, inner);
        }
        if (r->status == WEIR_OK)
            qsort(schema->tables, schema->table_count, sizeof *schema->tables, compare_tables);
        weir_ingest__schema_read_keys(r, &tables);
        weir_ingest__schema_read_times(r, &tables);
    }
    weir_ingest__schema_leave(r, length);
}

/* ---- The document ---------------------------------------------------------------------------- */

static void check_name(weir_ingest__schema_reader *r) {
    const char *name = r->schema->name;
    if (name && (*name == 0 || *name == '.' || strchr(name, '/')))
        refuse(r, "name", "must be a file's name: not empty, no slash, no dot in front");
}

/* Provider and dim are checked here, before hours of reading; the other keys are the provider's own. */
static void read_embedding(weir_ingest__schema_reader *r, const weir_cbor_value *document) {
    weir_cbor_value *embedding = &r->schema->embedding, value;
    uint64_t dim;
    r->schema->has_embedding = weir_ingest__schema_find(document, "embedding", embedding);
    if (!r->schema->has_embedding)
        return;
    size_t length = weir_ingest__schema_enter(r, "embedding");
    if (weir_ingest__schema_is_map(r, embedding)) {
        if (weir_cbor_get(embedding, "provider", &value) && !weir_ingest__embedder_is_known(&value))
            refuse(r, "provider", "must be hash_v1, http or file");
        if (weir_cbor_get(embedding, "dim", &value) &&
            (!weir_cbor_get_uint(&value, &dim) || dim < 1 || dim > WEIR_INGEST__EMBED_DIM_MAX)) {
            char what[64];
            snprintf(what, sizeof what, "must be a whole number from 1 to %d", WEIR_INGEST__EMBED_DIM_MAX);
            refuse(r, "dim", what);
        }
    }
    weir_ingest__schema_leave(r, length);
}

/* A time, or "train": then a task must have a train split that can end. */
static void read_statistics_until(weir_ingest__schema_reader *r, const weir_cbor_value *document) {
    weir_ingest__schema *schema = r->schema;
    weir_cbor_value value;
    bool can_end = false;
    if (!weir_ingest__schema_find(document, "statistics_until", &value) ||
        !weir_cbor_is_text(&value, "train")) {
        schema->has_statistics_until = weir_ingest__schema_moment(
            r, document, "statistics_until", false, WEIR_INGEST__SECONDS, &schema->statistics_until);
        return;
    }
    schema->has_statistics_until_train = true;
    for (uint32_t i = 0; i < schema->task_count; i++)
        can_end = can_end || schema->tasks[i].split.method != WEIR_INGEST__SPLIT_HASH;
    if (!can_end)
        refuse(r, "statistics_until",
               "is \"train\", but no task has a temporal or column split; give a time");
}

static void read_document(weir_ingest__schema_reader *r, const weir_cbor_value *document) {
    static const char *const keys[] = {"name",        "keys", "tables",    "tasks", "statistics_until",
                                       "search_path", "csv",  "embedding", NULL};
    weir_ingest__schema *schema = r->schema;
    if (!weir_ingest__schema_is_map(r, document))
        return;
    weir_ingest__schema_only_keys(r, document, keys);
    schema->name = weir_ingest__schema_text(r, document, "name", false);
    check_name(r);
    weir_ingest__schema_csv(r, document, &schema->csv);
    schema->search_path = weir_ingest__schema_names(r, document, "search_path", &schema->search_path_count);
    for (uint32_t i = 0; i < schema->search_path_count && r->status == WEIR_OK; i++)
        for (uint32_t k = 0; k <= i; k++)
            if (k < i ? strcmp(schema->search_path[i], schema->search_path[k]) == 0
                      : *schema->search_path[i] == 0)
                refuse(r, "search_path", "must be different names, none of them empty");
    read_tables(r, document);
    if (r->status == WEIR_OK)
        weir_ingest__schema_read_tasks(r, document);
    if (r->status == WEIR_OK)
        read_statistics_until(r, document);
    read_embedding(r, document);
}

weir_status weir_ingest__schema_read(weir_ingest__schema *schema, const weir_env *env, const char *text,
                                     size_t size, const char *name, weir_error *error) {
    memset(schema, 0, sizeof *schema);
    weir__arena_init(&schema->arena, env);
    weir_cbor_writer_memory(&schema->document, env);
    weir_status status = weir_json_read(text, size, name, WEIR_SCHEMA_INVALID, &schema->document, error);
    if (status == WEIR_OK)
        status = weir_cbor_finish(&schema->document, error);
    if (status != WEIR_OK)
        return status;
    weir_ingest__schema_reader r = {.schema = schema, .name = name, .error = error, .path = "$"};
    weir_cbor_value document = weir_cbor_view(schema->document.data);
    read_document(&r, &document);
    return r.status;
}

void weir_ingest__schema_release(weir_ingest__schema *schema) {
    weir_cbor_release(&schema->document);
    weir__arena_release(&schema->arena);
}

const weir_ingest__schema_table *weir_ingest__schema_find_table(const weir_ingest__schema *schema,
                                                                const char *name) {
    for (uint32_t i = 0; i < schema->table_count; i++)
        if (strcmp(schema->tables[i].name, name) == 0)
            return &schema->tables[i];
    return NULL;
}

const weir_ingest__schema_column *weir_ingest__schema_find_column(const weir_ingest__schema_table *table,
                                                                  const char *name) {
    for (uint32_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return &table->columns[i];
    return NULL;
}

const weir_ingest__schema_key *weir_ingest__schema_find_key(const weir_ingest__schema_table *table,
                                                            const char *name) {
    for (uint32_t i = 0; i < table->foreign_key_count; i++)
        if (strcmp(table->foreign_keys[i].name, name) == 0)
            return &table->foreign_keys[i];
    return NULL;
}

weir_status weir_schema_check(const weir_env *env, const char *text, size_t size, const char *name,
                              weir_error *error) {
    weir_ingest__schema schema;
    weir_status status =
        weir_ingest__schema_read(&schema, weir__env_or_default(env), text, size, name, error);
    weir_ingest__schema_release(&schema);
    return status;
}
