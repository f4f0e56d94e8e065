/* What the files of this folder share: where lists are, and attention on the host and on a device. */
#ifndef WEIR_ATTENTION_ATTENTION_H
#define WEIR_ATTENTION_ATTENTION_H

#include "attention/lists_kernel.h"
#include "attention/pass_kernel.h"
#include "base/internal.h"
#include "device/kernel.h"
#include "weir/attention.h"

#define WEIR_ATTENTION__OPERATOR "weir.attention"

/* Where everything is in the lists of such batches. */
WEIR_CHECKED weir_status weir_attention__layout(uint32_t sequences, uint32_t length, uint32_t rows,
                                                attention_layout *out, weir_error *error);

/* Makes lists on the host, after it has checked the tensors. */
WEIR_CHECKED weir_status weir_attention__make_lists(const weir_env *env, const attention_lists *lists,
                                                    uint32_t threads, weir_error *error);

/* CONTRACT_VIOLATION unless it is one of the three. */
WEIR_CHECKED weir_status weir_attention__check_pattern(weir_attention_pattern pattern, weir_error *error);

/* The lists of a pattern: of the records of its queries, and of its keys. */
uint32_t weir_attention__list(weir_attention_pattern pattern, bool is_transposed);

/* One record and one head; `room` has weir_attention__room bytes and is the thread's own. */
size_t weir_attention__room(weir_attention_dtype dtype);
void weir_attention__record(weir_attention_dtype dtype, uint32_t head_size, weir_attention__pass pass,
                            const weir_attention__arguments *a, const uint32_t *record, uint32_t head,
                            void *room);

/* ---- Kernels on a device (kernels.c). One thread at a time ---------------------------------------- */

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
