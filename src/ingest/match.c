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

#include "ingest/state.h"

/* ---- Times ----------------------------------------------------------------------------------- */

const int64_t *weir_ingest__known_times(const weir_ingest__table_plan *table, weir_ingest__known known) {
    if (known.time != WEIR_NONE)
        return table->times[known.time].values;
    return known.column == WEIR_NONE ? NULL : table->data[known.column].values;
}

int64_t weir_ingest__row_time(const weir_ingest__table_plan *table, uint32_t row) {
    const int64_t *times = weir_ingest__known_times(table, table->temporal);
    return times ? times[row] : WEIR_TIME_ALWAYS;
}

/* When a cell or an edge is known. */
static int64_t known_time(const weir_ingest__table_plan *table, weir_ingest__known known, uint32_t row) {
    int64_t time = weir_ingest__row_time(table, row);
    const int64_t *times = weir_ingest__known_times(table, known);
    if (!times)
        return time;
    if (times[row] == WEIR_TIME_ALWAYS) /* null */
        return WEIR_TIME_NEVER;
    return times[row] > time ? times[row] : time;
}

static const weir_ingest__edge_plan *find_edge(const weir_ingest__ingest *ingest, uint32_t table,
                                               const char *name) {
    for (uint32_t e = 0; e < ingest->edge_count; e++)
        if (ingest->edges[e].table == table && strcmp(ingest->edges[e].key->name, name) == 0)
            return &ingest->edges[e];
    return NULL; /* never: the schema was checked */
}

/* A path with numbers for names: the edge types to follow, then the times of the table that they end in. */
typedef struct followed_path {
    const weir_ingest__edge_plan *edges[WEIR_INGEST__TIME_KEYS_MAX];
    uint32_t edge_count;
    const int64_t *times;
} followed_path;

static followed_path follow(const weir_ingest__ingest *ingest, uint32_t table,
                            const weir_ingest__schema_time *path) {
    followed_path out = {.edge_count = path->count - 1};
    for (uint32_t i = 0; i < out.edge_count; i++) {
        out.edges[i] = find_edge(ingest, table, path->names[i]);
        table = out.edges[i]->parent_table;
    }
    const weir_ingest__table_plan *last = &ingest->tables[table];
    for (uint32_t c = 0; c < last->column_count; c++)
        if (strcmp(last->columns[c].name, path->names[out.edge_count]) == 0)
            out.times = last->data[c].values;
    return out;
}

/* WEIR_TIME_ALWAYS where a key on the way has no match, or the value is null. */
static int64_t time_at(const followed_path *path, uint32_t row) {
    for (uint32_t i = 0; i < path->edge_count && row != WEIR_NONE; i++)
        row = path->edges[i]->parents[row];
    return row == WEIR_NONE ? WEIR_TIME_ALWAYS : path->times[row];
}

/* Rows of a table are looked up in blocks, which threads share. */
enum { LOOK_UP_ROWS = 1 << 18 };

typedef struct time_work {
    const weir_ingest__table_plan *table;
    weir_ingest__time_plan *time;
    followed_path *paths;
    atomic_ullong nulls;
} time_work;

/* The latest of the paths' times, null where one is. */
static int64_t latest_at(const time_work *work, uint32_t row) {
    int64_t latest = WEIR_TIME_ALWAYS;
    for (uint32_t p = 0; p < work->time->path_count; p++) {
        int64_t value = time_at(&work->paths[p], row);
        if (value == WEIR_TIME_ALWAYS)
            return WEIR_TIME_ALWAYS;
        latest = value > latest ? value : latest;
    }
    return latest;
}

static void look_up_block(void *context, size_t index, uint32_t worker) {
    time_work *work = context;
    uint64_t nulls = 0, first = index * (uint64_t)LOOK_UP_ROWS, end = first + LOOK_UP_ROWS;
    (void)worker;
    for (uint64_t r = first; r < end && r < work->table->row_count; r++) {
        work->time->values[r] = latest_at(work, WEIR__NARROW(uint32_t, r));
        nulls += work->time->values[r] == WEIR_TIME_ALWAYS ? 1 : 0;
    }
    atomic_fetch_add_explicit(&work->nulls, nulls, memory_order_relaxed);
}

