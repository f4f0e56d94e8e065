"""The sequence: the cells of a walk's rows, in order, the target first.

Follows the section "The sequence" of the batch specification. A cell is what a model is shown of one column of
one row; a derived task adds a cell of its own to the anchor row. Left out are the columns that the task drops
and labels that are held out; what is not known yet at the observation time is there, but null.
"""

import struct
from dataclasses import dataclass
from typing import Any

from . import timestamps
from .errors import WeirError
from .labels import Examples, RetrievalDraws, TaskRows
from .manifest import BatchConfig
from .moments import Statistics, normalise
from .rows import Column, Table
from .schema import STYPES
from .store import Store
from .tasks import Seed, Task
from .walk import View, Walk, WalkDraws, foreign_keys_between, is_known, is_recent

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
    example: int = 0
    hop: int = 0
    age: float = 0.0
    is_masked: bool = False


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
    role: str | None = None  # in a link task


def nothing_but_padding() -> Sequence:
    return Sequence(0, 0, 0, 0, 0, [], [], [])


def _check_widths(store: Store, config: BatchConfig) -> None:
    known = {f"{edge.table.name}.{edge.name}" for edge in store.edges} | {task.name for task in store.tasks} | {"*"}
    for name in config.widths or ():
        if name not in known:
            raise WeirError("MANIFEST_INVALID", f"the store has no edge type {name!r}")


