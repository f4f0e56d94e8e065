"""Times by a pattern such as "%d/%m/%Y %H:%M".

Follows "Patterns" in docs/spec/04-values.md: a pattern becomes a regular expression and a date.
"""

import re
from datetime import date, timedelta
from functools import lru_cache

MONTHS = "january february march april may june july august september october november december".split()
WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
DIGITS = {"Y": (4, 4), "y": (2, 2), "m": (1, 2), "d": (1, 2), "H": (1, 2), "I": (1, 2), "M": (1, 2), "S": (1, 2),
          "j": (3, 3), "f": (1, 9)}  # fmt: skip
PART = {"Y": "year", "y": "year", "m": "month", "b": "month", "B": "month", "d": "day", "H": "hour", "I": "hour",
        "a": "weekday", "A": "weekday"}  # fmt: skip
LONGEST, MOST_DIRECTIVES = 64, 16


class BadPattern(ValueError):
    pass


@lru_cache(maxsize=None)
def compiled(pattern: str) -> "re.Pattern[str]":
    """The pattern as a regular expression with a group for each directive."""
    if not 0 < len(pattern.encode("utf-8")) <= LONGEST:
        raise BadPattern("too long or empty")
    items = re.findall("%.|[^%]|%$", pattern, re.DOTALL)
    parts: list[str] = []
    expression = ""
    for place, item in enumerate(items):
        if len(item) == 1 or item == "%%":
            if item == "%":
                raise BadPattern("a lone %")
            expression += re.escape(item[0])
            continue
        letter = item[1]
        if letter not in "YymbBdjHIpMSfzaA" or PART.get(letter, letter) in parts:
            raise BadPattern("an unknown directive, or two for one part")
        parts.append(PART.get(letter, letter))
        if letter in DIGITS:
            beside = items[max(0, place - 1) : place] + items[place + 1 : place + 2]
            is_joined = any(len(other) == 2 and other[1] in DIGITS for other in beside)
            least, most = DIGITS[letter]
            least = most if is_joined and letter != "f" else least
            expression += f"(?P<{letter}>[0-9]{{{least},{most}}})"
        else:
            expression += f"(?P<{letter}>{_words(letter)})"
    has = set(parts)
    if "year" not in has or "day" in has and "month" not in has or "j" in has and has & {"month", "day"}:
        raise BadPattern("parts that lack or contradict each other")
    if ("%I" in pattern) != ("p" in has) or len(parts) > MOST_DIRECTIVES:
        raise BadPattern("needs %I and %p together")
    return re.compile(expression, re.IGNORECASE | re.ASCII | re.DOTALL)


def _words(letter: str) -> str:
    if letter in "bB":
        return "|".join(f"{month}|{month[:3]}" for month in MONTHS)
    if letter in "aA":
        return "|".join(f"{day}|{day[:3]}" for day in WEEKDAYS)
    return "am|pm" if letter == "p" else "z|utc|gmt|[+-][0-9]{2}(?::?[0-9]{2})?"


def from_pattern(pattern: str, text: str) -> int | None:
    """Microseconds since 1970, or None where the text is not of this form."""
    found = compiled(pattern).fullmatch(text)
    if found is None:
        return None
    got = {letter: value.lower() for letter, value in found.groupdict().items()}
    year = int(got["Y"]) if "Y" in got else (lambda y: y + (2000 if y < 69 else 1900))(int(got["y"]))
    month = int(got.get("m", 1))
    for letter in "bB":
        if letter in got:
            month = [name[:3] for name in MONTHS].index(got[letter][:3]) + 1
    hour = int(got.get("H", 0))
    if "I" in got:
        if not 1 <= int(got["I"]) <= 12:
            return None
        hour = int(got["I"]) % 12 + (12 if got["p"] == "pm" else 0)
    minute, second = int(got.get("M", 0)), int(got.get("S", 0))
    days = _days(year, month, int(got.get("d", 1)))
    if days is None or hour > 23 or minute > 59 or second > 59:
        return None
    if "j" in got:
        if not 1 <= int(got["j"]) <= (366 if _is_leap(year) else 365):
            return None
        days += int(got["j"]) - 1
    offset = _offset_minutes(got.get("z", "z"))
    if offset is None:
        return None
    micros = int(got["f"][:6].ljust(6, "0")) if "f" in got else 0
    return ((days * 1440 + hour * 60 + minute - offset) * 60 + second) * 1_000_000 + micros


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970; Python has no year 0, which is like the year 400, 146,097 days earlier."""
    try:
        return (date(year or 400, month, day) - date(1970, 1, 1)) // timedelta(1) - (0 if year else 146_097)
    except ValueError:
        return None


def _offset_minutes(text: str) -> int | None:
    if text in ("z", "utc", "gmt"):
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        return None
    return (hours * 60 + minutes) * (-1 if text[0] == "-" else 1)
