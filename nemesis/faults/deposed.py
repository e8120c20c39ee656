"""A controller that is deposed in the middle of its work, and goes on with it when it wakes.

A leader is stopped (SIGTERM), so that the controller moves its partitions; some milliseconds later the controller
stands still (SIGSTOP) until another one has been elected. What it had prepared it sends when it is continued, under an
epoch that is over, and brokers have to refuse it. Both nodes are targets. Must not know what a controller sends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from random import Random

from harness.plan.fault_kinds import STOPS_PROCESS
from nemesis.base import NOTHING_WANTED, ClusterView, Family, Injection, Observation, Unavailable
from nemesis.faults.process import Pause, Stop
from nemesis.kinds import FaultKind, Number, Opening, Outlasts, Parameter, Turn
from nemesis.targets import choose
from nemesis.waiting import until

NAME = "controller"
ELECTED_S = 15.0
LATEST_MS = 60.0
KIND = FaultKind(
    "depose-controller",
    NAME,
    frozenset({STOPS_PROCESS}),
    at_random=False,
    does="a leader is stopped (SIGTERM), and the controller, in the middle of moving what it led, stands still "
    "(SIGSTOP) until another one is elected; then it goes on. Whatever the target is",
    seen_by="the state in `/proc/<pid>/stat`, and another controller; at the end both brokers run",
    parameters=(Parameter("after_ms", Number("milliseconds", 0.0, LATEST_MS), "0 to 60"),),
    outlasts=Outlasts.SESSION_AND_LAG,
    opening=Opening(Turn.LEADER_SILENT, "leader", place=1),
)


class DeposeController:
    """SIGTERM to a leader, SIGSTOP to the controller. sleep: of seconds."""

    kind = KIND

    def __init__(self, sleep: Callable[[float], None] = time.sleep) -> None:
        self._stop = Stop()
        self._pause = Pause()
        self._sleep = sleep

    def probe(self, view: ClusterView) -> str | None:
        count = len(view.broker_nodes)
        return f"{count} brokers: it takes 3, so that one is left to be the controller" if count < 3 else None

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        """Targets are the controller and a leader beside it, whatever `target` says; any where none is known."""
        (controller,) = choose("controller", rng, view)
        leaders = [view.leader(partition) for partition in range(view.partitions())]
        others = sorted({name for name in leaders if name is not None and name != controller})
        if not others:
            others = [node.name for node in view.broker_nodes if node.name != controller]
        params = {"after_ms": round(rng.uniform(0.0, LATEST_MS), 1), **wanted}
        return Injection(self.kind.name, (controller, rng.choice(others)), params)

    def claims(self, injection: Injection) -> frozenset[str]:
        return self._pause.claims(injection)

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        """Seen once the controller stands still and another one is in its place; the stopped leader may end later."""
        controller, leader = injection.targets
        after_ms = injection.params["after_ms"]
        if not isinstance(after_ms, int | float):
            raise Unavailable(f"{self.kind.name}: after_ms is a number of milliseconds; got {after_ms!r}")
        end_of_leader = self._stop.begin(view, _of(injection, leader))
        self._sleep(after_ms / 1000)
        paused = self._pause.start(view, _of(injection, controller))
        replaced = paused.seen and until(lambda: view.controller() not in (None, controller), ELECTED_S)
        ended = end_of_leader()
        text = f"{paused.text}; {ended.text}; controller is now {view.controller()}"
        return Observation(bool(replaced) and ended.seen, text)

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        """The controller goes on first, with what it had prepared."""
        controller, leader = injection.targets
        goes_on = self._pause.stop(view, _of(injection, controller))
        back = self._stop.stop(view, _of(injection, leader))
        return Observation(goes_on.seen and back.seen, f"{goes_on.text}; {back.text}")


def _of(injection: Injection, name: str) -> Injection:
    return Injection(injection.fault, (name,), injection.params)


FAMILY = Family(NAME, lambda: (DeposeController(),))
