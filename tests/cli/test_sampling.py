"""Class-balanced and weighted sampling from the outside: a database with rare classes and a weight column, ingested, sampled,
run, resumed and replayed; against the reference, and against what the database says."""
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from reference import BatchBuilder, Cursor, Manifest, Store  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402

WEIR = os.environ["WEIR"]
PEOPLE = 240
BALANCED = {"mode": "class_balanced", "datasets": ["bank/fraud/train", "bank/kind/train"]}
WEIGHTED = {"mode": "weighted", "column": "importance", "datasets": ["bank/fraud/train"]}

folder = None
schema = None
datasets = None


def setUpModule():
    """Rare fraud, kinds of which some are rare and some are null, weights over four powers of ten and some zeros."""
    global folder, schema, datasets
    holder = tempfile.TemporaryDirectory()
    unittest.addModuleCleanup(holder.cleanup)
    folder = Path(holder.name)
    chance = random.Random(4)
    with scratch_database(folder / "bank.sqlite") as db:
        db.execute("CREATE TABLE people (id INTEGER PRIMARY KEY, age REAL, fraud INTEGER, kind TEXT, importance REAL)")
        for number in range(PEOPLE):
            kind = chance.choice([*["plain"] * 20, "rare", "odd", "odd", None])
            weight = chance.choice([0, round(10 ** chance.uniform(-2, 2), 4)])
            db.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?)",
                       (number, chance.random(), chance.random() < 0.05, kind, weight))
    db.close()
    columns = {"id": {"stype": "identifier"}, "age": {"stype": "numerical"}}
    task = {"query": "SELECT * FROM people", "anchor_table": "people", "anchor_key": "id"}
    schema = {"name": "bank", "tables": {"people": {"primary_key": "id", "columns": columns}}, "tasks": {
        "fraud": {**task, "target_column": "fraud", "target_stype": "boolean", "weight_column": "importance"},
        "kind": {**task, "target_column": "kind", "target_stype": "categorical"},
        "age": {**task, "target_column": "age", "target_stype": "numerical", "kind": "derived"}}}
    (folder / "bank.schema.json").write_text(json.dumps(schema))
    done = weir("ingest", folder / "bank.sqlite", "--schema", folder / "bank.schema.json", "-o", folder / "bank.weir")
    assert done.returncode == 0, done.stderr
    datasets = json.loads((folder / "bank.manifest.json").read_text())["datasets"]


def weir(*arguments):
    return subprocess.run([WEIR, *map(str, arguments)], capture_output=True, text=True, timeout=60)


class WithManifest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.store = Store.ingest(folder / "bank.sqlite", json.dumps(schema))

    def manifest(self, sampling, **data):
        mix = {key: 1 for key in datasets if key.endswith("train")}
        path = self.folder / "m.json"
        document = {"seed": 6, "global_batch_size": 12, "datasets": datasets, "mix": mix, "data": {"sampling": sampling, **data},
                    "batch": {"sequence_length": 8}}
        path.write_text(json.dumps(document))
        return path

    def samples(self, path, dataset, count, *more):
        done = weir("next", "--manifest", path, "--dataset", dataset, "--store", folder / "bank.weir", "--count", count, "--json",
                    *more)
        self.assertEqual(done.returncode, 0, done.stdout)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def seeds(self, task):
        return next(one for one in self.store.tasks if one.name == task).seeds_of("train")


