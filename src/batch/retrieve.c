/* See retrieve.h. A walk is a chain of cache misses: where a row's lists begin, the times in them, the row
 * that is chosen. So many walks go abreast, and each takes its step in stages: what a stage reads was asked
 * for in the one before, while the others were served. Draws are by (walk, step), so nothing depends on how
 * many go abreast.
 *
 * A task row leads to its anchor alone, which is where the walk came from: such a step reads nothing. The
 * number of children that a long list shows is searched for once and remembered, because walks meet hubs
 * again and again.
 *
 * Nothing is allocated, and every loop is bounded by the budget. */
#include "batch/retrieve.h"

#include <string.h>

#include "base/bytes.h"
#include "base/narrow.h"
#include "batch/fetch.h"
#include "batch/times.h"
#include "store/reader.h"

enum { ABREAST = 64, HUBS_MOST = 4096, HUBS_LEAST = 16, HUB_BYTES = 1 << 20 };
#define DOMAIN_RETRIEVAL 0x72657472u
#define FIRST_FILL       ((uint32_t)1 << 31)
static_assert(ABREAST % WEIR__DRAWS == 0, "draws come by the sixteen");

/* Children along an edge type. */
typedef struct run {
    uint32_t rule;
    uint32_t start;
    uint32_t count;
} run;

/* The neighbours of a row. Behind it: the parents as (row, rule), then the runs. */
typedef struct weir__neighbours {
    uint32_t row;
    uint32_t serial; /* of the sequence whose cut-off they hold for */
    uint32_t parent_count;
    uint32_t run_count;
    uint64_t count; /* of all of them */
    uint32_t is_hub;
    uint32_t words[];
} neighbours;

typedef struct weir__walker {
    uint32_t row;
    uint32_t table;
    uint32_t is_over;
    uint32_t is_at_task_row;      /* of `row`, to which the next step leads back */
    uint32_t may_be_example;      /* it came to a row whose label is looked at next */
    uint32_t is_counted;          /* the neighbours of its row are */
    neighbours *own;              /* room for the neighbours of its row, … */
    const neighbours *at;         /* … and where they are */
    const weir__child_rule *rule; /* the child that it goes to: where it is listed, … */
    uint32_t entry;               /* … and its place there */
} walker;

typedef struct weir__ranked_example {
    uint64_t by_time; /* the smaller comes first */
    uint64_t by_visits;
} ranked_example;

/* ---- Memory ------------------------------------------------------------------------------------ */

static uint32_t most_of(const weir_choices *choices) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < choices->count; i++)
        most = choices->values[i] > most ? choices->values[i] : most;
    return most;
}

/* How many examples the task can have at most. */
static uint64_t example_count(const weir__rules *rules) {
    return rules->has_task_rows ? rules->shown_labels.count : rules->tables[rules->label_table].row_count;
}

bool weir__retrieves(const weir__rules *rules, const weir_batch_config *config) {
    return config->has_retrieval && rules->label_table != WEIR_NONE && !rules->task->drops_target &&
           rules->label_visibility != WEIR_LABELS_NONE;
}

