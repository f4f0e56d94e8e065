"""Class-balanced and weighted sampling: from a position of a run to a sample, without state.

Follows docs/spec/02-sampling-modes.md. `seeded_place` is the bijection that everything here is made of. A
population is what a dataset is drawn from: its samples by class, or on a line on which each takes as much room
as its weight. Both answer the one question `sample_at(epoch, position)`.
"""

import math
from bisect import bisect_right
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Hashable, Protocol, Sequence

from . import philox
from .errors import WeirError
from .feistel import feistel_hash, sides
from .manifest import Sampling

if TYPE_CHECKING:
    from .tasks import Task

EXACT_SHUFFLE_MAX = 32
ROUNDS = 12
CLASSES_MAX = 2**27


def seeded_place(seed: bytes, domain: int, n: int, j: int, m: int, x: int) -> int:
    """SeededPlace_v1: an exact shuffle of few places, a Feistel network over many."""
    if m == 1:
        return 0
    if m <= EXACT_SHUFFLE_MAX:
        return _shuffled(seed, domain, n, j, m)[x]
    keys = _keys(seed, domain, n, j)
    x = _rounds(x, m, keys)
    while x >= m:
        x = _rounds(x, m, keys)
    return x


@lru_cache(maxsize=1024)
def _shuffled(seed: bytes, domain: int, n: int, j: int, m: int) -> list[int]:
    places = list(range(m))
    for i in range(m - 1):
        k = i + ((philox.draw_numbered(seed, domain, n, j + i) * (m - i)) >> 128)
        places[i], places[k] = places[k], places[i]
    return places


@lru_cache(maxsize=1024)
def _keys(seed: bytes, domain: int, n: int, j: int) -> list[int]:
    return [
        (philox.draw_numbered(seed, domain, n, j + call) >> (32 * word)) & philox.MASK_32
        for call in range(3)
        for word in range(4)
    ]


def _rounds(x: int, m: int, keys: list[int]) -> int:
    a, b = sides(m)
    right, left = divmod(x, a)
    for i in range(0, ROUNDS, 2):
        left = (left + ((feistel_hash(right, keys[i]) * a) >> 32)) % a
        right = (right + ((feistel_hash(left, keys[i + 1]) * b) >> 32)) % b
    return right * a + left


class Population(Protocol):
    """What a dataset is drawn from. `used_positions` is L: the positions that an epoch uses."""

    def sample_at(self, seed: bytes, used_positions: int, epoch: int, position: int) -> int: ...


class Classes:
    """Samples by class: each period of as many positions as there are classes has one sample of each."""

    def __init__(self, class_of_sample: Sequence[Hashable | None]) -> None:
        """`class_of_sample` says each sample's class by a value whose order is that of the classes; None is
        a sample without a target."""
        names = sorted({name for name in class_of_sample if name is not None})
        names += [None] if None in class_of_sample else []
        if len(names) > CLASSES_MAX:
            raise WeirError("TASK_INVALID", "there are more than 2^27 classes")
        members: dict[Hashable | None, list[int]] = {name: [] for name in names}
        for index, name in enumerate(class_of_sample):
            members[name].append(index)
        self.members = [members[name] for name in names]

    def sample_at(self, seed: bytes, used_positions: int, epoch: int, position: int) -> int:
        period, place = divmod(epoch * used_positions + position, len(self.members))
        c = seeded_place(seed, philox.DOMAIN_CLASSES, period, 0, len(self.members), place)
        members = self.members[c]
        this_pass, draw = divmod(period, len(members))
        return members[seeded_place(seed, philox.DOMAIN_MEMBERS, this_pass, 32 * c, len(members), draw)]

    def is_beyond(self, used_positions: int, epoch: int, position: int) -> bool:
        """Whether the period's number does not fit 64 bits."""
        return (epoch * used_positions + position) // len(self.members) >= 2**64


class Weights:
    """Samples on a line: evenly spaced points of an epoch, shuffled, each take the sample below them."""

    def __init__(self, weights: Sequence[float]) -> None:
        self.weights = integer_weights(weights)
        if sum(self.weights) == 0:
            raise WeirError("TASK_INVALID", "no sample has a positive weight")

    def sample_at(self, seed: bytes, used_positions: int, epoch: int, position: int) -> int:
        order, ends = self._line(seed)
        total = ends[-1]
        theta = philox.draw_numbered(seed, philox.DOMAIN_PHASE, 0, 0) & (2**64 - 1)
        phase = ((_reversed_bits(epoch) + theta) % 2**64 * total) >> 64
        j = seeded_place(seed, philox.DOMAIN_POINTS, epoch, 0, used_positions, position % used_positions)
        return order[bisect_right(ends, (j * total + phase) // used_positions)]

    @lru_cache(maxsize=4)
    def _line(self, seed: bytes) -> tuple[list[int], list[int]]:
        """The samples in the order of the line, and where the interval of each ends."""
        n = len(self.weights)
        order = [seeded_place(seed, philox.DOMAIN_LINE, 0, 0, n, k) for k in range(n)]
        return order, list(accumulate(self.weights[index] for index in order))


def population_of(task: "Task", split: str, sampling: Sampling) -> Population:
    """The population of a task's split, as a store has it."""
    seeds = task.seeds_of(split)
    if sampling.mode == "weighted":
        if task.schema.weight_column != sampling.column:
            raise WeirError("TASK_INVALID", f"task {task.name} has no weights of the column {sampling.column}")
        return Weights([seed.weight for seed in seeds])
    if task.schema.target_stype not in ("boolean", "categorical"):
        raise WeirError("TASK_INVALID", f"the target of task {task.name} has no classes")
    return Classes([seed.target.encode("utf-8") if isinstance(seed.target, str) else seed.target for seed in seeds])


def integer_weights(weights: Sequence[float]) -> list[int]:
    """Scaled by a power of two so that the largest is below 2^32 and at least 2^31, and rounded."""
    largest = max(weights, default=0.0)
    if largest == 0:
        return [0] * len(weights)
    scale = Fraction(2) ** (32 - math.frexp(largest)[1])
    return [max(round(Fraction(weight) * scale), int(weight > 0)) for weight in weights]


def _reversed_bits(number: int) -> int:
    return int(f"{number:064b}"[::-1], 2)
