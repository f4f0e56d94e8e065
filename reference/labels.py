"""Labels in a context: the seeds of a task as rows, and the rows that show a label, found by walks.

Follows the specification of task rows and retrieval. `TaskRows` are the rows of the virtual table that a task's
seeds make; a number of a row that is not below the store's is one of them. `Examples` says which rows show a
label of the task, how often walks come to them, and in which order they start the parts of a sequence.
"""

import bisect
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import philox
from .manifest import Retrieval
from .store import Store
from .tasks import Seed, Task
from .timestamps import NEVER

DOMAIN_RETRIEVAL = 0x72657472
FILL_TRIES = 4096


class TaskRows:
    """The seeds of a task as rows, of which those of some splits are shown when their label is known."""

    def __init__(self, store: Store, task: Task, splits: tuple[str, ...]) -> None:
        self.first = store.row_count
        self.seeds = task.numbered_seeds()
        self._number = {id(seed): number for number, seed in enumerate(self.seeds)}
        self.list = sorted(
            (seed.row, seed.known, self.first + number)
            for number, seed in enumerate(self.seeds)
            if seed.split in splits and seed.known != NEVER
        )
        self.place = {row: place for place, (_, _, row) in enumerate(self.list)}

    def row_of(self, seed: Seed) -> int:
        return self.first + self._number.get(id(seed), len(self._number))

    def admit(self, seed: Seed) -> None:
        """A request that is not a seed of the task has a row of its own, after those of all seeds."""
        del self.seeds[len(self._number) :]
        self.seeds.append(seed)

    def seed_of(self, row: int) -> Seed:
        return self.seeds[row - self.first]

    def children(self, anchor_row: int) -> list[tuple[int, int]]:
        """Those of an anchor, as (time at which the label is known, row) in order."""
        begin = bisect.bisect_left(self.list, (anchor_row,))
        end = bisect.bisect_left(self.list, (anchor_row + 1,))
        return [(known, row) for _, known, row in self.list[begin:end]]


@dataclass
class Budget:
    """The numbers of one sequence."""

    walks: int
    length: int
    local_cells: int
    width: int


class RetrievalDraws:
    def __init__(self, walk_seed: bytes, position: int) -> None:
        self._words = struct.unpack("<4I", walk_seed)
        self._position = position

    def _block(self, number: int) -> tuple[int, int]:
        s0, s1, s2, s3 = self._words
        low, high = self._position & philox.MASK_32, self._position >> 32
        r0, r1, r2, r3 = philox.philox4x32((low, high, s2 ^ number, s3 ^ DOMAIN_RETRIEVAL), (s0, s1))
        return r0 | r1 << 32, r2 | r3 << 32

    def budget(self, config: Retrieval) -> Budget:
        numbers = (config.walks, config.length, config.local_cells, config.width)
        return Budget(*(values[_pick(self._block(2**32 - 1 - j)[0], len(values))] for j, values in enumerate(numbers)))

    def step(self, walks: int, walk: int, step: int) -> int:
        return self._block(step // 2 * walks + walk)[step % 2]

    def fill(self, number: int) -> int:
        return self._block(2**31 + number // 2)[number % 2]


def _pick(random: int, count: int) -> int:
    return random * count >> 64


@dataclass
class Examples:
    """The examples of one sequence."""

    config: Retrieval
    budget: Budget
    draws: RetrievalDraws
    first_row: int  # of the sequence
    neighbours: Callable[[int], list[int]]
    label_time: Callable[[int], int | None]  # of a row that is an example; else None
    place: Callable[[int], int]
    fill_list: list[int]

    def visits(self) -> dict[int, int]:
        """How often walks come to each example."""
        counts: dict[int, int] = {}
        known: dict[int, list[int]] = {}
        for walk in range(self.budget.walks):
            row = self.first_row
            for step in range(self.budget.length):
                if row not in known:
                    known[row] = self.neighbours(row)
                if not known[row]:
                    break
                row = known[row][_pick(self.draws.step(self.budget.walks, walk, step), len(known[row]))]
                if self.label_time(row) is not None:
                    counts[row] = counts.get(row, 0) + 1
        return counts

    def starts(self) -> Iterator[int]:
        """The rows that start parts, in order, whether they are visited already or not."""
        counts = self.visits()
        if self.config.order == "visits":
            yield from sorted(counts, key=lambda row: (-counts[row], self.place(row)))
        else:
            yield from sorted(counts, key=lambda row: (-(self.label_time(row) or 0), -counts[row], self.place(row)))
        for number in range(FILL_TRIES if self.config.fill and self.fill_list else 0):
            row = self.fill_list[_pick(self.draws.fill(number), len(self.fill_list))]
            if self.label_time(row) is not None:
                yield row
