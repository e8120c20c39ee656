from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from harness.operations.generator import (
    Completed,
    Context,
    Fixed,
    Generator,
    Op,
    Phases,
    Rng,
    Stagger,
    TimeLimit,
    fixed,
)
from harness.operations.interpreter import Interpreter, InvalidOp
from harness.operations.op import Completion, Invocation, Outcome
from harness.workloads.append_poll.generators import Sends, Spread

pytestmark = pytest.mark.guarantee("H4")


class Recorder:
    """Keeps what is recorded, in order."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.lines: list[tuple[str, int, Invocation, Completion | None]] = []

    def invoke(self, invocation: Invocation) -> int:
        with self.lock:
            self.lines.append(("invoke", len(self.lines), invocation, None))
            return len(self.lines) - 1

    def complete(self, index: int, invocation: Invocation, completion: Completion) -> None:
        with self.lock:
            self.lines.append(("complete", index, invocation, completion))


class FakeClient:
    """In memory; the outcome of each operation comes from a function."""

    def __init__(self, process: int, world: World) -> None:
        self.process = process
        self.world = world
        self.closed = False

    def resolve(self, op: Op) -> Invocation:
        return Invocation(self.process, op.f, "main", "t", op.partition, "n1", {"values": list(op.values)})

    def invoke(self, invocation: Invocation) -> Completion:
        assert not self.closed
        recorded = self.world.recorder.lines
        assert any(kind == "invoke" and one is invocation for kind, _, one, _ in recorded), "applied before recorded"
        return Completion(self.world.outcome(invocation), 0)

    def close(self) -> None:
        self.closed = True


class World:
    def __init__(self, outcome: Callable[[Invocation], Outcome] = lambda _invocation: "ok") -> None:
        self.recorder = Recorder()
        self.outcome = outcome
        self.clients: list[FakeClient] = []

    def open(self, process: int, thread: int) -> FakeClient:
        assert process % 4 == thread
        client = FakeClient(process, self)
        self.clients.append(client)
        return client

    def run(self, generator: Generator, stop: threading.Event | None = None) -> Interpreter:
        interpreter = Interpreter(4, self.open, self.recorder)
        interpreter.run(generator, stop or threading.Event())
        return interpreter


def ops(count: int) -> Generator:
    return fixed([Op(0, index % 4, "send", 0, (index,)) for index in range(count)])


def test_interpreter_completes_every_draw_once() -> None:
    world = World()
    world.run(ops(100))
    invoked = [index for kind, index, _, _ in world.recorder.lines if kind == "invoke"]
    completed = [index for kind, index, _, _ in world.recorder.lines if kind == "complete"]
    assert len(invoked) == 100
    assert sorted(completed) == sorted(invoked)
    assert all(client.closed for client in world.clients)


def test_interpreter_process_is_single_threaded() -> None:
    world = World()
    world.run(ops(200))
    under_way: set[int] = set()
    for kind, _, invocation, _ in world.recorder.lines:
        if kind == "invoke":
            assert invocation.process not in under_way
            under_way.add(invocation.process)
        else:
            under_way.remove(invocation.process)


def test_interpreter_info_retires_the_process_number_and_its_client() -> None:
    world = World(lambda invocation: "info" if invocation.process == 1 else "ok")
    interpreter = world.run(ops(40))
    by_process = defaultdict(list)
    for kind, _, invocation, completion in world.recorder.lines:
        if kind == "complete":
            assert completion is not None
            by_process[invocation.process].append(completion.outcome)
    assert by_process[1] == ["info"]
    assert by_process[5] == ["ok"] * 9
    assert interpreter.next_process == 6


def test_interpreter_fail_keeps_the_process() -> None:
    world = World(lambda _invocation: "fail")
    world.run(ops(40))
    assert {invocation.process for _, _, invocation, _ in world.recorder.lines} == {0, 1, 2, 3}


def test_interpreter_second_generator_goes_on_with_the_process_numbers() -> None:
    world = World(lambda _invocation: "info")
    interpreter = Interpreter(4, world.open, world.recorder)
    interpreter.run(ops(4), threading.Event())
    interpreter.run(ops(4), threading.Event())
    processes = [invocation.process for kind, _, invocation, _ in world.recorder.lines if kind == "invoke"]
    assert sorted(processes) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_interpreter_client_that_raises_ends_the_run_with_its_error() -> None:
    def outcome(invocation: Invocation) -> Outcome:
        raise RuntimeError("a bug")

    world = World(outcome)
    with pytest.raises(RuntimeError, match="a bug"):
        world.run(ops(40))


def test_interpreter_stop_ends_an_endless_generator() -> None:
    stop = threading.Event()

    def outcome(invocation: Invocation) -> Outcome:
        if len(world.recorder.lines) > 50:
            stop.set()
        return "ok"

    world = World(outcome)
    world.run(Sends(Rng(1), Spread(0, 4, 1), 1), stop)
    invoked = sum(kind == "invoke" for kind, *_ in world.recorder.lines)
    assert len(world.recorder.lines) == 2 * invoked


def test_interpreter_passes_completions_to_the_generator() -> None:
    world = World()
    world.run(Phases((Fixed((Op(0, 0, "send", 0),)), Fixed((Op(0, 1, "send", 1),)))))
    assert [(kind, invocation.partition) for kind, _, invocation, _ in world.recorder.lines] == [
        ("invoke", 0),
        ("complete", 0),
        ("invoke", 1),
        ("complete", 1),
    ]


def test_interpreter_hands_a_draw_out_no_earlier_than_its_time() -> None:
    now_ns = 0
    handed: list[tuple[int, int]] = []

    def clock_ns() -> int:
        # Time passes with every look at the clock.
        nonlocal now_ns
        now_ns += 1_000_000
        return now_ns

    class Watching(FakeClient):
        def resolve(self, op: Op) -> Invocation:
            handed.append((op.time_ns, now_ns))
            return super().resolve(op)

    world = World()
    interpreter = Interpreter(2, lambda process, _thread: Watching(process, world), world.recorder, clock_ns=clock_ns)
    limited = TimeLimit(200_000_000, Stagger(Rng(1), 10_000_000, Sends(Rng(2), Spread(0, 2, 1), 1)))
    interpreter.run(limited, threading.Event())
    assert len(handed) > 5
    assert all(due_ns <= at_ns for due_ns, at_ns in handed)


@dataclass(frozen=True, slots=True)
class Always:
    """The same op again and again, whatever the context."""

    op: Op
    left: int = 10_000

    def next(self, context: Context) -> tuple[Op, Generator] | None:
        return (self.op, Always(self.op, self.left - 1)) if self.left else None

    def update(self, completed: Completed) -> Generator:
        return self


@pytest.mark.parametrize(("thread", "state", "free"), [(2, "busy", (0, 1, 3)), (4, "not there", (0, 1, 2, 3))])
def test_interpreter_refuses_op_of_a_thread_that_is_not_free_by_op_and_context(
    thread: int, state: str, free: tuple[int, ...]
) -> None:
    op = Op(0, thread, "send", 0, (7,))
    world = World()
    with pytest.raises(InvalidOp) as raised:
        # Carried out again and again, until the thread is still busy when the op is drawn.
        world.run(Always(op))
    text = str(raised.value)
    for part in (f"thread {thread}, which is {state}", repr(op), f"free={free}, threads=4"):
        assert part in text
    assert bool(world.recorder.lines) == (state == "busy")
