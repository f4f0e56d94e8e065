"""Runs of rows, as the specification's part "Runs of rows" says it: files of sorted rows, and the list of a folder of them.

A value of a row is None, int, float, str, bytes, bool, or Time. A reader checks everything that it could."""

import math
import re
import struct
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from . import cbor, strict_json
from .blake3 import plain_hash
from .errors import WeirError

FORMAT, MAGIC = "weir-run/1", b"weir-run"
TYPES = ("nothing", "boolean", "time", "date", "integer", "real", "numeric", "text", "blob", "enum")
HEAD = 36


class Time(NamedTuple):
    """Microseconds since 1970-01-01 UTC, of a date or time type."""

    micros: int


Row = list[Any]


@dataclass
class Table:
    name: str
    columns: list[list[str]]
    key: list[str]
    files: list[dict[str, Any]]
    sql: str | None = None

    def header(self) -> bytes:
        return cbor.encode({"format": FORMAT, "table": self.name, "columns": self.columns, "key": self.key})

    def key_of(self, row: Row) -> Row:
        names = [name for name, _ in self.columns]
        return [row[names.index(name)] for name in self.key]


def order(key: Row) -> list[Any]:
    """What keys are compared by."""
    return [_order_of(value) for value in key]


def _order_of(value: Any) -> tuple[int, Any]:
    if value is None or isinstance(value, float) and math.isnan(value):
        return 0, 0
    if isinstance(value, Time):
        return 1, Fraction(value.micros)
    if isinstance(value, float) and math.isinf(value):
        return 1, value
    if isinstance(value, (bool, int, float)):
        return 1, Fraction(value)
    return (2, value.encode()) if isinstance(value, str) else (3, value)


# ---- Writing -------------------------------------------------------------------------------------------------


def write(table: Table, rows: list[Row], frame_rows: int = 100) -> tuple[bytes, dict[str, Any]]:
    """A file of rows, which are sorted, and what the list says of it (without its path)."""
    keys = [table.key_of(row) for row in rows] if table.key else []
    end = {"first": keys[0] if keys else None, "last": keys[-1] if keys else None, "rows": len(rows)}
    frames = [table.header()]
    for start in range(0, len(rows), frame_rows):
        frames.append(b"".join(cbor.encode(_plain(row)) for row in rows[start : start + frame_rows]))
    frames.append(cbor.encode({name: _plain(value) for name, value in end.items()}))
    heads = [struct.pack("<I", len(frame)) + plain_hash(frame) for frame in frames]
    data = MAGIC + b"".join(head + frame for head, frame in zip(heads, frames)) + struct.pack("<I", len(frames[-1]))
    return data, {"rows": len(rows), "size": len(data), "hash": plain_hash(b"".join(heads)).hex()}


def _plain(value: Any) -> Any:
    """Times as CBOR has them."""
    if isinstance(value, Time):
        return [value.micros]
    return [_plain(item) for item in value] if isinstance(value, list) else value


# ---- Reading -------------------------------------------------------------------------------------------------


def read_folder(folder: Path) -> tuple[str, dict[str, tuple[Table, list[Row]]], dict[str, tuple[Table, list[Row]]]]:
    """The name, and tables and queries (by their SQL) with their rows: those of a table with a key in its order."""
    path = folder / "row-runs.json"
    if not path.exists():
        _refuse(path, "there is no list")
    name, tables = read_list(path)
    found: tuple[dict[str, Any], dict[str, Any]] = {}, {}
    for table in tables:
        rows: list[Row] = []
        for file in table.files:
            rows += read(table, file, folder / file["path"])
        rows.sort(key=lambda row: order(table.key_of(row)))
        found[table.sql is not None][table.sql or table.name] = table, rows
    return name, *found


def read_list(path: Path) -> tuple[str, list[Table]]:
    document = strict_json.read(path.read_text(), "SOURCE_ERROR")
    optional = {"queries", "store"}
    _require(path, isinstance(document, dict) and set(document) | optional == {"format", "name", "tables"} | optional, "its keys")
    _require(path, document["format"] == FORMAT, "its format")
    _require(path, _is_text(document["name"]), "its name")
    _require(path, "store" not in document or _is_hash(document["store"]), "its store")
    parts = document["tables"], document.get("queries", {})
    _require(path, all(isinstance(part, dict) for part in parts) and len(parts[0]) > 0, "its tables")
    tables = [_table(path, name, value, {"columns", "key", "files"}, {"latest"}) for name, value in parts[0].items()]
    queries = [_table(path, name, value, {"sql", "columns", "key", "files"}) for name, value in parts[1].items()]
    _require(path, len({table.sql for table in queries}) == len(queries) <= 4096, "its queries")
    names = [file["path"] for table in tables + queries for file in table.files]
    _require(path, len(set(names)) == len(names), "a file that is named twice")
    return document["name"], tables + queries


