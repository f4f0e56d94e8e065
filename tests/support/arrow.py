"""Tables in Arrow's C stream interface, made by hand with ctypes: for tests where pyarrow is not installed. Each
column says its format and its values; a table hands them out in batches of any sizes, each with junk before it."""

import ctypes
import random
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any


class ArrowSchema(ctypes.Structure):
    pass


class ArrowArray(ctypes.Structure):
    pass


class ArrowArrayStream(ctypes.Structure):
    pass


RELEASE_SCHEMA = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowSchema))
RELEASE_ARRAY = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArray))
RELEASE_STREAM = ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowArrayStream))
GET_SCHEMA = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowSchema))
GET_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ArrowArrayStream), ctypes.POINTER(ArrowArray))
LAST_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ArrowArrayStream))

ArrowSchema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p), ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64), ("children", ctypes.POINTER(ctypes.POINTER(ArrowSchema))),
    ("dictionary", ctypes.POINTER(ArrowSchema)), ("release", RELEASE_SCHEMA), ("private_data", ctypes.c_void_p),
]  # fmt: skip
ArrowArray._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64), ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(ArrowArray))), ("dictionary", ctypes.POINTER(ArrowArray)),
    ("release", RELEASE_ARRAY), ("private_data", ctypes.c_void_p),
]  # fmt: skip
ArrowArrayStream._fields_ = [
    ("get_schema", GET_SCHEMA), ("get_next", GET_NEXT), ("get_last_error", LAST_ERROR), ("release", RELEASE_STREAM),
    ("private_data", ctypes.c_void_p),
]  # fmt: skip

NUMBERS = {"c": "b", "C": "B", "s": "h", "S": "H", "i": "i", "I": "I", "l": "q", "L": "Q", "e": "e", "f": "f", "g": "d",
           "tdD": "i", "tdm": "q", "tts": "i", "ttm": "i", "ttu": "q", "ttn": "q"}  # fmt: skip


@dataclass
class Column:
    """Values are None or what the format holds: numbers, bool, str, bytes, Decimal; times as numbers of their unit.
    With `dictionary`, they are values of that format, and `format` is that of the indices."""

    name: str
    format: str
    values: Sequence[Any]
    dictionary: str | None = None


# ---- Buffers -------------------------------------------------------------------------------------------------


