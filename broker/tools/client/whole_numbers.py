"""Whole numbers as Java reads them: decimal digits of ASCII, of 32 or 64 bits.

Python's int() also takes `1_0` and the digits of other scripts, and numbers for which no field of a request has room.
Source: java.lang.Integer.parseInt, java.lang.Long.parseLong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_DIGITS = re.compile(r"[+-]?[0-9]+")


def whole_number(text: str, bits: int = 32) -> int | None:
    """None for what is no such number."""
    # A long row of digits is refused before int() is, which raises for one of more than 4,300.
    if _DIGITS.fullmatch(text) is None or len(text.lstrip("+-0")) > 19:
        return None
    found = int(text)
    return found if -(1 << (bits - 1)) <= found < 1 << (bits - 1) else None


def whole_numbers(texts: Iterable[str]) -> list[int] | None:
    """Of 32 bits. None where one of them is no such number."""
    found = []
    for text in texts:
        number = whole_number(text)
        if number is None:
            return None
        found.append(number)
    return found
