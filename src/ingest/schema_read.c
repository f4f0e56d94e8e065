/* Reads a schema from JSON. It is turned into canonical CBOR first and read by tables of fields; the first
 * fault is reported with its JSON path. What needs the source (whether a table or column exists) is checked
 * later, by resolve.c.
 *
 * Tables and their columns are read first; then what joins tables, which may stand before them in the text:
 * foreign keys and times (schema_keys.c), then tasks (schema_tasks.c). */
#include <string.h>

#include "base/sort.h"
#include "ingest/embed.h"
#include "ingest/schema_reader.h"
#include "weir/ingest.h"

/* ---- Values ---------------------------------------------------------------------------------- */

#define NAME(id, number, name, ...) #name,
const char *const weir_ingest__stypes[] = {WEIR_STYPES(NAME) NULL};
#undef NAME
const char *const weir_ingest__units[] = {"s", "ms", "us", "ns", NULL};

weir_status weir_ingest__schema_format(weir__reader *r, const weir__field *field,
                                       const weir_cbor_value *value, void *object) {
    weir_ingest__time_form *form = (void *)((char *)object + field->offset);
    weir_ingest__time_format *format;
    if (value->type != WEIR_CBOR_TEXT)
        return weir__refuse(r, field->name, "must be a string");
    WEIR__TRY(weir__reader_take(r, 1, sizeof *format, &format));
    const char *wrong =
        weir_ingest__time_format_compile((const char *)value->data, (size_t)value->number, format);
    if (wrong || form->says_unit)
        return weir__refuse(r, field->name, "%s", wrong ? wrong : "stands beside unit; say one of them");
    form->format = format;
    return WEIR_OK;
}

weir_status weir_ingest__schema_moment(weir__reader *r, const char *key, const weir_cbor_value *found,
                                       const weir_ingest__unit *unit, int64_t *out) {
    weir_ingest__value value = {.type = WEIR_INGEST__NULL};
    bool is_integer = unit && found->number <= INT64_MAX;
    if (found->type == WEIR_CBOR_TEXT)
        value = (weir_ingest__value){.type = WEIR_INGEST__TEXT,
                                     .text = {(const char *)found->data, (size_t)found->number}};
    else if (is_integer && found->type == WEIR_CBOR_UINT)
        value = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = (int64_t)found->number};
    else if (is_integer && found->type == WEIR_CBOR_NEGATIVE)
        value = (weir_ingest__value){.type = WEIR_INGEST__INT, .integer = -1 - (int64_t)found->number};
    if (weir_ingest__to_timestamp(&value, unit ? *unit : WEIR_INGEST__SECONDS, out) == WEIR_INGEST__FITS)
        return WEIR_OK;
    return weir__refuse(r, key, "is not a time such as 2025-01-01T00:00:00Z");
}

/* ---- csv: how CSV files are read (docs/spec/04-values.md) ------------------------------------ */

static weir_status read_delimiter(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                  void *object) {
    weir_ingest__csv_options *csv = object;
    if (value->type == WEIR_CBOR_TEXT &&
        weir_ingest__csv_read_delimiter((const char *)value->data, (size_t)value->number, &csv->delimiter))
        return WEIR_OK;
    return weir__refuse(r, field->name, "must be one ASCII character, or \\t for a tab");
}

static weir_status read_quote(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                              void *object) {
    weir_ingest__csv_options *csv = object;
    if (value->type != WEIR_CBOR_TEXT ||
        !weir_ingest__csv_read_quote((const char *)value->data, (size_t)value->number, &csv->quote))
        return weir__refuse(r, field->name, "must be one ASCII character, or empty for none");
    if (csv->says_delimiter && csv->delimiter == csv->quote)
        return weir__refuse(r, field->name, "is the delimiter too");
    return WEIR_OK;
}

static const weir__field csv_fields[] = {
    {"null", WEIR__NAMES(weir_ingest__csv_options, nulls, null_count),
     .has = offsetof(weir_ingest__csv_options, says_nulls)},
    {"delimiter", WEIR__OTHER(read_delimiter, NULL),
     .has = offsetof(weir_ingest__csv_options, says_delimiter)},
    {"quote", WEIR__OTHER(read_quote, NULL), .has = offsetof(weir_ingest__csv_options, says_quote)},
    {"header", WEIR__BOOL(weir_ingest__csv_options, has_header),
     .has = offsetof(weir_ingest__csv_options, says_header)},
};
static const weir__shape csv_shape = WEIR__SHAPE(weir_ingest__csv_options, csv_fields);

/* ---- Tables ---------------------------------------------------------------------------------- */

static weir_status check_column(weir__reader *r, void *object) {
    weir_ingest__schema_column *column = object;
    (void)r;
    if (!column->description)
        column->description = "";
    return WEIR_OK;
}

