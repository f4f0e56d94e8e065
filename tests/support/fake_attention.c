/* See fake_attention.h. Lists are made thread by thread, and records are taken one by one, both backwards. */
#include "support/fake_attention.h"

#include <stdlib.h>
#include <string.h>

#include "attention/attention.h"

typedef struct fake_arguments {
    attention_lists lists;
    uint32_t phase;
    weir_attention__arguments pass;
} fake_arguments;

static_assert(sizeof(fake_arguments) <= FAKE_ATTENTION_SIZE, "there is too little room for arguments");

void fake_attention_copy(void *out, void *const *arguments, bool is_lists) {
    fake_arguments given;
    memset(&given, 0, sizeof given);
    if (is_lists) {
        memcpy(&given.lists, arguments[0], sizeof given.lists);
        memcpy(&given.phase, arguments[1], sizeof given.phase);
    } else {
        memcpy(&given.pass, arguments[0], sizeof given.pass);
    }
    memcpy(out, &given, sizeof given);
}

void fake_attention_lists(const void *given, fake_bytes *device_bytes) {
    fake_arguments w;
    memcpy(&w, given, sizeof w);
    attention_lists l = w.lists;
    uint64_t cells = (uint64_t)l.at.sequences * l.at.length;
    l.words = (uint32_t *)device_bytes((uintptr_t)l.words, (size_t)l.at.size * 4);
    l.seq_row_ids = device_bytes((uintptr_t)l.seq_row_ids, (size_t)cells * 2);
    l.column_ids = device_bytes((uintptr_t)l.column_ids, (size_t)cells * 4);
    l.is_padding = device_bytes((uintptr_t)l.is_padding, (size_t)cells);
    l.col_perm = device_bytes((uintptr_t)l.col_perm, (size_t)cells * 2);
    l.fk_adj = device_bytes((uintptr_t)l.fk_adj, (size_t)l.at.sequences * l.at.rows * l.at.rows);
    if (!l.words || !l.seq_row_ids || !l.column_ids || !l.is_padding || !l.col_perm || !l.fk_adj)
        return;
    for (uint64_t thread = threads_of(&l.at, w.phase); thread-- > 0;)
        run_phase(&l, w.phase, thread);
}

/* A tensor of attention, as the host sees it: all of it lies in one allocation. */
static bool see_tensor(weir_attention__strided *t, const weir_attention__arguments *a,
                       fake_bytes *device_bytes) {
    size_t size = a->dtype == WEIR_ATTENTION_FLOAT32 ? 4 : 2;
    int64_t last = (a->at.sequences - 1) * t->b + (a->heads - 1) * t->h + (a->at.length - 1) * t->s;
    if (!t->data)
        return true;
    t->data = device_bytes((uintptr_t)t->data, ((size_t)last + a->head_size) * size);
    return t->data != NULL;
}

/* Attention: the host's functions, record by record, backwards. */
static void take_records(const void *given, fake_bytes *device_bytes, bool is_long) {
    fake_arguments w;
    memcpy(&w, given, sizeof w);
    weir_attention__arguments a = w.pass;
    if (a.done > 0)
        return; /* the first launch has taken all records */
    if (is_long && (a.head_size != 64 || a.dtype == WEIR_ATTENTION_FLOAT32 || !a.is_column))
        return; /* the kernel is for others */
    size_t sums = (size_t)a.at.sequences * a.heads * a.at.length * 4;
    uint32_t records = 0, first_long = 0, longs = 0;
    a.words = (const uint32_t *)device_bytes((uintptr_t)a.words, (size_t)a.at.size * 4);
    a.lse = device_bytes((uintptr_t)a.lse, sums);
    a.delta = a.delta ? device_bytes((uintptr_t)a.delta, sums) : NULL;
    void *room = malloc(weir_attention__room((weir_attention_dtype)a.dtype));
    if (!room)
        abort();
    if (a.words && a.lse && see_tensor(&a.q, &a, device_bytes) && see_tensor(&a.k, &a, device_bytes) &&
        see_tensor(&a.v, &a, device_bytes) && see_tensor(&a.o, &a, device_bytes) &&
        see_tensor(&a.g, &a, device_bytes) && see_tensor(&a.dq, &a, device_bytes) &&
        see_tensor(&a.dk, &a, device_bytes) && see_tensor(&a.dv, &a, device_bytes)) {
        for (uint32_t kind = 0; kind < KINDS; kind++)
            records += a.words[a.counts + kind];
        first_long = a.words[a.counts + WIDE];
        longs = a.words[a.counts + LONG];
    }
    for (uint64_t i = (uint64_t)records * a.heads; i-- > 0;) {
        uint64_t record = i / a.heads;
        bool is_one = record >= first_long && record - first_long < longs;
        if (is_long ? is_one : !is_one || !a.skips_long)
            weir_attention__record((weir_attention_dtype)a.dtype, a.head_size, (weir_attention__pass)a.pass,
                                   &a, a.words + a.records + record * RECORD_WORDS, (uint32_t)(i % a.heads),
                                   room);
    }
    free(room);
}

void fake_attention_pass(const void *given, fake_bytes *device_bytes) {
    take_records(given, device_bytes, false);
}

void fake_attention_long(const void *given, fake_bytes *device_bytes) {
    take_records(given, device_bytes, true);
}
