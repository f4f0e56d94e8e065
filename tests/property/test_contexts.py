"""Contexts on demand on random databases: against the reference, and against the batches of evaluation.

Each case is made from its own seed, which a failure names; see tests/support/cases.py.
"""

import json
import math
import os
import random
import sys
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))
sys.path.insert(1, str(PROJECT_ROOT / "tests"))

from property.test_batch import Case, any_batch_config, any_labels  # noqa: E402
from reference.batch import BatchBuilder  # noqa: E402
from reference.contexts import NO_SAMPLE, Request, build_contexts  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from reference.store import Store  # noqa: E402
from reference.tasks import Task  # noqa: E402
from support import leak_database, random_database  # noqa: E402
from support.batches import batch_arguments, differences, run  # noqa: E402
from support.cases import ONLY_CASE  # noqa: E402

CASES = int(os.environ.get("WEIR_PROPERTY_CASES", "60"))
MOST_AT_ONCE = 60  # the command line takes 64

Json = Any


# ---- Random requests ---------------------------------------------------------------------------------------


def can_be_written(part: Any) -> bool:
    """As JSON, in an argument."""
    return not isinstance(part, bytes) and "\0" not in str(part) and (not isinstance(part, float) or math.isfinite(part))


def any_key(rng: random.Random, task: Task) -> list[Any]:
    """The key of a row of the anchor table, or one that it may not have."""
    anchor = task.anchor
    if anchor.rows and rng.random() < 0.8:
        key = anchor.split_key(anchor.row_start + rng.randrange(len(anchor.rows)))
        parts = list(key) if len(anchor.primary_key) > 1 else [key]
        if all(can_be_written(part) for part in parts):
            if rng.random() < 0.1:
                parts[0] = float(parts[0]) if isinstance(parts[0], int) and abs(parts[0]) < 2**53 else "nobody"
            return parts
    return [rng.choice([0, 1, 7, 2.5, "x", "", "7"]) for _ in range(rng.choice([1, 1, 2, len(anchor.primary_key)]))]


def any_request(rng: random.Random, task: Task, by_key: bool) -> Request:
    anchor = task.anchor
    request = Request()
    if by_key:
        request.key = any_key(rng, task)
    else:
        request.row = anchor.row_start + rng.randrange(-1 if rng.random() < 0.1 else 0, len(anchor.rows) + 1)
        request.row = max(0, request.row)
    kind = rng.random()
    if kind < 0.3 and task.seeds:
        request.time = rng.choice(task.seeds).time
    elif kind < 0.6:
        request.time = 1_709_000_000_000_000 + rng.randrange(-(10**6), 10**6) * 10**6
    elif kind < 0.7:
        request.time = rng.choice([0, -1, 2**63 - 1, 2**63 - 2, -(2**63) + 1])
    return request


def arguments_of(task: str, requests: list[Request], seed: int | None) -> list[str | int]:
    """Of `weir context`; all requests have a time or none has."""
    found: list[str | int] = ["--task", task]
    for request in requests:
        found.append(f"--row={request.row}" if request.key is None else f"--key={json.dumps(request.key)}")
        if request.time is not None:
            found.append(f"--time={request.time}")
    return found + ([] if seed is None else ["--seed", seed])


def reference_contexts(builder: BatchBuilder, task: str, requests: list[Request]) -> Json:
    try:
        batch = build_contexts(builder, task, requests)
    except WeirError as refused:
        return {"error": {"code_id": refused.code_id}}
    printed = batch.as_json_value(with_tensors=True)
    del printed["dataset"], printed["cursor_next"]
    for sequence in printed["sequences"]:
        del sequence["epoch"]
        sequence["sample_index"] = None if sequence["sample_index"] == NO_SAMPLE else sequence["sample_index"]
    return printed


