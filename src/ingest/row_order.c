/* Order: a table's parts become one set of columns, rows in the order of their key, categories in bytewise
 * order.
 *
 * Rows that come in key order already (an INTEGER PRIMARY KEY read in rowid order) are only checked. */
#include <string.h>

#include "base/bytes.h"
#include "ingest/like.h"

/* ---- Joining parts --------------------------------------------------------------------------- */

/* Numbers of a part's dictionary -> numbers of the whole. */
static uint32_t *adopt_strings(const weir_env *env, const weir_ingest__dictionary *part,
                               weir_ingest__dictionary *whole) {
    uint32_t *numbers = weir__allocate(env, part->count, sizeof *numbers);
    for (uint32_t i = 0; numbers && i < part->count; i++)
        if (!weir_ingest__dictionary_adopt(whole, part->strings[i], &numbers[i])) {
            weir__release(env, numbers);
            return NULL;
        }
    return numbers;
}

static void renumber(uint32_t *values, uint32_t count, const uint32_t *numbers) {
    for (uint32_t i = 0; i < count; i++)
        if (values[i] != WEIR_NONE)
            values[i] = numbers[values[i]];
}

/* Categories get numbers of the table's dictionary, texts of the one of all tables: `texts` is shared, so
 * this runs one table after the other. */
static bool renumber_part(const weir_env *env, weir_ingest__dictionary *texts, weir_ingest__table *table,
                          weir_ingest__part *part) {
    uint32_t *text_numbers = adopt_strings(env, &part->texts, texts);
    bool is_fine = text_numbers != NULL;
    for (uint32_t c = 0; c < table->plan->column_count && is_fine; c++) {
        if (weir_value_of(table->plan->columns[c].stype) == WEIR_VALUE_TEXT && !part->owns_text_numbers)
            renumber(part->data[c].values, part->row_count, text_numbers);
        if (weir_value_of(table->plan->columns[c].stype) != WEIR_VALUE_CATEGORY)
            continue;
        uint32_t *numbers =
            adopt_strings(env, &part->columns[c].dictionary, &table->columns[c].categories.dictionary);
        is_fine = numbers != NULL;
        if (is_fine)
            renumber(part->data[c].values, part->row_count, numbers);
        weir__release(env, numbers);
    }
    weir__release(env, text_numbers);
    return is_fine;
}

/* The arrays of a column, and the size of their items: 0 if there are none. */
enum { ARRAYS = 3 };
static void **array_of(weir_ingest__column_data *column, int number) {
    void **arrays[ARRAYS] = {&column->values, (void **)&column->keys, (void **)&column->tags};
    return arrays[number];
}

static size_t item_size(const weir_ingest__table *table, uint32_t c, int number) {
    size_t sizes[ARRAYS] = {weir_ingest__value_size(table->plan->columns[c].stype), sizeof(uint64_t), 1};
    return sizes[number];
}

/* An array of all parts end to end; of a single part it is taken over as it is. */
static bool join_array(const weir_env *env, const weir_ingest__table_parts *parts, weir_ingest__table *table,
                       uint32_t c, int number) {
    size_t size = item_size(table, c, number);
    void **out = array_of(&table->data[c], number);
    bool is_there = false;
    for (uint32_t p = 0; p < parts->count; p++)
        is_there = is_there || *array_of(&parts->list[p].data[c], number);
    if (!is_there || size == 0)
        return true;
    if (parts->count == 1) {
        void **in = array_of(&parts->list[0].data[c], number);
        *out = *in;
        *in = NULL;
        return true;
    }
    uint8_t *whole = *out = weir__allocate(env, table->row_count, size);
    if (!whole)
        return false;
    for (uint32_t p = 0; p < parts->count; p++) {
        void **in = array_of(&parts->list[p].data[c], number);
        size_t bytes = parts->list[p].row_count * size;
        if (*in)
            memcpy(whole, *in, bytes);
        else if (out == (void **)&table->data[c].tags)
            memset(whole, WEIR_INGEST__KEY_INT, bytes);
        whole += bytes;
        weir__release(env, *in);
        *in = NULL;
    }
    return true;
}

