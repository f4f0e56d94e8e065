/* The texts of all parts become one dictionary.
 *
 * While memory suffices, that is the largest of the parts' dictionaries, into which the others are numbered.
 * A dictionary is jumped about in, and would be slow in a file. So where a part has many texts, or memory is
 * short at its end, they are put aside as a set: the list of them, and copies in groups by the first bits of
 * their hashes. Then the part goes on with an empty dictionary, so that a text may be in several
 * sets. At the end these repetitions are found range by range: texts of some groups, of all sets, go through
 * a dictionary that fits into memory.
 *
 * What must hold: a text's number is that of its first appearance in the order of tables, parts and sets.
 * Numbers are given anew later, by first appearance in the order of rows, so that neither sets nor parts
 * leave a trace. */
#include <string.h>

#include "ingest/stages.h"

enum { GROUP_BITS = 10, GROUPS = 1 << GROUP_BITS };

struct weir_ingest__text_set {
    const weir_ingest__string **strings; /* by number */
    uint32_t *grouped;                   /* numbers by group, ascending in each; */
    uint8_t *copies;                     /* their strings in that order, one after the other; */
    uint32_t starts[GROUPS + 1];         /* and where each group begins, in numbers */
    uint64_t copy_starts[GROUPS + 1];    /* and in bytes */
    uint32_t count;
    uint32_t end_row; /* of the part; the next set's rows begin there */
    uint32_t base;    /* of its numbers, among those of all sets */
};

/* What a text takes in a dictionary beside its bytes: slots, places in lists, its head. */
enum { TEXT_COST = 48 };

/* Texts between two looks at memory. */
enum { LOOK_EVERY = 4096 };

static uint32_t group_of(const weir_ingest__string *string) {
    return WEIR__LOW(uint32_t, string->hash >> (64 - GROUP_BITS));
}

static size_t copy_size(const weir_ingest__string *string) {
    return (offsetof(weir_ingest__string, bytes) + string->size + 7) / 8 * 8;
}

/* ---- Putting aside --------------------------------------------------------------------------- */

static void release_set(const weir_env *env, weir_ingest__text_set *set) {
    weir__release(env, set->strings);
    weir__release(env, set->grouped);
    weir__release(env, set->copies);
    set->strings = NULL;
    set->grouped = NULL;
    set->copies = NULL;
}

void weir_ingest__text_sets_release(const weir_env *env, weir_ingest__part *part) {
    for (size_t i = 0; i < part->text_set_count; i++)
        release_set(env, &part->text_sets[i]);
    weir__release(env, part->text_sets);
    part->text_sets = NULL;
    part->text_set_count = part->text_set_capacity = 0;
}

/* Texts are read in the order in which they lie, and each group is written from its beginning to its end: of
 * what lies in a file, one page per group is in use, and not all of it. */
static void fill_groups(weir__spill *spill, weir_ingest__text_set *set) {
    uint32_t next[GROUPS];
    uint64_t next_copy[GROUPS];
    memcpy(next, set->starts, sizeof next);
    memcpy(next_copy, set->copy_starts, sizeof next_copy);
    for (uint32_t i = 0; i < set->count; i++) {
        const weir_ingest__string *string = set->strings[i];
        uint32_t g = group_of(string);
        set->grouped[next[g]++] = i;
        memcpy(set->copies + next_copy[g], string, offsetof(weir_ingest__string, bytes) + string->size);
        next_copy[g] += copy_size(string);
        if (i % LOOK_EVERY == 0)
            weir__spill_look(spill);
    }
}

static bool put_aside(const weir_ingest__context *context, weir_ingest__part *part) {
    const weir_env *env = context->env;
    void *sets = part->text_sets;
    if (!weir__grow(env, &sets, &part->text_set_capacity, part->text_set_count + 1, sizeof *part->text_sets))
        return false;
    part->text_sets = sets;
    weir_ingest__text_set *set = &part->text_sets[part->text_set_count];
    *set = (weir_ingest__text_set){.count = part->texts.count, .end_row = part->row_count};
    set->strings = weir__allocate(env, set->count, sizeof *set->strings);
    set->grouped = weir__allocate(env, set->count, sizeof *set->grouped);
    bool has_memory = set->strings && set->grouped;
    if (has_memory) {
        memcpy(set->strings, part->texts.strings, set->count * sizeof *set->strings);
        for (uint32_t i = 0; i < set->count; i++) {
            uint32_t g = group_of(set->strings[i]);
            set->starts[g + 1]++;
            set->copy_starts[g + 1] += copy_size(set->strings[i]);
        }
        for (uint32_t g = 0; g < GROUPS; g++) { /* where the groups begin */
            set->starts[g + 1] += set->starts[g];
            set->copy_starts[g + 1] += set->copy_starts[g];
        }
        set->copies = weir__allocate(env, 1, (size_t)set->copy_starts[GROUPS]);
    }
    if (!has_memory || !set->copies) {
        release_set(env, set);
        return false;
    }
    fill_groups(context->spill, set);
    part->text_set_count++;
    return true;
}

