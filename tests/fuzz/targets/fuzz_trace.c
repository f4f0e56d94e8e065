/* Fuzzes the trace tools: the bytes are a trace. Whatever the reader accepts is read, replayed, compared with
 * itself (equal, always) and merged. The chain would stop most damage, so a second pass mends the links of
 * what is canonical and lets the damage through. */
#include <stdlib.h>
#include <string.h>

#include "support/memory_env.h"
#include "trace/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Samples are as many as a record says. */
static void read_all(memory_env *memory) {
    weir_trace_reader *reader;
    weir_trace_record record;
    if (weir_trace_open(&memory->env, "trace", &reader, NULL) != WEIR_OK)
        return;
    while (weir_trace_next(reader, &record, NULL) == WEIR_OK && record.kind != WEIR_TRACE_EOF) {
        uint64_t *indices = calloc((size_t)record.index_count + 1, sizeof *indices);
        uint64_t *digests = calloc((size_t)record.sample_digest_count + 1, sizeof *digests);
        if (indices && digests)
            weir_trace_samples(&record, indices, digests);
        free(indices);
        free(digests);
    }
    weir_trace_close(reader);
}

static void judge(memory_env *memory) {
    weir_replay_report replay;
    weir_merge_report merged;
    weir_trace_difference difference;
    const char *paths[] = {"trace"};
    read_all(memory);
    (void)!weir_trace_replay(&memory->env, "trace", NULL, &replay, NULL);
    weir_merge_options with_single = {.size = sizeof with_single, .single = "trace"};
    (void)!weir_trace_merge(&memory->env, paths, 1, &with_single, &merged, NULL);
    if (weir_trace_diff(&memory->env, "trace", "trace", &difference, NULL) == WEIR_OK && difference.differs)
        abort();
}

/* Writes every canonical record of the input anew, with the link that belongs to it. */
static void mend_links(weir_cbor_writer *w, const uint8_t *data, size_t size) {
    uint8_t link[WEIR_HASH_SIZE];
    bool is_first = true;
    size_t item;
    while (size > 0 && weir_cbor_check(data, size, &item, NULL) == WEIR_OK) {
        weir_cbor_value map = weir_cbor_view(data);
        weir_cbor_value old;
        uint8_t *body;
        size_t body_size;
        if (map.type != WEIR_CBOR_MAP || !weir_cbor_get(&map, "h", &old) ||
            !weir_trace__unseal(weir_env_default(), &map, item, &body, &body_size))
            return;
        weir_trace__link(is_first ? NULL : link, body, body_size, link);
        weir_cbor_restart(w);
        weir_trace__seal(w, body, body_size, link);
        free(body);
        is_first = false;
        data += item;
        size -= item;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static memory_env memory;
    weir_cbor_writer w;
    memory_env_init(&memory);
    memory_env_put(&memory, "trace", data, size);
    judge(&memory);
    weir_cbor_writer_memory(&w, NULL);
    mend_links(&w, data, size);
    memory_env_put(&memory, "trace", w.data, w.size);
    judge(&memory);
    weir_cbor_release(&w);
    memory_env_close(&memory);
    return 0;
}
