/* Matching: foreign keys become parent rows, and parent rows get their lists of children.
 *
 * The rows of a key are found by position where integer keys run without gaps, else by a hash table. A
 * parent's children are filled in row order by counting, then sorted by edge time where they are not yet. */
#include <stdlib.h>
#include <string.h>

#include "ingest/state.h"

/* ---- Finding the row of a key ---------------------------------------------------------------- */

/* first_key, first_key + 1, …: the row is the difference. */
static bool is_dense(const weir__column_data *column, uint32_t row_count) {
    if (column->tags || row_count == 0)
        return false;
    for (uint32_t r = 0; r < row_count; r++)
        if (column->keys[r] != column->keys[0] + r)
            return false;
    return true;
}

/* The slot of a key, or the free one where it belongs. */
static uint32_t *find_slot(const weir__key_index *index, weir__key key) {
    for (uint64_t at = weir__key_hash(key) & index->slot_mask;; at = (at + 1) & index->slot_mask) {
        uint32_t *slot = &index->slots[at];
        if (*slot == 0 || weir__key_equal(weir__key_at(index->column, *slot - 1), key))
            return slot;
    }
}

weir_status weir__key_index_make(const weir_env *env, const weir__column_data *column, uint32_t row_count,
                                 weir__key_index *out, uint32_t *duplicate, weir_error *error) {
    *out = (weir__key_index){.env = env, .column = column, .row_count = row_count};
    *duplicate = WEIR_NONE;
    out->is_dense = is_dense(column, row_count);
    if (out->is_dense) {
        out->first_key = (int64_t)column->keys[0];
        return WEIR_OK;
    }
    uint64_t slots = 16;
    while (slots < (uint64_t)row_count * 2)
        slots *= 2;
    out->slot_mask = slots - 1;
    out->slots = weir__allocate_zero(env, slots, sizeof *out->slots);
    if (!out->slots)
        return weir__out_of_memory(error, WEIR__INGEST_OPERATOR, slots * sizeof *out->slots);
    for (uint32_t r = 0; r < row_count; r++) {
        weir__key key = weir__key_at(column, r);
        if (key.tag == WEIR__KEY_NULL)
            continue;
        uint32_t *slot = find_slot(out, key);
        if (*slot != 0 && *duplicate == WEIR_NONE)
            *duplicate = r;
        *slot = *slot ? *slot : r + 1;
    }
    return WEIR_OK;
}

void weir__key_index_release(weir__key_index *index) {
    if (index->env)
        weir__release(index->env, index->slots);
    index->slots = NULL;
}

uint32_t weir__key_index_find(const weir__key_index *index, weir__key key) {
    if (key.tag == WEIR__KEY_NULL)
        return WEIR_NONE;
    if (index->is_dense) {
        bool is_whole = key.tag == WEIR__KEY_INT || key.tag == WEIR__KEY_INTEGRAL_REAL ||
                        key.tag == WEIR__KEY_NEGATIVE_ZERO;
        uint64_t row = key.payload - (uint64_t)index->first_key;
        return is_whole && (int64_t)key.payload >= index->first_key && row < index->row_count
                   ? WEIR__NARROW(uint32_t, row)
                   : WEIR_NONE;
    }
    uint32_t slot = *find_slot(index, key);
    return slot ? slot - 1 : WEIR_NONE;
}

/* ---- Times ----------------------------------------------------------------------------------- */

int64_t weir__row_time(const weir__table_plan *table, uint32_t row) {
    return table->temporal == WEIR_NONE ? WEIR_TIME_ALWAYS
                                        : ((const int64_t *)table->data[table->temporal].values)[row];
}

int64_t weir__cell_time(const weir__table_plan *table, uint32_t known_at, uint32_t row) {
    int64_t time = weir__row_time(table, row);
    if (known_at == WEIR_NONE)
        return time;
    int64_t known = ((const int64_t *)table->data[known_at].values)[row];
    if (known == WEIR_TIME_ALWAYS) /* null */
        return WEIR_TIME_NEVER;
    return known > time ? known : time;
}

/* ---- Parents --------------------------------------------------------------------------------- */

