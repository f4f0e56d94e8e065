"""Rows: a table's cells as they mean something, in the order that numbers them.

Follows the section "Numbering" and, for a row's time, "Time: what was known when" of the specification.
RowIdx is global: the tables in bytewise order of name, one after the other.
"""

from dataclasses import dataclass, field
from typing import Any, NoReturn

from . import cbor, values
from .database import Database
from .errors import WeirError
from .schema import ColumnSchema, TableSchema
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
    temporal_column: str | None
    declared_columns: list[str]
    schema: dict[str, ColumnSchema]  # of all columns that the schema names
    columns: list[Column]
    key_columns: list[str]  # foreign keys and their targets, also where they are ignored otherwise
    rows: list[Row] = field(default_factory=list)
    row_start: int = 0

    def cell(self, row: int, column: str) -> Any:
        return self.rows[row - self.row_start].cells[column]

    def row_time(self, row: int) -> int:
        """When a row came to be; "always" without a temporal column or where it is null."""
        time = None if self.temporal_column is None else self.cell(row, self.temporal_column)
        return ALWAYS if time is None else time

    def split_key(self, row: int) -> Any:
        """What a row is told apart by in a split that lasts."""
        stored = self.rows[row - self.row_start].stored
        if len(self.primary_key) == 1:
            return stored[self.primary_key[0]]
        if self.primary_key:
            return [stored[name] for name in self.primary_key]
        return self.sorting_values(self.rows[row - self.row_start])

    def rows_by(self, column: str) -> dict[Any, int]:
        """RowIdx by the value of a column that has no value twice; nulls are not in it."""
        found: dict[Any, int] = {}
        for number, row in enumerate(self.rows, self.row_start):
            value = row.stored[column]
            if value is None:
                continue
            key = values.key_order(value)
            if key in found:
                refuse(self.name, column, f"has the value {value!r} twice, though keys point to it")
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
    foreign_keys = {column for column, given in named.items() if given.foreign_key}
    keys = [column for column in declared if column in targets | foreign_keys]
    table = Table(name, schema.primary_key, schema.temporal_column, declared, named, columns, keys)
    needed = {column.name for column in columns} | set(keys) | set(schema.primary_key)
    for stored in database.rows(name, [column for column in declared if column in needed]):
        table.rows.append(Row(stored, _converted_cells(table, stored)))
    _sort(table)
    return table


def _converted_cells(table: Table, stored: dict[str, Stored]) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for column in table.columns:
        value = stored[column.name]
        try:
            cells[column.name] = values.converted(value, column.stype, column.schema.unit)
        except values.Unfit as fault:
            refuse(table.name, column.name, str(fault))
        if column.stype == "numerical" and values.is_not_finite(value):
            column.not_finite += 1
    return cells


def _sort(table: Table) -> None:
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
