/* Damaged stores: hashes made right again over bytes that are not, and a walk that reads all that a store
 * offers. */
#ifndef WEIR_TESTS_DAMAGE_H
#define WEIR_TESTS_DAMAGE_H

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "store/format.h"
#include "weir_tool/store_tools.h"

/* How many sections a file says it has, or the least if it lies. */
static inline uint32_t sections_in(const uint8_t *data) {
    uint32_t count = weir__load32(data + 12);
    return count >= WEIR_STORE__SECTIONS_LEAST && count <= WEIR_STORE__SECTIONS_MOST
               ? count
               : WEIR_STORE__SECTIONS_LEAST;
}

/* Makes the tail's values fit the bytes, if there is a tail and the table's places lie before it. */
static inline void rehash_tail(uint8_t *data, size_t size) {
    uint64_t end = weir__load64(data + 16);
    uint8_t *value = data + end + WEIR_STORE__TAIL_HEADER_SIZE;
    for (uint32_t i = 0; i < sections_in(data); i++) {
        const uint8_t *entry = data + WEIR_STORE__HEADER_SIZE + i * WEIR_STORE__SECTION_ENTRY_SIZE;
        uint64_t offset = weir__load64(entry + 8);
        uint64_t length = weir__load64(entry + 16);
        if (offset > end || length > end - offset || length <= WEIR__SUBTREE_SIZE)
            continue;
        for (uint64_t at = 0; at < length && value + 32 <= data + size;
             at += WEIR__SUBTREE_SIZE, value += 32) {
            size_t part = length - at < WEIR__SUBTREE_SIZE ? (size_t)(length - at) : WEIR__SUBTREE_SIZE;
            weir__blake3_subtree(data + offset + at, part, at / WEIR__SUBTREE_SIZE, value);
        }
    }
}

/* Makes every section's hash, the tail and the root fit the bytes, where the table's places lie in the file.
 */
static inline void rehash_store(uint8_t *data, size_t size) {
    if (size < WEIR_STORE__PAGE)
        return;
    uint64_t end = weir__load64(data + 16);
    bool has_tail = end < size && size - end >= WEIR_STORE__TAIL_HEADER_SIZE &&
                    memcmp(data + end, WEIR_STORE__TAIL_MAGIC, 8) == 0;
    if (has_tail)
        rehash_tail(data, size);
    else
        weir__store64(data + 16, size);
    uint32_t count = sections_in(data);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *entry = data + WEIR_STORE__HEADER_SIZE + i * WEIR_STORE__SECTION_ENTRY_SIZE;
        uint64_t offset = weir__load64(entry + 8);
        uint64_t length = weir__load64(entry + 16);
        if (offset <= size && length <= size - offset)
            weir__blake3_of(data + offset, (size_t)length, entry + 24);
    }
    memset(data + WEIR_STORE__ROOT_OFFSET, 0, WEIR_HASH_SIZE);
    weir__blake3_of(data, weir_store__frame_size(count), data + WEIR_STORE__ROOT_OFFSET);
}

/* Reads every table, cell, edge, seed and text through the accessors; returns a number that depends on all
 * of them. At most `limit` of each kind, for stores that claim to be huge. */
static inline uint64_t read_everything(const weir_store *store, uint32_t limit) {
    const weir_store_info *info = weir_store_describe(store);
    uint64_t sum = 0;
    char text[64];
    for (uint64_t row = 0; row < info->row_count && row < limit; row++) {
        const uint8_t *record = weir_store_record(store, row);
        uint32_t table = weir_store_table_of(store, row);
        sum += (uint64_t)weir_store_row_time(store, row) +
               (record && info->tables[table].stride ? record[0] : 0);
        for (uint32_t c = 0; c < info->tables[table].column_count; c++) {
            weir_cell cell;
            sum += weir_store_cell(store, row, info->tables[table].column_start + c, &cell);
            sum += (uint64_t)cell.integer;
            if (cell.stype == WEIR_TEXT)
                sum += weir_store_text(store, (uint32_t)cell.integer).size;
        }
        weir_key_value key[8];
        uint32_t parts = info->tables[table].primary_key_count;
        for (uint32_t i = 0; i < parts && i < 8; i++)
            sum += weir_store_key(store, row, i, &key[i]) + key[i].bytes.size + (uint64_t)key[i].integer;
        if (parts <= 8)
            sum += weir_store_find_row(store, table, key, parts);
        sum += weir_store_key_text(store, row, text, sizeof text);
        for (uint32_t i = 0; i < info->tables[table].time_count && i < limit; i++) {
            sum += (uint64_t)weir_store_time_at(store, row, info->tables[table].times[i].slot);
            sum += weir_store_time_text(store, table, i, text, sizeof text);
        }
        for (uint32_t e = 0; e < info->edge_count && e < limit; e++) {
            uint32_t count;
            uint64_t parent = weir_store_parent(store, row, e);
            sum += parent == WEIR_NO_ROW ? 1 : weir_store_record(store, parent) != NULL;
            uint32_t start = weir_store_children(store, e, row, INT64_MAX, &count);
            for (uint32_t i = 0; i < count && i < limit; i++)
                sum += weir__load32(info->edges[e].child_rows + 4 * ((size_t)start + i));
        }
    }
    for (uint32_t t = 0; t < info->task_count && t < limit; t++)
        for (uint32_t i = 0; i < info->tasks[t].seed_count && i < limit; i++) {
            weir_seed_row seed;
            sum += weir_store_seed(store, t, i, &seed) ? seed.row : 1;
            sum += weir_store_is_held_out(store, t, seed.row);
            sum += (uint64_t)weir_store_label_time(store, t, i);
        }
    for (uint32_t i = 0; i < info->category_count && i < limit; i++)
        sum += weir_store_category_text(store, i, text, sizeof text);
    for (uint32_t i = 0; i < info->column_count && i < limit; i++)
        sum += weir_store_column_text(store, i, text, sizeof text);
    return sum;
}

#endif
