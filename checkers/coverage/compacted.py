"""Which rules do not hold on a compacted topic: those by which a record stays, and replicas hold the same bytes. And
which do not where brokers stamp the records (`message.timestamp.type` = `LogAppendTime`).

What such a rule finds there proves nothing, so that its rows are left out, and it is not applicable. Pure.
"""

from __future__ import annotations

from checkers.history.run_info import RunInfo

UNFIT = frozenset(
    {
        # Superseded records are passed over, and are read before and not after.
        *("lost-write", "lost-tail", "unseen", "torn-batch", "vanished-read", "int-poll-skip", "poll-skip", "hole"),
        *("final-drain", "confluent-repeat"),
        "wrong-lookup",
        # Each replica is cleaned by itself.
        *("log-matching", "log-contiguous", "leader-completeness", "live-isr", "log-start"),
    }
)


STAMPED = frozenset({"wrong-lookup"})
"""Rules by the times of records that their clients say."""


def unfit(checker: str, info: RunInfo) -> bool:
    """Whether that checker's rules do not hold in this run."""
    return (info.compacted and checker in UNFIT) or (info.retention.append_time and checker in STAMPED)
