/* When a row came to be, in a draft: a column whose name says so and that is not later than what refers to
 * the row, else the time of the one parent that has one (docs/spec/04-draft.md, 5). Comparisons are made on
 * the rows whose keys are in the sample of the key, so that memory does not grow with tables. */
#include <string.h>

#include "ingest/draft.h"

enum { CANDIDATES_MAX = 8, DEPTH_MAX = 16 };

#define NO_TIME INT64_MIN

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

/* The only timestamp column, whatever its name, unless the name speaks against it. */
static void take_only_time(const weir_ingest__draft_table *table, candidates *out) {
    uint32_t only = WEIR_NONE, count = 0;
    for (uint32_t c = 0; c < table->column_count; c++)
        if (table->columns[c].stype == WEIR_TIMESTAMP) {
            only = c;
            count++;
        }
    if (count != 1 || table->columns[only].values < table->row_count ||
        forbidden_word(&table->columns[only].words))
        return;
    out->columns[out->count++] = only;
    out->first_late = 1;
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
        if (!weir_ingest__draft_time_of(&view->table->columns[view->found->columns[i]], &cells[i], &times[i]))
            times[i] = NO_TIME;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < count; k++)
            if (times[i] != NO_TIME && times[k] != NO_TIME) {
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
    WEIR__TRY(weir_ingest__draft_scan(draft, t, found->columns, found->count, see_pairs, &view, error));
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
    *map = (time_map){0};
}

/* The times of the row that has a key; NULL if it has none in the sample. */
static const int64_t *find_times(const time_map *map, const weir_ingest__value *key, uint32_t key_count) {
    uint64_t hash;
    const weir_ingest__sampled *found =
        weir_ingest__hash_key(key, key_count, &hash) ? weir_ingest__sample_find(&map->keys, hash) : NULL;
    return found ? map->times + found->value : NULL;
}

typedef struct map_view {
    weir_ingest__draft *draft;
    const weir_ingest__draft_table *table;
    time_map *map;
    uint32_t key_count;
    const uint32_t *columns; /* of times; or, through a key, */
    uint32_t column_count;
    const time_map *parent; /* the parent's times, by the columns after the key's */
    uint32_t parent_key_count;
} map_view;

static bool see_map(void *context, const weir_ingest__value *cells) {
    map_view *view = context;
    time_map *map = view->map;
    uint64_t hash;
    uint32_t width = view->parent ? 1 : view->column_count;
    void *times = map->times;
    if (!weir_ingest__hash_key(cells, view->key_count, &hash) ||
        !weir_ingest__sample_has_room_for(map->keys.level, hash))
        return true;
    if (!weir__grow(view->draft->env, &times, &map->capacity, map->count + width, sizeof *map->times))
        return false;
    map->times = times;
    const weir_ingest__value *rest = cells + view->key_count;
    if (view->parent) {
        const int64_t *parent = find_times(view->parent, rest, view->parent_key_count);
        map->times[map->count] = parent ? *parent : NO_TIME;
    }
    for (uint32_t i = 0; i < view->column_count; i++)
        if (!weir_ingest__draft_time_of(&view->table->columns[view->columns[i]], &rest[i],
                                        &map->times[map->count + i]))
            map->times[map->count + i] = NO_TIME;
    map->count += width;
    return weir_ingest__sample_add(&map->keys, hash, 1, (int64_t)(map->count - width));
}

/* Times of some columns by a key of the table. */
static weir_status map_columns(weir_ingest__draft *draft, uint32_t t, const uint32_t *key, uint32_t key_count,
                               const uint32_t *columns, uint32_t column_count, time_map *out,
                               weir_error *error) {
    uint32_t read[WEIR_INGEST__KEY_COLUMNS_MAX + CANDIDATES_MAX];
    map_view view = {.draft = draft,
                     .table = &draft->tables[t],
                     .map = out,
                     .key_count = key_count,
                     .columns = columns,
                     .column_count = column_count};
    *out = (time_map){0};
    weir_ingest__sample_init(&out->keys, draft->env);
    memcpy(read, key, key_count * sizeof *read);
    memcpy(read + key_count, columns, column_count * sizeof *read);
    return weir_ingest__draft_scan(draft, t, read, key_count + column_count, see_map, &view, error);
}

