/* See retrieve.h. A walk is a chain of cache misses: what its row leads to, the row that is chosen. So many
 * walks go abreast, and each takes its step in stages: what a stage reads was asked for in the one before,
 * while the others were served. Draws are by (walk, step), so nothing depends on how many go abreast.
 *
 * A step by a row's links (neighbours.h) reads these alone, one from a row of many neighbours its memo and
 * the neighbour that it goes to. A task row leads to its anchor alone, which is where the walk came from:
 * such a step reads nothing.
 *
 * Nothing is allocated, and every loop is bounded by the budget. */
#include "batch/retrieve.h"

#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/narrow.h"
#include "batch/fetch.h"
#include "batch/neighbours.h"
#include "batch/team.h"

enum { ABREAST = WEIR_BATCH__WALKS_ABREAST };
#define DOMAIN_RETRIEVAL 0x72657472u
#define FIRST_FILL       ((uint32_t)1 << 31)
static_assert(ABREAST % WEIR__DRAWS == 0, "draws come by the sixteen");
static_assert(ABREAST <= UINT16_MAX, "a walker's number is of 16 bits");

/* Walkers by their numbers, and what they need in a step. */
typedef struct weir_batch__walkers_at {
    uint16_t moving[ABREAST];    /* take the next step, … */
    uint16_t staying[ABREAST];   /* … from rows whose links do not lead to a row, so that these have … */
    uint16_t few[ABREAST];       /* … memos of few neighbours … */
    uint16_t many[ABREAST];      /* … or of many; */
    uint16_t task_rows[ABREAST]; /* are at a task row, from which the next step leads back */
    uint32_t moving_count, staying_count, few_count, many_count, task_row_count;
    uint32_t visits[ABREAST]; /* places of task rows that were come to */
    uint32_t visit_count;
    uint32_t labels[ABREAST]; /* rows that were come to, by their place, whose labels are to be looked at */
    uint32_t label_count;
    const weir_batch__way *ways[ABREAST]; /* of many neighbours: the way that is gone, … */
    const uint8_t *entries[ABREAST];      /* … and what says to which row: of a list of children, or … */
    uint8_t parents[ABREAST][4];          /* … this parent */
    uint64_t random[ABREAST];
    weir__draws draws[ABREAST / WEIR__DRAWS];
} walkers_at;

typedef struct weir_batch__ranked_example {
    uint64_t by_time; /* the smaller comes first */
    uint64_t by_visits;
} ranked_example;

/* ---- Memory ------------------------------------------------------------------------------------ */

bool weir_batch__retrieves(const weir_batch__rules *rules, const weir_batch_config *config) {
    return config->has_retrieval && rules->label_table != WEIR_NONE && !rules->task->drops_target &&
           rules->label_visibility != WEIR_LABELS_NONE;
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
    const weir_batch__table_rules *labelled = &rules->tables[rules->label_table];
    uint64_t examples = rules->has_task_rows ? rules->labels.count : labelled->row_count;
    uint32_t bits = 4;
    examples = examples < steps ? examples : steps;
    while ((uint64_t)1 << bits < 2 * examples)
        bits++;
    *r = (weir_batch__retriever){
        .store = store,
        .rules = rules,
        .config = retrieval,
        .philox = weir__philox_many_best(),
        .most = config->max_rows,
        .rows = weir__carve(block, ABREAST, sizeof *r->rows),
        .row_memos = weir__carve(block, ABREAST, sizeof *r->row_memos),
        .at = weir__carve(block, 1, sizeof *r->at),
        .keys = weir__carve(block, (uint64_t)1 << bits, sizeof *r->keys),
        .visits = weir__carve(block, (uint64_t)1 << bits, sizeof *r->visits),
        .used = weir__carve(block, examples + 1, sizeof *r->used),
        .ranked = weir__carve(block, config->max_rows, sizeof *r->ranked),
        .shift = 32 - bits,
        .first_task_row = rules->has_task_rows ? rules->info->row_count : UINT64_MAX,
        .example_start = labelled->row_start,
        .example_count = rules->has_task_rows ? 0 : labelled->row_count,
    };
    weir_batch__neighbours_carve(r, block, config);
    if (block->memory)
        memset(r->keys, 0xFF, sizeof *r->keys << bits);
}

/* ---- What the store says ----------------------------------------------------------------------- */

