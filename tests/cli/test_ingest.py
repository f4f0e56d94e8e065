"""weir schema, ingest, info, verify and embed from the outside: the golden shop, errors, a terminal, and kill -9."""

import json
import os
import pty
import random
import signal
import subprocess
import tempfile
import time
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

from tests.support import contract_draft  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402
from tests.support.endless import check_signals  # noqa: E402
from tests.support.processes import start  # noqa: E402

WEIR = os.environ["WEIR"]
VECTORS = os.path.join(os.path.dirname(__file__), "..", "golden", "vectors")


def vector(name):
    return os.path.join(VECTORS, name)


def weir(*arguments, cwd=None, check=True):
    result = subprocess.run([WEIR, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    if check and result.returncode != 0:
        raise AssertionError(f"weir {' '.join(arguments)}: {result.stderr}{result.stdout}")
    return result


def contains(expected, given, path="$"):
    """The first place where `given` lacks or contradicts something of `expected`, else None."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            if key not in given:
                return f"{path}.{key} is missing"
            found = contains(value, given[key], f"{path}.{key}")
            if found:
                return found
        return None
    if isinstance(expected, list):
        if len(expected) != len(given):
            return f"{path} has {len(given)} items"
        for index, (a, b) in enumerate(zip(expected, given)):
            found = contains(a, b, f"{path}[{index}]")
            if found:
                return found
        return None
    return None if expected == given and type(expected) is type(given) else f"{path}: {expected} is {given}"


class Shop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.source = os.path.join(cls.folder.name, "shop_small.sqlite")
        with open(vector("shop_small.sql"), encoding="utf-8") as file, scratch_database(cls.source) as db:
            db.executescript(file.read())
        db.close()
        with open(vector("shop_small.store.json"), encoding="utf-8") as file:
            cls.expected = json.load(file)
        cls.report = json.loads(weir("ingest", "shop_small.sqlite", "--schema", vector("shop_small.schema.json"),
                                     "--json", cwd=cls.folder.name).stdout)
        cls.store = os.path.join(cls.folder.name, "shop.weir")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_report(self):
        self.assertEqual(self.report["store"], "shop.weir")
        self.assertEqual(self.report["rows"], 4741)
        self.assertEqual(self.report["dangling"], sum(e["dangling"] for e in self.expected["edges"]))
        self.assertEqual(self.report["store_bytes"], os.path.getsize(self.store))
        self.assertEqual(self.report["source_bytes"], os.path.getsize(self.source))
        human = weir("ingest", self.source, "--schema", vector("shop_small.schema.json"), "-o",
                     os.path.join(self.folder.name, "human.weir"))
        self.assertIn("4 values of orders.courier match no row of couriers", human.stdout)
        self.assertIn("orders.status is shown from closed_at on", human.stdout)
        self.assertIn("orders.closed_at is shown from its own time on", human.stdout)
        shown = {f"{t['name']}.{c['name']}": c["shown_from"] for t in self.report["report"]["tables"] for c in t["columns"]
                 if "shown_from" in c}
        self.assertEqual((shown["orders.status"], shown["orders.closed_at"]), ("closed_at", "closed_at"))
        self.assertNotIn("orders.placed_at", shown)
        self.assertEqual(human.stderr, "", "progress is for terminals")

    def test_report_of_little(self):
        with tempfile.TemporaryDirectory() as folder:
            with scratch_database(os.path.join(folder, "one.sqlite")) as db:
                db.executescript("""CREATE TABLE t (id INTEGER PRIMARY KEY, at TIMESTAMP, b BLOB);
                                    INSERT INTO t VALUES (1, '2024-01-01', x'00');""")
            db.close()
            said = weir("ingest", "one.sqlite", cwd=folder).stdout
            self.assertIn("one.weir: 1 row of 1 table, 0 edges, 0 texts, ", said)
            self.assertIn("note: 1 column of the source is ignored", said)
            self.assertNotIn("What is known when:", said, "no heading without a list")
            report = json.loads(weir("ingest", "one.sqlite", "--json", cwd=folder).stdout)
            self.assertEqual(report["ignored_columns"], 1)

    def test_info(self):
        info = json.loads(weir("info", self.store, "--json").stdout)
        expected = {k: v for k, v in self.expected.items() if k not in ("about", "draft", "more")}
        self.assertIsNone(contains(expected, info))
        self.assertEqual(list(info["datasets"]), list(expected["datasets"]))
        self.assertIn("orders.coupon -> coupons: 22, 6 dangling", weir("info", self.store).stdout)

    def test_draft(self):
        drafted = json.loads(weir("schema", self.source).stdout)
        self.assertEqual(contract_draft.compared(drafted), contract_draft.todays(self.expected["draft"]))
        self.assertEqual(json.loads(weir("schema", self.source, "--json").stdout), drafted)

    def test_draft_is_a_schema(self):
        path = os.path.join(self.folder.name, "draft.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(weir("schema", self.source).stdout)
        weir("schema", "--check", path)
        a = json.loads(weir("ingest", self.source, "--json", "-o", os.path.join(self.folder.name, "a.weir")).stdout)
        b = json.loads(weir("ingest", self.source, "--schema", path, "--json", "-o",
                            os.path.join(self.folder.name, "b.weir")).stdout)
        self.assertEqual(a["store_hash"], b["store_hash"])
        self.assertTrue(a["drafted"] and not b["drafted"])

    def test_json_schema(self):
        document = json.loads(weir("schema", "--json-schema").stdout)
        self.assertEqual(document["type"], "object")

    def test_embed(self):
        for key, arguments in (("column_texts", ["--columns"]), ("category_texts", ["--categories"]),
                               ("texts", ["--texts", "1000"])):
            items = json.loads(weir("embed", self.store, *arguments, "--json").stdout)
            self.assertEqual([item["text"] for item in items], self.expected["more"][key])
            self.assertTrue(all(len(item["f16"]) == 4 * 64 for item in items))
        self.assertIn("title of books", weir("embed", self.store, "--columns").stdout)

    def test_without_embeddings(self):
        store = os.path.join(self.folder.name, "plain.weir")
        report = json.loads(weir("ingest", self.source, "--no-embeddings", "--json", "-o", store).stdout)
        self.assertEqual(report["embedding_bytes"], 0)
        self.assertEqual(json.loads(weir("info", store, "--json").stdout)["embedding"], {"provider": "none", "dim": 0})
        refused = weir("embed", store, "--columns", "--json", check=False)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("without embeddings", json.loads(refused.stdout)["error"]["message"])
        weir("verify", store)

    def test_verify(self):
        self.assertIn("bytes are what was written", weir("verify", self.store).stdout)
        damaged = os.path.join(self.folder.name, "damaged.weir")
        with open(self.store, "rb") as file:
            data = bytearray(file.read())
        data[-5000] ^= 1
        with open(damaged, "wb") as file:
            file.write(data)
        result = weir("verify", damaged, "--json", check=False)
        self.assertEqual(result.returncode, 1)
        error = json.loads(result.stdout)["error"]
        self.assertEqual((error["code_id"], error["diagnostics"]["path"]), ("STORE_CORRUPT", damaged))
        mend = "; copy it again, or ingest the source again"
        self.assertEqual(error["message"], f"the padding between sections of {damaged} is not zero{mend}")
        for content, said in ((data[:60] + b"?" + data[61:], f"the header of {damaged} is damaged{mend}"),
                              (data[:4096] + b"?" + data[4097:], f"the metadata of {damaged} is damaged{mend}"),
                              (data[:-5000], f"{damaged} has {len(data) - 5000} bytes instead of [0-9]+{mend}")):
            with open(damaged, "wb") as file:
                file.write(content)
            self.assertRegex(weir("verify", damaged, check=False).stderr, said)

    def test_threads_give_one_store(self):
        for threads in ("1", "2", "4"):
            report = json.loads(weir("ingest", self.source, "--schema", vector("shop_small.schema.json"), "--threads",
                                     threads, "--json", "-o", os.path.join(self.folder.name, "t.weir")).stdout)
            self.assertEqual(report["store_hash"], self.report["store_hash"])

    def test_memory_gives_one_store(self):
        arguments = ("ingest", self.source, "--schema", vector("shop_small.schema.json"), "-o",
                     os.path.join(self.folder.name, "m.weir"), "--json", "--memory")
        report = json.loads(weir(*arguments, "64MiB").stdout)
        self.assertEqual((report["store_hash"], report["spilled_bytes"]), (self.report["store_hash"], 0))
        result = weir(*arguments, "63MiB", check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("at least 64MiB", result.stderr)

    def test_manifest_serves_the_sampler(self):
        manifest = os.path.join(self.folder.name, "shop.manifest.json")
        weir("next", "--manifest", manifest, "--dataset", "shop/churn/train", "--stage", "train", "--world-size", "1",
             "--rank", "0", "--json")

    def test_errors(self):
        self.assertEqual(weir("ingest", check=False).returncode, 2)
        result = weir("ingest", "/no/such.sqlite", "--json", check=False)
        self.assertEqual((result.returncode, json.loads(result.stdout)["error"]["code_id"]), (1, "SOURCE_ERROR"))
        result = weir("info", self.source, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("STORE_CORRUPT", result.stderr)
        result = weir("ingest", self.source, "--schema", vector("shop_small.schema.json"), "--strict", "-o",
                      os.path.join(self.folder.name, "strict.weir"), check=False)
        self.assertIn("SCHEMA_INVALID: table books, column genre", result.stderr)

    def test_interrupt(self):
        """A signal while it runs: CANCELLED and no file, or it was done before."""
        store = os.path.join(self.folder.name, "interrupted.weir")
        with start([WEIR, "ingest", self.source, "-o", store, "--json"], stdout=subprocess.PIPE) as process:
            process.send_signal(signal.SIGINT)
            output = process.stdout.read()
        names = sorted(name for name in os.listdir(self.folder.name) if name.startswith("interrupted"))
        if process.returncode == 130:
            self.assertEqual(json.loads(output)["error"]["code_id"], "CANCELLED")
        self.assertEqual(names, ["interrupted.manifest.json", "interrupted.weir"] if process.returncode == 0 else [])
        self.assertFalse([name for name in names if ".tmp" in name])

    def test_names_reach_no_terminal_raw(self):
        """Tables, columns, tasks, keys and texts with escapes: what is printed for people has none."""
        bad = "a\x1b[2J\x07\nb\x7f\u009bc"
        source, store = os.path.join(self.folder.name, "raw.sqlite"), os.path.join(self.folder.name, "raw.weir")
        with scratch_database(source) as db:
            db.execute(f'CREATE TABLE "t{bad}" ("k{bad}" TEXT PRIMARY KEY, "c{bad}" TEXT, "p{bad}" TEXT REFERENCES "t{bad}", '
                       f'"n{bad}" REAL, "w{bad}" TEXT)')
            db.executemany(f'INSERT INTO "t{bad}" VALUES (?, ?, ?, NULL, ?)',
                           [(f"{i}{bad}", bad + str(i % 3), f"{i - 1}{bad}", f"2024-01-0{i + 1}T00:00:00") for i in range(9)])
        db.close()
        schema = os.path.join(self.folder.name, "raw.json")
        with open(schema, "w", encoding="utf-8") as file:
            json.dump({"name": "raw" + bad, "tables": {"t" + bad: {
                "primary_key": "k" + bad, "temporal_column": "w" + bad, "columns": {
                    "k" + bad: {"stype": "identifier"}, "c" + bad: {"stype": "text"}, "n" + bad: {"stype": "numerical"},
                    "w" + bad: {"stype": "timestamp"},
                    "p" + bad: {"stype": "identifier", "foreign_key": f"t{bad}.k{bad}"}}}},
                "tasks": {"y" + bad: {"query": f'SELECT "k{bad}" AS id, \'2024-02-01\' AS at, 1.0 AS "z{bad}" FROM "t{bad}"',
                                      "anchor_table": "t" + bad, "anchor_key": "id", "target_column": "z" + bad,
                                      "target_stype": "numerical", "observation_time_column": "at"}}}, file)
        shown = [weir("ingest", source, "-o", store, check=False).stdout]
        result = weir("ingest", source, "--schema", schema, "-o", store, check=False)
        shown += [result.stdout, result.stderr]
        self.assertEqual(result.returncode, 0, result)
        manifest = store.replace(".weir", ".manifest.json")
        with open(manifest, encoding="utf-8") as file:
            dataset = next(iter(json.load(file)["datasets"]))
        for command in (["info", store], ["embed", store, "--texts", "5"], ["embed", store, "--columns"], ["verify", store],
                        ["batch", "--store", store, "--manifest", manifest, "--dataset", dataset]):
            result = weir(*command)
            shown += [result.stdout, result.stderr]
        for text in shown:
            self.assertFalse([c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160], text)
            self.assertFalse([line for line in text.splitlines() if line.startswith("b")], text)

    def test_signals_inside_a_query(self):
        source = os.path.join(self.folder.name, "endless.sqlite")
        with scratch_database(source) as db:
            db.executescript("CREATE TABLE t (id INTEGER PRIMARY KEY, w REAL); INSERT INTO t VALUES (1, 0.5)")
        db.close()
        check_signals(self, source, self.folder.name, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                      "SELECT i AS id, '2024-01-01' AS at, i AS y FROM n WHERE i < 0")

    def test_progress_on_a_terminal(self):
        try:
            master, slave = pty.openpty()
        except OSError as reason:  # a bare container without /dev/pts
            self.skipTest(f"no terminal to be had: {reason}")
        subprocess.run([WEIR, "ingest", self.source, "-o", os.path.join(self.folder.name, "tty.weir")], stderr=slave,
                       stdout=subprocess.DEVNULL, check=True)
        os.close(slave)
        shown = os.read(master, 65536).decode()
        os.close(master)
        for phase in ("draft", "read", "order", "match", "tasks", "write", "embed"):
            self.assertIn(phase, shown)


class Killed(unittest.TestCase):
    """kill -9 at a random moment leaves no store or a whole one, and the next ingest works."""

    def test_killed_at_random(self):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "big.sqlite")
            store = os.path.join(folder, "big.weir")
            with scratch_database(source) as db:
                db.executescript("""
                    CREATE TABLE p (id INTEGER PRIMARY KEY, name TEXT);
                    CREATE TABLE c (id INTEGER PRIMARY KEY, p INTEGER REFERENCES p, x REAL, note TEXT);
                    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4999)
                    INSERT INTO p SELECT i, 'p' || i FROM n;
                    WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 49999)
                    INSERT INTO c SELECT i, i * 7919 % 5000, i * 0.5, 'note ' || (i % 20000) FROM n;""")
            db.close()
            command = [WEIR, "ingest", source, "-o", store, "--json"]
            began = time.monotonic()
            whole = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["store_hash"]
            duration = time.monotonic() - began
            chance = random.Random(5)
            for _ in range(12):
                for path in os.listdir(folder):
                    if path != "big.sqlite":
                        os.unlink(os.path.join(folder, path))
                with start(command, stdout=subprocess.DEVNULL) as process:
                    time.sleep(chance.random() * duration * 1.1)
                    process.send_signal(signal.SIGKILL)
                if os.path.exists(store):
                    self.assertEqual(json.loads(weir("verify", store, "--json").stdout)["store_hash"], whole)
                left = [name for name in os.listdir(folder) if name.endswith(".tmp")]
            stray = os.path.join(folder, "big.weir.0123456789abcdef.tmp")
            with open(stray, "w", encoding="utf-8"):
                pass
            self.assertEqual(json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["store_hash"], whole)
            weir("verify", store)
            self.assertEqual([name for name in os.listdir(folder) if ".tmp" in name], [], f"removed: {left}")

    def test_two_at_once_into_one_output(self):
        """One is refused at its start, or they come one after the other; never a mixture."""
        with tempfile.TemporaryDirectory() as folder:
            commands = []
            for name, rows in ("a", 3000), ("b", 4000):
                source = os.path.join(folder, name + ".sqlite")
                with scratch_database(source) as db:
                    db.executescript(f"""
                        CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL, note TEXT);
                        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
                        INSERT INTO t SELECT i, i * 0.5, 'note ' || i FROM n;""")
                db.close()
                commands.append([WEIR, "ingest", source, "-o", os.path.join(folder, "out.weir"), "--json"])
            for _ in range(8):
                running = [start(c, stdout=subprocess.PIPE, text=True) for c in commands]
                outputs = [json.loads(process.communicate(timeout=120)[0]) for process in running]
                done = [output for output in outputs if "error" not in output]
                for output in outputs:
                    if "error" in output:
                        self.assertIn("another process is writing", output["error"]["message"])
                if done:
                    found = json.loads(weir("verify", os.path.join(folder, "out.weir"), "--json").stdout)["store_hash"]
                    self.assertIn(found, [output["store_hash"] for output in done])
                    with open(os.path.join(folder, "out.manifest.json"), encoding="utf-8") as manifest:
                        keys = json.load(manifest)["datasets"].keys()
                    self.assertTrue(all(key.startswith(("a/", "b/")) for key in keys))
                self.assertEqual([name for name in os.listdir(folder) if ".tmp" in name], [])


if __name__ == "__main__":
    unittest.main()
