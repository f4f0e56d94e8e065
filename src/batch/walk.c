/* The walk of the contract. Known rows (visited, queued as a parent, listed as a child) are in a small open
 * table of 8-byte entries; a generation in each makes emptying it free. Children of all levels are in one
 * heap ordered by (level, priority, row): its least entry is the next child. A parent queue that is first in,
 * first out holds what goes before any child.
 *
 * Every bound is known at open: a visited row adds at most its foreign keys to the queue and child_width rows
 * a shown edge type to the heap, and no row is queued or listed twice. */
#include "batch/walk.h"

#include <string.h>

#include "base/bytes.h"
#include "base/philox.h"

static const char operator_name[] = "weir.batch.walk";

enum {
    UNVISITED = UINT16_MAX,
    QUEUED = 1,
    LISTED = 2,
    FLAG_BITS = 2,
    GENERATION_MAX = (1 << (16 - FLAG_BITS)) - 1,
    LINEAR_WIDTH = 32, /* up to here, "is it taken" is a scan */
};

/* ---- Opening --------------------------------------------------------------------------------- */

uint32_t weir__most_parents(const weir_store_info *info) {
    uint32_t most = 0;
    for (uint32_t t = 0; t < info->table_count; t++)
        most = info->tables[t].edge_count > most ? info->tables[t].edge_count : most;
    return most;
}

static uint32_t most_inbound(const weir_store_info *info) {
    uint32_t most = 0;
    for (uint32_t t = 0; t < info->table_count; t++)
        most = info->tables[t].inbound_count > most ? info->tables[t].inbound_count : most;
    return most;
}

