/* The run-time compiler: CUDA C in, machine code for one processor out. Machine code and not PTX, so that a
 * compiler that is newer than the driver does no harm. */
#include <stdio.h>

#include "device/cuda_api.h"
#include "device/device.h"

typedef struct compilation {
    const weir_env *env;
    weir_device__nvrtc_api api;
    uintptr_t program;
    char *source; /* terminated */
    char *image;
    char log[512];
} compilation;

static weir_status failed(compilation *c, int result, const char *function, weir_error *error) {
    const char *text = c->api.GetErrorString(result);
    weir_status status =
        weir__fail(error, WEIR_DEVICE_ERROR, WEIR_DEVICE__OPERATOR,
                   "CUDA's run-time compiler failed in nvrtc%s: %s%s%s; use a version of libnvrtc that knows "
                   "this GPU",
                   function, text ? text : "?", c->log[0] ? ": " : "", c->log);
    weir__note_int(error, "code", result);
    return status;
}

#define CALL(c, error, function, arguments)                                                                  \
    (result = (c)->api.function arguments, result == 0 ? WEIR_OK : failed(c, result, #function, error))

/* What the compiler said, for the message; nothing if it says nothing. */
static void read_log(compilation *c) {
    size_t size = 0;
    if (c->api.GetProgramLogSize(c->program, &size) != 0 || size < 2)
        return;
    char *log = weir__allocate_zero(c->env, size, 1);
    if (log && c->api.GetProgramLog(c->program, log) == 0)
        snprintf(c->log, sizeof c->log, "%s", log);
    for (char *at = c->log; *at; at++)
        *at = *at == '\n' ? ' ' : *at;
    weir__release(c->env, log);
}

static weir_status compile(compilation *c, const weir_device__kernel_source *source, uint32_t capability,
                           weir_error *error) {
    enum { OPTIONS_MAX = 16 };
    int result, count = 0;
    char architecture[48];
    const char *options[OPTIONS_MAX];
    snprintf(architecture, sizeof architecture, "--gpu-architecture=sm_%u%s", capability,
             source->is_specific ? "a" : "");
    options[count++] = architecture;
    options[count++] = "--device-as-default-execution-space";
    if (!source->options)
        options[count++] = "--fmad=false";
    assert(source->option_count <= OPTIONS_MAX - 2);
    for (size_t i = 0; source->options && i < source->option_count; i++)
        options[count++] = source->options[i];
    WEIR__TRY(CALL(c, error, CreateProgram, (&c->program, c->source, "weir_kernel.cu", 0, NULL, NULL)));
    result = c->api.CompileProgram(c->program, count, options);
    if (result != 0) {
        read_log(c);
        return failed(c, result, "CompileProgram", error);
    }
    size_t size = 0;
    WEIR__TRY(CALL(c, error, GetCUBINSize, (c->program, &size)));
    c->image = size == SIZE_MAX ? NULL : weir__allocate_zero(c->env, size + 1, 1);
    if (!c->image)
        return weir__out_of_memory(error, WEIR_DEVICE__OPERATOR, size);
    return CALL(c, error, GetCUBIN, (c->program, c->image));
}

weir_status weir_device__nvrtc_compile(const weir_env *env, const char *path,
                                       const weir_device__kernel_source *source, uint32_t capability,
                                       char **image, weir_error *error) {
    compilation c = {.env = env};
    WEIR__TRY(weir_device__nvrtc_load(path, &c.api, error));
    c.source = weir__copy_text(env, (const char *)source->text, source->text_size);
    weir_status status = c.source ? compile(&c, source, capability, error)
                                  : weir__out_of_memory(error, WEIR_DEVICE__OPERATOR, source->text_size);
    if (c.program)
        (void)c.api.DestroyProgram(&c.program);
    weir__release(env, c.source);
    if (status == WEIR_OK)
        *image = c.image;
    else
        weir__release(env, c.image);
    return status;
}
