"""Mixed batches on random databases: against the reference, against batches of one dataset, and as runs.

Each case is made from its own seed, which a failure names; see tests/support/cases.py.
"""

import json
import os
import random
import struct
import sys
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))
sys.path.insert(1, str(PROJECT_ROOT / "tests"))

from property.test_batch import any_labels, any_manifest  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from reference.mix import Mixer  # noqa: E402
from reference.mixed import MixedBuilder  # noqa: E402
from reference.sampler import Cursor  # noqa: E402
from reference.store import Store  # noqa: E402
from support import leak_database, random_database  # noqa: E402
from support.batches import differences, run  # noqa: E402
from support.cases import ONLY_CASE, RandomCases  # noqa: E402

CASES = int(os.environ.get("WEIR_PROPERTY_CASES", "60"))
CATEGORICAL = 4

Json = Any


def any_mix(rng: random.Random, datasets: Json) -> Json:
    chosen = rng.sample(sorted(datasets), rng.randint(1, min(6, len(datasets))))
    return {key: rng.choice([1, 1, 2, 3, 7]) for key in chosen}


def any_mixed_manifest(rng: random.Random, datasets: Json, batch_size: int | None = None) -> Json:
    document = any_manifest(rng, datasets, batch_size)
    document["mix"] = any_mix(rng, datasets)
    document["data"]["epoch_boundary"] = "stream"
    document["batch"].update(any_labels(rng), mixed=True)
    if rng.random() < 0.3:
        document["batch"]["sequence_length"] = rng.choice([[100], [300, 100], [7, 42, 21, 42], [120, 8]])
    if rng.random() < 0.2:
        document["data"]["sampling"] = {"mode": "class_balanced"}
    return document


class MixedCase(RandomCases):
    """Databases with different tables, each with a store of its own name."""

    def make_stores(self, rng: random.Random, folder: Path) -> tuple[list[Path], list[Store], Json]:
        paths, stores, datasets = [], [], {}
        dim = rng.choice([1, 8, 16])
        for i in range(rng.choice([2, 2, 3])):
            part = folder / f"part{i}"
            part.mkdir()
            database = part / "db.sqlite"
            if rng.random() < 0.5:
                schema = random_database.make(rng, database, rng.choice([12, 40]))
            else:
                schema = leak_database.make(rng, database)
            schema["name"] = f"{rng.choice('abzé')}{i}"
            schema["embedding"] = {"provider": "hash_v1", "dim": dim if rng.random() < 0.97 else dim + 1}
            schema_path, output = part / "schema.json", part / "out.weir"
            schema_path.write_text(json.dumps(schema), "utf-8")
            format = rng.choice([1, 2])
            ingested = run("ingest", database, "--schema", schema_path, "-o", output, "--manifest", part / "m.json",
                           "--format", format)  # fmt: skip
            if "error" in ingested:
                continue
            datasets.update(json.loads((part / "m.json").read_text("utf-8"))["datasets"])
            paths.append(output)
            stores.append(Store.ingest(database, json.dumps(schema), format=format))
        return paths, stores, datasets


def stores_of(paths: list[Path]) -> list[str | Path]:
    return [argument for path in paths for argument in ("--store", path)]


def mixed_batch(paths: list[Path], manifest: Path, cursor: Cursor, world_size: int = 1, rank: int = 0) -> Json:
    return run(
        "batch", *stores_of(paths), "--manifest", manifest, "--dataset", "*", "--epoch", cursor.epoch, "--position",
        cursor.global_index, "--world-size", world_size, "--rank", rank, "--tensors",
    )  # fmt: skip


def reference_batch(stores: list[Store], manifest: Path, cursor: Cursor, world_size: int, rank: int) -> Json:
    try:
        builder = MixedBuilder(stores, Manifest.read(manifest.read_text()))
        return builder.build(cursor, world_size, rank).as_json_value()
    except WeirError as refused:
        return {"error": {"code_id": refused.code_id}}


