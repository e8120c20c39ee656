"""Nights without a cluster: runners that say what came of a run, and the night over them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.nightly.jobs import Job, Result
from harness.nightly.night import Settings, run_night
from harness.nightly.runner import Runner as AnyRunner
from harness.nightly.sources import read
from harness.runs.store import create, write_json
from harness.runs.trouble import LAB


class Runner:
    """Makes a judged run without a cluster; `codes` by (name, seed), 0 otherwise."""

    def __init__(
        self,
        codes: dict[tuple[str, int], int] | None = None,
        die_after: int | None = None,
        found: tuple[str, ...] = (),
        not_fired: Callable[[Job], tuple[str, ...]] = lambda _: (),
        trouble: str = LAB,
    ) -> None:
        self.codes = codes or {}
        self.trouble = trouble
        self.ended = False
        self.not_fired = not_fired
        self.found = found
        self.die_after = die_after
        self.ran: list[tuple[str, int]] = []

    def __call__(self, job: Job, out: Path) -> Result:
        if self.die_after is not None and len(self.ran) == self.die_after:
            raise KeyboardInterrupt
        self.ran.append((job.name, job.seed))
        code = self.codes.get((job.name, job.seed), 0)
        verdict = {0: "valid", 1: "invalid", 2: "unknown"}.get(code)
        run_dir = None
        if verdict is not None:
            run = create(out / "store", job.name)
            checkers = {"lost-write": {"verdict": verdict, "reasons": ["why"], "witnesses": []}}
            write_json(run.results, {"verdict": verdict, "sentence": f"{verdict} <it>", "checkers": checkers})
            run_dir = str(run.path)
        trouble = self.trouble if verdict is None else None
        return Result(code, 1.0, f"{verdict} <it>", run_dir, self.found, self.not_fired(job), trouble)

    def end(self) -> None:
        self.ended = True


class Function:
    """A runner that is one function."""

    def __init__(self, carry_out: Callable[[Job, Path], Result]) -> None:
        self._carry_out = carry_out

    def __call__(self, job: Job, out: Path) -> Result:
        return self._carry_out(job, out)

    def end(self) -> None:
        """Nothing is under way."""


def nights(files: list[Path], out: Path, runner: AnyRunner, settings: Settings, said: list[str] | None = None) -> int:
    return run_night(read(files, out), out, settings, runner, say=(said if said is not None else []).append)


def night(files: Path, runner: AnyRunner, *, resume: bool = False, seeds: int = 2) -> int:
    return nights([files], files.parent / "out", runner, Settings(seeds, resume))
