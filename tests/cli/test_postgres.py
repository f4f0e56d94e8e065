"""PostgreSQL as a source, against a real server: types, keys, parts, one snapshot, servers that can do less, and
failures."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from tests.support import shop, warehouse  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402
from tests.support.endless import check_signals  # noqa: E402
from tests.support.postgres import Server, find_binaries  # noqa: E402
from tests.support.processes import start  # noqa: E402
from tests.support.scan import ABSENT, DECLARED, SCAN, WEIR, comparable, ingest, lines, real, rows, rows_by_table, scan  # noqa: E402
from tests.support.servers import Proxy, SourceCase, free_port, wide_tables  # noqa: E402

BINARIES = find_binaries()
MICROS = 1000000

TYPES = r"""
CREATE DOMAIN cents AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN price AS cents;
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE "odd ""name" (
  id integer PRIMARY KEY, dropped text, b boolean, i2 smallint, i8 bigint, o oid, r real, d double precision,
  n numeric, n2 numeric(20, 2), t text, v varchar(9), c char(6), u uuid, j json, jb jsonb, da date, ts timestamp,
  tz timestamptz, by bytea, p price, m mood, ar integer[], ti time, iv interval, mo money, bi bit(3), ch "char");
ALTER TABLE "odd ""name" DROP COLUMN dropped;
INSERT INTO "odd ""name" VALUES
 (1, true, -32768, 9223372036854775807, 4294967295, 1.1, 0.1, 123.4500, 19.00, E'Krak\u00f3w', 'x', 'ab',
  'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', '{"a" :1}', '{"a" :1}', '2024-02-29', '2024-02-29 12:34:56.789012',
  '2024-02-29 12:34:56+05:30', '\x00ff10', 7, 'happy', '{1,NULL}', '12:34:56', '1 day 02:00', 12.34, B'101', 'q'),
 (2, false, 32767, -9223372036854775808, 0, '-infinity', 'nan', 'NaN', -0.01, '', '', '', NULL, NULL, NULL,
  '0001-01-01 BC', '0001-01-01', '1969-12-31 23:59:59.999999Z', '', 0, 'sad', '{}', '00:00', '0', 0, B'000', ''),
 (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (4, true, 1, 1, 1, 16777217, 1e-323, 9223372036854775807, 12345678901234567.89, 'a', 'a', 'a', NULL, NULL, NULL,
  '2000-01-01', '2000-01-01', '2000-01-01Z', '\x61', 1, 'sad', '{}', '00:00', '0', 0, B'000', 'z');
"""

# The row of TYPES whose id is 1, as every mode must give it.
FIRST = [["i", 1], ["b", 1], ["i", -32768], ["i", 9223372036854775807], ["i", 4294967295],
         ["r", float.fromhex("0x1.19999ap+0").hex()], ["r", (0.1).hex()], ["r", (123.45).hex()], ["i", 19],
         ["t", "Krak\u00f3w"], ["t", "x"], ["t", "ab"], ["t", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
         ["t", '{"a" :1}'], ["t", '{"a": 1}'], ["@", 1709164800 * MICROS], ["@", 1709210096 * MICROS + 789012],
         ["@", (1709210096 - 19800) * MICROS], ["x", "00ff10"], ["i", 7], ["t", "happy"], ["t", "{1,NULL}"],
         ["t", "12:34:56"], ["t", "1 day 02:00:00"], ["t", "$12.34"], ["t", "101"], ["t", "q"]]


@unittest.skipUnless("POSTGRES" in ABSENT, "this build has PostgreSQL")
class WithoutPostgres(unittest.TestCase):
    def test_message_says_so(self):
        done = scan("postgres://127.0.0.1/x", check=False)
        self.assertIn("SOURCE_ERROR: this weir was built without PostgreSQL", done.stderr.decode())


@unittest.skipIf("POSTGRES" in ABSENT, "this build has no PostgreSQL")
@unittest.skipUnless(BINARIES, "no PostgreSQL server here (Debian: postgresql); WEIR_POSTGRES_BIN can name its folder")
@unittest.skipUnless(SCAN and WEIR, "WEIR and WEIR_SCAN must name the programs weir and scan_source (ctest does)")
class Postgres(SourceCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(BINARIES)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.stop)
        cls.server.run("CREATE DATABASE types")
        cls.server.run(TYPES, "types")
        cls.server.run("CREATE DATABASE big")
        cls.server.run("""CREATE TABLE big (id bigint PRIMARY KEY, word text);
            INSERT INTO big SELECT i, repeat('word ', (i % 40)::int) FROM generate_series(1, 60000) i;
            DELETE FROM big WHERE id % 7 = 0;
            CREATE TABLE parts (id int, at date) PARTITION BY RANGE (at);
            CREATE TABLE parts_a PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-06-01');
            CREATE TABLE parts_b PARTITION OF parts FOR VALUES FROM ('2024-06-01') TO ('2025-01-01');
            INSERT INTO parts SELECT i, date '2024-01-01' + i % 300 FROM generate_series(1, 5000) i;
            CREATE TABLE empty ()""", "big")

    def assert_row(self, row, expected):
        self.assertEqual(comparable(row), comparable(expected))

    # ---- Schemas, views, queries

    def test_the_same_store_with_wide_keys_times_views_and_queries(self):
        self.server.run("CREATE DATABASE warehouse")
        self.server.run(";".join(warehouse.STATEMENTS), "warehouse")
        with tempfile.TemporaryDirectory() as folder:
            sqlite, schema = os.path.join(folder, "w.sqlite"), os.path.join(folder, "schema.json")
            warehouse.write_sqlite(sqlite)
            with open(schema, "w", encoding="utf-8") as file:
                file.write(warehouse.schema())
            expected = ingest(sqlite, folder, "expected", "--schema", schema)
            self.assertEqual(ingest(self.server.url("warehouse"), folder, "pg", "--schema", schema), expected)

    def test_an_anchor_key_that_is_another_key_is_refused(self):
        self.server.run("CREATE DATABASE anchors")
        self.server.run("""CREATE TABLE customers (id int PRIMARY KEY); INSERT INTO customers VALUES (1), (2);
            CREATE TABLE invoices (id int PRIMARY KEY, customer int REFERENCES customers, total float8);
            INSERT INTO invoices VALUES (1, 2, 5), (2, 2, 6)""", "anchors")
        tables = {"customers": {"primary_key": "id", "columns": {}},
                  "invoices": {"primary_key": "id", "columns": {"total": {"stype": "numerical"}}}}
        with tempfile.TemporaryDirectory() as folder:
            store, schema = os.path.join(folder, "s.weir"), os.path.join(folder, "schema.json")

            def failure(query, anchor):
                task = {"query": query, "anchor_table": anchor, "anchor_key": "k", "target_column": "y",
                        "target_stype": "numerical"}
                with open(schema, "w", encoding="utf-8") as file:
                    json.dump({"tables": tables, "tasks": {"t": task}}, file)
                return self.weir("ingest", self.server.url("anchors"), "--schema", schema, "-o", store)[1]

            for query, anchor, word in (("SELECT customer AS k, total AS y FROM invoices", "invoices", "is invoices.customer, not the primary key id of the anchor"),
                                        ("SELECT total AS y, i.id AS k, c.id AS k FROM invoices i JOIN customers c ON customer = c.id",
                                         "invoices", "2 columns that are called k"),
                                        ("SELECT i.id AS k, total AS y, i.*, c.* FROM invoices i JOIN customers c ON customer = c.id", "invoices", None),
                                        ("SELECT i.id AS k, 1 AS y FROM invoices i", "customers", None),
                                        ("SELECT customer AS k, total AS y FROM invoices", "customers", None),
                                        ("SELECT customer + 0 AS k, total AS y FROM invoices", "invoices", None),
                                        ("SELECT id AS k, total AS y FROM (SELECT * FROM invoices) t", "invoices", None)):
                with self.subTest(query=query, anchor=anchor):
                    if word is None:
                        self.assertIsNone(failure(query, anchor))
                    else:
                        self.assertIn(word, failure(query, anchor))

    def test_schemas_beyond_the_search_path(self):
        self.server.run("CREATE DATABASE elsewhere")
        self.server.run("""CREATE SCHEMA sales; CREATE SCHEMA "hr.eu";
            CREATE TABLE sales.orders (id int PRIMARY KEY, x float8); INSERT INTO sales.orders VALUES (1, 2), (2, 3);
            CREATE TABLE sales.lines (id int PRIMARY KEY, o int REFERENCES sales.orders, n int);
            INSERT INTO sales.lines VALUES (1, 1, 4);
            CREATE VIEW sales.some AS SELECT id, x FROM sales.orders WHERE id > 1;
            CREATE TABLE "hr.eu".orders (id int PRIMARY KEY)""", "elsewhere")
        url = self.server.url("elsewhere")
        with tempfile.TemporaryDirectory() as folder:
            store, schema = os.path.join(folder, "s.weir"), os.path.join(folder, "schema.json")
            for command in (["schema", url], ["ingest", url, "-o", store]):
                _, message = self.weir(*command)
                self.assertIn("no tables on its search path, but some in other schemas: sales, hr.eu", message)
            self.assertFalse(os.path.exists(store))
            _, message = self.weir("schema", url, "--pg-schema", "sales,nowhere")
            self.assertIn("no schema nowhere; schemas with tables: hr.eu, sales", message)
            draft, _ = self.weir("schema", url, "--pg-schema", "sales")
            self.assertEqual(draft["search_path"], ["sales"])
            self.assertEqual(sorted(draft["tables"]), ["lines", "orders"])
            self.assertEqual(draft["tables"]["lines"]["columns"]["o"]["foreign_key"], "orders.id")

            def ingested(document, *options):
                with open(schema, "w", encoding="utf-8") as file:
                    json.dump({**document, "name": "s"}, file)
                printed, message = self.weir("ingest", url, "--schema", schema, "-o", store, *options)
                return message or printed

            drafted = ingested(draft)
            self.assertEqual((drafted["tables"], drafted["rows"], drafted["edges"]), (2, 3, 1))
            del draft["search_path"]
            self.assertEqual(ingested(draft, "--pg-schema", "sales")["store_hash"], drafted["store_hash"])
            self.assertIn("$.tables.lines is not a table or view", ingested(draft))
            columns = {"columns": {"id": {"stype": "identifier"}}}
            full = ingested({"tables": {"sales.orders": columns, "hr.eu.orders": columns, "sales.some": columns}})
            self.assertEqual((full["tables"], full["rows"]), (3, 3))

    # ---- Values and keys

    def test_types(self):
        done = scan(self.server.url("types"))
        table = rows(done, 'odd "name')
        self.assertEqual(len(table), 4)
        self.assert_row(table[0], FIRST)
        self.assertEqual(table[2][1:], [["n"]] * 26)
        second, fourth = table[1], table[3]
        self.assertEqual(second[5], ["r", "-inf"])
        self.assertIn(second[6], (["r", "nan"], ["r", "-nan"]))
        self.assertIn(second[7], (["r", "nan"], ["r", "-nan"]))
        self.assertEqual(real(second[8][1]), -0.01)
        self.assertEqual(second[15], ["@", -719528 * 86400 * MICROS])
        self.assertEqual(second[17], ["@", -1])
        self.assertEqual(real(fourth[5][1]), 16777216.0)
        self.assertEqual(real(fourth[6][1]), 1e-323)
        self.assertEqual(fourth[7], ["i", 9223372036854775807])
        self.assertEqual(real(fourth[8][1]), 12345678901234567.89)

    def test_declared_types_and_order(self):
        catalog = lines(scan(self.server.url("types"), "--count"))[0]
        self.assertEqual(catalog["name"], "types")
        columns = {name: DECLARED[kind] for name, kind in catalog["tables"]['odd "name']["columns"]}
        self.assertEqual(list(columns)[:4], ["id", "b", "i2", "i8"])
        self.assertEqual([columns[c] for c in ("b", "i2", "r", "n", "t", "u", "da", "ts", "tz", "by", "p", "m", "ti")],
                         ["boolean", "integer", "real", "numeric", "text", "text", "time", "time", "time", "blob",
                          "integer", "enum", "text"])

    def test_keys(self):
        self.server.run("CREATE DATABASE keys")
        self.server.run("""CREATE TABLE a (gone int, y int, x text, PRIMARY KEY (x, y)); ALTER TABLE a DROP COLUMN gone;
            CREATE TABLE b (id int PRIMARY KEY, up int REFERENCES b, code text UNIQUE);
            CREATE TABLE c (z text, w int, b_code text REFERENCES b (code), b_id int REFERENCES b,
                            FOREIGN KEY (z, w) REFERENCES a (x, y));
            CREATE SCHEMA elsewhere; CREATE TABLE elsewhere.hidden (id int);
            CREATE VIEW seen AS SELECT * FROM b; CREATE MATERIALIZED VIEW kept AS SELECT * FROM b""", "keys")
        catalog = lines(scan(self.server.url("keys")))[0]["tables"]
        self.assertEqual(sorted(catalog), ["a", "b", "c", "kept"])
        self.assertEqual(catalog["a"]["primary_key"], ["x", "y"])
        self.assertEqual(catalog["b"], {"columns": [["id", 3], ["up", 3], ["code", 6]], "primary_key": ["id"],
                                        "foreign_keys": {"up": "b.id"}})
        self.assertEqual(catalog["c"]["foreign_keys"], {"z+w": "a.x+y", "b_code": "b.code", "b_id": "b.id"})
        self.assertEqual(lines(scan(self.server.url("keys")))[0]["hidden"], ["elsewhere.hidden", "seen"])
        other = self.server.url("keys", query="&options=-csearch_path%3Delsewhere")
        self.assertEqual(list(lines(scan(other))[0]["tables"]), ["hidden"])

    def test_queries(self):
        url = self.server.url("types")
        done = scan(url, "--query", """SELECT id AS "Anchor", id AS "Anchor", m, count(*) OVER () > 1 AS many, 'x' AS word,
            sum(i8) OVER (PARTITION BY id) AS total FROM "odd ""name" WHERE id = 4 ; -- the end""")
        self.assertEqual(lines(done)[1], ["Anchor", "Anchor", "m", "many", "word", "total"])
        wrapped = scan(url, "--query", """SELECT id AS "Anchor", id AS "Anchor", m, count(*) OVER () > 1 AS many,
            'x' AS word, sum(i8) OVER (PARTITION BY id) AS total FROM "odd ""name" WHERE id = 4 -- the end""")
        for each in (done, wrapped):
            self.assertEqual(rows(each, "query"),
                             [[["i", 4], ["i", 4], ["t", "sad"], ["b", 0], ["t", "x"], ["i", 1]]])

    # ---- Parts, snapshots, servers that can do less

    def test_parts_have_every_row_once(self):
        url = self.server.url("big")
        whole = rows_by_table(scan(url))
        self.assertEqual({table: len(found) for table, found in whole.items()}, {"big": 60000 - 60000 // 7, "parts": 5000})
        for sessions in ("2", "3", "7"):
            shared = scan(url, "--sessions", sessions)
            self.assertEqual(json.loads(shared.stdout.splitlines()[0])["sessions"], int(sessions))
            self.assertEqual(rows_by_table(shared), whole)
        counts = [line["rows"] for line in lines(scan(url, "--sessions", "2", "--count")) if line.get("of") == "big"]
        self.assertTrue(all(count > 10000 for count in counts), counts)

    def test_all_sessions_see_one_snapshot(self):
        """A writer changes every row all the time: the sessions' halves must still be of one moment."""
        self.server.run("CREATE DATABASE moving")
        self.server.run("CREATE TABLE m (id int, version int); INSERT INTO m SELECT i, 0 FROM generate_series(1, 20000) i",
                        "moving")
        writer = start([self.server.program("psql"), "-X", "-q", "-d", self.server.url("moving")],
                                  stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        try:
            writer.stdin.write(b"UPDATE m SET version = version + 1;\n" * 40)
            writer.stdin.flush()
            for _ in range(3):
                table = rows(scan(self.server.url("moving"), "--sessions", "4"), "m")
                self.assertEqual(len(table), 20000)
                self.assertEqual(len({tuple(row[1]) for row in table}), 1)
        finally:
            writer.stdin.close()
            writer.wait(120)

    def test_cursor_closed_early_leaves_the_session_usable(self):
        url = self.server.url("big")
        done = scan(url, "--stop-early", "--count")
        self.assertEqual([line["rows"] for line in lines(done) if line.get("of") == "big"], [60000 - 60000 // 7])

    def test_server_without_binary_copy(self):
        """The same values one by one as text; the years that ISO text cannot say are left out."""
        self.server.run("CREATE DATABASE plain TEMPLATE types")
        self.server.run("""DELETE FROM "odd ""name" WHERE id = 2""", "plain")
        expected = scan(self.server.url("plain"))
        with Proxy(self.server.port, {b"(FORMAT binary)": b"(FORMAT unknown"}) as proxy:
            done = scan(self.server.url("plain", port=proxy.port), "--sessions", "2")
            query = scan(self.server.url("plain", port=proxy.port), "--query", "SELECT i8, by FROM \"odd \"\"name\"")
        self.assertEqual(lines(done)[0]["sessions"], 2)
        for got, want in zip(rows(done, 'odd "name'), rows(expected, 'odd "name')):
            self.assert_row(got, want)
        self.assertEqual(len(rows(query, "query")), 3)

    def test_server_without_exported_snapshots(self):
        with Proxy(self.server.port, {b"pg_export_snapshot": b"pg_missing_functio"}) as proxy:
            done = scan(self.server.url("types", port=proxy.port), "--sessions", "4")
        self.assertEqual(lines(done)[0]["sessions"], 1)
        self.assert_row(rows(done, 'odd "name')[0], FIRST)

    def test_server_without_savepoints(self):
        with Proxy(self.server.port, {b"SAVEPOINT weir_probe": b"SAFEPOINT weir_probe"}) as proxy:
            done = scan(self.server.url("types", port=proxy.port))
        self.assert_row(rows(done, 'odd "name')[0], FIRST)

    def test_session_without_a_free_connection(self):
        """Fewer sessions, no error."""
        self.server.run("CREATE ROLE narrow LOGIN PASSWORD 's3cret-w0rd' CONNECTION LIMIT 2; "
                        "GRANT SELECT ON ALL TABLES IN SCHEMA public TO narrow", "big")
        done = scan(self.server.url("big", user="narrow"), "--sessions", "5", "--count")
        self.assertEqual(lines(done)[0]["sessions"], 2)

    def test_database_in_another_encoding(self):
        self.server.run("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
        self.server.run("CREATE TABLE l (t text); INSERT INTO l VALUES (U&'Krak\\00f6w')", "latin")
        self.assertEqual(rows(scan(self.server.url("latin")), "l"), [[["t", "Krak\u00f6w"]]])

    # ---- The same store as from SQLite

    def test_the_shop_gives_the_store_of_sqlite(self):
        """With a schema and with the draft of each, with any number of sessions, and from a server that can do less."""
        self.server.run("CREATE DATABASE shop")
        self.server.run(shop.for_postgres(), "shop")
        url = self.server.url("shop")
        with tempfile.TemporaryDirectory() as folder:
            sqlite, schema = os.path.join(folder, "shop.sqlite"), os.path.join(folder, "schema.json")
            shop.write_sqlite(sqlite)
            with open(schema, "w", encoding="utf-8") as file:
                file.write(shop.schema())
            for options in (["--schema", schema], []):
                expected = ingest(sqlite, folder, "expected", *options)
                for threads in ("1", "2", "5"):
                    self.assertTrue(expected == ingest(url, folder, "got", "--threads", threads, *options))
                with Proxy(self.server.port, {b"(FORMAT binary)": b"(FORMAT unknown"}) as proxy:
                    plain = self.server.url("shop", port=proxy.port)
                    self.assertTrue(expected == ingest(plain, folder, "got", *options))
            like = ["--like", os.path.join(folder, "expected.weir")]
            self.assertTrue(expected == ingest(url, folder, "got", *like))

    def test_a_shared_table_gives_the_store_of_sqlite(self):
        """Enough rows that a table is read in parts."""
        rows = "SELECT i AS id, i * 7919 % 100003 AS a, 'word ' || (i % 1000) AS w FROM "
        with tempfile.TemporaryDirectory() as folder:
            sqlite = os.path.join(folder, "many.sqlite")
            database = scratch_database(sqlite)
            database.executescript("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, w TEXT); INSERT INTO t WITH RECURSIVE "
                                   f"n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000) {rows} n")
            database.close()
            self.server.run("CREATE DATABASE many")
            self.server.run("CREATE TABLE t (id int PRIMARY KEY, a bigint, w varchar); "
                            f"INSERT INTO t {rows} generate_series(1, 200000) i; ANALYZE t", "many")
            expected = ingest(sqlite, folder, "expected")
            for threads in ("1", "4"):
                self.assertTrue(expected == ingest(self.server.url("many"), folder, "got", "--threads", threads))

    # ---- Failures

    def test_signals_inside_a_query(self):
        self.server.run("CREATE DATABASE endless")
        self.server.run("CREATE TABLE t (id int PRIMARY KEY, w real); INSERT INTO t VALUES (1, 0.5)", "endless")
        with tempfile.TemporaryDirectory() as folder:
            check_signals(self, self.server.url("endless"), folder, "SELECT 1 AS id, date '2024-01-01' AS at, 2 AS y "
                          "FROM pg_sleep(1000)")

    def test_every_allocation_fails_once(self):
        self.server.run("CREATE DATABASE wide")
        self.server.run(wide_tables(), "wide")
        for database in ("types", "wide"):
            self.assertGreater(int(scan(self.server.url(database), "--sweep").stdout), 50)

    def test_refused_urls(self):
        self.assert_fails("postgresql://u:" + self.server.password + "@[::1/x", "URL")
        self.assert_fails("postgres://127.0.0.1/x?no_such_option=1&password=" + self.server.password, "no_such_option")
        self.assert_fails(self.server.url("nowhere"), 'database "nowhere" does not exist')
        self.assert_fails(self.server.url("types", password="wrong-" + self.server.password[:4]), "password")
        self.assert_fails(self.server.url("types", port=free_port()), "cannot connect")

    def test_connection_dropped_while_reading(self):
        for cut in (60000, 300000):
            with Proxy(self.server.port, cut_after=cut) as proxy:
                self.assert_fails(self.server.url("big", port=proxy.port), "table big", "server closed the connection")

    def test_times_that_do_not_fit(self):
        self.server.run("CREATE DATABASE times")
        for kind, value in (("date", "infinity"), ("timestamp", "-infinity"), ("timestamptz", "infinity")):
            self.server.run(f"DROP TABLE IF EXISTS e; CREATE TABLE e (id int, w {kind}); "
                            f"INSERT INTO e VALUES (1, '{value}')", "times")
            self.assert_fails(self.server.url("times"), "column w of table e", "infinite")
        for kind, value in (("date", "5874897-12-31"), ("timestamp", "294276-12-31 23:59:59.999999")):
            self.server.run(f"DROP TABLE IF EXISTS e; CREATE TABLE e (id int, w {kind}); "
                            f"INSERT INTO e VALUES (1, '{value}')", "times")
            self.assert_fails(self.server.url("times"), "column w of table e", "beyond")

    def test_queries_that_fail(self):
        url = self.server.url("types")
        self.assert_fails(url, "syntax error", options=("--query", "SELEC 1"))
        self.assert_fails(url, "division by zero",
                          options=("--query", "SELECT 1 / (i - 5000) FROM generate_series(1, 9000) i"))
        self.server.run("CREATE SEQUENCE numbers", "types")
        self.assert_fails(url, "read-only transaction", options=("--query", "SELECT nextval('numbers')"))
        self.assert_fails(url, "data-modifying",
                          options=("--query", "WITH gone AS (DELETE FROM \"odd \"\"name\" RETURNING id) SELECT 1"))
        self.assert_fails(url, "no columns", options=("--query", "CREATE TABLE t (i int)"))
        self.server.run("CREATE ROLE stranger LOGIN PASSWORD 's3cret-w0rd'")
        self.assert_fails(self.server.url("types", user="stranger"), "permission denied")

    def test_invalid_utf8(self):
        """An SQL_ASCII database may hold any bytes."""
        self.server.run("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
        self.server.run("SET client_encoding = 'SQL_ASCII'; CREATE TABLE s (t text); INSERT INTO s VALUES (E'a\\xff')",
                        "ascii")
        self.assert_fails(self.server.url("ascii"), "table s", "invalid byte sequence")


if __name__ == "__main__":
    unittest.main()
