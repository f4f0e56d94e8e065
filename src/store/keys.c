/* Keys of rows: reading them from the store, and finding the row of one. Rows are sorted by key, so a key is
 * found by halving. Keys that are CBOR items lie one after the other, with an offset every 64 rows; to read
 * one, the items before it in its block are skipped.
 *
 * Every item is checked as it is read: damaged bytes give "no key", never a stray read. */
#include "store/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/floating.h"
#include "store/reader.h"
#include "weir_tool/store_tools.h"

/* ---- Values ---------------------------------------------------------------------------------- */

weir_key_value weir_key_value_of(const weir_cbor_value *item) {
    weir_key_value value = {.type = WEIR_KEY_NONE};
    switch (item->type) {
    case WEIR_CBOR_UINT:
    case WEIR_CBOR_NEGATIVE:
        if (item->number > INT64_MAX)
            break;
        value.type = WEIR_KEY_INTEGER;
        value.integer = item->type == WEIR_CBOR_UINT ? (int64_t)item->number : -1 - (int64_t)item->number;
        break;
    case WEIR_CBOR_FLOAT:
        value.type = isnan(item->real) ? WEIR_KEY_NONE : WEIR_KEY_REAL;
        value.real = item->real;
        break;
    case WEIR_CBOR_TEXT:
    case WEIR_CBOR_BYTES:
        value.type = item->type == WEIR_CBOR_TEXT ? WEIR_KEY_TEXT : WEIR_KEY_BYTES;
        value.bytes = (weir_text){(const char *)item->data, (size_t)item->number};
        break;
    default:
        break;
    }
    return value;
}

/* A real that is a whole number of int64's range counts as that integer. */
static bool is_integer(const weir_key_value *value, int64_t *out) {
    *out = value->integer;
    if (value->type != WEIR_KEY_REAL)
        return value->type == WEIR_KEY_INTEGER;
    if (!(value->real >= -0x1p63 && value->real < 0x1p63) || (double)(int64_t)value->real != value->real)
        return false;
    *out = (int64_t)value->real;
    return true;
}

static int compare_numbers(const weir_key_value *a, const weir_key_value *b) {
    int64_t x, y;
    bool is_x = is_integer(a, &x), is_y = is_integer(b, &y);
    if (is_x && is_y)
        return x < y ? -1 : x > y;
    if (is_x)
        return weir_store__compare_integer_with_real(x, b->real);
    if (is_y)
        return -weir_store__compare_integer_with_real(y, a->real);
    return a->real < b->real ? -1 : a->real > b->real;
}

/* Numbers before text before bytes, as rows are sorted. */
static int compare_values(const weir_key_value *a, const weir_key_value *b) {
    static const int classes[] = {0, 1, 1, 2, 3};
    if (classes[a->type] != classes[b->type])
        return classes[a->type] < classes[b->type] ? -1 : 1;
    if (classes[a->type] < 2)
        return a->type == WEIR_KEY_NONE ? 0 : compare_numbers(a, b);
    size_t least = a->bytes.size < b->bytes.size ? a->bytes.size : b->bytes.size;
    int order = least ? memcmp(a->bytes.data, b->bytes.data, least) : 0;
    if (order != 0)
        return order;
    return a->bytes.size < b->bytes.size ? -1 : a->bytes.size > b->bytes.size;
}

/* ---- Items ----------------------------------------------------------------------------------- */

/* A place among the items of a block; size 0 if the bytes are damaged or it is the block's end. */
typedef struct item_place {
    const uint8_t *at;
    size_t left;
    size_t size; /* of the item */
} item_place;

static item_place look(const uint8_t *at, size_t left) {
    item_place place = {at, left, 0};
    if (left == 0 || weir_cbor_check(at, left, &place.size, NULL) != WEIR_OK)
        place.size = 0;
    return place;
}

static item_place next_item(item_place place) {
    return place.size ? look(place.at + place.size, place.left - place.size) : place;
}

