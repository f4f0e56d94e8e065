/* See touch.h. A section of one block is compared with its own hash. The values of a longer one are joined to
 * its hash once, before the first is relied on; without values the whole section is hashed instead. Either is
 * done by one thread while the others that need it wait, a while: a fork leaves that thread behind. */
#include "store/touch.h"

#include <string.h>

#include "base/bytes.h"

static const char operator_name[] = WEIR_STORE__OPERATOR;

/* ---- Opening --------------------------------------------------------------------------------- */

static uint64_t value_count(const weir_section *section) {
    uint64_t blocks = weir_store__block_count(section->size);
    return blocks > 1 ? blocks : 0;
}

uint64_t weir_store__value_count(const weir_section *sections) {
    uint64_t values = 0;
    for (int i = 0; i < WEIR_STORE__SECTIONS_MOST; i++)
        values += value_count(&sections[i]);
    return values;
}

uint64_t weir_store__tail_size(const weir_section *sections) {
    uint64_t values = weir_store__value_count(sections);
    return values ? weir__align(WEIR_STORE__TAIL_HEADER_SIZE + values * WEIR__SUBTREE_VALUE, WEIR_STORE__PAGE)
                  : 0;
}

weir_status weir_store__touched_open(weir_store__touched *touched, const weir_env *env,
                                     const weir_section *sections, const uint8_t *data, const uint8_t *tail,
                                     bool is_trusted, weir_error *error) {
    uint64_t words = 0;
    for (int i = 0; i < WEIR_STORE__SECTIONS_MOST; i++)
        words += weir_store__block_count(sections[i].size) / 64 + 1;
    touched->env = env;
    touched->bits = weir__allocate(env, words, sizeof *touched->bits);
    if (!touched->bits)
        return weir__out_of_memory(error, operator_name, words * sizeof *touched->bits);
    touched->word_count = words;
    for (uint64_t i = 0; i < words; i++)
        atomic_init(&touched->bits[i], is_trusted ? ~0ull : 0ull);
    atomic_ullong *bits = touched->bits;
    const uint8_t *values = tail ? tail + WEIR_STORE__TAIL_HEADER_SIZE : NULL;
    for (int i = 0; i < WEIR_STORE__SECTIONS_MOST; i++) {
        weir_store__blocks *blocks = &touched->sections[i];
        uint64_t count = value_count(&sections[i]);
        blocks->base = data + sections[i].offset;
        blocks->size = sections[i].size;
        blocks->hash = sections[i].hash;
        blocks->values = count ? values : NULL;
        blocks->is_whole = bits;
        atomic_init(&blocks->left, is_trusted ? 0 : weir_store__block_count(sections[i].size));
        atomic_init(&blocks->state, WEIR_STORE__UNKNOWN);
        bits += weir_store__block_count(sections[i].size) / 64 + 1;
        values = values ? values + count * WEIR__SUBTREE_VALUE : NULL;
    }
    assert(bits == touched->bits + words && "the sections' blocks are not those that were counted");
    return WEIR_OK;
}

void weir_store__touched_close(weir_store__touched *touched) {
    if (touched->env)
        weir__release(touched->env, touched->bits);
    touched->bits = NULL;
}

void weir_store__touched_trust(weir_store__touched *touched) {
    for (uint64_t i = 0; i < touched->word_count; i++)
        atomic_store_explicit(&touched->bits[i], ~0ull, memory_order_relaxed);
    for (int i = 0; i < WEIR_STORE__SECTIONS_MOST; i++)
        atomic_store_explicit(&touched->sections[i].left, 0, memory_order_relaxed);
}

/* ---- Verifying ------------------------------------------------------------------------------- */

static void set_whole(weir_store__blocks *blocks, uint64_t block) {
    unsigned long long bit = 1ull << block % 64;
    if (!(atomic_fetch_or_explicit(&blocks->is_whole[block / 64], bit, memory_order_relaxed) & bit))
        atomic_fetch_sub_explicit(&blocks->left, 1, memory_order_relaxed);
}

static bool hashes_to(const weir_store__blocks *blocks, const uint8_t digest[WEIR_HASH_SIZE]) {
    return memcmp(digest, blocks->hash, WEIR_HASH_SIZE) == 0;
}

