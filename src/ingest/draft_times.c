/* When a row came to be, in a draft: a column whose name says so and that is not later than what refers to
 * the row, else the time of the one parent that has one (docs/spec/04-draft.md, 5). Comparisons are made on
 * the rows whose keys are in the sample of the key, so that memory does not grow with tables. */
#include <string.h>

#include "ingest/draft.h"

enum { CANDIDATES_MAX = 8 };

/* ---- Candidates ------------------------------------------------------------------------------ */

typedef struct candidates {
    uint32_t columns[CANDIDATES_MAX]; /* in order of preference */
    uint32_t count;
    uint32_t first_late; /* of those with a late word */
} candidates;

/* What speaks against a name, or NULL. */
static const char *forbidden_word(const weir_ingest__words *words) {
    if (weir_ingest__words_have(words, WEIR_INGEST__BIRTH_WORDS))
        return "a birth is not when the row came to be";
    if (weir_ingest__words_have(words, WEIR_INGEST__CHANGE_WORDS))
        return "the name says when the row was changed last, not when it came to be";
    if (weir_ingest__words_have(words, WEIR_INGEST__FUTURE_WORDS))
        return "the name says when something is to happen";
    return NULL;
}

/* Why a timestamp column is not when the row came to be, or NULL. */
static const char *objection(const weir_ingest__draft_table *table, const weir_ingest__draft_column *column) {
    const char *forbidden = forbidden_word(&column->words);
    if (forbidden)
        return forbidden;
    if (!weir_ingest__name_sounds_like_row_time(&column->words))
        return "the name does not say when the row came to be";
    if (2 * column->values < table->row_count)
        return "more than half of the rows have none";
    return NULL;
}

static candidates find_candidates(const weir_ingest__draft_table *table) {
    candidates found = {0};
    uint32_t only = WEIR_NONE, time_count = 0;
    for (int late = 0; late < 2; late++) {
        for (uint32_t c = 0; c < table->column_count && found.count < CANDIDATES_MAX; c++) {
            const weir_ingest__draft_column *column = &table->columns[c];
            if (column->stype != WEIR_TIMESTAMP || objection(table, column) != NULL)
                continue;
            if (weir_ingest__words_have(&column->words, WEIR_INGEST__LATE_WORDS) == (late == 1))
                found.columns[found.count++] = c;
        }
        if (late == 0)
            found.first_late = found.count;
    }
    if (found.count > 0)
        return found;
    /* The only timestamp column, whatever its name, unless the name speaks against it. */
    for (uint32_t c = 0; c < table->column_count; c++)
        if (table->columns[c].stype == WEIR_TIMESTAMP) {
            only = c;
            time_count++;
        }
    if (time_count == 1 && table->columns[only].values == table->row_count &&
        !forbidden_word(&table->columns[only].words))
        found = (candidates){.columns = {only}, .count = 1, .first_late = 1};
    return found;
}

/* A cell as a time, by the form that was found; WEIR_TIME_ALWAYS if it is none. */
static int64_t time_of(const weir_ingest__draft_column *column, const weir_ingest__value *value) {
    int64_t micros;
    bool is_time = weir_ingest__to_time(value, &column->form, NULL, &micros) == WEIR_INGEST__FITS;
    return is_time ? micros : WEIR_TIME_ALWAYS;
}

typedef struct pair_view {
    const weir_ingest__draft_table *table;
    const candidates *found;
    uint64_t both[CANDIDATES_MAX][CANDIDATES_MAX];
    uint64_t later[CANDIDATES_MAX][CANDIDATES_MAX]; /* rows in which the first is later than the second */
} pair_view;

static bool see_pairs(void *context, const weir_ingest__value *cells) {
    pair_view *view = context;
    int64_t times[CANDIDATES_MAX];
    uint32_t count = view->found->count;
    for (uint32_t i = 0; i < count; i++)
        times[i] = time_of(&view->table->columns[view->found->columns[i]], &cells[i]);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (times[i] != WEIR_TIME_ALWAYS && times[k] != WEIR_TIME_ALWAYS) {
                view->both[i][k]++;
                view->later[i][k] += times[i] > times[k] ? 1 : 0;
            }
    return true;
}

/* Brings the first that is as early as all others of columns [from, to) to the front of them. */
static void prefer_earliest(const pair_view *view, candidates *found, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        bool is_earliest = true;
        for (uint32_t k = from; k < to; k++)
            is_earliest = is_earliest && view->later[i][k] * 10 <= view->both[i][k];
        if (!is_earliest)
            continue;
        uint32_t column = found->columns[i];
        memmove(found->columns + from + 1, found->columns + from, (i - from) * sizeof *found->columns);
        found->columns[from] = column;
        return;
    }
}

