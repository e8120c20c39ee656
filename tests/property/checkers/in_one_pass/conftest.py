"""The cases of all files of this folder in one Spark pass: nearly all that a pass costs is planning, not the cases.

Each file here has `CASES`, the cases that it asks about: topics that no other file has and, of cases with evidence,
nodes and versions of ZooKeeper that no other has. Nothing here asks about a rule that goes by a time of the run as a
whole, such as its first drain, which is then another file's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

from checkers.verdicts.verdict import CheckResult
from tests.support.judging import Case, judge_cases

HERE = Path(__file__).parent


def modules_of(session: pytest.Session) -> Iterator[ModuleType]:
    """The files of this folder of which tests are to run."""
    collected = (item for item in session.items if isinstance(item, pytest.Function) and item.path.parent == HERE)
    yield from dict.fromkeys(item.module for item in collected)


def _brokers(case: Case) -> set[str]:
    return {row["node"] for table in ("events", "batches", "checkpoints") for row in case.tables.get(table, ())}


def together(of: Mapping[str, Mapping[str, Case]]) -> dict[str, Case]:
    """All files' cases. of: file → its cases. Raises ValueError where two have the same topic, or the same node."""
    owners: dict[str, str] = {}
    cases: dict[str, Case] = {}
    for file, mine in of.items():
        names = set(mine).union(*map(_brokers, mine.values()))
        for name in names:
            if owners.setdefault(name, file) != file:
                raise ValueError(f"{file} and {owners[name]} both have {name}")
        cases |= mine
    return cases


@pytest.fixture(scope="session")
def judged(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, CheckResult]]:
    """Topic → checker → result."""
    cases = together({module.__name__: module.CASES for module in modules_of(request.session)})
    return judge_cases(spark, tmp_path_factory.mktemp("in-one-pass"), cases)
