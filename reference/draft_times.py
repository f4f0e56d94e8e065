"""Row times of a draft: which column says when a row came to be, or which foreign key leads to the row that does.

Follows docs/spec/04-draft.md, section "Row times".
"""

from collections.abc import Iterable
from typing import Any

from .draft_names import BIRTH_WORDS, CHANGE_WORDS, FUTURE_WORDS, LATE_WORDS, Words
from .draft_tables import Column, ForeignKey, Table

TIME_KEYS_MAX = 16


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


def row_times(table: Table) -> list[int | None]:
    """The row's time, its own or through keys, of every row."""
    if table.time is not None:
        return [table.time.micros(row) for row in range(table.row_count)]
    if table.time_key is None:
        return [None] * table.row_count
    by_key = _times_by_key(table.time_key.table, table.time_key.to, row_times(table.time_key.table))
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
            for value, time in zip(child.values_of(key.columns), row_times(child)):
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


def settle_times(tables: list[Table]) -> None:
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
            if _is_late(tables, table, row_times(table)):
                table.time_key = None


def _counts_as_time(table: Table, key: ForeignKey) -> bool:
    values_there = min(len(table.columns[column].present) for column in key.columns)
    has_few_nulls = 10 * (table.row_count - values_there) <= table.row_count
    has_time = key.table.has_time and _keys_to_time(key.table) < TIME_KEYS_MAX
    return key.table is not table and has_time and key.coverage >= 0.9 and has_few_nulls


def _keys_to_time(table: Table) -> int:
    return 0 if table.time_key is None else 1 + _keys_to_time(table.time_key.table)


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
