/* Keys of a draft: declared ones as they are; if nothing is declared, primary keys by uniqueness and name,
 * foreign keys by name, kind and inclusion (docs/spec/04-draft.md, 2 and 3). */
#include <stdlib.h>
#include <string.h>

#include "ingest/draft.h"

enum { PARTS_MAX = 6, SUBSETS_MAX = 35 };

static bool is_short_text(const weir_ingest__draft_column *column) {
    return column->kind == WEIR_INGEST__DRAFT_TEXT && !column->any_long;
}

static bool are_alike(const weir_ingest__draft_column *a, const weir_ingest__draft_column *b) {
    return (weir_ingest__draft_is_integral(a) && weir_ingest__draft_is_integral(b)) ||
           (a->kind == b->kind && a->kind == WEIR_INGEST__DRAFT_TEXT) ||
           (a->kind == b->kind && a->kind == WEIR_INGEST__DRAFT_TIME);
}

static void mark_key(weir_ingest__draft *draft, uint32_t table, const uint32_t *columns, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        draft->tables[table].columns[columns[i]].is_key = true;
}

/* "a, b" */
static const char *names_of(weir_ingest__draft *draft, uint32_t table, const uint32_t *columns,
                            uint32_t count) {
    return weir_ingest__draft_names(draft, &draft->tables[table], columns, count, ", ");
}

/* ---- Primary keys ---------------------------------------------------------------------------- */

static bool take_primary_key(weir_ingest__draft *draft, uint32_t t) {
    weir_ingest__draft_table *table = &draft->tables[t];
    const weir_ingest__catalog_table *source = table->source;
    if (source->primary_key_count == 0 || source->primary_key_count > WEIR_INGEST__KEY_COLUMNS_MAX)
        return false;
    memcpy(table->primary_key, source->primary_key, source->primary_key_count * sizeof *table->primary_key);
    table->primary_key_count = source->primary_key_count;
    weir_ingest__draft_reason(draft, t, WEIR_NONE, "primary_key", false,
                              names_of(draft, t, table->primary_key, table->primary_key_count), "declared");
    return true;
}

/* How much a column's name speaks for a primary key: 1 the most, 0 not at all. */
static int rank_of(const weir_ingest__draft_table *table, uint32_t c) {
    static const char *const own[] = {"id", "uuid", "guid", "key", "pk", "oid"};
    const weir_ingest__words *words = &table->columns[c].words;
    bool is_own =
        strcmp(words->joined, table->stem.joined) == 0 || weir_ingest__words_are_key_of(words, &table->stem);
    for (int i = 0; i < 6; i++)
        is_own = is_own || strcmp(words->joined, own[i]) == 0;
    if (is_own)
        return 1;
    if (weir_ingest__word_is_in(WEIR_INGEST__KEY_WORDS, weir_ingest__words_last(words)))
        return 2;
    const weir_ingest__draft_column *column = &table->columns[c];
    bool is_dense = weir_ingest__draft_is_integral(column) &&
                    (uint64_t)column->most - (uint64_t)column->least == table->row_count - 1;
    return c == 0 && (column->kind == WEIR_INGEST__DRAFT_TEXT || is_dense) ? 3 : 0;
}

static void find_single_key(weir_ingest__draft *draft, uint32_t t) {
    static const char *const whys[] = {"", "its name is that of the table's key", "its name is that of a key",
                                       "it is the first column, of short texts or of numbers without gaps"};
    weir_ingest__draft_table *table = &draft->tables[t];
    int best = 4;
    for (uint32_t c = 0; c < table->column_count; c++) {
        const weir_ingest__draft_column *column = &table->columns[c];
        bool is_fit = weir_ingest__draft_is_integral(column) || (is_short_text(column) && !column->any_space);
        bool is_unique =
            column->wants_unique && !column->unique.has_doubles && column->values == table->row_count;
        int rank = rank_of(table, c);
        if (!is_fit || !is_unique || rank == 0 || rank >= best || (table->row_count < 2 && rank > 1))
            continue;
        best = rank;
        table->primary_key[0] = c;
        table->primary_key_count = 1;
    }
    if (table->primary_key_count > 0)
        weir_ingest__draft_reason(draft, t, WEIR_NONE, "primary_key", best > 1,
                                  table->columns[table->primary_key[0]].name,
                                  "found: all %llu values are different, none is null, and %s",
                                  (unsigned long long)table->row_count, whys[best]);
}

