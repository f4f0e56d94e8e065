"""The report of an ingest: every mistake that people make has a warning of its own name; --strict makes it an error and writes
nothing; a clean database has none."""

import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.support import standins  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402

WEIR = os.environ["WEIR"]


def weir(*arguments, check=True):
    done = subprocess.run([WEIR, *map(str, arguments)], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"weir {' '.join(map(str, arguments))}: {done.stderr}{done.stdout[:500]}")
    return done


def shop(path):
    """Customers and orders, with a rating that follows the price and a status that is the answer."""
    rng = random.Random(3)
    database = scratch_database(path)
    database.executescript("""
        CREATE TABLE customers (id INTEGER PRIMARY KEY, joined_at TEXT, city TEXT);
        CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, ordered_at TEXT, total REAL,
                             late INTEGER, status TEXT, channel TEXT);
        CREATE TABLE holidays (day TEXT PRIMARY KEY, name TEXT);""")
    for i in range(1, 101):
        database.execute("INSERT INTO customers VALUES (?, ?, ?)", (i, f"2020-{i % 12 + 1:02}-01", rng.choice(["Oslo", "Lima"])))
    for i in range(1, 2001):
        late = int(rng.random() < .3)
        database.execute("INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?)",
                         (i, rng.randint(1, 100), f"20{21 + i // 1000}-{i % 12 + 1:02}-{i % 28 + 1:02}", round(rng.random() * 90, 2),
                          late, "delayed" if late else "fine", rng.choice(["web", "shop"])))
    for i in range(1, 12):
        database.execute("INSERT INTO holidays VALUES (?, ?)", (f"2021-{i:02}-24", f"day {i}"))
    database.commit()
    database.close()
    return path


SCHEMA = {
    "name": "shop",
    "tables": {
        "customers": {"primary_key": "id", "temporal_column": "joined_at", "columns": {
            "id": {"stype": "identifier"}, "joined_at": {"stype": "timestamp"}, "city": {"stype": "categorical"}}},
        "orders": {"primary_key": "id", "temporal_column": "ordered_at", "columns": {
            "id": {"stype": "identifier"}, "customer_id": {"stype": "identifier", "foreign_key": "customers.id"},
            "ordered_at": {"stype": "timestamp"}, "total": {"stype": "numerical"}, "channel": {"stype": "categorical"}}},
    },
    "tasks": {},
    "statistics_until": "2022-01-01",
}
TEMPORAL = {"method": "temporal", "val": "2021-09-01", "test": "2022-03-01"}
LATE = {"query": "SELECT id, late FROM orders", "anchor_table": "orders", "anchor_key": "id", "target_column": "late",
        "target_stype": "boolean", "split": TEMPORAL}
