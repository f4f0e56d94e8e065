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
#include "store/reader.h"

/* Rows whose children are listed together: what they lead to stays near. */
enum { LISTED_TOGETHER = 64 };

/* ---- Memory ---------------------------------------------------------------------------------- */

static uint64_t lesser(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Rows of a sequence, its foreign keys, lists of children, and children that are listed: at most so many. */
typedef struct walk_limits {
    uint64_t rows, links, runs, listed;
} walk_limits;

/* The most children that a row lists along an edge type. */
static uint32_t most_width(const weir__rules *rules, const weir_batch_config *config) {
    const weir_choices *widths = &config->retrieval.width;
    uint32_t most = config->child_width;
    for (uint32_t i = 0; i < widths->count && weir__retrieves(rules, config); i++)
        most = widths->values[i] > most ? widths->values[i] : most;
    return most;
}

static walk_limits limits_of(const weir__rules *rules, const weir_batch_config *config) {
    walk_limits l = {.rows = lesser(config->max_rows, rules->row_count)};
    l.links = l.rows * rules->most_parents;
    l.runs = l.rows * rules->most_inbound;
    l.listed = lesser(l.runs * most_width(rules, config), rules->row_count);
    return l;
}

uint64_t weir__walk_knows(const weir__rules *rules, const weir_batch_config *config) {
    walk_limits l = limits_of(rules, config);
    return lesser(l.rows + l.links + l.listed, (uint64_t)rules->row_count + 1);
}

void weir__walk_carve(weir__walk *walk, weir__block *block, const weir_store *store, const weir__rules *rules,
                      const weir_batch_config *config, weir__retriever *retriever) {
    walk_limits l = limits_of(rules, config);
    *walk = (weir__walk){
        .store = store,
        .rules = rules,
        .sequence_length = config->sequence_length,
        .max_rows = config->max_rows,
        .max_hops = config->max_hops,
        .policy = config->child_policy,
        .has_context_until = config->has_context_until,
        .is_strictly_before = config->strictly_before,
        .context_until = config->context_until,
        .budget = {.local_cells = config->sequence_length, .width = config->child_width},
        .retriever = retriever,
        .draws.philox = weir__philox_many_best(),
    };
    walk->rows = weir__carve(block, l.rows + 1, sizeof *walk->rows);
    walk->edges = weir__carve(block, l.links + 1, sizeof *walk->edges);
    walk->links = weir__carve(block, l.links + 1, sizeof *walk->links);
    walk->queue = weir__carve(block, l.links + 2, sizeof *walk->queue);
    walk->listings = weir__carve(block, LISTED_TOGETHER, rules->most_inbound * sizeof *walk->listings);
    walk->searches = weir__carve(block, LISTED_TOGETHER, rules->most_inbound * sizeof *walk->searches + 1);
    walk->task_rows = weir__carve(block, rules->has_task_rows ? l.rows : 0, WEIR__TASK_ROW_SIZE);
    weir__known_carve(&walk->known, block, weir__walk_knows(rules, config));
    uint64_t last_list = lesser(most_width(rules, config), rules->row_count);
    weir__levels_carve(&walk->levels, block, l.listed + last_list + 1, l.runs + 1,
                       config->child_policy == WEIR_CHILDREN_LATEST);
    weir__chooser_carve(&walk->chooser, block, most_width(rules, config));
    walk->examples = weir__carve(block, retriever ? config->max_rows : 0, sizeof *walk->examples);
    walk->part_visits = weir__carve(block, retriever ? config->max_rows : 1, sizeof *walk->part_visits);
}

/* ---- What the store says --------------------------------------------------------------------- */

static bool has_row(const weir__table_rules *table, uint32_t row) {
    return row - table->row_start < table->row_count;
}

/* Nothing of the store is used before it is verified: a walk over what is damaged is corrupt. */
static inline void touch(weir__walk *walk, weir__lies_in kind, const uint8_t *at, size_t size) {
    if (kind)
        walk->is_corrupt |= !weir__store_touch(walk->store, (weir__section_kind)kind, at, size);
}

/* A task row's record is made of what lies by its seed's number. */
static void fetch_seed(const weir_task *task, size_t seed) {
    weir__fetch(task->seed_rows + 4 * seed);
    weir__fetch(task->seed_targets + 8 * seed);
    if (task->seed_times)
        weir__fetch(task->seed_times + 8 * seed);
}

static void fetch_record(const weir__walk *walk, const weir__table_rules *table, uint32_t row) {
    if (!table->records) {
        fetch_seed(walk->rules->task, row - table->row_start);
        return;
    }
    const uint8_t *record = weir__record_of(table, row);
    weir__fetch(record);
    weir__fetch(record + table->stride - 1);
}

static uint64_t bits_of_label(const weir_cell *label) {
    uint32_t bits;
    if (label->stype != WEIR_NUMERICAL)
        return (uint64_t)label->integer;
    memcpy(&bits, &label->number, sizeof bits);
    return bits;
}

/* Makes the record of a task row that is visited next; the seed's own says nothing of its label. */
static const uint8_t *make_task_row(weir__walk *walk, uint32_t row) {
    const weir__rules *rules = walk->rules;
    uint8_t *record = walk->task_rows + (size_t)walk->row_count * WEIR__TASK_ROW_SIZE;
    weir_seed_row seed = {.row = walk->outlook.anchor_row,
                          .observation_time = walk->observation_time,
                          .target = {.is_null = true}};
    if (row != walk->outlook.own_row)
        walk->is_corrupt |=
            !weir_store_seed(walk->store, rules->task_number, row - rules->info->row_count, &seed);
    bool has_time = seed.observation_time != INT64_MAX;
    uint32_t bits = (seed.target.is_null ? 1u << WEIR__TASK_ROW_LABEL_NULL : 0) |
                    (has_time ? 0 : 1u << WEIR__TASK_ROW_TIME_NULL) |
                    (seed.target.integer == 1 ? 1u << WEIR__TASK_ROW_TRUTH : 0);
    memset(record, 0, WEIR__TASK_ROW_SIZE);
    weir__store32(record + WEIR__TASK_ROW_ANCHOR, seed.row);
    record[WEIR__TASK_ROW_BITS] = WEIR__LOW(uint8_t, bits);
    weir__store64(record + WEIR__TASK_ROW_TIME, has_time ? (uint64_t)seed.observation_time : 0);
    weir__store64(record + WEIR__TASK_ROW_LABEL, seed.target.is_null ? 0 : bits_of_label(&seed.target));
    return record;
}

/* The record of the row that is visited next, verified. */
static const uint8_t *open_record(weir__walk *walk, const weir__table_rules *table, uint32_t row) {
    if (!table->records)
        return make_task_row(walk, row);
    const uint8_t *record = weir__record_of(table, row);
    touch(walk, WEIR__SECTION_ROWS, record, table->stride);
    return record;
}

/* A row is visible if its time has come; the anchor always is. */
static bool is_from_the_future(const weir__table_rules *table, const uint8_t *record, int64_t cutoff) {
    return table->time_offset != WEIR_NONE && (int64_t)weir__load64(record + table->time_offset) > cutoff;
}

/* ---- Known rows ------------------------------------------------------------------------------ */

/* A table of twice the places. What is known is in the lists of the walk. */
static void grow(weir__walk *walk) {
    weir__known_rows *known = &walk->known;
    weir__known_empty(known, known->bits + 1);
    for (uint32_t i = 0; i < walk->levels.row_count; i++)
        *weir__know(known, walk->levels.rows[i]) &= WEIR__UNLISTABLE;
    for (uint32_t i = walk->queue_begin; i < walk->queue_end; i++)
        *weir__know(known, walk->queue[i].row) |= WEIR__QUEUED;
    for (uint32_t i = 0; i < walk->row_count; i++) {
        uint64_t *state = weir__know(known, walk->rows[i].row);
        *state = weir__numbered(*state, i);
    }
    walk->has_grown = true;
}

/* Makes room for `more` rows, which may be known already; places may change. The largest table has places for
 * all rows that there are. */
static inline void reserve(weir__walk *walk, uint32_t more) {
    while (walk->known.count + more > walk->known.room && walk->known.bits < walk->known.bits_max)
        grow(walk);
}

/* ---- Visiting -------------------------------------------------------------------------------- */

/* Whether the label of a row is left out: the seed's own is, as it stands before the rest. */
static bool hides_label(weir__walk *walk, const weir__table_rules *table, uint32_t row) {
    const weir__rules *rules = walk->rules;
    if (!table->may_hide_labels)
        return false;
    if (walk->row_count == 0 || rules->label_visibility == WEIR_LABELS_NONE)
        return true;
    if (rules->label_visibility == WEIR_LABELS_ALL || rules->has_task_rows) /* others are not in their list */
        return false;
    uint32_t index = row - table->row_start;
    if (rules->held_out != rules->own_held_out)
        touch(walk, WEIR__SECTION_SEED_BITS, rules->held_out + index / 8, 1);
    return weir__bit(rules->held_out, index);
}

/* Notes the row's visible foreign keys, and queues the parents that are new. */
static void link_parents(weir__walk *walk, const weir__table_rules *table, const uint8_t *record,
                         uint32_t local, uint32_t hop) {
    bool may_queue = hop < walk->max_hops;
    reserve(walk, table->parent_count);
    for (uint32_t i = 0; i < table->parent_count; i++) {
        const weir__parent_rule *rule = &table->parents[i];
        uint32_t parent = weir__load32(record + rule->slot);
        if (parent == WEIR_NONE || !weir__is_known(record, rule->known_slot, walk->outlook.cutoff))
            continue;
        if (!has_row(rule->parents, parent)) {
            walk->is_corrupt = true;
            return;
        }
        uint64_t state;
        uint32_t place = weir__place_of(&walk->known, parent, &state);
        uint64_t is_new = may_queue & (weir__local_of(state) == WEIR__UNVISITED) & (state < WEIR__QUEUED);
        walk->known.states[place] = state | is_new * WEIR__QUEUED;
        walk->links[walk->link_count++] = (weir__link){parent, place, local};
        walk->queue[walk->queue_end] =
            (weir__queued_row){.row = parent,
                               .hop = WEIR__LOW(uint16_t, hop + 1),
                               .table = WEIR__LOW(uint16_t, rule->parents->number)};
        walk->queue_end += WEIR__LOW(uint32_t, is_new);
        fetch_record(walk, rule->parents, parent);
    }
}

/* Gives a row the next number, and its cells their places; the target's is before the anchor's. */
static bool visit(weir__walk *walk, uint32_t row, uint32_t number, uint32_t hop, const uint8_t *record) {
    const weir__table_rules *table = &walk->rules->tables[number];
    uint32_t local = walk->row_count;
    bool is_unlabelled = hides_label(walk, table, row);
    uint32_t first_cell = walk->cell_count + (local == 0);
    walk->rows[local] = (weir__walked_row){
        .record = record,
        .row = row,
        .first_cell = first_cell,
        .table = WEIR__LOW(uint16_t, number),
        .kind = WEIR__LOW(uint16_t, is_unlabelled ? walk->rules->unlabelled : number),
        .hop = WEIR__LOW(uint16_t, hop),
        .part = WEIR__LOW(uint16_t, walk->part),
    };
    walk->cell_count = first_cell + (is_unlabelled ? walk->rules->unlabelled_cells : table->cells);
    walk->record_bytes += table->record_size;
    walk->row_count++;
    link_parents(walk, table, record, local, hop);
    return !walk->is_corrupt;
}

static bool is_full(const weir__walk *walk) {
    return walk->cell_count >= walk->sequence_length || walk->row_count >= walk->max_rows;
}

static bool is_part_full(const weir__walk *walk) {
    return walk->cell_count >= walk->part_end || walk->row_count >= walk->max_rows;
}

/* Foreign keys between rows that are both in the sequence. */
static void join_rows(weir__walk *walk) {
    const weir__link *links = walk->links;
    const uint64_t *states = walk->known.states;
    struct weir__local_edge *edges = walk->edges;
    uint32_t link_count = walk->link_count;
    uint32_t edge_count = 0;
    if (walk->has_grown)
        reserve(walk, link_count);
    for (uint32_t i = 0; i < link_count && walk->has_grown; i++)
        walk->links[i].place =
            WEIR__LOW(uint32_t, weir__know(&walk->known, links[i].parent) - walk->known.states);
    for (uint32_t i = 0; i < link_count; i++) {
        uint16_t parent = weir__local_of(states[links[i].place]);
        edges[edge_count] = (struct weir__local_edge){WEIR__LOW(uint16_t, links[i].child), parent};
        edge_count += parent != WEIR__UNVISITED;
    }
    walk->edge_count = edge_count;
}

/* ---- Listing children ------------------------------------------------------------------------ */

/* Collects what the next rows are to list, and asks for where it is; false where all are listed. */
static bool begin_listing(weir__walk *walk) {
    uint32_t end = walk->listed_count + LISTED_TOGETHER;
    end = end < walk->row_count ? end : walk->row_count;
    if (walk->listed_count == end)
        return false;
    walk->listing = walk->listing_count = 0;
    for (; walk->listed_count < end; walk->listed_count++) {
        const weir__walked_row *row = &walk->rows[walk->listed_count];
        const weir__table_rules *table = &walk->rules->tables[row->table];
        uint32_t count = row->hop < walk->max_hops ? table->inbound_count : 0;
        uint32_t index = row->row - table->row_start;
        for (uint32_t i = 0; i < count; i++) {
            weir__fetch(table->inbound[i].edge->starts + 4 * (size_t)index);
            walk->listings[walk->listing_count++] =
                (weir__listing){.rule = &table->inbound[i], .index = index, .local = walk->listed_count};
        }
    }
    return true;
}

/* Asks for what a search looks at next. */
static void fetch_times(const weir__listing *listing) {
    const uint8_t *times = listing->rule->edge->child_times + 8 * ((size_t)listing->start + listing->known);
    size_t size = 8 * (size_t)listing->unsure;
    weir__fetch(times);
    weir__fetch(times + size / 4);
    weir__fetch(times + size / 2);
    weir__fetch(times + size / 4 * 3);
    weir__fetch(times + size - 8);
}

/* The lists of the rows' children: none where their numbers lead nowhere. */
static void find_lists(weir__walk *walk) {
    walk->search_count = 0;
    for (uint32_t i = 0; i < walk->listing_count; i++) {
        weir__listing *listing = &walk->listings[i];
        const weir_edge *edge = listing->rule->edge;
        const uint8_t *at = edge->starts + 4 * (size_t)listing->index;
        touch(walk, listing->rule->starts_in, at, 8);
        uint32_t start = weir__load32(at), end = weir__load32(at + 4);
        uint32_t count = start > end || end > edge->edges ? 0 : end - start;
        listing->start = count ? start : 0;
        listing->known = edge->child_times ? 0 : count;
        listing->unsure = edge->child_times ? count : 0;
        walk->searches[walk->search_count] = i;
        walk->search_count += listing->unsure > 0;
        if (count == 0)
            continue;
        weir__fetch(edge->child_rows + 4 * (size_t)start);
        weir__fetch(edge->child_rows + 4 * ((size_t)end - 1));
        if (edge->child_times)
            fetch_times(listing);
    }
}

/* How many of ascending times are up to the limit. The search always takes the same way through as many: what
 * it finds is no branch. */
static uint32_t count_up_to(const uint8_t *times, uint32_t count, int64_t limit) {
    const uint8_t *first = times;
    while (count > 1) {
        uint32_t half = count / 2;
        const uint8_t *middle = first + 8 * (size_t)half;
        first = (int64_t)weir__load64(middle - 8) <= limit ? middle : first;
        count -= half;
    }
    uint32_t before = WEIR__LOW(uint32_t, (first - times) / 8);
    return before + (count == 1 && (int64_t)weir__load64(first) <= limit);
}

/* Takes each search to the end, or, of a long list, to the quarter in which it ends; says whether one is
 * left. */
static bool search_lists(weir__walk *walk) {
    enum { SHORT = 32 };
    uint32_t left = 0;
    int64_t limit = walk->outlook.cutoff - (walk->outlook.cutoff == WEIR_TIME_NEVER);
    for (uint32_t i = 0; i < walk->search_count; i++) {
        weir__listing *listing = &walk->listings[walk->searches[i]];
        const uint8_t *times =
            listing->rule->edge->child_times + 8 * ((size_t)listing->start + listing->known);
        if (listing->unsure <= SHORT) {
            touch(walk, listing->rule->times_in, times, 8 * (size_t)listing->unsure);
            listing->known += count_up_to(times, listing->unsure, limit);
            listing->unsure = 0;
            continue;
        }
        uint32_t quarter = listing->unsure / 4, quarters = 0;
        for (uint32_t q = 1; q <= 3; q++) {
            const uint8_t *time = times + 8 * ((size_t)(q * quarter) - 1);
            touch(walk, listing->rule->times_in, time, 8);
            quarters += (int64_t)weir__load64(time) <= limit;
        }
        listing->known += quarters * quarter;
        listing->unsure = quarters < 3 ? quarter : listing->unsure - 3 * quarter;
        fetch_times(listing);
        walk->searches[left++] = walk->searches[i];
    }
    walk->search_count = left;
    return left > 0;
}

static uint64_t priority_of(const uint8_t *times, uint32_t i) {
    return weir__newest_first(times ? (int64_t)weir__load64(times + 8 * (size_t)i) : WEIR_TIME_ALWAYS);
}

/* Lists those of `count` children that were neither visited when the row was, nor listed, without a branch on
 * whether they are. `children` are little-endian, and so are `times`, which go with them if they decide. */
static inline void list_children_of(weir__walk *walk, const weir__listing *listing, const void *children,
                                    const uint8_t *times, uint32_t count, bool by_time) {
    const weir__table_rules *table = listing->rule->children;
    reserve(walk, count);
    uint32_t *listed = walk->levels.rows + walk->levels.row_count;
    uint64_t *priorities = by_time ? walk->levels.priorities + walk->levels.row_count : NULL;
    weir__known_rows known = walk->known; /* near, where no other store can touch it */
    uint32_t new_count = 0, local = listing->local, row_start = table->row_start, furthest = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t state;
        uint32_t child = weir__load32((const uint8_t *)children + 4 * (size_t)i);
        uint32_t place = weir__place_of(&known, child, &state);
        known.states[place] = state & WEIR__UNLISTABLE;
        listed[new_count] = child;
        if (by_time)
            priorities[new_count] = priority_of(times, i);
        new_count += weir__listable_below(state) > local;
        furthest = child - row_start > furthest ? child - row_start : furthest;
    }
    walk->known = known;
    walk->is_corrupt |= count > 0 && furthest >= table->row_count;
    weir__list_run(&walk->levels, walk->rows[local].hop + 1u, new_count, table->number, walk->draws.next);
    walk->draws.next += by_time ? 0 : new_count;
}

