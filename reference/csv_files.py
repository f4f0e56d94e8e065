"""CSV files as a database: which files are tables, how their bytes are records, and what types columns have.

Follows "CSV files" in docs/spec/04-values.md. `CsvDatabase` looks like `Database`, which reads SQLite: the rest of
the reference does not know which of them it is given.
"""

import gzip
import re
import sqlite3
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Iterator

from . import timestamps, values
from .database import INTEGER, NOTHING, REAL, TEXT, DeclaredTable
from .errors import WeirError
from .values import Stored

ENDINGS = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".tab.gz")
MARKERS = ("\\N", "NA", "N/A", "#N/A", "NULL", "null", "None", "nan", "NaN", "-", "?")
HEAD_SIZE, DELIMITER_RECORDS, HEADER_RECORDS = 1 << 20, 100, 1_000
CANONICAL_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)", re.ASCII)
NOT_A_REAL = re.compile(r"\+.*|-?0[0-9].*", re.ASCII | re.DOTALL)


@dataclass
class CsvOptions:
    null: list[str] | None = None
    delimiter: str | None = None
    quote: str | None = None
    header: bool | None = None

    def over(self, under: "CsvOptions") -> "CsvOptions":
        """Each option of this one, or of the other where this one says nothing."""
        pairs = zip(vars(self).items(), vars(under).values())
        return CsvOptions(**{name: own if own is not None else other for (name, own), other in pairs})


@dataclass
class _Dialect:
    delimiter: str
    quote: str
    header: bool


@dataclass
class _File:
    path: Path
    folder_values: dict[str, str | None] = field(default_factory=dict)


def refuse(reason: str) -> WeirError:
    return WeirError("SOURCE_ERROR", reason)


# ---- Records -----------------------------------------------------------------------------------------------


def read_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    if path.name.lower().endswith(".gz"):
        data = gzip.decompress(data)
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise refuse(f"{path} is UTF-16")
    return data[3:] if data[:3] == b"\xef\xbb\xbf" else data


def records(data: bytes, dialect: _Dialect) -> Iterator[list[bytes]]:
    """The records of a file; a record without a byte is skipped."""
    delimiter, quote = dialect.delimiter.encode(), dialect.quote.encode()
    ends = re.compile(b"[" + re.escape(delimiter) + b"\r\n]")
    at = 0
    while at < len(data):
        if data[at : at + 1] in (b"\r", b"\n"):
            at += 1
            continue
        fields = []
        while True:
            content, at = _quoted(data, at, quote) if quote and data[at : at + 1] == quote else (b"", at)
            end = ends.search(data, at)
            stop = end.start() if end else len(data)
            fields.append(content + data[at:stop])
            at = stop + 1
            if data[stop : stop + 1] != delimiter:
                break
        yield fields


def _quoted(data: bytes, at: int, quote: bytes) -> tuple[bytes, int]:
    """The content of a quoted field, and the place after its closing quote."""
    content = b""
    at += 1
    while True:
        end = data.find(quote, at)
        if end < 0:
            raise refuse("a quoted field does not end")
        content += data[at:end]
        if data[end + 1 : end + 2] != quote:
            return content, end + 1
        content += quote
        at = end + 2


# ---- What content says -------------------------------------------------------------------------------------


def _is_integer(text: str) -> bool:
    return bool(CANONICAL_INTEGER.fullmatch(text)) and text != "-0" and -(2**63) <= int(text) < 2**63


def kind_of(text: str) -> str:
    if not text:
        return "empty"
    if _is_integer(text):
        return "integer"
    is_code = NOT_A_REAL.fullmatch(text) or CANONICAL_INTEGER.fullmatch(text) and text != "-0"
    if not is_code:
        if values.DECIMAL.fullmatch(text):
            return "real" if abs(float(text)) != float("inf") else "special"
        if values.NOT_FINITE.fullmatch(text):
            return "special"
    return "time" if timestamps.from_text(text) is not None else "text"


def find_delimiter(head: bytes, is_whole: bool, quote: str) -> str:
    best, most = ",", 1
    for candidate in ",;\t|":
        counts = {len(record) for record in _head_records(head, is_whole, _Dialect(candidate, quote, True), DELIMITER_RECORDS)}
        if len(counts) == 1 and max(counts) > most:
            best, most = candidate, max(counts)
    return best


def find_header(head: bytes, is_whole: bool, dialect: _Dialect) -> bool:
    found = _head_records(head, is_whole, dialect, 1 + HEADER_RECORDS)
    if not found:
        return True
    first, rest = found[0], found[1:]
    typed = []
    for number, name in enumerate(first):
        column = [record[number] for record in rest if number < len(record)]
        kinds = {kind_of(text) for text in column if text and text not in MARKERS}
        if kinds and kinds <= {"integer", "real", "time"}:
            typed.append(name)
    return not typed or any(kind_of(name) not in ("integer", "real", "time") for name in typed)


