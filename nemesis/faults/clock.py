"""Faults of the wall clock: a step, a drift, a strobe. The monotonic clock stays right.

Written into libfaketime's control file of a broker, which reads it again within a second. What is seen comes from the
running broker alone: each line of its event log has its wall and its monotonic time, and the difference is compared
with the same difference of a process of that node whose clock is not faked. A broker that writes nothing is not
observed. Source: libfaketime's README (FAKETIME_TIMESTAMP_FILE, `x` factors).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from harness.nodes.base import CommandFailed, Node
from harness.plan.fault_kinds import SKEWS_CLOCK
from nemesis.base import NOTHING_WANTED, ClusterView, Family, Heal, Injection, Observation, Unavailable
from nemesis.kinds import FaultKind, InScript, Number, Opening, Parameter, ScriptUse, Turn
from nemesis.targets import choose
from nemesis.waiting import until

RIGHT = "+0 x1"
"""Control file text of a right clock. The rate must be named: libfaketime keeps the last one otherwise."""

REREAD_S = 1.0
"""FAKETIME_CACHE_DURATION: how old the control file's text may be in the broker."""

OBSERVE_S = 8.0
STEP_TOLERANCE_S = 0.25
TAIL_BYTES = 16384

NAME = "clock"
STEP = FaultKind(
    "clock-step",
    NAME,
    frozenset({SKEWS_CLOCK}),
    does="the wall clock jumps",
    seen_by="clock",
    parameters=(Parameter("offset_s", Number("seconds"), "1 s to 7 days, either way", InScript.REQUIRED),),
    opening=Opening(Turn.CLOCK_WRONG),
    script=ScriptUse(undo="clock-right"),
)
DRIFT = FaultKind(
    "clock-drift",
    NAME,
    frozenset({SKEWS_CLOCK}),
    does="the wall clock runs at `rate` times real time, from where it is",
    seen_by="clock",
    parameters=(Parameter("rate", Number("seconds a second", low=0.0), "0.3 to 0.9, or 1.1 to 3"),),
    opening=Opening(Turn.CLOCK_WRONG),
)
STROBE = FaultKind(
    "clock-strobe",
    NAME,
    frozenset({SKEWS_CLOCK}),
    does="the wall clock jumps to and fro",
    seen_by="clock",
    parameters=(
        Parameter("delta_s", Number("seconds"), "1 s to 5 min, either way"),
        Parameter("period_s", Number("seconds", low=0.0), "1.2 to 2"),
    ),
    opening=Opening(Turn.CLOCK_WRONG),
)

_STAMP = "import time; m = time.monotonic_ns(); print(m, time.time_ns() - m)"


@dataclass(frozen=True, slots=True)
class Sample:
    """One event-log line: monotonic time and how far the broker's wall clock was ahead of the node's."""

    monotonic_ns: int
    ahead_s: float


def samples(view: ClusterView, name: str) -> list[Sample]:
    """The last lines of the broker's event log, oldest first. Empty when there is none or it cannot be read."""
    node = view.node(name)
    try:
        _, difference_ns = stamp(node)
        text = node.run(["tail", "-c", str(TAIL_BYTES), view.event_log(name)], check=False).stdout
    except CommandFailed:
        return []
    found = []
    for line in text.splitlines():
        try:
            event = json.loads(line)
            found.append(Sample(int(event["m"]), (int(event["w"]) - int(event["m"]) - difference_ns) / 1e9))
        except (ValueError, KeyError, TypeError):
            continue  # The first line of a tail is cut, the last one may be torn.
    return found


def stamp(node: Node) -> tuple[int, int]:
    """(monotonic time, wall minus monotonic time) in ns, of a process of that node with an honest clock."""
    monotonic, difference = node.run([node.python, "-I", "-S", "-c", _STAMP]).stdout.split()
    return int(monotonic), int(difference)


