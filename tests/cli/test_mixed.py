"""Mixed batches through the program: what is refused and said, and what batch, run, locate and the page show."""

import copy
import json
import re
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

from tests.support.batches import PROGRAM, run
from tests.support.cases import scratch_database

NUMBER, IDENTIFIER, CATEGORY = {"stype": "numerical"}, {"stype": "identifier"}, {"stype": "categorical"}
SCHEMAS = {
    "clinic": {
        "tables": {
            "patients": {"primary_key": "id", "columns": {"id": IDENTIFIER, "ill": {"stype": "boolean"}, "note": {"stype": "text"}}},
            "visits": {"primary_key": "id", "columns": {
                "id": IDENTIFIER, "patient": {**IDENTIFIER, "foreign_key": "patients.id"}, "ward": CATEGORY}},
        },
        "tasks": {"ill": {"anchor_table": "patients", "target_column": "ill", "target_stype": "boolean"}},
    },
    "garage": {
        "tables": {"cars": {"primary_key": "id", "columns": {"id": IDENTIFIER, "make": CATEGORY, "wear": NUMBER, "text": {"stype": "text"}}}},
        "tasks": {"make": {"anchor_table": "cars", "target_column": "make", "target_stype": "categorical"},
                  "wear": {"anchor_table": "cars", "target_column": "wear", "target_stype": "numerical"}},
    },
}  # fmt: skip

folder: Path
holder: tempfile.TemporaryDirectory
MANIFEST: dict


def make_store(name: str, dim: int, output: str) -> None:
    database = folder / f"{name}.sqlite"
    if not database.exists():
        connection = scratch_database(database)
        connection.executescript(
            "CREATE TABLE patients (id INTEGER PRIMARY KEY, ill BOOLEAN, note TEXT);"
            "CREATE TABLE visits (id INTEGER PRIMARY KEY, patient INTEGER, ward TEXT);"
            "CREATE TABLE cars (id INTEGER PRIMARY KEY, make TEXT, wear REAL, text TEXT);"
        )
        for i in range(40):
            connection.execute("INSERT INTO patients VALUES (?, ?, ?)", (i, i % 2, f"note {i % 7}"))
            connection.execute("INSERT INTO visits VALUES (?, ?, ?)", (i, i * 3 % 40, "ns"[i % 2]))
            connection.execute("INSERT INTO cars VALUES (?, ?, ?, ?)", (i, "krw"[i % 3], i / 3, f"car {i % 5}"))
        connection.commit()
        connection.close()
    schema = {**SCHEMAS[name], "name": name, "keys": True, "embedding": {"provider": "hash_v1", "dim": dim}}
    (folder / "schema.json").write_text(json.dumps(schema))
    made = run("ingest", database, "--schema", folder / "schema.json", "-o", folder / output, "--manifest",
               folder / f"{output}.json", "--replace-manifest")  # fmt: skip
    assert "error" not in made, made


def setUpModule() -> None:
    global holder, folder, MANIFEST
    holder = tempfile.TemporaryDirectory()
    folder = Path(holder.name)
    make_store("clinic", 8, "clinic.weir")
    make_store("garage", 8, "garage.weir")
    make_store("garage", 9, "wide.weir")
    datasets: dict = {}
    for name in ("clinic", "garage"):
        datasets |= json.loads((folder / f"{name}.weir.json").read_text())["datasets"]
    MANIFEST = {
        "global_batch_size": 8, "datasets": datasets, "data": {"epoch_boundary": "stream"},
        "mix": {"garage/wear/train": 2, "clinic/ill/train": 3, "garage/make/train": 1},
        "batch": {"mixed": True, "sequence_length": 24},
    }  # fmt: skip


def tearDownModule() -> None:
    holder.cleanup()


def write(changes: dict | None = None) -> Path:
    document = copy.deepcopy(MANIFEST)
    for key, value in (changes or {}).items():
        document[key] = value
    path = folder / "m.json"
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))
    return path


def stores(*names: str) -> list:
    return [argument for name in names or ("garage", "clinic") for argument in ("--store", folder / f"{name}.weir")]


