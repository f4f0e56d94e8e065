/* The tasks of a schema: their queries, anchors, targets and splits. Types are SCHEMA_INVALID, what a task
 * means is TASK_INVALID. */
#include <string.h>

#include "base/duration.h"
#include "ingest/schema_reader.h"

/* ---- split ------------------------------------------------------------------------------------- */

static weir_status read_permille(weir__reader *r, const weir__field *field, const weir_cbor_value *list,
                                 void *object) {
    weir_ingest__schema_split *split = &((weir_ingest__schema_task *)object)->split;
    bool is_list = list->type == WEIR_CBOR_ARRAY && list->number == WEIR_SPLITS;
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    uint64_t sum = 0, part;
    for (int i = 0; is_list && weir_cbor_next(&it, NULL, &item); i++) {
        is_list = weir_cbor_get_uint(&item, &part) && part <= 1000;
        split->permille[i] = is_list ? WEIR__NARROW(uint32_t, part) : 0;
        sum += split->permille[i];
    }
    return is_list && sum == 1000
               ? WEIR_OK
               : weir__refuse(r, field->name, "must be three whole numbers that add up to 1000");
}

static weir_status read_split_time(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                   void *object) {
    const weir_ingest__schema_task *task = object;
    r->family = WEIR_SCHEMA_INVALID;
    return weir_ingest__schema_moment(r, field->name, value, &task->form.unit,
                                      (void *)((char *)object + field->offset));
}

static const char *const methods[] = {"hash", "temporal", "column", NULL};

#define METHOD                                                                                               \
    { "method", WEIR__WORD(weir_ingest__schema_task, split.method, methods), .family = WEIR_TASK_INVALID }
#define SPLIT_TIME(member)                                                                                   \
    WEIR__OTHER(read_split_time, NULL), WEIR__AT(weir_ingest__schema_task, split.member),                    \
        .flags = WEIR__REQUIRED, .family = WEIR_TASK_INVALID

static const weir__field hash_fields[] = {
    METHOD,
    {"permille", WEIR__OTHER(read_permille, NULL), .family = WEIR_TASK_INVALID},
    {"seed", WEIR__UINT(weir_ingest__schema_task, split.seed, 0, UINT64_MAX)},
};
static const weir__field temporal_fields[] = {
    METHOD,
    {"val", SPLIT_TIME(val)},
    {"test", SPLIT_TIME(test)},
};
static const weir__field column_fields[] = {
    METHOD,
    {"column", WEIR__TEXT(weir_ingest__schema_task, split.column), .flags = WEIR__REQUIRED,
     .family = WEIR_TASK_INVALID},
};
static const weir__shape split_shapes[] = {WEIR__SHAPE(weir_ingest__schema_task, hash_fields),
                                           WEIR__SHAPE(weir_ingest__schema_task, temporal_fields),
                                           WEIR__SHAPE(weir_ingest__schema_task, column_fields)};

/* The method says which other keys there are. */
static weir_status read_split(weir__reader *r, const weir__field *field, const weir_cbor_value *map,
                              void *object) {
    weir_cbor_value method;
    size_t outer = weir__enter(r, field->name, strlen(field->name)), i = 0;
    if (weir_cbor_get(map, "method", &method) && method.type != WEIR_CBOR_NULL) {
        while (methods[i] && !weir_cbor_is_text(&method, methods[i]))
            i++;
        if (!methods[i]) {
            r->family = method.type == WEIR_CBOR_TEXT ? WEIR_TASK_INVALID : r->family;
            return weir__refuse(r, "method", "must be hash, temporal or column");
        }
    }
    WEIR__TRY(weir__read(r, map, &split_shapes[i], object));
    weir__leave(r, outer);
    return WEIR_OK;
}

/* ---- Other fields ------------------------------------------------------------------------------ */

static weir_status read_dropped(weir__reader *r, const weir__field *field, const weir_cbor_value *list,
                                void *object) {
    weir_ingest__schema_task *task = object;
    weir_cbor_iterator it = weir_cbor_children(list);
    weir_cbor_value item;
    if (list->type != WEIR_CBOR_ARRAY)
        return weir__refuse(r, field->name, "must be a list of columns");
    WEIR__TRY(weir__reader_take(r, (size_t)list->number, sizeof *task->drop_columns, &task->drop_columns));
    weir_status family = r->family;
    for (; weir_cbor_next(&it, NULL, &item); r->family = family)
        WEIR__TRY(weir_ingest__schema_joined(r, field->name, &item, WEIR_TASK_INVALID,
                                             &task->drop_columns[task->drop_column_count++]));
    return WEIR_OK;
}