static weir_status fail_for_duplicate(const weir__table_plan *parent, uint32_t column, uint32_t row,
                                      const weir__table_plan *child, uint32_t child_column,
                                      weir_error *error) {
    char key[96];
    weir__key_describe(weir__key_at(&parent->data[column], row), key);
    return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR__INGEST_OPERATOR,
                      "the foreign key %s.%s leads to %s.%s, which has the value %s twice", child->name,
                      child->columns[child_column].name, parent->name, parent->columns[column].name, key);
}

static weir_status fail_for_dangling(const weir__table_plan *table, uint32_t column, uint32_t row,
                                     weir_error *error) {
    char key[96], row_key[200];
    weir__key_describe(weir__key_at(&table->data[column], row), key);
    weir__row_key_describe(table, table->data, row, row_key, sizeof row_key);
    return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR__INGEST_OPERATOR,
                      "table %s, column %s%s: there is no row with the key %s (--strict)", table->name,
                      table->columns[column].name, row_key, key);
}

/* Keys that are equal as bits were found just before: runs of one key are common, and text is interned. */
static weir_status find_parents(weir__ingest *ingest, weir__edge_plan *edge, const weir__key_index *index,
                                weir_edge *info, weir_error *error) {
    const weir__table_plan *table = &ingest->tables[edge->table];
    const weir__column_data *column = &table->data[edge->column];
    uint32_t parent_start = ingest->tables[table->columns[edge->column].parent_table].row_start;
    weir__key before = {WEIR__KEY_NULL, 0};
    uint32_t found = WEIR_NONE;
    for (uint32_t r = 0; r < table->row_count; r++) {
        weir__key key = weir__key_at(column, r);
        if (key.tag != before.tag || key.payload != before.payload)
            found = weir__key_index_find(index, key);
        before = key;
        edge->parents[r] = found == WEIR_NONE ? WEIR_NONE : found + parent_start;
        if (found != WEIR_NONE) {
            info->edges++;
        } else if (key.tag != WEIR__KEY_NULL) {
            info->dangling++;
            if (ingest->options->strict)
                return fail_for_dangling(table, edge->column, r, error);
        }
    }
    return WEIR_OK;
}

/* ---- Children -------------------------------------------------------------------------------- */

static int64_t edge_time(const weir__ingest *ingest, const weir__edge_plan *edge, uint32_t row) {
    const weir__table_plan *table = &ingest->tables[edge->table];
    return weir__cell_time(table, table->columns[edge->column].known_at, row);
}

static bool has_times(const weir__ingest *ingest, const weir__edge_plan *edge) {
    const weir__table_plan *table = &ingest->tables[edge->table];
    if (table->temporal == WEIR_NONE && table->columns[edge->column].known_at == WEIR_NONE)
        return false;
    for (uint32_t r = 0; r < table->row_count; r++)
        if (edge->parents[r] != WEIR_NONE && edge_time(ingest, edge, r) != WEIR_TIME_ALWAYS)
            return true;
    return false;
}

