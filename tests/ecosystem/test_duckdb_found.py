"""DuckDB from pip, found by itself: by the command weir, by Python, and by a weir outside Python.

Environments: duckdb1, duckdb2
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import duckdb
import weir

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR, joined TIMESTAMP);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers (id), placed TIMESTAMP, total DOUBLE);
INSERT INTO customers SELECT i, 'name ' || i, TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR FROM range(200) t(i);
INSERT INTO orders SELECT i, i % 200, TIMESTAMP '2024-02-01' + INTERVAL (i) HOUR, i * 0.5 FROM range(1000) t(i);
"""


class Found(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.folder = Path(holder.name)
        connection = duckdb.connect(str(cls.folder / "shop.duckdb"))
        connection.execute(SHOP)
        connection.execute(f"COPY orders TO '{cls.folder}/orders.parquet'")
        connection.close()
        (cls.folder / "files").mkdir()
        (cls.folder / "orders.parquet").rename(cls.folder / "files" / "orders.parquet")

    def ingest(self, *program: str, **changes: str) -> str:
        environment = {**os.environ, **changes}
        environment.pop("WEIR_DUCKDB", None)
        command = [*program, "ingest", "shop.duckdb", "-o", "by.weir", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads(done.stdout)["store_hash"]

    def test_every_way_gives_the_same_store(self) -> None:
        command = self.ingest(str(Path(sys.executable).with_name("weir")))
        self.assertEqual(self.ingest(sys.executable, "-m", "weir"), command)
        self.assertEqual(self.ingest(os.environ["WEIR"], VIRTUAL_ENV=sys.prefix), command)
        report = weir.ingest(self.folder / "shop.duckdb", self.folder / "python.weir")
        self.assertEqual(report.store_hash, command)

    def test_parquet(self) -> None:
        report = weir.ingest(self.folder / "files", self.folder / "files.weir")
        self.assertEqual((report.tables, report.rows), (1, 1000))


if __name__ == "__main__":
    unittest.main()