class _ClockFault:
    kind: FaultKind

    def probe(self, view: ClusterView) -> str | None:
        missing = [node.name for node in view.broker_nodes if view.clock_file(node.name) is None]
        if missing:
            return f"no libfaketime on {', '.join(missing)}: pip install 'highwater[lab]' there brings it"
        return None

    def claims(self, injection: Injection) -> frozenset[str]:
        return frozenset(f"clock:{name}" for name in injection.targets)

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        since = {name: _write(view, name, RIGHT) for name in injection.targets}
        return _each(view, injection, since, lambda found: _near(found, 0.0))


class Step(_ClockFault):
    """The wall clock jumps by offset_s, and back at the end."""

    kind = STEP

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        # Log-uniform from 1 s to 7 days, either way.
        offset_s = round(rng.choice((-1, 1)) * 10 ** rng.uniform(0.0, 5.78), 3)
        return Injection(self.kind.name, _brokers(choose(target, rng, view), view), {"offset_s": offset_s, **wanted})

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        offset_s = _number(injection, "offset_s")
        since = {name: _write(view, name, f"{offset_s:+.3f} x1") for name in injection.targets}
        return _each(view, injection, since, lambda found: _near(found, offset_s))


class Drift(_ClockFault):
    """The wall clock runs at rate x real time, without a jump at the beginning; it is put right at the end."""

    kind = DRIFT

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        rate = round(rng.choice((rng.uniform(0.3, 0.9), rng.uniform(1.1, 3.0))), 3)
        return Injection(self.kind.name, _brokers(choose(target, rng, view), view), {"rate": rate, **wanted})

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        rate = _number(injection, "rate")
        since = {}
        for name in injection.targets:
            # libfaketime's factor counts from the process's start; the offset takes back what it would add at once.
            back_s = -_age_s(view, name) * (rate - 1)
            since[name] = _write(view, name, f"{back_s:+.3f} x{rate:.3f}")
        return _each(view, injection, since, lambda found: _runs_at(found, rate))


class Strobe(_ClockFault):
    """The wall clock jumps by delta_s and back again, every period_s."""

    kind = STROBE

    def __init__(self) -> None:
        self._ends: dict[tuple[str, ...], tuple[threading.Event, threading.Thread]] = {}

    def draw(
        self, rng: Random, view: ClusterView, target: str, wanted: Mapping[str, object] = NOTHING_WANTED
    ) -> Injection:
        delta_s = round(rng.choice((-1, 1)) * 10 ** rng.uniform(0.0, 2.5), 3)
        params = {"delta_s": delta_s, "period_s": round(rng.uniform(1.2, 2.0), 2), **wanted}
        return Injection(self.kind.name, _brokers(choose(target, rng, view), view), params)

    def start(self, view: ClusterView, injection: Injection) -> Observation:
        delta_s, period_s = _number(injection, "delta_s"), _number(injection, "period_s")
        since = {name: stamp(view.node(name))[0] for name in injection.targets}
        end = threading.Event()
        thread = threading.Thread(target=self._flip, args=(view, injection, end, delta_s, period_s), daemon=True)
        self._ends[injection.targets] = (end, thread)
        thread.start()
        return _each(view, injection, since, lambda found: _both(found, delta_s))

    def stop(self, view: ClusterView, injection: Injection) -> Observation:
        if injection.targets in self._ends:
            end, thread = self._ends.pop(injection.targets)
            end.set()
            thread.join()
        return super().stop(view, injection)

    @staticmethod
    def _flip(view: ClusterView, injection: Injection, end: threading.Event, delta_s: float, period_s: float) -> None:
        ahead = True
        while not end.is_set():
            for name in injection.targets:
                try:
                    _write(view, name, f"{delta_s:+.3f} x1" if ahead else RIGHT)
                except CommandFailed:
                    continue  # Seen as a strobe that is not there, by the observation.
            ahead = not ahead
            end.wait(period_s)


def right_all(view: ClusterView) -> None:
    """Put every broker's clock right; every node is tried before an error is raised."""
    errors: list[str] = []
    for node in view.broker_nodes:
        path = view.clock_file(node.name)
        try:
            if path is not None:
                node.write_text(path, RIGHT)
        except CommandFailed as error:
            errors.append(str(error))
    if errors:
        raise CommandFailed("; ".join(errors))


