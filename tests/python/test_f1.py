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

import torch

F1 = Path(__file__).parents[2] / "examples" / "f1"
sys.path.insert(0, str(F1))
import f1  # noqa: E402
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


class Hiding(unittest.TestCase):
    """What is hidden in training: never the target, padding, or what is null anyway."""

    def inputs(self) -> dict:
        rows = torch.arange(60).expand(4, 60) // 5
        names = ("is_null", "is_target", "is_padding")
        inputs = {name: torch.zeros(4, 60, dtype=torch.bool) for name in names} | {"seq_row_ids": rows}
        for name, cell in zip(names, (7, 0, 59)):
            inputs[name][:, cell] = True
        return inputs

    def test_all(self) -> None:
        inputs = self.inputs()
        hidden = f1.hide(inputs, 1.0)
        self.assertEqual((~hidden).nonzero()[:, 1].tolist(), [0, 7, 59] * 4)
        self.assertEqual((~inputs["is_null"]).nonzero()[:, 1].tolist(), [0, 59] * 4)

    def test_rows_are_hidden_as_a_whole(self) -> None:
        torch.manual_seed(3)
        by_row = f1.hide(self.inputs(), 0.0, 0.5).view(4, 12, 5)[:, 2:11]
        self.assertTrue(torch.equal(by_row.all(-1), by_row.any(-1)))
        self.assertTrue(0 < by_row.sum() < by_row.numel())
        self.assertFalse(f1.hide(self.inputs(), 0.0, 0.0).any())


class EndToEnd(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.data, cls.out = Path(folder.name, "data"), Path(folder.name, "out")
        standin.main(cls.data)
        cls.shown = run(cls.data, "--out", cls.out, "--steps", 2, "--pretraining", 2)

    def test_seeds_are_as_defined(self) -> None:
        self.assertEqual(self.shown.count("  as defined; published: "), 9, self.shown)

    def test_live_model_is_pretrained(self) -> None:
        lines = [line for line in self.shown.splitlines() if line.startswith("run 0")]
        self.assertRegex(lines[0], r"^run 0 live +[0-9.]+ s  pretrained$")
        self.assertEqual([line.split()[2] for line in lines], ["live"] * 3 + ["ahead"] * 2, "which is not")

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