static weir_status look_up_time(weir_ingest__ingest *ingest, uint32_t t, uint32_t number, weir_error *error) {
    const weir_ingest__table_plan *table = &ingest->tables[t];
    weir_ingest__time_plan *time = &table->times[number];
    time_work work = {.table = table, .time = time};
    time->values = weir__allocate(ingest->context.env, table->row_count, sizeof *time->values);
    work.paths = weir__allocate(ingest->context.env, time->path_count, sizeof *work.paths);
    bool has_memory = time->values && work.paths;
    for (uint32_t p = 0; p < time->path_count && has_memory; p++)
        work.paths[p] = follow(ingest, t, &time->paths[p]);
    if (has_memory)
        weir__parallel(ingest->context.env, ingest->context.threads,
                       ((size_t)table->row_count + LOOK_UP_ROWS - 1) / LOOK_UP_ROWS, look_up_block, &work);
    weir__release(ingest->context.env, work.paths);
    if (!has_memory)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, table->row_count * sizeof *time->values);
    time->nulls = atomic_load_explicit(&work.nulls, memory_order_relaxed);
    ((weir_stored_time *)ingest->info_tables[t].times)[number].nulls = time->nulls;
    return WEIR_OK;
}

static weir_status look_up_times(weir_ingest__ingest *ingest, weir_error *error) {
    weir_status status = WEIR_OK;
    for (uint32_t t = 0; t < ingest->table_count; t++)
        for (uint32_t i = 0; i < ingest->tables[t].time_count && status == WEIR_OK; i++)
            status = look_up_time(ingest, t, i, error);
    return status;
}

/* ---- Parents --------------------------------------------------------------------------------- */

static weir_status fail_for_duplicate(const weir_ingest__ingest *ingest, const weir_ingest__edge_plan *edge,
                                      uint32_t row, weir_error *error) {
    char key[200];
    const weir_ingest__table_plan *parent = &ingest->tables[edge->parent_table];
    weir_ingest__values_describe(parent->data, edge->parent_columns, edge->key->column_count, row, key,
                                 sizeof key);
    return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                      "the foreign key %s.%s leads to %s.%s%s, which has the value %s twice",
                      ingest->tables[edge->table].name, edge->key->name, parent->name, edge->key->to[0],
                      edge->key->column_count > 1 ? ", …" : "", key);
}

static weir_status fail_for_dangling(const weir_ingest__ingest *ingest, const weir_ingest__edge_plan *edge,
                                     uint32_t row, weir_error *error) {
    char key[200], row_key[200];
    const weir_ingest__table_plan *table = &ingest->tables[edge->table];
    weir_ingest__values_describe(table->data, edge->columns, edge->key->column_count, row, key, sizeof key);
    weir_ingest__row_key_describe(table, table->data, row, row_key, sizeof row_key);
    return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                      "table %s, column %s%s: there is no row with the key %s (--strict)", table->name,
                      edge->key->name, row_key, key);
}

/* A row's values of a foreign key; whether they are, as bits, those that were there before: runs of one key
 * are common, and text is interned. */
static bool read_keys(const weir_ingest__table_plan *table, const weir_ingest__edge_plan *edge, uint32_t row,
                      weir_ingest__key *keys) {
    bool is_same = true;
    for (uint32_t i = 0; i < edge->key->column_count; i++) {
        weir_ingest__key key = weir_ingest__key_at(&table->data[edge->columns[i]], row);
        is_same = is_same && key.tag == keys[i].tag && key.payload == keys[i].payload;
        keys[i] = key;
    }
    return is_same;
}

static bool has_null(const weir_ingest__key *keys, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (keys[i].tag == WEIR_INGEST__KEY_NULL)
            return true;
    return false;
}

/* What one thread may jump about in, in bytes. */
static uint64_t share_of(const weir_ingest__ingest *ingest) {
    return weir__spill_share(ingest->context.spill) / ingest->context.threads;
}

