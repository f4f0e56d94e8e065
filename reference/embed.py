"""hash_v1: a text as a vector, without a model.

Follows the section "Embedders" of the specification. Words and their three-byte windows are counted into
`dim` places that their hashes choose, with signs that their hashes choose too; the counts are integers, so
nothing is rounded before the vector is brought to length one and each number becomes a float16.
"""

import math
import re
import struct

from .xxh64 import xxh64

LONGEST_TEXT_BYTES = 2048
WORD_WEIGHT, WINDOW_WEIGHT, WINDOW_BYTES = 2, 1, 3
TOKEN = re.compile(rb"[A-Za-z0-9\x80-\xff]+")


def hash_v1(text: str, dim: int) -> bytes:
    """The embedding of a text: `dim` little-endian float16."""
    counts = [0] * dim
    for feature, weight in _features(text.encode("utf-8")[:LONGEST_TEXT_BYTES]):
        feature_hash = xxh64(feature)
        counts[feature_hash % dim] += -weight if feature_hash >> 63 else weight
    norm = math.sqrt(sum(count * count for count in counts))
    return struct.pack(f"<{dim}e", *(count / norm if norm else 0.0 for count in counts))


def _features(text: bytes) -> list[tuple[bytes, int]]:
    features: list[tuple[bytes, int]] = []
    for token in TOKEN.findall(text):
        token = token.lower()  # of bytes: ASCII letters only
        features.append((b"w:" + token, WORD_WEIGHT))
        framed = b"^" + token + b"$"
        for start in range(len(framed) - WINDOW_BYTES + 1):
            features.append((b"g:" + framed[start : start + WINDOW_BYTES], WINDOW_WEIGHT))
    return features
