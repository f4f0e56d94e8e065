/* Matching: foreign keys become parent rows, times that go through them are looked up, and parent rows get
 * their lists of children, in this order, because children are sorted by their times.
 *
 * A parent's children are filled in row order by counting, then sorted by edge time if they are not
 * yet.
 *
 * Parents are looked up, and children filled, in ranges of parents: the child rows are gone through once for
 * each, and what is jumped about in is small beside the memory that ingest may take. With enough of it there
 * is one range. */
#include <string.h>

#include "ingest/stages.h"

/* ---- Times ----------------------------------------------------------------------------------- */

const int64_t *weir_ingest__known_times(const weir_ingest__linked *linked, uint32_t table,
                                        weir_ingest__known known) {
    if (known.time != WEIR_NONE)
        return linked->times[table][known.time].values;
    return known.column == WEIR_NONE ? NULL : linked->ordered->tables[table].data[known.column].values;
}

int64_t weir_ingest__row_time(const weir_ingest__linked *linked, uint32_t table, uint32_t row) {
    const int64_t *times = weir_ingest__known_times(linked, table, linked->plan->tables[table].temporal);
    return times ? times[row] : WEIR_TIME_ALWAYS;
}

/* A path with numbers for names: the parents to follow, then the times of the table that they end in. */
typedef struct followed_path {
    const uint32_t *parents[WEIR_INGEST__TIME_KEYS_MAX];
    uint32_t count;
    const int64_t *times;
} followed_path;

static followed_path follow(const weir_ingest__linked *linked, uint32_t table, const weir_time_path *path) {
    followed_path out = {.count = path->count - 1};
    for (uint32_t i = 0; i < out.count; i++) {
        /* The edge type of a table that has a name. */
        uint32_t e = 0;
        while (linked->plan->edges[e].table != table ||
               strcmp(linked->plan->edges[e].key->name, path->names[i]) != 0)
            e++; /* it is there: the schema was checked */
        out.parents[i] = linked->edges[e].parents;
        table = linked->plan->edges[e].parent_table;
    }
    const weir_ingest__table *last = &linked->ordered->tables[table];
    for (uint32_t c = 0; c < last->plan->column_count; c++)
        if (strcmp(last->plan->columns[c].name, path->names[out.count]) == 0)
            out.times = last->data[c].values;
    return out;
}

/* Rows of a table are looked up in blocks, which threads share. */
enum { LOOK_UP_ROWS = 1 << 18 };

typedef struct time_work {
    uint32_t row_count;
    int64_t *values;
    const followed_path *paths;
    uint32_t path_count;
    atomic_ullong nulls;
} time_work;

static void look_up_block(void *argument, size_t index, uint32_t worker) {
    time_work *work = argument;
    uint64_t nulls = 0, first = index * (uint64_t)LOOK_UP_ROWS, end = first + LOOK_UP_ROWS;
    (void)worker;
    for (uint64_t r = first; r < end && r < work->row_count; r++) {
        /* The latest of the paths' times; null if one of them is, or a key on the way has no match. */
        int64_t latest = WEIR_TIME_ALWAYS;
        bool is_null = false;
        for (uint32_t p = 0; p < work->path_count && !is_null; p++) {
            const followed_path *path = &work->paths[p];
            uint32_t at = WEIR__NARROW(uint32_t, r);
            for (uint32_t i = 0; i < path->count && at != WEIR_NONE; i++)
                at = path->parents[i][at];
            is_null = at == WEIR_NONE || path->times[at] == WEIR_TIME_ALWAYS;
            if (!is_null && path->times[at] > latest)
                latest = path->times[at];
        }
        work->values[r] = is_null ? WEIR_TIME_ALWAYS : latest;
        nulls += work->values[r] == WEIR_TIME_ALWAYS ? 1 : 0;
    }
    atomic_fetch_add_explicit(&work->nulls, nulls, memory_order_relaxed);
}

