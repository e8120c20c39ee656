"""What a run needs of a system under test.

A `SystemKind` is what a name of a run file stands for; it opens a `System`, which lives as long as one run. Must not
know workloads, faults or checkers: of checkers it gives names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from harness.nodes.base import Node
from harness.plan.plan import Plan
from harness.systems.view import SystemView


class System(Protocol):
    """The system under test of one run, on nodes that are open. Its broker with id k runs on node `nk`.

    Calls block. `start_broker`, `stop_broker` and `crashed` may come from several threads at a time.
    """

    def setup(self) -> None:
        """Start every daemon; return when clients can be served. Raises SystemFailed."""
        ...

    def bootstrap(self) -> Sequence[tuple[str, str, int]]:
        """(node, host, port) of every broker, as the harness reaches it."""
        ...

    def view(self) -> SystemView:
        """What the nemesis may know and do."""
        ...

    def start_broker(self, name: str) -> None:
        """Start a node's broker and wait until it responds; does nothing when it is alive. Raises SystemFailed."""
        ...

    def stop_broker(self, name: str) -> str | None:
        """Stop a node's broker cleanly; the problem, for people, where it had to be killed. Raises SystemFailed."""
        ...

    def crashed(self) -> Sequence[tuple[str, str]]:
        """(node, end of its log) of daemons that ended though nobody was to end them; each is reported once."""
        ...

    def collect(self, evidence: Path) -> Sequence[tuple[str, str | None]]:
        """Copy each node's evidence to evidence/<node>; per node None, or why it could not be copied whole."""
        ...

    def collect_logs(self, evidence: Path) -> Sequence[tuple[str, str]]:
        """Copy the brokers' logs once more, to evidence/<node>/logs-after; (node, why) of those that failed."""
        ...

    def teardown(self) -> None:
        """End every daemon, whatever state it is in; idempotent."""
        ...


class SystemKind(Protocol):
    """One kind of system: what it can do, and how one is opened.

    event_log: whether its brokers write the event log of docs/event-log.md. checkers: names of the checkers that
    judge what a run of it leaves behind (checkers/verdicts/catalogue.py), beside those of the workload.
    """

    @property
    def event_log(self) -> bool:
        """Without event logs, white-box rules that need them do not apply to a run."""
        ...

    @property
    def checkers(self) -> Sequence[str]:
        """Names; docs/checkers.md has them all."""
        ...

    def check(self, plan: Plan) -> None:
        """Raises PlanError for a plan that this system cannot carry out, before anything is made."""
        ...

    def source(self, plan: Plan) -> Path:
        """The folder of its code, which run.json names. Raises PlanError.

        A package `broker` in it is copied to every node (`Node.broker_path`) and is part of the run's code. Nothing
        else of it is: a system brings its nodes any other package with `harness.nodes.packages.put_packages`.
        """
        ...

    def describe(self, plan: Plan) -> Mapping[str, object]:
        """What run.json says of the code beyond the run file's own values, under `system`."""
        ...

    def open(self, nodes: Mapping[str, Node], plan: Plan) -> System:
        """The system of one run, not yet started. nodes: n1 … and zk1 …, open."""
        ...
