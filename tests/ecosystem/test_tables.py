"""Tables of pyarrow, pandas, polars, DuckDB and ADBC drivers through Arrow's C stream interface: one store, and that of Parquet files
of the same rows.

Environments: tables
"""

import datetime
import os
import sqlite3
import tempfile
import unittest
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

from support import require

require("pyarrow", "pandas", "polars", "duckdb", "adbc_driver_sqlite")

import adbc_driver_sqlite.dbapi  # noqa: E402
import duckdb  # noqa: E402
import pandas  # noqa: E402
import polars  # noqa: E402
import pyarrow  # noqa: E402
import pyarrow.dataset  # noqa: E402
import pyarrow.parquet  # noqa: E402
import weir  # noqa: E402

COUNT = 60_000  # enough for several threads
START = datetime.datetime(2024, 1, 1)


def orders() -> pyarrow.Table:
    rows = range(COUNT)
    return pyarrow.table({
        "id": pyarrow.array(rows, pyarrow.int32()),
        "customer_id": pyarrow.array([i * 7 % 500 if i % 11 else None for i in rows], pyarrow.int64()),
        "total": pyarrow.array([i / 8 for i in rows], pyarrow.float32()),
        "note": [None if i % 5 == 0 else f"note {i % 700} of an order, Ä" for i in rows],
        "kind": pyarrow.array(["red", "green", "blue", None][i % 4] for i in rows).dictionary_encode(),
        "at": pyarrow.array([START + datetime.timedelta(seconds=i * 61) for i in rows], pyarrow.timestamp("us")),
        "paid": [i % 3 == 0 for i in rows],
        "day": pyarrow.array([19000 + i % 900 for i in rows], pyarrow.date32()),
        "price": pyarrow.array([Decimal(i % 9999) / 100 for i in rows], pyarrow.decimal128(12, 2)),
    })  # fmt: skip


def customers() -> pyarrow.Table:
    return pyarrow.table({"id": pyarrow.array(range(500)), "name": [f"customer {i}" for i in range(500)]})


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.addClassCleanup(os.chdir, os.getcwd())
        os.chdir(holder.name)
        warnings.simplefilter("ignore", weir.IngestWarning)
        cls.tables = {"orders": orders(), "customers": customers()}
        Path("files").mkdir()
        for name, table in cls.tables.items():
            pyarrow.parquet.write_table(table, f"files/{name}.parquet", row_group_size=10_000)
        cls.schema = {**weir.draft_schema("files"), "name": "shop"}
        cls.schema["tasks"]["buys"] = {
            "query": "SELECT id, CAST(id % 2 = 0 AS INTEGER) AS buys FROM customers WHERE id < 400", "anchor_table": "customers",
            "anchor_key": "id", "target_column": "buys", "target_stype": "boolean",
        }  # fmt: skip
        cls.expected = weir.ingest("files", "files.weir", schema=cls.schema, embeddings=False).store_hash

    def check(self, tables: Any, **options: Any) -> None:
        report = weir.ingest(tables, "tables.weir", schema=self.schema, embeddings=False, **options)
        self.assertEqual(report.store_hash, self.expected)

    def test_the_draft_is_that_of_parquet(self) -> None:
        draft = {**weir.draft_schema(self.tables), "name": "shop"}
        draft["tasks"]["buys"] = self.schema["tasks"]["buys"]
        self.assertEqual(draft, self.schema)

    def test_pyarrow(self) -> None:
        self.check(self.tables, threads=1)
        self.check({name: table.to_reader(max_chunksize=777) for name, table in self.tables.items()}, threads=2)

    def test_a_dataset_that_is_scanned_each_time(self) -> None:
        files = {name: pyarrow.dataset.dataset(f"files/{name}.parquet") for name in self.tables}
        self.check({name: lambda d=d: d.scanner().to_reader() for name, d in files.items()})

    def test_pandas(self) -> None:
        self.check({name: table.to_pandas(types_mapper=pandas.ArrowDtype) for name, table in self.tables.items()})
        frame = self.tables["customers"].to_pandas()  # of numpy and Python objects
        self.check({"orders": self.tables["orders"], "customers": frame})

    def test_polars(self) -> None:
        self.check({name: polars.from_arrow(table) for name, table in self.tables.items()})

    def test_duckdb(self) -> None:
        connection = duckdb.connect()
        query = "SELECT * FROM 'files/{}.parquet' ORDER BY id DESC"
        self.check({name: connection.cursor().sql(query.format(name)) for name in self.tables})
        self.check({name: lambda name=name: connection.cursor().sql(query.format(name)) for name in self.tables})

    def test_adbc(self) -> None:
        """A driver's result is a stream; the store is that of the database itself."""
        rows = [(i, i % 40 if i % 9 else None, f"note {i % 30}" if i % 7 else None, i / 8) for i in range(5000)]
        with sqlite3.connect("adbc.sqlite") as database:
            database.execute("CREATE TABLE visits (id INTEGER PRIMARY KEY, up INTEGER, note TEXT, x REAL)")
            database.executemany("INSERT INTO visits VALUES (?, ?, ?, ?)", rows)
        database.close()
        schema = {"name": "adbc", "tables": {"visits": {"primary_key": "id", "columns": {
            "up": {"stype": "identifier", "foreign_key": "visits.id"}, "note": {"stype": "text"}, "x": {"stype": "numerical"}}}}}  # fmt: skip
        expected = weir.ingest("adbc.sqlite", "adbc.weir", schema=schema, embeddings=False).store_hash
        with adbc_driver_sqlite.dbapi.connect("adbc.sqlite") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT * FROM visits")
            report = weir.ingest({"visits": cursor.fetch_arrow()}, "driver.weir", schema=schema, embeddings=False)
        self.assertEqual(report.store_hash, expected)

    def test_a_producer_that_fails_in_the_middle(self) -> None:
        def batches() -> Any:
            yield from self.tables["orders"].to_batches(1000)[:3]
            raise RuntimeError("the network is gone")

        reader = pyarrow.RecordBatchReader.from_batches(self.tables["orders"].schema, batches())
        with self.assertRaisesRegex(weir.errors.SourceError, "table orders cannot be read: .*the network is gone"):
            weir.ingest({"orders": reader}, "never.weir")
        self.assertFalse(Path("never.weir").exists())

    def test_types_that_are_refused(self) -> None:
        for value, name in [([1], "a list"), ({"a": 1}, "a struct"), (pyarrow.scalar([("a", 1)], pyarrow.map_(pyarrow.string(), pyarrow.int8())), "a map")]:
            column = pyarrow.array([value.as_py()], value.type) if isinstance(value, pyarrow.Scalar) else pyarrow.array([value])
            with self.subTest(name), self.assertRaisesRegex(weir.errors.SourceError, f"table t, column x is {name} "):
                weir.ingest({"t": pyarrow.table({"x": column})}, "never.weir")

    def test_series_and_old_frames(self) -> None:
        with self.assertRaisesRegex(weir.errors.SourceError, "is a stream of single values"):
            weir.ingest({"t": polars.Series([1, 2])}, "never.weir")
        with self.assertRaisesRegex(TypeError, "has no __arrow_c_stream__"):
            weir.ingest({"t": {"x": [1]}}, "never.weir")  # type: ignore[dict-item]


if __name__ == "__main__":
    unittest.main()
