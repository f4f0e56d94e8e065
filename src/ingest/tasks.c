/* Tasks: each one's query is run by the source, its rows become seeds, the seeds are sorted and split.
 *
 * Tasks are independent; each runs on a session of its own. What a task yields is what the file holds:
 * arrays in the order of splits, so that a large task costs its output and one sort. */
#define XXH_INLINE_ALL
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "ingest/anchor_key.h"
#include "ingest/like.h"
#include "weir_tool/philox.h"

enum { ADVANCE_EVERY = 4096 };

typedef struct raw_seed {
    int64_t time;
    int64_t known; /* when its label is, if labels have a time */
    double weight;
    union {
        double number;
        int64_t
            integer; /* microseconds, 0 or 1, a number in the task's categories, or a destination's place */
    };
    uint32_t row; /* in the anchor table */
    bool is_null;
    uint8_t split;
} raw_seed;

typedef struct seed_reader {
    weir_ingest__ingest *ingest;
    weir_ingest__task_plan *task;
    uint32_t number; /* of the task */
    const weir_ingest__table_plan *anchor;
    const weir_ingest__key_index *index;
    weir_ingest__key *keys;            /* of one row of the query */
    weir_ingest__dictionary key_texts; /* keeps the texts of keys once */
    raw_seed *seeds;
    size_t capacity;
    uint64_t count;
    uint64_t dropped;
    uint64_t early;        /* observed before their anchor */
    uint64_t late;         /* pairs whose destination was not there yet, */
    uint64_t repeated;     /* and that were there already */
    uint32_t *key_columns; /* of the query, one per column of the primary key, the destination's after */
    uint32_t target_column, time_column, weight_column, known_column, split_column; /* WEIR_NONE */
} seed_reader;

static weir_status refuse(const seed_reader *r, const char *what, const char *detail, weir_error *error) {
    return weir__fail(error, WEIR_TASK_INVALID, WEIR_INGEST__OPERATOR, "task %s: %s%s", r->task->schema->name,
                      what, detail);
}

/* ---- Rows of the query ----------------------------------------------------------------------- */

static weir_status find_query_column(const seed_reader *r, const weir_ingest__cursor *cursor,
                                     const char *name, uint32_t *out, weir_error *error) {
    *out = WEIR_NONE;
    for (uint32_t c = 0; name && c < cursor->column_count && *out == WEIR_NONE; c++)
        if (strcmp(cursor->column_names[c], name) == 0)
            *out = c;
    if (name && *out == WEIR_NONE)
        return refuse(r, "the query has no column ", name, error);
    return WEIR_OK;
}

static weir_status find_query_columns(seed_reader *r, const weir_ingest__cursor *cursor, weir_error *error) {
    const weir_ingest__schema_task *described = r->task->schema;
    const char *split = described->split.method == WEIR_INGEST__SPLIT_COLUMN ? described->split.column : NULL;
    const char *target = weir_ingest__is_link(described) ? NULL : described->target_column;
    uint32_t *of_destination = r->key_columns + described->anchor_key_count;
    weir_status status = WEIR_OK;
    for (uint32_t i = 0; i < described->anchor_key_count && status == WEIR_OK; i++)
        status = find_query_column(r, cursor, described->anchor_key[i], &r->key_columns[i], error);
    for (uint32_t i = 0; i < described->destination_key_count && status == WEIR_OK; i++)
        status = find_query_column(r, cursor, described->destination_key[i], &of_destination[i], error);
    if (status == WEIR_OK)
        status = find_query_column(r, cursor, target, &r->target_column, error);
    if (status == WEIR_OK)
        status = find_query_column(r, cursor, described->observation_time_column, &r->time_column, error);
    if (status == WEIR_OK)
        status = find_query_column(r, cursor, described->weight_column, &r->weight_column, error);
    if (status == WEIR_OK)
        status = find_query_column(r, cursor, described->label_known_column, &r->known_column, error);
    if (status == WEIR_OK)
        status = find_query_column(r, cursor, split, &r->split_column, error);
    return status;
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
    const weir_ingest__schema_task *described = r->task->schema;
    char buffer[WEIR_INGEST__TEXT_FORM_SIZE];
    weir_ingest__bytes text;
    uint32_t category = 0;
    bool truth = false;
    weir_ingest__fit fit = WEIR_INGEST__UNFIT;
    if (described->target_stype == WEIR_NUMERICAL) {
        fit = weir_ingest__to_number(value, &seed->number);
    } else if (described->target_stype == WEIR_TIMESTAMP) {
        fit = weir_ingest__to_time(value, &described->form, r->task->is_cell ? NULL : &r->task->unsaid_target,
                                   &seed->integer);
    } else if (described->target_stype == WEIR_BOOLEAN) {
        fit = weir_ingest__to_boolean(value, &truth);
        seed->integer = truth;
    } else {
        fit = weir_ingest__to_text(value, buffer, &text);
        if (fit == WEIR_INGEST__FITS && !weir__utf8_is_valid(text.data, text.size))
            return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                              "task %s: column %s: text that is not UTF-8", described->name,
                              described->target_column);
        if (fit == WEIR_INGEST__FITS && !r->task->is_cell &&
            !weir_ingest__dictionary_intern(&r->task->categories, &r->task->strings, text.data, text.size,
                                            &category))
            return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, text.size);
        seed->integer = category;
        if (fit == WEIR_INGEST__FITS && category >= r->task->like_categories) {
            r->task->new_categories++;
            fit = WEIR_INGEST__IS_NULL;
        }
    }
    if (fit == WEIR_INGEST__UNFIT)
        return refuse_value(r, described->target_column, value, "does not fit the target's type", error);
    seed->is_null = fit != WEIR_INGEST__FITS;
    if (seed->is_null)
        seed->integer = 0;
    return WEIR_OK;
}