/* ---- Primary keys of several columns --------------------------------------------------------- */

typedef struct subset {
    uint32_t parts[WEIR_INGEST__DRAFT_KEY_MAX]; /* numbers among the candidates */
    uint32_t count;
    weir_ingest__hash_set set;
} subset;

typedef struct subset_view {
    subset list[SUBSETS_MAX];
    uint32_t count;
    uint32_t columns[PARTS_MAX];
    uint32_t column_count;
} subset_view;

static bool is_shared_name(const weir_ingest__draft *draft, uint32_t t, const weir_ingest__words *words) {
    for (uint32_t other = 0; other < draft->table_count; other++)
        for (uint32_t c = 0; other != t && c < draft->tables[other].column_count; c++)
            if (strcmp(draft->tables[other].columns[c].words.joined, words->joined) == 0)
                return true;
    return false;
}

static void add_subset(subset_view *view, const weir_env *env, uint32_t a, uint32_t b, uint32_t c) {
    subset *added = &view->list[view->count++];
    *added = (subset){.parts = {a, b, c}, .count = c == WEIR_NONE ? 2 : 3};
    weir_ingest__hash_set_init(&added->set, env);
}

static bool see_parts(void *context, const weir_ingest__value *cells) {
    subset_view *view = context;
    uint64_t hashes[PARTS_MAX], chosen[WEIR_INGEST__DRAFT_KEY_MAX];
    for (uint32_t i = 0; i < view->column_count; i++)
        hashes[i] = weir_ingest__value_hash(&cells[i]);
    for (uint32_t i = 0; i < view->count; i++) {
        for (uint32_t k = 0; k < view->list[i].count; k++)
            chosen[k] = hashes[view->list[i].parts[k]];
        if (!weir_ingest__hash_set_add(&view->list[i].set,
                                       weir_ingest__hash_together(chosen, view->list[i].count)))
            return false;
    }
    return true;
}

/* Pairs, then triples, in the order of their columns; all are tried in one scan, and most fail soon. */
static weir_status find_joint_key(weir_ingest__draft *draft, uint32_t t, weir_error *error) {
    weir_ingest__draft_table *table = &draft->tables[t];
    subset_view *view = weir__allocate_zero(draft->env, 1, sizeof *view);
    weir_status status = WEIR_OK;
    if (!view)
        return weir_ingest__no_memory(error, sizeof *view);
    for (uint32_t c = 0; c < table->column_count && view->column_count < PARTS_MAX; c++) {
        const weir_ingest__draft_column *column = &table->columns[c];
        bool is_fit = weir_ingest__draft_is_integral(column) || column->kind == WEIR_INGEST__DRAFT_TIME ||
                      is_short_text(column);
        bool is_named =
            weir_ingest__word_is_in(WEIR_INGEST__ID_WORDS, weir_ingest__words_last(&column->words)) ||
            is_shared_name(draft, t, &column->words);
        if (is_fit && is_named && column->values == table->row_count)
            view->columns[view->column_count++] = c;
    }
    uint32_t n = view->column_count;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            add_subset(view, draft->env, a, b, WEIR_NONE);
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            for (uint32_t c = b + 1; c < n; c++)
                add_subset(view, draft->env, a, b, c);
    if (view->count > 0)
        status = weir_ingest__draft_scan(draft, &draft->tables[t], view->columns, n, see_parts, view, error);
    for (uint32_t i = 0; i < view->count && status == WEIR_OK && table->primary_key_count == 0; i++) {
        if (view->list[i].set.has_doubles)
            continue;
        for (uint32_t k = 0; k < view->list[i].count; k++)
            table->primary_key[k] = view->columns[view->list[i].parts[k]];
        table->primary_key_count = view->list[i].count;
        weir_ingest__draft_reason(draft, t, WEIR_NONE, "primary_key", true,
                                  names_of(draft, t, table->primary_key, table->primary_key_count),
                                  "found: together they are different in all %llu rows, and no one column is",
                                  (unsigned long long)table->row_count);
    }
    for (uint32_t i = 0; i < view->count; i++)
        weir_ingest__hash_set_release(&view->list[i].set);
    weir__release(draft->env, view);
    return status;
}

