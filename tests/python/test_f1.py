"""The Formula 1 example on a small made-up database with the same tables: from CSV files to keyed predictions."""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

F1 = Path(__file__).parents[2] / "examples" / "f1"
sys.path.insert(0, str(F1))
import standin  # noqa: E402
import tasks  # noqa: E402


def run(*arguments: object, succeeds: bool = True) -> str:
    command = [sys.executable, "-B", str(F1 / "f1.py"), *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500, env=environment)
    if (done.returncode == 0) != succeeds:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout if succeeds else done.stderr


class Definition(unittest.TestCase):
    """The tasks in plain Python, on cases that can be counted by hand."""

    def labels(self, question: str, *outcomes: tuple[int, int, float]) -> list[tuple[tuple[int, int], float]]:
        window = tasks.QUESTIONS[question]["days"] * tasks.DAY
        return list(tasks._labels(sorted(outcomes), [0], window, question))

    def test_labels(self) -> None:
        day = tasks.DAY
        self.assertEqual(self.labels("position", (day, 7, 3.0), (60 * day, 7, 4.0)), [((7, 0), 3.5)])
        self.assertEqual(self.labels("dnf", (1, 7, 1.0), (2, 7, 5.0), (3, 8, 1.0)), [((7, 0), 1.0), ((8, 0), 0.0)])
        self.assertEqual(self.labels("top3", (1, 7, 4.0), (2, 7, 3.0), (3, 8, 4.0)), [((7, 0), 1.0), ((8, 0), 0.0)])

    def test_windows_are_open_at_their_beginning_and_closed_at_their_end(self) -> None:
        end = 30 * tasks.DAY
        self.assertEqual(self.labels("dnf", (0, 7, 1.0), (end + 1, 8, 1.0)), [])
        self.assertEqual(self.labels("dnf", (end, 7, 1.0)), [((7, 0), 0.0)])


class EndToEnd(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.data, cls.out = Path(folder.name, "data"), Path(folder.name, "out")
        standin.main(cls.data)
        cls.shown = run(cls.data, "--out", cls.out, "--steps", 2)

    def test_seeds_are_as_defined(self) -> None:
        self.assertEqual(self.shown.count("  as defined; published: "), 9, self.shown)

    def test_predictions_are_keyed(self) -> None:
        expected = {question: tasks.seeds_by_definition(self.data, question) for question in tasks.PUBLISHED}
        with open(self.out / "predictions-0.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        for regime in ("live", "frozen"):
            for split in ("val", "test"):
                for question in tasks.PUBLISHED:
                    found = [row for row in rows if (row["regime"], row["split"], row["task"]) == (regime, split, question)]
                    drivers = Counter((row["driverId"], float(row["label"])) for row in found)
                    seeds = expected[question][split].items()
                    self.assertEqual(drivers, Counter((str(driver), round(label, 5)) for (driver, _), label in seeds))
        predicted = {(row["regime"], row["task"], row["driverId"], row["cutoff"]): row["prediction"] for row in rows}
        later = [key[1:] for key in predicted if key[0] == "live" and key[3] >= "2010-06"]
        self.assertTrue(all(predicted["live", *key] != predicted["frozen", *key] for key in later), "frozen sees less")

    def test_report(self) -> None:
        shown = run("--out", self.out, "--report")
        self.assertEqual(shown.strip(), self.shown[self.shown.index("\nlive ") :].strip())
        self.assertIn("GNN (RelBench), test                             0.7261      0.6801         4.062", shown)

    def test_labels_that_are_not_as_defined(self) -> None:
        other = self.out / "other"
        shutil.copytree(self.data, other)
        text = (other / "qualifying.csv").read_text().splitlines()
        (other / "qualifying.csv").write_text("\n".join([text[0], *text[20:]]) + "\n")
        shown = run(other, "--out", self.out, "--store", self.out / "f1.weir", succeeds=False)
        self.assertIn("top3/train: ", shown)
        self.assertIn("seeds are not as the task defines them", shown)

    def test_options_that_cannot_be(self) -> None:
        folder = self.out / "unwritten"
        self.assertIn("--steps 1 is too few: there are 2 evaluations", run(self.data, "--out", folder, "--steps", 1, succeeds=False))
        self.assertIn("name the folder with the CSV files", run("--out", folder, succeeds=False))
        self.assertFalse(folder.exists())

    def test_missing_files(self) -> None:
        shown = run(self.out, "--out", self.out, succeeds=False)
        self.assertIn("lacks circuits.csv, constructors.csv", shown)
        self.assertIn("relbench.stanford.edu", shown)


if __name__ == "__main__":
    unittest.main()
