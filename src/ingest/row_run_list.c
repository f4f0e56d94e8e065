/* The list of a folder of runs: JSON, read strictly, into structs of one arena. What it says of files is
 * compared with them later (row_run_read.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ingest/row_run.h"

enum { LIST_SIZE_MAX = 1 << 28, PATH_SIZE_MAX = 200, COLUMNS_MAX = 1 << 15, QUERIES_MAX = 1 << 12 };

typedef struct list_reader {
    weir_ingest__run_list *list;
    const char *path;
    weir_error *error;
} list_reader;

static weir_status refuse(const list_reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static weir_status refuse(const list_reader *r, const char *format, ...) {
    char what[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return weir__fail(r->error, WEIR_SOURCE_ERROR, WEIR_INGEST__SOURCE_OPERATOR,
                      "%s is not a list of " WEIR_INGEST__RUN_FORMAT ": %s", r->path, what);
}

static weir_status no_memory(const list_reader *r) {
    return weir__out_of_memory(r->error, WEIR_INGEST__SOURCE_OPERATOR, 1);
}

/* Zeroed memory of the list for a list of JSON's. */
static void *take(const list_reader *r, uint64_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return weir__arena_take_zero(&r->list->arena, (size_t)count + 1, size);
}

/* A text that is not empty, as a string of the list. */
static weir_status read_text(const list_reader *r, const weir_cbor_value *value, const char *what,
                             const char **out) {
    if (value->type != WEIR_CBOR_TEXT || value->number == 0)
        return refuse(r, "%s must be a text that is not empty", what);
    *out = weir__arena_text(&r->list->arena, (const char *)value->data, (size_t)value->number);
    return *out ? WEIR_OK : no_memory(r);
}

/* The members of an object, which are these and no others; those after `needed` may be missing, and are then
 * null. */