weir_status weir_ingest__too_many_rows(const char *table, weir_error *error) {
    return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__OPERATOR,
                      "table %s has more rows than a table of a store may have (%u); cut it in parts: in the "
                      "schema, tables of their own with a \"query\" each, such as one for each year",
                      table, WEIR_STORE__ROWS_MAX);
}

/* Parts are worked on one table after the other: their texts go into one dictionary. */
static weir_status join_parts(weir_ingest__ordered *out, const weir_ingest__table_parts *parts,
                              weir_ingest__table *table, weir_error *error) {
    const weir_env *env = out->env;
    weir__arena *arena = &out->arena;
    uint32_t count = table->plan->column_count;
    uint64_t rows = 0;
    for (uint32_t p = 0; p < parts->count; p++)
        rows += parts->list[p].row_count;
    if (rows > WEIR_STORE__ROWS_MAX)
        return weir_ingest__too_many_rows(table->plan->name, error);
    table->row_count = WEIR__NARROW(uint32_t, rows);
    out->row_count += rows;
    table->data = weir__arena_take_zero(arena, count, sizeof *table->data);
    table->columns = weir__arena_take_zero(arena, count, sizeof *table->columns);
    table->strings = weir__arena_take_zero(arena, parts->count, sizeof *table->strings);
    if (arena->is_short)
        return weir_ingest__no_memory(error, count * sizeof *table->columns);
    for (uint32_t c = 0; c < count; c++)
        WEIR__TRY(weir_ingest__like_categories(out->plan->like, table->plan->columns[c].column_idx, env,
                                               &table->columns[c].categories, arena, error));
    bool is_fine = true;
    for (uint32_t p = 0; p < parts->count && is_fine; p++) {
        weir_ingest__part *part = &parts->list[p];
        is_fine = renumber_part(env, &out->texts, table, part);
        for (uint32_t c = 0; c < count; c++) {
            table->columns[c].nulls += part->columns[c].nulls;
            table->columns[c].not_finite += part->columns[c].not_finite;
        }
        table->strings[table->string_count++] = part->strings;
        weir__arena_init(&part->strings, env);
    }
    for (uint32_t c = 0; c < count; c++)
        for (int number = 0; number < ARRAYS && is_fine; number++)
            is_fine = join_array(env, parts, table, c, number);
    return is_fine ? WEIR_OK : weir_ingest__no_memory(error, 0);
}

/* ---- Sorting --------------------------------------------------------------------------------- */

typedef struct row_order {
    const weir_ingest__table *table;
    const weir_ingest__string **row_keys; /* of all parts */
} row_order;

static int compare_primary_keys(const void *context, uint64_t a, uint64_t b) {
    const weir_ingest__table *table = ((const row_order *)context)->table;
    return weir_ingest__key_compare_rows(table->data, WEIR__LOW(uint32_t, a), table->data,
                                         WEIR__LOW(uint32_t, b), table->plan->primary_key,
                                         table->plan->primary_key_count);
}

static int compare_row_keys(const void *context, uint64_t a, uint64_t b) {
    const row_order *order = context;
    return weir_ingest__string_compare(order->row_keys[a], order->row_keys[b]);
}

static uint64_t first_bytes(const weir_ingest__string *string, uint32_t skip) {
    uint8_t bytes[8] = {0};
    uint32_t size = string->size > skip ? string->size - skip : 0;
    memcpy(bytes, string->bytes + (size ? skip : 0), size < 8 ? size : 8);
    return weir__load64be(bytes);
}

/* Sorts by a number that orders as the first key column does where it can tell: its integers, or the first
 * bytes of its texts. Rows of a mixed column have one number, and the comparison does all. */
