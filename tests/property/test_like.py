"""Stores like an earlier one, on random databases that change: against the reference, cell by cell.

Each case is made from its own seed, which a failure names; see tests/support/cases.py.
"""

import json
import os
import random
import shutil
import sqlite3
import sys
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT_ROOT))
sys.path.insert(1, str(PROJECT_ROOT / "tests"))

from reference.errors import WeirError  # noqa: E402
from reference.store import Store  # noqa: E402
from support import leak_database, random_database  # noqa: E402
from support.batches import run  # noqa: E402
from support.cases import ONLY_CASE, RandomCases, scratch_database  # noqa: E402
from support.store_compare import differences  # noqa: E402
from support.store_file import StoreFile  # noqa: E402

CASES = int(os.environ.get("WEIR_PROPERTY_CASES", "60"))

Json = Any


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def tables_of(database: sqlite3.Connection) -> list[str]:
    found = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
    return [name for (name,) in found]


def change_rows(rng: random.Random, database: sqlite3.Connection, schema: Json) -> None:
    """Rows go, and cells get values that nobody had: of numbers and categories alone, so that keys still match."""
    for table in tables_of(database):
        if rng.random() < 0.5:
            database.execute(f"DELETE FROM {quoted(table)} WHERE abs(random() % 4) = 0")
        described = schema["tables"].get(table, schema["tables"].get(table.removesuffix(" base"), {}))
        keys = described.get("primary_key", [])
        for name, column in described.get("columns", {}).items():
            is_key = name == keys or name in keys or "foreign_key" in column
            if column.get("stype") not in ("categorical", "numerical") or is_key or rng.random() < 0.4:
                continue
            value = "'never seen'" if column["stype"] == "categorical" else str(rng.choice([-3, 1e6, 7.5]))
            places = f"rowid IN (SELECT rowid FROM {quoted(table)} WHERE abs(random() % 3) = 0)"
            try:
                database.execute(f"UPDATE {quoted(table)} SET {quoted(name)} = {value} WHERE {places}")
            except sqlite3.Error:
                pass  # a key of another table, or a column that takes no such value
    database.commit()


def reorder_columns(rng: random.Random, database: sqlite3.Connection) -> None:
    """The same tables, declared in another order and without keys."""
    database.execute("PRAGMA legacy_alter_table = ON")
    for table in tables_of(database):
        columns = [(name, kind) for _, name, kind, *_ in database.execute(f"PRAGMA table_info({quoted(table)})")]
        rng.shuffle(columns)
        declared = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns)
        names = ", ".join(quoted(name) for name, _ in columns)
        database.execute(f"ALTER TABLE {quoted(table)} RENAME TO \"was\"")
        database.execute(f"CREATE TABLE {quoted(table)} ({declared})")
        database.execute(f"INSERT INTO {quoted(table)} ({names}) SELECT {names} FROM \"was\"")
        database.execute('DROP TABLE "was"')
    database.commit()


class LikeAnEarlierStore(RandomCases):
    def test_every_cell_is_that_of_the_reference(self) -> None:
        compared = changed = 0

        def check(rng: random.Random, folder: Path) -> None:
            nonlocal compared, changed
            first, second = folder / "a.sqlite", folder / "b.sqlite"
            if rng.random() < 0.6:
                schema = random_database.make(rng, first, rng.choice([3, 12, 40, 90]))
            else:
                schema = leak_database.make(rng, first)
            schema.update(keys=rng.random() < 0.8, name="db")
            (folder / "schema.json").write_text(json.dumps(schema), "utf-8")
            common = ["--schema", folder / "schema.json", "--threads", rng.choice([1, 2])]
            formats = random.Random(json.dumps(schema))  # one of its own, so that rng's rows stay what they were
            old, new = (["--format", formats.choice([1, 2])] for _ in range(2))
            if "error" in run("ingest", first, "-o", folder / "a.weir", *common, *old):
                return
            earlier = Store.ingest(first, json.dumps(schema))
            same = run("ingest", first, "-o", folder / "same.weir", "--like", folder / "a.weir", *common, *old)
            self.assertNotIn("error", same)
            self.assertEqual((folder / "same.weir").read_bytes(), (folder / "a.weir").read_bytes())
            shutil.copy(first, second)
            database = scratch_database(second)
            try:
                change_rows(rng, database, schema)
                if rng.random() < 0.4:
                    reorder_columns(rng, database)
            finally:
                database.close()
            made = run("ingest", second, "-o", folder / "b.weir", "--like", folder / "a.weir", *common, *new)
            try:
                expected = Store.ingest(second, json.dumps(schema), earlier)
            except WeirError as refused:
                self.assertEqual(made.get("error", {}).get("code_id"), refused.code_id)
                return
            self.assertNotIn("error", made)
            self.assertEqual(differences(StoreFile(folder / "b.weir"), expected), [])
            self.assertNotIn("error", run("verify", folder / "b.weir"))
            compared += 1
            changed += any(warning["code"] == "like_new_categories" for warning in made["warnings"])

        self.cases("like", check, CASES)
        self.assertTrue(ONLY_CASE or (compared >= CASES // 2 and changed >= CASES // 6), (compared, changed))


if __name__ == "__main__":
    unittest.main()