def _bits(flags: Sequence[bool]) -> bytes:
    packed = bytearray((len(flags) + 7) // 8 + 1)
    for i, flag in enumerate(flags):
        packed[i // 8] |= bool(flag) << i % 8
    return bytes(packed)


def _decimal(value: Decimal, format: str) -> bytes:
    _, scale, *bits = (int(part) for part in format[2:].split(","))
    unscaled = int(value.scaleb(scale).to_integral_exact())
    return unscaled.to_bytes((bits[0] if bits else 128) // 8, "little", signed=True)


def _views(values: Sequence[bytes]) -> list[bytes]:
    views, long = b"", b""
    for value in values:
        if len(value) <= 12:
            views += struct.pack("<i12s", len(value), value)
        else:
            views += struct.pack("<i4sii", len(value), value[:4], 0, len(long))
            long += value
    return [views, long, struct.pack("<q", len(long))] if long else [views, b""]


def buffers(format: str, values: Sequence[Any]) -> list[bytes | None]:
    """All of an array's buffers, the validity bitmap first (None if nothing is null)."""
    if format == "n":
        return []
    validity = _bits([value is not None for value in values]) if None in values else None
    if format == "b":
        return [validity, _bits([bool(value) for value in values])]
    if format in NUMBERS or format[:3] in ("tss", "tsm", "tsu", "tsn") or format[:2] == "tD":
        return [validity, struct.pack(f"={len(values)}{NUMBERS.get(format, 'q')}", *(value or 0 for value in values))]
    if format[:2] == "d:":
        return [validity, b"".join(_decimal(Decimal(value or 0), format) for value in values)]
    blobs = [b"" if value is None else value.encode() if isinstance(value, str) else value for value in values]
    if format[:2] == "w:":
        return [validity, b"".join(blob.ljust(int(format[2:]), b"\0") for blob in blobs)]
    if format in ("vu", "vz"):
        return [validity, *_views(blobs)]
    ends = [0]
    for blob in blobs:
        ends.append(ends[-1] + len(blob))
    return [validity, struct.pack(f"={len(ends)}{'i' if format in 'uz' else 'q'}", *ends), b"".join(blobs)]


# ---- A table -------------------------------------------------------------------------------------------------


class Table:
    """Speaks `__arrow_c_stream__`, each time anew. `opened` counts streams, `live` the batches that nobody released."""

    def __init__(self, columns: Sequence[Column], batch_sizes: Sequence[int] = (), seed: int = 0) -> None:
        self.columns = columns
        self.rows = len(columns[0].values)
        self.batch_sizes = list(batch_sizes) or [self.rows]
        self.rng = random.Random(seed)
        self.opened = self.live = 0
        self.num_rows = self.rows
        self._kept: list[Any] = []

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        self.opened += 1
        state = {"row": 0, "turn": 0}

        def get_schema(_: Any, out: Any) -> int:
            self._fill_schema(out.contents, "+s", "", [
                self._schema(c.format, c.name, c.dictionary) for c in self.columns])  # fmt: skip
            return 0

        def get_next(_: Any, out: Any) -> int:
            if state["row"] >= self.rows:
                ctypes.memset(out, 0, ctypes.sizeof(ArrowArray))
                return 0
            size = min(self.batch_sizes[state["turn"] % len(self.batch_sizes)], self.rows - state["row"])
            self._fill_batch(out.contents, state["row"], size)
            state["row"] += size
            state["turn"] += 1
            return 0

        def release(stream: Any) -> None:
            stream.contents.release = RELEASE_STREAM()

        stream = ArrowArrayStream(GET_SCHEMA(get_schema), GET_NEXT(get_next), LAST_ERROR(lambda _: None), RELEASE_STREAM(release))
        self._kept.append(stream)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(stream), b"arrow_array_stream", None)

    def _schema(self, format: str, name: str, dictionary: str | None = None) -> ArrowSchema:
        schema = ArrowSchema()
        self._fill_schema(schema, format, name, [])
        if dictionary:
            schema.dictionary = ctypes.pointer(self._schema(dictionary, ""))
        return schema

    def _fill_schema(self, out: ArrowSchema, format: str, name: str, children: list[ArrowSchema]) -> None:
        def release(schema: Any) -> None:
            schema.contents.release = RELEASE_SCHEMA()

        pointers = (ctypes.POINTER(ArrowSchema) * max(len(children), 1))(*(ctypes.pointer(child) for child in children))
        out.format, out.name, out.metadata, out.flags = format.encode(), name.encode(), None, 2
        out.n_children, out.children, out.dictionary = len(children), pointers, None
        out.release, out.private_data = RELEASE_SCHEMA(release), None
        self._kept += [pointers, children, out.release]

    def _array(self, format: str, values: Sequence[Any], offset: int) -> ArrowArray:
        array = ArrowArray()
        given = buffers(format, values)
        held = [None if data is None else ctypes.create_string_buffer(data, max(len(data), 1)) for data in given]
        pointers = (ctypes.c_void_p * max(len(held), 1))(*(ctypes.addressof(data) if data else None for data in held))
        array.length, array.offset = len(values) - offset, offset
        array.null_count = self.rng.choice([-1, sum(value is None for value in values[offset:])])
        array.n_buffers, array.buffers = len(held), pointers
        self._kept += [held, pointers, array]
        return array

    def _column(self, column: Column, first: int, count: int) -> ArrowArray:
        junk = self.rng.randrange(4)
        values = [*self.rng.choices(column.values, k=junk), *column.values[first : first + count]]
        if column.dictionary is None:
            return self._array(column.format, values, junk)
        entries = list(dict.fromkeys(value for value in column.values if value is not None))
        self.rng.shuffle(entries)
        places = {value: place for place, value in enumerate(entries)}
        array = self._array(column.format, [None if v is None else places[v] for v in values], junk)
        array.dictionary = ctypes.pointer(self._array(column.dictionary, entries, 0))
        return array

    def _fill_batch(self, out: ArrowArray, first: int, count: int) -> None:
        def release(array: Any) -> None:
            self.live -= 1
            array.contents.release = RELEASE_ARRAY()

        children = [self._column(column, first, count) for column in self.columns]
        pointers = (ctypes.POINTER(ArrowArray) * len(children))(*(ctypes.pointer(child) for child in children))
        nothing = (ctypes.c_void_p * 1)(None)
        out.length, out.null_count, out.offset, out.n_buffers, out.n_children = count, 0, 0, 1, len(children)
        out.buffers, out.children, out.dictionary = nothing, pointers, None
        out.release, out.private_data = RELEASE_ARRAY(release), None
        self._kept += [children, pointers, nothing, out.release]
        self.live += 1
