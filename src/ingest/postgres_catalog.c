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
    return weir__fail(error, WEIR_SOURCE_ERROR, WEIR_INGEST__SOURCE_OPERATOR,
                      "%s: the server sent text instead of a number, which PostgreSQL does not do",
                      describing);
}

/* ---- Tables by number ------------------------------------------------------------------------ */

/* What the queries share while the catalog is filled: for each of its tables the object number, and its
 * columns by attribute number (dropped columns leave gaps, so these are not the columns' own numbers). */
typedef struct listed_table {
    uint32_t oid;
    uint32_t *attributes;
    uint32_t *types;
    size_t attribute_capacity;
    size_t type_capacity;
} listed_table;

/* A type that is another one with conditions. */
typedef struct domain {
    uint32_t type;
    uint32_t base;
} domain;

typedef struct listing {
    weir_ingest__pg_session *session;
    weir_ingest__catalog *catalog;
    listed_table *tables; /* by number of the catalog's table; ascending in oid */
    uint32_t table_count;
    domain *domains; /* ascending */
    size_t domain_count;
    uint32_t *enums; /* ascending */
    size_t enum_count;
} listing;

static bool find_table(const listing *list, uint32_t oid, uint32_t *out) {
    uint32_t low = 0, high = list->table_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (list->tables[middle].oid < oid)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return low < list->table_count && list->tables[low].oid == oid;
}

/* Attributes ascend in a table. */
static bool find_column(const listing *list, uint32_t table, uint32_t attribute, uint32_t *out) {
    const uint32_t *attributes = list->tables[table].attributes;
    uint32_t low = 0, high = list->catalog->tables[table].column_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (attributes[middle] < attribute)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return low < list->catalog->tables[table].column_count && attributes[low] == attribute;
}

static int compare_domains(const void *a, const void *b) {
    uint32_t left = ((const domain *)a)->type, right = ((const domain *)b)->type;
    return left < right ? -1 : left > right;
}

/* A domain's base type, which may be a domain again. */
static uint32_t base_type(const listing *list, uint32_t type) {
    enum { DEPTH_MAX = 64 };
    for (int depth = 0; depth < DEPTH_MAX; depth++) {
        domain key = {.type = type};
        const domain *found = list->domain_count == 0 ? NULL
                                                      : bsearch(&key, list->domains, list->domain_count,
                                                                sizeof key, compare_domains);
        if (!found)
            return type;
        type = found->base;
    }
    return type;
}

static int compare_types(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return left < right ? -1 : left > right;
}

static bool is_enum(const listing *list, uint32_t type) {
    return list->enum_count > 0 &&
           bsearch(&type, list->enums, list->enum_count, sizeof type, compare_types) != NULL;
}

/* ---- Filling --------------------------------------------------------------------------------- */

static weir_status add_tables(listing *list, const weir_ingest__text_rows *rows, weir_error *error) {
    list->tables = weir__allocate_zero(list->catalog->env, rows->row_count, sizeof *list->tables);
    if (!list->tables)
        return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR,
                                   rows->row_count * sizeof *list->tables);
    for (size_t i = 0; i < rows->row_count; i++) {
        listed_table *listed = &list->tables[i];
        if (!number_at(rows, i, 0, &listed->oid) || (i > 0 && listed->oid <= list->tables[i - 1].oid))
            return bad_number(error);
        bool is_visible = *weir_ingest__text_rows_cell(rows, i, 4) == 't';
        weir_ingest__catalog_table *table =
            weir_ingest__catalog_add_table_of(list->catalog, weir_ingest__text_rows_cell(rows, i, 2),
                                              weir_ingest__text_rows_cell(rows, i, 1), is_visible);
        if (!table)
            return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, sizeof *table);
        table->row_estimate = weir_ingest__text_rows_estimate(rows, i, 3);
        table->is_view = *weir_ingest__text_rows_cell(rows, i, 5) == 'v';
        table->is_hidden = table->is_hidden || table->is_view;
        list->table_count++;
    }
    return WEIR_OK;
}