void weir__retriever_carve(weir__retriever *r, weir__block *block, const weir_store *store,
                           const weir__rules *rules, const weir_batch_config *config) {
    const weir_retrieval_config *retrieval = &config->retrieval;
    if (!weir__retrieves(rules, config)) {
        *r = (weir__retriever){0};
        return;
    }
    uint64_t steps = (uint64_t)most_of(&retrieval->walks) * most_of(&retrieval->length);
    uint64_t examples = example_count(rules) < steps ? example_count(rules) : steps;
    uint32_t bits = 4;
    while ((uint64_t)1 << bits < 2 * examples)
        bits++;
    uint64_t size =
        sizeof(neighbours) + (uint64_t)rules->most_parents * 2 * sizeof(uint32_t) +
        (uint64_t)rules->most_inbound * sizeof(run) * (config->since_is == WEIR_SINCE_EVER ? 1 : 2);
    size = (size + 63) & ~(uint64_t)63;
    uint32_t hubs = HUBS_MOST;
    while (hubs > HUBS_LEAST && hubs * size > HUB_BYTES)
        hubs /= 2;
    *r = (weir__retriever){
        .store = store,
        .rules = rules,
        .config = retrieval,
        .philox = weir__philox_many_best(),
        .most = config->max_rows,
        .walkers = weir__carve(block, ABREAST, sizeof *r->walkers),
        .neighbours = weir__carve(block, ABREAST, size),
        .hubs = weir__carve(block, hubs, size),
        .neighbours_size = size,
        .hub_count = hubs,
        .keys = weir__carve(block, (uint64_t)1 << bits, sizeof *r->keys),
        .visits = weir__carve(block, (uint64_t)1 << bits, sizeof *r->visits),
        .used = weir__carve(block, examples + 1, sizeof *r->used),
        .ranked = weir__carve(block, config->max_rows, sizeof *r->ranked),
        .shift = 32 - bits,
    };
    if (block->memory)
        memset(r->keys, 0xFF, sizeof *r->keys << bits);
    for (uint32_t i = 0; i < ABREAST && block->memory; i++)
        r->walkers[i].own = (neighbours *)(r->neighbours + i * size);
}

/* ---- What the store says ----------------------------------------------------------------------- */

/* What is known to be whole is not asked again. */
static inline void touch(weir__retriever *r, weir__lies_in kind, const uint8_t *at, size_t size) {
    if (__builtin_expect(!r->is_whole, 0) && kind)
        r->is_corrupt |= !weir__store_touch(r->store, (weir__section_kind)kind, at, size);
}

static inline bool is_visible(weir__retriever *r, const weir__table_rules *table, uint32_t row) {
    if (table->time_offset == WEIR_NONE || row == r->outlook->anchor_row)
        return true;
    const uint8_t *time = weir__record_of(table, row) + table->time_offset;
    touch(r, WEIR__SECTION_ROWS, time, 8);
    return (int64_t)weir__load64(time) <= r->outlook->cutoff;
}

/* Whether what has this time is not too old. */
static inline bool is_recent(const weir__retriever *r, int64_t time) {
    return time >= r->outlook->floor || time == WEIR_TIME_ALWAYS;
}

/* The label of a row of the anchor table in a cell task: when it is known, if the row shows it. */
static bool shows_cell(weir__retriever *r, uint32_t row, int64_t *known) {
    const weir__rules *rules = r->rules;
    const weir__table_rules *table = &rules->tables[rules->label_table];
    const weir_column *column = &rules->info->columns[rules->task->column];
    uint32_t index = row - table->row_start;
    if (row == r->outlook->anchor_row || !is_visible(r, table, row))
        return false;
    if (rules->label_visibility != WEIR_LABELS_ALL) {
        if (rules->held_out != rules->own_held_out)
            touch(r, WEIR__SECTION_SEED_BITS, rules->held_out + index / 8, 1);
        if (weir__bit(rules->held_out, index))
            return false;
    }
    const uint8_t *record = weir__record_of(table, row);
    touch(r, WEIR__SECTION_ROWS, record, table->stride);
    const uint8_t *bits = record + rules->info->tables[rules->label_table].bits_offset;
    int64_t time = table->time_offset == WEIR_NONE ? WEIR_TIME_ALWAYS
                                                   : (int64_t)weir__load64(record + table->time_offset);
    int64_t at = column->known_slot == WEIR_NONE ? time : (int64_t)weir__load64(record + column->known_slot);
    *known = at > time ? at : time;
    return !weir__bit(bits, column->null_bit) &&
           weir__is_known(record, column->known_slot, r->outlook->cutoff) && is_recent(r, *known);
}

/* ---- Visits ------------------------------------------------------------------------------------ */

/* One more visit to an example, by its place. */
static void count_visit(weir__retriever *r, uint32_t example) {
    uint32_t mask = UINT32_MAX >> r->shift, place = (example * 0x9E3779B1u) >> r->shift;
    while (r->keys[place] != example && r->keys[place] != WEIR_NONE)
        place = (place + 1) & mask;
    if (r->keys[place] == WEIR_NONE) {
        r->keys[place] = example;
        r->visits[place] = 0;
        r->used[r->used_count++] = place;
    }
    r->visits[place]++;
}

