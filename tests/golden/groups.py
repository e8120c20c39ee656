"""Golden histories of consumer groups: which story is which case of which anomaly."""

from __future__ import annotations

from collections.abc import Callable

from tests.golden import group_statics as static
from tests.golden.black_parts import sent
from tests.golden.group_parts import begun
from tests.support.group_stories import Group
from tests.support.histories import Story

Tell = Callable[[Story], None]


def nobody(s: Story) -> None:
    """A group that does nothing."""
    sent(s)
    Group(s).ask("heartbeat", member="a", generation=1)
    s.poll(0, [(0, 1), (1, 2), (2, 3), (3, 4)])


def owners_ok(s: Story) -> None:
    """The next generation's owner is another; and an instance that began anew goes on under a new id."""
    group = begun(s)
    group.enters("b", 2)
    group.sync("a", 2, ())
    group.enters("i-1", 3, instance="i")
    group.enters("i-2", 3, instance="i")


def owners_bad(s: Story) -> None:
    group = begun(s)
    group.enters("b", 1)


def owners_named_alike(s: Story) -> None:
    """Two clients that join without an id are given the same."""
    group = begun(s)
    group.join("b", 2)
    group.join("b", 2)
    group.sync("b", 2)
    group.sync("a", 2, ())


def owners_alone(s: Story) -> None:
    """A group that never had two members."""
    group = begun(s)
    group.enters("b", 2)


def regression_ok(s: Story) -> None:
    """Each is what some order of the commits explains."""
    group = begun(s)
    late = group.commit("a", 1, 3, outcome="info", error="timeout")
    group.fetch(4)
    # Late, and possible: the commit that timed out may have been under way.
    group.fetch(3)
    assert s.lines[late]["f"] == "commit_offsets"
    group.commit("a", 1, 4)
    now = s.now
    group.commit("a", 1, 1, invoked=now + 1, completed=now + 10)
    group.fetch(1, invoked=now + 2, completed=now + 5)
    # Another node, which is not known to have coordinated the group since: it may be deposed.
    group.fetch(4, node="n2", invoked=now + 20, completed=now + 21)
    group.fetch(1, invoked=now + 22, completed=now + 23)
    group.fetch(1, phase="drain-n1", invoked=now + 30, completed=now + 31)


def regression_bad(s: Story) -> None:
    group = begun(s)
    group.fetch(2)


def regression_deposed(s: Story) -> None:
    """The node that shows the old offset had acknowledged a commit since the newer one: it coordinates the group."""
    group = begun(s)
    group.commit("a", 1, 3, partition=1, node="n2")
    group.fetch(2, node="n2")


def regression_next_coordinator(s: Story) -> None:
    """The node that shows the old offset has the next generation, which was stored behind the newer one."""
    group = begun(s)
    group.enters("b", 2, node="n2")
    group.fetch(2, node="n2")


def regression_same_generation(s: Story) -> None:
    """That node has the generation of the commit, and may be deposed since; the sync of the next one got no answer."""
    group = begun(s)
    group.sync("a", 1, node="n2")
    group.commit("a", 1, 3)
    group.fetch(4, node="n2")
    group.join("b", 2, node="n3")
    group.sync("b", 2, node="n3", outcome="info", error="timeout")
    group.fetch(2, node="n3")


def regression_none(s: Story) -> None:
    group = begun(s)
    group.fetch(-1)


def regression_invented(s: Story) -> None:
    """Nobody committed this."""
    group = begun(s)
    group.fetch(3)


def lost_ok(s: Story) -> None:
    group = begun(s)
    group.fetch(4, phase="drain-n1")
    group.fetch(4, phase="drain-n2", node="n2")


def lost_bad(s: Story) -> None:
    """Which node answers does not matter any more."""
    group = begun(s)
    group.fetch(4, phase="drain-n1")
    group.fetch(2, phase="drain-n2", node="n2")


def _committed_by_a_real_client(s: Story, ms: int) -> None:
    """2, which took so long, then 4; the drain is told 2."""
    sent(s)
    group = Group(s)
    group.enters("a", 1)
    group.poll("a", 1, 0, 4)
    now = s.now
    group.commit("a", -1, 2, node=None, invoked=now + 1, completed=now + 1 + ms)
    group.commit("a", -1, 4, node=None)
    group.fetch(2, phase="drain-n1")
    group.fetch(2, phase="drain-n2", node="n2")


