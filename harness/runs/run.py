"""A run, from plan to verdict: nodes, system, topic, load under faults, heal, final writes, drain, evidence,
rotation, checkers.

Decides the order, the time-outs and what an error means: a run that cannot be carried out is a crash (255), never a
verdict.
The one module beside the command line that plugs the nemesis into the harness. Invariants: whatever happens, faults are
taken back, nodes are closed and the history is kept; the history says of each phase how it came out.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from harness.clients.admin import Admin, AdminError, has_all_brokers, has_full_isrs, has_leaders
from harness.clients.connection import Address
from harness.clients.router import Cluster
from harness.clients.sampler import Sampler
from harness.nodes.base import NodeSet
from harness.nodes.factory import make_nodes
from harness.operations.history import HEAL, MAIN, SETUP, History
from harness.operations.interpreter import Interpreter
from harness.plan.plan import Plan
from harness.plan.run_file import render
from harness.plan.toml_source import PlanError
from harness.runs import run_info
from harness.runs.analysis import CRASH, INVALID, AnalysisFailed, Judged, analyze
from harness.runs.console import ANALYSIS, Console, Stats
from harness.runs.final_phase import Ending
from harness.runs.run_control import Abort, Aborted, Background, RunFailed
from harness.runs.store import RunStore, create
from harness.systems.external_zookeeper import ExternalZooKeeper
from harness.systems.highwater import HighwaterSystem
from harness.workloads import make_workload
from harness.workloads.append_poll.client import Process, ProcessSettings, Shared
from harness.workloads.append_poll.drain import Drain
from harness.workloads.append_poll.script_sender import ScriptSender
from nemesis.driver import nemesis_of
from nemesis.script import Script, ScriptFailed, Sent
from nemesis.script_steps import parse_script

DRAIN_PROCESSES = 1_000_000_000
"""Process numbers from here on belong to drains and scripts; the load's stay below."""


