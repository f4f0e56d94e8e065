/* Finding MariaDB's client library, libmariadb.so.3. (MySQL's own, libmysqlclient, has other functions for
 * calls that do not block.) */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/guard.h"
#include "base/library.h"
#include "ingest/mysql_api.h"

#define HOW_TO_GET_IT                                                                                        \
    "install MariaDB's client library (Debian: libmariadb3; Fedora: mariadb-connector-c), or name its file " \
    "with WEIR_MARIADB"

weir_status weir_ingest__my_load(weir_ingest__my_api *out, weir_error *error) {
    static const weir__function functions[] = {
#define FUNCTION(result, name, parameters) {#name, offsetof(weir_ingest__my_api, name)},
        WEIR_INGEST__MY_FUNCTIONS(FUNCTION)
#undef FUNCTION
    };
    const char *named = getenv("WEIR_MARIADB");
    bool is_named = named && *named;
    /* Never unloaded: it registers plugins and functions that run at the end of the process. */
    void *library = dlopen(is_named ? named : "libmariadb.so.3", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
        char reason[256];
        const char *text = dlerror();
        weir__one_line(text ? text : "", reason, sizeof reason);
        return WEIR_INGEST__SOURCE_ERROR(
            error, "this source needs MariaDB's client library, which cannot be loaded (%s); " HOW_TO_GET_IT,
            reason);
    }
    const char *missing = weir__find_functions(library, functions, sizeof functions / sizeof *functions, out);
    if (missing)
        return WEIR_INGEST__SOURCE_ERROR(
            error, "the MariaDB client library lacks the function %s; " HOW_TO_GET_IT, missing);
    /* The library prepares itself at its first use, which must not happen in two threads at once. */
    weir__process_lock();
    bool is_ready = out->mysql_server_init(0, NULL, NULL) == 0;
    weir__process_unlock();
    if (!is_ready)
        return WEIR_INGEST__SOURCE_ERROR(error, "MariaDB's client library cannot be used: it does not start");
    return WEIR_OK;
}
