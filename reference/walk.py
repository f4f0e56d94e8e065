"""The walk: from a seed's anchor row along the foreign keys, to the rows of its sequence.

Follows the sections "Randomness" and "The walk" of the batch specification, and "Time: what was known when" of
the store's for what may be seen. Parents are visited before any child, in the order in which they were found;
children level by level, within a level by a random priority. A walk sees nothing that is later than the
observation time.
"""

import bisect
import struct
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from . import philox
from .labels import TaskRows
from .manifest import BatchConfig
from .rows import Table
from .schema import Path
from .store import EdgeType, Store, known_time
from .tasks import Task
from .timestamps import ALWAYS, NEVER


DOMAIN_MASK = 0x6D61736B


def is_recent(time: int, floor: int) -> bool:
    """Whether something with this time is not too old to be shown: what was always there never is."""
    return time == ALWAYS or time >= floor


def is_known(time: int, cutoff: int) -> bool:
    """Whether something with this time may be shown; what is never known is later than any cut-off."""
    return time != NEVER and time <= cutoff


class View:
    """What a task may see of a store: all but the edges that it hides. A task may show what was known of its
    anchor before the row was there: then the seed's own row counts as one that was always there."""

    def __init__(
        self, store: Store, task: Task, task_rows: TaskRows | None = None, blank_rows: frozenset[int] = frozenset()
    ) -> None:
        """`blank_rows` are nobody's children."""
        self.store = store
        self._blank_rows = blank_rows
        self.task_rows = task_rows
        self._anchor_table = task.anchor
        self._task_name = task.name
        self._shows_known = task.schema.before_anchor == "show_known"
        hidden = set(task.schema.drop_columns)
        if task.column is not None:
            hidden.add((task.anchor.name, task.column.name))
        shown = [edge for edge in store.edges if not hidden & {(edge.table.name, c) for c in edge.key.columns}]
        self._out_of: dict[str, list[EdgeType]] = {table.name: [] for table in store.tables}
        self._into: dict[str, list[EdgeType]] = {table.name: [] for table in store.tables}
        for edge_type in shown:
            self._out_of[edge_type.table.name].append(edge_type)
            self._into[edge_type.parent_table.name].append(edge_type)
        self._row_starts = [table.row_start for table in store.tables]

    def table_of(self, row: int) -> Table:
        """Of a row that is no task row. An empty table starts where the next one does; of several, the last holds
        the row."""
        return self.store.tables[bisect.bisect_right(self._row_starts, row) - 1]

    def is_task_row(self, row: int) -> bool:
        return row >= self.store.row_count

    def is_row_visible(self, row: int, cutoff: int) -> bool:
        return self.table_of(row).row_time(row) <= cutoff

    def always_there(self, anchor_row: int, anchor_cutoff: int) -> int | None:
        """The anchor, if its own time hides nothing of it in its sequence."""
        is_shown = self._shows_known or self.is_row_visible(anchor_row, anchor_cutoff)
        return anchor_row if is_shown else None

    def known_time(self, row: int, known_at: list[Path], always_there: int | None) -> int:
        """When a cell or a foreign key of a row is known, in a sequence for which one row was always there."""
        return known_time(self.table_of(row), row, known_at, row == always_there)

    def parents(self, row: int, cutoff: int, always_there: int | None) -> Iterator[int]:
        """By the foreign keys of the row that are known, in column order; not all of these rows are visible."""
        if self.task_rows is not None and self.is_task_row(row):
            yield self.task_rows.seed_of(row).row
            return
        for edge_type in self._out_of[self.table_of(row).name]:
            parent = edge_type.parents.get(row)
            time = self.known_time(row, edge_type.key.known_at, always_there)
            if parent is not None and is_known(time, cutoff):
                yield parent

    def children(self, row: int, cutoff: int, floor: int) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """By each edge type into the row's table, its name and those whose edge is known and not too old, as (time,
        row) in stored order; task rows last."""
        if self.is_task_row(row):
            return
        for edge_type in self._into[self.table_of(row).name]:
            name = f"{edge_type.table.name}.{edge_type.name}"
            listed = [e for e in edge_type.children.get(row, []) if e[1] not in self._blank_rows]
            yield name, [e for e in listed if is_known(e[0], cutoff) and is_recent(e[0], floor)]
        if self.task_rows is not None and self.table_of(row) is self._anchor_table:
            labels = self.task_rows.children(row)
            yield self._task_name, [e for e in labels if is_known(e[0], cutoff) and is_recent(e[0], floor)]


class WalkDraws:
    """The random numbers of the walk of one sample, one after the other; each part of it has its own."""

    def __init__(self, walk_seed: bytes, position: int, part: int = 0) -> None:
        self.walk_seed = walk_seed
        self.position = position
        s0, s1, s2, s3 = struct.unpack("<4I", walk_seed)
        self._words = (s0, s1 ^ part, s2, s3)
        self._position = position
        self._count = 0

    def of_part(self, part: int) -> "WalkDraws":
        return WalkDraws(self.walk_seed, self.position, part)

    def _next(self) -> int:
        """128 random bits."""
        s0, s1, s2, s3 = self._words
        low, high = self._position & philox.MASK_32, self._position >> 32
        r0, r1, r2, r3 = philox.philox4x32(
            (low, high, s2 ^ self._count, s3 ^ philox.DOMAIN_WALK), (s0, s1)
        )
        self._count += 1
        return r0 | r1 << 32 | r2 << 64 | r3 << 96

    def masks(self, place: int, permille: int) -> bool:
        """Whether the cell at a place of the sequence is masked, if it can be."""
        s0, s1, s2, s3 = struct.unpack("<4I", self.walk_seed)
        low, high = self.position & philox.MASK_32, self.position >> 32
        r0, r1, _, _ = philox.philox4x32((low, high, s2 ^ place, s3 ^ DOMAIN_MASK), (s0, s1))
        return ((r0 | r1 << 32) * 1000 >> 64) < permille

    def below(self, limit: int) -> int:
        return (self._next() * limit) >> 128

    def priority(self) -> int:
        return self._next() & (2**64 - 1)


