/* See neighbours.h. A row that is new costs a dozen cache misses: its foreign keys, where its lists begin,
 * the times of its parents and in its lists. So rows are looked at together, in stages: what a stage reads
 * was asked for in the one before. Rows are sorted by table, and each stage goes way by way, so that what
 * depends on the table and the way alone is neither asked nor guessed for each row. */
#include "batch/neighbours.h"

#include <string.h>

#include "base/bits.h"
#include "base/bytes.h"
#include "base/narrow.h"
#include "batch/fetch.h"
#include "batch/times.h"

static const char operator_name[] = "weir.batch.build";

enum {
    ABREAST = WEIR_BATCH__WALKS_ABREAST,
    MEMO_BYTES = 1 << 24,
    MOST_ROWS_WITH_LINKS = 1 << 24, /* which are 512 MiB */
};

/* A row, and how many neighbours it has. */
typedef struct weir_batch__found_row {
    uint32_t row; /* its place in the … */
    uint32_t table;
    uint64_t count;
    weir_batch__span span; /* of the times that were seen */
    bool hides;            /* some of its neighbours are not shown */
} found_row;

/* New rows of one table. */
typedef struct run {
    const weir_batch__table_rules *table;
    const uint16_t *walkers;
    found_row *rows;
    weir_batch__shown *ways; /* of the first row; those of the others follow, `stride` for each */
    uint32_t stride;
    uint32_t count;
} run;

/* ---- Memory ------------------------------------------------------------------------------------ */

/* The ways out of each table: its foreign keys, then the edge types into it. */
static void list_ways(weir_batch__retriever *r) {
    weir_batch__way *next = r->ways;
    for (uint32_t i = 0; i < r->rules->table_count; i++) {
        const weir_batch__table_rules *table = &r->rules->tables[i];
        r->first_way[i] = WEIR__LOW(uint32_t, next - r->ways);
        for (uint32_t k = 0; k < table->parent_count + table->inbound_count; k++) {
            const weir_batch__child_rule *rule =
                k < table->parent_count ? NULL : &table->inbound[k - table->parent_count];
            const weir_batch__table_rules *to = rule ? rule->children : table->parents[k].parents;
            *next++ = (weir_batch__way){.child_rows = rule ? rule->list.rows : NULL,
                                        .row_start = to->row_start,
                                        .row_count = to->row_count,
                                        .first_number = to->first_number,
                                        .to_task_rows = !to->records,
                                        .rows_in = rule ? rule->list.rows_in : 0};
        }
    }
}

/* Neighbours follow from the task, from whose labels it shows and how it knows them, and from whether blank
 * rows are left out. */
weir_status weir_batch__share_links(weir_batch__retriever *r, const weir_batch_config *config,
                                    weir_error *error) {
    const weir_batch__rules *rules = r->rules;
    bool is_large = rules->info->row_count > MOST_ROWS_WITH_LINKS || weir_batch__has_many_rows(rules);
    if (is_large || r->store->reads_ahead || config->since_is != WEIR_SINCE_EVER) /* links may be too old */
        return WEIR_OK;
    uint64_t name = (uint64_t)rules->task_number << 32 | (uint64_t)rules->label_visibility << 16 |
                    (uint64_t)rules->label_splits << 2 | (uint64_t)rules->omits_blank_rows << 1 |
                    rules->has_task_rows;
    uint64_t size = (rules->info->row_count + 1) * sizeof *r->links; /* one more may be read */
    r->links = weir_store__share(r->store->commons, name, size);
    return r->links ? WEIR_OK : weir__out_of_memory(error, operator_name, (size_t)size);
}

static uint64_t memo_size(uint32_t ways) {
    return weir__align(offsetof(weir_batch__memo, words) +
                           (uint64_t)ways * (2 * sizeof(uint32_t) + sizeof(uint16_t)),
                       WEIR_BATCH__LINE);
}

