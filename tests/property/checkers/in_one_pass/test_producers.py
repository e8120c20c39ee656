"""Checkers of producers on lives of a model: valid ones, and ones with one anomaly planted, which alone is found."""

from __future__ import annotations

from random import Random

import pytest

from checkers.verdicts.verdict import CheckResult
from tests.support.judging import Case, invalid
from tests.support.producer_life import PLANTS, planted, valid
from tests.support.producer_twins import producer_order, producer_sequence, resend_offset
from tests.support.twins import operations

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

VALID = {f"producers{seed}": valid(Random(seed), f"producers{seed}") for seed in range(6)}
PLANTED = {
    f"{name}{seed}": planted(Random(seed), f"{name}{seed}", name) for name in sorted(PLANTS) for seed in range(3)
}
CASES: dict[str, Case] = {**VALID, **PLANTED}
OWN = ("resend-offset", "producer-order", "producer-sequence")

Judged = dict[str, dict[str, CheckResult]]


@pytest.mark.parametrize("topic", VALID)
def test_life_that_keeps_the_rules_is_valid(judged: Judged, topic: str) -> None:
    results = judged[topic]
    assert not invalid(results), {name: results[name].reasons for name in invalid(results)}
    assert {name: results[name].verdict for name in OWN} == dict.fromkeys(OWN, "valid")


@pytest.mark.parametrize("topic", PLANTED)
def test_planted_anomaly_is_found_and_nothing_else(judged: Judged, topic: str) -> None:
    results = judged[topic]
    found = invalid(results)
    assert found == PLANTS[topic.rstrip("0123456789")][1], {name: results[name].reasons for name in found}


@pytest.mark.parametrize("topic", CASES)
def test_checkers_of_producers_find_what_their_twins_find(judged: Judged, topic: str) -> None:
    case = CASES[topic]
    ops = operations(case.history)
    twins = {
        "resend-offset": bool(resend_offset(ops)),
        "producer-order": bool(producer_order(ops)),
        "producer-sequence": bool(producer_sequence(case.tables["batches"])),
    }
    assert {name: name in invalid(judged[topic]) for name in OWN} == twins
