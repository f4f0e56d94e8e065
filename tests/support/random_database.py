"""Random databases with schemas that fit them, for comparing ingest with the reference.

A database is made from a `random.Random` alone. That of `make` has tables with integer, text, mixed,
composite or no keys, declared and not, columns of every semantic type in every form that the contract allows,
nulls, foreign keys of one and several columns that match, dangle or refer to their own table, times of rows and
cells, also through foreign keys, tables that are views or queries, names with dots and arrows, tasks of both kinds
with all splits; it comes with its schema. `make_for_drafting` has columns that lie near what the draft rules tell apart.
"""

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from support.cases import scratch_database

Json = Any

STYPES = ["identifier", "numerical", "timestamp", "boolean", "categorical", "text", "ignored"]
TABLE_NAMES = [
    "orders", "Orders2", "a", "b b", "zoo", 'q"uote', "été", "items", "T", "select", "A.B", "Z", "Z.co",
]  # fmt: skip
COLUMN_NAMES = [
    "id", "code", "name", "at", "x", "y", "Price", "when", "flag", "kind", "note", "co.l", 'w"q', "größe",
    "n1", "created", "e_mail", "from", "status", "weight", "rowid2", "late_at", "t_on", "x->y", "l",
]  # fmt: skip
WORDS = [
    "", "a", "b", "red", "Red", "green tea", "Äpfel", "äpfel", "日本", "a b", "7", "10", "7.0", "null", "ÿ",
    "𝛼x", "nul\0", "nul\0x",
]  # fmt: skip
LARGEST_INT64 = 2**63 - 1


@dataclass
class ColumnPlan:
    name: str
    stype: str
    declared: str = ""
    unit: str = "s"
    parent: tuple[str, str] | None = None
    known_at: list[str] | None | bool = False  # a path; False: the schema says nothing
    description: str | None = None
    in_schema: bool = True


@dataclass
class WideKey:
    """A foreign key that stands beside the columns, mostly of several of them."""

    columns: list[str]
    parent: str
    to: list[str]
    says_to: bool
    name: str | None
    known_at: list[str] | None | bool = False


@dataclass
class TablePlan:
    name: str
    columns: list[ColumnPlan]
    primary_key: list[str]
    declares_key: bool
    temporal: list[str] | None = None  # a path
    wide_keys: list[WideKey] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    unique_column: str | None = None  # has no value twice, and may be pointed to
    is_from: str = "table"  # or a view, or a query of the schema

    @property
    def base(self) -> str:
        """The table of the database that its rows are in."""
        return self.name if self.is_from == "table" else f"{self.name} base"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# ---- Values ------------------------------------------------------------------------------------------------


def any_word(rng: random.Random) -> str:
    return rng.choice(WORDS) if rng.random() < 0.8 else "".join(rng.choices("abé日 -9", k=rng.randint(1, 40)))


def any_integer(rng: random.Random) -> int:
    small, large = rng.randint(-20, 20), rng.randint(-(2**63), LARGEST_INT64)
    return rng.choice([small, small, small, rng.randint(-(10**6), 10**6), 2**53 + rng.randint(-3, 3), large])


def any_real(rng: random.Random) -> float:
    return rng.choice(
        [
            rng.randint(-20, 20) / 4,
            rng.gauss(0, 100),
            rng.random() * 10 ** rng.randint(-300, 300),
            rng.choice([0.0, -0.0, 0.1, 1e21, 5e-324, 1.7e308, -1.7e308, 3.4028235e38, 1e-45]),
        ]
    )


def any_moment(rng: random.Random) -> datetime:
    """Mostly within some days, so that times are equal, before and after each other."""
    if rng.random() < 0.1:
        return datetime(1, 1, 3) + timedelta(seconds=rng.randint(0, 315_000_000_000))
    return datetime(2024, 2, 27) + timedelta(hours=rng.randint(0, 200))


def any_time_text(rng: random.Random) -> str:
    moment = any_moment(rng)
    date = f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d}"
    if rng.random() < 0.3:
        return date
    text = f"{date}{rng.choice('T ')}{moment.hour:02d}:{moment.minute:02d}"
    if rng.random() < 0.8:
        text += f":{rng.randint(0, 59):02d}"
        if rng.random() < 0.3:
            text += "." + "".join(rng.choices("0123456789", k=rng.randint(1, 6)))
    return text + rng.choice(["", "", "Z", "+05", "-0530", "+05:30", "-23:59", "+00:00"])


