"""The reference's store against the golden vectors: shop_small, hash_embed, timestamps.

Reads the vector files from the folder that WEIR_VECTORS names, or from tests/golden/vectors.
"""

import json
import os
import sqlite3
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))

from reference import embed, timestamps, values  # noqa: E402
from reference.database import Database  # noqa: E402
from reference.draft import draft_schema  # noqa: E402
from reference.moments import Statistics, statistics_of  # noqa: E402
from reference.store import Store, time_in_words  # noqa: E402
from reference.xxh64 import xxh64  # noqa: E402

VECTORS = Path(os.environ.get("WEIR_VECTORS", PROJECT_ROOT / "tests" / "golden" / "vectors"))
LARGEST_TABLE_WITH_KEYS = 1000


def vectors(name: str) -> dict[str, Any]:
    return json.loads((VECTORS / f"{name}.json").read_text("utf-8"))


class Timestamps(unittest.TestCase):
    def test_cases(self) -> None:
        for case in vectors("timestamps")["cases"]:
            with self.subTest(case=case):
                stored = case["text"] if "text" in case else case["integer"]
                micros = values.as_micros(stored, case.get("unit", "s"))
                self.assertEqual(micros, case["micros"])
                self.assertEqual(timestamps.cyclic_bytes(case["micros"]).hex(), case["cyclic"])

    def test_what_is_no_timestamp(self) -> None:
        for text in vectors("timestamps")["invalid"]:
            with self.subTest(text=text):
                self.assertIsNone(timestamps.from_text(text))


class Embeddings(unittest.TestCase):
    def test_cases(self) -> None:
        for case in vectors("hash_embed")["cases"]:
            with self.subTest(text=case["text"][:40], dim=case["dim"]):
                self.assertEqual(embed.hash_v1(case["text"], case["dim"]).hex(), case["f16"])

    def test_published_hashes(self) -> None:
        """From xxHash's own documentation and test suite."""
        self.assertEqual(xxh64(b""), 0xEF46DB3751D8E999)
        self.assertEqual(xxh64(b"abc"), 0x44BC2CF5AD770999)
        self.assertEqual(xxh64(b"Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1)


class Moments(unittest.TestCase):
    def test_values_that_are_equal_have_a_standard_deviation_of_1(self) -> None:
        """Also where the mean is rounded and its distance from them, squared, is beyond all numbers."""
        large = 7.378927316135787e239
        found = statistics_of([large] * 29)
        self.assertNotEqual(found.mean, large)
        self.assertEqual(found, Statistics(found.mean, 1.0, 29))
        self.assertEqual(statistics_of([1e308] * 2), Statistics(0.0, 1.0, 2))


class ShopSmall(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.expected = vectors("shop_small.store")
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = Path(cls.folder.name) / "shop_small.sqlite"
        with sqlite3.connect(cls.path) as connection:
            connection.executescript((VECTORS / "shop_small.sql").read_text("utf-8"))
        connection.close()
        cls.store = Store.ingest(cls.path, (VECTORS / "shop_small.schema.json").read_bytes())

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def test_info(self) -> None:
        info = self.store.info()
        for key, value in self.expected.items():
            if key not in ("about", "draft", "more"):
                with self.subTest(key=key):
                    self.assertEqual(info[key], value)

    def test_draft(self) -> None:
        database = Database(self.path)
        self.assertEqual(draft_schema(database), self.expected["draft"])
        database.close()

    def small_tables(self) -> list[Any]:
        return [table for table in self.store.tables if len(table.rows) <= LARGEST_TABLE_WITH_KEYS]

    def test_row_order(self) -> None:
        keys = {}
        for table in self.small_tables():
            shown = table.primary_key or [column.name for column in table.columns]
            keys[table.name] = [[row.stored[name] for name in shown] for row in table.rows]
        self.assertEqual(keys, self.expected["more"]["keys"])

    def test_row_times(self) -> None:
        times = {
            table.name: [time_in_words(table.row_time(table.row_start + i)) for i in range(len(table.rows))]
            for table in self.small_tables()
            if table.temporal_column is not None
        }
        self.assertEqual(times, self.expected["more"]["row_times"])

    def test_edges(self) -> None:
        edges = [
            {
                "table": edge_type.table.name,
                "column": edge_type.name,
                "children": {
                    str(parent): [[time_in_words(time), child] for time, child in children]
                    for parent, children in sorted(edge_type.children.items())
                },
            }
            for edge_type in self.store.edges
        ]
        self.assertEqual(edges, self.expected["more"]["edges"])

    def test_seeds(self) -> None:
        seeds = {
            task.name: [[seed.row, seed.time, seed.target, seed.split] for seed in task.seeds]
            for task in self.store.tasks
        }
        self.assertEqual(seeds, self.expected["more"]["seeds"])

    def test_what_is_embedded(self) -> None:
        more = self.expected["more"]
        self.assertEqual(self.store.column_texts(), more["column_texts"])
        self.assertEqual(self.store.category_texts(), more["category_texts"])
        self.assertEqual(self.store.texts, more["texts"])


if __name__ == "__main__":
    unittest.main()
