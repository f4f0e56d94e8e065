"""Stores on a server, as the specification's part "Chunks" says it: cutting a file by its content, the index, and
putting a file together again."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import strict_json
from .blake3 import plain_hash
from .errors import WeirError

FORMAT = "weir-chunks/1"
FIRST = 4096
GEAR = [int.from_bytes(plain_hash(FORMAT.encode() + bytes([v]))[:8], "little") for v in range(256)]


@dataclass
class Index:
    store_hash: str
    size: int
    bits: int
    chunks: list[tuple[str, int]]


def cut(data: bytes, bits: int) -> list[bytes]:
    """The chunks of a file."""
    chunks = [data[:FIRST]]
    start = FIRST
    while start < len(data):
        size = _next_size(data, start, bits)
        chunks.append(data[start : start + size])
        start += size
    return chunks


def _next_size(data: bytes, start: int, bits: int) -> int:
    least, most, left = 1 << bits - 2, 1 << bits + 2, len(data) - start
    if left <= least:
        return left
    h = 0
    for i in range(least, min(left, most)):
        h = (2 * h + GEAR[data[start + i]]) % 2**64
        if h >> 64 - bits == 0:
            return i + 1
    return min(left, most)


def index_of(data: bytes, bits: int) -> list[tuple[str, int]]:
    return [(plain_hash(chunk).hex(), len(chunk)) for chunk in cut(data, bits)]


def read_index(text: str) -> Index:
    document = strict_json.read(text, "STORE_CORRUPT")
    _require(isinstance(document, dict) and set(document) == {"format", "store_hash", "size", "bits", "chunks"}, "its keys")
    _require(document["format"] == FORMAT, "its format")
    _require(_is_hash(document["store_hash"]), "its store_hash")
    _require(_is_within(document["bits"], 12, 26), "its bits")
    chunks = document["chunks"]
    _require(isinstance(chunks, list) and all(_is_chunk(chunk) for chunk in chunks), "its chunks")
    _require(_is_within(document["size"], 1, 2**63 - 1) and sum(size for _, size in chunks) == document["size"], "its size")
    return Index(document["store_hash"], document["size"], document["bits"], [(name, size) for name, size in chunks])


def assemble(index: Index, get: Callable[[str], bytes]) -> bytes:
    """The file, of chunks that `get` gives by their names."""
    pieces = []
    for name, size in index.chunks:
        data = get(name)
        if len(data) != size or plain_hash(data).hex() != name:
            raise WeirError("STORE_CORRUPT", f"chunk {name} has other bytes than its name says")
        pieces.append(data)
    return b"".join(pieces)


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise WeirError("STORE_CORRUPT", f"an index is refused for {what}")


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def _is_within(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _is_chunk(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_hash(value[0]) and _is_within(value[1], 1, 2**28)
