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
class DeclaredKey:
    columns: list[str]
    table: str
    to: list[str]


@dataclass
class DeclaredTable:
    name: str
    columns: dict[str, str] = field(default_factory=dict)  # name -> what it is declared as, in declared order
    primary_key: list[str] = field(default_factory=list)
    foreign_keys: list[DeclaredKey] = field(default_factory=list)


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
        self.tables = {name: self._declared(name) for name in self._names_of("table")}
        self._views = self._names_of("view")
        self._rows_of_queries: dict[str, list[tuple[Stored, ...]]] = {}
        self._resolve_foreign_keys()

    def close(self) -> None:
        self._connection.close()

    def _names_of(self, kind: str) -> list[str]:
        rows = self._connection.execute(
            "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = ?"
            " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
            (kind,),
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
        """As declared; where the same columns have several keys, the first counts. A key without columns to
        lead to means the parent's primary key. What leads nowhere is left out."""
        for table in self.tables.values():
            declared: dict[int, list[tuple[str, str, str | None]]] = {}
            for number, *key in self._connection.execute(
                'SELECT id, "from", "table", "to" FROM pragma_foreign_key_list(?) ORDER BY id DESC, seq',
                (table.name,),
            ):
                declared.setdefault(number, []).append(tuple(key))
            for key in declared.values():
                columns, to = [column for column, _, _ in key], [column for _, _, column in key]
                parent = self.tables.get(key[0][1])
                if parent is not None and None in to:
                    to = list(parent.primary_key)
                is_there = parent is not None and len(to) == len(columns) and set(to) <= parent.columns.keys()
                if is_there and all(columns != other.columns for other in table.foreign_keys):
                    table.foreign_keys.append(DeclaredKey(columns, parent.name, to))
            places = list(table.columns)
            table.foreign_keys.sort(
                key=lambda key: [places.index(column) for column in key.columns]
            )

    def provide(self, name: str, query: str | None) -> bool:
        """Makes a query's rows a table, or a view's; says whether there is such a table then. sqlite3.Error
        where the query fails, ValueError where its columns have no use."""
        if query is None and name in self.tables:
            return True
        if query is None and name not in self._views:
            return False
        names, rows = self.query(query or f"SELECT * FROM {_quoted(name)}")
        if not names or len(set(names)) < len(names):
            raise ValueError("gives no columns, or two with one name")
        self.tables[name] = DeclaredTable(name, dict.fromkeys(names, NOTHING))
        self._rows_of_queries[name] = rows
        return True

    def rows(self, table: str, columns: list[str]) -> list[dict[str, Stored]]:
        """The cells of some columns, row by row, in no particular order."""
        if table in self._rows_of_queries:
            names = list(self.tables[table].columns)
            places = {column: names.index(column) for column in columns}
            return [{c: cells[place] for c, place in places.items()} for cells in self._rows_of_queries[table]]
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
