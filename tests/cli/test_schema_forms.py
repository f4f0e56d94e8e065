"""What a schema can say beyond one table and one column: keys of several columns, times through keys, queries, names
with dots, anchors that are not there yet; and what weir says of mistakes in them. Each database is a few rows of SQL."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from tests.support import warehouse  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402

WEIR = os.path.abspath(os.environ["WEIR"])
TIMES = ("table_without_time", "rows_without_time", "seeds_before_anchor", "statistics_after_train")

SHOP = """
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name TEXT);
INSERT INTO customers VALUES (1, 'a'), (2, 'b'), (3, 'c');
CREATE TABLE invoices (invoice_id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, total REAL, at TEXT);
INSERT INTO invoices VALUES (1, 3, 5.0, '2024-01-01'), (2, 3, 6.0, '2024-01-05'), (3, 1, 7.0, '2024-01-09'),
                            (4, 2, 9.0, NULL);
CREATE TABLE lines (invoice_id INTEGER REFERENCES invoices, n INTEGER, price REAL, PRIMARY KEY (invoice_id, n));
INSERT INTO lines VALUES (1, 1, 5.0), (2, 1, 2.0), (2, 2, 4.0), (3, 1, 7.0), (4, 1, 9.0);
CREATE VIEW paid AS SELECT invoice_id, customer_id, total FROM invoices WHERE total > 5;
"""
TABLES = {
    "customers": {"primary_key": "customer_id", "columns": {"name": {"stype": "text"}}},
    "invoices": {"primary_key": "invoice_id", "temporal_column": "at", "columns": {
        "customer_id": {"stype": "identifier", "foreign_key": "customers.customer_id"},
        "total": {"stype": "numerical"}, "at": {"stype": "timestamp"}}},
    "lines": {"primary_key": ["invoice_id", "n"], "columns": {
        "invoice_id": {"stype": "identifier", "foreign_key": "invoices.invoice_id"}, "price": {"stype": "numerical"}}},
}  # fmt: skip


def task(query, anchor, key, **more):
    return {"query": query, "anchor_table": anchor, "anchor_key": key, "target_column": "y", "target_stype": "numerical",
            **more}  # fmt: skip


class Forms(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.database(SHOP)

    def database(self, sql, name="shop.sqlite"):
        (self.folder / name).unlink(missing_ok=True)
        with scratch_database(self.folder / name) as db:
            db.executescript(sql)
        db.close()

    def weir(self, *arguments):
        """What is printed, the error's line, and the warnings about times, without their codes."""
        done = subprocess.run([WEIR, *map(str, arguments)], cwd=self.folder, capture_output=True, check=False, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("WARNING: ")]
        warnings = [line.rsplit(" (", 1)[0] for line in lines if line.rsplit(" (", 1)[1][:-1] in TIMES]
        [failure] = [line for line in done.stderr.splitlines() if line.startswith("weir: ")] or [None]
        self.assertEqual(done.returncode, 0 if failure is None else 1, done.stderr)
        return done.stdout, failure, warnings

    def ingest(self, tables=TABLES, tasks=None, **more):
        schema = {"name": "s", "tables": tables, "tasks": tasks or {}, "embedding": {"dim": 1}, **more}
        (self.folder / "s.json").write_text(json.dumps(schema))
        _, wrong, _ = self.weir("schema", "--check", "s.json")
        _, failure, warnings = self.weir("ingest", "shop.sqlite", "--schema", "s.json", "-o", "s.weir")
        self.assertFalse(wrong and not failure, "the check refuses what ingest takes")
        return failure, warnings, wrong

    def info(self):
        return json.loads(self.weir("info", "s.weir", "--json")[0])

    # ---- The anchor's key

    def test_an_anchor_key_that_is_another_key_is_refused(self):
        for query, anchor, key, words in (
            ("SELECT customer_id, total AS y FROM invoices", "invoices", "customer_id", "invoices.customer_id"),
            ("SELECT customer_id AS invoice_id, total AS y FROM invoices", "invoices", "invoice_id", "invoices.customer_id"),
            ("SELECT invoice_id AS k, total AS y FROM invoices", "customers", "k", "invoices.invoice_id"),
            ("SELECT invoice_id + 0 AS total, 1 AS y FROM invoices", "invoices", "total", "invoices.total"),
            ("SELECT n AS invoice_id, invoice_id AS n, price AS y FROM lines", "lines", ["invoice_id", "n"], "lines.n"),
        ):
            with self.subTest(query=query):
                failure, _, wrong = self.ingest(tasks={"t": task(query, anchor, key)})
                self.assertIsNone(wrong)
                self.assertIn("TASK_INVALID: task t: the query's column", failure)
                self.assertIn(f"is {words}, not the primary key", failure)
                failure, _, _ = self.ingest(tasks={"t": task(query, anchor, key, anchor_key_is="primary_key")})
                self.assertIsNone(failure)

    def test_an_anchor_key_that_is_the_key_is_taken(self):
        for query, anchor, key in (
            ("SELECT customer_id, total AS y FROM invoices", "customers", "customer_id"),
            ("SELECT invoice_id AS total, total AS y FROM invoices", "invoices", "total"),
            ("SELECT customer_id AS k, total AS y FROM paid", "customers", "k"),
            ("SELECT customer_id * 1 AS k, 1 AS y FROM invoices", "customers", "k"),
            ("SELECT invoice_id, n, price AS y FROM lines", "lines", ["invoice_id", "n"]),
            ("SELECT l.invoice_id AS a, count(*) AS b, 1 AS y FROM lines l GROUP BY 1", "lines", ["a", "b"]),
        ):
            with self.subTest(query=query):
                self.assertIsNone(self.ingest(tasks={"t": task(query, anchor, key)})[0])

    def test_the_number_of_key_columns_is_checked_without_a_source(self):
        for anchor, key, words in (("lines", "invoice_id", "has 1 columns, but the primary key of lines has 2"),
                                   ("invoices", ["a", "b"], "has 2 columns, but the primary key of invoices has 1")):
            failure, _, wrong = self.ingest(tasks={"t": task("SELECT 1", anchor, key)})
            self.assertIn(f"$.tasks.t.anchor_key {words}", failure)
            self.assertIn(words, wrong)
        tables = {**TABLES, "lines": {"columns": {}}}
        failure, _, wrong = self.ingest(tables, {"t": task("SELECT 1", "lines", "n")})
        self.assertIn("$.tasks.t.anchor_table names lines, which has no primary_key", failure)
        self.assertEqual(failure, wrong)

    # ---- Times

    def test_a_table_without_a_time_is_named_loudly(self):
        seen = task("SELECT customer_id, 1 AS y, '2024-01-05' AS at FROM customers", "customers", "customer_id",
                    observation_time_column="at")
        failure, warnings, _ = self.ingest(tasks={"t": seen})
        self.assertIsNone(failure)
        self.assertEqual([line for line in warnings if "no time, so" in line], [
            "WARNING: table lines has no time, so every seed sees all of its 5 rows; a seed in the middle "
            "(2024-01-05T00:00:00Z) sees 1 of them from the future, by the time of their invoices; say since when they "
            'exist, such as "temporal_column": "invoice_id -> invoices.at"'])
        printed = json.loads(self.weir("ingest", "shop.sqlite", "--schema", "s.json", "-o", "s.weir", "--json")[0])
        self.assertEqual([(warning["code"], warning["table"]) for warning in printed["warnings"]
                          if warning["code"] in TIMES],
                         [("table_without_time", "lines"), ("rows_without_time", "invoices")])
        timed = {**TABLES, "lines": {**TABLES["lines"], "temporal_column": "invoice_id -> invoices.at"}}
        failure, warnings, _ = self.ingest(timed, {"t": seen})
        self.assertEqual(warnings, [
            "WARNING: 1 of 4 rows of invoices have no time (it is null), so every seed sees them",
            "WARNING: 1 of 5 rows of lines have no time (no row on the way, or null there), so every seed sees them"])
        [lines] = [table for table in self.info()["tables"] if table["name"] == "lines"]
        self.assertEqual((lines["temporal_column"], lines["time"]), (None, "invoice_id -> invoices.at"))
        self.assertIn("time invoice_id -> invoices.at (null in 1)", self.weir("info", "s.weir")[0])

    def test_times_that_lead_nowhere_are_refused_without_a_source(self):
        for path, words in (
            ("invoice_id -> invoices.nothing", "names nothing, which is not among the columns of invoices"),
            ("invoice_id -> invoices.total", "names invoices.total, which is not a timestamp"),
            ("invoice_id -> customers.at", "invoice_id leads to invoices: say invoices.COLUMN after it"),
            ("invoice_id -> at", "invoice_id leads to invoices: say invoices.COLUMN after it"),
            ("n -> invoices.at", "lines has no foreign key n"),
            (["n", "at"], "goes through n, which is not a foreign key of lines"),
            (["invoice_id"] * 18, "at most 16 foreign keys"),
            ([], "must be a column, or"),
            ([1], "must be a name or a list of names"),
            ("price", "names lines.price, which is not a timestamp"),
        ):
            with self.subTest(path=path):
                tables = {**TABLES, "lines": {**TABLES["lines"], "temporal_column": path}}
                failure, _, wrong = self.ingest(tables)
                self.assertEqual(failure, wrong)
                self.assertIn("SCHEMA_INVALID: s.json: $.tables.lines.temporal_column", failure)
                self.assertIn(words, failure)

    def test_seeds_before_their_anchor_are_counted_and_can_be_moved(self):
        early = task("SELECT invoice_id, total AS y, '2024-01-04' AS seen FROM invoices", "invoices", "invoice_id",
                     observation_time_column="seen")
        failure, warnings, _ = self.ingest(tasks={"t": early})
        self.assertIsNone(failure)
        self.assertIn("2 of 4 seeds of task t are observed before their row of invoices exists", "".join(warnings))
        for rule, words in (("show_known", "2 seeds were observed before their anchor row: they see what was known"),
                            ("move", "2 seeds were observed before their anchor row: their time was moved to it")):
            failure, warnings, _ = self.ingest(tasks={"t": {**early, "before_anchor": rule}})
            self.assertIsNone(failure)
            self.assertNotIn("seeds of task", "".join(warnings))
            self.assertIn(words, self.weir("info", "s.weir")[0])
            [described] = self.info()["tasks"]
            self.assertEqual((described["before_anchor"], described["early"]), (rule, 2))
        failure, _, wrong = self.ingest(tasks={"t": {**early, "before_anchor": "hide"}})
        self.assertIn('TASK_INVALID: s.json: $.tasks.t.before_anchor must be "keep", "show_known" or "move"', failure)
        self.assertEqual(failure, wrong)

    def test_statistics_may_end_with_train(self):
        timed = task("SELECT invoice_id, total AS y FROM invoices", "invoices", "invoice_id",
                     split={"method": "temporal", "val": "2024-01-05", "test": "2024-01-08"})
        failure, warnings, _ = self.ingest(tasks={"t": timed})
        self.assertIn("also 2 that are later than the train split of task t, which ends at 2024-01-04T23:59:59.999999Z",
                      "".join(warnings))
        self.assertIn("statistics over all rows", self.weir("info", "s.weir")[0])
        failure, warnings, _ = self.ingest(tasks={"t": timed}, statistics_until="train")
        self.assertNotIn("deviations", "".join(warnings))
        self.assertIn("statistics over rows up to 2024-01-04T23:59:59.999999Z", self.weir("info", "s.weir")[0])
        [total] = [column for column in self.info()["columns"] if column["name"] == "total"]
        self.assertEqual((total["count"], total["mean"]), (2, 7.0))
        failure, _, wrong = self.ingest(tasks={"t": {**timed, "split": {}}}, statistics_until="train")
        self.assertIn("$.statistics_until is \"train\", but no task has a temporal or column split", failure)
        self.assertEqual(failure, wrong)

    # ---- Names

    def test_a_draft_of_names_with_dots_is_ingested(self):
        self.database("""CREATE TABLE "a.b" (id INTEGER PRIMARY KEY); INSERT INTO "a.b" VALUES (1), (2);
            CREATE TABLE a (id INTEGER PRIMARY KEY, "b.id" INTEGER UNIQUE); INSERT INTO a VALUES (1, 5);
            CREATE TABLE c (id INTEGER PRIMARY KEY, ab INTEGER REFERENCES "a.b", x INTEGER REFERENCES a ("b.id"));
            INSERT INTO c VALUES (1, 2, 5)""")
        draft = json.loads(self.weir("schema", "shop.sqlite", "--json")[0])
        columns = draft["tables"]["c"]["columns"]
        self.assertEqual((columns["ab"]["foreign_key"], columns["x"]["foreign_key"]), (["a.b", "id"], "a.b.id"))
        _, failure, _ = self.weir("ingest", "shop.sqlite", "-o", "s.weir")
        self.assertIsNone(failure)
        edges = {(edge["column"], edge["parent_table"]): edge["edges"] for edge in self.info()["edges"]}
        self.assertEqual(edges, {("ab", "a.b"): 1, ("x", "a"): 1})

    def test_tasks_with_one_name_are_told_apart(self):
        self.database("""CREATE TABLE a (id INTEGER PRIMARY KEY, "b.c" REAL, "b.c#2" REAL);
            CREATE TABLE "a.b" (id INTEGER PRIMARY KEY, c REAL);
            WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 20)
            INSERT INTO a SELECT i, i * 7 % 5 + 0.5, i * 3 % 4 + 0.25 FROM n;
            INSERT INTO "a.b" SELECT id, id * 2 % 7 + 0.5 FROM a""")
        self.assertIsNone(self.weir("ingest", "shop.sqlite", "-o", "s.weir")[1])
        self.assertEqual([task["name"] for task in self.info()["tasks"]], ["a.b.c", "a.b.c#2", "a.b.c#3"])

    def test_the_target_of_a_name_that_reads_like_another_is_not_dropped(self):
        self.database("""CREATE TABLE a (id INTEGER PRIMARY KEY, "b.c" REAL, up INTEGER); CREATE TABLE "a.b" (c REAL, id);
            INSERT INTO a VALUES (1, 2.5, NULL), (2, 3.5, 1), (3, 1.5, 1); INSERT INTO "a.b" VALUES (4.5, 1)""")
        tables = {"a": {"primary_key": "id", "columns": {"b.c": {"stype": "numerical"},
                                                         "up": {"stype": "identifier", "foreign_key": "a.id"}}},
                  "a.b": {"columns": {"c": {"stype": "numerical"}}}}
        cell = {"query": 'SELECT id, "b.c" FROM a', "anchor_table": "a", "anchor_key": "id", "target_column": "b.c",
                "target_stype": "numerical", "split": {"permille": [1000, 0, 0]}}
        cells = {}
        for dropped in ([], [["a.b", "c"]], [["a", "b.c"]]):
            self.assertIsNone(self.ingest(tables, {"t": {**cell, "drop_columns": dropped}})[0])
            batch = json.loads(self.weir("batch", "--store", "s.weir", "--manifest", "s.manifest.json", "--dataset",
                                         "s/t/train", "--json")[0])
            cells[json.dumps(dropped)] = sorted(sequence["num_cells"] for sequence in batch["sequences"])
        self.assertEqual(cells, {"[]": [3, 3, 3], '[["a.b", "c"]]': [3, 3, 3], '[["a", "b.c"]]': [1, 1, 1]})

    # ---- Foreign keys and queries

    def test_foreign_keys_that_are_wrong_are_refused(self):
        for key, words, needs_source in (
            ({"columns": "n"}, "foreign_keys[0].table is missing", False),
            ({"columns": [], "table": "lines"}, "foreign_keys[0].columns must be 1 to 32", False),
            ({"columns": ["n", "n"], "table": "lines"}, "foreign_keys[0].columns must be 1 to 32", False),
            ({"columns": "n", "table": "lines"}, "has 1 columns, but the primary key of lines has 2", False),
            ({"columns": "n", "table": "lines", "to": ["n", "price"]}, "as many different names", False),
            ({"columns": "n", "table": "nobody"}, "names a table that the schema does not have", False),
            ({"columns": "n", "table": "customers", "name": ""}, "name must not be empty", False),
            ({"columns": "invoice_id", "table": "customers"}, "invoice_id is the name of two foreign keys", False),
            ({"columns": "n", "table": "customers", "colour": 1}, "colour is not a key that a schema has", False),
            ({"columns": "nothing", "table": "customers"},
             "foreign key nothing names a column that the source's table does not have; it has invoice_id, n, ", True),
            ({"columns": "n", "table": "customers", "to": "nothing"},
             "foreign key n to customers.nothing names a column that the source's table does not have; it has customer_id", True),
            ({"columns": "n", "table": "invoices", "to": "customer_id"}, "has the value 3 twice", True),
        ):
            with self.subTest(key=key):
                tables = {**TABLES, "lines": {**TABLES["lines"], "foreign_keys": [key]}}
                failure, _, wrong = self.ingest(tables)
                self.assertIn("SCHEMA_INVALID", failure)
                self.assertIn(words, failure)
                self.assertEqual(wrong is None, needs_source)

    def test_queries_that_are_wrong_are_refused(self):
        for query, words in (
            ("SELECT invoice_id, invoice_id, n, price FROM lines", "two columns that are called invoice_id"),
            ("SELECT absent FROM lines", "no such column: absent"),
            ("DELETE FROM lines", "gives no columns"),
            ("SELECT 1; SELECT 2", "more than one statement"),
            ("", "the query is empty"),
            ("SELECT invoice_id, n, abs(-9223372036854775808) AS price FROM lines", "integer overflow"),
        ):
            with self.subTest(query=query):
                tables = {**TABLES, "lines": {**TABLES["lines"], "query": query}}
                failure, _, wrong = self.ingest(tables)
                self.assertIsNone(wrong)
                self.assertIn("SCHEMA_INVALID: the schema's $.tables.lines.query failed:", failure)
                self.assertIn(words, failure)

    def test_a_query_may_have_the_name_of_a_table(self):
        tables = {**TABLES, "lines": {**TABLES["lines"], "query": "SELECT n, invoice_id, price * 2 AS price FROM lines"}}
        self.assertIsNone(self.ingest(tables)[0])
        [price] = [column for column in self.info()["columns"] if column["name"] == "price"]
        self.assertEqual(price["mean"], 2 * 27 / 5)

    def test_a_table_may_be_cut_in_parts(self):
        """As one of more than 2^32 - 2 rows must be: rows and edges are those of the whole."""
        self.assertIsNone(self.ingest()[0])
        whole = self.info()
        parts = {"early": "at < '2024-01-05'", "late": "at >= '2024-01-05' OR at IS NULL"}
        tables = {name: {**TABLES["invoices"], "query": f"SELECT * FROM invoices WHERE {rows}"} for name, rows in parts.items()}
        tables["customers"] = TABLES["customers"]
        tables["lines"] = {"primary_key": ["invoice_id", "n"], "columns": {"price": {"stype": "numerical"}},
                           "foreign_keys": [{"columns": ["invoice_id"], "table": name, "name": name} for name in parts]}
        for number in ("1", "2"):
            (self.folder / "s.json").write_text(json.dumps({"name": "s", "tables": tables, "tasks": {}}))
            self.weir("ingest", "shop.sqlite", "--schema", "s.json", "-o", "s.weir", "--format", number)
            cut = self.info()
            self.assertEqual(cut["rows"], whole["rows"])
            self.assertEqual(sum(edge["edges"] for edge in cut["edges"]), sum(edge["edges"] for edge in whole["edges"]))
            self.assertEqual([[table["name"], table["rows"]] for table in cut["tables"]],
                             [["customers", 3], ["early", 1], ["late", 3], ["lines", 5]])  # fmt: skip
            lines = {edge["parent_table"]: edge["edges"] for edge in cut["edges"] if edge["table"] == "lines"}
            self.assertEqual(lines, {"early": 1, "late": 4})
            self.assertTrue(self.weir("verify", "s.weir")[1] is None)

    def test_schemas_are_for_other_databases(self):
        failure, _, wrong = self.ingest(search_path=["sales"])
        self.assertIsNone(wrong)
        self.assertIn("SCHEMA_INVALID: $.search_path is for PostgreSQL and DuckDB; SQLite has no schemas", failure)
        for path in (["a", "a"], [""], [1]):
            failure, _, wrong = self.ingest(search_path=path)
            self.assertIn("$.search_path must be", failure)
            self.assertEqual(failure, wrong)

    # ---- Keys

    def test_keys_lead_to_rows_and_back(self):
        self.assertIsNone(self.ingest(keys=True)[0])
        for table, key in (("customers", 3), ("lines", [2, 1]), ("invoices", 4)):
            found = json.loads(self.weir("info", "s.weir", "--key", table, json.dumps(key), "--json")[0])
            self.assertEqual((found["table"], found["key"]), (table, key))
            self.assertEqual(json.loads(self.weir("info", "s.weir", "--row", found["row"], "--json")[0]), found)
        self.assertIn("lines (2, 1): row", self.weir("info", "s.weir", "--key", "lines", "[2, 1]")[0])
        for table, key, words in (("lines", "5", "write it as a list"), ("nobody", "1", "no table nobody"),
                                  ("customers", "9", "no row with the key 9")):
            self.assertIn(words, self.weir("info", "s.weir", "--key", table, key)[1])
        self.assertIn("has no row 99", self.weir("info", "s.weir", "--row", "99")[1])
        self.assertIsNone(self.ingest({**TABLES, "lines": {**TABLES["lines"], "keys": False}}, keys=True)[0])
        self.assertIn("keeps no keys of lines", self.weir("info", "s.weir", "--key", "lines", "1")[1])

    def test_texts_of_digits_are_found_as_keys(self):
        self.database("CREATE TABLE t (k TEXT PRIMARY KEY); INSERT INTO t VALUES ('007'), ('8'), ('AA')")
        self.assertIsNone(self.ingest({"t": {"primary_key": "k", "columns": {}}}, keys=True)[0])
        for key in ("007", "8", "AA"):
            found = json.loads(self.weir("info", "s.weir", "--key", "t", key, "--json")[0])
            self.assertEqual(found["key"], key)

    # ---- Locations

    def test_locations_that_are_no_source_get_an_answer_that_fits(self):
        self.database("CREATE TABLE t (x)", "t.sqlite")
        self.assertIsNone(self.ingest()[0])
        for name, content in (("dump.sql", "CREATE TABLE t (x);"), ("dump", "-- MySQL dump 10.13"), ("pg.dump", "PGDMP\x01"),
                              ("one", "PAR1"), ("notes.txt", "hello there"), ("a.json", "{}"),
                              ("rows.csv.gz", "\x1f\x8b")):
            (self.folder / name).write_text(content, "latin-1")
        for location, words in (
            ("oracle://u:secret@h/d", "is a URL that weir does not know"),
            ("sqlite:///shop.sqlite", "give the path of the SQLite file alone"),
            ("missing.sqlite", "missing.sqlite cannot be opened: No such file or directory"),
            ("dump.sql", "is an SQL script; load it into a database first"),
            ("dump", "is an SQL script; load it into a database first"),
            ("pg.dump", "is a dump of PostgreSQL"),
            ("missing.csv", "missing.csv cannot be opened: No such file or directory"),
            ("rows.csv.gz", "rows.csv.gz is cut off or is not gzip"),
            ("one", "is a Parquet file; give it a name that ends in .parquet"),
            ("s.weir", "is a weir store already"),
            ("a.json", "is JSON; a schema is given with --schema"),
            ("notes.txt", "is not a source that weir reads; weir reads SQLite files, DuckDB files,"),
        ):
            with self.subTest(location=location):
                for command in (["schema", location], ["ingest", location, "-o", "x.weir"]):
                    _, failure, _ = self.weir(*command)
                    self.assertIn("SOURCE_ERROR: ", failure)
                    self.assertIn(words, failure)
                    self.assertNotIn("secret", failure)

    def test_a_database_without_tables_is_an_error(self):
        self.database("CREATE TABLE t (x); DROP TABLE t;")
        self.assertIn("has no tables", self.weir("ingest", "shop.sqlite", "-o", "x.weir")[1])
        self.database("CREATE VIEW v AS SELECT 1 AS x")
        self.assertIn("has no tables", self.weir("schema", "shop.sqlite")[1])
        self.assertIn("$.tables has no table", self.ingest(tables={})[0])


class Warehouse(unittest.TestCase):
    def test_the_stores_bytes_stay(self):
        """The hash of a store that uses every form: it changes only where a format does."""
        with tempfile.TemporaryDirectory() as folder:
            warehouse.write_sqlite(os.path.join(folder, "w.sqlite"))
            Path(folder, "w.json").write_text(warehouse.schema())
            done = subprocess.run([WEIR, "ingest", "w.sqlite", "--schema", "w.json", "-o", "w.weir", "--json"],
                                  cwd=folder, capture_output=True, check=True)
            self.assertEqual(json.loads(done.stdout)["store_hash"], WAREHOUSE_HASH)


WAREHOUSE_HASH = "c77c095b12f652f78e6bdafb7a5cfd993aaeba2c38be11370b44b6099115d47c"

if __name__ == "__main__":
    unittest.main()
