"""Link tasks on random databases: against the reference, and against what the raw database says.

People make deals about things. A task asks about which things a person will make a deal in the next hours. Each deal
has a number of its own as a value, so that a test knows from a batch's numbers alone which deals a sequence shows,
and asks the database itself, with SQL, when they were made, which things there were, and which of them the person
made a deal about. Clean stores have no leak; planted ones (deals without a time, a query that keeps some pairs
back) are found.
"""

import json
import os
import random
import sqlite3
import struct
import sys
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))
sys.path.insert(1, str(PROJECT_ROOT / "tests"))
sys.path.insert(2, str(PROJECT_ROOT / "tests" / "property"))

from reference.batch import BatchBuilder  # noqa: E402
from reference.contexts import Request, build_contexts  # noqa: E402
from reference.manifest import Manifest  # noqa: E402
from reference.store import Store  # noqa: E402
from support.batches import batch_arguments, differences, run  # noqa: E402
from support.cases import ONLY_CASE, RandomCases, scratch_database  # noqa: E402
from test_batch import Decoded, any_batch_config, any_manifest, any_step, reference_batch  # noqa: E402

CASES = int(os.environ.get("WEIR_PROPERTY_CASES", "24"))
HOUR = 3600
FIRST = 1_700_000_000
HOURS = 400
MICROSECONDS = 1_000_000

Json = Any


# ---- Databases ---------------------------------------------------------------------------------------------


def any_time(rng: random.Random, share_of_nulls: float = 0.0) -> int | None:
    return None if rng.random() < share_of_nulls else FIRST + HOUR * rng.randrange(HOURS)


