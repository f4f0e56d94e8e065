/* Tasks: each one's query is run by the source, its rows become seeds, the seeds are sorted and split.
 *
 * Tasks are independent; each runs on a session of its own. What a task yields is what the file holds:
 * arrays in the order of splits, so that a large task costs its output and one sort. */
#define XXH_INLINE_ALL
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "ingest/like.h"
#include "weir_tool/philox.h"

typedef struct raw_seed {
    int64_t time;
    int64_t known; /* when its label is, if labels have a time */
    double weight;
    union {
        double number;
        int64_t integer; /* microseconds, 0 or 1, a number in `categories`, or a destination's place */
    };
    uint32_t row; /* in the anchor table */
    bool is_null, is_not_finite;
    uint8_t split;
} raw_seed;

typedef struct seed_reader {
    weir_ingest__context *context;
    const weir_ingest__linked *linked;
    const weir_ingest__schema_task *schema;
    weir_ingest__task *task;
    uint32_t number; /* of the task */
    const weir_ingest__table *anchor;
    const weir_ingest__key_index *index, *destinations;
    weir_ingest__key *keys;            /* of one row of the query */
    weir_ingest__dictionary key_texts; /* keeps the texts of keys once */
    raw_seed *seeds;
    size_t capacity;
    uint64_t count;
    uint32_t *key_columns; /* of the query, one per column of the primary key, the destination's after */
    uint32_t target_column, time_column, weight_column, known_column, split_column; /* WEIR_NONE */
} seed_reader;

static weir_status refuse(const seed_reader *r, const char *what, const char *detail, weir_error *error) {
    return weir__fail(error, WEIR_TASK_INVALID, WEIR_INGEST__OPERATOR, "task %s: %s%s", r->schema->name, what,
                      detail);
}

/* ---- Rows of the query ----------------------------------------------------------------------- */

/* A column that the task names. One that is there twice is refused: which is meant would hang on the order in
 * which the query gives them. */
static weir_status find_query_column(const seed_reader *r, const weir_ingest__cursor *cursor,
                                     const char *name, uint32_t *out, weir_error *error) {
    char message[300];
    uint32_t count = 0;
    *out = WEIR_NONE;
    for (uint32_t c = 0; name && c < cursor->column_count; c++)
        if (strcmp(cursor->column_names[c], name) == 0 && count++ == 0)
            *out = c;
    if (name && *out == WEIR_NONE)
        return refuse(r, "the query has no column ", name, error);
    if (count <= 1)
        return WEIR_OK;
    snprintf(message, sizeof message, "the query gives %u columns that are called %s", count, name);
    return refuse(r, message, "; give each a name of its own with AS", error);
}

static weir_status refuse_value(const seed_reader *r, const char *column, const weir_ingest__value *value,
                                const char *what, weir_error *error) {
    char shown[96], message[300];
    weir_ingest__describe_value(value, shown);
    snprintf(message, sizeof message, "column %s: %s ", column, shown);
    return refuse(r, message, what, error);
}

/* Converts a target into the seed; a null one stays null. */
static weir_status read_target(seed_reader *r, const weir_ingest__value *value, raw_seed *seed,
                               weir_error *error) {
    const weir_ingest__schema_task *described = r->schema;
    weir_ingest__task *task = r->task;
    bool is_cell = task->plan->is_cell;
    weir_value kind = weir_value_of(described->target_stype);
    weir_ingest__converted target = {0};
    weir_ingest__fit fit = weir_ingest__convert(value, described->target_stype, &described->form,
                                                is_cell ? NULL : &task->unsaid_target, &target);
    if (fit == WEIR_INGEST__FITS && kind == WEIR_VALUE_CATEGORY) {
        weir_ingest__bytes text = target.text;
        uint32_t category = 0;
        if (!weir__utf8_is_valid(text.data, text.size))
            return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                              "task %s: column %s: text that is not UTF-8", described->name,
                              described->target_column);
        if (!is_cell && !weir_ingest__dictionary_intern(&task->categories.dictionary, &task->memory,
                                                        text.data, text.size, &category))
            return weir_ingest__no_memory(error, text.size);
        target.integer = category;
        if (category >= task->categories.like_count) {
            task->categories.new_count++;
            fit = WEIR_INGEST__IS_NULL;
        }
    }
    if (kind == WEIR_VALUE_NUMBER)
        seed->number = target.number;
    else
        seed->integer = target.integer;
    if (fit == WEIR_INGEST__UNFIT) {
        char what[120];
        snprintf(what, sizeof what, "is not %s, the target_stype; let the query make it so, or NULL",
                 weir_stype_name(described->target_stype));
        return refuse_value(r, described->target_column, value, what, error);
    }
    seed->is_null = fit != WEIR_INGEST__FITS;
    seed->is_not_finite = fit == WEIR_INGEST__NOT_FINITE;
    if (seed->is_null)
        seed->integer = 0;
    return WEIR_OK;
}

