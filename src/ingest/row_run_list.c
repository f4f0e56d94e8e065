/* The list of a folder of runs: JSON, read strictly, into structs of one arena. What it says of files is
 * compared with them later (row_run_read.c). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fields.h"
#include "base/file.h"
#include "ingest/row_run.h"

enum { LIST_SIZE_MAX = 1 << 28, PATH_SIZE_MAX = 200, COLUMNS_MAX = 1 << 15, QUERIES_MAX = 1 << 12 };

/* ---- Files ----------------------------------------------------------------------------------- */

/* A hash as hex digits. */
static weir_status read_hash(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                             void *object) {
    if (value->type == WEIR_CBOR_TEXT && weir__hex_decode((const char *)value->data, (size_t)value->number,
                                                          (uint8_t *)object + field->offset, field->size))
        return WEIR_OK;
    return weir__refuse(r, field->name, "must be a hash of %zu hex digits", 2 * field->size);
}

static weir_status check_file(weir__reader *r, void *object) {
    const char *name = ((const weir_ingest__run_file *)object)->path;
    size_t size = strlen(name);
    if (size <= PATH_SIZE_MAX && name[0] != '.' &&
        strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == size)
        return WEIR_OK;
    return weir__refuse(r, "path", "is %.220s, which is not the name of a file in the folder", name);
}

static const weir__field file_fields[] = {
    {"path", WEIR__TEXT(weir_ingest__run_file, path), .least = 1, .flags = WEIR__REQUIRED},
    {"rows", WEIR__UINT(weir_ingest__run_file, said.rows, 0, INT64_MAX), .flags = WEIR__REQUIRED},
    {"size", WEIR__UINT(weir_ingest__run_file, said.size, 0, INT64_MAX), .flags = WEIR__REQUIRED},
    {"hash", WEIR__BYTES(weir_ingest__run_file, said.hash), .read = read_hash, .flags = WEIR__REQUIRED},
};
static const weir__shape file_shape = WEIR__SHAPE(weir_ingest__run_file, file_fields, .check = check_file);

/* ---- Tables ---------------------------------------------------------------------------------- */

static weir_status read_columns(weir__reader *r, const weir__field *field, const weir_cbor_value *from,
                                void *object) {
    weir_ingest__run_table *table = object;
    weir_cbor_value pair, name, type;
    const char *text;
    if (from->type != WEIR_CBOR_ARRAY || from->number == 0 || from->number > COLUMNS_MAX)
        return weir__refuse(r, field->name, "must be a list of 1 to %d columns", COLUMNS_MAX);
    WEIR__TRY(weir__reader_take(r, (size_t)from->number, sizeof *table->columns, &table->columns));
    size_t outer = weir__enter(r, field->name, strlen(field->name));
    weir_cbor_iterator it = weir_cbor_children(from);
    while (weir_cbor_next(&it, NULL, &pair)) {
        size_t inner = weir__enter_item(r, table->column_count);
        weir_ingest__catalog_column *column = &table->columns[table->column_count];
        weir_cbor_iterator of_pair = weir_cbor_children(&pair);
        if (pair.type != WEIR_CBOR_ARRAY || pair.number != 2 || !weir_cbor_next(&of_pair, NULL, &name) ||
            !weir_cbor_next(&of_pair, NULL, &type) || name.type != WEIR_CBOR_TEXT || name.number == 0 ||
            memchr(name.data, 0, (size_t)name.number))
            return weir__refuse(r, NULL, "must be [name, type]");
        WEIR__TRY(weir__reader_copy(r, &name, &text));
        column->name = (char *)text;
        if (!weir_ingest__run_type_read(&type, column))
            return weir__refuse(r, NULL, "has a type that is not known: column %s", column->name);
        for (uint32_t i = 0; i < table->column_count; i++)
            if (strcmp(table->columns[i].name, column->name) == 0)
                return weir__refuse(r, NULL, "has a name that another has too: column %s", column->name);
        table->column_count++;
        weir__leave(r, inner);
    }
    weir__leave(r, outer);
    return WEIR_OK;
}

