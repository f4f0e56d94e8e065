"""Batches on random databases: against the reference, and against what the raw database says was known when.

Each case is made from its own seed, a text such as "batch 17", which a failure names. To look at one case alone,
set WEIR_CASE to its seed (its files stay in the folder that WEIR_KEEP names); to try other cases, set
WEIR_PROPERTY_SALT to anything.
"""

import json
import math
import os
import random
import struct
import sys
import unittest
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))
sys.path.insert(1, str(PROJECT_ROOT / "tests"))

from reference.batch import BatchBuilder  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from reference.mix import Mixer  # noqa: E402
from reference.sampler import Cursor  # noqa: E402
from reference.store import Store  # noqa: E402
from support import leak_database, random_database, wide_database  # noqa: E402
from support.batches import batch_arguments, differences, run  # noqa: E402
from support.cases import ONLY_CASE, RandomCases, scratch_database  # noqa: E402
from support.leak_database import MICROSECONDS, TABLES, Row, Truth, World, key_of  # noqa: E402

CASES = int(os.environ.get("WEIR_PROPERTY_CASES", "60"))
WORLD_SIZES = (1, 2, 3, 4, 8)
SEES_EVERYTHING = 2**63 - 1

Json = Any


# ---- Random manifests and steps ----------------------------------------------------------------------------


def any_batch_config(rng: random.Random) -> Json:
    config: Json = {}
    choices: dict[str, list[Any]] = {
        "sequence_length": [1, 2, 7, 33, 100, 300],
        "max_hops": [0, 1, 2, 5, 64],
        "child_width": [0, 1, 2, 3, 10, 33, 40, 4096],
        "child_policy": ["uniform", "recent", "latest"],
        "max_rows": [1, 2, 9, 40, 300],
        "pad_rows": [False, False, True],
        "label_visibility": ["train", "all", "none", ["val"], ["test", "train"], ["train", "val", "test"]],
        "row_order": ["rcm", "best"],
        "identifiers": ["keep", "omit"],
        "context_until": [None, None, None, 0, "2001-09-09T01:46:40Z", "2023-11-16T20:00:00Z", 2**63 - 2],
        "strictly_before": [False, True],
    }
    for name, values in choices.items():
        if name == "sequence_length" or rng.random() < 0.7:
            config[name] = rng.choice(values)
    if rng.random() < 0.2:
        config["context_seed"] = rng.choice([0, 1, str(2**64 - 1)])
    if rng.random() < 0.4:
        config["tensors"] = rng.sample(["example_ids", "hops", "ages"], rng.randint(0, 3))
    if rng.random() < 0.3:
        config["mask_permille"] = rng.choice([0, 1, 300, 1000])
    if rng.random() < 0.3:
        config["since"] = rng.choice([None, "0us", "3h", "20h", "2d", "600w", 0, -1, "2023-11-15T20:00:00Z", 2**63 - 2])
    return config


def any_widths(rng: random.Random, store: Store) -> Json:
    """By edge type and hop; now and then of one that the store does not have."""
    names = [f"{edge.table.name}.{edge.name}" for edge in store.edges] + [task.name for task in store.tasks] + ["*"]
    widths: Json = {name: rng.choice([0, 1, 3, [5, 0, 2], [1, 40], 4096]) for name in names if rng.random() < 0.5}
    if rng.random() < 0.05:
        widths["no.such"] = 1
    return widths


def any_labels(rng: random.Random) -> Json:
    """Task rows, mostly, and examples that walks find."""
    config: Json = {"labels": rng.random() < 0.8}
    if config["labels"] and rng.random() < 0.6:
        choices: dict[str, list[Any]] = {
            "walks": [0, 1, 7, 20, [3, 18, 50]],
            "length": [1, 2, 3, 8, 21, [4, 5]],
            "local_cells": [1, 10, 40, 65536, [5, 60]],
            "width": [0, 1, 3, 4096, [1, 2, 40]],
            "order": ["visits", "latest"],
            "fill": [True, False],
        }
        config["retrieval"] = {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.8}
        config["retrieval"].setdefault("walks", 30)
    return config