static weir_status order_candidates(weir_ingest__draft *draft, uint32_t t, candidates *found,
                                    weir_error *error) {
    if (found->count < 2)
        return WEIR_OK;
    pair_view view = {.table = &draft->tables[t], .found = found};
    WEIR__TRY(weir_ingest__draft_scan(draft, &draft->tables[t], found->columns, found->count, see_pairs,
                                      &view, error));
    candidates ordered = *found;
    prefer_earliest(&view, &ordered, 0, found->first_late);
    prefer_earliest(&view, &ordered, found->first_late, found->count);
    *found = ordered;
    return WEIR_OK;
}

/* ---- Times by key ---------------------------------------------------------------------------- */

/* The times of the rows whose key is in the sample of the key; several for each, one a candidate. */
typedef struct time_map {
    weir_ingest__sample keys; /* value: where its times begin */
    int64_t *times;
    size_t count;
    size_t capacity;
} time_map;

static void map_release(const weir_env *env, time_map *map) {
    weir_ingest__sample_release(&map->keys);
    weir__release(env, map->times);
}

/* The times of the row that has a key; NULL if it has none in the sample. */
static const int64_t *find_times(const time_map *map, const weir_ingest__value *key, uint32_t key_count) {
    uint64_t hash;
    const weir_ingest__sampled *found =
        weir_ingest__hash_key(key, key_count, &hash) ? weir_ingest__sample_find(&map->keys, hash) : NULL;
    return found ? map->times + found->value : NULL;
}

/* A scan of a table for times of its rows. */
typedef struct time_scan {
    weir_ingest__draft *draft;
    const weir_ingest__draft_table *table;
    const uint32_t *columns; /* of times; NULL: the row's time, its own or through a foreign key */
    uint32_t column_count;
    const uint32_t *key; /* of the table, by which the map has the times; */
    uint32_t key_count;
    time_map *map; /* NULL: they go into the sample */
    weir_ingest__sample *sample;
    const weir_ingest__draft_key *through; /* the foreign key, and the times of what it leads to */
    time_map parents;
} time_scan;

static bool see_times(void *context, const weir_ingest__value *cells) {
    time_scan *scan = context;
    time_map *map = scan->map;
    uint64_t hash = 0;
    int64_t found[CANDIDATES_MAX];
    uint32_t width = scan->through ? 1 : scan->column_count;
    if (map && (!weir_ingest__hash_key(cells, scan->key_count, &hash) ||
                !weir_ingest__sample_has_room_for(map->keys.level, hash)))
        return true;
    cells += scan->key_count;
    if (scan->through) {
        const int64_t *parent = find_times(&scan->parents, cells, scan->through->column_count);
        found[0] = parent ? *parent : WEIR_TIME_ALWAYS;
    } else {
        for (uint32_t i = 0; i < width; i++)
            found[i] = time_of(&scan->table->columns[scan->columns[i]], &cells[i]);
    }
    if (!map) {
        weir_ingest__value value = {.type = WEIR_INGEST__TIMESTAMP, .integer = found[0]};
        return found[0] == WEIR_TIME_ALWAYS ||
               weir_ingest__sample_add(scan->sample, weir_ingest__value_hash(&value), 1, found[0]);
    }
    void *times = map->times;
    if (!weir__grow(scan->draft->env, &times, &map->capacity, map->count + width, sizeof *map->times))
        return false;
    map->times = times;
    memcpy(map->times + map->count, found, width * sizeof *found);
    map->count += width;
    return weir_ingest__sample_add(&map->keys, hash, 1, (int64_t)(map->count - width));
}

