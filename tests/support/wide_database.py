"""Random databases with a table of hundreds of columns and one of many narrow rows, for sequences that are long, wide or cut in
the middle of a row.

`things` has all semantic types over and over, more columns than fit a byte; `events` points to things and has no cell but its
key and its kind; `marks` has texts alone; `links` has two foreign keys to the same table and no cell that a task shows. Times
are few, so that they fall on both sides of every observation time.
"""

import random
import sqlite3
from pathlib import Path
from typing import Any

Json = Any

FIRST_SECOND = 1_700_000_000
TYPES = ("numerical", "timestamp", "boolean", "categorical", "text", "identifier")


def any_second(rng: random.Random) -> int | None:
    return None if rng.random() < 0.1 else FIRST_SECOND + 3600 * rng.randrange(60)


def any_value(rng: random.Random, stype: str) -> Any:
    if rng.random() < 0.2:
        return None
    if stype == "timestamp":
        return any_second(rng)
    if stype == "boolean":
        return rng.randrange(2)
    return rng.randint(-50, 50) / 4 if stype == "numerical" else f"{stype} {rng.randrange(30)}"


def any_task(rng: random.Random, columns: list[tuple[str, str]]) -> Json:
    split = {"method": "hash", "permille": [600, 200, 200], "seed": rng.randrange(9)}
    task: Json = {"anchor_table": "things", "anchor_key": "id", "split": split, "observation_time_column": "seen", "unit": "s"}
    seen = f"{FIRST_SECOND} + 3600 * (id % 70) AS seen"
    if rng.random() < 0.3:
        query = f"SELECT id, id % 3 = 0 AS answer, {seen} FROM things"
        task.update(query=query, target_column="answer", target_stype="boolean")
    else:
        name, stype = rng.choice([column for column in columns if column[1] not in ("text", "identifier")])
        task.update(query=f"SELECT id, {name}, {seen} FROM things", target_column=name, target_stype=stype, kind="cell")
    dropped = rng.sample(columns, rng.choice([0, 0, 1, len(columns) // 2]))
    task["drop_columns"] = [f"things.{name}" for name, _ in dropped] + ["links.id", "links.a", "links.b"]
    return task


def make(rng: random.Random, path: Path) -> Json:
    """Writes the database; returns its schema."""
    columns = [(f"c{i}", rng.choice(TYPES)) for i in range(rng.choice([3, 40, 254, 256, 300]))]
    columns += [("number", "numerical"), ("label", "categorical")]
    things, events = rng.randint(3, 12), rng.choice([5, 100, 600])
    timed = {name: "since" for name, _ in columns if rng.random() < 0.1}
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA synchronous = OFF")  # it need not outlive the machine
    names = ", ".join(name for name, _ in columns)
    connection.execute(f"CREATE TABLE things (id INTEGER PRIMARY KEY, since, other, {names})")
    for i in range(things):
        row = [i, any_second(rng), rng.choice([None, rng.randrange(things)]), *(any_value(rng, t) for _, t in columns)]
        connection.execute(f"INSERT INTO things VALUES ({', '.join('?' * len(row))})", row)
    connection.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, thing, at, kind)")
    rows = [(i, rng.randrange(things + 1), any_second(rng), f"kind {rng.randrange(4)}") for i in range(events)]
    connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)
    connection.execute("CREATE TABLE marks (id INTEGER PRIMARY KEY, event, note, more)")
    marks = [(i, rng.randrange(events), any_value(rng, "text"), any_value(rng, "text")) for i in range(events // 3)]
    connection.executemany("INSERT INTO marks VALUES (?, ?, ?, ?)", marks)
    connection.execute("CREATE TABLE links (id INTEGER PRIMARY KEY, a, b)")
    links = [(i, rng.randrange(things), rng.randrange(things)) for i in range(rng.randint(0, 8))]
    connection.executemany("INSERT INTO links VALUES (?, ?, ?)", links)
    connection.commit()
    connection.close()
    key: Json = {"stype": "identifier"}
    thing_columns: Json = {"id": key, "since": {"stype": "timestamp"}, "other": {**key, "foreign_key": "things.id"}}
    for name, stype in columns:
        thing_columns[name] = {"stype": stype, **({"known_at": timed[name]} if name in timed else {})}
    tables: Json = {
        "things": {"primary_key": "id", "columns": thing_columns},
        "events": {"primary_key": "id", "temporal_column": "at", "columns": {
            "id": key, "thing": {**key, "foreign_key": "things.id"}, "at": {"stype": "timestamp"},
            "kind": {"stype": "categorical"}}},
        "marks": {"primary_key": "id", "columns": {
            "id": key, "event": {**key, "foreign_key": "events.id"}, "note": {"stype": "text"}, "more": {"stype": "text"}}},
        "links": {"primary_key": "id", "columns": {
            "id": key, "a": {**key, "foreign_key": "things.id"}, "b": {**key, "foreign_key": "things.id"}}},
    }  # fmt: skip
    tasks = {f"task{i}": any_task(rng, columns) for i in range(2)}
    return {"name": "wide", "tables": tables, "tasks": tasks, "embedding": {"provider": "hash_v1", "dim": rng.choice([1, 8, 33])}}