void weir_batch__neighbours_carve(weir_batch__retriever *r, weir__block *block,
                                  const weir_batch_config *config) {
    const weir_batch__rules *rules = r->rules;
    uint32_t pieces = config->since_is == WEIR_SINCE_EVER ? 1 : 2; /* of a list */
    uint64_t all_ways = 0;
    r->way_count = r->memo_ways = 1;
    for (uint32_t i = 0; i < rules->table_count; i++) {
        const weir_batch__table_rules *table = &rules->tables[i];
        uint32_t ways = table->parent_count + table->inbound_count;
        uint32_t most = table->parent_count + table->inbound_count * pieces;
        r->way_count = ways > r->way_count ? ways : r->way_count;
        r->memo_ways = most > r->memo_ways ? most : r->memo_ways;
        all_ways += ways;
    }
    while (memo_size(r->memo_ways + 1) == memo_size(r->memo_ways))
        r->memo_ways++;
    r->memo_size = memo_size(r->memo_ways);
    if (!weir_batch__has_many_rows(rules))
        r->few =
            WEIR__NARROW(uint32_t, (r->memo_size - offsetof(weir_batch__memo, words)) / sizeof(uint32_t));
    r->memo_bits = 4;
    while (2 * r->memo_size << r->memo_bits <= MEMO_BYTES &&
           (uint64_t)1 << r->memo_bits < 2 * rules->row_count)
        r->memo_bits++;
    r->ways = weir__carve(block, all_ways + 1, sizeof *r->ways);
    r->first_way = weir__carve(block, rules->table_count, sizeof *r->first_way);
    r->by_table = weir__carve(block, (uint64_t)rules->table_count + 1, sizeof *r->by_table);
    r->found_rows = weir__carve(block, ABREAST, sizeof *r->found_rows);
    r->found = weir__carve(block, ABREAST, r->way_count * sizeof *r->found);
    r->searches = weir__carve(block, ABREAST, r->way_count * sizeof *r->searches);
    r->memos = weir__carve(block, (uint64_t)1 << r->memo_bits, r->memo_size);
    r->spans = weir__carve(block, (uint64_t)1 << r->memo_bits, sizeof *r->spans);
    r->spare_memos = weir__carve(block, ABREAST, r->memo_size);
    if (block->memory)
        list_ways(r);
}

/* ---- What the store says ----------------------------------------------------------------------- */

/* The table of a row: the last that begins at it or before. */
static inline uint32_t table_of(const weir_batch__rules *rules, uint64_t row) {
    const weir_batch__table_rules *first = rules->tables;
    for (uint32_t count = rules->table_count; count > 1;) {
        uint32_t half = count / 2;
        first = row >= first[half].row_start ? first + half : first;
        count -= half;
    }
    return first->number;
}

/* Sorts walkers by the tables of their rows. */
static void sort_by_table(weir_batch__retriever *r, uint16_t *walkers, uint32_t count) {
    uint16_t unsorted[ABREAST];
    uint32_t tables[ABREAST], *next = r->by_table;
    memset(next, 0, (r->rules->table_count + 1) * sizeof *next);
    for (uint32_t k = 0; k < count; k++) {
        tables[k] = table_of(r->rules, r->rows[walkers[k]]);
        unsorted[k] = walkers[k];
        next[tables[k] + 1]++;
    }
    for (uint32_t i = 0; i < r->rules->table_count; i++)
        next[i + 1] += next[i];
    for (uint32_t k = 0; k < count; k++) {
        uint32_t place = next[tables[k]]++;
        walkers[place] = unsorted[k];
        uint64_t row = r->rows[unsorted[k]] - r->rules->tables[tables[k]].row_start;
        r->found_rows[place] =
            (found_row){.row = WEIR__LOW(uint32_t, row), .table = tables[k], .span = {INT64_MIN, INT64_MAX}};
    }
}

/* Asks for the rows' foreign keys, which lie together, and for where their lists begin. */
static void ask(weir_batch__retriever *r, const run *n) {
    const weir_batch__table_rules *table = n->table;
    (void)r;
    if (table->parent_count > 0)
        for (uint32_t k = 0; k < n->count; k++)
            weir_batch__fetch(weir_batch__record_of(table, n->rows[k].row) + table->parents[0].slot);
    for (uint32_t i = 0; i < table->inbound_count; i++) {
        const uint8_t *starts = table->inbound[i].list.starts;
        for (uint32_t k = 0; k < n->count; k++)
            weir_batch__fetch(starts + 4 * (size_t)n->rows[k].row);
    }
}

/* A time from which on something is shown. */
static inline void see_time(const weir_batch__retriever *r, found_row *row, const uint8_t *at) {
    int64_t time = (int64_t)weir__load64(at);
    bool is_shown = time <= r->outlook->cutoff;
    row->span.from = is_shown && time > row->span.from ? time : row->span.from;
    row->span.until = !is_shown && time < row->span.until ? time : row->span.until;
}