/* The anchor row's time, or "sees everything" where it has none. */
static int64_t anchor_time(const seed_reader *r, uint32_t row) {
    int64_t time = weir_ingest__row_time(r->linked, r->task->plan->anchor_table, row);
    return time == WEIR_TIME_ALWAYS ? INT64_MAX : time;
}

/* A time of the query; if that is null, *out stays what it is. */
static weir_status read_time(const seed_reader *r, const char *column, const weir_ingest__value *value,
                             int64_t *out, bool *is_null, weir_error *error) {
    weir_ingest__fit fit = weir_ingest__to_time(value, &r->schema->form, &r->task->unsaid_time, out);
    *is_null = fit == WEIR_INGEST__IS_NULL;
    if (fit != WEIR_INGEST__UNFIT)
        return WEIR_OK;
    return refuse_value(r, column, value,
                        "is not a time that is read here: write it in ISO 8601, or say \"unit\" or "
                        "\"format\" in the task",
                        error);
}

/* When the label of a seed is known, which is complete otherwise. */
static weir_status read_known(const seed_reader *r, const weir_ingest__value *cells, raw_seed *seed,
                              weir_error *error) {
    int64_t known = WEIR_TIME_NEVER;
    bool is_null = false;
    if (r->schema->has_horizon) {
        is_null = __builtin_add_overflow(seed->time, r->schema->horizon, &known);
    } else {
        WEIR__TRY(
            read_time(r, r->schema->label_known_column, &cells[r->known_column], &known, &is_null, error));
        known = known > seed->time ? known : seed->time;
    }
    is_null = is_null || seed->is_null || seed->time == INT64_MAX;
    seed->known = is_null ? WEIR_TIME_NEVER : known;
    return WEIR_OK;
}

static weir_status read_weight(const seed_reader *r, const weir_ingest__value *value, raw_seed *seed,
                               weir_error *error) {
    double weight = 0;
    if (weir_ingest__to_number(value, &weight) != WEIR_INGEST__FITS || weight < 0)
        return refuse_value(r, r->schema->weight_column, value,
                            "is not a weight: a finite number that is at least 0", error);
    seed->weight = weight + 0.0; /* -0 becomes 0 */
    return WEIR_OK;
}

static weir_status read_split(const seed_reader *r, const weir_ingest__value *value, raw_seed *seed,
                              weir_error *error) {
    for (int split = 0; split < WEIR_SPLITS && value->type == WEIR_INGEST__TEXT; split++) {
        const char *name = weir_split_name((weir_split)split);
        if (strlen(name) == value->text.size && memcmp(name, value->text.data, value->text.size) == 0) {
            seed->split = WEIR__NARROW(uint8_t, split);
            return WEIR_OK;
        }
    }
    return refuse_value(r, r->schema->split.column, value, "is not train, val or test", error);
}

/* The row that columns of the query are the key of, or WEIR_NONE. */
static weir_status find_row(seed_reader *r, const weir_ingest__key_index *index, const uint32_t *columns,
                            uint32_t count, const weir_ingest__value *cells, uint32_t *row,
                            weir_error *error) {
    for (uint32_t i = 0; i < count; i++)
        if (!weir_ingest__key_from_value(&cells[columns[i]], &r->task->memory, &r->key_texts, &r->keys[i]))
            return weir_ingest__no_memory(error, 1);
    *row = weir_ingest__key_index_find(index, r->keys);
    return WEIR_OK;
}

