/* The catalog that sources fill: tables, views, their columns and keys. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/source.h"
#include "ingest/sql.h"

static char *copy(weir_ingest__catalog *catalog, const char *text) {
    return weir__arena_text(&catalog->memory, text, strlen(text));
}

weir_ingest__catalog_table *weir_ingest__catalog_add_table(weir_ingest__catalog *catalog, const char *name) {
    weir_ingest__catalog_table *table = weir__arena_append(&catalog->memory, &catalog->tables,
                                                           &catalog->table_count, sizeof *catalog->tables);
    if (table)
        table->name = copy(catalog, name);
    return catalog->memory.is_short ? NULL : table;
}

weir_ingest__catalog_table *weir_ingest__catalog_add_numbered(weir_ingest__catalog *catalog, const char *name,
                                                              uint32_t number) {
    weir_ingest__catalog_table *table = weir_ingest__catalog_add_table(catalog, name);
    uint32_t *detail = table ? weir__arena_take(&catalog->memory, sizeof *detail) : NULL;
    if (!detail)
        return NULL;
    *detail = number;
    table->detail = detail;
    return table;
}

const char *weir_ingest__last_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool weir_ingest__name_ends_in(const char *name, const char *ending) {
    size_t size = strlen(name), ending_size = strlen(ending);
    return size >= ending_size && strcasecmp(name + size - ending_size, ending) == 0;
}

ssize_t weir_ingest__file_head(const weir_env *env, const char *path, void *out, size_t size) {
    int file = env->open(env->context, path, O_RDONLY, 0);
    if (file < 0)
        return -1;
    ssize_t got = env->read(env->context, file, out, size);
    env->close(env->context, file);
    return got;
}

uint64_t weir_ingest__file_size(const weir_env *env, const char *path) {
    uint64_t size = 0;
    int file = env->open(env->context, path, O_RDONLY, 0);
    if (file < 0)
        return 0;
    if (env->size(env->context, file, &size) != 0)
        size = 0;
    env->close(env->context, file);
    return size;
}

weir_ingest__catalog_table *weir_ingest__catalog_add_table_of(weir_ingest__catalog *catalog,
                                                              const char *schema, const char *bare,
                                                              bool is_visible) {
    weir_ingest__catalog_table *table = weir_ingest__catalog_add_table(catalog, bare);
    weir_ingest__sql sql_name = {.env = catalog->memory.env};
    if (!table)
        return NULL;
    table->schema = copy(catalog, schema);
    table->bare = table->name;
    if (!is_visible)
        table->name = weir__arena_format(&catalog->memory, "%s.%s", schema, bare);
    table->is_hidden = !is_visible;
    weir_ingest__sql_add_identifier(&sql_name, schema);
    weir_ingest__sql_add(&sql_name, ".");
    weir_ingest__sql_add_identifier(&sql_name, bare);
    table->sql_name = weir_ingest__sql_keep(&sql_name, &catalog->memory);
    return catalog->memory.is_short ? NULL : table;
}

weir_ingest__catalog_column *weir_ingest__catalog_add_column(weir_ingest__catalog *catalog,
                                                             weir_ingest__catalog_table *table,
                                                             const char *name,
                                                             weir_ingest__declared declared) {
    weir_ingest__catalog_column *column =
        weir__arena_append(&catalog->memory, &table->columns, &table->column_count, sizeof *table->columns);
    if (column) {
        column->declared = declared;
        column->name = copy(catalog, name);
    }
    return catalog->memory.is_short ? NULL : column;
}

void weir_ingest__catalog_add_primary_key(weir_ingest__catalog *catalog, weir_ingest__catalog_table *table,
                                          uint32_t column) {
    assert(column < table->column_count && "a key of a column that is not there");
    uint32_t *added = weir__arena_append(&catalog->memory, &table->primary_key, &table->primary_key_count,
                                         sizeof *table->primary_key);
    if (added)
        *added = column;
}

weir_ingest__catalog_key *weir_ingest__catalog_add_foreign_key(weir_ingest__catalog *catalog,
                                                               weir_ingest__catalog_table *table,
                                                               const char *parent_table) {
    weir_ingest__catalog_key *key = weir__arena_append(
        &catalog->memory, &table->foreign_keys, &table->foreign_key_count, sizeof *table->foreign_keys);
    if (key)
        key->parent_table = copy(catalog, parent_table);
    return catalog->memory.is_short ? NULL : key;
}

static void add_parent_column(weir_ingest__catalog *catalog, weir_ingest__catalog_key *key,
                              const char *name) {
    char **added = weir__arena_append(&catalog->memory, &key->parent_columns, &key->parent_column_count,
                                      sizeof *key->parent_columns);
    if (added)
        *added = copy(catalog, name);
}

void weir_ingest__catalog_add_key_columns(weir_ingest__catalog *catalog, weir_ingest__catalog_key *key,
                                          uint32_t column, const char *parent_column) {
    uint32_t *added =
        weir__arena_append(&catalog->memory, &key->columns, &key->column_count, sizeof *key->columns);
    if (added)
        *added = column;
    if (parent_column)
        add_parent_column(catalog, key, parent_column);
}

void weir_ingest__catalog_add_skipped(weir_ingest__catalog *catalog, const char *path) {
    char **added = weir__arena_append(&catalog->memory, &catalog->skipped, &catalog->skipped_count,
                                      sizeof *catalog->skipped);
    if (added)
        *added = copy(catalog, path);
}

void weir_ingest__catalog_set_name(weir_ingest__catalog *catalog, const char *name) {
    catalog->name = copy(catalog, name);
}

void weir_ingest__catalog_set_file(weir_ingest__catalog *catalog, const char *path) {
    const char *name = weir_ingest__last_name(path), *dot = strrchr(name, '.');
    catalog->name =
        weir__arena_text(&catalog->memory, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
    catalog->size_bytes = weir_ingest__file_size(catalog->memory.env, path);
}

void weir_ingest__catalog_release(weir_ingest__catalog *catalog) {
    weir__arena_release(&catalog->memory);
    *catalog = (weir_ingest__catalog){0};
}

/* Whether a name is that of the schema, a dot, and the bare name. */
static bool is_full_name(const weir_ingest__catalog_table *table, const char *name) {
    size_t size = table->schema ? strlen(table->schema) : 0;
    return table->schema && strncmp(name, table->schema, size) == 0 && name[size] == '.' &&
           strcmp(name + size + 1, table->bare) == 0;
}

