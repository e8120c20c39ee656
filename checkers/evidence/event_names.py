"""What lines of an event log have to say, by their names: docs/event-log.md.

Decides which lines no rule can go by. One of an event that nobody knows, as a newer broker may write, or that lacks
what its event says, is passed over by every rule, and what it shows with it. One with a number that no broker has is
given to no rule: they reckon in 64 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from checkers.evidence.segments import MOST_OFFSET

_OF_EACH = ("b", "i", "s", "m")
_ROLE = ("le", "pe", "ce", "isr", "leo", "hw")

SAYS: dict[str, tuple[str, ...]] = {
    "start": ("truncation",),
    "registered": ("be",),
    "recovered": ("p", "leo", "hw"),
    "become_leader": ("p", *_ROLE),
    "become_follower": ("p", *_ROLE, "leader"),
    "stop_replica": ("p",),
    "append": ("p", "le", "role", "base", "last"),
    "truncate": ("p", "from_leo", "to"),
    "hw": ("p", "le", "role", "hw"),
    "isr_propose": ("p", "le", "pe", "kind", "isr"),
    "isr_commit": ("p", "le", "pe", "isr"),
    "isr_reject": ("p", "le", "pe", "error"),
    "fetch_sent": ("rid", "leader", "parts"),
    "fetch_received": ("rid", "follower", "parts"),
    "fetch_answered": ("rid", "leader", "parts"),
    "ack": ("p", "le", "base", "last", "acks"),
    "visible": ("p", "le", "kind", "upto"),
    "flush": ("p", "upto"),
    "obeyed": ("ce",),
    "controller": ("ce", "what"),
    "suspicion": ("ce", "target", "be"),
    "election": ("p", "ce", "le", "leader", "isr"),
    "stop": (),
}
"""Of each event the fields that a rule needs to take its line for what it is."""

_ROLES = ("leader", "follower")
_ONE_OF: dict[tuple[str, str], tuple[str, ...]] = {
    ("start", "truncation"): ("leader-epoch", "high-watermark"),
    ("append", "role"): _ROLES,
    ("hw", "role"): _ROLES,
    ("isr_propose", "kind"): ("shrink", "expand"),
    ("visible", "kind"): ("fetch", "list_offsets", "follower-fetch"),
    ("controller", "what"): ("elected", "resigned"),
}
"""Fields by which rules take a line for one or another."""


_MOST_EPOCH = 1 << 30
_MOST_MONOTONIC_NS = 1 << 61
"""With one of a wall clock it makes no more than 64 bits."""
MOST: dict[str, int] = {
    **dict.fromkeys(("s", "w", "be", "log_start", "leo", "hw", "epoch_start"), MOST_OFFSET),
    **dict.fromkeys(("base", "last", "from_leo", "to", "upto"), MOST_OFFSET),
    **dict.fromkeys(("le", "pe", "ce"), _MOST_EPOCH),
    "m": _MOST_MONOTONIC_NS,
}
"""How far from 0 a number is at most."""


def beyond() -> Column:
    """Whether a number of the line is one that no broker has."""
    outside = [~F.col(name).between(-most, most) for name, most in MOST.items()]
    return reduce(Column.__or__, [F.coalesce(one, F.lit(False)) for one in outside])


def _odd_part() -> Column:
    """Whether what is said of a partition in a fetch is not a number where rules need one: offset and leader epoch of
    what is asked for, bytes and diverging epoch of an answer.
    """
    answered = F.col("e") == "fetch_answered"

    def odd(part: Column) -> Column:
        number = F.get(part, F.when(answered, F.lit(3)).otherwise(F.lit(1))).try_cast("bigint")
        epoch = F.get(part, F.when(answered, F.lit(4)).otherwise(F.lit(2))).try_cast("int")
        return F.get(part, F.lit(0)).isNull() | number.isNull() | epoch.isNull()

    return F.coalesce(F.exists("parts", odd), F.lit(False))


def is_strange(brokers: Mapping[str, int]) -> Column:
    """Of a line that can be read: no rule can take it for what it is, or another broker wrote it than that of its node.
    brokers: node → its broker's id.
    """
    event = F.col("e")
    cases = reduce(lambda so_far, name: so_far.when(event == name, _lacks(name)), SAYS, F.when(F.lit(False), False))
    strange = _any_null(_OF_EACH) | F.coalesce("beyond", F.lit(False)) | cases.otherwise(F.lit(True)) | _odd_part()
    if brokers:
        own = F.create_map(*[F.lit(part) for pair in brokers.items() for part in pair])[F.col("node")]
        strange = strange | F.coalesce(F.col("b") != own, F.lit(False))
    return F.coalesce(strange, F.lit(True))


def _any_null(names: tuple[str, ...]) -> Column:
    return reduce(Column.__or__, [F.col(name).isNull() for name in names])


def _lacks(event: str) -> Column:
    said = SAYS[event]
    lacks = _any_null(said) if said else F.lit(False)
    other = [~F.col(name).isin(*known) for (of, name), known in _ONE_OF.items() if of == event]
    return reduce(Column.__or__, other, lacks)
