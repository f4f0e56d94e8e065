"""Canonical CBOR: the one form in which a value is hashed, traced and checkpointed.

Follows the section "Canonical CBOR" of the specification: shortest integers and lengths, definite lengths,
text keys sorted by their encoded bytes and unique, binary64 floats with a single NaN, valid UTF-8, integers
from -2^64 to 2^64-1, false, true and null, no tags, at most 64 arrays and maps inside each other. A value is
an int, bytes, str, float, bool, None, list or dict with str keys. Every value has exactly one encoding:
`encode` can write nothing else and `decode` accepts nothing else, so each undoes the other. A refused input
is CBOR_INVALID, and its `offset` is the first byte of the offending item; where the input ends too early,
that of the innermost item that is begun and not complete.
"""

import math
import struct
from typing import Any, NoReturn

from .errors import WeirError

DEEPEST_NESTING = 64

MAJOR_UNSIGNED, MAJOR_NEGATIVE, MAJOR_BYTES, MAJOR_TEXT = 0, 1, 2, 3
MAJOR_ARRAY, MAJOR_MAP, MAJOR_TAG, MAJOR_SIMPLE = 4, 5, 6, 7
BYTE_FALSE, BYTE_TRUE, BYTE_NULL, BYTE_FLOAT64 = 0xF4, 0xF5, 0xF6, 0xFB
THE_ONLY_NAN = bytes.fromhex("7ff8000000000000")


# ---- Encoding ----------------------------------------------------------------------------------------------


def encode(value: Any) -> bytes:
    """The canonical encoding of a value; CBOR_INVALID for what the profile cannot express."""
    return _encode_item(value, depth=0)


def _encode_item(value: Any, depth: int) -> bytes:
    if value is None:
        return bytes([BYTE_NULL])
    if isinstance(value, bool):
        return bytes([BYTE_TRUE if value else BYTE_FALSE])
    if isinstance(value, int):
        return _encode_head(MAJOR_UNSIGNED, value) if value >= 0 else _encode_head(MAJOR_NEGATIVE, -1 - value)
    if isinstance(value, float):
        return bytes([BYTE_FLOAT64]) + (THE_ONLY_NAN if math.isnan(value) else struct.pack(">d", value))
    if isinstance(value, bytes):
        return _encode_head(MAJOR_BYTES, len(value)) + value
    if isinstance(value, str):
        return _encode_text(value)
    if depth == DEEPEST_NESTING:
        raise WeirError("CBOR_INVALID", f"arrays and maps nest more than {DEEPEST_NESTING} deep")
    if isinstance(value, (list, tuple)):
        items = [_encode_item(item, depth + 1) for item in value]
        return _encode_head(MAJOR_ARRAY, len(items)) + b"".join(items)
    if isinstance(value, dict):
        pairs = sorted((_encode_key(key), _encode_item(item, depth + 1)) for key, item in value.items())
        return _encode_head(MAJOR_MAP, len(pairs)) + b"".join(key + item for key, item in pairs)
    raise WeirError("CBOR_INVALID", f"a {type(value).__name__} has no canonical encoding")


def _encode_head(major_type: int, argument: int) -> bytes:
    """The first bytes of an item: its major type, and its number or length in the fewest bytes."""
    if argument < 24:
        return bytes([(major_type << 5) | argument])
    for additional_information, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << (8 * size):
            return bytes([(major_type << 5) | additional_information]) + argument.to_bytes(size, "big")
    raise WeirError("CBOR_INVALID", "an integer needs more than 64 bits")


def _encode_text(text: str) -> bytes:
    try:
        utf8 = text.encode("utf-8")
    except UnicodeEncodeError:
        raise WeirError("CBOR_INVALID", "a text holds a lone surrogate, which UTF-8 cannot express") from None
    return _encode_head(MAJOR_TEXT, len(utf8)) + utf8


def _encode_key(key: Any) -> bytes:
    if not isinstance(key, str):
        raise WeirError("CBOR_INVALID", "a map key is not a text")
    return _encode_text(key)


# ---- Decoding ----------------------------------------------------------------------------------------------


def decode(data: bytes) -> Any:
    """The value of exactly one item; anything else, trailing bytes included, is CBOR_INVALID."""
    value, end = decode_first(data, 0)
    if end != len(data):
        _refuse(end, "bytes follow the value")
    return value