/* One of `count`. */
static uint64_t pick(uint64_t random, uint64_t count) {
    return WEIR__LOW(uint64_t, (unsigned __int128)random * count >> 64);
}

/* ---- A step, in stages ------------------------------------------------------------------------- */

static inline neighbours *hub_of(const weir__retriever *r, uint32_t row) {
    uint32_t place = (row * 0x9E3779B1u) >> 8 & (r->hub_count - 1);
    return (neighbours *)(r->hubs + place * r->neighbours_size);
}

/* Asks for what is read of a row that a walk has come to: its foreign keys, which lie together, where its
 * lists begin, and what is remembered of it. */
static inline void fetch_row(const weir__retriever *r, const weir__table_rules *table, uint32_t row) {
    uint32_t index = row - table->row_start;
    if (table->has_hubs)
        weir__fetch(hub_of(r, row));
    if (table->parent_count > 0)
        weir__fetch(table->records + (size_t)index * table->stride + table->parents[0].slot);
    for (uint32_t i = 0; i < table->inbound_count; i++)
        weir__fetch(table->inbound[i].edge->starts + 4 * (size_t)index);
}

static inline run *runs_of(const weir__retriever *r, const neighbours *n) {
    return (run *)(void *)(((neighbours *)(void *)n)->words + 2 * (size_t)r->rules->most_parents);
}

/* The known foreign keys of a row; whether they lead to visible rows is seen when those are near. */
static inline void find_parents(weir__retriever *r, const weir__table_rules *table, uint32_t row,
                                neighbours *n) {
    const uint8_t *record = weir__record_of(table, row);
    uint32_t *next = n->words;
    if (__builtin_expect(row == r->outlook->anchor_row && r->blank_anchor, 0))
        record = r->blank_anchor;
    else
        touch(r, WEIR__SECTION_ROWS, record, table->stride);
    for (uint32_t i = 0; i < table->parent_count; i++) {
        const weir__parent_rule *rule = &table->parents[i];
        const weir__table_rules *parents = rule->parents;
        uint32_t parent = weir__load32(record + rule->slot), index = parent - parents->row_start;
        if (parent == WEIR_NONE || !weir__is_known(record, rule->known_slot, r->outlook->cutoff))
            continue;
        if (__builtin_expect(index >= parents->row_count, 0)) {
            r->is_corrupt = true;
            continue;
        }
        if (parents->time_offset != WEIR_NONE)
            weir__fetch(parents->records + (size_t)index * parents->stride + parents->time_offset);
        next[0] = parent;
        next[1] = i;
        next += 2;
    }
    n->parent_count = WEIR__LOW(uint32_t, next - n->words) / 2;
}

/* The lists of a row's children, without those that are empty. */
static inline void find_lists(weir__retriever *r, const weir__table_rules *table, uint32_t row,
                              neighbours *n) {
    uint32_t index = row - table->row_start;
    run *next = runs_of(r, n), *first = next;
    for (uint32_t i = 0; i < table->inbound_count; i++) {
        const weir__child_rule *rule = &table->inbound[i];
        const weir_edge *edge = rule->edge;
        const uint8_t *at = edge->starts + 4 * (size_t)index;
        touch(r, rule->starts_in, at, 8);
        uint32_t start = weir__load32(at), end = weir__load32(at + 4);
        if (start >= end || end > edge->edges)
            continue;
        if (edge->child_times)
            weir__fetch(edge->child_times + 8 * ((size_t)end - 1));
        *next++ = (run){i, start, end - start};
    }
    n->run_count = WEIR__LOW(uint32_t, next - first);
}

/* Finds the neighbours of a row, or where they were counted before. */
static inline void find_neighbours(weir__retriever *r, walker *w) {
    const weir__table_rules *table = &r->rules->tables[w->table];
    w->is_counted = 0;
    w->at = w->own;
    if (table->has_hubs) {
        const neighbours *hub = hub_of(r, w->row);
        w->is_counted = (hub->row == w->row) & (hub->serial == r->serial);
        w->at = w->is_counted ? hub : w->own;
        if (w->is_counted)
            return;
    }
    w->own->row = w->row;
    w->own->serial = r->serial;
    find_parents(r, table, w->row, w->own);
    find_lists(r, table, w->row, w->own);
}