static weir_status read_seed(seed_reader *r, const weir_ingest__value *cells, weir_error *error) {
    const weir_ingest__schema_task *described = r->schema;
    weir_ingest__task *task = r->task;
    raw_seed seed = {0};
    bool is_link = weir_ingest__is_link(described);
    uint32_t destination = 0;
    WEIR__TRY(find_row(r, r->index, r->key_columns, described->anchor_key_count, cells, &seed.row, error));
    if (is_link)
        WEIR__TRY(find_row(r, r->destinations, r->key_columns + described->anchor_key_count,
                           described->destination_key_count, cells, &destination, error));
    else
        WEIR__TRY(read_target(r, &cells[r->target_column], &seed, error));
    bool is_dropped = seed.row == WEIR_NONE || destination == WEIR_NONE;
    if (!is_dropped) {
        int64_t since = weir_ingest__row_time(r->linked, task->plan->anchor_table, seed.row);
        if (is_link)
            seed.integer = task->links.places[destination];
        seed.time = anchor_time(r, seed.row);
        bool is_null = false;
        if (r->time_column != WEIR_NONE)
            WEIR__TRY(read_time(r, described->observation_time_column, &cells[r->time_column], &seed.time,
                                &is_null, error));
        if (is_null && is_link)
            return refuse(r, "the query gives a pair whose observation time is null, in column ",
                          described->observation_time_column, error);
        task->row_timed += is_null && seed.time != INT64_MAX;
        task->early += seed.time < since;
        if (seed.time < since && described->before_anchor == WEIR_BEFORE_ANCHOR_MOVE)
            seed.time = since;
        if (weir_ingest__has_label_times(described))
            WEIR__TRY(read_known(r, cells, &seed, error));
        if (r->weight_column != WEIR_NONE)
            WEIR__TRY(read_weight(r, &cells[r->weight_column], &seed, error));
    }
    if (r->split_column != WEIR_NONE)
        WEIR__TRY(read_split(r, &cells[r->split_column], &seed, error));
    if (is_dropped) {
        task->dropped++;
        return WEIR_OK;
    }
    if (is_link && task->links.times[seed.integer] > seed.time) {
        task->links.late++;
        return WEIR_OK;
    }
    void *seeds = r->seeds;
    if (is_link && r->count == WEIR_STORE__ROWS_MAX)
        return refuse(r, "it has more than 2^32 - 2 pairs; take fewer in its query", "", error);
    if (!weir__grow(r->context->env, &seeds, &r->capacity, r->count + 1, sizeof seed))
        return weir_ingest__no_memory(error, r->count * sizeof seed);
    r->seeds = seeds;
    r->seeds[r->count++] = seed;
    return WEIR_OK;
}

/* A failing query is the task's fault, whatever the source calls it. */
static weir_status blame_task(const seed_reader *r, weir_status status, weir_error *error) {
    char message[WEIR_MESSAGE_CAPACITY];
    if (status != WEIR_SOURCE_ERROR)
        return status;
    snprintf(message, sizeof message, "%s", error->message);
    return refuse(r, "the query failed: ", message, error);
}

static weir_status find_query_columns(seed_reader *r, const weir_ingest__cursor *cursor, weir_error *error) {
    const weir_ingest__schema_task *described = r->schema;
    const char *split = described->split.method == WEIR_INGEST__SPLIT_COLUMN ? described->split.column : NULL;
    const char *target = weir_ingest__is_link(described) ? NULL : described->target_column;
    uint32_t *of_destination = r->key_columns + described->anchor_key_count;
    for (uint32_t i = 0; i < described->anchor_key_count; i++)
        WEIR__TRY(find_query_column(r, cursor, described->anchor_key[i], &r->key_columns[i], error));
    for (uint32_t i = 0; i < described->destination_key_count; i++)
        WEIR__TRY(find_query_column(r, cursor, described->destination_key[i], &of_destination[i], error));
    WEIR__TRY(find_query_column(r, cursor, target, &r->target_column, error));
    WEIR__TRY(find_query_column(r, cursor, described->observation_time_column, &r->time_column, error));
    WEIR__TRY(find_query_column(r, cursor, described->weight_column, &r->weight_column, error));
    WEIR__TRY(find_query_column(r, cursor, described->label_known_column, &r->known_column, error));
    WEIR__TRY(find_query_column(r, cursor, split, &r->split_column, error));
    const weir_ingest__plan *plan = r->linked->plan;
    WEIR__TRY(weir_ingest__check_asked_key(plan, r->task->plan, false, cursor, r->key_columns, error));
    return weir_ingest__check_asked_key(plan, r->task->plan, true, cursor, of_destination, error);
}

