"""A broker's registration over the sessions that ZooKeeper ends, renews and restores, and its session's deadline."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from broker.core.controller.cluster_state import StoreUnavailable
from broker.model.backoff import RECONNECT_MS_MAX
from broker.runtime.lifecycle.registration import BrokerRegistration, SessionChange
from tests.support.fake_loop import FakeLoop
from tests.support.step_worker import StepWorker, step

LIMIT_MS = 18_000


class Registrar:
    def __init__(self, *outcomes: int | Exception) -> None:
        self.outcomes = list(outcomes)
        self.withdrawn = 0

    def register(self) -> int:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        self.meanwhile()
        return outcome

    def meanwhile(self) -> None:
        """What happens before the answer is there."""

    def withdraw(self) -> None:
        self.withdrawn += 1


class Candidate:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def registered(self) -> None:
        self.heard.append("registered")

    def session_lost(self) -> None:
        self.heard.append("lost")

    def reconnected(self) -> None:
        self.heard.append("reconnected")


def registration(
    registrar: Registrar, pause: Callable[[float], object] | None = None
) -> tuple[BrokerRegistration, FakeLoop, StepWorker, Candidate, list[tuple[str, object]]]:
    loop, worker, candidate = FakeLoop(), StepWorker(), Candidate()
    heard: list[tuple[str, object]] = []
    made = BrokerRegistration(
        registrar,
        worker,
        candidate,
        loop,
        lambda: 5000.0,
        lambda epoch: heard.append(("registered", epoch)),
        lambda: heard.append(("fenced", made.broker_epoch)),
        lambda error: heard.append(("refused", str(error))),
        pause=pause,
    )
    return made, loop, worker, candidate, heard


def test_session_that_ends_before_the_first_registration_is_followed_by_another() -> None:
    class Slow(Registrar):
        def register(self) -> int:
            # What a session takes to end, and its end to be told.
            loop.now += 2 * LIMIT_MS if len(self.outcomes) > 2 else 0
            return super().register()

    registrar = Slow(StoreUnavailable("the session ended"), StoreUnavailable("not connected"), 7)
    made, loop, _, candidate, heard = registration(registrar, lambda _: None)
    assert (made.register_first(LIMIT_MS), made.broker_epoch, candidate.heard, heard) == (7, 7, ["registered"], [])


def test_first_registration_is_given_up_in_time() -> None:
    waited: list[float] = []

    def pause(seconds: float) -> None:
        waited.append(seconds)
        loop.now += seconds * 1000

    registrar = Registrar(*[StoreUnavailable(f"try {nth}") for nth in range(1000)])
    made, loop, _, candidate, _ = registration(registrar, pause)
    with pytest.raises(StoreUnavailable, match=r"try \d+"):
        made.register_first(LIMIT_MS)
    assert LIMIT_MS <= sum(waited) * 1000 <= LIMIT_MS + 2 * RECONNECT_MS_MAX
    assert candidate.heard == []


def test_first_registration_that_another_broker_stands_in_the_way_of_is_not_tried_again() -> None:
    made, *_ = registration(Registrar(ValueError("another broker has the id"), 7), lambda _: None)
    with pytest.raises(ValueError, match="another broker"):
        made.register_first(LIMIT_MS)


def test_renewed_session_fences_before_it_registers_again() -> None:
    made, loop, worker, candidate, heard = registration(Registrar(7, StoreUnavailable("not yet"), 9))
    assert made.register_first(LIMIT_MS) == 7
    made.on_session(SessionChange.RENEWED)
    loop.run_soon()
    assert heard == [("fenced", -1)]
    worker.run()
    loop.run_soon()
    assert heard[1:] == [("registered", 9)]
    assert made.broker_epoch == 9
    assert candidate.heard == ["registered", "lost", "registered"]


def test_reconnection_keeps_the_registration() -> None:
    made, loop, worker, candidate, heard = registration(Registrar(7))
    made.register_first(LIMIT_MS)
    made.on_session(SessionChange.DISCONNECTED)
    made.on_session(SessionChange.RECONNECTED)
    step(loop, worker)
    assert (made.broker_epoch, heard, candidate.heard) == (7, [], ["registered", "reconnected"])


def test_refusal_on_the_way_back_is_final() -> None:
    made, loop, worker, _, heard = registration(Registrar(7, ValueError("another broker has the id")))
    made.register_first(LIMIT_MS)
    made.on_session(SessionChange.RENEWED)
    step(loop, worker)
    assert heard[-1] == ("refused", "another broker has the id")
    assert made.broker_epoch == -1


def test_registration_that_lands_after_the_stop_is_taken_back() -> None:
    class Slow(Registrar):
        def meanwhile(self) -> None:
            if not self.outcomes:
                made.shutdown()

    registrar = Slow(7, 9)
    made, loop, worker, candidate, heard = registration(registrar)
    made.register_first(LIMIT_MS)
    made.on_session(SessionChange.RENEWED)
    step(loop, worker)
    assert registrar.withdrawn == 1
    assert (heard, candidate.heard) == ([("fenced", -1)], ["registered", "lost"])


def test_registration_that_the_loop_does_not_know_by_the_stop_is_noted_and_taken_back() -> None:
    registrar = Registrar(7, 9)
    made, loop, worker, candidate, heard = registration(registrar)
    made.register_first(LIMIT_MS)
    made.on_session(SessionChange.RENEWED)
    loop.run_soon()
    worker.run()
    made.shutdown()
    made.shutdown()
    assert heard == [("fenced", -1), ("registered", 9)], "the logs are left under the last registration"
    step(loop, worker)
    assert registrar.withdrawn == 1
    assert (len(heard), candidate.heard) == (2, ["registered", "lost"])


def test_registration_that_was_taken_up_is_left_to_the_end_of_the_session() -> None:
    registrar = Registrar(7, 9)
    made, loop, worker, _, heard = registration(registrar)
    made.register_first(LIMIT_MS)
    made.on_session(SessionChange.RENEWED)
    step(loop, worker)
    made.shutdown()
    step(loop, worker)
    assert (registrar.withdrawn, heard[-1]) == (0, ("registered", 9))


def test_suspicion_follows_the_local_clock_alone() -> None:
    made, loop, _, _, _ = registration(Registrar(7))
    assert not made.suspect()
    loop.now = 5000.0
    assert made.suspect()


def test_deadline_of_a_new_session_is_nobodys_until_its_registration_is_taken_up() -> None:
    made, loop, worker, _, heard = registration(Registrar(7, 9))
    made.register_first(LIMIT_MS)
    assert made.session_deadline_ms() == 5000.0
    made.on_session(SessionChange.LOST)
    assert made.session_deadline_ms() == -math.inf
    made.on_session(SessionChange.RENEWED)
    assert made.suspect(), "told at once, on the thread that heard of it: the roles are still there"
    loop.run_soon()
    assert made.suspect()
    assert heard == [("fenced", -1)]
    worker.run()
    assert made.suspect(), "registered, but the loop has not heard of it"
    loop.run_soon()
    assert heard[-1] == ("registered", 9)
    assert made.session_deadline_ms() == 5000.0


def test_registration_of_a_session_that_is_over_by_the_time_it_is_seen_ends_no_wait() -> None:
    made, loop, worker, _, heard = registration(Registrar(7, 9, 11))
    made.register_first(LIMIT_MS)
    made.on_session(SessionChange.RENEWED)
    loop.run_soon()
    worker.run()
    made.on_session(SessionChange.LOST)
    loop.run_soon()
    assert heard[-1] == ("registered", 9)
    assert made.suspect()
    made.on_session(SessionChange.RENEWED)
    step(loop, worker)
    assert heard[-1] == ("registered", 11)
    assert not made.suspect()


def test_session_that_was_only_cut_off_and_came_back_keeps_its_deadline() -> None:
    made, _, _, _, _ = registration(Registrar(7))
    made.register_first(LIMIT_MS)
    for change in (SessionChange.DISCONNECTED, SessionChange.RECONNECTED):
        made.on_session(change)
        assert made.session_deadline_ms() == 5000.0


def test_session_that_is_lost_before_the_first_registration_is_made_up_for_by_the_next() -> None:
    made, loop, worker, _, _ = registration(Registrar(7, 7))
    made.on_session(SessionChange.LOST)
    made.on_session(SessionChange.RENEWED)
    made.register_first(LIMIT_MS)
    assert made.suspect()
    step(loop, worker)
    assert not made.suspect()


def test_sessions_end_counts_also_while_the_broker_stops() -> None:
    made, _, _, _, _ = registration(Registrar(7))
    made.register_first(LIMIT_MS)
    made.shutdown()
    made.on_session(SessionChange.LOST)
    assert made.suspect()
