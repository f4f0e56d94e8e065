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

static bool renumber_column(const weir_env *env, weir_ingest__part *part, uint32_t c,
                            const weir_ingest__dictionary *of_part, weir_ingest__dictionary *whole) {
    uint32_t *numbers = adopt_strings(env, of_part, whole);
    if (!numbers)
        return false;
    renumber(part->columns[c].values, part->row_count, numbers);
    weir__release(env, numbers);
    return true;
}

/* Categories get numbers of the table's dictionary, texts of the one of all tables: `texts` is shared, so
 * this runs one table after the other. */
static bool renumber_part(weir_ingest__ingest *ingest, weir_ingest__table_plan *table,
                          weir_ingest__part *part) {
    const weir_env *env = ingest->context.env;
    uint32_t *text_numbers = adopt_strings(env, &part->texts, &ingest->texts);
    bool is_fine = text_numbers != NULL;
    for (uint32_t c = 0; c < table->column_count && is_fine; c++) {
        if (table->columns[c].stype == WEIR_TEXT && !part->owns_text_numbers)
            renumber(part->columns[c].values, part->row_count, text_numbers);
        else if (table->columns[c].stype == WEIR_CATEGORICAL)
            is_fine = renumber_column(env, part, c, &part->dictionaries[c], &table->categories[c]);
    }
    weir__release(env, text_numbers);
    return is_fine;
}

