"""C's memory runs out inside the commands of the program, at every allocation of each in turn
(tests/support/fail_memory.c): an error that says so, or an answer by another way; never a crash, and no file that is half
written. What an answer says is not looked at here."""

import json
import os
import sqlite3
import tempfile
import unittest
from pathlib import Path

from weir import _weir

from support import ROUNDS_MAX, TRAIN, C, FaultTest, run_weir

from tests.support.object_server import Server

MADE = {"next.trace", "out.checkpoint", "out.trace"}  # what a second run would not write over

TOKEN = "00" * 64

SCHEMA = {
    "name": "tiny",
    "tables": {
        "p": {"primary_key": "id", "temporal_column": "at", "columns": {"at": {"stype": "timestamp"}, "w": {"stype": "text"}}},
        "c": {"primary_key": ["k", "n"], "columns": {"p": {"stype": "identifier", "foreign_key": "p.id"}, "x": {"stype": "numerical"}}},
    },
    "tasks": {"y": {"query": "SELECT id, length(w) > 1 AS y, at AS seen FROM p", "anchor_table": "p", "anchor_key": "id",
                    "target_column": "y", "target_stype": "boolean", "observation_time_column": "seen"}},
    "embedding": {"dim": 4},
}  # fmt: skip


class Commands(FaultTest):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        connection = sqlite3.connect("tiny.sqlite")
        connection.executescript("CREATE TABLE p (id INTEGER PRIMARY KEY, at TEXT, w TEXT);"
                                 "INSERT INTO p VALUES (1, '2024-01-01', 'a'), (2, '2024-01-02', 'bb'), (3, NULL, NULL);"
                                 "CREATE TABLE c (k TEXT, n INTEGER, p INTEGER REFERENCES p (id), x REAL, PRIMARY KEY (k, n));"
                                 "INSERT INTO c VALUES ('a', 1, 1, 0.5), ('a', 2, 9, NULL), ('b', 1, 2, 1.5)")  # fmt: skip
        connection.commit()
        connection.close()
        Path("tiny.csv").write_text("id,word,day\n1,a,2024-01-01\n2,b,2024-01-02\n3,,2024-01-03\n")
        Path("tiny.json").write_text(json.dumps(SCHEMA))
        Path("small.json").write_text(json.dumps(cls.changed_manifest(cls, global_batch_size=4)))
        Path("graph.json").write_text(run_weir("graph", "chain", "--nodes", "3"))
        run_weir("ingest", "tiny.sqlite", "--schema", "tiny.json", "-o", "base.weir", "--keep-rows")
        Path("lives.csv").write_text("id,lower,upper,size\n1,0,3,8\n2,1,4,8\n3,3,5,16\n")
        run_weir("plan", "graph.json", "--mode", "backward", "--save", "saved.plan")
        run = ["run", "--store", cls.store, "--manifest", "small.json", "--steps", "3", "--trace"]
        run_weir(*run, "a.trace")
        for rank in "01":
            run_weir(*run, "world.trace", "--rank", rank, "--world-size", "2")
        server = Server()
        cls.addClassCleanup(server.close)
        cls.url = f"{server.url}/base.weir"

    def run_command(self, *arguments: str) -> tuple[int, bool, str]:
        """Its exit status, whether an allocation failed, and what it printed."""
        with tempfile.TemporaryFile() as output:
            kept = [os.dup(1), os.dup(2)]
            for descriptor in (1, 2):
                os.dup2(output.fileno(), descriptor)
            C.fail_memory_begin()
            try:
                status = _weir._command([b"weir", *map(os.fsencode, arguments)])
            finally:
                has_failed = C.fail_memory_end() != 0
                C.fflush(None)
                for descriptor, before in zip((1, 2), kept):
                    os.dup2(before, descriptor)
                    os.close(before)
            output.seek(0)
            return status, has_failed, output.read().decode(errors="replace")

    def sweep(self, *arguments: str) -> None:
        for _ in range(ROUNDS_MAX):
            for name in MADE & set(os.listdir()):
                os.remove(name)
            status, has_failed, printed = self.run_command(*arguments)
            self.assertEqual([name for name in os.listdir() if ".tmp" in name], [])
            if not has_failed:
                self.assertEqual(status, 0, printed)
                return
            self.failed += status != 0
            self.assertIn(status, (0, 1), printed)
            if status == 1:
                self.assertRegex(printed, "memory")
        self.fail(f"{arguments} still fails after {ROUNDS_MAX} rounds")

    def sweep_all(self, *commands: str) -> None:
        for command in commands:
            for more in ([], ["--json"]):
                with self.subTest(command=command, more=more):
                    self.sweep(*command.split(), *more)

    def test_stores(self) -> None:
        self.sweep_all("info shop.weir", "info shop.weir --key customers 5", "info shop.weir --row 3", "verify shop.weir",
                       "embed shop.weir --columns", "embed shop.weir --categories", "embed shop.weir --texts 2")  # fmt: skip

    def test_orders(self) -> None:
        self.sweep_all("manifest small.json", f"next --manifest small.json --dataset {TRAIN} --trace next.trace --trace-indices",
                       f"next --manifest small.json --dataset {TRAIN} --store shop.weir --world-size 2 --rank 1 --count 2",
                       "locate --manifest small.json --step 7", "permute --seed 000102030405060708090a0b0c0d0e0f --blocks 8",
                       "cbor encode small.json", "cbor decode a1647374657007", f"locate --manifest small.json --step 7 --token {TOKEN}",
                       f"next --manifest small.json --dataset {TRAIN} --token {TOKEN}")  # fmt: skip

    def test_batches(self) -> None:
        batch = f"batch --store shop.weir --manifest small.json --dataset {TRAIN}"
        context = "context --store shop.weir --task churn --manifest small.json --key 5 --time 2024-05-01"
        self.sweep_all(batch, f"{batch} --npz out.npz", f"{batch} --html out.html --steps 2", context,
                       f"{context} --npz out.npz --html out.html", f"{batch} --token {TOKEN}", f"{context} --token {TOKEN}")  # fmt: skip

    def test_runs(self) -> None:
        run = "run --store shop.weir --manifest small.json --steps 2 --workers 1"
        self.sweep_all(run, f"{run} --plan", f"{run} --checkpoint out.checkpoint --trace out.trace",
                       f"{run} --token {TOKEN}", "replay a.trace", "replay a.trace --store shop.weir", "diff a.trace a.trace",
                       "merge world.trace.rank0 world.trace.rank1 --single a.trace --store shop.weir")  # fmt: skip

    def test_plans(self) -> None:
        plan = "plan graph.json --mode backward"
        self.sweep_all(plan, f"{plan} --html out.html --save out.plan --cbor out.cbor --trace out.trace",
                       f"{plan} --capacity activations=1MiB --link 50GB/s --speed 1T/s", f"{plan} --reorder",
                       f"{plan} --token {TOKEN}", "plan saved.plan", "plan --csv lives.csv")  # fmt: skip
        self.sweep("graph", "chain", "--nodes", "3", "--cbor", "out.cbor")
        self.sweep("graph", "gpt2", "--layers", "1")

    def test_ingest(self) -> None:
        ingest = "ingest tiny.sqlite --schema tiny.json -o out.weir --threads 1"
        self.sweep_all("schema tiny.sqlite --threads 1", "schema tiny.csv --explain --threads 1", "schema --check tiny.json", ingest,
                       f"{ingest} --keep-rows --replace-manifest --html out.html", f"{ingest} --like base.weir",
                       f"{ingest} --base base.weir --base-check full", "ingest tiny.csv -o csv.weir --threads 1",
                       "init tiny.sqlite --yes --dir drafted --force --threads 1", "assemble base.weir.rows -o assembled.weir --threads 1",
                       "demo --scale 1000 --no-run --dir demo")  # fmt: skip

    @unittest.skipIf("HTTP" in os.environ.get("WEIR_ABSENT", ""), "this weir was built without HTTP")
    def test_remote(self) -> None:
        self.sweep_all(f"push base.weir {self.url} --threads 1", f"pull {self.url} -o pulled.weir --threads 1",
                       f"pull {self.url} -o pulled.weir --hash {_weir.Store('base.weir').hash} --threads 1")  # fmt: skip


if __name__ == "__main__":
    unittest.main()