/* After the columns, which it names. */
static weir_status read_key(weir__reader *r, const weir__field *field, const weir_cbor_value *from,
                            void *object) {
    weir_ingest__run_table *table = object;
    weir_cbor_value name;
    bool is_good = from->type == WEIR_CBOR_ARRAY && from->number <= table->column_count;
    if (is_good)
        WEIR__TRY(weir__reader_take(r, (size_t)from->number, sizeof *table->key, &table->key));
    weir_cbor_iterator it = weir_cbor_children(from);
    while (is_good && weir_cbor_next(&it, NULL, &name)) {
        uint32_t found = 0;
        while (found < table->column_count && !weir_cbor_is_text(&name, table->columns[found].name))
            found++;
        is_good = found < table->column_count;
        for (uint32_t i = 0; i < table->key_count; i++)
            is_good = is_good && table->key[i] != found;
        table->key[table->key_count++] = found;
    }
    return is_good ? WEIR_OK
                   : weir__refuse(r, field->name, "must be a list of the table's columns, none twice");
}

typedef struct latest_document {
    weir_text column;
    weir_cbor_value value;
} latest_document;

static const weir__field latest_fields[] = {
    {"column", WEIR__VIEW(latest_document, column), .flags = WEIR__REQUIRED},
    {"value", WEIR__VALUE(latest_document, value), .flags = WEIR__REQUIRED},
};
static const weir__shape latest_shape = WEIR__SHAPE(latest_document, latest_fields);

/* What ingest notes of rows that it keeps (docs/spec/09b-growing-data.md); after the columns. */
static weir_status read_latest(weir__reader *r, const weir__field *field, const weir_cbor_value *from,
                               void *object) {
    weir_ingest__run_table *table = object;
    weir_ingest__value *value = &table->latest;
    latest_document latest = {0};
    size_t outer = weir__enter(r, field->name, strlen(field->name));
    WEIR__TRY(weir__read(r, from, &latest_shape, &latest));
    weir__leave(r, outer);
    for (; table->latest_column < table->column_count; table->latest_column++) {
        const char *name = table->columns[table->latest_column].name;
        if (strlen(name) == latest.column.size && memcmp(name, latest.column.data, latest.column.size) == 0)
            break;
    }
    if (table->latest_column == table->column_count || !weir_ingest__run_read_value(&latest.value, value) ||
        !weir_ingest__run_can_be_latest(value))
        return weir__refuse(r, field->name, "must be a value of one of the table's columns");
    return value->type == WEIR_INGEST__TEXT ? weir__reader_copy(r, &latest.value, &value->text.data)
                                            : WEIR_OK;
}

static weir_status check_table(weir__reader *r, void *object) {
    return ((const weir_ingest__run_table *)object)->name[0] ? WEIR_OK
                                                             : weir__refuse(r, NULL, "has an empty name");
}

#define TABLE_FIELDS                                                                                         \
    {"columns", WEIR__OTHER(read_columns, NULL), .flags = WEIR__REQUIRED},                                   \
        {"key", WEIR__OTHER(read_key, NULL), .flags = WEIR__REQUIRED}, {                                     \
        "files", WEIR__LIST(weir_ingest__run_table, files, file_count, &file_shape), .flags = WEIR__REQUIRED \
    }

static const weir__field table_fields[] = {
    TABLE_FIELDS,
    {"latest", WEIR__OTHER(read_latest, NULL), .has = offsetof(weir_ingest__run_table, has_latest),
     .flags = WEIR__NULLABLE},
};
static const weir__shape table_shape =
    WEIR__SHAPE(weir_ingest__run_table, table_fields, .check = check_table);

/* A query is a table with its SQL. */
static const weir__field query_fields[] = {
    TABLE_FIELDS,
    {"sql", WEIR__TEXT(weir_ingest__run_table, sql), .least = 1, .flags = WEIR__REQUIRED},
};
static const weir__shape query_shape =
    WEIR__SHAPE(weir_ingest__run_table, query_fields, .check = check_table);

/* ---- The list -------------------------------------------------------------------------------- */

typedef struct list_document {
    const char *name;
    weir_ingest__run_table *tables, *queries;
    uint32_t table_count, query_count;
    bool has_store;
    uint8_t store[WEIR_HASH_SIZE];
} list_document;

