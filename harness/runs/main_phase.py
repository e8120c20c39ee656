"""The main phase, the load or the script under the nemesis, and the heal after it.

Decides when the nemesis begins and ends. Must not know what operations or faults do. Invariant: whatever happens, every
fault is taken back before the run goes on or ends.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.operations.history import HEAL, MAIN
from harness.operations.interpreter import Interpreter
from harness.plan.plan import Plan
from harness.runs.online import OnlineJudge
from harness.runs.recording import Recording
from harness.runs.run_control import Background
from harness.systems.view import SystemView
from harness.workloads.base import Coordinated, ScriptReader, ScriptSender, Workload
from nemesis.driver import nemesis_of
from nemesis.script import Cleared, Script, Sent, Shown, Told


class MainPhase:
    """One run's main phase. `run`, then `heal`; `end` in any case. online: who judges it meanwhile, under way."""

    def __init__(
        self,
        plan: Plan,
        view: SystemView,
        workload: Workload,
        interpreter: Interpreter,
        recording: Recording,
        online: OnlineJudge | None = None,
    ) -> None:
        self._plan = plan
        self._workload = workload
        self._interpreter = interpreter
        self._recording = recording
        if isinstance(workload, Coordinated):
            view.coordinated = workload.coordinated
        nemesis = nemesis_of(plan, view, recording.history)
        self._nemesis = Background("nemesis", nemesis.run)
        self._script: Script | None = None
        if plan.script:
            client = workload.script_sender()
            reader = _Reader(client) if isinstance(client, ScriptReader) else None
            self._script = Script(
                plan.script, view, recording.history, _Sender(client), reader=reader, seed=plan.seed_drawn
            )
        recording.stats.coming = nemesis.coming if self._script is None else self._script.coming
        script_heals = [] if self._script is None else [self._script.heal_all]
        self._healers: list[Callable[[], list[str]]] = [*script_heals, nemesis.heal_all]
        self._healed = False
        self._online = online

    def run(self) -> None:
        """The load until its time limit, or the script to its end; or until the run is invalid, where the plan has it
        end by that. Raises Aborted, ScriptFailed.
        """
        script, abort = self._script, self._recording.abort
        self._recording.begin(MAIN, self._plan.workload.time_limit_s if script is None else None)
        self._nemesis.start()
        if script is not None:
            script.run(abort, self._invalid)
            abort.check()
        else:
            self._interpreter.run(self._workload.generator(), _Either(abort.is_set, self._invalid))
        if self._online is not None:
            self._online.end()
            self._note_end(self._online)

    def _invalid(self) -> bool:
        """Whether the main phase is to end because the run is invalid already."""
        wanted = self._plan.online is not None and self._plan.online.stop_on_invalid
        return wanted and self._online is not None and self._online.found is not None

    def _note_end(self, online: OnlineJudge) -> None:
        """Say in the record by what the main phase ended, if that was by what was found."""
        self._recording.attempt("online", online.raise_error)
        found = online.found
        if found is not None and self._invalid() and not self._recording.abort.is_set():
            self._recording.end_early(found, online.so_far.lines)

    def heal(self) -> None:
        """End the nemesis and take every fault back. Raises RunFailed when the nemesis failed."""
        self._recording.begin(HEAL, self._plan.limits.drain_s)
        self._nemesis.end()
        self._nemesis.raise_error()
        for heal in self._healers:
            for problem in heal():
                # `heal_all` has recorded the error. A broker that does not come back matters to the verdict and does
                # not end the run.
                self._recording.console.say(f"heal: {problem}")
        self._healed = True

    def end(self) -> None:
        """When the run ends: end the nemesis, and take back the faults that are still in force."""
        with self._recording.abort.held():
            self._nemesis.end()
        if self._nemesis.failure is not None:
            self._recording.attempt("nemesis", self._nemesis.raise_error)
        if self._recording.abort.is_set() or not self._healed:
            for heal in self._healers:
                self._recording.attempt("heal", heal)


class _Either:
    """`harness.operations.interpreter.Stop`: set once one of both is."""

    def __init__(self, one: Callable[[], bool], other: Callable[[], bool]) -> None:
        self._one, self._other = one, other

    def is_set(self) -> bool:
        """Whether no more operations are to begin."""
        return self._one() or self._other()


class _Sender:
    """`nemesis.script.Sender` over the workload's own."""

    def __init__(self, sender: ScriptSender) -> None:
        self._sender = sender

    def send(self, partition: int, count: int, acks: int, node: str | None) -> Sent:
        sent = self._sender.send(partition, count, acks, node)
        return Sent(sent.outcome, sent.values, sent.base_offset, sent.error)


class _Reader:
    """`nemesis.script.Reader` over the workload's own."""

    def __init__(self, reader: ScriptReader) -> None:
        self._reader = reader

    def poll(self, partition: int, position: int, node: str | None) -> Shown:
        return Shown(*self._reader.poll(partition, position, node))

    def list_offsets(self, partition: int, of: str, node: str | None) -> Told:
        return Told(*self._reader.list_offsets(partition, of, node))

    def delete_records(self, partition: int, before: int, node: str | None) -> Cleared:
        return Cleared(*self._reader.delete_records(partition, before, node))
