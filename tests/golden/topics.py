"""Golden histories of topics that are made anew: which story is which case of which anomaly."""

from __future__ import annotations

from collections.abc import Callable

from tests.golden.black_parts import sent
from tests.support.histories import Story
from tests.support.topic_stories import Remakers

Tell = Callable[[Story], None]


def _used(s: Story) -> None:
    """Records of a topic that nobody deletes, sent and read."""
    s.poll(0, sent(s))


def _twice(s: Story) -> Remakers:
    """Two lives of a topic, the first of which is asked for once more, and refused."""
    _used(s)
    topics = Remakers(s)
    topics.twice()
    topics.refused("A")
    topics.drained("B")
    return topics


def read_ok(s: Story) -> None:
    """Served while the deletion is carried out, and before anybody had heard of the next life."""
    topics = _twice(s)
    now = s.now
    topics.end("B", invoked=now + 1, completed=now + 9)
    topics.poll("B", 2, invoked=now + 2, completed=now + 4, consumer="of-B")
    topics.make("C", invoked=now + 4, completed=now + 9)
    topics.poll("B", 2, invoked=now + 8, completed=now + 12, consumer="of-B")
    topics.refused("B")
    topics.drained("C")


def read_bad(s: Story) -> None:
    """An empty one, too, says that a replica is there."""
    topics = _twice(s)
    topics.poll("A", 4, consumer="of-A")


def read_after_its_end(s: Story) -> None:
    """Its deletion had been answered, and its log answers still, if only that the offset is out of its range."""
    topics = _twice(s)
    topics.end("B")
    topics.poll("B", 7, outcome="fail", error="OFFSET_OUT_OF_RANGE", consumer="of-B")
    topics.make("C")
    topics.drained("C")


def read_unanswered(s: Story) -> None:
    """Nobody answered who asked for the first life again."""
    _used(s)
    topics = Remakers(s)
    topics.twice()
    topics.poll("A", 4, outcome="fail", error="connection-refused", consumer="of-A")
    topics.drained("B")


def read_unasked(s: Story) -> None:
    """Nobody asked for the first life again."""
    _used(s)
    topics = Remakers(s)
    topics.twice()
    topics.drained("B")


def lost_ok(s: Story) -> None:
    """Told by who has not heard of it yet, by a process that began anew, and once its deletion has been asked for."""
    topics = _twice(s)
    topics.end("B", outcome="info")
    topics.tell(None)
    topics.make("C", node="l2")
    topics.tell(None, node="l3")
    topics.tell("C")
    s.nemesis("start", "kill", 1, ["l1"], began_ns=s.now * 1_000_000 + 500_000)
    topics.tell(None)
    topics.drained("C")


def lost_bad(s: Story) -> None:
    """A broker forgets a topic."""
    topics = _twice(s)
    topics.tell(None, node="l2")
    topics.tell("B", node="l2")


def lost_in_the_end(s: Story) -> None:
    """One never hears of it."""
    _used(s)
    topics = Remakers(s)
    topics.twice()
    topics.refused("A")
    topics.end("B")
    topics.make("C")
    topics.tell("C", phase="drain-current")
    topics.tell("C", phase="drain-current", node="l2")
    topics.tell(None, phase="drain-current", node="l3")


def lost_replaced(s: Story) -> None:
    """Another topic has the name, and nobody had asked for a deletion."""
    topics = _twice(s)
    topics.tell("C")
    topics.drained("C")


def lost_denied(s: Story) -> None:
    """Its deletion is refused as if there were no such topic."""
    topics = _twice(s)
    topics.end("B", outcome="fail", error="UNKNOWN_TOPIC_ID", node="l4")
    topics.drained("B")


def lost_for_good(s: Story) -> None:
    """A deletion that never ends: what is there in the end is not known."""
    topics = _twice(s)
    topics.end("B", outcome="info", error="REQUEST_TIMED_OUT")
    topics.end("B", outcome="info", error="REQUEST_TIMED_OUT")
    topics.drained("B")


def lost_unheard(s: Story) -> None:
    """The last question of a broker was not answered."""
    topics = _twice(s)
    topics.end("B")
    topics.make("C")
    topics.tell("C", phase="drain-current")
    topics.tell(None, phase="drain-current", node="l2")
    topics.tell(None, phase="drain-current", node="l2", outcome="info")


def lost_unread(s: Story) -> None:
    """Nobody asked in the end."""
    _used(s)
    topics = Remakers(s)
    topics.twice()
    topics.refused("A")


def again_ok(s: Story) -> None:
    """Another broker lags; what is asked at once may be answered in any order."""
    topics = _twice(s)
    topics.end("B")
    topics.make("C")
    topics.tell("B", node="l2")
    topics.tell("B", node="l3")
    now = s.now
    topics.tell("C", node="l2", invoked=now + 2, completed=now + 4)
    topics.tell("B", node="l2", invoked=now + 1, completed=now + 5)
    topics.drained("C")


def again_bad(s: Story) -> None:
    """A broker goes back to a topic that is gone."""
    topics = _twice(s)
    topics.tell("A", node="l3")
    topics.tell("B", node="l3")


def again_made(s: Story) -> None:
    """A new topic gets the id of one that was deleted."""
    topics = _twice(s)
    topics.end("B")
    topics.make("A", node="l4")


