/* The fake driver's compiler of kernels: it knows the names of weir's own, and its image is a text. */
#include <stdlib.h>
#include <string.h>

#include "support/fake_calls.h"

EXPORT const char *nvrtcGetErrorString(int error);
const char *nvrtcGetErrorString(int error) {
    return error == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_OF_THE_FAKE";
}

DRIVER(nvrtcVersion, (int *major, int *minor)) {
    BEGIN()
    *major = 13;
    *minor = 0;
    return fake_end(SUCCESS);
}

/* A program is a copy of its text. */
DRIVER(nvrtcCreateProgram, (uintptr_t * out, const char *text, const char *name, int count,
                            const char *const *headers, const char *const *names)) {
    (void)name, (void)count, (void)headers, (void)names;
    BEGIN()
    *out = (uintptr_t)strdup(text);
    fake_count(1);
    return fake_end(SUCCESS);
}

DRIVER(nvrtcCompileProgram, (uintptr_t program, int count, const char *const *options)) {
    BEGIN()
    const char *global = strstr((const char *)program, "__global__ ");
    bool names_kernel = global && (strstr(global, " weir_expand(") || strstr(global, " weir_attention"));
    bool is_specific = global && strstr(global, " weir_attention_long(");
    const char *expected = is_specific ? "--gpu-architecture=sm_90a" : "--gpu-architecture=sm_90";
    return fake_end(names_kernel && count > 0 && strcmp(options[0], expected) == 0 ? SUCCESS : 6);
}

DRIVER(nvrtcGetCUBINSize, (uintptr_t program, size_t *size)) {
    (void)program;
    BEGIN()
    *size = FAKE_IMAGE_SIZE;
    return fake_end(SUCCESS);
}

DRIVER(nvrtcGetCUBIN, (uintptr_t program, char *out)) {
    (void)program;
    BEGIN()
    memcpy(out, fake_image, FAKE_IMAGE_SIZE);
    return fake_end(SUCCESS);
}

static const char compiler_log[] = "weir_kernel.cu(1): error\nas the test wanted it\n";

DRIVER(nvrtcGetProgramLogSize, (uintptr_t program, size_t *size)) {
    (void)program;
    BEGIN()
    *size = sizeof compiler_log;
    return fake_end(SUCCESS);
}

DRIVER(nvrtcGetProgramLog, (uintptr_t program, char *out)) {
    (void)program;
    BEGIN()
    memcpy(out, compiler_log, sizeof compiler_log);
    return fake_end(SUCCESS);
}

DRIVER(nvrtcDestroyProgram, (uintptr_t * program)) {
    BEGIN_GIVING_BACK()
    free((char *)*program);
    *program = 0;
    fake_count(-1);
    return fake_end(result_);
}