static weir_status read_query(seed_reader *r, weir_ingest__source *session, weir_error *error) {
    weir_ingest__cursor *cursor = NULL;
    weir_ingest__rows rows;
    uint64_t uncounted = 0;
    uint32_t key_count = r->schema->anchor_key_count + r->schema->destination_key_count;
    r->keys = weir__arena_take_zero(&r->task->memory, key_count, sizeof *r->keys);
    r->key_columns = weir__arena_take_zero(&r->task->memory, key_count, sizeof *r->key_columns);
    if (!r->keys || !r->key_columns)
        return weir_ingest__no_memory(error, key_count * sizeof *r->keys);
    weir_status status = session->kind->query(session, r->schema->query, &cursor, error);
    if (status != WEIR_OK)
        return blame_task(r, status, error);
    status = find_query_columns(r, cursor, error);
    while (status == WEIR_OK) {
        status = blame_task(r, weir_ingest__next_rows(r->context, cursor, &uncounted, &rows, error), error);
        if (status != WEIR_OK || rows.row_count == 0)
            break;
        for (size_t i = 0; i < rows.row_count && status == WEIR_OK; i++)
            status = read_seed(r, rows.cells + i * cursor->column_count, error);
    }
    cursor->close(cursor);
    return status;
}

/* Seeds may take more than memory, and are gone through faster than others look at what is mapped. */
static void look_at_memory(const seed_reader *r, uint64_t seed) {
    enum { LOOK_EVERY = 1 << 16 };
    if (seed % LOOK_EVERY == 0 && r->context->spill)
        weir__spill_look(r->context->spill);
}

/* A task that weir makes itself: every row of the table. */
static weir_status take_all_rows(seed_reader *r, weir_error *error) {
    r->count = r->anchor->row_count;
    r->seeds = weir__allocate(r->context->env, r->count, sizeof *r->seeds);
    if (!r->seeds)
        return weir_ingest__no_memory(error, r->count * sizeof *r->seeds);
    for (uint32_t row = 0; row < r->anchor->row_count; row++) {
        look_at_memory(r, row);
        r->seeds[row] = (raw_seed){.row = row, .time = anchor_time(r, row)};
    }
    (void)weir_ingest__advance(r->context, r->count);
    return WEIR_OK;
}

/* ---- Sorting --------------------------------------------------------------------------------- */

/* The order of canonical CBOR: integers by size with the negative ones last, floats by their bits, text
 * shorter first; null (f6) comes after all of them but the floats (fb). */
static int compare_targets(const weir_ingest__task *task, const raw_seed *a, const raw_seed *b) {
    weir_value value = weir_value_of(task->plan->schema->target_stype);
    if (a->is_null || b->is_null) {
        int order = a->is_null - b->is_null;
        return value == WEIR_VALUE_NUMBER ? -order : order;
    }
    if (value == WEIR_VALUE_CATEGORY) {
        const weir_ingest__string *x = task->categories.dictionary.strings[a->integer];
        const weir_ingest__string *y = task->categories.dictionary.strings[b->integer];
        return weir__key_compare(x->bytes, x->size, y->bytes, y->size);
    }
    uint64_t x = (uint64_t)a->integer, y = (uint64_t)b->integer; /* a number's bits too */
    if (value == WEIR_VALUE_TIME && a->integer < 0 && b->integer < 0)
        return x > y ? -1 : x < y;
    return x < y ? -1 : x > y;
}