/* The row's time, its own or through foreign keys, by a key of the table. */
static weir_status map_row_times(weir_ingest__draft *draft, uint32_t t, const uint32_t *key,
                                 uint32_t key_count, int depth, time_map *out, weir_error *error) {
    const weir_ingest__draft_table *table = &draft->tables[t];
    uint32_t read[2 * WEIR_INGEST__KEY_COLUMNS_MAX];
    time_map parent = {0};
    *out = (time_map){0};
    weir_ingest__sample_init(&out->keys, draft->env);
    if (table->time != WEIR_NONE)
        return map_columns(draft, t, key, key_count, &table->time, 1, out, error);
    if (table->time_key == WEIR_NONE || depth >= DEPTH_MAX)
        return WEIR_OK;
    const weir_ingest__draft_key *through = &table->keys[table->time_key];
    weir_status status = map_row_times(draft, through->parent, through->parent_columns, through->column_count,
                                       depth + 1, &parent, error);
    map_view view = {.draft = draft,
                     .table = table,
                     .map = out,
                     .key_count = key_count,
                     .parent = &parent,
                     .parent_key_count = through->column_count};
    memcpy(read, key, key_count * sizeof *read);
    memcpy(read + key_count, through->columns, through->column_count * sizeof *read);
    if (status == WEIR_OK)
        status =
            weir_ingest__draft_scan(draft, t, read, key_count + through->column_count, see_map, &view, error);
    map_release(draft->env, &parent);
    return status;
}

/* ---- Not later than what refers to it -------------------------------------------------------- */

typedef struct child_view {
    const weir_ingest__draft_column *time;
    const time_map *parents;
    uint32_t key_count;
    uint32_t width; /* times of each parent */
    uint64_t both[CANDIDATES_MAX];
    uint64_t late[CANDIDATES_MAX]; /* the parent is later than the child */
} child_view;

static bool see_child(void *context, const weir_ingest__value *cells) {
    child_view *view = context;
    int64_t time;
    const int64_t *parent = find_times(view->parents, cells, view->key_count);
    if (!parent || !weir_ingest__draft_time_of(view->time, &cells[view->key_count], &time))
        return true;
    for (uint32_t i = 0; i < view->width; i++) {
        if (parent[i] == NO_TIME)
            continue;
        view->both[i]++;
        view->late[i] += parent[i] > time ? 1 : 0;
    }
    return true;
}

/* Counts, over the rows of a child table with a time of its own, how often each time of the parent is later.
 */
static weir_status compare_children(weir_ingest__draft *draft, uint32_t child,
                                    const weir_ingest__draft_key *key, const time_map *parents,
                                    uint32_t width, child_view *out, weir_error *error) {
    const weir_ingest__draft_table *table = &draft->tables[child];
    uint32_t read[WEIR_INGEST__KEY_COLUMNS_MAX + 1];
    *out = (child_view){.time = &table->columns[table->time],
                        .parents = parents,
                        .key_count = key->column_count,
                        .width = width};
    memcpy(read, key->columns, key->column_count * sizeof *read);
    read[key->column_count] = table->time;
    return weir_ingest__draft_scan(draft, child, read, key->column_count + 1, see_child, out, error);
}

/* Calls for each foreign key to a table, from another one that has a time of its own, until one objects. */
typedef struct referrer {
    uint32_t child;
    const weir_ingest__draft_key *key;
} referrer;

static bool next_referrer(const weir_ingest__draft *draft, uint32_t t, uint32_t *table, uint32_t *number,
                          referrer *out) {
    for (; *table < draft->table_count; ++*table, *number = 0) {
        const weir_ingest__draft_table *child = &draft->tables[*table];
        for (; *table != t && child->time != WEIR_NONE && *number < child->key_count; ++*number)
            if (child->keys[*number].parent == t) {
                *out = (referrer){*table, &child->keys[(*number)++]};
                return true;
            }
    }
    return false;
}

static void note_rejection(weir_ingest__draft *draft, uint32_t t, uint32_t column, const referrer *from,
                           uint64_t late, uint64_t both) {
    weir_ingest__draft_reason(
        draft, t, column, "time", column == WEIR_NONE, "not the row's time",
        "it is later than the rows of %s that refer to it in %llu of %llu rows looked at",
        draft->tables[from->child].source->name, (unsigned long long)late, (unsigned long long)both);
}

/* Takes away the candidates that are later than what refers to the row. */
static weir_status reject_late(weir_ingest__draft *draft, uint32_t t, candidates *found, weir_error *error) {
    uint32_t table = 0, number = 0;
    referrer from;
    bool is_rejected[CANDIDATES_MAX] = {false};
    weir_status status = WEIR_OK;
    while (found->count > 0 && status == WEIR_OK && next_referrer(draft, t, &table, &number, &from)) {
        time_map parents;
        child_view view = {0};
        status = map_columns(draft, t, from.key->parent_columns, from.key->column_count, found->columns,
                             found->count, &parents, error);
        if (status == WEIR_OK)
            status = compare_children(draft, from.child, from.key, &parents, found->count, &view, error);
        map_release(draft->env, &parents);
        for (uint32_t i = 0; i < found->count && status == WEIR_OK; i++)
            if (view.late[i] * 2 > view.both[i] && !is_rejected[i]) {
                is_rejected[i] = true;
                note_rejection(draft, t, found->columns[i], &from, view.late[i], view.both[i]);
            }
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < found->count; i++)
        if (!is_rejected[i])
            found->columns[kept++] = found->columns[i];
    found->count = kept;
    return status;
}

