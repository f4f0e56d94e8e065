/* What joins the tables of a schema: foreign keys, and times that go through them. And the two ways to
 * write a joined name: as text, for people, and as a list, for names that hold dots or arrows
 * (docs/spec/04-store-additions.md, Names). */
#include <string.h>

#include "ingest/schema_reader.h"

/* ---- table.column ------------------------------------------------------------------------------ */

/* Where the dot is: the first behind the name of a table. SIZE_MAX if there is none. */
static size_t find_dot(const char *text, size_t size, weir_ingest__is_table is_table, const void *context) {
    for (size_t i = 0; i < size; i++)
        if (text[i] == '.' && is_table(context, text, i))
            return i;
    return SIZE_MAX;
}

static bool is_schema_table(const void *context, const char *name, size_t size) {
    const weir_ingest__schema *schema = context;
    for (uint32_t t = 0; t < schema->table_count; t++)
        if (strlen(schema->tables[t].name) == size && memcmp(schema->tables[t].name, name, size) == 0)
            return true;
    return false;
}

weir_ingest__schema_name weir_ingest__schema_joined(weir_ingest__schema_reader *r,
                                                    const weir_cbor_value *value, const char *key,
                                                    weir_status status) {
    uint32_t count = 0;
    if (value->type == WEIR_CBOR_ARRAY) {
        const char *const *names = weir_ingest__schema_list(r, value, key, &count);
        if (count != 2)
            weir_ingest__schema_refuse(r, status, key, "must be table.column, or a list of table and column");
        else if (!weir_ingest__schema_find_table(r->schema, names[0]))
            weir_ingest__schema_refuse(r, status, key, "names a table that the schema does not have");
        return count == 2 ? (weir_ingest__schema_name){names[0], names[1]}
                          : (weir_ingest__schema_name){"", ""};
    }
    const char *text = (const char *)value->data;
    size_t size = value->type == WEIR_CBOR_TEXT ? (size_t)value->number : 0;
    size_t dot = find_dot(text, size, is_schema_table, r->schema);
    if (size == 0 || !memchr(text, '.', size))
        weir_ingest__schema_refuse(r, status, key, "must be table.column");
    else if (dot == SIZE_MAX)
        weir_ingest__schema_refuse(r, status, key, "names a table that the schema does not have");
    if (dot == SIZE_MAX)
        return (weir_ingest__schema_name){"", ""};
    return (weir_ingest__schema_name){weir_ingest__schema_copy(r, text, dot),
                                      weir_ingest__schema_copy(r, text + dot + 1, size - dot - 1)};
}

/* ---- Foreign keys ------------------------------------------------------------------------------ */

static bool has_repeated(const char *const *names, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(names[i], names[k]) == 0)
                return true;
    return false;
}

/* The columns' names joined by "+". */
static const char *default_name(weir_ingest__schema_reader *r, const weir_ingest__schema_key *key) {
    size_t size = 0;
    for (uint32_t i = 0; i < key->column_count; i++)
        size += strlen(key->columns[i]) + 1;
    char *name = weir_ingest__schema_take(r, size + 1, 1), *at = name;
    for (uint32_t i = 0; i < key->column_count && name; i++)
        at = stpcpy(stpcpy(at, i == 0 ? "" : "+"), key->columns[i]);
    return name ? name : "";
}

/* The parent's primary key where the schema names no columns of it. */
static void settle_parent(weir_ingest__schema_reader *r, weir_ingest__schema_key *key, uint32_t to_count) {
    const weir_ingest__schema_table *parent = weir_ingest__schema_find_table(r->schema, key->table);
    if (!parent) {
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "table",
                                   "names a table that the schema does not have");
    } else if (!key->to && parent->primary_key_count != key->column_count) {
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, NULL,
                                   "has %u columns, but the primary key of %s has %u; say which with \"to\"",
                                   key->column_count, parent->name, parent->primary_key_count);
    } else if (!key->to) {
        key->to = parent->primary_key;
    } else if (to_count != key->column_count || has_repeated(key->to, to_count)) {
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "to",
                                   "must be as many different names as columns");
    }
}