/* The anchor row's time, or "sees everything" where it has none. */
static int64_t anchor_time(const seed_reader *r, uint32_t row) {
    int64_t time = weir_ingest__row_time(r->anchor, row);
    return time == WEIR_TIME_ALWAYS ? INT64_MAX : time;
}

static weir_status read_time(const seed_reader *r, const weir_ingest__value *value, raw_seed *seed,
                             weir_error *error) {
    const weir_ingest__schema_task *described = r->task->schema;
    weir_ingest__fit fit = weir_ingest__to_time(value, &described->form, &r->task->unsaid_time, &seed->time);
    if (fit == WEIR_INGEST__UNFIT)
        return refuse_value(r, described->observation_time_column, value,
                            "is not a time that is read here: write it in ISO 8601, or say \"unit\" or "
                            "\"format\" in the task",
                            error);
    if (fit == WEIR_INGEST__IS_NULL && weir_ingest__is_link(described))
        return refuse(r, "the query gives a pair whose observation time is null, in column ",
                      described->observation_time_column, error);
    if (fit == WEIR_INGEST__IS_NULL)
        seed->time = anchor_time(r, seed->row);
    return WEIR_OK;
}

/* When the label of a seed is known, which is complete otherwise. */
static weir_status read_known(const seed_reader *r, const weir_ingest__value *cells, raw_seed *seed,
                              weir_error *error) {
    const weir_ingest__schema_task *described = r->task->schema;
    int64_t known = WEIR_TIME_NEVER;
    if (described->has_horizon) {
        if (__builtin_add_overflow(seed->time, described->horizon, &known))
            known = WEIR_TIME_NEVER;
    } else {
        const weir_ingest__value *value = &cells[r->known_column];
        weir_ingest__fit fit = weir_ingest__to_time(value, &described->form, &r->task->unsaid_time, &known);
        if (fit == WEIR_INGEST__UNFIT)
            return refuse_value(r, described->label_known_column, value,
                                "is not a time that is read here: write it in ISO 8601, or say \"unit\" or "
                                "\"format\" in the task",
                                error);
        known = fit != WEIR_INGEST__FITS ? WEIR_TIME_NEVER : known > seed->time ? known : seed->time;
    }
    seed->known = seed->is_null || seed->time == INT64_MAX ? WEIR_TIME_NEVER : known;
    return WEIR_OK;
}