/* ---- Foreign keys ---------------------------------------------------------------------------- */

/* If memory is short, the draft remembers it. */
static void add_key(weir_ingest__draft *draft, uint32_t t, const weir_ingest__draft_key *key) {
    weir_ingest__draft_table *table = &draft->tables[t];
    weir_ingest__draft_key *added =
        weir__arena_append(&draft->arena, &table->keys, &table->key_count, sizeof *added);
    if (!added)
        return;
    *added = *key;
    mark_key(draft, t, key->columns, key->column_count);
    mark_key(draft, key->parent, key->parent_columns, key->column_count);
    for (uint32_t k = 0; k < key->column_count; k++)
        table->columns[key->columns[k]].is_foreign = true;
}

static const char *target_of(weir_ingest__draft *draft, const weir_ingest__draft_key *key) {
    const char *columns = names_of(draft, key->parent, key->parent_columns, key->column_count);
    return weir_ingest__draft_text(draft, key->column_count == 1 ? "%s.%s" : "%s (%s)",
                                   draft->tables[key->parent].name, columns);
}

static void take_foreign_keys(weir_ingest__draft *draft, uint32_t t) {
    const weir_ingest__catalog_table *source = draft->tables[t].source;
    for (uint32_t i = 0; i < source->foreign_key_count; i++) {
        const weir_ingest__catalog_key *from = &source->foreign_keys[i];
        uint32_t parent = 0;
        while (parent < draft->table_count && strcmp(draft->tables[parent].name, from->parent_table) != 0)
            parent++;
        if (parent == draft->table_count || from->column_count > WEIR_INGEST__KEY_COLUMNS_MAX)
            continue;
        weir_ingest__draft_key key = {.parent = parent, .column_count = from->column_count, .coverage = 1};
        for (uint32_t k = 0; k < from->column_count; k++) {
            key.columns[k] = from->columns[k];
            key.parent_columns[k] =
                weir_ingest__catalog_find_column(draft->tables[parent].source, from->parent_columns[k]);
        }
        add_key(draft, t, &key);
        draft->has_declared_keys = true;
        weir_ingest__draft_reason(draft, t, key.columns[0], "foreign_key", false, target_of(draft, &key),
                                  "declared");
    }
}

/* The class of a possible foreign key by its name, 0 if the name says nothing. */
static int class_by_name(const weir_ingest__words *words, const weir_ingest__draft_table *parent) {
    const weir_ingest__words *stem = &parent->stem;
    const weir_ingest__words *key = &parent->columns[parent->primary_key[0]].words;
    bool is_generic = weir_ingest__word_is_in(WEIR_INGEST__GENERIC_NAMES, key->joined);
    const char *last = weir_ingest__words_last(words);
    if (!is_generic && strcmp(words->joined, key->joined) == 0)
        return 1;
    if (weir_ingest__words_are_key_of(words, stem))
        return 2;
    if ((!is_generic && weir_ingest__words_end_in(words, key, NULL)) ||
        (weir_ingest__word_is_in(WEIR_INGEST__KEY_WORDS, last) &&
         weir_ingest__words_end_in(words, stem, last)))
        return 3;
    if (stem->joined[0] && strcmp(words->joined, stem->joined) == 0)
        return 4;
    return weir_ingest__words_end_in(words, stem, NULL) ? 5 : 0;
}

static bool is_whole_key(const weir_ingest__draft_table *table, uint32_t column) {
    return table->primary_key_count == 1 && table->primary_key[0] == column;
}

/* Whether a column may lead to a table, and how surely: its class, or 0. */
static int class_of(const weir_ingest__draft *draft, uint32_t t, uint32_t c, uint32_t parent,
                    double *coverage) {
    const weir_ingest__draft_table *child = &draft->tables[t], *to = &draft->tables[parent];
    const weir_ingest__draft_column *column = &child->columns[c];
    bool is_whole = is_whole_key(child, c);
    if (to->primary_key_count != 1 || !are_alike(column, &to->columns[to->primary_key[0]]))
        return 0;
    int class = 0;
    if (parent == t)
        class = weir_ingest__words_are_self(&column->words) && !is_whole ? 6 : 0;
    else
        class = class_by_name(&column->words, to);
    bool is_code = parent != t && column->kind == WEIR_INGEST__DRAFT_TEXT && column->sample.count >= 3 &&
                   !column->any_long && !column->any_space;
    if (class == 0 && is_code)
        class = 7;
    if (class == 0 || (class > 3 && draft->has_declared_keys))
        return 0;
    if (is_whole && (class > 2 || weir_ingest__words_are_key_of(&column->words, &child->stem)))
        return 0;
    *coverage = weir_ingest__sample_coverage(&column->sample, &to->columns[to->primary_key[0]].sample);
    return *coverage >= (class <= 3 ? 0.5 : 0.9) ? class : 0;
}

