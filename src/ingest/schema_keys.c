/* What joins the tables of a schema: foreign keys, and times that go through them. And the two ways to
 * write a joined name: as text, for people, and as a list, for names that hold dots or arrows
 * (docs/spec/04-store-additions.md, Names). */
#include <string.h>

#include "ingest/schema_reader.h"

/* ---- table.column ------------------------------------------------------------------------------ */

/* Where the dot is: the first after the name of a table. SIZE_MAX if there is none. */
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

weir_status weir_ingest__schema_joined(weir__reader *r, const char *key, const weir_cbor_value *value,
                                       weir_status family, weir_ingest__schema_name *out) {
    static const char missing[] = "names a table that the schema does not have";
    const weir_ingest__schema *schema = r->context;
    if (value->type == WEIR_CBOR_ARRAY) {
        weir_time_path list;
        weir__field field = {key, WEIR__NAMES(weir_time_path, names, count)};
        WEIR__TRY(weir__read_plain(r, &field, value, &list));
        r->family = family;
        if (list.count != 2)
            return weir__refuse(r, key, "must be table.column, or a list of table and column");
        *out = (weir_ingest__schema_name){list.names[0], list.names[1]};
        return weir_ingest__schema_find_table(schema, out->table) ? WEIR_OK : weir__refuse(r, key, missing);
    }
    weir_cbor_value table = *value, column = *value;
    size_t size = value->type == WEIR_CBOR_TEXT ? (size_t)value->number : 0;
    size_t dot = find_dot((const char *)value->data, size, is_schema_table, schema);
    r->family = family;
    if (size == 0 || !memchr(value->data, '.', size))
        return weir__refuse(r, key, "must be table.column");
    if (dot == SIZE_MAX)
        return weir__refuse(r, key, missing);
    table.number = dot;
    column.data += dot + 1;
    column.number -= dot + 1;
    WEIR__TRY(weir__reader_copy(r, &table, &out->table));
    return weir__reader_copy(r, &column, &out->column);
}

/* ---- Foreign keys ------------------------------------------------------------------------------ */

static weir_status settle_key(weir__reader *r, weir_ingest__schema_key *key) {
    if (key->column_count < 1 || key->column_count > WEIR_INGEST__KEY_COLUMNS_MAX ||
        !weir_ingest__names_differ(key->columns, key->column_count))
        return weir__refuse(r, "columns", "must be 1 to %d different names", WEIR_INGEST__KEY_COLUMNS_MAX);
    if (key->name && *key->name == 0)
        return weir__refuse(r, "name", "must not be empty");
    if (!key->name) { /* it is the columns' names joined by "+" */
        size_t size = 1;
        char *name;
        for (uint32_t i = 0; i < key->column_count; i++)
            size += strlen(key->columns[i]) + 1;
        WEIR__TRY(weir__reader_take(r, size, 1, &name));
        key->name = name;
        for (uint32_t i = 0; i < key->column_count; i++)
            name = stpcpy(stpcpy(name, i == 0 ? "" : "+"), key->columns[i]);
    }
    /* The parent's primary key if the schema names no columns of it. */
    const weir_ingest__schema_table *parent = weir_ingest__schema_find_table(r->context, key->table);
    if (!parent)
        return weir__refuse(r, "table", "names a table that the schema does not have");
    if (!key->to && parent->primary_key_count != key->column_count)
        return weir__refuse(r, NULL,
                            "has %u columns, but the primary key of %s has %u; say which with \"to\"",
                            key->column_count, parent->name, parent->primary_key_count);
    if (!key->to)
        key->to = parent->primary_key;
    else if (key->to_count != key->column_count || !weir_ingest__names_differ(key->to, key->to_count))
        return weir__refuse(r, "to", "must be as many different names as columns");
    return WEIR_OK;
}

static bool is_written(const weir_cbor_value *value) {
    return value->item && value->type != WEIR_CBOR_NULL;
}

/* Two steps down: "columns" and a column's name. */
static size_t enter_column(weir__reader *r, const weir_ingest__schema_column *column) {
    size_t outer = weir__enter(r, "columns", strlen("columns"));
    (void)weir__enter(r, column->name, strlen(column->name));
    return outer;
}

static size_t enter_key(weir__reader *r, uint32_t number) {
    size_t outer = weir__enter(r, "foreign_keys", strlen("foreign_keys"));
    (void)weir__enter_item(r, number);
    return outer;
}