/* The known foreign keys along one way; whether they lead to visible rows is seen when those are near. */
static void find_parents(weir_batch__retriever *r, const run *n, uint32_t way) {
    const weir_batch__table_rules *table = n->table;
    const weir_batch__parent_rule *rule = &table->parents[way];
    const weir_batch__table_rules *parents = rule->parents;
    for (uint32_t k = 0; k < n->count; k++) {
        uint32_t row = n->rows[k].row;
        const uint8_t *record = weir_batch__record_of(table, row);
        if (__builtin_expect(r->blank_anchor && weir_batch__is_anchor(r, table, row), 0))
            record = r->blank_anchor;
        else
            weir_batch__touch(r, WEIR_STORE__SECTION_ROWS, record, table->stride);
        uint32_t parent = weir__load32(record + rule->slot), index = parent - parents->first_number;
        bool is_known =
            parent != WEIR_NONE && weir_batch__is_known(record, rule->known_slot, r->outlook->cutoff);
        bool is_row = index < parents->row_count;
        n->rows[k].hides |= parent != WEIR_NONE && !is_known;
        if (parent != WEIR_NONE && rule->known_slot != WEIR_NONE)
            see_time(r, &n->rows[k], record + rule->known_slot);
        r->is_corrupt |= is_known & !is_row;
        n->ways[(size_t)k * n->stride + way] =
            (weir_batch__shown){.first = parent, .known = is_known & is_row};
        if (parents->time_offset != WEIR_NONE)
            weir_batch__fetch(parents->records + (size_t)index * parents->stride + parents->time_offset);
    }
}

/* The lists of the rows' children along one way. */
static void find_lists(weir_batch__retriever *r, const run *n, uint32_t way) {
    const weir_batch__child_rule *rule = &n->table->inbound[way - n->table->parent_count];
    const weir_batch__list *list = &rule->list;
    for (uint32_t k = 0; k < n->count; k++) {
        const uint8_t *at = list->starts + 4 * (size_t)n->rows[k].row;
        weir_batch__touch(r, rule->list.starts_in, at, 8);
        weir_batch__shown found = weir_batch__rows_of(list, at);
        n->ways[(size_t)k * n->stride + way] = found;
        if (found.unsure > 0)
            weir_batch__fetch(list->times + 8 * ((size_t)found.first + found.unsure - 1));
    }
}

/* Leaves out the parents along one way that are not visible. */
static void see_parents(weir_batch__retriever *r, const run *n, uint32_t way) {
    const weir_batch__table_rules *parents = n->table->parents[way].parents;
    for (uint32_t k = 0; k < n->count; k++) {
        weir_batch__shown *found = &n->ways[(size_t)k * n->stride + way];
        if (found->known > 0) {
            uint32_t row = found->first - parents->first_number;
            found->known = weir_batch__is_visible(r, parents, row);
            n->rows[k].hides |= found->known == 0;
            if (parents->time_offset != WEIR_NONE)
                see_time(r, &n->rows[k], weir_batch__record_of(parents, row) + parents->time_offset);
        }
        n->rows[k].count += found->known;
    }
}

/* Takes each search a step further; returns how many are left. A search that is over has looked at the times
 * before and after the place that it found. */
static uint32_t search_on(weir_batch__retriever *r, const run *n, const weir_batch__child_rule *rule,
                          uint32_t searches) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < searches; i++) {
        weir_batch__shown *found = r->searches[i];
        if (weir_batch__narrow_search(r->store, r->is_whole ? 0 : rule->list.times_in, rule->list.times,
                                      found, r->limit, &r->is_corrupt)) {
            r->searches[left++] = found;
            continue;
        }
        found_row *row = &n->rows[WEIR__LOW(uint32_t, found - n->ways) / n->stride];
        const uint8_t *next = rule->list.times + 8 * ((size_t)found->first + found->known);
        if (found->known > 0)
            see_time(r, row, next - 8);
        see_time(r, row, next);
    }
    return left;
}

/* Looks at the last of the lists' times along one way, which mostly is shown: then all are. The other lists
 * are searched. */
static void see_lists(weir_batch__retriever *r, const run *n, uint32_t way) {
    const weir_batch__child_rule *rule = &n->table->inbound[way - n->table->parent_count];
    uint32_t searches = 0;
    for (uint32_t k = 0; k < n->count; k++) {
        weir_batch__shown *found = &n->ways[(size_t)k * n->stride + way];
        if (found->unsure == 0)
            continue;
        const uint8_t *times = rule->list.times + 8 * (size_t)found->first;
        const uint8_t *last = times + 8 * ((size_t)found->unsure - 1);
        weir_batch__touch(r, rule->list.times_in, last, 8);
        bool is_shown = (int64_t)weir__load64(last) <= r->limit;
        n->rows[k].hides |= !is_shown;
        see_time(r, &n->rows[k], last);
        found->known = is_shown ? found->unsure : 0;
        found->unsure = is_shown ? 0 : found->unsure - 1;
        if (found->unsure == 0)
            continue;
        weir_batch__fetch_times(times, found->unsure);
        r->searches[searches++] = found;
    }
    while (searches > 0)
        searches = search_on(r, n, rule, searches);
    for (uint32_t k = 0; k < n->count; k++) {
        const weir_batch__shown *found = &n->ways[(size_t)k * n->stride + way];
        n->rows[k].count += found->known;
        if (found->known - 1 < r->few) {
            weir_batch__fetch(rule->list.rows + 4 * (size_t)found->first);
            weir_batch__fetch(rule->list.rows + 4 * ((size_t)found->first + found->known - 1));
        }
    }
}