static const weir__field column_fields[] = {
    {"stype", WEIR__WORD(weir_ingest__schema_column, stype, weir_ingest__stypes), .flags = WEIR__REQUIRED},
    WEIR_INGEST__FORM(weir_ingest__schema_column),
    {"description", WEIR__TEXT(weir_ingest__schema_column, description)},
    {"known_at", WEIR__VALUE(weir_ingest__schema_column, written_known_at),
     .has = offsetof(weir_ingest__schema_column, has_known_at)},
    {"foreign_key", WEIR__VALUE(weir_ingest__schema_column, written_key)},
};
static const weir__shape column_shape =
    WEIR__SHAPE(weir_ingest__schema_column, column_fields, .check = check_column);

static const weir__field key_fields[] = {
    {"columns", WEIR__NAMES(weir_ingest__schema_key, columns, column_count)},
    {"table", WEIR__TEXT(weir_ingest__schema_key, table), .flags = WEIR__REQUIRED},
    {"to", WEIR__NAMES(weir_ingest__schema_key, to, to_count)},
    {"name", WEIR__TEXT(weir_ingest__schema_key, name)},
    {"known_at", WEIR__VALUE(weir_ingest__schema_key, written_known_at),
     .has = offsetof(weir_ingest__schema_key, has_known_at)},
};
static const weir__shape key_shape = WEIR__SHAPE(weir_ingest__schema_key, key_fields);

static weir_status check_table(weir__reader *r, void *object) {
    weir_ingest__schema_table *table = object;
    const weir_ingest__schema *schema = r->context;
    if (!weir_ingest__names_differ(table->primary_key, table->primary_key_count))
        return weir__refuse(r, "primary_key", "names a column twice");
    if (!table->says_keys)
        table->keeps_keys = schema->keeps_keys;
    table->keeps_keys = table->keeps_keys && table->primary_key_count > 0;
    return WEIR_OK;
}

static const weir__field table_fields[] = {
    {"query", WEIR__TEXT(weir_ingest__schema_table, query)},
    {"primary_key", WEIR__NAMES(weir_ingest__schema_table, primary_key, primary_key_count)},
    {"csv", WEIR__OBJECT(weir_ingest__schema_table, csv, &csv_shape),
     .has = offsetof(weir_ingest__schema_table, has_csv)},
    {"keys", WEIR__BOOL(weir_ingest__schema_table, keeps_keys),
     .has = offsetof(weir_ingest__schema_table, says_keys)},
    {"columns", WEIR__MAP(weir_ingest__schema_table, columns, column_count, &column_shape),
     .flags = WEIR__REQUIRED},
    {"foreign_keys", WEIR__LIST(weir_ingest__schema_table, listed_keys, listed_key_count, &key_shape)},
    {"temporal_column", WEIR__VALUE(weir_ingest__schema_table, written_temporal)},
};
static const weir__shape table_shape =
    WEIR__SHAPE(weir_ingest__schema_table, table_fields, .check = check_table);

static weir_status read_tables(weir__reader *r, const weir__field *field, const weir_cbor_value *map,
                               void *object) {
    weir_ingest__schema *schema = object;
    WEIR__TRY(weir__read_plain(r, field, map, object));
    if (schema->table_count == 0)
        return weir__refuse(r, field->name, "has no table");
    weir__sort_by_name(schema->tables, schema->table_count, sizeof *schema->tables);
    return weir_ingest__schema_join_tables(r, schema);
}

static weir_status read_tasks(weir__reader *r, const weir__field *field, const weir_cbor_value *map,
                              void *object) {
    weir_ingest__schema *schema = object;
    WEIR__TRY(weir__read_plain(r, field, map, object));
    weir__sort_by_name(schema->tasks, schema->task_count, sizeof *schema->tasks);
    return WEIR_OK;
}

/* ---- The document ---------------------------------------------------------------------------- */

static weir_status read_name(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                             void *object) {
    const char *const *name = &((const weir_ingest__schema *)object)->name;
    WEIR__TRY(weir__read_plain(r, field, value, object));
    if (**name == 0 || **name == '.' || strchr(*name, '/'))
        return weir__refuse(r, field->name, "must be a file's name: not empty, no slash, no dot in front");
    return WEIR_OK;
}

static weir_status read_search_path(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                    void *object) {
    const weir_ingest__schema *schema = object;
    WEIR__TRY(weir__read_plain(r, field, value, object));
    if (weir_ingest__names_differ(schema->search_path, schema->search_path_count) &&
        !weir_ingest__names_have(schema->search_path, schema->search_path_count, ""))
        return WEIR_OK;
    return weir__refuse(r, field->name, "must be different names, none of them empty");
}