/* Who has given a map releases it, also after a failure. */
static weir_status scan_times(time_scan *scan, weir_error *error) {
    const weir_ingest__draft_table *table = scan->table;
    uint32_t read[2 * WEIR_INGEST__KEY_COLUMNS_MAX];
    weir_status status = WEIR_OK;
    if (scan->map)
        weir_ingest__sample_init(&scan->map->keys, scan->draft->env);
    if (!scan->columns && table->time != WEIR_NONE) {
        scan->columns = &table->time;
        scan->column_count = 1;
    } else if (!scan->columns && table->time_key != WEIR_NONE) {
        scan->through = &table->keys[table->time_key];
        scan->columns = scan->through->columns;
        scan->column_count = scan->through->column_count;
        status = scan_times(&(time_scan){.draft = scan->draft,
                                         .table = &scan->draft->tables[scan->through->parent],
                                         .key = scan->through->parent_columns,
                                         .key_count = scan->through->column_count,
                                         .map = &scan->parents},
                            error);
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < scan->key_count; i++)
        read[count++] = scan->key[i];
    for (uint32_t i = 0; i < scan->column_count; i++)
        read[count++] = scan->columns[i];
    if (status == WEIR_OK && scan->columns)
        status = weir_ingest__draft_scan(scan->draft, table, read, count, see_times, scan, error);
    map_release(scan->draft->env, &scan->parents);
    return status;
}

/* ---- Not later than what refers to it -------------------------------------------------------- */

typedef struct child_view {
    const weir_ingest__draft_column *time;
    time_map parents;
    uint32_t key_count;
    uint32_t width; /* times of each parent */
    uint64_t both[CANDIDATES_MAX];
    uint64_t late[CANDIDATES_MAX]; /* the parent is later than the child */
} child_view;

static bool see_child(void *context, const weir_ingest__value *cells) {
    child_view *view = context;
    const int64_t *parent = find_times(&view->parents, cells, view->key_count);
    int64_t time = parent ? time_of(view->time, &cells[view->key_count]) : WEIR_TIME_ALWAYS;
    for (uint32_t i = 0; time != WEIR_TIME_ALWAYS && i < view->width; i++) {
        if (parent[i] == WEIR_TIME_ALWAYS)
            continue;
        view->both[i]++;
        view->late[i] += parent[i] > time ? 1 : 0;
    }
    return true;
}

/* Counts, over the rows of a child table with a time of its own, how often each time of the parent is later:
 * its candidates, or without any the time of its rows. */
static weir_status compare_children(weir_ingest__draft *draft, const weir_ingest__draft_table *child,
                                    const weir_ingest__draft_key *key, const candidates *found,
                                    child_view *out, weir_error *error) {
    uint32_t read[WEIR_INGEST__KEY_COLUMNS_MAX + 1];
    *out = (child_view){.time = &child->columns[child->time],
                        .key_count = key->column_count,
                        .width = found ? found->count : 1};
    time_scan scan = {.draft = draft,
                      .table = &draft->tables[key->parent],
                      .columns = found ? found->columns : NULL,
                      .column_count = found ? found->count : 0,
                      .key = key->parent_columns,
                      .key_count = key->column_count,
                      .map = &out->parents};
    memcpy(read, key->columns, key->column_count * sizeof *read);
    read[key->column_count] = child->time;
    weir_status status = scan_times(&scan, error);
    if (status == WEIR_OK)
        status = weir_ingest__draft_scan(draft, child, read, key->column_count + 1, see_child, out, error);
    map_release(draft->env, &out->parents);
    return status;
}

/* Which candidates of a table or, without any, whether the time of its rows is later than what refers to the
 * row: the rows of another table that has a time of its own. */
static weir_status find_late(weir_ingest__draft *draft, uint32_t t, const candidates *found, bool *is_late,
                             weir_error *error) {
    uint32_t width = found ? found->count : 1, late_count = 0;
    for (uint32_t c = 0; c < draft->table_count; c++) {
        const weir_ingest__draft_table *child = &draft->tables[c];
        bool may_object = c != t && child->time != WEIR_NONE;
        for (uint32_t k = 0; k < child->key_count && may_object && late_count < width; k++) {
            child_view view;
            if (child->keys[k].parent != t)
                continue;
            WEIR__TRY(compare_children(draft, child, &child->keys[k], found, &view, error));
            for (uint32_t i = 0; i < width; i++) {
                if (is_late[i] || view.late[i] * 2 <= view.both[i])
                    continue;
                is_late[i] = true;
                late_count++;
                weir_ingest__draft_reason(
                    draft, t, found ? found->columns[i] : WEIR_NONE, "time", !found, "not the row's time",
                    "it is later than the rows of %s that refer to it in %llu of %llu rows looked at",
                    child->name, (unsigned long long)view.late[i], (unsigned long long)view.both[i]);
            }
        }
    }
    return WEIR_OK;
}

/* ---- Times of their own ---------------------------------------------------------------------- */

