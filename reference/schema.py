"""The schema: which tables and columns are read, what they mean, and which tasks are made of them.

Follows the section "Schema" and, for what a task may say, "Tasks and seeds" of the specification, with its
additions (docs/spec/04-store-additions.md): keys of several columns, times through foreign keys, tables from
queries. What is wrong is SCHEMA_INVALID, or TASK_INVALID for what the specification names so, with the path in
the document. Whether tables and columns exist is checked against the database, by `check_against`.

A time is written down as a path: names of foreign keys, then that of a timestamp column. A path of one name is
a column of the table itself.
"""

import re
import sqlite3
from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import strict_json, time_format, values
from .csv_files import CsvOptions
from .database import Database
from .errors import WeirError
from .timestamps import MICROSECONDS_PER_UNIT, duration_from_text
from .values import ANY_TIME, TimeForm

STYPES = ["identifier", "numerical", "timestamp", "boolean", "categorical", "text", "ignored"]
TARGET_STYPES = ("numerical", "timestamp", "boolean", "categorical")
SPLITS = ("train", "val", "test")
NOT_GIVEN = object()

MOST_KEYS_ON_A_PATH, MOST_KEY_COLUMNS = 16, 32

Json = Any
Path = tuple[str, ...]


@dataclass
class ColumnSchema:
    stype: str
    known_at: Path | None = None  # as it holds, also where the schema says nothing of a timestamp column
    description: str = ""
    form: TimeForm = ANY_TIME
    written_known_at: Json = NOT_GIVEN


@dataclass
class ForeignKeySchema:
    name: str
    columns: list[str]
    table: str
    to: list[str]
    known_at: list[Path] = field(default_factory=list)  # known at the latest of these; empty: with the row
    written_known_at: Json = NOT_GIVEN


@dataclass
class TableSchema:
    primary_key: list[str]
    temporal: Path | None
    columns: dict[str, ColumnSchema]
    foreign_keys: dict[str, ForeignKeySchema]  # by name
    query: str | None = None  # None: a table or view of the source
    keeps_keys: bool = False
    csv: CsvOptions | None = None

    def key_columns(self) -> set[str]:
        """The columns of its foreign keys."""
        return {column for key in self.foreign_keys.values() for column in key.columns}


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
    query: str | None  # None: every row of the anchor table
    anchor_table: str
    anchor_key: list[str]
    target_column: str
    target_stype: str
    observation_time_column: str | None = None
    weight_column: str | None = None
    horizon: int | None = None  # microseconds
    label_known_column: str | None = None
    kind: str | None = None
    form: TimeForm = ANY_TIME
    drop_columns: list[tuple[str, str]] = field(default_factory=list)
    split: SplitSchema = field(default_factory=SplitSchema)
    is_key_for_sure: bool = False
    before_anchor: str = "keep"
    target_statistics: str = "all"
    destination_table: str = ""  # of a link task, as the next two
    destination_key: list[str] = field(default_factory=list)
    popularity: tuple[str, str] | None = None  # a table and a foreign key of it

    @property
    def is_link(self) -> bool:
        return self.kind == "link"

    @property
    def has_label_times(self) -> bool:
        return self.horizon is not None or self.label_known_column is not None