/* How many of a list's ascending times are up to a limit. */
static uint32_t search(weir__retriever *r, const weir__child_rule *rule, const uint8_t *times, uint32_t count,
                       int64_t limit) {
    return weir__times_up_to(r->store, r->is_whole ? 0 : rule->times_in, times, count, limit, &r->is_corrupt);
}

/* Of the children in each run, those that have a time before the floor are not shown: what is left are two
 * runs. */
static __attribute__((noinline)) void leave_out_old(weir__retriever *r, const weir__table_rules *table,
                                                    neighbours *n) {
    run *runs = runs_of(r, n);
    for (uint32_t i = n->run_count; i-- > 0;) {
        const run whole = runs[i];
        const weir__child_rule *rule = &table->inbound[whole.rule];
        const uint8_t *times = rule->edge->child_times;
        uint32_t always = whole.count, recent = whole.count;
        if (times && whole.count > 0) {
            times += 8 * (size_t)whole.start;
            always = search(r, rule, times, whole.count, WEIR_TIME_ALWAYS);
            recent = search(r, rule, times, whole.count, r->outlook->floor - 1);
        }
        runs[2 * i] = (run){whole.rule, whole.start, always};
        runs[2 * i + 1] = (run){whole.rule, whole.start + recent, whole.count - recent};
        n->count -= recent - always;
    }
    n->run_count *= 2;
}

/* Counts the neighbours that were found: parents that are visible, children that are known. */
static inline void count_neighbours(weir__retriever *r, const weir__table_rules *table, neighbours *n) {
    uint32_t seen = 0;
    run *runs = runs_of(r, n);
    for (uint32_t i = 0; i < n->parent_count; i++) {
        uint32_t parent = n->words[2 * i], rule = n->words[2 * i + 1];
        n->words[2 * seen] = parent;
        n->words[2 * seen + 1] = rule;
        seen += is_visible(r, table->parents[rule].parents, parent);
    }
    uint64_t count = seen;
    for (uint32_t i = 0; i < n->run_count; i++) {
        const weir__child_rule *rule = &table->inbound[runs[i].rule];
        const uint8_t *times = rule->edge->child_times;
        uint32_t shown = runs[i].count;
        if (times) {
            times += 8 * (size_t)runs[i].start;
            touch(r, rule->times_in, times + 8 * ((size_t)shown - 1), 8);
            if ((int64_t)weir__load64(times + 8 * ((size_t)shown - 1)) > r->limit)
                shown = search(r, rule, times, shown - 1, r->limit);
        }
        runs[i].count = shown;
        count += shown;
    }
    n->parent_count = seen;
    n->count = count;
    if (__builtin_expect(r->outlook->floor != WEIR_TIME_ALWAYS, 0))
        leave_out_old(r, table, n);
    n->is_hub = table->has_hubs;
}

/* Remembers the neighbours of a row that may have many. Only when all walks have picked theirs: what is
 * forgotten for it may be another walk's. */
static inline void remember(weir__retriever *r, const walker *w) {
    if (!w->is_counted && w->own->is_hub)
        memcpy(hub_of(r, w->own->row), w->own, r->neighbours_size);
}

/* Picks a neighbour; asks for it if it is a child. */
static inline void pick_neighbour(weir__retriever *r, walker *w, uint64_t random) {
    const weir__table_rules *table = &r->rules->tables[w->table];
    if (!w->is_counted)
        count_neighbours(r, table, w->own);
    const neighbours *n = w->at;
    uint64_t picked = pick(random, n->count);
    w->is_over = n->count == 0;
    w->rule = NULL;
    if (picked < n->parent_count) {
        w->row = n->words[2 * picked];
        w->table = table->parents[n->words[2 * picked + 1]].parents->number;
        return;
    }
    if (w->is_over)
        return;
    const run *at = runs_of(r, n);
    for (picked -= n->parent_count; picked >= at->count; at++)
        picked -= at->count;
    w->rule = &table->inbound[at->rule];
    w->entry = at->start + WEIR__LOW(uint32_t, picked);
    weir__fetch(w->rule->edge->child_rows + 4 * (size_t)w->entry);
}

