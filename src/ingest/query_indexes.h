/* Indexes for a query over tables that have none (table_query.h). SQLite scans a table again for every row of
 * an outer query that looks into it (`EXISTS (SELECT … WHERE orders.customer_id = customers.id)`): time that
 * grows with the product of the two. */
#ifndef WEIR_INGEST_QUERY_INDEXES_H
#define WEIR_INGEST_QUERY_INDEXES_H

#include <sqlite3.h>

#include "ingest/source.h"

/* Makes the indexes by which the correlated subqueries of `sql` would be searched for equal values. SQLite's
 * own planner chooses them, in a database without rows that has every candidate. Rows with equal values are
 * found in the order of the table, as in a scan, so that sums of floats stay what they are. `connection` has
 * all tables of the catalog. What only costs speed is no error: OUT_OF_MEMORY, or SOURCE_ERROR if an index
 * cannot be made. */
WEIR_CHECKED weir_status weir_ingest__query_indexes_make(const weir_env *env, sqlite3 *connection,
                                                         const weir_ingest__catalog *catalog, const char *sql,
                                                         weir_error *error);

#endif
