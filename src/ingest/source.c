/* The list of sources, and the catalog that they fill. */
#include <fcntl.h>
#include <string.h>

#include "ingest/source.h"

static const weir__source_kind *const kinds[] = {
    &weir__source_postgres,
    &weir__source_duckdb,
    &weir__source_sqlite,
};

/* Reading the beginning of a pipe or a device would wait for ever, or take what cannot be given back. */
static bool is_stream(const weir_env *env, const char *location) {
    weir_file_info info;
    int file = env->open(env->context, location, O_RDONLY | O_NONBLOCK, 0);
    if (file < 0)
        return false;
    bool is_other = env->inspect(env->context, file, location, &info) == 0 && info.kind == WEIR_FILE_OTHER;
    env->close(env->context, file);
    return is_other;
}

weir_status weir__source_open(const weir_env *env, const char *location, weir__source **out,
                              weir_error *error) {
    *out = NULL;
    if (is_stream(env, location))
        return weir__fail(error, WEIR_SOURCE_ERROR, WEIR__SOURCE_OPERATOR,
                          "%s is a device or a pipe, not a database; give the path of a file", location);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!kinds[i]->accepts(env, location))
            continue;
        weir_status status = kinds[i]->open(env, location, out, error);
        if (status == WEIR_OK)
            (*out)->silence_ns = WEIR__SOURCE_SILENCE_NS;
        return status;
    }
    return weir__fail(error, WEIR_SOURCE_ERROR, WEIR__SOURCE_OPERATOR,
                      "%s is no source that weir reads: give the path of an existing database", location);
}

void weir__source_close(weir__source *source) {
    if (source)
        source->kind->close(source);
}

/* ---- The catalog ----------------------------------------------------------------------------- */

/* Room for one more item in an array that grows by doubling; the new item is zeroed. NULL where memory is
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

weir__catalog_table *weir__catalog_add_table(weir__catalog *catalog, const char *name) {
    void *items = catalog->tables;
    weir__catalog_table *table = append(catalog->env, &items, &catalog->table_count, sizeof *catalog->tables);
    catalog->tables = items;
    if (!table)
        return NULL;
    table->name = weir__copy_text(catalog->env, name, strlen(name));
    return table->name ? table : NULL;
}

weir__catalog_column *weir__catalog_add_column(weir__catalog *catalog, weir__catalog_table *table,
                                               const char *name, weir__declared declared) {
    void *items = table->columns;
    weir__catalog_column *column = append(catalog->env, &items, &table->column_count, sizeof *table->columns);
    table->columns = items;
    if (!column)
        return NULL;
    column->declared = declared;
    column->name = weir__copy_text(catalog->env, name, strlen(name));
    return column->name ? column : NULL;
}

bool weir__catalog_add_primary_key(weir__catalog *catalog, weir__catalog_table *table, uint32_t column) {
    void *items = table->primary_key;
    uint32_t *added = append(catalog->env, &items, &table->primary_key_count, sizeof *table->primary_key);
    table->primary_key = items;
    if (added)
        *added = column;
    return added != NULL;
}

weir__catalog_key *weir__catalog_add_foreign_key(weir__catalog *catalog, weir__catalog_table *table,
                                                 uint32_t column, const char *parent_table,
                                                 const char *parent_column) {
    void *items = table->foreign_keys;
    weir__catalog_key *key =
        append(catalog->env, &items, &table->foreign_key_count, sizeof *table->foreign_keys);
    table->foreign_keys = items;
    if (!key)
        return NULL;
    key->column = column;
    key->parent_table = weir__copy_text(catalog->env, parent_table, strlen(parent_table));
    if (parent_column)
        key->parent_column = weir__copy_text(catalog->env, parent_column, strlen(parent_column));
    return key->parent_table && (!parent_column || key->parent_column) ? key : NULL;
}

static void release_key(const weir_env *env, weir__catalog_key *key) {
    weir__release(env, key->parent_table);
    weir__release(env, key->parent_column);
}

static void release_table(const weir_env *env, weir__catalog_table *table) {
    for (uint32_t i = 0; i < table->column_count; i++)
        weir__release(env, table->columns[i].name);
    for (uint32_t i = 0; i < table->foreign_key_count; i++)
        release_key(env, &table->foreign_keys[i]);
    weir__release(env, table->columns);
    weir__release(env, table->primary_key);
    weir__release(env, table->foreign_keys);
    weir__release(env, table->detail);
    weir__release(env, table->name);
}

void weir__catalog_release(weir__catalog *catalog) {
    if (!catalog->env)
        return;
    for (uint32_t i = 0; i < catalog->table_count; i++)
        release_table(catalog->env, &catalog->tables[i]);
    weir__release(catalog->env, catalog->tables);
    weir__release(catalog->env, catalog->name);
    *catalog = (weir__catalog){0};
}

static const weir__catalog_table *find_table(const weir__catalog *catalog, const char *name) {
    for (uint32_t i = 0; i < catalog->table_count; i++)
        if (strcmp(catalog->tables[i].name, name) == 0)
            return &catalog->tables[i];
    return NULL;
}

static bool has_column(const weir__catalog_table *table, const char *name) {
    for (uint32_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return true;
    return false;
}

/* Whether a key leads to a column that is there; fills in the parent's primary key where it names none. */
static bool resolve_key(const weir__catalog *catalog, weir__catalog_key *key, bool *is_short_of_memory) {
    const weir__catalog_table *parent = find_table(catalog, key->parent_table);
    if (!parent)
        return false;
    if (!key->parent_column && parent->primary_key_count == 1) {
        const char *name = parent->columns[parent->primary_key[0]].name;
        key->parent_column = weir__copy_text(catalog->env, name, strlen(name));
        *is_short_of_memory = !key->parent_column;
    }
    return key->parent_column && has_column(parent, key->parent_column);
}

weir_status weir__catalog_resolve_keys(weir__catalog *catalog, weir_error *error) {
    bool is_short_of_memory = false;
    for (uint32_t t = 0; t < catalog->table_count; t++) {
        weir__catalog_table *table = &catalog->tables[t];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < table->foreign_key_count; i++) {
            weir__catalog_key *key = &table->foreign_keys[i];
            if (resolve_key(catalog, key, &is_short_of_memory))
                table->foreign_keys[kept++] = *key;
            else
                release_key(catalog->env, key);
            if (is_short_of_memory)
                break;
        }
        table->foreign_key_count = is_short_of_memory ? 0 : kept;
        if (is_short_of_memory)
            return weir__out_of_memory(error, WEIR__SOURCE_OPERATOR, 1);
    }
    return WEIR_OK;
}
