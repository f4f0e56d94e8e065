/* The resident tables of batches: the embeddings of the columns and categories of one store, or, if batches
 * are mixed, of all their stores, one after the other, as the batches number them. */
#ifndef WEIR_PIPELINE_RESIDENT_TABLES_H
#define WEIR_PIPELINE_RESIDENT_TABLES_H

#include "batch/rules.h"
#include "weir/run.h"
#include "weir_tool/device_work.h"

/* Those of a store in its own memory, verified. STORE_CORRUPT. */
WEIR_CHECKED weir_status weir_pipeline__tables_of_store(const weir_store *store, weir_tables *tables,
                                                        weir_error *error);

/* The bytes that they take elsewhere. */
uint64_t weir_pipeline__tables_size(const weir_batch__origin *origins, uint32_t count);

/* Writes them to memory of that size, which begins at *next and then ends there, and says where they are.
 * STORE_CORRUPT, DEVICE_ERROR. */
WEIR_CHECKED weir_status weir_pipeline__tables_write(const weir_batch__origin *origins, uint32_t count,
                                                     const weir_memory *memory, uint8_t **next,
                                                     weir_tables *tables, weir_error *error);

#endif