class Quotas(WithManifest):
    def test_every_period_has_each_class_once(self):
        for task, classes in ("fraud", 2), ("kind", 4):  # plain, odd, rare and null
            dataset = f"bank/{task}/train"
            seeds = self.seeds(task)
            steps = self.samples(self.manifest(BALANCED, epoch_boundary="stream"), dataset, 60)
            indices = [index for step in steps for index in step["indices"]]
            names = [str(seeds[index].target) for index in indices]
            for start in range(0, len(names), classes):
                self.assertEqual(len(set(names[start : start + classes])), classes)
            rarest = min(Counter(names), key=lambda name: sum(str(seed.target) == name for seed in seeds))
            members = {index for index, seed in enumerate(seeds) if str(seed.target) == rarest}
            drawn = Counter(index for index in indices if index in members)
            self.assertLessEqual(max(drawn.values()) - min(drawn[index] for index in members), 1)
            self.assertEqual(steps[0]["metadata"]["sampling_mode"], "CLASS_BALANCED_STREAMING_V1")

    def test_every_epoch_has_each_sample_as_often_as_its_weight_says(self):
        seeds = self.seeds("fraud")
        n, total = len(seeds), sum(seed.weight for seed in seeds)
        per_epoch = -(-n // 12)
        steps = self.samples(self.manifest(WEIGHTED), "bank/fraud/train", 8 * per_epoch)
        counts = [Counter(index for step in steps[e * per_epoch : (e + 1) * per_epoch] for index in step["indices"])
                  for e in range(8)]
        for index, seed in enumerate(seeds):
            for group in 1, 2, 4, 8:
                expected = group * n * seed.weight / total
                found = sum(one[index] for one in counts[:group])
                self.assertLess(abs(found - expected), 1.001, (index, group))
        self.assertEqual(steps[0]["metadata"]["subsampling_mode"], "WEIGHTED")


class Agreement(WithManifest):
    def test_batches_are_those_of_the_reference(self):
        for sampling, dataset in (BALANCED, "bank/fraud/train"), (BALANCED, "bank/kind/train"), (WEIGHTED, "bank/fraud/train"):
            for data in {}, {"drop_last": True}, {"epoch_boundary": "stream", "rotate": True}:
                path = self.manifest(sampling, **data)
                builder = BatchBuilder(self.store, Manifest.read(path.read_text()))
                for epoch, position in (0, 0), (3, 17), (2**40, 180):
                    done = weir("batch", "--store", folder / "bank.weir", "--manifest", path, "--dataset", dataset, "--epoch",
                                epoch, "--position", position, "--world-size", 4, "--rank", 1, "--json")
                    expected = builder.build(dataset, "train", Cursor(epoch, position), 4, 1).as_json_value()
                    self.assertEqual(json.loads(done.stdout), expected)

    def test_datasets_that_are_not_listed_are_shuffled(self):
        path = self.manifest(WEIGHTED)
        step = self.samples(path, "bank/kind/train", 1)[0]
        self.assertEqual(step["metadata"]["sampling_mode"], "SHUFFLE_WITHOUT_REPLACEMENT_BLOCK_AFFINE_V1")
        done = weir("next", "--manifest", path, "--dataset", "bank/kind/train", "--json")  # and need no store
        self.assertEqual(json.loads(done.stdout), step)

    def test_refusals_say_what_to_do(self):
        for sampling, dataset, code, words in (
                ({"mode": "class_balanced"}, "bank/age/train", "TASK_INVALID", "data.sampling.datasets"),
                ({"mode": "weighted", "column": "importance"}, "bank/kind/train", "TASK_INVALID", "has no weights of this task"),
                ({"mode": "weighted", "column": "age"}, "bank/fraud/train", "TASK_INVALID", "the weights of importance")):
            path = self.manifest(sampling)
            for call in (["batch", "--store"], ["next", "--store"], ["run", "--steps", "1", "--store"]):
                done = weir(*call, folder / "bank.weir", "--manifest", path, "--dataset", dataset, "--json")
                error = json.loads(done.stdout)["error"]
                self.assertEqual((done.returncode, error["code_id"]), (1, code))
                self.assertIn(words, error["message"])
            with self.assertRaises(WeirError) as caught:
                BatchBuilder(self.store, Manifest.read(path.read_text())).build(dataset, "train", Cursor(0, 0))
            self.assertEqual(caught.exception.code_id, code)
        done = weir("next", "--manifest", self.manifest(BALANCED), "--dataset", "bank/fraud/train", "--json")
        error = json.loads(done.stdout)["error"]
        self.assertEqual((error["code_id"], error["failure_operator"]), ("CONTRACT_VIOLATION", "UML_OS.Data.NextBatch_v3"))
        self.assertIn("needs its store", error["message"])


class Runs(WithManifest):
    def run_ok(self, path, *arguments):
        done = weir("run", "--store", folder / "bank.weir", "--manifest", path, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)

    def judged(self, *arguments):
        done = weir(*arguments, "--json")
        return done.returncode, json.loads(done.stdout)

    def test_ranks_resume_and_replay(self):
        for sampling in BALANCED, WEIGHTED:
            path = self.manifest(sampling)
            name = sampling["mode"]
            single = self.folder / f"{name}.trace"
            self.run_ok(path, "--steps", 40, "--trace", single, "--trace-indices", "--workers", 3)
            ranks = self.folder / f"{name}.ranks"
            for rank in range(4):
                checkpoint = self.folder / f"{name}.checkpoint"
                call = ["--trace", ranks, "--checkpoint", checkpoint, "--resume", checkpoint, "--rank", rank, "--world-size", 4]
                self.run_ok(path, "--steps", 17, *call)
                self.run_ok(path, "--steps", 40, *call, "--workers", 2)
            parts = [f"{ranks}.rank{rank}" for rank in range(4)]
            status, report = self.judged("merge", *parts, "--single", single, "--store", folder / "bank.weir")
            self.assertEqual((status, report["steps"], report["digests"]), (0, 40, report["samples"]))
            status, report = self.judged("merge", *parts)
            self.assertEqual((status, report["error"]["code_id"]), (1, "CONTRACT_VIOLATION"))
            other = self.folder / "other.weir"
            weir("ingest", folder / "bank.sqlite", "--schema", folder / "bank.schema.json", "-o", other, "--no-embeddings")
            status, report = self.judged("merge", *parts, "--store", other)
            self.assertEqual((status, report["error"]["code_id"]), (1, "CHECKPOINT_MISMATCH"))
            status, report = self.judged("replay", single, "--store", folder / "bank.weir")
            self.assertEqual((status, report["checked_digests"], report["indices"]), (0, 40, report["samples"]))
            status, report = self.judged("replay", single)
            self.assertEqual((status, report["error"]["code_id"]), (1, "CONTRACT_VIOLATION"))
            self.assertIn("needs its store", report["error"]["message"])

    def test_next_records_its_store(self):
        trace = self.folder / "next.trace"
        done = weir("next", "--manifest", self.manifest(WEIGHTED), "--dataset", "bank/fraud/train", "--store", folder / "bank.weir",
                    "--count", 9, "--trace", trace, "--trace-indices")
        self.assertEqual(done.returncode, 0, done.stderr)
        status, report = self.judged("replay", trace, "--store", folder / "bank.weir")
        self.assertEqual((status, report["steps"], report["indices"]), (0, 9, 9 * 12))


class Presets(WithManifest):
    def ingest(self, *arguments):
        return weir("ingest", folder / "bank.sqlite", "--schema", folder / "bank.schema.json", "-o", self.folder / "p.weir",
                    *arguments)

    def test_ingest_writes_them_by_name(self):
        for name, mode in (("train_shuffle", "SHUFFLE_WITHOUT_REPLACEMENT_BLOCK_AFFINE_V1"),
                           ("streaming_infinite", "SHUFFLE_STREAMING_BLOCK_AFFINE_V1"), ("eval_sequential", "SEQUENTIAL_V1")):
            self.assertEqual(self.ingest("--preset", name).returncode, 0)
            path = self.folder / "p.manifest.json"
            self.assertEqual(json.loads(path.read_text())["data"], {"preset": name})
            done = weir("next", "--manifest", path, "--dataset", "bank/fraud/train", "--json")
            self.assertEqual(json.loads(done.stdout)["metadata"]["sampling_mode"], mode)
            trace = self.folder / f"{name}.trace"
            done = weir("run", "--store", self.folder / "p.weir", "--manifest", path, "--dataset", "bank/fraud/train", "--steps", 3,
                        "--trace", trace, "--json")
            self.assertEqual(json.loads(done.stdout)["stage"], "eval" if name == "eval_sequential" else "train")
            self.assertNotIn(b"NextBatch_v3", trace.read_bytes())

    def test_other_names_are_refused(self):
        done = self.ingest("--preset", "best", "--json")
        error = json.loads(done.stdout)["error"]
        self.assertEqual((done.returncode, error["code_id"]), (1, "CONTRACT_VIOLATION"))
        self.assertIn("train_shuffle, eval_sequential or streaming_infinite", error["message"])
        self.assertFalse((self.folder / "p.weir").exists())

    def test_a_sequential_manifest_does_not_train(self):
        self.assertEqual(self.ingest("--preset", "eval_sequential").returncode, 0)
        for command in (["next"], ["run", "--store", self.folder / "p.weir"], ["batch", "--store", self.folder / "p.weir"]):
            done = weir(*command, "--manifest", self.folder / "p.manifest.json", "--dataset", "bank/fraud/train", "--stage", "train",
                        "--json")
            error = json.loads(done.stdout)["error"]
            self.assertEqual((done.returncode, error["code_id"]), (1, "INVALID_STAGE_TYPE"))


class Accountant(WithManifest):
    def test_a_run_that_does_something_else_is_refused(self):
        n = datasets["bank/fraud/train"]["cardinality"]
        for accountant, sampling, is_right in (
                ({"subsampling_mode": "SHUFFLE_WITHOUT_REPLACEMENT", "effective_q": 12 / n}, None, True),
                ({"subsampling_mode": "SHUFFLE_WITHOUT_REPLACEMENT", "effective_q": 12 / (n + 1)}, None, False),
                ({"subsampling_mode": "SHUFFLE_WITHOUT_REPLACEMENT"}, BALANCED, False),
                ({"subsampling_mode": "CLASS_BALANCED"}, BALANCED, True), ({"subsampling_mode": "POISSON"}, None, False)):
            path = self.manifest(sampling or BALANCED)
            document = json.loads(path.read_text())
            if sampling is None:
                document["data"] = {}
            path.write_text(json.dumps({**document, "accountant": accountant}))
            done = weir("run", "--store", folder / "bank.weir", "--manifest", path, "--dataset", "bank/fraud/train", "--steps", 2,
                        "--json")
            with self.subTest(accountant=accountant):
                self.assertEqual(done.returncode, 0 if is_right else 1, done.stdout)
                if not is_right:
                    error = json.loads(done.stdout)["error"]
                    self.assertEqual(error["code_id"], "CONTRACT_VIOLATION")
                    self.assertEqual(set(error["diagnostics"]), {"accountant", "sampler", "dataset_key"})


if __name__ == "__main__":
    unittest.main()