static weir_status add_domains(listing *list, weir_error *error) {
    weir_ingest__text_rows rows;
    weir_status status = weir_ingest__pg_read_rows(
        list->session, "SELECT oid, typbasetype FROM pg_catalog.pg_type WHERE typtype = 'd'", 2, describing,
        &rows, error);
    if (status)
        return status;
    list->domains = weir__allocate(list->catalog->env, rows.row_count, sizeof *list->domains);
    if (!list->domains)
        status =
            weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, rows.row_count * sizeof *list->domains);
    for (size_t i = 0; i < rows.row_count && !status; i++) {
        domain *added = &list->domains[list->domain_count++];
        if (!number_at(&rows, i, 0, &added->type) || !number_at(&rows, i, 1, &added->base))
            status = bad_number(error);
    }
    if (!status && list->domain_count > 0)
        qsort(list->domains, list->domain_count, sizeof *list->domains, compare_domains);
    weir_ingest__text_rows_release(&rows);
    return status;
}

static weir_status add_enums(listing *list, weir_error *error) {
    weir_ingest__text_rows rows;
    weir_status status = weir_ingest__pg_read_rows(
        list->session, "SELECT oid FROM pg_catalog.pg_type WHERE typtype = 'e'", 1, describing, &rows, error);
    if (status)
        return status;
    list->enums = weir__allocate(list->catalog->env, rows.row_count, sizeof *list->enums);
    if (!list->enums)
        status =
            weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, rows.row_count * sizeof *list->enums);
    for (size_t i = 0; i < rows.row_count && !status; i++)
        if (!number_at(&rows, i, 0, &list->enums[list->enum_count++]))
            status = bad_number(error);
    if (!status && list->enum_count > 0)
        qsort(list->enums, list->enum_count, sizeof *list->enums, compare_types);
    weir_ingest__text_rows_release(&rows);
    return status;
}

static bool add_column(listing *list, uint32_t number, const char *name, uint32_t attribute, uint32_t type) {
    listed_table *listed = &list->tables[number];
    weir_ingest__catalog_table *table = &list->catalog->tables[number];
    const weir_env *env = list->catalog->env;
    uint32_t column = table->column_count;
    if (!weir__grow(env, (void **)&listed->attributes, &listed->attribute_capacity, column + 1,
                    sizeof *listed->attributes) ||
        !weir__grow(env, (void **)&listed->types, &listed->type_capacity, column + 1, sizeof *listed->types))
        return false;
    listed->attributes[column] = attribute;
    listed->types[column] = base_type(list, type);
    weir_ingest__declared declared = is_enum(list, listed->types[column])
                                         ? WEIR_INGEST__DECLARED_ENUM
                                         : weir_ingest__pg_type_of(listed->types[column]).declared;
    return weir_ingest__catalog_add_column(list->catalog, table, name, declared) != NULL;
}

/* A table's attributes ascend, and so do the tables. */
static weir_status add_columns(listing *list, weir_error *error) {
    weir_ingest__text_rows rows;
    weir_status status = weir_ingest__pg_read_rows(
        list->session,
        "SELECT a.attrelid, a.attnum, a.attname, a.atttypid FROM pg_catalog.pg_attribute a "
        "WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid IN (SELECT c.oid " LISTED_TABLES
        "AND c.relkind <> 'v') "
        "ORDER BY a.attrelid, a.attnum",
        4, describing, &rows, error);
    for (size_t i = 0; !status && i < rows.row_count; i++) {
        uint32_t table, oid, attribute, type;
        if (!number_at(&rows, i, 0, &oid) || !number_at(&rows, i, 1, &attribute) ||
            !number_at(&rows, i, 3, &type))
            status = bad_number(error);
        else if (find_table(list, oid, &table)) {
            uint32_t count = list->catalog->tables[table].column_count;
            if (count > 0 && attribute <= list->tables[table].attributes[count - 1])
                status = bad_number(error);
            else if (!add_column(list, table, weir_ingest__text_rows_cell(&rows, i, 2), attribute, type))
                status = weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR,
                                             sizeof(weir_ingest__catalog_column));
        }
    }
    weir_ingest__text_rows_release(&rows);
    return status;
}

enum { KEY_COLUMNS_MAX = 32 }; /* of PostgreSQL */

