/* See base_rows.h. Two rows are equal if their CBOR is; it is compared by 128 bits of its BLAKE3. */
#include "ingest/base_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "ingest/kept_rows.h"
#include "ingest/sql.h"
#include "weir/store.h"
#include "weir_tool/documents.h"
#include "weir_tool/store_tools.h"

#define DAY ((int64_t)86400 * 1000000) /* in microseconds */

typedef enum reading { READ_WHOLE, READ_FROM_CUT, READ_COMPARED } reading;

/* A row that the source has to give again, as often as it was kept. */
typedef struct expected_row {
    uint64_t hash[2];
    uint64_t left;
} expected_row;

/* What a part of kept rows found. */
typedef struct kept_rows {
    expected_row *expected; /* `left` is 1 */
    size_t count, capacity;
    uint64_t below;   /* rows that the source does not give again */
    uint64_t dropped; /* rows that are read again, from the cut that was given on */
} kept_rows;

typedef struct base_table {
    reading how;
    const weir_ingest__run_table *kept;
    const weir_ingest__catalog_table *source; /* of the kept rows */
    uint32_t *columns;                        /* of the kept rows: those of the plan, in its order */
    uint32_t time;                            /* a column of the plan */
    weir_ingest__value cut;                   /* of that column */
    bool drops;                               /* kept rows that are not before the cut */
    bool has_same_columns;
    uint64_t row_count; /* that are kept */
    kept_rows *parts;
    uint32_t part_count;
    expected_row *expected; /* of all parts, sorted, each once */
    size_t expected_count;
    uint64_t unselected; /* rows of the source that it was not asked for */
    uint64_t read, fresh;
} base_table;

struct weir_ingest__base {
    const weir_env *env;
    weir__arena arena;
    const char *path; /* of the store */
    const char *folder;
    weir_ingest__source *source;       /* of the kept rows, */
    const weir_ingest__run_list *list; /* and what it has read of them */
    weir_ingest__catalog catalog;
    int64_t given_cut;  /* a time, if one is given */
    char given_day[40]; /* before it */
    const weir_ingest__plan *plan;
    base_table *tables; /* of the plan */
    uint32_t table_count;
};

typedef struct weir_ingest__base base;

static base_table *table_of(const base *b, uint32_t table) {
    base_table *found = b && b->tables ? &b->tables[table] : NULL;
    return found && found->how != READ_WHOLE ? found : NULL;
}

/* ---- Opening --------------------------------------------------------------------------------- */

static weir_status check_list(const base *b, const weir_ingest__run_list *list,
                              const uint8_t hash[WEIR_HASH_SIZE], weir_error *error) {
    if (list->has_store && memcmp(list->store, hash, WEIR_HASH_SIZE) == 0)
        return WEIR_OK;
    return weir__fail(
        error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
        "%s was not kept with %s as it is now: ingest once without a base, and keep the rows again",
        b->folder, b->path);
}

/* The rows must be those of the store as it is; that is said before their files are looked at. Another ingest
 * may replace them meanwhile, so the list that counts is the one that the source has read. */
static weir_status open_rows(const weir_ingest__context *context, base *b, weir_error *error) {
    uint8_t hash[WEIR_HASH_SIZE];
    weir_error inner;
    weir_store *store = NULL;
    weir_ingest__run_list first;
    weir_ingest__source_options from = {.location = b->folder, .is_cancelled = &context->is_cancelled};
    WEIR__TRY(weir_store_open(b->env, b->path, &store, error));
    memcpy(hash, weir_store_describe(store)->store_hash, WEIR_HASH_SIZE);
    weir_store_close(store);
    weir_status status = weir_ingest__run_list_open(&first, b->env, b->folder, &inner);
    if (status == WEIR_OK)
        status = check_list(b, &first, hash, error);
    else
        weir__fail(error, status, WEIR_INGEST__OPERATOR,
                   "%s is no base: its rows are not there (%.500s); ingest once without a base and with "
                   "--keep-rows",
                   b->path, inner.message);
    weir_ingest__run_list_release(&first);
    WEIR__TRY(status);
    WEIR__TRY(weir_ingest__source_runs.open(b->env, &from, &b->source, error));
    b->list = weir_ingest__runs_list(b->source);
    WEIR__TRY(check_list(b, b->list, hash, error));
    return weir_ingest__source_describe(b->source, &b->catalog, error);
}

