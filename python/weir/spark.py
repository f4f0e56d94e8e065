"""weir for Apache Spark: tables that Spark reads become a store (docs/spark.md).

    import weir.spark

    tables = {"orders": spark.table("sales.orders"), "customers": spark.read.parquet("s3a://lake/customers")}
    weir.spark.ingest(spark, tables, "shop.weir", schema="shop.schema.json", runs="s3a://lake/shop.runs")

Spark scans, sorts each table by ranges of its primary key and runs the queries of the schema. Its executors convert
rows by weir's C code and write them as runs (weir.row_runs); this process merges them. A task that is run twice, because
its executor was lost or Spark speculated, writes files of its own names: the list of what counts is made here, of what
Spark says each task returned, and Spark takes one attempt at each.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import weir
from weir import row_runs
from weir._folder import Folder
from weir._ingest import IngestReport, Path
from weir._row_runs import assemble
from weir.row_runs import Piece

__all__ = ["ingest", "write"]

Tables = Mapping[str, DataFrame | str]
Schema = Path | Mapping[str, Any] | None
TIME_ZONE = "spark.sql.session.timeZone"


def ingest(
    spark: SparkSession, tables: Tables, out: Path, *, schema: Schema = None, runs: Path | None = None,
    partitions: int | None = None, **options: Any,
) -> IngestReport:  # fmt: skip
    """Makes a store of tables that Spark reads: the same as weir.ingest makes of the same rows in any other source.

    tables: by name, data frames or what spark.table takes. schema: a file or a dict; its queries are Spark SQL over
    `tables` (and what else Spark knows), with UTC as the time zone. Without a schema one is drafted, which needs no
    queries but sorts here and not in Spark.

    runs: a folder that every executor and this process can write: a path that they share, or a URL of a filesystem
    that pyarrow or fsspec has. It is kept, and `weir assemble` can make the store again. Without it the runs are put
    next to the store and removed. partitions: how many files a table becomes; by default as Spark divides it. The
    other options are those of weir.ingest.
    """
    if runs is not None:
        write(spark, tables, runs, schema=schema, partitions=partitions)
        return assemble(runs, out, schema=schema, **options)
    own = f"{os.path.abspath(out)}.runs"
    os.mkdir(own)  # one that is there is not ours to remove
    try:
        write(spark, tables, own, schema=schema, partitions=partitions, name=_stem(out))
        return assemble(own, out, schema=schema, **options)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def write(
    spark: SparkSession, tables: Tables, runs: Path, *, schema: Schema = None, partitions: int | None = None,
    name: str | None = None,
) -> None:  # fmt: skip
    """Writes tables that Spark reads as a folder of runs, for `weir assemble` here or elsewhere. Options as of `ingest`;
    name: what a draft calls the database, by default as the folder is called."""
    document = _document(schema)
    place = os.fspath(runs) if Folder.is_remote(runs) else os.path.abspath(runs)
    frames = {table: spark.table(one) if isinstance(one, str) else one for table, one in tables.items()}
    parts = _parts(document, frames)
    with _views(spark, {table: frames[table] for table, one in tables.items() if one != table}, any(part.sql for part in parts)):
        pieces = [piece for part in parts for piece in part.write(spark, place, partitions)]
    _check_that_all_are_here(place, pieces)
    row_runs.commit(place, pieces, name=name or _stem(place), schema=document)


class _Part:
    """A table or a query of the schema: what is written of it, and how."""

    def __init__(self, name: str, frame: DataFrame | None, key: Sequence[str] = (), sql: str | None = None) -> None:
        self.name = name
        self.frame = frame
        self.key = list(key)
        self.sql = sql

    def write(self, spark: SparkSession, folder: str, partitions: int | None) -> list[Piece]:
        """The pieces of all partitions, and first one without rows, which says the columns if there is no other."""
        frame = spark.sql(self.sql) if self.sql is not None else self.frame
        assert frame is not None
        if self.key:
            key = [frame[_quoted(column)] for column in self.key]
            ranges = frame.repartitionByRange(partitions, *key) if partitions else frame.repartitionByRange(*key)
            frame = ranges.sortWithinPartitions(*key)
        elif partitions:
            frame = frame.coalesce(partitions)
        rows = frame.mapInArrow(_writer(folder, self.name, self.key, self.sql, weir.__version__), "piece string").collect()
        empty = row_runs.write(frame.limit(0).toArrow(), folder, self.name, key=self.key, sql=self.sql)
        return [empty, *(json.loads(row.piece) for row in rows)]


def _writer(
    folder: str, table: str, key: Sequence[str], sql: str | None, version: str
) -> Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]:
    """What an executor runs over each partition: it writes the rows, and returns what it wrote."""

    def write(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        if weir.__version__ != version:
            raise RuntimeError(f"this executor has weir {weir.__version__}, but the driver has {version}: install the same")
        first = next(batches, None)
        if first is not None:
            rows = pyarrow.RecordBatchReader.from_batches(first.schema, itertools.chain([first], batches))
            piece = row_runs.write(rows, folder, table, key=key, sql=sql)
            yield pyarrow.RecordBatch.from_pydict({"piece": [json.dumps(piece)]})

    return write


# ---- What a schema asks for ----------------------------------------------------------------------------------------


def _document(schema: Schema) -> Mapping[str, Any] | None:
    if schema is None or isinstance(schema, Mapping):
        return schema
    with open(schema, encoding="utf-8") as file:
        document: dict[str, Any] = json.load(file)
    return document


def _parts(schema: Mapping[str, Any] | None, frames: Mapping[str, DataFrame]) -> list[_Part]:
    if schema is None:
        return [_Part(name, frame) for name, frame in frames.items()]
    parts: list[_Part] = []
    queries: dict[str, str] = {}  # by their text, each once
    for name, table in schema.get("tables", {}).items():
        if "query" in table:
            queries.setdefault(table["query"], f"table {name}")
            continue
        if name not in frames:
            raise ValueError(f"the schema names the table {name}, which is not among the tables: {', '.join(sorted(frames))}")
        parts.append(_table(name, frames[name], schema))
    for name, task in schema.get("tasks", {}).items():
        if "query" in task:
            queries.setdefault(task["query"], f"task {name}")
    return parts + [_Part(name, None, sql=sql) for sql, name in queries.items()]


def _table(name: str, frame: DataFrame, schema: Mapping[str, Any]) -> _Part:
    """A table, with the columns that the schema mentions anywhere: all others cannot matter to the store."""
    table = schema["tables"][name]
    primary_key = table.get("primary_key", [])
    key = [primary_key] if isinstance(primary_key, str) else list(primary_key)
    absent = [column for column in [*table.get("columns", {}), *key] if column not in frame.columns]
    if absent:
        raise ValueError(f"the schema names the column {name}.{absent[0]}, which is not there; it has {', '.join(frame.columns)}")
    mentioned = list(_texts(schema))
    used = [column for column in frame.columns if any(column in text for text in mentioned)]
    return _Part(name, frame.select(*(frame[_quoted(column)] for column in used)), key)


def _texts(document: Any) -> Iterator[str]:
    if isinstance(document, str):
        yield document
    elif isinstance(document, Mapping):
        for key, value in document.items():
            yield key
            yield from _texts(value)
    elif isinstance(document, Sequence):
        for value in document:
            yield from _texts(value)


# ---- Spark's surroundings ------------------------------------------------------------------------------------------


@contextmanager
def _views(spark: SparkSession, frames: Mapping[str, DataFrame], has_queries: bool) -> Iterator[None]:
    """The frames as temporary views, and times in UTC, while queries run."""
    if not has_queries:
        yield
        return
    made: list[str] = []
    zone = spark.conf.get(TIME_ZONE)
    try:
        spark.conf.set(TIME_ZONE, "UTC")
        for name, frame in frames.items():
            try:
                frame.createTempView(_quoted(name))
            except AnalysisException as error:
                raise ValueError(
                    f"the queries need a temporary view {name} of the table, but that cannot be made. If you have a view of "
                    f"this name, drop it (spark.catalog.dropTempView), or give it as the table: {{{name!r}: {name!r}}}"
                ) from error
            made.append(name)
        yield
    finally:
        for name in made:
            spark.catalog.dropTempView(name)
        spark.conf.set(TIME_ZONE, zone)


def _check_that_all_are_here(folder: str, pieces: Sequence[Piece]) -> None:
    here = set(Folder(folder).names())
    absent = [file["path"] for piece in pieces for file in piece["files"] if file["path"] not in here]
    if absent:
        raise FileNotFoundError(
            f"executors wrote {absent[0]} and {len(absent) - 1} other files into {folder}, but they are not there for this "
            "process: give `runs`, a folder that executors and this process share"
        )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _stem(path: Path) -> str:
    return os.path.basename(os.fspath(path).rstrip("/")).split(".")[0] or "tables"
