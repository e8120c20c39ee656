"""A run, from plan to verdict: nodes, system, load under faults, heal, final phase, evidence, checkers.

Decides the order, and what an error means: a run that cannot be carried out is a crash (255), never a verdict. Systems
and workloads are found by the names in the run file. Invariants: whatever happens, faults are taken back, nodes are
closed and the history is kept; the history says of each phase how it came out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import SystemRandom
from typing import NamedTuple

from harness.operations.history import SETUP
from harness.operations.interpreter import Interpreter
from harness.plan.plan import Plan
from harness.plan.run_file import render
from harness.runs.analysis import Judged
from harness.runs.checker_names import check_checker_names
from harness.runs.checkers_process import HERE, Where
from harness.runs.cluster import Cluster, open_cluster
from harness.runs.early_judge import EarlyJudge
from harness.runs.judging import Judgement, judge
from harness.runs.main_phase import MainPhase
from harness.runs.online import OnlineJudge
from harness.runs.recording import Recording
from harness.runs.room import said
from harness.runs.run_control import Abort, Aborted, Background, RunFailed
from harness.runs.store import RunStore, StoreError, create
from harness.runs.trouble import ANALYSIS, SIGNAL, trouble_of
from harness.systems import system_kind
from harness.workloads import prepared, remade_topics, workload_kind
from harness.workloads.base import FinalTools, Workload, WorkloadFailed
from nemesis.script import ScriptFailed
from nemesis.script_steps import parse_script

SETUP_LEAST_S = 5.0
"""The least time that the workload's setup gets, however long the system's took."""


@dataclass(frozen=True, slots=True)
class Options:
    """store: root of all runs. argv: the command, for run.json. checkers: where they run. analysis: False leaves the
    judging out.
    """

    store: Path
    argv: tuple[str, ...]
    checkers: Where = HERE
    analysis: bool = True


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. judged: None when it was not judged; problem: why, for people."""

    store: RunStore
    exit_code: int
    judged: Judged | None
    problem: str | None


def draw_seed() -> int:
    """A seed for a run whose file and command line name none."""
    return SystemRandom().randrange(2**31)


def check(plan: Plan) -> None:
    """Let system, workload and nemesis check a plan, and look their checkers up. Raises PlanError."""
    system_kind(plan.system.kind).check(plan)
    workload_kind(plan.workload.kind).check(plan)
    check_checker_names(plan)
    parse_script(plan.script, plan.nodes.brokers, plan.topic.partitions)


def run(plan: Plan, options: Options) -> Ended:
    """Carry a plan out and have it judged. Plan errors and a store that cannot be written are raised before anything
    is made.
    """
    if plan.seed is None:
        plan = plan.with_overrides(seed=draw_seed())
    plan = replace(plan, remade_topics=tuple(remade_topics(plan)))
    prepared(plan)
    store = create(options.store, plan.name)
    abort = Abort()
    try:
        store.run_toml.write_text(render(plan), encoding="utf-8")
        recording = Recording(plan, options.argv, store, abort, judged=options.analysis)
    except OSError as error:
        raise StoreError(f"{said(error, store.path)}; nothing was begun") from error
    recording.console.start()
    early = EarlyJudge(options.checkers, store)
    with abort.held(), abort.on_signals(recording.history.main_thread_inside), early:
        broken = _record(plan, recording, early.start if options.analysis else lambda: None)
        problem = recording.close(*broken)
        if options.analysis:
            found = judge(recording, problem, plan.limits.analysis_s, early.ready)
            if found.judged is None and problem is None:
                recording.note_trouble(SIGNAL if abort.is_set() else ANALYSIS)
        else:
            found = Judgement(None, problem)
        recording.console.close()
    return Ended(store, found.exit_code, found.judged, found.problem)


class _Broken(NamedTuple):
    """What a run broke off for, for people, and whose trouble it is (`trouble`); None where it did not."""

    problem: str | None
    trouble: str | None


def _record(plan: Plan, recording: Recording, healed: Callable[[], None]) -> _Broken:
    """Everything up to the end of the history. Never raises. healed: called before the final phase."""
    online = None if plan.online is None else OnlineJudge(recording.store, plan.online, recording.stats.so_far)
    try:
        with recording.abort.released():
            recording.begin(SETUP, plan.limits.setup_s)
            if online is not None:
                online.start()
            with open_cluster(plan, recording) as cluster:
                _test(plan, recording, cluster, online, healed)
    except Aborted:
        return _Broken(f"aborted by {recording.abort.reason}", SIGNAL)
    except (RunFailed, ScriptFailed) as error:
        text = f"the run could not be carried out: {error}"
        return _Broken(recording.noted(error, text), trouble_of(error))
    except Exception as error:
        text = f"the run crashed in phase {recording.history.phase}: {type(error).__name__}: {error}"
        return _Broken(recording.noted(error, text), trouble_of(error))
    finally:
        if online is not None:
            online.end()
    return _Broken(None, None)


def _test(
    plan: Plan, recording: Recording, cluster: Cluster, online: OnlineJudge | None, healed: Callable[[], None]
) -> None:
    """The phases of a run on a cluster that is open."""
    began_s = time.monotonic()
    system, evidence = cluster.system, cluster.evidence
    system.setup()
    with ExitStack() as ends:
        workload = workload_kind(plan.workload.kind).open(plan, system, recording)
        ends.callback(workload.close)
        try:
            workload.setup(max(SETUP_LEAST_S, plan.limits.setup_s - (time.monotonic() - began_s)))
        except WorkloadFailed as error:
            raise RunFailed(f"setup: {error}") from error
        interpreter = Interpreter(workload.threads, workload.open_client, recording.history)
        main_phase = MainPhase(plan, system.view(), workload, interpreter, recording, online)
        ends.callback(main_phase.end)
        ends.enter_context(_observed(workload, recording))
        main_phase.run()
        main_phase.heal()
        healed()
        tools = FinalTools(lambda generator: interpreter.run(generator, recording.abort), evidence.collect)
        workload.final_phase(tools)
        # For a workload whose final phase has not collected the evidence itself.
        evidence.collect()
        evidence.note_crashes()
        evidence.collect_logs()


@contextmanager
def _observed(workload: Workload, recording: Recording) -> Iterator[None]:
    """The workload's observers, on threads of their own; an error of one is recorded."""
    observers = [Background(name, work) for name, work in workload.observers().items()]
    for observer in observers:
        observer.start()
    try:
        yield
    finally:
        for observer in observers:
            observer.end()
            if observer.failure is not None:
                recording.attempt("observer", observer.raise_error, name=observer.name)
