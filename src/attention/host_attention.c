/* Attention on the host: host_kernel.h for each type. */
#include <math.h>

#include "attention/attention.h"
#include "attention/half_floats.h"

/* ---- Types ---------------------------------------------------------------------------------------- */

#define SAME(x) (x)

#define NAME(x) double_##x
#define REAL    double
#define STORED  double
#define READ    SAME
#define WRITE   SAME
#define EXP     exp
#define LOG     log
#include "attention/host_kernel.h"
#undef NAME
#undef REAL
#undef STORED
#undef EXP
#undef LOG

#define REAL    float
#define EXP     expf
#define LOG     logf
#define NAME(x) float_##x
#define STORED  float
#include "attention/host_kernel.h"
#undef NAME
#undef STORED
#undef READ
#undef WRITE

#define STORED  uint16_t
#define NAME(x) half_##x
#define READ    read_float16
#define WRITE   write_float16
#include "attention/host_kernel.h"
#undef NAME
#undef READ
#undef WRITE

#define NAME(x) brain_##x
#define READ    read_bfloat16
#define WRITE   write_bfloat16
#include "attention/host_kernel.h"

size_t weir_attention__room(weir_attention_dtype dtype) {
    return dtype == WEIR_ATTENTION_FLOAT64 ? sizeof(double_room) : sizeof(float_room);
}

void weir_attention__record(weir_attention_dtype dtype, uint32_t head_size, weir_attention__pass pass,
                            const weir_attention__arguments *a, const uint32_t *record, uint32_t head,
                            void *room) {
    switch (dtype) {
    case WEIR_ATTENTION_FLOAT64:
        double_record(head_size, pass, a, record, head, room);
        return;
    case WEIR_ATTENTION_FLOAT32:
        float_record(head_size, pass, a, record, head, room);
        return;
    case WEIR_ATTENTION_FLOAT16:
        half_record(head_size, pass, a, record, head, room);
        return;
    case WEIR_ATTENTION_BFLOAT16:
        brain_record(head_size, pass, a, record, head, room);
        return;
    }
}
