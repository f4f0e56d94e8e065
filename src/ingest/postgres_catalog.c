/* The catalog of a PostgreSQL database: its tables and views, their columns in declared order, and their
 * keys. What a bare name finds (in the schemas of the search path, which a URL can set with
 * ?options=-csearch_path%3Da,b) is called by it; all else is schema.table, and hidden from drafts. The
 * queries keep to what every server of the family has; arrays are read from their text.
 *
 * Tables, partitioned tables, foreign tables and materialized views are listed; partitions and tables that
 * inherit are not, because a scan of their parent has their rows. Of views only the names are taken down. */
#include <stdlib.h>
#include <string.h>

#include "ingest/convert.h"
#include "ingest/postgres.h"

static const char describing[] = "cannot read the database's catalog";

#define LISTED_TABLES                                                                                        \
    "FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "                   \
    "WHERE c.relkind IN ('r', 'p', 'f', 'm', 'v') "                                                          \
    "AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'pg_extension', 'pg_internal', "  \
    "'crdb_internal') AND n.nspname NOT LIKE 'pg!_temp!_%' ESCAPE '!' "                                      \
    "AND c.oid NOT IN (SELECT i.inhrelid FROM pg_catalog.pg_inherits i) "

/* ---- Reading results ------------------------------------------------------------------------- */

/* A number of 32 bits; false if the cell is none. */
static bool read_number(const char *text, size_t size, uint32_t *out) {
    uint64_t number;
    return weir__decimal_parse(text, size, &number) && weir__fits(number, out);
}

static bool number_at(const weir_ingest__text_rows *rows, size_t row, uint32_t column, uint32_t *out) {
    const char *text = weir_ingest__text_rows_cell(rows, row, column);
    return read_number(text, strlen(text), out);
}

/* The attribute numbers of an int2[] in text form, "{3,1}"; 0, which no attribute has, for one that is none.
 * Returns how many there are, also beyond `most`. */
static uint32_t read_numbers(const char *text, uint32_t *out, uint32_t most) {
    uint32_t count = 0;
    for (const char *at = strpbrk(text, "0123456789"); at; at = strpbrk(at, "0123456789")) {
        size_t size = strspn(at, "0123456789");
        if (count < most && !read_number(at, size, &out[count]))
            out[count] = 0;
        count++;
        at += size;
    }
    return count;
}

static weir_status bad_number(weir_error *error) {
    return WEIR_INGEST__SOURCE_ERROR(
        error, "%s: the server sent text instead of a number, which PostgreSQL does not do", describing);
}

/* ---- Tables by number ------------------------------------------------------------------------ */

/* A type that is another one with conditions, or an enum, which has no base. */
typedef struct derived_type {
    uint32_t type;
    uint32_t base; /* 0: an enum */
} derived_type;

/* What the queries share while the catalog is filled. Its tables ascend in oid, and a table's columns in
 * attribute number (dropped columns leave gaps, so these are not the columns' own numbers). */
typedef struct listing {
    weir_ingest__pg_session *session;
    weir_ingest__catalog *catalog;
    derived_type *types; /* ascending */
    uint32_t type_count;
} listing;

static uint32_t oid_of(const weir_ingest__catalog_table *table) {
    return ((const weir_ingest__pg_table *)table->detail)->oid;
}

static weir_ingest__catalog_table *find_table(const listing *list, uint32_t oid) {
    weir_ingest__catalog_table *tables = list->catalog->tables;
    uint32_t low = 0, high = list->catalog->table_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (oid_of(&tables[middle]) < oid)
            low = middle + 1;
        else
            high = middle;
    }
    return low < list->catalog->table_count && oid_of(&tables[low]) == oid ? &tables[low] : NULL;
}

/* UINT32_MAX if there is none. */
static uint32_t find_column(const weir_ingest__catalog_table *table, uint32_t attribute) {
    uint32_t low = 0, high = table->column_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (table->columns[middle].source_number < attribute)
            low = middle + 1;
        else
            high = middle;
    }
    bool is_found = low < table->column_count && table->columns[low].source_number == attribute;
    return is_found ? low : UINT32_MAX;
}

static int compare_types(const void *a, const void *b) {
    uint32_t left = ((const derived_type *)a)->type, right = ((const derived_type *)b)->type;
    return left < right ? -1 : left > right;
}

/* A domain's base type, which may be a domain again. */
static uint32_t base_type(const listing *list, uint32_t type, bool *is_enum) {
    enum { DEPTH_MAX = 64 };
    *is_enum = false;
    for (int depth = 0; depth < DEPTH_MAX && list->type_count > 0; depth++) {
        derived_type key = {.type = type};
        const derived_type *found = bsearch(&key, list->types, list->type_count, sizeof key, compare_types);
        *is_enum = found && found->base == 0;
        if (!found || *is_enum)
            break;
        type = found->base;
    }
    return type;
}