/* The parents of keys that fall into a range; *dangling is the first row that has none, or what it was. */
static void find_in_range(const weir_ingest__ingest *ingest, weir_ingest__edge_plan *edge,
                          const weir_ingest__key_index *index, uint32_t range, uint32_t range_count,
                          weir_edge *info, uint32_t *dangling) {
    const weir_ingest__table_plan *table = &ingest->tables[edge->table];
    weir_ingest__key keys[WEIR_INGEST__KEY_COLUMNS_MAX] = {{WEIR_INGEST__KEY_NULL, 0}};
    uint32_t found = WEIR_NONE;
    bool is_in_range = range == 0; /* as nulls are */
    for (uint32_t r = 0; r < table->row_count; r++) {
        if (r % LOOK_UP_ROWS == 0)
            weir__spill_look(ingest->context.spill);
        if (!read_keys(table, edge, r, keys)) {
            is_in_range = weir_ingest__key_index_range(index, keys, range_count) == range;
            if (is_in_range)
                found = weir_ingest__key_index_find(index, keys);
        }
        if (!is_in_range)
            continue;
        edge->parents[r] = found;
        if (found != WEIR_NONE) {
            info->edges++;
        } else if (!has_null(keys, edge->key->column_count)) {
            info->dangling++;
            *dangling = r < *dangling ? r : *dangling;
        }
    }
}

static weir_status find_parents(weir_ingest__ingest *ingest, weir_ingest__edge_plan *edge,
                                const weir_ingest__key_index *index, weir_edge *info, weir_error *error) {
    uint32_t range_count = weir_ingest__key_index_ranges(index, share_of(ingest));
    uint32_t dangling = WEIR_NONE;
    for (uint32_t range = 0; range < range_count; range++)
        find_in_range(ingest, edge, index, range, range_count, info, &dangling);
    return ingest->context.options->strict && dangling != WEIR_NONE
               ? fail_for_dangling(ingest, edge, dangling, error)
               : WEIR_OK;
}

static weir_status match_edge(weir_ingest__ingest *ingest, uint32_t number, weir_error *error) {
    weir_ingest__edge_plan *edge = &ingest->edges[number];
    const weir_ingest__table_plan *table = &ingest->tables[edge->table];
    weir_ingest__key_index index = {0};
    uint32_t duplicate;
    edge->parents = weir__allocate(ingest->context.env, table->row_count, sizeof *edge->parents);
    if (!edge->parents)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, table->row_count * sizeof *edge->parents);
    weir_status status =
        weir_ingest__key_index_make(ingest->context.env, &ingest->tables[edge->parent_table],
                                    edge->parent_columns, edge->key->column_count, &index, &duplicate, error);
    if (status == WEIR_OK && duplicate != WEIR_NONE)
        status = fail_for_duplicate(ingest, edge, duplicate, error);
    if (status == WEIR_OK)
        status = find_parents(ingest, edge, &index, &ingest->info_edges[number], error);
    weir_ingest__key_index_release(&index);
    return status;
}

/* ---- Children -------------------------------------------------------------------------------- */

static int64_t edge_time(const weir_ingest__ingest *ingest, const weir_ingest__edge_plan *edge,
                         uint32_t row) {
    return known_time(&ingest->tables[edge->table], edge->known, row);
}

static bool has_times(const weir_ingest__ingest *ingest, const weir_ingest__edge_plan *edge) {
    const weir_ingest__table_plan *table = &ingest->tables[edge->table];
    if (!weir_ingest__known_times(table, table->temporal) && !weir_ingest__known_times(table, edge->known))
        return false;
    for (uint32_t r = 0; r < table->row_count; r++)
        if (edge->parents[r] != WEIR_NONE && edge_time(ingest, edge, r) != WEIR_TIME_ALWAYS)
            return true;
    return false;
}

/* How many children the parents from `first` to `end` have: of parent i at i + 2. */
static void count_children(const weir_ingest__edge_plan *edge, uint32_t row_count, uint32_t first,
                           uint32_t end, uint32_t *starts) {
    for (uint32_t r = 0; r < row_count; r++) {
        size_t parent = edge->parents[r];
        if (parent >= first && parent < end) /* WEIR_NONE is not */
            starts[parent + 2]++;
    }
}