def _write(view: ClusterView, name: str, text: str) -> int:
    """Set the control file; the node's monotonic time just before."""
    node = view.node(name)
    path = view.clock_file(name)
    if path is None:
        raise CommandFailed(f"node {name}: its broker runs without libfaketime, the clock cannot be set")
    monotonic_ns, _ = stamp(node)
    node.write_text(path, text + "\n")
    return monotonic_ns


def _each(
    view: ClusterView, injection: Injection, since: Mapping[str, int], judge: Callable[[list[Sample]], bool]
) -> Observation:
    """Wait until what every target logged since then (plus the cache time) is as judged."""
    fresh: dict[str, list[Sample]] = {name: [] for name in injection.targets}

    def seen() -> bool:
        for name in injection.targets:
            if not judge(fresh[name]):
                from_ns = since[name] + int((REREAD_S + 0.1) * 1e9)
                known = fresh[name][-1].monotonic_ns if fresh[name] else from_ns
                fresh[name] += [one for one in samples(view, name) if one.monotonic_ns > max(from_ns, known)]
        return all(judge(fresh[name]) for name in injection.targets)

    reached = until(seen, OBSERVE_S, interval_s=0.2)
    return Observation(reached, "; ".join(_describe(name, fresh[name]) for name in injection.targets))


def _describe(name: str, found: list[Sample]) -> str:
    if not found:
        return f"{name}: its broker logged nothing"
    first, last = found[0], found[-1]
    over_s = (last.monotonic_ns - first.monotonic_ns) / 1e9
    return f"{name}: wall clock {last.ahead_s:+.3f} s ahead ({first.ahead_s:+.3f} s, {over_s:.1f} s before)"


def _near(found: list[Sample], offset_s: float) -> bool:
    return bool(found) and abs(found[-1].ahead_s - offset_s) < STEP_TOLERANCE_S


def _both(found: list[Sample], delta_s: float) -> bool:
    return any(abs(one.ahead_s) < STEP_TOLERANCE_S for one in found) and any(
        abs(one.ahead_s - delta_s) < STEP_TOLERANCE_S for one in found
    )


def _runs_at(found: list[Sample], rate: float) -> bool:
    """Whether over the last second or a little more the offset grew as the rate says, within a fifth."""
    earlier = [one for one in found if found[-1].monotonic_ns - one.monotonic_ns >= 1_000_000_000]
    if not earlier:
        return False
    over_s = (found[-1].monotonic_ns - earlier[-1].monotonic_ns) / 1e9
    grown_s = found[-1].ahead_s - earlier[-1].ahead_s
    return abs(grown_s - (rate - 1) * over_s) < 0.2 * abs(rate - 1) * over_s


def _age_s(view: ClusterView, name: str) -> float:
    """How long the node's broker has been running, on the boot clock; 0 when it is not."""
    node = view.node(name)
    pid = node.pid(view.daemon(name))
    if pid is None:
        return 0.0
    done = node.run(["cat", f"/proc/{pid}/stat", "/proc/uptime"], check=False)
    lines = done.stdout.splitlines()
    if done.returncode != 0 or len(lines) < 2:
        return 0.0
    ticks = int(lines[0].rpartition(")")[2].split()[19])
    return float(lines[1].split()[0]) - ticks / 100  # USER_HZ is 100 on every Linux port in use.


def _brokers(names: tuple[str, ...], view: ClusterView) -> tuple[str, ...]:
    """Clock faults are for brokers: ZooKeeper does not run under libfaketime."""
    brokers = tuple(name for name in names if name in {node.name for node in view.broker_nodes})
    if not brokers:
        raise Unavailable(f"{', '.join(names)}: only brokers have a clock of their own")
    return brokers


def _number(injection: Injection, key: str) -> float:
    value = injection.params[key]
    assert isinstance(value, (int, float)), f"{injection.fault}: {key} must be a number, it is {value!r}"
    return float(value)


FAMILY = Family(NAME, lambda: (Step(), Drift(), Strobe()), sweep=right_all, heal=Heal.LAST)
