"""A draft of a schema, from what a database declares and holds.

Follows docs/spec/04-draft.md, section by section; the reasons for each choice are the program's own.
"""

import math
from collections import Counter
from collections.abc import Iterable
from itertools import combinations
from typing import Any

from . import time_format, timestamps, values
from .csv_files import CsvDatabase
from .database import BLOB, BOOLEAN, TIME, Database
from .draft_names import (
    BIRTH_WORDS, CHANGE_WORDS, FUTURE_WORDS, GENERIC_NAMES, ID_WORDS, KEY_WORDS, LATE_WORDS, MEASURELESS_WORDS, Words,
    stem_of,
)  # fmt: skip
from .values import Stored
from .xxh64 import xxh64

SAMPLE_SIZE = 16_384
MOST_PAIRS = 65_536
LONGEST_KEY_TEXT = 64
MICROS_PER_DAY = 86_400_000_000
YEAR_1990, YEAR_2100 = 631_152_000, 4_102_444_800
DATES = ("%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y")
PATTERNS = [
    "%Y-%m-%dT%H:%M:%S.%f%z", "%Y-%m-%d %H:%M:%S.%f%z", "%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%d %H:%M:%S.%f",
    "%Y-%m-%d %H:%M:%S %z", *(date + clock for date in DATES for clock in ("", " %H:%M", " %H:%M:%S")),
    "%m/%d/%Y %I:%M %p", "%m/%d/%Y %I:%M:%S %p", "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%b %d, %Y",
    "%a %b %d %H:%M:%S %z %Y", "%a, %d %b %Y %H:%M:%S %z", "%Y%m%d",
]  # fmt: skip

Json = Any
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


# ---- Primary keys ------------------------------------------------------------------------------------------


def _find_primary_key(table: Table, tables: list[Table]) -> list[str]:
    if table.declared.primary_key:
        return list(table.declared.primary_key)
    ranked = [(_key_rank(table, column), column.name) for column in table.columns.values()]
    ranked = [(rank, name) for rank, name in ranked if rank and (table.row_count > 1 or rank == 1)]
    if table.row_count and ranked:
        return [min(ranked, key=lambda item: item[0])[1]]
    if table.row_count < 2:
        return []
    others = {c.words.joined for other in tables if other is not table for c in other.columns.values()}
    parts = [
        column.name
        for column in table.columns.values()
        if (column.is_integral or column.is_short_text)
        and (column.words.last in ID_WORDS or column.words.joined in others)
        and len(column.present) == table.row_count
    ][:6]
    for size in (2, 3):
        for chosen in combinations(parts, size):
            if len(set(table.values_of(list(chosen)))) == table.row_count:
                return list(chosen)
    return []


def _key_rank(table: Table, column: Column) -> int:
    is_fit = column.is_integral or column.is_short_text and not column.any_space
    if not is_fit or not column.is_distinct or len(column.present) < table.row_count or not column.present:
        return 0
    joined = column.words.joined
    if joined == table.stem.joined or column.words.are_key_of(table.stem):
        return 1
    if joined in ("id", "uuid", "guid", "key", "pk", "oid"):
        return 1
    if column.words.last in KEY_WORDS:
        return 2
    is_dense = column.is_integral and max(column.integers) - min(column.integers) == table.row_count - 1
    return 3 if table.place(column.name) == 0 and (column.kind == "text" or is_dense) else 0


# ---- Foreign keys ------------------------------------------------------------------------------------------