/* Children in row order of the parents from `first` to `end`. */
static void place_children(const weir_ingest__ingest *ingest, weir_ingest__edge_plan *edge, uint32_t first,
                           uint32_t end) {
    const weir_ingest__table_plan *table = &ingest->tables[edge->table];
    for (uint32_t r = 0; r < table->row_count; r++) {
        size_t parent = edge->parents[r];
        if (r % LOOK_UP_ROWS == 0)
            weir__spill_look(ingest->context.spill);
        if (parent < first || parent >= end)
            continue;
        uint32_t place = edge->starts[parent + 1]++;
        edge->child_rows[place] = r;
        if (edge->child_times)
            edge->child_times[place] = edge_time(ingest, edge, r);
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
static void fill_children(const weir_ingest__ingest *ingest, weir_ingest__edge_plan *edge, uint64_t edges,
                          const weir_ingest__table_plan *parents) {
    uint32_t row_count = ingest->tables[edge->table].row_count, *starts = edge->starts;
    uint64_t most = share_of(ingest), size = parents->row_count * sizeof *starts;
    uint64_t child_size = sizeof *edge->child_rows + (edge->child_times ? sizeof *edge->child_times : 0);
    memset(starts, 0, ((size_t)parents->row_count + 2) * sizeof *starts);
    uint32_t range_count = ranges_of(size, most, parents->row_count);
    for (uint32_t i = 0, first = 0; i < range_count; i++) {
        uint32_t end = range_end(i, range_count, parents->row_count);
        count_children(edge, row_count, first, end, starts);
        first = end;
    }
    for (uint32_t p = 2; p <= parents->row_count; p++)
        starts[p] += starts[p - 1];
    range_count = ranges_of(size + edges * child_size, most, parents->row_count);
    for (uint32_t i = 0, first = 0; i < range_count; i++) {
        uint32_t end = range_end(i, range_count, parents->row_count);
        place_children(ingest, edge, first, end);
        first = end;
    }
}

static bool are_times_sorted(const int64_t *times, uint32_t count) {
    for (uint32_t i = 1; i < count; i++)
        if (times[i - 1] > times[i])
            return false;
    return true;
}

static void insert_by_time(uint32_t *rows, int64_t *times, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        uint32_t row = rows[i];
        int64_t time = times[i];
        uint32_t k = i;
        for (; k > 0 && times[k - 1] > time; k--) {
            rows[k] = rows[k - 1];
            times[k] = times[k - 1];
        }
        rows[k] = row;
        times[k] = time;
    }
}

/* A long list: sorted by number, the times as the sort's primary. Rows ascend, so that a stable sort is
 * enough. */
static bool sort_long_list(const weir_env *env, uint32_t *rows, int64_t *times, uint32_t count) {
    weir_ingest__sort_item *items = weir__allocate(env, count, sizeof *items);
    bool is_fine = items != NULL;
    for (uint32_t i = 0; is_fine && i < count; i++)
        items[i] = (weir_ingest__sort_item){(uint64_t)times[i] ^ (uint64_t)1 << 63, rows[i]};
    is_fine = is_fine && weir_ingest__sort(env, items, count, NULL, NULL);
    for (uint32_t i = 0; is_fine && i < count; i++) {
        rows[i] = WEIR__NARROW(uint32_t, items[i].index);
        times[i] = (int64_t)(items[i].primary ^ (uint64_t)1 << 63);
    }
    weir__release(env, items);
    return is_fine;
}

static bool sort_children(const weir_env *env, weir_ingest__edge_plan *edge, uint32_t parent_count) {
    enum { SHORT_LIST = 32 };
    for (uint32_t p = 0; p < parent_count; p++) {
        uint32_t start = edge->starts[p];
        uint32_t count = edge->starts[p + 1] - start;
        int64_t *times = edge->child_times + start;
        if (are_times_sorted(times, count))
            continue;
        if (count <= SHORT_LIST)
            insert_by_time(edge->child_rows + start, times, count);
        else if (!sort_long_list(env, edge->child_rows + start, times, count))
            return false;
    }
    return true;
}

static weir_status make_children(weir_ingest__ingest *ingest, uint32_t number, weir_error *error) {
    const weir_env *env = ingest->context.env;
    weir_ingest__edge_plan *edge = &ingest->edges[number];
    weir_edge *info = &ingest->info_edges[number];
    const weir_ingest__table_plan *parents = &ingest->tables[info->parent_table];
    edge->starts = weir__allocate(env, (size_t)parents->row_count + 2, sizeof *edge->starts);
    edge->child_rows = weir__allocate(env, info->edges, sizeof *edge->child_rows);
    bool wants_times = has_times(ingest, edge);
    if (wants_times)
        edge->child_times = weir__allocate(env, info->edges, sizeof *edge->child_times);
    bool is_fine = edge->starts && edge->child_rows && (!wants_times || edge->child_times);
    if (is_fine)
        fill_children(ingest, edge, info->edges, parents);
    if (is_fine && wants_times)
        is_fine = sort_children(env, edge, parents->row_count);
    info->child_times = (const uint8_t *)edge->child_times;
    return is_fine ? WEIR_OK : weir__out_of_memory(error, WEIR_INGEST__OPERATOR, info->edges * 12);
}

/* ---- All edge types -------------------------------------------------------------------------- */

/* Runs one step for every edge type, in parallel; the first failure in their order is the error. */
static weir_status for_each_edge(weir_ingest__ingest *ingest,
                                 void (*step)(void *context, size_t index, uint32_t worker),
                                 weir_error *error) {
    weir__parallel(ingest->context.env, ingest->context.threads, ingest->edge_count, step, ingest);
    for (uint32_t e = 0; e < ingest->edge_count; e++)
        if (ingest->edges[e].status != WEIR_OK) {
            if (error)
                *error = ingest->edges[e].error;
            return ingest->edges[e].status;
        }
    return WEIR_OK;
}

static void run_match(void *context, size_t index, uint32_t worker) {
    weir_ingest__ingest *ingest = context;
    weir_ingest__edge_plan *edge = &ingest->edges[index];
    (void)worker;
    edge->status = match_edge(ingest, WEIR__NARROW(uint32_t, index), &edge->error);
    (void)weir_ingest__advance(&ingest->context, ingest->tables[edge->table].row_count);
}

static void run_children(void *context, size_t index, uint32_t worker) {
    weir_ingest__ingest *ingest = context;
    weir_ingest__edge_plan *edge = &ingest->edges[index];
    (void)worker;
    edge->status = make_children(ingest, WEIR__NARROW(uint32_t, index), &edge->error);
    (void)weir_ingest__advance(&ingest->context, ingest->tables[edge->table].row_count);
}

/* Foreign keys have done their work; other keys are still looked up by tasks. */
static void release_foreign_keys(weir_ingest__ingest *ingest) {
    for (uint32_t t = 0; t < ingest->table_count; t++) {
        const weir_ingest__table_plan *table = &ingest->tables[t];
        for (uint32_t c = 0; c < table->column_count; c++) {
            if (!table->columns[c].is_foreign || table->columns[c].is_primary || table->columns[c].is_target)
                continue;
            weir__release(ingest->context.env, table->data[c].keys);
            weir__release(ingest->context.env, table->data[c].tags);
            table->data[c].keys = NULL;
            table->data[c].tags = NULL;
        }
    }
}

weir_status weir_ingest__match_keys(weir_ingest__ingest *ingest, weir_error *error) {
    uint64_t total = 0;
    for (uint32_t e = 0; e < ingest->edge_count; e++)
        total += 2 * (uint64_t)ingest->tables[ingest->edges[e].table].row_count;
    weir_ingest__begin_phase(&ingest->context, "match", total, 0);
    weir_status status = for_each_edge(ingest, run_match, error);
    if (status == WEIR_OK)
        status = look_up_times(ingest, error);
    if (status == WEIR_OK)
        status = for_each_edge(ingest, run_children, error);
    if (status == WEIR_OK)
        release_foreign_keys(ingest);
    return status;
}
