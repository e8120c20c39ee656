"""Golden histories of applications: which story is which case of which promise."""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.black_parts import sent
from tests.golden.limits import RETENTION_MS
from tests.support.application_stories import Application
from tests.support.histories import Story

Tell = Callable[[Story], None]
AT_MOST, AT_LEAST = "at-most-once", "at-least-once"
SLACK_MS = 2_000
"""More than clocks may be off."""


def _begun(s: Story, promise: str) -> Application:
    """Four records; a has processed and committed the first two."""
    sent(s)
    application = Application(s, promise)
    application.poll("a", 0, [1, 2])
    if promise == AT_MOST:
        application.commit("a", 2)
    application.process("a", [1, 2])
    if promise == AT_LEAST:
        application.commit("a", 2)
    return application


def at_most_ok(s: Story) -> None:
    """Nobody knows whether the second commit took effect, so what it is of was processed by nobody."""
    application = _begun(s, AT_MOST)
    application.poll("a", 2, [3])
    application.commit("a", 3, "info")
    application.poll("b", 3, [4])
    application.commit("b", 4)
    application.process("b", [4])
    application.drained(4)


def at_most_bad(s: Story) -> None:
    """b begins at an offset below what a had committed."""
    application = _begun(s, AT_MOST)
    application.poll("b", 1, [2, 3, 4])
    application.commit("b", 4)
    application.process("b", [2, 3, 4])
    application.drained(4)


def at_most_at_once(s: Story) -> None:
    """One batch has a record twice."""
    application = _begun(s, AT_MOST)
    application.poll("a", 2, [3, 4])
    application.commit("a", 4)
    application.process("a", [3, 4, 3])
    application.drained(4)


def at_most_copied(s: Story) -> None:
    """The third record stands twice, for its producer sent it to two leaders, one after the other."""
    application = _begun(s, AT_MOST)
    s.send(5, 5, reader="confluent", node=None)
    application.poll("a", 2, [3, 4, 5, 5])
    application.commit("a", 6)
    application.process("a", [3, 4, 5, 5])
    application.drained(6)
    s.poll(0, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)])
    s.poll(5, [(5, 5)], epoch=1)


def at_most_unknown(s: Story) -> None:
    """What is committed at the end is not known: somebody may begin below what was processed."""
    _begun(s, AT_MOST).undrained(2)


def at_least_ok(s: Story) -> None:
    """A commit that took no effect, and so two records that are processed again; and one behind the group's end."""
    application = _begun(s, AT_LEAST)
    application.poll("a", 2, [3, 4])
    application.process("a", [3, 4])
    application.commit("a", 4, "info")
    application.poll("b", 2, [3, 4])
    application.process("b", [3, 4])
    application.commit("b", 4)
    s.send(5, 4)
    application.drained(4)
    s.poll(4, [(4, 5)])


def at_least_bad(s: Story) -> None:
    """b begins behind a record that a had not committed."""
    application = _begun(s, AT_LEAST)
    application.poll("b", 3, [4])
    application.process("b", [4])
    application.commit("b", 4)
    application.drained(4)
    s.poll(0, [(0, 1), (1, 2), (2, 3), (3, 4)])


def at_least_unacknowledged(s: Story) -> None:
    """A record whose send got no response is in the log, as another reader sees, and the group passes over it."""
    application = _begun(s, AT_LEAST)
    s.send(5, outcome="info")
    s.send(6, 5)
    application.poll("a", 2, [3, 4])
    application.process("a", [3, 4])
    application.commit("a", 4)
    application.poll("b", 5, [6])
    application.process("b", [6])
    application.commit("b", 6)
    application.drained(6)
    s.poll(0, [(nth, nth + 1) for nth in range(6)])


def at_least_unread(s: Story) -> None:
    """Where nobody read it, it may never have been written: its offset is of a marker, or of nothing."""
    application = _begun(s, AT_LEAST)
    s.send(5, outcome="info")
    application.poll("a", 2, [3, 4])
    application.process("a", [3, 4])
    application.commit("a", 4)
    application.drained(4)
    s.poll(0, [(nth, nth + 1) for nth in range(4)])


def _copied_to_be_deleted(s: Story, start: int) -> None:
    """A record that its client sent to two leaders, and that the group passes over, as it finds the log to begin."""
    application = _begun(s, AT_LEAST)
    s.send(5, outcome="info", reader="confluent", node=None)
    s.poll(0, [*((nth, nth + 1) for nth in range(4)), (4, 5)])
    s.poll(5, [(5, 5)], epoch=1)
    application.poll("a", 2, [3, 4])
    application.process("a", [3, 4])
    application.commit("a", 4)
    s.send(6, 6)
    late = s.now + RETENTION_MS + SLACK_MS
    s.poll(6, [(6, 6)], epoch=1, log_start=start, process=22, consumer="late", invoked=late, completed=late + 1)
    application.poll("b", 6, [6])
    application.process("b", [6])
    application.commit("b", 7)
    application.drained(7)


def at_least_copy_deleted(s: Story) -> None:
    """The first of both is gone, the second is there."""
    _copied_to_be_deleted(s, 5)


def at_least_copies_deleted(s: Story) -> None:
    _copied_to_be_deleted(s, 6)


def at_least_unknown(s: Story) -> None:
    """The group did not come to the end."""
    application = _begun(s, AT_LEAST)
    application.undrained(2)
    s.poll(0, [(0, 1), (1, 2), (2, 3), (3, 4)])


APPLICATIONS: dict[str, tuple[Tell, Tell, Tell]] = {
    AT_MOST: (at_most_ok, at_most_bad, at_most_unknown),
    AT_LEAST: (at_least_ok, at_least_bad, at_least_unknown),
}
MORE_APPLICATIONS: dict[tuple[str, str], Tell] = {
    (AT_MOST, "bad-at-once"): at_most_at_once,
    (AT_MOST, "ok-copied"): at_most_copied,
    (AT_LEAST, "bad-unacknowledged"): at_least_unacknowledged,
    (AT_LEAST, "ok-unread"): at_least_unread,
    (AT_LEAST, "bad-copy-deleted"): at_least_copy_deleted,
    (AT_LEAST, "ok-copies-deleted"): at_least_copies_deleted,
}