def again_in_the_end(s: Story) -> None:
    """One never hears of the next life."""
    _used(s)
    topics = Remakers(s)
    topics.twice()
    topics.refused("A")
    topics.end("B")
    topics.make("C")
    topics.tell("C", phase="drain-current")
    topics.tell("C", phase="drain-current", node="l2")
    topics.tell("B", phase="drain-current", node="l3")


def again_ended(s: Story) -> None:
    """Its deletion was answered, and is not carried out."""
    topics = _twice(s)
    topics.end("B")
    topics.drained("B")


def of_two_lives(s: Story) -> None:
    """Sent while its topic was deleted, and appended twice."""
    topics = _twice(s)
    now = s.now
    topics.send("B", 13, 2, invoked=now + 1, completed=now + 5)
    topics.end("B", invoked=now + 2, completed=now + 7)
    topics.poll("B", 2, [(2, 13)], invoked=now + 3, completed=now + 6, consumer="of-B")
    topics.make("C", invoked=now + 4, completed=now + 8)
    topics.poll("C", 0, [(0, 13)], consumer="of-C")
    topics.drained("C")


def moved_in_the_next_life(s: Story) -> None:
    """Acknowledged while its topic was made anew, read there, and not where its answer said."""
    topics = _twice(s)
    now = s.now
    topics.end("B", invoked=now + 1, completed=now + 2)
    topics.make("C", outcome="info", invoked=now + 3, completed=now + 4)
    topics.send("B", 14, 0, invoked=now + 5, completed=now + 6)
    topics.send("B", 15, 1, invoked=now + 7, completed=now + 8)
    topics.send("B", 16, outcome="info", invoked=now + 7, completed=now + 9)
    topics.tell("C", node="l2")
    topics.poll("C", 0, [(0, 14), (1, 16), (2, 15)], consumer="of-C")
    topics.drained("C")


def once(s: Story) -> None:
    """A topic that nobody deletes."""
    _used(s)
    topics = Remakers(s)
    topics.make("A")
    topics.told("A")
    topics.drained("A")


def late_send(s: Story) -> None:
    """What was not acknowledged before the deletion was asked for may stand in the next life, or in none; what was, and
    nobody came to read, is gone.
    """
    topics = _twice(s)
    topics.send("B", 13, 2)
    now = s.now
    topics.send("B", 14, 0, invoked=now + 1, completed=now + 6)
    topics.send("B", 15, outcome="info", invoked=now + 1, completed=now + 2)
    topics.send("B", 16, 3, invoked=now + 1, completed=now + 5)
    topics.end("B", invoked=now + 3, completed=now + 4)
    topics.make("C", invoked=now + 5, completed=now + 7)
    topics.send("C", 17, 1)
    topics.poll("C", 0, [(0, 14), (1, 17), (2, 15)], consumer="of-C")
    topics.drained("C")


def of_an_earlier_life(s: Story) -> None:
    """Acknowledged before the deletion was asked for, and read in the next life."""
    topics = _twice(s)
    topics.poll("B", 2, [(2, 4)], consumer="of-B")


def of_a_later_life(s: Story) -> None:
    """Sent by who knew of the later life, and read in the one before."""
    _used(s)
    topics = Remakers(s)
    topics.twice()
    now = s.now
    topics.end("B", invoked=now + 1, completed=now + 8)
    topics.make("C", invoked=now + 3, completed=now + 4)
    topics.send("C", 21, 0, invoked=now + 5, completed=now + 6)
    topics.poll("B", 2, [(2, 21)], invoked=now + 3, completed=now + 7, consumer="of-B")
    topics.refused("A")
    topics.drained("C")


def lost_in_a_life(s: Story) -> None:
    """Acknowledged, passed over by a poll, and its topic was deleted only then."""
    topics = _twice(s)
    topics.send("B", 13, 2)
    topics.send("B", 14, 3)
    topics.poll("B", 2, [(3, 14)], consumer="another-of-B")
    topics.end("B")
    topics.make("C")
    topics.drained("C")


TOPICS: dict[str, tuple[Tell, Tell, Tell]] = {
    "deleted-topic-read": (read_ok, read_bad, read_unasked),
    "lost-topic": (lost_ok, lost_bad, lost_unread),
    "topic-id-again": (again_ok, again_bad, once),
}
MORE_TOPICS: dict[tuple[str, str], Tell] = {
    ("lost-topic", "bad-end"): lost_in_the_end,
    ("lost-topic", "bad-replaced"): lost_replaced,
    ("topic-id-again", "bad-made"): again_made,
    ("lost-topic", "bad-denied"): lost_denied,
    ("lost-topic", "unknown-stuck"): lost_for_good,
    ("lost-topic", "ok-unheard"): lost_unheard,
    ("topic-id-again", "bad-end"): again_in_the_end,
    ("topic-id-again", "bad-ended"): again_ended,
    ("deleted-topic-read", "bad-answered"): read_after_its_end,
    ("deleted-topic-read", "unknown-unanswered"): read_unanswered,
    ("duplicate", "bad-in-two-lives"): of_two_lives,
    ("duplicate", "bad-next-life"): moved_in_the_next_life,
    ("fabricated-value", "ok-later-life"): late_send,
    ("fabricated-value", "bad-earlier-life"): of_an_earlier_life,
    ("fabricated-value", "bad-later-life"): of_a_later_life,
    ("lost-write", "bad-in-a-life"): lost_in_a_life,
}
