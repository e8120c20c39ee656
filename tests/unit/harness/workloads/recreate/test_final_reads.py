"""For how long the last round's readers wait for topics that are there, and for one of which nobody has heard."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.workloads.recreate import final_reads
from harness.workloads.recreate.final_reads import HEARD_S, PAUSE_S, ROUND_S, UNHEARD_S, LastLives

pytestmark = [pytest.mark.guarantee("V2")]

BROKERS = (1, 2, 3)
IDS = ("A", "B")


class Rounds:
    """LastLives over two topics and three brokers, on a clock that its pauses move. told: (broker, topic) → id; None:
    the broker is stopped.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.told: dict[tuple[int, str], str | None] = {}
        self.asked: list[tuple[int, str]] = []
        self.limits: list[float] = []
        monkeypatch.setattr(final_reads, "time", SimpleNamespace(monotonic=lambda: self.now))
        monkeypatch.setattr(final_reads, "Connection", lambda *_: SimpleNamespace(close=lambda: None))
        monkeypatch.setattr(final_reads, "current_leaders", lambda _: None)
        addresses = {broker: ("h", broker) for broker in BROKERS}
        clusters: Any = [SimpleNamespace(topic=topic, addresses=addresses) for topic in ("t0", "t1")]
        lives: Any = SimpleNamespace(of=lambda nth: SimpleNamespace(topic_id=IDS[nth]))
        nothing: Any = None
        self.last = LastLives(clusters, 2, lives, nothing, nothing, nothing, nothing, sleep=self._sleep)
        drain: Any = SimpleNamespace(round=lambda partitions, resolve, limit_s: self.limits.append(limit_s))
        self.last._drains = [(drain, nothing), (drain, nothing)]
        monkeypatch.setattr(self.last, "_told", self._tell)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _tell(self, connection: Any, broker: int, topic: str) -> str | None:
        self.asked.append((broker, topic))
        return self.told[broker, topic]

    def read(self) -> tuple[int, int, list[float], float]:
        """How often each topic was asked for, what its reading was limited to, and how long the asking took."""
        self.asked, self.limits, began = [], [], self.now
        self.last.read()
        counts = [sum(topic == name for _, topic in self.asked) for name in ("t0", "t1")]
        return counts[0], counts[1], self.limits, self.now - began


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    made = Rounds(monkeypatch)
    made.told = {(broker, f"t{nth}"): IDS[nth] for broker in BROKERS for nth in range(2)}
    return made


def test_topics_that_are_there_are_asked_for_once(rounds: Rounds) -> None:
    assert rounds.read() == (3, 3, [ROUND_S, ROUND_S], 0.0)


def test_topic_that_no_broker_has_is_waited_for_in_one_round_alone(rounds: Rounds) -> None:
    rounds.told |= {(broker, "t1"): "" for broker in BROKERS}
    known, lost, limits, took = rounds.read()
    assert (known, limits) == (3, [ROUND_S, UNHEARD_S])
    assert took == pytest.approx(3 * HEARD_S, abs=3 * PAUSE_S)
    assert lost > 3 * HEARD_S / PAUSE_S / 2
    assert rounds.read() == (3, 3, [ROUND_S, UNHEARD_S], 0.0)


def test_topic_that_comes_after_all_is_waited_for_again(rounds: Rounds) -> None:
    rounds.told |= {(broker, "t1"): "" for broker in BROKERS}
    rounds.read()
    rounds.told[2, "t1"] = "B"
    assert rounds.read()[2] == [ROUND_S, ROUND_S]
    assert rounds.read()[3] == pytest.approx(2 * HEARD_S, abs=2 * PAUSE_S)


def test_topic_that_one_broker_lacks_is_waited_for_in_every_round(rounds: Rounds) -> None:
    rounds.told[3, "t1"] = ""
    for _ in range(2):
        *_, limits, took = rounds.read()
        assert limits == [ROUND_S, ROUND_S]
        assert took == pytest.approx(HEARD_S, abs=PAUSE_S)


def test_topic_that_nobody_could_be_asked_for_is_waited_for(rounds: Rounds) -> None:
    there = dict(rounds.told)
    rounds.told |= {(broker, f"t{nth}"): None for broker in BROKERS for nth in range(2)}
    assert rounds.read() == (3, 0, [ROUND_S, ROUND_S], 0.0)
    # Two are asked, and have not heard of it yet; of the third nobody knows.
    rounds.told = {**there, (1, "t1"): "", (2, "t1"): "", (3, "t0"): None}
    for _ in range(2):
        *_, limits, took = rounds.read()
        assert limits == [ROUND_S, ROUND_S]
        assert took == pytest.approx(2 * HEARD_S, abs=2 * PAUSE_S)


def test_broker_that_is_stopped_is_asked_no_further(rounds: Rounds) -> None:
    rounds.told[2, "t0"] = None
    assert rounds.read() == (3, 2, [ROUND_S, ROUND_S], 0.0)