weir_ingest__catalog_table *weir_ingest__catalog_find_table(const weir_ingest__catalog *catalog,
                                                            const char *name, uint32_t *count) {
    weir_ingest__catalog_table *found = NULL;
    *count = 1;
    for (uint32_t i = 0; i < catalog->table_count; i++) {
        weir_ingest__catalog_table *table = &catalog->tables[i];
        bool is_bare = !table->bare || strcmp(table->bare, table->name) == 0;
        if (!table->is_given && is_bare && strcmp(table->name, name) == 0)
            return table;
    }
    *count = 0;
    for (uint32_t i = 0; i < catalog->table_count; i++)
        if (!catalog->tables[i].is_given && is_full_name(&catalog->tables[i], name)) {
            found = &catalog->tables[i];
            ++*count;
        }
    return *count == 1 ? found : NULL;
}

uint32_t weir_ingest__catalog_find_named(const weir_ingest__catalog_table *table, const char *name,
                                         int (*compare)(const char *a, const char *b)) {
    for (uint32_t i = 0; i < table->column_count; i++)
        if (compare(table->columns[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

uint32_t weir_ingest__catalog_find_column(const weir_ingest__catalog_table *table, const char *name) {
    return weir_ingest__catalog_find_named(table, name, strcmp);
}

bool weir_ingest__catalog_find_origin(const weir_ingest__catalog *catalog, const char *table,
                                      const char *column, int (*compare)(const char *a, const char *b),
                                      weir_ingest__origin *out) {
    for (uint32_t t = 0; table && column && t < catalog->table_count; t++) {
        const weir_ingest__catalog_table *found = &catalog->tables[t];
        if (found->query || found->is_view || compare(found->bare ? found->bare : found->name, table) != 0)
            continue;
        *out = (weir_ingest__origin){found, weir_ingest__catalog_find_named(found, column, compare)};
        return out->column != UINT32_MAX;
    }
    return false;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Whether a key leads to columns that are there. Table and columns take the spelling of the declaration. */
static bool resolve_key(weir_ingest__catalog *catalog, int (*compare)(const char *a, const char *b),
                        const weir_ingest__catalog_table *table, weir_ingest__catalog_key *key) {
    uint32_t t = 0;
    while (t < catalog->table_count && compare(catalog->tables[t].name, key->parent_table) != 0)
        t++;
    for (uint32_t i = 0; i < key->column_count; i++)
        if (key->columns[i] >= table->column_count)
            return false;
    if (t == catalog->table_count)
        return false;
    const weir_ingest__catalog_table *parent = &catalog->tables[t];
    for (uint32_t i = 0; key->parent_column_count == i && i < parent->primary_key_count; i++)
        add_parent_column(catalog, key, parent->columns[parent->primary_key[i]].name);
    if (key->column_count == 0 || key->parent_column_count != key->column_count || catalog->memory.is_short)
        return false;
    for (uint32_t i = 0; i < key->parent_column_count; i++) {
        uint32_t c = weir_ingest__catalog_find_named(parent, key->parent_columns[i], compare);
        if (c == UINT32_MAX)
            return false;
        key->parent_columns[i] = parent->columns[c].name;
    }
    key->parent_table = parent->name;
    return true;
}

/* By the columns' places, one after the other. */
static int compare_keys(const void *a, const void *b) {
    const weir_ingest__catalog_key *x = a, *y = b;
    for (uint32_t i = 0; i < x->column_count && i < y->column_count; i++)
        if (x->columns[i] != y->columns[i])
            return x->columns[i] < y->columns[i] ? -1 : 1;
    return x->column_count < y->column_count ? -1 : x->column_count > y->column_count;
}

static bool is_repeated(const weir_ingest__catalog_key *keys, uint32_t count,
                        const weir_ingest__catalog_key *key) {
    for (uint32_t i = 0; i < count; i++)
        if (compare_keys(&keys[i], key) == 0)
            return true;
    return false;
}

void weir_ingest__catalog_resolve_keys(weir_ingest__catalog *catalog,
                                       int (*compare)(const char *a, const char *b)) {
    for (uint32_t t = 0; t < catalog->table_count && !catalog->memory.is_short; t++) {
        weir_ingest__catalog_table *table = &catalog->tables[t];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < table->foreign_key_count; i++) {
            weir_ingest__catalog_key key = table->foreign_keys[i];
            if (resolve_key(catalog, compare, table, &key) && !is_repeated(table->foreign_keys, kept, &key))
                table->foreign_keys[kept++] = key;
        }
        table->foreign_key_count = kept;
        if (kept > 0)
            qsort(table->foreign_keys, kept, sizeof *table->foreign_keys, compare_keys);
    }
}

/* ---- For drafts ---------------------------------------------------------------------------------- */

static bool is_drafted(const weir_ingest__catalog *catalog, const char *name) {
    for (uint32_t t = 0; t < catalog->table_count; t++)
        if (!catalog->tables[t].is_hidden && strcmp(catalog->tables[t].name, name) == 0)
            return true;
    return false;
}

weir_status weir_ingest__catalog_keep_drafted(weir_ingest__catalog *catalog, weir_error *error) {
    uint32_t kept = 0;
    char schemas[200] = "";
    /* The schemas that have tables, "sales, hr", each once, cut where they are too many. */
    size_t used = 0;
    for (uint32_t t = 0; t < catalog->table_count && used < sizeof schemas; t++) {
        const char *schema = catalog->tables[t].is_view ? NULL : catalog->tables[t].schema;
        bool is_new = schema != NULL;
        for (uint32_t k = 0; k < t && is_new; k++)
            is_new = catalog->tables[k].is_view || strcmp(catalog->tables[k].schema, schema) != 0;
        if (is_new)
            used += (size_t)snprintf(schemas + used, sizeof schemas - used, "%s%s", used ? ", " : "", schema);
    }
    for (uint32_t t = 0; t < catalog->table_count; t++) {
        weir_ingest__catalog_table *table = &catalog->tables[t];
        uint32_t kept_keys = 0;
        for (uint32_t i = 0; i < table->foreign_key_count; i++)
            if (is_drafted(catalog, table->foreign_keys[i].parent_table))
                table->foreign_keys[kept_keys++] = table->foreign_keys[i];
        table->foreign_key_count = kept_keys;
    }
    for (uint32_t t = 0; t < catalog->table_count; t++)
        if (!catalog->tables[t].is_hidden)
            catalog->tables[kept++] = catalog->tables[t];
    catalog->table_count = kept;
    if (kept > 0)
        return WEIR_OK;
    if (*schemas)
        return WEIR_INGEST__SOURCE_ERROR(
            error,
            "the database %s has no tables on its search path, but some in other schemas: "
            "%s; name those to read with --pg-schema, or with search_path in the weir schema",
            catalog->name, schemas);
    return WEIR_INGEST__SOURCE_ERROR(error, "the database %s has no tables", catalog->name);
}
