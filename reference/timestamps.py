"""Time: from what people write to microseconds, and from microseconds to the floats that a model sees.

Follows "timestamp" in the section "Values" of the specification. A time is an int64 number of microseconds
since 1970 UTC in the proleptic Gregorian calendar, of any year that fits; its two ends are no times, because
"always" and "never" stand there. A text is ISO 8601 in the forms of the pattern below and nothing else.

The 14 cyclic floats are the exact sines and cosines, rounded once to float32. They are computed here with
fifty decimal digits, which is far more than any of these few angles needs to be rounded right.
"""

import functools
import math
import re
import struct
from datetime import date, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction

ALWAYS, NEVER = -(2**63), 2**63 - 1
SEES_EVERYTHING = 2**63 - 1
MICROSECONDS_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": Fraction(1, 1_000)}
MICROSECONDS_PER_SECOND = 1_000_000
DURATIONS = {"us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
DURATIONS["w"] = 7 * DURATIONS["d"]
SECONDS_PER_DAY = 86_400
CYCLIC_FLOATS = 14

# The calendar repeats after 400 years, weekdays included, so every date has a twin in the years from 1970 to
# 2369, which `date` knows.
YEARS_PER_CYCLE, DAYS_PER_CYCLE = 400, 146_097
EPOCH = date(1970, 1, 1)
TWIN_YEAR = EPOCH.year

ISO_8601 = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<decimals>\d{1,6}))?)?"
    r"(?:Z|(?P<sign>[+-])(?P<offset_hours>\d\d)(?::?(?P<offset_minutes>\d\d))?)?)?",
    re.ASCII,
)


# ---- Reading -----------------------------------------------------------------------------------------------


def duration_from_text(text: str) -> int | None:
    """The microseconds of digits and a unit; None if it is not a duration, or one that is too long."""
    matched = re.fullmatch("([0-9]+)(us|ms|s|m|h|d|w)", text, re.ASCII)
    micros = int(matched[1]) * DURATIONS[matched[2]] if matched else -1
    return micros if 0 <= micros <= 2**63 - 2 else None


def from_text(text: str) -> int | None:
    """The microseconds of an ISO 8601 text; None where it is none."""
    match = ISO_8601.fullmatch(text)
    if match is None:
        return None
    numbers = match.groupdict("0")
    fields = {name: int(numbers[name]) for name in numbers if name != "sign"}
    if fields["hour"] > 23 or any(fields[name] > 59 for name in ("minute", "second", "offset_minutes")):
        return None
    if fields["offset_hours"] > 23:
        return None
    cycles_away, year_of_cycle = divmod(fields["year"] - TWIN_YEAR, YEARS_PER_CYCLE)
    try:
        twin = date(TWIN_YEAR + year_of_cycle, fields["month"], fields["day"])
    except ValueError:
        return None
    seconds = ((twin - EPOCH).days + cycles_away * DAYS_PER_CYCLE) * SECONDS_PER_DAY
    seconds += fields["hour"] * 3600 + fields["minute"] * 60 + fields["second"]
    offset_seconds = fields["offset_hours"] * 3600 + fields["offset_minutes"] * 60
    seconds -= -offset_seconds if match["sign"] == "-" else offset_seconds
    return seconds * MICROSECONDS_PER_SECOND + int((match["decimals"] or "").ljust(6, "0"))


def from_integer(integer: int, unit: str) -> int | None:
    """The microseconds of an integer in a unit, rounded down; None where they do not fit."""
    micros = math.floor(integer * MICROSECONDS_PER_UNIT[unit])
    return micros if ALWAYS < micros < NEVER else None


def to_text(micros: int) -> str:
    """A time as weir writes it, in UTC and without what is zero at its end."""
    seconds, fraction = divmod(micros, MICROSECONDS_PER_SECOND)
    days, of_day = divmod(seconds, SECONDS_PER_DAY)
    cycles, day_of_cycle = divmod(days, DAYS_PER_CYCLE)
    twin = EPOCH + timedelta(day_of_cycle)
    clock = f"{of_day // 3600:02}:{of_day // 60 % 60:02}:{of_day % 60:02}"
    decimals = f".{fraction:06}".rstrip("0") if fraction else ""
    return f"{twin.year + cycles * YEARS_PER_CYCLE:04}-{twin.month:02}-{twin.day:02}T{clock}{decimals}Z"


# ---- Floats ------------------------------------------------------------------------------------------------


def cyclic_floats(micros: int) -> list[float]:
    """Sine and cosine of the second, minute, hour, weekday, day of month, month and day of year."""
    second_of_all = micros // MICROSECONDS_PER_SECOND
    day_of_all, second_of_day = divmod(second_of_all, SECONDS_PER_DAY)
    day = EPOCH + timedelta(days=day_of_all % DAYS_PER_CYCLE)
    floats: list[float] = []
    for value, period in (
        (second_of_day % 60, 60),
        (second_of_day // 60 % 60, 60),
        (second_of_day // 3600, 24),
        (day.weekday(), 7),
        (day.day - 1, 31),
        (day.month - 1, 12),
        (day.timetuple().tm_yday - 1, 366),
    ):
        turn = Fraction(value, period)
        floats += [sine_of_turn(turn), sine_of_turn(turn + Fraction(1, 4))]
    return floats


@functools.cache
def sine_of_turn(turn: Fraction) -> float:
    """The sine of a part of a full turn, as the float32 nearest to the exact value."""
    turn %= 1
    if turn >= Fraction(1, 2):
        return 0.0 if turn == Fraction(1, 2) else -sine_of_turn(turn - Fraction(1, 2))
    if turn > Fraction(1, 4):
        turn = Fraction(1, 2) - turn
    return nearest_float32(Fraction(_sine_of_acute_turn(turn)))


def _sine_of_acute_turn(turn: Fraction) -> Decimal:
    """The sine's power series, for a quarter of a turn at most."""
    with localcontext() as context:
        context.prec = 50
        pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
        angle = 2 * pi * turn.numerator / turn.denominator
        term, total, degree = angle, Decimal(0), 1
        while abs(term) > Decimal("1e-45"):
            total += term
            term *= -angle * angle / ((degree + 1) * (degree + 2))
            degree += 2
        return total


def nearest_float32(value: Fraction) -> float:
    """A fraction between -1 and 1 rounded once to float32's 24 bits, ties to even."""
    if value == 0:
        return 0.0
    exponent = 0
    while abs(value) < Fraction(1, 1 << exponent):
        exponent += 1
    steps_per_one = 1 << (exponent + 23)
    return round(value * steps_per_one) / steps_per_one


def cyclic_bytes(micros: int) -> bytes:
    """The 14 floats as little-endian float32."""
    return struct.pack(f"<{CYCLIC_FLOATS}f", *cyclic_floats(micros))
