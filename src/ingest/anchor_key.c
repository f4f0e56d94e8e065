/* Whether the columns that a task calls its anchor's key are that key (docs/spec, The anchor's key): keys of
 * other tables are numbers too, and customer 5 would silently become invoice 5. */
#include <string.h>

#include "ingest/stages.h"

/* What a stored column of a table leads to. */
typedef enum lead { LEADS_NOWHERE, LEADS_ELSEWHERE, LEADS_TO_KEY } lead;

static lead better(lead a, lead b) {
    return a > b ? a : b;
}

/* By the foreign keys of the schema that the column is part of. */
static lead lead_in_schema(const weir_ingest__plan *plan, uint32_t anchor, uint32_t key,
                           const weir_ingest__origin *origin) {
    lead found = LEADS_NOWHERE;
    for (uint32_t e = 0; e < plan->edge_count; e++) {
        const weir_ingest__edge_plan *edge = &plan->edges[e];
        const weir_ingest__table_plan *child = &plan->tables[edge->table];
        for (uint32_t i = 0; child->source == origin->table && i < edge->key->column_count; i++) {
            if (child->positions[edge->columns[i]] != origin->column)
                continue;
            bool is_key = edge->parent_table == anchor && edge->parent_columns[i] == key;
            found = better(found, is_key ? LEADS_TO_KEY : LEADS_ELSEWHERE);
        }
    }
    return found;
}

/* By those that the source declares. */
static lead lead_in_source(const weir_ingest__table_plan *anchor, const char *key,
                           const weir_ingest__origin *origin) {
    lead found = LEADS_NOWHERE;
    for (uint32_t k = 0; k < origin->table->foreign_key_count; k++) {
        const weir_ingest__catalog_key *declared = &origin->table->foreign_keys[k];
        for (uint32_t i = 0; i < declared->column_count; i++) {
            if (declared->columns[i] != origin->column)
                continue;
            bool is_key = strcmp(declared->parent_table, anchor->source->name) == 0 &&
                          strcmp(declared->parent_columns[i], key) == 0;
            found = better(found, is_key ? LEADS_TO_KEY : LEADS_ELSEWHERE);
        }
    }
    return found;
}

/* Whether a column is all of the primary key of a table of the schema. */
static bool is_key_of_its_table(const weir_ingest__plan *plan, const weir_ingest__origin *origin) {
    for (uint32_t t = 0; t < plan->table_count; t++) {
        const weir_ingest__table_plan *table = &plan->tables[t];
        if (table->source == origin->table && table->primary_key_count == 1 &&
            table->positions[table->primary_key[0]] == origin->column)
            return true;
    }
    return false;
}

weir_status weir_ingest__check_asked_key(const weir_ingest__plan *plan, const weir_ingest__task_plan *task,
                                         bool is_destination, const weir_ingest__cursor *cursor,
                                         const uint32_t *columns, weir_error *error) {
    const weir_ingest__schema_task *schema = task->schema;
    const char *const *names = is_destination ? schema->destination_key : schema->anchor_key;
    uint32_t count = is_destination ? schema->destination_key_count : schema->anchor_key_count;
    uint32_t number = is_destination ? task->link_table : task->anchor_table;
    const weir_ingest__table_plan *anchor = &plan->tables[number];
    for (uint32_t i = 0; i < count && !schema->is_key_for_sure; i++) {
        uint32_t key = anchor->primary_key[i], position = anchor->positions[key];
        const char *key_name = anchor->columns[key].name;
        weir_ingest__origin origin = {0};
        bool is_wrong = false;
        if (cursor->origin && cursor->origin(cursor, columns[i], plan->catalog, &origin)) {
            bool is_own = origin.table == anchor->source;
            lead found =
                better(lead_in_schema(plan, number, key, &origin), lead_in_source(anchor, key_name, &origin));
            if ((is_own && origin.column == position) || found == LEADS_TO_KEY)
                continue;
            bool is_another_key = is_key_of_its_table(plan, &origin) &&
                                  strcmp(origin.table->columns[origin.column].name, key_name) != 0;
            is_wrong = is_own || found == LEADS_ELSEWHERE || is_another_key;
        }
        if (!is_wrong) {
            origin = (weir_ingest__origin){anchor->source,
                                           weir_ingest__catalog_find_column(anchor->source, names[i])};
            is_wrong = origin.column != WEIR_NONE && origin.column != position;
        }
        if (is_wrong)
            return weir__fail(
                error, WEIR_TASK_INVALID, WEIR_INGEST__OPERATOR,
                "task %s: the query's column %s is %s.%s, not the primary key %s of the %s table %s; "
                "select the key (or say \"anchor_key_is\": \"primary_key\" if it holds the key all the same)",
                schema->name, names[i], origin.table->name, origin.table->columns[origin.column].name,
                key_name, is_destination ? "destination" : "anchor", anchor->name);
    }
    return WEIR_OK;
}
