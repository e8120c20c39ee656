"""Carries out a scripted sequence, step by step: known bugs are written as scripts.

No step sleeps: each waits for what it names, up to its time-out. Faults of a script are the same faults, with the same
lines in the history, as those of a random mix. Must not know how a record is sent or read: the harness does that.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar, assert_never

from harness.nodes.base import CommandFailed
from harness.plan.plan import ScriptStep
from harness.plan.toml_source import PlanError
from nemesis.active_faults import ActiveFaults, Recorder
from nemesis.base import ClusterView, Fault, Injection
from nemesis.catalogue import load_catalogue
from nemesis.driver import Stop
from nemesis.faults.process import KILL, PAUSE
from nemesis.script_steps import (
    AwaitEvent,
    DeleteRecords,
    Inject,
    ListOffsets,
    Poll,
    Revert,
    Send,
    Step,
    WaitController,
    WaitIsr,
    WaitLeader,
    parse_script,
)

POLL_S = 0.05

T = TypeVar("T")


class ScriptFailed(Exception):
    """A step did not have the required outcome; the text names file, line, step, and what was seen instead."""


@dataclass(frozen=True, slots=True)
class Sent:
    """How a send came out. values: the run-unique values of the records, in order."""

    outcome: str
    values: tuple[int, ...]
    base_offset: int | None
    error: str | None


class Sender(Protocol):
    """Sends for a script, as a client operation that the history records."""

    def send(self, partition: int, count: int, acks: int, node: str | None) -> Sent:
        """One Produce request with count records in one batch, to that node, or to the leader as metadata says.

        A leader that is not known yet is looked up until the run's request time-out; nothing else is retried.
        """
        ...


@dataclass(frozen=True, slots=True)
class Shown:
    """How a poll came out. values: of the records, in order, None where one cannot be read; hw: -1 without any."""

    outcome: str
    values: tuple[int | None, ...]
    next_position: int
    hw: int
    error: str | None


@dataclass(frozen=True, slots=True)
class Told:
    """How a request for an end of the log came out. offset: -1 without any."""

    outcome: str
    offset: int
    error: str | None


class Reader(Protocol):
    """Reads and deletions for a script, each an operation that the history records. node: as of `Sender`."""

    def poll(self, partition: int, position: int, node: str | None) -> Shown:
        """One request for records from that position."""
        ...

    def list_offsets(self, partition: int, of: str, node: str | None) -> Told:
        """One request for the log's end, or, `of` = earliest, its start."""
        ...

    def delete_records(self, partition: int, before: int, node: str | None) -> Cleared:
        """One request that deletes what lies below that offset."""
        ...


@dataclass(frozen=True, slots=True)
class Cleared:
    """How a deletion came out. low_watermark: -1 without any."""

    outcome: str
    low_watermark: int
    error: str | None


