"""What is allowed: configuration × faults that really fired → anomalies that then fail no run.

Not a person's choice: each line names a setting and something that was *seen* to happen. Allowed anomalies are counted
and shown. acks=1 is decided record by record (`forgiven` in black_box/facts.py), because one run may mix acks, and
retention by when a response first showed that the log starts above the record (expiry.py), of a refused read by when it
was refused and by the log start that its leader reported since (black_box/ends.py); an unclean election excuses
findings of the partitions that saw one, rule by rule, and only what can have come of it: a finding that was complete
before the election stands, and so does one about records that were written or shown since
(checkers/evidence/unclean_elections.py). One of the offsets topic takes commits and generations of groups back, one of
the transactions' topic what a coordinator had stored of transactions: by whom an id was taken, which partitions a
transaction has, how it was decided. The election of a replica for its longest log (docs/adr/0010) is allowed where the
controller's event log names that very election; lost records are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from checkers.evidence.unclean_elections import Unclean, attributable, attributable_to_any, of_topic
from checkers.history.schema import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from checkers.verdicts.verdict import Row


@dataclass(frozen=True, slots=True)
class Allowance:
    """Where `setting` was on and `event` was seen, findings of `checkers` are allowed: of the rules named, or of all
    where none is.
    """

    setting: str
    event: str
    checkers: Mapping[str, AbstractSet[str]]

    @property
    def reason(self) -> str:
        return f"{self.setting}, and {self.event}"


OPEN = "open"
_ALL: AbstractSet[str] = frozenset()
_NEVER = 2**63 - 1

ACKS_ONE = Allowance("acks=1", "the leader changed", {"lost-write": _ALL, "lost-tail": _ALL, "unseen": _ALL})
RETENTION = Allowance(
    "retention or DeleteRecords",
    "a response gave a log start above the record when it was old enough, enough lay above it, or a client had asked "
    "for its deletion",
    {"lost-write": _ALL, "vanished-read": _ALL},
)
UNSEEN_START = Allowance(
    "retention or DeleteRecords",
    "it can have deleted the record below that offset; no later response of that leader gave a start at or below it",
    {"refused-read": _ALL},
)
BROUGHT_BACK = Allowance(
    "DeleteRecords",
    "who was read, or who had acknowledged it, had stopped or was cut off within two seconds of it, or files were "
    "changed since",
    {"deleted-records": frozenset({"shown"})},
)
UNCLEAN = Allowance(
    "unclean.leader.election.enable=true",
    "a leader was elected from outside the ISR",
    {
        "lost-write": _ALL,
        "lost-tail": _ALL,
        "torn-batch": _ALL,
        "vanished-read": _ALL,
        "inconsistent-offset": _ALL,
        "real-time-order": _ALL,
        "nonmonotonic-send": _ALL,
        "int-poll-skip": _ALL,
        "refused-read": _ALL,
        "nonmonotonic-end": _ALL,
        "deleted-records": frozenset({"shown", "forgot", "beyond"}),
        "wrong-lookup": frozenset({"other", "passed-over"}),
        "torn-transaction": _ALL,
        "committed-lost": _ALL,
        # Where a record was that it took, another one is decided.
        "last-stable-offset": frozenset({OPEN}),
        "at-most-once": _ALL,
        "at-least-once": _ALL,
        "exactly-once": _ALL,
        # A client whose position lies beyond the new end goes back by itself.
        "nonmonotonic-poll": _ALL,
        "last-value": _ALL,
        "old-value": _ALL,
        "resend-offset": _ALL,
        "duplicate": frozenset({"resent"}),
        "int-nonmonotonic-send": frozenset({"resent"}),
        # A lost batch takes what its leader knew of the producer along; it adds no epoch, and no batch before another.
        "producer-order": frozenset({"back", "refused"}),
        "leader-completeness": _ALL,
        "truncation": _ALL,
        # What such a leader lacks, its followers lack too, whatever was acknowledged; bytes that differ are no loss.
        "log-matching": frozenset({"lacking", "held"}),
        "isr-znode": frozenset({"unclean-leader"}),
    },
)
UNDECIDED = "undecided"
LOST_MARKERS = Allowance(
    "unclean.leader.election.enable=true",
    "a leader was elected from outside the ISR, whose log may lack markers",
    {
        # Nobody writes a marker once more that was answered. What has none stays open, until the next marker of its
        # producer, which ends it as it ends its own.
        "hanging-transaction": frozenset({""}),
        "aborted-transaction-read": _ALL,
        "open-transaction": frozenset({"two"}),
    },
)
"""Of its partition."""

UNCLEAN_OFFSETS = Allowance(
    "unclean.leader.election.enable=true",
    f"a leader of {OFFSETS_TOPIC} was elected from outside the ISR",
    {
        "commit-lost": frozenset({"back"}),
        "offset-regression": frozenset({"back"}),
        # What it took back may be any state since the first commit.
        "offset-not-linearizable": _ALL,
        "transaction-offsets": frozenset({"back"}),
        "exactly-once": frozenset({"again"}),
        # A coordinator that reads an earlier state of a group goes on from its generation, with its members.
        "generation": _ALL,
        "fenced-commit": _ALL,
        "overlapping-owners": frozenset({"given"}),
        "static-member": _ALL,
        # A marker that is lost there is not written once more.
        "hanging-transaction": frozenset({UNDECIDED}),
    },
)
"""Of whichever partition: which group lies in which is not told."""

GIVEN_AGAIN = "given"
UNCLEAN_TRANSACTIONS = Allowance(
    "unclean.leader.election.enable=true",
    f"a leader of {TRANSACTIONS_TOPIC} was elected from outside the ISR",
    {
        # A decision that was told is made once more, otherwise; or an old one's markers are sent once more, and end
        # what has begun since.
        "aborted-transaction-read": _ALL,
        "precommitted-read": _ALL,
        "g1c": frozenset({"reads", "reads-session", "reads-strict"}),
        # Of records that are in the log: that markers end them otherwise than was told is all that it can do to them.
        "torn-transaction": frozenset({"undone"}),
        "committed-lost": frozenset({"undone"}),
        "transaction-offsets": frozenset({"back", "uncommitted"}),
        "exactly-once": frozenset({"again", "undone"}),
        # An old marker ends what has begun since, before anybody asks for that.
        "last-stable-offset": frozenset({OPEN}),
        # Whom nobody knows to be in a transaction nobody sends a marker.
        "hanging-transaction": _ALL,
        # Who took an id is forgotten, and whom that had fenced is its owner again.
        "fenced-producer": frozenset({"late", GIVEN_AGAIN}),
        "open-transaction": frozenset({"two", "torn", "parted"}),
    },
)
"""Of whichever partition: which id lies in which is not told. A state that was taken back goes on to be wrong: what
comes of it may be about transactions that began long after. What leaders of other partitions know by themselves is not
among it: epochs of producers in their logs, last stable offsets, records that are there.
"""

LONGEST = Allowance(
    "no replica surely had all that was committed",
    "the longest log of all was elected once every replica had spoken",
    {"isr-znode": frozenset({"longest-log"})},
)
"""The election alone, which docs/adr/0010 makes where else nobody could lead; what was lost by it is not allowed."""

NOT_ISOLATED = Allowance(
    "read_committed keeps back what is not committed",
    "promises neither an order of writes nor one view of several partitions",
    {"g0": _ALL, "g1b": _ALL, "g1c": frozenset({"", "session", "strict"}), "g-single": _ALL, "g2": _ALL},
)
"""By KIP-98, whatever fired. What transactions read of one another in a circle is not among it."""

BY_CLIENT = Allowance(
    "a real client's producer",
    "it sent a record again by itself: librdkafka without idempotence where a leader was deposed, an idempotent one "
    "under another epoch of the producer",
    {name: frozenset({"by-client"}) for name in ("duplicate", "at-most-once", "exactly-once")},
)

GONE = "gone"
ALLOWED_GONE = "allowed_gone"
"""Figures of final-drain: records that a later drain did not return; the second where that is allowed."""


def excuse_unclean(unclean: Unclean) -> Callable[[DataFrame], DataFrame]:
    """Findings → findings, with those that an unclean election accounts for of kind `allowed`."""
    if not unclean:
        return lambda findings: findings
    its_doing = attributable(
        unclean,
        lost_epoch=F.col("lost_epoch"),
        missed_epoch=F.col("missed_epoch"),
        from_ns=F.col("from_ns"),
        to_ns=F.col("to_ns"),
    )
    unmarked = attributable(
        unclean,
        lost_epoch=F.lit(None).cast("int"),
        # What hangs, and what files hold, has been there at any time.
        from_ns=F.when(F.col("checker") == "aborted-transaction-read", F.col("from_ns")),
        to_ns=F.col("to_ns"),
    )
    taken_back = attributable_to_any(
        of_topic(unclean, OFFSETS_TOPIC),
        from_ns=F.when(F.col("rule") != UNDECIDED, F.col("from_ns")),
        to_ns=F.col("to_ns"),
    )
    undone = attributable_to_any(
        of_topic(unclean, TRANSACTIONS_TOPIC),
        # The one rule of which it is known when that had been stored which was lost.
        from_ns=F.when(F.col("rule") == GIVEN_AGAIN, F.col("from_ns")),
        # What files hold shows in the end.
        to_ns=F.coalesce("to_ns", F.lit(_NEVER)),
    )
    accounted = (
        (_covered(UNCLEAN) & its_doing)
        | (_covered(LOST_MARKERS) & unmarked)
        | (_covered(UNCLEAN_OFFSETS) & taken_back)
        | (_covered(UNCLEAN_TRANSACTIONS) & undone)
    )
    excused = (F.col("kind") == "invalid") & accounted
    return lambda findings: findings.withColumn("kind", F.when(excused, F.lit("allowed")).otherwise(F.col("kind")))


def excuse_rows(unclean: Unclean, rows: Iterable[Row]) -> list[Row]:
    """The same of what was found without Spark."""
    rules = UNCLEAN_TRANSACTIONS.checkers["g1c"]
    first_ns = min((one.from_ns for one in of_topic(unclean, TRANSACTIONS_TOPIC)), default=_NEVER)

    def excused(row: Row) -> bool:
        of_rule = row.checker == "g1c" and row.kind == "invalid" and row.rule in rules
        return of_rule and row.to_ns is not None and row.to_ns >= first_ns

    return [replace(row, kind="allowed") if excused(row) else row for row in rows]


def _covered(allowance: Allowance) -> Column:
    """Of a finding: whether it is of a rule that the allowance names."""
    covered = F.lit(False)
    for checker, rules in allowance.checkers.items():
        of_rule = F.col("rule").isin(*sorted(rules)) if rules else F.lit(True)
        covered = covered | ((F.col("checker") == checker) & of_rule)
    return covered


def reason_for(
    checker: str, *, acks_one: bool, retention: bool, unclean: bool, rules: AbstractSet[str] = frozenset()
) -> str:
    """Why findings of kind `allowed` of this checker are, by what holds in this run. rules: those of the findings."""
    lines = (
        (ACKS_ONE, acks_one),
        (RETENTION, retention),
        (UNSEEN_START, retention),
        (BROUGHT_BACK, True),
        (UNCLEAN, unclean),
        (LOST_MARKERS, unclean),
        (UNCLEAN_OFFSETS, unclean),
        (UNCLEAN_TRANSACTIONS, unclean),
        (LONGEST, True),
        (NOT_ISOLATED, True),
        (BY_CLIENT, True),
    )
    holding = [
        line
        for line, holds in lines
        if holds and checker in line.checkers and (not line.checkers[checker] or line.checkers[checker] & rules)
    ]
    return "; ".join(line.reason for line in holding)
