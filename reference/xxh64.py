"""XXH64: the hash of features and of keys.

Written from the public description of xxHash (its XXH64; weir uses seed 0 but for drafts). It decides which
place of an embedding a feature counts in and which split a key falls into; it protects nothing.
"""

import struct

PRIME_1 = 0x9E3779B185EBCA87
PRIME_2 = 0xC2B2AE3D27D4EB4F
PRIME_3 = 0x165667B19E3779F9
PRIME_4 = 0x85EBCA77C2B2AE63
PRIME_5 = 0x27D4EB2F165667C5
MASK_64 = 0xFFFFFFFFFFFFFFFF
STRIPE = 32


def xxh64(data: bytes, seed: int = 0) -> int:
    """The 64-bit hash of some bytes."""
    whole_stripes = len(data) // STRIPE
    if whole_stripes:
        state = _converged(_lanes_over(data, whole_stripes, seed))
    else:
        state = (seed + PRIME_5) & MASK_64
    state = _over_the_tail((state + len(data)) & MASK_64, data[whole_stripes * STRIPE :])
    return _avalanche(state)


def _rotate_left(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & MASK_64


def _round(lane: int, word: int) -> int:
    return _rotate_left((lane + word * PRIME_2) & MASK_64, 31) * PRIME_1 & MASK_64


def _lanes_over(data: bytes, stripes: int, seed: int) -> list[int]:
    """Four lanes, each fed every fourth 64-bit word."""
    lanes = [(seed + start) & MASK_64 for start in (PRIME_1 + PRIME_2, PRIME_2, 0, -PRIME_1)]
    for words in struct.iter_unpack("<4Q", data[: stripes * STRIPE]):
        lanes = [_round(lane, word) for lane, word in zip(lanes, words)]
    return lanes


def _converged(lanes: list[int]) -> int:
    state = sum(_rotate_left(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18))) & MASK_64
    for lane in lanes:
        state = ((state ^ _round(0, lane)) * PRIME_1 + PRIME_4) & MASK_64
    return state


def _over_the_tail(state: int, tail: bytes) -> int:
    """What is left of fewer than 32 bytes: by eight, then by four, then one at a time."""
    while len(tail) >= 8:
        (word,) = struct.unpack_from("<Q", tail)
        state = (_rotate_left(state ^ _round(0, word), 27) * PRIME_1 + PRIME_4) & MASK_64
        tail = tail[8:]
    if len(tail) >= 4:
        (word,) = struct.unpack_from("<I", tail)
        state = (_rotate_left(state ^ (word * PRIME_1 & MASK_64), 23) * PRIME_2 + PRIME_3) & MASK_64
        tail = tail[4:]
    for byte in tail:
        state = _rotate_left(state ^ (byte * PRIME_5 & MASK_64), 11) * PRIME_1 & MASK_64
    return state


def _avalanche(state: int) -> int:
    state = (state ^ (state >> 33)) * PRIME_2 & MASK_64
    state = (state ^ (state >> 29)) * PRIME_3 & MASK_64
    return state ^ (state >> 32)