static weir_status read_members(const list_reader *r, const weir_cbor_value *object, const char *what,
                                const char *const *names, size_t count, size_t needed, weir_cbor_value *out) {
    size_t found = 0;
    if (object->type != WEIR_CBOR_MAP)
        return refuse(r, "%s must be an object", what);
    for (size_t i = 0; i < count; i++) {
        bool is_there = weir_cbor_get(object, names[i], &out[i]);
        found += is_there;
        if (!is_there && i < needed)
            return refuse(r, "%s has no \"%s\"", what, names[i]);
        if (!is_there)
            out[i] = (weir_cbor_value){.type = WEIR_CBOR_NULL};
    }
    return found == object->number ? WEIR_OK : refuse(r, "%s has keys that are not known", what);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static weir_status read_columns(const list_reader *r, const weir_cbor_value *from,
                                weir_ingest__run_table *table) {
    weir_cbor_value pair, parts[2];
    if (from->type != WEIR_CBOR_ARRAY || from->number == 0 || from->number > COLUMNS_MAX)
        return refuse(r, "table %s must have a list of 1 to %d columns", table->name, COLUMNS_MAX);
    table->columns = take(r, from->number, sizeof *table->columns);
    if (!table->columns)
        return no_memory(r);
    weir_cbor_iterator it = weir_cbor_children(from);
    while (weir_cbor_next(&it, NULL, &pair)) {
        weir_ingest__catalog_column *column = &table->columns[table->column_count];
        const char *name = NULL;
        if (pair.type != WEIR_CBOR_ARRAY || pair.number != 2)
            return refuse(r, "a column of table %s must be [name, type]", table->name);
        weir_cbor_iterator of_pair = weir_cbor_children(&pair);
        for (int i = 0; i < 2; i++)
            (void)weir_cbor_next(&of_pair, NULL, &parts[i]);
        WEIR__TRY(read_text(r, &parts[0], "the name of a column", &name));
        if (!weir_ingest__run_type_read(&parts[1], column))
            return refuse(r, "table %s, column %s has a type that is not known", table->name, name);
        for (uint32_t i = 0; i < table->column_count; i++)
            if (strcmp(table->columns[i].name, name) == 0)
                return refuse(r, "table %s has column %s twice", table->name, name);
        column->name = (char *)name;
        table->column_count++;
    }
    return WEIR_OK;
}

static weir_status read_key(const list_reader *r, const weir_cbor_value *from,
                            weir_ingest__run_table *table) {
    weir_cbor_value name;
    if (from->type != WEIR_CBOR_ARRAY || from->number > table->column_count)
        return refuse(r, "the key of table %s must be a list of its columns", table->name);
    table->key = take(r, from->number, sizeof *table->key);
    if (!table->key)
        return no_memory(r);
    weir_cbor_iterator it = weir_cbor_children(from);
    while (weir_cbor_next(&it, NULL, &name)) {
        uint32_t found = 0;
        while (found < table->column_count && !weir_cbor_is_text(&name, table->columns[found].name))
            found++;
        for (uint32_t i = 0; i < table->key_count; i++)
            if (table->key[i] == found)
                found = table->column_count;
        if (found == table->column_count)
            return refuse(r, "the key of table %s must be a list of its columns, none twice", table->name);
        table->key[table->key_count++] = found;
    }
    return WEIR_OK;
}

static bool is_file_name(const char *name) {
    size_t size = strlen(name);
    return size <= PATH_SIZE_MAX && name[0] != '.' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == size;
}

static weir_status read_file(const list_reader *r, const weir_cbor_value *from,
                             const weir_ingest__run_table *table, weir_ingest__run_file *out) {
    static const char *const names[] = {"path", "rows", "size", "hash"};
    enum { MEMBERS = sizeof names / sizeof *names };
    weir_cbor_value members[MEMBERS];
    WEIR__TRY(read_members(r, from, "a file", names, MEMBERS, MEMBERS, members));
    WEIR__TRY(read_text(r, &members[0], "the path of a file", &out->path));
    if (!is_file_name(out->path))
        return refuse(r, "table %s has a file %.220s, which is not the name of a file in the folder",
                      table->name, out->path);
    if (members[1].type != WEIR_CBOR_UINT || members[2].type != WEIR_CBOR_UINT ||
        members[1].number > INT64_MAX || members[2].number > INT64_MAX)
        return refuse(r, "file %s must have rows and a size", out->path);
    out->said.rows = members[1].number;
    out->said.size = members[2].number;
    if (members[3].type != WEIR_CBOR_TEXT ||
        !weir__hex_decode((const char *)members[3].data, (size_t)members[3].number, out->said.hash,
                          sizeof out->said.hash))
        return refuse(r, "file %s must have a hash of 64 hex digits", out->path);
    return WEIR_OK;
}

static weir_status read_files(const list_reader *r, const weir_cbor_value *from,
                              weir_ingest__run_table *table) {
    weir_cbor_value file;
    if (from->type != WEIR_CBOR_ARRAY || from->number > INT32_MAX)
        return refuse(r, "the files of table %s must be a list", table->name);
    table->files = take(r, from->number, sizeof *table->files);
    if (!table->files)
        return no_memory(r);
    weir_cbor_iterator it = weir_cbor_children(from);
    while (weir_cbor_next(&it, NULL, &file))
        WEIR__TRY(read_file(r, &file, table, &table->files[table->file_count++]));
    return WEIR_OK;
}

/* What ingest notes of rows that it keeps (docs/spec/09b-growing-data.md). */
static weir_status read_latest(const list_reader *r, const weir_cbor_value *from,
                               weir_ingest__run_table *table) {
    static const char *const names[] = {"column", "value"};
    weir_cbor_value members[2];
    WEIR__TRY(read_members(r, from, "latest", names, 2, 2, members));
    while (table->latest_column < table->column_count &&
           !weir_cbor_is_text(&members[0], table->columns[table->latest_column].name))
        table->latest_column++;
    weir_ingest__value *value = &table->latest;
    if (table->latest_column == table->column_count || !weir_ingest__run_read_value(&members[1], value) ||
        !weir_ingest__run_can_be_latest(value))
        return refuse(r, "the latest of table %s must be a value of one of its columns", table->name);
    table->has_latest = true;
    if (value->type != WEIR_INGEST__TEXT)
        return WEIR_OK;
    value->text.data = weir__arena_text(&r->list->arena, value->text.data, value->text.size);
    return value->text.data ? WEIR_OK : no_memory(r);
}

static weir_status read_table(const list_reader *r, const weir_cbor_value *name, const weir_cbor_value *from,
                              bool is_query, weir_ingest__run_table *out) {
    const char *const names[] = {"columns", "key", "files", is_query ? "sql" : "latest"};
    weir_cbor_value members[4];
    WEIR__TRY(read_text(r, name, "the name of a table or query", &out->name));
    WEIR__TRY(read_members(r, from, is_query ? "a query" : "a table", names, 4, is_query ? 4 : 3, members));
    WEIR__TRY(is_query ? read_text(r, &members[3], "the sql of a query", &out->sql) : WEIR_OK);
    WEIR__TRY(read_columns(r, &members[0], out));
    WEIR__TRY(read_key(r, &members[1], out));
    if (!is_query && members[3].type != WEIR_CBOR_NULL)
        WEIR__TRY(read_latest(r, &members[3], out));
    return read_files(r, &members[2], out);
}

static weir_status read_tables(const list_reader *r, const weir_cbor_value *from, bool is_query) {
    weir_ingest__run_list *list = r->list;
    weir_cbor_value name, value;
    weir_cbor_iterator it = weir_cbor_children(from);
    while (weir_cbor_next(&it, &name, &value)) {
        weir_ingest__run_table *table = &list->tables[list->table_count++];
        WEIR__TRY(read_table(r, &name, &value, is_query, table));
        for (const weir_ingest__run_table *other = list->tables; table->sql && other < table; other++)
            if (other->sql && strcmp(other->sql, table->sql) == 0)
                return refuse(r, "queries %s and %s have the same sql", other->name, table->name);
    }
    return WEIR_OK;
}

/* ---- The list -------------------------------------------------------------------------------- */

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A file that is named twice would give its rows twice. */
static weir_status check_files(const list_reader *r) {
    const weir_ingest__run_list *list = r->list;
    size_t count = 0, used = 0;
    for (uint32_t t = 0; t < list->table_count; t++)
        count += list->tables[t].file_count;
    const char **names = take(r, count, sizeof *names);
    if (!names)
        return no_memory(r);
    for (uint32_t t = 0; t < list->table_count; t++)
        for (uint32_t f = 0; f < list->tables[t].file_count; f++)
            names[used++] = list->tables[t].files[f].path;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return refuse(r, "file %s is named twice", names[i]);
    return WEIR_OK;
}

static weir_status read_store(const list_reader *r, const weir_cbor_value *from) {
    weir_ingest__run_list *list = r->list;
    list->has_store = from->type != WEIR_CBOR_NULL;
    if (list->has_store &&
        (from->type != WEIR_CBOR_TEXT ||
         !weir__hex_decode((const char *)from->data, (size_t)from->number, list->store, sizeof list->store)))
        return refuse(r, "its store must be a hash of 64 hex digits");
    return WEIR_OK;
}

static weir_status read_document(const list_reader *r, const weir_cbor_value *document) {
    static const char *const names[] = {"format", "name", "tables", "queries", "store"};
    weir_cbor_value members[5];
    weir_ingest__run_list *list = r->list;
    if (document->type == WEIR_CBOR_MAP && weir_cbor_get(document, "format", &members[0]) &&
        !weir_cbor_is_text(&members[0], WEIR_INGEST__RUN_FORMAT))
        return refuse(r, "its format is another one");
    WEIR__TRY(read_members(r, document, "it", names, 5, 3, members));
    WEIR__TRY(read_text(r, &members[1], "its name", &list->name));
    WEIR__TRY(read_store(r, &members[4]));
    bool has_queries = members[3].type != WEIR_CBOR_NULL;
    if (members[2].type != WEIR_CBOR_MAP || (has_queries && members[3].type != WEIR_CBOR_MAP))
        return refuse(r, "tables and queries must be objects");
    if (members[2].number == 0)
        return refuse(r, "it has no tables");
    if (has_queries && members[3].number > QUERIES_MAX)
        return refuse(r, "it has more than %d queries", QUERIES_MAX);
    uint64_t count = members[2].number + (has_queries ? members[3].number : 0);
    list->tables = take(r, count, sizeof *list->tables);
    if (!list->tables)
        return no_memory(r);
    WEIR__TRY(read_tables(r, &members[2], false));
    WEIR__TRY(has_queries ? read_tables(r, &members[3], true) : WEIR_OK);
    return check_files(r);
}

/* The list is written last. */
static weir_status check_complete(const weir_env *env, const char *folder, const char *path,
                                  weir_error *error) {
    int file = env->open(env->context, path, O_RDONLY | O_NONBLOCK, 0);
    if (file < 0 && errno == ENOENT)
        return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__SOURCE_OPERATOR,
                          "%s has no %s, which is written last: the runs are not complete; write them again",
                          folder, WEIR_ROW_RUN_LIST);
    if (file >= 0)
        env->close(env->context, file);
    return WEIR_OK;
}