def any_time(rng: random.Random, unit: str) -> str | int:
    if rng.random() < 0.5:
        return any_time_text(rng)
    if rng.random() < 0.05:
        limit = LARGEST_INT64 // {"s": 10**6, "ms": 10**3, "us": 1}[unit] - 1
        return rng.choice([-limit, limit, 0, -1])
    seconds = int(any_moment(rng).replace(tzinfo=timezone.utc).timestamp())
    return seconds * {"s": 1, "ms": 10**3, "us": 10**6}[unit] + (rng.randint(0, 999) if unit != "s" else 0)


def any_number(rng: random.Random) -> Any:
    number = rng.choice([any_integer, any_real])(rng)
    shape = rng.random()
    if shape < 0.75:
        return number
    if shape < 0.85:
        return rng.choice(["nan", "-NaN", "inf", "+Infinity", "-INF", float("inf"), float("-inf"), "1e999"])
    texts = [f"{number}", f"{number:e}" if isinstance(number, float) else f"+{abs(number)}"]
    return rng.choice(texts + [".5", "5.", "-.5e+3", "0001", "12345678901234567890.5", "9007199254740993"])


def any_value(rng: random.Random, column: ColumnPlan) -> Any:
    if column.stype == "numerical":
        return any_number(rng)
    if column.stype == "timestamp":
        return any_time(rng, column.unit)
    if column.stype == "boolean":
        return rng.choice([0, 1, 0.0, 1.0, "true", "FALSE", "t", "F", "Yes", "no", "1", "0"])
    if column.stype == "categorical":
        return rng.choice([any_word(rng), any_word(rng), rng.randint(-3, 12), rng.randint(-8, 8) / 4])
    if column.stype == "text":
        return any_word(rng) if rng.random() < 0.9 else rng.choice([any_integer, any_real])(rng)
    if column.stype == "ignored":
        return rng.choice([any_word(rng), any_integer(rng), rng.randbytes(3)])
    return rng.choice([any_word, any_integer, any_real])(rng)


# ---- Tables ------------------------------------------------------------------------------------------------


def any_key(rng: random.Random, kind: str) -> Any:
    if kind == "int":
        return rng.randint(-30, 300) if rng.random() < 0.95 else any_integer(rng)
    if kind == "text":
        return any_word(rng) + (str(rng.randint(0, 99)) if rng.random() < 0.9 else "")
    if rng.random() < 0.15:  # integers and reals that are equal, or nearly
        edge = rng.choice([2**53, 2**62, 2**63 - 1, -(2**63)]) + rng.randint(-2, 2)
        edge = min(max(edge, -(2**63)), LARGEST_INT64)
        return rng.choice([edge, float(edge), float("inf"), -0.0, rng.randbytes(1)])
    number, text = rng.choice([rng.randint(-5, 40), rng.randint(-20, 90) / 4]), str(rng.randint(0, 40))
    return rng.choice([number, number, any_word(rng), text])


def plan_table(rng: random.Random, name: str, most_rows: int) -> TablePlan:
    names = rng.sample(COLUMN_NAMES, rng.randint(1, 9))
    single, composite = [["int"], ["int"], ["text"], ["mixed"]], [["int", "text"], ["mixed", "int", "text"]]
    key_kinds = rng.choice([*single, *composite, []])[: len(names)]
    table = TablePlan(name, [], names[: len(key_kinds)], rng.random() < 0.5)
    table.is_from = rng.choice(["table", "table", "table", "table", "view", "query"])
    for column_name, kind in zip(names, key_kinds):
        declared = {"int": rng.choice(["INTEGER", "BIGINT"]), "text": "TEXT", "mixed": ""}[kind]
        stype = rng.choice(["identifier", "identifier", "identifier", "categorical", "text"])
        table.columns.append(ColumnPlan(column_name, stype, declared))
    for column_name in names[len(key_kinds) :]:
        stype = rng.choice([*STYPES, "timestamp"])
        declared = rng.choice(["", "", "TEXT", "REAL", "NUMERIC", "BLOB"]) if stype != "timestamp" else ""
        if stype in ("boolean", "numerical") and declared == "TEXT":
            declared = ""  # would turn 1.0 into '1.0', which is no boolean
        table.columns.append(ColumnPlan(column_name, stype, declared, rng.choice(["s", "ms", "us"])))
    rng.shuffle(table.columns)
    times = [column.name for column in table.columns if column.stype == "timestamp"]
    for column in table.columns:
        column.in_schema = column.name in table.primary_key + times or rng.random() < 0.93
        column.description = rng.choice([None, None, "what it is", "größer"])
        if times and rng.random() < 0.35:
            column.known_at = rng.choice([*([time] for time in times), None])
    if times and rng.random() < 0.7:
        table.temporal = [rng.choice(times)]
    fill_rows(rng, table, key_kinds, most_rows)
    return table


