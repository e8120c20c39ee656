"""A response that would name a leader in doubt waits until the doubt is over; others do not."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from broker.runtime.requests.leader_doubts import LeaderDoubts
from tests.support.fake_loop import FakeLoop

pytestmark = pytest.mark.guarantee("C10")

DOUBT_MS = 1000.0


class Watching:
    """Broker 2 is in doubt where `until_ms` is a time to come."""

    def __init__(self, loop: FakeLoop) -> None:
        self.loop = loop
        self.until_ms = 0.0

    def doubted(self) -> dict[int, float]:
        return {2: self.until_ms} if self.until_ms > self.loop.now else {}


class Asking:
    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.watching = Watching(self.loop)
        self.doubts = LeaderDoubts(self.loop, self.watching)
        self.leader = 2
        self.answers: list[int] = []

    def ask(self) -> None:
        self.doubts.after(self._leads, lambda: self.answers.append(self.leader))

    def _leads(self, brokers: Collection[int]) -> bool:
        return self.leader in brokers


def test_nothing_waits_while_nobody_is_in_doubt() -> None:
    asking = Asking()
    asking.ask()
    assert asking.answers == [2]


def test_a_response_about_another_leader_does_not_wait() -> None:
    asking = Asking()
    asking.watching.until_ms = asking.loop.now + DOUBT_MS
    asking.leader = 3
    asking.ask()
    assert asking.answers == [3]


def test_the_response_names_the_new_leader() -> None:
    asking = Asking()
    asking.watching.until_ms = asking.loop.now + DOUBT_MS
    asking.ask()
    asking.doubts.check()
    assert not asking.answers
    asking.leader = 3
    asking.doubts.check()
    assert asking.answers == [3]
    asking.loop.advance(2 * DOUBT_MS)
    assert asking.answers == [3]


def test_a_doubt_that_ends_without_an_election_holds_nobody() -> None:
    asking = Asking()
    asking.watching.until_ms = asking.loop.now + DOUBT_MS
    asking.ask()
    asking.watching.until_ms = 0.0
    asking.doubts.check()
    assert asking.answers == [2]


def test_a_doubt_lasts_as_long_as_it_may() -> None:
    asking = Asking()
    asking.watching.until_ms = asking.loop.now + DOUBT_MS
    asking.loop.advance(DOUBT_MS - 10)
    asking.ask()
    assert not asking.answers
    asking.loop.advance(10)
    assert asking.answers == [2]


def test_nobody_waits_where_nobody_watches() -> None:
    loop = FakeLoop()
    answers: list[int] = []
    LeaderDoubts(loop, None).after(lambda brokers: True, lambda: answers.append(1))
    assert answers == [1]
