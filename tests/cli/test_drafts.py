"""Drafts of databases as people bring them: without any editing, all foreign keys that can be known, the right times, no id as
a number, no task that cannot be; and no sequence that shows a row before it came to be, checked from the raw rows."""

import contextlib
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

from reference.csv_files import CsvDatabase  # noqa: E402
from reference.database import Database  # noqa: E402
from reference.draft import draft_schema  # noqa: E402
from tests.support import standins  # noqa: E402
from tests.support.cases import part_of, scratch_database  # noqa: E402
from tests.support.duckdb import DuckDB, library_path  # noqa: E402

WEIR = os.environ["WEIR"]
ID_NAME = re.compile(r"(?:^|_)id$|[a-z]I[dD]$")


def weir(*arguments):
    done = subprocess.run([WEIR, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"weir {' '.join(map(str, arguments))}: {done.stderr}{done.stdout[:500]}")
    return done.stdout


def edges_of(schema):
    found = set()
    for name, table in schema["tables"].items():
        for column, said in table["columns"].items():
            if "foreign_key" in said:
                found.add((name, column, said["foreign_key"].partition(".")[0]))
        for key in table.get("foreign_keys", []):
            found.add((name, "+".join(key["columns"]), key["table"]))
    return found


class Drafts(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)

    def made(self, make):
        return make(random.Random(make.__name__))

    def check(self, standin, source):
        """The draft says what a person would; gives it back."""
        schema = json.loads(weir("schema", source, "--json"))
        tables = schema["tables"]
        self.assertEqual(edges_of(schema), standin.edges)
        self.assertEqual({name: table["temporal_column"] for name, table in tables.items() if "temporal_column" in table},
                         standin.times)
        for name, key in standin.keys.items():
            self.assertEqual(tables[name].get("primary_key"), key[0] if len(key) == 1 else key, name)
        for name, table in tables.items():
            for column, said in table["columns"].items():
                if ID_NAME.search(column):
                    self.assertIn(said["stype"], ("identifier", "categorical"), f"{name}.{column}")
        self.assertTrue(1 <= len(schema["tasks"]) <= 6)
        for task in schema["tasks"].values():
            target = task["target_column"]
            self.assertNotIn(target, standin.forbidden_targets)
            self.assertFalse(ID_NAME.search(target), target)
            self.assertEqual(task.get("split", {"method": "temporal"})["method"], "temporal")
        self.assertEqual(schema["statistics_until"], "train")
        return schema

    def check_leaks(self, standin, store):
        """Every row of some sequences of every task came to be before the seed was observed."""
        truth = standins.true_times(standin)
        manifest = json.loads(store.with_suffix(".manifest.json").read_text())
        checked = 0
        for dataset in manifest["datasets"]:
            page = self.folder / "page.html"
            weir("batch", "--store", store, "--manifest", store.with_suffix(".manifest.json"), "--dataset", dataset, "--html", page)
            text = re.search(r'id="batch-data">(.*?)</script>', page.read_text(encoding="utf-8"), re.S).group(1)
            batch = json.loads(text)
            for sequence in (one for step in batch["steps"] for one in step["sequences"]):
                if not sequence["rows"]:
                    continue
                seen = standins.seconds(sequence["seen"][0])
                for row in sequence["rows"]:
                    table = batch["tables"][row["table"]]["name"]
                    if table not in standin.keys:
                        continue
                    came = truth[table][row["key"]]
                    self.assertTrue(came is None or came <= seen, f"{dataset}: {table} {row['key']} of {came}, seen at {seen}")
                    checked += 1
        self.assertGreater(checked, 1000)

    def ingest(self, source, *options):
        store = self.folder / "made.weir"
        report = json.loads(weir("ingest", source, "-o", store, "--json", *options))
        return store, report


def add_tests(make):
    name = make.__name__

    def test_draft(self):
        standin = self.made(make)
        database = standins.write_sqlite(standin, self.folder / f"{standin.name}.sqlite")
        folder = standins.write_csv(standin, self.folder / standin.name)
        source = folder if not standin.is_declared and standin.null else database
        schema = self.check(standin, source)
        reference = CsvDatabase(folder) if source == folder else Database(database)
        self.assertEqual(schema, draft_schema(reference), "the reference drafts otherwise")
        store, report = self.ingest(source)
        self.assertGreater(report["edges"], 0)
        self.check_leaks(standin, store)

    def test_without_constraints(self):
        """The same from SQLite without keys and from CSV files, where nothing is declared."""
        standin = self.made(make)
        bare = standins.write_sqlite(standin, self.folder / "bare.sqlite", with_keys=False)
        folder = standins.write_csv(standin, self.folder / "csv")
        for source in (bare, folder):
            schema = json.loads(weir("schema", source, "--json"))
            self.assertLessEqual(standin.edges, edges_of(schema) | UNKNOWABLE)
            self.assertLessEqual(edges_of(schema), standin.edges | ALSO_TRUE, "an edge that is none")

    setattr(Drafts, f"test_{name}", test_draft)
    setattr(Drafts, f"test_{name}_without_constraints", test_without_constraints)


# Names that say nothing of the table that they lead to, in numbers that could be anything.
UNKNOWABLE = {("Customer", "SupportRepId", "Employee"), ("Orders", "ShipVia", "Shippers")}
# What two keys of several columns have in common.
ALSO_TRUE = set()

for one in part_of(standins.ALL):
    add_tests(one)


class Explained(unittest.TestCase):
    def test_reasons(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            source = standins.write_sqlite(standins.sakila(random.Random(1)), folder / "sakila.sqlite")
            said = weir("schema", source, "--explain")
            for words in ("create_date: time of a row **not the row's time** (it is later than the rows of payment that refer to it "
                          "in 600 of 600 rows looked at)", "password: is **ignored** (its name says that it is a secret)",
                          "## film", "last_update: time of a row **not the row's time** (the name says when the row was changed last"):
                self.assertIn(words, said)
            weir("schema", source, "-o", folder / "s.schema.json")
            self.assertEqual((folder / "s.schema.notes.md").read_text().splitlines()[2:], said.splitlines()[2:])
            reasons = json.loads(weir("schema", source, "--explain", "--json"))
            self.assertIn({"table": "payment", "topic": "time", "choice": "payment_date",
                           "why": "the name says when the row came to be"}, reasons)

    def test_reasons_are_of_what_is_drafted(self):
        """A time is given as the schema has it; a task that is left out has no reason."""
        with tempfile.TemporaryDirectory() as scratch:
            source = standins.write_csv(standins.formula_1(random.Random(1)), Path(scratch) / "f1")
            reasons = json.loads(weir("schema", source, "--explain", "--json"))
            tasks = {f"{one['table']}.{one['column']}" for one in reasons if one["topic"] == "task" and one["choice"] == "cell task"}
            self.assertEqual(tasks, set(json.loads(weir("schema", source, "--json"))["tasks"]))
            self.assertIn({"table": "results", "topic": "time", "choice": "raceId -> races.date",
                           "why": "a row has no time of its own, and this is the only parent that has one"}, reasons)

    def test_what_some_values_keep_a_column_from_being(self):
        """A bad date among thousands makes a text of all: a person is told to look."""
        with tempfile.TemporaryDirectory() as scratch:
            source = Path(scratch) / "loans.sqlite"
            with contextlib.closing(scratch_database(source)) as connection:
                connection.execute("CREATE TABLE loans (id INTEGER PRIMARY KEY, out_at TEXT, pages, due DATE, note TEXT, back TEXT)")
                rows = [(i, f"2024-01-{i % 28 + 1:02d} 10:00:{i % 60:02d}", i * 7 % 1013, f"{i}. day", f"note {i}", "2024-02-03") for i in range(1200)]
                rows[7] = (7, "", "many", "soon", "", None)
                connection.executemany("INSERT INTO loans VALUES (?, ?, ?, ?, ?, ?)", rows)
                connection.commit()
            reasons = {one["column"]: one for one in json.loads(weir("schema", source, "--explain", "--json")) if one["topic"] == "stype"}
            for column, words in (("out_at", "1199 of 1200 values are times in ISO 8601"), ("pages", "1199 of 1200 values are numbers"),
                                  ("due", "declared as a time")):
                self.assertIn(words, reasons[column]["why"])
                self.assertTrue(reasons[column]["check"])
            for column in ("note", "back"):
                self.assertNotIn("check", reasons[column])

    def test_a_time_that_is_to_come_is_hidden_until_then(self):
        """A person is told, who knows whether it was known before."""
        with tempfile.TemporaryDirectory() as scratch:
            source = Path(scratch) / "loans.sqlite"
            with contextlib.closing(scratch_database(source)) as connection:
                connection.execute("CREATE TABLE loans (id INTEGER PRIMARY KEY, created_at TEXT, due_at TEXT, back_at TEXT)")
                connection.executemany("INSERT INTO loans VALUES (?, ?, ?, ?)",
                                       ((i, f"2024-01-{i + 1:02d}", f"2024-02-{i + 1:02d}", f"2024-03-{i + 1:02d}") for i in range(28)))
                connection.commit()
            reasons = [one for one in json.loads(weir("schema", source, "--explain", "--json")) if one["topic"] == "known_at"]
            self.assertEqual([one["column"] for one in reasons], ["due_at"])
            self.assertIn('it is hidden until it has come; if it is known with the row, as a due date is, write "known_at": null', reasons[0]["why"])
            self.assertTrue(reasons[0]["check"])

    def test_texts_that_stand_for_null(self):
        """A text that is null because of numbers somewhere is null everywhere: that is said, and to be checked where texts
        became null by it."""
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(folder, "csv")
            os.mkdir(source)
            for name, text in (("orders", "id,amount,size\n1,2.5,?\n2,NA,7\n3,,8\n"), ("places", "id,land,code\n1,NA,x\n2,FR,NA\n3,NA,y\n")):
                with open(os.path.join(source, name + ".csv"), "w", encoding="utf-8") as file:
                    file.write(text)
            reasons = [one for one in json.loads(weir("schema", source, "--explain", "--json")) if one["topic"] == "null"]
            among = "it stands among the numbers or times of this column, so it is null in all files"
            self.assertEqual(reasons, [
                {"table": "orders", "column": "amount", "topic": "null", "choice": "NA", "check": True,
                 "why": among + '; 3 fields of texts became null by it, in places.land and 1 more; if it is a value there, give '
                        'that table "csv": {"null": []}'},
                {"table": "orders", "column": "size", "topic": "null", "choice": "?", "why": among}])
            checks = weir("schema", source, "--explain").split("## orders")[0]
            self.assertIn("- orders.amount: null is **NA** (it stands among", checks)
            self.assertNotIn("**?**", checks)
            said = json.loads(weir("schema", source, "--null", "NA", "--null", "?", "--explain", "--json"))
            self.assertNotIn("null", [one["topic"] for one in said], "what was said needs no reason")
            schema = json.loads(weir("schema", source))
            schema["tables"]["places"]["csv"] = {"null": []}
            path = os.path.join(folder, "s.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(schema, file)
            done = json.loads(weir("ingest", source, "--schema", path, "-o", os.path.join(folder, "s.weir"), "--json"))
            nulls = {(t["name"], c["name"]): c["nulls"] for t in done["report"]["tables"] for c in t["columns"]}
            self.assertEqual([nulls[of] for of in (("orders", "amount"), ("places", "land"), ("places", "code"))], [2, 0, 0])

    def test_keys_in_circles(self):
        """Tables that all lead to each other: ways between them are many, and looked for once."""
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "dense.sqlite"
            names = [f"t{i:02}" for i in range(24)]
            with scratch_database(path) as database:
                for i, name in enumerate(names):
                    keys = ", ".join(f"{other}_id INTEGER REFERENCES {other}" for other in names if other != name)
                    database.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, {'made_at TEXT, ' if i < 2 else ''}{keys})")
                for i, name in enumerate(names):
                    marks = ",".join("?" * (24 + (i < 2)))
                    rows = [[r, *(["2024-01-01"] if i < 2 else []), *[r] * 23] for r in range(3)]
                    database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
            database.close()
            tables = json.loads(weir("schema", path, "--json"))["tables"]
            self.assertEqual([name for name in names if "temporal_column" in tables[name]], names[:2])

    def test_a_long_way_to_a_time(self):
        """A time goes through at most 16 foreign keys: the table after those has none."""
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "chain.sqlite"
            with scratch_database(path) as database:
                database.execute("CREATE TABLE t00 (id INTEGER PRIMARY KEY, made_at TEXT)")
                database.executemany("INSERT INTO t00 VALUES (?, ?)", [(r, f"2024-01-{r + 1:02}") for r in range(25)])
                for i in range(1, 20):
                    database.execute(f"CREATE TABLE t{i:02} (id INTEGER PRIMARY KEY, up INTEGER REFERENCES t{i - 1:02})")
                    database.executemany(f"INSERT INTO t{i:02} VALUES (?, ?)", [(r, r) for r in range(25)])
            database.close()
            schema = json.loads(weir("schema", path, "--json"))
            self.assertEqual([name for name, table in schema["tables"].items() if "temporal_column" in table],
                             [f"t{i:02}" for i in range(17)])
            self.assertEqual(schema, draft_schema(Database(path)), "the reference drafts otherwise")
            weir("ingest", path, "-o", Path(scratch) / "chain.weir")

    def test_parents_that_lead_to_each_other(self):
        """Neither of them comes from the other, so both count: the third is not the only one."""
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "circle.sqlite"
            keys = {"a": ["b"], "b": ["a"], "c": [], "t": ["a", "b", "c"]}
            with scratch_database(path) as database:
                for table, parents in keys.items():
                    columns = ["made_at TEXT"] * (table != "t") + [f"{one}_id INTEGER REFERENCES {one}" for one in parents]
                    database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {', '.join(columns)})")
                    for r in range(20):
                        row = [r, *["2024-01-05"] * (table != "t"), *[r] * len(parents)]
                        database.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
            database.close()
            schema = json.loads(weir("schema", path, "--json"))
            self.assertEqual([name for name, table in schema["tables"].items() if "temporal_column" in table], ["a", "b", "c"])
            self.assertEqual(schema, draft_schema(Database(path)), "the reference drafts otherwise")
            self.assertIn("3 parents have a time", weir("schema", path, "--explain"))

    def test_shares_that_are_just_enough(self):
        """Of 20 rows: 10 may have no time, 2 no parent; a time is later than the other in 2, or than a child in 10."""
        def day(number):
            return f"2024-01-{number:02}"

        def times_of(first, second, third, fourth):
            with tempfile.TemporaryDirectory() as scratch:
                path = Path(scratch) / "shares.sqlite"
                with scratch_database(path) as database:
                    for table, columns in (("half", "made_at TEXT"), ("pair", "seen_at TEXT, made_at TEXT"), ("parent", "made_at TEXT"),
                                           ("child", "parent_id INTEGER REFERENCES parent, made_at TEXT"), ("plain", "x TEXT, note TEXT"),
                                           ("through", "parent_id INTEGER REFERENCES parent")):
                        database.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, {columns})")
                    for r in range(20):
                        database.execute("INSERT INTO half VALUES (?, ?)", (r, None if r < first else day(r + 1)))
                        database.execute("INSERT INTO pair VALUES (?, ?, ?)", (r, day(5), day(6 if r < second else 4)))
                        database.execute("INSERT INTO parent VALUES (?, ?)", (r, day(15)))
                        database.execute("INSERT INTO child VALUES (?, ?, ?)", (r, r, day(14 if r < third else 16)))
                        database.execute("INSERT INTO plain VALUES (?, ?, ?)", (r, None if r < fourth - 2 else day(r + 1), f"a b{r}"))
                        database.execute("INSERT INTO through VALUES (?, ?)", (r, None if r < fourth else r))
                database.close()
                schema = json.loads(weir("schema", path, "--json"))
                self.assertEqual(schema, draft_schema(Database(path)), "the reference drafts otherwise")
                return {name: table.get("temporal_column") for name, table in schema["tables"].items()}

        enough = {"half": "made_at", "pair": "made_at", "parent": "made_at", "child": "made_at", "plain": "x",
                  "through": "parent_id -> parent.made_at"}
        self.assertEqual(times_of(10, 2, 10, 2), enough)
        self.assertEqual(times_of(11, 3, 10, 3), {**enough, "half": None, "pair": "seen_at", "plain": None, "through": None})
        self.assertEqual(times_of(10, 2, 11, 2), {**enough, "parent": None, "through": None})

    def test_a_target_that_is_nearly_constant_is_not_given_away(self):
        """Of 100 rows 95 may be of one kind."""
        def drops(common):
            with tempfile.TemporaryDirectory() as scratch:
                path = Path(scratch) / "kinds.sqlite"
                with scratch_database(path) as database:
                    database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, kind TEXT, copy TEXT)")
                    for r in range(100):
                        database.execute("INSERT INTO t VALUES (?, ?, ?)", (r, *(("red", "rot") if r < common else ("blue", "blau"))))
                database.close()
                schema = json.loads(weir("schema", path, "--json"))
                self.assertEqual(schema, draft_schema(Database(path)), "the reference drafts otherwise")
                return {name: task.get("drop_columns") for name, task in schema["tasks"].items()}

        self.assertEqual(drops(95), {"t.kind": ["t.copy"]})
        self.assertEqual(drops(96), {"t.kind": None, "t.copy": None})

    @unittest.skipUnless(library_path(), "WEIR_DUCKDB names no libduckdb.so: DuckDB is not tested")
    def test_duckdb_without_constraints(self):
        """Keys of a DuckDB file and of Parquet files are found as those of CSV files are."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            standin = standins.mini_shop(random.Random(2))
            csv = standins.write_csv(standin, folder / "csv")
            (folder / "parquet").mkdir()
            with DuckDB(str(folder / "shop.duckdb")) as database:
                for table in standin.tables:
                    database.run(f"CREATE TABLE {table.name} AS SELECT * FROM read_csv('{csv / table.name}.csv')")
                    database.run(f"COPY {table.name} TO '{folder / 'parquet' / table.name}.parquet'")
                database.run("CREATE TYPE mood AS ENUM ('sad', 'ok')")
                database.run("CREATE TABLE moods AS SELECT i AS id, (CASE i % 2 WHEN 0 THEN 'sad' ELSE 'ok' END)::mood AS m FROM range(3) t(i)")
            for source in ("shop.duckdb", "parquet"):
                schema = json.loads(weir("schema", folder / source, "--json"))
                self.assertEqual(edges_of(schema), standin.edges)
            self.assertEqual(json.loads(weir("schema", folder / "shop.duckdb", "--json"))["tables"]["moods"]["columns"]["m"],
                             {"stype": "categorical"})


if __name__ == "__main__":
    unittest.main()
