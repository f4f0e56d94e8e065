"""Labels in contexts, against the raw database: which labels a sequence shows, and when each was known.

The database's labels tell which seed they belong to (tests/support/leak_database.py), so a test knows from a
batch's numbers alone what it looks at, and asks the database itself, with SQL, when that label was known and in
which split its seed is. Clean stores have no leak; planted ones (a store that was told a shorter horizon, a batch
that was told to show other splits) are found.
"""

import json
import math
import os
import random
import sqlite3
import struct
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))
sys.path.insert(1, str(PROJECT_ROOT / "tests"))
sys.path.insert(2, str(PROJECT_ROOT / "tests" / "property"))

from reference.timestamps import DURATIONS  # noqa: E402
from reference.store import Store  # noqa: E402
from support import leak_database  # noqa: E402
from support.batches import batch_arguments, differences, run  # noqa: E402
from support.cases import ONLY_CASE, RandomCases, scratch_database  # noqa: E402
from support.leak_database import MICROSECONDS  # noqa: E402
from test_batch import Decoded, any_manifest, any_step, reference_batch  # noqa: E402

CASES = int(os.environ.get("WEIR_PROPERTY_CASES", "60"))
ALL_SPLITS = ["train", "val", "test"]

Json = Any


def microseconds(duration: int | str) -> int:
    if isinstance(duration, int):
        return duration
    number = duration.rstrip("usmhdw")
    return int(number) * DURATIONS[duration[len(number) :]]


@dataclass(frozen=True)
class Seed:
    """Of the raw database; times in microseconds."""

    person: int
    seen: int
    label: int | None
    known: int | None  # None: never
    split: str


class Truth:
    def __init__(self, database: Path, task: Json) -> None:
        connection = sqlite3.connect(database)
        connection.row_factory = sqlite3.Row
        self.people = [row["id"] for row in connection.execute("SELECT id FROM people ORDER BY id")]
        self.seeds = [self.seed(row, task) for row in connection.execute(task["query"])]
        first, *_ = connection.execute("SELECT sum(n) FROM (SELECT count(*) AS n FROM items UNION ALL"
                                       " SELECT count(*) FROM kinds UNION ALL SELECT count(*) FROM notes)")  # fmt: skip
        self.first_person = first[0]  # rows of the tables whose names come before
        connection.close()
        self.by_label = {seed.label: seed for seed in self.seeds if seed.label is not None}

    @staticmethod
    def seed(row: sqlite3.Row, task: Json) -> Seed:
        seen = row["seen"] * MICROSECONDS
        if "horizon" in task:
            known = seen + microseconds(task["horizon"])
        else:
            known = None if row["told"] is None else max(seen, row["told"] * MICROSECONDS)
        split = row["part"]
        if task["split"]["method"] == "temporal":
            val, test = task["split"]["val"], task["split"]["test"]
            split = "train" if row["seen"] < val else "val" if row["seen"] < test else "test"
        return Seed(row["k0"], seen, row["target"], None if row["target"] is None else known, split)

    def anchor_of(self, row: int) -> int:
        return self.people[row - self.first_person]


@dataclass
class Shown:
    """A label that a sequence shows."""

    value: int
    row: int  # by its number in the sequence
    time_at: int | None  # where the cell of its observation time is


def labels_shown(decoded: Decoded, task: Json) -> list[Shown]:
    found = []
    columns, cells = decoded.of["column_ids"], decoded.fields["num_cells"]
    for at in range(1, cells):
        if columns[at] == task["column_idx"]:
            value = decoded.of["numeric_values"][at] * task["std"] + task["mean"]
            has_time = at + 1 < cells and columns[at + 1] == task["observed_column_idx"]
            found.append(Shown(round(value), decoded.of["seq_row_ids"][at], at + 1 if has_time else None))
    return found


