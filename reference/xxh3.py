"""XXH3, the hash of delivered batches and samples, with 64 and with 128 bits; seed 0, default secret.

Written from the published algorithm (Yann Collet, xxHash, version 0.8). Short inputs are mixed in one go, by
rules that differ by length; what is longer than 240 bytes is read in stripes of 64 bytes by eight lanes. The
results are integers; their canonical form is big-endian hex.
"""

import struct
from collections.abc import Iterator

MASK_32, MASK_64 = 2**32 - 1, 2**64 - 1
PRIME32_1, PRIME32_2, PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
PRIME64_1, PRIME64_2, PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
PRIME64_4, PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
PRIME_AVALANCHE, PRIME_SHORT = 0x165667919E3779F9, 0x9FB21C651E98DF25

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
SHORTEST_SECRET = 136
STRIPE, SECRET_STEP = 64, 8
STRIPES_PER_BLOCK = (len(SECRET) - STRIPE) // SECRET_STEP
LONGEST_MIXED_IN_ONE_GO = 240
MIDDLE_START, MIDDLE_LAST, LAST_STRIPE_BACK, MERGE_START = 3, 17, 7, 11


def xxh3_64(data: bytes) -> int:
    length = len(data)
    if length > LONGEST_MIXED_IN_ONE_GO:
        return _merged(_lanes_over(data), MERGE_START, length * PRIME64_1)
    if length > 16:
        return _middle_64(data)
    if length > 8:
        low = _word(data, 0) ^ _word(SECRET, 24) ^ _word(SECRET, 32)
        high = _word(data, length - 8) ^ _word(SECRET, 40) ^ _word(SECRET, 48)
        return _avalanche(length + _swapped_64(low) + high + _folded_product(low, high))
    if length >= 4:
        keyed = (_half(data, 0) << 32 | _half(data, length - 4)) ^ _word(SECRET, 8) ^ _word(SECRET, 16)
        keyed ^= _rotated_64(keyed, 49) ^ _rotated_64(keyed, 24)
        keyed = keyed * PRIME_SHORT & MASK_64
        keyed = (keyed ^ ((keyed >> 35) + length)) * PRIME_SHORT & MASK_64
        return keyed ^ keyed >> 28
    if length:
        return _avalanche_of_xxh64(_up_to_three_bytes(data) ^ _half(SECRET, 0) ^ _half(SECRET, 4))
    return _avalanche_of_xxh64(_word(SECRET, 56) ^ _word(SECRET, 64))


def xxh3_128(data: bytes) -> int:
    low, high = _halves_of_128(data)
    return high << 64 | low


def _halves_of_128(data: bytes) -> tuple[int, int]:
    length = len(data)
    if length > LONGEST_MIXED_IN_ONE_GO:
        lanes = _lanes_over(data)
        other_start = len(SECRET) - STRIPE - MERGE_START
        return (
            _merged(lanes, MERGE_START, length * PRIME64_1),
            _merged(lanes, other_start, ~(length * PRIME64_2)),
        )
    if length > 16:
        return _middle_128(data)
    if length > 8:
        return _nine_to_sixteen_128(data)
    if length >= 4:
        return _four_to_eight_128(data)
    if length:
        combined = _up_to_three_bytes(data)
        other = _rotated_32(_swapped_32(combined), 13)
        return (
            _avalanche_of_xxh64(combined ^ _half(SECRET, 0) ^ _half(SECRET, 4)),
            _avalanche_of_xxh64(other ^ _half(SECRET, 8) ^ _half(SECRET, 12)),
        )
    return (
        _avalanche_of_xxh64(_word(SECRET, 64) ^ _word(SECRET, 72)),
        _avalanche_of_xxh64(_word(SECRET, 80) ^ _word(SECRET, 88)),
    )


# ---- Up to 16 bytes ----------------------------------------------------------------------------------------


def _up_to_three_bytes(data: bytes) -> int:
    return data[0] << 16 | data[len(data) >> 1] << 24 | data[-1] | len(data) << 8


def _four_to_eight_128(data: bytes) -> tuple[int, int]:
    keyed = (_half(data, 0) | _half(data, len(data) - 4) << 32) ^ _word(SECRET, 16) ^ _word(SECRET, 24)
    product = keyed * (PRIME64_1 + (len(data) << 2))
    low, high = product & MASK_64, product >> 64
    high = (high + (low << 1)) & MASK_64
    low ^= high >> 3
    low = (low ^ low >> 35) * PRIME_SHORT & MASK_64
    return low ^ low >> 28, _avalanche(high)


def _nine_to_sixteen_128(data: bytes) -> tuple[int, int]:
    first, last = _word(data, 0), _word(data, len(data) - 8)
    product = (first ^ last ^ _word(SECRET, 32) ^ _word(SECRET, 40)) * PRIME64_1
    low = ((product & MASK_64) + ((len(data) - 1) << 54)) & MASK_64
    last ^= _word(SECRET, 48) ^ _word(SECRET, 56)
    high = ((product >> 64) + last + (last & MASK_32) * (PRIME32_2 - 1)) & MASK_64
    low ^= _swapped_64(high)
    product = low * PRIME64_2
    return _avalanche(product & MASK_64), _avalanche((product >> 64) + high * PRIME64_2)


