/* What an ingest into an environment of memory must leave: a store that is sound, or an error and no store.
 */
#ifndef WEIR_TESTS_FUZZ_INGESTED_H
#define WEIR_TESTS_FUZZ_INGESTED_H

#include "require.h"
#include "support/memory_env.h"
#include "weir/weir.h"
#include "weir_tool/store_tools.h"

static inline void require_sound(memory_env *memory, const char *path) {
    const memory_file *file = memory_env_file(memory, path);
    weir_store *store = NULL;
    require(file && weir_store_open_memory(NULL, file->data, file->size, &store, NULL) == WEIR_OK);
    require(weir_store_verify(store, 1, NULL) == WEIR_OK);
    weir_store_close(store);
}

/* Whether the store was made. */
static inline bool is_ingested(memory_env *memory, const char *path, weir_status status,
                               const weir_error *error) {
    if (status == WEIR_OK) {
        require_sound(memory, path);
        return true;
    }
    require(status == WEIR_SCHEMA_INVALID || status == WEIR_SOURCE_ERROR || status == WEIR_TASK_INVALID);
    require(error->status == status && error->message[0] != 0);
    require(!memory_env_file(memory, path));
    return false;
}

#endif
