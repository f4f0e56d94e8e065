/* hash_v1: words and their three-byte windows, hashed into a vector of whole numbers, which is divided by
 * its length.
 *
 * Sums are exact integers, so that only the norm (one square root), the division and the rounding to f16
 * are in floating point, each of them correctly rounded by IEEE 754. */
#define XXH_INLINE_ALL
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "base/ascii.h"
#include "ingest/settings.h"

enum { TEXT_MAX = 2048, TOKEN_ROOM = TEXT_MAX + 4 };

/* ---- f16 ------------------------------------------------------------------------------------- */

/* Splits the double into a whole number and a power of two, and rounds that number to 11 bits (or fewer for
 * a subnormal), ties to even. */
uint16_t weir_ingest__half_from_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = WEIR__LOW(uint16_t, bits >> 48 & 0x8000);
    int exponent = WEIR__LOW(int, bits >> 52 & 0x7FF);
    uint64_t fraction = bits & 0xFFFFFFFFFFFFF;
    if (exponent == 0x7FF)
        return fraction ? 0x7E00 : WEIR__LOW(uint16_t, sign | 0x7BFF);
    if (exponent < 1023 - 25)
        return sign; /* below half of the smallest subnormal */
    uint64_t significand = fraction | (uint64_t)1 << 52;
    int half_exponent = exponent - 1023 + 15;
    int shift = half_exponent >= 1 ? 42 : 43 - half_exponent;
    uint64_t kept = significand >> shift;
    uint64_t rest = significand & (((uint64_t)1 << shift) - 1);
    uint64_t half = (uint64_t)1 << (shift - 1);
    if (rest > half || (rest == half && (kept & 1)))
        kept++;
    uint64_t result = half_exponent >= 1 ? ((uint64_t)(half_exponent - 1) << 10) + kept : kept;
    return WEIR__LOW(uint16_t, sign | (result > 0x7BFF ? 0x7BFF : result));
}

/* ---- Features -------------------------------------------------------------------------------- */

static void add_feature(const char *feature, size_t size, int32_t weight, uint32_t dim, int32_t *sums) {
    uint64_t hash = XXH64(feature, size, 0);
    sums[hash % dim] += hash >> 63 ? -weight : weight;
}

static bool is_token_byte(char byte) {
    return weir__is_letter_or_digit(byte) || (byte & 0x80) != 0;
}

/* The word with weight 2, and every three-byte window of ^word$ with weight 1. */
static void add_token(const char *token, size_t size, uint32_t dim, int32_t *sums) {
    char word[TOKEN_ROOM] = "w:";
    char framed[TOKEN_ROOM] = "^";
    char gram[5] = "g:";
    for (size_t i = 0; i < size; i++)
        word[2 + i] = framed[1 + i] = weir__lower(token[i]);
    framed[1 + size] = '$';
    add_feature(word, size + 2, 2, dim, sums);
    for (size_t i = 0; i + 3 <= size + 2; i++) {
        memcpy(gram + 2, framed + i, 3);
        add_feature(gram, 5, 1, dim, sums);
    }
}

void weir_ingest__hash_v1(const char *text, size_t size, uint32_t dim, int32_t *sums, uint16_t *out) {
    size_t end = size < TEXT_MAX ? size : TEXT_MAX;
    memset(sums, 0, dim * sizeof *sums);
    for (size_t at = 0; at < end;) {
        size_t start = at;
        while (at < end && is_token_byte(text[at]))
            at++;
        if (at > start)
            add_token(text + start, at - start, dim, sums);
        else
            at++;
    }
    int64_t squares = 0;
    for (uint32_t i = 0; i < dim; i++)
        squares += (int64_t)sums[i] * sums[i];
    double norm = sqrt((double)squares);
    for (uint32_t i = 0; i < dim; i++)
        out[i] = squares == 0 ? 0 : sums[i] == 0 ? 0 : weir_ingest__half_from_double((double)sums[i] / norm);
}

/* ---- The embedder ---------------------------------------------------------------------------- */

static const weir__field fields[] = {WEIR_INGEST__EMBED_FIELDS};
static const weir__shape shape = WEIR__SHAPE(weir_ingest__embedder, fields);

static weir_status embed_texts(weir_ingest__embedder *embedder, const weir_ingest__bytes *texts, size_t count,
                               uint16_t *out, weir_error *error) {
    int32_t *sums = weir__allocate(embedder->env, embedder->dim, sizeof *sums);
    if (!sums)
        return weir__out_of_memory(error, WEIR_INGEST__EMBED_OPERATOR, embedder->dim * sizeof *sums);
    for (size_t i = 0; i < count; i++)
        weir_ingest__hash_v1(texts[i].data, texts[i].size, embedder->dim, sums, out + i * embedder->dim);
    weir__release(embedder->env, sums);
    return WEIR_OK;
}

const weir_ingest__embedder_kind weir_ingest__embedder_hash = {
    .provider = "hash_v1",
    .shape = &shape,
    .batch_max = 1024,
    .embed = embed_texts,
};