def _table(path: Path, name: str, value: Any, keys: set[str], optional: set[str] = set()) -> Table:
    _require(path, _is_text(name) and isinstance(value, dict) and keys <= set(value) <= keys | optional, "a table")
    _require(path, "sql" not in keys or _is_text(value["sql"]), "the sql of a query")
    columns, key, files = value["columns"], value["key"], value["files"]
    _require(path, isinstance(columns, list) and all(_is_column(column) for column in columns), "the columns of a table")
    names = [column[0] for column in columns]
    _require(path, 0 < len(names) <= 32768 and len(set(names)) == len(names), "the columns of a table")
    _require(path, isinstance(key, list) and all(name in names for name in key) and len(set(key)) == len(key), "a key")
    _require(path, isinstance(files, list) and all(_is_file(file) for file in files), "the files of a table")
    if "latest" in value:
        _require(path, _is_latest(path, value["latest"], names), "the latest of a table")
    return Table(name, columns, key, files, value.get("sql"))


def _is_latest(path: Path, value: Any, names: list[str]) -> bool:
    """What ingest notes of rows that it keeps (the specification's part "Growing data")."""
    if not isinstance(value, dict) or set(value) != {"column", "value"} or value["column"] not in names:
        return False
    latest = _value(path, value["value"])
    if isinstance(latest, str):
        return len(latest.encode()) <= 1000 and "\0" not in latest
    return latest is None or isinstance(latest, Time) or type(latest) is int


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch("[0-9A-Fa-f]{64}", value) is not None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_column(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_text(value[0]) and value[1] in TYPES


def _is_file(value: Any) -> bool:
    return (
        isinstance(value, dict) and set(value) == {"path", "rows", "size", "hash"}
        and isinstance(value["path"], str) and re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}", value["path"]) is not None
        and all(type(value[name]) is int and value[name] >= 0 for name in ("rows", "size"))
        and _is_hash(value["hash"])
    )  # fmt: skip


def read(table: Table, file: dict[str, Any], path: Path) -> list[Row]:
    """The rows of a file that the list names."""
    _require(path, path.exists(), "it is not there")
    data = path.read_bytes()
    _require(path, len(data) == file["size"] and len(data) >= 12 and data[:8] == MAGIC, "its size or beginning")
    frames, heads, at = [], b"", 8
    while at < len(data) - 4:
        size = int.from_bytes(data[at : at + 4], "little")
        _require(path, 1 <= size <= min(2**30, len(data) - 4 - at - HEAD), "the size of a frame")
        frame = data[at + HEAD : at + HEAD + size]
        _require(path, data[at + 4 : at + HEAD] == plain_hash(frame), "the hash of a frame")
        frames.append(frame)
        heads += data[at : at + HEAD]
        at += HEAD + size
    _require(path, len(frames) >= 2 and frames[0] == table.header(), "its header")
    _require(path, int.from_bytes(data[-4:], "little") == len(frames[-1]), "its last bytes")
    _require(path, plain_hash(heads).hex() == file["hash"].lower(), "its hash")
    rows = [row for frame in frames[1:-1] for row in _rows(path, table, frame)]
    keys = [table.key_of(row) for row in rows] if table.key else []
    _require(path, all(order(a) <= order(b) for a, b in zip(keys, keys[1:])), "the order of its rows")
    end = {"first": keys[0] if keys else None, "last": keys[-1] if keys else None, "rows": len(rows)}
    _require(path, frames[-1] == cbor.encode({name: _plain(value) for name, value in end.items()}), "its end")
    _require(path, len(rows) == file["rows"], "its number of rows")
    return rows


def _rows(path: Path, table: Table, frame: bytes) -> list[Row]:
    rows, at = [], 0
    while at < len(frame):
        try:
            item, at = cbor.decode_first(frame, at)
        except WeirError:
            _refuse(path, "a row")
        _require(path, isinstance(item, list) and len(item) == len(table.columns), "a row")
        rows.append([_value(path, value) for value in item])
    return rows


def _value(path: Path, value: Any) -> Any:
    if isinstance(value, list):
        _require(path, len(value) == 1 and type(value[0]) is int and -(2**63) <= value[0] < 2**63, "a time")
        return Time(value[0])
    _require(path, not isinstance(value, dict), "a value")
    _require(path, type(value) is not int or -(2**63) <= value < 2**63, "an integer")
    return value


def _require(path: Path, holds: bool, what: str) -> None:
    if not holds:
        _refuse(path, what)


def _refuse(path: Path, what: str) -> NoReturn:
    raise WeirError("SOURCE_ERROR", f"{path} is refused for {what}")
