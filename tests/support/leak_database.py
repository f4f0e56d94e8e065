"""Random databases about people, visits and places, made to catch leaks, and what is true of them.

Every row carries a `serial` that no other row of the database has, known with its row: so a test can tell from a
batch's numbers alone which row it looks at, and ask the database itself what was known when. Times are few, so
that they tie and fall on both sides of every observation time; nulls and keys that lead nowhere are among them.
Items and notes have no time of their own: an item's is that of its visit, a note's that of the visit of its item.
"""

import random
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.cases import scratch_database

Json = Any

FIRST_SECOND = 1_700_000_000
HOURS = 60
MICROSECONDS = 1_000_000


Path_ = tuple[str, ...]  # foreign keys, then a timestamp column
Row = dict[str, Any]


@dataclass(frozen=True)
class ColumnFacts:
    stype: str
    known_at: Path_ | None = None  # as it holds
    parent: str | None = None  # the table that it points to
    says_known_at: bool = True  # whether the schema spells it out


@dataclass(frozen=True)
class TableFacts:
    key: tuple[str, ...]
    temporal: Path_ | None
    columns: dict[str, ColumnFacts]
    wide_keys: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)  # name -> (columns, parent)

    def parent_of(self, name: str) -> tuple[tuple[str, ...], str]:
        """The columns of a foreign key, and the table that they lead to."""
        if name in self.wide_keys:
            return self.wide_keys[name]
        parent = self.columns[name].parent
        assert parent is not None
        return (name,), parent

    def foreign_keys(self) -> list[str]:
        return [name for name, fact in self.columns.items() if fact.parent is not None] + list(self.wide_keys)


TABLES = {
    "people": TableFacts(("id",), ("joined",), {
        "id": ColumnFacts("identifier"),
        "serial": ColumnFacts("numerical"),
        "joined": ColumnFacts("timestamp"),
        "referrer": ColumnFacts("identifier", parent="people"),
        "city": ColumnFacts("categorical"),
        "score": ColumnFacts("numerical", known_at=("scored",)),
        "scored": ColumnFacts("timestamp", known_at=("scored",), says_known_at=False),
        "vip": ColumnFacts("boolean", known_at=("scored",)),
        "note": ColumnFacts("text"),
    }),
    "places": TableFacts(("id",), None, {
        "id": ColumnFacts("identifier"),
        "serial": ColumnFacts("numerical"),
        "kind": ColumnFacts("categorical", known_at=("opened",), parent="kinds"),
        "opened": ColumnFacts("timestamp", known_at=("opened",), says_known_at=False),
        "boss": ColumnFacts("identifier", known_at=("boss_since",), parent="people"),
        "boss_since": ColumnFacts("timestamp"),
    }),
    "kinds": TableFacts(("kind",), None, {"kind": ColumnFacts("identifier"), "serial": ColumnFacts("numerical")}),
    "visits": TableFacts(("id",), ("at",), {
        "id": ColumnFacts("identifier"),
        "serial": ColumnFacts("numerical"),
        "person": ColumnFacts("identifier", parent="people"),
        "place": ColumnFacts("identifier", known_at=("checked",), parent="places"),
        "at": ColumnFacts("timestamp"),
        "checked": ColumnFacts("timestamp", known_at=("checked",), says_known_at=False),
        "rating": ColumnFacts("numerical"),
        "paid": ColumnFacts("boolean", known_at=("checked",)),
    }),
    "items": TableFacts(("visit", "n"), ("visit", "at"), {
        "visit": ColumnFacts("identifier", parent="visits"),
        "n": ColumnFacts("identifier"),
        "serial": ColumnFacts("numerical"),
        "amount": ColumnFacts("numerical", known_at=("visit", "checked")),
        "broken": ColumnFacts("boolean", known_at=("found",)),
        "found": ColumnFacts("timestamp", known_at=("found",), says_known_at=False),
    }),
    "notes": TableFacts(("id",), ("about", "visit", "at"), {
        "id": ColumnFacts("identifier"),
        "serial": ColumnFacts("numerical"),
        "visit": ColumnFacts("identifier"),
        "n": ColumnFacts("identifier"),
        "word": ColumnFacts("categorical"),
    }, {"about": (("visit", "n"), "items")}),
}  # fmt: skip


