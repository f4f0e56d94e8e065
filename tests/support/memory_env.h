/* A file system in memory, as an environment: for tests that open thousands of files, and for fuzz targets.
 * A few files, whole in memory; paths are just names. Not for several threads. */
#ifndef WEIR_TESTS_MEMORY_ENV_H
#define WEIR_TESTS_MEMORY_ENV_H

#include "weir/base.h"

enum { MEMORY_FILES = 32, MEMORY_HANDLES = 32 };

typedef struct memory_file {
    char name[160];
    uint8_t *data;
    size_t size;
    size_t capacity;
    bool exists;
} memory_file;

typedef struct memory_handle {
    memory_file *file;
    size_t offset;
    bool appends;
} memory_handle;

typedef struct memory_env {
    weir_env env;
    memory_file files[MEMORY_FILES];
    memory_handle handles[MEMORY_HANDLES];
} memory_env;

void memory_env_init(memory_env *memory);
void memory_env_close(memory_env *memory);

/* Makes a file of these bytes, or replaces one. */
void memory_env_put(memory_env *memory, const char *name, const void *data, size_t size);

/* The file, or NULL. Its bytes may be changed in place. */
memory_file *memory_env_file(memory_env *memory, const char *name);

#endif