static bool sort_by_key(const weir_env *env, const row_order *order, weir_ingest__sort_item *items) {
    const weir_ingest__table *table = order->table;
    const weir_ingest__column_data *first = &table->data[table->plan->primary_key[0]];
    bool is_all_text = first->tags != NULL;
    for (uint32_t r = 0; is_all_text && r < table->row_count; r++)
        is_all_text = first->tags[r] == WEIR_INGEST__KEY_TEXT;
    for (uint32_t r = 0; r < table->row_count; r++) {
        uint64_t number = 0;
        if (!first->tags)
            number = weir_ingest__rank_of((int64_t)first->keys[r]);
        else if (is_all_text)
            number = first_bytes((const weir_ingest__string *)(uintptr_t)first->keys[r], 0);
        items[r] = (weir_ingest__sort_item){number, r};
    }
    bool needs_tie = first->tags || table->plan->primary_key_count > 1;
    return weir_ingest__sort(env, items, table->row_count, needs_tie ? compare_primary_keys : NULL, order);
}

/* All rows are arrays of one size: the first bytes that differ come after its head. */
static bool sort_by_row(const weir_env *env, const row_order *order, weir_ingest__sort_item *items) {
    uint32_t count = order->table->row_count;
    uint8_t lead = WEIR__LOW(uint8_t, order->row_keys[0]->bytes[0]) & 31;
    uint32_t head = lead < 24 ? 1 : lead == 24 ? 2 : 3;
    for (uint32_t r = 0; r < count; r++)
        items[r] = (weir_ingest__sort_item){first_bytes(order->row_keys[r], head), r};
    return weir_ingest__sort(env, items, count, compare_row_keys, order);
}

/* Whether the integers of a key are greater than those of the row before. */
static bool rises(const weir_ingest__table *table, uint32_t row) {
    for (uint32_t i = 0; i < table->plan->primary_key_count; i++) {
        const int64_t *keys = (const int64_t *)table->data[table->plan->primary_key[i]].keys;
        if (keys[row - 1] != keys[row])
            return keys[row - 1] < keys[row];
    }
    return false;
}

/* Whether a key of integers rises from row to row: then nothing needs sorting, and none is there twice. */
static bool is_in_order(const weir_ingest__table *table) {
    bool is_of_integers = table->plan->primary_key_count > 0;
    for (uint32_t i = 0; i < table->plan->primary_key_count; i++)
        is_of_integers = is_of_integers && !table->data[table->plan->primary_key[i]].tags;
    for (uint32_t r = 1; is_of_integers && r < table->row_count; r++)
        if (!rises(table, r))
            return false;
    return is_of_integers || table->row_count == 0;
}

static weir_status check_duplicates(const row_order *order, const weir_ingest__sort_item *items,
                                    weir_error *error) {
    const weir_ingest__table *table = order->table;
    char key[200];
    for (uint32_t r = 1; r < table->row_count && table->plan->primary_key_count > 0; r++) {
        if (items[r - 1].primary != items[r].primary ||
            compare_primary_keys(order, items[r - 1].index, items[r].index) != 0)
            continue;
        weir_ingest__row_key_describe(table->data, table->plan->primary_key, table->plan->primary_key_count,
                                      WEIR__NARROW(uint32_t, items[r].index), key, sizeof key);
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                          "table %s has two rows with one primary key%s", table->plan->name, key);
    }
    return WEIR_OK;
}

/* ---- Permuting ------------------------------------------------------------------------------- */

#define PERMUTE(type)                                                                                        \
    for (uint32_t r = 0; r < count; r++)                                                                     \
    ((type *)to)[r] = ((const type *)from)[items[r].index]

static bool permute(const weir_env *env, void **array, size_t size, const weir_ingest__sort_item *items,
                    uint32_t count) {
    const void *from = *array;
    if (!from || size == 0)
        return true;
    void *to = weir__allocate(env, count, size);
    if (!to)
        return false;
    if (size == 8)
        PERMUTE(uint64_t);
    else if (size == 4)
        PERMUTE(uint32_t);
    else
        PERMUTE(uint8_t);
    weir__release(env, *array);
    *array = to;
    return true;
}

