"""Checkers of transactions against their plain twins: on lives of a model, and on one anomaly planted in each."""

from __future__ import annotations

import copy
from random import Random

import pytest
from pyspark.sql import SparkSession

from checkers.verdicts.transactions import TRANSACTIONS
from checkers.verdicts.verdict import CheckResult
from tests.support.judging import Case, invalid, judge_cases
from tests.support.model_transactions import random_transactions
from tests.support.transaction_damage import DAMAGE
from tests.support.transaction_twins import TWINS

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

VALID = 10
OF_EACH = 3
COMPANY = {"precommitted-read": {"last-stable-offset"}}
"""What was shown too early a last stable offset told to be decided."""
Judged = dict[str, dict[str, CheckResult]]


def _cases() -> tuple[dict[str, Case], dict[str, str]]:
    """(topic → case, topic → what was planted)."""
    valid = {f"valid{seed}": random_transactions(Random(seed), f"valid{seed}") for seed in range(VALID)}
    cases = {topic: Case(model.story.lines) for topic, model in valid.items()}
    planted = {}
    for name, ways in DAMAGE.items():
        for nth in range(OF_EACH * len(ways)):
            topic = f"{name}-{nth}"
            lines = copy.deepcopy(random_transactions(Random(1000 + nth), topic).story.lines)
            ways[nth % len(ways)](Random(nth), lines)
            cases[topic] = Case(lines)
            planted[topic] = name
    return cases, planted


CASES, PLANTED = _cases()


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    return judge_cases(spark, tmp_path_factory.mktemp("transactions"), CASES, transactions=True)


@pytest.mark.parametrize("topic", [topic for topic in CASES if topic not in PLANTED])
def test_a_model_s_life_is_valid_in_every_respect(judged: Judged, topic: str) -> None:
    results = judged[topic]
    assert not invalid(results), {name: results[name].reasons for name in invalid(results)}
    short = {spec.name: results[spec.name].reasons for spec in TRANSACTIONS if results[spec.name].verdict != "valid"}
    assert not short


@pytest.mark.parametrize("topic", PLANTED)
def test_exactly_what_was_planted_is_found(judged: Judged, topic: str) -> None:
    results = judged[topic]
    expected = {PLANTED[topic], *COMPANY.get(PLANTED[topic], ())}
    assert invalid(results) == expected, {name: results[name].reasons for name in invalid(results)}


@pytest.mark.parametrize("topic", CASES)
def test_every_checker_finds_what_its_twin_finds(judged: Judged, topic: str) -> None:
    twins = {name for name, twin in TWINS.items() if twin(CASES[topic].history)}
    assert invalid(judged[topic]) & set(TWINS) == twins