static weir_status read_popularity(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                   void *object) {
    return weir_ingest__schema_joined(r, field->name, value, WEIR_TASK_INVALID,
                                      &((weir_ingest__schema_task *)object)->popularity);
}

/* "30d", "12h", or microseconds. */
static weir_status read_horizon(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                void *object) {
    weir_ingest__schema_task *task = object;
    bool is_text = value->type == WEIR_CBOR_TEXT;
    if (is_text ? !weir__duration_parse((const char *)value->data, (size_t)value->number, &task->horizon)
                : value->type != WEIR_CBOR_UINT || value->number >= INT64_MAX)
        return weir__refuse(r, field->name,
                            "must be a duration such as \"30d\" or \"12h\" (us, ms, s, m, h, d or w), or "
                            "microseconds");
    if (!is_text)
        task->horizon = (int64_t)value->number;
    if (task->label_known_column)
        return weir__refuse(r, field->name,
                            "stands beside label_known_column; one of the two says when a label is known");
    return WEIR_OK;
}

/* Of the words of columns, those that no target can have are refused by check_task. */
static weir_status read_target_stype(weir__reader *r, const weir__field *field, const weir_cbor_value *value,
                                     void *object) {
    for (size_t i = 0; weir_ingest__stypes[i]; i++)
        if (weir_cbor_is_text(value, weir_ingest__stypes[i]))
            return weir__read_plain(r, field, value, object);
    return weir__refuse(r, field->name, "must be one of %s", weir_store__targets);
}

static bool is_link(const void *object) {
    return ((const weir_ingest__schema_task *)object)->kind == WEIR_INGEST__KIND_LINK;
}

static bool is_no_link(const void *object) {
    return !is_link(object);
}

static bool has_no_query(const void *object) {
    return !((const weir_ingest__schema_task *)object)->query;
}

/* ---- Checks across fields ---------------------------------------------------------------------- */

/* Refuses the first of some keys that the task has. */
static weir_status refuse_given(const weir__reader *r, const char *const *keys, const char *why) {
    weir_cbor_value value;
    for (; *keys; keys++)
        if (weir_cbor_get(r->map, *keys, &value) && value.type != WEIR_CBOR_NULL)
            return weir__refuse(r, *keys, "%s", why);
    return WEIR_OK;
}

/* A key of the query has as many columns as the table's primary key. */
static weir_status check_key(const weir__reader *r, const char *name, uint32_t count,
                             const char *key_of_table, const char *key_of_key) {
    const weir_ingest__schema_table *table = weir_ingest__schema_find_table(r->context, name);
    if (!table)
        return weir__refuse(r, key_of_table, "names a table that the schema does not have");
    if (table->primary_key_count == 0)
        return weir__refuse(r, key_of_table, "names %s, which has no primary_key to find rows by",
                            table->name);
    if (table->primary_key_count != count)
        return weir__refuse(r, key_of_key, "has %u columns, but the primary key of %s has %u", count,
                            table->name, table->primary_key_count);
    return WEIR_OK;
}

static weir_status check_link(const weir__reader *r, weir_ingest__schema_task *task) {
    static const char *const of_others[] = {"target_column",
                                            "target_stype",
                                            "target_statistics",
                                            "weight_column",
                                            "horizon",
                                            "label_known_column",
                                            NULL};
    static const char needed[] = "is missing; a link task needs it";
    WEIR__TRY(refuse_given(r, of_others,
                           "is not for a link task, whose target is true for every pair of the query"));
    if (!task->query)
        return weir__refuse(r, "query", needed);
    if (!task->observation_time_column)
        return weir__refuse(r, "observation_time_column", needed);
    if (task->destination_key_count == 0)
        return weir__refuse(r, "destination_key", needed);
    task->target_column = WEIR_INGEST__LINK_COLUMN;
    task->target_stype = WEIR_BOOLEAN;
    WEIR__TRY(check_key(r, task->destination_table, task->destination_key_count, "destination_table",
                        "destination_key"));
    /* A foreign key of the schema that leads to the destinations. */
    if (!task->popularity.table)
        return WEIR_OK;
    const weir_ingest__schema_key *key = weir_ingest__schema_find_key(
        weir_ingest__schema_find_table(r->context, task->popularity.table), task->popularity.column);
    if (key && strcmp(key->table, task->destination_table) == 0)
        return WEIR_OK;
    return weir__refuse(r, "popularity", "must be a foreign key that leads to %s", task->destination_table);
}

