/* The section of keys: of each table that keeps them, the primary keys of its rows in the least form that
 * holds them (docs/format.md). The forms are chosen first, because the metadata, which stands before, names
 * them. */

#include "base/bytes.h"
#include "ingest/encode.h"

bool weir_ingest__primary_key_cbor(const weir_ingest__table *table, uint32_t row, weir_cbor_writer *w) {
    weir_cbor_restart(w);
    w->size = 0;
    if (table->plan->primary_key_count > 1)
        weir_cbor_array(w, table->plan->primary_key_count);
    for (uint32_t i = 0; i < table->plan->primary_key_count; i++)
        weir_ingest__key_cbor(weir_ingest__key_at(&table->data[table->plan->primary_key[i]], row), w);
    return weir_cbor_finish(w, NULL) == WEIR_OK;
}

/* The offsets stand before the items, so the keys are composed twice. */
static bool write_items(const weir_ingest__table *table, weir_cbor_writer *key, weir_store__writer *w) {
    bool is_fine = true;
    uint64_t offset = 0;
    for (uint32_t r = 0; r < table->row_count && is_fine; r++) {
        if (r % WEIR_STORE__KEYS_A_BLOCK == 0)
            weir_store__writer_put_long(w, offset);
        is_fine = weir_ingest__primary_key_cbor(table, r, key);
        offset += key->size;
    }
    weir_store__writer_put_long(w, offset);
    for (uint32_t r = 0; r < table->row_count && is_fine; r++) {
        is_fine = weir_ingest__primary_key_cbor(table, r, key);
        weir_store__writer_put(w, key->data, key->size);
    }
    return is_fine;
}

/* ---- All tables ------------------------------------------------------------------------------ */

static const weir_ingest__column_data *integers_of(const weir_ingest__table *table) {
    const weir_ingest__column_data *first = &table->data[table->plan->primary_key[0]];
    return table->plan->primary_key_count == 1 && !first->tags ? first : NULL;
}

weir_status weir_ingest__choose_key_forms(const weir_ingest__encoder *e, weir_error *error) {
    weir_cbor_writer w;
    bool is_fine = true;
    weir_cbor_writer_memory(&w, e->context->env);
    for (uint32_t t = 0; t < e->plan->table_count && is_fine; t++) {
        const weir_ingest__table *table = &e->ordered->tables[t];
        weir_table *info = &e->description->tables[t];
        uint32_t count = table->row_count;
        if (!table->plan->keeps_primary_keys)
            continue;
        const weir_ingest__column_data *integers = integers_of(table);
        info->key_form = integers ? WEIR_KEYS_RANGE : WEIR_KEYS_CBOR;
        for (uint32_t r = 0; r < count && !integers && is_fine; r++) {
            is_fine = weir_ingest__primary_key_cbor(table, r, &w);
            info->key_size += w.size;
        }
        if (!integers || count == 0)
            continue;
        info->key_first = (int64_t)integers->keys[0];
        for (uint32_t r = 1; r < count && info->key_form == WEIR_KEYS_RANGE; r++)
            if (integers->keys[r] != integers->keys[0] + r)
                info->key_form = WEIR_KEYS_PACKED;
        uint64_t most = integers->keys[count - 1] - integers->keys[0];
        if (info->key_form == WEIR_KEYS_PACKED)
            info->key_width = most <= UINT8_MAX ? 1 : most <= UINT16_MAX ? 2 : most <= UINT32_MAX ? 4 : 8;
    }
    weir_cbor_release(&w);
    return is_fine ? WEIR_OK : weir_ingest__no_memory(error, 1);
}

weir_status weir_ingest__write_keys(const weir_ingest__encoder *e, weir_error *error) {
    weir_store__writer *w = e->writer;
    weir_cbor_writer key;
    bool is_fine = true;
    weir_cbor_writer_memory(&key, e->context->env);
    for (uint32_t t = 0; t < e->plan->table_count && is_fine; t++) {
        const weir_ingest__table *table = &e->ordered->tables[t];
        const weir_table *info = &e->description->tables[t];
        if (info->key_form == WEIR_KEYS_NONE)
            continue;
        weir_store__writer_begin(w, WEIR_STORE__SECTION_KEYS);
        weir_store__writer_align(w, WEIR_STORE__KEY_ALIGNMENT);
        if (info->key_form == WEIR_KEYS_CBOR)
            is_fine = write_items(table, &key, w);
        for (uint32_t r = 0; r < info->row_count && info->key_form == WEIR_KEYS_PACKED; r++) {
            uint8_t bytes[8];
            weir__store64(bytes, integers_of(table)->keys[r] - (uint64_t)info->key_first);
            weir_store__writer_put(w, bytes, info->key_width);
        }
    }
    weir_cbor_release(&key);
    return is_fine ? WEIR_OK : weir_ingest__no_memory(error, 1);
}
