"""The faults in force: applied, recorded in the history, and taken back.

A fault that fails is recorded with its error and reverted all the same. Each line says the fault's family and effects,
so that who reads the history needs no list of kinds. Invariant: after `heal_all` returned without errors, no fault of
any kind is in force on any node, whoever caused it. Must not know schedules, clients or verdicts.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from nemesis.base import ClusterView, Fault, Injection, Observation
from nemesis.catalogue import Catalogue, load_catalogue
from nemesis.faults.process import process_state


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
        family: str | None = None,
        effects: Sequence[str] = (),
    ) -> None:
        """began_ns: CLOCK_MONOTONIC just before the change of this line was begun. file: what the fault damaged.

        family, effects: of the fault's kind (`harness.plan.fault_kinds`).
        """
        ...

    def harness(self, f: str, *, error: str | None = None, **fields: object) -> None:
        """A line of the harness itself; f: `crash`, `heal` or `step`."""
        ...


@dataclass(slots=True)
class Active:
    """A fault in force, from before it is applied until it was taken back."""

    fault_id: int
    fault: Fault
    injection: Injection


class ActiveFaults:
    """The faults in force: applies them, takes them back, and records both. Safe to use from many threads."""

    def __init__(
        self,
        view: ClusterView,
        record: Recorder,
        faults: Mapping[str, Fault] | None = None,
        catalogue: Catalogue | None = None,
    ) -> None:
        """faults: fresh ones by the name of their kind, instead of all of the catalogue. catalogue: None loads it."""
        self.view = view
        self._catalogue = load_catalogue() if catalogue is None else catalogue
        self.faults = self._catalogue.make() if faults is None else faults
        self._record = record
        self._active: dict[int, Active] = {}
        self._claimed: dict[str, int] = {}
        self._next_id = 1
        self._changed = threading.Condition()

    @property
    def active(self) -> Sequence[Active]:
        """Those in force now, in the order of their ids."""
        with self._changed:
            return tuple(self._active.values())

    def claim(self, injection: Injection) -> int | None:
        """A new fault id that holds the injection's claims, or None while another fault holds one of them."""
        fault = self.faults[injection.fault]
        claims = fault.claims(injection)
        with self._changed:
            if any(claim in self._claimed for claim in claims):
                return None
            fault_id = self.admit(injection)
            self._claimed.update(dict.fromkeys(claims, fault_id))
            return fault_id

    def admit(self, injection: Injection) -> int:
        """A new fault id whatever else is in force: in a script, its author decides which faults overlap."""
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
            family=active.fault.kind.family,
            effects=sorted(active.fault.kind.effects),
        )
        return observation

    def record_absence(
        self,
        f: str,
        name: str,
        why: str,
        *,
        params: Mapping[str, object] | None = None,
        error: str | None = None,
    ) -> None:
        """Record that a scheduled fault of that name was not applied; f: `unavailable` or `skipped`."""
        kind = self.faults[name].kind
        self._record.nemesis(
            f,
            fault=name,
            fault_id=0,
            targets=[],
            params=params or {},
            observed=False,
            observation=why,
            error=error,
            family=kind.family,
            effects=sorted(kind.effects),
        )

    def heal_all(self) -> list[str]:
        """Take back every fault, known or not; returns the errors of those that could not be taken back. Idempotent."""
        errors: list[str] = []
        for active in sorted(self.active, key=lambda one: self._catalogue.heal_order(one.fault)):
            end = self.stop(active.fault_id)
            if end is not None and not end.seen:
                errors.append(f"{active.injection.fault} ({active.fault_id}): {end.text}")

        def attempt(what: str, act: Callable[[], object]) -> None:
            try:
                act()
            except Exception as failure:
                errors.append(f"{what}: {failure}")

        for family in sorted(self._catalogue.families, key=lambda one: one.heal.value):
            if family.sweep is not None:
                attempt(family.name, partial(family.sweep, self.view))
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
