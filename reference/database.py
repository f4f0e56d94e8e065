"""A SQLite database as the specification sees one: tables with declared columns, keys, and stored values.

Follows the section "Sources" and the end of "Draft rules" of the specification. Values come as SQLite stores
them: None, int, float, str or bytes. Text that is not UTF-8 is SOURCE_ERROR where it is read.
"""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from .errors import WeirError
from .values import Stored

BOOLEAN, TIME, INTEGER, REAL, NUMERIC, TEXT, BLOB, NOTHING = (
    "boolean", "time", "integer", "real", "numeric", "text", "blob", "nothing",
)  # fmt: skip


@dataclass
class DeclaredTable:
    name: str
    columns: dict[str, str] = field(default_factory=dict)  # name -> what it is declared as, in declared order
    primary_key: list[str] = field(default_factory=list)
    foreign_keys: dict[str, tuple[str, str]] = field(default_factory=dict)  # column -> (table, column)


def declared_as(type_name: str) -> str:
    """What a declared type stands for: booleans and times by name, else SQLite's own rules of affinity."""
    upper = type_name.upper()
    if not upper:
        return NOTHING
    for words, meaning in (
        (("BOOL",), BOOLEAN),
        (("DATE", "TIME"), TIME),
        (("INT",), INTEGER),
        (("CHAR", "CLOB", "TEXT"), TEXT),
        (("BLOB",), BLOB),
        (("REAL", "FLOA", "DOUB"), REAL),
    ):
        if any(word in upper for word in words):
            return meaning
    return NUMERIC


def _decoded(text: bytes) -> str:
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise WeirError("SOURCE_ERROR", f"a text is not UTF-8: {text[:40]!r}") from None


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class Database:
    """A file, read only."""

    def __init__(self, path: str | Path) -> None:
        self.name = Path(path).stem
        self._connection = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
        self._connection.text_factory = _decoded
        self._connection.execute("PRAGMA query_only = 1")
        self.tables = {name: self._declared(name) for name in self._table_names()}
        self._resolve_foreign_keys()

    def close(self) -> None:
        self._connection.close()

    def _table_names(self) -> list[str]:
        rows = self._connection.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
        return sorted((name for (name,) in rows), key=lambda name: name.encode("utf-8"))

    def _declared(self, name: str) -> DeclaredTable:
        table = DeclaredTable(name)
        key_places: dict[str, int] = {}
        for column, type_name, key_place in self._connection.execute(
            "SELECT name, type, pk FROM pragma_table_xinfo(?) WHERE hidden <> 1 ORDER BY cid", (name,)
        ):
            table.columns[column] = declared_as(type_name)
            if key_place > 0:
                key_places[column] = key_place
        table.primary_key = sorted(key_places, key=key_places.__getitem__)
        return table

    def _resolve_foreign_keys(self) -> None:
        """Keys of one column, as declared; where a column has several, the first counts. A key without a
        column means the parent's primary key. What leads nowhere is left out."""
        for table in self.tables.values():
            declared = self._connection.execute(
                'SELECT "from", "table", "to" FROM pragma_foreign_key_list(?)'
                " GROUP BY id HAVING count(*) = 1 ORDER BY id DESC",
                (table.name,),
            ).fetchall()
            for column, parent_name, parent_column in declared:
                parent = self.tables.get(parent_name)
                if parent_column is None and parent is not None and len(parent.primary_key) == 1:
                    parent_column = parent.primary_key[0]
                if parent is not None and parent_column in parent.columns:
                    table.foreign_keys.setdefault(column, (parent_name, parent_column))

    def rows(self, table: str, columns: list[str]) -> list[dict[str, Stored]]:
        """The cells of some columns, row by row, in no particular order."""
        if not columns:
            return [{} for _ in self._connection.execute(f"SELECT 1 FROM {_quoted(table)}")]
        selection = ", ".join(_quoted(column) for column in columns)
        found = self._connection.execute(f"SELECT {selection} FROM {_quoted(table)}")
        return [dict(zip(columns, cells)) for cells in found]

    def query(self, sql: str) -> tuple[list[str], list[tuple[Stored, ...]]]:
        """A query's column names and rows; sqlite3.Error where it fails."""
        cursor = self._connection.execute(sql)
        names = [description[0] for description in cursor.description or ()]
        return names, cursor.fetchall()