weir_status weir_ingest__base_open(const weir_ingest__context *context, weir_ingest__base **out,
                                   weir_error *error) {
    const char *path = context->options->base, *cut = context->options->base_cut;
    *out = NULL;
    if (!path && cut)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR,
                          "there is a cut, but no base to cut: give the store whose rows were kept");
    if (!path)
        return WEIR_OK;
    base *b = *out = weir__allocate_zero(context->env, 1, sizeof *b);
    if (!b)
        return weir_ingest__no_memory(error, sizeof *b);
    b->env = context->env;
    b->path = path;
    weir__arena_init(&b->arena, context->env);
    if (cut && !weir_timestamp_parse(cut, strlen(cut), &b->given_cut))
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_INGEST__OPERATOR,
                          "the cut of the base is %.60s, which is no time; write it as 2013-01-31 or "
                          "2013-01-31T10:00:00Z",
                          cut);
    if (cut) {
        weir_timestamp_format(b->given_cut - DAY, b->given_day);
        b->given_day[strcspn(b->given_day, "T")] = 0;
    }
    b->folder = weir__arena_format(&b->arena, "%s%s", path, WEIR_INGEST__KEPT_ENDING);
    return b->folder ? open_rows(context, b, error) : weir_ingest__no_memory(error, strlen(path));
}

void weir_ingest__base_close(weir_ingest__base *b) {
    if (!b)
        return;
    for (uint32_t t = 0; t < b->table_count; t++) {
        for (uint32_t p = 0; p < b->tables[t].part_count; p++)
            weir__release(b->env, b->tables[t].parts[p].expected);
        weir__release(b->env, b->tables[t].expected);
    }
    weir_ingest__catalog_release(&b->catalog);
    if (b->source)
        weir_ingest__source_close(b->source);
    weir__arena_release(&b->arena);
    weir__release(b->env, b);
}

/* ---- How tables are read --------------------------------------------------------------------- */

/* Whether the source can select rows by a value. */
static bool can_select(const weir_ingest__source *source, const weir_ingest__catalog_table *table,
                       const weir_ingest__value *cut) {
    static const int64_t year_1 = -62135596800000000, year_10000 = 253402300800000000;
    if (!table->sql_name)
        return false;
    switch (cut->type) {
    case WEIR_INGEST__INT:
        return source->kind->selects != WEIR_INGEST__SELECTS_NOTHING;
    case WEIR_INGEST__TIMESTAMP:
        return source->kind->selects == WEIR_INGEST__SELECTS_TYPES && cut->integer >= year_1 &&
               cut->integer < year_10000;
    case WEIR_INGEST__TEXT:
        return source->kind->selects == WEIR_INGEST__SELECTS_BYTES;
    default:
        return false;
    }
}

/* Where the source's rows begin: at the latest that was kept or, if it is earlier, at the first value of its
 * type that is not before the cut that was given; of texts, whose forms say a time of day in many ways, at
 * the first of the day before: west of UTC it is that day still. */
static void choose_cut(const base *b, const weir_ingest__time_form *form, base_table *table) {
    static const int64_t micros[] = {1000000, 1000, 1}; /* of a unit, but for nanoseconds */
    const weir_ingest__value *latest = &table->kept->latest;
    weir_ingest__value cut = {.type = latest->type, .integer = b->given_cut};
    table->cut = *latest;
    if (!*b->given_day)
        return;
    if (latest->type == WEIR_INGEST__TEXT) {
        cut.text = (weir_ingest__bytes){b->given_day, strlen(b->given_day)};
    } else if (latest->type == WEIR_INGEST__INT && form->unit == WEIR_INGEST__NANOSECONDS) {
        if (__builtin_mul_overflow(b->given_cut, INT64_C(1000), &cut.integer))
            cut.integer = b->given_cut < 0 ? INT64_MIN : INT64_MAX;
    } else if (latest->type == WEIR_INGEST__INT) {
        int64_t unit = micros[form->unit];
        cut.integer = b->given_cut / unit + (b->given_cut % unit > 0);
    }
    table->drops = weir_ingest__run_compare_values(&cut, latest) <= 0;
    if (table->drops)
        table->cut = cut;
}

