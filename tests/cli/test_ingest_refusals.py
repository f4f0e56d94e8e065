"""What weir ingest and weir schema refuse, with messages that name the file and what to do; and numbers that
other readers of JSON cannot hold."""

import itertools
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.support.cases import scratch_database

WEIR = os.path.abspath(os.environ["WEIR"])
NOBODY = 65534
TABLES = {"t": {"primary_key": "id", "columns": {"id": {"stype": "identifier"}, "x": {"stype": "numerical"}}}}
TASK = {"anchor_table": "t", "anchor_key": "id", "target_column": "x", "observation_time_column": "at",
        "target_stype": "numerical", "split": {"method": "hash", "permille": [600, 200, 200], "seed": 3}}


class Refusals(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        with scratch_database(self.folder / "src.sqlite") as db:
            db.executescript("CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL); INSERT INTO t VALUES (1, 2.5), (2, 3);")
        db.close()

    def weir(self, *arguments, **more):
        return subprocess.run([WEIR, *map(str, arguments)], cwd=self.folder, capture_output=True, check=False, **more)

    def error(self, done):
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        return json.loads(done.stdout)["error"]

    def write_schema(self, **more):
        (self.folder / "s.json").write_text(json.dumps({"name": "n", "tables": TABLES, **more}))

    def test_a_batch_size_of_64_bits_is_text(self):
        for size in (2**63 - 1, 2**63, 2**64 - 1):
            done = self.weir("ingest", "src.sqlite", "-o", "a.weir", "--batch-size", size)
            self.assertEqual(done.returncode, 0, done.stderr)
            written = json.loads((self.folder / "a.manifest.json").read_text())["global_batch_size"]
            self.assertEqual(written, size if size < 2**63 else str(size))
            shown = self.weir("manifest", "a.manifest.json")
            self.assertIn(b"global batch size %d," % size, shown.stdout)

    def test_embeddings_are_checked_with_the_schema(self):
        for embedding, path in (({"provider": "magic"}, "$.embedding.provider"), ({"provider": 3}, "$.embedding.provider"),
                                ({"dim": 0}, "$.embedding.dim"), ({"dim": 16385}, "$.embedding.dim"),
                                ({"dim": "four"}, "$.embedding.dim")):
            self.write_schema(embedding=embedding)
            for command in (("schema", "--check", "s.json"), ("ingest", "src.sqlite", "--schema", "s.json")):
                with self.subTest(embedding=embedding, command=command):
                    error = self.error(self.weir(*command, "--json"))
                    self.assertEqual(error["code_id"], "SCHEMA_INVALID")
                    self.assertIn("s.json: " + path, error["message"])
        self.write_schema(embedding={"provider": "hash_v1", "dim": 16384})
        self.assertEqual(self.weir("schema", "--check", "s.json").returncode, 0)

    def test_a_task_has_one_statement(self):
        query = "SELECT id, x, '2019-01-01' AS at FROM t"
        for rest, is_refused in (("; NONSENSE", True), ("; SELECT 1", True), (";; -- end\n DROP TABLE t", True),
                                 (";", False), (" ; -- end", False), ("; /* a */ ; \n", False)):
            self.write_schema(tasks={"k": {**TASK, "query": query + rest}})
            done = self.weir("ingest", "src.sqlite", "--schema", "s.json", "--json")
            with self.subTest(rest=rest):
                if not is_refused:
                    self.assertEqual(done.returncode, 0, done.stdout)
                    continue
                error = self.error(done)
                self.assertEqual(error["code_id"], "TASK_INVALID")
                self.assertIn("more than one statement", error["message"])

    def test_a_weight_is_a_number_that_is_at_least_zero(self):
        for weight, is_refused in (("-1", True), ("NULL", True), ("'much'", True), ("1e999", True), ("'nan'", True),
                                   ("0", False), ("'2.5'", False), ("-0.0", False)):
            query = f"SELECT id, x, '2019-01-01' AS at, {weight} AS w FROM t"
            self.write_schema(tasks={"k": {**TASK, "query": query, "weight_column": "w"}})
            done = self.weir("ingest", "src.sqlite", "--schema", "s.json", "--json")
            with self.subTest(weight=weight):
                if is_refused:
                    error = self.error(done)
                    self.assertEqual(error["code_id"], "TASK_INVALID")
                    self.assertRegex(error["message"], r"\Atask k: column w: .* is not a weight")
                    continue
                self.assertEqual(done.returncode, 0, done.stdout)
                info = json.loads(self.weir("info", "n.weir", "--json").stdout)
                self.assertEqual(info["tasks"][0]["weight_column"], "w")
        self.write_schema(tasks={"k": {**TASK, "query": "SELECT id, x, 0 AS at FROM t", "weight_column": "w"}})
        error = self.error(self.weir("ingest", "src.sqlite", "--schema", "s.json", "--json"))
        self.assertEqual((error["code_id"], error["message"]), ("TASK_INVALID", "task k: the query has no column w"))

    def test_a_column_that_a_task_names_is_there_once(self):
        names = {"target_column": "x", "observation_time_column": "at", "weight_column": "w", "label_known_column": "told",
                 "split": {"method": "column", "column": "part"}}
        plain = "SELECT id, x, '2019-01-01' AS at, 1 AS w, '2019-02-01' AS told, 'train' AS part FROM t"
        twice = (("id", "SELECT *, 7 AS id FROM ({})"), ("x", "SELECT 0 AS x, * FROM ({})"), ("at", "SELECT *, 0 AS at FROM ({})"),
                 ("w", "SELECT 9 AS w, * FROM ({})"), ("told", "SELECT *, NULL AS told FROM ({})"),
                 ("part", "SELECT 'val' AS part, * FROM ({})"), (None, "SELECT *, 1 AS other, 2 AS other FROM ({})"))
        (self.folder / "files").mkdir()
        (self.folder / "files" / "t.csv").write_text("id,x\n1,2.5\n2,3\n")
        for source, (column, query) in itertools.product(("src.sqlite", "files"), twice):
            self.write_schema(tasks={"k": {**TASK, **names, "kind": "derived", "query": query.format(plain)}})
            done = self.weir("ingest", source, "--schema", "s.json", "--json")
            with self.subTest(source=source, column=column):
                if column is None:
                    self.assertEqual(done.returncode, 0, done.stdout)
                    continue
                error = self.error(done)
                self.assertEqual((error["code_id"], error["message"]), (
                    "TASK_INVALID", f"task k: the query gives 2 columns that are called {column}; give each a name of its own with AS"))

    def test_a_name_in_double_quotes_is_no_text(self):
        (self.folder / "files").mkdir()
        (self.folder / "files" / "t.csv").write_text("id,x\n1,2.5\n2,3\n")
        for source in ("src.sqlite", "files"):
            for name, is_refused in (("xx", True), ("x", False)):
                query = f"SELECT id, x, '2019-01-01' AS at FROM t WHERE \"{name}\" <> 'closed'"
                self.write_schema(tasks={"k": {**TASK, "query": query}})
                done = self.weir("ingest", source, "--schema", "s.json", "--json")
                with self.subTest(source=source, name=name):
                    if not is_refused:
                        self.assertEqual(done.returncode, 0, done.stdout)
                        continue
                    error = self.error(done)
                    self.assertEqual(error["code_id"], "TASK_INVALID")
                    self.assertRegex(error["message"], r'\Atask k: the query failed: .*: no such column: "?xx')

    def test_a_view_with_a_text_in_double_quotes(self):
        with scratch_database(self.folder / "old.sqlite") as db:
            db.executescript(
                'CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL, s TEXT, g TEXT AS (s || "!"), CHECK (s <> "bad"));'
                'CREATE INDEX i ON t (s) WHERE s <> "closed"; INSERT INTO t VALUES (1, 2.5, \'open\');'
                'CREATE VIEW v AS SELECT * FROM t WHERE s <> "closed"; CREATE VIEW a AS SELECT id, x FROM v;')
        db.close()
        view = 'old.sqlite: view v has no column "closed": a name is in double quotes, a text in single ones'
        self.write_schema(tasks={"k": {**TASK, "query": "SELECT id, x, 0 AS at FROM a"}})
        error = self.error(self.weir("ingest", "old.sqlite", "--schema", "s.json", "--json"))
        self.assertEqual((error["code_id"], error["message"]), ("TASK_INVALID", "task k: the query failed: " + view))
        for name in "va":
            (self.folder / "s.json").write_text(json.dumps({"name": "n", "tables": {name: TABLES["t"]}}))
            error = self.error(self.weir("ingest", "old.sqlite", "--schema", "s.json", "--json"))
            self.assertEqual((error["code_id"], error["message"]), ("SOURCE_ERROR", view))
        self.write_schema()
        self.assertEqual(self.weir("ingest", "old.sqlite", "--schema", "s.json").returncode, 0, "the file itself can be read")

    def test_a_label_has_one_time(self):
        query = "SELECT id, x, '2019-01-01' AS at, 'soon' AS told FROM t"
        for more, expected in (
            ({"horizon": "30 days"}, "$.tasks.k.horizon"), ({"horizon": -1}, "$.tasks.k.horizon"),
            ({"horizon": 1.5}, "$.tasks.k.horizon"), ({"horizon": "9999999w"}, None), ({"horizon": "99999999w"}, "$.tasks.k.horizon"),
            ({"horizon": 2**63 - 1}, "$.tasks.k.horizon"), ({"horizon": 2**63 - 2}, None), ({"horizon": "0s"}, None),
            ({"horizon": "1d", "label_known_column": "at"}, "$.tasks.k.horizon"),
            ({"label_known_column": "when"}, "the query has no column when"),
            ({"label_known_column": "told"}, "column told: 'soon' is not a time"),
            ({"horizon": "1d", "kind": "cell", "target_column": "x"}, "$.tasks.k.horizon"),
        ):  # fmt: skip
            self.write_schema(tasks={"k": {**TASK, "kind": "derived", "query": query, **more}})
            done = self.weir("ingest", "src.sqlite", "--schema", "s.json", "--json")
            with self.subTest(more=more):
                if expected is None:
                    self.assertEqual(done.returncode, 0, done.stdout)
                    continue
                error = self.error(done)
                self.assertEqual(error["code_id"], "TASK_INVALID")
                self.assertIn(expected, error["message"])

    def test_a_source_without_tables(self):
        (self.folder / "empty.sqlite").write_bytes(b"")
        with scratch_database(self.folder / "bare.sqlite") as db:
            db.executescript("CREATE TABLE t (a); DROP TABLE t;")
        db.close()
        for name in ("empty.sqlite", "bare.sqlite"):
            for command in ("ingest", "schema"):
                with self.subTest(name=name, command=command):
                    error = self.error(self.weir(command, name, "--json"))
                    self.assertEqual((error["code_id"], error["message"]), ("SOURCE_ERROR", name + " has no tables"))

    def test_messages_name_the_file(self):
        (self.folder / "torn.sqlite").write_bytes((self.folder / "src.sqlite").read_bytes()[:1000])
        error = self.error(self.weir("ingest", "torn.sqlite", "--json"))
        self.assertEqual(error["code_id"], "SOURCE_ERROR")
        self.assertIn("torn.sqlite: SQLite cannot", error["message"])

    def test_wal_in_a_folder_that_is_read_only(self):
        with scratch_database(self.folder / "wal.sqlite") as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("CREATE TABLE t (a)")
        db.close()
        program = self.folder / "weir"
        shutil.copy(WEIR, program)  # where another user can run it
        self.folder.chmod(0o555)
        self.addCleanup(self.folder.chmod, 0o755)
        more = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        done = subprocess.run([program, "schema", "wal.sqlite", "--json"], cwd=self.folder, capture_output=True,
                              check=False, **more)
        error = self.error(done)
        self.assertEqual(error["code_id"], "SOURCE_ERROR")
        for words in ("wal.sqlite", "WAL mode", "copy it"):
            self.assertIn(words, error["message"])


if __name__ == "__main__":
    unittest.main()
