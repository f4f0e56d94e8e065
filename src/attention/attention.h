/* What the files of this folder share: where lists are, and attention on the host. */
#ifndef WEIR_ATTENTION_ATTENTION_H
#define WEIR_ATTENTION_ATTENTION_H

#include "attention/lists_kernel.h"
#include "attention/pass_kernel.h"
#include "base/internal.h"
#include "device/kernel.h"
#include "weir/attention.h"

#define WEIR__ATTENTION_OPERATOR "weir.attention"

/* Where everything is in the lists of such batches. */
WEIR_CHECKED weir_status weir__attention_layout(uint32_t sequences, uint32_t length, uint32_t rows,
                                                attention_layout *out, weir_error *error);

/* Makes lists on the host, after it has checked the tensors. */
WEIR_CHECKED weir_status weir__attention_lists(const weir_env *env, const attention_lists *lists,
                                               uint32_t threads, weir_error *error);

/* CONTRACT_VIOLATION unless it is one of the three. */
WEIR_CHECKED weir_status weir__attention_check_pattern(weir_attention_pattern pattern, weir_error *error);

/* The lists of a pattern: of the records of its queries, and of its keys. */
uint32_t weir__attention_list(weir_attention_pattern pattern, bool is_transposed);

/* One record and one head; `room` has weir__attention_room bytes and is the thread's own. */
size_t weir__attention_room(weir_attention_dtype dtype);
void weir__attention_record(weir_attention_dtype dtype, uint32_t head_size, weir__attention_pass pass,
                            const weir__attention_arguments *a, const uint32_t *record, uint32_t head,
                            void *room);

#endif