def make_database(rng: random.Random, path: Path) -> None:
    people, things = rng.choice([1, 4, 20]), rng.choice([1, 3, 12, 40, 90])
    connection = scratch_database(path)
    connection.executescript(
        "CREATE TABLE people (id INTEGER, born INTEGER, size REAL);"
        "CREATE TABLE things (maker TEXT, model INTEGER, made INTEGER, price REAL);"
        "CREATE TABLE deals (number INTEGER, person INTEGER, maker TEXT, model INTEGER, at INTEGER);"
    )
    share = rng.choice([0.0, 0.3, 1.0])
    connection.executemany(
        "INSERT INTO people VALUES (?, ?, ?)", [(i + 10, any_time(rng, 0.6), rng.random()) for i in range(people)]
    )
    models = [("ab"[i % 2], i // 2, any_time(rng, share), rng.random()) for i in range(things)]
    rng.shuffle(models)
    connection.executemany("INSERT INTO things VALUES (?, ?, ?, ?)", models)
    deals = []
    for number in range(rng.choice([5, 60, 200])):
        maker, model, made, _ = models[min(rng.randrange(things), rng.randrange(things))]  # some are popular
        at = any_time(rng)
        if made is not None and rng.random() < 0.8:
            at = max(at or 0, made + rng.choice([0, HOUR]))
        deals.append((number, rng.choice([*range(10, 10 + people), 10, 999]), maker, model, at))
    connection.executemany("INSERT INTO deals VALUES (?, ?, ?, ?, ?)", deals)
    connection.commit()
    connection.close()


def query(rng: random.Random) -> str:
    """The pairs of some windows; some of nobody, and some twice."""
    width = HOUR * rng.choice([30, 100])
    moments = sorted(FIRST + HOUR * rng.randrange(HOURS) for _ in range(rng.choice([1, 4])))
    times = ", ".join(f"({moment}, {moment + width})" for moment in moments)
    return (
        f"WITH times(t, until) AS (VALUES {times})"
        " SELECT d.person AS person_id, d.maker AS k0, d.model AS k1, times.t AS seen,"
        " CASE d.person % 3 WHEN 0 THEN 'val' WHEN 1 THEN 'test' ELSE 'train' END AS part"
        " FROM times JOIN deals d ON d.at > times.t AND d.at <= times.until"
    )


def make_schema(rng: random.Random, question: str) -> Json:
    splits: list[Json] = [
        {"method": "hash", "permille": [500, 250, 250], "seed": rng.randrange(9)},
        {"method": "temporal", "val": FIRST + HOUR * 150, "test": FIRST + HOUR * 300},
        {"method": "column", "column": "part"},
    ]
    task: Json = {
        "kind": "link", "query": question, "anchor_table": "people", "anchor_key": "person_id",
        "destination_table": "things", "destination_key": ["k0", "k1"], "observation_time_column": "seen",
        "unit": "s", "split": rng.choice(splits), "before_anchor": rng.choice(["keep", "show_known", "move"]),
    }  # fmt: skip
    if rng.random() < 0.7:
        task["popularity"] = rng.choice(["deals.thing", ["deals", "thing"]])
    time = {"stype": "timestamp", "unit": "s"}
    return {
        "name": "world",
        "keys": rng.random() < 0.5,
        "tables": {
            "people": {
                "primary_key": "id", "temporal_column": "born",
                "columns": {"id": {"stype": "identifier"}, "born": time, "size": {"stype": "numerical"}},
            },
            "things": {
                "primary_key": ["maker", "model"], "temporal_column": "made",
                "columns": {"maker": {"stype": "categorical"}, "model": {"stype": "identifier"}, "made": time,
                            "price": {"stype": "numerical"}},
            },
            "deals": {
                "primary_key": "number", "temporal_column": "at",
                "foreign_keys": [{"columns": ["maker", "model"], "table": "things", "name": "thing"}],
                "columns": {"number": {"stype": "numerical"}, "at": time,
                            "person": {"stype": "identifier", "foreign_key": "people.id"}},
            },
        },
        "tasks": {"deal": task},
        "embedding": {"provider": "hash_v1", "dim": 8},
    }  # fmt: skip


# ---- What the database says ----------------------------------------------------------------------------------


class Truth:
    """Keys are (maker, model); times are seconds. Rows are numbered as stores number them: deals, people, things, each
    by its key."""

    def __init__(self, database: Path, question: str) -> None:
        self.connection = sqlite3.connect(database)
        self.deals = dict(self.rows("SELECT number, at FROM deals"))
        people = [row[0] for row in self.rows("SELECT id FROM people ORDER BY id")]
        things = self.rows("SELECT maker, model FROM things ORDER BY maker, model")
        self.key_of: dict[int, Any] = dict(enumerate([None] * len(self.deals) + people + things))
        self.lists: dict[tuple[int, int], set[Any]] = {}
        for person, maker, model, seen, _ in self.rows(question):
            self.lists.setdefault((person, seen), set()).add((maker, model))
        self.made = {(maker, model): made for maker, model, made in self.rows("SELECT maker, model, made FROM things")}
        self.connection.close()

    def rows(self, sql: str) -> list[Any]:
        return self.connection.execute(sql).fetchall()

    def was_there(self, thing: Any, second: float) -> bool:
        return self.made[thing] is None or self.made[thing] <= second


def deals_shown(decoded: Decoded, column: Json) -> set[int]:
    """The numbers of the deals that a sequence shows."""
    of = decoded.of
    return {
        round(of["numeric_values"][at] * column["std"] + column["mean"])
        for at in range(decoded.fields["num_cells"])
        if of["column_ids"][at] == column["column_idx"] and not of["is_null"][at]
    }


def leaks(batch: Json, truth: Truth, info: Json, is_moved: bool) -> list[str]:
    """What a batch of the task shows that it must not."""
    found = []
    [number] = [column for column in info["columns"] if column["name"] == "number"]
    size = batch["group_size"]
    for first in range(0, len(batch["sequences"]), size):
        group = batch["sequences"][first : first + size]
        if group[0]["role"] is None:
            continue
        person, second = truth.key_of[group[0]["anchor_row"]], group[0]["observation_time"] / MICROSECONDS
        seen: set[Any] = set()
        for place, sequence in enumerate(group):
            decoded = Decoded(batch, first + place)
            if sequence["role"] is None:
                continue
            later = [deal for deal in deals_shown(decoded, number) if truth.deals[deal] > second]
            found += [f"deal {deal} is shown at {second}" for deal in later]
            label = None if decoded.of["is_null"][0] else decoded.of["bool_values"][0]
            if place == 0:
                found += [] if label is None else ["the source has a label"]
                continue
            thing = truth.key_of[sequence["anchor_row"]]
            is_linked = thing in truth.lists.get((person, int(second)), set()) or is_moved and label == 1
            found += [f"{thing} is there twice"] if thing in seen else []
            found += [] if truth.was_there(thing, second) else [f"{thing} is not there at {second}"]
            found += [] if label == is_linked == (place == 1) else [f"{thing} of {person} at {second}: {label}"]
            seen.add(thing)
    return found


# ---- Tests ---------------------------------------------------------------------------------------------------


class Worlds(RandomCases):
    def ingest(self, folder: Path, schema: Json, name: str = "s", format: int = 0) -> tuple[Path, Json] | None:
        """The store and its datasets; None if it has no pair."""
        path, output = folder / f"{name}.schema.json", folder / f"{name}.weir"
        path.write_text(json.dumps(schema))
        self.assertNotIn("error", run("ingest", folder / "db.sqlite", "--schema", path, "-o", output, "--format", str(format)))
        self.assertNotIn("error", run("verify", output))
        datasets = json.loads(output.with_name(f"{name}.manifest.json").read_text())["datasets"]
        return (output, datasets) if datasets else None

    def world(self, rng: random.Random, folder: Path) -> Json:
        make_database(rng, folder / "db.sqlite")
        return make_schema(rng, query(rng))

    def manifest(self, rng: random.Random, folder: Path, datasets: Json, schema: Json) -> Json:
        document = any_manifest(rng, datasets)
        document["batch"] = any_batch_config(rng)
        if rng.random() < 0.8:
            choices = {"negatives": [0, 1, 5, 90], "candidates": [0, 3, 40], "by": ["uniform", "popularity"]}
            links = {name: rng.choice(values) for name, values in choices.items() if rng.random() < 0.8}
            if "popularity" not in schema["tasks"]["deal"] and rng.random() < 0.8:
                links.pop("by", None)
            document["batch"]["links"] = links
        (folder / "m.json").write_text(json.dumps(document))
        return document


class Links(Worlds):
    def check_places(self, path: Path, store: Store, info: Json) -> None:
        """The section of links is what the reference's places are."""
        destinations = store.tasks[0].destinations
        assert destinations is not None
        [section] = [part for part in info["sections"] if part["name"] == "links"]
        data = path.read_bytes()[section["offset"] :][: section["size"]]
        references = destinations.references
        expected = struct.pack(f"<{len(destinations.times)}q", *destinations.times)
        expected += struct.pack(f"<{len(references)}q", *(time for time, _, _ in references))
        expected += struct.pack(f"<{len(destinations.rows)}I", *map(destinations.table.number_of, destinations.rows))
        expected += struct.pack(f"<{len(references)}I", *(place for _, _, place in references))
        self.assertEqual(data, expected)

    def test_every_tensor_is_that_of_the_reference(self) -> None:
        compared = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared
            schema = self.world(rng, folder)
            format = rng.choice([1, 2])
            ingested = self.ingest(folder, schema, format=format)
            store = Store.ingest(folder / "db.sqlite", json.dumps(schema), format=format)
            info = run("info", folder / "s.weir")
            self.assertEqual(info["tasks"], store.info()["tasks"])
            self.check_places(folder / "s.weir", store, info)
            for _ in range(3 if ingested else 0):
                path, datasets = ingested  # type: ignore[misc]
                document = self.manifest(rng, folder, datasets, schema)
                step = any_step(rng, document)
                built = run(*batch_arguments(step, path, folder / "m.json"), "--tensors")
                expected = reference_batch(store, (folder / "m.json").read_text(), step)
                self.assertEqual(differences(built, expected), [], (step, document["batch"]))
                compared += "error" not in expected

        self.cases("links", check, max(1, CASES // 2))
        self.assertTrue(ONLY_CASE or compared >= CASES // 2, f"hardly anything was compared: {compared}")

    def test_a_group_is_the_same_for_every_world_size(self) -> None:
        compared = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared
            schema = self.world(rng, folder)
            ingested = self.ingest(folder, schema)
            if ingested is None:
                return
            path, datasets = ingested
            document = any_manifest(rng, datasets, batch_size=12)
            document["batch"] = {"sequence_length": 40, "links": {"negatives": 3, "candidates": 5}}
            document["data"]["drop_last"] = False
            (folder / "m.json").write_text(json.dumps(document))
            step = {**any_step(rng, document), "pad": False, "epoch": 3}
            step["position"] = min(step["position"], datasets[step["dataset"]]["cardinality"] - 1)
            found = {}
            for size in (1, 3, 4):
                ranks = [{**step, "world_size": size, "rank": rank} for rank in range(size)]
                batches = [run(*batch_arguments(rank, path, folder / "m.json")) for rank in ranks]
                found[size] = [sequence for batch in batches for sequence in batch["sequences"]]
            self.assertGreater(len(found[1]), 0)
            self.assertEqual(found[3], found[1])
            self.assertEqual(found[4], found[1])
            compared += 1

        self.cases("link ranks", check, max(1, CASES // 6))
        self.assertTrue(ONLY_CASE or compared >= CASES // 20, "hardly anything was compared")

    def test_evaluation_has_one_set_of_candidates_for_a_list(self) -> None:
        lists = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal lists
            schema = self.world(rng, folder)
            ingested = self.ingest(folder, schema)
            if ingested is None:
                return
            path, datasets = ingested
            dataset = max(datasets, key=lambda key: datasets[key]["cardinality"])
            by = "popularity" if "popularity" in schema["tasks"]["deal"] else "uniform"
            document: Json = {
                "global_batch_size": datasets[dataset]["cardinality"], "datasets": datasets,
                "batch": {"sequence_length": 8, "links": {"candidates": 6, "by": by}},
            }  # fmt: skip
            (folder / "m.json").write_text(json.dumps(document))
            step = {"dataset": dataset, "stage": "eval", "position": 0, "world_size": 1, "rank": 0}
            passes = [run(*batch_arguments({**step, "epoch": e}, path, folder / "m.json")) for e in (0, 9)]
            rows = [[sequence["anchor_row"] for sequence in batch["sequences"]] for batch in passes]
            self.assertEqual(rows[0], rows[1])
            candidates: dict[Any, list[Any]] = {}
            for first in range(0, len(rows[0]), 8):
                key = rows[0][first], passes[0]["sequences"][first]["observation_time"]
                drawn = rows[0][first + 2 : first + 8]
                self.assertEqual(candidates.setdefault(key, drawn), drawn)
            lists += len(candidates)

        self.cases("candidates", check, max(1, CASES // 6))
        self.assertTrue(ONLY_CASE or lists >= CASES // 6, "hardly anything was compared")

    def test_a_source_on_demand_is_that_of_evaluation(self) -> None:
        compared = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared
            schema = self.world(rng, folder)
            schema["keys"] = True
            ingested = self.ingest(folder, schema)
            if ingested is None:
                return
            path, datasets = ingested
            dataset = rng.choice(sorted(datasets))
            document = {**any_manifest(rng, datasets, batch_size=1), "batch": {"sequence_length": 60, "child_width": 2}}
            (folder / "m.json").write_text(json.dumps(document))
            step = {"dataset": dataset, "stage": "eval", "epoch": 0, "world_size": 1, "rank": 0}
            step["position"] = rng.randrange(datasets[dataset]["cardinality"])
            group = run(*batch_arguments(step, path, folder / "m.json"))["sequences"]
            asking = ("context", "--store", path, "--manifest", folder / "m.json", "--task", "deal", "--time")
            time = str(group[0]["observation_time"])
            source = run(*asking, time, "--key", str(group[0]["anchor_key"]))
            thing = run(*asking, time, "--destination", "--row", str(group[1]["anchor_row"]))
            by_key = run(*asking, time, "--destination", "--key", json.dumps(group[1]["anchor_key"]))
            store = Store.ingest(folder / "db.sqlite", json.dumps(schema))
            builder = BatchBuilder(store, Manifest.read((folder / "m.json").read_text()))
            requests = [
                Request(row=group[0]["anchor_row"], time=int(time)),
                Request(row=group[1]["anchor_row"], time=int(time), is_destination=True),
            ]
            expected = build_contexts(builder, "deal", requests).sample_digests
            found = [answer["sequences"][0]["sample_digest"] for answer in (source, thing, by_key)]
            self.assertEqual(found, [f"{digest:016x}" for digest in (*expected, expected[1])])
            if source["sequences"][0]["sample_index"] == step["position"]:  # else it is of the list's first pair
                self.assertEqual(found[0], group[0]["sample_digest"])
                compared += 1

        self.cases("sources", check, max(1, CASES // 6))
        self.assertTrue(ONLY_CASE or compared >= CASES // 20, "hardly anything was compared")


class Leaks(Worlds):
    def batches(self, rng: random.Random, folder: Path, path: Path, datasets: Json, schema: Json) -> list[Json]:
        found = []
        for _ in range(3):
            document = any_manifest(rng, datasets)
            has_popularity = "popularity" in schema["tasks"]["deal"]
            document["batch"] = {
                "sequence_length": 500, "max_rows": 120, "child_width": 4096, "max_hops": 3,
                "child_policy": rng.choice(["uniform", "latest"]),
                "links": {"negatives": rng.choice([3, 30]), "candidates": 20,
                          "by": rng.choice(["uniform", "popularity"]) if has_popularity else "uniform"},
            }  # fmt: skip
            (folder / "m.json").write_text(json.dumps(document))
            step = {**any_step(rng, document), "world_size": 1, "rank": 0}
            batch = run(*batch_arguments(step, path, folder / "m.json"), "--tensors")
            found += [] if "error" in batch else [batch]
        return found

    def leaks_of(self, rng: random.Random, folder: Path, schema: Json, question: str) -> list[str]:
        """What batches of the store show, judged by the pairs that this query gives."""
        ingested = self.ingest(folder, schema)
        if ingested is None:
            return []
        truth, info = Truth(folder / "db.sqlite", question), run("info", folder / "s.weir")
        is_moved = schema["tasks"]["deal"]["before_anchor"] == "move"
        batches = self.batches(rng, folder, *ingested, schema)
        return [leak for batch in batches for leak in leaks(batch, truth, info, is_moved)]

    def test_nothing_tells_of_the_window(self) -> None:
        def check(rng: random.Random, folder: Path) -> None:
            schema = self.world(rng, folder)
            self.assertEqual(self.leaks_of(rng, folder, schema, schema["tasks"]["deal"]["query"]), [])

        self.cases("link leaks", check, max(1, CASES // 3))

    def test_planted_leaks_are_found(self) -> None:
        timeless = partial = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal timeless, partial
            schema = self.world(rng, folder)
            task = schema["tasks"]["deal"]
            task["before_anchor"] = "keep"
            question = task["query"]
            del schema["tables"]["deals"]["temporal_column"]
            timeless += any("is shown at" in leak for leak in self.leaks_of(rng, folder, schema, question))
            schema["tables"]["deals"]["temporal_column"] = "at"
            task["query"] += " AND d.number % 2 = 0"
            partial += bool(self.leaks_of(rng, folder, schema, question))

        self.cases("planted", check, max(4, CASES // 6))
        self.assertTrue(ONLY_CASE or (timeless > 0 and partial > 0), f"planted leaks stay unseen: {timeless}, {partial}")


if __name__ == "__main__":
    unittest.main()
