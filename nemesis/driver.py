"""Carries out a schedule of faults.

One thread per lane of the schedule. Targets are drawn when a fault fires, from the seed and its number. A kind that
this run cannot have is recorded as unavailable, a fault for which there was no time left as skipped.
Must not know clients, workloads or verdicts.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

from harness.plan.plan import Plan
from nemesis import schedule
from nemesis.active_faults import ActiveFaults, Recorder
from nemesis.base import ClusterView, Fault, Unavailable
from nemesis.catalogue import Catalogue, load_catalogue
from nemesis.kinds import Timing
from nemesis.schedule import Mix, Slot
from nemesis.targets import shown_role

REDRAWS = 8
WATCH_S = 2.0
IN_FORCE_S = 2.0
"""The least time for which a fault lasts after its effect was seen."""


class Stop(Protocol):
    """What ends a run early; a threading.Event."""

    def is_set(self) -> bool:
        """Whether the run is to end now."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for that, for so many seconds; whether the run is to end now."""
        ...


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
        catalogue: Catalogue | None = None,
        only: Collection[int] | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """mix: None injects nothing and only watches for crashes. faults, catalogue: see `ActiveFaults`. only: numbers
        of the faults of the schedule that are carried out; None: all. clock_s: a monotonic clock in seconds.
        """
        self._mix = mix
        self._only = only
        self._seed = seed
        self._record = record
        self._clock_s = clock_s
        self.in_force = ActiveFaults(view, record, faults, catalogue)
        self._waiting: dict[int, tuple[float, Slot]] = {}
        """Of each lane that waits: when its next fault is due, by clock_s, and which."""
        self.unavailable: dict[str, str] = {}
        """Kinds in the run file that these nodes cannot do → what is missing for them."""

    def active(self) -> list[str]:
        """The faults in force, as the console shows them: `pause n1`."""
        return [f"{one.injection.fault} {','.join(one.injection.targets)}" for one in self.in_force.active]

    def coming(self) -> str:
        """The next fault, for people: `next: pause on leader in 3 s`; empty where none waits. Any thread."""
        waiting = sorted(self._waiting.copy().values(), key=lambda one: one[0])
        if not waiting:
            return ""
        due_s, slot = waiting[0]
        return f"next: {slot.kind} on {slot.target} in {max(0.0, due_s - self._clock_s()):.0f} s"

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
            if self._only is not None:
                planned = tuple(slot for slot in planned if scheduled(slot) in self._only)
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
            # A lane that ended early injected less than the run file demands.
            raise errors[0]

    def heal_all(self) -> list[str]:
        """See `ActiveFaults.heal_all`."""
        return self.in_force.heal_all()

    def _probed(self, mix: Mix) -> Mix:
        """The mix without the kinds that are unavailable, each of which is recorded."""
        for kind in mix.kinds:
            missing = self.in_force.faults[kind.name].probe(self.in_force.view)
            if missing is not None:
                self._skip(kind.name, missing)
        kinds = [kind for kind in mix.kinds if kind.name not in self.unavailable]
        return replace(mix, kinds=kinds)

    def _skip(self, kind: str, missing: str) -> None:
        self.unavailable[kind] = missing
        self.in_force.record_absence("unavailable", kind, missing, error=missing)

    def _record_skipped(self, slot: Slot) -> None:
        """Record that a slot of the schedule was not carried out."""
        why = "it could no longer be over in time, or what it claims was never free"
        self.in_force.record_absence("skipped", slot.kind, why, params={"target": slot.target})

    def carry_out(self, lane: Sequence[Slot], began_s: float, mix: Mix, stop: Stop) -> None:
        """Apply and take back the slots of one lane, one after the other, until done or `stop` is set."""
        end_s = began_s + mix.time_limit_s - mix.recovery_s
        ready_s = began_s
        previous_end_s = 0.0
        for index, slot in enumerate(lane):
            # Applying and observing take time as well: quiet times and durations count from when that was done.
            quiet_s = slot.start_s - previous_end_s
            previous_end_s = slot.end_s
            self._waiting[slot.lane] = ready_s + quiet_s, slot
            stopped = stop.wait(max(0.0, ready_s + quiet_s - self._clock_s()))
            del self._waiting[slot.lane]
            if stopped:
                for left in lane[index:]:
                    self._record_skipped(left)
                return
            fault_id = self._claim(slot, end_s, stop)
            if fault_id is None:
                if slot.kind not in self.unavailable:
                    self._record_skipped(slot)
                continue
            began_fault_s = self._clock_s()
            self.in_force.start(fault_id)
            # On a slow machine observing may take as long as the fault was to last: work under it must be possible.
            stop.wait(max(min(IN_FORCE_S, slot.duration_s), began_fault_s + slot.duration_s - self._clock_s()))
            self.in_force.stop(fault_id)
            ready_s = self._clock_s()

    def _claim(self, slot: Slot, end_s: float, stop: Stop) -> int | None:
        """Draw the slot's injection until its claims are free; None when it can no longer be over in time."""
        rng = Random(f"{self._seed}/fault/{slot.number}")
        tries = 0
        while not stop.is_set() and self._clock_s() + slot.duration_s <= end_s:
            try:
                injection = self.in_force.faults[slot.kind].draw(rng, self.in_force.view, slot.target, slot.wanted)
            except Unavailable as missing:
                self._skip(slot.kind, str(missing))
                return None
            role = shown_role(slot.target, injection.targets, self.in_force.view)
            shown = {} if role is None else {"role": role}
            injection = replace(injection, params={**injection.params, **shown, "scheduled": scheduled(slot)})
            fault_id = self.in_force.claim(injection)
            if fault_id is not None:
                return fault_id
            tries += 1
            if tries % REDRAWS == 0:
                self.in_force.wait_for_change(0.5)
        return None

    def _watch(self) -> None:
        for node, log_tail in self.in_force.view.crashed():
            self._record.harness("crash", error="ended though no fault was to end it", node=node, log_tail=log_tail)


def scheduled(slot: Slot) -> int:
    """The number by which run files and the history call a fault of the schedule, from 1."""
    return slot.number + 1


def mix_of(plan: Plan, catalogue: Catalogue | None = None) -> Mix | None:
    """The mix of a run file, with the timing that its settings set; None without [faults].

    Raises PlanError for a kind that the catalogue (None: of what is installed) does not have.
    """
    if plan.faults is None:
        return None
    timings = [schedule.timing_of(plan.system.settings_of(broker_id)) for broker_id in range(1, plan.nodes.brokers + 1)]
    sessions = [timing.session_s for timing in timings if timing.session_s is not None]
    lags = [timing.lag_s for timing in timings if timing.lag_s is not None]
    return Mix(
        kinds=(load_catalogue() if catalogue is None else catalogue).named(plan.faults.kinds),
        targets=plan.faults.targets,
        interval_s=plan.faults.interval_s,
        duration_s=plan.faults.duration_s,
        overlap=plan.faults.overlap,
        time_limit_s=plan.workload.time_limit_s,
        recovery_s=schedule.default_recovery_s(plan.workload.time_limit_s),
        timing=Timing(max(sessions, default=None), max(lags, default=None)),
    )


def nemesis_of(plan: Plan, view: ClusterView, record: Recorder) -> Nemesis:
    """The nemesis of a run file, with the faults that are installed."""
    catalogue = load_catalogue()
    only = None if plan.faults is None else plan.faults.only
    return Nemesis(mix_of(plan, catalogue), plan.seed_drawn, view, record, catalogue=catalogue, only=only)