weir_status weir_ingest__put_texts_aside(const weir_ingest__context *context, weir_ingest__part *part,
                                         bool is_end, weir_error *error) {
    uint64_t most = weir__spill_share(context->spill) / context->session_count / TEXT_COST;
    bool is_due = is_end ? weir__spill_is_used(context->spill) : part->texts.count > most;
    if (part->texts.count == 0 || !is_due)
        return WEIR_OK;
    if (!put_aside(context, part))
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, part->texts.count * sizeof(void *));
    if (is_end)
        weir_ingest__dictionary_release(&part->texts);
    else
        weir_ingest__dictionary_empty(&part->texts);
    return WEIR_OK;
}

/* ---- All parts ------------------------------------------------------------------------------- */

typedef struct part_place {
    const weir_ingest__table_plan *table;
    weir_ingest__part *part;
} part_place;

/* The parts of all tables, one after the other; false at the end. */
static bool next_part(const weir_ingest__parts *parts, uint32_t *t, uint32_t *p, part_place *out) {
    for (; *t < parts->plan->table_count; ++*t, *p = 0)
        if (*p < parts->tables[*t].count) {
            *out = (part_place){&parts->plan->tables[*t], &parts->tables[*t].list[*p]};
            ++*p;
            return true;
        }
    return false;
}

#define FOR_EACH_PART(parts, place) for (uint32_t t_ = 0, p_ = 0; next_part(parts, &t_, &p_, &(place));)

/* ---- In memory ------------------------------------------------------------------------------- */

static void take_largest(const weir_ingest__parts *parts, weir_ingest__dictionary *texts) {
    weir_ingest__part *largest = NULL;
    part_place place;
    FOR_EACH_PART(parts, place) {
        if (place.part->texts.count > (largest ? largest->texts.count : 0))
            largest = place.part;
    }
    if (!largest)
        return;
    *texts = largest->texts;
    weir_ingest__dictionary_init(&largest->texts, parts->env);
    largest->owns_text_numbers = true;
}

/* ---- In sets --------------------------------------------------------------------------------- */

typedef struct set_work {
    const weir_ingest__context *context;
    const weir_ingest__parts *parts;
    uint32_t *firsts; /* by number among all sets: the number of its first appearance */
    uint32_t range_count;
    atomic_bool is_short_of_memory;
} set_work;

/* The texts of a range of groups, each with the number that it had first. */
typedef struct range_texts {
    weir_ingest__dictionary dictionary;
    weir__arena strings;
    void *numbers;
    size_t capacity;
} range_texts;

static bool find_firsts(weir__spill *spill, const weir_ingest__text_set *set, uint32_t first_group,
                        uint32_t end_group, range_texts *texts, uint32_t *firsts) {
    const uint8_t *at = set->copies + set->copy_starts[first_group];
    for (uint32_t i = set->starts[first_group]; i < set->starts[end_group]; i++) {
        const weir_ingest__string *string = (const weir_ingest__string *)(const void *)at;
        uint32_t place, number = set->grouped[i], known = texts->dictionary.count;
        if (!weir_ingest__dictionary_copy(&texts->dictionary, &texts->strings, string, &place) ||
            !weir__grow(texts->dictionary.env, &texts->numbers, &texts->capacity, (size_t)place + 1,
                        sizeof(uint32_t)))
            return false;
        at += copy_size(string);
        uint32_t *numbers = texts->numbers;
        if (place == known)
            numbers[place] = set->base + number;
        firsts[set->base + number] = numbers[place];
        if (i % LOOK_EVERY == 0)
            weir__spill_look(spill);
    }
    return true;
}

