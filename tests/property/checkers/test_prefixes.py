"""What is found in a prefix of a history stands in the whole: no cut of a valid one is invalid, and what a cut of an
invalid one shows the whole shows too, by the same checker or by what `checkers.verdicts.prefixes` says it becomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random

import pytest
from pyspark.sql import SparkSession

from checkers.verdicts.prefixes import CLOSED, Doubt, may_judge
from tests.golden.make import names as golden_names
from tests.golden.make import read as golden
from tests.support.judging import Case, invalid, judge_cases
from tests.support.model_log import random_log
from tests.support.model_transactions import random_transactions
from tests.support.prefixes import Prefix, found_in
from tests.support.wrong_answers import with_wrong_answers

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

NOTHING: frozenset[Doubt] = frozenset()
UNCLEAN, DELETIONS = frozenset[Doubt]({"unclean"}), frozenset[Doubt]({"deletions"})
TRANSACTIONS = frozenset[Doubt]({"transactions"})
SIZES = [pytest.param(1, id="small"), pytest.param(12, id="large", marks=pytest.mark.nightly)]
AGE = 30


def _every_cut(topic: str, case: Case, doubts: frozenset[Doubt], step: int = 1) -> Iterator[Prefix]:
    """Or one in so many, and the whole of it."""
    for cut in sorted({*range(1, len(case.history), step), len(case.history)}):
        yield Prefix(f"{topic}.{cut}", case.history, cut, doubts)


def _valid(size: int) -> Iterator[Prefix]:
    for seed in range(size):
        log = random_log(Random(seed), "clean", seed, steps=60)
        yield from _every_cut(f"clean{seed}", Case(log.story.lines), NOTHING)
        log = random_log(Random(seed), "retained", seed, age=AGE)
        yield from _every_cut(f"retained{seed}", Case(log.story.lines), DELETIONS, 19)
        log = random_log(Random(seed), "unclean", seed, unclean=True)
        yield from _every_cut(f"unclean{seed}", Case(log.story.lines), UNCLEAN, 19)
        model = random_transactions(Random(seed), "txn", 30)
        yield from _every_cut(f"txn{seed}", Case(model.story.lines), TRANSACTIONS, 7)


@pytest.mark.parametrize("size", SIZES)
def test_no_prefix_of_a_history_that_keeps_its_promises_is_invalid(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    prefixes = list(_valid(size))
    found = found_in(spark, tmp_path_factory.mktemp("valid"), prefixes)
    assert not {topic: names for topic, names in found.items() if names}


def _wrong(size: int) -> Mapping[str, Case]:
    """Random lives with one to three wrong answers; all go on for a while behind those."""
    cases = {}
    for seed in range(16 * size):
        rng = Random(1000 + seed)
        log = random_log(rng, "wrong", seed, steps=rng.randint(30, 90))
        cases[f"wrong{seed}"] = Case(with_wrong_answers(log.story.lines, rng, rng.randint(1, 3)))
    return cases


def _goldens() -> Mapping[str, Case]:
    """Those that show what a prefix may show, with acks=all, on a log that loses nothing by right."""
    bad = [(anomaly, case) for anomaly, case in golden_names() if anomaly in CLOSED and case.startswith("bad")]
    return {f"{anomaly}-{case}": golden(anomaly, case) for anomaly, case in bad}


def _doubts(case: Case) -> frozenset[Doubt]:
    return TRANSACTIONS if any("txn" in line for line in case.history) else NOTHING


@pytest.mark.parametrize("size", SIZES)
def test_what_a_prefix_shows_the_whole_history_shows(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, size: int
) -> None:
    wrong, stored = _wrong(size), _goldens()
    whole = judge_cases(spark, tmp_path_factory.mktemp("whole"), {**wrong, **stored}, transactions=True)
    prefixes = [one for topic, case in wrong.items() for one in _every_cut(topic, case, NOTHING, 11)]
    prefixes += [one for topic, case in stored.items() for one in _every_cut(topic, case, _doubts(case))]
    found = found_in(spark, tmp_path_factory.mktemp("prefixes"), prefixes)
    seen: set[str] = set()
    revoked = []
    for prefix in prefixes:
        topic = prefix.topic.rpartition(".")[0]
        in_whole = invalid(whole[topic])
        for name in found[prefix.topic]:
            if not in_whole & {name, *CLOSED[name].becomes}:
                revoked.append((prefix.topic, name, in_whole))
            seen.add(name)
    assert not revoked
    # Neither would show anything otherwise.
    assert seen == set(CLOSED)
    for topic, case in stored.items():
        if may_judge(topic.partition("-bad")[0], _doubts(case)):
            assert topic.partition("-bad")[0] in found[f"{topic}.{len(case.history)}"], topic
