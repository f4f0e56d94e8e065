/* The catalog that sources fill: tables, views, their columns and keys. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/source.h"
#include "ingest/sql.h"

/* Room for one more item in an array that grows by doubling; the new item is zeroed. NULL if memory is
 * short. */
static void *append(const weir_env *env, void **items, uint32_t *count, size_t item_size) {
    bool is_full = (*count & (*count - 1)) == 0; /* 0 and the powers of two */
    if (is_full) {
        size_t capacity = *count ? 2 * (size_t)*count : 1;
        void *grown = env->resize(env->context, *items, capacity * item_size);
        if (!grown)
            return NULL;
        *items = grown;
    }
    void *item = (char *)*items + (size_t)*count * item_size;
    memset(item, 0, item_size);
    ++*count;
    return item;
}

weir_ingest__catalog_table *weir_ingest__catalog_add_table(weir_ingest__catalog *catalog, const char *name) {
    void *items = catalog->tables;
    weir_ingest__catalog_table *table =
        append(catalog->env, &items, &catalog->table_count, sizeof *catalog->tables);
    catalog->tables = items;
    if (!table)
        return NULL;
    table->name = weir__copy_text(catalog->env, name, strlen(name));
    return table->name ? table : NULL;
}

weir_ingest__catalog_table *weir_ingest__catalog_add_numbered(weir_ingest__catalog *catalog, const char *name,
                                                              uint32_t number) {
    weir_ingest__catalog_table *table = weir_ingest__catalog_add_table(catalog, name);
    uint32_t *detail = table ? weir__allocate(catalog->env, 1, sizeof *detail) : NULL;
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

char *weir_ingest__file_stem(const weir_env *env, const char *path) {
    const char *name = weir_ingest__last_name(path);
    const char *dot = strrchr(name, '.');
    return weir__copy_text(env, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
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
    weir_ingest__sql name = {.env = catalog->env}, sql_name = {.env = catalog->env};
    if (!is_visible)
        weir_ingest__sql_add(&name, "%s.", schema);
    weir_ingest__sql_add(&name, "%s", bare);
    weir_ingest__sql_add_identifier(&sql_name, schema);
    weir_ingest__sql_add(&sql_name, ".");
    weir_ingest__sql_add_identifier(&sql_name, bare);
    weir_ingest__catalog_table *table =
        name.failed || sql_name.failed ? NULL : weir_ingest__catalog_add_table(catalog, name.data);
    weir_ingest__sql_release(&name);
    if (!table) {
        weir_ingest__sql_release(&sql_name);
        return NULL;
    }
    table->sql_name = sql_name.data;
    table->is_hidden = !is_visible;
    table->schema = weir__copy_text(catalog->env, schema, strlen(schema));
    table->bare = weir__copy_text(catalog->env, bare, strlen(bare));
    return table->schema && table->bare ? table : NULL;
}

weir_ingest__catalog_column *weir_ingest__catalog_add_column(weir_ingest__catalog *catalog,
                                                             weir_ingest__catalog_table *table,
                                                             const char *name,
                                                             weir_ingest__declared declared) {
    void *items = table->columns;
    weir_ingest__catalog_column *column =
        append(catalog->env, &items, &table->column_count, sizeof *table->columns);
    table->columns = items;
    if (!column)
        return NULL;
    column->declared = declared;
    column->name = weir__copy_text(catalog->env, name, strlen(name));
    return column->name ? column : NULL;
}

bool weir_ingest__catalog_add_primary_key(weir_ingest__catalog *catalog, weir_ingest__catalog_table *table,
                                          uint32_t column) {
    assert(column < table->column_count && "a key of a column that is not there");
    void *items = table->primary_key;
    uint32_t *added = append(catalog->env, &items, &table->primary_key_count, sizeof *table->primary_key);
    table->primary_key = items;
    if (added)
        *added = column;
    return added != NULL;
}

weir_ingest__catalog_key *weir_ingest__catalog_add_foreign_key(weir_ingest__catalog *catalog,
                                                               weir_ingest__catalog_table *table,
                                                               const char *parent_table) {
    void *items = table->foreign_keys;
    weir_ingest__catalog_key *key =
        append(catalog->env, &items, &table->foreign_key_count, sizeof *table->foreign_keys);
    table->foreign_keys = items;
    if (!key)
        return NULL;
    key->parent_table = weir__copy_text(catalog->env, parent_table, strlen(parent_table));
    return key->parent_table ? key : NULL;
}

static bool add_parent_column(weir_ingest__catalog *catalog, weir_ingest__catalog_key *key,
                              const char *name) {
    void *items = key->parent_columns;
    char **added = append(catalog->env, &items, &key->parent_column_count, sizeof *key->parent_columns);
    key->parent_columns = items;
    if (added)
        *added = weir__copy_text(catalog->env, name, strlen(name));
    return added && *added;
}

bool weir_ingest__catalog_add_key_columns(weir_ingest__catalog *catalog, weir_ingest__catalog_key *key,
                                          uint32_t column, const char *parent_column) {
    void *items = key->columns;
    uint32_t *added = append(catalog->env, &items, &key->column_count, sizeof *key->columns);
    key->columns = items;
    if (!added)
        return false;
    *added = column;
    return !parent_column || add_parent_column(catalog, key, parent_column);
}

bool weir_ingest__catalog_add_skipped(weir_ingest__catalog *catalog, const char *path) {
    void *items = catalog->skipped;
    char **added = append(catalog->env, &items, &catalog->skipped_count, sizeof *catalog->skipped);
    catalog->skipped = items;
    if (added)
        *added = weir__copy_text(catalog->env, path, strlen(path));
    return added && *added;
}

static void release_key(const weir_env *env, weir_ingest__catalog_key *key) {
    for (uint32_t i = 0; i < key->parent_column_count; i++)
        weir__release(env, key->parent_columns[i]);
    weir__release(env, key->parent_columns);
    weir__release(env, key->columns);
    weir__release(env, key->parent_table);
}

static void release_table(const weir_env *env, weir_ingest__catalog_table *table) {
    for (uint32_t i = 0; i < table->column_count; i++)
        weir__release(env, table->columns[i].name);
    for (uint32_t i = 0; i < table->foreign_key_count; i++)
        release_key(env, &table->foreign_keys[i]);
    weir__release(env, table->columns);
    weir__release(env, table->primary_key);
    weir__release(env, table->foreign_keys);
    weir__release(env, table->detail);
    weir__release(env, table->schema);
    weir__release(env, table->bare);
    weir__release(env, table->sql_name);
    weir__release(env, table->query);
    weir__release(env, table->name);
}

void weir_ingest__catalog_release(weir_ingest__catalog *catalog) {
    if (!catalog->env)
        return;
    for (uint32_t i = 0; i < catalog->table_count; i++)
        release_table(catalog->env, &catalog->tables[i]);
    for (uint32_t i = 0; i < catalog->skipped_count; i++)
        weir__release(catalog->env, catalog->skipped[i]);
    weir__release(catalog->env, catalog->skipped);
    weir__release(catalog->env, catalog->tables);
    weir__release(catalog->env, catalog->name);
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

uint32_t weir_ingest__catalog_find_column(const weir_ingest__catalog_table *table, const char *name) {
    for (uint32_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return i;
    return UINT32_MAX;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

typedef struct key_resolver {
    weir_ingest__catalog *catalog;
    int (*compare)(const char *a, const char *b);
    bool is_short_of_memory;
} key_resolver;

static void respell(key_resolver *r, char **name, const char *spelling) {
    char *copy = weir__copy_text(r->catalog->env, spelling, strlen(spelling));
    r->is_short_of_memory = r->is_short_of_memory || !copy;
    if (!copy)
        return;
    weir__release(r->catalog->env, *name);
    *name = copy;
}

static const weir_ingest__catalog_table *find_parent(const key_resolver *r, const char *name) {
    for (uint32_t i = 0; i < r->catalog->table_count; i++)
        if (r->compare(r->catalog->tables[i].name, name) == 0)
            return &r->catalog->tables[i];
    return NULL;
}

/* Whether a key leads to columns that are there. Table and columns take the spelling of the declaration. */
static bool resolve_key(key_resolver *r, const weir_ingest__catalog_table *table,
                        weir_ingest__catalog_key *key) {
    const weir_ingest__catalog_table *parent = find_parent(r, key->parent_table);
    for (uint32_t i = 0; i < key->column_count; i++)
        if (key->columns[i] >= table->column_count)
            return false;
    if (!parent)
        return false;
    for (uint32_t i = 0; key->parent_column_count == i && i < parent->primary_key_count; i++)
        if (!add_parent_column(r->catalog, key, parent->columns[parent->primary_key[i]].name))
            r->is_short_of_memory = true;
    bool is_there = key->column_count > 0 && key->parent_column_count == key->column_count;
    for (uint32_t i = 0; i < key->parent_column_count && is_there; i++) {
        uint32_t c = 0;
        while (c < parent->column_count && r->compare(parent->columns[c].name, key->parent_columns[i]) != 0)
            c++;
        is_there = c < parent->column_count;
        if (is_there)
            respell(r, &key->parent_columns[i], parent->columns[c].name);
    }
    if (is_there)
        respell(r, &key->parent_table, parent->name);
    return is_there && !r->is_short_of_memory;
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

weir_status weir_ingest__catalog_resolve_keys(weir_ingest__catalog *catalog,
                                              int (*compare)(const char *a, const char *b),
                                              weir_error *error) {
    key_resolver r = {.catalog = catalog, .compare = compare};
    for (uint32_t t = 0; t < catalog->table_count; t++) {
        weir_ingest__catalog_table *table = &catalog->tables[t];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < table->foreign_key_count; i++) {
            weir_ingest__catalog_key key = table->foreign_keys[i];
            if (resolve_key(&r, table, &key) && !is_repeated(table->foreign_keys, kept, &key))
                table->foreign_keys[kept++] = key;
            else
                release_key(catalog->env, &key);
        }
        table->foreign_key_count = kept;
        if (kept > 0)
            qsort(table->foreign_keys, kept, sizeof *table->foreign_keys, compare_keys);
    }
    return r.is_short_of_memory ? weir_ingest__source_no_memory(error, 1) : WEIR_OK;
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
            else
                release_key(catalog->env, &table->foreign_keys[i]);
        table->foreign_key_count = kept_keys;
    }
    for (uint32_t t = 0; t < catalog->table_count; t++)
        if (catalog->tables[t].is_hidden)
            release_table(catalog->env, &catalog->tables[t]);
        else
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
