"""Tasks: what is to be predicted, about which rows, as seen when, and in which split.

Follows the section "Tasks and seeds" of the specification. A task's query gives rows; each that names a row
of the anchor table becomes a seed: that row, the time at which it is observed, the target. What a query does
wrong is TASK_INVALID.
"""

import hashlib
import sqlite3
from dataclasses import dataclass
from itertools import count
from typing import Any, NoReturn

from . import cbor, philox, values
from .database import Database
from .errors import WeirError
from .links import Destinations, pairs_once
from .moments import Statistics, statistics_of
from .rows import Column, Table
from .schema import SPLITS, TARGET_STYPES, SplitSchema, TaskSchema
from .timestamps import ALWAYS, NEVER, SEES_EVERYTHING
from .values import ANY_TIME, Stored, TimeForm
from .xxh64 import xxh64

DOMAIN_SPLIT = 0x73706C74


@dataclass
class Seed:
    row: int
    time: int
    target: Any  # converted: a float, microseconds, a bool, a category's text, or None
    split: str
    weight: float = 0.0  # of a task that has a weight column
    known: int = NEVER  # when its label is, of a task whose labels have a time
    place: int = 0  # of its destination, in a link task


@dataclass
class Task:
    name: str
    schema: TaskSchema
    anchor: Table
    column: Column | None  # the target of a cell task; None: the task is derived
    seeds: list[Seed]
    dropped: int
    statistics: Statistics | None = None  # of a derived task with a numerical target
    categories: list[str] | None = None  # of a derived task with a categorical target, sorted
    category_start: int = 0
    column_idx: int = 0
    early: int = 0  # seeds that are observed before their anchor is there
    observed_idx: int = 0  # ColumnIdx of the observation time, of a task whose labels have a time
    destinations: Destinations | None = None  # of a link task

    @property
    def observed_name(self) -> str:
        return self.schema.observation_time_column or "observation_time"

    def numbered_seeds(self) -> list[Seed]:
        """Split after split: a seed's number is its place here."""
        return [seed for split in SPLITS for seed in self.seeds_of(split)]

    @property
    def is_cell(self) -> bool:
        return self.column is not None

    def seeds_of(self, split: str) -> list[Seed]:
        return [seed for seed in self.seeds if seed.split == split]

    def end_of_train(self) -> int | None:
        """The last time of the train split, where it ends before other splits begin; None: it has no end."""
        if self.schema.split.method == "temporal":
            return self.schema.split.val - 1
        times = [seed.time for seed in self.seeds_of("train")] if self.schema.split.method == "column" else []
        return None if not times or max(times) == SEES_EVERYTHING else max(times)

    def drop_names(self, tables: list[Table]) -> list[str]:
        """The dropped columns in order of table and column."""
        dropped = set(self.schema.drop_columns)
        ordered = [(table.name, column) for table in tables for column in table.declared_columns]
        return [".".join(name) for name in ordered if name in dropped]


def refuse(name: str, reason: str) -> NoReturn:
    raise WeirError("TASK_INVALID", f"task {name}: {reason}")


def tasks_nobody_wrote(tables: list[Table]) -> dict[str, TaskSchema]:
    """Without tasks in the schema, each column is one that can be a target, is no key and no row's time. (A column
    that foreign keys lead to may be one.)"""
    tasks: dict[str, TaskSchema] = {}
    for table in tables:
        keys = {*table.primary_key, *(c for key in table.foreign_keys.values() for c in key.columns)}
        for column in table.columns:
            is_free = column.name not in keys and column.name != table.temporal_column
            if column.stype in TARGET_STYPES and is_free:
                plain = f"{table.name}.{column.name}"
                names = (plain if number == 1 else f"{plain}#{number}" for number in count(1))
                tasks[next(name for name in names if name not in tasks)] = TaskSchema(
                    None, table.name, [], column.name, column.stype, kind="cell"
                )
    return tasks


# ---- Making a task -----------------------------------------------------------------------------------------