/* The arrays of all parts end to end; of a single part they are taken over as they are. */
static bool join_array(const weir_env *env, weir_ingest__table_plan *table, uint32_t c, size_t offset,
                       size_t size) {
    void **out = (void **)((char *)&table->data[c] + offset);
    bool is_tags = offset == offsetof(weir_ingest__column_data, tags);
    bool is_there = false;
    for (uint32_t p = 0; p < table->part_count; p++)
        is_there = is_there || *(void **)((char *)&table->parts[p].columns[c] + offset);
    if (!is_there || size == 0)
        return true;
    if (table->part_count == 1) {
        void **in = (void **)((char *)&table->parts[0].columns[c] + offset);
        *out = *in;
        *in = NULL;
        return true;
    }
    uint8_t *whole = weir__allocate(env, table->row_count, size);
    if (!whole)
        return false;
    *out = whole;
    for (uint32_t p = 0; p < table->part_count; p++) {
        void **in = (void **)((char *)&table->parts[p].columns[c] + offset);
        size_t bytes = table->parts[p].row_count * size;
        if (*in)
            memcpy(whole, *in, bytes);
        else if (is_tags)
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

static weir_status join_parts(weir_ingest__ingest *ingest, weir_ingest__table_plan *table,
                              weir_error *error) {
    const weir_env *env = ingest->context.env;
    uint64_t rows = 0;
    bool is_fine = true;
    for (uint32_t p = 0; p < table->part_count; p++)
        rows += table->parts[p].row_count;
    if (rows > WEIR_STORE__ROWS_MAX)
        return weir_ingest__too_many_rows(table->name, error);
    table->row_count = WEIR__NARROW(uint32_t, rows);
    table->data = weir__arena_take_zero(&ingest->arena, table->column_count, sizeof *table->data);
    table->categories = weir__arena_take_zero(&ingest->arena, table->column_count, sizeof *table->categories);
    table->category_ranks =
        weir__arena_take_zero(&ingest->arena, table->column_count, sizeof *table->category_ranks);
    table->like_categories =
        weir__arena_take_zero(&ingest->arena, table->column_count, sizeof *table->like_categories);
    table->new_categories =
        weir__arena_take_zero(&ingest->arena, table->column_count, sizeof *table->new_categories);
    if (!table->data || !table->categories || !table->category_ranks || !table->like_categories ||
        !table->new_categories)
        return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, 1);
    for (uint32_t c = 0; c < table->column_count; c++)
        weir_ingest__dictionary_init(&table->categories[c], env);
    for (uint32_t c = 0; c < table->column_count; c++) {
        WEIR__TRY(weir_ingest__like_categories(ingest, table->columns[c].column_idx, &table->categories[c],
                                               &ingest->arena, &table->like_categories[c], error));
    }
    for (uint32_t p = 0; p < table->part_count && is_fine; p++)
        is_fine = renumber_part(ingest, table, &table->parts[p]);
    for (uint32_t c = 0; c < table->column_count && is_fine; c++)
        is_fine = join_array(env, table, c, offsetof(weir_ingest__column_data, values),
                             weir_ingest__value_size(table->columns[c].stype)) &&
                  join_array(env, table, c, offsetof(weir_ingest__column_data, keys), sizeof(uint64_t)) &&
                  join_array(env, table, c, offsetof(weir_ingest__column_data, tags), 1);
    return is_fine ? WEIR_OK : weir__out_of_memory(error, WEIR_INGEST__OPERATOR, (size_t)rows);
}

/* ---- Sorting --------------------------------------------------------------------------------- */

typedef struct row_order {
    const weir_ingest__table_plan *table;
    const weir_ingest__string **row_keys; /* of all parts */
} row_order;

static int compare_primary_keys(const void *context, uint64_t a, uint64_t b) {
    const weir_ingest__table_plan *table = ((const row_order *)context)->table;
    for (uint32_t i = 0; i < table->primary_key_count; i++) {
        const weir_ingest__column_data *column = &table->data[table->primary_key[i]];
        int order = weir_ingest__key_compare_values(weir_ingest__key_at(column, WEIR__LOW(uint32_t, a)),
                                                    weir_ingest__key_at(column, WEIR__LOW(uint32_t, b)));
        if (order != 0)
            return order;
    }
    return 0;
}

static int compare_row_keys(const void *context, uint64_t a, uint64_t b) {
    const row_order *order = context;
    return weir_ingest__string_compare(order->row_keys[a], order->row_keys[b]);
}

static uint64_t ordered_int(uint64_t bits) {
    return bits ^ (uint64_t)1 << 63;
}

static uint64_t first_bytes(const weir_ingest__string *string, uint32_t skip) {
    uint8_t bytes[8] = {0};
    uint32_t size = string->size > skip ? string->size - skip : 0;
    memcpy(bytes, string->bytes + (size ? skip : 0), size < 8 ? size : 8);
    return weir__load64be(bytes);
}

/* A number that orders as the first key column does where it can tell: its integers, or the first bytes of
 * its texts. Mixed columns get one number, and the comparison does all. */
static uint64_t primary_number(const weir_ingest__column_data *column, uint32_t row, bool is_all_text) {
    if (!column->tags)
        return ordered_int(column->keys[row]);
    return is_all_text ? first_bytes((const weir_ingest__string *)(uintptr_t)column->keys[row], 0) : 0;
}

static bool is_all_text(const weir_ingest__column_data *column, uint32_t row_count) {
    for (uint32_t r = 0; column->tags && r < row_count; r++)
        if (column->tags[r] != WEIR_INGEST__KEY_TEXT)
            return false;
    return column->tags != NULL;
}

static const weir_ingest__string **collect_row_keys(const weir_env *env, weir_ingest__table_plan *table) {
    const weir_ingest__string **keys = weir__allocate(env, table->row_count, sizeof *keys);
    uint32_t next = 0;
    for (uint32_t p = 0; keys && p < table->part_count; p++) {
        for (uint32_t r = 0; r < table->parts[p].row_count; r++)
            keys[next++] = table->parts[p].row_keys[r];
    }
    return keys;
}

static bool sort_by_key(const weir_env *env, const row_order *order, weir_ingest__sort_item *items) {
    const weir_ingest__table_plan *table = order->table;
    const weir_ingest__column_data *first = &table->data[table->primary_key[0]];
    bool all_text = is_all_text(first, table->row_count);
    for (uint32_t r = 0; r < table->row_count; r++)
        items[r] = (weir_ingest__sort_item){primary_number(first, r, all_text), r};
    bool needs_tie = first->tags || table->primary_key_count > 1;
    return weir_ingest__sort(env, items, table->row_count, needs_tie ? compare_primary_keys : NULL, order);
}

/* The size of a CBOR array's head. */
static uint32_t array_head_size(const weir_ingest__string *array) {
    uint8_t lead = WEIR__LOW(uint8_t, array->bytes[0]) & 31;
    return lead < 24 ? 1 : lead == 24 ? 2 : 3;
}

/* All arrays have one head: the first bytes that differ come after it. */
static bool sort_by_row(const weir_env *env, const row_order *order, weir_ingest__sort_item *items) {
    const weir_ingest__table_plan *table = order->table;
    uint32_t head = array_head_size(order->row_keys[0]);
    for (uint32_t r = 0; r < table->row_count; r++)
        items[r] = (weir_ingest__sort_item){first_bytes(order->row_keys[r], head), r};
    return weir_ingest__sort(env, items, table->row_count, compare_row_keys, order);
}

/* Whether the integers of a key are greater than those of the row before. */
static bool rises(const weir_ingest__table_plan *table, uint32_t row) {
    for (uint32_t i = 0; i < table->primary_key_count; i++) {
        const int64_t *keys = (const int64_t *)table->data[table->primary_key[i]].keys;
        if (keys[row - 1] != keys[row])
            return keys[row - 1] < keys[row];
    }
    return false;
}

/* Whether a key of integers rises from row to row: then nothing needs sorting, and none is there twice. */
static bool is_in_order(const weir_ingest__table_plan *table) {
    bool is_of_integers = table->primary_key_count > 0;
    for (uint32_t i = 0; i < table->primary_key_count; i++)
        is_of_integers = is_of_integers && !table->data[table->primary_key[i]].tags;
    for (uint32_t r = 1; is_of_integers && r < table->row_count; r++)
        if (!rises(table, r))
            return false;
    return is_of_integers || table->row_count == 0;
}

static weir_status check_duplicates(const row_order *order, const weir_ingest__sort_item *items,
                                    weir_error *error) {
    const weir_ingest__table_plan *table = order->table;
    char key[200];
    for (uint32_t r = 1; r < table->row_count && table->primary_key_count > 0; r++) {
        if (items[r - 1].primary != items[r].primary ||
            compare_primary_keys(order, items[r - 1].index, items[r].index) != 0)
            continue;
        weir_ingest__row_key_describe(table, table->data, WEIR__NARROW(uint32_t, items[r].index), key,
                                      sizeof key);
        return weir__fail(error, WEIR_SCHEMA_INVALID, WEIR_INGEST__OPERATOR,
                          "table %s has two rows with one primary key%s", table->name, key);
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

static bool permute_table(const weir_env *env, weir_ingest__table_plan *table,
                          const weir_ingest__sort_item *items) {
    bool is_fine = true;
    for (uint32_t c = 0; c < table->column_count && is_fine; c++) {
        weir_ingest__column_data *column = &table->data[c];
        void *keys = column->keys;
        void *tags = column->tags;
        is_fine = permute(env, &column->values, weir_ingest__value_size(table->columns[c].stype), items,
                          table->row_count) &&
                  permute(env, &keys, sizeof *column->keys, items, table->row_count) &&
                  permute(env, &tags, sizeof *column->tags, items, table->row_count);
        column->keys = keys;
        column->tags = tags;
    }
    return is_fine;
}

static bool keep_row_hashes(const weir_env *env, weir_ingest__table_plan *table, const row_order *order,
                            const weir_ingest__sort_item *items) {
    table->row_key_hashes = weir__allocate(env, table->row_count, sizeof *table->row_key_hashes);
    for (uint32_t r = 0; table->row_key_hashes && r < table->row_count; r++)
        table->row_key_hashes[r] = order->row_keys[items[r].index]->hash;
    return table->row_key_hashes != NULL;
}

static weir_status sort_rows(const weir_env *env, weir_ingest__table_plan *table, weir_error *error) {
    row_order order = {.table = table};
    bool has_key = table->primary_key_count > 0;
    weir_status status = WEIR_OK;
    weir_ingest__sort_item *items = weir__allocate(env, table->row_count, sizeof *items);
    if (!has_key)
        order.row_keys = collect_row_keys(env, table);
    bool is_fine = items && (has_key || order.row_keys) &&
                   (has_key ? sort_by_key(env, &order, items) : sort_by_row(env, &order, items));
    if (is_fine)
        status = check_duplicates(&order, items, error);
    is_fine = is_fine && status == WEIR_OK && permute_table(env, table, items) &&
              (has_key || keep_row_hashes(env, table, &order, items));
    weir__release(env, order.row_keys);
    weir__release(env, items);
    if (status == WEIR_OK && !is_fine)
        status = weir__out_of_memory(error, WEIR_INGEST__OPERATOR, table->row_count * sizeof *items);
    return status;
}

/* ---- Categories ------------------------------------------------------------------------------ */

static int compare_strings(const void *context, uint64_t a, uint64_t b) {
    const weir_ingest__dictionary *dictionary = context;
    return weir_ingest__string_compare(dictionary->strings[a], dictionary->strings[b]);
}

uint32_t *weir_ingest__rank_strings(const weir_env *env, const weir_ingest__dictionary *dictionary) {
    uint32_t *ranks = weir__allocate(env, dictionary->count, sizeof *ranks);
    weir_ingest__sort_item *items = weir__allocate(env, dictionary->count, sizeof *items);
    bool is_fine = ranks && items;
    for (uint32_t i = 0; is_fine && i < dictionary->count; i++)
        items[i] = (weir_ingest__sort_item){first_bytes(dictionary->strings[i], 0), i};
    is_fine = is_fine && weir_ingest__sort(env, items, dictionary->count, compare_strings, dictionary);
    for (uint32_t i = 0; is_fine && i < dictionary->count; i++)
        ranks[items[i].index] = i;
    weir__release(env, items);
    if (is_fine)
        return ranks;
    weir__release(env, ranks);
    return NULL;
}

/* Cells whose category an earlier store does not have. */
static uint64_t count_new(const uint32_t *values, uint32_t count, uint32_t known) {
    uint64_t found = 0;
    for (uint32_t i = 0; i < count; i++)
        found += values[i] != WEIR_NONE && values[i] >= known;
    return found;
}

static weir_status rank_categories(const weir_env *env, weir_ingest__table_plan *table, weir_error *error) {
    for (uint32_t c = 0; c < table->column_count; c++) {
        uint32_t known = table->like_categories[c];
        if (table->columns[c].stype != WEIR_CATEGORICAL)
            continue;
        if (known != WEIR_NONE)
            table->new_categories[c] = count_new(table->data[c].values, table->row_count, known);
        table->category_ranks[c] = known == WEIR_NONE
                                       ? weir_ingest__rank_strings(env, &table->categories[c])
                                       : weir_ingest__like_ranks(env, &table->categories[c], known);
        if (!table->category_ranks[c])
            return weir__out_of_memory(error, WEIR_INGEST__OPERATOR, table->categories[c].count);
        renumber(table->data[c].values, table->row_count, table->category_ranks[c]);
    }
    return WEIR_OK;
}

/* ---- All tables ------------------------------------------------------------------------------ */

static void order_table(void *context, size_t index, uint32_t worker) {
    weir_ingest__ingest *ingest = context;
    weir_ingest__table_plan *table = &ingest->tables[index];
    (void)worker;
    if (!is_in_order(table))
        table->status = sort_rows(ingest->context.env, table, &table->error);
    if (table->status == WEIR_OK)
        table->status = rank_categories(ingest->context.env, table, &table->error);
    (void)weir_ingest__advance(&ingest->context, table->row_count);
}

/* Adds up what the parts counted, and frees them; strings stay where they are. */
static void finish_parts(weir_ingest__ingest *ingest, weir_ingest__table_plan *table) {
    for (uint32_t p = 0; p < table->part_count; p++) {
        weir_ingest__part *part = &table->parts[p];
        for (uint32_t c = 0; c < table->column_count && part->nulls; c++) {
            uint32_t column_idx = table->columns[c].column_idx;
            if (column_idx == WEIR_NONE)
                continue;
            ingest->info_columns[column_idx].nulls += part->nulls[c];
            ingest->info_columns[column_idx].not_finite += part->not_finite[c];
        }
        weir_ingest__part_release(ingest->context.env, table, part);
    }
    for (uint32_t c = 0; c < table->column_count; c++)
        if (table->columns[c].column_idx != WEIR_NONE)
            ingest->info_columns[table->columns[c].column_idx].nulls += table->new_categories[c];
}

weir_status weir_ingest__order_rows(weir_ingest__ingest *ingest, weir_error *error) {
    weir_status status = WEIR_OK;
    uint64_t rows = 0;
    WEIR__TRY(weir_ingest__join_texts(ingest, error));
    for (uint32_t t = 0; t < ingest->table_count && status == WEIR_OK; t++) {
        status = join_parts(ingest, &ingest->tables[t], error);
        rows += ingest->tables[t].row_count;
    }
    if (status != WEIR_OK)
        return status;
    weir_ingest__begin_phase(&ingest->context, "order", rows, 0);
    weir__parallel(ingest->context.env, ingest->context.threads, ingest->table_count, order_table, ingest);
    for (uint32_t t = 0; t < ingest->table_count; t++)
        if (ingest->tables[t].status != WEIR_OK) {
            if (error)
                *error = ingest->tables[t].error;
            return ingest->tables[t].status;
        }
    for (uint32_t t = 0; t < ingest->table_count; t++) {
        finish_parts(ingest, &ingest->tables[t]);
        ingest->info_tables[t].row_count = ingest->tables[t].row_count;
    }
    ingest->info.row_count = rows;
    return WEIR_OK;
}
