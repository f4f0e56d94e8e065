/* The kernels of attention on a device. One thread at a time. */
#ifndef WEIR_ATTENTION_KERNELS_H
#define WEIR_ATTENTION_KERNELS_H

#include "attention/attention.h"

typedef struct weir__attention_kernels weir__attention_kernels;

/* DEVICE_ERROR if the processor is too old. Nothing is compiled yet. */
WEIR_CHECKED weir_status weir__attention_kernels_open(const weir_env *env, weir_device *device,
                                                      weir__attention_kernels **out, weir_error *error);
void weir__attention_kernels_close(weir__attention_kernels *kernels);

WEIR_CHECKED weir_status weir__attention_kernels_lists(weir__attention_kernels *kernels,
                                                       const attention_lists *lists, weir_stream stream,
                                                       weir_error *error);

/* A pass over a list that has room for so many records. */
WEIR_CHECKED weir_status weir__attention_kernels_pass(weir__attention_kernels *kernels,
                                                      const weir_attention_call *call,
                                                      const weir__attention_arguments *arguments,
                                                      weir__attention_pass pass, uint64_t room,
                                                      weir_stream stream, weir_error *error);

#endif