class Manifests(unittest.TestCase):
    def test_what_mixed_batches_need(self) -> None:
        for changes, word in [
            ({"mix": None}, "mix"), ({"data": {}}, "stream"), ({"accountant": {"effective_q": 0.5}}, "accountant"),
            ({"datasets": {**MANIFEST["datasets"], "*": MANIFEST["datasets"]["clinic/ill/train"]}}, '"*"'),
        ]:  # fmt: skip
            refused = run("manifest", write(changes))
            self.assertEqual(refused["error"]["code_id"], "MANIFEST_INVALID", changes)
            self.assertIn("$.batch.mixed", refused["error"]["message"])
            self.assertIn(word, refused["error"]["message"])

    def test_false_is_as_if_it_were_not_there(self) -> None:
        hashes = [run("manifest", write({"batch": batch})) for batch in ({}, {"mixed": False}, {"mixed": True})]
        self.assertEqual(hashes[0], hashes[1])
        self.assertNotEqual(hashes[0]["batch_config_hash"], hashes[2]["batch_config_hash"])
        self.assertEqual(hashes[0]["manifest_hash"], hashes[2]["manifest_hash"])

    def test_the_mix_is_a_dataset(self) -> None:
        manifest = write()
        self.assertEqual(run("locate", "--manifest", manifest, "--step", 10), {"dataset": "*", "cursor": {"epoch": 13, "global_index": 2}})
        step = run("next", "--manifest", manifest, "--dataset", "*", "--stage", "train", "--epoch", 13, "--position", 2)
        self.assertEqual((len(step["indices"]), step["cursor_next"]), (8, {"epoch": 14, "global_index": 4}))
        refused = run("next", "--manifest", manifest, "--dataset", "*", "--stage", "eval")
        self.assertEqual(refused["error"]["code_id"], "CONTRACT_VIOLATION")
        without = run("next", "--manifest", write({"batch": {}}), "--dataset", "*", "--stage", "train")
        self.assertEqual(without["error"]["code_id"], "INVALID_DATASET_KEY")
        self.assertIn("set batch.mixed to true", without["error"]["message"])


