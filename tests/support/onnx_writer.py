"""ONNX models for tests, written field by field in protobuf's wire format: enough of the published messages to make
graphs, and to break them."""

from typing import Iterable

FLOAT, UINT8, INT8, INT32, INT64, STRING, BOOL, FLOAT16, BFLOAT16 = 1, 2, 3, 6, 7, 8, 9, 10, 16


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def message(field: int, *parts: bytes | str) -> bytes:
    body = b"".join(part.encode() if isinstance(part, str) else part for part in parts)
    return varint(field << 3 | 2) + varint(len(body)) + body


def value_info(field: int, name: str, kind: int, shape: Iterable[int | str | None] | None) -> bytes:
    """An entry of a graph's input (11), output (12) or value_info (13). A text is a symbolic dimension, None an unknown
    one; a shape of None is no shape at all."""
    parts = [number(1, kind)]
    if shape is not None:
        dims = []
        for dim in shape:
            dims.append(
                message(1, number(1, dim) if isinstance(dim, int) else message(2, dim) if dim is not None else b"")
            )
        parts.append(message(2, *dims))
    return message(field, message(1, name), message(2, message(1, *parts)))


def initializer(name: str, kind: int, shape: Iterable[int], data: bytes = b"", packed: bool = False) -> bytes:
    dims = message(1, *map(varint, shape)) if packed else b"".join(number(1, dim) for dim in shape)
    return message(5, tensor(name, kind, dims, data))


def tensor(name: str, kind: int, dims: bytes, data: bytes = b"") -> bytes:
    return dims + number(2, kind) + message(8, name) + (message(9, data) if data else b"")


def attribute(name: str, *parts: bytes) -> bytes:
    return message(5, message(1, name), *parts)


def node(
    op: str, inputs: Iterable[str], outputs: Iterable[str], name: str = "", *parts: bytes, domain: str = ""
) -> bytes:
    body = [message(1, text) for text in inputs] + [message(2, text) for text in outputs]
    if name:
        body.append(message(3, name))
    body.append(message(4, op))
    body.extend(parts)
    if domain:
        body.append(message(7, domain))
    return message(1, *body)


def model(*fields: bytes, name: str = "g") -> bytes:
    graph = message(7, message(2, name), *fields)
    return number(1, 8) + message(2, "tests") + graph + message(8, number(2, 17))