def any_second(rng: random.Random, null_share: float = 0.15) -> int | None:
    return None if rng.random() < null_share else FIRST_SECOND + 3600 * rng.randrange(HOURS)


def keys_of(counts: dict[str, int], rng: random.Random) -> dict[str, list[tuple[Any, ...]]]:
    keys = {name: [(f"k{i}" if name == "kinds" else 10 * i,) for i in range(count)] for name, count in counts.items()}
    visits = [visit for (visit,) in keys["visits"]] + [-1]
    keys["items"] = sorted({(rng.choice(visits), rng.randrange(4)) for _ in range(counts["items"])})
    return keys


def rows_of(rng: random.Random, counts: dict[str, int]) -> dict[str, list[Row]]:
    counts = {**counts, "items": rng.randint(0, 40), "notes": rng.randint(0, 20)}
    serials = iter(rng.sample(range(1, 2001), sum(counts.values())))
    keys = keys_of(counts, rng)
    made: dict[str, list[Row]] = {}
    for name, facts in TABLES.items():
        made[name] = []
        for key in keys[name]:
            row: Row = {}
            for column, fact in facts.columns.items():
                if column == "serial":
                    row[column] = next(serials)
                elif fact.parent is not None:
                    row[column] = rng.choice([*(key for (key,) in keys[fact.parent] * 2), None, -1])
                elif fact.stype == "timestamp":
                    row[column] = any_second(rng)
                elif fact.stype == "boolean":
                    row[column] = rng.choice([0, 1, None])
                elif fact.stype == "numerical":
                    row[column] = rng.choice([None, rng.randint(-50, 50), rng.random()])
                else:
                    row[column] = rng.choice([None, "Oslo", "Lima", "Bonn", "a b"])
            for columns, parent in facts.wide_keys.values():
                some = rng.choice([*keys[parent] * 2, (None, 1), (-1, 0)])
                row.update(zip(columns, some))
            row.update(zip(facts.key, key))
            made[name].append(row)
    return made


def written(table: str, path: Path_) -> str:
    """A path as a schema has it: visit -> visits.at."""
    text = path[0]
    for key, name in zip(path, path[1:]):
        table = TABLES[table].parent_of(key)[1]
        text += f" -> {table}.{name}"
    return text


def schema_of() -> Json:
    tables: Json = {}
    for name, facts in TABLES.items():
        columns: Json = {}
        for column, fact in facts.columns.items():
            columns[column] = {"stype": fact.stype}
            if fact.says_known_at and (column,) != facts.temporal:
                columns[column]["known_at"] = None if fact.known_at is None else written(name, fact.known_at)
            if fact.parent is not None:
                columns[column]["foreign_key"] = f"{fact.parent}.{TABLES[fact.parent].key[0]}"
        tables[name] = {"primary_key": list(facts.key), "columns": columns}
        if facts.temporal is not None:
            tables[name]["temporal_column"] = written(name, facts.temporal)
        if facts.wide_keys:
            tables[name]["foreign_keys"] = [
                {"name": key, "columns": list(of), "table": parent} for key, (of, parent) in facts.wide_keys.items()
            ]
    return {"name": "leak", "tables": tables, "embedding": {"dim": 8}}