def make_task(
    name: str,
    schema: TaskSchema,
    anchor: Table,
    database: Database,
    earlier: Task | None = None,
    destinations: Destinations | None = None,
) -> Task:
    """Runs the query and makes the task's seeds, in order; with the numbers and splits of an earlier task."""
    column = _target_cell(name, schema, anchor)
    if column is not None and schema.has_label_times:
        refuse(name, "is a cell task, whose label is known when its cell is")
    asked = _every_row(anchor) if schema.query is None else _asked(name, schema, anchor, database, destinations)
    seeds: list[Seed] = []
    early = 0
    for row, cells in asked:
        if row is None:
            continue
        if column is not None:
            target = anchor.cell(row, column.name)
        elif destinations is not None:
            target = True
        else:
            target = _fitting(name, cells[schema.target_column], schema.target_stype, schema.form)
            if earlier is not None and earlier.categories is not None and target not in earlier.categories:
                target = None
        time = _observation_time(name, schema, cells, anchor.row_time(row))
        is_early = time < anchor.row_time(row)
        early += is_early
        if is_early and schema.before_anchor == "move":
            time = anchor.row_time(row)
        split = _split_of(name, schema.split, anchor.split_key(row), time, cells)
        if earlier is not None:
            split = _earlier_split(earlier, anchor, row, time) or split
        seeds.append(Seed(row, time, target, split, _weight(name, schema, cells)))
        if destinations is not None:
            seeds[-1].place = destinations.places[_destination(schema, destinations, cells)]
        if schema.has_label_times:
            seeds[-1].known = _label_time(name, schema, cells, time, target)
    _check_units(name, schema, column is None, asked)
    seeds.sort(key=lambda seed: (seed.row, seed.time, cbor.encode(seed.target), seed.weight, seed.known))
    if destinations is not None:
        seeds = pairs_once(destinations, seeds)
        _check_lists(name, seeds)
    task = Task(name, schema, anchor, column, seeds, sum(row is None for row, _ in asked), early=early)
    task.destinations = destinations
    if column is None and schema.target_stype == "numerical":
        counted = ("train",) if schema.target_statistics == "train" else SPLITS
        task.statistics = statistics_of([seed.target if seed.split in counted else None for seed in seeds])
    if column is None and schema.target_stype == "categorical":
        present = {seed.target for seed in seeds if seed.target is not None}
        task.categories = sorted(present, key=lambda text: text.encode("utf-8"))
    if earlier is not None:
        task.statistics, task.categories = earlier.statistics, earlier.categories
    return task


def _destination(schema: TaskSchema, destinations: Destinations, cells: dict[str, Stored]) -> int:
    found = _row_by_key(destinations.table, schema.destination_key, cells)
    assert found is not None
    return found


def _check_lists(name: str, seeds: list[Seed]) -> None:
    """The pairs of one source and time are in one split."""
    for seed, after in zip(seeds, seeds[1:]):
        if (seed.row, seed.time) == (after.row, after.time) and seed.split != after.split:
            refuse(name, "the pairs of one source and time are in two splits")


def _earlier_split(earlier: Task, anchor: Table, row: int, time: int) -> str | None:
    """The split of the seeds of an earlier task with this anchor's key and time, if it is one."""
    if not earlier.anchor.keeps_keys:
        return None
    was = earlier.anchor.rows_by(earlier.anchor.primary_key).get(anchor.key_of(row, anchor.primary_key))
    splits = {seed.split for seed in earlier.seeds if (seed.row, seed.time) == (was, time)}
    return splits.pop() if len(splits) == 1 else None


def _check_units(name: str, schema: TaskSchema, is_derived: bool, asked: "list[AskedRow]") -> None:
    """Integers that count seconds because the task does not say otherwise must be able to be seconds."""
    times = [schema.observation_time_column, schema.label_known_column]
    if is_derived and schema.target_stype == "timestamp":
        times.append(schema.target_column)
    found = [
        cells[column]
        for column in times
        for row, cells in asked
        if column is not None and (row is not None or column == schema.target_column)
    ]
    if schema.form == ANY_TIME and values.is_doubtful([value for value in found if isinstance(value, int)]):
        refuse(name, "gives times as integers that cannot be seconds")


def _target_cell(name: str, schema: TaskSchema, anchor: Table) -> Column | None:
    """The column that a cell task is about; None for a derived task."""
    column = next((column for column in anchor.columns if column.name == schema.target_column), None)
    can_be_cell = column is not None and column.stype == schema.target_stype
    if schema.kind == "cell" and not can_be_cell:
        refuse(name, "is a cell task, but its target is no such column of the anchor table")
    if schema.kind is None:
        return column if can_be_cell and schema.observation_time_column is None else None
    return column if schema.kind == "cell" else None


AskedRow = tuple[int | None, dict[str, Stored]]  # the anchor's RowIdx, None where the key matches nothing


def _every_row(anchor: Table) -> list[AskedRow]:
    return [(anchor.row_start + i, {}) for i in range(len(anchor.rows))]