static weir_status read_weight(const seed_reader *r, const weir_ingest__value *value, raw_seed *seed,
                               weir_error *error) {
    double weight = 0;
    if (weir_ingest__to_number(value, &weight) != WEIR_INGEST__FITS || weight < 0)
        return refuse_value(r, r->task->schema->weight_column, value,
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
    return refuse_value(r, r->task->schema->split.column, value, "is not train, val or test", error);
}

/* A seed before its anchor is counted, and moved where the task says so. */
static void check_early(seed_reader *r, raw_seed *seed) {
    int64_t since = weir_ingest__row_time(r->anchor, seed->row);
    if (seed->time >= since)
        return;
    r->early++;
    if (r->task->schema->before_anchor == WEIR_BEFORE_ANCHOR_MOVE)
        seed->time = since;
}

/* The row that columns of the query are the key of, or WEIR_NONE. */
static weir_status find_row(seed_reader *r, const weir_ingest__key_index *index, const uint32_t *columns,
                            uint32_t count, const weir_ingest__value *cells, uint32_t *row,
                            weir_error *error) {
    for (uint32_t i = 0; i < count; i++)
        if (!weir_ingest__key_from_value(&cells[columns[i]], &r->task->strings, &r->key_texts, &r->keys[i]))
            return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, 1);
    *row = weir_ingest__key_index_find(index, r->keys);
    return WEIR_OK;
}

static weir_status read_destination(seed_reader *r, const weir_ingest__value *cells, raw_seed *seed,
                                    bool *is_dropped, weir_error *error) {
    const weir_ingest__schema_task *described = r->task->schema;
    uint32_t row = WEIR_NONE;
    weir_status status =
        find_row(r, r->ingest->key_indexes[r->task->link.table], r->key_columns + described->anchor_key_count,
                 described->destination_key_count, cells, &row, error);
    *is_dropped |= row == WEIR_NONE;
    seed->integer = row == WEIR_NONE ? 0 : r->task->link.places[row];
    return status;
}

static weir_status read_seed(seed_reader *r, const weir_ingest__value *cells, weir_error *error) {
    raw_seed seed = {0};
    bool is_link = weir_ingest__is_link(r->task->schema);
    weir_status status =
        find_row(r, r->index, r->key_columns, r->task->schema->anchor_key_count, cells, &seed.row, error);
    bool is_dropped = seed.row == WEIR_NONE;
    if (status == WEIR_OK)
        status = is_link ? read_destination(r, cells, &seed, &is_dropped, error)
                         : read_target(r, &cells[r->target_column], &seed, error);
    if (status == WEIR_OK && !is_dropped) {
        if (r->time_column != WEIR_NONE)
            status = read_time(r, &cells[r->time_column], &seed, error);
        else
            seed.time = anchor_time(r, seed.row);
        if (status == WEIR_OK)
            check_early(r, &seed);
    }
    if (status == WEIR_OK && !is_dropped && weir_ingest__has_label_times(r->task->schema))
        status = read_known(r, cells, &seed, error);
    if (status == WEIR_OK && !is_dropped && r->weight_column != WEIR_NONE)
        status = read_weight(r, &cells[r->weight_column], &seed, error);
    if (status == WEIR_OK && r->split_column != WEIR_NONE)
        status = read_split(r, &cells[r->split_column], &seed, error);
    if (status != WEIR_OK)
        return status;
    if (is_dropped) {
        r->dropped++;
        return WEIR_OK;
    }
    if (is_link && r->task->link.times[seed.integer] > seed.time) {
        r->late++;
        return WEIR_OK;
    }
    void *seeds = r->seeds;
    if (is_link && r->count == WEIR_STORE__ROWS_MAX)
        return refuse(r, "it has more than 2^32 - 2 pairs; take fewer in its query", "", error);
    if (!weir__grow(r->ingest->context.env, &seeds, &r->capacity, r->count + 1, sizeof seed))
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, r->count * sizeof seed);
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

static weir_status read_cursor(seed_reader *r, weir_ingest__cursor *cursor, weir_error *error) {
    weir_ingest__rows rows;
    weir_status status;
    uint64_t unreported = 0;
    while ((status = cursor->next(cursor, &rows, error)) == WEIR_OK && rows.row_count > 0) {
        for (size_t i = 0; i < rows.row_count; i++) {
            weir_status seed_status = read_seed(r, rows.cells + i * cursor->column_count, error);
            if (seed_status != WEIR_OK)
                return seed_status;
        }
        unreported += rows.row_count;
        if (unreported < ADVANCE_EVERY)
            continue;
        if (!weir_ingest__advance(&r->ingest->context, unreported))
            return weir_ingest__cancelled(error);
        unreported = 0;
    }
    (void)weir_ingest__advance(&r->ingest->context, unreported);
    return blame_task(r, status, error);
}

