"""Histories in which answers are wrong: random changes of completions, as a broker with any mistake might give them.

Invocations stay as they are, for a harness writes them down before it asks: what follows of that order is not in doubt.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any

Line = dict[str, Any]


def _moved(line: Line, rng: Random, name: str, most: int = 3) -> bool:
    line[name] = max(0, line[name] + rng.choice((-1, 1)) * rng.randint(1, most))
    return True


def _acknowledgement(line: Line, rng: Random) -> bool:
    return line["f"] == "send" and "base_offset" in line and _moved(line, rng, "base_offset")


def _failed(line: Line, _rng: Random) -> bool:
    if line["f"] != "send" or line["type"] == "fail":
        return False
    line["type"] = "fail"
    line.pop("base_offset", None)
    return True


def _acknowledged(line: Line, rng: Random) -> bool:
    if line["f"] != "send" or line["type"] == "ok":
        return False
    line["type"] = "ok"
    line["base_offset"] = rng.randint(0, 20)
    return True


def _with_records(line: Line) -> bool:
    return line["f"] == "poll" and bool(line.get("records"))


def _record_left_out(line: Line, rng: Random) -> bool:
    if not _with_records(line):
        return False
    del line["records"][rng.randrange(len(line["records"]))]
    return True


def _record_moved(line: Line, rng: Random) -> bool:
    return _with_records(line) and _moved(rng.choice(line["records"]), rng, "offset")


def _another_value(line: Line, rng: Random) -> bool:
    return _with_records(line) and _moved(rng.choice(line["records"]), rng, "value", 6)


def _not_intact(line: Line, rng: Random) -> bool:
    if not _with_records(line):
        return False
    rng.choice(line["records"])["intact"] = False
    return True


def _ended_elsewhere(line: Line, rng: Random) -> bool:
    return line["f"] == "poll" and "next_position" in line and _moved(line, rng, "next_position")


def _other_watermark(line: Line, rng: Random) -> bool:
    return line["f"] == "poll" and "hw" in line and _moved(line, rng, "hw", 6)


def _other_start(line: Line, rng: Random) -> bool:
    if line["f"] != "poll" or "log_start" not in line:
        return False
    line["log_start"] = rng.randint(1, 6)
    return True


def _other_end(line: Line, rng: Random) -> bool:
    return line["f"] == "list_offsets" and "offset" in line and _moved(line, rng, "offset", 6)


CHANGES: tuple[Callable[[Line, Random], bool], ...] = (
    _acknowledgement,
    _failed,
    _acknowledged,
    _record_left_out,
    _record_moved,
    _another_value,
    _not_intact,
    _ended_elsewhere,
    _other_watermark,
    _other_start,
    _other_end,
)
"""Each changes a completion, where it can, and says whether it did."""


def with_wrong_answers(lines: list[Line], rng: Random, count: int) -> list[Line]:
    """A copy with so many changes, of completions of the main phase."""
    changed = copy.deepcopy(lines)
    answers = [line for line in changed if "invoke" in line and line["phase"] == "main"]
    left = count
    while left:
        left -= rng.choice(CHANGES)(rng.choice(answers), rng)
    return changed
