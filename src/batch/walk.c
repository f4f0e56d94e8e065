/* The walk of the contract. Known rows (visited, queued as a parent, listed as a child) are in a small open
 * table of 8-byte entries; a generation in each makes emptying it free. Children wait in a list a level;
 * when a level is reached, its children become a heap by (priority, row). Nothing is ever added to the
 * level that is being visited, because a visited row lists its children at least one level further on; so a
 * level that is not reached costs no priorities and no order. A parent queue, first in, first out, holds
 * what goes before any child.
 *
 * Every bound is known at open: a visited row adds at most its foreign keys to the queue and child_width
 * rows a shown edge type to the lists, and no row is queued or listed twice. */
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
    FIRST_PLACES = 2048,
    GROWTHS_MAX = 32,
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
        .known_mask_max = power_of_two_above(2 * known) - 1,
        .queue_mask = power_of_two_above(queued) - 1,
        .taken_mask = power_of_two_above(2 * (uint64_t)config->child_width) - 1,
        .philox = weir__philox_many_best(),
    };
    walk->rows = weir__allocate(env, rows + 1, sizeof *walk->rows);
    walk->edges = weir__allocate(env, rows * weir__most_parents(info) + 1, sizeof *walk->edges);
    walk->known = weir__allocate_zero(env, (size_t)walk->known_mask_max + 1, sizeof *walk->known);
    walk->known_spare = weir__allocate_zero(env, (size_t)walk->known_mask_max + 1, sizeof *walk->known);
    walk->queue = weir__allocate(env, (size_t)walk->queue_mask + 1, sizeof *walk->queue);
    walk->listed = weir__allocate(env, listed, sizeof *walk->listed);
    walk->heap = weir__allocate(env, listed, sizeof *walk->heap);
    walk->taken = weir__allocate(env, (size_t)config->child_width + 1, sizeof *walk->taken);
    walk->taken_table = weir__allocate_zero(env, (size_t)walk->taken_mask + 1, sizeof *walk->taken_table);
    if (walk->rows && walk->edges && walk->known && walk->known_spare && walk->queue && walk->listed &&
        walk->heap && walk->taken && walk->taken_table)
        return WEIR_OK;
    weir__walk_close(walk, env);
    return weir__out_of_memory(error, operator_name, (size_t)known * sizeof *walk->known);
}

void weir__walk_close(weir__walk *walk, const weir_env *env) {
    weir__release(env, walk->rows);
    weir__release(env, walk->edges);
    weir__release(env, walk->known);
    weir__release(env, walk->known_spare);
    weir__release(env, walk->queue);
    weir__release(env, walk->listed);
    weir__release(env, walk->heap);
    weir__release(env, walk->taken);
    weir__release(env, walk->taken_table);
    *walk = (weir__walk){0};
}

/* ---- Randomness ------------------------------------------------------------------------------ */

static weir_random draw_at(weir__walk *walk, uint32_t number) {
    uint32_t block = number / WEIR__DRAWS;
    if (block != walk->draws_block) {
        walk->philox(walk->seed, WEIR_DOMAIN_WALK, walk->position, block * WEIR__DRAWS, &walk->draws);
        walk->draws_block = block;
    }
    return (weir_random){walk->draws.k0[number % WEIR__DRAWS], walk->draws.k1[number % WEIR__DRAWS]};
}

static weir_random draw(weir__walk *walk) {
    return draw_at(walk, walk->draw_count++);
}

/* ---- Known rows ------------------------------------------------------------------------------ */

/* Empties the table: entries of another generation do not count. */
static void begin_generation(weir__walk *walk) {
    if (walk->generation == GENERATION_MAX) {
        memset(walk->known, 0, ((size_t)walk->known_mask_max + 1) * sizeof *walk->known);
        memset(walk->known_spare, 0, ((size_t)walk->known_mask_max + 1) * sizeof *walk->known);
        walk->generation = 0;
    }
    walk->generation++;
    walk->known_count = 0;
}

static uint32_t place_of(const weir__walk *walk, uint32_t row) {
    return (row * 0x9E3779B1u) >> 7 & walk->known_mask;
}

static bool is_of(const weir__known_row *entry, uint16_t generation) {
    return entry->stamp >> FLAG_BITS == generation;
}

static weir__known_row *find_or_add(weir__walk *walk, uint32_t row) {
    uint32_t place = place_of(walk, row);
    for (;; place = (place + 1) & walk->known_mask) {
        weir__known_row *entry = &walk->known[place];
        if (!is_of(entry, walk->generation)) {
            *entry = (weir__known_row){
                .row = row, .local = UNVISITED, .stamp = (uint16_t)(walk->generation << FLAG_BITS)};
            walk->known_count++;
            return entry;
        }
        if (entry->row == row)
            return entry;
    }
}

