/* The walk of the contract. Known rows are in known.h, children that wait for their level in levels.h, the
 * choice among many in choose.h; a queue of parents, first in, first out, holds what goes before any child.
 *
 * Children go to a further level than the one that is being visited, so nobody needs them before that one is
 * done: rows are visited first and list their children then, together and in the order of their visits, so
 * that draws keep their order; most walks are full before the last rows ever do. A child that was visited
 * later than the row that lists it counts as unvisited, as it was then.
 *
 * A parent is queued before it is known whether it is visible, and asked then, when its record is near: one
 * that is not stays so, so it does no harm that the walk takes it for queued.
 *
 * Every bound is known at open: a visited row adds at most its foreign keys to the queue and child_width
 * rows a shown edge type to the levels, and no row is listed twice. Only a list that names rows that do not
 * exist can be longer than that; it is the walk's last, and there is room for it. */
#include "batch/walk.h"

#include "base/bytes.h"
#include "batch/fetch.h"
#include "batch/listing.h"
#include "store/reader.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Rows of a sequence, its foreign keys, lists of children, and children that are listed: at most so many. */
typedef struct walk_limits {
    uint64_t rows, links, runs, listed;
} walk_limits;

/* The most children that a row lists along an edge type. */
static uint32_t most_width(const weir_batch__rules *rules, const weir_batch_config *config) {
    if (rules->width_count > 0 || !weir_batch__retrieves(rules, config))
        return rules->most_width;
    uint32_t most = weir_batch__most_of(&config->retrieval.width);
    return most > rules->most_width ? most : rules->most_width;
}

static walk_limits limits_of(const weir_batch__rules *rules, const weir_batch_config *config) {
    walk_limits l = {.rows = weir__lesser(config->max_rows, rules->row_count)};
    l.links = l.rows * rules->most_parents;
    l.runs = l.rows * rules->most_inbound;
    l.listed = weir__lesser(l.runs * most_width(rules, config), rules->row_count);
    return l;
}

uint64_t weir_batch__walk_knows(const weir_batch__rules *rules, const weir_batch_config *config) {
    walk_limits l = limits_of(rules, config);
    return weir__lesser(l.rows + l.links + l.listed, rules->row_count + 1);
}

void weir_batch__walk_carve(weir_batch__walk *walk, weir__block *block, const weir_store *store,
                            const weir_batch__rules *rules, const weir_batch_config *config,
                            weir_batch__retriever *retriever) {
    walk_limits l = limits_of(rules, config);
    *walk = (weir_batch__walk){
        .store = store,
        .rules = rules,
        .config = config,
        .max_rows = config->max_rows,
        .max_hops = config->max_hops,
        .policy = config->child_policy,
        .budget = {.local_cells = config->sequence_length, .width = config->child_width},
        .retriever = retriever,
        .draws.philox = weir__philox_many_best(),
    };
    walk->rows = weir__carve(block, l.rows + 1, sizeof *walk->rows);
    walk->edges = weir__carve(block, l.links + 1, sizeof *walk->edges);
    walk->links = weir__carve(block, l.links + 1, sizeof *walk->links);
    walk->queue = weir__carve(block, l.links + 2, sizeof *walk->queue);
    walk->listings =
        weir__carve(block, WEIR_BATCH__LISTED_TOGETHER, rules->most_inbound * sizeof *walk->listings);
    walk->searches =
        weir__carve(block, WEIR_BATCH__LISTED_TOGETHER, rules->most_inbound * sizeof *walk->searches + 1);
    walk->task_rows = weir__carve(block, rules->has_task_rows ? l.rows : 0, WEIR_BATCH__TASK_ROW_SIZE);
    weir_batch__known_carve(&walk->known, block, weir_batch__walk_knows(rules, config),
                            weir_batch__has_many_rows(rules));
    uint64_t last_list = weir__lesser(most_width(rules, config), rules->row_count);
    uint64_t runs = l.runs * (config->since_is == WEIR_SINCE_EVER ? 1 : 2); /* a list may be in two pieces */
    weir_batch__levels_carve(&walk->levels, block, l.listed + last_list + 1, runs + 2,
                             config->child_policy == WEIR_CHILDREN_LATEST);
    weir_batch__chooser_carve(&walk->chooser, block, most_width(rules, config));
    walk->examples = weir__carve(block, retriever ? config->max_rows : 0, sizeof *walk->examples);
    walk->part_visits = weir__carve(block, retriever ? config->max_rows : 1, sizeof *walk->part_visits);
}