class KeyFinder:
    def __init__(self, tables: list[Table]) -> None:
        self.tables = tables
        self.any_declared = any(table.declared.foreign_keys for table in tables)

    def run(self) -> None:
        by_name = {table.name: table for table in self.tables}
        for table in self.tables:
            for key in table.declared.foreign_keys:
                table.keys.append(ForeignKey(key.columns, by_name[key.table], key.to, 1.0))
        for table in self.tables:
            for column in table.columns.values():
                if not any(column.name in key.columns for key in table.keys):
                    self._find_single(table, column)
        for table in self.tables:
            for parent in self.tables:
                self._find_joint(table, parent)
        for table in self.tables:
            table.keys.sort(key=lambda key: [table.place(column) for column in key.columns])
            for key in table.keys:
                for column in key.columns:
                    table.columns[column].is_key = True
                for column in key.to:
                    key.table.columns[column].is_key = True

    def _find_single(self, table: Table, column: Column) -> None:
        possible = []
        for parent in self.tables:
            kind, share = self._class(table, column, parent)
            if kind and not self._is_other_way_round(table, column, parent):
                possible.append((kind, -share, parent.name.encode("utf-8"), parent))
        if not possible:
            return
        kind, share, _, parent = min(possible, key=lambda item: item[:3])
        if kind == 7 and len(possible) > 1:
            return
        table.keys.append(ForeignKey([column.name], parent, [parent.primary_key[0]], -share))

    def _class(self, table: Table, column: Column, parent: Table) -> tuple[int, float]:
        if len(parent.primary_key) != 1 or not column.is_like(parent.columns[parent.primary_key[0]]):
            return 0, 0.0
        is_whole = table.primary_key == [column.name]
        if parent is table:
            kind = 6 if column.words.are_self() and not is_whole else 0
        else:
            kind = self._class_by_name(column.words, parent)
            is_code = column.kind == "text" and len(column.sample.rows) >= 3
            if not kind and is_code and not column.any_long and not column.any_space:
                kind = 7
        if not kind or kind > 3 and self.any_declared:
            return 0, 0.0
        if is_whole and (kind > 2 or column.words.are_key_of(table.stem)):
            return 0, 0.0
        share = coverage(column.sample, parent.columns[parent.primary_key[0]].sample)
        return (kind, share) if share >= (0.5 if kind <= 3 else 0.9) else (0, 0.0)

    @staticmethod
    def _class_by_name(words: Words, parent: Table) -> int:
        key, stem = parent.columns[parent.primary_key[0]].words, parent.stem
        is_generic = key.joined in GENERIC_NAMES
        if not is_generic and words.joined == key.joined:
            return 1
        if words.are_key_of(stem):
            return 2
        ends_like_stem = words.last in KEY_WORDS and stem.list and words.end_in([*stem.list, words.last])
        if not is_generic and words.end_in(key.list) or ends_like_stem:
            return 3
        if stem.joined and words.joined == stem.joined:
            return 4
        return 5 if words.end_in(stem.list) else 0

    def _is_other_way_round(self, table: Table, column: Column, parent: Table) -> bool:
        if table.primary_key != [column.name]:
            return False
        if not self._class(parent, parent.columns[parent.primary_key[0]], table)[0]:
            return False
        if parent.row_count != table.row_count:
            return parent.row_count < table.row_count
        return self.tables.index(parent) > self.tables.index(table)

    @staticmethod
    def _find_joint(table: Table, parent: Table) -> None:
        if parent is table or len(parent.primary_key) not in (2, 3) or any(k.table is parent for k in table.keys):
            return
        columns = []
        for name in parent.primary_key:
            wanted = parent.columns[name]
            alike = [c for c in table.columns.values() if c.words.joined == wanted.words.joined and c.is_like(wanted)]
            if not alike:
                return
            columns.append(alike[0].name)
        if set(columns) <= set(table.primary_key):
            return
        share = coverage(table.sample_of(columns), parent.sample_of(parent.primary_key))
        if share >= 0.5:
            table.keys.append(ForeignKey(columns, parent, list(parent.primary_key), share))


# ---- Semantic types ----------------------------------------------------------------------------------------


def _decide_type(column: Column, stems: list[Words]) -> str:
    if column.is_key:
        return _key_type(column)
    if not column.present:
        return "ignored"
    is_blob = column.kind == "blob" or column.declared == BLOB
    if (column.kind == "text" or is_blob) and column.words.are_secret() or is_blob:
        return "ignored"
    if column.declared == BOOLEAN and _all_read_as_boolean(column.present):
        return "boolean"
    if column.is_integral:
        return _integer_type(column, stems)
    if column.kind == "number":
        return "numerical"
    return _text_type(column)


def _key_type(column: Column) -> str:
    """A key is presence alone, unless it is a time."""
    if column.is_integral and (column.declared == TIME or column.words.say_time()):
        return "timestamp" if _is_integer_time(column) else "identifier"
    if column.kind == "text" and _is_text_time(column) is True:
        return "timestamp"
    return "identifier"


def _all_read_as_boolean(present: list[Stored]) -> bool:
    try:
        return all(values.as_boolean(value) is not None for value in present)
    except values.Unfit:
        return False


def _is_integer_time(column: Column) -> bool:
    integers = column.integers
    says_time = column.declared == TIME or column.words.say_time()
    is_many = column.sample.level > 0 or len(column.sample.rows) >= 20
    if (says_time or is_many) and all(_is_date(number) for number in integers):
        column.format = "%Y%m%d"
        return True
    for unit, factor in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        if says_time and YEAR_1990 * factor <= min(integers) and max(integers) <= YEAR_2100 * factor:
            column.unit = unit
            return True
    return False


