"""Shows what labels in a context are good for, and that they do not leak: a task that only other rows' labels tell.

    python3 examples/labels.py [FOLDER]

It makes a database of members of groups. Each member has one seed, at a time of its own; the answer is its group's
secret, a coin that no column holds. So a model can know it only from other members whose answer is known already. The
same small model is trained on contexts without labels, with labels that are known an hour after their seed, found as
neighbours and found by walks, and with labels that are known long after everything: the AUC must be that of a coin
where labels are not there or hidden by their time, and high where they are shown. Anything else ends with status 1."""

import random
import sqlite3
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import weir
from relational_transformer import RelationalTransformer, inputs_of

GROUPS, MEMBERS, STEPS, BATCH_SIZE = 400, 10, 160, 32
HIGH, COIN = 0.8, 0.08


def make_database(path: Path) -> None:
    rng = random.Random(18)
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE groups (id INTEGER PRIMARY KEY, size REAL);"
        "CREATE TABLE members (id INTEGER PRIMARY KEY, group_id INTEGER REFERENCES groups (id), age REAL, kind TEXT);"
        "CREATE TABLE answers (member INTEGER, at TEXT, answer INTEGER);"
    )
    for group in range(GROUPS):
        secret = rng.randrange(2)
        connection.execute("INSERT INTO groups VALUES (?, ?)", (group, rng.random()))
        for i in range(MEMBERS):
            member = group * MEMBERS + i
            at = f"2024-{1 + rng.randrange(12):02}-{1 + rng.randrange(28):02} {rng.randrange(24):02}:00:00"
            connection.execute("INSERT INTO members VALUES (?, ?, ?, ?)", (member, group, rng.random(), rng.choice("abc")))
            connection.execute("INSERT INTO answers VALUES (?, ?, ?)", (member, at, secret))
    connection.commit()
    connection.close()


def schema(horizon: str) -> dict:
    return {
        "name": "planted",
        "tables": {
            "groups": {"primary_key": "id", "columns": {"id": {"stype": "identifier"}, "size": {"stype": "numerical"}}},
            "members": {"primary_key": "id", "columns": {
                "id": {"stype": "identifier"}, "age": {"stype": "numerical"}, "kind": {"stype": "categorical"},
                "group_id": {"stype": "identifier", "foreign_key": "groups.id"}}},
        },
        "tasks": {"secret": {
            "query": "SELECT member, at, answer FROM answers", "anchor_table": "members", "anchor_key": "member",
            "target_column": "answer", "target_stype": "boolean", "observation_time_column": "at", "horizon": horizon,
            "split": {"method": "hash", "permille": [650, 300, 50]}}},
        "embedding": {"provider": "hash_v1", "dim": 32},
    }  # fmt: skip


def auc_of(store: weir.Store, batch: dict) -> float:
    """Of the held-out members, after training on the others."""
    torch.manual_seed(0)
    settings = {"sequence_length": 64, "max_rows": 40, "identifiers": "omit", "child_policy": "latest", **batch}
    manifest = weir.Manifest(
        Path(store.path).with_suffix(".manifest.json"), global_batch_size=BATCH_SIZE, batch=settings,
        mix={"planted/secret/train": 1},
    )  # fmt: skip
    model = RelationalTransformer(store, width=32, layers=1, heads=2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    with weir.Loader(store, manifest, steps=STEPS, epochs=None) as loader:
        for step in loader:
            losses, _ = model.losses(inputs_of(step), step.target)
            optimizer.zero_grad(set_to_none=True)
            losses.mean().backward()
            optimizer.step()
    predictions, answers = [], []
    with torch.no_grad(), weir.Loader(store, manifest, dataset="planted/secret/val", stage="eval") as loader:
        for step in loader:
            predictions += model.losses(inputs_of(step), step.target)[1].tolist()
            answers += step.target.torch()[0].tolist()
    return weir.metrics.usual("boolean", predictions, answers)["auroc"]


def main() -> int:
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    given = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as made:
        folder = given or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        database = folder / "planted.sqlite"
        database.unlink(missing_ok=True)
        make_database(database)
        stores = {}
        warnings.simplefilter("ignore", weir.IngestWarning)  # that a group tells the answer is what is planted
        for name, horizon in (("early", "1h"), ("late", "520w")):
            weir.ingest(database, folder / f"{name}.weir", schema=schema(horizon), manifest_mode="replace")
            stores[name] = weir.Store(folder / f"{name}.weir")
        walks = {"walks": 200, "length": 8, "local_cells": 12, "width": 4}
        cases = [
            ("no labels", "early", {"labels": False}, False),
            ("labels, known after an hour", "early", {"labels": True}, True),
            ("the same, found by walks", "early", {"labels": True, "retrieval": walks}, True),
            ("labels, known after ten years", "late", {"labels": True, "retrieval": walks}, False),
        ]
        is_as_planted = True
        for name, store, batch, is_high in cases:
            auc = auc_of(stores[store], batch)
            is_right = auc > HIGH if is_high else abs(auc - 0.5) < COIN
            is_as_planted &= is_right
            wanted = f"above {HIGH}" if is_high else "that of a coin"
            print(f"{name:32} AUC {auc:.3f}, {'as' if is_right else 'NOT as'} planted: {wanted}", flush=True)
    return 0 if is_as_planted else 1


if __name__ == "__main__":
    sys.exit(main())