static uint64_t lesser(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint32_t power_of_two_above(uint64_t n) {
    uint64_t power = 64;
    while (power < n)
        power *= 2;
    return (uint32_t)lesser(power, (uint64_t)1 << 31);
}

weir_status weir__walk_open(weir__walk *walk, const weir_env *env, const weir__task_rules *rules,
                            const weir_store *store, const weir_batch_config *config, weir_error *error) {
    const weir_store_info *info = rules->info;
    uint64_t rows = lesser(config->max_rows, info->row_count);
    uint64_t queued = lesser(rows * weir__most_parents(info), info->row_count) + 1;
    uint64_t listed = lesser(rows * most_inbound(info) * config->child_width, info->row_count) + 1;
    uint64_t known = lesser(rows + queued + listed, (uint64_t)info->row_count + 1);
    *walk = (weir__walk){
        .rules = rules,
        .store = store,
        .sequence_length = config->sequence_length,
        .max_rows = config->max_rows,
        .max_hops = config->max_hops,
        .child_width = config->child_width,
        .policy = config->child_policy,
        .known_mask = power_of_two_above(2 * known) - 1,
        .queue_mask = power_of_two_above(queued) - 1,
        .taken_mask = power_of_two_above(2 * (uint64_t)config->child_width) - 1,
    };
    walk->rows = weir__allocate(env, rows + 1, sizeof *walk->rows);
    walk->edges = weir__allocate(env, rows * weir__most_parents(info) + 1, sizeof *walk->edges);
    walk->known = weir__allocate_zero(env, (size_t)walk->known_mask + 1, sizeof *walk->known);
    walk->queue = weir__allocate(env, (size_t)walk->queue_mask + 1, sizeof *walk->queue);
    walk->heap = weir__allocate(env, listed, sizeof *walk->heap);
    walk->taken = weir__allocate(env, (size_t)config->child_width + 1, sizeof *walk->taken);
    walk->taken_table = weir__allocate_zero(env, (size_t)walk->taken_mask + 1, sizeof *walk->taken_table);
    if (walk->rows && walk->edges && walk->known && walk->queue && walk->heap && walk->taken &&
        walk->taken_table)
        return WEIR_OK;
    weir__walk_close(walk, env);
    return weir__out_of_memory(error, operator_name, (size_t)known * sizeof *walk->known);
}

void weir__walk_close(weir__walk *walk, const weir_env *env) {
    weir__release(env, walk->rows);
    weir__release(env, walk->edges);
    weir__release(env, walk->known);
    weir__release(env, walk->queue);
    weir__release(env, walk->heap);
    weir__release(env, walk->taken);
    weir__release(env, walk->taken_table);
    *walk = (weir__walk){0};
}

/* ---- Randomness ------------------------------------------------------------------------------ */

static weir_random draw(weir__walk *walk) {
    weir_seed seed = walk->seed;
    seed.word[2] ^= walk->draws++;
    return weir__philox(seed, WEIR_DOMAIN_WALK, walk->position);
}

/* ---- Known rows ------------------------------------------------------------------------------ */

static void begin_generation(weir__walk *walk) {
    if (walk->generation == GENERATION_MAX) {
        memset(walk->known, 0, ((size_t)walk->known_mask + 1) * sizeof *walk->known);
        walk->generation = 0;
    }
    walk->generation++;
}

static uint32_t place_of(const weir__walk *walk, uint32_t row) {
    return (row * 0x9E3779B1u) >> 7 & walk->known_mask;
}

static bool is_current(const weir__walk *walk, const weir__known_row *entry) {
    return entry->stamp >> FLAG_BITS == walk->generation;
}

/* The entry of a row, made where there is none. The table is at most half full. */
static weir__known_row *know(weir__walk *walk, uint32_t row) {
    uint32_t place = place_of(walk, row);
    for (;; place = (place + 1) & walk->known_mask) {
        weir__known_row *entry = &walk->known[place];
        if (!is_current(walk, entry)) {
            *entry = (weir__known_row){
                .row = row, .local = UNVISITED, .stamp = (uint16_t)(walk->generation << FLAG_BITS)};
            return entry;
        }
        if (entry->row == row)
            return entry;
    }
}

/* The local number of a row of the sequence, UNVISITED for any other. */
static uint16_t local_of(const weir__walk *walk, uint32_t row) {
    uint32_t place = place_of(walk, row);
    for (;; place = (place + 1) & walk->known_mask) {
        const weir__known_row *entry = &walk->known[place];
        if (!is_current(walk, entry))
            return UNVISITED;
        if (entry->row == row)
            return entry->local;
    }
}

/* ---- The heap of children -------------------------------------------------------------------- */

static bool goes_before(const weir__listed_row *a, const weir__listed_row *b) {
    if (a->level != b->level)
        return a->level < b->level;
    return a->priority != b->priority ? a->priority < b->priority : a->row < b->row;
}

static void heap_push(weir__walk *walk, weir__listed_row entry) {
    uint32_t at = walk->heap_count++;
    while (at > 0) {
        uint32_t above = (at - 1) / 2;
        if (!goes_before(&entry, &walk->heap[above]))
            break;
        walk->heap[at] = walk->heap[above];
        at = above;
    }
    walk->heap[at] = entry;
}

static weir__listed_row heap_pop(weir__walk *walk) {
    weir__listed_row least = walk->heap[0];
    weir__listed_row last = walk->heap[--walk->heap_count];
    uint32_t at = 0;
    for (;;) {
        uint32_t below = 2 * at + 1;
        if (below >= walk->heap_count)
            break;
        if (below + 1 < walk->heap_count && goes_before(&walk->heap[below + 1], &walk->heap[below]))
            below++;
        if (!goes_before(&walk->heap[below], &last))
            break;
        walk->heap[at] = walk->heap[below];
        at = below;
    }
    walk->heap[at] = last;
    return least;
}

/* ---- Time ------------------------------------------------------------------------------------ */

static int64_t row_time(const weir_table *table, const uint8_t *record) {
    return table->time_offset == WEIR_NONE ? WEIR_TIME_ALWAYS
                                           : (int64_t)weir__load64(record + table->time_offset);
}

/* A timestamp slot that says when something is known; null is never. */
static bool is_known(const uint8_t *record, uint32_t known_slot, int64_t observation_time) {
    if (known_slot == WEIR_NONE)
        return true;
    int64_t known = (int64_t)weir__load64(record + known_slot);
    return known != WEIR_TIME_ALWAYS && known <= observation_time;
}

static const uint8_t *record_of(const weir_table *table, uint32_t row) {
    return table->records + (size_t)(row - table->row_start) * table->stride;
}

static bool has_row(const weir_table *table, uint32_t row) {
    return row - table->row_start < table->row_count;
}

/* ---- Visiting -------------------------------------------------------------------------------- */

bool weir__label_is_hidden(const weir__task_rules *rules, uint32_t table, uint32_t row) {
    const weir_task *task = rules->task;
    if (!task->is_cell || table != task->anchor_table || rules->label_visibility == WEIR_LABELS_ALL)
        return false;
    if (rules->label_visibility == WEIR_LABELS_NONE)
        return true;
    uint32_t index = row - rules->info->tables[table].row_start;
    return task->held_out[index / 8] >> index % 8 & 1;
}

static uint32_t cells_of(const weir__walk *walk, uint32_t table, uint32_t row) {
    const weir__table_rules *rules = &walk->rules->tables[table];
    if (walk->row_count == 0)
        return 1 + rules->unlabelled.count; /* the target, then the anchor's other cells */
    return weir__label_is_hidden(walk->rules, table, row) ? rules->unlabelled.count : rules->plain.count;
}

static void list_parents(weir__walk *walk, const uint8_t *record, uint32_t table, uint16_t hop) {
    const weir_store_info *info = walk->rules->info;
    const weir__table_rules *rules = &walk->rules->tables[table];
    if (row_time(&info->tables[table], record) > walk->observation_time)
        return; /* an anchor from the future: its edges are hidden */
    for (uint32_t i = 0; i < rules->parent_count; i++) {
        const weir__parent_rule *rule = &rules->parents[i];
        uint32_t parent = weir__load32(record + rule->parent_slot);
        if (parent == WEIR_NONE || !is_known(record, rule->known_slot, walk->observation_time))
            continue;
        const weir_table *parents = &info->tables[rule->parent_table];
        if (!has_row(parents, parent)) {
            walk->is_corrupt = true;
            return;
        }
        weir__known_row *entry = know(walk, parent);
        if (entry->local != UNVISITED || entry->stamp & QUEUED)
            continue;
        if (row_time(parents, record_of(parents, parent)) > walk->observation_time)
            continue;
        entry->stamp |= QUEUED;
        walk->queue[walk->queue_end++ & walk->queue_mask] = (weir__queued_row){
            .row = parent, .hop = (uint16_t)(hop + 1), .table = (uint16_t)rule->parent_table};
    }
}

/* Adds `value` to the taken places unless it is there; says whether it was not. */
static bool take_once(weir__walk *walk, uint32_t count, uint32_t value) {
    if (walk->child_width <= LINEAR_WIDTH) {
        for (uint32_t i = 0; i < count; i++)
            if (walk->taken[i] == value)
                return false;
        return true;
    }
    uint32_t place = (value * 0x9E3779B1u) >> 7 & walk->taken_mask;
    while (walk->taken_table[place] != 0) {
        if (walk->taken_table[place] == value + 1)
            return false;
        place = (place + 1) & walk->taken_mask;
    }
    walk->taken_table[place] = value + 1;
    return true;
}

static void forget_taken(weir__walk *walk) {
    if (walk->child_width > LINEAR_WIDTH)
        memset(walk->taken_table, 0, ((size_t)walk->taken_mask + 1) * sizeof *walk->taken_table);
}

static void sort_small(uint32_t *values, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        uint32_t value = values[i];
        uint32_t at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
}

static void sift(uint32_t *values, uint32_t at, uint32_t count) {
    uint32_t value = values[at];
    for (;;) {
        uint32_t below = 2 * at + 1;
        if (below >= count)
            break;
        if (below + 1 < count && values[below + 1] > values[below])
            below++;
        if (values[below] <= value)
            break;
        values[at] = values[below];
        at = below;
    }
    values[at] = value;
}

static void sort_values(uint32_t *values, uint32_t count) {
    if (count <= LINEAR_WIDTH) {
        sort_small(values, count);
        return;
    }
    for (uint32_t i = count / 2; i-- > 0;)
        sift(values, i, count);
    for (uint32_t end = count - 1; end > 0; end--) {
        uint32_t greatest = values[0];
        values[0] = values[end];
        values[end] = greatest;
        sift(values, 0, end);
    }
}

/* Which of n children are taken, ascending, into walk->taken; Floyd's method draws child_width of them
 * without looking at the rest. */
static uint32_t choose_children(weir__walk *walk, uint32_t n) {
    uint32_t width = walk->child_width;
    uint32_t count = n <= width ? n : width;
    if (n <= width || walk->policy == WEIR_CHILDREN_RECENT) {
        for (uint32_t i = 0; i < count; i++)
            walk->taken[i] = n - count + i;
        return count;
    }
    for (uint32_t i = 0; i < width; i++) {
        uint32_t j = n - width + i;
        uint32_t t = (uint32_t)weir__scale(draw(walk), (uint64_t)j + 1);
        walk->taken[i] = take_once(walk, i, t) ? t : j;
        if (walk->taken[i] == j && t != j)
            (void)take_once(walk, i, j);
    }
    forget_taken(walk);
    sort_values(walk->taken, width);
    return width;
}

static void list_child(weir__walk *walk, uint32_t child, uint32_t table, uint16_t hop) {
    weir__known_row *entry = know(walk, child);
    if (entry->local != UNVISITED || entry->stamp & LISTED)
        return;
    entry->stamp |= LISTED;
    heap_push(walk, (weir__listed_row){.priority = draw(walk).k0,
                                       .row = child,
                                       .level = (uint16_t)(hop + 1),
                                       .table = (uint16_t)table});
}

static void list_children(weir__walk *walk, uint32_t row, uint32_t table, uint16_t hop) {
    const weir_store_info *info = walk->rules->info;
    const weir__table_rules *rules = &walk->rules->tables[table];
    for (uint32_t i = 0; i < rules->inbound_count; i++) {
        const weir_edge *edge = &info->edges[rules->inbound[i]];
        uint32_t known;
        uint32_t start =
            weir_store_children(walk->store, rules->inbound[i], row, walk->observation_time, &known);
        uint32_t count = choose_children(walk, known);
        for (uint32_t k = 0; k < count; k++) {
            uint32_t child = weir__load32(edge->child_rows + 4 * ((size_t)start + walk->taken[k]));
            if (!has_row(&info->tables[edge->table], child)) {
                walk->is_corrupt = true;
                return;
            }
            list_child(walk, child, edge->table, hop);
        }
    }
}

static void visit(weir__walk *walk, uint32_t row, uint32_t table, uint16_t hop) {
    const uint8_t *record = record_of(&walk->rules->info->tables[table], row);
    uint32_t cells = cells_of(walk, table, row);
    know(walk, row)->local = (uint16_t)walk->row_count;
    walk->rows[walk->row_count++] = (weir__walked_row){
        .row = row, .table = table, .record = record, .first_cell = walk->cell_count, .cell_count = cells};
    walk->cell_count += cells;
    if (hop >= walk->max_hops)
        return;
    list_parents(walk, record, table, hop);
    if (!walk->is_corrupt)
        list_children(walk, row, table, hop);
}

/* The next row to visit: parents first, then the least child of the lowest level. False where nothing is
 * left. */
static bool next_row(weir__walk *walk, uint32_t *row, uint32_t *table, uint16_t *hop) {
    while (walk->queue_begin != walk->queue_end) {
        weir__queued_row next = walk->queue[walk->queue_begin++ & walk->queue_mask];
        if (know(walk, next.row)->local != UNVISITED)
            continue;
        *row = next.row;
        *table = next.table;
        *hop = next.hop;
        return true;
    }
    while (walk->heap_count > 0) {
        weir__listed_row next = heap_pop(walk);
        if (know(walk, next.row)->local != UNVISITED)
            continue;
        *row = next.row;
        *table = next.table;
        *hop = next.level;
        return true;
    }
    return false;
}

/* Foreign keys between rows that are both in the sequence. */
static void join_rows(weir__walk *walk) {
    const weir_store_info *info = walk->rules->info;
    walk->edge_count = 0;
    for (uint32_t r = 0; r < walk->row_count; r++) {
        const weir__walked_row *walked = &walk->rows[r];
        const weir__table_rules *rules = &walk->rules->tables[walked->table];
        if (row_time(&info->tables[walked->table], walked->record) > walk->observation_time)
            continue;
        for (uint32_t i = 0; i < rules->parent_count; i++) {
            uint32_t parent = weir__load32(walked->record + rules->parents[i].parent_slot);
            if (parent == WEIR_NONE ||
                !is_known(walked->record, rules->parents[i].known_slot, walk->observation_time))
                continue;
            uint16_t local = local_of(walk, parent);
            if (local != UNVISITED)
                walk->edges[walk->edge_count++] = (struct weir__local_edge){(uint16_t)r, local};
        }
    }
}

bool weir__walk_run(weir__walk *walk, weir_seed walk_seed, uint64_t position, uint32_t row,
                    int64_t observation_time) {
    uint32_t table = walk->rules->task->anchor_table;
    uint16_t hop = 0;
    begin_generation(walk);
    walk->row_count = walk->cell_count = walk->edge_count = 0;
    walk->queue_begin = walk->queue_end = walk->heap_count = 0;
    walk->seed = walk_seed;
    walk->position = position;
    walk->draws = 0;
    walk->is_corrupt = false;
    /* 2^63-1 sees everything that is ever known. */
    walk->observation_time = observation_time;
    do
        visit(walk, row, table, hop);
    while (!walk->is_corrupt && walk->cell_count < walk->sequence_length &&
           walk->row_count < walk->max_rows && next_row(walk, &row, &table, &hop));
    if (!walk->is_corrupt)
        join_rows(walk);
    return !walk->is_corrupt;
}
