"""Tables that Spark reads become the store of the same rows in SQLite: however they are divided, in one process and in a
cluster, and after executors were killed in the middle of their work.

Environments: spark
"""

import datetime
import json
import os
import re
import shutil
import sqlite3
import sys
import tempfile
import unittest
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

from support import ROOT, require

require("pyspark", "pandas", "pyarrow", "fsspec")

import pyarrow  # noqa: E402
import pyarrow.parquet  # noqa: E402
import weir  # noqa: E402
import weir.row_runs  # noqa: E402
import weir.spark  # noqa: E402
from pyspark.sql import DataFrame, SparkSession  # noqa: E402

COUNT = 30_000
START = datetime.datetime(2024, 1, 1)

# In both dialects. The time is in UTC, though the session's zone is not.
LOYAL = """SELECT customer_id, COUNT(*) > 55 AS loyal, SUM(cents) AS spent FROM orders WHERE at < '2024-01-20 00:00:00'
           GROUP BY customer_id"""
SCHEMA: dict[str, Any] = {
    "name": "shop",
    "tables": {
        "customers": {"primary_key": "id", "columns": {"id": {"stype": "identifier"}, "name": {"stype": "text"},
                                                       "vip": {"stype": "boolean"}, "born": {"stype": "timestamp"}}},
        "orders": {"primary_key": ["shop", "number"], "temporal_column": "at", "columns": {
            "shop": {"stype": "categorical"}, "customer_id": {"stype": "identifier", "foreign_key": "customers.id"},
            "total": {"stype": "numerical"}, "price": {"stype": "numerical"}, "at": {"stype": "timestamp"},
            "note": {"stype": "text"}}},
        "visits": {"columns": {"customer_id": {"stype": "identifier", "foreign_key": "customers.id"}, "length": {"stype": "numerical"}}},
        "large": {"query": "SELECT shop, number, total FROM orders WHERE total > 3000", "primary_key": ["shop", "number"],
                  "columns": {"total": {"stype": "numerical"}}},
    },
    "tasks": {
        "loyal": {"query": LOYAL, "anchor_table": "customers", "anchor_key": "customer_id", "target_column": "loyal",
                  "target_stype": "boolean"},
        "spent": {"query": LOYAL, "anchor_table": "customers", "anchor_key": "customer_id", "target_column": "spent",
                  "target_stype": "numerical"},
    },
}  # fmt: skip


def made_tables() -> dict[str, pyarrow.Table]:
    rows = range(COUNT)
    orders = pyarrow.table({
        "unused": [f"{i} is not read" for i in rows],
        "shop": [["Köln", "Lyon", "Zürich", "Żory"][i % 4] for i in rows],
        "number": pyarrow.array([i * 7919 % COUNT for i in rows], pyarrow.int32()),
        "customer_id": pyarrow.array([i * 7 % 500 if i % 11 else None for i in rows], pyarrow.int64()),
        "total": [i / 8 for i in rows],
        "price": pyarrow.array([Decimal(i % 9999) / 100 for i in rows], pyarrow.decimal128(12, 2)),
        "cents": pyarrow.array([i % 9999 for i in rows], pyarrow.int32()),
        "at": pyarrow.array([START + datetime.timedelta(seconds=i * 61) for i in rows], pyarrow.timestamp("us", "UTC")),
        "note": [None if i % 5 == 0 else f"note {i % 700} of an order, Ä" for i in rows],
    })  # fmt: skip
    customers = pyarrow.table({
        "id": pyarrow.array(range(500)), "name": [f"customer {i}" for i in range(500)],
        "vip": [[True, False, None][i % 3] for i in range(500)],
        "born": pyarrow.array([datetime.date(1960, 1, 1) + datetime.timedelta(days=i * 31) for i in range(500)]),
    })  # fmt: skip
    visits = pyarrow.table({"customer_id": pyarrow.array([i % 600 for i in range(3000)]), "length": [i % 77 / 4 for i in range(3000)]})
    return {"customers": customers, "orders": orders, "visits": visits}


ROWS = made_tables()


def put_into_sqlite(tables: dict[str, pyarrow.Table], path: str) -> None:
    def cell(value: Any) -> Any:
        if isinstance(value, datetime.datetime):
            return value.strftime("%Y-%m-%d %H:%M:%S")
        return str(value) if isinstance(value, datetime.date) else float(value) if isinstance(value, Decimal) else value

    connection = sqlite3.connect(path)
    for name, table in tables.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(table.column_names)})")
        rows = zip(*(column.to_pylist() for column in table.columns))
        connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * table.num_columns)})", ([cell(v) for v in row] for row in rows))
    connection.commit()
    connection.close()