/* Goes where the step leads. */
static inline void arrive(weir__retriever *r, walker *w) {
    const weir__rules *rules = r->rules;
    if (w->rule) {
        const uint8_t *child = w->rule->edge->child_rows + 4 * (size_t)w->entry;
        const weir__table_rules *children = w->rule->children;
        touch(r, w->rule->rows_in, child, 4);
        uint32_t row = weir__load32(child);
        if (row - children->row_start >= children->row_count) {
            r->is_corrupt = true;
            w->is_over = true;
            return;
        }
        if (!children->records) { /* a task row: the next step leads back */
            w->is_at_task_row = true;
            if (row != r->outlook->own_row)
                count_visit(r, w->entry);
            return;
        }
        w->row = row;
        w->table = children->number;
    }
    w->may_be_example = !rules->has_task_rows && w->table == rules->label_table;
    fetch_row(r, &rules->tables[w->table], w->row);
}

/* ---- Walks ------------------------------------------------------------------------------------- */

/* In a cell task: whether the row that a walk has come to is an example. */
static void look_at_label(weir__retriever *r, walker *w) {
    int64_t known;
    if (shows_cell(r, w->row, &known))
        count_visit(r, w->row - r->rules->tables[w->table].row_start);
    w->may_be_example = false;
}

/* One step of `count` walks. */
static void take_step(weir__retriever *r, uint32_t count, const uint64_t *random) {
    uint32_t moving[ABREAST], moves = 0;
    for (uint32_t i = 0; i < count; i++) {
        walker *w = &r->walkers[i];
        moving[moves] = i;
        moves += !(w->is_over | w->is_at_task_row);
        w->is_at_task_row = false;
        if (w->may_be_example)
            look_at_label(r, w);
    }
    for (uint32_t k = 0; k < moves; k++)
        find_neighbours(r, &r->walkers[moving[k]]);
    for (uint32_t k = 0; k < moves; k++)
        pick_neighbour(r, &r->walkers[moving[k]], random[moving[k]]);
    for (uint32_t k = 0; k < moves; k++) {
        walker *w = &r->walkers[moving[k]];
        remember(r, w);
        if (!w->is_over)
            arrive(r, w);
    }
}

/* Walks [first, first + count). */
static void walk_abreast(weir__retriever *r, const weir__budget *budget, uint32_t first, uint32_t count) {
    const weir__outlook *o = r->outlook;
    weir__draws draws[ABREAST / WEIR__DRAWS];
    uint64_t random[ABREAST];
    for (uint32_t i = 0; i < count; i++)
        r->walkers[i] = (walker){.row = o->anchor_row,
                                 .table = r->rules->task->anchor_table,
                                 .is_at_task_row = r->rules->has_task_rows,
                                 .own = r->walkers[i].own};
    fetch_row(r, &r->rules->tables[r->rules->task->anchor_table], o->anchor_row);
    for (uint32_t step = 0; step < budget->length && !r->is_corrupt; step++) {
        uint32_t block = step / 2 * budget->walks + first;
        for (uint32_t i = 0; i < count && step % 2 == 0; i += WEIR__DRAWS)
            r->philox(o->seed, DOMAIN_RETRIEVAL, o->position, block + i, &draws[i / WEIR__DRAWS]);
        for (uint32_t i = 0; i * WEIR__DRAWS < count; i++)
            memcpy(random + (size_t)i * WEIR__DRAWS, step % 2 == 0 ? draws[i].k0 : draws[i].k1,
                   sizeof draws[i].k0);
        take_step(r, count, random);
    }
    for (uint32_t i = 0; i < count; i++)
        if (r->walkers[i].may_be_example)
            look_at_label(r, &r->walkers[i]);
}