def lost_perhaps_sent_twice(s: Story) -> None:
    """The client may have sent it once more, and its first request have come after that for 4."""
    _committed_by_a_real_client(s, 50)


def lost_sent_once(s: Story) -> None:
    _committed_by_a_real_client(s, 49)


def _late(s: Story, instance: str | None = None) -> Group:
    """A commit of 3 without an answer, by a member whose generation, or id, is to be over soon."""
    group = begun(s)
    group.enters("i-1", 2, instance=instance)
    group.commit("i-1", 2, 3, instance=instance, outcome="info", error="timeout")
    return group


def lost_late(s: Story) -> None:
    """It came once the next generation was stored, and had committed."""
    group = _late(s)
    group.enters("b", 3)
    group.commit("b", 3, 4)
    group.fetch(3, phase="drain-n1")
    group.fetch(3, phase="drain-n2", node="n2")


def lost_late_instance(s: Story) -> None:
    """It came once its instance had gone on under another id, and committed."""
    group = _late(s, "i")
    group.enters("i-2", 2, instance="i")
    group.commit("i-2", 2, 4, instance="i")
    group.fetch(3, phase="drain-n1")


def lost_in_time(s: Story) -> None:
    """It may have come before the next generation was stored, and behind what its own had committed."""
    group = _late(s)
    group.commit("i-1", 2, 4)
    group.enters("b", 3)
    group.fetch(3, phase="drain-n1")


def lost_unread(s: Story) -> None:
    group = begun(s)
    group.fetch(4)


def order_ok(s: Story) -> None:
    """A commit without an answer takes effect late, and is shown; a node that may be deposed shows what was before it;
    and the one that was, once more, for it is committed again.
    """
    group = begun(s)
    group.commit("a", 1, 3, outcome="info", error="timeout")
    group.fetch(4, node="n2")
    group.fetch(4)
    group.fetch(3)
    group.fetch(4, node="n2")
    group.fetch(3, node="n2")
    now = s.now
    group.commit("a", 1, 4, invoked=now + 1, completed=now + 10)
    group.fetch(3, invoked=now + 2, completed=now + 3)
    group.fetch(4, invoked=now + 4, completed=now + 5)
    group.fetch(4, phase="drain-n1", invoked=now + 11, completed=now + 12)


def _shown(s: Story) -> Group:
    """A commit without an answer, which a fetch has shown."""
    group = begun(s)
    group.commit("a", 1, 3, outcome="info", error="timeout")
    group.fetch(3)
    return group


def order_bad(s: Story) -> None:
    """Each by itself is explained: that commit may come late, or never. Both are not."""
    _shown(s).fetch(4)


def order_drained(s: Story) -> None:
    """In the drain no node is deposed."""
    _shown(s).fetch(4, phase="drain-n2", node="n2")


def order_proven(s: Story) -> None:
    """The node that shows the older one has acknowledged a commit since: it has read what n1 showed."""
    group = _shown(s)
    group.commit("a", 1, 3, partition=1, node="n2")
    group.fetch(4, node="n2")


def order_twice(s: Story) -> None:
    """Two commits beside each other, of which either may have been the last; not by turns."""
    group = begun(s)
    now = s.now
    group.commit("a", 1, 3, invoked=now + 1, completed=now + 20)
    group.commit("a", 1, 1, invoked=now + 1, completed=now + 20)
    for nth, offset in enumerate((3, 1, 3)):
        group.fetch(offset, invoked=now + 2 + 4 * nth, completed=now + 4 + 4 * nth)


def order_too_long(s: Story) -> None:
    """More orders than a search has time for: of each of two offsets one commit less than fetches that turn to it."""
    group = begun(s)
    now, commits = s.now, 16
    for nth in range(commits):
        group.commit("a", 1, 1 + 2 * (nth % 2), invoked=now + 1, completed=now + 100)
    for nth in range(commits + 2):
        group.fetch(1 + 2 * (nth % 2), invoked=now + 2 + 3 * nth, completed=now + 4 + 3 * nth)


def ahead_ok(s: Story) -> None:
    group = begun(s)
    group.fetch(4)


def ahead_bad(s: Story) -> None:
    group = begun(s)
    group.commit("a", 1, 5)