@dataclass
class Walk:
    """The walks of one sequence, part after part; `rows` are the visited ones in order."""

    view: View
    config: BatchConfig
    cutoff: int
    floor: int
    always_there: int | None  # the anchor row, or none
    anchor_row: int  # which is visible in any case
    draws: WalkDraws
    cell_count_of: Callable[[int], int]  # how many cells a row gives the sequence
    rows: list[int] = field(default_factory=list)
    part_of: list[int] = field(default_factory=list)  # of each row
    hop_of: list[int] = field(default_factory=list)  # the same
    cell_count: int = 0
    _part: int = 0
    _width: int = 0
    _visited: set[int] = field(default_factory=set)
    _parent_queue: deque[tuple[int, int]] = field(default_factory=deque)  # (row, hop)
    _queued: set[int] = field(default_factory=set)
    _levels: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # hop -> (priority, row)
    _listed: set[int] = field(default_factory=set)

    @property
    def is_full(self) -> bool:
        return self.cell_count >= self.config.sequence_length or len(self.rows) >= self.config.max_rows

    def run(self, first_row: int, cells: int, width: int) -> None:
        """A part: from its first row on, until it has so many cells."""
        self._width = width
        self._parent_queue.clear()
        for waiting in (self._queued, self._levels, self._listed):
            waiting.clear()
        limit = self.cell_count + cells
        self._visit(first_row, 0)
        while not self.is_full and self.cell_count < limit:
            following = self._next()
            if following is None:
                break
            self._visit(*following)
        self._part += 1
        self.draws = self.draws.of_part(self._part)

    def run_all(self, starts: Iterator[int], cells: int, width: int) -> None:
        """A part for each start that is not visited when its turn comes."""
        for row in starts:
            if self.is_full:
                break
            if row not in self._visited:
                self.run(row, cells, width)

    def _visit(self, row: int, hop: int) -> None:
        self.rows.append(row)
        self.part_of.append(self._part)
        self.hop_of.append(hop)
        self._visited.add(row)
        self.cell_count += self.cell_count_of(row)
        if hop < self.config.max_hops:
            self._queue_parents(row, hop + 1)
            self._list_children(row, hop + 1)

    def _queue_parents(self, row: int, hop: int) -> None:
        for parent in self.view.parents(row, self.cutoff, self.always_there):
            is_new = parent not in self._visited and parent not in self._queued
            if is_new and (parent == self.anchor_row or self.view.is_row_visible(parent, self.cutoff)):
                self._queued.add(parent)
                self._parent_queue.append((parent, hop))

    def _list_children(self, row: int, hop: int) -> None:
        for name, children in self.view.children(row, self.cutoff, self.floor):
            for time, child in self._some_of(children, self._width_of(name, hop - 1)):
                if child not in self._visited and child not in self._listed:
                    self._listed.add(child)
                    self._levels.setdefault(hop, []).append((self._priority(time), child))

    def _width_of(self, edge_type: str, hop: int) -> int:
        """How many children a row at this hop lists along an edge type."""
        if self.config.widths is None:
            return self._width
        widths = self.config.widths.get(edge_type, self.config.widths["*"])
        return widths[min(hop, len(widths) - 1)]

    def _priority(self, time: int) -> int:
        """The least is visited first: drawn, or the newest."""
        if self.config.child_policy == "latest":
            return 2**64 - 1 - (time + 2**63)
        return self.draws.priority()

    def _some_of(self, children: list[tuple[int, int]], width: int) -> list[tuple[int, int]]:
        """At most the width: the latest, or by Floyd's method any, in stored order."""
        count = len(children)
        if count <= width:
            return children
        if self.config.child_policy != "uniform":
            return children[count - width :]
        taken: set[int] = set()
        for last in range(count - width, count):
            place = self.draws.below(last + 1)
            taken.add(last if place in taken else place)
        return [children[place] for place in sorted(taken)]

    def _next(self) -> tuple[int, int] | None:
        """The next row and its hop: parents first, then the children of the lowest level."""
        while self._parent_queue:
            row, hop = self._parent_queue.popleft()
            self._queued.discard(row)
            if row not in self._visited:
                return row, hop
        for hop in sorted(self._levels):
            waiting = [entry for entry in self._levels[hop] if entry[1] not in self._visited]
            if waiting:
                first = min(waiting)
                self._levels[hop] = [entry for entry in waiting if entry != first]
                return first[1], hop
            del self._levels[hop]
        return None


def foreign_keys_between(
    view: View, rows: list[int], cutoff: int, always_there: int | None
) -> list[tuple[int, int]]:
    """The known foreign keys between rows of a sequence, as (child, parent) by their number in it."""
    number = {row: i for i, row in enumerate(rows)}
    found = {
        (number[row], number[parent])
        for row in rows
        for parent in view.parents(row, cutoff, always_there)
        if parent in number
    }
    return sorted(found)
