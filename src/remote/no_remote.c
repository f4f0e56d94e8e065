/* What a build without HTTP (CMake option WEIR_HTTP) says of remote stores. */
#include "remote/remote.h"

#ifdef WEIR_WITHOUT_HTTP

static weir_status refuse(weir_error *error) {
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_REMOTE__OPERATOR,
                      "this weir was built without HTTP; use a build with WEIR_HTTP=ON");
}

weir_status weir_push(const weir_env *env, const char *store, const char *url,
                      const weir_remote_options *options, weir_remote_report *report, weir_error *error) {
    (void)env, (void)store, (void)url, (void)options, (void)report;
    return refuse(error);
}

weir_status weir_pull(const weir_env *env, const char *url, const char *path,
                      const weir_remote_options *options, weir_remote_report *report, weir_error *error) {
    (void)env, (void)url, (void)path, (void)options, (void)report;
    return refuse(error);
}

#endif
