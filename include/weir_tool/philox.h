/* weir_tool/philox.h: the random numbers that orders and draws are made of: Random123's Philox4x32-10. Values
 * without memory of their own; any thread. */
#ifndef WEIR_TOOL_PHILOX_H
#define WEIR_TOOL_PHILOX_H

#include "weir/base.h"

/* Streams with different domains never meet under one seed. */
typedef enum weir_domain {
    WEIR_DOMAIN_INTRA_AFFINE = 0,
    WEIR_DOMAIN_INTRA_FEISTEL = 0x66737431,
    WEIR_DOMAIN_ROTATION = 0x726F7461,
    WEIR_DOMAIN_MIX = 0x6D697800,
    WEIR_DOMAIN_WALK = 0x77616C6B,
    WEIR_DOMAIN_SPLIT = 0x73706C74,
    WEIR_DOMAIN_BLOCKS = 0x626C6B73,
    WEIR_DOMAIN_CLASSES = 0x636C6173,
    WEIR_DOMAIN_MEMBERS = 0x6D656D62,
    WEIR_DOMAIN_LINE = 0x6C696E65,
    WEIR_DOMAIN_POINTS = 0x706C6163,
    WEIR_DOMAIN_PHASE = 0x70686173,
} weir_domain;
#define WEIR_DOMAIN_BLOCK_PERMUTE 0xFFFFFFFFu

/* Words 0, 1 are the key, words 2, 3 go into the counter: the 16 bytes of a seed, little-endian. */
typedef struct weir_seed {
    uint32_t word[4];
} weir_seed;

typedef struct weir_random {
    uint64_t k0; /* words 0 and 1: the low half of the 128-bit integer */
    uint64_t k1; /* words 2 and 3: the high half */
} weir_random;

weir_seed weir_seed_load(const uint8_t bytes[16]);

/* P(seed, domain, n). */
weir_random weir_philox(weir_seed seed, uint32_t domain, uint64_t n);

#endif