/* The next table: all of whose children (or parents) are done, else the first that is not. */
static uint32_t next_table(const weir_ingest__draft *draft, bool wants_children) {
    uint32_t first = WEIR_NONE;
    for (uint32_t t = 0; t < draft->table_count; t++) {
        bool is_ready = !draft->tables[t].is_done;
        first = is_ready && first == WEIR_NONE ? t : first;
        for (uint32_t other = 0; other < draft->table_count && is_ready; other++) {
            bool is_related = wants_children ? weir_ingest__draft_has_key_to(&draft->tables[other], t)
                                             : weir_ingest__draft_has_key_to(&draft->tables[t], other);
            is_ready = other == t || !is_related || draft->tables[other].is_done;
        }
        if (is_ready)
            return t;
    }
    return first;
}

static weir_status settle(weir_ingest__draft *draft, uint32_t t, weir_error *error) {
    weir_ingest__draft_table *table = &draft->tables[t];
    candidates found = find_candidates(table);
    bool is_late[CANDIDATES_MAX] = {false};
    uint32_t kept = 0;
    WEIR__TRY(order_candidates(draft, t, &found, error));
    WEIR__TRY(find_late(draft, t, &found, is_late, error));
    for (uint32_t i = 0; i < found.count; i++)
        if (!is_late[i])
            found.columns[kept++] = found.columns[i];
    table->has_late_time = found.count > 0 && kept == 0;
    if (kept > 0)
        table->time = found.columns[0];
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir_ingest__draft_column *column = &table->columns[c];
        const char *why =
            column->stype == WEIR_TIMESTAMP && c != table->time ? objection(table, column) : NULL;
        if (why)
            weir_ingest__draft_reason(draft, t, c, "time", false, "not the row's time", "%s", why);
    }
    if (table->time == WEIR_NONE)
        return WEIR_OK;
    const weir_ingest__draft_column *chosen = &table->columns[table->time];
    bool is_named = weir_ingest__name_sounds_like_row_time(&chosen->words);
    const char *why = "it is the only time of the table";
    if (is_named && kept == 1)
        why = "the name says when the row came to be";
    else if (is_named)
        why = "of the columns whose names say when the row came to be, the first that is not later than the "
              "others";
    weir_ingest__draft_reason(draft, t, WEIR_NONE, "time", !is_named, chosen->name, "%s", why);
    return WEIR_OK;
}

/* ---- Times through keys ---------------------------------------------------------------------- */

/* Whether foreign keys lead from one table to another. */
static bool can_reach(weir_ingest__draft *draft, uint32_t from, uint32_t to) {
    bool goes_on = true;
    for (uint32_t t = 0; t < draft->table_count; t++)
        draft->tables[t].is_reached = t == from;
    while (goes_on && !draft->tables[to].is_reached) {
        goes_on = false;
        for (uint32_t t = 0; t < draft->table_count; t++)
            for (uint32_t i = 0; i < draft->tables[t].key_count && draft->tables[t].is_reached; i++) {
                weir_ingest__draft_table *parent = &draft->tables[draft->tables[t].keys[i].parent];
                goes_on = goes_on || !parent->is_reached;
                parent->is_reached = true;
            }
    }
    return draft->tables[to].is_reached;
}

static bool counts_as_time(const weir_ingest__draft *draft, uint32_t t, uint32_t number) {
    const weir_ingest__draft_table *table = &draft->tables[t];
    const weir_ingest__draft_key *key = &table->keys[number];
    uint64_t values = table->row_count;
    for (uint32_t i = 0; i < key->column_count; i++)
        if (table->columns[key->columns[i]].values < values)
            values = table->columns[key->columns[i]].values;
    const weir_ingest__draft_table *parent = &draft->tables[key->parent];
    return key->parent != t && weir_ingest__draft_has_time(parent) &&
           parent->time_key_count < WEIR_INGEST__TIME_KEYS_MAX && key->coverage >= 0.9 &&
           (table->row_count - values) * 10 <= table->row_count;
}

/* The one foreign key that a table's time can come through; WEIR_NONE, with their number, if there is no
 * one. */
static uint32_t find_time_key(weir_ingest__draft *draft, uint32_t t, uint32_t *count) {
    const weir_ingest__draft_table *table = &draft->tables[t];
    uint32_t found = WEIR_NONE;
    *count = 0;
    for (uint32_t i = 0; i < table->key_count; i++) {
        bool counts = counts_as_time(draft, t, i);
        for (uint32_t k = 0; k < table->key_count && counts; k++) {
            uint32_t own = table->keys[i].parent, other = table->keys[k].parent;
            if (k != i && own != other && counts_as_time(draft, t, k))
                counts = !can_reach(draft, other, own) || can_reach(draft, own, other);
        }
        if (counts) {
            found = i;
            ++*count;
        }
    }
    return *count == 1 ? found : WEIR_NONE;
}

