"""Growing data: rows that ingest keeps beside the store, and an ingest that reads only what is new. The store is always that
of a full ingest, or it is refused."""

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from reference import row_runs  # noqa: E402
from tests.support import duckdb, mariadb, postgres  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402
from tests.support.scan import ABSENT  # noqa: E402

PROGRAM = os.environ["WEIR"]

SCHEMA = {
    "name": "shop",
    "tables": {
        "customers": {
            "primary_key": "id",
            "columns": {"id": {"stype": "identifier"}, "city": {"stype": "categorical"}, "age": {"stype": "numerical"}},
        },
        "orders": {
            "primary_key": "id",
            "temporal_column": "at",
            "columns": {
                "id": {"stype": "identifier"},
                "customer": {"stype": "identifier", "foreign_key": "customers.id"},
                "at": {"stype": "timestamp"},
                "total": {"stype": "numerical"},
                "note": {"stype": "text"},
            },
        },
        "visits": {
            "temporal_column": "at",
            "columns": {"at": {"stype": "timestamp", "unit": "s"}, "page": {"stype": "categorical"}},
        },
    },
    "tasks": {
        "large": {
            "query": "SELECT id, total > 50 AS large, at FROM orders",
            "anchor_table": "orders", "anchor_key": "id", "target_column": "large", "target_stype": "boolean",
            "observation_time_column": "at",
        }
    },
    "embedding": {"provider": "hash_v1", "dim": 8},
}  # fmt: skip


def order(number, day):
    """Order `number` of a day, with what a row can hold."""
    note = [None, "", "späť", "it's \"here\"", "x" * 300][number % 5]
    return (number, number % 7, f"2024-01-{day:02} {number % 24:02}:00:00", (number * 37 % 200) / 2 or None, note)


