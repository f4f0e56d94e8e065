"""Link tasks through the program: what is refused and said, runs of any number of workers and ranks, resumed or not, and
the page that shows a group."""

import copy
import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.support.batches import PROGRAM, run
from tests.support.cases import scratch_database

SQL = """
CREATE TABLE readers (id INTEGER PRIMARY KEY, since TEXT);
CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, printed TEXT);
CREATE TABLE loans (id INTEGER PRIMARY KEY, reader INTEGER, book INTEGER, at TEXT);
INSERT INTO readers SELECT value, '2023-01-01' FROM generate_series(1, 12);
INSERT INTO books SELECT value, 'book ' || value, CASE WHEN value < 15 THEN NULL ELSE '2024-02-10' END FROM generate_series(1, 16);
INSERT INTO loans SELECT value, 1 + value * 7 % 12, 1 + value * 5 % 16, date('2023-12-01', '+' || value || ' days')
  FROM generate_series(0, 119);
"""
TASK = {
    "kind": "link",
    "query": "SELECT l.reader, l.book, t.at FROM loans l JOIN (SELECT '2024-01-01' AS at UNION ALL SELECT '2024-02-01'"
             " UNION ALL SELECT '2024-03-01') t ON l.at > t.at AND l.at <= date(t.at, '+30 days')",
    "anchor_table": "readers", "anchor_key": "reader",
    "destination_table": "books", "destination_key": "book",
    "observation_time_column": "at", "popularity": "loans.book",
    "split": {"method": "temporal", "val": "2024-02-15", "test": "2024-03-15"},
}  # fmt: skip
SCHEMA = {
    "name": "library",
    "keys": True,
    "tables": {
        "readers": {"primary_key": "id", "temporal_column": "since",
                    "columns": {"id": {"stype": "identifier"}, "since": {"stype": "timestamp"}}},
        "books": {"primary_key": "id", "temporal_column": "printed",
                  "columns": {"id": {"stype": "identifier"}, "title": {"stype": "text"}, "printed": {"stype": "timestamp"}}},
        "loans": {"primary_key": "id", "temporal_column": "at",
                  "columns": {"reader": {"stype": "identifier", "foreign_key": "readers.id"},
                              "book": {"stype": "identifier", "foreign_key": "books.id"}, "at": {"stype": "timestamp"}}},
    },
    "tasks": {"reads": TASK},
    "embedding": {"provider": "hash_v1", "dim": 8},
}  # fmt: skip

folder: Path
holder: tempfile.TemporaryDirectory


def make_database(path):
    """SQLite's library has no generate_series, its shell does."""
    rows = re.sub(r"FROM generate_series\((\d+), (\d+)\)",
                  lambda found: f"FROM (WITH RECURSIVE s(value) AS (SELECT {found[1]} UNION ALL SELECT value + 1 FROM s"
                                f" WHERE value < {found[2]}) SELECT value FROM s)", SQL)
    connection = scratch_database(path)
    connection.executescript(rows)
    connection.close()


def setUpModule():
    global folder, holder
    holder = tempfile.TemporaryDirectory()
    folder = Path(holder.name)
    make_database(folder / "library.sqlite")
    (folder / "s.json").write_text(json.dumps(SCHEMA))
    assert "error" not in run("ingest", folder / "library.sqlite", "--schema", folder / "s.json", "-o", folder / "library.weir")
    manifest = json.loads((folder / "library.manifest.json").read_text())
    manifest["global_batch_size"] = 4
    manifest["batch"].update(sequence_length=48, links={"negatives": 3, "candidates": 6, "by": "popularity"})
    (folder / "m.json").write_text(json.dumps(manifest))


def tearDownModule():
    holder.cleanup()