def _asked(
    name: str, schema: TaskSchema, anchor: Table, database: Database, destinations: Destinations | None
) -> list[AskedRow]:
    try:
        names, found = database.query(schema.query or "")
    except (sqlite3.Error, sqlite3.Warning) as fault:
        refuse(name, f"the query fails: {fault}")
    needed = [*schema.anchor_key, *schema.destination_key, schema.observation_time_column, schema.weight_column]
    needed += [] if schema.is_link else [schema.target_column]
    needed.append(schema.label_known_column)
    needed += [schema.split.column] if schema.split.method == "column" else []
    for column in needed:
        if column is not None and column not in names:
            refuse(name, f"the query gives no column {column}")
        if names.count(column) > 1:
            refuse(name, f"the query gives {names.count(column)} columns that are called {column}")
    _check_asked_key(name, schema, schema.anchor_key, anchor)
    if destinations is not None:
        _check_asked_key(name, schema, schema.destination_key, destinations.table)
    asked: list[AskedRow] = []
    for values_of_row in found:
        cells = dict(zip(names, values_of_row))
        row = _row_by_key(anchor, schema.anchor_key, cells)
        if destinations is not None and _row_by_key(destinations.table, schema.destination_key, cells) is None:
            row = None
        asked.append((row, cells))
    return asked


def _row_by_key(table: Table, columns: list[str], cells: dict[str, Stored]) -> int | None:
    keys = [cells[column] for column in columns]
    key = None if None in keys else tuple(values.key_order(key) for key in keys)
    return table.rows_by(table.primary_key).get(key)


def _check_asked_key(name: str, schema: TaskSchema, columns: list[str], anchor: Table) -> None:
    """A column that is called like one of the anchor table that is not its key is not the key. (Where a query's
    columns come from, which a source may know, is not simulated.)"""
    for given, key in zip(columns, anchor.primary_key):
        if not schema.is_key_for_sure and given != key and given in anchor.declared_columns:
            refuse(name, f"{given} is a column of {anchor.name}, but not its primary key {key}")


def _fitting(name: str, value: Stored, stype: str, form: TimeForm) -> Any:
    try:
        return values.converted(value, stype, form)
    except values.Unfit as fault:
        refuse(name, str(fault))


def _weight(name: str, schema: TaskSchema, cells: dict[str, Stored]) -> float:
    """How often weighted sampling draws the seed, in proportion to the others."""
    if schema.weight_column is None:
        return 0.0
    weight = _fitting(name, cells[schema.weight_column], "numerical", schema.form)
    if weight is None or weight < 0:
        refuse(name, f"the column {schema.weight_column} says {cells[schema.weight_column]!r}, which is not a weight")
    return weight + 0.0


def _observation_time(name: str, schema: TaskSchema, cells: dict[str, Stored], row_time: int) -> int:
    if schema.observation_time_column is not None:
        named = _fitting(name, cells[schema.observation_time_column], "timestamp", schema.form)
        if named is not None:
            return named
        if schema.is_link:
            refuse(name, "the observation time of a pair is null")
    return SEES_EVERYTHING if row_time == ALWAYS else row_time


def _label_time(name: str, schema: TaskSchema, cells: dict[str, Stored], time: int, target: Any) -> int:
    """When a seed's label is known."""
    if schema.horizon is not None:
        known = time + schema.horizon
    else:
        given = _fitting(name, cells[schema.label_known_column or ""], "timestamp", schema.form)
        known = NEVER if given is None else max(time, given)
    return NEVER if target is None or time == SEES_EVERYTHING or known > NEVER else known


# ---- Splits ------------------------------------------------------------------------------------------------


def _split_of(name: str, split: SplitSchema, split_key: Any, time: int, cells: dict[str, Stored]) -> str:
    if split.method == "temporal":
        return "train" if time < split.val else "val" if time < split.test else "test"
    if split.method == "column":
        if cells[split.column] not in SPLITS:
            refuse(name, f"the column {split.column} says {cells[split.column]!r}, not train, val or test")
        return str(cells[split.column])
    bucket = hash_bucket(name, split.seed, split_key)
    train, val, _ = split.permille
    return "train" if bucket < train else "val" if bucket < train + val else "test"


def hash_bucket(task: str, seed: int, split_key: Any) -> int:
    """From 0 to 999, by the anchor's key alone: an anchor keeps its split as the database grows."""
    split_seed = hashlib.sha256(cbor.encode(["split_v1", task, seed])).digest()[:16]
    k0, _ = philox.draw_pair(split_seed, DOMAIN_SPLIT, xxh64(cbor.encode(split_key)))
    return ((k0 >> 32) * 1000) >> 32
