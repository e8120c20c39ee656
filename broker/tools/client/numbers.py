"""Numbers as Java reads them: decimal digits of ASCII, whole ones of 32 or 64 bits.

Python's int() and float() also take `1_0` and the digits of other scripts, int() numbers for which no field of a
request has room, and float() `nan`, `inf` and what becomes infinite.
Source: java.lang.Integer.parseInt, java.lang.Long.parseLong, java.lang.Double.parseDouble.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

_DIGITS = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def whole_number(text: str, bits: int = 32) -> int | None:
    """None for what is no such number."""
    # A long row of digits is refused before int() is, which raises for one of more than 4,300.
    if _DIGITS.fullmatch(text) is None or len(text.lstrip("+-0")) > 19:
        return None
    found = int(text)
    return found if -(1 << (bits - 1)) <= found < 1 << (bits - 1) else None


def finite_number(text: str) -> float | None:
    """None for what is no decimal number, with or without an exponent, or too large for 64 bits."""
    if _NUMBER.fullmatch(text) is None:
        return None
    found = float(text)
    return found if math.isfinite(found) else None


def whole_numbers(texts: Iterable[str]) -> list[int] | None:
    """Of 32 bits. None where one of them is no such number."""
    found = []
    for text in texts:
        number = whole_number(text)
        if number is None:
            return None
        found.append(number)
    return found