/* Whether what has this time is not too old. */
static inline bool is_recent(const weir_batch__retriever *r, int64_t time) {
    return time >= r->outlook->floor || time == WEIR_TIME_ALWAYS;
}

/* The label of a row of the anchor table, by its place, in a cell task: when it is known, if the row shows
 * it.
 */
static bool shows_cell(weir_batch__retriever *r, uint32_t row, int64_t *known) {
    const weir_batch__rules *rules = r->rules;
    const weir_batch__table_rules *table = &rules->tables[rules->label_table];
    const weir_column *column = &rules->info->columns[rules->task->column];
    if (weir_batch__is_anchor(r, table, row) || !weir_batch__is_visible(r, table, row))
        return false;
    if (rules->label_visibility != WEIR_LABELS_ALL) {
        weir_batch__touch(r, rules->held_out_in, rules->held_out + row / 8, 1);
        if (weir__bit(rules->held_out, row))
            return false;
    }
    const uint8_t *record = weir_batch__record_of(table, row);
    weir_batch__touch(r, WEIR_STORE__SECTION_ROWS, record, table->stride);
    const uint8_t *bits = record + rules->info->tables[rules->label_table].bits_offset;
    int64_t time = table->time_offset == WEIR_NONE ? WEIR_TIME_ALWAYS
                                                   : (int64_t)weir__load64(record + table->time_offset);
    int64_t at = column->known_slot == WEIR_NONE ? time : (int64_t)weir__load64(record + column->known_slot);
    *known = at > time ? at : time;
    return !weir__bit(bits, column->null_bit) &&
           weir_batch__is_known(record, column->known_slot, r->outlook->cutoff) && is_recent(r, *known);
}

/* ---- Visits ------------------------------------------------------------------------------------ */

/* More visits to an example, by its place. */
static inline void count_visits_to(weir_batch__retriever *r, uint32_t example, uint32_t count) {
    uint32_t mask = UINT32_MAX >> r->shift, place = (example * 0x9E3779B1u) >> r->shift;
    while (r->keys[place] != example && r->keys[place] != WEIR_NONE)
        place = (place + 1) & mask;
    if (r->keys[place] == WEIR_NONE) {
        r->keys[place] = example;
        r->visits[place] = 0;
        r->used[r->used_count++] = place;
    }
    r->visits[place] += count;
}

/* One of `count`. */
static uint64_t pick(uint64_t random, uint64_t count) {
    return WEIR__LOW(uint64_t, (unsigned __int128)random * count >> 64);
}

/* ---- Walks ------------------------------------------------------------------------------------- */

/* Puts a walk on a row, and asks for what is remembered of it. */
static inline void stand_on(const weir_batch__retriever *r, uint16_t number, uint64_t row) {
    r->rows[number] = row;
    if (__builtin_expect(r->links != NULL, 1))
        weir_batch__fetch(&r->links[row]);
    else
        weir_batch__fetch(weir_batch__memo_of(r, row));
}

/* Steps by links. Who is not led to a row by them stays. What cannot be foreseen is not a branch. */
static void step_by_links(weir_batch__retriever *r) {
    walkers_at *at = r->at;
    const weir_batch__links *links = r->links;
    const uint64_t least = r->least_head;
    const uint64_t first_task_row = r->first_task_row;
    const uint32_t count = at->moving_count;
    uint32_t moved = 0, staying = 0;
    for (uint32_t k = 0; k < count; k++) {
        uint16_t number = at->moving[k];
        uint64_t row = r->rows[number];
        uint64_t head = weir_batch__head_at(&links[row]);
        uint64_t picked = pick(at->random[number], weir_batch__link_count(head));
        uint64_t next = weir_batch__link_at(&links[row], picked);
        uint32_t goes = WEIR__LOW(uint32_t, head >= least) & WEIR__LOW(uint32_t, next < first_task_row);
        at->staying[staying] = at->moving[moved] = number;
        staying += 1 - goes;
        moved += goes;
        next = row ^ ((row ^ next) & (0 - (uint64_t)goes));
        r->rows[number] = next;
        weir_batch__fetch(&links[next]);
    }
    at->moving_count = moved;
    at->staying_count = staying;
    for (uint32_t k = 0; k < moved && r->example_count > 0; k++) {
        uint64_t example = r->rows[at->moving[k]] - r->example_start;
        at->labels[at->label_count] = WEIR__LOW(uint32_t, example);
        at->label_count += example < r->example_count;
    }
}

