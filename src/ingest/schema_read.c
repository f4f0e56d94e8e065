/* Reads a schema from JSON. It is turned into canonical CBOR first and walked with one set of helpers; the
 * first fault sticks and is reported with its JSON path. What needs the source (whether a table or column
 * exists) is checked later, by plan.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/embed.h"
#include "ingest/schema.h"
#include "weir/ingest.h"

typedef struct schema_reader {
    weir__schema *schema;
    const char *name; /* of the file, for messages */
    weir_error *error;
    weir_status status;
    char path[400];
} schema_reader;

static void refuse_as(schema_reader *r, weir_status status, const char *key, const char *what) {
    if (r->status != WEIR_OK)
        return;
    const char *dot = key && *key ? "." : "";
    r->status = weir__fail(r->error, status, WEIR__SCHEMA_OPERATOR, "%s: %s%s%s %s", r->name, r->path, dot,
                           key ? key : "", what);
    char path[WEIR_DIAGNOSTIC_CAPACITY];
    int size = snprintf(path, sizeof path, "%s%s%s", r->path, dot, key ? key : "");
    weir__note_text(r->error, "path", path,
                    size < WEIR__NARROW(int, sizeof path) ? (size_t)size : sizeof path - 1);
}

static void refuse(schema_reader *r, const char *key, const char *what) {
    refuse_as(r, WEIR_SCHEMA_INVALID, key, what);
}

static void out_of_memory(schema_reader *r, size_t size) {
    if (r->status == WEIR_OK)
        r->status = weir__out_of_memory(r->error, WEIR__SCHEMA_OPERATOR, size);
}

/* ---- Paths: enter appends ".key", leave cuts it off again ------------------------------------ */

static size_t enter(schema_reader *r, const char *key, size_t size) {
    size_t length = strlen(r->path);
    snprintf(r->path + length, sizeof r->path - length, ".%.*s", WEIR__NARROW(int, size < 200 ? size : 200),
             key);
    return length;
}

