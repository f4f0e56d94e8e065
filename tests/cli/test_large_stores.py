"""Stores of more rows and seeds than 32 bits count (docs/spec/04e-format-2.md).

Nobody makes eight billion rows for a test: the files are written with holes, and read with `--verify none`. Beside
the large store there is one whose tables are short and whose seeds are as many; what a sequence holds does not
depend on how many rows there are before it, so both give the same batches.
"""

import json
import random
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT_ROOT), str(PROJECT_ROOT / "tests")]

from reference.manifest import Manifest  # noqa: E402
from reference.sampler import Sampler  # noqa: E402
from support import sparse_store  # noqa: E402
from support.batches import make_shop, run  # noqa: E402

MOST_ROWS = 2**32 - 2
SPLITS = [2**32 + 5000, 3000, 10]
DATASETS = {"sparse/seen/train": SPLITS[0], "sparse/seen/val": SPLITS[1], "sparse/y/train": sparse_store.FEW}

Json = Any


class Large(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name: str, *arguments: Any) -> Path:
        path = self.folder / f"{name}.weir"
        try:
            sparse_store.write(path, *arguments)
        except OSError as refused:
            self.skipTest(f"the filesystem has no room for files with holes: {refused}")
        return path

    def manifest(self, **batch: Json) -> Path:
        datasets = {key: {"id": "s", "version": "1", "cardinality": count, "hash": "0" * 64} for key, count in DATASETS.items()}
        document = {"seed": 1, "global_batch_size": 4, "datasets": datasets, "batch": {"sequence_length": 64, **batch}}
        path = self.folder / "m.json"
        path.write_text(json.dumps(document))
        return path

    def batch(self, store: Path, manifest: Path, dataset: str, stage: str, position: int) -> Json:
        built = run("batch", "--store", store, "--manifest", manifest, "--any-hash", "--verify", "none", "--dataset", dataset,
                    "--stage", stage, "--epoch", 0, "--position", position, "--world-size", 1, "--rank", 0, "--tensors")  # fmt: skip
        self.assertNotIn("error", built)
        return built

    def test_what_is_in_it(self) -> None:
        info = run("info", self.write("large", MOST_ROWS, SPLITS))
        self.assertEqual((info["format_version"], info["rows"]), (2, 2 * MOST_ROWS + sparse_store.FEW))
        self.assertEqual([table["row_start"] for table in info["tables"]], [0, MOST_ROWS, 2 * MOST_ROWS])
        self.assertEqual(info["datasets"]["sparse/seen/train"], SPLITS[0])

    def test_batches_do_not_depend_on_the_rows_before(self) -> None:
        stores = [self.write("large", MOST_ROWS, SPLITS), self.write("short", 100, SPLITS)]
        manifest = self.manifest(max_rows=32)
        rng = random.Random(5)
        last = [("sparse/seen/train", "eval", SPLITS[0] - 2), ("sparse/seen/val", "eval", SPLITS[1] - 4)]
        any_of = [("sparse/seen/train", "train", rng.randrange(SPLITS[0] // 4) * 4) for _ in range(3)]
        for step in last + any_of:
            large, short = (self.batch(store, manifest, *step) for store in stores)
            self.assertEqual(large, short)
            for sequence in large["sequences"]:
                distance = DATASETS[step[0]] - sequence["sample_index"]
                self.assertEqual(sequence["anchor_row"], max(0, sparse_store.FEW - distance))
                self.assertEqual(sequence["num_rows"], 32)

    def test_examples_do_not_depend_on_the_rows_before(self) -> None:
        stores = [self.write("large", MOST_ROWS, SPLITS), self.write("short", 100, SPLITS)]
        retrieval = {"walks": 200, "length": 5, "local_cells": 20, "fill": False}
        manifest = self.manifest(max_rows=40, labels=True, retrieval=retrieval, tensors=["example_ids"])
        for position in (0, 96):
            large, short = (self.batch(store, manifest, "sparse/y/train", "train", position) for store in stores)
            self.assertEqual(large, short)
            self.assertTrue(any(bytes.fromhex(large["tensors"]["example_ids"]["data"])), "no sequence has a second part")

    def test_samples_are_those_of_the_reference(self) -> None:
        store, manifest = self.write("short", 100, SPLITS), self.manifest()
        sampler = Sampler(Manifest.read(manifest.read_text()))
        for position in (0, 2**32 - 4, 2**32 + 96):
            built = self.batch(store, manifest, "sparse/seen/train", "train", position)
            expected = sampler.index_range("sparse/seen/train", 0, position, 4)
            self.assertEqual([sequence["sample_index"] for sequence in built["sequences"]], expected)

    def test_a_run_steps_resumes_and_is_replayed(self) -> None:
        store, manifest = self.write("large", MOST_ROWS, SPLITS), self.manifest()
        trace, whole, state = (self.folder / name for name in ("run.trace", "whole.trace", "run.checkpoint"))
        common = ["--store", store, "--manifest", manifest, "--any-hash", "--verify", "none", "--dataset", "sparse/seen/train"]
        saved = ["--trace", trace, "--trace-indices", "--checkpoint", state, "--resume", state]
        for steps in (7, 20):
            done = run("run", *common, "--steps", steps, "--workers", 2, *saved)
            self.assertEqual(done["step"], steps)
        run("run", *common, "--steps", 20, "--trace", whole, "--trace-indices")
        self.assertFalse(run("diff", trace, whole)["differs"])
        replayed = run("replay", trace)
        self.assertTrue(replayed["equal"] and replayed["steps"] == 20 and replayed["indices"] == 80)

    def test_what_a_format_cannot_number_is_refused(self) -> None:
        link = {"late": 0, "lists": 1, "repeated": 0, "table": 0}
        labels = {"horizon": 5, "labels": [0, 0], "observed": "at"}
        beyond = {
            "rows of format 1": (MOST_ROWS, [1, 0, 0], 1),
            "seeds of format 1": (100, SPLITS, 1),
            "seeds": (100, [2**56, 1, 0], 2),
            "rows of a table": (2**32 - 1, [1, 0, 0], 2),
            "seeds of a link task: splits": (100, SPLITS, 2, {"link": link}),
            "seeds of a task with label times: horizon": (100, SPLITS, 2, labels),
        }
        for name, arguments in beyond.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "s.weir"
                try:
                    sparse_store.write(path, *arguments)
                except OSError:
                    continue  # no file is so long here
                error = run("info", path)["error"]
                self.assertEqual(error["code_id"], "STORE_CORRUPT")
                self.assertIn(name.partition(": ")[2], error["message"])


class BothFormats(unittest.TestCase):
    """Runs of the golden shop: format 2 changes where a row's number begins, and nothing that a model sees."""

    def test_a_run_is_replayed_with_its_store(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            source, one = make_shop(folder, {"churn": "7d"})
            two, trace = folder / "two.weir", folder / "two.trace"
            made = run("ingest", source, "--schema", folder / "shop.schema.json", "-o", two, "--format", 2)
            self.assertNotEqual(made["store_hash"], run("info", one)["store_hash"])
            document = json.loads((folder / "two.manifest.json").read_text())
            document["batch"] = {"sequence_length": 128, "labels": True, "retrieval": {"walks": 50}}
            manifest = folder / "m.json"
            manifest.write_text(json.dumps(document))
            common = ["--manifest", manifest, "--any-hash", "--dataset", "shop/churn/train"]
            done = run("run", "--store", two, *common, "--steps", 6, "--workers", 2, "--trace", trace)
            self.assertEqual(done["step"], 6)
            self.assertEqual(run("replay", trace, "--store", two)["checked_sample_digests"], done["samples"])
            step = ["--epoch", 0, "--position", 0, "--world-size", 1, "--rank", 0]
            first, second = (run("batch", "--store", store, *common, *step, "--tensors") for store in (one, two))
            start = next(table["row_start"] for table in run("info", one)["tables"] if table["name"] == "customers")
            for sequence in second["sequences"]:
                sequence["anchor_row"] += start
            self.assertEqual(first, second)

    def test_contexts_and_keys(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            source, _ = make_shop(folder)
            schema = json.loads((folder / "shop.schema.json").read_text())
            schema["keys"] = True
            (folder / "shop.schema.json").write_text(json.dumps(schema))
            stores = [folder / f"format{number}.weir" for number in (1, 2)]
            for number, store in enumerate(stores, 1):
                run("ingest", source, "--schema", folder / "shop.schema.json", "-o", store, "--format", number)
            manifest = folder / "format1.manifest.json"
            one, two = (run("info", store, "--key", "customers", "109") for store in stores)
            self.assertEqual(one, {key: value for key, value in two.items() if key != "number"})
            self.assertEqual(run("info", stores[1], "--row", two["row"]), two)
            asked = {}
            for store, row in zip(stores, (one["row"], two["number"])):
                common = ["context", "--store", store, "--manifest", manifest, "--task", "churn", "--time", "2024-05-01"]
                by_row, by_key = (run(*common, *subject)["sequences"] for subject in (["--row", row], ["--key", "109"]))
                self.assertEqual(by_row, by_key)
                self.assertEqual((by_key[0]["anchor_row"], by_key[0]["anchor_key"]), (row, 109))
                asked[store] = by_key[0]["sample_digest"]
            self.assertEqual(asked[stores[0]], asked[stores[1]])
            [count] = [table["rows"] for table in run("info", stores[1])["tables"] if table["name"] == "customers"]
            common = ["context", "--store", stores[1], "--manifest", manifest, "--task", "churn", "--row"]
            self.assertNotIn("error", run(*common, count - 1))
            self.assertEqual(run(*common, count)["error"]["code_id"], "KEY_NOT_FOUND")


if __name__ == "__main__":
    unittest.main()
