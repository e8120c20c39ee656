"""What one run writes and shows: its folder, its history, its console.

Decides process numbers of drains and scripts, and how an error at the end of a run is kept. Must not know what a run
does. Used by the main thread, which alone sees signals, where not said otherwise.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from harness.operations.history import History
from harness.plan.plan import Plan
from harness.runs import run_info
from harness.runs.console import Console, Stats
from harness.runs.digests import digests
from harness.runs.expected_phases import expected_phases
from harness.runs.online import Found
from harness.runs.room import lacking_room, said
from harness.runs.run_control import Abort
from harness.runs.store import RunStore, StoreError

DRAIN_PROCESSES = 1_000_000_000
"""Process numbers from here on belong to drains and scripts; the load's stay below."""


class Recording:
    """The record of a run under way; implements `harness.workloads.base.RunContext`."""

    def __init__(self, plan: Plan, argv: Sequence[str], store: RunStore, abort: Abort, *, judged: bool = True) -> None:
        """Writes run.json and opens the history. argv: the command, for run.json; judged: whether the run will be."""
        self.store = store
        self.abort = abort
        self.no_room = False
        """Whether the run broke off because nothing more can be written."""
        self._ended_early: dict[str, object] | None = None
        self.stats = Stats(expected_phases(plan, judged=judged))
        self.console = Console(f"highwater {plan.name} seed {plan.seed_drawn}", self.stats)
        origin_ns = time.monotonic_ns()
        store.write_run(run_info.run_json(plan, argv, origin_ns, time.time_ns(), store.run_toml))
        self._history = History(store.history, origin_ns, on_line=self.stats.on_line)
        self._processes = itertools.count(DRAIN_PROCESSES)

    @property
    def history(self) -> History:
        """The run's history, open until `close`."""
        return self._history

    def begin(self, phase: str, limit_s: float | None = None) -> None:
        """Begin a phase of the history, shown for at most limit_s. Raises Aborted."""
        self.abort.check()
        self.stats.phase(phase, limit_s)
        self._history.begin_phase(phase)

    def show(self, text: str, limit_s: float | None = None) -> None:
        """Show on the console what goes on within a phase, for limit_s at most from now on."""
        self.stats.doing(text, limit_s)
        self.console.say(text)

    def check(self) -> None:
        """Raises Aborted after a signal."""
        self.abort.check()

    def sleep(self, seconds: float) -> None:
        """A pause. Raises Aborted after a signal."""
        self.abort.sleep(seconds)

    def next_process(self) -> int:
        """A process number that nobody has used; safe to call from many threads. Raises Aborted after a signal."""
        self.abort.check()
        return next(self._processes)

    def end_early(self, found: Found, lines: int) -> None:
        """Record that the main phase ends because of what was found in the first so many lines."""
        early: dict[str, Any] = {
            "checker": found.checker,
            "found": found.detail,
            "topic_partition": found.partition,
            "operations": list(found.operations),
            "at_ns": round(found.at_s * 1e9),
            "lines": lines,
        }
        self._ended_early = early
        self._history.harness("ended-early", **early)
        self.console.say(f"the main phase ends early: {found.checker}: {found.detail}")

    def attempt(self, what: str, act: Callable[[], object], name: str | None = None) -> None:
        """Part of ending a run: an error is shown and recorded in a line of f `what`, and the rest goes on; a signal
        does not interrupt it. name: of what was at work, where the line's kind has several.
        """
        with self.abort.held():
            try:
                act()
            except Exception as error:
                self.console.say(f"{name or what}: {error}")
                text = f"{f'{name}: ' if name else ''}{type(error).__name__}: {error}"
                # `close` reports a history that cannot be written.
                with contextlib.suppress(OSError):
                    self._history.harness(what, error=text)

    def close(self, problem: str | None, trouble: str | None) -> str | None:
        """Complete the history and run.json. Returns problem, or why the record itself is incomplete.

        trouble: whose the problem is (`harness.runs.trouble`).
        """
        try:
            self._history.close()
            lines = self._history.lines
            changes: dict[str, object] = {"finished": problem is None, "aborted": problem, "lines": lines}
            changes["recorded"] = digests(self.store)
            changes |= {} if self._ended_early is None else {"ended_early": self._ended_early}
            changes |= {} if trouble is None else {"trouble": trouble}
            self.store.update_run(**changes)
        except Exception as error:
            return problem or self.noted(error, f"the history could not be completed: {error}")
        return problem

    def noted(self, error: BaseException, text: str) -> str:
        """text, which tells of an error that ends the run; below what is full where it came for want of space."""
        if lacking_room(error) is None:
            return text
        self.no_room = True
        return f"{said(error, self.store.path)}\n{text}"

    def note_trouble(self, trouble: str) -> None:
        """Say in run.json what kept a recorded run from a verdict; a run.json that cannot be written stays as it is."""
        with contextlib.suppress(OSError, StoreError):
            self.store.update_run(trouble=trouble)