/* ---- Filling --------------------------------------------------------------------------------- */

/* Reads rows about the catalog, and takes each into the list. */
static weir_status for_each_row(listing *list, const char *statement, uint32_t cells,
                                weir_status (*take)(listing *list, const weir_ingest__text_rows *rows,
                                                    size_t row, weir_error *error),
                                weir_error *error) {
    weir_ingest__text_rows rows;
    WEIR__TRY(weir_ingest__pg_read_rows(list->session, statement, cells, describing, &rows, error));
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < rows.row_count && !status; i++) {
        status = take(list, &rows, i, error);
        if (!status && list->catalog->memory.is_short)
            status = weir_ingest__source_no_memory(error, 0);
    }
    weir_ingest__text_rows_release(&rows);
    return status;
}

static const char tables[] =
    "SELECT c.oid, c.relname, n.nspname, c.reltuples, pg_catalog.pg_table_is_visible(c.oid), "
    "c.relkind " LISTED_TABLES "ORDER BY c.oid";

static weir_status take_table(listing *list, const weir_ingest__text_rows *rows, size_t row,
                              weir_error *error) {
    uint32_t oid, count = list->catalog->table_count;
    bool is_visible = *weir_ingest__text_rows_cell(rows, row, 4) == 't';
    if (!number_at(rows, row, 0, &oid) || (count > 0 && oid <= oid_of(&list->catalog->tables[count - 1])))
        return bad_number(error);
    weir_ingest__catalog_table *table =
        weir_ingest__catalog_add_table_of(list->catalog, weir_ingest__text_rows_cell(rows, row, 2),
                                          weir_ingest__text_rows_cell(rows, row, 1), is_visible);
    weir_ingest__pg_table *detail = weir__arena_take_zero(&list->catalog->memory, 1, sizeof *detail);
    if (!table || !detail)
        return WEIR_OK; /* memory is short */
    detail->oid = oid;
    table->detail = detail;
    table->row_estimate = weir_ingest__text_rows_estimate(rows, row, 3);
    table->is_view = *weir_ingest__text_rows_cell(rows, row, 5) == 'v';
    table->is_hidden = table->is_hidden || table->is_view;
    return WEIR_OK;
}

/* Of an enum the base is 0. */
static const char types[] = "SELECT oid, typbasetype FROM pg_catalog.pg_type WHERE typtype IN ('d', 'e')";

static weir_status take_type(listing *list, const weir_ingest__text_rows *rows, size_t row,
                             weir_error *error) {
    derived_type *added =
        weir__arena_append(&list->catalog->memory, &list->types, &list->type_count, sizeof *list->types);
    bool is_number = added && number_at(rows, row, 0, &added->type) && number_at(rows, row, 1, &added->base);
    return is_number || !added ? WEIR_OK : bad_number(error);
}

static const char columns[] =
    "SELECT a.attrelid, a.attnum, a.attname, a.atttypid FROM pg_catalog.pg_attribute a "
    "WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid IN (SELECT c.oid " LISTED_TABLES
    "AND c.relkind <> 'v') "
    "ORDER BY a.attrelid, a.attnum";

static weir_status take_column(listing *list, const weir_ingest__text_rows *rows, size_t row,
                               weir_error *error) {
    uint32_t oid, attribute, type;
    bool is_enum;
    if (!number_at(rows, row, 0, &oid) || !number_at(rows, row, 1, &attribute) ||
        !number_at(rows, row, 3, &type))
        return bad_number(error);
    weir_ingest__catalog_table *table = find_table(list, oid);
    if (!table)
        return WEIR_OK;
    if (table->column_count > 0 && attribute <= table->columns[table->column_count - 1].source_number)
        return bad_number(error);
    type = base_type(list, type, &is_enum);
    weir_ingest__catalog_column *column = weir_ingest__catalog_add_column(
        list->catalog, table, weir_ingest__text_rows_cell(rows, row, 2),
        is_enum ? WEIR_INGEST__DECLARED_ENUM : weir_ingest__pg_type_of(type).declared);
    if (column) {
        column->source_type = type;
        column->source_number = attribute;
    }
    return WEIR_OK;
}

static const char keys[] =
    "SELECT k.conrelid, k.contype, k.conkey, k.confrelid, k.confkey FROM pg_catalog.pg_constraint k "
    "WHERE k.contype IN ('p', 'f') ORDER BY k.conrelid, k.oid";