static weir_status read_query(seed_reader *r, weir_ingest__source *session, weir_error *error) {
    weir_ingest__cursor *cursor = NULL;
    const weir_ingest__schema_task *described = r->task->schema;
    uint32_t key_count = described->anchor_key_count + described->destination_key_count;
    weir_ingest__asked_key anchor = {"anchor", r->task->anchor_table, described->anchor_key,
                                     described->anchor_key_count};
    weir_ingest__asked_key destination = {"destination", r->task->link.table, described->destination_key,
                                          described->destination_key_count};
    r->keys = weir__allocate_zero(r->ingest->context.env, key_count, sizeof *r->keys);
    r->key_columns = weir__allocate_zero(r->ingest->context.env, key_count, sizeof *r->key_columns);
    if (!r->keys || !r->key_columns)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, key_count * sizeof *r->keys);
    weir_status status = session->kind->query(session, r->task->schema->query, &cursor, error);
    if (status != WEIR_OK)
        return blame_task(r, status, error);
    status = find_query_columns(r, cursor, error);
    if (status == WEIR_OK)
        status = weir_ingest__check_asked_key(r->ingest, r->task, &anchor, cursor, r->key_columns, error);
    if (status == WEIR_OK)
        status = weir_ingest__check_asked_key(r->ingest, r->task, &destination, cursor,
                                              r->key_columns + described->anchor_key_count, error);
    if (status == WEIR_OK)
        status = read_cursor(r, cursor, error);
    cursor->close(cursor);
    return status;
}

/* A task that weir makes itself: every row of the table. */
static weir_status take_all_rows(seed_reader *r, weir_error *error) {
    r->count = r->anchor->row_count;
    r->seeds = weir__allocate_zero(r->ingest->context.env, r->count, sizeof *r->seeds);
    if (!r->seeds)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, r->count * sizeof *r->seeds);
    for (uint32_t row = 0; row < r->anchor->row_count; row++) {
        r->seeds[row].row = row;
        r->seeds[row].time = anchor_time(r, row);
    }
    (void)weir_ingest__advance(&r->ingest->context, r->count);
    return WEIR_OK;
}

/* ---- Sorting --------------------------------------------------------------------------------- */

/* The order of canonical CBOR: integers by size with the negative ones last, floats by their bits, text
 * shorter first; null (f6) comes after all of them but the floats (fb). */
static int compare_targets(const weir_ingest__task_plan *task, const raw_seed *a, const raw_seed *b) {
    weir_stype stype = task->schema->target_stype;
    if (a->is_null || b->is_null) {
        int order = a->is_null - b->is_null;
        return stype == WEIR_NUMERICAL ? -order : order;
    }
    if (stype == WEIR_CATEGORICAL) {
        const weir_ingest__string *x = task->categories.strings[a->integer];
        const weir_ingest__string *y = task->categories.strings[b->integer];
        return weir__key_compare(x->bytes, x->size, y->bytes, y->size);
    }
    uint64_t x = (uint64_t)a->integer, y = (uint64_t)b->integer; /* a number's bits too */
    if (stype == WEIR_TIMESTAMP && a->integer < 0 && b->integer < 0)
        return x > y ? -1 : x < y;
    return x < y ? -1 : x > y;
}

typedef struct seed_order {
    const weir_ingest__task_plan *task;
    const raw_seed *seeds;
} seed_order;

static int compare_seeds(const void *context, uint64_t a, uint64_t b) {
    const seed_order *order = context;
    const raw_seed *x = &order->seeds[a], *y = &order->seeds[b];
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    int by_target = order->task->is_cell ? 0 : compare_targets(order->task, x, y);
    if (by_target || x->weight != y->weight)
        return by_target ? by_target : x->weight < y->weight ? -1 : 1;
    return (x->known > y->known) - (x->known < y->known);
}

