"""Faults of a process: kill -9, stop (SIGTERM), pause (SIGSTOP).

The effect is read from /proc on the node. A killed or stopped broker is started again by the view, a paused daemon is
continued. Must not know why the process matters.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from random import Random

from harness.plan.fault_kinds import STOPS_PROCESS
from nemesis.base import NOTHING_WANTED, ClusterView, Family, Injection, Observation
from nemesis.kinds import FaultKind, Opening, Outlasts, ScriptUse, Turn
from nemesis.targets import choose
from nemesis.waiting import until

GONE_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 20.0
STATE_TIMEOUT_S = 3.0

NAME = "process"
KILL = FaultKind(
    "kill",
    NAME,
    frozenset({STOPS_PROCESS}),
    does="SIGKILL; the broker is started again at the end",
    seen_by="the pid is gone; at the end the broker responds",
    opening=Opening(Turn.LEADER_KILLED, "leader"),
    script=ScriptUse(undo="start"),
)
STOP = FaultKind(
    "stop",
    NAME,
    frozenset({STOPS_PROCESS}),
    does="SIGTERM; started again at the end. One that does not end in 20 s is killed before its restart",
    seen_by="the same, and the last line of its event log",
    opening=Opening(Turn.LEADER_GOES_OTHERWISE, "leader", place=0),
    script=ScriptUse(undo="start"),
)
PAUSE = FaultKind(
    "pause",
    NAME,
    frozenset({STOPS_PROCESS}),
    does="SIGSTOP; SIGCONT at the end",
    seen_by="the state in `/proc/<pid>/stat` is T; at the end it is not",
    outlasts=Outlasts.SESSION_AND_LAG,
    opening=Opening(Turn.LEADER_SILENT, "leader"),
    script=ScriptUse(undo="resume"),
)


def process_state(view: ClusterView, name: str) -> str | None:
    """The state letter of the node's daemon as /proc/<pid>/stat has it (T: stopped), or None when there is none."""
    node = view.node(name)
    pid = node.pid(view.daemon(name))
    if pid is None:
        return None
    done = node.run(["cat", f"/proc/{pid}/stat"], check=False)
    # The command's name may hold spaces and brackets; the state follows the last closing one.
    fields = done.stdout.rpartition(")")[2].split()
    return fields[0] if done.returncode == 0 and fields else None


class _ProcessFault:
    """What the three have in common: targets by selector, one process each."""

    kind: FaultKind

    def probe(self, view: ClusterView) -> str | None:
        return None

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        return Injection(self.kind.name, choose(target, rng, view), dict(wanted))

    def claims(self, injection: Injection) -> frozenset[str]:
        return frozenset(f"{what}:{name}" for name in injection.targets for what in ("process", "clock"))


class _DownFault(_ProcessFault):
    """The process goes away, and is started again."""

    signal_number: int
    gone_timeout_s: float

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        """Signal every target, then wait for each to be gone. Seen only if each was there before and is gone."""
        return self.begin(view, injection)()

    def begin(self, view: ClusterView, injection: Injection) -> Callable[[], Observation]:
        """Signal every target; what waits for them to be gone, and says what was seen."""
        pids: dict[str, int | None] = {}
        began = time.monotonic()
        for name in injection.targets:
            node, daemon = view.node(name), view.daemon(name)
            pids[name] = node.pid(daemon)
            if pids[name] is not None:
                view.expect_down(name)
                node.signal(daemon, self.signal_number)
        return lambda: _all(injection, lambda name: self._gone(view, name, pids[name], began))

    def _gone(self, view: ClusterView, name: str, pid: int | None, began: float) -> Observation:
        if pid is None:
            return Observation(False, f"{name}: no {view.daemon(name)} was running")
        gone = view.node(name).wait_gone(view.daemon(name), self.gone_timeout_s)
        after_ms = (time.monotonic() - began) * 1000
        how = "gone" if gone else "still there"
        text = f"{name}: pid {pid} {how} {after_ms:.0f} ms after {_signal(self.signal_number)}"
        missing = self._missing(view, name) if gone else None
        return Observation(gone and missing is None, text if missing is None else f"{text}, {missing}")

    def _missing(self, view: ClusterView, name: str) -> str | None:
        """What a process should have done before it ended, under this fault, and did not; None when nothing."""
        return None

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        """Start every target again; one that never ended is ended first."""

        def restart(name: str) -> Observation:
            view.restart_broker(name)
            pid = view.node(name).pid(view.daemon(name))
            return Observation(pid is not None, f"{name}: pid {pid} responds")

        for name in injection.targets:
            node, daemon = view.node(name), view.daemon(name)
            if self.signal_number == signal.SIGTERM and node.pid(daemon) is not None and self._is_stopping(view, name):
                node.signal(daemon, signal.SIGKILL)
                node.wait_gone(daemon, GONE_TIMEOUT_S)
        return _all(injection, restart)

    def _is_stopping(self, view: ClusterView, name: str) -> bool:
        return False