static weir_status sort_rows(const weir_env *env, const weir_ingest__table_parts *parts,
                             weir_ingest__table *table, weir_error *error) {
    row_order order = {.table = table};
    bool has_key = table->plan->primary_key_count > 0;
    weir_status status = WEIR_OK;
    weir_ingest__sort_item *items = weir__allocate(env, table->row_count, sizeof *items);
    bool is_fine = items != NULL;
    if (!has_key) {
        order.row_keys = weir__allocate(env, table->row_count, sizeof *order.row_keys);
        table->row_key_hashes = weir__allocate(env, table->row_count, sizeof *table->row_key_hashes);
        is_fine = is_fine && order.row_keys && table->row_key_hashes;
    }
    for (uint32_t p = 0, next = 0; !has_key && is_fine && p < parts->count; p++)
        for (uint32_t r = 0; r < parts->list[p].row_count; r++)
            order.row_keys[next++] = parts->list[p].row_keys[r];
    is_fine = is_fine && (has_key ? sort_by_key(env, &order, items) : sort_by_row(env, &order, items));
    if (is_fine)
        status = check_duplicates(&order, items, error);
    is_fine = is_fine && status == WEIR_OK;
    for (uint32_t c = 0; c < table->plan->column_count; c++)
        for (int number = 0; number < ARRAYS && is_fine; number++)
            is_fine = permute(env, array_of(&table->data[c], number), item_size(table, c, number), items,
                              table->row_count);
    for (uint32_t r = 0; !has_key && is_fine && r < table->row_count; r++)
        table->row_key_hashes[r] = order.row_keys[items[r].index]->hash;
    weir__release(env, order.row_keys);
    weir__release(env, items);
    if (status == WEIR_OK && !is_fine)
        status = weir_ingest__no_memory(error, table->row_count * sizeof *items);
    return status;
}

/* ---- Categories ------------------------------------------------------------------------------ */

static int compare_strings(const void *context, uint64_t a, uint64_t b) {
    const weir_ingest__dictionary *dictionary = context;
    return weir_ingest__string_compare(dictionary->strings[a], dictionary->strings[b]);
}

bool weir_ingest__rank_categories(const weir_env *env, weir_ingest__categories *categories) {
    weir_ingest__dictionary *dictionary = &categories->dictionary;
    uint32_t count = dictionary->count, *ranks = weir__allocate(env, count, sizeof *ranks);
    categories->ranks = ranks;
    if (categories->like_count != WEIR_NONE) { /* which are in order */
        for (uint32_t i = 0; ranks && i < count; i++)
            ranks[i] = i < categories->like_count ? i : WEIR_NONE;
        dictionary->count = ranks ? categories->like_count : count;
        return ranks != NULL;
    }
    weir_ingest__sort_item *items = weir__allocate(env, count, sizeof *items);
    bool is_fine = ranks && items;
    for (uint32_t i = 0; is_fine && i < count; i++)
        items[i] = (weir_ingest__sort_item){first_bytes(dictionary->strings[i], 0), i};
    is_fine = is_fine && weir_ingest__sort(env, items, count, compare_strings, dictionary);
    for (uint32_t i = 0; is_fine && i < count; i++)
        ranks[items[i].index] = i;
    weir__release(env, items);
    return is_fine;
}

void weir_ingest__categories_release(const weir_env *env, weir_ingest__categories *categories) {
    weir_ingest__dictionary_release(&categories->dictionary);
    weir__release(env, categories->ranks);
}

/* ---- All tables ------------------------------------------------------------------------------ */

typedef struct order_work {
    weir_ingest__context *context;
    const weir_ingest__parts *parts;
    weir_ingest__ordered *out;
} order_work;

