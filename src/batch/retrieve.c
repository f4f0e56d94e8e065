/* See retrieve.h. A walk is a chain of cache misses: where a row's lists begin, the times in them, the row
 * that is chosen. So many walks go abreast, and each takes its step in stages: what a stage reads was asked
 * for in the one before, while the others were served. Draws are by (walk, step), so nothing depends on how
 * many go abreast.
 *
 * Walks from one row meet the same rows again and again: of 200,000 steps four in five leave a row that was
 * left before. So what a row leads to is remembered for the sequence, whose cut-off it holds for, in a line
 * or two of memory: ways, each to some neighbours that are numbered one after the other. A step from a row
 * that is remembered reads that and the neighbour that it goes to. A task row leads to its anchor alone,
 * which is where the walk came from: such a step reads nothing.
 *
 * Nothing is allocated, and every loop is bounded by the budget. */
#include "batch/retrieve.h"

#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/narrow.h"
#include "batch/fetch.h"
#include "batch/times.h"
#include "store/reader.h"

enum { ABREAST = 256, MEMO_BYTES = 1 << 24, MEMOS_LEAST = 16, LINE = 64 };
#define DOMAIN_RETRIEVAL 0x72657472u
#define FIRST_FILL       ((uint32_t)1 << 31)
static_assert(ABREAST % WEIR__DRAWS == 0, "draws come by the sixteen");

/* Where a foreign key or an edge type leads: to a parent, or to one of a list of children. */
typedef struct weir_batch__way {
    const uint8_t *child_rows; /* NULL: to a parent */
    const weir_batch__table_rules *to;
    const struct weir_batch__way *next; /* the ways out of that table */
    weir_batch__lies_in rows_in;
} way;

/* What a row leads to: a key, which says what row it is of in which sequence, then, for each way that leads
 * somewhere, where its neighbours end in the numbering of all, what is added to a number to find the place in
 * its list (of a parent: the row), and the number of the way. The rest of the ends are the number of all. */
typedef struct memo {
    uint64_t *key;
    uint32_t *ends;
    uint32_t *bases;
    uint16_t *ways;
} memo;

/* Neighbours along a way that were found, and are not known to be visible yet. */
typedef struct weir_batch__found_way {
    uint32_t way;
    uint32_t start; /* of the list; the row of a parent */
    uint32_t count;
} found_way;

typedef struct weir_batch__walker {
    uint64_t key;         /* of its row's memo, … */
    uint8_t *at;          /* … and where that is */
    const way *ways;      /* out of its row's table */
    const way *way;       /* that it goes, … */
    const uint8_t *entry; /* … and what says to which row, … */
    uint32_t place;       /* … which is at this place of a list of children, … */
    uint8_t parent[4];    /* … or this parent */
    uint32_t row;
    uint32_t table;
    uint32_t is_over;
    uint32_t is_at_task_row; /* of `row`, to which the next step leads back */
    uint32_t may_be_example; /* it came to a row whose label is looked at next */
} walker;

typedef struct weir_batch__ranked_example {
    uint64_t by_time; /* the smaller comes first */
    uint64_t by_visits;
} ranked_example;

/* ---- Memory ------------------------------------------------------------------------------------ */

/* How many examples the task can have at most. */
static uint64_t example_count(const weir_batch__rules *rules) {
    return rules->has_task_rows ? rules->shown_labels.count : rules->tables[rules->label_table].row_count;
}

bool weir_batch__retrieves(const weir_batch__rules *rules, const weir_batch_config *config) {
    return config->has_retrieval && rules->label_table != WEIR_NONE && !rules->task->drops_target &&
           rules->label_visibility != WEIR_LABELS_NONE;
}