bool weir_store__values_fit(const weir_store__blocks *blocks) {
    weir__blake3 joiner;
    uint8_t digest[WEIR_HASH_SIZE];
    if (!blocks->values)
        return true;
    weir__blake3_init(&joiner);
    weir__blake3_join(&joiner, blocks->values, (size_t)weir_store__block_count(blocks->size));
    weir__blake3_final(&joiner, digest, sizeof digest);
    return hashes_to(blocks, digest);
}

static bool section_is_whole(weir_store__blocks *blocks) {
    uint8_t digest[WEIR_HASH_SIZE];
    weir__blake3_of(blocks->base, (size_t)blocks->size, digest);
    if (!hashes_to(blocks, digest))
        return false;
    for (uint64_t block = 0; block < weir_store__block_count(blocks->size); block++)
        set_whole(blocks, block);
    return true;
}

enum { PATIENCE_NS = 500000000 };

/* What has to be done once a section: one thread does it, the others wait for its answer. If none comes, they
 * do it themselves: in a child of fork the thread that began is not there. */
static bool is_prepared(weir_store__touched *touched, weir_store__blocks *blocks) {
    const weir_env *env = touched->env;
    const uint32_t *word = (const uint32_t *)(const void *)&blocks->state;
    unsigned state = WEIR_STORE__UNKNOWN;
    (void)atomic_compare_exchange_strong(&blocks->state, &state, WEIR_STORE__UNDER_WAY);
    if (state == WEIR_STORE__UNDER_WAY) {
        uint64_t until_ns = env->now_ns(env->context) + PATIENCE_NS;
        do {
            env->wait(env->context, word, WEIR_STORE__UNDER_WAY, PATIENCE_NS);
            state = atomic_load(&blocks->state);
        } while (state == WEIR_STORE__UNDER_WAY && env->now_ns(env->context) < until_ns);
    }
    if (state == WEIR_STORE__UNKNOWN || state == WEIR_STORE__UNDER_WAY) {
        bool is_sound = blocks->values ? weir_store__values_fit(blocks) : section_is_whole(blocks);
        state = is_sound ? WEIR_STORE__SOUND : WEIR_STORE__DAMAGED;
        atomic_store(&blocks->state, state);
        env->wake(env->context, word);
    }
    return state == WEIR_STORE__SOUND;
}

void weir_store__ask_for(weir_store__touched *touched, const uint8_t *at, size_t size) {
    const weir_env *env = touched->env;
    uint64_t began_ns = env->now_ns(env->context);
    bool was_missing = env->expect(env->context, at, size);
    (void)atomic_fetch_add_explicit(&touched->expected, was_missing, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&touched->expected_ns, env->now_ns(env->context) - began_ns,
                                    memory_order_relaxed);
}

static bool block_is_sound(weir_store__touched *touched, weir_store__blocks *blocks, uint64_t block) {
    uint8_t value[WEIR__SUBTREE_VALUE];
    if (!is_prepared(touched, blocks))
        return false;
    if (!blocks->values)
        return true;
    uint64_t start = block << WEIR_STORE__BLOCK_SHIFT, rest = blocks->size - start;
    const uint8_t *data = blocks->base + start;
    size_t size = rest < WEIR__SUBTREE_SIZE ? (size_t)rest : WEIR__SUBTREE_SIZE;
    if (touched->is_scattered)
        weir_store__ask_for(touched, data, size);
    weir__blake3_subtree(data, size, block, value);
    if (memcmp(value, blocks->values + block * WEIR__SUBTREE_VALUE, sizeof value) != 0)
        return false;
    set_whole(blocks, block);
    return true;
}

bool weir_store__touch_blocks(weir_store__touched *touched, weir_store__section_kind kind, uint64_t first,
                              uint64_t last) {
    weir_store__blocks *blocks = &touched->sections[kind - 1];
    for (uint64_t block = first; block <= last; block++) {
        if (weir_store__block_is_whole(blocks, block) || block_is_sound(touched, blocks, block))
            continue;
        atomic_store(&touched->at, block << WEIR_STORE__BLOCK_SHIFT);
        atomic_store(&touched->damaged, (unsigned)kind);
        return false;
    }
    return true;
}
