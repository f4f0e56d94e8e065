"""CSV files as a source: which files are tables, what is said of those that are not, queries, and one store for the
same rows in SQLite."""

import csv
import gzip
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", ".."))

from tests.support import shop  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402
from tests.support.endless import check_signals  # noqa: E402
from tests.support.scan import ingest, lines, rows, scan  # noqa: E402


class Base(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = self.scratch.name
        self.addCleanup(self.scratch.cleanup)

    def path(self, name=""):
        return os.path.join(self.folder, name)

    def write(self, name, data):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        return self.path(name)

    def tables(self, location):
        return {name: [column for column, _ in table["columns"]]
                for name, table in lines(scan(location))[0]["tables"].items()}

    def assert_fails(self, location, *words):
        done = scan(location, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        for word in words:
            self.assertIn(word, done.stderr.decode())


class Files(Base):
    def test_one_file(self):
        path = self.write("orders.CSV", "id,total\n1,2.5\n")
        self.assertEqual(self.tables(path), {"orders": ["id", "total"]})
        self.assertEqual(lines(scan(path))[0]["name"], "orders")

    def test_folder(self):
        self.write("db/a.csv", "x\n1\n")
        self.write("db/b.tsv", "x\ty,z\n1\t2\n")
        self.write("db/c.csv.gz", gzip.compress(b"p;q\n1;2\n"))
        self.write("db/.hidden.csv", "x\n")
        self.write("db/_SUCCESS", "")
        self.write("db/notes.txt", "no table")
        self.assertEqual(self.tables(self.path("db")), {"a": ["x"], "b": ["x", "y,z"], "c": ["p", "q"]})
        self.assertEqual(lines(scan(self.path("db")))[0]["skipped"], [self.path("db/notes.txt")])

    def test_pattern(self):
        for name in ("y2013.csv", "y2014.csv", "other.csv"):
            self.write("db/" + name, "x\n1\n")
        self.assertEqual(set(self.tables(self.path("db/y*.csv"))), {"y2013", "y2014"})
        self.assert_fails(self.path("d*/y2013.csv"), "last name of a path")
        self.assert_fails(self.path("db/z*.csv"), "no .parquet, .csv or .tsv file")
        self.write("db/odd[1].csv", "x\n1\n")
        self.assertEqual(set(self.tables(self.path("db/odd[1].csv"))), {"odd[1]"})
        self.assertEqual([lines(scan(self.path(name)))[0]["name"] for name in ("db/odd[1].csv", "db/y*.csv")], ["odd[1]", "db"])

    def test_folders_whose_values_are_coded(self):
        """Bytes as %XX, in either case; what is not such a byte stands for itself, and so does an end of the text."""
        coded = {"S%C3%A3o": "S\u00e3o", "%c3%a9": "\u00e9", "a%2Fb": "a/b", "%zz": "%zz", "%4": "%4", "%4g": "%4g", "100%": "100%",
                 "%00": "%00", "=x": "=x"}
        for name in coded:
            self.write(f"db/t/city={name}/a.csv", "id\n1\n")
        found = [row[1] for row in rows(scan(self.path("db")), "t")]
        self.assertEqual(sorted(found), sorted(["t", value] for value in coded.values()))

    def test_folders_that_are_no_table(self):
        self.write("deep/" + "".join(f"k{i}=1/" for i in range(20)) + "a.csv", "id\n1\n")
        self.assert_fails(self.path("deep"), "nested too deep")
        self.write("both/t/x=1/a.csv", "id\n1\n")
        self.write("both/t/x=1/notes.txt", "no table")
        self.write("both/t/x=2/b.parquet", "PAR1")
        self.assert_fails(self.path("both"), "table t has both CSV and Parquet files")
        self.assert_fails("/" + "a" * 5000 + "/x*.csv", "is too long")

    def test_folders_with_values(self):
        self.write("db/orders/year=2013/month=1/a.csv", "id,total\n1,5\n")
        self.write("db/orders/year=2013/month=2/a.csv", "total,id\n6,2\n")
        self.write("db/orders/year=2014/month=__HIVE_DEFAULT_PARTITION__/b.csv", "id,total\n3,7\n")
        self.write("db/shops.csv", "id\n1\n")
        self.write("db/notes/=5/a.csv", "id\n1\n")  # a value of no column
        done = scan(self.path("db"))
        self.assertEqual(self.tables(self.path("db")), {"orders": ["id", "total", "year", "month"], "shops": ["id"], "notes": ["id"]})
        self.assertEqual(rows(done, "orders"), [[["i", 1], ["i", 5], ["i", 2013], ["i", 1]],
                                                [["i", 2], ["i", 6], ["i", 2013], ["i", 2]],
                                                [["i", 3], ["i", 7], ["i", 2014], ["n"]]])
        self.assertEqual(rows(scan(self.path("db"), "--sessions", "3"), "orders"), rows(done, "orders"))
        self.assertEqual(self.tables(self.path("db/orders")), {"orders": ["id", "total", "year", "month"]})

    def test_refusals(self):
        self.write("twice/a.csv", "x\n1\n")
        self.write("twice/a.tsv", "x\n1\n")
        self.assert_fails(self.path("twice"), "both be table a")
        self.write("parts/t/a.csv", "x,y\n1,2\n")
        self.write("parts/t/b.csv", "x,z\n1,2\n")
        self.assert_fails(self.path("parts"), "parts of table t but have other columns")
        self.write("keys/t/k=1/a.csv", "x\n1\n")
        self.write("keys/t/b.csv", "x\n1\n")
        self.assert_fails(self.path("keys"), "folders name other columns")
        self.assert_fails(self.write("ragged.csv", "a,b\n1,2\n1,2,3\n"), "ragged.csv, line 3: 3 fields", "--delimiter")
        self.assert_fails(self.write("open.csv", 'a,b\n1,"2\n'), "open.csv, line 2", "does not end")
        self.assert_fails(self.write("wide.csv", "a\n1\n".encode("utf-16")), "UTF-16", "iconv")
        self.assert_fails(self.write("empty.csv", "\n\n"), "is empty")
        self.assert_fails(self.write("cut.csv.gz", gzip.compress(b"a\n1\n" * 1000)[:30]), "gzip -t")

    def test_every_allocation_fails_once(self):
        self.write("db/t/k=1/a.csv.gz", gzip.compress(b'a,b\n1,"2"\n3,x\n'))
        self.write("db/u.tsv", "a\tb\n1\t2\n")
        self.assertGreater(int(scan(self.path("db"), "--sweep").stdout), 20)


class Content(Base):
    def test_nulls_that_numbers_prove(self):
        self.write("db/a.csv", "id,delay,note\n1,NA,fine\n2,5,NA\n3,\\N,-\n")
        self.write("db/b.csv", "id,name\n1,NA\n2,-\n")
        done = scan(self.path("db"))
        self.assertEqual(rows(done, "a"), [[["i", 1], ["n"], ["t", "fine"]], [["i", 2], ["i", 5], ["n"]],
                                           [["i", 3], ["n"], ["t", "-"]]])
        self.assertEqual(rows(done, "b"), [[["i", 1], ["n"]], [["i", 2], ["t", "-"]]])

    def test_records_larger_than_the_buffer(self):
        long = "x" * 700_000
        self.write("a.csv", f'id,text\n1,"{long}\n""{long}"\n2,y\n' * 1)
        self.assertEqual(rows(scan(self.path("a.csv")), "a"),
                         [[["i", 1], ["t", f'{long}\n"{long}']], [["i", 2], ["t", "y"]]])

    def test_queries(self):
        self.write("db/orders.csv", "order_id,customer,total\n1,7,2.5\n2,7,3.5\n3,8,1\n")
        self.write("db/customers.csv", "id,name\n7,Ada\n8,Bo\n")
        done = scan(self.path("db"), "--query", "SELECT name, sum(total) AS s FROM orders JOIN customers ON id = customer "
                                                "GROUP BY name ORDER BY name; -- all", "--sessions", "2")
        self.assertEqual(lines(done)[1], ["name", "s"])
        self.assertEqual([[v[0] for v in row] for row in rows(done, "query")], [["t", "r"], ["t", "r"]])
        for sql, word in (("SELECT x FROM orders", "no such column"), ("DROP TABLE orders", "not authorized"),
                          ("SELECT 1; SELECT 2", "more than one statement")):
            failed = scan(self.path("db"), "--query", sql, check=False)
            self.assertEqual(failed.returncode, 1)
            self.assertIn(word, failed.stderr.decode())


class Signals(Base):
    def test_signals_end_a_query(self):
        check_signals(self, self.write("db/t.csv", "id,w\n1,0.5\n"), self.folder,
                      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                      "SELECT i AS id, '2024-01-01' AS at, i AS y FROM n WHERE i < 0")


class Stores(Base):
    def test_the_shop_gives_the_store_of_sqlite(self):
        """With any number of threads; blobs, which text cannot hold, are left out."""
        schema = json.loads(shop.schema())
        shop.write_sqlite(self.path("shop.sqlite"))
        os.mkdir(self.path("csv"))
        for table, (columns, cells) in shop.load().items():
            kept = [i for i, (_, kind) in enumerate(columns) if kind != "blob"]
            with open(self.path(f"csv/{table}.csv"), "w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([columns[i][0] for i in kept])
                writer.writerows([["" if row[i] is None else row[i] for i in kept] for row in cells])
            for name, kind in columns:
                if kind == "blob":
                    schema["tables"].get(table, {"columns": {}})["columns"].pop(name, None)
        # A code that looks like a number is one here, and an empty text is null.
        with scratch_database(self.path("shop.sqlite")) as database:
            for table, (columns, _) in shop.load().items():
                for name, kind in columns:
                    if kind == "text":
                        database.execute(f"UPDATE {shop.name_of(table)} SET {shop.name_of(name)} = NULL "
                                         f"WHERE {shop.name_of(name)} = ''")
        database.close()
        self.write("schema.json", json.dumps(schema))
        options = ["--schema", self.path("schema.json")]
        expected = ingest(self.path("shop.sqlite"), self.folder, "expected", *options)
        for threads in ("1", "2", "5"):
            got = ingest(self.path("csv"), self.folder, "got", "--threads", threads, *options)
            self.assertTrue(expected == got, threads)


if __name__ == "__main__":
    unittest.main()