def weir(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout


class Schemas(unittest.TestCase):
    def ingest(self, schema):
        (folder / "x.json").write_text(json.dumps(schema))
        return run("ingest", folder / "library.sqlite", "--schema", folder / "x.json", "-o", folder / "x.weir")

    def refused(self, what, **changes):
        """A key that is None is taken away."""
        schema = copy.deepcopy(SCHEMA)
        task = {**TASK, **changes}
        schema["tasks"]["reads"] = {key: value for key, value in task.items() if value is not None}
        error = self.ingest(schema).get("error")
        self.assertIsNotNone(error, what)
        self.assertEqual(error["code_id"], "TASK_INVALID", error)
        self.assertIn(what, error["message"])
        self.assertFalse((folder / "x.weir").exists())

    def test_what_a_link_task_cannot_be(self):
        for key in ("query", "observation_time_column", "destination_key"):
            self.refused(f"$.tasks.reads.{key}", **{key: None})
        for key, value in (("target_column", "x"), ("target_stype", "boolean"), ("target_statistics", "all"),
                           ("weight_column", "w"), ("horizon", "1d"), ("label_known_column", "k")):
            self.refused(f"$.tasks.reads.{key}", **{key: value})
        self.refused("$.tasks.reads.kind", kind="links")
        self.refused("$.tasks.reads.destination_table", destination_table="shelves")
        self.refused("$.tasks.reads.destination_key", destination_key=["book", "at"])
        self.refused("must be a foreign key that leads to books", popularity="loans.reader")
        self.refused("names a table that the schema does not have", popularity="shelves.book")
        self.refused("the query has no column shelf", destination_key="shelf")
        self.refused("needs \"kind\": \"link\"", kind="derived", target_column="x", target_stype="boolean",
                     destination_key=None, popularity=None)

    def test_pairs_need_a_time_and_lists_one_split(self):
        self.refused("whose observation time is null", query="SELECT reader, book, NULL AS at FROM loans")
        self.refused("are in two splits, by column part", split={"method": "column", "column": "part"},
                     query="SELECT reader, book, '2024-03-15' AS at, CASE book % 3 WHEN 0 THEN 'train' ELSE 'val' END AS part FROM loans")

    def test_keys_of_something_else_are_not_the_destinations(self):
        self.refused("not the primary key id of the destination table books",
                     query="SELECT l.reader, l.reader AS book, l.at FROM loans l")

    def test_what_is_left_out_is_counted(self):
        schema = copy.deepcopy(SCHEMA)
        schema["tasks"]["reads"]["query"] = (
            "SELECT 1 AS reader, 2 AS book, '2024-01-01' AS at UNION ALL SELECT 1, 2, '2024-01-01' UNION ALL"
            " SELECT 1, 3, '2024-01-01' UNION ALL SELECT 1, 99, '2024-01-01' UNION ALL SELECT NULL, 3, '2024-01-01'"
            " UNION ALL SELECT 1, 16, '2024-01-01' UNION ALL SELECT 1, 16, '2024-02-11'")
        self.assertNotIn("error", self.ingest(schema))
        [task] = run("info", folder / "x.weir")["tasks"]
        (folder / "x.weir").unlink()
        self.assertEqual([task[key] for key in ("kind", "seeds", "lists", "dropped", "late", "repeated")], ["link", 3, 2, 2, 1, 1])

    def test_what_people_are_told(self):
        said = weir("info", folder / "library.weir")
        self.assertRegex(said, r"reads +link +boolean +of readers")
        self.assertIn("popularity by loans.book", said)
        self.assertNotIn("constant", weir("ingest", folder / "library.sqlite", "--schema", folder / "s.json", "-o", folder / "y.weir"))


class Batches(unittest.TestCase):
    def batch(self, manifest, dataset="library/reads/val", stage="eval", *more):
        return run("batch", "--store", folder / "library.weir", "--manifest", manifest, "--dataset", dataset, "--stage", stage, *more)

    def changed(self, **links):
        manifest = json.loads((folder / "m.json").read_text())
        manifest["batch"]["links"] = links
        (folder / "c.json").write_text(json.dumps(manifest))
        return folder / "c.json"

    def test_popularity_needs_a_foreign_key(self):
        schema = copy.deepcopy(SCHEMA)
        del schema["tasks"]["reads"]["popularity"]
        (folder / "p.json").write_text(json.dumps(schema))
        run("ingest", folder / "library.sqlite", "--schema", folder / "p.json", "-o", folder / "p.weir")
        error = run("batch", "--store", folder / "p.weir", "--manifest", self.changed(by="popularity"), "--any-hash",
                    "--dataset", "library/reads/train")["error"]
        self.assertEqual(error["code_id"], "CONTRACT_VIOLATION")
        self.assertIn("popularity", error["message"])

    def test_manifests_that_are_refused(self):
        for links in ({"negatives": 1025}, {"candidates": -1}, {"by": "price"}, {"draws": 3}):
            error = self.batch(self.changed(**links))["error"]
            self.assertEqual(error["code_id"], "MANIFEST_INVALID", links)
            self.assertIn("$.batch.links", error["message"])

    def test_a_manifest_that_says_the_defaults_is_one_that_says_nothing(self):
        hashes = [run("manifest", self.changed(**links))["batch_config_hash"]
                  for links in ({}, {"negatives": 4, "candidates": 20, "by": "uniform"}, {"negatives": 5})]
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0], hashes[2])

    def test_what_there_is_no_negative_for_is_padding(self):
        batch = self.batch(self.changed(candidates=40))
        self.assertEqual(batch["group_size"], 42)
        for first in range(0, batch["dims"]["B"], 42):
            group = batch["sequences"][first : first + 42]
            roles = [sequence["role"] for sequence in group]
            there = roles.index(None)
            self.assertEqual(roles, ["source", "destination"] + ["negative"] * (there - 2) + [None] * (42 - there))
            self.assertTrue(all(sequence["num_cells"] == 0 and sequence["anchor_key"] is None for sequence in group[there:]))
            self.assertEqual(len({sequence["anchor_key"] for sequence in group[1:there]}), there - 1)

    def test_a_source_alone_and_batches_that_are_filled_up(self):
        batch = self.batch(self.changed(candidates=0, negatives=0), "library/reads/train", "train", "--pad")
        self.assertEqual((batch["group_size"], batch["dims"]["B"]), (2, 8))

    def test_the_page_tells_roles(self):
        page = folder / "b.html"
        self.batch(folder / "m.json", "library/reads/val", "eval", "--html", page)
        text = page.read_text()
        self.assertIn('"destination_table": "books"', text)
        for role in ("source", "destination", "negative"):
            self.assertIn(f'"role": "{role}"', text)


