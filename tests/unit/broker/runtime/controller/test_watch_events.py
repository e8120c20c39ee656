"""What watches become, and what is looked at when they may have been lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from broker.runtime.controller.event_manager import ControllerEventManager
from broker.runtime.controller.watch_events import WatchEvents


class Events:
    """A queue whose events a test runs."""

    def __init__(self) -> None:
        self.queued: dict[str, Any] = {}

    def put_once(self, name: str, event: Any) -> None:
        self.queued.setdefault(name, event)

    def run(self) -> list[str]:
        queued, self.queued = self.queued, {}
        for event in queued.values():
            event()
        return list(queued)


def _made() -> tuple[WatchEvents, Events, list[object]]:
    """The watches, their queue, and what is called of the term at hand, in order."""
    called: list[object] = []

    def noting(name: str) -> Any:
        return lambda: called.append(name)

    term: Any = SimpleNamespace(
        brokers_changed=noting("brokers"),
        topics_changed=noting("topics"),
        deletions_changed=noting("deletions"),
        log_dirs_changed=noting("log-dirs"),
        topics_rewritten=lambda names: called.append(frozenset(names)),
        admin=SimpleNamespace(
            reconnected=noting("admin"),
            elections=SimpleNamespace(on_request=noting("elections")),
            reassignments=SimpleNamespace(on_request=noting("reassignments")),
        ),
    )
    events = Events()
    watches = WatchEvents(
        cast("ControllerEventManager", events), lambda do: do(term), lambda _: called.append("finish deletions")
    )
    return watches, events, called


def test_all_that_is_watched_is_looked_at_after_a_reconnect() -> None:
    watches, events, called = _made()
    watches.reconnected()
    assert called == ["brokers", "topics", "deletions", "finish deletions", "log-dirs", "admin"]
    assert not events.queued


def test_each_watch_is_an_event_of_its_own_and_waits_once() -> None:
    watches, events, called = _made()
    for _ in range(2):
        watches.brokers()
        watches.topics()
        watches.deletions()
        watches.log_dirs()
        watches.elections()
        watches.reassignments()
    assert not called, "the thread of ZooKeeper's client decides nothing"
    assert events.run() == ["brokers", "topics", "deletions", "log-dirs", "elections", "reassignments"]
    assert called == [
        "brokers",
        "topics",
        "deletions",
        "finish deletions",
        "log-dirs",
        "elections",
        "reassignments",
    ]


def test_topics_rewritten_until_the_event_runs_are_read_together() -> None:
    watches, events, called = _made()
    for name in ("a", "b", "a"):
        watches.topic(name)()
    assert events.run() == ["rewritten"]
    watches.topic("c")()
    events.run()
    assert called == [{"a", "b"}, {"c"}]