/* Lets those go to a task row who are led to one by links. The others need memos, which are asked for: also
 * who stands on a row whose links another thread has just written. */
static void step_to_task_rows(weir_batch__retriever *r) {
    walkers_at *at = r->at;
    uint32_t staying = 0;
    for (uint32_t k = 0; k < at->staying_count; k++) {
        uint16_t number = at->staying[k];
        const weir_batch__links *links = &r->links[r->rows[number]];
        uint64_t head = weir_batch__head_at(links);
        uint64_t next = weir_batch__link_at(links, pick(at->random[number], weir_batch__link_count(head)));
        if (__builtin_expect(head >= r->least_head && next >= r->first_task_row, 0)) {
            at->task_rows[at->task_row_count++] = number;
            at->visits[at->visit_count++] = WEIR__LOW(uint32_t, next - r->first_task_row);
            continue;
        }
        at->staying[staying++] = number;
        weir_batch__fetch(weir_batch__memo_of(r, r->rows[number]));
        weir_batch__fetch(&r->spans[weir_batch__place_of_memo(r, r->rows[number])]);
    }
    at->staying_count = staying;
}

/* Whether a row's memo, of a sequence with another cut-off, is right for this one. */
static inline bool is_right(const weir_batch__retriever *r, uint64_t key, uint64_t row) {
    const weir_batch__span *span = &r->spans[weir_batch__place_of_memo(r, row)];
    return r->has_spans && weir_batch__row_of_key(key) == row && span->from <= r->outlook->cutoff &&
           r->outlook->cutoff < span->until;
}

/* Finds out what the rows lead to that are not remembered. The key of a memo is written at once, so that
 * walks that meet at a new row find out once. */
static void remember_rows(weir_batch__retriever *r) {
    const walkers_at *at = r->at;
    uint16_t new_rows[ABREAST];
    uint32_t count = 0;
    for (uint32_t k = 0; k < at->staying_count; k++) {
        uint16_t number = at->staying[k];
        weir_batch__memo *memo = weir_batch__memo_of(r, r->rows[number]);
        uint64_t wanted = weir_batch__key_of(r, r->rows[number]);
        r->row_memos[number] = memo;
        if (__builtin_expect(memo->key != wanted, 0)) {
            new_rows[count] = number;
            count += !is_right(r, memo->key, r->rows[number]);
            memo->key = wanted;
        }
    }
    if (count > 0)
        weir_batch__remember(r, new_rows, count);
}

/* Tells rows of few neighbours from those of many. What leads nowhere ends a walk. */
static void tell_apart(weir_batch__retriever *r) {
    walkers_at *at = r->at;
    at->few_count = at->many_count = 0;
    for (uint32_t k = 0; k < at->staying_count; k++) {
        uint16_t number = at->staying[k];
        weir_batch__memo **memo = &r->row_memos[number];
        if (__builtin_expect((*memo)->key != weir_batch__key_of(r, r->rows[number]), 0)) {
            *memo = (void *)(r->spare_memos + number * r->memo_size); /* another row took its place */
            weir_batch__remember(r, &number, 1);
        }
        uint32_t count = (*memo)->count;
        at->few[at->few_count] = at->many[at->many_count] = number;
        at->few_count += count - 1 < r->few;
        at->many_count += count > r->few;
    }
}

/* Goes to a row, or stays if it is a task row, from which the next step leads back. */
static inline void arrive(weir_batch__retriever *r, uint16_t number, uint64_t row) {
    walkers_at *at = r->at;
    bool is_task_row = row >= r->first_task_row;
    at->task_rows[at->task_row_count] = at->moving[at->moving_count] = number;
    at->visits[at->visit_count] = WEIR__LOW(uint32_t, row - r->first_task_row);
    at->labels[at->label_count] = WEIR__LOW(uint32_t, row - r->example_start);
    at->moving_count += !is_task_row;
    at->task_row_count += is_task_row;
    at->visit_count += is_task_row;
    at->label_count += row - r->example_start < r->example_count;
    stand_on(r, number, is_task_row ? r->rows[number] : row);
}