static weir_status look_up_time(const weir_ingest__context *context, const weir_ingest__linked *linked,
                                uint32_t t, const weir_stored_time *time, weir_ingest__row_times *out,
                                weir_error *error) {
    uint32_t row_count = linked->ordered->tables[t].row_count;
    out->values = weir__allocate(linked->env, row_count, sizeof *out->values);
    followed_path *paths = weir__allocate(linked->env, time->path_count, sizeof *paths);
    bool has_memory = out->values && paths;
    for (uint32_t p = 0; p < time->path_count && has_memory; p++)
        paths[p] = follow(linked, t, &time->paths[p]);
    time_work work = {
        .row_count = row_count, .values = out->values, .paths = paths, .path_count = time->path_count};
    if (has_memory)
        weir__parallel(linked->env, context->threads, ((size_t)row_count + LOOK_UP_ROWS - 1) / LOOK_UP_ROWS,
                       look_up_block, &work);
    weir__release(linked->env, paths);
    out->nulls = atomic_load_explicit(&work.nulls, memory_order_relaxed);
    return has_memory ? WEIR_OK : weir_ingest__no_memory(error, row_count * sizeof *out->values);
}

/* ---- Parents --------------------------------------------------------------------------------- */

typedef struct link_work {
    weir_ingest__context *context;
    weir_ingest__linked *out;
} link_work;

/* A row's values of a foreign key; whether they are, as bits, those that were there before: runs of one key
 * are common, and text is interned. */
static bool read_keys(const weir_ingest__table *table, const weir_ingest__edge_plan *edge, uint32_t row,
                      weir_ingest__key *keys) {
    bool is_same = true;
    for (uint32_t i = 0; i < edge->key->column_count; i++) {
        weir_ingest__key key = weir_ingest__key_at(&table->data[edge->columns[i]], row);
        is_same = is_same && key.tag == keys[i].tag && key.payload == keys[i].payload;
        keys[i] = key;
    }
    return is_same;
}

static void look_at_memory(const weir_ingest__context *context, uint32_t row) {
    if (row % LOOK_UP_ROWS == 0 && context->spill)
        weir__spill_look(context->spill);
}

/* The parents of keys that fall into a range; *dangling is the first row that has none, or what it was. */
static void find_in_range(const weir_ingest__context *context, const weir_ingest__table *table,
                          const weir_ingest__edge_plan *plan, const weir_ingest__key_index *index,
                          uint32_t range, uint32_t range_count, weir_ingest__edge *out, uint32_t *dangling) {
    weir_ingest__key keys[WEIR_INGEST__KEY_COLUMNS_MAX] = {{WEIR_INGEST__KEY_NULL, 0}};
    uint32_t found = WEIR_NONE;
    bool is_in_range = range == 0; /* as nulls are */
    for (uint32_t r = 0; r < table->row_count; r++) {
        look_at_memory(context, r);
        if (!read_keys(table, plan, r, keys)) {
            is_in_range = weir_ingest__key_index_range(index, keys, range_count) == range;
            if (is_in_range)
                found = weir_ingest__key_index_find(index, keys);
        }
        if (!is_in_range)
            continue;
        out->parents[r] = found;
        if (found != WEIR_NONE) {
            out->count++;
        } else if (!weir_ingest__keys_have_null(keys, plan->key->column_count)) {
            out->dangling++;
            *dangling = r < *dangling ? r : *dangling;
        }
    }
}

/* The columns that a foreign key leads to. */
static weir_ingest__key_columns parent_columns(const weir_ingest__table *parent,
                                               const weir_ingest__edge_plan *edge) {
    weir_ingest__key_columns primary = weir_ingest__primary_key_of(parent), of = primary;
    of.columns = edge->parent_columns;
    of.column_count = edge->key->column_count;
    of.are_sorted = of.column_count == primary.column_count &&
                    memcmp(of.columns, primary.columns, of.column_count * sizeof *of.columns) == 0;
    return of;
}