/* Finds the plan's columns among the kept ones. */
static weir_status match_columns(base *b, const weir_ingest__table_plan *plan, base_table *table,
                                 weir_error *error) {
    const weir_ingest__run_table *kept = table->kept;
    table->has_same_columns = plan->column_count == kept->column_count;
    table->columns = weir__arena_take_zero(&b->arena, plan->column_count, sizeof *table->columns);
    if (!table->columns)
        return weir_ingest__no_memory(error, plan->column_count * sizeof *table->columns);
    for (uint32_t c = 0; c < plan->column_count; c++) {
        const weir_ingest__catalog_column *now = &plan->source->columns[plan->positions[c]];
        uint32_t k = 0;
        while (k < kept->column_count && strcmp(kept->columns[k].name, now->name) != 0)
            k++;
        if (k == kept->column_count)
            return weir__fail(
                error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                "table %s, column %s is read now, but %s did not keep it; ingest without a base", plan->name,
                now->name, b->path);
        const char *was = weir_ingest__run_type_name(&kept->columns[k]);
        const char *is = weir_ingest__run_type_name(now);
        if (strcmp(was, is) != 0)
            return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                              "table %s, column %s is declared %s now, and was %s when %s was made; ingest "
                              "without a base",
                              plan->name, now->name, is, was, b->path);
        table->columns[c] = k;
        table->has_same_columns = table->has_same_columns && k == c;
    }
    return WEIR_OK;
}

static weir_status plan_table(const weir_ingest__context *context, base *b,
                              const weir_ingest__table_plan *plan, base_table *table, weir_error *error) {
    uint32_t time = weir_ingest__keep_time(plan);
    for (uint32_t t = 0; t < b->list->table_count && !plan->source->is_given; t++)
        if (!b->list->tables[t].sql && strcmp(b->list->tables[t].name, plan->name) == 0)
            table->kept = &b->list->tables[t];
    if (!table->kept || !table->kept->has_latest || table->kept->latest.type == WEIR_INGEST__NULL ||
        time == WEIR_NONE)
        return WEIR_OK;
    bool is_compared = context->options->base_check == WEIR_BASE_FULL;
    choose_cut(b, &plan->columns[time].form, table);
    if (!is_compared && !can_select(context->sessions[0], plan->source, &table->cut))
        return WEIR_OK;
    const char *column = table->kept->columns[table->kept->latest_column].name;
    if (strcmp(plan->columns[time].name, column) != 0)
        return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                          "table %s has its time in column %s now, and had it in %s when %s was made; ingest "
                          "without a base",
                          plan->name, plan->columns[time].name, column, b->path);
    WEIR__TRY(match_columns(b, plan, table, error));
    table->time = time;
    table->part_count =
        table->kept->file_count < context->threads ? table->kept->file_count : context->threads;
    table->parts = weir__arena_take_zero(&b->arena, table->part_count, sizeof *table->parts);
    if (!table->parts) {
        table->part_count = 0;
        return weir_ingest__no_memory(error, context->threads * sizeof *table->parts);
    }
    for (uint32_t f = 0; f < table->kept->file_count; f++)
        table->row_count += table->kept->files[f].said.rows;
    uint32_t count;
    table->source = weir_ingest__catalog_find_table(&b->catalog, plan->name, &count);
    table->how = is_compared ? READ_COMPARED : READ_FROM_CUT;
    return WEIR_OK;
}

weir_status weir_ingest__base_plan(weir_ingest__base *b, const weir_ingest__context *context,
                                   const weir_ingest__plan *plan, weir_error *error) {
    if (!b)
        return WEIR_OK;
    b->plan = plan;
    b->tables = weir__arena_take_zero(&b->arena, plan->table_count, sizeof *b->tables);
    if (!b->tables)
        return weir_ingest__no_memory(error, plan->table_count * sizeof *b->tables);
    b->table_count = plan->table_count;
    for (uint32_t t = 0; t < plan->table_count; t++)
        WEIR__TRY(plan_table(context, b, &plan->tables[t], &b->tables[t], error));
    return WEIR_OK;
}