class SequenceMaker:
    """Sequences of one task."""

    def __init__(self, store: Store, task: Task, config: BatchConfig) -> None:
        self.store = store
        self.task = task
        self.config = config
        _check_widths(store, config)
        has_task_rows = config.labels and task.schema.has_label_times
        self.task_rows = TaskRows(store, task, config.shown_splits()) if has_task_rows else None
        self._dropped = set(task.schema.drop_columns)
        shown = config.label_visibility if isinstance(config.label_visibility, tuple) else ("train",)
        self._held_out = {seed.row for seed in task.seeds if seed.split not in shown}
        self.view = View(store, task, self.task_rows, self._blank_rows())
        self._text_idx = {text: idx for idx, text in enumerate(store.texts)}

    def make(
        self, seed: Seed, draws: WalkDraws, sample_index: int, epoch: int, position: int, may_mask: bool = False
    ) -> Sequence:
        first_row = seed.row if self.task_rows is None else self.task_rows.row_of(seed)

        def cell_count_of(row: int) -> int:
            extra = 1 if row == first_row else 0  # the target
            return extra + self._cell_count(row, first_row)

        cutoff = self.config.cutoff(seed.time)
        always_there = self.view.always_there(seed.row, self.config.anchor_cutoff(seed.time))
        floor = self.config.since.floor(seed.time)
        walk = Walk(self.view, self.config, cutoff, floor, always_there, seed.row, draws, cell_count_of)
        if self._has_examples():
            examples = self._examples(draws, first_row, seed.row, cutoff, floor, always_there)
            walk.run(first_row, examples.budget.local_cells, examples.budget.width)
            walk.run_all(examples.starts(), examples.budget.local_cells, examples.budget.width)
        else:
            width = 0 if isinstance(self.config.child_width, dict) else self.config.child_width
            walk.run(first_row, self.config.sequence_length, width)
        rows = walk.rows
        cells = [self._target_cell(seed)]
        for number, row in enumerate(rows):
            cells += self._cells(row, number, first_row, cutoff, always_there)
        foreign_keys = foreign_keys_between(self.view, rows, cutoff, always_there)
        cells = cells[: self.config.sequence_length]
        ages = [self._age(row, seed, always_there) for row in rows]
        for place, cell in enumerate(cells):
            cell.example, cell.hop, cell.age = walk.part_of[cell.row], walk.hop_of[cell.row], ages[cell.row]
            is_drawn = may_mask and place > 0 and draws.masks(place, self.config.mask_permille)
            cell.is_masked = is_drawn and not cell.is_null and STYPES[cell.stype] != "identifier"
        return Sequence(sample_index, epoch, position, seed.row, seed.time, cells, rows, foreign_keys)

    def _blank_rows(self) -> frozenset[int]:
        """Rows of the anchor table that would show their label alone, and do not."""
        table, target = self.task.anchor, self.task.column
        if self.config.blank_rows == "keep" or target is None or (table.name, target.name) in self._dropped:
            return frozenset()
        rows = range(table.row_start, table.row_start + len(table.rows))
        others = [column for column in table.columns if column is not target]
        if any(self._is_shown(table, column, rows.start, rows.start) for column in others):
            return frozenset()
        return frozenset(row for row in rows if not self._shows_label(row, -1))

    def _age(self, row: int, seed: Seed, always_there: int | None) -> float:
        """In days at the observation time; -1 if there is none to tell."""
        if self.view.is_task_row(row):
            assert self.task_rows is not None
            time = self.task_rows.seed_of(row).time
        else:
            time = self.view.table_of(row).row_time(row)
        is_blank = row == seed.row and always_there is None
        if is_blank or time in (timestamps.ALWAYS, timestamps.NEVER) or seed.time == timestamps.SEES_EVERYTHING:
            return -1.0
        return float(max(seed.time - time, 0)) / 86_400_000_000.0

    # -- Examples --

    def _has_examples(self) -> bool:
        is_own_cell_hidden = self.task.column is not None and (
            (self.task.anchor.name, self.task.column.name) in self._dropped
        )
        has_labels = self.task_rows is not None or (self.task.column is not None and not is_own_cell_hidden)
        return self.config.retrieval is not None and has_labels and bool(self.config.shown_splits())

    def _examples(
        self, draws: WalkDraws, first_row: int, anchor_row: int, cutoff: int, floor: int, always_there: int | None
    ) -> Examples:
        config = self.config.retrieval
        assert config is not None
        own = RetrievalDraws(draws.walk_seed, draws.position)

        def neighbours(row: int) -> list[int]:
            parents = self.view.parents(row, cutoff, always_there)
            seen = [p for p in parents if p == anchor_row or self.view.is_row_visible(p, cutoff)]
            return seen + [child for _, children in self.view.children(row, cutoff, floor) for _, child in children]

        def label_time(row: int) -> int | None:
            known = None if row == first_row else known_time(row)
            return known if known is not None and is_recent(known, floor) else None

        def known_time(row: int) -> int | None:
            if self.task_rows is not None:
                place = self.task_rows.place.get(row)
                known = None if place is None else self.task_rows.list[place][1]
                return known if known is not None and is_known(known, cutoff) else None
            return self._cell_label_time(row, first_row, cutoff)

        if self.task_rows is not None:
            place, fill_list = self.task_rows.place.__getitem__, [row for _, _, row in self.task_rows.list]
        else:
            place = int
            shown = self.config.shown_splits()
            fill_list = [seed.row for seed in self.task.numbered_seeds() if seed.split in shown]
        return Examples(config, own.budget(config), own, first_row, neighbours, label_time, place, fill_list)

    def _cell_label_time(self, row: int, anchor_row: int, cutoff: int) -> int | None:
        """When the label of a row of a cell task is known, if it is shown then."""
        table, column = self.task.anchor, self.task.column
        assert column is not None
        if self.view.is_task_row(row) or self.view.table_of(row) is not table or not self._shows_label(row, anchor_row):
            return None
        known_at = [] if column.schema.known_at is None else [column.schema.known_at]
        known = self.view.known_time(row, known_at, None)
        is_there = table.cell(row, column.name) is not None and self.view.is_row_visible(row, cutoff)
        return known if is_there and is_known(known, cutoff) else None

    # -- Which cells --

    def _cell_count(self, row: int, first_row: int) -> int:
        """How many cells a row gives, the target apart."""
        if self.view.is_task_row(row):
            return 1 if row == first_row else 2
        return len(self._columns_of(row, first_row))

    def _cells(self, row: int, number: int, first_row: int, cutoff: int, always_there: int | None) -> list[Cell]:
        if not self.view.is_task_row(row):
            return [
                self._cell(row, number, column, cutoff, always_there)
                for column in self._columns_of(row, first_row)
            ]
        assert self.task_rows is not None
        seed = self.task_rows.seed_of(row)
        label = self._target_cell(seed)
        label.row, label.is_target = number, False
        time = Cell(STYPES.index("timestamp"), self.task.observed_idx, number)
        self._fill(time, None if seed.time == timestamps.SEES_EVERYTHING else seed.time, None, None, 0)
        return [time] if row == first_row else [label, time]

    def _columns_of(self, row: int, anchor_row: int) -> list[Column]:
        """The columns of which a row gives cells, the target's own cell apart."""
        table = self.view.table_of(row)
        return [column for column in table.columns if self._is_shown(table, column, row, anchor_row)]

    def _is_shown(self, table: Table, column: Column, row: int, anchor_row: int) -> bool:
        if (table.name, column.name) in self._dropped:
            return False
        if column.stype == "identifier" and self.config.identifiers == "omit":
            return False
        return column is not self.task.column or self._shows_label(row, anchor_row)

    def _shows_label(self, row: int, anchor_row: int) -> bool:
        """Whether the target column's cell of a row is in the sequence beside the target: never the target's
        own, and never one that is held out."""
        if row == anchor_row:
            return False
        if self.config.label_visibility in ("all", "none"):
            return self.config.label_visibility == "all"
        return row not in self._held_out

    # -- What is in them --

    def _cell(self, row: int, number: int, column: Column, cutoff: int, always_there: int | None) -> Cell:
        table = self.view.table_of(row)
        cell = Cell(STYPES.index(column.stype), column.column_idx, number)
        known_at = [] if column.schema.known_at is None else [column.schema.known_at]
        if is_known(self.view.known_time(row, known_at, always_there), cutoff):
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