@dataclass
class Schema:
    name: str | None
    tables: dict[str, TableSchema]
    tasks: dict[str, TaskSchema] | None  # None: the schema does not say
    statistics_until: int | str | None  # "train": the end of the train split
    embedding_dim: int
    csv: CsvOptions | None = None

    def targets(self, table: str) -> set[str]:
        """The columns of a table that foreign keys lead to."""
        keys = [key for other in self.tables.values() for key in other.foreign_keys.values()]
        return {column for key in keys if key.table == table for column in key.to}


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

    def take_as_written(self, key: str, kind: type | tuple[type, ...]) -> Any:
        """A member to be looked at later: None where it is null, NOT_GIVEN where it is not there."""
        return self.take(key, kind, None) if key in self._members else NOT_GIVEN

    def take_bool(self, key: str, default: bool) -> bool:
        value = self._members.pop(key, None)
        if value is None:
            return default
        if not isinstance(value, bool):
            refuse(f"{self.path}.{key}", "must be true or false")
        return value

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
    if document.take("search_path", (str, list), None) is not None:
        refuse("$.search_path", "is for PostgreSQL and DuckDB, which are not simulated")
    csv = _read_csv(document)
    keeps_keys = document.take_bool("keys", False)
    written_tables = document.take("tables", dict)
    if not written_tables:
        refuse("$.tables", "has no table")
    tables = {
        key: _read_table(_Reader(value, f"$.tables.{key}"), written_tables, keeps_keys)
        for key, value in written_tables.items()
    }
    for table_name, table in tables.items():
        _settle_foreign_keys(table_name, table, tables)
    for table_name, table in tables.items():
        _settle_times(table_name, table, tables, written_tables[table_name].get("temporal_column"))
    written_tasks = document.take("tasks", dict, None)
    tasks = None
    if written_tasks is not None:
        tasks = {
            key: _read_task(_Reader(value, f"$.tasks.{key}"), tables) for key, value in written_tasks.items()
        }
    until = document.take("statistics_until", str, None)
    statistics_until = until
    if until == "train":
        if all(task.split.method == "hash" for task in (tasks or {}).values()):
            refuse("$.statistics_until", "is train, but no task has a train split that ends")
    elif until is not None:
        statistics_until = _time(until, "s", "$.statistics_until")
    embedding_dim = _read_embedding(_Reader(document.take("embedding", dict, {}), "$.embedding"))
    document.finish()
    return Schema(name, tables, tasks, statistics_until, embedding_dim, csv)


def _names(value: Json, path: str, code_id: str = "SCHEMA_INVALID") -> list[str]:
    """A name, or a list of names."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        refuse(path, "must be a name or a list of names", code_id)
    return list(names)


def _read_table(reader: _Reader, tables: Json, keeps_keys: bool) -> TableSchema:
    """Everything but what needs the other tables read; a foreign key without `to` has none yet."""
    primary_key = _names(reader.take("primary_key", (str, list), []), f"{reader.path}.primary_key")
    if len(set(primary_key)) < len(primary_key):
        refuse(f"{reader.path}.primary_key", "names a column twice")
    reader.take("temporal_column", (str, list), None)  # settled later
    query = reader.take("query", str, None)
    keeps_keys = reader.take_bool("keys", keeps_keys)
    table = TableSchema(primary_key, None, {}, {}, query, keeps_keys, _read_csv(reader))
    for key, value in reader.take("columns", dict).items():
        column_reader = _Reader(value, f"{reader.path}.columns.{key}")
        table.columns[key] = ColumnSchema(
            stype=_read_stype(column_reader, "stype"),
            form=_read_form(column_reader),
            description=column_reader.take("description", str, ""),
            written_known_at=column_reader.take_as_written("known_at", (str, list)),
        )
        parent = column_reader.take("foreign_key", (str, list), None)
        if parent is not None:
            parent_table, parent_column = _joined_names(parent, tables, f"{column_reader.path}.foreign_key")
            table.foreign_keys[key] = ForeignKeySchema(key, [key], parent_table, [parent_column])
        column_reader.finish()
    for number, value in enumerate(reader.take("foreign_keys", list, [])):
        key_reader = _Reader(value, f"{reader.path}.foreign_keys[{number}]")
        foreign_key = _read_foreign_key(key_reader, tables)
        if foreign_key.name in table.foreign_keys:
            refuse(key_reader.path, f"{foreign_key.name} is the name of two foreign keys")
        table.foreign_keys[foreign_key.name] = foreign_key
    reader.finish()
    return table


def _read_foreign_key(reader: _Reader, tables: Json) -> ForeignKeySchema:
    columns = _names(reader.take("columns", (str, list)), f"{reader.path}.columns")
    written_to = reader.take("to", (str, list), None)
    to = [] if written_to is None else _names(written_to, f"{reader.path}.to")
    key = ForeignKeySchema(
        name=reader.take("name", str, "+".join(columns)),
        columns=columns,
        table=reader.take("table", str),
        to=to,
        written_known_at=reader.take_as_written("known_at", (str, list)),
    )
    reader.finish()
    if not 1 <= len(columns) <= MOST_KEY_COLUMNS or len(set(columns)) < len(columns):
        refuse(f"{reader.path}.columns", "must be 1 to 32 different names")
    if written_to is not None and (len(to) != len(columns) or len(set(to)) < len(to)):
        refuse(f"{reader.path}.to", "must be as many different names as columns")
    if key.table not in tables:
        refuse(f"{reader.path}.table", "names a table that the schema does not have")
    if key.name == "":
        refuse(f"{reader.path}.name", "must not be empty")
    return key


def _settle_foreign_keys(name: str, table: TableSchema, tables: dict[str, TableSchema]) -> None:
    """A foreign key that says nothing else leads to its parent's primary key."""
    for key in table.foreign_keys.values():
        key.to = key.to or list(tables[key.table].primary_key)
        if len(key.to) != len(key.columns):
            refuse(f"$.tables.{name}.foreign_keys", f"{key.name} leads to a primary key of another size")