/* ---- What the store says --------------------------------------------------------------------- */

static void fetch_record(const weir_batch__walk *walk, const weir_batch__table_rules *table, uint32_t row) {
    if (!table->records) { /* a task row's is made of what lies by its seed's number */
        const weir_task *task = walk->rules->task;
        weir_batch__fetch(task->seed_rows + 4 * (size_t)row);
        weir_batch__fetch(task->seed_targets + 8 * (size_t)row);
        if (task->seed_times)
            weir_batch__fetch(task->seed_times + 8 * (size_t)row);
        return;
    }
    const uint8_t *record = weir_batch__record_of(table, row);
    weir_batch__fetch(record);
    weir_batch__fetch(record + table->stride - 1);
    if (__builtin_expect(walk->store->reads_ahead, 0))
        weir_store__expect(walk->store, record);
}

/* Makes the record of a task row that is visited next; the seed's own says nothing of its label. */
static const uint8_t *make_task_row(weir_batch__walk *walk, uint32_t row) {
    const weir_batch__rules *rules = walk->rules;
    uint8_t *record = walk->task_rows + (size_t)walk->row_count * WEIR_BATCH__TASK_ROW_SIZE;
    const weir_batch__table_rules *anchors = &rules->tables[rules->task->anchor_table];
    weir_seed_row seed = {.row = anchors->row_start + walk->outlook.anchor_row,
                          .observation_time = walk->observation_time,
                          .target = {.is_null = true}};
    if (row != walk->outlook.own_row)
        walk->is_corrupt |= !weir_store_seed(walk->store, rules->task_number, row, &seed);
    bool has_time = seed.observation_time != INT64_MAX;
    uint32_t bits = (seed.target.is_null ? 1u << WEIR_BATCH__TASK_ROW_LABEL_NULL : 0) |
                    (has_time ? 0 : 1u << WEIR_BATCH__TASK_ROW_TIME_NULL) |
                    (seed.target.integer == 1 ? 1u << WEIR_BATCH__TASK_ROW_TRUTH : 0);
    memset(record, 0, WEIR_BATCH__TASK_ROW_SIZE);
    weir__store32(record + WEIR_BATCH__TASK_ROW_ANCHOR,
                  anchors->first_number + WEIR__LOW(uint32_t, seed.row - anchors->row_start));
    record[WEIR_BATCH__TASK_ROW_BITS] = WEIR__LOW(uint8_t, bits);
    weir__store64(record + WEIR_BATCH__TASK_ROW_TIME,
                  (uint64_t)(has_time ? seed.observation_time : WEIR_TIME_ALWAYS));
    weir__store64(record + WEIR_BATCH__TASK_ROW_LABEL,
                  seed.target.is_null ? 0 : weir_batch__bits_of_target(&seed.target));
    return record;
}

/* The record of the row that is visited next, verified. */
static const uint8_t *open_record(weir_batch__walk *walk, const weir_batch__table_rules *table,
                                  uint32_t row) {
    if (!table->records)
        return make_task_row(walk, row);
    const uint8_t *record = weir_batch__record_of(table, row);
    weir_batch__walk_touch(walk, WEIR_STORE__SECTION_ROWS, record, table->stride);
    return record;
}

/* ---- Known rows ------------------------------------------------------------------------------ */

/* The table has moved, or was emptied: what is visited stays known. */
static void know_visited(weir_batch__walk *walk) {
    for (uint32_t i = 0; i < walk->row_count; i++) {
        uint32_t *state = weir_batch__walk_know(walk, walk->rows[i].table, walk->rows[i].row);
        *state = weir_batch__numbered(*state, i);
    }
    walk->has_grown = true;
}

