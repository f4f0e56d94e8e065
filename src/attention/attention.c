/* The public calls: what is given is checked by name, then goes to the host's threads or to the device's
 * kernels. */
#include <math.h>
#include <string.h>

#include "attention/attention.h"
#include "base/floating.h"
#include "base/options.h"
#include "base/parallel.h"

struct weir_attention {
    const weir_env *env;
    weir_attention__kernels *kernels; /* NULL: the host */
};

weir_status weir_attention_open(const weir_env *env, weir_device *device, weir_attention **out,
                                weir_error *error) {
    env = weir__env_or_default(env);
    weir_attention *attention = weir__allocate_zero(env, 1, sizeof *attention);
    if (!attention)
        return weir__out_of_memory(error, WEIR_ATTENTION__OPERATOR, sizeof *attention);
    attention->env = env;
    if (device && !weir_device_describe(device)->is_host) {
        weir_status status = weir_attention__kernels_open(env, device, &attention->kernels, error);
        if (status != WEIR_OK) {
            weir__release(env, attention);
            return status;
        }
    }
    *out = attention;
    return WEIR_OK;
}

void weir_attention_close(weir_attention *attention) {
    if (!attention)
        return;
    weir_attention__kernels_close(attention->kernels);
    weir__release(attention->env, attention);
}

/* ---- Lists ---------------------------------------------------------------------------------------- */

weir_status weir_attention_lists(weir_attention *attention, const weir_attention_batch *batch, void *lists,
                                 weir_stream stream, weir_error *error) {
    attention_lists made = {.seq_row_ids = batch->seq_row_ids,
                            .column_ids = batch->column_ids,
                            .is_padding = batch->is_padding,
                            .fk_adj = batch->fk_adj,
                            .col_perm = batch->col_perm,
                            .words = lists};
    bool has_cells = batch->sequences > 0 && batch->length > 0, has_rows = has_cells && batch->rows > 0;
    const struct {
        const void *data;
        const char *name;
        bool is_needed;
    } given[] = {{batch->seq_row_ids, "seq_row_ids", has_cells}, {batch->column_ids, "column_ids", has_cells},
                 {batch->is_padding, "is_padding", has_cells},   {batch->fk_adj, "fk_adj", has_rows},
                 {batch->col_perm, "col_perm", has_cells},       {lists, "memory for the lists", true}};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (given[i].is_needed && !given[i].data)
            return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR, "%s is missing",
                              given[i].name);
    WEIR__TRY(weir_attention__layout(batch->sequences, batch->length, batch->rows, &made.at, error));
    if (attention->kernels)
        return weir_attention__kernels_lists(attention->kernels, &made, stream, error);
    return weir_attention__make_lists(attention->env, &made, batch->threads, error);
}

/* ---- What a call is given ------------------------------------------------------------------------- */

static weir_status refuse(const char *what, weir_error *error) {
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR, "%s", what);
}

static weir_status check_tensor(const weir_attention_call *call, const weir_attention_tensor *tensor,
                                const char *name, bool is_aligned, weir_error *error) {
    int64_t size = call->dtype == WEIR_ATTENTION_FLOAT64 ? 8 : call->dtype == WEIR_ATTENTION_FLOAT32 ? 4 : 2;
    bool is_right = tensor->data || call->sequences == 0 || call->heads == 0;
    if (!is_right)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR, "%s is missing", name);
    uint32_t multiple = is_aligned ? 16 : WEIR__NARROW(uint32_t, size);
    is_right = (uintptr_t)tensor->data % multiple == 0;
    for (int i = 0; i < 3 && is_aligned; i++)
        is_right = is_right && tensor->strides[i] % (16 / size) == 0;
    if (is_right)
        return WEIR_OK;
    return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR,
                      "%s does not lie at multiples of %u bytes; copy it to memory of its own", name,
                      multiple);
}

static weir_status check_call(const weir_attention *attention, const weir_attention_call *call,
                              bool is_backward, weir_error *error) {
    weir_status status = WEIR_OK;
    WEIR__TRY(weir_attention__check_pattern(call->pattern, error));
    if (WEIR__LOW(uint32_t, call->dtype) > WEIR_ATTENTION_BFLOAT16)
        return refuse("the dtype is not float64, float32, float16 or bfloat16", error);
    if (attention->kernels && call->dtype == WEIR_ATTENTION_FLOAT64)
        return refuse("attention in float64 is the host's only; use float32 on a device", error);
    if (call->head_size < 16 || call->head_size > 128 || call->head_size % 16 != 0)
        return weir__fail(error, WEIR_CONTRACT_VIOLATION, WEIR_ATTENTION__OPERATOR,
                          "heads of %u are not possible: 16 to 128 in steps of 16 are", call->head_size);
    if (!isfinite(call->scale))
        return refuse("the scale is not a finite number", error);
    bool is_empty = call->sequences == 0 || call->heads == 0;
    if (!call->lists || (!call->lse && !is_empty) || (is_backward && !call->delta && !is_empty))
        return refuse("the lists, lse or delta are missing", error);
    const struct {
        const weir_attention_tensor *tensor;
        const char *name;
    } tensors[] = {{&call->q, "q"},
                   {&call->k, "k"},
                   {&call->v, "v"},
                   {&call->o, "o"},
                   {&call->o_gradient, "o's gradient"},
                   {&call->q_gradient, "q's gradient"},
                   {&call->k_gradient, "k's gradient"},
                   {&call->v_gradient, "v's gradient"}};
    for (size_t i = 0; i < (is_backward ? 8 : 4) && status == WEIR_OK; i++)
        status = check_tensor(call, tensors[i].tensor, tensors[i].name, attention->kernels != NULL, error);
    return status;
}