/* ---- Times of their own ---------------------------------------------------------------------- */

/* The next table: all of whose children (or parents) are done, else the first that is not. */
static uint32_t next_table(const weir_ingest__draft *draft, const bool *is_done, bool wants_children) {
    uint32_t first = WEIR_NONE;
    for (uint32_t t = 0; t < draft->table_count; t++) {
        bool is_ready = !is_done[t];
        first = is_ready && first == WEIR_NONE ? t : first;
        for (uint32_t other = 0; other < draft->table_count && is_ready; other++) {
            bool is_related = wants_children ? weir_ingest__draft_has_key_to(&draft->tables[other], t)
                                             : weir_ingest__draft_has_key_to(&draft->tables[t], other);
            is_ready = other == t || !is_related || is_done[other];
        }
        if (is_ready)
            return t;
    }
    return first;
}

static void explain_objections(weir_ingest__draft *draft, uint32_t t) {
    const weir_ingest__draft_table *table = &draft->tables[t];
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir_ingest__draft_column *column = &table->columns[c];
        const char *why =
            column->stype == WEIR_TIMESTAMP && c != table->time ? objection(table, column) : NULL;
        if (why)
            weir_ingest__draft_reason(draft, t, c, "time", false, "not the row's time", "%s", why);
    }
}

static weir_status settle(weir_ingest__draft *draft, uint32_t t, weir_error *error) {
    weir_ingest__draft_table *table = &draft->tables[t];
    candidates found;
    found = (candidates){0};
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
    if (found.count == 0)
        take_only_time(table, &found);
    bool had_candidates = found.count > 0;
    weir_status status = order_candidates(draft, t, &found, error);
    if (status == WEIR_OK)
        status = reject_late(draft, t, &found, error);
    table->has_late_time = had_candidates && found.count == 0;
    if (status == WEIR_OK && found.count > 0)
        table->time = found.columns[0];
    explain_objections(draft, t);
    if (table->time == WEIR_NONE)
        return status;
    bool is_named = weir_ingest__name_sounds_like_row_time(&table->columns[table->time].words);
    const char *why = !is_named ? "it is the only time of the table"
                      : found.count == 1
                          ? "the name says when the row came to be"
                          : "of the columns whose names say when the row came to be, the first that is "
                            "not later than the others";
    weir_ingest__draft_reason(draft, t, WEIR_NONE, "time", !is_named, table->columns[table->time].name, "%s",
                              why);
    return status;
}

/* ---- Times through keys ---------------------------------------------------------------------- */

/* Whether foreign keys lead from one table to another. Every table is entered once: keys may go in circles.
 */
