"""A batch as a person reads it: cell by cell, with names and values of the database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from weir._store import CARRIERS, Store

if TYPE_CHECKING:
    from weir._batch import Batch, Source


class Cell(NamedTuple):
    """A cell of a sequence; the target of a derived task has no table, and its task's name.

    `value` is the database's: a float, an int of microseconds since 1970 for a timestamp, a bool, or the text of a
    category or text; None if it is null, or was not known at the observation time, or is a key."""

    sequence: int
    row: int
    table: str | None
    column: str
    stype: str
    value: float | int | bool | str | None
    is_null: bool
    is_target: bool


def cells_of(batch: Batch, store: Store) -> Iterator[Cell]:
    """The cells of a batch in order, padding left out; of a mixed batch those of the store's sequences."""
    first_columns, tasks = _first_columns(batch, store), _tasks_of(batch)
    columns: dict[int, dict[str, Any]] = {task["column_idx"]: {**task, "table": None} for task in store.info["tasks"]}
    columns.update((column["column_idx"], column) for column in store.info["columns"])
    own = {task for task, first in zip(tasks, first_columns) if first is not None}
    seeds_of = {task: _Seeds(batch, store, task) for task in own}
    for seeds in seeds_of.values():
        columns.update(seeds.columns)
    arrays = {name: batch[name].tolist() for name in ("column_ids", "seq_row_ids", "is_null", "is_target")}
    rows, counts, target = batch.rows.tolist(), batch.num_cells.tolist(), _target_values(batch, store)
    for sequence, count in enumerate(counts):
        first_column, task = first_columns[sequence], tasks[sequence]
        if first_column is None:
            continue
        seeds = seeds_of[task]
        for place in range(count):
            column_ids, local, is_null, is_target = (arrays[name][sequence][place] for name in arrays)
            column, row = columns[column_ids - first_column], rows[sequence][local]
            value = None
            if not is_null and is_target:
                value = target[sequence]
            elif not is_null:
                value = seeds.value(sequence, row, column) if row >= seeds.first_row else _value(store, column, row)
            yield Cell(sequence, local, column["table"], column["name"], column["stype"], value, bool(is_null), bool(is_target))


class _Seeds:
    """Seeds of a task of the batch that are rows: their labels and observation times."""

    def __init__(self, batch: Batch, store: Store, task: int) -> None:
        self.store, self.task = store, store.info["tasks"][task]
        self.number, self.times = task, batch.observation_time.tolist()
        self.first_row = store.info["rows"]
        observed = self.task.get("observed_column_idx")
        described = {"table": None, "name": "observation_time", "column_idx": observed, "stype": "timestamp"}
        self.columns = {} if observed is None else {observed: described}

    def value(self, sequence: int, row: int, column: dict[str, Any]) -> Any:
        number = row - self.first_row
        if number == self.task["seeds"]:  # of a request that is none of the store's seeds
            return self.times[sequence]
        time, label = self.store._seed(self.number, number)
        if column["column_idx"] in self.columns:
            return time
        carrier = CARRIERS[self.task["stype"]]
        if label is None or carrier == "timestamp_values":
            return label
        if carrier == "numeric_values":
            return label * self.task["std"] + self.task["mean"]
        return self.store.category(label) if carrier == "categorical_embed_ids" else bool(label)


def _tasks_of(batch: Batch) -> list[int]:
    """The number of each sequence's task in its store."""
    if batch.dataset_ids is None:
        return [batch.task_index] * batch.sequence_count
    return [batch.sources[number].task_index for number in batch.dataset_ids.tolist()]


def _first_columns(batch: Batch, store: Store) -> list[int | None]:
    """Where the store begins in the numbering of each sequence; None if the sequence is of another."""
    if batch.dataset_ids is None:
        if batch.store_hash != store.hash:
            raise ValueError(f"the batch is of the store {batch.store_hash[:12]}, not of {store!r}")
        return [0] * batch.sequence_count
    first = [source.first_column if source.store.hash == store.hash else None for source in batch.sources]
    if not any(start is not None for start in first):
        raise ValueError(f"{store!r} is not one of those that the batch is of")
    return [first[number] for number in batch.dataset_ids.tolist()]


def _value(store: Store, column: dict[str, Any], row: int) -> Any:
    table = store.tables[column["table"]]
    if column["name"] not in table:
        return None
    stored = table[column["name"]][row - table.row_start]
    carrier = CARRIERS[column["stype"]]
    if carrier == "numeric_values":
        return stored * column["std"] + column["mean"]
    if carrier == "categorical_embed_ids":
        return store.category(stored)
    return store.text(stored) if carrier == "text_embed_ids" else stored


def _target_values(batch: Batch, store: Store) -> list[Any]:
    target, values = batch.target, batch.target.values.tolist()
    if batch.dataset_ids is not None:
        sources = [batch.sources[number] for number in batch.dataset_ids.tolist()]
        return [_in_words(store, source, value) if source.store.hash == store.hash else None
                for source, value in zip(sources, values)]  # fmt: skip
    carrier = CARRIERS[target.stype]
    if carrier == "categorical_embed_ids":
        return [store.category(batch.category_start + value) for value in values]
    if carrier == "bool_values":
        return list(values)
    scaled = [value * target.std + target.mean for value in values]
    return [round(value) for value in scaled] if carrier == "timestamp_values" else scaled


def _in_words(store: Store, source: Source, value: float) -> Any:
    """The target of a sequence of a mixed batch."""
    carrier = CARRIERS[source.target_stype]
    if carrier == "categorical_embed_ids":
        return store.category(source.category_start - source.first_category + round(value))
    if carrier == "bool_values":
        return value != 0
    scaled = value * source.std + source.mean
    return round(scaled) if carrier == "timestamp_values" else scaled