/* Steps from rows of few neighbours, which are at hand. */
static void step_to_few(weir_batch__retriever *r) {
    const walkers_at *at = r->at;
    for (uint32_t k = 0, count = at->few_count; k < count; k++) {
        weir_batch__memo *memo = r->row_memos[at->few[k]];
        uint64_t picked = pick(at->random[at->few[k]], memo->count);
        arrive(r, at->few[k], memo->words[picked]);
    }
}

/* Picks one of many neighbours for each walk, and asks for the entry that says which row it is. */
static inline __attribute__((always_inline)) void pick_of_many(weir_batch__retriever *r,
                                                               const uint32_t ways) {
    walkers_at *at = r->at;
    for (uint32_t k = 0, count = at->many_count; k < count; k++) {
        weir_batch__memo *memo = r->row_memos[at->many[k]];
        const uint32_t *ends = weir_batch__memo_ends(memo);
        uint32_t i = 0, picked = WEIR__LOW(uint32_t, pick(at->random[at->many[k]], memo->count));
        for (uint32_t e = 0; e + 1 < ways; e++)
            i += picked >= ends[e];
        uint32_t base = weir_batch__memo_bases(memo, ways)[i];
        const weir_batch__way *way = &r->ways[memo->words[0] + weir_batch__memo_ways(memo, ways)[i]];
        weir__store32(at->parents[k], base);
        at->ways[k] = way;
        uint32_t place = base + picked; /* may be below the base: the sum is modulo 2^32 */
        at->entries[k] = way->child_rows ? way->child_rows + 4 * (size_t)place : at->parents[k];
        weir_batch__fetch(at->entries[k]);
    }
}

/* Goes where the steps from rows of many neighbours lead. */
static void step_to_many(weir_batch__retriever *r) {
    const walkers_at *at = r->at;
    for (uint32_t k = 0, count = at->many_count; k < count; k++) {
        const weir_batch__way *way = at->ways[k];
        weir_batch__touch(r, way->rows_in, at->entries[k], 4);
        uint64_t row = weir__load32(at->entries[k]) - way->first_number;
        if (__builtin_expect(row >= way->row_count, 0)) {
            r->is_corrupt = true;
            return;
        }
        if (way->to_task_rows)
            row = WEIR__LOW(uint64_t, at->entries[k] - way->child_rows) / 4;
        arrive(r, at->many[k], way->row_start + row);
    }
}

static void take_step(weir_batch__retriever *r) {
    walkers_at *at = r->at;
    uint16_t came_back[ABREAST];
    uint32_t count = at->task_row_count; /* that are led back in this step */
    int64_t known;
    memcpy(came_back, at->task_rows, count * sizeof *came_back);
    at->task_row_count = 0;
    if (r->links) {
        step_by_links(r);
        step_to_task_rows(r);
    } else { /* all stay for their memos */
        memcpy(at->staying, at->moving, at->moving_count * sizeof *at->moving);
        at->staying_count = at->moving_count;
        at->moving_count = 0;
    }
    remember_rows(r);
    tell_apart(r);
    if (r->memo_size == WEIR_BATCH__LINE)
        pick_of_many(r, WEIR_BATCH__WAYS_OF_A_LINE);
    else
        pick_of_many(r, r->memo_ways);
    step_to_few(r);
    step_to_many(r);
    memcpy(at->moving + at->moving_count, came_back, count * sizeof *came_back);
    at->moving_count += count;
    /* The examples that were come to: task rows, in a cell task rows that show their labels. */
    for (uint32_t k = 0; k < at->visit_count; k++)
        count_visits_to(r, at->visits[k], 1);
    for (uint32_t k = 0; k < at->label_count; k++)
        if (shows_cell(r, at->labels[k], &known))
            count_visits_to(r, at->labels[k], 1);
    at->visit_count = at->label_count = 0;
}

