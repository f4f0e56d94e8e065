"""Random cases, each from a seed that a failure names: WEIR_CASE runs one alone, WEIR_PROPERTY_SALT tries others, and
WEIR_KEEP keeps what the one case wrote."""

import os
import random
import shutil
import sqlite3
import tempfile
import unittest
from collections.abc import Callable, Sequence
from pathlib import Path

SALT = os.environ.get("WEIR_PROPERTY_SALT", "")
ONLY_CASE = os.environ.get("WEIR_CASE")
KEEP = os.environ.get("WEIR_KEEP")
STRIDE = int(os.environ.get("WEIR_TEST_STRIDE", "1"))


def part_of(cases: Sequence) -> Sequence:
    """All of many like cases, or where a slow build (a sanitizer) says so, every n-th: the release build has run them all."""
    return cases[::STRIDE]


def bar(count: int) -> int:
    """How many cases of a kind a test must have seen more of, so that it is one: a part of them need have none."""
    return count if STRIDE == 1 else -1


def scratch_database(path: Path | str) -> sqlite3.Connection:
    """A database to write that need not survive a power failure: it does not wait for the disk."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


class RandomCases(unittest.TestCase):
    def cases(self, kind: str, check: Callable[[random.Random, Path], None], count: int) -> None:
        """Runs `check` on `count` cases, each with its own random numbers and a folder that is removed behind it."""
        seeds = [ONLY_CASE] if ONLY_CASE else [f"{kind} {i}{SALT}" for i in range(count)]
        for seed in seeds:
            if not seed.startswith(kind + " "):
                continue
            folder = Path(tempfile.mkdtemp(prefix="weir-cases-"))
            try:
                with self.subTest(seed=seed):
                    check(random.Random(seed), folder)
            finally:
                if KEEP and ONLY_CASE:
                    shutil.copytree(folder, KEEP, dirs_exist_ok=True)
                shutil.rmtree(folder)
