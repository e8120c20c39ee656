"""The toy workload: one process sends single values, another polls; at the end a third reads everything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.clients.connection import Address, Connection
from harness.clients.fetch import fetch_one, poll_fields
from harness.clients.requests import EARLIEST, list_offset, produce_one
from harness.operations.generator import Completed, Context, Generator, Op, Pending, TimeLimit, fixed
from harness.operations.op import Completion, Invocation
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError
from harness.workloads.base import Brokers, FinalTools, RunContext, ScriptSender

TIMEOUT_NS = 5_000_000_000


class ToyClient:
    """Implements `harness.operations.interpreter.Client`."""

    def __init__(self, process: int, topic: str, address: Address, phase: Callable[[], str]) -> None:
        self._process, self._topic, self._phase = process, topic, phase
        self._connection = Connection(address, f"toy-{process}")
        self._position: int | None = 0

    def resolve(self, op: Op) -> Invocation:
        self._connection.connect(time.monotonic_ns() + TIMEOUT_NS)
        fields: dict[str, object] = {"values": list(op.values), "acks": -1, "sentinel": op.sentinel}
        if op.f == "poll":
            if self._position is None:
                self._position = self._earliest()
            fields = {
                "position": self._position,
                "leader_epoch": 5,
                "isolation": 0,
                "reader": "wire",
                "consumer": f"toy-{self._process}",
                "max_bytes": 1 << 20,
            }
        return Invocation(self._process, op.f, self._phase(), self._topic, op.partition, "n1", fields)

    def invoke(self, invocation: Invocation) -> Completion:
        deadline_ns = time.monotonic_ns() + TIMEOUT_NS
        if invocation.f == "send":
            values = invocation.fields["values"]
            assert isinstance(values, list)
            sent = produce_one(
                self._connection,
                self._topic,
                0,
                values,
                acks=-1,
                record_bytes=60,
                timeout_ms=1000,
                deadline_ns=deadline_ns,
            )
            assert sent.error is None
            return Completion("ok", sent.at_ns, None, {"base_offset": sent.base_offset})
        position = invocation.fields["position"]
        assert isinstance(position, int)
        polled = fetch_one(
            self._connection,
            self._topic,
            0,
            position=position,
            leader_epoch=5,
            isolation=0,
            max_wait_ms=0,
            max_bytes=1 << 20,
            deadline_ns=deadline_ns,
        )
        if polled.error == "OFFSET_OUT_OF_RANGE":
            self._position = None
            return Completion("fail", polled.at_ns, polled.error, {})
        assert polled.error is None
        self._position = polled.next_position
        return Completion("ok", polled.at_ns, None, poll_fields(polled))

    def _earliest(self) -> int:
        deadline_ns = time.monotonic_ns() + TIMEOUT_NS
        listed = list_offset(
            self._connection,
            self._topic,
            0,
            timestamp=EARLIEST,
            isolation=0,
            leader_epoch=5,
            deadline_ns=deadline_ns,
        )
        assert listed.error is None
        return listed.offset

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True, slots=True)
class InTurn:
    """A send by thread 0, then a poll by thread 1, and so on, the next at the earliest after a pause."""

    left: int
    pause_ns: int
    number: int = 0

    def next(self, context: Context) -> tuple[Op, Generator] | Pending | None:
        if not self.left:
            return None
        thread = self.number % 2
        if len(context.free) < context.threads:
            return "pending"
        values = (self.number,) if thread == 0 else ()
        op = Op(self.number * self.pause_ns, thread, "poll" if thread else "send", 0, values)
        return op, InTurn(self.left - 1, self.pause_ns, self.number + 1)

    def update(self, completed: Completed) -> Generator:
        return self


class ToyRun:
    """Implements `harness.workloads.base.Workload`."""

    threads = 2

    def __init__(self, plan: Plan, brokers: Brokers, run: RunContext) -> None:
        self._plan, self._run = plan, run
        ((_, host, port),) = brokers.bootstrap()
        self._address = Address(host, port)

    def setup(self, limit_s: float) -> None:
        self._run.show(f"toy workload with {limit_s:g} s to begin")

    def observers(self) -> Mapping[str, Callable[[threading.Event], None]]:
        return {"toy observer": self._observe}

    def _observe(self, stop: threading.Event) -> None:
        self._run.history.harness("toy-observer")
        stop.wait()

    def generator(self) -> Generator:
        sends, pause_ms = self._plan.workload.options["sends"], self._plan.workload.options.get("pause_ms", 0)
        assert isinstance(sends, int)
        assert isinstance(pause_ms, int)
        return TimeLimit(int(self._plan.workload.time_limit_s * 1e9), InTurn(2 * sends, pause_ms * 1_000_000))

    def open_client(self, process: int, thread: int) -> ToyClient:
        return ToyClient(process, self._plan.topic.name, self._address, lambda: self._run.history.phase)

    def script_sender(self) -> ScriptSender:
        raise AssertionError("`check` refuses scripts")

    def final_phase(self, tools: FinalTools) -> None:
        self._run.begin("final")
        tools.carry_out(fixed([Op(0, 0, "send", 0, (10**12,), sentinel=True), Op(0, 1, "poll", 0)]))
        tools.collect_evidence()

    def close(self) -> None: ...


class Toy:
    """Implements `harness.workloads.base.WorkloadKind`."""

    checkers = ("lost-write", "duplicate", "fabricated-value")

    def check(self, plan: Plan) -> None:
        if plan.script:
            raise PlanError("script: the workload `turns` has no sends for scripts")
        sends = plan.workload.options.get("sends")
        if not isinstance(sends, int) or sends < 1:
            where = plan.workload.options_where.get("sends", "workload.options")
            raise PlanError(f"{where}: workload.options.sends: {sends!r} is not a whole number from 1 on")

    def open(self, plan: Plan, brokers: Brokers, run: RunContext) -> ToyRun:
        return ToyRun(plan, brokers, run)