@dataclass(frozen=True, slots=True)
class Options:
    """store: root of all runs. argv: the command, for run.json. analysis: False leaves the judging out."""

    store: Path
    argv: tuple[str, ...]
    spark_master: str | None = None
    analysis: bool = True


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended. judged: None when it was not judged; problem: why, for people."""

    store: RunStore
    exit_code: int
    judged: Judged | None
    problem: str | None


def draw_seed() -> int:
    return SystemRandom().randrange(2**31)


def check(plan: Plan) -> None:
    """What of a plan can be wrong beyond its own values. Raises PlanError."""
    run_info.broker_source(plan)
    if plan.nodes.zookeeper is not None and plan.nodes.kind == "docker":
        raise PlanError(
            f"nodes.zookeeper: {plan.nodes.zookeeper!r} is out of reach of docker nodes, whose network is private; "
            "use local or ssh nodes, or leave it out for a ZooKeeper of the run's own"
        )
    parse_script(plan.script, plan.nodes.brokers, plan.topic.partitions)


def run(plan: Plan, options: Options) -> Ended:
    """Carry a plan out and have it judged. Plan errors and a store that cannot be written are raised before anything
    is made.
    """
    if plan.seed is None:
        plan = plan.with_overrides(seed=draw_seed())
    store = create(options.store, plan.name)
    store.run_toml.write_text(render(plan), encoding="utf-8")
    return _Run(plan, options, store).carry_out()


class _Run:
    """The state of one run. Used by the main thread, which alone sees signals."""

    def __init__(self, plan: Plan, options: Options, store: RunStore) -> None:
        self._plan = plan
        self._options = options
        self._store = store
        self._abort = Abort()
        self._stats = Stats()
        self._console = Console(f"highwater {plan.name} seed {plan.seed_drawn}", self._stats)
        self._origin_ns = time.monotonic_ns()
        store.write_run(run_info.run_json(plan, options.argv, self._origin_ns, time.time_ns(), store.run_toml))
        self._history = History(store.history, self._origin_ns, on_line=self._stats.on_line)
        self._shared = Shared()
        self._drain_processes = itertools.count(DRAIN_PROCESSES)
        self._background: list[Background] = []
        self._collected = False

    def carry_out(self) -> Ended:
        """The whole run. Never raises for what goes wrong in it."""
        self._console.start()
        problem: str | None = None
        with self._abort.on_signals(self._history.main_thread_inside):
            try:
                self._record()
            except Aborted:
                problem = f"aborted by {self._abort.reason}"
            except (RunFailed, ScriptFailed) as error:
                problem = f"the run could not be carried out: {error}"
            except Exception as error:
                problem = f"the run crashed in phase {self._history.phase}: {type(error).__name__}: {error}"
            problem = self._close_history(problem)
            judged: Judged | None = None
            if self._options.analysis and not self._abort.is_set() and (problem is None or self._stats.operations):
                try:
                    # What was recorded before a run broke off may already prove a loss.
                    judged = self._judge()
                except Aborted:
                    problem = problem or f"analysis aborted by {self._abort.reason}; the run is recorded"
                except AnalysisFailed as error:
                    problem = problem or f"the run is recorded, but could not be judged: {error}"
            self._console.close()
        if judged is None:
            code = 0 if problem is None else CRASH
        else:
            code = judged.exit_code if problem is None or judged.exit_code == INVALID else CRASH
        return Ended(self._store, code, judged, problem)

    def _close_history(self, problem: str | None) -> str | None:
        try:
            self._history.close()
            changes: dict[str, object] = {"finished": problem is None, "aborted": problem}
            self._store.update_run(**changes)
        except Exception as error:
            return problem or f"the history could not be completed: {error}"
        return problem

    def _judge(self) -> Judged:
        self._phase_shown(ANALYSIS, self._plan.limits.analysis_s)
        return analyze(
            self._store,
            self._plan.limits.analysis_s,
            spark_master=self._options.spark_master,
            say=self._console.say,
        )

    def _phase_shown(self, name: str, limit_s: float | None = None) -> None:
        self._stats.phase(name, limit_s)
        self._console.say(f"phase {name}")

    def _begin(self, phase: str, limit_s: float | None = None) -> None:
        self._abort.check()
        self._history.begin_phase(phase)
        self._phase_shown(phase, limit_s)

    def _take_drain_process(self) -> int:
        self._abort.check()
        return next(self._drain_processes)

    def _record(self) -> None:
        """Everything up to the end of the history."""
        plan = self._plan
        self._begin(SETUP, plan.limits.setup_s)
        nodes = self._make_nodes()
        try:
            nodes.open()
            self._store.update_run(nodes=run_info.nodes(plan, nodes.nodes))
            if plan.nodes.zookeeper is None:
                self._on_nodes(HighwaterSystem(nodes.nodes, plan))
                return
            ensemble = ExternalZooKeeper(plan.nodes.zookeeper, plan.name)
            try:
                self._on_nodes(HighwaterSystem(nodes.nodes, plan, zookeeper_connect=ensemble.connect))
            finally:
                self._last("external ZooKeeper", ensemble.close)
        finally:
            self._last("close nodes", nodes.close)

    def _on_nodes(self, system: HighwaterSystem) -> None:
        try:
            self._with_system(system)
        except Exception:
            # What the nodes say of it, before they are gone.
            collect = self._collect_logs if self._collected else self._collect
            self._last("evidence", lambda: collect(system))
            raise
        finally:
            self._last("teardown", system.teardown)

    def _collect(self, system: HighwaterSystem) -> None:
        """Copy evidence, once."""
        if self._collected:
            return
        self._collected = True
        self._say_crashes(system)
        self._phase_shown("evidence")
        for node, missing in system.collect(self._store.evidence):
            self._history.harness("evidence", node=node, error=missing)

    def _collect_logs(self, system: HighwaterSystem) -> None:
        """What the brokers logged since, while they led in turn and were stopped for it."""
        for node, missing in system.collect_logs(self._store.evidence):
            self._history.harness("logs", node=node, error=missing)

    def _say_crashes(self, system: HighwaterSystem) -> None:
        """What the nemesis says of the load, for the time after it."""
        for node, log_tail in system.crashed():
            self._history.harness("crash", error="ended though no fault was to end it", node=node, log_tail=log_tail)

    def _make_nodes(self) -> NodeSet:
        plan = self._plan
        known = plan.nodes.known_hosts
        return make_nodes(
            plan.nodes.kind,
            plan.nodes.brokers,
            plan.nodes.zookeepers,
            run_dir=self._store.path,
            source=run_info.broker_source(plan),
            hosts=plan.nodes.hosts,
            known_hosts=None if known is None else Path(known).expanduser(),
        )

    def _last(self, what: str, act: Callable[[], object]) -> None:
        """Part of ending: an error is recorded, and the rest goes on."""
        try:
            act()
        except Exception as error:
            self._console.say(f"{what}: {error}")
            # A history that cannot be written is what `_close_history` tells.
            with contextlib.suppress(OSError):
                self._history.harness(what, error=f"{type(error).__name__}: {error}")

    def _with_system(self, system: HighwaterSystem) -> None:
        limits, topic = self._plan.limits, self._plan.topic
        began_s = time.monotonic()
        system.setup()
        addresses = {run_info.broker_id(node): Address(host, port) for node, host, port in system.bootstrap()}
        names = {run_info.broker_id(node): node for node, _, _ in system.bootstrap()}
        cluster = Cluster(topic.name, addresses, names)
        admin = Admin(cluster, sleep=self._abort.sleep)
        left_s = max(5.0, limits.setup_s - (time.monotonic() - began_s))
        try:
            admin.wait("brokers, known to each other", has_all_brokers(cluster), left_s, every_broker=True)
            admin.create_topic(topic, left_s)
            admin.wait("leaders of the new topic, known to every broker", has_leaders(topic), left_s, every_broker=True)
            admin.wait("full ISRs of the new topic", has_full_isrs(topic), left_s)
        except AdminError as error:
            raise RunFailed(f"setup: {error}") from None
        self._background.append(Background("sampler", Sampler(cluster, self._history).run))
        self._background[-1].start()
        nemesis = nemesis_of(self._plan, system.view(), self._history)
        watching = Background("nemesis", nemesis.run)
        self._background.append(watching)
        interpreter = self._interpreter(cluster)
        script = self._script(system, admin)
        healers = [*([script.heal_all] if script is not None else []), nemesis.heal_all]
        try:
            self._begin(MAIN, self._plan.workload.time_limit_s if script is None else None)
            watching.start()
            if script is not None:
                script.run(self._abort)
                self._abort.check()
            else:
                interpreter.run(make_workload(self._plan).main(), self._abort)
            self._heal(watching, healers)
            sentinels = self._shared.sentinels
            drain = Drain(cluster, self._history, self._take_drain_process, sentinels, sleep=self._abort.sleep)
            Ending(
                self._plan, self._history, self._abort, admin, interpreter, drain, self._begin, self._phase_shown
            ).carry_out(system, lambda: self._collect(system))
            self._say_crashes(system)
            self._collect_logs(system)
        finally:
            for worker in self._background:
                worker.end()
                if worker.failure is not None:
                    self._last(worker.name, worker.raise_error)
            if self._abort.is_set() or not watching.healed:
                for heal in healers:
                    self._last("heal", heal)
            admin.close()

    def _interpreter(self, cluster: Cluster) -> Interpreter:
        workload = self._plan.workload
        settings = ProcessSettings(
            cluster,
            workload.acks,
            workload.record_bytes,
            workload.request_timeout_ms,
            self._plan.seed_drawn,
        )

        def open_client(process: int, thread: int) -> Process:
            return Process(process, thread, settings, self._shared, lambda: self._history.phase)

        return Interpreter(make_workload(self._plan).threads, open_client, self._history)

    def _script(self, system: HighwaterSystem, admin: Admin) -> Script | None:
        if not self._plan.script:
            return None
        workload = self._plan.workload
        sender = ScriptSender(
            admin,
            self._history,
            self._take_drain_process,
            record_bytes=workload.record_bytes,
            request_timeout_ms=workload.request_timeout_ms,
            sleep=self._abort.sleep,
        )
        return Script(self._plan.script, system.view(), self._history, _Sender(sender), seed=self._plan.seed_drawn)

    def _heal(self, watching: Background, healers: list[Callable[[], list[str]]]) -> None:
        self._begin(HEAL, self._plan.limits.drain_s)
        watching.end()
        watching.raise_error()
        for heal in healers:
            for problem in heal():
                # Recorded by who tried. A broker that does not come back is for the verdict, not for the harness.
                self._console.say(f"heal: {problem}")
        watching.healed = True


class _Sender:
    """`nemesis.script.Sender` over the harness's client."""

    def __init__(self, sender: ScriptSender) -> None:
        self._sender = sender

    def send(self, partition: int, count: int, acks: int, node: str | None) -> Sent:
        sent = self._sender.send(partition, count, acks, node)
        return Sent(sent.outcome, sent.values, sent.base_offset, sent.error)