/* ---- Memos ------------------------------------------------------------------------------------- */

/* Children of a list that are shown: those from `first` on, and those that follow so many that are too old.
 */
typedef struct piece {
    uint32_t first;
    uint32_t count;
} piece;

/* The pieces of a list of which what was always there is shown, and what is not too old. */
static __attribute__((noinline)) void split_list(weir_batch__retriever *r, const weir_batch__child_rule *rule,
                                                 const weir_batch__shown *found, piece out[2]) {
    const uint8_t *times = rule->list.times + 8 * (size_t)found->first;
    uint32_t always, old = weir_batch__count_old(r->store, r->is_whole ? 0 : rule->list.times_in, times,
                                                 found->known, r->outlook->floor, &always, &r->is_corrupt);
    out[0] = (piece){found->first, always};
    out[1] = (piece){found->first + always + old, found->known - always - old};
}

/* What is shown along a way; returns in how many pieces. */
static inline uint32_t pieces_of(weir_batch__retriever *r, const weir_batch__table_rules *table, uint32_t way,
                                 const weir_batch__shown *found, piece out[2]) {
    const weir_batch__child_rule *rule =
        way < table->parent_count ? NULL : &table->inbound[way - table->parent_count];
    if (__builtin_expect(r->outlook->floor != WEIR_TIME_ALWAYS, 0) && rule && rule->list.times &&
        found->known > 0) {
        split_list(r, rule, found, out);
        return 2;
    }
    out[0] = (piece){found->first, found->known};
    return 1;
}

/* The RowIdx of a row along a way by its number, where 32 bits tell all rows apart. */
static inline uint32_t dense_row(const weir_batch__way *way, uint32_t number) {
    return number + (WEIR__LOW(uint32_t, way->row_start) - way->first_number);
}

/* Writes a row's neighbours, of which there are at most r->few. */
static void write_few(weir_batch__retriever *r, const weir_batch__table_rules *table, weir_batch__memo *memo,
                      const weir_batch__shown *found) {
    uint32_t *rows = memo->words, count = 0;
    const weir_batch__way *ways = &r->ways[r->first_way[table->number]];
    for (uint32_t i = 0; i < table->parent_count; i++) {
        rows[count] = dense_row(&ways[i], found[i].first);
        count += found[i].known;
        if (count == r->few) /* the next would be one too many */
            break;
    }
    for (uint32_t i = table->parent_count; i < table->parent_count + table->inbound_count; i++) {
        piece pieces[2];
        uint32_t piece_count = pieces_of(r, table, i, &found[i], pieces);
        for (uint32_t p = 0; p < piece_count; p++) {
            const uint8_t *children = ways[i].child_rows + 4 * (size_t)pieces[p].first;
            if (pieces[p].count > 0)
                weir_batch__touch(r, ways[i].rows_in, children, 4 * (size_t)pieces[p].count);
            for (uint32_t k = 0; k < pieces[p].count; k++) {
                uint32_t row = weir__load32(children + 4 * (size_t)k);
                r->is_corrupt |= row - ways[i].first_number >= ways[i].row_count;
                rows[count++] = ways[i].to_task_rows
                                    ? WEIR__LOW(uint32_t, r->first_task_row) + pieces[p].first + k
                                    : dense_row(&ways[i], row);
            }
        }
    }
    memo->count = count;
}

