"""weir's wheel as pip installs it: in every Python from 3.11 on that is here, with its command, its pages and its sources.

Environments: duckdb2
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

WHEEL = Path(os.environ["WEIR_WHEEL"])
NEWEST = 14
ROOT = Path(__file__).resolve().parents[2]
STORE_HASH = re.search(r'^STORE_HASH = "(.*)"', (ROOT / "tests/cli/test_demo.py").read_text(), re.M)[1]  # of 5000 rows


def pythons() -> dict[str, str]:
    """Every Python from 3.11 on that is on PATH or in pyenv, by its version."""
    found = {}
    places = [shutil.which(f"python3.{minor}") for minor in range(11, NEWEST + 1)]
    places += glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python")) + [sys.executable]
    for place in filter(None, places):
        code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([place, "-c", code], capture_output=True, text=True)
        version = done.stdout.strip()
        if done.returncode == 0 and int(version.split(".")[1]) >= 11:
            found.setdefault(version, place)
    return found


class Wheel(unittest.TestCase):
    def setUp(self) -> None:
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def run_ok(self, *command: object, **options: object) -> str:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=self.environment,
                              cwd=self.folder, **options)  # fmt: skip
        self.assertEqual(done.returncode, 0, f"{command}: {done.stdout}{done.stderr}")
        return done.stdout

    def install(self, python: str, name: str) -> Path:
        place = self.folder / name
        self.run_ok(python, "-m", "venv", place)
        self.run_ok(place / "bin/pip", "install", "--quiet", "--no-index", WHEEL)
        return place

    def check_command(self, weir: Path) -> None:
        made = json.loads(self.run_ok(weir, "demo", "--scale", "5000", "--dir", "shop", "--json"))
        self.assertEqual(made["store_hash"], STORE_HASH)
        arguments = ["--store", "shop/shop.weir", "--manifest", "shop/shop.manifest.json"]
        self.run_ok(weir, "batch", *arguments, "--dataset", "shop/churn/train", "--html", "batch.html")
        self.assertIn("</html>", (self.folder / "batch.html").read_text())
        self.run_ok(weir, "run", *arguments, "--steps", "20", "--workers", "2", "--trace", "run.trace")
        self.assertIn("every digest is equal", self.run_ok(weir, "replay", "run.trace", "--store", "shop/shop.weir"))
        (self.folder / "run.trace").unlink()

    def test_in_every_python(self) -> None:
        found = pythons()
        print("Python", ", ".join(sorted(found)))
        for version, python in sorted(found.items()):
            with self.subTest(version):
                place = self.install(python, version)
                self.check_command(place / "bin/weir")
                code = "import weir; print(weir.Store('shop/shop.weir'))"
                self.run_ok(place / "bin/python", "-c", code)
                self.assertIn("weir ", self.run_ok(place / "bin/python", "-m", "weir", "version"))
        for minor in range(11, NEWEST + 1):
            with self.subTest(minor):
                if f"3.{minor}" not in found:
                    self.skipTest(f"there is no Python 3.{minor} here")

    def test_it_has_no_less_than_a_build(self) -> None:
        weir = self.install(sys.executable, "one") / "bin/weir"
        build = json.loads(self.run_ok(os.environ["WEIR"], "version", "--json"))["components"]
        wheel = json.loads(self.run_ok(weir, "version", "--json"))["components"]
        compilers = {"gcc", "clang"}
        self.assertEqual(set(wheel) - compilers, set(build) - compilers)
        self.assertEqual(self.run_ok(weir, "help"), self.run_ok(os.environ["WEIR"], "help"))

    def test_pip_finds_nothing_missing(self) -> None:
        place = self.install(sys.executable, "one")
        self.assertIn("No broken requirements", self.run_ok(place / "bin/pip", "check"))
        shown = self.run_ok(place / "bin/pip", "show", "--files", "weir")
        self.assertIn("bin/weir", shown)
        self.assertIn("sboms/weir.cdx.json", shown)


if __name__ == "__main__":
    unittest.main()