class RandomRequests(Case):
    def make(self, rng: random.Random, folder: Path) -> tuple[Path, Store, Json] | None:
        database = folder / "db.sqlite"
        if rng.random() < 0.5:
            schema = random_database.make(rng, database, rng.choice([3, 12, 40]))
        else:
            schema = leak_database.make(rng, database)
        schema["keys"] = rng.random() < 0.9
        format = rng.choice([1, 1, 2])
        ingested = self.ingest(database, schema, format)
        if ingested is None:
            return None
        return ingested[0], Store.ingest(database, json.dumps(schema), format=format), ingested[1]

    def write_manifest(self, rng: random.Random, folder: Path, datasets: Json) -> Path:
        batch = {**any_batch_config(rng), **any_labels(rng)}
        if "context_seed" in batch:
            batch["context_seed"] = str(batch["context_seed"])
        document = {"seed": rng.randrange(9), "global_batch_size": 64, "datasets": datasets, "batch": batch}
        manifest = folder / f"m{rng.randrange(10**9)}.json"
        manifest.write_text(json.dumps(document))
        return manifest

    def test_every_tensor_is_that_of_the_reference(self) -> None:
        compared, refused = 0, set()

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared
            made = self.make(rng, folder)
            if made is None:
                return
            path, store, datasets = made
            for _ in range(3):
                manifest = self.write_manifest(rng, folder, datasets)
                task = rng.choice(store.tasks)
                name = "nothing" if rng.random() < 0.03 else task.name
                by_key = bool(task.anchor.primary_key) and rng.random() < 0.6
                requests = [any_request(rng, task, by_key) for _ in range(rng.choice([1, 1, 1, 2, 5]))]
                if rng.random() < 0.3 or any(request.time is None for request in requests):
                    for request in requests:
                        request.time = None
                seed = rng.choice([None, None, 0, 1, 2**64 - 1])
                for request in requests:
                    request.seed = seed
                builder = BatchBuilder(store, Manifest.read(manifest.read_text()))
                expected = reference_contexts(builder, name, requests)
                built = run(
                    "context", "--store", path, "--manifest", manifest, *arguments_of(name, requests, seed), "--tensors"
                )
                for sequence in built.get("sequences", []):
                    del sequence["split"]
                self.assertEqual(differences(built, expected), [], (requests, manifest.read_text()))
                compared += "error" not in expected
                refused.add(expected.get("error", {}).get("code_id"))

        self.cases("context", check, CASES)
        self.assertTrue(ONLY_CASE or compared >= CASES, "hardly anything was compared")
        self.assertTrue(ONLY_CASE or refused >= {"KEY_NOT_FOUND", "CONTRACT_VIOLATION"}, refused)

    def test_a_stored_seed_has_the_digest_of_evaluation(self) -> None:
        compared = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared
            made = self.make(rng, folder)
            if made is None:
                return
            path, store, datasets = made
            manifest = self.write_manifest(rng, folder, datasets)
            digests: dict[tuple[str, int, int], tuple[str, int, str]] = {}
            for dataset in sorted(datasets, key=lambda key: ["train", "val", "test"].index(key.rsplit("/", 1)[1])):
                task, split = dataset.split("/", 1)[1].rsplit("/", 1)
                for position in range(0, datasets[dataset]["cardinality"], 64):
                    step = {"dataset": dataset, "stage": rng.choice(["eval", "infer"]), "position": position}
                    for found in run(*batch_arguments(step, path, manifest))["sequences"]:
                        place = task, found["anchor_row"], found["observation_time"]
                        digests.setdefault(place, (split, found["sample_index"], found["sample_digest"]))
            for task in {place[0] for place in digests}:
                places = [place for place in digests if place[0] == task][:MOST_AT_ONCE]
                requests = [Request(row=row, time=time) for _, row, time in places]
                asked = run("context", "--store", path, "--manifest", manifest, *arguments_of(task, requests, None))
                answered = [(s["split"], s["sample_index"], s["sample_digest"]) for s in asked["sequences"]]
                self.assertEqual(answered, [digests[place] for place in places])
                compared += len(places)

        self.cases("stored", check, max(1, CASES // 3))
        self.assertTrue(ONLY_CASE or compared >= 5 * CASES, "hardly anything was compared")


if __name__ == "__main__":
    unittest.main()
