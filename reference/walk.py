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
from .manifest import BatchConfig
from .rows import Table
from .schema import Path
from .store import EdgeType, Store, known_time
from .tasks import Task
from .timestamps import NEVER


def is_known(time: int, observation_time: int) -> bool:
    """Whether something with this time may be shown; what is never known is later than any observation."""
    return time != NEVER and time <= observation_time


class View:
    """What a task may see of a store: all but the edges that it hides. A task may show what was known of its
    anchor before the row was there: then the seed's own row counts as one that was always there."""

    def __init__(self, store: Store, task: Task) -> None:
        self.store = store
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
        """An empty table starts where the next one does; of several, the last holds the row."""
        return self.store.tables[bisect.bisect_right(self._row_starts, row) - 1]

    def is_row_visible(self, row: int, observation_time: int) -> bool:
        return self.table_of(row).row_time(row) <= observation_time

    def known_time(self, row: int, known_at: list[Path], anchor_row: int) -> int:
        """When a cell or a foreign key of a row is known in a sequence of this anchor."""
        was_always_there = row == anchor_row and self._shows_known
        return known_time(self.table_of(row), row, known_at, was_always_there)

    def parents(self, row: int, observation_time: int, anchor_row: int) -> Iterator[int]:
        """By the foreign keys of the row that are known, in column order; not all of these rows are visible."""
        for edge_type in self._out_of[self.table_of(row).name]:
            parent = edge_type.parents.get(row)
            time = self.known_time(row, edge_type.key.known_at, anchor_row)
            if parent is not None and is_known(time, observation_time):
                yield parent

    def children(self, row: int, observation_time: int) -> Iterator[list[int]]:
        """By each edge type into the row's table, those whose edge is known, in stored order."""
        for edge_type in self._into[self.table_of(row).name]:
            stored = edge_type.children.get(row, [])
            yield [child for time, child in stored if is_known(time, observation_time)]


class WalkDraws:
    """The random numbers of the walk of one sample, one after the other."""

    def __init__(self, walk_seed: bytes, position: int) -> None:
        self._words = struct.unpack("<4I", walk_seed)
        self._position = position
        self._count = 0

    def _next(self) -> int:
        """128 random bits."""
        s0, s1, s2, s3 = self._words
        low, high = self._position & philox.MASK_32, self._position >> 32
        r0, r1, r2, r3 = philox.philox4x32(
            (low, high, s2 ^ self._count, s3 ^ philox.DOMAIN_WALK), (s0, s1)
        )
        self._count += 1
        return r0 | r1 << 32 | r2 << 64 | r3 << 96

    def below(self, limit: int) -> int:
        return (self._next() * limit) >> 128

    def priority(self) -> int:
        return self._next() & (2**64 - 1)


@dataclass
class Walk:
    """One walk, from its anchor to its end; `rows` are the visited ones in order."""

    view: View
    config: BatchConfig
    observation_time: int
    draws: WalkDraws
    cell_count_of: Callable[[int], int]  # how many cells a row gives the sequence
    rows: list[int] = field(default_factory=list)
    cell_count: int = 0
    _anchor_row: int = 0
    _visited: set[int] = field(default_factory=set)
    _parent_queue: deque[tuple[int, int]] = field(default_factory=deque)  # (row, hop)
    _queued: set[int] = field(default_factory=set)
    _levels: dict[int, list[tuple[int, int]]] = field(default_factory=dict)  # hop -> (priority, row)
    _listed: set[int] = field(default_factory=set)

    def run(self, anchor_row: int) -> list[int]:
        self._anchor_row = anchor_row
        self._visit(anchor_row, 0)
        while self.cell_count < self.config.sequence_length and len(self.rows) < self.config.max_rows:
            following = self._next()
            if following is None:
                break
            self._visit(*following)
        return self.rows

    def _visit(self, row: int, hop: int) -> None:
        self.rows.append(row)
        self._visited.add(row)
        self.cell_count += self.cell_count_of(row)
        if hop < self.config.max_hops:
            self._queue_parents(row, hop + 1)
            self._list_children(row, hop + 1)

    def _queue_parents(self, row: int, hop: int) -> None:
        for parent in self.view.parents(row, self.observation_time, self._anchor_row):
            is_new = parent not in self._visited and parent not in self._queued
            if is_new and self.view.is_row_visible(parent, self.observation_time):
                self._queued.add(parent)
                self._parent_queue.append((parent, hop))

    def _list_children(self, row: int, hop: int) -> None:
        for children in self.view.children(row, self.observation_time):
            for child in self._some_of(children):
                if child not in self._visited and child not in self._listed:
                    self._listed.add(child)
                    self._levels.setdefault(hop, []).append((self.draws.priority(), child))

    def _some_of(self, children: list[int]) -> list[int]:
        """At most `child_width`: the latest, or by Floyd's method any, in stored order."""
        count, width = len(children), self.config.child_width
        if count <= width:
            return children
        if self.config.child_policy == "recent":
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


def foreign_keys_between(view: View, rows: list[int], observation_time: int) -> list[tuple[int, int]]:
    """The known foreign keys between rows of a sequence, as (child, parent) by their number in it. The first
    row is the anchor."""
    number = {row: i for i, row in enumerate(rows)}
    found = {
        (number[row], number[parent])
        for row in rows
        for parent in view.parents(row, observation_time, rows[0])
        if parent in number
    }
    return sorted(found)
