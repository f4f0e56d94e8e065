/* Libraries that are found at run time: their functions, into a struct of pointers. */
#ifndef WEIR_BASE_LIBRARY_H
#define WEIR_BASE_LIBRARY_H

#include <stddef.h>

typedef struct weir__function {
    const char *name;
    size_t offset; /* of its pointer */
} weir__function;

/* Puts the address of every function of a loaded library at its offset in `out`. NULL, or the name of the
 * first that the library lacks. */
const char *weir__find_functions(void *library, const weir__function *functions, size_t count, void *out);

#endif