/* The ways out of each table: its foreign keys, then the edge types into it. */
static void list_ways(weir_batch__retriever *r) {
    way *next = r->ways;
    for (uint32_t i = 0; i < r->rules->table_count; i++) {
        const weir_batch__table_rules *table = &r->rules->tables[i];
        r->first_way[i] = WEIR__LOW(uint32_t, next - r->ways);
        for (uint32_t k = 0; k < table->parent_count; k++)
            *next++ = (way){.to = table->parents[k].parents};
        for (uint32_t k = 0; k < table->inbound_count; k++)
            *next++ = (way){.child_rows = table->inbound[k].edge->child_rows,
                            .to = table->inbound[k].children,
                            .rows_in = table->inbound[k].rows_in};
    }
    for (way *each = r->ways; each < next; each++)
        each->next = &r->ways[r->first_way[each->to->number]];
}

void weir_batch__retriever_carve(weir_batch__retriever *r, weir__block *block, const weir_store *store,
                                 const weir_batch__rules *rules, const weir_batch_config *config) {
    const weir_retrieval_config *retrieval = &config->retrieval;
    if (!weir_batch__retrieves(rules, config)) {
        *r = (weir_batch__retriever){0};
        return;
    }
    uint64_t steps =
        (uint64_t)weir_batch__most_of(&retrieval->walks) * weir_batch__most_of(&retrieval->length);
    uint64_t examples = example_count(rules) < steps ? example_count(rules) : steps;
    uint32_t bits = 4;
    while ((uint64_t)1 << bits < 2 * examples)
        bits++;
    uint32_t pieces = config->since_is == WEIR_SINCE_EVER ? 1 : 2, ways = 1; /* of a list; of a row */
    uint64_t all_ways = 0;
    for (uint32_t i = 0; i < rules->table_count; i++) {
        const weir_batch__table_rules *table = &rules->tables[i];
        uint32_t most = table->parent_count + table->inbound_count * pieces;
        ways = most > ways ? most : ways;
        all_ways += table->parent_count + table->inbound_count;
    }
    uint64_t size =
        weir__align(sizeof(uint64_t) + (uint64_t)ways * (2 * sizeof(uint32_t) + sizeof(uint16_t)), LINE);
    uint32_t memos = MEMOS_LEAST;
    while (2 * memos * size <= MEMO_BYTES)
        memos *= 2;
    *r = (weir_batch__retriever){
        .store = store,
        .rules = rules,
        .config = retrieval,
        .philox = weir__philox_many_best(),
        .most = config->max_rows,
        .walkers = weir__carve(block, ABREAST, sizeof *r->walkers),
        .ways = weir__carve(block, all_ways + 1, sizeof *r->ways),
        .first_way = weir__carve(block, rules->table_count, sizeof *r->first_way),
        .found = weir__carve(block, ABREAST, ways * sizeof *r->found),
        .memos = weir__carve(block, memos, size),
        .way_count = ways,
        .memo_size = size,
        .memo_count = memos,
        .keys = weir__carve(block, (uint64_t)1 << bits, sizeof *r->keys),
        .visits = weir__carve(block, (uint64_t)1 << bits, sizeof *r->visits),
        .used = weir__carve(block, examples + 1, sizeof *r->used),
        .ranked = weir__carve(block, config->max_rows, sizeof *r->ranked),
        .shift = 32 - bits,
        .example_table = rules->has_task_rows ? WEIR_NONE : rules->label_table,
    };
    if (block->memory) {
        memset(r->keys, 0xFF, sizeof *r->keys << bits);
        list_ways(r);
    }
}

/* ---- What the store says ----------------------------------------------------------------------- */

/* What is known to be whole is not asked again. */
static inline void touch(weir_batch__retriever *r, weir_batch__lies_in kind, const uint8_t *at, size_t size) {
    if (__builtin_expect(!r->is_whole, 0) && kind)
        r->is_corrupt |= !weir_store__touch_in(r->store, (weir_store__section_kind)kind, at, size);
}

static inline bool is_visible(weir_batch__retriever *r, const weir_batch__table_rules *table, uint32_t row) {
    if (table->time_offset == WEIR_NONE || row == r->outlook->anchor_row)
        return true;
    const uint8_t *time = weir_batch__record_of(table, row) + table->time_offset;
    touch(r, WEIR_STORE__SECTION_ROWS, time, 8);
    return (int64_t)weir__load64(time) <= r->outlook->cutoff;
}

