/* Finding DuckDB's library: libduckdb.so, or the module of pip's package duckdb, which has the same
 * functions. That module wants Python's symbols in the process: inside Python they are there, elsewhere
 * Python's own library is loaded before it. The types' numbers and the structs' layouts hold for versions 1.2
 * and later of DuckDB 1, and for 2. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/library.h"
#include "ingest/duckdb_api.h"
#include "ingest/sql.h"

#define HOW_TO_GET_IT                                                                                        \
    "get it by 'pip install duckdb' (weir finds it in the same or the active environment), or get "          \
    "libduckdb "                                                                                             \
    "for Linux from https://duckdb.org and put libduckdb.so into /usr/local/lib or ~/.local/lib, or name "   \
    "the "                                                                                                   \
    "file with WEIR_DUCKDB"

enum { PATH_CAPACITY = 4096, PYTHON_MINOR_MIN = 8, PYTHON_MINOR_MAX = 30 };

/* Never unloaded: the library has threads and thread-local state that outlive its last call. */
static void *load(const char *path) {
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

/* ---- pip's package --------------------------------------------------------------------------- */

/* Loads a library, and if it is a Python module that lacks Python, again after Python's own library: the
 * module's file name says for which Python 3 it is. */
static void *load_named(const char *path) {
    char python[64];
    unsigned minor = 0;
    void *library = load(path);
    const char *tag = library ? NULL : strstr(path, ".cpython-3");
    if (!tag || sscanf(tag, ".cpython-3%u-", &minor) != 1 || minor == 0)
        return library;
    snprintf(python, sizeof python, "libpython3.%u.so.1.0", minor);
    return dlopen(python, RTLD_LAZY | RTLD_GLOBAL | RTLD_NODELETE) ? load(path) : NULL;
}

/* The module in a folder of packages; until version 1.3 it lay in the package itself. */
static void *load_from_packages(const char *prefix, const char *folder, unsigned minor) {
#ifdef __aarch64__
    static const char machine[] = "aarch64-linux-gnu";
#else
    static const char machine[] = "x86_64-linux-gnu";
#endif
    static const char *const modules[] = {"_duckdb", "duckdb/duckdb"};
    char path[PATH_CAPACITY];
    void *library = NULL;
    for (size_t i = 0; i < sizeof modules / sizeof *modules && !library; i++)
        if (snprintf(path, sizeof path, "%s/lib/python3.%u/%s/%s.cpython-3%u-%s.so", prefix, minor, folder,
                     modules[i], minor, machine) < WEIR__NARROW(int, sizeof path))
            library = load_named(path);
    return library;
}

/* The active environment's, the user's, the machine's; of the newest Python that has it. */
static void *load_from_pip(void) {
    const char *environment = getenv("VIRTUAL_ENV"), *home = getenv("HOME");
    char local[PATH_CAPACITY] = "";
    if (home && snprintf(local, sizeof local, "%s/.local", home) >= WEIR__NARROW(int, sizeof local))
        local[0] = 0;
    const char *const prefixes[] = {environment, local, "/usr/local"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        for (unsigned minor = PYTHON_MINOR_MAX; minor >= PYTHON_MINOR_MIN && !library; minor--) {
            if (!prefixes[i] || !*prefixes[i])
                break;
            library = load_from_packages(prefixes[i], "site-packages", minor);
            if (!library)
                library = load_from_packages(prefixes[i], "dist-packages", minor);
        }
    return library;
}

/* ---- The library ----------------------------------------------------------------------------- */

static void *load_from_usual_places(void) {
    static const char *const places[] = {"libduckdb.so", "/usr/local/lib/libduckdb.so",
                                         "/usr/lib/libduckdb.so", "/opt/duckdb/libduckdb.so"};
    void *library = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !library; i++)
        library = load(places[i]);
    const char *home = getenv("HOME");
    char path[PATH_CAPACITY];
    if (!library && home &&
        snprintf(path, sizeof path, "%s/.local/lib/libduckdb.so", home) < WEIR__NARROW(int, sizeof path))
        library = load(path);
    return library ? library : load_from_pip();
}

weir_status weir_ingest__duck_load(weir_ingest__duck_api *out, weir_error *error) {
    static const weir__function functions[] = {
#define FUNCTION(result, name, parameters) {"duckdb_" #name, offsetof(weir_ingest__duck_api, name)},
        WEIR_INGEST__DUCK_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };
    const char *named = getenv("WEIR_DUCKDB");
    bool is_named = named && *named;
    void *library = is_named ? load_named(named) : load_from_usual_places();
    if (!library) {
        char reason[256] = "it is in none of the usual places";
        if (is_named)
            weir__one_line(dlerror(), reason, sizeof reason);
        return WEIR_INGEST__SOURCE_ERROR(
            error, "this source needs the DuckDB library, which cannot be loaded (%s); " HOW_TO_GET_IT,
            reason);
    }
    const char *missing = weir__find_functions(library, functions, sizeof functions / sizeof *functions, out);
    if (missing)
        return WEIR_INGEST__SOURCE_ERROR(error, "the DuckDB library lacks the function %s; " HOW_TO_GET_IT,
                                         missing);
    const char *version = out->library_version();
    unsigned major = 0, minor = 0;
    bool is_read = version && sscanf(version, "v%u.%u", &major, &minor) == 2;
    if (is_read && ((major == 1 && minor >= 2) || major == 2))
        return WEIR_OK;
    return WEIR_INGEST__SOURCE_ERROR(
        error,
        "the DuckDB library has version %s, but weir reads with 1.2 or later of 1, or 2; " HOW_TO_GET_IT,
        version ? version : "?");
}