static weir_status read_table_keys(weir__reader *r, weir_ingest__schema_table *table) {
    WEIR__TRY(weir__reader_take(r, (size_t)table->column_count + table->listed_key_count,
                                sizeof *table->foreign_keys, &table->foreign_keys));
    for (uint32_t c = 0; c < table->column_count; c++) { /* those that are written at their columns */
        const weir_ingest__schema_column *column = &table->columns[c];
        const char **names;
        weir_ingest__schema_name to;
        if (!is_written(&column->written_key))
            continue;
        size_t outer = enter_column(r, column);
        WEIR__TRY(weir_ingest__schema_joined(r, "foreign_key", &column->written_key, r->family, &to));
        WEIR__TRY(weir__reader_take(r, 2, sizeof *names, &names));
        weir__leave(r, outer);
        names[0] = column->name;
        names[1] = to.column;
        table->foreign_keys[table->foreign_key_count++] = (weir_ingest__schema_key){
            .name = column->name, .columns = names, .column_count = 1, .table = to.table, .to = names + 1};
    }
    for (uint32_t i = 0; i < table->listed_key_count; i++) {
        size_t outer = enter_key(r, i);
        WEIR__TRY(settle_key(r, &table->listed_keys[i]));
        weir__leave(r, outer);
        table->foreign_keys[table->foreign_key_count++] = table->listed_keys[i];
    }
    for (uint32_t i = 1; i < table->foreign_key_count; i++)
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(table->foreign_keys[i].name, table->foreign_keys[k].name) == 0)
                return weir__refuse(r, "foreign_keys",
                                    "%s is the name of two foreign keys; give one a \"name\"",
                                    table->foreign_keys[i].name);
    return WEIR_OK;
}

/* ---- Times ------------------------------------------------------------------------------------- */

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

/* The next part of "a -> b -> c", without the blanks around it; moves `at` to what follows the arrow, to NULL
 * at the end. */
static weir_status next_part(weir__reader *r, const char **at, const char **part) {
    const char *arrow = strstr(*at, "->"), *first = *at;
    const char *end = arrow ? arrow : first + strlen(first);
    *at = arrow ? arrow + 2 : NULL;
    while (first < end && is_blank(*first))
        first++;
    while (end > first && is_blank(end[-1]))
        end--;
    weir_cbor_value text = {.data = (const uint8_t *)first, .number = (uint64_t)(end - first)};
    return weir__reader_copy(r, &text, part);
}

/* Splits the text form. After each foreign key stands the table that it leads to, and a dot. */
static weir_status split_time(weir__reader *r, const weir_ingest__schema_table *table, const char *key,
                              weir_time_path *out) {
    const char *text = out->names[0], *at = text, **names;
    WEIR__TRY(weir__reader_take(r, WEIR_INGEST__TIME_KEYS_MAX + 2, sizeof *names, &names));
    *out = (weir_time_path){.names = names};
    while (at && out->count < WEIR_INGEST__TIME_KEYS_MAX + 2) {
        const char *part;
        WEIR__TRY(next_part(r, &at, &part));
        if (out->count > 0) {
            const char *last = names[out->count - 1];
            const weir_ingest__schema_key *before = weir_ingest__schema_find_key(table, last);
            if (!before)
                return weir__refuse(r, key, "says %s, but %s has no foreign key %s", text, table->name, last);
            size_t size = strlen(before->table);
            if (strncmp(part, before->table, size) != 0 || part[size] != '.')
                return weir__refuse(r, key, "says %s, but %s leads to %s: say %s.COLUMN after it", text, last,
                                    before->table, before->table);
            table = weir_ingest__schema_find_table(r->context, before->table);
            part += size + 1;
        }
        names[out->count++] = part;
    }
    return WEIR_OK;
}

