"""A draft of a schema, from what a database declares and holds.

Follows "Draft rules" in the section "Schema" of the specification. The rules look at the non-null values of a
column; a column without any is ignored unless it is a key.
"""

from typing import Any

from . import timestamps, values
from .database import BOOLEAN, INTEGER, NOTHING, NUMERIC, REAL, TIME, Database, DeclaredTable
from .values import Stored

MOST_INTEGER_CATEGORIES, MOST_TEXT_CATEGORIES, ROWS_PER_CATEGORY = 50, 100, 20
IDENTIFIER_ENDINGS = ("id", "uuid", "email", "url", "phone", "hash", "code")
TIME_WORDS = ("created", "date", "time", "at", "timestamp", "on")


def draft_schema(database: Database) -> dict[str, Any]:
    """The schema that `weir schema` writes, as a JSON value."""
    targets = {
        (key.table, column)
        for table in database.tables.values()
        for key in table.foreign_keys
        for column in key.to
    }
    return {
        "name": database.name,
        "tables": {name: _draft_table(database, table, targets) for name, table in database.tables.items()},
        "embedding": {"provider": "hash_v1", "dim": 256},
    }


def _draft_table(database: Database, table: DeclaredTable, targets: set[tuple[str, str]]) -> dict[str, Any]:
    rows = database.rows(table.name, list(table.columns))
    keys = set(table.primary_key) | {column for key in table.foreign_keys for column in key.columns}
    columns: dict[str, dict[str, Any]] = {}
    for name, declared in table.columns.items():
        if name in keys or (table.name, name) in targets:
            columns[name] = {"stype": "identifier"}
        else:
            present = [row[name] for row in rows if row[name] is not None]
            columns[name] = {"stype": semantic_type(name, declared, present)}
    drafted: dict[str, Any] = {"columns": columns}
    for key in table.foreign_keys:
        if len(key.columns) == 1:
            columns[key.columns[0]]["foreign_key"] = _joined(key.table, key.to[0], database)
        else:
            written = {"columns": key.columns, "table": key.table, "to": key.to}
            drafted.setdefault("foreign_keys", []).append(written)
    if table.primary_key:
        drafted["primary_key"] = table.primary_key[0] if len(table.primary_key) == 1 else table.primary_key
    times = [name for name, column in columns.items() if column["stype"] == "timestamp"]
    times = [name for name in times if _sounds_like_a_time(name)]
    if times:
        drafted["temporal_column"] = times[0]
    return drafted


def _joined(table: str, column: str, database: Database) -> str | list[str]:
    """table.column, or the list where that would be read otherwise."""
    text = f"{table}.{column}"
    tables_before_a_dot = [text[:i] for i, letter in enumerate(text) if letter == "." and text[:i] in database.tables]
    return text if tables_before_a_dot[0] == table else [table, column]


def _sounds_like_a_time(name: str) -> bool:
    return name.lower().startswith(TIME_WORDS) or name.lower().endswith(TIME_WORDS)


def semantic_type(name: str, declared: str, present: list[Stored]) -> str:
    """The semantic type of a column that is no key, from its declared type and its non-null values."""
    if not present or any(isinstance(value, bytes) for value in present):
        return "ignored"
    if declared == BOOLEAN and _all_fit(values.as_boolean, present):
        return "boolean"
    if declared == TIME and _all_fit(lambda value: values.as_micros(value, "s"), present):
        return "timestamp"
    if declared in (INTEGER, NUMERIC, NOTHING) and all(isinstance(value, int) for value in present):
        return "categorical" if _are_categories(present, MOST_INTEGER_CATEGORIES) else "numerical"
    if declared in (REAL, NUMERIC, NOTHING) and all(isinstance(value, (int, float)) for value in present):
        return "numerical"
    return _by_the_text_rules(name, present)


def _all_fit(convert: Any, present: list[Stored]) -> bool:
    try:
        return all(convert(value) is not None for value in present)
    except values.Unfit:
        return False


def _are_categories(present: list[Any], most: int) -> bool:
    distinct = len(set(present))
    return distinct <= most and len(present) >= ROWS_PER_CATEGORY * distinct


def _by_the_text_rules(name: str, present: list[Stored]) -> str:
    if all(isinstance(value, str) and timestamps.from_text(value) is not None for value in present):
        return "timestamp"
    texts = [values.as_text(value) for value in present]
    if _are_categories(texts, MOST_TEXT_CATEGORIES):
        return "categorical"
    if len(set(texts)) == len(texts) and not any(" " in text for text in texts):
        if name.lower().endswith(IDENTIFIER_ENDINGS):
            return "identifier"
    return "text"