def add_tasks(rng: random.Random, schema: Json) -> None:
    """Cell tasks that observe rows when they come to be, or before and after; a cell task whose target is itself
    a foreign key; one whose anchors have a key of two columns, and may be observed before they are there; a derived
    task with dropped columns."""
    val, test = sorted(FIRST_SECOND + 3600 * rng.randrange(HOURS) for _ in range(2))
    temporal = {"method": "temporal", "val": val, "test": test}
    part = {"method": "column", "column": "part"}
    parts = "CASE abs(random_id) % 4 WHEN 0 THEN 'val' WHEN 1 THEN 'test' ELSE 'train' END AS part"
    times = [FIRST_SECOND + 3600 * rng.randrange(HOURS) for _ in range(3)]
    seen = f"CASE random_id % 3 WHEN 0 THEN {times[0]} WHEN 1 THEN {times[1]} ELSE {times[2]} END AS seen"

    def query(table: str, target: str) -> str:
        keys = ", ".join(f"{column} AS k{i}" for i, column in enumerate(TABLES[table].key))
        return (
            f"SELECT {keys}, {target}, {seen}, {parts}"
            f" FROM (SELECT *, serial * 7 + {rng.randrange(9)} AS random_id FROM {table})"
        )

    schema["tasks"] = {
        "rating": {"query": query("visits", "rating"), "anchor_table": "visits", "anchor_key": "k0",
                   "target_column": "rating", "target_stype": "numerical", "split": temporal},
        "paid": {"query": query("visits", "paid"), "anchor_table": "visits", "anchor_key": "k0", "kind": "cell",
                 "target_column": "paid", "target_stype": "boolean", "observation_time_column": "seen", "split": part,
                 "drop_columns": ["visits.checked", "people.city"]},
        "kind": {"query": query("places", "kind"), "anchor_table": "places", "anchor_key": "k0",
                 "target_column": "kind", "target_stype": "categorical", "split": part},
        "churn": {"query": query("people", "serial % 2 AS churn"), "anchor_table": "people", "anchor_key": "k0",
                  "target_column": "churn", "target_stype": "boolean", "observation_time_column": "seen",
                  "split": part, "drop_columns": ["visits.person", "people.score"]},
        "broken": {"query": query("items", "broken"), "anchor_table": "items", "anchor_key": ["k0", "k1"],
                   "kind": "cell", "target_column": "broken", "target_stype": "boolean",
                   "observation_time_column": "seen", "split": part,
                   "before_anchor": rng.choice(["keep", "show_known", "move"])},
    }  # fmt: skip
    add_label_tasks(rng, schema, temporal, part)


def add_label_tasks(rng: random.Random, schema: Json, temporal: Json, part: Json) -> None:
    """Derived tasks whose anchors have many seeds, with labels that are known some time later: after a horizon,
    or when a column of the query says. A label is null, or tells its seed: (anchor's serial, hour)."""
    hours = sorted(rng.sample(range(HOURS), rng.randint(1, 12)))
    moments = " UNION ALL ".join(f"SELECT {FIRST_SECOND + 3600 * hour} AS seen, {hour} AS hour" for hour in hours)
    skipped = rng.randrange(5)
    query = (
        "SELECT id AS k0, seen, CASE WHEN (serial + hour) % 7 = 0 THEN NULL ELSE serial * 100 + hour END AS target,"
        " CASE WHEN (serial + hour) % 5 = 0 THEN NULL ELSE seen + 3600 * ((serial * hour) % 40 - 9) END AS told,"
        " CASE (serial * 3 + hour) % 4 WHEN 0 THEN 'val' WHEN 1 THEN 'test' ELSE 'train' END AS part"
        f" FROM people, ({moments}) WHERE (serial + hour) % 5 <> {skipped}"
    )
    of_people = {"query": query, "anchor_table": "people", "anchor_key": "k0", "target_column": "target",
                 "target_stype": "numerical", "observation_time_column": "seen"}  # fmt: skip
    schema["tasks"]["later"] = {
        **of_people, "split": rng.choice([temporal, part]), "horizon": rng.choice([0, "1h", "5h", "1d", "40h", "52w"])
    }  # fmt: skip
    schema["tasks"]["told"] = {**of_people, "split": rng.choice([temporal, part]), "label_known_column": "told"}