static bool is_parent(const weir_ingest__draft *draft, uint32_t t) {
    for (uint32_t other = 0; other < draft->table_count; other++)
        if (other != t && weir_ingest__draft_has_key_to(&draft->tables[other], t))
            return true;
    return false;
}

/* As the schema says it: key -> table.column. */
static const char *time_text(weir_ingest__draft *draft, const weir_ingest__draft_table *table) {
    const char *text = "";
    while (table->time == WEIR_NONE) {
        const weir_ingest__draft_key *key = &table->keys[table->time_key];
        const char *name = weir_ingest__draft_names(draft, table, key->columns, key->column_count, "+");
        table = &draft->tables[key->parent];
        text = weir_ingest__draft_text(draft, "%s%s -> %s.", text, name, table->name);
    }
    return weir_ingest__draft_text(draft, "%s%s", text, table->columns[table->time].name);
}

static weir_status settle_through_key(weir_ingest__draft *draft, uint32_t t, weir_error *error) {
    weir_ingest__draft_table *table = &draft->tables[t];
    uint32_t count;
    bool is_late = false;
    if (table->time != WEIR_NONE || table->row_count == 0)
        return WEIR_OK;
    if (table->has_late_time) {
        weir_ingest__draft_reason(
            draft, t, WEIR_NONE, "time", true, "none",
            "its times are later than what refers to its rows: every seed sees all rows");
        return WEIR_OK;
    }
    table->time_key = find_time_key(draft, t, &count);
    if (table->time_key == WEIR_NONE) {
        weir_ingest__draft_reason(
            draft, t, WEIR_NONE, "time", count > 1, "none",
            count > 1 ? "%u parents have a time, and which of them is the row's cannot be told: every seed "
                        "sees all rows; write temporal_column yourself"
                      : "no column and no parent says when a row came to be: every seed sees all rows",
            count);
        return WEIR_OK;
    }
    table->time_key_count = draft->tables[table->keys[table->time_key].parent].time_key_count + 1;
    WEIR__TRY(find_late(draft, t, NULL, &is_late, error));
    if (is_late)
        table->time_key = WEIR_NONE;
    else
        weir_ingest__draft_reason(draft, t, WEIR_NONE, "time", is_parent(draft, t), time_text(draft, table),
                                  "a row has no time of its own, and this is the only parent that has one");
    return WEIR_OK;
}

weir_status weir_ingest__draft_times(weir_ingest__draft *draft, weir_error *error) {
    for (uint32_t i = 0; i < draft->table_count; i++) {
        uint32_t t = next_table(draft, true);
        draft->tables[t].is_done = true;
        WEIR__TRY(settle(draft, t, error));
    }
    for (uint32_t t = 0; t < draft->table_count; t++)
        draft->tables[t].is_done = false;
    for (uint32_t i = 0; i < draft->table_count; i++) {
        uint32_t t = next_table(draft, false);
        draft->tables[t].is_done = true;
        WEIR__TRY(settle_through_key(draft, t, error));
    }
    /* A sample of each table's row times, for the splits of its tasks. */
    for (uint32_t t = 0; t < draft->table_count; t++) {
        weir_ingest__draft_table *table = &draft->tables[t];
        time_scan scan = {.draft = draft, .table = table, .sample = &table->times};
        WEIR__TRY(scan_times(&scan, error));
    }
    for (uint32_t t = 0; t < draft->table_count; t++)
        for (uint32_t c = 0; c < draft->tables[t].column_count; c++) {
            weir_ingest__draft_column *column = &draft->tables[t].columns[c];
            if (column->stype != WEIR_TIMESTAMP)
                continue;
            if (weir_ingest__words_have(&column->words, WEIR_INGEST__BIRTH_WORDS)) {
                column->is_known_with_row = true;
                weir_ingest__draft_reason(draft, t, c, "known_at", false, "null",
                                          "a birth is known with the row");
            } else if (weir_ingest__words_have(&column->words, WEIR_INGEST__FUTURE_WORDS) &&
                       weir_ingest__draft_has_time(&draft->tables[t])) {
                weir_ingest__draft_reason(draft, t, c, "known_at", true, "itself",
                                          "it is hidden until it has come; if it is known with the row, as a "
                                          "due date is, write \"known_at\": null");
            }
        }
    return WEIR_OK;
}