def fenced_ok(s: Story) -> None:
    """Refused; acknowledged while the next generation is not in the log yet; and by who is in the newest."""
    group = begun(s)
    group.join("b", 2)
    # The coordinator that answered b may have failed over before it stored generation 2.
    group.commit("a", 1, 3)
    group.sync("b", 2)
    group.commit("a", 1, 2, outcome="fail", error="ILLEGAL_GENERATION")
    group.commit("b", 2, 4)
    group.enters("i-1", 3, instance="i")
    group.enters("i-2", 3, instance="i")
    group.commit("i-1", 3, 1, instance="i", outcome="fail", error="FENCED_INSTANCE_ID")
    group.commit("i-2", 3, 4, instance="i")


def fenced_bad(s: Story) -> None:
    group = begun(s)
    group.enters("b", 2)
    group.commit("a", 1, 3)


def fenced_instance(s: Story) -> None:
    group = begun(s)
    group.enters("i-1", 2, instance="i")
    group.enters("i-2", 2, instance="i")
    group.commit("i-1", 2, 3, instance="i")


def generation_ok(s: Story) -> None:
    """One that was not stored is given out again; and a node that may be deposed answers of an old one."""
    group = begun(s)
    group.join("b", 2)
    group.ask("heartbeat", member="a", generation=1)
    group.enters("c", 2)
    group.sync("a", 1, node="n2")
    group.ask("heartbeat", member="a", generation=1, node="n2")
    group.ask("heartbeat", member="a", generation=1, outcome="fail", error="ILLEGAL_GENERATION")


def generation_bad(s: Story) -> None:
    group = begun(s)
    group.enters("b", 2)
    group.join("c", 1)


def generation_zombie(s: Story) -> None:
    """The heartbeat of a generation that is over."""
    group = begun(s)
    group.enters("b", 2)
    group.ask("heartbeat", member="a", generation=1)


def generation_one(s: Story) -> None:
    """A group that never was rebalanced."""
    group = begun(s)
    group.ask("heartbeat", member="a", generation=1)


def generation_deposed(s: Story) -> None:
    group = begun(s)
    group.enters("b", 2)
    group.commit("b", 2, 4, node="n2")
    group.join("c", 1, node="n2")


GROUPS: dict[str, tuple[Tell, Tell, Tell]] = {
    "overlapping-owners": (owners_ok, owners_bad, nobody),
    "offset-regression": (regression_ok, regression_bad, nobody),
    "commit-lost": (lost_ok, lost_bad, lost_unread),
    "offset-not-linearizable": (order_ok, order_bad, order_too_long),
    "commit-ahead": (ahead_ok, ahead_bad, nobody),
    "fenced-commit": (fenced_ok, fenced_bad, ahead_ok),
    "generation": (generation_ok, generation_bad, nobody),
    "static-member": (static.ok, static.bad, static.left),
}
MORE_GROUPS: dict[tuple[str, str], Tell] = {
    ("overlapping-owners", "bad-named-alike"): owners_named_alike,
    ("overlapping-owners", "unknown-alone"): owners_alone,
    ("offset-regression", "bad-deposed"): regression_deposed,
    ("commit-lost", "bad-late"): lost_late,
    ("commit-lost", "bad-late-instance"): lost_late_instance,
    ("commit-lost", "ok-in-time"): lost_in_time,
    ("commit-lost", "ok-perhaps-sent-twice"): lost_perhaps_sent_twice,
    ("commit-lost", "bad-sent-once"): lost_sent_once,
    ("offset-regression", "bad-next-coordinator"): regression_next_coordinator,
    ("offset-regression", "ok-same-generation"): regression_same_generation,
    ("offset-regression", "bad-none"): regression_none,
    ("offset-regression", "bad-invented"): regression_invented,
    ("offset-not-linearizable", "bad-drained"): order_drained,
    ("offset-not-linearizable", "bad-proven"): order_proven,
    ("offset-not-linearizable", "bad-twice"): order_twice,
    ("offset-not-linearizable", "unknown-unread"): nobody,
    ("fenced-commit", "bad-instance"): fenced_instance,
    ("generation", "bad-deposed"): generation_deposed,
    ("generation", "bad-zombie"): generation_zombie,
    ("generation", "unknown-one"): generation_one,
    ("static-member", "bad-share"): static.share,
    ("static-member", "unknown-silent"): static.silent,
    ("static-member", "unknown-elsewhere"): static.elsewhere,
}