static weir_status sort_seeds(seed_reader *r, weir_error *error) {
    const weir_env *env = r->ingest->context.env;
    seed_order order = {r->task, r->seeds};
    weir_ingest__sort_item *items = weir__allocate(env, r->count, sizeof *items);
    raw_seed *sorted = weir__allocate(env, r->count, sizeof *sorted);
    bool is_fine = items && sorted;
    for (uint64_t i = 0; is_fine && i < r->count; i++)
        items[i] = (weir_ingest__sort_item){r->seeds[i].row, i};
    is_fine = is_fine && weir_ingest__sort(env, items, r->count, compare_seeds, &order);
    for (uint64_t i = 0; is_fine && i < r->count; i++)
        sorted[i] = r->seeds[items[i].index];
    weir__release(env, items);
    if (!is_fine) {
        weir__release(env, sorted);
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, r->count * sizeof *sorted);
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
    r->repeated = r->count - kept;
    r->count = kept;
}

/* ---- Splits ---------------------------------------------------------------------------------- */

static weir_status split_seed_of(const weir_ingest__schema_task *task, weir_seed *out, weir_error *error) {
    uint8_t digest[32];
    weir__sha256 sha;
    weir_cbor_writer w;
    weir__sha256_init(&sha);
    weir__cbor_writer_hash(&w, &sha);
    weir_cbor_array(&w, 3);
    weir_cbor_text(&w, "split_v1");
    weir_cbor_text(&w, task->name);
    weir_cbor_uint(&w, task->split.seed);
    weir_status status = weir_cbor_finish(&w, error);
    weir__sha256_final(&sha, digest);
    *out = weir_seed_load(digest);
    return status;
}

/* XXH64 of the CBOR of a row's primary key, or of what the row is sorted by. */
static bool row_hash(const weir_ingest__table_plan *table, uint32_t row, weir_cbor_writer *w, uint64_t *out) {
    if (table->primary_key_count == 0) {
        *out = table->row_key_hashes[row];
        return true;
    }
    if (!weir_ingest__primary_key_cbor(table, row, w))
        return false;
    *out = XXH64(w->data, w->size, 0);
    return true;
}

static uint8_t split_of_bucket(const weir_ingest__schema_split *split, uint64_t bucket) {
    if (bucket < split->permille[0])
        return WEIR_TRAIN;
    return bucket < split->permille[0] + split->permille[1] ? WEIR_VAL : WEIR_TEST;
}

static weir_status split_by_hash(seed_reader *r, weir_error *error) {
    const weir_ingest__schema_task *described = r->task->schema;
    weir_seed seed;
    weir_cbor_writer w;
    bool has_memory = true;
    weir_status status = split_seed_of(described, &seed, error);
    weir_cbor_writer_memory(&w, r->ingest->context.env);
    for (uint64_t i = 0; i < r->count && has_memory && status == WEIR_OK; i++) {
        uint64_t n;
        if (i > 0 && r->seeds[i].row == r->seeds[i - 1].row) {
            r->seeds[i].split = r->seeds[i - 1].split;
            continue;
        }
        has_memory = row_hash(r->anchor, r->seeds[i].row, &w, &n);
        if (!has_memory)
            break;
        weir_random random = weir_philox(seed, WEIR_DOMAIN_SPLIT, n);
        r->seeds[i].split = split_of_bucket(&described->split, ((random.k0 >> 32) * 1000) >> 32);
    }
    weir_cbor_release(&w);
    return has_memory ? status : weir__out_of_memory(error, WEIR_INGEST__OPERATOR, 1);
}

static weir_status split_seeds(seed_reader *r, weir_error *error) {
    const weir_ingest__schema_split *split = &r->task->schema->split;
    weir_status status = split->method == WEIR_INGEST__SPLIT_HASH ? split_by_hash(r, error) : WEIR_OK;
    for (uint64_t i = 0; split->method == WEIR_INGEST__SPLIT_TEMPORAL && i < r->count; i++) {
        int64_t time = r->seeds[i].time;
        r->seeds[i].split = time < split->val ? WEIR_TRAIN : time < split->test ? WEIR_VAL : WEIR_TEST;
    }
    weir_ingest__like_row found = WEIR_INGEST__LIKE_ROW;
    for (uint64_t i = 0; i < r->count && status == WEIR_OK; i++)
        (void)weir_ingest__like_split(r->ingest, r->number, r->seeds[i].row, r->seeds[i].time, &found,
                                      &r->seeds[i].split);
    return status;
}