static void find_in_range(void *context, size_t index, uint32_t worker) {
    set_work *work = context;
    const weir_env *env = weir__spill_memory_env(work->context->spill);
    uint32_t first = WEIR__NARROW(uint32_t, index * GROUPS / work->range_count);
    uint32_t end = WEIR__NARROW(uint32_t, (index + 1) * GROUPS / work->range_count);
    range_texts texts = {0};
    part_place place;
    (void)worker;
    weir_ingest__dictionary_init(&texts.dictionary, env);
    weir__arena_init(&texts.strings, env);
    FOR_EACH_PART(work->parts, place) {
        for (size_t i = 0; i < place.part->text_set_count && !work->is_short_of_memory; i++) {
            if (!find_firsts(work->context->spill, &place.part->text_sets[i], first, end, &texts,
                             work->firsts))
                work->is_short_of_memory = true;
            weir__spill_look(work->context->spill);
        }
    }
    weir__release(env, texts.numbers);
    weir__arena_release(&texts.strings);
    weir_ingest__dictionary_release(&texts.dictionary);
}

/* Cells of a set's rows get the numbers of all sets. */
static void renumber(const part_place *place, const uint32_t *firsts) {
    for (uint32_t c = 0; c < place->table->column_count; c++) {
        uint32_t *values = place->part->data[c].values, row = 0;
        if (weir_value_of(place->table->columns[c].stype) != WEIR_VALUE_TEXT)
            continue;
        for (size_t i = 0; i < place->part->text_set_count; i++) {
            const weir_ingest__text_set *set = &place->part->text_sets[i];
            for (; row < set->end_row; row++)
                if (values[row] != WEIR_NONE)
                    values[row] = firsts[set->base + values[row]];
        }
    }
}

/* Numbers the sets' texts one after the other, and lists them; their bytes are counted. */
static weir_status list_texts(const weir_ingest__parts *parts, weir_ingest__dictionary *texts,
                              uint64_t *bytes, weir_error *error) {
    uint64_t count = 0;
    part_place place;
    *bytes = 0;
    FOR_EACH_PART(parts, place) {
        for (size_t i = 0; i < place.part->text_set_count; i++) {
            weir_ingest__text_set *set = &place.part->text_sets[i];
            set->base = WEIR__LOW(uint32_t, count);
            count += set->count;
            *bytes += set->copy_starts[GROUPS] + set->count * (uint64_t)TEXT_COST;
        }
    }
    if (count >= UINT32_MAX)
        return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                          "the source has more than 2^32-2 texts; leave some columns out");
    texts->strings = weir__allocate(parts->env, count, sizeof *texts->strings);
    if (!texts->strings)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, count * sizeof *texts->strings);
    texts->count = WEIR__NARROW(uint32_t, count);
    FOR_EACH_PART(parts, place) {
        for (size_t i = 0; i < place.part->text_set_count; i++) {
            weir_ingest__text_set *set = &place.part->text_sets[i];
            memcpy(texts->strings + set->base, set->strings, set->count * sizeof *set->strings);
            weir__release(parts->env, set->strings); /* what is read of the set are its copies */
            set->strings = NULL;
        }
    }
    return WEIR_OK;
}

static weir_status join_sets(const weir_ingest__context *context, const weir_ingest__parts *parts,
                             weir_ingest__dictionary *texts, weir_error *error) {
    set_work work = {.context = context, .parts = parts};
    part_place place;
    uint64_t bytes, share = 2 * weir__spill_share(context->spill) / context->threads;
    WEIR__TRY(list_texts(parts, texts, &bytes, error));
    work.firsts = weir__allocate(context->env, texts->count, sizeof *work.firsts);
    if (!work.firsts)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, texts->count * sizeof *work.firsts);
    work.range_count = bytes / share < GROUPS ? WEIR__LOW(uint32_t, bytes / share) + 1 : GROUPS;
    weir__parallel(context->env, context->threads, work.range_count, find_in_range, &work);
    if (!work.is_short_of_memory)
        FOR_EACH_PART(parts, place) {
            renumber(&place, work.firsts);
            weir_ingest__text_sets_release(parts->env, place.part);
            place.part->owns_text_numbers = true;
            weir__spill_look(context->spill);
        }
    weir__release(context->env, work.firsts);
    return work.is_short_of_memory ? weir__out_of_memory(error, WEIR_INGEST__OPERATOR, (size_t)bytes)
                                   : WEIR_OK;
}

weir_status weir_ingest__join_texts(const weir_ingest__context *context, weir_ingest__parts *parts,
                                    weir_ingest__dictionary *texts, weir_error *error) {
    part_place place;
    bool has_sets = false;
    FOR_EACH_PART(parts, place) {
        has_sets = has_sets || place.part->text_set_count > 0;
    }
    if (!has_sets) {
        take_largest(parts, texts);
        return WEIR_OK;
    }
    FOR_EACH_PART(parts, place) {
        if (place.part->texts.count > 0 && !put_aside(context, place.part))
            return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, 0);
        weir_ingest__dictionary_release(&place.part->texts);
    }
    return join_sets(context, parts, texts, error);
}
