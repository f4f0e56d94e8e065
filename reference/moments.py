"""Statistics: means and standard deviations whose bits do not depend on who adds them up.

Follows the first paragraph of the section "Values" of the specification. Sums are f64, over blocks of 4,096
consecutive rows: within a block in row order, then the blocks' sums in order, then, where several columns
count together, the columns' sums in order. Values that are null or left out are None, and keep their place
in a block.
"""

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

ROWS_PER_BLOCK = 4096
LARGEST_FLOAT32 = float.fromhex("0x1.fffffep+127")

Column = Sequence[float | None]


@dataclass(frozen=True)
class Statistics:
    mean: float
    std: float
    count: int

    def as_json_value(self) -> dict[str, float | int]:
        return {"mean": self.mean, "std": self.std, "count": self.count}


def statistics_of(*columns: Column) -> Statistics:
    """Mean, standard deviation and number of the values of one column, or of several that count together."""
    values = [value for column in columns for value in column if value is not None]
    if not values:
        return Statistics(0.0, 1.0, 0)
    count = len(values)
    mean = _sum_over(columns, lambda value: value) / count
    std = 1.0
    if math.isfinite(mean) and any(value != values[0] for value in values):
        std = math.sqrt(_sum_over(columns, lambda value: (value - mean) * (value - mean)) / count) or 1.0
    if not math.isfinite(mean) or not math.isfinite(std):
        return Statistics(0.0, 1.0, count)
    return Statistics(mean, std, count)


def _sum_over(columns: Sequence[Column], term: Callable[[float], float]) -> float:
    total = 0.0
    for column in columns:
        total += _column_sum(column, term)
    return total


def _column_sum(column: Column, term: Callable[[float], float]) -> float:
    column_sum = 0.0
    for start in range(0, len(column), ROWS_PER_BLOCK):
        block_sum = 0.0
        for value in column[start : start + ROWS_PER_BLOCK]:
            if value is not None:
                block_sum += term(value)
        column_sum += block_sum
    return column_sum


def normalise(value: float, statistics: Statistics) -> float:
    """(value - mean) / std, rounded once to float32; beyond its range the largest finite one of its sign."""
    score = (value - statistics.mean) / statistics.std
    try:
        (rounded,) = struct.unpack("<f", struct.pack("<f", score))
    except OverflowError:
        rounded = math.inf if score > 0 else -math.inf
    return rounded if math.isfinite(rounded) else math.copysign(LARGEST_FLOAT32, rounded)