void weir_batch__walk_grow(weir_batch__walk *walk) {
    weir_batch__known_rows *known = &walk->known;
    weir_batch__known_empty(known, known->bits + 1);
    for (uint32_t r = 0; r < walk->levels.run_count; r++) {
        const weir_batch__child_run *run = &walk->levels.runs[r];
        for (uint32_t i = run->first; i < run->first + run->count; i++)
            *weir_batch__walk_know(walk, run->table, walk->levels.rows[i]) &= ~WEIR_BATCH__UNLISTED;
    }
    for (uint32_t i = walk->queue_begin; i < walk->queue_end; i++)
        *weir_batch__walk_know(walk, walk->queue[i].table, walk->queue[i].row) &= ~WEIR_BATCH__UNQUEUED;
    know_visited(walk);
}

/* ---- Visiting -------------------------------------------------------------------------------- */

/* Whether the label of a row is left out: the seed's own is, as it stands before the rest. */
static bool hides_label(weir_batch__walk *walk, uint32_t table, uint32_t row) {
    const weir_batch__rules *rules = walk->rules;
    if (table != rules->label_table)
        return false;
    if (walk->row_count == 0 || rules->label_visibility == WEIR_LABELS_NONE)
        return true;
    if (rules->label_visibility == WEIR_LABELS_ALL || rules->has_task_rows) /* others are not in their list */
        return false;
    weir_batch__walk_touch(walk, rules->held_out_in, rules->held_out + row / 8, 1);
    return weir__bit(rules->held_out, row);
}

/* Notes the row's visible foreign keys, and queues the parents that are new. */
static void link_parents(weir_batch__walk *walk, const weir_batch__table_rules *table, const uint8_t *record,
                         uint32_t local, uint32_t hop) {
    weir_batch__walk_reserve(walk, table->parent_count);
    weir_batch__known_rows known = walk->known; /* near, where no other store can touch it */
    weir_batch__link *link = walk->links + walk->link_count;
    weir_batch__queued_row *queued = walk->queue + walk->queue_end;
    int64_t cutoff = walk->outlook.cutoff;
    bool may_queue = hop < walk->max_hops;
    for (uint32_t i = 0; i < table->parent_count; i++) {
        const weir_batch__parent_rule *rule = &table->parents[i];
        const weir_batch__table_rules *parents = rule->parents;
        uint32_t number = weir__load32(record + rule->slot), parent = number - parents->first_number;
        if (number == WEIR_NONE || !weir_batch__is_known(record, rule->known_slot, cutoff))
            continue;
        if (parent >= parents->row_count) {
            walk->is_corrupt = true;
            break;
        }
        uint16_t of_table = WEIR__LOW(uint16_t, parents->number);
        uint32_t place = weir_batch__place_of(&known, of_table, parent + parents->first_key);
        uint32_t *state = weir_batch__state_at(&known, place);
        uint32_t is_new = may_queue & (weir_batch__local_of(*state) == WEIR_BATCH__UNVISITED) &
                          ((*state & WEIR_BATCH__UNQUEUED) != 0);
        *state -= is_new * WEIR_BATCH__UNQUEUED;
        *link++ = (weir_batch__link){parent, of_table, WEIR__LOW(uint16_t, local), place};
        *queued =
            (weir_batch__queued_row){.row = parent, .hop = WEIR__LOW(uint16_t, hop + 1), .table = of_table};
        queued += is_new;
        fetch_record(walk, parents, parent);
    }
    walk->known = known;
    walk->link_count = WEIR__LOW(uint32_t, link - walk->links);
    walk->queue_end = WEIR__LOW(uint32_t, queued - walk->queue);
}

