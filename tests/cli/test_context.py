"""weir context: what it prints and writes, and what it refuses."""

import json
import os
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

PROGRAM = os.environ["WEIR"]


class Contexts(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.weir("demo", "--scale", "1000", "--dir", str(cls.folder), "--no-run")

    @classmethod
    def weir(cls, *arguments: str, status: int = 0) -> str:
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, cwd=cls.folder)
        if done.returncode != status:
            raise AssertionError(f"exit status {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def ask(self, *arguments: str, status: int = 0) -> str:
        return self.weir("context", "--store", "shop.weir", "--task", "churn", *arguments, status=status)

    def test_a_person_is_told_what_it_is(self) -> None:
        said = self.ask("--key", "5", "--time", "2024-05-01")
        self.assertIn("task churn predicts churned (boolean)", said)
        self.assertIn("customers 5 (row ", said)
        self.assertIn("as of 2024-05-01T00:00:00Z", said)
        self.assertIn("not a seed of the store: the target is null", said)
        batch = json.loads(self.weir("batch", "--store", "shop.weir", "--manifest", "shop.manifest.json",
                                     "--dataset", "shop/churn/val", "--stage", "eval", "--json"))  # fmt: skip
        sample = batch["sequences"][1]
        said = self.ask("--key", str(sample["anchor_key"]), "--time", str(sample["observation_time"]))
        self.assertIn(f"sample {sample['sample_index']} of val: its label is the target", said)
        self.assertIn(sample["sample_digest"], said)

    def test_files_are_those_of_a_batch(self) -> None:
        self.ask("--key", "5", "--key", "7", "--time", "2024-05-01", "--npz", "c.npz", "--html", "c.html")
        with zipfile.ZipFile(self.folder / "c.npz") as file:
            self.assertIn("semantic_types.npy", file.namelist())
            self.assertIn(b"(2, 1024,)", file.read("column_ids.npy")[:128])
        page = (self.folder / "c.html").read_text("utf-8")
        self.assertIn("</html>", page)
        self.assertIn('"dataset": "shop/churn/train"', page)
        self.assertNotIn('"stage":', page)

    def test_one_time_for_all_or_one_for_each(self) -> None:
        asked = json.loads(self.ask("--key", "5", "--key", "7", "--time", "2024-05-01", "--time", "1714521600000001", "--json"))
        self.assertEqual([s["observation_time"] for s in asked["sequences"]], [1714521600000000, 1714521600000001])
        by_row = json.loads(self.ask("--row", str(asked["sequences"][1]["anchor_row"]), "--time", "1714521600000001", "--json"))
        self.assertEqual(by_row["sequences"][0]["sample_digest"], asked["sequences"][1]["sample_digest"])
        self.assertIn("for 3 rows", self.ask("--key", "1", "--key", "2", "--key", "3", "--time", "2024", "--time", "2025", status=2))

    def test_threads_change_nothing(self) -> None:
        manifest = json.loads((self.folder / "shop.manifest.json").read_text())
        manifest["batch"] |= {"labels": True, "retrieval": {"walks": 3000, "length": 20, "local_cells": 32}}
        (self.folder / "walks.json").write_text(json.dumps(manifest))
        asked = ["context", "--store", "shop.weir", "--task", "rating", "--row", "950", "--row", "960", "--manifest", "walks.json",
                 "--json", "--tensors"]  # fmt: skip
        alone = self.weir(*asked, "--threads", "1")
        for threads in ([], ["--threads", "2"], ["--threads", "5"]):
            self.assertEqual(self.weir(*asked, *threads), alone)
        self.assertIn("threads is 257", self.weir(*asked, "--threads", "257", status=1))

    def test_what_is_wrong_is_said(self) -> None:
        for arguments, status, expected in [
            ([], 2, "say whose context"),
            (["--key", "1", "--row", "2"], 2, "use one of them"),
            (["--key", "1", "--tensors"], 2, "--tensors belongs to --json"),
            (["--key", "1", "--npz", "shop.weir"], 2, "would replace an input"),
            (["--key", "1", "--npz", "x", "--html", "x"], 2, "name one file"),
            (["--key", "99999"], 1, "KEY_NOT_FOUND: table customers has no row with the key 99999"),
            (["--key", "[1, 2]"], 1, "a key of 2 values is given"),
            (["--row", "-1"], 1, "is not the number of a row"),
            (["--row", "4294967294"], 1, "KEY_NOT_FOUND"),
            (["--row", "+1"], 1, "--row '+1' is not the number of a row"),
            (["--key", "1", "--time", "soon"], 1, "--time 'soon' is not a time"),
            (["--key", "1", "--time", "-9223372036854775808"], 1, "CONTRACT_VIOLATION"),
            (["--key", "1", "--manifest", "nowhere.json"], 1, "IO_ERROR"),
        ]:
            with self.subTest(arguments):
                self.assertIn(expected, self.ask(*arguments, status=status))
        self.assertIn("it has: category, churn", self.weir("context", "--store", "shop.weir", "--task", "none", "--key", "1", status=1))
        self.assertTrue((self.folder / "shop.weir").stat().st_size > 4096)


if __name__ == "__main__":
    unittest.main()
