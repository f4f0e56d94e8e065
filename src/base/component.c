/* What weir was built with and runs with, for traces and `weir version`. Headers say what it was at build
 * time, the libraries themselves what it is now; the two differ if a shared library was replaced since. */
#include <gnu/libc-version.h>
#include <openssl/crypto.h>
#include <openssl/opensslv.h>
#include <sqlite3.h>
#include <stdio.h>
#include <xxhash.h>
#include <zlib.h>
#ifndef WEIR_WITHOUT_POSTGRES
#include <libpq-fe.h>
#include <pg_config.h>
#endif
#ifndef WEIR_WITHOUT_HTTP
#include <curl/curl.h>
#endif

#include "base/internal.h"
#include "weir_tool/base_tools.h"

#define TEXT(number)  #number
#define SPELL(number) TEXT(number)
#define XXHASH_BUILT  SPELL(XXH_VERSION_MAJOR) "." SPELL(XXH_VERSION_MINOR) "." SPELL(XXH_VERSION_RELEASE)

#ifdef __clang__
#define COMPILER "clang", SPELL(__clang_major__) "." SPELL(__clang_minor__) "." SPELL(__clang_patchlevel__)
#else
#define COMPILER "gcc", SPELL(__GNUC__) "." SPELL(__GNUC_MINOR__) "." SPELL(__GNUC_PATCHLEVEL__)
#endif

bool weir_component_at(size_t index, weir_component *out) {
    char xxhash[WEIR_COMPONENT_CAPACITY];
    unsigned number = XXH_versionNumber();
    snprintf(xxhash, sizeof xxhash, "%u.%u.%u", number / 10000, number / 100 % 100, number % 100);
#ifndef WEIR_WITHOUT_POSTGRES
    char libpq_built[WEIR_COMPONENT_CAPACITY], libpq[WEIR_COMPONENT_CAPACITY];
    snprintf(libpq_built, sizeof libpq_built, "%d.%d", PG_VERSION_NUM / 10000, PG_VERSION_NUM % 10000);
    snprintf(libpq, sizeof libpq, "%d.%d", PQlibVersion() / 10000, PQlibVersion() % 10000);
#endif
    const struct {
        const char *name, *built, *running;
    } all[] = {
        {COMPILER, ""},
        {"glibc", SPELL(__GLIBC__) "." SPELL(__GLIBC_MINOR__), gnu_get_libc_version()},
        {"openssl", OPENSSL_FULL_VERSION_STR, OpenSSL_version(OPENSSL_FULL_VERSION_STRING)},
        {"sqlite", SQLITE_VERSION, sqlite3_libversion()},
        {"xxhash", XXHASH_BUILT, xxhash},
        {"zlib", ZLIB_VERSION, zlibVersion()},
#ifndef WEIR_WITHOUT_POSTGRES
        {"libpq", libpq_built, libpq},
#endif
#ifndef WEIR_WITHOUT_HTTP
        {"curl", LIBCURL_VERSION, curl_version_info(CURLVERSION_NOW)->version},
#endif
    };
    *out = (weir_component){0};
    if (index >= sizeof all / sizeof *all)
        return false;
    out->name = all[index].name;
    snprintf(out->built, sizeof out->built, "%s", all[index].built);
    snprintf(out->running, sizeof out->running, "%s", all[index].running ? all[index].running : "");
    return true;
}

const weir_build_part *weir_build_info(size_t *count) {
    static const weir_build_part parts[] = {
        {"xxhash", XXHASH_BUILT},
        {"openssl", OPENSSL_VERSION_STR},
        {"compiler", __VERSION__},
    };
    *count = sizeof parts / sizeof parts[0];
    return parts;
}
