"""weir ingest never replaces a file that somebody may still need: the source, the schema, or another's file."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.support.cases import scratch_database

WEIR = os.path.abspath(os.environ["WEIR"])


class Targets(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.source = self.folder / "src.sqlite"
        with scratch_database(self.source) as db:
            db.executescript("CREATE TABLE t (id INTEGER PRIMARY KEY, x REAL); INSERT INTO t VALUES (1, 2.5), (2, 3);")
        db.close()
        (self.folder / "s.json").write_bytes(self.weir("schema", "src.sqlite").stdout)

    def weir(self, *arguments):
        return subprocess.run([WEIR, *arguments], cwd=self.folder, capture_output=True, check=False)

    def contents(self):
        return {path.name: path.read_bytes() if path.is_file() else None for path in self.folder.iterdir()}

    def refused(self, *arguments, code="CONTRACT_VIOLATION", words=()):
        before = self.contents()
        done = self.weir("ingest", *arguments, "--json")
        self.assertEqual(done.returncode, 1, done.stdout)
        error = json.loads(done.stdout)["error"]
        self.assertEqual(error["code_id"], code)
        for word in words:
            self.assertIn(word, error["message"])
        self.assertEqual(self.contents(), before)

    def test_the_source_and_the_schema_are_kept(self):
        os.symlink("src.sqlite", self.folder / "link")
        os.link(self.source, self.folder / "hard")
        for same in ("src.sqlite", "./src.sqlite", str(self.source), "link", "hard"):
            with self.subTest(same=same):
                self.refused("src.sqlite", "-o", same, words=[same, "source"])
                self.refused("src.sqlite", "--manifest", same, words=[same, "source"])
        for same in ("s.json", "./s.json"):
            with self.subTest(same=same):
                self.refused("src.sqlite", "--schema", "s.json", "-o", same, words=[same, "schema"])
                self.refused("src.sqlite", "--schema", "s.json", "--manifest", same, words=[same, "schema"])

    def test_store_and_manifest_are_two_files(self):
        self.refused("src.sqlite", "-o", "new", "--manifest", "new", words=["both"])
        self.refused("src.sqlite", "-o", "new", "--manifest", "./new", words=["both"])

    def test_files_of_another_kind_are_kept(self):
        (self.folder / "notes.txt").write_text("dear diary")
        (self.folder / "empty").write_bytes(b"")
        (self.folder / "sub").mkdir()
        os.mkfifo(self.folder / "fifo")
        for name in ("notes.txt", "empty", "sub", "fifo"):
            with self.subTest(name=name):
                self.refused("src.sqlite", "-o", name, words=[name])
                self.refused("src.sqlite", "-o", "new.weir", "--manifest", name, words=[name])

    def test_its_own_files_are_replaced(self):
        for _ in range(2):
            self.assertEqual(self.weir("ingest", "src.sqlite", "-o", "a.weir").returncode, 0)

    def test_no_store_without_its_manifest(self):
        self.refused("src.sqlite", "-o", "a.weir", "--manifest", "no/such/m.json", code="IO_ERROR", words=["m.json"])


if __name__ == "__main__":
    unittest.main()