class Shop:
    """A database that grows by a day at a time. Its rows do not come in the order of their keys."""

    def __init__(self, folder):
        self.path = folder / "shop.sqlite"
        self.db = scratch_database(self.path)
        self.db.executescript(
            "CREATE TABLE customers (id INTEGER PRIMARY KEY, city TEXT, age);"
            "CREATE TABLE orders (at TEXT, id INTEGER, customer INTEGER, total REAL, note TEXT, PRIMARY KEY (id));"
            "CREATE TABLE visits (at INTEGER, page TEXT, other BLOB);"
        )
        self.db.executemany("INSERT INTO customers VALUES (?, ?, ?)", [(i, "Ulm" if i % 2 else "Bern", i) for i in range(7)])
        self.day = 0
        self.grow()

    def grow(self, count=40):
        self.day += 1
        numbers = range(self.day * 1000 + count - 1, self.day * 1000 - 1, -1)
        rows = [order(number, self.day) for number in numbers]
        self.db.executemany("INSERT INTO orders (id, customer, at, total, note) VALUES (?, ?, ?, ?, ?)", rows)
        self.db.executemany("INSERT INTO visits VALUES (?, ?, x'00ff')",
                            [(1704067200 + 86400 * self.day + n // 3, f"page{n % 4}") for n in range(count)])
        self.db.commit()


def write_csv(shop, folder):
    folder.mkdir(exist_ok=True)
    for name in SCHEMA["tables"]:
        cursor = shop.db.execute(f"SELECT * FROM {name}")
        with open(folder / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([column[0] for column in cursor.description])
            writer.writerows(cursor)


class WithShop(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.schema = self.folder / "schema.json"
        self.schema.write_text(json.dumps(SCHEMA))
        self.shop = Shop(self.folder)
        self.addCleanup(self.shop.db.close)

    def run_weir(self, command, source, out, *options, variables=None):
        arguments = [PROGRAM, command, source, "--schema", self.schema, "-o", self.folder / out, "--json", *options]
        return subprocess.run([str(a) for a in arguments], capture_output=True, text=True,
                              env={**os.environ, **(variables or {})})

    def ingest(self, out, *options, source=None, command="ingest"):
        result = self.run_weir(command, source or self.shop.path, out, *options)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return json.loads(result.stdout)

    def refuse(self, pattern, out, *options, source=None, code="SOURCE_ERROR"):
        result = self.run_weir("ingest", source or self.shop.path, out, *options)
        self.assertEqual(result.returncode, 1, result.stdout)
        error = json.loads(result.stdout)["error"]
        self.assertRegex(error["message"], pattern)
        self.assertEqual(error["code_id"], code)

    def listed(self, out):
        """The files that the list of kept rows names, table by table; all are there, and no others."""
        folder = self.folder / f"{out}.rows"
        tables = json.loads((folder / "row-runs.json").read_text())["tables"]
        files = {name: [file["path"] for file in table["files"]] for name, table in tables.items()}
        there = {path.name for path in folder.iterdir()}
        self.assertEqual(there, {path for names in files.values() for path in names} | {"row-runs.json"})
        return files


class Kept(WithShop):
    def test_the_store_can_be_made_again(self):
        whole = self.ingest("whole.weir")
        self.assertEqual(whole["kept_bytes"], 0)
        self.assertFalse((self.folder / "whole.weir.rows").exists())
        kept = self.ingest("kept.weir", "--keep-rows")
        again = self.ingest("again.weir", source=self.folder / "kept.weir.rows", command="assemble")
        self.assertEqual(whole["store_hash"], kept["store_hash"])
        self.assertEqual(whole["store_hash"], again["store_hash"])
        folder = self.folder / "kept.weir.rows"
        self.assertEqual(kept["kept_bytes"], sum(path.stat().st_size for path in folder.glob("*.rows")))
        self.listed("kept.weir")

    def test_of_format_2(self):
        """Rows that were kept have no numbers: they serve both formats."""
        two = ("--format", 2)
        kept = self.ingest("kept.weir", "--keep-rows", *two)
        again = self.ingest("again.weir", *two, source=self.folder / "kept.weir.rows", command="assemble")
        self.assertEqual(kept["store_hash"], again["store_hash"])
        self.shop.grow()
        grown = self.ingest("grown.weir", "--base", self.folder / "kept.weir", *two)
        self.assertEqual(grown["store_hash"], self.ingest("whole.weir", *two)["store_hash"])
        self.assertNotEqual(grown["store_hash"], self.ingest("one.weir", "--base", self.folder / "kept.weir")["store_hash"])

    def test_what_the_list_says(self):
        report = self.ingest("kept.weir", "--keep-rows")
        folder = self.folder / "kept.weir.rows"
        document = json.loads((folder / "row-runs.json").read_text())
        self.assertEqual(document["store"], report["store_hash"])
        self.assertEqual(document["name"], "shop")
        self.assertNotIn("latest", document["tables"]["customers"])
        self.assertEqual(document["tables"]["orders"]["latest"], {"column": "at", "value": "2024-01-01 23:00:00"})
        self.assertEqual(document["tables"]["visits"]["latest"]["value"], 1704067200 + 86400 + 39 // 3)
        _, tables, _ = row_runs.read_folder(folder)
        rows = [tuple(row) for row in tables["orders"][1]]
        names = [name for name, _ in tables["orders"][0].columns]
        self.assertEqual(names, ["at", "id", "customer", "total", "note"])
        wanted = self.shop.db.execute("SELECT at, id, customer, total, note FROM orders").fetchall()
        self.assertEqual(sorted(rows, key=repr), sorted(wanted, key=repr))
        self.assertEqual([name for name, _ in tables["visits"][0].columns], ["at", "page"], "what is not read is not kept")

    def test_of_csv_files_and_several_threads(self):
        source = self.folder / "files"
        write_csv(self.shop, source)
        kept = self.ingest("kept.weir", "--keep-rows", "--threads", 3, source=source)
        again = self.ingest("again.weir", source=self.folder / "kept.weir.rows", command="assemble")
        self.assertEqual(kept["store_hash"], again["store_hash"])

    def test_a_table_with_a_query(self):
        schema = json.loads(self.schema.read_text())
        schema["tables"]["orders"]["query"] = "SELECT * FROM orders WHERE total IS NOT NULL"
        self.schema.write_text(json.dumps(schema))
        kept = self.ingest("kept.weir", "--keep-rows")
        (self.folder / "kept.weir.rows" / "row-runs.json").read_text().index("WHERE total IS NOT NULL")
        del schema["tasks"]  # it is of the table orders, which is not kept as such
        self.schema.write_text(json.dumps(schema))
        whole = self.ingest("whole.weir")
        again = self.ingest("again.weir", source=self.folder / "kept.weir.rows", command="assemble")
        self.assertEqual(whole["store_hash"], again["store_hash"])
        self.assertNotEqual(whole["store_hash"], kept["store_hash"])

    def test_the_next_ingest_replaces_them(self):
        self.ingest("kept.weir", "--keep-rows")
        first = self.listed("kept.weir")
        left = self.folder / "kept.weir.rows" / "orders-0123456789abcdef.rows"
        left.write_text("what a kill left")
        mine = self.folder / "kept.weir.rows" / "mine.txt"
        mine.write_text("no row")
        self.shop.grow()
        kept = self.ingest("kept.weir", "--keep-rows")
        self.assertFalse(left.exists())
        self.assertTrue(mine.exists())
        mine.unlink()
        self.assertFalse(set(first["orders"]) & set(self.listed("kept.weir")["orders"]))
        again = self.ingest("again.weir", source=self.folder / "kept.weir.rows", command="assemble")
        self.assertEqual(kept["store_hash"], again["store_hash"])

    def test_a_failure_leaves_the_old_ones(self):
        self.ingest("kept.weir", "--keep-rows")
        before = self.listed("kept.weir")
        self.shop.db.execute("INSERT INTO orders (id, total) VALUES (5, 'much')")
        self.shop.db.commit()
        self.refuse("table orders, column total", "kept.weir", "--keep-rows", code="SCHEMA_INVALID")
        self.assertEqual(self.listed("kept.weir"), before)
        self.shop.db.execute("UPDATE orders SET total = 1, note = CAST(x'ff' AS TEXT) WHERE id = 5")
        self.shop.db.commit()
        self.refuse("column note, key 5: .*not UTF-8", "kept.weir", "--keep-rows")
        self.assertEqual(self.listed("kept.weir"), before)

    def test_what_is_not_replaced(self):
        self.ingest("kept.weir", "--keep-rows")
        rows = self.folder / "kept.weir.rows"
        self.refuse("is the source; rows cannot be kept there", "kept.weir", "--keep-rows", source=rows,
                    code="CONTRACT_VIOLATION")
        document = json.loads((rows / "row-runs.json").read_text())
        del document["store"]
        (rows / "row-runs.json").write_text(json.dumps(document))
        self.refuse("has runs of rows that ingest did not keep", "kept.weir", "--keep-rows", code="CONTRACT_VIOLATION")
        self.listed("kept.weir")
        (self.folder / "other.weir.rows").write_text("a file")
        self.refuse("other.weir.rows", "other.weir", "--keep-rows", code="IO_ERROR")

    def test_lists_that_are_wrong(self):
        self.ingest("kept.weir", "--keep-rows")
        rows = self.folder / "kept.weir.rows"
        document = json.loads((rows / "row-runs.json").read_text())
        for latest in ({"column": "at", "value": 1.5}, {"column": "no", "value": 1}, {"column": "at"}, 7,
                       {"column": "at", "value": "x" * 1001}, {"column": "at", "value": [1, 2]}):
            document["tables"]["orders"]["latest"] = latest
            (rows / "row-runs.json").write_text(json.dumps(document))
            self.refuse("latest", "again.weir", source=rows)
            with self.assertRaises(row_runs.WeirError):
                row_runs.read_folder(rows)
        del document["tables"]["orders"]["latest"]
        document["store"] = "12"
        (rows / "row-runs.json").write_text(json.dumps(document))
        self.refuse("store must be a hash", "again.weir", source=rows)

    def kill_everywhere(self, out, options, check):
        """Kills before every call that changes a file, and calls `check`; returns how many there were."""
        if not os.environ.get("WEIR_CRASH_LIBRARY"):
            self.skipTest("not with sanitizers")
        at, status = 0, None
        while status != 0:
            at += 2  # every second: each is two runs
            variables = {"LD_PRELOAD": os.environ["WEIR_CRASH_LIBRARY"], "WEIR_CRASH_AT": str(at)}
            status = self.run_weir("ingest", self.shop.path, out, *options, variables=variables).returncode
            self.assertIn(status, (0, -signal.SIGKILL))
            check()
        return at

    def test_killed_at_every_step(self):
        """What is listed is always whole, and the next ingest removes the rest."""
        self.shop.db.execute("DELETE FROM visits")
        self.shop.db.commit()
        first = self.ingest("kept.weir", "--keep-rows")
        self.shop.db.execute("UPDATE orders SET total = 3 WHERE id = 1003")
        self.shop.db.commit()
        rows = self.folder / "kept.weir.rows"
        hashes = set()

        def check():
            again = self.ingest("again.weir", source=rows, command="assemble")
            hashes.add(again["store_hash"])

        self.assertGreater(self.kill_everywhere("kept.weir", ["--keep-rows"], check), 30)
        self.assertEqual(len(hashes), 2)
        self.assertIn(first["store_hash"], hashes)
        self.listed("kept.weir")


class Based(WithShop):
    """Days in a row: each ingest has the store of the day before as its base."""

    def setUp(self):
        super().setUp()
        self.ingest("day.weir", "--keep-rows")

    def check(self, out="day.weir", *options, source=None):
        """Ingests from the base and in full; returns how the tables were read."""
        based = self.ingest(out, "--base", self.folder / "day.weir", "--keep-rows", *options, source=source)
        whole = self.ingest("whole.weir", source=source)
        self.assertEqual(based["store_hash"], whole["store_hash"])
        self.listed(out)
        return {table.pop("table"): table for table in based["base"]}

    def execute(self, sql, *values):
        self.shop.db.execute(sql, values)
        self.shop.db.commit()

    def test_days_in_a_row(self):
        rows = 40
        for _ in range(4):
            before = self.listed("day.weir")
            self.shop.grow()
            told = self.check()
            self.assertEqual(told["customers"], {"how": "whole", "reused": 0, "read": 7, "new": 7})
            self.assertEqual((told["orders"]["reused"], told["orders"]["new"]), (rows, 40))
            self.assertEqual(told["orders"]["how"], "from the cut")
            self.assertLess(told["orders"]["read"], 50)
            self.assertEqual((told["visits"]["reused"], told["visits"]["new"]), (rows, 40))
            self.assertLessEqual(set(before["orders"]), set(self.listed("day.weir")["orders"]))
            rows += 40

    def test_nothing_new(self):
        told = self.check()
        self.assertEqual(told["orders"]["new"], 0)
        self.check()

    def test_into_another_store(self):
        """Files are shared by links; the base stays what it was."""
        self.shop.grow()
        before = self.listed("day.weir")
        self.check("next.weir")
        self.assertEqual(self.listed("day.weir"), before)
        name = before["orders"][0]
        self.assertIn(name, self.listed("next.weir")["orders"])
        self.assertEqual(os.stat(self.folder / "day.weir.rows" / name).st_nlink, 2)
        self.check("next.weir")

    def test_rows_of_the_latest_instant_come_later(self):
        self.execute("INSERT INTO orders (id, at, total) VALUES (1, '2024-01-01 23:00:00', 5)")
        self.execute("INSERT INTO visits SELECT at, page, other FROM visits WHERE at = (SELECT max(at) FROM visits)")
        told = self.check()
        self.assertEqual((told["orders"]["new"], told["visits"]["new"]), (1, 1))

    def test_times_whose_text_has_another_order(self):
        """As texts, 31.01.2024 comes after 01.02.2024."""
        schema = {**SCHEMA, "tables": {**SCHEMA["tables"], "days": {
            "primary_key": "id", "temporal_column": "at", "columns": {"at": {"stype": "timestamp", "format": "%d.%m.%Y"}}}}}
        self.schema.write_text(json.dumps(schema))
        self.shop.db.execute("CREATE TABLE days (id INTEGER PRIMARY KEY, at TEXT)")
        self.shop.db.executemany("INSERT INTO days VALUES (?, ?)", [(i, f"{i:02}.01.2024") for i in range(1, 32)])
        self.shop.db.commit()
        self.ingest("day.weir", "--keep-rows")
        tables = json.loads((self.folder / "day.weir.rows/row-runs.json").read_text())["tables"]
        self.assertIn("latest", tables["orders"])
        self.assertNotIn("latest", tables["days"])
        self.execute("INSERT INTO days VALUES (32, '01.02.2024')")
        self.assertEqual(self.check()["days"], {"how": "whole", "reused": 0, "read": 32, "new": 32})

    def test_rows_without_a_time(self):
        self.execute("INSERT INTO orders (id) VALUES (2)")
        self.refuse("table orders has changed .*: before 2024-01-01 23:00:00 it has 39 rows, and had 38: rows came late",
                    "day.weir", "--base", self.folder / "day.weir")
        self.ingest("day.weir", "--keep-rows")
        self.shop.grow()
        self.check()

    def test_what_changed(self):
        base = ["--base", self.folder / "day.weir"]
        store, rows = (self.folder / "day.weir").read_bytes(), self.listed("day.weir")
        self.execute("DELETE FROM orders WHERE id = 1001")
        self.refuse("table orders has changed since .*day.weir was made: before .* it has 37 rows, and had 38: rows were "
                    "deleted", "day.weir", *base)
        self.execute("INSERT INTO orders (id, at) VALUES (7, '2023-01-01')")  # as many came late: only a full check sees it
        self.ingest("other.weir", *base)
        self.refuse("table orders has changed .*: 1 of its 40 rows was deleted or changed", "day.weir", *base,
                    "--base-check", "full")
        self.execute("DELETE FROM orders WHERE at = '2024-01-01 23:00:00'")
        self.refuse("table orders has changed .*: 2 of its 40 rows, of time 2024-01-01 23:00:00 were deleted or changed",
                    "day.weir", *base)
        self.assertEqual((self.folder / "day.weir").read_bytes(), store)
        self.assertEqual(self.listed("day.weir"), rows)

    def test_a_full_check_takes_late_rows_in(self):
        self.shop.grow()
        self.execute("INSERT INTO orders (id, at) VALUES (7, '2023-01-01'), (8, NULL)")
        told = self.check("day.weir", "--base-check", "full")
        self.assertEqual(told["orders"], {"how": "compared", "reused": 40, "read": 82, "new": 42})

    def test_a_row_that_is_changed_in_place_needs_a_full_check(self):
        self.execute("UPDATE orders SET note = 'other' WHERE id = 1003")
        self.ingest("other.weir", "--base", self.folder / "day.weir")
        self.refuse("1 of its 40 rows was deleted or changed", "other.weir", "--base", self.folder / "day.weir",
                    "--base-check", "full")

    def test_rows_after_a_cut_are_read_again(self):
        """Changed, deleted, late: whatever became of them. Times are text, and integers with a unit."""
        self.shop.grow()
        self.shop.grow()
        self.check()
        self.execute("UPDATE orders SET total = 99 WHERE id = 2003")
        self.execute("DELETE FROM orders WHERE id IN (2004, 3005)")
        self.execute("INSERT INTO orders (id, at, total) VALUES (9, '2024-01-02 00:00:00', 1), (10, '2024-01-02', 2)")
        self.execute("UPDATE visits SET page = 'other' WHERE at = 1704067200 + 86400 * 2")
        self.execute("DELETE FROM visits WHERE at = 1704067200 + 86400 * 3 + 5")
        self.refuse("has changed", "x.weir", "--base", self.folder / "day.weir")
        told = self.check("next.weir", "--base-cut", "2024-01-03")
        self.assertEqual(told["orders"], {"how": "from the cut", "reused": 40, "read": 80, "new": 80})
        self.assertEqual(told["visits"], {"how": "from the cut", "reused": 40, "read": 77, "new": 77})
        told = self.check("next.weir", "--base-cut", "2024-01-03T00:00:00Z", "--base-check", "full")
        self.assertEqual(told["orders"], {"how": "compared", "reused": 40, "read": 120, "new": 80})
        self.refuse("table orders has changed .*: before 2024-01-03 it has 81 rows, and had 80: rows came late",
                    "x.weir", "--base", self.folder / "day.weir", "--base-cut", "2024-01-04 12:00:00")
        self.refuse("table orders has changed .*: 2 of its 120 rows were deleted or changed", "x.weir", "--base",
                    self.folder / "day.weir", "--base-cut", "2024-01-04", "--base-check", "full")

    def test_a_cut_and_texts_with_an_offset(self):
        """In the west it is the day before still."""
        self.execute("UPDATE orders SET at = '2024-01-01T23:30:00-05:00' WHERE id = 1003")
        self.shop.grow()
        self.ingest("day.weir", "--keep-rows")
        self.execute("UPDATE orders SET total = 99 WHERE id = 1003")
        self.check("next.weir", "--base-cut", "2024-01-02T04:30:00Z")

    def test_a_cut_and_times_of_two_kinds(self):
        """A number is before every text, and so before the cut, whatever it says."""
        self.execute("UPDATE visits SET at = '2024-01-02 00:00:09' WHERE at > 1704067200 + 86400 + 8")
        self.ingest("day.weir", "--keep-rows")
        self.execute("UPDATE visits SET page = 'other' WHERE at = 1704067200 + 86400")
        for options in ([], ["--base-check", "full"]):
            self.refuse("table visits has times that are texts and times that are numbers", "x.weir", "--base",
                        self.folder / "day.weir", "--base-cut", "2024-01-02", *options)

    def test_what_was_kept_after_a_cut(self):
        self.shop.grow()
        self.execute("UPDATE orders SET total = 99 WHERE at > '2024-01-01 12'")
        self.check("day.weir", "--base-cut", "2024-01-01")  # of a table nothing is left
        self.shop.grow()
        told = self.check()
        self.assertEqual((told["orders"]["reused"], told["orders"]["new"]), (80, 40))

    def test_a_cut_within_a_unit(self):
        """Half a second after a whole one is the next."""
        second = 1704067200 + 86400
        for cut, reused in ((f"2024-01-02T00:00:0{n}{half}", 3 * n + 3 * bool(half)) for n in (0, 4) for half in ("", ".5Z")):
            told = self.check("next.weir", "--base-cut", cut)
            self.assertEqual((told["visits"]["reused"], told["visits"]["read"]), (reused, 40 - reused), cut)
        self.execute("DELETE FROM visits WHERE at = ?", second + 4)
        self.check("next.weir", "--base-cut", "2024-01-02T00:00:04Z")
        self.refuse("table visits has changed", "x.weir", "--base", self.folder / "day.weir", "--base-cut", "2024-01-02T00:00:05Z")

    def test_cuts_of_every_unit(self):
        """A cut is a number of the column's unit; beyond what it can say, all is before the cut, or nothing is."""
        schema = json.loads(self.schema.read_text())
        self.execute("UPDATE visits SET at = at - 1704067200 - 86400")
        for unit, parts in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
            schema["tables"]["visits"]["columns"]["at"]["unit"] = unit
            self.schema.write_text(json.dumps(schema))
            self.execute("UPDATE visits SET at = at * ?", parts)
            self.ingest("day.weir", "--keep-rows")
            self.execute("UPDATE visits SET page = page || '!' WHERE at >= 4 * ?", parts)
            cuts = ("1970-01-01T00:00:04Z", 12), ("1970-01-01T00:00:03.5Z", 12), ("1600-01-01", 0)
            for cut, reused in cuts:
                told = self.check("next.weir", "--base-cut", cut)
                self.assertEqual((told["visits"]["reused"], told["visits"]["read"]), (reused, 40 - reused), (unit, cut))
            self.refuse("table visits has changed", "x.weir", "--base", self.folder / "day.weir", "--base-cut", "2600-01-01",
                        "--base-check", "full")
            self.execute("UPDATE visits SET at = at / ?", parts)

    def test_a_cut_after_the_base(self):
        """Rows between the two are in no base: they are read."""
        self.shop.grow()
        told = self.check("next.weir", "--base-cut", "2024-06-01")
        self.assertEqual((told["orders"]["reused"], told["orders"]["new"]), (40, 40))
        self.assertEqual((told["visits"]["reused"], told["visits"]["new"]), (40, 40))

    def test_cuts_that_are_none(self):
        for cut in ("", "yesterday", "2024-13-01", "1704067200"):
            self.refuse("which is no time; write it as", "x.weir", "--base", self.folder / "day.weir", "--base-cut", cut,
                        code="CONTRACT_VIOLATION")
        result = self.run_weir("ingest", self.shop.path, "x.weir", "--base-cut", "2024-01-01")
        self.assertEqual(result.returncode, 2)

    def test_another_schema(self):
        schema = json.loads(self.schema.read_text())
        del schema["tables"]["orders"]["columns"]["note"]
        schema["tables"]["orders"]["columns"]["total"]["stype"] = "categorical"
        self.schema.write_text(json.dumps(schema))
        self.shop.grow()
        self.check()  # fewer columns, other types: the rows are kept again
        self.shop.grow()
        self.check()
        base = ["--base", self.folder / "day.weir"]
        schema["tables"]["orders"]["columns"]["note"] = {"stype": "text"}
        self.schema.write_text(json.dumps(schema))
        self.refuse("table orders, column note is read now, but .*day.weir did not keep it", "day.weir", *base)
        del schema["tables"]["orders"]["columns"]["note"]
        self.schema.write_text(json.dumps(schema))
        self.shop.db.executescript(
            "CREATE TABLE o (at TEXT, id INTEGER PRIMARY KEY, customer INTEGER, total TEXT, note TEXT);"
            "INSERT INTO o SELECT * FROM orders; DROP TABLE orders; ALTER TABLE o RENAME TO orders")
        self.refuse("table orders, column total is declared text now, and was real", "day.weir", *base)

    def test_no_base(self):
        base = ["--base", self.folder / "day.weir"]
        self.ingest("day.weir", "--no-embeddings")
        self.refuse("day.weir.rows was not kept with .*day.weir as it is now", "x.weir", *base)
        self.ingest("plain.weir")
        self.refuse("plain.weir is no base: its rows are not there", "x.weir", "--base", self.folder / "plain.weir")
        self.refuse("cannot open .*x.weir", "x.weir", "--base", self.folder / "x.weir", code="IO_ERROR")
        result = self.run_weir("ingest", self.shop.path, "x.weir", "--base-check", "full")
        self.assertEqual(result.returncode, 2)

    def test_damaged_rows(self):
        name = self.listed("day.weir")["orders"][0]
        path = self.folder / "day.weir.rows" / name
        whole = path.read_bytes()
        for at in (len(whole) // 2, len(whole) - 50):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            self.refuse(name, "x.weir", "--base", self.folder / "day.weir")
        path.write_bytes(whole[:-1])
        self.refuse(name, "x.weir", "--base", self.folder / "day.weir")
        path.unlink()
        self.refuse(name, "x.weir", "--base", self.folder / "day.weir", code="IO_ERROR")

    def test_a_list_that_lies_of_the_latest(self):
        path = self.folder / "day.weir.rows" / "row-runs.json"
        document = json.loads(path.read_text())
        document["tables"]["orders"]["latest"]["value"] = "2024-01-01 05:00:00"
        path.write_text(json.dumps(document))
        self.refuse("go further than their list says", "x.weir", "--base", self.folder / "day.weir")

    def test_csv_files_are_read_whole(self):
        source = self.folder / "files"
        write_csv(self.shop, source)
        self.ingest("day.weir", "--keep-rows", source=source)
        self.shop.grow()
        write_csv(self.shop, source)
        told = self.check(source=source)
        self.assertEqual(told["orders"], {"how": "whole", "reused": 0, "read": 80, "new": 80})


class OnServers(WithShop):
    """The source itself selects by time: columns with types of time, and of integers."""

    TABLES = (
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, city TEXT, age INTEGER);"
        "CREATE TABLE orders ({at} {time}, id INTEGER PRIMARY KEY, customer INTEGER, total DOUBLE PRECISION, note TEXT);"
        "CREATE TABLE visits ({at} INTEGER, page TEXT);"
    )

    def rows(self, low, high, at):
        """Statements that add the rows of some days of the shop."""
        written = []
        for table, columns in (("customers", "id, city, age"), ("orders", f"id, customer, {at}, total, note"), ("visits", f"{at}, page")):
            where = {"customers": "0", "orders": "id / 1000", "visits": "(at - 1704067200) / 86400"}[table]
            for row in self.shop.db.execute(f"SELECT {columns} FROM {table} WHERE {where} BETWEEN {low} AND {high}"):
                values = ", ".join("NULL" if v is None else "'" + v.replace("'", "''") + "'" if isinstance(v, str) else repr(v) for v in row)
                written.append(f"INSERT INTO {table} ({columns}) VALUES ({values});")
        return "".join(written)

    def days(self, run, url, time, at="at"):
        schema = json.loads(self.schema.read_text())
        schema["tasks"]["large"]["query"] = f"SELECT id, total > 50 AS large, {at} FROM orders"
        self.schema.write_text(json.dumps(schema))
        self.shop.grow()
        self.shop.grow()
        run(self.TABLES.format(time=time, at=at) + self.rows(0, 1, at))
        self.ingest("day.weir", "--keep-rows", source=url)
        run(self.rows(2, 3, at))
        based = self.ingest("day.weir", "--base", self.folder / "day.weir", source=url)
        self.assertEqual(based["store_hash"], self.ingest("whole.weir", source=url)["store_hash"])
        told = {table.pop("table"): table for table in based["base"]}
        for table in ("orders", "visits"):
            self.assertEqual((told[table]["how"], told[table]["reused"], told[table]["new"]), ("from the cut", 40, 80))
            self.assertLess(told[table]["read"], 90)
        self.ingest("day.weir", "--keep-rows", source=url)
        run("UPDATE orders SET total = 99 WHERE id = 3003; DELETE FROM orders WHERE id = 2003;")
        based = self.ingest("next.weir", "--base", self.folder / "day.weir", "--base-cut", "2024-01-02", source=url)
        self.assertEqual(based["store_hash"], self.ingest("whole.weir", source=url)["store_hash"])
        told = {table.pop("table"): table for table in based["base"]}
        self.assertEqual(told["orders"], {"how": "from the cut", "reused": 40, "read": 79, "new": 79})
        self.assertEqual(told["visits"], {"how": "from the cut", "reused": 0, "read": 120, "new": 120})
        run("DELETE FROM orders WHERE id = 1003;")
        for options in ([], ["--base-cut", "2024-01-02"]):
            self.refuse("rows", "day.weir", "--base", self.folder / "day.weir", *options, source=url)

    @unittest.skipIf("POSTGRES" in ABSENT, "this build has no PostgreSQL")
    @unittest.skipUnless(postgres.find_binaries(), "no PostgreSQL server here (Debian: postgresql)")
    def test_postgresql(self):
        with postgres.Server(postgres.find_binaries()) as server:
            self.days(server.run, server.url(), "TIMESTAMP")

    @unittest.skipUnless(mariadb.find_programs(), "no MariaDB server here (Debian: mariadb-server-core, mariadb-client-core)")
    def test_mariadb(self):
        with mariadb.Server(mariadb.find_programs()) as server:
            server.run("CREATE DATABASE shop CHARACTER SET utf8mb4;")
            self.days(lambda sql: server.run(sql, "shop"), server.url("shop"), "DATETIME")

    @unittest.skipUnless(duckdb.library_path(), "no DuckDB library here (WEIR_DUCKDB, or pip's duckdb)")
    def test_duckdb(self):
        path = self.folder / "shop.duckdb"

        def run(sql):
            with duckdb.DuckDB(str(path)) as database:
                database.run(sql)

        self.days(run, path, "TIMESTAMP", '"at"')


if __name__ == "__main__":
    unittest.main()