class Runs(unittest.TestCase):
    STEPS = 14

    def trace(self, name, *more):
        weir("run", "--store", folder / "library.weir", "--manifest", folder / "m.json", "--steps", self.STEPS, "--trace-indices",
             "--trace", folder / name, *more)
        return folder / name

    def test_any_number_of_workers_and_ranks_is_one_run(self):
        single = self.trace("one.trace")
        workers = self.trace("workers.trace", "--workers", 3)
        self.assertFalse(run("diff", single, workers)["differs"])
        for size in (2, 4):
            for rank in range(size):
                self.trace(f"{size}.trace", "--world-size", size, "--rank", rank)
            merged = run("merge", *(folder / f"{size}.trace.rank{rank}" for rank in range(size)), "--single", single)
            self.assertNotIn("error", merged)
            self.assertEqual((merged["steps"], merged["unchecked_digests"]), (self.STEPS, 0))
            self.assertGreater(merged["digests"], 0)

    def test_a_replay_compares_every_digest(self):
        replayed = run("replay", self.trace("replayed.trace"), "--store", folder / "library.weir")
        self.assertEqual((replayed["checked_digests"], replayed["unchecked_digests"]), (self.STEPS, 0))
        self.assertGreater(replayed["checked_sample_digests"], self.STEPS)

    def test_a_resumed_run_is_the_run_that_went_through(self):
        whole = self.trace("whole.trace")
        state = folder / "state.ckpt"
        common = ("run", "--store", folder / "library.weir", "--manifest", folder / "m.json", "--trace-indices", "--trace",
                  folder / "resumed.trace", "--checkpoint", state)
        weir(*common, "--steps", 5)
        weir(*common, "--steps", self.STEPS, "--resume", state, "--workers", 2)
        self.assertFalse(run("diff", whole, folder / "resumed.trace")["differs"])

    def test_a_device_has_the_same_batches(self):
        host = self.trace("host.trace", "--device", "host", "--read-back")
        self.assertFalse(run("diff", self.trace("plain.trace"), host)["differs"])


if __name__ == "__main__":
    unittest.main()