uint32_t weir_ingest__base_parts(const weir_ingest__base *b, uint32_t table) {
    const base_table *found = table_of(b, table);
    return found ? found->part_count : 0;
}

uint64_t weir_ingest__base_rows(const weir_ingest__base *b, uint32_t table) {
    const base_table *found = table_of(b, table);
    return found ? found->row_count : 0;
}

const weir_ingest__run_table *weir_ingest__base_files(const weir_ingest__base *b, uint32_t table) {
    const base_table *found = table_of(b, table);
    return found && found->has_same_columns && !found->drops ? found->kept : NULL;
}

const char *weir_ingest__base_folder(const weir_ingest__base *b) {
    return b ? b->folder : NULL;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Rows of another cursor, of which some are left out or noted. */
typedef struct base_cursor {
    weir_ingest__cursor base;
    base_table *table;
    kept_rows *part;            /* kept rows; NULL: the source's */
    weir_ingest__cursor *inner; /* owned */
    weir_cbor_writer row;
    weir_ingest__value *cells;
    size_t cell_capacity;
} base_cursor;

static int compare_expected(const void *a, const void *b) {
    const expected_row *x = a, *y = b;
    for (int i = 0; i < 2; i++)
        if (x->hash[i] != y->hash[i])
            return x->hash[i] < y->hash[i] ? -1 : 1;
    return 0;
}

static weir_status hash_row(base_cursor *cursor, const weir_ingest__value *row, expected_row *out,
                            weir_error *error) {
    uint8_t hash[WEIR_HASH_SIZE];
    cursor->row.size = 0;
    weir_cbor_restart(&cursor->row);
    weir_ingest__run_write_row(&cursor->row, row, cursor->base.column_count);
    WEIR__TRY(weir_cbor_finish(&cursor->row, error));
    weir__blake3_of(cursor->row.data, cursor->row.size, hash);
    *out = (expected_row){.hash = {weir__load64(hash), weir__load64(hash + 8)}, .left = 1};
    return WEIR_OK;
}

/* A kept row: if it is not below the cut, the source has to give it again, or what became of it. */
static weir_status note_kept(base_cursor *cursor, const weir_ingest__value *row, bool *is_used,
                             weir_error *error) {
    const base_table *table = cursor->table;
    kept_rows *part = cursor->part;
    const weir_ingest__value *time = &row[table->time];
    int order = weir_ingest__run_compare_values(time, &table->cut);
    if (weir_ingest__run_compare_values(time, &table->kept->latest) > 0)
        return weir__fail(
            error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
            "the kept rows of table %s go further than their list says: the folder was changed; "
            "ingest without a base",
            table->kept->name);
    if (table->drops && table->cut.type == WEIR_INGEST__TEXT && time->type != WEIR_INGEST__TEXT &&
        time->type != WEIR_INGEST__NULL)
        return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                          "table %s has times that are texts and times that are numbers, which one cut does "
                          "not part; ingest without --base-cut",
                          table->kept->name);
    *is_used = !table->drops || order < 0;
    if (!*is_used || (order < 0 && table->how == READ_FROM_CUT)) {
        part->below += *is_used;
        part->dropped += !*is_used;
        return WEIR_OK;
    }
    if (!weir__grow(cursor->base.memory.env, (void **)&part->expected, &part->capacity, part->count + 1,
                    sizeof *part->expected))
        return weir_ingest__no_memory(error, part->count);
    WEIR__TRY(hash_row(cursor, row, &part->expected[part->count], error));
    part->count++;
    return WEIR_OK;
}

/* A row of the source: it is new if it is not kept; each kept one counts once. A row that has no CBOR,
 * because its text is not UTF-8, is new: that is a fault of the row, which is told later. */