/* Children that lie together in the store. */
static void list_run(weir__walk *walk, const weir__listing *listing, const uint8_t *children,
                     uint32_t count) {
    touch(walk, listing->rule->rows_in, children, 4 * (size_t)count);
    list_children_of(walk, listing, children, NULL, count, false);
}

/* The newest of a row's children. */
static void list_latest(weir__walk *walk, const weir__listing *listing, uint32_t width) {
    const weir_edge *edge = listing->rule->edge;
    uint32_t count = listing->known < width ? listing->known : width;
    size_t first = (size_t)listing->start + listing->known - count;
    const uint8_t *times = edge->child_times ? edge->child_times + 8 * first : NULL;
    touch(walk, listing->rule->rows_in, edge->child_rows + 4 * first, 4 * (size_t)count);
    if (times)
        touch(walk, listing->rule->times_in, times, 8 * (size_t)count);
    list_children_of(walk, listing, edge->child_rows + 4 * first, times, count, true);
}

/* Lists the children whose places in the list, ascending, were chosen. They are verified together, unless
 * they lie far apart. */
static void list_chosen(weir__walk *walk, const weir__listing *listing, const uint8_t *rows) {
    uint32_t count = walk->chooser.width, *taken = walk->chooser.taken;
    if (count == 0)
        return;
    size_t first = 4 * (size_t)taken[0];
    size_t size = 4 * ((size_t)taken[count - 1] + 1) - first;
    if (size <= WEIR__SUBTREE_SIZE)
        touch(walk, listing->rule->rows_in, rows + first, size);
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *child = rows + 4 * (size_t)taken[i];
        if (size > WEIR__SUBTREE_SIZE)
            touch(walk, listing->rule->rows_in, child, sizeof taken[i]);
        memcpy(&taken[i], child, sizeof taken[i]);
    }
    list_children_of(walk, listing, taken, NULL, count, false);
}

