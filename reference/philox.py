"""Philox4x32-10: all of weir's randomness, as a function of a seed, a domain and a number.

Follows the section "Philox4x32-10" of the specification, and for the cipher itself the paper "Parallel random
numbers: as easy as 1, 2, 3" (Salmon, Moraes, Dror, Shaw, 2011). Nothing here has state: the n-th draw of a
stream is computed directly from n. The domain is part of the counter, so streams of different domains never
meet, whatever their seed.
"""

import struct

DOMAIN_INTRA_BLOCK_AFFINE = 0
DOMAIN_INTRA_BLOCK_FEISTEL = 0x66737431
DOMAIN_BLOCK_PERMUTATION = 0xFFFFFFFF
DOMAIN_ROTATION = 0x726F7461
DOMAIN_TASK_MIXING = 0x6D697800
DOMAIN_WALK = 0x77616C6B
DOMAIN_BLOCKS = 0x626C6B73
DOMAIN_CLASSES = 0x636C6173
DOMAIN_MEMBERS = 0x6D656D62
DOMAIN_LINE = 0x6C696E65
DOMAIN_POINTS = 0x706C6163
DOMAIN_PHASE = 0x70686173

ROUNDS = 10
MULTIPLIER_0, MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
WEYL_0, WEYL_1 = 0x9E3779B9, 0xBB67AE85
MASK_32 = 0xFFFFFFFF

FourWords = tuple[int, int, int, int]


def philox4x32(counter: FourWords, key: tuple[int, int]) -> FourWords:
    """Ten rounds: two 32x32-bit products, their halves crossed over and mixed with the key, which then steps
    on."""
    word_0, word_1, word_2, word_3 = counter
    key_0, key_1 = key
    for _ in range(ROUNDS):
        product_0 = MULTIPLIER_0 * word_0
        product_1 = MULTIPLIER_1 * word_2
        word_0 = (product_1 >> 32) ^ word_1 ^ key_0
        word_1 = product_1 & MASK_32
        word_2 = (product_0 >> 32) ^ word_3 ^ key_1
        word_3 = product_0 & MASK_32
        key_0 = (key_0 + WEYL_0) & MASK_32
        key_1 = (key_1 + WEYL_1) & MASK_32
    return word_0, word_1, word_2, word_3


def draw_words(seed: bytes, domain: int, n: int) -> FourWords:
    """The specification's P(seed, domain, n) as four 32-bit words. A seed is 16 bytes: four little-endian
    words."""
    seed_0, seed_1, seed_2, seed_3 = struct.unpack("<4I", seed)
    return philox4x32((n & MASK_32, n >> 32, seed_2, seed_3 ^ domain), (seed_0, seed_1))


def draw_pair(seed: bytes, domain: int, n: int) -> tuple[int, int]:
    """P(seed, domain, n) as two 64-bit integers, k0 and k1."""
    r0, r1, r2, r3 = draw_words(seed, domain, n)
    return r0 | (r1 << 32), r2 | (r3 << 32)


def bounded(seed: bytes, domain: int, n: int, limit: int) -> int:
    """An integer from 0 to limit-1: the 128-bit draw scaled by the limit, exactly and without rejection."""
    k0, k1 = draw_pair(seed, domain, n)
    return ((k0 | (k1 << 64)) * limit) >> 128


def draw_numbered(seed: bytes, domain: int, n: int, j: int) -> int:
    """X(seed, domain, n, j): the j-th draw of number n, as a 128-bit integer."""
    seed_0, seed_1, seed_2, seed_3 = struct.unpack("<4I", seed)
    words = philox4x32((n & MASK_32, n >> 32, seed_2 ^ j, seed_3 ^ domain), (seed_0, seed_1))
    return sum(word << (32 * i) for i, word in enumerate(words))