def same_key(value: Any) -> Any:
    """Two values are the same key where this is equal (1 and 1.0 are, 1 and '1' are not)."""
    return (isinstance(value, str), value)


def fill_rows(rng: random.Random, table: TablePlan, key_kinds: list[str], most_rows: int) -> None:
    kinds = dict(zip(table.primary_key, key_kinds))
    seen: set[Any] = set()
    null_share = rng.choice([0, 0.1, 0.1, 0.5])
    for _ in range(rng.choice([0, 1, 2, rng.randint(0, most_rows), most_rows])):
        row = {}
        for column in table.columns:
            if column.name in kinds:
                row[column.name] = any_key(rng, kinds[column.name])
            else:
                row[column.name] = None if rng.random() < null_share else any_value(rng, column)
        key = tuple(same_key(row[name]) for name in table.primary_key)
        if table.primary_key and key in seen:
            continue
        seen.add(key)
        table.rows.append(row)
    rng.shuffle(table.rows)


def add_foreign_keys(rng: random.Random, tables: list[TablePlan]) -> None:
    """Some columns point to a table's only key, or to another column without repeated values."""
    parents = [table for table in tables if len(table.primary_key) == 1]
    for parent in parents:
        if rng.random() < 0.3 and len(parent.columns) > 1:
            column = next(column for column in parent.columns if column.name not in parent.primary_key)
            if column.stype in ("identifier", "ignored"):
                column.stype, column.declared, parent.unique_column = "identifier", "", column.name
                for number, row in enumerate(parent.rows):
                    row[column.name] = rng.choice([None, number, f"u{number}", number + 0.5])
    for table in tables:
        for column in table.columns:
            is_free = column.name not in table.primary_key and column.name != table.unique_column
            is_free = is_free and column.stype in ("identifier", "categorical", "ignored", "text")
            if not parents or not is_free or rng.random() < 0.3:
                continue
            parent = rng.choice([*parents, *([table] if table in parents else [])])
            target = parent.unique_column or parent.primary_key[0]
            column.parent, column.declared, column.in_schema = (parent.name, target), "", True
            present = [row[target] for row in parent.rows if row[target] is not None] or [1]
            few = rng.sample(present, min(len(present), 3))
            for row in table.rows:
                some = rng.choice(present if rng.random() < 0.4 else few)
                if isinstance(some, int) and rng.random() < 0.2:
                    some = float(some)
                row[column.name] = some if rng.random() < 0.8 else rng.choice([None, -77, "nowhere"])


def add_wide_keys(rng: random.Random, tables: list[TablePlan]) -> None:
    """Foreign keys of several columns, to primary keys in any order; and a second one of a single column."""
    for table in tables:
        for parent in tables:
            width = len(parent.primary_key)
            is_free = ("identifier", "categorical", "ignored", "text")
            free = [c for c in table.columns if c.name not in table.primary_key and c.name != table.unique_column]
            free = [c for c in free if c.stype in is_free]
            if width == 0 or len(free) < width or rng.random() < (0.4 if width > 1 else 0.85):
                continue
            columns, to = rng.sample(free, width), list(parent.primary_key)
            says_to = rng.random() < 0.5
            if says_to:
                rng.shuffle(to)
            for column in columns:
                column.declared = ""
            name = rng.choice([None, f"to {parent.name}", "k"]) if width > 1 else f"second {parent.name}"
            key = WideKey([column.name for column in columns], parent.name, to, says_to, name)
            if fits_beside(table, key):
                table.wide_keys.append(key)
            for row in table.rows:
                if parent.rows and rng.random() < 0.75:
                    some = rng.choice(parent.rows[:5])
                    row.update({column.name: some[target] for column, target in zip(columns, to)})
                if rng.random() < 0.2:
                    row[rng.choice(columns).name] = rng.choice([None, "nowhere", 7])