/* ---- Order ------------------------------------------------------------------------------------- */

static bool comes_before(const ranked_example *a, const ranked_example *b) {
    return a->by_time != b->by_time ? a->by_time < b->by_time : a->by_visits < b->by_visits;
}

/* Puts an example where it belongs below place `at` of the heap. */
static void sift_down(ranked_example *heap, uint32_t at, uint32_t count, ranked_example example) {
    for (uint32_t below = 2 * at + 1; below < count; below = 2 * at + 1) {
        below += below + 1 < count && comes_before(&heap[below], &heap[below + 1]);
        if (!comes_before(&example, &heap[below]))
            break;
        heap[at] = heap[below];
        at = below;
    }
    heap[at] = example;
}

static void sift_up(ranked_example *heap, uint32_t at, ranked_example example) {
    while (at > 0 && comes_before(&heap[(at - 1) / 2], &example)) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = example;
}

/* When an example's label is known. */
static int64_t time_of(weir__retriever *r, uint32_t example) {
    int64_t known = WEIR_TIME_ALWAYS;
    if (!r->rules->has_task_rows) {
        (void)shows_cell(r, r->rules->tables[r->rules->label_table].row_start + example, &known);
        return known;
    }
    const uint8_t *time = r->rules->shown_labels.times + 8 * (size_t)example;
    touch(r, r->rules->labels_in, time, 8);
    return (int64_t)weir__load64(time);
}

static uint32_t row_of(weir__retriever *r, uint32_t example) {
    if (!r->rules->has_task_rows)
        return r->rules->tables[r->rules->label_table].row_start + example;
    const uint8_t *row = r->rules->shown_labels.rows + 4 * (size_t)example;
    touch(r, r->rules->labels_in, row, 4);
    return weir__load32(row);
}

/* The best of the examples that were visited, in order; the counts are emptied for the next sequence. */
static uint32_t rank_examples(weir__retriever *r, weir__example *out) {
    ranked_example *heap = r->ranked;
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->used_count; i++) {
        uint32_t place = r->used[i], key = r->keys[place];
        ranked_example example = {
            .by_time = r->config->order == WEIR_EXAMPLES_LATEST ? weir__newest_first(time_of(r, key)) : 0,
            .by_visits = (uint64_t)~r->visits[place] << 32 | key};
        r->keys[place] = WEIR_NONE;
        if (count < r->most)
            sift_up(heap, count++, example);
        else if (comes_before(&example, &heap[0]))
            sift_down(heap, 0, count, example);
    }
    r->used_count = 0;
    for (uint32_t left = count; left > 0; left--) { /* the last comes off first */
        ranked_example last = heap[0];
        sift_down(heap, 0, left - 1, heap[left - 1]);
        out[left - 1] = (weir__example){row_of(r, WEIR__LOW(uint32_t, last.by_visits)),
                                        ~WEIR__LOW(uint32_t, last.by_visits >> 32)};
    }
    return count;
}

/* ---- Everything -------------------------------------------------------------------------------- */

weir__budget weir__budget_of(const weir_retrieval_config *config, const weir__outlook *o) {
    const weir_choices *choices[] = {&config->walks, &config->length, &config->local_cells, &config->width};
    uint32_t values[4];
    weir__draws draws;
    for (uint32_t j = 0; j < 4; j++) {
        values[j] = choices[j]->values[0];
        if (choices[j]->count == 1)
            continue;
        weir__philox_many_best()(o->seed, DOMAIN_RETRIEVAL, o->position, UINT32_MAX - j, &draws);
        values[j] = choices[j]->values[pick(draws.k0[0], choices[j]->count)];
    }
    return (weir__budget){values[0], values[1], values[2], values[3]};
}

/* Whether all that walks read was verified already. */
static bool are_whole(const weir__retriever *r) {
    static const weir__section_kind read[] = {WEIR__SECTION_ROWS,       WEIR__SECTION_CHILD_STARTS,
                                              WEIR__SECTION_CHILD_ROWS, WEIR__SECTION_CHILD_TIMES,
                                              WEIR__SECTION_SEED_BITS,  WEIR__SECTION_SEED_ROWS,
                                              WEIR__SECTION_LABELS};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (!weir__store_is_whole(r->store, read[i]))
            return false;
    return true;
}

