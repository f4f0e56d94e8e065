"""weir.Contexts and Store.context: what a model in use is asked is what it was trained and tested on."""

import contextlib
import datetime
import json
import os
import shutil
import sqlite3
import tempfile
import threading
import unittest
import warnings
import weakref
from pathlib import Path
from unittest import mock

import numpy as np
import weir
from tests.python.support import TRAIN, ShopTest, run_weir
from tests.support import warehouse

MAY = 1714521600_000000  # 2024-05-01


class Seeds(ShopTest):
    """Every seed of every split of the shop."""

    def test_a_stored_seed_has_the_digest_of_evaluation(self) -> None:
        store = weir.Store(self.store)
        compared = 0
        for policy in ("latest", "uniform"):
            manifest = weir.Manifest(self.changed_manifest(global_batch_size=64, batch={"sequence_length": 96, "child_policy": policy, "child_width": 3}))
            for task in {info["task"] for info in store.datasets.values()}:
                contexts = weir.Contexts(store, task, manifest, with_digests=True)
                keys = store.keys(next(t["anchor_table"] for t in store.info["tasks"] if t["name"] == task))
                asked: set[tuple[int, int]] = set()
                for split in ("train", "val", "test"):
                    dataset = f"shop/{task}/{split}"
                    if dataset not in manifest.datasets:
                        continue
                    for batch in weir.Loader(store, manifest, dataset=dataset, stage="eval", with_digests=True, rank=0, world_size=1):
                        places = list(zip(batch.anchor_row.tolist(), batch.observation_time.tolist()))
                        # Of seeds with one row and time, a request is the first.
                        first = [i for i, place in enumerate(places) if place not in asked and place not in places[:i]]
                        asked |= set(places)
                        if not first:
                            continue
                        answer = contexts([keys[places[i][0]] for i in first], [places[i][1] for i in first])
                        digests = batch.sample_digests.tolist()
                        self.assertEqual(answer.sample_digests.tolist(), [digests[i] for i in first], dataset)
                        self.assertEqual(answer.sample_index.tolist(), [batch.sample_index.tolist()[i] for i in first])
                        self.assertEqual(answer.target.values.tolist(), [batch.target.values.tolist()[i] for i in first])
                        compared += len(first)
        self.assertGreater(compared, 1000)

    def test_several_requests_are_what_each_is_alone(self) -> None:
        contexts = weir.Contexts(self.store, "churn", self.changed_manifest(), with_digests=True)
        together = contexts([3, 1, 2], ["2024-05-01", MAY + 1, None], seed=[None, 5, 2**64 - 1])
        alone = [contexts(3, "2024-05-01"), contexts(1, MAY + 1, seed=5), contexts(2, seed=2**64 - 1)]
        self.assertEqual(together.sample_digests.tolist(), [batch.sample_digests.tolist()[0] for batch in alone])
        self.assertEqual(together.position.tolist(), [0, 5, 2**64 - 1])

    def test_threads_take_the_walks_together(self) -> None:
        retrieval = {"walks": 3000, "length": 20, "local_cells": 32}
        manifest = weir.Manifest(self.changed_manifest(batch={"sequence_length": 256, "labels": True, "retrieval": retrieval}))
        store = weir.Store(self.store)
        first = store.tables["reviews"].row_start
        digests = {
            threads: store.context(
                "rating", row=[first, first + 5], manifest=manifest, threads=threads, with_digests=True
            ).sample_digests.tolist()
            for threads in (0, 1, 2, 3)
        }
        self.assertEqual(len(set(map(tuple, digests.values()))), 1)
        with self.assertRaisesRegex(weir.errors.ContractViolation, "at most 256"):
            weir.Contexts(store, "rating", manifest, threads=257)
        with self.assertRaises((OverflowError, ValueError)):
            weir.Contexts(store, "rating", manifest, threads=-1)

    def test_a_child_of_fork_does_without_helpers(self) -> None:
        retrieval = {"walks": 3000, "length": 20, "local_cells": 32}
        manifest = self.changed_manifest(batch={"sequence_length": 256, "labels": True, "retrieval": retrieval})
        contexts = weir.Contexts(self.store, "rating", manifest, with_digests=True, threads=2)
        row = weir.Store(self.store).tables["reviews"].row_start
        expected = contexts(row=row).sample_digests.tolist()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking a process that has threads
            child = os.fork()
        if child == 0:
            same = contexts(row=row).sample_digests.tolist() == expected
            del contexts
            os._exit(0 if same else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_the_program_says_the_same(self) -> None:
        store = weir.Store(self.store)
        answer = store.context("churn", [5, 7], "2024-05-01", with_digests=True)
        printed = json.loads(
            run_weir("context", "--store", self.store, "--task", "churn", "--key", "5", "--key", "7", "--time", "2024-05-01", "--json")
        )
        self.assertEqual(printed["batch_digest"], answer.digest)
        self.assertEqual([s["anchor_key"] for s in printed["sequences"]], [5, 7])
        self.assertEqual([s["split"] for s in printed["sequences"]], [None, None])


class Requests(ShopTest):
    def setUp(self) -> None:
        self.opened = weir.Store(self.store)
        self.contexts = weir.Contexts(self.opened, "churn", self.changed_manifest(), with_digests=True)

    def test_an_unknown_label_is_null(self) -> None:
        batch = self.contexts(5, "2024-05-01")
        tensors = batch.numpy()
        self.assertEqual((batch.task, batch.dataset), ("churn", "shop/churn/context"))
        self.assertEqual(batch.sample_index.tolist(), [2**64 - 1])
        self.assertEqual(batch.target.is_null.tolist(), [True])
        self.assertEqual((tensors["is_target"][0, 0], tensors["is_null"][0, 0], tensors["bool_values"][0, 0]), (1, 1, 0))
        self.assertEqual(batch.anchor_row.tolist(), [self.opened.keys("customers").row(5)])
        self.assertIn("shop/churn/context", repr(batch))
        self.assertIs(batch.store, self.opened)
        self.assertIs(self.opened.context("churn", 5).copy().store, self.opened)

    def test_a_cell_tasks_target_is_the_rows_own_cell(self) -> None:
        keys = self.opened.keys("reviews")
        batch = self.opened.context("rating", next(iter(keys)), "2031-01-01")
        self.assertEqual(batch.sample_index.tolist(), [2**64 - 1])
        self.assertEqual(batch.target.is_null.tolist(), [False])

    def test_times_in_every_form(self) -> None:
        utc = datetime.timezone.utc
        forms = [
            MAY,
            "2024-05-01",
            "2024-05-01T02:00:00+02:00",
            datetime.date(2024, 5, 1),
            datetime.datetime(2024, 5, 1),
            datetime.datetime(2024, 5, 1, tzinfo=utc),
            datetime.datetime(2024, 4, 30, 22, tzinfo=datetime.timezone(datetime.timedelta(hours=-2))),
            np.datetime64("2024-05-01"),
            np.datetime64("2024-05-01T00:00:00.000000000"),
            np.int64(MAY),
        ]
        for form in forms:
            self.assertEqual(self.contexts(5, form).observation_time.tolist(), [MAY], repr(form))
        several = self.contexts(np.array([5, 6]), np.array(["2024-05-01", "2024-05-02"], dtype="datetime64[s]"))
        self.assertEqual(several.observation_time.tolist(), [MAY, MAY + 86400_000000])
        self.assertEqual(self.contexts(5).observation_time.tolist(), [self.opened.tables["customers"]["signup_at"].tolist()[4]])

    def test_what_is_wrong_is_said(self) -> None:
        with self.assertRaisesRegex(LookupError, "customers has no row with the key 99999999"):
            self.contexts([5, 99999999])
        with self.assertRaisesRegex(LookupError, "no row with the key 'five'"):
            self.contexts("five")
        with self.assertRaises(weir.errors.KeyNotFound):
            self.contexts(row=0 if self.opened.tables["customers"].row_start else 10**6)
        with self.assertRaisesRegex(LookupError, "no task 'chrun'; it has: .*churn"):
            self.opened.context("chrun", 5)
        with self.assertRaisesRegex(ValueError, "a key of 2 values is given"):
            self.contexts((5, 6))
        for wrong in ["yesterday", "2024-13-01"]:
            with self.assertRaisesRegex(ValueError, "is not a time"):
                self.contexts(5, wrong)
        for arguments, kind in [((5, -(2**63)), ValueError), ((5, 2**63), OverflowError), (([5, 6], [1]), ValueError), (([],), ValueError)]:
            with self.assertRaises(kind):
                self.contexts(*arguments)
        with self.assertRaisesRegex(TypeError, "give a key or a row"):
            self.contexts()
        with self.assertRaisesRegex(TypeError, "is not a time"):
            self.contexts(5, 1.5)
        with self.assertRaises(FileNotFoundError):
            self.opened.context("churn", 5, manifest="nowhere.json")
        self.assertEqual(len(self.contexts(5)["column_ids"].tolist()), 1)  # and it still answers

    def test_a_batch_keeps_its_memory(self) -> None:
        kept = [self.contexts(key, "2024-05-01") for key in range(1, 60)]
        tensors = [batch.numpy()["column_ids"].copy() for batch in kept]
        arrays = [batch["column_ids"] for batch in kept]
        again = [self.contexts(key, "2024-05-01").numpy()["column_ids"].copy() for key in range(1, 60)]
        del kept
        for first, second, array in zip(tensors, again, arrays):
            np.testing.assert_array_equal(first, second)
            np.testing.assert_array_equal(first, np.asarray(array))
        contexts, batch = self.contexts, self.contexts(5)
        del contexts
        self.contexts = None  # type: ignore[assignment]
        self.assertEqual(batch.copy()["column_ids"].shape, (1, 64))

    def test_a_copy_knows_its_dataset_without_its_contexts(self) -> None:
        copies = [weir.Contexts(self.opened, "churn", self.manifest)(5).copy() for _ in range(20)]
        rubbish = [bytes([65]) * size for size in range(8, 2000, 8)]  # where they were
        self.assertEqual({copy.dataset for copy in copies}, {"shop/churn/context"})
        self.assertIn("shop/churn/context", repr(copies[0]))
        del rubbish

    def test_stores_that_are_none(self) -> None:
        for stores in [], [self.opened, self.opened]:
            with self.assertRaisesRegex(ValueError, f"contexts are of one store, and {len(stores)} are given"):
                weir.Contexts(stores, "churn", self.manifest)  # type: ignore[arg-type]
        with self.assertRaisesRegex(ValueError, "no store is given"):
            weir.batch([], self.manifest, TRAIN)
        for store in weakref.proxy(self.opened), mock.Mock(spec=weir.Store):
            with self.assertRaisesRegex(TypeError, "expected a weir.Store, not <"):
                weir.Contexts(store, "churn", self.manifest)
            with self.assertRaisesRegex(TypeError, "expected a weir.Store, not <"):
                weir.Loader(store, self.manifest, dataset=TRAIN)

    def test_threads_ask_at_once(self) -> None:
        expected = [self.contexts(key, "2024-05-01").digest for key in range(1, 41)]
        found: dict[int, list[str | None]] = {}

        def ask(number: int) -> None:
            found[number] = [self.opened.context("churn", key, "2024-05-01", manifest=manifest, with_digests=True).digest for key in range(1, 41)]

        manifest = weir.Manifest(self.changed_manifest())
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([found[number] for number in range(6)], [expected] * 6)

    def test_a_manifest_that_was_changed_is_read_again(self) -> None:
        store, path = weir.Store(self.store), Path("changed.manifest.json")
        document = self.changed_manifest()
        for length in 64, 128:
            document["batch"]["sequence_length"] = length
            path.write_text(json.dumps(document))
            for manifest in document, path:
                batch = store.context("churn", 5, MAY, manifest=manifest)
                self.assertEqual(batch.sequence_length, length)

    def test_the_manifest_beside_the_store_is_the_default(self) -> None:
        found = self.opened.context("churn", 5, "2024-05-01", with_digests=True)
        self.assertEqual(found.digest, weir.Contexts(self.store, "churn", self.manifest, with_digests=True)(5, "2024-05-01").digest)
        self.assertIsNone(self.opened.context("churn", 5).digest)


class NewData(ShopTest):
    """A model that was trained on the shop is served on a shop that has grown since."""

    def setUp(self) -> None:
        shutil.copy("shop.sqlite", "grown.sqlite")
        with contextlib.closing(sqlite3.connect("grown.sqlite")) as database:
            columns = {table: [row[1] for row in database.execute(f"PRAGMA table_info({table})")] for table in ("customers", "orders")}
            later = {"customer_id": "customer_id + 90000", "order_id": "order_id + 90000", "city": "'Atlantis'",
                     "signup_at": "'2030-01-01'", "ordered_at": "'2030-02-01'"}  # fmt: skip
            for table, names in columns.items():
                chosen = [later.get(name, f'"{name}"') for name in names]
                if table == "orders":  # of customers who were there before
                    chosen[names.index("customer_id")] = '"customer_id"'
                database.execute(f"INSERT INTO {table} SELECT {', '.join(chosen)} FROM {table} LIMIT 200")
            database.commit()
        with self.assertWarns(weir.IngestWarning) as caught:
            weir.ingest("grown.sqlite", "grown.weir", schema="shop.schema.json", like=weir.Store("shop.weir"))
        self.codes = {warning.message.code for warning in caught.warnings}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weir.ingest("grown.sqlite", "plain.weir", schema="shop.schema.json")

    def tensors(self, store: str, key: int) -> dict[str, np.ndarray]:
        batch = weir.Store(store).context("churn", key, "2024-05-01", manifest="shop.manifest.json")
        tensors = batch.numpy()
        tensors["texts"] = tensors.pop("text_batch_embeddings")[tensors.pop("text_embed_ids")]  # numbers are the batch's own
        tensors["texts"][tensors["semantic_types"] != weir.SemanticType.TEXT] = 0
        return {name: array.copy() for name, array in tensors.items()}

    def test_what_was_known_before_is_the_same(self) -> None:
        self.assertIn("like_new_categories", self.codes)
        differs = 0
        for key in range(1, 40):
            was, now, plain = (self.tensors(store, key) for store in ("shop.weir", "grown.weir", "plain.weir"))
            for name, tensor in was.items():
                np.testing.assert_array_equal(tensor, now[name], name)
            differs += not np.array_equal(was["categorical_embed_ids"], plain["categorical_embed_ids"])
        self.assertGreater(differs, 30)  # a store that is not like the first has other numbers

    def test_a_new_customer_is_served(self) -> None:
        batch = weir.Store("grown.weir").context("churn", 90001, "2030-03-01", manifest="shop.manifest.json")
        cells = list(batch.cells(weir.Store("grown.weir")))
        city = next(cell for cell in cells if (cell.table, cell.column, cell.row) == ("customers", "city", 0))
        self.assertTrue(city.is_null)


class CompositeKeys(unittest.TestCase):
    def test_a_key_of_several_columns_is_a_tuple(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "w.sqlite"
            warehouse.write_sqlite(str(source))
            weir.ingest(source, Path(folder) / "w.weir", schema=json.loads(warehouse.schema()))
            store = weir.Store(Path(folder) / "w.weir")
            tasks = {task["name"]: task["anchor_table"] for task in store.info["tasks"]}
            asked = 0
            for task, table in tasks.items():
                if "keys" not in next(described for described in store.info["tables"] if described["name"] == table):
                    continue
                keys = store.keys(table)
                for key in list(keys)[:3]:
                    batch = store.context(task, key)
                    self.assertEqual(keys[batch.anchor_row.tolist()[0]], key)
                    self.assertEqual(store.context(task, [key, key]).anchor_row.tolist(), batch.anchor_row.tolist() * 2)
                    asked += isinstance(key, tuple)
            self.assertGreater(asked, 0)


class TwoManifests(unittest.TestCase):
    def test_what_walks_remember_of_one_is_not_used_for_the_other(self) -> None:
        """Where blank rows are nobody's children, rows have other neighbours, in the same open store."""
        with tempfile.TemporaryDirectory() as folder:
            source, path = Path(folder) / "r.sqlite", Path(folder) / "r.weir"
            with contextlib.closing(sqlite3.connect(source)) as database:
                database.execute("CREATE TABLE users (id INTEGER PRIMARY KEY, age REAL)")
                database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, price REAL)")
                database.execute(
                    "CREATE TABLE ratings (id INTEGER PRIMARY KEY, user_id INTEGER REFERENCES users(id), "
                    "item_id INTEGER REFERENCES items(id), rating REAL)"
                )
                database.executemany("INSERT INTO users VALUES (?, ?)", ((i, i / 7) for i in range(100)))
                database.executemany("INSERT INTO items VALUES (?, ?)", ((i, i / 9) for i in range(150)))
                database.executemany(
                    "INSERT INTO ratings VALUES (?, ?, ?, ?)", ((i, i**2 * 31 % 100, i**3 * 47 % 150, i / 3) for i in range(400))
                )
                database.commit()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                weir.ingest(source, path)
            document = json.loads((Path(folder) / "r.manifest.json").read_text())
            batch = {"sequence_length": 128, "max_rows": 64, "identifiers": "omit", "labels": True}
            batch["retrieval"] = {"walks": 300, "length": 10, "local_cells": 32, "width": 4}
            manifests = [weir.Manifest({**document, "batch": {**batch, "blank_rows": blank}}) for blank in ("omit", "keep")]

            def digests(store: weir.Store, manifest: weir.Manifest) -> list[int]:
                rows = list(range(first := store.tables["ratings"].row_start, first + 40))
                return store.context("ratings.rating", row=rows, manifest=manifest, with_digests=True).sample_digests.tolist()

            alone = [digests(weir.Store(path), manifest) for manifest in manifests]
            self.assertNotEqual(*alone)
            for order in (0, 1), (1, 0):
                store = weir.Store(path)
                self.assertEqual({i: digests(store, manifests[i]) for i in order}, dict(enumerate(alone)))


if __name__ == "__main__":
    unittest.main()