def name_of(key: WideKey) -> str:
    return key.name or "+".join(key.columns)


def fits_beside(table: TablePlan, key: WideKey) -> bool:
    taken = {column.name for column in table.columns if column.parent} | set(map(name_of, table.wide_keys))
    return name_of(key) not in taken


def keys_of(table: TablePlan) -> dict[str, str]:
    """The table that each foreign key leads to, by the key's name."""
    at_columns = {column.name: column.parent[0] for column in table.columns if column.parent is not None}
    return at_columns | {name_of(key): key.parent for key in table.wide_keys}


def any_path(rng: random.Random, table: TablePlan, tables: list[TablePlan]) -> list[str] | None:
    """Foreign keys from a table on, then a timestamp column of where they end."""
    by_name = {table.name: table for table in tables}
    path: list[str] = []
    while keys_of(table) and len(path) < 3 and (not path or rng.random() < 0.4):
        name = rng.choice(sorted(keys_of(table)))
        path.append(name)
        table = by_name[keys_of(table)[name]]
    times = [column.name for column in table.columns if column.stype == "timestamp"]
    return [*path, rng.choice(times)] if path and times else None


def add_times_through_keys(rng: random.Random, tables: list[TablePlan]) -> None:
    for table in tables:
        if rng.random() < 0.4:
            table.temporal = any_path(rng, table, tables) or table.temporal
        for holder in [*table.columns, *table.wide_keys]:
            if rng.random() < 0.2:
                path = any_path(rng, table, tables)
                holder.known_at = path if path is not None and holder.known_at is not None else holder.known_at
        for key in table.wide_keys:
            times = [[column.name] for column in table.columns if column.stype == "timestamp"]
            times += [path for path in (any_path(rng, table, tables) for _ in range(2)) if path is not None]
            if key.known_at is False and times and rng.random() < 0.6:
                for column in table.columns:
                    column.known_at = rng.choice(times) if column.name in key.columns else column.known_at


def written_path(rng: random.Random, table: TablePlan, path: list[str], tables: list[TablePlan]) -> Json:
    """As a text where it reads back, or as a list."""
    by_name = {table.name: table for table in tables}
    parts, names = [path[0]], list(path)
    for key, name in zip(path, path[1:]):
        table = by_name[keys_of(table)[key]]
        parts.append(f"{table.name}.{name}")
        names.append(table.name)
    if len(path) == 1:
        return path[0] if rng.random() < 0.8 else path
    if any("->" in name for name in names) or rng.random() < 0.3:
        return path
    return rng.choice(["->", " -> ", "\t->  "]).join(parts)


# ---- Tasks -------------------------------------------------------------------------------------------------

TARGET_STYPES = ("numerical", "timestamp", "boolean", "categorical")


def any_split(rng: random.Random, unit: str) -> Json:
    method = rng.choice(["hash", "hash", "temporal", "column", None])
    if method is None:
        return None
    if method == "column":
        return {"method": "column", "column": "part"}
    if method == "temporal":
        return {"method": "temporal", "val": any_time(rng, unit), "test": any_time(rng, unit)}
    train = rng.randint(0, 1000)
    val = rng.randint(0, 1000 - train)
    split: Json = {"method": "hash", "permille": [train, val, 1000 - train - val]}
    if rng.random() < 0.7:
        split["seed"] = rng.choice([0, 1, 2**63 - 1, str(2**64 - 1), "12"])
    return split


def sql_literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str) and "\0" in value:
        return f"CAST(x'{value.encode('utf-8').hex()}' AS TEXT)"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value) if isinstance(value, int) else f"CAST('{value!r}' AS REAL)"


