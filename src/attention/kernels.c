/* Kernels on a device: one for lists, launched phase by phase, and one for every pass, type and head size
 * that is used, compiled when it is used first. Long columns have kernels of their own on Hopper. */
#include <stdio.h>

#include "attention/attention.h"

enum {
    DTYPES = 4,
    SIZES = 8,     /* of heads, in steps of 16 */
    THREADS = 128, /* of a block */
    LONG_THREADS = 256,
    LONG_SIZE = 64, /* of heads */
    GROUPS_CAPABILITY = 9,
    LISTS_THREADS = 256,
    BLOCKS_PER_PROCESSOR = 64, /* at most: what is left over is taken by those that are done */
    UNITS_MAX = INT32_MAX,     /* of work in a launch on tensor cores */
    CELLS_PER_UNIT = 32,       /* for tensor cores, of two heads: fewer would be unusual */
    OLDEST_CAPABILITY = 8,
    OPTIONS = 5,
    OPTION_SIZE = 32,
};

extern const unsigned char weir_attention__lists_text[], weir_attention__cores_text[],
    weir_attention__groups_text[], weir_attention__floats_text[];
extern const size_t weir_attention__lists_text_size, weir_attention__cores_text_size,
    weir_attention__groups_text_size, weir_attention__floats_text_size;

typedef struct compiled {
    bool is_open;
    weir_device__kernel_source source;
    weir_device__kernel kernel;
} compiled;

struct weir_attention__kernels {
    const weir_env *env;
    weir_device *device;
    compiled lists;
    compiled passes[2][WEIR_ATTENTION__PASSES][DTYPES][SIZES]; /* [1]: for what is left over */
    compiled longs[WEIR_ATTENTION__PASSES][DTYPES];
    bool has_no_groups; /* the compiler does not know this processor's own instructions */
};

weir_status weir_attention__kernels_open(const weir_env *env, weir_device *device,
                                         weir_attention__kernels **out, weir_error *error) {
    const weir_device_info *info = weir_device_describe(device);
    if (info->capability_major < OLDEST_CAPABILITY)
        return weir__fail(error, WEIR_DEVICE_ERROR, WEIR_ATTENTION__OPERATOR,
                          "attention needs a GPU of compute capability 8.0 or later; %s has %u.%u",
                          info->name, info->capability_major, info->capability_minor);
    weir_attention__kernels *kernels = weir__allocate_zero(env, 1, sizeof *kernels);
    if (!kernels)
        return weir__out_of_memory(error, WEIR_ATTENTION__OPERATOR, sizeof *kernels);
    kernels->env = env;
    kernels->device = device;
    *out = kernels;
    return WEIR_OK;
}

static void close_kernel(weir_attention__kernels *kernels, compiled *c) {
    if (c->is_open)
        weir_device__kernel_close(kernels->device, &c->kernel);
}

void weir_attention__kernels_close(weir_attention__kernels *kernels) {
    if (!kernels)
        return;
    close_kernel(kernels, &kernels->lists);
    compiled *first = &kernels->passes[0][0][0][0];
    for (size_t i = 0; i < sizeof kernels->passes / sizeof *first; i++)
        close_kernel(kernels, first + i);
    first = &kernels->longs[0][0];
    for (size_t i = 0; i < sizeof kernels->longs / sizeof *first; i++)
        close_kernel(kernels, first + i);
    weir__release(kernels->env, kernels);
}

static weir_status open_compiled(weir_attention__kernels *kernels, compiled *c, weir_error *error) {
    if (c->is_open)
        return WEIR_OK;
    weir_status status = weir_device__kernel_open(kernels->device, &c->source, &c->kernel, error);
    c->is_open = status == WEIR_OK;
    c->source.options = NULL;
    return status;
}

static uint32_t at_most(uint64_t blocks, const weir_device *device) {
    uint64_t most = (uint64_t)weir_device_describe(device)->multiprocessors * BLOCKS_PER_PROCESSOR;
    most = most > 0 ? most : 1;
    return WEIR__NARROW(uint32_t, blocks < most ? blocks : most);
}

/* ---- Lists ---------------------------------------------------------------------------------------- */