/* Counts the lists of a link task, each of which is in one split. */
static weir_status count_lists(const seed_reader *r, weir_task *info, weir_error *error) {
    info->link.late = r->late;
    info->link.repeated = r->repeated;
    for (uint64_t i = 0; i < r->count; i++) {
        bool is_first = i == 0 || !is_of_same_list(&r->seeds[i], &r->seeds[i - 1]);
        info->link.lists += is_first;
        if (!is_first && r->seeds[i].split != r->seeds[i - 1].split)
            return refuse(r, "the pairs of one source and one time are in two splits, by column ",
                          r->task->schema->split.column, error);
    }
    return WEIR_OK;
}

/* ---- What the file holds --------------------------------------------------------------------- */

static weir_status allocate_output(seed_reader *r, weir_error *error) {
    const weir_env *env = r->ingest->context.env;
    weir_ingest__task_plan *task = r->task;
    bool is_fine = true;
    task->rows = weir__allocate(env, r->count, sizeof *task->rows);
    is_fine = task->rows != NULL;
    if (task->schema->observation_time_column)
        is_fine = (task->times = weir__allocate(env, r->count, sizeof *task->times)) && is_fine;
    if (task->schema->weight_column)
        is_fine = (task->weights = weir__allocate(env, r->count, sizeof *task->weights)) && is_fine;
    if (weir_ingest__has_label_times(task->schema))
        is_fine = (task->known = weir__allocate(env, r->count, sizeof *task->known)) && is_fine;
    if (task->is_cell) {
        task->held_out = weir__allocate_zero(env, weir__bits_size(r->anchor->row_count), 1);
        is_fine = is_fine && task->held_out;
    } else {
        task->nulls = weir__allocate(env, r->count, 1);
        if (task->schema->target_stype == WEIR_NUMERICAL)
            is_fine = (task->numbers = weir__allocate(env, r->count, sizeof *task->numbers)) && is_fine;
        else
            is_fine = (task->integers = weir__allocate(env, r->count, sizeof *task->integers)) && is_fine;
        is_fine = is_fine && task->nulls;
    }
    return is_fine ? WEIR_OK : weir__out_of_memory(error, WEIR_INGEST__OPERATOR, r->count * 24);
}

static void place_seed(seed_reader *r, const raw_seed *seed, uint64_t place) {
    weir_ingest__task_plan *task = r->task;
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

static void group_by_split(seed_reader *r, weir_task *info) {
    uint64_t next[WEIR_SPLITS] = {0};
    for (uint64_t i = 0; i < r->count; i++)
        next[r->seeds[i].split]++;
    for (int split = 0; split < WEIR_SPLITS; split++) {
        info->split_start[split + 1] = info->split_start[split] + next[split];
        next[split] = info->split_start[split];
    }
    for (uint64_t i = 0; i < r->count; i++)
        place_seed(r, &r->seeds[i], next[r->seeds[i].split]++);
    r->task->seed_count = info->seed_count = r->count;
    info->dropped = r->dropped;
    r->task->early = r->early;
    info->early_seeds = info->before_anchor == WEIR_BEFORE_ANCHOR_KEEP ? 0 : r->early;
}

/* A derived numerical target has statistics of its own, over the seeds in order, or over those of train. */
static weir_status describe_targets(seed_reader *r, weir_column *column, weir_error *error) {
    const weir_env *env = r->ingest->context.env;
    weir_ingest__task_plan *task = r->task;
    if (task->schema->target_stype == WEIR_CATEGORICAL) {
        if (task->like_categories != WEIR_NONE)
            task->categories.count = task->like_categories; /* no seed has one of the others */
        task->category_ranks = weir_ingest__rank_strings(env, &task->categories);
        if (!task->category_ranks)
            return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, task->categories.count);
    }
    if (task->schema->target_stype != WEIR_NUMERICAL)
        return WEIR_OK;
    for (uint64_t i = 0; i < r->count; i++) {
        bool is_counted = !task->schema->has_train_statistics || r->seeds[i].split == WEIR_TRAIN;
        task->numbers[i] = r->seeds[i].is_null || !is_counted ? NAN : r->seeds[i].number;
    }
    if (!weir_ingest__like_target_statistics(r->ingest, r->ingest->info_tasks[r->number].column,
                                             &column->statistics))
        column->statistics = weir_ingest__statistics_of(task->numbers, r->count);
    return WEIR_OK;
}