/* Without a query every row of the anchor table is a seed, at its own time: a cell task. */
static weir_status check_all_rows(const weir__reader *r, weir_ingest__schema_task *task) {
    static const char *const for_queries[] = {"anchor_key",
                                              "anchor_key_is",
                                              "observation_time_column",
                                              "before_anchor",
                                              "unit",
                                              "format",
                                              "horizon",
                                              "label_known_column",
                                              NULL};
    WEIR__TRY(refuse_given(r, for_queries, "needs a query"));
    if (task->kind == WEIR_INGEST__KIND_DERIVED)
        return weir__refuse(r, "kind", "is derived, which needs a query");
    if (task->split.method == WEIR_INGEST__SPLIT_COLUMN)
        return weir__refuse(r, "split", "has the method column, which needs a query");
    if (!weir_ingest__schema_find_table(r->context, task->anchor_table))
        return weir__refuse(r, "anchor_table", "names a table that the schema does not have");
    task->kind = WEIR_INGEST__KIND_CELL;
    return WEIR_OK;
}

static weir_status check_task(weir__reader *r, void *object) {
    static const char *const of_links[] = {"destination_table", "destination_key", "popularity", NULL};
    weir_ingest__schema_task *task = object;
    weir_status family = r->family;
    r->family = WEIR_TASK_INVALID;
    if (is_link(task))
        WEIR__TRY(check_link(r, task));
    else
        WEIR__TRY(refuse_given(r, of_links, "needs \"kind\": \"link\""));
    if (!weir_store__stype_can_be_target(task->target_stype))
        return weir__refuse(r, "target_stype", "must be one of %s", weir_store__targets);
    if (task->query)
        WEIR__TRY(check_key(r, task->anchor_table, task->anchor_key_count, "anchor_table", "anchor_key"));
    else
        WEIR__TRY(check_all_rows(r, task));
    const uint32_t *given = task->split.permille;
    if (given[WEIR_TRAIN] + given[WEIR_VAL] + given[WEIR_TEST] == 0)
        memcpy(task->split.permille, (uint32_t[]){800, 100, 100}, sizeof task->split.permille);
    r->family = family;
    return WEIR_OK;
}

const char *weir_ingest__task_name(weir__arena *arena, const char *table, const char *column,
                                   const char *const *others, uint32_t count) {
    const char *name = weir__arena_format(arena, "%s.%s", table, column);
    for (uint32_t number = 2; name && weir_ingest__names_have(others, count, name); number++)
        name = weir__arena_format(arena, "%s.%s#%u", table, column, number);
    return name;
}

/* ---- The table --------------------------------------------------------------------------------- */

static const char *const kinds[] = {"", "cell", "derived", "link", NULL};
static const char *const key_meanings[] = {"", "primary_key", NULL};
static const char *const statistics[] = {"all", "train", NULL};

#define TEXT(member)        WEIR__TEXT(weir_ingest__schema_task, member)
#define WORD(member, words) WEIR__WORD(weir_ingest__schema_task, member, words), .family = WEIR_TASK_INVALID

static const weir__field fields[] = {
    {"query", TEXT(query)},
    {"anchor_table", TEXT(anchor_table), .flags = WEIR__REQUIRED},
    {"anchor_key", WEIR__NAMES(weir_ingest__schema_task, anchor_key, anchor_key_count),
     .flags = WEIR__REQUIRED, .is_absent = has_no_query},
    {"anchor_key_is", WORD(is_key_for_sure, key_meanings), .least = 1},
    {"kind", WORD(kind, kinds), .least = WEIR_INGEST__KIND_CELL},
    {"target_column", TEXT(target_column), .flags = WEIR__REQUIRED, .is_absent = is_link},
    {"target_stype", WEIR__WORD(weir_ingest__schema_task, target_stype, weir_ingest__stypes),
     .read = read_target_stype, .flags = WEIR__REQUIRED, .is_absent = is_link},
    {"destination_table", TEXT(destination_table), .flags = WEIR__REQUIRED, .is_absent = is_no_link},
    {"destination_key", WEIR__NAMES(weir_ingest__schema_task, destination_key, destination_key_count)},
    {"popularity", WEIR__OTHER(read_popularity, NULL)},
    {"observation_time_column", TEXT(observation_time_column)},
    {"weight_column", TEXT(weight_column)},
    {"label_known_column", TEXT(label_known_column)},
    {"horizon", WEIR__OTHER(read_horizon, NULL), .has = offsetof(weir_ingest__schema_task, has_horizon),
     .family = WEIR_TASK_INVALID},
    WEIR_INGEST__FORM(weir_ingest__schema_task),
    {"before_anchor", WORD(before_anchor, weir_store__before_anchors)},
    {"target_statistics", WORD(has_train_statistics, statistics)},
    {"drop_columns", WEIR__OTHER(read_dropped, NULL)},
    {"split", WEIR__OTHER(read_split, NULL)},
};
const weir__shape weir_ingest__schema_task_shape =
    WEIR__SHAPE(weir_ingest__schema_task, fields, .check = check_task);