/* Readies the retriever for a sequence. */
static void look_out(weir__retriever *r, const weir__outlook *o) {
    const weir__table_rules *anchors = &r->rules->tables[r->rules->task->anchor_table];
    r->outlook = o;
    r->limit = o->cutoff - (o->cutoff == WEIR_TIME_NEVER);
    r->is_corrupt = false;
    r->is_whole = are_whole(r);
    r->blank_anchor = NULL;
    if (anchors->time_offset == WEIR_NONE || r->rules->shows_early_anchors)
        return;
    const uint8_t *time = weir__record_of(anchors, o->anchor_row) + anchors->time_offset;
    touch(r, WEIR__SECTION_ROWS, time, 8);
    if ((int64_t)weir__load64(time) > o->anchor_cutoff)
        r->blank_anchor = r->rules->blank_record;
}

uint32_t weir__retrieve(weir__retriever *r, const weir__outlook *o, const weir__budget *budget,
                        weir__example *out) {
    look_out(r, o);
    if (++r->serial == 0) { /* hubs of long ago must not be taken for those of today */
        memset(r->hubs, 0, r->hub_count * r->neighbours_size);
        r->serial++;
    }
    for (uint32_t first = 0; first < budget->walks && !r->is_corrupt; first += ABREAST) {
        uint32_t left = budget->walks - first;
        walk_abreast(r, budget, first, left < ABREAST ? left : ABREAST);
    }
    return rank_examples(r, out);
}

/* A seed of the splits that are shown, by its number among them; WEIR_NONE: there is none. */
static uint32_t shown_seed_row(weir__retriever *r, uint64_t random) {
    const weir__rules *rules = r->rules;
    const weir_task *task = rules->task;
    uint32_t count = 0;
    for (uint32_t split = 0; split < WEIR_SPLITS; split++)
        if (rules->label_splits >> split & 1)
            count += task->split_start[split + 1] - task->split_start[split];
    if (count == 0)
        return WEIR_NONE;
    uint32_t number = WEIR__LOW(uint32_t, pick(random, count));
    for (uint32_t split = 0; split < WEIR_SPLITS; split++) {
        uint32_t size = task->split_start[split + 1] - task->split_start[split];
        if (!(rules->label_splits >> split & 1))
            continue;
        if (number < size) {
            const uint8_t *row = task->seed_rows + 4 * ((size_t)task->split_start[split] + number);
            touch(r, WEIR__SECTION_SEED_ROWS, row, 4);
            return weir__load32(row);
        }
        number -= size;
    }
    return WEIR_NONE;
}

uint32_t weir__draw_example(weir__retriever *r, const weir__outlook *o, uint32_t number) {
    const weir__rules *rules = r->rules;
    const weir_label_list *shown = &rules->shown_labels;
    weir__draws draws;
    int64_t known;
    look_out(r, o);
    r->philox(o->seed, DOMAIN_RETRIEVAL, o->position, FIRST_FILL + number / 2, &draws);
    uint64_t random = number % 2 == 0 ? draws.k0[0] : draws.k1[0];
    if (!rules->has_task_rows) {
        const weir__table_rules *table = &rules->tables[rules->label_table];
        uint32_t row = shown_seed_row(r, random);
        if (row == WEIR_NONE)
            return WEIR_NONE;
        r->is_corrupt |= row - table->row_start >= table->row_count;
        return !r->is_corrupt && shows_cell(r, row, &known) ? row : WEIR_NONE;
    }
    if (shown->count == 0)
        return WEIR_NONE;
    uint32_t entry = WEIR__LOW(uint32_t, pick(random, shown->count));
    uint32_t row = row_of(r, entry);
    r->is_corrupt |= row - rules->info->row_count >= rules->task->seed_count;
    int64_t time = time_of(r, entry);
    return !r->is_corrupt && row != o->own_row && time <= r->limit && is_recent(r, time) ? row : WEIR_NONE;
}
