"""What a history that another tool recorded can show: operations of clients, with their offsets and times.

Pure. Such a history has no epochs, watermarks, ends of logs, batches or drains, and nothing of the nodes: a rule that
rests on one of them is not applicable. Whether what it does have is enough, each rule's own figures say.
"""

from __future__ import annotations

SHOWN = frozenset(
    {
        "fabricated-value",
        "aborted-read",
        "inconsistent-offset",
        "duplicate",
        "lost-write",
        "unseen",
        "vanished-read",
        "int-poll-skip",
        "poll-skip",
        "int-nonmonotonic-poll",
        "nonmonotonic-poll",
        "nonmonotonic-send",
        "real-time-order",
        "availability",
        "precommitted-read",
    }
)
"""Checkers that need no more than that."""


def beyond(checker: str) -> str | None:
    """Why such a history cannot have a verdict of this checker; None: it can."""
    if checker in SHOWN:
        return None
    return "a history from elsewhere has no epochs, watermarks, ends of logs, batches, drains or evidence of nodes"