def _settle_times(
    name: str, table: TableSchema, tables: dict[str, TableSchema], written_temporal: Json
) -> None:
    """The row's time, and when cells and edges are known."""
    path = f"$.tables.{name}"
    table.temporal = _read_time(written_temporal, name, tables, f"{path}.temporal_column")
    for column_name, column in table.columns.items():
        if column.written_known_at is not NOT_GIVEN:
            known_path = f"{path}.columns.{column_name}.known_at"
            column.known_at = _read_time(column.written_known_at, name, tables, known_path)
        elif column.stype == "timestamp" and table.temporal != (column_name,):
            column.known_at = (column_name,)
    for key in table.foreign_keys.values():
        if key.written_known_at is not NOT_GIVEN:
            known_at = _read_time(key.written_known_at, name, tables, f"{path}.foreign_keys.{key.name}")
            key.known_at = [] if known_at is None else [known_at]
        else:
            of_columns = [table.columns[column].known_at for column in key.columns if column in table.columns]
            key.known_at = list(dict.fromkeys(known_at for known_at in of_columns if known_at is not None))


def _read_time(written: Json, table: str, tables: dict[str, TableSchema], path: str) -> Path | None:
    """A path, checked: foreign keys that are there, then a timestamp column."""
    if written is None:
        return None
    if isinstance(written, str):
        names = _names_on_a_path(written, table, tables, path)
    else:
        names = _names(written, path)
    if not 1 <= len(names) <= MOST_KEYS_ON_A_PATH + 1:
        refuse(path, "must be a column, or up to 16 foreign keys and a column")
    for name in names[:-1]:
        if name not in tables[table].foreign_keys:
            refuse(path, f"{table} has no foreign key {name}")
        table = tables[table].foreign_keys[name].table
    column = tables[table].columns.get(names[-1])
    if column is None or column.stype != "timestamp":
        refuse(path, f"{names[-1]} is not a timestamp column of {table}")
    return tuple(names)


def _names_on_a_path(text: str, table: str, tables: dict[str, TableSchema], path: str) -> list[str]:
    """The text form, such as "order_id -> orders.ordered_at"."""
    if text in tables[table].columns or "->" not in text:
        return [text]
    first, *others = (part.strip(" \t") for part in text.split("->"))
    names = [first]
    for part in others:
        if names[-1] not in tables[table].foreign_keys:
            refuse(path, f"{table} has no foreign key {names[-1]}")
        table = tables[table].foreign_keys[names[-1]].table
        if not part.startswith(table + "."):
            refuse(path, f"must say {table}.… after {names[-1]}")
        names.append(part[len(table) + 1 :])
    return names


def _read_stype(reader: _Reader, key: str) -> str:
    stype = reader.take(key, str)
    if stype not in STYPES:
        refuse(f"{reader.path}.{key}", "is no semantic type")
    return stype


def _read_csv(reader: _Reader) -> CsvOptions | None:
    value = reader.take("csv", dict, None)
    if value is None:
        return None
    csv_reader = _Reader(value, f"{reader.path}.csv")
    null = csv_reader.take("null", (str, list), None)
    if isinstance(null, list) and not all(isinstance(text, str) for text in null):
        refuse(f"{csv_reader.path}.null", "must be a list of texts")
    delimiter = csv_reader.take("delimiter", str, None)
    quote = csv_reader.take("quote", str, None)
    header = csv_reader.take_bool("header", None)
    csv_reader.finish()
    delimiter = "\t" if delimiter == "\\t" else delimiter
    for name, character in (("delimiter", delimiter), ("quote", quote or None)):
        is_fit = character is None or len(character) == 1 and character.isascii() and character not in "\n\r\0"
        if not is_fit:
            refuse(f"{csv_reader.path}.{name}", "must be one ASCII character")
    if delimiter is not None and delimiter == quote:
        refuse(f"{csv_reader.path}.quote", "is the delimiter too")
    return CsvOptions([null] if isinstance(null, str) else null, delimiter, quote, header)