static int compare_seeds(const void *context, uint64_t a, uint64_t b) {
    const seed_reader *r = context;
    const raw_seed *x = &r->seeds[a], *y = &r->seeds[b];
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    int by_target = r->task->plan->is_cell ? 0 : compare_targets(r->task, x, y);
    if (by_target || x->weight != y->weight)
        return by_target ? by_target : x->weight < y->weight ? -1 : 1;
    return (x->known > y->known) - (x->known < y->known);
}

static weir_status sort_seeds(seed_reader *r, weir_error *error) {
    const weir_env *env = r->context->env;
    weir_ingest__sort_item *items = weir__allocate(env, r->count, sizeof *items);
    raw_seed *sorted = weir__allocate(env, r->count, sizeof *sorted);
    bool is_fine = items && sorted;
    for (uint64_t i = 0; is_fine && i < r->count; i++)
        items[i] = (weir_ingest__sort_item){r->seeds[i].row, i};
    is_fine = is_fine && weir_ingest__sort(env, items, r->count, compare_seeds, r);
    for (uint64_t i = 0; is_fine && i < r->count; i++)
        sorted[i] = r->seeds[items[i].index];
    weir__release(env, items);
    if (!is_fine) {
        weir__release(env, sorted);
        return weir_ingest__no_memory(error, r->count * sizeof *sorted);
    }
    weir__release(env, r->seeds);
    r->seeds = sorted;
    return WEIR_OK;
}

static bool is_of_same_list(const raw_seed *a, const raw_seed *b) {
    return a->row == b->row && a->time == b->time;
}

/* Of pairs that are equal one stays. */
static void drop_repeated(seed_reader *r) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < r->count; i++) {
        const raw_seed *seed = &r->seeds[i], *last = &r->seeds[kept > 0 ? kept - 1 : 0];
        if (kept == 0 || !is_of_same_list(seed, last) || seed->integer != last->integer)
            r->seeds[kept++] = *seed;
    }
    r->task->links.repeated = r->count - kept;
    r->count = kept;
}

/* ---- Splits ---------------------------------------------------------------------------------- */

static weir_status split_by_hash(seed_reader *r, weir_error *error) {
    const weir_ingest__schema_task *described = r->schema;
    const weir_ingest__schema_split *split = &described->split;
    weir_cbor_writer w;
    bool has_memory = true;
    uint8_t digest[32];
    weir__sha256 sha;
    weir__sha256_init(&sha);
    weir__cbor_writer_hash(&w, &sha);
    weir_cbor_array(&w, 3);
    weir_cbor_text(&w, "split_v1");
    weir_cbor_text(&w, described->name);
    weir_cbor_uint(&w, split->seed);
    weir_status status = weir_cbor_finish(&w, error);
    weir__sha256_final(&sha, digest);
    WEIR__TRY(status);
    weir_seed seed = weir_seed_load(digest);
    weir_cbor_writer_memory(&w, r->context->env);
    for (uint64_t i = 0; i < r->count && has_memory; i++) {
        raw_seed *at = &r->seeds[i];
        if (i > 0 && at->row == at[-1].row) {
            at->split = at[-1].split;
            continue;
        }
        uint64_t n = 0; /* XXH64 of the CBOR of the row's primary key, or of what the row is sorted by */
        if (r->anchor->plan->primary_key_count == 0)
            n = r->anchor->row_key_hashes[at->row];
        else if ((has_memory = weir_ingest__primary_key_cbor(r->anchor, at->row, &w)))
            n = XXH64(w.data, w.size, 0);
        uint64_t bucket = ((weir_philox(seed, WEIR_DOMAIN_SPLIT, n).k0 >> 32) * 1000) >> 32;
        at->split = bucket < split->permille[0]                        ? WEIR_TRAIN
                    : bucket < split->permille[0] + split->permille[1] ? WEIR_VAL
                                                                       : WEIR_TEST;
    }
    weir_cbor_release(&w);
    return has_memory ? WEIR_OK : weir_ingest__no_memory(error, 1);
}