/* Two tables that share their key: the larger one is the parent. */
static bool is_other_way_round(const weir_ingest__draft *draft, uint32_t t, uint32_t c, uint32_t parent) {
    const weir_ingest__draft_table *child = &draft->tables[t], *to = &draft->tables[parent];
    double coverage;
    if (!is_whole_key(child, c) || class_of(draft, parent, to->primary_key[0], t, &coverage) == 0)
        return false;
    if (to->row_count != child->row_count)
        return to->row_count < child->row_count;
    return parent > t; /* tables are in the order of their names */
}

static void find_foreign_key(weir_ingest__draft *draft, uint32_t t, uint32_t c) {
    static const char *const whys[] = {"",
                                       "it has the name of the parent's key",
                                       "its name is that of the table and a key",
                                       "its name ends like that of a key of the table",
                                       "it has the table's name",
                                       "its name ends in the table's",
                                       "its name leads to the table itself",
                                       "its texts are those of the key"};
    const weir_ingest__draft_column *column = &draft->tables[t].columns[c];
    uint32_t best = WEIR_NONE, codes = 0;
    int best_class = 8;
    double best_coverage = 0;
    for (uint32_t p = 0; p < draft->table_count; p++) {
        double coverage = 0;
        int class = class_of(draft, t, c, p, &coverage);
        if (class == 0 || is_other_way_round(draft, t, c, p))
            continue;
        codes += class == 7 ? 1 : 0;
        if (class < best_class || (class == best_class && coverage > best_coverage)) {
            best = p;
            best_class = class;
            best_coverage = coverage;
        }
    }
    if (best == WEIR_NONE || (best_class == 7 && codes > 1))
        return;
    uint32_t to = draft->tables[best].primary_key[0];
    weir_ingest__draft_key key = {
        .columns = {c}, .parent = best, .parent_columns = {to}, .column_count = 1, .coverage = best_coverage};
    add_key(draft, t, &key);
    bool is_exact = column->sample.level == 0 && draft->tables[best].columns[to].sample.level == 0;
    weir_ingest__draft_reason(draft, t, c, "foreign_key", best_class > 3 || best_coverage < 0.99,
                              target_of(draft, &key), "found: %s, and %s%.1f %% of its %llu values are there",
                              whys[best_class], is_exact ? "" : "about ", 100 * best_coverage,
                              (unsigned long long)column->values);
}

/* ---- Foreign keys of several columns --------------------------------------------------------- */

typedef struct joint_view {
    weir_ingest__sample sample;
    uint32_t count;
} joint_view;

static bool see_joint(void *context, const weir_ingest__value *cells) {
    joint_view *view = context;
    uint64_t hash;
    return !weir_ingest__hash_key(cells, view->count, &hash) ||
           weir_ingest__sample_add(&view->sample, hash, 1, 0);
}

static weir_status sample_joint(weir_ingest__draft *draft, uint32_t t, const uint32_t *columns,
                                uint32_t count, joint_view *out, weir_error *error) {
    weir_ingest__sample_init(&out->sample, draft->env);
    out->count = count;
    return weir_ingest__draft_scan(draft, &draft->tables[t], columns, count, see_joint, out, error);
}

bool weir_ingest__draft_has_key_to(const weir_ingest__draft_table *table, uint32_t parent) {
    for (uint32_t i = 0; i < table->key_count; i++)
        if (table->keys[i].parent == parent)
            return true;
    return false;
}