static weir_status find_parents(void *argument, size_t number, uint32_t worker, weir_error *error) {
    const link_work *work = argument;
    const weir_ingest__ordered *ordered = work->out->ordered;
    const weir_ingest__edge_plan *plan = &work->out->plan->edges[number];
    const weir_ingest__table *table = &ordered->tables[plan->table];
    weir_ingest__edge *edge = &work->out->edges[number];
    weir_ingest__key_columns of = parent_columns(&ordered->tables[plan->parent_table], plan);
    weir_ingest__key_index index = {0};
    uint32_t duplicate, dangling = WEIR_NONE;
    char key[200], row_key[200];
    (void)worker;
    edge->parents = weir__allocate(work->out->env, table->row_count, sizeof *edge->parents);
    if (!edge->parents)
        return weir_ingest__no_memory(error, table->row_count * sizeof *edge->parents);
    weir_status status = weir_ingest__key_index_make(work->out->env, &of, &index, &duplicate, error);
    if (status == WEIR_OK && duplicate != WEIR_NONE) {
        const weir_ingest__table *parent = &ordered->tables[plan->parent_table];
        weir_ingest__values_describe(parent->data, of.columns, of.column_count, duplicate, key, sizeof key);
        status = weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                            "the foreign key %s.%s leads to %s.%s%s, which has the value %s twice",
                            table->plan->name, plan->key->name, parent->plan->name, plan->key->to[0],
                            of.column_count > 1 ? ", …" : "", key);
    }
    if (status == WEIR_OK) {
        uint32_t ranges = weir_ingest__key_index_ranges(&index, weir_ingest__share_of_thread(work->context));
        for (uint32_t range = 0; range < ranges; range++)
            find_in_range(work->context, table, plan, &index, range, ranges, edge, &dangling);
    }
    if (status == WEIR_OK && work->context->options->strict && dangling != WEIR_NONE) {
        weir_ingest__values_describe(table->data, plan->columns, of.column_count, dangling, key, sizeof key);
        weir_ingest__row_key_describe(table->data, table->plan->primary_key, table->plan->primary_key_count,
                                      dangling, row_key, sizeof row_key);
        status = weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                            "table %s, column %s%s: there is no row with the key %s (--strict)",
                            table->plan->name, plan->key->name, row_key, key);
    }
    weir_ingest__key_index_release(&index);
    (void)weir_ingest__advance(work->context, table->row_count);
    return status;
}

/* ---- Children -------------------------------------------------------------------------------- */

/* When an edge is known: not before its row. */
static int64_t edge_time(const weir_ingest__linked *linked, const weir_ingest__edge_plan *edge,
                         uint32_t row) {
    int64_t time = weir_ingest__row_time(linked, edge->table, row);
    const int64_t *times = weir_ingest__known_times(linked, edge->table, edge->known);
    if (!times)
        return time;
    if (times[row] == WEIR_TIME_ALWAYS) /* null */
        return WEIR_TIME_NEVER;
    return times[row] > time ? times[row] : time;
}

static bool has_times(const weir_ingest__linked *linked, uint32_t number) {
    const weir_ingest__edge_plan *edge = &linked->plan->edges[number];
    const weir_ingest__table *table = &linked->ordered->tables[edge->table];
    if (!weir_ingest__known_times(linked, edge->table, table->plan->temporal) &&
        !weir_ingest__known_times(linked, edge->table, edge->known))
        return false;
    for (uint32_t r = 0; r < table->row_count; r++)
        if (linked->edges[number].parents[r] != WEIR_NONE && edge_time(linked, edge, r) != WEIR_TIME_ALWAYS)
            return true;
    return false;
}

/* Children in row order of the parents from `first` to `end`. */
static void place_children(const link_work *work, uint32_t number, uint32_t first, uint32_t end) {
    const weir_ingest__edge_plan *plan = &work->out->plan->edges[number];
    weir_ingest__edge *edge = &work->out->edges[number];
    uint32_t row_count = work->out->ordered->tables[plan->table].row_count;
    for (uint32_t r = 0; r < row_count; r++) {
        size_t parent = edge->parents[r];
        look_at_memory(work->context, r);
        if (parent < first || parent >= end)
            continue;
        uint32_t place = edge->starts[parent + 1]++;
        edge->child_rows[place] = r;
        if (edge->child_times)
            edge->child_times[place] = edge_time(work->out, plan, r);
    }
}