AGAIN = {"query": "SELECT customer_id AS id, '2021-06-01' AS at, max(ordered_at) > '2021-12-01' AS again FROM orders GROUP BY 1",
         "anchor_table": "customers", "anchor_key": "id", "target_column": "again", "target_stype": "boolean",
         "observation_time_column": "at", "anchor_key_is": "primary_key"}


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        cls.source = shop(cls.folder / "shop.sqlite")

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def ingest(self, task=None, tables=None, check=True, options=(), source=None, **changes):
        schema = json.loads(json.dumps({**SCHEMA, **changes}))
        schema["tables"] |= tables or {}
        schema["tasks"] = {"task": task or LATE}
        path = self.folder / "schema.json"
        path.write_text(json.dumps(schema))
        done = weir("ingest", source or self.source, "--schema", path, "-o", self.folder / "shop.weir", "--json", *options,
                    check=check)
        return json.loads(done.stdout)

    def codes(self, *arguments, **keywords):
        return [warning["code"] for warning in self.ingest(*arguments, **keywords)["warnings"]]

    def test_nothing_to_say(self):
        self.assertEqual(self.codes(), [])
        said = weir("ingest", self.source, "--schema", self.folder / "schema.json", "-o", self.folder / "shop.weir").stdout
        self.assertNotIn("warning", said)
        self.assertRegex(said, r"task: \d+ train \([\d.]+ % true\), \d+ val \([\d.]+ % true\), \d+ test")
        self.assertRegex(said, r"a typical sequence has \d+ cells of \d+ rows; time hides \d+ % of their children")
        self.assertRegex(said, r"orders +2000  2021-01-\d\d 2023-\d\d-\d\d +0.0 %")

    def test_labels(self):
        self.assertEqual(self.codes({**LATE, "query": "SELECT id, 1 AS late FROM orders"}), ["constant_label"])
        self.assertEqual(self.codes({**LATE, "query": "SELECT id, NULL AS late FROM orders"}), ["no_labels"])
        self.assertEqual(self.codes({**LATE, "query": "SELECT id, late FROM orders WHERE id < 0"}), ["no_seeds"])
        self.assertEqual(self.codes({**LATE, "query": "SELECT id + 1900 AS id, late FROM orders", "anchor_key_is": "primary_key"}),
                         ["dropped_seeds", "empty_split"])
        twice = "SELECT id, late FROM orders UNION ALL SELECT id, 1 - late FROM orders WHERE id <= 50"
        report = self.ingest({**LATE, "query": twice})
        self.assertEqual([warning["code"] for warning in report["warnings"]], ["conflicting_seeds"])
        self.assertEqual(report["report"]["tasks"][0]["conflicts"], 50)

    def test_splits(self):
        self.assertEqual(self.codes({**LATE, "split": {**TEMPORAL, "test": "2031-01-01"}}), ["empty_split"])
        self.assertEqual(self.codes({**LATE, "split": {**TEMPORAL, "val": "2022-06-01"}}), ["val_after_test", "empty_split"])
        late = {**TEMPORAL, "val": "2025-01-01", "test": "2025-02-01"}
        for label, code in (("1.5", "constant_label"), ("NULL", "no_labels")):
            same = {**LATE, "query": f"SELECT id, {label} AS late FROM orders", "target_stype": "numerical", "kind": "derived", "split": late}
            self.assertEqual(self.codes(same), [code, "empty_split", "empty_split"])
        grown = "SELECT id, late AND ordered_at > '2021-09-01' AS late FROM orders"
        self.assertEqual(self.codes({**LATE, "query": grown}), ["one_class_split"])

    def test_times(self):
        early = {**AGAIN, "query": AGAIN["query"].replace("'2021-06-01'", "'2010-06-01'")}
        self.assertIn("observation_before_data", self.codes(early))
        integers = "SELECT customer_id AS id, 1622505600 AS at, max(ordered_at) > '2021-12-01' AS again FROM orders GROUP BY 1"
        self.assertIn("unit_not_given", self.codes({**AGAIN, "query": integers}))
        self.assertNotIn("unit_not_given", self.codes({**AGAIN, "query": integers, "unit": "s"}))
        refused = self.ingest({**AGAIN, "query": integers.replace("1622505600", "20210601")}, check=False)
        self.assertIn('"format": "%Y%m%d"', refused["error"]["message"])

    def many(self, rows=200, nulls=0, targets=None):
        """A table of a row a day, of which the last `nulls` have no time, and a history of each."""
        source = self.folder / "many.sqlite"
        source.unlink(missing_ok=True)
        with scratch_database(source) as database:
            database.executescript("""
                CREATE TABLE c (id INTEGER PRIMARY KEY, at TEXT, city TEXT, y REAL);
                CREATE TABLE o (oid INTEGER PRIMARY KEY, id INTEGER REFERENCES c, at TEXT, amount REAL);""")
            for i in range(rows):
                at = f"2024-{i // 28 + 1:02}-{i % 28 + 1:02}" if i < rows - nulls else None
                database.execute("INSERT INTO c VALUES (?, ?, ?, ?)", (i, at, "Oslo" if i % 3 else "Lima", i * 7 % 11))
            for i in range(500):
                database.execute("INSERT INTO o VALUES (?, ?, ?, ?)", (i, i % rows, f"2024-0{i // 84 + 1}-{i // 3 % 28 + 1:02}", i % 13))
        database.close()
        return source

    def ingest_many(self, source, task, is_timed, options=("--json",)):
        """The report, or what is printed, of a task about such a table."""
        timed = {"temporal_column": "at"} if is_timed else {}
        schema = {"name": "many", "statistics_until": "2025-01-01", "tasks": {"q": {"anchor_table": "c", "anchor_key": "id",
                  "target_column": "y", "target_stype": "numerical", **task}}, "tables": {
                      "c": {"primary_key": "id", **timed, "columns": {
                          "at": {"stype": "timestamp"}, "city": {"stype": "categorical"}, "y": {"stype": "numerical"}}},
                      "o": {"primary_key": "oid", "temporal_column": "at", "columns": {
                          "id": {"stype": "identifier", "foreign_key": "c.id"}, "at": {"stype": "timestamp"},
                          "amount": {"stype": "numerical"}}}}}  # fmt: skip
        path = self.folder / "many.json"
        path.write_text(json.dumps(schema))
        said = weir("ingest", source, "--schema", path, "-o", self.folder / "many.weir", *options).stdout
        return json.loads(said) if "--json" in options else said

    def of_code(self, report, code, kind="warnings"):
        return [said["message"] for said in report[kind] if said["code"] == code]

    def test_seeds_without_a_time(self):
        """A typo in the time of a query makes it null: its seeds see everything, also what the target sums up."""
        typo = {"query": """SELECT id, date('2024-01-01', '+3 mnths') AS w,
            (SELECT sum(amount) FROM o WHERE o.id = c.id AND o.at > '2024-04-01') AS y FROM c""", "observation_time_column": "w"}
        source = self.many(50)
        report = self.ingest_many(source, typo, False)
        (said,) = self.of_code(report, "seeds_without_time")
        self.assertRegex(said, r"^50 of 50 seeds of task q \(all \d+ of train, all \d+ of val, all \d+ of test\) have no observation "
                         "time: column w of the query is null; they see every row, also those that came after")
        self.assertIn("IS NOT NULL", said)
        self.assertEqual([warning["task"] for warning in report["warnings"] if warning["code"] == "seeds_without_time"], ["q"])
        self.assertIn("(seeds_without_time)", self.ingest_many(source, typo, False, ()))
        some = {**typo, "query": typo["query"].replace("date('2024-01-01', '+3 mnths')", "iif(id < 30, '2024-04-01', NULL)")}
        (said,) = self.of_code(self.ingest_many(source, some, False), "seeds_without_time")
        self.assertIn("20 of 50 seeds of task q (", said)
        right = {**typo, "query": typo["query"].replace("mnths", "months")}
        timeless = {key: value for key, value in right.items() if key != "observation_time_column"}
        for task in (right, timeless):
            self.assertEqual(self.of_code(self.ingest_many(source, task, False), "seeds_without_time"), [])

    def test_rows_without_a_time_as_seeds(self):
        """A split by time puts them into its last part."""
        cell = {"query": "SELECT id, y FROM c", "split": {"method": "temporal", "val": "2024-03-20", "test": "2024-04-20"}}
        source = self.many(nulls=67)
        for task in (cell, {**cell, "kind": "derived"}):
            (said,) = self.of_code(self.ingest_many(source, task, True), "seeds_without_time")
            self.assertRegex(said, r"^67 of 200 seeds of task q \(67 of the 9\d of test\) have no observation time: their row of c has none;")
        both = {**cell, "query": "SELECT id, y, NULL AS w FROM c", "observation_time_column": "w", "kind": "derived"}
        report = self.ingest_many(source, both, True)
        (said,) = self.of_code(report, "seeds_without_time")
        self.assertIn("column w of the query is null, and their row has no time;", said)
        self.assertEqual(self.of_code(report, "observation_from_row", "notes"), [
            "133 of 200 seeds of task q have no time in column w of the query (it is null): they are observed at the time of "
            "their row of c"])
        self.assertIn("  note: 133 of 200 seeds of task q have no time", self.ingest_many(source, both, True, ()))
        known = {**both, "query": "SELECT id, y, '2024-09-01' AS w FROM c"}
        report = self.ingest_many(source, known, True)
        self.assertEqual(self.of_code(report, "seeds_without_time") + self.of_code(report, "observation_from_row", "notes"), [])
        self.assertEqual(self.of_code(self.ingest_many(self.many(), cell, True), "seeds_without_time"), [])

    def test_targets_that_are_not_finite(self):
        """As values of a column they count as null, and are told; of a query's rows only those that become seeds."""
        half = {"query": "SELECT id, CASE WHEN id % 2 THEN 9e999 ELSE y END AS y FROM c", "kind": "derived"}
        source = self.many(100)
        said = "50 targets of task q are not finite: they count as null"
        report = self.ingest_many(source, half, True)
        self.assertEqual(self.of_code(report, "targets_not_finite", "notes"), [said])
        self.assertEqual(report["not_finite"], 50)
        self.assertEqual(sum(split["nulls"] for split in report["report"]["tasks"][0]["splits"].values()), 50)
        self.assertIn(f"  note: {said}\n", self.ingest_many(source, half, True, ()))
        one = {**half, "query": "SELECT id, iif(id = 7, 'nan', y) AS y FROM c UNION ALL SELECT id + 1000, '-inf' FROM c WHERE id < 5"}
        self.assertEqual(self.of_code(self.ingest_many(source, one, True), "targets_not_finite", "notes"),
                         ["1 target of task q is not finite: it counts as null"])
        cell = {"query": "SELECT id, 9e999 AS y FROM c"}
        report = self.ingest_many(source, cell, True)
        self.assertEqual((report["not_finite"], report["notes"]), (0, []), "the target of a cell task is its column")

    def test_leaks(self):
        columns = {**SCHEMA["tables"]["orders"]["columns"], "status": {"stype": "categorical"}}
        report = self.ingest(tables={"orders": {**SCHEMA["tables"]["orders"], "columns": columns}})
        self.assertEqual([warning["code"] for warning in report["warnings"]], ["leak_suspect"])
        self.assertIn("orders.status alone tells the target of task task (AUC 1.000)", report["warnings"][0]["message"])
        dropped = {**LATE, "drop_columns": ["orders.status"]}
        self.assertEqual(self.codes(dropped, {"orders": {**SCHEMA["tables"]["orders"], "columns": columns}}), [])
        # A number that the answer follows from, and one that it does not.
        dear = {**LATE, "query": "SELECT id, total > 40 AS late FROM orders"}
        self.assertEqual(self.codes(dear), ["leak_suspect"])
        tagged = {**LATE, "query": "SELECT id, (id * 7919) % 5 > 2 AS late FROM orders"}
        self.assertEqual(self.codes(tagged), [])

    def test_leak_through_a_foreign_key(self):
        """The row that a key leads to tells as much as a column: here, a table of states."""
        source = self.folder / "states.sqlite"
        source.write_bytes(self.source.read_bytes())
        with scratch_database(source) as database:
            database.executescript("""
                CREATE TABLE states (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO states VALUES (1, 'fine'), (2, 'delayed');
                ALTER TABLE orders ADD COLUMN state_id INTEGER; UPDATE orders SET state_id = 1 + late""")
        database.close()
        key = {"stype": "identifier", "foreign_key": "states.id"}
        orders = SCHEMA["tables"]["orders"]
        tables = {"orders": {**orders, "columns": {**orders["columns"], "state_id": key}},
                  "states": {"primary_key": "id", "columns": {"name": {"stype": "text"}}}}
        report = self.ingest(tables=tables, source=source)
        [warning] = report["warnings"]
        self.assertEqual((warning["code"], warning["table"], warning["column"]), ("leak_suspect", "orders", "state_id"))
        self.assertEqual(self.codes({**LATE, "drop_columns": ["orders.state_id"]}, tables, source=source), ["unreachable_table"])

    def test_tables(self):
        holidays = {"holidays": {"primary_key": "day", "columns": {"day": {"stype": "timestamp"}, "name": {"stype": "text"}}}}
        report = self.ingest(tables=holidays)
        self.assertEqual([warning["code"] for warning in report["warnings"]], ["unreachable_table"])
        self.assertEqual(report["report"]["tables"][0]["name"], "holidays", "what is odd comes first")
        columns = {name: {k: v for k, v in said.items() if k != "foreign_key"}
                   for name, said in SCHEMA["tables"]["orders"]["columns"].items()}
        self.assertEqual(self.codes(tables={"orders": {**SCHEMA["tables"]["orders"], "columns": columns}}),
                         ["no_edges", "unreachable_table"])

    def test_orphans_and_far_times(self):
        source = self.folder / "odd.sqlite"
        source.write_bytes(self.source.read_bytes())
        with scratch_database(source) as database:
            database.execute("UPDATE orders SET customer_id = customer_id + 1000 WHERE id % 3 = 0")
            database.execute("UPDATE orders SET ordered_at = '9999-12-31' WHERE id = 77")
        database.close()
        self.assertEqual(self.codes(source=source), ["orphans", "far_times"])

    def test_orphans_are_of_one_key(self):
        """Two keys that lack a few parents each are no mistake; the one that lacks many is named."""
        source = self.folder / "two_keys.sqlite"
        source.write_bytes(self.source.read_bytes())
        with scratch_database(source) as database:
            database.execute("ALTER TABLE orders ADD payer_id INTEGER")
            database.execute("UPDATE orders SET payer_id = customer_id")
            for key in ("customer_id", "payer_id"):
                database.execute(f"UPDATE orders SET {key} = {key} + 1000 WHERE id % 7 = 0")
        orders = SCHEMA["tables"]["orders"]
        tables = {"orders": {**orders, "columns": {**orders["columns"], "payer_id": orders["columns"]["customer_id"]}}}
        self.assertEqual(self.codes(tables=tables, source=source), [])
        with scratch_database(source) as database:
            database.execute("UPDATE orders SET payer_id = payer_id + 1000 WHERE id % 7 = 1")
        database.close()
        report = self.ingest(tables=tables, source=source)
        self.assertEqual([(warning["code"], warning["table"], warning["column"]) for warning in report["warnings"]],
                         [("orphans", "orders", "payer_id")])
        self.assertIn("orders.payer_id matches no row of customers in 29 % of the rows (571)", report["warnings"][0]["message"])
        (table,) = (table for table in report["report"]["tables"] if table["name"] == "orders")
        self.assertEqual(table["dangling"], sum(key["dangling"] for key in table["foreign_keys"]))
        self.assertEqual(table["dangling"], 3 * 285 + 1)

    def test_skipped_files(self):
        folder = self.folder / "files"
        folder.mkdir()
        with open(folder / "orders.csv", "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([["order_id", "late", "ordered_at"], *([i, i % 2, f"2021-{i % 12 + 1:02}-01"] for i in range(1, 401))])
        for name in ("notes.txt", "orders.csv.zst", "orders.xlsx"):
            (folder / name).write_text("x")
        report = json.loads(weir("ingest", folder, "-o", self.folder / "files.weir", "--json").stdout)
        skipped = [warning["message"] for warning in report["warnings"] if warning["code"] == "skipped_files"]
        self.assertEqual(len(skipped), 1)
        self.assertIn("3 files of the source are not read (notes.txt, orders.csv.zst, orders.xlsx)", skipped[0])

    def test_strict(self):
        """A warning of either kind leaves what was there."""
        store = self.folder / "shop.weir"
        self.ingest()
        before = store.read_bytes()
        for task in ({**LATE, "query": "SELECT id, 1 AS late FROM orders"}, {**LATE, "split": {**TEMPORAL, "val": "2022-06-01"}}):
            refused = self.ingest(task, check=False, options=["--strict"])
            self.assertEqual(refused["error"]["code_id"], "SCHEMA_INVALID")
            self.assertIn("which strict makes errors", refused["error"]["message"])
            self.assertEqual(store.read_bytes(), before)
        self.assertEqual([warning["code"] for warning in refused["warnings"]], ["val_after_test", "empty_split"])
        said = weir("ingest", self.source, "--schema", self.folder / "schema.json", "-o", store, "--strict", check=False)
        self.assertEqual([line.rsplit("(", 1)[1] for line in said.stdout.splitlines()], ["val_after_test)", "empty_split)"])
        self.assertIn("2 warnings, which strict makes errors; the first is val_after_test", said.stderr)
        self.assertEqual([path.name for path in self.folder.iterdir() if ".tmp" in path.name], [])
        self.ingest(options=["--strict"])

    def test_codes_are_documented(self):
        sources = [path.read_text() for folder in ("ingest", "report") for path in (ROOT / "src" / folder).glob("*.c")]
        codes = {code for text in sources for code in re.findall(r'\b(?:weir_ingest__)?(?:warn|note)\(\s*\w+, "(\w+)"', text)}
        self.assertGreater(len(codes), 20)
        documented = (ROOT / "docs" / "warnings.md").read_text()
        self.assertEqual([code for code in sorted(codes) if f"`{code}`" not in documented], [])

    def test_standins_have_few_warnings(self):
        """What is drafted is no mistake, but for what the data themselves are."""
        allowed = {"leak_suspect", "unreachable_table", "one_class_split", "empty_split", "table_without_time", "rows_without_time"}
        for make in (standins.chinook, standins.sakila, standins.mini_shop):
            standin = make(random.Random(5))
            source = standins.write_sqlite(standin, self.folder / f"{standin.name}.sqlite")
            report = json.loads(weir("ingest", source, "-o", self.folder / "standin.weir", "--json").stdout)
            self.assertLessEqual({warning["code"] for warning in report["warnings"]}, allowed)


class Manifests(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)
        self.source = shop(self.folder / "shop.sqlite")
        self.schema = self.folder / "schema.json"
        self.manifest = self.folder / "shop.manifest.json"
        self.write_schema(LATE)
        self.report = self.ingest()

    def write_schema(self, task, name="late"):
        self.schema.write_text(json.dumps({**SCHEMA, "tasks": {name: task}}))

    def ingest(self, *options):
        return json.loads(weir("ingest", self.source, "--schema", self.schema, "-o", self.folder / "shop.weir", "--json", *options).stdout)

    def edit(self, **changes):
        document = json.loads(self.manifest.read_text()) | changes
        self.manifest.write_text(json.dumps(document))
        return document

    def test_written_for_people(self):
        lines = self.manifest.read_text().splitlines()
        self.assertEqual(lines[:3], ["{", '  "seed": 0,', '  "global_batch_size": 32,'])
        self.assertTrue(lines[4].startswith('    "shop/late/train": {"id": "shop", "version": "1", "hash": "'))

    def test_untouched_is_replaced(self):
        before = self.manifest.read_text()
        self.manifest.write_text(json.dumps(json.loads(before)))  # another notation is no edit
        self.write_schema({**LATE, "query": "SELECT id, late FROM orders WHERE id > 100"})
        report = self.ingest()
        self.assertFalse(report["manifest_kept"])
        self.assertNotEqual(self.manifest.read_text(), before)
        weir("manifest", self.manifest)

    def test_batch_size_stays(self):
        self.ingest("--batch-size", "64")
        self.ingest()
        self.assertEqual(json.loads(self.manifest.read_text())["global_batch_size"], 64)

    def test_edited_is_kept(self):
        edited = self.edit(seed=7, batch={"sequence_length": 256})
        self.write_schema({**LATE, "query": "SELECT id, late FROM orders WHERE id > 100"})
        report = self.ingest()
        self.assertTrue(report["manifest_kept"])
        self.assertEqual(json.loads(self.manifest.read_text()), edited)
        notes = [note["message"] for note in report["notes"]]
        self.assertIn(f"{self.manifest} was edited, or made for another store, and is kept as it is", notes)
        self.assertTrue(any("another hash or number of samples in shop/late/train" in note for note in notes), notes)
        self.assertTrue(any("--update-manifest" in note for note in notes))
        self.assertEqual(report["warnings"], [])

    def test_update_and_replace(self):
        accountant = {"subsampling_mode": "SHUFFLE_WITHOUT_REPLACEMENT"}
        self.edit(seed=7, batch={"sequence_length": 256}, mix={"shop/late/train": 5}, accountant=accountant)
        self.write_schema({**LATE, "query": "SELECT id, late FROM orders WHERE id > 100"})
        self.ingest("--update-manifest")
        updated = json.loads(self.manifest.read_text())
        self.assertEqual((updated["seed"], updated["batch"], updated["mix"]), (7, {"sequence_length": 256}, {"shop/late/train": 5}))
        self.assertEqual(updated["accountant"], accountant)
        weir("batch", "--store", self.folder / "shop.weir", "--manifest", self.manifest, "--dataset", "shop/late/train", "--json")
        self.ingest("--replace-manifest")
        replaced = json.loads(self.manifest.read_text())
        self.assertEqual((replaced["seed"], replaced.get("batch")), (0, {"identifiers": "omit"}))

    def test_a_preset_stays(self):
        self.ingest("--preset", "train_shuffle")
        self.assertFalse(self.ingest()["manifest_kept"])
        self.assertEqual(json.loads(self.manifest.read_text())["data"], {"preset": "train_shuffle"})

    def test_tasks_come_and_go(self):
        self.edit(seed=7)
        self.write_schema(LATE, "other")
        notes = [note["message"] for note in self.ingest()["notes"]]
        self.assertTrue(any("a new dataset, shop/other/train" in note for note in notes))
        self.assertTrue(any("the store no longer has shop/late/train" in note for note in notes))

    def test_edits_of_every_kind_are_kept(self):
        written = json.loads(self.manifest.read_text())
        dataset = written["datasets"]["shop/late/train"]
        without = {key: value for key, value in written.items() if key not in ("datasets", "global_batch_size")}
        many = {f"gone{i}": dataset for i in range(25)} | {"x" * 600: dataset}
        for edited, text in (
            (without, "a new dataset, shop/late/train"), ({**without, "datasets": 3}, "a new dataset, shop/late/train"),
            ({**written, "global_batch_size": "many"}, "was edited"), ({**written, "global_batch_size": -1}, "was edited"),
            ({**written, "data": {"preset": "unheard_of"}}, "was edited"), ({**written, "data": {"preset": 3}}, "was edited"),
            ({**written, "data": {}}, "was edited"), ({**written, "datasets": written["datasets"] | many}, "no longer has gone1"),
            ({**written, "datasets": {**written["datasets"], "shop/late/train": {**dataset, "version": "10"}}}, "another hash"),
        ):  # fmt: skip
            with self.subTest(text, edited=str(edited)[:80]):
                self.manifest.write_text(json.dumps(edited))
                report = self.ingest()
                notes = [note["message"] for note in report["notes"]]
                self.assertTrue(report["manifest_kept"])
                self.assertTrue(any(text in note for note in notes), notes)
                self.assertLess(len(notes), 25)
                self.assertEqual(json.loads(self.manifest.read_text()), edited)

    def test_broken_is_kept(self):
        self.manifest.write_text('{"seed": 7,')
        self.assertTrue(self.ingest()["manifest_kept"])
        self.assertEqual(self.manifest.read_text(), '{"seed": 7,')


if __name__ == "__main__":
    unittest.main()