/* Whether what has this time is not too old. */
static inline bool is_recent(const weir_batch__retriever *r, int64_t time) {
    return time >= r->outlook->floor || time == WEIR_TIME_ALWAYS;
}

/* The label of a row of the anchor table in a cell task: when it is known, if the row shows it. */
static bool shows_cell(weir_batch__retriever *r, uint32_t row, int64_t *known) {
    const weir_batch__rules *rules = r->rules;
    const weir_batch__table_rules *table = &rules->tables[rules->label_table];
    const weir_column *column = &rules->info->columns[rules->task->column];
    uint32_t index = row - table->row_start;
    if (row == r->outlook->anchor_row || !is_visible(r, table, row))
        return false;
    if (rules->label_visibility != WEIR_LABELS_ALL) {
        if (rules->held_out != rules->own_held_out)
            touch(r, WEIR_STORE__SECTION_SEED_BITS, rules->held_out + index / 8, 1);
        if (weir__bit(rules->held_out, index))
            return false;
    }
    const uint8_t *record = weir_batch__record_of(table, row);
    touch(r, WEIR_STORE__SECTION_ROWS, record, table->stride);
    const uint8_t *bits = record + rules->info->tables[rules->label_table].bits_offset;
    int64_t time = table->time_offset == WEIR_NONE ? WEIR_TIME_ALWAYS
                                                   : (int64_t)weir__load64(record + table->time_offset);
    int64_t at = column->known_slot == WEIR_NONE ? time : (int64_t)weir__load64(record + column->known_slot);
    *known = at > time ? at : time;
    return !weir__bit(bits, column->null_bit) &&
           weir_batch__is_known(record, column->known_slot, r->outlook->cutoff) && is_recent(r, *known);
}

/* ---- Visits ------------------------------------------------------------------------------------ */

