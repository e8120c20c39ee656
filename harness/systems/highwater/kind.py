"""highwater as a name of run files: which code, which checkers, which plans."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harness.nodes.base import Node
from harness.nodes.compiled import compiled_modules
from harness.plan.fault_kinds import CUTS_POWER, DAMAGES_FILES
from harness.plan.plan import Plan
from harness.plan.toml_source import PlanError
from harness.systems.external_zookeeper import ExternalZooKeeper
from harness.systems.highwater.settings_check import check_settings
from harness.systems.highwater.source import broker_source
from harness.systems.highwater.system import HighwaterSystem

CHECKERS = (
    "event-log",
    "isr-znode",
    "one-leader-per-epoch",
    "controller-epoch",
    "offset-order",
    "hw-within-isr",
    "hw-monotone",
    "log-matching",
    "leader-completeness",
    "ack-committed",
    "epoch-cache",
    "log-contiguous",
    "truncation",
    "live-isr",
    "shown-below-hw",
    "log-start",
)
"""The white-box rules: what event logs, segments and ZooKeeper's transaction log must show."""

_POLICY, _SYNCED = "flush.policy", "group-commit"


class Highwater:
    """Implements `harness.systems.base.SystemKind`."""

    event_log = True
    checkers = CHECKERS

    def check(self, plan: Plan) -> None:
        """Raises PlanError where the broker's code is not there, does not take the settings, or its ZooKeeper is out of
        reach.
        """
        check_settings(plan, self.source(plan))
        _check_syncs(plan)
        if plan.nodes.zookeeper is not None and plan.nodes.kind == "docker":
            raise PlanError(
                f"nodes.zookeeper: {plan.nodes.zookeeper!r} is out of reach of docker nodes, whose network is private; "
                "use local or ssh nodes, or leave it out for a ZooKeeper of the run's own"
            )

    def source(self, plan: Plan) -> Path:
        """The folder that holds the `broker` package to run."""
        return broker_source(plan)

    def describe(self, plan: Plan) -> Mapping[str, object]:
        """Whether hot modules are compiled ones (docs/adr/0017)."""
        return {"compiled": bool(compiled_modules(self.source(plan) / "broker"))}

    def open(self, nodes: Mapping[str, Node], plan: Plan) -> HighwaterSystem:
        """One run's brokers and ZooKeeper; an ensemble that the run file names takes the place of zk1 …."""
        if plan.nodes.zookeeper is None:
            return HighwaterSystem(nodes, plan)
        external = ExternalZooKeeper(plan.nodes.zookeeper, plan.name)
        try:
            return HighwaterSystem(nodes, plan, external=external)
        except BaseException:
            external.close()
            raise


def _check_syncs(plan: Plan) -> None:
    """Raises PlanError where a power failure that is to cost nothing acknowledged would rightly cost some."""
    kinds = [kind.name for kind in plan.fault_kinds if CUTS_POWER in kind.effects and DAMAGES_FILES not in kind.effects]
    own = [plan.system.settings_of(broker).get(_POLICY) for broker in range(1, plan.nodes.brokers + 1)]
    policies = [plan.topic.config[_POLICY]] if _POLICY in plan.topic.config else own
    if kinds and any(policy != _SYNCED for policy in policies):
        raise PlanError(
            f"faults.kinds: {kinds[0]!r} costs acknowledged records unless {_POLICY} is {_SYNCED!r}; "
            f"set that, or name {kinds[0]}-unsynced"
        )
    if kinds and (plan.workload.acks != -1 or plan.workload.options.get("acks_one")):
        raise PlanError(
            f"faults.kinds: {kinds[0]!r} costs what is acknowledged with acks=1 or 0, which is synced later"
        )
