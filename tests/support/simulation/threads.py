"""A broker's threads as fibers: the controller's, the one for ZooKeeper, those for files."""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.log.environment import Done, Job
from broker.runtime.controller.event_manager import ControllerEventManager, Event
from tests.support.simulation.fibers import Fiber, FiberEnded, Process, running
from tests.support.simulation.loop import SimulatedLoop

_HAND_OVER_MS: Final = 0.3
_FILE_WORK_MS: Final = (0.2, 5.0)


class _Wakeup:
    """One fiber that waits until there is something to do."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._waiting: Fiber | None = None

    def wait(self, ms: float | None) -> None:
        fiber = self._waiting = running()
        if ms is not None:
            self._process.call(ms, lambda: self._switch(fiber))
        fiber.wait()

    def wake(self) -> None:
        """Some time soon."""
        fiber = self._waiting
        if fiber is not None:
            self._process.call(self._process.scheduler.rng.random() * _HAND_OVER_MS, lambda: self._switch(fiber))

    def _switch(self, fiber: Fiber) -> None:
        if self._waiting is fiber:
            self._waiting = None
            fiber.switch()


class SimulatedEventManager(ControllerEventManager):
    """The controller's queue, with its thread a fiber."""

    def __init__(self, process: Process, *callbacks: Callable[..., None]) -> None:
        super().__init__(*callbacks)
        self._process = process
        self._wakeup = _Wakeup(process)

    def start(self) -> None:
        self._process.start("controller", self._run)

    def join(self, wait_s: float) -> None:
        """Its broker ends all fibers."""

    def put(self, name: str, event: Event) -> None:
        super().put(name, event)
        self._wakeup.wake()

    def _next(self) -> tuple[str, Event]:
        while True:
            now_ms = self._process.scheduler.now_ms
            while (due := self._delayed.pop_due(now_ms)) is not None:
                due()
            if not self._events.empty():
                return self._events.get_nowait()
            next_ms = self._delayed.next_ms()
            self._wakeup.wait(None if next_ms is None else next_ms - now_ms + _HAND_OVER_MS)

    def _run(self) -> None:
        try:
            self._handle_events()
        except FiberEnded:
            raise
        except BaseException as error:
            self._process.scheduler.failures.append(f"the controller's thread ended:\n{traceback.format_exc()}")
            self._on_broken(error)


class SimulatedWorker:
    """Satisfies what the control plane uses of ZkWorker."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._wakeup = _Wakeup(process)
        self._tasks: deque[tuple[str, Callable[[], None]]] = deque()

    def start(self) -> None:
        self._process.start("zk-worker", self._run)

    def submit(self, name: str, task: Callable[[], None]) -> None:
        self._tasks.append((name, task))
        self._wakeup.wake()

    def stop(self) -> None:
        """Its broker ends all fibers."""

    def _run(self) -> None:
        while True:
            while not self._tasks:
                self._wakeup.wait(None)
            name, task = self._tasks.popleft()
            try:
                task()
            except Exception:
                self._process.scheduler.failures.append(f"{name} failed:\n{traceback.format_exc()}")


class FileWork:
    """In place of the threads for files: jobs are done in the order of the calls, each some time later."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self._free_ms = 0.0

    def run(self, job: Job, done: Done) -> None:
        process = self._loop.process
        now_ms = process.scheduler.now_ms
        self._free_ms = max(self._free_ms, now_ms + process.scheduler.rng.uniform(*_FILE_WORK_MS))
        process.call(self._free_ms - now_ms, lambda: _do(self._loop, job, done))

    def close(self) -> None:
        """A kill ends what is under way."""


class FlushWork:
    """The same by log dir, in any order: what is flushed is on disk when `done` is told, and not before."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def run(self, directory: str, job: Job, done: Done) -> None:
        process = self._loop.process
        process.call(process.scheduler.rng.uniform(*_FILE_WORK_MS), lambda: _do(self._loop, job, done))

    def close(self) -> None:
        """A kill ends what is under way."""


def _do(loop: SimulatedLoop, job: Job, done: Done) -> None:
    error: OSError | None = None
    try:
        job()
    except OSError as raised:
        error = raised
    loop.call_soon(lambda: done(error))
