/* The kernels of attention on a device are not here yet: what asks for them is told so. */
#include "attention/kernels.h"

weir_status weir__attention_kernels_open(const weir_env *env, weir_device *device,
                                         weir__attention_kernels **out, weir_error *error) {
    (void)env, (void)device, (void)out;
    return weir__fail(error, WEIR_DEVICE_ERROR, WEIR__ATTENTION_OPERATOR,
                      "attention runs on the host only in this version");
}

void weir__attention_kernels_close(weir__attention_kernels *kernels) {
    (void)kernels;
}

weir_status weir__attention_kernels_lists(weir__attention_kernels *kernels, const attention_lists *lists,
                                          weir_stream stream, weir_error *error) {
    (void)kernels, (void)lists, (void)stream, (void)error;
    return WEIR_DEVICE_ERROR;
}

weir_status weir__attention_kernels_pass(weir__attention_kernels *kernels, const weir_attention_call *call,
                                         const weir__attention_arguments *arguments,
                                         weir__attention_pass pass, uint64_t room, weir_stream stream,
                                         weir_error *error) {
    (void)kernels, (void)call, (void)arguments, (void)pass, (void)room, (void)stream, (void)error;
    return WEIR_DEVICE_ERROR;
}