/* Children in row order, and where each parent's begin. */
static void fill_children(const weir__ingest *ingest, weir__edge_plan *edge,
                          const weir__table_plan *parents) {
    const weir__table_plan *table = &ingest->tables[edge->table];
    uint32_t *starts = edge->starts; /* of parent i at i + 1 while filling */
    memset(starts, 0, ((size_t)parents->row_count + 1) * sizeof *starts);
    for (uint32_t r = 0; r < table->row_count; r++)
        if (edge->parents[r] != WEIR_NONE && edge->parents[r] - parents->row_start + 2 <= parents->row_count)
            starts[edge->parents[r] - parents->row_start + 2]++;
    for (uint32_t p = 2; p <= parents->row_count; p++)
        starts[p] += starts[p - 1];
    for (uint32_t r = 0; r < table->row_count; r++) {
        if (edge->parents[r] == WEIR_NONE)
            continue;
        uint32_t place = starts[edge->parents[r] - parents->row_start + 1]++;
        edge->child_rows[place] = table->row_start + r;
        if (edge->child_times)
            edge->child_times[place] = edge_time(ingest, edge, r);
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
    weir__sort_item *items = weir__allocate(env, count, sizeof *items);
    bool is_fine = items != NULL;
    for (uint32_t i = 0; is_fine && i < count; i++)
        items[i] = (weir__sort_item){(uint64_t)times[i] ^ (uint64_t)1 << 63, rows[i]};
    is_fine = is_fine && weir__sort(env, items, count, NULL, NULL);
    for (uint32_t i = 0; is_fine && i < count; i++) {
        rows[i] = items[i].index;
        times[i] = (int64_t)(items[i].primary ^ (uint64_t)1 << 63);
    }
    weir__release(env, items);
    return is_fine;
}

static bool sort_children(const weir_env *env, weir__edge_plan *edge, uint32_t parent_count) {
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

static weir_status make_children(weir__ingest *ingest, weir__edge_plan *edge, const weir_edge *info,
                                 weir_error *error) {
    const weir_env *env = ingest->env;
    const weir__table_plan *parents = &ingest->tables[info->parent_table];
    edge->starts = weir__allocate(env, (size_t)parents->row_count + 1, sizeof *edge->starts);
    edge->child_rows = weir__allocate(env, info->edges, sizeof *edge->child_rows);
    bool wants_times = has_times(ingest, edge);
    if (wants_times)
        edge->child_times = weir__allocate(env, info->edges, sizeof *edge->child_times);
    bool is_fine = edge->starts && edge->child_rows && (!wants_times || edge->child_times);
    if (is_fine)
        fill_children(ingest, edge, parents);
    if (is_fine && wants_times)
        is_fine = sort_children(env, edge, parents->row_count);
    return is_fine ? WEIR_OK : weir__out_of_memory(error, WEIR__INGEST_OPERATOR, info->edges * 12);
}

/* ---- All edge types -------------------------------------------------------------------------- */

static weir_status match_edge(weir__ingest *ingest, uint32_t number, weir_error *error) {
    weir__edge_plan *edge = &ingest->edges[number];
    weir_edge *info = &ingest->info_edges[number];
    const weir__table_plan *table = &ingest->tables[edge->table];
    const weir__column_plan *column = &table->columns[edge->column];
    const weir__table_plan *parent = &ingest->tables[column->parent_table];
    weir__key_index index = {0};
    uint32_t duplicate;
    edge->parents = weir__allocate(ingest->env, table->row_count, sizeof *edge->parents);
    if (!edge->parents)
        return weir__out_of_memory(error, WEIR__INGEST_OPERATOR, table->row_count * sizeof *edge->parents);
    weir_status status = weir__key_index_make(ingest->env, &parent->data[column->parent_column],
                                              parent->row_count, &index, &duplicate, error);
    if (status == WEIR_OK && duplicate != WEIR_NONE)
        status = fail_for_duplicate(parent, column->parent_column, duplicate, table, edge->column, error);
    if (status == WEIR_OK)
        status = find_parents(ingest, edge, &index, info, error);
    weir__key_index_release(&index);
    if (status == WEIR_OK)
        status = make_children(ingest, edge, info, error);
    info->child_times = (const uint8_t *)edge->child_times;
    return status;
}

static void run_edge(void *context, size_t index, uint32_t worker) {
    weir__ingest *ingest = context;
    weir__edge_plan *edge = &ingest->edges[index];
    (void)worker;
    edge->status = match_edge(ingest, WEIR__NARROW(uint32_t, index), &edge->error);
    (void)weir__advance(ingest, ingest->tables[edge->table].row_count);
}

/* Foreign keys have done their work; other keys are still looked up by tasks. */
static void release_foreign_keys(weir__ingest *ingest) {
    for (uint32_t e = 0; e < ingest->edge_count; e++) {
        const weir__table_plan *table = &ingest->tables[ingest->edges[e].table];
        const weir__column_plan *column = &table->columns[ingest->edges[e].column];
        weir__column_data *data = &table->data[ingest->edges[e].column];
        if (column->is_primary || column->is_target)
            continue;
        weir__release(ingest->env, data->keys);
        weir__release(ingest->env, data->tags);
        data->keys = NULL;
        data->tags = NULL;
    }
}

weir_status weir__match_keys(weir__ingest *ingest, weir_error *error) {
    uint64_t total = 0;
    for (uint32_t e = 0; e < ingest->edge_count; e++)
        total += ingest->tables[ingest->edges[e].table].row_count;
    weir__begin_phase(ingest, "match", total, 0);
    weir__parallel(ingest->env, ingest->threads, ingest->edge_count, run_edge, ingest);
    for (uint32_t e = 0; e < ingest->edge_count; e++)
        if (ingest->edges[e].status != WEIR_OK) {
            if (error)
                *error = ingest->edges[e].error;
            return ingest->edges[e].status;
        }
    release_foreign_keys(ingest);
    return WEIR_OK;
}