static weir_status check_counts(weir__reader *r, void *object) {
    const list_document *document = object;
    if (document->table_count == 0)
        return weir__refuse(r, "tables", "is empty");
    if (document->query_count > QUERIES_MAX)
        return weir__refuse(r, "queries", "has more than %d queries", QUERIES_MAX);
    for (uint32_t i = 0; i < document->query_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(document->queries[i].sql, document->queries[k].sql) == 0)
                return weir__refuse(r, "queries", "has the same sql twice: %s and %s",
                                    document->queries[k].name, document->queries[i].name);
    return WEIR_OK;
}

static const weir__field fields[] = {
    {"format", WEIR__CONSTANT(WEIR_INGEST__RUN_FORMAT), .flags = WEIR__REQUIRED},
    {"name", WEIR__TEXT(list_document, name), .least = 1, .flags = WEIR__REQUIRED},
    {"tables", WEIR__MAP(list_document, tables, table_count, &table_shape), .flags = WEIR__REQUIRED},
    {"queries", WEIR__MAP(list_document, queries, query_count, &query_shape), .flags = WEIR__NULLABLE},
    {"store", WEIR__BYTES(list_document, store), .read = read_hash, .has = offsetof(list_document, has_store),
     .flags = WEIR__NULLABLE},
};
static const weir__shape shape = WEIR__SHAPE(list_document, fields, .check = check_counts);

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* A file that is named twice would give its rows twice. */
static weir_status check_files(weir__reader *r, const weir_ingest__run_list *list) {
    size_t count = 0, used = 0;
    const char **names;
    for (uint32_t t = 0; t < list->table_count; t++)
        count += list->tables[t].file_count;
    WEIR__TRY(weir__reader_take(r, count, sizeof *names, &names));
    for (uint32_t t = 0; t < list->table_count; t++)
        for (uint32_t f = 0; f < list->tables[t].file_count; f++)
            names[used++] = list->tables[t].files[f].path;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return weir__refuse(r, NULL, "names the file %s twice", names[i]);
    return WEIR_OK;
}

static weir_status read_list(weir__reader *r, weir_ingest__run_list *list, const weir_cbor_value *root) {
    list_document document = {0};
    weir_cbor_value format;
    if (weir_cbor_get(root, "format", &format) && !weir_cbor_is_text(&format, WEIR_INGEST__RUN_FORMAT))
        return weir__refuse(
            r, "format", "must be \"" WEIR_INGEST__RUN_FORMAT "\""); /* before keys that only that one has */
    WEIR__TRY(weir__read(r, root, &shape, &document));
    size_t tables = document.table_count, queries = document.query_count;
    WEIR__TRY(weir__reader_take(r, tables + queries, sizeof *list->tables, &list->tables));
    memcpy(list->tables, document.tables, tables * sizeof *list->tables);
    if (queries > 0)
        memcpy(list->tables + tables, document.queries, queries * sizeof *list->tables);
    list->table_count = WEIR__NARROW(uint32_t, tables + queries);
    list->name = document.name;
    list->has_store = document.has_store;
    memcpy(list->store, document.store, sizeof list->store);
    return check_files(r, list);
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
    WEIR__TRY(check_complete(env, folder, path, error));
    WEIR__TRY(weir__file_read(env, path, LIST_SIZE_MAX, &text, &size, WEIR_INGEST__SOURCE_OPERATOR, error));
    weir_cbor_writer_memory(&w, env);
    weir_status status = weir_json_read((const char *)text, size, path, WEIR_SOURCE_ERROR, &w, error);
    weir__release(env, text);
    if (status == WEIR_OK) {
        weir_cbor_value document = weir_cbor_view(w.data);
        weir__reader r = {.arena = &list->arena,
                          .error = error,
                          .family = WEIR_SOURCE_ERROR,
                          .failure_operator = WEIR_INGEST__SOURCE_OPERATOR,
                          .name = path,
                          .meant = "a list of " WEIR_INGEST__RUN_FORMAT,
                          .unknown = "is not a key of " WEIR_INGEST__RUN_FORMAT,
                          .path = "$"};
        status = read_list(&r, list, &document);
    }
    weir_cbor_release(&w);
    return status;
}

void weir_ingest__run_list_release(weir_ingest__run_list *list) {
    weir__arena_release(&list->arena);
    *list = (weir_ingest__run_list){0};
}