def any_manifest(rng: random.Random, datasets: Json, batch_size: int | None = None) -> Json:
    manifest: Json = {
        "seed": rng.choice([0, 42, 2**63 - 1, str(2**64 - 1)]),
        "global_batch_size": batch_size or rng.choice([1, 2, 3, 4, 6, 8, 12]),
        "datasets": datasets,
        "batch": any_batch_config(rng),
        "data": {
            "sampler_block_size": rng.choice([1, 2, 3, 5, 8, 1000]),
            "drop_last": rng.random() < 0.3,
            "epoch_boundary": rng.choice(["strict", "strict", "stream"]),
            "intra_block": rng.choice(["affine_v1", "feistel_v1"]),
            "rotate": rng.random() < 0.5,
            "block_order": rng.choice(["fisher_yates_v1", "stateless_v1"]),
        },
    }
    return manifest


def any_step(rng: random.Random, manifest: Json) -> Json:
    dataset = rng.choice(sorted(manifest["datasets"]))
    batch_size = manifest["global_batch_size"]
    world_size = rng.choice([n for n in range(1, batch_size + 1) if batch_size % n == 0] * 4 + [batch_size + 1])
    step: Json = {
        "dataset": dataset,
        "stage": rng.choice(["train", "train", "eval", "infer", "eval_seeded"]),
        "epoch": rng.choice([0, 0, 1, 7, 2**33, 2**64 - 2]),
        "position": rng.randrange(manifest["datasets"][dataset]["cardinality"] + (rng.random() < 0.03)),
        "world_size": world_size,
        "rank": rng.randrange(world_size),
    }
    if isinstance(manifest["batch"]["sequence_length"], list) and step["stage"] == "train" and rng.random() < 0.97:
        try:
            cursor = Mixer(Manifest.read(json.dumps(manifest))).cursor_of_batch(dataset, rng.choice([0, 1, 2, 3, 5, 99]))
            step["epoch"], step["position"] = cursor.epoch, cursor.global_index
        except WeirError:  # a dataset of which all is dropped
            pass
    if rng.random() < 0.2:
        step["token"] = rng.randbytes(rng.choice([64, 64, 65, 100])).hex()
    if rng.random() < 0.3:
        step["pad"] = True
    return step


# ---- The two sides -----------------------------------------------------------------------------------------


def reference_batch(store: Store, manifest_text: str, step: Json) -> Json:
    token = bytes.fromhex(step["token"]) if "token" in step else None
    cursor = Cursor(step["epoch"], step["position"])
    try:
        builder = BatchBuilder(store, Manifest.read(manifest_text), token)
        batch = builder.build(
            step["dataset"], step["stage"], cursor, step["world_size"], step["rank"], step.get("pad", False)
        )
    except WeirError as refused:
        return {"error": {"code_id": refused.code_id}}
    return batch.as_json_value(with_tensors=True)


class Case(RandomCases):
    def ingest(self, database: Path, schema: Json, format: int = 0) -> tuple[Path, Json] | None:
        """The store and the datasets of its manifest; None where the database is refused or has no seed."""
        schema_path, output = database.with_suffix(".schema.json"), database.with_name("out.weir")
        schema_path.write_text(json.dumps(schema), "utf-8")
        if "error" in run("ingest", database, "--schema", schema_path, "-o", output, "--format", str(format)):
            return None
        [manifest] = database.parent.glob("*.manifest.json")
        datasets = json.loads(manifest.read_text("utf-8"))["datasets"]
        return (output, datasets) if datasets else None