static uint32_t range_end(uint32_t range, uint32_t range_count, uint32_t row_count) {
    return WEIR__NARROW(uint32_t, (range + (uint64_t)1) * row_count / range_count);
}

static uint32_t ranges_of(uint64_t bytes, uint64_t most, uint32_t row_count) {
    uint64_t ranges = bytes / most + 1;
    return WEIR__NARROW(uint32_t, ranges < row_count ? ranges : row_count);
}

/* Children in row order, and where each parent's begin. While they are filled, parent i's stand at i + 1. */
static void fill_children(const link_work *work, uint32_t number, uint32_t parent_count) {
    weir_ingest__edge *edge = &work->out->edges[number];
    uint32_t row_count = work->out->ordered->tables[work->out->plan->edges[number].table].row_count;
    uint32_t *starts = edge->starts;
    uint64_t most = weir_ingest__share_of_thread(work->context), size = parent_count * sizeof *starts;
    uint64_t child_size = sizeof *edge->child_rows + (edge->child_times ? sizeof *edge->child_times : 0);
    memset(starts, 0, ((size_t)parent_count + 2) * sizeof *starts);
    uint32_t range_count = ranges_of(size, most, parent_count);
    for (uint32_t i = 0, first = 0; i < range_count; i++) {
        uint32_t end = range_end(i, range_count, parent_count);
        /* How many children the parents from `first` to `end` have: of parent i at i + 2. */
        for (uint32_t r = 0; r < row_count; r++) {
            size_t parent = edge->parents[r];
            if (parent >= first && parent < end) /* WEIR_NONE is not */
                starts[parent + 2]++;
        }
        first = end;
    }
    for (uint32_t p = 2; p <= parent_count; p++)
        starts[p] += starts[p - 1];
    range_count = ranges_of(size + edge->count * child_size, most, parent_count);
    for (uint32_t i = 0, first = 0; i < range_count; i++) {
        uint32_t end = range_end(i, range_count, parent_count);
        place_children(work, number, first, end);
        first = end;
    }
    assert(starts[parent_count] == edge->count && "a child that no parent has");
}

/* A long list: sorted by number, the times as the sort's primary. Rows ascend, so that a stable sort is
 * enough. */
static bool sort_long_list(const weir_env *env, uint32_t *rows, int64_t *times, uint32_t count) {
    weir_ingest__sort_item *items = weir__allocate(env, count, sizeof *items);
    bool is_fine = items != NULL;
    for (uint32_t i = 0; is_fine && i < count; i++)
        items[i] = (weir_ingest__sort_item){weir_ingest__rank_of(times[i]), rows[i]};
    is_fine = is_fine && weir_ingest__sort(env, items, count, NULL, NULL);
    for (uint32_t i = 0; is_fine && i < count; i++) {
        rows[i] = WEIR__NARROW(uint32_t, items[i].index);
        times[i] = weir_ingest__of_rank(items[i].primary);
    }
    weir__release(env, items);
    return is_fine;
}

static bool sort_children(const weir_env *env, weir_ingest__edge *edge, uint32_t parent_count) {
    enum { SHORT_LIST = 32 };
    for (uint32_t p = 0; p < parent_count; p++) {
        uint32_t start = edge->starts[p];
        uint32_t count = edge->starts[p + 1] - start;
        uint32_t *rows = edge->child_rows + start;
        int64_t *times = edge->child_times + start;
        uint32_t sorted = count > 0;
        while (sorted < count && times[sorted - 1] <= times[sorted])
            sorted++;
        if (sorted == count)
            continue;
        if (count > SHORT_LIST && !sort_long_list(env, rows, times, count))
            return false;
        for (uint32_t i = sorted; i < count && count <= SHORT_LIST; i++) {
            uint32_t row = rows[i], k = i;
            int64_t time = times[i];
            for (; k > 0 && times[k - 1] > time; k--) {
                rows[k] = rows[k - 1];
                times[k] = times[k - 1];
            }
            rows[k] = row;
            times[k] = time;
        }
    }
    return true;
}