def _integer_type(column: Column, stems: list[Words]) -> str:
    integers = column.integers
    if _is_integer_time(column):
        return "timestamp"
    if min(integers) == 0 and max(integers) == 1:
        return "boolean"
    joined = column.words.joined
    if column.words.last in ID_WORDS or any(s.joined and joined.endswith(s.joined + "id") for s in stems):
        return "categorical" if column.has_few(50) else "identifier"
    return "categorical" if column.kind == "integer" and column.has_few(50) else "numerical"


def _is_date(number: int) -> bool:
    return 19000101 <= number <= 21001231 and time_format.from_pattern("%Y%m%d", str(number)) is not None


def _is_text_time(column: Column) -> bool | None:
    """Whether all texts are times; None where day and month cannot be told apart."""
    if all(timestamps.from_text(text) is not None for text in column.texts):
        return True
    fitting = PATTERNS
    for text in column.texts:
        fitting = [pattern for pattern in fitting if time_format.from_pattern(pattern, text) is not None]
    if any(len(other) == len(fitting[0]) and "b" not in other for other in fitting[1:]):
        return None
    column.format = fitting[0] if fitting else None
    return bool(fitting)


def _text_type(column: Column) -> str:
    if column.kind == "text":
        is_time = _is_text_time(column)
        if is_time is not False:
            return "timestamp" if is_time else "ignored"
        words = {text.lower() if text.isascii() else text for text in column.texts}
        if words <= {"true", "false"} or words in ({"t", "f"}, {"yes", "no"}):
            return "boolean"
    if column.has_few(100):
        return "categorical"
    if column.is_distinct and not column.any_space and column.words.may_be_identifier():
        return "identifier"
    return "text"


# ---- Row times ---------------------------------------------------------------------------------------------


def _is_forbidden(words: Words) -> bool:
    return any(words.have(list_) for list_ in (BIRTH_WORDS, CHANGE_WORDS, FUTURE_WORDS))


def _candidates(table: Table) -> list[Column]:
    """In order of preference; at most 8."""
    times = [column for column in table.columns.values() if column.stype == "timestamp"]
    found = [
        column
        for column in times
        if not _is_forbidden(column.words)
        and column.words.sound_like_row_time()
        and 2 * len(column.present) >= table.row_count
    ]
    late = [column for column in found if column.words.have(LATE_WORDS)]
    early = [column for column in found if column not in late][:8]
    late = late[: 8 - len(early)]
    if not found:
        is_only = len(times) == 1 and len(times[0].present) == table.row_count
        return times if is_only and not _is_forbidden(times[0].words) else []
    return _earliest_first(table, early) + _earliest_first(table, late)


def _earliest_first(table: Table, group: list[Column]) -> list[Column]:
    rows = range(table.row_count)
    times = {column.name: [column.micros(row) for row in rows] for column in group}
    for column in group:
        is_earliest = True
        for other in group:
            pairs = [(a, b) for a, b in zip(times[column.name], times[other.name]) if None not in (a, b)]
            is_earliest = is_earliest and 10 * sum(a > b for a, b in pairs) <= len(pairs)
        if is_earliest:
            return [column] + [other for other in group if other is not column]
    return group


def _row_times(table: Table) -> list[int | None]:
    """The row's time, its own or through keys, of every row."""
    if table.time is not None:
        return [table.time.micros(row) for row in range(table.row_count)]
    if table.time_key is None:
        return [None] * table.row_count
    by_key = _times_by_key(table.time_key.table, table.time_key.to, _row_times(table.time_key.table))
    return [by_key.get(value) for value in table.values_of(table.time_key.columns)]


def _times_by_key(table: Table, key: list[str], times: list[int | None]) -> dict[Any, int | None]:
    """Of the rows whose key is in its sample."""
    sample = table.sample_of(key)
    found: dict[Any, int | None] = {}
    for value, time in zip(table.values_of(key), times):
        if value is not None and sample.holds(value):
            found.setdefault(value, time)
    return found


def _is_late(tables: list[Table], table: Table, times: list[int | None]) -> bool:
    """Whether these times of a table's rows are later than rows that refer to them."""
    for child in tables:
        for key in child.keys:
            if child is table or child.time is None or key.table is not table:
                continue
            by_key = _times_by_key(table, key.to, times)
            both = late = 0
            for value, time in zip(child.values_of(key.columns), _row_times(child)):
                parent = by_key.get(value)
                if time is not None and parent is not None:
                    both += 1
                    late += parent > time
            if 2 * late > both:
                return True
    return False


def _in_turn(tables: list[Table], before: Any) -> Iterable[Table]:
    """Each table after all that must come before it, else the first that is left."""
    left = list(tables)
    while left:
        ready = [t for t in left if not any(other is not t and before(other, t) for other in left)]
        chosen = (ready or left)[0]
        left.remove(chosen)
        yield chosen


