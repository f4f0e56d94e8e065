/* A store like an earlier one (docs/spec/04c-like.md): what is taken from it, and what must fit. Every
 * function does nothing, or says "none", if ingest has no earlier store. */
#ifndef WEIR_INGEST_LIKE_H
#define WEIR_INGEST_LIKE_H

#include "ingest/stages.h"

struct weir_ingest__like {
    weir_store *store; /* NULL: there is none */
    const char *path;
};

static inline bool weir_ingest__like_is_open(const weir_ingest__like *like) {
    return like->store != NULL;
}

/* Opens the store that the options name; who opened it closes it. weir_store_open's errors. */
WEIR_CHECKED weir_status weir_ingest__like_open(const weir_ingest__context *context, weir_ingest__like *out,
                                                weir_error *error);

/* Leaves out of the schema what the earlier store does not have, with a warning each. SCHEMA_INVALID if a
 * time goes through what is left out. Before the plan. */
WEIR_CHECKED weir_status weir_ingest__like_trim(weir_ingest__context *context, const weir_ingest__like *like,
                                                weir_ingest__schema *schema, weir_error *error);

/* The positions of a source's columns in the order in which the plan takes them: as declared, or as the
 * earlier store has them. */
void weir_ingest__like_positions(const weir_ingest__like *like, const char *table,
                                 const weir_ingest__catalog_table *source, uint32_t *positions);

/* The number of a foreign key; WEIR_NONE without an earlier store. */
uint32_t weir_ingest__like_edge(const weir_ingest__like *like, const char *table, const char *key);

/* Whether the described store has the structure of the earlier one; takes its descriptions. SCHEMA_INVALID
 * says what differs. */
WEIR_CHECKED weir_status weir_ingest__like_check(const weir_ingest__like *like,
                                                 weir_ingest__description *description, weir_error *error);
WEIR_CHECKED weir_status weir_ingest__like_check_embeddings(const weir_ingest__like *like,
                                                            const weir_store_info *info, weir_error *error);

/* Begins with the categories of a column, so that their numbers are their places; what is interned after them
 * is new. Release `out`, also after a failure. STORE_CORRUPT. */
WEIR_CHECKED weir_status weir_ingest__like_categories(const weir_ingest__like *like, uint32_t column_idx,
                                                      const weir_env *env, weir_ingest__categories *out,
                                                      weir__arena *arena, weir_error *error);

/* Replaces the statistics of all columns, which are over all rows, by the earlier store's; warns of columns
 * whose values have shifted. */
void weir_ingest__like_statistics(weir_ingest__context *context, const weir_ingest__plan *plan,
                                  weir_ingest__statistics *statistics);
/* The statistics of a derived target; false if there are none to take. */
bool weir_ingest__like_target_statistics(const weir_ingest__like *like, uint32_t column_idx,
                                         weir_statistics *out);

/* The split that a seed has in the earlier store: false if it is not there, or in several. Seeds of one row
 * follow each other: `found` keeps that row's number in the earlier store. Begin with WEIR_INGEST__LIKE_ROW.
 */
typedef struct weir_ingest__like_row {
    uint32_t row;
    uint64_t found;
} weir_ingest__like_row;
#define WEIR_INGEST__LIKE_ROW ((weir_ingest__like_row){WEIR_NONE, WEIR_NO_ROW})
bool weir_ingest__like_split(const weir_ingest__like *like, const weir_ingest__table *anchor,
                             uint32_t anchor_number, uint32_t task, uint32_t row, int64_t time,
                             weir_ingest__like_row *found, uint8_t *split);

/* Warns of new categories and of splits that could not be taken; after the tasks. STORE_CORRUPT if the
 * earlier store was damaged in what was read of it. */
WEIR_CHECKED weir_status weir_ingest__like_report(weir_ingest__context *context,
                                                  const weir_ingest__tasks *tasks, weir_error *error);

#endif
