"""The tools that make calls: what they tell a person. Plain Python and shell; nothing is installed."""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from checking import skipped_inside  # noqa: E402


class Skipped(unittest.TestCase):
    """What was skipped inside a test that passed is found by the words of the test frameworks of this machine."""

    UNITTEST = """import unittest
class A(unittest.TestCase):
    def test_plain(self): self.skipTest("no reason")
    def test_documented(self):
        "What it is for."
        self.skipTest("it's late")
    def test_passes(self): pass
@unittest.skip("all of it")
class B(unittest.TestCase):
    def test_one(self): pass
unittest.main()
"""

    def test_unittest(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.py"
            path.write_text(self.UNITTEST)
            output = subprocess.run([sys.executable, "-B", path, "-v"], stderr=subprocess.PIPE, text=True, check=True).stderr
        self.assertEqual(sorted(skipped_inside(output)),
                         [("test_documented", "it's late"), ("test_one", "all of it"), ("test_plain", "no reason")])

    def test_cmocka(self):
        output = ("[ RUN      ] one\nskipped: no such thing here\n[  SKIPPED ] one\n[ RUN      ] two\n[       OK ] two\n"
                  "[==========] 2 test(s) run.\n[  PASSED  ] 1 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n"
                  "[  SKIPPED ] one\n")
        self.assertEqual(skipped_inside(output), [("one", "no such thing here")])
        self.assertEqual(skipped_inside("[  SKIPPED ] one\n"), [("one", "its source says why")])


class Bootstrap(unittest.TestCase):
    def run_bare(self, *arguments, programs=("sh", "dirname", "echo", "tr", "id")):
        """With nothing on PATH but these, so that nothing counts as installed and nobody can install."""
        with tempfile.TemporaryDirectory() as folder:
            for name in programs:
                found = subprocess.run(["which", name], capture_output=True, text=True).stdout.strip()
                if found:
                    (Path(folder) / name).symlink_to(found)
            return subprocess.run([ROOT / "tools/bootstrap", *arguments], env={"PATH": folder}, capture_output=True, text=True)

    def test_a_machine_that_is_no_debian_gets_the_names(self):
        done = self.run_bare("build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("names as in Debian 12", done.stderr)
        self.assertIn("libssl-dev", done.stderr)
        self.assertIn("libssl-dev", self.run_bare("--missing", "build").stdout.split())

    def test_a_demo_needs_no_tests(self):
        """README's first command: the program and nothing else."""
        needed = set(self.run_bare("--missing", "build").stdout.split())
        self.assertEqual({name for name in needed if re.search("python|cmocka|clang|torch", name)}, set())

    def test_unknown_tasks(self):
        self.assertEqual(self.run_bare("everything").returncode, 2)

    def test_every_task_of_the_makefile_is_known(self):
        for task in set(re.findall(r"tools/bootstrap (\w+)", (ROOT / "Makefile").read_text())):
            with self.subTest(task):
                self.assertEqual(self.run_bare("--missing", task).returncode, 0)


class ReleaseNotes(unittest.TestCase):
    def notes(self, *arguments):
        return subprocess.run([ROOT / "tools/release-notes", *arguments], capture_output=True, text=True)

    def test_the_section_of_this_version(self):
        version = re.search(r'WEIR_VERSION "(.*)"', (ROOT / "include/weir/base.h").read_text())[1]
        done = self.notes()
        self.assertTrue(done.stdout.startswith(f"weir {version}"), done.stdout[:80])
        self.assertEqual(done.stdout.count("\nweir ") + done.stdout.count("\n## "), 0)
        self.assertEqual(done.returncode, 1 if "(unreleased)" in done.stdout.splitlines()[0] else 0)

    def test_no_such_version(self):
        done = self.notes("99.0.0")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("no section '## 99.0.0'", done.stderr)


class Fuzzing(unittest.TestCase):
    """tools/fuzz, with scripts in the place of targets."""

    RUNS = "echo stat::number_of_executed_units: 7; echo stat::new_units_added: 2"
    FINDS = "for word; do case $word in -artifact_prefix=*) touch ${word#*=}crash-1; echo $word;; esac; done; exit 77"

    def fuzz(self, seconds=1, **targets):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "tests/fuzz").mkdir(parents=True)
            for name, script in targets.items():
                path = Path(folder) / "tests/fuzz" / f"fuzz_{name}"
                path.write_text(f"#!/bin/sh\n{script}\n")
                path.chmod(0o755)
            return subprocess.run([sys.executable, "-B", ROOT / "tools/fuzz", folder, str(seconds)], capture_output=True, text=True)

    def test_turns(self):
        done = self.fuzz(61, cbor=self.RUNS, canary=self.FINDS)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(done.stdout, r"(?m)^cbor +14 .* 4$")
        self.assertTrue(done.stdout.endswith("no finding\n"), done.stdout)

    def test_what_must_not_pass(self):
        for canary, other, why in (
            (self.FINDS, self.FINDS, "cbor .* a finding in"),
            (self.FINDS, "exit 3", "cbor .* exit status 3"),
            (self.FINDS, "exit 0", "cbor .* it executed nothing"),
            (self.RUNS, self.RUNS, "canary .* its bug was not found"),
        ):
            done = self.fuzz(cbor=other, canary=canary)
            self.assertEqual((done.returncode, done.stderr), (1, ""), done.stdout)
            self.assertRegex(done.stdout, why)

    def test_no_turn_at_all(self):
        self.assertEqual(self.fuzz(0, canary=self.RUNS).returncode, 2)
        self.assertNotEqual(self.fuzz().returncode, 0)

    def test_a_target_that_cannot_start_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tests/fuzz/fuzz_cbor"
            path.parent.mkdir(parents=True)
            path.write_text("#!/no/such/program\n")
            path.chmod(0o755)
            done = subprocess.run([sys.executable, "-B", ROOT / "tools/fuzz", folder, "1"], capture_output=True, text=True)
        self.assertNotEqual(done.returncode, 0, done.stdout)


class Everywhere(unittest.TestCase):
    def test_scripts_are_programs(self):
        for path in [*(ROOT / "tools").iterdir(), ROOT / ".ci/run"]:
            if path.is_file() and path.read_bytes().startswith(b"#!") and path.suffix != ".py":
                self.assertTrue(os.access(path, os.X_OK), path.name)


if __name__ == "__main__":
    unittest.main()
