/* The kernels of attention on a device. One thread at a time. */
#ifndef WEIR_ATTENTION_KERNELS_H
#define WEIR_ATTENTION_KERNELS_H

#include "attention/attention.h"

typedef struct weir_attention__kernels weir_attention__kernels;

/* DEVICE_ERROR if the processor is too old. Nothing is compiled yet. */
WEIR_CHECKED weir_status weir_attention__kernels_open(const weir_env *env, weir_device *device,
                                                      weir_attention__kernels **out, weir_error *error);
void weir_attention__kernels_close(weir_attention__kernels *kernels);

WEIR_CHECKED weir_status weir_attention__kernels_lists(weir_attention__kernels *kernels,
                                                       const attention_lists *lists, weir_stream stream,
                                                       weir_error *error);

/* A pass over a list that has room for so many records. */
WEIR_CHECKED weir_status weir_attention__kernels_pass(weir_attention__kernels *kernels,
                                                      const weir_attention_call *call,
                                                      const weir_attention__arguments *arguments,
                                                      weir_attention__pass pass, uint64_t room,
                                                      weir_stream stream, weir_error *error);

#endif