/* Twice the places, in the spare memory, under a generation of its own. */
static void grow_known(weir__walk *walk) {
    weir__known_row *old = walk->known;
    uint32_t old_places = walk->known_mask + 1;
    walk->known = walk->known_spare;
    walk->known_spare = old;
    walk->known_mask = 2 * walk->known_mask + 1;
    uint16_t old_generation = walk->generation;
    begin_generation(walk);
    for (uint32_t i = 0; i < old_places; i++) {
        if (!is_of(&old[i], old_generation))
            continue;
        weir__known_row *entry = find_or_add(walk, old[i].row);
        entry->local = old[i].local;
        entry->stamp |= old[i].stamp & (QUEUED | LISTED);
    }
}

/* The entry of a row, made where there is none; valid until the next call. The table is small, so that it
 * stays near, and grows where a sequence needs it. */
static weir__known_row *know(weir__walk *walk, uint32_t row) {
    if (2 * walk->known_count > walk->known_mask && walk->known_mask < walk->known_mask_max)
        grow_known(walk);
    return find_or_add(walk, row);
}

/* The local number of a row of the sequence, UNVISITED for any other. */
static uint16_t local_of(const weir__walk *walk, uint32_t row) {
    uint32_t place = place_of(walk, row);
    for (;; place = (place + 1) & walk->known_mask) {
        const weir__known_row *entry = &walk->known[place];
        if (!is_of(entry, walk->generation))
            return UNVISITED;
        if (entry->row == row)
            return entry->local;
    }
}

/* ---- Levels of children ---------------------------------------------------------------------- */

static void begin_levels(weir__walk *walk) {
    for (uint32_t level = 0; level <= walk->max_hops; level++)
        walk->level_first[level] = WEIR_NONE;
    walk->level = walk->listed_count = walk->heap_count = 0;
}

static void append_to_level(weir__walk *walk, uint32_t level, weir__listed_row entry) {
    uint32_t at = walk->listed_count++;
    walk->listed[at] = entry;
    if (walk->level_first[level] == WEIR_NONE)
        walk->level_first[level] = at;
    else
        walk->listed[walk->level_last[level]].next = at;
    walk->level_last[level] = at;
}

static bool goes_before(const weir__ranked_row *a, const weir__ranked_row *b) {
    return a->priority != b->priority ? a->priority < b->priority : a->row < b->row;
}

static void heap_sink(weir__walk *walk, uint32_t at) {
    weir__ranked_row entry = walk->heap[at];
    for (;;) {
        uint32_t below = 2 * at + 1;
        if (below >= walk->heap_count)
            break;
        if (below + 1 < walk->heap_count && goes_before(&walk->heap[below + 1], &walk->heap[below]))
            below++;
        if (!goes_before(&walk->heap[below], &entry))
            break;
        walk->heap[at] = walk->heap[below];
        at = below;
    }
    walk->heap[at] = entry;
}

static weir__ranked_row heap_pop(weir__walk *walk) {
    weir__ranked_row least = walk->heap[0];
    walk->heap[0] = walk->heap[--walk->heap_count];
    heap_sink(walk, 0);
    return least;
}

