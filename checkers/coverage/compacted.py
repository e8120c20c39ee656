"""Which rules do not hold on a compacted topic: those by which a record stays, and replicas hold the same bytes.

What such a rule finds there proves nothing, so that its rows are left out, and it is not applicable. Pure.
"""

from __future__ import annotations

from checkers.history.run_info import RunInfo

UNFIT = frozenset(
    {
        # Superseded records are passed over, and are read before and not after.
        *("lost-write", "lost-tail", "unseen", "vanished-read", "int-poll-skip", "poll-skip"),
        *("final-drain", "confluent-repeat"),
        # Each replica is cleaned by itself.
        *("log-matching", "log-contiguous", "leader-completeness", "live-isr"),
    }
)


def unfit(checker: str, info: RunInfo) -> bool:
    """Whether that checker's rules do not hold in this run."""
    return info.compacted and checker in UNFIT
