"""A run over a scripted broker: what the run is given instead of nodes and a system."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.operations.history import read_lines
from harness.plan.plan import Plan
from harness.plan.run_file import parse_plan
from harness.runs.run import Ended, Options, run
from harness.runs.store import RunStore
from tests.integration.harness.fake_broker import FakeBroker
from tests.support.fake_cluster import FakeView

TEXT = """
name = "flow"
seed = 3
[nodes]
brokers = 1
[topic]
partitions = 2
replication_factor = 1
[workload]
rate = 100.0
time_limit_s = 1
[limits]
drain_s = 60
setup_s = 60
"""


class World:
    """What the run is given instead of nodes and a system; `calls` says in which order it was used."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.broker = FakeBroker(partitions=0)
        self.on: dict[str, Callable[[], None]] = {}
        self.nodes: dict[str, object] = {}
        self.crashes: list[tuple[str, str]] = []
        self.logs_missing: list[tuple[str, str]] = []

    def call(self, name: str) -> None:
        self.calls.append(name)
        if name in self.on:
            self.on[name]()

    def open(self) -> None:
        self.call("open")

    def close(self) -> None:
        self.call("close")

    def setup(self) -> None:
        self.call("setup")

    def bootstrap(self) -> list[tuple[str, str, int]]:
        return [("n1", "127.0.0.1", self.broker.port)]

    def view(self) -> FakeView:
        world = self

        class View(FakeView):
            def restart_broker(self, node: str) -> None:
                world.call(f"restart {node}")
                super().restart_broker(node)

        return View()

    def collect(self, evidence: Path) -> list[tuple[str, str | None]]:
        self.call("collect")
        return [("n1", None), ("zk1", "no such folder")]

    def collect_logs(self, evidence: Path) -> list[tuple[str, str]]:
        self.call("collect logs")
        return self.logs_missing

    def crashed(self) -> list[tuple[str, str]]:
        told, self.crashes = self.crashes, []
        return told

    def stop_broker(self, node: str) -> None:
        raise AssertionError("the only broker leads already")

    def start_broker(self, node: str) -> None:
        raise AssertionError("nothing was stopped")

    def teardown(self) -> None:
        self.call("teardown")


def carry_out(tmp_path: Path, text: str = TEXT) -> Ended:
    plan: Plan = parse_plan("flow.toml", text)
    return run(plan, Options(tmp_path / "store", ("highwater", "test"), analysis=False))


def phases(store: RunStore) -> list[object]:
    return [line["phase"] for line in read_lines(store.history) if line["f"] == "phase"]