static weir_status note_new(base_cursor *cursor, const weir_ingest__value *row, bool *is_used,
                            weir_error *error) {
    base_table *table = cursor->table;
    expected_row key, *found = NULL;
    if (table->expected_count > 0) {
        weir_status status = hash_row(cursor, row, &key, error);
        if (status == WEIR_OUT_OF_MEMORY)
            return status;
        if (status == WEIR_OK)
            found = bsearch(&key, table->expected, table->expected_count, sizeof key, compare_expected);
    }
    *is_used = !found || found->left == 0;
    if (!*is_used)
        found->left--;
    table->read++;
    table->fresh += *is_used;
    return WEIR_OK;
}

/* The next rows of the other cursor that are used: kept ones before a cut that was given, or new ones. Kept
 * rows that all stay are given as they are. */
static weir_status next_rows(weir_ingest__cursor *given, weir_ingest__rows *rows, weir_error *error) {
    base_cursor *cursor = (base_cursor *)given;
    size_t count = given->column_count, used = 0;
    bool is_copied = !cursor->part || cursor->table->drops;
    weir_ingest__rows all;
    do {
        WEIR__TRY(cursor->inner->next(cursor->inner, &all, error));
        if (!weir__grow(cursor->base.memory.env, (void **)&cursor->cells, &cursor->cell_capacity,
                        all.row_count * count + 1, sizeof *cursor->cells))
            return weir_ingest__no_memory(error, all.row_count * sizeof *cursor->cells);
        for (size_t r = 0; r < all.row_count; r++) {
            const weir_ingest__value *row = all.cells + r * count;
            bool is_used = true;
            WEIR__TRY(cursor->part ? note_kept(cursor, row, &is_used, error)
                                   : note_new(cursor, row, &is_used, error));
            if (is_used && is_copied)
                memcpy(cursor->cells + used * count, row, count * sizeof *row);
            used += is_used;
        }
    } while (all.row_count > 0 && used == 0);
    *rows = is_copied ? (weir_ingest__rows){.row_count = used, .cells = cursor->cells} : all;
    return WEIR_OK;
}

static void close_cursor(weir_ingest__cursor *given) {
    base_cursor *cursor = (base_cursor *)given;
    if (cursor->inner)
        cursor->inner->close(cursor->inner);
    weir_cbor_release(&cursor->row);
    weir__release(given->memory.env, cursor->cells);
    weir_ingest__cursor_free(given);
}

static weir_status open_cursor(const base *b, uint32_t table, base_cursor **out, weir_error *error) {
    base_cursor *cursor = weir_ingest__cursor_make(
        b->env, sizeof *cursor, NULL, b->plan->tables[table].column_count, next_rows, close_cursor);
    if (!cursor)
        return weir_ingest__no_memory(error, sizeof *cursor);
    cursor->table = &b->tables[table];
    weir_cbor_writer_memory(&cursor->row, b->env);
    *out = cursor;
    return WEIR_OK;
}

/* Sessions of runs share everything, and a scan has what it changes to itself: one is enough. */
weir_status weir_ingest__base_scan_kept(weir_ingest__base *b, uint32_t table, uint32_t part,
                                        weir_ingest__cursor **out, weir_error *error) {
    base_cursor *cursor = NULL;
    weir_ingest__source *source = b->source;
    WEIR__TRY(open_cursor(b, table, &cursor, error));
    const base_table *from = cursor->table;
    cursor->part = &cursor->table->parts[part];
    weir_status status = source->kind->scan(source, from->source, from->columns, cursor->base.column_count,
                                            part, from->part_count, &cursor->inner, error);
    return weir_ingest__cursor_give(&cursor->base, status, out, error);
}

weir_status weir_ingest__base_join(weir_ingest__base *b, weir_error *error) {
    for (uint32_t t = 0; b && t < b->table_count; t++) {
        base_table *table = table_of(b, t);
        size_t count = 0, used = 0;
        for (uint32_t p = 0; table && p < table->part_count; p++)
            count += table->parts[p].count;
        if (count == 0)
            continue;
        table->expected = weir__allocate(b->env, count, sizeof *table->expected);
        if (!table->expected)
            return weir_ingest__no_memory(error, count * sizeof *table->expected);
        for (uint32_t p = 0; p < table->part_count; p++) {
            kept_rows *part = &table->parts[p];
            if (part->count > 0)
                memcpy(table->expected + used, part->expected, part->count * sizeof *part->expected);
            used += part->count;
            weir__release(b->env, part->expected);
            part->expected = NULL;
        }
        qsort(table->expected, count, sizeof *table->expected, compare_expected);
        for (size_t i = 0; i < count; i++) {
            expected_row *last = table->expected_count ? &table->expected[table->expected_count - 1] : NULL;
            if (last && compare_expected(last, &table->expected[i]) == 0)
                last->left++;
            else
                table->expected[table->expected_count++] = table->expected[i];
        }
    }
    return WEIR_OK;
}