/* Provider and dim are checked here, before hours of reading; the other keys are the provider's own. */
static weir_status read_embedding(weir__reader *r, const weir__field *field, const weir_cbor_value *embedding,
                                  void *object) {
    weir_cbor_value value;
    uint64_t dim;
    ((weir_ingest__schema *)object)->embedding = *embedding;
    size_t outer = weir__enter(r, field->name, strlen(field->name));
    if (embedding->type != WEIR_CBOR_MAP)
        return weir__refuse(r, NULL, "must be an object");
    if (weir_cbor_get(embedding, "provider", &value) && !weir_ingest__embedder_is_known(&value))
        return weir__refuse(r, "provider", "must be hash_v1, http or file");
    if (weir_cbor_get(embedding, "dim", &value) &&
        (!weir_cbor_get_uint(&value, &dim) || dim < 1 || dim > WEIR_INGEST__EMBED_DIM_MAX))
        return weir__refuse(r, "dim", "must be a whole number from 1 to %d", WEIR_INGEST__EMBED_DIM_MAX);
    weir__leave(r, outer);
    return WEIR_OK;
}

/* A time, or "train": then a task must have a train split that can end. */
static weir_status read_statistics_until(weir__reader *r, const weir__field *field,
                                         const weir_cbor_value *value, void *object) {
    weir_ingest__schema *schema = object;
    if (!weir_cbor_is_text(value, "train")) {
        schema->has_statistics_until = true;
        return weir_ingest__schema_moment(r, field->name, value, NULL, &schema->statistics_until);
    }
    schema->has_statistics_until_train = true;
    for (uint32_t i = 0; i < schema->task_count; i++)
        if (schema->tasks[i].split.method != WEIR_INGEST__SPLIT_HASH)
            return WEIR_OK;
    return weir__refuse(r, field->name,
                        "is \"train\", but no task has a temporal or column split; give a time");
}

static const weir__field fields[] = {
    {"name", WEIR__TEXT(weir_ingest__schema, name), .read = read_name},
    {"csv", WEIR__OBJECT(weir_ingest__schema, csv, &csv_shape)},
    {"search_path", WEIR__NAMES(weir_ingest__schema, search_path, search_path_count),
     .read = read_search_path},
    {"keys", WEIR__BOOL(weir_ingest__schema, keeps_keys)},
    {"tables", WEIR__MAP(weir_ingest__schema, tables, table_count, &table_shape), .flags = WEIR__REQUIRED,
     .read = read_tables},
    {"tasks", WEIR__MAP(weir_ingest__schema, tasks, task_count, &weir_ingest__schema_task_shape),
     .has = offsetof(weir_ingest__schema, has_tasks), .read = read_tasks},
    {"statistics_until", WEIR__OTHER(read_statistics_until, NULL)},
    {"embedding", WEIR__OTHER(read_embedding, NULL), .has = offsetof(weir_ingest__schema, has_embedding)},
};
static const weir__shape shape = WEIR__SHAPE(weir_ingest__schema, fields);

weir_status weir_ingest__schema_read(weir_ingest__schema *schema, const weir_env *env, const char *text,
                                     size_t size, const char *name, weir_error *error) {
    memset(schema, 0, sizeof *schema);
    weir__arena_init(&schema->arena, env);
    weir_cbor_writer_memory(&schema->document, env);
    WEIR__TRY(weir_json_read(text, size, name, WEIR_SCHEMA_INVALID, &schema->document, error));
    WEIR__TRY(weir_cbor_finish(&schema->document, error));
    weir__reader r = {.arena = &schema->arena,
                      .error = error,
                      .family = WEIR_SCHEMA_INVALID,
                      .failure_operator = WEIR_INGEST__SCHEMA_OPERATOR,
                      .name = name,
                      .unknown = "is not a key that a schema has",
                      .is_json = true,
                      .skips_nulls = true,
                      .context = schema,
                      .path = "$"};
    weir_cbor_value document = weir_cbor_view(schema->document.data);
    return weir__read(&r, &document, &shape, schema);
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

bool weir_ingest__names_have(const char *const *names, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

bool weir_ingest__names_differ(const char *const *names, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        if (weir_ingest__names_have(names, i, names[i]))
            return false;
    return true;
}

bool weir_ingest__names_equal(const char *const *a, uint32_t a_count, const char *const *b,
                              uint32_t b_count) {
    bool are_equal = a_count == b_count;
    for (uint32_t i = 0; i < a_count && are_equal; i++)
        are_equal = strcmp(a[i], b[i]) == 0;
    return are_equal;
}

bool weir_ingest__paths_equal(const weir_time_path *a, const weir_time_path *b) {
    return weir_ingest__names_equal(a->names, a->count, b->names, b->count);
}

bool weir_ingest__stored_times_equal(const weir_stored_time *a, const weir_stored_time *b) {
    bool are_equal = a->path_count == b->path_count;
    for (uint32_t i = 0; i < a->path_count && are_equal; i++)
        are_equal = weir_ingest__paths_equal(&a->paths[i], &b->paths[i]);
    return are_equal;
}

weir_status weir_schema_check(const weir_env *env, const char *text, size_t size, const char *name,
                              weir_error *error) {
    weir_ingest__schema schema;
    weir_status status =
        weir_ingest__schema_read(&schema, weir__env_or_default(env), text, size, name, error);
    weir_ingest__schema_release(&schema);
    return status;
}
