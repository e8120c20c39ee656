"""On a compacted topic a rule by which records stay has no verdict; every other one has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checkers.coverage.compacted import UNFIT, unfit
from checkers.coverage.missing_evidence import not_applicable
from checkers.history.retention import Retention
from checkers.history.run_info import RunInfo
from checkers.verdicts.catalogue import BY_NAME
from tests.support.run_info import run_info

INFO = run_info()
COMPACTED = replace(INFO, compacted=True)


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("info", [INFO, COMPACTED], ids=["kept", "compacted"])
def test_rule_by_which_records_stay_is_not_applicable_to_a_compacted_topic(name: str, info: RunInfo) -> None:
    left_out = info.compacted and name in UNFIT
    assert unfit(name, info) == left_out
    # Where nothing was seen of it, `poll-skip` and `nonmonotonic-poll` are so on any topic.
    if "own_positions" not in BY_NAME[name].needs:
        assert (not_applicable(BY_NAME[name], info, []) is not None) == left_out


def test_names_of_such_rules_are_checkers() -> None:
    assert BY_NAME.keys() >= UNFIT


def test_lookup_by_time_is_not_judged_where_brokers_stamp_the_records() -> None:
    stamped = replace(INFO, retention=Retention(append_time=True))
    assert [name for name in BY_NAME if unfit(name, stamped)] == ["wrong-lookup"]
    reason = not_applicable(BY_NAME["wrong-lookup"], stamped, [])
    assert reason is not None
    assert reason.startswith("the brokers stamp the records")
    compacted = not_applicable(BY_NAME["wrong-lookup"], replace(stamped, compacted=True), [])
    assert compacted is not None
    assert compacted.startswith("the topic is compacted")