static weir_status split_seeds(seed_reader *r, weir_error *error) {
    const weir_ingest__schema_split *split = &r->schema->split;
    weir_status status = split->method == WEIR_INGEST__SPLIT_HASH ? split_by_hash(r, error) : WEIR_OK;
    for (uint64_t i = 0; split->method == WEIR_INGEST__SPLIT_TEMPORAL && i < r->count; i++) {
        look_at_memory(r, i);
        int64_t time = r->seeds[i].time;
        r->seeds[i].split = time < split->val ? WEIR_TRAIN : time < split->test ? WEIR_VAL : WEIR_TEST;
    }
    weir_ingest__like_row found = WEIR_INGEST__LIKE_ROW;
    for (uint64_t i = 0; i < r->count && status == WEIR_OK; i++) {
        look_at_memory(r, i);
        (void)weir_ingest__like_split(r->linked->plan->like, r->anchor, r->task->plan->anchor_table,
                                      r->number, r->seeds[i].row, r->seeds[i].time, &found,
                                      &r->seeds[i].split);
    }
    return status;
}

/* Counts the lists of a link task, each of which is in one split. */
static weir_status count_lists(const seed_reader *r, weir_error *error) {
    for (uint64_t i = 0; i < r->count; i++) {
        bool is_first = i == 0 || !is_of_same_list(&r->seeds[i], &r->seeds[i - 1]);
        r->task->links.lists += is_first;
        if (!is_first && r->seeds[i].split != r->seeds[i - 1].split)
            return refuse(r, "the pairs of one source and one time are in two splits, by column ",
                          r->schema->split.column, error);
    }
    return WEIR_OK;
}

/* ---- What the file holds --------------------------------------------------------------------- */

static weir_status allocate_output(seed_reader *r, weir_error *error) {
    weir_ingest__task *task = r->task;
    weir__arena *arena = &task->memory;
    bool is_number = weir_value_of(r->schema->target_stype) == WEIR_VALUE_NUMBER;
    task->rows = weir__arena_take(arena, r->count * sizeof *task->rows);
    if (r->schema->observation_time_column)
        task->times = weir__arena_take(arena, r->count * sizeof *task->times);
    if (r->schema->weight_column)
        task->weights = weir__arena_take(arena, r->count * sizeof *task->weights);
    if (weir_ingest__has_label_times(r->schema))
        task->known = weir__arena_take(arena, r->count * sizeof *task->known);
    if (task->plan->is_cell)
        task->held_out = weir__arena_take_zero(arena, weir__bits_size(r->anchor->row_count), 1);
    else
        task->nulls = weir__arena_take(arena, r->count);
    if (!task->plan->is_cell && is_number)
        task->numbers = weir__arena_take(arena, r->count * sizeof *task->numbers);
    else if (!task->plan->is_cell)
        task->integers = weir__arena_take(arena, r->count * sizeof *task->integers);
    return arena->is_short ? weir_ingest__no_memory(error, r->count * 24) : WEIR_OK;
}

static void group_by_split(seed_reader *r) {
    uint64_t next[WEIR_SPLITS] = {0}, *start = r->task->split_start;
    for (uint64_t i = 0; i < r->count; i++) {
        look_at_memory(r, i);
        next[r->seeds[i].split]++;
    }
    for (int split = 0; split < WEIR_SPLITS; split++) {
        start[split + 1] = start[split] + next[split];
        next[split] = start[split];
    }
    for (uint64_t i = 0; i < r->count; i++) {
        look_at_memory(r, i);
        const raw_seed *seed = &r->seeds[i];
        uint64_t place = next[r->seeds[i].split]++;
        weir_ingest__task *task = r->task;
        task->rows[place] = seed->row;
        if (task->times)
            task->times[place] = seed->time;
        if (task->weights)
            task->weights[place] = seed->weight;
        if (task->known)
            task->known[place] = seed->known;
        if (task->held_out && seed->split != WEIR_TRAIN)
            weir__set_bit(task->held_out, seed->row);
        if (task->nulls)
            task->nulls[place] = seed->is_null;
        if (task->numbers)
            task->numbers[place] = seed->number;
        if (task->integers)
            task->integers[place] = seed->integer;
    }
    assert(start[WEIR_SPLITS] == r->count && "a seed that is in no split");
    r->task->seed_count = r->count;
}

