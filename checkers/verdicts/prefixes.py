"""Which checkers may judge a history that is still being written, and in which runs.

A prefix of a history is what a run has recorded so far, cut between two lines. A checker is *prefix-closed* where
whatever it finds in a prefix stands in every history that begins with it. Then a run in which it found something can
end: no line that would have come excuses it. Operations whose completion lies behind the cut count as unanswered, as
they do after a crash. Every checker of the catalogue is either in `CLOSED` or in `OPEN`, with the reason. Pure.

Sources: Alpern and Schneider, *Defining Liveness* (1985), for safety; docs/checkers.md for what each one proves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from checkers.verdicts.administration import ADMIN, REMADE
from checkers.verdicts.catalogue import (
    APPLICATIONS,
    COMPACTION,
    DRAINS,
    FOLLOWERS,
    GROUPS,
    STARTS,
    WHITE_BOX,
)
from checkers.verdicts.transactions import CYCLES
from checkers.verdicts.verdict import CheckResult, Row

Doubt = Literal["unclean", "deletions", "transactions"]
"""What a run may have that can excuse a finding later: unclean elections, by the configuration; a log that may lose its
head, by retention or DeleteRecords; transactions, of which it is decided later who must be shown them.
"""


@dataclass(frozen=True, slots=True)
class Closed:
    """why: a finding in a prefix is one in every extension. unless: in runs with one of these it is not looked for.

    becomes: checkers of which one finds it in an extension where this one does not. It then stands for more, never for
    nothing: as where a record that was lost is read after all, by a poll behind one that passed over it.
    """

    why: str
    unless: frozenset[Doubt] = frozenset()
    becomes: tuple[str, ...] = ()


def _closed(why: str, *unless: Doubt, becomes: tuple[str, ...] = ()) -> Closed:
    return Closed(why, frozenset(unless), becomes)


_ONE_PLACE = ("duplicate", "resend-offset")
"""A record whose known offset is another one in an extension stands at two."""
_FOUND_AFTER_ALL = ("int-poll-skip", "vanished-read")
"""What polls had passed over was read by another one in the end."""

CLOSED: Mapping[str, Closed] = {
    "fabricated-value": _closed("an invocation is recorded before its request is sent, so before any poll shows it"),
    "aborted-read": _closed("a failed send without a producer's sequence is never sent again, and what was read stays"),
    "inconsistent-offset": _closed(
        "two answers that are in the prefix name two values", "unclean", becomes=("resend-offset",)
    ),
    "duplicate": _closed("two answers that are in the prefix name two offsets", "unclean"),
    "lost-write": _closed(
        "an acknowledgement and the polls that passed over it are answers; no drain is needed",
        *("unclean", "deletions", "transactions"),
        becomes=(*_FOUND_AFTER_ALL, *_ONE_PLACE),
    ),
    "torn-batch": _closed(
        "the read of the one record and the polls that passed over the other are answers",
        *("unclean", "deletions", "transactions"),
        becomes=("lost-write", "aborted-read", "int-nonmonotonic-send", *_FOUND_AFTER_ALL, *_ONE_PLACE),
    ),
    "vanished-read": _closed(
        "the read and the later answer without it are both in the prefix",
        *("unclean", "deletions"),
        becomes=("inconsistent-offset",),
    ),
    "int-poll-skip": _closed(
        "the poll that passed over it and the one that read it are answers",
        *("unclean", "deletions"),
        becomes=("vanished-read", "inconsistent-offset"),
    ),
    "hole": _closed(
        "one answer to the lab's own reader passes over offsets; a transaction is known before it has a marker there",
        "deletions",
    ),
    "read-above-hw": _closed("in one leader epoch a watermark never falls, so a lower one told later is too low"),
    "refused-read": _closed("the end that was shown, and the later refusal, are answers", "unclean", "deletions"),
    "nonmonotonic-end": _closed("the end that was shown, and the later one, are answers", "unclean"),
    "int-nonmonotonic-poll": _closed("one answer contradicts itself"),
    "nonmonotonic-send": _closed(
        "both acknowledgements are in the prefix, and the order of invocations is known", "unclean", becomes=_ONE_PLACE
    ),
    "int-nonmonotonic-send": _closed("both reads are in the prefix", "unclean", becomes=_ONE_PLACE),
    "real-time-order": _closed(
        "what was in the log before a send began only gets more; an extension changes no offset that is known",
        "unclean",
        becomes=_ONE_PLACE,
    ),
    "resend-offset": _closed("two acknowledgements in the prefix name two offsets", "unclean"),
    "precommitted-read": _closed(
        "the commit was first asked for behind the read; that it fails in the end makes the read no better",
        "unclean",
        becomes=("aborted-transaction-read",),
    ),
    "last-stable-offset": _closed(
        "in one leader epoch it never falls, so a lower one told later is too low; which commits came out well stays, "
        "and when each was first asked for",
        "unclean",
        becomes=_ONE_PLACE,
    ),
}

_AT_THE_END = "rests on what is read once the faults are gone"
_COPIED = "rests on files of the nodes, which are copied in the end"
_LATER = "an operation that is still to come, or still open, may explain it"

OPEN: Mapping[str, str] = {
    **{spec.name: _AT_THE_END for spec in (*DRAINS, *APPLICATIONS, *COMPACTION)},
    **{spec.name: _COPIED for spec in (*WHITE_BOX, *STARTS)},
    "producer-sequence": _COPIED,
    "open-transaction": _COPIED,
    **{spec.name: "a commit or fetch that is still open may come in between" for spec in GROUPS},
    **{
        spec.name: "which transactions were committed, and what each depends on, is known in the end" for spec in CYCLES
    },
    **{spec.name: "which topic a name has the last answers of the drain say" for spec in REMADE},
    **{spec.name: "a change that is still open, or comes later, may be the one that was seen" for spec in ADMIN},
    **{spec.name: "a follower that was started anew meanwhile is named by a fault's line" for spec in FOLLOWERS},
    "lost-tail": _AT_THE_END,
    "unseen": _AT_THE_END,
    "poll-skip": "which poll came before is not known while that is open",
    "nonmonotonic-poll": "which poll came before is not known while that is open",
    "staleness": "measured, never invalid",
    "availability": "measured, never invalid",
    "producer-order": _LATER,
    "deleted-records": "whom an interruption kept from knowing of it, ZooKeeper's log says, which is copied in the end",
    "wrong-lookup": _LATER,
    "aborted-transaction-read": "a commit may still be asked for",
    "torn-transaction": _AT_THE_END,
    "committed-lost": _AT_THE_END,
    "hanging-transaction": _AT_THE_END,
    "transaction-offsets": _LATER,
    "exactly-once": _AT_THE_END,
    "fenced-producer": _LATER,
}


def may_judge(checker: str, doubts: frozenset[Doubt]) -> bool:
    """Whether that checker may end a run by what it finds in a prefix. doubts: what the run may have."""
    closed = CLOSED.get(checker)
    return closed is not None and not closed.unless & doubts


def stands(checker: str, partition: str | None, checks: Iterable[CheckResult], rows: Iterable[Row]) -> bool:
    """Whether what that checker had found in a prefix is found in the whole history: by itself, or by what its finding
    may have become; and of the same partition, where it was of one: what is found of another one is something else.

    rows: all that was found, with one at least for each checker and partition.
    """
    closed = CLOSED.get(checker)
    names = {checker, *(closed.becomes if closed is not None else ())}
    invalid = {check.name for check in checks if check.verdict == "invalid"} & names
    return any(row.kind == "invalid" and row.checker in invalid and partition in (None, row.p) for row in rows)