def write(path: Path, rows: dict[str, list[dict[str, Any]]]) -> None:
    connection = scratch_database(path)
    for name, facts in TABLES.items():
        connection.execute(f"CREATE TABLE {name} ({', '.join(facts.columns)}, PRIMARY KEY ({', '.join(facts.key)}))")
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


class World:
    """Rows, and what was known of them when: by following keys in the raw values."""

    def __init__(self, rows: dict[str, list[Row]]) -> None:
        self.rows = rows
        self.by_key = {(name, key_of(name, row)): row for name in TABLES for row in rows[name]}

    def parent(self, table: str, row: Row, key: str) -> Row | None:
        columns, parent = TABLES[table].parent_of(key)
        return self.by_key.get((parent, tuple(row[column] for column in columns)))

    def time_at(self, table: str, row: Row, path: Path_) -> int | None:
        *keys, column = path
        for key in keys:
            found = self.parent(table, row, key)
            if found is None:
                return None
            table, row = TABLES[table].parent_of(key)[1], found
        return row[column]

    def row_time(self, table: str, row: Row) -> int | None:
        """In seconds; None: always."""
        temporal = TABLES[table].temporal
        return None if temporal is None else self.time_at(table, row, temporal)

    def was_there(self, table: str, row: Row, seen: int | None) -> bool:
        """Whether a row was there at a time; None is the end of all times."""
        time = self.row_time(table, row)
        return time is None or seen is None or time <= seen

    def was_known(self, table: str, row: Row, column: str, seen: int | None, was_always_there: bool = False) -> bool:
        """`was_always_there`: of an anchor whose task shows what was known of it."""
        known_at = TABLES[table].columns[column].known_at
        time = None if known_at is None else self.time_at(table, row, known_at)
        if known_at is not None and time is None:
            return False
        in_time = known_at is None or seen is None or time <= seen
        return in_time and (was_always_there or self.was_there(table, row, seen))


class Truth(World):
    """The database as it is, read with SQL alone."""

    def __init__(self, path: Path, schema: Json) -> None:
        connection = sqlite3.connect(path)
        connection.row_factory = sqlite3.Row
        self.schema = schema
        super().__init__({
            name: [dict(row) for row in connection.execute(f"SELECT * FROM {name} ORDER BY {', '.join(facts.key)}")]
            for name, facts in TABLES.items()
        })  # fmt: skip
        self.seeds = {name: self._seeds(connection, name) for name in schema["tasks"]}
        connection.close()
        self.by_serial = {row["serial"]: (name, row) for name in TABLES for row in self.rows[name]}
        self.in_order = [(name, row) for name in sorted(TABLES) for row in self.rows[name]]

    def _seeds(self, connection: sqlite3.Connection, name: str) -> list[tuple[Any, int | None, str]]:
        """(anchor key, observation time in seconds, split) of every seed; no time: sees everything."""
        task = self.schema["tasks"][name]
        table, split = task["anchor_table"], task["split"]
        seeds = []
        for row in connection.execute(task["query"]):
            key = tuple(row[f"k{i}"] for i in range(len(TABLES[table].key)))
            since = self.row_time(table, self.by_key[table, key])
            seen = row["seen"] if "observation_time_column" in task else since
            if task.get("before_anchor") == "move" and since is not None and seen < since:
                seen = since
            if split["method"] == "column":
                part = row["part"]
            else:
                late = float("inf") if seen is None else seen
                part = "train" if late < split["val"] else "val" if late < split["test"] else "test"
            seeds.append((key, seen, part))
        return seeds

    def held_out(self, task: str) -> set[Any]:
        return {key for key, _, part in self.seeds[task] if part != "train"}


def key_of(table: str, row: Row) -> tuple[Any, ...]:
    return tuple(row[column] for column in TABLES[table].key)
