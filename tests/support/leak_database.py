"""Random databases about people, visits and places, made to catch leaks, and what is true of them.

Every row carries a `serial` that no other row of the database has, known with its row: so a test can tell from a
batch's numbers alone which row it looks at, and ask the database itself what was known when. Times are few, so
that they tie and fall on both sides of every observation time; nulls and keys that lead nowhere are among them.
"""

import random
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = Any

FIRST_SECOND = 1_700_000_000
HOURS = 60
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class ColumnFacts:
    stype: str
    known_at: str | None = None  # as it holds
    parent: str | None = None  # the table that it points to
    says_known_at: bool = True  # whether the schema spells it out


@dataclass(frozen=True)
class TableFacts:
    key: str
    temporal: str | None
    columns: dict[str, ColumnFacts]


TABLES = {
    "people": TableFacts("id", "joined", {
        "id": ColumnFacts("identifier"),
        "serial": ColumnFacts("numerical"),
        "joined": ColumnFacts("timestamp"),
        "referrer": ColumnFacts("identifier", parent="people"),
        "city": ColumnFacts("categorical"),
        "score": ColumnFacts("numerical", known_at="scored"),
        "scored": ColumnFacts("timestamp", known_at="scored", says_known_at=False),
        "vip": ColumnFacts("boolean", known_at="scored"),
        "note": ColumnFacts("text"),
    }),
    "places": TableFacts("id", None, {
        "id": ColumnFacts("identifier"),
        "serial": ColumnFacts("numerical"),
        "kind": ColumnFacts("categorical", known_at="opened", parent="kinds"),
        "opened": ColumnFacts("timestamp", known_at="opened", says_known_at=False),
        "boss": ColumnFacts("identifier", known_at="boss_since", parent="people"),
        "boss_since": ColumnFacts("timestamp"),
    }),
    "kinds": TableFacts("kind", None, {"kind": ColumnFacts("identifier"), "serial": ColumnFacts("numerical")}),
    "visits": TableFacts("id", "at", {
        "id": ColumnFacts("identifier"),
        "serial": ColumnFacts("numerical"),
        "person": ColumnFacts("identifier", parent="people"),
        "place": ColumnFacts("identifier", known_at="checked", parent="places"),
        "at": ColumnFacts("timestamp"),
        "checked": ColumnFacts("timestamp", known_at="checked", says_known_at=False),
        "rating": ColumnFacts("numerical"),
        "paid": ColumnFacts("boolean", known_at="checked"),
    }),
}  # fmt: skip


def any_second(rng: random.Random, null_share: float = 0.15) -> int | None:
    return None if rng.random() < null_share else FIRST_SECOND + 3600 * rng.randrange(HOURS)


def rows_of(rng: random.Random, counts: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    serials = iter(rng.sample(range(1, 2001), sum(counts.values())))
    keys = {name: [f"k{i}" if name == "kinds" else 10 * i for i in range(count)] for name, count in counts.items()}

    def any_key(table: str) -> Any:
        return rng.choice([*keys[table], *keys[table], None, -1])

    made: dict[str, list[dict[str, Any]]] = {}
    for name, facts in TABLES.items():
        made[name] = []
        for key in keys[name]:
            row: dict[str, Any] = {}
            for column, fact in facts.columns.items():
                if column == facts.key:
                    row[column] = key
                elif column == "serial":
                    row[column] = next(serials)
                elif fact.parent is not None:
                    row[column] = any_key(fact.parent)
                elif fact.stype == "timestamp":
                    row[column] = any_second(rng)
                elif fact.stype == "boolean":
                    row[column] = rng.choice([0, 1, None])
                elif fact.stype == "numerical":
                    row[column] = rng.choice([None, rng.randint(-50, 50), rng.random()])
                else:
                    row[column] = rng.choice([None, "Oslo", "Lima", "Bonn", "a b"])
            made[name].append(row)
    return made


def schema_of() -> Json:
    tables: Json = {}
    for name, facts in TABLES.items():
        columns: Json = {}
        for column, fact in facts.columns.items():
            columns[column] = {"stype": fact.stype}
            if fact.says_known_at and column != facts.temporal:
                columns[column]["known_at"] = fact.known_at
            if fact.parent is not None:
                columns[column]["foreign_key"] = f"{fact.parent}.{TABLES[fact.parent].key}"
        tables[name] = {"primary_key": facts.key, "columns": columns}
        if facts.temporal is not None:
            tables[name]["temporal_column"] = facts.temporal
    return {"name": "leak", "tables": tables, "embedding": {"dim": 8}}


def add_tasks(rng: random.Random, schema: Json) -> None:
    """Cell tasks that observe rows when they come to be, or before and after; a cell task whose target is itself
    a foreign key; a derived task with dropped columns."""
    val, test = sorted(FIRST_SECOND + 3600 * rng.randrange(HOURS) for _ in range(2))
    temporal = {"method": "temporal", "val": val, "test": test}
    part = {"method": "column", "column": "part"}
    parts = "CASE abs(random_id) % 4 WHEN 0 THEN 'val' WHEN 1 THEN 'test' ELSE 'train' END AS part"
    times = [FIRST_SECOND + 3600 * rng.randrange(HOURS) for _ in range(3)]
    seen = f"CASE random_id % 3 WHEN 0 THEN {times[0]} WHEN 1 THEN {times[1]} ELSE {times[2]} END AS seen"

    def query(table: str, target: str) -> str:
        key = TABLES[table].key
        return (
            f"SELECT {key} AS k, {target}, {seen}, {parts}"
            f" FROM (SELECT *, serial * 7 + {rng.randrange(9)} AS random_id FROM {table})"
        )

    schema["tasks"] = {
        "rating": {"query": query("visits", "rating"), "anchor_table": "visits", "anchor_key": "k",
                   "target_column": "rating", "target_stype": "numerical", "split": temporal},
        "paid": {"query": query("visits", "paid"), "anchor_table": "visits", "anchor_key": "k", "kind": "cell",
                 "target_column": "paid", "target_stype": "boolean", "observation_time_column": "seen", "split": part,
                 "drop_columns": ["visits.checked", "people.city"]},
        "kind": {"query": query("places", "kind"), "anchor_table": "places", "anchor_key": "k",
                 "target_column": "kind", "target_stype": "categorical", "split": part},
        "churn": {"query": query("people", "serial % 2 AS churn"), "anchor_table": "people", "anchor_key": "k",
                  "target_column": "churn", "target_stype": "boolean", "observation_time_column": "seen",
                  "split": part, "drop_columns": ["visits.person", "people.score"]},
    }  # fmt: skip


def write(path: Path, rows: dict[str, list[dict[str, Any]]]) -> None:
    connection = sqlite3.connect(path)
    for name, facts in TABLES.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(facts.columns)}, PRIMARY KEY ({facts.key}))")
        places = ", ".join("?" for _ in facts.columns)
        connection.executemany(
            f"INSERT INTO {name} VALUES ({places})", [[row[c] for c in facts.columns] for row in rows[name]]
        )
    connection.commit()
    connection.close()