static void read_key(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                     weir_ingest__schema_key *key) {
    static const char *const keys[] = {"columns", "table", "to", "name", "known_at", NULL};
    weir_cbor_value value;
    uint32_t to_count = 0;
    if (!weir_ingest__schema_is_map(r, map))
        return;
    weir_ingest__schema_only_keys(r, map, keys);
    key->columns = weir_ingest__schema_names(r, map, "columns", &key->column_count);
    if (r->status == WEIR_OK && (key->column_count < 1 || key->column_count > WEIR_INGEST__KEY_COLUMNS_MAX ||
                                 has_repeated(key->columns, key->column_count)))
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "columns", "must be 1 to %d different names",
                                   WEIR_INGEST__KEY_COLUMNS_MAX);
    key->table = weir_ingest__schema_text(r, map, "table", true);
    key->to = weir_ingest__schema_names(r, map, "to", &to_count);
    key->name = weir_ingest__schema_text(r, map, "name", false);
    key->has_known_at = weir_cbor_get(map, "known_at", &value);
    if (r->status != WEIR_OK)
        return;
    if (!key->name)
        key->name = default_name(r, key);
    else if (*key->name == 0)
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "name", "must not be empty");
    settle_parent(r, key, to_count);
}

/* A key that is written at its column. */
static void read_column_key(weir_ingest__schema_reader *r, const weir_cbor_value *value,
                            const weir_ingest__schema_column *column, weir_ingest__schema_key *key) {
    const char **names = weir_ingest__schema_take(r, 2, sizeof *names);
    weir_ingest__schema_name to = weir_ingest__schema_joined(r, value, "foreign_key", WEIR_SCHEMA_INVALID);
    if (!names)
        return;
    names[0] = column->name;
    names[1] = to.column;
    *key = (weir_ingest__schema_key){
        .name = column->name, .columns = names, .column_count = 1, .table = to.table, .to = names + 1};
}

static void check_names(weir_ingest__schema_reader *r, const weir_ingest__schema_table *table) {
    for (uint32_t i = 1; i < table->foreign_key_count && r->status == WEIR_OK; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(table->foreign_keys[i].name, table->foreign_keys[k].name) == 0)
                weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "foreign_keys",
                                           "%s is the name of two foreign keys; give one a \"name\"",
                                           table->foreign_keys[i].name);
}

static void read_table_keys(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                            weir_ingest__schema_table *table) {
    weir_cbor_value columns, column, value, list = {0}, item;
    bool has_list = weir_ingest__schema_find(map, "foreign_keys", &list);
    if (has_list && list.type != WEIR_CBOR_ARRAY) {
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, "foreign_keys", "must be a list");
        return;
    }
    size_t most = table->column_count + (has_list ? (size_t)list.number : 0);
    table->foreign_keys = weir_ingest__schema_take(r, most, sizeof *table->foreign_keys);
    if (!table->foreign_keys || !weir_cbor_get(map, "columns", &columns))
        return;
    size_t length = weir_ingest__schema_enter(r, "columns");
    for (uint32_t c = 0; c < table->column_count && r->status == WEIR_OK; c++) {
        if (!weir_cbor_get(&columns, table->columns[c].name, &column) ||
            !weir_ingest__schema_find(&column, "foreign_key", &value))
            continue;
        size_t inner = weir_ingest__schema_enter(r, table->columns[c].name);
        read_column_key(r, &value, &table->columns[c], &table->foreign_keys[table->foreign_key_count++]);
        weir_ingest__schema_leave(r, inner);
    }
    weir_ingest__schema_leave(r, length);
    weir_cbor_iterator it = weir_cbor_children(&list);
    length = weir_ingest__schema_enter(r, "foreign_keys");
    for (uint64_t i = 0; has_list && r->status == WEIR_OK && weir_cbor_next(&it, NULL, &item); i++) {
        size_t inner = weir_ingest__schema_enter_item(r, i);
        read_key(r, &item, &table->foreign_keys[table->foreign_key_count++]);
        weir_ingest__schema_leave(r, inner);
    }
    weir_ingest__schema_leave(r, length);
    check_names(r, table);
}

/* Calls `each` for every table with what the document says of it. */
static void for_each_table(weir_ingest__schema_reader *r, const weir_cbor_value *tables,
                           void (*each)(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                                        weir_ingest__schema_table *table)) {
    weir_cbor_value map;
    for (uint32_t t = 0; t < r->schema->table_count && r->status == WEIR_OK; t++) {
        weir_ingest__schema_table *table = &r->schema->tables[t];
        if (!weir_cbor_get(tables, table->name, &map))
            continue;
        size_t length = weir_ingest__schema_enter(r, table->name);
        each(r, &map, table);
        weir_ingest__schema_leave(r, length);
    }
}