static weir_status order_table(void *argument, size_t index, uint32_t worker, weir_error *error) {
    const order_work *work = argument;
    weir_ingest__table *table = &work->out->tables[index];
    weir_status status = WEIR_OK;
    (void)worker;
    if (!is_in_order(table))
        status = sort_rows(work->out->env, &work->parts->tables[index], table, error);
    for (uint32_t c = 0; c < table->plan->column_count && status == WEIR_OK; c++) {
        weir_ingest__categories *categories = &table->columns[c].categories;
        uint32_t known = categories->like_count, *values = table->data[c].values;
        if (weir_value_of(table->plan->columns[c].stype) != WEIR_VALUE_CATEGORY)
            continue;
        for (uint32_t r = 0; known != WEIR_NONE && r < table->row_count; r++)
            categories->new_count += values[r] != WEIR_NONE && values[r] >= known;
        if (weir_ingest__rank_categories(work->out->env, categories))
            renumber(values, table->row_count, categories->ranks);
        else
            status = weir_ingest__no_memory(error, 0);
    }
    (void)weir_ingest__advance(work->context, table->row_count);
    return status;
}

static weir_status order_parts(weir_ingest__context *context, weir_ingest__parts *parts,
                               weir_ingest__ordered *out, weir_error *error) {
    const weir_ingest__plan *plan = parts->plan;
    out->tables = weir__arena_take_zero(&out->arena, plan->table_count, sizeof *out->tables);
    if (!out->tables)
        return weir_ingest__no_memory(error, plan->table_count * sizeof *out->tables);
    WEIR__TRY(weir_ingest__join_texts(context, parts, &out->texts, error));
    for (uint32_t t = 0; t < plan->table_count; t++) {
        out->tables[t].plan = &plan->tables[t];
        WEIR__TRY(join_parts(out, &parts->tables[t], &out->tables[t], error));
    }
    weir_ingest__begin_phase(context, "order", out->row_count, 0);
    order_work work = {context, parts, out};
    return weir_ingest__for_each(context, context->threads, plan->table_count, order_table, &work, error);
}

weir_status weir_ingest__order_rows(weir_ingest__context *context, weir_ingest__parts *parts,
                                    weir_ingest__ordered *out, weir_error *error) {
    *out = (weir_ingest__ordered){.plan = parts->plan, .env = context->env};
    weir__arena_init(&out->arena, context->env);
    weir_ingest__dictionary_init(&out->texts, context->env);
    weir_status status = order_parts(context, parts, out, error);
    weir_ingest__parts_release(parts);
    return status == WEIR_OK ? weir_ingest__number_texts(out, error) : status;
}

void weir_ingest__ordered_release(weir_ingest__ordered *ordered) {
    if (!ordered->env)
        return;
    for (uint32_t t = 0; ordered->tables && t < ordered->plan->table_count; t++) {
        weir_ingest__table *table = &ordered->tables[t];
        for (uint32_t c = 0; table->plan && c < table->plan->column_count; c++) {
            if (table->data)
                weir_ingest__column_data_release(ordered->env, &table->data[c]);
            if (table->columns)
                weir_ingest__categories_release(ordered->env, &table->columns[c].categories);
        }
        for (uint32_t i = 0; i < table->string_count; i++)
            weir__arena_release(&table->strings[i]);
        weir__release(ordered->env, table->row_key_hashes);
    }
    weir_ingest__dictionary_release(&ordered->texts);
    weir__release(ordered->env, ordered->text_order);
    weir__arena_release(&ordered->arena);
    *ordered = (weir_ingest__ordered){0};
}

void weir_ingest__ordered_drop_foreign_keys(weir_ingest__ordered *ordered) {
    for (uint32_t t = 0; t < ordered->plan->table_count; t++) {
        const weir_ingest__table *table = &ordered->tables[t];
        for (uint32_t c = 0; c < table->plan->column_count; c++) {
            const weir_ingest__column_plan *column = &table->plan->columns[c];
            if (!column->is_foreign || column->is_primary || column->is_target)
                continue;
            weir__release(ordered->env, table->data[c].keys);
            weir__release(ordered->env, table->data[c].tags);
            table->data[c].keys = NULL;
            table->data[c].tags = NULL;
        }
    }
}