static weir_attention__strided tensor_of(const weir_attention_tensor *tensor) {
    return (weir_attention__strided){tensor->data, tensor->strides[0], tensor->strides[1],
                                     tensor->strides[2]};
}

static weir_status arguments_of(const weir_attention_call *call, weir_attention__arguments *out,
                                weir_error *error) {
    memset(out, 0, sizeof *out);
    out->q = tensor_of(&call->q);
    out->k = tensor_of(&call->k);
    out->v = tensor_of(&call->v);
    out->o = tensor_of(&call->o);
    out->g = tensor_of(&call->o_gradient);
    out->dq = tensor_of(&call->q_gradient);
    out->dk = tensor_of(&call->k_gradient);
    out->dv = tensor_of(&call->v_gradient);
    out->lse = call->lse;
    out->delta = call->delta;
    out->words = call->lists;
    out->heads = call->heads;
    out->is_column = call->pattern == WEIR_ATTENTION_COLUMN;
    out->scale = call->scale != 0 ? call->scale : 1 / sqrt(call->head_size);
    return weir_attention__layout(call->sequences, call->length, call->rows, &out->at, error);
}

/* ---- On the host ---------------------------------------------------------------------------------- */

typedef struct host_pass {
    const weir_attention__arguments *arguments;
    weir_attention_dtype dtype;
    uint32_t head_size;
    weir_attention__pass pass;
    uint8_t *rooms;
    size_t room_size;
} host_pass;

static void run_record(void *context, size_t index, uint32_t worker) {
    const host_pass *work = context;
    const weir_attention__arguments *a = work->arguments;
    const uint32_t *record = a->words + a->records + (uint64_t)(index / a->heads) * RECORD_WORDS;
    weir_attention__record(work->dtype, work->head_size, work->pass, a, record,
                           WEIR__LOW(uint32_t, index % a->heads), work->rooms + worker * work->room_size);
}

static __attribute__((noinline)) void run_host(const weir_env *env, host_pass *work, uint32_t threads) {
    const weir_attention__arguments *a = work->arguments;
    uint64_t records = 0;
    for (uint32_t kind = 0; kind < KINDS; kind++)
        records += a->words[a->counts + kind];
    weir__parallel(env, threads, (size_t)(records * a->heads), run_record, work);
}

static weir_status run_pass(weir_attention *attention, const weir_attention_call *call,
                            weir_attention__arguments *arguments, weir_attention__pass pass,
                            weir_stream stream, weir_error *error) {
    uint32_t list = weir_attention__list(call->pattern, pass == WEIR_ATTENTION__KEYS);
    arguments->counts = arguments->at.counts + (uint64_t)list * KINDS;
    arguments->records = arguments->at.records[list];
    if (attention->kernels)
        return weir_attention__kernels_pass(attention->kernels, call, arguments, pass,
                                            arguments->at.record_room[list], stream, error);
    uint32_t threads = weir__threads_or_processors(call->threads);
    host_pass work = {.arguments = arguments,
                      .dtype = call->dtype,
                      .head_size = call->head_size,
                      .pass = pass,
                      .room_size = weir_attention__room(call->dtype)};
    work.rooms = weir__allocate(attention->env, threads, work.room_size);
    if (!work.rooms)
        return weir__out_of_memory(error, WEIR_ATTENTION__OPERATOR, threads * work.room_size);
    weir__floating kept = weir__enter_floating();
    run_host(attention->env, &work, threads);
    weir__leave_floating(&kept);
    weir__release(attention->env, work.rooms);
    return WEIR_OK;
}

static weir_status take_call(const weir_attention *attention, const weir_attention_call *given,
                             bool is_backward, weir_attention_call *call, weir_error *error) {
    WEIR__TRY(WEIR__TAKE_OPTIONS(*call, given, weir_attention_call, WEIR_ATTENTION__OPERATOR, error));
    return check_call(attention, call, is_backward, error);
}

weir_status weir_attention_forward(weir_attention *attention, const weir_attention_call *given,
                                   weir_stream stream, weir_error *error) {
    weir_attention__arguments arguments;
    weir_attention_call call;
    WEIR__TRY(take_call(attention, given, false, &call, error));
    WEIR__TRY(arguments_of(&call, &arguments, error));
    return run_pass(attention, &call, &arguments, WEIR_ATTENTION__FORWARD, stream, error);
}

weir_status weir_attention_backward(weir_attention *attention, const weir_attention_call *given,
                                    weir_stream stream, weir_error *error) {
    weir_attention__arguments arguments;
    weir_attention_call call;
    WEIR__TRY(take_call(attention, given, true, &call, error));
    WEIR__TRY(arguments_of(&call, &arguments, error));
    WEIR__TRY(run_pass(attention, &call, &arguments, WEIR_ATTENTION__QUERIES, stream, error));
    return run_pass(attention, &call, &arguments, WEIR_ATTENTION__KEYS, stream, error);
}