void weir_ingest__schema_read_keys(weir_ingest__schema_reader *r, const weir_cbor_value *tables) {
    for_each_table(r, tables, read_table_keys);
}

/* ---- Times ------------------------------------------------------------------------------------- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* The next part of "a -> b -> c", without the blanks around it; moves `at` behind the arrow, to NULL at the
 * end. */
static const char *next_part(weir_ingest__schema_reader *r, const char **at) {
    const char *arrow = strstr(*at, "->"), *first = *at;
    const char *end = arrow ? arrow : first + strlen(first);
    *at = arrow ? arrow + 2 : NULL;
    while (first < end && is_blank(*first))
        first++;
    while (end > first && is_blank(end[-1]))
        end--;
    return weir_ingest__schema_copy(r, first, (size_t)(end - first));
}

/* Splits the text form. Behind each foreign key stands the table that it leads to, and a dot. */
static void split_time(weir_ingest__schema_reader *r, const weir_ingest__schema_table *table, const char *key,
                       const char *text, weir_ingest__schema_time *out) {
    const char **names = weir_ingest__schema_take(r, WEIR_INGEST__TIME_KEYS_MAX + 2, sizeof *names);
    const char *at = text;
    out->names = names;
    while (at && r->status == WEIR_OK && out->count < WEIR_INGEST__TIME_KEYS_MAX + 2) {
        const char *part = next_part(r, &at);
        if (out->count > 0) {
            const weir_ingest__schema_key *before =
                weir_ingest__schema_find_key(table, names[out->count - 1]);
            if (!before) {
                weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, key,
                                           "says %s, but %s has no foreign key %s", text, table->name,
                                           names[out->count - 1]);
                return;
            }
            size_t size = strlen(before->table);
            if (strncmp(part, before->table, size) != 0 || part[size] != '.') {
                weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, key,
                                           "says %s, but %s leads to %s: say %s.COLUMN behind it", text,
                                           names[out->count - 1], before->table, before->table);
                return;
            }
            table = weir_ingest__schema_find_table(r->schema, before->table);
            part += size + 1;
        }
        names[out->count++] = part;
    }
}

/* Foreign keys that are there, then a timestamp column. */
static void check_time(weir_ingest__schema_reader *r, const weir_ingest__schema_table *table, const char *key,
                       const weir_ingest__schema_time *time) {
    if (r->status == WEIR_OK && (time->count == 0 || time->count > WEIR_INGEST__TIME_KEYS_MAX + 1))
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, key,
                                   "must be a column, or at most %d foreign keys and a column",
                                   WEIR_INGEST__TIME_KEYS_MAX);
    for (uint32_t i = 0; i + 1 < time->count && r->status == WEIR_OK; i++) {
        const weir_ingest__schema_key *step = weir_ingest__schema_find_key(table, time->names[i]);
        if (!step)
            weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, key,
                                       "goes through %s, which is not a foreign key of %s", time->names[i],
                                       table->name);
        else
            table = weir_ingest__schema_find_table(r->schema, step->table);
    }
    if (r->status != WEIR_OK)
        return;
    const char *name = time->names[time->count - 1];
    const weir_ingest__schema_column *column = weir_ingest__schema_find_column(table, name);
    if (!column)
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, key,
                                   "names %s, which is not among the columns of %s", name, table->name);
    else if (column->stype != WEIR_TIMESTAMP)
        weir_ingest__schema_refuse(r, WEIR_SCHEMA_INVALID, key, "names %s.%s, which is not a timestamp",
                                   table->name, name);
}

static void read_time(weir_ingest__schema_reader *r, const weir_ingest__schema_table *table,
                      const weir_cbor_value *map, const char *key, weir_ingest__schema_time *out) {
    weir_cbor_value value;
    if (r->status != WEIR_OK || !weir_ingest__schema_find(map, key, &value))
        return;
    out->names = weir_ingest__schema_list(r, &value, key, &out->count);
    bool is_text = value.type == WEIR_CBOR_TEXT && r->status == WEIR_OK;
    if (is_text && strstr(out->names[0], "->") && !weir_ingest__schema_find_column(table, out->names[0])) {
        const char *text = out->names[0];
        out->count = 0;
        split_time(r, table, key, text, out);
    }
    check_time(r, table, key, out);
}

