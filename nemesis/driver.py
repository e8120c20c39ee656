"""Carries out a schedule of faults, writes each into the history, and takes every effect back.

One thread per lane of the schedule. Targets are drawn when a fault fires, from the seed and its number. A fault that
fails is recorded with its error and reverted all the same; one that this run cannot do is recorded as unavailable.
Invariant: after `heal_all` returned without errors, no fault of any kind is in force on any node, whoever caused it.
Must not know clients, workloads or verdicts.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Protocol

from harness.plan.plan import Plan
from nemesis import clock, partition, schedule
from nemesis.base import ClusterView, Fault, Injection, Observation, Unavailable
from nemesis.process import process_state
from nemesis.registry import make_faults
from nemesis.schedule import Mix, Slot

REDRAWS = 8
WATCH_S = 2.0
IN_FORCE_S = 2.0
"""How long a fault stays once it was seen, at least."""

_HEAL_ORDER = {**dict.fromkeys(schedule.CUTS | {"cut-zookeeper"}, 0), **dict.fromkeys(schedule.CLOCKS, 2)}


class Recorder(Protocol):
    """Where lines go: the history. Safe to call from any thread."""

    def nemesis(
        self,
        f: str,
        *,
        fault: str,
        fault_id: int,
        targets: list[str],
        params: Mapping[str, object],
        observed: bool,
        observation: str,
        error: str | None = None,
        began_ns: int | None = None,
        file: str | None = None,
    ) -> None:
        """began_ns: CLOCK_MONOTONIC just before the change that the line tells of was begun. file: what it damaged."""
        ...

    def harness(self, f: str, *, error: str | None = None, **fields: object) -> None: ...


class Stop(Protocol):
    """What ends a run early; a threading.Event."""

    def is_set(self) -> bool: ...

    def wait(self, timeout: float | None = None) -> bool: ...


@dataclass(slots=True)
class Active:
    """A fault in force, from before it is applied until it was taken back."""

    fault_id: int
    fault: Fault
    injection: Injection


class Ledger:
    """The faults in force: applies them, takes them back, and records both. Safe to use from many threads."""

    def __init__(self, view: ClusterView, record: Recorder, faults: Mapping[str, Fault] | None = None) -> None:
        self.view = view
        self.faults = make_faults() if faults is None else faults
        self._record = record
        self._active: dict[int, Active] = {}
        self._claimed: dict[str, int] = {}
        self._next_id = 1
        self._changed = threading.Condition()

    @property
    def active(self) -> Sequence[Active]:
        with self._changed:
            return tuple(self._active.values())

    def claim(self, injection: Injection) -> int | None:
        """A new fault id that holds what the injection claims, or None while another one holds some of it."""
        fault = self.faults[injection.fault]
        claims = fault.claims(injection)
        with self._changed:
            if any(claim in self._claimed for claim in claims):
                return None
            fault_id = self.admit(injection)
            self._claimed.update(dict.fromkeys(claims, fault_id))
            return fault_id

    def admit(self, injection: Injection) -> int:
        """A new fault id whatever else is in force: a script says itself what may meet what."""
        with self._changed:
            fault_id = self._next_id
            self._next_id += 1
            self._active[fault_id] = Active(fault_id, self.faults[injection.fault], injection)
            return fault_id

    def wait_for_change(self, timeout_s: float) -> None:
        """Return when a claim was given back, or after the time."""
        with self._changed:
            self._changed.wait(timeout_s)

    def start(self, fault_id: int) -> Observation:
        """Apply a claimed fault and record its start; an error is recorded, and its text is the observation."""
        active = self._active[fault_id]
        return self._do("start", active, active.fault.start)

    def stop(self, fault_id: int) -> Observation | None:
        """Take a fault back, record it, and give its claims back; None when it was no longer active."""
        with self._changed:
            active = self._active.pop(fault_id, None)
        if active is None:
            return None
        try:
            return self._do("stop", active, active.fault.stop)
        finally:
            with self._changed:
                self._claimed = {claim: holder for claim, holder in self._claimed.items() if holder != fault_id}
                self._changed.notify_all()

    def _do(self, f: str, active: Active, act: Callable[[ClusterView, Injection], Observation]) -> Observation:
        error = None
        began_ns = time.monotonic_ns()
        try:
            observation = act(self.view, active.injection)
        except Exception as failure:
            # Whatever went wrong on a node is a fact about the run: it is recorded, and the other faults go on.
            error = f"{type(failure).__name__}: {failure}"
            observation = Observation(False, error)
        self._record.nemesis(
            f,
            fault=active.injection.fault,
            fault_id=active.fault_id,
            targets=list(active.injection.targets),
            params=active.injection.params,
            observed=observation.seen,
            observation=observation.text,
            error=error,
            began_ns=began_ns,
            file=observation.file,
        )
        return observation

    def heal_all(self) -> list[str]:
        """Take back every fault, known or not; what could not be taken back, as texts. Idempotent."""
        # A broker starts only when it reaches ZooKeeper, and shows its clock only when it runs.
        for active in sorted(self.active, key=lambda one: _HEAL_ORDER.get(one.injection.fault, 1)):
            self.stop(active.fault_id)
        errors: list[str] = []

        def attempt(what: str, act: Callable[[], object]) -> None:
            try:
                act()
            except Exception as failure:
                errors.append(f"{what}: {failure}")

        attempt("links", lambda: partition.heal_all(self.view))
        attempt("clocks", lambda: clock.right_all(self.view))
        for node in [*self.view.zookeeper_nodes, *self.view.broker_nodes]:
            attempt(f"{node.name} paused", partial(self._resume, node.name))
        for node in [*self.view.zookeeper_nodes, *self.view.broker_nodes]:
            attempt(f"{node.name} down", partial(self.view.restart_broker, node.name))
        for text in errors:
            self._record.harness("heal", error=text)
        return errors

    def _resume(self, name: str) -> None:
        if process_state(self.view, name) in ("T", "t"):
            self.view.node(name).signal(self.view.daemon(name), signal.SIGCONT)


class Nemesis:
    """The fault process of a run."""

    def __init__(
        self,
        mix: Mix | None,
        seed: int,
        view: ClusterView,
        record: Recorder,
        *,
        faults: Mapping[str, Fault] | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """mix: None injects nothing and only watches for crashes."""
        self._mix = mix
        self._seed = seed
        self._record = record
        self._clock_s = clock_s
        self.ledger = Ledger(view, record, faults)
        self.unavailable: dict[str, str] = {}
        """Kinds that the run file asks for and these nodes cannot do: what is missing."""

    def active(self) -> list[str]:
        """The faults in force, as the console shows them: `pause n1`."""
        return [f"{one.injection.fault} {','.join(one.injection.targets)}" for one in self.ledger.active]

    def run(self, stop: threading.Event) -> None:
        """Carry out the schedule until it is done or `stop` is set, then watch until `stop` is set.

        Returns with every fault of the schedule taken back.
        """
        lanes: list[threading.Thread] = []
        errors: list[Exception] = []

        def run_lane(lane: Sequence[Slot], mix: Mix) -> None:
            try:
                self.carry_out(lane, began_s, mix, stop)
            except Exception as error:
                errors.append(error)

        began_s = self._clock_s()
        if self._mix is not None:
            mix = self._probed(self._mix)
            planned = schedule.slots(mix, self._seed) if mix.kinds else ()
            for number in sorted({slot.lane for slot in planned}):
                lane = [slot for slot in planned if slot.lane == number]
                thread = threading.Thread(target=run_lane, args=(lane, mix), name=f"nemesis-{number}", daemon=True)
                lanes.append(thread)
                thread.start()
        while not stop.wait(WATCH_S):
            self._watch()
        for thread in lanes:
            thread.join()
        self._watch()
        if errors:
            # A lane that ended early injected less than the run file asks for.
            raise errors[0]

    def heal_all(self) -> list[str]:
        """See `Ledger.heal_all`."""
        return self.ledger.heal_all()

    def _probed(self, mix: Mix) -> Mix:
        """The mix without the kinds that are unavailable, each of which is recorded."""
        for kind in mix.kinds:
            missing = self.ledger.faults[kind].probe(self.ledger.view)
            if missing is not None:
                self._skip(kind, missing)
        kinds = [kind for kind in mix.kinds if kind not in self.unavailable]
        return replace(mix, kinds=kinds)

    def _skip(self, kind: str, missing: str) -> None:
        self.unavailable[kind] = missing
        self._record.nemesis(
            "unavailable",
            fault=kind,
            fault_id=0,
            targets=[],
            params={},
            observed=False,
            observation=missing,
            error=missing,
        )

    def _say_skipped(self, slot: Slot) -> None:
        """A slot that came to nothing: the schedule asked for it, and the run does not show it."""
        self._record.nemesis(
            "skipped",
            fault=slot.kind,
            fault_id=0,
            targets=[],
            params={"target": slot.target},
            observed=False,
            observation="it could no longer be over in time, or what it claims was never free",
        )

    def carry_out(self, lane: Sequence[Slot], began_s: float, mix: Mix, stop: Stop) -> None:
        """Apply and take back the slots of one lane, one after the other, until done or `stop` is set."""
        end_s = began_s + mix.time_limit_s - mix.recovery_s
        ready_s = began_s
        previous_end_s = 0.0
        for index, slot in enumerate(lane):
            # Applying and observing take time as well: quiet times and durations count from when that was done.
            quiet_s = slot.start_s - previous_end_s
            previous_end_s = slot.end_s
            if stop.wait(max(0.0, ready_s + quiet_s - self._clock_s())):
                for left in lane[index:]:
                    self._say_skipped(left)
                return
            fault_id = self._claim(slot, end_s, stop)
            if fault_id is None:
                if slot.kind not in self.unavailable:
                    self._say_skipped(slot)
                continue
            began_fault_s = self._clock_s()
            self.ledger.start(fault_id)
            # On a slow machine observing may take as long as the fault was to last: work under it must be possible.
            stop.wait(max(min(IN_FORCE_S, slot.duration_s), began_fault_s + slot.duration_s - self._clock_s()))
            self.ledger.stop(fault_id)
            ready_s = self._clock_s()

    def _claim(self, slot: Slot, end_s: float, stop: Stop) -> int | None:
        """Draw the slot's injection until its claims are free; None when it can no longer be over in time."""
        rng = Random(f"{self._seed}/fault/{slot.number}")
        draws = 0
        while not stop.is_set() and self._clock_s() + slot.duration_s <= end_s:
            try:
                injection = self.ledger.faults[slot.kind].draw(rng, self.ledger.view, slot.target, slot.wanted)
            except Unavailable as missing:
                self._skip(slot.kind, str(missing))
                return None
            fault_id = self.ledger.claim(injection)
            if fault_id is not None:
                return fault_id
            draws += 1
            if draws % REDRAWS == 0:
                self.ledger.wait_for_change(0.5)
        return None

    def _watch(self) -> None:
        for node, log_tail in self.ledger.view.crashed():
            self._record.harness("crash", error="ended though no fault was to end it", node=node, log_tail=log_tail)


def mix_of(plan: Plan) -> Mix | None:
    """The mix that a run file asks for, with the timing that its settings set."""
    if plan.faults is None:
        return None
    timings = [schedule.timing_of(plan.system.settings_of(broker_id)) for broker_id in range(1, plan.nodes.brokers + 1)]
    sessions = [timing.session_s for timing in timings if timing.session_s is not None]
    lags = [timing.lag_s for timing in timings if timing.lag_s is not None]
    return Mix(
        kinds=plan.faults.kinds,
        targets=plan.faults.targets,
        interval_s=plan.faults.interval_s,
        duration_s=plan.faults.duration_s,
        overlap=plan.faults.overlap,
        time_limit_s=plan.workload.time_limit_s,
        recovery_s=schedule.default_recovery_s(plan.workload.time_limit_s),
        timing=schedule.Timing(max(sessions, default=None), max(lags, default=None)),
    )


def nemesis_of(plan: Plan, view: ClusterView, record: Recorder) -> Nemesis:
    """The nemesis that a run file asks for."""
    return Nemesis(mix_of(plan), plan.seed_drawn, view, record)