def _head_records(head: bytes, is_whole: bool, dialect: _Dialect, most: int) -> list[list[str]]:
    """The first records; a last one that may go on is left out."""
    found: list[list[str]] = []
    try:
        for record in records(head if is_whole else head + b"\n", dialect):
            found.append([text.decode("utf-8", "surrogateescape") for text in record])
            if len(found) > most:
                break
    except WeirError:
        pass
    else:
        if not is_whole and len(found) <= most and head[-1:] not in (b"\r", b"\n"):
            found = found[:-1]
    return found[:most]


# ---- The database ------------------------------------------------------------------------------------------


class CsvDatabase:
    """A folder or file of CSV, read whole."""

    def __init__(
        self,
        path: str | Path,
        line: CsvOptions | None = None,
        schema: CsvOptions | None = None,
        of_tables: dict[str, CsvOptions] | None = None,
        has_schema: bool = False,
    ) -> None:
        path = Path(path)
        self.skipped: list[Path] = []
        self._files = self._find(path)
        self.name = path.name[: -len(_ending(path.name) or "")] if path.is_file() else path.resolve().name
        self.tables: dict[str, DeclaredTable] = {}
        self.options: dict[str, CsvOptions] = {}
        self._cells: dict[str, list[dict[str, str]]] = {}
        self._folder_cells: dict[str, list[dict[str, str]]] = {}
        for table, files in sorted(self._files.items(), key=lambda item: item[0].encode()):
            said = (line or CsvOptions()).over((of_tables or {}).get(table, CsvOptions()))
            self._read(table, files, said.over(schema or CsvOptions()))
        self._find_types(looks_for_nulls=not has_schema)
        self._connection: sqlite3.Connection | None = None
        self._rows_of_queries: dict[str, list[dict[str, Stored]]] = {}

    # -- Files

    def _find(self, path: Path) -> dict[str, list[_File]]:
        if path.is_file():
            return {path.name[: -len(_ending(path.name) or "")]: [_File(path)]}
        entries = _entries(path) if path.is_dir() else _entries(path.parent, path.name)
        if any(entry.is_dir() and "=" in entry.name[1:] for entry in entries):
            return {path.resolve().name: self._collect(path, {})}
        tables: dict[str, list[_File]] = {}
        for entry in entries:
            ending = _ending(entry.name)
            if entry.is_dir():
                name, files = entry.name, self._collect(entry, {})
            elif ending:
                name, files = entry.name[: -len(ending)], [_File(entry)]
            else:
                self.skipped.append(entry)
                continue
            if name in tables and files:
                raise refuse(f"two files would be table {name}")
            if files:
                tables[name] = files
        if not tables:
            raise refuse(f"{path} has no CSV file")
        return tables

    def _collect(self, folder: Path, folder_values: dict[str, str | None]) -> list[_File]:
        files = []
        for entry in _entries(folder):
            if entry.is_dir():
                more = dict(folder_values)
                key, equals, value = entry.name.partition("=")
                if equals and key:
                    decoded = re.sub("%(?!00)([0-9a-fA-F]{2})", lambda m: chr(int(m[1], 16)), value)
                    more[key] = None if value == "__HIVE_DEFAULT_PARTITION__" else decoded
                files += self._collect(entry, more)
            elif _ending(entry.name):
                files.append(_File(entry, folder_values))
            else:
                self.skipped.append(entry)
        return sorted(files, key=lambda file: str(file.path).encode())

    # -- Content

    def _read(self, table: str, files: list[_File], options: CsvOptions) -> None:
        dialect = _find_dialect(files[0].path, options)
        rows: list[dict[str, str]] = []
        columns: list[str] = []  # of the files
        from_folders: list[str] = []
        for number, file in enumerate(files):
            found = [[_text(cell) for cell in record] for record in records(read_bytes(file.path), dialect)]
            if not found:
                raise refuse(f"{file.path} is empty")
            own = _column_names(found[0], dialect.header)
            if any("\0" in name for name in own):
                raise refuse(f"{file.path}: a column's name has a NUL")
            if number == 0:
                columns = own
                from_folders = _column_names(list(file.folder_values), True, own)
            names = own if dialect.header else columns
            if list(file.folder_values) != list(files[0].folder_values) or sorted(names) != sorted(columns):
                raise refuse(f"{file.path} has other columns")
            folder_values = dict(zip(from_folders, (value or "" for value in file.folder_values.values())))
            self._folder_cells.setdefault(table, []).append(folder_values)
            for record in found[1:] if dialect.header else found:
                if len(record) != len(names):
                    raise refuse(f"{file.path}: {len(record)} fields")
                rows.append(dict(zip(names, record)) | folder_values)
        self.tables[table] = DeclaredTable(table, dict.fromkeys(columns + from_folders, TEXT))
        self.options[table] = CsvOptions(options.null, dialect.delimiter, dialect.quote, dialect.header)
        self._cells[table] = rows

    def _cells_of(self, table: str, column: str) -> set[str]:
        """A column's cells; one from folders' names has a cell a file."""
        if column in self._folder_cells[table][0]:
            return {cells[column] for cells in self._folder_cells[table]}
        return {row[column] for row in self._cells[table]}

    def _find_types(self, looks_for_nulls: bool) -> None:
        proven: set[str] = set()
        for table, options in self.options.items():
            for column in self.tables[table].columns:
                cells = self._cells_of(table, column)
                others = {kind_of(cell) for cell in cells - set(MARKERS) if cell}
                is_proof = others & {"integer", "real", "time"} and "text" not in others
                if options.null is None and looks_for_nulls and is_proof:
                    proven |= cells & set(MARKERS)
        for table, options in self.options.items():
            if options.null is None:
                options.null = [marker for marker in MARKERS if marker in proven]
            for column in self.tables[table].columns:
                kinds = {kind_of(cell) for cell in self._cells_of(table, column) if cell not in options.null}
                kinds -= {"empty"}
                if kinds <= {"integer", "real", "special"} and kinds & {"integer", "real"}:
                    self.tables[table].columns[column] = INTEGER if kinds == {"integer"} else REAL

    # -- As a database

    def close(self) -> None:
        if self._connection:
            self._connection.close()

    def _stored(self, table: str, column: str, cell: str) -> Stored:
        if not cell or cell in self.options[table].null:
            return None
        declared = self.tables[table].columns[column]
        return int(cell) if declared == INTEGER else float(cell) if declared == REAL else cell

    def provide(self, name: str, query: str | None) -> bool:
        """Makes a query's rows a table; says whether there is such a table then."""
        if query is None:
            return name in self.tables
        names, rows = self.query(query)
        if not names or len(set(names)) < len(names):
            raise ValueError("gives no columns, or two with one name")
        self.tables[name] = DeclaredTable(name, dict.fromkeys(names, NOTHING))
        self._rows_of_queries[name] = [dict(zip(names, row)) for row in rows]
        return True

    def rows(self, table: str, columns: list[str]) -> list[dict[str, Stored]]:
        if table in self._rows_of_queries:
            return [{name: row[name] for name in columns} for row in self._rows_of_queries[table]]
        return [{name: self._stored(table, name, row[name]) for name in columns} for row in self._cells[table]]

    def query(self, sql: str) -> tuple[list[str], list[tuple[Stored, ...]]]:
        if self._connection is None:
            self._connection = sqlite3.connect(":memory:")
            for table in self.tables.values():
                names = ", ".join(f"{_quoted_name(name)} {kind}" for name, kind in table.columns.items())
                self._connection.execute(f"CREATE TABLE {_quoted_name(table.name)} ({names})")
                marks = ", ".join("?" * len(table.columns))
                self._connection.executemany(
                    f"INSERT INTO {_quoted_name(table.name)} VALUES ({marks})",
                    [tuple(row.values()) for row in self.rows(table.name, list(table.columns))],
                )
        cursor = self._connection.execute(sql)
        return [description[0] for description in cursor.description or ()], cursor.fetchall()


