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
#include "store/reader.h"

enum { ABREAST = 64, SHORT_LIST = 16, REMEMBERED_BITS = 12, REMEMBERED = 1 << REMEMBERED_BITS };
#define DOMAIN_RETRIEVAL 0x72657472u
#define FIRST_FILL       ((uint32_t)1 << 31)
static_assert(ABREAST % WEIR__DRAWS == 0, "draws come by the sixteen");

typedef struct weir__walker {
    uint32_t row;
    uint32_t table;
    bool is_over;
    bool is_at_task_row; /* of `row`, to which the next step leads back */
    bool may_be_example; /* it came to a row whose label is looked at next */
    uint32_t parent_count;
    uint32_t run_count;
    const weir__child_rule *rule; /* the child that it goes to: where it is listed, … */
    uint32_t entry;               /* … and its place there */
} walker;

/* Children along an edge type. */
typedef struct weir__run {
    uint32_t start;
    uint32_t count;
} run;

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
    *r = (weir__retriever){
        .store = store,
        .rules = rules,
        .config = retrieval,
        .philox = weir__philox_many_best(),
        .most = config->max_rows,
        .walkers = weir__carve(block, ABREAST, sizeof *r->walkers),
        .runs = weir__carve(block, (uint64_t)ABREAST * (rules->most_inbound + 1), sizeof *r->runs),
        .parents = weir__carve(block, (uint64_t)ABREAST * (rules->most_parents + 1), sizeof *r->parents),
        .keys = weir__carve(block, (uint64_t)1 << bits, sizeof *r->keys),
        .visits = weir__carve(block, (uint64_t)1 << bits, sizeof *r->visits),
        .used = weir__carve(block, examples + 1, sizeof *r->used),
        .ranked = weir__carve(block, config->max_rows, sizeof *r->ranked),
        .counted = weir__carve(block, REMEMBERED, sizeof *r->counted),
        .counts = weir__carve(block, REMEMBERED, sizeof *r->counts),
        .shift = 32 - bits,
    };
    if (block->memory)
        memset(r->keys, 0xFF, sizeof *r->keys << bits);
}

/* ---- What the store says ----------------------------------------------------------------------- */

static inline void touch(weir__retriever *r, weir__lies_in kind, const uint8_t *at, size_t size) {
    if (kind)
        r->is_corrupt |= !weir__store_touch(r->store, (weir__section_kind)kind, at, size);
}

static const uint8_t *record_of(const weir__table_rules *table, uint32_t row) {
    return table->records + (size_t)(row - table->row_start) * table->stride;
}

static bool is_known(const uint8_t *record, uint32_t known_slot, int64_t cutoff) {
    if (known_slot == WEIR_NONE)
        return true;
    int64_t known = (int64_t)weir__load64(record + known_slot);
    return known != WEIR_TIME_ALWAYS && known <= cutoff;
}

