"""Code that blocks, in virtual time: each fiber has a thread of its own, and exactly one of all threads runs.

A broker's calls to ZooKeeper block the thread that makes them. Here that thread hands over to the scheduler, which
wakes it once the response is there. A process that is killed has its fibers end where they wait.
"""

from __future__ import annotations

import threading
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from tests.support.simulation.scheduler import Scheduler

_own = threading.local()


class FiberEnded(BaseException):
    """The process of this fiber is dead."""


class Process:
    """What a kill ends and a pause holds up: fibers, and calls of the scheduler on its behalf."""

    def __init__(self, scheduler: Scheduler, name: str) -> None:
        self.scheduler = scheduler
        self.name = name
        self.alive = True
        self.resumes_ms = 0.0
        """Until then it does nothing: a stop signal, a long pause of the machine."""
        self._fibers: list[Fiber] = []
        self._deferred: deque[Callable[[], None]] = deque()
        """What became due in a pause, in order."""

    def call(self, delay_ms: float, call: Callable[[], None]) -> None:
        """Once, unless the process is dead by then; after its pause where it is paused."""

        def due() -> None:
            if self._deferred or self.resumes_ms > self.scheduler.now_ms:
                self._deferred.append(call)
                if len(self._deferred) == 1:
                    self._look_again()
            elif self.alive:
                call()

        self.scheduler.at(delay_ms, due)

    def _look_again(self) -> None:
        self.scheduler.at(max(self.resumes_ms - self.scheduler.now_ms, 0.0) + 0.001, self._resume)

    def _resume(self) -> None:
        if self.resumes_ms > self.scheduler.now_ms:
            self._look_again()
            return
        while self._deferred and self.alive:
            self._deferred[0]()
            self._deferred.popleft()

    def start(self, name: str, body: Callable[[], None]) -> Fiber:
        """Run body as a fiber, soon."""
        fiber = Fiber(self, name, body)
        self._fibers.append(fiber)
        self.call(0.0, fiber.switch)
        return fiber

    def kill(self) -> None:
        """Nothing that it would do happens any more."""
        self.alive = False
        for fiber in self._fibers:
            fiber.kill()


class Fiber:
    """One thread of a process."""

    current: Fiber | None = None
    """Which runs now; None: the scheduler."""

    def __init__(self, process: Process, name: str, body: Callable[[], None]) -> None:
        self.process = process
        self.name = name
        self.done = False
        self._body = body
        self._killed = False
        self._go = threading.Lock()
        self._go.acquire()
        self._back = threading.Lock()
        self._back.acquire()
        self._thread: threading.Thread | None = None

    def switch(self) -> None:
        """Let it run until it waits or ends. Called by the scheduler alone."""
        assert Fiber.current is None
        if self.done:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        Fiber.current = self
        self._go.release()
        self._back.acquire()
        Fiber.current = None

    def kill(self) -> None:
        self._killed = True
        if self._thread is None:
            self.done = True
        elif not self.done:
            self.switch()
            assert self.done
            self._thread.join()

    def wait(self) -> None:
        """Hand over to the scheduler until somebody switches here. Called on the fiber's thread."""
        if not self._killed:
            self._back.release()
            self._go.acquire()
        if self._killed:
            raise FiberEnded

    def _run(self) -> None:
        take_part(True)
        self._go.acquire()
        try:
            if not self._killed:
                self._body()
        except FiberEnded:
            pass
        except BaseException:
            self.process.scheduler.failures.append(f"{self.process.name}: {self.name}:\n{traceback.format_exc()}")
        self.done = True
        self._back.release()


def take_part(yes: bool) -> None:
    """Whether the thread that calls this is of the simulation from now on: the scheduler's and each fiber's are."""
    _own.takes_part = yes


def takes_part() -> bool:
    """Other threads of this Python, which tests before have left, live on in their own time."""
    return getattr(_own, "takes_part", False)


def running() -> Fiber:
    """The fiber that calls this."""
    fiber = Fiber.current
    assert fiber is not None, "only a fiber may block: the loop's thread must not"
    return fiber


def sleep_ms(ms: float) -> None:
    """Let virtual time pass for the fiber that calls this."""
    fiber = running()
    fiber.process.call(ms, fiber.switch)
    fiber.wait()


class Future:
    """What a call to ZooKeeper will bring. Satisfies what the client uses of kazoo's AsyncResult."""

    def __init__(self) -> None:
        self.done = False
        self._value: Any = None
        self._error: Exception | None = None
        self._waiting: list[Fiber] = []

    def set(self, value: Any) -> None:
        self._finish(value, None)

    def fail(self, error: Exception) -> None:
        self._finish(None, error)

    def _finish(self, value: Any, error: Exception | None) -> None:
        if self.done:
            return
        self.done, self._value, self._error = True, value, error
        for fiber in self._waiting:
            fiber.process.call(0.0, fiber.switch)

    def get(self) -> Any:
        """Wait for it; raises what it failed with."""
        if not self.done:
            fiber = running()
            self._waiting.append(fiber)
            fiber.wait()
        if self._error is not None:
            raise self._error
        return self._value


class FiberLock:
    """A lock for which fibers wait in virtual time."""

    def __init__(self) -> None:
        self._held = False
        self._released = Future()

    def __enter__(self) -> None:
        while self._held:
            self._released.get()
        self._held = True

    def __exit__(self, *_: object) -> None:
        self._held = False
        released, self._released = self._released, Future()
        released.set(None)