def any_task(rng: random.Random, tables: list[TablePlan]) -> Json | None:
    anchors = [table for table in tables if table.primary_key]
    if not anchors:
        return None
    anchor = rng.choice(anchors)
    unit = rng.choice(["s", "ms", "us"])
    keys = [f"k{i}" for i in range(len(anchor.primary_key))]
    task: Json = {"anchor_table": anchor.name, "unit": unit}
    task["anchor_key"] = keys[0] if len(keys) == 1 and rng.random() < 0.7 else keys
    if rng.random() < 0.5:
        task["before_anchor"] = rng.choice(["keep", "show_known", "move"])
    if rng.random() < 0.3:
        task["target_statistics"] = rng.choice(["all", "train"])
    split = any_split(rng, unit)
    if split is not None:
        task["split"] = split
    cells = [column for column in anchor.columns if column.in_schema and column.stype in TARGET_STYPES]
    if rng.random() < 0.6:
        task["observation_time_column"] = "seen"
    key = quoted(anchor.primary_key[0])
    selected = ", ".join(f"{quoted(column)} AS {name}" for column, name in zip(anchor.primary_key, keys))
    part = f"CASE abs(length({key})) % 4 WHEN 0 THEN 'val' WHEN 1 THEN 'test' ELSE 'train' END AS part"
    seen = f"{sql_literal(any_time(rng, unit))} AS seen"
    if cells and rng.random() < 0.6:
        column = rng.choice(cells)
        task.update(target_column=column.name, target_stype=column.stype, unit=column.unit)
        if split is not None and split["method"] == "temporal":
            task["split"] = {**split, "val": any_time_text(rng), "test": any_time_text(rng)}
        if rng.random() < 0.3:
            task["kind"] = rng.choice(["cell", "derived"])
        seen = f"{sql_literal(any_time_text(rng))} AS seen"
        task["query"] = f"SELECT {selected}, {quoted(column.name)}, {part}, {seen} FROM {quoted(anchor.base)}"
    else:
        stype = rng.choice(TARGET_STYPES)
        column = ColumnPlan("target", stype, unit=unit)
        choices = [sql_literal(None if rng.random() < 0.2 else any_value(rng, column)) for _ in range(4)]
        cases = " ".join(f"WHEN {i} THEN {value}" for i, value in enumerate(choices))
        target = f"CASE rowid % 4 {cases} END AS target"
        task.update(target_column="target", target_stype=stype)
        task["query"] = (
            f"SELECT {selected}, {target}, {part}, {seen} FROM {quoted(anchor.base)}"
            f" UNION ALL SELECT {selected}, NULL, 'train', {sql_literal(any_time(rng, unit))}"
            f" FROM {quoted(anchor.base)} WHERE rowid % 3 = 0"
            f" UNION ALL SELECT {', '.join('-12345' for _ in keys)}, NULL, 'val', NULL"
            f" UNION ALL SELECT {', '.join('NULL' for _ in keys)}, NULL, 'val', NULL"
        )
    if rng.random() < 0.5:  # labels with a time: of a cell task it is refused, unless it says that it is derived
        task["kind"] = "derived"
        if rng.random() < 0.6:
            task["horizon"] = rng.choice([0, 0, 1, "3us", "10ms", "7s", "90m", "12h", "2d", "1w", 2**62, 2**63 - 2])
        else:
            task["label_known_column"] = "told"
            told = sql_literal(None if rng.random() < 0.2 else any_time_text(rng))
            also = sql_literal(any_time_text(rng))
            parts = (f"SELECT q.*, {time} AS told FROM ({task['query']}) q" for time in (told, also))
            task["query"] = " UNION ALL ".join(parts)
    if rng.random() < 0.3:  # seeds that differ in their weight alone, too
        task["weight_column"] = "w"
        weights = rng.choice([("1.5", "0"), ("'7'", "0.25"), ("-0.0", "1e300"), ("3", "3")])
        parts = (f"SELECT q.*, {weight} AS w FROM ({task['query']}) q" for weight in weights)
        task["query"] = " UNION ALL ".join(parts)
    droppable = [(t.name, c.name) for t in tables for c in t.columns]
    dropped = rng.sample(droppable, min(len(droppable), rng.choice([0, 0, 1, 3])))
    task["drop_columns"] = [joined(rng, *name, tables) for name in dropped]
    return task


# ---- A whole database --------------------------------------------------------------------------------------


def joined(rng: random.Random, table: str, column: str, tables: list[TablePlan]) -> Json:
    """table.column where it reads back, or a list."""
    text = f"{table}.{column}"
    names = {table.name for table in tables}
    read = next(text[:place] for place, letter in enumerate(text) if letter == "." and text[:place] in names)
    return text if read == table and rng.random() < 0.8 else [table, column]