def _read_form(reader: _Reader) -> TimeForm:
    form = TimeForm(reader.take("unit", str, None), reader.take("format", str, None))
    if form.unit not in (None, *MICROSECONDS_PER_UNIT):
        refuse(f"{reader.path}.unit", "must be s, ms, us or ns")
    if form.format is not None:
        try:
            time_format.compiled(form.format)
        except time_format.BadPattern as fault:
            refuse(f"{reader.path}.format", str(fault))
        if form.unit is not None:
            refuse(f"{reader.path}.format", "stands beside unit")
    return form


def _joined_names(
    written: Json, tables: Json, path: str, code_id: str = "SCHEMA_INVALID"
) -> tuple[str, str]:
    """A table and its column: as a list, or as a text that is split at the first dot after a table's name."""
    if isinstance(written, list):
        if len(written) != 2 or not all(isinstance(name, str) for name in written):
            refuse(path, "must be table.column, or a list of table and column", code_id)
        if written[0] not in tables:
            refuse(path, "names a table that the schema does not have", code_id)
        return written[0], written[1]
    if not isinstance(written, str) or "." not in written:
        refuse(path, "must be table.column", code_id)
    for dot in [place for place, character in enumerate(written) if character == "."]:
        if written[:dot] in tables:
            return written[:dot], written[dot + 1 :]
    refuse(path, "names a table that the schema does not have", code_id)


def _time(value: Json, unit: str, path: str) -> int:
    try:
        micros = values.as_micros(value, TimeForm(unit))
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


def _duration(value: str | int | None, path: str) -> int | None:
    """Microseconds, or digits and a unit."""
    if value is None:
        return None
    if isinstance(value, str):
        value = duration_from_text(value)
    if isinstance(value, bool) or value is None or not 0 <= value <= 2**63 - 2:
        refuse(path, "is not a duration such as 30d", "TASK_INVALID")
    return value


def _read_task(reader: _Reader, tables: dict[str, TableSchema]) -> TaskSchema:
    kind = reader.take("kind", str, None)
    task = TaskSchema(
        query=reader.take("query", str, None),
        anchor_table=reader.take("anchor_table", str),
        anchor_key=_names(reader.take("anchor_key", (str, list), []), f"{reader.path}.anchor_key"),
        target_column="link" if kind == "link" else reader.take("target_column", str),
        target_stype="boolean" if kind == "link" else _read_stype(reader, "target_stype"),
        observation_time_column=reader.take("observation_time_column", str, None),
        weight_column=reader.take("weight_column", str, None),
        horizon=_duration(reader.take("horizon", (str, int), None), f"{reader.path}.horizon"),
        label_known_column=reader.take("label_known_column", str, None),
        kind=kind,
        form=_read_form(reader),
        before_anchor=reader.take("before_anchor", str, "keep"),
        target_statistics=reader.take("target_statistics", str, "all"),
    )
    if task.horizon is not None and task.label_known_column is not None:
        refuse(f"{reader.path}.horizon", "stands beside label_known_column", "TASK_INVALID")
    meaning = reader.take("anchor_key_is", str, None)
    if meaning not in (None, "primary_key"):
        refuse(f"{reader.path}.anchor_key_is", "must be primary_key", "TASK_INVALID")
    task.is_key_for_sure = meaning is not None
    for name in reader.take("drop_columns", list, []):
        task.drop_columns.append(_joined_names(name, tables, f"{reader.path}.drop_columns", "TASK_INVALID"))
    split = reader.take("split", dict, None)
    if split is not None:
        task.split = _read_split(_Reader(split, f"{reader.path}.split"), task.form.unit or "s")
    if task.is_link:
        _read_link(reader, tables, task)
    reader.finish()
    if task.kind not in (None, "cell", "derived", "link"):
        refuse(f"{reader.path}.kind", "must be cell, derived or link", "TASK_INVALID")
    if task.target_stype not in TARGET_STYPES:
        refuse(f"{reader.path}.target_stype", "cannot be a target", "TASK_INVALID")
    if task.before_anchor not in ("keep", "show_known", "move"):
        refuse(f"{reader.path}.before_anchor", "must be keep, show_known or move", "TASK_INVALID")
    if task.target_statistics not in ("all", "train"):
        refuse(f"{reader.path}.target_statistics", "must be all or train", "TASK_INVALID")
    if task.anchor_table not in tables:
        refuse(f"{reader.path}.anchor_table", "names a table that the schema does not have", "TASK_INVALID")
    if task.query is None:
        _check_all_rows(reader.path, task, meaning)
        return task
    if not task.anchor_key:
        refuse(f"{reader.path}.anchor_key", "is missing")
    primary_key = tables[task.anchor_table].primary_key
    if not primary_key:
        refuse(f"{reader.path}.anchor_table", "names a table without a primary key", "TASK_INVALID")
    if len(task.anchor_key) != len(primary_key):
        refuse(f"{reader.path}.anchor_key", "has not as many columns as the primary key", "TASK_INVALID")
    return task


