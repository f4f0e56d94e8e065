/* The walk of the contract. Known rows are in known.h, children that wait for their level in levels.h, the
 * choice among many in choose.h; a queue of parents, first in, first out, holds what goes before any child.
 *
 * Every bound is known at open: a visited row adds at most its foreign keys to the queue and child_width
 * rows a shown edge type to the levels, and no row is queued or listed twice. */
#include "batch/walk.h"

#include <string.h>

#include "base/bytes.h"
#include "batch/fetch.h"
#include "store/reader.h"

static const char operator_name[] = "weir.batch.walk";

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
    return WEIR__NARROW(uint32_t, lesser(power, (uint64_t)1 << 31));
}

weir_status weir__walk_open(weir__walk *walk, const weir_env *env, const weir__task_rules *rules,
                            const weir_store *store, const weir_batch_config *config, weir_error *error) {
    const weir_store_info *info = rules->info;
    uint64_t rows = lesser(config->max_rows, info->row_count);
    uint64_t links = rows * weir__most_parents(info);
    uint64_t runs = rows * most_inbound(info);
    uint64_t queued = lesser(links, info->row_count) + 1;
    uint64_t listed = lesser(runs * config->child_width, info->row_count);
    uint64_t known = lesser(rows + queued + listed, (uint64_t)info->row_count + 1);
    *walk = (weir__walk){
        .rules = rules,
        .store = store,
        .sequence_length = config->sequence_length,
        .max_rows = config->max_rows,
        .max_hops = config->max_hops,
        .policy = config->child_policy,
        .queue_mask = power_of_two_above(queued) - 1,
        .draws.philox = weir__philox_many_best(),
    };
    walk->rows = weir__allocate(env, rows + 1, sizeof *walk->rows);
    walk->edges = weir__allocate(env, links + 1, sizeof *walk->edges);
    walk->links = weir__allocate(env, links + 1, sizeof *walk->links);
    walk->queue = weir__allocate(env, (size_t)walk->queue_mask + 1, sizeof *walk->queue);
    bool is_open = weir__known_open(&walk->known, env, known);
    is_open &= weir__levels_open(&walk->levels, env, listed + 1, runs + 1, config->max_hops);
    is_open &= weir__chooser_open(&walk->chooser, env, config->child_width);
    if (is_open && walk->rows && walk->edges && walk->links && walk->queue)
        return WEIR_OK;
    weir__walk_close(walk, env);
    return weir__out_of_memory(error, operator_name, (size_t)known * sizeof *walk->known.entries);
}

void weir__walk_close(weir__walk *walk, const weir_env *env) {
    weir__release(env, walk->rows);
    weir__release(env, walk->edges);
    weir__release(env, walk->links);
    weir__release(env, walk->queue);
    weir__known_close(&walk->known, env);
    weir__levels_close(&walk->levels, env);
    weir__chooser_close(&walk->chooser, env);
    *walk = (weir__walk){0};
}

/* ---- What a record says ---------------------------------------------------------------------- */

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

/* Nothing of the store is used before it is verified: a walk over what is damaged is corrupt. */
static void touch(weir__walk *walk, weir__section_kind kind, const uint8_t *at, size_t size) {
    walk->is_corrupt |= !weir__store_touch(walk->store, kind, at, size);
}

/* ---- Choosing the next row ------------------------------------------------------------------- */

static void fetch(const uint8_t *first, size_t size) {
    weir__fetch(first);
    weir__fetch(first + size - 1);
}

/* Asks for what a row says itself, before it is looked at: its record, and where its children are. */
static void fetch_row(const weir__walk *walk, uint32_t row, uint32_t table, uint32_t hop) {
    const weir_store_info *info = walk->rules->info;
    const weir_table *described = &info->tables[table];
    const weir__table_rules *rules = &walk->rules->tables[table];
    fetch(record_of(described, row), described->stride);
    if (hop < walk->max_hops)
        for (uint32_t i = 0; i < rules->inbound_count; i++)
            weir__fetch(info->edges[rules->inbound[i]].starts + 4 * (size_t)(row - described->row_start));
}

