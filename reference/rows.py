"""Rows: a table's cells as they mean something, in the order that numbers them.

Follows the section "Numbering" and, for a row's time, "Time: what was known when" of the specification.
RowIdx is global: the tables in bytewise order of name, one after the other. A time that goes through foreign
keys is looked up in `times`, which the store fills in when all tables are there.
"""

from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import cbor, values
from .database import Database
from .errors import WeirError
from .schema import ColumnSchema, ForeignKeySchema, Path, TableSchema
from .timestamps import ALWAYS
from .values import Stored


@dataclass
class Column:
    """A column that is not ignored."""

    name: str
    stype: str
    schema: ColumnSchema
    column_idx: int = 0
    not_finite: int = 0
    categories: list[str] | None = None  # of a categorical column, sorted
    category_start: int = 0


@dataclass
class Row:
    stored: dict[str, Stored]
    cells: dict[str, Any]  # converted; only columns that are not ignored


@dataclass
class Table:
    name: str
    primary_key: list[str]
    temporal: Path | None
    declared_columns: list[str]
    schema: dict[str, ColumnSchema]  # of all columns that the schema names
    foreign_keys: dict[str, ForeignKeySchema]  # by name
    columns: list[Column]
    key_columns: list[str]  # of foreign keys and their targets, also where they are ignored otherwise
    keeps_keys: bool
    rows: list[Row] = field(default_factory=list)
    row_start: int = 0
    first_number: int = 0  # of its rows, as the file counts them
    key_order: list[str] | None = None  # of the foreign keys, where an earlier store gives it
    times: dict[Path, list[int | None]] = field(default_factory=dict)  # of paths through foreign keys, by row

    def number_of(self, row: int) -> int:
        """What the file, the tensor anchor_row and a request call a row."""
        return row - self.row_start + self.first_number

    def cell(self, row: int, column: str) -> Any:
        return self.rows[row - self.row_start].cells[column]

    def time_at(self, row: int, path: Path) -> int | None:
        """The value of a timestamp column of the table, or of one that foreign keys lead to."""
        return self.cell(row, path[0]) if len(path) == 1 else self.times[path][row - self.row_start]

    def row_time(self, row: int) -> int:
        """When a row came to be; "always" without a time or where it is null."""
        time = None if self.temporal is None else self.time_at(row, self.temporal)
        return ALWAYS if time is None else time

    @property
    def temporal_column(self) -> str | None:
        """The column of its own that is the row's time."""
        return self.temporal[0] if self.temporal is not None and len(self.temporal) == 1 else None

    def split_key(self, row: int) -> Any:
        """What a row is told apart by in a split that lasts."""
        stored = self.rows[row - self.row_start].stored
        if len(self.primary_key) == 1:
            return stored[self.primary_key[0]]
        if self.primary_key:
            return [stored[name] for name in self.primary_key]
        return self.sorting_values(self.rows[row - self.row_start])

    def key_of(self, row: int, columns: list[str]) -> Any:
        """What some columns of a row are matched by; None where one of them is null."""
        stored = [self.rows[row - self.row_start].stored[column] for column in columns]
        return None if None in stored else tuple(values.key_order(value) for value in stored)

    def rows_by(self, columns: list[str]) -> dict[Any, int]:
        """RowIdx by the values of columns that have no values twice; rows with a null are not in it."""
        found: dict[Any, int] = {}
        for number in range(self.row_start, self.row_start + len(self.rows)):
            key = self.key_of(number, columns)
            if key is None:
                continue
            if key in found:
                refuse(self.name, "+".join(columns), f"has the values {key!r} twice, though keys point to them")
            found[key] = number
        return found

    def sorting_values(self, row: Row) -> list[Any]:
        """What a row without a primary key is sorted by: numbers, times and booleans converted, the rest as
        stored."""
        by_name = {column.name: column for column in self.columns}
        sorted_by: list[Any] = []
        for name in self.declared_columns:
            if name in by_name and by_name[name].stype in ("numerical", "timestamp", "boolean"):
                sorted_by.append(row.cells[name])
            elif name in by_name or name in self.key_columns:
                sorted_by.append(row.stored[name])
        return sorted_by


def refuse(table: str, column: str, reason: str) -> NoReturn:
    raise WeirError("SCHEMA_INVALID", f"{table}.{column} {reason}", table=table, column=column)


def read_table(name: str, schema: TableSchema, targets: set[str], database: Database) -> Table:
    """A table's rows, converted and in order. `targets` are its columns that foreign keys point to."""
    declared = list(database.tables[name].columns)
    named = {column: schema.columns[column] for column in declared if column in schema.columns}
    columns = [Column(name, given.stype, given) for name, given in named.items() if given.stype != "ignored"]
    keys = [column for column in declared if column in targets | schema.key_columns()]
    table = Table(
        name, schema.primary_key, schema.temporal, declared, named, schema.foreign_keys, columns, keys,
        schema.keeps_keys and bool(schema.primary_key),
    )  # fmt: skip
    needed = {column.name for column in columns} | set(keys) | set(schema.primary_key)
    for stored in database.rows(name, [column for column in declared if column in needed]):
        table.rows.append(Row(stored, _converted_cells(table, stored)))
    for column in columns:
        if column.stype == "timestamp" and column.schema.form == values.ANY_TIME:
            found = [row.stored[column.name] for row in table.rows]
            if values.is_doubtful([value for value in found if isinstance(value, int)]):
                refuse(name, column.name, "holds integers that cannot be seconds")
    sort_rows(table)
    return table


def _converted_cells(table: Table, stored: dict[str, Stored]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for column in table.columns:
        value = stored[column.name]
        try:
            cells[column.name] = values.converted(value, column.stype, column.schema.form)
        except values.Unfit as fault:
            refuse(table.name, column.name, str(fault))
        if column.stype == "numerical" and values.is_not_finite(value):
            column.not_finite += 1
    return cells


def sort_rows(table: Table) -> None:
    if not table.primary_key:
        table.rows.sort(key=lambda row: cbor.encode(table.sorting_values(row)))
        return
    for row in table.rows:
        for column in table.primary_key:
            if row.stored[column] is None:
                refuse(table.name, column, "is null in a primary key")

    def primary_key_of(row: Row) -> list[Any]:
        return [values.key_order(row.stored[name]) for name in table.primary_key]

    table.rows.sort(key=primary_key_of)
    for before, after in zip(table.rows, table.rows[1:]):
        if primary_key_of(before) == primary_key_of(after):
            refuse(table.name, "+".join(table.primary_key), "has the same primary key twice")
