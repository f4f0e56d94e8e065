"""MySQL and MariaDB as a source, against a real server: types, keys, one snapshot, queries, and failures."""
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from tests.support import shop, warehouse  # noqa: E402
from tests.support.cases import scratch_database  # noqa: E402
from tests.support.endless import check_signals  # noqa: E402
from tests.support.mariadb import Server, find_programs  # noqa: E402
from tests.support.processes import environment, start  # noqa: E402
from tests.support.scan import DECLARED, SCAN, WEIR, comparable, ingest, lines, real, rows, scan  # noqa: E402
from tests.support.servers import Proxy, SourceCase, free_port, wide_tables  # noqa: E402

PROGRAMS = find_programs()
MICROS = 1000000

TYPES = r"""
CREATE TABLE `odd "na``me` (
  id int PRIMARY KEY, b boolean, t tinyint, tu tinyint unsigned, s smallint, m mediumint, i8 bigint, u8 bigint unsigned,
  z int(8) unsigned zerofill, n decimal(20, 4), n0 decimal(40, 0), f float, d double, c char(6), v varchar(9),
  tx text, la varchar(9) character set latin1, by_ varbinary(9), fb binary(3), bl longblob, da date, dt datetime(6), ts timestamp(3) NULL,
  ti time(2), y year, e enum('sad', 'happy'), st set('a', 'b', 'c'), j json, b1 bit(1), b64 bit(64), g geometry, p point,
  u uuid, ip inet6);
SET time_zone = '+05:30';
INSERT INTO `odd "na``me` VALUES
 (1, true, -128, 255, -32768, -8388608, 9223372036854775807, 18446744073709551615, 42, 123.4500, 19, 1.1, 0.1, 'ab', 'Kraków',
  '', 'ö', X'00ff10', 'x', X'00', '2024-02-29', '2024-02-29 12:34:56.789012', '2024-02-29 12:34:56.789', '-12:34:56.5', 2024, 'happy',
  'a,c', '{"a" :1}', 1, 0xFFFFFFFFFFFFFFFF, ST_GeomFromText('POINT(1 2)'), POINT(3, 4.5),
  '123e4567-e89b-12d3-a456-426655440000', '::1'),
 (2, 0, 0, 0, 0, 0, -9223372036854775808, 0, 0, -0.0001, 1234567890123456789012345678901234567890, 16777217, 1e-300, '', '',
  'a''b\\', '', '', '', '', '0001-01-01', '9999-12-31 23:59:59.999999', '1970-01-01 05:30:01', '838:59:59', 1901, 'sad', '', 'null', 0,
  5, NULL, NULL, NULL, NULL),
 (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
"""

FIRST = [["i", 1], ["i", 1], ["i", -128], ["i", 255], ["i", -32768], ["i", -8388608], ["i", 9223372036854775807],
         ["r", (2.0 ** 64).hex()], ["i", 42], ["r", (123.45).hex()], ["i", 19], ["r", float.fromhex("0x1.19999ap+0").hex()],
         ["r", (0.1).hex()], ["t", "ab"], ["t", "Kraków"], ["t", ""], ["t", "ö"], ["x", "00ff10"], ["x", "780000"], ["x", "00"],
         ["@", 1709164800 * MICROS], ["@", 1709210096 * MICROS + 789012], ["@", (1709210096 - 19800) * MICROS + 789000],
         ["t", "-12:34:56.50"], ["i", 2024], ["t", "happy"], ["t", "a,c"], ["t", '{"a" :1}'], ["i", 1], ["r", (2.0 ** 64).hex()],
         ["t", "POINT(1 2)"], ["t", "POINT(3 4.5)"], ["t", "123e4567-e89b-12d3-a456-426655440000"], ["t", "::1"]]
