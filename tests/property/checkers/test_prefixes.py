"""What is found in a prefix of a history stands in the whole: no cut of a valid one is invalid, and what a cut of an
invalid one shows the whole shows too, by the same checker or by what `checkers.verdicts.prefixes` says it becomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
NOT_BEFORE_THE_END = {
    "aborted-read-bad-resent": "the batch might have been sent once more, and taken",
    "duplicate-bad-in-two-lives": "what two lives of a topic have in common is looked for when the run is over",
    "lost-write-bad-committed": "acks=1 counts as no answer",
    "lost-write-bad-committed-by-follower": "acks=1 counts as no answer",
    "lost-write-bad-committed-later": "acks=1 counts as no answer",
    "lost-write-bad-without-offset": "where it must stand is not known, and that nobody reads it a drain shows",
}
"""Stored histories whose finding needs more than their lines before the end."""


def _every_cut(topic: str, case: Case, doubts: frozenset[Doubt], step: int = 1) -> Iterator[Prefix]:
    """Or one in so many, and the whole of it."""
    for cut in sorted({*range(1, len(case.history), step), len(case.history)}):
        yield Prefix(f"{topic}.{cut}", case.history, cut, doubts)


def _valid(size: int) -> Iterator[Prefix]:
    for seed in range(size):
        log = random_log(Random(seed), "clean", seed, steps=60)
        yield from _every_cut(f"clean{seed}", Case(log.story.lines), NOTHING, 3)
        log = random_log(Random(seed), "retained", seed, age=AGE)
        yield from _every_cut(f"retained{seed}", Case(log.story.lines), DELETIONS, 19)
        log = random_log(Random(seed), "unclean", seed, unclean=True)
        yield from _every_cut(f"unclean{seed}", Case(log.story.lines), UNCLEAN, 19)
        model = random_transactions(Random(seed), "txn", 30)
        yield from _every_cut(f"txn{seed}", Case(model.story.lines), TRANSACTIONS, 7)


def _wrong(size: int) -> Mapping[str, Case]:
    """Random lives with one to three wrong answers; all go on for a while behind those."""
    cases = {}
    for seed in range(8 * size):
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


@dataclass(frozen=True)
class Judged:
    """valid, wrong: prefixes of histories that keep every promise, and that do not. found: by topic of a prefix; whole:
    what is invalid in a whole history that is wrong.
    """

    valid: list[Prefix]
    wrong: list[Prefix]
    stored: Mapping[str, Case]
    found: Mapping[str, set[str]]
    whole: Mapping[str, set[str]]


@pytest.fixture(scope="module", params=SIZES)
def judged(request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """All prefixes in one pass, all whole histories in another."""
    wrong, stored, valid = _wrong(request.param), _goldens(), list(_valid(request.param))
    prefixes = [one for topic, case in wrong.items() for one in _every_cut(topic, case, NOTHING, 11)]
    prefixes += [one for topic, case in stored.items() for one in _every_cut(topic, case, _doubts(case))]
    found = found_in(spark, tmp_path_factory.mktemp("prefixes"), [*valid, *prefixes])
    folder, cases = tmp_path_factory.mktemp("whole"), {**wrong, **stored}
    whole = judge_cases(spark, folder, cases, transactions=True, evidence_of_nodes=False)
    return Judged(valid, prefixes, stored, found, {topic: invalid(results) for topic, results in whole.items()})


def test_no_prefix_of_a_history_that_keeps_its_promises_is_invalid(judged: Judged) -> None:
    assert not {one.topic: names for one in judged.valid if (names := judged.found[one.topic])}


def test_what_a_prefix_shows_the_whole_history_shows(judged: Judged) -> None:
    revoked = {
        (one.topic, name)
        for one in judged.wrong
        for name in judged.found[one.topic]
        if not judged.whole[one.topic.rpartition(".")[0]] & {name, *CLOSED[name].becomes}
    }
    assert not revoked


def test_every_checker_that_may_judge_a_prefix_finds_what_it_is_for(judged: Judged) -> None:
    """Nothing would be shown of one that is silent."""
    assert {name for one in judged.wrong for name in judged.found[one.topic]} == set(CLOSED)
    missed = {
        topic
        for topic, case in judged.stored.items()
        if (name := topic.partition("-bad")[0]) not in judged.found[f"{topic}.{len(case.history)}"]
        if may_judge(name, _doubts(case))
    }
    assert missed == set(NOT_BEFORE_THE_END)
