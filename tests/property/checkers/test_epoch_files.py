"""Epoch files that say nothing of what a log begins with."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.golden.white_logs import without_epochs
from tests.golden.white_parts import plain_life
from tests.support.judging import Case, case_of, judge_cases

pytestmark = [pytest.mark.spark, pytest.mark.guarantee("V2")]

CHECKER = "epoch-cache"


def _case(topic: str, first_broker: int, positions: int) -> Case:
    """Of one replica the epoch file lacks its first entries."""
    case = case_of(plain_life(topic, first_broker))
    without_epochs(case, positions)
    return case


def test_log_that_begins_before_its_epoch_file_is_found(spark: SparkSession, tmp_path: Path) -> None:
    """Where a request may have moved its start, a stored history is legal: that takes entries before batches."""
    cases = {"whole": _case("whole", 10, 0), "headless": _case("headless", 20, 1), "none": _case("none", 30, 99)}
    judged = judge_cases(spark, tmp_path, cases)
    assert {name: judged[name][CHECKER].verdict for name in cases} == {
        "whole": "valid",
        "headless": "invalid",
        "none": "unknown",
    }