SECOND = [["i", 2], ["i", 0], ["i", 0], ["i", 0], ["i", 0], ["i", 0], ["i", -9223372036854775808], ["i", 0], ["i", 0],
          ["r", (-0.0001).hex()], ["r", (1234567890123456789012345678901234567890.0).hex()], ["r", (16777216.0).hex()],
          ["r", (1e-300).hex()], ["t", ""], ["t", ""], ["t", "a'b\\"], ["t", ""], ["x", ""], ["x", "000000"], ["x", ""],
          ["@", -62135596800 * MICROS], ["@", 253402300799 * MICROS + 999999], ["@", MICROS], ["t", "838:59:59.00"], ["i", 1901],
          ["t", "sad"], ["t", ""], ["t", "null"], ["i", 0], ["i", 5], ["n"], ["n"], ["n"], ["n"]]


@unittest.skipUnless(SCAN and WEIR, "WEIR and WEIR_SCAN must name the programs weir and scan_source (ctest does)")
class WithoutServer(unittest.TestCase):
    def test_library_that_is_not_there(self):
        done = scan("mysql://127.0.0.1/x", check=False, env={**os.environ, "WEIR_MARIADB": "/nowhere/libmariadb.so"})
        self.assertIn("SOURCE_ERROR: this source needs MariaDB's client library", done.stderr.decode())
        self.assertIn("libmariadb3", done.stderr.decode())
        done = scan("mysql://127.0.0.1/x", check=False, env={**os.environ, "WEIR_MARIADB": "libsqlite3.so.0"})
        self.assertIn("lacks the function mysql_server_init", done.stderr.decode())

    def test_refused_urls(self):
        for url, word in (("mysql://u:s3cret@[::1/x", "a [ has no ]"), ("mysql://h/x?port=1", "the names that may follow"),
                          ("mysql://u:s3c%zzet@h/x", "%XX"), ("mysql://u:s3cr%00et@h/x", "%XX"), ("mysql://u:s3cret@h:0/x", "port"),
                          ("mysql://h:99999/x", "port"), ("mysql://u:s3cret@[::1]x/x", "address in [ ]"),
                          ("mariadb://u:s3cret@h,k/x", "no name and no address"), ("mysql://h/x?ssl-mode=some", "ssl-mode"),
                          ("mysql://u:s3cret@h/x?socket", "name=value"), ("mysql://u:s3cret@h/x/y", "%2F")):
            with self.subTest(url=url):
                done = scan(url, check=False)
                message = done.stderr.decode()
                self.assertTrue(message.startswith("weir: SOURCE_ERROR: the database's URL cannot be read: "), message)
                self.assertIn(word, message)
                self.assertNotIn("s3c", message)


