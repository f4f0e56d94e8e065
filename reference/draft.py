"""A draft of a schema, from what a database declares and holds.

Follows docs/spec/04-draft.md, section by section; the reasons for each choice are the program's own. Columns, tables and
samples are in draft_tables.py, row times in draft_times.py.
"""

from collections import Counter
from itertools import combinations
from typing import Any

from . import time_format, timestamps, values
from .csv_files import CsvDatabase
from .database import BLOB, BOOLEAN, TIME, Database
from .draft_names import BIRTH_WORDS, GENERIC_NAMES, ID_WORDS, KEY_WORDS, MEASURELESS_WORDS, Words
from .draft_tables import Column, ForeignKey, Sample, Table, Value, coverage, value_of
from .draft_times import row_times, settle_times
from .values import Stored

MOST_PAIRS = 65_536
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
    times = Sample(("i", time) for time in row_times(table) if time is not None)
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
    settle_times(tables)
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