static bool add_primary_key(listing *list, uint32_t table, const char *attributes) {
    uint32_t numbers[KEY_COLUMNS_MAX];
    uint32_t count = read_numbers(attributes, numbers, KEY_COLUMNS_MAX);
    for (uint32_t i = 0; i < count && count <= KEY_COLUMNS_MAX; i++) {
        uint32_t column;
        if (find_column(list, table, numbers[i], &column) &&
            !weir_ingest__catalog_add_primary_key(list->catalog, &list->catalog->tables[table], column))
            return false;
    }
    return true;
}

static bool add_foreign_key(listing *list, uint32_t table, const char *attributes, uint32_t parent_oid,
                            const char *parent_attributes) {
    uint32_t numbers[KEY_COLUMNS_MAX], parent_numbers[KEY_COLUMNS_MAX], parent;
    uint32_t count = read_numbers(attributes, numbers, KEY_COLUMNS_MAX);
    if (count > KEY_COLUMNS_MAX ||
        count != read_numbers(parent_attributes, parent_numbers, KEY_COLUMNS_MAX) ||
        !find_table(list, parent_oid, &parent))
        return true;
    const weir_ingest__catalog_table *to = &list->catalog->tables[parent];
    weir_ingest__catalog_key *key =
        weir_ingest__catalog_add_foreign_key(list->catalog, &list->catalog->tables[table], to->name);
    for (uint32_t i = 0; i < count && key; i++) {
        uint32_t column = UINT32_MAX, to_column = UINT32_MAX;
        bool is_there = find_column(list, table, numbers[i], &column) &&
                        find_column(list, parent, parent_numbers[i], &to_column);
        if (!weir_ingest__catalog_add_key_columns(list->catalog, key, is_there ? column : UINT32_MAX,
                                                  is_there ? to->columns[to_column].name : ""))
            return false;
    }
    return key != NULL;
}

static weir_status add_keys(listing *list, weir_error *error) {
    weir_ingest__text_rows rows;
    weir_status status = weir_ingest__pg_read_rows(
        list->session,
        "SELECT k.conrelid, k.contype, k.conkey, k.confrelid, k.confkey FROM pg_catalog.pg_constraint k "
        "WHERE k.contype IN ('p', 'f') ORDER BY k.conrelid, k.oid",
        5, describing, &rows, error);
    for (size_t i = 0; !status && i < rows.row_count; i++) {
        uint32_t table, oid, parent = 0;
        bool is_primary = *weir_ingest__text_rows_cell(&rows, i, 1) == 'p';
        if (!number_at(&rows, i, 0, &oid) || (!is_primary && !number_at(&rows, i, 3, &parent)))
            status = bad_number(error);
        else if (find_table(list, oid, &table) &&
                 !(is_primary ? add_primary_key(list, table, weir_ingest__text_rows_cell(&rows, i, 2))
                              : add_foreign_key(list, table, weir_ingest__text_rows_cell(&rows, i, 2), parent,
                                                weir_ingest__text_rows_cell(&rows, i, 4))))
            status =
                weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, sizeof(weir_ingest__catalog_key));
    }
    weir_ingest__text_rows_release(&rows);
    return status;
}

static weir_status add_detail(listing *list, uint32_t number, weir_error *error) {
    weir_ingest__catalog_table *table = &list->catalog->tables[number];
    size_t size = sizeof(weir_ingest__pg_table) +
                  table->column_count * sizeof(((weir_ingest__pg_table *)0)->columns[0]);
    weir_ingest__pg_table *detail = weir__allocate_zero(list->catalog->env, 1, size);
    if (!detail)
        return weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, size);
    detail->oid = list->tables[number].oid;
    for (uint32_t i = 0; i < table->column_count && list->tables[number].types; i++) {
        detail->columns[i].type = list->tables[number].types[i];
        detail->columns[i].attribute = list->tables[number].attributes[i];
    }
    table->detail = detail;
    return WEIR_OK;
}

/* A guess for tables that were never analysed. */
enum { ROWS_A_BLOCK = 60 };

/* Sizes in blocks, of heaps: of a partitioned table the largest partition's, because ranges of ctid hold in
 * each partition. Inexact sizes share unevenly but lose no row, since the last part has no upper end. */