weir_status weir_attention__kernels_lists(weir_attention__kernels *kernels, const attention_lists *lists,
                                          weir_stream stream, weir_error *error) {
    static const char *const options[] = {"-DWEIR_LISTS_KERNEL"};
    compiled *c = &kernels->lists;
    c->source = (weir_device__kernel_source){.name = "weir_attention_lists",
                                             .text = weir_attention__lists_text,
                                             .text_size = weir_attention__lists_text_size,
                                             .options = options,
                                             .option_count = 1};
    weir_status status = open_compiled(kernels, c, error);
    bool is_held = false;
    if (status == WEIR_OK)
        status = weir_device__hold(kernels->device, &is_held, error);
    for (uint32_t phase = 0; phase < PHASES && status == WEIR_OK; phase++) {
        attention_lists given = *lists;
        void *arguments[] = {&given, &phase};
        uint64_t threads = threads_of(&lists->at, phase);
        weir_device__launch launch = {
            .blocks_x = at_most((threads + LISTS_THREADS - 1) / LISTS_THREADS, kernels->device),
            .blocks_y = 1,
            .threads = LISTS_THREADS,
            .arguments = arguments,
            .stream = stream};
        if (threads > 0)
            status = weir_device__kernel_launch(kernels->device, &c->kernel, &launch, error);
    }
    weir_device__let_go(kernels->device, is_held);
    return status;
}

/* ---- Passes --------------------------------------------------------------------------------------- */

/* As tensor_cores.cu lays it out: four warps with rooms of their own, or one room, or their sums. */
static uint32_t shared_bytes(uint32_t head_size, weir_attention__pass pass) {
    uint32_t rows = 16 * (head_size + 8) * 2;
    uint32_t staying = pass == WEIR_ATTENTION__FORWARD ? 1 : pass == WEIR_ATTENTION__QUERIES ? 3 : 2;
    return 4 * rows * (staying + 4) + 1024;
}

/* Compiles the kernel of a pass with what it is for as macros; `many` is left out if it is below 0. The
 * options are needed by the compiler only. */
static weir_status open_kernel(weir_attention__kernels *kernels, compiled *c, const weir_attention_call *call,
                               weir_attention__pass pass, int many, weir_error *error) {
    char text[OPTIONS][OPTION_SIZE];
    const char *options[OPTIONS];
    if (c->is_open)
        return WEIR_OK;
    snprintf(text[0], OPTION_SIZE, "-DPASS=%d", pass);
    snprintf(text[1], OPTION_SIZE, "-DHEAD_SIZE=%u", call->head_size);
    snprintf(text[2], OPTION_SIZE, "-DBFLOAT16=%d", call->dtype == WEIR_ATTENTION_BFLOAT16);
    snprintf(text[3], OPTION_SIZE, "-DSHARED_BYTES=%u", c->source.shared_bytes);
    snprintf(text[4], OPTION_SIZE, "-DMANY=%d", many);
    for (int i = 0; i < OPTIONS; i++)
        options[i] = text[i];
    c->source.options = options;
    c->source.option_count = many < 0 ? OPTIONS - 1 : OPTIONS;
    return open_compiled(kernels, c, error);
}

static weir_status launch(weir_attention__kernels *kernels, const compiled *c,
                          weir_attention__arguments *given, uint64_t blocks, uint32_t threads,
                          weir_stream stream, weir_error *error) {
    void *addresses[] = {given};
    weir_device__launch launched = {.blocks_x = WEIR__NARROW(uint32_t, blocks),
                                    .blocks_y = 1,
                                    .threads = threads,
                                    .arguments = addresses,
                                    .stream = stream};
    return weir_device__kernel_launch(kernels->device, &c->kernel, &launched, error);
}

static weir_status launch_pass(weir_attention__kernels *kernels, const weir_attention_call *call,
                               weir_attention__arguments *given, bool is_rest, uint64_t blocks,
                               weir_stream stream, weir_error *error) {
    weir_attention__pass pass = (weir_attention__pass)given->pass;
    compiled *c = &kernels->passes[is_rest][pass][call->dtype][call->head_size / 16 - 1];
    bool is_float = call->dtype == WEIR_ATTENTION_FLOAT32;
    if (!c->is_open)
        c->source = (weir_device__kernel_source){
            .name = "weir_attention",
            .text = is_float ? weir_attention__floats_text : weir_attention__cores_text,
            .text_size = is_float ? weir_attention__floats_text_size : weir_attention__cores_text_size,
            .shared_bytes = is_float ? 0 : shared_bytes(call->head_size, pass)};
    WEIR__TRY(open_kernel(kernels, c, call, pass, is_rest, error));
    return launch(kernels, c, given, blocks, THREADS, stream, error);
}

