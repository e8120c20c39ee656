"""Shrinks the runs of a night that failed: reads what happened in them, has smaller ones run, keeps the smallest.

Decides which runs are shrunk, how often a smaller one gets to fail, and where the smallest is written. Must not know
which smaller runs there are (`shrink`) nor how one is carried out (`runner`).
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.nightly.jobs import Job, Result
from harness.nightly.runner import Runner
from harness.nightly.shrink import Fired, Shrunk, shrink
from harness.plan.plan import Plan
from harness.plan.run_file import render
from harness.runs.analysis import INVALID, build_report
from harness.runs.run_files import load
from harness.runs.store import RunStore, StoreError, read_json, write_json
from harness.runs.trouble import SIGNAL
from nemesis.driver import mix_of, scheduled
from nemesis.schedule import slots

FILE = "shrunk.json"
TRIES = 2
"""How often a smaller run may come out well before it counts as one that does not fail."""


@dataclass(frozen=True, slots=True)
class Smallest:
    """What is left of a run that failed. command: runs it again. faults, of: how many are left of how many."""

    name: str
    seed: int
    command: str
    faults: int
    of: int
    time_limit_s: float
    clients: int
    tried: int
    whole: bool

    @property
    def text(self) -> str:
        """A sentence for console, summary and report."""
        limit = "" if self.whole else "; there was no time for all that is smaller"
        return (
            f"{self.name} seed {self.seed} still fails with {self.faults} of {self.of} faults, {self.time_limit_s:g} s "
            f"of load and {self.clients} clients, after {self.tried} smaller runs{limit}: {self.command}"
        )


def shrink_failed(
    failed: Sequence[tuple[Job, Result]],
    out: Path,
    runner: Runner,
    go_on: Callable[[], bool],
    say: Callable[[str], None],
) -> list[Smallest]:
    """The smallest of each run that failed and was not expected to; a script is its author's, and stays as it is."""
    found = []
    for job, result in failed:
        if result.run_dir is None or not go_on():
            continue
        plan = replace(load(Path(job.file)), seed=job.seed)
        if plan.script or plan.expect != "valid":
            continue
        say(f"shrinking {job.name} seed {job.seed}")
        try:
            fired = fired_in(plan, Path(result.run_dir))
        except (StoreError, OSError, ValueError) as error:
            say(f"{job.name} seed {job.seed} cannot be shrunk: {error}")
            continue
        made = _Smaller(job, frozenset(result.found), out / "shrunk", runner)
        smallest = _kept(job, shrink(plan, fired, made.fails, go_on), len(fired), out / "shrunk", Path(result.run_dir))
        say(smallest.text)
        found.append(smallest)
    return found


def fired_in(plan: Plan, run_dir: Path) -> list[Fired]:
    """The faults of the plan's schedule that the run saw take effect. Raises StoreError, OSError, ValueError."""
    unavailable = read_json(run_dir / "results.json").get("unavailable")
    mix = mix_of(plan)
    if mix is None:
        return []
    missing = unavailable if isinstance(unavailable, Mapping) else {}
    planned = slots(replace(mix, kinds=[kind for kind in mix.kinds if kind.name not in missing]), plan.seed_drawn)
    ends = {scheduled(slot): slot.end_s for slot in planned}
    numbers: set[int] = set()
    with (run_dir / "history.jsonl").open(encoding="utf-8") as history:
        for line in history:
            if '"kind":"nemesis"' in line:
                # The last line of a run that was killed may be torn.
                with suppress(ValueError, RecursionError):
                    numbers.update(_number(json.loads(line)))
    return [Fired(number, ends[number]) for number in sorted(numbers & ends.keys())]


def _number(line: Mapping[str, object]) -> list[int]:
    """The number in the schedule of a fault that took effect; nothing for other lines."""
    if line.get("f") != "start" or not line.get("observed"):
        return []
    number = json.loads(str(line.get("params_json") or "{}")).get("scheduled")
    return [number] if isinstance(number, int) else []


class _Smaller:
    """Smaller runs of one that failed."""

    def __init__(self, job: Job, found: frozenset[str], out: Path, runner: Runner) -> None:
        self._job = job
        self._found = found
        self._out = out
        self._runner = runner

    def fails(self, plan: Plan) -> bool:
        """Whether a checker that failed before fails again, in one of a few tries."""
        text = render(replace(plan, name=f"{self._job.name}-smaller"))
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        folder = self._out / "tried"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self._job.name}-{self._job.seed}-{digest}.toml"
        path.write_text(text, encoding="utf-8")
        job = replace(self._job, file=str(path), name=f"{self._job.name}-smaller", digest=digest)
        for _ in range(TRIES):
            result = self._runner(job, self._out)
            if result.exit_code == INVALID and not self._found.isdisjoint(result.found):
                return True
            if result.trouble == SIGNAL:
                break
        return False


def _kept(job: Job, shrunk: Shrunk, fired: int, out: Path, run_dir: Path) -> Smallest:
    """Write the smallest run file, say so in the run's folder, and make its report again."""
    out.mkdir(parents=True, exist_ok=True)
    path = (out / f"{job.name}-{job.seed}.toml").resolve()
    path.write_text(render(shrunk.plan), encoding="utf-8")
    plan = shrunk.plan
    only = None if plan.faults is None else plan.faults.only
    smallest = Smallest(
        job.name,
        job.seed,
        shlex.join(["highwater", "test", str(path), "--seed", str(job.seed)]),
        fired if only is None else len(only),
        fired,
        plan.workload.time_limit_s,
        plan.workload.producers + plan.workload.consumers,
        shrunk.tried,
        shrunk.whole,
    )
    write_json(run_dir / FILE, {"schema": 1, "command": smallest.command, "text": smallest.text})
    build_report(RunStore(run_dir))
    return smallest
