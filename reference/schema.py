"""The schema: which tables and columns are read, what they mean, and which tasks are made of them.

Follows the section "Schema" and, for what a task may say, "Tasks and seeds" of the specification. What is
wrong is SCHEMA_INVALID, or TASK_INVALID for what the specification names so, with the path in the document.
Whether tables and columns exist is checked against the database, by `check_against`.
"""

import re
from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import strict_json, values
from .database import Database
from .errors import WeirError
from .timestamps import MICROSECONDS_PER_UNIT

STYPES = ["identifier", "numerical", "timestamp", "boolean", "categorical", "text", "ignored"]
TARGET_STYPES = ("numerical", "timestamp", "boolean", "categorical")
SPLITS = ("train", "val", "test")
NOT_GIVEN = object()

Json = Any


@dataclass
class ColumnSchema:
    stype: str
    foreign_key: tuple[str, str] | None = None
    known_at: str | None = None  # as it holds, also where the schema says nothing of a timestamp column
    description: str = ""
    unit: str = "s"


@dataclass
class TableSchema:
    primary_key: list[str]
    temporal_column: str | None
    columns: dict[str, ColumnSchema]


@dataclass
class SplitSchema:
    method: str = "hash"
    permille: tuple[int, ...] = (800, 100, 100)
    seed: int = 0
    val: int = 0
    test: int = 0
    column: str = ""


@dataclass
class TaskSchema:
    query: str | None  # None: every row of the anchor table, in a task that nobody wrote
    anchor_table: str
    anchor_key: str
    target_column: str
    target_stype: str
    observation_time_column: str | None = None
    weight_column: str | None = None
    kind: str | None = None
    unit: str = "s"
    drop_columns: list[tuple[str, str]] = field(default_factory=list)
    split: SplitSchema = field(default_factory=SplitSchema)


@dataclass
class Schema:
    name: str | None
    tables: dict[str, TableSchema]
    tasks: dict[str, TaskSchema] | None  # None: the schema does not say
    statistics_until: int | None
    embedding_dim: int


# ---- Reading a document ------------------------------------------------------------------------------------


class _Reader:
    """A map of the document with its path; every key that is not asked for is refused at the end."""

    def __init__(self, value: Json, path: str) -> None:
        self.path = path
        if not isinstance(value, dict):
            refuse(path, "must be an object")
        self._members: dict[str, Json] = dict(value)

    def take(self, key: str, kind: type | tuple[type, ...], default: Any = NOT_GIVEN) -> Any:
        """A member; null counts as not given."""
        value = self._members.pop(key, None)
        if value is None:
            if default is NOT_GIVEN:
                refuse(f"{self.path}.{key}", "is missing")
            return default
        if not isinstance(value, kind) or isinstance(value, bool):
            refuse(f"{self.path}.{key}", "has the wrong type")
        return value

    def has(self, key: str) -> bool:
        return key in self._members

    def finish(self) -> None:
        for key in self._members:
            refuse(f"{self.path}.{key}", "is not a key that a schema has")


def refuse(path: str, reason: str, code_id: str = "SCHEMA_INVALID") -> NoReturn:
    raise WeirError(code_id, f"{path} {reason}", path=path)


def read_schema(text: bytes | str) -> Schema:
    """Reads and checks a schema by itself."""
    document = _Reader(strict_json.read(text, "SCHEMA_INVALID"), "$")
    name = document.take("name", str, None)
    if name is not None and (name == "" or name.startswith(".") or "/" in name):
        refuse("$.name", "must be a file's name")
    written_tables = document.take("tables", dict)
    tables = {key: _read_table(_Reader(value, f"$.tables.{key}")) for key, value in written_tables.items()}
    _check_foreign_keys(tables)
    written_tasks = document.take("tasks", dict, None)
    tasks = None
    if written_tasks is not None:
        tasks = {
            key: _read_task(_Reader(value, f"$.tasks.{key}"), tables) for key, value in written_tasks.items()
        }
    until = document.take("statistics_until", str, None)
    statistics_until = None if until is None else _time(until, "s", "$.statistics_until")
    embedding_dim = _read_embedding(_Reader(document.take("embedding", dict, {}), "$.embedding"))
    document.finish()
    return Schema(name, tables, tasks, statistics_until, embedding_dim)


def _read_table(reader: _Reader) -> TableSchema:
    primary_key = reader.take("primary_key", (str, list), [])
    temporal_column = reader.take("temporal_column", str, None)
    columns = {
        key: _read_column(_Reader(value, f"{reader.path}.columns.{key}"), key, key == temporal_column)
        for key, value in reader.take("columns", dict).items()
    }
    reader.finish()
    for time_column in [temporal_column, *(column.known_at for column in columns.values())]:
        is_timestamp = time_column in columns and columns[time_column].stype == "timestamp"
        if time_column is not None and not is_timestamp:
            refuse(reader.path, f"takes {time_column} for a time, which is no timestamp column of the table")
    if isinstance(primary_key, str):
        primary_key = [primary_key]
    return TableSchema(primary_key, temporal_column, columns)


def _read_column(reader: _Reader, name: str, is_temporal: bool) -> ColumnSchema:
    stype = _read_stype(reader, "stype")
    unit = _read_unit(reader)
    description = reader.take("description", str, "")
    says_known_at = reader.has("known_at")
    known_at = reader.take("known_at", str, None)
    if stype == "timestamp" and not is_temporal and not says_known_at:
        known_at = name
    foreign_key = reader.take("foreign_key", str, None)
    reader.finish()
    parent = None if foreign_key is None else _split_at_first_dot(foreign_key, f"{reader.path}.foreign_key")
    return ColumnSchema(stype, parent, known_at, description, unit)


