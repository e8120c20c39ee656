"""What is allowed: configuration × faults that really fired → anomalies that then fail no run.

Not a person's choice: each line of `TABLE` names a setting and something that was *seen* to happen. Allowed anomalies
are counted and shown. acks=1 is decided record by record (`forgiven` in black_box/facts.py), because one run may mix
acks; the lines here move whole checkers on the partitions concerned.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from checkers.verdict import Row


@dataclass(frozen=True, slots=True)
class Allowance:
    """Where `setting` was on and `event` was seen on a partition, findings of `checkers` there are allowed."""

    setting: str
    event: str
    checkers: frozenset[str]

    @property
    def reason(self) -> str:
        return f"{self.setting}, and {self.event}"


ACKS_ONE = Allowance("acks=1", "the leader changed", frozenset({"lost-write", "lost-tail"}))
UNCLEAN = Allowance(
    "unclean.leader.election.enable=true",
    "a leader was elected from outside the ISR",
    frozenset(
        {
            "lost-write",
            "lost-tail",
            "vanished-read",
            "inconsistent-offset",
            "real-time-order",
            "nonmonotonic-send",
            "int-poll-skip",
            "leader-completeness",
            "log-matching",
            "truncation",
            "isr-znode",
        }
    ),
)
TABLE = (ACKS_ONE, UNCLEAN)


def allow_unclean(rows: Sequence[Row], partitions: AbstractSet[str]) -> list[Row]:
    """Findings on partitions that saw an unclean election while it was enabled become allowed.

    partitions: those where the setting was on *and* such an election is in ZooKeeper's log.
    """
    return [
        replace(row, kind="allowed")
        if row.kind == "invalid" and row.p in partitions and row.checker in UNCLEAN.checkers
        else row
        for row in rows
    ]


def reason_for(checker: str, unclean: AbstractSet[str]) -> str:
    """Why findings of kind `allowed` of this checker are."""
    lines = [ACKS_ONE.reason] if checker in ACKS_ONE.checkers else []
    if unclean and checker in UNCLEAN.checkers:
        lines.append(UNCLEAN.reason)
    return "; ".join(lines)
