"""The training example: a killed and resumed run is the run that was never killed, on one rank and on two."""

import subprocess
import sys
import unittest
from pathlib import Path

from tests.python.support import ShopTest

EXAMPLE = Path(__file__).parents[2] / "examples" / "prove_resume.py"


class Training(ShopTest):
    def test_killed_and_resumed(self) -> None:
        command = [sys.executable, str(EXAMPLE), str(self.folder), "--steps=8"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("same samples, same losses, bit for bit"), 2)
        self.assertIn("world sizes 1 and 2: the same samples in the same order", done.stdout)


if __name__ == "__main__":
    unittest.main()
