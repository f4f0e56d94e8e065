"""MySQL servers that are wrong, hostile or gone: every answer ends in a store or in one error, soon, in little memory, and
no secret and no file goes to them."""
import ctypes.util
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from tests.support import fake_mysql as fake  # noqa: E402
from tests.support.fake_mysql import FakeMySql, for_ever, frame, frames  # noqa: E402
from tests.support.hostile import HostileCase  # noqa: E402
from tests.support.scan import WEIR  # noqa: E402

CATALOG = {"SELECT DATABASE()": [["d"]], "information_schema.TABLES": fake.TABLES, "information_schema.COLUMNS": fake.COLUMNS,
           "information_schema.KEY_COLUMN_USAGE": fake.KEYS}
HAS_LIBRARY = os.environ.get("WEIR_MARIADB") or ctypes.util.find_library("mariadb")


@unittest.skipUnless(HAS_LIBRARY, "no MariaDB client library here (Debian: libmariadb3)")
@unittest.skipUnless(WEIR, "WEIR must name the program weir (ctest does)")
class Hostile(HostileCase):
    def ingest(self, answers, *options, cuts=False):
        return self.ingest_from(FakeMySql(answers, cuts=cuts), *options)

    def assert_refused(self, answers, *words, options=(), cuts=False):
        self.assert_error(*self.ingest(answers, *options, cuts=cuts), *words)

    def test_the_fake_server_is_one(self):
        status, output = self.ingest({})
        self.assertEqual((status, output.get("rows")), (0, 2), output)

    # ---- Shapes

    def test_too_few_and_too_many_columns(self):
        for part in CATALOG:
            with self.subTest(part=part):
                for cells in (["d"] * 2 if part.startswith("SELECT") else ["t"], ["t"] * 40):
                    self.assert_refused({part: fake.table([cells])}, "answered what MySQL does not")
        self.assert_refused({'"id"': fake.table([["1"]], [fake.ID])}, "another number of columns")
        self.assert_refused({'"id"': fake.table([["1", "x", "y"]], [fake.ID, fake.W, fake.W])}, "another number of columns")

    def test_answers_of_the_wrong_kind(self):
        for part in ('"id"', *CATALOG):
            for answer in (frames(fake.ok()), frames(b""), frames(fake.failure("no")), frames(fake.end()), frames(b"\x05"),
                           frames(b"\x01", fake.end(), fake.end())):
                with self.subTest(part=part, answer=answer):
                    self.assert_refused({part: answer}, cuts=True)
        for part in ("SET NAMES", "START TRANSACTION"):
            with self.subTest(part=part):
                self.assert_refused({part: fake.table([["x"]])}, "rows that nobody asked for")
                self.assert_refused({part: frames(fake.failure("the disk is gone"))}, "the disk is gone")
        self.assert_refused({'"id"': fake.table([["1", "x"]], [fake.ID, fake.W], status=2 | fake.MORE_RESULTS)})

    def test_rows_and_columns_that_are_none(self):
        """What the library makes a row of may be anything, but it is a row or an error."""
        head = (b"\x02", fake.ID, fake.W, fake.end())
        answers = [frames(*head, row, fake.end()) for row in (
            b"\x01", b"\x011", b"\x011\x05one", b"\x011\xfe" + struct.pack("<Q", 1 << 62) + b"x", b"\xfc", b"\xfd\xff\xff\xff")]
        answers += [frames(b"\x02", column, fake.W, fake.end(), fake.row(["1", "one"]), fake.end()) for column in (
            b"", b"\x03def", fake.ID[:-4], fake.ID[:20], b"\xfe" * 12, b"\xff" * 20)]
        answers += [frames(count, fake.ID, fake.W, fake.end(), fake.row(["1", "one"]), fake.end()) for count in (
            b"\xfd\xff\xff\xff", b"\xfe" + struct.pack("<Q", 1 << 40), b"\xfe" + struct.pack("<Q", (1 << 32) + 2))]
        for answer in answers:
            with self.subTest(answer=answer):
                status, output = self.ingest({'"id"': answer}, cuts=True)
                self.assertEqual((status, output.get("error", {}).get("code_id")),
                                 (0, None) if "rows" in output else (1, "SOURCE_ERROR"), output)

    def test_values_that_are_none(self):
        head = (b"\x02", fake.ID, fake.W, fake.end())
        for cells in (["x", "one"], ["", "one"], ["--", "one"]):
            self.assert_refused({'"id"': frames(*head, fake.row(cells), fake.end())}, "column id of table t")
        self.assert_refused({'"id"': frames(*head, fake.row(["1", "one"]), fake.failure("the disk is gone"))}, "the disk is gone")
        status, output = self.ingest({'"id"': frames(*head, fake.row(["1", None]), fake.row(["2", "two"]), fake.end())})
        self.assertEqual((status, output.get("rows")), (0, 2), output)

    def test_lists_that_are_not_in_order(self):
        self.assert_refused({"information_schema.TABLES": fake.table(fake.TABLES * 2)}, "not in order")
        self.assert_refused({"information_schema.COLUMNS": fake.table(fake.COLUMNS * 4096)}, "not in order")
        keys = [["t", "k", "id", "2", "t", "id"]]
        self.assert_refused({"information_schema.KEY_COLUMN_USAGE": fake.table(keys)}, "not in order")
        keys = [["t", "PRIMARY", "no", "1", None, None], ["u", "k", "id", "1", "t", "id"], ["t", "k", "id", "1", "u", "id"]]
        self.assertEqual(self.ingest({"information_schema.KEY_COLUMN_USAGE": fake.table(keys)})[0], 0)

    def test_queries_of_the_wrong_shape(self):
        """A query's columns are asked for first: they may be others than those that come."""
        schema = os.path.join(self.folder, "schema")
        task = {"query": "SELECT 7 AS k", "anchor_table": "t", "anchor_key": "k", "target_column": "y", "target_stype": "numerical"}
        with open(schema, "w", encoding="utf-8") as file:
            json.dump({"tables": {"t": {"primary_key": "id", "columns": {}}}, "tasks": {"k": task}}, file)
        for answer in (fake.prepared([]), fake.prepared([fake.ID]), fake.prepared([fake.ID, fake.W]), fake.prepared([fake.ID[:9]]),
                       frames(fake.failure("no")), frames(b""), frames(b"\0"), frames(fake.ok()), frames(b"\xfb/etc/passwd"),
                       frames(b"\0" + struct.pack("<IHHBH", 1, 65535, 65535, 0, 0)),
                       for_ever([b"\0" + struct.pack("<IHHBH", 1, 65535, 0, 0, 0)], fake.ID)):
            with self.subTest(answer=answer):
                status, output = self.ingest({"SELECT 7": answer}, "--schema", schema, cuts=True)
                self.assertEqual(status, 1, output)
                self.assertIn(output["error"]["code_id"], ("SOURCE_ERROR", "TASK_INVALID", "SCHEMA_INVALID"))

    # ---- Without end

    def test_without_end(self):
        """The cases that only time can end are ended by time; those that only grow, by their size."""
        short = ("--source-timeout", "1")
        head = [b"\x04", *[fake.column("c")] * 4, fake.end()]
        self.assert_refused({"information_schema.COLUMNS": for_ever(head, fake.row(["1" * 60000] * 4), 10)}, "the catalog is larger")
        self.assert_refused({'"id"': for_ever([b"\x02"], fake.ID)}, "answered what MySQL does not")
        self.assert_refused({'"id"': for_ever([b"\x02", fake.ID, fake.W, fake.end()], bytes([1, 49, 253, 255, 255, 255])
                                              + bytes((1 << 24) - 7), 1)}, "table t")
        trickle = frames(b"\x02", fake.ID, fake.W, fake.end()) + frame(5, bytes(1 << 20))[:-9]
        for answer in (None, trickle):
            self.assert_refused({'"id"': answer}, "table t", "too long", options=short)
        self.assert_refused({"information_schema.COLUMNS": None}, "too long", options=short)

    def test_connection_cut_anywhere(self):
        for part in ("SET NAMES", "information_schema.TABLES", '"id"'):
            whole = fake.OWN.get(part, fake.OWN[""])
            for size in range(0, len(whole), 23):
                self.assert_refused({part: whole[:size]}, cuts=True)

    # ---- Greetings, secrets and files

    def test_greetings_that_are_none(self):
        for greeting in (b"", frames(b"", first=0), frame(0, b"\x0a"), frame(0, b"\x0a8.0.36\0" + bytes(3)), frame(0, b"\x09old\0" + bytes(60)),
                         frame(0, b"\xff\x10\x04Too many connections"), frame(3, b"\x0a8.0.36\0" + bytes(60)), b"HTTP/1.1 400 Bad\r\n\r\n",
                         frame(0, b"\x0a" + b"8" * 5000)):
            with self.subTest(greeting=greeting):
                class Short(FakeMySql):
                    def serve(self, client):
                        client.sendall(greeting)
                        client.shutdown(1)
                self.assert_error(*self.ingest_from(Short()), "cannot connect")

    def test_passwords_are_not_sent_as_they_are_and_not_asked_for(self):
        for plugin in (b"mysql_clear_password", b"dialog", b"../../../../tmp/plugin", b"mysql_old_password"):
            with self.subTest(plugin=plugin):
                server = FakeMySql(welcome=frame(2, b"\xfe" + plugin + b"\0\4Password: "))
                self.assert_error(*self.ingest_from(server), "cannot connect")
                self.assertNotIn(b"s3cret", server.heard)

    def test_a_server_without_encryption_is_refused_if_it_is_asked_for(self):
        """The library logs in all the same unless it is to verify the server; no statement follows."""
        for mode, is_login_sent in (("required", True), ("verify_identity", False)):
            server = FakeMySql()
            server.url += "?ssl-mode=" + mode
            self.assert_error(*self.ingest_from(server), "cannot connect")
            self.assertEqual(b"mysql_native_password" in server.heard, is_login_sent)
            self.assertNotIn(b"SET NAMES", server.heard)

    def test_no_file_is_sent(self):
        secret = os.path.join(self.folder, "..", "weir-mysql-secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write("for nobody's eyes")
        self.addCleanup(os.unlink, secret)
        for part in ("SET NAMES", "information_schema.TABLES", '"id"'):
            for home in ("", "[client]\nlocal-infile=1\n"):
                with self.subTest(part=part, home=home), tempfile.TemporaryDirectory() as folder:
                    with open(os.path.join(folder, ".my.cnf"), "w", encoding="ascii") as file:
                        file.write(home)
                    server = FakeMySql({part: frames(b"\xfb" + secret.encode())}, cuts=True)
                    with server:
                        done = subprocess.run([WEIR, "ingest", server.url, "-o", os.path.join(self.folder, "s.weir"), "--json"],
                                              capture_output=True, check=False,
                                              env={**os.environ, "HOME": folder})
                    self.assert_error(done.returncode, json.loads(done.stdout))
                    self.assertNotIn(b"nobody", server.heard)

    def test_words_of_a_server_are_printable(self):
        status, output = self.ingest({"information_schema.TABLES": frames(fake.failure("\x1b]0;owned\x07\nweir: all is well\x9b"))})
        self.assertEqual(status, 1)
        self.assertFalse([c for c in output["error"]["message"] if ord(c) < 32 or 127 <= ord(c) < 160], output)

    # ---- Signals

    def test_signals_end_a_wait_for_the_server(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            endless = for_ever([b"\x02", fake.ID, fake.W, fake.end()], fake.row(["1", "w"]))  # for one server: it has a beginning
            for answers in ({"information_schema.COLUMNS": None}, {'"id"': None}, {'"id"': endless}):
                with self.subTest(answers=answers, number=number):
                    self.assertEqual(self.signalled(FakeMySql(answers), number), (128 + number, "CANCELLED"))

    def test_signals_end_a_wait_for_a_greeting(self):
        self.assertEqual(self.signalled(FakeMySql(speaks=False), signal.SIGTERM), (128 + signal.SIGTERM, "CANCELLED"))


if __name__ == "__main__":
    unittest.main()