def _quoted_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _entries(folder: Path, pattern: str = "*") -> list[Path]:
    found = [entry for entry in folder.iterdir() if entry.name[0] not in "._" and fnmatchcase(entry.name, pattern)]
    return sorted(found, key=lambda entry: entry.name.encode())


def _ending(name: str) -> str | None:
    endings = [ending for ending in ENDINGS if name.lower().endswith(ending) and len(name) > len(ending)]
    return endings[0] if endings else None


def _find_dialect(path: Path, options: CsvOptions) -> _Dialect:
    whole = read_bytes(path)
    head, is_whole = whole[:HEAD_SIZE], len(whole) < HEAD_SIZE - 3
    quote = '"' if options.quote is None else options.quote
    delimiter = options.delimiter
    if delimiter is None:
        has_tabs = re.search(r"\.(?:tsv|tab)(?:\.gz)?$", path.name.lower())
        delimiter = "\t" if has_tabs else find_delimiter(head, is_whole, quote)
    dialect = _Dialect(delimiter, quote, True)
    dialect.header = find_header(head, is_whole, dialect) if options.header is None else options.header
    return dialect


def _text(cell: bytes) -> str:
    try:
        return cell.decode("utf-8")
    except UnicodeDecodeError:
        raise refuse(f"a text is not UTF-8: {cell[:40]!r}") from None


def _column_names(first: list[str], has_names: bool, taken: list[str] | None = None) -> list[str]:
    names = list(taken or [])
    start = len(names)
    for text in first:
        wanted = text.strip(" \t") if has_names else ""
        wanted = wanted or f"column{len(names)}"
        name, number = wanted, 0
        while name in names:
            number += 1
            name = f"{wanted}_{number}"
        names.append(name)
    return names[start:]