/* ---- What is asked of the source ------------------------------------------------------------- */

/* "at" >= TIMESTAMP '2024-01-31 10:00:00' */
static void add_condition(weir_ingest__sql *sql, const weir_ingest__source *source, const char *column,
                          const char *order, const weir_ingest__value *cut) {
    char text[40];
    weir_ingest__sql_add_identifier(sql, column);
    weir_ingest__sql_add(sql, "%s %s ",
                         source->kind->selects == WEIR_INGEST__SELECTS_BYTES ? " COLLATE BINARY" : "", order);
    if (cut->type == WEIR_INGEST__TEXT) {
        weir_ingest__sql_add_literal(sql, cut->text.data); /* of a list, and so terminated */
    } else if (cut->type == WEIR_INGEST__INT) {
        weir_ingest__sql_add(sql, "%lld", (long long)cut->integer);
    } else {
        weir_timestamp_format(cut->integer, text);
        text[10] = ' ';
        weir_ingest__sql_add(sql, "TIMESTAMP '%.*s'", WEIR__NARROW(int, strlen(text) - 1), text);
    }
}

/* How many rows the source does not give, by its own count. */
static weir_status count_unselected(weir_ingest__source *source, const weir_ingest__table_plan *plan,
                                    base_table *table, weir_error *error) {
    weir_ingest__sql sql = {.env = source->env};
    weir_ingest__cursor *cursor = NULL;
    weir_ingest__rows rows = {0};
    const char *column = plan->columns[table->time].name;
    weir_ingest__sql_add(&sql, "SELECT count(*) FROM %s WHERE ", plan->source->sql_name);
    add_condition(&sql, source, column, "<", &table->cut);
    weir_ingest__sql_add(&sql, " OR ");
    weir_ingest__sql_add_identifier(&sql, column);
    weir_ingest__sql_add(&sql, " IS NULL");
    weir_status status = sql.failed ? weir_ingest__no_memory(error, sql.size)
                                    : source->kind->query(source, sql.data, &cursor, error);
    if (status == WEIR_OK)
        status = cursor->next(cursor, &rows, error);
    if (status == WEIR_OK && (rows.row_count != 1 || rows.cells[0].type != WEIR_INGEST__INT))
        status = weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                            "the source does not say how many rows table %s has", plan->name);
    if (status == WEIR_OK) {
        table->unselected = (uint64_t)rows.cells[0].integer;
        status = cursor->next(cursor, &rows, error); /* its end */
    }
    if (cursor)
        cursor->close(cursor);
    weir_ingest__sql_release(&sql);
    return status;
}

static weir_status select_rows(weir_ingest__source *source, const weir_ingest__table_plan *plan,
                               const base_table *table, weir_ingest__cursor **out, weir_error *error) {
    weir_ingest__sql sql = {.env = source->env};
    for (uint32_t c = 0; c < plan->column_count; c++) {
        weir_ingest__sql_add(&sql, c == 0 ? "SELECT " : ", ");
        weir_ingest__sql_add_identifier(&sql, plan->columns[c].name);
    }
    weir_ingest__sql_add(&sql, " FROM %s WHERE ", plan->source->sql_name);
    add_condition(&sql, source, plan->columns[table->time].name, ">=", &table->cut);
    weir_status status = sql.failed ? weir_ingest__no_memory(error, sql.size)
                                    : source->kind->query(source, sql.data, out, error);
    weir_ingest__sql_release(&sql);
    return status;
}