/* ---- Long columns --------------------------------------------------------------------------------- */

/* As warp_groups.cu lays it out: what stays of two groups, three stages of two tensors, and sums of each. */
static uint32_t long_bytes(weir_attention__pass pass) {
    uint32_t tile = 64 * LONG_SIZE * 2;
    return (pass == WEIR_ATTENTION__FORWARD ? 2 : 4) * tile + 3 * (2 * tile + 512) + 512 + 1024;
}

/* NULL if there is none. A compiler that does not know the instructions is not an error: tensor_cores.cu
 * takes all records. */
static weir_status open_long(weir_attention__kernels *kernels, const weir_attention_call *call,
                             weir_attention__pass pass, const compiled **out, weir_error *error) {
    compiled *c = &kernels->longs[pass][call->dtype];
    bool has_long = weir_device_describe(kernels->device)->capability_major == GROUPS_CAPABILITY &&
                    !kernels->has_no_groups && call->head_size == LONG_SIZE &&
                    call->pattern == WEIR_ATTENTION_COLUMN && call->length >= LENGTH_LONG &&
                    call->dtype >= WEIR_ATTENTION_FLOAT16;
    *out = has_long ? c : NULL;
    if (!has_long || c->is_open)
        return WEIR_OK;
    c->source = (weir_device__kernel_source){.name = "weir_attention_long",
                                             .text = weir_attention__groups_text,
                                             .text_size = weir_attention__groups_text_size,
                                             .shared_bytes = long_bytes(pass),
                                             .is_specific = true};
    weir_status status = open_kernel(kernels, c, call, pass, -1, error);
    if (status != WEIR_DEVICE_ERROR)
        return status;
    kernels->has_no_groups = true;
    *out = NULL;
    return WEIR_OK;
}

/* ---- All of a pass -------------------------------------------------------------------------------- */

/* How many records there are is known on the device only. The kernel for float32 has a loop; that for tensor
 * cores has a block for each unit of work (a few records' heads), as many as are usual, and a second launch
 * looks for what is left. */
weir_status weir_attention__kernels_pass(weir_attention__kernels *kernels, const weir_attention_call *call,
                                         const weir_attention__arguments *arguments,
                                         weir_attention__pass pass, uint64_t room, weir_stream stream,
                                         weir_error *error) {
    uint64_t turns = ((uint64_t)call->heads + 1) / 2,
             processors = weir_device_describe(kernels->device)->multiprocessors;
    uint64_t usual = (uint64_t)call->sequences * call->length * turns / CELLS_PER_UNIT + processors;
    uint64_t most = room * (call->heads > turns ? call->heads : turns); /* if all records were hubs' */
    weir_attention__arguments given = *arguments;
    given.pass = pass;
    given.dtype = call->dtype;
    given.head_size = call->head_size;
    if (most == 0)
        return WEIR_OK;
    if (call->dtype == WEIR_ATTENTION_FLOAT32)
        return launch_pass(kernels, call, &given, false, at_most(most, kernels->device), stream, error);
    if (most > UNITS_MAX)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR,
                          "%u sequences of %u cells with %u heads are too many for one call; split the batch",
                          call->sequences, call->length, call->heads);
    uint64_t blocks = most < usual ? most : usual;
    const compiled *longs = NULL;
    weir_status status = open_long(kernels, call, pass, &longs, error);
    /* A block for each record's head. A long column has 128 cells and more, so that at most half of its
     * records' room is empty. */
    uint64_t records = 2 * (uint64_t)given.at.sequences * given.at.length / ROWS_LONG;
    if (status == WEIR_OK && longs)
        status = launch(kernels, longs, &given, records * given.heads, LONG_THREADS, stream, error);
    given.skips_long = longs != NULL;
    if (status == WEIR_OK)
        status = launch_pass(kernels, call, &given, false, blocks, stream, error);
    given.done = WEIR__LOW(uint32_t, blocks);
    if (status == WEIR_OK && blocks < most)
        status = launch_pass(kernels, call, &given, true, processors * 2, stream, error);
    return status;
}
