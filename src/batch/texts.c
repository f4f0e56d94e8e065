/* See texts.h. A radix sort of (text, cell) pairs by text gives the distinct texts in order, and every cell
 * its number, in one pass each. */
#include "batch/texts.h"

#include <string.h>

#include "base/bytes.h"
#include "batch/fetch.h"
#include "store/reader.h"

static const char operator_name[] = "weir.batch.texts";

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, FETCH_AHEAD = 12, FETCH_BYTES = 512 };

weir_status weir__text_gatherer_open(weir__text_gatherer *texts, const weir_env *env, uint32_t cells,
                                     weir_error *error) {
    *texts = (weir__text_gatherer){
        .uses = weir__allocate(env, cells, sizeof *texts->uses),
        .scratch = weir__allocate(env, cells, sizeof *texts->scratch),
        .counts = weir__allocate(env, DIGITS, sizeof *texts->counts),
    };
    if (texts->uses && texts->scratch && texts->counts)
        return WEIR_OK;
    weir__text_gatherer_close(texts, env);
    return weir__out_of_memory(error, operator_name, cells * sizeof *texts->uses);
}

void weir__text_gatherer_close(weir__text_gatherer *texts, const weir_env *env) {
    weir__release(env, texts->uses);
    weir__release(env, texts->scratch);
    weir__release(env, texts->counts);
    *texts = (weir__text_gatherer){0};
}

static void sort_by_digit(weir__text_gatherer *texts, unsigned shift) {
    memset(texts->counts, 0, DIGITS * sizeof *texts->counts);
    for (uint32_t i = 0; i < texts->use_count; i++)
        texts->counts[texts->uses[i] >> shift & (DIGITS - 1)]++;
    uint32_t sum = 0;
    for (uint32_t d = 0; d < DIGITS; d++) {
        uint32_t count = texts->counts[d];
        texts->counts[d] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < texts->use_count; i++)
        texts->scratch[texts->counts[texts->uses[i] >> shift & (DIGITS - 1)]++] = texts->uses[i];
    uint64_t *sorted = texts->scratch;
    texts->scratch = texts->uses;
    texts->uses = sorted;
}

uint32_t weir__gather_texts(weir__text_gatherer *texts, uint32_t text_count) {
    for (unsigned shift = 32; shift < 64 && (text_count - 1ull) >> (shift - 32) != 0; shift += DIGIT_BITS)
        sort_by_digit(texts, shift);
    uint32_t distinct = 0;
    for (uint32_t i = 0; i < texts->use_count; i++)
        distinct += i == 0 || texts->uses[i] >> 32 != texts->uses[i - 1] >> 32;
    return distinct;
}

void weir__localise_texts(const weir__text_gatherer *texts, uint8_t *text_embed_ids) {
    uint32_t local = 0;
    for (uint32_t i = 0; i < texts->use_count; i++) {
        local += i > 0 && texts->uses[i] >> 32 != texts->uses[i - 1] >> 32;
        weir__store32(text_embed_ids + 4 * (size_t)WEIR__LOW(uint32_t, texts->uses[i]), local);
    }
}

/* Embeddings lie anywhere in the store: each is asked for a few uses before it is copied. */
static void fetch_ahead(const weir__text_gatherer *texts, const uint8_t *embeddings, size_t size,
                        uint32_t i) {
    if (i + FETCH_AHEAD >= texts->use_count)
        return;
    const uint8_t *next = embeddings + size * (size_t)(texts->uses[i + FETCH_AHEAD] >> 32);
    for (size_t line = 0; line < size && line < FETCH_BYTES; line += 64)
        weir__fetch(next + line);
}

bool weir__copy_texts(const weir__text_gatherer *texts, const weir_store *store, uint8_t *out) {
    const weir_store_info *info = weir_store_describe(store);
    size_t size = 2 * (size_t)info->embedding_dim;
    bool is_whole = true;
    for (uint32_t i = 0; i < texts->use_count; i++) {
        fetch_ahead(texts, info->text_embeddings, size, i);
        if (i > 0 && texts->uses[i] >> 32 == texts->uses[i - 1] >> 32)
            continue;
        const uint8_t *from = info->text_embeddings + size * (size_t)(texts->uses[i] >> 32);
        is_whole &= weir__store_touch(store, WEIR__SECTION_TEXT_EMBEDDINGS, from, size);
        memcpy(out, from, size);
        out += size;
    }
    return is_whole;
}
