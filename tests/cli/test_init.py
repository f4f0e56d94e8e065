"""weir init: asks what to predict, writes a schema with one task, ingests, and makes a page; also without asking."""

import json
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from tests.support import standins  # noqa: E402

WEIR = os.environ["WEIR"]


class Init(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = Path(self.scratch.name)
        self.source = standins.write_csv(standins.formula_1(random.Random(1)), self.folder / "f1")
        self.made = self.folder / "made"

    def init(self, *options, answers="", source=None):
        command = [WEIR, "init", source or self.source, "--dir", self.made, *options]
        return subprocess.run(list(map(str, command)), input=answers, capture_output=True, text=True, check=False)

    def schema(self):
        return json.loads((self.made / "f1.schema.json").read_text())

    def test_asked(self):
        done = self.init(answers="no such\n0\n2\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("What should be predicted?", done.stdout)
        self.assertIn("no such is not in the list.", done.stdout)
        tasks = self.schema()["tasks"]
        self.assertEqual(len(tasks), 1)
        ((name, task),) = tasks.items()
        self.assertIn(f"   2  {name} (", done.stdout)
        self.assertEqual(task["split"]["method"], "temporal")
        self.assertEqual(sorted(path.name for path in self.made.iterdir()),
                         ["f1.manifest.json", "f1.report.html", "f1.schema.json", "f1.schema.notes.md", "f1.weir"])
        self.assertIn("ingest report", (self.made / "f1.report.html").read_text())
        again = subprocess.run([WEIR, "ingest", self.source, "--schema", self.made / "f1.schema.json", "-o", self.made / "again.weir"],
                               capture_output=True, check=True)
        self.assertTrue(again.stdout)
        self.assertEqual((self.made / "again.weir").read_bytes(), (self.made / "f1.weir").read_bytes())

    def test_proposed(self):
        """An empty line and --yes take the same."""
        self.assertEqual(self.init(answers="\n").returncode, 0)
        first = self.schema()
        refused = self.init("--yes")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("is there already", refused.stderr)
        self.assertEqual(self.init("--yes", "--force").returncode, 0)
        self.assertEqual(self.schema(), first)

    def test_target(self):
        done = self.init("--target", "results.position", "--json")
        self.assertEqual(done.returncode, 0, done.stdout)
        report = json.loads(done.stdout)
        self.assertEqual([task["name"] for task in report["report"]["tasks"]], ["results.position"])
        self.assertEqual(self.schema()["tasks"]["results.position"]["drop_columns"], ["results.positionText", "results.positionOrder"])

    def test_many_columns(self):
        """Of more columns than a message has room for, the rest are counted."""
        names = [f"a_long_measure_{i}" for i in range(60)]
        wide = self.folder / "wide"
        wide.mkdir()
        rows = [",".join(["id", *names])] + [",".join([str(i)] + [f"{i * 7 % 31}.5"] * 60) for i in range(50)]
        (wide / "t.csv").write_text("\n".join(rows) + "\n")
        said = self.init("--target", "t.nothing", source=wide).stderr
        listed, more = said.strip().rsplit(" and ", 1)
        shown = listed.split("these can: ")[1].split(", ")
        self.assertEqual(shown, [f"t.{name}" for name in names[: len(shown)]])
        self.assertEqual(more, f"{60 - len(shown)} more")

    def test_refusals(self):
        for options, word in ((("--target", "results.nothing"), "results.nothing is not a column that can be predicted; these can: "),
                              (("--target", "results.raceId"), "is not a column that can be predicted")):
            done = self.init(*options)
            self.assertEqual(done.returncode, 1)
            self.assertIn(word, done.stderr)
        silent = self.init()
        self.assertEqual(silent.returncode, 1)
        self.assertIn("nothing was chosen, nothing was written", silent.stderr)
        self.assertEqual(self.init("--json").returncode, 2)
        self.assertFalse(self.made.exists())


if __name__ == "__main__":
    unittest.main()
