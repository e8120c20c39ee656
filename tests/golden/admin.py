"""Golden histories of administrators: which story is which case of which anomaly."""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.black_parts import sent
from tests.support.admin_stories import UNSET, Administrators
from tests.support.histories import Story

Tell = Callable[[Story], None]


def _begun(s: Story, letter: str = "a") -> Administrators:
    """Four records; a setting was changed and described, partitions were added, counted, and read back in the end."""
    sent(s)
    admin = Administrators(s, letter)
    admin.made()
    admin.alter(1000)
    admin.describe(1000, node=admin.nodes[1])
    admin.grow(4)
    admin.count(4)
    admin.drained(4)
    return admin


def nobody(s: Story) -> None:
    """Administrators who ask, and change nothing."""
    sent(s)
    admin = Administrators(s)
    admin.describe(UNSET)
    admin.count(2)


def config_ok(s: Story) -> None:
    """A change without an answer takes effect late, and is shown; a value is taken away; two at once, in any order."""
    admin = _begun(s)
    admin.alter(1001, outcome="info", error="REQUEST_TIMED_OUT")
    admin.describe(1000, node="a3")
    admin.describe(1001)
    admin.describe(1001, node="a2")
    admin.alter(UNSET, node="a2")
    admin.describe(UNSET)
    # Never took effect.
    admin.alter(1002, outcome="fail", error="INVALID_CONFIG")
    now = s.now
    admin.alter(1003, invoked=now + 1, completed=now + 9)
    admin.alter(1004, node="a2", invoked=now + 2, completed=now + 8)
    admin.alter(70, "segment.bytes", node="a3", invoked=now + 3, completed=now + 7)
    admin.describe(1004, node="a3", invoked=now + 4, completed=now + 6)
    admin.describe(1003, node="a3", invoked=now + 10, completed=now + 11)
    admin.describe(70, "segment.bytes", phase="drain-a1")


def config_bad(s: Story) -> None:
    """A broker describes what had been replaced before it was asked."""
    admin = _begun(s)
    admin.alter(1001)
    admin.describe(1000, node="a2")


def config_taken_back(s: Story) -> None:
    """Another setting was changed at once, by who had read the settings before: that took this one back."""
    admin = _begun(s)
    now = s.now
    admin.alter(1001, invoked=now + 1, completed=now + 5)
    admin.alter(70, "segment.bytes", node="a2", invoked=now + 2, completed=now + 6)
    admin.describe(70, "segment.bytes", node="a2")
    admin.describe(1000, node="a3", phase="drain-a3")


def config_twice(s: Story) -> None:
    """A change without an answer is shown, then the one after it, and then the first again: it took effect twice."""
    admin = _begun(s)
    admin.alter(1001, outcome="info", error="REQUEST_TIMED_OUT")
    admin.describe(1001)
    admin.alter(1002, node="a2")
    admin.describe(1001)


def config_invented(s: Story) -> None:
    """Nobody set it, or whoever did was refused."""
    admin = _begun(s)
    admin.alter(1001, outcome="fail", error="INVALID_CONFIG")
    admin.describe(1001)


def config_too_long(s: Story) -> None:
    """More orders than a search has time for: of two values one change less than descriptions that turn to it."""
    admin = _begun(s)
    now, changes = s.now, 16
    for nth in range(changes):
        admin.alter(1001 + nth % 2, invoked=now + 1, completed=now + 100)
    for nth in range(changes + 2):
        admin.describe(1001 + nth % 2, invoked=now + 2 + 3 * nth, completed=now + 4 + 3 * nth)


def back_ok(s: Story) -> None:
    """Another broker lags; a process that began anew knows less at first; and one that was asked meanwhile."""
    admin = _begun(s, "c")
    admin.count(2, node="c2")
    admin.grow(6)
    admin.count(4, node="c3")
    s.nemesis("start", "kill", 1, ["c1"], began_ns=s.now * 1_000_000 + 500_000)
    admin.count(4)
    admin.grow(7, node="c2", outcome="info", error="timeout")
    now = s.now
    admin.count(7, node="c2", invoked=now + 1, completed=now + 4)
    admin.count(6, node="c2", invoked=now + 2, completed=now + 5)
    admin.drained(7)


