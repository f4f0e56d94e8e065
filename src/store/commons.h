/* Memory that all who read a store share: made for the first who asks for it, zeroed, and released with the
 * store. Whoever writes into it sees to it that others may read at the same time. */
#ifndef WEIR_STORE_COMMONS_H
#define WEIR_STORE_COMMONS_H

#include <stdatomic.h>

#include "base/internal.h"

typedef struct weir_store__common weir_store__common;

typedef struct weir_store__commons {
    const weir_env *env;
    _Atomic(weir_store__common *) first;
} weir_store__commons;

/* The memory of that name, 64-byte aligned; NULL if there is no memory. Who asks for a name asks for the same
 * size. Any thread. */
void *weir_store__share(weir_store__commons *commons, uint64_t name, uint64_t size);

void weir_store__commons_close(weir_store__commons *commons);

#endif