static uint32_t block_count_of(const weir_table *table) {
    return table->row_count / WEIR_STORE__KEYS_A_BLOCK + (table->row_count % WEIR_STORE__KEYS_A_BLOCK != 0);
}

static item_place first_of_block(const weir_store *store, const weir_table *table, uint32_t block) {
    const uint8_t *items = table->keys + ((size_t)block_count_of(table) + 1) * 8;
    const uint8_t *bounds = table->keys + (size_t)block * 8;
    if (!weir_store__touch_in(store, WEIR_STORE__SECTION_KEYS, bounds, 16))
        return (item_place){items, 0, 0};
    uint64_t start = weir__load64(bounds);
    uint64_t end = weir__load64(bounds + 8);
    if (start > end || end > table->key_size ||
        !weir_store__touch_in(store, WEIR_STORE__SECTION_KEYS, items + start, (size_t)(end - start)))
        return (item_place){items, 0, 0};
    return look(items + start, (size_t)(end - start));
}

/* The value at `part` of the key at a place. */
static weir_key_value part_of(const weir_table *table, item_place place, uint32_t part) {
    weir_key_value none = {.type = WEIR_KEY_NONE};
    if (place.size == 0)
        return none;
    weir_cbor_value item = weir_cbor_view(place.at);
    if (table->primary_key_count == 1)
        return part == 0 ? weir_key_value_of(&item) : none;
    if (item.type != WEIR_CBOR_ARRAY || item.number != table->primary_key_count)
        return none;
    weir_cbor_iterator it = weir_cbor_children(&item);
    weir_cbor_value child;
    for (uint32_t i = 0; weir_cbor_next(&it, NULL, &child); i++)
        if (i == part)
            return weir_key_value_of(&child);
    return none;
}

/* False if it is damaged. */
static bool packed_at(const weir_store *store, const weir_table *table, uint32_t index, uint64_t *out) {
    const uint8_t *at = table->keys + (size_t)index * table->key_width;
    if (!weir_store__touch_in(store, WEIR_STORE__SECTION_KEYS, at, table->key_width))
        return false;
    switch (table->key_width) {
    case 1:
        *out = at[0];
        return true;
    case 2:
        *out = weir__load16(at);
        return true;
    case 4:
        *out = weir__load32(at);
        return true;
    default:
        *out = weir__load64(at);
        return true;
    }
}

static weir_key_value key_part(const weir_store *store, const weir_table *table, uint32_t index,
                               uint32_t part) {
    weir_key_value value = {.type = WEIR_KEY_NONE};
    if (table->key_form == WEIR_KEYS_CBOR) {
        item_place place = first_of_block(store, table, index / WEIR_STORE__KEYS_A_BLOCK);
        for (uint32_t i = index % WEIR_STORE__KEYS_A_BLOCK; i > 0; i--)
            place = next_item(place);
        return part_of(table, place, part);
    }
    if (part > 0 || table->key_form == WEIR_KEYS_NONE)
        return value;
    uint64_t more = index;
    if (table->key_form != WEIR_KEYS_RANGE && !packed_at(store, table, index, &more))
        return value;
    value.type = WEIR_KEY_INTEGER;
    value.integer = (int64_t)((uint64_t)table->key_first + more);
    return value;
}

/* ---- Finding --------------------------------------------------------------------------------- */

static int compare_with(const weir_table *table, item_place place, const weir_key_value *values) {
    for (uint32_t i = 0; i < table->primary_key_count; i++) {
        weir_key_value value = part_of(table, place, i);
        int order = compare_values(&value, &values[i]);
        if (order != 0)
            return order;
    }
    return 0;
}

/* The block whose first key is the last at or before the key; then the rows of that block. */
static uint32_t find_item(const weir_store *store, const weir_table *table, const weir_key_value *values) {
    uint32_t low = 0, high = block_count_of(table);
    if (table->row_count == 0)
        return WEIR_NONE;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (compare_with(table, first_of_block(store, table, middle), values) <= 0)
            low = middle;
        else
            high = middle;
    }
    uint32_t row = low * WEIR_STORE__KEYS_A_BLOCK;
    item_place place = first_of_block(store, table, low);
    for (; place.size > 0 && row < table->row_count; row++, place = next_item(place))
        if (compare_with(table, place, values) == 0)
            return row;
    return WEIR_NONE;
}

