"""Ingest against the reference, on random databases.

Each case is made from its own seed, a text such as "store 17", which a failure names. The program ingests the
database; what `weir info --json` says and every number in the file must be what the reference says, and where
one of the two refuses, the other must refuse with the same error. The file is read by a reader that was
written from docs/format.md. To look at one case alone, set WEIR_CASE to its seed (its files stay in the
folder that WEIR_KEEP names); to try other cases, set WEIR_PROPERTY_SALT to anything.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

PROJECT_ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT_ROOT), str(PROJECT_ROOT / "tests")]

from reference.database import Database  # noqa: E402
from reference.draft import draft_schema  # noqa: E402
from reference.errors import WeirError  # noqa: E402
from reference.store import Store  # noqa: E402
from support import random_database  # noqa: E402
from support.cases import RandomCases, scratch_database  # noqa: E402
from support.random_database import quoted  # noqa: E402
from support.store_compare import differences  # noqa: E402
from support.store_file import StoreFile  # noqa: E402

PROGRAM = os.environ.get("WEIR", str(PROJECT_ROOT / "build" / "weir"))
CASES = int(os.environ.get("WEIR_PROPERTY_CASES", "60"))
TIMEOUT_SECONDS = 120

Json = Any


def run(*arguments: str | Path) -> tuple[Json, str | None]:
    """What a command prints, and the code_id of its error."""
    command = [PROGRAM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=TIMEOUT_SECONDS, check=False)
    if done.returncode not in (0, 1):
        said = done.stderr.decode("utf-8", "replace")
        raise AssertionError(f"exit status {done.returncode} of {command}: {said}")
    printed = json.loads(done.stdout.decode("utf-8"))
    if done.returncode == 1:
        return printed, printed["error"]["code_id"]
    return printed, None


def holds(said: Json, expected: Json) -> bool:
    """Whether what was said is what is expected, where objects may say more."""
    if isinstance(expected, dict):
        has_keys = isinstance(said, dict) and expected.keys() <= said.keys()
        return has_keys and all(holds(said[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        same_length = isinstance(said, list) and len(said) == len(expected)
        return same_length and all(holds(a, b) for a, b in zip(said, expected))
    if isinstance(expected, float) or isinstance(said, float):
        return isinstance(said, (int, float)) and repr(float(said)) == repr(float(expected))
    return said == expected


def parts_that_differ(said: Json, expected: Json, path: str = "info") -> list[str]:
    if holds(said, expected):
        return []
    if isinstance(expected, dict) and isinstance(said, dict):
        pairs = [(f"{path}.{key}", said.get(key), expected[key]) for key in expected]
        return [part for place, *pair in pairs for part in parts_that_differ(*pair, place)]
    if isinstance(expected, list) and isinstance(said, list) and len(said) == len(expected):
        pairs = [(f"{path}[{i}]", said[i], expected[i]) for i in range(len(said))]
        return [part for place, *pair in pairs for part in parts_that_differ(*pair, place)]
    return [f"{path}: the program says {said!r}, the reference {expected!r}"]


class Case(RandomCases):
    def compare(self, database: Path, schema: Json | None, rng: random.Random) -> None:
        """Ingests by both and compares everything."""
        output = database.with_suffix(".weir")
        threads = f"--threads={rng.randint(1, 4)}"
        arguments: list[str | Path] = ["ingest", database, "-o", output, "--json", threads]
        schema_text = None
        if schema is not None:
            schema_text = json.dumps(schema, ensure_ascii=rng.random() < 0.5)
            schema_path = database.with_suffix(".schema.json")
            schema_path.write_text(schema_text, "utf-8")
            arguments += ["--schema", schema_path]
        wanted = rng.choice([0, 0, 1, 2])
        printed, error = run(*arguments, *(["--format", str(wanted)] if wanted else []))
        try:
            store = Store.ingest(database, schema_text, format=wanted)
        except WeirError as refused:
            self.assertEqual(error, refused.code_id, f"the reference refuses: {refused.message}")
            self.assertFalse(output.exists(), "a store is left behind")
            return
        self.assertIsNone(error, printed)
        info, _ = run("info", output, "--json")
        self.assertEqual(parts_that_differ(info, store.info()), [])
        file = StoreFile(output)
        self.assertEqual(file.format, 2 if wanted == 2 else 1)
        self.assertEqual(differences(file, store), [])
        self.assertEqual(printed["store_hash"], file.store_hash.hex())
        _, broken = run("verify", output, "--json")
        self.assertIsNone(broken)


class RandomDatabases(Case):
    def test_store(self) -> None:
        def check(rng: random.Random, folder: Path) -> None:
            database = folder / "db.sqlite"
            schema = random_database.make(rng, database, rng.choice([3, 12, 40]))
            self.compare(database, schema, rng)

        self.cases("store", check, CASES)

    def test_blocks(self) -> None:
        """Tables longer than a block of the statistics."""

        def check(rng: random.Random, folder: Path) -> None:
            database = folder / "db.sqlite"
            schema = random_database.make(rng, database, rng.choice([4096, 4097, 9000]))
            self.compare(database, schema, rng)

        self.cases("blocks", check, max(1, CASES // 50))

    def test_draft(self) -> None:
        def check(rng: random.Random, folder: Path) -> None:
            path = folder / f"{rng.choice(['db', 'my.shop', 'x y'])}.sqlite"
            if rng.random() < 0.7:
                random_database.make_for_drafting(rng, path)
            else:
                random_database.make(rng, path, rng.choice([3, 40, 400]))
            printed, error = run("schema", path)
            self.assertIsNone(error)
            database = Database(path)
            drafted = draft_schema(database)
            database.close()
            self.assertEqual(printed, drafted)
            self.compare(path, None, rng)

        self.cases("draft", check, CASES)

    def test_threads_and_order_of_rows_do_not_matter(self) -> None:
        """The same rows inserted in another order, read by other numbers of threads, give the same bytes."""

        def check(rng: random.Random, folder: Path) -> None:
            database, shuffled = folder / "db.sqlite", folder / "other.sqlite"
            schema = random_database.make(rng, database, rng.choice([40, 5000]))
            schema["name"] = "same"
            for task in schema.get("tasks", {}).values():
                task["query"] = task["query"].replace("rowid % 4", "1").replace("rowid % 3", "0")
            schema_path, output = folder / "schema.json", folder / "out.weir"
            schema_path.write_text(json.dumps(schema), "utf-8")
            shutil.copy(database, shuffled)
            shuffle_rows(shuffled, rng)
            said = [
                run("ingest", source, "--schema", schema_path, "-o", output, f"--threads={threads}", "--json")
                for source, threads in ((database, 1), (database, 3), (shuffled, 2))
            ]
            hashes = {error or printed["store_hash"] for printed, error in said}
            self.assertEqual(len(hashes), 1, said)

        self.cases("order", check, max(1, CASES // 5))


def shuffle_rows(path: Path, rng: random.Random) -> None:
    """Takes all rows out and puts them back in another order, where they get other rowids."""
    connection = scratch_database(path)
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for name in names:
        rows = connection.execute(f"SELECT * FROM {quoted(name)}").fetchall()
        rng.shuffle(rows)
        connection.execute(f"DELETE FROM {quoted(name)}")
        if rows:
            places = ", ".join("?" for _ in rows[0])
            connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({places})", rows)
    connection.commit()
    connection.close()


# ---- One fault at a time -----------------------------------------------------------------------------------

WHOLE = """
CREATE TABLE people (id, name, born, tall, alive, kind, boss, team, code);
INSERT INTO people VALUES (1, 'Ada', '2000-01-01', 1.5, 1, 'x', NULL, 'red', 5);
INSERT INTO people VALUES ('two', 'Bo', 86400, '1.75', 'no', 7, 1, 'blue', 6);
INSERT INTO people VALUES (3.5, NULL, NULL, NULL, NULL, NULL, 'two', 'none', NULL);
CREATE TABLE teams (team, size);
INSERT INTO teams VALUES ('red', 1), ('blue', 2);
"""
SCHEMA = {
    "name": "people",
    "tables": {
        "people": {
            "primary_key": "id",
            "temporal_column": "born",
            "columns": {
                "id": {"stype": "identifier"},
                "name": {"stype": "text"},
                "born": {"stype": "timestamp"},
                "tall": {"stype": "numerical"},
                "alive": {"stype": "boolean"},
                "kind": {"stype": "categorical"},
                "boss": {"stype": "identifier", "foreign_key": "people.id"},
                "team": {"stype": "identifier", "foreign_key": "teams.team"},
            },
        },
        "teams": {
            "primary_key": "team",
            "columns": {"team": {"stype": "identifier"}, "size": {"stype": "numerical"}},
        },
    },
    "tasks": {
        "t": {
            "query": "SELECT id, 1 AS y, '2024-01-01' AS seen, 'train' AS part FROM people",
            "anchor_table": "people",
            "anchor_key": "id",
            "target_column": "y",
            "target_stype": "boolean",
            "observation_time_column": "seen",
            "split": {"method": "column", "column": "part"},
        }
    },
    "embedding": {"dim": 4},
}

FAULTS_IN_ROWS = {
    "null key": "UPDATE people SET id = NULL WHERE id = 1",
    "repeated key": "INSERT INTO people (id) VALUES (1.0)",
    "repeated text key": "INSERT INTO people (id) VALUES ('two')",
    "text that is no number": "UPDATE people SET tall = '1,5' WHERE id = 1",
    "number in hex": "UPDATE people SET tall = '0x10' WHERE id = 1",
    "number with a space": "UPDATE people SET tall = ' 1' WHERE id = 1",
    "blob as number": "UPDATE people SET tall = x'31' WHERE id = 1",
    "no time": "UPDATE people SET born = 'soon' WHERE id = 1",
    "real time": "UPDATE people SET born = 1.5 WHERE id = 1",
    "time that does not fit": "UPDATE people SET born = 9223372036855 WHERE id = 1",
    "no boolean": "UPDATE people SET alive = 2 WHERE id = 1",
    "no boolean word": "UPDATE people SET alive = 'y' WHERE id = 1",
    "blob as category": "UPDATE people SET kind = x'31' WHERE id = 1",
    "blob as text": "UPDATE people SET name = x'31' WHERE id = 1",
    "text that is not UTF-8": "UPDATE people SET name = CAST(x'ff' AS TEXT) WHERE id = 1",
    "key that is not UTF-8": "UPDATE people SET id = CAST(x'c3' AS TEXT) WHERE id = 1",
    "repeated target of keys": "INSERT INTO teams VALUES ('red', 9)",
    "missing table": "DROP TABLE teams",
    "missing column": "ALTER TABLE teams RENAME COLUMN size TO width",
}  # fmt: skip
Change = tuple[str, Json]
COLUMNS = "id, 1 AS y, '2024-01-01' AS seen, 'train' AS part"
ABSENT = object()
FAULTS_IN_SCHEMA: dict[str, Change] = {
    "unknown key": ("colour", 1),
    "unknown key in a table": ("tables.people.colour", 1),
    "unknown key in a column": ("tables.people.columns.name.colour", 1),
    "unknown key in a task": ("tasks.t.colour", 1),
    "unknown key in a split": ("tasks.t.split.seed", 1),
    "unknown type": ("tables.people.columns.name.stype", "string"),
    "no type": ("tables.people.columns.name.stype", ABSENT),
    "unknown unit": ("tables.people.columns.born.unit", "h"),
    "temporal column that is no timestamp": ("tables.people.temporal_column", "name"),
    "temporal column that is ignored": ("tables.people.columns.born.stype", "ignored"),
    "known_at that is no timestamp": ("tables.people.columns.kind.known_at", "name"),
    "known_at that is not there": ("tables.people.columns.kind.known_at", "nothing"),
    "key that is not there": ("tables.people.primary_key", "nothing"),
    "foreign key without a dot": ("tables.people.columns.boss.foreign_key", "people"),
    "foreign key to no table": ("tables.people.columns.boss.foreign_key", "nobody.id"),
    "foreign key to no column": ("tables.people.columns.boss.foreign_key", "people.nothing"),
    "statistics_until that is no time": ("statistics_until", "soon"),
    "name with a slash": ("name", "a/b"),
    "column that is not there": ("tables.people.columns.nothing", {"stype": "text"}),
    "query that fails": ("tasks.t.query", "SELECT nothing FROM people"),
    "query that is no query": ("tasks.t.query", "SELEKT"),
    "empty query": ("tasks.t.query", ""),
    "query that writes": ("tasks.t.query", f"DELETE FROM people RETURNING {COLUMNS}"),
    "query without the key": ("tasks.t.anchor_key", "nothing"),
    "query without the target": ("tasks.t.target_column", "nothing"),
    "query without the time": ("tasks.t.observation_time_column", "nothing"),
    "query without the split": ("tasks.t.split.column", "nothing"),
    "query with the key twice": ("tasks.t.query", f"SELECT *, 7 AS id FROM (SELECT {COLUMNS} FROM people)"),
    "query with the target twice": ("tasks.t.query", f"SELECT 0 AS y, * FROM (SELECT {COLUMNS} FROM people)"),
    "query with the time twice": ("tasks.t.query", f"SELECT *, 0 AS seen FROM (SELECT {COLUMNS} FROM people)"),
    "query with the split twice": ("tasks.t.query", f"SELECT 'val' AS part, * FROM (SELECT {COLUMNS} FROM people)"),
    "unfit target": ("tasks.t.query", "SELECT id, 7 AS y, '2024-01-01' AS seen, 'train' AS part FROM people"),
    "unfit time": ("tasks.t.query", "SELECT id, 1 AS y, 'soon' AS seen, 'train' AS part FROM people"),
    "unknown split": ("tasks.t.query", "SELECT id, 1 AS y, '2024-01-01' AS seen, 'dev' AS part FROM people"),
    "null split": ("tasks.t.query", "SELECT id, 1 AS y, '2024-01-01' AS seen, NULL AS part FROM people"),
    "unknown method": ("tasks.t.split", {"method": "random"}),
    "permille that does not add up": ("tasks.t.split", {"method": "hash", "permille": [1, 2, 3]}),
    "too few permille": ("tasks.t.split", {"method": "hash", "permille": [1000]}),
    "unknown kind": ("tasks.t.kind", "node"),
    "cell task about no column": ("tasks.t.kind", "cell"),
    "text as target": ("tasks.t.target_stype", "text"),
    "unknown anchor table": ("tasks.t.anchor_table", "nobody"),
    "dropped column that is not there": ("tasks.t.drop_columns", ["people.nothing"]),
    "dropped column of no table": ("tasks.t.drop_columns", ["nobody.name"]),
    "dropped column without a table": ("tasks.t.drop_columns", ["name"]),
    "no tables": ("tables", {}),
    "temporal column through no key": ("tables.people.temporal_column", "kind -> teams.since"),
    "temporal column through a key to no column": ("tables.people.temporal_column", "boss -> people.nothing"),
    "temporal column through a key to no timestamp": ("tables.people.temporal_column", "boss -> people.name"),
    "temporal column through a key to another table": ("tables.people.temporal_column", "boss -> teams.born"),
    "temporal column that is an empty list": ("tables.people.temporal_column", []),
    "known_at that is too long": ("tables.people.columns.kind.known_at", ["boss"] * 17 + ["born"]),
    "known_at of numbers": ("tables.people.columns.kind.known_at", [1]),
    "foreign key list of one": ("tables.people.columns.boss.foreign_key", ["people"]),
    "foreign key list to no table": ("tables.people.columns.boss.foreign_key", ["nobody", "id"]),
    "foreign keys that are no list": ("tables.people.foreign_keys", {"columns": "code", "table": "people"}),
    "foreign key without columns": ("tables.people.foreign_keys", [{"table": "people"}]),
    "foreign key with a column twice": ("tables.people.foreign_keys", [{"columns": ["code", "code"], "table": "teams"}]),
    "foreign key of the wrong size": ("tables.people.foreign_keys", [{"columns": ["code", "kind"], "table": "teams"}]),
    "foreign key to no such table": ("tables.people.foreign_keys", [{"columns": "code", "table": "nobody"}]),
    "foreign key of no such column": ("tables.people.foreign_keys", [{"columns": "nothing", "table": "teams"}]),
    "foreign key without a name": ("tables.people.foreign_keys", [{"columns": "code", "table": "teams", "name": ""}]),
    "foreign key with the name of another": ("tables.people.foreign_keys", [{"columns": "boss", "table": "teams"}]),
    "table query that fails": ("tables.teams.query", "SELECT * FROM nobody"),
    "table query with a column twice": ("tables.teams.query", "SELECT team, size, team FROM teams"),
    "table query without a column": ("tables.teams.query", "SELECT team FROM teams"),
    "table query that fails at a row": (
        "tables.teams.query", "SELECT team, abs(-9223372036854775807 - size) AS size FROM teams",
    ),
    "keys that are no boolean": ("keys", "yes"),
    "search path in SQLite": ("search_path", ["main"]),
    "anchor key of two columns": ("tasks.t.anchor_key", ["id", "y"]),
    "anchor without a key": ("tables.people.primary_key", []),
    "anchor key that is a column of the anchor": ("tasks.t", {**SCHEMA["tasks"]["t"], "anchor_key": "code",
        "query": "SELECT id + 0 AS code, 1 AS y, '2024-01-01' AS seen, 'train' AS part FROM people"}),
    "unknown meaning of the key": ("tasks.t.anchor_key_is", "unique"),
    "unknown rule before the anchor": ("tasks.t.before_anchor", "hide"),
    "unknown target statistics": ("tasks.t.target_statistics", "val"),
    "dropped column of a list of three": ("tasks.t.drop_columns", [["people", "name", "x"]]),
    "dropped column of a list of no table": ("tasks.t.drop_columns", [["nobody", "name"]]),
}


def changed(schema: Json, path: str, value: Json) -> Json:
    """A copy of the schema with another value at a path."""
    copy = json.loads(json.dumps(schema))
    *folders, last = path.split(".")
    place = copy
    for name in folders:
        place = place[name]
    if value is ABSENT:
        del place[last]
    else:
        place[last] = value
    return copy


class Faults(Case):
    def check(self, name: str, sql: str, schema: Json, is_whole: bool = False) -> None:
        with self.subTest(fault=name), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "db.sqlite"
            connection = scratch_database(path)
            connection.executescript(WHOLE + sql)
            connection.close()
            if not is_whole:
                with self.assertRaises(WeirError):
                    Store.ingest(path, json.dumps(schema))
            self.compare(path, schema, random.Random(0))

    def test_without_a_fault(self) -> None:
        self.check("none", "", SCHEMA, is_whole=True)

    def test_faults_in_rows(self) -> None:
        for name, sql in FAULTS_IN_ROWS.items():
            self.check(name, sql, SCHEMA)

    def test_faults_in_the_schema(self) -> None:
        for name, (path, value) in FAULTS_IN_SCHEMA.items():
            self.check(name, "", changed(SCHEMA, path, value))

    def test_dangling_keys_when_strict(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path, schema_path = Path(folder) / "db.sqlite", Path(folder) / "schema.json"
            connection = scratch_database(path)
            connection.executescript(WHOLE)
            connection.close()
            schema_path.write_text(json.dumps(SCHEMA), "utf-8")
            arguments = ["ingest", path, "--schema", schema_path, "-o", Path(folder) / "out.weir", "--json"]
            self.assertIsNone(run(*arguments)[1])
            self.assertEqual(run(*arguments, "--strict")[1], "SCHEMA_INVALID")


if __name__ == "__main__":
    unittest.main()