void weir_batch__take_walks(weir_batch__retriever *r, const weir_batch__budget *budget, uint32_t first) {
    uint32_t left = budget->walks - first, count = left < ABREAST ? left : ABREAST;
    const weir_batch__outlook *o = r->outlook;
    uint32_t begin = r->rules->has_task_rows; /* the first step leads from a task row to the anchor */
    walkers_at *at = r->at;
    at->moving_count = count;
    at->task_row_count = at->visit_count = at->label_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        at->moving[i] = WEIR__LOW(uint16_t, i);
        stand_on(r, at->moving[i], r->rules->tables[o->anchor_table].row_start + o->anchor_row);
    }
    for (uint32_t step = begin; step < budget->length && !r->is_corrupt; step++) {
        uint32_t block = step / 2 * budget->walks + first;
        if (at->moving_count + at->task_row_count == 0)
            break;
        for (uint32_t i = 0; i < count && (step % 2 == 0 || step == begin); i += WEIR__DRAWS)
            r->philox(o->seed, DOMAIN_RETRIEVAL, o->position, block + i, &at->draws[i / WEIR__DRAWS]);
        for (uint32_t i = 0; i * WEIR__DRAWS < count; i++)
            memcpy(at->random + (size_t)i * WEIR__DRAWS, step % 2 == 0 ? at->draws[i].k0 : at->draws[i].k1,
                   sizeof at->draws[i].k0);
        take_step(r);
    }
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

/* When an example's label is known. */
static int64_t time_of(weir_batch__retriever *r, uint32_t example) {
    int64_t known = WEIR_TIME_ALWAYS;
    if (!r->rules->has_task_rows) {
        (void)shows_cell(r, example, &known);
        return known;
    }
    const uint8_t *time = r->rules->labels.times + 8 * (size_t)example;
    weir_batch__touch(r, r->rules->labels.times_in, time, 8);
    return (int64_t)weir__load64(time);
}

/* Its place in the table of labels. */
static uint32_t row_of(weir_batch__retriever *r, uint32_t example) {
    if (!r->rules->has_task_rows)
        return example;
    const uint8_t *row = r->rules->labels.rows + 4 * (size_t)example;
    weir_batch__touch(r, r->rules->labels.rows_in, row, 4);
    return weir__load32(row) - r->rules->info->first_task_number;
}

/* The best of the examples that were visited, in order; the counts are emptied for the next sequence. None of
 * a corrupt store: its walks may have come to what is not there. */
