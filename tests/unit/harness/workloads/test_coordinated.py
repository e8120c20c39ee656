"""What workloads whose clients have coordinators tell the nemesis, and that their example runs aim faults there."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from harness.plan.plan import Plan
from harness.plan.run_file import parse_plan
from harness.workloads import workload_kind
from harness.workloads.base import Brokers, Coordinated, RunContext
from nemesis.catalogue import load_catalogue

EXAMPLES = Path(__file__).parents[4] / "examples" / "runs"


class _Brokers:
    """Three, which nobody connects to."""

    def bootstrap(self) -> list[tuple[str, str, int]]:
        return [(f"n{number}", "127.0.0.1", 1) for number in (1, 2, 3)]


class _Run:
    """Of which nothing is used before a run begins."""

    def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


def _plan(name: str) -> Plan:
    path = EXAMPLES / f"{name}.toml"
    text = path.read_text(encoding="utf-8").replace("[system]", "seed = 1\n\n[system]", 1)
    return parse_plan(str(path), text, load_catalogue().kinds)


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("groups", "group", ["g0", "g1"]),
        ("groups", "transaction", []),
        ("transactions", "group", ["hw-group"]),
        (
            "transactions",
            "transaction",
            [*(f"hw-txn-{number}" for number in range(6)), *(f"hw-copy-{number}" for number in range(4))],
        ),
    ],
)
def test_workload_names_what_its_clients_are_coordinated_by(name: str, kind: str, expected: list[str]) -> None:
    plan = _plan(name)
    workload = workload_kind(name).open(plan, cast(Brokers, _Brokers()), cast(RunContext, _Run()))
    assert isinstance(workload, Coordinated)
    assert list(workload.coordinated(kind)) == expected
    workload.close()


@pytest.mark.parametrize(
    ("name", "roles"),
    [("groups", {"group-coordinator"}), ("transactions", {"group-coordinator", "transaction-coordinator"})],
)
def test_example_run_aims_faults_at_its_coordinators(name: str, roles: set[str]) -> None:
    faults = _plan(name).faults
    assert faults is not None
    assert roles <= set(faults.targets)
