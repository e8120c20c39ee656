"""A loop that the test turns itself, so that nothing waits for a clock that a condition can replace."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from broker.model.backoff import Backoff
from broker.net.loop import EpollLoop
from broker.net.peer import BrokerPeer
from tests.integration.net.connections import Server, shut
from tests.integration.net.peers import Broker
from tests.integration.net.until import Until


@pytest.fixture
def loop() -> Iterator[EpollLoop]:
    made = EpollLoop()
    yield made
    made.close()


@pytest.fixture
def until(loop: EpollLoop) -> Until:
    """Turn the loop until a condition holds; fails after a minute."""

    def turn(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            loop.run_once(timeout_ms_max=20)

    return turn


@pytest.fixture
def server(loop: EpollLoop) -> Iterator[Server]:
    made = Server(loop)
    yield made
    shut(made)


@pytest.fixture
def broker(loop: EpollLoop) -> Iterator[Broker]:
    made = Broker(loop)
    yield made
    made.listener.close()


@pytest.fixture
def peer(loop: EpollLoop, broker: Broker) -> Iterator[BrokerPeer]:
    made = BrokerPeer(loop, "127.0.0.1", broker.listener.port, "broker-1", backoff=Backoff(5, 20, seed=1))
    yield made
    made.close()