static weir_status finish_seeds(seed_reader *r, uint32_t number, weir_error *error) {
    weir_task *info = &r->ingest->info_tasks[number];
    bool is_link = weir_ingest__is_link(r->task->schema);
    weir_status status = r->task->schema->query ? sort_seeds(r, error) : WEIR_OK;
    if (status == WEIR_OK && is_link)
        drop_repeated(r);
    if (status == WEIR_OK)
        status = split_seeds(r, error);
    if (status == WEIR_OK && is_link)
        status = count_lists(r, info, error);
    if (status == WEIR_OK)
        status = allocate_output(r, error);
    if (status == WEIR_OK && !r->task->is_cell)
        status = describe_targets(r, &r->ingest->info_columns[info->column], error);
    if (status == WEIR_OK)
        group_by_split(r, info);
    if (status == WEIR_OK && r->task->known)
        status = weir_ingest__make_label_lists(r->ingest, r->task, info, error);
    info->seed_times = (const uint8_t *)r->task->times;
    return status;
}

static void run_task(void *context, size_t index, uint32_t worker) {
    weir_ingest__ingest *ingest = context;
    weir_ingest__task_plan *task = &ingest->tasks[index];
    seed_reader r = {.ingest = ingest,
                     .task = task,
                     .number = WEIR__NARROW(uint32_t, index),
                     .anchor = &ingest->tables[task->anchor_table],
                     .index = ingest->key_indexes[task->anchor_table]};
    if (atomic_load_explicit(&ingest->has_failed, memory_order_relaxed))
        return;
    weir_ingest__dictionary_init(&r.key_texts, ingest->context.env);
    task->status = task->is_cell ? WEIR_OK
                                 : weir_ingest__like_categories(ingest, ingest->info_tasks[index].column,
                                                                &task->categories, &task->strings,
                                                                &task->like_categories, &task->error);
    if (task->status == WEIR_OK && weir_ingest__is_link(task->schema))
        task->status = weir_ingest__make_link(ingest, &task->link, &task->error);
    if (task->status == WEIR_OK)
        task->status = task->schema->query ? read_query(&r, ingest->context.sessions[worker], &task->error)
                                           : take_all_rows(&r, &task->error);
    if (task->status == WEIR_OK)
        task->status = finish_seeds(&r, WEIR__NARROW(uint32_t, index), &task->error);
    if (task->status != WEIR_OK && task->status != WEIR_TASK_INVALID)
        atomic_store_explicit(&ingest->has_failed, true, memory_order_relaxed);
    weir_ingest__dictionary_release(&r.key_texts);
    weir__release(ingest->context.env, r.keys);
    weir__release(ingest->context.env, r.key_columns);
    weir__release(ingest->context.env, r.seeds);
}

/* Integers of times that count seconds because the task does not say otherwise. */
static weir_status check_units(weir_ingest__ingest *ingest, const weir_ingest__task_plan *task,
                               weir_error *error) {
    const weir_ingest__schema_task *described = task->schema;
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
        &ingest->context, "unit_not_given", NULL, NULL, described->name,
        "the query of task %s gives times as integers, and the task does not say their \"unit\": taken as "
        "seconds, they are %s; write \"unit\": \"s\" if that is right",
        described->name, span);
    return WEIR_OK;
}

weir_status weir_ingest__make_tasks(weir_ingest__ingest *ingest, weir_error *error) {
    weir_ingest__begin_phase(&ingest->context, "tasks", 0, 0);
    weir_status status = weir_ingest__index_keys(ingest, error);
    if (status != WEIR_OK)
        return status;
    weir__parallel(ingest->context.env, ingest->context.session_count, ingest->task_count, run_task, ingest);
    for (uint32_t i = 0; i < ingest->task_count; i++)
        if (ingest->tasks[i].status != WEIR_OK) {
            if (error)
                *error = ingest->tasks[i].error;
            return ingest->tasks[i].status;
        }
    for (uint32_t i = 0; i < ingest->task_count && status == WEIR_OK; i++)
        status = check_units(ingest, &ingest->tasks[i], error);
    return status;
}
