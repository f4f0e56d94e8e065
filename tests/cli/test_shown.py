"""What `weir info` and `weir manifest` tell a person about a store's tasks and a manifest's draws."""

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from tests.cli.test_links import SCHEMA, make_database
from tests.support.batches import PROGRAM

LABELS = {"query": "SELECT reader, at, book % 2 AS odd, date(at, '+9 days') AS told, 1.0 + book AS much FROM loans",
          "anchor_table": "readers", "anchor_key": "reader", "target_column": "odd", "target_stype": "boolean",
          "observation_time_column": "at", "split": {"method": "hash", "permille": [800, 100, 100], "seed": 0}}  # fmt: skip


def weir(*arguments: object) -> str:
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{arguments}: {done.stdout}{done.stderr}")
    return done.stdout


class Shown(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        make_database(self.folder / "library.sqlite")

    def ingest(self, tasks: dict) -> None:
        (self.folder / "s.json").write_text(json.dumps({**SCHEMA, "tasks": tasks}))
        weir("ingest", self.folder / "library.sqlite", "--schema", self.folder / "s.json", "-o", self.folder / "x.weir")

    def test_when_labels_are_known(self) -> None:
        spans = {"30d": "30 days", "1h": "1 hour", "90m": "90 minutes", "1s": "1 second", "1500ms": "1500000 microseconds",
                 "0s": "0 microseconds"}  # fmt: skip
        tasks = {f"t{span}": {**LABELS, "horizon": span} for span in spans}
        self.ingest({**tasks, "told": {**LABELS, "label_known_column": "told"}})
        shown = weir("info", self.folder / "x.weir")
        for words in spans.values():
            self.assertIn(f"120 labels have a time: a label is known {words} after its seed is observed\n", shown)
        self.assertIn("120 labels have a time: a label is known when told says\n", shown)

    def test_links(self) -> None:
        links = dict(SCHEMA["tasks"]["reads"])
        plain = {key: value for key, value in links.items() if key != "popularity"}
        plain["query"] += " AND l.book < 15"  # the others are printed in February
        self.ingest({"counted": links, "plain": plain})
        shown = weir("info", self.folder / "x.weir")
        counted, uncounted = (line.strip() for line in shown.splitlines() if line.startswith("    links to"))
        late = r"\d+ pairs left out whose destination came later"
        self.assertRegex(counted, rf"^links to books, \d+ lists; {late}; popularity by loans.book$")
        self.assertRegex(uncounted, r"^links to books, \d+ lists$")

    def test_how_a_manifest_draws(self) -> None:
        self.ingest({"odd": {**LABELS, "weight_column": "much"}, "even": LABELS})
        path = self.folder / "x.manifest.json"
        manifest = json.loads(path.read_text())
        self.assertNotRegex(weir("manifest", path), "drawn|in turn")
        manifest["batch"]["sequence_length"] = [64, 32]
        manifest["global_batch_size"] = 8
        for mode, by in (({"mode": "class_balanced"}, "class"), ({"mode": "weighted", "column": "much"}, "weight")):
            manifest["data"]["sampling"] = {**mode, "datasets": ["library/odd/train"]}
            path.write_text(json.dumps(manifest))
            shown = weir("manifest", path)
            self.assertIn("training steps of 64, 32 cells per sequence, in turn\n", shown)
            self.assertRegex(shown, rf"library/odd/train +\d+ samples, drawn by {by}, weight 1 of 2\n")
            self.assertRegex(shown, r"library/even/train +\d+ samples, weight 1 of 2\n")


if __name__ == "__main__":
    unittest.main()