@unittest.skipUnless(PROGRAMS, "no MariaDB server here (Debian: mariadb-server-core, mariadb-client-core); WEIR_MARIADB_BIN can name its folder")
@unittest.skipUnless(SCAN and WEIR, "WEIR and WEIR_SCAN must name the programs weir and scan_source (ctest does)")
class MySql(SourceCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.certificate = cls.make_certificate(holder.name) if shutil.which("openssl") else None
        tls = [f"--ssl-cert={cls.certificate}", f"--ssl-key={cls.certificate}"] if cls.certificate else []
        cls.server = Server(PROGRAMS, "--max-allowed-packet=64M", *tls)
        cls.server.__enter__()
        cls.addClassCleanup(cls.server.stop)
        cls.make("types", TYPES)
        cls.make("big", """CREATE TABLE big (id bigint PRIMARY KEY, word text);
            INSERT INTO big SELECT seq, repeat('word ', seq % 40) FROM seq_1_to_60000;
            DELETE FROM big WHERE id % 7 = 0; CREATE TABLE empty (i int)""")

    @staticmethod
    def make_certificate(folder):
        """One file with a key and a certificate of its own, for 127.0.0.1."""
        os.chmod(folder, 0o755)
        path, key = os.path.join(folder, "certificate.pem"), os.path.join(folder, "key.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "9",
                        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", path],
                       check=True, capture_output=True)
        with open(path, "ab") as whole, open(key, "rb") as part:
            whole.write(part.read())
        os.chmod(path, 0o644)
        return path

    @classmethod
    def make(cls, name, sql):
        cls.server.run(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin")
        cls.server.run(sql, name)

    # ---- Values and keys

    def test_types(self):
        table = rows(scan(self.server.url("types")), 'odd "na`me')
        self.assertEqual(len(table), 3)
        self.assertEqual(comparable(table[0]), comparable(FIRST))
        self.assertEqual(comparable(table[1]), comparable(SECOND))
        self.assertEqual(table[2][1:], [["n"]] * 33)

    def test_declared_types_and_order(self):
        catalog = lines(scan(self.server.url("types"), "--count"))[0]
        self.assertEqual(catalog["name"], "types")
        columns = {name: DECLARED[kind] for name, kind in catalog["tables"]['odd "na`me']["columns"]}
        self.assertEqual(list(columns)[:4], ["id", "b", "t", "tu"])
        expected = {"b": "boolean", "t": "integer", "u8": "integer", "n": "numeric", "f": "real", "d": "real", "c": "text",
                    "tx": "text", "by_": "blob", "fb": "blob", "bl": "blob", "da": "time", "dt": "time", "ts": "time", "ti": "text",
                    "y": "integer", "e": "enum", "st": "text", "j": "text", "b1": "boolean", "b64": "integer", "g": "text"}
        self.assertEqual({name: columns[name] for name in expected}, expected)

    def test_a_query_gives_the_values_of_a_scan(self):
        columns = [name for name, _ in lines(scan(self.server.url("types"), "--count"))[0]["tables"]['odd "na`me']["columns"]]
        query = ", ".join(f"ST_AsText({name}) AS {name}" if name in "gp" else name for name in columns)
        done = scan(self.server.url("types"), "--query", f'SELECT {query} FROM "odd ""na`me" WHERE id < 3 ORDER BY id ; -- the end')
        self.assertEqual([comparable(row) for row in rows(done, "query")], [comparable(FIRST), comparable(SECOND)])

    def test_floats_come_whole(self):
        """Every double and every float, also in a query. (The server itself writes -0 as 0.)"""
        chosen = random.Random(5)
        doubles = [0.0, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, 0.1, 1 / 3] + [
            value for value in (struct.unpack("<d", chosen.randbytes(8))[0] for _ in range(300)) if value - value == 0]
        floats = [struct.unpack("<f", struct.pack("<f", value))[0] for value in (0.1, 16777217, 1 / 3, 1e-45, 3.4e38)]
        self.make("floats", "CREATE TABLE d (i int, v double); CREATE TABLE f (i int, v float); CREATE VIEW w AS SELECT * FROM f; "
                  + ";".join(f"INSERT INTO {table} VALUES " + ", ".join(
                      f"({i}, {v:.17e})" for i, v in enumerate(values)) for table, values in (("d", doubles), ("f", floats))))
        url = self.server.url("floats")
        for done, table, expected in ((scan(url), "d", doubles), (scan(url), "f", floats),
                                      (scan(url, "--query", "SELECT * FROM w # the view"), "query", floats),
                                      (scan(url, "--query", "SELECT * FROM d -- all"), "query", doubles)):
            got = {row[0][1]: real(row[1][1]).hex() for row in rows(done, table)}
            self.assertEqual(got, {i: value.hex() for i, value in enumerate(expected)})
        self.assert_fails(url, "column v of the query is a FLOAT", "v * 1e0", options=("--query", "SELECT v, i, i FROM f"))
        self.assert_fails(self.server.url("types"), "column g of the query is a GEOMETRY", "ST_AsText(g)",
                          options=("--query", 'SELECT g FROM "odd ""na`me"'))

    def test_keys(self):
        self.make("keys", """CREATE TABLE a (y int, x varchar(9), PRIMARY KEY (x, y));
            CREATE TABLE b (id int PRIMARY KEY, up int REFERENCES b (id), code varchar(9) UNIQUE);
            CREATE TABLE c (z varchar(9), w int, b_code varchar(9) REFERENCES b (code), b_id int REFERENCES b (id),
                            FOREIGN KEY (z, w) REFERENCES a (x, y));
            CREATE DATABASE elsewhere; CREATE TABLE elsewhere.hidden (id int PRIMARY KEY);
            CREATE TABLE d (h int REFERENCES elsewhere.hidden (id)); CREATE SEQUENCE numbers; CREATE VIEW seen AS SELECT * FROM b""")
        catalog = lines(scan(self.server.url("keys")))[0]
        tables = catalog["tables"]
        self.assertEqual(sorted(tables), ["a", "b", "c", "d"])
        self.assertEqual(catalog["hidden"], ["seen"])
        self.assertEqual(tables["a"]["primary_key"], ["x", "y"])
        self.assertEqual(tables["b"], {"columns": [["id", 3], ["up", 3], ["code", 6]], "primary_key": ["id"],
                                       "foreign_keys": {"up": "b.id"}})
        self.assertEqual(tables["c"]["foreign_keys"], {"z+w": "a.x+y", "b_code": "b.code", "b_id": "b.id"})
        self.assertEqual(tables["d"]["foreign_keys"], {})

    # ---- The same store as from SQLite

    def test_the_shop_gives_the_store_of_sqlite(self):
        """With a schema, with the draft, and like another store."""
        self.make("shop", shop.for_mysql())
        url = self.server.url("shop")
        with tempfile.TemporaryDirectory() as folder:
            sqlite, schema = os.path.join(folder, "shop.sqlite"), os.path.join(folder, "schema.json")
            shop.write_sqlite(sqlite)
            with open(schema, "w", encoding="utf-8") as file:
                file.write(shop.schema())
            for options in (["--schema", schema], []):
                expected = ingest(sqlite, folder, "expected", *options)
                for threads in ("1", "4"):
                    self.assertTrue(expected == ingest(url, folder, "got", "--threads", threads, *options))
            like = ["--like", os.path.join(folder, "expected.weir")]
            self.assertTrue(expected == ingest(url, folder, "got", *like))
            drafts = [self.weir("schema", source)[0] for source in (sqlite, url)]
            self.assertEqual(drafts[0], drafts[1])

    def test_the_same_store_with_wide_keys_times_views_and_queries(self):
        self.make("warehouse", "SET sql_mode = 'ANSI';" + ";".join(warehouse.STATEMENTS).replace("TIMESTAMP", "TIMESTAMP NULL"))
        with tempfile.TemporaryDirectory() as folder:
            sqlite, schema = os.path.join(folder, "w.sqlite"), os.path.join(folder, "schema.json")
            warehouse.write_sqlite(sqlite)
            with open(schema, "w", encoding="utf-8") as file:
                file.write(warehouse.schema())
            expected = ingest(sqlite, folder, "expected", "--schema", schema)
            self.assertEqual(ingest(self.server.url("warehouse"), folder, "my", "--schema", schema), expected)

    def test_many_rows_give_the_store_of_sqlite(self):
        """Rows of all sizes, some beyond what a batch or a packet of the protocol holds."""
        long = {77: 3 << 20, 78: 17 << 20, 79: 1}
        words = [(i, i * 7919 % 100003, "w" * long.get(i, i % 50)) for i in range(30000)]
        with tempfile.TemporaryDirectory() as folder:
            sqlite, schema = os.path.join(folder, "many.sqlite"), os.path.join(folder, "schema.json")
            with open(schema, "w", encoding="utf-8") as file:
                json.dump({"tables": {"t": {"primary_key": "id", "columns": {"a": {"stype": "numerical"}}},
                                      "u": {"query": "SELECT id, length(w) AS n FROM t", "primary_key": "id",
                                            "columns": {"n": {"stype": "numerical"}}}}}, file)
            with scratch_database(sqlite) as database:
                database.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, w TEXT)")
                database.executemany("INSERT INTO t VALUES (?, ?, ?)", words)
            self.make("many", "CREATE TABLE t (id int PRIMARY KEY, a bigint, w longtext); INSERT INTO t SELECT seq, seq * 7919 % 100003,"
                      " repeat('w', CASE seq " + " ".join(f"WHEN {i} THEN {size}" for i, size in long.items())
                      + " ELSE seq % 50 END) FROM seq_0_to_29999")
            url = self.server.url("many")
            self.assertEqual({row[0][1]: len(row[2][1]) for row in rows(scan(url), "t")}, {i: len(w) for i, _, w in words})
            expected = ingest(sqlite, folder, "expected", "--schema", schema)
            self.assertTrue(expected == ingest(url, folder, "got", "--schema", schema))

    # ---- Queries

    def test_queries(self):
        url = self.server.url("types")
        done = scan(url, "--query", """SELECT id AS "Anchor", id AS "Anchor", e, count(*) OVER () > 1 AS many, 'x' || 'y' AS word,
            sum(i8) OVER (PARTITION BY id) AS total FROM "odd ""na`me" WHERE id = 2 ; -- the end""")
        self.assertEqual(lines(done)[1], ["Anchor", "Anchor", "e", "many", "word", "total"])
        self.assertEqual(rows(done, "query"), [[["i", 2], ["i", 2], ["t", "sad"], ["i", 0], ["t", "xy"],
                                                ["i", -9223372036854775808]]])

    def test_an_anchor_key_that_is_another_key_is_refused(self):
        self.make("anchors", """CREATE TABLE customers (id int PRIMARY KEY); INSERT INTO customers VALUES (1), (2);
            CREATE TABLE invoices (id int PRIMARY KEY, customer int REFERENCES customers (id), total double);
            INSERT INTO invoices VALUES (1, 2, 5), (2, 2, 6)""")
        tables = {"customers": {"primary_key": "id", "columns": {}},
                  "invoices": {"primary_key": "id", "columns": {"total": {"stype": "numerical"}}}}
        with tempfile.TemporaryDirectory() as folder:
            store, schema = os.path.join(folder, "s.weir"), os.path.join(folder, "schema.json")
            for query, anchor, word in (("SELECT customer AS k, total AS y FROM invoices", "invoices", "is invoices.customer, not the primary key id of the anchor"),
                                        ("SELECT total AS y, i.id AS k, c.id AS k FROM invoices i JOIN customers c ON customer = c.id",
                                         "invoices", "2 columns that are called k"),
                                        ("SELECT i.id AS k, total AS y, i.*, c.* FROM invoices i JOIN customers c ON customer = c.id", "invoices", None),
                                        ("SELECT customer AS k, total AS y FROM invoices", "customers", None),
                                        ("SELECT customer + 0 AS k, total AS y FROM invoices", "invoices", None)):
                task = {"query": query, "anchor_table": anchor, "anchor_key": "k", "target_column": "y",
                        "target_stype": "numerical"}
                with open(schema, "w", encoding="utf-8") as file:
                    json.dump({"tables": tables, "tasks": {"t": task}}, file)
                message = self.weir("ingest", self.server.url("anchors"), "--schema", schema, "-o", store)[1]
                with self.subTest(query=query, anchor=anchor):
                    if word is None:
                        self.assertIsNone(message)
                    else:
                        self.assertIn(word, message)

    def test_queries_that_fail(self):
        url = self.server.url("types")
        self.assert_fails(url, "SQL syntax", options=("--query", "SELEC 1"))
        self.assert_fails(url, "more than 1 row",
                          options=("--query", 'SELECT id, (SELECT i FROM (SELECT 1 AS i UNION SELECT 2) x) FROM "odd ""na`me"'))
        for statement in ("CREATE TABLE x (i int)", "DROP TABLE x", "COMMIT", "SET autocommit = 1", "DELETE FROM big.big",
                          "SELECT 1 INTO @x", "DO 1"):
            with self.subTest(statement=statement):
                self.assert_fails(url, options=("--query", statement))
        self.assert_fails(url, "SQL syntax", options=("--query", "SELECT 1; DROP DATABASE big"))
        self.server.run("CREATE FUNCTION types.spoil() RETURNS int MODIFIES SQL DATA BEGIN DELETE FROM big.big; RETURN 1; END".join(
            ("DELIMITER //\n", "//\n")))
        self.assert_fails(url, "READ ONLY", options=("--query", "SELECT spoil()"))
        self.assertEqual(self.server.run("SELECT count(*) > 0 FROM big.big").split()[-1], "1")

    # ---- Sessions

    def test_one_snapshot(self):
        """What is written after a session has begun is not in it: it is made to wait, while a writer commits."""
        self.make("moving", "CREATE TABLE a (version int); INSERT INTO a VALUES (1)")
        with start(self.server.client("-N", "--unbuffered"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
            holder.stdin.write(b"SELECT GET_LOCK('pause', 60);\n")
            holder.stdin.flush()
            self.assertEqual(holder.stdout.readline(), b"1\n")
            queries = ("--query", "SELECT GET_LOCK('pause', 60) AS got", "--query", "SELECT version FROM a")
            with start([SCAN, self.server.url("moving"), *queries, "--sessions", "4"], stdout=subprocess.PIPE) as reader:
                for _ in range(600):
                    if "GET_LOCK" in self.server.run("SELECT info FROM information_schema.PROCESSLIST WHERE user = 'weir'"):
                        break
                self.server.run("UPDATE a SET version = 2", "moving")
                holder.stdin.close()
                done = subprocess.CompletedProcess([], 0, reader.communicate(timeout=100)[0])
        self.assertEqual(lines(done)[0]["sessions"], 1)
        self.assertEqual([line["row"] for line in lines(done) if "row" in line], [[["i", 1]], [["i", 1]]])
        self.assertEqual(rows(scan(self.server.url("moving")), "a"), [[["i", 2]]])

    def test_tables_without_snapshots_are_refused(self):
        self.make("old", "CREATE TABLE o (i int) ENGINE = MyISAM; CREATE TABLE n (i int)")
        self.assert_fails(self.server.url("old"), "table o is kept by MyISAM", "ENGINE = InnoDB")

    def test_cursor_closed_early_leaves_the_session_usable(self):
        done = scan(self.server.url("big"), "--stop-early", "--count")
        self.assertEqual([line["rows"] for line in lines(done) if line.get("of") == "big"], [60000 - 60000 // 7])

    def test_settings_of_the_server_do_not_matter(self):
        before = rows(scan(self.server.url("types")), 'odd "na`me')
        self.server.run("SET GLOBAL time_zone = '-08:00', GLOBAL sql_mode = 'PAD_CHAR_TO_FULL_LENGTH', GLOBAL sql_select_limit = 1,"
                        " GLOBAL init_connect = 'SET NAMES latin1'")
        try:
            self.assertEqual(rows(scan(self.server.url("types")), 'odd "na`me'), before)
        finally:
            self.server.run("SET GLOBAL time_zone = '+00:00', GLOBAL sql_mode = DEFAULT, GLOBAL sql_select_limit = DEFAULT,"
                            " GLOBAL init_connect = ''")

    def test_ways_to_connect(self):
        """By a socket, and with what the environment and the user's files say."""
        with tempfile.TemporaryDirectory() as home:
            with open(os.path.join(home, ".my.cnf"), "w", encoding="utf-8") as file:
                file.write(f"[client]\nuser={self.server.user}\npassword={self.server.password}\nsocket={self.server.socket}\n"
                           "local-infile=1\nreconnect=1\ndefault-character-set=latin1\n")
            alone = environment(HOME=home)
            with_password = environment(HOME="/nowhere", MYSQL_PWD=self.server.password)
            for url, env in (("mysql:///types", alone), ("mariadb://localhost/types", alone),
                             (f"mysql://{self.server.user}@127.0.0.1:{self.server.port}/types", with_password),
                             (f"mysql://{self.server.user}@localhost/types?socket={self.server.socket}", with_password),
                             (self.server.url("types", password="s3cret%2Dw0rd"), None)):
                with self.subTest(url=url):
                    self.assertEqual(rows(scan(url, env=env), 'odd "na`me')[0][14], ["t", "Kraków"])

    def test_encrypted_connections(self):
        if not self.certificate:
            self.skipTest("no openssl here to make a certificate")
        self.server.run("CREATE USER careful IDENTIFIED BY 's3cret-w0rd' REQUIRE SSL; GRANT ALL ON *.* TO careful")
        expected = lines(scan(self.server.url("big"), "--count"))
        for query in ("ssl-mode=required", f"ssl-mode=verify_identity&ssl-ca={self.certificate}"):
            with self.subTest(query=query):
                self.assertEqual(lines(scan(self.server.url("big", user="careful", query=query), "--stop-early", "--count")), expected)
        self.assert_fails(self.server.url("big", user="careful"), "Access denied")
        self.assert_fails(self.server.url("big", query="ssl-mode=verify_identity"), "certificate")
        with Proxy(self.server.port, cut_after=60000) as proxy:
            self.assert_fails(self.server.url("big", port=proxy.port, query="ssl-mode=required"), "table big")
        with tempfile.TemporaryDirectory() as folder:
            self.make("slow", "CREATE TABLE t (id int PRIMARY KEY, w double); INSERT INTO t VALUES (1, 0.5)")
            check_signals(self, self.server.url("slow", query="ssl-mode=required"), folder,
                          "SELECT 1 AS id, '2024-01-01' AS at, sleep(30) AS y")

    # ---- Failures

    def test_signals_inside_a_query(self):
        self.make("endless", "CREATE TABLE t (id int PRIMARY KEY, w double); INSERT INTO t VALUES (1, 0.5)")
        with tempfile.TemporaryDirectory() as folder:
            check_signals(self, self.server.url("endless"), folder, "SELECT 1 AS id, '2024-01-01' AS at, sleep(30) AS y")

    def test_every_allocation_fails_once(self):
        self.make("wide", wide_tables())
        for database in ("types", "wide"):
            self.assertGreater(int(scan(self.server.url(database), "--sweep").stdout), 50)

    def test_refused_connections(self):
        self.assert_fails(self.server.url("nowhere"), "Unknown database 'nowhere'")
        self.assert_fails(self.server.url(), "names no database", "types")
        self.assert_fails(self.server.url("types", password="wrong-" + self.server.password[:4]), "Access denied")
        self.assert_fails(self.server.url("types", port=free_port()), "cannot connect")
        with tempfile.TemporaryDirectory() as folder:
            _, message = self.weir("schema", self.server.url("types"), "--pg-schema", "sales")
            self.assertIn("the URL of a MySQL server names the database", message)
            self.assertEqual(os.listdir(folder), [])

    def test_connection_dropped_while_reading(self):
        for cut in (60000, 300000):
            with Proxy(self.server.port, cut_after=cut) as proxy:
                self.assert_fails(self.server.url("big", port=proxy.port), "table big", "Lost connection")

    def test_times_that_no_calendar_has(self):
        for number, (kind, value) in enumerate((("date", "0000-00-00"), ("datetime", "2024-00-10 00:00:00"))):
            self.make(f"times{number}", f"SET sql_mode = ''; CREATE TABLE e (w {kind}); INSERT INTO e VALUES ('{value}')")
            self.assert_fails(self.server.url(f"times{number}"), "column w of table e", "no calendar has")


if __name__ == "__main__":
    unittest.main()
