/* The default environment's guard of mapped files against pages that cannot be read. */
#ifndef WEIR_BASE_GUARD_H
#define WEIR_BASE_GUARD_H

#include <stddef.h>
#include <stdint.h>

/* As weir_env.guard and unguard. */
int weir__guard_system(void *context, const void *memory, size_t size, uint32_t *failed);
void weir__unguard_system(void *context, const void *memory);

/* The lock of all that the process has once. A fork waits until nobody holds it, so that in the child nobody
 * waits for a thread that is not there. It is held for a moment, and not twice by one thread. */
void weir__process_lock(void);
void weir__process_unlock(void);

#endif