/* A derived numerical target has statistics of its own, over the seeds in order, or over those of train. */
static weir_status describe_targets(seed_reader *r, weir_error *error) {
    weir_ingest__task *task = r->task;
    if (weir_value_of(r->schema->target_stype) == WEIR_VALUE_CATEGORY &&
        !weir_ingest__rank_categories(r->context->env, &task->categories))
        return weir_ingest__no_memory(error, task->categories.dictionary.count);
    if (weir_value_of(r->schema->target_stype) != WEIR_VALUE_NUMBER)
        return WEIR_OK;
    for (uint64_t i = 0; i < r->count; i++) {
        task->not_finite += r->seeds[i].is_not_finite;
        bool is_counted = !r->schema->has_train_statistics || r->seeds[i].split == WEIR_TRAIN;
        task->numbers[i] = r->seeds[i].is_null || !is_counted ? NAN : r->seeds[i].number;
    }
    if (!weir_ingest__like_target_statistics(r->linked->plan->like, task->plan->column_idx,
                                             &task->statistics))
        task->statistics = weir_ingest__statistics_of(task->numbers, r->count);
    return WEIR_OK;
}

/* ---- All tasks ------------------------------------------------------------------------------- */

typedef struct task_work {
    weir_ingest__context *context;
    weir_ingest__tasks *out;
    weir_ingest__key_index *indexes; /* a table: of its primary key, if a query's rows are looked up in it */
    atomic_bool has_failed;          /* a worker has, and not for its task alone: the others stop early */
} task_work;

static weir_status make_seeds(seed_reader *r, uint32_t worker, weir_error *error) {
    weir_ingest__task *task = r->task;
    bool is_link = weir_ingest__is_link(r->schema);
    if (!task->plan->is_cell)
        WEIR__TRY(weir_ingest__like_categories(r->linked->plan->like, task->plan->column_idx, r->context->env,
                                               &task->categories, &task->memory, error));
    if (is_link)
        WEIR__TRY(weir_ingest__make_links(r->linked, task, error));
    WEIR__TRY(r->schema->query ? read_query(r, r->context->sessions[worker], error)
                               : take_all_rows(r, error));
    if (r->schema->query)
        WEIR__TRY(sort_seeds(r, error));
    if (is_link)
        drop_repeated(r);
    WEIR__TRY(split_seeds(r, error));
    if (is_link)
        WEIR__TRY(count_lists(r, error));
    WEIR__TRY(allocate_output(r, error));
    if (!task->plan->is_cell)
        WEIR__TRY(describe_targets(r, error));
    group_by_split(r);
    return task->known ? weir_ingest__make_label_lists(r->anchor->row_count, task, error) : WEIR_OK;
}

static weir_status run_task(void *argument, size_t index, uint32_t worker, weir_error *error) {
    task_work *work = argument;
    const weir_ingest__task_plan *plan = &work->out->plan->tasks[index];
    const weir_env *env = work->context->env;
    seed_reader r = {.context = work->context,
                     .linked = work->out->linked,
                     .schema = plan->schema,
                     .task = &work->out->list[index],
                     .number = WEIR__NARROW(uint32_t, index),
                     .anchor = &work->out->ordered->tables[plan->anchor_table],
                     .index = &work->indexes[plan->anchor_table],
                     .destinations = &work->indexes[plan->link_table]};
    if (atomic_load_explicit(&work->has_failed, memory_order_relaxed))
        return WEIR_OK;
    weir_ingest__dictionary_init(&r.key_texts, env);
    weir_status status = make_seeds(&r, worker, error);
    if (status != WEIR_OK && status != WEIR_TASK_INVALID)
        atomic_store_explicit(&work->has_failed, true, memory_order_relaxed);
    weir_ingest__dictionary_release(&r.key_texts);
    weir__release(env, r.seeds);
    return status;
}