class MixedBatches(MixedCase):
    def test_every_tensor_is_that_of_the_reference(self) -> None:
        compared = across = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared, across
            paths, stores, datasets = self.make_stores(rng, folder)
            for i in range(4 if datasets else 0):
                document = any_mixed_manifest(rng, datasets)
                manifest = folder / f"m{i}.json"
                manifest.write_text(json.dumps(document))
                worlds = [n for n in range(1, 13) if document["global_batch_size"] % n == 0]
                world_size = rng.choice(worlds)
                rank = rng.randrange(world_size)
                _, cursor = Mixer(Manifest.read(manifest.read_text())).locate(rng.choice([0, 1, 5, 2**40]))
                built = mixed_batch(rng.sample(paths, len(paths)), manifest, cursor, world_size, rank)
                expected = reference_batch(stores, manifest, cursor, world_size, rank)
                self.assertEqual(differences(built, expected), [], (cursor, world_size, rank, document))
                compared += "error" not in expected
                across += "error" not in expected and len({d["first_column"] for d in expected["datasets"]}) > 1

        self.cases("mixed", check, max(1, CASES // 3))
        self.assertTrue(ONLY_CASE or (compared >= CASES // 3 and across >= CASES // 6), "hardly anything was compared")

    def test_a_sequence_is_that_of_a_batch_of_its_dataset(self) -> None:
        """But for the numbers of columns, categories and texts, which begin where its store does."""
        compared = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared
            paths, _, datasets = self.make_stores(rng, folder)
            if not datasets:
                return
            document = any_mixed_manifest(rng, datasets, batch_size=8)
            document["batch"]["sequence_length"] = 60
            document["batch"]["pad_rows"] = False
            manifest = folder / "m.json"
            manifest.write_text(json.dumps(document))
            mixed = mixed_batch(paths, manifest, Cursor(3, 0))
            if "error" in mixed:
                return
            sources = {source["dataset"]: source for source in mixed["datasets"]}
            for number, sequence in list(enumerate(mixed["sequences"]))[:4]:
                alone = run(
                    "batch", *stores_of(paths), "--manifest", manifest, "--dataset", sequence["dataset"], "--epoch",
                    sequence["epoch"], "--position", sequence["position"], "--tensors",
                )  # fmt: skip
                self.assert_same(mixed, number, alone, sources[sequence["dataset"]])
                compared += 1

        self.cases("alone", check, max(1, CASES // 6))
        self.assertTrue(ONLY_CASE or compared >= CASES // 6, "hardly anything was compared")

    def assert_same(self, mixed: Json, number: int, alone: Json, source: Json) -> None:
        in_mix = {**mixed["sequences"][number]}
        for name in ("dataset", "sample_digest"):
            in_mix.pop(name)
        first = {**alone["sequences"][0]}
        first.pop("sample_digest")
        self.assertEqual(in_mix, first)
        for name, tensor in alone["tensors"].items():
            if name in ("fk_adj", "text_embed_ids", "text_batch_embeddings"):
                continue
            cells = [self.row_of(mixed["tensors"][name], number), self.row_of(tensor, 0)]
            if name in ("column_ids", "categorical_embed_ids"):
                cells = [list(struct.unpack(f"<{len(data) // 4}I", data)) for data in cells]
                types = self.row_of(alone["tensors"]["semantic_types"], 0)
                nulls = self.row_of(alone["tensors"]["is_null"], 0)
                for i in range(first["num_cells"]):
                    if name == "column_ids":
                        cells[1][i] += source["first_column"]
                    elif types[i] == CATEGORICAL and not nulls[i]:
                        cells[1][i] += source["first_category"]
            self.assertEqual(cells[0], cells[1], name)
        self.assertEqual(self.texts_of(mixed, number), self.texts_of(alone, 0))

    @staticmethod
    def row_of(tensor: Json, number: int) -> bytes:
        data = bytes.fromhex(tensor["data"])
        size = len(data) // tensor["shape"][0]
        return data[number * size : (number + 1) * size]

    def texts_of(self, batch: Json, number: int) -> list[bytes]:
        """The embedding at each cell that has a text."""
        ids = self.row_of(batch["tensors"]["text_embed_ids"], number)
        types = self.row_of(batch["tensors"]["semantic_types"], number)
        nulls = self.row_of(batch["tensors"]["is_null"], number)
        places = struct.unpack(f"<{len(ids) // 4}I", ids)
        is_text = [kind == 5 and not null for kind, null in zip(types, nulls)]
        return [self.row_of(batch["tensors"]["text_batch_embeddings"], p) for p, has in zip(places, is_text) if has]


class MixedRuns(MixedCase):
    def test_any_world_workers_and_resume_give_the_same_sequences(self) -> None:
        ran = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal ran
            paths, stores, datasets = self.make_stores(rng, folder)
            if not datasets:
                return
            document = any_mixed_manifest(rng, datasets, batch_size=8)
            document["batch"]["sequence_length"] = rng.choice([40, [60, 20]])
            paths = [p for p, s in zip(paths, stores) if any(key.startswith(f"{s.name}/") for key in document["mix"])]
            manifest = folder / "m.json"
            manifest.write_text(json.dumps(document))
            whole = folder / "whole.trace"
            common = ["run", *stores_of(paths), "--manifest", manifest]
            first = run(*common, "--steps", 12, "--workers", 1, "--trace", whole)
            if "error" in first:
                return
            for world_size in (2, 4):
                traces = []
                for rank in range(world_size):
                    trace = folder / f"w{world_size}"
                    run(*common, "--steps", 12, "--trace", trace, "--world-size", world_size, "--rank", rank,
                        "--workers", rng.choice([1, 3]))  # fmt: skip
                    traces.append(f"{trace}.rank{rank}")
                merged = run("merge", *traces, "--single", whole)
                self.assertNotIn("error", merged)
                self.assertEqual(merged["digests"], first["samples"])
            cut, checkpoint = folder / "cut.trace", folder / "cut.checkpoint"
            run(*common, "--steps", 5, "--trace", cut, "--checkpoint", checkpoint, "--workers", 3)
            run(*common, "--steps", 12, "--trace", cut, "--resume", checkpoint, "--checkpoint", checkpoint)
            on_device = folder / "device.trace"
            run(*common, "--steps", 12, "--trace", on_device, "--device", "host", "--read-back", "--workers", 2)
            for other in (cut, on_device):
                self.assertFalse(run("diff", whole, other)["differs"], other)
            replayed = run("replay", cut, *stores_of(paths))
            self.assertNotIn("error", replayed)
            self.assertGreaterEqual(replayed["checked_digests"], 12)
            ran += 1

        self.cases("run", check, max(1, CASES // 12))
        self.assertTrue(ONLY_CASE or ran >= max(1, CASES // 30), "hardly anything ran")


if __name__ == "__main__":
    unittest.main()