def leaks(
    decoded: Decoded, task: Json, truth: Truth, splits: list[str], cutoff: int, floor: int = -(2**63)
) -> list[str]:
    """What a sequence shows that it must not."""
    found = []
    own = (truth.anchor_of(decoded.fields["anchor_row"]), decoded.fields["observation_time"])
    for shown in labels_shown(decoded, task):
        seed = truth.by_label.get(shown.value)
        if seed is None:
            found.append(f"{shown.value} is the label of no seed")
        elif (seed.person, seed.seen) == own:
            found.append(f"{seed} is the sequence's own")
        elif seed.known is None or seed.known > cutoff:
            found.append(f"{seed} is not known at {cutoff}")
        elif seed.known < floor:
            found.append(f"{seed} is older than {floor}")
        elif seed.split not in splits:
            found.append(f"{seed} is of a split that is not shown")
    return found


class Labels(RandomCases):
    def ingest(self, folder: Path, rng: random.Random) -> tuple[Path, Json]:
        folder.mkdir(exist_ok=True)
        schema = leak_database.make(rng, folder / "db.sqlite")
        schema["tasks"] = {name: schema["tasks"][name] for name in ("later", "told")}
        return folder / "db.sqlite", schema

    def store(self, database: Path, schema: Json, name: str, format: int = 0) -> tuple[Path, Json, Json]:
        path, output = database.with_name(f"{name}.schema.json"), database.with_name(f"{name}.weir")
        path.write_text(json.dumps(schema))
        self.assertNotIn("error", run("ingest", database, "--schema", path, "-o", output, "--format", str(format)))
        manifest = json.loads(output.with_name(f"{name}.manifest.json").read_text())
        self.assertIs(manifest["batch"]["labels"], True)
        return output, manifest["datasets"], run("info", output)

    def batch(self, rng: random.Random, folder: Path, store: Path, datasets: Json, config: Json) -> Json | None:
        """A batch with labels, and its dataset's task; None if there is none."""
        document = any_manifest(rng, datasets)
        document["batch"] = config
        manifest = folder / "m.json"
        manifest.write_text(json.dumps(document))
        step = {**any_step(rng, document), "world_size": 1, "rank": 0}
        batch = run(*batch_arguments(step, store, manifest), "--tensors")
        return None if "error" in batch else batch

    def config(self, rng: random.Random) -> Json:
        config: Json = {
            "labels": True, "sequence_length": 800, "max_rows": 400, "max_hops": rng.choice([2, 4]),
            "child_width": rng.choice([3, 4096]), "child_policy": rng.choice(["uniform", "latest"]),
            "label_visibility": rng.choice(["train", "all", "none", ["val"], ["train", "val"]]),
        }  # fmt: skip
        if rng.random() < 0.4:
            config["retrieval"] = {"walks": rng.choice([5, 50]), "length": 6, "local_cells": 20, "width": 3}
        if rng.random() < 0.3:
            config["strictly_before"] = True
        if rng.random() < 0.3:
            second = leak_database.FIRST_SECOND + 3600 * rng.randrange(leak_database.HOURS)
            config["context_until"] = second * MICROSECONDS
        if rng.random() < 0.4:
            second = leak_database.FIRST_SECOND + 3600 * rng.randrange(leak_database.HOURS)
            config["since"] = rng.choice([second * MICROSECONDS, f"{rng.randrange(leak_database.HOURS)}h"])
        return config

    def floor(self, decoded: Decoded, config: Json) -> int:
        since = config.get("since", -(2**63))
        return since if isinstance(since, int) else decoded.fields["observation_time"] - microseconds(since)

    def cutoff(self, decoded: Decoded, config: Json) -> int:
        seen = decoded.fields["observation_time"] - bool(config.get("strictly_before"))
        return min(seen, config.get("context_until", seen))

    def splits(self, config: Json) -> list[str]:
        shown = config["label_visibility"]
        return shown if isinstance(shown, list) else {"train": ["train"], "all": ALL_SPLITS, "none": []}[shown]

    def test_every_label_was_known(self) -> None:
        looked_at = complete = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal looked_at, complete
            database, schema = self.ingest(folder, rng)
            store, datasets, info = self.store(database, schema, "s")
            tasks = {task["name"]: task for task in info["tasks"]}
            for _ in range(4 if datasets else 0):
                config = self.config(rng)
                batch = self.batch(rng, folder, store, datasets, config)
                if batch is None:
                    continue
                truth, task = Truth(database, schema["tasks"][batch["task"]]), tasks[batch["task"]]
                for number, sequence in enumerate(batch["sequences"]):
                    if not sequence["num_cells"]:
                        continue
                    decoded = Decoded(batch, number)
                    cutoff, splits = self.cutoff(decoded, config), self.splits(config)
                    floor = self.floor(decoded, config)
                    self.assertEqual(leaks(decoded, task, truth, splits, cutoff, floor), [])
                    self.check_rows(decoded, task, truth)
                    looked_at += len(labels_shown(decoded, task))
                    complete += self.check_own(decoded, task, truth, splits, cutoff, config)

        self.cases("labels", check, CASES)
        enough = looked_at > 10 * CASES and complete > CASES // 4
        self.assertTrue(ONLY_CASE or enough, f"hardly anything was looked at: {looked_at}, {complete}")

    def check_rows(self, decoded: Decoded, task: Json, truth: Truth) -> None:
        """The first row is the seed's own; each task row leads to its anchor alone, and has its own time."""
        own = truth.anchor_of(decoded.fields["anchor_row"])
        rows_of = {0: own}
        if decoded.fields["num_cells"] > 1:
            self.assertEqual(decoded.of["column_ids"][1], task["observed_column_idx"])
        for shown in labels_shown(decoded, task):
            seed = truth.by_label[shown.value]
            rows_of[shown.row] = seed.person
            if shown.time_at is not None:
                self.assertEqual(decoded.of["seq_row_ids"][shown.time_at], shown.row)
                hour = decoded.of["timestamp_values"][15 * shown.time_at + 4 : 15 * shown.time_at + 6]
                angle = seed.seen // MICROSECONDS % 86400 // 3600
                self.assertAlmostEqual(hour[0], math.sin(angle * math.tau / 24), places=5)
        people = {}
        for child, parent in decoded.foreign_keys:
            if child in rows_of:
                self.assertEqual(people.setdefault(rows_of[child], parent), parent, "two rows for one person")
        self.assertEqual(len(set(people.values())), len(people))
        if decoded.fields["num_rows"] > 1:
            self.assertEqual(people[own], 1)

    def check_own(
        self, decoded: Decoded, task: Json, truth: Truth, splits: list[str], cutoff: int, config: Json
    ) -> bool:
        """Nothing that is known of the anchor is missing, if nothing had to be left out."""
        if decoded.fields["num_cells"] == decoded.length or decoded.fields["num_rows"] == config["max_rows"]:
            return False
        if config["child_width"] < 4096 or "retrieval" in config:
            return False
        own = (truth.anchor_of(decoded.fields["anchor_row"]), decoded.fields["observation_time"])
        known = {
            seed.label for seed in truth.seeds
            if seed.person == own[0] and seed.seen != own[1] and seed.split in splits
            and seed.known is not None and self.floor(decoded, config) <= seed.known <= cutoff
        }  # fmt: skip
        shown = {shown.value for shown in labels_shown(decoded, task) if truth.by_label[shown.value].person == own[0]}
        self.assertEqual(shown, known)
        return bool(known)

    def test_examples_are_those_of_the_reference(self) -> None:
        """Sequences of many parts: every example, in order, with its neighbourhood."""
        compared = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared
            schema = leak_database.make(rng, folder / "db.sqlite")
            del schema["tasks"]["churn"], schema["tasks"]["kind"]
            format = rng.choice([1, 2])
            store, datasets, _ = self.store(folder / "db.sqlite", schema, "s", format)
            reference = Store.ingest(folder / "db.sqlite", json.dumps(schema), format=format)
            for i in range(5 if datasets else 0):
                document = any_manifest(rng, datasets)
                document["batch"] = {
                    "labels": True, "sequence_length": rng.choice([30, 90, 300]), "max_rows": rng.choice([20, 200]),
                    "label_visibility": rng.choice(["train", "all", "all", ["val", "train"]]),
                    "child_policy": rng.choice(["uniform", "latest"]), "max_hops": rng.choice([0, 1, 3]),
                    "since": rng.choice([None, None, "10h", "2d"]), "tensors": ["hops", "example_ids"],
                    "retrieval": {
                        "walks": rng.choice([0, 3, 40, 600, [64, 65, 129]]), "length": rng.choice([2, 5, 20, [7, 8]]),
                        "local_cells": rng.choice([1, 8, 20, [3, 30]]), "width": rng.choice([0, 1, 2, [0, 20]]),
                        "order": rng.choice(["visits", "latest"]), "fill": rng.choice([True, False]),
                    },
                }  # fmt: skip
                manifest = folder / f"m{i}.json"
                manifest.write_text(json.dumps(document))
                step = any_step(rng, document)
                built = run(*batch_arguments(step, store, manifest), "--tensors")
                expected = reference_batch(reference, manifest.read_text(), step)
                self.assertEqual(differences(built, expected), [], (step, document["batch"]))
                compared += "error" not in expected

        self.cases("examples", check, CASES // 2)
        self.assertTrue(ONLY_CASE or compared > CASES, "hardly anything was compared")

    def test_the_smallest_tasks(self) -> None:
        """A seed that is the only one, or has no foreign keys around it, with and without walks to look for others."""
        for seeds, others in ((1, 0), (1, 2), (3, 0)):
            for visibility, walks in (("all", 9), ("all", 0), ("none", 9)):
                with self.subTest(seeds=seeds, others=others, visibility=visibility, walks=walks):
                    self.check_small(seeds, others, visibility, walks)

    def check_small(self, seeds: int, others: int, visibility: str, walks: int) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with scratch_database(folder / "db.sqlite") as database:
                database.execute("CREATE TABLE things (id INTEGER PRIMARY KEY, colour TEXT)")
                database.execute("CREATE TABLE seen (thing INTEGER, at INTEGER, y REAL)")
                database.executemany("INSERT INTO things VALUES (?, 'red')", [(i,) for i in range(seeds + others)])
                database.executemany("INSERT INTO seen VALUES (?, ?, ?)", [(i, 1000 * i, 0.5 * i) for i in range(seeds)])
            task = {
                "query": "SELECT * FROM seen", "anchor_table": "things", "anchor_key": "thing", "target_column": "y",
                "target_stype": "numerical", "observation_time_column": "at", "unit": "s", "horizon": "1m",
                "split": {"method": "temporal", "val": "2001-01-01", "test": "2002-01-01"},
            }  # fmt: skip
            columns = {"id": {"stype": "identifier"}, "colour": {"stype": "categorical"}}
            tables = {"things": {"primary_key": "id", "columns": columns}}
            schema = {"name": "db", "tables": tables, "tasks": {"y": task}, "embedding": {"provider": "hash_v1", "dim": 4}}
            store, datasets, _ = self.store(folder / "db.sqlite", schema, "s")
            document = {
                "seed": 3, "global_batch_size": 4, "datasets": datasets,
                "batch": {"labels": True, "sequence_length": 40, "max_rows": 20, "label_visibility": visibility,
                          "retrieval": {"walks": walks, "length": 3, "local_cells": 4, "width": 0}},
            }  # fmt: skip
            (folder / "m.json").write_text(json.dumps(document))
            step = {"dataset": "db/y/train", "stage": "eval", "epoch": 0, "position": 0, "world_size": 1, "rank": 0}
            built = run(*batch_arguments(step, store, folder / "m.json"), "--tensors")
            reference = Store.ingest(folder / "db.sqlite", json.dumps(schema))
            expected = reference_batch(reference, (folder / "m.json").read_text(), step)
            self.assertNotIn("error", built)
            self.assertEqual(differences(built, expected), [])
            shown = [sequence["num_rows"] for sequence in built["sequences"] if sequence["num_cells"]]
            # Its own task row and its anchor; with fill, those that were known before it, each with its anchor.
            drawn = 2 if visibility == "all" else 0
            self.assertEqual(sorted(shown), [2 + drawn * earlier for earlier in range(seeds)])

    def test_damaged_lists_are_survived(self) -> None:
        """Bytes of labels, seeds and lists of children that are not what was written, with nothing verified: a batch,
        or STORE_CORRUPT; found by their hashes otherwise."""

        def check(rng: random.Random, folder: Path) -> None:
            database, schema = self.ingest(folder, rng)
            store, datasets, _ = self.store(database, schema, "s")
            whole, damaged = store.read_bytes(), folder / "damaged.weir"
            places = [struct.unpack_from("<QQ", whole, 64 + 64 * kind - 56) for kind in (18, 18, 18, 3, 4, 5, 6, 7)]
            for _ in range(6 if datasets else 0):
                copy = bytearray(whole)
                for offset, size in rng.sample(places, rng.randint(1, 4)):
                    if size:
                        copy[offset + rng.randrange(size)] = rng.randrange(256)
                damaged.write_bytes(copy)
                document = any_manifest(rng, datasets, batch_size=4)
                document["batch"] = {**self.config(rng), "retrieval": {"walks": 30, "length": 7, "local_cells": 20}}
                (folder / "m.json").write_text(json.dumps(document))
                step = {**any_step(rng, document), "world_size": 1, "rank": 0, "position": 0}
                for verify, codes in (("none", (None, "STORE_CORRUPT")), ("touched", (None, "STORE_CORRUPT"))):
                    built = run(*batch_arguments(step, damaged, folder / "m.json"), "--verify", verify)
                    self.assertIn(built.get("error", {}).get("code_id"), codes)

        self.cases("damaged", check, max(3, CASES // 6))

    def test_planted_leaks_are_found(self) -> None:
        """A store whose horizon is shorter than the truth's, and a batch that shows more splits than it may, or what is
        older; in the seed's neighbourhood, and in examples that walks have found."""
        counts: dict[tuple[bool, str], int] = {}

        def check(rng: random.Random, folder: Path) -> None:
            database, schema = self.ingest(folder, rng)
            schema["tasks"] = {"later": {**schema["tasks"]["later"], "horizon": "1d"}}
            truth = Truth(database, schema["tasks"]["later"])
            schema["tasks"]["later"]["horizon"] = 0
            store, datasets, info = self.store(database, schema, "s")
            [task] = info["tasks"]
            for retrieves in (False, True, True) if datasets else ():
                config = {**self.config(rng), "label_visibility": "all", "child_width": 4096, "since": None, "retrieval": None}
                if retrieves:
                    config["retrieval"] = {"walks": 50, "length": 6, "local_cells": 1, "width": 0, "fill": False}
                batch = self.batch(rng, folder, store, datasets, config)
                for number, sequence in enumerate(batch["sequences"] if batch else []):
                    if sequence["num_cells"]:
                        decoded = Decoded(batch, number)
                        cutoff = self.cutoff(decoded, config)
                        found = leaks(decoded, task, truth, ["train"], cutoff)
                        found += leaks(decoded, task, truth, ALL_SPLITS, cutoff, cutoff - 3600 * MICROSECONDS)
                        for kind in ("is not known", "is older", "of a split"):
                            counts[retrieves, kind] = counts.get((retrieves, kind), 0) + any(kind in leak for leak in found)

        self.cases("planted", check, max(4, CASES // 6))
        self.assertTrue(ONLY_CASE or (len(counts) == 6 and min(counts.values()) > 0), f"planted leaks were not found: {counts}")


if __name__ == "__main__":
    unittest.main()