# ---- 17 to 240 bytes ---------------------------------------------------------------------------------------


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    """16 bytes as one folded product."""
    return _folded_product(
        _word(data, at) ^ _word(SECRET, secret_at), _word(data, at + 8) ^ _word(SECRET, secret_at + 8)
    )


def _pairs_from_both_ends(length: int) -> list[tuple[int, int, int]]:
    """For 17 to 128 bytes: places from the front and from the back, inner pairs first, and the secret's."""
    return [(16 * i, length - 16 * (i + 1), 32 * i) for i in reversed(range((length - 1) // 32 + 1))]


def _middle_64(data: bytes) -> int:
    length = len(data)
    total = length * PRIME64_1
    if length <= 128:
        for front, back, secret_at in _pairs_from_both_ends(length):
            total += _mixed(data, front, secret_at) + _mixed(data, back, secret_at + 16)
        return _avalanche(total)
    for i in range(8):
        total += _mixed(data, 16 * i, 16 * i)
    total = _avalanche(total)
    for i in range(8, length // 16):
        total += _mixed(data, 16 * i, 16 * (i - 8) + MIDDLE_START)
    return _avalanche(total + _mixed(data, length - 16, SHORTEST_SECRET - MIDDLE_LAST))


def _middle_128(data: bytes) -> tuple[int, int]:
    length = len(data)
    low, high = length * PRIME64_1 & MASK_64, 0

    def mix(one: int, other: int, secret_at: int) -> None:
        nonlocal low, high
        low = (low + _mixed(data, one, secret_at)) & MASK_64
        low ^= (_word(data, other) + _word(data, other + 8)) & MASK_64
        high = (high + _mixed(data, other, secret_at + 16)) & MASK_64
        high ^= (_word(data, one) + _word(data, one + 8)) & MASK_64

    if length <= 128:
        for place in _pairs_from_both_ends(length):
            mix(*place)
    else:
        for i in range(4):
            mix(32 * i, 32 * i + 16, 32 * i)
        low, high = _avalanche(low), _avalanche(high)
        for i in range(4, length // 32):
            mix(32 * i, 32 * i + 16, MIDDLE_START + 32 * (i - 4))
        mix(length - 16, length - 32, SHORTEST_SECRET - MIDDLE_LAST - 16)
    weighted = low * PRIME64_1 + high * PRIME64_4 + length * PRIME64_2
    return _avalanche(low + high), -_avalanche(weighted) & MASK_64


# ---- Longer ------------------------------------------------------------------------------------------------


def _secret_words(at: int) -> tuple[int, ...]:
    return struct.unpack_from("<8Q", SECRET, at)


def _stripes(data: bytes) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], bool]]:
    """The words of each stripe, those of the secret beside it, and whether a block ends there. The last 64
    bytes come once more at the end, under a secret of their own."""
    count = (len(data) - 1) // STRIPE
    secrets = [_secret_words(i * SECRET_STEP) for i in range(STRIPES_PER_BLOCK)]
    for i in range(count):
        ends_block = i % STRIPES_PER_BLOCK == STRIPES_PER_BLOCK - 1
        yield struct.unpack_from("<8Q", data, i * STRIPE), secrets[i % STRIPES_PER_BLOCK], ends_block
    last_secret = _secret_words(len(SECRET) - STRIPE - LAST_STRIPE_BACK)
    yield struct.unpack_from("<8Q", data, len(data) - STRIPE), last_secret, False


def _lanes_over(data: bytes) -> list[int]:
    lanes = [PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1]
    scrambling = _secret_words(len(SECRET) - STRIPE)
    for words, secret, ends_block in _stripes(data):
        for lane in range(8):
            keyed = words[lane] ^ secret[lane]
            lanes[lane] += words[lane ^ 1] + (keyed & MASK_32) * (keyed >> 32)
        if ends_block:
            for lane in range(8):
                value = lanes[lane] & MASK_64
                lanes[lane] = (value ^ value >> 47 ^ scrambling[lane]) * PRIME32_1 & MASK_64
    return [lane & MASK_64 for lane in lanes]


def _merged(lanes: list[int], secret_at: int, start: int) -> int:
    total = start
    for lane, secret in zip(range(0, 8, 2), range(secret_at, secret_at + STRIPE, 16)):
        total += _folded_product(lanes[lane] ^ _word(SECRET, secret), lanes[lane + 1] ^ _word(SECRET, secret + 8))
    return _avalanche(total)


# ---- Arithmetic --------------------------------------------------------------------------------------------


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _half(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _rotated_64(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & MASK_64


def _rotated_32(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & MASK_32


def _swapped_64(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _swapped_32(value: int) -> int:
    return int.from_bytes(value.to_bytes(4, "little"), "big")


def _folded_product(a: int, b: int) -> int:
    product = a * b
    return (product ^ product >> 64) & MASK_64


def _avalanche(value: int) -> int:
    value &= MASK_64
    value = (value ^ value >> 37) * PRIME_AVALANCHE & MASK_64
    return value ^ value >> 32


def _avalanche_of_xxh64(value: int) -> int:
    value = (value ^ value >> 33) * PRIME64_2 & MASK_64
    value = (value ^ value >> 29) * PRIME64_3 & MASK_64
    return value ^ value >> 32