/* An index over the key of every table that a query's anchors and destinations are looked up in. */
static weir_status index_keys(task_work *work, weir_error *error) {
    const weir_ingest__plan *plan = work->out->plan;
    for (uint32_t i = 0; i < 2 * plan->task_count; i++) {
        const weir_ingest__task_plan *task = &plan->tasks[i / 2];
        bool is_of_destination = i % 2 == 1;
        uint32_t t = is_of_destination ? task->link_table : task->anchor_table, duplicate;
        if (is_of_destination ? !weir_ingest__is_link(task->schema) : !task->schema->query)
            continue;
        weir_ingest__key_columns of = weir_ingest__primary_key_of(&work->out->ordered->tables[t]);
        if (!work->indexes[t].env)
            WEIR__TRY(
                weir_ingest__key_index_make(work->context->env, &of, &work->indexes[t], &duplicate, error));
    }
    return WEIR_OK;
}

/* Integers of times that count seconds because the task does not say otherwise. */
static weir_status check_units(weir_ingest__context *context, const weir_ingest__task *task,
                               weir_error *error) {
    const weir_ingest__schema_task *described = task->plan->schema;
    weir_ingest__unsaid unsaid = task->unsaid_time;
    char span[100];
    weir_ingest__unsaid_join(&unsaid, &task->unsaid_target);
    if (unsaid.count == 0)
        return WEIR_OK;
    const char *doubt = weir_ingest__unsaid_doubt(&unsaid);
    if (doubt)
        return weir_ingest__plan_refuse(error, WEIR_TASK_INVALID, doubt, "$.tasks.%s:", described->name);
    weir_ingest__unsaid_span(&unsaid, span, sizeof span);
    weir_ingest__warn(
        context, "unit_not_given", NULL, NULL, described->name,
        "the query of task %s gives times as integers, and the task does not say their \"unit\": taken as "
        "seconds, they are %s; write \"unit\": \"s\" if that is right",
        described->name, span);
    return WEIR_OK;
}

static void note_targets(weir_ingest__context *context, const weir_ingest__task *task) {
    bool is_one = task->not_finite == 1;
    if (task->not_finite > 0)
        weir_ingest__note(context, "targets_not_finite", "%llu target%s of task %s %s not finite: %s null",
                          (unsigned long long)task->not_finite, is_one ? "" : "s", task->plan->schema->name,
                          is_one ? "is" : "are", is_one ? "it counts as" : "they count as");
}

weir_status weir_ingest__make_tasks(weir_ingest__context *context, const weir_ingest__linked *linked,
                                    weir_ingest__tasks *out, weir_error *error) {
    const weir_ingest__plan *plan = linked->plan;
    const weir_env *env = context->env;
    *out = (weir_ingest__tasks){.plan = plan, .ordered = linked->ordered, .linked = linked, .env = env};
    weir__arena_init(&out->arena, env);
    out->list = weir__arena_take_zero(&out->arena, plan->task_count, sizeof *out->list);
    for (uint32_t i = 0; i < plan->task_count && out->list; i++) {
        out->list[i].plan = &plan->tasks[i];
        out->list[i].categories.like_count = WEIR_NONE;
        weir__arena_init(&out->list[i].memory, env);
    }
    task_work work = {.context = context, .out = out};
    work.indexes = weir__arena_take_zero(&out->arena, plan->table_count, sizeof *work.indexes);
    if (out->arena.is_short)
        return weir_ingest__no_memory(error, plan->task_count * sizeof *out->list);
    weir_ingest__begin_phase(context, "tasks", 0, 0);
    weir_status status = index_keys(&work, error);
    if (status == WEIR_OK)
        status =
            weir_ingest__for_each(context, context->session_count, plan->task_count, run_task, &work, error);
    for (uint32_t t = 0; t < plan->table_count; t++)
        weir_ingest__key_index_release(&work.indexes[t]);
    for (uint32_t i = 0; i < plan->task_count && status == WEIR_OK; i++) {
        note_targets(context, &out->list[i]);
        status = check_units(context, &out->list[i], error);
    }
    return status;
}

void weir_ingest__tasks_release(weir_ingest__tasks *tasks) {
    for (uint32_t i = 0; tasks->list && i < tasks->plan->task_count; i++) {
        weir_ingest__categories_release(tasks->env, &tasks->list[i].categories);
        weir__arena_release(&tasks->list[i].memory);
    }
    weir__arena_release(&tasks->arena);
    *tasks = (weir_ingest__tasks){0};
}
