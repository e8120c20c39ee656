"""Names to addresses: on few threads, once at a time, with the last good address in reserve."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from broker.net.resolver import LATE_MS, THREADS_MAX, Resolution, Resolver, SocketAddress, literal
from tests.support.fake_loop import FakeLoop

pytestmark = pytest.mark.guarantee("bounded-queues", "no-thread")

HERE = SocketAddress(socket.AF_INET, "10.0.0.1")
THERE = SocketAddress(socket.AF_INET, "10.0.0.2")


class Names:
    """Name servers whose answers the test sets, and threads that it runs."""

    def __init__(self) -> None:
        self.loop = FakeLoop()
        self.threads: list[Callable[[], None]] = []
        self.resolutions: dict[str, SocketAddress | Exception] = {}
        self.requested: list[str] = []
        self.resolver = Resolver(self.loop, self.look_up, self.threads.append)

    def look_up(self, name: str) -> SocketAddress:
        self.requested.append(name)
        resolution = self.resolutions[name]
        if isinstance(resolution, Exception):
            raise resolution
        return resolution

    def run_threads(self) -> None:
        while self.threads:
            self.threads.pop(0)()

    def end_lookups(self) -> None:
        """All threads that were started come to their end, and the loop hears of it."""
        self.run_threads()
        while self.loop.run_soon():
            pass

    def find(self, name: str) -> list[Resolution]:
        """What the one who asks is told."""
        found: list[Resolution] = []
        self.resolver.find(name, found.append)
        return found

    def known(self, name: str, address: SocketAddress) -> None:
        self.resolutions[name] = address
        self.find(name)
        self.end_lookups()
        self.requested.clear()

    def wait(self, ms: float) -> None:
        until = self.loop.now + ms
        while self.loop.run_due(until):
            pass
        self.loop.now = until


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.mark.parametrize(
    ("host", "connect_to"),
    [
        ("127.0.0.1", (socket.AF_INET, ("127.0.0.1", 9092))),
        ("::1", (socket.AF_INET6, ("::1", 9092, 0, 0))),
        ("2001:db8::7", (socket.AF_INET6, ("2001:db8::7", 9092, 0, 0))),
    ],
)
def test_address_is_used_as_it_is(host: str, connect_to: tuple[int, object]) -> None:
    address = literal(host)
    assert address is not None
    assert (address.family, address.at(9092)) == connect_to


@pytest.mark.parametrize("host", ["localhost", "b1.example", "", "127.1", "fe80::1%lo", "a\0b", "1.2.3.4.5", "b\u00fc"])
def test_whatever_else_is_a_name(host: str) -> None:
    assert literal(host) is None


def test_address_comes_on_the_loop_after_the_lookup(names: Names) -> None:
    names.resolutions["b1"] = HERE
    found = names.find("b1")
    assert found == []
    assert names.requested == [], "the loop's thread looks nothing up"
    names.run_threads()
    assert found == [], "nor does the other tell anybody"
    names.end_lookups()
    assert found == [HERE]


def test_name_is_looked_up_once_for_all_callers_meanwhile(names: Names) -> None:
    names.resolutions["b1"] = HERE
    found = [names.find("b1") for _ in range(5)]
    names.end_lookups()
    assert found == [[HERE]] * 5
    assert names.requested == ["b1"]
    names.resolutions["b1"] = THERE
    again = names.find("b1")
    names.end_lookups()
    assert again == [THERE], "but not for ever"


def test_threads_are_few_and_end_when_there_is_nothing_to_look_up(names: Names) -> None:
    wanted = [f"b{number}" for number in range(3 * THREADS_MAX)]
    names.resolutions.update(dict.fromkeys(wanted, HERE))
    found = [names.find(name) for name in wanted]
    assert len(names.threads) == THREADS_MAX
    names.end_lookups()
    assert found == [[HERE]] * len(wanted)
    assert names.requested == wanted
    for name in wanted:
        names.find(name)
    assert len(names.threads) == THREADS_MAX, "as many again"


@pytest.mark.parametrize("error", [socket.gaierror(-3, "no server"), UnicodeError("label too long"), KeyError("?")])
def test_name_without_an_address_fails_for_everybody_and_the_next_one_is_looked_up(
    names: Names, error: Exception
) -> None:
    names.resolutions.update({"b1": error, "b2": HERE})
    found = [names.find("b1"), names.find("b1"), names.find("b2")]
    names.end_lookups()
    assert [str(resolution) for resolution in found[0]] == [str(resolution) for resolution in found[1]]
    assert isinstance(found[0][0], OSError)
    assert found[2] == [HERE]


def test_last_address_serves_where_a_lookup_fails(names: Names) -> None:
    names.known("b1", HERE)
    names.resolutions["b1"] = socket.gaierror(-3, "no server")
    found = names.find("b1")
    names.end_lookups()
    assert found == [HERE]


def test_last_address_serves_where_a_lookup_is_late_and_once(names: Names) -> None:
    names.known("b1", HERE)
    names.resolutions["b1"] = THERE
    found = names.find("b1")
    names.wait(LATE_MS - 1)
    assert found == [], "there is time yet"
    names.wait(1)
    assert found == [HERE]
    later = names.find("b1")
    names.wait(0)
    assert later == [HERE], "who asks while a lookup is late does not wait for it"
    names.end_lookups()
    assert (found, later) == ([HERE], [HERE])
    assert names.requested == ["b1"]
    newer = names.find("b1")
    names.wait(LATE_MS)
    assert newer == [THERE], "the late answer is the one that is kept"


def test_name_that_never_had_an_address_is_waited_for(names: Names) -> None:
    names.resolutions["b1"] = HERE
    found = names.find("b1")
    names.wait(60_000)
    assert found == []
    names.end_lookups()
    assert found == [HERE]


@pytest.mark.parametrize("known", [False, True])
def test_lookup_that_is_cancelled_calls_nothing_back(names: Names, known: bool) -> None:
    if known:
        names.known("b1", HERE)
    names.resolutions["b1"] = HERE
    found: list[Resolution] = []
    lookups = [names.resolver.find("b1", found.append) for _ in range(3)]
    lookups[0].cancel()
    names.run_threads()
    lookups[1].cancel()
    names.loop.run_soon()
    lookups[2].cancel()
    names.wait(1000)
    names.end_lookups()
    assert found == []


def test_lookup_that_never_ends_gathers_nobody_who_gave_up(names: Names) -> None:
    names.resolutions["b1"] = HERE
    found: list[Resolution] = []
    for _ in range(100):
        names.resolver.find("b1", found.append).cancel()
    (under_way,) = names.resolver._under_way.values()
    assert len(under_way.lookups) <= 1
    last = names.find("b1")
    names.end_lookups()
    assert (found, last) == ([], [HERE])


def test_thread_that_cannot_be_started_is_a_failed_lookup() -> None:
    names = Names()

    def refuse(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    names.resolver = Resolver(names.loop, names.look_up, refuse)
    for _ in range(THREADS_MAX + 1):
        found = names.find("b1")
        assert found == [], "not before the loop's turn"
        names.end_lookups()
        assert [str(resolution) for resolution in found] == ["can't start new thread"]


def test_closed_resolver_leaves_the_loop_alone(names: Names) -> None:
    names.resolutions.update({"b1": HERE, "b2": HERE})
    found = [names.find("b1"), names.find("b2")]
    names.resolver.close()
    names.run_threads()
    assert not names.loop.run_soon()
    assert found == [[], []]
