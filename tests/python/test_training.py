"""The training example: every type of target, and a killed and resumed run that is the run that was never killed, on one
rank and on two."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

from tests.python.support import ShopTest

EXAMPLES = Path(__file__).parents[2] / "examples"


class Training(ShopTest):
    def run_example(self, name: str, *arguments: str) -> str:
        command = [sys.executable, "-B", str(EXAMPLES / name), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_every_type_of_target(self) -> None:
        shown = self.run_example("train.py", "shop.weir", "category=2", "churn", "rating", "--steps=8", "--every=4",
                                 "--length=32", "--checkpoint=c")
        self.assertRegex(shown, r"category +accuracy [\d.]+ \([\d.]+ by chance\), over 4\n")
        self.assertRegex(shown, r"churn +auroc [\d.]+ \(0.500 by chance\), average_precision .*, over 50\n")
        self.assertRegex(shown, r"rating +mae [\d.]+ .*, over 29\n")
        losses = dict(re.findall(r"step +(\d+) .* category ([\d.]+)", shown))
        self.assertLess(float(losses["8"]), float(losses["4"]))
        again = self.run_example("train.py", "shop.weir", "category=2", "churn", "rating", "--steps=8", "--length=32",
                                 "--checkpoint=c")
        self.assertIn("resuming at step 8", again)
        self.assertEqual(again.splitlines()[-3:], shown.splitlines()[-3:], "nothing was left to train")

    def test_a_task_that_is_not_there(self) -> None:
        command = [sys.executable, str(EXAMPLES / "train.py"), "shop.weir", "chrun"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        self.assertIn("shop.weir has no task chrun; it has category, churn", done.stderr)

    def test_killed_and_resumed(self) -> None:
        shown = self.run_example("prove_resume.py", "shop.weir", "late", "category", "--steps=8")
        self.assertEqual(shown.count("same samples, same losses, bit for bit"), 2)
        self.assertIn("world sizes 1 and 2: the same samples in the same order", shown)


if __name__ == "__main__":
    unittest.main()