static bool is_visible(weir__retriever *r, const weir__table_rules *table, uint32_t row) {
    if (table->time_offset == WEIR_NONE || row == r->outlook->anchor_row)
        return true;
    const uint8_t *time = record_of(table, row) + table->time_offset;
    touch(r, WEIR__SECTION_ROWS, time, 8);
    return (int64_t)weir__load64(time) <= r->outlook->cutoff;
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
    const uint8_t *record = record_of(table, row);
    touch(r, WEIR__SECTION_ROWS, record, table->stride);
    const uint8_t *bits = record + rules->info->tables[rules->label_table].bits_offset;
    int64_t time = table->time_offset == WEIR_NONE ? WEIR_TIME_ALWAYS
                                                   : (int64_t)weir__load64(record + table->time_offset);
    int64_t at = column->known_slot == WEIR_NONE ? time : (int64_t)weir__load64(record + column->known_slot);
    *known = at > time ? at : time;
    return !weir__bit(bits, column->null_bit) && is_known(record, column->known_slot, r->outlook->cutoff);
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

/* ---- A step, in stages ------------------------------------------------------------------------- */

/* Asks for what is read of a row that a walk has come to. */
static void fetch_row(const weir__table_rules *table, uint32_t row) {
    uint32_t index = row - table->row_start;
    const uint8_t *record = table->records + (size_t)index * table->stride;
    weir__fetch(record);
    weir__fetch(record + table->stride - 1);
    for (uint32_t i = 0; i < table->inbound_count; i++)
        weir__fetch(table->inbound[i].edge->starts + 4 * (size_t)index);
}

/* The known foreign keys of a row; whether they lead to visible rows is seen when those are near. */
static void find_parents(weir__retriever *r, walker *w, const weir__table_rules *table, uint32_t *parents) {
    const uint8_t *record = record_of(table, w->row);
    w->parent_count = 0;
    if (table->parent_count == 0)
        return;
    if (w->row == r->outlook->anchor_row && r->blank_anchor)
        record = r->blank_anchor;
    else
        touch(r, WEIR__SECTION_ROWS, record, table->stride);
    for (uint32_t i = 0; i < table->parent_count; i++) {
        const weir__parent_rule *rule = &table->parents[i];
        uint32_t parent = weir__load32(record + rule->slot);
        bool is_shown = parent != WEIR_NONE && is_known(record, rule->known_slot, r->outlook->cutoff);
        parents[i] = is_shown ? parent : WEIR_NONE;
        if (!is_shown)
            continue;
        if (parent - rule->parents->row_start >= rule->parents->row_count) {
            r->is_corrupt = true;
            parents[i] = WEIR_NONE;
        } else if (rule->parents->time_offset != WEIR_NONE)
            weir__fetch(record_of(rule->parents, parent) + rule->parents->time_offset);
    }
    w->parent_count = table->parent_count;
}

static uint32_t remembered_place(const uint8_t *starts) {
    return WEIR__LOW(uint32_t, ((uintptr_t)starts / 4 * 0x9E3779B97F4A7C15u) >> (64 - REMEMBERED_BITS));
}

static uint64_t remembered_as(const weir__retriever *r, const uint8_t *starts) {
    return r->serial << 48 ^ (uintptr_t)starts;
}

/* Where the lists of a row's children are. */
static void find_lists(weir__retriever *r, const walker *w, const weir__table_rules *table, run *runs) {
    uint32_t index = w->row - table->row_start;
    for (uint32_t i = 0; i < table->inbound_count; i++) {
        const weir__child_rule *rule = &table->inbound[i];
        const uint8_t *at = rule->edge->starts + 4 * (size_t)index;
        touch(r, rule->starts_in, at, 8);
        uint32_t start = weir__load32(at), end = weir__load32(at + 4);
        bool is_sound = start <= end && end <= rule->edge->edges;
        runs[i] = (run){is_sound ? start : 0, is_sound ? end - start : 0};
        if (runs[i].count == 0 || !rule->edge->child_times)
            continue;
        const uint8_t *times = rule->edge->child_times + 8 * (size_t)start;
        if (runs[i].count <= SHORT_LIST) {
            weir__fetch(times);
            weir__fetch(times + 8 * (size_t)runs[i].count - 8);
        } else {
            weir__fetch(times + 8 * (size_t)(runs[i].count / 2));
        }
    }
}

/* How many of a list's ascending times are shown. */
static uint32_t search(weir__retriever *r, const weir__child_rule *rule, const run *list) {
    const uint8_t *times = rule->edge->child_times + 8 * (size_t)list->start;
    uint32_t low = 0, high = list->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        touch(r, rule->times_in, times + 8 * (size_t)middle, 8);
        bool is_shown = (int64_t)weir__load64(times + 8 * (size_t)middle) <= r->limit;
        low = is_shown ? middle + 1 : low;
        high = is_shown ? high : middle;
    }
    return low;
}

static uint32_t count_shown(weir__retriever *r, const weir__child_rule *rule, const run *list,
                            uint32_t index) {
    const uint8_t *times = rule->edge->child_times;
    if (!times || list->count == 0)
        return list->count;
    if (list->count <= SHORT_LIST) {
        uint32_t shown = 0;
        times += 8 * (size_t)list->start;
        touch(r, rule->times_in, times, 8 * (size_t)list->count);
        for (uint32_t i = 0; i < list->count; i++)
            shown += (int64_t)weir__load64(times + 8 * (size_t)i) <= r->limit;
        return shown;
    }
    const uint8_t *starts = rule->edge->starts + 4 * (size_t)index;
    uint32_t place = remembered_place(starts);
    if (r->counted[place] != remembered_as(r, starts)) {
        r->counted[place] = remembered_as(r, starts);
        r->counts[place] = search(r, rule, list);
    }
    return r->counts[place];
}

/* Counts the neighbours of a row, and picks one; asks for it if it is a child. */
static void pick_neighbour(weir__retriever *r, walker *w, uint32_t *parents, run *runs, uint64_t random) {
    const weir__table_rules *table = &r->rules->tables[w->table];
    uint32_t index = w->row - table->row_start;
    uint32_t seen = 0;
    for (uint32_t i = 0; i < w->parent_count; i++) {
        bool is_seen = parents[i] != WEIR_NONE && is_visible(r, table->parents[i].parents, parents[i]);
        parents[i] = is_seen ? parents[i] : WEIR_NONE;
        seen += is_seen;
    }
    uint64_t count = seen;
    for (uint32_t i = 0; i < table->inbound_count; i++) {
        runs[i].count = count_shown(r, &table->inbound[i], &runs[i], index);
        count += runs[i].count;
    }
    w->is_over = count == 0;
    uint64_t picked = WEIR__LOW(uint64_t, (unsigned __int128)random * count >> 64);
    w->rule = NULL;
    if (picked < seen) {
        uint32_t i = 0;
        for (;; i++)
            if (parents[i] != WEIR_NONE && picked-- == 0)
                break;
        w->row = parents[i];
        w->table = table->parents[i].parents->number;
        return;
    }
    picked -= seen;
    for (uint32_t i = 0; i < table->inbound_count; i++) {
        if (picked < runs[i].count) {
            w->rule = &table->inbound[i];
            w->entry = runs[i].start + WEIR__LOW(uint32_t, picked);
            weir__fetch(w->rule->edge->child_rows + 4 * (size_t)w->entry);
            return;
        }
        picked -= runs[i].count;
    }
}