def _refers(child: Table, parent: Table) -> bool:
    return any(key.table is parent for key in child.keys)


def _settle_times(tables: list[Table]) -> None:
    has_late_time = set()
    for table in _in_turn(tables, _refers):
        candidates = _candidates(table)
        for column in candidates:
            if not _is_late(tables, table, [column.micros(row) for row in range(table.row_count)]):
                table.time = column
                break
        if candidates and table.time is None:
            has_late_time.add(table.name)
    for table in _in_turn(tables, lambda other, t: _refers(t, other)):
        if table.time is not None or table.row_count == 0 or table.name in has_late_time:
            continue
        keys = [key for key in table.keys if _counts_as_time(table, key)]
        keys = [key for key in keys if not any(_hides(other, key) for other in keys if other is not key)]
        if len(keys) == 1:
            table.time_key = keys[0]
            if _is_late(tables, table, _row_times(table)):
                table.time_key = None


def _counts_as_time(table: Table, key: ForeignKey) -> bool:
    values_there = min(len(table.columns[column].present) for column in key.columns)
    has_few_nulls = 10 * (table.row_count - values_there) <= table.row_count
    return key.table is not table and key.table.has_time and key.coverage >= 0.9 and has_few_nulls


def _hides(other: ForeignKey, key: ForeignKey) -> bool:
    if other.table is key.table:
        return False
    return _reaches(other.table, key.table) and not _reaches(key.table, other.table)


def _reaches(start: Table, end: Table) -> bool:
    reached, open_tables = [start], [start]
    while open_tables:
        for key in open_tables.pop().keys:
            if not any(key.table is table for table in reached):
                reached.append(key.table)
                open_tables.append(key.table)
    return any(table is end for table in reached)


# ---- Tasks -------------------------------------------------------------------------------------------------


def _find_tasks(tables: list[Table]) -> list[tuple[Table, Column]]:
    large = [table for table in tables if table.row_count >= 20]
    timed = [table for table in large if table.has_time]
    for group in ([table for table in timed if table.keys], timed, [t for t in large if t not in timed]):
        tasks: list[tuple[Table, Column]] = []
        for table in sorted(group, key=lambda t: (-t.row_count, t.name.encode("utf-8"))):
            columns = [
                column
                for stype in ("boolean", "categorical", "numerical")
                for column in table.columns.values()
                if column.stype == stype and _can_be_task(table, column)
            ]
            tasks += [(table, column) for column in columns[:2]]
        if tasks:
            return tasks[:6]
    return []


def _can_be_task(table: Table, column: Column) -> bool:
    if column.is_key or 2 * (table.row_count - len(column.present)) > table.row_count:
        return False
    if len(column.sample.rows) < 2 and column.sample.level == 0 or column.words.last in MEASURELESS_WORDS:
        return False
    is_row_number = column.is_integral and all(count == 1 for count in column.sample.rows.values())
    return not (column.stype == "numerical" and is_row_number)


def _gives_away(column: Column, target: Column) -> bool:
    counts = target.sample.rows.values()
    if column.is_key or column.stype == "ignored" or 100 * max(counts) > 95 * sum(counts):
        return False
    pairs: Counter[tuple[Value, Value]] = Counter()
    for own, other in zip(column.cells, target.cells):
        if own is not None and other is not None and column.sample.holds(value_of(own)):
            pairs[(value_of(own), value_of(other))] += 1
    if not pairs or len(pairs) > MOST_PAIRS:
        return False
    best: dict[Value, int] = {}
    for (own, _), count in pairs.items():
        best[own] = max(best.get(own, 0), count)
    rows = sum(pairs.values())
    return rows >= 5 * len(best) and 100 * sum(best.values()) >= 99 * rows