def written_known_at(rng: random.Random, table: TablePlan, known_at: list[str] | None, tables: Json) -> Json:
    return None if known_at is None else written_path(rng, table, known_at, tables)


def schema_of_column(rng: random.Random, table: TablePlan, column: ColumnPlan, tables: list[TablePlan]) -> Json:
    schema: Json = {"stype": column.stype}
    if column.parent is not None:
        schema["foreign_key"] = joined(rng, *column.parent, tables)
    if column.known_at is not False:
        schema["known_at"] = written_known_at(rng, table, column.known_at, tables)
    if column.description is not None:
        schema["description"] = column.description
    if column.stype == "timestamp" and column.unit != "s":
        schema["unit"] = column.unit
    return schema


def schema_of_key(rng: random.Random, table: TablePlan, key: WideKey, tables: list[TablePlan]) -> Json:
    schema: Json = {"columns": key.columns, "table": key.parent}
    if len(key.columns) == 1 and rng.random() < 0.5:
        schema["columns"] = key.columns[0]
    if key.says_to:
        schema["to"] = key.to
    if key.name is not None:
        schema["name"] = key.name
    if key.known_at is not False:
        schema["known_at"] = written_known_at(rng, table, key.known_at, tables)
    return schema


def schema_of_table(rng: random.Random, table: TablePlan, tables: list[TablePlan]) -> Json:
    named = [column for column in table.columns if column.in_schema]
    schema: Json = {"columns": {column.name: schema_of_column(rng, table, column, tables) for column in named}}
    if table.is_from == "query":
        selected = ", ".join(quoted(column.name) for column in table.columns)
        schema["query"] = f"SELECT {selected} FROM {quoted(table.base)}{rng.choice(['', ';', ' -- all of it'])}"
    if table.wide_keys:
        schema["foreign_keys"] = [schema_of_key(rng, table, key, tables) for key in table.wide_keys]
    if len(table.primary_key) == 1 and rng.random() < 0.5:
        schema["primary_key"] = table.primary_key[0]
    elif table.primary_key:
        schema["primary_key"] = table.primary_key
    if rng.random() < 0.1:
        schema["keys"] = rng.random() < 0.5
    if table.temporal is not None:
        schema["temporal_column"] = written_path(rng, table, table.temporal, tables)
    return schema


def write_tables(path: Path, tables: list[TablePlan]) -> None:
    connection = scratch_database(path)
    bases = {table.name: table.base for table in tables}
    for table in tables:
        declared = [f"{quoted(column.name)} {column.declared}" for column in table.columns]
        if table.declares_key and table.primary_key:
            declared.append(f"PRIMARY KEY ({', '.join(map(quoted, table.primary_key))})")
        for column in table.columns:
            if column.parent is not None and table.declares_key:
                parent, target = quoted(bases[column.parent[0]]), quoted(column.parent[1])
                declared.append(f"FOREIGN KEY ({quoted(column.name)}) REFERENCES {parent}({target})")
        for key in table.wide_keys if table.declares_key else []:
            columns, to = (", ".join(map(quoted, names)) for names in (key.columns, key.to))
            to = f"({to})" if key.says_to else ""
            declared.append(f"FOREIGN KEY ({columns}) REFERENCES {quoted(bases[key.parent])}{to}")
        connection.execute(f"CREATE TABLE {quoted(table.base)} ({', '.join(declared)})")
        if table.is_from == "view":
            connection.execute(f"CREATE VIEW {quoted(table.name)} AS SELECT * FROM {quoted(table.base)}")
        places = ", ".join("?" for _ in table.columns)
        connection.executemany(
            f"INSERT INTO {quoted(table.base)} VALUES ({places})",
            [[row[column.name] for column in table.columns] for row in table.rows],
        )
    connection.commit()
    connection.close()


