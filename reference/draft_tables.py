"""What a draft of a schema looks at: the columns and tables of a database, and samples of their values.

Follows docs/spec/04-draft.md; draft.py makes the choices.
"""

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from . import time_format, timestamps, values
from .csv_files import CsvDatabase
from .database import Database
from .draft_names import Words, stem_of
from .values import Stored
from .xxh64 import xxh64

SAMPLE_SIZE = 16_384
LONGEST_KEY_TEXT = 64

Value = tuple[str, Any]  # a letter for its type, and what it is


# ---- Samples -----------------------------------------------------------------------------------------------


def value_of(stored: Stored) -> Value | None:
    """What makes two values the same; None for null."""
    if stored is None or isinstance(stored, float) and math.isnan(stored):
        return None
    if isinstance(stored, float) and -(2.0**63) <= stored < 2.0**63 and stored == math.floor(stored):
        return ("i", int(stored))
    return ({int: "i", float: "r", str: "t", bytes: "x"}[type(stored)], stored)


def hash_of(value: Value | tuple[Value, ...]) -> int:
    if value and isinstance(value[0], tuple):
        return xxh64(b"".join(hash_of(part).to_bytes(8, "little") for part in value))
    letter, content = value
    if letter == "i":
        data = (content & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little")
    elif letter == "r":
        data = values.double_bytes(content)
    else:
        data = content.encode("utf-8") if letter == "t" else content
    return xxh64(data, ord(letter))


class Sample:
    """The distinct values with the smallest hashes, each with its number of rows."""

    def __init__(self, found: Iterable[Any]) -> None:
        self.rows = Counter(found)
        self.level = 0
        if len(self.rows) <= SAMPLE_SIZE:
            return
        hashes = {value: hash_of(value) for value in self.rows}
        while sum(1 for value in hashes.values() if value < 1 << (64 - self.level)) > SAMPLE_SIZE:
            self.level += 1
        self.rows = Counter({v: n for v, n in self.rows.items() if hashes[v] < 1 << (64 - self.level)})

    def holds(self, value: Any) -> bool:
        """Whether a value belongs in the sample, if it occurs."""
        return self.level == 0 or hash_of(value) < 1 << (64 - self.level)

    def at(self, level: int) -> dict[Any, int]:
        if level == self.level:
            return self.rows
        return {value: n for value, n in self.rows.items() if hash_of(value) < 1 << (64 - level)}


def coverage(child: Sample, parent: Sample) -> float:
    level = max(child.level, parent.level)
    rows, keys = child.at(level), parent.at(level)
    matched = sum(count for value, count in rows.items() if value in keys)
    return matched / sum(rows.values()) if rows else 0.0


# ---- Columns and tables ------------------------------------------------------------------------------------


class Column:
    def __init__(self, name: str, declared: str, cells: list[Stored]) -> None:
        self.name, self.declared, self.words = name, declared, Words(name)
        self.cells = [None if value_of(cell) is None else cell for cell in cells]
        self.present = [cell for cell in self.cells if cell is not None]
        self.sample = Sample(value_of(cell) for cell in self.present)
        self.is_distinct = len(set(map(value_of, self.present))) == len(self.present)
        self.texts = [cell for cell in self.present if isinstance(cell, str)]
        self.any_space = any(" " in text for text in self.texts)
        self.any_long = any(len(text.encode("utf-8")) > LONGEST_KEY_TEXT for text in self.texts)
        self.kind, self.is_whole = self._kind()
        self.is_key = False
        self.stype = "ignored"
        self.unit: str | None = None
        self.format: str | None = None

    def _kind(self) -> tuple[str, bool]:
        types = {type(cell) for cell in self.present}
        if not types:
            return "nothing", False
        if bytes in types:
            return "blob", False
        if types == {int}:
            return "integer", False
        if types <= {int, float}:
            return "number", all(value_of(cell)[0] == "i" for cell in self.present)
        return ("text" if types == {str} else "mixed"), False

    @property
    def is_integral(self) -> bool:
        return self.kind == "integer" or self.is_whole

    @property
    def integers(self) -> list[int]:
        return [value_of(cell)[1] for cell in self.present]

    @property
    def is_short_text(self) -> bool:
        return self.kind == "text" and not self.any_long

    def is_like(self, other: "Column") -> bool:
        return self.is_integral and other.is_integral or self.kind == other.kind == "text"

    def has_few(self, most: int) -> bool:
        count = len(self.sample.rows)
        return self.sample.level == 0 and count <= most and len(self.present) >= 20 * count

    def micros(self, row: int) -> int | None:
        """The time of a cell, by the form that was found."""
        cell = self.cells[row]
        if cell is None:
            return None
        if self.format is not None:
            return time_format.from_pattern(self.format, str(value_of(cell)[1]))
        if self.unit is not None:
            return timestamps.from_integer(value_of(cell)[1], self.unit)
        return timestamps.from_text(cell) if isinstance(cell, str) else None


class ForeignKey:
    def __init__(self, columns: list[str], table: "Table", to: list[str], share: float) -> None:
        self.columns, self.table, self.to, self.coverage = columns, table, to, share


class Table:
    def __init__(self, database: Database | CsvDatabase, name: str) -> None:
        declared = database.tables[name]
        rows = database.rows(name, list(declared.columns))
        self.name, self.declared, self.stem, self.row_count = name, declared, stem_of(name), len(rows)
        self.columns = {c: Column(c, kind, [row[c] for row in rows]) for c, kind in declared.columns.items()}
        self.primary_key: list[str] = []
        self.keys: list[ForeignKey] = []
        self.time: Column | None = None
        self.time_key: ForeignKey | None = None

    def place(self, column: str) -> int:
        return list(self.columns).index(column)

    def values_of(self, columns: list[str]) -> list[Any]:
        """Row by row: the value of a column, or of several together; None where one is null."""
        lists = [[value_of(cell) for cell in self.columns[name].cells] for name in columns]
        if len(lists) == 1:
            return lists[0]
        return [None if None in together else together for together in zip(*lists)]

    def sample_of(self, columns: list[str]) -> Sample:
        return Sample(value for value in self.values_of(columns) if value is not None)

    @property
    def has_time(self) -> bool:
        return self.time is not None or self.time_key is not None