static void leave(schema_reader *r, size_t length) {
    r->path[length] = 0;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void *take(schema_reader *r, size_t count, size_t size) {
    void *memory = weir__arena_take_zero(&r->schema->arena, count, size);
    if (!memory)
        out_of_memory(r, count * size);
    return memory;
}

static const char *copy(schema_reader *r, const weir_cbor_value *text) {
    const char *copied = weir__arena_text(&r->schema->arena, (const char *)text->data, (size_t)text->number);
    if (!copied)
        out_of_memory(r, (size_t)text->number);
    return copied;
}

/* A key of a map, null counted as missing. */
static bool find(const weir_cbor_value *map, const char *key, weir_cbor_value *out) {
    return weir_cbor_get(map, key, out) && out->type != WEIR_CBOR_NULL;
}

static const char *get_text(schema_reader *r, const weir_cbor_value *map, const char *key, bool is_required) {
    weir_cbor_value value;
    if (!find(map, key, &value)) {
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

static void only_keys(schema_reader *r, const weir_cbor_value *map, const char *const *allowed) {
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

/* True for a map; else refused. */
static bool is_map(schema_reader *r, const weir_cbor_value *value) {
    if (value->type != WEIR_CBOR_MAP)
        refuse(r, NULL, "must be an object");
    return r->status == WEIR_OK && value->type == WEIR_CBOR_MAP;
}

static const char *const *get_texts(schema_reader *r, const weir_cbor_value *map, const char *key,
                                    bool may_be_one_text, uint32_t *count) {
    weir_cbor_value value, item;
    *count = 0;
    if (!find(map, key, &value))
        return NULL;
    bool is_one = value.type == WEIR_CBOR_TEXT && may_be_one_text;
    if (!is_one && value.type != WEIR_CBOR_ARRAY) {
        refuse(r, key, may_be_one_text ? "must be a name or a list of names" : "must be a list of names");
        return NULL;
    }
    const char **texts = take(r, is_one ? 1 : (size_t)value.number, sizeof *texts);
    if (is_one && texts) {
        texts[(*count)++] = copy(r, &value);
        return texts;
    }
    weir_cbor_iterator it = weir_cbor_children(&value);
    while (texts && r->status == WEIR_OK && weir_cbor_next(&it, NULL, &item)) {
        if (item.type != WEIR_CBOR_TEXT)
            refuse(r, key, "must be a list of names");
        else
            texts[(*count)++] = copy(r, &item);
    }
    return texts;
}

static weir_stype get_stype(schema_reader *r, const weir_cbor_value *map, const char *key) {
    const char *name = get_text(r, map, key, true);
    for (int stype = 0; name && stype <= WEIR_IGNORED; stype++)
        if (strcmp(name, weir_stype_name((weir_stype)stype)) == 0)
            return (weir_stype)stype;
    refuse(r, key, "must be identifier, numerical, timestamp, boolean, categorical, text or ignored");
    return WEIR_IGNORED;
}

static weir__unit get_unit(schema_reader *r, const weir_cbor_value *map) {
    static const char *const names[] = {"s", "ms", "us"};
    const char *name = get_text(r, map, "unit", false);
    if (!name)
        return WEIR__SECONDS;
    for (int unit = 0; unit < 3; unit++)
        if (strcmp(name, names[unit]) == 0)
            return (weir__unit)unit;
    refuse(r, "unit", "must be s, ms or us");
    return WEIR__SECONDS;
}

/* ISO text, or an integer in `unit` where `allows_integer`. */
static bool get_time(schema_reader *r, const weir_cbor_value *map, const char *key, bool allows_integer,
                     weir__unit unit, int64_t *out) {
    weir_cbor_value found;
    weir__value value = {.type = WEIR__NULL};
    if (!find(map, key, &found))
        return false;
    if (found.type == WEIR_CBOR_TEXT)
        value = (weir__value){.type = WEIR__TEXT, .text = {(const char *)found.data, (size_t)found.number}};
    else if (allows_integer && found.type == WEIR_CBOR_UINT && found.number <= INT64_MAX)
        value = (weir__value){.type = WEIR__INT, .integer = (int64_t)found.number};
    else if (allows_integer && found.type == WEIR_CBOR_NEGATIVE && found.number <= INT64_MAX)
        value = (weir__value){.type = WEIR__INT, .integer = -1 - (int64_t)found.number};
    if (weir__to_timestamp(&value, unit, out) == WEIR__FITS)
        return true;
    refuse(r, key, "is not a time such as 2025-01-01T00:00:00Z");
    return false;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* "table.column", split at its first dot. */
static void read_foreign_key(schema_reader *r, const weir_cbor_value *map, weir__schema_column *column) {
    const char *text = get_text(r, map, "foreign_key", false);
    const char *dot = text ? strchr(text, '.') : NULL;
    if (!text)
        return;
    if (!dot) {
        refuse(r, "foreign_key", "must be table.column");
        return;
    }
    column->foreign_table = weir__arena_text(&r->schema->arena, text, (size_t)(dot - text));
    column->foreign_column = dot + 1;
    if (!column->foreign_table)
        out_of_memory(r, (size_t)(dot - text));
}

static void read_column(schema_reader *r, const weir_cbor_value *map, weir__schema_column *column) {
    static const char *const keys[] = {"stype", "foreign_key", "known_at", "description", "unit", NULL};
    weir_cbor_value value;
    if (!is_map(r, map))
        return;
    only_keys(r, map, keys);
    column->stype = get_stype(r, map, "stype");
    column->unit = get_unit(r, map);
    column->description = get_text(r, map, "description", false);
    if (!column->description)
        column->description = "";
    column->has_known_at = weir_cbor_get(map, "known_at", &value);
    column->known_at = get_text(r, map, "known_at", false);
    read_foreign_key(r, map, column);
}

static void read_columns(schema_reader *r, const weir_cbor_value *map, weir__schema_table *table) {
    weir_cbor_value columns, key, child;
    if (!weir_cbor_get(map, "columns", &columns)) {
        refuse(r, "columns", "is missing");
        return;
    }
    size_t length = enter(r, "columns", 7);
    if (is_map(r, &columns)) {
        table->columns = take(r, (size_t)columns.number, sizeof *table->columns);
        weir_cbor_iterator it = weir_cbor_children(&columns);
        while (r->status == WEIR_OK && weir_cbor_next(&it, &key, &child)) {
            weir__schema_column *column = &table->columns[table->column_count++];
            column->name = copy(r, &key);
            size_t inner = enter(r, (const char *)key.data, (size_t)key.number);
            read_column(r, &child, column);
            leave(r, inner);
        }
    }
    leave(r, length);
}

static void check_time_column(schema_reader *r, const weir__schema_table *table, const char *key,
                              const char *name) {
    if (!name || r->status != WEIR_OK)
        return;
    const weir__schema_column *column = weir__schema_find_column(table, name);
    if (!column)
        refuse(r, key, "names a column that the table's columns do not have");
    else if (column->stype != WEIR_TIMESTAMP)
        refuse(r, key, "names a column that is no timestamp");
}

static void check_table(schema_reader *r, const weir__schema_table *table) {
    check_time_column(r, table, "temporal_column", table->temporal_column);
    for (uint32_t i = 0; i < table->column_count; i++) {
        size_t length = enter(r, "columns", 7);
        enter(r, table->columns[i].name, strlen(table->columns[i].name));
        check_time_column(r, table, "known_at", table->columns[i].known_at);
        leave(r, length);
    }
}

static void read_table(schema_reader *r, const weir_cbor_value *map, weir__schema_table *table) {
    static const char *const keys[] = {"primary_key", "temporal_column", "columns", NULL};
    if (!is_map(r, map))
        return;
    only_keys(r, map, keys);
    table->primary_key = get_texts(r, map, "primary_key", true, &table->primary_key_count);
    table->temporal_column = get_text(r, map, "temporal_column", false);
    read_columns(r, map, table);
    check_table(r, table);
}

static int compare_tables(const void *a, const void *b) {
    return strcmp(((const weir__schema_table *)a)->name, ((const weir__schema_table *)b)->name);
}

static int compare_tasks(const void *a, const void *b) {
    return strcmp(((const weir__schema_task *)a)->name, ((const weir__schema_task *)b)->name);
}

static void read_tables(schema_reader *r, const weir_cbor_value *document) {
    weir_cbor_value tables, key, child;
    weir__schema *schema = r->schema;
    if (!weir_cbor_get(document, "tables", &tables)) {
        refuse(r, "tables", "is missing");
        return;
    }
    size_t length = enter(r, "tables", 6);
    if (is_map(r, &tables)) {
        schema->tables = take(r, (size_t)tables.number, sizeof *schema->tables);
        weir_cbor_iterator it = weir_cbor_children(&tables);
        while (r->status == WEIR_OK && weir_cbor_next(&it, &key, &child)) {
            weir__schema_table *table = &schema->tables[schema->table_count++];
            table->name = copy(r, &key);
            size_t inner = enter(r, (const char *)key.data, (size_t)key.number);
            read_table(r, &child, table);
            leave(r, inner);
        }
        if (r->status == WEIR_OK && schema->table_count > 0)
            qsort(schema->tables, schema->table_count, sizeof *schema->tables, compare_tables);
    }
    leave(r, length);
}

/* A foreign key names a table of the schema; whether the column exists is for the source to say. */
static void check_foreign_keys(schema_reader *r) {
    const weir__schema *schema = r->schema;
    for (uint32_t t = 0; t < schema->table_count && r->status == WEIR_OK; t++)
        for (uint32_t c = 0; c < schema->tables[t].column_count && r->status == WEIR_OK; c++) {
            const weir__schema_column *column = &schema->tables[t].columns[c];
            if (!column->foreign_table || weir__schema_find_table(schema, column->foreign_table))
                continue;
            size_t length = enter(r, "tables", 6);
            enter(r, schema->tables[t].name, strlen(schema->tables[t].name));
            enter(r, "columns", 7);
            enter(r, column->name, strlen(column->name));
            refuse(r, "foreign_key", "names a table that the schema does not have");
            leave(r, length);
        }
}

/* ---- Tasks ----------------------------------------------------------------------------------- */

static void read_permille(schema_reader *r, const weir_cbor_value *map, weir__schema_split *split) {
    weir_cbor_value list, item;
    uint64_t sum = 0;
    if (!find(map, "permille", &list))
        return;
    if (list.type != WEIR_CBOR_ARRAY || list.number != WEIR_SPLITS) {
        refuse_as(r, WEIR_TASK_INVALID, "permille", "must be three whole numbers that add up to 1000");
        return;
    }
    weir_cbor_iterator it = weir_cbor_children(&list);
    for (int i = 0; weir_cbor_next(&it, NULL, &item); i++) {
        uint64_t part = 0;
        if (!weir_cbor_get_uint(&item, &part) || part > 1000)
            part = 10000;
        split->permille[i] = WEIR__NARROW(uint32_t, part);
        sum += part;
    }
    if (sum != 1000)
        refuse_as(r, WEIR_TASK_INVALID, "permille", "must be three whole numbers that add up to 1000");
}

static void read_hash_split(schema_reader *r, const weir_cbor_value *map, weir__schema_split *split) {
    static const char *const keys[] = {"method", "permille", "seed", NULL};
    weir_cbor_value seed;
    only_keys(r, map, keys);
    read_permille(r, map, split);
    if (find(map, "seed", &seed) && !weir_cbor_get_uint(&seed, &split->seed))
        refuse(r, "seed", "must be a whole number from 0 to 2^64-1");
}

static void read_temporal_split(schema_reader *r, const weir_cbor_value *map, weir__unit unit,
                                weir__schema_split *split) {
    static const char *const keys[] = {"method", "val", "test", NULL};
    only_keys(r, map, keys);
    split->method = WEIR__SPLIT_TEMPORAL;
    if (!get_time(r, map, "val", true, unit, &split->val))
        refuse_as(r, WEIR_TASK_INVALID, "val", "is missing");
    if (!get_time(r, map, "test", true, unit, &split->test))
        refuse_as(r, WEIR_TASK_INVALID, "test", "is missing");
}

static void read_split(schema_reader *r, const weir_cbor_value *task, weir__unit unit,
                       weir__schema_split *split) {
    static const char *const column_keys[] = {"method", "column", NULL};
    weir_cbor_value map;
    *split = (weir__schema_split){.method = WEIR__SPLIT_HASH, .permille = {800, 100, 100}};
    if (!find(task, "split", &map))
        return;
    size_t length = enter(r, "split", 5);
    if (is_map(r, &map)) {
        const char *method = get_text(r, &map, "method", false);
        if (!method || strcmp(method, "hash") == 0) {
            read_hash_split(r, &map, split);
        } else if (strcmp(method, "temporal") == 0) {
            read_temporal_split(r, &map, unit, split);
        } else if (strcmp(method, "column") == 0) {
            only_keys(r, &map, column_keys);
            split->method = WEIR__SPLIT_COLUMN;
            split->column = get_text(r, &map, "column", false);
            if (!split->column)
                refuse_as(r, WEIR_TASK_INVALID, "column", "is missing");
        } else {
            refuse_as(r, WEIR_TASK_INVALID, "method", "must be hash, temporal or column");
        }
    }
    leave(r, length);
}

static weir__task_kind get_kind(schema_reader *r, const weir_cbor_value *map) {
    const char *kind = get_text(r, map, "kind", false);
    if (!kind)
        return WEIR__KIND_AUTO;
    if (strcmp(kind, "cell") == 0)
        return WEIR__KIND_CELL;
    if (strcmp(kind, "derived") != 0)
        refuse_as(r, WEIR_TASK_INVALID, "kind", "must be cell or derived");
    return WEIR__KIND_DERIVED;
}

static void read_task(schema_reader *r, const weir_cbor_value *map, weir__schema_task *task) {
    static const char *const keys[] = {"query",
                                       "anchor_table",
                                       "anchor_key",
                                       "target_column",
                                       "target_stype",
                                       "observation_time_column",
                                       "kind",
                                       "unit",
                                       "drop_columns",
                                       "split",
                                       NULL};
    if (!is_map(r, map))
        return;
    only_keys(r, map, keys);
    task->query = get_text(r, map, "query", true);
    task->anchor_table = get_text(r, map, "anchor_table", true);
    task->anchor_key = get_text(r, map, "anchor_key", true);
    task->target_column = get_text(r, map, "target_column", true);
    task->target_stype = get_stype(r, map, "target_stype");
    task->observation_time_column = get_text(r, map, "observation_time_column", false);
    task->kind = get_kind(r, map);
    task->unit = get_unit(r, map);
    task->drop_columns = get_texts(r, map, "drop_columns", false, &task->drop_column_count);
    read_split(r, map, task->unit, &task->split);
    bool can_be_target = task->target_stype == WEIR_NUMERICAL || task->target_stype == WEIR_TIMESTAMP ||
                         task->target_stype == WEIR_BOOLEAN || task->target_stype == WEIR_CATEGORICAL;
    if (!can_be_target)
        refuse_as(r, WEIR_TASK_INVALID, "target_stype",
                  "must be numerical, timestamp, boolean or categorical");
    if (r->status == WEIR_OK && !weir__schema_find_table(r->schema, task->anchor_table))
        refuse_as(r, WEIR_TASK_INVALID, "anchor_table", "names a table that the schema does not have");
}

static void read_tasks(schema_reader *r, const weir_cbor_value *document) {
    weir_cbor_value tasks, key, child;
    weir__schema *schema = r->schema;
    if (r->status != WEIR_OK || !find(document, "tasks", &tasks))
        return;
    schema->has_tasks = true;
    size_t length = enter(r, "tasks", 5);
    if (is_map(r, &tasks)) {
        schema->tasks = take(r, (size_t)tasks.number, sizeof *schema->tasks);
        weir_cbor_iterator it = weir_cbor_children(&tasks);
        while (r->status == WEIR_OK && weir_cbor_next(&it, &key, &child)) {
            weir__schema_task *task = &schema->tasks[schema->task_count++];
            task->name = copy(r, &key);
            size_t inner = enter(r, (const char *)key.data, (size_t)key.number);
            read_task(r, &child, task);
            leave(r, inner);
        }
        if (r->status == WEIR_OK && schema->task_count > 0)
            qsort(schema->tasks, schema->task_count, sizeof *schema->tasks, compare_tasks);
    }
    leave(r, length);
}

/* ---- The document ---------------------------------------------------------------------------- */

static void check_name(schema_reader *r) {
    const char *name = r->schema->name;
    if (name && (*name == 0 || *name == '.' || strchr(name, '/')))
        refuse(r, "name", "must be a file's name: not empty, no slash, no dot in front");
}

/* Provider and dim are checked here, before hours of reading; the other keys are the provider's own. */
static void read_embedding(schema_reader *r, const weir_cbor_value *document) {
    weir_cbor_value *embedding = &r->schema->embedding, value;
    uint64_t dim;
    r->schema->has_embedding = find(document, "embedding", embedding);
    if (!r->schema->has_embedding)
        return;
    size_t length = enter(r, "embedding", strlen("embedding"));
    if (is_map(r, embedding)) {
        if (weir_cbor_get(embedding, "provider", &value) && !weir__embedder_is_known(&value))
            refuse(r, "provider", "must be hash_v1, http or file");
        if (weir_cbor_get(embedding, "dim", &value) &&
            (!weir_cbor_get_uint(&value, &dim) || dim < 1 || dim > WEIR__EMBED_DIM_MAX)) {
            char what[64];
            snprintf(what, sizeof what, "must be a whole number from 1 to %d", WEIR__EMBED_DIM_MAX);
            refuse(r, "dim", what);
        }
    }
    leave(r, length);
}

static void read_document(schema_reader *r, const weir_cbor_value *document) {
    static const char *const keys[] = {"name", "tables", "tasks", "statistics_until", "embedding", NULL};
    weir__schema *schema = r->schema;
    if (!is_map(r, document))
        return;
    only_keys(r, document, keys);
    schema->name = get_text(r, document, "name", false);
    check_name(r);
    read_tables(r, document);
    check_foreign_keys(r);
    read_tasks(r, document);
    schema->has_statistics_until =
        get_time(r, document, "statistics_until", false, WEIR__SECONDS, &schema->statistics_until);
    read_embedding(r, document);
}

weir_status weir__schema_read(weir__schema *schema, const weir_env *env, const char *text, size_t size,
                              const char *name, weir_error *error) {
    memset(schema, 0, sizeof *schema);
    weir__arena_init(&schema->arena, env);
    weir_cbor_writer_memory(&schema->document, env);
    weir_status status = weir_json_read(text, size, name, WEIR_SCHEMA_INVALID, &schema->document, error);
    if (status == WEIR_OK)
        status = weir_cbor_finish(&schema->document, error);
    if (status != WEIR_OK)
        return status;
    schema_reader r = {.schema = schema, .name = name, .error = error, .path = "$"};
    weir_cbor_value document = weir_cbor_view(schema->document.data);
    read_document(&r, &document);
    return r.status;
}

void weir__schema_release(weir__schema *schema) {
    weir_cbor_release(&schema->document);
    weir__arena_release(&schema->arena);
}

const weir__schema_table *weir__schema_find_table(const weir__schema *schema, const char *name) {
    for (uint32_t i = 0; i < schema->table_count; i++)
        if (strcmp(schema->tables[i].name, name) == 0)
            return &schema->tables[i];
    return NULL;
}

const weir__schema_column *weir__schema_find_column(const weir__schema_table *table, const char *name) {
    for (uint32_t i = 0; i < table->column_count; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return &table->columns[i];
    return NULL;
}

weir_status weir_schema_check(const weir_env *env, const char *text, size_t size, const char *name,
                              weir_error *error) {
    weir__schema schema;
    weir_status status = weir__schema_read(&schema, weir__env(env), text, size, name, error);
    weir__schema_release(&schema);
    return status;
}
