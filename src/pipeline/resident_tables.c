/* See resident_tables.h. */
#include "pipeline/resident_tables.h"

#include "base/bits.h"
#include "base/narrow.h"
#include "pipeline/run_memory.h"
#include "weir_tool/store_tools.h"

/* How many columns and categories there are: those before the last store, and its own. */
static weir_tables count_rows(const weir_batch__origin *origins, uint32_t count) {
    const weir_batch__origin *last = &origins[count - 1];
    const weir_store_info *info = weir_store_describe(last->store);
    if (info->embedding_dim == 0)
        return (weir_tables){0};
    return (weir_tables){.embedding_dim = info->embedding_dim,
                         .column_count = last->first_column + info->column_count,
                         .category_count = last->first_category + info->category_count};
}

static uint64_t table_size(const weir_tables *tables, uint32_t count) {
    return weir__align(2 * (uint64_t)tables->embedding_dim * count, WEIR_PIPELINE__DEVICE_ALIGNMENT);
}

uint64_t weir_pipeline__tables_size(const weir_batch__origin *origins, uint32_t count) {
    weir_tables tables = count_rows(origins, count);
    return table_size(&tables, tables.column_count) + table_size(&tables, tables.category_count);
}

weir_status weir_pipeline__tables_of_store(const weir_store *store, weir_tables *tables, weir_error *error) {
    const weir_store_info *info = weir_store_describe(store);
    weir_batch__origin alone = {.store = store};
    *tables = count_rows(&alone, 1);
    if (tables->embedding_dim == 0)
        return WEIR_OK;
    size_t row = 2 * (size_t)info->embedding_dim;
    if (!weir_store_touch(store, info->column_embeddings, row * info->column_count) ||
        !weir_store_touch(store, info->category_embeddings, row * info->category_count))
        return weir_store_status(store, error);
    tables->column_embeddings = info->column_embeddings;
    tables->category_embeddings = info->category_embeddings;
    return WEIR_OK;
}

/* Writes a store's rows of a table behind those of the stores before it. */
static weir_status write_rows(const weir_batch__origin *origin, const weir_memory *memory, uint8_t *table,
                              uint32_t first, const uint8_t *from, uint32_t count, weir_error *error) {
    size_t row = 2 * (size_t)weir_store_describe(origin->store)->embedding_dim;
    if (!weir_store_touch(origin->store, from, row * count))
        return weir_store_status(origin->store, error);
    return weir__memory_write(memory, table + row * first, from, row * count, error);
}

weir_status weir_pipeline__tables_write(const weir_batch__origin *origins, uint32_t count,
                                        const weir_memory *memory, uint8_t **next, weir_tables *tables,
                                        weir_error *error) {
    *tables = count_rows(origins, count);
    if (tables->embedding_dim == 0)
        return WEIR_OK;
    uint8_t *columns = *next, *categories = columns + table_size(tables, tables->column_count);
    tables->column_embeddings = columns;
    tables->category_embeddings = categories;
    *next = categories + table_size(tables, tables->category_count);
    for (uint32_t i = 0; i < count; i++) {
        const weir_store_info *info = weir_store_describe(origins[i].store);
        WEIR__TRY(write_rows(&origins[i], memory, columns, origins[i].first_column, info->column_embeddings,
                             info->column_count, error));
        WEIR__TRY(write_rows(&origins[i], memory, categories, origins[i].first_category,
                             info->category_embeddings, info->category_count, error));
    }
    return WEIR_OK;
}