/* Lists row after row up to the first list that must be chosen from: what is chosen there is asked for, and
 * listed in the next step. Says whether one is left. */
static bool list_children(weir__walk *walk) {
    uint32_t width = walk->chooser.width, *taken = walk->chooser.taken;
    for (; walk->listing < walk->listing_count && !walk->is_corrupt; walk->listing++) {
        const weir__listing *listing = &walk->listings[walk->listing];
        const uint8_t *rows = listing->rule->edge->child_rows + 4 * (size_t)listing->start;
        if (walk->policy == WEIR_CHILDREN_LATEST)
            list_latest(walk, listing, width);
        else if (listing->known <= width)
            list_run(walk, listing, rows, listing->known);
        else if (walk->policy == WEIR_CHILDREN_RECENT)
            list_run(walk, listing, rows + 4 * (size_t)(listing->known - width), width);
        else if (walk->has_chosen) {
            walk->has_chosen = false;
            list_chosen(walk, listing, rows);
        } else {
            weir__choose(&walk->chooser, &walk->draws, listing->known);
            for (uint32_t i = 0; i < width; i++)
                weir__fetch(rows + 4 * (size_t)taken[i]);
            walk->has_chosen = true;
            return true;
        }
    }
    return false;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static bool end_walk(weir__walk *walk) {
    uint32_t cells = walk->cell_count < walk->sequence_length ? walk->cell_count : walk->sequence_length;
    walk->rows[walk->row_count].first_cell = walk->cell_count = cells;
    join_rows(walk);
    return false;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Begins a part with a row: nothing waits any more, and what was visited stays so. */
static void begin_part(weir__walk *walk, uint32_t row, uint32_t table, uint32_t visits) {
    uint64_t end = (uint64_t)walk->cell_count + walk->budget.local_cells;
    weir_seed seed = walk->outlook.seed;
    seed.word[1] ^= walk->part;
    weir__levels_begin(&walk->levels, walk->max_hops);
    weir__draws_begin(&walk->draws, seed, walk->outlook.position);
    walk->stage = WEIR__WALK_VISIT;
    walk->has_chosen = false;
    walk->listed_count = walk->row_count;
    walk->part_end = end < walk->sequence_length ? WEIR__LOW(uint32_t, end) : walk->sequence_length;
    walk->part_visits[walk->part] = visits;
    walk->queue_begin = 0;
    walk->queue_end = 1;
    walk->queue[0] = (weir__queued_row){.row = row, .table = WEIR__LOW(uint16_t, table)};
}

static bool is_visited(weir__walk *walk, uint32_t row) {
    reserve(walk, 1);
    return weir__local_of(*weir__know(&walk->known, row)) != WEIR__UNVISITED;
}

/* The next example that is not visited: of those that walks found, then of those that are drawn. */
static bool next_example(weir__walk *walk, weir__example *out) {
    for (; walk->next_example < walk->example_count; walk->next_example++) {
        *out = walk->examples[walk->next_example];
        if (!is_visited(walk, out->row))
            return true;
    }
    while (walk->retriever->config->fill && walk->fill_tries < WEIR__FILL_TRIES && !walk->is_corrupt) {
        *out = (weir__example){weir__draw_example(walk->retriever, &walk->outlook, walk->fill_tries++), 0};
        walk->is_corrupt |= walk->retriever->is_corrupt;
        if (out->row != WEIR_NONE && !walk->is_corrupt && !is_visited(walk, out->row))
            return true;
    }
    return false;
}

/* Forgets what was queued or listed, and keeps what was visited. */
static void forget_what_waits(weir__walk *walk) {
    weir__known_empty(&walk->known, walk->known.bits);
    for (uint32_t i = 0; i < walk->row_count; i++) {
        uint64_t *state = weir__know(&walk->known, walk->rows[i].row);
        *state = weir__numbered(*state, i);
    }
    walk->has_grown = true;
}

/* When a part ends: the next one, or the end of the walk. */
static bool end_part(weir__walk *walk) {
    weir__example example;
    if (is_full(walk) || !walk->retriever || walk->is_corrupt)
        return !walk->is_corrupt && end_walk(walk);
    if (walk->part == 0) {
        walk->example_count = weir__retrieve(walk->retriever, &walk->outlook, &walk->budget, walk->examples);
        walk->is_corrupt |= walk->retriever->is_corrupt;
    }
    walk->queue_begin = walk->queue_end = walk->levels.row_count = 0; /* what waits is not known any more */
    if (walk->is_corrupt)
        return false;
    if (!next_example(walk, &example))
        return !walk->is_corrupt && end_walk(walk);
    forget_what_waits(walk);
    walk->part++;
    begin_part(walk, example.row, walk->rules->label_table, example.visits);
    return true;
}

static void fetch_ahead(const weir__walk *walk) {
    const weir__levels *levels = &walk->levels;
    if (levels->has_ahead)
        fetch_record(walk, &walk->rules->tables[levels->ahead.table], levels->ahead.row);
}

/* When all rows have listed their children, on to the next level. */
static bool step_to_level(weir__walk *walk) {
    walk->stage = WEIR__WALK_FIND;
    if (begin_listing(walk))
        return true;
    walk->stage = WEIR__WALK_VISIT;
    if (!weir__reach_level(&walk->levels, &walk->draws))
        return end_part(walk);
    fetch_ahead(walk);
    return true;
}

/* Parents first, then the least child of the level; when that is empty, the rows visited since the last time
 * list theirs. A queued parent is not visited meanwhile: children are visited only when the queue is empty.
 */
static bool step_to_row(weir__walk *walk) {
    weir__ranked_row child;
    if (is_part_full(walk))
        return end_part(walk);
    while (walk->queue_begin < walk->queue_end) {
        weir__queued_row queued = walk->queue[walk->queue_begin++];
        const weir__table_rules *table = &walk->rules->tables[queued.table];
        const uint8_t *record = open_record(walk, table, queued.row);
        bool is_anchor = queued.row == walk->outlook.anchor_row;
        if (is_from_the_future(table, record,
                               is_anchor ? walk->outlook.anchor_cutoff : walk->outlook.cutoff)) {
            if (!is_anchor)
                continue;
            if (!walk->rules->shows_early_anchors)
                record = walk->rules->blank_record; /* it shows neither its cells nor its foreign keys */
        }
        uint64_t *state = weir__know(&walk->known, queued.row);
        *state = weir__numbered(*state, walk->row_count);
        return visit(walk, queued.row, queued.table, queued.hop, record);
    }
    while (weir__take_child(&walk->levels, &child)) {
        fetch_ahead(walk);
        uint64_t *state = weir__know(&walk->known, child.row);
        if (weir__local_of(*state) != WEIR__UNVISITED)
            continue;
        const weir__table_rules *table = &walk->rules->tables[child.table];
        const uint8_t *record = open_record(walk, table, child.row);
        *state = weir__numbered(*state, walk->row_count);
        return visit(walk, child.row, child.table, walk->levels.current, record);
    }
    return step_to_level(walk);
}

bool weir__walk_step(weir__walk *walk) {
    switch (walk->stage) {
    case WEIR__WALK_VISIT:
        return step_to_row(walk);
    case WEIR__WALK_FIND:
        find_lists(walk);
        walk->stage = WEIR__WALK_SEARCH;
        return !walk->is_corrupt;
    case WEIR__WALK_SEARCH:
        if (!search_lists(walk))
            walk->stage = WEIR__WALK_LIST;
        return !walk->is_corrupt;
    case WEIR__WALK_LIST:
        return list_children(walk) || (!walk->is_corrupt && step_to_level(walk));
    }
    return false;
}

/* The latest time that is shown, and that of the anchor row itself. */
static void find_cutoffs(weir__walk *walk) {
    weir__outlook *o = &walk->outlook;
    int64_t observed = walk->observation_time;
    bool is_frozen = walk->has_context_until && walk->context_until < observed;
    o->anchor_cutoff = is_frozen ? walk->context_until : observed;
    o->cutoff = o->anchor_cutoff;
    if (walk->is_strictly_before && o->cutoff == observed && observed > INT64_MIN + 1)
        o->cutoff--;
}

void weir__walk_begin(weir__walk *walk, const weir__walk_start *start) {
    const weir__rules *rules = walk->rules;
    uint32_t seed = start->seed == WEIR_NONE ? rules->task->seed_count : start->seed;
    uint32_t table = rules->has_task_rows ? rules->label_table : rules->task->anchor_table;
    weir__known_empty(&walk->known, WEIR__KNOWN_BITS);
    walk->row_count = walk->cell_count = walk->edge_count = walk->link_count = 0;
    walk->part = walk->example_count = walk->next_example = walk->fill_tries = 0;
    walk->record_bytes = 0;
    walk->has_grown = walk->is_corrupt = false;
    walk->observation_time = start->observation_time;
    walk->outlook =
        (weir__outlook){.seed = start->walk_seed,
                        .position = start->position,
                        .anchor_row = start->row,
                        .own_row = rules->has_task_rows ? rules->info->row_count + seed : WEIR_NONE};
    find_cutoffs(walk);
    if (walk->retriever)
        walk->budget = weir__budget_of(walk->retriever->config, &walk->outlook);
    walk->chooser.width = walk->budget.width;
    begin_part(walk, rules->has_task_rows ? walk->outlook.own_row : start->row, table, 0);
    fetch_record(walk, &rules->tables[rules->task->anchor_table], start->row);
}