/* Writes the ways to a row's neighbours. */
static void write_many(weir_batch__retriever *r, const weir_batch__table_rules *table, weir_batch__memo *memo,
                       const weir_batch__shown *found) {
    uint32_t *ends = weir_batch__memo_ends(memo);
    uint32_t *bases = weir_batch__memo_bases(memo, r->memo_ways);
    uint16_t *ways = weir_batch__memo_ways(memo, r->memo_ways);
    uint32_t count = 0, next = 0;
    for (uint32_t i = 0; i < table->parent_count + table->inbound_count; i++) {
        piece pieces[2];
        uint32_t piece_count = pieces_of(r, table, i, &found[i], pieces);
        for (uint32_t p = 0; p < piece_count; p++) {
            if (pieces[p].count == 0)
                continue;
            bases[next] = i < table->parent_count ? pieces[p].first : pieces[p].first - count;
            ways[next] = WEIR__LOW(uint16_t, i);
            count += pieces[p].count;
            if (next + 1 < r->memo_ways)
                ends[next] = count;
            next++;
        }
    }
    if (count <= r->few) { /* without those that are too old */
        write_few(r, table, memo, found);
        return;
    }
    for (; next + 1 < r->memo_ways; next++)
        ends[next] = UINT32_MAX;
    memo->words[0] = r->first_way[table->number];
    memo->count = count;
}

/* Writes the links of a row, if it has any: what its memo says of few neighbours. They hold from its own time
 * on, before which an anchor may show nothing. */
static void write_links(weir_batch__retriever *r, const weir_batch__table_rules *table,
                        weir_batch__memo *memo, found_row *found) {
    if (found->hides || found->count - 1 >= WEIR_BATCH__LINKS || r->is_corrupt)
        return;
    int64_t latest = found->span.until < INT64_MAX ? found->span.until : found->span.from;
    if (table->time_offset != WEIR_NONE) {
        int64_t own = (int64_t)weir__load64(weir_batch__record_of(table, found->row) + table->time_offset);
        latest = own > latest ? own : latest;
    }
    if (latest > INT64_MAX - 7 || (r->blank_anchor && weir_batch__is_anchor(r, table, found->row)))
        return;
    weir_batch__links *links = &r->links[table->row_start + found->row];
    const uint32_t *rows = memo->words;
    for (uint32_t i = 0; i < found->count; i++)
        __atomic_store_n(&links->rows[i], rows[i], __ATOMIC_RELAXED);
    int64_t time = (latest + 7) & ~(int64_t)7;
    __atomic_store_n(&links->head, weir_batch__head_of(time, found->count), __ATOMIC_RELEASE);
}

/* A row has fewer than 2^32 neighbours; whoever has more is refused, as a damaged store may list them. */
static void write_memos(weir_batch__retriever *r, const run *n) {
    for (uint32_t k = 0; k < n->count; k++) {
        weir_batch__memo *memo = r->row_memos[n->walkers[k]];
        const weir_batch__shown *found = n->ways + (size_t)k * n->stride;
        if (n->rows[k].count <= r->few)
            write_few(r, n->table, memo, found);
        else
            write_many(r, n->table, memo, found);
        r->is_corrupt |= n->rows[k].count >= UINT32_MAX;
        if (r->links)
            write_links(r, n->table, memo, &n->rows[k]);
        uint64_t row = n->table->row_start + n->rows[k].row;
        memo->key = weir_batch__key_of(r, row);
        if (memo == weir_batch__memo_of(r, row)) /* not a spare one */
            r->spans[weir_batch__place_of_memo(r, row)] =
                r->has_spans && !r->is_corrupt ? n->rows[k].span : (weir_batch__span){0};
    }
}

/* Does something for the rows of each table. */
static void for_each_run(weir_batch__retriever *r, const uint16_t *walkers, uint32_t count,
                         void (*work)(weir_batch__retriever *, const run *)) {
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        uint32_t table = r->found_rows[begin].table;
        for (end = begin + 1; end < count && r->found_rows[end].table == table;)
            end++;
        run n = {.table = &r->rules->tables[table],
                 .walkers = walkers + begin,
                 .rows = r->found_rows + begin,
                 .ways = r->found + (size_t)begin * r->way_count,
                 .stride = r->way_count,
                 .count = end - begin};
        work(r, &n);
    }
}

static void find(weir_batch__retriever *r, const run *n) {
    for (uint32_t i = 0; i < n->table->parent_count; i++)
        find_parents(r, n, i);
    for (uint32_t i = 0; i < n->table->inbound_count; i++)
        find_lists(r, n, n->table->parent_count + i);
}

static void see(weir_batch__retriever *r, const run *n) {
    for (uint32_t i = 0; i < n->table->parent_count; i++)
        see_parents(r, n, i);
    for (uint32_t i = 0; i < n->table->inbound_count; i++)
        see_lists(r, n, n->table->parent_count + i);
}

void weir_batch__remember(weir_batch__retriever *r, uint16_t *walkers, uint32_t count) {
    sort_by_table(r, walkers, count);
    for_each_run(r, walkers, count, ask);
    for_each_run(r, walkers, count, find);
    for_each_run(r, walkers, count, see);
    for_each_run(r, walkers, count, write_memos);
}
