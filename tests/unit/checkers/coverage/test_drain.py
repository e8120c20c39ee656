"""Which readings a run must have for a verdict of valid, of which topics."""

from __future__ import annotations

import pytest

from checkers.coverage.drain import drain_gaps
from checkers.history.run_info import NodeInfo, RunInfo
from checkers.verdicts.verdict import Row
from tests.support.run_info import run_info

pytestmark = pytest.mark.guarantee("H8")

NODES = (NodeInfo("n1", "broker", 1, 0), NodeInfo("n2", "broker", 2, 0))
REPLICAS = {"hw-0": [1, 2], "hw-out-0": [1, 2]}


def info(*checkers: str) -> RunInfo:
    return run_info(nodes=NODES, checkers=frozenset(checkers), replication_factor=2)


def read(p: str, checker: str, *without: str) -> list[Row]:
    """All figures of a partition that was read by both readers, but for some."""
    names = [f"drained:{reader}:{node}" for reader in ("wire", "confluent") for node in ("n1", "n2")]
    names += [f"healed:{reader}" for reader in ("wire", "confluent")]
    return [Row(checker, "figure", p, 1, detail=name, figure=1.0) for name in names if name not in without]


@pytest.mark.parametrize("checker", ["final-drain", "last-value"])
def test_every_replica_is_read_as_leader_whichever_checker_judges_the_readings(checker: str) -> None:
    assert drain_gaps(info(checker), read("hw-0", checker), REPLICAS) == []
    assert drain_gaps(info(checker), read("hw-0", checker, "drained:wire:n2", "healed:confluent"), REPLICAS) == [
        "drain of hw-0: the real client did not read the healed cluster to its end before its brokers were stopped",
        "drain of hw-0: the wire reader did not read it to the end with n2 as leader",
    ]


def test_outputs_are_read_from_every_replica_too() -> None:
    of_inputs = read("hw-0", "final-drain")
    of_outputs = read("hw-out-0", "final-drain", "drained:wire:n2")
    assert drain_gaps(info("final-drain"), of_inputs + of_outputs, REPLICAS, ["hw-out-0"]) == [
        "drain of hw-out-0: the wire reader did not read it to the end with n2 as leader"
    ]


def test_workload_without_readings_needs_none() -> None:
    assert drain_gaps(info("isr-znode"), [], REPLICAS) == []
