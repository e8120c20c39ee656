"""Logs that lose only what they may, judged by what clients saw: nothing is found. And what was planted in them is."""

from __future__ import annotations

from random import Random

import pytest
from pyspark.sql import SparkSession

from checkers.history.retention import Expiry
from checkers.verdicts.catalogue import BLACK_BOX
from checkers.verdicts.verdict import CheckResult
from tests.support.histories import TICK_NS
from tests.support.judging import Case, invalid, judge_cases
from tests.support.model_log import random_log
from tests.support.twins import TWINS, operations

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

LIVES = 12
AGE = 60
NAMES = {spec.name for spec in BLACK_BOX}
Judged = dict[str, dict[str, CheckResult]]


def _cases(kind: str, *, unclean: bool = False, age: int | None = None) -> dict[str, Case]:
    cases = {}
    for seed in range(LIVES):
        topic = f"{kind}{seed}"
        model = random_log(Random(seed), topic, seed, unclean=unclean, age=age)
        cases[topic] = Case(model.story.lines, {"znodes": model.znodes} if unclean else {})
    return cases


CLEAN = _cases("clean")
RETAINED = _cases("retained", age=AGE)
UNCLEAN = _cases("unclean", unclean=True)


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """All of them, in three passes."""
    folder = tmp_path_factory.mktemp("logs")
    (folder / "clean").mkdir()
    (folder / "retained").mkdir()
    (folder / "unclean").mkdir()
    expiry = Expiry(age_ns=AGE * TICK_NS)
    return {
        **judge_cases(spark, folder / "clean", CLEAN, evidence_of_nodes=False),
        **judge_cases(spark, folder / "retained", RETAINED, expiry=expiry, evidence_of_nodes=False),
        **judge_cases(spark, folder / "unclean", UNCLEAN, unclean=True, evidence_of_nodes=False),
    }


@pytest.mark.parametrize("topic", [*CLEAN, *RETAINED, *UNCLEAN])
def test_log_that_loses_only_what_it_may_is_accused_of_nothing(judged: Judged, topic: str) -> None:
    found = invalid(judged[topic]) & NAMES
    assert not found, {name: judged[topic][name].reasons for name in found}


def test_lives_have_what_the_rules_are_about(judged: Judged) -> None:
    """Batches with lost answers that were read, losses that acks=1 allows, ends that were told, unclean losses."""
    counts: dict[str, int] = {}
    for topic, results in judged.items():
        kind = topic.rstrip("0123456789")
        for name in ("lost-write", "vanished-read", "real-time-order", "inconsistent-offset"):
            counts[f"{kind}/{name}"] = counts.get(f"{kind}/{name}", 0) + results[name].counts.get("allowed", 0)
        for name, figure in (("int-nonmonotonic-send", "batches_read"), ("hole", "polls_judged")):
            counts[figure] = counts.get(figure, 0) + results[name].counts.get(figure, 0)
    allowed = ("clean/lost-write", "unclean/inconsistent-offset", "unclean/real-time-order", "retained/vanished-read")
    assert all(counts[name] for name in allowed), counts
    assert counts["batches_read"] > 100, counts
    assert counts["polls_judged"] > 500, counts


@pytest.mark.parametrize("topic", CLEAN)
def test_twins_accuse_it_of_nothing_either(topic: str) -> None:
    """Those that know of no acks below all, and of no resends, are left out."""
    ops = operations(CLEAN[topic].history)
    for name in ("int-nonmonotonic-send", "torn-batch", "hole", "int-poll-skip", "vanished-read", "read-above-hw"):
        assert not TWINS[name](ops), name