/* Foreign keys that are there, then a timestamp column. */
static weir_status read_time(weir__reader *r, const weir_ingest__schema_table *table, const char *key,
                             const weir_cbor_value *written, weir_time_path *out) {
    weir__field field = {key, WEIR__NAMES(weir_time_path, names, count)};
    if (!is_written(written))
        return WEIR_OK;
    WEIR__TRY(weir__read_plain(r, &field, written, out));
    if (written->type == WEIR_CBOR_TEXT && strstr(out->names[0], "->") &&
        !weir_ingest__schema_find_column(table, out->names[0]))
        WEIR__TRY(split_time(r, table, key, out));
    if (out->count == 0 || out->count > WEIR_INGEST__TIME_KEYS_MAX + 1)
        return weir__refuse(r, key, "must be a column, or at most %d foreign keys and a column",
                            WEIR_INGEST__TIME_KEYS_MAX);
    for (uint32_t i = 0; i + 1 < out->count; i++) {
        const weir_ingest__schema_key *step = weir_ingest__schema_find_key(table, out->names[i]);
        if (!step)
            return weir__refuse(r, key, "goes through %s, which is not a foreign key of %s", out->names[i],
                                table->name);
        table = weir_ingest__schema_find_table(r->context, step->table);
    }
    const char *name = out->names[out->count - 1];
    const weir_ingest__schema_column *column = weir_ingest__schema_find_column(table, name);
    if (!column)
        return weir__refuse(r, key, "names %s, which is not among the columns of %s", name, table->name);
    if (weir_value_of(column->stype) != WEIR_VALUE_TIME)
        return weir__refuse(r, key, "names %s.%s, which is not a timestamp", table->name, name);
    return WEIR_OK;
}

static weir_status read_table_times(weir__reader *r, weir_ingest__schema_table *table) {
    WEIR__TRY(read_time(r, table, "temporal_column", &table->written_temporal, &table->temporal));
    for (uint32_t c = 0; c < table->column_count; c++) {
        weir_ingest__schema_column *column = &table->columns[c];
        size_t outer = enter_column(r, column);
        WEIR__TRY(read_time(r, table, "known_at", &column->written_known_at, &column->known_at));
        weir__leave(r, outer);
    }
    uint32_t first = table->foreign_key_count - table->listed_key_count;
    for (uint32_t i = 0; i < table->listed_key_count; i++) {
        weir_ingest__schema_key *key = &table->foreign_keys[first + i];
        size_t outer = enter_key(r, i);
        WEIR__TRY(read_time(r, table, "known_at", &key->written_known_at, &key->known_at));
        weir__leave(r, outer);
    }
    return WEIR_OK;
}

weir_status weir_ingest__schema_join_tables(weir__reader *r, weir_ingest__schema *schema) {
    size_t outer = weir__enter(r, "tables", strlen("tables"));
    for (uint32_t i = 0; i < 2 * schema->table_count; i++) { /* all keys, then all times */
        weir_ingest__schema_table *table = &schema->tables[i % schema->table_count];
        size_t inner = weir__enter(r, table->name, strlen(table->name));
        WEIR__TRY((i < schema->table_count ? read_table_keys : read_table_times)(r, table));
        weir__leave(r, inner);
    }
    weir__leave(r, outer);
    return WEIR_OK;
}

/* ---- Writing ------------------------------------------------------------------------------------- */

void weir_ingest__json_joined_name(weir_json_writer *w, weir__arena *arena, const char *table,
                                   const char *column, weir_ingest__is_table is_table, const void *context) {
    const char *text = weir__arena_format(arena, "%s.%s", table, column);
    if (!text)
        return;
    if (find_dot(text, strlen(text), is_table, context) == strlen(table)) {
        weir_json_text(w, text);
    } else {
        weir_json_array(w);
        weir_json_text(w, table);
        weir_json_text(w, column);
        weir_json_end_array(w);
    }
}

/* Whether a name reads back from the text form: no arrow in it, no blank at its ends. */
static bool is_plain(const char *name) {
    size_t size = strlen(name);
    return size > 0 && !strstr(name, "->") && !is_blank(name[0]) && !is_blank(name[size - 1]) &&
           name[0] != '>' && name[size - 1] != '-';
}

void weir_ingest__json_time(weir_json_writer *w, weir__arena *arena, const char *const *keys,
                            const char *const *tables, uint32_t key_count, const char *column) {
    bool can_be_text = is_plain(column);
    const char *text = "";
    for (uint32_t i = 0; i < key_count && text; i++) {
        can_be_text = can_be_text && is_plain(keys[i]) && is_plain(tables[i]);
        text = weir__arena_format(arena, "%s%s -> %s.", text, keys[i], tables[i]);
    }
    if (!can_be_text) {
        weir_json_array(w);
        for (uint32_t i = 0; i < key_count; i++)
            weir_json_text(w, keys[i]);
        weir_json_text(w, column);
        weir_json_end_array(w);
        return;
    }
    text = text ? weir__arena_format(arena, "%s%s", text, column) : NULL;
    if (text)
        weir_json_text(w, text);
}
