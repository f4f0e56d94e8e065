#!/usr/bin/env python3
"""Makes context_options.json: hashes of manifests and digests of batches of the golden shop that use what
docs/spec/05e-more-of-a-context.md and context_seed add. `horizons` are what the schema's tasks have beside what they say.

It uses the reference simulator, which shares nothing with the library. Run it only when the contract changes:

    python3 tests/golden/make_context_options.py > tests/golden/context_options.json
"""
import json
import sqlite3
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from reference.batch import BatchBuilder  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from reference.sampler import Cursor  # noqa: E402
from reference.store import Store  # noqa: E402

HORIZONS = {"churn": "30d"}
LABELS = {"labels": True, "label_visibility": "all", "max_rows": 60}
CONFIGS = {
    "tensors": {"tensors": ["ages", "hops", "example_ids"]},
    "masks": {"mask_permille": 150},
    "days": {"since": "90d", "child_policy": "latest"},
    "from": {"since": "2024-01-01"},
    "widths": {"child_width": {"orders.customer_id": [4, 1], "*": [2, 0, 1]}},
    "seeded": {"context_seed": 7, "child_width": 1},
    "examples": {
        **LABELS, "tensors": ["example_ids", "hops"], "mask_permille": 1000, "since": "200d",
        "retrieval": {"walks": 50, "length": 6, "local_cells": 20, "width": 2},
    },
    "everything": {
        **LABELS, "tensors": ["ages", "example_ids"], "since": "400d", "child_width": {"churn": [3, 1], "*": 1},
        "retrieval": {"walks": [9, 40], "length": 7, "local_cells": [12, 30], "order": "latest"},
    },
}  # fmt: skip
STEPS = (("train", 0, 0), ("train", 3, 4), ("eval", 0, 2))


def shop() -> Store:
    vectors = ROOT / "tests/golden/vectors"
    schema = json.loads((vectors / "shop_small.schema.json").read_text("utf-8"))
    for task, horizon in HORIZONS.items():
        schema["tasks"][task]["horizon"] = horizon
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shop_small.sqlite"
        with sqlite3.connect(path) as connection:
            connection.executescript((vectors / "shop_small.sql").read_text("utf-8"))
        connection.close()
        return Store.ingest(path, json.dumps(schema))


def main() -> None:
    store = shop()
    seeds = {f"shop/{task.name}/train": len(task.seeds_of("train")) for task in store.tasks if task.name in ("churn", "rating")}
    datasets = {key: {"id": "shop", "version": "1", "hash": "00" * 32, "cardinality": count} for key, count in seeds.items()}
    manifests, hashes, batches = {}, {}, []
    for name, config in CONFIGS.items():
        batch = {"sequence_length": 64, "child_width": 3, **config}
        manifests[name] = {"seed": 42, "global_batch_size": 3, "datasets": datasets, "batch": batch}
        manifest = Manifest.read(json.dumps(manifests[name]))
        hashes[name] = {"manifest_hash": manifest.manifest_hash.hex(), "batch_config_hash": manifest.batch_config_hash.hex()}
        for dataset in datasets:
            for stage, epoch, position in STEPS:
                built = BatchBuilder(store, manifest).build(dataset, stage, Cursor(epoch, position)).as_json_value()
                expect = {key: built[key] for key in ("shapes", "batch_digest", "sequences")}
                batches.append({"manifest": name, "dataset": dataset, "stage": stage, "epoch": epoch, "position": position,
                                "world_size": 1, "rank": 0, "expect": expect})  # fmt: skip
    about = "Made by make_context_options.py with the reference simulator."
    print(json.dumps({"about": about, "horizons": HORIZONS, "manifests": manifests, "hashes": hashes, "batches": batches}))


if __name__ == "__main__":
    main()
