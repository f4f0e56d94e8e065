"""weir.Store, weir.Manifest: what the program prints, and the columns of the database as arrays."""

import copy
import datetime
import hashlib
import json
import os
import pickle
import shutil
import sqlite3
import tempfile
import unittest
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import weir
from weir import _weir
from tests.support import warehouse
from tests.python.support import TRAIN, ShopTest, run_weir


def hash_of_bytes(array: weir.Array) -> str:
    """Through a buffer that asks for plain bytes."""
    return hashlib.sha256(array).hexdigest()


class Stores(ShopTest):
    def setUp(self) -> None:
        self.opened = weir.Store(self.store)

    def test_info_is_what_the_program_prints(self) -> None:
        self.assertEqual(self.opened.info, json.loads(run_weir("info", self.store, "--json")))
        self.assertEqual((self.opened.name, self.opened.hash), ("shop", self.opened.info["store_hash"]))

    def test_every_type_that_a_store_has_is_named(self) -> None:
        stored = [name for name, _ in _weir.STYPES if name != "ignored"]
        self.assertEqual([kind.name.lower() for kind in weir.SemanticType], stored)

    def test_datasets_are_the_manifests(self) -> None:
        for key, dataset in weir.Manifest(self.manifest).datasets.items():
            self.assertEqual(self.opened.datasets[key]["hash"], dataset["hash"])
            self.assertEqual(self.opened.datasets[key]["cardinality"], dataset["cardinality"])

    def test_columns_are_the_databases(self) -> None:
        """As multisets, since the store has its own order of rows."""
        database = sqlite3.connect("shop.sqlite")
        for table in self.opened.tables.values():
            for name in table:
                column = next(
                    c for c in self.opened.info["columns"] if (c["table"], c["name"]) == (table.name, name)
                )
                with self.subTest(table=table.name, column=name):
                    rows = database.execute(f'SELECT "{name}" FROM "{table.name}"').fetchall()
                    expected = [value for (value,) in rows if value is not None]
                    nulls, values = table.nulls(name).numpy(), table[name].numpy()
                    self.assertEqual((len(values), int(nulls.sum())), (len(rows), len(rows) - len(expected)))
                    self.compare(column, values[~nulls], expected)

    def compare(self, column: dict, values: np.ndarray, expected: list) -> None:
        if column["stype"] == "numerical":
            scaled = (np.array(expected, dtype=np.float64) - column["mean"]) / column["std"]
            np.testing.assert_array_equal(np.sort(values), np.sort(scaled.astype(np.float32)))
        elif column["stype"] == "boolean":
            self.assertEqual(int(values.sum()), sum(map(bool, expected)))
        elif column["stype"] in ("categorical", "text"):
            read = self.opened.category if column["stype"] == "categorical" else self.opened.text
            self.assertEqual(sorted(read(int(i)) for i in values), sorted(map(str, expected)))
        else:
            self.assertEqual(column["stype"], "timestamp")
            self.assertEqual(len(set(values.tolist())), len(set(expected)))

    def damaged(self, section: str) -> str:
        """A copy of the store with a bit flipped in the middle of a section."""
        place = next(s for s in self.opened.info["sections"] if s["name"] == section)
        data = bytearray(Path(self.store).read_bytes())
        data[place["offset"] + place["size"] // 2] ^= 1
        path = f"damaged-{section}.weir"
        Path(path).write_bytes(data)
        return path

    def test_damage_is_found_when_it_is_touched(self) -> None:
        rows = weir.Store(self.damaged("rows"))
        with self.assertRaises(weir.errors.StoreCorrupt) as raised:
            for table in rows.tables.values():
                for name in table:
                    table[name]
        self.assertIn("section rows of damaged-rows.weir", str(raised.exception))
        with self.assertRaises(weir.errors.StoreCorrupt):
            weir.Store(self.damaged("text_embeddings")).embeddings["texts"]
        texts = weir.Store(self.damaged("text_bytes"))
        with self.assertRaises(weir.errors.StoreCorrupt):
            for number in range(self.opened.embeddings["texts"].shape[0]):
                texts.text(number)
        with self.assertRaises(weir.errors.StoreCorrupt):
            weir.Store("damaged-rows.weir", verify="all")
        with self.assertRaises(weir.errors.Error):
            weir.Store("damaged-rows.weir", verify="some")
        trusting = weir.Store("damaged-rows.weir", verify="none")
        self.assertEqual(pickle.loads(pickle.dumps(trusting)).hash, self.opened.hash)
        for table in trusting.tables.values():
            for name in table:
                table[name]

    def test_a_loader_verifies_what_it_touches(self) -> None:
        for verify, steps in ("touched", 3000), ("none", 20):
            path = "damaged-rows.weir" if Path("damaged-rows.weir").exists() else self.damaged("rows")
            loader = weir.Loader(path, self.changed_manifest(), dataset=TRAIN, steps=steps, verify=verify, any_hash=True)
            if verify == "none":
                self.assertEqual(sum(1 for _ in loader), steps)
                continue
            with self.assertRaises(weir.errors.StoreCorrupt):
                for _ in loader:
                    pass

    def test_a_store_that_is_read_ahead_gives_the_same_batches(self) -> None:
        def take(store: Any, **options: Any) -> tuple[list[str | None], int]:
            loader = weir.Loader(store, self.changed_manifest(), dataset=TRAIN, steps=3, epochs=1, with_digests=True, **options)
            return [batch.digest for batch in loader], loader.metrics()["stages"]["read"]["batches"]

        plain, read = take(self.store)
        self.assertEqual(read, 0)
        ahead = weir.Store(self.store, read_ahead=True)
        self.assertEqual(take(self.store, read_ahead=True), (plain, 3))
        self.assertEqual(take(pickle.loads(pickle.dumps(ahead))), (plain, 3))

    def test_a_store_that_is_cut_raises(self) -> None:
        Path("cut.weir").write_bytes(Path(self.store).read_bytes())
        loader = weir.Loader("cut.weir", self.changed_manifest(), dataset=TRAIN)
        next(loader)
        os.truncate("cut.weir", 8192)
        with self.assertRaises(weir.errors.IoError) as raised:
            for _ in loader:
                pass
        self.assertIn("cut.weir", str(raised.exception))

    def test_columns_are_views_of_the_file(self) -> None:
        orders = self.opened.tables["orders"]
        numerical = next(c["name"] for c in self.opened.info["columns"] if (c["table"], c["stype"]) == ("orders", "numerical"))
        array = orders[numerical]
        self.assertEqual(array.address, orders[numerical].address)
        self.assertEqual(array.numpy().ctypes.data, array.address)
        self.assertEqual(array.strides, (self.opened.info["tables"][4]["row_bytes"],))
        with self.assertRaises(KeyError):
            orders["order_id"]
        with self.assertRaises(KeyError):
            orders["nothing"]
        with self.assertRaises(IndexError):
            self.opened._column(10**6, False)
        self.assertFalse(memoryview(array).contiguous)
        with self.assertRaises(BufferError):
            hash_of_bytes(array)
        self.assertEqual(array.torch().tolist(), array.numpy().tolist())

    def test_columns_outlive_the_store(self) -> None:
        column = self.opened.tables["products"]["price"]
        expected = column.tolist()
        del self.opened
        self.assertEqual(column.numpy().tolist(), expected)

    def test_embeddings(self) -> None:
        embeddings = self.opened.embeddings
        self.assertEqual(embeddings["columns"].shape, (self.opened.info["num_columns"], 64))
        self.assertEqual(embeddings["texts"].dtype, "float16")
        norms = np.linalg.norm(embeddings["texts"].numpy().astype(np.float64), axis=1)
        self.assertTrue((norms > 0.5).all())
        with self.assertRaises(KeyError):
            self.opened._embeddings("rows")

    def test_a_store_without_embeddings(self) -> None:
        report = weir.ingest("shop.sqlite", "bare.weir", schema="shop.schema.json", embeddings=False)
        self.assertEqual(weir.Store(report.store_path).embeddings["texts"].shape[1], 0)

    def test_verify_and_damage(self) -> None:
        self.opened.verify()
        self.opened.verify(threads=2)
        damaged = bytearray(open(self.store, "rb").read())
        damaged[len(damaged) // 2] ^= 1
        with open("damaged.weir", "wb") as file:
            file.write(damaged)
        with self.assertRaises(weir.StoreError):
            weir.Store("damaged.weir").verify()

    def test_a_copy_is_never_of_another_store(self) -> None:
        path = shutil.copy(self.store, "replaced.weir")
        opened = weir.Store(path)
        pickled = pickle.dumps(opened)
        self.assertEqual(copy.deepcopy(opened).hash, opened.hash)
        run_weir("demo", "--scale", "1000", "--dir", "other", "--no-run")
        os.replace("other/shop.weir", path)
        for make in lambda: pickle.loads(pickled), lambda: copy.deepcopy(opened):
            with self.assertRaisesRegex(ValueError, "replaced.weir is no longer the store that is copied: it has the hash"):
                make()

    def test_stores_travel_by_path(self) -> None:
        again = pickle.loads(pickle.dumps(self.opened))
        self.assertEqual((again.hash, again.path), (self.opened.hash, self.opened.path))


class Cells(ShopTest):
    def test_cells_are_the_databases(self) -> None:
        """Every review's own cells, as the database has them."""
        store, database = weir.Store(self.store), sqlite3.connect("shop.sqlite")
        batch = weir.batch(store, self.manifest, "shop/rating/train")
        cells = list(batch.cells(store))
        self.assertEqual(len(cells), sum(batch.num_cells.tolist()))
        self.assertEqual([cell.is_target for cell in cells].count(True), batch.sequence_count)
        known = {table: {column: {row[0] for row in database.execute(f'SELECT "{column}" FROM "{table}"')} for column in found}
                 for table, found in store.tables.items()}
        seen = set()
        for cell in cells:
            if cell.is_null or cell.stype == "identifier":
                self.assertIsNone(cell.value)
                continue
            expected = known[cell.table][cell.column]
            seen.add(cell.stype)
            if cell.stype == "numerical":
                self.assertTrue(any(abs(cell.value - value) < 1e-3 for value in expected if value is not None), cell)
            elif cell.stype == "timestamp":
                time = datetime.datetime.fromtimestamp(cell.value / 1e6, datetime.timezone.utc)
                forms = {cell.value // 1000, time.strftime("%Y-%m-%d %H:%M:%S"), time.strftime("%Y-%m-%d"), str(time.date())}
                self.assertTrue(forms & expected, cell)
            else:
                self.assertIn(cell.value, expected)
        self.assertEqual(seen, {"numerical", "timestamp", "boolean", "categorical", "text"})
        derived = next(weir.batch(store, self.manifest, "shop/late/train").cells(store))
        self.assertEqual((derived.table, derived.column, derived.stype, type(derived.value)), (None, "late", "boolean", bool))
        self.check_seeds()
        with self.assertRaisesRegex(ValueError, "the batch is of the store"):
            next(batch.cells(type("Other", (), {"hash": "0" * 64})()))


    def check_seeds(self) -> None:
        """Seeds that are rows have their labels and times, as the task's query gives them."""
        schema = json.loads(Path("shop.schema.json").read_text())
        schema["tasks"] = {"churn": {**schema["tasks"]["churn"], "horizon": "1d"}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", weir.IngestWarning)
            weir.ingest("shop.sqlite", "labels.weir", schema=schema)
        store, database = weir.Store("labels.weir"), sqlite3.connect("shop.sqlite")
        rows = database.execute(schema["tasks"]["churn"]["query"])
        names = [column[0] for column in rows.description]
        task = schema["tasks"]["churn"]
        of = [dict(zip(names, row)) for row in rows]
        labels = {(str(row[task["observation_time_column"]])[:10], bool(row[task["target_column"]])) for row in of}
        manifest = weir.Manifest("labels.manifest.json", batch={"label_visibility": "all"})
        cells = list(weir.batch(store, manifest, "shop/churn/val", stage="eval").cells(store))
        shown = [(a.value, b.value) for a, b in zip(cells, cells[1:]) if a.column == "churn" and not a.is_target]
        found = {(str(datetime.datetime.fromtimestamp(at / 1e6, datetime.timezone.utc))[:10], label) for label, at in shown}
        self.assertGreater(len(shown), 20)
        self.assertLessEqual(found, labels)
        self.assertEqual({label for _, label in found}, {True, False})
        asked = list(store.context("churn", 5, "2024-09-01", manifest=manifest).cells(store))
        self.assertEqual([cell.value for cell in asked[:2]], [None, 1725148800000000])
        with self.assertRaises(KeyError):
            store._seed(0, len(of))


class Manifests(ShopTest):
    def test_changes(self) -> None:
        document = json.loads(Path(self.manifest).read_text())
        document["data"] = {"sampler_block_size": 100, "rotate": True}
        document["batch"] = {"max_rows": 9}
        changed = {**document, "seed": 2**64 - 1, "mix": {TRAIN: 2}, "data": {"sampler_block_size": 100, "rotate": False},
                   "batch": {"max_rows": 9, "max_hops": 1}}
        expected = weir.Manifest(changed)
        Path("changed.json").write_text(json.dumps(document))
        for source in document, "changed.json", Path("changed.json"), weir.Manifest(document):
            found = weir.Manifest(source, seed=2**64 - 1, mix={TRAIN: 2}, data={"rotate": False}, batch={"max_hops": 1})
            for identity in "hash", "mix_hash", "batch_config_hash":
                self.assertEqual(getattr(found, identity), getattr(expected, identity), identity)
        self.assertEqual(weir.Manifest(expected).hash, expected.hash)
        with self.assertRaisesRegex(weir.errors.ManifestInvalid, "batch_size"):
            weir.Manifest(self.manifest, batch_size=3)
        with self.assertRaises(FileNotFoundError):
            weir.Manifest("nowhere.json", seed=3)

    def test_a_manifest_is_what_the_program_prints(self) -> None:
        printed = json.loads(run_weir("manifest", self.manifest, "--json"))
        manifest = weir.Manifest(self.manifest)
        self.assertEqual(manifest.hash, printed["manifest_hash"])
        self.assertEqual(manifest.token.hex(), printed["replay_token"])
        self.assertEqual(manifest.mix_hash, printed["mix_hash"])
        self.assertEqual(manifest.batch_config_hash, printed["batch_config_hash"])

    def test_a_file_and_a_dict_are_the_same(self) -> None:
        document = json.load(open(self.manifest, encoding="utf-8"))
        manifest = weir.Manifest(document)
        self.assertEqual(manifest.hash, weir.Manifest(self.manifest).hash)
        self.assertEqual(manifest.seed, document.get("seed", 0))
        self.assertEqual(manifest.batch_config["sequence_length"], 1024)
        self.assertEqual(manifest.document["global_batch_size"], document["global_batch_size"])

    def test_a_batch_is_what_the_program_prints(self) -> None:
        printed = json.loads(
            run_weir("batch", "--store", self.store, "--manifest", self.manifest, "--dataset", TRAIN, "--epoch", "2",
                     "--position", "32", "--json")
        )
        batch = weir.batch(self.store, self.manifest, TRAIN, cursor=(2, 32))
        self.assertEqual(batch.digest, printed["batch_digest"])
        self.assertEqual([f"{d:016x}" for d in batch.sample_digests.tolist()],
                         [s["sample_digest"] for s in printed["sequences"]])
        self.assertEqual(batch.observation_time.tolist(), [s["observation_time"] for s in printed["sequences"]])
        self.assertEqual(list(batch.cursor_next), list(printed["cursor_next"].values()))
        self.assertEqual({name: list(array.shape) for name, array in batch.items()}, printed["shapes"])
        plain = weir.batch(self.store, self.manifest, TRAIN, with_digests=False)
        self.assertEqual((plain.digest, plain.sample_digests), (None, None))

    def test_a_step_of_the_mix(self) -> None:
        manifest = self.changed_manifest(mix={TRAIN: 2, "shop/rating/train": 1})
        found = {weir.batch([self.store], manifest, step=step).task for step in range(6)}
        self.assertEqual(found, {"churn", "rating"})
        with self.assertRaises(ValueError):
            weir.batch(self.store, manifest, cursor=(0, 0))


class KeysOfAStore(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        source, schema = Path(folder.name) / "w.sqlite", Path(folder.name) / "w.json"
        warehouse.write_sqlite(str(source))
        schema.write_text(warehouse.schema(), "utf-8")
        report = weir.ingest(source, Path(folder.name) / "w.weir", schema=schema)
        self.store, self.manifest = weir.Store(report.store_path), report.manifest_path

    def test_keys_are_the_databases(self) -> None:
        self.assertEqual(list(self.store.keys("orders")), [1, 2, 3, 5, 8])
        lines = self.store.keys("order.lines")
        self.assertEqual(list(lines), [(1, 1), (1, 2), (2, 1), (3, 1), (5, 1), (8, 1)])
        self.assertEqual((lines.columns, len(lines)), (("order_id", "line"), 6))
        self.assertEqual(list(self.store.keys("places")), [("de", "Bonn"), ("de", "Ulm"), ("no", "Oslo"), ("pe", "Lima")])

    def test_rows_are_found_by_key(self) -> None:
        for table in ("orders", "order.lines", "places", "big_orders", "open"):
            keys = self.store.keys(table)
            start = self.store.tables[table].row_start
            self.assertEqual([keys.row(key) for key in keys], list(range(start, start + len(keys))))
        orders, places = self.store.keys("orders"), self.store.keys("places")
        self.assertEqual(orders.row(8.0), orders.row(8))
        for key in (4, 9, "8", 8.5, 2**70, (8, 1), b"8"):
            with self.assertRaises(KeyError):
                orders.row(key)
        for key in ("de", ("de", "Oslo"), ("de", 1), ("de", "Ulm", 1)):
            with self.assertRaises(KeyError):
                places.row(key)

    def test_no_row_has_a_key_that_is_not_a_number(self) -> None:
        source = str(Path(self.manifest).with_name("prices.sqlite"))
        database = sqlite3.connect(source)
        database.execute("CREATE TABLE prices (price REAL PRIMARY KEY, sold INTEGER)")
        database.executemany("INSERT INTO prices VALUES (?, ?)", [(0.5, 1), (1.5, 2), (2.25, 3)])
        database.commit()
        task = {"query": "SELECT price, sold FROM prices", "anchor_table": "prices", "anchor_key": "price",
                "target_column": "sold", "target_stype": "numerical"}
        schema = {"keys": True, "tables": {"prices": {"primary_key": "price", "columns": {"sold": {"stype": "numerical"}}}},
                  "tasks": {"sold": task}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", weir.IngestWarning)
            keys = weir.Store(weir.ingest(source, source + ".weir", schema=schema).store_path).keys("prices")
        self.assertEqual([keys.row(key) for key in (0.5, 1.5, 2.25)], [0, 1, 2])
        for key in (float("nan"), float("inf"), -float("inf"), 1.0):
            with self.assertRaises(KeyError):
                keys.row(key)

    def test_predictions_are_joined_back(self) -> None:
        batch = weir.batch(self.store, self.manifest, "warehouse/returned/train", cursor=(0, 0))
        keys = self.store.keys("order.lines")
        rows = batch.anchor_row
        self.assertEqual(keys[rows], [keys[int(row)] for row in rows.tolist()])
        self.assertEqual(sorted(keys[rows.numpy()]), [(2, 1), (3, 1)])
        with self.assertRaises(IndexError):
            keys[0]

    def test_a_store_of_format_2_counts_rows_within_tables(self) -> None:
        """The same batches, which are joined back by the same keys."""
        source, schema, two = (str(Path(self.store.path).with_name(name)) for name in ("w.sqlite", "w.json", "two.weir"))
        run_weir("ingest", source, "--schema", schema, "-o", two, "--format", "2")
        other, table = weir.Store(two), self.store.tables["order.lines"]
        self.assertEqual((self.store.info["format_version"], other.info["format_version"]), (1, 2))
        step = ("warehouse/returned/train",)
        first, second = (weir.batch(s, self.manifest, *step, cursor=(0, 0), any_hash=True, with_digests=True) for s in (self.store, other))
        self.assertEqual(first.digest, second.digest)
        self.assertEqual(first.anchor_key, second.anchor_key)
        self.assertEqual([row - table.row_start for row in first.anchor_row.tolist()], second.anchor_row.tolist())
        self.assertEqual((first.rows.dtype, second.rows.dtype), ("uint32", "uint64"))
        self.assertEqual(first.rows.tolist(), second.rows.tolist())
        self.assertEqual(second.copy().rows.tolist(), second.rows.tolist())
        self.assertEqual([list(cell) for cell in first.cells(self.store)], [list(cell) for cell in second.cells(other)])
        keys = other.keys("order.lines")
        self.assertEqual(keys[second.anchor_row], first.anchor_key)
        self.assertEqual([keys.row(key) for key in keys], list(range(len(keys))))
        by_row, by_key = (other.context("returned", **asked) for asked in ({"row": keys.row((2, 1))}, {"key": (2, 1)}))
        self.assertEqual((by_row.anchor_key, by_row.anchor_row.tolist()), ([(2, 1)], by_key.anchor_row.tolist()))

    def test_a_store_without_keys_says_so(self) -> None:
        for table, word in (("returns", '"keys": true'), ("nothing", "no table")):
            with self.assertRaisesRegex(KeyError, word):
                self.store.keys(table)


if __name__ == "__main__":
    unittest.main()