def make(rng: random.Random, path: Path) -> Json:
    """Writes a database to a new file and returns its schema."""
    counts = {"people": rng.randint(1, 25), "places": rng.randint(0, 8), "kinds": rng.randint(0, 3)}
    write(path, rows_of(rng, {**counts, "visits": rng.randint(0, 60)}))
    schema = schema_of()
    add_tasks(rng, schema)
    return schema


# ---- What is true ------------------------------------------------------------------------------------------


class Truth:
    """The database as it is, read with SQL alone."""

    def __init__(self, path: Path, schema: Json) -> None:
        connection = sqlite3.connect(path)
        connection.row_factory = sqlite3.Row
        self.schema = schema
        self.rows = {
            name: [dict(row) for row in connection.execute(f"SELECT * FROM {name} ORDER BY {facts.key}")]
            for name, facts in TABLES.items()
        }
        self.seeds = {name: self._seeds(connection, name) for name in schema["tasks"]}
        connection.close()
        self.by_serial = {row["serial"]: (name, row) for name in TABLES for row in self.rows[name]}
        self.by_key = {(name, row[TABLES[name].key]): row for name in TABLES for row in self.rows[name]}
        self.in_order = [(name, row) for name in sorted(TABLES) for row in self.rows[name]]

    def _seeds(self, connection: sqlite3.Connection, name: str) -> list[tuple[Any, int | None, str]]:
        """(anchor key, observation time in seconds, split) of every seed; no time: sees everything."""
        task = self.schema["tasks"][name]
        table, split = task["anchor_table"], task["split"]
        seeds = []
        for row in connection.execute(task["query"]):
            anchor = next(r for r in self.rows[table] if r[TABLES[table].key] == row["k"])
            seen = row["seen"] if "observation_time_column" in task else row_time(table, anchor)
            if split["method"] == "column":
                part = row["part"]
            else:
                late = float("inf") if seen is None else seen
                part = "train" if late < split["val"] else "val" if late < split["test"] else "test"
            seeds.append((row["k"], seen, part))
        return seeds

    def held_out(self, task: str) -> set[Any]:
        return {key for key, _, part in self.seeds[task] if part != "train"}


def row_time(table: str, row: dict[str, Any]) -> int | None:
    """In seconds; None: always."""
    temporal = TABLES[table].temporal
    return None if temporal is None else row[temporal]


def was_there(table: str, row: dict[str, Any], seen: int | None) -> bool:
    """Whether a row was there at a time; None is the end of all times."""
    time = row_time(table, row)
    return time is None or seen is None or time <= seen


def was_known(table: str, row: dict[str, Any], column: str, seen: int | None) -> bool:
    known_at = TABLES[table].columns[column].known_at
    if known_at is not None and row[known_at] is None:
        return False
    in_time = known_at is None or seen is None or row[known_at] <= seen
    return in_time and was_there(table, row, seen)
