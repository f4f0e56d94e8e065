/* See text_order.h. A radix sort of the uses by text gives the distinct texts in order, and every use its
 * number, in one pass each. */
#include "batch/text_order.h"

#include <string.h>

#include "base/bytes.h"
#include "base/narrow.h"
#include "batch/fetch.h"
#include "store/reader.h"

enum { DIGIT_BITS_MOST = 11, DIGITS_MOST = 1 << DIGIT_BITS_MOST, FETCH_AHEAD = 12, FETCH_BYTES = 512 };

void weir_batch__text_sorter_carve(weir_batch__text_sorter *sorter, weir__block *block, uint64_t uses) {
    *sorter = (weir_batch__text_sorter){
        .uses = weir__carve(block, uses, sizeof *sorter->uses),
        .counts = weir__carve(block, DIGITS_MOST, sizeof *sorter->counts),
    };
}

static void sort_by_digit(uint32_t *counts, uint32_t digits, const weir_batch__text_use *from,
                          weir_batch__text_use *to, uint32_t use_count, unsigned shift) {
    uint32_t sum = 0;
    memset(counts, 0, digits * sizeof *counts);
    for (uint32_t i = 0; i < use_count; i++)
        counts[from[i] >> shift & (digits - 1)]++;
    for (uint32_t d = 0; d < digits; d++) {
        uint32_t count = counts[d];
        counts[d] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < use_count; i++)
        to[counts[from[i] >> shift & (digits - 1)]++] = from[i];
}

uint32_t weir_batch__localise_texts(const weir_batch__text_sorter *sorter, weir_batch__text_use *uses,
                                    uint32_t use_count, uint32_t text_count, uint32_t *texts,
                                    uint8_t *compact) {
    weir_batch__text_use *sorted = uses, *other = sorter->uses;
    unsigned bits = text_count > 1 ? 32 - WEIR__LOW(unsigned, __builtin_clz(text_count - 1)) : 0;
    unsigned passes = (bits + DIGIT_BITS_MOST - 1) / DIGIT_BITS_MOST;
    unsigned digit_bits = passes ? (bits + passes - 1) / passes : 0;
    for (unsigned pass = 0; pass < passes; pass++) {
        sort_by_digit(sorter->counts, 1u << digit_bits, sorted, other, use_count, 32 + pass * digit_bits);
        weir_batch__text_use *last = sorted;
        sorted = other;
        other = last;
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < use_count; i++) {
        uint32_t text = WEIR__LOW(uint32_t, sorted[i] >> 32);
        count -= i > 0 && texts[count - 1] == text;
        texts[count++] = text;
        weir__store32(compact + 4 * (size_t)WEIR__LOW(uint32_t, sorted[i]), count - 1);
    }
    return count;
}

/* Embeddings lie anywhere in the store: each is asked for a few texts before it is copied. */
bool weir_batch__copy_texts(const weir_store *store, const uint32_t *texts, uint32_t count, uint32_t first,
                            uint8_t *out) {
    const weir_store_info *info = weir_store_describe(store);
    bool is_whole = true;
    size_t size = 2 * (size_t)info->embedding_dim;
    for (uint32_t i = 0; i < count && store->reads_ahead; i++)
        weir_store__expect(store, info->text_embeddings + size * (texts[i] - first));
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *ahead =
            info->text_embeddings + size * (texts[i + FETCH_AHEAD < count ? i + FETCH_AHEAD : i] - first);
        for (size_t line = 0; line < size && line < FETCH_BYTES; line += 64)
            weir_batch__fetch(ahead + line);
        const uint8_t *from = info->text_embeddings + size * (texts[i] - first);
        is_whole &= weir_store__touch_in(store, WEIR_STORE__SECTION_TEXT_EMBEDDINGS, from, size);
        memcpy(out + size * i, from, size);
    }
    return is_whole;
}