class Kill(_DownFault):
    """kill -9, and a restart."""

    kind = KILL
    signal_number = signal.SIGKILL
    gone_timeout_s = GONE_TIMEOUT_S


class Stop(_DownFault):
    """SIGTERM, and a restart. A process that does not end in time is killed before it is started again."""

    kind = STOP
    signal_number = signal.SIGTERM
    gone_timeout_s = STOP_TIMEOUT_S

    def __init__(self) -> None:
        self._stopping: dict[str, int] = {}

    def begin(self, view: ClusterView, injection: Injection) -> Callable[[], Observation]:
        for name in injection.targets:
            pid = view.node(name).pid(view.daemon(name))
            if pid is not None:
                self._stopping[name] = pid
        return super().begin(view, injection)

    def _missing(self, view: ClusterView, name: str) -> str | None:
        """A broker without a clean shutdown in its event log died of something else while it was stopping."""
        if name not in {node.name for node in view.broker_nodes}:
            return None
        last = view.node(name).run(["tail", "-n", "1", view.event_log(name)], check=False)
        # Without an event log, how a process ended is unknown.
        if last.returncode != 0 or '"e":"stop"' in last.stdout.replace(" ", ""):
            return None
        return "and its event log has no clean stop as its last line"

    def _is_stopping(self, view: ClusterView, name: str) -> bool:
        return self._stopping.pop(name, None) == view.node(name).pid(view.daemon(name))


class Pause(_ProcessFault):
    """SIGSTOP, and SIGCONT."""

    kind = PAUSE

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        for name in injection.targets:
            if view.node(name).pid(view.daemon(name)) is not None:
                view.node(name).signal(view.daemon(name), signal.SIGSTOP)
        return _all(injection, lambda name: self._in_state(view, name, stopped=True))

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        """Continue every target. One that was killed meanwhile has nothing to continue: its pause is over as well."""
        for name in injection.targets:
            if view.node(name).pid(view.daemon(name)) is not None:
                view.node(name).signal(view.daemon(name), signal.SIGCONT)
        return _all(injection, lambda name: self._in_state(view, name, stopped=False))

    def _in_state(self, view: ClusterView, name: str, stopped: bool) -> Observation:
        def seen() -> bool:
            state = process_state(view, name)
            return state in ("T", "t") if stopped else state not in ("T", "t")

        reached = until(seen, STATE_TIMEOUT_S, interval_s=0.02)
        return Observation(reached, f"{name}: /proc state {process_state(view, name) or 'none, no such process'}")


def _all(injection: Injection, observe: Callable[[str], Observation]) -> Observation:
    seen = [observe(name) for name in injection.targets]
    return Observation(bool(seen) and all(one.seen for one in seen), "; ".join(one.text for one in seen))


def _signal(number: int) -> str:
    return signal.Signals(number).name


FAMILY = Family(NAME, lambda: (Kill(), Stop(), Pause()))