def back_while_stopping(s: Story) -> None:
    """A broker serves while it is stopped in order; started again, it knows less at first, seen or not yet."""
    admin = _begun(s, "b")
    admin.grow(6, node="b2")
    now = s.now
    admin.count(6, node="b1", invoked=now + 2, completed=now + 3)
    s.nemesis("start", "stop", 1, ["b1"], at=now + 4, began_ns=(now + 1) * 1_000_000)
    admin.count(4, node="b1", invoked=now + 12, completed=now + 13)
    s.nemesis("stop", "stop", 1, ["b1"], at=now + 14, began_ns=(now + 11) * 1_000_000)
    admin.count(4, node="b1")
    admin.drained(6)


def back_bad(s: Story) -> None:
    admin = _begun(s)
    admin.count(4, node="a2")
    admin.count(2, node="a2")


def back_acknowledged(s: Story) -> None:
    """It had acknowledged the growth: by then its own metadata shows it."""
    admin = _begun(s)
    admin.grow(6, node="a3")
    admin.count(4, node="a3")
    admin.drained(6)


def back_lost(s: Story) -> None:
    """Every broker has forgotten it, in the end."""
    admin = _begun(s, "d")
    admin.grow(6)
    s.nemesis("start", "kill", 1, ["d1"])
    admin.count(4, node="d2", phase="drain-d2")


def back_unread(s: Story) -> None:
    """Nothing was counted in the end."""
    sent(s)
    admin = Administrators(s)
    admin.made()
    admin.grow(4)
    admin.count(4)


def count_ok(s: Story) -> None:
    """A part of a growth is shown while it is made; one without an answer comes late, or never; a broker lags; who asks
    for as many as there are is refused.
    """
    admin = _begun(s)
    admin.grow(4, outcome="fail", error="INVALID_PARTITIONS")
    now = s.now
    admin.grow(7, invoked=now + 1, completed=now + 9)
    admin.count(6, node="a2", invoked=now + 2, completed=now + 3)
    admin.count(4, node="a3", invoked=now + 4, completed=now + 5)
    admin.grow(8, outcome="info", error="REQUEST_TIMED_OUT", node="a2")
    admin.grow(8, outcome="fail", error="INVALID_PARTITIONS", node="a3")
    admin.grow(9, outcome="info", error="timeout", node="a2")
    admin.grow(9, outcome="fail", error="NOT_CONTROLLER", node="a3")
    admin.drained(8)


def count_bad(s: Story) -> None:
    """Partitions that nobody had asked for, yet."""
    admin = _begun(s)
    admin.count(5, node="a2")
    admin.grow(5)
    admin.drained(5)


def count_refused(s: Story) -> None:
    """Refused, as if there were as many; nobody else had asked for them: what was refused has taken effect."""
    admin = _begun(s)
    admin.grow(5, outcome="fail", error="INVALID_PARTITIONS")


def count_again(s: Story) -> None:
    """Acknowledged twice, though the second found them there."""
    admin = _begun(s)
    admin.grow(4, node="a2")


ADMIN: dict[str, tuple[Tell, Tell, Tell]] = {
    "config-not-linearizable": (config_ok, config_bad, config_too_long),
    "partitions-went-back": (back_ok, back_bad, back_unread),
    "partitions-not-linearizable": (count_ok, count_bad, nobody),
}
MORE_ADMIN: dict[tuple[str, str], Tell] = {
    ("config-not-linearizable", "bad-taken-back"): config_taken_back,
    ("config-not-linearizable", "bad-twice"): config_twice,
    ("config-not-linearizable", "bad-invented"): config_invented,
    ("config-not-linearizable", "unknown-unchanged"): nobody,
    ("partitions-went-back", "ok-stopping"): back_while_stopping,
    ("partitions-went-back", "bad-acknowledged"): back_acknowledged,
    ("partitions-went-back", "bad-lost"): back_lost,
    ("partitions-not-linearizable", "bad-refused"): count_refused,
    ("partitions-not-linearizable", "bad-again"): count_again,
}