static weir_status make_children(void *argument, size_t index, uint32_t worker, weir_error *error) {
    const link_work *work = argument;
    const weir_env *env = work->out->env;
    uint32_t number = WEIR__NARROW(uint32_t, index);
    const weir_ingest__edge_plan *plan = &work->out->plan->edges[number];
    weir_ingest__edge *edge = &work->out->edges[number];
    const weir_ingest__table *tables = work->out->ordered->tables;
    uint32_t parent_count = tables[plan->parent_table].row_count;
    (void)worker;
    edge->starts = weir__allocate(env, (size_t)parent_count + 2, sizeof *edge->starts);
    edge->child_rows = weir__allocate(env, edge->count, sizeof *edge->child_rows);
    bool wants_times = has_times(work->out, number);
    if (wants_times)
        edge->child_times = weir__allocate(env, edge->count, sizeof *edge->child_times);
    bool is_fine = edge->starts && edge->child_rows && (!wants_times || edge->child_times);
    if (is_fine)
        fill_children(work, number, parent_count);
    if (is_fine && wants_times)
        is_fine = sort_children(env, edge, parent_count);
    (void)weir_ingest__advance(work->context, tables[plan->table].row_count);
    return is_fine ? WEIR_OK : weir_ingest__no_memory(error, edge->count * 12);
}

/* ---- All edge types -------------------------------------------------------------------------- */

weir_status weir_ingest__link_rows(weir_ingest__context *context, const weir_ingest__ordered *ordered,
                                   weir_ingest__linked *out, weir_error *error) {
    const weir_ingest__plan *plan = ordered->plan;
    uint64_t total = 0;
    *out = (weir_ingest__linked){.plan = plan, .ordered = ordered, .env = context->env};
    weir__arena_init(&out->arena, context->env);
    out->edges = weir__arena_take_zero(&out->arena, plan->edge_count, sizeof *out->edges);
    out->times = weir__arena_take_zero(&out->arena, plan->table_count, sizeof *out->times);
    for (uint32_t t = 0; t < plan->table_count && out->times; t++)
        out->times[t] = weir__arena_take_zero(&out->arena, plan->tables[t].time_count, sizeof **out->times);
    if (out->arena.is_short)
        return weir_ingest__no_memory(error, plan->edge_count * sizeof *out->edges);
    for (uint32_t e = 0; e < plan->edge_count; e++)
        total += 2 * (uint64_t)ordered->tables[plan->edges[e].table].row_count;
    weir_ingest__begin_phase(context, "match", total, 0);
    link_work work = {context, out};
    WEIR__TRY(weir_ingest__for_each(context, context->threads, plan->edge_count, find_parents, &work, error));
    for (uint32_t t = 0; t < plan->table_count; t++)
        for (uint32_t i = 0; i < plan->tables[t].time_count; i++)
            WEIR__TRY(look_up_time(context, out, t, &plan->tables[t].times[i], &out->times[t][i], error));
    return weir_ingest__for_each(context, context->threads, plan->edge_count, make_children, &work, error);
}

void weir_ingest__linked_release(weir_ingest__linked *linked) {
    const weir_env *env = linked->env;
    if (!env)
        return;
    for (uint32_t e = 0; linked->edges && e < linked->plan->edge_count; e++) {
        weir__release(env, linked->edges[e].parents);
        weir__release(env, linked->edges[e].starts);
        weir__release(env, linked->edges[e].child_rows);
        weir__release(env, linked->edges[e].child_times);
    }
    for (uint32_t t = 0; linked->times && t < linked->plan->table_count; t++)
        for (uint32_t i = 0; linked->times[t] && i < linked->plan->tables[t].time_count; i++)
            weir__release(env, linked->times[t][i].values);
    weir__arena_release(&linked->arena);
    *linked = (weir_ingest__linked){0};
}
