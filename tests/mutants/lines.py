"""Measurements as lines of JSON, each with what was wanted of its run: written, read back, and which are due. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Wanted = TypeVar("Wanted")
Measured = TypeVar("Measured")

BROKE_OFF = "broke off"
"""In place of a verdict: a run that did not come to its end, and whose history proves nothing."""


def to_line(one: DataclassInstance) -> str:
    """One line of JSON, without its end."""
    return json.dumps(asdict(one), sort_keys=True)


def from_lines(text: str, read: Callable[[dict[str, Any]], Measured]) -> list[Measured]:
    """What `to_line` wrote; a last line without its end, of a measurement that was killed, is left out.

    read: the values of a line → the measurement. Raises ValueError, with the line's number, for any other line that
    cannot be read.
    """
    found = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            found.append(read(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"line {number} is no measurement: {error}") from error
    return found


def due(wanted: Iterable[Wanted], made: Collection[Wanted]) -> list[Wanted]:
    """Those that were not made yet, in their order."""
    return [one for one in wanted if one not in made]