/* Makes the next level that has children the one that is visited; false where there is none. */
static bool reach_next_level(weir__walk *walk) {
    do {
        if (walk->level == walk->max_hops)
            return false;
        walk->level++;
    } while (walk->level_first[walk->level] == WEIR_NONE);
    for (uint32_t at = walk->level_first[walk->level]; at != WEIR_NONE; at = walk->listed[at].next) {
        const weir__listed_row *entry = &walk->listed[at];
        walk->heap[walk->heap_count++] = (weir__ranked_row){
            .priority = draw_at(walk, entry->draw).k0, .row = entry->row, .table = entry->table};
    }
    for (uint32_t at = walk->heap_count / 2; at-- > 0;)
        heap_sink(walk, at);
    return true;
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

/* Whether the target column's cell of a row is left out: the anchor's is, as it stands before the rest. */
static bool hides_label(const weir__walk *walk, uint32_t table, uint32_t row) {
    const weir__task_rules *rules = walk->rules;
    const weir_task *task = rules->task;
    if (!task->is_cell || table != task->anchor_table)
        return false;
    if (walk->row_count == 0 || rules->label_visibility == WEIR_LABELS_NONE)
        return true;
    if (rules->label_visibility == WEIR_LABELS_ALL)
        return false;
    uint32_t index = row - rules->info->tables[table].row_start;
    return task->held_out[index / 8] >> index % 8 & 1;
}

/* An anchor from the future shows neither its cells nor its foreign keys. No other row is from there. */
static const uint8_t *visible_record(const weir__walk *walk, uint32_t row, uint32_t table) {
    const weir_table *described = &walk->rules->info->tables[table];
    const uint8_t *record = record_of(described, row);
    if (walk->row_count == 0 && row_time(described, record) > walk->observation_time)
        return walk->rules->blank_record;
    return record;
}

/* Gives a row its local number, and its cells their places; the target's is before the anchor's. */
static void add_to_sequence(weir__walk *walk, uint32_t row, uint32_t table, const uint8_t *record) {
    const weir__table_rules *rules = &walk->rules->tables[table];
    const weir__row_rules *cells = hides_label(walk, table, row) ? &rules->unlabelled : &rules->plain;
    walk->cell_count += walk->row_count == 0;
    know(walk, row)->local = (uint16_t)walk->row_count;
    walk->rows[walk->row_count++] = (weir__walked_row){
        .row = row, .table = table, .record = record, .rules = cells, .first_cell = walk->cell_count};
    walk->cell_count += cells->count;
}

static void list_parents(weir__walk *walk, const uint8_t *record, uint32_t table, uint16_t hop) {
    const weir_store_info *info = walk->rules->info;
    const weir__table_rules *rules = &walk->rules->tables[table];
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

/* Few and distinct: each one's place is the number of those below it, counted without a branch. */
static void sort_small(uint32_t *values, uint32_t count) {
    uint32_t sorted[LINEAR_WIDTH];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t below = 0;
        for (uint32_t k = 0; k < count; k++)
            below += values[k] < values[i];
        sorted[below] = values[i];
    }
    memcpy(values, sorted, count * sizeof *values);
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
    append_to_level(
        walk, hop + 1u,
        (weir__listed_row){.row = child, .draw = walk->draw_count++, .next = WEIR_NONE, .table = table});
}

/* Children are read first, all at once, so that their cache misses overlap, and listed after. */
static void list_chosen(weir__walk *walk, const weir_edge *edge, uint32_t start, uint32_t count,
                        uint16_t hop) {
    const weir_table *children = &walk->rules->info->tables[edge->table];
    uint32_t *rows = walk->taken;
    for (uint32_t k = 0; k < count; k++)
        rows[k] = weir__load32(edge->child_rows + 4 * ((size_t)start + rows[k]));
    for (uint32_t k = 0; k < count; k++) {
        if (!has_row(children, rows[k])) {
            walk->is_corrupt = true;
            return;
        }
        list_child(walk, rows[k], edge->table, hop);
    }
}

static void list_children(weir__walk *walk, uint32_t row, uint32_t table, uint16_t hop) {
    const weir__table_rules *rules = &walk->rules->tables[table];
    for (uint32_t i = 0; i < rules->inbound_count && !walk->is_corrupt; i++) {
        uint32_t known;
        uint32_t start =
            weir_store_children(walk->store, rules->inbound[i], row, walk->observation_time, &known);
        uint32_t count = choose_children(walk, known);
        list_chosen(walk, &walk->rules->info->edges[rules->inbound[i]], start, count, hop);
    }
}

static void visit(weir__walk *walk, uint32_t row, uint32_t table, uint16_t hop) {
    const uint8_t *record = visible_record(walk, row, table);
    add_to_sequence(walk, row, table, record);
    if (hop >= walk->max_hops)
        return;
    list_parents(walk, record, table, hop);
    if (!walk->is_corrupt)
        list_children(walk, row, table, hop);
}

/* The next row to visit: parents first, then the least child of the lowest level. False where nothing is
 * left. */
static bool choose_next(weir__walk *walk) {
    while (walk->queue_begin != walk->queue_end) {
        weir__queued_row queued = walk->queue[walk->queue_begin++ & walk->queue_mask];
        if (know(walk, queued.row)->local != UNVISITED)
            continue;
        walk->next = (struct weir__next_row){.row = queued.row, .table = queued.table, .hop = queued.hop};
        return true;
    }
    do
        while (walk->heap_count > 0) {
            weir__ranked_row child = heap_pop(walk);
            if (know(walk, child.row)->local != UNVISITED)
                continue;
            walk->next =
                (struct weir__next_row){.row = child.row, .table = child.table, .hop = (uint16_t)walk->level};
            return true;
        }
    while (reach_next_level(walk));
    return false;
}

/* ---- Fetching ahead -------------------------------------------------------------------------- */

static void fetch(const uint8_t *first, size_t size) {
    __builtin_prefetch(first);
    __builtin_prefetch(first + size - 1);
}

/* What the row itself says: its record, and where its children are listed. */
static void fetch_row(const weir__walk *walk) {
    const weir_store_info *info = walk->rules->info;
    const weir_table *table = &info->tables[walk->next.table];
    const weir__table_rules *rules = &walk->rules->tables[walk->next.table];
    fetch(record_of(table, walk->next.row), table->stride);
    for (uint32_t i = 0; walk->next.hop < walk->max_hops && i < rules->inbound_count; i++)
        fetch(info->edges[rules->inbound[i]].starts + 4 * (size_t)(walk->next.row - table->row_start), 8);
}

/* What that leads to: its parents' times, and the ends and the middle of its children's. */
static void fetch_neighbours(const weir__walk *walk) {
    const weir_store_info *info = walk->rules->info;
    const weir_table *table = &info->tables[walk->next.table];
    const weir__table_rules *rules = &walk->rules->tables[walk->next.table];
    const uint8_t *record = record_of(table, walk->next.row);
    for (uint32_t i = 0; i < rules->parent_count; i++) {
        const weir_table *parents = &info->tables[rules->parents[i].parent_table];
        uint32_t parent = weir__load32(record + rules->parents[i].parent_slot);
        if (parent != WEIR_NONE && has_row(parents, parent) && parents->time_offset != WEIR_NONE)
            __builtin_prefetch(record_of(parents, parent) + parents->time_offset);
    }
    for (uint32_t i = 0; i < rules->inbound_count; i++) {
        const weir_edge *edge = &info->edges[rules->inbound[i]];
        const uint8_t *at = edge->starts + 4 * (size_t)(walk->next.row - table->row_start);
        uint32_t start = weir__load32(at);
        uint32_t end = weir__load32(at + 4);
        if (start >= end || end > edge->edges)
            continue;
        if (edge->child_times)
            fetch(edge->child_times + 8 * (size_t)start, 8 * (size_t)(end - start));
        if (edge->child_times)
            __builtin_prefetch(edge->child_times + 8 * ((size_t)start + (end - start) / 2));
        fetch(edge->child_rows + 4 * (size_t)start, 4 * (size_t)(end - start));
    }
}

/* Foreign keys between rows that are both in the sequence. */
static void join_rows(weir__walk *walk) {
    walk->edge_count = 0;
    for (uint32_t r = 0; r < walk->row_count; r++) {
        const weir__walked_row *walked = &walk->rows[r];
        const weir__table_rules *rules = &walk->rules->tables[walked->table];
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

void weir__walk_begin(weir__walk *walk, weir_seed walk_seed, uint64_t position, uint32_t row,
                      int64_t observation_time) {
    if (walk->generation > GENERATION_MAX - GROWTHS_MAX)
        walk->generation = GENERATION_MAX; /* so that no growth of this walk begins the generations anew */
    walk->known_mask = walk->known_mask_max < FIRST_PLACES - 1 ? walk->known_mask_max : FIRST_PLACES - 1;
    begin_generation(walk);
    walk->row_count = walk->cell_count = walk->edge_count = 0;
    walk->queue_begin = walk->queue_end = 0;
    begin_levels(walk);
    walk->seed = walk_seed;
    walk->position = position;
    walk->draw_count = 0;
    walk->draws_block = WEIR_NONE;
    walk->is_done = walk->is_corrupt = false;
    walk->observation_time = observation_time;
    walk->next = (struct weir__next_row){.row = row, .table = walk->rules->task->anchor_table};
    fetch_row(walk);
}

static bool is_full(const weir__walk *walk) {
    return walk->cell_count >= walk->sequence_length || walk->row_count >= walk->max_rows;
}

bool weir__walk_step(weir__walk *walk) {
    if (!walk->next.is_near && walk->next.hop < walk->max_hops) {
        walk->next.is_near = true;
        fetch_neighbours(walk);
        return true;
    }
    visit(walk, walk->next.row, walk->next.table, walk->next.hop);
    if (!walk->is_corrupt && !is_full(walk) && choose_next(walk)) {
        fetch_row(walk);
        return true;
    }
    walk->is_done = true;
    if (!walk->is_corrupt)
        join_rows(walk);
    return false;
}
