/* Finding libduckdb.so. The types' numbers and the structs' layouts hold for versions 1.2 and later of
 * DuckDB 1. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/duckdb_api.h"
#include "ingest/sql.h"

#define HOW_TO_GET_IT                                                                                        \
    "get libduckdb for Linux from https://duckdb.org (or npm pack @duckdb/node-bindings-linux-x64), put "    \
    "libduckdb.so into /usr/local/lib or ~/.local/lib, or name it with WEIR_DUCKDB"

enum { VERSION_MAJOR = 1, VERSION_MINOR_MIN = 2 };

/* Never unloaded: the library has threads and thread-local state that outlive its last call. */
static void *load(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static void *load_from_usual_places(void) {
    static const char *const places[] = {"libduckdb.so", "/usr/local/lib/libduckdb.so",
                                         "/usr/lib/libduckdb.so", "/opt/duckdb/libduckdb.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++)
        library = load(places[i]);
    const char *home = getenv("HOME");
    char path[4096];
    if (!library && home &&
        snprintf(path, sizeof path, "%s/.local/lib/libduckdb.so", home) < WEIR__NARROW(int, sizeof path))
        library = load(path);
    return library;
}

static weir_status find_functions(void *library, weir__duck_api *out, weir_error *error) {
    const char *missing = NULL;
    void *address;
#define FIND(result, name, parameters)                                                                       \
    address = dlsym(library, "duckdb_" #name);                                                               \
    memcpy(&out->name, &address, sizeof address);                                                            \
    if (!address && !missing)                                                                                \
        missing = "duckdb_" #name;
    WEIR__DUCK_FUNCTIONS(FIND)
#undef FIND
    if (missing)
        return weir__fail(error, WEIR_SOURCE_ERROR, WEIR__SOURCE_OPERATOR,
                          "the DuckDB library lacks the function %s; " HOW_TO_GET_IT, missing);
    return WEIR_OK;
}

static weir_status check_version(const weir__duck_api *api, weir_error *error) {
    const char *version = api->library_version();
    unsigned major = 0, minor = 0;
    bool is_known = version && sscanf(version, "v%u.%u", &major, &minor) == 2;
    if (!is_known || major != VERSION_MAJOR || minor < VERSION_MINOR_MIN)
        return weir__fail(
            error, WEIR_SOURCE_ERROR, WEIR__SOURCE_OPERATOR,
            "the DuckDB library has version %s, but weir needs 1.2 or later of 1; " HOW_TO_GET_IT,
            version ? version : "?");
    return WEIR_OK;
}

weir_status weir__duck_load(weir__duck_api *out, weir_error *error) {
    const char *named = getenv("WEIR_DUCKDB");
    bool is_named = named && *named;
    void *library = is_named ? load(named) : load_from_usual_places();
    if (!library) {
        char reason[256] = "it is in none of the usual places";
        if (is_named)
            weir__one_line(dlerror(), reason, sizeof reason);
        return weir__fail(error, WEIR_SOURCE_ERROR, WEIR__SOURCE_OPERATOR,
                          "this source needs the DuckDB library, which cannot be loaded (%s); " HOW_TO_GET_IT,
                          reason);
    }
    weir_status status = find_functions(library, out, error);
    return status ? status : check_version(out, error);
}
