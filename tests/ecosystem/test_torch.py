"""The PyTorch of today: plans of models through torch.export, and the training example with its torchrun."""

import os
import subprocess
import sys
import unittest
from pathlib import Path

from tests.ecosystem.support import ROOT, require

require("torch", "numpy")

import torch
import weir


class Torch(unittest.TestCase):
    """Tests that say nothing of a version, run with this one."""

    def run_tests(self, path: str) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{Path(weir.__file__).parents[1]}:{ROOT}", "CUDA_VISIBLE_DEVICES": ""}
        done = subprocess.run([sys.executable, "-B", "-W", "ignore", str(ROOT / path)], env=environment, cwd=ROOT, capture_output=True,
                              text=True, check=False, timeout=550)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotIn("skipped", done.stderr if torch.__version__ >= "2" else "")

    def test_plans(self) -> None:
        self.run_tests("tests/python/test_plan.py")

    def test_training_and_torchrun(self) -> None:
        self.run_tests("tests/python/test_training.py")


if __name__ == "__main__":
    unittest.main()
