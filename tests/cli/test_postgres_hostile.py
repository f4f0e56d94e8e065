"""Servers that are wrong, hostile or gone: every answer ends in a store or in one error, soon, in little memory."""
import os
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from tests.support import fake_postgres as fake  # noqa: E402
from tests.support.fake_postgres import FakePostgres, for_ever  # noqa: E402
from tests.support.hostile import HostileCase  # noqa: E402
from tests.support.scan import ABSENT, WEIR  # noqa: E402

ONE = struct.pack("!i", 1)
CATALOG = ("reltuples", "typbasetype", "pg_attribute", "pg_constraint", "pg_relation_size")
NOTICE = fake.message(b"N", b"SNOTICE\0Mlisten\0\0")


@unittest.skipIf("POSTGRES" in ABSENT, "this build has no PostgreSQL")
@unittest.skipUnless(WEIR, "WEIR must name the program weir (ctest does)")
class Hostile(HostileCase):
    def ingest(self, answers, *options):
        return self.ingest_from(FakePostgres(answers), *options)

    def assert_refused(self, answers, *words, options=("--source-timeout", "30")):
        self.assert_error(*self.ingest(answers, *options), *words)

    def test_the_fake_server_is_one(self):
        status, output = self.ingest({})
        self.assertEqual((status, output.get("rows")), (0, 2), output)

    def test_too_few_and_too_many_columns(self):
        for part in CATALOG:
            with self.subTest(part=part):
                self.assert_refused({part: fake.table([["100"]])}, "answered what PostgreSQL does not")
                self.assert_refused({part: fake.table([[]], 0)}, "answered what PostgreSQL does not")
                self.assert_refused({part: fake.table([["100"] * 40])}, "answered what PostgreSQL does not")
        for count in (0, 1, 3):
            row = [[ONE] * count]
            self.assert_refused({'"id"': fake.copy(row, count)}, "another number of columns")
            self.assert_refused({'"id"': fake.copy_start(b"H", 2) + fake.copy(row, count)[8 + 2 * count:]})
        self.assertEqual(self.ingest({"pg_export_snapshot": fake.table([[]], 0)})[0], 0)
        self.assertEqual(self.ingest({"pg_export_snapshot": fake.table([["x'; --"]])})[0], 0)

    def test_answers_of_the_wrong_kind(self):
        for part in ("SET TimeZone", "BEGIN", '"id"', *CATALOG):
            for kind in (b"G", b"W"):
                with self.subTest(part=part, kind=kind):
                    self.assert_refused({part: fake.copy_start(kind, 2)})
        for part in ("BEGIN", *CATALOG):
            with self.subTest(part=part):
                self.assert_refused({part: fake.OWN['COPY (SELECT']})
        for part in ('"id"', *CATALOG):
            for answer in (fake.complete() + fake.READY, fake.message(b"I") + fake.READY, fake.READY):
                with self.subTest(part=part, answer=answer):
                    self.assert_refused({part: answer})

    def test_numbers_that_are_none(self):
        for number in ("", "-1", "4294967296", "99999999999999999999", "1x", "\0"):
            with self.subTest(number=number):
                self.assert_refused({"reltuples": fake.table([[number, "t", "public", "1", "t", "r"]])})
                self.assert_refused({"pg_attribute": fake.table([["100", number, "id", "23"]])})
        self.assert_refused({"reltuples": fake.table([["100", "t", "public", "1", "t", "r"]] * 2)})
        self.assert_refused({"pg_attribute": fake.table([["100", "1", "id", "23"]] * 2)})

    def test_streams_that_are_not_copies(self):
        """A header, rows and fields that are cut, too long or of another form."""
        row = struct.pack("!h", 2) + struct.pack("!i", 4) + ONE + struct.pack("!i", 3) + b"one"
        begin, header = fake.copy_start(b"H", 2), fake.message(b"d", fake.COPY_HEADER)
        for first in (b"", b"PGCOPY", fake.COPY_HEADER[:-1], b"X" + fake.COPY_HEADER[1:],
                      fake.COPY_HEADER[:11] + struct.pack("!ii", 1, 0), fake.COPY_HEADER[:11] + struct.pack("!ii", 0, 1)):
            with self.subTest(header=first):
                self.assert_refused({'"id"': begin + fake.message(b"d", first) + fake.copy_end()}, "malformed")
        for body in (row[:1], struct.pack("!h", -2), struct.pack("!h", 3) + row[2:], row[:2], row[:5], row[:8], row[:-1],
                     row[:2] + struct.pack("!i", -2) + row[6:], row[:2] + struct.pack("!i", 1 << 30) + row[6:]):
            with self.subTest(row=body):
                self.assert_refused({'"id"': begin + header + fake.message(b"d", body) + fake.copy_end()}, "malformed")
        self.assert_refused({'"id"': begin + header + fake.copy_row(ONE[:3], b"one") + fake.copy_end()}, "id")
        whole = begin + header + fake.message(b"d", row) + fake.message(b"d", struct.pack("!h", -1))
        self.assert_refused({'"id"': whole + fake.message(b"c") + fake.failure("the disk is gone")}, "the disk is gone")
        self.assert_refused({'"id"': begin + header + fake.failure("the disk is gone")}, "the disk is gone")
        extended = fake.COPY_HEADER[:11] + struct.pack("!ii", 0, 3) + b"new"
        status, output = self.ingest({'"id"': begin + fake.message(b"d", extended + row) + fake.copy_end()})
        self.assertEqual((status, output.get("rows")), (0, 1), output)

    def test_domains_in_a_ring(self):
        ring = fake.table([["300", "301"], ["301", "300"]])
        columns = fake.table([["100", "1", "id", "23"], ["100", "2", "w", "300"]])
        self.assertEqual(self.ingest({"typbasetype": ring, "pg_attribute": columns})[0], 0)

    def test_without_end(self):
        """The cases that only time can end are ended by time; those that only grow, by their size."""
        short = ("--source-timeout", "1")
        for part in CATALOG:
            with self.subTest(part=part):
                width = {"pg_constraint": 5, "typbasetype": 2, "reltuples": 6}.get(part, 4)
                rows = fake.data_row(["1" * 65536] * width) * 16
                self.assert_refused({part: (fake.description(width) if i == 0 else rows for i in range(1 << 20))},
                                    "the catalog is larger")
        copying = fake.copy_start(b"H", 2) + fake.message(b"d", fake.COPY_HEADER)
        self.assert_refused({'"id"': after(copying, fake.message(b"d") * 1000)}, "table t", "too long", options=short)
        self.assert_refused({'"id"': after(copying, NOTICE * 1000)}, "too long", options=short)
        self.assert_refused({"pg_attribute": for_ever(NOTICE * 1000)}, "too long", options=short)
        self.assert_refused({"pg_attribute": for_ever(fake.message(b"A", ONE + b"a\0b\0") * 1000)}, "too long",
                            options=short)
        self.assert_refused({"pg_attribute": None}, "too long", options=short)
        self.assert_refused({'"id"': None}, "too long", options=short)
        self.assert_refused({"BEGIN": for_ever(fake.complete() * 100)})
        self.assert_refused({"BEGIN": for_ever(fake.failure("no")[:-6] * 100)})
        header = fake.message(b"d", fake.COPY_HEADER)
        self.assert_refused({"COPY (SELECT 1)": after(fake.copy_start(b"H", 1) + header, fake.copy_row(ONE) * 100)})

    def test_connection_cut_anywhere(self):
        for part in ("BEGIN", "reltuples", '"id"'):
            whole = next(answer for key, answer in fake.OWN.items() if key in part or part == '"id"' and key == "COPY (SELECT")
            for size in range(0, len(whole), 7):
                class Cut(FakePostgres):
                    def answer(self, client, statement):
                        super().answer(client, statement)
                        if part in statement:
                            client.close()
                            raise OSError
                with Cut({part: whole[:size]}) as server, self.begin(server) as process:
                    output, errors = process.communicate(timeout=100)
                self.assertEqual((process.returncode, errors), (1, b""), (part, size, output))

    # ---- Secrets and escapes

    def test_no_secret_of_a_location_is_shown(self):
        port = FakePostgres().url.split(":")[3].split("/")[0]
        for location in (f"postgresql://u:s3cr/et@127.0.0.1:{port}/d", "postgresql://u:s3cr?et@h:1:2/d",
                         "postgresql://u@127.0.0.1:1/d?password=other&password=s3cret", "postgresql://u:s3c%72et@[h/d",
                         "postgresql://127.0.0.1:1/d?no_such=1&password=s3cret", "u:s3cr/et@host/d", "u:s3cret@host",
                         "host=h password=s3cret dbname=d", "host=h PASSWORD='s3cr et' dbname=d", "mysql://u:s3cret@127.0.0.1:1/d",
                         "postgress://u:s3cret@h/d", "jdbc:postgresql://h/d?password=s3cret"):
            for command in (["ingest", location], ["schema", location]):
                with self.subTest(location=location):
                    done = subprocess.run([WEIR, *command], capture_output=True, text=True, check=False, cwd=self.folder)
                    self.assertEqual(done.returncode, 1, done)
                    for secret in ("s3c", "et@", " et'"):
                        self.assertNotIn(secret, done.stdout + done.stderr)

    def test_words_of_a_server_are_printable(self):
        for answer in (fake.failure("\x1b]0;owned\x07\nweir: all is well\x9b"),):
            status, output = self.ingest({"pg_attribute": answer})
            self.assertEqual(status, 1)
            self.assertFalse([c for c in output["error"]["message"] if ord(c) < 32 or 127 <= ord(c) < 160], output)

    # ---- Signals

    def test_signals_end_a_wait_for_the_server(self):
        rows = fake.copy_start(b"H", 2) + fake.message(b"d", fake.COPY_HEADER)
        for answers in ({"pg_attribute": None}, {'"id"': None}, {'"id"': after(rows, fake.copy_row(ONE, b"w") * 100)}):
            for number in (signal.SIGINT, signal.SIGTERM):
                with self.subTest(answers=answers, number=number):
                    self.assertEqual(self.signalled(FakePostgres(answers), number), (128 + number, "CANCELLED"))

    def test_second_signal_ends_at_once(self):
        """A server that does not even greet is waited for by libpq, which no signal ends: the second one does."""
        with FakePostgres(speaks=False) as server, self.begin(server) as process:
            self.assertTrue(server.asked.wait(60))
            while process.poll() is None:  # the echo of the first is not the second
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(0.2)
                except subprocess.TimeoutExpired:
                    pass
        self.assertEqual(process.returncode, -signal.SIGTERM)


def after(first, part):
    yield first
    yield from for_ever(part)


if __name__ == "__main__":
    unittest.main()
