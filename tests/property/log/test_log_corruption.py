"""Random corruptions of a log folder: no crash, no bad batch served, no start with a hole, restored from the leader.

A broker's runtime starts over each: its watermarks lie in the logs, its producers are those of the log.

The sample of the suite is a part of the ten thousand that `nightly` runs; HIGHWATER_CORRUPTIONS sets another number.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import pytest

from broker.log.files.checkpoints import CLEAN_SHUTDOWN, HIGH_WATERMARKS, LEADER_EPOCHS, META_PROPERTIES
from broker.log.files.cleaner_offsets import CLEANER_OFFSETS
from broker.log.files.unclean_shutdown import UNCLEAN_MARK
from tests.property.log.corruption_judge import Outcome, judge
from tests.property.log.log_folder import Template, make_template
from tests.property.log.log_tools import folder

pytestmark = pytest.mark.guarantee("L6")

SAMPLE = 600
NIGHTLY = int(os.environ.get("HIGHWATER_CORRUPTIONS", "10000"))


@pytest.fixture(scope="module")
def templates() -> Sequence[Template]:
    made = []
    for clean, flushed in ((True, True), (False, True), (False, False)):
        with folder() as path:
            made.append(make_template(f"{path}/dir", clean, flushed))
    return made


def _run(templates: Sequence[Template], seeds: range) -> list[Outcome]:
    outcomes = []
    with folder() as path:
        for seed in seeds:
            try:
                outcomes.append(judge(templates[seed % len(templates)], seed, f"{path}/{seed}"))
            except Exception as error:
                raise AssertionError(f"corruption with seed {seed}") from error
    return outcomes


def _assert_varied(outcomes: Sequence[Outcome]) -> None:
    """A sample that never cut, never went offline and never found anything by reading would prove nothing."""
    how = Counter(outcome.how for outcome in outcomes)
    assert {"untouched", "cut", "offline", "found-by-read", "refused"} <= how.keys(), how
    kinds = Counter(outcome.kind for outcome in outcomes)
    assert len(kinds) == 7, kinds
    hurt = {outcome.file.rpartition("/")[2] for outcome in outcomes}
    assert {CLEANER_OFFSETS, UNCLEAN_MARK, HIGH_WATERMARKS, LEADER_EPOCHS, META_PROPERTIES, CLEAN_SHUTDOWN} <= hurt
    assert {file.rpartition(".")[2] for file in hurt} >= {"log", "index", "timeindex", "snapshot", "metadata"}


def test_log_folder_corrupted_at_random_serves_nothing_bad_and_is_restored(templates: Sequence[Template]) -> None:
    _assert_varied(_run(templates, range(SAMPLE)))


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_log_folder_corrupted_ten_thousand_times_serves_nothing_bad(templates: Sequence[Template]) -> None:
    outcomes = _run(templates, range(NIGHTLY))
    _assert_varied(outcomes)
    print(Counter(outcome.how for outcome in outcomes))
