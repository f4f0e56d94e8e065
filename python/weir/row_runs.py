"""Runs of rows: tables that many processes have read, as sorted and hashed files that `weir assemble` makes a store of
(docs/spec/09-runs-of-rows.md). weir.spark uses this; so can Ray, Dask, or any program with Arrow tables.

    piece = weir.row_runs.write(batches, "shop.runs", "orders", key=["order_id"])      in each worker
    weir.row_runs.commit("shop.runs", pieces, name="shop", schema="shop.schema.json")  at the end, once
    weir.assemble("shop.runs", "shop.weir")
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, TypedDict

from weir import _weir
from weir._folder import Folder
from weir._ingest import ArrowTable, Path
from weir._row_runs import LIST, SCHEMA

__all__ = ["File", "Piece", "commit", "write"]

FORMAT = "weir-run/1"


class File(TypedDict):
    path: str
    rows: int
    size: int
    hash: str


class Piece(TypedDict):
    """What one call of `write` has written. JSON can hold it."""

    table: str
    sql: str | None
    columns: list[list[str]]
    key: list[str]
    files: list[File]


class _Writer:
    """The files of one call of `write`: each has a name that no other call gives."""

    def __init__(self, folder: Folder, table: str) -> None:
        self.folder = folder
        self.stem = re.sub("[^A-Za-z0-9_-]", "_", table)[:100]
        self.files: list[File] = []
        self.name = ""
        self.file: BinaryIO | None = None

    def write(self, data: bytes) -> None:
        if self.file is None:
            self.name = f"{self.stem}-{uuid.uuid4().hex}.rows"
            self.file = self.folder.create(self.name)
        self.file.write(data)

    def end(self, rows: int, size: int, hash: str) -> None:
        assert self.file is not None
        self.folder.finish(self.file)
        self.file = None
        self.files.append({"path": self.name, "rows": rows, "size": size, "hash": hash})

    def abandon(self) -> None:
        """Removes what can be removed: why the call failed is what the caller should hear."""
        names = [file["path"] for file in self.files]
        if self.file is not None:
            with suppress(OSError):  # of a full disk, which it writes to once more
                self.file.close()
            names.append(self.name)
        for name in names:
            with suppress(OSError):
                self.folder.remove(name)


def write(
    rows: ArrowTable, folder: Path, table: str, *, key: Sequence[str] = (), sql: str | None = None, frame_size: int = 0
) -> Piece:
    """Writes rows of a table into a folder, and returns what `commit` has to know of them.

    rows: anything with Arrow's C stream interface; they are streamed. key: the columns that they are sorted by, which
    are best the table's primary key; a row that comes too early begins another file. sql: the rows are the result of
    this query of the schema (`table` is then any name), which is not run again. folder: a path, or with pyarrow a URL
    of any filesystem that it has. Call it again after a failure: no call gives the name of another's file, and only
    pieces that are given to `commit` count.
    """
    writer = _Writer(Folder(folder), table)
    try:
        columns = _weir._write_row_runs((table, rows, 0), tuple(key), frame_size, writer.write, writer.end)
    except BaseException:
        writer.abandon()
        raise
    return {"table": table, "sql": sql, "columns": json.loads(columns), "key": list(key), "files": writer.files}


def commit(
    folder: Path, pieces: Iterable[Piece], *, name: str, schema: Path | Mapping[str, Any] | None = None
) -> None:
    """Says which pieces make up the tables, once all of them are there; until then, the folder cannot be assembled.

    name: what the store's datasets begin with, if the schema does not say it. schema: a file or a dict, kept in the
    folder for `weir assemble`. Runs in the folder that are not of these pieces, such as those of a worker that failed,
    are removed.
    """
    place = Folder(folder)
    document: dict[str, Any] = {"format": FORMAT, "name": name, "tables": {}, "queries": {}}
    for piece in pieces:
        is_query = piece["sql"] is not None
        said: dict[str, Any] = {"sql": piece["sql"]} if is_query else {}
        said |= {"columns": piece["columns"], "key": piece["key"], "files": []}
        known = document["queries" if is_query else "tables"].setdefault(piece["table"], said)
        if any(known.get(part) != said.get(part) for part in ("sql", "columns", "key")):
            raise ValueError(f"two pieces of {piece['table']!r} have different columns, keys or queries")
        known["files"] += piece["files"]
    if schema is not None:
        place.replace(SCHEMA, _schema_bytes(schema))
    place.replace(LIST, json.dumps(document, indent=1).encode())
    listed = {file["path"] for part in ("tables", "queries") for one in document[part].values() for file in one["files"]}
    for other in place.names():
        if other.endswith(".rows") and other not in listed:
            place.remove(other)


def _schema_bytes(schema: Path | Mapping[str, Any]) -> bytes:
    if isinstance(schema, Mapping):
        return json.dumps(schema, indent=1).encode()
    with open(os.fspath(schema), "rb") as file:
        return file.read()
