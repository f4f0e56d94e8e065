"""DuckDB as a source: its files, folders of Parquet and CSV, types, parts and failures. Runs if there is a
DuckDB library (WEIR_DUCKDB, or pip's duckdb); what weir says without it, or when it fails, is tested everywhere."""
import ctypes.util
import glob
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from tests.support import shop, warehouse  # noqa: E402
from tests.support.duckdb import DuckDB, library_path  # noqa: E402
from tests.support.endless import check_signals  # noqa: E402
from tests.support.processes import start  # noqa: E402
from tests.support.scan import DECLARED, SCAN, WEIR, comparable, ingest, lines, real, rows, scan  # noqa: E402

MICROS = 1000000
FAKE = os.environ.get("WEIR_FAKE_DUCKDB")

TYPES = """CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE "odd ""name" (id INTEGER PRIMARY KEY, b BOOLEAN, i1 TINYINT, i2 SMALLINT, i8 BIGINT, u1 UTINYINT,
  u2 USMALLINT, u4 UINTEGER, u8 UBIGINT, h HUGEINT, uh UHUGEINT, f FLOAT, d DOUBLE, c4 DECIMAL(4, 2), c9 DECIMAL(9, 2),
  c18 DECIMAL(18, 3), c38 DECIMAL(38, 10), t VARCHAR, x BLOB, da DATE, ts TIMESTAMP, s TIMESTAMP_S, ms TIMESTAMP_MS,
  ns TIMESTAMP_NS, u UUID, m mood, l INTEGER[], st STRUCT(a INTEGER), ti TIME, iv INTERVAL, bi BIT);
INSERT INTO "odd ""name" VALUES
 (1, true, -128, -32768, 9223372036854775807, 255, 65535, 4294967295, 18446744073709551615, -1, 7, 0.1, 0.1, 19.00,
  -0.01, 123456789012345.678, 1234567890123456789012345678.5, 'a longer text than fits', '\\x00\\xFF'::BLOB, '2024-02-29',
  '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56', '2024-02-29 12:34:56.789', '1969-12-31 23:59:59.999999999',
  'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'happy', [1, NULL], {'a': 7}, '12:34:56', INTERVAL 1 DAY, '101'),
 (2, false, 1, 1, 1, 1, 1, 1, 9223372036854775807, 170141183460469231731687303715884105727, 9223372036854775808,
  'inf', 'nan', 0, 0, 0, 0, 'twelve bytes', '', '0001-01-01 (BC)', '0001-01-01', '1960-01-01', '1960-01-01',
  '1960-01-01', NULL, 'sad', [], NULL, NULL, NULL, NULL);
INSERT INTO "odd ""name" (id) VALUES (3);"""