class Script:
    """One script of one run."""

    def __init__(
        self,
        steps: Sequence[ScriptStep],
        view: ClusterView,
        record: Recorder,
        sender: Sender,
        *,
        reader: Reader | None = None,
        seed: int = 0,
        faults: Mapping[str, Fault] | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """reader: None where the workload has no reads for scripts. seed: the run's; what a step leaves open is drawn
        from it. Raises PlanError when a step is not understood, or reads without a reader.
        """
        self._given = tuple(steps)
        catalogue = load_catalogue()
        self._steps = parse_script(steps, len(view.broker_nodes), view.partitions(), catalogue.kinds)
        self._view = view
        self._record = record
        self._sender = sender
        self._reader = reader
        for given, step in zip(self._given, self._steps, strict=True):
            if reader is None and isinstance(step, Poll | ListOffsets | DeleteRecords):
                raise PlanError(f"{given.where}: script.do: {given.do!r}: this workload has no reads for scripts")
        self._seed = seed
        self._clock_s = clock_s
        self._marks: dict[str, int] = {}
        self._at = -1
        """Number of the step under way; -1 before and after all of them."""
        self.in_force = ActiveFaults(view, record, faults, catalogue)
        self.values: dict[str, int] = {}
        """Value of each record by the name that the script gave it."""

    def run(self, stop: Stop, enough: Callable[[], bool] = lambda: False) -> None:
        """Every step in order. Raises ScriptFailed; faults stay in force until their revert or `heal_all`.

        enough: whether those that are left are left out; a step under way is carried out.
        """
        for number, (given, step) in enumerate(zip(self._given, self._steps, strict=True)):
            if stop.is_set() or enough():
                break
            self._at = number
            began_s = self._clock_s()
            error: str | None = None
            found: Mapping[str, object] = {}
            try:
                found = self._carry_out(number, step, stop)
            except ScriptFailed as failure:
                error = f"{given.where}: step {number} ({given.do}): {failure}"
            self._record.harness(
                "step",
                error=error,
                number=number,
                do=given.do,
                params_json=json.dumps(dict(given.params)),
                took_ms=round((self._clock_s() - began_s) * 1000),
                result_json=json.dumps(found),
            )
            if error is not None:
                raise ScriptFailed(error)
        self._at = -1

    def coming(self) -> str:
        """The step under way, for people: `step 3 of 12: wait-leader`; empty where there is none. Any thread."""
        at = self._at
        return "" if at < 0 else f"step {at + 1} of {len(self._given)}: {self._given[at].do}"

    def active(self) -> list[str]:
        """The faults in force, as the console shows them."""
        return [f"{one.injection.fault} {','.join(one.injection.targets)}" for one in self.in_force.active]

    def heal_all(self) -> list[str]:
        """See `ActiveFaults.heal_all`."""
        return self.in_force.heal_all()

    def _carry_out(self, number: int, step: Step, stop: Stop) -> Mapping[str, object]:
        """What the step's line says beyond its parameters."""
        view = self._view
        match step:
            case Send():
                return self._send(step)
            case Poll():
                return self._poll(step, stop)
            case ListOffsets():
                return self._list_offsets(step, stop)
            case DeleteRecords():
                return self._delete_records(step)
            case Inject():
                return self._inject(number, step)
            case Revert():
                return self._revert(step)
            case WaitLeader(partition, broker, timeout_s):
                return self._wait(
                    lambda: view.leader(partition), lambda leader: leader == f"n{broker}", timeout_s, stop, "leader"
                )
            case WaitIsr(which, brokers, timeout_s):
                wanted = {f"n{broker}" for broker in brokers}
                partitions = range(view.partitions()) if which is None else (which,)
                return self._wait(
                    lambda: [list(view.isr(each)) for each in partitions],
                    lambda isrs: all(set(isr) == wanted for isr in isrs),
                    timeout_s,
                    stop,
                    "isr",
                )
            case WaitController(broker, timeout_s):
                return self._wait(view.controller, lambda name: name == f"n{broker}", timeout_s, stop, "controller")
            case AwaitEvent():
                return self._await_event(step, stop)
            case _:
                assert_never(step)

    def _send(self, step: Send) -> Mapping[str, object]:
        node = None if step.to is None else f"n{step.to}"
        sent = self._sender.send(step.partition, len(step.names), step.acks, node)
        self.values.update(zip(step.names, sent.values, strict=False))
        if step.expect not in ("any", sent.outcome):
            raise ScriptFailed(f"sending {', '.join(step.names)} came out {sent.outcome} ({sent.error})")
        return {"names": list(step.names), "values": list(sent.values), "outcome": sent.outcome}

    def _poll(self, step: Poll, stop: Stop) -> Mapping[str, object]:
        assert self._reader is not None
        reader, node = self._reader, None if step.to is None else f"n{step.to}"
        wanted = {self.values[name] for name in step.finds}
        names = {value: name for name, value in self.values.items()}
        shown = self._repeat(
            lambda: reader.poll(step.partition, step.position, node),
            lambda one: step.expect in ("any", one.outcome) and wanted <= set(one.values),
            step.timeout_s,
            stop,
            lambda one: f"a poll from {step.position} came out {one.outcome} ({one.error}), values {list(one.values)}",
        )
        found = [names[value] for value in shown.values if value is not None and value in names]
        return {"outcome": shown.outcome, "found": found, "next_position": shown.next_position, "hw": shown.hw}

    def _list_offsets(self, step: ListOffsets, stop: Stop) -> Mapping[str, object]:
        assert self._reader is not None
        reader, node = self._reader, None if step.to is None else f"n{step.to}"
        told = self._repeat(
            lambda: reader.list_offsets(step.partition, step.of, node),
            lambda one: step.expect in ("any", one.outcome) and (one.outcome != "ok" or one.offset >= step.reaches),
            step.timeout_s,
            stop,
            lambda one: f"a request for the {step.of} offset came out {one.outcome} ({one.error}): {one.offset}",
        )
        return {"outcome": told.outcome, "offset": told.offset}

    def _delete_records(self, step: DeleteRecords) -> Mapping[str, object]:
        assert self._reader is not None
        node = None if step.to is None else f"n{step.to}"
        done = self._reader.delete_records(step.partition, step.before, node)
        if step.expect not in ("any", done.outcome):
            raise ScriptFailed(f"deleting what lies below {step.before} came out {done.outcome} ({done.error})")
        return {"outcome": done.outcome, "low_watermark": done.low_watermark}

    def _repeat(
        self,
        request: Callable[[], T],
        good: Callable[[T], bool],
        timeout_s: float,
        stop: Stop,
        said: Callable[[T], str],
    ) -> T:
        """The first outcome of the request that is good."""
        deadline_s = self._clock_s() + timeout_s
        while True:
            outcome = request()
            if good(outcome):
                return outcome
            if self._clock_s() >= deadline_s or stop.is_set():
                raise ScriptFailed(f"after {timeout_s:g} s {said(outcome)}")
            stop.wait(POLL_S)

    def _inject(self, number: int, step: Inject) -> Mapping[str, object]:
        name = f"n{step.broker}"
        fault = self.in_force.faults[step.fault]
        missing = fault.probe(self._view)
        if missing is not None:
            raise ScriptFailed(f"{step.fault} is unavailable: {missing}")
        self._mark()
        injection = fault.draw(Random(f"{self._seed}/step/{number}"), self._view, name, step.params)
        ended = [one.fault_id for one in self._of((PAUSE.name,), step.broker)] if step.fault == KILL.name else []
        observation = self.in_force.start(self.in_force.admit(injection))
        for fault_id in ended:
            self.in_force.stop(fault_id)  # A killed process is no longer paused.
        if not observation.seen:
            raise ScriptFailed(f"the fault had no effect: {observation.text}")
        return {"observation": observation.text}

    def _revert(self, step: Revert) -> Mapping[str, object]:
        active = self._of(step.faults, step.broker)
        if not active:
            where = "anywhere" if step.broker is None else f"on n{step.broker}"
            raise ScriptFailed(f"there is no {' or '.join(step.faults)} to take back {where}")
        texts = []
        for fault_id in [one.fault_id for one in active]:
            observation = self.in_force.stop(fault_id)
            if observation is None or not observation.seen:
                raise ScriptFailed(f"not taken back: {observation.text if observation else 'gone'}")
            texts.append(observation.text)
        return {"observation": "; ".join(texts)}

    def _of(self, faults: Sequence[str], broker: int | None) -> list[_Held]:
        return [
            _Held(one.fault_id, one.injection)
            for one in self.in_force.active
            if one.injection.fault in faults and (broker is None or f"n{broker}" in one.injection.targets)
        ]

    def _wait(
        self,
        read: Callable[[], T],
        good: Callable[[T], bool],
        timeout_s: float,
        stop: Stop,
        what: str,
    ) -> Mapping[str, object]:
        deadline_s = self._clock_s() + timeout_s
        while True:
            found = read()
            if good(found):
                return {what: found}
            if self._clock_s() >= deadline_s or stop.is_set():
                raise ScriptFailed(f"after {timeout_s:g} s the {what} is {found}")
            stop.wait(POLL_S)

    def _mark(self) -> None:
        """Remember how long each event log is now."""
        for node in self._view.broker_nodes:
            done = node.run(["stat", "-c", "%s", self._view.event_log(node.name)], check=False)
            self._marks[node.name] = int(done.stdout) if done.returncode == 0 else 0

    def _await_event(self, step: AwaitEvent, stop: Stop) -> Mapping[str, object]:
        name = f"n{step.broker}"
        node = self._view.node(name)
        offset = self._marks.get(name, 0) if step.since == "last-fault" else 0
        rest = ""

        def read() -> Mapping[str, object] | None:
            nonlocal offset, rest
            try:
                text = node.run(["tail", "-c", f"+{offset + 1}", self._view.event_log(name)], check=False).stdout
            except CommandFailed:
                return None
            offset += len(text.encode())
            *lines, rest = (rest + text).split("\n")
            return next(filter(None, (_matching(line, step) for line in lines)), None)

        return self._wait(read, lambda found: found is not None, step.timeout_s, stop, f"{step.event} event")


@dataclass(frozen=True, slots=True)
class _Held:
    fault_id: int
    injection: Injection


def _matching(line: str, step: AwaitEvent) -> Mapping[str, object] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if event.get("e") != step.event or any(event.get(key) != value for key, value in step.match.items()):
        return None
    assert isinstance(event, Mapping)
    return event