/* Goes where the step leads. */
static void arrive(weir__retriever *r, walker *w) {
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
    fetch_row(&rules->tables[w->table], w->row);
}

/* ---- Walks ------------------------------------------------------------------------------------- */

/* In a cell task: whether the row that a walk has come to is an example. */
static void look_at_label(weir__retriever *r, walker *w) {
    int64_t known;
    if (w->may_be_example && shows_cell(r, w->row, &known))
        count_visit(r, w->row - r->rules->tables[w->table].row_start);
    w->may_be_example = false;
}

/* One step of `count` walks. */
static void take_step(weir__retriever *r, uint32_t count, const uint64_t *random) {
    const weir__rules *rules = r->rules;
    uint32_t moving[ABREAST], moves = 0;
    for (uint32_t i = 0; i < count; i++) {
        walker *w = &r->walkers[i];
        moving[moves] = i;
        moves += !w->is_over & !w->is_at_task_row;
        w->is_at_task_row = false;
        look_at_label(r, w);
    }
    for (uint32_t k = 0; k < moves; k++) {
        walker *w = &r->walkers[moving[k]];
        const weir__table_rules *table = &rules->tables[w->table];
        find_parents(r, w, table, r->parents + (size_t)moving[k] * (rules->most_parents + 1));
        find_lists(r, w, table, r->runs + (size_t)moving[k] * (rules->most_inbound + 1));
    }
    for (uint32_t k = 0; k < moves; k++)
        pick_neighbour(r, &r->walkers[moving[k]], r->parents + (size_t)moving[k] * (rules->most_parents + 1),
                       r->runs + (size_t)moving[k] * (rules->most_inbound + 1), random[moving[k]]);
    for (uint32_t k = 0; k < moves; k++)
        if (!r->walkers[moving[k]].is_over)
            arrive(r, &r->walkers[moving[k]]);
}

/* Walks [first, first + count). */
static void walk_abreast(weir__retriever *r, const weir__budget *budget, uint32_t first, uint32_t count) {
    const weir__outlook *o = r->outlook;
    weir__draws draws[ABREAST / WEIR__DRAWS];
    uint64_t random[ABREAST];
    for (uint32_t i = 0; i < count; i++)
        r->walkers[i] = (walker){.row = o->anchor_row,
                                 .table = r->rules->task->anchor_table,
                                 .is_at_task_row = r->rules->has_task_rows};
    fetch_row(&r->rules->tables[r->rules->task->anchor_table], o->anchor_row);
    for (uint32_t step = 0; step < budget->length && !r->is_corrupt; step++) {
        uint32_t block = step / 2 * budget->walks + first;
        for (uint32_t i = 0; i < count && step % 2 == 0; i += WEIR__DRAWS)
            r->philox(o->seed, DOMAIN_RETRIEVAL, o->position, block + i, &draws[i / WEIR__DRAWS]);
        for (uint32_t i = 0; i < count; i++) {
            const weir__draws *of = &draws[i / WEIR__DRAWS];
            random[i] = step % 2 == 0 ? of->k0[i % WEIR__DRAWS] : of->k1[i % WEIR__DRAWS];
        }
        take_step(r, count, random);
    }
    for (uint32_t i = 0; i < count; i++)
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

static uint64_t newest_first(int64_t time) {
    return UINT64_MAX - ((uint64_t)time + ((uint64_t)1 << 63));
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
            .by_time = r->config->order == WEIR_EXAMPLES_LATEST ? newest_first(time_of(r, key)) : 0,
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

static uint64_t pick(uint64_t random, uint64_t count) {
    return WEIR__LOW(uint64_t, (unsigned __int128)random * count >> 64);
}

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

/* Readies the retriever for a sequence. */
static void look_out(weir__retriever *r, const weir__outlook *o) {
    const weir__table_rules *anchors = &r->rules->tables[r->rules->task->anchor_table];
    r->outlook = o;
    r->limit = o->cutoff - (o->cutoff == WEIR_TIME_NEVER);
    r->is_corrupt = false;
    r->blank_anchor = NULL;
    if (anchors->time_offset == WEIR_NONE || r->rules->shows_early_anchors)
        return;
    const uint8_t *time = record_of(anchors, o->anchor_row) + anchors->time_offset;
    touch(r, WEIR__SECTION_ROWS, time, 8);
    if ((int64_t)weir__load64(time) > o->anchor_cutoff)
        r->blank_anchor = r->rules->blank_record;
}

uint32_t weir__retrieve(weir__retriever *r, const weir__outlook *o, const weir__budget *budget,
                        weir__example *out) {
    look_out(r, o);
    if ((++r->serial & UINT16_MAX) == 0) { /* what is remembered carries 16 bits of it */
        memset(r->counted, 0, REMEMBERED * sizeof *r->counted);
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
    return !r->is_corrupt && row != o->own_row && time_of(r, entry) <= r->limit ? row : WEIR_NONE;
}
