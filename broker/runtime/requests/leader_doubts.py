"""Answers about leaders wait while it is in doubt whether the leader lives.

For the milliseconds between the end of a broker's process and the election of its successors, the metadata of all other
brokers names a leader that is gone. A client that is told so takes it for the truth, and asks again only after a pause
of its own: a second with librdkafka, five with franz-go. So a response that would name a broker whose connection has
just ended is held back until the metadata is another one, or the broker is reached again, or a second has passed. While
nobody is in doubt nothing is held back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from broker.model.ids import BrokerId
from broker.runtime.ports import Loop
from broker.runtime.requests.condition_waits import Waits


class Doubts(Protocol):
    """Whoever watches the other brokers."""

    def doubted(self) -> Mapping[BrokerId, float]:
        """Brokers that may be gone, and until when, by the loop's clock, that is in doubt."""
        ...


class LeaderDoubts:
    """Holds back what `after` is given. `check` after every change of the metadata, and when a doubt has ended."""

    def __init__(self, loop: Loop, doubts: Doubts | None) -> None:
        """doubts: None where nobody watches; nothing is held back then."""
        self._loop = loop
        self._doubts = doubts
        self._waits = Waits(loop)
        self.check = self._waits.check

    def after(self, leads: Callable[[Collection[BrokerId]], bool], then: Callable[[], None]) -> None:
        """Call `then` once the response is about no broker in doubt: at once, as a rule.

        leads(brokers): whether the response would name one of them as leader.
        """
        doubts = self._doubts
        doubted = doubts.doubted() if doubts is not None else None
        if doubts is None or not doubted or not leads(doubted):
            then()
            return
        wait_ms = max(doubted.values()) - self._loop.now_ms()
        self._waits.until(lambda: not leads(doubts.doubted()), wait_ms, then, then)