def _split(table: Table) -> tuple[int, int] | None:
    times = Sample(("i", time) for time in _row_times(table) if time is not None)
    if len(times.rows) < 10:
        return None
    ordered = sorted((value[1], count) for value, count in times.rows.items())
    total, seen, cuts = sum(times.rows.values()), 0, []
    for time, count in ordered:
        seen += count
        while len(cuts) < 2 and 10 * seen >= (8 + len(cuts)) * total:
            cuts.append(time + 1)
    if ordered[-1][0] - ordered[0][0] >= 30 * MICROS_PER_DAY:
        cuts = [-(-cut // MICROS_PER_DAY) * MICROS_PER_DAY for cut in cuts]
    return (cuts[0], cuts[1]) if cuts[0] < cuts[1] else None


# ---- The schema --------------------------------------------------------------------------------------------


def draft_schema(database: Database | CsvDatabase) -> dict[str, Json]:
    """The schema that `weir schema` writes, as a JSON value."""
    names = sorted(database.tables, key=lambda name: name.encode("utf-8"))
    tables = [Table(database, name) for name in names]
    for table in tables:
        table.primary_key = _find_primary_key(table, tables)
    for table in tables:
        for column in table.primary_key:
            table.columns[column].is_key = True
    KeyFinder(tables).run()
    stems = [table.stem for table in tables]
    for table in tables:
        for column in table.columns.values():
            column.stype = _decide_type(column, stems)
    _settle_times(tables)
    tasks = _written_tasks(tables, _find_tasks(tables))
    schema: dict[str, Json] = {"name": database.name, "keys": True}
    if isinstance(database, CsvDatabase):
        schema["csv"] = _written_csv(database.options[names[0]])
    schema["tables"] = {table.name: _written_table(table, names) for table in tables}
    for name in names[1:]:
        if isinstance(database, CsvDatabase) and database.options[name] != database.options[names[0]]:
            written = _written_csv(database.options[name])
            schema["tables"][name]["csv"] = {k: v for k, v in written.items() if schema["csv"][k] != v}
    schema["tasks"] = tasks
    if any("split" in task for task in tasks.values()):
        schema["statistics_until"] = "train"
    schema["embedding"] = {"provider": "hash_v1", "dim": 256}
    return schema


def _written_csv(options: Any) -> Json:
    delimiter = "\\t" if options.delimiter == "\t" else options.delimiter
    return {"delimiter": delimiter, "quote": options.quote, "header": options.header, "null": options.null}


def _written_table(table: Table, names: list[str]) -> Json:
    columns: dict[str, Json] = {}
    for column in table.columns.values():
        columns[column.name] = {"stype": column.stype}
        if column.stype == "timestamp":
            if column.format is not None or column.unit is not None:
                columns[column.name] |= {"format": column.format} if column.format else {"unit": column.unit}
            if column.words.have(BIRTH_WORDS):
                columns[column.name]["known_at"] = None
    written: dict[str, Json] = {"columns": columns}
    for key in table.keys:
        if len(key.columns) == 1:
            columns[key.columns[0]]["foreign_key"] = _joined(key.table.name, key.to[0], names)
        else:
            joint = {"columns": key.columns, "table": key.table.name, "to": key.to}
            written.setdefault("foreign_keys", []).append(joint)
    if table.primary_key:
        written["primary_key"] = table.primary_key[0] if len(table.primary_key) == 1 else table.primary_key
    if table.has_time:
        written["temporal_column"] = _written_time(table)
    return written


def _written_time(table: Table) -> Json:
    parts: list[str] = []
    text = ""
    while table.time is None:
        key = "+".join(table.time_key.columns)
        parts.append(key)
        text += key + " -> " + table.time_key.table.name + "."
        table = table.time_key.table
    names = [*parts, table.time.name]
    return text + table.time.name if all(map(_is_plain, names)) or not parts else names


def _is_plain(name: str) -> bool:
    is_edged = name[:1] in (" ", "\t", ">", "") or name[-1:] in (" ", "\t", "-")
    return not is_edged and "->" not in name


def _joined(table: str, column: str, names: list[str]) -> Json:
    """table.column, or the list where that would be read otherwise."""
    text = f"{table}.{column}"
    tables_before_a_dot = [text[:i] for i, letter in enumerate(text) if letter == "." and text[:i] in names]
    return text if tables_before_a_dot[0] == table else [table, column]


def _written_tasks(tables: list[Table], tasks: list[tuple[Table, Column]]) -> dict[str, Json]:
    names = [table.name for table in tables]
    written: dict[str, Json] = {}
    dropped_before: set[tuple[str, str]] = set()
    for table, target in tasks:
        dropped = [c.name for c in table.columns.values() if c is not target and _gives_away(c, target)]
        if (table.name, target.name) in dropped_before:
            continue
        dropped_before |= {(table.name, name) for name in dropped}
        task = {"anchor_table": table.name, "target_column": target.name, "target_stype": target.stype}
        split = _split(table) if table.has_time else None
        if split is not None:
            times = [timestamps.to_text(time) for time in split]
            task["split"] = {"method": "temporal", "val": times[0], "test": times[1]}
        if dropped:
            task["drop_columns"] = [_joined(table.name, name, names) for name in dropped]
        name, number = f"{table.name}.{target.name}", 1
        while name in written:
            number += 1
            name = f"{table.name}.{target.name}#{number}"
        written[name] = task
    return written