FIRST = [["i", 1], ["b", 1], ["i", -128], ["i", -32768], ["i", 9223372036854775807], ["i", 255], ["i", 65535],
         ["i", 4294967295], ["r", (2.0 ** 64).hex()], ["i", -1], ["i", 7], ["r", "0x1.99999ap-4"], ["r", (0.1).hex()],
         ["i", 19], ["r", (-0.01).hex()], ["r", (123456789012345.678).hex()],
         ["r", (1234567890123456789012345678.5).hex()], ["t", "a longer text than fits"], ["x", "00ff"],
         ["@", 1709164800 * MICROS], ["@", 1709210096 * MICROS + 789012], ["@", 1709210096 * MICROS],
         ["@", 1709210096 * MICROS + 789000], ["@", -1], ["t", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"], ["t", "happy"],
         ["t", "[1, NULL]"], ["t", "{'a': 7}"], ["t", "12:34:56"], ["t", "1 day"], ["t", "101"]]


class Base(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def assert_fails(self, location, *words, options=(), env=None):
        done = scan(location, *options, check=False, env=env)
        message = done.stderr.decode()
        self.assertEqual(done.returncode, 1, message)
        self.assertTrue(message.startswith("weir: SOURCE_ERROR: "), message)
        for word in words:
            self.assertIn(word, message)


@unittest.skipUnless(SCAN, "WEIR_SCAN must name the program scan_source (ctest does)")
class WithoutTheLibrary(Base):
    def test_message_says_how_to_get_it(self):
        """Also where another library has the name."""
        env = dict(os.environ, WEIR_DUCKDB=self.path("missing.so"))
        self.write("a.parquet", "")
        self.assert_fails(self.folder, "DuckDB", "missing.so", "https://duckdb.org", "WEIR_DUCKDB", env=env)
        self.assert_fails(self.path("x.duckdb"), "https://duckdb.org", env=env)
        self.assert_fails(self.folder, "lacks the function", env=dict(os.environ, WEIR_DUCKDB="libc.so.6"))


@unittest.skipUnless(SCAN and FAKE, "WEIR_SCAN and WEIR_FAKE_DUCKDB must name what was built (ctest does)")
class Finding(Base):
    """Where a library is looked for, and which is refused. The one that is found fails, in its own words."""

    def setUp(self):
        super().setUp()
        places = ("/usr/local/lib/libduckdb.so", "/usr/lib/libduckdb.so", "/opt/duckdb/libduckdb.so")
        if any(map(os.path.exists, places)) or ctypes.util.find_library("duckdb") or \
                glob.glob("/usr/local/lib/python3*/*-packages/*duckdb*"):
            self.skipTest("a DuckDB is installed for the whole machine")

    def assert_found(self, place, **changes):
        os.makedirs(os.path.dirname(self.path(place)), exist_ok=True)
        shutil.copy(FAKE, self.path(place))
        self.assert_told("the disk is gone", **changes)
        os.remove(self.path(place))

    def assert_told(self, *words, **changes):
        env = {key: value for key, value in os.environ.items() if key not in ("WEIR_DUCKDB", "VIRTUAL_ENV", "HOME")}
        self.assert_fails(self.path("x.duckdb"), *words, env={**env, "FAKE_DUCKDB": "wrapped", **changes})

    def test_usual_places(self):
        self.assert_found("home/.local/lib/libduckdb.so", HOME=self.path("home"))
        self.assert_found("libduckdb.so", LD_LIBRARY_PATH=self.folder)

    def test_packages_of_pip(self):
        end = f".cpython-311-{platform.machine()}-linux-gnu.so"
        for folder in ("site-packages", "dist-packages"):
            for module in ("_duckdb", "duckdb/duckdb"):
                place = f"lib/python3.11/{folder}/{module}{end}"
                self.assert_found("env/" + place, VIRTUAL_ENV=self.path("env"), HOME="")
                self.assert_found("home/.local/" + place, HOME=self.path("home"))

    def test_none(self):
        none = "in none of the usual places"
        self.assert_told(none)
        self.assert_told(none, HOME="/" + "h" * 5000, VIRTUAL_ENV="/" + "v" * 5000)
        self.write("_duckdb.cpython-311-x86_64-linux-gnu.so", "not a library, with and without Python's own")
        self.assert_told("cannot be loaded", WEIR_DUCKDB=self.path("_duckdb.cpython-311-x86_64-linux-gnu.so"))
        self.assert_told("cannot be loaded", WEIR_DUCKDB=self.path("_duckdb.cpython-399-x86_64-linux-gnu.so"))
        self.assert_told("cannot be loaded", WEIR_DUCKDB=self.path("_duckdb.cpython-3.so"))

    def test_versions(self):
        for version in ("v1.1.3", "v0.9", "v3.0.0", "2.0", ""):
            self.assert_told(f"has version {version}", "1.2 or later", WEIR_DUCKDB=FAKE, FAKE_DUCKDB_VERSION=version)
        for version in ("v1.2.0", "v1.12.1-dev7", "v2.5.0"):
            self.assert_told("the disk is gone", WEIR_DUCKDB=FAKE, FAKE_DUCKDB_VERSION=version)

    def test_a_library_that_does_nothing(self):
        self.assert_told("cannot configure DuckDB: DuckDB gave no reason", WEIR_DUCKDB=FAKE, FAKE_DUCKDB="no config")
        self.assert_told("DuckDB gave no reason", WEIR_DUCKDB=FAKE, FAKE_DUCKDB="no connection")


@unittest.skipUnless(SCAN and FAKE, "WEIR_SCAN and WEIR_FAKE_DUCKDB must name what was built (ctest does)")
class LittleMemory(Base):
    def test_every_allocation_fails_once(self):
        """Also those in the midst of a catalog, whose tables and columns then have no names."""
        env = dict(os.environ, WEIR_DUCKDB=FAKE, FAKE_DUCKDB="wide")
        self.assertGreater(int(scan(self.path("x.duckdb"), "--sweep", env=env).stdout), 20)


@unittest.skipUnless(SCAN and WEIR and FAKE, "WEIR, WEIR_SCAN and WEIR_FAKE_DUCKDB must name what was built (ctest does)")
class FirstError(Base):
    """The error that is told is the one that came first, whichever of them DuckDB gives."""

    def told(self, mode):
        done = scan(self.path("x.duckdb"), check=False, env=dict(os.environ, WEIR_DUCKDB=FAKE, FAKE_DUCKDB=mode))
        self.assertEqual(done.returncode, 1)
        return done.stderr.decode().split(": ", 3)[3].strip()

    def test_an_interrupt_hides_the_reason(self):
        self.assertEqual(self.told("interrupt"), "IO Error: the disk is gone")

    def test_an_interrupt_without_a_reason(self):
        self.assertEqual(self.told("interrupts"), "INTERRUPT Error: Interrupted!")
        self.assertEqual(self.told("succeeds"), "INTERRUPT Error: Interrupted!")

    def test_a_reason_inside_another(self):
        self.assertEqual(self.told("wrapped"), "IO Error: the disk is gone")

    def test_what_the_user_interrupts_is_not_run_again(self):
        env = dict(os.environ, WEIR_DUCKDB=FAKE, FAKE_DUCKDB="waits")
        command = [WEIR, "ingest", self.path("x.duckdb"), "--threads", "1", "--output", self.path("x.weir")]
        with start(command, env=env, stderr=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stderr.readline(), "execution\n")
            process.send_signal(signal.SIGINT)
            told = process.stderr.read()
        self.assertEqual(process.returncode, 128 + signal.SIGINT)
        self.assertTrue(told.startswith("weir: CANCELLED: "), told)
        self.assertNotIn("execution", told)


@unittest.skipUnless(library_path(), "no DuckDB here (pip install duckdb, or WEIR_DUCKDB): make check-ecosystem tests it")
@unittest.skipUnless(SCAN and WEIR, "WEIR and WEIR_SCAN must name the programs weir and scan_source (ctest does)")
class WithTheLibrary(Base):
    def make(self, name, *statements):
        with DuckDB(self.path(name)) as database:
            for each in statements:
                database.run(each)
        return self.path(name)

    def test_types(self):
        done = scan(self.make("types.db", TYPES))
        table = rows(done, 'odd "name')
        self.assertEqual(comparable(table[0]), comparable(FIRST))
        self.assertEqual(table[2], [["i", 3]] + [["n"]] * 30)
        second = table[1]
        self.assertEqual(second[8], ["i", 9223372036854775807])
        self.assertEqual([real(second[9][1]), real(second[10][1]), real(second[11][1])],
                         [2.0 ** 127, 2.0 ** 63, float("inf")])
        self.assertEqual(second[13:17], [["i", 0]] * 4)
        self.assertEqual(second[17:20], [["t", "twelve bytes"], ["x", ""], ["@", -719528 * 86400 * MICROS]])
        catalog = lines(done)[0]
        self.assertEqual(catalog["name"], "types")
        declared = {name: DECLARED[kind] for name, kind in catalog["tables"]['odd "name']["columns"]}
        self.assertEqual([declared[c] for c in ("b", "i1", "u8", "h", "f", "c9", "t", "x", "da", "ns", "u", "ti")],
                         ["boolean", "integer", "integer", "numeric", "real", "numeric", "text", "blob", "time", "time",
                          "text", "text"])

    def test_the_same_store_with_wide_keys_times_views_and_queries(self):
        warehouse.write_sqlite(self.path("w.sqlite"))
        self.write("schema.json", warehouse.schema())
        self.make("w.duckdb", *warehouse.STATEMENTS)
        options = ("--schema", self.path("schema.json"))
        expected = ingest(self.path("w.sqlite"), self.folder, "expected", *options)
        self.assertEqual(ingest(self.path("w.duckdb"), self.folder, "duck", *options), expected)

    def test_schemas_beyond_the_search_path(self):
        path = self.make("s.duckdb", "CREATE SCHEMA sales", "CREATE TABLE sales.orders (id INTEGER PRIMARY KEY)",
                         "CREATE TABLE sales.lines (id INTEGER PRIMARY KEY, o INTEGER REFERENCES sales.orders (id))",
                         "INSERT INTO sales.orders VALUES (1), (2)", "INSERT INTO sales.lines VALUES (1, 2)",
                         "CREATE VIEW sales.some AS SELECT * FROM sales.orders WHERE id > 1")

        def weir(*arguments):
            done = subprocess.run([WEIR, *arguments, "--json"], check=False, capture_output=True)
            return json.loads(done.stdout)

        self.assertIn("but some in other schemas: sales", weir("schema", path)["error"]["message"])
        draft = weir("schema", path, "--pg-schema", "sales")
        self.assertEqual(draft["search_path"], ["sales"])
        self.assertEqual(draft["tables"]["lines"]["columns"]["o"]["foreign_key"], "orders.id")
        for document, expected in (
            (draft, {"tables": 2, "rows": 3, "edges": 1}),
            ({"tables": {name: {"columns": {}} for name in ("sales.orders", "sales.some")}}, {"tables": 2, "rows": 3}),
        ):
            self.write("schema.json", json.dumps(document))
            said = weir("ingest", path, "--schema", self.path("schema.json"), "-o", self.path("s.weir"))
            self.assertEqual({key: said.get(key) for key in expected}, expected, said)
        self.assertIn("nowhere", weir("schema", path, "--pg-schema", "nowhere")["error"]["message"])

    def test_keys(self):
        path = self.make("keys.duckdb", "CREATE TABLE a (y INTEGER, x VARCHAR, PRIMARY KEY (x, y))",
                         "CREATE TABLE b (id INTEGER PRIMARY KEY, code VARCHAR UNIQUE)",
                         "CREATE TABLE c (z VARCHAR, w INTEGER, b_code VARCHAR REFERENCES b (code), b_id INTEGER "
                         "REFERENCES b (id), FOREIGN KEY (z, w) REFERENCES a (x, y))",
                         "CREATE SCHEMA elsewhere", "CREATE TABLE elsewhere.hidden (id INTEGER)",
                         "CREATE VIEW seen AS SELECT * FROM b")
        catalog = lines(scan(path))[0]["tables"]
        self.assertEqual(sorted(catalog), ["a", "b", "c"])
        self.assertEqual(sorted(lines(scan(path))[0]["hidden"]), ["elsewhere.hidden", "seen"])
        self.assertEqual(catalog["a"]["primary_key"], ["x", "y"])
        self.assertEqual(catalog["c"]["foreign_keys"], {"z+w": "a.x+y", "b_code": "b.code", "b_id": "b.id"})

    def test_parts_have_every_row_once(self):
        path = self.make("big.duckdb", "CREATE TABLE big AS SELECT i AS id, 'word ' || i AS w FROM range(150000) t(i)",
                         "DELETE FROM big WHERE id % 7 = 0")
        whole = rows(scan(path), "big")
        self.assertEqual(len(whole), 150000 - 21429)
        for sessions in ("3",):
            done = scan(path, "--sessions", sessions)
            self.assertEqual(lines(done)[0]["sessions"], int(sessions))
            self.assertEqual(rows(done, "big"), whole)
        self.assertEqual(lines(scan(path, "--stop-early", "--count"))[1]["rows"], len(whole))

    def test_queries(self):
        path = self.make("types.duckdb", TYPES)
        done = scan(path, "--query", """SELECT id AS "Anchor", id AS "Anchor", m, sum(i8) OVER () > 1 AS many, NULL AS n
            FROM "odd ""name" WHERE id = 2; -- the end""")
        self.assertEqual(lines(done)[1], ["Anchor", "Anchor", "m", "many", "n"])
        self.assertEqual(rows(done, "query"), [[["i", 2], ["i", 2], ["t", "sad"], ["b", 0], ["n"]]])
        self.assert_fails(path, "syntax error", options=("--query", "SELEC 1"))
        self.assert_fails(path, "only a SELECT", options=("--query", "DROP TABLE \"odd \"\"name\""))
        self.assert_fails(path, "Could not convert", options=(
            "--query", "SELECT CAST(CASE i WHEN 400000 THEN 'x' ELSE '1' END AS INTEGER) FROM range(500000) t(i)"))
        self.assert_fails(path, "infinite", "column d",
                          options=("--query", "SELECT DATE 'infinity' AS d"))
        self.assert_fails(path, "beyond", options=("--query", "SELECT DATE '5000000-01-01' AS d"))

    def test_folder_of_files(self):
        """Names that patterns and quotes could trip over; types from the whole content; no keys."""
        os.mkdir(self.path("da[t]a*"))
        self.write("da[t]a*/it's.csv", "it's;\"x \"\"y\"\n1;'q'\n2;\n")
        self.write("da[t]a*/late.csv", "id,word\n" + "".join(f"{i},{i}\n" for i in range(30000)) + "30000,not a number\n")
        self.write("da[t]a*/notes.txt", "no table")
        self.make("x.duckdb", f"COPY (SELECT 1 AS k, TIMESTAMP '2024-01-01' AS at) TO '{self.path('da[t]a*/p.parquet')}'")
        done = scan(self.path("da[t]a*/"))
        catalog = lines(done)[0]
        self.assertEqual(catalog["name"], "da[t]a*")
        self.assertEqual({name: [c[0] for c in table["columns"]] for name, table in catalog["tables"].items()},
                         {"it's": ["it's", 'x "y'], "late": ["id", "word"], "p": ["k", "at"]})
        self.assertEqual(rows(done, "it's"), [[["i", 1], ["t", "'q'"]], [["i", 2], ["n"]]])
        self.assertEqual(rows(done, "p"), [[["i", 1], ["@", 1704067200 * MICROS]]])
        self.assertEqual(len(rows(done, "late")), 30001)
        self.assertIn([["i", 30000], ["t", "not a number"]], rows(done, "late"))
        self.assertEqual(len(rows(scan(self.path("da[t]a*"), "--sessions", "3"), "late")), 30001)

    def test_progress_knows_the_rows(self):
        """Of Parquet files from their ends, of CSV files beside them from looking at them."""
        os.mkdir(self.path("files"))
        self.make("x.duckdb", *(f"COPY (SELECT i AS id FROM range({count}) t(i)) TO '{self.path('files')}/t{count}.parquet'"
                                for count in (100000, 7)))  # fmt: skip
        self.write("files/c.csv", "id\n" + "".join(f"{i}\n" for i in range(30)))
        catalog = lines(scan(self.path("files")))[0]
        self.assertEqual(catalog["estimates"], {"t100000": 100000, "t7": 7, "c": 30})

    def test_folders_with_values(self):
        """As without DuckDB, which is needed for the Parquet file only."""
        for year, month, total in (("2013", "01", 5), ("NA", "02", 6), ("2014", "__HIVE_DEFAULT_PARTITION__", 7)):
            os.makedirs(self.path(f"db/orders/year={year}/month={month}"))
            self.write(f"db/orders/year={year}/month={month}/a.csv", f"id,total\n{total},{total}\n")
        expected = rows(scan(self.path("db")), "orders")
        self.assertEqual(expected, [[["i", 5], ["i", 5], ["i", 2013], ["t", "01"]], [["i", 6], ["i", 6], ["n"], ["t", "02"]],
                                    [["i", 7], ["i", 7], ["i", 2014], ["n"]]])
        os.makedirs(self.path("db/logs/year=NA"))
        self.make("x.duckdb", f"COPY (SELECT 1 AS k) TO '{self.path('db/logs/year=NA/p.parquet')}'")
        done = scan(self.path("db"))
        self.assertEqual(rows(done, "orders"), expected)
        self.assertEqual(rows(done, "logs"), [[["i", 1], ["n"]]])

    def test_failures(self):
        os.mkdir(self.path("empty"))
        self.assert_fails(self.path("empty"), "no .parquet")
        self.write("empty/a.csv", "x\n1\n")
        self.make("x.duckdb", f"COPY (SELECT 1 AS k) TO '{self.path('empty/a.parquet')}'")
        self.assert_fails(self.path("empty"), "both be table a")
        os.remove(self.path("empty/a.csv"))
        self.write("empty/a.parquet", "not a parquet file")
        self.assert_fails(self.path("empty"), "a.parquet")
        self.write("broken.duckdb", "not a database")
        self.assert_fails(self.path("broken.duckdb"), "cannot open")
        self.assert_fails(self.path("missing.duckdb"), "cannot open")

    def ingested(self, name):
        """The hash of the store that a file gives, or what is said instead, which must be an error of the source."""
        command = [WEIR, "ingest", self.path(name), "--output", self.path("d.weir"), "--threads", "1", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return json.loads(done.stdout)["store_hash"]
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("SOURCE_ERROR", done.stdout)
        self.assertFalse(os.path.exists(self.path("d.weir")))
        return None

    def damaged(self, name, places):
        """What each of these files gives: a byte turned, or, if the place is negative, cut after so many bytes."""
        with open(self.path(name), "rb") as file:
            sound = file.read()
        given = []
        for place in places(len(sound)):
            data = sound[:-place] if place < 0 else sound[:place] + bytes([sound[place] ^ 0x55]) + sound[place + 1:]
            with open(self.path(name), "wb") as file:
                file.write(data)
            given.append(self.ingested(name))
            if os.path.exists(self.path("d.weir")):
                os.remove(self.path("d.weir"))
        return given

    def test_damaged_databases(self):
        """DuckDB's blocks have checksums: a damaged file is an error, or gives the store that it gave."""
        self.make("d.duckdb", "CREATE TABLE t AS SELECT i AS id, 'word ' || i % 7 AS word, i * 0.5 AS x FROM range(3000) t(i);"
                              "CREATE TABLE u AS SELECT i AS id, i % 3000 AS t_id FROM range(100) t(i)")
        sound = self.ingested("d.duckdb")
        self.assertIsNotNone(sound)
        os.remove(self.path("d.weir"))
        given = self.damaged("d.duckdb", lambda size: [
            0, 8, 11, 12, 20, 40, 60, 4096, 4104, 4112, 4120, 4136, 8192, 8200, 8208, 8216, 8232, 12288, 12296, 12300, 12400,
            *range(12288 + 999, size, size // 8), -1, -8, -100, -4096, -8192, -12288, -12289, -20000, -size // 2])
        self.assertLessEqual(set(given), {None, sound})
        self.assertGreater(given.count(None), len(given) // 3)

    def test_damaged_parquet(self):
        """Parquet has no checksums that must be there: an error, or a store."""
        os.mkdir(self.path("files"))
        self.make("x.duckdb", "COPY (SELECT i AS id, 'word ' || i % 7 AS word, i * 0.5 AS x FROM range(3000) t(i)) TO "
                              f"'{self.path('files/t.parquet')}'")
        os.rename(self.path("files/t.parquet"), self.path("t.parquet"))
        self.assertIsNotNone(self.ingested("t.parquet"))
        os.remove(self.path("d.weir"))
        given = self.damaged("t.parquet", lambda size: [0, 4, 5, 20, *range(100, size, size // 12), *range(size - 12, size),
                                                        -1, -4, -8, -100, -size // 2])
        self.assertGreater(given.count(None), 5)

    def test_signals_inside_a_query(self):
        with DuckDB(self.path("endless.duckdb")) as database:
            database.run("CREATE TABLE t (id INTEGER PRIMARY KEY, w REAL); INSERT INTO t VALUES (1, 0.5)")
        check_signals(self, self.path("endless.duckdb"), self.folder, "SELECT a.i AS id, DATE '2024-01-01' AS at, b.i AS y "
                      "FROM range(1000000000) a(i), range(1000000000) b(i) WHERE a.i + b.i < 0")

    def test_every_allocation_fails_once(self):
        self.assertGreater(int(scan(self.make("types.duckdb", TYPES), "--sweep").stdout), 50)

    def test_the_shop_gives_the_store_of_sqlite(self):
        """From a DuckDB file and from Parquet files, with any number of threads."""
        shop.write_sqlite(self.path("shop.sqlite"))
        self.write("schema.json", shop.schema())
        os.mkdir(self.path("parquet"))
        tables = list(shop.load())
        self.make("shop.duckdb", *shop.for_duckdb(),
                  *(f"COPY {table} TO '{self.path('parquet')}/{table}.parquet'" for table in tables))
        options = ["--schema", self.path("schema.json")]
        expected = ingest(self.path("shop.sqlite"), self.folder, "expected", *options)
        for source in ("shop.duckdb", "parquet"):
            for threads in ("1", "2", "5"):
                self.assertTrue(expected == ingest(self.path(source), self.folder, "got", "--threads", threads, *options))
            like = ["--like", self.path("expected.weir")]
            self.assertTrue(expected == ingest(self.path(source), self.folder, "got", *like, *options))


if __name__ == "__main__":
    unittest.main()