static uint32_t rank_examples(weir_batch__retriever *r, weir_batch__example *out) {
    ranked_example *heap = r->ranked;
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->used_count; i++) {
        uint32_t place = r->used[i], key = r->keys[place];
        if (r->is_corrupt || (r->rules->has_task_rows && row_of(r, key) == r->outlook->own_row)) {
            r->keys[place] = WEIR_NONE;
            continue;
        }
        ranked_example example = {.by_time = r->config->order == WEIR_EXAMPLES_LATEST
                                                 ? weir_batch__newest_first(time_of(r, key))
                                                 : 0,
                                  .by_visits = (uint64_t)~r->visits[place] << 32 | key};
        r->keys[place] = WEIR_NONE;
        if (count < r->most) {
            uint32_t at = count++;
            for (; at > 0 && comes_before(&heap[(at - 1) / 2], &example); at = (at - 1) / 2)
                heap[at] = heap[(at - 1) / 2];
            heap[at] = example;
        } else if (comes_before(&example, &heap[0]))
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

/* Readies the retriever for a sequence. */
static void look_out(weir_batch__retriever *r, const weir_batch__outlook *o) {
    static const weir_store__section_kind read[] = {
        WEIR_STORE__SECTION_ROWS,        WEIR_STORE__SECTION_CHILD_STARTS, WEIR_STORE__SECTION_CHILD_ROWS,
        WEIR_STORE__SECTION_CHILD_TIMES, WEIR_STORE__SECTION_SEED_BITS,    WEIR_STORE__SECTION_SEED_ROWS,
        WEIR_STORE__SECTION_LABELS};
    const weir_batch__table_rules *anchors = &r->rules->tables[r->rules->task->anchor_table];
    r->outlook = o;
    r->limit = o->cutoff - (o->cutoff == WEIR_TIME_NEVER);
    r->is_corrupt = false;
    r->is_whole = true;
    for (size_t i = 0; i < sizeof read / sizeof *read && r->is_whole; i++)
        r->is_whole = weir_store__is_whole(r->store, read[i]);
    r->blank_anchor = NULL;
    int64_t appeared = WEIR_TIME_ALWAYS;
    if (anchors->time_offset != WEIR_NONE) {
        const uint8_t *time = weir_batch__record_of(anchors, o->anchor_row) + anchors->time_offset;
        weir_batch__touch(r, WEIR_STORE__SECTION_ROWS, time, 8);
        appeared = (int64_t)weir__load64(time);
    }
    if (appeared > o->anchor_cutoff && !r->rules->shows_early_anchors)
        r->blank_anchor = r->rules->blank_record;
    r->is_early = appeared > o->cutoff;
    r->has_spans = !r->is_early && o->floor == WEIR_TIME_ALWAYS;
    r->least_head = weir_batch__least_head(o->cutoff);
}

/* What rows lead to is forgotten, but for what spans tell, unless the sequence that it was remembered for
 * sees the same: the same times, and no anchor before its own. */
void weir_batch__begin_walks(weir_batch__retriever *r, const weir_batch__outlook *o) {
    look_out(r, o);
    bool is_same = r->keeps && !r->is_early && r->seen_cutoff == o->cutoff && r->seen_floor == o->floor;
    r->keeps = !r->is_early;
    r->seen_cutoff = o->cutoff;
    r->seen_floor = o->floor;
    r->serial += !is_same;
    if (r->serial == 0) { /* what was remembered long ago must not be taken for today's */
        memset(r->memos, 0, r->memo_size << r->memo_bits);
        memset(r->spans, 0, sizeof *r->spans << r->memo_bits);
        r->serial++;
    }
}

void weir_batch__bring_visits(weir_batch__retriever *to, weir_batch__retriever *from) {
    for (uint32_t i = 0; i < from->used_count; i++) {
        uint32_t place = from->used[i];
        if (!from->is_corrupt)
            count_visits_to(to, from->keys[place], from->visits[place]);
        from->keys[place] = WEIR_NONE;
    }
    from->used_count = 0;
    to->is_corrupt |= from->is_corrupt;
    from->keeps &= !from->is_corrupt;
}

uint32_t weir_batch__retrieve(weir_batch__retriever *r, const weir_batch__outlook *o,
                              const weir_batch__budget *budget, weir_batch__example *out) {
    weir_batch__begin_walks(r, o);
    if (r->team && budget->walks > ABREAST)
        weir_batch__walk_together(r->team, o, budget);
    else
        for (uint32_t first = 0; first < budget->walks; first += ABREAST)
            weir_batch__take_walks(r, budget, first);
    r->keeps &= !r->is_corrupt; /* keys were written, and what they stand for may not have been */
    return rank_examples(r, out);
}

/* The anchor of a seed of the splits that are shown, by the seed's number among them; WEIR_NONE: there is
 * none.
 */
static uint32_t shown_seed_row(weir_batch__retriever *r, uint64_t random) {
    const weir_batch__rules *rules = r->rules;
    const weir_task *task = rules->task;
    uint64_t count = 0;
    for (uint32_t split = 0; split < WEIR_SPLITS; split++)
        if (rules->label_splits >> split & 1)
            count += task->split_start[split + 1] - task->split_start[split];
    if (count == 0)
        return WEIR_NONE;
    uint64_t number = pick(random, count);
    for (uint32_t split = 0; split < WEIR_SPLITS; split++) {
        uint64_t size = task->split_start[split + 1] - task->split_start[split];
        if (!(rules->label_splits >> split & 1))
            continue;
        if (number < size) {
            const uint8_t *row = task->seed_rows + 4 * (task->split_start[split] + number);
            weir_batch__touch(r, WEIR_STORE__SECTION_SEED_ROWS, row, 4);
            return weir__load32(row) - rules->tables[task->anchor_table].first_number;
        }
        number -= size;
    }
    return WEIR_NONE;
}

uint32_t weir_batch__draw_example(weir_batch__retriever *r, const weir_batch__outlook *o, uint32_t number) {
    const weir_batch__rules *rules = r->rules;
    const weir_batch__list *shown = &rules->labels;
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
        r->is_corrupt |= row >= table->row_count;
        return !r->is_corrupt && shows_cell(r, row, &known) ? row : WEIR_NONE;
    }
    if (shown->count == 0)
        return WEIR_NONE;
    uint32_t entry = WEIR__LOW(uint32_t, pick(random, shown->count));
    uint32_t row = row_of(r, entry);
    r->is_corrupt |= row >= rules->task->seed_count;
    int64_t time = time_of(r, entry);
    return !r->is_corrupt && row != o->own_row && time <= r->limit && is_recent(r, time) ? row : WEIR_NONE;
}
