"""The sequence: the cells of a walk's rows, in order, the target first.

Follows the section "The sequence" of the batch specification. A cell is what a model is shown of one column of
one row; a derived task adds a cell of its own to the anchor row. Left out are the columns that the task drops
and labels that are held out; what is not known yet at the observation time is there, but null.
"""

import struct
from dataclasses import dataclass
from typing import Any

from . import timestamps
from .manifest import BatchConfig
from .moments import Statistics, normalise
from .rows import Column, Table
from .schema import STYPES
from .store import Store
from .tasks import Seed, Task
from .walk import View, Walk, WalkDraws, foreign_keys_between, is_known

TIMESTAMP_FLOATS = 15


@dataclass
class Cell:
    stype: int
    column_idx: int
    row: int  # by its number in the sequence
    is_target: bool = False
    is_null: bool = True
    numeric: float = 0.0
    timestamp: bytes = bytes(4 * TIMESTAMP_FLOATS)  # little-endian float32
    boolean: bool = False
    category: int = 0
    text: int | None = None  # global; None in a cell that is no text, or null


@dataclass
class Sequence:
    sample_index: int
    epoch: int
    position: int
    anchor_row: int
    observation_time: int
    cells: list[Cell]
    rows: list[int]
    foreign_keys: list[tuple[int, int]]


def nothing_but_padding() -> Sequence:
    return Sequence(0, 0, 0, 0, 0, [], [], [])


class SequenceMaker:
    """Sequences of one task."""

    def __init__(self, store: Store, task: Task, config: BatchConfig) -> None:
        self.store = store
        self.task = task
        self.config = config
        self.view = View(store, task)
        self._dropped = set(task.schema.drop_columns)
        self._held_out = {seed.row for seed in task.seeds if seed.split != "train"}
        self._text_idx = {text: idx for idx, text in enumerate(store.texts)}

    def make(self, seed: Seed, walk_seed: bytes, sample_index: int, epoch: int, position: int) -> Sequence:
        def cell_count_of(row: int) -> int:
            extra = 1 if row == seed.row else 0  # the target
            return extra + len(self._columns_of(row, seed.row))

        draws = WalkDraws(walk_seed, position)
        rows = Walk(self.view, self.config, seed.time, draws, cell_count_of).run(seed.row)
        cells = [self._target_cell(seed)]
        for number, row in enumerate(rows):
            cells += [self._cell(row, number, column, seed) for column in self._columns_of(row, seed.row)]
        foreign_keys = foreign_keys_between(self.view, rows, seed.time)
        cells = cells[: self.config.sequence_length]
        return Sequence(sample_index, epoch, position, seed.row, seed.time, cells, rows, foreign_keys)

    # -- Which cells --

    def _columns_of(self, row: int, anchor_row: int) -> list[Column]:
        """The columns of which a row gives cells, the target's own cell apart."""
        table = self.view.table_of(row)
        return [column for column in table.columns if self._is_shown(table, column, row, anchor_row)]

    def _is_shown(self, table: Table, column: Column, row: int, anchor_row: int) -> bool:
        if (table.name, column.name) in self._dropped:
            return False
        return column is not self.task.column or self._shows_label(row, anchor_row)

    def _shows_label(self, row: int, anchor_row: int) -> bool:
        """Whether the target column's cell of a row is in the sequence beside the target: never the target's
        own, and never one that is held out."""
        if row == anchor_row:
            return False
        if self.config.label_visibility == "train":
            return row not in self._held_out
        return self.config.label_visibility == "all"

    # -- What is in them --

    def _cell(self, row: int, number: int, column: Column, seed: Seed) -> Cell:
        table = self.view.table_of(row)
        cell = Cell(STYPES.index(column.stype), column.column_idx, number)
        known_at = [] if column.schema.known_at is None else [column.schema.known_at]
        if is_known(self.view.known_time(row, known_at, seed.row), seed.time):
            statistics = self.store.statistics.get(column.column_idx)
            self._fill(cell, table.cell(row, column.name), statistics, column.categories, column.category_start)
        return cell

    def _target_cell(self, seed: Seed) -> Cell:
        """With its ground truth, whenever that is known."""
        task = self.task
        cell = Cell(STYPES.index(task.schema.target_stype), task.column_idx, 0, is_target=True)
        if task.column is not None:
            statistics = self.store.statistics.get(task.column_idx)
            self._fill(cell, seed.target, statistics, task.column.categories, task.column.category_start)
        else:
            self._fill(cell, seed.target, task.statistics, task.categories, task.category_start)
        return cell

    def _fill(
        self, cell: Cell, value: Any, statistics: Statistics | None, categories: list[str] | None, start: int
    ) -> None:
        """Puts a converted value where cells of its semantic type have it; an identifier has none."""
        cell.is_null = value is None
        if value is None:
            return
        stype = STYPES[cell.stype]
        if stype == "numerical":
            assert statistics is not None
            cell.numeric = normalise(value, statistics)
        elif stype == "timestamp":
            score = normalise(float(value), self.store.timestamps)
            cell.timestamp = timestamps.cyclic_bytes(value) + struct.pack("<f", score)
        elif stype == "boolean":
            cell.boolean = value
        elif stype == "categorical":
            assert categories is not None
            cell.category = start + categories.index(value)
        elif stype == "text":
            cell.text = self._text_idx[value]
