"""Strict JSON: the form in which people write manifests, read without any leniency.

Follows the section "JSON" of the specification: no duplicate keys, no NUL in a string, no NaN or Infinity,
integers are int64 (larger ones are written as strings of digits), reals must fit binary64, the text is valid
UTF-8 without lone surrogates. Python's own parser does the grammar; the hooks below take away what it is
generous about. What is refused is reported under the family that the caller names, such as MANIFEST_INVALID.
"""

import json
import math
from typing import Any, NoReturn

from .errors import WeirError

LOWEST_INTEGER, HIGHEST_INTEGER = -(2**63), 2**63 - 1
MOST_CHARACTERS_OF_AN_INTEGER = len(str(LOWEST_INTEGER))


class _Refused(ValueError):
    """What the hooks raise; `read` turns it, and the parser's own complaints, into an error of the family."""


def read(text: bytes | str, family: str) -> Any:
    """The value that a JSON text stands for: dict, list, str, int, float, bool or None."""
    try:
        characters = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(
            characters,
            parse_int=_integer,
            parse_float=_real,
            parse_constant=_no_constant,
            object_pairs_hook=_object_without_duplicates,
        )
        _refuse_bad_text(value)
        return value
    except (ValueError, RecursionError) as fault:
        raise WeirError(family, f"the text is not strict JSON: {fault}") from None


def _integer(digits: str) -> int:
    if len(digits) > MOST_CHARACTERS_OF_AN_INTEGER or not LOWEST_INTEGER <= int(digits) <= HIGHEST_INTEGER:
        raise _Refused("an integer beyond 64 bits; write it as a string of digits")
    return int(digits)


def _real(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _Refused("a real number beyond binary64")
    return number


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is no JSON")


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise _Refused("an object has the same key twice")
    return members


def _refuse_bad_text(value: Any) -> None:
    """Escapes can smuggle in a NUL or half a surrogate pair, wherever a string or a key stands."""
    if isinstance(value, str):
        if "\0" in value:
            raise _Refused("a string holds a NUL")
        value.encode("utf-8")  # a lone surrogate makes this a UnicodeEncodeError, which is a ValueError
    elif isinstance(value, list):
        for item in value:
            _refuse_bad_text(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _refuse_bad_text(key)
            _refuse_bad_text(item)