class Batches(unittest.TestCase):
    def test_who_is_in_a_batch(self) -> None:
        batch = run("batch", *stores(), "--manifest", write(), "--dataset", "*", "--tensors")
        self.assertEqual([source["dataset"] for source in batch["datasets"]],
                         ["clinic/ill/train", "garage/make/train", "garage/wear/train"])  # fmt: skip
        self.assertEqual([source["first_column"] for source in batch["datasets"]], [0, 6, 6])
        self.assertEqual([source["first_category"] for source in batch["datasets"]], [0, 2, 2])
        self.assertEqual([source["cat_emb_start"] for source in batch["datasets"]], [0, 2, 0])
        found = [sequence["dataset"] for sequence in batch["sequences"][:6]]  # a period
        self.assertEqual({key: found.count(key) for key in MANIFEST["mix"]}, MANIFEST["mix"])
        self.assertTrue(all(0 <= sequence["anchor_key"] < 40 for sequence in batch["sequences"]))
        self.assertEqual(batch["batch_digest"], "40dd693d32733a2d45e6f9609a3f12bc")  # for good

    def test_the_order_of_stores_does_not_matter(self) -> None:
        batches = [run("batch", *stores(*names), "--manifest", write(), "--dataset", "*")
                   for names in (("garage", "clinic"), ("clinic", "garage"))]  # fmt: skip
        self.assertEqual(batches[0], batches[1])

    def test_the_words_of_a_batch(self) -> None:
        done = subprocess.run([PROGRAM, "batch", *map(str, stores()), "--manifest", write(), "--dataset", "*"],
                              capture_output=True, text=True, check=True)  # fmt: skip
        self.assertIn("garage/make/train: task make predicts make (categorical)", done.stdout)
        self.assertIn("clinic/ill/train  sample", done.stdout)

    def test_npz_has_the_datasets(self) -> None:
        run("batch", *stores(), "--manifest", write(), "--dataset", "*", "--npz", folder / "b.npz")
        names = zipfile.ZipFile(folder / "b.npz").namelist()
        self.assertIn("dataset_ids.npy", names)
        run("batch", *stores(), "--manifest", write(), "--dataset", "clinic/ill/train", "--npz", folder / "c.npz")
        self.assertNotIn("dataset_ids.npy", zipfile.ZipFile(folder / "c.npz").namelist())

    def test_the_page_shows_one_dataset_at_a_time(self) -> None:
        run("batch", *stores(), "--manifest", write(), "--dataset", "*", "--html", folder / "b.html", "--steps", 2)
        page = (folder / "b.html").read_text()
        data = json.loads(re.search(r'id="batch-data"[^>]*>(.*?)</script>', page, re.S)[1])
        self.assertEqual([part["dataset"] for part in data["parts"]],
                         ["clinic/ill/train", "garage/make/train", "garage/wear/train"])  # fmt: skip
        self.assertEqual([len(part["steps"]) for part in data["parts"]], [2, 2, 2])
        self.assertEqual(sum(len(step["sequences"]) for part in data["parts"] for step in part["steps"]), 16)
        make = data["parts"][1]["steps"][0]["sequences"][0]
        self.assertIn(make["target"], ("k", "r", "w"))
        self.assertEqual(make["rows"][0]["cells"][1][0], 6)  # the target's own state

    def test_what_cannot_be_mixed(self) -> None:
        refused = run("batch", *stores("clinic", "wide"), "--manifest", write(), "--dataset", "*", "--any-hash")
        self.assertEqual(refused["error"]["code_id"], "CONTRACT_VIOLATION")
        self.assertIn("8 and 9 numbers", refused["error"]["message"])
        missing = run("batch", *stores("garage"), "--manifest", write(), "--dataset", "*")
        self.assertEqual(missing["error"]["code_id"], "INVALID_DATASET_KEY")
        self.assertIn("clinic/ill/train", missing["error"]["message"])
        other = run("batch", *stores(), "--manifest", write(), "--dataset", "*", "--stage", "eval")
        self.assertEqual(other["error"]["code_id"], "CONTRACT_VIOLATION")

    def test_far_steps(self) -> None:
        late = run("batch", *stores(), "--manifest", write(), "--dataset", "*", "--epoch", 2**64 - 3)
        self.assertEqual(len(late["sequences"]), 8)
        beyond = run("batch", *stores(), "--manifest", write(), "--dataset", "*", "--epoch", 2**64 - 1)
        self.assertEqual(beyond["error"]["code_id"], "COUNTER_OVERFLOW")

    def test_evaluation_is_of_one_dataset_in_its_stores_numbers(self) -> None:
        for stage in ("train", "eval"):
            mixed, plain = (
                run("batch", *stores(), "--manifest", write({"batch": {"sequence_length": 24, **more}}), "--dataset",
                    "garage/wear/train", "--stage", stage)
                for more in ({"mixed": True}, {})
            )  # fmt: skip
            self.assertEqual(mixed, plain)


class Runs(unittest.TestCase):
    def test_a_run_is_of_the_mix(self) -> None:
        trace = folder / "run.trace"
        ran = run("run", *stores(), "--manifest", write(), "--steps", 9, "--trace", trace, "--trace-indices")
        self.assertEqual(ran["datasets"]["*"]["samples"], 72)
        self.assertEqual(ran["datasets"]["*"]["samples_by_dataset"], {key: 12 * MANIFEST["mix"][key] for key in sorted(MANIFEST["mix"])})
        named = folder / "named.trace"
        run("run", *stores(), "--manifest", write(), "--dataset", "*", "--steps", 9, "--trace", named, "--trace-indices")
        self.assertFalse(run("diff", trace, named)["differs"])
        replayed = run("replay", trace, *stores())
        self.assertEqual((replayed["checked_digests"], replayed["indices"]), (9, 72))
        refused = run("run", *stores(), "--manifest", write(), "--dataset", "*", "--stage", "eval")
        self.assertEqual(refused["error"]["code_id"], "CONTRACT_VIOLATION")


if __name__ == "__main__":
    unittest.main()
