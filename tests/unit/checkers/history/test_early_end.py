from __future__ import annotations

import pytest

from checkers.history.early_end import early_end_of

RAW = {
    "checker": "duplicate",
    "found": "value 7 twice",
    "topic_partition": "t-0",
    "operations": [4, 19],
    "at_ns": 12_340_000_000,
    "lines": 900,
}


def test_early_end_says_what_found_it_when_and_by_which_operation() -> None:
    early = early_end_of(RAW)
    assert early is not None
    assert early.said == "ended early, by what duplicate had found at 12.3 s, operation 19"
    assert early.as_json(confirmed=True) == {**RAW, "confirmed": True}


def test_early_end_that_names_no_partition_is_of_any() -> None:
    early = early_end_of({name: value for name, value in RAW.items() if name != "topic_partition"})
    assert early is not None
    assert early.partition is None


def test_early_end_of_a_run_that_went_to_its_end_is_none() -> None:
    assert early_end_of(None) is None


def test_early_end_that_lacks_a_part_is_refused() -> None:
    with pytest.raises(KeyError):
        early_end_of({"checker": "duplicate"})