/* Makes a row the next of the sequence. */
static void choose(weir__walk *walk, uint64_t *entry, uint32_t row, uint32_t table, uint32_t hop) {
    *entry = (*entry & ~(uint64_t)WEIR__UNVISITED) | walk->row_count;
    walk->next = (struct weir__next_row){.record = record_of(&walk->rules->info->tables[table], row),
                                         .row = row,
                                         .table = table,
                                         .hop = WEIR__NARROW(uint16_t, hop)};
}

/* Parents first, then the least child of the lowest level. False where nothing is left. A queued parent is
 * not visited meanwhile: it is queued once, and children are visited only when the queue is empty. */
static bool choose_next(weir__walk *walk) {
    if (walk->queue_begin != walk->queue_end) {
        weir__queued_row queued = walk->queue[walk->queue_begin++ & walk->queue_mask];
        choose(walk, weir__know(&walk->known, queued.row), queued.row, queued.table, queued.hop);
        return true;
    }
    const weir__levels *levels = &walk->levels;
    weir__ranked_row child;
    while (weir__take_child(&walk->levels, &walk->draws, &child)) {
        if (levels->has_ahead)
            fetch_row(walk, levels->ahead.row, levels->ahead.table, levels->current);
        uint64_t *entry = weir__know(&walk->known, child.row);
        if (WEIR__LOW(uint16_t, *entry) != WEIR__UNVISITED)
            continue;
        choose(walk, entry, child.row, child.table, levels->current);
        return true;
    }
    return false;
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* A list that is searched and picked from: all of a short one, of a long one its beginning, middle and
 * end. */
static void fetch_list(const uint8_t *first, size_t size) {
    enum { LINE = 64, LINES = 8 };
    for (size_t line = 0; line < size && line < LINES * LINE; line += LINE)
        weir__fetch(first + line);
    weir__fetch(first + size / 2);
    weir__fetch(first + size - 1);
}

/* Notes the row's visible foreign keys, and asks for their parents' times. */
static void look_at_parents(weir__walk *walk) {
    const weir_store_info *info = walk->rules->info;
    const weir__table_rules *rules = &walk->rules->tables[walk->next.table];
    const uint8_t *record = walk->next.record;
    walk->next.first_link = walk->link_count;
    for (uint32_t i = 0; i < rules->parent_count; i++) {
        const weir__parent_rule *rule = &rules->parents[i];
        const weir_table *parents = &info->tables[rule->parent_table];
        uint32_t parent = weir__load32(record + rule->parent_slot);
        if (parent == WEIR_NONE || !is_known(record, rule->known_slot, walk->observation_time))
            continue;
        if (!has_row(parents, parent)) {
            walk->is_corrupt = true;
            return;
        }
        weir__fetch(record_of(parents, parent) + rule->parent_time_offset);
        walk->links[walk->link_count++] = (weir__link){.parent = parent,
                                                       .table = WEIR__NARROW(uint16_t, rule->parent_table),
                                                       .child = WEIR__NARROW(uint16_t, walk->row_count)};
    }
}

/* Asks for the row's lists of children. */
static void look_at_children(const weir__walk *walk) {
    const weir_store_info *info = walk->rules->info;
    const weir__table_rules *rules = &walk->rules->tables[walk->next.table];
    uint32_t index = walk->next.row - info->tables[walk->next.table].row_start;
    for (uint32_t i = 0; i < rules->inbound_count; i++) {
        const weir_edge *edge = &info->edges[rules->inbound[i]];
        uint32_t start = weir__load32(edge->starts + 4 * (size_t)index);
        uint32_t end = weir__load32(edge->starts + 4 * (size_t)index + 4);
        if (start >= end || end > edge->edges)
            continue;
        fetch_list(edge->child_rows + 4 * (size_t)start, 4 * (size_t)(end - start));
        if (edge->child_times)
            fetch_list(edge->child_times + 8 * (size_t)start, 8 * (size_t)(end - start));
    }
}

void weir__walk_look(weir__walk *walk) {
    const weir_table *table = &walk->rules->info->tables[walk->next.table];
    if (table->stride > 0)
        touch(walk, WEIR__SECTION_ROWS, walk->next.record, table->stride);
    /* An anchor from the future shows neither its cells nor its foreign keys, unless the task shows what is
     * known of it by then. No other row is from there. */
    if (walk->row_count == 0 && walk->rules->task->before_anchor != WEIR_BEFORE_ANCHOR_SHOW_KNOWN &&
        row_time(table, walk->next.record) > walk->observation_time)
        walk->next.record = walk->rules->blank_record;
    look_at_parents(walk);
    if (walk->next.hop < walk->max_hops)
        look_at_children(walk);
}

/* ---- Visiting -------------------------------------------------------------------------------- */

/* Whether the target column's cell of a row is left out: the anchor's is, as it stands before the rest. */
static bool hides_label(weir__walk *walk, uint32_t table, uint32_t row) {
    const weir__task_rules *rules = walk->rules;
    const weir_task *task = rules->task;
    if (!task->is_cell || table != task->anchor_table)
        return false;
    if (walk->row_count == 0 || rules->label_visibility == WEIR_LABELS_NONE)
        return true;
    if (rules->label_visibility == WEIR_LABELS_ALL)
        return false;
    uint32_t index = row - rules->info->tables[table].row_start;
    touch(walk, WEIR__SECTION_SEED_BITS, task->held_out + index / 8, 1);
    return task->held_out[index / 8] >> index % 8 & 1;
}

/* Gives the row's cells their places; the target's is before the anchor's. */
static void add_to_sequence(weir__walk *walk) {
    const struct weir__next_row *next = &walk->next;
    const weir__table_rules *rules = &walk->rules->tables[next->table];
    const weir__row_rules *cells =
        hides_label(walk, next->table, next->row) ? &rules->unlabelled : &rules->plain;
    walk->cell_count += walk->row_count == 0;
    walk->rows[walk->row_count++] = (weir__walked_row){.row = next->row,
                                                       .table = next->table,
                                                       .record = next->record,
                                                       .rules = cells,
                                                       .first_cell = walk->cell_count};
    walk->cell_count += cells->count;
}

static void queue_parents(weir__walk *walk) {
    const weir_table *tables = walk->rules->info->tables;
    for (uint32_t i = walk->next.first_link; i < walk->link_count; i++) {
        weir__link link = walk->links[i];
        const weir_table *table = &tables[link.table];
        const uint8_t *record = record_of(table, link.parent);
        uint64_t *entry = weir__know(&walk->known, link.parent);
        if (table->time_offset != WEIR_NONE)
            touch(walk, WEIR__SECTION_ROWS, record + table->time_offset, 8);
        bool is_visible = row_time(table, record) <= walk->observation_time;
        bool is_new = (*entry & (WEIR__QUEUED | WEIR__UNVISITED)) == WEIR__UNVISITED;
        if (!is_new || !is_visible)
            continue;
        *entry |= WEIR__QUEUED;
        fetch_row(walk, link.parent, link.table, walk->next.hop + 1u);
        walk->queue[walk->queue_end++ & walk->queue_mask] = (weir__queued_row){
            .row = link.parent, .hop = WEIR__NARROW(uint16_t, walk->next.hop + 1), .table = link.table};
    }
}

/* Before the children at `places` (ascending) of a list are read: together, unless they lie far apart. */
static void touch_chosen(weir__walk *walk, const uint8_t *list, const uint32_t *places, uint32_t count) {
    if (count == 0)
        return;
    size_t first = 4 * (size_t)places[0];
    size_t size = 4 * ((size_t)places[count - 1] + 1) - first;
    if (size <= WEIR__SUBTREE_SIZE) {
        touch(walk, WEIR__SECTION_CHILD_ROWS, list + first, size);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        touch(walk, WEIR__SECTION_CHILD_ROWS, list + 4 * (size_t)places[i], 4);
}

/* The rows of `count` children from the start-th on that are taken of n, into chooser.taken; returns how
 * many. They are read all at once, so that their cache misses overlap. */
static uint32_t take_children(weir__walk *walk, const weir_edge *edge, uint32_t start, uint32_t n) {
    uint32_t *taken = walk->chooser.taken;
    uint32_t width = walk->chooser.width;
    if (n <= width || walk->policy == WEIR_CHILDREN_RECENT) {
        uint32_t count = n <= width ? n : width;
        const uint8_t *from = edge->child_rows + 4 * ((size_t)start + n - count);
        if (count > 0)
            touch(walk, WEIR__SECTION_CHILD_ROWS, from, 4 * (size_t)count);
        for (uint32_t i = 0; i < count; i++)
            taken[i] = weir__load32(from + 4 * (size_t)i);
        return count;
    }
    weir__choose(&walk->chooser, &walk->draws, n);
    const uint8_t *list = edge->child_rows + 4 * (size_t)start;
    touch_chosen(walk, list, taken, width);
    for (uint32_t i = 0; i < width; i++)
        taken[i] = weir__load32(list + 4 * (size_t)taken[i]);
    return width;
}

static bool has_all_rows(const weir_table *table, const uint32_t *rows, uint32_t count) {
    bool has_all = true;
    for (uint32_t i = 0; i < count; i++)
        has_all &= has_row(table, rows[i]);
    return has_all;
}

/* Lists those children that are neither visited nor listed, without a branch on whether they are. */
static void list_run(weir__walk *walk, const uint32_t *children, uint32_t count, uint32_t table) {
    uint32_t *listed = walk->levels.rows + walk->levels.row_count;
    weir__known_rows known = walk->known; /* near, where no other store can touch it */
    uint32_t new_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t *entry = weir__know(&known, children[i]);
        listed[new_count] = children[i];
        new_count += (*entry & (WEIR__LISTED | WEIR__UNVISITED)) == WEIR__UNVISITED;
        *entry |= WEIR__LISTED;
    }
    walk->known = known;
    weir__list_run(&walk->levels, walk->next.hop + 1u, new_count, table, walk->draws.next);
    walk->draws.next += new_count;
}

static void list_children(weir__walk *walk) {
    const weir_store_info *info = walk->rules->info;
    const weir__table_rules *rules = &walk->rules->tables[walk->next.table];
    for (uint32_t i = 0; i < rules->inbound_count; i++) {
        const weir_edge *edge = &info->edges[rules->inbound[i]];
        uint32_t known, start;
        walk->is_corrupt |= !weir__store_children(walk->store, rules->inbound[i], walk->next.row,
                                                  walk->observation_time, &start, &known);
        uint32_t count = take_children(walk, edge, start, known);
        walk->is_corrupt |= !has_all_rows(&info->tables[edge->table], walk->chooser.taken, count);
        if (walk->is_corrupt)
            return;
        weir__known_reserve(&walk->known, count);
        list_run(walk, walk->chooser.taken, count, edge->table);
    }
}

/* Foreign keys between rows that are both in the sequence. */
static void join_rows(weir__walk *walk) {
    weir__known_rows known = walk->known;
    const weir__link *links = walk->links;
    struct weir__local_edge *edges = walk->edges;
    uint32_t link_count = walk->link_count;
    uint32_t edge_count = 0;
    for (uint32_t i = 0; i < link_count; i++) {
        uint16_t parent = weir__local_of(&known, links[i].parent);
        edges[edge_count] = (struct weir__local_edge){links[i].child, parent};
        edge_count += parent != WEIR__UNVISITED;
    }
    walk->edge_count = edge_count;
}

static bool is_full(const weir__walk *walk) {
    return walk->cell_count >= walk->sequence_length || walk->row_count >= walk->max_rows;
}

bool weir__walk_visit(weir__walk *walk) {
    if (walk->is_corrupt)
        return false;
    weir__known_reserve(&walk->known, walk->link_count - walk->next.first_link);
    add_to_sequence(walk);
    if (walk->next.hop < walk->max_hops) {
        queue_parents(walk);
        list_children(walk);
    }
    if (walk->is_corrupt)
        return false;
    if (!is_full(walk) && choose_next(walk))
        return true;
    join_rows(walk);
    return false;
}

void weir__walk_begin(weir__walk *walk, weir_seed walk_seed, uint64_t position, uint32_t row,
                      int64_t observation_time) {
    weir__known_begin(&walk->known);
    weir__levels_begin(&walk->levels);
    weir__draws_begin(&walk->draws, walk_seed, position);
    walk->row_count = walk->cell_count = walk->edge_count = walk->link_count = 0;
    walk->queue_begin = walk->queue_end = 0;
    walk->is_corrupt = false;
    walk->observation_time = observation_time;
    choose(walk, weir__know(&walk->known, row), row, walk->rules->task->anchor_table, 0);
    fetch_row(walk, row, walk->rules->task->anchor_table, 0);
}
