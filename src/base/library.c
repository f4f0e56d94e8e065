/* See library.h. */
#include <dlfcn.h>
#include <string.h>

#include "base/library.h"

const char *weir__find_functions(void *library, const weir__function *functions, size_t count, void *out) {
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(library, functions[i].name);
        if (!address)
            return functions[i].name;
        memcpy((char *)out + functions[i].offset, &address, sizeof address);
    }
    return NULL;
}