weir_status weir_ingest__base_scan_new(weir_ingest__base *b, weir_ingest__source *session, uint32_t table,
                                       weir_ingest__cursor **out, weir_error *error) {
    const weir_ingest__table_plan *plan = &b->plan->tables[table];
    base_cursor *cursor = NULL;
    WEIR__TRY(open_cursor(b, table, &cursor, error));
    base_table *from = cursor->table;
    weir_status status = WEIR_OK;
    if (from->how == READ_COMPARED)
        status = weir_ingest__source_scan(session, plan->source, plan->positions, plan->column_count, 0, 1,
                                          &cursor->inner, error);
    else
        status = count_unselected(session, plan, from, error);
    if (status == WEIR_OK && from->how == READ_FROM_CUT)
        status = select_rows(session, plan, from, &cursor->inner, error);
    return weir_ingest__cursor_give(&cursor->base, status, out, error);
}

/* ---- What changed ---------------------------------------------------------------------------- */

weir_status weir_ingest__base_check(const weir_ingest__base *b, weir_error *error) {
    for (uint32_t t = 0; b && t < b->table_count; t++) {
        const base_table *table = table_of(b, t);
        uint64_t missing = 0, below = 0;
        char cut[80];
        if (!table)
            continue;
        bool is_compared = table->how == READ_COMPARED;
        for (size_t i = 0; i < table->expected_count; i++)
            missing += table->expected[i].left;
        for (uint32_t p = 0; p < table->part_count; p++)
            below += table->parts[p].below;
        if (table->cut.type == WEIR_INGEST__TEXT)
            snprintf(cut, sizeof cut, "%.60s", table->cut.text.data);
        else if (table->cut.type == WEIR_INGEST__INT)
            snprintf(cut, sizeof cut, "%lld", (long long)table->cut.integer);
        else
            weir_timestamp_format(table->cut.integer, cut);
        if (missing > 0)
            return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                              "table %s has changed since %s was made: %llu of its %llu row%s%s%s %s deleted "
                              "or changed; ingest without a base",
                              table->kept->name, b->path, (unsigned long long)missing,
                              (unsigned long long)table->row_count, table->row_count == 1 ? "" : "s",
                              is_compared ? "" : ", of time ", is_compared ? "" : cut,
                              missing == 1 ? "was" : "were");
        if (!is_compared && table->unselected != below)
            return weir__fail(
                error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                "table %s has changed since %s was made: before %s it has %llu rows, and had %llu: %s; "
                "ingest without a base%s",
                table->kept->name, b->path, cut, (unsigned long long)table->unselected,
                (unsigned long long)below,
                table->unselected < below ? "rows were deleted or changed"
                                          : "rows came late, with earlier times or without a time",
                table->unselected < below
                    ? ""
                    : ", or with --base-check full, which takes them in, as an earlier --base-cut does if "
                      "they have a time");
    }
    return WEIR_OK;
}

/* ---- What happened --------------------------------------------------------------------------- */

weir_status weir_ingest__base_tell(const weir_ingest__base *b, const weir_ingest__context *context,
                                   const weir_store_info *info, weir_error *error) {
    static const char *const ways[] = {"whole", "from the cut", "compared"};
    weir_json_writer out, *w = &out;
    if (!context->options->base_report || !b)
        return WEIR_OK;
    weir_json_writer_memory(w, context->given_env);
    weir_json_array(w);
    for (uint32_t t = 0; t < b->table_count; t++) {
        const base_table *table = &b->tables[t];
        bool is_whole = table->how == READ_WHOLE;
        uint64_t rows = info->tables[t].row_count, reused = table->row_count;
        for (uint32_t p = 0; p < table->part_count; p++)
            reused -= table->parts[p].dropped;
        weir_json_object(w);
        weir_json_pair_text(w, "table", info->tables[t].name);
        weir_json_pair_text(w, "how", ways[table->how]);
        weir_json_pair_uint(w, "reused", reused);
        weir_json_pair_uint(w, "read", is_whole ? rows : table->read);
        weir_json_pair_uint(w, "new", is_whole ? rows : table->fresh);
        weir_json_end_object(w);
    }
    weir_json_end_array(w);
    return weir_json_give(w, context->options->base_report, error);
}
