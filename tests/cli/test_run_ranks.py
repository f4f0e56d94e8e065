"""Ranks that a launcher starts: together they are one run."""
import json
import os
import re
import shutil
import subprocess
import unittest
from pathlib import Path

from tests.support.demo import small_demo
from tests.support.processes import environment

WEIR = os.environ["WEIR"]
STEPS = 60

shop: Path  # the folder of a small shop


def setUpModule():
    global shop
    shop = small_demo()


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, env=environment())
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}")
    return done.stdout


@unittest.skipUnless(shutil.which("mpirun"), "Open MPI is not installed")
class Ranks(unittest.TestCase):
    def test_mpirun_merged_is_world_size_1(self):
        single = shop / "single.trace"
        command = [WEIR, "run", "--store", shop / "shop.weir", "--manifest", shop / "shop.manifest.json", "--steps", STEPS, "--trace"]
        run(*command, single)
        for ranks in 2, 4, 8:
            with self.subTest(ranks=ranks):
                trace = shop / f"{ranks}.trace"
                said = run("mpirun", "-n", ranks, "--oversubscribe", "--allow-run-as-root", *command, trace)
                self.assertEqual(sorted(re.findall(r"rank (\d) of (\d): steps 0 to", said)),
                                 [(str(rank), str(ranks)) for rank in range(ranks)])
                merged = run(WEIR, "merge", *[f"{trace}.rank{rank}" for rank in range(ranks)], "--single", single, "--json")
                report = json.loads(merged)
                self.assertEqual((report["steps"], report["unchecked_digests"]), (STEPS, 0))
                self.assertEqual(report["digests"], report["samples"])


if __name__ == "__main__":
    unittest.main()