def decode_first(data: bytes, start: int) -> tuple[Any, int]:
    """The value of the item that begins at `start`, and the offset of the byte after it."""
    return _decode_item(data, start, enclosing=start, depth=0)


def _refuse(offset: int, reason: str) -> NoReturn:
    raise WeirError("CBOR_INVALID", f"{reason} (at byte {offset})", offset=offset)


def _decode_item(data: bytes, start: int, enclosing: int, depth: int) -> tuple[Any, int]:
    """One item at `start`. `enclosing` is where the array or map around it begins: if the input ends before
    the item has even begun, it is that one which is not complete."""
    if start == len(data):
        _refuse(enclosing, "the input ends too early")
    major_type = data[start] >> 5
    if major_type == MAJOR_SIMPLE:
        return _decode_simple(data, start)
    if major_type == MAJOR_TAG:
        _refuse(start, "a tag")
    argument, after_head = _decode_head(data, start)
    if major_type == MAJOR_UNSIGNED:
        return argument, after_head
    if major_type == MAJOR_NEGATIVE:
        return -1 - argument, after_head
    if major_type == MAJOR_BYTES:
        return _decode_string(data, start, argument, after_head)
    if major_type == MAJOR_TEXT:
        return _decode_text(data, start, argument, after_head)
    if depth == DEEPEST_NESTING:
        _refuse(start, f"arrays and maps nest more than {DEEPEST_NESTING} deep")
    if major_type == MAJOR_ARRAY:
        return _decode_array(data, start, argument, after_head, depth + 1)
    return _decode_map(data, start, argument, after_head, depth + 1)


def _decode_head(data: bytes, start: int) -> tuple[int, int]:
    """The number or length in an item's head, and the offset after the head."""
    additional_information = data[start] & 0x1F
    if additional_information < 24:
        return additional_information, start + 1
    if additional_information > 27:
        _refuse(start, "an indefinite length or a reserved form")
    size = 1 << (additional_information - 24)
    following = data[start + 1 : start + 1 + size]
    if len(following) < size:
        _refuse(start, "the input ends too early")
    argument = int.from_bytes(following, "big")
    smallest_that_needs_this_size = 24 if size == 1 else 1 << (4 * size)
    if argument < smallest_that_needs_this_size:
        _refuse(start, "a number that is not in its shortest form")
    return argument, start + 1 + size


def _decode_simple(data: bytes, start: int) -> tuple[Any, int]:
    first = data[start]
    if first == BYTE_FALSE or first == BYTE_TRUE:
        return first == BYTE_TRUE, start + 1
    if first == BYTE_NULL:
        return None, start + 1
    if first != BYTE_FLOAT64:
        _refuse(start, "a simple value or float that the profile has not")
    bits = data[start + 1 : start + 9]
    if len(bits) < 8:
        _refuse(start, "the input ends too early")
    (number,) = struct.unpack(">d", bits)
    if math.isnan(number) and bits != THE_ONLY_NAN:
        _refuse(start, "a NaN other than the canonical one")
    return number, start + 9


def _decode_string(data: bytes, start: int, size: int, after_head: int) -> tuple[bytes, int]:
    end = after_head + size
    if end > len(data):
        _refuse(start, "the input ends too early")
    return data[after_head:end], end


def _decode_text(data: bytes, start: int, size: int, after_head: int) -> tuple[str, int]:
    utf8, end = _decode_string(data, start, size, after_head)
    try:
        return utf8.decode("utf-8"), end
    except UnicodeDecodeError:
        _refuse(start, "a text that is not valid UTF-8")


def _decode_array(data: bytes, start: int, count: int, offset: int, depth: int) -> tuple[list[Any], int]:
    items: list[Any] = []
    while len(items) < count:
        item, offset = _decode_item(data, offset, start, depth)
        items.append(item)
    return items, offset


def _decode_map(data: bytes, start: int, count: int, offset: int, depth: int) -> tuple[dict[str, Any], int]:
    pairs: dict[str, Any] = {}
    previous_encoded_key = b""
    while len(pairs) < count:
        key_start = offset
        if key_start < len(data) and data[key_start] >> 5 != MAJOR_TEXT:
            _refuse(key_start, "a map key that is not a text")
        key, offset = _decode_item(data, key_start, start, depth)
        if data[key_start:offset] <= previous_encoded_key:
            _refuse(key_start, "a map key that is out of order or stands twice")
        previous_encoded_key = data[key_start:offset]
        pairs[key], offset = _decode_item(data, offset, start, depth)
    return pairs, offset