def _read_link(reader: _Reader, tables: dict[str, TableSchema], task: TaskSchema) -> None:
    path = reader.path
    task.destination_table = reader.take("destination_table", str)
    task.destination_key = _names(reader.take("destination_key", (str, list), []), f"{path}.destination_key")
    given = reader.take("popularity", (str, list), None)
    if task.weight_column or task.has_label_times or task.target_statistics != "all":
        refuse(path, "says something that is not for a link task", "TASK_INVALID")
    if task.query is None or task.observation_time_column is None or not task.destination_key:
        refuse(path, "lacks something that a link task needs", "TASK_INVALID")
    if task.destination_table not in tables or not tables[task.destination_table].primary_key:
        refuse(f"{path}.destination_table", "must be a table with a primary key", "TASK_INVALID")
    if len(task.destination_key) != len(tables[task.destination_table].primary_key):
        refuse(f"{path}.destination_key", "has not as many columns as the primary key", "TASK_INVALID")
    if given is not None:
        table, name = _joined_names(given, tables, f"{path}.popularity", "TASK_INVALID")
        key = tables[table].foreign_keys.get(name)
        if key is None or key.table != task.destination_table:
            refuse(f"{path}.popularity", "must be a foreign key to the destination table", "TASK_INVALID")
        task.popularity = (table, name)


def _check_all_rows(path: str, task: TaskSchema, meaning: str | None) -> None:
    """Without a query every row of the anchor table is a seed, at its own time: a cell task."""
    for_queries = (
        task.anchor_key, meaning, task.observation_time_column, task.form != ANY_TIME, task.has_label_times
    )
    if any(for_queries) or task.kind == "derived" or task.split.method == "column" or task.before_anchor != "keep":
        refuse(path, "says something that needs a query", "TASK_INVALID")
    task.kind = "cell"


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
    """Every table and column that the schema names must be there. Queries and views become tables."""
    for table_name, table in schema.tables.items():
        path = f"$.tables.{table_name}"
        try:
            is_there = database.provide(table_name, table.query)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as fault:
            refuse(f"{path}.query", f"fails: {fault}")
        if not is_there:
            refuse(path, "is no table of the source")
        for column in [*table.columns, *table.primary_key]:
            if column not in database.tables[table_name].columns:
                refuse(f"{path}.columns.{column}", "is no column of the source's table")
    for table_name, table in schema.tables.items():
        for key in table.foreign_keys.values():
            for owner, columns in ((table_name, key.columns), (key.table, key.to)):
                if not set(columns) <= database.tables[owner].columns.keys():
                    path = f"$.tables.{table_name}.foreign_keys.{key.name}"
                    refuse(path, "names a column that the source's table does not have")
    for task_name, task in (schema.tasks or {}).items():
        for table_name, column in task.drop_columns:
            if column not in database.tables[table_name].columns:
                path = f"$.tasks.{task_name}.drop_columns"
                refuse(path, f"names {table_name}.{column}, which does not exist", "TASK_INVALID")