/* Gives a row the next number, and its cells their places; the target's is before the anchor's. */
static void visit(weir_batch__walk *walk, uint32_t row, uint32_t number, uint32_t hop,
                  const uint8_t *record) {
    const weir_batch__rules *rules = walk->rules;
    const weir_batch__table_rules *table = &rules->tables[number];
    uint32_t local = walk->row_count;
    bool is_unlabelled = hides_label(walk, number, row);
    uint32_t first_cell = walk->cell_count + (local == 0);
    walk->rows[local] = (weir_batch__walked_row){
        .record = record,
        .row = row,
        .first_cell = first_cell,
        .table = WEIR__LOW(uint16_t, number),
        .kind = WEIR__LOW(uint16_t, is_unlabelled ? rules->unlabelled : number),
        .hop = WEIR__LOW(uint16_t, hop),
        .part = WEIR__LOW(uint16_t, walk->part),
    };
    walk->cell_count = first_cell + (is_unlabelled ? rules->kinds[rules->unlabelled].cells : table->cells);
    walk->record_bytes += table->record_size;
    walk->row_count++;
    link_parents(walk, table, record, local, hop);
}

static bool is_part_full(const weir_batch__walk *walk) {
    return walk->cell_count >= walk->part_end || walk->row_count >= walk->max_rows;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Cuts the cells behind the sequence's length, and lists the foreign keys between rows that are both in it.
 */
static bool end_walk(weir_batch__walk *walk) {
    uint32_t cells = walk->cell_count < walk->sequence_length ? walk->cell_count : walk->sequence_length;
    const weir_batch__link *links = walk->links;
    struct weir_batch__local_edge *edges = walk->edges;
    uint32_t link_count = walk->link_count, edge_count = 0;
    walk->rows[walk->row_count].first_cell = walk->cell_count = cells;
    if (walk->has_grown)
        weir_batch__walk_reserve(walk, link_count);
    for (uint32_t i = 0; i < link_count && walk->has_grown; i++)
        walk->links[i].place = weir_batch__place_of(
            &walk->known, links[i].table, links[i].parent + walk->rules->tables[links[i].table].first_key);
    for (uint32_t i = 0; i < link_count; i++) {
        uint16_t parent = weir_batch__local_of(*weir_batch__state_at(&walk->known, links[i].place));
        edges[edge_count] = (struct weir_batch__local_edge){links[i].child, parent};
        edge_count += parent != WEIR_BATCH__UNVISITED;
    }
    walk->edge_count = edge_count;
    return false;
}

/* Begins a part with a row: nothing waits any more, and what was visited stays so. */
static void begin_part(weir_batch__walk *walk, uint32_t row, uint32_t table, uint32_t visits) {
    uint64_t end = (uint64_t)walk->cell_count + walk->budget.local_cells;
    weir_seed seed = walk->outlook.seed;
    seed.word[1] ^= walk->part;
    weir_batch__levels_begin(&walk->levels, walk->max_hops);
    weir_batch__draws_begin(&walk->draws, seed, walk->outlook.position);
    walk->stage = WEIR_BATCH__WALK_VISIT;
    walk->has_chosen = false;
    walk->listed_count = walk->row_count;
    walk->part_end = end < walk->sequence_length ? WEIR__LOW(uint32_t, end) : walk->sequence_length;
    walk->part_visits[walk->part] = visits;
    walk->queue_begin = 0;
    walk->queue_end = 1;
    walk->queue[0] = (weir_batch__queued_row){.row = row, .table = WEIR__LOW(uint16_t, table)};
}

/* Whether an example is. */
static bool is_visited(weir_batch__walk *walk, uint32_t row) {
    weir_batch__walk_reserve(walk, 1);
    const uint32_t *state = weir_batch__walk_know(walk, walk->rules->label_table, row);
    return weir_batch__local_of(*state) != WEIR_BATCH__UNVISITED;
}

/* The next example that is not visited: of those that walks found, then of those that are drawn. */
static bool next_example(weir_batch__walk *walk, weir_batch__example *out) {
    for (; walk->next_example < walk->example_count; walk->next_example++) {
        *out = walk->examples[walk->next_example];
        if (!is_visited(walk, out->row))
            return true;
    }
    while (walk->retriever->config->fill && walk->fill_tries < WEIR_BATCH__FILL_TRIES && !walk->is_corrupt) {
        *out = (weir_batch__example){
            weir_batch__draw_example(walk->retriever, &walk->outlook, walk->fill_tries++), 0};
        walk->is_corrupt |= walk->retriever->is_corrupt;
        if (out->row != WEIR_NONE && !walk->is_corrupt && !is_visited(walk, out->row))
            return true;
    }
    return false;
}

/* When a part ends: the next one, or the end of the walk. */
static bool end_part(weir_batch__walk *walk) {
    weir_batch__example example;
    bool is_full = walk->cell_count >= walk->sequence_length || walk->row_count >= walk->max_rows;
    if (is_full || !walk->retriever || walk->is_corrupt)
        return !walk->is_corrupt && end_walk(walk);
    if (walk->part == 0) {
        walk->example_count =
            weir_batch__retrieve(walk->retriever, &walk->outlook, &walk->budget, walk->examples);
        walk->is_corrupt |= walk->retriever->is_corrupt;
    }
    /* What waits is not known any more. */
    walk->queue_begin = walk->queue_end = walk->levels.row_count = walk->levels.run_count = 0;
    if (walk->is_corrupt)
        return false;
    if (!next_example(walk, &example))
        return !walk->is_corrupt && end_walk(walk);
    weir_batch__known_empty(&walk->known, walk->known.bits);
    know_visited(walk);
    walk->part++;
    begin_part(walk, example.row, walk->rules->label_table, example.visits);
    return true;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Asks for the records of the next children, several at once: their pages are then looked for together. */
static void fetch_ahead(weir_batch__walk *walk) {
    weir_batch__levels *levels = &walk->levels;
    uint32_t next = levels->ahead_end;
    if (next - levels->ahead_begin > WEIR_BATCH__AHEAD / 2)
        return;
    weir_batch__look_ahead(levels);
    for (; next < levels->ahead_end; next++) {
        const weir_batch__ranked_row *row = &levels->ahead[next % WEIR_BATCH__AHEAD];
        fetch_record(walk, &walk->rules->tables[row->table], row->row);
    }
}

/* When all rows have listed their children, on to the next level. */
static bool step_to_level(weir_batch__walk *walk) {
    walk->stage = WEIR_BATCH__WALK_FIND;
    if (weir_batch__listing_begin(walk))
        return true;
    walk->stage = WEIR_BATCH__WALK_VISIT;
    if (!weir_batch__reach_level(&walk->levels, &walk->draws))
        return end_part(walk);
    fetch_ahead(walk);
    return true;
}

/* Visits the parents that were queued in earlier steps, if their time has come; the anchor always is. */
static void visit_parents(weir_batch__walk *walk) {
    for (uint32_t end = walk->queue_end; walk->queue_begin < end && !is_part_full(walk);) {
        weir_batch__queued_row queued = walk->queue[walk->queue_begin++];
        const weir_batch__table_rules *table = &walk->rules->tables[queued.table];
        const uint8_t *record = open_record(walk, table, queued.row);
        bool is_anchor = queued.row == walk->outlook.anchor_row && queued.table == walk->outlook.anchor_table;
        int64_t cutoff = is_anchor ? walk->outlook.anchor_cutoff : walk->outlook.cutoff;
        if (table->time_offset != WEIR_NONE && (int64_t)weir__load64(record + table->time_offset) > cutoff) {
            if (!is_anchor)
                continue;
            if (!walk->rules->shows_early_anchors) /* it shows neither its cells nor its foreign keys */
                record = queued.table == walk->rules->task->anchor_table ? walk->rules->blank_record
                                                                         : walk->rules->blank_destination;
        }
        uint32_t *state = weir_batch__walk_know(walk, queued.table, queued.row);
        *state = weir_batch__numbered(*state, walk->row_count);
        visit(walk, queued.row, queued.table, queued.hop, record);
    }
}

/* Visits the least children of the level, up to one that has parents to be visited before the next. */
static void visit_children(weir_batch__walk *walk) {
    weir_batch__ranked_row child;
    while (walk->queue_begin == walk->queue_end && !is_part_full(walk) && !walk->is_corrupt &&
           weir_batch__take_child(&walk->levels, &child)) {
        uint32_t *state = weir_batch__walk_know(walk, child.table, child.row);
        if (weir_batch__local_of(*state) != WEIR_BATCH__UNVISITED)
            continue;
        const weir_batch__table_rules *table = &walk->rules->tables[child.table];
        const uint8_t *record = open_record(walk, table, child.row);
        *state = weir_batch__numbered(*state, walk->row_count);
        visit(walk, child.row, child.table, walk->levels.current, record);
    }
    fetch_ahead(walk);
}

/* Parents first, then children: a queued parent is not visited meanwhile. When the level is empty, the rows
 * visited since the last time list their children. */
bool weir_batch__walk_step(weir_batch__walk *walk) {
    switch (walk->stage) {
    case WEIR_BATCH__WALK_VISIT:
        if (is_part_full(walk))
            return end_part(walk);
        visit_parents(walk);
        visit_children(walk);
        bool has_more = walk->queue_begin < walk->queue_end || is_part_full(walk) ||
                        walk->levels.ahead_begin < walk->levels.ahead_end;
        return !walk->is_corrupt && (has_more || step_to_level(walk));
    case WEIR_BATCH__WALK_FIND:
        weir_batch__listing_find(walk);
        walk->stage = WEIR_BATCH__WALK_SEARCH;
        return !walk->is_corrupt;
    case WEIR_BATCH__WALK_SEARCH:
        if (!weir_batch__listing_search(walk))
            walk->stage = WEIR_BATCH__WALK_LIST;
        return !walk->is_corrupt;
    case WEIR_BATCH__WALK_LIST:
        return weir_batch__listing_list(walk) || (!walk->is_corrupt && step_to_level(walk));
    }
    return false;
}

/* The latest time that is shown, that of the anchor row itself, and the earliest of what has one. */
static void find_cutoffs(weir_batch__outlook *o, const weir_batch_config *config, int64_t observed) {
    bool is_frozen = config->has_context_until && config->context_until < observed;
    o->anchor_cutoff = is_frozen ? config->context_until : observed;
    o->cutoff = o->anchor_cutoff;
    if (config->strictly_before && o->cutoff == observed && observed > INT64_MIN + 1)
        o->cutoff--;
    o->floor = config->since_is == WEIR_SINCE_EVER ? WEIR_TIME_ALWAYS : config->since;
    if (config->since_is == WEIR_SINCE_DURATION && observed == WEIR_TIME_NEVER)
        o->floor = WEIR_TIME_ALWAYS;
    else if (config->since_is == WEIR_SINCE_DURATION)
        o->floor = observed < INT64_MIN + 1 + config->since ? INT64_MIN + 1 : observed - config->since;
}

void weir_batch__walk_begin(weir_batch__walk *walk, const weir_batch__outlook *from, int64_t observation_time,
                            uint32_t sequence_length) {
    const weir_batch__rules *rules = walk->rules;
    weir_batch__known_empty(&walk->known, WEIR_BATCH__KNOWN_BITS);
    walk->row_count = walk->cell_count = walk->edge_count = walk->link_count = 0;
    walk->part = walk->example_count = walk->next_example = walk->fill_tries = 0;
    walk->record_bytes = 0;
    walk->has_grown = walk->is_corrupt = false;
    walk->observation_time = observation_time;
    walk->sequence_length = sequence_length;
    walk->outlook = *from;
    find_cutoffs(&walk->outlook, walk->config, observation_time);
    if (walk->retriever)
        walk->budget = weir_batch__budget_of(walk->retriever->config, &walk->outlook);
    if (rules->has_task_rows)
        begin_part(walk, from->own_row, rules->label_table, 0);
    else
        begin_part(walk, from->anchor_row, from->anchor_table, 0);
    fetch_record(walk, &rules->tables[from->anchor_table], from->anchor_row);
}
