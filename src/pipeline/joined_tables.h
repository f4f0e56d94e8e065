/* The resident tables of mixed batches: the embeddings of all their stores, one after the other, as the
 * batches number them. */
#ifndef WEIR_PIPELINE_JOINED_TABLES_H
#define WEIR_PIPELINE_JOINED_TABLES_H

#include "batch/rules.h"
#include "weir/run.h"
#include "weir_tool/device_work.h"

/* The bytes that they take. */
uint64_t weir_pipeline__joined_tables_size(const weir_batch__origin *origins, uint32_t count);

/* Writes them to memory of that size, and says where they are. STORE_CORRUPT, DEVICE_ERROR. */
WEIR_CHECKED weir_status weir_pipeline__joined_tables_write(const weir_batch__origin *origins, uint32_t count,
                                                            const weir_memory *memory, uint8_t *out,
                                                            weir_tables *tables, weir_error *error);

#endif
