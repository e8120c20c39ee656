"""A worker that carries its tasks out when a test says so."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.fake_loop import FakeLoop


class StepWorker:
    """Runs its tasks when told."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], None]] = []

    def submit(self, name: str, task: Callable[[], None]) -> None:
        self.tasks.append(task)

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


def step(loop: FakeLoop, worker: StepWorker) -> None:
    for _ in range(4):
        worker.run()
        loop.run_soon()