static uint32_t find_integer(const weir_store *store, const weir_table *table, int64_t key) {
    uint32_t low = 0, high = table->row_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        weir_key_value value = key_part(store, table, middle, 0);
        if (value.type == WEIR_KEY_NONE)
            return WEIR_NONE;
        if (value.integer == key)
            return middle;
        if (value.integer < key)
            low = middle + 1;
        else
            high = middle;
    }
    return WEIR_NONE;
}

static __attribute__((noinline)) uint32_t find_key(const weir_store *store, const weir_table *table,
                                                   const weir_key_value *values) {
    int64_t key;
    if (table->key_form == WEIR_KEYS_CBOR)
        return find_item(store, table, values);
    return is_integer(&values[0], &key) ? find_integer(store, table, key) : WEIR_NONE;
}

uint64_t weir_store_find_row(const weir_store *store, uint32_t table, const weir_key_value *values,
                             uint32_t count) {
    if (table >= store->info.table_count)
        return WEIR_NO_ROW;
    const weir_table *found = &store->info.tables[table];
    if (found->key_form == WEIR_KEYS_NONE || count != found->primary_key_count)
        return WEIR_NO_ROW;
    for (uint32_t i = 0; i < count; i++) /* no order has a place for these */
        if (values[i].type == WEIR_KEY_NONE || (values[i].type == WEIR_KEY_REAL && isnan(values[i].real)))
            return WEIR_NO_ROW;
    weir__floating kept = weir__enter_floating();
    uint32_t index = find_key(store, found, values);
    weir__leave_floating(&kept);
    return index == WEIR_NONE ? WEIR_NO_ROW : found->row_start + index;
}

bool weir_store_key(const weir_store *store, uint64_t row, uint32_t part, weir_key_value *out) {
    uint32_t t = weir_store_table_of(store, row);
    *out = (weir_key_value){.type = WEIR_KEY_NONE};
    if (t != WEIR_NONE)
        *out = key_part(store, &store->info.tables[t],
                        WEIR__NARROW(uint32_t, row - store->info.tables[t].row_start), part);
    return out->type != WEIR_KEY_NONE;
}

/* ---- For people ------------------------------------------------------------------------------ */

static uint32_t parts_of_row(const weir_store *store, uint64_t row) {
    uint32_t t = weir_store_table_of(store, row);
    return t == WEIR_NONE || store->info.tables[t].key_form == WEIR_KEYS_NONE
               ? 0
               : store->info.tables[t].primary_key_count;
}

static void put_value(weir_json_writer *w, const weir_key_value *value) {
    switch (value->type) {
    case WEIR_KEY_INTEGER:
        weir_json_int(w, value->integer);
        break;
    case WEIR_KEY_REAL:
        weir_json_double(w, value->real);
        break;
    case WEIR_KEY_TEXT:
        weir_json_text_n(w, value->bytes.data, value->bytes.size);
        break;
    case WEIR_KEY_BYTES:
        weir_json_object(w);
        weir_json_pair_hex(w, "bytes", value->bytes.data, value->bytes.size);
        weir_json_end_object(w);
        break;
    default:
        weir_json_null(w);
    }
}

void weir_store_key_json(const weir_store *store, uint64_t row, weir_json_writer *w) {
    uint32_t count = parts_of_row(store, row);
    weir_key_value value = {.type = WEIR_KEY_NONE};
    if (count > 1)
        weir_json_array(w);
    for (uint32_t i = 0; i < count; i++) {
        (void)weir_store_key(store, row, i, &value);
        put_value(w, &value);
    }
    if (count > 1)
        weir_json_end_array(w);
    if (count == 0)
        weir_json_null(w);
}