static bool can_reach(weir_ingest__draft *draft, uint32_t from, uint32_t to) {
    uint8_t *is_reached = weir__allocate_zero(draft->env, draft->table_count, sizeof *is_reached);
    uint32_t *open = weir__allocate(draft->env, draft->table_count, sizeof *open);
    uint32_t open_count = 0;
    if (is_reached && open) {
        is_reached[from] = 1;
        open[open_count++] = from;
    } else {
        draft->is_short_of_memory = true;
    }
    while (open_count > 0 && !is_reached[to]) {
        const weir_ingest__draft_table *table = &draft->tables[open[--open_count]];
        for (uint32_t i = 0; i < table->key_count; i++)
            if (!is_reached[table->keys[i].parent]) {
                is_reached[table->keys[i].parent] = 1;
                open[open_count++] = table->keys[i].parent;
            }
    }
    bool is_found = is_reached && is_reached[to];
    weir__release(draft->env, is_reached);
    weir__release(draft->env, open);
    return is_found;
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

/* Whether the time that comes through a key is later than what refers to the row. */
static weir_status check_time_key(weir_ingest__draft *draft, uint32_t t, bool *is_late, weir_error *error) {
    uint32_t table = 0, number = 0;
    referrer from;
    weir_status status = WEIR_OK;
    *is_late = false;
    while (status == WEIR_OK && !*is_late && next_referrer(draft, t, &table, &number, &from)) {
        time_map parents;
        child_view view = {0};
        status =
            map_row_times(draft, t, from.key->parent_columns, from.key->column_count, 0, &parents, error);
        if (status == WEIR_OK)
            status = compare_children(draft, from.child, from.key, &parents, 1, &view, error);
        map_release(draft->env, &parents);
        *is_late = status == WEIR_OK && view.late[0] * 2 > view.both[0];
        if (*is_late)
            note_rejection(draft, t, WEIR_NONE, &from, view.late[0], view.both[0]);
    }
    return status;
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
    for (int depth = 0; table->time == WEIR_NONE && depth < DEPTH_MAX; depth++) {
        const weir_ingest__draft_key *key = &table->keys[table->time_key];
        const weir_ingest__draft_table *parent = &draft->tables[key->parent];
        text = weir_ingest__draft_text(draft, "%s%s -> %s.", text,
                                       weir_ingest__draft_key_name(draft, table, key), parent->source->name);
        table = parent;
    }
    if (table->time != WEIR_NONE)
        text = weir_ingest__draft_text(draft, "%s%s", text, table->columns[table->time].name);
    return text;
}

static weir_status settle_through_key(weir_ingest__draft *draft, uint32_t t, weir_error *error) {
    weir_ingest__draft_table *table = &draft->tables[t];
    uint32_t count;
    bool is_late;
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
    weir_status status = check_time_key(draft, t, &is_late, error);
    if (is_late)
        table->time_key = WEIR_NONE;
    else if (status == WEIR_OK)
        weir_ingest__draft_reason(draft, t, WEIR_NONE, "time", is_parent(draft, t), time_text(draft, table),
                                  "a row has no time of its own, and this is the only parent that has one");
    return status;
}

/* ---- Quantiles ------------------------------------------------------------------------------- */

typedef struct quantile_view {
    const weir_ingest__draft_column *column; /* or */
    const time_map *parents;
    uint32_t key_count;
    weir_ingest__sample *times;
} quantile_view;

static bool see_time(void *context, const weir_ingest__value *cells) {
    quantile_view *view = context;
    int64_t time = NO_TIME;
    const int64_t *parent = view->column ? NULL : find_times(view->parents, cells, view->key_count);
    if (parent)
        time = *parent;
    else if (view->column && !weir_ingest__draft_time_of(view->column, &cells[0], &time))
        return true;
    if (!view->column && time == NO_TIME)
        return true;
    weir_ingest__value value = {.type = WEIR_INGEST__TIMESTAMP, .integer = time};
    return weir_ingest__sample_add(view->times, weir_ingest__value_hash(&value), 1, time);
}

/* A sample of a table's row times, for the splits of its tasks. */
static weir_status sample_times(weir_ingest__draft *draft, uint32_t t, weir_error *error) {
    weir_ingest__draft_table *table = &draft->tables[t];
    quantile_view view = {.times = &table->times};
    if (table->time != WEIR_NONE) {
        view.column = &table->columns[table->time];
        return weir_ingest__draft_scan(draft, t, &table->time, 1, see_time, &view, error);
    }
    if (table->time_key == WEIR_NONE)
        return WEIR_OK;
    const weir_ingest__draft_key *key = &table->keys[table->time_key];
    time_map parents;
    weir_status status =
        map_row_times(draft, key->parent, key->parent_columns, key->column_count, 0, &parents, error);
    view.parents = &parents;
    view.key_count = key->column_count;
    if (status == WEIR_OK)
        status = weir_ingest__draft_scan(draft, t, key->columns, key->column_count, see_time, &view, error);
    map_release(draft->env, &parents);
    return status;
}

weir_status weir_ingest__draft_times(weir_ingest__draft *draft, weir_error *error) {
    weir_status status = WEIR_OK;
    bool *is_done = weir__allocate_zero(draft->env, 2 * (size_t)draft->table_count, sizeof *is_done);
    if (!is_done)
        return weir_ingest__no_memory(error, draft->table_count);
    bool *is_through = is_done + draft->table_count;
    for (uint32_t i = 0; i < draft->table_count && status == WEIR_OK; i++) {
        uint32_t t = next_table(draft, is_done, true);
        is_done[t] = true;
        status = settle(draft, t, error);
    }
    for (uint32_t i = 0; i < draft->table_count && status == WEIR_OK; i++) {
        uint32_t t = next_table(draft, is_through, false);
        is_through[t] = true;
        status = settle_through_key(draft, t, error);
    }
    for (uint32_t t = 0; t < draft->table_count && status == WEIR_OK; t++)
        status = sample_times(draft, t, error);
    weir__release(draft->env, is_done);
    for (uint32_t t = 0; t < draft->table_count && status == WEIR_OK; t++)
        for (uint32_t c = 0; c < draft->tables[t].column_count; c++) {
            weir_ingest__draft_column *column = &draft->tables[t].columns[c];
            if (column->stype != WEIR_TIMESTAMP ||
                !weir_ingest__words_have(&column->words, WEIR_INGEST__BIRTH_WORDS))
                continue;
            column->is_known_with_row = true;
            weir_ingest__draft_reason(draft, t, c, "known_at", false, "null",
                                      "a birth is known with the row");
        }
    return status;
}
