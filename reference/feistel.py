"""The parts that weir's Feistel networks share: the rectangle that holds m places, and the round function."""

import math
from functools import lru_cache

from .philox import MASK_32


@lru_cache(maxsize=4096)
def sides(m: int) -> tuple[int, int]:
    """a = ceil(sqrt(m)) and b = ceil(m / a)."""
    ceiling_of_square_root = math.isqrt(m - 1) + 1
    return ceiling_of_square_root, -(-m // ceiling_of_square_root)


def feistel_hash(x: int, key: int) -> int:
    h = x ^ key
    h ^= h >> 16
    h = (h * 0x7FEB352D) & MASK_32
    h ^= h >> 15
    h = (h * 0x846CA68B) & MASK_32
    return h ^ (h >> 16)
