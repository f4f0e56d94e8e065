/* What weir was built with and runs with. Headers say what it was at build time, the libraries themselves
 * what it is now; the two differ if a shared library was replaced since. */
#include <gnu/libc-version.h>
#include <openssl/crypto.h>
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

static void put(char out[WEIR_COMPONENT_CAPACITY], const char *version) {
    snprintf(out, WEIR_COMPONENT_CAPACITY, "%s", version ? version : "");
}

static void put_compiler(weir_component *out) {
#ifdef __clang__
    out->name = "clang";
    snprintf(out->built, sizeof out->built, "%d.%d.%d", __clang_major__, __clang_minor__,
             __clang_patchlevel__);
#else
    out->name = "gcc";
    snprintf(out->built, sizeof out->built, "%d.%d.%d", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

static void put_libc(weir_component *out) {
    out->name = "glibc";
    snprintf(out->built, sizeof out->built, "%d.%d", __GLIBC__, __GLIBC_MINOR__);
    put(out->running, gnu_get_libc_version());
}

static void put_openssl(weir_component *out) {
    out->name = "openssl";
    put(out->built, OPENSSL_FULL_VERSION_STR);
    put(out->running, OpenSSL_version(OPENSSL_FULL_VERSION_STRING));
}

static void put_sqlite(weir_component *out) {
    out->name = "sqlite";
    put(out->built, SQLITE_VERSION);
    put(out->running, sqlite3_libversion());
}

static void put_xxhash(weir_component *out) {
    unsigned running = XXH_versionNumber();
    out->name = "xxhash";
    snprintf(out->built, sizeof out->built, "%d.%d.%d", XXH_VERSION_MAJOR, XXH_VERSION_MINOR,
             XXH_VERSION_RELEASE);
    snprintf(out->running, sizeof out->running, "%u.%u.%u", running / 10000, running / 100 % 100,
             running % 100);
}

static void put_zlib(weir_component *out) {
    out->name = "zlib";
    put(out->built, ZLIB_VERSION);
    put(out->running, zlibVersion());
}

#ifndef WEIR_WITHOUT_POSTGRES
static void put_libpq(weir_component *out) {
    int running = PQlibVersion();
    out->name = "libpq";
    snprintf(out->built, sizeof out->built, "%d.%d", PG_VERSION_NUM / 10000, PG_VERSION_NUM % 10000);
    snprintf(out->running, sizeof out->running, "%d.%d", running / 10000, running % 10000);
}
#endif

#ifndef WEIR_WITHOUT_HTTP
static void put_curl(weir_component *out) {
    out->name = "curl";
    put(out->built, LIBCURL_VERSION);
    put(out->running, curl_version_info(CURLVERSION_NOW)->version);
}
#endif

bool weir_component_at(size_t index, weir_component *out) {
    static void (*const all[])(weir_component *) = {
        put_compiler, put_libc, put_openssl, put_sqlite, put_xxhash, put_zlib,
#ifndef WEIR_WITHOUT_POSTGRES
        put_libpq,
#endif
#ifndef WEIR_WITHOUT_HTTP
        put_curl,
#endif
    };
    *out = (weir_component){0};
    if (index >= sizeof all / sizeof *all)
        return false;
    all[index](out);
    return true;
}