/* The columns of a table that are called like those of the parent's key. */
static bool find_joint_columns(const weir_ingest__draft_table *table, const weir_ingest__draft_table *parent,
                               uint32_t *columns) {
    uint32_t in_own_key = 0;
    for (uint32_t k = 0; k < parent->primary_key_count; k++) {
        const weir_ingest__draft_column *wanted = &parent->columns[parent->primary_key[k]];
        uint32_t c = 0;
        while (c < table->column_count &&
               (strcmp(table->columns[c].words.joined, wanted->words.joined) != 0 ||
                !are_alike(&table->columns[c], wanted)))
            c++;
        if (c == table->column_count)
            return false;
        columns[k] = c;
        for (uint32_t i = 0; i < table->primary_key_count; i++)
            in_own_key += table->primary_key[i] == c ? 1 : 0;
    }
    return in_own_key < parent->primary_key_count;
}

static weir_status find_joint_foreign_key(weir_ingest__draft *draft, uint32_t t, uint32_t parent,
                                          weir_error *error) {
    const weir_ingest__draft_table *to = &draft->tables[parent];
    weir_ingest__draft_key found = {.parent = parent, .column_count = to->primary_key_count};
    joint_view child = {0}, keys = {0};
    if (t == parent || to->primary_key_count < 2 || to->primary_key_count > WEIR_INGEST__DRAFT_KEY_MAX ||
        weir_ingest__draft_has_key_to(&draft->tables[t], parent) ||
        !find_joint_columns(&draft->tables[t], to, found.columns))
        return WEIR_OK;
    memcpy(found.parent_columns, to->primary_key, found.column_count * sizeof *found.columns);
    weir_status status = sample_joint(draft, t, found.columns, found.column_count, &child, error);
    if (status == WEIR_OK)
        status = sample_joint(draft, parent, found.parent_columns, found.column_count, &keys, error);
    if (status == WEIR_OK)
        found.coverage = weir_ingest__sample_coverage(&child.sample, &keys.sample);
    weir_ingest__sample_release(&child.sample);
    weir_ingest__sample_release(&keys.sample);
    if (status != WEIR_OK || found.coverage < 0.5)
        return status;
    add_key(draft, t, &found);
    weir_ingest__draft_reason(draft, t, WEIR_NONE, "foreign_key", true,
                              names_of(draft, t, found.columns, found.column_count),
                              "found: to %s, whose key has the same names, and %.1f %% of the rows are there",
                              target_of(draft, &found), 100 * found.coverage);
    return WEIR_OK;
}

static int compare_keys(const void *a, const void *b) {
    const weir_ingest__draft_key *x = a, *y = b;
    for (uint32_t i = 0; i < x->column_count && i < y->column_count; i++)
        if (x->columns[i] != y->columns[i])
            return x->columns[i] < y->columns[i] ? -1 : 1;
    return x->column_count < y->column_count ? -1 : x->column_count > y->column_count;
}

weir_status weir_ingest__draft_keys(weir_ingest__draft *draft, weir_error *error) {
    for (uint32_t t = 0; t < draft->table_count; t++) {
        weir_ingest__draft_table *table = &draft->tables[t];
        if (take_primary_key(draft, t) || table->row_count == 0)
            continue;
        find_single_key(draft, t);
        if (table->primary_key_count == 0 && table->row_count > 1)
            WEIR__TRY(find_joint_key(draft, t, error));
        if (table->primary_key_count == 0)
            weir_ingest__draft_reason(
                draft, t, WEIR_NONE, "primary_key", false, "none",
                "none is declared, and nothing that is named like a key is different in every row");
    }
    for (uint32_t t = 0; t < draft->table_count; t++)
        mark_key(draft, t, draft->tables[t].primary_key, draft->tables[t].primary_key_count);
    for (uint32_t t = 0; t < draft->table_count; t++)
        take_foreign_keys(draft, t);
    for (uint32_t t = 0; t < draft->table_count; t++)
        for (uint32_t c = 0; c < draft->tables[t].column_count; c++)
            if (!draft->tables[t].columns[c].is_foreign)
                find_foreign_key(draft, t, c);
    for (uint32_t t = 0; t < draft->table_count; t++)
        for (uint32_t p = 0; p < draft->table_count; p++)
            WEIR__TRY(find_joint_foreign_key(draft, t, p, error));
    for (uint32_t t = 0; t < draft->table_count; t++)
        if (draft->tables[t].key_count > 0)
            qsort(draft->tables[t].keys, draft->tables[t].key_count, sizeof *draft->tables[t].keys,
                  compare_keys);
    return WEIR_OK;
}