weir_status weir_ingest__run_list_open(weir_ingest__run_list *list, const weir_env *env, const char *folder,
                                       weir_error *error) {
    uint8_t *text = NULL;
    size_t size = 0;
    weir_cbor_writer w;
    *list = (weir_ingest__run_list){.folder = folder};
    weir__arena_init(&list->arena, env);
    char *path = weir__arena_take(&list->arena, strlen(folder) + sizeof WEIR_ROW_RUN_LIST + 1);
    if (!path)
        return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, strlen(folder));
    sprintf(path, "%s/%s", folder, WEIR_ROW_RUN_LIST);
    list_reader r = {list, path, error};
    WEIR__TRY(check_complete(env, folder, path, error));
    WEIR__TRY(weir__file_read(env, path, LIST_SIZE_MAX, &text, &size, WEIR_INGEST__SOURCE_OPERATOR, error));
    weir_cbor_writer_memory(&w, env);
    weir_status status = weir_json_read((const char *)text, size, path, WEIR_SOURCE_ERROR, &w, error);
    weir__release(env, text);
    if (status == WEIR_OK) {
        weir_cbor_value document = weir_cbor_view(w.data);
        status = read_document(&r, &document);
    }
    weir_cbor_release(&w);
    return status;
}

void weir_ingest__run_list_release(weir_ingest__run_list *list) {
    weir__arena_release(&list->arena);
    *list = (weir_ingest__run_list){0};
}