static weir_status take_key(listing *list, const weir_ingest__text_rows *rows, size_t row,
                            weir_error *error) {
    enum { COLUMNS_MAX = 32 }; /* of PostgreSQL */
    uint32_t oid, parent_oid = 0, numbers[COLUMNS_MAX], parent_numbers[COLUMNS_MAX];
    bool is_primary = *weir_ingest__text_rows_cell(rows, row, 1) == 'p';
    if (!number_at(rows, row, 0, &oid) || (!is_primary && !number_at(rows, row, 3, &parent_oid)))
        return bad_number(error);
    weir_ingest__catalog_table *table = find_table(list, oid);
    uint32_t count = read_numbers(weir_ingest__text_rows_cell(rows, row, 2), numbers, COLUMNS_MAX);
    if (!table || count > COLUMNS_MAX)
        return WEIR_OK;
    for (uint32_t i = 0; i < count && is_primary; i++) {
        uint32_t column = find_column(table, numbers[i]);
        if (column != UINT32_MAX)
            weir_ingest__catalog_add_primary_key(list->catalog, table, column);
    }
    const weir_ingest__catalog_table *parent = is_primary ? NULL : find_table(list, parent_oid);
    if (!parent ||
        count != read_numbers(weir_ingest__text_rows_cell(rows, row, 4), parent_numbers, COLUMNS_MAX))
        return WEIR_OK;
    weir_ingest__catalog_key *key = weir_ingest__catalog_add_foreign_key(list->catalog, table, parent->name);
    for (uint32_t i = 0; i < count && key; i++) {
        uint32_t column = find_column(table, numbers[i]);
        uint32_t to_column = find_column(parent, parent_numbers[i]);
        bool is_there = column != UINT32_MAX && to_column != UINT32_MAX;
        weir_ingest__catalog_add_key_columns(list->catalog, key, is_there ? column : UINT32_MAX,
                                             is_there ? parent->columns[to_column].name : "");
    }
    return WEIR_OK;
}

/* Sizes in blocks, of heaps: of a partitioned table the largest partition's, because ranges of ctid hold in
 * each partition. Inexact sizes share unevenly but lose no row, since the last part has no upper end. */
static const char sizes[] =
    "SELECT t.oid, max(pg_catalog.pg_relation_size(l.oid)) / current_setting('block_size')::int8, "
    "sum(pg_catalog.pg_table_size(l.oid)), bool_and(m.amname IS NOT NULL AND m.amname = 'heap') "
    "FROM (SELECT c.oid, c.relkind " LISTED_TABLES "AND c.relkind <> 'v') t CROSS JOIN LATERAL ("
    "SELECT t.oid AS leaf WHERE t.relkind <> 'p' UNION ALL SELECT p.relid "
    "FROM pg_catalog.pg_partition_tree(t.oid) p WHERE t.relkind = 'p' AND p.isleaf) x "
    "JOIN pg_catalog.pg_class l ON l.oid = x.leaf LEFT JOIN pg_catalog.pg_am m ON m.oid = l.relam "
    "GROUP BY t.oid";

static weir_status take_size(listing *list, const weir_ingest__text_rows *rows, size_t row,
                             weir_error *error) {
    enum { ROWS_A_BLOCK = 60 }; /* a guess for tables that were never analysed */
    uint32_t oid;
    weir_ingest__catalog_table *table = number_at(rows, row, 0, &oid) ? find_table(list, oid) : NULL;
    (void)error;
    if (!table)
        return WEIR_OK;
    if (!table->is_hidden)
        list->catalog->size_bytes += weir_ingest__text_rows_estimate(rows, row, 2);
    weir_ingest__pg_table *detail = table->detail;
    if (*weir_ingest__text_rows_cell(rows, row, 3) == 't' && !number_at(rows, row, 1, &detail->block_count))
        detail->block_count = 0;
    if (table->row_estimate == 0)
        table->row_estimate = (uint64_t)ROWS_A_BLOCK * detail->block_count;
    return WEIR_OK;
}

weir_status weir_ingest__pg_describe(weir_ingest__source *source, weir_ingest__catalog *out,
                                     weir_error *error) {
    listing list = {.session = (weir_ingest__pg_session *)source, .catalog = out};
    const char *name = PQdb(list.session->connection);
    weir_ingest__catalog_set_name(out, name ? name : "");
    WEIR__TRY(for_each_row(&list, tables, 6, take_table, error));
    WEIR__TRY(for_each_row(&list, types, 2, take_type, error));
    if (list.type_count > 0)
        qsort(list.types, list.type_count, sizeof *list.types, compare_types);
    WEIR__TRY(for_each_row(&list, columns, 4, take_column, error));
    WEIR__TRY(for_each_row(&list, keys, 5, take_key, error));
    weir_ingest__catalog_resolve_keys(out, strcmp);
    return list.session->can_share ? for_each_row(&list, sizes, 4, take_size, error) : WEIR_OK;
}
