/* What the library was built with, for traces and `weir version`: as the compiler and the headers of the
 * libraries say. */
#include <openssl/opensslv.h>
#include <xxhash.h>

#include "weir_tool/base_tools.h"

#define TEXT_OF(x)  #x
#define VERSION(x)  TEXT_OF(x)
#define XXH_VERSION VERSION(XXH_VERSION_MAJOR) "." VERSION(XXH_VERSION_MINOR) "." VERSION(XXH_VERSION_RELEASE)

const weir_build_part *weir_build_info(size_t *count) {
    static const weir_build_part parts[] = {
        {"xxhash", XXH_VERSION},
        {"openssl", OPENSSL_VERSION_STR},
        {"compiler", __VERSION__},
    };
    *count = sizeof parts / sizeof parts[0];
    return parts;
}