def _read_stype(reader: _Reader, key: str) -> str:
    stype = reader.take(key, str)
    if stype not in STYPES:
        refuse(f"{reader.path}.{key}", "is no semantic type")
    return stype


def _read_unit(reader: _Reader) -> str:
    unit = reader.take("unit", str, "s")
    if unit not in MICROSECONDS_PER_UNIT:
        refuse(f"{reader.path}.unit", "must be s, ms or us")
    return unit


def _split_at_first_dot(text: str, path: str, code_id: str = "SCHEMA_INVALID") -> tuple[str, str]:
    table, dot, column = text.partition(".")
    if not dot:
        refuse(path, "must be table.column", code_id)
    return table, column


def _check_foreign_keys(tables: dict[str, TableSchema]) -> None:
    for table_name, table in tables.items():
        for column_name, column in table.columns.items():
            if column.foreign_key is not None and column.foreign_key[0] not in tables:
                path = f"$.tables.{table_name}.columns.{column_name}.foreign_key"
                refuse(path, "names a table that the schema does not have")


def _time(value: Json, unit: str, path: str) -> int:
    try:
        micros = values.as_micros(value, unit)
    except values.Unfit:
        micros = None
    if micros is None:
        refuse(path, "is not a time")
    return micros


def _read_embedding(reader: _Reader) -> int:
    """The dimension. Other providers than hash_v1 need the world outside and are not simulated."""
    if reader.take("provider", str, "hash_v1") != "hash_v1":
        refuse(f"{reader.path}.provider", "is not simulated")
    dim = _whole_number(reader.take("dim", (int, str), 256))
    if dim is None or dim == 0:
        refuse(f"{reader.path}.dim", "must be a whole number of at least 1")
    reader.finish()
    return dim


def _whole_number(value: Json) -> int | None:
    """An integer, also as a string of digits, from 0 to 2^64-1."""
    if isinstance(value, str) and re.fullmatch("0|[1-9][0-9]{0,19}", value):
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < 2**64 else None


# ---- Tasks -------------------------------------------------------------------------------------------------


def _read_task(reader: _Reader, tables: dict[str, TableSchema]) -> TaskSchema:
    task = TaskSchema(
        query=reader.take("query", str),
        anchor_table=reader.take("anchor_table", str),
        anchor_key=reader.take("anchor_key", str),
        target_column=reader.take("target_column", str),
        target_stype=_read_stype(reader, "target_stype"),
        observation_time_column=reader.take("observation_time_column", str, None),
        weight_column=reader.take("weight_column", str, None),
        kind=reader.take("kind", str, None),
        unit=_read_unit(reader),
    )
    for name in reader.take("drop_columns", list, []):
        task.drop_columns.append(_split_at_first_dot(name, f"{reader.path}.drop_columns", "TASK_INVALID"))
    split = reader.take("split", dict, None)
    if split is not None:
        task.split = _read_split(_Reader(split, f"{reader.path}.split"), task.unit)
    reader.finish()
    if task.kind not in (None, "cell", "derived"):
        refuse(f"{reader.path}.kind", "must be cell or derived", "TASK_INVALID")
    if task.target_stype not in TARGET_STYPES:
        refuse(f"{reader.path}.target_stype", "cannot be a target", "TASK_INVALID")
    if task.anchor_table not in tables:
        refuse(f"{reader.path}.anchor_table", "names a table that the schema does not have", "TASK_INVALID")
    return task


def _read_split(reader: _Reader, unit: str) -> SplitSchema:
    split = SplitSchema(method=reader.take("method", str, "hash"))
    if split.method == "hash":
        split.permille = tuple(_whole_number(part) for part in reader.take("permille", list, [800, 100, 100]))
        if len(split.permille) != len(SPLITS) or None in split.permille or sum(split.permille) != 1000:
            reason = "must be three whole numbers that add up to 1000"
            refuse(f"{reader.path}.permille", reason, "TASK_INVALID")
        split.seed = _whole_number(reader.take("seed", (int, str), 0))
        if split.seed is None:
            refuse(f"{reader.path}.seed", "must be a whole number from 0 to 2^64-1")
    elif split.method == "temporal":
        split.val = _time(reader.take("val", (int, str)), unit, f"{reader.path}.val")
        split.test = _time(reader.take("test", (int, str)), unit, f"{reader.path}.test")
    elif split.method == "column":
        split.column = reader.take("column", str)
    else:
        refuse(f"{reader.path}.method", "must be hash, temporal or column", "TASK_INVALID")
    reader.finish()
    return split


# ---- Against the database ----------------------------------------------------------------------------------


def check_against(schema: Schema, database: Database) -> None:
    """Every table and column that the schema names must be there."""
    for table_name, table in schema.tables.items():
        path = f"$.tables.{table_name}"
        if table_name not in database.tables:
            refuse(path, "is no table of the source")
        declared = database.tables[table_name].columns
        for column in [*table.columns, *table.primary_key]:
            if column not in declared:
                refuse(f"{path}.columns.{column}", "is no column of the source's table")
    for table_name, table in schema.tables.items():
        for column_name, column_schema in table.columns.items():
            parent_table, parent_column = column_schema.foreign_key or (table_name, column_name)
            if parent_column not in database.tables[parent_table].columns:
                path = f"$.tables.{table_name}.columns.{column_name}.foreign_key"
                refuse(path, "names a column that the source's table does not have")
    for task_name, task in (schema.tasks or {}).items():
        for table_name, column in task.drop_columns:
            if table_name not in schema.tables or column not in database.tables[table_name].columns:
                path = f"$.tasks.{task_name}.drop_columns"
                refuse(path, f"names {table_name}.{column}, which does not exist", "TASK_INVALID")