/* One more visit to an example, by its place. */
static void count_visit(weir_batch__retriever *r, uint32_t example) {
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

/* ---- What a row leads to ----------------------------------------------------------------------- */

static inline memo memo_at(const weir_batch__retriever *r, uint8_t *at) {
    memo m = {.key = (uint64_t *)(void *)at, .ends = (uint32_t *)(void *)(at + sizeof(uint64_t))};
    m.bases = m.ends + r->way_count;
    m.ways = (uint16_t *)(m.bases + r->way_count);
    return m;
}

/* Puts a walk on a row, and asks for what is remembered of it. */
static inline void stand_on(weir_batch__retriever *r, walker *w, uint32_t row, uint32_t table,
                            const way *ways) {
    uint32_t place = (row * 0x9E3779B1u) >> 8 & (r->memo_count - 1);
    w->row = row;
    w->table = table;
    w->ways = ways;
    w->key = (uint64_t)r->serial << 32 | row;
    w->at = r->memos + place * r->memo_size;
    weir_batch__fetch(w->at);
}

/* Asks for what is read of a row that is not remembered: its foreign keys, which lie together, and where its
 * lists begin. */
static inline void ask_for_row(const weir_batch__retriever *r, const walker *w) {
    const weir_batch__table_rules *table = &r->rules->tables[w->table];
    uint32_t index = w->row - table->row_start;
    if (table->parent_count > 0)
        weir_batch__fetch(table->records + (size_t)index * table->stride + table->parents[0].slot);
    for (uint32_t i = 0; i < table->inbound_count; i++)
        weir_batch__fetch(table->inbound[i].edge->starts + 4 * (size_t)index);
}

/* The known foreign keys of a row; whether they lead to visible rows is seen when those are near. */
static inline found_way *find_parents(weir_batch__retriever *r, const weir_batch__table_rules *table,
                                      uint32_t row, found_way *next) {
    const uint8_t *record = weir_batch__record_of(table, row);
    if (__builtin_expect(row == r->outlook->anchor_row && r->blank_anchor, 0))
        record = r->blank_anchor;
    else
        touch(r, WEIR_STORE__SECTION_ROWS, record, table->stride);
    for (uint32_t i = 0; i < table->parent_count; i++) {
        const weir_batch__parent_rule *rule = &table->parents[i];
        const weir_batch__table_rules *parents = rule->parents;
        uint32_t parent = weir__load32(record + rule->slot), index = parent - parents->row_start;
        bool is_there = parent != WEIR_NONE, is_row = index < parents->row_count;
        r->is_corrupt |=
            is_there & !is_row & weir_batch__is_known(record, rule->known_slot, r->outlook->cutoff);
        if (parents->time_offset != WEIR_NONE)
            weir_batch__fetch(parents->records + (size_t)index * parents->stride + parents->time_offset);
        *next = (found_way){i, parent, 1};
        next += is_there & is_row & weir_batch__is_known(record, rule->known_slot, r->outlook->cutoff);
    }
    return next;
}

/* The lists of a row's children, without those that are empty. */
static inline found_way *find_lists(weir_batch__retriever *r, const weir_batch__table_rules *table,
                                    uint32_t row, found_way *next) {
    uint32_t index = row - table->row_start;
    for (uint32_t i = 0; i < table->inbound_count; i++) {
        const weir_batch__child_rule *rule = &table->inbound[i];
        const weir_edge *edge = rule->edge;
        const uint8_t *at = edge->starts + 4 * (size_t)index;
        touch(r, rule->starts_in, at, 8);
        uint32_t start = weir__load32(at), end = weir__load32(at + 4);
        if (start >= end || end > edge->edges)
            continue;
        if (edge->child_times)
            weir_batch__fetch(edge->child_times + 8 * ((size_t)end - 1));
        *next++ = (found_way){table->parent_count + i, start, end - start};
    }
    return next;
}

/* How many of a list's ascending times are up to a limit. */
static uint32_t search(weir_batch__retriever *r, const weir_batch__child_rule *rule, const uint8_t *times,
                       uint32_t count, int64_t limit) {
    return weir_batch__times_up_to(r->store, r->is_whole ? 0 : rule->times_in, times, count, limit,
                                   &r->is_corrupt);
}

/* How many of a list's children are shown, if nothing is too old. */
static inline uint32_t count_shown(weir_batch__retriever *r, const weir_batch__child_rule *rule,
                                   const found_way *found) {
    const uint8_t *times = rule->edge->child_times;
    if (!times)
        return found->count;
    times += 8 * (size_t)found->start;
    touch(r, rule->times_in, times + 8 * ((size_t)found->count - 1), 8);
    if ((int64_t)weir__load64(times + 8 * ((size_t)found->count - 1)) <= r->limit)
        return found->count;
    return search(r, rule, times, found->count - 1, r->limit);
}

/* Adds a way to a memo, if it leads to something. */
static inline void add_way(memo *m, uint32_t number, uint32_t base, uint32_t end, bool is_some) {
    *m->ends = end;
    *m->bases = base;
    *m->ways = WEIR__LOW(uint16_t, number);
    m->ends += is_some;
    m->bases += is_some;
    m->ways += is_some;
}

/* Adds a list of which what was always there is shown, and what is not too old. */
static __attribute__((noinline)) uint32_t add_pieces(weir_batch__retriever *r,
                                                     const weir_batch__child_rule *rule, memo *m,
                                                     const found_way *found, uint32_t shown, uint32_t count) {
    const uint8_t *times = rule->edge->child_times + 8 * (size_t)found->start;
    uint32_t recent = search(r, rule, times, shown, r->outlook->floor - 1);
    uint32_t always = search(r, rule, times, recent, WEIR_TIME_ALWAYS);
    add_way(m, found->way, found->start - count, count + always, always > 0);
    count += always;
    add_way(m, found->way, found->start + recent - count, count + shown - recent, shown > recent);
    return count + shown - recent;
}

/* Remembers what a row leads to: parents that are visible, children that are shown. There are fewer than 2^32
 * rows, but a damaged store may list more. */
static inline memo remember(weir_batch__retriever *r, const walker *w, const found_way *found,
                            const found_way *end) {
    const weir_batch__table_rules *table = &r->rules->tables[w->table];
    memo m = memo_at(r, w->at), next = m;
    uint32_t count = 0;
    uint64_t all = 0;
    for (; found < end && found->way < table->parent_count; found++) {
        bool is_seen = is_visible(r, table->parents[found->way].parents, found->start);
        count += is_seen;
        add_way(&next, found->way, found->start, count, is_seen);
    }
    for (; found < end; found++) {
        const weir_batch__child_rule *rule = &table->inbound[found->way - table->parent_count];
        uint32_t shown = count_shown(r, rule, found);
        all += shown;
        if (__builtin_expect(r->outlook->floor != WEIR_TIME_ALWAYS && rule->edge->child_times && shown > 0,
                             0)) {
            count = add_pieces(r, rule, &next, found, shown, count);
            continue;
        }
        add_way(&next, found->way, found->start - count, count + shown, shown > 0);
        count += shown;
    }
    r->is_corrupt |= all + table->parent_count > UINT32_MAX;
    if (count == 0)
        m.ways[r->way_count - 1] = 0; /* it is looked at, and not gone */
    for (uint32_t *rest = next.ends; rest < m.ends + r->way_count; rest++)
        *rest = count;
    *m.key = w->key;
    return m;
}

/* ---- A step, in stages ------------------------------------------------------------------------- */

/* Picks a neighbour, and asks for the entry that says which row it is: of a list, or the walk's own for a
 * parent. What cannot be foreseen is no branch. */
static inline void pick_neighbour(weir_batch__retriever *r, walker *w, const memo *m, uint64_t random) {
    uint32_t count = m->ends[r->way_count - 1], i = 0;
    uint32_t picked = WEIR__LOW(uint32_t, pick(random, count));
    for (uint32_t k = 0; k + 1 < r->way_count; k++)
        i += picked >= m->ends[k];
    const way *chosen = &w->ways[m->ways[i]];
    const uint8_t *rows = chosen->child_rows;
    uint32_t base = m->bases[i];
    w->is_over = count == 0;
    w->way = chosen;
    w->place = base + picked;
    weir__store32(w->parent, base);
    w->entry = rows ? rows + 4 * (size_t)w->place : w->parent;
    weir_batch__fetch(w->entry);
}

/* Goes where the step leads. */
static inline void arrive(weir_batch__retriever *r, walker *w) {
    const weir_batch__table_rules *to = w->way->to;
    touch(r, w->way->rows_in, w->entry, 4);
    uint32_t row = weir__load32(w->entry);
    if (__builtin_expect(row - to->row_start >= to->row_count, 0)) {
        r->is_corrupt = true;
        w->is_over = true;
        return;
    }
    if (!to->records) { /* a task row: the next step leads back */
        w->is_at_task_row = true;
        if (row != r->outlook->own_row)
            count_visit(r, w->place);
        return;
    }
    w->may_be_example = to->number == r->example_table;
    stand_on(r, w, row, to->number, w->way->next);
}

/* ---- Walks ------------------------------------------------------------------------------------- */

/* In a cell task: whether the row that a walk has come to is an example. */
static void look_at_label(weir_batch__retriever *r, walker *w) {
    int64_t known;
    if (shows_cell(r, w->row, &known))
        count_visit(r, w->row - r->rules->tables[w->table].row_start);
    w->may_be_example = false;
}

/* One step of `count` walks: those on rows that are remembered pick a neighbour at once, the others when it
 * is found what their rows lead to. */
static void take_step(weir_batch__retriever *r, uint32_t count, const uint64_t *random) {
    uint32_t moving[ABREAST], moves = 0, new_rows[ABREAST], new_count = 0;
    found_way *ends[ABREAST];
    for (uint32_t i = 0; i < count; i++) {
        walker *w = &r->walkers[i];
        bool moves_on = !(w->is_over | w->is_at_task_row);
        w->is_at_task_row = false;
        if (w->may_be_example)
            look_at_label(r, w);
        if (!moves_on)
            continue;
        memo m = memo_at(r, w->at);
        moving[moves++] = i;
        if (*m.key == w->key) {
            pick_neighbour(r, w, &m, random[i]);
        } else {
            ask_for_row(r, w);
            new_rows[new_count++] = i;
        }
    }
    for (uint32_t k = 0; k < new_count; k++) {
        const walker *w = &r->walkers[new_rows[k]];
        const weir_batch__table_rules *table = &r->rules->tables[w->table];
        found_way *next = find_parents(r, table, w->row, r->found + (size_t)k * r->way_count);
        ends[k] = find_lists(r, table, w->row, next);
    }
    for (uint32_t k = 0; k < new_count; k++) {
        walker *w = &r->walkers[new_rows[k]];
        memo m = remember(r, w, r->found + (size_t)k * r->way_count, ends[k]);
        pick_neighbour(r, w, &m, random[new_rows[k]]);
    }
    for (uint32_t k = 0; k < moves; k++) {
        walker *w = &r->walkers[moving[k]];
        if (!w->is_over)
            arrive(r, w);
    }
}

/* Walks [first, first + count). */
static void walk_abreast(weir_batch__retriever *r, const weir_batch__budget *budget, uint32_t first,
                         uint32_t count) {
    const weir_batch__outlook *o = r->outlook;
    uint32_t anchors = r->rules->task->anchor_table;
    weir__draws draws[ABREAST / WEIR__DRAWS];
    uint64_t random[ABREAST];
    for (uint32_t i = 0; i < count; i++) {
        r->walkers[i] = (walker){.is_at_task_row = r->rules->has_task_rows};
        stand_on(r, &r->walkers[i], o->anchor_row, anchors, &r->ways[r->first_way[anchors]]);
    }
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
static int64_t time_of(weir_batch__retriever *r, uint32_t example) {
    int64_t known = WEIR_TIME_ALWAYS;
    if (!r->rules->has_task_rows) {
        (void)shows_cell(r, r->rules->tables[r->rules->label_table].row_start + example, &known);
        return known;
    }
    const uint8_t *time = r->rules->shown_labels.times + 8 * (size_t)example;
    touch(r, r->rules->labels_in, time, 8);
    return (int64_t)weir__load64(time);
}

static uint32_t row_of(weir_batch__retriever *r, uint32_t example) {
    if (!r->rules->has_task_rows)
        return r->rules->tables[r->rules->label_table].row_start + example;
    const uint8_t *row = r->rules->shown_labels.rows + 4 * (size_t)example;
    touch(r, r->rules->labels_in, row, 4);
    return weir__load32(row);
}

/* The best of the examples that were visited, in order; the counts are emptied for the next sequence. */
static uint32_t rank_examples(weir_batch__retriever *r, weir_batch__example *out) {
    ranked_example *heap = r->ranked;
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->used_count; i++) {
        uint32_t place = r->used[i], key = r->keys[place];
        ranked_example example = {.by_time = r->config->order == WEIR_EXAMPLES_LATEST
                                                 ? weir_batch__newest_first(time_of(r, key))
                                                 : 0,
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
        out[left - 1] = (weir_batch__example){row_of(r, WEIR__LOW(uint32_t, last.by_visits)),
                                              ~WEIR__LOW(uint32_t, last.by_visits >> 32)};
    }
    return count;
}

/* ---- Everything -------------------------------------------------------------------------------- */

weir_batch__budget weir_batch__budget_of(const weir_retrieval_config *config, const weir_batch__outlook *o) {
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
    return (weir_batch__budget){values[0], values[1], values[2], values[3]};
}

/* Whether all that walks read was verified already. */
static bool are_whole(const weir_batch__retriever *r) {
    static const weir_store__section_kind read[] = {
        WEIR_STORE__SECTION_ROWS,        WEIR_STORE__SECTION_CHILD_STARTS, WEIR_STORE__SECTION_CHILD_ROWS,
        WEIR_STORE__SECTION_CHILD_TIMES, WEIR_STORE__SECTION_SEED_BITS,    WEIR_STORE__SECTION_SEED_ROWS,
        WEIR_STORE__SECTION_LABELS};
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (!weir_store__is_whole(r->store, read[i]))
            return false;
    return true;
}

/* Readies the retriever for a sequence. */
static void look_out(weir_batch__retriever *r, const weir_batch__outlook *o) {
    const weir_batch__table_rules *anchors = &r->rules->tables[r->rules->task->anchor_table];
    r->outlook = o;
    r->limit = o->cutoff - (o->cutoff == WEIR_TIME_NEVER);
    r->is_corrupt = false;
    r->is_whole = are_whole(r);
    r->blank_anchor = NULL;
    int64_t appeared = WEIR_TIME_ALWAYS;
    if (anchors->time_offset != WEIR_NONE) {
        const uint8_t *time = weir_batch__record_of(anchors, o->anchor_row) + anchors->time_offset;
        touch(r, WEIR_STORE__SECTION_ROWS, time, 8);
        appeared = (int64_t)weir__load64(time);
    }
    if (appeared > o->anchor_cutoff && !r->rules->shows_early_anchors)
        r->blank_anchor = r->rules->blank_record;
    r->is_early = appeared > o->cutoff;
}

/* Forgets what rows lead to, unless the sequence that it was remembered for sees the same: the same times,
 * and no anchor before its own. */
static void forget_what_differs(weir_batch__retriever *r, const weir_batch__outlook *o) {
    bool is_same = r->keeps && !r->is_early && r->seen_cutoff == o->cutoff && r->seen_floor == o->floor;
    r->keeps = !r->is_early;
    r->seen_cutoff = o->cutoff;
    r->seen_floor = o->floor;
    r->serial += !is_same;
    if (r->serial == 0) { /* what was remembered long ago must not be taken for today's */
        memset(r->memos, 0, r->memo_count * r->memo_size);
        r->serial++;
    }
}

uint32_t weir_batch__retrieve(weir_batch__retriever *r, const weir_batch__outlook *o,
                              const weir_batch__budget *budget, weir_batch__example *out) {
    look_out(r, o);
    forget_what_differs(r, o);
    for (uint32_t first = 0; first < budget->walks && !r->is_corrupt; first += ABREAST) {
        uint32_t left = budget->walks - first;
        walk_abreast(r, budget, first, left < ABREAST ? left : ABREAST);
    }
    return rank_examples(r, out);
}

/* A seed of the splits that are shown, by its number among them; WEIR_NONE: there is none. */
static uint32_t shown_seed_row(weir_batch__retriever *r, uint64_t random) {
    const weir_batch__rules *rules = r->rules;
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
            touch(r, WEIR_STORE__SECTION_SEED_ROWS, row, 4);
            return weir__load32(row);
        }
        number -= size;
    }
    return WEIR_NONE;
}

uint32_t weir_batch__draw_example(weir_batch__retriever *r, const weir_batch__outlook *o, uint32_t number) {
    const weir_batch__rules *rules = r->rules;
    const weir_label_list *shown = &rules->shown_labels;
    weir__draws draws;
    int64_t known;
    look_out(r, o);
    r->philox(o->seed, DOMAIN_RETRIEVAL, o->position, FIRST_FILL + number / 2, &draws);
    uint64_t random = number % 2 == 0 ? draws.k0[0] : draws.k1[0];
    if (!rules->has_task_rows) {
        const weir_batch__table_rules *table = &rules->tables[rules->label_table];
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
