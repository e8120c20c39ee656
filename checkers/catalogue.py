"""Every checker by name: its title, its family, and what it must have seen before it may say valid.

`needs` is per partition of the run's topic: a figure below 1 makes the checker unknown, with the reason given here. A
checker that is not in this table has no verdict; a test compares the table with what the families hand back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Group = Literal["black-box", "white-box", "floor"]
Source = Literal["history", "events", "segments", "zookeeper"]


@dataclass(frozen=True, slots=True)
class Spec:
    """name: as in results.json. needs: figure → what its absence means. sources: evidence it rests on."""

    name: str
    title: str
    group: Group
    needs: Mapping[str, str]
    sources: tuple[Source, ...] = ("history",)
    linearizability: bool = False


_READ = {"records_read": "no poll returned a record"}
_ACKED = {"acknowledged": "no send was acknowledged"}


def _black(name: str, title: str, needs: Mapping[str, str], *, linearizability: bool = True) -> Spec:
    return Spec(name, title, "black-box", needs, ("history",), linearizability)


def _white(name: str, title: str, needs: Mapping[str, str], *sources: Source) -> Spec:
    return Spec(name, title, "white-box", needs, sources)


BLACK_BOX = (
    _black("phantom-read", "Phantom read: a value that nobody sent there", _READ),
    _black("aborted-read", "Aborted read: a value whose send certainly failed", _READ),
    _black("inconsistent-offset", "Two values at one offset", {"offsets_read": "no poll returned a record"}),
    _black("duplicate", "One value at two offsets", {"values_read": "no poll returned a record"}),
    _black("lost-write", "Lost write: acknowledged, passed over by polls, never read", {**_ACKED, **_READ}),
    _black(
        "lost-tail",
        "Lost tail: acknowledged, and beyond the end that a drain proved",
        {**_ACKED, "drains": "no drain proved where the log ends"},
    ),
    _black("unseen", "Unseen: acknowledged, and covered by no poll", _ACKED),
    _black(
        "vanished-read",
        "Vanished read: visible once, gone later",
        {"offsets_read": "no poll returned a record", "polls": "no poll was answered"},
    ),
    _black(
        "read-above-hw",
        "Read above the high watermark",
        {
            "answers_with_data": "no answer in a known leader epoch carried a record",
            "answers_with_hw": "no answer in a known leader epoch told a high watermark",
        },
    ),
    _black("int-poll-skip", "A poll passed over records that others read", {"polls": "no poll was answered"}),
    _black("poll-skip", "A consumer jumped over records between polls", {"polls": "no poll was answered"}),
    _black("int-nonmonotonic-poll", "A poll returned offsets out of order", {"polls": "no poll was answered"}),
    _black("nonmonotonic-poll", "A consumer went back between polls", {"polls": "no poll was answered"}),
    _black("nonmonotonic-send", "A process's acknowledged sends went back", _ACKED),
    _black("real-time-order", "Real-time order of sends", {"records_ordered": "no record has a known offset"}),
    _black("staleness", "Staleness of reads (measured)", {}, linearizability=False),
    _black(
        "availability",
        "Availability (measured)",
        {"sends": "no send was tried in the main phase"},
        linearizability=False,
    ),
)

BY_NAME: dict[str, Spec] = {spec.name: spec for spec in BLACK_BOX}