static void add_value(weir_store__cut_text *text, const weir_key_value *value) {
    char number[WEIR__REAL_TEXT] = "?";
    if (value->type == WEIR_KEY_INTEGER)
        snprintf(number, sizeof number, "%lld", (long long)value->integer);
    else if (value->type == WEIR_KEY_REAL)
        weir__print_real(value->real, number);
    if (value->type == WEIR_KEY_TEXT) {
        weir_store__cut_text_add(text, "'", 1);
        weir_store__cut_text_add(text, value->bytes.data, value->bytes.size);
        weir_store__cut_text_add(text, "'", 1);
    } else if (value->type == WEIR_KEY_BYTES) {
        for (size_t i = 0; i < value->bytes.size; i++) {
            snprintf(number, sizeof number, "%02x", (unsigned)WEIR__LOW(uint8_t, value->bytes.data[i]));
            weir_store__cut_text_add(text, number, 2);
        }
    } else {
        weir_store__cut_text_add(text, number, strlen(number));
    }
}

size_t weir_store_key_part_text(const weir_key_value *value, char *out, size_t size) {
    weir_store__cut_text text = {out, size, 0};
    add_value(&text, value);
    return text.length;
}

size_t weir_store_key_text(const weir_store *store, uint64_t row, char *out, size_t size) {
    uint32_t count = parts_of_row(store, row);
    weir_store__cut_text text = {out, size, 0};
    weir_store__cut_text_add(&text, "", 0);
    for (uint32_t i = 0; i < count; i++) {
        weir_key_value value;
        (void)weir_store_key(store, row, i, &value);
        if (count > 1)
            weir_store__cut_text_add(&text, i == 0 ? "(" : ", ", i == 0 ? 1 : 2);
        add_value(&text, &value);
    }
    if (count > 1)
        weir_store__cut_text_add(&text, ")", 1);
    return text.length;
}

/* ---- Soundness ------------------------------------------------------------------------------- */

/* Whether a key has all its parts, and comes after the one before it, if there is one. */
static bool is_next(const weir_table *table, const item_place *before, item_place at) {
    int order = before ? 0 : -1;
    for (uint32_t i = 0; i < table->primary_key_count; i++) {
        weir_key_value value = part_of(table, at, i);
        if (value.type == WEIR_KEY_NONE)
            return false;
        if (order != 0)
            continue;
        weir_key_value earlier = part_of(table, *before, i);
        order = compare_values(&earlier, &value);
    }
    return order < 0;
}

static __attribute__((noinline)) bool items_are_sound(const weir_store *store, const weir_table *table,
                                                      uint32_t *row) {
    item_place before = {0}, place = {0};
    uint32_t block_count = block_count_of(table);
    for (*row = 0; *row < table->row_count; ++*row, before = place) {
        bool begins_block = *row % WEIR_STORE__KEYS_A_BLOCK == 0;
        bool ends_before = place.left == place.size; /* nothing is left over in the block before */
        place =
            begins_block ? first_of_block(store, table, *row / WEIR_STORE__KEYS_A_BLOCK) : next_item(place);
        if ((begins_block && !ends_before) || !is_next(table, *row > 0 ? &before : NULL, place))
            return false;
    }
    return place.left == place.size && weir__load64(table->keys) == 0 &&
           weir__load64(table->keys + (size_t)block_count * 8) == table->key_size;
}

bool weir_store__keys_are_sound(const weir_store *store, const weir_table *table, uint32_t *row) {
    if (table->key_form == WEIR_KEYS_CBOR) {
        weir__floating kept = weir__enter_floating();
        bool are_sound = items_are_sound(store, table, row);
        weir__leave_floating(&kept);
        return are_sound;
    }
    uint64_t last = INT64_MAX - (uint64_t)table->key_first; /* the largest that may be added to the first */
    uint64_t before = 0;
    for (*row = 0; *row < table->row_count && table->key_form != WEIR_KEYS_NONE; ++*row) {
        uint64_t more = *row;
        if (table->key_form == WEIR_KEYS_PACKED && !packed_at(store, table, *row, &more))
            return false;
        if (more > last || (*row == 0 ? more != 0 : more <= before))
            return false;
        before = more;
    }
    return true;
}