class RandomDatabases(Case):
    def test_every_tensor_is_that_of_the_reference(self) -> None:
        compared = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared
            database = folder / "db.sqlite"
            if rng.random() < 0.5:  # every kind of column and key, or many rows that are joined and timed
                schema = random_database.make(rng, database, rng.choice([3, 12, 40, 150]))
            else:
                schema = leak_database.make(rng, database)
            format = rng.choice([1, 1, 2])
            ingested = self.ingest(database, schema, format)
            if ingested is None:
                return
            path, datasets = ingested
            store = Store.ingest(database, json.dumps(schema), format=format)
            for i in range(5):
                manifest = folder / f"m{i}.json"
                document = any_manifest(rng, datasets)
                document["batch"].update(any_labels(rng))
                if rng.random() < 0.3:
                    document["batch"]["sequence_length"] = rng.choice([[100], [300, 100], [7, 42, 21, 42], [120, 8]])
                if rng.random() < 0.3:
                    document["batch"]["child_width"] = any_widths(rng, store)
                    document["batch"].get("retrieval", {}).pop("width", None)
                if rng.random() < 0.4:
                    document["data"]["sampling"] = rng.choice(
                        [{"mode": "class_balanced"}, {"mode": "class_balanced"}, {"mode": "weighted", "column": "w"}]
                    )
                manifest.write_text(json.dumps(document))
                step = any_step(rng, document)
                built = run(*batch_arguments(step, path, manifest), "--tensors")
                expected = reference_batch(store, manifest.read_text(), step)
                self.assertEqual(differences(built, expected), [], (step, document["batch"]))
                compared += "error" not in expected

        self.cases("batch", check, CASES)
        self.assertTrue(ONLY_CASE or compared >= CASES, "hardly anything was compared")

    def test_rows_without_news_take_no_width(self) -> None:
        """Cell tasks whose table shows labels alone: with `blank_rows` every tensor is the reference's, and rows whose
        label is hidden are no children."""
        compared = left_out = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared, left_out
            database = folder / "db.sqlite"
            schema = leak_database.make(rng, database)
            for task, table in (("rating", "visits"), ("paid", "visits"), ("kind", "places"), ("broken", "items")):
                others = {name: fact for name, fact in TABLES[table].columns.items() if name != task}
                schema["tasks"][task]["drop_columns"] = [
                    f"{table}.{name}" for name, fact in others.items() if fact.stype != "identifier"
                ]
            ingested = self.ingest(database, schema)
            if ingested is None:
                return
            path, datasets = ingested
            [written] = database.parent.glob("*.manifest.json")
            self.assertEqual(json.loads(written.read_text())["batch"]["blank_rows"], "omit")
            store = Store.ingest(database, json.dumps(schema))
            cells = {key: datasets[key] for key in datasets if key.split("/")[1] in ("rating", "paid", "kind", "broken")}
            for i in range(4 if cells else 0):
                document = any_manifest(rng, cells)
                document["batch"].update(
                    any_labels(rng), identifiers="omit", max_hops=5, max_rows=60, context_until=None, sequence_length=100,
                    child_width=rng.choice([1, 2, 3, 10]), label_visibility=rng.choice(["train", "none", ["val"], "all"])
                )  # fmt: skip
                step = any_step(rng, document)
                batches = []
                for blank_rows in ("omit", "keep"):
                    document["batch"]["blank_rows"] = blank_rows
                    manifest = folder / f"m{i}{blank_rows}.json"
                    manifest.write_text(json.dumps(document))
                    batches.append(run(*batch_arguments(step, path, manifest), "--tensors"))
                    expected = reference_batch(store, manifest.read_text(), step)
                    self.assertEqual(differences(batches[-1], expected), [], (step, document["batch"]))
                    compared += "error" not in expected
                if "error" not in batches[0]:
                    left_out += batches[0]["batch_digest"] != batches[1]["batch_digest"]

        self.cases("blank", check, max(1, CASES // 3))
        self.assertTrue(ONLY_CASE or (compared >= CASES // 3 and left_out >= CASES // 12), "hardly anything was compared")

    def test_long_and_wide_sequences_are_those_of_the_reference(self) -> None:
        """Sequences of one cell and of 65,536, rows of hundreds of cells, cut anywhere; every tensor by its digest."""
        lengths = [1, 2, 255, 256, 257, 258, 300, 700, 1024, 3000]
        compared = cut = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared, cut
            database = folder / "db.sqlite"
            schema = wide_database.make(rng, database)
            ingested = self.ingest(database, schema)
            if ingested is None:
                return
            path, datasets = ingested
            store = Store.ingest(database, json.dumps(schema))
            for i in range(4):
                manifest = folder / f"m{i}.json"
                document = any_manifest(rng, datasets, batch_size=rng.choice([1, 2, 4]))
                is_longest = rng.random() < 0.02
                document["batch"] = {
                    "sequence_length": 65536 if is_longest else rng.choice(lengths),
                    "max_rows": rng.choice([1, 2, 60, 255, 256, 257, 2000]),
                    "child_width": rng.choice([1, 16, 16, 200]),
                    "label_visibility": rng.choice(["train", "all", "none"]),
                    "pad_rows": False,
                }
                if document["batch"]["max_rows"] < 300:
                    document["batch"]["pad_rows"] = rng.random() < 0.2
                manifest.write_text(json.dumps(document))
                step = any_step(rng, document)
                built = run(*batch_arguments(step, path, manifest))
                expected = reference_batch(store, manifest.read_text(), step)
                if "error" not in expected:
                    del expected["tensors"]
                    compared += 1
                    cut += any(s["num_cells"] == expected["dims"]["S"] for s in expected["sequences"])
                self.assertEqual(differences(built, expected), [], (step, document["batch"]))

        self.cases("wide", check, max(1, CASES // 3))
        self.assertTrue(ONLY_CASE or (compared >= CASES // 2 and cut >= CASES // 6), "hardly anything was compared")

    def test_rows_that_refer_twice_to_one_row(self) -> None:
        """Two foreign keys of a table lead to the same one, and often to the same row: that is one edge of the orders."""

        def check(rng: random.Random, folder: Path) -> None:
            database = folder / "db.sqlite"
            connection = scratch_database(database)
            connection.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, age REAL)")
            connection.execute(
                "CREATE TABLE letters (id INTEGER PRIMARY KEY, sender REFERENCES people, reader REFERENCES people, size REAL)"
            )
            connection.executemany("INSERT INTO people VALUES (?, ?)", [(i, i / 2) for i in range(12)])
            for i in range(50):
                sender = rng.randrange(12)
                reader = sender if rng.random() < 0.5 else rng.randrange(12)
                connection.execute("INSERT INTO letters VALUES (?, ?, ?, ?)", (i, sender, reader, i / 3))
            connection.commit()
            connection.close()
            key = {"stype": "identifier", "foreign_key": "people.id"}
            number = {"stype": "numerical"}
            schema = {
                "name": "db",
                "tables": {
                    "people": {"primary_key": "id", "columns": {"age": number}},
                    "letters": {"primary_key": "id", "columns": {"sender": key, "reader": key, "size": number}},
                },
                "embedding": {"dim": 4},
            }
            ingested = self.ingest(database, schema)
            assert ingested is not None
            path, datasets = ingested
            store = Store.ingest(database, json.dumps(schema))
            for i in range(3):
                manifest = folder / f"m{i}.json"
                document = any_manifest(rng, datasets, batch_size=4)
                document["batch"] = {"sequence_length": 150, "child_width": rng.choice([3, 16]), "max_hops": 4}
                if i == 2:
                    document["batch"]["row_order"] = "best"
                manifest.write_text(json.dumps(document))
                step = any_step(rng, document)
                built = run(*batch_arguments(step, path, manifest), "--tensors")
                self.assertEqual(differences(built, reference_batch(store, manifest.read_text(), step)), [], step)

        self.cases("twice", check, max(2, CASES // 10))

    def test_a_sample_is_the_same_for_every_world_size(self) -> None:
        def check(rng: random.Random, folder: Path) -> None:
            database = folder / "db.sqlite"
            ingested = self.ingest(database, leak_database.make(rng, database))
            if ingested is None:
                return
            path, datasets = ingested
            manifest = folder / "m.json"
            document = any_manifest(rng, datasets, batch_size=24)
            document["batch"].update(any_labels(rng))
            document["data"]["drop_last"] = False
            lengths = document["batch"]["sequence_length"]
            document["batch"]["sequence_length"] = rng.choice([lengths, [42, 7, 21]])
            manifest.write_text(json.dumps(document))
            step = {**any_step(rng, document), "world_size": 1, "rank": 0, "pad": False}
            step["position"] = min(step["position"], datasets[step["dataset"]]["cardinality"] - 1)
            step["epoch"] = min(step["epoch"], 2**40)  # so that no epoch passes 2^64-1
            found = {}
            for world_size in WORLD_SIZES:
                ranks = [{**step, "world_size": world_size, "rank": rank} for rank in range(world_size)]
                batches = [run(*batch_arguments(rank, path, manifest)) for rank in ranks]
                found[world_size] = [sequence for batch in batches for sequence in batch["sequences"]]
            self.assertGreater(len(found[1]), 0)
            for world_size in WORLD_SIZES[1:]:
                self.assertEqual(found[world_size], found[1], (world_size, step))

        self.cases("world", check, max(1, CASES // 4))


# ---- Against the raw database ------------------------------------------------------------------------------


class Decoded:
    """One sequence of a batch, from the bytes of its tensors."""

    def __init__(self, batch: Json, number: int) -> None:
        length, rows = batch["dims"]["S"], batch["dims"]["R"]
        forms = {"int8": "b", "int32": "i", "uint16": "H", "uint8": "B", "float32": "f", "uint32": "I"}
        self.fields = batch["sequences"][number]
        self.of: dict[str, tuple[Any, ...]] = {}
        for name, tensor in batch["tensors"].items():
            if name in ("fk_adj", "text_batch_embeddings"):
                continue
            data = self.data_of(tensor)
            size = len(data) // batch["dims"]["B"]
            form = forms[tensor["dtype"]]
            count = size // struct.calcsize(form)
            self.of[name] = struct.unpack_from(f"<{count}{form}", data, number * size)
        self.adjacency = self.data_of(batch["tensors"]["fk_adj"])[number * rows * rows : (number + 1) * rows * rows]
        self.rows, self.length = rows, length

    @staticmethod
    def data_of(tensor: Json) -> bytes:
        """The bytes of all sequences, decoded for the first of them."""
        if "bytes" not in tensor:
            tensor["bytes"] = bytes.fromhex(tensor["data"])
        return tensor["bytes"]

    @cached_property
    def foreign_keys(self) -> set[tuple[int, int]]:
        return {divmod(i, self.rows) for i, bit in enumerate(self.adjacency) if bit}


class Leaks(Case):
    """What a batch shows, asked of the database with SQL alone."""

    def test_nothing_is_shown_before_its_time(self) -> None:
        looked_at = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal looked_at
            database = folder / "db.sqlite"
            schema = leak_database.make(rng, database)
            ingested = self.ingest(database, schema)
            if ingested is None:
                return
            path, datasets = ingested
            truth = Truth(database, schema)
            info = run("info", path)
            for i in range(4):
                document = any_manifest(rng, datasets)
                document["batch"].update(sequence_length=600, max_rows=60)
                manifest = folder / f"m{i}.json"
                manifest.write_text(json.dumps(document))
                step = any_step(rng, document)
                batch = run(*batch_arguments(step, path, manifest), "--tensors")
                if "error" in batch:
                    continue
                for number, sequence in enumerate(batch["sequences"]):
                    if sequence["num_cells"]:
                        self.check_sequence(Decoded(batch, number), batch, truth, info, document["batch"])
                        looked_at += 1

        self.cases("leak", check, CASES)
        self.assertTrue(ONLY_CASE or looked_at >= CASES, "hardly anything was looked at")

    def check_sequence(self, shown: Decoded, batch: Json, truth: Truth, info: Json, config: Json) -> None:
        task = truth.schema["tasks"][batch["task"]]
        columns = {c["column_idx"]: c for c in info["columns"]}
        is_cell = "observation_time_column" not in task or task.get("kind") == "cell"
        observed = shown.fields["observation_time"]
        limit = _micros(config.get("context_until"))
        anchor_cutoff = _second(observed if limit is None else min(observed, limit))
        earlier = observed - 1 if config.get("strictly_before") else observed
        cutoff = _second(earlier if limit is None else min(earlier, limit))
        self.check_target(shown, batch, info)
        rows = self.rows_shown(shown, columns, truth)
        anchor_table, anchor = rows[0]
        anchor_key = key_of(anchor_table, anchor)
        is_anchor_there = task.get("before_anchor") == "show_known" or truth.was_there(
            anchor_table, anchor, anchor_cutoff
        )
        split = batch["dataset"].rsplit("/", 1)[1]
        self.assertIn((anchor_key, _second(observed), split), truth.seeds[batch["task"]])
        keys = [(table, key_of(table, row)) for table, row in rows]
        self.assertEqual(len(set(keys)), len(keys), "a row is there twice")
        for table, row in rows[1:]:
            self.assertTrue(truth.was_there(table, row, cutoff), f"{table} {row} at {cutoff}")
        visibility = config.get("label_visibility", "train")
        splits = {"train": ["train"], "all": ["train", "val", "test"], "none": []}.get(str(visibility), visibility)
        held_out = {key for key, _, part in truth.seeds[batch["task"]] if part not in splits}
        dropped = set(task.get("drop_columns", []))
        for at in range(1, shown.fields["num_cells"]):
            column = columns[shown.of["column_ids"][at]]
            table, row = rows[shown.of["seq_row_ids"][at]]
            name = column["name"]
            self.assertEqual(column["table"], table)
            self.assertNotIn(f"{table}.{name}", dropped)
            self.assertFalse(column["stype"] == "identifier" and config.get("identifiers") == "omit")
            known = truth.was_known(table, row, name, cutoff, is_anchor_there and row is anchor)
            is_there = row[name] is not None and known
            self.assertEqual(shown.of["is_null"][at], not is_there, f"{table}.{name} of {row} at {cutoff}")
            if is_cell and (table, name) == (anchor_table, task["target_column"]):
                key = key_of(table, row)
                self.assertNotEqual(key, anchor_key, "the target is there twice")
                self.assertNotEqual(visibility, "none")
                self.assertNotIn(key, held_out, f"the held-out label of {row}")
            self.check_value(shown, at, column, row[name], is_there)
        hidden = dropped | ({f"{anchor_table}.{task['target_column']}"} if is_cell else set())
        self.assertEqual(shown.foreign_keys, self.edges_that_show(rows, hidden, truth, cutoff, is_anchor_there))

    def check_target(self, shown: Decoded, batch: Json, info: Json) -> None:
        self.assertEqual(shown.of["is_target"][0], 1)
        self.assertEqual(sum(shown.of["is_target"]), 1)
        [task] = [t for t in info["tasks"] if t["name"] == batch["task"]]
        self.assertEqual(shown.of["column_ids"][0], task["column_idx"])
        self.assertEqual(shown.of["seq_row_ids"][0], 0)
        padding = [i >= shown.fields["num_cells"] for i in range(shown.length)]
        self.assertEqual([bool(bit) for bit in shown.of["is_padding"]], padding)

    def rows_shown(self, shown: Decoded, columns: Json, truth: Truth) -> list[tuple[str, Row]]:
        """The rows of a sequence, told apart by their serials; the anchor, which may be later, by its number."""
        rows = {0: truth.in_order[shown.fields["anchor_row"]]}
        for at in range(1, shown.fields["num_cells"]):
            column = columns[shown.of["column_ids"][at]]
            number = shown.of["seq_row_ids"][at]
            if column["name"] == "serial" and number > 0:
                serial = shown.of["numeric_values"][at] * column["std"] + column["mean"]
                self.assertLess(abs(serial - round(serial)), 0.01)
                self.assertEqual(truth.by_serial[round(serial)][0], column["table"])
                rows[number] = truth.by_serial[round(serial)]
        self.assertEqual(sorted(rows), list(range(shown.fields["num_rows"])))
        return [rows[number] for number in sorted(rows)]

    def check_value(self, shown: Decoded, at: int, column: Json, raw: Any, is_there: bool) -> None:
        numeric, boolean = shown.of["numeric_values"][at], shown.of["bool_values"][at]
        times = shown.of["timestamp_values"][15 * at : 15 * at + 15]
        if column["stype"] != "numerical" or not is_there:
            self.assertEqual(numeric, 0)
        else:
            expected = (raw - column["mean"]) / column["std"]
            self.assertTrue(math.isclose(numeric, expected, rel_tol=1e-6, abs_tol=1e-6))
        if column["stype"] != "timestamp" or not is_there:
            self.assertEqual(set(times), {0.0})
        else:
            minute = raw // 60 % 60
            self.assertTrue(math.isclose(times[2], math.sin(minute * math.tau / 60), abs_tol=1e-6))
        self.assertEqual(boolean, 1 if column["stype"] == "boolean" and is_there and raw else 0)
        if column["stype"] != "categorical" or not is_there:
            self.assertEqual(shown.of["categorical_embed_ids"][at], 0)
        if column["stype"] != "text" or not is_there:
            self.assertEqual(shown.of["text_embed_ids"][at], 0)

    def edges_that_show(
        self, rows: list[tuple[str, Row]], hidden: set[str], truth: Truth, cutoff: int | None, is_anchor_there: bool
    ) -> set[tuple[int, int]]:
        numbers = {id(row): i for i, (_, row) in enumerate(rows)}
        edges = set()
        for i, (table, row) in enumerate(rows):
            for key in TABLES[table].foreign_keys():
                parent, columns = truth.parent(table, row, key), TABLES[table].parent_of(key)[0]
                is_shown = all(
                    f"{table}.{column}" not in hidden
                    and truth.was_known(table, row, column, cutoff, is_anchor_there and i == 0)
                    for column in columns
                )
                if parent is not None and is_shown and id(parent) in numbers:
                    edges.add((i, numbers[id(parent)]))
        return edges

    def test_the_future_does_not_matter(self) -> None:
        """Whatever is later than the observation time is dealt out anew; the batches stay what they were."""

        def check(rng: random.Random, folder: Path) -> None:
            now = leak_database.FIRST_SECOND + 3600 * rng.randrange(leak_database.HOURS)
            counts = {"people": rng.randint(2, 25), "places": rng.randint(1, 8), "kinds": 3}
            rows = leak_database.rows_of(rng, {**counts, "visits": rng.randint(10, 60)})
            for row in rows["people"]:
                row["note"] = None  # the numbers of texts depend on all texts
            schema = leak_database.schema_of()
            schema["statistics_until"] = _iso(now)
            schema["tasks"] = {"churn": {
                "query": f"SELECT id AS k, id % 3 = 1 AS churn, {now} AS seen, 'train' AS part FROM people",
                "anchor_table": "people", "anchor_key": ["k"], "target_column": "churn", "target_stype": "boolean",
                "observation_time_column": "seen", "split": {"method": "column", "column": "part"},
            }}  # fmt: skip
            found = []
            document = None
            for turn in range(2):
                (folder / str(turn)).mkdir()
                database = folder / str(turn) / "db.sqlite"
                leak_database.write(database, rows)
                ingested = self.ingest(database, schema)
                self.assertIsNotNone(ingested)
                path, datasets = ingested
                document = document or any_manifest(rng, datasets, batch_size=30)
                document["data"]["drop_last"] = False
                manifest = folder / "m.json"
                manifest.write_text(json.dumps(document))
                step = {"dataset": "leak/churn/train", "stage": "train", "epoch": 3, "position": 0}
                found.append(run(*batch_arguments(step, path, manifest), "--tensors"))
                rows = _with_another_future(rng, rows, now)
            self.assertNotIn("error", found[0])
            self.assertEqual(differences(found[1], found[0]), [])

        self.cases("future", check, CASES)


def _micros(time: int | str | None) -> int | None:
    if not isinstance(time, str):
        return time
    return round(datetime.fromisoformat(time).timestamp()) * MICROSECONDS


def _second(micros: int) -> int | None:
    """As the raw rows have it; None sees everything."""
    return None if micros >= SEES_EVERYTHING - 1 else micros // MICROSECONDS


def _iso(second: int) -> str:
    return datetime.fromtimestamp(second, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _with_another_future(rng: random.Random, rows: dict[str, list[Row]], now: int) -> dict[str, list[Row]]:
    """The same database as far as it is known now: in each column, the cells of rows that are yet to come change
    places with each other, and so do the cells that are not known yet of rows that are there. (Of the latter not
    the numbers and times: they are in the statistics, which are those of whole rows.) The columns of one foreign
    key change together: a row that led nowhere would have been there always."""
    changed = {name: [dict(row) for row in rows[name]] for name in rows}
    world = World(rows)
    for name, facts in TABLES.items():
        to_come = [i for i, row in enumerate(rows[name]) if not world.was_there(name, row, now)]
        wide = [columns for columns, _ in facts.wide_keys.values()]
        single = [(column,) for column in facts.columns if not any(column in columns for columns in wide)]
        for columns in [*wide, *single]:
            if set(columns) & set(facts.key):
                continue
            stypes = {facts.columns[column].stype for column in columns}
            unknown = [i for i, row in enumerate(rows[name]) if not world.was_known(name, row, columns[0], now)]
            not_yet = [] if stypes & {"numerical", "timestamp"} else sorted(set(unknown) - set(to_come))
            for group in (to_come, not_yet):
                for place, source in zip(group, rng.sample(group, len(group))):
                    changed[name][place].update({column: rows[name][source][column] for column in columns})
    return changed


if __name__ == "__main__":
    unittest.main()
