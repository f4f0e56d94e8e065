"""Values: what a stored cell means as a number, a time, a boolean or a text.

Follows the sections "Values" and "Numbering" of the specification. A stored value is None, an int, a float, a
str or bytes, as SQLite has it. Each function below gives the converted value, None where the cell counts as
null, and raises `Unfit` where the value does not fit; who calls knows the table, column and row to name.
"""

import math
import re
import struct
from dataclasses import dataclass
from typing import Any

from . import time_format, timestamps

Stored = None | int | float | str | bytes

DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)", re.ASCII | re.IGNORECASE)
TRUE_WORDS, FALSE_WORDS = ("true", "t", "yes", "1"), ("false", "f", "no", "0")


class Unfit(ValueError):
    """A value that its column's type has no place for."""


def as_number(value: Stored) -> float | None:
    """A finite f64; None for null, NaN and infinities."""
    number = _any_number(value)
    return number if number is not None and math.isfinite(number) else None


def is_not_finite(value: Stored) -> bool:
    """Whether a cell counts as null because it is NaN or infinite."""
    number = _any_number(value)
    return number is not None and not math.isfinite(number)


def _any_number(value: Stored) -> float | None:
    if value is None:
        return None
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str) and (DECIMAL.fullmatch(value) or NOT_FINITE.fullmatch(value)):
        return float(value)
    raise Unfit(f"{value!r} is not a number")


@dataclass(frozen=True)
class TimeForm:
    """How times are written, as a schema says it."""

    unit: str | None = None
    format: str | None = None


ANY_TIME = TimeForm()


def as_micros(value: Stored, form: TimeForm = ANY_TIME) -> int | None:
    if value is None:
        return None
    micros = None
    is_said = form.unit is not None or form.format is not None
    if is_said and isinstance(value, float) and value.is_integer() and -(2.0**63) <= value < 2.0**63:
        value = int(value)
    if form.format is not None and isinstance(value, (int, str)):
        micros = time_format.from_pattern(form.format, str(value))
    elif isinstance(value, int):
        micros = timestamps.from_integer(value, form.unit or "s")
    elif isinstance(value, str):
        micros = timestamps.from_text(value)
    if micros is None:
        raise Unfit(f"{value!r} is no time")
    return micros


def is_doubtful(integers: list[int]) -> bool:
    """Whether integers that count seconds by default cannot be seconds."""
    if not integers:
        return False
    return 19000101 <= min(integers) and max(integers) <= 21001231 or min(integers) > 4102444800


def double_bytes(value: float) -> bytes:
    return struct.pack("<d", value)


def as_boolean(value: Stored) -> bool | None:
    if value is None:
        return None
    if isinstance(value, (int, float)) and value in (0, 1):
        return value == 1
    if isinstance(value, str) and value.isascii() and value.lower() in TRUE_WORDS + FALSE_WORDS:
        return value.lower() in TRUE_WORDS
    raise Unfit(f"{value!r} is no boolean")


def as_text(value: Stored) -> str | None:
    """Text as it is, integers in decimal, reals with the fewest digits of %g that read back exactly."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return next(text for digits in range(1, 18) if float(text := f"{value:.{digits}g}") == value)
    raise Unfit("a blob is no text")


def as_identifier(value: Stored) -> Stored:
    """Kept as it is; only whether it is there counts."""
    return value


def converted(value: Stored, stype: str, form: TimeForm) -> Any:
    """A cell of a column of this semantic type."""
    if stype == "numerical":
        return as_number(value)
    if stype == "timestamp":
        return as_micros(value, form)
    if stype == "boolean":
        return as_boolean(value)
    if stype in ("categorical", "text"):
        return as_text(value)
    return as_identifier(value)


# ---- Keys --------------------------------------------------------------------------------------------------


def key_order(value: int | float | str | bytes) -> tuple[int, Any]:
    """Sorts as primary keys do: numbers before text before blobs, numbers numerically, the rest bytewise. Two
    values are the same key exactly where this is equal: a number equals a number, a text equals a text."""
    if isinstance(value, str):
        return (1, value.encode("utf-8"))
    return (2, value) if isinstance(value, bytes) else (0, value)