def make(rng: random.Random, path: Path, most_rows: int) -> Json:
    """Writes a database to a new file and returns its schema."""
    tables = [plan_table(rng, name, most_rows) for name in rng.sample(TABLE_NAMES, rng.randint(1, 5))]
    add_foreign_keys(rng, tables)
    add_wide_keys(rng, tables)
    add_times_through_keys(rng, tables)
    write_tables(path, tables)
    schema: Json = {"tables": {table.name: schema_of_table(rng, table, tables) for table in tables}}
    if rng.random() < 0.8:
        schema["name"] = rng.choice(["shop", "Ünï", "a b"])
    if rng.random() < 0.4:
        schema["statistics_until"] = any_time_text(rng)
    if rng.random() < 0.5:
        schema["keys"] = True
    schema["embedding"] = {"provider": "hash_v1", "dim": rng.choice([1, 8, 16, 256])}
    if rng.random() < 0.8:
        tasks = [any_task(rng, tables) for _ in range(rng.randint(0, 5))]
        named = {f"{rng.choice('abZé')}{i}": task for i, task in enumerate(tasks)}
        schema["tasks"] = {name: task for name, task in named.items() if task is not None}
        methods = {task.get("split", {}).get("method", "hash") for task in schema["tasks"].values()}
        if methods - {"hash"} and rng.random() < 0.3:
            schema["statistics_until"] = "train"
    return schema


# ---- For drafting ------------------------------------------------------------------------------------------

DECLARED_TYPES = [
    "BOOLEAN", "bool", "DATE", "TIMESTAMP", "datetime", "INTEGER", "TinyInt", "REAL", "double precision",
    "FLOAT", "NUMERIC", "DECIMAL(10,2)", "TEXT", "VARCHAR(20)", "clob", "BLOB", "", "STRING", "UUID",
    "CHARINT", "POINT",
]  # fmt: skip
DRAFTED_NAMES = [
    "user_id", "Uuid", "email", "URL", "phone", "sha_hash", "zip_code", "identity", "created",
    "updated_on", "Date", "online", "that", "timestamp2", "born", "x", "y", "size", "mail", "done_at",
    "only", "atlas",
]  # fmt: skip


def any_column_values(rng: random.Random, count: int) -> list[Any]:
    """Values of one kind, maybe with one of another kind among them, about as many of them different as the
    rules for categories allow."""
    distinct = max(1, rng.choice([count // 20, count // 20 + 1, count // 19, 50, 51, 100, 101, count]))
    kinds = [
        lambda i: i % distinct,
        lambda i: f"v{i % distinct}",
        lambda i: f"a word {i % distinct}",
        lambda i: (i % distinct) / 4 + 0.125,
        lambda i: float(i % distinct),
        lambda i: i % 2,
        lambda i: rng.choice(["yes", "no", "T", "f", 1, 0]),
        lambda i: any_time_text(rng),
        lambda i: any_time(rng, "s"),
        lambda i: rng.randbytes(2),
        lambda i: None,
    ]
    kind, other = rng.choice(kinds), rng.choice(kinds)
    values = [kind(i) for i in range(count)]
    if values and rng.random() < 0.25:
        values[rng.randrange(count)] = other(rng.randrange(count))
    null_share = rng.choice([0, 0, 0, 0.02, 0.5])
    values = [None if rng.random() < null_share else value for value in values]
    rng.shuffle(values)
    return values


def make_for_drafting(rng: random.Random, path: Path) -> None:
    """Writes a database whose columns lie near what the draft rules tell apart."""
    connection = scratch_database(path)
    names = rng.sample(TABLE_NAMES, rng.randint(1, 3))
    for name in names:
        columns = rng.sample(DRAFTED_NAMES, rng.randint(1, 8))
        count = rng.choice([0, 1, 19, 20, 60, 1000, 1020, 2000, 2020])
        declared = [f"{quoted(column)} {rng.choice(DECLARED_TYPES)}" for column in columns]
        if rng.random() < 0.5:
            declared[0] = f"{quoted(columns[0])} INTEGER PRIMARY KEY"
        if len(columns) > 2 and rng.random() < 0.5:
            parent = quoted(rng.choice([*names, "nothing"]))
            first, second = quoted(columns[0]), quoted(columns[1])
            target = rng.choice(["", f"({first})", f"({first}, {second})"])
            of = ", ".join(quoted(column) for column in columns[1 : 3 if "," in target else 2])
            declared.append(f"FOREIGN KEY ({of}) REFERENCES {parent}{target}")
        connection.execute(f"CREATE TABLE {quoted(name)} ({', '.join(declared)})")
        values = [list(range(count)), *(any_column_values(rng, count) for _ in columns[1:])]
        places = ", ".join("?" for _ in columns)
        connection.executemany(f"INSERT INTO {quoted(name)} VALUES ({places})", zip(*values))
    connection.commit()
    connection.close()
