"""Golden histories of transactions: a model's life, with one anomaly planted, or without what a verdict needs.

The life is close to each anomaly: transactions that are aborted, by their producer or their coordinator, overlap with
others that are committed; processors abort, and take the same inputs once more.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.support.histories import OUT
from tests.support.judging import Case
from tests.support.model_transactions import random_transactions
from tests.support.transaction_damage import DAMAGE

Lines = list[dict[str, Any]]
Change = Callable[[Lines], None]
SEED, STEPS = 7, 25


def life(topic: str) -> Case:
    """The same for every anomaly."""
    return Case(random_transactions(Random(SEED), topic, STEPS).story.lines)


def untouched(_lines: Lines) -> None:
    """As the model wrote it."""


def _planted(anomaly: str) -> Change:
    def change(lines: Lines) -> None:
        DAMAGE[anomaly][0](Random(0), lines)

    return change


def _failed(lines: Lines, f: str, phase: str | None = None, isolation: int | None = None) -> None:
    """Operations whose responses never came."""
    for line in lines:
        asked = lines[line["invoke"]] if "invoke" in line else {}
        mine = line["f"] == f and phase in (None, line["phase"]) and isolation in (None, asked.get("isolation"))
        if asked and mine:
            for name in ("next_position", "hw", "lso", "log_start", "records", "offsets"):
                line.pop(name, None)
            line.update(type="fail", error="not-connected")


def nothing_read(lines: Lines) -> None:
    _failed(lines, "poll", isolation=1)


def not_drained(lines: Lines) -> None:
    for line in lines:
        if line["f"] == "drain-complete" and line["isolation"] == 1:
            line.update(f="drain-incomplete", error="not in time", phase="drain-n1")


def outputs_unread(lines: Lines) -> None:
    """Nobody reads the topic of outputs under read_committed, and no line of a drain says so."""
    for line in lines:
        asked = lines[line["invoke"]] if "invoke" in line else {}
        if asked.get("isolation") == 1 and line["f"] == "poll" and line["topic"].endswith(OUT):
            for name in ("next_position", "hw", "lso", "log_start", "records"):
                line.pop(name)
            line.update(type="fail", error="not-connected")
        if line["f"] == "drain-complete" and line["isolation"] == 1 and line["topic"].endswith(OUT):
            line.update(f="step")


def never_behind(lines: Lines) -> None:
    """No response came while a transaction was open."""
    for line in lines:
        if line.get("lso", 0) < line.get("hw", 0):
            line["lso"] = -1


def no_stable_offset(lines: Lines) -> None:
    for line in lines:
        if "lso" in line:
            line["lso"] = -1


def not_ended(lines: Lines) -> None:
    for line in lines:
        if line["f"] == "transactions-ended":
            line.update(f="transactions-open", start=None, end=None, error="no response")


def no_offsets(lines: Lines) -> None:
    _failed(lines, "fetch_offsets")


def no_last_offsets(lines: Lines) -> None:
    _failed(lines, "fetch_offsets", "final")


def no_zombies(lines: Lines) -> None:
    """What was refused was of no transaction."""
    for line in lines:
        if line["type"] == "fail":
            lines[line["invoke"]].pop("txn", None)


def ids_not_taken(lines: Lines) -> None:
    """A transaction that is open, of ids that nobody could take once more."""
    for line in lines:
        if line["f"] == "transactions-ended":
            line.update(f="transactions-open", start=line["end"] - 1, error="not in time")
    _failed(lines, "init_producer", "final")


_UNKNOWN: dict[str, Change] = {
    "aborted-transaction-read": nothing_read,
    "precommitted-read": nothing_read,
    "torn-transaction": not_drained,
    "committed-lost": not_drained,
    "last-stable-offset": no_stable_offset,
    "hanging-transaction": not_ended,
    "transaction-offsets": no_offsets,
    "exactly-once": no_last_offsets,
    "fenced-producer": no_zombies,
}

TRANSACTIONS: dict[str, tuple[Change, Change, Change]] = {
    anomaly: (untouched, _planted(anomaly), lacking) for anomaly, lacking in _UNKNOWN.items()
}
MORE_TRANSACTIONS: dict[tuple[str, str], Change] = {
    ("transaction-offsets", "bad-forgotten"): lambda lines: DAMAGE["transaction-offsets"][1](Random(0), lines),
    ("transaction-offsets", "bad-shown"): lambda lines: DAMAGE["transaction-offsets"][2](Random(0), lines),
    ("exactly-once", "bad-missing"): lambda lines: DAMAGE["exactly-once"][1](Random(0), lines),
    ("torn-transaction", "bad-unanswered"): lambda lines: DAMAGE["torn-transaction"][1](Random(0), lines),
    ("fenced-producer", "bad-given-twice"): lambda lines: DAMAGE["fenced-producer"][1](Random(0), lines),
    ("last-stable-offset", "bad-open"): lambda lines: DAMAGE["last-stable-offset"][1](Random(0), lines),
    ("hanging-transaction", "bad-offsets"): lambda lines: DAMAGE["hanging-transaction"][1](Random(0), lines),
    ("hanging-transaction", "unknown-not-taken"): ids_not_taken,
    ("committed-lost", "unknown-outputs"): outputs_unread,
    ("last-stable-offset", "unknown-never-behind"): never_behind,
}