static weir_status add_sizes(listing *list, weir_error *error) {
    weir_ingest__text_rows rows;
    weir_status status = weir_ingest__pg_read_rows(
        list->session,
        "SELECT t.oid, max(pg_catalog.pg_relation_size(l.oid)) / current_setting('block_size')::int8, "
        "sum(pg_catalog.pg_table_size(l.oid)), bool_and(m.amname IS NOT NULL AND m.amname = 'heap') "
        "FROM (SELECT c.oid, c.relkind " LISTED_TABLES "AND c.relkind <> 'v') t CROSS JOIN LATERAL ("
        "SELECT t.oid AS leaf WHERE t.relkind <> 'p' UNION ALL SELECT p.relid "
        "FROM pg_catalog.pg_partition_tree(t.oid) p WHERE t.relkind = 'p' AND p.isleaf) x "
        "JOIN pg_catalog.pg_class l ON l.oid = x.leaf LEFT JOIN pg_catalog.pg_am m ON m.oid = l.relam "
        "GROUP BY t.oid",
        4, describing, &rows, error);
    for (size_t i = 0; !status && i < rows.row_count; i++) {
        uint32_t table, oid;
        if (!number_at(&rows, i, 0, &oid) || !find_table(list, oid, &table))
            continue;
        if (!list->catalog->tables[table].is_hidden)
            list->catalog->size_bytes += weir_ingest__text_rows_estimate(&rows, i, 2);
        weir_ingest__pg_table *detail = list->catalog->tables[table].detail;
        if (*weir_ingest__text_rows_cell(&rows, i, 3) == 't' && !number_at(&rows, i, 1, &detail->block_count))
            detail->block_count = 0;
        if (list->catalog->tables[table].row_estimate == 0)
            list->catalog->tables[table].row_estimate = (uint64_t)ROWS_A_BLOCK * detail->block_count;
    }
    weir_ingest__text_rows_release(&rows);
    return status;
}

static weir_status fill(listing *list, const weir_ingest__text_rows *tables, weir_error *error) {
    weir_status status = add_tables(list, tables, error);
    if (!status)
        status = add_domains(list, error);
    if (!status)
        status = add_enums(list, error);
    if (!status)
        status = add_columns(list, error);
    if (!status)
        status = add_keys(list, error);
    if (!status)
        status = weir_ingest__catalog_resolve_keys(list->catalog, strcmp, error);
    for (uint32_t i = 0; i < list->table_count && !status; i++)
        status = add_detail(list, i, error);
    if (!status && list->session->can_share)
        status = add_sizes(list, error);
    return status;
}

static void release_listing(listing *list) {
    for (uint32_t i = 0; i < list->table_count; i++) {
        weir__release(list->catalog->env, list->tables[i].attributes);
        weir__release(list->catalog->env, list->tables[i].types);
    }
    weir__release(list->catalog->env, list->tables);
    weir__release(list->catalog->env, list->domains);
    weir__release(list->catalog->env, list->enums);
}

weir_status weir_ingest__pg_describe(weir_ingest__source *source, weir_ingest__catalog *out,
                                     weir_error *error) {
    weir_ingest__pg_session *session = (weir_ingest__pg_session *)source;
    *out = (weir_ingest__catalog){.env = source->env};
    listing list = {.session = session, .catalog = out};
    weir_ingest__text_rows tables = {0};
    const char *name = PQdb(session->connection);
    out->name = weir__copy_text(source->env, name ? name : "", strlen(name ? name : ""));
    weir_status status =
        out->name ? WEIR_OK
                  : weir__out_of_memory(error, WEIR_INGEST__SOURCE_OPERATOR, strlen(name ? name : ""));
    if (!status)
        status = weir_ingest__pg_read_rows(
            session,
            "SELECT c.oid, c.relname, n.nspname, c.reltuples, pg_catalog.pg_table_is_visible(c.oid), "
            "c.relkind " LISTED_TABLES "ORDER BY c.oid",
            6, describing, &tables, error);
    if (!status)
        status = fill(&list, &tables, error);
    release_listing(&list);
    weir_ingest__text_rows_release(&tables);
    if (status) {
        weir_ingest__catalog_release(out);
        *out = (weir_ingest__catalog){.env = source->env};
    }
    return status;
}
