"""The interpreter: the one impure part that carries a generator's ops out on real threads and clients.

Decides when an op is handed to its thread, and process numbers. Must not know what operations mean, nor sockets.
Invariants: an operation's invocation is recorded before its client invokes it; every invocation gets at most one
completion; a process whose operation came out `info` never invokes again: its thread goes on as process + threads
with a new client.
After Jepsen's jepsen.generator.interpreter.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from harness.operations.generator import PENDING, Completed, Context, Generator, Op
from harness.operations.op import Completion, Invocation

_IDLE_WAIT_S = 0.05


class Client(Protocol):
    """One process's client, used by one thread. It is closed after an `info`, and at the end."""

    def resolve(self, op: Op) -> Invocation:
        """What is about to be sent. May look up metadata and connect; sends nothing of the operation itself."""
        ...

    def invoke(self, invocation: Invocation) -> Completion:
        """Send one request, at most once, and say how it came out. Raises for bugs only."""
        ...

    def close(self) -> None:
        """Close connections. Called once, by the thread that used the client."""
        ...


class Stop(Protocol):
    """What says that no more operations are to begin; a threading.Event does."""

    def is_set(self) -> bool:
        """True from some time on for good."""
        ...


class OpRecorder(Protocol):
    """The part of a history that operations need."""

    def invoke(self, invocation: Invocation) -> int:
        """Record an invocation before it is sent; returns its index."""
        ...

    def complete(self, index: int, invocation: Invocation, completion: Completion) -> None:
        """Record how the invocation of that index came out."""
        ...


class InvalidOp(Exception):
    """A generator has a bug: its op names a thread that is not free. The text names op and context."""


OpenClient = Callable[[int, int], Client]
"""(process, thread) → a new client."""


@dataclass(frozen=True, slots=True)
class _Result:
    thread: int
    completed: Completed | None
    error: BaseException | None = None


class Interpreter:
    """Runs generators, one after the other, with process numbers that are never used twice."""

    def __init__(
        self,
        threads: int,
        open_client: OpenClient,
        recorder: OpRecorder,
        *,
        first_process: int = 0,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        assert threads > 0
        self.threads = threads
        self._open_client = open_client
        self._recorder = recorder
        self._clock_ns = clock_ns
        self._processes = [first_process + thread for thread in range(threads)]
        self._results: queue.SimpleQueue[_Result] = queue.SimpleQueue()

    @property
    def next_process(self) -> int:
        """No process of this interpreter has this number or a higher one."""
        return max(self._processes) + 1

    def run(self, generator: Generator, stop: Stop) -> None:
        """Carry a generator out until it is exhausted or `stop` is set, and every operation under way has come out.

        Raises what a client or the recorder raised, and InvalidOp.
        """
        inboxes: list[queue.SimpleQueue[Op | None]] = [queue.SimpleQueue() for _ in range(self.threads)]
        workers = [
            threading.Thread(target=self._work, args=(thread, inbox), name=f"client-{thread}", daemon=True)
            for thread, inbox in enumerate(inboxes)
        ]
        for worker in workers:
            worker.start()
        busy: set[int] = set()
        error: BaseException | None = None
        origin_ns = self._clock_ns()
        try:
            while not stop.is_set():
                now_ns = self._clock_ns() - origin_ns
                free = tuple(thread for thread in range(self.threads) if thread not in busy)
                context = Context(now_ns, free, self.threads)
                found = generator.next(context)
                if found is None:
                    break
                if found == PENDING:
                    wait_s = _IDLE_WAIT_S
                else:
                    op, after = found
                    _check_free(op, context)
                    if op.time_ns <= now_ns:
                        generator = after
                        busy.add(op.thread)
                        inboxes[op.thread].put(op)
                        # Results are taken in without waiting, so that free threads are known.
                        wait_s = 0.0
                    else:
                        wait_s = min((op.time_ns - now_ns) / 1e9, _IDLE_WAIT_S)
                result = self._take(wait_s)
                while result is not None:
                    busy.discard(result.thread)
                    if result.error is not None:
                        raise result.error
                    assert result.completed is not None
                    generator = generator.update(result.completed)
                    result = self._take(0.0)
        finally:
            for inbox in inboxes:
                inbox.put(None)
            for worker in workers:
                worker.join()
            left = self._take(0.0)
            while left is not None:
                error = error or left.error
                left = self._take(0.0)
        if error is not None:
            raise error

    def _take(self, wait_s: float) -> _Result | None:
        try:
            return self._results.get(timeout=wait_s) if wait_s > 0 else self._results.get_nowait()
        except queue.Empty:
            return None

    def _work(self, thread: int, inbox: queue.SimpleQueue[Op | None]) -> None:
        client: Client | None = None
        try:
            while (op := inbox.get()) is not None:
                if client is None:
                    client = self._open_client(self._processes[thread], thread)
                invocation = client.resolve(op)
                index = self._recorder.invoke(invocation)
                completion = client.invoke(invocation)
                self._recorder.complete(index, invocation, completion)
                if completion.outcome == "info":
                    client.close()
                    client = None
                    self._processes[thread] += self.threads
                self._results.put(_Result(thread, Completed(op, completion.outcome, completion.error, index)))
        except BaseException as error:
            self._results.put(_Result(thread, None, error))
        finally:
            if client is not None:
                client.close()


def _check_free(op: Op, context: Context) -> None:
    """Raises InvalidOp. Source: jepsen.generator/validate."""
    if op.thread not in context.free:
        state = "busy" if 0 <= op.thread < context.threads else "not there"
        raise InvalidOp(f"the generator's op names thread {op.thread}, which is {state}: {op} in {context}")