# Every process of Python in an executor runs this first. A file `kill` in the folder of faults is taken by the attempt that
# finishes its file next: the run is whole, but nobody hears of it.
FAULTS = """
import os, pathlib, signal, time
import weir._folder

faults = pathlib.Path(os.environ["WEIR_TEST_FAULTS"])
finish = weir._folder.Folder.finish

def taken(name):
    try:
        os.rename(faults / name, faults / f"{name}.taken")
    except FileNotFoundError:
        return False
    return True

def faulty(self, file):
    finish(self, file)
    with open(faults / "written", "a") as log:
        log.write("one\\n")
    if taken("kill"):
        daemon = os.getppid()
        executor = int(pathlib.Path(f"/proc/{daemon}/stat").read_text().rsplit(")", 1)[1].split()[1])
        assert b"CoarseGrainedExecutorBackend" in pathlib.Path(f"/proc/{executor}/cmdline").read_bytes()
        os.kill(executor, signal.SIGKILL)
        time.sleep(60)

weir._folder.Folder.finish = faulty
"""


def setUpModule() -> None:
    """One folder for all: Java's working directory is the one of the first session."""
    holder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(holder.cleanup)
    unittest.addModuleCleanup(os.chdir, os.getcwd())
    os.chdir(holder.name)
    put_into_sqlite(ROWS, "shop.sqlite")
    for name, table in ROWS.items():
        os.makedirs(f"files/{name}")
        pyarrow.parquet.write_table(table, f"files/{name}/all.parquet", row_group_size=COUNT // 6)
    os.mkdir("faults")
    os.mkdir("site")
    Path("site/sitecustomize.py").write_text(FAULTS)


class SparkTest(unittest.TestCase):
    master = ""

    @classmethod
    def setUpClass(cls) -> None:
        catcher = warnings.catch_warnings()
        catcher.__enter__()
        cls.addClassCleanup(catcher.__exit__, None, None, None)
        warnings.simplefilter("ignore", weir.IngestWarning)
        cls.expected = weir.ingest("shop.sqlite", "expected.weir", schema=SCHEMA, embeddings=False).store_hash
        cls.spark = cls.start(os.getcwd())
        cls.addClassCleanup(cls.spark.stop)

    @classmethod
    def start(cls, folder: str) -> SparkSession:
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # the machine's own name need not be known
        settings = {
            "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "3", "spark.sql.session.timeZone": "Asia/Tokyo",
            "spark.sql.files.maxPartitionBytes": "100k", "spark.sql.files.openCostInBytes": "0", "spark.local.dir": folder,
            "spark.sql.warehouse.dir": f"{folder}/warehouse", "spark.network.timeout": "60s",
            "spark.executorEnv.WEIR_TEST_FAULTS": f"{folder}/faults", "spark.executorEnv.PYTHONPATH": f"{folder}/site:{os.environ.get('PYTHONPATH', '')}",
        }  # fmt: skip
        builder = SparkSession.builder.master(cls.master)
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark: SparkSession = builder.getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        return spark

    def tables(self) -> dict[str, DataFrame]:
        return {name: self.spark.read.parquet(f"files/{name}") for name in ROWS}

    def check(self, partitions: int | None) -> None:
        report = weir.spark.ingest(self.spark, self.tables(), "shop.weir", schema=SCHEMA, partitions=partitions, embeddings=False)
        self.assertEqual(report.store_hash, self.expected)
        self.assertFalse(os.path.exists("shop.weir.runs"))


class Local(SparkTest):
    """Two threads of this process."""

    master = "local[2]"

    def test_any_number_of_partitions(self) -> None:
        for partitions in (1, 2, 8, None):
            with self.subTest(partitions=partitions):
                self.check(partitions)
        self.assertEqual(self.spark.conf.get("spark.sql.session.timeZone"), "Asia/Tokyo")
        self.assertEqual(self.spark.catalog.listTables(), [])

    def test_the_page_and_a_merge_elsewhere(self) -> None:
        page = (ROOT / "docs/spark.md").read_text()
        blocks = re.findall(r"```python\n(.*?)```", page, re.S)
        given = dict(SCHEMA, tables={name: SCHEMA["tables"][name] for name in ("customers", "orders")})
        Path("shop.schema.json").write_text(json.dumps(given))
        known: dict[str, Any] = {"spark": self.spark}
        exec(blocks[0], known)
        first = known["report"].store_hash
        self.assertEqual(first, weir.ingest("shop.sqlite", "two.weir", schema=given).store_hash)
        shutil.rmtree("shop.runs")
        exec(blocks[1], known)
        self.assertEqual(weir.assemble("shop.runs", "again.weir").store_hash, first)

    def test_runs_on_other_filesystems(self) -> None:
        tables = {"customers": self.tables()["customers"]}
        schema = {"name": "shop", "tables": {"customers": SCHEMA["tables"]["customers"]}}
        expected = weir.ingest("shop.sqlite", "one.weir", schema=schema).store_hash
        place = f"file://{os.getcwd()}/there"
        report = weir.spark.ingest(self.spark, tables, "there.weir", schema=schema, runs=place)
        self.assertEqual(report.store_hash, expected)
        piece = weir.row_runs.write(ROWS["customers"], "memory://a/runs", "customers", key=["id"])
        weir.row_runs.commit("memory://a/runs", [piece], name="shop", schema=schema)
        self.assertEqual(weir.assemble("memory://a/runs", "there.weir").store_hash, expected)

    def test_without_a_schema(self) -> None:
        names = ("customers", "visits")
        expected = weir.ingest({name: ROWS[name] for name in names}, "drafted.weir").store_hash
        weir.spark.write(self.spark, {name: self.tables()[name] for name in names}, "drafts.runs", name="tables")
        self.assertEqual(weir.assemble("drafts.runs", "drafts.weir").store_hash, expected)

    def test_a_table_without_rows(self) -> None:
        tables = {**self.tables(), "visits": self.spark.createDataFrame([], "customer_id long, length double")}
        weir.spark.write(self.spark, tables, "empty.runs", schema=SCHEMA)
        found = json.loads(Path("empty.runs/row-runs.json").read_text())["tables"]["visits"]
        self.assertEqual((found["columns"], found["files"]), ([["customer_id", "integer"], ["length", "real"]], []))

    def test_views_and_tables_of_the_session(self) -> None:
        tables: dict[str, Any] = self.tables()
        tables["orders"].createTempView("orders")
        self.addCleanup(self.spark.catalog.dropTempView, "orders")
        with self.assertRaisesRegex(ValueError, "temporary view orders .* {'orders': 'orders'}"):
            weir.spark.write(self.spark, tables, "views.runs", schema=SCHEMA)
        weir.spark.write(self.spark, {**tables, "orders": "orders"}, "views.runs", schema=SCHEMA)
        self.assertEqual([table.name for table in self.spark.catalog.listTables()], ["orders"])

    def test_what_is_refused(self) -> None:
        tables = self.tables()
        with self.assertRaisesRegex(ValueError, "names the table visits, which is not among the tables: customers, orders"):
            weir.spark.write(self.spark, {name: tables[name] for name in ("customers", "orders")}, "never.runs", schema=SCHEMA)
        with self.assertRaisesRegex(ValueError, "the column customers.vip, which is not there; it has id, name"):
            weir.spark.write(self.spark, {**tables, "customers": tables["customers"].drop("vip")}, "never.runs", schema=SCHEMA)
        lists = tables["visits"].selectExpr("customer_id", "array(length) AS length")
        with self.assertRaisesRegex(Exception, "table visits, column length is a list"):
            weir.spark.write(self.spark, {**tables, "visits": lists}, "never.runs", schema=SCHEMA)
        self.assertFalse(os.path.exists("never.runs/row-runs.json"))
        os.mkdir("kept.weir.runs")
        with self.assertRaises(FileExistsError):
            weir.spark.ingest(self.spark, tables, "kept.weir", schema=SCHEMA)
        self.assertTrue(os.path.exists("kept.weir.runs"))


class Cluster(SparkTest):
    """Two executors, each a process of its own with one core."""

    master = "local-cluster[2,1,1024]"

    def test_any_number_of_partitions(self) -> None:
        for partitions in (1, 2, 8):
            with self.subTest(partitions=partitions):
                self.check(partitions)

    def test_executors_that_are_killed(self) -> None:
        for table in (None, "visits"):  # a sorted table's partitions, whose shuffle is lost too, and one that is as it is
            with self.subTest(table=table):
                self.check_killed(table)

    def check_killed(self, table: str | None) -> None:
        tables = self.tables()
        schema = SCHEMA
        if table:
            schema = dict(SCHEMA, tables={name: SCHEMA["tables"][name] for name in (table, "customers", "orders")})
        expected = weir.ingest("shop.sqlite", "expected.weir", schema=schema, embeddings=False).store_hash
        Path("faults/written").write_text("")
        Path("faults/kill").touch()
        shutil.rmtree("shop.runs", ignore_errors=True)
        weir.spark.write(self.spark, tables, "shop.runs", schema=schema, partitions=4)
        self.assertTrue(os.path.exists("faults/kill.taken"))
        document = json.loads(Path("shop.runs/row-runs.json").read_text())
        listed = {file["path"] for part in ("tables", "queries") for one in document[part].values() for file in one["files"]}
        self.assertGreater(len(Path("faults/written").read_text().splitlines()), len(listed))
        self.assertEqual({name for name in os.listdir("shop.runs") if name.endswith(".rows")}, listed)
        self.assertEqual(weir.assemble("shop.runs", "killed.weir", embeddings=False).store_hash, expected)


if __name__ == "__main__":
    unittest.main()