static void read_table_times(weir_ingest__schema_reader *r, const weir_cbor_value *map,
                             weir_ingest__schema_table *table) {
    weir_cbor_value columns, column, list, item;
    read_time(r, table, map, "temporal_column", &table->temporal);
    size_t length = weir_ingest__schema_enter(r, "columns");
    for (uint32_t c = 0; c < table->column_count && weir_cbor_get(map, "columns", &columns); c++) {
        if (!weir_cbor_get(&columns, table->columns[c].name, &column))
            continue;
        size_t inner = weir_ingest__schema_enter(r, table->columns[c].name);
        read_time(r, table, &column, "known_at", &table->columns[c].known_at);
        weir_ingest__schema_leave(r, inner);
    }
    weir_ingest__schema_leave(r, length);
    if (!weir_ingest__schema_find(map, "foreign_keys", &list))
        return;
    uint32_t key = table->foreign_key_count - WEIR__NARROW(uint32_t, list.number); /* they stand last */
    weir_cbor_iterator it = weir_cbor_children(&list);
    length = weir_ingest__schema_enter(r, "foreign_keys");
    for (uint64_t i = 0; r->status == WEIR_OK && weir_cbor_next(&it, NULL, &item); i++) {
        size_t inner = weir_ingest__schema_enter_item(r, i);
        read_time(r, table, &item, "known_at", &table->foreign_keys[key++].known_at);
        weir_ingest__schema_leave(r, inner);
    }
    weir_ingest__schema_leave(r, length);
}

void weir_ingest__schema_read_times(weir_ingest__schema_reader *r, const weir_cbor_value *tables) {
    for_each_table(r, tables, read_table_times);
}

bool weir_ingest__schema_times_equal(const weir_ingest__schema_time *a, const weir_ingest__schema_time *b) {
    if (a->count != b->count)
        return false;
    for (uint32_t i = 0; i < a->count; i++)
        if (strcmp(a->names[i], b->names[i]) != 0)
            return false;
    return true;
}

/* ---- Writing ------------------------------------------------------------------------------------- */

bool weir_ingest__json_joined_name(weir_json_writer *w, const weir_env *env, const char *table,
                                   const char *column, weir_ingest__is_table is_table, const void *context) {
    size_t table_size = strlen(table), size = table_size + strlen(column) + 1;
    char *text = weir__allocate(env, size + 1, 1);
    if (!text)
        return false;
    stpcpy(stpcpy(stpcpy(text, table), "."), column);
    if (find_dot(text, size, is_table, context) == table_size) {
        weir_json_text(w, text);
    } else {
        weir_json_array(w);
        weir_json_text(w, table);
        weir_json_text(w, column);
        weir_json_end_array(w);
    }
    weir__release(env, text);
    return true;
}

/* Whether a name reads back from the text form: no arrow in it, no blank at its ends. */
static bool is_plain(const char *name) {
    size_t size = strlen(name);
    return size > 0 && !strstr(name, "->") && !is_blank(name[0]) && !is_blank(name[size - 1]) &&
           name[0] != '>' && name[size - 1] != '-';
}

bool weir_ingest__json_time(weir_json_writer *w, const weir_env *env, const char *const *keys,
                            const char *const *tables, uint32_t key_count, const char *column) {
    bool can_be_text = is_plain(column);
    size_t size = strlen(column) + 1;
    for (uint32_t i = 0; i < key_count; i++) {
        can_be_text = can_be_text && is_plain(keys[i]) && is_plain(tables[i]);
        size += strlen(keys[i]) + strlen(tables[i]) + strlen(" -> .");
    }
    if (!can_be_text) {
        weir_json_array(w);
        for (uint32_t i = 0; i < key_count; i++)
            weir_json_text(w, keys[i]);
        weir_json_text(w, column);
        weir_json_end_array(w);
        return true;
    }
    char *text = weir__allocate(env, size, 1), *at = text;
    if (!text)
        return false;
    for (uint32_t i = 0; i < key_count; i++) {
        at = stpcpy(at, keys[i]);
        at = stpcpy(stpcpy(stpcpy(at, " -> "), tables[i]), ".");
    }
    stpcpy(at, column);
    weir_json_text(w, text);
    weir__release(env, text);
    return true;
}
